"""Host memory: arrays over raw blocks, and the recycled memory that results of ``to_host`` live in.

A fresh page costs a fault and a clearing: 10 GB/s at best, and less where several threads fill the memory of one
process. malloc gives the pages of arrays of some MiB back as it sees fit. So a block that a result no longer uses is
kept for the next one *if that size was asked for again after its release*: a loop recycles, and a single transfer, or
the results of one tree, leave nothing behind. Beyond the first GiB kept pages are marked with ``MADV_FREE``: the kernel
takes them whenever it runs short. Marking takes long: every core that used them is interrupted.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import math
import mmap
import os
import sys
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from xferlib import _native
from xferlib._core import arrays
from xferlib._core.device import make_pageable_capture_error
from xferlib._core.thresholds import (
    CHUNK_NBYTES,
    LENT_CHUNKS,
    MEDIUM_NBYTES,
)
from xferlib._memory.lifetimes import PerDevice
from xferlib._runtime import process
from xferlib._runtime.process import reset_in_child
from xferlib._runtime.threads import Handed, deferred
from xferlib.errors import OutOfMemoryError, PinnedMemoryError, TransferError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.arrays import HostArray
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, PinnedBlock, RawEvent, RawStream


HUGE = 2 << 20
"""Bytes of a huge page."""
RECYCLED_FROM = HUGE
"""Smaller results are ordinary ``numpy.empty``: malloc recycles them itself, and they take few faults."""
_UNMARKED_NBYTES = 1 << 30
_MALLOC_MOST = 32 << 20
"""Up to here malloc may have memory where no more can be mapped (mallopt(3))."""
_SIZES_REMEMBERED = 4096


@functools.cache
def let_malloc_recycle() -> None:
    """Let malloc keep what is freed for the next array, up to 32 MiB: glibc does so from the first such free on.

    Until then it maps each larger array anew, or gives its pages back in each step of a loop, and the faults on them
    take longer than the loop's work. Only address space is used here: no page is touched.
    """
    with contextlib.suppress(MemoryError):  # where a process may not have 32 MiB more
        np.empty(_MALLOC_MOST - (64 << 10), np.uint8)  # less by what malloc adds, or it would be too large to count


class _Bytes:
    """Exposes memory to NumPy; the array's ``base`` keeps ``owner``, and so the memory, alive."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, pointer: int, nbytes: int, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (pointer, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}


def bytes_over(pointer: int, nbytes: int, owner: Any) -> np.ndarray[Any, Any]:
    """A uint8 array over raw host memory that keeps ``owner`` alive."""
    return np.asarray(_Bytes(pointer, nbytes, owner))


