"""The simulated machine: devices, streams, events, memory, and the steps of every operation.

An operation is ordered by CUDA's rules, checked by the detector, given a time on the virtual clock and passed to the
engine. These parts know nothing of each other; this file connects them.

The detector must run when an operation is enqueued, not when it is carried out: only then does the call have a line in
the program, and only the vector clock of that moment says what the operation is ordered behind. So memory has two
states: the shadow, which is as of the last operation enqueued, and the bytes, which are as of the last one carried
out. Host memory is the exception: the program changes it at any time, so its bytes are checked when a copy runs.

All calls take one lock. An operation's order, check and time belong together, and a thread that enqueued in between
would make them disagree. Finalizers never take it: they queue for the next call.
"""

from __future__ import annotations

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xferlib._runtime.callsite import location as here
from xferlib._runtime.callsite import site_of, user_call
from xferlib._runtime.fork import reset_in_child
from xferlib.errors import DeviceMemoryError, ForkError
from xferlib.sim.detect.reports import OWN_STREAMS, TRANSFERS, UNRECORDED, SimError
from xferlib.sim.machine import addresses, host_watches, schedules
from xferlib.sim.machine.host_functions import HostFunction
from xferlib.sim.machine.injection import Fault, Point
from xferlib.sim.machine.lifetimes import Allocation, LentAllocation, Lifetimes
from xferlib.sim.machine.parts import Parts
from xferlib.sim.machine.settings import Settings
from xferlib.sim.machine.staging import PostponedStaging, Staging, WatchedBatch
from xferlib.sim.machine.waits import Waits
from xferlib.sim.model import captured
from xferlib.sim.model.blocks import Block, Spans, on_host
from xferlib.sim.model.hosts import HostThread, Stager
from xferlib.sim.model.operations import Action, Operation
from xferlib.sim.model.streams import SimEvent, SimStream, StreamKind, Waited, later
from xferlib.sim.timing.profile import HOST, Lane

if TYPE_CHECKING:
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import OperationListener
    from xferlib._core.staging_hooks import Ends
    from xferlib._runtime.jobs import Job

KERNELS, _LAUNCH, _COPY = Lane.KERNELS, Point.LAUNCH, Point.COPY  # looking up an enumeration's member costs a call


