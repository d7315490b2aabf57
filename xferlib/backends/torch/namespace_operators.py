"""NumPy's operators for tensors, in a block: ``with xp.numpy_operators(): a / b``.

The operators of tensors are torch's, and no namespace can change them for good without changing them for every other
program in the process. Torch offers a mode of its own for one thread and one block; this is such a mode.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, overrides
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from xferlib._core import convert
from xferlib._runtime import config
from xferlib.backends.torch import namespace_dtypes as dtypes
from xferlib.backends.torch import namespace_elementwise as elementwise
from xferlib.backends.torch import namespace_whole as whole
from xferlib.backends.torch.namespace_dtypes import FROM_TORCH, SIGNED
from xferlib.errors import ArgumentError, LayoutError

_NAMES: dict[str, tuple[str, ...]] = {
    "add": ("add", "__add__", "__radd__"), "subtract": ("sub", "__sub__"),
    "multiply": ("mul", "__mul__", "__rmul__"), "divide": ("div", "__div__", "__truediv__"),
    "floor_divide": ("floor_divide", "__floordiv__"), "remainder": ("remainder", "__mod__"), "pow": ("pow", "__pow__"),
    "matmul": ("matmul", "__matmul__"),
    "bitwise_and": ("bitwise_and", "__and__", "__rand__"), "bitwise_or": ("bitwise_or", "__or__", "__ror__"),
    "bitwise_xor": ("bitwise_xor", "__xor__", "__rxor__"),
    "bitwise_left_shift": ("bitwise_left_shift", "__lshift__"),
    "bitwise_right_shift": ("bitwise_right_shift", "__rshift__"),
    "less": ("lt", "__lt__"), "less_equal": ("le", "__le__"), "greater": ("gt", "__gt__"),
    "greater_equal": ("ge", "__ge__"), "equal": ("eq", "__eq__"), "not_equal": ("ne", "__ne__"),
    "negative": ("neg", "__neg__"), "positive": ("positive", "__pos__"), "abs": ("abs", "__abs__"),
    "bitwise_invert": ("bitwise_not", "__invert__"),
}  # fmt: skip
"""The methods of a tensor by which torch computes each operator."""

_REVERSED: dict[str, tuple[str, ...]] = {
    "subtract": ("__rsub__",), "divide": ("__rdiv__", "__rtruediv__"), "floor_divide": ("__rfloordiv__",),
    "remainder": ("__rmod__",), "pow": ("__rpow__",), "matmul": ("__rmatmul__",),
    "bitwise_left_shift": ("__rlshift__",), "bitwise_right_shift": ("__rrshift__",),
}  # fmt: skip
"""Those that take the second operand first."""

_IN_PLACE: dict[str, tuple[str, ...]] = {
    "add": ("add_", "__iadd__"), "subtract": ("sub_", "__isub__"), "multiply": ("mul_", "__imul__"),
    "divide": ("div_", "__idiv__", "__itruediv__"), "floor_divide": ("floor_divide_", "__ifloordiv__"),
    "remainder": ("remainder_", "__imod__"), "pow": ("pow_", "__ipow__"),
    "bitwise_and": ("bitwise_and_", "__iand__"), "bitwise_or": ("bitwise_or_", "__ior__"),
    "bitwise_xor": ("bitwise_xor_", "__ixor__"), "bitwise_left_shift": ("bitwise_left_shift_", "__ilshift__"),
    "bitwise_right_shift": ("bitwise_right_shift_", "__irshift__"),
}  # fmt: skip
"""Those that write the first operand."""

_HOLDS = {
    (one, two): np.can_cast(FROM_TORCH[one], FROM_TORCH[two], "same_kind") for one in FROM_TORCH for two in FROM_TORCH
}


def _in_place(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def operate(x: Tensor, other: Any) -> Tensor:
        found = function(x, other)
        if not _HOLDS.get((found.dtype, x.dtype), True):
            raise ArgumentError(  # after a TypeError Python would compute x = x + y instead
                f"{name} in place: a {FROM_TORCH[x.dtype]} tensor does not hold the {FROM_TORCH[found.dtype]} result; "
                "write x = x + y, or convert the other operand with xp.astype"
            )
        if found.shape != x.shape:
            raise LayoutError(
                f"{name} in place: the result of shape {tuple(found.shape)} does not fit into {tuple(x.shape)}; write "
                "x = x + y"
            )
        return x.copy_(found)

    return operate


def _swapped(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, other: function(other, x)


# --- indexing

Key = tuple[Any, ...]


def _read(x: Tensor, key: Any) -> Tensor:
    """``x[key]``; a copy where a step is negative, of which torch has no view."""
    signed = SIGNED.get(x.dtype)
    if signed is not None:
        return _read(x.view(signed), key).view(x.dtype)
    base, rest, axes = _ascending(x, _plain(x, key))
    return (base.flip(axes) if axes else base)[rest]


def _write(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``."""
    if isinstance(value, Tensor):
        is_shared = value.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        value = value.to(x.dtype, copy=is_shared)  # torch copies overlapping memory in any order, or refuses
    elif x.dtype in FROM_TORCH:
        dtypes.kind_of("assignment", value)
        value = dtypes.as_tensor(convert.number(value, FROM_TORCH[x.dtype]), x.dtype, x.device)
    signed = SIGNED.get(x.dtype)
    if signed is not None:
        return _write(x.view(signed), key, value.view(signed))
    base, rest, axes = _ascending(x, _plain(x, key))
    target = base.flip(axes) if axes else x
    try:
        target[rest] = value
    except RuntimeError:
        dtypes.shape_together("assignment", tuple(target[rest].shape), tuple(value.shape), is_first=True)
        raise
    if axes:
        base.copy_(target.flip(axes))
    return None


