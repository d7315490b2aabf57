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
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from xferlib._core.arrays import share_memory
from xferlib._runtime import process
from xferlib._runtime.threads import deferred
from xferlib.errors import DeviceLostError, DeviceMemoryError, KernelError, PinnedMemoryError
from xferlib.sim.detector import Mode
from xferlib.sim.implicit import Reaction
from xferlib.sim.model import Around, Operation
from xferlib.sim.timing import H200, PROFILES, Profile

if TYPE_CHECKING:
    from xferlib._core.device import Device


# Fault injection: a full, lost, slow or interrupted machine, at a moment that a seed picks.
#
# Every call into the simulated machine passes a point. A plan injects faults at points: at one chosen by its
# number, so that a test can try them all in turn, or at random with a rate.


class Point(StrEnum):
    """A kind of call at which a fault can be injected."""

    ALLOCATE = "allocate"
    PINNED = "pinned"
    COPY = "copy"
    LAUNCH = "launch"
    RECORD = "record"
    WAIT = "wait"
    SYNCHRONIZE = "synchronize"


class Fault(StrEnum):
    """A kind of injected fault."""

    OUT_OF_MEMORY = "out of memory"
    OUT_OF_PINNED_MEMORY = "out of pinned memory"
    LOST_DEVICE = "lost device"
    INTERRUPT = "interrupt"
    SLOW_STREAM = "slow stream"


_WHERE: dict[Fault, frozenset[Point]] = {
    Fault.OUT_OF_MEMORY: frozenset({Point.ALLOCATE}),
    Fault.OUT_OF_PINNED_MEMORY: frozenset({Point.PINNED}),
    Fault.LOST_DEVICE: frozenset(Point) - {Point.PINNED},
    Fault.INTERRUPT: frozenset(Point),
    Fault.SLOW_STREAM: frozenset({Point.COPY, Point.LAUNCH}),
}


@dataclass(slots=True)
class Plan:
    """The faults to inject, and when.

    Attributes:
        kinds: The faults to inject.
        at: Inject once, at the point of this number, counted from 0 over the points where ``kinds`` can occur;
            None for random points.
        rate: The probability of a fault at a point, where points are random.
        seed: The seed of the random choice.
        slowness: The factor on a slow stream's durations.
        passed: Points passed so far.
        struck: The faults injected, as (number of the point, point, fault).
    """

    kinds: tuple[Fault, ...]
    at: int | None = None
    rate: float = 0.01
    seed: int = 0
    slowness: float = 10.0
    passed: int = 0
    struck: list[tuple[int, Point, Fault]] = field(default_factory=list)
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - replay wants a seed, not a secret

    def choose(self, point: Point) -> Fault | None:
        """The fault to inject at a point, or None."""
        candidates = [kind for kind in self.kinds if point in _WHERE[kind]]
        if Fault.INTERRUPT in candidates and threading.current_thread() is not threading.main_thread():
            # Python raises KeyboardInterrupt in the main thread alone: elsewhere it would be an error that cannot
            # happen.
            candidates.remove(Fault.INTERRUPT)
        if not candidates:
            return None
        # Counted only where a fault could strike, so that a test which tries each number in turn meets no empty ones.
        number = self.passed
        self.passed += 1
        if self.at is not None:
            if number != self.at:
                return None
            fault = candidates[0]
        elif self._random.random() >= self.rate:
            return None
        else:
            fault = self._random.choice(candidates)
        self.struck.append((number, point, fault))
        return fault


class Faults:
    """The plan in force, and the devices that are lost."""

    __slots__ = (
        "lost", "plan",
    )  # fmt: skip

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.lost: set[Device] = set()

    def strike(self, point: Point, device: Device | None) -> Fault | None:
        """Pass a point: raise the injected fault. The caller slows a slow stream down."""
        if device is not None and device in self.lost:
            raise _make_lost_error(device)
        fault = self.plan.choose(point) if self.plan is not None else None
        if fault is None or fault is Fault.SLOW_STREAM:
            return fault
        if fault is Fault.INTERRUPT:
            raise KeyboardInterrupt
        if fault is Fault.OUT_OF_MEMORY:
            raise DeviceMemoryError(f"injected: {device} has no memory left; free arrays, or move the data in parts")
        if fault is Fault.OUT_OF_PINNED_MEMORY:
            raise PinnedMemoryError("injected: no memory can be page-locked; release pinned arrays")
        if device is not None:
            # Remembered and not only raised: CUDA reports a lost device at every later call of the process, too.
            self.lost.add(device)
            raise _make_lost_error(device)
        return None


def _make_lost_error(device: Device) -> DeviceLostError:
    return DeviceLostError(
        f"{device} was lost by an injected fault, and nothing more can run on it in this process; leave the faults() "
        "block to get it back"
    )


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
        return target.list_needed()


class LastInFirstOut(Schedule):
    """Of the operations that may run, the one enqueued last."""

    reuses_memory = True

    def pick(self, ready: Ready, target: Operation) -> Operation:
        return max(ready, key=attrgetter("serial"))


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


