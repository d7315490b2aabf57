"""Notes of what happened, and the records that are made of them when their events have passed."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any

from xferlib._runtime.callsite import Place
from xferlib._trace.device_clock import DeviceClock, Reference

HOST = ""
"""The clock of this machine's host, where another is one of a simulated machine."""


now = time.perf_counter


Awaited = tuple[DeviceClock, Reference, Any, Any]
"""The device, and the events before and after the operation."""


Note = tuple[
    tuple["Sink", ...], str, str, int, str, "int | str", Place, float, float, str, str, "Awaited | None"
]  # fmt: skip


Notes = Callable[[], list[Note]]
"""Notes still to be made, of what is over."""


class Record:
    """One operation; times in seconds on the clock of its domain, or of its device if it has one."""

    __slots__ = (
        "clock", "device", "domain", "end_s", "host_end_s", "host_start_s", "is_timed", "kind", "name", "nbytes",
        "place", "start_s", "stream", "thread",
    )  # fmt: skip

    def __init__(self, note: Note) -> None:
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
        self.origins: dict[str, float] = {HOST: now()}
        """Clock to its time when the recording began, or when that clock was first met."""

    def begin(self) -> None:
        """The recording begins now: what was made ready for it does not count."""
        self.origins[HOST] = now()

    def add(self, record: Record) -> None:
        self.seen += 1
        self.records.append(record)


def settled(note: Note | Notes, *, waits: bool) -> bool:
    """Make a record of a note and give its events back; False if it is not over, and ``waits`` is not set."""
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
        except Exception:  # a lost device, or a stream that was being captured: what the host saw is all there is
            record.is_timed = False
        else:
            record.clock = clock
            clock.give(first, last)
    for sink in note[0]:
        sink.add(record)
    return True
