"""Copies between host and device: executes plans, and owns whatever a copy in flight needs.

Downward and upward staging are the same ring of pinned chunks, filled or drained by the same threads.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _config, _handover, _layout, _native, _pieces, _pinned, _plan, _recording, _staging, _stream
from xferlib._array import ArrayInfo
from xferlib._convert import copy_into
from xferlib._layout import HostArray, address
from xferlib._native.lending import Lending
from xferlib._pieces import Memory
from xferlib._plan import Path, Plan
from xferlib._recording import Kind
from xferlib._staging import Chunk, Ring
from xferlib._workers import Computation, Job, workers
from xferlib.errors import TransferError, TransferTimeoutError

if TYPE_CHECKING:
    from xferlib._device import Device
    from xferlib._recording import Moving
    from xferlib._stream import Stream
    from xferlib.backends.base import Backend, RawEvent, RawStream

_PARALLEL_HOST_FROM = 8 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferStats:
    """What a transfer did."""

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


# --- what must outlive a call: sources and destinations of copies in flight


class _InFlight:
    """Objects that a copy still uses, until its event has passed.

    Takes no lock: asking an event may run a finalizer, which may transfer, and wait for other threads.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._numbers = itertools.count()
        self._held: dict[int, tuple[Backend, RawEvent, tuple[Any, ...]]] = {}

    def hold(self, backend: Backend, event: RawEvent, *objects: Any) -> None:
        objects = backend.kept(objects, event)
        # Two for each that is added: all are asked in turn, at a cost that does not grow with their number.
        for number in list(itertools.islice(self._held, 2)):
            entry = self._held.get(number)
            if entry is not None:
                if not entry[0].event_done(entry[1]):
                    self._held[next(self._numbers)] = entry
                self._held.pop(number, None)
        self._held[next(self._numbers)] = (backend, event, objects)

    def drain(self) -> None:
        """Wait for every copy that is in flight now."""
        for number in list(self._held):
            entry = self._held.get(number)
            if entry is not None:
                entry[0].event_synchronize(entry[1])

    def forget(self) -> None:
        """Let go of everything."""
        self._held.clear()


in_flight = _InFlight()


@atexit.register
def _let_go() -> None:
    """The interpreter ends: arrays are freed while the libraries that own them are still there."""
    workers.close()  # nothing is added from then on
    in_flight.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=in_flight._reset)


