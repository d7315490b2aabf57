"""The ring of pinned chunks that threads fill and drain for staged transfers.

The obvious way is a queue of free buffers, from which each thread takes one when it needs one. It fails in four ways.
Threads that hold one chunk and wait for the next deadlock. Transfers of one direction take everything, and the other
direction stops. A transfer that waits gets the first chunk that comes back, and crawls with that one. And waiting for
a chunk whose copy is in flight, while more could be made, makes filling and sending take turns.

So a thread that holds a chunk never waits for another one. A transfer staged in C borrows all its chunks at once, at
most `LENT_CHUNKS`, of which one direction gets at most `ONE_WAY_CHUNKS`; chunks that are given back together become
free together. A thread in want of a chunk first drives a job that holds chunks and that no Python thread is driving.
Guaranteed: `acquire` returns a chunk that no copy uses; a borrowed chunk may still be read by an earlier copy, and
has the event to wait for. No chunk is freed while a copy may use it: after an error `abandon` waits for the stream,
or, if the device no longer answers, never uses the chunk again.

Locks, never held together: `_lock` for the number of chunks, `ChunkQuota.changed` for how many each direction has and
for orphaned jobs, `_giving` while several chunks change owner. The fields of a chunk belong to the thread that has it.
"""

from __future__ import annotations

import contextlib
import threading
from operator import attrgetter
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core.thresholds import CHUNK_NBYTES, LENT_CHUNKS, RING_CHUNKS
from xferlib._memory import host
from xferlib._memory.chunk_quota import PATIENCE_S, ChunkQuota
from xferlib._memory.domains import PerDomain
from xferlib._runtime.handoff import Handed
from xferlib._runtime.interrupts import deferred
from xferlib.errors import PinnedMemoryError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.raw import RawEvent, RawStream


class Chunk(Handed):
    """A pinned chunk of the ring, and the event after which it may be filled again.

    The event is the chunk's own, recorded anew at each use: creating one costs as much as a copy call.
    """

    __slots__ = ("bytes", "device_index", "event", "is_busy", "pointer")

    def __init__(self, backend: Backend) -> None:
        block = backend.pinned_alloc(CHUNK_NBYTES)
        self.pointer = block.pointer
        self.bytes = host.bytes_over(block.pointer, CHUNK_NBYTES, block)
        self.event: RawEvent | None = None
        self.is_busy = False
        self.device_index = -1
        """Of the device of its event; -1 before the first."""

    def copy(self, dst: int, src: int, nbytes: int, backend: Backend, stream: RawStream) -> None:
        """Enqueue a copy from or to this chunk, and remember when it will be done."""
        again = self.event if self.device_index == stream.device.index else None  # events belong to one device
        backend.copy(dst, src, nbytes, stream=stream)
        self.event = backend.event_record(stream, timing=False, event=again)
        self.device_index = stream.device.index
        self.is_busy = True

    def prepare(self, backend: Backend, stream: RawStream) -> None:
        """Make an event for the stream's device, which is another than the last one's."""
        self.wait(backend)
        self.event = backend.event_record(stream, timing=False)
        self.device_index = stream.device.index

    def wait(self, backend: Backend) -> None:
        """Block until the copy is done."""
        if self.is_busy:
            backend.event_synchronize(self.event)
            self.is_busy = False

    def as_array(self, shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int) -> np.ndarray[Any, Any]:
        return self.bytes[:nbytes].view(dtype).reshape(shape)


_POINTER = attrgetter("pointer")


