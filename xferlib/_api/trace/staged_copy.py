"""A staged copy on the record: one operation from its first piece to its last, and the steps that stage it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from xferlib._api.trace.device_clock import DeviceClock
from xferlib._api.trace.notes import HOST, Awaited, Notes, RecordBuffer, now
from xferlib._core.observe import Kind, Step
from xferlib._runtime import callsite
from xferlib._runtime.callsite import CodeLocation

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.raw import RawEvent, RawStream


class Notebook(Protocol):
    """The part of a recorder that a copy uses."""

    recordings: tuple[RecordBuffer, ...]

    def note(
        self, kind: str, name: str, nbytes: int, device: str, stream: int | str, location: CodeLocation, start_s: float,
        end_s: float, domain: str = ..., awaited: Awaited | None = ..., thread: str = ...,
    ) -> None:  # fmt: skip
        """Note something that took its time on the host or between two events."""

    def later(self, notes: Notes) -> None:
        """Make notes of operations that are complete when the recording is read."""


class StagedCopy:
    """A staged copy: one operation from its first piece to its last, and the steps in which threads stage it."""

    __slots__ = (
        "_backend", "_clock", "_first", "_kind", "_last", "_location", "_nbytes", "_pieces", "_recorder", "_reference",
        "_sent", "_since", "_stream",
    )  # fmt: skip

    def __init__(
        self, recorder: Notebook, kind: Kind, nbytes: int, pieces: int, backend: Backend, stream: RawStream,
        clock: DeviceClock,
    ) -> None:  # fmt: skip
        self._recorder = recorder
        self._kind = kind
        self._nbytes = nbytes
        self._pieces = pieces
        self._backend = backend
        self._stream = stream
        self._clock = clock
        self._location = callsite.location()
        self._since = now()
        self._reference = clock.referred(self._since)
        self._first: RawEvent | None = None
        self._last: RawEvent | None = None
        self._sent = itertools.count(1).__next__

    def send(self) -> None:
        """Note that a block is about to be enqueued."""
        if self._first is None:
            with self._clock.lock(self._stream.handle):
                if self._first is None:
                    self._first = self._backend.event_record(self._stream, timing=True, event=self._clock.take())

    def sent(self) -> None:
        """Note that a block has been enqueued."""
        if self._sent() == self._pieces:
            self._note(self._backend.event_record(self._stream, timing=True, event=self._clock.take()))

    def events(self) -> tuple[RawEvent, RawEvent]:
        """Return the events to record before the first block and after the last one, before `finished` is called."""
        self._first, self._last = self._clock.take(), self._clock.take()
        return self._first, self._last

    def finished(self, steps: Callable[[], Iterable[Step]]) -> None:
        """Note that all blocks have been enqueued, with `events` around them."""
        self._note(self._last)
        recordings, location = self._recorder.recordings, self._location
        self._recorder.later(lambda: [
            (recordings, Kind.STAGING, "stage", nbytes, "host", thread, location, begun_s, end_s, "", HOST, None)
            for nbytes, begun_s, end_s, thread in steps()
        ])  # fmt: skip

    def _note(self, last: RawEvent) -> None:
        self._recorder.note(
            self._kind, "staged copy", self._nbytes, self._clock.label, self._stream.handle, self._location,
            self._since, now(), HOST, (self._clock, self._reference, self._first, last),
            threading.current_thread().name,
        )  # fmt: skip

    def staged(self, begun_s: float, nbytes: int) -> None:
        """Note that the calling thread has filled or emptied a chunk, since ``begun_s`` of `time.perf_counter`."""
        thread = threading.current_thread().name
        self._recorder.note(Kind.STAGING, "stage", nbytes, "host", thread, self._location, begun_s, now())
