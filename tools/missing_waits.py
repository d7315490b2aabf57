"""The programs of the mutation study on real devices, beside what the simulator says of them.

    python -m tools.missing_waits expect FILE          on any machine: the simulator's results and reports
    python -m tools.missing_waits run BACKEND FILE     on a machine with a GPU: adds what came out there
    python -m tools.missing_waits table FILE           Markdown of all that

Each program runs with wide arrays, 64 MiB each, so that an order that is wrong has time to show: as it stands, which
must give the simulator's values bit for bit, and with each of its waits deleted, which may give anything.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from tests.sim.mutations import Without, is_reported
from tests.sim.programs import ON_TWO_DEVICES, PROGRAMS, Array
from xferlib import sim

WIDE = 1 << 23  # float64: 64 MiB
NARROW = 1 << 14


def digest(results: list[Array]) -> str:
    """Of every bit of every result."""
    found = hashlib.sha256()
    for each in results:
        found.update(np.ascontiguousarray(each).data)
    return found.hexdigest()


def hazard(name: str, label: str) -> str:
    """The detector's report of a program without one of its waits."""
    try:
        with xl.use_backend("sim"), sim.check("raise", schedule="lazy"):
            PROGRAMS[name](Without(label, NARROW))
    except sim.RaceError as error:
        return error.race.hazard.value
    return ""


def expect(path: Path) -> None:
    """The simulator's results and reports."""
    found: dict[str, Any] = {"n": WIDE, "programs": {}, "devices": {}}
    for name, program in PROGRAMS.items():
        sync = Without(None, WIDE)
        with xl.use_backend("sim"), sim.check("raise"):
            results = program(sync)
        waits = {label: hazard(name, label) for label in sync.labels}
        assert not is_reported(program, None)
        found["programs"][name] = {"digest": digest(results), "waits": waits, "results": len(results)}
        print(name, waits, flush=True)
        del results
    path.write_text(json.dumps(found, indent=1), encoding="utf-8")


def wrong(found: list[Array], expected: list[Array]) -> int:
    """How many elements differ."""
    return sum(int(np.count_nonzero(one != two)) for one, two in zip(found, expected, strict=True))


def run(backend: str, path: Path, runs: int, seconds: float) -> None:
    """Every program on a real device, whole and without each of its waits."""
    figures = json.loads(path.read_text(encoding="utf-8"))
    xl.use_backend(backend)
    places = [each for each in xl.get_backend().devices() if each.kind != "cpu"]
    device = xl.get_device()
    end = time.monotonic() + seconds
    table: dict[str, Any] = {}
    figures["devices"][backend] = {"device": device.properties.name, "runs": runs, "programs": table}
    for name, program in PROGRAMS.items():
        if name in ON_TWO_DEVICES and len(places) < 2:
            continue
        entry: dict[str, Any] = {"same": 0, "wrong": {}}
        table[name] = entry
        wanted = figures["programs"][name]
        expected: list[Array] = []
        for _ in range(2):
            expected = program(Without(None, figures["n"]))
            device.synchronize()
            entry["same"] += digest(expected) == wanted["digest"]
        for label in wanted["waits"]:
            counts = entry["wrong"][label] = []
            for _ in range(runs):
                if time.monotonic() > end:
                    break
                try:
                    counts.append(wrong(program(Without(label, figures["n"])), expected))
                except Exception as error:
                    counts.append(-1)
                    print(f"{name} without {label!r}: {error}", file=sys.stderr)
                device.synchronize()
        print(f"{backend} {name}: {entry['same']} of 2 the same; {entry['wrong']}", flush=True)
        del expected
    path.write_text(json.dumps(figures, indent=1), encoding="utf-8")


def table(path: Path) -> str:
    """All of it in Markdown."""
    figures = json.loads(path.read_text(encoding="utf-8"))
    backends = figures["devices"]
    columns = list(backends)
    lines = ["| program as it stands | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
    for name in figures["programs"]:
        cells = [_same(backends[each]["programs"].get(name)) for each in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "| program | without this wait | the simulator reports | " + " | ".join(columns) + " |",
        "|---|---|---|" + "---:|" * len(columns),
    ]
    for name, entry in figures["programs"].items():
        for label, said in entry["waits"].items():
            size = entry["results"] * figures["n"]
            cells = [_wrong(backends[each]["programs"].get(name), label, size) for each in columns]
            if any(cells):
                lines.append(f"| {name} | {label} | {said or 'nothing: redundant'} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _same(entry: dict[str, Any] | None) -> str:
    return "needs two devices" if entry is None else "the same bits" if entry["same"] == 2 else "**differs**"


def _wrong(entry: dict[str, Any] | None, label: str, size: int) -> str:
    counts = entry["wrong"].get(label) if entry is not None else None
    if not counts:
        return ""
    bad = [count for count in counts if count]
    if not bad:
        return f"right in {len(counts)} of {len(counts)} runs"
    return f"wrong in {len(bad)} of {len(counts)}, up to {max(bad) / size:.2%}"


def main() -> None:
    """One of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["expect", "run", "table"])
    parser.add_argument("names", nargs="+", help="[BACKEND] FILE")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60.0, help="stop deleting waits after so long")
    options = parser.parse_args()
    path = Path(options.names[-1])
    if options.what == "expect":
        expect(path)
    elif options.what == "run":
        run(options.names[0], path, options.runs, options.seconds)
    else:
        print(table(path))


if __name__ == "__main__":
    main()
