"""Conversion of whole arrays on their device, as the table of guarantees defines it."""

from __future__ import annotations

from functools import cache
from typing import Any

from xferlib.kernels.elementwise import ElementwiseKernel, elementwise


@cache
def _kernel() -> ElementwiseKernel:
    return elementwise("T x", "U y", "y = x", name="xferlib_cast")


def cast_into(dst: Any, src: Any) -> None:
    """``dst[...] = src``, converted to the dtype of ``dst``, on the current stream; equal shapes."""
    _kernel()(src, dst)
