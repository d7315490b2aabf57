"""xferlib's own streams for asynchronous copies: one a device and direction, so that both copy engines can run."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from xferlib._runtime.fork import reset_in_child

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream


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
