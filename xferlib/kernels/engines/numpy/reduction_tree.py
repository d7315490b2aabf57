"""The fixed order of a reduction, as pairs of views of its accumulators: the second is combined into the first.

`xferlib.kernels.ir.reduction` defines the order. The accumulators are arrays whose last axis is reduced; the result
stays at index 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xferlib.kernels.ir.reduction import LANES, LEAF

A = np.ndarray[Any, Any]
Views = list[A]
Pair = tuple[Views, Views]


def whole(accumulators: Sequence[A]) -> Iterator[Pair]:
    """The pairs for accumulators of shape (rows, count)."""
    rows, count = accumulators[0].shape
    cut = count - count % LEAF
    if cut:
        split = (rows, cut // LEAF, LEAF)
        yield from leaves([_split(each[:, :cut], split) for each in accumulators])
    if cut < count:
        yield from leaves([each[:, cut:] for each in accumulators])
    yield from pairs([each[:, ::LEAF] for each in accumulators])


def _split(array: A, shape: tuple[int, ...]) -> A:
    view = array.reshape(shape)
    assert np.may_share_memory(view, array)  # or the results would go to a copy
    return view


def leaves(accumulators: Sequence[A]) -> Iterator[Pair]:
    """The pairs within leaves of at most `LEAF` elements: rows of lanes one after the other, then halves."""
    count = accumulators[0].shape[-1]
    for start in range(LANES, count, LANES):
        width = min(LANES, count - start)
        yield [each[..., :width] for each in accumulators], [each[..., start : start + width] for each in accumulators]
    yield from halves([each[..., :LANES] for each in accumulators])


def halves(lanes: Sequence[A]) -> Iterator[Pair]:
    """The pairs of at most `LANES` lanes: lane l takes in lane l + step, where both exist."""
    count = lanes[0].shape[-1]
    step = LANES // 2
    while step:
        if (width := min(step, count - step)) > 0:
            yield [each[..., :width] for each in lanes], [each[..., step : step + width] for each in lanes]
            count = step
        step //= 2


def pairs(partial: Sequence[A]) -> Iterator[Pair]:
    """The pairs of the leaves' results: neighbours, level by level; an odd one stays for the next level."""
    views = list(partial)
    while (count := views[0].shape[-1]) > 1:
        even = count - count % 2
        yield [each[..., 0:even:2] for each in views], [each[..., 1:even:2] for each in views]
        views = [each[..., ::2] for each in views]
