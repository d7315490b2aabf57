"""Pinned memory: the pool, arrays over it, pinning in place, and finding pinned memory by address.

Page-locking costs a hundred times a copy, so blocks are recycled; a DMA may still be using a block
when its array dies, so a block is reused only after every event recorded on it.
"""

from __future__ import annotations

import bisect
import math
import mmap
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xferlib import _config, _handover, _hostmem
from xferlib.errors import LayoutError, PinnedMemoryError

if TYPE_CHECKING:
    from types import TracebackType

    from xferlib.backends.base import Backend, PinnedBlock, RawEvent

WhenFull = Literal["stage", "block", "raise"]

_EXACT_FROM = 64 << 20
_SMALLEST = 512
_MEMORY_FILES = ("/dev/zero", "/dev/shm/", "/memfd:", "/SYSV")  # noqa: S108 - names of memory that no disk backs


def bin_nbytes(nbytes: int) -> int:
    """The size that a request is rounded to: at most 1/8 wasted; whole pages above 64 MiB.

    Eight steps between powers of two, as allocators with a three-bit mantissa have.
    """
    if nbytes <= _SMALLEST:
        return _SMALLEST
    if nbytes > _EXACT_FROM:
        return -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    step = 1 << ((nbytes - 1).bit_length() - 4)
    return -(-nbytes // step) * step


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedStats:
    """What a pinned pool holds, in bytes and blocks."""

    in_use_nbytes: int
    free_nbytes: int
    draining_nbytes: int
    """Released, but a copy may still be using them."""
    peak_nbytes: int
    allocations: int
    reuses: int

    @property
    def total_nbytes(self) -> int:
        return self.in_use_nbytes + self.free_nbytes + self.draining_nbytes


class _Lease:
    """A pinned block while arrays use it; back to the pool when the last of them dies."""

    __slots__ = ("__weakref__", "block", "events", "nbytes", "pid", "pool")

    def __init__(self, pool: PinnedPool, block: PinnedBlock, nbytes: int) -> None:
        self.pool = pool
        self.block = block
        self.nbytes = nbytes
        self.events: list[RawEvent] = []
        self.pid = os.getpid()

    def __del__(self) -> None:
        try:
            if self.pid == os.getpid():
                self.pool._release(self)
        except Exception:  # the interpreter is going away
            return


class PinnedPool:
    """Recycles page-locked blocks of one backend family.

    Args:
        backend: Allocates the blocks and knows their events.
        max_bytes: Most bytes to hold, in use and free together; None: ``XFERLIB_PINNED_LIMIT``.
        when_full: What an allocation over the limit does. ``"stage"``: gets ordinary memory, which
            transfers stage. ``"block"``: waits until copies in flight release enough. ``"raise"``.
    """

    def __init__(self, backend: Backend, *, max_bytes: int | None = None, when_full: WhenFull = "stage") -> None:
        if when_full not in ("stage", "block", "raise"):
            raise ValueError(f"when_full={when_full!r}; give 'stage', 'block' or 'raise'")
        self._backend = backend
        self.max_bytes = max_bytes
        self.when_full: WhenFull = when_full
        # Reentrant: garbage collection may run a lease's __del__ in the thread that holds the lock.
        self._lock = threading.RLock()
        self._free: dict[int, list[_Drain]] = {}
        self._draining: list[_Drain] = []
        self._in_use = self._free_nbytes = self._draining_nbytes = 0
        self._peak = self._allocations = self._reuses = 0
        self._starts: list[int] = []
        self._leases: dict[int, Any] = {}

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An uninitialised array in pinned memory.

        Raises:
            PinnedMemoryError: The pool is full and ``when_full`` is ``"raise"``, or blocking cannot
                help because nothing is in flight; or the system refuses more page-locked memory.
        """
        nbytes = math.prod(shape) * dtype.itemsize
        lease = self._lease(bin_nbytes(nbytes))
        if lease is None:
            return np.empty(shape, dtype)
        return _hostmem.array_over(lease.block.pointer, shape, dtype, nbytes, lease)

    def _lease(self, size: int) -> _Lease | None:
        block = self._reuse(size)
        if block is None:
            if not self._make_room(size):
                return None
            try:
                block = self._backend.pinned_alloc(size)  # outside the lock: it takes milliseconds
            except BaseException:
                with self._lock:
                    self._in_use -= size
                raise
            self._allocations += 1
        lease = _Lease(self, block, size)
        self._note(lease)
        return lease

    def _reuse(self, size: int) -> PinnedBlock | None:
        with self._lock:
            self._poll()
            blocks = self._free.get(size)
            if not blocks:
                return None
            self._free_nbytes -= size
            self._in_use += size
            self._reuses += 1
            drain = blocks.pop()
            _handover.taken(drain)
            return drain.block

    def _make_room(self, size: int) -> bool:
        """Count ``size`` as in use if the limit allows; False: stage instead."""
        limit = self.max_bytes if self.max_bytes is not None else _config.get().pinned_limit
        while True:
            with self._lock:
                if limit and self._in_use + self._draining_nbytes + self._free_nbytes + size > limit:
                    self._drop_free()
                if not limit or self._in_use + self._draining_nbytes + size <= limit:
                    self._in_use += size
                    return True
                drain = self._draining[0] if self._draining else None
            if self.when_full == "stage":
                return False
            if self.when_full == "raise" or drain is None:
                raise PinnedMemoryError(
                    f"{size} pinned bytes do not fit: {self._in_use} of at most {limit} are in use; release pinned "
                    "arrays, or raise XFERLIB_PINNED_LIMIT (max_bytes of the pool)"
                )
            for event in drain.events:
                self._backend.event_synchronize(event)
            with self._lock:
                self._poll()

    def _note(self, lease: _Lease) -> None:
        import weakref

        with self._lock:
            bisect.insort(self._starts, lease.block.pointer)
            self._leases[lease.block.pointer] = weakref.ref(lease)
            self._peak = max(self._peak, self._in_use + self._free_nbytes + self._draining_nbytes)

    def _release(self, lease: _Lease) -> None:
        block, size = lease.block, lease.nbytes
        with self._lock:
            del self._leases[block.pointer]
            del self._starts[bisect.bisect_left(self._starts, block.pointer)]
            self._in_use -= size
            self._draining_nbytes += size
            self._draining.append(_Drain(block, size, lease.events))
            self._poll()

    def _poll(self) -> None:
        """Move blocks whose last event has passed to the free lists."""
        # Taken out first: asking an event may run a finalizer that releases a block, and so comes here again.
        unseen, self._draining = self._draining[::-1], []
        waiting = []
        try:
            while unseen:
                is_done = all(self._backend.event_done(event) for event in unseen[-1].events)
                drain = unseen.pop()
                if is_done:
                    self._draining_nbytes -= drain.nbytes
                    self._free_nbytes += drain.nbytes
                    drain.events = []
                    _handover.given(drain)
                    self._free.setdefault(drain.nbytes, []).append(drain)
                else:
                    waiting.append(drain)
        finally:
            self._draining = waiting + unseen[::-1] + self._draining

    def _drop_free(self) -> None:
        self._free.clear()
        self._free_nbytes = 0

    def find(self, pointer: int) -> _Lease | None:
        """The lease whose memory holds the address; views count."""
        if not self._starts:
            return None
        with self._lock:
            index = bisect.bisect_right(self._starts, pointer) - 1
            if index < 0:
                return None
            lease: _Lease | None = self._leases[self._starts[index]]()
            if lease is None or pointer >= lease.block.pointer + lease.nbytes:
                return None
            return lease

    def stats(self) -> PinnedStats:
        """What the pool holds now."""
        with self._lock:
            self._poll()
            return PinnedStats(
                in_use_nbytes=self._in_use,
                free_nbytes=self._free_nbytes,
                draining_nbytes=self._draining_nbytes,
                peak_nbytes=self._peak,
                allocations=self._allocations,
                reuses=self._reuses,
            )

    def trim(self) -> int:
        """Give every free block back to the system; returns the bytes given up."""
        with self._lock:
            self._poll()
            nbytes = self._free_nbytes
            self._drop_free()
            return nbytes


@dataclass(slots=True)
class _Drain:
    block: PinnedBlock
    nbytes: int
    events: list[RawEvent]
    handover: object = None


_pools: dict[str, PinnedPool] = {}
_pools_lock = threading.RLock()  # reentrant: a finalizer may run inside


def pool_of(backend: Backend) -> PinnedPool:
    """The pool that a backend's family shares."""
    pool = _pools.get(backend.pinned_domain)
    if pool is None:
        with _pools_lock:
            pool = _pools.setdefault(backend.pinned_domain, PinnedPool(backend))
    return pool


def pools() -> tuple[PinnedPool, ...]:
    """Every pool that exists."""
    return tuple(_pools.values())


# --- memory pinned in place


@dataclass(slots=True)
class _Segment:
    """Whole pages registered with the driver, and how many `pin` blocks hold them."""

    start: int
    stop: int
    holders: int


class Registrations:
    """Page ranges pinned in place; ranges may share pages, so each page range is counted."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = threading.RLock()
        self._segments: list[_Segment] = []

    def add(self, pointer: int, nbytes: int) -> list[_Segment]:
        """Pin the pages of a range; returns the segments to give to `remove`."""
        page = mmap.PAGESIZE
        start, stop = pointer // page * page, -(-(pointer + nbytes) // page) * page
        held: list[_Segment] = []
        with self._lock:
            try:
                for first, last, segment in self._split(start, stop):
                    if segment is None:
                        self._backend.pinned_register(first, last - first)
                        segment = _Segment(first, last, 0)
                        bisect.insort(self._segments, segment, key=lambda each: each.start)
                    segment.holders += 1
                    held.append(segment)
            except BaseException:
                self._remove(held)
                raise
        return held

    def _split(self, start: int, stop: int) -> list[tuple[int, int, _Segment | None]]:
        """The range as segments that exist and gaps that do not."""
        parts: list[tuple[int, int, _Segment | None]] = []
        position = start
        for segment in self._segments:
            if segment.stop <= start or segment.start >= stop:
                continue
            if segment.start > position:
                parts.append((position, segment.start, None))
            parts.append((segment.start, segment.stop, segment))
            position = segment.stop
        if position < stop:
            parts.append((position, stop, None))
        return parts

    def remove(self, held: list[_Segment]) -> None:
        with self._lock:
            self._remove(held)

    def _remove(self, held: list[_Segment]) -> None:
        for segment in held:
            segment.holders -= 1
            if not segment.holders:
                self._segments.remove(segment)
                self._backend.pinned_unregister(segment.start)

    def spans(self, pointer: int, nbytes: int) -> list[tuple[int, int]] | None:
        """The range cut where one registration ends and the next begins; None unless all is pinned.

        The driver refuses a copy that crosses from one registration into another.
        """
        if not self._segments:
            return None
        with self._lock:
            spans: list[tuple[int, int]] = []
            for first, last, segment in self._split(pointer, pointer + nbytes):
                if segment is None:
                    return None
                begin, end = max(first, pointer), min(last, pointer + nbytes)
                spans.append((begin, end - begin))
            return spans


_registrations: dict[str, Registrations] = {}


def registrations_of(backend: Backend) -> Registrations:
    """The registrations that a backend's family shares."""
    found = _registrations.get(backend.pinned_domain)
    if found is None:
        with _pools_lock:
            found = _registrations.setdefault(backend.pinned_domain, Registrations(backend))
    return found


class pin:  # noqa: N801 - reads as a verb: `with pin(array):`
    """Page-lock an existing array's memory in place for a block.

    Page-locking 1 GiB takes 24 ms where the pages are resident and about 140 ms where they are
    not: worth it for memory that is sent many times. For one transfer it is not: staging is faster.

    Args:
        array: A C- or F-contiguous ``numpy.ndarray`` in ordinary memory. Not a file-backed map.
        backend: The backend that will copy it.

    Raises:
        LayoutError: The array has gaps, or is a file-backed map.
        PinnedMemoryError: The system refuses to lock the pages.
    """

    def __init__(self, array: np.ndarray[Any, Any], backend: Backend) -> None:
        if not isinstance(array, np.ndarray) or not (array.flags.c_contiguous or array.flags.f_contiguous):
            raise LayoutError(
                f"pin takes a contiguous numpy.ndarray, not {_describe(array)}; use pinned_array(x) for a pinned copy"
            )
        if is_file_backed(array):
            raise LayoutError(
                "pin refuses a file-backed map, whose pages the system must be free to drop; "
                "to_device streams it without pinning"
            )
        self._array = array
        self._backend = backend
        self._held: list[list[_Segment]] = []

    def __enter__(self) -> np.ndarray[Any, Any]:
        registrations = registrations_of(self._backend)
        nbytes = self._array.nbytes
        self._held.append(registrations.add(self._array.ctypes.data, nbytes) if nbytes else [])
        return self._array

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held = self._held.pop()
        if held:
            self._await_copies()
            registrations_of(self._backend).remove(held)

    def _await_copies(self) -> None:
        """Wait for whatever may still use the pages: xferlib's copies on every device, the library's on the current."""
        from xferlib._transfer import in_flight

        in_flight.drain()
        current = self._backend.device_current()
        if current.kind != "cpu":
            self._backend.device_synchronize(current)


def _describe(array: Any) -> str:
    if isinstance(array, np.ndarray):
        return f"one with shape {array.shape} and strides {array.strides}"
    return type(array).__name__


def is_file_backed(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array's memory maps a file, however many views lie between."""
    base: Any = array
    while isinstance(base, (np.ndarray, memoryview)):
        if isinstance(base, np.memmap) and getattr(base, "filename", None) is not None:
            return True
        base = base.obj if isinstance(base, memoryview) else base.base
    return isinstance(base, mmap.mmap) and _maps_a_file(array.ctypes.data)


def _maps_a_file(address: int) -> bool:
    """Whether the address lies in a mapping with an inode; True where the platform does not say."""
    try:
        with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
            for line in maps:
                bounds, _, _, _, inode, *path = line.split(maxsplit=5)
                start, _, stop = bounds.partition("-")
                if int(start, 16) <= address < int(stop, 16):
                    return inode != "0" and not "".join(path).startswith(_MEMORY_FILES)
    except OSError:
        return True
    return False


def _after_fork_in_child() -> None:
    """The parent's blocks and registrations are not this process's to reuse or release."""
    _pools.clear()
    _registrations.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
