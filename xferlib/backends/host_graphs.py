"""Captures on a CPU: the operations that the capturing thread gives to a device are noted, and repeated by a launch.

The notes come from the hooks of a recording, which pass every kernel and every copy of xferlib's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xferlib._core import observe
from xferlib._runtime.fork import reset_in_child

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.observe import Kind
    from xferlib._core.raw import RawStream


class HostCaptures:
    """The captures that are open on CPU devices: a recorder that notes their operations and does all others."""

    is_capture = True

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._open: dict[tuple[int, Device], tuple[RawStream, list[Callable[[], None]]]] = {}
        self._lock = threading.Lock()

    def open(self, stream: RawStream) -> None:
        """Note from now on what this thread gives to the stream's device."""
        with self._lock:
            if not self._open:
                observe.activate(self)
            self._open[threading.get_ident(), stream.device] = (stream, [])

    def close(self, device: Device) -> Callable[[RawStream], None] | None:
        """End that; return the function that does it all, None where it is nothing."""
        with self._lock:
            _, steps = self._open.pop((threading.get_ident(), device))
            if not self._open:
                observe.activate(None)

        def run(_: RawStream) -> None:
            for step in steps:
                step()

        return run if steps else None

    def stream(self, device: Device) -> RawStream | None:
        """The stream that this thread captures."""
        found = self._open.get((threading.get_ident(), device)) if self._open else None
        return None if found is None else found[0]

    def note(self, device: Device, step: Callable[[], None]) -> None:
        """Note one more operation of this thread's capture."""
        self._open[threading.get_ident(), device][1].append(step)

    # --- as a recorder

    def on_host(
        self, kind: Kind, name: str, nbytes: int, backend: Backend, device: Device, run: Callable[[], None]
    ) -> None:
        found = self._open.get((threading.get_ident(), device))
        if found is None:
            run()
        else:
            found[1].append(run)

    def enqueue(
        self, kind: Kind, name: str, nbytes: int, backend: Backend, stream: RawStream, run: Callable[[], Any]
    ) -> Any:
        return run()

    def begin(self, backend: Backend) -> None:
        """Calls are not noted."""

    def called(self, begun: Any, backend: Backend, nbytes: int = 0) -> None:
        """As above."""

    def moving(self, kind: Kind, nbytes: int, pieces: int, backend: Backend, stream: RawStream) -> None:
        """Copies of other devices are done as usual."""

    def met(self, backend: Backend) -> None:
        """As above."""


captures = HostCaptures()
reset_in_child(captures._reset)