class Transfer:
    """A copy in progress. Owns source, destination and event: dropping any handle is safe.

    Attributes:
        is_upload: Host to device; the result is then a device array, else a NumPy array.
    """

    __slots__ = (
        "_backend", "_complete_s", "_device", "_event", "_job", "_keep", "_later", "_nbytes", "_path", "_result",
        "_start_s", "_stream", "is_upload",
    )  # fmt: skip

    def __init__(
        self, result: Any, backend: Backend, stream: RawStream | None, *, nbytes: int, path: str, is_upload: bool
    ) -> None:
        self._result = result
        self._backend = backend
        self._stream = stream
        self._device: Device | None = stream.device if stream is not None else None
        self._nbytes = nbytes
        self._path = path
        self.is_upload = is_upload
        self._job: Job | None = None
        self._event: RawEvent | None = None
        self._keep: tuple[Any, ...] = ()
        self._later: _handover.Postponed | None = None
        self._start_s = time.perf_counter()
        self._complete_s = 0.0

    def start(self, job: Job, *, keep: tuple[Any, ...], is_awaited: bool = False) -> None:
        """Begin the copy; ``keep`` lives until it is complete.

        Args:
            is_awaited: The caller will settle or cancel it: no thread of Python's need come for it where others can.
        """
        assert self._stream is not None
        self._job = job
        self._keep = keep
        _stream.add_pending(self._stream, self)
        _handover.given(job)
        if is_awaited and self.try_start():
            return
        begin = functools.partial(workers.submit, job, job.helpers + 1)
        host = keep[0] if self.is_upload else self._result
        self._later = _handover.begun(begin, host, self._backend.pinned_domain, is_source=self.is_upload)

    def try_start(self) -> bool:
        """Let threads begin that need no lock of Python's; False where only Python's own can.

        One that finds no room yet is tried again, and begun by whoever settles it.
        """
        job = self._job
        if job is None or job.start is None:
            return False
        with contextlib.suppress(Exception):  # whoever settles it meets the same, and is told
            job.try_start()
        return True

    def finish(self, *keep: Any) -> None:
        """Every copy is enqueued (upward) or drained (a staged one downward)."""
        assert self._stream is not None
        try:
            if self.is_upload or self._job is None:
                self._event = record(self._backend, self._stream)
                in_flight.hold(self._backend, self._event, self._result, *self._keep, *keep)
            else:
                self._note_complete()
        finally:
            self._keep = ()
            _stream.remove_pending(self._stream, self)

    def is_settled(self, wait_s: float) -> bool:
        """Whether `settle` would return at once; helps, and waits so long at most.

        Of what threads have begun that need no lock of Python's it does a little, and says no while there is more.
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
        if self._job is None and self._event is not None and self._path != Path.SMALL:
            self._backend.event_synchronize(self._event)

    def settle(self, timeout_s: float | None = None) -> None:
        """Wait until every copy is enqueued, or the transfer has failed."""
        self._begin()
        if self._job is None:
            return
        if timeout_s is None and not self._job.is_over:
            self._job.help()  # rather than look on
        if not self._job.wait(timeout_s):
            raise TransferTimeoutError(
                f"the transfer of {self._nbytes} bytes did not finish within {timeout_s} s; call result() again"
            )

    def cancel(self) -> None:
        """Copy no more than has been begun; the destination holds nothing of use."""
        later, self._later = self._later, None
        if later is not None:
            later.drop()
        if self._job is not None:
            self._job.cancel(TransferError(f"the transfer of {self._nbytes} bytes was cancelled"))

    def abort(self) -> None:
        """`cancel`, and wait until no thread uses the source or the destination any more."""
        self.cancel()
        if self._job is not None:
            self._job.wait()

    def precede(self, stream: RawStream) -> None:
        """Let ``stream`` come after the copies, if they are all enqueued."""
        if self._event is not None:
            self._backend.event_wait(stream, self._event)

    def _begin(self, *, is_poll: bool = False) -> None:
        """Give the copy to the workers if that was put off."""
        later = self._later
        if later is not None and (not is_poll or later.is_due()):
            self._later = None
            later.begin()

    @property
    def has_failed(self) -> bool:
        """Whether the copy was given up."""
        return self._job is not None and self._job.error is not None

    def check(self) -> None:
        """Raise what the copy failed with, if it did."""
        error = self._job.error if self._job is not None else None
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise error  # Ctrl-C while this thread helped: not to be taken for a failure
        if error is not None:
            raise TransferError(
                f"the transfer of {self._nbytes} bytes failed: {error}; its destination holds nothing of use"
            ) from error

    def done(self) -> bool:
        """Whether the copy is complete, or has failed: `result` then returns or raises at once."""
        self._begin(is_poll=True)
        if self._job is not None and (not self._job.is_over or self._job.error is not None):
            return self._job.is_over
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
        self._begin(is_poll=True)
        if self._job is not None and self.is_upload:
            return self._job.is_over
        return self._path == Path.SMALL or self.done()

    def result(self, timeout: float | None = None) -> Any:
        """The destination: a device array ordered on the current stream, or complete host data.

        Args:
            timeout: Seconds to wait at most.

        Raises:
            TransferTimeoutError: Not finished in time; call again.
            TransferError: The copy failed.
        """
        recorder = _recording.active
        begun = recorder.begin(self._backend) if recorder is not None else None
        self.settle(timeout)
        self.check()
        if self._event is not None:
            if self.is_upload:
                self._order(self._backend.stream_current(self._event_device()))
            else:
                self._await_host(timeout)
        if recorder is not None:
            recorder.called(begun, self._backend)
        return self._result

    def _event_device(self) -> Device:
        assert self._device is not None
        return self._device

    def _order(self, stream: RawStream) -> None:
        assert self._stream is not None
        if stream.handle != self._stream.handle or stream.device is not self._stream.device:
            self._backend.event_wait(stream, self._event)
            self._backend.consumed(self._result, stream)

    def _await_host(self, timeout: float | None) -> None:
        if timeout is not None:
            deadline = time.monotonic() + timeout
            pause = threading.Event()
            while not self._backend.event_done(self._event):
                if time.monotonic() >= deadline:
                    raise TransferTimeoutError(
                        f"the transfer of {self._nbytes} bytes did not finish within {timeout} s; call result() again"
                    )
                pause.wait(50e-6)
        self._backend.event_synchronize(self._event)
        self._note_complete()

    def wait(self, stream: Stream) -> None:
        """Make later work on ``stream`` wait for the copy; the host waits only while the source is read."""
        self.settle()
        self.check()
        if self._event is None:
            return
        if stream._backend.pinned_domain != self._backend.pinned_domain:
            self._backend.event_synchronize(self._event)
            return
        self._backend.event_wait(stream._raw, self._event)
        if self.is_upload:
            self._backend.consumed(self._result, stream._raw)

    @property
    def stats(self) -> TransferStats:
        """Bytes, path and speed."""
        self.done()
        seconds = self._complete_s - self._start_s if self._complete_s else 0.0
        return TransferStats(nbytes=self._nbytes, path=str(self._path), seconds=seconds)

    def __repr__(self) -> str:
        direction = "to" if self.is_upload else "from"
        state = "done" if self.done() else "in flight"
        return f"<Transfer of {self._nbytes} bytes {direction} {self._device}, {self._path}, {state}>"


# --- upward


def upload(
    src: HostArray, dst: ArrayInfo, backend: Backend, stream: RawStream, found: Plan, *, is_blocking: bool = False
) -> None:
    """Fill ``dst`` (C-contiguous) on ``stream``; on return the source has been read, unless it is pinned.

    Args:
        is_blocking: The caller would wait for the copy anyway, as the driver's own does.
    """
    # The driver waits for the stream first: so only where that is idle.
    is_drivers = is_blocking and _plan.suits_driver(found, src, dst.dtype, is_upward=True)
    if is_drivers and backend.takes_pageable(stream, idle=True):
        copy = backend.copy_to_device
        if _recording.driver_copy(Kind.H2D, copy, dst.pointer, address(src), dst.nbytes, backend, stream):
            return
    if (pointer := readable(src, dst.dtype, backend, stream, found)) is not None:
        _recording.copy(Kind.H2D, dst.pointer, pointer, dst.nbytes, backend, stream)
    elif found.path is Path.PINNED:
        _upload_pinned(src, dst, backend, stream, found)
    elif found.path is not Path.EMPTY:
        workers.run(upload_job(src, dst, backend, stream))


def readable(src: HostArray, dtype: np.dtype[Any], backend: Backend, stream: RawStream, found: Plan) -> int | None:
    """The address of plain bytes for one copy on ``stream``: the array's own or, of a small one, this thread's slab's.

    None where an array needs more than one copy, or several threads.
    """
    if found.path is Path.PINNED:
        return found.spans[0][0] if len(found.spans) == 1 else None
    if found.path is Path.SMALL or _plan.is_medium(found, src, dtype):
        return _in_slab(src, dtype, backend, stream)
    return None


def _in_slab(src: HostArray, dtype: np.dtype[Any], backend: Backend, stream: RawStream) -> int:
    """The address of a pinned copy, in ``dtype``, for a copy on ``stream``."""
    nbytes = src.size * dtype.itemsize
    staged, pointer = _staging.slab_of(backend, nbytes).take(nbytes, stream)
    if nbytes > _staging.SMALL_NBYTES and _native.is_on():  # plain bytes
        crew = _config.crew()
        _native.library().xf_fill(pointer, address(src), nbytes, crew.fillers, crew.each_way - 1, crew.both_ways)
    else:
        copy_into(np.ndarray(src.shape, dtype, staged), src)
    return pointer


def _upload_pinned(src: HostArray, dst: ArrayInfo, backend: Backend, stream: RawStream, found: Plan) -> None:
    start = address(src)
    for pointer, nbytes in found.spans:
        _recording.copy(Kind.H2D, dst.pointer + pointer - start, pointer, nbytes, backend, stream)


def upload_job(
    src: HostArray, dst: ArrayInfo, backend: Backend, stream: RawStream, transfer: Transfer | None = None
) -> Job:
    """Fill chunks of the ring from ``src`` and send each on ``stream``."""
    ring = _staging.ring_of(backend)
    pieces = _pieces.pieces(src, dst.dtype)
    moving = _recording.moving(Kind.H2D, dst.nbytes, pieces, backend, stream)
    start = dst.pointer
    finish = None if transfer is None else transfer.finish
    if lending := _lending(pieces, start, backend, stream, ring, moving, is_upward=True):
        return lending.job(finish)

    def work(take: Callable[[], int]) -> None:
        backend.attach(stream.device)
        while (index := take()) >= 0:
            chunk = ring.acquire()
            try:
                begun_s = time.perf_counter() if moving is not None else 0.0
                offset, nbytes = pieces.fill(index, chunk)
                _handover.staged(nbytes)
                if moving is not None:
                    moving.staged(begun_s, nbytes)
                    moving.send()
                chunk.copy(start + offset, chunk.pointer, nbytes, backend, stream)
                if moving is not None:
                    moving.sent()
            except BaseException:
                ring.abandon([chunk], stream)
                raise
            ring.release(chunk)

    return Job(pieces.count, work, helpers=_pieces.helpers(dst.nbytes), finish=finish)


def scattered_job(parts: Memory, dst: ArrayInfo, backend: Backend, stream: RawStream, transfer: Transfer) -> Job | None:
    """As `upload_job`, from `xferlib._pieces.Scattered` memory; None where staging is not compiled."""
    ring = _staging.ring_of(backend)
    moving = _recording.moving(Kind.H2D, dst.nbytes, parts, backend, stream)
    lending = _lending(parts, dst.pointer, backend, stream, ring, moving, is_upward=True)
    return lending.job(transfer.finish) if lending is not None else None


def stages_alone(src: HostArray, dtype: np.dtype[Any], backend: Backend, device: Device) -> bool:
    """Whether threads that need no lock of Python's stage this array, to arrive in ``dtype``."""
    can_stage = _native.is_on() and backend.staging_calls(device) is not None
    return can_stage and _pieces.pieces(src, dtype).rows() is not None


