"""The driver's errors as typed ones, contexts made current for a while, and Python functions that it calls."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from xferlib._core import streams
from xferlib._runtime import process
from xferlib._runtime.process import reset_in_child
from xferlib.backends.cuda import driver
from xferlib.errors import CaptureError, DeviceLostError, DeviceMemoryError, ForkError, TransferError

if TYPE_CHECKING:
    from xferlib._core.device import Device


# The typed errors for the driver's results.

# After these nothing more can run in the process (CUDA driver API, "CUresult").
_STICKY = frozenset({
    "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_HARDWARE_STACK_ERROR", "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE", "CUDA_ERROR_INVALID_PC", "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_ECC_UNCORRECTABLE", "CUDA_ERROR_NVLINK_UNCORRECTABLE", "CUDA_ERROR_CONTEXT_IS_DESTROYED",
})  # fmt: skip

_forked_from: int | None = None


def _mark_forked() -> None:
    global _forked_from
    _forked_from = os.getppid()


reset_in_child(_mark_forked)


def check(result: Any, doing: str) -> None:
    """Raise the typed error for a driver call that did not succeed."""
    if int(result) != driver.SUCCESS:
        raise failure(result, doing)


def failure(result: Any, doing: str) -> Exception:
    """The error for a driver result, as fact, value and remedy."""
    if _forked_from is not None:
        return ForkError(
            f"{doing} in process {os.getpid()}, forked from {_forked_from} after CUDA was initialised there; "
            "start workers with multiprocessing.get_context('spawn'), or fork first"
        )
    name = driver.error_name(int(result))
    if name in _STICKY:
        return DeviceLostError(
            f"{doing} failed with {name}: an earlier kernel or copy broke the CUDA context, and nothing more can run "
            "on the device in this process; restart it (compute-sanitizer finds the faulty access)"
        )
    if int(result) == driver.OUT_OF_MEMORY:
        return DeviceMemoryError(f"{doing} failed with {name}: free device arrays, or move less at a time")
    if name == "CUDA_ERROR_STREAM_CAPTURE_UNJOINED":
        return streams.make_unjoined_error(doing)
    if name.startswith("CUDA_ERROR_STREAM_CAPTURE"):
        return CaptureError(
            f"{doing} failed with {name}: a library has made a call that a capture does not allow; make it before the "
            "block, or leave it out"
        )
    return TransferError(f"{doing} failed with {name}; `xferlib info` shows the driver and the devices")


def refuse_fork(doing: str) -> None:
    """Raise where this process was forked from one that uses CUDA."""
    if _forked_from is not None:
        raise failure(0, doing)


def is_forked() -> bool:
    """Whether this process was forked from one that uses CUDA."""
    return _forked_from is not None


class Devices(Protocol):
    """A library's devices, one of which is current for each thread."""

    _devices: tuple[Device, ...]

    def device_current(self) -> Device: ...

    def device_use(self, device: Device) -> None: ...


class Inside:
    """Make a context current for the driver alone, for a few of its calls, and the one before it again afterwards.

    A default stream is the current context's, and memory of a device's pool can be reached from that device alone.

    Args:
        context: A primary context; 0: the process has one device, and nothing is to be done.
    """

    __slots__ = ("_before", "_context")

    def __init__(self, context: int) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._before = driver.context_current() if self._context else 0
        if self._before != self._context:
            driver.context_use(self._context)

    def __exit__(self, *exc_info: object) -> None:
        if self._before != self._context:
            driver.context_use(self._before)


HERE = Inside(0)
"""For a block that is inside already."""


class Current:
    """Make a device current for a block, and the one before it again afterwards."""

    __slots__ = ("_backend", "_before", "_device")

    def __init__(self, backend: Devices, device: Device) -> None:
        self._backend = backend
        self._device = device

    def __enter__(self) -> None:
        if len(self._backend._devices) == 1:
            self._before = None
            return
        if is_forked():
            refuse_fork(f"using {self._device}")
        before = self._backend.device_current()
        self._before = None if before is self._device else before
        if self._before is not None:
            self._backend.device_use(self._device)

    def __exit__(self, *exc_info: object) -> None:
        if self._before is not None:
            self._backend.device_use(self._before)


# Python functions that the driver calls in the order of a stream.

_LONGEST_S = 10.0
_LOOK_S = 0.001

_waiting: dict[int, Callable[[], None]] = {}
"""By number, until they have returned."""
_numbers = itertools.count(1)
reset_in_child(_waiting.clear)


_captured: dict[int, Callable[[], None]] = {}
"""By number, as long as their graphs exist."""
_local = threading.local()
reset_in_child(_captured.clear)


_launched: dict[int, Kept] = {}
"""The functions of graphs that have been launched, by identity, until they are found to be done."""
reset_in_child(_launched.clear)


class Kept:
    """Functions that a graph calls at each launch; forgotten when the object dies."""

    __slots__ = ("_numbers", "last")

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers
        self.last: driver.CudaEvent | None = None
        """After the last launch of the graph."""

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def note_launch(self, event: driver.CudaEvent) -> None:
        """The functions run until ``event`` completes, and the interpreter must not end before."""
        self.last = event
        _launched[id(self)] = self

    def is_done(self) -> bool:
        """Whether no launch is on its way; what the driver cannot tell any more is over."""
        return self.last is None or driver.event_query(self.last.handle) != driver.NOT_READY

    def __del__(self) -> None:
        for number in self._numbers:
            _captured.pop(number, None)


@contextlib.contextmanager
def keep_functions_in(numbers: list[int]) -> Iterator[None]:
    """Keep the functions that this thread enqueues meanwhile, and add their numbers to the list."""
    _local.numbers = numbers
    try:
        yield
    finally:
        _local.numbers = None


def sweep() -> None:
    """Forget the graphs that have done their work, so that they may die."""
    if _launched:
        _has_launched_graphs()


def _run(number: int) -> None:
    if (repeated := _captured.get(number)) is not None:
        repeated()
        return
    try:
        _waiting[number]()
    finally:
        del _waiting[number]


_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_run)
_ADDRESS = ctypes.cast(_CALLBACK, ctypes.c_void_p).value or 0


def enqueue(handle: int, function: Callable[[], None]) -> int:
    """Let the driver call ``function`` on a stream of the current context; returns the driver's result."""
    number = next(_numbers)
    _waiting[number] = function
    result: int = driver.launch_host_function(handle, _ADDRESS, number)
    if result:
        del _waiting[number]
    return result


def enqueue_captured(handle: int, function: Callable[[], None]) -> int:
    """Let the driver call ``function`` at each launch of the graph that this thread captures."""
    number = next(_numbers)
    _captured[number] = function
    _local.numbers.append(number)
    result: int = driver.launch_host_function(handle, _ADDRESS, number)
    return result


@process.register
def _await_all() -> None:
    """Wait for the functions on their way, for a bounded time: the driver cannot call into Python that has ended."""
    start_s = time.monotonic()
    while (_waiting or _has_launched_graphs()) and time.monotonic() - start_s < _LONGEST_S:
        time.sleep(_LOOK_S)


def _has_launched_graphs() -> bool:
    """Whether a graph is on its way that calls functions."""
    for number, each in tuple(_launched.items()):
        if each.is_done():
            _launched.pop(number, None)
            if not each.is_done():  # another thread has launched it meanwhile
                _launched[number] = each
    return bool(_launched)
