"""Run the peers' own tests on xferlib: `python -m tools.peer_suites cupy=../cupy pycuda=../pycuda --backend sim`.

Each argument is a peer and a checkout of its sources, of which nothing is kept. The tests run in a process for each
peer and backend, on the modules of `xferlib._pretend`, here over any backend and without what NumPy computes for it:
`adapting` writes copies whose imports name them, `cupy_names` and `pycuda_names` add names that tests alone use, and
`guards` ends the tests of what says nothing about xferlib. ``--record`` notes the counts
in ``results.json``, from which ``--page`` writes the page of the documentation; ``--merge`` takes the lines of counts
that another machine printed. The exit status is 1 where a test fails for a reason that `exceptions.txt` does not have.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.peer_suites import adapting, report
from tools.peer_suites.report import Outcomes
from xferlib import _pretend as pretend

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parents[2]


def run(peer: str, checkout: Path, backend: str, extra: Sequence[str] = (), limit_s: float | None = None) -> Outcomes:
    """The outcome of each test of a peer on a backend.

    Args:
        peer, checkout, backend: As in the module's first line.
        extra: Options of pytest's.
        limit_s: What has not run by then has no outcome; no limit if omitted.
    """
    names = importlib.import_module(f"tools.peer_suites.{peer}_names")
    present = [checkout / each for each in names.FILES if (checkout / each).is_file()]
    if not present:
        raise SystemExit(f"{checkout} has none of {', '.join(names.FILES)}; give a checkout of {peer}")
    roots = {name.partition(".")[0] for name in (*names.NAMES, *pretend.find_tables(peer))}
    with tempfile.TemporaryDirectory() as folder:
        files = adapting.adapt(present, checkout, Path(folder), roots)
        target = Path(folder) / "results.jsonl"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environ = {**inherited, "PEER_SUITE": peer, "PEER_BACKEND": backend, "PEER_RESULTS": str(target)}
        environ["PEER_CHECKOUT"] = str(checkout)
        environ.setdefault("XFERLIB_SIM_MEMORY", "64 GiB")
        environ["PYTHONPATH"] = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "tools.peer_suites.plugin", "-p", "no:cacheprovider",
            "--noconftest", "--continue-on-collection-errors", "--import-mode=importlib", "-c", os.devnull,
            f"--rootdir={folder}", "-W", "ignore", "--tb=line", *extra, *map(str, files),
        ]  # fmt: skip
        said = ""
        try:
            done = subprocess.run(
                command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=limit_s
            )
            if done.returncode not in (0, 1):
                print(f"{peer} on {backend}: pytest ended with {done.returncode}\n{done.stderr[-2500:]}")
            said = f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
        except subprocess.TimeoutExpired:
            print(f"{peer} on {backend}: not all in {limit_s:g} s")
        if not target.is_file():
            raise SystemExit(f"pytest did not run:\n{said}")
        lines = target.read_text(encoding="utf-8").splitlines()
    return {name: (kind, reason) for name, kind, reason in map(json.loads, lines)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.peer_suites", description=__doc__.splitlines()[0])
    parser.add_argument("checkouts", nargs="*", metavar="PEER=PATH")
    parser.add_argument("--backend", default="numpy", help="names of backends, with commas between them")
    parser.add_argument("--pytest", default="", help="options of pytest's, as one argument")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="end the tests of a peer on a backend then")
    parser.add_argument("--lines", action="store_true", help="print the counts as lines for --merge")
    parser.add_argument("--merge", type=Path, metavar="FILE", help="note the lines of counts in a file")
    parser.add_argument("--record", action="store_true", help="note the counts")
    parser.add_argument("--page", action="store_true", help="write the page of the documentation from what is noted")
    given = parser.parse_args()
    found: list[report.Counts] = []
    for each in given.checkouts:
        peer, _, path = each.partition("=")
        for backend in given.backend.split(","):
            outcomes = run(peer, Path(path).resolve(), backend, given.pytest.split(), given.limit)
            counts = report.counted(peer, backend, outcomes)
            found.append(counts)
            print(json.dumps(counts._asdict()) if given.lines else report.told(counts), flush=True)
    if given.merge is not None:
        lines = given.merge.read_text(encoding="utf-8").splitlines()
        found += [report.Counts(**json.loads(line)) for line in lines if line.startswith('{"peer":')]
    if given.record or given.merge is not None:
        report.note(found)
    if given.page:
        report.PAGE.write_text(report.page(report.noted()), encoding="utf-8")
        print(f"wrote {report.PAGE.relative_to(ROOT)}")
    known = report.reasons()
    return int(any(not report.reason_of(name, known) for each in found for name in report.sorted_out(each).failed))


if __name__ == "__main__":
    sys.exit(main())
