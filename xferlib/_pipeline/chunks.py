"""One device of a `stream_map`: chunks are uploaded to it, and results downloaded from it.

The obvious way is to download a result in the thread that computed it, or in one thread beside it. The first leaves
device and link idle in turn; the second leaves the link idle between two results, since the next copy would be started
only when the one before has arrived. So a feed uploads chunks, and up to two threads download results in turn: while
one receives a result, the other waits for the next to be computed and starts its copy.

Guaranteed:

- At most ``depth`` chunks, with their results, are on the device: the semaphore `_room` is acquired before a chunk is
  read, and released when its result is stored and forgotten.
- Until the call is stopped, results are received in the order in which they were given (`_received` counts them).
  `Results` stores them in the order of the rows where that matters.
- After `close` no thread of the device runs, but the feed's where the source does not return.
- A thread that fails makes `Results` fail and ends; nothing waits for it.

`_changed` protects the three counters. It is never held while a result is waited for, copied or stored.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib import tree
from xferlib._api import transfers
from xferlib._core import registry
from xferlib._core.arrays import address
from xferlib._core.dtypes import SUPPORTED, in_native_order
from xferlib._core.streams import Stream, current_stream
from xferlib._core.thresholds import LARGE_NBYTES, SMALL_NBYTES
from xferlib._core.trees import flatten
from xferlib._memory.buffers import RECYCLED_FROM, host_cache, let_malloc_recycle
from xferlib._pipeline.batches import Router
from xferlib._pipeline.feeds import ThreadedFeed, copy_streams, targets_of
from xferlib._pipeline.rows import Together
from xferlib._runtime import checks, process, threads
from xferlib._runtime.threads import Handed, HandoffQueue, OwnThread, deferred
from xferlib._transfer import copies
from xferlib.errors import ClosedError, MixedDevicesError, OutOfMemoryError, UnsupportedArrayError

if TYPE_CHECKING:
    from xferlib._core.arrays import Array, ArrayInfo, HostArray
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, RawStream
    from xferlib._pipeline.rows import Sink, Source


RESULT_BEGUN_FROM = LARGE_NBYTES
"""From here on the copy of a chunk's result is begun ahead: less is copied in the time that it takes to begin it."""

# The chunks that a `stream_map` has read and stored, the order of their results, and the first error.


