"""What shared code gives to devices, to threads and to the host, for whoever records it.

Every copy, staging step and launch passes here, or looks at `active` first: where nobody records, that is all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from xferlib._device import Device
    from xferlib.backends.base import Backend, RawStream


class Kind(StrEnum):
    """What an operation is, and so the lane it is drawn in."""

    CALL = "call"
    STAGING = "staging"
    H2D = "h2d"
    KERNEL = "kernel"
    D2H = "d2h"
    D2D = "d2d"
    PEER = "peer"
    RANGE = "range"


class PieceLog(Protocol):
    """What a recording learns of a staged transfer afterwards."""

    events: list[tuple[int, int]]
    """For each copy the handles of the events to record before and after it."""

    def copied(self, number: int, kind: Kind, nbytes: int, start_s: float, end_s: float, thread: str) -> None:
        """A copy was enqueued, with the events of that number around it; times of `time.perf_counter`."""

    def staged(self, nbytes: int, start_s: float, end_s: float, thread: str) -> None:
        """A thread has filled or emptied a part of a chunk."""


class Recorder(Protocol):
    """Notes what happens, and when; must not wait for a device."""

    def enqueue(
        self, kind: Kind, name: str, nbytes: int, backend: Backend, stream: RawStream, run: Callable[[], Any]
    ) -> Any:
        """Do ``run``, which enqueues one operation on ``stream``."""

    def on_host(
        self, kind: Kind, name: str, nbytes: int, backend: Backend, device: Device, run: Callable[[], None]
    ) -> None:
        """Do ``run``, which is an operation of a CPU device and complete when it returns."""

    def begin(self, backend: Backend) -> Any:
        """Something on the host begins; what is returned goes to `called` or `staged`."""

    def called(self, begun: Any, backend: Backend, nbytes: int = 0) -> None:
        """A call of the user's is about to return."""

    def staged(self, begun: Any, backend: Backend, nbytes: int) -> None:
        """The calling thread has copied so much between ordinary and page-locked memory."""

    def pieces(self, backend: Backend, stream: RawStream, count: int) -> PieceLog | None:
        """A transfer in ``count`` copies on ``stream`` begins, of which nobody speaks before its end."""

    def met(self, backend: Backend) -> None:
        """A backend has been loaded."""


active: Recorder | None = None
"""Whoever records; None where nobody does."""


def copy(kind: Kind, dst: int, src: int, nbytes: int, backend: Backend, stream: RawStream) -> None:
    """Enqueue a copy."""
    recorder = active
    if recorder is None:
        backend.copy(dst, src, nbytes, stream=stream)
    else:
        recorder.enqueue(kind, "copy", nbytes, backend, stream, lambda: backend.copy(dst, src, nbytes, stream=stream))


def driver_copy(kind: Kind, dst: int, src: int, nbytes: int, backend: Backend, stream: RawStream) -> bool:
    """Let the driver copy from or to ordinary memory; False if it does not take it."""
    copy = backend.copy_to_device if kind is Kind.H2D else backend.copy_to_host
    recorder = active
    if recorder is None:
        return copy(dst, src, nbytes, stream=stream)
    run = lambda: copy(dst, src, nbytes, stream=stream)
    return bool(recorder.enqueue(kind, "driver copy", nbytes, backend, stream, run))


def begin(backend: Backend) -> Any:
    """A staging step begins."""
    return None if active is None else active.begin(backend)


def staged(begun: Any, backend: Backend, nbytes: int) -> None:
    """A staging step has ended."""
    recorder = active
    if recorder is not None and begun is not None:
        recorder.staged(begun, backend, nbytes)


def _after_fork_in_child() -> None:
    """The parent's trace is not this process's."""
    global active
    active = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
