"""Notes of operations, and the records that are made of them when their events have completed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from xferlib._api.trace.device_clock import DeviceClock, Reference
from xferlib._runtime.callsite import CodeLocation

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


class Record:
    """One operation; times in seconds on the clock of its domain, or of its device if it has one."""

    __slots__ = (
        "clock", "device", "domain", "end_s", "host_end_s", "host_start_s", "is_timed", "kind", "location", "name",
        "nbytes", "start_s", "stream", "thread",
    )  # fmt: skip

    def __init__(self, note: Note) -> None:
        (
            _, self.kind, self.name, self.nbytes, self.device, self.stream, self.location,
            self.host_start_s, self.host_end_s, self.thread, self.domain, _,
        ) = note  # fmt: skip
        self.start_s, self.end_s = self.host_start_s, self.host_end_s
        self.clock: DeviceClock | None = None
        self.is_timed = True


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


def settled(note: Note | Notes, *, waits: bool) -> bool:
    """Make a record of a note and recycle its events; False if it is not complete, and ``waits`` is not set."""
    if not isinstance(note, tuple):
        for each in note():
            settled(each, waits=waits)
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
        except Exception:  # a lost device, or a stream that was being captured: only the host's times are known
            record.is_timed = False
        else:
            record.clock = clock
            clock.give(first, last)
    for recording in note[0]:
        recording.add(record)
    return True
