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
from typing import TYPE_CHECKING, Any

from xferlib._core import observe, staging_hooks
from xferlib._core.layout import chunked
from xferlib._core.observe import Kind
from xferlib._core.raw import opened
from xferlib._core.thresholds import MEDIUM_NBYTES
from xferlib._memory import in_flight, slab
from xferlib._runtime.jobs import Job
from xferlib._runtime.threads import workers
from xferlib._transfer import compiled_copies, compiled_staging, plan, regions
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.open_transfer import OpenTransfer
from xferlib._transfer.plan import Path
from xferlib.errors import CaptureError, LayoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.array import ArrayInfo
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import Chunks, HostArray
    from xferlib._core.observe import Moving
    from xferlib._core.raw import RawStream
    from xferlib._transfer.plan import Plan


def upload(end: HostEnd, dst: ArrayInfo, stream: RawStream, found: Plan) -> None:
    """Fill ``dst`` (C-contiguous) on ``stream``; pageable memory has been read on return."""
    backend = end.backend
    if found.path is Path.PINNED:
        copy_pinned(end, dst.pointer, stream, is_upward=True)
        return
    # The driver waits for the stream first: so only where that is idle.
    fast = backend.fast if found.tries_driver else None
    if fast is not None and fast.takes_pageable(stream, idle=True):
        if observe.driver_copy(Kind.H2D, fast.copy_to_device, dst.pointer, end.pointer, dst.nbytes, backend, stream):
            return
    if found.path is Path.SMALL:
        memory, pointer = slab.slab_of(backend, end.nbytes, stream).take(end.nbytes, stream)
        compiled_copies.gather(end.array, end.dtype, memory, pointer)
        observe.copy(Kind.H2D, dst.pointer, pointer, dst.nbytes, backend, stream)
    else:
        _stage(end, dst.pointer, stream, is_upward=True)


def _stage(end: HostEnd, pointer: int, stream: RawStream, *, is_upward: bool) -> None:
    """Stage an array in this thread, with helpers."""
    backend = end.backend
    if observe.active is not None or not compiled_staging.stage(
        end.array, end.dtype, end.pointer, pointer, backend, stream, is_upward=is_upward
    ):
        workers.run(job(end, pointer, stream, None, is_upward=is_upward))


def job(end: HostEnd, pointer: int, stream: RawStream, finish: Callable[[], None] | None, *, is_upward: bool) -> Job:
    """The job that stages an array between the host's end and contiguous memory of the device, at an address.

    ``finish`` runs when every copy of an upload is enqueued, a download is complete, or one has failed.
    """
    backend = end.backend
    described = regions.of_one(end, pointer) if compiled_staging.calls_of(backend, stream) is not None else None
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


def copy_pinned(end: HostEnd, pointer: int, stream: RawStream, *, is_upward: bool) -> None:
    """Copy straight between pinned memory and contiguous memory of the device, at an address; returns at once."""
    assert end.pinned is not None
    for host, nbytes in end.pinned.spans:
        device = pointer + host - end.pointer
        kind, dst, src = (Kind.H2D, device, host) if is_upward else (Kind.D2H, host, device)
        observe.copy(kind, dst, src, nbytes, end.backend, stream)


# --- device to host


def download(src: ArrayInfo, end: HostEnd, stream: RawStream, found: Plan) -> None:
    """Fill pageable memory from ``src`` (C-contiguous) after the work on ``stream``; complete on return."""
    backend = end.backend
    fast = backend.fast if found.tries_driver else None
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
    own = slab.slab_of(backend, nbytes, stream)
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


# --- by one thread, through its slab: on the simulator, for backends without C functions, without the compiled C


def _chunks(end: HostEnd) -> Chunks:
    return chunked(end.array, end.dtype.itemsize, max(min(MEDIUM_NBYTES, plan.chunk_nbytes()), end.dtype.itemsize))


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
            memory, source = slab.slab_of(backend, nbytes, stream).take(nbytes, stream)
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
            own = slab.slab_of(backend, nbytes, stream)
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


# --- in a capture: a graph repeats copies between fixed addresses, and of bytes as they are


def captured_stream(call: str, backend: Backend, device: Device, stream: RawStream | None) -> RawStream | None:
    """The stream of a copy that is captured; None for one that is not.

    Raises:
        CaptureError: The copy's stream and the current one are not of the same capture.
    """
    if not opened:
        return None
    current = backend.stream_current(device)
    order = stream if stream is not None else current
    if order.capture is not current.capture:
        raise CaptureError(
            f"{call}: {order!r} and the current stream {current!r} are not of one capture, so that neither may wait "
            "for the other; give a stream that has waited for the captured one, or leave stream= out"
        )
    return order if order.capture is not None else None


def captured_upload(end: HostEnd, out: Any, into: ArrayInfo, stream: RawStream) -> Path:
    """Record a copy from pinned memory.

    Raises:
        CaptureError: The memory is pageable, or would have to be converted or spread.
    """
    if not end.nbytes:
        return Path.EMPTY
    _check_captured("to_device", end, into)
    copy_pinned(end, into.pointer, stream, is_upward=True)
    in_flight.in_flight.hold(end.backend, in_flight.record(end.backend, stream), end.array, out)
    return Path.PINNED


def captured_download(src: Any, info: ArrayInfo, backend: Backend, stream: RawStream, out: Any) -> HostArray:
    """Record a copy to pinned memory.

    Raises:
        LayoutError: There is no ``out``.
        CaptureError: It is pageable, or the array would have to be converted or put in order.
    """
    if out is None:
        raise LayoutError(
            "to_host_async: a copy in a capture needs out=, which each launch of the graph fills; make it with "
            "pinned_empty()"
        )
    found: HostArray = out
    end = HostEnd(found, info.dtype, backend)
    if end.nbytes:
        _check_captured("to_host_async", end, info)
        copy_pinned(end, info.pointer, stream, is_upward=False)
        in_flight.in_flight.hold(backend, in_flight.record(backend, stream), src, found)
    return found


def _check_captured(call: str, end: HostEnd, there: ArrayInfo) -> None:
    if not end.is_plain or not there.is_c_contiguous:
        raise CaptureError(
            f"{call}: a copy in a capture moves bytes as they are, and the arrays differ (dtype {end.array.dtype} and "
            f"strides {end.array.strides} on the host, {there.dtype} and {there.strides} on the device); convert "
            "before the capture, or on the device"
        )
    if end.pinned is None:
        raise CaptureError(
            f"{call}: {end.nbytes} bytes of pageable memory in a capture, which a graph cannot copy; use an array made "
            "with pinned_empty() or pinned_array(x)"
        )
