"""Streams and events, in the field's words; the native library follows ``with stream:``."""

from __future__ import annotations

import operator
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

from xferlib._core import devices, observe, registry
from xferlib._core.device import Device
from xferlib._core.pending import PendingTransfer, pending_on
from xferlib.errors import ArgumentError, StreamError, StreamTypeError, UnsupportedError, shown

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.raw import RawEvent, RawStream

_local = threading.local()


class Event:
    """A point in a stream's work.

    Args:
        timing: Whether `elapsed_ms` can be asked; recording is a little cheaper without.
    """

    __slots__ = ("_backend", "_device", "_raw", "timing")

    def __init__(self, *, timing: bool = True) -> None:
        self.timing = timing
        self._backend: Backend | None = None
        self._raw: RawEvent | None = None
        self._device: Device | None = None

    @property
    def is_done(self) -> bool:
        """Whether the recorded work has finished; True before the first record, as in CUDA."""
        return self._backend is None or self._backend.event_done(self._raw)

    def synchronize(self) -> None:
        """Block until the recorded work has finished."""
        if self._backend is not None:
            self._await(self._backend)

    @observe.user_call(lambda self, backend: (backend, 0))
    def _await(self, backend: Backend) -> None:
        backend.event_synchronize(self._raw)

    def elapsed_ms(self, start: Event) -> float:
        """Milliseconds on the device from ``start`` to this event; blocks until both are complete.

        Raises:
            StreamTypeError: ``start`` is no event.
            StreamError: One of the two has not been recorded, or was made with ``timing=False``; or they were recorded
                on two devices, whose clocks differ.
        """
        _check_event(start, "elapsed_ms: start")
        for event in (start, self):
            if event._backend is None or not event.timing:
                raise StreamError(
                    "elapsed_ms needs two recorded events made with timing=True; "
                    f"{'the start' if event is start else 'this one'} is not: Event(timing=True), then stream.record()"
                )
        assert self._backend is not None
        assert start._backend is not None
        if (start._backend.pinned_domain, start._index) != (self._backend.pinned_domain, self._index):
            raise StreamError(
                f"elapsed_ms: the start was recorded on {start._device} and this event on {self._device}, whose clocks "
                "differ; record both on one device"
            )
        start.synchronize()  # it may lie on another stream, and come later
        self.synchronize()
        return self._backend.event_elapsed_ms(start._raw, self._raw)

    @property
    def _index(self) -> int:
        return self._device.index if self._device is not None else -1