class Machine(Parts):
    """Devices, and a host that drives them.

    Args:
        settings: Its settings; those of the environment if omitted.
        schedule: Overrides the schedule that ``settings`` names.
    """

    def __init__(self, settings: Settings | None = None, schedule: schedules.Schedule | None = None) -> None:
        super().__init__(settings if settings is not None else Settings(), schedule)
        self.staging = Staging(self, self.enter)
        self.lifetimes = Lifetimes(self, self.staging.postponed)
        self.waits = Waits(self, self.lifetimes, self.enter)
        self.hosts.staged = self._staged
        self.hosts.postpone = self._postpone
        self.hosts.read_ahead = functools.partial(WatchedBatch, self)
        self.hosts.touched = functools.partial(self.host_access, is_declared=False)
        self._per_thread: weakref.WeakKeyDictionary[threading.Thread, dict[Device, SimStream]] = (
            weakref.WeakKeyDictionary()
        )
        self.forked_from = 0
        existing.add(self)

    # --- entering

    def enter(
        self, point: Point | None = None, device: Device | None = None, stream: SimStream | None = None
    ) -> HostThread:
        """Begin a call: free collected objects, raise postponed faults, inject one; returns the calling participant."""
        if self.forked_from:
            raise ForkError(
                f"the simulated accelerator is used in process {os.getpid()}, forked from {self.forked_from} after it "
                "was initialised there; start workers with multiprocessing.get_context('spawn'), or fork first"
            )
        if self.function is not None:
            raise SimError(
                "a function given to Stream.call uses the device, which CUDA refuses; give work to the stream around it"
            )
        if self.lifetimes.deaths or self.lifetimes.released:
            self.lifetimes.free_collected()
        host = self.hosts.current()
        if self.detector.postponed and type(host) is not Stager:  # there it would be taken for the transfer's error
            self.detector.raise_postponed()
        if self.guard is not None and self.guard.touches:
            host_watches.report_touches(self.detector, self.guard)
        host.time_s += self.timeline.enqueue_s
        if point is not None and (self.faults.plan is not None or self.faults.lost):
            self._strike(point, device, stream)
        return host

    def _strike(self, point: Point, device: Device | None, stream: SimStream | None) -> None:
        lost = len(self.faults.lost)
        try:
            if self.faults.strike(point, device) is Fault.SLOW_STREAM and stream is not None:
                assert self.faults.plan is not None
                self.timeline.slowed[stream.key] = self.faults.plan.slowness
        finally:
            if len(self.faults.lost) > lost:
                self.waits.abandon()  # no operation of a lost device may be carried out later

    def raise_found(self) -> None:
        """Free collected objects, and raise the faults found where nothing could be raised."""
        with self.lock:
            self.lifetimes.free_collected()
            self.detector.raise_postponed()
            if self.guard is not None:
                host_watches.report_touches(self.detector, self.guard)

    # --- streams

    def stream(self, device: Device, kind: StreamKind = StreamKind.NON_BLOCKING, priority: int = 0) -> SimStream:
        """A new stream."""
        with self.lock:
            self.enter()
            location, call = user_call()
            is_own = call in TRANSFERS or call.startswith(OWN_STREAMS)
            stream = SimStream(self.participants.enter(), device, kind, site_of(location), priority, is_own=is_own)
            self.streams[device].add(stream)
            return stream

    def per_thread(self, device: Device) -> SimStream:
        """The calling thread's own default stream."""
        with self.lock:
            streams = self._per_thread.setdefault(threading.current_thread(), {})
            if device not in streams:
                streams[device] = self.stream(device, StreamKind.PER_THREAD)
            return streams[device]

    # --- operations

    def enqueue(
        self,
        stream: SimStream,
        name: str,
        run: Callable[[], object],
        *,
        reads: Spans = (),
        writes: Spans = (),
        lane: Lane = KERNELS,
        nbytes: int = 0,
        uses_values: bool = True,
    ) -> Operation | None:
        """Enqueue an operation that reads and writes those bytes, which ``run`` carries out; None on a captured stream.

        ``uses_values``: whether reading memory without a value is a fault.
        """
        with self.lock:
            is_kernel = lane is KERNELS
            if stream.recorded is not None:
                kept: dict[str, Any] = {"lane": lane, "nbytes": nbytes, "uses_values": uses_values}
                captured.note(stream, lambda on: self.enqueue(on, name, run, reads=reads, writes=writes, **kept))
                return None
            host = self.enter(_LAUNCH if is_kernel else _COPY, stream.device, stream)
            detector = self.detector
            if is_kernel:
                device = stream.device
                for block, _, _, _ in reads + writes:
                    if block.device is not device and block.device is not None:
                        addresses.refuse_foreign(block, name, stream)
            after = self.order(stream, host)
            stager = host if type(host) is Stager else None
            location, call = user_call() if stager is None else (stager.location, stager.call)
            operation = Operation(name, stream, location, run, call)
            try:
                if detector.is_on:
                    self._check(operation, stream, reads, writes, is_kernel=is_kernel, uses_values=uses_values)
                if not is_kernel:
                    host_watches.watch(self, operation, reads, writes)
                self.engine.order(operation, after)
                stream.tail = operation
            except BaseException:
                if stream.tail is not operation:  # it will not be carried out: no later access can conflict with it
                    operation.tick = 0
                    if operation.around is not None:
                        operation.around.drop()
                raise
            if lane is not Lane.NONE:
                timing = self.timeline.add(lane, stream.device.index, stream.key, name, nbytes, stream.time_s)
                stream.time_s = timing[1]
                if self.listener is not None:
                    self._tell(self.listener, operation, lane, nbytes, timing)
            self.engine.add(operation)
            return operation

    def _check(
        self, operation: Operation, stream: SimStream, reads: Spans, writes: Spans, *, is_kernel: bool,
        uses_values: bool,
    ) -> None:  # fmt: skip
        spans = reads + writes
        calls = None if is_kernel or self.staging.calls.is_idle else self.staging.calls
        if calls is not None:
            for span in on_host(spans):
                calls.describe(span.block)
        if type(self.hosts.current()) is not Stager:
            self.detector.check(operation, stream.clock, reads, writes, uses_values=uses_values)
        else:  # the copies' accesses on the device were checked when they were requested
            self.detector.check(operation, stream.clock, on_host(reads), on_host(writes))
        if calls is not None:
            calls.copied(operation, stream.clock, reads, writes)
        for block, _, _, _ in spans:
            if block.shadow.is_cut and block.is_long:
                self._prune(block)

    def call(self, stream: SimStream, function: Callable[[], object]) -> None:
        """Enqueue a function on the host, which must not use the machine."""
        with self.lock:
            if stream.recorded is not None:
                captured.note(stream, lambda on: self.call(on, function))
                return
            called = HostFunction(self, self.staging.calls, stream, function, self.staging.sides())
            self.enqueue(stream, "host function", called.run, lane=Lane.NONE)
            called.enqueued()

    def _tell(
        self, listener: OperationListener, operation: Operation, lane: Lane, nbytes: int, timing: tuple[float, float]
    ) -> None:
        stream = operation.participant
        assert isinstance(stream, SimStream)
        kind = "kernel" if lane is KERNELS else lane.value
        listener(kind, operation.name, nbytes, f"sim:{stream.device.index}", stream.handle, *timing, operation.location)

    def _prune(self, block: Block) -> None:
        main = self.hosts.main.clock

        def known(action: Action) -> bool:
            return action.participant.is_retired or main.get(action.participant.key, 0) >= action.tick

        self.detector.prune(block, known)
        block.prune_at = max(block.prune_at, 2 * len(block.shadow))

    # --- events

    def record(self, stream: SimStream, *, timing: bool = False) -> SimEvent:
        """An event after the work on ``stream`` so far."""
        with self.lock:
            if stream.recorded is not None:
                return captured.record(stream, self.record)  # type: ignore[no-any-return]
            host = self.enter(Point.RECORD, stream.device)
            after = self.order(stream, host)
            operation = Operation("record", stream, here(), None)
            self.engine.order(operation, after)
            stream.tail = operation
            self.engine.add(operation)
            event = SimEvent(stream, operation, self.participants, timing=timing)
            if (copies := self.staging.completed.pop(threading.get_ident(), None)) is not None:
                event.narrow(copies)
            return event

    def wait(self, stream: SimStream, event: SimEvent) -> None:
        """Let the next operation of ``stream`` wait for an event, as last recorded."""
        with self.lock:
            if isinstance(event, captured.CapturedEvent):
                captured.wait(stream, event, self.wait)
                return
            host = self.enter(Point.WAIT, stream.device)
            is_legacy = stream.kind is StreamKind.LEGACY
            after = [stream.last_wait] if is_legacy else self.order(stream, host)
            stream.time_s = max(stream.time_s, event.time_s)
            operation = Operation("wait", stream, here(), None)
            self.engine.order(operation, [*after, event.operation])
            # The operations first: clocks that know of a wait which is not made would hide a race.
            if is_legacy:
                stream.last_wait = operation
                stream.awaited[event.participant.key] = later(event, stream.awaited.get(event.participant.key))
            else:
                stream.tail = operation
                stream.learn(event.clock)
            stream.waited[event.stream.key] = Waited(event, operation.location)
            self.engine.add(operation)

    def wait_unrecorded(self, stream: SimStream) -> None:
        """Note a wait for an event that was never recorded: a no-op, kept for reports."""
        with self.lock:
            stream.waited[UNRECORDED] = Waited(None, here())

    # --- memory

    def allocate(self, nbytes: int, stream: SimStream) -> Allocation:
        """Allocate device memory in the order of a stream; it is freed when the result is collected."""
        with self.lock:
            self.enter(Point.ALLOCATE, stream.device)
            used, limit = self.memory.used.get(stream.device.index, 0), self.settings.memory_nbytes
            if used + nbytes > limit:
                raise DeviceMemoryError(
                    f"{nbytes} bytes do not fit on {stream.device}: {used} of {limit} bytes are in use; free arrays, "
                    "move the data in parts, or raise XFERLIB_SIM_MEMORY"
                )
            block = self.memory.allocate(nbytes, stream.device, stream, here())
            allocation = Allocation(block, self.lifetimes.deaths)
            self.memory.enter(block)
            last_owner = stream.pool.take(nbytes, self.hosts.main.clock)
            if last_owner is not None:
                block.hand_over(last_owner)
            return allocation

    def free_memory(self, device: Device) -> int:
        """Bytes of a device that no array holds."""
        with self.lock:
            self.enter()
            return self.settings.memory_nbytes - self.memory.used.get(device.index, 0)

    def lent(self, pointer: int, nbytes: int, device: Device, owner: object) -> LentAllocation:
        """The block that holds an address, for an array that does not own it."""
        with self.lock:
            self.enter()
            return LentAllocation(addresses.on_device(self.memory, pointer, nbytes, device), owner)

    def track_host(self, data: HostArray) -> Block:
        """Let devices reach host memory, and track the accesses to it."""
        with self.lock:
            self.enter()
            return self.memory.track(data, here())

    def pass_point(self, point: Point) -> None:
        """Pass a point of fault injection, outside any operation."""
        with self.lock:
            self.enter(point)

    def host_access(self, data: HostArray, *, is_write: bool, is_declared: bool = True) -> None:
        """Check an access of the host to an array, if a device can reach its memory or a transfer uses it.

        Args:
            data, is_write: The access.
            is_declared: Whether the program declares it; otherwise a blocking transfer makes it.
        """
        with self.lock:
            if is_declared:
                if self.function is not None:
                    self.function.access(data, is_write=is_write)
                    return
                self.raise_found()
                self.engine.linger()
            elif self.staging.is_clear(data):
                return
            if self.detector.is_on:
                host = self.hosts.current()
                action = Action("a write" if is_write else "a read", host, *user_call())
                self.staging.check(action, host.clock, data, is_write=is_write)

    def _postpone(self, job: Job, ends: Ends) -> PostponedStaging:
        with self.lock:
            self.lifetimes.retire_ended()
        return self.staging.postpone(job, ends)

    def _staged(self, nbytes: int) -> None:
        host = self.hosts.current()
        with self.lock:
            timing = self.timeline.add(Lane.STAGING, HOST, host.key, "stage", nbytes, host.time_s)
            host.time_s = timing[1]
            if self.listener is not None:
                self.listener("staging", "stage", nbytes, "host", host.label, *timing, here())


existing: weakref.WeakSet[Machine] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """Make each machine unusable, as CUDA's devices are after a fork; another thread may have held its lock."""
    for machine in existing:
        machine.lock = threading.RLock()
        machine.forked_from = os.getppid()


reset_in_child(_after_fork_in_child)
