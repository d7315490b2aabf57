"""Element-wise functions: one kernel each, traced once, so that dtypes follow NumPy's promotion on every backend."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib._api.arrays import views
from xferlib._core import promotion
from xferlib._core.array import Array
from xferlib.errors import LayoutError
from xferlib.kernels import casting
from xferlib.kernels.elementwise import ElementwiseKernel, elementwise

_RENAMED = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atan2": "arctan2", "atanh": "arctanh", "bitwise_invert": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "pow": "power", "round": "rint",
}  # fmt: skip


def _kernel(name: str) -> ElementwiseKernel:
    function = getattr(np, _RENAMED.get(name, name))
    if name in promotion.OF_ONE:  # a ufunc has no signature that could be traced
        return elementwise(lambda x: function(x), name=name)  # noqa: PLW0108
    return elementwise(lambda x, y: function(x, y), name=name)  # noqa: PLW0108


@functools.cache
def made(name: str) -> Callable[..., Any]:
    """The function of that name in the Array API, one object; its kernel is traced by the first call."""
    found: list[ElementwiseKernel] = []

    def operate(*operands: Any) -> Any:
        if not found:
            found.append(_kernel(name))
        return found[0](*operands)

    if name in ("ceil", "floor", "round", "trunc"):
        return _named(_whole(operate), name)
    return _named(operate, name)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{name}`` of the Array API, element by element, on the current stream."
    return function


def _whole(operate: Callable[..., Any]) -> Callable[..., Any]:
    """Of integers a copy: they are whole."""
    return lambda x: views.copied(x) if views.info_of(x).dtype.kind in "biu" else operate(x)


def in_place(name: str) -> Callable[[Array, Any], Array]:
    """``target = name(target, other)`` in place; refuses what the target's dtype does not hold."""
    function = made(name)

    def operate(target: Array, other: Any, /) -> Array:
        result = function(target, other)
        given, info = views.info_of(result), views.info_of(target)
        if given.shape != info.shape:
            raise LayoutError(f"{name} in place: the result has shape {given.shape}, the target {info.shape}")
        if not np.can_cast(given.dtype, info.dtype, "same_kind"):
            raise TypeError(f"{name} in place: {given.dtype} does not fit into {info.dtype}; write x = {name}(x, y)")
        if result is not target and info.size:
            casting.cast_into(target, result)
        return target

    return operate


@functools.cache
def _where() -> ElementwiseKernel:
    return elementwise(lambda condition, x, y: np.where(condition, x, y), name="where")  # noqa: PLW0108


def where(condition: Array, x1: Any, x2: Any, /) -> Array:
    """``x1`` where ``condition`` holds, elsewhere ``x2``."""
    return _where()(condition, x1, x2)


@functools.cache
def _clip(has_low: bool, has_high: bool) -> ElementwiseKernel:
    if has_low and has_high:
        return elementwise(lambda x, low, high: np.clip(x, low, high), name="clip")  # noqa: PLW0108
    if has_low:
        return elementwise(lambda x, low: np.maximum(x, low), name="clip")  # noqa: PLW0108
    return elementwise(lambda x, high: np.minimum(x, high), name="clip")  # noqa: PLW0108


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:  # noqa: A002 - the Array API's names
    """Values limited to ``min .. max``; None: no limit."""
    limits = [each for each in (min, max) if each is not None]
    return _clip(min is not None, max is not None)(x, *limits) if limits else views.copied(x)
