"""Random orders: sorted random keys, the same on every backend because the host sorts them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xferlib.kernels.elementwise import ElementwiseKernel, elementwise

A = np.ndarray[Any, Any]


def order(keys: A) -> A:
    """The indices that sort random keys; equal ones stay in their order, whatever NumPy's sort does with them."""
    found = np.argsort(keys)
    ranked = keys[found]
    if np.any(ranked[1:] == ranked[:-1]):  # once in 2^65 / n^2 calls; a stable sort is several times slower
        found = np.argsort(keys, kind="stable")
    return found.astype(np.int64, copy=False)


@functools.cache
def gather() -> ElementwiseKernel:
    """A kernel that reads an array at the sum of two indices."""
    return elementwise("raw T x, int64 row, int64 column", "T y", "y = x[row + column]", name="gather")
