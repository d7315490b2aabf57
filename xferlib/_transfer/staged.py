"""Copies between host and device by way of pinned memory: executes plans.

The obvious way for pageable memory is one driver call, which stages it itself. It uses one thread, and neither
gathers nor converts: slower than our own staging from 64 KiB on. One thread that fills a pinned buffer and sends it is
no faster: filling and sending take turns. So what is small is one copy by way of the thread's slab, and everything else
is staged by `compiled_staging`, with several threads over a ring of chunks. Where that cannot be, as on the simulator,
or where the C is not compiled, one thread gathers a part of the array after the other into its slab and sends it.

Guaranteed: `upload` returns when the source has been read, unless it is pinned; `download` returns when the destination
is complete. An error of any thread becomes the transfer's error, and stops the others.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from xferlib._core import observe, staging_hooks
from xferlib._core.layout import chunked
from xferlib._core.observe import Kind
from xferlib._core.thresholds import MEDIUM_NBYTES
from xferlib._memory import in_flight, slab
from xferlib._runtime.jobs import Job
from xferlib._runtime.threads import workers
from xferlib._transfer import compiled_copies, compiled_staging, partition, plan, regions
from xferlib._transfer.compiled_staging import OpenTransfer
from xferlib._transfer.plan import Path, Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.array import ArrayInfo
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import Chunks
    from xferlib._core.observe import Moving
    from xferlib._core.raw import RawStream
    from xferlib._transfer.host_end import HostEnd


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
        _stage(end, dst.pointer, stream, is_upward=True)


def _stage(end: HostEnd, pointer: int, stream: RawStream, *, is_upward: bool) -> None:
    """Stage an array in this thread, with helpers."""
    if observe.active is not None or not stage_in_one_call(end, pointer, stream, is_upward=is_upward):
        workers.run(_job(end, pointer, stream, None, is_upward=is_upward))


def stage_in_one_call(end: HostEnd, pointer: int, stream: RawStream, *, is_upward: bool) -> bool:
    """Copy between the host's end and contiguous memory of the device, at an address; the device is attached.

    Returns:
        False, and nothing is done, where C cannot stage the array.
    """
    setup = compiled_staging.setup_of(end.backend, stream, is_upward=is_upward)
    described = regions.of_one(end, pointer) if setup is not None else None
    if setup is None or described is None:
        return False
    compiled_staging.copy(described, setup, end.backend, stream)
    return True


def _job(end: HostEnd, pointer: int, stream: RawStream, finish: Callable[[], None] | None, *, is_upward: bool) -> Job:
    """The job that stages an array between the host's end and contiguous memory of the device, at an address."""
    backend = end.backend
    described = regions.of_one(end, pointer) if compiled_staging.calls_of(backend, stream.device) is not None else None
    if described is not None:
        staging = begin(backend, stream, described.nbytes, is_upward=is_upward)
        staging.add(described)
        staging.close()
        return staging.job(finish)
    if is_upward:
        return _slab_upload(end, pointer, stream, finish)
    return _slab_download(pointer, end, stream, finish)


def begin(backend: Backend, stream: RawStream, nbytes: int, *, is_upward: bool) -> OpenTransfer:
    """A transfer in C of some ``nbytes``, with no regions yet; `compiled_staging.calls_of` has said that it can be."""
    setup = compiled_staging.setup_of(backend, stream, is_upward=is_upward)
    assert setup is not None
    moving = observe.moving(Kind.H2D if is_upward else Kind.D2H, nbytes, 0, backend, stream)
    return OpenTransfer(setup, backend, stream, nbytes, moving=moving)


def upload_job(end: HostEnd, dst: ArrayInfo, stream: RawStream, finish: Callable[[], None]) -> Job:
    """Fill ``dst`` (C-contiguous) on ``stream``; ``finish`` runs when every copy is enqueued, or one has failed."""
    return _job(end, dst.pointer, stream, finish, is_upward=True)


def download_job(src: ArrayInfo, end: HostEnd, stream: RawStream, finish: Callable[[], None]) -> Job:
    """Fill the host's end from ``src`` (C-contiguous); ``finish`` runs when it is complete, or has failed."""
    return _job(end, src.pointer, stream, finish, is_upward=False)


def stages_alone(end: HostEnd, device: Device) -> bool:
    """Whether C threads, which need no GIL, can stage this array."""
    return compiled_staging.calls_of(end.backend, device) is not None and regions.can_describe(end)


# --- one copy


def readable(end: HostEnd, stream: RawStream, found: Plan) -> int | None:
    """The address of the array's bytes for one copy on ``stream``: its own, or of a small one this thread's slab's.

    None where an array needs more than one copy, or several threads.
    """
    if found.pinned is not None:
        return found.pinned.spans[0][0] if len(found.pinned.spans) == 1 else None
    if found.path is not Path.SMALL:
        return None
    memory, pointer = slab.slab_of(end.backend, end.nbytes).take(end.nbytes, stream)
    compiled_copies.gather(end.array, end.dtype, memory, pointer)
    return pointer


