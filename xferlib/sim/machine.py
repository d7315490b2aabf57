"""The simulated machine at work: operations, schedules, waits, lifetimes, faults."""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import os
import platform
import signal
import sys
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from xferlib._core.arrays import address, share_memory
from xferlib._core.device import make_device
from xferlib._memory.buffers import is_leased
from xferlib._memory.pinned import bin_nbytes
from xferlib._runtime.checks import CodeLocation, Site, call_from, site_of, user_call, user_site
from xferlib._runtime.checks import location as here
from xferlib._runtime.process import reset_in_child
from xferlib.errors import ArgumentError, DeviceMemoryError, ForkError, UnsupportedError
from xferlib.sim import memory, model, schedules
from xferlib.sim.detector import (
    OWN_STREAMS,
    TRANSFERS,
    UNRECORDED,
    Access,
    Detector,
    Hazard,
    Mode,
    Race,
    RaceError,
    SimError,
    WrongDeviceError,
    change_between,
    race_between,
    stream_names,
    waits_of_host,
)
from xferlib.sim.implicit import ImplicitCopies
from xferlib.sim.memory import (
    AddressSpace,
    Block,
    Freed,
    Span,
    Spans,
    Watch,
    Watches,
    accept,
    bounds_of,
    checksum,
    fill_uninitialised,
    last_users,
    look,
    on_host,
    poison,
)
from xferlib.sim.model import (
    Action,
    Clock,
    DeviceStreams,
    Handover,
    Hosts,
    HostThread,
    Joined,
    KeptClock,
    LastOwner,
    NamedBytes,
    Operation,
    Participant,
    ParticipantKeys,
    Pool,
    SimEvent,
    SimStream,
    Stager,
    StreamHandle,
    StreamKind,
    TransferCopies,
    Waited,
    call_all,
    join_clocks,
    lines,
)
from xferlib.sim.schedules import Engine, Fault, Faults, Point, Settings
from xferlib.sim.timing import HOST, Lane, Timeline, seconds

if TYPE_CHECKING:
    from types import TracebackType

    from xferlib._core.arrays import HostArray
    from xferlib._core.device import Device, OperationListener
    from xferlib._core.observe import Ends
    from xferlib._runtime.threads import Job
    from xferlib.sim.memory import Bounds


# The simulated machine in use, which loading backend ``sim`` makes.


class Simulator(Protocol):
    """The backend: drives the machine, and knows the calling thread's current device and stream."""

    machine: Machine

    def devices(self) -> tuple[Device, ...]: ...
    def device_current(self) -> Device: ...
    def current(self, device: Device, /) -> SimStream: ...


_instance: Simulator | None = None


def install(simulator: Simulator) -> None:
    """Set the backend, which the registry has made."""
    global _instance
    _instance = simulator


def simulator() -> Simulator:
    """The backend, loaded."""
    if _instance is None:
        from xferlib._core import registry

        registry.get("sim")
        assert _instance is not None
    return _instance


def machine() -> Machine:
    """The machine that the backend drives."""
    return simulator().machine


def stream(device: Device) -> SimStream:
    """The calling thread's current stream on a device."""
    return simulator().current(device)


# The functions of `Stream.call`: they touch host memory in their turn on a stream, and not when the program calls.
#
# Nothing tells what a function touches before it runs, and then operations that come after it may be in flight already,
# or may have written the memory and been waited for. To look at the last accesses to the memory alone would miss what
# these have replaced. So while a function is in flight every access to host memory is kept, with the clock that it had,
# and what the function declares is compared with them: each pair is ordered by one of the two clocks, or is a race.
# What comes later is compared with what the function declared, until the host knows that this is over.
#
# Memory that a function may want to read keeps its contents, and what it writes into the target of a later copy is no
# fault.

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


def _count_references(uses: Iterable[HostUse]) -> Counter[int]:
    """By the id of each array that uses are of, or views of: the references that these are."""
    own = Counter([id(_ALONE.host)])
    for use in uses:
        each: Any = use.host
        while isinstance(each, np.ndarray):
            own[id(each)] += 1
            each = each.base if own[id(each)] == 1 else None
    return own


def _find_references(holder: Any, own: Counter[int]) -> tuple[int, np.ndarray[Any, Any]]:
    """The most other references to an array of those that ``holder.host`` is a view of, and the last of these."""
    most, each = 0, holder.host
    while True:
        most = max(most, sys.getrefcount(each) - own[id(each)])
        if not isinstance(each.base, np.ndarray):
            return most, each
        each = each.base


_ALONE = SimpleNamespace(host=np.empty(0))


class HostCalls:
    """The accesses that functions in flight may turn out to race with, and those that functions have made."""

    def __init__(self, machine: Machine) -> None:
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
        for action, start, stop, form, is_write in () if block.history is None else block.history.every():
            span = Span(block, start, stop, form)
            self._others.append(HostUse(-1, action, None, lines(span), span.bounds, is_write))

    def use(self, action: Action, clock: Clock, host: HostArray, bounds: Bounds, *, is_write: bool) -> HostUse:
        """An access that happens now."""
        return HostUse(next(self._numbers), action, clock.copy(), host, bounds, is_write)

    def check_copy(self, action: Action, clock: Clock, reads: Spans, writes: Spans) -> None:
        """Check an operation's accesses to pinned memory."""
        for spans, is_write in ((reads, False), (writes, True)):
            for span in on_host(spans):
                self.check(self.use(action, clock, lines(span), span.bounds, is_write=is_write))

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

    def __init__(self, machine: Machine, stream: SimStream, function: Callable[[], object]) -> None:
        self._machine = machine
        self._calls = machine.staging.calls
        self.stream = stream
        self._function: Callable[[], object] | None = function
        self.operation: Operation | None = None
        self.clock: Clock = {}
        machine.functions.add(self)
        self._number = self._calls.begin(self, machine.staging.sides())

    def note_enqueue(self) -> None:
        """Note the operation, and what it is ordered behind."""
        self._version = self._machine.participants.version
        self.clock, self.operation = dict(self.stream.clock), self.stream.tail  # last, since `run` asks for it

    def run(self) -> None:
        machine = self._machine
        if self.operation is None:  # at once, before `enqueue` returns
            self.note_enqueue()
        watches = machine.watches.targets()
        look(watches)
        guard = machine.guard
        before = 0 if guard is None else len(guard.touches)
        try:
            machine.function = self
            if (function := self._function) is not None:  # an error may strike it, but it is called once
                call_all(functools.partial(setattr, self, "_function", None), function)
            self._leave(watches, guard, before)
        except BaseException:  # and no `finally`, whose first line an error may strike too
            self._leave(watches, guard, before)
            raise

    def _leave(self, watches: list[Watch], guard: PageGuard | None, before: int) -> None:
        self._machine.function = None
        self._machine.functions.discard(self)
        accept(watches)
        if guard is not None:
            guard.forget_touches(before)

    def access(self, data: HostArray, *, is_write: bool) -> None:
        """Check an access that the function declares; a fault is raised by the program's next call."""
        assert self.operation is not None
        # At the line that gave the function to its stream: a wait belongs before that, not into the function.
        access, by = "a write" if is_write else "a read", self.operation
        action = Action(access, by.participant, by.location, tick=by.tick)
        bounds = bounds_of(data)
        block = self._machine.memory.find(bounds[0])
        if block is not None:
            self._calls.describe(block)
        try:
            self._calls.touch(HostUse(self._number, action, self.clock, data, bounds, is_write), self._version)
        except RaceError as error:
            self._machine.detector.postponed.append(error.race)


