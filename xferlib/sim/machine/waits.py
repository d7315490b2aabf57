"""The host's waits and polls, and the order that they establish.

A wait carries out the work that it waits for, and orders the host behind it. A poll is the harder one. If it told the
truth about the simulation, the answer would depend on the schedule: always True if everything runs at once, and a
program that forgets to wait after a poll would look right. If it always said False, a loop that polls would never
end. So a poll that no earlier wait has answered is False a fixed number of times, as of a slow device, and then
behaves as a wait. Under the eager schedule, which exists for its timing, the virtual clock answers.

The legacy default stream includes the blocking streams in every wait and poll, as in CUDA.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from xferlib.sim.detect.detector import Mode
from xferlib.sim.machine.injection import Point
from xferlib.sim.model.streams import SimEvent, SimStream, StreamKind

if TYPE_CHECKING:
    from xferlib._core.device import Device
    from xferlib.sim.machine.lifetimes import Lifetimes
    from xferlib.sim.machine.parts import Parts
    from xferlib.sim.model.hosts import HostThread

_POLLS = 64
"""How many times a poll that no synchronisation has answered is False."""


class Waits:
    """The host's waits for one machine."""

    def __init__(self, machine: Parts, lifetimes: Lifetimes, enter: Callable[[Point, Device], HostThread]) -> None:
        self._machine = machine
        self._lifetimes = lifetimes
        self._enter = enter

    def is_done(self, event: SimEvent) -> bool:
        """Whether the work before an event is complete; if so, the host is ordered behind it.

        Under the eager schedule, a poll that is too early advances the host's virtual clock.
        """
        machine = self._machine
        with machine.lock:
            self._lifetimes.free_collected()
            host = machine.hosts.current()
            if _knows(host, event):
                return True
            if machine.engine.schedule.is_eager:
                if event.time_s > host.time_s:
                    host.time_s += machine.timeline.enqueue_s
                    return False
            else:
                event.polls += 1
                if event.polls <= _POLLS:
                    return False
            self._reach(host, event)
            return True

    def is_stream_done(self, stream: SimStream) -> bool:
        """Whether a stream's work is complete, as for `is_done`; the legacy stream includes the blocking ones."""
        machine = self._machine
        with machine.lock:
            found = [self._is_idle(each) for each in self._together(stream)]  # no short circuit: each counts its polls
            found += [self.is_done(event) for event in stream.awaited.values()]
            return all(found)

    def _is_idle(self, stream: SimStream) -> bool:
        tail = stream.tail
        if tail is None:
            return True
        if stream.polled is None or stream.polled.operation is not tail:
            stream.polled = SimEvent(stream, tail, self._machine.participants, timing=False)
        if not self.is_done(stream.polled):
            return False
        stream.polled = None
        return True

    def _together(self, stream: SimStream) -> Collection[SimStream]:
        """The streams that a wait for ``stream`` includes."""
        if stream.kind is StreamKind.LEGACY:
            return [*self._machine.streams[stream.device].blocking, stream]
        return (stream,)

    def _reach(self, host: HostThread, event: SimEvent) -> None:
        self._machine.engine.force(event.operation)
        host.learn(event.clock)
        host.time_s = max(host.time_s, event.time_s)

    def synchronize(self, event: SimEvent) -> None:
        """Block until the work before an event is complete."""
        machine = self._machine
        with machine.lock:
            host = self._enter(Point.SYNCHRONIZE, event.stream.device)
            host.time_s += machine.timeline.profile.synchronize_s
            self._reach(host, event)
            self._lifetimes.retire_ended()

    def synchronize_stream(self, stream: SimStream) -> None:
        """Block until the work on a stream is complete; the legacy stream includes the blocking ones."""
        machine = self._machine
        with machine.lock:
            host = self._enter(Point.SYNCHRONIZE, stream.device)
            self._drain(host, self._together(stream))

    def synchronize_device(self, device: Device) -> None:
        """Block until all work on a device is complete."""
        with self._machine.lock:
            host = self._enter(Point.SYNCHRONIZE, device)
            self._drain(host, self._machine.streams[device].every)

    def quiesce(self) -> None:
        """Finish everything, as if every stream of every device had been synchronised."""
        machine = self._machine
        with machine.lock:
            self._lifetimes.free_collected()
            for each in machine.streams.values():
                self._drain(machine.hosts.current(), each.every)
            machine.engine.drain()

    def abandon(self) -> None:
        """Finish everything with the detector off, so that no fault of it is reported later."""
        detector, faults = self._machine.detector, self._machine.faults
        mode, detector.mode = detector.mode, Mode.OFF
        plan, faults.plan = faults.plan, None
        try:
            self.quiesce()
            detector.postponed = []
        finally:
            detector.mode, faults.plan = mode, plan

    def _drain(self, host: HostThread, streams: Collection[SimStream]) -> None:
        machine = self._machine
        host.time_s += machine.timeline.profile.synchronize_s
        for stream in streams:
            for operation in (stream.tail, stream.last_wait):
                if operation is not None:
                    machine.engine.force(operation)
            host.join(stream)
            for event in stream.awaited.values():
                host.learn(event.clock)
            host.time_s = max(host.time_s, stream.time_s)
        self._lifetimes.retire_ended()


def _knows(host: HostThread, event: SimEvent) -> bool:
    known = host.clock.get(event.participant.key, 0) >= event.tick
    return (known or event.participant.is_retired) and event.operation.is_done
