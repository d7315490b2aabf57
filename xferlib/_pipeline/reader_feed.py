"""A thread that reads a source ahead of its consumer, and starts the copies.

`_changed` protects the queue of batches, the thread's phase, and the error that it reports. It is not held while the
source is read, a batch copied or the device waited for.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

from xferlib._core import devices
from xferlib._pipeline.batch import Batch
from xferlib._pipeline.feed import Feed
from xferlib._pipeline.routing import Route, Router
from xferlib._runtime import callsite
from xferlib._runtime.handoff import OwnThread
from xferlib._runtime.interrupts import deferred

if TYPE_CHECKING:
    from xferlib._core.raw import RawStream
    from xferlib._pipeline.batch import AnyBatch

_EXIT_S = 10.0
_GRACE_S = 0.1
"""The time that `ThreadedFeed.close` waits for a thread that is in the source, or waits for the device."""


class _Phase(Enum):
    """The activity of the reading thread."""

    IDLE = "waits for room"
    GATE = "waits for the consumer's work"
    SOURCE = "is in the source"
    COPYING = "copies"
    ENDED = "has ended"


class ThreadedFeed(Feed):
    """The batches of any source, read ahead.

    Args:
        source: Asked for its items one by one, by this feed's thread.
        router, streams: As for `Feed`.
        is_stable: Items do not change while more are read; else each is copied before the next is requested.
    """

    def __init__(self, source: Iterator[Any], router: Router, streams: list[RawStream], *, is_stable: bool) -> None:
        super().__init__(router, streams)
        self._source: Iterator[Any] | None = source
        self._is_stable = is_stable
        self._trouble: BaseException | None = None
        """An error that the thread met while it waited for the device; it retries when the consumer has raised it."""
        self._phase = _Phase.ENDED
        self._changed = threading.Condition()  # over a reentrant lock: a finalizer may run inside
        self._site = callsite.user_site()
        self._here = devices.current_device(router.backend)
        context = contextvars.copy_context()  # the source sees the defaults of the thread that made the feed
        self.thread = OwnThread(functools.partial(context.run, self._run), "xferlib-feed")

    def start(self) -> None:
        with deferred:  # a thread that runs keeps the feed
            self._phase = _Phase.IDLE
            self.thread.start()

    # --- the consumer

    def _give_back(self) -> None:
        super()._give_back()
        with self._changed:
            self._changed.notify_all()

    def _front(self) -> AnyBatch:
        front = self._oldest()
        for batch in tuple(self._ready):
            if batch.is_sent_by_consumer:  # any other begins when the reading thread has room for it, or in its turn
                batch.take_over()
                batch.push()
        return front

    def _oldest(self) -> AnyBatch:
        """Return the oldest batch that has not been handed out."""
        with self._changed:
            while not (self._ready or self._end is not None or self._is_closed or self._trouble is not None):
                self._changed.wait()
            if self._is_closed:
                self._refuse_closed()
            if self._ready:
                self._ready[0].take_over()
                return self._ready[0]
            if self._end is not None:
                raise self._the_end()
            trouble, self._trouble = self._trouble, None
            self._changed.notify_all()
            assert trouble is not None
            raise trouble

    def _release(self, batch: AnyBatch) -> None:
        if not self._is_stable and isinstance(batch, Batch):  # no other stalls
            batch.release()  # the source goes on after this

    def _pop(self, batch: AnyBatch) -> None:
        with self._changed:
            super()._pop(batch)
            self._changed.notify_all()

    # --- the thread

    def _run(self) -> None:
        """Read until the source ends or the feed is closed: the thread's body."""
        callsite.inherited.site = self._site
        try:
            devices.current_device(self._router.backend)  # a first look later would undo the next line
            self._router.backend.device_use(self._here)
            while self._await_room() and self._read_one():
                pass
        except BaseException as error:
            self._end = self._end or error
        finally:
            self._source = None
            with self._changed:
                self._phase = _Phase.ENDED
                self._changed.notify_all()

    def _await_room(self) -> bool:
        with self._changed:
            self._phase = _Phase.IDLE
            while not (self._has_room or self._is_closed or self._end is not None):
                self._changed.wait()
            if self._is_closed or self._end is not None:
                return False
            slot = self._next_slot
            slot.take_over()
            gate = slot.gate
            self._phase = _Phase.GATE
        while True:
            try:
                if gate is not None:
                    self._router.backend.event_synchronize(gate)
                if self._router.conveyor is not None:
                    self._router.conveyor.await_buffer()
                break
            except BaseException as error:
                self._tell(error)
        with self._changed:
            self._phase = _Phase.SOURCE
            return not self._is_closed

    def _read_one(self) -> bool:
        """Take one item from the source and begin it; False if there was none."""
        source = self._source
        assert source is not None  # it is let go of when the thread ends
        try:
            host = next(source)
        except BaseException as error:
            with self._changed:
                self._note_end(error)
                self._changed.notify_all()
            return False
        with self._changed:
            if self._is_closed:
                return False
            self._phase = _Phase.COPYING
            before = self._ready[-1] if self._ready else None
        batch = self._begun(host, before)
        with self._changed:
            if self._is_closed:
                batch.cancel()
                return False
            self._started += 1
            batch.hand_on()
            self._ready.append(batch)
            self._changed.notify_all()
        return True

    def _begun(self, host: Any, before: AnyBatch | None) -> AnyBatch:
        """Return the batch of an item, which the source may change from now on."""
        stream = self._next_slot.stream
        if not self._is_stable:
            with contextlib.suppress(Exception):  # an item that cannot be copied on the host goes the other way
                copied = self._copied(host, stream)
                if copied is not None:
                    return copied
        batch = Batch(host, self._router, stream)
        if batch.try_begin(before, is_awaited=not self._is_stable) and not self._is_stable:
            batch.try_prepare()
        return batch

    def _copied(self, host: Any, stream: RawStream) -> AnyBatch | None:
        """Copy a small or medium item on the host and return its batch; None for any other."""
        kept = self._router.kept(host)
        if kept is not None:
            return Batch(kept, self._router, stream, Route.DIRECT)
        return self._router.staged(host)

    def _tell(self, error: BaseException) -> None:
        """Report an error to the consumer, and wait until it has raised it."""
        with self._changed:
            self._trouble = error
            self._changed.notify_all()
            while self._trouble is not None and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                raise error

    # --- the end

    def _drop(self) -> list[AnyBatch]:
        with self._changed:
            batches = super()._drop()  # the thread may be in the source, and forgets it when it ends
            self._changed.notify_all()
            return batches

    def _await_end(self) -> None:
        """Wait until the thread has ended, but not for one that stays in the source or waits for the device."""
        if threading.current_thread() is self.thread:
            return
        with self._changed:
            is_ours = self._changed.wait_for(lambda: self._phase not in (_Phase.SOURCE, _Phase.GATE), _GRACE_S)
            if is_ours:
                self._changed.wait_for(lambda: self._phase is _Phase.ENDED, _EXIT_S)
        if self._phase is _Phase.ENDED and self.thread.ident is not None:
            self.thread.join(_EXIT_S)
