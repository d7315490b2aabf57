"""A thread that reads a source ahead of its consumer, and starts the copies.

`_changed` protects the queue of batches, the thread's phase, and the error that it reports. It is not held while the
source is read, a batch copied or the device waited for.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xferlib._core import observe, registry
from xferlib._core.registry import resolve
from xferlib._core.thresholds import DIRECT_MOST, THREAD_FROM_NS
from xferlib._core.trees import flatten
from xferlib._memory import lifetimes
from xferlib._pipeline.batches import WHOLE_MOST, Batch, Route, Router, hold_source, send
from xferlib._pipeline.readers import Readers
from xferlib._runtime import checks, process, threads
from xferlib._runtime.process import reset_in_child
from xferlib._runtime.threads import PATIENCE_S, Handed, OwnThread, deferred, is_followed
from xferlib._transfer import replay
from xferlib._transfer.staging import PAST_MOST
from xferlib.errors import ArgumentError, ClosedError, ForkError, XferError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, RawEvent, RawStream
    from xferlib._pipeline.batches import AnyBatch


# Batches on their way to a device, ahead of their consumer, in slots.
#
# The obvious way is a queue of device arrays that a thread fills. It fails in three ways. The queue bounds the batches
# that wait, not those whose memory the consumer's enqueued work still uses, so device memory grows. An error surfaces
# where the batch was read, before batches that are good. And a batch that could not be copied is gone.
#
# So a feed has slots. A slot is a stream and an event, its *gate*. Batch n travels on slot n modulo their number, and
# is copied only behind the consumer's work on the slot's batch before it. That work is known to be enqueued when the
# consumer asks for the next batch: `_give_back` records the gate then.
#
# Guaranteed:
#
# - No more batches than slots are in flight or in use.
# - Batches come in the source's order; an error with one is raised in its turn, and after it the same batch comes
#   again.
# - After Ctrl-C in `next` the feed goes on with the same batch, or with the one behind it.
#
# `_turn` is held by the thread that takes the next batch, during the whole hand-over. A feed that has a thread of its
# own protects the queue with a second lock, taken inside it: see `ThreadedFeed`. Both are reentrant, since a finalizer
# may come back into the feed within any call. `close` does not take `_turn`, so it never waits for a consumer.


_FOLLOWED_FROM = 64
"""Pinned sources that share an event."""


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


class CopyStreams:
    """The streams of a feed's copies, made at the first call: it takes 100 to 500 us."""

    __slots__ = ("_backend", "_count", "_device", "_made")

    def __init__(self, backend: Backend, device: Device, count: int, given: RawStream | None) -> None:
        self._backend, self._device, self._count = backend, device, count
        self._made = [given] * count if given is not None else None

    def __call__(self) -> list[RawStream]:
        if self._made is None:
            self._made = copy_streams(self._backend, self._device, self._count)
        return self._made


def list_device_specs(devices: Any, call: str = "stream_map") -> list[Any]:
    """The specifications in ``devices``, which is one or several of them; that of the current device for None.

    Raises:
        ArgumentError: It is neither.
    """
    if devices is None or isinstance(devices, (str, int)) or checks.has(devices, "kind"):
        return [devices]
    if not isinstance(devices, Iterable):
        raise ArgumentError(f"{call}: devices is {type(devices).__name__}; give devices such as ['cuda:0', 'cuda:1']")
    try:
        return list(devices)
    except Exception as error:  # a foreign object may raise anything
        raise ArgumentError(
            f"{call}: devices is {type(devices).__name__}, which lists nothing; give devices such as ['cuda:0']"
        ) from error


def targets_of(devices: Any, call: str = "stream_map") -> list[Device]:
    """The devices that a call names.

    Raises:
        ArgumentError: They are none, or one is named twice.
        DeviceNotFoundError: A device does not exist.
    """
    targets = [resolve(each) for each in list_device_specs(devices, call)]
    if not targets or len(set(targets)) < len(targets):
        raise ArgumentError(f"{call}: devices={[str(each) for each in targets]!r}; name at least one, and each once")
    return targets


