"""Staged transfers made by `staging.c`: begins them, and ends them.

The obvious way is one C function that stages everything and returns. `copy` is that, for a transfer that the calling
thread makes and that takes some milliseconds. A longer one would keep Ctrl-C waiting, an asynchronous one needs no
Python thread at all, and the arrays of a tree are described while the first of them are on their way: these are an
`OpenTransfer`, which threads enter and leave as a `Job`, and to which regions may be added until it is closed.

Helpers are threads of `staging.c`, shared by all transfers and counted by the thread budget.

Guaranteed: when `copy` returns, or the job of an `OpenTransfer` is over, no thread of either kind works on the
transfer. The chunks go back to the ring when the last block is done; after an error of the driver only once the stream
has been waited for. If there is no error, every copy is enqueued.

`OpenTransfer._lock` protects the start and the end: `_handle` is set once, and regions are added until the end only.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from typing import TYPE_CHECKING, Any

from xferlib import _native
from xferlib._core.thresholds import (
    C_FIRST_BLOCK_NBYTES,
    C_HELPER_NBYTES,
    C_LARGEST_BLOCK_PARTS,
    C_PIECE_LEAST,
    C_SPIN_NS,
    C_STREAMED_FROM,
    C_STREAMED_MOST,
    CHUNK_NBYTES,
    LENT_CHUNKS,
    ONE_WAY_CHUNKS,
    SHARED_CHUNKS,
)
from xferlib._memory import staging_ring
from xferlib._runtime import config, thread_budget
from xferlib._runtime.jobs import Job
from xferlib._transfer import partition
from xferlib.errors import OutOfMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.observe import Moving, Step
    from xferlib._core.raw import RawStream, StagingCalls
    from xferlib._memory.staging_ring import Ring
    from xferlib._transfer.regions import Regions

_ENDLESS = 1 << 62
"""The steps of a job are counted in C."""
_SLICE = 16
"""Pieces that a thread does before it checks for Ctrl-C and errors: some milliseconds."""
_POLL_SLICE = 2
"""Pieces that a thread does which has other transfers to look after: a fraction of a millisecond."""


class StreamSetup:
    """The common part of transfers of one direction on one stream, made once.

    Args:
        ring: Of the stream's device.
        backend, stream, calls: They carry the copies.
        is_upward: Host to device.
    """

    __slots__ = ("_config", "_most_piece", "_provided", "_until_s", "calls", "ring", "struct")

    def __init__(self, ring: Ring, stream: RawStream, calls: StagingCalls, *, is_upward: bool) -> None:
        budget, most = thread_budget.crew(), partition.chunk_nbytes()
        self.calls = calls
        self.ring = ring
        self.struct = _native.Setup(
            ring=ring.handle, stream=stream.handle, copy=calls.copy, record=calls.record, wait=calls.wait,
            order=calls.order, enter=calls.enter, context=calls.context, is_upward=is_upward, most_chunks=LENT_CHUNKS,
            shared_chunks=SHARED_CHUNKS, way_chunks=ONE_WAY_CHUNKS, first_block=min(C_FIRST_BLOCK_NBYTES, most),
            largest_block=min(CHUNK_NBYTES, 8 * most), block_parts=C_LARGEST_BLOCK_PARTS,
            least_piece=min(C_PIECE_LEAST, most), most_piece=most, helper_nbytes=min(C_HELPER_NBYTES, most),
            streamed_from=C_STREAMED_FROM, streamed_most=C_STREAMED_MOST, spin_ns=C_SPIN_NS if budget.fillers else 0,
            each_way=budget.each_way, clearing=budget.clearing, both_ways=budget.both_ways,
        )  # fmt: skip
        self._provided = 0
        self._config = config.get()
        self._most_piece = most
        self._until_s = time.monotonic() + _VALID_S

    def is_valid(self) -> bool:
        """Whether nothing that it was made from has changed: settings, and the cores that the process may use."""
        is_recent = time.monotonic() < self._until_s and self._config is config.get()
        return is_recent and self._most_piece == partition.chunk_nbytes()

    def provide(self, nbytes: int, stream: RawStream) -> None:
        """Let the ring have chunks for a transfer of ``nbytes``, where none so large came before."""
        if nbytes > self._provided:
            self.ring.provide(1 + nbytes // C_FIRST_BLOCK_NBYTES, stream)
            self._provided = nbytes


_VALID_S = 1.0
_MOST_SETUPS = 64
"""Streams come and go."""


def setup_of(backend: Backend, stream: RawStream, *, is_upward: bool) -> StreamSetup | None:
    """The common part of transfers on a stream; None where C cannot stage them."""
    if backend.fast is None or _native.library() is None:
        return None
    ring = staging_ring.rings.of(backend, stream.device)
    key = (stream.handle, is_upward)
    found: StreamSetup | None = ring.setups.get(key)
    return found if found is not None and found.is_valid() else _made_setup(backend, stream, ring, key)


def _made_setup(backend: Backend, stream: RawStream, ring: Ring, key: tuple[int, bool]) -> StreamSetup | None:
    calls = calls_of(backend, stream.device)
    if calls is None:
        return None
    if len(ring.setups) >= _MOST_SETUPS:
        ring.setups.clear()
    found = ring.setups[key] = StreamSetup(ring, stream, calls, is_upward=key[1])
    return found


def calls_of(backend: Backend, device: Device) -> StagingCalls | None:
    """The C functions by which a device is staged; None where C cannot do it."""
    fast = backend.fast
    return fast.staging_calls(device) if fast is not None and _native.is_on() else None


def copy(regions: Regions, setup: StreamSetup, backend: Backend, stream: RawStream) -> None:
    """Make a transfer in this thread, with helpers; the device is attached.

    Raises:
        OutOfMemoryError, PinnedMemoryError: Host memory for it is short; nothing has been copied.
        TransferError: An error of the driver.
    """
    setup.provide(regions.nbytes, stream)
    opened = ctypes.c_void_p()
    with setup.calls.inside():
        error = _native.library().xf_copy(
            ctypes.byref(setup.struct), ctypes.byref(regions.table), regions.number, opened
        )
    if not error:
        return
    if error == _native.NO_MEMORY:
        raise _no_memory()
    if error == _native.STARVED:
        error = _go_on(opened.value, setup, backend, stream)
    if error:
        _close_failed(opened.value, setup.ring, backend, stream)
        raise setup.calls.failure(error, stream)


def _go_on(handle: Any, setup: StreamSetup, backend: Backend, stream: RawStream) -> int:
    """End a transfer that waits for chunks, which other transfers have, or which there are none of any more.

    Returns:
        The driver's error; 0: there was none, and the transfer is closed.
    """
    library = _native.library()
    try:
        with setup.calls.inside():
            setup.ring.provide(1, stream)
            while library.xf_run(handle, _SLICE):
                setup.ring.provide(1, stream)
    except BaseException:  # Ctrl-C too
        library.xf_end(handle)
        _close_failed(handle, setup.ring, backend, stream)
        raise
    error: int = library.xf_end(handle)
    if not error:
        library.xf_close(handle, 0)
    return error


def _no_memory() -> OutOfMemoryError:
    return OutOfMemoryError("host memory for the state of a transfer is short; free arrays")


def _close_failed(handle: Any, ring: Ring, backend: Backend, stream: RawStream) -> None:
    """Free a transfer that has failed or was ended early: a copy may be in flight that no event marks."""
    is_lost = True
    try:
        backend.stream_synchronize(stream)
        is_lost = False
    finally:  # a copy may be in flight for ever: its chunks are never used again
        ring.lose(_native.library().xf_close(handle, is_lost))


class OpenTransfer:
    """A transfer that threads enter and leave.

    Args:
        setup, backend, stream: They carry the copies.
        nbytes: Of all regions.
        moving: Records it; None if no recorder is open.
    """

    def __init__(
        self, setup: StreamSetup, backend: Backend, stream: RawStream, nbytes: int, *, moving: Moving | None = None
    ) -> None:
        self._setup = setup
        self._backend = backend
        self._stream = stream
        self._nbytes = nbytes
        self._moving = moving
        self._lock = threading.Lock()
        self._regions: list[Regions] = []
        """All of them; they live as long as the transfer."""
        self._handle: Any = None
        self._is_closed = False
        """No region will be added."""
        self._is_over = False
        self._is_orphaned = False
        """It was begun without a Python thread."""

    def add(self, regions: Regions) -> bool:
        """Add arrays; False, and nothing done, where the transfer is over already."""
        with self._lock:
            if self._is_over:
                return False
            self._regions.append(regions)
            if self._handle is not None:
                self._hand_over(regions)
        return True

    def close(self) -> None:
        """Tell that no region will be added."""
        with self._lock:
            self._is_closed = True
            if self._handle is not None:
                _native.library().xf_close_regions(self._handle)

    def job(self, after: Callable[[], None] | None) -> Job:
        """The job that threads are to help with; ``after`` runs at its end."""

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
        """Let C threads do it all, until a Python thread waits for the job. The caller waits for it or cancels it."""
        with self._lock:
            if self._handle is None:
                self._is_orphaned = True
                self._open()
                job.run_slice = self._run_slice
        return True

    def _open(self) -> None:
        """Begin, with the lock held."""
        struct = self._setup.struct
        self._backend.attach(self._stream.device)
        self._setup.ring.provide(1 + self._nbytes // C_FIRST_BLOCK_NBYTES, self._stream)
        if self._moving is not None:
            struct = type(struct).from_buffer_copy(struct)
            first, last = self._moving.events()
            struct.is_marked, struct.before_first, struct.after_last = 1, first.handle, last.handle
        library = _native.library()
        self._handle = library.xf_open(ctypes.byref(struct))
        if self._handle is None:
            raise _no_memory()
        try:
            for number, regions in enumerate(self._regions, 1):
                self._hand_over(regions, is_last=self._is_closed and number == len(self._regions))
        except BaseException:  # the next thread would take it for begun
            handle, self._handle = self._handle, None
            library.xf_end(handle)
            library.xf_close(handle, 0)
            raise

    def _hand_over(self, regions: Regions, *, is_last: bool = False) -> None:
        """Give regions to C, with the lock held."""
        table, more = ctypes.byref(regions.table), self._is_orphaned
        if not _native.library().xf_add(self._handle, table, regions.number, is_last, more):
            raise _no_memory()

    def _run_slice(self) -> bool:
        """Do a few pieces in this thread; returns whether none is left to take."""
        self._backend.attach(self._stream.device)
        with self._setup.calls.inside():
            is_left = _native.library().xf_run(self._handle, _POLL_SLICE)
        return self._is_closed and not is_left

    def _work(self, take: Callable[[], int]) -> None:
        """Take pieces, with other threads, until none is left or the job has failed."""
        if take() < 0:
            return
        self._backend.attach(self._stream.device)
        with self._lock:
            if self._handle is None:
                self._open()
        library, handle = _native.library(), self._handle
        # Back to Python after some pieces: `take` ends the job on Ctrl-C, cancellation or another thread's error.
        with self._setup.calls.inside():
            while library.xf_run(handle, _SLICE) and take() >= 0:
                self._setup.ring.provide(1, self._stream)  # others may have them all, or the program has freed them

    def _finish(self) -> None:
        """End the transfer, when every Python thread has left."""
        with self._lock:
            self._is_over = True
            handle, self._handle = self._handle, None
        if handle is None:
            return
        library = _native.library()
        error = library.xf_end(handle)  # helpers may still be filling a chunk
        if self._moving is not None and not error:
            self._moving.finished(functools.partial(_steps, _marks(handle)))
        _close_failed(handle, self._setup.ring, self._backend, self._stream) if error else library.xf_close(handle, 0)
        self._regions.clear()
        if error:
            raise self._setup.calls.failure(error, self._stream)


def _marks(handle: Any) -> list[tuple[int, int, int, str]]:
    """Bytes of every piece, when it began and ended, and the name of its thread."""
    marks = ctypes.POINTER(_native.Mark)()
    count = _native.library().xf_marks(handle, ctypes.byref(marks))
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [
        (mark.nbytes, mark.begun_ns, mark.ended_ns, _name(mark.thread, names))
        for mark in (marks[number] for number in range(count))
    ]


def _steps(marks: list[tuple[int, int, int, str]]) -> list[Step]:
    """The pieces and the threads that staged them."""
    return [(nbytes, begun_ns * 1e-9, ended_ns * 1e-9, name) for nbytes, begun_ns, ended_ns, name in marks]


def _name(thread: int, names: dict[int | None, str]) -> str:
    """The name of a Python thread, or of a helper, which has a negative number."""
    return f"xferlib-c{-thread}" if thread < 0 else names.get(thread, f"thread {thread}")
