"""The virtual clock: the times that operations would take on a real machine."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from xferlib._trace.trace import length, overlap, union
from xferlib.errors import ConfigError

if TYPE_CHECKING:
    from xferlib._api.diagnose import Calibration


# Reads a machine's figures from the output of the benchmarks.

Figures = str | Path | Mapping[str, Any]
_UP, _DOWN = "pinned to existing device array", "device to pinned host array"
_STAGED = "pageable to existing device array"


def read(transfers: Figures, kernels: Figures | None, nbytes: int | None) -> dict[str, Any]:
    """The fields of a `Profile` that were measured, from the arguments of `Profile.from_bench`."""
    figures = _read(transfers)
    results = figures.get("results", [])
    found = {
        "name": str(figures.get("machine", {}).get("device", "measured")),
        "h2d": _speed(results, _UP, None),
        "d2h": _speed(results, _DOWN, None),
        "staging": _speed(results, _STAGED, nbytes),
    }
    if kernels is None:
        return found
    cases = [each for each in _read(kernels).get("results", []) if each["nbytes"]]
    speeds = [each["nbytes"] / seconds for each in cases for seconds in _ours(each)]
    if not speeds:
        raise ConfigError("the figures of kernels have no case that device memory limits; run that benchmark on a GPU")
    return {**found, "memory": max(speeds)}


def _read(figures: Figures) -> Mapping[str, Any]:
    if isinstance(figures, Mapping):
        return figures
    try:
        found: Mapping[str, Any] = json.loads(Path(figures).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{figures} is not what a benchmark's `--json` writes: {error}") from error
    return found


def _ours(result: Mapping[str, Any]) -> list[float]:
    return [seconds for name, seconds in result["seconds"].items() if name.startswith("xferlib")]


def _speed(results: list[Mapping[str, Any]], case: str, nbytes: int | None) -> float:
    """Bytes per second of a case, for the largest transfer or the one nearest to ``nbytes``."""
    sized: dict[int, float] = {
        each["nbytes"]: min(_ours(each)) for each in results if each["case"] == case and _ours(each)
    }
    if not sized:
        raise ConfigError(
            f"the figures have no case {case!r}: run `xferlib bench transfer --json FILE` on a machine with a GPU"
        )
    size = max(sized) if nbytes is None else min(sized, key=lambda each: abs(each - nbytes))
    return size / sized[size]


# The figures of a machine, from which the virtual clock computes times.


class Lane(StrEnum):
    """An engine: it runs one operation at a time, concurrently with the other engines."""

    HOST = "host"
    STAGING = "staging"
    H2D = "h2d"
    D2H = "d2h"
    PEER = "peer"
    D2D = "d2d"
    KERNELS = "kernels"
    NONE = "none"


HOST = -1
"""The host's number in place of a device's index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A machine's figures: bandwidths in bytes a second, times in seconds.

    Args:
        name: The name of the machine.
        h2d, d2h: The link with pinned memory, in each direction.
        duplex: The link in both directions at once, as a share of the sum of both.
        peer: Copies from device to device; 0: devices do not reach each other, and copies pass through the host.
        memory: Device memory, reads and writes together.
        staging: Copies between ordinary and pinned memory by all host threads together; the speed depends on the
            size of the transfer.
        latency_s: Time from the start of a copy or kernel until it is under way.
        enqueue_s: Host time of one call that enqueues.
        synchronize_s: Host time of one call that waits, beyond the wait.
    """

    name: str
    h2d: float
    d2h: float
    duplex: float = 1.0
    peer: float
    memory: float
    staging: float
    latency_s: float
    enqueue_s: float
    synchronize_s: float

    def calibrate(self, found: Calibration, *, name: str = "calibrated") -> Profile:
        """These figures, with the link's and the memory's from `xferlib.calibrate` of a machine with a GPU."""
        return replace(
            self, name=name, h2d=found.pinned_up_gb_per_s * 1e9, d2h=found.pinned_down_gb_per_s * 1e9,
            staging=found.staged_up_gb_per_s * 1e9, memory=found.memory_gb_per_s * 1e9 or self.memory,
        )  # fmt: skip

    @classmethod
    def from_bench(
        cls,
        transfers: Figures,
        kernels: Figures | None = None,
        *,
        nbytes: int | None = None,
        like: Profile | None = None,
    ) -> Profile:
        """The figures of a machine on which the benchmarks have run.

        Args:
            transfers: The output of ``xferlib bench transfer --json``: a file, or its content.
            kernels: The output of ``python -m benchmarks kernels --json``, for the bandwidth of device memory.
            nbytes: Size of your transfers: staging is as fast as measured for the nearest size; the
                largest if omitted.
            like: The profile with the figures that were not measured; `H200` if omitted.

        Raises:
            ConfigError: The figures are of a machine without a GPU, or are no output of the benchmark.
        """
        return replace(like if like is not None else H200, **read(transfers, kernels, nbytes))

    def costs(self) -> dict[Lane, tuple[float, int]]:
        """For each engine, its bytes per second and the picoseconds before the first of them."""
        speeds = {Lane.H2D: self.h2d, Lane.D2H: self.d2h, Lane.PEER: self.peer, Lane.KERNELS: self.memory,
                  Lane.D2D: self.memory / 2}  # fmt: skip
        latency = picoseconds(self.latency_s)
        return {Lane.STAGING: (self.staging, 0), **{lane: (speed, latency) for lane, speed in speeds.items()}}


H200 = Profile(
    # Measured on one H200 with PCIe 5 x16 and 16 cores; both directions at once 101.6 GB/s.
    name="h200", h2d=55.5e9, d2h=55.5e9, duplex=101.6 / 111.0, peer=300e9, memory=4345e9, staging=52.1e9,
    latency_s=2.5e-6, enqueue_s=1.8e-6, synchronize_s=3e-6,
)  # fmt: skip
LAPTOP = Profile(
    # Not measured: data sheet figures of a 2023 laptop GPU on PCIe 4 x8, with the usual efficiency of 80 %.
    name="laptop", h2d=12.5e9, d2h=12.5e9, duplex=0.95, peer=6e9, memory=205e9, staging=12e9,
    latency_s=5e-6, enqueue_s=4e-6, synchronize_s=8e-6,
)  # fmt: skip
PROFILES = {profile.name: profile for profile in (H200, LAPTOP)}


# The virtual clock: the time at which each operation would run on the machine of a profile.
#
# It counts whole picoseconds. Sums of seconds are rounded, by how much depends on their order, and with it which of two
# operations that end together is the later one.


def picoseconds(seconds: float) -> int:
    """Seconds as the virtual clock counts them."""
    return round(seconds * 1e12)


def seconds(time_ps: int) -> float:
    """A time of the virtual clock in seconds."""
    return time_ps * 1e-12


_MOST_KEPT = 1 << 17
_OPPOSITE = {Lane.H2D: Lane.D2H, Lane.D2H: Lane.H2D}
"""The two directions of the link, each of which slows the other a little."""


class Slice(NamedTuple):
    """The time during which an operation occupied an engine, in seconds of virtual time."""

    lane: Lane
    device: int
    stream: int
    name: str
    start_s: float
    end_s: float
    nbytes: int


class Timeline:
    """The engines of a machine, and the latest operations that they ran.

    A sequence of ``len(timeline)`` slices, in the order in which their operations were enqueued.

    Attributes:
        profile: The machine's figures.
        enqueue_ps, synchronize_ps: Host time of one call that enqueues, and of one that waits, beyond the wait.
        start_s: The time at which it begins.
    """

    __slots__ = (
        "_busy_until_ps", "_costs", "_keeps", "_kernels", "_slices", "enqueue_ps", "profile", "slowed", "start_s",
        "synchronize_ps",
    )  # fmt: skip

    def __init__(self, profile: Profile, *, start_ps: int = 0, keeps: bool = True) -> None:
        self.profile = profile
        self.enqueue_ps = picoseconds(profile.enqueue_s)
        self.synchronize_ps = picoseconds(profile.synchronize_s)
        self.start_s = seconds(start_ps)
        self._costs = profile.costs()
        self._kernels = self._costs[Lane.KERNELS]
        self._keeps = keeps
        self._busy_until_ps: dict[tuple[int, Lane], int] = {}
        self._slices: deque[Slice] = deque(maxlen=_MOST_KEPT)
        self.slowed: dict[int, float] = {}
        """Factors on the durations of streams slowed by fault injection, by stream."""

    def __len__(self) -> int:
        return len(self._slices)

    def __repr__(self) -> str:
        count = len(self._slices)
        kept = f"{count} operation{'s' * (count != 1)} in {self.duration_s * 1e3:.3f} ms"
        return f"<Timeline on machine {self.profile.name!r}: {kept}>"

    def __iter__(self) -> Iterator[Slice]:
        return iter(self._slices)

    def clear(self) -> None:
        """Forget the operations; engines stay busy."""
        self._slices.clear()

    def add(self, lane: Lane, device: int, stream: int, name: str, nbytes: int, after_ps: int) -> tuple[int, int]:
        """Run an operation once its engine is free and ``after_ps`` is reached; returns its start and end."""
        key = (device, lane)
        start_ps = max(self._busy_until_ps.get(key, 0), after_ps)
        bytes_per_s, latency_ps = self._costs[lane]
        duration = nbytes * 1e12 / bytes_per_s + latency_ps
        if self.slowed:
            duration *= self.slowed.get(stream, 1.0)
        other = _OPPOSITE.get(lane)
        if other is not None and self._busy_until_ps.get((device, other), 0) > start_ps:
            duration /= self.profile.duplex
        end_ps = self._busy_until_ps[key] = start_ps + round(duration)
        if self._keeps:
            self._slices.append(Slice(lane, device, stream, name, seconds(start_ps), seconds(end_ps), nbytes))
        return start_ps, end_ps

    def add_kernel(self, key: tuple[int, Lane], nbytes: int, stream: int, name: str, after_ps: int) -> int:
        """`add` for a kernel, by the device and `Lane.KERNELS` as compiled calls keep them; returns its end."""
        return self.add(key[1], key[0], stream, name, nbytes, after_ps)[1]

    def busy_s(self, *lanes: Lane, device: int | None = None) -> float:
        """Seconds in which at least one of the engines was busy."""
        return length(self._merge_lanes(lanes, device))

    def overlap(self, device: int | None = None) -> float:
        """The share of the shorter of copying and computing that ran beside the other, 0 to 1."""
        copies = self._merge_lanes((Lane.H2D, Lane.D2H, Lane.PEER), device)
        kernels = self._merge_lanes((Lane.KERNELS,), device)
        return overlap(copies, kernels)

    @property
    def end_s(self) -> float:
        """The end of the last operation."""
        return max((each.end_s for each in self._slices), default=self.start_s)

    @property
    def duration_s(self) -> float:
        """From the beginning of the recording to the end of the last operation."""
        return self.end_s - self.start_s

    def _merge_lanes(self, lanes: Iterable[Lane], device: int | None) -> list[tuple[float, float]]:
        wanted = set(lanes)
        return union([(s.start_s, s.end_s) for s in self._slices if s.lane in wanted and device in (None, s.device)])
