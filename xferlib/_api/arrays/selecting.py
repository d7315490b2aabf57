"""Elements at computed positions: gathering, scattering, and the positions of elements that are not zero."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xferlib._api import transfers
from xferlib._api.arrays import scans, shaping
from xferlib._api.arrays.elementwise import binary_kernel, where_kernel, with_array
from xferlib._api.arrays.primitives import Primitives, Shape
from xferlib._core.array import Array
from xferlib.errors import ArgumentError, LayoutError
from xferlib.kernels import ElementwiseKernel, elementwise

INDEX = np.dtype("int64")


# --- one position for each element


def _flat_index(count: int) -> tuple[str, str]:
    """The parameters and the statements that compute the C-order index ``at`` from ``count`` indices.

    It is -1 where an index is out of range: a CPU then raises, and a GPU reads 0 and writes nothing.
    """
    params = ", ".join([*(f"{'ABCDEFGHJKLMNOPQ'[n]} j{n}, int64 n{n}" for n in range(count)), "int64 r"])
    lines = ["long long at = 0; bool fits = true;"]
    for n in range(count):
        lines += [f"long long k{n} = j{n}; if (k{n} < 0) k{n} += n{n};"]
        lines += [f"fits = fits && k{n} >= 0 && k{n} < n{n}; at = at * n{n} + k{n};"]
    return params, " ".join([*lines, "at = fits ? at * r + i % r : -1;"])


@functools.cache
def _gather_kernel(count: int) -> ElementwiseKernel:
    params, index = _flat_index(count)
    return elementwise(f"raw T x, {params}", "T y", f"{index} y = x[at];", name="gather")


@functools.cache
def _scatter_kernel(count: int) -> ElementwiseKernel:
    params, index = _flat_index(count)
    return elementwise(f"{params}, T v", "raw T y", f"{index} y[at] = v;", name="scatter")


def _arguments(
    lib: Primitives, indices: Sequence[Array], extents: Shape, shape: Shape, rest: int
) -> list[Any]:  # fmt: skip
    """Each index, broadcast to the axes of ``shape`` but the last ``rest`` ones, with the extent of its axis."""
    found: list[Any] = []
    for each, extent in zip(indices, extents, strict=False):
        own = lib.info(each).shape
        spread = shaping.reshape(lib, each, (*own, *(1,) * rest))
        found += [shaping.broadcast_to(lib, spread, shape), extent]
    return [*found, math.prod(shape[len(shape) - rest :])]


def gather(lib: Primitives, x: Array, indices: Sequence[Array]) -> Array:
    """``x[indices]`` for integer arrays, one for each of the first axes of ``x``."""
    info = lib.info(x)
    around = shaping.common_shape("index", *(lib.info(each).shape for each in indices))
    rest = len(info.shape) - len(indices)
    shape = (*around, *info.shape[len(indices) :])
    out = lib.empty(shape, info.dtype, info.device)
    if math.prod(shape) and not lib.backend.at(info.device).gather(x, indices, out):
        _gather_kernel(len(indices))(x, *_arguments(lib, indices, info.shape, shape, rest), out)
    return out


def scatter(lib: Primitives, x: Array, indices: Sequence[Array], value: Any) -> None:
    """``x[indices] = value`` likewise; ``value`` has the dtype of ``x``, and is a number or of the result's shape."""
    info = lib.info(x)
    around = shaping.common_shape("assignment", *(lib.info(each).shape for each in indices))
    rest = len(info.shape) - len(indices)
    shape = (*around, *info.shape[len(indices) :])
    if math.prod(shape) and not lib.backend.at(info.device).scatter(x, indices, value):
        _scatter_kernel(len(indices))(*_arguments(lib, indices, info.shape, shape, rest), value, x)


# --- the positions of elements


@functools.cache
def _place() -> ElementwiseKernel:
    return elementwise("int64 c, bool f", "raw int64 y", "if (f) y[c - 1] = i;", name="place")


@functools.cache
def _unravel() -> ElementwiseKernel:
    return elementwise("int64 p, int64 step, int64 extent", "int64 y", "y = p / step % extent;", name="unravel")


def counted(lib: Primitives, flags: Array) -> tuple[Array, int]:
    """For flags along one axis: how many hold up to each one, and in all; waits for the values."""
    counts = scans.scan(lib, lib.copy(flags, INDEX), "+")
    size = lib.info(counts).size
    last = lib.viewed(counts, lib.shadow(counts)[-1:]) if size else counts
    return counts, int(transfers.to_host(last)[0]) if size else 0


def positions(lib: Primitives, flags: Array) -> Array:
    """The positions of the flags that hold, along their one axis; waits for the values."""
    counts, total = counted(lib, flags)
    out = lib.empty((total,), INDEX, lib.info(flags).device)
    if total:
        _place()(counts, flags, out)
    return out


def nonzero(lib: Primitives, x: Array, /) -> tuple[Array, ...]:
    """The indices of the elements that are not zero; waits for the values."""
    x = lib.array("nonzero", x)
    shape = lib.info(x).shape
    if not shape:
        raise LayoutError("nonzero: an array without axes has no indices; reshape it to (1,)")
    flags = shaping.reshape(lib, truth(lib, x), -1)
    found = positions(lib, flags)
    if len(shape) == 1:
        return (found,)
    steps = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return tuple(_unravel()(found, step, max(extent, 1)) for step, extent in zip(steps, shape, strict=True))


def truth(lib: Primitives, x: Array) -> Array:
    """Whether each element is not zero."""
    return x if lib.info(x).dtype == np.bool_ else binary_kernel("not_equal")(x, 0)


def where(lib: Primitives, condition: Array, x1: Any = None, x2: Any = None, /) -> Any:
    """``x1`` where ``condition`` holds, else ``x2``; the indices where it holds, if it is given alone."""
    if x1 is None and x2 is None:
        return nonzero(lib, condition)
    if x1 is None or x2 is None:
        raise ArgumentError("where: one of the two values is missing; give both, or neither for the indices")
    return where_kernel(*with_array(lib, "where", (condition, x1, x2)))
