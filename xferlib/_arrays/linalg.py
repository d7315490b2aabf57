"""``xp.linalg``: the Array API's linear algebra. Norms are kernels; products and factorisations call libraries."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xferlib._arrays import functions as reductions
from xferlib._arrays import primitives as elementwise
from xferlib._arrays import primitives as shaping
from xferlib._arrays import products
from xferlib._arrays.functions import stack
from xferlib._arrays.primitives import Primitives, Shape
from xferlib._arrays.products import computed, dtypes, matrices
from xferlib._core.arrays import Array, ArrayInfo, axis_of, integer_of
from xferlib._runtime.checks import choice, flag
from xferlib.errors import ArgumentError, LayoutError, shown

matmul, matrix_transpose, outer = products.matmul, shaping.matrix_transpose, products.outer
tensordot, vecdot = products.tensordot, products.vecdot


class EigResult(NamedTuple):
    """The result of `eig`."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """The result of `qr`."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """The result of `slogdet`."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """The result of `svd`."""

    U: Array
    S: Array
    Vh: Array


# --- factorisations


def _factors(
    lib: Primitives,
    name: str,
    x: Any,
    shapes: Callable[..., tuple[Shape, ...]],
    *,
    is_square: bool = False,
    **options: Any,
) -> list[Array]:
    """Compute with one stack of matrices.

    Args:
        lib, name, x: The library, the function and its operand.
        shapes: Gives the shapes of the results, from ``batch, rows, columns``.
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
        empty = getattr(np.linalg, name)(np.empty(shape, _floating_dtype(info.dtype)), **numbers)
        results = empty if isinstance(empty, tuple) else (empty,)
        return [lib.upload(each, info.device, kind) for each, kind in zip(map(np.asarray, results), kinds, strict=True)]

    def compute(namespace: Any, a: Any, *arrays: Any) -> Any:
        return getattr(namespace.linalg, name)(a, **dict(zip(given, arrays, strict=True)), **numbers)

    return computed(lib, call, compute, [x, *given.values()], found, (2, *(0,) * len(given)))


def _tolerance(lib: Primitives, call: str, rtol: Any, matrices: ArrayInfo) -> Any:
    """Check a tolerance, a number or one for each matrix, before a library reads it within an operation of the device.

    Raises:
        ArgumentError, LayoutError: It is no real number, or no array of such that fits.
    """
    if rtol is None:
        return None
    if isinstance(rtol, (int, float, np.integer, np.floating)):
        return float(rtol)
    if not (isinstance(rtol, np.ndarray) or lib.is_array(rtol)) or np.dtype(rtol.dtype).kind not in "iuf":
        raise ArgumentError(f"{call}: rtol={shown(rtol)} is no real number; give one, or an array with one a matrix")
    batch = matrices.shape[:-2]
    if shaping.common_shape(call, batch, tuple(rtol.shape)) != batch:
        raise LayoutError(f"{call}: rtol has shape {tuple(rtol.shape)}, and the matrices {batch}; reshape it")
    return rtol if lib.is_array(rtol) else lib.upload(rtol, matrices.device)


def cholesky(lib: Primitives, x: Array, /, *, upper: bool = False) -> Array:
    """The triangular factor of symmetric or Hermitian positive-definite matrices; NaN where one is not definite."""
    upper = flag(upper, "linalg.cholesky: upper")
    return _factors(lib, "cholesky", x, lambda batch, m, n: ((*batch, m, n),), is_square=True, upper=upper)[0]


def det(lib: Primitives, x: Array, /) -> Array:
    """The determinants of square matrices."""
    return _factors(lib, "det", x, lambda batch, _m, _n: (batch,), is_square=True)[0]


def eig(lib: Primitives, x: Array, /) -> EigResult:
    """The complex eigenvalues, in no order, and eigenvectors of any square matrices."""
    return EigResult(*_factors(lib, "eig", x, lambda batch, m, n: ((*batch, m), (*batch, m, n)), is_square=True))


def eigvals(lib: Primitives, x: Array, /) -> Array:
    """The complex eigenvalues of any square matrices, in no order."""
    return _factors(lib, "eigvals", x, lambda batch, m, _n: ((*batch, m),), is_square=True)[0]


def eigh(lib: Primitives, x: Array, /) -> EighResult:
    """The eigenvalues, in ascending order, and eigenvectors of symmetric or Hermitian matrices."""
    return EighResult(*_factors(lib, "eigh", x, lambda batch, m, n: ((*batch, m), (*batch, m, n)), is_square=True))


def eigvalsh(lib: Primitives, x: Array, /) -> Array:
    """The eigenvalues of symmetric or Hermitian matrices, in ascending order."""
    return _factors(lib, "eigvalsh", x, lambda batch, m, _n: ((*batch, m),), is_square=True)[0]