# Host memory under a copy in flight, which NumPy accesses without a call that the detector could check.
#
# The target of a copy to the host holds a pattern until the copy is carried out: an early read gets NaN, unless
# something else in flight needs the old contents. The checksums of source and target are taken when a copy is enqueued,
# or its staging put off, and again when it is carried out: a change in between, by anything but another operation, is
# reported.


def watch(machine: Machine, operation: Operation, reads: Spans, writes: Spans) -> None:
    """Make a copy from or to host memory check its bytes when it is carried out."""
    sources = on_host(reads)
    targets = on_host(writes)
    if not (sources or targets) or machine.engine.schedule.is_eager:
        return
    for span in targets:  # something else may need the old contents
        if not machine.functions and not machine.watches.over(*_memory(span)):
            poison(_memory(span)[0])
    operation.around = around = _WatchedCopy(machine, operation, sources, targets)
    around.watch()


class _WatchedCopy:
    """The host memory of a copy in flight."""

    def __init__(self, machine: Machine, operation: Operation, sources: Spans, targets: Spans) -> None:
        self._machine = machine
        self._operation = operation
        self._targets = targets
        self._spans = (*sources, *targets)
        self._guard = machine.guard
        self._watches = [Watch(*_memory(span), is_target=span in targets) for span in self._spans]
        self._others: list[Watch] = []

    def watch(self) -> None:
        self._machine.watches.add(*self._watches)
        if self._guard is not None:
            for span in self._spans:
                self._guard.protect(self._operation, span, is_target=span in self._targets)

    def drop(self) -> None:
        if self._guard is not None:
            self._guard.lift(self._operation)
        self._machine.watches.remove(*self._watches)

    def begin(self) -> None:
        self.drop()
        look(self._watches)
        self._others = [each for span in self._targets for each in self._machine.watches.over(*_memory(span))]
        look(self._others)

    def end(self) -> None:
        accept(self._others)

    def report(self) -> None:
        detector = self._machine.detector
        if self._guard is not None and self._guard.has_caught(self._operation):  # who changed it is reported
            return
        for each, span in zip(self._watches, self._spans, strict=True):
            if each.is_changed and detector.is_on:
                hazard = Hazard.TARGET_CHANGED if each.is_target else Hazard.SOURCE_CHANGED
                race = change_between(hazard, self._operation, _where(span))
                if isinstance(self._machine.hosts.current(), Stager):  # or it would be that transfer's error
                    detector.postpone(race)
                else:
                    detector.report(race)


def _memory(span: Span) -> tuple[HostArray, Bounds]:
    """The bytes between the ends of a span of host memory, and their addresses."""
    return span.block.data[span.start : span.stop], span.bounds


def _where(span: Span) -> str:
    return f"bytes {span.start} to {span.stop} of {span.block.where}"


def report_touches(detector: Detector, guard: PageGuard) -> None:
    """Report the accesses that the page guard has caught since the last call."""
    while guard.touches:
        touch = guard.touches.popleft()
        names = stream_names(touch.operation.location)
        detector.report(
            Race(
                hazard=Hazard.HOST_WRITE if touch.is_write else Hazard.HOST_READ,
                first=Access.of(touch.operation, names),
                second=Access("a write" if touch.is_write else "a read or a write", "the host", touch.site),
                memory=_where(touch.span),
                missing=f"the host does not wait for {touch.operation.participant.label}",
                remedy=waits_of_host(touch.operation, f"before {touch.site.file}:{touch.site.line}", names),
            )
        )


# The ends of arrays, page-locked memory and streams: their order, and the records that they make obsolete.
#
# Freeing a block in its owner's finalizer is the obvious way, and wrong twice. Python may run a finalizer inside any
# call into the machine, in any thread: taking the lock there can deadlock, and freeing a block changes tables in the
# middle of an operation that reads them. So a finalizer only appends to a deque, which is atomic, and the next call
# into the machine does the work, with the line of the program where the object died.
#
# A free counts as a write of the whole block, in the order of the allocation's stream. It is checked like any other,
# so memory that another stream still uses is a race, unless the owner has declared the use. Raising out of a finalizer
# is impossible, so that report waits too.
#
# Vector clocks grow by one entry for each stream and thread that ever existed. Once the host is ordered behind all that
# an ended participant did, it is removed from every clock, for many at a time: that walks through all of them.

_FEWEST_TOGETHER = 16


