"""Draw the timelines of the tutorial on overlap, and write down its figures.

    python tools/overlap_pictures.py [FOLDER]

Runs the programs of ``examples/overlap`` on a CUDA device with CuPy, each five times: the third run and those after it
are timed without a trace, then one more is recorded. Writes a picture and a JSON file for Perfetto for each program,
and ``figures.json``.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "overlap")]

import xferlib as xl  # noqa: E402 - from this tree, installed or not

_WARM, _TIMED = 2, 5


def record(name: str, title: str, run: Callable[[], Any], folder: Path) -> dict[str, Any]:
    """Time a program, then record it once."""
    seconds = []
    for number in range(_WARM + _TIMED):
        begin = time.perf_counter()
        run()
        xl.synchronize()
        if number >= _WARM:
            seconds.append(time.perf_counter() - begin)
    with xl.trace() as t:
        begin = time.perf_counter()
        run()
        xl.synchronize()
        traced_s = time.perf_counter() - begin
    end_s = max(traced_s, *(each.end_s for each in t.operations))
    t.plot(folder / f"{name}.png", title=title, start_s=0.0, end_s=end_s)
    t.write(folder / f"{name}.json")
    found = {
        "ms": round(statistics.median(seconds) * 1e3, 3), "traced_ms": round(traced_s * 1e3, 3),
        "overlap": round(t.overlap, 3), "idle": round(t.idle, 3),
        "gb_per_s": {kind: round(speed, 1) for kind, speed in t.gb_per_s.items() if speed},
        "busy_ms": {kind: round(each * 1e3, 3) for kind, each in t.seconds.items()},
        "clock_error_us": round(t.clock_error_s * 1e6, 1),
    }  # fmt: skip
    print(name, json.dumps(found), flush=True)
    return found


def main(folder: Path) -> None:
    import back_cupy
    import back_xferlib
    import cupy as cp
    import loop_cupy
    import loop_cupy_by_hand
    import loop_xferlib
    import pageable_cupy
    import pageable_xferlib
    import pinned_cupy
    import training

    folder.mkdir(parents=True, exist_ok=True)
    xl.use_backend("cupy")
    a, b = np.ones(pageable_cupy.SHAPE), np.ones(pageable_cupy.SHAPE)
    pa, pb = pinned_cupy.pin(a), pinned_cupy.pin(b)
    xa, xb = xl.pinned_array(a), xl.pinned_array(b)
    d, e = cp.ones(back_cupy.SHAPE), cp.ones(back_cupy.SHAPE)
    rows = 16384
    data, host_weights = training.data_of(16, rows)
    weights = cp.asarray(host_weights)
    buffer = loop_cupy_by_hand.DoubleBuffer(rows, data.shape[1], data.dtype)
    programs: list[tuple[str, str, Callable[[], Any]]] = [
        ("pageable_cupy", "1, CuPy: two pageable arrays", lambda: pageable_cupy.run(a, b)),
        ("pageable_xferlib", "1, xferlib: two pageable arrays", lambda: pageable_xferlib.run(a, b)),
        ("pinned_cupy", "2, CuPy: two pinned arrays", lambda: pageable_cupy.run(pa, pb)),
        ("pinned_xferlib", "2, xferlib: two pinned arrays", lambda: pageable_xferlib.run(xa, xb)),
        ("back_cupy", "3, CuPy: the way back", lambda: back_cupy.run(d, e, a)),
        ("back_xferlib", "3, xferlib: the way back", lambda: back_xferlib.run(d, e, a)),
        ("loop_cupy", "5, CuPy: a plain loop", lambda: loop_cupy.run(data, rows, weights)),
        (
            "loop_cupy_by_hand",
            "5, CuPy: two buffers by hand",
            lambda: loop_cupy_by_hand.run(data, rows, weights, buffer),
        ),
        ("loop_xferlib", "5, xferlib: prefetch", lambda: loop_xferlib.run(data, rows, weights)),
    ]
    figures = {name: record(name, title, run, folder) for name, title, run in programs}
    device = cp.cuda.runtime.getDeviceProperties(0)["name"].decode()
    (folder / "figures.json").write_text(json.dumps({"device": device, "programs": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "tutorial" / "overlap")
