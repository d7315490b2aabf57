"""Notes every operation while a recording is open: an event before it and one after it, and no waiting.

The obvious way is to wait for the device after each operation and read the clock: it would serialise the very overlap
that is to be seen. To wait at the end alone needs two events for every operation of a long run, and to build an object
with the line and the times for each when it is enqueued slows down the program that is being measured.

So an operation is noted as one tuple with its two events. A note becomes a record, and gets the device's times, when
events run short (`_sweep`, the oldest first, as far as they are complete) or when the recording is read (`resolve`,
which waits). Its events are then recycled. The user's line is kept as a code object and an offset, and resolved later.

Guaranteed:

- Noting an operation waits for no stream of the program; `resolve` alone does.
- No other operation comes between one and its two events, whichever thread enqueues it (`DeviceClock.lock`).
- A recording gets the operations that were noted while it was open: each note names its recordings.
- Operations that a backend reports by itself (the simulator) are not noted here again.

`_lock` protects the recordings' opening and closing, the table of clocks, and the making of records; it is reentrant,
since a finalizer that copies may come in the middle. Notes are added without it: `deque.append` is atomic. The module's
`_lock` protects which recorder is the active one.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from xferlib._core import observe
from xferlib._core.observe import Kind, Step
from xferlib._runtime import checks
from xferlib._runtime.checks import CodeLocation
from xferlib._runtime.process import reset_in_child

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, RawEvent, RawStream


# A device's clock beside the host's, read from timing events that are recycled.
#
# A device and the host count time apart. At the beginning and at the end of a recording an event is recorded on an idle
# stream of our own, between two readings of the host's clock, whose distance, some microseconds, is the uncertainty of
# the comparison. Between the two moments the clocks are assumed to drift evenly. Later events are timed against
# reference events, of which a new one is recorded every second: an event gives milliseconds in single precision, which
# over minutes would be coarser than the duration of a kernel.

EVENTS_AT_FIRST = 2048
"""The number of events made when a recording meets a device."""
_AHEAD = 256
"""The number of events made at a time, after the first ones."""
_REFERENCE_EVERY_S = 1.0
_LOOKS = 5
_PATIENCE_S = 2e-3


class _Alignment(NamedTuple):
    """One moment on both clocks, and the uncertainty of the comparison."""

    host_s: float
    device_s: float
    uncertainty_s: float


class Reference:
    """An event whose device time follows from the reference before it."""

    __slots__ = ("at_s", "before", "event", "host_s")

    def __init__(self, event: RawEvent, host_s: float, before: Reference | None) -> None:
        self.event = event
        self.host_s = host_s
        self.before = before
        self.at_s: float | None = None if before is not None else 0.0


class DeviceClock:
    """Recycled events of one device, and the device times at which they were recorded.

    Args:
        backend: The part of a backend that serves the device.
        device: Any backend's name for it: backends of one domain share events.
    """

    def __init__(self, backend: Backend, device: Device) -> None:
        backend.attach(device)
        self.label = f"{device.kind}:{device.index}"
        self.backend = backend
        self._stream: RawStream = backend.stream_create(device, non_blocking=True, priority=0)
        self._free: list[RawEvent] = []
        self._locks: dict[int, threading.RLock] = {}  # reentrant: a finalizer may run inside, and copy
        self._lock = threading.RLock()
        self.make(EVENTS_AT_FIRST)
        before = time.perf_counter()
        self.reference = Reference(self._record(None), before, None)
        backend.event_synchronize(self.reference.event)
        after = time.perf_counter()
        self._alignments = [_Alignment((before + after) / 2, 0.0, (after - before) / 2)]
        self.align()
        del self._alignments[:-1]

    def _record(self, event: RawEvent | None) -> RawEvent:
        return self.backend.event_record(self._stream, timing=True, event=event)

    # --- events

    def lock(self, handle: int) -> threading.RLock:
        """Return the lock to hold while an operation and the events around it are enqueued on that stream."""
        found = self._locks.get(handle)
        return found if found is not None else self._locks.setdefault(handle, threading.RLock())

    def take(self) -> RawEvent:
        """Take an unused event."""
        try:
            return self._free.pop()
        except IndexError:
            self.make()
            return self.take()

    @property
    def is_short(self) -> bool:
        return len(self._free) < 2

    def make(self, count: int = _AHEAD) -> None:
        """Make events: one at a time would cost as much as a launch."""
        self._free += [self._record(None) for _ in range(count)]

    def give(self, *events: RawEvent) -> None:
        """Recycle events."""
        self._free += events

    # --- times

    def get_reference(self, host_s: float) -> Reference:
        """Return the latest reference, or a new one if it is old; the host does not wait."""
        if host_s - self.reference.host_s > _REFERENCE_EVERY_S and self._lock.acquire(blocking=False):
            try:
                self.reference = Reference(self._record(None), host_s, self.reference)
            finally:
                self._lock.release()
        return self.reference

    def at_s(self, event: RawEvent, reference: Reference) -> float:
        """Return the device time (s) at which a completed event was recorded."""
        return self._device_s(reference) + self.backend.event_elapsed_ms(reference.event, event) * 1e-3

    def _device_s(self, reference: Reference) -> float:
        chain = [reference]
        while chain[-1].at_s is None:
            before = chain[-1].before
            assert before is not None
            chain.append(before)
        at_s = chain.pop().at_s
        assert at_s is not None
        for each in reversed(chain):
            assert each.before is not None
            self.backend.event_synchronize(each.event)
            at_s += self.backend.event_elapsed_ms(each.before.event, each.event) * 1e-3
            each.at_s, each.before = at_s, None
        return at_s

    def align(self) -> None:
        """Compare the two clocks; without effect if the device takes over 2 ms for an event of our own stream."""
        with self._lock:
            looks = [look for look in (self._look() for _ in range(_LOOKS)) if look is not None]
            if looks:
                self._alignments.append(min(looks, key=lambda look: look.uncertainty_s))

    def _look(self) -> _Alignment | None:
        event = self.take()
        before = time.perf_counter()
        event = self._record(event)
        while not self.backend.event_done(event):
            if time.perf_counter() - before > _PATIENCE_S:
                return None
        after = time.perf_counter()
        device_s = self.at_s(event, self.get_reference(before))
        self._free.append(event)
        return _Alignment((before + after) / 2, device_s, (after - before) / 2)

    def to_host_s(self, device_s: float) -> float:
        """Convert a device time to the host's clock."""
        first, last = self._alignments[0], self._alignments[-1]
        rate = 1.0
        if last.device_s - first.device_s > 0.1:  # over less, the uncertainty is larger than any drift
            rate = (last.host_s - first.host_s) / (last.device_s - first.device_s)
        return first.host_s + (device_s - first.device_s) * rate

    @property
    def uncertainty_s(self) -> float:
        """The possible error of a device time on the host's clock, at both ends of the recording."""
        return max(self._alignments[0].uncertainty_s, self._alignments[-1].uncertainty_s)


