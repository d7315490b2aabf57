"""Running sums and products, in passes: each adds the element ``2**k`` before it to an element.

The order of the additions does not depend on the device, so that the bits are the same everywhere.
"""

from __future__ import annotations

import functools

import numpy as np

from xferlib._api.arrays.primitives import Primitives
from xferlib._core.array import Array
from xferlib.kernels import ElementwiseKernel, elementwise


@functools.cache
def _kernel(symbol: str) -> ElementwiseKernel:
    """One pass over rows."""
    step = f"T before = x[i - d]; y = before {symbol} x[i];"
    operation = f"if (i % extent >= d) {{ {step} }} else {{ y = x[i]; }}"
    return elementwise(
        "raw T x, int64 d, int64 extent", "T y", operation, name="scan_add" if symbol == "+" else "scan_mul"
    )


def scan(lib: Primitives, rows: Array, symbol: str) -> Array:
    """The running sums or products along the last axis of an array in C order."""
    info = lib.info(rows)
    extent, distance = info.shape[-1], 1
    if info.size and info.dtype.kind in "biu":  # in any order the same
        out = lib.empty(info.shape, info.dtype, info.device)
        function = np.cumsum if symbol == "+" else np.cumprod
        if lib.on_host("scan", lambda x, y: function(x, axis=-1, dtype=y.dtype, out=y), [rows], [out]):
            return out
    while distance < extent and info.size:
        out = lib.empty(info.shape, info.dtype, info.device)
        _kernel(symbol)(rows, distance, extent, out)
        rows, distance = out, 2 * distance
    return rows
