"""Checks of every test of a run, which options turn on."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import TracebackType

import pytest

from xferlib import sim
from xferlib._core import registry
from xferlib._native import cuda_driver
from xferlib._runtime.callsite import is_own
from xferlib.errors import DeviceLostError, XferError
from xferlib.testing.plugin.broken import BROKEN_BY


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
def checked(*, guard: bool = False) -> Iterator[sim.check]:
    """Check the test in the block; a fault found behind the last line of the test fails it without a traceback."""
    try:
        with sim.check(guard=guard) as block:
            yield block
    except sim.SimError as error:  # at the end of the block: pytest raises nothing into a fixture
        said = "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
        raise pytest.fail.Exception(said, pytrace=False) from None


class SimStrict:
    """``--xferlib-sim-strict``: each test is a block of the race detector, which guards pages where Linux can."""

    @pytest.fixture(autouse=True)
    def _xferlib_sim_strict(self) -> Iterator[None]:
        with checked(guard=sys.platform == "linux" and sys.maxsize > 1 << 32):
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
        """The same for work of fixtures after the test."""
        result = yield
        if (found := _synchronize(item)) is not None:
            raise found
        return result


def _synchronize(item: pytest.Item) -> XferError | None:
    """Wait for all CUDA devices that this process uses; the first error, if there is one."""
    if BROKEN_BY in item.config.stash:
        return None
    done: set[tuple[str, int]] = set()
    for backend in registry.loaded():
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
