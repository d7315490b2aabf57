"""The figures of a sweep: the best peer's time over xferlib's, in two regimes."""

from __future__ import annotations

from collections.abc import Iterator
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
    group: str
    """The colour in the picture."""
    seconds: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    """By regime, library and way."""
    again: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    """The same of a second run of the peers' ways, in turn with the first; empty unless that was asked for."""
    pinned: dict[str, list[str]] = field(default_factory=dict)
    """By library, the ways that return page-locked memory; the others return ordinary memory, or no new array."""
    absent: dict[str, str] = field(default_factory=dict)
    """Libraries and ways that are left out, with the reason."""
    problem: str = ""
    """The error, or how the bits differ; empty where they are right."""

    def has_peers(self, *, is_ordinary: bool = False) -> bool:
        """Whether xferlib and a peer were timed; with ordinary results, if wanted."""
        return bool(self.seconds) and all(
            self._timed(regime, is_own=is_own, is_ordinary=is_ordinary)
            for regime in self.seconds
            for is_own in (True, False)
        )

    def best(self, regime: str, *, is_ordinary: bool = False) -> tuple[str, float]:
        """The fastest way of a peer, named, and its seconds; among ordinary results only if wanted."""
        named = self._timed(regime, is_own=False, is_ordinary=is_ordinary)
        return min(named.items(), key=lambda each: each[1])

    def own(self, regime: str, *, is_ordinary: bool = False) -> float:
        """Seconds of xferlib's fastest way."""
        return min(self._timed(regime, is_own=True, is_ordinary=is_ordinary).values())

    def ratio(self, regime: str, *, is_ordinary: bool = False) -> float:
        """The best peer's time over xferlib's: above 1 xferlib is faster."""
        return self.best(regime, is_ordinary=is_ordinary)[1] / self.own(regime, is_ordinary=is_ordinary)

    def floor(self, regime: str, *, is_ordinary: bool = False) -> float | None:
        """The best peer's time over that of the same way's second run: 1, but for noise; None where it was not run."""
        way, seconds = self.best(regime, is_ordinary=is_ordinary)
        library, _, name = way.partition(", ")
        again = self.again.get(regime, {}).get(library, {}).get(name)
        return None if again is None else seconds / again

    def _timed(self, regime: str, *, is_own: bool, is_ordinary: bool) -> dict[str, float]:
        return {
            f"{library}, {way}": seconds
            for library, ways in self.seconds[regime].items()
            if library.startswith("xferlib") is is_own
            for way, seconds in ways.items()
            if not (is_ordinary and way in self.pinned.get(library, ()))
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The ratios of one kind and regime, summed up."""

    kind: str
    regime: str
    is_ordinary: bool
    """Only of results in ordinary memory, where a library can return page-locked memory as well."""
    count: int
    worst: float
    percentile_5: float
    percentile_25: float
    median: float
    behind: float
    """The share in which xferlib is behind by more than 10 %."""
    floor: float | None
    """The share in which the best peer's second run is behind its first by as much; None where none ran twice."""


def summaries(cases: list[CaseFigures]) -> Iterator[Summary]:
    """Sum up each kind and regime, with the best way of each side, and with ordinary results only."""
    for kind in dict.fromkeys(case.kind for case in cases):
        every = [case for case in cases if case.kind == kind and case.has_peers()]
        ordinary = [case for case in every if case.pinned and case.has_peers(is_ordinary=True)]
        for is_ordinary, chosen in ((False, every), (True, ordinary)):
            for regime in REGIMES if chosen else ():
                ratios = np.array([case.ratio(regime, is_ordinary=is_ordinary) for case in chosen])
                floors = [case.floor(regime, is_ordinary=is_ordinary) for case in chosen]
                known = [each for each in floors if each is not None]
                low, quarter, middle = (float(each) for each in np.percentile(ratios, (5, 25, 50)))
                yield Summary(
                    kind=kind, regime=regime, is_ordinary=is_ordinary, count=len(ratios), worst=float(ratios.min()),
                    percentile_5=low, percentile_25=quarter, median=middle, behind=float((ratios < _BEHIND).mean()),
                    floor=sum(each < _BEHIND for each in known) / len(known) if known else None,
                )  # fmt: skip
