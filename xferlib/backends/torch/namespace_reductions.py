"""Functions over axes of torch's namespace: NumPy's dtypes, and unsigned integers of every width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_compat.torch as compat
import torch
from torch import Tensor

from xferlib._core import convert
from xferlib._core.layout import axes_of, axis_of
from xferlib._runtime.checks import flag
from xferlib.backends.torch import namespace_creation as creation
from xferlib.backends.torch import namespace_dtypes as dtypes
from xferlib.backends.torch import namespace_unsigned as unsigned
from xferlib.backends.torch.namespace_dtypes import SIGNED, WIDE
from xferlib.errors import ArgumentError, LayoutError


def _axes(name: str, x: Tensor, axis: Any) -> Any:
    """The axes of a reduction, counted from the first."""
    if axis is None:
        return None
    return axes_of(name, axis, x.dim()) if isinstance(axis, tuple) else axis_of(name, axis, x.dim())


def _refuse_empty(name: str, x: Tensor, axis: Any) -> None:
    """Refuse to look for an element where there is none.

    Raises:
        LayoutError: An axis has no elements.
    """
    axes = range(x.dim()) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if any(not x.shape[each] for each in axes):
        raise LayoutError(
            f"{name}: shape {tuple(x.shape)} has no elements along axis {axis}; call it on arrays that have some"
        )


def total(name: str) -> Callable[..., Tensor]:
    """A sum or product, of the widest integers where integers are given."""
    compute, results = getattr(compat, name), dtypes.RESULTS[name]

    def operate(x: Tensor, /, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Tensor:
        x = creation.tensor_of(name, x)
        axis = _axes(name, x, axis)
        wanted = _summed(x, dtype, results)
        if keepdims is not False and keepdims is not True:
            keepdims = flag(keepdims, f"{name}: keepdims")
        if wanted not in SIGNED and x.dtype not in SIGNED:
            found: Tensor = compute(x, axis=axis, dtype=wanted, keepdims=keepdims)
        else:
            source, able = _able(x, wanted)
            found = _unable(compute(source, axis=axis, dtype=able, keepdims=keepdims), wanted)
        return found

    return operate


def _summed(x: Tensor, dtype: Any, results: dict[torch.dtype, torch.dtype]) -> torch.dtype:
    """The dtype of a sum or product."""
    wanted: torch.dtype = dtypes.torch_dtype(dtype) or results.get(x.dtype, x.dtype)
    if x.is_complex() and wanted in dtypes.FROM_TORCH:
        convert.check_conversion(dtypes.FROM_TORCH[x.dtype], dtypes.FROM_TORCH[wanted])
    return wanted


def _able(x: Tensor, wanted: torch.dtype) -> tuple[Tensor, torch.dtype]:
    """A tensor and a dtype in which torch sums, where one of them is unsigned: integers as the bits of 64."""
    if wanted is torch.bool:
        return x.to(torch.bool).to(torch.int64), torch.int64
    if wanted in SIGNED:
        return (x.view(torch.int64) if x.dtype is torch.uint64 else x.to(torch.int64)), torch.int64
    return x.to(wanted), wanted


def _unable(x: Tensor, wanted: torch.dtype) -> Tensor:
    return x.view(wanted) if wanted is torch.uint64 else x.to(wanted)


def running(name: str) -> Callable[..., Tensor]:
    """Sums or products so far."""
    compute, results = getattr(compat, name), dtypes.RESULTS[name]

    def operate(
        x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
    ) -> Tensor:  # fmt: skip
        x = creation.tensor_of(name, x)
        x = x if x.dim() else x.reshape(1)
        if axis is not None:
            axis = axis_of(name, axis, x.dim())
        elif x.dim() > 1:
            raise ArgumentError(f"{name}: an array of {x.dim()} axes needs axis=; give one")
        wanted = _summed(x, dtype, results)
        source, able = _able(x, wanted)
        return _unable(compute(source, axis=axis, dtype=able, include_initial=include_initial), wanted)

    return operate


def mean(name: str) -> Callable[..., Tensor]:
    """The mean, in float64 of integers."""
    compute, results = getattr(compat, name), dtypes.RESULTS[name]

    def operate(x: Tensor, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        x = creation.tensor_of(name, x)
        found: Tensor = compute(x.to(results.get(x.dtype, x.dtype)), axis=_axes(name, x, axis), keepdims=keepdims)
        return found

    return operate


def deviation(name: str) -> Callable[..., Tensor]:
    """Variance or standard deviation, in float64 of integers."""
    compute, results = getattr(compat, name), dtypes.RESULTS["mean"]

    def operate(x: Tensor, /, axis: Any = None, *, correction: float = 0.0, keepdims: bool = False) -> Tensor:
        x = creation.tensor_of(name, x)
        axis, x = _axes(name, x, axis), x.to(results.get(x.dtype, x.dtype))
        if axis == ():  # over which torch finds no deviation with any correction
            axis, x, keepdims = -1, x.unsqueeze(-1), False
        found: Tensor
        if name == "std" and not float(correction).is_integer():
            found = torch.sqrt(compat.var(x, axis=axis, correction=correction, keepdims=keepdims))
        else:
            found = compute(x, axis=axis, correction=correction, keepdims=keepdims)
        return found.real if found.is_complex() else found

    return operate


def ordered(x: Tensor) -> Tensor:
    """Unsigned integers as numbers of the same order that torch compares; any other tensor as it is."""
    if x.dtype is torch.uint64:
        return unsigned.flipped(x.view(torch.int64))
    return x.to(WIDE[x.dtype]) if x.dtype in WIDE else x


def unordered(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Numbers of `ordered` in their own dtype."""
    return unsigned.flipped(x).view(dtype) if dtype is torch.uint64 else x.to(dtype)


