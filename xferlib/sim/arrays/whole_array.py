"""Functions of whole arrays: sorting, searching, sets, products, joining.

Where no simple rule gives the result's shape, the function is carried out at once: that is a legal order, and
the detector sees the same accesses. Where the shape depends on values, the host waits for them, as on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xferlib.errors import LayoutError
from xferlib.sim.arrays import indexing, launching
from xferlib.sim.arrays.array import HostArray, SimArray

Axes = int | tuple[int, ...]


def _now(name: str, run: Callable[..., Any], *arrays: SimArray) -> SimArray:
    found = launching.immediate(name, run, arrays)
    assert isinstance(found, SimArray)
    return found


def _same_shape(name: str, run: Callable[[HostArray], Any], x: SimArray, dtype: Any = None) -> SimArray:
    return launching.deferred(name, run, (x,), x.shape, dtype or x.dtype)


# --- order


def sort(x: SimArray, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> SimArray:
    """The elements in order along an axis."""
    if not descending:
        return _same_shape("sort", lambda a: np.sort(a, axis=axis, stable=stable), x)
    return _same_shape("sort", lambda a: np.flip(np.sort(a, axis=axis, stable=stable), axis=axis), x)


def argsort(x: SimArray, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> SimArray:
    """The indices that sort the elements along an axis; equal elements keep their order."""

    def run(a: HostArray) -> Any:
        if not descending:
            return np.argsort(a, axis=axis, stable=stable)
        backwards = np.argsort(np.flip(a, axis=axis), axis=axis, stable=stable)
        return np.flip(a.shape[axis] - 1 - backwards, axis=axis)

    return _same_shape("argsort", run, x, np.dtype(np.intp))


def searchsorted(
    x1: SimArray, x2: SimArray, /, *, side: str = "left", sorter: SimArray | None = None
) -> SimArray:  # fmt: skip
    """The indices at which the elements of ``x2`` belong in the sorted ``x1``."""
    run = lambda a, v, order=None: np.searchsorted(a, v, side=side, sorter=order)  # type: ignore[call-overload]
    return _now("searchsorted", run, x1, x2, *([sorter] if sorter is not None else []))


def nonzero(x: SimArray, /) -> tuple[SimArray, ...]:
    """The indices of the elements that are not zero; waits for the values."""
    found = launching.immediate("nonzero", np.nonzero, (x,), waits=True)
    return found if isinstance(found, tuple) else (found,)


def _unique(name: str) -> Callable[[SimArray], Any]:
    function = getattr(np, name)
    results: list[Any] = []

    def operate(x: SimArray, /) -> Any:
        if not results:  # the tuple's type, with the standard's names
            results.append(type(function(np.empty(0))))
        found = launching.immediate(name, function, (x,), waits=True)
        return results[0](*found) if isinstance(found, tuple) else found

    operate.__name__ = operate.__qualname__ = name
    operate.__doc__ = f"``{name}`` of the Array API; waits for the values."
    return operate


unique_all, unique_counts, unique_inverse, unique_values = map(
    _unique, ("unique_all", "unique_counts", "unique_inverse", "unique_values")
)


# --- parts and joins


def take(x: SimArray, indices: SimArray, /, *, axis: int | None = None) -> SimArray:
    """The slices at ``indices`` along an axis."""
    launching.common_device("take", (x, indices))
    return indexing.select("take", x, (*[slice(None)] * _axis("take", x, axis), indices))


def take_along_axis(x: SimArray, indices: SimArray, /, *, axis: int = -1) -> SimArray:
    """The elements at ``indices``, each in its own line along an axis."""
    launching.common_device("take_along_axis", (x, indices))
    along = _axis("take_along_axis", x, axis)
    if indices.ndim != x.ndim:
        raise LayoutError(f"take_along_axis: indices have {indices.ndim} axes, x has {x.ndim}; reshape one of them")
    lines = np.ogrid[tuple(slice(extent) for extent in x.shape)]
    return indexing.select("take_along_axis", x, (*lines[:along], indices, *lines[along + 1 :]))


def _axis(name: str, x: SimArray, axis: int | None) -> int:
    if axis is None and x.ndim == 1:
        return 0
    if axis is None or not -x.ndim <= axis < x.ndim:
        raise LayoutError(f"{name}: axis={axis} is no axis of an array of {x.ndim}; give one")
    return axis % x.ndim


def concat(arrays: Sequence[SimArray], /, *, axis: int | None = 0) -> SimArray:
    """Join arrays along an axis."""
    return _now("concat", lambda *values: np.concat(values, axis=axis), *arrays)


def stack(arrays: Sequence[SimArray], /, *, axis: int = 0) -> SimArray:
    """Join arrays along a new axis."""
    return _now("stack", lambda *values: np.stack(values, axis=axis), *arrays)


def repeat(x: SimArray, repeats: Any, /, *, axis: int | None = None) -> SimArray:
    """Repeat each element; waits for the values if ``repeats`` is an array."""
    if not isinstance(repeats, SimArray):
        return _now("repeat", lambda a: np.repeat(a, repeats, axis=axis), x)
    found = launching.immediate("repeat", lambda a, n: np.repeat(a, n, axis=axis), (x, repeats), waits=True)
    assert isinstance(found, SimArray)
    return found


def tile(x: SimArray, repetitions: tuple[int, ...], /) -> SimArray:
    """Repeat the array along its axes."""
    return _now("tile", lambda a: np.tile(a, repetitions), x)


def roll(x: SimArray, /, shift: Axes, *, axis: Axes | None = None) -> SimArray:
    """Shift the elements cyclically."""
    return _same_shape("roll", lambda a: np.roll(a, shift, axis=axis), x)


def tril(x: SimArray, /, *, k: int = 0) -> SimArray:
    """The elements with zeros above a diagonal."""
    return _same_shape("tril", lambda a: np.tril(a, k), x)


def triu(x: SimArray, /, *, k: int = 0) -> SimArray:
    """The elements with zeros below a diagonal."""
    return _same_shape("triu", lambda a: np.triu(a, k), x)


def meshgrid(*arrays: SimArray, indexing: str = "xy") -> list[SimArray]:
    """The coordinates of a grid, one array for each axis."""
    found = launching.immediate("meshgrid", lambda *values: np.meshgrid(*values, indexing=indexing), arrays)  # type: ignore[call-overload]
    return list(found) if isinstance(found, tuple) else [found]


# --- along axes


def cumulative_sum(
    x: SimArray, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> SimArray:  # fmt: skip
    """Sums of the elements so far."""
    run = lambda a: np.cumulative_sum(a, axis=axis, dtype=dtype, include_initial=include_initial)
    return _now("cumulative_sum", run, x)


def cumulative_prod(
    x: SimArray, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> SimArray:  # fmt: skip
    """Products of the elements so far."""
    run = lambda a: np.cumulative_prod(a, axis=axis, dtype=dtype, include_initial=include_initial)
    return _now("cumulative_prod", run, x)


def diff(
    x: SimArray, /, *, axis: int = -1, n: int = 1, prepend: SimArray | None = None, append: SimArray | None = None
) -> SimArray:  # fmt: skip
    """Differences of neighbours, ``n`` times."""
    ends = [each for each in (prepend, append) if each is not None]

    def run(a: HostArray, *found: HostArray) -> Any:
        before = {} if prepend is None else {"prepend": found[0]}
        after = {} if append is None else {"append": found[-1]}
        return np.diff(a, n, axis, **before, **after)

    return _now("diff", run, x, *ends)


# --- products


def matmul(x1: SimArray, x2: SimArray, /) -> SimArray:
    """The product of matrices."""
    return _now("matmul", np.matmul, x1, x2)


def tensordot(x1: SimArray, x2: SimArray, /, *, axes: Any = 2) -> SimArray:
    """Sums of products over several axes."""
    return _now("tensordot", lambda a, b: np.tensordot(a, b, axes), x1, x2)


def vecdot(x1: SimArray, x2: SimArray, /, *, axis: int = -1) -> SimArray:
    """Dot products along an axis."""
    run = lambda a, b: np.vecdot(a, b, axis=axis)  # type: ignore[call-overload]
    launching.common_device("vecdot", (x1, x2))
    try:
        is_fitting = x1.shape[axis] == x2.shape[axis]
        shape = np.broadcast_shapes(*(each.shape[:axis] + each.shape[axis:][1:] for each in (x1, x2)))
    except (IndexError, ValueError):
        is_fitting = False
    if not is_fitting:
        return _now("vecdot", run, x1, x2)  # NumPy raises, saying why
    dtype = np.vecdot(*(np.ones(1, each.dtype) for each in (x1, x2))).dtype
    return launching.deferred("vecdot", run, (x1, x2), shape, dtype)
