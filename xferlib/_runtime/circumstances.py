"""A number for the circumstances in which short cuts are allowed: another one after each change of them.

A short cut may keep what it has found out (no recording is open, no path is forced, this is the default device) for as
long as the number stays. It stands in one place so that C looks at it in a nanosecond. `changed` follows the change.
"""

from __future__ import annotations

import itertools

number = [1]
"""The current number; never one that was there before."""
scopes: list[None] = []
"""Not empty once a block has been entered: from then on asynchronous tasks may have their own backend and stream."""

_numbers = itertools.count(2)


def changed() -> None:
    """Void the findings of short cuts."""
    number[0] = next(_numbers)