def upload_pinned(end: HostEnd, dst: ArrayInfo, stream: RawStream, found: Plan) -> None:
    """Copy straight from pinned memory; returns at once."""
    assert found.pinned is not None
    for pointer, nbytes in found.pinned.spans:
        observe.copy(Kind.H2D, dst.pointer + pointer - end.pointer, pointer, nbytes, end.backend, stream)


# --- device to host


def download(src: ArrayInfo, end: HostEnd, stream: RawStream, found: Plan) -> None:
    """Fill pageable memory from ``src`` (C-contiguous) after the work on ``stream``; complete on return."""
    backend = end.backend
    fast = backend.fast if plan.suits_driver(found, end, is_upward=False) else None
    if fast is not None and fast.takes_pageable(stream, idle=False):
        if observe.driver_copy(Kind.D2H, fast.copy_to_host, end.pointer, src.pointer, src.nbytes, backend, stream):
            return
    if found.path is Path.SMALL:
        _download_small(src, end, stream)
    else:
        _stage(end, src.pointer, stream, is_upward=False)


def await_copy(backend: Backend, stream: RawStream) -> None:
    """Wait for the copies on ``stream``, even if the wait is interrupted: their memory must outlive them."""
    try:
        backend.stream_synchronize(stream)
    except BaseException:
        in_flight.abandon(backend, stream)
        raise


def _download_small(src: ArrayInfo, end: HostEnd, stream: RawStream) -> None:
    nbytes, backend = src.nbytes, end.backend
    own = slab.slab_of(backend, nbytes)
    memory, pointer = own.take(nbytes, stream)
    # The slab's bytes may be taken again once this returns, so even an interrupted copy must be waited for.
    try:
        observe.copy(Kind.D2H, pointer, src.pointer, nbytes, backend, stream)
        backend.stream_synchronize(stream)
    except BaseException:
        in_flight.abandon(backend, stream)
        raise
    compiled_copies.scatter(end.array, end.dtype, memory, pointer)
    own.emptied()


def download_pinned(src: ArrayInfo, end: HostEnd, stream: RawStream, found: Plan) -> None:
    """Copy straight into pinned memory; returns at once."""
    assert found.pinned is not None
    for pointer, nbytes in found.pinned.spans:
        observe.copy(Kind.D2H, pointer, src.pointer + pointer - end.pointer, nbytes, end.backend, stream)


# --- by one thread, through its slab: on the simulator, for backends without C functions, without the compiled C


def _chunks(end: HostEnd) -> Chunks:
    return chunked(end.array, end.dtype.itemsize, max(min(MEDIUM_NBYTES, partition.chunk_nbytes()), end.dtype.itemsize))


def _slab_upload(end: HostEnd, pointer: int, stream: RawStream, finish: Callable[[], None] | None = None) -> Job:
    """Fill contiguous memory of the device, at an address, from the host's end."""
    backend, itemsize, chunks = end.backend, end.dtype.itemsize, _chunks(end)
    moving = observe.moving(Kind.H2D, end.nbytes, chunks.count, backend, stream)

    def work(take: Callable[[], int]) -> None:
        backend.attach(stream.device)
        while (index := take()) >= 0:
            offset, part = chunks[index]
            nbytes = part.size * itemsize
            begun_s = time.perf_counter() if moving is not None else 0.0
            memory, source = slab.slab_of(backend, nbytes).take(nbytes, stream)
            compiled_copies.gather(part, end.dtype, memory, source)
            _filled(moving, begun_s, nbytes)
            backend.copy(pointer + offset, source, nbytes, stream=stream)
            if moving is not None:
                moving.sent()

    return Job(chunks.count, work, finish=finish)


def _slab_download(pointer: int, end: HostEnd, stream: RawStream, finish: Callable[[], None] | None = None) -> Job:
    """Fill the host's end from contiguous memory of the device, at an address."""
    backend, itemsize, chunks = end.backend, end.dtype.itemsize, _chunks(end)
    moving = observe.moving(Kind.D2H, end.nbytes, chunks.count, backend, stream)

    def work(take: Callable[[], int]) -> None:
        backend.attach(stream.device)
        while (index := take()) >= 0:
            offset, part = chunks[index]
            nbytes = part.size * itemsize
            own = slab.slab_of(backend, nbytes)
            memory, target = own.take(nbytes, stream)
            try:  # the slab's bytes may be taken again after this, so even an interrupted copy must be waited for
                if moving is not None:
                    moving.send()
                backend.copy(target, pointer + offset, nbytes, stream=stream)
                if moving is not None:
                    moving.sent()
                backend.stream_synchronize(stream)
            except BaseException:
                in_flight.abandon(backend, stream)
                raise
            begun_s = time.perf_counter() if moving is not None else 0.0
            compiled_copies.scatter(part, end.dtype, memory, target)
            own.emptied()
            staging_hooks.staged(nbytes)
            if moving is not None:
                moving.staged(begun_s, nbytes)

    return Job(chunks.count, work, finish=finish)


def _filled(moving: Moving | None, begun_s: float, nbytes: int) -> None:
    """A chunk of an upload has been filled, and is about to be sent."""
    staging_hooks.staged(nbytes)
    if moving is not None:
        moving.staged(begun_s, nbytes)
        moving.send()