class Allocation:
    """Owns a block; when it is collected, the block is freed in the order of its stream."""

    __slots__ = ("__weakref__", "_deaths", "block", "events", "users")

    def __init__(self, block: Block, deaths: deque[Death]) -> None:
        self.block = block
        self._deaths = deaths
        self.users: dict[int, SimStream] = {}
        """Other streams that the owner has declared as users; the free waits for them."""
        self.events: dict[int, SimEvent] = {}
        """The last event of each stream that the free waits for."""

    def outlast(self, event: SimEvent) -> None:
        """Let the free wait for an event."""
        self.events[event.stream.key] = event

    def __del__(self) -> None:
        try:
            self._deaths.append((self.block, self.users, self.events, call_from(sys._getframe(1), "")[0]))
        except Exception:  # the interpreter is shutting down
            return


_make_owner: Callable[[type[LastOwner], tuple[Any, ...]], LastOwner] = tuple.__new__  # a third of its own time


class LentAllocation:
    """A block that an `Allocation` elsewhere owns, seen by an array that was made from its address."""

    __slots__ = ("__weakref__", "block", "owner", "users")

    def __init__(self, block: Block, owner: object) -> None:
        self.block = block
        self.owner = owner
        self.users: dict[int, SimStream] = getattr(getattr(owner, "allocation", None), "users", {})
        """Those of the owner, where that is an array: a use that is declared of one is declared of both."""

    def outlast(self, event: SimEvent) -> None:
        """Let the free wait for an event, where the owner can."""
        allocation = getattr(self.owner, "allocation", None)
        if allocation is not None:
            allocation.outlast(event)


Death = tuple[Block, dict[int, SimStream], dict[int, SimEvent], CodeLocation]
"""The memory of an array that was collected, as its `Allocation` had it, and the line where that happened."""


class Lifetimes:
    """Arrays, page-locked memory and streams that have been collected but are not processed yet."""

    __slots__ = (
        "_machine", "_most_waiting", "_retiring", "deaths", "ended", "released",
    )  # fmt: skip

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.deaths: deque[Death] = deque()
        self.released: deque[tuple[int, HostThread, CodeLocation]] = deque()
        self.ended: deque[SimStream] = deque()
        self._retiring: list[SimStream] = []
        self._most_waiting = _FEWEST_TOGETHER

    def release_host(self, pointer: int) -> None:
        """Queue the release of host memory that devices could reach; callable at any moment."""
        self.released.append((pointer, self._machine.hosts.current(), here()))

    def free_collected(self) -> None:
        """Free the arrays and the page-locked memory that were collected since the last call."""
        machine = self._machine
        deaths = self.deaths
        while deaths:
            death = deaths[0]
            try:
                ended, users, events, location = death
                accesses, stream = ended.accesses, ended.stream
                last: Action | None = None
                if type(accesses) is tuple:
                    last = accesses[1]
                if (
                    last is None or last.participant is not stream or users or events or ended.left
                    or machine.engine.schedule.reuses_memory
                ):  # fmt: skip
                    self._free(*death)
                else:  # by far the most common: its stream alone has used it, in whose order it is freed
                    if machine.detector.is_on and ended.nbytes and not stream.is_retired:
                        owner = _make_owner(LastOwner, ((last,), location))
                        stream.pool.recycle(ended.nbytes, owner, machine.hosts.main.clock)
                    machine.memory.free(ended, location)
            except BaseException:
                machine.memory.free(death[0])  # or its bytes would count as used for ever
                raise
            finally:
                if deaths and deaths[0] is death:
                    deaths.popleft()
        while self.released:
            pointer, host, location = self.released[0]
            block = machine.memory.untrack(pointer)
            self.released.popleft()
            if block is None:
                continue
            action = Action("release of page-locked memory", host, location)
            clock = Joined(machine.hosts)  # any thread may have held the last reference, as below
            if machine.detector.is_on and (race := machine.detector.check_free(action, clock, block)) is not None:
                machine.detector.postpone(race)

    def _free(
        self, block: Block, users: dict[int, SimStream], events: dict[int, SimEvent], location: CodeLocation
    ) -> None:
        machine, stream = self._machine, block.stream
        assert stream is not None
        before = [stream, *users.values(), *stream.others]
        awaited = [event for each in (stream, *users.values()) for event in each.awaited.values()]
        # Reference counts order the threads that held the array: all their uses happen before the free.
        left = () if block.left is None else block.left.values()
        clock = Joined(before, machine.hosts, events.values(), awaited, left)
        undeclared = before if not users else [stream, *before[1 + len(users) :]]
        is_kept = machine.detector.is_on and block.nbytes and not stream.is_retired  # a retired one allocates no more
        if is_kept and (still := last_users(block, [*undeclared, *stream.awaited.values()])):
            stream.pool.recycle(block.nbytes, LastOwner(still, location), machine.hosts.main.clock)
        free = Operation("free", stream, location, None)
        machine.memory.free(block, location)
        if machine.detector.is_on and (race := machine.detector.check_free(free, clock, block)) is not None:
            machine.detector.postpone(race)
        if machine.engine.schedule.reuses_memory:
            free.run = functools.partial(poison, block.data)
            tails = [each.tail for each in before]
            machine.engine.order(free, [*tails, *(event.operation for event in (*events.values(), *awaited))])
            machine.engine.add(free)

    def retire_ended(self) -> None:
        """Forget collected streams and ended threads, if the host is ordered behind all that they did."""
        machine = self._machine
        threads = machine.hosts.over
        if len(self.ended) + len(self._retiring) + len(threads) < self._most_waiting:
            return
        while self.ended:
            self._retiring.append(self.ended.popleft())
        main = machine.hosts.main.clock
        # Its last operation counts: frees may come later, but nothing can conflict with freed memory.
        over = [
            stream
            for stream in self._retiring
            if (stream.tail is None or main.get(stream.key, 0) >= stream.tail.tick)
            and all(each.is_retired or main.get(each.key, 0) >= each.clock[each.key] for each in stream.idle_copies)
        ]
        known = [each for each in threads if each.is_retired or main.get(each.key, 0) >= each.clock[each.key]]
        known += [each for stream in over for each in stream.idle_copies]
        for thread in known:
            if not thread.is_retired:
                thread.is_retired, thread.left_at = True, machine.participants.version + 1
        keys = {each.key for each in (*over, *known)}
        for stream in over:
            stream.is_retired, stream.left_at = True, machine.participants.version + 1
            stream.pool = Pool()  # its entries refer to streams that ended before
            machine.streams[stream.device].remove(stream)
        self._most_waiting = max(_FEWEST_TOGETHER, 2 * (len(self._retiring) + len(threads) - len(keys)))
        if not keys:
            return
        machine.participants.leave(keys)
        late = list(machine.staging.postponed)  # in one step: other threads postpone transfers without the lock
        pending = (each for postponed in late for each in postponed.participants())
        streams = [stream for each in machine.streams.values() for stream in each.every]
        copies = (each for stream in streams for each in stream.idle_copies)
        for participant in (*machine.hosts, *pending, *streams, *copies):
            participant.forget(keys)
        for stream in streams:
            for key in keys:
                stream.waited.pop(key, None)
        # Last, or an error before would keep them for ever.
        self._retiring = [stream for stream in self._retiring if stream.key not in keys]
        threads[:] = [each for each in threads if each.key not in keys]


