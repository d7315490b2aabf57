"""Objects that copies in flight use, kept alive until the event of their copy completes.

The obvious way is a list behind a lock, swept at each new copy. It fails three times. Asking an event, or dropping an
array, may run a finalizer that starts a transfer, which comes back here: with a plain lock it deadlocks, with a
reentrant one it finds the list half changed. And a sweep of everything costs more the more copies are in flight.

So there is no lock. Entries are in a dict under increasing numbers, and `hold` asks two of them, all in turn: more than
it adds, so completed ones do not pile up, at a constant cost. An entry stays where it is until it has completed, so
neither an error nor Ctrl-C can lose it.

Guaranteed: an object is let go only after its event was seen to be complete, at exit, or in a forked child. It may
live longer: entries are looked at only when the next copy is held. A copy whose event is not yet recorded has no
entry here; `record` and `abandon` cover that gap.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from xferlib._core.raw import Capture
from xferlib._runtime import shutdown
from xferlib._runtime.fork import reset_in_child
from xferlib._runtime.threads import workers

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawEvent, RawStream
    from xferlib._memory.lease import Lease


class _InFlight:
    """Objects that a copy still uses, until its event completes.

    Takes no lock: asking an event may run a finalizer, which may transfer, and wait for other threads.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._numbers = itertools.count()
        self._held: dict[int, tuple[Backend, RawEvent, tuple[Any, ...]]] = {}
        self._turn: Iterator[int] = iter(())
        """The entries that are asked next."""

    def hold(self, backend: Backend, event: RawEvent, *objects: Any) -> None:
        """Keep ``objects`` alive until ``event`` completes; in a capture, as long as its graph exists."""
        if isinstance(event, Capture):
            event.keep(*objects)
            return
        objects = backend.kept(objects, event)
        for _ in range(2):
            number = next(self._turn, None)
            if number is None:
                self._turn = iter(list(self._held))
                number = next(self._turn, -1)
            entry = self._held.get(number)
            if entry is not None and entry[0].event_done(entry[1]):
                self._held.pop(number, None)  # another thread may have asked meanwhile
        self._held[next(self._numbers)] = (backend, event, objects)

    def drain(self) -> None:
        """Wait for every copy that is in flight now."""
        for number in list(self._held):
            entry = self._held.get(number)
            if entry is not None:
                entry[0].event_synchronize(entry[1])

    def forget(self) -> None:
        """Release everything, complete or not."""
        self._held.clear()


in_flight = _InFlight()


@shutdown.register
def _let_go() -> None:
    """Free arrays at exit, while the libraries that own them still exist."""
    workers.close()  # nothing is added from then on
    shutdown.await_threads()
    in_flight.forget()


reset_in_child(in_flight._reset)


def hold_pinned(src: HostArray, lease: Lease | None, backend: Backend, event: RawEvent) -> None:
    """Keep the pinned source of a copy in flight, or its block out of the pool, until the event.

    Args:
        lease: The block of the pool that holds ``src``, if one does.
    """
    if lease is None or isinstance(event, Capture):
        in_flight.hold(backend, event, src)
    else:  # a block outlives its array until the event: keeping the array too would hide it from a full pool
        lease.hold(event)


def record(backend: Backend, stream: RawStream) -> RawEvent:
    """Record an event after a copy; if that fails, wait for the copy, so that its memory is never reused early.

    Returns:
        The event; for a stream that is captured its capture, which holds what it is given.
    """
    if stream.capture is not None:
        return stream.capture
    try:
        return backend.event_record(stream, timing=False)
    except BaseException:
        abandon(backend, stream)
        raise


def abandon(backend: Backend, stream: RawStream) -> None:
    """Wait for copies that may be in flight without an event: after an error, or Ctrl-C between the two."""
    if stream.capture is not None:  # nothing is in flight
        return
    if stream.handle and backend.stream_is_recorded(stream):  # by its library, whose recording a wait would spoil
        return
    with contextlib.suppress(Exception):  # a device that is lost copies nothing; the first error is the one to tell
        backend.stream_synchronize(stream)