class Results:
    """Reads chunks, stores results, and counts the rows that are done.

    Args:
        source: Where chunks come from.
        sink: Where results go.
        spans: First row and the row after the last of each chunk.
        progress: Called with the rows done and all rows.
    """

    def __init__(
        self,
        source: Source,
        sink: Sink,
        spans: list[tuple[int, int]],
        progress: Callable[[int, int], Any] | None = None,
    ) -> None:
        self.spans = spans
        self._progress = progress
        self._told = -1
        """The rows done that `progress` was called with last."""
        self.error: BaseException | None = None
        self.on_stop: Callable[[], Any] = lambda: None
        self._source = source
        self._sink = sink
        self._done: set[int] = set()
        self._next = 0
        """The first chunk whose result is not stored."""
        self._is_broken = False
        self._changed = threading.Condition()
        self._turn = Handed()
        """Of storing."""

    @property
    def is_stopped(self) -> bool:
        """Whether no further chunk is to be read."""
        return self.error is not None

    @property
    def value(self) -> Any:
        """The value that the call returns."""
        return self._sink.value

    @property
    def rows_complete(self) -> int:
        """The number of rows, from the first one on, whose results are stored."""
        number = self._next  # which another thread counts up
        return self.spans[number][0] if number < len(self.spans) else self._source.rows

    @property
    def waits(self) -> bool:
        """Whether reading or storing may wait, for a disk or for the program."""
        return self._source.waits or self._sink.waits

    def read(self, number: int) -> Any:
        """Read a chunk of the source."""
        return self._source.read(*self.spans[number])

    def begin(self, number: int, value: Any, stream: Stream) -> Callable[[], Any]:
        """Start the device-to-host copy of a finished result.

        Returns:
            A function that waits for the copy and returns the host array.
        """
        start, stop = self.spans[number]
        if self._sink.is_reduction:
            for leaf in flatten(value, moving="device")[0]:
                _refuse_elsewhere(leaf, stream)
            return functools.partial(_tree_to_host, value, stream)
        info = _refuse_elsewhere(value, stream)
        if info is None:
            raise UnsupportedArrayError(
                f"stream_map: the function gave {type(value).__name__}, not an array; let it return one, or give reduce"
            )
        out = self._sink.target(start, stop, info.shape, info.dtype)
        if info.device.kind == "cpu" or info.nbytes < RESULT_BEGUN_FROM:
            order = stream if info.device.kind != "cpu" else None  # a CPU is done when its call returns
            return functools.partial(transfers.to_host, value, stream=order, out=out)
        return copies.begin_to_host(value, stream=stream, out=out, is_awaited=True).result

    def store(self, number: int, host: Any) -> None:
        """Store a result that has arrived on the host."""
        start, stop = self.spans[number]
        if self._sink.is_ordered:
            self._await_turn(number)
        if not self._sink.is_ordered or self._next == number:
            self._sink.write(start, stop, host)
            self._source.release_rows(start, stop)
            self._note(number)

    def _await_turn(self, number: int) -> None:
        """Wait until every earlier chunk is stored, or storing has failed."""
        with self._changed:
            while self._next < number and not self._is_broken:
                self._changed.wait()
            self._turn.take_over()

    def _note(self, number: int) -> None:
        with self._changed:
            self._turn.hand_on()
            self._done.add(number)
            while self._next in self._done:
                self._done.remove(self._next)
                self._next += 1
            self._changed.notify_all()

    def report(self) -> None:
        """Tell how many rows are done, in the calling thread, if that has changed."""
        if self._progress is None:
            return
        done = self.rows_complete
        if done != self._told:
            self._told = done
            self._progress(done, self._source.rows)

    def stop(self, error: BaseException) -> None:
        """Read no further chunk; results in flight will be stored."""
        with self._changed:
            self.error = self.error or error
        self.on_stop()

    def fail(self, error: BaseException) -> None:
        """`stop`, for a result that cannot be stored: no thread waits for its turn any longer."""
        with self._changed:
            self._is_broken = True
            self._changed.notify_all()
        self.stop(error)

    def end(self) -> None:
        """Every thread that stored results has ended: the calling one comes after them."""
        self._turn.take_over()
        self.on_stop = lambda: None  # what it belongs to holds these results, and would live until a garbage collection

    def explain(self, error: BaseException) -> None:
        """Say in an error how far it has come."""
        found: Any = error
        is_reduction, value = self._sink.is_reduction, self._sink.value
        found.rows_complete, found.out, found.reduced = self.rows_complete, None, None
        if is_reduction:
            found.reduced = value
        else:
            found.out = value
        rest = "initial=error.reduced" if is_reduction else "out=error.out"
        error.add_note(
            f"stream_map: {self.rows_complete} of {self._source.rows} rows are done; to go on, call it again with "
            f"start=error.rows_complete, {rest}"
        )


def _refuse_elsewhere(value: Any, stream: Stream) -> ArrayInfo | None:
    """Describe an array; None for any other object. Refuse one on another device, which may still compute it."""
    owner = registry.owner_of(value)
    if owner is None:
        return None
    info = owner.view(value)
    if info.device is not stream.device and info.device.kind != "cpu":
        raise MixedDevicesError(
            f"stream_map: the function gave an array on {info.device} for a chunk on {stream.device}; give back one of "
            "the chunk's device, or of the host"
        )
    return info


def _tree_to_host(value: Any, stream: Stream) -> Any:
    if stream.device.kind == "cpu":  # one stream is like another
        return tree.to_host(value)
    with stream:  # rather than as an argument, for which leaves that are on the host have no use
        return tree.to_host(value)


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
        self._backend: Backend = registry.part_of(device)
        self._backend.attach(device)
        self._results = results
        self._numbers = numbers
        self._room = threading.Semaphore(depth)
        self._waiting: HandoffQueue[_Outgoing | None] = HandoffQueue()
        self._given = self._received = self._stored = 0
        """Results that the function has given, that have arrived on the host, and that are stored."""
        self._changed = threading.Condition()
        streams = functools.partial(copy_streams, self._backend, device, depth)
        downs = copy_streams(self._backend, device, min(depth, _DRAINS))
        self.feed = ThreadedFeed(self._chunks(), Router(self._backend, device, None), depth, streams, is_stable=True)
        self._site = checks.user_site()
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
        checks.inherited.site = self._site
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
        for thread in self._live_threads:
            thread.join(_END_S)

    @property
    def _live_threads(self) -> list[OwnThread]:
        return [thread for thread in self._threads if thread.ident is not None]

    def _end_threads(self) -> None:
        for _ in self._threads:
            self._waiting.put(None)

    def close(self) -> None:
        """End every thread, after the results that are in flight."""
        self._end_threads()
        for thread in self._live_threads:
            thread.join()
        self._room.release()
        self.feed.close(waits=True)


