"""Tells whether arrays share memory, from their pointers and strides alone, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xferlib._core.layout import bounds

_WORK = 100_000


class _Memory:
    """An array interface over an address that NumPy never dereferences."""

    def __init__(self, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> None:
        self.__array_interface__ = {
            "version": 3, "data": (pointer, False), "shape": shape, "strides": strides, "typestr": f"|V{itemsize}",
        }  # fmt: skip


def share_memory(
    one: tuple[int, tuple[int, ...], tuple[int, ...], int], two: tuple[int, tuple[int, ...], tuple[int, ...], int]
) -> bool:
    """Whether two arrays, each (pointer, shape, strides, itemsize), have a byte in common; True if too hard to say.

    Empty arrays share nothing.
    """
    if 0 in one[1] or 0 in two[1]:
        return False
    low_one, high_one = bounds(*one)
    low_two, high_two = bounds(*two)
    if high_one <= low_two or high_two <= low_one:
        return False
    try:
        return bool(np.shares_memory(_as_array(*one), _as_array(*two), max_work=_WORK))  # type: ignore[arg-type]  # the stub lacks other limits
    except np.exceptions.TooHardError:
        return True


def _as_array(*memory: Any) -> np.ndarray[Any, Any]:
    return np.asarray(_Memory(*memory))


def is_self_overlapping(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether two elements of an array may share memory, as after broadcasting."""
    if 0 in shape:
        return False  # NumPy's strides are often 0 then
    steps = sorted((abs(stride), extent) for extent, stride in zip(shape, strides, strict=True) if extent > 1)
    reach = itemsize
    for stride, extent in steps:
        if stride < reach:
            return True
        reach = stride * (extent - 1) + reach
    return False
