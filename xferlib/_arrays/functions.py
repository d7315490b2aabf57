"""Functions of the Array API over kernels: creation, reductions, order, sets, and new arrays from parts of others.

Each takes the library whose arrays it computes with as its first parameter, which `namespace` binds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xferlib._api import transfers
from xferlib._arrays import dlpack, indexing, primitives
from xferlib._arrays.indexing import INDEX, fill_new, gather
from xferlib._arrays.primitives import Primitives, Shape, binary_kernel, check_dtype_argument, set_name
from xferlib._core import arrays, registry
from xferlib._core.arrays import Array, ArrayInfo, axis_of, integer_of, shape_of
from xferlib._core.device import Device
from xferlib._core.dtypes import (
    DTYPES,
    FloatLimits,
    ask_isdtype,
    float_limits,
    is_foreign,
    kind_of,
    promote,
    refuse_arithmetic,
    small_float,
    sum_dtype,
)
from xferlib._core.dtypes import find as find_dtype
from xferlib._core.dtypes import result as find_result_dtype
from xferlib._core.namespaces import UniqueAll, UniqueCounts, UniqueInverse, axis_to_join, check_matrix
from xferlib._runtime.checks import choice, flag, whole
from xferlib.errors import (
    ArgumentError,
    KernelTypeError,
    LayoutError,
    LayoutTypeError,
    UnsupportedArrayError,
    UnsupportedDTypeError,
    quote,
)
from xferlib.kernels import (
    ElementwiseKernel,
    ReductionKernel,
    cuda_arrays,
    elementwise,
    reductions,
)
from xferlib.kernels import (
    reduction as make_reduction,
)

# Arrays made from nothing, from Python numbers and from other arrays, by the Array API's names.

_FLOAT, _FLOAT32 = np.dtype("float64"), np.dtype("float32")
Extents = int | tuple[int, ...]
Function = Callable[..., Array]


def asarray(lib: Primitives, obj: Any, /, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array from Python numbers, nested lists, a NumPy array, an array, or another library's on the device."""
    if registry.owner_of(obj) is None and hasattr(obj, "__cuda_array_interface__"):
        found = dlpack.share_memory_of(lib, obj)
        obj = obj if found is None else found
    if not lib.is_array(obj):
        if copy is False:
            raise ValueError("copy=False: host memory cannot become device memory without a copy; leave copy out")
        wanted = check_dtype_argument(dtype)
        if registry.owner_of(obj) is None:
            host = arrays.as_host_array(obj, what="obj")
            obj = host if wanted is None else arrays.exactly(obj, host, wanted)
        return lib.upload(obj, device, wanted)
    place = lib.info(obj).device if device is None else lib.device(device)
    return lib.own(transfers.to_device(obj, device=place, dtype=check_dtype_argument(dtype), copy=copy))


