"""Element-wise functions and reductions of the Array API, each one operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib.errors import LayoutError
from xferlib.sim import kernels
from xferlib.sim.arrays import SimArray

ELEMENTWISE: tuple[str, ...] = (
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "conj", "copysign", "cos",
    "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "imag",
    "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter",
    "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh",
    "sqrt", "square", "subtract", "tan", "tanh", "trunc", "where",
)  # fmt: skip
REDUCTIONS: tuple[str, ...] = (
    "all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min", "prod", "std", "sum", "var",
)  # fmt: skip


_dtypes: dict[tuple[Any, ...], np.dtype[Any]] = {}


def _dtype(name: str, function: Callable[..., Any], operands: tuple[Any, ...]) -> np.dtype[Any]:
    """The dtype of the result: what NumPy makes of operands of the same dtypes and no elements."""
    key = (name, *(each.info.dtype if isinstance(each, SimArray) else each for each in operands))
    found = _dtypes.get(key)
    if found is None:
        empties = [np.empty(0, each.info.dtype) if isinstance(each, SimArray) else each for each in operands]
        found = function(*empties).dtype
        if all(isinstance(each, SimArray) for each in operands):  # True == 1 == 1.0 as keys, but not as operands
            _dtypes[key] = found
    return found


def _shape(name: str, operands: tuple[Any, ...]) -> tuple[int, ...]:
    shapes = [each.info.shape for each in operands if isinstance(each, SimArray)]
    if shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise LayoutError(f"{name}: shapes {listed} do not broadcast; reshape one of them") from None


def elementwise(name: str) -> Callable[..., SimArray]:
    """The function of that name, over arrays and Python scalars."""
    function = getattr(np, name)

    def operate(*operands: Any) -> SimArray:
        kernels.common_device(name, operands)
        dtype = _dtype(name, function, operands)
        return kernels.deferred(name, function, operands, _shape(name, operands), dtype)

    operate.__name__ = operate.__qualname__ = name
    operate.__doc__ = f"``{name}`` of the Array API, element by element, on the current stream."
    return operate


def into(name: str, target: SimArray, other: Any) -> None:
    """``target = name(target, other)`` in place."""
    kernels.common_device(name, (target, other))
    function = getattr(np, name)
    dtype = _dtype(name, function, (target, other))
    if not np.can_cast(dtype, target.dtype, "same_kind"):
        raise TypeError(f"{name} in place: {dtype} does not fit into {target.dtype}; write x = {name}(x, y)")
    if _shape(name, (target, other)) != target.shape:
        raise LayoutError(f"{name} in place: the result does not fit into shape {target.shape}; write x = {name}(x, y)")
    first, second = kernels.memories((target, other))

    def run() -> None:
        first[...] = function(first, second)

    operands = [each for each in (target, other) if isinstance(each, SimArray)]
    kernels.launch(name, run, operands, [target])


def reduction(name: str) -> Callable[..., SimArray]:
    """The function of that name, over some axes."""
    function = getattr(np, name)

    def operate(x: SimArray, /, *, axis: Any = None, keepdims: bool = False, **options: Any) -> SimArray:
        kernels.common_device(name, (x,))

        def reduce(values: Any) -> Any:
            return function(values, axis=axis, keepdims=keepdims, **options)

        if not x.size:  # an error for some functions, which must come now
            found = kernels.immediate(name, reduce, (x,))
            assert isinstance(found, SimArray)
            return found
        # Two elements an axis, so that a variance has a degree of freedom, give the dtype at no cost.
        small = np.asarray(reduce(np.ones((2,) * x.ndim, x.dtype)))
        axes = set(range(x.ndim)) if axis is None else {each % x.ndim for each in np.atleast_1d(axis).tolist()}
        shape = tuple(1 if n in axes else extent for n, extent in enumerate(x.shape) if keepdims or n not in axes)
        return kernels.deferred(name, reduce, (x,), shape, small.dtype)

    operate.__name__ = operate.__qualname__ = name
    operate.__doc__ = f"``{name}`` of the Array API, over ``axis``, on the current stream."
    return operate


def clip(x: SimArray, /, min: Any = None, max: Any = None) -> SimArray:  # noqa: A002 - the Array API's names
    """Values limited to ``min .. max``; None: no limit."""
    limits = tuple(each for each in (min, max) if each is not None)
    bound = lambda a, *ends: np.clip(a, ends[0] if min is not None else None, ends[-1] if max is not None else None)
    return kernels.deferred("clip", bound, (x, *limits), _shape("clip", (x, *limits)), x.dtype)