class Ring:
    """Chunks in the order of their release, so that the oldest event is waited for first."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._free: SimpleQueue[Chunk | None] = SimpleQueue()
        self._lock = threading.RLock()  # reentrant: a finalizer may run inside
        self._giving = threading.RLock()  # held while several chunks are given back at once
        self._count = 0  # chunks there are, or are being made
        self.quota = ChunkQuota()
        self._lost: list[Chunk] = []
        """Chunks that a device that no longer answers may still use."""
        self._made = 0

    def acquire(self) -> Chunk:
        """A chunk that no copy uses; blocks until one is free. The caller holds no other."""
        while (chunk := self._take() or self._next_free()) is None:
            pass  # trimmed away while this thread waited: there is room for another
        return self._settled(chunk)

    def acquire_idle(self) -> Chunk | None:
        """A chunk that no thread holds, if there is one."""
        try:
            chunk = self._take()
        except PinnedMemoryError:
            return None
        return self._settled(chunk) if chunk is not None else None

    def borrow(self, most: int, stream: RawStream, *, is_upward: bool, waits: bool = True) -> list[Chunk]:
        """Chunks for a whole transfer on ``stream``, that earlier copies may still use; waits for one or returns none.

        The caller gives back all, and borrows none meanwhile unless without waiting.
        """
        count = self.quota.take(most, is_upward, waits=waits)
        if not count:
            return []
        chunks: list[Chunk] = []
        try:
            chunks = self._at_hand(count, waits=waits)
            for chunk in chunks:
                if chunk.device_index != stream.device.index:
                    chunk.prepare(self.backend, stream)
        except BaseException:
            self._give_back(chunks)
            self.quota.give(count, is_upward)
            raise
        self.quota.give(count - len(chunks), is_upward)
        return chunks

    def _at_hand(self, count: int, *, waits: bool) -> list[Chunk]:
        while True:
            ready: list[Chunk] = []
            with self._giving:  # all that another transfer gives back: with one of them a transfer would crawl
                with contextlib.suppress(Empty):
                    while True:
                        if (chunk := self._free.get_nowait()) is not None:
                            ready.append(chunk)
                ready.sort(key=_POINTER)  # the same ones each time: they are in the cache
                for chunk in ready[count:]:
                    self._free.put(chunk)
            chunks = ready[:count]
            while len(chunks) < count and (made := self._make(RING_CHUNKS)) is not None:
                chunks.append(made)
            if chunks or not waits:
                return chunks
            self._free.put(self._next_free())  # wait for one

    def _next_free(self) -> Chunk | None:
        """Wait for the next released chunk.

        If chunks are held by a job that no thread is driving, drive it to completion here, or we would deadlock.
        """
        while True:
            deferred.check()
            self.quota.drive()
            with contextlib.suppress(Empty):
                return self._free.get(timeout=PATIENCE_S)  # a job may be orphaned meanwhile

    def give_back(self, chunks: list[Chunk], *, is_upward: bool) -> None:
        """Give back what was borrowed."""
        self._give_back(chunks)
        self.quota.give(len(chunks), is_upward)

    def _give_back(self, chunks: list[Chunk]) -> None:
        with self._giving:
            for chunk in chunks:
                chunk.hand_on()
                self._free.put(chunk)

    def _settled(self, chunk: Chunk) -> Chunk:
        chunk.take_over()
        if chunk.is_busy:
            try:
                chunk.wait(self.backend)
            except BaseException:
                self.release(chunk)
                raise
        return chunk

    def _take(self) -> Chunk | None:
        """Return a free chunk or make one; None when it is worth waiting for those in use."""
        ready = self._ready()
        if ready is not None and self._has_arrived(ready):
            return ready
        # Rather than wait for a copy: filling and sending would take turns.
        made = self._make(RING_CHUNKS if ready is None else LENT_CHUNKS)
        if made is not None and ready is not None:
            self._free.put(ready)
        return made or ready

    def _ready(self) -> Chunk | None:
        """The chunk given back first; None if every chunk is with a thread."""
        try:
            while (free := self._free.get_nowait()) is None:
                pass
        except Empty:
            return None
        return free

    def _has_arrived(self, chunk: Chunk) -> bool:
        """Whether no copy uses the chunk any more; not asked where the ring cannot grow instead."""
        if not chunk.is_busy or self._count >= LENT_CHUNKS:
            return True
        try:
            chunk.is_busy = not self.backend.event_done(chunk.event)
        except BaseException:
            self.release(chunk)
            raise
        return not chunk.is_busy

    def _make(self, most: int) -> Chunk | None:
        """Another chunk; None where there are ``most``, or pinned memory is short and there are others."""
        if self._count >= most:
            return None
        with self._lock:
            may_grow = self._count < most
            self._count += may_grow
        if not may_grow:
            return None
        try:
            chunk = Chunk(self.backend)
        except BaseException:
            with self._lock:
                self._count -= 1
                has_others = self._made > 0
            if has_others:  # short of pinned memory: go on with the chunks there are
                return None
            raise
        with self._lock:
            self._made += 1
        return chunk

    def release(self, chunk: Chunk) -> None:
        """Give a chunk back; it is reused once its copy is done."""
        chunk.hand_on()
        self._free.put(chunk)

    def abandon(self, chunks: list[Chunk], stream: RawStream, *, is_upward: bool | None = None) -> None:
        """Give chunks back after an error: a copy may be in flight that no event marks.

        Args:
            is_upward: The direction for which they were borrowed; None where they were acquired one by one.
        """
        try:
            self.backend.stream_synchronize(stream)
            for chunk in chunks:
                chunk.wait(self.backend)  # for an earlier copy, on another stream, if it was not filled again
        except BaseException:  # a copy may be in flight for ever: never use these chunks again
            self._lost += chunks
            self._make_room(len(chunks))
            raise
        else:
            self._give_back(chunks)
        finally:
            if is_upward is not None:
                self.quota.give(len(chunks), is_upward)

    def _make_room(self, count: int) -> None:
        """``count`` chunks are gone: threads that wait for one may make one now."""
        with self._lock:
            self._count -= count
            self._made -= count
        for _ in range(count):
            self._free.put(None)

    @property
    def nbytes(self) -> int:
        """Pinned memory held."""
        return self._count * CHUNK_NBYTES

    def trim(self) -> int:
        """Free the chunks that nothing uses; returns the bytes given up."""
        freed = 0
        try:
            while True:
                chunk = self._free.get_nowait()
                if chunk is not None:
                    chunk.wait(self.backend)
                    freed += 1
        except Empty:
            pass
        self._make_room(freed)
        return freed * CHUNK_NBYTES


rings = PerDomain(Ring)


def trim() -> int:
    """Free every ring's idle chunks; returns the bytes given up."""
    return sum(ring.trim() for ring in rings.all())
