"""Streams and events, in the field's words; the native library follows ``with stream:``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from xferlib._core import blocks, devices, observe, registry
from xferlib._core.device import Device, DeviceSpec
from xferlib._core.ordering import capture
from xferlib._core.ordering.bound import ProcessBound
from xferlib._core.ordering.event import Event, check_event
from xferlib._core.pending import PendingTransfer, pending_on
from xferlib._core.raw import call_guarded, handle_of, stream_text
from xferlib._runtime import checks, peer_names
from xferlib.errors import ArgumentError, CaptureError, StreamError, StreamTypeError, UnsupportedError, shown

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.ordering.graph import CaptureBlock
    from xferlib._core.raw import RawStream


class Stream(ProcessBound, blocks.Enterable):
    """A queue of work on one device; ``with stream:`` makes it current, in the native library too.

    The block belongs to the asyncio task that enters it: others in the same thread keep theirs while it waits.
    On a CPU every operation is complete when it returns, and a stream is a formality.

    Args:
        device: The device; the current one if omitted.
        non_blocking: Run beside the legacy default stream instead of in order with it.
        priority: Lower numbers run first; the device clamps them.

    Raises:
        DeviceNotFoundError: The device does not exist.
        ArgumentError: ``priority`` is no int.
        BlockError: A block is left twice, by another task, or before one within it.
    """

    __slots__ = ("__weakref__", "_backend", "_raw", "device")
    _elsewhere = "make one there: xferlib.Stream(device)"

    def __init__(self, device: DeviceSpec = None, *, non_blocking: bool = True, priority: int = 0) -> None:
        self.device: Device = devices.get_device(device)
        self._backend = registry.get(self.device.backend).at(self.device)
        self._backend.attach(self.device)
        non_blocking = checks.flag(non_blocking, "Stream: non_blocking")
        number = checks.whole(priority, least=None)
        if number is None:
            raise ArgumentError(f"Stream: priority={shown(priority)} is no int; lower numbers run first; 0 is usual")
        has_priorities = self._backend.capabilities.priorities
        priority = max(-(1 << 31), min(number, (1 << 31) - 1)) if has_priorities else 0
        self._raw = self._backend.stream_create(self.device, non_blocking=non_blocking, priority=priority)

    @classmethod
    def from_any(cls, native: Any, device: DeviceSpec = None) -> Stream:
        """Adopt a stream made elsewhere.

        Args:
            native: Anything with ``__cuda_stream__`` (CuPy, torch, cuda.core, numba), a PyCUDA
                stream, a raw ``cudaStream_t`` address, or a `Stream`.
            device: Where it was made; the current device if omitted.

        Raises:
            StreamTypeError: The object is no stream, or its ``__cuda_stream__`` gives none.
            StreamError: The device has no streams.
        """
        if isinstance(native, Stream):
            return native
        handle = handle_of(native)
        if handle is None:
            remedy = (
                "let the stream wait for it: stream.wait(event)"
                if isinstance(native, Event)
                else "give an object with __cuda_stream__, a PyCUDA stream, or the address of a cudaStream_t"
            )
            raise StreamTypeError(f"{type(native).__name__} is no stream: {remedy}")
        target = devices.get_device(device)
        backend = registry.get(target.backend).at(target)
        if not backend.capabilities.streams:
            raise StreamError(
                f"a native stream cannot be used on {target} ({backend.capabilities.reason('streams')}); leave it out "
                "or give an xferlib.Stream; one of a GPU: Stream.from_any(stream, device='cuda:0')"
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
            check_event(event, "record: event")
        self._settle()
        target = Event() if event is None else event
        target._record(self._backend, self._raw)
        return target

    def call(self, function: Callable[..., object], *args: Any) -> None:
        """Call ``function(*args)`` on the host once the work so far is complete; later work waits for its end.

        It runs in a thread of the driver, and on a CPU at once. It must not use a device, nor wait for a thread that
        does, nor change pinned memory that a later copy reads. Its errors go to `threading.excepthook`.

        Raises:
            ArgumentError: ``function`` cannot be called.
        """
        if not callable(function):
            raise ArgumentError(f"Stream.call: {shown(function)} cannot be called; give a function, then its arguments")
        self._settle()
        self._backend.stream_call(self._raw, functools.partial(call_guarded, function, args))

    def capture(self) -> CaptureBlock:
        """Record the work of a block for a graph, instead of doing it: ``with stream.capture() as graph:``.

        In the block this stream is current. Kernels, copies on the device and copies from and to pinned memory are
        recorded, in other streams too that wait for this one; they must be waited for before the block ends.
        ``graph.launch()`` does the work, any number of times, on the memory that it was recorded with. Whatever
        would wait for a device is refused.

        Raises:
            CaptureError: A default stream or one that is not ``non_blocking``; a stream that is captured already; an
                open trace.
            UnsupportedError: The backend has no graphs.
        """
        from xferlib._core.ordering.graph import CaptureBlock

        return CaptureBlock(self, self._backend, self._raw)

    def wait(self, other: Event | Stream | PendingTransfer | Any) -> None:
        """Make later work on this stream wait for an event, another stream's work, or a transfer.

        The host does not wait, except until the source of a staged transfer has been read, or where
        one of the two is on a CPU and the other is not.

        Raises:
            StreamTypeError: ``other`` is none of these.
            CaptureError: One of the two is being captured, and the other has no part in it.
        """
        if isinstance(other, Event):
            if other._backend is None:
                self._backend.event_unrecorded(self._raw)
            elif other._capture is not None or self._raw.capture is not None:
                self._wait_in_capture(other)
            elif other._backend.pinned_domain == self._backend.pinned_domain:
                self._backend.event_wait(self._raw, other._raw)
            else:
                other.synchronize()  # neither machine knows the other's events
        elif isinstance(other, Stream):
            self.wait(other.record(Event(timing=False)))
        elif isinstance(other, PendingTransfer):
            capture.refuse("Stream.wait(transfer)", self._raw)
            other.hold_back(self._raw, self._backend)
        elif handle_of(other) is None:
            raise StreamTypeError(
                f"Stream.wait: {type(other).__name__} is no stream, Event or Transfer; give one of them"
            )
        else:
            self.wait(Stream.from_any(other, self.device))

    def _wait_in_capture(self, event: Event) -> None:
        """Order captured work; a stream that waits for it joins the capture."""
        found, own = event._capture, self._raw.capture
        if found is None:
            raise CaptureError(
                "Stream.wait: the event was recorded outside of the capture, which cannot depend on it; let the stream "
                "wait before the block, or the stream of graph.launch()"
            )
        if not found.is_open or (own is not None and own is not found):
            raise CaptureError("Stream.wait: the event belongs to another capture; record it again")
        self._backend.event_wait(self._raw, event._raw)
        if own is None:
            found.join(self._raw)

    @observe.user_call(lambda self: (self._backend, 0))
    def synchronize(self) -> None:
        """Block until everything enqueued has finished."""
        capture.refuse("Stream.synchronize", self._raw)
        self._settle()
        self._backend.stream_synchronize(self._raw)

    @property
    def is_done(self) -> bool:
        """Whether everything enqueued has finished; a loop that only polls this ends."""
        capture.refuse("Stream.is_done", self._raw)
        for transfer in pending_on(self._raw):
            transfer.poll()
        return not pending_on(self._raw) and self._backend.stream_done(self._raw)

    def _settle(self) -> None:
        """Wait until transfers onto this stream whose source is still being read have enqueued their copies."""
        for transfer in pending_on(self._raw):
            transfer.settle()

    def __enter__(self) -> Stream:
        has_streams = self._backend.capabilities.streams  # else there is nothing to make current
        blocks.enter(self, None, (_Choice(self._backend, self._raw),) if has_streams else ())
        return self

    def use(self) -> Stream:
        """Make this stream, and its device, current for this thread from now on: ``with`` without an end.

        In a block it is current until the block ends.
        """
        if self._backend.capabilities.streams:
            change = _Choice(self._backend, self._raw)
            if not blocks.alter(None, (change,)):
                change.make([])
        return self

    @property
    def priority(self) -> int:
        """Lower numbers run first; 0 on a device without priorities."""
        return self._backend.stream_options(self._raw)[0]

    @property
    def is_non_blocking(self) -> bool:
        """Whether it runs beside the legacy default stream; False on a CPU, where all work is in order."""
        return self._backend.stream_options(self._raw)[1]

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            peer_names.refuse(self, name, peer_names.STREAM_NAMES)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device is other.device and self._raw.handle == other._raw.handle

    def __hash__(self) -> int:
        return hash((self.device, self._raw.handle))

    def __repr__(self) -> str:
        return stream_text(self._raw.handle, self.device)


class _Choice:
    """Makes a stream, and its device, the library's current ones."""

    def __init__(self, backend: Backend, stream: RawStream) -> None:
        self._backend = backend
        self._stream = stream

    def make(self, undo: list[blocks.Undo]) -> None:
        backend, device = self._backend, self._stream.device
        if (before := devices.current_device(backend)) is not device:
            undo.append(functools.partial(backend.device_use, before))
            backend.device_use(device)
        undo.append(functools.partial(backend.stream_use, backend.stream_current(device)))
        backend.stream_use(self._stream)


def current_stream(device: DeviceSpec = None) -> Stream:
    """The native library's current stream on a device, for this thread and task."""
    target = devices.get_device(device)
    blocks.follow()
    backend = registry.get(target.backend).at(target)
    return Stream._of(backend.stream_current(target), backend)