class Feed:
    """Hands out batches in order, and ends: the part that all feeds share.

    Args:
        router: Chooses their route, and knows the device.
        count: The number of slots.
        streams: Gives one for each slot, which may be the same.
    """

    def __init__(self, router: Router, count: int, streams: Callable[[], list[RawStream]]) -> None:
        self.pid = os.getpid()
        self._is_forked = False
        self._router = router
        self._make_streams = streams
        self._made_slots: list[Slot] = []
        self._count = count
        self._started = self._taken = self._returned = 0
        self._ready: deque[AnyBatch] = deque()
        self._end: BaseException | None = None
        """The error that ended the source: StopIteration, or its own."""
        self._is_closed = self._is_dropped = False
        """Whether `close` has begun, and nothing more is taken; whether it has dropped every batch."""
        self._is_gated = False
        """Whether the batch handed out last came on its slot's stream."""
        self._turn = threading.RLock()
        self.reader: Any = None
        """Hands batches out by C, which go on the consumer's stream when they are asked for; None: none go so."""
        _feeds.add(weakref.ref(self, _feeds.discard))  # to add to a `WeakSet` takes as long as a small copy

    def _new_reader(self, items: Any, source: Any, run: Any, pinned: list[Any] | None) -> Any:
        """A reader of a list or an iterator; None where Python hands all batches out."""
        calls, router = replay.calls_in_c(), self._router
        is_free = not is_watched()  # the first batch too
        if calls is None or not router.may_choose or (items is None and not is_free):
            return None
        acquire, release = self._turn.acquire, self._turn.release
        most, waited_most = (sys.maxsize,) * 2 if router.is_host else (PAST_MOST, DIRECT_MOST)
        if items is None and threads.crew().fillers:
            most = max(most, WHOLE_MOST)
        uploader = None if router.is_host else router.uploader
        provide, provide_beside = (uploader.provide, uploader.provide_beside) if uploader is not None else (None, None)
        reader = calls.new_reader(
            items, run, next, source, router.device, acquire, release, pinned, most, waited_most,
            _FOLLOWED_FROM, THREAD_FROM_NS, provide, provide_beside if items is not None else None,
        )  # fmt: skip
        reader.is_free = is_free
        return reader

    def _catch_up(self) -> None:
        """Count what C has handed out since Python did."""
        reader = self.reader
        if reader is not None and reader.is_free:
            self._started = self._taken = self._returned = reader.number
            if reader.has_ended:
                self._note_end(StopIteration())

    def _count_batch_without_slot(self) -> None:
        """Count a batch that had no slot; the next one may go by C."""
        self._started = self._taken = self._returned = self._taken + 1
        if self.reader is not None:
            self.reader.number = self._taken
            self.reader.is_free = True

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
        process.gate()
        with self._turn:
            if self.reader is not None:
                self._catch_up()
                self.reader.is_free = False
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
        if self._is_gated:
            slot, backend = self._slots[self._returned % self._count], self._router.backend
            current = backend.stream_current(self._router.device)
            slot.gate = backend.event_record(current, timing=False, event=slot.gate)
            slot.hand_on()
        elif self._made_slots:
            slot = self._slots[self._returned % self._count]
            slot.gate = None  # the batch was in memory of the consumer's own stream, which orders its reuse
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
    def _slots(self) -> list[Slot]:
        if not self._made_slots:
            self._made_slots = [Slot(stream) for stream in self._make_streams()]
        return self._made_slots

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
    def count(self) -> int:
        """The number of batches handed out."""
        reader = self.reader
        return reader.number if reader is not None and reader.is_free else self._taken

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
        if self._router.uploader is not None:
            self._router.uploader.drop_room()
        return StopIteration(*self._end.args) if isinstance(self._end, StopIteration) else self._end

    def close(self, *, waits: bool) -> None:
        """Take nothing more from the source, and drop the batches in flight.

        Args:
            waits: Return when no copy reads the source's arrays, and the feed's thread has ended or is in the source.
        """
        if self._is_forked:  # the parent's thread may have held the locks
            return
        if self._is_dropped and not waits:  # a program's last objects are collected when modules have no names any more
            return
        with deferred:  # a batch that is in neither list would die under its copy
            batches = self._drop()
            for batch in batches:
                batch.cancel()
            self._is_dropped = True
        if waits:
            self._await_end()
            for batch in batches:
                batch.await_end()

    def _drop(self) -> list[AnyBatch]:
        self._is_closed = True
        if self._router.uploader is not None:
            self._router.uploader.drop_room()
        if self.reader is not None:
            self._catch_up()
            buffers = self.reader.close()
            if buffers is not None and (uploader := self._router.uploader) is not None:
                uploader.keep(buffers)
        batches, self._ready = list(self._ready), deque()
        return batches

    def _await_end(self) -> None:
        """Wait until the feed's own thread has ended; here there is none."""


_feeds: set[weakref.ref[Feed]] = set()
"""Those that exist; other threads may add to them."""


def _list_feeds() -> list[Feed]:
    return [feed for feed in (reference() for reference in list(_feeds)) if feed is not None]


