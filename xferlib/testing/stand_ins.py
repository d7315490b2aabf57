"""Results that a program gets from a machine, made by hand."""

from __future__ import annotations

from collections.abc import Iterable

import xferlib as xl


def recorded(operations: Iterable[xl.TraceOperation]) -> xl.trace:
    """Make a closed trace of these operations, for tests of what a program does with one.

    Args:
        operations: In the order in which a program would have asked for them.
    """
    made = xl.trace()
    made._found = tuple(operations)
    return made
