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

`_changed` protects the list of results to download and the three counters. It is never held while a result is waited
for, copied or stored.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from xferlib._core import registry
from xferlib._core.stream import Stream
from xferlib._pipeline.reader_feed import ThreadedFeed
from xferlib._pipeline.routing import Router
from xferlib._runtime import callsite, happens_before, shutdown
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
        self._waiting: list[_Outgoing | None] = []
        self._given = self._received = self._stored = 0
        """Results that the function has given, that have arrived on the host, and that are stored."""
        self._changed = threading.Condition()
        self.handover: object = None
        streams = [self._stream() for _ in range(depth)]
        router = Router(self._backend, device, None)
        downs = [self._stream() for _ in range(min(depth, _DRAINS))]
        self.feed = ThreadedFeed(self._chunks(), router, streams, is_stable=True)
        self._site = callsite.user_site()
        self._threads = [
            threading.Thread(target=self._run, args=(down,), name=f"xferlib-drain-{number}", daemon=True)
            for number, down in enumerate(downs)
        ]
        for thread in self._threads:
            thread.start()
        _stations[id(self)] = self

    def _stream(self) -> RawStream:
        return self._backend.stream_create(self.device, non_blocking=True, priority=0)

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
        with self._changed:
            happens_before.given(self)
            self._waiting.append(_Outgoing(self._given, number, value, event))
            self._given += 1
            self._changed.notify_all()

    def _run(self, down: RawStream) -> None:
        """Download results: the body of each such thread."""
        happens_before.began()
        callsite.inherited.site = self._site
        try:
            stream = Stream._of(down, self._backend)
            while (outgoing := self._next()) is not None:
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
        finally:
            happens_before.ended()

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

    def _next(self) -> _Outgoing | None:
        with self._changed:
            while not self._waiting:
                self._changed.wait()
            happens_before.taken(self)
            return self._waiting.pop(0)

    def release(self) -> None:
        """Wake the feed's thread where it waits for room: the source is read no more."""
        self._room.release()

    def abandon(self) -> None:
        """End the threads that download results, whatever is in flight: the interpreter ends."""
        self._results.fail(ClosedError("the interpreter ends: stream_map stops; end its thread before"))
        with self._changed:
            self._waiting[:] = [None] * len(self._threads)
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_END_S)

    def close(self) -> None:
        """End every thread, after the results that are in flight."""
        with self._changed:
            self._waiting += [None] * len(self._threads)
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._room.release()
        self.feed.close(waits=True)


@shutdown.register
def _abandon_all() -> None:
    """End every device's threads: at the interpreter's end one in a library's C++ frames would abort the process."""
    for station in shutdown.living(_stations):
        station.abandon()
