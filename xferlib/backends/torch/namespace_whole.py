"""Functions of whole tensors in torch's namespace: products, limits, differences, searches, sets."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat.torch as compat
import torch
from torch import Tensor

from xferlib._core.array import UniqueAll, UniqueCounts, UniqueInverse
from xferlib._core.layout import axes_of, axis_of
from xferlib.backends.torch import namespace_creation as creation
from xferlib.backends.torch import namespace_dtypes as dtypes
from xferlib.backends.torch import namespace_reductions as reductions
from xferlib.backends.torch import namespace_shaping as shaping
from xferlib.backends.torch.namespace_dtypes import SIGNED, WIDE
from xferlib.errors import ArgumentError, LayoutError, shown


def product(name: str) -> Callable[..., Tensor]:
    """A product of two tensors, of the dtype that both promote to."""
    compute = getattr(compat, name)

    @functools.wraps(compute)
    def operate(x1: Tensor, x2: Tensor, /, *axes: Any, **options: Any) -> Tensor:
        found: Tensor
        if axes and name == "tensordot":
            (options["axes"],) = axes
        if name == "tensordot" and isinstance(x1, Tensor) and isinstance(x2, Tensor):
            options["axes"] = _contracted(x1, x2, options.get("axes", 2))
        is_plain = isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype is x2.dtype and _multiplies(x1)
        if is_plain or dtypes.is_foreign(x1) or dtypes.is_foreign(x2):
            found = dtypes.checked(name, compute, x1, x2, **options)
            return found
        device = dtypes.device_of(name, x1, x2)
        wanted = dtypes.result(name, dtypes.kind_of(name, x1), dtypes.kind_of(name, x2))
        operands = [bits64(each, wanted) for each in (x1, x2)]
        if has_integer_products(device) or wanted.is_floating_point or wanted.is_complex:
            found = dtypes.checked(name, compute, *operands, **options)
        else:
            summed = options["axes"][0] if name == "tensordot" else (options.get("axis", -1),)
            count = math.prod(operands[0].shape[at] for at in summed if -operands[0].dim() <= at < operands[0].dim())
            found = _in_digits(functools.partial(dtypes.checked, name, compute, **options), operands, wanted, count)
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
    # Digits that are not paired here belong above the bits of the result.
    pairs = [(one[at], two[beside], bits * (at + beside)) for at in digits for beside in digits[: len(digits) - at]]
    parts = (multiply(first, second).to(torch.int64) << shift for first, second, shift in pairs)
    return functools.reduce(torch.Tensor.add_, parts)


def _contracted(x1: Tensor, x2: Tensor, axes: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
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


def bits64(x: Tensor, wanted: torch.dtype) -> Tensor:
    """A tensor converted, and then in int64 if torch does not compute with the dtype."""
    x = x.to(wanted)
    if wanted is torch.uint64:
        return x.view(torch.int64)
    return x.to(torch.int64) if wanted in SIGNED or wanted is torch.bool else x


def clip(
    x: Tensor, /, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None  # noqa: A002
) -> Tensor:  # fmt: skip
    """Values limited to ``min .. max``, which NumPy also calls ``a_min`` and ``a_max``; None: no limit.

    A Python integer beyond the dtype's own limit is none.
    """
    min, max = min if a_min is None else a_min, max if a_max is None else a_max  # noqa: A001 - the Array API's names
    if dtypes.is_foreign(x):
        own: Tensor = compat.clip(x, min, max)
        return own
    x = creation.tensor_of("clip", x)
    least, most = _limit(x, min, is_least=True), _limit(x, max, is_least=False)
    kinds = [dtypes.kind_of("clip", each) for each in (x, least, most) if each is not None]
    wanted = dtypes.promoted(*kinds)
    dtypes.refuse_complex("clip", wanted)
    for each in (least, most):
        if type(each) is int and wanted in dtypes.RANGES:
            dtypes.check_fits(each, wanted)
    if least is None and most is None:
        return x.clone()
    dtypes.shape_together("clip", *(each.shape for each in (x, least, most) if isinstance(each, Tensor)))
    found = reductions.ordered(dtypes.as_tensor(x, wanted, x.device))
    if least is not None:
        found = torch.maximum(found, reductions.ordered(dtypes.as_tensor(least, wanted, x.device)))
    if most is not None:
        found = torch.minimum(found, reductions.ordered(dtypes.as_tensor(most, wanted, x.device)))
    return reductions.unordered(found, wanted)


def _limit(x: Tensor, end: Any, *, is_least: bool) -> Any:
    """A limit, if it limits anything."""
    if x.dtype not in dtypes.RANGES or type(end) is not int:
        return end
    lowest, highest = dtypes.RANGES[x.dtype]
    return None if ((end <= lowest) if is_least else (end >= highest)) else end


def diff(
    x: Tensor, /, n: int = 1, axis: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Differences of neighbours, ``n`` times."""
    x = creation.tensor_of("diff", x)
    axis_of("diff", axis, x.dim())
    if n < 0:
        raise ArgumentError(f"diff: n={n} is negative; give 0 or more")
    wanted = dtypes.result_type(*(each for each in (x, prepend, append) if each is not None))
    if n == 0:
        return x
    able = torch.int64 if wanted is torch.uint64 else WIDE.get(wanted, wanted)
    parts = [bits64(each, wanted).to(able) for each in (prepend, x, append) if each is not None]
    joined = shaping.concat(parts, axis=axis) if len(parts) > 1 else parts[0]
    found: Tensor = compat.diff(joined, axis=axis, n=n)
    return found.view(wanted) if wanted is torch.uint64 else found.to(wanted)


