"""NumPy's operators for tensors, in a block: ``with xp.numpy_operators(): a / b``.

The operators of tensors are torch's, and no namespace can change them for good without changing them for every other
program in the process. Torch offers a mode of its own for one thread and one block; this is such a mode.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, overrides
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from xferlib._core import arrays, registry
from xferlib._core.dtypes import BINARY_OPERATORS, COMPARISONS, UNARY_OPERATORS
from xferlib._runtime import checks, process
from xferlib._runtime.checks import Site, user_site
from xferlib.backends.torch.dtypes import FROM_TORCH, SIGNED, as_tensor, kind_of, result, shape_together
from xferlib.backends.torch.elementwise import binary, unary
from xferlib.backends.torch.extensions import product
from xferlib.errors import ArgumentError, LayoutError, LayoutIndexError, XferError

_HOLDS = {
    (one, two): np.can_cast(FROM_TORCH[one], FROM_TORCH[two], "same_kind") for one in FROM_TORCH for two in FROM_TORCH
}


def _in_place(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    own: Callable[[Tensor, Any], Tensor] | None
    own = {"add": Tensor.add_, "subtract": Tensor.sub_, "multiply": Tensor.mul_}.get(name)

    def operate(x: Tensor, other: Any) -> Tensor:
        if own is not None and (_is_alike(x, other) if isinstance(other, Tensor) else _keeps_value(other, x.dtype)):
            try:
                return own(x, other)
            except RuntimeError:  # they share a part of their memory
                pass
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


def _is_alike(x: Tensor, other: Tensor) -> bool:
    """Whether two tensors differ in their values alone; of contiguous ones torch finds each overlap."""
    is_same = x.dtype is other.dtype and x.dtype in _NUMBERS and x.shape == other.shape
    return is_same and x.is_contiguous() and other.is_contiguous()


def _swap_operands(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda x, other: function(other, x)


# --- indexing

Key = tuple[Any, ...]


def _read(x: Tensor, key: Any) -> Tensor:
    """``x[key]``; a copy where a step is negative, of which torch has no view."""
    if _is_torchs(key):
        return x[key]
    signed = SIGNED.get(x.dtype)
    if signed is not None:
        return _read(x.view(signed), key).view(x.dtype)
    base, rest, axes = _flip_negative_steps(x, _plain(x, key))
    return (base.flip(axes) if axes else base)[rest]


def _write(x: Tensor, key: Any, value: Any) -> None:
    """``x[key] = value``."""
    if _is_torchs(key) and _keeps_value(value, x.dtype):
        x[key] = value
        return None
    if isinstance(value, Tensor):
        is_shared = value.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        value = value.to(x.dtype, copy=is_shared)  # torch copies overlapping memory in any order, or refuses
    elif x.dtype in FROM_TORCH:
        kind_of("assignment", value)
        value = as_tensor(arrays.number(value, FROM_TORCH[x.dtype]), x.dtype, x.device)
    signed = SIGNED.get(x.dtype)
    if signed is not None:
        return _write(x.view(signed), key, value.view(signed))
    base, rest, axes = _flip_negative_steps(x, _plain(x, key))
    target = base.flip(axes) if axes else x
    try:
        target[rest] = value
    except RuntimeError:
        shape_together("assignment", tuple(target[rest].shape), tuple(value.shape), is_first=True)
        raise
    if axes:
        base.copy_(target.flip(axes))
    return None


def _is_torchs(key: Any) -> bool:
    """Whether a key of integers and slices means the same to torch."""
    if type(key) is tuple and sum(part is Ellipsis for part in key) > 1:
        raise LayoutIndexError("an index has several '...'; keep one of them")
    for part in key if type(key) is tuple else (key,):
        if type(part) is slice:
            if part.step is not None and (type(part.step) is not int or part.step <= 0):
                return False
        elif type(part) not in _INTEGERS_AND_AXES:
            return False
    return True


_INTEGERS_AND_AXES = frozenset({int, type(None), type(Ellipsis)})


def _keeps_value(number: Any, dtype: torch.dtype) -> bool:
    """Whether torch gives an element of a dtype the value of a Python number as NumPy does."""
    if type(number) is float:
        return dtype is torch.float64 or (dtype is torch.float32 and -1e38 < number < 1e38)
    return type(number) is int and 0 <= number <= 127 and dtype in _NUMBERS


_NUMBERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64})


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


def _flip_negative_steps(x: Tensor, key: Key) -> tuple[Tensor, Key, list[int]]:
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


_TORCHS = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg", "bitwise_invert": "bitwise_not",
}  # fmt: skip
"""The methods of tensors whose names are not those of the functions."""


def _replacements() -> dict[Any, Callable[..., Any]]:
    """The function in place of each of torch's methods; not every version of torch has all of them."""
    found: dict[Any, Callable[..., Any]] = {
        Tensor.__getitem__: _read, Tensor.__setitem__: _write, Tensor.__int__: _as_integer,
        Tensor.__index__: _as_integer,
    }  # fmt: skip

    def replace(function: Callable[..., Any], *methods: str) -> None:
        found.update((getattr(Tensor, each), function) for each in methods if hasattr(Tensor, each))

    for operation, name in UNARY_OPERATORS.items():
        replace(unary(name), _TORCHS.get(name, name), f"__{operation}__")
    for operation, name in COMPARISONS.items():
        replace(binary(name), operation, f"__{operation}__")
    for operation, name in {**BINARY_OPERATORS, "div": "divide", "matmul": "matmul"}.items():
        function, own = product(name) if name == "matmul" else binary(name), _TORCHS.get(name, name)
        replace(_swap_operands(function), f"__r{operation}__")
        replace(function, own, f"__{operation}__")
        if name != "matmul":
            replace(_in_place(name, function), f"{own}_", f"__i{operation}__")
    return found


