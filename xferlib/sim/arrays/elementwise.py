"""Element-wise functions and reductions of the Array API, each one operation.

NumPy decides the dtype of a result, by a call with empty arrays, whose answer is cached for each function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xferlib.errors import LayoutError
from xferlib.sim.arrays import launching
from xferlib.sim.arrays.array import SimArray

REDUCTIONS = ("all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min")
ACCUMULATIONS = ("prod", "sum")
DEVIATIONS = ("std", "var")


def _run(function: Callable[..., Any], *operands: Any, out: Any) -> Callable[[], object]:
    if isinstance(function, np.ufunc):
        return functools.partial(function, *operands, out=out, casting="same_kind")

    def run() -> None:
        out[...] = function(*operands)

    return run


def unary(name: str) -> Callable[[SimArray], SimArray]:
    """The function of that name, of one array."""
    function = getattr(np, name)
    known: dict[np.dtype[Any], np.dtype[Any]] = {}

    def operate(x: SimArray, /) -> SimArray:
        if type(x) is not SimArray:
            launching.common_device(name, (x,))
        info = x.info
        dtype = known.get(info.dtype)
        if dtype is None:
            dtype = known[info.dtype] = function(np.empty(0, info.dtype)).dtype
        out = launching.new(info.shape, dtype, info.device)
        launching.launch(name, _run(function, x.memory(), out=out.memory()), (x,), (out,))
        return out

    operate.__name__ = operate.__qualname__ = name
    operate.__doc__ = f"``{name}`` of the Array API, element by element, on the current stream."
    return operate


def _empties(operands: Sequence[Any]) -> list[Any]:
    """The operands as empty arrays, and scalars unchanged, from which NumPy tells the dtype of a result."""
    return [np.empty(0, each.info.dtype) if isinstance(each, SimArray) else each for each in operands]


class _Pair:
    """The result's dtype and shape of a function of two operands, at least one of them an array."""

    __slots__ = ("_known", "function", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.function: Callable[..., Any] = getattr(np, name)
        self._known: dict[tuple[Any, Any], np.dtype[Any]] = {}

    def dtype(self, one: Any, two: Any) -> np.dtype[Any]:
        """The dtype of the result; refuses dtypes that do not mix."""
        kinds = (
            one.info.dtype if type(one) is SimArray else type(one),
            two.info.dtype if type(two) is SimArray else type(two),
        )
        found = self._known.get(kinds)
        if found is None or (kinds[0] is int and not 0 <= one < 128) or (kinds[1] is int and not 0 <= two < 128):
            launching.common_device(self.name, (one, two))
            found = self.function(*_empties((one, two))).dtype  # NumPy refuses a number that the dtype cannot hold
            self._known[kinds] = found
        return found

    def shape(self, one: SimArray, two: SimArray) -> tuple[int, ...]:
        """The common shape of two arrays of one device."""
        if one.info.device is not two.info.device:
            launching.common_device(self.name, (one, two))
        if one.info.shape == two.info.shape:
            return one.info.shape
        return common_shape(self.name, one, two)


def common_shape(name: str, *arrays: SimArray) -> tuple[int, ...]:
    """The shape to which arrays broadcast."""
    shapes = [each.info.shape for each in arrays]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise LayoutError(f"{name}: shapes {listed} do not broadcast; reshape one of them") from None


def binary(name: str) -> Callable[[Any, Any], SimArray]:
    """The function of that name, of two arrays or an array and a number, of Python or of NumPy."""
    pair = _Pair(name)

    def operate(x1: Any, x2: Any, /) -> SimArray:
        dtype = pair.dtype(x1, x2)
        if type(x1) is not SimArray:
            one, two, shape = x1, x2.memory(), x2.info.shape
            arrays: tuple[SimArray, ...] = (x2,)
        elif type(x2) is not SimArray:
            one, two, shape = x1.memory(), x2, x1.info.shape
            arrays = (x1,)
        else:
            one, two, shape = x1.memory(), x2.memory(), pair.shape(x1, x2)
            arrays = (x1, x2)
        out = launching.new(shape, dtype, arrays[0].info.device)
        launching.launch(name, _run(pair.function, one, two, out=out.memory()), arrays, (out,))
        return out

    operate.__name__ = operate.__qualname__ = name
    operate.__doc__ = f"``{name}`` of the Array API, element by element, on the current stream."
    return operate


def in_place(name: str) -> Callable[[SimArray, Any], SimArray]:
    """``target = name(target, other)`` in place."""
    pair = _Pair(name)
    fits: set[tuple[np.dtype[Any], np.dtype[Any]]] = set()

    def operate(target: SimArray, other: Any, /) -> SimArray:
        info = target.info
        dtype = pair.dtype(target, other)
        if dtype is not info.dtype and (dtype, info.dtype) not in fits:
            if not np.can_cast(dtype, info.dtype, "same_kind"):
                raise TypeError(f"{name} in place: {dtype} does not fit into {info.dtype}; write x = {name}(x, y)")
            fits.add((dtype, info.dtype))
        launching.check_writable(name, target)
        first = second = target.memory()
        reads: tuple[SimArray, ...] = (target,)
        if type(other) is not SimArray:
            second = other
        elif other is not target:
            if pair.shape(target, other) != info.shape:
                raise LayoutError(
                    f"{name} in place: the result does not fit into shape {info.shape}; write x = {name}(x, y)"
                )
            second = other.memory()
            reads = (target, other)
        launching.launch(name, _run(pair.function, first, second, out=first), reads, (target,))
        return target

    return operate


def where(condition: SimArray, x1: Any, x2: Any, /) -> SimArray:
    """``x1`` where ``condition`` holds, else ``x2``."""
    operands = (condition, x1, x2)
    device = launching.common_device("where", operands)
    arrays = [each for each in operands if isinstance(each, SimArray)]
    dtype = np.where(*_empties(operands)).dtype
    out = launching.new(common_shape("where", *arrays), dtype, device)
    launching.launch("where", _run(np.where, *launching.memories(operands), out=out.memory()), arrays, (out,))
    return out


def _reduce(name: str, x: SimArray, axis: Any, keepdims: bool, **options: Any) -> SimArray:
    launching.common_device(name, (x,))
    function = getattr(np, name)

    def reduce(values: Any) -> Any:
        return function(values, axis=axis, keepdims=keepdims, **options)

    if not x.size:  # some functions fail, and must do so now
        found = launching.immediate(name, reduce, (x,))
        assert isinstance(found, SimArray)
        return found
    # Two elements an axis, so that a variance has a degree of freedom, give the dtype at no cost.
    small = np.asarray(reduce(np.ones((2,) * x.ndim, x.dtype)))
    axes = set(range(x.ndim)) if axis is None else {each % x.ndim for each in np.atleast_1d(axis).tolist()}
    shape = tuple(1 if n in axes else extent for n, extent in enumerate(x.shape) if keepdims or n not in axes)
    return launching.deferred(name, reduce, (x,), shape, small.dtype)


def _named(name: str, function: Callable[..., SimArray]) -> Callable[..., SimArray]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{name}`` of the Array API, over ``axis``, on the current stream."
    return function


def reduction(name: str) -> Callable[..., SimArray]:
    """The function of that name, over some axes."""

    def operate(x: SimArray, /, *, axis: Any = None, keepdims: bool = False) -> SimArray:
        return _reduce(name, x, axis, keepdims)

    return _named(name, operate)


def accumulation(name: str) -> Callable[..., SimArray]:
    """The function of that name, over some axes, in a dtype that can be given."""

    def operate(x: SimArray, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> SimArray:
        return _reduce(name, x, axis, keepdims, dtype=dtype)

    return _named(name, operate)


def deviation(name: str) -> Callable[..., SimArray]:
    """The function of that name, over some axes, with a correction of the degrees of freedom."""

    def operate(x: SimArray, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> SimArray:
        return _reduce(name, x, axis, keepdims, correction=correction)

    return _named(name, operate)


def clip(x: SimArray, /, min: Any = None, max: Any = None) -> SimArray:  # noqa: A002 - the Array API's names
    """Values limited to ``min .. max``; None: no limit."""
    operands = (x, *(each for each in (min, max) if each is not None))

    def bound(a: Any, *ends: Any) -> Any:
        return np.clip(a, ends[0] if min is not None else None, ends[-1] if max is not None else None)

    launching.common_device("clip", operands)
    arrays = [each for each in operands if isinstance(each, SimArray)]
    return launching.deferred("clip", bound, operands, common_shape("clip", *arrays), bound(*_empties(operands)).dtype)
