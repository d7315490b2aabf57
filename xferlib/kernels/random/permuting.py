"""Random orders: sorted random keys, the same on every backend because the host sorts them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xferlib.kernels.elementwise import ElementwiseKernel, elementwise

A = np.ndarray[Any, Any]


def order(keys: A) -> A:
    """The indices that sort random keys of 64 bits; equal ones stay in their order.

    NumPy sorts numbers in a third of the time that it sorts indices in. So each key has its index for its lowest bits,
    and the few whose upper bits are equal are sorted again.
    """
    bits = max(keys.size - 1, 0).bit_length()
    low = np.uint64((1 << bits) - 1)
    ranked = np.arange(keys.size, dtype=np.uint64)
    ranked |= keys & ~low
    ranked.sort()
    found = (ranked & low).view(np.int64)
    ranked >>= np.uint64(bits)
    equal = np.flatnonzero(ranked[1:] == ranked[:-1])
    if equal.size:
        again = np.union1d(equal, equal + 1)
        among = found[again]
        found[again] = among[np.argsort(keys[among], kind="stable")]
    return found


@functools.cache
def gather() -> ElementwiseKernel:
    """A kernel that reads an array at the sum of two indices."""
    return elementwise("raw T x, int64 row, int64 column", "T y", "y = x[row + column]", name="gather")
