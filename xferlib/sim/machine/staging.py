"""Transfers that threads stage, begun as late as the contract allows: when the program waits for them.

Real helper threads are usually fast: a program that changes the source right after `to_device_async` gets away with it
on most runs. Running them here would make the report depend on the same luck. So a transfer that threads would stage
is only queued, and the thread that waits for it, or polls it often enough, does the staging.

Its accesses count from the call that starts it, at every size. They belong to two participants. The copies on the
device are ordered behind all that the stream had then, and before nothing until all of them are enqueued, which the
program can only know by waiting for the transfer. The staging uses the host's memory from the call until the program
has waited.

The detector sees declared accesses only, and NumPy declares none. So the source's checksum is taken when the transfer
is called and again when its staging begins, and the target holds the pattern of uninitialised memory until then.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from xferlib._core.layout import address
from xferlib._runtime.callsite import user_call
from xferlib.sim.detect.reports import Hazard, change_between, race_between
from xferlib.sim.machine.host_functions import HostCalls
from xferlib.sim.model import blocks
from xferlib.sim.model.blocks import Span, Spans
from xferlib.sim.model.clocks import Clock, KeptClock, Participant, joined
from xferlib.sim.model.hosts import Handover, Stager, TransferCopies
from xferlib.sim.model.memory import Watch, accept, bounds_of, checksum, fill_uninitialised, look
from xferlib.sim.model.operations import Action
from xferlib.sim.model.streams import StreamHandle

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.layout import HostArray
    from xferlib._core.staging_hooks import Ends
    from xferlib._runtime.jobs import Job
    from xferlib.sim.machine.host_functions import HostUse
    from xferlib.sim.machine.parts import Parts
    from xferlib.sim.model.blocks import Block
    from xferlib.sim.model.hosts import HostThread

_MOST_POSTPONED = 32
_POLLS = 64
_READER = Participant(-1, "the host, for xferlib.prefetch")
_READER.is_retired = True


class PostponedStaging:
    """One transfer whose staging has not begun."""

    def __init__(self, machine: Parts, staging: Staging, job: Job, ends: Ends) -> None:
        assert isinstance(ends.stream, StreamHandle)
        self._machine = machine
        self._staging = staging
        self._job: Job | None = job
        self._ends: Ends | None = ends
        location, call = user_call()
        self.stager = Stager(machine.participants, ends.stream.stream, location, call)
        name = "the staging of a source" if ends.is_upload else "the staging into a target"
        self.action = Action(name, self.stager, location, call)
        self._sources: list[Block] = []
        self._polls = 0
        self._watch: Watch | None = None

    def ask(self) -> None:
        """Check the transfer's accesses, which count from now on."""
        ends, stager, machine = self._ends, self.stager, self._machine
        assert ends is not None
        host = machine.hosts.current()
        stager.learn(host.clock)
        stager.time_s = host.time_s
        machine.order(stager.stream, host)
        stager.copies.learn(stager.stream.clock)
        block = machine.memory.find(ends.device.pointer)
        assert block is not None
        spans = blocks.spans(ends.device, block)
        owners = (getattr(each, "allocation", None) for each in ends.kept)
        self._sources = [block, *(owner.block for owner in owners if owner is not None)]
        name = "copy host to device" if ends.is_upload else "copy device to host"
        copies = Action(name, stager.copies, stager.location, stager.call)
        clock = stager.clock if ends.is_upload else joined(stager.clock, stager.copies.clock)
        if machine.detector.is_on:
            machine.detector.check(copies, stager.copies.clock, *_either(spans, is_write=ends.is_upload))
        self._staging.check(self.action, clock, ends.host, is_write=not ends.is_upload)
        self._outcome = Handover(joined(clock), 0.0, machine.participants)

    def watch(self) -> None:
        """Take the checksum of the host's memory, a target's once it looks uninitialised."""
        assert self._ends is not None
        host, is_target, watches = self._ends.host, not self._ends.is_upload, self._machine.watches
        if is_target and not self._machine.functions and not watches.over(host):  # those may need the old contents
            fill_uninitialised(host)
        self._watch = Watch(host, is_target=is_target)
        watches.add(self._watch)

    def begin(self) -> None:
        """Stage in the calling thread, and report if the program has changed the host's memory before."""
        job, ends = self._job, self._ends
        if job is None or ends is None:
            return
        machine, watch = self._machine, self._watch
        try:
            self._job = self._ends = None  # the queue of postponed transfers must not keep the array alive
            if watch is not None:
                machine.watches.remove(watch)
                watch.look()
            self._stage(job, ends)
        except BaseException:  # Ctrl-C: nothing goes on with the transfer
            self._retire()
            raise
        machine.detector.raise_postponed()
        if watch is not None and watch.is_changed and machine.detector.is_on:
            machine.detector.report(
                change_between(
                    Hazard.SOURCE_CHANGED if ends.is_upload else Hazard.TARGET_CHANGED,
                    self.action,
                    f"{ends.host.nbytes} bytes of host memory",
                )
            )

    def _stage(self, job: Job, ends: Ends) -> None:
        machine, stager = self._machine, self.stager
        others = [] if ends.is_upload else machine.watches.over(ends.host)
        look(others)

        def step() -> None:
            job.help()
            job.wait()  # for a thread that has come to help, and leaves last

        try:
            machine.hosts.completions[id(job)] = functools.partial(self._complete, is_upload=ends.is_upload)
            machine.hosts.act(stager, step)
            self._leave(job, others)
        except BaseException:  # and no `finally`, whose first line an error may strike too
            self._leave(job, others)
            raise
        if job.error is None:
            with machine.lock:
                machine.hosts.over.append(stager)
                stager.stream.idle_copies.append(stager.copies)
        else:
            self._retire()

    def _leave(self, job: Job, others: list[Watch]) -> None:
        self._machine.hosts.completions.pop(id(job), None)
        self._staging.completed.pop(threading.get_ident(), None)
        accept(others)

    def _complete(self, *, is_upload: bool) -> None:
        """Order the stream behind the transfer, all of whose copies are enqueued.

        This runs before the transfer's event is recorded and before the end of its job is visible: another thread
        may act on either at once.
        """
        machine, stager = self._machine, self.stager
        with machine.lock:
            copies = stager.copies
            stager.stream.learn(copies.clock)
            stager.stream.learn(
                self._outcome.clock
            )  # or waiting for the stream would not tell where nothing is pending
            if not is_upload:  # its chunks have arrived
                stager.learn(copies.clock)
                for block in self._sources:
                    block.left[copies.key] = KeptClock(dict(copies.clock), machine.participants)
            else:
                self._staging.completed[threading.get_ident()] = copies
            self._sources = []
            stager.outcome = self._outcome

    def drop(self) -> None:
        """Forget a transfer that the program has dropped: changes to its memory are no fault any more."""
        self._job = self._ends = None
        self._retire()

    def _retire(self) -> None:
        if self._watch is not None:
            self._machine.watches.remove(self._watch)
        self._staging.calls.forget(self.stager, self.stager.copies)
        self.stager.is_retired = self.stager.copies.is_retired = True
        self._machine.hosts.over += [self.stager, self.stager.copies]

    def is_due(self) -> bool:
        """Whether the program has polled often enough that the transfer should begin."""
        self._polls += 1
        return self._polls > _POLLS

    def participants(self) -> tuple[Participant, Participant]:
        return self.stager, self.stager.copies


