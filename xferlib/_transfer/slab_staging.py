"""Staging in one thread, through its slab, one chunk after the other: for devices and machines that C does not stage.

Such are the simulator, backends without C functions of their own, machines where the C is not compiled, and arrays of
more axes than it takes. Slower than `compiled_staging`, and as correct: a small part of the array at a time is gathered
into pinned memory and sent, or received and put into its places.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from xferlib._core import observe, staging_hooks
from xferlib._core.layout import chunked
from xferlib._core.observe import Kind
from xferlib._core.thresholds import MEDIUM_NBYTES
from xferlib._memory import in_flight, slab
from xferlib._runtime.jobs import Job
from xferlib._transfer import compiled_copies, partition

if TYPE_CHECKING:
    from xferlib._core.layout import Chunks
    from xferlib._core.observe import Moving
    from xferlib._core.raw import RawStream
    from xferlib._transfer.host_end import HostEnd


def _chunks(end: HostEnd) -> Chunks:
    return chunked(end.array, end.dtype.itemsize, max(min(MEDIUM_NBYTES, partition.chunk_nbytes()), end.dtype.itemsize))


def upload_job(end: HostEnd, pointer: int, stream: RawStream, finish: Callable[[], None] | None = None) -> Job:
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
            _note(moving, begun_s, nbytes)
            backend.copy(pointer + offset, source, nbytes, stream=stream)
            if moving is not None:
                moving.sent()

    return Job(chunks.count, work, finish=finish)


def download_job(pointer: int, end: HostEnd, stream: RawStream, finish: Callable[[], None] | None = None) -> Job:
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


def _note(moving: Moving | None, begun_s: float, nbytes: int) -> None:
    """A chunk of an upload has been filled, and is about to be sent."""
    staging_hooks.staged(nbytes)
    if moving is not None:
        moving.staged(begun_s, nbytes)
        moving.send()
