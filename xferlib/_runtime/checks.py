"""Whole numbers that a user gives: how many, how far ahead, which axis."""

from __future__ import annotations

import operator
from typing import Any

MOST_AHEAD = 4096
"""Batches or chunks that may be under way: each has a stream."""


def whole(value: Any, *, least: int) -> int | None:
    """The value as an int; None where it is no whole number from ``least``.

    What NumPy counts is one; True and 2.0 are none.
    """
    try:
        found = None if isinstance(value, bool) else operator.index(value)
    except Exception:  # a foreign object may raise anything; it is no number
        return None
    return found if found is not None and found >= least else None