@process.register
def _close_all() -> None:
    """Close every feed at the interpreter's end, so that no thread is found in the middle of a copy."""
    for feed in _list_feeds():
        feed.close(waits=True)


def _after_fork_in_child() -> None:
    """Mark every feed as the parent's, as are the threads that may hold its locks."""
    for feed in _list_feeds():
        feed._is_forked = True
        if feed.reader is not None:
            feed.reader.forget()  # C asks the feed, which refuses
    _feeds.clear()


reset_in_child(_after_fork_in_child)


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


# The obvious way is to start it at once. To start one takes 50 to 100 us, and where the source and its consumer both
# run Python, the two threads wait for each other: 60 to 90 us for each batch (H200's host). So the consumer reads, as a
# plain loop does, until reading and copying beside its work is seen to gain more than that. An item that is copied in
# any other way than a plain loop's goes to the thread as well.

_LEFT = object()
"""No batch: what the consumer leaves to the thread."""


def is_watched() -> bool:
    """Whether a simulator looks at what threads hand to each other: its clocks do not know how long a source takes."""
    return observe.listener is not None or is_followed()


def _rejoin(held: tuple[Any, ...], source: Iterator[Any]) -> Iterator[Any]:
    """Items, and behind them those of an iterator that may have `__next__` alone: `itertools.chain` asks for more."""
    yield from held
    del held
    while True:
        try:
            item = next(source)
        except StopIteration:
            return
        yield item
        del item


