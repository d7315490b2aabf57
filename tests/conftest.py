"""Fixtures for the tests: the plug-in backends that they bring along."""

from __future__ import annotations

import collections
import contextlib
import faulthandler
import gc
import importlib
import itertools
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Each program of each test would be handed to the compiler, which tests of the native engine do for themselves. Any
# test runs on that engine too: XFERLIB_CPU=native.
os.environ.setdefault("XFERLIB_CPU", "numpy")

# Arrays of the simulator are tested with all that they have; the portable mode has tests of its own.
os.environ.setdefault("XFERLIB_SIM_STRICT", "0")

# Workers share the cores. If each had a team of threads for matrix products, its threads would spend most of their time
# waiting, busily, for those that another worker keeps from running.
if "PYTEST_XDIST_WORKER" in os.environ:
    for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(_variable, "1")

import xferlib as xl
from tests.needed import ABSENT, among, need
from tests.pair import Left, Right
from xferlib.testing import configured, fresh_registry, load_backend, native
from xferlib.testing.tools import timing_events

# How fast examples are drawn says how busy the machine is, and nothing about the library.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples in each run find nothing new in the next: a third as many hold what is known.
settings.register_profile("repeatable", settings.get_profile("any-machine"), derandomize=True, max_examples=33)
settings.load_profile("any-machine")


TESTS = Path(__file__).parent
LISTED = (TESTS / "quick.txt").read_text(encoding="utf-8").split()
"""The arguments of pytest in `make quick`. `-m quick` chooses the same tests, after collecting all."""
_LEFT_OUT = "--deselect="
QUICK = [name for name in LISTED if not name.startswith(_LEFT_OUT)]
"""Files, and classes of files."""
TOO_SLOW = tuple(name.removeprefix(_LEFT_OUT) for name in LISTED if name.startswith(_LEFT_OUT))
"""The tests of those that take seconds each; as for pytest, these are beginnings of their names."""


GC_THRESHOLD = 10_000
"""Objects between two collections, which cost 4 % of the suite by the 700 of Python 3.11. A test of what a collection
does asks for one."""

FEW_EVENTS = 64
"""Events that a recording makes at first on the fake device, where 2,048 take a tenth of a second; others follow."""

FEWEST = 5
"""Examples that a test draws under any profile, if it names as many."""

HANG_S = 120
"""After as many seconds of one test it is told where every thread stands."""


class HangWatch:
    """Tell of a test that hangs, as pytest's `faulthandler_timeout`, which starts and ends a thread for each test.

    Here one thread serves all tests that begin within a second: of each short test that takes a third off.
    """

    def __init__(self) -> None:
        self._stderr = os.dup(2)  # what a test writes to it is captured
        self._begun = -math.inf

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        now = time.monotonic()
        if now - self._begun > 1:
            self._begun = now
            faulthandler.dump_traceback_later(HANG_S, file=self._stderr)

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        os.close(self._stderr)


class ShortReports:
    """Report of a test that passes its call and its end alone: six messages of a worker cost more than a short test."""

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        runner: Any = item.config.pluginmanager.get_plugin("runner")
        reports = runner.runtestprotocol(item, nextitem=nextitem, log=False)
        has_failed = any(report.failed for report in reports)  # then also what was captured behind it is shown
        for report in reports:
            if has_failed or report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(HangWatch())
    needs_all = config.getoption("durations") is not None or config.getoption("xmlpath", None)
    if hasattr(config, "workerinput") and not needs_all:
        config.pluginmanager.register(ShortReports())
    gc.set_threshold(GC_THRESHOLD)


