"""Freed memory that is handed out again: which work of its last owner a new array's uses must be ordered behind.

A pool gives memory back at once, in the order of the stream that it was allocated for: that stream's work may still
be using it. As long as the next owner stays on that stream, or makes others wait for it, nothing is wrong.
Addresses are not given out again here; what a new block takes over is who may still be at work on its memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xferlib._runtime.callsite import CodeLocation
from xferlib.sim.model.operations import Action

if TYPE_CHECKING:
    from xferlib.sim.model.clocks import Clock

_ROUNDED_TO = 512  # as the pools of CuPy and torch do
_MOST_KEPT = 256
_TRIM_FROM = 16


class Former(NamedTuple):
    """An array that had memory before: who may still be at work on it, and where it was freed."""

    users: tuple[Action, ...]
    location: CodeLocation


class Pool:
    """What was freed in the order of one stream, while its users may still be at work on it."""

    __slots__ = ("_freed", "_trim_at")

    def __init__(self) -> None:
        self._freed: list[tuple[int, Former]] = []
        """By bytes, the last freed at the end."""
        self._trim_at = _TRIM_FROM

    def __len__(self) -> int:
        return len(self._freed)

    def put(self, nbytes: int, former: Former, clock: Clock) -> None:
        """Memory was freed; ``clock`` as for `take`."""
        self._freed.append((-(-nbytes // _ROUNDED_TO) * _ROUNDED_TO, former))
        if len(self._freed) >= self._trim_at:
            self._freed = [each for each in self._freed if _is_at_work(each[1], clock)][-_MOST_KEPT:]
            self._trim_at = max(_TRIM_FROM, 2 * len(self._freed))

    def take(self, nbytes: int, clock: Clock) -> Former | None:
        """Who had the memory that an allocation gets, and may still be at work on it; None: it is new.

        Args:
            nbytes: The smallest piece that is large enough is taken, of several the one freed last.
            clock: What everybody knows who may use it: work that it covers is over.
        """
        wanted = -(-nbytes // _ROUNDED_TO) * _ROUNDED_TO
        while self._freed:
            best = -1 if self._freed[-1][0] == wanted else self._best(wanted)
            if best is None:
                return None
            size, former = self._freed.pop(best)
            if _is_at_work(former, clock):
                if size > wanted:
                    self._freed.insert(best, (size - wanted, former))
                return former
        return None

    def _best(self, wanted: int) -> int | None:
        found: int | None = None
        for index, (size, _) in enumerate(self._freed):
            if size >= wanted and (found is None or size <= self._freed[found][0]):
                found = index
        return found


def _is_at_work(former: Former, clock: Clock) -> bool:
    one = former.users[0]
    if _is_later(one, clock):  # by far the most common
        return True
    return any(_is_later(each, clock) for each in former.users[1:])


def _is_later(action: Action, clock: Clock) -> bool:
    participant = action.participant
    return clock.get(participant.key, 0) < action.tick and not participant.is_retired  # which no clock knows any more
