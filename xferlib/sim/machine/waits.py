"""How the host waits for the devices, and asks whether they are done: what it knows afterwards."""

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
"""A poll that no synchronisation has answered is False so often: a device may take that long."""


class Waits:
    """The host's waits for one machine."""

    def __init__(self, machine: Parts, lifetimes: Lifetimes, enter: Callable[[Point, Device], HostThread]) -> None:
        self._machine = machine
        self._lifetimes = lifetimes
        self._enter = enter

    def is_done(self, event: SimEvent) -> bool:
        """Whether the work before an event has finished; if so the host is ordered behind it.

        True where the host has synchronised with it already. Else the device takes its time: False
        for a number of polls, so that no program's correctness rests on a device being fast. Under the eager
        schedule the virtual clock says whether it would be done by now, and a poll that is too early takes time.
        """
        machine = self._machine
        with machine.lock:
            self._lifetimes.bury()
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
        """Whether a stream's work has finished, as `is_done` has it; of the legacy one: that on blocking ones too."""
        machine = self._machine
        with machine.lock:
            found = [self._is_idle(each) for each in self._together(stream)]  # all of them: each counts its polls
            found += [self.is_done(event) for event in stream.awaited.values()]
            return all(found)

    def _is_idle(self, stream: SimStream) -> bool:
        tail = stream.tail
        if tail is None:
            return True
        if stream.polled is None or stream.polled.operation is not tail:
            stream.polled = SimEvent(stream, tail, self._machine.roll, timing=False)
        if not self.is_done(stream.polled):
            return False
        stream.polled = None
        return True

    def _together(self, stream: SimStream) -> Collection[SimStream]:
        """The streams whose work the host waits for with that of ``stream``."""
        if stream.kind is StreamKind.LEGACY:
            return [*self._machine.streams[stream.device].blocking, stream]
        return (stream,)

    def _reach(self, host: HostThread, event: SimEvent) -> None:
        self._machine.engine.force(event.operation)
        host.learn(event.clock)
        host.time_s = max(host.time_s, event.time_s)

    def synchronize(self, event: SimEvent) -> None:
        """Block until the work before an event has finished."""
        machine = self._machine
        with machine.lock:
            host = self._enter(Point.SYNCHRONIZE, event.stream.device)
            host.time_s += machine.timeline.profile.synchronize_s
            self._reach(host, event)
            self._lifetimes.retire_ended()

    def synchronize_stream(self, stream: SimStream) -> None:
        """Block until the work on a stream has finished; of the legacy stream: that on blocking streams too."""
        machine = self._machine
        with machine.lock:
            host = self._enter(Point.SYNCHRONIZE, stream.device)
            self._drain(host, self._together(stream))

    def synchronize_device(self, device: Device) -> None:
        """Block until all work on a device has finished."""
        with self._machine.lock:
            host = self._enter(Point.SYNCHRONIZE, device)
            self._drain(host, self._machine.streams[device].every)

    def quiesce(self) -> None:
        """Finish everything, as if every stream of every device had been synchronised."""
        machine = self._machine
        with machine.lock:
            self._lifetimes.bury()
            for each in machine.streams.values():
                self._drain(machine.hosts.current(), each.every)
            machine.engine.drain()

    def abandon(self) -> None:
        """Finish everything without looking, so that nothing of it is found later."""
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
    known = host.clock.get(event.stream.key, 0) >= event.operation.tick
    return (known or event.stream.is_retired) and event.operation.is_done
