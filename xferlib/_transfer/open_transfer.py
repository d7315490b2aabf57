"""Transfers in C that threads enter and leave, and to which arrays may be added until they are closed.

Threads enter as those of a `Job`, or C threads do it all: a long transfer then keeps no Ctrl-C waiting, and an
asynchronous one needs no Python thread.

Guaranteed: when the job of an `OpenTransfer` is over, no thread of either kind works on the transfer; its chunks are
dealt with as `compiled_staging` says.

`OpenTransfer._lock` protects the start and the end: `_handle` is set once, and regions are added until the end only.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from typing import TYPE_CHECKING, Any

from xferlib import _native
from xferlib._core.thresholds import C_FIRST_BLOCK_NBYTES
from xferlib._runtime.jobs import Job
from xferlib._transfer.compiled_staging import SLICE, close_failed, no_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.observe import Moving, Step
    from xferlib._core.raw import RawStream
    from xferlib._transfer.compiled_staging import StreamSetup
    from xferlib._transfer.regions import Regions

_ENDLESS = 1 << 62
"""The steps of a job are counted in C."""
_POLL_SLICE = 2
"""Pieces that a thread does which has other transfers to look after: a fraction of a millisecond."""


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
            raise no_memory()
        try:
            for number, added in enumerate(self._regions, 1):
                self._hand_over(added, is_last=self._is_closed and number == len(self._regions))
        except BaseException:  # the next thread would take it for begun
            handle, self._handle = self._handle, None
            library.xf_end(handle)
            library.xf_close(handle, 0)
            raise

    def _hand_over(self, regions: Regions, *, is_last: bool = False) -> None:
        """Give regions to C, with the lock held."""
        table, more = ctypes.byref(regions.table), self._is_orphaned
        if not _native.library().xf_add(self._handle, table, regions.number, is_last, more):
            raise no_memory()

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
            while library.xf_run(handle, SLICE) and take() >= 0:
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
        close_failed(handle, self._setup.ring, self._backend, self._stream) if error else library.xf_close(handle, 0)
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
