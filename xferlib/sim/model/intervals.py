"""A map from byte ranges to states, in as few segments as the states allow."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Generic, TypeVar

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
        self._starts, self._states, self.is_cut = [0], [state], False

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
        first = self._cut(start)
        last = self._cut(stop) if stop < self.nbytes else len(starts)
        changed: dict[int, S] = {}
        fresh: list[S] = []
        for state in states[first:last]:
            key = id(state)
            if key not in changed:
                changed[key] = change(state)
            fresh.append(changed[key])
        self._replace(first, last, fresh)

    def _cut(self, position: int) -> int:
        """The index of the segment that begins at ``position``, cutting one in two if need be."""
        index = bisect_right(self._starts, position) - 1
        if self._starts[index] != position:
            index += 1
            self._starts.insert(index, position)
            self._states.insert(index, self._states[index - 1])
        return index

    def _replace(self, first: int, last: int, fresh: list[S]) -> None:
        starts: list[int] = []
        states: list[S] = []
        before = self._states[first - 1] if first else None
        for start, state in zip(self._starts[first:last], fresh, strict=True):
            previous = states[-1] if states else before
            if state is not previous or (first == 0 and not states):
                starts.append(start)
                states.append(state)
        self._starts[first:last] = starts
        self._states[first:last] = states
        after = first + len(states)
        if 0 < after < len(self._states) and self._states[after] is self._states[after - 1]:
            del self._starts[after], self._states[after]

    def rewrite(self, change: Callable[[S], S]) -> None:
        """Apply ``change`` to every state, and merge neighbours that it makes the same object."""
        changed: dict[int, S] = {}
        for state in self._states:
            if id(state) not in changed:
                changed[id(state)] = change(state)
        self._replace(0, len(self._states), [changed[id(state)] for state in self._states])
        self.is_cut = len(self._states) > 1
