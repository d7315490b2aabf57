"""Happens-before edges between host threads, for the simulator's race detector.

A queue or a latch orders two threads, but nothing outside Python can see it. A thread that hands over an object
publishes here what it has done so far (`given`), and the thread that takes the object over joins that (`taken`); the
edge is kept on the object, as ``thing.handover``. On real devices nobody listens, and a call is one look at `listener`.
"""

from __future__ import annotations

from typing import Any, Protocol


class ThreadListener(Protocol):
    """Follows which thread's work happens before which other's."""

    def began(self) -> None:
        """The calling thread is one of xferlib's own."""

    def ended(self) -> None:
        """The calling thread, one of xferlib's own, is about to end."""

    def given(self, before: Any) -> Any:
        """Return what to keep beside an object that is handed over; ``before``: what is kept there already."""

    def taken(self, kept: Any) -> None:
        """The calling thread has taken over the object beside which ``kept`` lay."""


listener: ThreadListener | None = None


def began() -> None:
    """The calling thread does work that other threads give it."""
    if listener is not None:
        listener.began()


def ended() -> None:
    """The calling thread, which has called `began`, is about to end."""
    if listener is not None:
        listener.ended()


def given(thing: Any) -> None:
    """Publish: everything this thread did happens before what a taker of ``thing`` does next."""
    if listener is not None:
        thing.handover = listener.given(thing.handover)


def taken(thing: Any) -> None:
    """Join: what the givers of ``thing`` did happens before what this thread does next."""
    if listener is not None:
        listener.taken(thing.handover)