def find_schedule(name: str, seed: int) -> Schedule:
    """The schedule of a name in the configuration."""
    return RandomPriorities(seed) if name == "random" else _NAMED[name]()


_NAMED: dict[str, type[Schedule]] = {"eager": Eager, "lazy": Lazy, "lifo": LastInFirstOut}

NAMES = (*_NAMED, "random")
"""Of the schedules in the configuration."""


# The operations in flight, carried out in an order that the schedule chooses.
#
# Carrying out each operation when it is enqueued is what a CPU fallback does: it hides every missing wait. A thread for
# each stream would be late at random, so that a fault shows on some runs and cannot be replayed. Here an operation
# is a node of a graph: it may run once the operations that CUDA's rules put before it are done. Nothing runs until the
# host waits for something; then the schedule chooses, step by step, among all that may run. So one seed gives one
# order, and every legal order can be given.
#
# Records and waits do no work and complete as soon as they can: only their order counts. A program that never waits
# would pile up operations, and with them memory, so beyond a limit the oldest are carried out.
#
# Ctrl-C, or an allocation that fails, may strike at any line. So nothing is kept but the operations and what comes
# before each: counts and queues of what may run are made anew where they are needed. An operation belongs to its stream
# from the one assignment on that makes it the stream's last one, even if it never comes here, and is carried out
# exactly once.

MOST_PENDING = 256
"""The most operations in flight; without a limit, a program that never waits would fill the memory."""
_AT_ONCE = 32


class Engine:
    """The operations in flight."""

    __slots__ = (
        "_has_marks", "_in_flight", "_undelivered", "carry_out_next", "most_pending", "schedule", "serial",
    )  # fmt: skip

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.most_pending = MOST_PENDING
        self.carry_out_next: Callable[[list[Operation], dict[Operation, None], object], int] = lambda *_: 0
        """Carries out operations from the first one on, while none has to wait and nothing watches it; returns how
        many. Behind an error the list begins with the one that has failed, if any has. Compiled where that is
        possible."""
        self._in_flight: dict[Operation, None] = {}
        """In the order in which they were enqueued; some may be done."""
        self.serial = 0
        """How many operations there have been."""
        self._has_marks = False
        """Whether some of them are records and waits, or have failed: nothing says when these are done."""
        self._undelivered: list[Operation] = []
        """Copies to the host whose values are taken, and that have not been carried out."""

    @property
    def pending(self) -> int:
        """The number of operations in flight."""
        self._sweep()
        return len(self._in_flight)

    def order(self, operation: Operation, after: Sequence[Operation | None]) -> None:
        """Put an operation behind the operations ``after``, before it becomes its stream's last one."""
        self.serial += 1
        operation.serial = self.serial
        if len(after) == 1:
            (one,) = after
            operation.before = () if one is None or one._is_done or one.is_done else (one,)
        else:
            operation.before = tuple([each for each in after if each is not None and not each.is_done])

    def add(self, operation: Operation) -> None:
        """Let the schedule carry out an operation from now on."""
        if operation.run is not None:
            self._in_flight[operation] = None
        elif not operation.is_done:
            self._in_flight[operation] = None
            self._has_marks = True
        if self.schedule.is_eager:
            self._carry_out([operation])
        elif len(self._in_flight) > self.most_pending:
            self._sweep()
            oldest = list(self._in_flight)[: max(0, len(self._in_flight) - self.most_pending + _AT_ONCE)]
            self._carry_out(oldest)
            self._sweep()

    def _sweep(self) -> None:
        if not self._has_marks:
            return
        self._in_flight = {  # in their order
            each: None for each in self._in_flight if each.run is not None or not each.is_done_behind()
        }
        self._has_marks = any(each.run is None for each in self._in_flight)

    def force(self, target: Operation) -> None:
        """Carry out operations until ``target`` is done."""
        if target.is_done:
            return
        self._carry_out(self.schedule.plan(target))
        if not target.is_done:
            front = _Front([*self._in_flight, target])
            while not target.is_done:
                chosen = self.schedule.pick(front.ready, target)
                self._carry_out([chosen])
                front.release_waiters(chosen)
        self._sweep()

    def compute(self, operations: Iterable[Operation | None]) -> None:
        """Let the devices be as they are behind some operations, which stay in flight.

        What a kernel touches may depend on all that comes before it. A device that is fast enough to be there now is
        as legal as a slow one, but the host has not waited for it: its memory is read and written in turn, so that what
        the program does to it meanwhile is found.
        """
        needed: dict[Operation, None] = {}
        waiting = [each for each in operations if each is not None]
        while waiting:  # what comes before something computed is computed too
            each = waiting.pop()
            if each not in needed and not each.is_computed and not each.is_done:
                needed[each] = None
                waiting += each.before
        if not needed:
            return
        self._undelivered = [each for each in self._undelivered if not each.is_done]
        with deferred, np.errstate(all="ignore"):
            for each in sorted(needed, key=attrgetter("serial")):
                if each.run is None or each.is_done:
                    continue
                is_fed = each.source is not None and any(
                    share_memory(other.target, each.source) for other in self._undelivered if other.target is not None
                )
                if is_fed or (each.has_host_memory and each.source is None and each.target is None):
                    self._carry_out([each])
                else:
                    try:
                        each.compute()
                    except BaseException as error:
                        self._note_failure(each, error)
                        raise
                    if each.target is not None:
                        self._undelivered.append(each)
                deferred.check()

    def drain(self) -> None:
        """Carry out everything, the overwriting of freed memory included, which no program can wait for."""
        self._carry_out(list(self._in_flight))
        self._sweep()

    def linger(self) -> None:
        """Let the devices go on before the host looks at memory, if the schedule says so."""
        if type(self.schedule).linger is Schedule.linger:
            return
        front = _Front(self._in_flight)
        while front.ready and (operation := self.schedule.linger(front.ready)) is not None:
            self._carry_out([operation])
            front.release_waiters(operation)

    def _carry_out(self, targets: Iterable[Operation]) -> None:
        """Carry out operations in turn, behind those that must come before them."""
        left = [*targets]
        with deferred, np.errstate(all="ignore"):  # a GPU gives inf and NaN, and no warning
            while left:
                try:
                    done = self.carry_out_next(left, self._in_flight, deferred)
                except BaseException as error:
                    for failed in left[:1]:  # none of it where a signal's handler has raised between two
                        self._note_failure(failed, error)
                    raise
                del left[:done]
                if deferred.is_noted:  # in another thread than the main one it stays so
                    deferred.check()
                if left and not done:
                    self._carry_out_behind_others(left.pop(0))

    def _carry_out_behind_others(self, target: Operation) -> None:
        for operation in target.list_needed():
            try:
                if operation.around is None:
                    operation.carry_out()
                else:
                    _carry_out_with_watches(operation, operation.around)
            except BaseException as error:
                self._note_failure(operation, error)
                raise
            self._in_flight.pop(operation, None)
            if deferred.is_noted:
                deferred.check()

    def _note_failure(self, operation: Operation, error: BaseException) -> None:
        """Decide whether an operation that has failed is tried again, and say where the program asked for it."""
        self._has_marks = True
        if isinstance(error, KernelError):  # raised at a wait, which may be far from the call
            error.add_note(f"{operation.name} was called at {operation.site}")
        if isinstance(error, MemoryError):  # at the next wait, and then it is given up
            if operation.has_failed:
                operation.finish()
            operation.has_failed = True
        elif isinstance(error, Exception):  # of a function of the program's: it would fail for ever
            operation.finish()


