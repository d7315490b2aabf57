"""Time two trees of xferlib side by side: the same calls, in turn, in one run.

    python -m tools.compare_trees OTHER [--backends torch,cupy] [--rounds 9] [--match TEXT] [--json FILE]

OTHER is a checkout of another commit, with its C compiled (`git worktree add ../other COMMIT`, then `python -m
xferlib._native.build` there). Each tree has a process of its own, which waits while the other one measures: machines
drift, so only times from the same seconds are compared. A ratio above 1 says that this tree is faster.
"""

from __future__ import annotations

import argparse
import json
import math
import os
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
        paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
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
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None
        assert answers is not None
        asked.close()
        self._process.wait()
        answers.close()


def import_ms(root: Path) -> float:
    """Milliseconds of ``import xferlib`` beyond ``import numpy``."""
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-P", str(HERE / "tools" / "import_cost.py"), "inf"]
    done = subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    return float(done.stdout.split()[2])


def compared(this: Tree, other: Tree, case: str, rounds: int) -> dict[str, Any]:
    """Times of one case in both trees: the medians of ``rounds`` turns each."""
    times: tuple[list[float], list[float]] = ([], [])
    for tree in (this, other):
        problem = tree.ask(begin=case)
        if problem:
            for each in (this, other):
                each.ask(end=case)
            return {"case": case, "problem": problem}
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            times[which].append((this, other)[which].ask(measure=case))
    for tree in (this, other):
        tree.ask(end=case)
    now, before = (statistics.median(each) for each in times)
    return {"case": case, "us": now * 1e6, "other_us": before * 1e6, "ratio": before / now}


def report(found: list[dict[str, Any]]) -> str:
    """The ratios in a few lines: of each group of cases, then every case that is notably slower."""
    lines = ["| cases | number | median | geometric mean | lowest |", "|---|---|---|---|---|"]
    groups: dict[str, list[float]] = {}
    for each in found:
        if "ratio" in each:
            groups.setdefault(" ".join(each["case"].split()[:2]), []).append(each["ratio"])
    for name, ratios in groups.items():
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        lines.append(f"| {name} | {len(ratios)} | {statistics.median(ratios):.2f} | {mean:.2f} | {min(ratios):.2f} |")
    slower = sorted((each for each in found if each.get("ratio", 1) < NOTABLE), key=lambda each: each["ratio"])
    lines += ["", f"{len(slower)} of {sum(map(len, groups.values()))} cases are more than 3 % slower:"]
    lines += [f"- {each['case']}: {each['other_us']:.1f} us -> {each['us']:.1f} us" for each in slower]
    lines += [f"- not compared: {each['case']}: {each['problem']}" for each in found if "problem" in each]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time two trees of xferlib side by side.")
    parser.add_argument("other", type=Path, help="a checkout of another commit, its C compiled")
    parser.add_argument("--backends", default="torch,cupy,pycuda")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--match", default="", help="only cases whose name has this text")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no case later than this")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(arguments)
    begun = time.perf_counter()
    roots = HERE, given.other.resolve()
    imports = [[import_ms(root) for root in roots] for _ in range(3)]
    this, other = map(min, zip(*imports, strict=True))
    print(f"importing, beyond NumPy: {this:.1f} ms; the other tree {other:.1f} ms", flush=True)
    found: list[dict[str, Any]] = []
    for backend in given.backends.split(","):
        trees = [Tree(root) for root in roots]
        cases = trees[0].ask(cases=backend)
        trees[1].ask(cases=backend)
        wanted = (case for case in cases if given.match in case and time.perf_counter() - begun < given.seconds)
        found.extend(compared(trees[0], trees[1], case, given.rounds) for case in wanted)
        for tree in trees:
            tree.close()
        if given.json:
            given.json.write_text(json.dumps({"import_ms": [this, other], "cases": found}, indent=1) + "\n")
    print(report(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
