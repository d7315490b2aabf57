"""The checks that the plug-in makes around each test, and the backends on which a test runs."""

from __future__ import annotations

import collections
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pytest

import xferlib as xl
from xferlib import sim
from xferlib._core import registry
from xferlib._native import cuda_driver
from xferlib._runtime import process
from xferlib._runtime.checks import is_own
from xferlib.errors import DeviceLostError, XferError, did_you_mean
from xferlib.sim.machine import CAN_GUARD

if TYPE_CHECKING:
    from types import ModuleType

    from xferlib import BackendStatus, Device
    from xferlib.backends.base import Backend


# Where one test notes for the others that CUDA can no longer be used in this process.

BROKEN_BY = pytest.StashKey[str]()
"""The test after which it cannot."""


# Checks of every test of a run, which options turn on.


def end_at_program(traceback: TracebackType | None) -> None:
    """Cut off the lines of xferlib at the end of a traceback, so that it shows and debuggers begin at the program's."""
    last = None
    while traceback is not None:
        if not is_own(traceback.tb_frame.f_code.co_filename):
            last = traceback
        traceback = traceback.tb_next
    if last is not None:
        last.tb_next = None


@contextmanager
def check_test(*, strict: bool | None = None) -> Iterator[sim.check]:
    """Check the test in the block, with pages guarded where they can be.

    A fault that is found behind the last line of the test fails it without a traceback.
    """
    try:
        with sim.check(guard=CAN_GUARD, strict=strict) as block:
            yield block
    except sim.SimError as error:  # at the end of the block: pytest raises nothing into a fixture
        said = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
        raise pytest.fail.Exception(said, pytrace=False) from None


def is_strict() -> bool:
    """Whether a test that uses a fixture is refused what is not the same on all backends."""
    return process.get().sim_strict != "0"


class SimStrict:
    """``--xferlib-sim-strict``, ``--pretend``: a block of the race detector for each test, with or without fixtures."""

    @pytest.fixture(autouse=True)
    def _xferlib_sim_strict(self) -> Iterator[None]:
        with check_test():
            yield


class CudaSync:
    """``--xferlib-cuda-sync``: waits for CUDA after each test, and reports what has failed there."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Fail the test itself with an error that its work left behind."""
        try:
            result = yield
        except Exception as error:
            if (found := _synchronize(item)) is not None:
                error.add_note(f"after it, {found}")
            raise
        if (found := _synchronize(item)) is not None:
            raise found
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        """Check work of fixtures after the test, too."""
        result = yield
        if (found := _synchronize(item)) is not None:
            raise found
        return result


def _synchronize(item: pytest.Item) -> XferError | None:
    """Wait for all CUDA devices that this process uses; the first error, if there is one."""
    if BROKEN_BY in item.config.stash:
        return None
    done: set[tuple[str, int]] = set()
    for backend in registry.list_loaded():
        for device in backend.devices():
            key = (backend.pinned_domain, device.index)
            if device.kind != "cuda" or key in done or not _is_used(*key):
                continue
            done.add(key)
            try:
                device.synchronize()
            except XferError as error:
                if isinstance(error, DeviceLostError):
                    item.config.stash[BROKEN_BY] = item.nodeid
                error.add_note(f"found by --xferlib-cuda-sync after {item.nodeid}, whose work it was")
                return error
    return None


def _is_used(domain: str, index: int) -> bool:
    """Whether there is anything to wait for: to ask a device of CUDA for it would make a context, of some 100 MB."""
    active = cuda_driver.active_devices() if domain == "cuda" else None
    return active is None or index in active


ABSENT = pytest.StashKey[dict[str, str]]()
"""The backends that tests could not run on, and why."""
_WITHOUT_GPU = "xferlib: needs "
_PROPERTY = "xferlib_backend"


def check_chosen_backends(config: pytest.Config) -> None:
    """Refuse a backend of ``--xferlib-backend`` that does not exist or cannot run: a test must not silently not run."""
    for name, device in _list_chosen(config).items():
        if name not in registry.names():
            raise pytest.UsageError(
                f"--xferlib-backend: there is no backend {name!r}{did_you_mean(name, registry.names())}; the "
                f"registered ones are {', '.join(registry.names())}"
            )
        status = registry.status(name)
        if not status.is_available:
            raise pytest.UsageError(
                f"--xferlib-backend: {name} cannot run here: {status.reason}; install it with {status.install}"
            )
        try:
            if device != name:
                xl.get_device(device)
        except XferError as error:
            raise pytest.UsageError(f"--xferlib-backend: {error}") from None


def _list_chosen(config: pytest.Config) -> dict[str, str]:
    """The backends of the option, each with what was given for it: its name, or a device of it."""
    given = config.getoption("xferlib_backend") or ""
    return {part.partition(":")[0]: part for part in (each.strip() for each in given.split(",")) if part}


def _statuses(config: pytest.Config) -> list[BackendStatus]:
    """The backends that tests run on: those of the option, or all that can run."""
    if named := _list_chosen(config):
        return [registry.status(name) for name in named]
    return _every(config)