def _carry_out_with_watches(operation: Operation, around: Around) -> None:
    around.begin()
    try:
        operation.carry_out()
        around.end()
    except BaseException:
        around.end()
        raise
    operation.around = None
    around.report()


class _Front:
    """Those of some operations that may run, and what each has to wait for."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.ready: dict[Operation, None] = {}
        self._unmet: dict[Operation, int] = {}
        self._followers: dict[Operation, list[Operation]] = {}
        found: dict[Operation, None] = {}
        waiting = [each for each in operations if not each.is_done]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found[each] = None
                waiting += [before for before in each.before if not before.is_done]
        for operation in sorted(found, key=attrgetter("serial")):
            unmet = [each for each in operation.before if not each.is_done]
            for each in unmet:
                self._followers.setdefault(each, []).append(operation)
            if unmet:
                self._unmet[operation] = len(unmet)
            else:
                self.ready[operation] = None

    def release_waiters(self, operation: Operation) -> None:
        """Let those run that waited for nothing else."""
        self.ready.pop(operation, None)
        done = [operation]
        for each in done:  # it grows by the records and waits that this completes
            for follower in self._followers.pop(each, ()):
                self._unmet[follower] -= 1
                if not self._unmet[follower]:
                    if follower.is_done:
                        done.append(follower)
                    else:
                        self.ready[follower] = None


# The settings of a simulated machine.


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of one machine; `xferlib._runtime.process` documents the environment variables."""

    devices: int = 2
    memory_nbytes: int = 8 << 30
    mode: Mode = Mode.RAISE
    implicit: Reaction | None = None
    schedule: str = "lazy"
    seed: int = 0
    profile: Profile = H200

    @classmethod
    def from_configuration(cls) -> Settings:
        """The settings of ``XFERLIB_SIM_*`` and `xferlib.configure`."""
        config = process.get()
        return cls(
            devices=config.sim_devices,
            memory_nbytes=config.sim_memory,
            mode=Mode(config.sim),
            implicit=None if config.sim_implicit is None else Reaction(config.sim_implicit),
            schedule=config.sim_schedule,
            seed=config.sim_seed,
            profile=PROFILES[config.sim_profile],
        )
