"""A device's clock beside the host's, read from timing events that are recycled.

A device and the host count time apart. At the beginning and at the end of a recording an event is recorded on an idle
stream of our own, between two readings of the host's clock, whose distance, some microseconds, is the uncertainty of
the comparison. Between the two moments the clocks are assumed to drift evenly. Later events are timed against reference
events, of which a new one is recorded every second: an event gives milliseconds in single precision, which over minutes
would be coarser than the duration of a kernel.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawEvent, RawStream

_AT_FIRST = 2048
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
        self.make(_AT_FIRST)
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

    def referred(self, host_s: float) -> Reference:
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
        device_s = self.at_s(event, self.referred(before))
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
