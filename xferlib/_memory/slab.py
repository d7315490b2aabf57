"""Slabs: a thread's own pinned memory for small copies, taken in turn.

The obvious way is one pinned buffer a thread and an event after each copy, waited for before the next. That is one
more driver call for each small copy, and the wait makes the host and the link take turns. A pool that threads share
would need a lock at each copy.

So a slab has four segments. Copies fill one from its start; when the next one does not fit, one event is recorded for
each stream that the segment was used on, and the thread goes on with the segment whose events are the oldest: usually
they are complete, so the wait is short.

Guaranteed: the bytes that `Slab.take` returns are used by no copy in flight, if each caller enqueues its copy, on the
stream that it named, before its thread takes again. The segment keeps those streams alive until it has recorded its
events.

There is no lock: a slab belongs to one thread. When the thread ends its slab becomes idle, for the next thread, by
one ``append`` to a list, atomic under the GIL; it is never freed but by `trim`, which waits for its copies.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core.raw import recorded
from xferlib._core.thresholds import MEDIUM_NBYTES, SCRATCH_NBYTES, SMALL_SEGMENT_NBYTES
from xferlib._memory import host
from xferlib._runtime.fork import reset_in_child
from xferlib._runtime.handoff import Handed

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawEvent, RawStream


_SEGMENTS = 4
_SCRATCH = 0
"""In place of a segment's size: the slab of `scratch_of`."""


_MOST_STREAMS = 32
"""A segment keeps the streams of its copies, which may have been dropped, until the next one is begun."""


class _Segment:
    __slots__ = ("bytes", "events", "pointer", "streams", "used")

    def __init__(self, data: np.ndarray[Any, Any], pointer: int) -> None:
        self.bytes = data
        self.pointer = pointer
        self.used = 0
        self.streams: dict[tuple[Device, int], RawStream] = {}
        self.events: list[RawEvent] = []


class Slab(Handed):
    """One thread's pinned memory for copies of one size or less: taken in turn, one event a segment and stream."""

    def __init__(self, backend: Backend, segment_nbytes: int, segments: int = _SEGMENTS) -> None:
        self._backend = backend
        self._segment_nbytes = segment_nbytes
        block = backend.pinned_alloc(segments * segment_nbytes)
        self.pointer = block.pointer
        data = host.bytes_over(block.pointer, block.nbytes, block)
        self._segments = [
            _Segment(data[start : start + segment_nbytes], block.pointer + start)
            for start in range(0, segments * segment_nbytes, segment_nbytes)
        ]
        self._index = 0

    def take(self, nbytes: int, stream: RawStream) -> tuple[np.ndarray[Any, Any], int]:
        """Return bytes that no copy uses, and their address, for one copy on ``stream``."""
        self.take_over()
        segment = self._segments[self._index]
        if segment.used + nbytes > self._segment_nbytes or len(segment.streams) > _MOST_STREAMS:
            segment = self._advance()
        start = segment.used
        segment.used = -(-(start + nbytes) // 64) * 64
        segment.streams[stream.device, stream.handle] = stream
        return segment.bytes[start : start + nbytes], segment.pointer + start

    def emptied(self) -> None:
        """Note that the caller has waited for a copy into the slab: who takes bytes next need not."""
        self.hand_on()

    def _advance(self) -> _Segment:
        full = self._segments[self._index]
        full.events += [self._backend.event_record(stream, timing=False) for stream in full.streams.values()]
        full.streams = {}
        index = (self._index + 1) % len(self._segments)
        fresh = self._segments[index]
        for event in fresh.events:
            self._backend.event_synchronize(event)  # if this is interrupted, the next call begins here
        self.hand_on()  # the next thread may use the rest of the segment, and waits for none of these
        fresh.events = []
        fresh.used = 0
        self._index = index
        return fresh

    def settle(self) -> int:
        """Wait until no copy uses the slab; returns its bytes. Any thread may, also one that never used a device."""
        for segment in self._segments:
            for stream in segment.streams.values():
                self._backend.attach(stream.device)
        for _ in range(len(self._segments) + 1):
            self._advance()
        return len(self._segments) * self._segment_nbytes


class _Tenancy:
    """A thread's use of a slab, which outlives the thread, as its copies may still be in flight."""

    __slots__ = ("kind", "pid", "slab")

    def __init__(self, slab: Slab, kind: tuple[str, int]) -> None:
        self.slab = slab
        self.kind = kind
        self.pid = os.getpid()

    def __del__(self) -> None:
        try:
            if self.pid == os.getpid():
                _idle_slabs.setdefault(self.kind, []).append(self.slab)
        except Exception:  # the interpreter is going away
            return


_idle_slabs: dict[tuple[str, int], list[Slab]] = {}
"""Slabs of threads that have ended, by domain and size of a segment; each still has the events to wait for."""


_local = threading.local()


def slab_of(backend: Backend, nbytes: int, stream: RawStream) -> Slab:
    """This thread's slab, for a backend's family and a copy on ``stream``.

    Args:
        nbytes: That a segment must hold; `MEDIUM_NBYTES` at most.

    Raises:
        CaptureError: A graph records the stream: each of its launches would copy whatever is in the slab then.
    """
    if stream.handle and backend.stream_is_recorded(stream):
        raise recorded(stream.device)
    return _own(
        backend, (backend.pinned_domain, SMALL_SEGMENT_NBYTES if nbytes <= SMALL_SEGMENT_NBYTES else MEDIUM_NBYTES)
    )


def scratch_of(backend: Backend) -> int:
    """The address of `SCRATCH_NBYTES` of this thread's pinned memory, for one call of C that waits for its copy.

    Nothing need be noted: whatever runs in this thread before the call has done with them, too.
    """
    return _own(backend, (backend.pinned_domain, _SCRATCH)).pointer


def _own(backend: Backend, kind: tuple[str, int]) -> Slab:
    tenancies: dict[tuple[str, int], _Tenancy] = _local.__dict__  # type: ignore[assignment]  # its own, not an object's
    tenancy = tenancies.get(kind)
    if tenancy is None:
        tenancy = tenancies[kind] = _Tenancy(_idle_slab(backend, kind), kind)
    return tenancy.slab


def _idle_slab(backend: Backend, kind: tuple[str, int]) -> Slab:
    try:
        slab = _idle_slabs[kind].pop()
    except (KeyError, IndexError):
        return Slab(backend, SCRATCH_NBYTES, 1) if kind[1] == _SCRATCH else Slab(backend, kind[1])
    slab.take_over()
    return slab


def trim() -> int:
    """Free the slabs of threads that have ended; returns the bytes given up."""
    nbytes = 0
    for slabs in tuple(_idle_slabs.values()):  # other threads may add to them meanwhile
        with contextlib.suppress(IndexError):  # none is left, or another thread has taken the last
            while True:
                nbytes += slabs.pop().settle()
    return nbytes


def _after_fork_in_child() -> None:
    """The parent's pinned memory is not this process's."""
    _idle_slabs.clear()
    _local.__dict__.clear()


reset_in_child(_after_fork_in_child)
