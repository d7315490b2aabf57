"""Joining, repeating and cutting arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xferlib._api import constructors, transfers
from xferlib._api.arrays import elementwise, indexing, views
from xferlib._core.array import Array

concat = constructors.concat


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """Join arrays along a new axis."""
    return concat([views.expand_dims(each, axis=axis) for each in arrays], axis=axis)


def repeat(x: Array, repeats: Any, /, *, axis: int | None = None) -> Array:
    """Repeat each element; waits for the values if ``repeats`` is an array."""
    if axis is None:
        x, axis = views.reshape(x, -1), 0
    counts = repeats if isinstance(repeats, (int, np.integer)) else transfers.to_host(repeats)
    info = views.info_of(x, "repeat")
    places = np.repeat(np.arange(info.shape[axis]), counts)
    return indexing.take(x, transfers.to_device(places, device=info.device), axis=axis)


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """Repeat the array along its axes."""
    shape = views.info_of(x, "tile").shape
    times = (1,) * (len(shape) - len(repetitions)) + tuple(repetitions)
    extents = (1,) * (len(times) - len(shape)) + shape
    apart = views.reshape(x, tuple(n for extent in extents for n in (1, extent)))
    wide = views.broadcast_to(apart, tuple(n for pair in zip(times, extents, strict=True) for n in pair))
    return views.reshape(views.copied(wide), tuple(a * b for a, b in zip(times, extents, strict=True)))


def roll(x: Array, /, shift: Any, *, axis: Any = None) -> Array:
    """Shift the elements cyclically."""
    info = views.info_of(x, "roll")
    if axis is None:
        return views.reshape(roll(views.reshape(x, -1), shift, axis=0), info.shape)
    shifts, axes = np.broadcast_arrays(shift, axis)
    out = views.copied(x)
    for count, along in zip(shifts.reshape(-1).tolist(), axes.reshape(-1).tolist(), strict=True):
        extent = info.shape[along]
        if extent and (start := -count % extent):
            lines = views.viewed(out, lambda a, n=along: np.moveaxis(a, n, 0))  # type: ignore[misc]
            parts = [indexing.get(lines, slice(start, None)), indexing.get(lines, slice(start))]
            out = views.copied(views.moveaxis(concat(parts, axis=0), 0, along))
    return out


def _triangle(x: Array, k: int, *, is_lower: bool) -> Array:
    info = views.info_of(x, "tril" if is_lower else "triu")
    rows, columns = info.shape[-2:]
    kept = np.tri(rows, columns, k if is_lower else k - 1, dtype=bool)
    mask = transfers.to_device(kept if is_lower else ~kept, device=info.device)
    return elementwise.where(mask, x, info.dtype.type(0))


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The elements with zeros above a diagonal."""
    return _triangle(x, k, is_lower=True)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The elements with zeros below a diagonal."""
    return _triangle(x, k, is_lower=False)


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """The coordinates of a grid, one array for each axis."""
    count = len(arrays)
    order = [1, 0, *range(2, count)] if indexing == "xy" and count > 1 else list(range(count))
    shape = tuple(views.info_of(arrays[number]).shape[0] for number in order)
    lines = [
        views.reshape(each, tuple(-1 if axis == order.index(number) else 1 for axis in range(count)))
        for number, each in enumerate(arrays)
    ]
    return [views.copied(views.broadcast_to(each, shape)) for each in lines]


def diff(
    x: Array, /, *, axis: int = -1, n: int = 1, prepend: Array | None = None, append: Array | None = None
) -> Array:
    """Differences of neighbours, ``n`` times."""
    parts = [each for each in (prepend, x, append) if each is not None]
    found = concat(parts, axis=axis) if len(parts) > 1 else x
    is_bool = views.info_of(x, "diff").dtype.kind == "b"
    subtract = elementwise.made("not_equal" if is_bool else "subtract")
    for _ in range(n):
        line = views.moveaxis(found, axis, -1)
        later, earlier = indexing.get(line, (..., slice(1, None))), indexing.get(line, (..., slice(None, -1)))
        found = views.moveaxis(subtract(later, earlier), -1, axis)
    return found
