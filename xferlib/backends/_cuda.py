"""What the CUDA backends share, written once on cuda.core and the driver.

Raw pointers, primary contexts, streams, events, copies, pinned memory. Each library keeps its own
arrays and memory pool, and names its current stream.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

import numpy as np
from cuda import core
from cuda.bindings import driver

from xferlib import _device
from xferlib._array import Array
from xferlib._device import Device
from xferlib.backends._cuda_kernels import CudaKernels
from xferlib.backends.base import Backend, DeviceProperties, PinnedBlock, RawStream
from xferlib.errors import (
    BackendUnavailableError,
    ContextError,
    DeviceLostError,
    DeviceMemoryError,
    ForkError,
    PinnedMemoryError,
    TransferError,
)

_SUCCESS = driver.CUresult.CUDA_SUCCESS
_NOT_READY = driver.CUresult.CUDA_ERROR_NOT_READY
_OUT_OF_MEMORY = driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
# After these nothing more can run in the process (CUDA driver API, "CUresult").
_STICKY = frozenset(
    getattr(driver.CUresult, name)
    for name in (
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "CUDA_ERROR_LAUNCH_FAILED",
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "CUDA_ERROR_MISALIGNED_ADDRESS",
        "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        "CUDA_ERROR_INVALID_PC",
        "CUDA_ERROR_ASSERT",
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "CUDA_ERROR_NVLINK_UNCORRECTABLE",
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    )
)
_TIMED = core.EventOptions(timing_enabled=True)

_MOST_SEEN = 64

_forked_from: int | None = None


def _mark_forked() -> None:
    global _forked_from
    _forked_from = os.getppid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)


def check(result: Any, doing: str) -> None:
    """Raise the typed error for a driver call that did not succeed."""
    if result != _SUCCESS:
        raise failure(result, doing)


def failure(result: Any, doing: str) -> Exception:
    """The error for a driver result, as fact, value and remedy."""
    name = getattr(result, "name", str(result))
    if _forked_from is not None:
        return ForkError(
            f"{doing} in process {os.getpid()}, forked from {_forked_from} after CUDA was initialised there; "
            "start workers with multiprocessing.get_context('spawn'), or fork first"
        )
    if result in _STICKY:
        return DeviceLostError(
            f"{doing} failed with {name}: an earlier kernel or copy broke the CUDA context, and nothing more can run "
            "on the device in this process; restart it (compute-sanitizer finds the faulty access)"
        )
    if result == _OUT_OF_MEMORY:
        return DeviceMemoryError(f"{doing} failed with {name}: free device arrays, or move less at a time")
    return TransferError(f"{doing} failed with {name}; `xferlib info` shows the driver and the devices")


class CudaPinned:
    """Page-locked host memory, valid for every device; freed when the object dies."""

    __slots__ = ("__weakref__", "nbytes", "pointer")

    def __init__(self, nbytes: int) -> None:
        result, pointer = driver.cuMemHostAlloc(nbytes, driver.CU_MEMHOSTALLOC_PORTABLE)
        if result != _SUCCESS:
            raise PinnedMemoryError(
                f"page-locking {nbytes} bytes failed with {result.name}: release pinned arrays, call "
                "xferlib.pinned_pool().trim(), or set XFERLIB_PINNED_LIMIT below what the machine allows"
            )
        self.pointer = int(pointer)
        self.nbytes = nbytes
        weakref.finalize(self, _free_pinned, self.pointer, os.getpid()).atexit = False


def _free_pinned(pointer: int, pid: int) -> None:
    if os.getpid() == pid:  # a forked child must not touch the driver
        driver.cuMemFreeHost(pointer)


class Guard:
    """Owns an allocation that streams besides its own work on.

    A library's pool hands freed memory to the next allocation on the *allocation* stream. When the
    last array over this memory dies, that stream is made to wait for the others first.
    """

    __slots__ = ("allocation", "backend", "stream", "users")

    def __init__(self, backend: CudaBackend, allocation: Any, stream: RawStream) -> None:
        self.backend = backend
        self.allocation = allocation
        self.stream = stream
        self.users: dict[int, RawStream] = {}

    def __del__(self) -> None:
        try:
            current = self.backend.stream_current(self.stream.device)
            self.users.setdefault(current.handle, current)
            for user in self.users.values():
                if user.handle != self.stream.handle:
                    self.backend.event_wait(self.stream, self.backend.event_record(user, timing=False))
        except Exception:  # the interpreter or the context is going away, and the memory with it
            return


class CudaBackend(CudaKernels, Backend):
    """A library on CUDA devices. Subclasses allocate arrays, read pointers, name the current stream."""

    pinned_domain = "cuda"

    def __init__(self, count: int) -> None:
        if count == 0:
            raise BackendUnavailableError(f"{self.name} sees no CUDA device")
        self._devices = tuple(_device.make(self.name, "cuda", index) for index in range(count))
        self._contexts: dict[int, int] = {}
        self._owned: weakref.WeakValueDictionary[tuple[int, int], RawStream] = weakref.WeakValueDictionary()
        self._seen: dict[tuple[int, int], RawStream] = {}
        self._attached = threading.local()

    # --- devices

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

    def device_synchronize(self, device: Device) -> None:
        self.attach(device)
        with Current(self, device):
            (result,) = driver.cuCtxSynchronize()
        check(result, f"synchronising {device}")

    def attach(self, device: Device) -> None:
        if _forked_from is not None:
            raise failure(None, f"using {device}")
        result, current = driver.cuCtxGetCurrent()
        check(result, f"using {device}")
        handle = int(current)
        if handle in self._contexts.values():
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
        return handle in self._contexts.values()

    def _context(self, index: int) -> int:
        """The device's primary context, retained once."""
        handle = self._contexts.get(index)
        if handle is None:
            result, context = driver.cuDevicePrimaryCtxRetain(index)
            check(result, f"retaining the primary context of device {index}")
            handle = self._contexts[index] = int(context)
        return handle

    # --- arrays

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> Array:
        """Allocated by the library on ``stream``; guarded where that is not its current stream."""
        with Current(self, device):
            current = self.stream_current(device)
            try:
                if stream.handle == current.handle:
                    return self._empty(shape, dtype, device)
                return self._empty_on(shape, dtype, device, stream, current)
            except Exception as error:
                raise self._allocation_error(error, shape, dtype, device) from error

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Array:
        raise NotImplementedError

    def _empty_on(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream, current: RawStream
    ) -> Array:
        self.stream_use(stream)
        try:
            array = self._empty(shape, dtype, device)
        finally:
            self.stream_use(current)
        self.consumed(array, current)
        return array

    def _allocation_error(
        self, error: Exception, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device
    ) -> Exception:
        is_memory = isinstance(error, MemoryError) or "memory" in str(error).lower()
        if not is_memory or isinstance(error, DeviceMemoryError):
            return error
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        result, free, total = driver.cuMemGetInfo()
        known = f"{int(free)} of {int(total)} bytes are free" if result == _SUCCESS else "free memory unknown"
        return DeviceMemoryError(
            f"{nbytes} bytes for an array of shape {shape} and dtype {dtype} do not fit on {device} ({known}); "
            "free arrays, or move the data in parts"
        )

    # --- memory and copies

    def pinned_alloc(self, nbytes: int) -> PinnedBlock:
        return CudaPinned(nbytes)

    def pinned_register(self, pointer: int, nbytes: int) -> None:
        (result,) = driver.cuMemHostRegister(pointer, nbytes, driver.CU_MEMHOSTREGISTER_PORTABLE)
        if result != _SUCCESS:
            raise PinnedMemoryError(
                f"page-locking {nbytes} bytes in place failed with {result.name}; "
                "pinned_array(x) makes a pinned copy instead"
            )

    def pinned_unregister(self, pointer: int) -> None:
        (result,) = driver.cuMemHostUnregister(pointer)
        check(result, "releasing page-locked memory")

    def is_pinned(self, pointer: int) -> bool:
        result, kind = driver.cuPointerGetAttribute(
            driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer
        )
        return bool(result == _SUCCESS and int(kind) == int(driver.CUmemorytype.CU_MEMORYTYPE_HOST))

    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        if _forked_from is not None:
            raise failure(None, "copying")
        (result,) = driver.cuMemcpyAsync(dst, src, nbytes, stream.handle)
        if result != _SUCCESS:
            raise failure(result, f"copying {nbytes} bytes on {stream.device}")

    # --- streams and events

    def stream_create(self, device: Device, *, non_blocking: bool, priority: int) -> RawStream:
        with Current(self, device):
            options = core.StreamOptions(nonblocking=non_blocking, priority=priority)
            stream = self.core_device(device).create_stream(options=options)
        return self._own(RawStream(int(stream.handle), device, core=stream))

    def _own(self, stream: RawStream) -> RawStream:
        """Remember a stream made here for as long as it lives."""
        key = (stream.device.index, stream.handle)
        self._seen.pop(key, None)  # the driver may give a dead stream's handle to a new one
        self._owned[key] = stream
        return stream

    def stream_wrap(self, handle: int, device: Device, *, native: Any = None) -> RawStream:
        found = self._owned.get((device.index, handle))
        return found if found is not None else RawStream(handle, device, native=native, core=_core_stream(handle))

    def stream_current(self, device: Device) -> RawStream:
        handle = self._current_handle(device)
        key = (device.index, handle)
        found = self._seen.get(key) or self._owned.get(key)
        return found if found is not None else self._see(key, device)

    def _see(self, key: tuple[int, int], device: Device) -> RawStream:
        """Wrap the native current stream, which costs 5 us, and keep the wrap while it is recent."""
        if len(self._seen) >= _MOST_SEEN:
            self._seen.pop(next(iter(self._seen)))
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

    def _current_handle(self, device: Device) -> int:
        raise NotImplementedError

    def stream_synchronize(self, stream: RawStream) -> None:
        if _forked_from is not None:
            raise failure(None, "synchronising a stream")
        (result,) = driver.cuStreamSynchronize(stream.handle)
        if result != _SUCCESS:
            raise failure(result, f"synchronising a stream of {stream.device}")

    def stream_done(self, stream: RawStream) -> bool:
        if _forked_from is not None:
            raise failure(None, "asking a stream")
        (result,) = driver.cuStreamQuery(stream.handle)
        if result == _NOT_READY:
            return False
        check(result, f"asking a stream of {stream.device}")
        return True

    def event_record(self, stream: RawStream, *, timing: bool, event: Any = None) -> core.Event:
        if _forked_from is not None:
            raise failure(None, "recording an event")
        if event is not None:
            return stream.core.record(event)
        return stream.core.record(options=_TIMED) if timing else stream.core.record()

    def event_wait(self, stream: RawStream, event: Any) -> None:
        if _forked_from is not None:
            raise failure(None, "waiting for an event")
        stream.core.wait(event)

    def event_done(self, event: Any) -> bool:
        if _forked_from is not None:
            raise failure(None, "asking an event")
        return bool(event.is_done)

    def event_synchronize(self, event: Any) -> None:
        if _forked_from is not None:
            raise failure(None, "waiting for an event")
        event.sync()

    def event_elapsed_ms(self, start: Any, end: Any) -> float:
        return float(end - start)


def _core_stream(handle: int) -> core.Stream:
    if handle in (0, 1):
        return core.LEGACY_DEFAULT_STREAM
    if handle == 2:
        return core.PER_THREAD_DEFAULT_STREAM
    return core.Stream.from_handle(handle)


class Current:
    """Make a device current for a block, and the one before it again afterwards."""

    __slots__ = ("_backend", "_before", "_device")

    def __init__(self, backend: CudaBackend, device: Device) -> None:
        self._backend = backend
        self._device = device

    def __enter__(self) -> None:
        before = self._backend.device_current()
        self._before = None if before is self._device else before
        if self._before is not None:
            self._backend.device_use(self._device)

    def __exit__(self, *exc_info: object) -> None:
        if self._before is not None:
            self._backend.device_use(self._before)
