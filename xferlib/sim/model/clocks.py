"""Vector clocks: the actions that happen before each stream's and each host thread's next one.

A participant counts its own actions. Its clock has, for every other participant, the last action of that one that
happens before its own next action. An action is then one pair, (participant, tick): it happens before every action
whose clock has reached that tick (the epochs of Flanagan and Freund's FastTrack, PLDI 2009).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Protocol

Clock = dict[int, int]
"""Participant key to the last of its ticks that happens before; 0 if missing."""


class HasClock(Protocol):
    """A participant, or an event."""

    @property
    def clock(self) -> Clock: ...


def joined(*clocks: Clock) -> Clock:
    """The least clock that covers all of these."""
    result: Clock = {}
    for clock in clocks:
        for key, tick in clock.copy().items():  # another host thread's may grow meanwhile
            if result.get(key, 0) < tick:
                result[key] = tick
    return result


class ParticipantKeys:
    """Gives out the participants' keys, and knows which are no longer in use."""

    __slots__ = ("_keys", "_next", "version")

    def __init__(self, first: int = 0) -> None:
        self._next = itertools.count(first)
        self._keys: set[int] = set()
        self.version = 0
        """Counts departures."""

    def enter(self) -> int:
        """Make the key of a new participant."""
        key = next(self._next)
        self._keys.add(key)
        return key

    def leave(self, keys: set[int]) -> None:
        """Remove participants that have ended and whose actions happen before all later ones."""
        self._keys -= keys
        self.version += 1

    def present(self, clock: Clock) -> Clock:
        """A clock without the participants that have left."""
        return {key: tick for key, tick in clock.items() if key in self._keys}


class KeptClock:
    """A copy of a clock to learn later, by then without the participants that have left."""

    __slots__ = ("_clock", "_participants", "_version")

    def __init__(self, clock: Clock, participants: ParticipantKeys) -> None:
        self._clock = clock
        self._participants = participants
        self._version = participants.version

    @property
    def clock(self) -> Clock:
        if self._version != self._participants.version:
            self._clock = self._participants.present(self._clock)
            self._version = self._participants.version
        return self._clock


class Joined:
    """The joined clock of several participants and events, computed on demand: it is made often and seldom read."""

    __slots__ = ("_holders",)

    def __init__(self, *holders: Iterable[HasClock]) -> None:
        self._holders = holders

    def get(self, key: int, default: int) -> int:
        return max(each.clock.get(key, default) for holders in self._holders for each in holders)


class Participant:
    """A stream or a host thread, whose actions are totally ordered."""

    __slots__ = ("_seen", "clock", "is_retired", "key", "label", "left_at", "version")

    def __init__(self, key: int, label: str) -> None:
        self.key = key
        self.label = label
        self.is_retired = False
        """Whether it has ended and all its actions happen before all later ones."""
        self.left_at = 0
        """The number of its departure from the clocks (`ParticipantKeys.version`); 0 if it has not left them."""
        self.clock: Clock = {key: 0}
        self.version = 0
        # The version of each other participant when it was last joined: joining that again is a no-op.
        self._seen: dict[int, int] = {}

    def tick(self) -> int:
        """Count one action, which is ordered behind all that the clock holds."""
        self.version += 1  # first: a participant that joins this one must not take the old clock for the new one
        tick = self.clock[self.key] + 1
        self.clock[self.key] = tick
        return tick

    def join(self, other: Participant) -> None:
        """Order this participant's next action behind all that ``other`` did so far."""
        version = other.version
        if self._seen.get(other.key) != version:
            self.learn(other.clock)
            self._seen[other.key] = version  # last, or an error in between would make the order a secret for ever

    def learn(self, clock: Clock) -> None:
        """Order this participant's next action behind all that ``clock`` covers."""
        own = self.clock
        news = {key: tick for key, tick in clock.copy().items() if own.get(key, 0) < tick}
        if news:
            self.version += 1
            own.update(news)

    def forget(self, keys: set[int]) -> None:
        """Drop participants that have left."""
        for key in keys:
            self.clock.pop(key, None)
            self._seen.pop(key, None)


RETIRED = Participant(-1, "")
"""The participant of actions that happen before all others."""
RETIRED.is_retired = True
