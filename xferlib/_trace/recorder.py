"""Notes every operation while a recording is open: an event before it and one after it, and no waiting.

What is noted at the time is one tuple. It becomes a record, and learns the device's times, when its events are needed
again or when somebody reads the recording.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from xferlib._core import observe
from xferlib._core.observe import Kind, Step
from xferlib._runtime import callsite
from xferlib._runtime.callsite import Place
from xferlib._runtime.fork import reset_in_child
from xferlib._trace import nvtx
from xferlib._trace.device_clock import DeviceClock, Reference

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawEvent, RawStream

_SWEEP = 256
"""Notes made records of at a time."""
_MOST_NOTES = 1 << 14
"""As many wait to become records, where no events are needed for them."""
_HOST = ""
"""The clock of this machine's host, where another is one of a simulated machine."""

_now = time.perf_counter
_Awaited = tuple[DeviceClock, Reference, Any, Any]
"""The device, and the events before and after the operation."""
_Note = tuple[
    tuple["Sink", ...], str, str, int, str, "int | str", Place, float, float, str, str, "_Awaited | None"
]  # fmt: skip


_Notes = Callable[[], list[_Note]]
"""Notes still to be made, of what is over."""


class Record:
    """One operation; times in seconds on the clock of its domain, or of its device if it has one."""

    __slots__ = (
        "clock", "device", "domain", "end_s", "host_end_s", "host_start_s", "is_timed", "kind", "name", "nbytes",
        "place", "start_s", "stream", "thread",
    )  # fmt: skip

    def __init__(self, note: _Note) -> None:
        (
            _, self.kind, self.name, self.nbytes, self.device, self.stream, self.place,
            self.host_start_s, self.host_end_s, self.thread, self.domain, _,
        ) = note  # fmt: skip
        self.start_s, self.end_s = self.host_start_s, self.host_end_s
        self.clock: DeviceClock | None = None
        self.is_timed = True


class Sink:
    """Where the records of one recording go: the latest of them."""

    def __init__(self, keep: int) -> None:
        self.records: deque[Record] = deque(maxlen=keep)
        self.seen = 0
        self.origins: dict[str, float] = {_HOST: _now()}
        """Clock to its time when the recording began, or when that clock was first met."""

    def begin(self) -> None:
        """The recording begins now: what was made ready for it does not count."""
        self.origins[_HOST] = _now()

    def add(self, record: Record) -> None:
        self.seen += 1
        self.records.append(record)


