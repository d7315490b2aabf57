"""What the CUDA backends share, written once on cuda.core and the driver.

Raw pointers, primary contexts, streams, events, copies, pinned memory. Each library keeps its own
arrays and memory pool, and names its current stream.
"""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from typing import Any, NamedTuple

import numpy as np
from cuda import core
from cuda.bindings import driver

from xferlib import _device, _immortal
from xferlib._array import Array
from xferlib._backend import Backend
from xferlib._device import Device, DeviceProperties
from xferlib._interrupts import deferred
from xferlib._raw import PinnedBlock, RawStream, StagingCalls
from xferlib.backends import _cuda_calls as calls
from xferlib.backends._cuda_calls import CudaEvent
from xferlib.backends._cuda_contexts import Current, Inside
from xferlib.backends._cuda_errors import check, failure, is_forked, refuse_fork
from xferlib.backends._cuda_kernels import CudaKernels
from xferlib.backends._cuda_memory import CudaPinned
from xferlib.errors import (
    BackendUnavailableError,
    ContextError,
    DeviceMemoryError,
    PinnedMemoryError,
    TransferError,
)

_MOST_SEEN = 64
_LEGACY = (0, 1)


class Made(NamedTuple):
    """A stream made here: what its successive `RawStream`s share."""

    handle: int
    native: Any
    core: core.Stream


