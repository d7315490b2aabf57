"""A plug-in for pytest that keeps what a run on a GPU has found, even if the run is cut off: `-p tools.gpu_report`.

Each failure is written to `failures.txt` in the folder that `$OUT` names as soon as it happens. At the end the
terminal, and the file that `$COUNTS` names, get the outcomes by backend. A test belongs to every backend that its class
or its parameters name (``Test_cupy_cuda::test_x``, ``test_x[cupy-float32]``); the others are "shared".

An error such as an illegal address breaks the CUDA context for the rest of a process, so that every later test in it
would fail too: a worker of pytest-xdist in which a test fails with one exits, and pytest-xdist starts another in its
place. (It reports that test a second time, as the one in which the worker ended.)
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest

BACKENDS = ("numpy", "torch", "cupy", "pycuda", "sim")
_BROKEN = re.compile(
    r"ILLEGAL_ADDRESS|illegal memory access|MISALIGNED_ADDRESS|misaligned address|LAUNCH_FAILED|launch failure"
    r"|ILLEGAL_INSTRUCTION|HARDWARE_STACK_ERROR|device-side assert|CUDA_ERROR_ASSERT|CONTEXT_IS_DESTROYED",
    re.IGNORECASE,
)
_broken: set[str] = set()
"""Tests of this process behind which it can use CUDA no more."""
counts: dict[str, Counter[str]] = {name: Counter() for name in (*BACKENDS, "shared")}
reasons: Counter[str] = Counter()
"""Why tests were skipped."""


def backends_of(nodeid: str) -> tuple[str, ...]:
    """The backends that a test's class or parameters name."""
    _, _, name = nodeid.partition("::")
    named = f"{name.rpartition('::')[0].partition('[')[0]} {name.partition('[')[2]}"
    words = set(re.split(r"[^A-Za-z0-9]+|_", named))
    return tuple(backend for backend in BACKENDS if backend in words) or ("shared",)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count an outcome, write a failure down, and remember if it broke the context."""
    text = report.longreprtext
    if "PYTEST_XDIST_WORKER" in os.environ:  # the process that starts the workers counts and writes
        # Lines of the errors, and not of the test's own text, which may name such an error.
        if report.failed and any(_BROKEN.search(line) for line in text.splitlines() if line.startswith("E ")):
            _broken.add(report.nodeid)
        return
    if report.when == "call" or not report.passed:
        for backend in backends_of(report.nodeid):
            counts[backend][report.outcome] += 1
    if report.skipped:
        reasons[report.longrepr[2] if isinstance(report.longrepr, tuple) else text] += 1
    if report.failed:
        with Path(os.environ.get("OUT", "."), "failures.txt").open("a", encoding="utf-8") as file:
            file.write(f"=== {report.nodeid} ({report.when})\n{text}\n\n")


def pytest_runtest_logfinish(nodeid: str) -> None:
    """End a worker whose context is broken, now that its report has been sent."""
    if nodeid in _broken:
        os._exit(3)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the outcomes by backend, and write them."""
    outcomes = ("passed", "failed", "skipped")
    lines = [f"{'backend':8}" + "".join(f"{outcome:>9}" for outcome in outcomes)]
    lines += [f"{name:8}" + "".join(f"{each[outcome]:9}" for outcome in outcomes) for name, each in counts.items()]
    lines += [f"skipped {times:5} {reason[:140]}" for reason, times in reasons.most_common(20)]
    terminalreporter.write_line("\n".join(lines))
    if "COUNTS" in os.environ:
        text = json.dumps({"counts": counts, "skipped": reasons}, indent=2)
        Path(os.environ["COUNTS"]).write_text(f"{text}\n", encoding="utf-8")