def inv(lib: Primitives, x: Array, /) -> Array:
    """The inverses of square matrices; NaN where one is singular."""
    return _factors(lib, "inv", x, lambda batch, m, n: ((*batch, m, n),), is_square=True)[0]


def pinv(lib: Primitives, x: Array, /, *, rtol: Any = None) -> Array:
    """The Moore-Penrose inverses; singular values below ``rtol`` times the greatest count as 0."""
    x = _floating(lib, lib.array("linalg.pinv", x))  # NumPy's default of rtol is undefined for integers
    return _factors(lib, "pinv", x, lambda batch, m, n: ((*batch, n, m),), rtol=rtol)[0]


def qr(lib: Primitives, x: Array, /, *, mode: str = "reduced") -> QRResult:
    """The orthonormal and the upper triangular factors; ``mode="complete"`` makes the first one square."""
    choice(mode, ("reduced", "complete"), "linalg.qr: mode")

    def shapes(batch: Shape, m: int, n: int) -> tuple[Shape, ...]:
        inner = m if mode == "complete" else min(m, n)
        return (*batch, m, inner), (*batch, inner, n)

    return QRResult(*_factors(lib, "qr", x, shapes, mode=mode))


def slogdet(lib: Primitives, x: Array, /) -> SlogdetResult:
    """The signs and the logarithms of the absolute values of determinants."""
    return SlogdetResult(*_factors(lib, "slogdet", x, lambda batch, _m, _n: (batch, batch), is_square=True))


def svd(lib: Primitives, x: Array, /, *, full_matrices: bool = True) -> SVDResult:
    """The singular value decompositions."""

    def shapes(batch: Shape, m: int, n: int) -> tuple[Shape, ...]:
        k = min(m, n)
        return (*batch, m, m if full_matrices else k), (*batch, k), (*batch, n if full_matrices else k, n)

    return SVDResult(*_factors(lib, "svd", x, shapes, full_matrices=full_matrices))


def svdvals(lib: Primitives, x: Array, /) -> Array:
    """The singular values, in descending order."""
    return _factors(lib, "svdvals", x, lambda batch, m, n: ((*batch, min(m, n)),))[0]


def matrix_rank(lib: Primitives, x: Array, /, *, rtol: Any = None) -> Array:
    """The number of singular values above ``rtol`` times the greatest one."""
    return _factors(lib, "matrix_rank", x, lambda batch, _m, _n: (batch,), rtol=rtol)[0]


def solve(lib: Primitives, x1: Array, x2: Array, /) -> Array:
    """The solutions of ``x1 @ x == x2``; a vector ``x2`` is one column. NaN where a matrix is singular."""
    x1, one = matrices(lib, "linalg.solve", x1, is_square=True)
    x2 = lib.array("linalg.solve", x2)
    infos = lib.infos("linalg.solve", (x1, x2))
    two = infos[1].shape
    if not two or two[-1 if len(two) == 1 else -2] != one[-1]:
        raise LayoutError(f"linalg.solve: {one[-1]} unknowns, and right sides of shape {two} do not fit; reshape them")
    rest = () if len(two) == 1 else two[-1:]
    batch = shaping.common_shape("linalg.solve", one[:-2], two[:-2] if rest else ())
    (kind,) = dtypes(np.linalg.solve, infos[0].dtype, infos[1].dtype)
    shape = (*batch, one[-1], *rest)
    if not math.prod(shape):
        return lib.empty(shape, kind, infos[0].device)
    if not rest:  # as one column: libraries differ in when they take the right sides for vectors
        x2, shape = shaping.expand_dims(lib, x2, -1), (*shape, 1)
    if lib.function_library(infos[0].device) is not None:  # NumPy broadcasts stacks, other libraries need not
        x1, x2 = shaping.broadcast_to(lib, x1, (*batch, *one[-2:])), shaping.broadcast_to(lib, x2, shape)
    solved = lambda namespace, a, b: namespace.linalg.solve(a, b)
    found = computed(lib, "linalg.solve", solved, [x1, x2], [(shape, kind)], (2, 2))[0]
    return found if rest else shaping.squeeze(lib, found, -1)


# --- parts and products


def diagonal(lib: Primitives, x: Array, /, *, offset: int = 0) -> Array:
    """A diagonal of the last two axes: a view."""
    x, _ = matrices(lib, "linalg.diagonal", x)
    return lib.viewed(x, np.linalg.diagonal(lib.shadow(x), offset=offset))