def from_dlpack(lib: Primitives, x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array over the memory of another one on the device, of any library; a copy where they cannot share it.

    Args:
        lib: The library.
        x: An array of a backend, or any object with ``__dlpack__`` and ``__dlpack_device__``.
        device: The device of the result; that of ``x`` if omitted.
        copy: Whether to copy; if omitted, where need be.

    Raises:
        BufferError: ``copy=False``, and only a copy will do.
        UnsupportedArrayError: ``x`` is no such array, or of a dtype or on a device that the library does not have.
    """
    if registry.owner_of(x) is None and hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        x = dlpack.borrow_from_dlpack(lib, x, copy=copy)
    if copy is not True and device is None:
        found = lib.view_as_shadow(x, lib.shadow(x)) if lib.is_array(x) else dlpack.share_memory_of(lib, x)
        if found is not None:
            return found
    owner = registry.owner_of(x)
    if owner is None:
        raise UnsupportedArrayError(f"from_dlpack: {type(x).__name__} is not an array of any backend; use asarray(x)")
    place = owner.device_of(x)
    if copy is not True and device is None and place.kind != lib.device(None).kind:
        raise UnsupportedArrayError(
            f"from_dlpack: {type(x).__name__} is on {place}, whose memory {lib.backend.name} cannot share; move it: "
            "xferlib.to_device(x)"
        )
    if copy is False and not lib.is_array(x):
        raise BufferError(f"from_dlpack: copy=False, and {lib.backend.name} cannot share this memory; leave copy out")
    return asarray(lib, x, device=device, copy=copy)


def empty(lib: Primitives, shape: Extents, dtype: Any = None, *, device: Any = None) -> Array:
    """An uninitialised array."""
    return lib.empty(shape_of(shape), check_dtype_argument(dtype) or _FLOAT, lib.device(device))


def full(lib: Primitives, shape: Extents, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """An array of one value."""
    wanted = check_dtype_argument(dtype)
    if wanted is None:
        known = lib.info(fill_value).dtype if lib.is_array(fill_value) else np.asarray(fill_value).dtype
        wanted = arrays.check_dtype(known, what="fill_value")
    out = empty(lib, shape, dtype=wanted, device=device)
    indexing.assign(lib, out, fill_value)
    return out


def empty_like(lib: Primitives, x: Array, /, dtype: Any = None, *, device: Any = None) -> Array:
    """An uninitialised array of the same shape."""
    info = lib.info(lib.array("empty_like", x))
    return empty(lib, info.shape, dtype=dtype or info.dtype, device=device or info.device)


def full_like(lib: Primitives, x: Array, /, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """One value in the same shape."""
    info = lib.info(lib.array("full_like", x))
    return full(lib, info.shape, fill_value, dtype=dtype or info.dtype, device=device or info.device)


def _constant(name: str, value: int) -> tuple[Function, Function]:
    """The functions that make arrays of one value, by a shape and in the shape of another array."""

    def make(lib: Primitives, shape: Extents, dtype: Any = None, *, device: Any = None) -> Array:
        return full(lib, shape, value, dtype=dtype or _FLOAT, device=device)

    def make_like(lib: Primitives, x: Array, /, dtype: Any = None, *, device: Any = None) -> Array:
        return full_like(lib, x, value, dtype=dtype, device=device)

    return (
        set_name(name, make, f"An array of {name}."),
        set_name(f"{name}_like", make_like, f"{name.capitalize()} of the same shape."),
    )


zeros, zeros_like = _constant("zeros", 0)
ones, ones_like = _constant("ones", 1)


def arange(
    lib: Primitives, start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Array:
    """Values from ``start`` to below ``stop``, ``step`` apart; computed by the host."""
    lib.refuse_arrays("arange", start=start, stop=stop, step=step)
    first, last = (0, start) if stop is None else (start, stop)
    if first is None or last is None:
        raise ArgumentError(f"arange: start={start} and stop={stop}; give numbers")
    if step == 0:
        raise ArgumentError("arange: step=0 makes a range without end; give another step")
    return lib.upload(np.arange(first, last, step, dtype=check_dtype_argument(dtype)), device)


def linspace(
    lib: Primitives, start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None,
    endpoint: bool = True,
) -> Array:  # fmt: skip
    """``num`` values from ``start`` to ``stop``, evenly apart; arrays without axes stand for numbers.

    Computed by the host, or on the device where one of the two is an array.
    """
    lib.refuse_arrays("linspace", num=num)
    if lib.is_array(start) or lib.is_array(stop):
        return _linspace_of_arrays(lib, start, stop, num, check_dtype_argument(dtype), device, endpoint=endpoint)
    if (wanted := check_dtype_argument(dtype)) is not None:
        arrays.check_conversion(np.result_type(start, stop, 0.0), wanted)
    shape_of(num, what="linspace: num")
    return lib.upload(np.linspace(start, stop, num, dtype=wanted, endpoint=endpoint), device)


@functools.cache
def _evenly() -> ElementwiseKernel:
    """NumPy's operations, of which the first is another one where the step is too small to be a number."""
    lines = (
        "T step = (stop - start) / steps;",
        "T at = step == 0 ? k / steps * (stop - start) : k * step;",
        "y = is_stop ? stop : at + start;",
    )
    return elementwise("T start, T stop, T k, T steps, bool is_stop", "T y", " ".join(lines), name="linspace")


def _linspace_of_arrays(
    lib: Primitives, start: Any, stop: Any, num: int, wanted: np.dtype[Any] | None, device: Any, *, endpoint: bool
) -> Array:
    ends = [number_on_device(lib, "linspace", each, device) for each in (start, stop)]
    dtype = np.result_type(*(lib.info(each).dtype if lib.is_array(each) else each for each in ends), 0.0)
    (count,) = shape_of(num, what="linspace: num")
    where = lib.info(next(each for each in ends if lib.is_array(each))).device
    places = lib.upload(np.arange(count, dtype=dtype), where)
    is_stop = lib.upload((np.arange(count) == count - 1) & bool(endpoint and count > 1), where)
    ends = [lib.copy(each, dtype) if lib.is_array(each) else each for each in ends]
    found: Array = _evenly()(*ends, places, max(count - endpoint, 1), is_stop)
    if wanted is None or wanted == dtype:
        return found
    if wanted.kind in "iu":
        found = primitives.unary(lib, "floor")(found)
    return lib.copy(found, wanted)


def number_on_device(lib: Primitives, name: str, value: Any, device: Any) -> Any:
    """A real number, or an array without axes that stands for one.

    Raises:
        LayoutError: The array has axes.
        UnsupportedDTypeError: It is complex.
    """
    if not lib.is_array(value):
        arrays.check_conversion(np.result_type(value), _FLOAT)
        return value
    info = lib.info(value)
    if info.shape:
        raise LayoutError(
            f"{name}: an array of shape {info.shape} is not a number; give one without axes, such as x[0]"
        )
    if device is not None and (asked := lib.device(device)) != info.device:
        raise ArgumentError(f"{name}: device={asked}, and the number is on {info.device}; give that one, or none")
    arrays.check_conversion(info.dtype, _FLOAT)
    return value


def eye(
    lib: Primitives, n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: Any = None, *, device: Any = None
) -> Array:
    """Ones on a diagonal, zeros elsewhere; computed by the host."""
    shape, k = shape_of((n_rows, n_rows if n_cols is None else n_cols), what="eye: shape"), integer_of(k, what="eye: k")
    return lib.upload(np.eye(shape[0], shape[1], k, check_dtype_argument(dtype) or _FLOAT), device)


# The Array API's inspection functions of the namespaces that xferlib makes.

_DTYPES = {name: np.dtype(name) for name in DTYPES if name != "float16"}  # which the standard does not have


class NamespaceInfo:
    """The answers of ``__array_namespace_info__()``.

    Args:
        backend: The name of the arrays' backend.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend

    def capabilities(self) -> dict[str, bool | int]:
        """The standard's optional features that are supported."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The current device."""
        return registry.current_device(registry.get(self._backend))

    def devices(self) -> list[Device]:
        """All devices of the backend."""
        return list(registry.get(self._backend).devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes of arrays made without one."""
        names = {"real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64"}
        return {kind: np.dtype(name) for kind, name in names.items()}

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes, of a kind or several."""
        return {name: dtype for name, dtype in _DTYPES.items() if kind is None or np.isdtype(dtype, kind)}


def _dtype(of: Any) -> Any:
    """The dtype of an array; a dtype and a number are as they are."""
    if isinstance(of, (list, tuple, dict)):  # of which NumPy makes dtypes of records, however deep they are
        raise UnsupportedDTypeError(f"{quote(of)} is neither a dtype nor an array; give one of {', '.join(DTYPES)}")
    if isinstance(of, str):
        return find_dtype(of) or np.dtype(of)
    if isinstance(of, np.dtype):
        is_foreign(of)  # known from now on
    owner = registry.owner_of(of) if not isinstance(of, np.generic) else None
    return of if owner is None else owner.view(of).dtype


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a dtype, or an array's, becomes another without loss."""
    return bool(np.can_cast(_dtype(from_), _dtype(to)))


def finfo(type: Any, /) -> FloatLimits:  # noqa: A002 - the Array API's name
    """Limits of a floating dtype, or of an array's."""
    return float_limits(_dtype(type))


def iinfo(type: Any, /) -> Any:  # noqa: A002 - the Array API's name
    """Limits of an integer dtype, or of an array's."""
    return np.iinfo(_dtype(type))


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype that an operation on these would have."""
    given = [*map(_dtype, arrays_and_dtypes)]
    if any(isinstance(each, np.dtype) and small_float(each) is not None for each in given):
        return promote(*[each if isinstance(each, np.dtype) else type(each) for each in given])
    return np.result_type(*given)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is another one, or of a kind of the Array API, or of one of several in a tuple."""
    return ask_isdtype(dtype, kind, np.isdtype)


# Arrays joined along an axis: each is copied into its part of a new array.


def part(lib: Primitives, x: Array, axis: int, start: int | None, stop: int | None, step: int | None = None) -> Array:
    """The view of a slice along one axis."""
    return lib.view_as_shadow(x, lib.shadow(x)[(*[slice(None)] * axis, slice(start, stop, step), ...)])


def _check_arrays(lib: Primitives, name: str, arrays: Any) -> tuple[list[Array], list[ArrayInfo]]:
    if lib.is_array(arrays):
        raise ArgumentError(f"{name}: one array was given, and it joins several; write {name}([x, y])")
    if not isinstance(arrays, Iterable):
        raise ArgumentError(f"{name}: {quote(arrays)} is not a list of arrays; write {name}([x, y])")
    found = [lib.array(name, each) for each in arrays]
    if not found:
        raise ArgumentError(f"{name}: there is no array to join; give one or more")
    return found, lib.infos(name, found)


def concat(lib: Primitives, arrays: Sequence[Array], /, axis: int | None = 0) -> Array:
    """Join arrays along an axis."""
    given, infos = _check_arrays(lib, "concat", arrays)
    if axis is None:
        given = [primitives.reshape(lib, each, -1) for each in given]
        infos, axis = [lib.info(each) for each in given], 0
    along = axis_to_join("concat", [info.shape for info in infos], axis)
    shape = list(infos[0].shape)
    shape[along] = sum(info.shape[along] for info in infos)
    out = lib.empty(tuple(shape), promote(*(info.dtype for info in infos)), infos[0].device)
    start = 0
    for each, info in zip(given, infos, strict=True):
        end = start + info.shape[along]
        indexing.assign(lib, part(lib, out, along, start, end), each)
        start = end
    return out


def stack(lib: Primitives, arrays: Sequence[Array], /, axis: int = 0) -> Array:
    """Join arrays along a new axis."""
    given, infos = _check_arrays(lib, "stack", arrays)
    along = axis_to_join("stack", [info.shape for info in infos], axis)
    return concat(lib, [primitives.expand_dims(lib, each, along) for each in given], axis=along)


def meshgrid(lib: Primitives, *arrays: Array, indexing: str = "xy") -> tuple[Array, ...]:
    """The coordinates of a grid, one array for each axis."""
    choice(indexing, ("xy", "ij"), "meshgrid: indexing")
    if not arrays:
        return ()
    given, infos = _check_arrays(lib, "meshgrid", arrays)
    sizes = [math.prod(info.shape) for info in infos]
    found = []
    for number, each in enumerate(given):
        shape = [1] * len(given)
        shape[number] = sizes[number]
        found.append(primitives.reshape(lib, each, tuple(shape)))
    if indexing == "xy" and len(given) > 1:
        found = [primitives.moveaxis(lib, each, 0, 1) for each in found]
        sizes[:2] = sizes[1::-1]
    return tuple(lib.copy(primitives.broadcast_to(lib, each, tuple(sizes))) for each in found)


# Running sums and products along an axis, by the Array API's names.

_INITIAL = {"+": 0, "*": 1}


def _cumulative(name: str, symbol: str, doc: str) -> Function:
    def plan(lib: Primitives, axis: int | None, dtype: Any, x: Array) -> primitives.KernelPlan | None:
        """One kernel that does the whole call."""
        info = lib.info(x)
        rank = len(info.shape)
        if not rank or (axis is None and rank > 1) or axis_of(name, 0 if axis is None else axis, rank) != rank - 1:
            return None
        result = check_dtype_argument(dtype) or find_result_dtype(name, info.dtype)
        return indexing.plan_scan(lib, x, result, symbol)

    def operate(
        lib: Primitives, x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
    ) -> Array:
        if not include_initial and (axis is None or type(axis) is int):
            planned = lib.find_plan((name, axis, dtype), (x,), functools.partial(plan, lib, axis, dtype))
            if planned is not None:
                return planned.run(x)
        x = lib.array(name, x)
        info = lib.info(x)
        if axis is None and len(info.shape) > 1:
            raise ArgumentError(f"{name}: an array of {len(info.shape)} axes needs axis=; give one")
        if not info.shape:
            x = primitives.reshape(lib, x, (1,))
        along = axis_of(name, 0 if axis is None else axis, max(len(info.shape), 1))
        result = check_dtype_argument(dtype) or find_result_dtype(name, info.dtype)
        wide = sum_dtype(result)
        rows = indexing.scan(lib, primitives.moveaxis(lib, x, along, -1), wide, symbol)
        if include_initial:
            head = (*lib.info(rows).shape[:-1], 1)
            first = indexing.fill_new(lib, head, _INITIAL[symbol], wide, info.device)
            rows = concat(lib, [first, rows], axis=-1)
        found = primitives.moveaxis(lib, rows, -1, along)
        return found if wide == result else lib.copy(found, result)

    return set_name(name, operate, doc)


cumulative_sum = _cumulative("cumulative_sum", "+", "Sums of the elements so far.")
cumulative_prod = _cumulative("cumulative_prod", "*", "Products of the elements so far.")


# Positions along the last axis.

DType = np.dtype[Any]


@functools.cache
def _number() -> ElementwiseKernel:
    return elementwise("int64 extent", "T y", "y = i % extent;", name="number")


def number_last_axis(lib: Primitives, shape: Shape, device: Device) -> Array:
    """The positions of elements along the last axis."""
    out = lib.empty(shape, INDEX, device)
    if math.prod(shape):
        _number()(shape[-1], out)
    return out


# Reductions over axes, by xferlib's own: the same bits on every device.


@functools.cache
def _count() -> ReductionKernel:
    return make_reduction(
        "T x",
        "int64 y",
        map_expr="x != 0",
        reduce_expr="a + b",
        post_map_expr="y = a",
        identity="0",
        name="count_nonzero",
    )


_ORDERING = ("argmax", "argmin", "max", "min")


def reduction(lib: Primitives, name: str) -> Function:
    """The function of that name, over some axes."""
    ready = None if name == "count_nonzero" else getattr(reductions, name)
    own, is_position = lib.array_type, name.startswith("arg")

    def operate(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
        if is_position and isinstance(axis, tuple):
            raise LayoutTypeError(f"{name}: axis={axis} is not an axis; give one integer, or None for all elements")
        try:
            kernel = _count() if ready is None else ready
            return kernel(x if type(x) is own else lib.array(name, x), axis=axis, keepdims=keepdims)
        except KernelTypeError:
            if name in _ORDERING:
                primitives.refuse_complex(lib, name, x)
            raise

    return set_name(name, operate, f"``{name}`` of the Array API, over ``axis``, on the current stream.")


def accumulation(lib: Primitives, name: str) -> Function:
    """The function of that name, over some axes, in a dtype that can be given."""
    kernel, own = getattr(reductions, name), lib.array_type

    def operate(x: Any, /, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
        x = x if type(x) is own else lib.array(name, x)
        wanted = check_dtype_argument(dtype)
        if wanted is None:
            return kernel(x, axis=axis, keepdims=keepdims)
        found = lib.info(x).dtype
        arrays.check_conversion(found, wanted)
        result = kernel(x if found == wanted else lib.copy(x, wanted), axis=axis, keepdims=keepdims)
        return result if lib.info(result).dtype == wanted else lib.copy(result, wanted)

    return set_name(name, operate, f"``{name}`` of the Array API, over ``axis``, on the current stream.")


def deviation(lib: Primitives, name: str) -> Function:
    """The function of that name, over some axes, with a correction of the degrees of freedom."""

    def operate(x: Any, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Array:
        x = lib.array(name, x)
        found = _variance(lib, x, axis, correction, keepdims=keepdims)
        return primitives.unary_kernel("sqrt")(found) if name == "std" else found

    return set_name(name, operate, f"``{name}`` of the Array API, over ``axis``, on the current stream.")


def _variance(lib: Primitives, x: Array, axis: Any, correction: float, *, keepdims: bool) -> Array:
    if correction == int(correction):
        return reductions.var(x, axis=axis, ddof=int(correction), keepdims=keepdims)
    # The sum of squares is that of a correction of 0, times the number of elements.
    found = reductions.var(x, axis=axis, keepdims=keepdims)
    size, left = lib.info(x).size, math.prod(lib.info(found).shape)
    count = size // left if left else 0
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.float64(count) / max(count - correction, 0.0)
    return primitives.binary_kernel("multiply")(found, float(factor))


_STEP = 4
"""Searches are written out in kernels, for numbers of steps that are multiples of this."""


def _before(a: str, b: str, *, kind: str) -> str:
    """The C expression for ``a`` before ``b``, of a dtype of that kind: NaN last.

    Complex numbers are ordered as NumPy does it: by the number of their NaNs, a real one counting twice, then by their
    real and their imaginary parts.
    """
    if kind == "f":
        return f"({a} < {b} || ({b} != {b} && {a} == {a}))"
    if kind != "c":
        return f"({a} < {b})"
    x, y, u, w = (f"{each}.{part}()" for each in (a, b) for part in ("real", "imag"))
    one, two = f"(2 * ({x} != {x}) + ({y} != {y}))", f"(2 * ({u} != {u}) + ({w} != {w}))"
    return f"({one} < {two} || ({one} == {two} && ({x} < {u} || (!({u} < {x}) && {y} < {w}))))"


def _search(goes: str, steps: int) -> str:
    """The statements that raise ``low`` to the first position, below ``high``, whose element does not go before."""
    middle = "long long at = (low + high) / 2; T other = x[row + at];"
    turn = f"if (low < high) {{ {middle} if ({goes}) {{ low = at + 1; }} else {{ high = at; }} }}"
    return f"for (int t = 0; t < {steps}; ++t) {{ {turn} }}"


def _steps(extent: int) -> int:
    """The steps of a search among ``extent`` elements, rounded up, so that there are few kernels."""
    return max(-(-extent.bit_length() // _STEP), 1) * _STEP


# --- sorting


def _sort_on_host(x: Any, found: Any, order: Any = None, *, descending: bool) -> None:
    """Sort along the last axis with NumPy, as the kernels do: equal elements keep their order in both directions."""
    given = x[..., ::-1] if descending else x
    if order is None:
        rows = np.sort(given, axis=-1, kind="stable")
        found[...] = rows[..., ::-1] if descending else rows
        return
    places = np.argsort(given, axis=-1, kind="stable")
    order[...] = x.shape[-1] - 1 - places[..., ::-1] if descending else places
    found[...] = np.take_along_axis(x, order, axis=-1)


def _plan_sort(lib: Primitives, x: Array, *, descending: bool, wants: str) -> primitives.KernelPlan | None:
    """The kernels that sort the rows of an array; None where there are none for such arrays."""
    info = lib.info(x)
    is_fit = info.device.kind == "cuda" and info.shape and info.size and info.is_c_contiguous
    if not is_fit or small_float(info.dtype) is not None:
        return None
    owner, extent = lib.backend.at(info.device), info.shape[-1]
    kernel = cuda_arrays.prepare_sort(
        owner, info.device, info.dtype, info.size // extent, extent, descending=descending, wants=wants
    )
    new = [(info.shape, {"v": info.dtype, "p": INDEX}[each]) for each in wants]
    return primitives.KernelPlan(lib, info, "sort", kernel, new)


def _find_sort(lib: Primitives, x: Any, *, descending: bool, wants: str) -> primitives.KernelPlan | None:
    return lib.find_plan(
        ("sort", descending, wants), (x,), functools.partial(_plan_sort, lib, descending=descending, wants=wants)
    )


def _sort_rows(lib: Primitives, x: Array, *, descending: bool, is_indexed: bool) -> tuple[Array, Array | None]:
    """The elements in order along the last axis, and the positions from which they come."""
    info = lib.info(x)
    refuse_arithmetic(info.dtype, "sort: x")
    if small_float(info.dtype) is not None:  # whose NaN NumPy does not order; float32 holds each number
        rows, order = _sort_rows(lib, lib.copy(x, _FLOAT32), descending=descending, is_indexed=is_indexed)
        return lib.copy(rows, info.dtype), order
    wants = "vp" if is_indexed else "v"
    if (plan := _find_sort(lib, x, descending=descending, wants=wants)) is not None:
        found = plan.run(x)
        return found if is_indexed else (found, None)
    targets = [lib.empty(info.shape, dtype, info.device) for dtype in (info.dtype, INDEX)[: 1 + is_indexed]]
    sort_rows = functools.partial(_sort_on_host, descending=descending)
    if not info.size or lib.on_host("sort", sort_rows, [x], targets):
        return targets[0], targets[1] if is_indexed else None
    if info.is_c_contiguous:
        lib.refuse_device("sort", info.device)
    return _sort_rows(lib, lib.copy(x), descending=descending, is_indexed=is_indexed)


def _make_sort(name: str, doc: str, *, is_indexed: bool) -> Function:
    wants = "p" if is_indexed else "v"

    def operate(
        lib: Primitives, x: Array, /, axis: int = -1, *, descending: bool = False, stable: bool = True
    ) -> Array:  # fmt: skip
        is_along = axis == -1 or (axis == 0 and len(getattr(x, "shape", ())) == 1)
        if stable is True and type(descending) is bool and type(axis) is int and is_along:
            planned = _find_sort(lib, x, descending=descending, wants=wants)
            if planned is not None:
                return planned.run(x)
        x = lib.array(name, x)
        along = axis_of(name, axis, len(lib.info(x).shape))
        moved = primitives.moveaxis(lib, x, along, -1)
        flag(stable, f"{name}: stable")  # it always is
        found = _sort_rows(lib, moved, descending=flag(descending, f"{name}: descending"), is_indexed=is_indexed)
        return primitives.moveaxis(lib, found[is_indexed], -1, along)

    return set_name(name, operate, doc)


sort = _make_sort("sort", "The elements in order along an axis.", is_indexed=False)
argsort = _make_sort(
    "argsort", "The indices that sort the elements along an axis; equal elements keep their order.", is_indexed=True
)


# --- searching


@functools.cache
def _search_kernel(steps: int, *, kind: str, is_right: bool) -> ElementwiseKernel:
    goes = _before("other", "v", kind=kind)
    if is_right:
        goes = "!" + _before("v", "other", kind=kind)
    lines = ["long long row = 0, low = 0, high = extent;", _search(goes, steps), "y = low;"]
    return elementwise("raw T x, T v, int64 extent", "int64 y", " ".join(lines), name="searchsorted")


def searchsorted(
    lib: Primitives, x1: Array, x2: Array, /, side: str = "left", sorter: Array | None = None
) -> Array:  # fmt: skip
    """The indices at which the elements of ``x2`` belong in the sorted ``x1``."""
    choice(side, ("left", "right"), "searchsorted: side")
    given = [lib.array("searchsorted", each) for each in (x1, x2)]
    infos = lib.infos("searchsorted", given)
    if len(infos[0].shape) != 1:
        raise LayoutError(f"searchsorted: x1 has {len(infos[0].shape)} axes, and one is needed; reshape it")
    if sorter is not None:
        order = lib.array("searchsorted", sorter)
        if (found := lib.info(order).dtype).kind not in "iu":
            raise KernelTypeError(f"searchsorted: sorter has dtype {found}, and must be integers; convert it")
        given[0] = gather(lib, given[0], [order])
    common = promote(*(info.dtype for info in infos))
    known, wanted = (
        each if info.dtype == common else lib.copy(each, common) for each, info in zip(given, infos, strict=True)
    )
    out = lib.empty(infos[1].shape, INDEX, infos[1].device)
    if infos[1].size:
        extent = infos[0].shape[0]
        _search_kernel(_steps(extent), kind=kind_of(common), is_right=side == "right")(known, wanted, extent, out)
    return out


# New arrays from parts of others: repeated, shifted, cut to triangles, taken at indices, and their differences.

Axes = int | tuple[int, ...]


def repeat(lib: Primitives, x: Array, /, repeats: Any, axis: int | None = None) -> Array:
    """Repeat each element; waits for the values if ``repeats`` is an array."""
    x = lib.array("repeat", x)
    if axis is None:
        x, axis = primitives.reshape(lib, x, -1), 0
    info = lib.info(x)
    along = axis_of("repeat", axis, len(info.shape))
    if isinstance(repeats, (int, np.integer)):
        if repeats < 0:
            raise ArgumentError(f"repeat: repeats={repeats} is negative; give 0 or more")
        shape = (*info.shape[: along + 1], int(repeats), *info.shape[along + 1 :])
        spread = primitives.broadcast_to(lib, primitives.expand_dims(lib, x, along + 1), shape)
        merged = (*info.shape[:along], info.shape[along] * int(repeats), *info.shape[along + 1 :])
        return primitives.reshape(lib, lib.copy(spread), merged)
    counts = lib.array("repeat", repeats)
    if (found := lib.info(counts).dtype).kind not in "biu":
        raise KernelTypeError(f"repeat: repeats have dtype {found}, and must be integers; convert them")
    return _repeat_each(lib, x, counts, along)


def _repeat_each(lib: Primitives, x: Array, repeats: Array, axis: int) -> Array:
    """Repeat each slice along an axis as often as an array says."""
    extent = lib.info(x).shape[axis]
    own = lib.info(repeats).shape
    if own not in ((), (1,), (extent,)):
        raise LayoutError(f"repeat: repeats has shape {own}, and axis {axis} {extent} elements; give one for each")
    counts = primitives.broadcast_to(lib, repeats, (extent,))
    ends = indexing.scan(lib, counts, INDEX, "+")
    total = int(transfers.to_host(part(lib, ends, 0, extent - 1, extent))[0]) if extent else 0
    found = searchsorted(lib, ends, number_last_axis(lib, (total,), lib.info(x).device), side="right")
    moved = primitives.moveaxis(lib, x, axis, 0)
    return primitives.moveaxis(lib, gather(lib, moved, [found]), 0, axis)


def tile(lib: Primitives, x: Array, repetitions: Axes, /) -> Array:
    """Repeat the array along its axes."""
    x = lib.array("tile", x)
    own, repetitions = lib.info(x).shape, shape_of(repetitions, what="tile: repetitions")
    rank = max(len(own), len(repetitions))
    shape = (*(1,) * (rank - len(own)), *own)
    counts = (*(1,) * (rank - len(repetitions)), *repetitions)
    pairs = [extent for pair in zip((1,) * rank, shape, strict=True) for extent in pair]
    spread = [extent for pair in zip(counts, shape, strict=True) for extent in pair]
    view = primitives.broadcast_to(lib, primitives.reshape(lib, x, tuple(pairs)), tuple(spread))
    merged = tuple(count * extent for count, extent in zip(counts, shape, strict=True))
    return primitives.reshape(lib, lib.copy(view), merged)


def roll(lib: Primitives, x: Array, /, shift: Axes, axis: Axes | None = None) -> Array:
    """Shift the elements cyclically."""
    x = lib.array("roll", x)
    lib.refuse_arrays("roll", shift=shift, axis=axis)
    if axis is None:
        flat = primitives.reshape(lib, x, -1)
        return primitives.reshape(lib, roll(lib, flat, shift, axis=0), lib.info(x).shape)
    shifts, axes = np.broadcast_arrays(shift, axis)
    found = x
    for given, number in zip(shifts.ravel().tolist(), axes.ravel().tolist(), strict=True):
        each = integer_of(given, what="roll: shift")
        along = axis_of("roll", number, len(lib.info(x).shape))
        extent = lib.info(x).shape[along]
        if extent and each % extent:
            cut = extent - each % extent
            found = concat(lib, [part(lib, found, along, cut, None), part(lib, found, along, None, cut)], axis=along)
    return lib.copy(x) if found is x else found


@functools.cache
def _triangle_kernel(name: str) -> ElementwiseKernel:
    keeps = "<=" if name == "tril" else ">="
    operation = f"y = i % columns - i / columns % rows {keeps} k ? x : (T)0;"
    return elementwise("T x, int64 rows, int64 columns, int64 k", "T y", operation, name=name)


def _triangle(name: str, side: str) -> Function:
    def operate(lib: Primitives, x: Array, /, k: int = 0) -> Array:
        x = lib.array(name, x)
        shape = lib.info(x).shape
        check_matrix(name, shape)
        return _triangle_kernel(name)(x, max(shape[-2], 1), max(shape[-1], 1), k)

    return set_name(name, operate, f"The elements with zeros {side} a diagonal.")


tril, triu = _triangle("tril", "above"), _triangle("triu", "below")


def diff(
    lib: Primitives, x: Array, /, n: int = 1, axis: int = -1, prepend: Array | None = None,
    append: Array | None = None,
) -> Array:  # fmt: skip
    """Differences of neighbours, ``n`` times."""
    found = lib.array("diff", x)
    if (times := whole(n, least=0)) is None:
        raise ArgumentError(f"diff: n={quote(n)} is negative, or no whole number; give 0 or more")
    if times == 0:
        return found
    info = lib.info(found)
    along = axis_of("diff", axis, len(info.shape))
    ends = [None if each is None else lib.array("diff", each) for each in (prepend, append)]
    joined = [each for each in (ends[0], found, ends[1]) if each is not None]
    found = concat(lib, joined, axis=along) if len(joined) > 1 else found
    kernel = binary_kernel("not_equal" if lib.info(found).dtype == np.bool_ else "subtract")
    for _ in range(min(times, lib.info(found).shape[along])):  # after which there is none left
        found = kernel(part(lib, found, along, 1, None), part(lib, found, along, None, -1))
    return found


# --- taking


def _check_take_arguments(lib: Primitives, name: str, x: Array, indices: Any) -> tuple[Array, Array]:
    x, indices = lib.array(name, x), lib.array(name, indices)
    found = lib.infos(name, (x, indices))[1].dtype
    if found.kind not in "iu":
        raise KernelTypeError(f"{name}: indices have dtype {found}, and must be integers; convert them")
    return x, indices


def take(lib: Primitives, x: Array, indices: Array, /, axis: int | None = None) -> Array:
    """The slices at ``indices`` along an axis."""
    x, indices = _check_take_arguments(lib, "take", x, indices)
    ndim, count = len(lib.info(x).shape), len(lib.info(indices).shape)
    if axis is None and ndim != 1:
        raise LayoutError(f"take: axis={axis} is not an axis of an array of {ndim}; give one")
    along = axis_of("take", axis or 0, ndim)
    found = gather(lib, primitives.moveaxis(lib, x, along, 0), [indices])
    return primitives.moveaxis(lib, found, (*range(count),), (*range(along, along + count),)) if along else found


def take_along_axis(lib: Primitives, x: Array, indices: Array, /, axis: int = -1) -> Array:
    """The elements at ``indices``, each in its own line along an axis."""
    x, indices = _check_take_arguments(lib, "take_along_axis", x, indices)
    info, own = lib.info(x), lib.info(indices).shape
    along = axis_of("take_along_axis", axis, len(info.shape))
    if len(own) != len(info.shape):
        raise LayoutError(f"take_along_axis: indices have {len(own)} axes, x has {len(info.shape)}; reshape one")
    keys: list[Array] = []
    for number, extent in enumerate(info.shape):
        line = number_last_axis(lib, (extent,), info.device)
        shape = tuple(extent if each == number else 1 for each in range(len(own)))
        keys.append(indices if number == along else primitives.reshape(lib, line, shape))
    return gather(lib, x, keys)


# The distinct elements of an array, found by sorting; each NaN is an element of its own.


@functools.cache
def _is_first() -> ElementwiseKernel:
    return elementwise(
        "raw T x, T v", "bool y", "if (i > 0) { y = !(v == x[i - 1]); } else { y = true; }", name="is_first"
    )


@functools.cache
def _number_back() -> ElementwiseKernel:
    return elementwise("int64 place, int64 count", "raw int64 y", "y[place] = count - 1;", name="number_back")


def unique_all(lib: Primitives, x: Array, /) -> UniqueAll:
    """``unique_all`` of the Array API; waits for the values."""
    x = lib.array("unique", x)
    info = lib.info(x)
    size = math.prod(info.shape)
    rows, order = _sort_rows(lib, primitives.reshape(lib, x, -1), descending=False, is_indexed=True)
    assert order is not None
    if not size:
        none = lib.empty((0,), INDEX, info.device)
        return UniqueAll(rows, none, lib.empty(info.shape, INDEX, info.device), none)
    flags = _is_first()(rows, rows)
    counted, _ = indexing.count_flags(lib, flags)
    starts = indexing.positions(lib, flags)
    inverse = lib.empty((size,), INDEX, info.device)
    _number_back()(order, counted, inverse)
    ends = concat(lib, [part(lib, starts, 0, 1, None), fill_new(lib, (1,), size, INDEX, info.device)])
    return UniqueAll(
        indexing.gather(lib, rows, [starts]),
        indexing.gather(lib, order, [starts]),
        primitives.reshape(lib, inverse, info.shape),
        binary_kernel("subtract")(ends, starts),
    )


def unique_counts(lib: Primitives, x: Array, /) -> UniqueCounts:
    """``unique_counts`` of the Array API; waits for the values."""
    found = unique_all(lib, x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(lib: Primitives, x: Array, /) -> UniqueInverse:
    """``unique_inverse`` of the Array API; waits for the values."""
    found = unique_all(lib, x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(lib: Primitives, x: Array, /) -> Array:
    """``unique_values`` of the Array API; waits for the values."""
    x = lib.array("unique_values", x)
    rows = sort(lib, primitives.reshape(lib, x, -1))
    if not lib.info(rows).size:
        return rows
    return indexing.gather(lib, rows, [indexing.positions(lib, _is_first()(rows, rows))])


def isin(lib: Primitives, x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether each element of ``x1`` is one of ``x2``; a NaN never is."""
    given = [lib.array("isin", each) for each in (x1, x2)]
    infos = lib.infos("isin", given)
    common = promote(*(info.dtype for info in infos))
    wanted, known = (
        each if info.dtype == common else lib.copy(each, common) for each, info in zip(given, infos, strict=True)
    )
    if not infos[1].size:
        return fill_new(lib, infos[0].shape, invert, np.dtype(bool), infos[0].device)
    rows = sort(lib, primitives.reshape(lib, known, -1))
    places = binary_kernel("minimum")(searchsorted(lib, rows, wanted), infos[1].size - 1)
    return binary_kernel("not_equal" if invert else "equal")(indexing.gather(lib, rows, [places]), wanted)
