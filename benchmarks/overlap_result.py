"""The figures of `python -m benchmarks overlap`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Loop:
    """Epochs of one kind of batch; the computing of a batch takes as long as its copy."""

    case: str
    nbytes: int
    """Bytes of a batch."""
    batches: int
    copy_s: float
    """Seconds of an epoch of `prefetch` alone, without computing."""
    compute_s: float
    """Seconds of an epoch of computing alone."""
    epochs: dict[str, float] = field(default_factory=dict)
    """Median seconds of an epoch by library and kind of loop."""

    @property
    def bound_s(self) -> float:
        return max(self.copy_s, self.compute_s)


@dataclass(slots=True)
class Map:
    """One `stream_map`."""

    case: str
    nbytes: int
    """Bytes read, and as many written."""
    seconds: float
    bound_s: float
    """Seconds for the same bytes at the speed of the link, or of the disk."""
    bound: str


@dataclass(slots=True)
class Figures:
    """All that `python -m benchmarks overlap` measures."""

    loops: list[Loop] = field(default_factory=list)
    maps: list[Map] = field(default_factory=list)
    small_us: dict[str, float] = field(default_factory=dict)
    """Microseconds for each batch of 64 KiB."""
