"""The driver calls of the hot paths.

On an H200's host `cuEventRecord` takes 1.55 us by `xferlib._native` and 2.00 by the generated bindings,
`cuStreamQuery` 1.69 and 2.11, most of it in the driver itself. With a driver that does nothing, ctypes, the way where
nothing is compiled, takes 0.77 us and the bindings 0.22.

Every call releases the GIL, except those that read what belongs to the calling thread or is constant: the driver
blocks wherever a stream's queue is full, and a query blocks on a lock that another thread, blocked so, holds inside the
driver. If the device waits for a host function that needs the GIL, a thread that keeps the GIL in such a call waits for
ever.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import Any

from xferlib import _native

_NAME = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

SUCCESS = 0
INVALID_VALUE = 1
OUT_OF_MEMORY = 2
NOT_READY = 600
PEER_ACCESS_ALREADY_ENABLED = 704

_PTR = ctypes.c_void_p

try:
    _driver = ctypes.CDLL(_NAME)
except OSError as error:
    raise ImportError(
        f"the CUDA driver library {_NAME} is not to be found ({error}); install the NVIDIA driver"
    ) from error


def _address(name: str) -> int:
    """The address of a function of the driver."""
    try:
        return ctypes.cast(_driver[name], _PTR).value or 0
    except AttributeError:
        raise ImportError(f"the CUDA driver has no {name}; update the NVIDIA driver") from None


def _find(name: str) -> int:
    """The address of a function that drivers of CUDA 12 do not have; 0 if it is absent."""
    return ctypes.cast(getattr(_driver, name), _PTR).value or 0 if hasattr(_driver, name) else 0


def _bind(name: str, count: int) -> Any:
    """A function of the driver; the GIL is released while it runs."""
    return _native.bind(_address(name), count, keeps_lock=False)


copy = _bind("cuMemcpyAsync", 4)
copy_to_device = _bind("cuMemcpyHtoD_v2", 3)
copy_to_host = _bind("cuMemcpyDtoH_v2", 3)
_event_create = _bind("cuEventCreate", 2)
event_destroy = _bind("cuEventDestroy_v2", 1)
event_record = _bind("cuEventRecord", 2)
event_query = _bind("cuEventQuery", 1)
event_synchronize = _bind("cuEventSynchronize", 1)
launch_host_function = _bind("cuLaunchHostFunc", 3)
stream_wait_event = _bind("cuStreamWaitEvent", 3)
stream_query = _bind("cuStreamQuery", 1)
stream_synchronize = _bind("cuStreamSynchronize", 1)
stream_is_recorded = _bind("cuStreamIsCapturing", 2)
context_use = _bind("cuCtxSetCurrent", 1)
context_synchronize = _bind("cuCtxSynchronize", 0)
set_bytes = _bind("cuMemsetD8Async", 4)
launch_kernel = _bind("cuLaunchKernelEx", 4)
pool_allocate = _bind("cuMemAllocFromPoolAsync", 4)
pool_free = _bind("cuMemFreeAsync", 2)
capture_begin = _bind("cuStreamBeginCapture_v2", 2)
capture_end = _bind("cuStreamEndCapture", 2)
graph_instantiate = _bind("cuGraphInstantiateWithFlags", 3)
graph_nodes = _bind("cuGraphGetNodes", 3)
graph_launch = _bind("cuGraphLaunch", 2)
graph_destroy = _bind("cuGraphDestroy", 1)
graph_exec_destroy = _bind("cuGraphExecDestroy", 1)
memory_allocate = _bind("cuMemAlloc_v2", 2)
memory_free = _bind("cuMemFree_v2", 1)
_elapsed = _bind("cuEventElapsedTime", 3)
_pointer_attribute = _bind("cuPointerGetAttribute", 3)

context_current = _native.bind_question(_address("cuCtxGetCurrent"))
"""The address of this thread's current context; 0 if there is none. Keeps the GIL: it reads thread-local memory."""
_error_name = _native.bind(_address("cuGetErrorName"), 2, keeps_lock=True)

copy_behind = _native.bind_copy_behind(
    _address("cuEventRecord"),
    _address("cuStreamWaitEvent"),
    _address("cuMemcpyAsync"),
    _address("cuCtxGetCurrent"),
    _address("cuCtxSetCurrent"),
)
"""A copy that only enqueues, behind another stream's work, with an event after it; None: not compiled."""
copy_each = _native.bind_copy_each(_address("cuMemcpyAsync"))
"""Many copies that only enqueue; None: not compiled."""

