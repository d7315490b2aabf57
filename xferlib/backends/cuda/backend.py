"""The class that the CUDA backends share, written once on cuda.core and the driver.

Raw pointers, primary contexts, streams, events, copies, pinned memory. Each library keeps its own
arrays and memory pool, and names its current stream.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import math
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from cuda import core
from cuda.bindings import driver

from xferlib._core.arrays import Array
from xferlib._core.backend import Backend, DirectCopies, FastCopies
from xferlib._core.device import (
    Device,
    DeviceIdentity,
    DeviceProperties,
    PinnedBlock,
    RawStream,
    StagingCalls,
    make_device,
)
from xferlib._runtime import process
from xferlib._runtime.threads import deferred
from xferlib.backends.cuda import contexts
from xferlib.backends.cuda import driver as driver_module
from xferlib.backends.cuda.contexts import HERE, Current, Inside, check, failure, is_forked, refuse_fork
from xferlib.backends.cuda.driver import CudaEvent
from xferlib.backends.cuda.kernels import CudaKernels
from xferlib.errors import (
    ArgumentError,
    BackendUnavailableError,
    ContextError,
    DeviceMemoryError,
    PinnedMemoryError,
    TransferError,
    shown,
)

# CUDA devices and their primary contexts, which every CUDA library of the process shares.


class CudaDevices(Backend):
    """The devices that a library sees."""

    def __init__(self, count: int) -> None:
        if count == 0:
            raise BackendUnavailableError(f"{self.name} sees no CUDA device")
        self._devices = tuple(make_device(self.name, "cuda", index) for index in range(count))
        self._contexts: dict[int, int] = {}
        self._primaries: set[int] = set()
        self._attached = threading.local()

    def devices(self) -> tuple[Device, ...]:
        return self._devices

    def device_properties(self, device: Device) -> DeviceProperties:
        found = core.Device(device.index)
        result, nbytes = driver.cuDeviceTotalMem(device.index)
        check(result, f"reading the memory size of {device}")
        return DeviceProperties(
            name=found.name,
            total_nbytes=int(nbytes),
            compute_capability=tuple(found.compute_capability),
            multiprocessor_count=found.properties.multiprocessor_count,
        )

    def device_identity(self, device: Device) -> DeviceIdentity:
        found = core.Device(device.index)
        return DeviceIdentity(uuid=f"GPU-{found.uuid.removeprefix('GPU-')}", pci_bus_id=found.pci_bus_id)

    def device_at(self, pointer: int) -> Device:
        if len(self._devices) == 1:
            return self._devices[0]
        if not pointer:
            return self.device_current()
        result, index = driver.cuPointerGetAttribute(
            driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer
        )
        check(result, f"finding the device of the memory at {pointer:#x}")
        return self._devices[int(index)]

    def device_memory(self, device: Device) -> tuple[int, int]:
        self.attach(device)
        with self.inside(device):
            result, free, total = driver.cuMemGetInfo()
        check(result, f"asking for the free memory of {device}")
        return int(free), int(total)

    def device_attribute(self, device: Device, name: str) -> int:
        known = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name.upper()}", None)
        if known is None:
            raise ArgumentError(
                f"{device} has no attribute {shown(name)}; CUDA's driver API names them, under CUdevice_attribute"
            )
        result, value = driver.cuDeviceGetAttribute(known, device.index)
        check(result, f"asking for the attribute {name!r} of {device}")
        return int(value)

    def device_synchronize(self, device: Device) -> None:
        self.attach(device)
        if len(self._devices) == 1:
            result = driver_module.context_synchronize()
        else:
            with Current(self, device):
                result = driver_module.context_synchronize()
        if result:
            raise failure(result, f"synchronising {device}")

    def attach(self, device: Device) -> None:
        if is_forked():
            raise failure(0, f"using {device}")
        handle = driver_module.context_current()
        if handle in self._primaries:
            return
        if not handle:
            self.device_use(device)
            self.core_device(device)
            self._context(device.index)
        elif not self._is_primary(handle):
            raise ContextError(
                f"the CUDA context current in this thread ({handle:#x}) is not the primary context of any device, "
                "so its memory and streams cannot be shared; pop it, and use pycuda.autoprimaryctx "
                "instead of pycuda.autoinit"
            )

    def core_device(self, device: Device) -> core.Device:
        """cuda.core's object for the current device, which it wants initialised in each thread."""
        found = core.Device(device.index)
        ready: set[int] = self._attached.__dict__.setdefault("ready", set())
        if device.index not in ready:
            found.set_current()
            ready.add(device.index)
        return found

    def _is_primary(self, handle: int) -> bool:
        for device in self._devices:
            _, _, is_active = driver.cuDevicePrimaryCtxGetState(device.index)
            if is_active:  # retaining an inactive one would create it, at hundreds of megabytes
                self._context(device.index)
        return handle in self._primaries

    def _context(self, index: int) -> int:
        """The device's primary context, retained once."""
        handle = self._contexts.get(index)
        if handle is None:
            result, context = driver.cuDevicePrimaryCtxRetain(index)
            check(result, f"retaining the primary context of device {index}")
            handle = self._contexts[index] = int(context)
            self._primaries.add(handle)
        return handle

    def is_inside(self, device: Device) -> bool:
        """Whether the device's context is current in this thread, asked in a tenth of the time of setting it."""
        return driver_module.context_current() == self._contexts.get(device.index)

    def inside(self, device: Device) -> Inside:
        if len(self._devices) == 1 or self.is_inside(device):
            return HERE
        return Inside(self._context(device.index))

    def _inside(self, device: Device, call: Any, *arguments: Any) -> int:
        """The result of a call that depends on the current context: on its default stream, or on its memory."""
        if len(self._devices) == 1 or self.is_inside(device):
            result: int = call(*arguments)
            return result
        with self.inside(device):
            return call(*arguments)  # type: ignore[no-any-return]


