"""The time of competing ways: in a loop, and each call after other work.

The obvious way, one loop behind the other, measures each beside what the one before has left: torch's threads spin for
some milliseconds behind a parallel loop, on all cores, and whichever library comes next shares them. So a loop begins
when no other thread runs; those of a library whose own loop it is may spin as they like.

A case costs, beside its data: in the loop, one call of each way to check it, one to try it, then two to five rounds, in
each of which every way has 4 ms or one call; after other work, three to five rounds of 20 ms and 5 ms for each way.
Both end as soon as every median is steady, so that a case of small arrays and four ways takes 0.2 s. Where a round of
calls takes more than 0.2 s, the least number of rounds is all; a way four times slower than the fastest is called in
the first round only. Kernels are compiled besides, which no time includes.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import statistics
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from xferlib._cli.bench.libraries import Run


class Key(NamedTuple):
    """A way of a library."""

    library: str
    way: str


_OTHER_WORK_S = 0.02
"""Before each round."""
_PAUSE_S = 0.005
"""Before each call: more than the 0.3 ms for which threads spin, and a pass over more memory than a core caches."""
_LOOP_S = 0.004
_LOOP_MOST = 25
_LONG_S = 0.02
"""A call of this length is as hot after another way's call as after its own."""
_DEAR_S = 0.2
_HOPELESS = 4
_QUIET_S, _LOOK_S = 0.05, 0.0002
"""The longest wait for other threads, and between two looks at them."""
_HOT_ROUNDS, _COLD_ROUNDS = (2, 5), (3, 5)
_HOT_TOLERANCE, _COLD_TOLERANCE = 0.05, 0.1


class OtherWork:
    """The work of a program between two calls: takes some time, and leaves other data in the caches."""

    def __init__(self) -> None:
        self._parts = itertools.cycle(np.ones((64, 1 << 16), np.float32))

    def __call__(self, seconds: float) -> None:
        until_s = time.perf_counter() + seconds
        while time.perf_counter() < until_s:
            part = next(self._parts)
            np.add(part, 1, out=part)


def await_quiet() -> None:
    """Wait until no other thread of the machine wants a core, but not for long; on Linux alone, which tells."""
    until_s = time.perf_counter() + _QUIET_S
    with contextlib.suppress(OSError, ValueError, IndexError):  # `/proc/loadavg` is not there, or of another form
        while int(Path("/proc/loadavg").read_text().split()[3].split("/")[0]) > 1 and time.perf_counter() < until_s:
            time.sleep(_LOOK_S)


class Timing:
    """How the ways of one case are timed; they take turns, in a random order that each round draws anew.

    Args:
        change: Called before each call, outside the time: writes other data.
        other_work: Works for the seconds that it is given.
        chance: Draws the orders.
        clock: Returns seconds.
        settle: Called before each loop.
    """

    def __init__(
        self,
        change: Callable[[], None],
        other_work: Callable[[float], None],
        chance: np.random.Generator,
        clock: Callable[[], float] = time.perf_counter,
        settle: Callable[[], None] = await_quiet,
    ) -> None:
        self._change, self._other_work, self._chance, self._clock = change, other_work, chance, clock
        self._settle = settle

    def hot(self, runs: Mapping[Key, Run], apart: Collection[Key] = ()) -> dict[Key, float]:
        """Median seconds of each way in a loop of its own calls.

        Args:
            runs: Each has been called once, so that it has its memory and what it compiles.
            apart: Those that compete among themselves.
        """
        samples: dict[Key, list[float]] = {key: [] for key in runs}
        once_s: dict[Key, float] = {}
        for key in self._shuffled(runs):
            once_s[key] = self._seconds(runs[key])
            if once_s[key] >= _LONG_S:
                samples[key].append(once_s[key])
        chosen = [
            key
            for key in runs
            if once_s[key] <= _HOPELESS * min(once_s[other] for other in runs if (other in apart) == (key in apart))
        ]
        least, most = _HOT_ROUNDS
        for number in range(least if sum(once_s[key] for key in chosen) > _DEAR_S else most):
            for key in self._shuffled(chosen if number else runs):
                samples[key] += self._loop(runs[key], is_long=once_s[key] >= _LONG_S)
            if number + 1 >= least and all(is_steady(samples[key], _HOT_TOLERANCE) for key in chosen):
                break
        return {key: statistics.median(each) for key, each in samples.items()}

    def cold(self, runs: Mapping[Key, Run]) -> dict[Key, float]:
        """Median seconds of calls, each of which follows other work."""
        samples: dict[Key, list[float]] = {key: [] for key in runs}
        least, most = _COLD_ROUNDS
        for number in range(most):
            if number >= least:
                is_dear = sum(each[-1] for each in samples.values()) > _DEAR_S
                if is_dear or all(is_steady(each, _COLD_TOLERANCE) for each in samples.values()):
                    break
            self._other_work(_OTHER_WORK_S)
            for key in self._shuffled(runs):
                self._other_work(_PAUSE_S)
                samples[key].append(self._seconds(runs[key]))
        return {key: statistics.median(each) for key, each in samples.items()}

    def _loop(self, run: Run, *, is_long: bool) -> list[float]:
        """Seconds of the calls of one turn, of which the first does not count unless it is long."""
        self._settle()
        if not is_long:
            self._seconds(run)
        samples = [self._seconds(run)]
        while sum(samples) < _LOOP_S and len(samples) < _LOOP_MOST:
            samples.append(self._seconds(run))
        return samples

    def _seconds(self, run: Run) -> float:
        self._change()
        begun_s = self._clock()
        kept = run()
        elapsed_s = self._clock() - begun_s
        del kept  # the release of a result is not the call's
        return elapsed_s

    def _shuffled(self, keys: Iterable[Key]) -> list[Key]:
        listed = list(keys)
        return [listed[int(number)] for number in self._chance.permutation(len(listed))]


def is_steady(samples: list[float], tolerance: float) -> bool:
    """Whether the median is known to that share of it: its standard error is near the quartiles' distance by root n."""
    if len(samples) < 3:
        return False
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return high - low <= tolerance * middle * math.sqrt(len(samples))
