"""Reports of workers: of a test that passes its call alone, of one that fails everything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import ShortReports

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [({"setup": PASSED, "call": PASSED, "teardown": PASSED}, ["call"]),
     ({"setup": SKIPPED, "teardown": PASSED}, ["setup"]),
     ({"setup": PASSED, "call": SKIPPED, "teardown": PASSED}, ["call"]),
     ({"setup": FAILED, "teardown": PASSED}, ["setup", "teardown"]),
     ({"setup": PASSED, "call": FAILED, "teardown": PASSED}, ["setup", "call", "teardown"]),
     ({"setup": PASSED, "call": PASSED, "teardown": FAILED}, ["setup", "call", "teardown"])],
)  # fmt: skip
def test_no_failure_and_nothing_behind_it_is_left_out(outcomes: dict[str, Any], told: list[str]) -> None:
    reports = [pytest.TestReport("a", ("a.py", 1, "a"), {}, outcome, None, when) for when, outcome in outcomes.items()]
    sent: list[str] = []
    runner = SimpleNamespace(runtestprotocol=lambda item, *, nextitem, log: reports)
    hooks = SimpleNamespace(
        pytest_runtest_logreport=lambda report: sent.append(report.when),
        pytest_runtest_logfinish=lambda nodeid, location: sent.append("end"),
    )
    plugins = SimpleNamespace(get_plugin={"runner": runner}.get)
    item: Any = SimpleNamespace(
        config=SimpleNamespace(pluginmanager=plugins), ihook=hooks, nodeid="a", location=("a.py", 1, "a")
    )
    assert ShortReports().pytest_runtest_protocol(item, None)
    assert sent == [*told, "end"]


def test_pytest_has_the_runner_that_is_asked_for(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.get_plugin("runner").runtestprotocol
