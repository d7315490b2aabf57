"""The operations of a recorded program, and the numbers that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xferlib._core.observe import Kind

Span = tuple[float, float]

COPIES = (Kind.H2D, Kind.D2H, Kind.PEER)
"""Copies over a link; one inside a device's memory is not among them."""
COMPUTING = (Kind.KERNEL, Kind.RANGE)
ON_DEVICE = (*COPIES, Kind.D2D, *COMPUTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOperation:
    """One operation; times in seconds from the beginning of the recorded block."""

    kind: str
    """``h2d``, ``d2h``, ``d2d``, ``peer``, ``kernel``, ``staging``, ``call`` or ``range``."""
    name: str
    """The kernel's or range's name, the function called, or the sort of copy."""
    nbytes: int
    """Bytes copied, or those of a kernel's arrays; 0 where unknown."""
    device: str
    """``cuda:0``, ``sim:1``, ``cpu``; ``host`` for calls and staging steps."""
    stream: str
    """The stream's address, ``default`` or ``per-thread``; for calls and staging steps the thread's name."""
    thread: str
    """The name of the thread that requested it; empty where unknown."""
    start_s: float
    """Device time, between the events around it; host time for calls, staging steps and CPUs."""
    end_s: float
    host_start_s: float
    """Host time of the program's request; the same as ``start_s`` for work of the host."""
    host_end_s: float
    file: str
    """The user's file that requested it."""
    line: int
    function: str
    is_timed: bool = True
    """False if the device's times are unknown, as in a stream capture or after a lost device: the host's stand in."""

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s

    @property
    def gb_per_s(self) -> float:
        """1e9 bytes a second; 0 where bytes or time are unknown."""
        return self.nbytes / self.seconds / 1e9 if self.seconds > 0 else 0.0


def union(spans: Iterable[Span]) -> list[Span]:
    """The spans in which at least one of ``spans`` runs, in order, apart from each other."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def length(spans: Iterable[Span]) -> float:
    """Sum the seconds of spans that do not overlap."""
    return sum(end - start for start, end in spans)


def intersection(one: Sequence[Span], two: Sequence[Span]) -> list[Span]:
    """Return the spans that two results of `union` have in common."""
    found: list[Span] = []
    first = second = 0
    while first < len(one) and second < len(two):
        start = max(one[first][0], two[second][0])
        end = min(one[first][1], two[second][1])
        if start < end:
            found.append((start, end))
        if one[first][1] < two[second][1]:
            first += 1
        else:
            second += 1
    return found


def overlap(copies: Sequence[Span], computing: Sequence[Span]) -> float:
    """The share of the shorter of the two, each a result of `union`, that ran beside the other."""
    shorter = min(length(copies), length(computing))
    return length(intersection(copies, computing)) / shorter if shorter > 0 else 0.0


class Numbers:
    """The totals and shares of operations.

    Args:
        operations: As recorded, in any order.
    """

    def __init__(self, operations: Sequence[TraceOperation]) -> None:
        self.operations = operations

    def spans(self, *kinds: str, device: str | None = None) -> list[Span]:
        """Return the spans in which at least one operation of these kinds ran."""
        wanted = frozenset(kinds)
        return union(
            (each.start_s, each.end_s)
            for each in self.operations
            if each.kind in wanted and device in (None, each.device)
        )

    def seconds(self) -> dict[str, float]:
        """Kind to the time in which at least one operation of it ran; only kinds that occurred."""
        return {str(kind): length(self.spans(kind)) for kind in Kind if any(op.kind == kind for op in self.operations)}

    def nbytes(self) -> dict[str, int]:
        """Kind to bytes."""
        totals: dict[str, int] = {}
        for each in self.operations:
            totals[each.kind] = totals.get(each.kind, 0) + each.nbytes
        return totals

    def gb_per_s(self) -> dict[str, float]:
        """Kind to bytes over the time in which at least one operation of it ran; 0 where it did not occur."""
        totals, seconds = self.nbytes(), self.seconds()
        kinds = (Kind.H2D, Kind.D2H, Kind.D2D, Kind.PEER, Kind.STAGING)
        return {
            str(kind): totals[kind] / seconds[kind] / 1e9 if seconds.get(kind, 0.0) > 0 else 0.0
            for kind in kinds
        }  # fmt: skip

    def overlap(self) -> float:
        """See `xferlib.trace.overlap`."""
        return overlap(self.spans(*COPIES), self.spans(*COMPUTING))

    def idle(self) -> float:
        """See `xferlib.trace.idle`."""
        everything = self.spans(*ON_DEVICE)
        if not everything or everything[-1][1] <= everything[0][0]:
            return 0.0
        extent = everything[-1][1] - everything[0][0]
        devices = {each.device for each in self.operations if each.kind in ON_DEVICE}
        busy = [length(self.spans(*ON_DEVICE, device=device)) / extent for device in devices]
        return max(0.0, 1.0 - sum(busy) / len(busy))


@dataclass(frozen=True, slots=True)
class Recorded:
    """All that a trace has recorded, for the modules that show it.

    Attributes:
        operations: In the order in which the program asked for them.
        dropped: The number of earlier operations that were forgotten.
        clock_error_s: The possible error of device times against host times.
    """

    operations: tuple[TraceOperation, ...]
    dropped: int
    clock_error_s: float

    @property
    def numbers(self) -> Numbers:
        """The totals and shares of the operations."""
        return Numbers(self.operations)
