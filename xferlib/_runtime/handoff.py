"""Things that threads hand to each other, and the library's own threads.

A queue, a lock or a latch orders two threads, but nothing outside Python can see it, and a race detector must know. The
obvious way is a call to the detector beside each of them, which every author of a queue has to remember. So the calls
are in what threads are handed: a `Handed` thing, a `HandoffQueue`, an `OwnThread`, and the latch of a `jobs.Job`.

What a thread does before `hand_on` happens-before what another does after `take_over`. Where several hand a thing on,
all of them do. On real devices there is no listener (`happens_before`), and a call is one look at it.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from xferlib._runtime import happens_before

if TYPE_CHECKING:
    from queue import SimpleQueue

T = TypeVar("T")


def is_followed() -> bool:
    """Whether a race detector learns what threads hand to each other."""
    return happens_before.listener is not None


class Handed:
    """Something that threads use one after the other."""

    __slots__ = ("_mark",)

    _mark: object

    def hand_on(self) -> None:
        """Let another thread have it: to be called before that can see it."""
        if happens_before.listener is not None:
            self._mark = happens_before.listener.given(getattr(self, "_mark", None))

    def take_over(self) -> None:
        """Go on with it: to be called before it is used."""
        if happens_before.listener is not None:
            happens_before.listener.taken(getattr(self, "_mark", None))

    def follow(self, user: T, dead: deque[Death[T]]) -> Death[T]:
        """Hand it on when its user dies, in whichever thread; returns a reference that ``dead`` then receives.

        The death runs a C function, so that Ctrl-C comes before or after it: raised in Python it would be swallowed.
        """
        if happens_before.listener is None:
            reference = Death(user, dead.append)
        else:

            def died(reference: weakref.ref[T]) -> None:
                self.hand_on()
                dead.append(cast("Death[T]", reference))

            reference = Death(user, died)
        reference.thing = self
        return reference


class Death(weakref.ref[T]):
    """A reference to the user of a thing, which tells the thing after the user's death."""

    __slots__ = ("thing",)

    thing: Handed


class HandoffQueue(Generic[T]):
    """A queue between threads."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        from queue import SimpleQueue  # here, for programs that only copy

        self._entries: SimpleQueue[tuple[T, Handed]] = SimpleQueue()

    def put(self, item: T) -> None:
        handed = Handed()
        handed.hand_on()
        self._entries.put((item, handed))

    def get(self) -> T:
        """Wait for the oldest item, and remove it."""
        item, handed = self._entries.get()
        handed.take_over()
        return item

    def clear(self) -> None:
        """Remove all that are there."""
        from queue import Empty

        try:
            while True:
                self._entries.get_nowait()
        except Empty:
            return


class OwnThread(threading.Thread):
    """A daemon thread of the library's own, which the simulator orders by what it is handed alone."""

    def __init__(self, work: Callable[[], object], name: str) -> None:
        super().__init__(target=work, name=name, daemon=True)

    def run(self) -> None:
        listener = happens_before.listener
        if listener is not None:
            listener.began()
        try:
            super().run()
        finally:
            if listener is not None:
                listener.ended()
