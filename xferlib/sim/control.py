"""The ``with`` blocks of programs and tests: check code, inject faults into it, time it."""

from __future__ import annotations

import random
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from xferlib._core import streams
from xferlib.errors import ArgumentError, UnsupportedArrayError, did_you_mean, quote
from xferlib.sim import portable, schedules
from xferlib.sim.arrays import SimArray
from xferlib.sim.detector import Detector, Mode, SimError
from xferlib.sim.implicit import ImplicitCopies, ImplicitCopy, Reaction
from xferlib.sim.machine import Machine, PageGuard, machine
from xferlib.sim.schedules import Fault, Plan, Schedule
from xferlib.sim.timing import PROFILES, Profile, Timeline

if TYPE_CHECKING:
    from xferlib._core.arrays import HostArray
    from xferlib.sim.detector import Race

T = TypeVar("T")


class check:  # noqa: N801 - reads as a verb: `with sim.check():`
    """Check a block of code; operations in flight before it are finished first.

    Args:
        mode: ``"raise"`` at the second access of a fault, ``"log"`` it, or ``"off"``; the setting of
            ``XFERLIB_SIM`` if omitted. Both of the first two put faults into ``races``.
        schedule: ``"lazy"``, ``"lifo"``, ``"random"`` or ``"eager"``; the configured one if omitted. Or
            the one that `explore` gives to a program.
        seed: Seed of a random schedule; one is drawn if omitted, and added to any error that leaves the block.
        implicit: ``"raise"``, ``"log"`` or ``"allow"`` copies to the host that no call asks for, such as ``float(x)``;
            as outside of the block if omitted. With ``"log"``, ``copies`` has them by line.
        strict: Whether arrays refuse what is not the same on all backends; as outside of the block if omitted.
        guard: Guard the pages of pinned memory that copies in flight use, so that NumPy is caught at the
            line that touches them; 64-bit Linux only.
    """

    def __init__(
        self,
        mode: str | None = None,
        *,
        schedule: str | Schedule | None = None,
        seed: int | None = None,
        implicit: str | None = None,
        strict: bool | None = None,
        guard: bool = False,
    ) -> None:
        if mode is not None and (not isinstance(mode, str) or mode not in [*Mode]):
            raise ArgumentError(f"sim.check: mode={quote(mode)} is not a mode; give one of {', '.join(Mode)}")
        if isinstance(schedule, str) and schedule not in schedules.NAMES:
            near = did_you_mean(schedule, schedules.NAMES)
            listed = ", ".join(schedules.NAMES)
            raise ArgumentError(f"sim.check: there is no schedule {schedule!r}{near}; give one of {listed}")
        if not isinstance(schedule, (str, Schedule, NoneType)):
            raise ArgumentError(f"sim.check: schedule={quote(schedule)} is none; give the name of one, such as 'lifo'")
        self.detector = Detector(Mode(mode) if mode is not None else machine().settings.mode)
        if implicit is not None and (not isinstance(implicit, str) or implicit not in [*Reaction]):
            raise ArgumentError(
                f"sim.check: implicit={quote(implicit)} is none of {', '.join(Reaction)}; give one of them"
            )
        self._implicit = None if implicit is None else ImplicitCopies(Reaction(implicit))
        self._strict = strict
        self._name = schedule
        self._outer: list[tuple[Any, ...]] = []
        self.seed = seed
        self._guard = PageGuard() if guard else None

    @property
    def races(self) -> list[Race]:
        """The faults found so far, each once."""
        machine().raise_faults()
        return list(self.detector.races)

    @property
    def copies(self) -> list[ImplicitCopy]:
        """The implicit copies to the host that ``implicit="log"`` has counted, by line, the most frequent first."""
        return [] if self._implicit is None else self._implicit.list()

    def __repr__(self) -> str:
        count = len(self.detector.races)
        return f"<sim.check, mode {self.detector.mode.value!r}: {count} fault{'s' * (count != 1)}>"

    def __enter__(self) -> Self:
        simulated = machine()
        # The order matters: a transfer that threads still stage enqueues operations when it settles, and these too are
        # to be over before the block's detector and schedule take the place of the outer ones.
        streams.settle_all()  # earlier operations are not the block's
        simulated.waits.quiesce()
        before = simulated.detector, simulated.engine.schedule, simulated.guard, simulated.implicit, portable.is_on()
        self._outer.append(before)
        if self._strict is not None:
            portable.switch(self._strict)
        name = self._name if self._name is not None else simulated.settings.schedule
        if name == "random" and self.seed is None:
            self.seed = simulated.settings.seed or random.SystemRandom().randrange(1 << 32)
        simulated.detector = self.detector
        simulated.implicit = self._implicit or simulated.implicit
        simulated.engine.schedule = schedules.find_schedule(name, self.seed or 0) if isinstance(name, str) else name
        self._schedule = name
        if self._guard is not None:
            simulated.guard = self._guard.__enter__()
        return self

    def _settle_unchecked(self) -> None:
        mode, self.detector.mode = self.detector.mode, Mode.OFF
        try:
            streams.settle_all()
        finally:
            self.detector.mode = mode

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        simulated = machine()
        detector, schedule, guard, implicit, was_strict = _leave_block(self._outer, "check")
        try:
            if error is None:
                streams.settle_all()
                simulated.raise_faults()
                simulated.waits.quiesce()
            else:  # what follows from it must not take its place
                self._settle_unchecked()
        except Exception as found:
            error = found
            raise
        finally:
            # Whatever was raised above: a detector that stays would report the faults of later tests as this block's.
            simulated.detector, simulated.engine.schedule, simulated.implicit = detector, schedule, implicit
            portable.switch(was_strict)
            if self._guard is not None:
                simulated.guard = guard
                self._guard.__exit__(None, None, None)
            if error is not None:
                # Operations that the error left in flight would run within the next block, and be judged by its
                # detector.
                simulated.waits.abandon()
                if self._schedule == "random":
                    error.add_note(f"to repeat: XFERLIB_SIM_SCHEDULE=random XFERLIB_SIM_SEED={self.seed}")


