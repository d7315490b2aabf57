"""Copies between host and device: executes plans.

The obvious way for pageable memory is one driver call, which stages it itself. It uses one thread, and neither
gathers nor converts: slower than several threads above a few MiB. One thread of our own that fills a pinned buffer
and sends it is no faster: filling and sending take turns.

So staging is a job of several threads over the ring of chunks, in both directions. In an upload each thread fills a
chunk, enqueues its copy and takes the next chunk. In a download each thread requests its next chunk before it empties
the one it has, so that the link never idles, but only if a chunk is free or can be made: if each waited for a second
chunk while holding one, all would deadlock. Plain bytes and rows go to `compiled_staging` instead, where the C is
compiled.

Guaranteed: `upload` returns when the source has been read, unless it is pinned; `download` returns when the
destination is complete. A chunk goes back to the ring with the event of its copy; if something fails between the copy
and its event, `Ring.abandon` waits for the stream first. An error of any thread becomes the job's error, and stops
the others.

There is no lock here: `Job` numbers the pieces and lets one thread have each, and the ring lends each chunk to one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from xferlib import _native
from xferlib._core import observe, staging_hooks
from xferlib._core.array import ArrayInfo
from xferlib._core.observe import Kind
from xferlib._core.thresholds import SMALL_NBYTES
from xferlib._memory import in_flight, slab, staging_ring
from xferlib._memory.staging_ring import Chunk, Ring
from xferlib._runtime.jobs import Job
from xferlib._runtime.threads import workers
from xferlib._transfer import compiled_copies, partition, plan
from xferlib._transfer.compiled_copies import fill
from xferlib._transfer.compiled_staging import Lending
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.partition import Memory, Scattered
from xferlib._transfer.plan import Path, Plan

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.observe import Moving
    from xferlib._core.raw import RawStream
    from xferlib._transfer.handle import Transfer

# --- host to device


def upload(end: HostEnd, dst: ArrayInfo, stream: RawStream, found: Plan, *, may_be_drivers: bool = False) -> None:
    """Fill ``dst`` (C-contiguous) on ``stream`` from pageable memory, which has been read on return.

    Args:
        end, dst, stream, found: Both ends, the stream that orders the copy, and the plan for it.
        may_be_drivers: The driver's own copy will do, which waits: the caller would wait for the copy anyway.
    """
    backend = end.backend
    # The driver waits for the stream first: so only where that is idle.
    fast = backend.fast if may_be_drivers and plan.suits_driver(found, end, is_upward=True) else None
    if fast is not None and fast.takes_pageable(stream, idle=True):
        if observe.driver_copy(Kind.H2D, fast.copy_to_device, dst.pointer, end.pointer, dst.nbytes, backend, stream):
            return
    if (pointer := readable(end, stream, found)) is not None:
        observe.copy(Kind.H2D, dst.pointer, pointer, dst.nbytes, backend, stream)
    else:
        workers.run(upload_job(end, dst, stream))


def readable(end: HostEnd, stream: RawStream, found: Plan) -> int | None:
    """The address of plain bytes for one copy on ``stream``: the array's own or, of a small one, this thread's slab's.

    None where an array needs more than one copy, or several threads.
    """
    if found.pinned is not None:
        return found.pinned.spans[0][0] if len(found.pinned.spans) == 1 else None
    if found.path is Path.SMALL or plan.is_medium(found, end):
        return _in_slab(end, stream)
    return None


def _in_slab(end: HostEnd, stream: RawStream) -> int:
    """The address of a pinned copy, in the device's dtype, for a copy on ``stream``."""
    nbytes = end.nbytes
    memory, pointer = slab.slab_of(end.backend, nbytes).take(nbytes, stream)
    if end.is_plain and nbytes > SMALL_NBYTES and _native.is_on():
        fill(pointer, end.pointer, nbytes)
    else:
        compiled_copies.gather(end.array, end.dtype, memory, pointer)
    return pointer


def upload_pinned(end: HostEnd, dst: ArrayInfo, stream: RawStream, found: Plan) -> None:
    """Copy straight from pinned memory; returns at once."""
    assert found.pinned is not None
    for pointer, nbytes in found.pinned.spans:
        observe.copy(Kind.H2D, dst.pointer + pointer - end.pointer, pointer, nbytes, end.backend, stream)


def upload_job(end: HostEnd, dst: ArrayInfo, stream: RawStream, transfer: Transfer | None = None) -> Job:
    """Fill chunks of the ring from the host's end and send each on ``stream``."""
    backend = end.backend
    ring = staging_ring.rings.of(backend)
    pieces = partition.pieces(end.array, end.dtype)
    moving = observe.moving(Kind.H2D, dst.nbytes, pieces, backend, stream)
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
                staging_hooks.staged(nbytes)
                if moving is not None:
                    moving.staged(begun_s, nbytes)
                    moving.send()
                # The chunk's event is recorded here, after its copy: the next user of the chunk waits for it.
                chunk.copy(start + offset, chunk.pointer, nbytes, backend, stream)
                if moving is not None:
                    moving.sent()
            except BaseException:
                ring.abandon([chunk], stream)
                raise
            ring.release(chunk)

    return Job(pieces.count, work, helpers=partition.helpers(dst.nbytes), finish=finish)


