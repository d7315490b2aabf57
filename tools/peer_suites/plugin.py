"""A plug-in of pytest: installs the names of one peer, and notes the outcome of each test.

Texts of errors are the libraries' own, so that ``match=`` is not looked at.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import unittest
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tools.peer_suites.missing import PREFIX, install

_peer, _backend, _target = (os.environ[f"PEER_{name}"] for name in ("SUITE", "BACKEND", "RESULTS"))
_raises = pytest.raises


def _without_text(expected: Any, *args: Any, match: Any = None, **options: Any) -> Any:
    return _raises(expected, *args, **options)


def pytest_configure(config: Any) -> None:
    names = importlib.import_module(f"tools.peer_suites.{_peer}_names")
    config.addinivalue_line("markers", "cuda: of the peer")
    config.addinivalue_line("markers", "thread_unsafe: of the peer")
    pytest.raises = _without_text
    unittest.TestCase.assertRaisesRegex = lambda self, error, *_: self.assertRaises(error)  # type: ignore[assignment]
    xl.use_backend(_backend)
    install(names.NAMES)
    names.prepare()


@pytest.fixture(autouse=True)  # type: ignore[untyped-decorator]
def _same_stream() -> Any:
    np.random.seed(0)
    before = xl.current_stream()
    yield
    before.use()


def pytest_runtest_logreport(report: Any) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # the controller gets all reports
    if report.when == "call" or report.outcome != "passed":
        reason = ""
        if report.outcome == "skipped":
            reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
            reason = reason.removeprefix("Skipped: ")
        elif report.outcome == "failed":
            with contextlib.suppress(AttributeError):
                reason = report.longrepr.reprcrash.message.splitlines()[0]
        if "XFailed" in reason:
            reason = "the peer expects it to fail"
        if reason.startswith("https:"):
            reason = "the peer leaves it out"
        if "No module named 'pytools'" in reason:
            reason = PREFIX + "pytools, which is PyCUDA's"
        kind = "not applicable" if reason.startswith(PREFIX) else report.outcome
        note = json.dumps([report.nodeid, kind, reason.removeprefix(PREFIX)])
        with open(_target, "a", encoding="utf-8") as file:
            file.write(note + "\n")
