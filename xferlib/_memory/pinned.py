"""Pinned memory: the pool, arrays over it, and finding pinned memory by address.

Page-locking costs a hundred times a copy, so blocks are recycled; a DMA may still be using a block when its array
dies, so it is reused only after every event recorded on it.
The obvious way is a ``__del__`` of the array's owner that takes the pool's lock and puts the block into a free list.
It fails three times: an object dies in any thread and within any call, so also while this thread changes the books;
KeyboardInterrupt raised in a ``__del__`` is swallowed, and the block lost; and the block may still be read by a copy.
So a death only appends to a deque, by a C function, and the next allocation moves the block on, under the lock: in use,
then draining until its last event completes, then free.

Guaranteed: no block is handed out before every event given to `Lease.hold` is complete; the bytes in use, draining
and free stay within the limit, if there is one; the pool neither waits for an event nor allocates with its lock held.

`PinnedPool._lock` protects the books and the events of each block. It is reentrant: asking an event may run a
finalizer that comes here again, so `_poll` asks first and then moves what is still there. `_dead` needs no lock, which
is why a finalizer may append to it.
"""

from __future__ import annotations

import bisect
import math
import mmap
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xferlib._memory import host
from xferlib._memory.domains import PerDomain
from xferlib._runtime import config
from xferlib._runtime.handoff import Handed
from xferlib._runtime.interrupts import deferred
from xferlib.errors import ArgumentError, PinnedMemoryError, shown

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.raw import PinnedBlock, RawEvent

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


class _Block(Handed):
    """A block of the pool, the events of copies that use it, and its bytes as the pool counts them."""

    __slots__ = ("events", "memory", "nbytes")

    def __init__(self, memory: PinnedBlock, nbytes: int) -> None:
        self.memory = memory
        self.nbytes = nbytes
        self.events: list[RawEvent] = []


