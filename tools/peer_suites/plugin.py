"""A plug-in of pytest: installs the names of one peer, and notes the outcome of each test.

Texts of errors are the libraries' own, so that ``match=`` is not looked at.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tools.peer_suites.adapting import SHIM
from tools.peer_suites.missing import PREFIX, Missing, skip, skipped_in_threads
from xferlib import _pretend as pretend
from xferlib._pretend import policy, streams

_peer, _backend, _target = (os.environ[f"PEER_{name}"] for name in ("SUITE", "BACKEND", "RESULTS"))
_raises = pytest.raises
_ROOT = Path(__file__).resolve().parents[2]


def _without_text(expected: Any, *args: Any, match: Any = None, **options: Any) -> Any:
    if expected is NotImplementedError and not args:
        return _not_implemented()
    return _raises(expected, *args, **options)


@contextlib.contextmanager
def _not_implemented() -> Any:
    """The block of a test of what the peer has not implemented: it applies where xferlib has not, either."""
    with contextlib.ExitStack() as inner:
        found = inner.enter_context(_raises(NotImplementedError))
        yield found
        inner.pop_all()
        skip("what the peer has not implemented")


def pytest_configure(config: Any) -> None:
    names = importlib.import_module(f"tools.peer_suites.{_peer}_names")
    config.addinivalue_line("markers", "cuda: of the peer")
    config.addinivalue_line("markers", "thread_unsafe: of the peer")
    pytest.raises = _without_text
    unittest.TestCase.assertRaisesRegex = lambda self, error, *_: self.assertRaises(error)  # type: ignore[assignment]
    xl.use_backend(_backend)
    policy.prefix, policy.refuse, policy.find_missing = f"{SHIM}.", skip, Missing
    policy.is_numpy_allowed = False
    tables = pretend.find_tables(_peer)
    for module, added in names.NAMES.items():
        table = tables.get(module, pretend.ModuleTable({}))
        tables[module] = table._replace(names={**table.names, **added})
    for path in names.ABSENT:
        module, _, name = path.rpartition(".")
        tables[module] = tables[module]._replace(names={**tables[module].names, name: Missing(path)})
    pretend.add_modules(tables)
    names.prepare()


@pytest.fixture(autouse=True)  # type: ignore[untyped-decorator]
def _same_stream() -> Any:
    np.random.seed(0)
    before = xl.current_stream()
    yield
    streams.end_captures()
    before.use()


@pytest.fixture(autouse=True)  # type: ignore[untyped-decorator]
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Popen", "run"):
        monkeypatch.setattr(subprocess, name, _unless_of_a_test(getattr(subprocess, name)))


def _unless_of_a_test(start: Any) -> Any:
    """The function for what xferlib starts, a C compiler or its search for one, and the end of a test with Python."""

    def call(command: Any, *args: Any, **options: Any) -> Any:
        program = command.split()[0] if isinstance(command, str) else command[0]
        if Path(program).name.startswith(("python", "nvcc")):
            skip("another process, which has no shim")
        return start(command, *args, **options)

    return call


@pytest.hookimpl(wrapper=True)  # type: ignore[untyped-decorator]
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    report = yield
    if report.when == "call":
        if report.outcome == "failed" and skipped_in_threads:
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, PREFIX + skipped_in_threads[0])
        skipped_in_threads.clear()
    return report


def pytest_collectreport(report: Any) -> None:
    if report.outcome != "passed":  # else a whole file would be lost without a word
        _note(report)


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or report.outcome != "passed":
        _note(report)


def _note(report: Any) -> None:
    """Add the outcome of a test, or of a file that could not be collected."""
    if "PYTEST_XDIST_WORKER" not in os.environ:  # the controller gets all reports
        reason = ""
        if report.outcome == "skipped":
            reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
            reason = reason.removeprefix("Skipped: ")
        elif report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = next(iter((str(report.longrepr) if crash is None else crash.message).splitlines()), "")
        if "XFailed" in reason:
            reason = "the peer expects it to fail"
        if reason.startswith("https:"):
            reason = "the peer leaves it out"
        if "No module named 'pytools'" in reason:
            reason = PREFIX + "pytools, which is PyCUDA's"
        reason = reason.replace(f"{_ROOT}{os.sep}", "")
        kind = "not applicable" if reason.startswith(PREFIX) else report.outcome
        note = json.dumps([report.nodeid, kind, reason.removeprefix(PREFIX)])
        with open(_target, "a", encoding="utf-8") as file:
            file.write(note + "\n")