# Notes of operations, and the records that are made of them when their events have completed.

HOST = ""
"""The domain of this machine's host clock; others are clocks of simulated machines."""


now = time.perf_counter


Awaited = tuple[DeviceClock, Reference, Any, Any]
"""The device's clock, a reference on it, and the events before and after the operation."""


Note = tuple[
    tuple["RecordBuffer", ...], str, str, int, str, "int | str", CodeLocation, float, float, str, str, "Awaited | None"
]  # fmt: skip


Notes = Callable[[], list[Note]]
"""Makes notes later, of operations that are complete."""


class Record(NamedTuple):
    """A complete operation, with its times on the clock of its device."""

    note: Note
    clock: DeviceClock | None = None
    """None: the times of the note are those of the operation, in seconds on the clock of its domain."""
    start_s: float = 0.0
    end_s: float = 0.0
    is_timed: bool = True
    """Whether they are known."""


class RecordBuffer:
    """The latest records of one recording; older ones are dropped."""

    def __init__(self, keep: int) -> None:
        self.records: deque[Record] = deque(maxlen=keep)
        self.seen = 0
        self.origins: dict[str, float] = {HOST: now()}
        """By clock, its time when the recording began, or when that clock was first used."""

    def begin(self) -> None:
        """Start the recording's time now: its preparation does not count."""
        self.origins[HOST] = now()

    def add(self, record: Record) -> None:
        self.seen += 1
        self.records.append(record)


