"""The figures of a sweep: the best peer's time over xferlib's, in two regimes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

REGIMES = {"hot": "the same call in a loop", "cold": "each call after at least 5 ms of other work"}
_BEHIND = 1 / 1.1


@dataclass(slots=True, kw_only=True)
class CaseFigures:
    """One case: median seconds of each way, by regime and library."""

    name: str
    """The argument of ``--case``."""
    kind: str
    text: str
    nbytes: int
    is_upload: bool
    seconds: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    """By regime, library and way."""
    problem: str = ""
    """The error, or how the bits differ; empty where they are right."""

    def best(self, regime: str) -> tuple[str, float]:
        """The fastest way of a peer, named, and its seconds."""
        return min(
            (
                (f"{library}, {way}", seconds)
                for library, ways in self.seconds[regime].items()
                if not library.startswith("xferlib")
                for way, seconds in ways.items()
            ),
            key=lambda each: each[1],
        )

    def own(self, regime: str) -> float:
        """xferlib's seconds."""
        return min(
            seconds
            for library, ways in self.seconds[regime].items()
            if library.startswith("xferlib")
            for seconds in ways.values()
        )

    def ratio(self, regime: str) -> float:
        """The best peer's time over xferlib's: above 1 xferlib is faster."""
        return self.best(regime)[1] / self.own(regime)


@dataclass(frozen=True, slots=True)
class Summary:
    """The ratios of one regime, summed up."""

    count: int
    worst: float
    percentile_5: float
    percentile_25: float
    median: float
    behind: float
    """The share in which xferlib is behind by more than 10 %."""


def summary(cases: list[CaseFigures], regime: str) -> Summary:
    """Sum up the cases, of which there is at least one."""
    ratios = np.array([case.ratio(regime) for case in cases])
    low, quarter, middle = (float(each) for each in np.percentile(ratios, (5, 25, 50)))
    return Summary(len(ratios), float(ratios.min()), low, quarter, middle, float((ratios < _BEHIND).mean()))
