"""The plug-in for pytest: fixtures that run a test on every backend, markers for GPUs, checks of every test.

A project loads it by name. As an entry point it would slow down every run of pytest in the environment: pytest looks at
each file of a package that has one. This module imports nothing but pytest: the rest is imported by the first test or
option that needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

    from xferlib import Device
    from xferlib.backends.base import Backend
    from xferlib.sim import check

MARKERS = {
    "gpu": "gpu: skip the test unless a backend of xferlib can use a GPU; with xl_backend it runs on those backends",
    "multi_gpu": "multi_gpu(n=2): as gpu, for tests that need n GPUs",
}
"""As ``pytest --markers`` shows them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("xferlib")
    group.addoption(
        "--xferlib-backend",
        metavar="NAME[,NAME]",
        help="backends on which xl_backend and xp run a test; default: every one that can run here. With a device, "
        "such as sim:1, xl_device is that one",
    )
    group.addoption(
        "--xferlib-sim-strict",
        action="store_true",
        help="check every test on sim by itself, whether or not it uses a fixture",
    )
    group.addoption(
        "--pretend",
        metavar="LIBRARY",
        help="run tests that import cupy or pycuda on the simulated device: --pretend=cupy",
    )
    group.addoption(
        "--xferlib-cuda-sync",
        action="store_true",
        help="synchronise CUDA after every test, so that an asynchronous error fails the test that caused it",
    )


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Pretend before a conftest.py imports the library."""
    if library := early_config.known_args_namespace.pretend:
        from xferlib import _pretend as pretend
        from xferlib.errors import ArgumentError

        try:
            pretend.install(*library.split(","))
        except ArgumentError as error:
            raise pytest.UsageError(f"--{error}") from None


def pytest_configure(config: pytest.Config) -> None:
    for line in MARKERS.values():
        config.addinivalue_line("markers", line)
    option = config.getoption
    is_checked = option("xferlib_sim_strict") or option("pretend")
    if option("xferlib_backend") or is_checked or option("xferlib_cuda_sync"):
        from xferlib.testing import plugin_checks as checks

        if option("xferlib_backend"):
            checks.check_chosen_backends(config)
        if is_checked:
            config.pluginmanager.register(checks.SimStrict(), "xferlib-sim-strict")
        if option("xferlib_cuda_sync"):
            config.pluginmanager.register(checks.CudaSync(), "xferlib-cuda-sync")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "xl_backend" in metafunc.fixturenames:
        from xferlib.testing import plugin_checks as checks

        checks.parametrize(metafunc)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if any(True for name in MARKERS for _ in item.iter_markers(name)):
        from xferlib.testing import plugin_checks as checks

        checks.skip_without_gpu(item, MARKERS)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> None:
    """Let the traceback of an error of xferlib's, such as a race on the simulator, end at the program's line."""
    found = call.excinfo
    is_own = found is not None and f"{type(found.value).__module__}.".startswith(("xferlib.sim.", "xferlib.errors."))
    if found is not None and is_own and call.when == "call":
        from xferlib.testing import plugin_checks as checks

        if not item.config.getoption("fulltrace"):
            checks.end_at_program(found.value.__traceback__)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    import sys

    if (checks := sys.modules.get(f"{__name__}_checks")) is not None:
        checks.summarize(terminalreporter, config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of pytest-xdist says of its backends."""
    if said := getattr(node, "workeroutput", {}).get("xferlib"):
        from xferlib.testing import plugin_checks as checks

        node.config.stash[checks.ABSENT] = dict(said)


def pytest_sessionfinish(session: pytest.Session) -> None:
    import sys

    checks = sys.modules.get(f"{__name__}_checks")
    if checks is not None and hasattr(session.config, "workeroutput"):
        session.config.workeroutput["xferlib"] = session.config.stash.get(checks.ABSENT, {})


@pytest.fixture
def xl_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Each backend that can run here in turn, as the default one; on ``sim`` a missing synchronisation fails the test.

    ``--xferlib-backend`` chooses others.
    """
    from xferlib.testing import plugin_checks as checks

    with checks.run_on_backend(request) as backend:
        yield backend


@pytest.fixture
def xl_device(request: pytest.FixtureRequest, xl_backend: Backend) -> Device:
    """A device of `xl_backend` for the test's data: of several not the current one.

    So a forgotten ``device=`` fails. ``--xferlib-backend=sim:1`` chooses another.
    """
    from xferlib.testing import plugin_checks as checks

    return checks.choose_device(request, xl_backend)


@pytest.fixture
def xp(xl_backend: Backend) -> ModuleType:
    """The Array-API namespace of `xl_backend`; a backend that has none skips the test."""
    from xferlib.testing import plugin_checks as checks

    return checks.namespace(xl_backend)


@pytest.fixture
def xferlib_sim() -> Iterator[check]:
    """The test runs on backend ``sim``; a missing synchronisation fails it at the line that lacks it.

    ``XFERLIB_SIM_SCHEDULE=random`` makes every run take another order; the seed is in the failure.
    """
    import xferlib
    from xferlib.testing import plugin_checks as checks

    with xferlib.use_backend("sim"), checks.check_test(strict=checks.is_strict()) as checked:
        yield checked