def _plain(x: Tensor, key: Any) -> Key:
    """A key as a tuple in which torch reads every part as NumPy does: uint8 as indices, masks of no elements."""
    parts: list[Any] = []
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, np.bool_):
            parts.append(bool(part))
        elif not isinstance(part, Tensor) or part.dtype is torch.int64:
            parts.append(part)
        elif part.dtype is not torch.bool:
            parts.append(part.to(torch.int64))
        elif part is key and part.numel() == 0 and _is_empty_mask(x.shape, part.shape):
            parts += part.nonzero(as_tuple=True)
        else:
            parts.append(part)
    return tuple(parts)


def _is_empty_mask(shape: tuple[int, ...], mask: tuple[int, ...]) -> bool:
    """Whether a mask of no elements chooses nothing, as in NumPy: each of its extents is the array's, or 0."""
    return len(mask) <= len(shape) and all(each in (extent, 0) for each, extent in zip(mask, shape, strict=False))


def _ascending(x: Tensor, key: Key) -> tuple[Tensor, Key, list[int]]:
    """A view with the elements of all negative steps, the key into it, and the axes to flip before.

    Integers in the key narrow the view too, so that ``x[0, ::-1]`` copies one row.
    """
    if not any(isinstance(part, slice) and part.step is not None and part.step < 0 for part in key):
        return x, key, []
    given = sum(0 if part is Ellipsis else _axes_of(part) for part in key)
    narrow: list[Any] = []
    rest: list[Any] = []
    axes: list[int] = []
    for part in key:
        axis = len(narrow)
        if part is Ellipsis:
            narrow += [slice(None)] * (x.dim() - given)
        elif isinstance(part, slice) and part.step is not None and part.step < 0:
            indices = range(*part.indices(x.shape[axis]))
            narrow.append(slice(indices[-1], indices[0] + 1, -part.step) if indices else slice(0, 0))
            axes.append(axis)
            part = slice(None)
        elif isinstance(part, (int, np.integer)) and not isinstance(part, bool):
            index = operator.index(part)
            is_inside = -x.shape[axis] <= index < x.shape[axis]
            narrow.append(slice(index, index + 1 or None) if is_inside else slice(None))
            part = 0 if is_inside else index
        else:
            narrow += [slice(None)] * _axes_of(part)
        rest.append(part)
    return x[tuple(narrow)], tuple(rest), axes


def _axes_of(part: Any) -> int:
    """The number of axes that a part of a key reads."""
    if part is None or isinstance(part, (bool, np.bool_)):
        return 0
    return int(part.ndim) if getattr(part, "dtype", None) in (torch.bool, np.dtype(bool)) else 1


def _as_integer(x: Tensor) -> int:
    """``int(x)``, of uint64 too, where torch's own overflows."""
    return int(x.item())


# --- the mode


def _replacements() -> dict[Any, Callable[..., Any]]:
    """The function in place of each of torch's methods; not every version of torch has all of them."""
    found: dict[Any, Callable[..., Any]] = {}
    for name, methods in _NAMES.items():
        if name == "matmul":
            function = whole.product(name)
        elif name in _UNARY:
            function = elementwise.unary(name)
        else:
            function = elementwise.binary(name)
        named = dict.fromkeys(methods, function)
        named.update(dict.fromkeys(_REVERSED.get(name, ()), _swapped(function)))
        named.update(dict.fromkeys(_IN_PLACE.get(name, ()), _in_place(name, function)))
        found.update({getattr(Tensor, method, None): each for method, each in named.items()})
    found.update({Tensor.__getitem__: _read, Tensor.__setitem__: _write})
    found.update({Tensor.__int__: _as_integer, Tensor.__index__: _as_integer})
    found.pop(None, None)
    return found


_UNARY = ("negative", "positive", "abs", "bitwise_invert")
_REPLACEMENTS = _replacements()


class numpy_operators(TorchFunctionMode):  # type: ignore[misc]  # noqa: N801 - torch's is untyped; a program reads a verb
    """In this block, the operators and the indexing of tensors do what NumPy's do.

        with xp.numpy_operators():
            half = counts / 2                 # integers give float64
            backwards = x[::-1]               # a copy: torch has no view of a negative step

    It holds for this thread, and for every tensor in it, those of other libraries' functions that the block calls
    included. Each operation on a tensor costs some microseconds more.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        ours = _REPLACEMENTS.get(func)
        if ours is None or kwargs:
            return func(*args, **(kwargs or {}))
        return ours(*args)


class _Setting(numpy_operators):
    """The same for a whole thread, as long as the setting says so."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if config.get().torch_operators != "numpy":
            return func(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)


def begin() -> None:
    """Give this thread NumPy's operators for good.

    The mode goes beneath those that are open: the end of one of them would take it off in its own place. Lowest stays
    that of torch's default device, which looks for itself there; ``with torch.device(...)`` opens one as any other.
    """
    if getattr(_local, "is_begun", False):
        return
    above = [overrides._pop_mode() for _ in range(overrides._len_torch_function_stack())]
    if above and isinstance(above[-1], DeviceContext) and hasattr(above[-1], "old_device"):
        overrides._push_mode(above.pop())
    overrides._push_mode(_Setting())
    for mode in reversed(above):
        overrides._push_mode(mode)
    _local.is_begun = True


_local = threading.local()
