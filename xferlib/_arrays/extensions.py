"""Products of matrices, and the extensions of the namespace: ``linalg`` and ``fft``.

Norms, and products where nothing else computes them, are kernels. Products of floats go to a vendor's library, where
there is one; factorisations and Fourier transforms to NumPy where the host can read the memory, else to a library of
the device.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._arrays import functions, indexing, primitives
from xferlib._arrays.primitives import (
    Primitives,
    Shape,
    binary_kernel,
    check_dtype_argument,
    enqueue_work,
    set_name,
    unary_kernel,
)
from xferlib._core import streams
from xferlib._core.arrays import Array, ArrayInfo, axes_of, axis_of, c_strides, integer_of, merge_axes
from xferlib._core.backend import Matrices, Multiply, Product
from xferlib._core.dtypes import promote, refuse_arithmetic, sum_dtype
from xferlib._core.namespaces import check_frequencies, check_matrix, steps_to_shift
from xferlib._runtime.checks import choice, flag
from xferlib.errors import (
    ArgumentError,
    LayoutError,
    LayoutTypeError,
    UnsupportedDTypeError,
    UnsupportedError,
    quote,
)
from xferlib.kernels import ElementwiseKernel, ReductionKernel, cuda_arrays, elementwise, reduction

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, RawStream


# Stacks of matrices as a vendor's library multiplies them: leading dimensions, steps, and few calls.

DTYPES = frozenset(map(np.dtype, ("float16", "float32", "float64", "complex64", "complex128")))
"""Those that the libraries multiply; integers have no order of sums, and kernels do for them."""


def multiply(lib: Primitives, left: Array, right: Array, out: Array) -> bool:
    """Do ``out[...] = left @ right``, of one dtype, by the device's library or a kernel; whether that was done."""
    one, two, three = (lib.info(each) for each in (left, right, out))
    if not multiplies(lib, three):
        return False
    if not three.size:
        return True
    if not one.shape[-1]:
        indexing.assign(lib, out, 0)
        return True
    if _matrices(one) is None:
        left = lib.copy(left)
        one = lib.info(left)
    if _matrices(two) is None:
        right = lib.copy(right)
        two = lib.info(right)
    if (calls := prepare_multiply(lib, one, two, three)) is None:
        return False

    def run(a: ArrayInfo, b: ArrayInfo, c: ArrayInfo, *, stream: RawStream) -> None:
        for call in calls:
            call(a.pointer, b.pointer, c.pointer, stream=stream)

    lib.enqueue("matmul", [left, right, out], run, (one, two, three))
    return True


def multiplies(lib: Primitives, info: ArrayInfo) -> bool:
    """Whether a library, or a kernel in its place, multiplies matrices of such a dtype on such a device."""
    return _has_library(lib, info) or (info.device.kind == "cuda" and info.dtype.kind in "iuf")


def _has_library(lib: Primitives, info: ArrayInfo) -> bool:
    return info.dtype in DTYPES and lib.products(info.device) is not None


def prepare_multiply(lib: Primitives, left: ArrayInfo, right: ArrayInfo, out: ArrayInfo) -> list[Multiply] | None:
    """The calls of the device's library, or of a kernel; None where a sum for each element is faster."""
    found = products(left, right, out)
    if _has_library(lib, out):
        library = lib.products(out.device)
        assert library is not None
        return [library.multiplier(each) for each in found]
    if not all(map(cuda_arrays.multiplies, found)):
        return None
    owner = lib.backend.at(out.device)
    return [cuda_arrays.prepare_multiply(owner, out.device, each) for each in found]


def is_plain(info: ArrayInfo) -> bool:
    """Whether a library takes the matrices of an array where they lie."""
    return _matrices(info) is not None


