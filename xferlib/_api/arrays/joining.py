"""Arrays joined along an axis: each is copied into its part of a new array."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xferlib._api.arrays import indexing as _indexing
from xferlib._api.arrays import shaping
from xferlib._api.arrays.primitives import Primitives
from xferlib._core.array import Array, ArrayInfo
from xferlib._core.layout import axis_of
from xferlib._runtime.checks import choice
from xferlib.errors import ArgumentError, LayoutError, shown


def part(lib: Primitives, x: Array, axis: int, start: int | None, stop: int | None, step: int | None = None) -> Array:
    """The view of a slice along one axis."""
    return lib.viewed(x, lib.shadow(x)[(*[slice(None)] * axis, slice(start, stop, step), ...)])


def _listed(lib: Primitives, name: str, arrays: Any) -> tuple[list[Array], list[ArrayInfo]]:
    if lib.is_array(arrays):
        raise ArgumentError(f"{name}: one array was given, and it joins several; write {name}([x, y])")
    if not isinstance(arrays, Iterable):
        raise ArgumentError(f"{name}: {shown(arrays)} is no list of arrays; write {name}([x, y])")
    found = [lib.array(name, each) for each in arrays]
    if not found:
        raise ArgumentError(f"{name}: there is no array to join; give one or more")
    return found, lib.infos(name, found)


def concat(lib: Primitives, arrays: Sequence[Array], /, axis: int | None = 0) -> Array:
    """Join arrays along an axis."""
    given, infos = _listed(lib, "concat", arrays)
    if axis is None:
        given = [shaping.reshape(lib, each, -1) for each in given]
        infos, axis = [lib.info(each) for each in given], 0
    along = axis_of("concat", axis, len(infos[0].shape))
    rests = {(*info.shape[:along], *info.shape[along + 1 :]) for info in infos}
    if len(rests) > 1 or len({len(info.shape) for info in infos}) > 1:
        listed = ", ".join(str(info.shape) for info in infos)
        raise LayoutError(f"concat: shapes {listed} differ beside axis {axis}; reshape or cut one of the arrays")
    shape = list(infos[0].shape)
    shape[along] = sum(info.shape[along] for info in infos)
    out = lib.empty(tuple(shape), np.result_type(*(info.dtype for info in infos)), infos[0].device)
    start = 0
    for each, info in zip(given, infos, strict=True):
        end = start + info.shape[along]
        _indexing.assign(lib, part(lib, out, along, start, end), each)
        start = end
    return out


def stack(lib: Primitives, arrays: Sequence[Array], /, axis: int = 0) -> Array:
    """Join arrays along a new axis."""
    given, infos = _listed(lib, "stack", arrays)
    if len({info.shape for info in infos}) > 1:
        raise LayoutError(f"stack: shapes {', '.join(str(info.shape) for info in infos)} differ; reshape one of them")
    along = axis_of("stack", axis, len(infos[0].shape) + 1)
    return concat(lib, [shaping.expand_dims(lib, each, along) for each in given], axis=along)


def meshgrid(lib: Primitives, *arrays: Array, indexing: str = "xy") -> tuple[Array, ...]:
    """The coordinates of a grid, one array for each axis."""
    choice(indexing, ("xy", "ij"), "meshgrid: indexing")
    if not arrays:
        return ()
    given, infos = _listed(lib, "meshgrid", arrays)
    sizes = [math.prod(info.shape) for info in infos]
    found = []
    for number, each in enumerate(given):
        shape = [1] * len(given)
        shape[number] = sizes[number]
        found.append(shaping.reshape(lib, each, tuple(shape)))
    if indexing == "xy" and len(given) > 1:
        found = [shaping.moveaxis(lib, each, 0, 1) for each in found]
        sizes[:2] = sizes[1::-1]
    return tuple(lib.copy(shaping.broadcast_to(lib, each, tuple(sizes))) for each in found)
