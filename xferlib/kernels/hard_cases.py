"""The float32 inputs whose exact function value lies next to a rounding midpoint, with the right result.

For every function of one argument, `tables` holds each of the 2^32 inputs for which a float64 result within
`MARGIN_ULP` ulp of the exact value could round to the wrong float32. ``tools/kernel_hard_cases.py`` finds
them on a GPU and computes the results in arbitrary precision.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MARGIN_ULP = 8
"""The largest error of a float64 function, in its ulp, that the tables cover."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Input and result bits, sorted by input; ``has_subnormal`` if a subnormal result is among them."""

    inputs: np.ndarray[Any, np.dtype[np.uint32]]
    results: np.ndarray[Any, np.dtype[np.uint32]]
    has_subnormal: bool


@functools.cache
def tables() -> dict[str, Table]:
    """The tables by the name of the function, read at the first use.

    ``hard_cases.bin`` has a line with the number of cases of each function, ``exp=40 exp2=32 ...``, and then all of
    them as little-endian pairs (input bits, result bits).
    """
    head, _, data = Path(__file__).with_name("hard_cases.bin").read_bytes().partition(b"\n")
    pairs = np.frombuffer(data, "<u4").reshape(-1, 2).astype(np.uint32)
    result: dict[str, Table] = {}
    first = 0
    for name, _, count in (each.partition("=") for each in head.decode().split()):
        result[name] = _table(pairs[first : first + int(count)])
        first += int(count)
    return result


def _table(pairs: np.ndarray[Any, np.dtype[np.uint32]]) -> Table:
    magnitude = pairs[:, 1] & 0x7FFFFFFF
    return Table(pairs[:, 0].copy(), pairs[:, 1].copy(), bool(np.any(magnitude < 0x00800000)))
