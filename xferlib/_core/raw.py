"""The native objects of a backend as shared code sees them: streams, events, pinned memory, kernels, C functions."""

from __future__ import annotations

import operator
import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from xferlib._core.device import make_device
from xferlib._runtime import circumstances
from xferlib._runtime.fork import reset_in_child
from xferlib.errors import CaptureError, TransferError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.device import Device
    from xferlib._runtime.callsite import CodeLocation


class RawStream:
    """A stream as a backend sees it: the handle, and the objects that own it.

    ``native`` is the array library's stream object, ``core`` the ``cuda.core.Stream``; both are
    None on a CPU. The raw stream keeps them, and so the CUDA stream, alive. ``capture`` is the open capture that it
    belongs to.
    """

    __slots__ = ("__weakref__", "capture", "core", "device", "handle", "native")

    def __init__(self, handle: int, device: Device, *, native: Any = None, core: Any = None) -> None:
        self.handle = handle
        self.device = device
        self.native = native
        self.core = core
        self.capture: Capture | None = None

    def __repr__(self) -> str:
        return f"<RawStream {self.handle:#x} on {self.device}>"

    def known_to(self, backend: Any) -> RawStream:
        """The stream as ``backend`` has it: only that can be given to its library's functions."""
        if self.device.backend == backend.name:
            return self
        device = make_device(backend.name, self.device.kind, self.device.index)
        found: RawStream = backend.stream_wrap(self.handle, device)
        return found


class Capture:
    """The work of one stream, and of those that waited for it, between the two ends of a block.

    Args:
        origin: The stream.
    """

    __slots__ = ("is_open", "kept", "postponed", "streams")

    def __init__(self, origin: RawStream) -> None:
        self.streams: list[RawStream] = []
        self.kept: list[Any] = []
        """Kept as long as the graph exists: its work uses it."""
        self.postponed: list[Any] = []
        """Kept until the capture ends: it cannot be destroyed before."""
        self.is_open = True
        self.join(origin)
        opened.append(self)
        circumstances.changed()

    @property
    def origin(self) -> RawStream:
        return self.streams[0]

    def join(self, stream: RawStream) -> None:
        """Another stream waits for work of this capture, and so belongs to it."""
        stream.capture = self
        self.streams.append(stream)

    def keep(self, *objects: Any) -> None:
        self.kept += objects

    def close(self) -> None:
        self.is_open = False
        opened.remove(self)
        for stream in self.streams:
            stream.capture = None
        self.postponed.clear()
        circumstances.changed()


opened: list[Capture] = []
"""The captures that are open now, in any thread."""
reset_in_child(opened.clear)


def refuse_device(call: str, device: Device) -> None:
    """Refuse a wait for a whole device on which a stream is captured, in whichever thread: the driver has no such wait.

    Raises:
        CaptureError: There is one.
    """
    if any(each.origin.device is device for each in opened):
        raise captured(call, device)


def captured(call: str, device: Device) -> CaptureError:
    """The error of a call that a capture does not allow."""
    return CaptureError(
        f"{call}: a stream of {device} is being captured, so that its work is not done before graph.launch(); "
        "call it before the capture, or after the launch"
    )


def recorded(device: Device) -> CaptureError:
    """The error of a copy of pageable memory on a stream that a graph records, as another library may let it."""
    return CaptureError(
        f"a graph records a stream of {device}, and cannot copy pageable memory; copy before the recording, or between "
        "arrays made with pinned_empty() in xferlib.Stream.capture()"
    )


PER_THREAD = 2
"""The handle by which CUDA names the calling thread's own default stream.

Another thread that uses it means another stream. So no other thread may enqueue what a thread has asked for on it.
"""
_DEFAULTS = {0: "default stream", 1: "legacy default stream", PER_THREAD: "per-thread default stream"}
"""By the handles that CUDA gives them."""


