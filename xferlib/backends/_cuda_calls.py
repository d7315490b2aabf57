"""The driver calls of the hot paths, through ctypes.

The generated bindings cost 2 us a call and always release the GIL, which in a staging thread means
waiting for another thread to hand it back: 10 to 50 us on a virtual machine. Here a call costs
0.5 us, and the caller chooses: calls that only enqueue keep the GIL, calls that wait release it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Any

_NAME = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

SUCCESS = 0
INVALID_VALUE = 1
OUT_OF_MEMORY = 2
NOT_READY = 600

_U64 = ctypes.c_uint64
_SIZE = ctypes.c_size_t
_PTR = ctypes.c_void_p

try:
    _keep: Any = ctypes.PyDLL(_NAME)
    _release: Any = ctypes.CDLL(_NAME)
except OSError as error:
    raise ImportError(
        f"the CUDA driver library {_NAME} is not to be found ({error}); install the NVIDIA driver"
    ) from error


def _bind(library: Any, name: str, *types: Any) -> Any:
    prototype = ctypes.PYFUNCTYPE if library is _keep else ctypes.CFUNCTYPE
    return prototype(ctypes.c_int, *types)((name, library))


# These only enqueue or ask.
copy_keeping_gil = _bind(_keep, "cuMemcpyAsync", _U64, _U64, _SIZE, _PTR)
event_create = _bind(_keep, "cuEventCreate", _PTR, ctypes.c_uint)
event_destroy = _bind(_keep, "cuEventDestroy_v2", _PTR)
event_record = _bind(_keep, "cuEventRecord", _PTR, _PTR)
event_query = _bind(_keep, "cuEventQuery", _PTR)
stream_wait_event = _bind(_keep, "cuStreamWaitEvent", _PTR, _PTR, ctypes.c_uint)
stream_query = _bind(_keep, "cuStreamQuery", _PTR)
_pointer_attribute = _bind(_keep, "cuPointerGetAttribute", _PTR, ctypes.c_int, _U64)
_context_current = _bind(_keep, "cuCtxGetCurrent", _PTR)
_error_name = _bind(_keep, "cuGetErrorName", ctypes.c_int, _PTR)

# These may wait: for the device, or for room in a stream's queue.
copy = _bind(_release, "cuMemcpyAsync", _U64, _U64, _SIZE, _PTR)
copy_to_device = _bind(_release, "cuMemcpyHtoD_v2", _U64, _PTR, _SIZE)
copy_to_host = _bind(_release, "cuMemcpyDtoH_v2", _PTR, _U64, _SIZE)
event_synchronize = _bind(_release, "cuEventSynchronize", _PTR)
stream_synchronize = _bind(_release, "cuStreamSynchronize", _PTR)
context_synchronize = _bind(_release, "cuCtxSynchronize")
_set_context = _bind(_release, "cuCtxSetCurrent", _PTR)
_elapsed = _bind(_release, "cuEventElapsedTime", _PTR, _PTR, _PTR)


def _address(function: Any) -> int:
    """Where a C function lies."""
    return ctypes.cast(function, _PTR).value or 0


STAGING = (_address(copy), _address(event_record), _address(event_synchronize), _address(_set_context))
"""Copy, record, wait and enter, for `staging.c`."""

_DISABLE_TIMING = 2


class _Answer(threading.local):
    """Where the driver writes a pointer for the calling thread."""

    def __init__(self) -> None:
        self.pointer = _PTR()
        self.reference = ctypes.byref(self.pointer)


_answer = _Answer()


def context_current() -> int:
    """The address of this thread's current context; 0 if there is none."""
    answer = _answer
    if _context_current(answer.reference) != SUCCESS:
        return 0
    return answer.pointer.value or 0


_MEMORY_TYPE = 2
_MEMORY_TYPE_HOST = 1


def is_host_memory(pointer: int) -> bool:
    """Whether CUDA knows the address as page-locked host memory."""
    kind = ctypes.c_uint(0)
    result = _pointer_attribute(ctypes.byref(kind), _MEMORY_TYPE, pointer)
    return bool(result == SUCCESS and kind.value == _MEMORY_TYPE_HOST)


def error_name(result: int) -> str:
    """The driver's name for a result code."""
    name = ctypes.c_char_p()
    return name.value.decode() if _error_name(result, ctypes.byref(name)) == SUCCESS and name.value else str(result)


class CudaEvent:
    """A CUDA event of the current context, destroyed with the object."""

    __slots__ = ("handle", "pid", "timing")

    def __init__(self, *, timing: bool) -> None:
        handle = _PTR()
        result = event_create(ctypes.byref(handle), 0 if timing else _DISABLE_TIMING)
        if result != SUCCESS:
            raise RuntimeError(error_name(result))
        self.handle: int = handle.value or 0
        self.timing = timing
        self.pid = os.getpid()

    def __del__(self, _destroy: Any = event_destroy, _getpid: Any = os.getpid) -> None:
        if getattr(self, "handle", 0) and self.pid == _getpid():  # a forked child must not touch the driver
            _destroy(self.handle)


def elapsed_ms(start: CudaEvent, end: CudaEvent) -> tuple[int, float]:
    """Result code and milliseconds between two events that have passed."""
    milliseconds = ctypes.c_float()
    return _elapsed(ctypes.byref(milliseconds), start.handle, end.handle), milliseconds.value