class Staging:
    """The postponed transfers, and the ordinary memory that transfers use."""

    def __init__(self, machine: Parts, enter: Callable[[], HostThread]) -> None:
        self._machine = machine
        self._enter = enter
        self.postponed: deque[PostponedStaging] = deque()
        self.completed: dict[int, TransferCopies] = {}
        """By thread: of the upload whose event it records next."""
        self.calls = HostCalls(machine)
        self._sides: list[HostUse] = []

    def postpone(self, job: Job, ends: Ends) -> PostponedStaging:
        """Postpone a transfer, unless the schedule is eager."""
        machine = self._machine
        with machine.lock:
            self._enter()
            asked = PostponedStaging(machine, self, job, ends)
            try:
                asked.ask()
                if not machine.engine.schedule.is_eager:
                    asked.watch()
                    self.postponed.append(asked)
            except BaseException:
                asked.drop()
                raise
        if machine.engine.schedule.is_eager:
            asked.begin()
            return asked
        if len(self.postponed) > _MOST_POSTPONED:  # a program that has dropped the handle will never wait for it
            self.postponed.popleft().begin()
        return asked

    def check(self, action: Action, clock: Clock, host: HostArray, *, is_write: bool) -> None:
        """Check an access to host memory, by a thread of the program or by a transfer."""
        machine = self._machine
        low, high = bounds = bounds_of(host)
        if high <= low:
            return
        use = self.calls.use(action, clock, host, bounds, is_write=is_write)
        block = machine.memory.find(low)
        if block is not None:
            self.calls.describe(block)
            if machine.detector.is_on:
                reads, writes = _either(_bytes(block, low, high, host), is_write=is_write)
                machine.detector.check(action, clock, reads, writes)
        else:
            for side in self.sides():
                first = side.action
                is_ordered = side.is_before(clock) or first.participant.is_retired
                if not is_ordered and side.collides(host, bounds, is_write=is_write):
                    hazard = Hazard.HOST_WRITE if is_write else Hazard.HOST_READ
                    memory = f"{host.nbytes} bytes of ordinary host memory"
                    machine.detector.report(race_between(hazard, first, action, memory))
                    break
            if isinstance(action.participant, Stager):
                self._sides.append(use)
        if not self.calls.is_idle:
            self.calls.check(use)

    def is_clear(self, host: HostArray) -> bool:
        """Whether no check concerns an array: most blocking transfers need to know no more."""
        return not self.sides() and self.calls.is_idle and self._machine.memory.find(address(host)) is None

    def sides(self) -> list[HostUse]:
        """The memory of the transfers that the program has not waited for."""
        if not self._sides:
            return self._sides
        known = self._machine.hosts.main.clock
        self._sides = [
            side
            for side in self._sides
            if known.get(side.action.participant.key, 0) < side.action.tick and not side.action.participant.is_retired
        ]
        return self._sides


