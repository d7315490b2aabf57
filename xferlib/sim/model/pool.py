"""Recycled memory: a new array's uses must be ordered behind the last owner's work on the same memory.

A pool recycles memory at once, in the order of the stream for which it was allocated, while that stream's work may
still be using it. This is correct as long as the next owner stays on that stream, or makes other streams wait for it.
Here no address is used twice; a new block takes over the list of actions that may still use its memory.
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


class LastOwner(NamedTuple):
    """The last owner of recycled memory: the actions that may still use it, and the line that freed it."""

    users: tuple[Action, ...]
    location: CodeLocation


class Pool:
    """Memory freed in the order of one stream, while its users may still be at work."""

    __slots__ = ("_freed", "_trim_at")

    def __init__(self) -> None:
        self._freed: list[tuple[int, LastOwner]] = []
        """Sizes in bytes, in the order in which they were freed."""
        self._trim_at = _TRIM_FROM

    def __len__(self) -> int:
        return len(self._freed)

    def put(self, nbytes: int, last_owner: LastOwner, clock: Clock) -> None:
        """Add freed memory; ``clock`` as for `take`."""
        self._freed.append((-(-nbytes // _ROUNDED_TO) * _ROUNDED_TO, last_owner))
        if len(self._freed) >= self._trim_at:
            self._freed = [each for each in self._freed if _is_at_work(each[1], clock)][-_MOST_KEPT:]
            self._trim_at = max(_TRIM_FROM, 2 * len(self._freed))

    def take(self, nbytes: int, clock: Clock) -> LastOwner | None:
        """The last owner of the memory that an allocation gets, if its work may still run; None for new memory.

        Args:
            nbytes: Size of the allocation. It takes the smallest memory that is large enough, of equals the last freed.
            clock: The clock that every possible user has reached: work that it covers is over.
        """
        wanted = -(-nbytes // _ROUNDED_TO) * _ROUNDED_TO
        while self._freed:
            best = -1 if self._freed[-1][0] == wanted else self._best(wanted)
            if best is None:
                return None
            size, last_owner = self._freed.pop(best)
            if _is_at_work(last_owner, clock):
                if size > wanted:
                    self._freed.insert(best, (size - wanted, last_owner))
                return last_owner
        return None

    def _best(self, wanted: int) -> int | None:
        found: int | None = None
        for index, (size, _) in enumerate(self._freed):
            if size >= wanted and (found is None or size <= self._freed[found][0]):
                found = index
        return found


def _is_at_work(last_owner: LastOwner, clock: Clock) -> bool:
    one = last_owner.users[0]
    if _is_later(one, clock):  # by far the most common
        return True
    return any(_is_later(each, clock) for each in last_owner.users[1:])


def _is_later(action: Action, clock: Clock) -> bool:
    participant = action.participant
    return clock.get(participant.key, 0) < action.tick and not participant.is_retired  # a retired one is in no clock