class Lease:
    """A pinned block while arrays use it; back to the pool when the last of them dies."""

    __slots__ = ("__weakref__", "_many", "_pool", "block", "events", "nbytes")

    def __init__(self, block: _Block, pool: PinnedPool) -> None:
        self._pool = pool
        self.block = block.memory
        self.nbytes = block.nbytes
        self.events = block.events
        self._many = 1
        """Prune completed events once the list grows past this length (doubles each time)."""

    def hold(self, event: RawEvent) -> None:
        """Do not recycle the block until ``event`` completes, even if its arrays are collected first; thread-safe.

        Re-recording an event already held extends the hold.
        """
        is_done = self._pool._backend.event_done
        with self._pool._lock:
            events = self.events
            if event in events:
                return
            if len(events) == 1:  # as a rule: of a block that is sent again and again
                first = events[0]
                if is_done(first) and events == [first]:  # which may have run a finalizer
                    events[0] = event
                    return
            events.append(event)
            if len(events) > self._many:
                complete = {id(each) for each in events[:-1] if is_done(each)}
                events[:] = [each for each in events if id(each) not in complete]
                self._many = 2 * len(events)


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
            raise ArgumentError(f"when_full={shown(when_full)}; give 'stage', 'block' or 'raise'")
        self._backend = backend
        self.max_bytes = max_bytes
        self.when_full: WhenFull = when_full
        self._lock = threading.RLock()  # reentrant: a finalizer may run inside
        self._used: dict[weakref.ref[Lease], _Block] = {}
        self._dead: deque[weakref.ref[Lease]] = deque()
        """Leases that have died, and are still counted as used."""
        self._draining: dict[_Block, None] = {}
        """In the order of their release."""
        self._free: dict[int, list[_Block]] = {}
        self._in_use = self._free_nbytes = self._draining_nbytes = 0
        self._peak = self._allocations = self._reuses = 0
        self._starts: list[int] = []
        self._leases: dict[int, weakref.ref[Lease]] = {}
        """By address."""

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
        return host.array_over(lease.block.pointer, shape, dtype, nbytes, lease)

    def _lease(self, size: int) -> Lease | None:
        """Return a block of this size; None: the array is to be staged."""
        while True:
            with deferred:
                block = self._reuse(size)
                if block is None and self._make_room(size):
                    block = self._allocate(size)
                if block is not None:
                    return self._lend(block)
            if self.when_full == "stage":
                return None
            self._await_copy(size)

    def _reuse(self, size: int) -> _Block | None:
        with self._lock:
            self._poll()
            blocks = self._free.get(size)
            if not blocks:
                return None
            block = blocks.pop()
            block.take_over()
            self._free_nbytes -= size
            self._in_use += size
            self._reuses += 1
            return block

    def _make_room(self, size: int) -> bool:
        """Count ``size`` as in use if the limit allows."""
        limit = self._limit
        with self._lock:
            if limit and self._in_use + self._draining_nbytes + self._free_nbytes + size > limit:
                self._drop_free()
            if limit and self._in_use + self._draining_nbytes + size > limit:
                return False
            self._in_use += size
            return True

    def _allocate(self, size: int) -> _Block:
        try:
            block = _Block(self._backend.pinned_alloc(size), size)  # outside the lock: it takes milliseconds
        except BaseException:
            with self._lock:
                self._in_use -= size
            raise
        self._allocations += 1
        return block

    def _await_copy(self, size: int) -> None:
        """Wait for the copy that will release the next block."""
        with self._lock:
            drain = next(iter(self._draining), None)
        if self.when_full == "raise" or drain is None:
            raise PinnedMemoryError(
                f"{size} pinned bytes do not fit: {self._in_use} of at most {self._limit} are in use; release pinned "
                "arrays, or raise XFERLIB_PINNED_LIMIT (max_bytes of the pool)"
            )
        for event in drain.events:
            self._backend.event_synchronize(event)

    @property
    def _limit(self) -> int:
        return self.max_bytes if self.max_bytes is not None else config.get().pinned_limit

    def _lend(self, block: _Block) -> Lease:
        lease = Lease(block, self)
        pointer = block.memory.pointer
        with self._lock:
            reference = block.follow(lease, self._dead)
            self._used[reference] = block
            self._leases[pointer] = reference
            bisect.insort(self._starts, pointer)
            self._peak = max(self._peak, self._in_use + self._free_nbytes + self._draining_nbytes)
        return lease

    def _poll(self) -> None:
        """Move dead leases' blocks on, and those whose last event is complete; with the lock held, Ctrl-C put off."""
        while self._dead:
            block = self._used.pop(self._dead.popleft())
            pointer = block.memory.pointer
            del self._leases[pointer], self._starts[bisect.bisect_left(self._starts, pointer)]
            self._in_use -= block.nbytes
            self._draining_nbytes += block.nbytes
            self._draining[block] = None
        is_done = self._backend.event_done
        for block in [each for each in tuple(self._draining) if all(map(is_done, each.events))]:
            if block not in self._draining:  # a finalizer, run while events were asked, has been here
                continue
            del self._draining[block]
            self._draining_nbytes -= block.nbytes
            self._free_nbytes += block.nbytes
            block.hand_on()
            block.events = []
            self._free.setdefault(block.nbytes, []).append(block)

    def _drop_free(self) -> None:
        self._free_nbytes, self._free = 0, {}

    def find(self, pointer: int) -> Lease | None:
        """The lease whose memory holds the address; views count."""
        if not self._starts:
            return None
        with self._lock:
            index = bisect.bisect_right(self._starts, pointer) - 1
            if index < 0:
                return None
            start = self._starts[index]
            lease = self._leases[start]()
            return lease if lease is not None and pointer < start + lease.nbytes else None

    def stats(self) -> PinnedStats:
        """Count what the pool holds now."""
        with deferred, self._lock:
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
        with deferred, self._lock:
            self._poll()
            nbytes = self._free_nbytes
            self._drop_free()
            return nbytes


pools = PerDomain(PinnedPool)
