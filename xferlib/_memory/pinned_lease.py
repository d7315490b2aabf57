"""A block of the pinned pool in use: the lease that arrays share, and the pool's record, which outlives it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.raw import PinnedBlock, RawEvent


class Lease:
    """A pinned block while arrays use it; back to the pool when the last of them dies.

    Args:
        nbytes: Of the block.
        backend: Knows the events.
        lock: The pool's: it protects ``events``.
        pool: Lives as long, since its record of the lease keeps the block until the events are complete.
    """

    __slots__ = ("__weakref__", "_backend", "_lock", "_many", "_pool", "block", "events", "nbytes")

    def __init__(self, nbytes: int, backend: Backend, lock: AbstractContextManager[Any], pool: object) -> None:
        self._backend = backend
        self._lock = lock
        self._pool = pool
        self.block: PinnedBlock | None = None
        self.nbytes = nbytes
        self.events: list[RawEvent] = []
        self._many = 1
        """Prune completed events once the list grows past this length (doubles each time)."""

    def hold(self, event: RawEvent) -> None:
        """Do not recycle the block until ``event`` completes, even if its arrays are collected first; thread-safe.

        Re-recording an event already held extends the hold.
        """
        with self._lock:
            events = self.events
            if event in events:
                return
            if len(events) == 1:  # as a rule: of a block that is sent again and again
                first = events[0]
                if self._backend.event_done(first) and events == [first]:  # which may have run a finalizer
                    events[0] = event
                    return
            events.append(event)
            if len(events) > self._many:
                complete = {id(each) for each in self.events[:-1] if self._backend.event_done(each)}
                self.events[:] = [each for each in self.events if id(each) not in complete]
                self._many = 2 * len(self.events)


class LeaseRecord(weakref.ReferenceType[Lease]):
    """The pool's record of a lease, which outlives it and then owns the block.

    Its callback is a function in C, so that Ctrl-C strikes before or after it: raised in a ``__del__`` it would be
    lost, and the block with it.
    """

    __slots__ = ("block", "events", "handover", "nbytes")

    block: PinnedBlock | None
    events: list[RawEvent]
    handover: object
    nbytes: int

    def __init__(self, lease: Lease, callback: Callable[[Any], None]) -> None:
        super().__init__(lease, callback)  # type: ignore[call-arg]
        self.block = None
        self.events = lease.events
        self.handover = None
        self.nbytes = 0
        """The bytes of it that are counted as in use."""