def _lending(
    pieces: Memory,
    device: int,
    backend: Backend,
    stream: RawStream,
    ring: Ring,
    moving: Moving | None,
    *,
    is_upward: bool,
) -> Lending | None:
    """The compiled way, for bytes that stay as they are; None where Python does it."""
    calls = backend.staging_calls(stream.device) if _native.is_on() else None
    rows = pieces.rows() if calls is not None else None
    if calls is None or rows is None:
        return None
    return Lending(
        rows,
        device,
        is_upward=is_upward,
        backend=backend,
        stream=stream,
        calls=calls,
        ring=ring,
        keep=pieces,
        moving=moving,
    )


def hold_pinned(src: HostArray, backend: Backend, event: RawEvent) -> None:
    """Keep the pinned source of a copy in flight, or its block out of the pool, until the event."""
    lease = _pinned.pool_of(backend).find(address(src))
    if lease is None:
        in_flight.hold(backend, event, src)
        return
    # A block of the pool outlives its array until the event: keeping the array too would hide it from a full pool.
    lease.events[:] = [each for each in lease.events if not backend.event_done(each)]
    lease.events.append(event)


def record(backend: Backend, stream: RawStream) -> RawEvent:
    """An event after a copy; if that fails the copy is waited for, so that its memory is never reused early."""
    try:
        return backend.event_record(stream, timing=False)
    except BaseException:
        backend.stream_synchronize(stream)
        raise


