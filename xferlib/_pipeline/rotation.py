"""The batches of one source for several devices in turn: batch n goes to device n modulo their number.

Each device has a feed of its own, which copies ahead on its own link. A list is cut into one for each. The items of any
other source are dealt to the feeds' threads in turn by a `Dealer`.

Guaranteed: batches come in the source's order. The feed of the next one is found from what all have handed out, so that
neither an error nor Ctrl-C can put them out of step.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from xferlib._runtime import shutdown
from xferlib._runtime.handoff import Handed

if TYPE_CHECKING:
    from xferlib._pipeline.feed import Feed


class Dealer(Handed):
    """Deals the items of an iterator to threads, each of which asks for its own in turn.

    A thread that asks again has done with the item before, as `reader_feed` has it, and only then is the next one read:
    the source may fill the same memory again and again.

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
            self._source = None
            self._changed.notify_all()


class Rotation:
    """The feeds of several devices, asked in turn.

    Args:
        feeds: One for each device.
        dealer: Deals their items; None where each has a list.
    """

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
        number = min(range(count), key=lambda index: self._feeds[index].taken * count + index)
        return self._feeds[number]

    def next(self) -> Any:
        """Return the next batch, as `Feed.next` does."""
        if self._is_forked:
            return self._feeds[0].next()  # which refuses
        shutdown.gate()
        with self._turn:
            return self._front.next()

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
