"""A map from byte ranges to states, in as few segments as the states allow."""

from __future__ import annotations

import operator
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

S = TypeVar("S")


class IntervalMap(Generic[S]):
    """The states of the bytes ``0 .. nbytes``, cut only where two neighbours differ.

    Args:
        nbytes: The length of the line, at least 1.
        initial: The state of every byte.
    """

    __slots__ = ("_starts", "_states", "is_cut", "nbytes")

    def __init__(self, nbytes: int, initial: S) -> None:
        self.nbytes = nbytes
        self.is_cut = False
        """Whether there may be several segments. The owner may set it too, for states that it keeps elsewhere."""
        self._starts = [0]
        self._states: list[S] = [initial]

    def __len__(self) -> int:
        return len(self._starts)

    def within(self, start: int, stop: int) -> list[tuple[int, int, S]]:
        """The segments that have a byte of ``start .. stop``, each as (start, stop, state)."""
        starts = self._starts
        first, last = bisect_right(starts, start) - 1, bisect_left(starts, stop)
        stops = [*starts[first + 1 : last + 1], self.nbytes]
        return list(zip(starts[first:last], stops, self._states[first:last], strict=False))

    def restart(self, state: S) -> None:
        """Give every byte one state."""
        self._replace(0, len(self._states), [(0, state)])
        self.is_cut = False

    def states(self) -> list[S]:
        """The state of each segment."""
        return self._states

    def at(self, position: int) -> S:
        """The state of one byte."""
        return self._states[bisect_right(self._starts, position) - 1]

    def update(self, start: int, stop: int, change: Callable[[S], S]) -> None:
        """Apply ``change`` to the states of ``start .. stop``; equal old states are changed once.

        ``change`` is called in the order of the addresses; neighbours that come out as the same
        object become one segment.
        """
        starts, states = self._starts, self._states
        if not self.is_cut and stop - start == self.nbytes:
            states[0] = change(states[0])
            return
        first = bisect_right(starts, start) - 1
        end = starts[first + 1] if first + 1 < len(starts) else self.nbytes
        if starts[first] == start and end == stop:  # one whole segment: by far the most common
            states[first] = change(states[first])
            return
        self.is_cut = True
        last = bisect_left(starts, stop, first + 1)
        changed: dict[int, S] = {}
        pieces: list[tuple[int, S]] = [(starts[first], states[first])] if starts[first] < start else []
        for begin, state in zip(starts[first:last], states[first:last], strict=True):
            key = id(state)
            if key not in changed:
                changed[key] = change(state)
            pieces.append((max(begin, start), changed[key]))
        if stop < (starts[last] if last < len(starts) else self.nbytes):
            pieces.append((stop, states[last - 1]))
        self._replace(first, last, pieces)

    def _replace(self, first: int, last: int, pieces: list[tuple[int, S]]) -> None:
        """Put others in the place of some segments, and merge neighbours that are the same object."""
        starts: list[int] = []
        states: list[S] = []
        before = self._states[first - 1] if first else None
        for start, state in pieces:
            previous = states[-1] if states else before
            if state is not previous or (first == 0 and not states):
                starts.append(start)
                states.append(state)
        if last < len(self._states) and self._states[last] is (states[-1] if states else before):
            last += 1
        both: tuple[list[Any], list[Any]] = (self._starts, self._states)
        where = slice(first, last)
        # In one call of C: an error between the two would leave lists of different lengths.
        _exhaust(map(operator.setitem, both, (where, where), (starts, states)))

    def rewrite(self, change: Callable[[S], S]) -> None:
        """Apply ``change`` to every state, and merge neighbours that it makes the same object."""
        changed: dict[int, S] = {}
        for state in self._states:
            if id(state) not in changed:
                changed[id(state)] = change(state)
        fresh = [changed[id(state)] for state in self._states]
        self._replace(0, len(self._states), list(zip(self._starts, fresh, strict=True)))
        self.is_cut = len(self._states) > 1


_exhaust: Callable[[Iterable[object]], None] = deque[object](maxlen=0).extend
