"""The float32 inputs whose exact function value lies next to a rounding midpoint, with the right result.

For every function of one argument, `TABLES` holds each of the 2^32 inputs for which a float64 result within
`MARGIN_ULP` ulp of the exact value could round to the wrong float32. ``tools/kernel_hard_cases.py`` finds
them on a GPU and computes the results in arbitrary precision.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np

from xferlib.kernels.hard_case_data import ENCODED

MARGIN_ULP = 8
"""The largest error of a float64 function, in its ulp, that the tables cover."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Input and result bits, sorted by input; ``has_subnormal`` if a subnormal result is among them."""

    inputs: np.ndarray[Any, np.dtype[np.uint32]]
    results: np.ndarray[Any, np.dtype[np.uint32]]
    has_subnormal: bool


def decode(text: str) -> Table:
    """A table from base64 of little-endian pairs (input bits, result bits)."""
    pairs = np.frombuffer(base64.b64decode(text), "<u4").reshape(-1, 2).astype(np.uint32)
    magnitude = pairs[:, 1] & 0x7FFFFFFF
    return Table(pairs[:, 0].copy(), pairs[:, 1].copy(), bool(np.any(magnitude < 0x00800000)))


TABLES: dict[str, Table] = {name: decode(text) for name, text in ENCODED.items()}
