"""What copies in flight use: it lives until their events have passed, whatever becomes of the handles."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

from xferlib._runtime import shutdown
from xferlib._runtime.fork import reset_in_child
from xferlib._runtime.threads import workers

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawEvent, RawStream
    from xferlib._memory.pinned import Lease


class _InFlight:
    """Objects that a copy still uses, until its event has passed.

    Takes no lock: asking an event may run a finalizer, which may transfer, and wait for other threads.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._numbers = itertools.count()
        self._held: dict[int, tuple[Backend, RawEvent, tuple[Any, ...]]] = {}

    def hold(self, backend: Backend, event: RawEvent, *objects: Any) -> None:
        objects = backend.kept(objects, event)
        # Two for each that is added: all are asked in turn, at a cost that does not grow with their number.
        for number in list(itertools.islice(self._held, 2)):
            entry = self._held.get(number)
            if entry is None:
                continue
            again = -1  # held anew before it is let go, whatever interrupts this thread
            if not entry[0].event_done(entry[1]):
                again = next(self._numbers)
                self._held[again] = entry
            if self._held.pop(number, None) is None:  # another thread has asked meanwhile, and holds it if need be
                self._held.pop(again, None)
        self._held[next(self._numbers)] = (backend, event, objects)

    def drain(self) -> None:
        """Wait for every copy that is in flight now."""
        for number in list(self._held):
            entry = self._held.get(number)
            if entry is not None:
                entry[0].event_synchronize(entry[1])

    def forget(self) -> None:
        """Let go of everything."""
        self._held.clear()


in_flight = _InFlight()


@shutdown.register
def _let_go() -> None:
    """The interpreter ends: arrays are freed while the libraries that own them are still there."""
    workers.close()  # nothing is added from then on
    shutdown.await_threads()
    in_flight.forget()


reset_in_child(in_flight._reset)


def hold_pinned(src: HostArray, lease: Lease | None, backend: Backend, event: RawEvent) -> None:
    """Keep the pinned source of a copy in flight, or its block out of the pool, until the event.

    Args:
        lease: The block of the pool that holds ``src``, if one does.
    """
    if lease is None:
        in_flight.hold(backend, event, src)
    else:  # a block outlives its array until the event: keeping the array too would hide it from a full pool
        lease.hold(event)


def record(backend: Backend, stream: RawStream) -> RawEvent:
    """An event after a copy; if that fails the copy is waited for, so that its memory is never reused early."""
    try:
        return backend.event_record(stream, timing=False)
    except BaseException:
        backend.stream_synchronize(stream)
        raise


def abandon(backend: Backend, stream: RawStream) -> None:
    """Wait for copies that may be under way and that no event marks: Ctrl-C struck between the two."""
    with contextlib.suppress(Exception):  # a device that is lost copies nothing; the first error is the one to tell
        backend.stream_synchronize(stream)