def finish_note(note: Note | Notes, *, waits: bool) -> bool:
    """Make a record of a note and recycle its events; False if it is not complete, and ``waits`` is not set."""
    if not isinstance(note, tuple):
        for each in note():
            finish_note(each, waits=waits)
        return True
    record, awaited = Record(note), note[-1]
    if awaited is not None:
        clock, reference, first, last = awaited
        try:
            if waits:
                clock.backend.event_synchronize(last)
            elif not clock.backend.event_done(last):
                return False
            record = Record(note, clock, clock.at_s(first, reference), clock.at_s(last, reference))
        except Exception:  # a lost device, or a stream that was being captured: only the host's times are known
            record = Record(note, is_timed=False)
        else:
            clock.give(first, last)
    for recording in note[0]:
        recording.add(record)
    return True


# Ranges for a profiler that watches the process, through the package ``nvtx`` where it is installed.

_INJECTED = ("NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID")
"""Environment variables that profilers set in the processes that they start."""


class Profiler:
    """Shows recorded operations to a profiler, in a domain of their own, if one is attached and ``nvtx`` is there."""

    def __init__(self) -> None:
        self._domain: Any = None
        if any(name in os.environ for name in _INJECTED):
            with contextlib.suppress(ImportError):
                import nvtx

                self._domain = nvtx.get_domain("xferlib")

    def push(self, name: str, category: str) -> None:
        """Begin a range."""
        if self._domain is not None:
            self._domain.push_range(self._domain.get_event_attributes(message=name, category=str(category)))

    def pop(self) -> None:
        """End the range begun last in this thread."""
        if self._domain is not None:
            self._domain.pop_range()


# A staged copy on the record: one operation from its first piece to its last, and the steps that stage it.