def scattered_job(
    memory: Scattered, pointer: int, backend: Backend, stream: RawStream, transfer: Transfer, *, is_upward: bool = True
) -> Job | None:
    """Stage scattered memory to or from ``pointer``, or its own regions; None where staging is not compiled."""
    ring = staging_ring.rings.of(backend)
    moving = observe.moving(Kind.H2D if is_upward else Kind.D2H, memory.nbytes, memory, backend, stream)
    lending = _lending(memory, pointer, backend, stream, ring, moving, is_upward=is_upward)
    return lending.job(transfer.finish) if lending is not None else None


def stages_alone(end: HostEnd, device: Device) -> bool:
    """Whether C threads, which need no GIL, can stage this array."""
    fast = end.backend.fast
    can_stage = _native.is_on() and fast is not None and fast.staging_calls(device) is not None
    return can_stage and partition.pieces(end.array, end.dtype).staged() is not None


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
    """Staging in C, for bytes that stay as they are; None where Python does it."""
    calls = backend.fast.staging_calls(stream.device) if _native.is_on() and backend.fast is not None else None
    memory = pieces.staged() if calls is not None else None
    if calls is None or memory is None:
        return None
    return Lending(
        memory,
        device,
        is_upward=is_upward,
        backend=backend,
        stream=stream,
        calls=calls,
        ring=ring,
        keep=pieces,
        moving=moving,
    )


# --- device to host


def download(src: ArrayInfo, end: HostEnd, stream: RawStream, found: Plan) -> None:
    """Fill pageable memory from ``src`` (C-contiguous) after the work on ``stream``; complete on return."""
    backend = end.backend
    fast = backend.fast if plan.suits_driver(found, end, is_upward=False) else None
    if fast is not None and fast.takes_pageable(stream, idle=False):
        if observe.driver_copy(Kind.D2H, fast.copy_to_host, end.pointer, src.pointer, src.nbytes, backend, stream):
            return
    if found.path is Path.SMALL or (not end.is_plain and plan.is_medium(found, end)):
        _download_small(src, end, stream)
    else:
        workers.run(download_job(src, end, stream))


def await_copy(backend: Backend, stream: RawStream) -> None:
    """Wait for the copies on ``stream``, even if the wait is interrupted: their memory must outlive them."""
    try:
        backend.stream_synchronize(stream)
    except BaseException:
        in_flight.abandon(backend, stream)
        raise


def _download_small(src: ArrayInfo, end: HostEnd, stream: RawStream) -> None:
    nbytes, backend = src.nbytes, end.backend
    memory, pointer = slab.slab_of(backend, nbytes).take(nbytes, stream)
    # The slab's bytes may be taken again once this returns, so even an interrupted copy must be waited for.
    try:
        observe.copy(Kind.D2H, pointer, src.pointer, nbytes, backend, stream)
        backend.stream_synchronize(stream)
    except BaseException:
        in_flight.abandon(backend, stream)
        raise
    compiled_copies.scatter(end.array, end.dtype, memory, pointer)


def download_pinned(src: ArrayInfo, end: HostEnd, stream: RawStream, found: Plan) -> None:
    """Copy straight into pinned memory; returns at once."""
    assert found.pinned is not None
    for pointer, nbytes in found.pinned.spans:
        observe.copy(Kind.D2H, pointer, src.pointer + pointer - end.pointer, nbytes, end.backend, stream)


def download_job(src: ArrayInfo, end: HostEnd, stream: RawStream, transfer: Transfer | None = None) -> Job:
    """Receive chunks of ``src`` on ``stream`` and empty each into the host's end.

    Each thread asks for its next chunk before it empties the one it has, so that the link never idles.
    """
    backend = end.backend
    ring = staging_ring.rings.of(backend)
    pieces = partition.pieces(end.array, end.dtype)
    moving = observe.moving(Kind.D2H, src.nbytes, pieces, backend, stream)
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
                # Never block for a second chunk while holding one: if every thread did, all would deadlock.
                idle = ring.acquire_idle() if following >= 0 else None
                ahead = receive(idle, following) if idle is not None else None
                chunk.wait(backend)
                begun_s = time.perf_counter() if moving is not None else 0.0
                pieces.drain(index, chunk)
                if moving is not None:
                    moving.staged(begun_s, pieces.span(index)[1])
                staging_hooks.staged(pieces.span(index)[1])
            except BaseException:
                ring.abandon([chunk] if ahead is None else [chunk, ahead], stream)
                raise
            ring.release(chunk)
            # Now this thread holds no chunk, and may wait for one.
            if ahead is None and following >= 0:
                ahead = receive(ring.acquire(), following)
            index, chunk = following, ahead

    return Job(pieces.count, work, helpers=partition.helpers(src.nbytes), finish=finish)
