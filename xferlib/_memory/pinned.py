"""Pinned memory: the pool, arrays over it, and finding pinned memory by address.

Page-locking costs a hundred times a copy, so blocks are recycled; a DMA may still be using a block when its array
dies, so it is reused only after every event recorded on it.
The obvious way is a ``__del__`` of the array's owner that takes the pool's lock and puts the block into a free list.
It fails three times: an object dies in any thread and within any call, so also while this thread changes the books;
KeyboardInterrupt raised in a ``__del__`` is swallowed, and the block lost; and the block may still be read by a copy.
So a death only appends a record to a deque, by a C function, and the next allocation moves the records on, under the
lock: in use, then draining until the last event completes, then free.

Guaranteed: no block is handed out before every event given to `Lease.hold` is complete; the bytes in use, draining
and free stay within the limit, if there is one; the pool neither waits for an event nor allocates with its lock held.

`PinnedPool._lock` protects the books and the events of each lease. It is reentrant: asking an event may run a
finalizer that comes here again, so `_poll` takes the list out before it asks. `_returned` needs no lock, which is why
a finalizer may append to it; nor does `_records`, where each entry is one assignment.
"""

from __future__ import annotations

import bisect
import math
import mmap
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xferlib._memory import host
from xferlib._memory.domains import PerDomain
from xferlib._memory.pinned_lease import Lease, LeaseRecord
from xferlib._runtime import config, happens_before
from xferlib.errors import ArgumentError, PinnedMemoryError, shown

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.raw import PinnedBlock

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


class PinnedPool:
    """Recycles page-locked blocks of one backend family.

    Ctrl-C may strike wherever Python has called something: what belongs together is changed by plain assignments
    and deletions, with one call at most, behind them.

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
        self._returned: deque[LeaseRecord] = deque()
        """Of leases that have died."""
        self._free: dict[int, list[LeaseRecord]] = {}
        self._draining: list[LeaseRecord] = []
        self._in_use = self._free_nbytes = self._draining_nbytes = 0
        self._peak = self._allocations = self._reuses = 0
        self._starts: list[int] = []
        self._leases: dict[int, LeaseRecord] = {}
        """By address."""
        self._records: dict[int, LeaseRecord] = {}
        """All of them, by ``id``: the callback of a record that died together with its lease would never run."""

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
        assert lease.block is not None
        return host.array_over(lease.block.pointer, shape, dtype, nbytes, lease)

    def _lease(self, size: int) -> Lease | None:
        lease = Lease(size, self._backend, self._lock, self)
        # The death of a lease runs a C function, which takes no lock, in any thread; the simulator needs Python's.
        record = LeaseRecord(lease, self._returned.append if happens_before.listener is None else self._give_back)
        self._records[id(record)] = record
        while (block := self._reuse(size, record)) is None:
            room = self._make_room(size, record)
            if room is None:
                continue  # waited: a block of this size may have come free
            if not room:
                return None
            try:
                block = record.block = self._backend.pinned_alloc(size)  # outside the lock: it takes milliseconds
            except BaseException:
                with self._lock:
                    self._in_use -= record.nbytes
                    record.nbytes = 0
                raise
            self._allocations += 1
            break
        lease.block = block
        self._note(record, block.pointer)
        return lease

    def _reuse(self, size: int, record: LeaseRecord) -> PinnedBlock | None:
        with self._lock:
            self._poll()
            blocks = self._free.get(size)
            if not blocks:
                return None
            happens_before.taken(blocks[-1])
            record.block, record.nbytes = blocks[-1].block, size
            self._free_nbytes -= size
            self._in_use += size
            self._reuses += 1
            del blocks[-1]
            return record.block

    def _make_room(self, size: int, record: LeaseRecord) -> bool | None:
        """Count ``size`` as in use if the limit allows; False: stage instead, None: waited for a copy, look again."""
        limit = self.max_bytes if self.max_bytes is not None else config.get().pinned_limit
        with self._lock:
            if limit and self._in_use + self._draining_nbytes + self._free_nbytes + size > limit:
                self._drop_free()
            if not limit or self._in_use + self._draining_nbytes + size <= limit:
                self._in_use += size
                record.nbytes = size
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
        return None

    def _note(self, record: LeaseRecord, pointer: int) -> None:
        with self._lock:
            self._peak = max(self._peak, self._in_use + self._free_nbytes + self._draining_nbytes)
            self._leases[pointer] = record
            bisect.insort(self._starts, pointer)

    def _give_back(self, record: LeaseRecord) -> None:
        happens_before.given(record)
        self._returned.append(record)

    def _take_back(self) -> None:
        """Count what has been released, with the lock held."""
        while self._returned:
            record = self._returned[0]
            pointer = record.block.pointer if record.block is not None else 0
            index, key = bisect.bisect_left(self._starts, pointer), id(record)
            del self._returned[0]  # from here on nothing is called
            if key in self._records:
                del self._records[key]
            if pointer in self._leases and self._leases[pointer] is record:
                del self._leases[pointer], self._starts[index]
            self._in_use -= record.nbytes
            if record.block is not None:
                self._draining_nbytes += record.nbytes
                self._draining += [record]

    def _poll(self) -> None:
        """Move released blocks whose last event is complete to the free lists, with the lock held."""
        self._take_back()
        # Taken out first: asking an event may run a finalizer that comes here again.
        unseen, self._draining = self._draining[::-1], []
        waiting: list[LeaseRecord] = []
        try:
            while unseen:
                record = unseen[-1]
                if not all(self._backend.event_done(event) for event in record.events):
                    del unseen[-1]
                    waiting += [record]
                    continue
                happens_before.given(record)
                blocks = self._free.setdefault(record.nbytes, [])
                del unseen[-1]  # from here on nothing is called
                self._draining_nbytes -= record.nbytes
                self._free_nbytes += record.nbytes
                record.events = []
                blocks += [record]
        finally:
            self._draining = waiting + unseen[::-1] + self._draining

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


pools = PerDomain(PinnedPool)
