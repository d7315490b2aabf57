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

import functools
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xferlib._api.trace import nvtx
from xferlib._api.trace.device_clock import DeviceClock
from xferlib._api.trace.notes import HOST, Awaited, Note, Notes, RecordBuffer, now, settled
from xferlib._api.trace.staged_copy import StagedCopy
from xferlib._core import observe
from xferlib._core.observe import Kind
from xferlib._runtime import callsite
from xferlib._runtime.callsite import CodeLocation
from xferlib._runtime.fork import reset_in_child

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream


_SWEEP = 256
"""The number of notes that become records at a time."""


_MOST_NOTES = 1 << 14
"""The number of notes from which some become records although no events are needed."""


class EventRecorder:
    """The recorder in `xferlib._core.observe.active`, which serves all recordings that are open."""

    def __init__(self) -> None:
        self.recordings: tuple[RecordBuffer, ...] = ()
        self._clocks: dict[Device, DeviceClock] = {}
        self._shared: dict[tuple[str, int], DeviceClock] = {}
        self._notes: deque[Note | Notes] = deque()
        self._lock = threading.RLock()  # reentrant: a finalizer may run inside
        self._domains: dict[str, Backend] = {}
        """The backends that report their own operations, by `pinned_domain`."""
        self._profiler = nvtx.domain()

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

    def met(self, backend: Backend) -> None:
        domain = backend.pinned_domain
        if domain not in self._domains and backend.report_to(functools.partial(self._reported, domain)):
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
        location = callsite.location()
        profiler = self._profiler
        if profiler is not None:
            profiler.push(name, kind)
        record, since = backend.event_record, now()
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
            self.recordings, kind, name, nbytes, clock.label, stream.handle, location, since, now(),
            threading.current_thread().name, HOST, (clock, reference, first, last),
        ))  # fmt: skip
        return result

    def moving(
        self, kind: Kind, nbytes: int, pieces: int, backend: Backend, stream: RawStream
    ) -> observe.Moving | None:
        if backend.pinned_domain in self._domains:
            return None
        return StagedCopy(self, kind, nbytes, pieces, backend, stream, self._clock(backend, stream.device))

    def on_host(
        self, kind: Kind, name: str, nbytes: int, backend: Backend, device: Device, run: Callable[[], None]
    ) -> None:
        location = callsite.location()
        profiler = self._profiler
        if profiler is not None:
            profiler.push(name, kind)
        since = now()
        try:
            run()
        finally:
            end = now()
            if profiler is not None:
                profiler.pop()
        self.note(kind, name, nbytes, device.kind, 0, location, since, end)

    def begin(self, backend: Backend) -> float:
        return backend.host_s() if backend.pinned_domain in self._domains else now()

    def called(self, begun: float, backend: Backend, nbytes: int = 0) -> None:
        end = self.begin(backend)
        location, name = callsite.user_call()
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

    def _reported(
        self, domain: str, kind: str, name: str, nbytes: int, device: str, stream: int | str, start_s: float,
        end_s: float, location: CodeLocation,
    ) -> None:  # fmt: skip
        """Note an operation that a backend reports by itself."""
        self.note(kind, name, nbytes, device, stream, location, start_s, end_s, domain)

    # --- the program's own work

    def range(self, backend: Backend, stream: RawStream, kind: str, name: str, nbytes: int) -> Callable[[], None]:
        """Begin a range, the program's own work on ``stream``; the returned function ends it."""
        location, thread, domain = callsite.location(), threading.current_thread().name, backend.pinned_domain
        label, begun = stream.device.kind, self.begin(backend)
        profiler = self._profiler
        if profiler is not None:
            profiler.push(name, kind)
        if not backend.capabilities.streams:

            def ended() -> None:
                self.note(kind, name, nbytes, label, 0, location, begun, now(), thread=thread)

        elif domain in self._domains:
            ended = self._simulated(backend, stream, kind, name, nbytes, location)
        else:
            clock = self._clock(backend, stream.device)
            reference = clock.referred(begun)
            first = backend.event_record(stream, timing=True, event=clock.take())

            def ended() -> None:
                last = backend.event_record(stream, timing=True, event=clock.take())
                awaited = (clock, reference, first, last)
                self.note(kind, name, nbytes, clock.label, stream.handle, location, begun, now(), HOST, awaited, thread)

        if profiler is None:
            return ended

        def ended_for_profiler() -> None:
            profiler.pop()
            ended()

        return ended_for_profiler

    def _simulated(
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
                if not settled(note, waits=False):
                    self._notes.appendleft(note)
                    return

    def resolve(self) -> None:
        """Make records of all notes so far; wait until their operations are complete."""
        with self._lock:
            for _ in range(len(self._notes)):
                try:
                    settled(self._notes.popleft(), waits=True)
                except IndexError:
                    return


_lock = threading.RLock()


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()


reset_in_child(_after_fork_in_child)


def opened(recording: RecordBuffer) -> EventRecorder:
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


def closed(recorder: EventRecorder, recording: RecordBuffer) -> None:
    """Remove ``recording`` from a recorder; without recordings it is no longer the active one."""
    with _lock:
        recorder.close(recording)
        if not recorder.recordings and observe.active is recorder:
            observe.activate(None)
