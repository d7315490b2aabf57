"""Time two trees of xferlib side by side: the same calls, in turn, in one run.

    python -m tools.compare_trees OTHER [--backends torch,cupy] [--rounds 5] [--processes 3] [--match REGEX]

OTHER is the tree of another commit, with its C compiled in place: `git worktree add ../other COMMIT`, or, for a machine
that gets a copy of this folder alone, `git archive --prefix=other/ COMMIT | tar x`; then `python -m
xferlib._native.build` in it. `tools/gpu_check.sh trees` does the rest there. ``--backends fake`` shows on any machine
what the Python of a transfer takes, if the fake accelerator is the same in both trees. The cases are those of `xferlib
bench sweep`, which both trees must have.

Each tree has a process of its own, which waits while the other one measures: machines drift, so only times from the
same seconds are compared. Where a process's buffers lie makes some calls a tenth faster or slower for as long as it
lives, so each case is measured in several pairs of processes, and one that is slower in each of them is told apart from
one that is not. A ratio above 1 says that this tree is faster. Compare a tree with a copy of itself to see how far the
ratios spread by chance.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
WORKER = Path(__file__).with_name("compare_trees_worker.py")
NOTABLE = 0.97
"""Ratios below it are listed: more than 3 % slower."""


class Tree:
    """A process that measures one checkout's xferlib."""

    def __init__(self, root: Path) -> None:
        paths = [str(root), str(root / "tests" / "plugin"), *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **question: Any) -> Any:
        """The worker's answer to a question."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        asked.write(json.dumps(question) + "\n")
        asked.flush()
        line = answers.readline()
        if not line:
            raise RuntimeError(f"a worker ended with status {self._process.wait()} at {question}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def import_ms(root: Path, runs: int) -> float:
    """Milliseconds of ``import xferlib`` beyond ``import numpy``, the median of some runs."""
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-P", str(HERE / "tools" / "import_cost.py"), "inf", str(runs)]
    environ = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, check=True, cwd=root, env=environ, capture_output=True, text=True)
    return float(done.stdout.split()[2])


def compared(this: Tree, other: Tree, case: str, rounds: int) -> tuple[float, float] | str:
    """Seconds of one case in both trees, the best of ``rounds`` turns each; or why it cannot be measured.

    The best and not the median: another process, or a core that slows down, makes a turn longer and never shorter.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for tree in (this, other):
        problem = tree.ask(begin=case)
        if problem:
            for each in (this, other):
                each.ask(end=case)
            return str(problem)
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            times[which].append((this, other)[which].ask(measure=case))
    for tree in (this, other):
        tree.ask(end=case)
    return min(times[0]), min(times[1])


def compared_often(roots: list[Path], backend: str, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Each case of a backend, in ``given.processes`` pairs of processes: the median of their ratios."""
    found: dict[str, list[tuple[float, float] | str]] = {}
    for number in range(given.processes):
        trees = [Tree(root) for root in (roots if number % 2 else reversed(roots))]
        this, other = trees if number % 2 else trees[::-1]
        cases = this.ask(cases=backend)
        other.ask(cases=backend)
        for case in filter(re.compile(given.match).search, cases):
            if time.perf_counter() < given.until:
                found.setdefault(case, []).append(compared(this, other, case, given.rounds))
        for tree in trees:
            tree.close()
    return [summed_up(case, pairs) for case, pairs in found.items()]


def summed_up(case: str, pairs: list[tuple[float, float] | str]) -> dict[str, Any]:
    """One case of all pairs of processes."""
    times = [pair for pair in pairs if not isinstance(pair, str)]
    if len(times) < len(pairs):
        return {"case": case, "problem": next(pair for pair in pairs if isinstance(pair, str))}
    ratios = [before / now for now, before in times]
    now, before = (statistics.median(each) * 1e6 for each in zip(*times, strict=True))
    return {"case": case, "us": now, "other_us": before, "ratio": statistics.median(ratios), "ratios": sorted(ratios)}


def report(found: list[dict[str, Any]]) -> str:
    """The ratios in a few lines: of each group of cases, then every case that is notably slower."""
    lines = ["| cases | number | median | geometric mean | lowest |", "|---|---|---|---|---|"]
    groups: dict[str, list[float]] = {}
    for each in found:
        if "ratio" in each:
            groups.setdefault(each["case"].partition(":")[0].rpartition(" ")[0], []).append(each["ratio"])
    for name, ratios in groups.items():
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        lines.append(f"| {name} | {len(ratios)} | {statistics.median(ratios):.2f} | {mean:.2f} | {min(ratios):.2f} |")
    slower = sorted((each for each in found if each.get("ratio", 1) < NOTABLE), key=lambda each: each["ratio"])
    always = [each for each in slower if max(each["ratios"]) < 1]
    lines += ["", f"{len(slower)} of {sum(map(len, groups.values()))} cases are more than 3 % slower, {len(always)} of"]
    lines[-1] += " them in every pair of processes:"
    for each in sorted(slower, key=lambda each: each not in always):
        pairs = each["ratios"]
        where = "" if each in always else f", in {sum(ratio < 1 for ratio in pairs)} of {len(pairs)} pairs"
        lines.append(f"- {each['case']}: {each['other_us']:.1f} us -> {each['us']:.1f} us{where}")
    lines += [f"- not compared: {each['case']}: {each['problem']}" for each in found if "problem" in each]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time two trees of xferlib side by side.")
    parser.add_argument("other", type=Path, help="the tree of another commit, its C compiled")
    parser.add_argument("--backends", default="torch,cupy,pycuda")
    parser.add_argument("--rounds", type=int, default=5, help="turns in each pair of processes")
    parser.add_argument("--processes", type=int, default=3, help="pairs of processes")
    parser.add_argument("--match", default="", help="only cases whose name a regular expression finds")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no case later than this")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    given.until = time.perf_counter() + given.seconds
    roots = [HERE, given.other.resolve()]
    for root in roots:
        if not list((root / "xferlib" / "_native").glob("*staging.so")):
            parser.error(f"{root} has no compiled C, so it would be slower; run python -m xferlib._native.build in it")
    imports = [[import_ms(root, given.rounds) for root in roots] for _ in range(given.processes)]
    this, other = map(min, zip(*imports, strict=True))
    print(f"importing, beyond NumPy: {this:.1f} ms; the other tree {other:.1f} ms", flush=True)
    found: list[dict[str, Any]] = []
    for backend in given.backends.split(","):
        found.extend(compared_often(roots, backend, given))
        if given.json:
            given.json.write_text(json.dumps({"import_ms": [this, other], "cases": found}, indent=1) + "\n")
    print(f"load of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(report(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
