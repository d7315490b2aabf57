"""Vector clocks: what each stream and each host thread knows to have come before it.

A participant counts its own actions. Its clock says, for every participant, up to which action it is
ordered behind that one. An action is then one pair, (participant, tick): it came before everything
whose clock has reached that tick (the epochs of Flanagan and Freund's FastTrack, PLDI 2009).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Protocol

Clock = dict[int, int]
"""Participant to the last of its ticks that is known to have passed; a missing one is 0."""


class HasClock(Protocol):
    """A participant, or an event."""

    @property
    def clock(self) -> Clock: ...


def covers(clock: Clock, other: Clock) -> bool:
    """Whether everything that ``other`` knows is known to ``clock``."""
    get = clock.get
    return all(get(key, 0) >= tick for key, tick in other.items())


def joined(*clocks: Clock) -> Clock:
    """The least clock that covers all."""
    result: Clock = {}
    for clock in clocks:
        for key, tick in clock.copy().items():  # a host thread's own may grow meanwhile
            if result.get(key, 0) < tick:
                result[key] = tick
    return result


class Roll:
    """Who takes part: gives out keys, and says which mean nothing any more."""

    __slots__ = ("_keys", "_next", "version")

    def __init__(self, first: int = 0) -> None:
        self._next = itertools.count(first)
        self._keys: set[int] = set()
        self.version = 0
        """How often somebody has left."""

    def enter(self) -> int:
        """The key of a new participant."""
        key = next(self._next)
        self._keys.add(key)
        return key

    def leave(self, keys: set[int]) -> None:
        """Participants have ended, and everybody is ordered behind all they did."""
        self._keys -= keys
        self.version += 1

    def present(self, clock: Clock) -> Clock:
        """A clock without those who have left."""
        return {key: tick for key, tick in clock.items() if key in self._keys}


class KeptClock:
    """A clock as it was at a moment, to be learnt later: without those who will have left by then."""

    __slots__ = ("_clock", "_roll", "_version")

    def __init__(self, clock: Clock, roll: Roll) -> None:
        self._clock = clock
        self._roll = roll
        self._version = roll.version

    @property
    def clock(self) -> Clock:
        if self._version != self._roll.version:
            self._clock = self._roll.present(self._clock)
            self._version = self._roll.version
        return self._clock


class Joined:
    """Several participants and events as one: what the clock of any of them holds. Made often and seldom asked."""

    __slots__ = ("_holders",)

    def __init__(self, *holders: Iterable[HasClock]) -> None:
        self._holders = holders

    def get(self, key: int, default: int) -> int:
        return max(each.clock.get(key, default) for holders in self._holders for each in holders)


class Participant:
    """A stream, or a host thread: actions that are ordered one after another."""

    __slots__ = ("_seen", "clock", "is_retired", "key", "label", "version")

    def __init__(self, key: int, label: str) -> None:
        self.key = key
        self.label = label
        self.is_retired = False
        """It has ended, and everybody is ordered behind all it did."""
        self.clock: Clock = {key: 0}
        self.version = 0
        # The version at which each other participant was last joined: joining it again is free.
        self._seen: dict[int, int] = {}

    def tick(self) -> int:
        """Count one action; it is ordered behind all that the clock holds."""
        tick = self.clock[self.key] + 1
        self.clock[self.key] = tick
        self.version += 1
        return tick

    def join(self, other: Participant) -> None:
        """Everything up to now in ``other`` comes before what follows here."""
        if self._seen.get(other.key) != other.version:
            self._seen[other.key] = other.version
            self.learn(other.clock)

    def learn(self, clock: Clock) -> None:
        """Everything that ``clock`` covers comes before what follows here."""
        own, is_news = self.clock, False
        for key, tick in clock.copy().items():
            if own.get(key, 0) < tick:
                own[key] = tick
                is_news = True
        if is_news:
            self.version += 1

    def forget(self, keys: set[int]) -> None:
        """Drop participants that have ended and whose every action all others know."""
        for key in keys:
            self.clock.pop(key, None)
            self._seen.pop(key, None)


RETIRED = Participant(-1, "")
"""Stands for whatever everybody is ordered behind."""
RETIRED.is_retired = True
