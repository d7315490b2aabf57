"""A program that fills a stream's queue behind a host function that needs the GIL: `python full_queue.py BACKEND WHAT`.

It hangs, and is killed from outside, where anything that may block in the driver holds the GIL.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import xferlib as xl

MANY = 20_000
HELD_S = 0.5
"""How long the host function keeps the stream, so that its queue is full by then."""


def hold(stream: xl.Stream) -> Any:
    """Let the stream wait for a function in Python; what is returned must stay alive until it has run."""
    from cuda.bindings import driver

    pause = threading.Event()
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: bool(pause.wait(HELD_S)) and None)
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    (result,) = driver.cuLaunchHostFunc(stream.handle, driver.CUhostFn(address), 0)
    assert int(result) == 0, result
    return function


@xl.elementwise
def twice(x: Any) -> Any:
    return x + x


def works(stream: xl.Stream) -> dict[str, Callable[[], object]]:
    """The operations to repeat, by name; each is ordered on ``stream``."""
    other = xl.Stream(stream.device)
    pinned = xl.pinned_array(np.arange(64, dtype=np.float32))
    small = np.arange(64, dtype=np.float32)
    on_device = xl.to_device(small, device=stream.device)
    back = xl.pinned_empty(64, np.float32)
    target = xl.empty_like(on_device)
    xl.synchronize()
    event = stream.record()

    def free() -> None:
        with stream:
            made = xl.empty(64, np.float32, device=stream.device)
        other.wait(stream)
        twice(made)

    def launch() -> None:
        with stream:
            twice(on_device, out=target)

    def query() -> None:
        stream.record(xl.Event(timing=False))
        _ = (stream.is_done, event.is_done, other.is_done)

    return {
        "record": stream.record,
        "record again": lambda: stream.record(event),
        "wait": lambda: stream.wait(other),
        "query": query,
        "upload pinned": lambda: xl.to_device(pinned, stream=stream, out=target),
        "upload small": lambda: xl.to_device(small, stream=stream, out=target),
        "download": lambda: xl.to_host_async(on_device, stream=stream, out=back),
        "copy": lambda: xl.to_device(on_device, stream=stream),
        "launch": launch,
        "free": free,
    }


def main(backend: str, what: str) -> None:
    xl.use_backend(backend)
    stream = xl.Stream(xl.get_device())
    work = works(stream)[what]
    for _ in range(4):
        work()
    xl.synchronize()
    kept = hold(stream)
    for _ in range(MANY):
        work()
    xl.synchronize()
    del kept
    print("passed")


if __name__ == "__main__":
    main(*sys.argv[1:])
