"""Pinned memory: the pool, arrays over it, and finding pinned memory by address.

Page-locking costs a hundred times a copy, so blocks are recycled; a DMA may still be using a block when its array
dies, so it is reused only after every event recorded on it.
The obvious way is a ``__del__`` of the array's owner that takes the pool's lock and puts the block into a free list.
It fails three times: an object dies in any thread and within any call, so also while this thread changes the books;
KeyboardInterrupt raised in a ``__del__`` is swallowed, and the block lost; and the block may still be read by a copy.
So a death only appends to a deque, by a C function, and the next allocation moves the block on, under the lock: in use,
then draining until its last event completes, then ready. A block that is ready has its next lease already, so handing
it out is to take that lease from a list: if Ctrl-C strikes then, the lease dies, and its block comes back by itself.
Every other step is whole by itself, too: a block goes on only if its `user` is still the one that the step began with.

Guaranteed: no block is handed out before every event given to `Lease.hold` is complete; the bytes in use, draining
and free stay within the limit, if there is one; the pool neither waits for an event nor allocates with its lock held.

`PinnedPool._lock` protects the books and the events of each block. It is reentrant: asking an event may run a
finalizer that comes here again, and does these steps meanwhile. `_dead` needs no lock, which is why a finalizer may
append to it.
"""

from __future__ import annotations

import bisect
import ctypes
import functools
import math
import mmap
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from xferlib._memory.domains import PerDomain
from xferlib._runtime import config
from xferlib._runtime.handoff import Death, Handed
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

    __slots__ = ("events", "lease_type", "memory", "nbytes", "pool", "user")

    def __init__(self, memory: PinnedBlock, nbytes: int, pool: PinnedPool) -> None:
        self.memory = memory
        self.nbytes = nbytes
        self.pool = pool
        self.lease_type = _lease_type(nbytes)
        self.events: list[RawEvent] = []
        self.user: Death[Lease] | None = None
        """Of its lease; None while it drains, and after it was dropped."""


class Lease:
    """A pinned block while arrays use it; back to the pool when the last of them dies.

    An instance is a ctypes array over the block besides: NumPy makes an array over that in a tenth of the time that
    ``__array_interface__`` takes.
    """

    _block: _Block
    _many = 1
    """Prune completed events once the list grows past this length (doubles each time)."""

    @property
    def block(self) -> PinnedBlock:
        return self._block.memory

    @property
    def nbytes(self) -> int:
        return self._block.nbytes

    @property
    def events(self) -> list[RawEvent]:
        return self._block.events

    def hold(self, event: RawEvent) -> None:
        """Do not recycle the block until ``event`` completes, even if its arrays are collected first; thread-safe.

        Re-recording an event already held extends the hold.
        """
        pool = self._block.pool
        is_done = pool._backend.event_done
        with pool._lock:
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