class faults:  # noqa: N801 - reads as what it is: `with sim.faults("out of memory"):`
    """Inject faults into calls of the simulated machine.

    Args:
        *kinds: `Fault` values or their names: ``"out of memory"``, ``"out of pinned memory"``,
            ``"lost device"``, ``"interrupt"``, ``"slow stream"``; all of them but the interrupt if omitted.
        at: Inject one fault, at the point of this number; at random points if omitted.
        rate: The probability of a fault at a point, where points are random.
        seed: Seed of the random choice: the same seed gives the same faults.

    The block's value is the `Plan`, with the number of points ``passed`` and the faults that ``struck``. At the end of
    the block a lost device comes back, and a slow stream is as fast as before.
    """

    def __init__(self, *kinds: Fault | str, at: int | None = None, rate: float = 0.01, seed: int = 0) -> None:
        for kind in kinds:
            if kind not in list(Fault):
                raise ArgumentError(f"sim.faults: {quote(kind)} is not a fault; give some of {', '.join(Fault)}")
        chosen = tuple(Fault(kind) for kind in kinds) or tuple(each for each in Fault if each is not Fault.INTERRUPT)
        self._plan = Plan(chosen, at=at, rate=rate, seed=seed)
        self._outer: list[Plan | None] = []

    def __enter__(self) -> Plan:
        simulated = machine()
        streams.settle_all()
        self._outer.append(simulated.faults.plan)
        try:
            simulated.faults.plan = self._plan
            return self._plan
        except BaseException:  # Ctrl-C: the block is not entered
            self._end(simulated, self._outer.pop())
            raise

    def __exit__(self, *exc_info: object) -> None:
        try:
            streams.settle_all()
        finally:
            self._end(machine(), _leave_block(self._outer, "faults"))

    @staticmethod
    def _end(simulated: Machine, before: Plan | None) -> None:
        simulated.faults.plan = before
        simulated.faults.lost.clear()
        if before is None:
            simulated.timeline.slowed.clear()


class timeline:  # noqa: N801 - reads as what it is: `with sim.timeline() as t:`
    """Record when each operation of a block would run, on the virtual clock.

    Args:
        profile: A machine's figures: a `Profile`, or ``"h200"`` or ``"laptop"``; the configured one if omitted.
    """

    def __init__(self, profile: Profile | str | None = None) -> None:
        if not isinstance(profile, (str, Profile, NoneType)):
            raise ArgumentError(f"sim.timeline: {quote(profile)} is not a profile; give one of {', '.join(PROFILES)}")
        if isinstance(profile, str) and profile not in PROFILES:
            near = did_you_mean(profile, PROFILES)
            raise ArgumentError(
                f"sim.timeline: there is no profile {profile!r}{near}; give one of {', '.join(PROFILES)}"
            )
        self._profile = PROFILES[profile] if isinstance(profile, str) else profile
        self._outer: list[Timeline] = []

    def __enter__(self) -> Timeline:
        simulated = machine()
        before = simulated.timeline
        simulated.waits.quiesce()
        self._outer.append(before)
        simulated.timeline = Timeline(self._profile or before.profile, start_ps=simulated.hosts.current().time_ps)
        return simulated.timeline

    def __exit__(self, *exc_info: object) -> None:
        machine().timeline = _leave_block(self._outer, "timeline")


def reads(array: Any) -> None:
    """Declare that the host reads a NumPy array here, which is reported if a device may still be writing it.

    The simulator cannot see NumPy's reads. Where an early read shows NaN, this finds the line.
    """
    machine().host_access(_of_host(array, "reads"), is_write=False)


def writes(array: Any) -> None:
    """Declare that the host writes a NumPy array here, which is reported if a device may still be using it."""
    machine().host_access(_of_host(array, "writes"), is_write=True)


def _of_host(array: Any, call: str) -> HostArray:
    if isinstance(array, SimArray) or not hasattr(type(array), "__array_interface__"):
        raise UnsupportedArrayError(
            f"sim.{call}: {type(array).__name__} is not an array in host memory; give the NumPy array that the host "
            f"{call}"
        )
    return np.asarray(array)


def _leave_block(outer: list[T], block: str) -> T:
    """Take back from a block that is left the state before it."""
    if not outer:
        raise SimError(f"sim.{block}: a block is left that was not entered; write `with sim.{block}(...):`")
    return outer.pop()