def abandon(backend: Backend, stream: RawStream) -> None:
    """Wait for copies that may be under way and that no event marks: Ctrl-C struck between the two."""
    with contextlib.suppress(Exception):  # a device that is lost copies nothing; the first error is the one to tell
        backend.stream_synchronize(stream)


# --- downward


def download(src: ArrayInfo, dst: HostArray, backend: Backend, stream: RawStream, found: Plan) -> None:
    """Fill ``dst`` from ``src`` (C-contiguous) after the work on ``stream``; complete on return."""
    if _plan.suits_driver(found, dst, src.dtype, is_upward=False) and backend.takes_pageable(stream, idle=False):
        copy = backend.copy_to_host
        if _recording.driver_copy(Kind.D2H, copy, address(dst), src.pointer, src.nbytes, backend, stream):
            return
    if found.path is Path.SMALL:
        _download_small(src, dst, backend, stream)
    elif found.path is Path.PINNED:
        enqueue_download(src, dst, backend, stream, found)
        await_copy(backend, stream, dst)
    elif found.path is not Path.EMPTY:
        workers.run(download_job(src, dst, backend, stream))


def await_copy(backend: Backend, stream: RawStream, *memory: Any) -> None:
    """Wait for the copies on ``stream``; their memory must outlive them even if the wait is interrupted."""
    try:
        backend.stream_synchronize(stream)
    except BaseException:
        in_flight.hold(backend, record(backend, stream), *memory)
        raise


