"""The simulated machine: devices, streams, events, memory, and every operation's way through them.

One call does one thing under one lock: order it by CUDA's rules, let the detector look, give it to the
engine. The layers below know nothing of each other; this file is where they meet.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from xferlib import _device
from xferlib._site import user_site
from xferlib.errors import DeviceMemoryError, ForkError
from xferlib.sim import hostdata, schedules
from xferlib.sim.detector import Detector, Mode
from xferlib.sim.engine import Engine
from xferlib.sim.hosts import Hosts, HostThread
from xferlib.sim.injection import Fault, Faults, Point
from xferlib.sim.lanes import Timeline
from xferlib.sim.lifetimes import Allocation, Lifetimes
from xferlib.sim.memory import Block, Memory
from xferlib.sim.operations import Action, Operation, Span, Spans
from xferlib.sim.profile import HOST, Lane
from xferlib.sim.reports import UNRECORDED, Access, Hazard, Race, RaceError, SimError, WrongDeviceError
from xferlib.sim.settings import Settings
from xferlib.sim.staging import Staging
from xferlib.sim.streams import DeviceStreams, SimEvent, SimStream, StreamKind, Waited

if TYPE_CHECKING:
    from xferlib._device import Device
    from xferlib._layout import HostArray
    from xferlib.backends.base import Listener
    from xferlib.sim.guard import PageGuard

_POLLS = 64
"""A poll that no synchronisation has answered is False so often: a device may take that long."""


class Machine:
    """Devices, and a host that drives them.

    Args:
        settings: What it is made of.
        schedule: Overrides the schedule that ``settings`` names.
    """

    def __init__(self, settings: Settings | None = None, schedule: schedules.Schedule | None = None) -> None:
        settings = settings if settings is not None else Settings()
        self.settings = settings
        self.lock = threading.RLock()
        self.keys = itertools.count(3)  # 0 to 2 are the handles of the default streams
        self.hosts = Hosts(self.keys)
        self.memory = Memory()
        self.detector = Detector(settings.mode)
        self.engine = Engine(schedule or schedules.named(settings.schedule, settings.seed))
        self.hosts.stage = self._stage
        self.hosts.put_off = Staging(self).postpone
        self.guard: PageGuard | None = None
        self.faults = Faults()
        self.timeline = Timeline(settings.profile)
        self.listener: Listener | None = None
        """Who is told of every operation and when it would run."""
        self.devices = tuple(_device.make("sim", "sim", index) for index in range(settings.devices))
        self.streams = {
            device: DeviceStreams(SimStream(next(self.keys), device, StreamKind.LEGACY, user_site()))
            for device in self.devices
        }
        self._per_thread: weakref.WeakKeyDictionary[threading.Thread, dict[Device, SimStream]] = (
            weakref.WeakKeyDictionary()
        )
        self.lifetimes = Lifetimes(self)
        self._polled: SimEvent | None = None
        self.forked_from = 0
        existing.add(self)

    # --- entering

    def _enter(
        self, point: Point | None = None, device: Device | None = None, stream: SimStream | None = None
    ) -> HostThread:
        if self.forked_from:
            raise ForkError(
                f"the simulated accelerator is used in process {os.getpid()}, forked from {self.forked_from} after it "
                "was initialised there; start workers with multiprocessing.get_context('spawn'), or fork first"
            )
        if self.lifetimes.has_news:
            self.lifetimes.bury()
        self.detector.raise_postponed()
        if self.guard is not None and self.guard.touches:
            hostdata.report_touches(self, self.guard)
        host = self.hosts.current()
        host.time_s += self.timeline.profile.enqueue_s
        if point is not None and (self.faults.plan is not None or self.faults.lost):
            self._strike(point, device, stream)
        return host

    def _strike(self, point: Point, device: Device | None, stream: SimStream | None) -> None:
        lost = len(self.faults.lost)
        try:
            if self.faults.strike(point, device) is Fault.SLOW_STREAM and stream is not None:
                self.slow(stream)
        finally:
            if len(self.faults.lost) > lost:
                self.abandon()  # a lost device carries nothing out any more: nothing of it may come later

    def settle(self) -> None:
        """Bury what has died, and raise what was found where nothing could be raised."""
        with self.lock:
            self.lifetimes.bury()
            self.detector.raise_postponed()
            if self.guard is not None:
                hostdata.report_touches(self, self.guard)

    # --- streams

    def stream(self, device: Device, kind: StreamKind = StreamKind.NON_BLOCKING, priority: int = 0) -> SimStream:
        """A new stream."""
        with self.lock:
            self._enter()
            stream = SimStream(next(self.keys), device, kind, user_site(), priority)
            self.streams[device].add(stream)
            return stream

    def per_thread(self, device: Device) -> SimStream:
        """The calling thread's own default stream."""
        with self.lock:
            streams = self._per_thread.setdefault(threading.current_thread(), {})
            if device not in streams:
                streams[device] = self.stream(device, StreamKind.PER_THREAD)
            return streams[device]

    def _order(self, stream: SimStream, host: HostThread) -> list[Operation | None]:
        """Put what follows on ``stream`` behind what CUDA's rules put before it."""
        stream.join(host)
        if stream.time_s < host.time_s:
            stream.time_s = host.time_s
        if stream.kind is StreamKind.NON_BLOCKING:
            return [stream.tail]
        after = [stream.tail]
        for other in self.streams[stream.device].before(stream):
            stream.join(other)
            after.append(other.tail)
            stream.time_s = max(stream.time_s, other.time_s)
        return after

    # --- operations

    def enqueue(
        self,
        stream: SimStream,
        name: str,
        run: Callable[[], None],
        *,
        reads: Spans = (),
        writes: Spans = (),
        lane: Lane = Lane.KERNELS,
        nbytes: int = 0,
    ) -> Operation:
        """Enqueue an operation that reads and writes those bytes; ``run`` does it when its turn comes."""
        with self.lock:
            host = self._enter(Point.LAUNCH if lane is Lane.KERNELS else Point.COPY, stream.device, stream)
            if lane is Lane.KERNELS:
                self._refuse_foreign(stream, name, (*reads, *writes))
            after = self._order(stream, host)
            operation = Operation(name, stream, user_site(), reads, writes, run)
            if self.detector.is_on:
                try:
                    self.detector.check(operation, stream.clock, reads, writes)
                except RaceError:
                    operation.tick = 0  # it will not be carried out: nothing later can collide with it
                    raise
                for block, _, _ in (*reads, *writes):
                    if len(block.shadow) >= block.prune_at:
                        self._prune(block)
            if lane is not Lane.KERNELS:
                hostdata.watch(self, operation)
            stream.tail = operation
            stream.time_s = self.timeline.add(lane, stream.device.index, stream.key, name, nbytes, stream.time_s)
            if self.listener is not None and lane is not Lane.NONE:
                kind = "kernel" if lane is Lane.KERNELS else lane.value
                device = f"sim:{stream.device.index}"
                start_s = self.timeline.last.start_s
                self.listener(kind, name, nbytes, device, stream.handle, start_s, stream.time_s, operation.site)
            self.engine.add(operation, after)
            return operation

    def _refuse_foreign(self, stream: SimStream, name: str, spans: Spans) -> None:
        for block, _, _ in spans:
            if block.device is not stream.device and block.device is not None:
                raise WrongDeviceError(
                    f"{Hazard.WRONG_DEVICE.value}: {name} at {user_site()} uses {block.where} on {stream.label}; use "
                    f"a stream of {block.device}, or move the array with to_device(x, device={str(stream.device)!r})"
                )

    def _prune(self, block: Block) -> None:
        main = self.hosts.main.clock

        def known(action: Action) -> bool:
            return action.participant.is_retired or main.get(action.participant.key, 0) >= action.tick

        self.detector.prune(block, known)
        block.prune_at = max(block.prune_at, 2 * len(block.shadow))

    def span(self, pointer: int, nbytes: int, name: str, stream: SimStream) -> Span:
        """The bytes at an address, for an operation about to be enqueued."""
        block = self.memory.find(pointer)
        if block is not None and pointer - block.pointer + nbytes <= block.nbytes:
            return Span(block, pointer - block.pointer, pointer - block.pointer + nbytes)
        freed = self.memory.freed(pointer)
        if block is None and freed is not None:
            race = Race(
                hazard=Hazard.USE_AFTER_FREE,
                first=Access.of(freed.action),
                second=Access(name, stream.label, user_site()),
                memory=freed.where,
                missing="the memory was freed before this operation was even enqueued",
                remedy=f"keep the array alive until after {user_site()}",
            )
            self.detector.report(race)
        raise SimError(
            f"{name}: {nbytes} bytes at address {pointer:#x} are "
            + (f"beyond the end of {block.where}" if block is not None else "in no device memory and not page-locked")
            + f" ({user_site()}); a GPU would fail or corrupt other data"
        )

    # --- events

    def record(self, stream: SimStream, *, timing: bool = False) -> SimEvent:
        """An event after the work on ``stream`` so far."""
        with self.lock:
            host = self._enter(Point.RECORD, stream.device)
            after = self._order(stream, host)
            operation = Operation("record", stream, user_site(), (), (), None)
            stream.tail = operation
            self.engine.add(operation, after)
            return SimEvent(stream, operation, timing=timing)

    def wait(self, stream: SimStream, event: SimEvent) -> None:
        """Let what follows on ``stream`` wait for an event, as it was last recorded."""
        with self.lock:
            host = self._enter(Point.WAIT, stream.device)
            after = self._order(stream, host)
            stream.learn(event.clock)
            stream.time_s = max(stream.time_s, event.time_s)
            operation = Operation("wait", stream, user_site(), (), (), None)
            stream.waited[event.stream.key] = Waited(event, operation.site)
            stream.tail = operation
            self.engine.add(operation, [*after, event.operation])

    def wait_unrecorded(self, stream: SimStream) -> None:
        """A wait for an event that was never recorded: does nothing, and is remembered for a report."""
        with self.lock:
            stream.waited[UNRECORDED] = Waited(None, user_site())

    def is_done(self, event: SimEvent) -> bool:
        """Whether the work before an event has finished; if so the host is ordered behind it.

        True where the host has synchronised with it already. Else the device takes its time: False
        for a number of polls, so that no program's correctness rests on a device being fast.
        """
        with self.lock:
            if self.lifetimes.has_news:
                self.lifetimes.bury()
            host = self.hosts.current()
            if self._knows(host, event):
                return True
            event.polls += 1
            if event.polls <= _POLLS and not self.engine.schedule.is_eager:
                return False
            self._reach(host, event)
            return True

    def is_stream_done(self, stream: SimStream) -> bool:
        """Whether all work on a stream has finished, as `is_done` has it."""
        with self.lock:
            tail = stream.tail
            if tail is None:
                return True
            if self._polled is None or self._polled.operation is not tail:
                self._polled = SimEvent(stream, tail, timing=False)
            return self.is_done(self._polled)

    def _knows(self, host: HostThread, event: SimEvent) -> bool:
        known = host.clock.get(event.stream.key, 0) >= event.operation.tick
        return (known or event.stream.is_retired) and event.operation.is_done

    def _reach(self, host: HostThread, event: SimEvent) -> None:
        self.engine.force(event.operation)
        host.learn(event.clock)
        host.time_s = max(host.time_s, event.time_s)

    # --- the host waits

    def synchronize(self, event: SimEvent) -> None:
        """Block until the work before an event has finished."""
        with self.lock:
            host = self._enter(Point.SYNCHRONIZE, event.stream.device)
            host.time_s += self.timeline.profile.synchronize_s
            self._reach(host, event)
            self.lifetimes.retire_ended()

    def synchronize_stream(self, stream: SimStream) -> None:
        """Block until the work on a stream has finished."""
        with self.lock:
            host = self._enter(Point.SYNCHRONIZE, stream.device)
            self._drain(host, (stream,))

    def synchronize_device(self, device: Device) -> None:
        """Block until all work on a device has finished."""
        with self.lock:
            host = self._enter(Point.SYNCHRONIZE, device)
            self._drain(host, self.streams[device].every)

    def quiesce(self) -> None:
        """Finish everything, as if every stream of every device had been synchronised."""
        with self.lock:
            self.lifetimes.bury()
            for each in self.streams.values():
                self._drain(self.hosts.current(), each.every)

    def abandon(self) -> None:
        """Finish everything without looking, so that nothing of it is found later."""
        mode, self.detector.mode = self.detector.mode, Mode.OFF
        plan, self.faults.plan = self.faults.plan, None
        try:
            self.quiesce()
            self.detector.clear_postponed()
        finally:
            self.detector.mode, self.faults.plan = mode, plan

    def _drain(self, host: HostThread, streams: Collection[SimStream]) -> None:
        host.time_s += self.timeline.profile.synchronize_s
        for stream in streams:
            if stream.tail is not None:
                self.engine.force(stream.tail)
            host.join(stream)
            host.time_s = max(host.time_s, stream.time_s)
        self.lifetimes.retire_ended()

    # --- memory

    def allocate(self, nbytes: int, stream: SimStream) -> Allocation:
        """Device memory, in the order of a stream, freed when the result dies."""
        with self.lock:
            self._enter(Point.ALLOCATE, stream.device)
            used, limit = self.memory.used.get(stream.device.index, 0), self.settings.memory_nbytes
            if used + nbytes > limit:
                raise DeviceMemoryError(
                    f"{nbytes} bytes do not fit on {stream.device}: {used} of {limit} bytes are in use; free arrays, "
                    "move the data in parts, or raise XFERLIB_SIM_MEMORY"
                )
            return Allocation(self, self.memory.allocate(nbytes, stream.device, stream, user_site()))

    def track_host(self, data: HostArray) -> Block:
        """Let devices reach host memory, and follow who touches it."""
        with self.lock:
            self._enter()
            return self.memory.track(data, user_site())

    def pass_point(self, point: Point) -> None:
        """Pass a point at which a fault can strike, outside any operation."""
        with self.lock:
            self._enter(point)

    def host_access(self, data: HostArray, *, is_write: bool) -> None:
        """The host reads or writes an array: checked if a device can reach its memory."""
        hostdata.touch(self, data, is_write=is_write)

    def _stage(self, host: HostThread, nbytes: int) -> None:
        with self.lock:
            host.time_s = self.timeline.add(Lane.STAGING, HOST, host.key, "stage", nbytes, host.time_s)
            if self.listener is not None:
                start_s = self.timeline.last.start_s
                self.listener("staging", "stage", nbytes, "host", host.label, start_s, host.time_s, user_site())

    def slow(self, stream: SimStream) -> None:
        """Let operations on a stream take longer on the virtual clock."""
        assert self.faults.plan is not None
        self.timeline.slowed[stream.key] = self.faults.plan.slowness


existing: weakref.WeakSet[Machine] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """As with CUDA, a device does not survive a fork; another thread may have held the lock."""
    for machine in existing:
        machine.lock = threading.RLock()
        machine.forked_from = os.getppid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