@functools.lru_cache(maxsize=1024)
def _lease_type(nbytes: int) -> Any:
    return type("Lease", (Lease, ctypes.c_char * nbytes), {})


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
        self._dead: deque[Death[Lease]] = deque()
        """Leases that have died, and whose blocks have not been moved on."""
        self._draining: dict[_Block, None] = {}
        """In the order of their release."""
        self._ready: dict[int, list[Lease]] = {}
        """Leases to hand out, by bytes."""
        self._blocks: dict[int, _Block] = {}
        """All, by address."""
        self._starts: list[int] = []
        """Their addresses, in order."""
        self._total = 0
        """Bytes of all blocks, and of those that are being allocated."""
        self._peak = self._allocations = self._reuses = 0

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
        return np.ndarray(shape, dtype, lease)

    def _lease(self, size: int) -> Any:
        """The lease of a block of this size; None: the array is to be staged."""
        while True:
            with self._lock:
                if self._dead or self._draining:
                    self._poll()
                if ready := self._ready.get(size):
                    lease = ready.pop()
                    lease._block.take_over()
                    self._reuses += 1
                    return lease
            with deferred:
                if self._make_room(size):
                    return self._allocate(size)
            if self.when_full == "stage":
                return None
            self._await_copy(size)

    def _make_room(self, size: int) -> bool:
        """Count ``size`` as held if the limit allows."""
        limit = self._limit
        with self._lock:
            if limit and self._total + size > limit:
                self._drop_ready()
            if limit and self._total + size > limit:
                return False
            self._total += size
            self._peak = max(self._peak, self._total)
            return True

    def _allocate(self, size: int) -> Lease:
        try:
            block = _Block(self._backend.pinned_alloc(size), size, self)  # outside the lock: it takes milliseconds
        except BaseException:
            with self._lock:
                self._total -= size
            raise
        pointer = block.memory.pointer
        with self._lock:
            self._allocations += 1
            self._blocks[pointer] = block
            bisect.insort(self._starts, pointer)
            lease, block.user = self._followed(block)
            return lease

    def _await_copy(self, size: int) -> None:
        """Wait for the copy that will release the next block."""
        with self._lock:
            drain = next(iter(self._draining), None)
            in_use = self._total - self._ready_nbytes() - self._draining_nbytes()
        if self.when_full == "raise" or drain is None:
            raise PinnedMemoryError(
                f"{size} pinned bytes do not fit: {in_use} of at most {self._limit} are in use; release pinned "
                "arrays, or raise XFERLIB_PINNED_LIMIT (max_bytes of the pool)"
            )
        for event in drain.events:
            self._backend.event_synchronize(event)

    @property
    def _limit(self) -> int:
        return self.max_bytes if self.max_bytes is not None else config.get().pinned_limit

    def _followed(self, block: _Block) -> tuple[Lease, Death[Lease]]:
        """A new lease of a block, and the reference to it that is to become the block's user."""
        lease: Lease = block.lease_type.from_address(block.memory.pointer)
        lease._block = block
        return lease, block.follow(lease, self._dead)

    def _poll(self) -> None:
        """Move dead leases' blocks on, and those whose last event is complete; with the lock held."""
        dead = self._dead
        while dead:
            reference = dead[0]
            block = cast("_Block", reference.thing)
            if block.user is reference:
                if block.events:
                    self._draining[block] = None
                    block.user = None
                else:
                    self._renew(block, reference)
            if dead and dead[0] is reference:  # else a finalizer has been here
                dead.popleft()
        is_done = self._backend.event_done
        for block in [each for each in tuple(self._draining) if all(map(is_done, each.events))]:
            self._renew(block, None)
            self._draining.pop(block, None)

    def _renew(self, block: _Block, user: Death[Lease] | None) -> None:
        """Make a block ready if ``user`` is still its user: making the lease may run a finalizer."""
        lease, reference = self._followed(block)
        ready = self._ready.setdefault(block.nbytes, [])
        if block.user is user and block.memory.pointer in self._blocks:
            block.events = []
            block.user = reference
            block.hand_on()
            ready.append(lease)

    def _drop_ready(self) -> None:
        for leases in self._ready.values():
            for lease in leases:
                block = lease._block
                block.user = None
                del self._blocks[block.memory.pointer]
                self._total -= block.nbytes
        self._ready = {}
        self._starts = sorted(self._blocks)

    def find(self, pointer: int) -> Lease | None:
        """The lease whose memory holds the address; views count."""
        if not self._starts:
            return None
        with self._lock:
            index = bisect.bisect_right(self._starts, pointer) - 1
            if index < 0:
                return None
            block = self._blocks[self._starts[index]]
            if pointer >= block.memory.pointer + block.nbytes or block.user is None:
                return None
            return block.user()

    def _ready_nbytes(self) -> int:
        return sum(size * len(leases) for size, leases in self._ready.items())

    def _draining_nbytes(self) -> int:
        return sum(block.nbytes for block in self._draining)

    def __repr__(self) -> str:
        most = "" if self.max_bytes is None else f" of at most {self.max_bytes}"
        return f"<PinnedPool of {self._backend.pinned_domain}: {self._total}{most} bytes, when full: {self.when_full}>"

    def stats(self) -> PinnedStats:
        """Count what the pool holds now."""
        with self._lock:
            self._poll()
            ready, draining = self._ready_nbytes(), self._draining_nbytes()
            return PinnedStats(
                in_use_nbytes=self._total - ready - draining,
                free_nbytes=ready,
                draining_nbytes=draining,
                peak_nbytes=self._peak,
                allocations=self._allocations,
                reuses=self._reuses,
            )

    def trim(self) -> int:
        """Give every free block back to the system; returns the bytes given up."""
        with deferred, self._lock:
            self._poll()
            nbytes = self._ready_nbytes()
            self._drop_ready()
            return nbytes


pools = PerDomain(PinnedPool)