class WatchedBatch:
    """A batch that `prefetch` may read before it yields it, and that the program must not change meanwhile."""

    def __init__(self, machine: Parts, hosts: list[HostArray]) -> None:
        self._machine = machine
        self._hosts = [(each, checksum(each)) for each in hosts if isinstance(each, np.ndarray)]
        location, call = user_call()
        self._action = Action("the read of a batch ahead", _READER, location, call)
        self._reported = self._reports()

    def _reports(self) -> int:
        return self._machine.detector.occurrences(Hazard.SOURCE_CHANGED, self._action.site)

    def handed_out(self) -> None:
        """Report changes of the batch, which the program gets now."""
        hosts, self._hosts = self._hosts, []
        detector = self._machine.detector
        if self._reports() > self._reported:
            return  # the copy has reported it
        for host, before in hosts:
            if detector.is_on and checksum(host) != before:
                detector.report(change_between(Hazard.SOURCE_CHANGED, self._action, f"{host.nbytes} bytes of a batch"))


def _either(spans: Spans, *, is_write: bool) -> tuple[Spans, Spans]:
    return ((), spans) if is_write else (spans, ())


def _bytes(block: Block, low: int, high: int, host: HostArray) -> Spans:
    """The spans of an array in page-locked memory."""
    start = host.__array_interface__["data"][0] - block.pointer
    if high <= block.pointer + block.nbytes:
        return blocks.strided_spans(block, start, host.shape, host.strides, host.itemsize)
    return (Span(block, low - block.pointer, block.nbytes),)
