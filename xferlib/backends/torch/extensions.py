"""Products of tensors and the extensions of torch's namespace: ``xp.linalg`` and ``xp.fft``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat.torch as compat
import torch
from torch import Tensor

from xferlib._core.arrays import axes_of, axis_of, integer_of
from xferlib._core.dtypes import PRODUCTS
from xferlib._core.namespaces import check_frequencies, check_matrix, steps_to_shift
from xferlib.backends.torch import dtypes
from xferlib.backends.torch.dtypes import SIGNED, check_call
from xferlib.backends.torch.elementwise import binary
from xferlib.backends.torch.functions import FUNCTIONS, by_default, place_of, roll, tensor_of
from xferlib.errors import LayoutError, LayoutTypeError, UnsupportedDTypeError, quote

# Products.


def product(name: str) -> Callable[..., Tensor]:
    """A product of two tensors, of the dtype that both promote to."""
    compute = getattr(compat, name)
    own = torch.matmul if name == "matmul" else compute  # of one dtype

    @functools.wraps(compute)
    def operate(x1: Tensor, x2: Tensor, /, *axes: Any, **options: Any) -> Tensor:
        if axes and name == "tensordot":
            (options["axes"],) = axes
        if name == "tensordot" and isinstance(x1, Tensor) and isinstance(x2, Tensor):
            options["axes"] = _contract_axes(x1, x2, options.get("axes", 2))
        is_plain = isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype is x2.dtype and _multiplies(x1)
        if is_plain:
            return check_call(name, own, x1, x2, **options)
        device = dtypes.device_of(name, x1, x2)
        wanted = dtypes.result(name, dtypes.kind_of(name, x1), dtypes.kind_of(name, x2))
        operands = [dtypes.bits64(each, wanted) for each in (x1, x2)]
        if has_integer_products(device) or wanted.is_floating_point or wanted.is_complex:
            found = check_call(name, compute, *operands, **options)
        else:
            summed = options["axes"][0] if name == "tensordot" else (options.get("axis", -1),)
            count = math.prod(operands[0].shape[at] for at in summed if -operands[0].dim() <= at < operands[0].dim())
            found = _in_digits(functools.partial(check_call, name, compute, **options), operands, wanted, count)
        return found.view(wanted) if wanted is torch.uint64 else found.to(wanted)

    return operate


def has_integer_products(device: torch.device) -> bool:
    """Whether torch multiplies matrices of integers there; on CUDA it multiplies none."""
    return bool(device.type == "cpu")


def _in_digits(
    multiply: Callable[[Tensor, Tensor], Tensor], operands: Sequence[Tensor], wanted: torch.dtype, count: int
) -> Tensor:
    """A product of integers modulo 2**64: the products of their digits in float64, shifted and added.

    A float64 holds each integer up to 2**53: sums of ``count`` products of two digits of 16 bits, if there are at most
    2**21, and of 8 bits otherwise. No order of summation rounds them. A GPU multiplies matrices of float64 fast.
    """
    bits = 16 if count <= 1 << 21 else 8
    digits = range(-(-wanted.itemsize * 8 // bits))
    one, two = (
        [((x.to(torch.int64) >> (bits * at)) & ((1 << bits) - 1)).to(torch.float64) for at in digits] for x in operands
    )
    # Digits that are not paired here belong above the bits of the dtypes.result.
    pairs = [(one[at], two[beside], bits * (at + beside)) for at in digits for beside in digits[: len(digits) - at]]
    parts = (multiply(first, second).to(torch.int64) << shift for first, second, shift in pairs)
    return functools.reduce(torch.Tensor.add_, parts)


def _contract_axes(x1: Tensor, x2: Tensor, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of `tensordot`; torch takes an extent of 1 for any other one."""
    if isinstance(axes, int):
        axes = (tuple(range(-axes, 0)), tuple(range(axes))) if axes >= 0 else ((), (axes,))
    one, two = (
        axes_of("tensordot", tuple(each) if isinstance(each, (list, range)) else each, x.dim())
        for each, x in zip(axes, (x1, x2), strict=True)
    )
    if [x1.shape[each] for each in one] != [x2.shape[each] for each in two]:
        raise LayoutError(
            f"tensordot: axes {one} of shape {tuple(x1.shape)} and {two} of shape {tuple(x2.shape)} do not fit; "
            "choose others"
        )
    return one, two


def _multiplies(x: Tensor) -> bool:
    dtype = x.dtype
    return dtype.is_floating_point or dtype.is_complex or (x.is_cpu and dtype not in SIGNED and dtype is not torch.bool)


