"""Batches on their way to a device, ahead of whoever consumes them, in slots.

A slot is a stream. Batch n travels on slot n modulo their number, and is copied only when the consumer's
work on the slot's batch before it has passed: so no more batches than slots are on their way or in use.
Whatever goes wrong with a batch is raised when its turn comes.

Ctrl-C may strike wherever Python has called something: what belongs together is therefore changed by plain
assignments, with one call at most, behind them.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn

from xferlib._pipeline.batch import send_together
from xferlib._runtime import happens_before, shutdown
from xferlib._runtime.fork import reset_in_child
from xferlib.errors import ClosedError, ForkError

if TYPE_CHECKING:
    from xferlib._core.raw import RawEvent, RawStream
    from xferlib._pipeline.batch import AnyBatch
    from xferlib._pipeline.routing import Lane


class Slot:
    """A stream for copies, and the event after which its last batch is no longer in use."""

    __slots__ = ("gate", "stream")

    def __init__(self, stream: RawStream) -> None:
        self.stream = stream
        self.gate: RawEvent | None = None


class Feed:
    """What every feed of batches does: hand them out in order, and end.

    Args:
        lane: Where they go.
        streams: One for each slot; the same stream may serve several.
    """

    def __init__(self, lane: Lane, streams: list[RawStream]) -> None:
        self.pid = os.getpid()
        self._is_forked = False
        self._lane = lane
        self._slots = [Slot(stream) for stream in streams]
        self._count = len(streams)
        self._started = self._taken = self._returned = 0
        self._ready: deque[AnyBatch] = deque()
        self._end: BaseException | None = None
        """What the source ended with: StopIteration, or its error."""
        self._is_closed = False
        self._is_gated = False
        """Whether the batch handed out last came on its slot's stream."""
        self._turn = threading.RLock()
        self._handing: dict[int, tuple[AnyBatch, Any] | None] = {}
        """By thread, what it is about to get: Ctrl-C may strike before the caller has it."""
        _feeds[id(self)] = self

    def next(self) -> Any:
        """The next batch, ordered on the calling thread's current stream.

        Raises:
            StopIteration: The source has ended.
            ClosedError, ForkError: There is no more to be had here.
        """
        if self._is_forked:
            self._refuse_fork()
        shutdown.gate()
        thread = threading.get_ident()
        with self._turn:
            handing = None if self._is_closed else self._handing.get(thread)
            if handing is None:
                if self._returned != self._taken:
                    self._give_back()
                batch = self._front()
                if batch.is_waiting:
                    self._send_ahead()
                value = batch.hand_over()
                if batch.is_stalled:
                    self._release(batch)
                self._handing[thread] = (batch, value)
            else:
                batch, value = handing
                self._lane.backend.device_synchronize(self._lane.place)  # another stream may be current by now
            if handing is None or (self._ready and self._ready[0] is batch):
                self._pop(batch)
        self._handing[thread] = None  # from here on nothing is called
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

    def _front(self) -> AnyBatch:
        """The oldest batch that has not been handed out."""
        raise NotImplementedError

    def _send_ahead(self) -> None:
        """Copy the front with the small batches behind it: one copy costs little more than one of them alone."""
        waiting = list(itertools.takewhile(lambda batch: batch.is_waiting, tuple(self._ready)))
        if len(waiting) > 1:
            for batch in waiting:
                happens_before.taken(batch)
            send_together(waiting)

    def _release(self, batch: AnyBatch) -> None:
        """The front, which may have been begun only now, is about to be handed out."""

    def _pop(self, batch: AnyBatch) -> None:
        """The front has been handed out."""
        if self._is_closed:
            self._refuse_closed()
        self._is_gated = batch.has_slot
        self._taken += 1
        self._ready.popleft()

    @property
    def _next_slot(self) -> Slot:
        return self._slots[self._started % self._count]

    @property
    def _has_room(self) -> bool:
        if self._is_closed or self._end is not None or self._started - self._count >= self._returned:
            return False
        return not (self._ready and self._ready[-1].is_stalled)  # that is tried again in its turn, and nothing before

    # --- the end

    def _refuse_closed(self) -> NoReturn:
        raise ClosedError(
            f"the prefetcher was closed after {self._taken} batches; take batches before close(), or make another"
        )

    def _refuse_fork(self) -> NoReturn:
        raise ForkError(
            f"a prefetcher is used in process {os.getpid()}, forked from {self.pid}, where its thread and its "
            "device are; make another one here, or fork first"
        )

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
        if self._is_forked:  # the parent's thread may have held the locks
            return
        batches = self._drop()
        for batch in batches:
            batch.cancel()
        if waits:
            self._await_end()
            for batch in batches:
                batch.await_end()

    def _drop(self) -> list[AnyBatch]:
        self._is_closed = True
        self._handing.clear()
        batches, self._ready = list(self._ready), deque()
        return batches

    def _await_end(self) -> None:
        """Nothing runs but the consumer."""


_feeds: weakref.WeakValueDictionary[int, Feed] = weakref.WeakValueDictionary()
"""By ``id``."""


@shutdown.register
def _close_all() -> None:
    """The interpreter ends: no thread may be found in the middle of a copy."""
    for feed in shutdown.living(_feeds):
        feed.close(waits=True)


def _after_fork_in_child() -> None:
    """The threads of feeds, and whatever held their locks, are the parent's."""
    for feed in shutdown.living(_feeds):
        feed._is_forked = True
    _feeds.clear()


reset_in_child(_after_fork_in_child)