_REPLACEMENTS = _replacements()


class numpy_operators(TorchFunctionMode):  # type: ignore[misc]  # noqa: N801 - torch's is untyped; a program reads a verb
    """In this block, the operators and the indexing of tensors do what NumPy's do.

        with xp.numpy_operators():
            half = counts / 2                 # integers give float64
            backwards = x[::-1]               # a copy: torch has no view of a negative step

    It holds for this thread, and for every tensor in it, those of other libraries' functions that the block calls
    included. Each operation on a tensor costs two microseconds more, most of it torch's own for any mode. Methods stay
    torch's, whose own functions call them: `XferWarning` tells where one that the program calls differs from NumPy's.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _operate(func, args, kwargs)


def _operate(func: Any, args: Any, kwargs: Any) -> Any:
    ours = _REPLACEMENTS.get(func)
    if ours is None or kwargs:
        found = func(*args, **(kwargs or {}))
        if func in _METHODS:
            _compare_method(func, found, args, kwargs or {})
        return found
    return ours(*args)


# --- warnings where the operators are torch's


def _tell(text: str, remedy: str) -> None:
    """Warn once for each line of the program; not for lines of torch, whose functions mean what they say."""
    site = user_site()
    chosen = registry.get_chosen_operators("torch") or process.get().torch_operators
    if chosen is None and not registry.is_unnamed("torch"):
        return  # the program names torch by now: its operators are meant
    if site in _told or site.file.startswith(_TORCH_FOLDER):
        return
    _told.add(site)
    checks.warn(f"{text}; {remedy}")


_told: set[Site] = set()
_TORCH_FOLDER = str(Path(torch.__file__).parent) + os.sep
_SETTING = (
    "XFERLIB_TORCH_OPERATORS=numpy gives tensors NumPy's operators in the whole program, "
    "=torch says that torch's are meant"
)


def _compare_dtypes(name: str) -> Callable[[Any, tuple[Any, ...]], None]:
    """Compare the dtype of an operator's result with NumPy's."""
    expected: dict[tuple[Any, ...], torch.dtype | None] = {}

    def compare(found: Tensor, args: tuple[Any, ...]) -> None:
        kinds = tuple(each.dtype if isinstance(each, Tensor) else type(each) for each in args)
        try:
            dtype = expected[kinds]
        except KeyError:
            try:
                dtype = expected[kinds] = result(name, *(kind_of(name, each) for each in args))
            except XferError:
                dtype = expected[kinds] = None  # none of NumPy's: nothing to compare with
        if dtype is not None and found.dtype is not dtype:
            what = " and ".join(map(_describe, kinds))
            _tell(f"{name}: {_name(found.dtype)} from {what}, where NumPy's is {_name(dtype)}", _SETTING)

    return compare


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _describe(kind: Any) -> str:
    return f"a tensor of {_name(kind)}" if isinstance(kind, torch.dtype) else f"a number ({kind.__name__})"


def _compare_method(func: Any, found: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Tell where a method that tensors share with NumPy's arrays does something else."""
    name = func.__name__
    if func in _EXTREMES:
        if not isinstance(found, Tensor):
            text = f"x.{name}(axis): a tensor gives values and indices, NumPy the values"
            _tell(text, f"write xp.{name}(x, axis=axis)")
    elif not {"correction", "unbiased"}.intersection(options) and not any(each is False for each in args[1:]):
        text = f"x.{name}(): a tensor divides by one less than the number of elements, NumPy by that number"
        _tell(text, f"write xp.{name}(x), or xp.{name}(x, correction=1)")