# Guards the pages of host memory that a copy in flight uses, and so finds the line at which NumPy touches them.
#
# Until the copy is carried out, pages of a target cannot be accessed, and pages of a source cannot be written. A thread
# that does so gets a memory fault, whose handler notes the running line of Python, removes the guard from those pages
# and lets the access continue. The next call into the simulator reports it. Linux only.

_NONE, _READ, _READ_WRITE = 0, 1, 3
_SA_SIGINFO = 4
_ADDRESS_OFFSET = 16  # of si_addr in siginfo_t, on every 64-bit Linux
_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _Sigaction(ctypes.Structure):
    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


class Touch(NamedTuple):
    """An access of the host to bytes that a copy in flight uses."""

    operation: Operation
    span: Span
    is_write: bool
    """True for a write; False for a read or a write."""
    site: Site


CAN_GUARD = sys.platform == "linux" and sys.maxsize > 1 << 32
"""Whether pages can be guarded on this platform."""


class PageGuard:
    """Guards pages inside its ``with`` block; one at a time in a process.

    Raises:
        UnsupportedError: The platform is not Linux.
    """

    def __init__(self) -> None:
        if not CAN_GUARD:
            raise UnsupportedError("the page guard needs 64-bit Linux; leave out guard=True, and say sim.reads(x)")
        self.touches: deque[Touch] = deque()
        self._guarded: dict[tuple[Operation, int], tuple[Span, bool]] = {}
        self._caught: set[Operation] = set()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._callback = _Handler(self._fault)
        self._before = _Sigaction()
        self._is_entered = False

    def __enter__(self) -> PageGuard:
        action = _Sigaction(handler=ctypes.cast(self._callback, ctypes.c_void_p).value, flags=_SA_SIGINFO)
        self._check(self._libc.sigaction(signal.SIGSEGV, ctypes.byref(action), ctypes.byref(self._before)))
        self._is_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for operation, _ in list(self._guarded):
            self.lift(operation)
        self._is_entered = False
        self._check(self._libc.sigaction(signal.SIGSEGV, ctypes.byref(self._before), None))

    def _check(self, result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), "the page guard could not be set")

    def protect(self, operation: Operation, span: Span, *, is_target: bool) -> None:
        """Guard the pages of host memory that a copy uses, until `lift`."""
        if self._is_entered:
            self._guarded[operation, span.start] = (span, is_target)
            self._set(span, _NONE if is_target else _READ)

    def forget_touches(self, after: int) -> None:
        """Forget the accesses behind a number of them: those of a host function, which declares its own."""
        while len(self.touches) > after:
            self._caught.discard(self.touches.pop().operation)

    def lift(self, operation: Operation) -> None:
        """Remove the guard, before the copy is carried out."""
        for key in [key for key in self._guarded if key[0] is operation]:
            span, _ = self._guarded.pop(key)
            self._set(span, _READ_WRITE)

    def has_caught(self, operation: Operation) -> bool:
        """Whether an access to a copy's memory was caught, which is asked once."""
        is_caught = operation in self._caught
        self._caught.discard(operation)
        return is_caught

    def _set(self, span: Span, protection: int) -> None:
        first, last = _pages(span)
        if last > first:
            self._check(self._libc.mprotect(ctypes.c_void_p(first), ctypes.c_size_t(last - first), protection))

    def _fault(self, number: int, info: int, context: int) -> None:
        address = ctypes.c_uint64.from_address(info + _ADDRESS_OFFSET).value
        caller = sys._getframe().f_back  # None in a thread of C's
        is_check = caller is not None and caller.f_code is checksum.__code__  # of a copy in flight, by another one
        is_ours = False
        for (operation, _), (span, is_target) in list(self._guarded.items()):
            first, last = _pages(span)
            if first <= address < last:
                is_ours = True
                self._set(span, _READ_WRITE)
                if not is_check and span.start <= address - span.block.pointer < span.stop:
                    self.touches.append(Touch(operation, span, not is_target, user_site()))
                    if not is_target or _is_write(context):
                        self._caught.add(operation)
        if not is_ours:  # another fault: let it occur again under the handler that was installed before
            self._libc.sigaction(signal.SIGSEGV, ctypes.byref(self._before), None)


_ERROR_OFFSET = 40 + 19 * 8
"""In ``ucontext_t`` on x86-64: the processor's error code, of which bit 1 tells a write (Intel SDM, volume 3, 4.7)."""


def _is_write(context: int) -> bool:
    """Whether an access that failed was a write, where the processor says so."""
    is_known = platform.machine() == "x86_64"
    return is_known and bool(ctypes.c_uint64.from_address(context + _ERROR_OFFSET).value & 2)


