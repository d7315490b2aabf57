"""Run the peers' own tests on xferlib: `python -m tools.peer_suites cupy=../cupy pycuda=../pycuda --backend sim`.

Each argument is a peer and a checkout of its sources, of which nothing is kept or changed. The tests run as they are,
in a process for each peer and backend, on a shim of the peer's names over xferlib (`cupy_names`, `pycuda_names`).
A test that uses a name without a counterpart is not applicable; one that fails is an exception, for which
``exceptions.txt`` has the reason. ``--page`` writes the counts to the documentation.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "peer-suites.md"
REASONS = Path(__file__).with_name("exceptions.txt")

Outcomes = dict[str, tuple[str, str]]


def reasons() -> list[tuple[str, str]]:
    """Parts of the names of tests, and why those fail."""
    lines = REASONS.read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" | ", 1) for line in lines if " | " in line]
    return [(pattern.strip(), reason.strip()) for pattern, reason in pairs]


def reason_of(name: str, known: list[tuple[str, str]]) -> str:
    return next((reason for pattern, reason in known if pattern in name), "")


def run(peer: str, checkout: Path, backend: str) -> Outcomes:
    """The outcome of each test of a peer on a backend."""
    files = importlib.import_module(f"tools.peer_suites.{peer}_names").FILES
    present = [str(checkout / each) for each in files if (checkout / each).is_file()]
    if not present:
        raise SystemExit(f"{checkout} has none of {', '.join(files)}; give a checkout of {peer}")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "results.json"
        environ = {**os.environ, "PEER_SUITE": peer, "PEER_BACKEND": backend, "PEER_RESULTS": str(target)}
        environ["PYTHONPATH"] = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.peer_suites.plugin", "-p", "no:cacheprovider"]
        command += [
            "--noconftest",
            "--continue-on-collection-errors",
            "-c",
            os.devnull,
            f"--rootdir={checkout}",
            "-W",
            "ignore",
            "--tb=line",
            *present,
        ]
        done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
        if not target.is_file():
            raise SystemExit(f"pytest did not run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        found: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    return {name: (kind, reason) for name, (kind, reason) in found.items()}


def page(results: dict[tuple[str, str], Outcomes]) -> str:
    """The counts, and the exceptions with their reasons."""
    known = reasons()
    lines = [
        "# The peers' own tests", "",
        "Tests of CuPy and PyCUDA, run as they are on xferlib by a thin shim of their names:", "",
        "```sh",
        "python -m tools.peer_suites cupy=../cupy pycuda=../pycuda --backend numpy,torch,sim --page",
        "```", "",
        "A test that uses a name without a counterpart is not applicable. Texts of errors are not compared.", "",
        "| suite | backend | passed | of | not applicable |", "|---|---|---:|---:|---:|",
    ]  # fmt: skip
    for (peer, backend), outcomes in results.items():
        counts = collections.Counter(kind for kind, _ in outcomes.values())
        of = counts["passed"] + counts["failed"]
        lines.append(f"| {peer} | {backend} | {counts['passed']} | {of} | {len(outcomes) - of} |")
    failed: dict[str, set[str]] = {}
    skipped: collections.Counter[str] = collections.Counter()
    for (_, backend), outcomes in results.items():
        for name, (kind, reason) in outcomes.items():
            if kind == "failed":
                failed.setdefault(name.rpartition("/")[2], set()).add(backend)
            elif kind != "passed":
                skipped[reason] += 1
    lines += ["", "## Exceptions", "", "| test | backends | why |", "|---|---|---|"]
    for name, where in sorted(failed.items()):
        lines.append(f"| `{name}` | {', '.join(sorted(where))} | {reason_of(name, known) or 'to be looked at'} |")
    lines += ["", "## Not applicable", "", "| because of | tests |", "|---|---:|"]
    lines += [f"| {reason} | {count} |" for reason, count in skipped.most_common()]
    return "\n".join([*lines, "", "<!-- Written by tools/peer_suites. -->", ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.peer_suites", description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs="+", metavar="PEER=PATH")
    parser.add_argument("--backend", default="numpy", help="names of backends, with commas between them")
    parser.add_argument("--page", action="store_true", help="write the counts to the documentation")
    given = parser.parse_args()
    results = {}
    for each in given.checkouts:
        peer, _, path = each.partition("=")
        for backend in given.backend.split(","):
            outcomes = results[peer, backend] = run(peer, Path(path).resolve(), backend)
            print(peer, backend, dict(collections.Counter(kind for kind, _ in outcomes.values())))
            for name, (kind, reason) in outcomes.items():
                if kind == "failed" and not given.page:
                    print(f"  {name.rpartition('/')[2]}: {reason[:150]}")
    if given.page:
        PAGE.write_text(page(results), encoding="utf-8")
        print(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
