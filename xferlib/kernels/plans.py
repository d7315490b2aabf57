"""A table of prepared calls, or of what they share."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable
from typing import Any, TypeVar

V = TypeVar("V")

MOST_PLANS = 512
_TURNS = 8
"""Calls that are not kept where the table is full, for each that takes another one's place."""


class Plans(dict[Any, V]):
    """The prepared calls of one kernel, by what they depend on; a full table drops one entry at a time.

    Where more kinds of calls than it holds come in turn, dropping the oldest, or all, would drop each just before it is
    wanted again. So most new ones are not kept then, and a part of the old ones stays.
    """

    def __init__(self, most: int = MOST_PLANS) -> None:
        super().__init__()
        self._most = most
        self._waiting = 0

    @property
    def is_full(self) -> bool:
        return len(self) >= self._most

    def keep(self, key: Hashable, value: V) -> None:
        """Remember a prepared call, perhaps in the place of the oldest one."""
        if self.is_full and key not in self:
            self._waiting = (self._waiting + 1) % _TURNS
            if self._waiting:
                return
            with contextlib.suppress(RuntimeError, StopIteration):  # another thread keeps one, too
                self.pop(next(iter(self)), None)
        self[key] = value
