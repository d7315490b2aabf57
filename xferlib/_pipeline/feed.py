"""Batches on their way to a device, ahead of their consumer, in slots.

The obvious way is a queue of device arrays that a thread fills. It fails in three ways. The queue bounds the batches
that wait, not those whose memory the consumer's enqueued work still uses, so device memory grows. An error surfaces
where the batch was read, before batches that are good. And a batch that could not be copied is gone.

So a feed has slots. A slot is a stream and an event, its *gate*. Batch n travels on slot n modulo their number, and is
copied only behind the consumer's work on the slot's batch before it. That work is known to be enqueued when the
consumer asks for the next batch: `_give_back` records the gate then.

Guaranteed:

- No more batches than slots are in flight or in use.
- Batches come in the source's order; an error with one is raised in its turn, and after it the same batch comes again.
- After Ctrl-C in `next` the feed goes on with the same batch, or with the one behind it.

`_turn` is held by the thread that takes the next batch, during the whole hand-over. A feed that has a thread of its own
protects the queue with a second lock, taken inside it: see `reader_feed`. Both are reentrant, since a finalizer may
come back into the feed within any call. `close` does not take `_turn`, so it never waits for a consumer.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn

from xferlib._runtime import shutdown
from xferlib._runtime.fork import reset_in_child
from xferlib._runtime.handoff import Handed
from xferlib.errors import ClosedError, ForkError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawEvent, RawStream
    from xferlib._pipeline.batch import AnyBatch
    from xferlib._pipeline.routing import Router


class Slot(Handed):
    """A stream for copies, and the event that completes when its last batch is no longer in use.

    The consumer hands it on when it gives the batch back.
    """

    __slots__ = ("gate", "stream")

    def __init__(self, stream: RawStream) -> None:
        self.stream = stream
        self.gate: RawEvent | None = None
        self.hand_on()


def copy_streams(backend: Backend, device: Device, count: int) -> list[RawStream]:
    """Streams of a device for copies beside the consumer's work."""
    return [backend.stream_create(device, non_blocking=True, priority=0) for _ in range(count)]


class Feed:
    """Hands out batches in order, and ends: the part that all feeds share.

    Args:
        router: Chooses their route, and knows the device.
        streams: One for each slot; the same stream may serve several.
    """

    def __init__(self, router: Router, streams: list[RawStream]) -> None:
        self.pid = os.getpid()
        self._is_forked = False
        self._router = router
        self._slots = [Slot(stream) for stream in streams]
        self._count = len(streams)
        self._started = self._taken = self._returned = 0
        self._ready: deque[AnyBatch] = deque()
        self._end: BaseException | None = None
        """The error that ended the source: StopIteration, or its own."""
        self._is_closed = False
        self._is_gated = False
        """Whether the batch handed out last came on its slot's stream."""
        self._turn = threading.RLock()
        _feeds[id(self)] = self

    def start(self) -> None:
        """Begin to read ahead, once something closes the feed whatever strikes; here the consumer reads."""

    def next(self) -> Any:
        """Return the next batch, ordered on the calling thread's current stream.

        Raises:
            StopIteration: The source has ended.
            ClosedError, ForkError: The feed is closed, or used in a forked child.
        """
        if self._is_forked:
            self._refuse_fork()
        shutdown.gate()
        with self._turn:
            if self._returned != self._taken:
                self._give_back()
            batch = self._front()
            value = batch.hand_over()
            if batch.is_stalled:
                self._release(batch)
            self._pop(batch)
        return value

    def _give_back(self) -> None:
        """Record the slot's gate: the consumer has enqueued its work on the batch, and later copies go behind it."""
        slot = self._slots[self._returned % self._count]
        if not self._is_gated:
            slot.gate = None  # the batch was in memory of the consumer's own stream, which orders its reuse
        else:
            backend = self._router.backend
            current = backend.stream_current(self._router.device)
            slot.gate = backend.event_record(current, timing=False, event=slot.gate)
        slot.hand_on()
        self._returned = self._taken

    def _front(self) -> AnyBatch:
        """Return the oldest batch that has not been handed out."""
        raise NotImplementedError

    def _release(self, batch: AnyBatch) -> None:
        """Let the source go on: the oldest batch, perhaps begun only now, is about to be handed out."""

    def _pop(self, batch: AnyBatch) -> None:
        """Remove the oldest batch, which has been handed out."""
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
        return not (self._ready and self._ready[-1].is_stalled)  # it is retried in its turn, and nothing begins before

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
    def taken(self) -> int:
        """The number of batches handed out."""
        return self._taken

    @property
    def has_ended(self) -> bool:
        """Whether the source has ended and every batch has been handed out."""
        return self._end is not None and not self._ready

    def _note_end(self, error: BaseException) -> None:
        """Note that the source ends with this. A traceback keeps its frames, and so would keep this feed."""
        self._end = error.with_traceback(None) if isinstance(error, StopIteration) else error

    def _the_end(self) -> BaseException:
        """Return the error to raise when there are no more batches."""
        assert self._end is not None
        return StopIteration(*self._end.args) if isinstance(self._end, StopIteration) else self._end

    def close(self, *, waits: bool) -> None:
        """Take nothing more from the source, and drop the batches in flight.

        Args:
            waits: Return when no copy reads the source's arrays, and the feed's thread has ended or is in the source.
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
        batches, self._ready = list(self._ready), deque()
        return batches

    def _await_end(self) -> None:
        """Wait until the feed's own thread has ended; here there is none."""


_feeds: weakref.WeakValueDictionary[int, Feed] = weakref.WeakValueDictionary()
"""Every feed by its ``id``."""


@shutdown.register
def _close_all() -> None:
    """Close every feed at the interpreter's end, so that no thread is found in the middle of a copy."""
    for feed in shutdown.living(_feeds):
        feed.close(waits=True)


def _after_fork_in_child() -> None:
    """Mark every feed as the parent's, as are the threads that may hold its locks."""
    for feed in shutdown.living(_feeds):
        feed._is_forked = True
    _feeds.clear()


reset_in_child(_after_fork_in_child)
