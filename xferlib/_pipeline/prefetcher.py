"""`Prefetcher`: the iterator that `prefetch` makes, over one feed for each iteration."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from xferlib._core.ordering.bound import ProcessBound
from xferlib.errors import ClosedError

if TYPE_CHECKING:
    from xferlib._pipeline.feed import Feed
    from xferlib._pipeline.rotation import Rotation


class Prefetcher(ProcessBound, Iterator[Any]):
    """Batches on a device, made by `prefetch`: an iterator and a context manager.

    Over a list, or anything else that gives its items again, each ``for`` but the first begins anew, and drops what the
    one before has not taken; the first goes on behind what ``next`` has taken. Over an iterator ``for`` goes on with
    the rest; when there is none, it raises ClosedError.

    Dropping the prefetcher ends it, too.
    """

    _elsewhere = "make one there: xferlib.prefetch(batches)"

    def __init__(self, batches: Any, begin: Callable[[], Feed | Rotation]) -> None:
        self._source = type(batches).__name__
        self._again = None if isinstance(batches, Iterator) else (batches, begin)
        """None of an iterator, which ends when the feed lets go of it."""
        self._is_closed = self._has_ended = self._is_iterated = False
        self._taken = 0
        self._use(begin())

    def _use(self, feed: Feed | Rotation) -> None:
        self._feed = feed
        self._finalizer = weakref.finalize(self, feed.close, waits=False)
        self._finalizer.atexit = False
        feed.start()

    def __iter__(self) -> Iterator[Any]:
        if self._again is None:
            if self._has_ended:
                raise ClosedError(
                    f"the prefetcher has handed out all {self._taken} batches of its iterator, which gives nothing "
                    "twice; give prefetch a list or a DataLoader, or call it anew for each epoch"
                )
            return self
        if (self._is_iterated or self._has_ended) and not self._is_closed:
            self._restart(self._again[1])
        self._is_iterated = True
        return _Iteration(self, self._feed)

    def _restart(self, begin: Callable[[], Feed | Rotation]) -> None:
        self._feed.close(waits=True)
        self._finalizer.detach()
        self._has_ended, self._taken = False, 0
        self._use(begin())

    def __next__(self) -> Any:
        try:
            batch = self._feed.next()
        except BaseException as error:
            self._has_ended = isinstance(error, StopIteration)
            if self._feed.has_ended:  # nothing is left to close, and an error that the caller keeps would keep the feed
                self._finalizer.detach()
            del self  # the error may be part of a cycle, and its traceback keeps this frame
            raise
        self._taken += 1
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

    def __enter__(self) -> Prefetcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        taken = f"{self._taken} batch{'es' * (self._taken != 1)} taken"
        state = "closed" if self._is_closed else "ended" if self._has_ended else taken
        return f"<Prefetcher over {self._source}, {state}>"


class _Iteration(Iterator[Any]):
    """One iteration of a prefetcher over a source that gives its items again."""

    __slots__ = ("_feed", "_prefetcher")

    def __init__(self, prefetcher: Prefetcher, feed: Feed | Rotation) -> None:
        self._prefetcher = prefetcher
        self._feed = feed

    def __next__(self) -> Any:
        if self._prefetcher._feed is not self._feed:
            raise ClosedError(
                "a later iteration of this prefetcher has begun anew; make one with prefetch for each loop"
            )
        try:
            return next(self._prefetcher)
        except BaseException:
            del self  # as in `Prefetcher.__next__`
            raise