class CudaBackend(CudaKernels, Backend):
    """A library on CUDA devices. Subclasses allocate arrays, read pointers, name the current stream."""

    pinned_domain = "cuda"
    _watches_default_stream = True
    """Whether `consumed` is cheap enough for every kernel on the default stream."""

    def __init__(self, count: int) -> None:
        if count == 0:
            raise BackendUnavailableError(f"{self.name} sees no CUDA device")
        self._devices = tuple(_device.make(self.name, "cuda", index) for index in range(count))
        self._contexts: dict[int, int] = {}
        self._primaries: set[int] = set()
        self._staging: dict[int, StagingCalls] = {}
        self._idle_events: tuple[list[int], ...] = tuple([] for _ in range(count))
        """Handles of each device's, for the next ones."""
        self._owned: weakref.WeakValueDictionary[tuple[int, int], RawStream] = weakref.WeakValueDictionary()
        self._seen: dict[tuple[int, int], RawStream] = {}
        self._unused: dict[tuple[int, bool, int], list[Made]] = {}
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
        if len(self._devices) == 1:
            result = calls.context_synchronize()
        else:
            with Current(self, device):
                result = calls.context_synchronize()
        if result:
            raise failure(result, f"synchronising {device}")

    def attach(self, device: Device) -> None:
        if is_forked():
            raise failure(0, f"using {device}")
        handle = calls.context_current()
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

    # --- arrays

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, stream: RawStream) -> Array:
        """Allocated by the library on ``stream``; guarded on any but the default stream."""
        try:
            if len(self._devices) == 1:
                return self._empty_in_order(shape, dtype, device, stream)
            with Current(self, device):
                return self._empty_in_order(shape, dtype, device, stream)
        except Exception as error:
            raise self._allocation_error(error, shape, dtype, device) from error

    def _empty_in_order(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream) -> Array:
        if stream.handle == self.stream_handle(device):
            array = self._empty(shape, dtype, device)
            return self.guarded(array, stream) if stream.handle else array
        return self._empty_on(shape, dtype, device, stream, self.stream_current(device))

    def _empty(self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Array:
        raise NotImplementedError

    def _empty_on(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Device, stream: RawStream, current: RawStream
    ) -> Array:
        with deferred:  # or Ctrl-C might leave the other stream current
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
        nbytes = math.prod(shape) * dtype.itemsize
        result, free, total = driver.cuMemGetInfo()
        known = f"{int(free)} of {int(total)} bytes are free" if int(result) == calls.SUCCESS else "free memory unknown"
        return DeviceMemoryError(
            f"{nbytes} bytes for an array of shape {shape} and dtype {dtype} do not fit on {device} ({known}); "
            "free arrays, or move the data in parts"
        )

    # --- memory and copies

    def pinned_alloc(self, nbytes: int) -> PinnedBlock:
        self.attach(self.device_current())
        return CudaPinned(nbytes)

    def pinned_register(self, pointer: int, nbytes: int) -> None:
        (result,) = driver.cuMemHostRegister(pointer, nbytes, driver.CU_MEMHOSTREGISTER_PORTABLE)
        if int(result) != calls.SUCCESS:
            raise PinnedMemoryError(
                f"page-locking {nbytes} bytes in place failed with {calls.error_name(int(result))}; "
                "pinned_array(x) makes a pinned copy instead"
            )

    def pinned_unregister(self, pointer: int) -> None:
        (result,) = driver.cuMemHostUnregister(pointer)
        check(result, "releasing page-locked memory")

    def is_pinned(self, pointer: int) -> bool:
        return calls.is_host_memory(pointer)

    def copy(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> None:
        refuse_fork("copying")
        result = self._inside(stream.device, calls.copy, dst, src, nbytes, stream.handle)
        if result == calls.INVALID_VALUE and len(self._devices) > 1:
            result = self._copy_between(dst, src, nbytes, stream)
        if result:
            raise failure(result, f"copying {nbytes} bytes on {stream.device}")

    def _copy_between(self, dst: int, src: int, nbytes: int, stream: RawStream) -> int:
        """Copy between two devices of which neither may read the other's pool of memory by itself."""
        places = [calls.device_of_memory(each) for each in (dst, src)]
        if None in places:
            return calls.INVALID_VALUE
        to, come = (driver.CUcontext(self._context(index)) for index in places if index is not None)
        (result,) = driver.cuMemcpyPeerAsync(dst, to, src, come, nbytes, stream.handle)
        return int(result)

    def inside(self, device: Device) -> Inside:
        return Inside(self._context(device.index) if len(self._devices) > 1 else 0)

    def _inside(self, device: Device, call: Any, *arguments: int) -> int:
        """The result of a call that depends on the current context: on its default stream, or on its memory."""
        if len(self._devices) == 1:
            result: int = call(*arguments)
            return result
        with self.inside(device):
            return call(*arguments)  # type: ignore[no-any-return]

    def staging_calls(self, device: Device) -> StagingCalls:
        found = self._staging.get(device.index)
        if found is None:
            found = self._staging[device.index] = StagingCalls(**calls.STAGING, context=self._context(device.index))
        return found

    def staging_error(self, code: int, stream: RawStream) -> Exception:
        return failure(code, f"a copy on {stream.device}")

    def takes_pageable(self, stream: RawStream, *, idle: bool) -> bool:
        # The synchronous copies run on the current device's legacy default stream and are ordered on that one alone.
        handle = stream.handle
        if handle not in _LEGACY or (len(self._devices) > 1 and self.device_current() is not stream.device):
            return False
        return not idle or calls.stream_query(handle) == calls.SUCCESS

    def copy_to_device(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        result = calls.copy_to_device(dst, src, nbytes)
        return result == calls.SUCCESS or self._refused(result, f"copying {nbytes} bytes to {stream.device}")

    def copy_to_host(self, dst: int, src: int, nbytes: int, *, stream: RawStream) -> bool:
        result = calls.copy_to_host(dst, src, nbytes)
        return result == calls.SUCCESS or self._refused(result, f"copying {nbytes} bytes from {stream.device}")

    def twin(self, array: Array, host: np.ndarray[Any, Any]) -> int:
        # In half the time that a view takes: the libraries' arrays name these things as NumPy does.
        if array.dtype == host.dtype and array.shape == host.shape and array.strides == host.strides:
            pointer: int = self.operands((array,))[0]
            return pointer
        return 0

    def send_whole(self, src: np.ndarray[Any, Any], dst: Array, pointer: int, most: int) -> bool:
        return self._copies_whole(calls.send_whole, src, dst, pointer, most)

    def fetch_whole(self, dst: np.ndarray[Any, Any], src: Array, pointer: int, most: int) -> bool:
        return self._copies_whole(calls.fetch_whole, dst, src, pointer, most)

    def _copies_whole(self, copy: Any, host: np.ndarray[Any, Any], array: Array, pointer: int, most: int) -> bool:
        device = self._devices[0] if len(self._devices) == 1 else self.view(array).device
        context = self._contexts.get(device.index)  # none until the device is attached; the copy is refused in another
        if copy is None or context is None or is_forked():
            return False
        if self.stream_handle(device) not in _LEGACY:
            return False
        result: int = copy(host, pointer, context, most)
        if result == calls.SUCCESS:
            return True
        return result != calls.NOT_ASKED and self._refused(result, f"copying {host.nbytes} bytes on {device}")

    def _refused(self, result: int, doing: str) -> bool:
        """False: the driver takes no range of which another registration pins a part."""
        if result != calls.INVALID_VALUE:
            raise failure(result, doing)
        return False

    def copy_recorded(self, dst: int, src: int, nbytes: int, *, stream: RawStream, event: Any = None) -> CudaEvent:
        result = self._inside(stream.device, calls.copy, dst, src, nbytes, stream.handle)
        if result:
            raise failure(result, f"copying {nbytes} bytes on {stream.device}")
        return self.event_record(stream, timing=False, event=event)

    def copy_behind(
        self, dst: int, src: int, nbytes: int, *, behind: RawStream, stream: RawStream,
        event: Any = None, copied: Any = None,
    ) -> tuple[CudaEvent, CudaEvent]:  # fmt: skip
        enqueue = calls.copy_behind
        if event is None or enqueue is None or len(self._devices) > 1:
            return super().copy_behind(dst, src, nbytes, behind=behind, stream=stream, event=event, copied=copied)  # type: ignore[return-value]
        refuse_fork("copying")
        if copied is None:
            copied = self._event(stream.device, timing=False)
        result = enqueue(dst, src, nbytes, behind.handle, event.handle, stream.handle, copied.handle)
        if result:
            raise failure(result, f"copying {nbytes} bytes behind another stream's work on {stream.device}")
        return event, copied

    # --- streams and events

    def stream_create(self, device: Device, *, non_blocking: bool, priority: int) -> RawStream:
        """A stream of its own, recycled and never destroyed.

        A library's allocator may record events on every stream that an array was used on, long after
        the stream's last handle is gone: destroying one then crashes the process.
        """
        key = (device.index, non_blocking, priority)
        made = self._idle_stream(key)
        if made is None:
            with Current(self, device):
                made = self._make_stream(device, non_blocking=non_blocking, priority=priority)
            _immortal.keep(made)
            self.has_made_streams = self._watches_default_stream
        stream = RawStream(made.handle, device, native=made.native, core=made.core)
        weakref.finalize(stream, self._unused.setdefault(key, []).append, made).atexit = False
        place = (device.index, made.handle)
        self._seen.pop(place, None)
        self._owned[place] = stream
        return stream

    def _idle_stream(self, key: tuple[int, bool, int]) -> Made | None:
        unused = self._unused.get(key, [])
        for made in tuple(unused):
            if calls.stream_query(made.handle) == calls.SUCCESS:
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
        result = self._inside(stream.device, calls.stream_synchronize, stream.handle)
        if result:
            raise failure(result, f"synchronising a stream of {stream.device}")

    def stream_done(self, stream: RawStream) -> bool:
        refuse_fork("asking a stream")
        result = self._inside(stream.device, calls.stream_query, stream.handle)
        if result not in (calls.SUCCESS, calls.NOT_READY):
            raise failure(result, f"asking a stream of {stream.device}")
        return bool(result == calls.SUCCESS)

    def _event(self, device: Device, *, timing: bool) -> CudaEvent:
        idle = None if timing else self._idle_events[device.index]
        try:
            if len(self._devices) == 1:
                return CudaEvent(timing=timing, idle=idle)
            with self.inside(device):
                return CudaEvent(timing=timing, idle=idle)
        except RuntimeError as error:
            raise TransferError(f"making an event failed with {error}; `xferlib info` shows the devices") from None

    def event_record(self, stream: RawStream, *, timing: bool, event: Any = None) -> CudaEvent:
        refuse_fork("recording an event")
        if event is None:
            event = self._event(stream.device, timing=timing)
        result = self._inside(stream.device, calls.event_record, event.handle, stream.handle)
        if result:
            raise failure(result, f"recording an event on {stream.device}")
        return event  # type: ignore[no-any-return]

    def event_wait(self, stream: RawStream, event: Any) -> None:
        refuse_fork("waiting for an event")
        result = self._inside(stream.device, calls.stream_wait_event, stream.handle, event.handle, 0)
        if result:
            raise failure(result, f"making a stream of {stream.device} wait")

    def event_done(self, event: Any) -> bool:
        refuse_fork("asking an event")
        result = calls.event_query(event.handle)
        if result not in (calls.SUCCESS, calls.NOT_READY):
            raise failure(result, "the work before an event")
        return bool(result == calls.SUCCESS)

    def event_synchronize(self, event: Any) -> None:
        if not self.event_done(event):
            result = calls.event_synchronize(event.handle)
            if result:
                raise failure(result, "the work before an event")

    def event_elapsed_ms(self, start: Any, end: Any) -> float:
        result, milliseconds = calls.elapsed_ms(start, end)
        check(result, "timing two events")
        return milliseconds


def _core_stream(handle: int) -> core.Stream:
    if handle in (0, 1):
        return core.LEGACY_DEFAULT_STREAM
    if handle == 2:
        return core.PER_THREAD_DEFAULT_STREAM
    return core.Stream.from_handle(handle)
