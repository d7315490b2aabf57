"""Pinned memory: the pool, arrays over it, and finding pinned memory by address.

Page-locking costs a hundred times a copy, so blocks are recycled; a DMA may still be using a block when its array
dies, so it is reused only after every event recorded on it.
The obvious way is a ``__del__`` of the array's owner that takes the pool's lock and puts the block into a free list.
It fails three times: an object dies in any thread and within any call, so also while this thread changes the books;
KeyboardInterrupt raised in a ``__del__`` is swallowed, and the block lost; and the block may still be read by a copy.
So a death only appends the block to a deque, by a C function, and an allocation that finds no free block moves it on,
under the lock: in use, then draining until its last event completes, then free. Where no copy was in flight, C puts the
block among the free ones at once. Handing a block out is one call of C, too (`lease.c`): Ctrl-C comes before or after.
Where that is not compiled, and on the simulator, which must see who hands what to whom, Python does it with Ctrl-C put
off. Every other step is whole by itself: a block goes on only if its last user is dead, and if it did not before.

Guaranteed: no block is handed out before every event given to `Lease.hold` is complete; the bytes in use, draining
and free stay within the limit, if there is one; the pool neither waits for an event nor allocates with its lock held.

`PinnedPool._lock` protects the books and the events of each block. It is reentrant: asking an event may run a
finalizer that comes here again, and does these steps meanwhile. `_dead` needs no lock, which is why a finalizer may
append to it.
"""

from __future__ import annotations

import bisect
import math
import mmap
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from xferlib._core import blocks, observe
from xferlib._core.arrays import check_dtype, shape_of
from xferlib._core.streams import ProcessBound
from xferlib._core.thresholds import PINNED_QUERY_FROM
from xferlib._memory.lifetimes import PerDomain
from xferlib._runtime import process
from xferlib._runtime.threads import deferred, is_followed
from xferlib.errors import ArgumentError, LayoutError, PinnedMemoryError, XferError, quote

if TYPE_CHECKING:
    from types import TracebackType

    from xferlib._core.backend import Backend
    from xferlib._core.device import RawEvent
    from xferlib._memory.lifetimes import Lease, PooledBlock


WhenFull = Literal["stage", "block", "raise"]

_EXACT_FROM = 64 << 20
_SMALLEST = 512


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
    """Contents of a pinned pool, in bytes and blocks."""

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


def _no_memory(nbytes: int, error: BaseException) -> PinnedMemoryError:
    return PinnedMemoryError(
        f"{nbytes} bytes of pinned memory cannot be allocated ({error}); free arrays, or work on parts"
    )


