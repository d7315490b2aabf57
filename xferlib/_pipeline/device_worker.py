"""One device of a `stream_map`: chunks are uploaded to it, and results downloaded from it.

The obvious way is to download a result in the thread that computed it, or in one thread beside it. The first leaves
device and link idle in turn; the second leaves the link idle between two results, since the next copy would be started
only when the one before has arrived. So a feed uploads chunks, and up to two threads download results in turn: while
one receives a result, the other waits for the next to be computed and starts its copy.

Guaranteed:

- At most ``depth`` chunks, with their results, are on the device: the semaphore `_room` is acquired before a chunk is
  read, and released when its result is stored and forgotten.
- Until the call is stopped, results are received in the order in which they were given (`_received` counts them).
  `chunk_ledger.Results` stores them in the order of the rows where that matters.
- After `close` no thread of the device runs, but the feed's where the source does not return.
- A thread that fails makes `Results` fail and ends; nothing waits for it.

`_changed` protects the three counters. It is never held while a result is waited for, copied or stored.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from xferlib._core import registry
from xferlib._core.stream import Stream
from xferlib._pipeline.feed import copy_streams
from xferlib._pipeline.reader_feed import ThreadedFeed
from xferlib._pipeline.routing import Router
from xferlib._runtime import callsite, shutdown
from xferlib._runtime.handoff import HandoffQueue, OwnThread
from xferlib._runtime.interrupts import deferred
from xferlib.errors import ClosedError, OutOfMemoryError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream
    from xferlib._pipeline.chunk_ledger import Results

_DRAINS = 2


class _Outgoing(NamedTuple):
    """A result to be downloaded."""

    turn: int
    """The number of results that leave the device before it."""
    number: int
    """The chunk's number."""
    value: Any
    event: Any
    """Completes when the result is computed."""


_END_S = 1.0
"""The time that the end of the interpreter waits for each thread that downloads results."""

_stations: weakref.WeakValueDictionary[int, Station] = weakref.WeakValueDictionary()
"""By ``id``."""


class Station:
    """One device: the feed that uploads chunks to it, and the threads that download results.

    Args:
        device: The device.
        numbers: The chunks that are computed there.
        results: Reads chunks, and stores results.
        depth: Chunks that may be on the device.
    """

    def __init__(self, device: Device, numbers: range, results: Results, depth: int) -> None:
        self.device = device
        self._backend: Backend = registry.get(device.backend).at(device)
        self._backend.attach(device)
        self._results = results
        self._numbers = numbers
        self._room = threading.Semaphore(depth)
        self._waiting: HandoffQueue[_Outgoing | None] = HandoffQueue()
        self._given = self._received = self._stored = 0
        """Results that the function has given, that have arrived on the host, and that are stored."""
        self._changed = threading.Condition()
        streams = copy_streams(self._backend, device, depth)
        downs = copy_streams(self._backend, device, min(depth, _DRAINS))
        self.feed = ThreadedFeed(self._chunks(), Router(self._backend, device, None), streams, is_stable=True)
        self._site = callsite.user_site()
        self._threads = [
            OwnThread(functools.partial(self._run, down), f"xferlib-drain-{number}")
            for number, down in enumerate(downs)
        ]
        _stations[id(self)] = self

    def start(self) -> None:
        """Start the threads, once something closes the station whatever strikes."""
        self.feed.start()
        with deferred:
            for thread in self._threads:
                thread.start()

    def _chunks(self) -> Iterator[Any]:
        for number in self._numbers:
            self._room.acquire()
            if self._results.is_stopped:
                return
            yield self._results.read(number)

    def next(self) -> Any:
        """Return the next chunk on the device; if device memory is short, retry when all results so far have left."""
        try:
            return self.feed.next()
        except OutOfMemoryError:
            with self._changed:
                self._changed.wait_for(lambda: self._stored == self._given or self._results.is_stopped)
            return self.feed.next()

    def give(self, number: int, value: Any) -> None:
        """Enqueue a result, to be downloaded when it is computed."""
        backend = self._backend
        event = backend.event_record(backend.stream_current(self.device), timing=False)
        turn = self._given
        with self._changed:
            self._given += 1
        self._waiting.put(_Outgoing(turn, number, value, event))

    def _run(self, down: RawStream) -> None:
        """Download results: the body of each such thread."""
        callsite.inherited.site = self._site
        try:
            stream = Stream._of(down, self._backend)
            while (outgoing := self._waiting.get()) is not None:
                self._take_away(outgoing, stream)
                del outgoing  # the device's memory, before the next chunk comes for it
                self._room.release()
                with self._changed:
                    self._stored += 1
                    self._changed.notify_all()
        except BaseException as error:
            self._results.fail(error)
            with self._changed:
                self._changed.notify_all()

    def _take_away(self, outgoing: _Outgoing, stream: Stream) -> None:
        turn, number, value, event = outgoing
        self._backend.attach(self.device)
        self._backend.event_synchronize(event)
        receive = self._results.begin(number, value, stream)  # threads of the library's own may go on with it
        with self._changed:
            self._changed.wait_for(lambda: self._received == turn or self._results.is_stopped)
        host = receive()
        with self._changed:
            self._received += 1
            self._changed.notify_all()
        self._results.store(number, host)

    def release(self) -> None:
        """Wake the feed's thread where it waits for room: the source is read no more."""
        self._room.release()

    def abandon(self) -> None:
        """End the threads that download results, whatever is in flight: the interpreter ends."""
        self._results.fail(ClosedError("the interpreter ends: stream_map stops; end its thread before"))
        self._waiting.clear()
        self._end_threads()
        with self._changed:
            self._changed.notify_all()
        for thread in self._started:
            thread.join(_END_S)

    @property
    def _started(self) -> list[OwnThread]:
        return [thread for thread in self._threads if thread.ident is not None]

    def _end_threads(self) -> None:
        for _ in self._threads:
            self._waiting.put(None)

    def close(self) -> None:
        """End every thread, after the results that are in flight."""
        self._end_threads()
        for thread in self._started:
            thread.join()
        self._room.release()
        self.feed.close(waits=True)


@shutdown.register
def _abandon_all() -> None:
    """End every device's threads: at the interpreter's end one in a library's C++ frames would abort the process."""
    for station in shutdown.living(_stations):
        station.abandon()
