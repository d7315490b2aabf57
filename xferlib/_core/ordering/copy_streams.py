"""xferlib's own streams for asynchronous copies: one a device and direction, so that both copy engines can run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from xferlib._runtime.fork import reset_in_child

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawEvent, RawStream


streams: dict[tuple[Device, str], RawStream] = {}


_lock = threading.RLock()  # reentrant: a finalizer may run inside


def copy_stream(backend: Backend, device: Device, direction: str) -> RawStream:
    """xferlib's own stream for asynchronous copies in one direction, so that both engines can run."""
    key = (device, direction)
    stream = streams.get(key)
    if stream is None:
        with _lock:
            stream = streams.get(key)
            if stream is None:
                stream = backend.stream_create(device, non_blocking=True, priority=0)
                streams[key] = stream
    return stream


reset_in_child(streams.clear)


def copy_behind(
    backend: Backend,
    dst: int,
    src: int,
    nbytes: int,
    *,
    behind: RawStream,
    stream: RawStream,
    event: RawEvent | None,
    copied: RawEvent | None = None,
) -> tuple[RawEvent, RawEvent]:
    """Enqueue one copy on ``stream`` after the work enqueued so far on ``behind``, a stream of the same device.

    Returns:
        ``event`` or a new one, recorded on ``behind``; and ``copied`` or a new one, recorded after the copy.
    """
    if backend.fast is not None and event is not None:
        done = backend.fast.copy_behind(dst, src, nbytes, behind=behind, stream=stream, event=event, copied=copied)
        if done is not None:
            return event, done
    event = backend.event_record(behind, timing=False, event=event)
    backend.event_wait(stream, event)
    backend.copy(dst, src, nbytes, stream=stream)
    return event, backend.event_record(stream, timing=False, event=copied)
