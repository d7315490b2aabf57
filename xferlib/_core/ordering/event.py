"""Events: points in the work of streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from xferlib._core import devices, observe, registry
from xferlib._core.device import Device, DeviceSpec
from xferlib._core.ordering.bound import ProcessBound
from xferlib._core.raw import captured, event_text
from xferlib._runtime import peer_names
from xferlib._runtime.checks import refuse_no_flag
from xferlib.errors import ArgumentError, StreamError, StreamTypeError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.raw import Capture, RawEvent, RawStream


class Event(ProcessBound):
    """A point in a stream's work.

    Args:
        timing: Whether `elapsed_ms` can be asked; recording is a little cheaper without.
        blocking: A thread that waits sleeps, where the driver would poll.
        interprocess: Other processes may wait for it: see `ipc_handle`. It belongs to one device, and has no timing.

    Raises:
        ArgumentError: ``interprocess`` and ``timing`` together, or what is no flag.
    """

    __slots__ = ("_backend", "_capture", "_device", "_raw", "blocking", "interprocess", "timing")
    _elsewhere = "send ipc_handle() of an Event(interprocess=True), and open it there: Event.from_ipc_handle(handle)"

    def __init__(self, *, timing: bool | None = None, blocking: bool = False, interprocess: bool = False) -> None:
        timing = interprocess is False if timing is None else timing
        for name, flag in (("timing", timing), ("blocking", blocking), ("interprocess", interprocess)):
            refuse_no_flag(flag, f"Event: {name}")
        if timing and interprocess:
            raise ArgumentError("Event: interprocess events have no timing; leave timing=True out")
        self.timing = timing
        self.blocking = blocking
        self.interprocess = interprocess
        self._backend: Backend | None = None
        self._raw: RawEvent | None = None
        self._device: Device | None = None
        self._capture: Capture | None = None
        """The capture in which it was recorded last."""

    @classmethod
    def from_ipc_handle(cls, handle: bytes, device: DeviceSpec = None) -> Event:
        """The event of another process, by its `ipc_handle`; ``device`` is where it was recorded.

        Raises:
            UnsupportedError: The device's events cannot be shared.
        """
        target = devices.get_device(device)
        event = cls(interprocess=True)
        backend = registry.get(target.backend).at(target)
        event._raw = backend.event_open(target, handle)
        event._backend, event._device = backend, target
        return event

    def ipc_handle(self) -> bytes:
        """The bytes by which another process opens this event; it must have been recorded once.

        Raises:
            StreamError: It was not made with ``interprocess=True``, or has not been recorded.
        """
        if not self.interprocess or self._backend is None:
            raise StreamError("ipc_handle needs a recorded event made with interprocess=True; record it first")
        return self._backend.event_ipc_handle(self._raw)

    def _record(self, backend: Backend, raw: RawStream) -> None:
        """Record this event on a stream."""
        made = None
        if self.blocking or self.interprocess:
            if self._device is raw.device:
                made = self._raw
            elif self.interprocess and self._device is not None:
                raise StreamError(f"an interprocess event of {self._device} is not for {raw.device}; make another")
            else:
                made = backend.event_make(
                    raw.device, timing=self.timing, blocking=self.blocking, interprocess=self.interprocess
                )
        self._raw = backend.event_record(raw, timing=self.timing, event=made)
        self._backend, self._device = backend, raw.device
        self._capture = raw.capture

    def _refuse_captured(self, call: str) -> None:
        if self._capture is not None:
            assert self._device is not None
            raise captured(call, self._device)

    @property
    def is_done(self) -> bool:
        """Whether the recorded work has finished; True before the first record, as in CUDA."""
        self._refuse_captured("Event.is_done")
        return self._backend is None or self._backend.event_done(self._raw)

    def synchronize(self) -> None:
        """Block until the recorded work has finished."""
        self._refuse_captured("Event.synchronize")
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
        check_event(start, "elapsed_ms: start")
        for event in (start, self):
            event._refuse_captured("Event.elapsed_ms")
            if event._backend is None or not event.timing:
                raise StreamError(
                    "elapsed_ms needs two recorded events made with timing=True; "
                    f"{'the start' if event is start else 'this one'} is not: Event(timing=True), then stream.record()"
                )
        assert self._backend is not None
        clocks = {(each._backend.pinned_domain, each._device.index) for each in (start, self)}  # type: ignore[union-attr]
        if len(clocks) > 1:
            raise StreamError(
                f"elapsed_ms: the start was recorded on {start._device} and this event on {self._device}, whose clocks "
                "differ; record both on one device"
            )
        start.synchronize()  # it may lie on another stream, and come later
        self.synchronize()
        return self._backend.event_elapsed_ms(start._raw, self._raw)

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            peer_names.refuse(self, name, peer_names.EVENT_NAMES)

    def __repr__(self) -> str:
        return event_text(self._device, timing=self.timing, blocking=self.blocking, interprocess=self.interprocess)


def check_event(event: object, what: str) -> None:
    """Refuse what is no event.

    Raises:
        StreamTypeError: It is none.
    """
    if not isinstance(event, Event):
        raise StreamTypeError(f"{what} is {type(event).__name__}, not an Event; make one with xferlib.Event()")
