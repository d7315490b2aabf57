"""Schedules: choose the order in which the devices carry out operations, among the orders that the program allows.

An order that a GPU rarely takes is as legal as the usual one. Choosing the next operation by a coin flip at every step
is the obvious way to meet rare orders, and a bad one: a fault that needs one stream to be ten operations ahead of
another then has a chance of one in a thousand. So `RandomPriorities` draws a preference among streams and keeps it for
a while. `Lazy` does nothing until the host waits for it, so that a missing wait shows as stale data. `Eager` is what a
CPU fallback does and finds nothing; it serves the virtual clock. `Prescribed` replays a list of choices, with which
`explore` runs a small program under every legal order.

The same seed gives the same order, so that a fault can be found again.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from xferlib.sim.model.operations import Operation

T = TypeVar("T")
Ready = dict[Operation, None]


class Schedule(ABC):
    """Chooses the operation to carry out next.

    Attributes:
        is_eager: Whether every operation is carried out as soon as it is enqueued, which is legal too.
        reuses_memory: Whether freed memory is overwritten as soon as that is legal, as by a pool that recycles it.
    """

    is_eager = False
    reuses_memory = False

    @abstractmethod
    def pick(self, ready: Ready, target: Operation) -> Operation:
        """Choose one of the operations that may run now, while the host waits for ``target``."""

    def plan(self, target: Operation) -> list[Operation]:
        """The operations to carry out until ``target`` is done, in order; empty if `pick` chooses step by step."""
        return []

    def linger(self, ready: Ready) -> Operation | None:
        """An operation to carry out before the host looks at memory; None to let the host go on."""
        return None


class Eager(Schedule):
    """At once, in program order, as a CPU fallback does, which therefore finds nothing."""

    is_eager = True

    def pick(self, ready: Ready, target: Operation) -> Operation:
        return next(iter(ready))


class Lazy(Schedule):
    """As late as possible: only the operation that the host waits for, and those that must come before it."""

    def pick(self, ready: Ready, target: Operation) -> Operation:
        return next(iter(self.plan(target)))

    def plan(self, target: Operation) -> list[Operation]:
        return target.needed()


class LastInFirstOut(Schedule):
    """Of the operations that may run, the one enqueued last."""

    reuses_memory = True

    def pick(self, ready: Ready, target: Operation) -> Operation:
        return max(ready, key=_serial)


def _serial(operation: Operation) -> int:
    return operation.serial


class RandomPriorities(Schedule):
    """Streams in a random order of preference, which changes now and then.

    Lasting preferences find orders in which one stream is far ahead of another, which coin flips at every step almost
    never give (Burckhardt and others, ASPLOS 2010).
    """

    reuses_memory = True

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._random = random.Random(seed)  # noqa: S311 - replay wants a seed, not a secret
        self._preference: dict[int, float] = {}

    def pick(self, ready: Ready, target: Operation) -> Operation:
        if self._random.random() < 0.1:
            self._preference.clear()
        return min(ready, key=self._rank)

    def _rank(self, operation: Operation) -> tuple[float, int]:
        key = operation.participant.key
        if key not in self._preference:
            self._preference[key] = self._random.random()
        return self._preference[key], operation.serial

    def linger(self, ready: Ready) -> Operation | None:
        return min(ready, key=self._rank) if ready and self._random.random() < 0.3 else None


class Prescribed(Schedule):
    """Follows a list of choices, then takes the first operation each time; notes how many choices each step had."""

    def __init__(self, choices: Sequence[int] = ()) -> None:
        self._choices = tuple(choices)
        self.widths: list[int] = []
        self.taken: list[int] = []

    def _choose(self, width: int) -> int:
        if width == 1:
            return 0
        step = len(self.taken)
        choice = self._choices[step] if step < len(self._choices) else 0
        self.taken.append(choice)
        self.widths.append(width)
        return choice

    def pick(self, ready: Ready, target: Operation) -> Operation:
        return list(ready)[self._choose(len(ready))]

    def linger(self, ready: Ready) -> Operation | None:
        choice = self._choose(len(ready) + 1)
        return list(ready)[choice - 1] if choice else None


def explore(program: Callable[[Schedule], T], *, most: int | None = None) -> Iterator[T]:
    """Run a program under every schedule that it allows, once each.

    Args:
        program: Runs under the schedule given to it, ``sim.check(schedule=schedule)``, and returns its result.
        most: The most runs; None for no limit.

    Yields:
        What ``program`` returned.
    """
    choices: list[int] = []
    runs = 0
    while most is None or runs < most:
        schedule = Prescribed(choices)
        yield program(schedule)
        runs += 1
        choices, widths = schedule.taken, schedule.widths
        while choices and choices[-1] + 1 >= widths[len(choices) - 1]:
            choices.pop()
        if not choices:
            return
        choices[-1] += 1


def named(name: str, seed: int) -> Schedule:
    """The schedule of a name in the configuration."""
    return RandomPriorities(seed) if name == "random" else _NAMED[name]()


_NAMED: dict[str, type[Schedule]] = {"eager": Eager, "lazy": Lazy, "lifo": LastInFirstOut}

NAMES = (*_NAMED, "random")
"""Of the schedules in the configuration."""