def products(left: ArrayInfo, right: ArrayInfo, out: ArrayInfo) -> list[Product]:
    """The calls for a stack: usually one, since axes that are one step apart are one axis."""
    operands = (left, right, out)
    matrices = [_matrices(each) for each in operands]
    assert None not in matrices
    a, b, c = (each for each in matrices if each is not None)
    rows, inner, columns = *left.shape[-2:], right.shape[-1]
    batch = out.shape[:-2]
    axes = merge_axes(zip(batch, *(_steps(each, batch) for each in operands), strict=True))
    itemsize = out.dtype.itemsize
    if axes and not a.is_transposed and not axes[-1][2]:  # one right matrix for many rows
        extent, step = axes[-1][0], axes[-1][1] // itemsize
        if rows == 1 and step >= inner:
            a = a._replace(leading=step)
        if step == rows * a.leading:
            rows, axes = rows * extent, axes[:-1]
    many = max(axes, default=(1, 0, 0, 0))
    rest = list(axes)
    if axes:
        rest.remove(many)
    found = []
    for index in itertools.product(*(range(extent) for extent, *_ in rest)):
        offsets = [sum(at * axis[number] for at, axis in zip(index, rest, strict=True)) for number in (1, 2, 3)]
        placed = [
            each._replace(offset=offset, step=step // itemsize)
            for each, offset, step in zip((a, b, c), offsets, many[1:], strict=True)
        ]
        found.append(Product(out.dtype, many[0], rows, inner, columns, *placed))
    return found


def _steps(info: ArrayInfo, batch: Shape) -> Shape:
    """The bytes between the matrices of an operand along each axis of the stack; 0 where it has one for all."""
    own = info.shape[:-2]
    steps = [0 if extent == 1 else stride for extent, stride in zip(own, info.strides, strict=False)]
    return (*(0,) * (len(batch) - len(own)), *steps)


def _matrices(info: ArrayInfo) -> Matrices | None:
    """How the matrices of an array lie; None if that is nothing a library takes: it must be copied."""
    rows, columns = info.shape[-2:]
    itemsize = info.dtype.itemsize
    if any(stride < 0 or stride % itemsize for stride in info.strides):
        return None
    down, along = (stride // itemsize for stride in info.strides[-2:])
    if (columns == 1 or along == 1) and (rows == 1 or down >= columns):
        return Matrices(0, max(columns, down if rows > 1 else 0), 0)
    if (rows == 1 or down == 1) and (columns == 1 or along >= rows):
        return Matrices(0, max(rows, along if columns > 1 else 0), 0, is_transposed=True)
    return None


# Functions that another array library computes: NumPy where the host can read the memory, else a device's own.
#
# Factorisations and Fourier transforms are not work for element-wise kernels. A backend whose kernels run on a GPU and
# that has no `FunctionLibrary` refuses them by name.

DType = np.dtype[Any]

_MOST_KINDS = 256
"""Functions and dtypes of operands, whose results' dtypes are remembered."""


def enqueue_library_call(
    lib: Primitives,
    name: str,
    function: Callable[..., Any],
    operands: Sequence[Array],
    results: Sequence[tuple[Shape, DType]],
    cores: tuple[int, ...] = (),
) -> list[Array]:
    """Enqueue ``function(library, *operands)``, which returns one array or several.

    Args:
        lib: The library.
        name: The function's name, as the caller knows it.
        function: Computes with NumPy, or another module that has its functions, and with that module's arrays; where
            it finds a matrix singular, the results are NaN.
        operands: The arrays.
        results: The shape and the dtype of each result.
        cores: For each operand how many of its last axes are one matrix, vector or number.

    Raises:
        UnsupportedError: The host cannot read this memory, and the device has no library.
        CaptureError: The current stream is captured, and a device's library computes.
    """
    device = lib.infos(name, operands)[0].device
    found = [lib.empty(shape, dtype, device) for shape, dtype in results]

    def run(namespace: Any, *arrays: Any) -> None:
        _compute(namespace, function, cores, arrays[: len(operands)], arrays[len(operands) :])

    if lib.on_host(name, functools.partial(run, np), operands, found):
        return found
    library = lib.function_library(device)
    if library is None:
        owner = lib.backend
        why = owner.capabilities.why.get("function_library", f"{owner.name} has no library for it that xferlib calls")
        raise UnsupportedError(
            f"{name}: {why}; or compute it on the host, numpy.{name}(xferlib.to_host(x)), or with an array of CuPy's "
            "or torch's"
        )

    def enqueue(*infos: ArrayInfo, stream: RawStream) -> None:
        streams.refuse(name, stream)  # the library waits for codes of errors, and recycles its memory after the call
        with library.inside(stream):
            run(library.namespace, *map(library.view, infos))

    lib.enqueue(
        name, [*(each if lib.info(each).is_c_contiguous else lib.copy(each) for each in operands), *found], enqueue
    )
    return found


def _compute(namespace: Any, function: Callable[..., Any], cores: tuple[int, ...], operands: Any, targets: Any) -> None:
    try:
        with np.errstate(all="ignore"):
            found = function(namespace, *operands)
    except np.linalg.LinAlgError:
        _compute_each(namespace, function, cores, operands, targets)
        return
    for target, each in zip(targets, found if isinstance(found, tuple) else (found,), strict=True):
        target[...] = each


def _compute_each(
    namespace: Any, function: Callable[..., Any], cores: tuple[int, ...], operands: Any, targets: Any
) -> None:
    """Compute for every matrix of a stack by itself: libraries raise if one of them is singular."""
    split = [each.ndim - core for each, core in zip(operands, cores, strict=True)]
    batch = np.broadcast_shapes(*(each.shape[:at] for each, at in zip(operands, split, strict=True)))
    if not batch:
        for each in targets:
            each.fill(np.nan if each.dtype.kind in "fc" else 0)
        return
    spread = [namespace.broadcast_to(each, batch + each.shape[at:]) for each, at in zip(operands, split, strict=True)]
    for index in np.ndindex(batch):
        _compute(
            namespace, function, cores, [each[index] for each in spread], [each[(*index, ...)] for each in targets]
        )


@functools.lru_cache(_MOST_KINDS)
def dtypes(function: Callable[..., Any], *given: DType) -> tuple[DType, ...]:
    """The dtypes of the results of a function of NumPy's for operands of these dtypes, asked with small matrices.

    Raises:
        TypeError: NumPy refuses a dtype.
    """
    found = function(*(np.eye(2, dtype=each) for each in given))
    return tuple(each.dtype for each in (found if isinstance(found, tuple) else (found,)))


def matrices(lib: Primitives, name: str, x: Any, *, is_square: bool = False) -> tuple[Array, Shape]:
    """An operand and its shape.

    Raises:
        LayoutError: It is not a stack of matrices, or of matrices that are not square.
    """
    x = lib.array(name, x)
    shape = lib.info(x).shape
    check_matrix(name, shape)
    if is_square and shape[-1] != shape[-2]:
        raise LayoutError(f"{name}: matrices of shape {shape[-2:]} are not square")
    return x, shape


# Products that a device's library computes again: layouts are checked once, and calls prepared.
#
# A product of small matrices takes a device some microseconds, and checking its operands in Python many times that.

_MOST_CALLS = 16
"""Of one plan; the stacks that are multiplied by more are rare, and may be thousands."""


class Operands(NamedTuple):
    """The matrices of a product, and the shape of its result."""

    left: Array
    right: Array
    shape: Shape


class ProductPlan(NamedTuple):
    """A product of two arrays of known layouts, of one dtype and device."""

    backend: Backend
    device: Device
    dtype: np.dtype[Any]
    shape: Shape
    calls: Sequence[Multiply]

    def run(self, left: Array, right: Array) -> Array:
        """Enqueue the product of other arrays of these layouts on the current stream."""
        backend, device, dtype, shape, calls = self
        backend.attach(device)
        stream = backend.stream_current(device)
        out = backend.empty(shape, dtype, device=device, stream=stream)
        arrays = (left, right, out)
        run = calls[0] if len(calls) == 1 else self._enqueue
        enqueue_work(backend, stream, "matmul", arrays, None, run, *backend.operands(arrays))
        return out

    def _enqueue(self, left: int, right: int, out: int, *, stream: RawStream) -> None:
        for call in self.calls:
            call(left, right, out, stream=stream)


def find(
    lib: Primitives, x1: Any, x2: Any, how: Hashable, operands: Callable[[Primitives, Array, Array], Operands | None]
) -> ProductPlan | None:
    """The plan for two arguments of a function; None where there is none: errors and conversions are not planned.

    Args:
        lib: The library.
        x1, x2: The arguments.
        how: All that the product depends on besides them.
        operands: Gives the matrices, which are views of the arguments.
    """
    return lib.find_plan(how, (x1, x2), functools.partial(_make_plan, lib, operands=operands))


def _make_plan(
    lib: Primitives, x1: Array, x2: Array, operands: Callable[[Primitives, Array, Array], Operands | None]
) -> ProductPlan | None:
    given = lib.info(x1), lib.info(x2)
    dtype, device = given[0].dtype, given[0].device
    if dtype != given[1].dtype or device is not given[1].device or not (given[0].size and given[1].size):
        return None
    if not multiplies(lib, given[0]):
        return None
    found = operands(lib, x1, x2)
    if found is None:
        return None
    left, right = infos = lib.info(found.left), lib.info(found.right)
    if any(view.pointer != each.pointer or not is_plain(view) for view, each in zip(infos, given, strict=True)):
        return None  # it is copied before it is multiplied
    batch = primitives.common_shape("matmul", left.shape[:-2], right.shape[:-2])
    shape = (*batch, left.shape[-2], right.shape[-1])
    out = ArrayInfo(0, shape, c_strides(shape, dtype.itemsize), dtype, device, True)
    calls = prepare_multiply(lib, left, right, out)
    if calls is None or len(calls) > _MOST_CALLS:
        return None
    owner = lib.backend.at(device)
    return ProductPlan(owner, device, dtype, found.shape, calls)


@functools.cache
def _sum_of_products() -> ReductionKernel:
    return reduction(
        "T x1, T x2", "T y", map_expr="x1 * x2", reduce_expr="a + b", post_map_expr="y = a", identity="0", name="matmul"
    )


def _products(lib: Primitives, left: Array, right: Array) -> Array:
    """Products of stacks of matrices (..., M, K) and (..., K, N), of one dtype and with axes that broadcast.

    The vendor's library computes them where there is one, else a kernel of tiles; NumPy's BLAS where the host does. Few
    results of long sums, and complex numbers without the library, are a reduction, in which each element is a sum of
    its own. Integers are exact in all; of floats the order of the sums, and with it the last bits, differ.
    """
    one, two = lib.info(left), lib.info(right)
    shape = (*primitives.common_shape("matmul", one.shape[:-2], two.shape[:-2]), one.shape[-2], two.shape[-1])
    out = lib.empty(shape, one.dtype, one.device)
    if multiply(lib, left, right, out):
        return out
    if lib.on_host("matmul", lambda a, b, found: np.matmul(a, b, out=found), [left, right], [out]):
        return out
    rows = primitives.expand_dims(lib, left, -2)
    columns = primitives.expand_dims(lib, primitives.matrix_transpose(lib, right), -3)
    return _sum_of_products()(rows, columns, axis=-1)


def _prepare_operands(
    lib: Primitives, name: str, x1: Any, x2: Any
) -> tuple[Array, Array, np.dtype[Any]]:  # fmt: skip
    """Both arrays in the dtype of the sums, and the dtype of the result: floats of 16 bits are summed in float32."""
    given = [lib.array(name, each) for each in (x1, x2)]
    infos = lib.infos(name, given)
    for number, info in enumerate(infos, 1):
        refuse_arithmetic(info.dtype, f"{name}: x{number}")
    result = promote(*(info.dtype for info in infos))
    is_kept = result == np.float16 and name != "vecdot" and lib.products(infos[0].device) is not None
    wide = result if is_kept else sum_dtype(result)
    left, right = (
        each if info.dtype == wide else lib.copy(each, wide) for each, info in zip(given, infos, strict=True)
    )
    return left, right, result


def _convert_result(lib: Primitives, found: Array, dtype: np.dtype[Any]) -> Array:
    return found if lib.info(found).dtype == dtype else lib.copy(found, dtype)


def _matmul_operands(lib: Primitives, x1: Array, x2: Array) -> Operands | None:
    """The operands of `matmul`, if they fit."""
    one, two = lib.info(x1).shape, lib.info(x2).shape
    if not one or not two or one[-1] != two[-2 if len(two) > 1 else 0]:
        return None
    left = x1 if len(one) > 1 else primitives.expand_dims(lib, x1, 0)
    right = x2 if len(two) > 1 else primitives.expand_dims(lib, x2, 1)
    try:
        batch = np.broadcast_shapes(one[:-2], two[:-2])
    except ValueError:
        return None
    return Operands(left, right, (*batch, *one[-2:-1], *(two[-1:] if len(two) > 1 else ())))


def matmul(lib: Primitives, x1: Array, x2: Array, /) -> Array:
    """The product of matrices."""
    if (plan := find(lib, x1, x2, "matmul", _matmul_operands)) is not None:
        return plan.run(x1, x2)
    left, right, dtype = _prepare_operands(lib, "matmul", x1, x2)
    one, two = lib.info(left).shape, lib.info(right).shape
    if not one or not two:
        raise LayoutError(f"matmul: shapes {one} and {two}: an array without axes is not a matrix; use multiply")
    rows = two[-2 if len(two) > 1 else 0]
    if one[-1] != rows:
        raise LayoutError(f"matmul: shapes {one} and {two} do not fit: {one[-1]} columns, {rows} rows; reshape one")
    if len(one) == 1:
        left = primitives.expand_dims(lib, left, 0)
    if len(two) == 1:
        right = primitives.expand_dims(lib, right, 1)
    primitives.common_shape("matmul", one[:-2], two[:-2])
    found = _convert_result(lib, _products(lib, left, right), dtype)
    if len(two) == 1:
        found = primitives.squeeze(lib, found, -1)
    return primitives.squeeze(lib, found, -1 if len(two) == 1 else -2) if len(one) == 1 else found


def tensordot(
    lib: Primitives, x1: Array, x2: Array, /, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Array:  # fmt: skip
    """Sums of products over several axes."""
    if not isinstance(axes, int):
        # Which may be iterators, and are read more than once.
        one, two = ((each,) if isinstance(each, int) else tuple(each) for each in axes)
        axes = (one, two)
    operands = functools.partial(_contract_axes, axes=axes)
    if (plan := find(lib, x1, x2, ("tensordot", axes), operands)) is not None:
        return plan.run(x1, x2)
    left, right, dtype = _prepare_operands(lib, "tensordot", x1, x2)
    rows, columns, shape = _contract_axes(lib, left, right, axes=axes)
    return primitives.reshape(lib, _convert_result(lib, _products(lib, rows, columns), dtype), shape)


def _contract_axes(
    lib: Primitives, left: Array, right: Array, *, axes: int | tuple[Sequence[int], Sequence[int]]
) -> Operands:
    """The operands of `tensordot` as two matrices.

    Raises:
        LayoutError: The axes do not fit.
    """
    one, two = lib.info(left).shape, lib.info(right).shape
    if isinstance(axes, int):
        first, second = (*range(len(one) - axes, len(one)),), (*range(axes),)
    else:
        first, second = (axes_of("tensordot", given, len(shape)) for given, shape in zip(axes, (one, two), strict=True))
    extents = [one[axis] for axis in first if 0 <= axis < len(one)], [two[axis] for axis in second if axis < len(two)]
    if extents[0] != extents[1] or len(extents[0]) != len(first):
        raise LayoutError(
            f"tensordot: axes {first} of shape {one} and {second} of shape {two} do not fit; choose others"
        )
    kept = [axis for axis in range(len(one)) if axis not in first], [a for a in range(len(two)) if a not in second]
    count = math.prod(extents[0])
    shapes = tuple(one[axis] for axis in kept[0]), tuple(two[axis] for axis in kept[1])
    rows = primitives.reshape(
        lib, primitives.permute_dims(lib, left, (*kept[0], *first)), (math.prod(shapes[0]), count)
    )
    columns = primitives.reshape(
        lib, primitives.permute_dims(lib, right, (*second, *kept[1])), (count, math.prod(shapes[1]))
    )
    return Operands(rows, columns, (*shapes[0], *shapes[1]))


def vecdot(lib: Primitives, x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Dot products along an axis."""
    left, right, dtype = _prepare_operands(lib, "vecdot", x1, x2)
    moved = []
    for each in (left, right):
        along = axis_of("vecdot", axis, len(lib.info(each).shape))
        moved.append(primitives.moveaxis(lib, each, along, -1))
    one, two = (lib.info(each).shape for each in moved)
    if one[-1] != two[-1]:
        raise LayoutError(f"vecdot: axis {axis} of shapes {one} and {two} has two extents; cut one of the arrays")
    primitives.common_shape("vecdot", one, two)
    first = unary_kernel("conj")(moved[0]) if dtype.kind == "c" else moved[0]
    return _convert_result(lib, _sum_of_products()(first, moved[1], axis=-1), dtype)


def outer(lib: Primitives, x1: Array, x2: Array, /) -> Array:
    """The products of each element of one vector and each of another."""
    given = [lib.array("outer", each) for each in (x1, x2)]
    shapes = [lib.info(each).shape for each in given]
    if [len(shape) for shape in shapes] != [1, 1]:
        raise LayoutError(f"outer: shapes {shapes[0]} and {shapes[1]} are not two vectors; reshape them to one axis")
    return binary_kernel("multiply")(primitives.expand_dims(lib, given[0], 1), given[1])


# Linear algebra.

_Shapes = Callable[[Shape, int, int], tuple[Shape, ...]]
"""Gives the shapes of the results, from ``batch, rows, columns``."""


def _factors(
    lib: Primitives,
    name: str,
    x: Any,
    shapes: _Shapes,
    *,
    is_square: bool = False,
    **options: Any,
) -> list[Array]:
    """Compute with one stack of matrices.

    Args:
        lib, name, x: The library, the function and its operand.
        shapes: Of the results.
        is_square: Whether the matrices must be square.
        options: Of the function: numbers, or one array for each matrix.
    """
    call = f"linalg.{name}"
    x, shape = matrices(lib, call, x, is_square=is_square)
    info = lib.info(x)
    if "rtol" in options:
        options["rtol"] = _tolerance(lib, call, options["rtol"], info)
    kinds = dtypes(getattr(np.linalg, name), info.dtype)
    if name in ("eig", "eigvals"):  # NumPy's are floats where no imaginary part is left
        kinds = tuple(np.result_type(each, np.complex64) for each in kinds)
    found = list(zip(shapes(shape[:-2], *shape[-2:]), kinds, strict=True))
    given = {key: value for key, value in options.items() if lib.is_array(value)}
    numbers = {key: value for key, value in options.items() if key not in given}
    if not info.size and lib.function_library(info.device) is not None:  # of which not every library has heard
        empty = getattr(np.linalg, name)(np.empty(shape, _choose_float_dtype(info.dtype)), **numbers)
        results = empty if isinstance(empty, tuple) else (empty,)
        return [lib.upload(each, info.device, kind) for each, kind in zip(map(np.asarray, results), kinds, strict=True)]

    def compute(namespace: Any, a: Any, *arrays: Any) -> Any:
        return getattr(namespace.linalg, name)(a, **dict(zip(given, arrays, strict=True)), **numbers)

    return enqueue_library_call(lib, call, compute, [x, *given.values()], found, (2, *(0,) * len(given)))


def _tolerance(lib: Primitives, call: str, rtol: Any, matrices: ArrayInfo) -> Any:
    """Check a tolerance, a number or one for each matrix, before a library reads it within an operation of the device.

    Raises:
        ArgumentError, LayoutError: It is not a real number, or no array of such that fits.
    """
    if rtol is None:
        return None
    if isinstance(rtol, (int, float, np.integer, np.floating)):
        return float(rtol)
    if not (isinstance(rtol, np.ndarray) or lib.is_array(rtol)) or np.dtype(rtol.dtype).kind not in "iuf":
        raise ArgumentError(f"{call}: rtol={quote(rtol)} is not a real number; give one, or an array with one a matrix")
    batch = matrices.shape[:-2]
    if primitives.common_shape(call, batch, tuple(rtol.shape)) != batch:
        raise LayoutError(f"{call}: rtol has shape {tuple(rtol.shape)}, and the matrices {batch}; reshape it")
    return rtol if lib.is_array(rtol) else lib.upload(rtol, matrices.device)


def _number(batch: Shape, _m: int, _n: int) -> tuple[Shape, ...]:
    return (batch,)


def _vector(batch: Shape, m: int, n: int) -> tuple[Shape, ...]:
    return ((*batch, min(m, n)),)


def _matrix(batch: Shape, m: int, n: int) -> tuple[Shape, ...]:
    return ((*batch, m, n),)


def _vectors(batch: Shape, m: int, n: int) -> tuple[Shape, ...]:
    return (*batch, m), (*batch, m, n)


class EigResult(NamedTuple):
    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    U: Array
    S: Array
    Vh: Array


def _factor(name: str, doc: str, shapes: _Shapes, result: Any = None, *, is_square: bool = True) -> Callable[..., Any]:
    """A function of matrices without options: its result's shapes, and the class of several."""

    def operate(lib: Primitives, x: Array, /) -> Any:
        found = _factors(lib, name, x, shapes, is_square=is_square)
        return found[0] if result is None else result(*found)

    return set_name(name, operate, doc)


_FACTORS = {
    each.__name__: each
    for each in (
        _factor("det", "The determinants of square matrices.", _number),
        _factor(
            "eig", "The complex eigenvalues, in no order, and eigenvectors of square matrices.", _vectors, EigResult
        ),
        _factor("eigvals", "The complex eigenvalues of any square matrices, in no order.", _vector),
        _factor(
            "eigh",
            "The eigenvalues, in ascending order, and eigenvectors of symmetric or Hermitian matrices.",
            _vectors,
            EighResult,
        ),
        _factor("eigvalsh", "The eigenvalues of symmetric or Hermitian matrices, in ascending order.", _vector),
        _factor("inv", "The inverses of square matrices; NaN where one is singular.", _matrix),
        _factor(
            "slogdet",
            "The signs and the logarithms of the absolute values of determinants.",
            lambda b, _m, _n: (b, b),
            SlogdetResult,
        ),
        _factor("svdvals", "The singular values, in descending order.", _vector, is_square=False),
    )
}


def cholesky(lib: Primitives, x: Array, /, *, upper: bool = False) -> Array:
    """The triangular factor of symmetric or Hermitian positive-definite matrices; NaN where one is not definite."""
    upper = flag(upper, "linalg.cholesky: upper")
    return _factors(lib, "cholesky", x, _matrix, is_square=True, upper=upper)[0]


def pinv(lib: Primitives, x: Array, /, *, rtol: Any = None) -> Array:
    """The Moore-Penrose inverses; singular values below ``rtol`` times the greatest count as 0."""
    x = _to_float(lib, lib.array("linalg.pinv", x))  # NumPy's default of rtol is undefined for integers
    return _factors(lib, "pinv", x, lambda batch, m, n: ((*batch, n, m),), rtol=rtol)[0]


def qr(lib: Primitives, x: Array, /, *, mode: str = "reduced") -> QRResult:
    """The orthonormal and the upper triangular factors; ``mode="complete"`` makes the first one square."""
    choice(mode, ("reduced", "complete"), "linalg.qr: mode")

    def shapes(batch: Shape, m: int, n: int) -> tuple[Shape, ...]:
        inner = m if mode == "complete" else min(m, n)
        return (*batch, m, inner), (*batch, inner, n)

    return QRResult(*_factors(lib, "qr", x, shapes, mode=mode))


def svd(lib: Primitives, x: Array, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decompositions."""

    def shapes(batch: Shape, m: int, n: int) -> tuple[Shape, ...]:
        k = min(m, n)
        return (*batch, m, m if full_matrices else k), (*batch, k), (*batch, n if full_matrices else k, n)

    return SVDResult(*_factors(lib, "svd", x, shapes, full_matrices=full_matrices))


def matrix_rank(lib: Primitives, x: Array, /, *, rtol: Any = None) -> Array:
    """The number of singular values above ``rtol`` times the greatest one."""
    return _factors(lib, "matrix_rank", x, _number, rtol=rtol)[0]


def solve(lib: Primitives, x1: Array, x2: Array, /) -> Array:
    """The solutions of ``x1 @ x == x2``; a vector ``x2`` is one column. NaN where a matrix is singular."""
    x1, one = matrices(lib, "linalg.solve", x1, is_square=True)
    x2 = lib.array("linalg.solve", x2)
    infos = lib.infos("linalg.solve", (x1, x2))
    two = infos[1].shape
    if not two or two[-1 if len(two) == 1 else -2] != one[-1]:
        raise LayoutError(f"linalg.solve: {one[-1]} unknowns, and right sides of shape {two} do not fit; reshape them")
    rest = () if len(two) == 1 else two[-1:]
    batch = primitives.common_shape("linalg.solve", one[:-2], two[:-2] if rest else ())
    (kind,) = dtypes(np.linalg.solve, infos[0].dtype, infos[1].dtype)
    shape = (*batch, one[-1], *rest)
    if not math.prod(shape):
        return lib.empty(shape, kind, infos[0].device)
    if not rest:  # as one column: libraries differ in when they take the right sides for vectors
        x2, shape = primitives.expand_dims(lib, x2, -1), (*shape, 1)
    if lib.function_library(infos[0].device) is not None:  # NumPy broadcasts stacks, other libraries need not
        x1, x2 = primitives.broadcast_to(lib, x1, (*batch, *one[-2:])), primitives.broadcast_to(lib, x2, shape)
    solved = lambda namespace, a, b: namespace.linalg.solve(a, b)
    found = enqueue_library_call(lib, "linalg.solve", solved, [x1, x2], [(shape, kind)], (2, 2))[0]
    return found if rest else primitives.squeeze(lib, found, -1)


# --- parts and products


def diagonal(lib: Primitives, x: Array, /, *, offset: int = 0) -> Array:
    """A diagonal of the last two axes: a view."""
    x, _ = matrices(lib, "linalg.diagonal", x)
    return lib.view_as_shadow(x, np.linalg.diagonal(lib.shadow(x), offset=offset))


def trace(lib: Primitives, x: Array, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sums of a diagonal of the last two axes."""
    return functions.accumulation(lib, "sum")(diagonal(lib, x, offset=offset), axis=-1, dtype=dtype)


def cross(lib: Primitives, x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The cross products of vectors of three elements along an axis."""
    given = [lib.array("linalg.cross", each) for each in (x1, x2)]
    shapes = [info.shape for info in lib.infos("linalg.cross", given)]
    along = [axis_of("linalg.cross", axis, len(shape)) for shape in shapes]
    if [shape[place] for shape, place in zip(shapes, along, strict=True)] != [3, 3]:
        raise LayoutError(f"linalg.cross: axis {axis} of shapes {shapes[0]} and {shapes[1]} has not three elements")
    a, b = (
        primitives.unstack(lib, primitives.moveaxis(lib, each, place, -1), axis=-1)
        for each, place in zip(given, along, strict=True)
    )
    multiply, subtract = binary_kernel("multiply"), binary_kernel("subtract")
    parts = [subtract(multiply(a[i], b[j]), multiply(a[j], b[i])) for i, j in ((1, 2), (2, 0), (0, 1))]
    return functions.stack(lib, parts, axis=axis)


def matrix_power(lib: Primitives, x: Array, n: int, /) -> Array:
    """Each square matrix times itself, ``n`` in all; of a negative ``n`` the inverse."""
    x, shape = matrices(lib, "linalg.matrix_power", x, is_square=True)
    n = integer_of(n, what="linalg.matrix_power: n")
    if n < 0:
        x, n = _FACTORS["inv"](lib, x), -n
    if n == 0:
        one = lib.upload(np.eye(shape[-1], dtype=lib.info(x).dtype), lib.info(x).device)
        return lib.copy(primitives.broadcast_to(lib, one, shape))
    found: Array | None = None
    while True:  # by squaring
        if n & 1:
            found = x if found is None else matmul(lib, found, x)
        n >>= 1
        if not n:
            return found
        x = matmul(lib, x, x)


# --- norms


def vector_norm(
    lib: Primitives, x: Array, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2  # noqa: A002 - the standard's
) -> Array:  # fmt: skip
    """The norms of vectors: over all elements, or along axes."""
    x = lib.array("linalg.vector_norm", x)
    absolute = unary_kernel("abs")(_to_float(lib, x))
    power, total = binary_kernel("power"), functions.accumulation(lib, "sum")
    if ord in (math.inf, -math.inf):
        return _extreme(lib, absolute, axis, keepdims=keepdims, is_largest=ord > 0)
    if ord == 0:
        return _count(lib, absolute, axis, keepdims=keepdims)
    if ord == 1:
        return total(absolute, axis=axis, keepdims=keepdims)
    if ord == 2:
        squares = unary_kernel("square")(absolute)
        return unary_kernel("sqrt")(total(squares, axis=axis, keepdims=keepdims))
    return power(total(power(absolute, float(ord)), axis=axis, keepdims=keepdims), 1.0 / ord)


def _extreme(lib: Primitives, absolute: Array, axis: Any, *, keepdims: bool, is_largest: bool) -> Array:
    """The greatest of absolute values, 0 where there are none; or the least."""
    if is_largest and not lib.info(absolute).size:
        return _count(lib, absolute, axis, keepdims=keepdims)
    return functions.reduction(lib, "max" if is_largest else "min")(absolute, axis=axis, keepdims=keepdims)


def _count(lib: Primitives, absolute: Array, axis: Any, *, keepdims: bool) -> Array:
    """How many are not 0, in the dtype of the values."""
    count = functions.reduction(lib, "count_nonzero")(absolute, axis=axis, keepdims=keepdims)
    return lib.copy(count, lib.info(absolute).dtype)


def matrix_norm(
    lib: Primitives, x: Array, /, *, keepdims: bool = False, ord: Any = "fro"  # noqa: A002 - the standard's
) -> Array:  # fmt: skip
    """The norms of matrices, over the last two axes."""
    x, _ = matrices(lib, "linalg.matrix_norm", x)
    if ord == "fro":
        return vector_norm(lib, x, axis=(-2, -1), keepdims=keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        first, second = (-2, -1) if abs(ord) == 1 else (-1, -2)
        sums = vector_norm(lib, x, axis=first, keepdims=True, ord=1)
        found = _extreme(lib, sums, second, keepdims=True, is_largest=ord > 0)
    elif ord in (2, -2, "nuc"):
        values = primitives.expand_dims(lib, _FACTORS["svdvals"](lib, x), -1)
        if ord == "nuc":
            found = functions.accumulation(lib, "sum")(values, axis=-2, keepdims=True)
        else:
            found = _extreme(lib, values, -2, keepdims=True, is_largest=ord > 0)
    else:
        raise ArgumentError(
            f"linalg.matrix_norm: ord={quote(ord)} is none of 'fro', 'nuc', 1, 2, inf and their negatives"
        )
    return found if keepdims else primitives.squeeze(lib, found, (-2, -1))


def _choose_float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.kind in "fc" else np.dtype("float64")


def _to_float(lib: Primitives, x: Array) -> Array:
    """Integers as float64; floats and complex numbers as they are."""
    dtype = lib.info(x).dtype
    wanted = _choose_float_dtype(dtype)
    return x if dtype == wanted else lib.copy(x, wanted)


LINALG: tuple[Callable[..., Any], ...] = (
    *_FACTORS.values(), cholesky, cross, diagonal, matmul, matrix_norm, matrix_power, matrix_rank,
    primitives.matrix_transpose, outer, pinv, qr, solve, svd, tensordot, trace, vecdot, vector_norm,
)  # fmt: skip
"""The functions of ``xp.linalg``."""


# Fourier transforms.

_DOC = "``fft.{}`` of the Array API, as NumPy computes it."
_HALF = ("rfft", "ihfft")
"""Their results have one half and the middle."""
_WHOLE = ("irfft", "hfft")
"""Their arguments have; their results are real."""


def _extent(name: str, given: int, n: int | None) -> int:
    """The elements of the result along an axis."""
    if name in _WHOLE:
        return 2 * (given - 1) if n is None else n
    elements = given if n is None else n
    return elements // 2 + 1 if name in _HALF else elements


@functools.cache
def _get_transform_dtype(name: str, dtype: DType) -> DType:
    found: DType = getattr(np.fft, name)(np.zeros(2, dtype)).dtype
    return found


def _transform(
    lib: Primitives, name: str, x: Array, places: Sequence[int], sizes: Sequence[int | None], wrong: str, **options: Any
) -> Array:
    """Compute a transform over axes, of which the last one may be halved.

    Args:
        lib, name, x: The library, the function and its operand.
        places, sizes: The axes, and the number of elements along each; None: all.
        wrong: Of the message, where there is no element.
        options: As NumPy's function takes them.
    """
    info, single = lib.info(x), name.removesuffix("n")
    _check_real(f"fft.{name}", single, info.dtype)
    shape = list(info.shape)
    for number, (place, size) in enumerate(zip(places, sizes, strict=True)):
        shape[place] = _extent(single if number == len(places) - 1 else "fft", shape[place], size)
    elements = [info.shape[place] if size is None else size for place, size in zip(places, sizes, strict=True)]
    if any(each < 1 for each in (*elements, *[shape[place] for place in places])):
        raise LayoutError(f"fft.{name}: no elements along {wrong} of 1 or more")
    result = _get_transform_dtype(single, info.dtype)
    if result == np.float16 and len(places) > 1:
        result = np.dtype("float32")  # as NumPy, whose first transform is to complex64
    if not info.size:  # of which NumPy reads memory that it has not filled
        return indexing.fill_new(lib, tuple(shape), 0, result, info.device)
    run = lambda namespace, a: getattr(namespace.fft, name)(a, **options)
    return enqueue_library_call(lib, f"fft.{name}", run, [x], [(tuple(shape), result)])[0]


def _along(name: str) -> Callable[..., Array]:
    """The transform of that name along one axis."""

    def transform(
        lib: Primitives, x: Array, /, n: int | None = None, axis: int = -1, norm: str | None = "backward"
    ) -> Array:
        x = lib.array(f"fft.{name}", x)
        along, norm = axis_of(f"fft.{name}", axis, len(lib.info(x).shape)), _check_norm(f"fft.{name}", norm)
        return _transform(lib, name, x, [along], [n], f"axis {axis}; give n=", n=n, axis=along, norm=norm)

    return set_name(name, transform, _DOC)


def _over(name: str) -> Callable[..., Array]:
    """The transform of that name over several axes."""

    def transform(
        lib: Primitives, x: Array, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
        norm: str | None = "backward",
    ) -> Array:  # fmt: skip
        x, call = lib.array(f"fft.{name}", x), f"fft.{name}"
        shape = lib.info(x).shape
        chosen, given = _check_axes(call, "axes", axes), _check_axes(call, "s", s)
        if chosen is None:
            chosen = (*range(-len(shape if given is None else given), 0),)
        places = [*axes_of(call, chosen, len(shape))]
        sizes: list[int | None] = [None] * len(places) if given is None else [*given]
        if len(sizes) != len(places):
            raise LayoutError(f"{call}: s has {len(sizes)} sizes, and there are {len(places)} axes; give one for each")
        sizes = [shape[place] if size == -1 else size for place, size in zip(places, sizes, strict=True)]
        norm = _check_norm(call, norm)
        if not places and name in ("rfftn", "irfftn"):
            raise LayoutError(f"{call}: there is no axis to transform; give an array or axes= with one")
        options = {"s": None if given is None else sizes, "axes": places, "norm": norm}
        return _transform(lib, name, x, places, sizes, f"one of axes {chosen}; give s=", **options)

    return set_name(name, transform, _DOC)


def _check_axes(call: str, what: str, given: Any) -> tuple[int, ...] | None:
    """A tuple of integers, or None."""
    if given is None:
        return None
    if not isinstance(given, (tuple, list)):
        raise LayoutTypeError(f"{call}: {what}={quote(given)} is not a tuple of integers; give one")
    return tuple(given)


def _check_real(call: str, name: str, dtype: np.dtype[Any]) -> None:
    """Refuse complex numbers for a transform of real ones."""
    if dtype.kind == "c" and name in (*_HALF, "rfft"):
        raise UnsupportedDTypeError(f"{call}: takes real numbers, not {dtype}; use fft.fft or fft.fftn")


def _check_norm(call: str, norm: str | None) -> str:
    if norm is None:
        return "backward"
    return choice(norm, ("backward", "ortho", "forward"), f"{call}: norm")


@functools.cache
def _frequencies_at() -> ElementwiseKernel:
    return elementwise("double k, double spacing, double n", "double y", "y = k * (1 / (n * spacing));", name="fftfreq")


def _frequencies(name: str) -> Callable[..., Array]:
    function = getattr(np.fft, name)

    def frequencies(
        lib: Primitives, n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None
    ) -> Array:  # fmt: skip
        check_frequencies(name, n)
        if not lib.is_array(d):
            return lib.upload(function(n, d), device, check_dtype_argument(dtype))
        spacing = lib.copy(functions.number_on_device(lib, name, d, device), np.dtype(np.float64))
        places = lib.upload(np.rint(function(n) * n), lib.info(d).device)
        found: Array = _frequencies_at()(places, spacing, n)
        return found if dtype is None else lib.copy(found, check_dtype_argument(dtype))

    return set_name(name, frequencies, _DOC)


def _make_shift(name: str) -> Callable[..., Array]:
    def shift(lib: Primitives, x: Array, /, axes: int | Sequence[int] | None = None) -> Array:
        x = lib.array(f"fft.{name}", x)
        places, steps = steps_to_shift(name, lib.info(x).shape, axes)
        return functions.roll(lib, x, steps, axis=places)

    return set_name(name, shift, _DOC)


FFT: tuple[Callable[..., Any], ...] = (
    *map(_along, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")), *map(_over, ("fftn", "ifftn", "rfftn", "irfftn")),
    *map(_frequencies, ("fftfreq", "rfftfreq")), *map(_make_shift, ("fftshift", "ifftshift")),
)  # fmt: skip
"""The functions of ``xp.fft``."""