def _together(name: str, x1: Any, x2: Any) -> list[Tensor]:
    """Two operands in a dtype in which torch compares what NumPy compares."""
    device = dtypes.device_of(name, x1, x2)
    wanted = dtypes.promoted(dtypes.kind_of(name, x1), dtypes.kind_of(name, x2))
    dtypes.refuse_complex(name, wanted)
    able = torch.uint8 if wanted is torch.bool else wanted
    return [reductions.ordered(dtypes.as_tensor(each, able, device)) for each in (x1, x2)]


def searchsorted(
    x1: Tensor, x2: Any, /, side: str = "left", sorter: Tensor | None = None
) -> Tensor:  # fmt: skip
    """The indices at which the elements of ``x2``, or a number, belong in the sorted ``x1``."""
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: side={shown(side)} is neither 'left' nor 'right'")
    if isinstance(x1, Tensor) and x1.dim() != 1:
        raise LayoutError(f"searchsorted: x1 has {x1.dim()} axes, and one is needed; reshape it")
    if sorter is not None:
        sorter = shaping.integers("searchsorted: sorter", sorter)
    one, two = (_keys(each).contiguous() for each in _together("searchsorted", x1, x2))
    return torch.searchsorted(one, two, side=side, sorter=sorter)


def _keys(x: Tensor) -> Tensor:
    """Integers in the order of NumPy's floats, NaN last, after which torch's own search goes astray."""
    if not x.is_floating_point() or x.dtype not in dtypes.FROM_TORCH:
        return x
    x = torch.where(torch.isnan(x), torch.nan, x + 0.0)  # one NaN, and one zero
    bits = x.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.dtype.itemsize])
    return torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Whether each element of ``x1`` is among the elements of ``x2``; ``invert``: is not."""
    for one, two in ((x1, x2), (x2, x1)):
        if (
            type(one) is int
            and isinstance(two, Tensor)
            and two.dtype in dtypes.RANGES
            and not dtypes.fits(one, two.dtype)
        ):
            shape = () if one is x1 else two.shape
            return torch.full(shape, invert, dtype=torch.bool, device=two.device)
    return torch.isin(*[each.contiguous() for each in _together("isin", x1, x2)], invert=invert)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of the elements that are not zero."""
    x = creation.tensor_of("nonzero", x)
    if not x.dim():
        raise LayoutError("nonzero: an array without axes has no indices; reshape it to (1,)")
    found: tuple[Tensor, ...] = compat.nonzero(x.to(torch.bool) if x.dtype in SIGNED else x)
    return found


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct elements in order, where each is first, where each element went, and how often each occurs."""
    x = creation.tensor_of("unique_all", x)
    flat = reductions.ordered(x).reshape(-1)
    order = _complex_order(flat) if flat.is_complex() else torch.argsort(flat, stable=True)
    values = flat[order]
    is_first = torch.ones_like(values, dtype=torch.bool)
    is_first[1:] = values[1:] != values[:-1]  # each NaN is distinct, as the standard has it
    group = torch.cumsum(is_first, 0) - 1
    inverse = torch.empty_like(group)
    inverse[order] = group
    starts = torch.nonzero(is_first).reshape(-1)
    counts = torch.diff(starts, append=starts.new_full((1,), flat.numel()))
    distinct = reductions.unordered(values[starts], x.dtype)
    return UniqueAll(distinct, order[starts], inverse.reshape(x.shape), counts)


def _complex_order(x: Tensor) -> Tensor:
    """The order of complex numbers: by the real part, then by the imaginary one; with NaN in them last, as in NumPy."""
    order = torch.argsort(x.imag, stable=True)
    for key in (x.real, torch.isnan(x.imag) + 2 * torch.isnan(x.real)):
        order = order[torch.argsort(key[order], stable=True)]
    return order


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct elements in order, and how often each occurs."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct elements in order, and where each element went among them."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements in order."""
    return unique_all(x).values