def extreme(name: str) -> Callable[..., Tensor]:
    """The greatest element, or the least."""
    compute = getattr(compat, name)

    def operate(x: Tensor, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        x = creation.tensor_of(name, x)
        dtypes.refuse_complex(name, x.dtype)
        axis = _axes(name, x, axis)
        if not x.numel():
            _refuse_empty(name, x, axis)
        return unordered(compute(ordered(x), axis=axis, keepdims=keepdims), x.dtype)

    return operate


def position(name: str) -> Callable[..., Tensor]:
    """Where the greatest element is, or the least: the first of several."""
    compute = getattr(torch, name)

    def operate(x: Tensor, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        x = creation.tensor_of(name, x)
        dtypes.refuse_complex(name, x.dtype)
        if axis is not None:
            axis = axis_of(name, axis, x.dim())
        if not x.numel():
            _refuse_empty(name, x, axis)
        values = x.to(torch.uint8) if x.dtype is torch.bool else ordered(x)
        found: Tensor
        if axis is None:
            found = compute(values)
            return found.reshape((1,) * x.dim()) if keepdims else found
        found = compute(values, dim=axis, keepdim=keepdims)
        return found

    return operate


def truth(name: str) -> Callable[..., Tensor]:
    """Whether all or any elements are not zero, or how many."""
    compute = getattr(compat, name)

    def operate(x: Tensor, /, axis: Any = None, *, keepdims: bool = False) -> Tensor:
        x = creation.tensor_of(name, x)
        axis = _axes(name, x, axis)
        found: Tensor
        if axis == () and name == "count_nonzero":  # over which torch counts all
            found = x.to(torch.bool).to(torch.int64)
            return found
        found = compute(x.to(torch.bool) if x.dtype in SIGNED else x, axis=axis, keepdims=keepdims)
        return found

    return operate


def sort(x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis."""
    x = creation.tensor_of("sort", x)
    dtypes.refuse_complex("sort", x.dtype)
    axis = axis_of("sort", axis, x.dim())
    return unordered(compat.sort(ordered(x), axis=axis, descending=descending, stable=stable), x.dtype)


def argsort(x: Tensor, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort the elements along an axis; equal elements keep their order."""
    x = creation.tensor_of("argsort", x)
    dtypes.refuse_complex("argsort", x.dtype)
    axis = axis_of("argsort", axis, x.dim())
    found: Tensor = compat.argsort(ordered(x), axis=axis, descending=descending, stable=stable)
    return found


FAMILIES: dict[Callable[[str], Callable[..., Tensor]], tuple[str, ...]] = {
    total: ("sum", "prod"), running: ("cumulative_sum", "cumulative_prod"), mean: ("mean",), deviation: ("std", "var"),
    extreme: ("max", "min"), position: ("argmax", "argmin"), truth: ("all", "any", "count_nonzero"),
}  # fmt: skip
"""The makers of the functions, each with the names that it serves."""