def _pages(span: Span) -> tuple[int, int]:
    """The whole pages inside a range; of one that is all of a pinned array, its last page too.

    Other pages may hold what a system call writes, which fails there instead of asking the guard. Blocks of the pool
    are larger than what they were asked for: a range from the beginning that is rounded to the block's size counts as
    all of the array.
    """
    page, block = mmap.PAGESIZE, span.block
    begin, end = span.bounds
    root: Any = block.data
    while isinstance(root, np.ndarray):
        root = root.base
    if isinstance(getattr(root, "obj", None), mmap.mmap):  # nothing else lies in the block's last page
        if not span.start and bin_nbytes(span.stop) == block.nbytes:
            end = block.pointer + block.nbytes + page - 1
    return -(-begin // page) * page, end // page * page


# Transfers that threads stage, begun as late as the contract allows: when the program waits for them.
#
# Real helper threads are usually fast: a program that changes the source right after `to_device_async` gets away with
# it on most runs. Running them here would make the report depend on the same luck. So a transfer that threads would
# stage is only queued, and the thread that waits for it, or polls it often enough, does the staging.
#
# Its accesses count from the call that starts it, at every size. They belong to two participants. The copies on the
# device are ordered behind all that the stream had then, and before nothing until all of them are enqueued, which the
# program can only know by waiting for the transfer. The staging uses the host's memory from the call until the program
# has waited.
#
# The detector sees declared accesses only, and NumPy declares none. So the source's checksum is taken when the transfer
# is called and again when its staging begins, and the target holds the pattern of uninitialised memory until then.

HOST_TO_DEVICE, DEVICE_TO_HOST = "copy host to device", "copy device to host"
"""The names of these copies in reports, postponed or not."""
_MOST_POSTPONED = 32
_POLLS = 64
_READER = Participant(-1, "the host, for xferlib.prefetch")
_READER.is_retired = True


class PostponedStaging:
    """One transfer whose staging has not begun."""

    def __init__(self, machine: Machine, staging: Staging, job: Job, ends: Ends) -> None:
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
        stager.time_ps = host.time_ps
        machine.order(stager.stream, host)
        stager.copies.learn(stager.stream.clock)
        block = machine.memory.find(ends.device.pointer)
        assert block is not None
        spans = memory.spans(ends.device, block)
        owners = (getattr(each, "allocation", None) for each in ends.kept)
        self._sources = [block, *(owner.block for owner in owners if owner is not None)]
        name = HOST_TO_DEVICE if ends.is_upload else DEVICE_TO_HOST
        copies = Action(name, stager.copies, stager.location, stager.call)
        clock = stager.clock if ends.is_upload else join_clocks(stager.clock, stager.copies.clock)
        if machine.detector.is_on:
            machine.detector.check(copies, stager.copies.clock, *_either(spans, is_write=ends.is_upload))
        self._staging.check(self.action, clock, ends.host, is_write=not ends.is_upload)
        self._outcome = Handover(join_clocks(clock), 0, machine.participants)

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
                    known = KeptClock(dict(copies.clock), machine.participants)
                    block.left = {**(block.left or {}), copies.key: known}
            else:
                self._staging.completed[threading.get_ident()] = copies
            self._sources = []
            stager.outcome = self._outcome

    def drop(self) -> None:
        """Forget a transfer that the program has dropped: changes to its memory are no fault any more."""
        if self._job is not None:  # once begun, it ends by itself
            self._retire()
            self._job = self._ends = None

    def _retire(self) -> None:
        if self._watch is not None:
            self._machine.watches.remove(self._watch)
        self._staging.calls.forget(self.stager, self.stager.copies)
        self._machine.hosts.over += [self.stager, self.stager.copies]
        self.stager.copies.is_retired = self.stager.is_retired = True

    def is_due(self) -> bool:
        """Whether the program has polled often enough that the transfer should begin."""
        self._polls += 1
        return self._polls > self._machine.most_polls

    def participants(self) -> tuple[Participant, Participant]:
        return self.stager, self.stager.copies


class Staging:
    """The postponed transfers, and the ordinary memory that transfers use."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.postponed: deque[PostponedStaging] = deque()
        self.completed: dict[int, TransferCopies] = {}
        """By thread: of the upload whose event it records next."""
        self.calls = HostCalls(machine)
        self._sides: list[HostUse] = []
        self._most_sides = _FEWEST_TOGETHER

    def postpone(self, job: Job, ends: Ends) -> PostponedStaging:
        """Postpone a transfer, unless the schedule is eager."""
        machine = self._machine
        is_eager = machine.engine.schedule.is_eager
        if len(self.postponed) >= _MOST_POSTPONED:  # a program that has dropped the handle will never wait for it
            self.postponed.popleft().begin()
        asked: PostponedStaging | None = None
        try:
            with machine.lock:
                machine.enter()
                asked = PostponedStaging(machine, self, job, ends)
                asked.ask()
                if not is_eager:
                    asked.watch()
                    self.postponed.append(asked)
            if is_eager:
                asked.begin()
            return asked
        except BaseException:  # the caller has nothing to drop
            if asked is not None:
                asked.drop()
            raise

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
        """The memory of the transfers that the program has not waited for, as far as it can be used again."""
        if not self._sides:
            return self._sides
        known = self._machine.hosts.main.clock
        self._sides = [
            side
            for side in self._sides
            if known.get(side.action.participant.key, 0) < side.action.tick and not side.action.participant.is_retired
        ]
        if len(self._sides) > self._most_sides:
            self._forget_unreachable()
        self._most_sides = min(self._most_sides, max(_FEWEST_TOGETHER, 2 * len(self._sides)))
        return self._sides

    def _forget_unreachable(self) -> None:
        """Forget memory that nothing but the sides refers to: no one can use it again.

        Each dropped transfer that nothing waits for would stay, with an entry in each clock. This is done for many at a
        time, for it looks at all of them.
        """
        own = _count_references(self._sides)
        alone, _ = _find_references(_ALONE, own)  # each time: under a debugger it is more
        kept = []
        for side in self._sides:
            most, whole = _find_references(side, own)
            if most > alone or not (whole.flags.owndata or is_leased(whole.base)):
                kept.append(side)
            else:
                side.action.participant.is_retired = True
        self._sides = kept
        self._most_sides = 2 * len(kept)


class WatchedBatch:
    """A batch that `prefetch` may read before it yields it, and that the program must not change meanwhile."""

    def __init__(self, machine: Machine, hosts: list[HostArray]) -> None:
        self._machine = machine
        self._hosts = [(each, checksum(each)) for each in hosts if isinstance(each, np.ndarray)]
        location, call = user_call()
        self._action = Action("the read of a batch ahead", _READER, location, call)
        self._reported = self._reports()

    def _reports(self) -> int:
        return self._machine.detector.occurrences(Hazard.SOURCE_CHANGED, self._action.site)

    def note_hand_out(self) -> None:
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
        return memory.strided_spans(block, start, host.shape, host.strides, host.itemsize)
    return (Span(block, low - block.pointer, block.nbytes),)


# The host's waits and polls, and the order that they establish.
#
# A wait carries out the work that it waits for, and orders the host behind it. A poll is the harder one. If it told the
# truth about the simulation, the answer would depend on the schedule: always True if everything runs at once, and a
# program that forgets to wait after a poll would look right. If it always said False, a loop that polls would never
# end. So a poll that no earlier wait has answered is False a fixed number of times, as of a slow device, and then
# behaves as a wait. Under the eager schedule, which exists for its timing, the virtual clock answers.
#
# The legacy default stream includes the blocking streams in every wait and poll, as in CUDA.


class Waits:
    """The host's waits for one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def is_done(self, event: SimEvent) -> bool:
        """Whether the work before an event is complete; if so, the host is ordered behind it.

        Under the eager schedule, a poll that is too early advances the host's virtual clock.
        """
        machine = self._machine
        with machine.lock:
            self._machine.lifetimes.free_collected()
            host = machine.hosts.current()
            if _knows(host, event):
                return True
            if machine.engine.schedule.is_eager:
                if event.time_ps > host.time_ps:
                    host.time_ps += machine.timeline.enqueue_ps
                    return False
            else:
                event.polls += 1
                if event.polls <= machine.most_polls:
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
        host.time_ps = max(host.time_ps, event.time_ps)

    def synchronize(self, event: SimEvent) -> None:
        """Block until the work before an event is complete."""
        machine = self._machine
        with machine.lock:
            host = self._machine.enter(Point.SYNCHRONIZE, event.stream.device)
            host.time_ps += machine.timeline.synchronize_ps
            self._reach(host, event)
            self._machine.lifetimes.retire_ended()

    def synchronize_stream(self, stream: SimStream) -> None:
        """Block until the work on a stream is complete; the legacy stream includes the blocking ones."""
        machine = self._machine
        with machine.lock:
            host = self._machine.enter(Point.SYNCHRONIZE, stream.device)
            self._drain(host, self._together(stream))

    def synchronize_device(self, device: Device) -> None:
        """Block until all work on a device is complete."""
        with self._machine.lock:
            host = self._machine.enter(Point.SYNCHRONIZE, device)
            self._drain(host, self._machine.streams[device].every)

    def quiesce(self) -> None:
        """Finish everything, as if every stream of every device had been synchronised."""
        machine = self._machine
        with machine.lock:
            self._machine.lifetimes.free_collected()
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
        host.time_ps += machine.timeline.synchronize_ps
        for stream in streams:
            for operation in (stream.tail, stream.last_wait):
                if operation is not None:
                    machine.engine.force(operation)
            host.join(stream)
            for event in stream.awaited.values():
                host.learn(event.clock)
            host.time_ps = max(host.time_ps, stream.time_ps)
        self._machine.lifetimes.retire_ended()


def _knows(host: HostThread, event: SimEvent) -> bool:
    known = host.clock.get(event.participant.key, 0) >= event.tick
    return (known or event.participant.is_retired) and event.operation.is_done


# The simulated machine: devices, streams, events, memory, and the steps of every operation.
#
# An operation is ordered by CUDA's rules, checked by the detector, given a time on the virtual clock and passed to the
# engine. These parts know nothing of each other; this file connects them.
#
# The detector must run when an operation is enqueued, not when it is carried out: only then does the call have a line
# in the program, and only the vector clock of that moment says what the operation is ordered behind. So memory has two
# states: the shadow, which is as of the last operation enqueued, and the bytes, which are as of the last one carried
# out. Host memory is the exception: the program changes it at any time, so its bytes are checked when a copy runs.
#
# All calls take one lock. An operation's order, check and time belong together, and a thread that enqueued in between
# would make them disagree. Finalizers never take it: they queue for the next call.

KERNELS, _LAUNCH, _COPY = Lane.KERNELS, Point.LAUNCH, Point.COPY  # looking up an enumeration's member costs a call


class Machine:
    """Devices, and a host that drives them.

    Args:
        settings: Its settings; those of the environment if omitted.
        schedule: Overrides the schedule that ``settings`` names.

    Attributes:
        lock: Held by every call into the machine.
        guard: The page guard of a ``with`` block, or None.
        implicit: What is done about implicit copies to the host, and those there were.
        listener: Is told of every operation and its time on the virtual clock.
        function: The function of `Stream.call` that runs now, in the thread that holds the lock.
        functions: Those that have been enqueued and have not run.
        watches: Of the host memory that copies in flight use.
        most_polls: The polls of an event that are answered with no before one waits for it.
        is_direct: Whether compiled calls may enqueue (`launches`).
    """

    __slots__ = (
        "__weakref__", "_per_thread", "detector", "devices", "engine", "faults", "forked_from", "function",
        "functions", "guard", "hosts", "implicit", "is_direct", "lifetimes", "listener", "lock", "memory",
        "most_polls", "participants", "settings", "staging", "streams", "timeline", "waits", "watches",
    )  # fmt: skip

    def __init__(self, settings: Settings | None = None, schedule: schedules.Schedule | None = None) -> None:
        settings = settings if settings is not None else Settings()
        self.settings = settings
        self.lock = threading.RLock()
        self.participants = ParticipantKeys(3)  # 0 to 2 are the handles of the default streams
        self.hosts = Hosts(self.participants)
        self.memory = AddressSpace()
        self.detector = Detector(settings.mode)
        self.implicit = ImplicitCopies(settings.implicit)
        self.engine = Engine(schedule or schedules.find_schedule(settings.schedule, settings.seed))
        self.guard: PageGuard | None = None
        self.faults = Faults()
        self.timeline = Timeline(settings.profile, keeps=False)
        self.listener: OperationListener | None = None
        self.function: HostFunction | None = None
        self.watches = Watches()
        self.most_polls = _POLLS
        self.functions: weakref.WeakSet[HostFunction] = weakref.WeakSet()
        self.devices = tuple(make_device("sim", "sim", index) for index in range(settings.devices))
        self.streams = {
            device: DeviceStreams(SimStream(self.participants.enter(), device, StreamKind.LEGACY, user_site()))
            for device in self.devices
        }
        self.staging = Staging(self)
        self.lifetimes = Lifetimes(self)
        self.waits = Waits(self)
        self.hosts.note_staging = self._note_staging
        self.hosts.postpone = self._postpone
        self.hosts.watch_batch = functools.partial(WatchedBatch, self)
        self.hosts.note_host_access = functools.partial(self.host_access, is_declared=False)
        self.hosts.note_lend = self._note_lend
        self._per_thread: weakref.WeakKeyDictionary[threading.Thread, dict[Device, SimStream]] = (
            weakref.WeakKeyDictionary()
        )
        self.forked_from = 0
        self.is_direct = True
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
            report_touches(self.detector, self.guard)
        host.time_ps += self.timeline.enqueue_ps
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

    def raise_faults(self) -> None:
        """Free collected objects, and raise the faults found where nothing could be raised."""
        with self.lock:
            self.lifetimes.free_collected()
            self.detector.raise_postponed()
            if self.guard is not None:
                report_touches(self.detector, self.guard)

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

    def order(self, stream: SimStream, host: HostThread) -> list[Operation | None]:
        """Order the next operation of ``stream`` behind all that CUDA's rules put before it."""
        stream.join(host)
        if stream.time_ps < host.time_ps:
            stream.time_ps = host.time_ps
        after = [stream.tail]
        if stream.awaited:
            for event in stream.awaited.values():
                stream.learn(event.clock)
            stream.awaited = {}
        if stream.last_wait is not None:
            after.append(stream.last_wait)
        for other in stream.others:
            stream.join(other)
            after.append(other.tail)
            stream.time_ps = max(stream.time_ps, other.time_ps)
        return after

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
        explore: Callable[[], Explored] | None = None,
        take: Callable[[], Callable[[], object]] | None = None,
        called_at: tuple[CodeLocation, str] | None = None,
    ) -> Operation | None:
        """Enqueue an operation that reads and writes those bytes, which ``run`` carries out; None on a captured stream.

        Args:
            stream, name, run: The operation.
            reads, writes: The bytes.
            lane, nbytes: What it costs on the virtual clock.
            uses_values: Whether reading memory without a value is a fault.
            explore: In place of ``run`` where the detector is on: computes at once, and says which bytes it has read
                and written, of those that are given.
            take: As of `Operation`.
            called_at: The program's line and the function that it called, if they are known.
        """
        with self.lock:
            is_kernel = lane is KERNELS
            if stream.recorded is not None:
                kept: dict[str, Any] = {
                    "lane": lane, "nbytes": nbytes, "uses_values": uses_values, "explore": explore, "take": take,
                }  # fmt: skip
                model.note(stream, lambda on: self.enqueue(on, name, run, reads=reads, writes=writes, **kept))
                return None
            host = self.enter(_LAUNCH if is_kernel else _COPY, stream.device, stream)
            detector = self.detector
            if is_kernel:
                _refuse_other_devices(name, stream, reads + writes)
            after = self.order(stream, host)
            stager = host if type(host) is Stager else None
            if stager is not None:
                location, call = stager.location, stager.call
            else:
                location, call = user_call() if called_at is None else called_at
            operation = Operation(name, stream, location, run, call)
            operation.take = take
            error: Exception | None = None
            try:
                if explore is not None and detector.is_on:
                    self.engine.compute(after)
                    reads, writes, operation.arguments, error = explore()
                    operation.run, operation.is_computed = model.do_nothing, True
                    _refuse_other_devices(name, stream, reads + writes)
                if detector.is_on:
                    self.check(operation, stream, reads, writes, is_kernel=is_kernel, uses_values=uses_values)
                elif explore is None:  # what is checked later may read it
                    for span in writes:
                        span.block.note_values(span)
                operation.has_host_memory = lane is Lane.NONE or bool(on_host(reads + writes))
                if lane is Lane.H2D and reads:  # else it copies values that it has taken
                    operation.source = _memory(reads[0])[0]
                elif take is not None:
                    operation.target = _memory(writes[0])[0]
                if not is_kernel:
                    watch(self, operation, reads, writes)
                self.engine.order(operation, after)
                stream.tail = operation
            except BaseException as found:
                if error is not None:  # which may be a consequence
                    found.__cause__ = error
                if stream.tail is not operation:  # it will not be carried out: no later access can conflict with it
                    operation.tick = 0
                    if operation.around is not None:
                        operation.around.drop()
                raise
            if lane is not Lane.NONE:
                timing = self.timeline.add(lane, stream.device.index, stream.key, name, nbytes, stream.time_ps)
                stream.time_ps = timing[1]
                if self.listener is not None:
                    self._tell(self.listener, operation, lane, nbytes, timing)
            self.engine.add(operation)
            if error is not None:
                raise error
            return operation

    def check(
        self, operation: Operation, stream: SimStream, reads: Spans, writes: Spans, *, is_kernel: bool = True,
        uses_values: bool = True,
    ) -> None:  # fmt: skip
        """Check an operation's accesses and remember them."""
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
            calls.check_copy(operation, stream.clock, reads, writes)
        for block, _, _, _ in spans:
            block.prune(self.is_known)

    def call(self, stream: SimStream, function: Callable[[], object]) -> None:
        """Enqueue a function on the host, which must not use the machine."""
        with self.lock:
            if stream.recorded is not None:
                model.note(stream, lambda on: self.call(on, function))
                return
            called = HostFunction(self, stream, function)
            self.enqueue(stream, "host function", called.run, lane=Lane.NONE)
            called.note_enqueue()

    def _tell(
        self, listener: OperationListener, operation: Operation, lane: Lane, nbytes: int, timing: tuple[int, int]
    ) -> None:
        stream = operation.participant
        assert isinstance(stream, SimStream)
        kind = "kernel" if lane is KERNELS else lane.value
        start_s, end_s = map(seconds, timing)
        device = f"sim:{stream.device.index}"
        listener(kind, operation.name, nbytes, device, stream.handle, start_s, end_s, operation.location)

    def is_known(self, action: Action) -> bool:
        """Whether everything still to come is ordered behind an action."""
        participant = action.participant
        return participant.is_retired or self.hosts.main.clock.get(participant.key, 0) >= action.tick

    # --- events

    def record(self, stream: SimStream, *, timing: bool = False) -> SimEvent:
        """An event after the work on ``stream`` so far."""
        with self.lock:
            if stream.recorded is not None:
                return model.record(stream, self.record)  # type: ignore[no-any-return]
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
            if isinstance(event, model.CapturedEvent):
                model.wait(stream, event, self.wait)
                return
            host = self.enter(Point.WAIT, stream.device)
            is_legacy = stream.kind is StreamKind.LEGACY
            after = [stream.last_wait] if is_legacy else self.order(stream, host)
            stream.time_ps = max(stream.time_ps, event.time_ps)
            operation = Operation("wait", stream, here(), None)
            self.engine.order(operation, [*after, event.operation])
            # The operations first: clocks that know of a wait which is not made would hide a race.
            if is_legacy:
                stream.last_wait = operation
                key = event.participant.key
                if key not in stream.awaited or stream.awaited[key].tick < event.tick:  # the later implies the other
                    stream.awaited[key] = event
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

    def allocate(self, nbytes: int, stream: SimStream, location: CodeLocation | None = None) -> Allocation:
        """Allocate device memory in the order of a stream; it is freed when the result is collected.

        ``location``: the program's line, if it is known.
        """
        with self.lock:
            self.enter(Point.ALLOCATE, stream.device)
            used, limit = self.memory.used.get(stream.device.index, 0), self.settings.memory_nbytes
            if used + nbytes > limit:
                raise DeviceMemoryError(
                    f"{nbytes} bytes do not fit on {stream.device}: {used} of {limit} bytes are in use; free arrays, "
                    "move the data in parts, or raise XFERLIB_SIM_MEMORY"
                )
            block = self.memory.allocate(nbytes, stream.device, stream, here() if location is None else location)
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

    def span(self, pointer: int, nbytes: int, name: str, stream: SimStream) -> Span:
        """The span at an address, for an operation about to be enqueued.

        Raises:
            SimError: It is not, or not completely, in memory that devices reach.
            RaceError: The memory has been freed.
        """
        block = self.memory.find(pointer)
        if block is not None and pointer - block.pointer + nbytes <= block.nbytes:
            return Span(block, pointer - block.pointer, pointer - block.pointer + nbytes)
        freed = self.memory.find_freed(pointer)
        if block is None and freed is not None:
            self.report_freed(freed, name, stream)
        raise SimError(
            f"{name}: {nbytes} bytes at address {pointer:#x} are "
            + (f"beyond the end of {block.where}" if block is not None else "in no device memory and not page-locked")
            + f" ({user_site()}); a GPU would fail or corrupt other data"
        )

    def report_freed(self, freed: Freed, name: str, stream: SimStream) -> None:
        """Report an operation that uses memory which was freed before it was enqueued."""
        self.detector.report(
            Race(
                hazard=Hazard.USE_AFTER_FREE,
                first=Access.of(freed.action),
                second=Access(name, stream.label, user_site()),
                memory=freed.where,
                missing="the memory was freed before this operation was even enqueued",
                remedy=f"keep the array alive until after {user_site()}",
            )
        )

    def lend(self, pointer: int, nbytes: int, device: Device, owner: object) -> LentAllocation:
        """The block that holds an address, for an array that does not own it."""
        with self.lock:
            self.enter()
            block = self.memory.find(pointer)
            if block is None or block.device is not device or pointer - block.pointer + nbytes > block.nbytes:
                what = f"{nbytes} bytes at address {pointer:#x} are" if nbytes else f"address {pointer:#x} is"
                raise ArgumentError(f"{what} in no array of {device}; give the address of one that is alive")
            return LentAllocation(block, owner)

    def track_host(self, data: HostArray) -> Block:
        """Let devices reach host memory, and track the accesses to it."""
        with self.lock:
            self.enter()
            return self.memory.track(data, here())

    def _note_lend(self, pointer: int) -> None:
        with self.lock:
            block = self.memory.find(pointer)
            if block is not None:
                self.staging.calls.describe(block)
                block.begin_anew(here())

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
                self.raise_faults()
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

    def _note_staging(self, nbytes: int) -> None:
        host = self.hosts.current()
        with self.lock:
            timing = self.timeline.add(Lane.STAGING, HOST, host.key, "stage", nbytes, host.time_ps)
            host.time_ps = timing[1]
            if self.listener is not None:
                start_s, end_s = map(seconds, timing)
                self.listener("staging", "stage", nbytes, "host", host.label, start_s, end_s, here())


class Explored(NamedTuple):
    """The accesses of an operation that was computed when it was enqueued."""

    reads: Spans
    writes: Spans
    arguments: tuple[NamedBytes, ...]
    error: Exception | None
    """The error that ended it before its time: the accesses before that count."""


def _refuse_other_devices(name: str, stream: SimStream, spans: Spans) -> None:
    device = stream.device
    for block, _, _, _ in spans:
        if block.device is not device and block.device is not None:
            raise WrongDeviceError(
                f"{Hazard.WRONG_DEVICE.value}: {name} at {user_site()} uses {block.where} on {stream.label}; use a "
                f"stream of {block.device}, or move the array with to_device(x, device={str(device)!r})"
            )


existing: weakref.WeakSet[Machine] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """Make each machine unusable, as CUDA's devices are after a fork; another thread may have held its lock."""
    for machine in existing:
        machine.lock = threading.RLock()
        machine.forked_from = os.getppid()


reset_in_child(_after_fork_in_child)
