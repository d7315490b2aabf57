"""`prefetch`: the next batches are copied while the consumer works on the one before."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import GeneratorType, TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import numpy as np

from xferlib import _native
from xferlib._core import registry, streams
from xferlib._core.streams import ProcessBound, Stream
from xferlib._core.thresholds import LARGE_NBYTES
from xferlib._core.trees import flatten
from xferlib._pipeline.batches import Router, SideStreamUploader
from xferlib._pipeline.feeds import CopyStreams, ListFeed, ThreadedFeed, targets_of
from xferlib._pipeline.readers import Readers, count_workers, make_batches
from xferlib._pipeline.rows import has_rows
from xferlib._runtime import process
from xferlib._runtime.checks import MOST_AHEAD, has, refuse_keyword, whole
from xferlib._runtime.threads import Handed, iterate_in_task
from xferlib._transfer import describe, plan
from xferlib._transfer.describe import HostEnd
from xferlib.errors import ArgumentError, ClosedError, UnsupportedArrayError, quote

if TYPE_CHECKING:
    from typing import Never

    from xferlib._api.device_array import DeviceArray
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, DeviceSpec, RawStream
    from xferlib._pipeline.feeds import Feed


Batch_co = TypeVar("Batch_co", covariant=True)
R = TypeVar("R")

# `Prefetcher`: the iterator that `prefetch` makes, over one feed for each iteration.

if TYPE_CHECKING:

    class _ReadBatches:
        """`_native.batches_type`."""

        _reader: Any
else:
    _ReadBatches = _native.batches_type()


class Prefetcher(ProcessBound, _ReadBatches, Iterator[Batch_co]):
    """Batches on a device, made by `prefetch`: an iterator and a context manager.

    Over a list, or anything else that gives its items again, each ``for`` but the first begins anew, and drops what the
    one before has not taken; the first goes on behind what ``next`` has taken. Over an iterator ``for`` goes on with
    the rest; when there is none, it raises ClosedError.

    ``async for`` takes the batches in a task of asyncio: threads wait for them and read the source, one at a time.
    Dropping the prefetcher ends it, too.
    """

    _elsewhere = "make one there: xferlib.prefetch(batches)"

    def __init__(self, batches: Any, begin: Callable[[], Feed | Rotation]) -> None:
        self._source = type(batches).__name__
        is_iterator = type(batches) is GeneratorType or (type(batches) is not list and isinstance(batches, Iterator))
        self._again = None if is_iterator else (batches, begin)
        """None of an iterator, which ends when the feed lets go of it."""
        self._is_closed = self._has_ended = self._is_iterated = self._is_over = False
        self._use(begin())

    def _use(self, feed: Feed | Rotation) -> None:
        self._feed = feed
        self._reader = feed.reader
        feed.start()

    def __del__(self) -> None:
        if hasattr(self, "_feed") and not self._is_over:  # else it was never made
            self._feed.close(waits=False)

    def __iter__(self) -> Iterator[Batch_co]:
        if self._again is None:
            if self._is_at_end:
                raise ClosedError(
                    f"the prefetcher has handed out all {self._feed.count} batches of its iterator, which gives "
                    "nothing twice; give prefetch a list or a DataLoader, or call it anew for each epoch"
                )
            return self
        if (self._is_iterated or self._is_at_end) and not self._is_closed:
            self._restart(self._again[1])
        self._is_iterated = True
        return _Iteration(self, self._feed)

    @property
    def _is_at_end(self) -> bool:
        return self._has_ended or (self._reader is not None and self._reader.has_ended)

    def __aiter__(self) -> AsyncIterator[Batch_co]:
        return iterate_in_task(self)

    def _restart(self, begin: Callable[[], Feed | Rotation]) -> None:
        self._feed.close(waits=True)
        self._has_ended = False
        self._use(begin())

    if TYPE_CHECKING:

        def __next__(self) -> Batch_co: ...

    def _take(self) -> Batch_co:
        try:
            batch: Batch_co = self._feed.next()
        except BaseException as error:
            self._has_ended = isinstance(error, StopIteration)
            del self  # the error may be part of a cycle, and its traceback keeps this frame
            raise
        return batch

    def __len__(self) -> int:
        """The number of batches of a whole iteration.

        Raises:
            TypeError: The source has no length.
        """
        if self._again is None or not hasattr(type(self._again[0]), "__len__"):
            raise TypeError(f"a prefetcher over {self._source} has no len(); give prefetch a list of batches")
        return len(self._again[0])

    def __bool__(self) -> bool:
        return True  # as any iterator, of an empty list as well

    def close(self) -> None:
        """Take nothing more from the source, and drop the batches in flight.

        When it returns, no copy reads the source's arrays, and the thread that read ahead has ended. If that
        thread waits inside the source, or for the device to finish your work, it ends as soon as that returns.
        """
        self._is_closed = True
        self._feed.close(waits=True)
        self._is_over = True

    def __enter__(self) -> Prefetcher[Batch_co]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        count = self._feed.count
        taken = f"{count} batch{'es' * (count != 1)} taken"
        state = "closed" if self._is_closed else "ended" if self._is_at_end else taken
        return f"<Prefetcher over {self._source}, {state}>"


class _Iteration(_ReadBatches, Iterator[Any]):
    """One iteration of a prefetcher over a source that gives its items again."""

    __slots__ = ("_feed", "_prefetcher")

    def __init__(self, prefetcher: Prefetcher[Any], feed: Feed | Rotation) -> None:
        self._prefetcher = prefetcher
        self._feed = feed
        self._reader = feed.reader

    if TYPE_CHECKING:

        def __next__(self) -> Any: ...

    def _take(self) -> Any:
        if self._prefetcher._feed is not self._feed:
            raise ClosedError(
                "a later iteration of this prefetcher has begun anew; make one with prefetch for each loop"
            )
        try:
            return next(self._prefetcher)
        except BaseException:
            del self  # as in `Prefetcher._take`
            raise


# The batches of one source for several devices in turn: batch n goes to device n modulo their number.
#
# Each device has a feed of its own, which copies ahead on its own link. A list is cut into one for each. The items of
# any other source are dealt to the feeds' threads in turn by a `Dealer`.
#
# Guaranteed: batches come in the source's order. The feed of the next one is found from what all have handed out, so
# that neither an error nor Ctrl-C can put them out of step.


class Dealer(Handed):
    """Deals the items of an iterator to threads, each of which asks for its own in turn.

    A thread that asks again has done with the item before, as `ThreadedFeed` has it, and only then is the next one
    read: the source may fill the same memory again and again.

    Args:
        source: Read by one thread at a time.
        count: The number of threads.
    """

    def __init__(self, source: Iterator[Any], count: int) -> None:
        self._source: Iterator[Any] | None = source
        self._count = count
        self._next = 0
        """The thread that gets the next item."""
        self._is_busy = False
        """Whether the thread before has not come back."""
        self._changed = threading.Condition()
        self.hand_on()

    def part(self, number: int) -> Iterator[Any]:
        """The items of one thread; when it wants no more, none gets any."""
        try:
            while (source := self._await_turn(number)) is not None:
                try:
                    item = next(source)
                except StopIteration:
                    return
                with self._changed:
                    self._next, self._is_busy = (number + 1) % self._count, True
                yield item
                del item
        finally:
            self.close()

    def _await_turn(self, number: int) -> Iterator[Any] | None:
        """Return the source when a thread may read it; None when there is nothing more."""
        with self._changed:
            if self._is_busy and self._next == (number + 1) % self._count:  # it is back
                self._is_busy = False
                self.hand_on()
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._source is None or (self._next == number and not self._is_busy))
            self.take_over()
            return self._source

    def close(self) -> None:
        """Deal nothing more: threads that wait for an item find that there is none."""
        with self._changed:
            if isinstance(self._source, Readers):
                self._source.close()
            self._source = None
            self._changed.notify_all()


class Rotation:
    """The feeds of several devices, asked in turn.

    Args:
        feeds: One for each device.
        dealer: Deals their items; None where each has a list.
    """

    reader = None
    """C hands out the batches of one device alone."""

    def __init__(self, feeds: list[Feed], dealer: Dealer | None) -> None:
        self._feeds = feeds
        self._dealer = dealer
        self._pid = os.getpid()
        self._turn = threading.RLock()  # reentrant, as that of a feed

    def start(self) -> None:
        """Begin to read ahead, as `Feed.start` does."""
        for feed in self._feeds:
            feed.start()

    @property
    def _is_forked(self) -> bool:
        return self._pid != os.getpid()

    @property
    def _front(self) -> Feed:
        """The feed of the next batch."""
        count = len(self._feeds)
        number = min(range(count), key=lambda index: self._feeds[index].count * count + index)
        return self._feeds[number]

    def next(self) -> Any:
        """Return the next batch, as `Feed.next` does."""
        if self._is_forked:
            return self._feeds[0].next()  # which refuses
        process.gate()
        with self._turn:
            return self._front.next()

    @property
    def count(self) -> int:
        """The number of batches handed out."""
        return sum(feed.count for feed in self._feeds)

    @property
    def has_ended(self) -> bool:
        """Whether the source has ended and every batch has been handed out."""
        return self._front.has_ended

    def close(self, *, waits: bool) -> None:
        """Take nothing more from the source, and drop the batches in flight, as `Feed.close` does."""
        if self._is_forked:  # the parent's threads may have held the locks
            return
        if self._dealer is not None:
            self._dealer.close()
        for feed in self._feeds:
            feed.close(waits=False)
        for feed in self._feeds if waits else ():
            feed.close(waits=True)


_COLUMN_LEAST = 256
"""Rows from which arrays of differing kinds in a tuple are taken for the columns of a data set."""


class Numbered(Protocol):
    """A data set that gives items, or rows, by their numbers."""

    def __len__(self) -> int: ...
    def __getitem__(self, number: Any, /) -> Any: ...


@overload
def prefetch(
    batches: Iterable[Any] | Numbered, *, depth: int = 2, device: DeviceSpec = None,
    transform: Callable[[Any], R], stream: Any = None, devices: Any = None,
    batch_size: int | None = None, workers: int | None = None,
) -> Prefetcher[R]: ...  # fmt: skip
@overload
def prefetch(
    batches: DeviceArray, *, depth: int = 2, device: DeviceSpec = None,
    transform: None = None, stream: Any = None, devices: Any = None,
    batch_size: int, workers: int | None = None,
) -> Prefetcher[DeviceArray]: ...  # fmt: skip
@overload
def prefetch(
    batches: tuple[DeviceArray, DeviceArray], *, depth: int = 2, device: DeviceSpec = None,
    transform: None = None, stream: Any = None, devices: Any = None,
    batch_size: int, workers: int | None = None,
) -> Prefetcher[tuple[DeviceArray, DeviceArray]]: ...  # fmt: skip
@overload
def prefetch(
    batches: Iterable[Any] | Numbered, *, depth: int = 2, device: DeviceSpec = None,
    transform: None = None, stream: Any = None, devices: Any = None,
    batch_size: int | None = None, workers: int | None = None,
) -> Prefetcher[Any]: ...  # fmt: skip
def prefetch(
    batches: Any,
    *,
    depth: int = 2,
    device: DeviceSpec = None,
    transform: Callable[[Any], Any] | None = None,
    stream: Any = None,
    devices: Any = None,
    batch_size: int | None = None,
    workers: int | None = None,
    **unknown: Never,
) -> Prefetcher[Any]:
    """Iterate over batches as device arrays; the next ones are copied while you work on this one.

    Each batch is ordered on the stream that is current when it is taken: that stream waits for the
    copy, the host does not. The order is the source's. An error of the source is raised after every batch
    that came before it, and again at the next ``next``; a batch that cannot be copied (for want of memory,
    or because no device holds its dtype) is tried again then, so that none is lost. Ctrl-C is raised at once;
    the next ``next`` goes on from there, perhaps without the batch that was about to be handed out.

    The arrays of a list or tuple must not be changed up to ``depth`` batches ahead, and pinned ones not before their
    copy is made: copies run ahead of you. The host reads arrays of any kind of memory, managed memory too, so that a
    kernel or an asynchronous copy that still writes to one must be waited for first.

    Any other iterable is read one item after the other: each has been copied before the next is read, so that a
    generator may fill the same array again and again. A thread reads it ahead
    where that gains time: where items are large, or reading them, or the device, takes as long as your own work.
    Ctrl-C that strikes in a generator which your thread reads ends it, and is raised again at the next ``next``.
    Arrays of up to 1 MiB, those of a generator of up to 4 MiB (32 MiB on two cores and more), and
    trees of up to 2 MiB are copied on your own stream when their turn comes, since that takes less time than
    ordering two streams; the next array of a list is brought into pinned memory while you work, and one of up to 4
    MiB is copied so as long as the device keeps up. Up to three larger arrays of up to 2 MiB each, 32 MiB on two
    cores and more, and pinned ones of a list from 1 MiB on, are copied on another stream into memory that belongs to
    yours.

    Args:
        batches: Iterable of arrays, or of trees of them as `xferlib.tree.to_device` takes them,
            in any host memory, of any shapes and dtypes; other leaves stay as they are. A torch
            ``DataLoader`` is one. ``iter`` is called once for each iteration. A tuple of arrays that differ in kind,
            and all have the same 256 rows or more, is refused: it is a data set, not batches.
        depth: Batches ahead of the one that you work on; at least 1. The device holds ``depth + 1``
            batches, and one more while a loop variable still holds the one before.
        device: The target; the current device if omitted.
        devices: Several targets: batch n goes to device n modulo their number, and each has ``depth`` batches ahead.
            ``zip(batches, batches)`` over one iterator of two devices gives a batch for each at a time.
        transform: Called with each batch *on the device*; its result is handed out: for instance
            ``uint8`` to ``float32``, so that the link carries the smaller type. It runs ahead as well, on
            the stream of the copies and in the thread that reads, where the library's operations follow a
            stream; on PyCUDA it runs when the batch is handed out. For work on the host give
            ``map(function, batches)``.
        batch_size: Makes batches of rows or of items: batch n has those from ``n * batch_size`` on. The rows of an
            array, a memory map, a zarr or h5py array, or a tree of them with as many rows each, such as ``(X, y)``, are
            cut. The items of a list, of an object with ``[]`` and ``len()``, such as a torch ``Dataset``, or of any
            other iterable are stacked on the host: arrays, numbers, or trees of them, which are alike; of other leaves
            a batch has a list.
        workers: Threads that read items by their numbers, several at a time, of a data set whose ``[]`` decodes a
            picture, or of rows that are cut from files. Items come in their order, ``depth + workers`` of them are
            ahead on the host, and an error is raised in its item's place. One thread reads if omitted.
        stream: Carries the copies; streams of the prefetcher's own if omitted.

    Returns:
        An iterator that is also a context manager: `Prefetcher.close` ends it early. Over a list, a ``DataLoader`` or
        anything else that gives its items again, each ``for`` begins anew, and ``len`` is the source's; over an
        iterator a ``for`` goes on with the rest, and raises ClosedError when there is none.

    Raises:
        ArgumentError: ``depth``, ``batch_size`` or ``workers`` is no whole number from 1, or ``transform`` no function;
            or there are workers for items without numbers; or ``devices`` are none, or
            given with ``device``, or several with a stream.
        UnsupportedArrayError: ``batches`` is no iterable, or one batch instead of several, or a data set's columns.
        DeviceNotFoundError, StreamError: There is no such device, or the stream is of another one.
    """
    if unknown:
        refuse_keyword("prefetch", unknown)
    ahead = depth if type(depth) is int else whole(depth, least=1)
    if ahead is None or not 1 <= ahead <= MOST_AHEAD:
        raise ArgumentError(
            f"prefetch: depth={quote(depth)} is not a whole number from 1 to {MOST_AHEAD}; 2 suits most loops"
        )
    if transform is not None and not callable(transform):
        raise ArgumentError(f"prefetch: transform is {type(transform).__name__}, not a function of a batch")
    given_batches: Any = batches
    if batch_size is not None:
        batches = make_batches(batches, batch_size)
    elif type(batches) is not list and type(batches) is not GeneratorType:
        _refuse_single(batches)
        _refuse_columns(batches)
    threads = count_workers(workers, batches, given_batches) if workers is not None else 0
    targets = _targets(device, devices, stream)
    for target in targets:
        part = registry.part_of(target)
        part.attach(target)
        streams.refuse_current("prefetch", part, target)
    given = describe.raw_stream(stream, targets[0]) if stream is not None else None

    def begin() -> Feed | Rotation:
        items: Any = batches if not threads and (type(batches) is list or type(batches) is tuple) else None
        count = len(targets)
        source: Any = items
        if threads:
            source = Readers(batches, threads, ahead * count + threads)
        elif items is None:
            source = iter(batches)
        if count == 1:
            return _feed_of(source, targets[0], ahead, transform, given, is_list=items is not None)
        dealer = Dealer(source, count) if items is None else None
        feeds: list[Feed] = []
        rotation = Rotation(feeds, dealer)
        try:
            for number, target in enumerate(targets):
                share = dealer.part(number) if dealer is not None else items[number::count]
                is_list = items is not None
                feeds.append(_feed_of(share, target, ahead, transform, given, is_list=is_list, is_dealt=not is_list))
        except BaseException:
            rotation.close(waits=False)
            raise
        return rotation

    return Prefetcher(batches, begin)


def _targets(device: Any, several: Any, stream: Any) -> list[Device]:
    """The devices that batches go to."""
    if several is None:
        is_streams = device is None and isinstance(stream, Stream)
        return [stream.device if is_streams else registry.resolve(device)]
    if device is not None:
        raise ArgumentError("prefetch: device and devices are both given; leave one of them out")
    targets = targets_of(several, "prefetch")
    if stream is not None and len(targets) > 1:
        raise ArgumentError(
            f"prefetch: stream is of one device, but devices are {[str(each) for each in targets]!r}; leave stream out"
        )
    return targets


def _feed_of(
    source: Any, target: Device, ahead: int, transform: Callable[[Any], Any] | None, given: RawStream | None,
    *, is_list: bool, is_dealt: bool = False,
) -> Feed:  # fmt: skip
    """The feed of one device, from a list or an iterator: an object with `__next__`, and perhaps nothing else."""
    backend = registry.part_of(target)
    count = ahead + 1
    streams = CopyStreams(backend, target, count, given)
    uploader = SideStreamUploader(backend, target, streams, count) if given is None else None
    router = Router(backend, target, transform, uploader)
    if is_list and not _needs_thread(source, backend, target):
        return ListFeed(source, router, count, streams)
    items = iter(source) if is_list else source
    is_stable = is_list or type(items) is Readers
    return ThreadedFeed(items, router, count, streams, is_stable=is_stable, is_dealt=is_dealt)


def _refuse_single(batches: Any) -> None:
    if isinstance(batches, (str, bytes, Mapping)):
        raise UnsupportedArrayError(
            f"prefetch: batches is {type(batches).__name__}, which is one batch at most; give an iterable of batches, "
            "for instance [batch]"
        )
    if has_rows(batches) and has(batches, "__getitem__"):
        raise UnsupportedArrayError(
            f"prefetch: batches is one array of {batches.shape[0]} rows, {type(batches).__name__}, each of which would "
            "be a batch; give batch_size= as well, or list(x) if each row is a batch"
        )
    is_scalar = has(batches, "ndim") and batches.ndim == 0
    if is_scalar or not (has(batches, "__iter__") or has(batches, "__getitem__")):
        raise UnsupportedArrayError(
            f"prefetch: batches is {type(batches).__name__}, not an iterable of batches; a list, a generator or a "
            "DataLoader is one"
        )


def _refuse_columns(batches: Any) -> None:
    """Refuse ``(X, y)``: a data set's columns, each of which would silently be one batch."""
    if (
        type(batches) is not tuple
        or len(batches) < 2
        or not all(registry.owner_of(each) is not None for each in batches)
    ):
        return
    kinds = {(tuple(each.shape[1:]), str(each.dtype)) for each in batches}
    rows = {each.shape[0] if len(each.shape) else 0 for each in batches}
    if len(rows) == 1 and len(kinds) > 1 and (count := rows.pop()) >= _COLUMN_LEAST:
        raise UnsupportedArrayError(
            f"prefetch: batches is a tuple of {len(batches)} arrays of {count} rows each, which would be "
            f"{len(batches)} batches; give batches of both, as ((X[i:i + 128], y[i:i + 128]) for i in "
            "range(0, len(X), 128)), or a list if each array is a batch"
        )


def _needs_thread(batches: Any, backend: Backend, device: Device) -> bool:
    """Whether beginning a batch takes Python so long that a thread of its own pays."""
    try:
        first = batches[0]
        if type(first) is np.ndarray:
            return _takes_long(first, backend, device)
        return any(_takes_long(leaf, backend, device) for leaf in flatten(first)[0])
    except Exception:  # a batch that is no tree says so when its turn comes, and an empty list has none
        return False


def _takes_long(leaf: Any, backend: Backend, device: Device) -> bool:
    """Whether Python copies a leaf and it is large: it is not pinned, and no C threads stage it."""
    if getattr(leaf, "nbytes", 0) < LARGE_NBYTES:
        return False
    if not isinstance(leaf, np.ndarray) or not backend.capabilities.pinned_memory:
        return True
    end = HostEnd(leaf, describe.choose_dtype(None, leaf.dtype), backend)
    found = plan.of(end, device, is_upload=True, is_blocking=False, may_permute=False, may_cast=False)
    return not (found.path is plan.TransferPath.PINNED or found.is_c)