# Linear algebra.

_FLOATS = dtypes.RESULTS["mean"]
_matmul, _multiply, _sum = product("matmul"), binary("multiply"), FUNCTIONS["sum"]


def _solver(name: str) -> Callable[..., Any]:
    """A function of matrices that computes integers in float64, as NumPy's does."""
    compute = getattr(compat.linalg, name)

    @functools.wraps(compute)
    def operate(x: Tensor, /, *args: Any, **options: Any) -> Any:
        x = tensor_of(name, x)
        if name != "matrix_norm":
            _refuse_half(name, x)
        x = x.to(_FLOATS.get(x.dtype, x.dtype))
        return check_call(f"linalg.{name}", compute, x, *args, **options)

    return operate


def _refuse_half(name: str, *operands: Tensor) -> None:
    if any(x.dtype is torch.float16 for x in operands):
        raise UnsupportedDTypeError(
            f"linalg.{name} of float16 does not exist, in NumPy as here; convert the array first"
        )


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:  # noqa: A002
    """The norms of vectors along axes; of all elements, if ``axis`` is None."""
    x = tensor_of("linalg.vector_norm", x)
    x = x.to(_FLOATS.get(x.dtype, x.dtype))
    if axis is not None:
        axis = axes_of("linalg.vector_norm", axis, x.dim())
    if axis == ():  # each element by itself, which compat refuses of one without axes
        axis, x, keepdims = (-1,), x.unsqueeze(-1), False
    if ord == math.inf and not x.numel():
        ord = 0  # noqa: A001 - the number of elements that are not 0, which is 0 as well
    options = {"axis": axis, "keepdims": keepdims, "ord": ord}
    return check_call("linalg.vector_norm", compat.linalg.vector_norm, x, **options)


_norm_of_matrices = _solver("matrix_norm")


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:  # noqa: A002
    """The norms of matrices, over the last two axes."""
    x = tensor_of("linalg.matrix_norm", x)
    if not x.numel() and x.dim() > 1 and ord in (1, 2, math.inf):  # of which torch refuses some
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims, ord=math.inf)
    return _norm_of_matrices(x, keepdims=keepdims, ord=ord)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross products of vectors of three elements."""
    wanted = dtypes.result("subtract", dtypes.kind_of("cross", x1), dtypes.kind_of("cross", x2))
    lines = []
    for x in (x1, x2):
        place = axis_of("linalg.cross", axis, x.dim())
        if x.shape[place] != 3:
            raise LayoutError(f"linalg.cross: axis {axis} of shape {tuple(x.shape)} has not 3 elements; choose another")
        lines.append(torch.movedim(dtypes.bits64(x, wanted), place, -1))
    dtypes.shape_together("linalg.cross", *(x.shape for x in lines))
    found = torch.movedim(torch.linalg.cross(*torch.broadcast_tensors(*lines)), -1, axis)
    return found.view(wanted) if wanted is torch.uint64 else found.to(wanted)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Views of the diagonals of matrices."""
    return torch.diagonal(_matrices("diagonal", x), offset, -2, -1)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """A square matrix multiplied with itself; its inverse, if ``n`` is negative."""
    power = integer_of(n, what="linalg.matrix_power: n")
    if power < 0:
        return matrix_power(LINALG["inv"](x), -power)
    compute = functools.partial(check_call, "linalg.matrix_power", torch.linalg.matrix_power)
    if x.is_floating_point() or x.is_complex():
        return compute(x, power)
    if power == 0:
        return compute(x.to(torch.float64), 0).to(x.dtype)
    if power == 1:
        compute(torch.empty(x.shape, device="meta"), 1)  # checks the shape
        return x.clone()
    half = matrix_power(x, power >> 1)
    found = _matmul(half, half)
    return _matmul(found, x) if power & 1 else found


def matrix_transpose(x: Tensor, /) -> Tensor:
    """A view with the last two axes exchanged."""
    return _matrices("matrix_transpose", x).transpose(-1, -2)


