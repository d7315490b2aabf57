"""Levels of many signals at once, on whatever backend the arrays are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import xferlib as xl


def centred(signals: Any) -> Any:
    """Return signals without their means: one signal a row, shape and dtype as given."""
    xp = xl.get_array_module(signals)
    return signals - xp.mean(signals, axis=-1, keepdims=True)


@xl.elementwise
def compressed(x: Any, threshold: Any) -> Any:
    """Return x, with what exceeds a threshold at a quarter of its excess."""
    excess = np.maximum(np.abs(x) - threshold, 0)
    return np.copysign(np.minimum(np.abs(x), threshold) + excess * 0.25, x)


def total_power(batches: Iterable[np.ndarray[Any, Any]], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return the sum of the squares of batches, float64: each is copied while the one before is computed with."""
    copies, work = xl.Stream(), xl.Stream()
    staging = [xl.pinned_empty(shape), xl.pinned_empty(shape)]
    is_read = [xl.Event(timing=False), xl.Event(timing=False)]
    with work:
        power = xl.zeros(shape)
    for number, batch in enumerate(batches):
        buffer, read = staging[number % 2], is_read[number % 2]
        read.synchronize()  # before the host writes it again
        buffer[...] = batch
        arrived = xl.to_device(buffer, stream=copies)
        copies.record(read)
        work.wait(copies)
        with work:
            power += arrived * arrived
        copies.wait(work)  # before the memory of `arrived` is used again
    return xl.to_host(power, stream=work)
