"""Notes every operation while a recording is open: an event before it and one after it, and no waiting.

A record is made when the operation is enqueued, and learns the device's times later: when its events are needed again,
or when somebody reads the recording. Nothing is formatted before that.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xferlib import _nvtx, _recording, _site
from xferlib._deviceclock import DeviceClock, Reference
from xferlib._recording import Kind
from xferlib._site import Place

if TYPE_CHECKING:
    from xferlib._device import Device
    from xferlib.backends.base import Backend, RawEvent, RawStream

_SWEEP = 256
"""Records looked at when events run short."""
_HOST = ""
"""The clock of this machine's host, where another is one of a simulated machine."""


class Record:
    """One operation. ``first`` and ``last`` are the events around it until its times are known."""

    __slots__ = (
        "clock",
        "device",
        "domain",
        "end_s",
        "first",
        "host_end_s",
        "host_start_s",
        "is_timed",
        "kind",
        "last",
        "name",
        "nbytes",
        "place",
        "reference",
        "start_s",
        "stream",
        "thread",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        name: str,
        nbytes: int,
        device: str,
        stream: int | str,
        place: Place,
        start_s: float,
        end_s: float,
    ) -> None:
        self.kind = kind
        self.name = name
        self.nbytes = nbytes
        self.device = device
        self.stream = stream
        self.place = place
        self.start_s = self.host_start_s = start_s
        self.end_s = self.host_end_s = end_s
        self.domain = _HOST
        self.thread = ""
        self.clock: DeviceClock | None = None
        self.reference: Reference | None = None
        self.first: RawEvent | None = None
        self.last: RawEvent | None = None
        self.is_timed = True


class Sink:
    """Where the records of one recording go: the latest of them."""

    def __init__(self, keep: int) -> None:
        self.records: deque[Record] = deque(maxlen=keep)
        self.seen = 0
        self.origins: dict[str, float] = {_HOST: time.perf_counter()}
        """Clock to its time when the recording began, or when that clock was first met."""

    def begin(self) -> None:
        """The recording begins now: what was made ready for it does not count."""
        self.origins[_HOST] = time.perf_counter()

    def add(self, record: Record) -> None:
        self.seen += 1
        self.records.append(record)


