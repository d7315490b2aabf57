"""NumPy's float64 functions with bits that do not depend on the operands' layout.

``np.exp(x)[::2]`` and ``np.exp(x[::2])`` may differ in the last bits, ``np.exp(x)[:1]`` and ``np.exp(x[:1])`` too.
NumPy has vector loops and scalar ones, whose last bits may differ; it takes the scalar one where a stride is negative,
that of an array of one element too, which it calls contiguous. A result must not depend on how an array is cut, or
the engine could not cut calls into blocks. So a function here sees only contiguous arrays of the result's shape with
more than one element; any other operand is copied into this thread's buffer first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib.kernels.ir.large_angles import mended

A = np.ndarray[Any, Any]
Operation = Callable[..., Any]

_local = threading.local()


def layout_independent(function: np.ufunc) -> Operation:
    """``function(*operands, out)`` of float64, with the same bits for a value at every position in every layout."""
    if function.nin == 2:
        return _layout_independent_two(function)
    name = function.__name__
    return _layout_independent_one(mended(name, function) if name in ("sin", "cos", "tan") else function)


def _layout_independent_one(function: Operation) -> Operation:
    def compute(x: A, out: A) -> None:
        if x.flags.c_contiguous and out.flags.c_contiguous and x.size == out.size > 1:
            function(x, out)
            return
        whole = _buffer(out, 0)
        np.copyto(whole, x)
        function(whole, whole)
        np.copyto(out, whole)

    return compute


def _layout_independent_two(function: np.ufunc) -> Operation:
    def compute(x: A, y: A, out: A) -> None:
        is_plain = x.flags.c_contiguous and y.flags.c_contiguous and out.flags.c_contiguous
        if is_plain and x.size == y.size == out.size > 1:
            function(x, y, out)
            return
        one, two = _buffer(out, 0), _buffer(out, 1)
        np.copyto(one, x)
        np.copyto(two, y)
        function(one, two, one)
        np.copyto(out, one)

    return compute


def _buffer(like: A, number: int) -> A:
    """This thread's memory of the shape of ``like``."""
    buffers: list[A] = _local.__dict__.setdefault("buffers", [np.empty(0), np.empty(0)])
    if buffers[number].size < like.size:
        buffers[number] = np.empty(like.size)
    return buffers[number][: like.size].reshape(like.shape)
