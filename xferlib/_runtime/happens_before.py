"""Happens-before edges between host threads, for the simulator's race detector.

A queue or a latch orders two threads, but nothing outside Python can see it. A thread that hands over an object
publishes here what it has done so far (`given`), and the thread that takes the object over joins that (`taken`); the
edge is kept on the object, as ``thing.handover``. On real devices `listener` is None, and a call is one look at it.
"""

from __future__ import annotations

from typing import Any, Protocol


class ThreadListener(Protocol):
    """Records which thread's work happens-before which other's."""

    def began(self) -> None:
        """Note that the calling thread is one of xferlib's own."""

    def ended(self) -> None:
        """Note that the calling thread, one of xferlib's own, is about to end."""

    def given(self, before: Any) -> Any:
        """Return the mark to keep on an object that is handed over; ``before``: the mark that it has already."""

    def taken(self, kept: Any) -> None:
        """Note that the calling thread has taken over the object with the mark ``kept``."""


listener: ThreadListener | None = None


def began() -> None:
    """Note that the calling thread is one of xferlib's own, and does work that other threads give it."""
    if listener is not None:
        listener.began()


def ended() -> None:
    """Note that the calling thread, which has called `began`, is about to end."""
    if listener is not None:
        listener.ended()


def given(thing: Any) -> None:
    """Publish: everything this thread did happens-before whatever the consumer of ``thing`` does next."""
    if listener is not None:
        thing.handover = listener.given(thing.handover)


def taken(thing: Any) -> None:
    """Join: everything that the producers of ``thing`` did happens-before what this thread does next."""
    if listener is not None:
        listener.taken(thing.handover)
