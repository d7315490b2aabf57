"""Streams and events of CUDA devices."""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from cuda import core
from cuda.bindings import driver

from xferlib._core.device import Device
from xferlib._core.raw import RawStream
from xferlib._runtime import leak
from xferlib.backends.cuda import driver as calls
from xferlib.backends.cuda import host_functions
from xferlib.backends.cuda.contexts import Current
from xferlib.backends.cuda.devices import CudaDevices
from xferlib.backends.cuda.driver import CudaEvent
from xferlib.backends.cuda.errors import check, failure, refuse_fork
from xferlib.errors import ArgumentError, TransferError, shown

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
            leak.keep(made)
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

    def stream_is_recorded(self, stream: RawStream) -> bool:
        status = ctypes.c_int()
        result = self._inside(stream.device, calls.stream_is_recorded, stream.handle, ctypes.addressof(status))
        return bool(result == calls.SUCCESS and status.value)

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
        enqueue = host_functions.enqueue if stream.capture is None else host_functions.enqueue_captured
        result = self._inside(stream.device, enqueue, stream.handle, function)
        if result:
            raise failure(result, f"enqueuing a host function on {stream.device}")

    def event_make(self, device: Device, *, timing: bool, blocking: bool, interprocess: bool) -> CudaEvent:
        self.attach(device)
        flags = (calls.BLOCKING_SYNC if blocking else 0) | (calls.INTERPROCESS if interprocess else 0)
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
