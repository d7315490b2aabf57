"""Elements at computed positions: operations that read and write just these, so that the detector knows them.

The bytes to access depend on the indices, so these are read at once: a fast device is as legal as a slow one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xferlib._core.array import c_strides
from xferlib._core.raw import captured
from xferlib.sim.arrays import launching
from xferlib.sim.arrays.array import HostArray, SimArray
from xferlib.sim.machine import current
from xferlib.sim.model import ranges
from xferlib.sim.model.blocks import Spans
from xferlib.sim.model.streams import SimStream

Indices = tuple[HostArray, ...]


def gather(x: SimArray, indices: Sequence[SimArray], out: SimArray) -> None:
    """Enqueue ``out[...] = x[indices]``."""
    stream = current.stream(x.device)
    found = _values(indices, stream)
    source, into = x.memory(), out.memory()
    _check(found, x.shape)

    def run() -> None:
        into[...] = source[found]

    reads = selected(x, found)
    current.machine().enqueue(stream, "index", run, reads=reads, writes=out.spans(), nbytes=2 * out.nbytes)


def scatter(x: SimArray, indices: Sequence[SimArray], value: Any) -> None:
    """Enqueue ``x[indices] = value``, of an array or a number; a mask may stand for the indices."""
    stream = current.stream(x.device)
    found = _values(indices, stream)
    into, (source,) = x.memory(), launching.memories((value,))
    _check(found, x.shape)

    def run() -> None:
        into[found] = source

    reads = value.spans() if isinstance(value, SimArray) else ()
    current.machine().enqueue(stream, "assignment", run, reads=reads, writes=selected(x, found), nbytes=x.nbytes)


def _values(indices: Sequence[SimArray], stream: SimStream) -> Indices:
    """Copies of the indices, as they are in stream order."""
    if stream.recorded is not None:
        raise captured("an index that is an array", stream.device)
    memories = launching.memories(indices)
    copies: list[HostArray] = []
    simulated, spans = current.machine(), launching.spans_of(indices)
    with simulated.lock:
        read = lambda: copies.extend(each.copy() for each in memories)
        operation = simulated.enqueue(stream, "index", read, reads=spans, nbytes=0)
        assert operation is not None
        simulated.engine.force(operation)
    return tuple(copies)


def _check(indices: Indices, shape: tuple[int, ...]) -> None:
    """Refuse indices out of range.

    Raises:
        IndexError: One is.
    """
    for axis, (each, extent) in enumerate(zip(indices, shape, strict=False)):
        if each.dtype != np.bool_ and each.size and not -extent <= each.min() <= each.max() < extent:
            raise IndexError(f"an index is out of range for axis {axis} of {extent} elements; it must be below")


def selected(array: SimArray, keys: Indices) -> Spans:
    """The spans of the elements of ``array[keys]``."""
    (whole,) = array.spans() or (None,)
    if whole is None:
        return ()
    shape, strides, axes = array.shape, array.strides, array.ndim
    rest = sum(each.ndim if each.dtype == np.bool_ else 1 for each in keys)
    if c_strides(shape[rest:], array.dtype.itemsize) == strides[rest:]:
        axes = rest  # the axes without a key are contiguous
    run = math.prod(shape[axes:]) * array.dtype.itemsize
    base = array.info.pointer - array.allocation.block.pointer

    def find() -> ranges.Offsets:
        offsets = np.full((), base, np.int64)
        for axis in range(axes):
            along = np.arange(shape[axis], dtype=np.int64) * strides[axis]
            line = along.reshape(-1, *[1] * (axes - axis - 1))
            offsets = offsets + np.broadcast_to(line, shape[:axes])[keys]
        return np.asarray(offsets).reshape(-1)

    return (whole._replace(form=ranges.Cells(run, find)),)