class EventRecorder:
    """What `xferlib._recording.active` is while a recording is open, for as many as are open at once."""

    def __init__(self) -> None:
        self.sinks: tuple[Sink, ...] = ()
        self._clocks: dict[Device, DeviceClock] = {}
        self._shared: dict[tuple[str, int], DeviceClock] = {}
        self._pending: deque[Record] = deque()
        self._lock = threading.RLock()  # reentrant: a finalizer may run inside
        self._domains: dict[str, Backend] = {}
        """The backends that say themselves what they do, by `pinned_domain`."""

    # --- opening and closing

    def open(self, sink: Sink) -> None:
        with self._lock:
            for domain, backend in self._domains.items():
                sink.origins[domain] = backend.host_s()
            self.sinks += (sink,)

    def close(self, sink: Sink) -> None:
        """``sink`` is told nothing more."""
        with self._lock:
            self.sinks = tuple(each for each in self.sinks if each is not sink)
            if not self.sinks:
                for backend in self._domains.values():
                    backend.report_to(None)
            for clock in tuple(self._shared.values()):
                clock.align()

    def met(self, backend: Backend) -> None:
        domain = backend.pinned_domain
        if domain not in self._domains and backend.report_to(functools.partial(self._reported, domain)):
            with self._lock:
                self._domains[domain] = backend
                for sink in self.sinks:
                    sink.origins[domain] = backend.host_s()

    def prepare(self, backend: Backend, device: Device) -> None:
        """Make the events of a device and look at its clock now rather than at its first operation."""
        if backend.pinned_domain not in self._domains and backend.capabilities.streams:
            self._clock(backend, device)

    def _clock(self, backend: Backend, device: Device) -> DeviceClock:
        found = self._clocks.get(device)
        if found is None:
            with self._lock:
                key = (backend.pinned_domain, device.index)
                if key not in self._shared:
                    self._shared[key] = DeviceClock(backend, device)
                found = self._clocks[device] = self._shared[key]
        return found

    @property
    def uncertainty_s(self) -> float:
        """Of the worst device clock, against the host's."""
        return max((clock.uncertainty_s for clock in tuple(self._shared.values())), default=0.0)

    # --- what shared code says

    def enqueue(
        self, kind: Kind, name: str, nbytes: int, backend: Backend, stream: RawStream, run: Callable[[], Any]
    ) -> Any:
        if backend.pinned_domain in self._domains:
            return run()
        clock = self._clocks.get(stream.device) or self._clock(backend, stream.device)
        if clock.is_short:
            self._reclaim(clock)
        place = _site.place()
        is_profiled = _nvtx.push(name, kind)
        since = time.perf_counter()
        clock.refer(since)
        reference = clock.reference
        first, last = clock.take(), clock.take()
        try:
            with clock.lock(stream.handle):  # or another thread's operation would come between
                first = backend.event_record(stream, timing=True, event=first)
                result = run()
                last = backend.event_record(stream, timing=True, event=last)
        finally:
            if is_profiled:
                _nvtx.pop()
        if result is False:  # the driver did not take it
            clock.give(first, last)
            return result
        record = Record(kind, name, nbytes, clock.label, stream.handle, place, since, time.perf_counter())
        self._await(record, clock, reference, first, last)
        return result

    def _await(self, record: Record, clock: DeviceClock, reference: Reference, first: RawEvent, last: RawEvent) -> None:
        record.thread = threading.current_thread().name
        record.clock, record.reference, record.first, record.last = clock, reference, first, last
        self._pending.append(record)
        self._add(record)

    def on_host(
        self, kind: Kind, name: str, nbytes: int, backend: Backend, device: Device, run: Callable[[], None]
    ) -> None:
        place = _site.place()
        is_profiled = _nvtx.push(name, kind)
        since = time.perf_counter()
        try:
            run()
        finally:
            end = time.perf_counter()
            if is_profiled:
                _nvtx.pop()
        self._add(Record(kind, name, nbytes, device.kind, 0, place, since, end))

    def begin(self, backend: Backend) -> float:
        if backend.pinned_domain in self._domains:
            return backend.host_s()
        return time.perf_counter()

    def called(self, begun: float, backend: Backend, nbytes: int = 0) -> None:
        end = self.begin(backend)
        place, name = _site.user_call()
        record = Record(Kind.CALL, name, nbytes, "host", threading.current_thread().name, place, begun, end)
        if backend.pinned_domain in self._domains:
            record.domain = backend.pinned_domain
        self._add(record)

    def range(self, backend: Backend, stream: RawStream, kind: str, name: str, nbytes: int) -> Callable[[], None]:
        """The program's own work on ``stream`` begins; what is returned is called at its end."""
        place, thread, domain = _site.user_site(), threading.current_thread().name, backend.pinned_domain
        label, begun = stream.device.kind, self.begin(backend)
        if not backend.capabilities.streams:

            def ended() -> None:
                self._add(Record(kind, name, nbytes, label, 0, place, begun, time.perf_counter()))

            return ended
        if domain in self._domains:
            label = f"{label}:{stream.device.index}"
            zero = backend.event_record(
                backend.stream_create(stream.device, non_blocking=True, priority=0), timing=True
            )
            zero_s, before = backend.host_s(), backend.event_record(stream, timing=True)

            def simulated() -> None:
                after = backend.event_record(stream, timing=True)
                start_s, end_s = (zero_s + backend.event_elapsed_ms(zero, each) * 1e-3 for each in (before, after))
                self._reported(domain, kind, name, nbytes, label, stream.handle, start_s, end_s, place)

            return simulated
        clock = self._clock(backend, stream.device)
        if clock.is_short:
            self._reclaim(clock)
        clock.refer(begun)
        reference = clock.reference
        first = backend.event_record(stream, timing=True, event=clock.take())

        def timed() -> None:
            last = backend.event_record(stream, timing=True, event=clock.take())
            record = Record(kind, name, nbytes, clock.label, stream.handle, place, begun, time.perf_counter())
            record.thread = thread
            self._await(record, clock, reference, first, last)

        return timed

    def staged(self, begun: float, backend: Backend, nbytes: int) -> None:
        if backend.pinned_domain not in self._domains:  # or it has been reported
            end = time.perf_counter()
            name = threading.current_thread().name
            self._add(Record(Kind.STAGING, "stage", nbytes, "host", name, _site.place(), begun, end))

    def pieces(self, backend: Backend, stream: RawStream, count: int) -> _Pieces | None:
        if backend.pinned_domain in self._domains:
            return None
        clock = self._clocks.get(stream.device) or self._clock(backend, stream.device)
        clock.refer(time.perf_counter())
        return _Pieces(self, clock, stream, count)

    def _reported(
        self,
        domain: str,
        kind: str,
        name: str,
        nbytes: int,
        device: str,
        stream: int | str,
        start_s: float,
        end_s: float,
        place: Place,
    ) -> None:
        record = Record(kind, name, nbytes, device, stream, place, start_s, end_s)
        record.domain = domain
        self._add(record)

    def _add(self, record: Record) -> None:
        for sink in self.sinks:
            sink.add(record)

    # --- times

    def _reclaim(self, clock: DeviceClock) -> None:
        """Read the times of the oldest operations that are over, for the sake of their events."""
        with self._lock:
            for _ in range(_SWEEP):
                try:
                    record = self._pending.popleft()
                except IndexError:
                    break
                assert record.clock is not None
                if not self._read(record, waits=False):
                    self._pending.appendleft(record)
                    break
        if clock.is_short:
            clock.make()

    def resolve(self) -> None:
        """Read the times of everything enqueued so far; blocks until it has happened."""
        with self._lock:
            for _ in range(len(self._pending)):
                try:
                    self._read(self._pending.popleft(), waits=True)
                except IndexError:
                    return

    def _read(self, record: Record, *, waits: bool) -> bool:
        """Read the times of one operation; False if it is not over, and ``waits`` is not set."""
        clock, first, last = record.clock, record.first, record.last
        assert clock is not None
        assert record.reference is not None
        backend = clock.backend
        try:
            if waits:
                backend.event_synchronize(last)
            elif not backend.event_done(last):
                return False
            start_s, end_s = clock.at_s(first, record.reference), clock.at_s(last, record.reference)
        except Exception:  # a lost device, or a stream that was being captured: what the host saw is all there is
            record.is_timed = False
            record.clock = None
        else:
            record.start_s, record.end_s = start_s, end_s
            clock.give(first, last)
        record.first = record.last = record.reference = None
        return True


