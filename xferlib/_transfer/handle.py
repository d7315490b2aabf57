"""The handle of a copy in progress.

The obvious way is a future that a thread completes when the data have arrived. It fails three times. The program
would wait on the host where stream order is enough: an upload may be used by later work on a stream as soon as its
copies are enqueued. A dropped handle would free memory that a DMA uses. And if every thread of the pool waits for
a transfer itself, none is left to complete the future.

So a transfer has two ends. It is *settled* when every copy is enqueued, or it has failed: the job's latch opens. It
is complete when its event is; a staged download has none, and is complete when it is settled. `result` of an upload
makes the current stream wait for the event, not the host. A thread that waits without a timeout helps with the job,
so it needs no other thread; an orphaned job is driven by `poll` as well, so that a loop of `done` ends.
Guaranteed: source and destination live until the copy is complete, whatever becomes of the handle: `streams` holds it
and so `_keep` up to the event, `in_flight` or a pinned lease holds them from there on; `finish` runs once; if `start`
raises, no thread uses either end any more.

The handle has no lock: the job's order its threads, and `_event` is written once, before the latch opens.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import os
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from xferlib._core import observe
from xferlib._core.streams import PendingTransfer, Result_co, Stream, add_pending, remove_pending
from xferlib._memory import lifetimes
from xferlib._runtime.threads import Job, deferred, wait_in_task, workers
from xferlib._transfer.plan import TransferPath
from xferlib.errors import ArgumentError, ForkError, StreamTypeError, TransferError, TransferTimeoutError, quote

if TYPE_CHECKING:
    from xferlib._core.arrays import ArrayInfo
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, RawEvent, RawStream


_LONGEST_S = 1e9
"""Longer than any process lives; the system's clocks accept little more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferStats:
    """Bytes, path and time of a transfer."""

    nbytes: int
    """Bytes that crossed the link."""
    path: str
    """``small``, ``pinned``, ``staged``, ``permuted``, ``device``, ``host`` or ``empty``."""
    seconds: float
    """From the call until the copy was seen to be complete; 0 before that."""

    @property
    def gb_per_s(self) -> float:
        """1e9 bytes a second; 0 until the transfer is complete."""
        return self.nbytes / self.seconds / 1e9 if self.seconds else 0.0