class EventRecorder:
    """What `xferlib._core.observe.active` is while a recording is open, for as many as are open at once."""

    def __init__(self) -> None:
        self.sinks: tuple[Sink, ...] = ()
        self._clocks: dict[Device, DeviceClock] = {}
        self._shared: dict[tuple[str, int], DeviceClock] = {}
        self._notes: deque[_Note | _Notes] = deque()
        self._lock = threading.RLock()  # reentrant: a finalizer may run inside
        self._domains: dict[str, Backend] = {}
        """The backends that say themselves what they do, by `pinned_domain`."""
        self._profiler = nvtx.domain()

    # --- opening and closing

    def open(self, sink: Sink) -> None:
        with self._lock:
            for domain, backend in self._domains.copy().items():
                sink.origins[domain] = backend.host_s()
            self.sinks += (sink,)

    def close(self, sink: Sink) -> None:
        """``sink`` is told nothing more."""
        with self._lock:
            self.sinks = tuple(each for each in self.sinks if each is not sink)
            if not self.sinks:
                for backend in tuple(self._domains.values()):
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
        if found.is_short:
            self._reclaim(found)
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
        clock = self._clock(backend, stream.device)
        place = callsite.place()
        profiler = self._profiler
        if profiler is not None:
            profiler.push(name, kind)
        record, since = backend.event_record, _now()
        reference = clock.referred(since)
        try:
            with clock.lock(stream.handle):  # or another thread's operation would come between
                first = record(stream, timing=True, event=clock.take())
                result = run()
                last = record(stream, timing=True, event=clock.take())
        finally:
            if profiler is not None:
                profiler.pop()
        if result is False:  # the driver did not take it
            clock.give(first, last)
            return result
        self._notes.append((
            self.sinks, kind, name, nbytes, clock.label, stream.handle, place, since, _now(),
            threading.current_thread().name, _HOST, (clock, reference, first, last),
        ))  # fmt: skip
        return result

    def moving(
        self, kind: Kind, nbytes: int, pieces: int, backend: Backend, stream: RawStream
    ) -> observe.Moving | None:
        if backend.pinned_domain in self._domains:
            return None
        return Moving(self, kind, nbytes, pieces, backend, stream, self._clock(backend, stream.device))

    def on_host(
        self, kind: Kind, name: str, nbytes: int, backend: Backend, device: Device, run: Callable[[], None]
    ) -> None:
        place = callsite.place()
        profiler = self._profiler
        if profiler is not None:
            profiler.push(name, kind)
        since = _now()
        try:
            run()
        finally:
            end = _now()
            if profiler is not None:
                profiler.pop()
        self.note(kind, name, nbytes, device.kind, 0, place, since, end)

    def begin(self, backend: Backend) -> float:
        return backend.host_s() if backend.pinned_domain in self._domains else _now()

    def called(self, begun: float, backend: Backend, nbytes: int = 0) -> None:
        end = self.begin(backend)
        place, name = callsite.user_call()
        domain = backend.pinned_domain
        self.note(
            Kind.CALL, name, nbytes, "host", threading.current_thread().name, place, begun, end,
            domain if domain in self._domains else _HOST,
        )  # fmt: skip

    def note(
        self, kind: str, name: str, nbytes: int, device: str, stream: int | str, place: Place, start_s: float,
        end_s: float, domain: str = _HOST, awaited: _Awaited | None = None, thread: str = "",
    ) -> None:  # fmt: skip
        """Something that took its time on the host or between two events, for the recordings open now."""
        notes = self._notes
        notes.append((self.sinks, kind, name, nbytes, device, stream, place, start_s, end_s, thread, domain, awaited))
        if len(notes) > _MOST_NOTES:
            self._sweep()

    def later(self, notes: _Notes) -> None:
        """Make notes, of what is over, when somebody reads them."""
        self._notes.append(notes)

    def _reported(
        self, domain: str, kind: str, name: str, nbytes: int, device: str, stream: int | str, start_s: float,
        end_s: float, place: Place,
    ) -> None:  # fmt: skip
        """A backend that knows by itself says what it has done."""
        self.note(kind, name, nbytes, device, stream, place, start_s, end_s, domain)

    # --- the program's own work

    def range(self, backend: Backend, stream: RawStream, kind: str, name: str, nbytes: int) -> Callable[[], None]:
        """The program's own work on ``stream`` begins; what is returned is called at its end."""
        place, thread, domain = callsite.place(), threading.current_thread().name, backend.pinned_domain
        label, begun = stream.device.kind, self.begin(backend)
        profiler = self._profiler
        if profiler is not None:
            profiler.push(name, kind)
        if not backend.capabilities.streams:

            def ended() -> None:
                self.note(kind, name, nbytes, label, 0, place, begun, _now(), thread=thread)

        elif domain in self._domains:
            ended = self._simulated(backend, stream, kind, name, nbytes, place)
        else:
            clock = self._clock(backend, stream.device)
            reference = clock.referred(begun)
            first = backend.event_record(stream, timing=True, event=clock.take())

            def ended() -> None:
                last = backend.event_record(stream, timing=True, event=clock.take())
                awaited = (clock, reference, first, last)
                self.note(kind, name, nbytes, clock.label, stream.handle, place, begun, _now(), _HOST, awaited, thread)

        if profiler is None:
            return ended

        def ended_for_profiler() -> None:
            profiler.pop()
            ended()

        return ended_for_profiler

    def _simulated(
        self, backend: Backend, stream: RawStream, kind: str, name: str, nbytes: int, place: Place
    ) -> Callable[[], None]:
        """A range on a machine with a clock of its own, whose events know their time at once."""
        own = backend.stream_create(stream.device, non_blocking=True, priority=0)
        zero, zero_s = backend.event_record(own, timing=True), backend.host_s()
        before = backend.event_record(stream, timing=True)
        label = f"{stream.device.kind}:{stream.device.index}"

        def ended() -> None:
            after = backend.event_record(stream, timing=True)
            start_s, end_s = (zero_s + backend.event_elapsed_ms(zero, each) * 1e-3 for each in (before, after))
            domain = backend.pinned_domain
            self.note(kind, name, nbytes, label, stream.handle, place, start_s, end_s, domain)

        return ended

    # --- times

    def _reclaim(self, clock: DeviceClock) -> None:
        """Get events back from the oldest operations that are over, or make others."""
        self._sweep()
        if clock.is_short:
            clock.make()

    def _sweep(self) -> None:
        """Make records of the oldest notes, as far as they are over."""
        with self._lock:
            for _ in range(_SWEEP):
                try:
                    note = self._notes.popleft()
                except IndexError:
                    return
                if not _settled(note, waits=False):
                    self._notes.appendleft(note)
                    return

    def resolve(self) -> None:
        """Make records of everything noted so far; blocks until it has happened."""
        with self._lock:
            for _ in range(len(self._notes)):
                try:
                    _settled(self._notes.popleft(), waits=True)
                except IndexError:
                    return