class _Pieces:
    """The copies of one staged transfer, which were enqueued without Python."""

    def __init__(self, recorder: EventRecorder, clock: DeviceClock, stream: RawStream, count: int) -> None:
        self._recorder = recorder
        self._clock = clock
        self._stream = stream
        self._reference = clock.reference
        self._place = _site.place()
        self._events: list[tuple[Any, Any]] = []
        for _ in range(count):
            if clock.is_short:
                recorder._reclaim(clock)
            self._events.append((clock.take(), clock.take()))
        self.events = [(first.handle, last.handle) for first, last in self._events]

    def copied(self, number: int, kind: Kind, nbytes: int, start_s: float, end_s: float, thread: str) -> None:
        clock = self._clock
        record = Record(kind, "chunk", nbytes, clock.label, self._stream.handle, self._place, start_s, end_s)
        self._recorder._await(record, clock, self._reference, *self._events[number])
        record.thread = thread

    def staged(self, nbytes: int, start_s: float, end_s: float, thread: str) -> None:
        self._recorder._add(Record(Kind.STAGING, "stage", nbytes, "host", thread, self._place, start_s, end_s))


_lock = threading.RLock()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def opened(sink: Sink) -> EventRecorder:
    """The recorder that is active, or a new one, with ``sink`` added to it."""
    with _lock:
        recorder = _recording.active
        if not isinstance(recorder, EventRecorder):
            recorder = EventRecorder()
            recorder.open(sink)
            _recording.active = recorder
        else:
            recorder.open(sink)
        return recorder


def closed(recorder: EventRecorder, sink: Sink) -> None:
    """``sink`` is told nothing more; the last one closes the recorder."""
    with _lock:
        recorder.close(sink)
        if not recorder.sinks and _recording.active is recorder:
            _recording.active = None