def _download_small(src: ArrayInfo, dst: HostArray, backend: Backend, stream: RawStream) -> None:
    nbytes = src.nbytes
    staged, pointer = _staging.slab_of(backend, nbytes).take(nbytes, stream)
    try:
        _recording.copy(Kind.D2H, pointer, src.pointer, nbytes, backend, stream)
        backend.stream_synchronize(stream)
    except BaseException:
        abandon(backend, stream)
        raise
    copy_into(dst, np.ndarray(dst.shape, src.dtype, staged))


def enqueue_download(src: ArrayInfo, dst: HostArray, backend: Backend, stream: RawStream, found: Plan) -> None:
    """Copy straight into pinned memory; returns at once."""
    start = address(dst)
    for pointer, nbytes in found.spans:
        _recording.copy(Kind.D2H, pointer, src.pointer + pointer - start, nbytes, backend, stream)


def download_job(
    src: ArrayInfo, dst: HostArray, backend: Backend, stream: RawStream, transfer: Transfer | None = None
) -> Job:
    """Receive chunks of ``src`` on ``stream`` and empty each into ``dst``.

    Each thread asks for its next chunk before it empties the one it has, so that the link never idles.
    """
    ring = _staging.ring_of(backend)
    pieces = _pieces.pieces(dst, src.dtype)
    moving = _recording.moving(Kind.D2H, src.nbytes, pieces, backend, stream)
    start = src.pointer
    finish = None if transfer is None else transfer.finish
    if lending := _lending(pieces, start, backend, stream, ring, moving, is_upward=False):
        return lending.job(finish)

    def receive(chunk: Chunk, index: int) -> Chunk:
        try:
            offset, nbytes = pieces.span(index)
            if moving is not None:
                moving.send()
            chunk.copy(chunk.pointer, start + offset, nbytes, backend, stream)
            if moving is not None:
                moving.sent()
        except BaseException:
            ring.abandon([chunk], stream)
            raise
        return chunk

    def work(take: Callable[[], int]) -> None:
        backend.attach(stream.device)
        index = take()
        chunk = receive(ring.acquire(), index) if index >= 0 else None
        while chunk is not None:
            following = take()
            ahead = None
            try:
                # Who holds a chunk must not wait for another: all threads might, and none would give one back.
                idle = ring.acquire_idle() if following >= 0 else None
                ahead = receive(idle, following) if idle is not None else None
                chunk.wait(backend)
                begun_s = time.perf_counter() if moving is not None else 0.0
                pieces.drain(index, chunk)
                if moving is not None:
                    moving.staged(begun_s, pieces.span(index)[1])
                _handover.staged(pieces.span(index)[1])
            except BaseException:
                ring.abandon([chunk] if ahead is None else [chunk, ahead], stream)
                raise
            ring.release(chunk)
            if ahead is None and following >= 0:
                ahead = receive(ring.acquire(), following)
            index, chunk = following, ahead

    return Job(pieces.count, work, helpers=_pieces.helpers(src.nbytes), finish=finish)


# --- on the host


def copy_on_cpu(kind: Kind, dst: HostArray, src: HostArray, backend: Backend, device: Device) -> None:
    """What a copy to or from a CPU device is: filling one host array from another."""
    if (recorder := _recording.active) is None:
        copy_on_host(dst, src)
    else:
        recorder.on_host(kind, "copy", dst.nbytes, backend, device, lambda: copy_on_host(dst, src))


def copy_on_host(dst: HostArray, src: HostArray) -> None:
    """Fill one host array from another, in parallel where it is large."""
    if dst.nbytes < _PARALLEL_HOST_FROM or not dst.flags.c_contiguous or np.may_share_memory(dst, src):
        copy_into(dst, src)
        return
    chunks = _layout.chunked(src, dst.itemsize, _pieces.PIECE_NBYTES)
    flat = dst.reshape(-1)

    def work(take: Callable[[], int]) -> None:
        while (index := take()) >= 0:
            offset, part = chunks[index]
            start = offset // dst.itemsize
            copy_into(flat[start : start + part.size].reshape(part.shape), part)

    workers.run(Computation(chunks.count, work, helpers=_pieces.helpers(dst.nbytes)))
