"""Freed memory that is handed out again: which work of its last owner a new array's uses must be ordered behind.

A pool gives memory back at once, in the order of the stream that it was allocated for: that stream's work may still
be using it. As long as the next owner stays on that stream, or makes others wait for it, nothing is wrong.
Addresses are not given out again here; what a new block takes over is who may still be at work on its memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xferlib._site import Place
from xferlib.sim.operations import Action

if TYPE_CHECKING:
    from xferlib.sim.clocks import Clock, Joined
    from xferlib.sim.memory import Block

_ROUNDED_TO = 512  # as the pools of CuPy and torch do
_MOST_KEPT = 256


class Former(Action):
    """An access of an array that had the memory before, and where that was freed."""

    __slots__ = ("freed",)

    def __init__(self, action: Action, freed: Place) -> None:
        self.name = action.name
        self.participant = action.participant
        self.place = action.place
        self.tick = action.tick
        self.freed = freed


Formers = tuple[Former, ...]


def last_users(block: Block, clock: Joined, freed: Place) -> Formers:
    """The last access of each participant that ``clock`` is ordered behind: of others, something else makes sure."""
    latest: dict[int, Action] = {}
    for action in _accesses(block):
        key = action.participant.key
        if key not in latest or latest[key].tick < action.tick:
            latest[key] = action
    return tuple(
        [
            action if isinstance(action, Former) else Former(action, freed)
            for key, action in latest.items()
            if 0 < action.tick <= clock.get(key, 0) and not action.participant.is_retired
        ]
    )


def _accesses(block: Block) -> Iterable[Action]:
    for write, reads in block.shadow.states():
        if write is not None:
            yield write
        yield from reads
    if block.history is not None:
        yield from block.history.latest()


class Pool:
    """What was freed in the order of one stream, with those who may still be at work on it."""

    __slots__ = ("_freed",)

    def __init__(self) -> None:
        self._freed: list[tuple[int, Formers]] = []
        """(bytes, users), the last freed at the end."""

    def put(self, nbytes: int, users: Formers, clock: Clock) -> None:
        """Memory was freed; ``clock`` as for `take`."""
        self._freed.append((_rounded(nbytes), users))
        while len(self._freed) > _MOST_KEPT or not _at_work(self._freed[0][1], clock):
            del self._freed[0]
            if not self._freed:
                break

    def take(self, nbytes: int, clock: Clock) -> Formers:
        """Who may still be at work on the memory that an allocation gets; nobody on memory that is new.

        Args:
            nbytes: The smallest piece that is large enough is taken, of several the one freed last.
            clock: What everybody knows who may use it: work that it covers is over.
        """
        wanted = _rounded(nbytes)
        while (best := self._best(wanted)) is not None:
            size, users = self._freed.pop(best)
            users = _at_work(users, clock)
            if users:
                if size > wanted:
                    self._freed.insert(best, (size - wanted, users))
                return users
        return ()

    def _best(self, wanted: int) -> int | None:
        found: int | None = None
        for index, (size, _) in enumerate(self._freed):
            if size >= wanted and (found is None or size <= self._freed[found][0]):
                found = index
        return found


def _at_work(users: Formers, clock: Clock) -> Formers:
    return tuple([each for each in users if clock.get(each.participant.key, 0) < each.tick])


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ROUNDED_TO) * _ROUNDED_TO