_EXTREMES = frozenset({Tensor.max, Tensor.min})
_METHODS = _EXTREMES | {Tensor.std, Tensor.var}

_OPERATORS = {
    getattr(Tensor, each): _compare_dtypes(name)
    for table in (BINARY_OPERATORS, {"div": "divide"}, COMPARISONS, UNARY_OPERATORS)
    for operation, name in table.items()
    for each in (_TORCHS.get(name, name), f"__{operation}__", f"__r{operation}__")
    if hasattr(Tensor, each)
}


def _warn(func: Any, args: Any, kwargs: Any) -> Any:
    """Torch's operators, and a warning for each line of the program where NumPy's give something else."""
    if func is Tensor.__setitem__ and isinstance(args[2], np.generic):
        return _write(*args)  # torch refuses NumPy's numbers: there is no other meaning to keep
    found = func(*args, **(kwargs or {}))
    compare = _OPERATORS.get(func)
    if compare is not None and type(found) is Tensor and not kwargs:
        compare(found, args)
    elif func in _METHODS:
        _compare_method(func, found, args, kwargs or {})
    return found


# --- the setting


class _Setting(TorchFunctionMode):  # type: ignore[misc]
    """Give a whole thread the operators of the setting, as long as it says so."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        setting = registry.get_chosen_operators("torch") or process.get().torch_operators
        if setting == "torch":
            return func(*args, **(kwargs or {}))
        return (_operate if setting == "numpy" else _warn)(func, args, kwargs)


def begin() -> None:
    """Give this thread the operators of the setting for good.

    The mode goes beneath those that are open: the end of one of them would take it off in its own place. Lowest stays
    that of torch's default device, which looks for itself there; ``with torch.device(...)`` opens one as any other.
    """
    if not _local.is_begun:
        _change_lowest(lambda lowest: lowest.append(_Setting()))
        _local.is_begun = True


def end() -> None:
    """Give this thread torch's operators again."""
    if _local.is_begun:
        _change_lowest(lambda lowest: lowest.remove(next(each for each in lowest if type(each) is _Setting)))
        _local.is_begun = False


def _change_lowest(change: Callable[[list[Any]], None]) -> None:
    """Change the modes of this thread at their lowest place, above that of torch's default device."""
    modes = [overrides._pop_mode() for _ in range(overrides._len_torch_function_stack())]
    if modes and isinstance(modes[-1], DeviceContext) and hasattr(modes[-1], "old_device"):
        overrides._push_mode(modes.pop())
    try:
        change(modes)
    finally:
        for mode in reversed(modes):
            overrides._push_mode(mode)


class _ThreadMode(threading.local):
    is_begun = False


_local = _ThreadMode()
