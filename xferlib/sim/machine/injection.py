"""Fault injection: a full, lost, slow or interrupted machine, at a moment that a seed picks.

Every call into the simulated machine passes a point. A plan injects faults at points: at one chosen by its
number, so that a test can try them all in turn, or at random with a rate.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from xferlib.errors import DeviceLostError, DeviceMemoryError, PinnedMemoryError

if TYPE_CHECKING:
    from collections.abc import Collection

    from xferlib._core.device import Device


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

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.lost: set[Device] = set()

    def refuse_lost(self, devices: Collection[Device]) -> None:
        """Fail if a device is lost: it stays lost for every later call."""
        for device in devices:
            if device in self.lost:
                raise DeviceLostError(
                    f"{device} was lost by an injected fault, and nothing more can run on it in this process; "
                    "leave the faults() block to get it back"
                )

    def strike(self, point: Point, device: Device | None) -> Fault | None:
        """Pass a point: raise the injected fault. The caller slows a slow stream down."""
        if self.lost and device is not None:
            self.refuse_lost((device,))
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
            self.refuse_lost((device,))
        return None
