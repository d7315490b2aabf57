"""Batches on their way to a device, ahead of whoever consumes them, in slots.

A slot is a stream. Batch n travels on slot n modulo their number, and is copied only when the consumer's
work on the slot's batch before it has passed: so no more batches than slots are on their way or in use.
Whatever goes wrong with a batch is raised when its turn comes.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from xferlib import _handover
from xferlib._batch import Batch, send_together
from xferlib._lane import Lane, Way
from xferlib.errors import ClosedError, ForkError

if TYPE_CHECKING:
    from xferlib.backends.base import RawEvent, RawStream

_POLL_S = 200e-6


class Slot:
    """A stream for copies, and the event after which its last batch is no longer in use."""

    __slots__ = ("gate", "stream")

    def __init__(self, stream: RawStream) -> None:
        self.stream = stream
        self.gate: RawEvent | None = None


class Feed:
    """The batches of a source whose items stay as they are, read where they are consumed.

    Args:
        source: Asked for its items one by one, by one thread at a time.
        lane: Where they go.
        streams: One for each slot; the same stream may serve several.
    """

    def __init__(self, source: Iterator[Any], lane: Lane, streams: list[RawStream]) -> None:
        self.pid = os.getpid()
        self._lane = lane
        self._source: Iterator[Any] | None = source
        self._slots = [Slot(stream) for stream in streams]
        self._count = len(streams)
        self._started = self._taken = self._returned = 0
        self._ready: deque[Batch] = deque()
        self._read_first: tuple[Any] | None = None
        """An item whose slot is still in use."""
        self._is_stalled = False
        """The last of `_ready` could not be begun: it is tried again when its turn comes, and nothing before that."""
        self._end: BaseException | None = None
        """What the source ended with: StopIteration, or its error."""
        self._is_closed = False
        self._is_gated = False
        """Whether the batch handed out last came on its slot's stream."""
        self._turn = threading.RLock()
        _feeds.add(self)

    # --- the consumer

    def next(self) -> Any:
        """The next batch, ordered on the calling thread's current stream.

        Raises:
            StopIteration: The source has ended.
            ClosedError, ForkError: There is no more to be had here.
        """
        if self.pid != os.getpid():
            raise ForkError(
                f"a prefetcher is used in process {os.getpid()}, forked from {self.pid}, where its thread and its "
                "device are; make another one here, or fork first"
            )
        with self._turn:
            if self._returned != self._taken:
                self._give_back()
            batch = self._front()
            if batch.is_waiting:
                self._send_ahead()
            value = batch.hand_over()
            self._pop(batch)
        return value

    def _give_back(self) -> None:
        """All of the consumer's work on the batch that it had is enqueued: what comes after may use its slot."""
        slot = self._slots[self._returned % self._count]
        if not self._is_gated:
            slot.gate = None  # the batch lay in memory of the consumer's own stream
        else:
            backend = self._lane.backend
            current = backend.stream_current(self._lane.place)
            slot.gate = backend.event_record(current, timing=False, event=slot.gate)
        self._returned = self._taken

    def _front(self) -> Batch:
        """The oldest batch that has not been handed out."""
        self._read()
        ready = self._ready
        while ready and not ready[0].is_settled(_POLL_S):
            self._read()  # the consumer's work may have passed another gate meanwhile
        if self._is_closed:
            self._refuse_closed()
        if not ready:
            raise self._the_end()
        return ready[0]

    def _send_ahead(self) -> None:
        """Copy the front with the small batches behind it: one copy costs little more than one of them alone."""
        waiting = list(itertools.takewhile(lambda batch: batch.is_waiting, tuple(self._ready)))
        if len(waiting) > 1:
            for batch in waiting:
                _handover.taken(batch)
            send_together(waiting)

    def _pop(self, batch: Batch) -> None:
        """The front has been handed out."""
        if self._is_closed:
            self._refuse_closed()
        self._ready.popleft()
        self._is_stalled = self._is_stalled and bool(self._ready)  # the last one is the one that stalled
        self._is_gated = batch.has_slot
        self._taken += 1

    def _refuse_closed(self) -> NoReturn:
        raise ClosedError(
            f"the prefetcher was closed after {self._taken} batches; take batches before close(), or make another"
        )

    # --- reading

    @property
    def _next_slot(self) -> Slot:
        return self._slots[self._started % self._count]

    @property
    def _has_room(self) -> bool:
        is_full = self._started - self._count >= self._returned
        return not (is_full or self._is_stalled or self._is_closed or self._end is not None)

    def _read(self) -> None:
        """Begin what there is room for without waiting; wait where nothing is on its way."""
        lane = self._lane
        for batch in self._ready:
            batch.push()
        while self._has_room:
            if self._read_first is None:
                try:
                    self._read_first = (next(self._source or iter(())),)
                except BaseException as error:
                    self._note_end(error)
                    return
            (host,) = self._read_first
            way, slot = lane.way(host), self._next_slot
            if way is Way.OWN and slot.gate is not None and not self._passes(slot, host):
                return
            self._read_first = None
            batch = Batch(host, lane, slot.stream, way)
            self._is_stalled = not batch.try_begin(self._ready[-1] if self._ready else None)
            self._started += 1
            self._ready.append(batch)

    def _passes(self, slot: Slot, host: Any) -> bool:
        """Whether a batch may be begun in this slot: its stream waits for the consumer's work on the batch before."""
        backend, gate = self._lane.backend, slot.gate
        if self._lane.may_wait(host):
            backend.event_wait(slot.stream, gate)
        elif not backend.event_done(gate):
            if self._ready:
                return False
            backend.event_synchronize(gate)
        return True

    # --- the end

    @property
    def has_ended(self) -> bool:
        """Whether the source has ended and every batch has been handed out."""
        return self._end is not None and not self._ready

    def _note_end(self, error: BaseException) -> None:
        """The source ends with this. An error keeps the frames that it came through, and so would keep this feed."""
        self._end = error.with_traceback(None) if isinstance(error, StopIteration) else error

    def _the_end(self) -> BaseException:
        """What is raised where there is no more."""
        assert self._end is not None
        return StopIteration(*self._end.args) if isinstance(self._end, StopIteration) else self._end

    def close(self, *, waits: bool) -> None:
        """Take nothing more from the source, and drop what is on its way.

        Args:
            waits: Until no copy reads what the source gave, and nothing of the feed runs, unless it is in the source.
        """
        if self.pid != os.getpid():  # the parent's thread may have held the locks
            return
        batches = self._drop()
        for batch in batches:
            batch.cancel()
        if waits:
            self._await_end()
            for batch in batches:
                batch.await_end()

    def _drop(self) -> list[Batch]:
        self._is_closed = True
        self._source = self._read_first = None
        batches, self._ready = list(self._ready), deque()
        return batches

    def _await_end(self) -> None:
        """Nothing runs but the consumer."""


_feeds: weakref.WeakSet[Feed] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """The interpreter ends: no thread may be found in the middle of a copy."""
    for feed in list(_feeds):
        feed.close(waits=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_feeds.clear)
