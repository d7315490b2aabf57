"""The figures of a sweep: the best peer's time over xferlib's, in two regimes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from xferlib._cli.bench.sweep.ways import PINNED

REGIMES = {"hot": "the same call in a loop", "cold": "each call after 20 ms of other work"}
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

    def best(self, regime: str, *, is_own: bool = False, is_ordinary: bool = False) -> tuple[str, float]:
        """The fastest way of a peer, named, and its seconds.

        Args:
            regime: Of `REGIMES`.
            is_own: Of xferlib instead.
            is_ordinary: Of the ways whose results are in ordinary memory.
        """
        return min(
            (
                (f"{library}, {way}", seconds)
                for library, ways in self.seconds[regime].items()
                if library.startswith("xferlib") is is_own
                for way, seconds in ways.items()
                if not (is_ordinary and way in PINNED)
            ),
            key=lambda each: each[1],
        )

    def own(self, regime: str) -> float:
        """xferlib's seconds."""
        return self.best(regime, is_own=True)[1]

    def ratio(self, regime: str, *, is_ordinary: bool = False) -> float:
        """The best peer's time over xferlib's: above 1 xferlib is faster."""
        peers, own = (self.best(regime, is_own=each, is_ordinary=is_ordinary)[1] for each in (False, True))
        return peers / own

    def has_choice(self, regime: str) -> bool:
        """Whether results may be in ordinary or in pinned memory."""
        return any(way in PINNED for ways in self.seconds[regime].values() for way in ways)


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


def summary(cases: list[CaseFigures], regime: str, *, is_ordinary: bool = False) -> Summary:
    """Sum up the cases, of which there is at least one; with ``is_ordinary``, by results in ordinary memory."""
    ratios = np.array([case.ratio(regime, is_ordinary=is_ordinary) for case in cases])
    low, quarter, middle = (float(each) for each in np.percentile(ratios, (5, 25, 50)))
    return Summary(len(ratios), float(ratios.min()), low, quarter, middle, float((ratios < _BEHIND).mean()))
