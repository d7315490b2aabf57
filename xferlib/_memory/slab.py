"""Slabs: a thread's own pinned memory for small copies, taken in turn."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core.thresholds import MEDIUM_NBYTES, SMALL_SEGMENT_NBYTES
from xferlib._memory import host
from xferlib._runtime import happens_before
from xferlib._runtime.fork import reset_in_child

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawEvent, RawStream


_SEGMENTS = 4


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


class Slab:
    """One thread's pinned memory for copies of one size or less: taken in turn, one event a segment and stream."""

    def __init__(self, backend: Backend, segment_nbytes: int) -> None:
        self._backend = backend
        self._segment_nbytes = segment_nbytes
        block = backend.pinned_alloc(_SEGMENTS * segment_nbytes)
        data = host.bytes_over(block.pointer, block.nbytes, block)
        self._segments = [
            _Segment(data[start : start + segment_nbytes], block.pointer + start)
            for start in range(0, _SEGMENTS * segment_nbytes, segment_nbytes)
        ]
        self._index = 0
        self.handover: object = None

    def take(self, nbytes: int, stream: RawStream) -> tuple[np.ndarray[Any, Any], int]:
        """Bytes that no copy uses, and their address, for one copy on ``stream``."""
        segment = self._segments[self._index]
        if segment.used + nbytes > self._segment_nbytes or len(segment.streams) > _MOST_STREAMS:
            segment = self._advance()
        start = segment.used
        segment.used = -(-(start + nbytes) // 64) * 64
        segment.streams[stream.device, stream.handle] = stream
        return segment.bytes[start : start + nbytes], segment.pointer + start

    def _advance(self) -> _Segment:
        full = self._segments[self._index]
        full.events = [self._backend.event_record(stream, timing=False) for stream in full.streams.values()]
        full.streams = {}
        self._index = (self._index + 1) % _SEGMENTS
        fresh = self._segments[self._index]
        for event in fresh.events:
            self._backend.event_synchronize(event)
        happens_before.given(self)  # the next thread may use the rest of the segment, and waits for none of these
        fresh.events = []
        fresh.used = 0
        return fresh

    def settle(self) -> int:
        """Wait until no copy uses the slab; returns its bytes. Any thread may, also one that never used a device."""
        for segment in self._segments:
            for stream in segment.streams.values():
                self._backend.attach(stream.device)
        for _ in range(_SEGMENTS + 1):
            self._advance()
        return _SEGMENTS * self._segment_nbytes


class _Tenancy:
    """A thread's use of a slab, which outlives the thread: its copies may still be under way then."""

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
"""By domain and size of a segment. Of threads that have ended, for those to come: each knows what still reads it."""


_local = threading.local()


def slab_of(backend: Backend, nbytes: int) -> Slab:
    """This thread's slab, for a backend's family, that so many bytes fit into; `MEDIUM_NBYTES` at most."""
    kind = (backend.pinned_domain, SMALL_SEGMENT_NBYTES if nbytes <= SMALL_SEGMENT_NBYTES else MEDIUM_NBYTES)
    tenancies: dict[tuple[str, int], _Tenancy] = _local.__dict__  # type: ignore[assignment]  # its own, not an object's
    tenancy = tenancies.get(kind)
    if tenancy is None:
        tenancy = tenancies[kind] = _Tenancy(_idle_slab(backend, kind), kind)
    return tenancy.slab


def _idle_slab(backend: Backend, kind: tuple[str, int]) -> Slab:
    try:
        slab = _idle_slabs[kind].pop()
    except (KeyError, IndexError):
        return Slab(backend, kind[1])
    happens_before.taken(slab)
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