class ThreadedFeed(Feed, Handed):
    """The batches of any source, read ahead where that pays; it is handed to its thread when it is closed, and back.

    Args:
        source: Asked for its items one by one, by the consumer until this feed's thread starts.
        router, count, streams: As for `Feed`.
        is_stable: Items do not change while more are read; else each is copied before the next is requested.
        is_dealt: The source waits for other threads to take theirs, or its consumer must not wait for it.
    """

    def __init__(
        self, source: Iterator[Any], router: Router, count: int, streams: Callable[[], list[RawStream]],
        *, is_stable: bool, is_dealt: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(router, count, streams)
        self._source: Iterator[Any] | None = source
        """None as long as the reader has it."""
        self._is_stable = is_stable
        self._is_ahead = False
        """Whether the thread reads."""
        self._trouble: BaseException | None = None
        """An error that the thread met while it waited for the device; it retries when the consumer has raised it."""
        self._phase = _Phase.ENDED
        self._changed = threading.Condition()  # over a reentrant lock: a finalizer may run inside
        self._here = registry.current_device(router.backend)
        self._context = contextvars.copy_context()  # the source sees the defaults of the thread that made the feed
        self.thread: OwnThread | None = None
        """Reads ahead, once that pays."""
        if not is_stable and not is_dealt and THREAD_FROM_NS >= 0:
            self.reader = self._new_reader(None, source, self._context.run, None)
            self._source = source if self.reader is None else None

    def start(self) -> None:
        if self.reader is None:
            self._start_thread()

    def _start_thread(self) -> None:
        """Let the thread read from here on, beginning with the item that is held."""
        self._slots  # noqa: B018  made before two threads ask for them
        with deferred:  # a thread that runs keeps the feed
            if self.reader is not None:
                (source, held), self.reader = self.reader.end(), None
                self._source = _rejoin(held, source) if held and source is not None else source
                del source, held
            if self._source is None:
                self._refuse_closed()
            self._is_ahead = True
            self._phase = _Phase.IDLE
            self.thread = OwnThread(functools.partial(self._context.run, self._run, checks.user_site()), "xferlib-feed")
            try:
                self.thread.start()
            except RuntimeError:  # the system has no more threads now
                self._is_ahead, self._phase, self.thread = False, _Phase.ENDED, None
                raise

    # --- the consumer that reads

    def next(self) -> Any:
        """Return the next batch, as `Feed.next` does."""
        if not self._is_ahead and not self._is_forked:
            process.gate()
            with self._turn:
                if self.reader is not None:
                    self._catch_up()
                    value = self._take_here()
                    if value is not _LEFT:
                        return value
                if not self._is_ahead:
                    self._start_thread()
        return super().next()

    def _take_here(self) -> Any:
        """Read an item and copy it, which may be changed on return; `_LEFT` where the thread is to do it."""
        if self._is_closed:
            self._refuse_closed()
        if self._end is not None:
            raise self._the_end()
        reader, begun = self.reader, time.monotonic_ns()
        reader.is_free = False
        try:
            value = reader.take()
        except BaseException as error:
            # Ctrl-C ends a generator, and what it would give next is a silent end.
            if isinstance(error, Exception) or getattr(reader.source, "gi_frame", self) is None:
                self._note_end(error)
                reader.end()
            raise
        if self._is_closed:
            self._refuse_closed()
        if reader.has_ended:
            self._note_end(StopIteration())
            raise StopIteration
        if value is None:
            host = reader.held
            if reader.is_hidden or not self._router.sends_at_once(host):
                return _LEFT
            value = self._router.send_read(host)
            if self._is_closed:
                self._refuse_closed()
            del reader.held
            reader.left_ns = time.monotonic_ns()
            reader.work_ns = reader.left_ns - begun
        self._count_batch_without_slot()
        return value

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
                self._changed.wait(PATIENCE_S)  # Ctrl-C just before CPython blocks is seen only after it
            if self._is_closed:
                self._refuse_closed()
            if self._ready:
                self._ready[0].take_over()
                return self._ready[0]
            if self._end is not None:
                self.take_over()  # the source may have changed what the consumer goes on with
                raise self._the_end()
            trouble, self._trouble = self._trouble, None
            self._changed.notify_all()
            assert trouble is not None
            try:
                raise trouble
            finally:
                del trouble  # as in `Batch`: its traceback keeps this frame

    def _release(self, batch: AnyBatch) -> None:
        if not self._is_stable and isinstance(batch, Batch):  # no other stalls
            batch.release()  # the source goes on after this

    def _pop(self, batch: AnyBatch) -> None:
        with self._changed:
            super()._pop(batch)
            self._changed.notify_all()

    # --- the thread

    def _run(self, site: checks.Site) -> None:
        """Read until the source ends or the feed is closed: the thread's body."""
        checks.inherited.site = site
        try:
            registry.current_device(self._router.backend)  # a first look later would undo the next line
            self._router.backend.device_use(self._here)
            while self._await_room() and self._read_one():
                pass
        except BaseException as error:
            self._end = self._end or error
        finally:
            with self._changed:
                if self._is_closed:
                    self.take_over()  # the source may change what the consumer has used
            self._source = None
            with self._changed:
                self.hand_on()
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
                if self._router.uploader is not None:
                    self._router.uploader.await_buffer()
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
                self.hand_on()
                self._note_end(error)
                self._changed.notify_all()
            return False
        with self._changed:
            if self._is_closed:
                return False
            self._phase = _Phase.COPYING
            before = self._ready[-1] if self._ready else None
        batch = self._begin_batch(host, before)
        with self._changed:
            if self._is_closed:
                batch.cancel()
                return False
            self._started += 1
            batch.hand_on()
            self._ready.append(batch)
            self._changed.notify_all()
        return True

    def _begin_batch(self, host: Any, before: AnyBatch | None) -> AnyBatch:
        """Return the batch of an item, which the source may change from now on."""
        stream = self._next_slot.stream
        if not self._is_stable:
            with contextlib.suppress(Exception):  # an item that cannot be copied on the host goes the other way
                copied = self._copy_batch(host, stream)
                if copied is not None:
                    return copied
        batch = Batch(host, self._router, stream)
        if batch.try_begin(before, is_awaited=not self._is_stable) and not self._is_stable:
            batch.try_prepare()
        return batch

    def _copy_batch(self, host: Any, stream: RawStream) -> AnyBatch | None:
        """Copy a small or medium item on the host and return its batch; None for any other."""
        kept = self._router.copy_on_host(host)
        if kept is not None:
            return Batch(kept, self._router, stream, Route.DIRECT)
        return self._router.stage(host)

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
            self.hand_on()
            batches = super()._drop()  # the thread may be in the source, and forgets it when it ends
            if type(self._source) is Readers:
                self._source.close()
            if not self._is_ahead:
                self._source = None
                if self.reader is not None:
                    self.reader.end()
            self._changed.notify_all()
            return batches

    def _await_end(self) -> None:
        """Wait until the thread has ended, but not for one that stays in the source or waits for the device."""
        thread = self.thread
        if thread is None or threading.current_thread() is thread:
            return
        with self._changed:
            is_ours = self._changed.wait_for(lambda: self._phase not in (_Phase.SOURCE, _Phase.GATE), _GRACE_S)
            if is_ours:
                self._changed.wait_for(lambda: self._phase is _Phase.ENDED, _EXIT_S)
        if self._phase is _Phase.ENDED and thread.ident is not None:
            self.take_over()
            thread.join(_EXIT_S)


# The batches of a list, begun in the consumer's thread: there is no other thread, and no hand-over between threads.
#
# A small array would take its place in the queue, and leave it in the same call. That takes Python longer than the
# copy, so where nothing is in the queue it is copied at once.

# One of up to `DIRECT_MOST` bytes gains nothing by a side stream and threads that stage it: their steps take as long as
# the copy.

_POLL_S = 200e-6


class ListFeed(Feed):
    """The batches of a sequence whose items stay as they are.

    Args:
        items: Read by index, so that one whose start was interrupted is read again.
        router, count, streams: As for `Feed`.
    """

    def __init__(
        self, items: Sequence[Any], router: Router, count: int, streams: Callable[[], list[RawStream]]
    ) -> None:
        super().__init__(router, count, streams)
        self._items = items
        self._stream: RawStream | None = None
        """On which pinned sources are read that no event follows yet."""
        self.reader = self._new_reader(items, None, None, [])
        self._watched: dict[AnyBatch, observe.ReadAhead] = {}

    def next(self) -> Any:
        """Return the next batch, as `Feed.next` does."""
        if self._is_forked:
            self._refuse_fork()
        process.gate()
        with self._turn:
            self._catch_up()
            if self._returned != self._taken:
                self._give_back()
            is_next = not self._ready and self._end is None and self._taken < len(self._items)
            value = self._take_here() if is_next and not is_watched() else None
            if value is None:
                with deferred:  # what is lost is freed while it is copied
                    sent = self._take_back()
                    self._ready.extend(sent)
                    self._started += len(sent)
                return super().next()
            if self._is_closed:
                self._refuse_closed()
            self._count_batch_without_slot()
        return value

    def _take_back(self) -> list[AnyBatch]:
        """Take from C the arrays that it has sent ahead, and not handed out."""
        uploader, reader, owner = self._router.uploader, self.reader, self._stream
        if reader is None or uploader is None:
            return []
        reader.is_free = False
        if owner is None:  # no pinned array has been sent
            return []
        beside, is_unused, sent = reader.drain()
        if is_unused and not sent:
            uploader.keep_beside(beside)
        return [uploader.resume(beside, owner, *each) for each in sent]

    def _take_here(self) -> Any:
        """Copy the next item on the consumer's stream as a plain loop does; None, and nothing done, for another way."""
        host, router, reader = self._items[self._taken], self._router, self.reader
        if reader is not None:
            reader.is_free, reader.number = False, self._taken
            if len(reader.pinned) >= _FOLLOWED_FROM:
                self._mark_pinned()
            value = reader.take()
            if reader.sent and value is None:
                return None
            # For the first time, or the consumer has gone to another stream:
            if value is None and router.is_pinned(host):
                self._mark_pinned()
                self._stream = router.backend.stream_current(router.device)
                reader.stream = self._stream.handle
                value = reader.take()
            if value is not None:
                return value
        return send(host, router) if router.route(host) is Route.DIRECT else None

    def _mark_pinned(self) -> None:
        """Put an event behind the copies of pinned sources, which live until then."""
        sources, self.reader.pinned = self.reader.pinned, []
        backend, stream = self._router.backend, self._stream
        if not sources:
            return
        assert stream is not None  # else C has enqueued nothing
        if backend.stream_done(stream):
            return
        event = lifetimes.record(backend, stream)
        for source in sources:
            hold_source(source, backend, event)

    def _front(self) -> AnyBatch:
        self._read()
        ready = self._ready
        while ready and not (ready[0].is_queued or ready[0].is_settled(_POLL_S)):
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
            if not batch.is_queued:
                batch.push()
        while self._started - self._count < self._returned and self._has_room:
            try:
                host = self._items[self._started]
            except IndexError:
                self._note_end(StopIteration())
                return
            begun = self._begin_batch(host)
            if begun is None:
                return
            self._started += 1
            ready.append(begun)
            if observe.listener is not None:
                self._watch(begun, host)

    def _begin_batch(self, host: Any) -> AnyBatch | None:
        """Begin the batch of an item; None where its slot is in use."""
        route = self._router.route(host)
        if route is Route.AHEAD:
            try:
                return self._router.begin_ahead(host)
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
            if watched := observe.watch_batch(leaves, self._router.backend.pinned_domain):
                self._watched[batch] = watched

    def _pop(self, batch: AnyBatch) -> None:
        super()._pop(batch)
        if self._watched and (watched := self._watched.pop(batch, None)):
            watched.note_hand_out()

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
        batches = super()._drop()
        if self.reader is not None:
            if self.reader.sent:
                with deferred:  # as in `next`
                    batches += self._take_back()
            else:  # as at the interpreter's end, where modules have no functions any more
                self._take_back()
            self._mark_pinned()
        return batches