# Memory that outlives its users: pinned on the host, and guarded on a device.


class CudaPinned:
    """Page-locked host memory, valid for every device; freed when the object dies."""

    __slots__ = ("__weakref__", "nbytes", "pointer")

    def __init__(self, nbytes: int) -> None:
        result, pointer = driver.cuMemHostAlloc(nbytes, driver.CU_MEMHOSTALLOC_PORTABLE)
        if int(result) != driver_module.SUCCESS:
            raise PinnedMemoryError(
                f"{nbytes} bytes of pinned memory cannot be allocated ({driver_module.error_name(int(result))}); free "
                "arrays, or work on parts; xferlib.pinned_pool().trim() returns what the pool keeps"
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
        pointer: The address.
        stream: That stream, of the pool's device.
    """

    __slots__ = ("_stream", "pointer")

    def __init__(self, pointer: int, stream: RawStream) -> None:
        self.pointer = pointer
        self._stream = stream

    def __del__(self, _free: Any = driver_module.pool_free) -> None:
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
    """One of CUDA's stream-ordered pools, and small blocks that the default stream may use again.

    The driver takes 2 us to give out memory, and as much to take it back: as long as a kernel on a small array.
    """

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.idle: collections.defaultdict[int, list[int]] = collections.defaultdict(list)

    def allocate(self, nbytes: int, stream: RawStream) -> int:
        """The address of new memory in the order of ``stream``.

        Raises:
            MemoryError: The device has too little.
        """
        answer = ctypes.c_uint64()  # of this call's own: a finalizer or a signal's handler may allocate within it
        address = ctypes.addressof(answer)
        result = driver_module.pool_allocate(address, nbytes, self.handle, stream.handle)
        if result == driver_module.OUT_OF_MEMORY:
            self.trim()
            result = driver_module.pool_allocate(address, nbytes, self.handle, stream.handle)
        if result == driver_module.OUT_OF_MEMORY:
            raise MemoryError(driver_module.error_name(result))
        if result:
            check(result, f"allocating {nbytes} bytes on {stream.device}")
        return answer.value

    def trim(self) -> None:
        """Give idle blocks back."""
        for blocks in [*self.idle.values()]:
            while blocks:
                with contextlib.suppress(IndexError):  # another thread has taken it meanwhile
                    driver_module.pool_free(blocks.pop(), 0)


class DeviceAddress(int):
    """The address of device memory, which is given back when the last array over it dies.

    A `Guard` does that where another stream than the memory's own may have to be waited for. Most arrays die where they
    were made, after a few microseconds of work, and have none.
    """

    stream: RawStream
    """The one that the memory was allocated on."""
    device: Device
    _backend: CudaStreams
    _idle: list[int] | None = None
    """Where blocks of this size wait for the next use."""
    _guard: Guard | None = None
    _pid = 0
    """Of the process, if this object gives the memory back."""

    @classmethod
    def from_pool(cls, backend: CudaStreams, pool: DriverPool, nbytes: int, stream: RawStream) -> DeviceAddress:
        """Allocate more than 0 bytes on a stream of the pool's device, whose context is current.

        Raises:
            MemoryError: The device has too little.
        """
        idle, pointer = None, 0
        if nbytes <= _MOST_RECYCLED and not stream.handle:
            step = _STEPS[nbytes > _MOST_FINE]
            nbytes = -(-nbytes // step) * step
            idle = pool.idle[nbytes]
            try:
                pointer = idle.pop()
            except IndexError:
                pass
        self = cls(pointer or pool.allocate(nbytes, stream))
        self._backend, self.stream, self.device, self._idle = backend, stream, stream.device, idle
        self._pid = os.getpid()
        return self

    @classmethod
    def of(cls, memory: GraphMemory, backend: CudaStreams, stream: RawStream) -> DeviceAddress:
        """That of memory which a guard keeps."""
        self = cls(memory.pointer)
        self.stream, self.device, self._guard = stream, stream.device, Guard(backend, memory, stream)
        return self

    def used_on(self, stream: RawStream) -> None:
        """Note that the memory must outlive the work enqueued so far on ``stream``."""
        if self._guard is None and stream.handle == self.stream.handle:
            return
        (self._guard or self._set_guard()).used_on(stream)

    def _set_guard(self) -> Guard:
        """The guard, set once: of two threads that come here together, one sets it, and the other's owns nothing."""
        guard = Guard(self._backend, None, self.stream)
        with deferred:  # else one could be set that never frees the memory
            found: Guard = self.__dict__.setdefault("_guard", guard)
            if found is guard:
                guard.allocation = PoolMemory(int(self), self.stream)
        return found

    def __del__(
        self, _free: Any = driver_module.pool_free, _getpid: Any = os.getpid, _is_finalizing: Any = sys.is_finalizing
    ) -> None:
        # A forked child must not free the parent's memory; at its end the process gives back all of it.
        if self._guard is not None or self._pid != _getpid() or _is_finalizing():
            return
        stream, backend, idle = self.stream, self._backend, self._idle
        if stream.capture is not None or backend.stream_handle(self.device) != stream.handle:
            self._set_guard()  # dies with this object, and gives the memory back
        elif idle is not None and len(idle) < _MOST_IDLE:
            idle.append(int(self))  # later work on the default stream may use it
        elif backend.is_inside(self.device):
            _free(self, stream.handle)
        else:
            self._set_guard()


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
        result = driver_module.memory_allocate(ctypes.addressof(pointer), nbytes)
        if result == driver_module.OUT_OF_MEMORY:
            raise MemoryError(driver_module.error_name(result))
        check(result, f"allocating {nbytes} bytes on {device}")
        self.pointer = pointer.value
        self._pid = os.getpid()

    def __del__(self, _free: Any = driver_module.memory_free, _getpid: Any = os.getpid) -> None:
        if getattr(self, "_pid", 0) == _getpid():  # a forked child must not touch the driver
            _free(self.pointer)


class Guard:
    """Owns an allocation that streams besides its own work on.

    A library's pool hands freed memory to the next allocation on the *allocation* stream. When the
    last array over this memory dies, that stream is made to wait for the others first.
    """

    __slots__ = ("allocation", "backend", "pid", "stream", "users")

    def __init__(self, backend: CudaStreams, allocation: Any, stream: RawStream) -> None:
        self.backend = backend
        self.allocation = allocation
        self.stream = stream
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


# Streams and events of CUDA devices.

_MOST_SEEN = 64
_IPC_NBYTES = 64
_NON_BLOCKING = int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)