def trace(lib: Primitives, x: Array, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sums of a diagonal of the last two axes."""
    return reductions.accumulation(lib, "sum")(diagonal(lib, x, offset=offset), axis=-1, dtype=dtype)


def cross(lib: Primitives, x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The cross products of vectors of three elements along an axis."""
    given = [lib.array("linalg.cross", each) for each in (x1, x2)]
    shapes = [info.shape for info in lib.infos("linalg.cross", given)]
    along = [axis_of("linalg.cross", axis, len(shape)) for shape in shapes]
    if [shape[place] for shape, place in zip(shapes, along, strict=True)] != [3, 3]:
        raise LayoutError(f"linalg.cross: axis {axis} of shapes {shapes[0]} and {shapes[1]} has not three elements")
    a, b = (
        shaping.unstack(lib, shaping.moveaxis(lib, each, place, -1), axis=-1)
        for each, place in zip(given, along, strict=True)
    )
    multiply, subtract = elementwise.binary_kernel("multiply"), elementwise.binary_kernel("subtract")
    parts = [subtract(multiply(a[i], b[j]), multiply(a[j], b[i])) for i, j in ((1, 2), (2, 0), (0, 1))]
    return stack(lib, parts, axis=axis)


def matrix_power(lib: Primitives, x: Array, n: int, /) -> Array:
    """Each square matrix times itself, ``n`` in all; of a negative ``n`` the inverse."""
    x, shape = matrices(lib, "linalg.matrix_power", x, is_square=True)
    n = integer_of(n, what="linalg.matrix_power: n")
    if n < 0:
        x, n = inv(lib, x), -n
    if n == 0:
        one = lib.upload(np.eye(shape[-1], dtype=lib.info(x).dtype), lib.info(x).device)
        return lib.copy(shaping.broadcast_to(lib, one, shape))
    found: Array | None = None
    while True:  # by squaring
        if n & 1:
            found = x if found is None else products.matmul(lib, found, x)
        n >>= 1
        if not n:
            return found
        x = products.matmul(lib, x, x)


# --- norms


def vector_norm(
    lib: Primitives, x: Array, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2  # noqa: A002 - the standard's
) -> Array:  # fmt: skip
    """The norms of vectors: over all elements, or along axes."""
    x = lib.array("linalg.vector_norm", x)
    absolute = elementwise.unary_kernel("abs")(_floating(lib, x))
    power, total = elementwise.binary_kernel("power"), reductions.accumulation(lib, "sum")
    if ord in (math.inf, -math.inf):
        return _extreme(lib, absolute, axis, keepdims=keepdims, is_largest=ord > 0)
    if ord == 0:
        return _count(lib, absolute, axis, keepdims=keepdims)
    if ord == 1:
        return total(absolute, axis=axis, keepdims=keepdims)
    if ord == 2:
        squares = elementwise.unary_kernel("square")(absolute)
        return elementwise.unary_kernel("sqrt")(total(squares, axis=axis, keepdims=keepdims))
    return power(total(power(absolute, float(ord)), axis=axis, keepdims=keepdims), 1.0 / ord)


def _extreme(lib: Primitives, absolute: Array, axis: Any, *, keepdims: bool, is_largest: bool) -> Array:
    """The greatest of absolute values, 0 where there are none; or the least."""
    if is_largest and not lib.info(absolute).size:
        return _count(lib, absolute, axis, keepdims=keepdims)
    return reductions.reduction(lib, "max" if is_largest else "min")(absolute, axis=axis, keepdims=keepdims)


def _count(lib: Primitives, absolute: Array, axis: Any, *, keepdims: bool) -> Array:
    """How many are not 0, in the dtype of the values."""
    count = reductions.reduction(lib, "count_nonzero")(absolute, axis=axis, keepdims=keepdims)
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
        values = shaping.expand_dims(lib, svdvals(lib, x), -1)
        if ord == "nuc":
            found = reductions.accumulation(lib, "sum")(values, axis=-2, keepdims=True)
        else:
            found = _extreme(lib, values, -2, keepdims=True, is_largest=ord > 0)
    else:
        raise ArgumentError(
            f"linalg.matrix_norm: ord={shown(ord)} is none of 'fro', 'nuc', 1, 2, inf and their negatives"
        )
    return found if keepdims else shaping.squeeze(lib, found, (-2, -1))


def _floating_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.kind in "fc" else np.dtype("float64")


def _floating(lib: Primitives, x: Array) -> Array:
    """Integers as float64; floats and complex numbers as they are."""
    dtype = lib.info(x).dtype
    wanted = _floating_dtype(dtype)
    return x if dtype == wanted else lib.copy(x, wanted)


FUNCTIONS: tuple[Callable[..., Any], ...] = (
    cholesky, cross, det, diagonal, eig, eigh, eigvals, eigvalsh, inv, matmul, matrix_norm, matrix_power, matrix_rank,
    matrix_transpose, outer, pinv, qr, slogdet, solve, svd, svdvals, tensordot, trace, vecdot, vector_norm,
)  # fmt: skip
