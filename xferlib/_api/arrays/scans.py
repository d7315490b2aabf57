"""Running sums and products: of the elements of a chunk one after the other, and of the chunks' totals likewise.

The order of the operations does not depend on the device, so that the bits are the same everywhere.
"""

from __future__ import annotations

import functools

import numpy as np

from xferlib._api.arrays.primitives import Primitives
from xferlib._core.array import Array
from xferlib.kernels import ElementwiseKernel, elementwise

_CHUNK = 32
"""Elements that one thread adds up. A row is read twice and written once, and its totals are 32 times fewer."""


@functools.cache
def _totals(symbol: str) -> ElementwiseKernel:
    """The totals of chunks, but for the last one of a row, after which nothing comes."""
    lines = [
        "long long at = i / count * extent + i % count * chunk;",
        "T sum = x[at];",
        f"for (int k = 1; k < {_CHUNK}; ++k) {{ sum = sum {symbol} x[at + k]; }}",
        "y = sum;",
    ]
    return elementwise("raw T x, int64 extent, int64 count, int64 chunk", "T y", " ".join(lines), name="chunk_totals")


@functools.cache
def _chunks(symbol: str) -> ElementwiseKernel:
    """The running results within chunks, from the running totals of those before; one thread for each chunk."""
    step = f"if (from + k < extent) {{ sum = sum {symbol} x[row + from + k]; y[row + from + k] = sum; }}"
    lines = [
        "long long row = i / count * extent, from = i % count * chunk;",
        f"T sum = x[row + from]; if (from > 0) {{ sum = t[i / count * (count - 1) + i % count - 1] {symbol} sum; }}",
        "y[row + from] = sum;",
        f"for (int k = 1; k < {_CHUNK}; ++k) {{ {step} }}",
        "done = true;",
    ]
    inputs = "raw T x, raw T t, int64 extent, int64 count, int64 chunk"
    name = "scan_add" if symbol == "+" else "scan_mul"
    return elementwise(inputs, "raw T y, bool done", " ".join(lines), name=name)


def scan(lib: Primitives, rows: Array, symbol: str) -> Array:
    """The running sums or products along the last axis of an array in C order."""
    info = lib.info(rows)
    if not info.size or info.shape[-1] == 1:
        return rows
    out = lib.empty(info.shape, info.dtype, info.device)
    if info.dtype.kind in "biu":  # in any order the same
        function = np.cumsum if symbol == "+" else np.cumprod
        if lib.on_host("scan", lambda x, y: function(x, axis=-1, dtype=y.dtype, out=y), [rows], [out]):
            return out
    extent = info.shape[-1]
    count = -(-extent // _CHUNK)
    totals = rows
    if count > 1:
        totals = lib.empty((*info.shape[:-1], count - 1), info.dtype, info.device)
        _totals(symbol)(rows, extent, count - 1, _CHUNK, totals)
        totals = scan(lib, totals, symbol)
    each = lib.empty((*info.shape[:-1], count), np.dtype(bool), info.device)  # that there is a thread for each
    _chunks(symbol)(rows, totals, extent, count, _CHUNK, out, each)
    return out
