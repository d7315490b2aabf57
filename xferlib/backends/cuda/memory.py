"""Memory that outlives its users: pinned on the host, and guarded on a device."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any

from cuda.bindings import driver

from xferlib._runtime import leak
from xferlib.backends.cuda import driver as calls
from xferlib.backends.cuda.errors import check
from xferlib.errors import PinnedMemoryError

if TYPE_CHECKING:
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream
    from xferlib.backends.cuda.devices import CudaDevices


class CudaPinned:
    """Page-locked host memory, valid for every device; freed when the object dies."""

    __slots__ = ("__weakref__", "nbytes", "pointer")

    def __init__(self, nbytes: int) -> None:
        result, pointer = driver.cuMemHostAlloc(nbytes, driver.CU_MEMHOSTALLOC_PORTABLE)
        if int(result) != calls.SUCCESS:
            raise PinnedMemoryError(
                f"page-locking {nbytes} bytes failed with {calls.error_name(int(result))}: release pinned arrays, call "
                "xferlib.pinned_pool().trim(), or set XFERLIB_PINNED_LIMIT below what the machine allows"
            )
        self.pointer = int(pointer)
        self.nbytes = nbytes
        weakref.finalize(self, _free_pinned, self.pointer, os.getpid()).atexit = False


def _free_pinned(pointer: int, pid: int) -> None:
    if os.getpid() == pid:  # a forked child must not touch the driver
        driver.cuMemFreeHost(pointer)


class PoolMemory:
    """Memory from one of CUDA's stream-ordered pools, given back in the order of the stream that it was allocated on.

    Args:
        pool: The pool's handle.
        nbytes: More than 0.
        stream: Of the pool's device, whose context is current.

    Raises:
        MemoryError: The device has too little memory.
    """

    __slots__ = ("_stream", "pointer")

    def __init__(self, pool: int, nbytes: int, stream: RawStream) -> None:
        pointer = ctypes.c_uint64()
        result = calls.pool_allocate(ctypes.addressof(pointer), nbytes, pool, stream.handle)
        if result == calls.OUT_OF_MEMORY:
            raise MemoryError(calls.error_name(result))
        check(result, f"allocating {nbytes} bytes on {stream.device}")
        self.pointer = pointer.value
        self._stream = stream

    def __del__(self, _free: Any = calls.pool_free) -> None:
        if not hasattr(self, "_stream"):  # there was too little memory
            return
        if self._stream.capture is not None:  # each launch of the graph would free it again
            self._stream.capture.postponed.append(_freed_later(self.pointer, self._stream))
        else:
            _free(self.pointer, self._stream.handle)


def _freed_later(pointer: int, stream: RawStream) -> PoolMemory:
    """The same memory as an object that gives it back when it dies."""
    memory = object.__new__(PoolMemory)
    memory.pointer, memory._stream = pointer, stream
    return memory


class GraphMemory:
    """Memory of a graph's own, which is in no pool; freed when the object dies.

    Args:
        nbytes: More than 0.
        device: Whose context is current.

    Raises:
        MemoryError: The device has too little memory.
    """

    __slots__ = ("_pid", "pointer")

    def __init__(self, nbytes: int, device: Device) -> None:
        pointer = ctypes.c_uint64()
        result = calls.memory_allocate(ctypes.addressof(pointer), nbytes)
        if result == calls.OUT_OF_MEMORY:
            raise MemoryError(calls.error_name(result))
        check(result, f"allocating {nbytes} bytes on {device}")
        self.pointer = pointer.value
        self._pid = os.getpid()

    def __del__(self, _free: Any = calls.memory_free, _getpid: Any = os.getpid) -> None:
        if getattr(self, "_pid", 0) == _getpid():  # a forked child must not touch the driver
            _free(self.pointer)


class Guard:
    """Owns an allocation that streams besides its own work on.

    A library's pool hands freed memory to the next allocation on the *allocation* stream. When the
    last array over this memory dies, that stream is made to wait for the others first.
    """

    __slots__ = ("allocation", "backend", "pid", "stream", "users")

    def __init__(self, backend: CudaDevices, allocation: Any, stream: RawStream) -> None:
        self.backend = backend
        self.allocation = allocation
        self.stream = stream
        self.users: dict[tuple[int, int], RawStream] = {}
        self.pid = os.getpid()

    def used_on(self, stream: RawStream) -> None:
        """Note that the memory must outlive the work enqueued so far on ``stream``."""
        self.users[stream.device.index, stream.handle] = stream

    def __del__(self) -> None:
        if not hasattr(self, "pid"):  # Ctrl-C struck while it was made
            return
        # A forked child must not free the parent's memory; at its end the process gives back all of it.
        if self.pid != os.getpid() or sys.is_finalizing():
            leak.keep(self.allocation)
            return
        try:
            self.backend.attach(self.stream.device)
            current = self.backend.stream_current(self.stream.device)
            captured = next((each for each in (current, self.stream, *self.users.values()) if each.capture), None)
            if captured is not None and captured.capture is not None:  # a wait would become part of the graph
                later = Guard(self.backend, self.allocation, self.stream)
                later.users |= self.users
                captured.capture.postponed.append(later)
                return
            self.used_on(current)
            own = (self.stream.device.index, self.stream.handle)
            for place, user in self.users.copy().items():
                if place != own:
                    self.backend.event_wait(self.stream, self.backend.event_record(user, timing=False))
            with self.backend.inside(self.stream.device):  # whose default stream frees it
                self.allocation = None
        except Exception:  # the interpreter or the context is going away, and the memory with it
            return
