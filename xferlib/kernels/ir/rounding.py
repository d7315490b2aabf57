"""Correct rounding of float32 functions through float64, on NumPy arrays.

A float64 result of small error rounds to the right float32 unless it lies next to a midpoint between two
of them, which its low 29 bits show. A sweep over all of float32 has found the few inputs whose exact value lies so
near a midpoint; a table has their results (`hard_cases`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib.kernels.ir.hard_cases import MARGIN_ULP, Table, tables

A = np.ndarray[Any, Any]

_local = threading.local()
_SHIFT = np.uint64(35)
_OFFSET = np.uint64(MARGIN_ULP - 0x10000000 + (1 << 64))
_NEAR = np.uint64(2 * MARGIN_ULP + 1 << 35)
_SMALLEST_NORMAL = 2.0**-126


def _buffers(count: int) -> tuple[A, A]:
    """This thread's float64 results and working bits, of ``count`` elements."""
    found: tuple[A, A] | None = getattr(_local, "buffers", None)
    if found is None or found[0].size < count:
        found = _local.buffers = (np.empty(count, np.float64), np.empty(count, np.uint64))
    return found[0][:count], found[1][:count]


def rounded(name: str, function: Callable[..., Any]) -> Callable[[A, A], None]:
    """Function ``name`` of float32 operands, correctly rounded, from a float64 ``function`` of small error."""
    table = tables()[name]

    def compute(x: A, out: A) -> None:
        wide, bits = _buffers(out.size)
        shaped = wide.reshape(out.shape)
        np.copyto(shaped, x)
        function(shaped, shaped)
        np.copyto(out, shaped, casting="unsafe")
        np.add(wide.view(np.uint64), _OFFSET, bits)
        np.left_shift(bits, _SHIFT, bits)
        is_near = bits.min(initial=_NEAR) < _NEAR
        if is_near or (table.has_subnormal and np.fmin.reduce(wide, initial=1.0) < _SMALLEST_NORMAL):
            _mend(x, out, wide, bits, table)

    return compute


def _mend(x: A, out: A, wide: A, bits: A, table: Table) -> None:
    """Insert the known results of the elements that are hard cases."""
    if not out.ndim:
        x, out = x.reshape(1), out.reshape(1)  # NumPy finds no places in an array without axes
    suspect = bits < _NEAR
    if table.has_subnormal:
        suspect |= wide < _SMALLEST_NORMAL
    places = np.nonzero(suspect.reshape(out.shape))
    inputs = np.ascontiguousarray(np.broadcast_to(x, out.shape)[places]).view(np.uint32)
    found = np.searchsorted(table.inputs, inputs)
    found[found == table.inputs.size] = 0
    is_known = table.inputs[found] == inputs
    values = out[places]
    values[is_known] = table.results[found[is_known]].view(np.float32)
    out[places] = values
