"""Batches on their way to a device, ahead of whoever consumes them: slots, their gates, and the thread that reads.

A slot is a stream. Batch n travels on slot n modulo their number, and is begun only when the consumer's
work on the slot's batch before it has passed: so no more batches than slots are on their way or in use.
Whatever goes wrong with a batch is raised when its turn comes.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

from xferlib import _device, _handover, _site
from xferlib._batch import Batch, Lane
from xferlib.errors import ClosedError, ForkError

if TYPE_CHECKING:
    from xferlib.backends.base import RawEvent, RawStream

_EXIT_S = 10.0
_POLL_S = 200e-6
_GRACE_S = 0.1
"""How long `Feed.close` waits for a thread that is in the source, or waits for the device."""


class _Phase(Enum):
    """What the thread that reads is doing."""

    IDLE = "waits for room"
    GATE = "waits for the consumer's work"
    SOURCE = "is in the source"
    COPYING = "copies"
    ENDED = "has ended"


class _Slot:
    """A stream for copies, and the event after which its last batch is no longer in use."""

    __slots__ = ("gate", "stream")

    def __init__(self, stream: RawStream) -> None:
        self.stream = stream
        self.gate: RawEvent | None = None


class _Credit:
    """What the consumer hands to the thread that reads: room."""

    __slots__ = ("handover",)

    def __init__(self) -> None:
        self.handover: object = None


class Feed:
    """The batches of a source, in order, at most as many ahead as there are slots besides the consumer's.

    Args:
        source: Asked for its items one by one, by one thread at a time.
        lane: Where they go.
        streams: One for each slot; the same stream may serve several.
        is_threaded: A thread reads ahead; else the source is read where it is consumed.
        is_stable: The items stay as they are while more are read; else each is copied before the next is asked for.
    """

    def __init__(
        self, source: Iterator[Any], lane: Lane, streams: list[RawStream], *, is_threaded: bool, is_stable: bool
    ) -> None:
        self.pid = os.getpid()
        self._lane = lane
        self._source: Iterator[Any] | None = source
        self._slots = [_Slot(stream) for stream in streams]
        self._is_stable = is_stable
        self._started = self._taken = self._returned = 0
        self._ready: deque[Batch] = deque()
        self._is_stalled = False
        """The last of `_ready` could not be begun: it is tried again when its turn comes, and nothing before that."""
        self._end: BaseException | None = None
        """What the source ended with: StopIteration, or its error."""
        self._trouble: BaseException | None = None
        """What the thread met while it waited for the device; it tries again when somebody has been told."""
        self._is_closed = False
        self._is_gated = False
        """Whether the batch handed out last came on its slot's stream."""
        self._phase = _Phase.ENDED
        self._credit = _Credit()
        self._changed = threading.Condition()  # over a reentrant lock: a finalizer may run inside
        self._turn = threading.RLock()
        self._thread: threading.Thread | None = None
        _feeds.add(self)
        if is_threaded:
            self._phase = _Phase.IDLE
            self._site = _site.user_site()
            self._here = _device.current_device(lane.backend)
            context = contextvars.copy_context()  # the source sees the defaults of whoever made it
            self._thread = threading.Thread(target=context.run, args=(self._run,), name="xferlib-feed", daemon=True)
            _handover.given(self._credit)
            self._thread.start()

    # --- the consumer

    def next(self) -> Any:
        """The next batch, ordered on the calling thread's current stream.

        Raises:
            StopIteration: The source has ended.
            ClosedError, ForkError: There is no more to be had here.
        """
        self._refuse_fork()
        with self._turn:
            self._give_back()
            batch = self._front()
            value = batch.hand_over()
            if self._is_stalled and not self._is_stable:
                batch.release()  # it may have been begun only now, and the source goes on after this
            with self._changed:
                if self._is_closed:
                    raise self._closed()
                self._ready.popleft()
                self._is_stalled = self._is_stalled and bool(self._ready)  # the last one is the one that stalled
                self._taken += 1
                self._is_gated = not batch.is_direct
                self._changed.notify_all()
            return value

    def _refuse_fork(self) -> None:
        if self.pid != os.getpid():
            raise ForkError(
                f"a prefetcher is used in process {os.getpid()}, forked from {self.pid}, where its thread and its "
                "device are; make another one here, or fork first"
            )

    def _give_back(self) -> None:
        """All of the consumer's work on the batch that it had is enqueued: what comes after may use its slot."""
        if self._returned == self._taken:
            return
        slot = self._slots[self._returned % len(self._slots)]
        backend = self._lane.backend
        if not self._is_gated:
            slot.gate = None  # the batch was copied, and is used, on the consumer's own stream
        else:
            current = backend.stream_current(self._lane.place)
            slot.gate = backend.event_record(current, timing=False, event=slot.gate)
        with self._changed:
            self._returned = self._taken
            _handover.given(self._credit)
            self._changed.notify_all()

    def _front(self) -> Batch:
        """The oldest batch; waits for the thread, or reads the source here."""
        if self._thread is None:
            self._read_here()
            while self._ready and not self._ready[0].is_settled(_POLL_S):
                self._read_here()  # the consumer's work may have passed another gate meanwhile
        with self._changed:
            while not (self._ready or self._end is not None or self._is_closed or self._trouble is not None):
                self._changed.wait()
            if self._is_closed:
                raise self._closed()
            if self._ready:
                batch = self._ready[0]
                _handover.taken(batch)
                return batch
            if self._end is not None:
                raise self._end
            trouble, self._trouble = self._trouble, None
            self._changed.notify_all()
            assert trouble is not None
            raise trouble

    def _closed(self) -> Exception:
        return ClosedError(
            f"the prefetcher was closed after {self._taken} batches; take batches before close(), or make another one"
        )

    # --- reading

    @property
    def _has_room(self) -> bool:
        is_open = self._end is None and not self._is_stalled
        return is_open and self._started - len(self._slots) < self._returned

    def _read_here(self) -> None:
        """Begin what there is room for without waiting; wait where nothing is on its way."""
        backend = self._lane.backend
        while self._has_room and not self._is_closed:
            gate = self._slots[self._started % len(self._slots)].gate
            if gate is not None and not backend.event_done(gate):
                if self._ready:
                    return
                backend.event_synchronize(gate)
            self._read()

    def _read(self) -> bool:
        """Take one item from the source and begin it; whether there was one."""
        source = self._source
        assert source is not None
        try:
            host = next(source)
        except BaseException as error:
            with self._changed:
                self._end = error
                self._changed.notify_all()
            return False
        with self._changed:
            if self._is_closed:
                return False
            if self._thread is not None:
                self._phase = _Phase.COPYING
            before = self._ready[-1] if self._ready else None
        is_direct = self._thread is None and self._lane.is_direct(host)
        batch = Batch(host, self._lane, self._slots[self._started % len(self._slots)].stream, is_direct=is_direct)
        is_begun = batch.try_begin(before)
        if is_begun and not self._is_stable:
            is_begun = batch.try_prepare()
        with self._changed:
            if self._is_closed:
                batch.cancel()
                return False
            self._started += 1
            self._is_stalled = not is_begun
            _handover.given(batch)
            self._ready.append(batch)
            self._changed.notify_all()
        return True

    def _run(self) -> None:
        """What the thread does."""
        _handover.began()
        _site.inherited.site = self._site
        try:
            _device.current_device(self._lane.backend)  # a first look later would undo the next line
            self._lane.backend.device_use(self._here)
            while self._await_room() and self._read():
                pass
        except BaseException as error:
            self._end = self._end or error
        finally:
            self._source = None
            with self._changed:
                self._phase = _Phase.ENDED
                _handover.ended()
                self._changed.notify_all()

    def _await_room(self) -> bool:
        with self._changed:
            self._phase = _Phase.IDLE
            while not (self._has_room or self._is_closed or self._end is not None):
                self._changed.wait()
            if self._is_closed or self._end is not None:
                return False
            _handover.taken(self._credit)
            gate = self._slots[self._started % len(self._slots)].gate
            self._phase = _Phase.GATE
        while gate is not None:
            try:
                self._lane.backend.event_synchronize(gate)
                gate = None
            except BaseException as error:
                self._tell(error)
        with self._changed:
            self._phase = _Phase.SOURCE
            return not self._is_closed

    def _tell(self, error: BaseException) -> None:
        """Let the consumer know, and wait until it does."""
        with self._changed:
            self._trouble = error
            self._changed.notify_all()
            while self._trouble is not None and not self._is_closed:
                self._changed.wait()
            if self._is_closed:
                raise error

    # --- the end

    def close(self, *, waits: bool) -> None:
        """Take nothing more from the source, and drop what is on its way.

        Args:
            waits: Until no copy reads what the source gave, and the thread has ended, unless that is in the source.
        """
        if self.pid != os.getpid():  # the parent's thread may have held the locks
            return
        with self._changed:
            self._is_closed = True
            batches, self._ready = list(self._ready), deque()
            self._changed.notify_all()
        for batch in batches:
            batch.cancel()
        if self._thread is None:
            self._source = None
        elif waits and threading.current_thread() is not self._thread:
            self._await_thread(self._thread)
        if waits:
            for batch in batches:
                batch.await_end()

    def _await_thread(self, thread: threading.Thread) -> None:
        """Let the thread end; one that waits for somebody else ends when that has come."""
        with self._changed:
            is_ours = self._changed.wait_for(lambda: self._phase not in (_Phase.SOURCE, _Phase.GATE), _GRACE_S)
            if is_ours:
                self._changed.wait_for(lambda: self._phase is _Phase.ENDED, _EXIT_S)
        if self._phase is _Phase.ENDED:
            thread.join(_EXIT_S)


_feeds: weakref.WeakSet[Feed] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """The interpreter ends: no thread may be found in the middle of a copy."""
    for feed in list(_feeds):
        feed.close(waits=True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_feeds.clear)
