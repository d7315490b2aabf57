"""The functions of `Stream.call`: they touch host memory in their turn on a stream, and not when the program calls.

Nothing tells what a function touches before it runs, and then operations that come after it may be in flight already,
or may have written the memory and been waited for. To look at the last accesses to the memory alone would miss what
these have replaced. So while a function is in flight every access to host memory is kept, with the clock that it had,
and what the function declares is compared with them: each pair is ordered by one of the two clocks, or is a race. What
comes later is compared with what the function declared, until the host knows that this is over.

Memory that a function may want to read keeps its contents, and what it writes into the target of a later copy is no
fault.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

from xferlib._core.layout import share_memory
from xferlib.sim.detect.reports import Hazard, RaceError, race_between
from xferlib.sim.model.blocks import Span
from xferlib.sim.model.hosts import HostThread
from xferlib.sim.model.memory import accept, bounds_of, look
from xferlib.sim.model.operations import Action, at_operation
from xferlib.sim.model.ranges import lines

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from xferlib._core.layout import HostArray
    from xferlib.sim.detect.reports import Race
    from xferlib.sim.machine.page_guard import Touch
    from xferlib.sim.machine.parts import Parts
    from xferlib.sim.model.blocks import Block, Spans
    from xferlib.sim.model.clocks import Clock
    from xferlib.sim.model.memory import Bounds, Watch
    from xferlib.sim.model.operations import Operation
    from xferlib.sim.model.streams import SimStream

_MANY = 256


class HostUse(NamedTuple):
    """An access to host memory."""

    number: int
    action: Action
    clock: Clock | None
    """All that it is ordered behind; None if it came before every function in flight, where that cannot matter."""
    host: HostArray
    bounds: Bounds
    is_write: bool

    def is_before(self, clock: Clock) -> bool:
        """Whether an access with that clock is ordered behind this one."""
        return clock.get(self.action.participant.key, 0) >= self.action.tick

    def collides(self, host: HostArray, bounds: Bounds, *, is_write: bool) -> bool:
        """Whether another access, of one element at least, must be ordered with this one."""
        begin, end = self.bounds
        is_near = (is_write or self.is_write) and begin < bounds[1] and bounds[0] < end
        return is_near and share_memory(self.host, host)


class HostCalls:
    """The accesses that functions in flight may turn out to race with, and those that functions have made."""

    def __init__(self, machine: Parts) -> None:
        self._machine = machine
        self._numbers = itertools.count()
        self._others: list[HostUse] = []
        """The accesses since the first function in flight was given to its stream, and the last ones before."""
        self._described: set[Block] = set()
        """The pinned memory whose earlier accesses are among them."""
        self._touched: list[HostUse] = []
        """Those of functions, of which the host does not know that they are over."""
        self._many = _MANY

    @property
    def is_idle(self) -> bool:
        """Whether no function is in flight, and the host knows that all are over: by far the most common."""
        if not self._machine.functions:
            if self._others:
                self._others, self._described = [], set()
            if self._touched:
                known = self._machine.hosts.main.clock
                self._touched = [each for each in self._touched if not each.is_before(known)]
        return not self._machine.functions and not self._touched

    def begin(self, function: HostFunction, sides: list[HostUse]) -> int:
        """Note a function; ``sides`` are the ordinary memory that transfers use. Returns the number of its call."""
        if all(each is function for each in self._machine.functions):
            self._others, self._described = [*sides], set()
        return next(self._numbers)

    def describe(self, block: Block) -> None:
        """Note the accesses to pinned memory so far, of which the next one may replace some."""
        if not self._machine.functions or block in self._described:
            return
        self._described.add(block)
        for action, start, stop, form, is_write in block.accesses():
            memory = lines(Span(block, start, stop, form))
            bounds = (block.pointer + start, block.pointer + stop)
            self._others.append(HostUse(-1, action, None, memory, bounds, is_write))

    def use(self, action: Action, clock: Clock, host: HostArray, bounds: Bounds, *, is_write: bool) -> HostUse:
        """An access that happens now."""
        return HostUse(next(self._numbers), action, clock.copy(), host, bounds, is_write)

    def copied(self, action: Action, clock: Clock, reads: Spans, writes: Spans) -> None:
        """Check an operation's accesses to pinned memory."""
        for spans, is_write in ((reads, False), (writes, True)):
            for block, start, stop, form in spans:
                if block.device is None:
                    memory = lines(Span(block, start, stop, form))
                    bounds = (block.pointer + start, block.pointer + stop)
                    self.check(self.use(action, clock, memory, bounds, is_write=is_write))

    def check(self, use: HostUse) -> None:
        """Check an access that happens now against those of functions, and keep it for those that have not run."""
        if self._machine.functions:
            self._others.append(use)
            if len(self._others) > self._many:
                self._forget()
        assert use.clock is not None
        for other in self._touched:
            if not other.is_before(use.clock) and other.collides(use.host, use.bounds, is_write=use.is_write):
                self._machine.detector.report(_race(other, use))
                return

    def touch(self, use: HostUse, version: int) -> None:
        """Check an access of a function that runs now; number and ``version`` of participants are of its call."""
        action, clock = use.action, use.clock
        assert clock is not None
        self._touched.append(use)
        if len(self._touched) > self._many:
            self._forget()
        own = action.participant
        for other in [*self._others, *self._touched]:
            participant = other.action.participant
            has_left = participant.is_retired and participant.left_at <= version
            if participant is own or has_left or other.is_before(clock):
                continue
            if other.clock is not None and other.clock.get(own.key, 0) >= action.tick:
                continue
            if other.collides(use.host, use.bounds, is_write=use.is_write):
                first, second = (use, other) if other.number > use.number else (other, use)
                self._machine.detector.report(_race(first, second))
                return

    def forget(self, *participants: object) -> None:
        """Drop the accesses of a transfer that the program has dropped."""
        if self._others:
            self._others = [each for each in self._others if each.action.participant not in participants]

    def _forget(self) -> None:
        """Drop what no function in flight can race with, and of what others have touched all but the last of a kind."""
        functions = [each for each in self._machine.functions if each.operation is not None]

        def matters(use: HostUse) -> bool:
            for each in functions:
                assert each.operation is not None
                is_after = use.clock is not None and use.clock.get(each.stream.key, 0) >= each.operation.tick
                if not is_after and not use.is_before(each.clock):
                    return True
            return False

        self._others = [each for each in self._others if matters(each)]
        last = {(each.action.participant.key, each.bounds, each.host.strides, each.is_write): each
                for each in self._touched}  # fmt: skip
        kept = {each.number for each in last.values()}
        known = self._machine.hosts.main.clock
        self._touched = [
            each for each in self._touched if (each.number in kept and not each.is_before(known)) or matters(each)
        ]
        self._many = max(_MANY, 2 * len(self._others), 2 * len(self._touched))


