"""How long a job takes on the simulator's clock, and how long on a real device.

    python -m tools.prefetch_job measure BACKEND FILE on a machine with a GPU
    python -m tools.prefetch_job predict FILE         on any machine
    python -m tools.prefetch_job table FILE           Markdown

The job: batches of 64 MiB go to the device, where each is computed on for about as long as its copy takes. With
`xferlib.prefetch` and one after the other, from pinned and from ordinary memory.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._api.diagnose import Calibration
from xferlib._runtime import threads as thread_budget

N = 1 << 24  # float32: 64 MiB
BATCHES = 12
KERNELS = 39  # 128 MiB read and written in each: 31 us on an H200; the copy takes 1.2 ms
REPEATS = 7
WARM_S = 0.5


@xl.elementwise
def scaled(x: Any, a: Any) -> Any:
    """A kernel that device memory limits."""
    return x * a


def compute(batch: Any) -> None:
    """As long as the copy of the batch."""
    for _ in range(KERNELS):
        scaled(batch, 1.0, out=batch)


def prefetched(batches: list[Any]) -> None:
    """The copies run beside the kernels."""
    for batch in xl.prefetch(batches):
        compute(batch)
    xl.synchronize()


def in_turn(batches: list[Any]) -> None:
    """Copy, compute, copy, compute."""
    for each in batches:
        compute(xl.to_device(each))
        xl.synchronize()


KINDS = ("pinned", "pageable")
JOBS = {"prefetch": prefetched, "in turn": in_turn}


def sources(kind: str) -> list[Any]:
    """Batches in host memory."""
    rng = np.random.default_rng(0)
    arrays = [rng.random(N, dtype=np.float32) for _ in range(BATCHES)]
    return [xl.pinned_array(each) for each in arrays] if kind == "pinned" else arrays


def seconds(job: Any, batches: list[Any]) -> float:
    """One run, on the backend's own clock."""
    backend = xl.get_backend()
    start = backend.host_s()
    job(batches)
    return backend.host_s() - start


def predict(path: Path) -> None:
    """On the simulator's clock, with what `xferlib.calibrate` found on each backend, and with the built-in."""
    found = json.loads(path.read_text(encoding="utf-8"))
    profiles = {"built in": xl.sim.H200}
    for backend, calibration in found["calibration"].items():
        profiles[backend] = xl.sim.H200.calibrated(Calibration(**calibration))
    xl.use_backend("sim")
    found["predicted"] = {each: {} for each in profiles}
    for kind in KINDS:
        batches = sources(kind)
        for each, profile in profiles.items():
            for name, job in JOBS.items():
                with xl.sim.check("off", schedule="eager"), xl.sim.timeline(profile):
                    took = seconds(job, batches)
                found["predicted"][each][f"{name}, {kind}"] = took
                print(each, name, kind, took, flush=True)
    path.write_text(json.dumps(found, indent=1), encoding="utf-8")


def measure(backend: str, path: Path) -> None:
    """On a real device, the median of several runs."""
    xl.use_backend(backend)
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"measured": {}, "calibration": {}}
    times = found["measured"][backend] = {}
    found["calibration"][backend] = asdict(xl.calibrate())
    print(found["calibration"][backend], thread_budget.usable_cores(), flush=True)
    for kind in KINDS:
        batches = sources(kind)
        for name, job in JOBS.items():
            warm_from = time.perf_counter()
            while time.perf_counter() - warm_from < WARM_S:  # an idle GPU's clocks take a while to rise
                job(batches)
            runs = []
            for _ in range(REPEATS):
                start = time.perf_counter()
                job(batches)
                runs.append(time.perf_counter() - start)
            times[f"{name}, {kind}"] = runs
            print(backend, name, kind, [round(each * 1e3, 2) for each in runs], flush=True)
        found.setdefault("parts", {})[f"{backend}, {kind}"] = parts = _parts(batches)
        print(backend, kind, parts, flush=True)
    path.write_text(json.dumps(found, indent=1), encoding="utf-8")


def _parts(batches: list[Any]) -> dict[str, float]:
    """Seconds of one copy and of one batch's kernels alone."""
    device = xl.empty(N, np.float32)
    turn = itertools.cycle(batches)
    found = {}
    for name, part in (("copy", lambda: xl.to_device(next(turn), out=device)), ("kernels", lambda: compute(device))):
        runs = []
        for _ in range(2 * REPEATS):
            xl.synchronize()
            start = time.perf_counter()
            part()
            xl.synchronize()
            runs.append(time.perf_counter() - start)
        found[name] = statistics.median(runs)
    return found


def table(path: Path) -> str:
    """Predicted beside measured."""
    found = json.loads(path.read_text(encoding="utf-8"))
    columns = list(found["measured"])
    lines = [
        "| job | built-in profile, ms | " + " | ".join(f"{each}: predicted, measured, ms" for each in columns) + " |",
        "|---|---:|" + "---:|" * len(columns),
    ]
    for job, built_in in found["predicted"]["built in"].items():
        cells = []
        for each in columns:
            runs = found["measured"][each].get(job)
            if runs is None:
                cells.append("")
                continue
            took, predicted = statistics.median(runs), found["predicted"].get(each, {}).get(job, built_in)
            cells.append(f"{predicted * 1e3:.2f}, {took * 1e3:.2f} ({took / predicted - 1:+.1%})")
        lines.append(f"| {job} | {built_in * 1e3:.2f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """One of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["predict", "measure", "table"])
    parser.add_argument("names", nargs="+", help="[BACKEND] FILE")
    options = parser.parse_args()
    path = Path(options.names[-1])
    if options.what == "predict":
        predict(path)
    elif options.what == "measure":
        measure(options.names[0], path)
    else:
        print(table(path))


if __name__ == "__main__":
    main()
