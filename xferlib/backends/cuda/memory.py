"""Memory of CUDA devices that outlives its users: page-locked on the host, and guarded on a device."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Protocol

from cuda.bindings import driver as bindings

from xferlib import _native
from xferlib._core.device import Device, RawStream, opened
from xferlib._runtime import process
from xferlib._runtime.threads import deferred
from xferlib.backends.cuda import driver
from xferlib.backends.cuda.contexts import Inside, check
from xferlib.errors import PinnedMemoryError


class MemoryOwner(Protocol):
    """The backend of device memory: a `CudaBackend`."""

    def attach(self, device: Device) -> None: ...

    def inside(self, device: Device) -> Inside: ...

    def is_inside(self, device: Device) -> bool: ...

    def stream_handle(self, device: Device) -> int: ...

    def default_stream(self, device: Device) -> RawStream: ...

    def is_lasting(self, stream: RawStream) -> bool: ...

    def is_behind(self, device: Device) -> Callable[[RawStream], bool]: ...

    def stream_current(self, device: Device) -> RawStream: ...

    def event_record(self, stream: RawStream, *, timing: bool) -> driver.CudaEvent: ...

    def event_wait(self, stream: RawStream, event: Any) -> None: ...


class CudaPinned:
    """Page-locked host memory, valid for every device; freed when the object dies."""

    __slots__ = ("__weakref__", "nbytes", "pointer")

    def __init__(self, nbytes: int) -> None:
        result, pointer = bindings.cuMemHostAlloc(nbytes, bindings.CU_MEMHOSTALLOC_PORTABLE)
        if int(result) != driver.SUCCESS:
            raise PinnedMemoryError(
                f"{nbytes} bytes of pinned memory cannot be allocated ({driver.error_name(int(result))}); free "
                "arrays, or work on parts; xferlib.pinned_pool().trim() returns what the pool keeps"
            )
        self.pointer = int(pointer)
        self.nbytes = nbytes
        weakref.finalize(self, _free_pinned, self.pointer, os.getpid()).atexit = False


def _free_pinned(pointer: int, pid: int) -> None:
    if os.getpid() == pid:  # a forked child must not touch the driver
        bindings.cuMemFreeHost(pointer)


class PoolMemory:
    """Memory from one of CUDA's stream-ordered pools, given back in the order of the stream that it was allocated on.

    Args:
        pointer: The address.
        stream: That stream, of the pool's device.
    """

    __slots__ = ("_stream", "pointer")

    def __init__(self, pointer: int, stream: RawStream) -> None:
        self.pointer = pointer
        self._stream = stream

    def __del__(self, _free: Any = driver.pool_free) -> None:
        if not hasattr(self, "_stream"):  # Ctrl-C struck while it was made
            return
        if self._stream.capture is not None:  # each launch of the graph would free it again
            self._stream.capture.postponed.append(PoolMemory(self.pointer, self._stream))
        else:
            _free(self.pointer, self._stream.handle)


_MOST_RECYCLED, _MOST_FINE = 1 << 20, 1 << 16
_STEPS = (1 << 9, 1 << 15)
"""To which sizes of recycled blocks are rounded up, below and above `_MOST_FINE`."""
_MOST_IDLE = 4
"""Blocks of one size, so that all of them together are at most 82 MiB."""


class DriverPool:
    """One of CUDA's stream-ordered pools, and small blocks that the stream they were made on may use again.

    The driver takes 2 us to give out memory, and as much to take it back: as long as a kernel on a small array.
    """

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self._kinds: dict[tuple[int, int], type[RecycledAddress]] = {}
        """By size, and the stream's handle."""

    def find_kind(self, backend: MemoryOwner, nbytes: int, stream: RawStream) -> type[RecycledAddress] | None:
        """The class of addresses of blocks of at least ``nbytes`` that are used again; None where they are not.

        Each size has one for each stream, whose attributes are then not each address's own. A stream that may be
        destroyed has none.
        """
        handle = stream.handle
        if nbytes > _MOST_RECYCLED or (handle and not backend.is_lasting(stream)):
            return None
        step = _STEPS[nbytes > _MOST_FINE]
        size = -(-nbytes // step) * step
        found = self._kinds.get((size, handle))
        if found is None:
            own = {
                "handle": handle, "device": stream.device, "idle": [], "_backend": backend, "_pid": os.getpid(),
                "allocate": partial(self.allocate, size, handle, stream.device),
                "is_behind": staticmethod(backend.is_behind(stream.device)),
            }  # fmt: skip
            if not handle:  # the object of another stream must be able to die, since others share its handle afterwards
                own["stream"] = stream
            found = self._kinds.setdefault((size, handle), type("RecycledAddress", (RecycledAddress,), own))
        return found

    def allocate(self, nbytes: int, handle: int, device: Device) -> int:
        """The address of new memory in the order of the stream of a handle.

        Raises:
            MemoryError: The device has too little.
        """
        answer = ctypes.c_uint64()  # of this call's own: a finalizer or a signal's handler may allocate within it
        address = ctypes.addressof(answer)
        result = driver.pool_allocate(address, nbytes, self.handle, handle)
        if result == driver.OUT_OF_MEMORY:
            self.trim()
            result = driver.pool_allocate(address, nbytes, self.handle, handle)
        if result == driver.OUT_OF_MEMORY:
            raise MemoryError(driver.error_name(result))
        if result:
            check(result, f"allocating {nbytes} bytes on {device}")
        return answer.value

    def trim(self) -> None:
        """Give idle blocks back; during a capture those of the default stream alone: a graph would free the others."""
        for kind in [*self._kinds.values()]:
            while kind.idle and not (kind.handle and opened):
                with contextlib.suppress(IndexError):  # another thread has taken it meanwhile
                    driver.pool_free(kind.idle.pop(), kind.handle)


class DeviceAddress(int):
    """The address of device memory, which is given back when the last array over it dies.

    A `Guard` does that where another stream than the memory's own has to be waited for. Most arrays die where they were
    made, after a few microseconds of work, and have none. PyCUDA's own operations run on the default stream, and are
    waited for in any case.
    """

    stream: RawStream | None = None
    """The one that the memory was allocated on; None: Ctrl-C struck before any work could use it."""
    device: Device
    _backend: MemoryOwner
    _guard: Guard | None = None
    _pid = 0
    """The id of the process, if this object gives the memory back."""

    @classmethod
    def from_pool(cls, backend: MemoryOwner, pool: DriverPool, nbytes: int, stream: RawStream) -> DeviceAddress:
        """Allocate more than 0 bytes on a stream of the pool's device, whose context is current.

        Raises:
            MemoryError: The device has too little.
        """
        kind = pool.find_kind(backend, nbytes, stream)
        if kind is not None:
            return kind.new_on(stream)
        self = cls(pool.allocate(nbytes, stream.handle, stream.device))
        self._backend, self.stream, self.device, self._pid = backend, stream, stream.device, os.getpid()
        return self

    @classmethod
    def of(cls, memory: GraphMemory, backend: MemoryOwner, stream: RawStream) -> DeviceAddress:
        """That of memory which a guard keeps."""
        self = cls(memory.pointer)
        self.stream, self.device, self._guard = stream, stream.device, Guard(backend, memory, stream)
        self._guard.used_on(backend.default_stream(stream.device))
        return self

    def used_on(self, stream: RawStream) -> None:
        """Note that the memory must outlive the work enqueued so far on ``stream``."""
        assert self.stream is not None
        is_own = stream.handle == self.stream.handle and stream.device is self.device  # default streams have one handle
        if self._guard is None and is_own:
            return
        (self._guard or self._set_guard()).used_on(stream)

    def _set_guard(self) -> Guard:
        """The guard, set once: of two threads that come here together, one sets it, and the other's owns nothing."""
        assert self.stream is not None
        guard = Guard(self._backend, None, self.stream)
        if self.stream.handle:
            guard.used_on(self._backend.default_stream(self.device))
        with deferred:  # else one could be set that never frees the memory
            found: Guard = self.__dict__.setdefault("_guard", guard)
            if found is guard:
                guard.allocation = PoolMemory(int(self), self.stream)
        return found

    def __del__(
        self, _free: Any = driver.pool_free, _getpid: Any = os.getpid, _is_finalizing: Any = sys.is_finalizing
    ) -> None:
        # A forked child must not free the parent's memory; at its end the process gives back all of it.
        if self._guard is not None or self._pid != _getpid() or _is_finalizing():
            return
        assert self.stream is not None
        if self._backend.is_behind(self.device)(self.stream):
            _free(self, self.stream.handle)
        else:
            self._set_guard()  # dies with this object, and gives the memory back


class RecycledAddress(DeviceAddress):
    """The address of a block of one size, for one stream to use again; see `DriverPool.find_kind`."""

    handle: ClassVar[int]
    """Of the stream."""
    idle: ClassVar[list[int]]
    """Blocks that wait for the next use."""
    allocate: ClassVar[Callable[[], int]]
    is_behind: ClassVar[Callable[[RawStream], bool]]
    """As `CudaBackend.is_behind`."""

    @classmethod
    def new(cls) -> RecycledAddress:
        """That of a block for the default stream.

        Raises:
            MemoryError: The device has too little.
        """
        try:
            pointer = cls.idle.pop()
        except IndexError:
            pointer = cls.allocate()
        return cls(pointer)

    @classmethod
    def new_on(cls, stream: RawStream) -> RecycledAddress:
        """That of a block for a stream of the handle."""
        self = cls.new()
        if stream.handle:
            self.stream = stream
        return self

    def __del__(
        self, _free: Any = driver.pool_free, _getpid: Any = os.getpid, _is_finalizing: Any = sys.is_finalizing
    ) -> None:
        if self._guard is not None or self._pid != _getpid() or _is_finalizing():
            return
        kind, stream = type(self), self.stream
        is_free = stream is None
        if stream is not None and len(kind.idle) < _MOST_IDLE:
            is_free = kind.is_behind(stream) if kind.handle else not kind._backend.stream_handle(kind.device)
        if is_free:
            kind.idle.append(int(self))
        else:
            super().__del__()


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
        result = driver.memory_allocate(ctypes.addressof(pointer), nbytes)
        if result == driver.OUT_OF_MEMORY:
            raise MemoryError(driver.error_name(result))
        check(result, f"allocating {nbytes} bytes on {device}")
        self.pointer = pointer.value
        self._pid = os.getpid()

    def __del__(self, _free: Any = driver.memory_free, _getpid: Any = os.getpid) -> None:
        if getattr(self, "_pid", 0) == _getpid():  # a forked child must not touch the driver
            _free(self.pointer)


class Guard:
    """Owns an allocation that streams besides its own work on; see `xferlib._native.bind_owner`.

    A library's pool hands freed memory to the next allocation on the *allocation* stream. When the
    last array over this memory dies, that stream is made to wait for the others first.
    """

    __slots__ = ("allocation", "backend", "handle", "pid", "stream", "users")

    def __init__(self, backend: MemoryOwner, allocation: Any, stream: RawStream) -> None:
        self.backend = backend
        self.allocation = allocation
        self.stream = stream
        self.handle = stream.handle
        self.users: dict[tuple[int, int], RawStream] = {}
        self.pid = os.getpid()

    def used_on(self, stream: RawStream) -> None:
        """Note that the memory must outlive the work enqueued so far on ``stream``."""
        self.users[stream.device.index, stream.handle] = stream

    def __del__(self) -> None:
        if not hasattr(self, "pid") or self.allocation is None:  # Ctrl-C struck while it was made, or it owns nothing
            return
        # A forked child must not free the parent's memory; at its end the process gives back all of it.
        if self.pid != os.getpid() or sys.is_finalizing():
            process.keep(self.allocation)
            return
        backend, stream = self.backend, self.stream
        try:
            backend.attach(stream.device)
            is_alone = not self.users and stream.capture is None
            if (is_alone and backend.stream_handle(stream.device) == stream.handle) or self._is_ordered():
                with backend.inside(stream.device):  # whose default stream frees it
                    self.allocation = None
        except Exception:  # the interpreter or the context is going away, and the memory with it
            return

    def _is_ordered(self) -> bool:
        """Whether the allocation's stream waits for the others now: a graph that is recorded comes first."""
        backend, stream = self.backend, self.stream
        self.used_on(backend.stream_current(stream.device))
        own = (stream.device.index, stream.handle)
        users = [user for place, user in self.users.copy().items() if place != own]
        captured = next((each for each in (*users, stream) if each.capture is not None), None)
        if captured is not None and captured.capture is not None:  # a wait would become part of the graph
            later = Guard(backend, self.allocation, stream)
            later.users |= self.users
            captured.capture.postponed.append(later)
            return False
        # To ask whether a stream is idle takes less time, but voids what another library records meanwhile.
        for user in users:
            backend.event_wait(stream, backend.event_record(user, timing=False))
        return True


def find_guards() -> tuple[type[Guard], ...]:
    """The types of what owns memory that streams share: `Guard`, and its forerunner in C where that is compiled."""
    calls = _native.find_calls()
    return (Guard,) if calls is None else (Guard, calls.Owner)
