"""One transfer of plain bytes by `staging.c`: lends it chunks of the ring, and takes them back.

The obvious way is one C function that starts threads, stages everything and returns. It fails four times. Ctrl-C
would wait for its end. Threads would be started anew for each transfer, and two transfers would have twice as many as
the host has cores. C that borrowed chunks one by one would need Python's ring, or deadlock as any holder of chunks
does that waits for more. And an asynchronous transfer would occupy a Python thread for nothing.

So the transfer is a `Job`. Its first step borrows all chunks; each step is 16 pieces in C without the GIL, then a
look whether the job goes on. Helpers are threads of `staging.c`, shared by all transfers and counted by the thread
budget. `_start` begins without any Python thread, if chunks are free; the job is then orphaned, and the ring knows
it, so that a thread in want of chunks can drive it.

Guaranteed: the chunks are given back exactly once, in `_finish`, when no thread of either kind works on the transfer;
after an error of the driver only once the stream has been waited for. If the job has no error, every copy is
enqueued.

`Lending._lock` protects the start (`_staging`, `_chunks`, `_job`: set once) and the table of threads' names. It is
held while chunks are waited for, so that a second thread waits too instead of borrowing again. Pieces are handed out
under the lock of the C side. `_finish` needs none: the job calls it when the last thread has left.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import TYPE_CHECKING, Any

from xferlib import _native
from xferlib._core.thresholds import (
    C_HELPER_NBYTES,
    C_PIECE_MOST,
    C_STREAMED_MOST,
    NARROW_CHUNKS,
    NARROW_ROW_MOST,
    SHARED_CHUNKS,
)
from xferlib._runtime import thread_budget
from xferlib._runtime.jobs import Job
from xferlib._transfer.cutting import cut, cut_regions
from xferlib.errors import OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.observe import Moving, Step
    from xferlib._core.raw import RawStream, StagingCalls
    from xferlib._memory.staging_ring import Ring
    from xferlib._transfer.cutting import Cut
    from xferlib._transfer.partition import Staged

_ENDLESS = 1 << 62
"""The steps of a job are counted in C."""
_SLICE = 16
"""Pieces that a thread does before it checks for Ctrl-C and errors: some milliseconds."""
_POLL_SLICE = 2
"""Pieces that a thread does which has other transfers to look after: a fraction of a millisecond."""


class Lending:
    """The state that the threads of one transfer share.

    Args:
        memory: On the host.
        device: Address that the offsets of its pieces count from.
        is_upward: Host to device.
        backend, stream: They carry the copies.
        ring: Lends the chunks, when the first thread needs them.
        keep: Must outlive the transfer.
        moving: Records it; None if no recorder is open.
    """

    def __init__(
        self,
        memory: Staged,
        device: int,
        *,
        is_upward: bool,
        backend: Backend,
        stream: RawStream,
        calls: StagingCalls,
        ring: Ring,
        keep: Any,
        moving: Moving | None,
    ) -> None:
        self._keep = keep
        self._is_upward = is_upward
        self._backend = backend
        self._stream = stream
        self._calls = calls
        self._ring = ring
        self._lock = threading.Lock()
        self._job: Job | None = None
        """Set where it was begun without a Python thread."""
        self._chunks: list[Any] = []
        self._threads: list[str] = []
        self._moving = moving
        self._marks: Any = None
        self._lent: Any = None
        self._staging: Any = None
        self._budget = thread_budget.crew()
        self._each_way = self._budget.clearing if memory.least else self._budget.each_way
        threads = min(self._each_way, 1 + memory.total // min(C_HELPER_NBYTES, memory.limit))
        most = min(C_PIECE_MOST, memory.limit)
        if memory.regions:
            sizes = tuple(nbytes for _, nbytes in memory.regions)
            found = cut_regions(sizes, unit=memory.unit, threads=threads, is_upward=is_upward, most=most)
        else:
            found = cut(
                memory.total, unit=memory.unit, threads=threads, is_upward=is_upward, least=memory.least, most=most
            )
        self._cut = found
        strided, parts = memory.strided, memory.parts
        is_narrow = strided is not None and strided.run_nbytes <= NARROW_ROW_MOST
        self._most_chunks = NARROW_CHUNKS if is_narrow else len(found.shares)
        self._helpers = min(threads, found.firsts[-1]) - 1
        """C threads that come beside the Python thread that calls `_work`."""
        offsets, shares, firsts = found.numbers
        self._setup = _native.Setup(
            host=memory.address, device=device, devices=_addresses(found, memory.regions),
            offsets=offsets, shares=shares, firsts=firsts, loads=len(found.shares),
            stream=stream.handle, copy=calls.copy, record=calls.record, wait=calls.wait, enter=calls.enter,
            context=calls.context, is_upward=is_upward,
            is_streamed=is_upward and memory.total <= C_STREAMED_MOST, shared_chunks=SHARED_CHUNKS,
            layout=ctypes.pointer(strided.layout) if strided is not None else None,
            parts=len(parts) if parts is not None else 0, part=parts,
        )  # fmt: skip

    def job(self, after: Callable[[], None] | None) -> Job:
        """The job that threads are to help with; ``after`` runs when the chunks have been given back."""

        def finish() -> None:
            try:
                self._finish()
            finally:
                if after is not None:
                    after()

        job = Job(_ENDLESS, self._work, helpers=0, finish=finish)
        job.start = functools.partial(self._start, job)
        return job

    def _start(self, job: Job) -> bool:
        """Let C threads do it all, until a Python thread waits for the job; False if no chunk is free.

        The caller must wait for the job or cancel it: only then are the chunks given back.
        """
        library = _native.library()
        with self._lock:
            if self._staging is not None:
                return True
            self._backend.attach(self._stream.device)
            if not self._open(library, waits=False):
                return False
            self._job = job
            job.run_slice = self._run_slice
            self._ring.quota.orphaned(job)
            self._call(library, self._helpers + 1)
        return True

    def _run_slice(self) -> bool:
        """Do a few pieces in this thread; returns whether none is left to take."""
        self._backend.attach(self._stream.device)
        with self._calls.inside():
            return not _native.library().xf_run(self._staging, _POLL_SLICE, self._number())

    def _number(self) -> int:
        """Number the calling thread, for a recording."""
        name = threading.current_thread().name
        with self._lock:
            if name not in self._threads:
                self._threads.append(name)
            return self._threads.index(name)

    def _call(self, library: Any, count: int) -> None:
        """Wake C threads to help."""
        library.xf_help(self._staging, count, self._each_way - 1, self._budget.both_ways)

    def _work(self, take: Callable[[], int]) -> None:
        """Take pieces, with other threads, until none is left or the job has failed."""
        if take() < 0:
            return
        self._backend.attach(self._stream.device)
        library = _native.library()
        with self._lock:
            if self._staging is None:
                self._open(library, waits=True)
                self._call(library, self._helpers)
        number = self._number()
        # Back to Python after some pieces: `take` ends the job on Ctrl-C, cancellation or another thread's error.
        with self._calls.inside():
            while library.xf_run(self._staging, _SLICE, number) and take() >= 0:
                pass
        error = library.xf_error(self._staging)
        if error:
            raise self._calls.failure(error, self._stream)

    def _open(self, library: Any, *, waits: bool) -> bool:
        """Borrow chunks and begin; False, without ``waits``, if none is free."""
        self._chunks = self._ring.borrow(self._most_chunks, self._stream, is_upward=self._is_upward, waits=waits)
        if not self._chunks:
            return False
        try:
            self._begin(library, self._chunks)
        except BaseException:  # the next thread would borrow others
            chunks, self._chunks = self._chunks, []
            self._ring.give_back(chunks, is_upward=self._is_upward)
            raise
        return True

    def _begin(self, library: Any, chunks: list[Any]) -> None:
        events: list[Any] = [each.event for each in chunks]
        if not self._is_upward:  # asked for without waiting: the stream waits for what still reads a chunk
            for each, event in zip(chunks, events, strict=True):
                if each.is_busy:
                    self._backend.event_wait(self._stream, event)
        lent = (_native.Chunk * len(chunks))(
            *[
                _native.Chunk(each.pointer, event.handle, each.is_busy)
                for each, event in zip(chunks, events, strict=True)
            ]
        )
        self._setup.chunks, self._setup.chunk_count = lent, len(chunks)
        self._lent = lent
        if self._moving is not None:
            first, last = self._moving.events()
            self._setup.before_first, self._setup.after_last = first.handle, last.handle
            self._setup.marks = self._marks = (_native.Mark * self._cut.firsts[-1])()
        self._staging = library.xf_open(ctypes.byref(self._setup))
        if self._staging is None:
            raise OutOfMemoryError("host memory for the state of a transfer is short; free arrays")

    def _finish(self) -> None:
        """Give the chunks back, when every thread has left."""
        if self._staging is None:
            return
        if self._job is not None:
            self._ring.quota.adopt(self._job)
        library = _native.library()
        library.xf_end(self._staging)  # C helpers may still be filling a chunk, and write to `_lent`
        error = library.xf_error(self._staging)
        if self._moving is not None and not error:
            self._moving.finished(functools.partial(_steps, self._marks, self._cut, self._threads))
        library.xf_close(self._staging)
        for chunk, lent in zip(self._chunks, self._lent, strict=True):
            chunk.is_busy = bool(lent.is_busy)
        if not error:
            self._ring.give_back(self._chunks, is_upward=self._is_upward)
            return
        # A copy may be in flight that no event marks.
        self._ring.abandon(self._chunks, self._stream, is_upward=self._is_upward)
        raise self._calls.failure(error, self._stream)  # which a helper may have met last


def _addresses(cut_: Cut, regions: tuple[tuple[int, int], ...]) -> Any:
    """The address of each load, where the regions of a transfer are scattered on the device; else None."""
    if not regions:
        return None
    found, following, base = [], iter(regions), 0
    pointer, end = 0, 0
    for offset in cut_.offsets[:-1]:
        while offset >= end:
            base = end
            pointer, nbytes = next(following)
            end += nbytes
        found.append(pointer + offset - base)
    return (ctypes.c_uint64 * len(found))(*found)


def _steps(marks: Any, cut_: Cut, threads: list[str]) -> list[Step]:
    """The pieces and the threads that staged them; without those that Ctrl-C prevented."""
    return [
        (nbytes, mark.begun_ns * 1e-9, mark.ended_ns * 1e-9, _name(mark.thread, threads))
        for mark, nbytes in zip(marks, cut_.sizes(), strict=True)
        if mark.ended_ns
    ]


def _name(number: int, threads: list[str]) -> str:
    """The name of a Python thread, or of a C thread, which has a negative number."""
    return threads[number] if number >= 0 else f"xferlib-c{-number}"
