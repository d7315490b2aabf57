"""Enqueues operations on arrays, with the stream and the bytes that they read and write."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xferlib._core.array import ArrayInfo, c_strides
from xferlib._core.device import Device
from xferlib.sim.arrays.array import SimArray
from xferlib.sim.machine import current
from xferlib.sim.model.blocks import Span, Spans
from xferlib.sim.model.streams import SimStream


def new(shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: SimStream | None = None) -> SimArray:
    """An uninitialised C-contiguous array, allocated in the order of a stream; the current one if omitted."""
    order = stream if stream is not None else current.stream(device)
    nbytes = math.prod(shape) * dtype.itemsize
    allocation = current.machine().allocate(nbytes, order)
    block = allocation.block
    info = ArrayInfo(block.pointer, shape, c_strides(shape, dtype.itemsize), dtype, device, True)
    return SimArray(allocation, info, (Span(block, 0, nbytes),) if nbytes else ())


def memories(operands: Sequence[Any]) -> list[Any]:
    """The operands as an operation computes with them when it is carried out: memory for arrays."""
    return [each.memory() if isinstance(each, SimArray) else each for each in operands]


def launch(
    name: str,
    run: Callable[[], object],
    reads: Sequence[SimArray],
    writes: Sequence[SimArray],
    on: SimStream | None = None,
    *,
    uses_values: bool = True,
) -> None:
    """Enqueue an operation, on the current stream of its arrays' device if ``on`` is None.

    ``uses_values``: whether reading memory without a value is a fault; False if it may not use all it reads.
    """
    simulator = current.simulator()
    stream = on if on is not None else simulator.current((writes or reads)[0].info.device)
    if stream.recorded is not None:
        stream.recorded.kept += (*reads, *writes)
    read, written = spans_of(reads), spans_of(writes)
    nbytes = 0
    for array in (*reads, *writes):
        nbytes += array.memory().nbytes
    simulator.machine.enqueue(stream, name, run, reads=read, writes=written, nbytes=nbytes, uses_values=uses_values)


def spans_of(arrays: Sequence[SimArray]) -> Spans:
    """The spans of several arrays."""
    if len(arrays) == 1:
        return arrays[0].spans()
    found: Spans = ()
    for each in arrays:
        found += each.spans()
    return found
