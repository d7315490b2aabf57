"""A block of the pinned pool, and its lease: the object that the arrays over it keep alive.

NumPy makes an array over a buffer in a tenth of the time that ``__array_interface__`` takes, so a lease is one: an
object of `lease.c`, or a ctypes array where that is not compiled. `xferlib._memory.pinned` has the rules of both.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from typing import TYPE_CHECKING, Any

from xferlib._native import driver_calls
from xferlib._runtime.handoff import Handed

if TYPE_CHECKING:
    import threading

    from xferlib._core.backend import Backend
    from xferlib._core.raw import PinnedBlock, RawEvent


class PooledBlock(Handed):
    """A block of the pool, and the events of copies that use it.

    Args:
        memory: The block.
        nbytes: Its bytes, as the pool counts them.
        lock: The pool's.
        backend: Knows whether an event is complete.
    """

    __slots__ = ("backend", "events", "lock", "many", "memory", "nbytes", "pointer", "user")

    def __init__(self, memory: PinnedBlock, nbytes: int, lock: threading.RLock, backend: Backend) -> None:
        self.memory = memory
        self.nbytes = nbytes
        self.pointer = memory.pointer
        self.lock = lock
        self.backend = backend
        self.events: list[RawEvent] = []
        self.many = 1
        """Prune completed events once the list grows past this length (doubles each time)."""
        self.user: weakref.ref[Lease] | None = None
        """Its lease; None while it drains or is free, and after it was dropped."""


class Lease:
    """A pinned block while arrays use it; back to the pool when the last of them dies.

    An instance is of a subclass, which is a buffer besides.
    """

    __slots__ = ()

    _block: PooledBlock

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
        is_done = self._block.backend.event_done
        with self._block.lock:
            events = self.events
            if event in events:
                return
            if len(events) == 1:  # as a rule: of a block that is sent again and again
                first = events[0]
                if is_done(first) and events == [first]:  # which may have run a finalizer
                    events[0] = event
                    return
            events.append(event)
            if len(events) > self._block.many:
                complete = {id(each) for each in events[:-1] if is_done(each)}
                events[:] = [each for each in events if id(each) not in complete]
                self._block.many = 2 * len(events)


@functools.cache
def compiled_lease_type() -> Any:
    """The type of compiled leases, of blocks of any size."""
    return type("Lease", (Lease, driver_calls.lease_type()), {"__slots__": ()})


@functools.lru_cache(maxsize=1024)
def lease_type(nbytes: int) -> Any:
    """The type of leases that are not compiled."""
    return type("Lease", (Lease, ctypes.c_char * nbytes), {})
