"""New arrays from parts of others: repeated, shifted, cut to triangles, taken at indices, and their differences."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xferlib._api import transfers
from xferlib._api.arrays import radix, scans, shaping, sorting
from xferlib._api.arrays.elementwise import binary_kernel
from xferlib._api.arrays.joining import concat, part
from xferlib._api.arrays.primitives import Primitives
from xferlib._api.arrays.selecting import INDEX, gather
from xferlib._core.array import Array
from xferlib._core.layout import axis_of, integer_of, shape_of
from xferlib._runtime.checks import whole
from xferlib.errors import ArgumentError, KernelTypeError, LayoutError, shown
from xferlib.kernels import ElementwiseKernel, elementwise

Axes = int | tuple[int, ...]


def repeat(lib: Primitives, x: Array, repeats: Any, /, axis: int | None = None) -> Array:
    """Repeat each element; waits for the values if ``repeats`` is an array."""
    x = lib.array("repeat", x)
    if axis is None:
        x, axis = shaping.reshape(lib, x, -1), 0
    info = lib.info(x)
    along = axis_of("repeat", axis, len(info.shape))
    if isinstance(repeats, (int, np.integer)):
        if repeats < 0:
            raise ArgumentError(f"repeat: repeats={repeats} is negative; give 0 or more")
        shape = (*info.shape[: along + 1], int(repeats), *info.shape[along + 1 :])
        spread = shaping.broadcast_to(lib, shaping.expand_dims(lib, x, along + 1), shape)
        merged = (*info.shape[:along], info.shape[along] * int(repeats), *info.shape[along + 1 :])
        return shaping.reshape(lib, lib.copy(spread), merged)
    counts = lib.array("repeat", repeats)
    if (found := lib.info(counts).dtype).kind not in "biu":
        raise KernelTypeError(f"repeat: repeats have dtype {found}, and must be integers; convert them")
    return _repeated(lib, x, counts, along)


def _repeated(lib: Primitives, x: Array, repeats: Array, axis: int) -> Array:
    """Repeat each slice along an axis as often as an array says."""
    extent = lib.info(x).shape[axis]
    own = lib.info(repeats).shape
    if own not in ((), (1,), (extent,)):
        raise LayoutError(f"repeat: repeats has shape {own}, and axis {axis} {extent} elements; give one for each")
    counts = lib.copy(shaping.broadcast_to(lib, repeats, (extent,)), INDEX)
    ends = scans.scan(lib, counts, "+")
    total = int(transfers.to_host(part(lib, ends, 0, extent - 1, extent))[0]) if extent else 0
    found = sorting.searchsorted(lib, ends, radix.numbered(lib, (total,), lib.info(x).device), side="right")
    moved = shaping.moveaxis(lib, x, axis, 0)
    return shaping.moveaxis(lib, gather(lib, moved, [found]), 0, axis)


def tile(lib: Primitives, x: Array, repetitions: Axes, /) -> Array:
    """Repeat the array along its axes."""
    x = lib.array("tile", x)
    own, repetitions = lib.info(x).shape, shape_of(repetitions, what="tile: repetitions")
    rank = max(len(own), len(repetitions))
    shape = (*(1,) * (rank - len(own)), *own)
    counts = (*(1,) * (rank - len(repetitions)), *repetitions)
    pairs = [extent for pair in zip((1,) * rank, shape, strict=True) for extent in pair]
    spread = [extent for pair in zip(counts, shape, strict=True) for extent in pair]
    view = shaping.broadcast_to(lib, shaping.reshape(lib, x, tuple(pairs)), tuple(spread))
    merged = tuple(count * extent for count, extent in zip(counts, shape, strict=True))
    return shaping.reshape(lib, lib.copy(view), merged)


def roll(lib: Primitives, x: Array, /, shift: Axes, axis: Axes | None = None) -> Array:
    """Shift the elements cyclically."""
    x = lib.array("roll", x)
    lib.refuse_arrays("roll", shift=shift, axis=axis)
    if axis is None:
        flat = shaping.reshape(lib, x, -1)
        return shaping.reshape(lib, roll(lib, flat, shift, axis=0), lib.info(x).shape)
    shifts, axes = np.broadcast_arrays(shift, axis)
    found = x
    for given, number in zip(shifts.ravel().tolist(), axes.ravel().tolist(), strict=True):
        each = integer_of(given, what="roll: shift")
        along = axis_of("roll", number, len(lib.info(x).shape))
        extent = lib.info(x).shape[along]
        if extent and each % extent:
            cut = extent - each % extent
            found = concat(lib, [part(lib, found, along, cut, None), part(lib, found, along, None, cut)], axis=along)
    return lib.copy(x) if found is x else found


@functools.cache
def _triangle_kernel(name: str) -> ElementwiseKernel:
    keeps = "<=" if name == "tril" else ">="
    operation = f"y = i % columns - i / columns % rows {keeps} k ? x : (T)0;"
    return elementwise("T x, int64 rows, int64 columns, int64 k", "T y", operation, name=name)


def _triangle(lib: Primitives, name: str, x: Array, k: int) -> Array:
    x = lib.array(name, x)
    shape = lib.info(x).shape
    if len(shape) < 2:
        raise LayoutError(f"{name}: an array of {len(shape)} axes is no matrix; reshape it")
    return _triangle_kernel(name)(x, max(shape[-2], 1), max(shape[-1], 1), k)


def tril(lib: Primitives, x: Array, /, k: int = 0) -> Array:
    """The elements with zeros above a diagonal."""
    return _triangle(lib, "tril", x, k)


def triu(lib: Primitives, x: Array, /, k: int = 0) -> Array:
    """The elements with zeros below a diagonal."""
    return _triangle(lib, "triu", x, k)


def diff(
    lib: Primitives, x: Array, /, n: int = 1, axis: int = -1, prepend: Array | None = None,
    append: Array | None = None,
) -> Array:  # fmt: skip
    """Differences of neighbours, ``n`` times."""
    found = lib.array("diff", x)
    if (times := whole(n, least=0)) is None:
        raise ArgumentError(f"diff: n={shown(n)} is negative, or no whole number; give 0 or more")
    if times == 0:
        return found
    info = lib.info(found)
    along = axis_of("diff", axis, len(info.shape))
    ends = [None if each is None else lib.array("diff", each) for each in (prepend, append)]
    joined = [each for each in (ends[0], found, ends[1]) if each is not None]
    found = concat(lib, joined, axis=along) if len(joined) > 1 else found
    kernel = binary_kernel("not_equal" if lib.info(found).dtype == np.bool_ else "subtract")
    for _ in range(min(times, lib.info(found).shape[along])):  # after which there is none left
        found = kernel(part(lib, found, along, 1, None), part(lib, found, along, None, -1))
    return found


# --- taking


def _checked(lib: Primitives, name: str, x: Array, indices: Any) -> tuple[Array, Array]:
    x, indices = lib.array(name, x), lib.array(name, indices)
    found = lib.infos(name, (x, indices))[1].dtype
    if found.kind not in "iu":
        raise KernelTypeError(f"{name}: indices have dtype {found}, and must be integers; convert them")
    return x, indices


def take(lib: Primitives, x: Array, indices: Array, /, axis: int | None = None) -> Array:
    """The slices at ``indices`` along an axis."""
    x, indices = _checked(lib, "take", x, indices)
    ndim, count = len(lib.info(x).shape), len(lib.info(indices).shape)
    if axis is None and ndim != 1:
        raise LayoutError(f"take: axis={axis} is no axis of an array of {ndim}; give one")
    along = axis_of("take", axis or 0, ndim)
    found = gather(lib, shaping.moveaxis(lib, x, along, 0), [indices])
    return shaping.moveaxis(lib, found, (*range(count),), (*range(along, along + count),)) if along else found


def take_along_axis(lib: Primitives, x: Array, indices: Array, /, axis: int = -1) -> Array:
    """The elements at ``indices``, each in its own line along an axis."""
    x, indices = _checked(lib, "take_along_axis", x, indices)
    info, own = lib.info(x), lib.info(indices).shape
    along = axis_of("take_along_axis", axis, len(info.shape))
    if len(own) != len(info.shape):
        raise LayoutError(f"take_along_axis: indices have {len(own)} axes, x has {len(info.shape)}; reshape one")
    keys: list[Array] = []
    for number, extent in enumerate(info.shape):
        line = radix.numbered(lib, (extent,), info.device)
        shape = tuple(extent if each == number else 1 for each in range(len(own)))
        keys.append(indices if number == along else shaping.reshape(lib, line, shape))
    return gather(lib, x, keys)