DIRECT = {
    "send": _address("cuMemcpyHtoD_v2"),
    "fetch": _address("cuMemcpyDtoH_v2"),
    "enqueue": _address("cuMemcpyHtoDAsync_v2"),
    "fetch_later": _address("cuMemcpyDtoHAsync_v2"),
    "current": _address("cuCtxGetCurrent"),
    "query": _address("cuStreamQuery"),
    "attribute": _address("cuPointerGetAttribute"),
    "launch": _address("cuLaunchKernel"),
    "wait": _address("cuStreamSynchronize"),
    "is_captured": _address("cuStreamIsCapturing"),
    "batch": _find("cuMemcpyBatchAsync_v2"),
}
"""For `replay.c`."""
bind_launch = functools.partial(_native.bind_launch, _address("cuLaunchKernelEx"))
"""A checked launch that is repeated in one step; returns None where that is not compiled."""
bind_new_launch = functools.partial(_native.bind_new_launch, _address("cuLaunchKernelEx"))
"""A whole call, which makes its outputs, in one step."""
bind_owner = functools.partial(_native.bind_owner, _address("cuEventRecord"), _address("cuStreamWaitEvent"))
"""The owners of memory that streams share."""

STAGING = {
    "copy": _address("cuMemcpyAsync"),
    "record": _address("cuEventRecord"),
    "wait": _address("cuEventSynchronize"),
    "query": _address("cuEventQuery"),
    "order": _address("cuStreamWaitEvent"),
    "enter": _address("cuCtxSetCurrent"),
}
"""For `staging.c`."""

BLOCKING_SYNC = 1
CAPTURE_RELAXED = 2
_DISABLE_TIMING = 2
INTERPROCESS = 4
_MEMORY_TYPE = 2
_MEMORY_TYPE_HOST = 1


def is_host_memory(pointer: int) -> bool:
    """Whether CUDA knows the address as page-locked host memory."""
    kind = ctypes.c_uint(0)
    result = _pointer_attribute(ctypes.addressof(kind), _MEMORY_TYPE, pointer)
    return bool(result == SUCCESS and kind.value == _MEMORY_TYPE_HOST)


_DEVICE_ORDINAL = 9


def device_of_memory(pointer: int) -> int | None:
    """The number of the device that holds an address; None for the host's memory and for what CUDA does not know."""
    ordinal = ctypes.c_int(-1)
    result = _pointer_attribute(ctypes.addressof(ordinal), _DEVICE_ORDINAL, pointer)
    return ordinal.value if result == SUCCESS and not is_host_memory(pointer) and ordinal.value >= 0 else None


def error_name(result: int) -> str:
    """The driver's name for a result code."""
    name = ctypes.c_char_p()
    is_known = _error_name(result, ctypes.addressof(name)) == SUCCESS
    return name.value.decode() if is_known and name.value else str(result)


def create_event(*, timing: bool, flags: int = 0) -> tuple[int, int]:
    """Result code and handle of a new event of the current context; ``flags``: `BLOCKING_SYNC`, `INTERPROCESS`."""
    handle = ctypes.c_uint64()
    result = _event_create(ctypes.addressof(handle), flags | (0 if timing else _DISABLE_TIMING))
    return result, handle.value


class CudaEvent:
    """Owns a CUDA event; when the object dies it is destroyed or recycled.

    Args:
        handle: Of the event.
        timing: Whether times can be told from it.
        idle: Where handles of the context wait for their next use. Recording an event anew does not
            change what earlier waits wait for (CUDA driver API, "cuEventRecord").
    """

    __slots__ = ("_idle", "handle", "pid", "timing")

    def __init__(self, handle: int, *, timing: bool = False, idle: list[int] | None = None) -> None:
        self._idle = idle
        self.timing = timing
        self.pid = os.getpid()
        self.handle = handle

    def __del__(self, _destroy: Any = event_destroy, _getpid: Any = os.getpid) -> None:
        if not getattr(self, "handle", 0) or self.pid != _getpid():  # a forked child must not touch the driver
            return
        if self._idle is not None:
            self._idle.append(self.handle)
        else:
            _destroy(self.handle)


def event_elapsed_ms(start: CudaEvent, end: CudaEvent) -> tuple[int, float]:
    """Result code and milliseconds between two complete events."""
    milliseconds = ctypes.c_float()
    return _elapsed(ctypes.addressof(milliseconds), start.handle, end.handle), milliseconds.value