class PinnedPool(ProcessBound):
    """Recycles page-locked blocks for backends that share them, as the CUDA backends do.

    Attributes:
        max_bytes: Most bytes to hold, in use and free together; None: ``XFERLIB_PINNED_LIMIT``.
        when_full: What an allocation over the limit does. ``"stage"``: gets ordinary memory, which
            transfers stage. ``"block"``: waits until copies in flight release enough. ``"raise"``.
    """

    _elsewhere = "ask for that of the other process: xferlib.pinned_pool()"

    def __init__(self, backend: Backend, *, max_bytes: int | None = None, when_full: WhenFull = "stage") -> None:
        if when_full not in ("stage", "block", "raise"):
            raise ArgumentError(f"when_full={quote(when_full)}; give 'stage', 'block' or 'raise'")
        self._backend = backend
        self.max_bytes = max_bytes
        self.when_full: WhenFull = when_full
        self._lock = threading.RLock()  # reentrant: a finalizer may run inside
        self._dead: deque[Any] = deque()
        """Blocks, or the references to their leases, that have died while copies were in flight, or in Python."""
        self._draining: dict[PooledBlock, None] = {}
        """In the order of their release."""
        self._free: dict[int, list[PooledBlock]] = {}
        """By bytes; the lists stay, as leases put their blocks into them."""
        from xferlib import _native
        from xferlib._memory import lifetimes  # here, for programs that never pin memory

        self._leases = lifetimes
        calls = _native.find_calls()
        self._lend_at_once = calls and calls.lend
        self._blocks: dict[int, PooledBlock] = {}
        """All, by address."""
        self.starts: list[int] = []
        """Their addresses, in order; where there are none `find` need not be called."""
        self.kept: dict[Any, Any] = {}
        """Buffers that loops leave to the next ones, by device and depth; given up where memory is short."""
        self._total = 0
        """Bytes of all blocks, and of those that are being allocated."""
        self._peak = self._allocations = self._reuses = 0

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An uninitialised array in pinned memory.

        Raises:
            LayoutError, UnsupportedDTypeError: It is no shape, or a dtype that no device holds.
            PinnedMemoryError: The pool is full and ``when_full`` is ``"raise"``, or blocking cannot
                help because nothing is in flight; or the system refuses more page-locked memory.
        """
        return self._lend(shape_of(shape), check_dtype(dtype, what="dtype"))

    def _lend(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Do what `empty` does, with arguments that were checked."""
        nbytes = math.prod(shape) * dtype.itemsize
        size = bin_nbytes(nbytes)
        free = self._free.get(size)
        lease = self._lend_free(free) if free else None
        if lease is None and (lease := self._lease(size)) is None:
            try:
                return np.empty(shape, dtype)
            except MemoryError as error:
                raise _no_memory(nbytes, error) from error
        return np.ndarray(shape, dtype, lease, strides=None if nbytes else (0,) * len(shape))  # as numpy.empty

    def describe_for_native(self) -> dict[str, Any]:
        """The type of leases, free blocks by bytes, and dead ones: for C that lends and counts as `empty` does."""
        return {"lease": self._leases.load_lease_type(), "free": self._free, "dead": self._dead}

    def _lease(self, size: int) -> Any:
        """The lease of a block of this size; None: the array is to be staged."""
        free = self._free.setdefault(size, [])
        while True:
            with self._lock:
                self._poll()
            if (lease := self._lend_free(free)) is not None:
                return lease
            with deferred:
                if self._make_room(size):
                    self._allocate(size, free)
                    continue
            if self.when_full == "stage":
                return None
            self._await_copy(size)

    def _lend_free(self, free: list[PooledBlock]) -> Any:
        """A lease of a free block; None: there is none."""
        if self._lend_at_once is not None and not is_followed():
            lease = self._lend_at_once(self._leases.load_lease_type(), free, self._dead)
            if lease is not None:
                self._reuses += 1
            return lease
        with deferred, self._lock:
            if not free:
                return None
            self._reuses += 1
            return self._lend_in_python(free.pop())

    def _lend_in_python(self, block: PooledBlock) -> Any:
        block.take_over()
        observe.note_lend(block.pointer, self._backend.pinned_domain)
        lease = self._leases.lease_type(block.nbytes).from_address(block.pointer)
        lease._block = block
        block.user = block.follow(lease, self._dead)
        return lease

    def _make_room(self, size: int) -> bool:
        """Count ``size`` as held if the limit allows."""
        limit = self._limit
        with self._lock:
            if limit and self._total + size > limit:
                self.kept.clear()
                self._poll()
                self._drop_free()
            if limit and self._total + size > limit:
                return False
            self._total += size
            self._peak = max(self._peak, self._total)
            return True

    def _allocate(self, size: int, free: list[PooledBlock]) -> None:
        try:
            memory = self._backend.pinned_alloc(size)  # outside the lock: it takes milliseconds
        except BaseException as error:
            with self._lock:
                self._total -= size
            if isinstance(error, MemoryError) and not isinstance(error, XferError):
                raise _no_memory(size, error) from error
            raise
        block = self._leases.PooledBlock(memory, size, self._lock, self._backend)
        block.hand_on()
        with self._lock:
            self._allocations += 1
            self._reuses -= 1  # who takes it first does not use it again
            self._blocks[block.pointer] = block
            bisect.insort(self.starts, block.pointer)
        free.append(block)

    def _await_copy(self, size: int) -> None:
        """Wait for the copy that will release the next block."""
        with self._lock:
            drain = next(iter(self._draining), None)
            in_use = self._total - self._free_nbytes() - self._count_draining_nbytes()
        if self.when_full == "raise" or drain is None:
            raise PinnedMemoryError(
                f"{size} pinned bytes do not fit: {in_use} of at most {self._limit} are in use; release pinned "
                "arrays, or raise XFERLIB_PINNED_LIMIT (configure's pinned_limit, or max_bytes of the pool)"
            )
        for event in drain.events:
            self._backend.event_synchronize(event)

    @property
    def _limit(self) -> int:
        return self.max_bytes if self.max_bytes is not None else process.get().pinned_limit

    def _poll(self) -> None:
        """Move dead leases' blocks on, and those whose last event is complete; with the lock held."""
        dead = self._dead
        while dead:
            entry = dead[0]
            block: PooledBlock = getattr(entry, "thing", entry)
            user = block.user
            if user is not None and user() is None:
                with deferred:
                    if block.events:
                        self._draining[block] = None
                        block.user = None
                    else:
                        self._set_free(block, user)
            if dead and dead[0] is entry:  # else a finalizer has been here
                dead.popleft()
        is_done = self._backend.event_done
        for block in [each for each in tuple(self._draining) if all(map(is_done, each.events))]:
            with deferred:
                if self._draining.pop(block, self) is None:  # else a finalizer has been here
                    self._set_free(block, None)

    def _set_free(self, block: PooledBlock, user: weakref.ref[Lease] | None) -> None:
        """Let a block be handed out if ``user`` is still its user: making the list may run a finalizer."""
        events: list[RawEvent] = []
        if block.user is user and block.pointer in self._blocks:
            block.user = None
            block.events = events
            block.hand_on()
            self._free[block.nbytes].append(block)

    def _drop_free(self) -> None:
        """Forget the free blocks, with the lock held and Ctrl-C put off."""
        for free in tuple(self._free.values()):
            while free:
                block = free.pop()
                del self._blocks[block.pointer]
                self._total -= block.nbytes
        self.starts = sorted(self._blocks)

    def find(self, pointer: int) -> Lease | None:
        """The lease whose memory holds the address; views count."""
        with self._lock:
            index = bisect.bisect_right(self.starts, pointer) - 1
            if index < 0:
                return None
            block = self._blocks[self.starts[index]]
            if pointer >= block.pointer + block.nbytes or block.user is None:
                return None
            return block.user()

    def _free_nbytes(self) -> int:
        return sum(size * len(blocks) for size, blocks in tuple(self._free.items()))

    def _count_draining_nbytes(self) -> int:
        return sum(block.nbytes for block in self._draining)

    def __repr__(self) -> str:
        most = "" if self.max_bytes is None else f" of at most {self.max_bytes}"
        return f"<PinnedPool of {self._backend.pinned_domain}: {self._total}{most} bytes, when full: {self.when_full}>"

    def stats(self) -> PinnedStats:
        """Count what the pool holds now."""
        with self._lock:
            self._poll()
            free, draining = self._free_nbytes(), self._count_draining_nbytes()
            return PinnedStats(
                in_use_nbytes=self._total - free - draining,
                free_nbytes=free,
                draining_nbytes=draining,
                peak_nbytes=self._peak,
                allocations=self._allocations,
                reuses=self._reuses,
            )

    def trim(self) -> int:
        """Give every free block back to the system, and what loops of `prefetch` keep; returns the bytes given up."""
        with deferred, self._lock:
            self.kept.clear()
            self._poll()
            nbytes = self._free_nbytes()
            self._drop_free()
            return nbytes


