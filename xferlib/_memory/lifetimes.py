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
import ctypes
import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from xferlib import _native
from xferlib._core.device import Capture
from xferlib._runtime import process
from xferlib._runtime.process import reset_in_child
from xferlib._runtime.threads import Handed, workers

if TYPE_CHECKING:
    from xferlib._core.arrays import HostArray
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, PinnedBlock, RawEvent, RawStream


# Objects that the backends of one pinned domain share, as they share the memory: a pool, registrations, rings.

T = TypeVar("T")


class _Shared(Generic[T]):
    """Objects by key, each made at the first need; a forked child begins with none.

    Attributes:
        made: The objects by key.
    """

    def __init__(self) -> None:
        self._reset()
        reset_in_child(self._reset)

    def _reset(self) -> None:
        self.made: dict[Any, T] = {}
        self._lock = threading.RLock()  # reentrant: a finalizer may run inside

    def _make_once(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            found = self.made.get(key)  # another thread may have made it meanwhile
            if found is None:
                found = self.made[key] = make()
        return found

    def all(self) -> tuple[T, ...]:
        """Return those that exist; other threads may make more meanwhile."""
        return tuple(self.made.values())


class PerDomain(_Shared[T]):
    """One object for each pinned domain.

    Args:
        make: Makes the object of a backend's domain.
    """

    def __init__(self, make: Callable[[Backend], T]) -> None:
        super().__init__()
        self._make = make

    def of(self, backend: Backend) -> T:
        """Return the object of a backend's domain."""
        found = self.made.get(backend.pinned_domain)
        return found if found is not None else self._make_once(backend.pinned_domain, lambda: self._make(backend))


class PerDevice(_Shared[T]):
    """One object for each device, whichever backends use it.

    Args:
        make: Makes the object of a device; the backend is the first to use it.
    """

    def __init__(self, make: Callable[[Backend, Device], T]) -> None:
        super().__init__()
        self._make = make

    def of(self, backend: Backend, device: Device) -> T:
        """Return the object of a device of ``backend``."""
        key = (backend.pinned_domain, device.index)
        found = self.made.get(key)
        return found if found is not None else self._make_once(key, lambda: self._make(backend, device))


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
        """Keep ``objects`` alive until ``event`` completes; in a capture, as long as its graph exists.

        None is nothing to keep: a copy that keeps nothing has no entry, which would wait for the next copy.
        """
        if isinstance(event, Capture):
            event.keep(*objects)
            return
        objects = backend.select_retained(objects, event)
        for _ in range(2):
            number = next(self._turn, None)
            if number is None:
                self._turn = iter(list(self._held))
                number = next(self._turn, -1)
            entry = self._held.get(number)
            if entry is not None and entry[0].event_done(entry[1]):
                self._held.pop(number, None)  # another thread may have asked meanwhile
        for each in objects:
            if each is not None:
                self._held[next(self._numbers)] = (backend, event, objects)
                return

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


@process.register
def _let_go() -> None:
    """Free arrays at exit, while the libraries that own them still exist."""
    workers.close()  # nothing is added from then on
    process.await_threads()
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


# A block of the pinned pool, and its lease: the object that the arrays over it keep alive.
#
# NumPy makes an array over a buffer in a tenth of the time that ``__array_interface__`` takes, so a lease is one: an
# object of `lease.c`, or a ctypes array where that is not compiled. `xferlib._memory.pinned` has the rules of both.


class PooledBlock(Handed):
    """A block of the pool, and the events of copies that use it.

    Args:
        memory: The block.
        nbytes: Its bytes, as the pool counts them.
        lock: The pool's.
        backend: Knows whether an event is complete.
    """

    __slots__ = ("backend", "events", "lock", "many", "memory", "nbytes", "pointer", "user")

    def __init__(self, memory: PinnedBlock, nbytes: int, lock: threading.RLock, backend: Backend) -> None:
        self.memory = memory
        self.nbytes = nbytes
        self.pointer = memory.pointer
        self.lock = lock
        self.backend = backend
        self.events: list[RawEvent] = []
        self.many = 1
        """Prune completed events once the list grows past this length (doubles each time)."""
        self.user: weakref.ref[Lease] | None = None
        """Its lease; None while it drains or is free, and after it was dropped."""


class Lease:
    """A pinned block while arrays use it; back to the pool when the last of them dies.

    An instance is of a subclass, which is a buffer besides.
    """

    __slots__ = ()

    _block: PooledBlock

    @property
    def block(self) -> PinnedBlock:
        return self._block.memory

    @property
    def nbytes(self) -> int:
        return self._block.nbytes

    @property
    def events(self) -> list[RawEvent]:
        return self._block.events

    def hold(self, event: RawEvent) -> None:
        """Do not recycle the block until ``event`` completes, even if its arrays are collected first; thread-safe.

        Re-recording an event already held extends the hold.
        """
        is_done = self._block.backend.event_done
        with self._block.lock:
            events = self.events
            if event in events:
                return
            if len(events) == 1:  # as a rule: of a block that is sent again and again
                first = events[0]
                if is_done(first) and events == [first]:  # which may have run a finalizer
                    events[0] = event
                    return
            events.append(event)
            if len(events) > self._block.many:
                complete = {id(each) for each in events[:-1] if is_done(each)}
                events[:] = [each for each in events if id(each) not in complete]
                self._block.many = 2 * len(events)


@functools.cache
def load_lease_type() -> Any:
    """The type of compiled leases, of blocks of any size."""
    return type("Lease", (Lease, _native.lease_type()), {"__slots__": ()})


@functools.lru_cache(maxsize=1024)
def lease_type(nbytes: int) -> Any:
    """The type of leases that are not compiled."""
    return type("Lease", (Lease, ctypes.c_char * nbytes), {})