class StagedCopy:
    """A staged copy: one operation from its first piece to its last, and the steps in which threads stage it."""

    __slots__ = (
        "_backend", "_clock", "_first", "_kind", "_last", "_location", "_nbytes", "_pieces", "_recorder", "_reference",
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
        self._location = checks.location()
        self._since = now()
        self._reference = clock.get_reference(self._since)
        self._first: RawEvent | None = None
        self._last: RawEvent | None = None
        self._sent = itertools.count(1).__next__

    def send(self) -> None:
        """Note that a block is about to be enqueued."""
        if self._first is None:
            with self._clock.lock(self._stream.handle):
                if self._first is None:
                    self._first = self._backend.event_record(self._stream, timing=True, event=self._clock.take())

    def note_enqueued(self) -> None:
        """Note that a block has been enqueued."""
        if self._sent() == self._pieces:
            self._note(self._backend.event_record(self._stream, timing=True, event=self._clock.take()))

    def events(self) -> tuple[RawEvent, RawEvent]:
        """Return the events to record before the first block and after the last one, ahead of `note_finished`."""
        self._first, self._last = self._clock.take(), self._clock.take()
        return self._first, self._last

    def note_finished(self, steps: list[Step]) -> None:
        """Note that all blocks have been enqueued, with `events` around them."""
        self._note(self._last)
        recordings, location = self._recorder.recordings, self._location
        self._recorder.later(lambda: [
            (recordings, Kind.STAGING, "stage", nbytes, "host", thread, location, begun_s, end_s, "", HOST, None)
            for nbytes, begun_s, end_s, thread in steps
        ])  # fmt: skip

    def _note(self, last: RawEvent) -> None:
        self._recorder.note(
            self._kind, "staged copy", self._nbytes, self._clock.label, self._stream.handle, self._location,
            self._since, now(), HOST, (self._clock, self._reference, self._first, last),
            threading.current_thread().name,
        )  # fmt: skip

    def note_staged(self, begun_s: float, nbytes: int) -> None:
        """Note that the calling thread has filled or emptied a chunk, since ``begun_s`` of `time.perf_counter`."""
        thread = threading.current_thread().name
        self._recorder.note(Kind.STAGING, "stage", nbytes, "host", thread, self._location, begun_s, now())


_SWEEP = 256
"""The number of notes that become records at a time."""


_MOST_NOTES = 1 << 14
"""The number of notes from which some become records although no events are needed."""


class EventRecorder(observe.Recorder):
    """The recorder in `xferlib._core.observe.active`, which serves all recordings that are open."""

    def __init__(self) -> None:
        self.recordings: tuple[RecordBuffer, ...] = ()
        self._clocks: dict[Device, DeviceClock] = {}
        self._shared: dict[tuple[str, int], DeviceClock] = {}
        self._notes: deque[Note | Notes] = deque()
        self._lock = threading.RLock()  # reentrant: a finalizer may run inside
        self._domains: dict[str, Backend] = {}
        """The backends that report their own operations, by `pinned_domain`."""
        self._profiler = Profiler()

    # --- opening and closing

    def open(self, recording: RecordBuffer) -> None:
        with self._lock:
            for domain, backend in self._domains.copy().items():
                recording.origins[domain] = backend.host_s()
            self.recordings += (recording,)

    def close(self, recording: RecordBuffer) -> None:
        """Give ``recording`` no more notes."""
        with self._lock:
            self.recordings = tuple(each for each in self.recordings if each is not recording)
            if not self.recordings:
                for backend in tuple(self._domains.values()):
                    backend.report_to(None)
            for clock in tuple(self._shared.values()):
                clock.align()

    def add_backend(self, backend: Backend) -> None:
        domain = backend.pinned_domain
        if domain not in self._domains and backend.report_to(functools.partial(self._note_reported, domain)):
            with self._lock:
                self._domains[domain] = backend
                for recording in self.recordings:
                    recording.origins[domain] = backend.host_s()

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

    # --- what shared code reports

    def enqueue(
        self, kind: Kind, name: str, nbytes: int, backend: Backend, stream: RawStream, run: Callable[[], Any]
    ) -> Any:
        if backend.pinned_domain in self._domains:
            return run()
        clock = self._clock(backend, stream.device)
        location = checks.location()
        self._profiler.push(name, kind)
        record, since = backend.event_record, now()
        reference = clock.get_reference(since)
        try:
            with clock.lock(stream.handle):  # or another thread's operation would come between
                first = record(stream, timing=True, event=clock.take())
                result = run()
                last = record(stream, timing=True, event=clock.take())
        finally:
            self._profiler.pop()
        if result is False:  # the driver did not take it
            clock.give(first, last)
            return result
        self._notes.append((
            self.recordings, kind, name, nbytes, clock.label, stream.handle, location, since, now(),
            threading.current_thread().name, HOST, (clock, reference, first, last),
        ))  # fmt: skip
        return result

    def begin_staged_copy(
        self, kind: Kind, nbytes: int, pieces: int, backend: Backend, stream: RawStream
    ) -> observe.Moving | None:
        if backend.pinned_domain in self._domains:
            return None
        return StagedCopy(self, kind, nbytes, pieces, backend, stream, self._clock(backend, stream.device))

    def on_host(
        self, kind: Kind, name: str, nbytes: int, backend: Backend, device: Device, run: Callable[[], None]
    ) -> None:
        location = checks.location()
        self._profiler.push(name, kind)
        since = now()
        try:
            run()
        finally:
            end = now()
            self._profiler.pop()
        self.note(kind, name, nbytes, device.kind, 0, location, since, end)

    def begin(self, backend: Backend) -> float:
        return backend.host_s() if backend.pinned_domain in self._domains else now()

    def note_call(self, begun: float, backend: Backend, nbytes: int = 0) -> None:
        end = self.begin(backend)
        location, name = checks.user_call()
        domain = backend.pinned_domain
        self.note(
            Kind.CALL, name, nbytes, "host", threading.current_thread().name, location, begun, end,
            domain if domain in self._domains else HOST,
        )  # fmt: skip

    def note(
        self, kind: str, name: str, nbytes: int, device: str, stream: int | str, location: CodeLocation, start_s: float,
        end_s: float, domain: str = HOST, awaited: Awaited | None = None, thread: str = "",
    ) -> None:  # fmt: skip
        """Note something that took its time on the host or between two events, for the recordings open now."""
        notes = self._notes
        notes.append(
            (self.recordings, kind, name, nbytes, device, stream, location, start_s, end_s, thread, domain, awaited)
        )
        if len(notes) > _MOST_NOTES:
            self._sweep()

    def later(self, notes: Notes) -> None:
        """Make notes of operations that are complete when the recording is read."""
        self._notes.append(notes)

    def _note_reported(
        self, domain: str, kind: str, name: str, nbytes: int, device: str, stream: int | str, start_s: float,
        end_s: float, location: CodeLocation,
    ) -> None:  # fmt: skip
        """Note an operation that a backend reports by itself."""
        self.note(kind, name, nbytes, device, stream, location, start_s, end_s, domain)

    # --- the program's own work

    def range(self, backend: Backend, stream: RawStream, kind: str, name: str, nbytes: int) -> Callable[[], None]:
        """Begin a range, the program's own work on ``stream``; the returned function ends it."""
        location, thread, domain = checks.location(), threading.current_thread().name, backend.pinned_domain
        label, begun = stream.device.kind, self.begin(backend)
        self._profiler.push(name, kind)
        if not backend.capabilities.streams:

            def ended() -> None:
                self.note(kind, name, nbytes, label, 0, location, begun, now(), thread=thread)

        elif domain in self._domains:
            ended = self._begin_simulated(backend, stream, kind, name, nbytes, location)
        else:
            clock = self._clock(backend, stream.device)
            reference = clock.get_reference(begun)
            first = backend.event_record(stream, timing=True, event=clock.take())

            def ended() -> None:
                last = backend.event_record(stream, timing=True, event=clock.take())
                awaited = (clock, reference, first, last)
                self.note(kind, name, nbytes, clock.label, stream.handle, location, begun, now(), HOST, awaited, thread)

        def end() -> None:
            self._profiler.pop()
            ended()

        return end

    def _begin_simulated(
        self, backend: Backend, stream: RawStream, kind: str, name: str, nbytes: int, location: CodeLocation
    ) -> Callable[[], None]:
        """Begin a range on a machine with a clock of its own, whose events have their time at once."""
        own = backend.stream_create(stream.device, non_blocking=True, priority=0)
        zero, zero_s = backend.event_record(own, timing=True), backend.host_s()
        before = backend.event_record(stream, timing=True)
        label = f"{stream.device.kind}:{stream.device.index}"

        def ended() -> None:
            after = backend.event_record(stream, timing=True)
            start_s, end_s = (zero_s + backend.event_elapsed_ms(zero, each) * 1e-3 for each in (before, after))
            domain = backend.pinned_domain
            self.note(kind, name, nbytes, label, stream.handle, location, start_s, end_s, domain)

        return ended

    # --- times

    def _reclaim(self, clock: DeviceClock) -> None:
        """Recycle the events of the oldest operations that are complete, or make more."""
        self._sweep()
        if clock.is_short:
            clock.make()

    def _sweep(self) -> None:
        """Make records of the oldest notes, up to the first that is not complete."""
        with self._lock:
            for _ in range(_SWEEP):
                try:
                    note = self._notes.popleft()
                except IndexError:
                    return
                if not finish_note(note, waits=False):
                    self._notes.appendleft(note)
                    return

    def resolve(self) -> None:
        """Make records of all notes so far; wait until their operations are complete."""
        with self._lock:
            for _ in range(len(self._notes)):
                try:
                    finish_note(self._notes.popleft(), waits=True)
                except IndexError:
                    return


_lock = threading.RLock()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()


reset_in_child(_after_fork_in_child)


def open_recording(recording: RecordBuffer) -> EventRecorder:
    """Add ``recording`` to the active recorder, or to a new one, and return that."""
    with _lock:
        recorder = observe.active
        if not isinstance(recorder, EventRecorder):
            recorder = EventRecorder()
            recorder.open(recording)
            observe.activate(recorder)
        else:
            recorder.open(recording)
        return recorder


def close_recording(recorder: EventRecorder, recording: RecordBuffer) -> None:
    """Remove ``recording`` from a recorder; without recordings it is no longer the active one."""
    with _lock:
        recorder.close(recording)
        if not recorder.recordings and observe.active is recorder:
            observe.activate(None)
