"""Measures the cost of recording a trace: programs with and without one, in alternating turns.

    python tools/trace_cost.py [BACKEND]

Prints for each program the median time of a turn without and with a trace, and the median of the ratios of
neighbouring turns; for small operations the microseconds that each one costs more.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import xferlib as xl


def compare(name: str, run: Callable[[], Any], *, count: int, turns: int) -> None:
    """Time ``run``, which does ``count`` operations, with and without a trace."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(3):
        run()
    xl.synchronize()
    for _ in range(turns):
        run()  # to open and to close a recording takes milliseconds, in which threads and cores go to sleep
        xl.synchronize()
        times[0].append(_timed(run))
        with xl.trace():
            run()
            xl.synchronize()
            times[1].append(_timed(run))
    ratio = statistics.median(on / off for off, on in zip(*times, strict=True))
    off, on = map(statistics.median, times)
    each = (on - off) / count * 1e6
    print(
        f"{name:42} off {off * 1e3:9.3f} ms  on {on * 1e3:9.3f} ms  ratio {ratio:.3f}  {each:+.2f} us each", flush=True
    )


def _timed(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    xl.synchronize()
    return time.perf_counter() - begin


def main() -> None:
    xl.use_backend(sys.argv[1] if len(sys.argv) > 1 else "numpy")
    double = xl.elementwise("T x", "T y", "y = x + x", name="double")

    def epoch(batches: list[Any], kernels: int) -> Callable[[], None]:
        steps = "; ".join(["y = x", *["y = sqrt(y * y + 1)"] * (200 // kernels)])
        heavy = xl.elementwise("T x", "T y", steps, name=f"heavy{kernels}")  # a batch needs about as long as its copy

        def run() -> None:
            for x in xl.prefetch(batches):
                for _ in range(kernels):
                    heavy(x)

        return run

    def many(count: int, act: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(count):
                act()

        return run

    large = [np.ones(16 << 20, np.float32) for _ in range(8)]
    small = [np.ones(16 << 10, np.float32) for _ in range(200)]
    pinned = [xl.pinned_array(each) for each in large]
    d, tiny = xl.to_device(large[0]), xl.to_device(np.ones(1024, np.float32))
    out = np.empty_like(large[0])
    for kernels in (1, 5):
        compare(f"prefetch, 24 x 64 MiB pageable, {kernels} a batch", epoch(large * 3, kernels), count=24, turns=15)
        compare(f"prefetch, 24 x 64 MiB pinned, {kernels} a batch", epoch(pinned * 3, kernels), count=24, turns=15)
        compare(f"prefetch, 200 x 64 KiB, {kernels} a batch", epoch(small, kernels), count=200, turns=15)
    compare("to_device, 64 MiB pageable", many(4, lambda: xl.to_device(large[1])), count=4, turns=15)
    compare("to_host, 64 MiB into an array", many(4, lambda: xl.to_host(d, out=out)), count=4, turns=15)
    compare("to_device, 4 KiB", many(500, lambda: xl.to_device(small[0][:1024])), count=500, turns=9)
    compare("kernel, 64 MiB", many(200, lambda: double(d, d)), count=200, turns=15)
    compare("kernel, 4 KiB", many(1000, lambda: double(tiny, tiny)), count=1000, turns=9)


if __name__ == "__main__":
    main()
