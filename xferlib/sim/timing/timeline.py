"""The virtual clock: the time at which each operation would run on the machine of a profile."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from xferlib._api.trace.timeline import length, overlap, union
from xferlib.sim.timing.profile import Lane, Profile

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
        start_s: The time at which it begins.
    """

    def __init__(self, profile: Profile, *, start_s: float = 0.0, keeps: bool = True) -> None:
        self.profile = profile
        self.enqueue_s = profile.enqueue_s
        self.start_s = start_s
        self._costs = profile.costs()
        self._keeps = keeps
        self._busy_until_s: dict[tuple[int, Lane], float] = {}
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

    def add(self, lane: Lane, device: int, stream: int, name: str, nbytes: int, after_s: float) -> tuple[float, float]:
        """Run an operation once its engine is free and ``after_s`` is reached; returns its start and end."""
        key = (device, lane)
        start_s = self._busy_until_s.get(key, 0.0)
        if start_s < after_s:
            start_s = after_s
        bytes_per_s, latency_s = self._costs[lane]
        duration_s = nbytes / bytes_per_s + latency_s
        if self.slowed:
            duration_s *= self.slowed.get(stream, 1.0)
        other = _OPPOSITE.get(lane)
        if other is not None and self._busy_until_s.get((device, other), 0.0) > start_s:
            duration_s /= self.profile.duplex
        end_s = self._busy_until_s[key] = start_s + duration_s
        if self._keeps:
            self._slices.append(Slice(lane, device, stream, name, start_s, end_s, nbytes))
        return start_s, end_s

    def busy_s(self, *lanes: Lane, device: int | None = None) -> float:
        """Seconds in which at least one of the engines was busy."""
        return length(self._merged(lanes, device))

    def overlap(self, device: int | None = None) -> float:
        """The share of the shorter of copying and computing that ran beside the other, 0 to 1."""
        copies = self._merged((Lane.H2D, Lane.D2H, Lane.PEER), device)
        kernels = self._merged((Lane.KERNELS,), device)
        return overlap(copies, kernels)

    @property
    def end_s(self) -> float:
        """The end of the last operation."""
        return max((each.end_s for each in self._slices), default=self.start_s)

    @property
    def duration_s(self) -> float:
        """From the beginning of the recording to the end of the last operation."""
        return self.end_s - self.start_s

    def _merged(self, lanes: Iterable[Lane], device: int | None) -> list[tuple[float, float]]:
        wanted = set(lanes)
        return union([(s.start_s, s.end_s) for s in self._slices if s.lane in wanted and device in (None, s.device)])