def _matrices(name: str, x: Tensor) -> Tensor:
    x = tensor_of(name, x)
    check_matrix(name, x.shape)
    return x


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of every element of a vector with every element of another.

    Raises:
        LayoutError: An operand has not one axis.
    """
    if x1.dim() != 1 or x2.dim() != 1:
        raise LayoutError(f"outer: {x1.dim()} and {x2.dim()} axes instead of one each; give x1[:, None] * x2 instead")
    return _multiply(x1.reshape(-1, 1), x2)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solution of ``x1 @ x == x2``."""
    _refuse_half("solve", x1, x2)
    wanted = dtypes.promote_types(*(_FLOATS.get(each.dtype, each.dtype) for each in (x1, x2)))
    return check_call("linalg.solve", compat.linalg.solve, x1.to(wanted), x2.to(wanted))


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of a diagonal."""
    return _sum(torch.diagonal(_matrices("trace", x), offset, -2, -1), axis=-1, dtype=dtype)


LINALG: dict[str, Callable[..., Any]] = {
    **{name: product(name) for name in PRODUCTS},
    **{
        name: _solver(name)
        for name in (
            "cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matrix_rank", "pinv", "qr", "slogdet",
            "svd", "svdvals",
        )
    },
    **{
        each.__name__: each
        for each in (
            vector_norm, matrix_norm, cross, diagonal, matrix_power, matrix_transpose, outer, solve, trace,
        )
    },
}  # fmt: skip
"""The functions of ``xp.linalg``."""


# Fourier transforms.

_OF_REAL = ("rfft", "rfftn", "ihfft")
_TRANSFORMED = (torch.float32, torch.float64, torch.complex64, torch.complex128)
"""The dtypes that torch transforms."""


def _of_nothing(
    name: str, compute: Callable[..., Tensor], x: Tensor, **options: Any
) -> Tensor:  # fmt: skip
    """A transform of no elements, which some of torch's libraries refuse: zeros, of the shape for one element more."""
    like = check_call(f"fft.{name}", compute, torch.empty(x.shape, dtype=x.dtype, device="meta"), **options)
    return torch.zeros(like.shape, dtype=like.dtype, device=x.device)


def _transform(name: str) -> Callable[..., Tensor]:
    """A transform, which computes float16 in float32 and integers in float64, as NumPy's does."""
    compute = getattr(compat.fft, name)
    parameters = ("s", "axes", "norm") if name.endswith("n") else ("n", "axis", "norm")

    @functools.wraps(compute)
    def operate(x: Tensor, /, *args: Any, **options: Any) -> Tensor:
        x = tensor_of(name, x)
        options |= dict(zip(parameters, args, strict=False))
        if x.is_complex() and name in _OF_REAL:
            raise UnsupportedDTypeError(f"fft.{name}: takes real numbers, not {x.dtype}; use fft.fft or fft.fftn")
        for each in ("s", "axes"):
            if options.get(each) is not None and not isinstance(options[each], (tuple, list)):
                raise LayoutTypeError(f"fft.{name}: {each}={quote(options[each])} is not a tuple of integers; give one")
        if options.get("axes") is not None:
            options["axes"] = axes_of(f"fft.{name}", tuple(options["axes"]), x.dim())
        is_half = x.dtype is torch.float16
        axes = options.get("axes") or options.get("s") or x.shape
        stays_half = is_half and (name != "irfftn" or len(axes) == 1)  # over several axes NumPy computes in float32
        if x.dtype not in _TRANSFORMED:
            x = x.to(torch.float32 if is_half else dtypes.RESULTS["mean"].get(x.dtype, x.dtype))
        if not x.numel() and x.dim() > 1:
            found: Tensor = _of_nothing(name, compute, x, **options)
            return found.to(torch.float16) if stays_half and not found.is_complex() else found
        found = check_call(f"fft.{name}", compute, x, **options)
        return found.to(torch.float16) if stays_half and not found.is_complex() else found

    return operate


def _make_shift(name: str) -> Callable[..., Tensor]:
    def operate(x: Tensor, /, axes: Any = None) -> Tensor:
        x = tensor_of(name, x)
        places, steps = steps_to_shift(name, x.shape, axes)
        return roll(x, steps, axis=places)

    operate.__doc__ = f"``fft.{name}`` of the Array API."
    return operate


def _frequencies(name: str) -> Callable[..., Tensor]:
    compute = getattr(torch.fft, name)

    def operate(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
        check_frequencies(name, n)
        wanted = dtypes.torch_dtype(dtype) or by_default()
        return compute(n, d, dtype=wanted, device=place_of(device))

    operate.__doc__ = f"The frequencies of `{name.removesuffix('freq')}`; float64 by default."
    return operate


FFT: dict[str, Callable[..., Tensor]] = {
    **{
        name: _transform(name)
        for name in ("fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft")
    },
    **{name: _make_shift(name) for name in ("fftshift", "ifftshift")},
    **{name: _frequencies(name) for name in ("fftfreq", "rfftfreq")},
}  # fmt: skip
"""The functions of ``xp.fft``."""
