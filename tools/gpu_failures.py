"""A plug-in for pytest that keeps what a run on a GPU has found, even if the run is cut off: `-p tools.gpu_failures`.

Each failure is written to `failures.txt` in the folder that `$OUT` names as soon as it happens. An error such as an
illegal address breaks the CUDA context for the rest of a process, so that every later test in it would fail too: a
worker of pytest-xdist in which a test fails with one exits, and pytest-xdist starts another in its place. (It reports
that test a second time, as the one in which the worker ended.)
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

_BROKEN = re.compile(
    r"ILLEGAL_ADDRESS|illegal memory access|MISALIGNED_ADDRESS|misaligned address|LAUNCH_FAILED|launch failure"
    r"|ILLEGAL_INSTRUCTION|HARDWARE_STACK_ERROR|device-side assert|CUDA_ERROR_ASSERT|CONTEXT_IS_DESTROYED",
    re.IGNORECASE,
)
_broken: set[str] = set()
"""Tests of this process behind which it can use CUDA no more."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write a failure down, and remember if it broke the context."""
    if not report.failed:
        return
    text = report.longreprtext
    if "PYTEST_XDIST_WORKER" in os.environ:  # the process that starts the workers writes
        # Lines of the errors, and not of the test's own text, which may name such an error.
        if any(_BROKEN.search(line) for line in text.splitlines() if line.startswith("E ")):
            _broken.add(report.nodeid)
        return
    with Path(os.environ.get("OUT", "."), "failures.txt").open("a", encoding="utf-8") as file:
        file.write(f"=== {report.nodeid} ({report.when})\n{text}\n\n")


def pytest_runtest_logfinish(nodeid: str) -> None:
    """End a worker whose context is broken, now that its report has been sent."""
    if nodeid in _broken:
        os._exit(3)