@process.register
def _abandon_all() -> None:
    """End every device's threads: at the interpreter's end one in a library's C++ frames would abort the process."""
    for station in process.list_living(_stations):
        station.abandon()


# The chunks of a call that this process computes: each device's station in turn, for the calling thread.

_ALONE = 2
"""`sys.getrefcount` of a dict's value that nothing else refers to: the dict and the call's argument."""

_ALIASED = 4096
"""Processors take a load for dependent on an earlier store of the same address modulo this. Two arrays at the same one
are copied without such pairs: 512 KiB from the second-level cache in 25 us, and in 53 if 16 bytes apart (NumPy's
large arrays begin at 16)."""
_ALIGNED = 16
"""Bytes: every dtype may begin at a multiple."""


def chunks_of(low: int, high: int, chunk_rows: int) -> list[tuple[int, int]]:
    """The first row, and the row after the last, of each chunk of some rows."""
    return [(start, min(start + chunk_rows, high)) for start in range(low, high, chunk_rows)]


class InTurn:
    """A CPU, to which chunks are copied, and their results from it, in the calling thread.

    A hand-over between threads takes as long as the copy of a megabyte, and no link works meanwhile. Chunks lie in
    recycled memory: malloc may return the pages of a fresh array in each step, and faults on them take longer than the
    copy. Where the function only reads, rows that a device can hold as they are need no copy.

    Args:
        device, numbers, results: As for `Station`.
        may_alias: Chunks may be the rows of the source themselves.
    """

    def __init__(self, device: Device, numbers: range, results: Results, *, may_alias: bool) -> None:
        self.device = device
        self._may_alias = may_alias
        self._numbers: Iterator[int] = iter(numbers)
        self._results = results
        self._backend = registry.part_of(device)
        self._stream = current_stream(device)  # one stream is like another on a CPU
        self._memory: dict[int, HostArray] = {}
        """The memory of the chunk before, by the number of the source. No array uses it any more if nothing but this
        refers to it."""

    def start(self) -> None:
        """No-op: there is no thread."""

    def next(self) -> Any:
        """Return the next chunk on the device."""
        host = self._results.read(next(self._numbers))
        if type(host) is tuple:
            return tuple(self._move(each, number) for number, each in enumerate(host))
        return self._move(host, 0)

    def _move(self, host: HostArray, number: int) -> Any:
        """A source's chunk on the device."""
        if self._may_alias and (rows := self._rows(host)) is not None:
            return rows
        if host.nbytes >= SMALL_NBYTES and (recycled := self._recycle(host, number)) is not None:
            return transfers.to_device(host, out=recycled)
        return transfers.to_device(host, device=self.device)

    def _rows(self, host: HostArray) -> Array | None:
        """The rows themselves as an array of the device's library; None where they must be put in order."""
        if not (self._holds(host.dtype) and host.flags.c_contiguous and host.flags.aligned):
            return None
        plain = self._backend.plain_arrays
        if plain is not None and plain.array_type is np.ndarray:
            rows = host.view(np.ndarray)
            rows.flags.writeable = False
            return rows
        if not host.flags.writeable:  # another library would write to pages that end the process
            return None
        return self._backend.over(address(host), host.shape, host.dtype, device=self.device, owner=host)

    def _holds(self, dtype: np.dtype[Any]) -> bool:
        return dtype in SUPPORTED and self._backend.plain_arrays is not None

    def _recycle(self, host: HostArray, number: int) -> Array | None:
        """Memory for a chunk, used again once the function refers to it no more; None where there can be none."""
        dtype = in_native_order(host.dtype)
        if not self._holds(dtype):
            return None
        needed = host.nbytes + _ALIASED
        known = self._memory
        if number not in known or known[number].nbytes < needed or sys.getrefcount(known[number]) > _ALONE:
            known[number] = host_cache.empty((max(needed, RECYCLED_FROM),), np.dtype(np.uint8))
        memory, begin = known[number], address(known[number])
        pointer = begin + (address(host) - begin) % _ALIASED // _ALIGNED * _ALIGNED
        return self._backend.over(pointer, host.shape, dtype, device=self.device, owner=memory)

    def give(self, number: int, value: Any) -> None:
        """Store a result."""
        self._results.store(number, self._results.begin(number, value, self._stream)())

    def release(self) -> None:
        """No-op: no thread waits."""

    def close(self) -> None:
        """Free the memory: the next call's chunks may lie there."""
        self._memory.clear()


