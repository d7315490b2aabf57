"""Whole numbers that a user gives: how many, how far ahead, which axis."""

from __future__ import annotations

import operator
from typing import Any


def whole(value: Any) -> int | None:
    """The value as an int; None where it is no whole number. What NumPy counts is one; True and 2.0 are none."""
    if type(value) is int:
        return value
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None
