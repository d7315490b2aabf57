"""Python functions that the driver calls in the order of a stream."""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable

from xferlib._runtime import shutdown
from xferlib._runtime.fork import reset_in_child
from xferlib.backends.cuda import driver as calls

_LONGEST_S = 10.0
_LOOK_S = 0.001

_waiting: dict[int, Callable[[], None]] = {}
"""By number, until they have returned."""
_numbers = itertools.count(1)
reset_in_child(_waiting.clear)


def _run(number: int) -> None:
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


@shutdown.register
def _await_all() -> None:
    """Wait for the functions on their way, for a bounded time: the driver cannot call into Python that has ended."""
    start_s = time.monotonic()
    while _waiting and time.monotonic() - start_s < _LONGEST_S:
        time.sleep(_LOOK_S)