def _race(first: HostUse, second: HostUse) -> Race:
    is_host = isinstance(second.action.participant, HostThread)
    if second.is_write:
        hazard = Hazard.WRITE_AFTER_WRITE if first.is_write else Hazard.WRITE_AFTER_READ
        hazard = Hazard.HOST_WRITE if is_host else hazard
    else:
        hazard = Hazard.HOST_READ if is_host else Hazard.READ_AFTER_WRITE
    return race_between(hazard, first.action, second.action, f"{second.host.nbytes} bytes of host memory")


class HostFunction:
    """One function, from the call on until it has run."""

    def __init__(
        self, machine: Parts, calls: HostCalls, stream: SimStream, function: Callable[[], object], sides: list[HostUse]
    ) -> None:
        self._machine = machine
        self._calls = calls
        self.stream = stream
        self._function: Callable[[], object] | None = function
        self.operation: Operation | None = None
        self.clock: Clock = {}
        machine.functions.add(self)
        self._number = calls.begin(self, sides)

    def enqueued(self) -> None:
        """Note the operation, and what it is ordered behind."""
        self.operation, self.clock = self.stream.tail, dict(self.stream.clock)
        self._version = self._machine.participants.version

    def run(self) -> None:
        machine = self._machine
        if self.operation is None:  # at once, before `enqueue` returns
            self.enqueued()
        watches = machine.watches.targets()
        look(watches)
        touches = None if machine.guard is None else machine.guard.touches
        before = 0 if touches is None else len(touches)
        function, self._function = self._function, None  # an error may strike it, but it is called once
        try:
            machine.function = self
            if function is not None:
                function()
            self._leave(watches, touches, before)
        except BaseException:  # and no `finally`, whose first line an error may strike too
            self._leave(watches, touches, before)
            raise

    def _leave(self, watches: list[Watch], touches: deque[Touch] | None, before: int) -> None:
        self._machine.function = None
        self._machine.functions.discard(self)
        accept(watches)
        while touches is not None and len(touches) > before:
            touches.pop()

    def access(self, data: HostArray, *, is_write: bool) -> None:
        """Check an access that the function declares; a fault is raised by the program's next call."""
        assert self.operation is not None
        # At the line that gave the function to its stream: a wait belongs before that, not into the function.
        action = at_operation("a write" if is_write else "a read", self.operation, self.operation.location, "")
        bounds = bounds_of(data)
        block = self._machine.memory.find(bounds[0])
        if block is not None:
            self._calls.describe(block)
        try:
            self._calls.touch(HostUse(self._number, action, self.clock, data, bounds, is_write), self._version)
        except RaceError as error:
            self._machine.detector.postponed.append(error.race)
