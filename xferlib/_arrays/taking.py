"""Slices and elements at given indices along an axis."""

from __future__ import annotations

from typing import Any

from xferlib._arrays import shaping, sorting
from xferlib._arrays.joining import normalized
from xferlib._arrays.library import ArrayLibrary
from xferlib._arrays.selecting import gather
from xferlib._core.array import Array
from xferlib.errors import KernelTypeError, LayoutError


def _checked(lib: ArrayLibrary, name: str, x: Array, indices: Any) -> tuple[Array, Array]:
    x, indices = lib.array(name, x), lib.array(name, indices)
    found = lib.infos(name, (x, indices))[1].dtype
    if found.kind not in "iu":
        raise KernelTypeError(f"{name}: indices have dtype {found}, and must be integers; convert them")
    return x, indices


def take(lib: ArrayLibrary, x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The slices at ``indices`` along an axis."""
    x, indices = _checked(lib, "take", x, indices)
    ndim, count = len(lib.info(x).shape), len(lib.info(indices).shape)
    if axis is None and ndim != 1:
        raise LayoutError(f"take: axis={axis} is no axis of an array of {ndim}; give one")
    along = normalized("take", axis or 0, ndim)
    found = gather(lib, shaping.moveaxis(lib, x, along, 0), [indices])
    return shaping.moveaxis(lib, found, (*range(count),), (*range(along, along + count),)) if along else found


def take_along_axis(lib: ArrayLibrary, x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """The elements at ``indices``, each in its own line along an axis."""
    x, indices = _checked(lib, "take_along_axis", x, indices)
    info, own = lib.info(x), lib.info(indices).shape
    along = normalized("take_along_axis", axis, len(info.shape))
    if len(own) != len(info.shape):
        raise LayoutError(f"take_along_axis: indices have {len(own)} axes, x has {len(info.shape)}; reshape one")
    keys: list[Array] = []
    for number, extent in enumerate(info.shape):
        line = sorting.numbered(lib, (extent,), info.device)
        shape = tuple(extent if each == number else 1 for each in range(len(own)))
        keys.append(indices if number == along else shaping.reshape(lib, line, shape))
    return gather(lib, x, keys)