pools = PerDomain(PinnedPool)


# Pinning existing memory in place, counted by page range.

_MEMORY_FILES = ("/dev/zero", "/dev/shm/", "/memfd:", "/SYSV")  # noqa: S108 - names of memory that no disk backs


@dataclass(slots=True)
class _PageRange:
    """Whole pages registered with the driver, and how many `pin` blocks hold them."""

    start: int
    stop: int
    holders: int


class Registrations:
    """Page ranges pinned in place; ranges may share pages, so each page range is counted."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = threading.RLock()
        self.segments: list[_PageRange] = []
        """In order; where there are none `spans` need not be called."""

    def add(self, pointer: int, nbytes: int) -> list[_PageRange]:
        """Pin the pages of a range; returns the segments to give to `remove`."""
        page = mmap.PAGESIZE
        start, stop = pointer // page * page, -(-(pointer + nbytes) // page) * page
        held: list[_PageRange] = []
        with deferred, self._lock:
            try:
                for first, last, segment in self._split(start, stop):
                    if segment is None:
                        self._backend.pinned_register(first, last - first)
                        segment = _PageRange(first, last, 0)
                        bisect.insort(self.segments, segment, key=lambda each: each.start)
                    segment.holders += 1
                    held.append(segment)
            except BaseException:
                self._remove(held)
                raise
        return held

    def _split(self, start: int, stop: int) -> list[tuple[int, int, _PageRange | None]]:
        """The range as segments that exist and gaps that do not."""
        parts: list[tuple[int, int, _PageRange | None]] = []
        position = start
        for segment in self.segments:
            if segment.stop <= start or segment.start >= stop:
                continue
            if segment.start > position:
                parts.append((position, segment.start, None))
            parts.append((segment.start, segment.stop, segment))
            position = segment.stop
        if position < stop:
            parts.append((position, stop, None))
        return parts

    def remove(self, held: list[_PageRange]) -> None:
        with deferred, self._lock:
            self._remove(held)

    def _remove(self, held: list[_PageRange]) -> None:
        for segment in held:
            segment.holders -= 1
            if not segment.holders:
                self.segments.remove(segment)
                self._backend.pinned_unregister(segment.start)

    def spans(self, pointer: int, nbytes: int) -> list[tuple[int, int]] | None:
        """The range cut where one registration ends and the next begins; None unless all is pinned.

        The driver refuses a copy that crosses from one registration into another.
        """
        with self._lock:
            spans: list[tuple[int, int]] = []
            for first, last, segment in self._split(pointer, pointer + nbytes):
                if segment is None:
                    return None
                begin, end = max(first, pointer), min(last, pointer + nbytes)
                spans.append((begin, end - begin))
            return spans


registrations = PerDomain(Registrations)


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
        self._held: list[list[_PageRange]] = []

    def __enter__(self) -> np.ndarray[Any, Any]:
        nbytes = self._array.nbytes
        self._held.append(registrations.of(self._backend).add(self._array.ctypes.data, nbytes) if nbytes else [])
        return self._array

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._held:
            raise blocks.make_entry_error(self)
        held = self._held.pop()
        if held:
            self._await_copies()
            registrations.of(self._backend).remove(held)

    def __repr__(self) -> str:
        state = "page-locked" if self._held else "not page-locked"
        return f"<pin of {self._array.nbytes} bytes for {self._backend.name}, {state}>"

    def _await_copies(self) -> None:
        """Wait for all that may still use the pages: xferlib's copies on every device, the library's on the current."""
        from xferlib._memory.lifetimes import in_flight

        in_flight.drain()
        current = self._backend.device_current()
        if current.kind != "cpu":
            self._backend.device_synchronize(current)


def _describe(array: Any) -> str:
    if isinstance(array, np.ndarray):
        return f"one with shape {array.shape} and strides {array.strides}"
    return type(array).__name__


def is_file_backed(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array, or the array that it is a view of, maps a file."""
    base: Any = array
    while isinstance(base, (np.ndarray, memoryview)):
        if isinstance(base, np.memmap) and getattr(base, "filename", None) is not None:
            return True
        base = base.obj if isinstance(base, memoryview) else base.base
    return isinstance(base, mmap.mmap) and _maps_a_file(array.ctypes.data)


