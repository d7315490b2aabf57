"""The same elements in another shape: views of the same memory where strides allow."""

from __future__ import annotations

from typing import Any

import numpy as np

from xferlib._core import array
from xferlib.sim.arrays import creation, launching
from xferlib.sim.arrays.array import SimArray


def permute_dims(x: SimArray, /, axes: tuple[int, ...]) -> SimArray:
    """The axes in another order."""
    return launching.viewed(x, np.permute_dims(x.memory(), axes))


def matrix_transpose(x: SimArray, /) -> SimArray:
    """The last two axes exchanged."""
    return launching.viewed(x, np.matrix_transpose(x.memory()))


def expand_dims(x: SimArray, /, axis: int = 0) -> SimArray:
    """Insert an axis of one element."""
    return launching.viewed(x, np.expand_dims(x.memory(), axis))


def squeeze(x: SimArray, /, axis: int | tuple[int, ...]) -> SimArray:
    """Remove axes of one element."""
    return launching.viewed(x, np.squeeze(x.memory(), axis))


def flip(x: SimArray, /, *, axis: int | tuple[int, ...] | None = None) -> SimArray:
    """Reverse the elements along axes."""
    return launching.viewed(x, np.flip(x.memory(), axis) if x.ndim else x.memory())


def moveaxis(x: SimArray, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> SimArray:
    """Move axes to other positions."""
    return launching.viewed(x, np.moveaxis(x.memory(), source, destination))


def broadcast_to(x: SimArray, /, shape: tuple[int, ...]) -> SimArray:
    """Repeat the elements without a copy; the result cannot be written to."""
    return launching.viewed(x, np.broadcast_to(x.memory(), shape))


def broadcast_arrays(*arrays: SimArray) -> list[SimArray]:
    """Views of one common shape."""
    shape = np.broadcast_shapes(*(each.shape for each in arrays))
    return [broadcast_to(each, shape) for each in arrays]


def reshape(x: SimArray, /, shape: Any, *, copy: bool | None = None) -> SimArray:
    """The elements in another shape: a view where strides allow."""
    try:
        view = np.reshape(x.memory(), shape, copy=False)
    except ValueError:
        if copy is False:
            raise
        flat = launching.contiguous(x) if not x.info.is_c_contiguous else x
        return launching.viewed(flat, np.reshape(flat.memory(), shape, copy=False))
    found = launching.viewed(x, view)
    return launching.deferred("copy", lambda a: a, [found], found.shape, found.dtype) if copy else found


def unstack(x: SimArray, /, *, axis: int = 0) -> tuple[SimArray, ...]:
    """Views of the slices along an axis."""
    memory = np.moveaxis(x.memory(), axis, 0)
    return tuple(launching.viewed(x, memory[index, ...]) for index in range(memory.shape[0]))


def astype(x: SimArray, dtype: Any, /, *, copy: bool = True, device: Any = None) -> SimArray:
    """Convert the elements to another dtype."""
    wanted = array.check_dtype(dtype, what="dtype")
    if wanted == x.dtype and not copy and device is None:
        return x
    found = launching.deferred("astype", lambda a: a.astype(wanted), [x], x.shape, wanted)
    return creation.asarray(found, device=device) if device is not None else found