class Made(NamedTuple):
    """A stream made here: what its successive `RawStream`s share."""

    handle: int
    native: Any
    core: core.Stream


class CudaStreams(CudaDevices):
    """Streams that the library and xferlib share. Subclasses name the library's current stream and set it."""

    _watches_default_stream = True
    """Whether `consumed` is cheap enough for every kernel on the default stream."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._idle_events: tuple[list[int], ...] = tuple([] for _ in range(count))
        """Handles of each device's, for the next ones."""
        self._owned: weakref.WeakValueDictionary[tuple[int, int], RawStream] = weakref.WeakValueDictionary()
        self._seen: dict[tuple[int, int], RawStream] = {}
        self._unused: dict[tuple[int, bool, int], list[Made]] = {}
        self._lasting = {(index, handle) for index in range(count) for handle in (0, 1)}
        """Streams that are never destroyed, by device and handle: the default ones, and those made here."""

    def stream_create(self, device: Device, *, non_blocking: bool, priority: int) -> RawStream:
        """Create or recycle a stream, which is never destroyed.

        A library's allocator may record events on every stream that an array was used on, long after
        the stream's last handle is gone: destroying one then crashes the process.
        """
        key = (device.index, non_blocking, priority)
        made = self._idle_stream(key)
        if made is None:
            with Current(self, device):
                made = self._make_stream(device, non_blocking=non_blocking, priority=priority)
            process.keep(made)
            self.has_made_streams = self._watches_default_stream
        stream = RawStream(made.handle, device, native=made.native, core=made.core)
        weakref.finalize(stream, self._unused.setdefault(key, []).append, made).atexit = False
        place = (device.index, made.handle)
        self._seen.pop(place, None)
        self._owned[place] = stream
        self._lasting.add(place)
        return stream

    def _idle_stream(self, key: tuple[int, bool, int]) -> Made | None:
        unused = self._unused.get(key, [])
        for made in tuple(unused):
            if driver_module.stream_query(made.handle) == driver_module.SUCCESS:
                with contextlib.suppress(ValueError):  # another thread has taken it meanwhile
                    unused.remove(made)
                    return made
        return None

    def _make_stream(self, device: Device, *, non_blocking: bool, priority: int) -> Made:
        options = core.StreamOptions(nonblocking=non_blocking, priority=priority)
        stream = self.core_device(device).create_stream(options=options)
        return Made(int(stream.handle), None, stream)

    def stream_wrap(self, handle: int, device: Device, *, native: Any = None) -> RawStream:
        found = self._owned.get((device.index, handle))
        return found if found is not None else RawStream(handle, device, native=native, core=_core_stream(handle))

    def stream_current(self, device: Device) -> RawStream:
        handle = self.stream_handle(device)
        key = (device.index, handle)
        found = self._seen.get(key) or self._owned.get(key)
        return found if found is not None else self._see(key, device)

    def _see(self, key: tuple[int, int], device: Device) -> RawStream:
        """Wrap the native current stream, which costs 5 us, and keep the wrap while it is recent."""
        if len(self._seen) >= _MOST_SEEN:
            for oldest in list(self._seen)[:1]:  # other threads see streams at the same time
                self._seen.pop(oldest, None)
        handle = key[1]
        stream = RawStream(handle, device, native=self._current_native(device), core=_core_stream(handle))
        self._seen[key] = stream
        return stream

    def _current_native(self, device: Device) -> Any:
        """The library's own object for its current stream, kept so that the stream outlives our use."""
        return None

    def stream_use(self, stream: RawStream) -> None:
        self._use(stream)
        # A library fails at its next operation if its current stream has been destroyed.
        self._attached.__dict__.setdefault("current", {})[stream.device.index] = stream

    def _use(self, stream: RawStream) -> None:
        raise NotImplementedError

    def stream_handle(self, device: Device) -> int:
        """The handle of the library's current stream in this thread; read at every kernel call."""
        raise NotImplementedError

    def stream_synchronize(self, stream: RawStream) -> None:
        refuse_fork("synchronising a stream")
        result = self._inside(stream.device, driver_module.stream_synchronize, stream.handle)
        if result:
            raise failure(result, f"synchronising a stream of {stream.device}")

    def stream_done(self, stream: RawStream) -> bool:
        refuse_fork("asking a stream")
        result = self._inside(stream.device, driver_module.stream_query, stream.handle)
        if result not in (driver_module.SUCCESS, driver_module.NOT_READY):
            raise failure(result, f"asking a stream of {stream.device}")
        return bool(result == driver_module.SUCCESS)

    def stream_is_recorded(self, stream: RawStream) -> bool:
        status = ctypes.c_int()
        result = self._inside(stream.device, driver_module.stream_is_recorded, stream.handle, ctypes.addressof(status))
        return bool(result == driver_module.SUCCESS and status.value)

    def stream_options(self, stream: RawStream) -> tuple[int, bool]:
        refuse_fork("asking a stream")
        with self.inside(stream.device):
            result, priority = driver.cuStreamGetPriority(stream.handle)
            check(result, f"asking a stream of {stream.device} for its priority")
            result, flags = driver.cuStreamGetFlags(stream.handle)
        check(result, f"asking a stream of {stream.device} for its flags")
        return int(priority), bool(int(flags) & _NON_BLOCKING)

    def stream_call(self, stream: RawStream, function: Callable[[], None]) -> None:
        refuse_fork("enqueuing a host function")
        enqueue = contexts.enqueue if stream.capture is None else contexts.enqueue_captured
        result = self._inside(stream.device, enqueue, stream.handle, function)
        if result:
            raise failure(result, f"enqueuing a host function on {stream.device}")

    def event_make(self, device: Device, *, timing: bool, blocking: bool, interprocess: bool) -> CudaEvent:
        self.attach(device)
        flags = (driver_module.BLOCKING_SYNC if blocking else 0) | (driver_module.INTERPROCESS if interprocess else 0)
        with self.inside(device):
            return self._made_event(timing=timing, flags=flags)

    def event_ipc_handle(self, event: Any) -> bytes:
        result, handle = driver.cuIpcGetEventHandle(event.handle)
        check(result, "naming an event for other processes")
        return ctypes.string_at(handle.getPtr(), _IPC_NBYTES)

    def event_open(self, device: Device, handle: bytes) -> CudaEvent:
        self.attach(device)
        name = driver.CUipcEventHandle()
        if not isinstance(handle, bytes) or len(handle) != _IPC_NBYTES:
            raise ArgumentError(f"{shown(handle)} names no event; give the bytes that ipc_handle() returned")
        ctypes.memmove(name.getPtr(), handle, _IPC_NBYTES)
        with self.inside(device):
            result, event = driver.cuIpcOpenEventHandle(name)
        check(result, f"opening an event of another process on {device}")
        return CudaEvent(timing=False, opened=int(event))

    def _event(self, device: Device, *, timing: bool) -> CudaEvent:
        idle = None if timing else self._idle_events[device.index]
        if idle:
            try:
                return CudaEvent(timing=False, idle=idle, opened=idle.pop())
            except IndexError:  # another thread was faster
                pass
        if len(self._devices) == 1:
            return self._made_event(timing=timing, idle=idle)
        with self.inside(device):
            return self._made_event(timing=timing, idle=idle)

    def _borrow_event(self, device: Device) -> int:
        """The handle of an event for one use within a call of the driver, then to be appended to `_idle_events`."""
        try:
            return self._idle_events[device.index].pop()
        except IndexError:
            event = self._event(device, timing=False)
            handle, event.handle = event.handle, 0  # it owns none now
            return handle

    def _made_event(self, *, timing: bool, idle: list[int] | None = None, flags: int = 0) -> CudaEvent:
        try:
            return CudaEvent(timing=timing, idle=idle, flags=flags)
        except RuntimeError as error:
            raise TransferError(f"making an event failed with {error}; `xferlib info` shows the devices") from None

    def event_record(self, stream: RawStream, *, timing: bool, event: Any = None) -> CudaEvent:
        refuse_fork("recording an event")
        if event is None:
            event = self._event(stream.device, timing=timing)
        result = self._inside(stream.device, driver_module.event_record, event.handle, stream.handle)
        if result:
            raise failure(result, f"recording an event on {stream.device}")
        return event  # type: ignore[no-any-return]

    def event_wait(self, stream: RawStream, event: Any) -> None:
        refuse_fork("waiting for an event")
        result = self._inside(stream.device, driver_module.stream_wait_event, stream.handle, event.handle, 0)
        if result:
            raise failure(result, f"making a stream of {stream.device} wait")

    def event_done(self, event: Any) -> bool:
        refuse_fork("asking an event")
        result = driver_module.event_query(event.handle)
        if result not in (driver_module.SUCCESS, driver_module.NOT_READY):
            raise failure(result, "the work before an event")
        return bool(result == driver_module.SUCCESS)

    def event_synchronize(self, event: Any) -> None:
        if not self.event_done(event):
            result = driver_module.event_synchronize(event.handle)
            if result:
                raise failure(result, "the work before an event")

    def event_elapsed_ms(self, start: Any, end: Any) -> float:
        result, milliseconds = driver_module.elapsed_ms(start, end)
        check(result, "timing two events")
        return milliseconds