def stream_text(handle: int, device: Device) -> str:
    """A stream in words."""
    if device.kind == "cpu":
        return f"<Stream on {device}, where all work is in order>"
    if handle in _DEFAULTS:
        return f"<Stream: the {_DEFAULTS[handle]} of {device}>"
    return f"<Stream {handle if device.kind == 'sim' else hex(handle)} on {device}>"  # reports of `sim` count them


def event_text(device: Device | None, **options: bool) -> str:
    """An event in words, by the device that it was recorded on and by how it was made; asks no device."""
    parts = ["not recorded" if device is None else f"recorded on {device}"]
    parts += ["without timing"] if not options.pop("timing") else []
    return f"<Event {', '.join([*parts, *(name for name, is_on in options.items() if is_on)])}>"


class RawEvent(Protocol):
    """A point in a stream's work. Opaque to shared code."""


class PinnedBlock(Protocol):
    """Page-locked host memory; released when the object dies."""

    pointer: int
    nbytes: int


class RawKernel(Protocol):
    """A compiled kernel, loaded on one device. Opaque to shared code."""


def handle_of(native: Any) -> int | None:
    """The ``cudaStream_t`` of a stream object; PyCUDA's has ``handle`` instead of ``__cuda_stream__``."""
    try:
        protocol = getattr(native, "__cuda_stream__", None)
        found = native if type(native) is int else getattr(native, "handle", None)
        if protocol is not None:
            version, found = protocol() if callable(protocol) else protocol
            if operator.index(version):  # a later version of the protocol, which may mean anything
                return None
        if isinstance(found, (bool, float, complex, str, bytes)):
            return None
        handle = int(found)  # type: ignore[arg-type]  # a handle of cuda.bindings has `__int__` alone
    except Exception:  # a foreign object may raise anything; it is no stream
        return None
    return handle if 0 <= handle < 1 << 64 else None


def call_guarded(function: Callable[..., object], args: tuple[Any, ...]) -> None:
    """Call a host function in the order of a stream, where nothing could be raised."""
    try:
        function(*args)
    except Exception:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def staging_failure(code: int, stream: RawStream) -> Exception:
    """The error for a result of `StagingCalls` that is not 0, where the backend knows no more than the number."""
    return TransferError(f"a copy on {stream.device} failed with code {code}; `xferlib info` shows the devices")


@dataclass(frozen=True, slots=True)
class StagingCalls:
    """Addresses of C functions that return 0 for success, for staging without the GIL."""

    copy: int
    """``int copy(uint64_t dst, uint64_t src, size_t nbytes, void *stream)``: enqueue, from or to pinned memory."""
    record: int
    """``int record(void *event, void *stream)``; events and streams are passed by their ``handle``."""
    wait: int
    """``int wait(void *event)``: block until the event completes."""
    order: int = 0
    """``int order(void *stream, void *event, unsigned flags)``: make a stream wait for an event; 0: the host waits."""
    enter: int = 0
    """``int enter(void *context)``: each thread calls it before the others; 0 where none is needed."""
    context: int = 0
    """The argument of `enter`."""
    inside: Callable[[], AbstractContextManager[None]] = nullcontext
    """A context manager in which a Python thread may make these calls for the device."""
    failure: Callable[[int, RawStream], BaseException] = staging_failure
    """The error for a result that is not 0."""


class OperationListener(Protocol):
    """Receives the operations of a backend's devices, from a backend that knows them without events."""

    def __call__(
        self,
        kind: str,
        name: str,
        nbytes: int,
        device: str,
        stream: int | str,
        start_s: float,
        end_s: float,
        location: CodeLocation,
    ) -> None:
        """One operation.

        Args:
            kind: A value of `xferlib._core.observe.Kind`.
            name: What it is.
            nbytes: Bytes moved; for a kernel those of its arrays.
            device: Where, such as ``"sim:0"``.
            stream: The stream's handle; for a staging step the name of the thread.
            start_s, end_s: On the clock of `Backend.host_s`.
            location: The line of the program that requested it.
        """