class Transfer(PendingTransfer, Generic[Result_co]):
    """A copy in progress. Owns source, destination and event: dropping any handle is safe.

    ``await transfer`` gives `result`, while the event loop runs other tasks.

    Attributes:
        is_upload: Host to device; the result is then a device array, else a NumPy array.
    """

    __slots__ = (
        "_backend", "_complete_s", "_device", "_event", "_is_orphaned", "_job", "_keep", "_later", "_nbytes", "_path",
        "_pid", "_result", "_start_s", "_stream", "is_upload",
    )  # fmt: skip

    def __init__(
        self, result: Any, backend: Backend, stream: RawStream | None, *, nbytes: int, path: str, is_upload: bool
    ) -> None:
        self._result: Any = result
        self._backend = backend
        self._stream = stream
        self._device: Device | None = stream.device if stream is not None else None
        self._nbytes = nbytes
        self._path = path
        self.is_upload = is_upload
        self._job: Job | None = None
        self._event: RawEvent | None = None
        self._keep: tuple[Any, ...] = ()
        self._later: observe.Postponed | None = None
        self._pid = os.getpid()
        self._is_orphaned = False
        """No Python thread takes the job by itself: only `settle`, `is_settled` and `poll` end it."""
        self._start_s = time.perf_counter()
        self._complete_s = 0.0

    def start(self, job: Job, device: ArrayInfo | None, *, keep: tuple[Any, ...], is_awaited: bool = False) -> None:
        """Begin the copy; ``keep`` lives until it is complete.

        Args:
            job: Does it.
            device: The end that is on the device; None of an awaited job that needs no Python thread.
            keep: Must outlive the copy; of an upload the host's array comes first.
            is_awaited: The caller will settle or cancel it: no Python thread is needed where C threads can do it.
        """
        assert self._stream is not None
        self._job, self._keep = job, keep
        try:
            add_pending(self._stream, self)
            if is_awaited and self.try_start():
                self._is_orphaned = True
                return
            if observe.listener is not None:
                assert device is not None
                host = keep[0] if self.is_upload else self._result
                ends = observe.Ends(host, device, self._stream, keep, is_upload=self.is_upload)
                with deferred:  # or Ctrl-C might leave a transfer put off that cannot be dropped
                    self._later = observe.postpone_transfer(job, ends, self._backend.pinned_domain)
            if self._later is None:
                workers.submit(job, job.helpers + 1)
        except BaseException:  # Ctrl-C: the caller will not have this handle, and could not settle it
            self.abort()
            raise

    def try_start(self) -> bool:
        """Let C threads begin, which need no GIL; False where only Python threads can.

        A transfer that finds no free chunk is tried again, or begun by the thread that settles it.
        """
        job = self._job
        if job is None or job.start is None:
            return False
        with contextlib.suppress(Exception):  # `settle` meets the same error, and `check` raises it
            job.try_start()
        return True

    def finish(self, *keep: Any) -> None:
        """Note that every copy is enqueued (upload) or drained (staged download)."""
        assert self._stream is not None
        try:
            if self._job is not None:
                observe.note_finish(self._job)
            if self.is_upload or self._job is None:
                self._event = lifetimes.record(self._backend, self._stream)
                lifetimes.in_flight.hold(self._backend, self._event, self._result, *self._keep, *keep)
            else:
                self._note_complete()
        finally:
            self._keep = ()
            remove_pending(self._stream, self)

    def is_settled(self, wait_s: float) -> bool:
        """Whether `settle` would return at once; helps, and waits for at most ``wait_s``.

        If C threads are at work on it, does a few pieces and returns False while there are more.
        """
        self._begin()
        if self._job is None or self._job.is_over:
            return True
        if not self._job.help_a_little():
            return False
        self._job.help()
        return self._job.wait(wait_s)

    def release(self) -> None:
        """Wait until the source may be changed."""
        self.settle()
        if self._job is None and self._event is not None and self._path != TransferPath.SMALL:
            self._backend.event_synchronize(self._event)

    def settle(self, timeout_s: float | None = None) -> None:
        """Wait until every copy is enqueued, or the transfer has failed."""
        self._begin()
        if self._job is None:
            return
        if timeout_s is None and not self._job.is_over:
            self._job.help()  # rather than look on
        if not self._job.wait(timeout_s):
            raise self._make_timeout_error(timeout_s)

    def _make_timeout_error(self, timeout_s: float | None) -> TransferTimeoutError:
        return TransferTimeoutError(
            f"the transfer of {self._nbytes} bytes did not finish within {timeout_s} s; call result() again"
        )

    def cancel(self) -> None:
        """Copy no more than has been begun; the destination holds nothing of use."""
        if self._is_elsewhere():
            return
        later, self._later = self._later, None
        if later is not None:
            later.drop()
        if self._job is not None:
            self._job.cancel(TransferError(f"the transfer of {self._nbytes} bytes was cancelled"))

    def abort(self) -> None:
        """`cancel`, and wait until no thread uses the source or the destination any more."""
        self.cancel()
        if self._job is not None and not self._is_elsewhere():
            self._job.wait()

    def precede(self, stream: RawStream) -> None:
        """Make ``stream`` wait for the copies, if they are all enqueued."""
        if self._event is not None:
            self._backend.event_wait(stream, self._event)

    def _is_elsewhere(self) -> bool:
        """Whether the copy is in flight in the process that this one was forked from, as far as was known then.

        Its threads and its device are there alone, and its locks may be held for ever here.
        """
        if self._pid == os.getpid() or (self._complete_s and not self.is_upload):
            return False
        return self._event is not None or (self._job is not None and not self._job.is_over)

    def _begin(self, *, is_poll: bool = False) -> None:
        """Submit the copy to the thread pool if that was put off.

        Raises:
            ForkError: It is in flight in another process.
        """
        if self._is_elsewhere():
            raise ForkError(
                f"the transfer of {self._nbytes} bytes is in flight in process {self._pid}, which began it, and not in "
                f"its forked child {os.getpid()}; call result() before the fork, or make the copy in the child, which "
                "multiprocessing.get_context('spawn') starts"
            )
        later = self._later
        if later is not None and (not is_poll or later.is_due()):
            later.begin()
            self._later = None  # last: an error that strikes before `begin` must not lose it

    @property
    def has_failed(self) -> bool:
        """Whether the copy was given up."""
        return self._job is not None and self._job.error is not None

    def check(self) -> None:
        """Raise the error that the copy failed with, if it did."""
        error = self._job.error if self._job is not None else None
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise error  # Ctrl-C while this thread helped: not to be taken for a failure
        if error is not None:
            raise TransferError(
                f"the transfer of {self._nbytes} bytes failed: {error}; its destination holds nothing of use"
            ) from error

    def poll(self) -> None:
        """Drive an orphaned copy, or begin one that was put off and is due."""
        if self._is_orphaned:
            self.is_settled(0.0)
        else:
            self._begin(is_poll=True)

    def _is_staged(self) -> bool:
        """Whether no thread uses the host's end any more; if so, what they did happens-before the caller."""
        self.poll()
        return self._job is None or (self._job.is_over and self._job.wait())

    def done(self) -> bool:
        """Whether the copy is complete, or has failed: `result` then returns or raises at once.

        A loop that only polls this ends: the copy needs no other call to go on.
        """
        if not self._is_staged():
            return False
        if self.has_failed:
            return True
        if self._event is None:
            return True
        is_done = self._backend.event_done(self._event)
        if is_done:
            self._note_complete()
        return is_done

    def _note_complete(self) -> None:
        if not self._complete_s:
            self._complete_s = time.perf_counter()

    @property
    def source_released(self) -> bool:
        """Whether the source may be changed.

        A staged source is free once it has been read, which is before the copy is complete; a
        pinned one when the copy is complete.
        """
        if self._job is not None and self.is_upload:
            return self._is_staged()
        return self._path == TransferPath.SMALL or self.done()

    @observe.user_call(lambda self, timeout=None: (self._backend, 0))
    def result(self, timeout: float | None = None) -> Result_co:
        """The destination: a device array ordered on the current stream, or complete host data.

        Args:
            timeout: Seconds to wait at most.

        Raises:
            ArgumentError: ``timeout`` is no number of seconds.
            TransferTimeoutError: Not finished in time; call again.
            TransferError: The copy failed.
            ForkError: It is in flight in the process that this one was forked from.
        """
        if timeout is not None:
            if not isinstance(timeout, numbers.Real) or not (0 <= timeout < _LONGEST_S or timeout == math.inf):
                raise ArgumentError(
                    f"result: timeout={quote(timeout)} is not a number of seconds from 0 to 1e9; None waits for the end"
                )
            timeout = None if timeout == math.inf else float(timeout)
        self.settle(timeout)
        self.check()
        if self._event is not None:
            if self.is_upload:
                assert self._device is not None
                self._order(self._backend.stream_current(self._device))
            else:
                self._await_host(timeout)
        return self._result  # type: ignore[no-any-return]

    def __await__(self) -> Generator[Any, None, Result_co]:
        return wait_in_task(self.result)

    def _order(self, stream: RawStream) -> None:
        assert self._stream is not None
        if stream.handle != self._stream.handle or stream.device is not self._stream.device:
            self._backend.event_wait(stream, self._event)
            if self._result is not None:  # of several arrays, which the caller has
                self._backend.note_use(self._result, stream)

    def _await_host(self, timeout: float | None) -> None:
        if timeout is not None:
            deadline = time.monotonic() + timeout
            pause = threading.Event()
            while not self._backend.event_done(self._event):
                if time.monotonic() >= deadline:
                    raise self._make_timeout_error(timeout)
                pause.wait(50e-6)
        self._backend.event_synchronize(self._event)
        self._note_complete()

    def wait(self, stream: Stream = None) -> None:  # type: ignore[assignment]  # so that the message is ours
        """Make later work on ``stream`` wait for the copy; the host waits only while the source is read."""
        if not isinstance(stream, Stream):
            raise StreamTypeError(
                f"Transfer.wait: {type(stream).__name__} is not a Stream; for the host, write result()"
            )
        self.hold_back(stream._raw, stream._backend)

    def hold_back(self, stream: RawStream, backend: Backend) -> None:
        """Make later work on ``stream``, of ``backend``, wait for the copy."""
        self.settle()
        self.check()
        if self._event is None:
            return
        if backend.pinned_domain != self._backend.pinned_domain:
            self._backend.event_synchronize(self._event)
            return
        self._backend.event_wait(stream, self._event)
        if self.is_upload:
            self._backend.note_use(self._result, stream)

    @property
    def stats(self) -> TransferStats:
        """Bytes, path and speed."""
        if not self._is_elsewhere():
            self.done()
        seconds = self._complete_s - self._start_s if self._complete_s else 0.0
        return TransferStats(nbytes=self._nbytes, path=str(self._path), seconds=seconds)

    def __repr__(self) -> str:
        job, way = self._job, "to" if self.is_upload else "from"
        is_over = self._complete_s or (self._event is None and (job is None or job.is_over))
        state = "failed" if self.has_failed else "complete" if is_over else "in flight"  # as known: asks no device
        device = self._device or f"{self._backend.name}:cpu"
        return f"<Transfer of {self._nbytes} bytes {way} {device}, {self._path}, {state}>"