def _every(config: pytest.Config) -> list[BackendStatus]:
    """All backends that can run, those for any machine first; the others are noted with their reasons."""
    every = xl.available_backends().values()
    absent = {each.name: f"{each.reason} ({each.install})" for each in every if not each.is_available}
    config.stash.setdefault(ABSENT, {}).update(absent)
    usable = (each for each in every if each.is_available)
    return sorted(usable, key=lambda each: ("numpy", "sim", each.name).index(each.name))


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Run the test on each backend; on those with enough GPUs where it is marked so."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        if "xl_backend" in (names.split(",") if isinstance(names, str) else names):
            return  # the test says itself on which
    statuses, count = _statuses(metafunc.config), _count_needed_gpus(metafunc.definition)
    values: list[Any] = [each.name for each in statuses if _gpu_count(each) >= count]
    if not values:
        values = [pytest.param(None, id="gpu", marks=pytest.mark.skip(reason=_reason(count, statuses)))]
    metafunc.parametrize("xl_backend", values, indirect=True)


def choose_device(request: pytest.FixtureRequest, backend: Backend) -> Device:
    """The device for a test's data: that of the option or, of several, one that is not the current one."""
    given = _list_chosen(request.config).get(backend.name, "")
    if ":" in given:
        return xl.get_device(given)
    current = xl.get_device()
    others = [each for each in backend.devices() if each.kind == current.kind and each != current]
    return others[-1] if others else current


@contextmanager
def run_on_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """Make the test's backend the default one, and check the test where the backend is ``sim``."""
    name = getattr(request, "param", None)
    if name is None:
        name = xl.get_backend().name
    try:
        chosen = xl.use_backend(name)
    except xl.errors.BackendUnavailableError as error:
        pytest.skip(str(error))
    with chosen as backend:
        if any(device.kind == "cuda" for device in backend.devices()):
            refuse_broken(request.config)
        request.node.user_properties.append((_PROPERTY, str(xl.get_device())))
        with check_test(strict=is_strict()) if name == "sim" else check_kernels():
            yield backend


@contextmanager
def check_kernels() -> Iterator[None]:
    """Check CUDA source that a CPU runs, unless a setting says otherwise.

    Unchecked, an index beyond an array spoils memory of the process, and pytest may end by a signal in a later test.
    """
    if process.get().kernel_check != "auto":
        yield
        return
    xl.configure(kernel_check="1")
    try:
        yield
    finally:
        xl.configure(kernel_check="auto")


def namespace(backend: Backend) -> ModuleType:
    """The namespace of a test's backend."""
    try:
        return backend.namespace()
    except xl.errors.UnsupportedError as error:
        raise pytest.skip.Exception(f"xferlib: {error}") from None


# --- GPUs


def _count_needed_gpus(item: Any) -> int:
    """The number of GPUs that the markers of a test ask for."""
    counts = [0]
    counts += [1 for _ in item.iter_markers("gpu")]
    counts += [mark.args[0] if mark.args else mark.kwargs.get("n", 2) for mark in item.iter_markers("multi_gpu")]
    return max(counts)


def _gpu_count(status: BackendStatus) -> int:
    return sum(":cuda:" in device for device in status.devices)


def _reason(count: int, statuses: list[BackendStatus]) -> str:
    """Why no backend will do, with what each of them has."""
    needed = "a GPU" if count == 1 else f"{count} GPUs"
    seen = (f"{each.name} has {_gpu_count(each)}" for each in statuses if each.name not in ("numpy", "sim"))
    return f"{_WITHOUT_GPU}{needed}, and {', '.join(seen) or 'no backend for GPUs can run here'}"


def skip_without_gpu(item: pytest.Item, markers: Mapping[str, str]) -> None:
    """Skip a marked test where there are too few GPUs, unless the markers are the project's own."""
    is_ours = "xl_backend" in getattr(item, "fixturenames", ())
    if not is_ours and any(_declares(line, markers) for line in item.config.getini("markers")):
        return
    count = _count_needed_gpus(item)
    statuses = _every(item.config)
    if not any(_gpu_count(each) >= count for each in statuses):
        pytest.skip(_reason(count, statuses))
    refuse_broken(item.config)


def _declares(line: str, markers: Mapping[str, str]) -> bool:
    """Whether a line of the setting ``markers`` declares a marker of the plug-in's names, and is not the plug-in's."""
    name = line.partition(":")[0].partition("(")[0].strip()
    return name in markers and line not in markers.values()


def refuse_broken(config: pytest.Config) -> None:
    """Skip a test for CUDA after an error of another one that broke the process's CUDA context."""
    if (broken_by := config.stash.get(BROKEN_BY, None)) is not None:
        pytest.skip(f"xferlib: CUDA can no longer be used in this process, since {broken_by} broke its context")


# --- the summary


def summarize(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how many tests ran on which device, and each reason for not running once."""
    ran: collections.Counter[str] = collections.Counter()
    skipped: collections.Counter[str] = collections.Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                ran.update(device for name, device in report.user_properties if name == _PROPERTY)
    for report in terminalreporter.stats.get("skipped", []):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if (reason := reason.removeprefix("Skipped: ")).startswith("xferlib: "):
            skipped[reason.removeprefix("xferlib: ")] += 1
    if not ran and not skipped:
        return
    terminalreporter.write_sep("-", "backends of xferlib")
    for device, count in ran.items():
        terminalreporter.write_line(f"{count:5} on {device}")
    for reason, count in skipped.most_common():
        terminalreporter.write_line(f"{count:5} skipped: {reason}")
    for name, reason in config.stash.get(ABSENT, {}).items():
        terminalreporter.write_line(f"    - not on {name}: {reason}")