def _core_stream(handle: int) -> core.Stream:
    if handle in (0, 1):
        return core.LEGACY_DEFAULT_STREAM
    if handle == 2:
        return core.PER_THREAD_DEFAULT_STREAM
    return core.Stream.from_handle(handle)


# Copies to, from and between CUDA devices.

_LEGACY = (0, 1)


class CudaCopies(CudaStreams, FastCopies):
    """Copies by the driver's own functions."""

    pointer_of: Callable[[Array], int] | None = None
    """The address of an array; None: C does not make the library's arrays by itself."""

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Array:
        raise NotImplementedError

    def empty_between(self, shape: tuple[int, ...], dtype: np.dtype[Any], stream: RawStream) -> Array:
        """As `DirectCopies.empty_between`."""
        raise NotImplementedError

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.fast = self
        self._staging: dict[int, StagingCalls] = {}
        self._reached: dict[tuple[int, int], bool] = {}

    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        refuse_fork("copying")
        result = self._inside(stream.device, driver_module.copy, dst, src, nbytes, stream.handle)
        if result == driver_module.INVALID_VALUE and len(self._devices) > 1:
            result = self._copy_between(dst, src, nbytes, stream)
        if result:
            raise failure(result, f"copying {nbytes} bytes on {stream.device}")

    def _copy_between(self, dst: int, src: int, nbytes: int, stream: RawStream) -> int:
        """Copy between two devices that cannot read each other's pool of memory without permission."""
        places = [driver_module.device_of_memory(each) for each in (dst, src)]
        if None in places:
            return driver_module.INVALID_VALUE
        to, come = (driver.CUcontext(self._context(index)) for index in places if index is not None)
        (result,) = driver.cuMemcpyPeerAsync(dst, to, src, come, nbytes, stream.handle)
        return int(result)

    def reaches(self, device: Device, other: Device) -> bool:
        key = (device.index, other.index)
        found = self._reached.get(key)
        if found is None:
            found = self._reached[key] = self._open(*key)
        return found

    def _open(self, index: int, other: int) -> bool:
        """Let a device read another's memory, of which the driver has to be told once; False where it cannot."""
        result, can = driver.cuDeviceCanAccessPeer(index, other)
        check(result, f"asking whether device {index} reaches device {other}")
        if not int(can):
            return False
        with Inside(self._context(index)):
            (result,) = driver.cuCtxEnablePeerAccess(driver.CUcontext(self._context(other)), 0)
        if int(result) not in (driver_module.SUCCESS, driver_module.PEER_ACCESS_ALREADY_ENABLED):
            return False  # such as more peers than the hardware has room for
        result, pool = driver.cuDeviceGetMemPool(other)  # whose memory takes permissions of its own
        if int(result) == driver_module.SUCCESS:
            access = driver.CUmemAccessDesc()
            access.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            access.location.id = index
            access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            driver.cuMemPoolSetAccess(pool, [access], 1)  # if it is refused, `_copy_between` does without
        return True

    def copy_behind(
        self, dst: int, src: int, nbytes: int, *, behind: RawStream, stream: RawStream, event: Any = None,
        copied: Any = None, is_mutual: bool = False,
    ) -> CudaEvent | None:  # fmt: skip
        enqueue = driver_module.copy_behind
        if enqueue is None:
            return None
        refuse_fork("copying")
        borrowed = self._borrow_event(behind.device) if event is None else 0
        copied = copied or self._event(stream.device, timing=False)
        first = second = 0
        if len(self._devices) > 1:
            first, second = self._context(behind.device.index), self._context(stream.device.index)
        result = enqueue(
            dst, src, nbytes, behind.handle, borrowed or event.handle, stream.handle, copied.handle, first, second,
            is_mutual,
        )  # fmt: skip
        if borrowed:
            self._idle_events[behind.device.index].append(borrowed)
        if result == driver_module.INVALID_VALUE and first != second:  # memory that takes `_copy_between`
            return None
        if result:
            raise failure(result, f"copying {nbytes} bytes behind another stream's work on {stream.device}")
        return copied  # type: ignore[no-any-return]

    def copy_each(self, dsts: list[int], srcs: list[int], sizes: list[int], *, stream: RawStream) -> bool:
        enqueue = driver_module.copy_each
        if enqueue is None:
            return False
        refuse_fork("copying")
        result = self._inside(stream.device, enqueue, dsts, srcs, sizes, stream.handle)
        if result:
            raise failure(result, f"copying {len(sizes)} arrays of {sum(sizes)} bytes on {stream.device}")
        return True

    def staging_calls(self, device: Device) -> StagingCalls:
        found = self._staging.get(device.index)
        if found is None:
            found = self._staging[device.index] = StagingCalls(
                **driver_module.STAGING,
                context=self._context(device.index),
                inside=functools.partial(self.inside, device),
                failure=lambda code, stream: failure(code, f"a copy on {stream.device}"),
            )
        return found

    def takes_pageable(self, stream: RawStream, *, idle: bool) -> bool:
        # The synchronous copies run on the current device's legacy default stream and are ordered on that one alone.
        handle = stream.handle
        if handle not in _LEGACY or (len(self._devices) > 1 and self.device_current() is not stream.device):
            return False
        return not idle or driver_module.stream_query(handle) == driver_module.SUCCESS

    def copy_to_device(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        result = driver_module.copy_to_device(dst, src, nbytes)
        return result == driver_module.SUCCESS or self._refused(result, f"copying {nbytes} bytes to {stream.device}")

    def copy_to_host(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        result = driver_module.copy_to_host(dst, src, nbytes)
        return result == driver_module.SUCCESS or self._refused(result, f"copying {nbytes} bytes from {stream.device}")

    def _refused(self, result: int, doing: str) -> bool:
        """False: the driver takes no range of which another registration pins a part."""
        if result != driver_module.INVALID_VALUE:
            raise failure(result, doing)
        return False

    def direct(self, device: Device) -> DirectCopies | None:
        if is_forked() or self.pointer_of is None:
            return None
        is_alone = len(self._devices) == 1
        return DirectCopies(
            **driver_module.DIRECT,
            context=self._context(device.index),
            empty=functools.partial(self._empty, device=device),
            pointer=self.pointer_of,
            stream=functools.partial(self.stream_handle, device),
            is_current=None if is_alone else lambda: self.device_current() is device,
            empty_between=self.empty_between,
        )

    def whole(self, array: Array) -> tuple[int, tuple[int, ...], np.dtype[Any]] | None:
        # In half the time that a view takes: the libraries' arrays name these things as NumPy does.
        if not array.flags.c_contiguous:
            return None
        return self.operands((array,))[0], array.shape, array.dtype


# Graphs of CUDA's driver.
#
# The capture is relaxed: calls of this thread and of others that have nothing to do with it go on as usual. The
# driver's other modes refuse calls that finalizers make, which Python runs in any thread at any moment, and a refused
# call invalidates the capture.
#
# New arrays lie in memory of the graph's own, because a library's pool would give the memory of an array that has died
# to the next one, while each launch still writes to it.


class CudaGraph:
    """An executable graph; destroyed when the object dies.

    Args:
        handle: Of the ``CUgraphExec``.
        inside: Makes a driver call in the context of a stream's device.
        functions: The functions that it calls.
        mark: Records an event on a stream.
        owned: What must live as long.
    """

    __slots__ = ("_functions", "_handle", "_inside", "_mark", "_owned", "_pid")

    def __init__(
        self,
        handle: int,
        inside: Callable[..., int],
        functions: contexts.Kept,
        mark: Callable[[RawStream], Any],
        owned: Any,
    ) -> None:
        self._handle = handle
        self._inside = inside
        self._functions = functions
        self._mark = mark
        self._owned = owned
        self._pid = os.getpid()

    def __call__(self, stream: RawStream) -> None:
        refuse_fork("launching a graph")
        result = self._inside(stream.device, driver_module.graph_launch, self._handle, stream.handle)
        if result:
            raise failure(result, f"launching a graph on {stream.device}")
        contexts.sweep()
        if self._functions:
            self._functions.launched(self._mark(stream))

    def __del__(
        self,
        _destroy: Any = driver_module.graph_exec_destroy,
        _getpid: Any = os.getpid,
        _is_finalizing: Any = sys.is_finalizing,
        _keep: Any = process.keep,
    ) -> None:
        pid = getattr(self, "_pid", 0)
        if pid == _getpid():
            _destroy(self._handle)
            if not _is_finalizing():
                contexts.sweep()
        elif pid:  # a forked child must not touch the driver, as a pool does that dies
            _keep(self._owned)


class CudaGraphs(CudaStreams):
    """Captures of streams."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._captures: dict[tuple[int, int], tuple[contextlib.ExitStack, contexts.Kept, Any]] = {}
        """By device and stream: what ends with the capture, the functions, and the memory that the graph must own."""

    @contextlib.contextmanager
    def _own_memory(self, stream: RawStream) -> Iterator[Any]:
        """Let new arrays of this thread and of this stream lie in memory that only the result owns."""
        yield None

    def capture_begin(self, stream: RawStream) -> None:
        refuse_fork("capturing a stream")
        key = (stream.device.index, stream.handle)
        self._seen.pop(key, None)
        self._owned[key] = stream  # the one that `stream_current` finds, and whose capture it tells
        functions: list[int] = []
        with contextlib.ExitStack() as ends:
            memory = ends.enter_context(self._own_memory(stream))
            ends.enter_context(contexts.kept_in(functions))
            result = self._inside(
                stream.device, driver_module.capture_begin, stream.handle, driver_module.CAPTURE_RELAXED
            )
            if result:
                raise failure(result, f"capturing a stream of {stream.device}")
            self._captures[key] = (ends.pop_all(), contexts.Kept(functions), memory)

    def follows_launches(self, stream: RawStream) -> bool:
        return (stream.device.index, stream.handle) in self._lasting  # cuGraphLaunch orders the launches of a graph

    def _mark_launch(self, stream: RawStream) -> Any:
        return self.event_record(stream, timing=False)

    def capture_end(self, stream: RawStream) -> CudaGraph | None:
        ends, functions, memory = self._captures.pop((stream.device.index, stream.handle))
        graph, made, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        try:
            result = self._inside(stream.device, driver_module.capture_end, stream.handle, ctypes.addressof(graph))
        finally:
            ends.close()
        try:
            if not result:
                result = driver_module.graph_nodes(graph.value or 0, 0, ctypes.addressof(count))
            if not result and not count.value:
                return None
            if not result:
                result = self._inside(
                    stream.device, driver_module.graph_instantiate, ctypes.addressof(made), graph.value or 0, 0
                )
        finally:
            if graph.value:
                driver_module.graph_destroy(graph.value)
        if result:
            raise failure(result, f"capturing a stream of {stream.device}")
        return CudaGraph(made.value or 0, self._inside, functions, self._mark_launch, memory)


class CudaBackend(CudaGraphs, CudaCopies, CudaKernels):
    """A library on CUDA devices. Subclasses allocate arrays, read pointers, name the current stream."""

    pinned_domain = "cuda"

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.kernels = self

    # --- arrays

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> Array:
        """Allocated by the library on ``stream``; guarded on any but the default stream."""
        try:
            if len(self._devices) == 1 or self._is_current(device):
                return self._empty_in_order(shape, dtype, device, stream)
            return self._empty_elsewhere(shape, dtype, device, stream)
        except Exception as error:
            raise self._allocation_error(error, shape, dtype, device) from error

    def _is_current(self, device: Device) -> bool:
        """Whether the library allocates there unless it is told another device."""
        return self.is_inside(device)

    def _empty_in_order(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream) -> Array:
        if stream.handle != self.stream_handle(device):
            current = self.stream_current(device)
            make = functools.partial(self._empty_guarded, shape, dtype, device, stream)
            return self._kept_for(self._made_on(stream, current, make), current)
        if stream.handle:
            return self._empty_guarded(shape, dtype, device, stream)
        return self._empty(shape, dtype, device)

    def _empty_elsewhere(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream
    ) -> Array:
        """As `_empty_in_order`, while another device is current."""
        with Current(self, device):
            return self._empty_in_order(shape, dtype, device, stream)

    def empty_between(self, shape: tuple[int, ...], dtype: np.dtype[Any], stream: RawStream) -> Array:
        # Without a guard: no other stream ever uses the memory.
        device = stream.device
        if stream.handle == self.stream_handle(device):
            return self._empty(shape, dtype, device)
        make = functools.partial(self._empty, shape, dtype, device)
        return self._made_on(stream, self.stream_current(device), make)

    def _empty_guarded(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream) -> Array:
        """A new array of the memory of ``stream``, which is current; other streams may use it."""
        return self.guarded(self._empty(shape, dtype, device), stream)

    def _made_on(self, stream: RawStream, current: RawStream, make: Callable[[], Array]) -> Array:
        """Return the result of ``make``, called while another stream is the current one."""
        with deferred:  # or Ctrl-C might leave the other stream current
            self._use(stream)
            try:
                return make()
            finally:
                self._use(current)

    def _kept_for(self, array: Array, current: RawStream) -> Array:
        """A new array of another stream's memory, which the library's own work on the current one may use as well."""
        self.consumed(array, current)
        return array

    def _allocation_error(
        self, error: Exception, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device
    ) -> Exception:
        is_memory = isinstance(error, MemoryError) or "memory" in str(error).lower()
        if not is_memory or isinstance(error, DeviceMemoryError):
            return error
        nbytes = math.prod(shape) * dtype.itemsize
        result, free, total = driver.cuMemGetInfo()
        known = (
            f"{int(free)} of {int(total)} bytes are free"
            if int(result) == driver_module.SUCCESS
            else "free memory unknown"
        )
        return DeviceMemoryError(
            f"{nbytes} bytes for an array of shape {shape} and dtype {dtype} do not fit on {device} ({known}); "
            "free arrays, or move the data in parts"
        )

    # --- page-locked memory

    def pinned_alloc(self, nbytes: int) -> PinnedBlock:
        self.attach(self.device_current())
        return CudaPinned(nbytes)

    def pinned_register(self, pointer: int, nbytes: int) -> None:
        (result,) = driver.cuMemHostRegister(pointer, nbytes, driver.CU_MEMHOSTREGISTER_PORTABLE)
        if int(result) != driver_module.SUCCESS:
            raise PinnedMemoryError(
                f"page-locking {nbytes} bytes in place failed with {driver_module.error_name(int(result))}; "
                "pinned_array(x) makes a pinned copy instead"
            )

    def pinned_unregister(self, pointer: int) -> None:
        (result,) = driver.cuMemHostUnregister(pointer)
        check(result, "releasing page-locked memory")

    def is_pinned(self, pointer: int) -> bool:
        return driver_module.is_host_memory(pointer)
