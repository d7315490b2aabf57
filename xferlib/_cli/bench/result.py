"""The figures of `xferlib bench transfer`, and a size as its tables show it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class TransferResult:
    """Median seconds of a case for each library."""

    case: str
    nbytes: int
    """Bytes delivered; for a conversion, bytes of the source."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Median seconds in a loop."""
    first_seconds: dict[str, float] = field(default_factory=dict)
    """Median seconds of the first transfer after other work: threads and pages are cold."""

    def gb_per_s(self, library: str) -> float:
        return self.nbytes / self.seconds[library] / 1e9


def size_text(nbytes: int) -> str:
    """Bytes as a person writes them."""
    for unit, step in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << step:
            return f"{nbytes / (1 << step):.4g} {unit}"
    return f"{nbytes} B"
