"""Measure cases of one tree's xferlib for `compare_trees`: questions on standard input, answers on standard output.

The cases are those of `xferlib bench sweep`: the same numbers of one seed in both trees, of which xferlib's ways alone
are measured. Data differs from call to call.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._cli import bench

SEED, CASES = 7, 20
MOST = {"small": 64 << 10, "any": 128 << 20}
"""Bytes of the largest array: of small ones the call takes most of the time."""
KINDS = ("transfer", "kernel", "reduction", "prefetch", "tree")
BLOCK_SECONDS = 0.02


def draw(backend: str) -> dict[str, Any]:
    """The cases of one backend by their names, which begin with it and with their kind."""
    found = {}
    for kind, (size, most), number in itertools.product(KINDS, MOST.items(), range(CASES)):
        case = bench._KINDS[kind][0](SEED, number, (backend,), most)
        found[f"{backend} {kind}, {size} {number}: {case}"] = case
    return found


class OwnArrays(bench.Xferlib):
    """The arrays that xferlib makes for a backend, as a sweep's operands: no library is timed beside it."""

    def __init__(self, backend: str) -> None:
        super().__init__(backend)
        self.name = backend

    def permute(self, array: Any, axes: tuple[int, ...]) -> Any:
        return xl.get_array_module(array).permute_dims(array, axes)


class Measurement:
    """The ways of one case, and how often they are called between two looks at the clock."""

    def __init__(self, case: Any, peers: bench.Peers) -> None:
        with np.errstate(all="ignore"):
            trial = bench._KINDS[case.name.partition(":")[0]][1](case, peers)
        self._runs = [run for key, run in trial.ways.items() if key.library == trial.subject]
        if not self._runs:
            raise RuntimeError(trial.absent.get(trial.subject, "no such arrays"))
        self._change, self._device, self._times = trial.change, xl.get_device(case.library), 1
        for _ in range(3):
            self.seconds()
        self._times = max(1, min(2000, int(BLOCK_SECONDS / max(self.seconds(), 1e-9))))

    def seconds(self) -> float:
        """Seconds of a call, with the wait for the device at the end of the block."""
        begun = time.perf_counter()
        for _ in range(self._times):
            self._change()
            for run in self._runs:
                run()
        xl.synchronize(self._device)
        return (time.perf_counter() - begun) / self._times


def main() -> None:
    cases: dict[str, Any] = {}
    peers: bench.Peers | None = None
    open_ones: dict[str, Measurement] = {}
    for line in sys.stdin:
        question: dict[str, Any] = json.loads(line)
        answer: Any = None
        if "cases" in question:
            cases = draw(question["cases"])
            own = OwnArrays(question["cases"])
            peers = bench.Peers(libraries={own.name: own}, is_gpu=own.has_pinned, absent={})
            answer = list(cases)
        elif "begin" in question:
            assert peers is not None
            try:
                open_ones[question["begin"]] = Measurement(cases[question["begin"]], peers)
            except Exception as error:
                answer = f"{type(error).__name__}: {error}"
        elif "measure" in question:
            answer = open_ones[question["measure"]].seconds()
        else:
            open_ones.pop(question["end"], None)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