class _Pages:
    """Mapped pages, and the first address in them that a huge page may begin at."""

    __slots__ = ("pages", "pointer", "size")

    def __init__(self, pages: mmap.mmap) -> None:
        self.pages = pages
        self.size = len(pages)
        self.pointer = -(-np.frombuffer(pages, dtype=np.uint8).ctypes.data // HUGE) * HUGE


class _Lease:
    """A block while an array uses it; gives it back when the last view of the array dies."""

    __slots__ = ("block", "cache", "is_fresh", "pid")

    def __init__(self, block: _Pages, cache: HostCache, *, is_fresh: bool) -> None:
        self.block = block
        self.cache = cache
        self.is_fresh = is_fresh
        """Whether its pages were newly mapped when it was taken, not recycled."""
        self.pid = os.getpid()

    def __del__(self) -> None:
        try:
            if self.pid == os.getpid():  # a forked child shares the pages: it must not hand them out
                self.cache.give_back(self.block)
        except Exception:  # the interpreter is going away
            return


def is_fresh(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array of `HostCache.empty` was made over untouched pages, which filling it faults in."""
    owner = getattr(getattr(array.base, "base", None), "owner", None)
    return isinstance(owner, _Lease) and owner.is_fresh


def is_leased(base: Any) -> TypeGuard[_Bytes]:
    """Whether the ``base`` of an array is memory of `HostCache.empty`, which no other object refers to."""
    return isinstance(base, _Bytes) and isinstance(base.owner, _Lease)


class HostCache:
    """Released result memory, by size, least recently used first."""

    def __init__(self) -> None:
        # Reentrant: garbage collection may run a lease's __del__ in the thread that holds the lock.
        self._lock = threading.RLock()
        self._free: OrderedDict[int, list[_Pages]] = OrderedDict()
        self._is_loop: OrderedDict[int, bool] = OrderedDict()
        """Sizes of blocks that were released: whether one was asked for after that."""
        self._counted = 0
        """`nbytes_free`, but for what Ctrl-C may have kept from being counted."""

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An uninitialised array; over recycled pages where a block of that size is free."""
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes < RECYCLED_FROM:
            return np.empty(shape, dtype)
        try:
            block, is_fresh = self._take(nbytes)
        except (OSError, ValueError, OverflowError) as error:
            if nbytes <= _MALLOC_MOST:  # such as where a process has mapped as many blocks as it may
                return np.empty(shape, dtype)
            raise OutOfMemoryError(
                f"{nbytes} bytes of host memory for the result cannot be mapped ({error}); "
                "free arrays, or move less at a time"
            ) from error
        return bytes_over(block.pointer, nbytes, _Lease(block, self, is_fresh=is_fresh)).view(dtype).reshape(shape)

    def _take(self, nbytes: int) -> tuple[_Pages, bool]:
        """Pages for ``nbytes``, and whether they are fresh: the first write to each faults it in."""
        size = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE + HUGE
        with self._lock:
            if size in self._is_loop:
                self._is_loop[size] = True
            blocks = self._free.get(size)
            if blocks:
                block = blocks.pop()
                self._counted -= size
                if not blocks:
                    del self._free[size]
                return block, False
        fresh = _map(size)
        _advise(fresh, "MADV_HUGEPAGE")
        return _Pages(fresh), True

    def give_back(self, block: _Pages) -> None:
        """Keep a block for the next array of its size, or unmap it."""
        size = block.size
        limit = process.get().host_cache
        with self._lock:
            is_loop = self._is_loop.setdefault(size, False)
            self._is_loop.move_to_end(size)
            if len(self._is_loop) > _SIZES_REMEMBERED:
                self._is_loop.popitem(last=False)
            if not is_loop or size > limit:
                return  # the last reference dies with the caller's: unmapped
            if self._counted >= _UNMARKED_NBYTES:
                _advise(block.pages, "MADV_FREE")
            self._free.setdefault(size, []).append(block)
            self._free.move_to_end(size)
            self._counted += size
            if self._counted > limit:
                self._shrink(limit)

    def _shrink(self, limit: int) -> None:
        """Unmap the blocks that were not used for longest, with the lock held."""
        self._counted = self.nbytes_free
        while self._counted > limit:
            oldest, blocks = next(iter(self._free.items()))
            if blocks:
                del blocks[-1]
                self._counted -= oldest
            else:
                del self._free[oldest]

    @property
    def nbytes_free(self) -> int:
        """Bytes of the blocks that are kept."""
        return sum(size * len(blocks) for size, blocks in self._free.items())

    def trim(self) -> int:
        """Unmap every kept block; returns the bytes given up."""
        with self._lock:
            nbytes, self._counted = self.nbytes_free, 0
            self._free.clear()
            self._is_loop.clear()
            return nbytes


def _map(size: int) -> mmap.mmap:
    if hasattr(mmap, "MAP_PRIVATE"):  # shared pages, Python's default, have no MADV_FREE
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return mmap.mmap(-1, size)


def _advise(block: mmap.mmap, advice: str) -> None:
    option = getattr(mmap, advice, None)
    if option is not None:
        try:
            block.madvise(option)
        except OSError:  # advice: a kernel without it loses speed, nothing else
            return


host_cache = HostCache()


def _after_fork_in_child() -> None:
    host_cache.__init__()  # type: ignore[misc]


reset_in_child(_after_fork_in_child)


# The pages of a memory map: advice to the kernel, to read some ahead and drop others; and whether the file has them.
#
# To touch pages that it lacks, because it was truncated or its disk is full, ends the process with SIGBUS. So the
# length of the file is compared before each use (`arrays.refuse_truncated`). Where the disk has not even room for all,
# one thread asks the kernel for the pages of each part before several threads store there.

_ADVISED_NBYTES = 512 << 10
"""Bytes of one request: Linux reads ahead no more of it than the disk's largest request or its read-ahead."""

_UNNAMED = {"MADV_POPULATE_WRITE": 23} if sys.platform == "linux" else {}
"""Options that `mmap` does not name; this one is of Linux 5.14."""

_HUGE_FROM = 8 << 20
"""Smaller memory is often recycled by the C library. A new tensor of 64 MiB takes 19 ms to fill, and 106 without."""


class Pages:
    """The pages of an array in a memory map; advice on rows that are not contiguous is a no-op.

    So it is on private maps (copy-on-write), whose written pages are in no file.
    """

    def __init__(self, array: Any, file: Any, *, is_shared: bool) -> None:
        self._array = array  # its memory is mapped as long as it lives
        self._file = file
        """Its name, where that is known."""
        self._address = array.ctypes.data
        is_advised = is_shared and array.flags.c_contiguous and len(array)
        self._row_nbytes = array.strides[0] if is_advised else 0

    @classmethod
    def of(cls, array: Any) -> Pages | None:
        """Create for an array in a file's map; None for other arrays."""
        found = arrays.find_memory_map(array)
        memory = getattr(found, "_mmap", found)
        if not isinstance(memory, mmap.mmap) or not np.may_share_memory(np.frombuffer(memory, np.uint8), array):
            return None
        return cls(array, getattr(found, "filename", None), is_shared=getattr(found, "mode", "c") != "c")

    def refuse_truncated(self, what: str) -> None:
        """Refuse an array whose file has become shorter.

        Raises:
            LayoutError: It ends before the array does.
        """
        arrays.refuse_truncated(self._array, f"stream_map: {what}")

    def reserve(self, start: int, stop: int) -> None:
        """Have room for these rows on a disk that may be full.

        Raises:
            TransferError: There is none.
        """
        low, high = self._bounds(start, stop)
        if high > low and not self._has_room():
            first = low // mmap.PAGESIZE * mmap.PAGESIZE
            if _advise_kernel("MADV_POPULATE_WRITE", first, high - first) == errno.EFAULT:
                raise TransferError(
                    f"stream_map: the disk of {self._file} has no room for rows {start} to {stop} of out; "
                    "free some, or give out a file on another disk"
                )

    def _has_room(self) -> bool:
        """Whether the disk has room for all rows; True where that is not known."""
        try:
            disk = os.statvfs(self._file)
        except (AttributeError, OSError, TypeError):  # not on Windows; the name is gone; memory, made like a map
            return True
        return bool(disk.f_bavail * disk.f_frsize >= self._array.nbytes)

    def will_need(self, start: int, stop: int) -> None:
        """Read these rows from the disk, in order."""
        low, high = self._bounds(start, stop)
        if high > low:
            for first in range(low // mmap.PAGESIZE * mmap.PAGESIZE, high, _ADVISED_NBYTES):
                _advise_kernel("MADV_WILLNEED", first, min(_ADVISED_NBYTES, high - first))

    def let_go(self, start: int, stop: int) -> None:
        """Unmap these rows; they stay in the kernel's page cache while it has room."""
        low, high = self._bounds(start, stop)
        page = mmap.PAGESIZE
        low, high = -(-low // page) * page, high // page * page
        if high > low:
            _advise_kernel("MADV_DONTNEED", low, high - low)

    def _bounds(self, start: int, stop: int) -> tuple[int, int]:
        """Addresses of the first byte and behind the last."""
        return self._address + start * self._row_nbytes, self._address + stop * self._row_nbytes


def prefer_huge(array: HostArray) -> None:
    """Let fresh memory of an array lie on huge pages, as NumPy's own does.

    The system clears each page at its first write: 4 KiB at a time that takes longer than the copy.
    """
    if array.nbytes >= _HUGE_FROM:
        low = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
        _advise_kernel("MADV_HUGEPAGE", low, array.ctypes.data + array.nbytes - low)


def _advise_kernel(name: str, address: int, nbytes: int) -> int:
    """Call madvise, and return its error number; if advice fails, speed is lost and nothing else."""
    option, madvise = getattr(mmap, name, _UNNAMED.get(name)), _madvise()
    if option is None or madvise is None or not madvise(address, nbytes, option):
        return 0
    return ctypes.get_errno()


@functools.cache
def _madvise() -> Callable[[Any, Any, int], int] | None:
    """The C function, called without the GIL; the method of `mmap` would hold it."""
    function = None if os.name == "nt" else getattr(ctypes.CDLL(None, use_errno=True), "madvise", None)
    if function is not None:
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
    return function


# Slabs: a thread's own pinned memory for small copies, taken in turn.
#
# The obvious way is one pinned buffer a thread and an event after each copy, waited for before the next. That is one
# more driver call for each small copy, and the wait makes the host and the link take turns. A pool that threads share
# would need a lock at each copy.
#
# So a slab has four segments. Copies fill one from its start; when the next one does not fit, one event is recorded for
# each stream that the segment was used on, and the thread goes on with the segment whose events are the oldest: usually
# they are complete, so the wait is short.
#
# Guaranteed: the bytes that `Slab.take` returns are used by no copy in flight, if each caller enqueues its copy, on the
# stream that it named, before its thread takes again. The segment keeps those streams alive until it has recorded its
# events.
#
# There is no lock: a slab belongs to one thread. When the thread ends its slab becomes idle, for the next thread, by
# one ``append`` to a list, atomic under the GIL; it is never freed but by `trim`, which waits for its copies.

_SEGMENTS = 4
SMALL_SEGMENT_NBYTES = MEDIUM_NBYTES // 8
"""Up to here a copy uses the thread's slab of small segments, up to `MEDIUM_NBYTES` the one of large segments."""
SCRATCH_NBYTES = 2 * MEDIUM_NBYTES
"""Arrays from a device come one behind the other in it, more than a core's caches hold: the device writes slowly to
what a core has just read. On an H200's host 64, 128 and 192 KiB take 12.8, 19.0 and 24.0 us by way of the same bytes
each time, and 11.7, 15.8 and 19.5 by way of 32 times as many."""
_SCRATCH = 0
"""In place of a segment's size: the slab of `scratch_of`."""


_MOST_STREAMS = 32
"""A segment keeps the streams of its copies, which may have been dropped, until the next one is begun."""


class _Segment:
    __slots__ = ("bytes", "events", "pointer", "streams", "used")

    def __init__(self, data: np.ndarray[Any, Any], pointer: int) -> None:
        self.bytes = data
        self.pointer = pointer
        self.used = 0
        self.streams: dict[tuple[Device, int], RawStream] = {}
        self.events: list[RawEvent] = []


class Slab(Handed):
    """One thread's pinned memory for copies of one size or less: taken in turn, one event a segment and stream."""

    def __init__(self, backend: Backend, segment_nbytes: int, segments: int = _SEGMENTS) -> None:
        self._backend = backend
        self._segment_nbytes = segment_nbytes
        block = backend.pinned_alloc(segments * segment_nbytes)
        self.pointer = block.pointer
        data = bytes_over(block.pointer, block.nbytes, block)
        self._segments = [
            _Segment(data[start : start + segment_nbytes], block.pointer + start)
            for start in range(0, segments * segment_nbytes, segment_nbytes)
        ]
        self._index = 0

    def take(self, nbytes: int, stream: RawStream) -> tuple[np.ndarray[Any, Any], int]:
        """Return bytes that no copy uses, and their address, for one copy on ``stream``."""
        self.take_over()
        segment = self._segments[self._index]
        if segment.used + nbytes > self._segment_nbytes or len(segment.streams) > _MOST_STREAMS:
            segment = self._advance()
        start = segment.used
        segment.used = -(-(start + nbytes) // 64) * 64
        segment.streams[stream.device, stream.handle] = stream
        return segment.bytes[start : start + nbytes], segment.pointer + start

    def mark_empty(self) -> None:
        """Note that the caller has waited for a copy into the slab: who takes bytes next need not."""
        self.hand_on()

    def _advance(self) -> _Segment:
        full = self._segments[self._index]
        full.events += [self._backend.event_record(stream, timing=False) for stream in full.streams.values()]
        full.streams = {}
        index = (self._index + 1) % len(self._segments)
        fresh = self._segments[index]
        for event in fresh.events:
            self._backend.event_synchronize(event)  # if this is interrupted, the next call begins here
        self.hand_on()  # the next thread may use the rest of the segment, and waits for none of these
        fresh.events = []
        fresh.used = 0
        self._index = index
        return fresh

    def settle(self) -> int:
        """Wait until no copy uses the slab; returns its bytes. Any thread may, also one that never used a device."""
        for segment in self._segments:
            for stream in segment.streams.values():
                self._backend.attach(stream.device)
        for _ in range(len(self._segments) + 1):
            self._advance()
        return len(self._segments) * self._segment_nbytes


class _Tenancy:
    """A thread's use of a slab, which outlives the thread, as its copies may still be in flight."""

    __slots__ = ("kind", "pid", "slab")

    def __init__(self, slab: Slab, kind: tuple[str, int]) -> None:
        self.slab = slab
        self.kind = kind
        self.pid = os.getpid()

    def __del__(self) -> None:
        try:
            if self.pid == os.getpid():
                _idle_slabs.setdefault(self.kind, []).append(self.slab)
        except Exception:  # the interpreter is going away
            return


_idle_slabs: dict[tuple[str, int], list[Slab]] = {}
"""Slabs of threads that have ended, by domain and size of a segment; each still has the events to wait for."""


_local = threading.local()


def slab_of(backend: Backend, nbytes: int, stream: RawStream) -> Slab:
    """This thread's slab, for a backend's family and a copy on ``stream``.

    Args:
        nbytes: That a segment must hold; `MEDIUM_NBYTES` at most.

    Raises:
        CaptureError: A graph records the stream: each of its launches would copy whatever is in the slab then.
    """
    if stream.handle and backend.stream_is_recorded(stream):
        raise make_pageable_capture_error(stream.device)
    return _own(
        backend, (backend.pinned_domain, SMALL_SEGMENT_NBYTES if nbytes <= SMALL_SEGMENT_NBYTES else MEDIUM_NBYTES)
    )


def scratch_of(backend: Backend) -> tuple[int, int]:
    """The address and the size of this thread's pinned memory, for one call of C that waits for its copy.

    Nothing need be noted: whatever runs in this thread before the call has done with them, too.
    """
    return _own(backend, (backend.pinned_domain, _SCRATCH)).pointer, SCRATCH_NBYTES


def _own(backend: Backend, kind: tuple[str, int]) -> Slab:
    tenancies: dict[tuple[str, int], _Tenancy] = _local.__dict__  # type: ignore[assignment]  # its own, not an object's
    tenancy = tenancies.get(kind)
    if tenancy is None:
        tenancy = tenancies[kind] = _Tenancy(_idle_slab(backend, kind), kind)
    return tenancy.slab


def _idle_slab(backend: Backend, kind: tuple[str, int]) -> Slab:
    try:
        slab = _idle_slabs[kind].pop()
    except (KeyError, IndexError):
        return Slab(backend, SCRATCH_NBYTES, 1) if kind[1] == _SCRATCH else Slab(backend, kind[1])
    slab.take_over()
    return slab


def trim() -> int:
    """Free the slabs of threads that have ended; returns the bytes given up."""
    nbytes = 0
    for slabs in tuple(_idle_slabs.values()):  # other threads may add to them meanwhile
        with contextlib.suppress(IndexError):  # none is left, or another thread has taken the last
            while True:
                nbytes += slabs.pop().settle()
    return nbytes


def _reset_slabs_after_fork() -> None:
    """The parent's pinned memory is not this process's."""
    _idle_slabs.clear()
    _local.__dict__.clear()


reset_in_child(_reset_slabs_after_fork)


# The ring of pinned chunks through which the transfers of one device are staged.
#
# `ring.c` knows which chunks are free, and hands them out without the GIL. Python makes them, each with an event of the
# device, and frees them: `provide` before a transfer that could use more than are free, `trim` when the program asks.
#
# Guaranteed: no chunk is freed while a copy may use it. After an error whose copies the device does not end, `ring.c`
# keeps a transfer's chunks for ever, and so does `provide` one that `trim` could not wait for. A chunk that Python has
# made is known to both sides or to none, whenever Ctrl-C comes.


RING_CHUNKS = 3 * LENT_CHUNKS
"""Most chunks of a ring: what two transfers in one direction and one in the other can use."""


class Ring:
    """The chunks of one device.

    Attributes:
        handle: Of the ring in C.
        setups: What transfers have in common, by stream and direction: see `xferlib._transfer.staging`.
    """

    def __init__(self, backend: Backend, device: Device) -> None:
        self._backend = backend
        self._device = device
        self.handle = _native.load_library().xf_ring_new()
        if self.handle is None:
            raise OutOfMemoryError(f"host memory for the staging buffers of {device} is short; free arrays")
        self.setups: dict[Any, Any] = {}
        self._chunks: dict[int, tuple[PinnedBlock, RawEvent]] = {}
        self._lock = threading.RLock()  # reentrant: a finalizer may run inside

    def provide(self, count: int, stream: RawStream) -> None:
        """Make chunks, so that ``count`` are free, or as many as the ring may have.

        Raises:
            PinnedMemoryError: The system refuses page-locked memory, and there is no chunk at all.
        """
        library, wanted = _native.load_library(), min(count, LENT_CHUNKS)
        if library.xf_ring_free(self.handle) >= wanted or library.xf_ring_usable(self.handle) >= RING_CHUNKS:
            return
        with self._lock:
            while library.xf_ring_free(self.handle) < wanted and library.xf_ring_usable(self.handle) < RING_CHUNKS:
                try:
                    block = self._backend.pinned_alloc(CHUNK_NBYTES)
                except PinnedMemoryError:
                    if library.xf_ring_usable(self.handle):
                        return
                    raise
                event: Any = self._backend.event_record(stream, timing=False)
                with deferred:
                    number = library.xf_ring_add(self.handle, block.pointer, event.handle)
                    if number in self._chunks:  # of one that `trim` has taken away, and could not wait for
                        process.keep(self._chunks[number])
                    if number >= 0:
                        self._chunks[number] = block, event
                if number < 0 and not library.xf_ring_usable(self.handle):
                    raise PinnedMemoryError(
                        f"copies of {self._device} that do not end use all staging buffers; restart the process"
                    )
                if number < 0:
                    return

    def count_lent(self, *, is_upward: bool) -> int:
        """The number of chunks that transfers of one direction have."""
        return int(_native.load_library().xf_ring_lent(self.handle, is_upward))

    @property
    def nbytes(self) -> int:
        """Pinned memory held, but for lost chunks."""
        return int(_native.load_library().xf_ring_usable(self.handle)) * CHUNK_NBYTES

    def trim(self) -> int:
        """Free the chunks that no transfer has; returns the bytes given up."""
        freed = 0
        self.setups.clear()
        process.bump_epoch()  # C, too, has some, for whose transfers there would be no chunks
        self._backend.attach(self._device)
        with self._lock:
            while (number := _native.load_library().xf_ring_remove(self.handle)) >= 0:
                self._backend.event_synchronize(self._chunks[number][1])
                del self._chunks[number]  # behind the wait: where that fails, the chunk is kept for ever
                freed += 1
        return freed * CHUNK_NBYTES


rings = PerDevice(Ring)


def trim_rings() -> int:
    """Free every ring's idle chunks; returns the bytes given up."""
    return sum(ring.trim() for ring in rings.all())
