"""Python functions that the driver calls in the order of a stream."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
import time
from collections.abc import Callable, Iterator

from xferlib._runtime import shutdown
from xferlib._runtime.fork import reset_in_child
from xferlib.backends.cuda import driver as calls

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
        self.last: calls.CudaEvent | None = None
        """After the last launch of the graph."""

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def launched(self, event: calls.CudaEvent) -> None:
        """The functions run until ``event`` completes, and the interpreter must not end before."""
        self.last = event
        _launched[id(self)] = self

    def is_done(self) -> bool:
        """Whether no launch is on its way; what the driver cannot tell any more is over."""
        return self.last is None or calls.event_query(self.last.handle) != calls.NOT_READY

    def __del__(self) -> None:
        for number in self._numbers:
            _captured.pop(number, None)


@contextlib.contextmanager
def kept_in(numbers: list[int]) -> Iterator[None]:
    """Keep the functions that this thread enqueues meanwhile, and add their numbers to the list."""
    _local.numbers = numbers
    try:
        yield
    finally:
        _local.numbers = None


def sweep() -> None:
    """Forget the graphs that have done their work, so that they may die."""
    if _launched:
        _are_launched()


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
    result: int = calls.launch_host_function(handle, _ADDRESS, number)
    if result:
        del _waiting[number]
    return result


def enqueue_captured(handle: int, function: Callable[[], None]) -> int:
    """The same on a stream that this thread captures: the driver calls it at each launch of the graph."""
    number = next(_numbers)
    _captured[number] = function
    _local.numbers.append(number)
    result: int = calls.launch_host_function(handle, _ADDRESS, number)
    return result


@shutdown.register
def _await_all() -> None:
    """Wait for the functions on their way, for a bounded time: the driver cannot call into Python that has ended."""
    start_s = time.monotonic()
    while (_waiting or _are_launched()) and time.monotonic() - start_s < _LONGEST_S:
        time.sleep(_LOOK_S)


def _are_launched() -> bool:
    """Whether a graph is on its way that calls functions."""
    for number, each in tuple(_launched.items()):
        if each.is_done():
            _launched.pop(number, None)
            if not each.is_done():  # another thread has launched it meanwhile
                _launched[number] = each
    return bool(_launched)