class ChunkMap:
    """A function over chunks, on the devices of this process.

    Args:
        fn: Called with each chunk on its device, in the calling thread.
        results: Reads chunks and stores results.
        targets: Chunk k goes to device k modulo their number.
        depth: Chunks on each device.
        may_alias: On a device in the host's memory chunks may be the rows of the source themselves.
    """

    def __init__(
        self, fn: Callable[[Any], Any], results: Results, targets: list[Device], depth: int, *, may_alias: bool
    ) -> None:
        self._fn = fn
        self._results = results
        self._targets = targets
        self._depth = depth
        self._may_alias = may_alias
        self._stations: list[Station | InTurn] = []
        results.on_stop = self._release

    def run(self) -> Any:
        """Compute every chunk, and return what the sink has.

        The first error is raised when the results in flight are stored.
        """
        results, count = self._results, len(self._targets)
        try:
            results.report()
            is_in_turn = count == 1 and self._is_in_turn()
            if any(device.kind == "cpu" for device in self._targets):
                let_malloc_recycle()  # also where the function's own arrays come from
            for index, device in enumerate(self._targets):
                numbers = range(index, len(results.spans), count)
                self._stations.append(
                    InTurn(device, numbers, results, may_alias=self._may_alias)
                    if is_in_turn
                    else Station(device, numbers, results, self._depth)
                )
                self._stations[-1].start()
            for number in range(len(results.spans)):
                if results.is_stopped:
                    break
                self._compute(number, self._stations[number % count])
                results.report()
        except BaseException as error:
            results.stop(error)
            raise
        finally:
            with deferred:  # or Ctrl-C might leave threads that nothing ends
                for station in self._stations:
                    station.close()
                results.end()
        if results.error is not None:
            raise results.error
        results.report()
        return results.value

    def _is_in_turn(self) -> bool:
        """Whether threads beside the function would gain nothing: on a device without streams, for chunks in memory
        that are small, or not copied, and where there is one core."""
        results, device = self._results, self._targets[0]
        if not results.spans or results.waits or registry.part_of(device).capabilities.streams:
            return False
        is_alone = self._may_alias or threads.crew().each_way == 1
        return is_alone or sum(leaf.nbytes for leaf in flatten(results.read(0))[0]) <= LARGE_NBYTES

    def _release(self) -> None:
        for station in self._stations:
            station.release()

    def _compute(self, number: int, station: Station | InTurn) -> None:
        try:
            chunk = station.next()
        except StopIteration:
            return  # another thread has failed; its error is raised at the end
        with station.device:
            value = self._fn(chunk)
            del chunk
            if value is None:
                raise UnsupportedArrayError(
                    "stream_map: the function gave None; let it return an array of as many rows, or give reduce"
                )
            station.give(number, value)


class MapRequest(NamedTuple):
    """One call of `xferlib.stream_map`, checked."""

    fn: Callable[[Any], Any]
    """Of a chunk; where there are several sources, of the tuple of their chunks."""
    sources: tuple[Any, ...]
    readers: list[Source]
    out: Any
    sink: Sink
    chunk_rows: int
    devices: list[Any]
    """Specifications, for the process that computes."""
    depth: int
    first: int
    """The row to begin at."""
    progress: Callable[[int, int], Any] | None
    may_alias: bool
    """As for `ChunkMap`."""
    halo: int
    boundary: Any

    @property
    def rows(self) -> int:
        return self.readers[0].rows

    @property
    def reader(self) -> Source:
        return self.readers[0] if len(self.readers) == 1 else Together(self.readers)


def run_here(
    request: MapRequest,
    sink: Sink,
    low: int,
    high: int,
    explain: Callable[[Results, BaseException], Any],
    targets: list[Device] | None = None,
) -> Any:
    """Compute the chunks of some rows in this process, and return what the sink has.

    Args:
        request: The call.
        sink: Where results go.
        low, high: The first row, and the row after the last.
        explain: Called with an error that ends it early.
        targets: The request's devices, if they are known.
    """
    results = Results(request.reader, sink, chunks_of(low, high, request.chunk_rows), request.progress)
    try:
        targets = targets or targets_of(request.devices)
        return ChunkMap(request.fn, results, targets, request.depth, may_alias=request.may_alias).run()
    except BaseException as error:
        explain(results, error)
        raise