class Stream:
    """A queue of work on one device; ``with stream:`` makes it current, in the native library too.

    On a CPU every operation is complete when it returns, and a stream is a formality.

    Args:
        device: The device; the current one if omitted.
        non_blocking: Run beside the legacy default stream instead of in order with it.
        priority: Lower numbers run first; the device clamps them.

    Raises:
        DeviceNotFoundError: The device does not exist.
        ArgumentError: ``priority`` is no int.
    """

    __slots__ = ("__weakref__", "_backend", "_raw", "device")

    def __init__(self, device: Any = None, *, non_blocking: bool = True, priority: int = 0) -> None:
        self.device: Device = devices.get_device(device)
        self._backend = registry.get(self.device.backend).at(self.device)
        self._backend.attach(self.device)
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise ArgumentError(
                f"Stream: priority={shown(priority)} is no int; lower numbers run first, and 0 is usual"
            )
        priority = max(-(1 << 31), min(priority, (1 << 31) - 1))
        if priority and not self._backend.capabilities.priorities:
            priority = 0
        self._raw = self._backend.stream_create(self.device, non_blocking=non_blocking, priority=priority)

    @classmethod
    def from_any(cls, native: Any, device: Any = None) -> Stream:
        """Adopt a stream made elsewhere.

        Args:
            native: Anything with ``__cuda_stream__`` (CuPy, torch, cuda.core, numba), a PyCUDA
                stream, a raw ``cudaStream_t`` address, or a `Stream`.
            device: Where it was made; the current device if omitted.

        Raises:
            StreamTypeError: The object is no stream.
        """
        if isinstance(native, Stream):
            return native
        handle = _handle_of(native)
        if handle is None:
            raise StreamTypeError(
                f"{type(native).__name__} is no stream: give an object with __cuda_stream__, a PyCUDA stream, "
                "or the address of a cudaStream_t"
            )
        target = devices.get_device(device)
        backend = registry.get(target.backend).at(target)
        if not backend.capabilities.streams:
            raise StreamError(
                f"a native stream cannot be used on {target}: {backend.capabilities.reason('streams')}; "
                "name its device: Stream.from_any(stream, device='cuda:0')"
            )
        backend.attach(target)
        owner = None if isinstance(native, int) else native
        return cls._of(backend.stream_wrap(handle, target, native=owner), backend)

    @classmethod
    def _of(cls, raw: RawStream, backend: Backend) -> Stream:
        stream = object.__new__(cls)
        stream.device = raw.device
        stream._backend = backend
        stream._raw = raw
        return stream

    @property
    def handle(self) -> int:
        """The address of the ``cudaStream_t``; 0 for the default stream and on a CPU."""
        return self._raw.handle

    @property
    def native(self) -> Any:
        """The array library's own stream object, where it has one."""
        return self._raw.native

    def __cuda_stream__(self) -> tuple[int, int]:
        if not self._backend.capabilities.streams:
            raise UnsupportedError(f"{self.device} has no CUDA stream: {self._backend.capabilities.reason('streams')}")
        return (0, self._raw.handle)

    def record(self, event: Event | None = None) -> Event:
        """Record an event after the work enqueued so far; a new one if omitted."""
        if event is not None:
            _check_event(event, "record: event")
        self._settle()
        target = Event() if event is None else event
        target._raw = self._backend.event_record(self._raw, timing=target.timing)
        target._backend = self._backend
        target._device = self.device
        return target

    def wait(self, other: Event | Stream | PendingTransfer | Any) -> None:
        """Make later work on this stream wait for an event, another stream's work, or a transfer.

        The host does not wait, except until the source of a staged transfer has been read, or where
        one of the two is on a CPU and the other is not.

        Raises:
            StreamTypeError: ``other`` is none of these.
        """
        if isinstance(other, Event):
            if other._backend is None:
                self._backend.event_unrecorded(self._raw)
            elif other._backend.pinned_domain == self._backend.pinned_domain:
                self._backend.event_wait(self._raw, other._raw)
            else:
                other.synchronize()  # neither machine knows the other's events
        elif isinstance(other, Stream):
            self.wait(other.record(Event(timing=False)))
        elif isinstance(other, PendingTransfer):
            other.hold_back(self._raw, self._backend)
        else:
            self.wait(Stream.from_any(other, self.device))

    @observe.user_call(lambda self: (self._backend, 0))
    def synchronize(self) -> None:
        """Block until everything enqueued has finished."""
        self._settle()
        self._backend.stream_synchronize(self._raw)

    @property
    def is_done(self) -> bool:
        """Whether everything enqueued has finished; a loop that only polls this ends."""
        for transfer in pending_on(self._raw):
            transfer.poll()
        return not pending_on(self._raw) and self._backend.stream_done(self._raw)

    def _settle(self) -> None:
        """Wait until transfers onto this stream whose source is still being read have enqueued their copies."""
        for transfer in pending_on(self._raw):
            transfer.settle()

    def __enter__(self) -> Stream:
        stack: list[tuple[Device, RawStream]] = _local.__dict__.setdefault("stack", [])
        before = devices.current_device(self._backend) if self._backend.capabilities.streams else self.device
        current = self._backend.stream_current(self.device)
        stack += [(before, current)]
        try:
            if before is not self.device:
                self._backend.device_use(self.device)
            self._backend.stream_use(self._raw)
        except BaseException:
            self._leave(before, current)
            del stack[-1]
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stack: list[tuple[Device, RawStream]] = _local.stack
        before, current = stack[-1]
        try:
            self._leave(before, current)
        except KeyboardInterrupt:
            self._leave(before, current)
            raise
        finally:
            del stack[-1]

    def _leave(self, before: Device, current: RawStream) -> None:
        self._backend.stream_use(current)
        if before is not self.device:
            self._backend.device_use(before)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device is other.device and self._raw.handle == other._raw.handle

    def __hash__(self) -> int:
        return hash((self.device, self._raw.handle))

    def __repr__(self) -> str:
        return f"<Stream {self._raw.handle:#x} on {self.device}>"


def _handle_of(native: Any) -> int | None:
    """The ``cudaStream_t`` of a stream object; PyCUDA's has ``handle`` instead of ``__cuda_stream__``."""
    try:
        protocol = getattr(native, "__cuda_stream__", None)
        found = native if type(native) is int else getattr(native, "handle", None)
        if protocol is not None:
            version, found = protocol() if callable(protocol) else protocol
            operator.index(version)
        if isinstance(found, (bool, float, complex, str, bytes)):
            return None
        handle = int(found)  # type: ignore[arg-type]  # a handle of cuda.bindings has `__int__` alone
    except Exception:  # a foreign object may raise anything; it is no stream
        return None
    return handle if 0 <= handle < 1 << 64 else None


def _check_event(event: object, what: str) -> None:
    if not isinstance(event, Event):
        raise StreamTypeError(f"{what} is {type(event).__name__}, not an Event; make one with xferlib.Event()")


def current_stream(device: Any = None) -> Stream:
    """The native library's current stream on a device, for this thread."""
    target = devices.get_device(device)
    backend = registry.get(target.backend).at(target)
    return Stream._of(backend.stream_current(target), backend)