def _maps_a_file(address: int) -> bool:
    """Whether the address is in a mapping with an inode; True where the platform does not tell."""
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


# Whether memory is page-locked: by the pool, by `pin`, or by another library.


class PinnedRanges(NamedTuple):
    """Page-locked memory that holds all of an array."""

    spans: tuple[tuple[int, int], ...]
    """Addresses and sizes, each one copy: the driver takes no range across two registrations."""
    lease: Lease | None = None
    """The block of the pinned pool that holds the array."""


def find(pointer: int, nbytes: int, backend: Backend, *, asks: bool = True) -> PinnedRanges | None:
    """The page-locked ranges that ``nbytes`` at an address lie in; None unless all of it is page-locked.

    The obvious way, to ask the driver, fails three times. It is a driver call, too much for small arrays. The driver
    does not know the pool, whose blocks must learn what event they have to wait for. And it answers for one address,
    while an array may reach beyond the pinned pages. So the pool is asked first, then the registrations, and the driver
    from 256 KiB on, at both ends, if ``asks``.
    """
    pool = pools.made.get(backend.pinned_domain)
    lease = pool.find(pointer) if pool is not None and pool.starts else None
    if lease is not None:
        return PinnedRanges(((pointer, nbytes),), lease)
    known = registrations.made.get(backend.pinned_domain)
    if known is not None and known.segments and (spans := known.spans(pointer, nbytes)) is not None:
        return PinnedRanges(tuple(spans)) if spans else None
    asks = asks and nbytes >= PINNED_QUERY_FROM
    if asks and backend.is_pinned(pointer) and backend.is_pinned(pointer + nbytes - 1):
        return PinnedRanges(((pointer, nbytes),))
    return None
