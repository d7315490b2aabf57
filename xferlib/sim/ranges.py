"""Which bytes of a block an array occupies."""

from __future__ import annotations

import math

import numpy as np

from xferlib._array import ArrayInfo
from xferlib.sim.memory import Block
from xferlib.sim.operations import Span, Spans

MOST_RUNS = 4096
"""An array of more separate runs counts as its hull along the finest axes: then a column may seem to
touch its neighbours."""


def spans(info: ArrayInfo, block: Block) -> Spans:
    """The bytes of an array, as runs."""
    start = info.pointer - block.pointer
    if info.is_c_contiguous:
        return (Span(block, start, start + info.nbytes),) if info.nbytes else ()
    return strided_spans(block, start, info.shape, info.strides, info.dtype.itemsize)


def strided_spans(block: Block, start: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Spans:
    """The bytes of elements ``start + sum(i * stride)`` of a block, as runs."""
    if 0 in shape:
        return ()
    axes = sorted((abs(stride), extent) for extent, stride in zip(shape, strides, strict=True) if extent > 1 and stride)
    start += sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True) if stride < 0)
    run = itemsize
    count = math.prod(extent for _, extent in axes)
    while axes and (axes[0][0] <= run or count > MOST_RUNS):
        stride, extent = axes.pop(0)
        run = max(run, (extent - 1) * stride + run)
        count //= extent
    offsets = np.zeros(1, np.int64)
    for stride, extent in axes:
        offsets = (offsets[:, None] + np.arange(extent) * stride).reshape(-1)
    return tuple([Span(block, begin, begin + run) for begin in (np.sort(offsets) + start).tolist()])
