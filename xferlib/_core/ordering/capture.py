"""Open captures of streams, whose work is recorded for a graph instead of being done: see `graph` beside this file.

A stream that is captured has its `Capture` as ``RawStream.capture``. Code that waits for a stream, or asks it, calls
`refuse` first: on a GPU such a call would spoil the capture. Code that keeps objects until an event keeps them in the
capture instead, as long as the graph exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xferlib._core.raw import captured, opened
from xferlib.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream


class RecordedWork:
    """The operations of some streams in the order in which they were given, for backends that repeat them one by one.

    Args:
        origin: The stream that is captured.
    """

    __slots__ = ("_steps", "kept", "origin")

    def __init__(self, origin: Any) -> None:
        self.origin = origin
        self.kept: list[Any] = []
        """Arrays that the operations use."""
        self._steps: list[tuple[Any, Callable[[Any, dict[int, Any]], None]]] = []

    def add(self, stream: Any, step: Callable[[Any, dict[int, Any]], None]) -> None:
        """Note an operation: called with the stream that takes the place of its own, and the events recorded so far."""
        self._steps.append((stream, step))

    @property
    def is_empty(self) -> bool:
        return not self._steps

    @property
    def others(self) -> list[Any]:
        """The streams besides the first one."""
        return [each for each in dict.fromkeys(stream for stream, _ in self._steps) if each is not self.origin]

    def repeat(self, streams: Mapping[Any, Any]) -> None:
        """Give all operations to other streams; ``streams`` has one in the place of each."""
        events: dict[int, Any] = {}
        for stream, step in self._steps:
            step(streams[stream], events)


def unjoined(doing: str) -> CaptureError:
    """The error for a capture that leaves work of a stream which has waited for the captured one."""
    return CaptureError(
        f"{doing}: another stream has waited for the captured one, and its work was not waited for; call "
        "stream.wait(other) before the block ends"
    )


def refuse(call: str, stream: RawStream) -> None:
    """Refuse a call on a stream that is captured.

    Raises:
        CaptureError: It is.
    """
    if stream.capture is not None:
        raise captured(call, stream.device)


def refuse_current(call: str, backend: Backend, device: Device) -> None:
    """Refuse a call that works on streams of its own, where the calling thread captures its current one.

    Raises:
        CaptureError: It does.
    """
    if opened:
        refuse(call, backend.stream_current(device))
