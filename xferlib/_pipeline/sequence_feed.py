"""The batches of a list, begun in the consumer's thread: there is no other thread, and no hand-over between threads.

A small array would take its place in the queue, and leave it in the same call. That takes Python longer than the copy,
so where nothing is in the queue it is copied at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import staging_hooks
from xferlib._core.containers import flatten
from xferlib._pipeline.batch import Batch, send
from xferlib._pipeline.feed import Feed, Slot
from xferlib._pipeline.routing import Route, Router
from xferlib._runtime import shutdown
from xferlib._runtime.handoff import is_followed
from xferlib.errors import XferError

if TYPE_CHECKING:
    from xferlib._core.raw import RawStream
    from xferlib._pipeline.batch import AnyBatch

_POLL_S = 200e-6


class ListFeed(Feed):
    """The batches of a sequence whose items stay as they are.

    Args:
        items: Read by index, so that one whose start was interrupted is read again.
        router, streams: As for `Feed`.
    """

    def __init__(self, items: Sequence[Any], router: Router, streams: list[RawStream]) -> None:
        super().__init__(router, streams)
        self._items = items
        self._watched: dict[AnyBatch, staging_hooks.ReadAhead] = {}

    def next(self) -> Any:
        """Return the next batch, as `Feed.next` does."""
        has_more = not self._ready and self._end is None and not self._is_forked
        if not has_more or staging_hooks.listener is not None or is_followed():
            return super().next()
        shutdown.gate()
        with self._turn:
            if self._returned != self._taken:
                self._give_back()
            number = self._taken
            if self._ready or number >= len(self._items):
                return super().next()
            host = self._items[number]
            if self._router.route(host) is not Route.DIRECT:
                return super().next()
            value = send(host, self._router)
            if self._is_closed:
                self._refuse_closed()
            self._started = self._taken = self._returned = number + 1  # it had no slot
        return value

    def _front(self) -> AnyBatch:
        self._read()
        ready = self._ready
        while ready and not (ready[0].is_sent or ready[0].is_settled(_POLL_S)):
            self._read()  # another gate may have completed meanwhile
        if self._is_closed:
            self._refuse_closed()
        if not ready:
            raise self._the_end()
        return ready[0]

    def _read(self) -> None:
        """Begin as many batches as there is room for without waiting; wait only where none is in flight."""
        ready = self._ready
        for batch in ready:
            if not batch.is_sent:
                batch.push()
        while self._started - self._count < self._returned and self._has_room:
            try:
                host = self._items[self._started]
            except IndexError:
                self._note_end(StopIteration())
                return
            begun = self._begun(host)
            if begun is None:
                return
            self._started += 1
            ready.append(begun)
            if staging_hooks.listener is not None:
                self._watch(begun, host)

    def _begun(self, host: Any) -> AnyBatch | None:
        """Begin the batch of an item; None where its slot is in use."""
        route = self._router.route(host)
        if route is Route.AHEAD:
            try:
                return self._router.begun_ahead(host)
            except XferError:  # it is copied in its turn, and raises what it meets then
                route = Route.DIRECT
        slot = self._next_slot
        if route is Route.OWN and slot.gate is not None and not self._passes(slot, host):
            return None
        batch = Batch(host, self._router, slot.stream, route)
        batch.try_begin(self._ready[-1] if self._ready else None)
        return batch

    def _watch(self, batch: AnyBatch, host: Any) -> None:
        """Let a simulator check that an item does not change before it is handed out."""
        with contextlib.suppress(Exception):  # an item that is no tree raises in its turn
            leaves = [host] if type(host) is np.ndarray else flatten(host)[0]
            if watched := staging_hooks.read_ahead(leaves, self._router.backend.pinned_domain):
                self._watched[batch] = watched

    def _pop(self, batch: AnyBatch) -> None:
        super()._pop(batch)
        if self._watched and (watched := self._watched.pop(batch, None)):
            watched.handed_out()

    def _passes(self, slot: Slot, host: Any) -> bool:
        """Whether a batch may be begun in this slot, behind the consumer's work on the slot's batch before."""
        backend, gate = self._router.backend, slot.gate
        if self._router.may_wait(host):
            backend.event_wait(slot.stream, gate)
        elif not backend.event_done(gate):
            if self._ready:
                return False
            backend.event_synchronize(gate)
        return True

    def _drop(self) -> list[AnyBatch]:
        self._items = ()
        self._watched.clear()
        return super()._drop()