def pytest_collection(session: pytest.Session) -> None:
    """Import a worker's share of the files of a whole run: whose asserts one has rewritten, all others read.

    That takes 8 s in a new clone, and all workers would come to each file at the same time.
    """
    config: Any = session.config
    if not hasattr(config, "workerinput") or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    number, count = int(config.workerinput["workerid"].removeprefix("gw")), config.workerinput["workercount"]
    for path in sorted(TESTS.rglob("test_*.py"))[number::count]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # collecting it tells
            importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _scale_examples(items)
    quick = frozenset(QUICK)
    for item in items:
        is_listed = quick.intersection(itertools.accumulate(item.nodeid.split("::"), "{}::{}".format))
        if is_listed and not item.nodeid.startswith(TOO_SLOW):
            item.add_marker(pytest.mark.quick)


def _scale_examples(items: list[pytest.Item]) -> None:
    """Give tests that name their own number of examples the share of it that the profile has of Hypothesis's 100."""
    share = settings.default.max_examples / 100
    functions = {getattr(found, "__func__", found) for item in items if (found := getattr(item, "obj", None))}
    for function in functions if share < 1 else ():
        own = getattr(function, "_hypothesis_internal_use_settings", None)
        if own is not None and own.max_examples != settings.default.max_examples:
            count = max(math.ceil(own.max_examples * share), min(own.max_examples, FEWEST))
            function._hypothesis_internal_use_settings = settings(own, max_examples=count)


def pytest_collection_finish() -> None:
    _freeze()


@pytest.fixture(scope="module", autouse=True)
def _frozen_behind_a_module() -> Iterator[None]:
    yield
    _freeze()


def _freeze() -> None:
    """Let later collections pass over all that lives now: kernels, libraries and caches, which only grow in a run.

    Many tests collect garbage, and would look through all of it each time: a second each, late in a run.
    """
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say why tests were skipped, each reason once: a machine without CUDA skips hundreds for the same few."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [str(each.longrepr[2] if isinstance(each.longrepr, tuple) else each.longrepr) for each in skipped]
    counted = collections.Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    for reason, count in counted.most_common():
        terminalreporter.write_line(f"{count:5} skipped: {reason}")
    parts = native()
    for why in {*filter(None, (parts.why_no_staging, parts.why_no_calls))}:
        terminalreporter.write_line(f"Python has done what C does: {why}")
    if ABSENT:
        terminalreporter.write_line(f"without tests that run on every library: {', '.join(ABSENT)}: not installed")


PLUGIN_DIR = TESTS / "plugin"


@pytest.fixture(scope="module")
def plugins() -> Iterator[Path]:
    """Backends `fake`, `tiny` and `broken`, discovered by their entry points for one test module."""
    sys.path.insert(0, str(PLUGIN_DIR))
    try:
        with fresh_registry():
            yield PLUGIN_DIR
    finally:
        sys.path.remove(str(PLUGIN_DIR))


@pytest.fixture
def fake(plugins: Path) -> Iterator[Any]:
    """The fake accelerator; the test fails if anything was done that a GPU would not forgive."""
    backend: Any = load_backend("fake")
    with timing_events(FEW_EVENTS):
        yield backend
    refuse_violations(backend.machine)


@pytest.fixture
def pair() -> Iterator[None]:
    """The backends `left` and `right`, two libraries on the devices of one fake machine."""
    with fresh_registry(left=Left, right=Right):
        left: Any = load_backend("left")
        yield
        refuse_violations(left.machine)


def refuse_violations(machine: Any) -> None:
    machine.finish()
    violations, machine.violations = machine.violations, []
    assert not violations, violations


@pytest.fixture(params=among("numpy", "torch", "fake", "sim", "cupy", "pycuda"))
def backend(request: pytest.FixtureRequest, plugins: object) -> Iterator[str]:
    """Each backend in turn as the default, where it is available."""
    name: str = request.param
    need(name)
    with xl.use_backend(name):
        yield name
    if name == "fake":
        made: Any = load_backend(name)
        refuse_violations(made.machine)


@pytest.fixture
def compiled_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use the compiled parts, even if XFERLIB_NATIVE=off."""
    monkeypatch.setenv("XFERLIB_NATIVE", "on")  # for programs that a test starts
    with configured(native="on"):
        yield