def _settled(note: _Note | _Notes, *, waits: bool) -> bool:
    """Make a record of a note and give its events back; False if it is not over, and ``waits`` is not set."""
    if not isinstance(note, tuple):
        for each in note():
            _settled(each, waits=waits)
        return True
    record, awaited = Record(note), note[-1]
    if awaited is not None:
        clock, reference, first, last = awaited
        try:
            if waits:
                clock.backend.event_synchronize(last)
            elif not clock.backend.event_done(last):
                return False
            record.start_s, record.end_s = clock.at_s(first, reference), clock.at_s(last, reference)
        except Exception:  # a lost device, or a stream that was being captured: what the host saw is all there is
            record.is_timed = False
        else:
            record.clock = clock
            clock.give(first, last)
    for sink in note[0]:
        sink.add(record)
    return True


class Moving:
    """A staged copy: one operation from its first piece to its last, and the steps in which threads stage it."""

    __slots__ = (
        "_backend", "_clock", "_first", "_kind", "_last", "_nbytes", "_pieces", "_place", "_recorder", "_reference",
        "_sent", "_since", "_stream",
    )  # fmt: skip

    def __init__(
        self, recorder: EventRecorder, kind: Kind, nbytes: int, pieces: int, backend: Backend, stream: RawStream,
        clock: DeviceClock,
    ) -> None:  # fmt: skip
        self._recorder = recorder
        self._kind = kind
        self._nbytes = nbytes
        self._pieces = pieces
        self._backend = backend
        self._stream = stream
        self._clock = clock
        self._place = callsite.place()
        self._since = _now()
        self._reference = clock.referred(self._since)
        self._first: RawEvent | None = None
        self._last: RawEvent | None = None
        self._sent = itertools.count(1).__next__

    def send(self) -> None:
        """A piece is about to be enqueued."""
        if self._first is None:
            with self._clock.lock(self._stream.handle):
                if self._first is None:
                    self._first = self._backend.event_record(self._stream, timing=True, event=self._clock.take())

    def sent(self) -> None:
        """A piece has been enqueued."""
        if self._sent() == self._pieces:
            self._note(self._backend.event_record(self._stream, timing=True, event=self._clock.take()))

    def events(self) -> tuple[RawEvent, RawEvent]:
        """To be recorded before the first piece and after the last one; then `finished`."""
        self._first, self._last = self._clock.take(), self._clock.take()
        return self._first, self._last

    def finished(self, steps: Callable[[], Iterable[Step]]) -> None:
        """Everything has been enqueued, with `events` around it."""
        self._note(self._last)
        sinks, place = self._recorder.sinks, self._place
        self._recorder.later(lambda: [
            (sinks, Kind.STAGING, "stage", nbytes, "host", thread, place, begun_s, end_s, "", _HOST, None)
            for nbytes, begun_s, end_s, thread in steps()
        ])  # fmt: skip

    def _note(self, last: RawEvent) -> None:
        self._recorder.note(
            self._kind, "staged copy", self._nbytes, self._clock.label, self._stream.handle, self._place,
            self._since, _now(), _HOST, (self._clock, self._reference, self._first, last),
            threading.current_thread().name,
        )  # fmt: skip

    def staged(self, begun_s: float, nbytes: int) -> None:
        """The calling thread has filled or emptied a chunk, since ``begun_s`` of `time.perf_counter`."""
        thread = threading.current_thread().name
        self._recorder.note(Kind.STAGING, "stage", nbytes, "host", thread, self._place, begun_s, _now())


_lock = threading.RLock()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()


reset_in_child(_after_fork_in_child)


def opened(sink: Sink) -> EventRecorder:
    """The recorder that is active, or a new one, with ``sink`` added to it."""
    with _lock:
        recorder = observe.active
        if not isinstance(recorder, EventRecorder):
            recorder = EventRecorder()
            recorder.open(sink)
            observe.activate(recorder)
        else:
            recorder.open(sink)
        return recorder


def closed(recorder: EventRecorder, sink: Sink) -> None:
    """``sink`` is told nothing more; the last one closes the recorder."""
    with _lock:
        recorder.close(sink)
        if not recorder.sinks and observe.active is recorder:
            observe.activate(None)
