"""Streams, events, memory, clocks and byte ranges of the simulated devices: what there is, not what happens."""

from __future__ import annotations

import functools
import itertools
import operator
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from xferlib._core.device import RawStream
from xferlib._core.streams import RecordedWork
from xferlib._runtime.checks import CodeLocation, Site, site_of

if TYPE_CHECKING:
    from xferlib._core.arrays import HostArray
    from xferlib._core.device import Device
    from xferlib._core.observe import Ends, Postponed, ReadAhead
    from xferlib._runtime.threads import Job


# The work of a capture, and which of it each of its streams has waited for.


class CapturedWork(RecordedWork):
    """The operations of a capture, and which of them each of its streams has waited for."""

    __slots__ = ("_known",)

    def __init__(self, origin: Any) -> None:
        super().__init__(origin)
        self._known: dict[Any, dict[Any, int]] = {}
        """For each stream, how many operations of each come before its next one."""

    def count(self, stream: Any) -> None:
        """Count an operation."""
        known = self.get_clock(stream)
        known[stream] = known.get(stream, 0) + 1

    def get_clock(self, stream: Any) -> dict[Any, int]:
        return self._known.setdefault(stream, {})

    def learn(self, stream: Any, others: dict[Any, int]) -> None:
        """Note that the next operation of a stream follows those."""
        known = self.get_clock(stream)
        known.update({each: max(count, known.get(each, 0)) for each, count in others.items()})

    @property
    def is_joined(self) -> bool:
        """Whether the captured stream has waited for all work of the others."""
        joined = self.get_clock(self.origin)
        return all(known.get(each, 0) <= joined.get(each, 0) for each, known in self._known.items())


# Captured streams: their operations are noted, and each launch of the graph gives them to the machine anew.
#
# So the detector checks every launch as if the program had made the calls there. A stream that waited for the captured
# one has a stream of the graph's own in its place, ordered by the same events.

_numbers = itertools.count()


class CapturedEvent:
    """An event of captured work: its number among those of a launch, and the operations before it."""

    __slots__ = ("known", "number", "recorded")

    def __init__(self, recorded: CapturedWork, known: dict[Any, int]) -> None:
        self.number = next(_numbers)
        self.recorded = recorded
        self.known = known


def note(stream: SimStream, again: Callable[[SimStream], object]) -> None:
    """Note an operation."""
    assert stream.recorded is not None

    def repeat(on: SimStream, _: dict[int, Any]) -> None:
        again(on)

    stream.recorded.add(stream, repeat)
    stream.recorded.count(stream)


def record(stream: SimStream, again: Callable[[SimStream], SimEvent]) -> Any:
    """Note the record of an event."""
    assert stream.recorded is not None
    event = CapturedEvent(stream.recorded, {**stream.recorded.get_clock(stream)})

    def repeat(on: SimStream, events: dict[int, Any]) -> None:
        events[event.number] = again(on)

    stream.recorded.add(stream, repeat)
    return event


def wait(stream: SimStream, event: CapturedEvent, again: Callable[[SimStream, SimEvent], None]) -> None:
    """Note a wait; the stream belongs to the capture from now on."""
    stream.recorded = event.recorded
    event.recorded.learn(stream, event.known)
    event.recorded.add(stream, lambda on, events: again(on, events[event.number]))


# Vector clocks: the actions that happen before each stream's and each host thread's next one.
#
# A participant counts its own actions. Its clock has, for every other participant, the last action of that one that
# happens before its own next action. An action is then one pair, (participant, tick): it happens before every action
# whose clock has reached that tick (the epochs of Flanagan and Freund's FastTrack, PLDI 2009).

Clock = dict[int, int]
"""Participant key to the last of its ticks that happens before; 0 if missing."""


class HasClock(Protocol):
    """A participant, or an event."""

    @property
    def clock(self) -> Clock: ...


def join_clocks(*clocks: Clock) -> Clock:
    """The least clock that covers all of these."""
    first, *others = clocks
    result = first.copy()  # of the others, too: another host thread's may grow meanwhile
    for clock in others:
        known = result.get
        result.update({key: tick for key, tick in clock.copy().items() if known(key, 0) < tick})
    return result


class ParticipantKeys:
    """Gives out the participants' keys, and knows which are no longer in use."""

    __slots__ = ("_keys", "_next", "version")

    def __init__(self, first: int = 0) -> None:
        self._next = itertools.count(first)
        self._keys: set[int] = set()
        self.version = 0
        """Counts departures."""

    def enter(self) -> int:
        """Make the key of a new participant."""
        key = next(self._next)
        self._keys.add(key)
        return key

    def leave(self, keys: set[int]) -> None:
        """Remove participants that have ended and whose actions happen before all later ones."""
        self._keys -= keys
        self.version += 1

    def present(self, clock: Clock) -> Clock:
        """A clock without the participants that have left."""
        return {key: tick for key, tick in clock.items() if key in self._keys}


class KeptClock:
    """A copy of a clock to learn later, by then without the participants that have left."""

    __slots__ = ("_clock", "_participants", "_version")

    def __init__(self, clock: Clock, participants: ParticipantKeys) -> None:
        self._clock = clock
        self._participants = participants
        self._version = participants.version

    @property
    def clock(self) -> Clock:
        if self._version != self._participants.version:
            self._clock = self._participants.present(self._clock)
            self._version = self._participants.version
        return self._clock


class Joined:
    """The joined clock of several participants and events, computed on demand: it is made often and seldom read."""

    __slots__ = ("_holders",)

    def __init__(self, *holders: Iterable[HasClock]) -> None:
        self._holders = holders

    def get(self, key: int, default: int) -> int:
        return max(each.clock.get(key, default) for holders in self._holders for each in holders)


class Participant:
    """A stream or a host thread, whose actions are totally ordered."""

    __slots__ = ("_seen", "clock", "is_retired", "key", "label", "left_at", "version")

    def __init__(self, key: int, label: str) -> None:
        self.key = key
        self.label = label
        self.is_retired = False
        """Whether it has ended and all its actions happen before all later ones."""
        self.left_at = 0
        """The number of its departure from the clocks (`ParticipantKeys.version`); 0 if it has not left them."""
        self.clock: Clock = {key: 0}
        self.version = 0
        # The version of each other participant when it was last joined: joining that again is a no-op.
        self._seen: dict[int, int] = {}

    def tick(self) -> int:
        """Count one action, which is ordered behind all that the clock holds."""
        self.version += 1  # first: a participant that joins this one must not take the old clock for the new one
        tick = self.clock[self.key] + 1
        self.clock[self.key] = tick
        return tick

    def join(self, other: Participant) -> None:
        """Order this participant's next action behind all that ``other`` did so far."""
        version = other.version
        if self._seen.get(other.key) != version:
            self.learn(other.clock)
            self._seen[other.key] = version  # last, or an error in between would make the order a secret for ever

    def learn(self, clock: Clock) -> None:
        """Order this participant's next action behind all that ``clock`` covers."""
        known = self.clock.get
        news = {key: tick for key, tick in clock.copy().items() if known(key, 0) < tick}
        if news:
            self.version += 1
            self.clock.update(news)

    def forget(self, keys: set[int]) -> None:
        """Drop participants that have left."""
        for key in keys:
            self.clock.pop(key, None)
            self._seen.pop(key, None)


# The host's side of the ordering: threads as participants, and the happens-before edges between them.
#
# Python's synchronisation between threads (locks, queues, joins) cannot be seen from here. All of the user's threads
# therefore count as one participant: a missing lock between two of them is not reported, and a present one never causes
# a false alarm. Each thread of xferlib is a participant of its own and publishes what it did: whether a helper thread
# happens to have waited for a copy must not decide whether the user's missing wait is reported.


class HostThread(Participant):
    """A participant on the host, with its time on the virtual clock."""

    __slots__ = ("time_ps",)

    def __init__(self, key: int, label: str) -> None:
        super().__init__(key, label)
        self.time_ps = 0


class Stager(HostThread):
    """The thread that stages one transfer, as late as the contract allows.

    Attributes:
        copies: The transfer's copies on the device, a participant of their own: until all are enqueued, neither the
            stream nor the staging is ordered behind them. Afterwards the stream is, and so are those of its next
            transfer, which goes on with the participant: or clocks would have an entry for each transfer there was.
        stream: Carries them.
        location, call: The line that requested the transfer, and the function called there.
        outcome: All that is known of the transfer's end by waiting for it, once it is complete.
    """

    __slots__ = ("call", "copies", "location", "outcome", "stream")

    def __init__(self, participants: ParticipantKeys, stream: SimStream, location: CodeLocation, call: str) -> None:
        super().__init__(participants.enter(), "a thread of xferlib")
        idle = stream.idle_copies
        while idle and idle[-1].is_retired:  # an error struck it just as it was over
            idle.pop()
        self.copies = idle.pop() if idle else TransferCopies(participants.enter(), stream)
        self.stream = stream
        self.location = location
        self.call = call
        self.outcome: Handover | None = None


class TransferCopies(Participant):
    """The copies of one transfer that threads stage."""

    __slots__ = ("stream",)

    def __init__(self, key: int, stream: SimStream) -> None:
        super().__init__(key, stream.label)
        self.stream = stream


class Handover(KeptClock):
    """The clock that a publishing thread passes to the thread that takes the thing.

    Attributes:
        publisher: The participant that knows all of the clock; None if there may be none. It has nothing to learn when
            it takes the thing back, as most do that one thread uses again and again.
    """

    __slots__ = ("publisher", "time_ps")

    def __init__(
        self, clock: Clock, time_ps: int, participants: ParticipantKeys, publisher: HostThread | None = None
    ) -> None:
        super().__init__(clock, participants)
        self.time_ps = time_ps
        self.publisher = publisher


class Hosts:
    """The host threads, by thread; the machine sets what it does itself of `StagingListener`."""

    domain = "sim"

    __slots__ = (
        "_ended", "_lock", "_own", "_participants", "completions", "main", "note_host_access",
        "note_lend", "note_staging", "over", "postpone", "watch_batch",
    )  # fmt: skip

    def __init__(self, participants: ParticipantKeys) -> None:
        self._participants = participants
        self.note_staging: Callable[[int], None] = lambda nbytes: None
        """Advances the virtual clock: the calling thread has copied bytes between ordinary and page-locked memory."""
        self.postpone: Callable[[Job, Ends], Postponed]
        """Makes a transfer late that is about to be given to threads that stage it."""
        self.watch_batch: Callable[[list[HostArray]], ReadAhead]
        """Checks a batch for changes until `prefetch` yields it."""
        self.note_host_access: Callable[..., None]
        """Checks an access of the calling thread to a host array, for a blocking transfer."""
        self.note_lend: Callable[[int], None]
        """Begins the accesses to page-locked memory anew, which a pool lends to another array."""
        self.main = HostThread(participants.enter(), "the host")
        self._own: dict[int, HostThread] = {}
        self._ended = HostThread(participants.enter(), "host threads that have ended")
        self.over: list[Participant] = []
        """Threads that have ended and still have a key."""
        self.completions: dict[int, Callable[[], None]] = {}
        """By the ``id`` of a job that is being staged: called when the last copy is enqueued or has arrived, just
        before other threads can see the end of the job, by the thread that leaves last; another may have begun."""
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[HostThread]:
        yield self.main
        yield self._ended
        yield from tuple(self._own.values())

    def current(self) -> HostThread:
        """The calling thread's participant."""
        # A thread that never registered is one of the user's, and these count as one.
        return self._own.get(threading.get_ident(), self.main) if self._own else self.main

    def began(self) -> None:
        """Register the calling thread as one of xferlib's."""
        with self._lock:
            ident = threading.get_ident()
            if ident not in self._own:
                self._own[ident] = HostThread(
                    self._participants.enter(), f"host thread {threading.current_thread().name}"
                )

    def note_end(self) -> None:
        """Unregister the calling thread, before it ends: a thread of the program may get its number."""
        with self._lock:
            over = self._own.pop(threading.get_ident(), None)
            if over is not None:
                # Its clock is not lost with it: the program may join the thread, which cannot be seen from here, and
                # then rely on what the thread did.
                self._ended.learn(over.clock)
                self.over.append(over)

    def publish(self, before: object) -> Handover:
        """Publish: everything the calling thread did so far happens before the taker's next action.

        A thread that staged as late as may be has waited for more than the transfer; only an end of it is told.
        """
        host = self.current()
        # Its own clock knows of waits that a staging thread of a real machine may never make: the taker of the transfer
        # does not know of them.
        if isinstance(host, Stager) and host.outcome is not None:
            host.outcome.time_ps = host.time_ps
            return host.outcome
        if isinstance(before, Handover) and before.publisher is not host:
            clock, time_ps = join_clocks(before.clock, host.clock), max(before.time_ps, host.time_ps)
            return Handover(clock, time_ps, self._participants)
        return Handover(host.clock.copy(), host.time_ps, self._participants, host)

    def act(self, stager: Stager, step: Callable[[], None]) -> None:
        """Do a step in the calling thread as the participant ``stager``."""
        ident = threading.get_ident()
        before = self._own.get(ident)
        # Nested, where a thread that waits for its transfer helps with another: the outer participant comes back.
        restore = functools.partial(self._own.pop, ident, None) if before is None else functools.partial(
            self._own.__setitem__, ident, before
        )  # fmt: skip
        try:
            self._own[ident] = stager
            step()
            restore()
        except BaseException:  # and no `finally`, whose first line an error may strike too
            restore()
            raise

    def note_finish(self, job: Job) -> None:
        """Note that the calling thread has enqueued the last copy of a job, or that it has arrived."""
        complete = self.completions.pop(id(job), None)
        if complete is not None:
            complete()

    def acquire(self, handover: object) -> None:
        """Order the calling thread behind the publisher of a thing."""
        if isinstance(handover, Handover):
            host = self.current()
            if handover.publisher is not host:
                host.learn(handover.clock)
                host.time_ps = max(host.time_ps, handover.time_ps)


# Operations of the simulated devices, each with the line of the program that requested it.


class Around(Protocol):
    """The host memory that an operation uses, which the program may change in between."""

    def drop(self) -> None:
        """Watch no more: the operation will not be carried out."""

    def begin(self) -> None:
        """Note what the program has changed; the operation is about to be carried out, perhaps once more."""

    def end(self) -> None:
        """Note what the operation has changed."""

    def report(self) -> None:
        """Report what the program has changed."""


class NamedBytes(NamedTuple):
    """Bytes of a block that a kernel uses: an argument, a variable of its module, or what a pointer leads to."""

    data: np.ndarray[Any, Any]
    """Of the block."""
    start: int
    stop: int
    name: str
    """Empty where the program has none."""
    item_nbytes: int
    lines: tuple[tuple[int, int, int], ...]
    """The lines of a kernel that use bytes of it, and between which ones."""

    def describe(self, byte: int, kernel: str) -> str:
        """A byte of the block in words, with the lines that may have used it."""
        at = byte - self.start
        lines = sorted({line for line, first, end in self.lines if line and first <= at < end})
        many = f"line{'s' * (len(lines) > 1)} {' and '.join(map(str, lines))}"
        where = f"index {at // self.item_nbytes} of {self.name} of " if self.name else ""
        return f"{where}{kernel}(){', ' + many if lines else ''}"


class Action:
    """An access to memory, ordered behind all that its participant's clock held then."""

    __slots__ = ("arguments", "call", "location", "name", "participant", "tick")

    def __init__(
        self, name: str, participant: Participant, location: CodeLocation, call: str = "", *, tick: int | None = None
    ) -> None:
        self.name = name
        self.arguments: tuple[NamedBytes, ...] = ()
        """The words of a raw kernel for the memory that it uses."""
        self.participant = participant
        self.location = location
        self.call = call
        """The function of xferlib that the program called there."""
        self.tick = tick if tick is not None else participant.tick()

    @property
    def site(self) -> Site:
        return site_of(self.location)

    def name_byte(self, data: np.ndarray[Any, Any], byte: int) -> str:
        """A byte of a block in the words of the kernel that uses it; empty where there are none."""
        for each in self.arguments:
            if each.data is data and each.start <= byte < each.stop:
                return each.describe(byte, self.name)
        return ""


class Operation(Action):
    """An action of a stream, carried out at a moment that the schedule chooses.

    Attributes:
        run: Does the work; None for a record or a wait, which only order.
        around: What `run` does to watched host memory; None if that is nothing.
        before: The operations not yet carried out, when it was enqueued, that must come first.
        take: Of a copy to the host: takes the values, and returns what delivers them.
        source, target: Of a copy from or to the host: its memory there.
        has_host_memory: Whether it touches host memory.
        is_repeatable: Whether it computes from what it leaves unchanged, so that to do it twice is no fault.
        has_failed: Whether the host has been short of memory for `run` once.
    """

    __slots__ = (
        "_is_done", "around", "before", "has_failed", "has_host_memory", "is_computed", "is_repeatable", "run",
        "serial", "source", "take", "target",
    )  # fmt: skip

    def __init__(
        self, name: str, participant: Participant, location: CodeLocation, run: Callable[[], object] | None,
        call: str = "",
    ) -> None:  # fmt: skip
        self.name = name
        self.arguments = ()
        self.participant = participant
        self.location = location
        self.call = call
        participant.version += 1  # as `Participant.tick`
        self.tick = participant.clock[participant.key] = participant.clock[participant.key] + 1
        self.run = run
        self.around: Around | None = None
        self.serial = 0
        self.before: tuple[Operation, ...] = ()
        self.take: Callable[[], Callable[[], object]] | None = None
        self.source: HostArray | None = None
        self.target: HostArray | None = None
        self.has_host_memory = False
        self.has_failed = False
        self.is_repeatable = False
        self.is_computed = False
        """Whether the device is as it will be afterwards, although it has not been carried out."""
        self._is_done = False

    @property
    def is_done(self) -> bool:
        """Whether it has been carried out; a record or a wait is once all that comes before is."""
        if self._is_done:
            return True
        if self.run is not None:
            return False
        chain = [self]
        while chain:  # and not by recursion: a chain of records may be long
            last = chain[-1]
            for each in reversed(last.before):  # what an event marks is found sooner than the end of a chain of waits
                if not each._is_done:
                    if each.run is not None:
                        return False
                    chain.append(each)
                    break
            else:
                last.finish()
                chain.pop()
        return True

    def is_done_behind(self) -> bool:
        """`is_done`, if that was asked of everything before since anything was carried out."""
        if not self._is_done and self.run is None and all(each._is_done for each in self.before):
            self.finish()
        return self._is_done

    def carry_out(self) -> None:
        """Do the work, once."""
        assert self.run is not None
        if self.is_repeatable:
            self.run()
            self.run = None
            self._is_done = True
            self.before = ()
            return
        # In one call of C: an error that struck between the two would have the work done twice, or not at all.
        # What has nothing to run is done when all before it is, so that an error may strike before it is noted.
        call_all(self.run, functools.partial(setattr, self, "run", None))
        self.finish()

    def compute(self) -> None:
        """Do what the device does, and leave the host's memory, and what is asked of it, for its turn."""
        run = self.run
        if self.take is not None:
            run = functools.partial(self._take, self.take)
        assert run is not None
        call_all(run, functools.partial(self._note_computed, self.take is None))

    def _take(self, take: Callable[[], Callable[[], object]]) -> None:
        self.run, self.take = take(), None

    def _note_computed(self, is_all: bool) -> None:
        if is_all:
            self.run = do_nothing
        self.is_computed = True

    def finish(self) -> None:
        """Note that it is done; shadows keep operations for long, but must not keep their arrays."""
        self.run = None  # first: what is done is never carried out again, wherever an error strikes
        self._is_done = True
        self.before = ()

    def list_needed(self) -> list[Operation]:
        """The operations to carry out until this one is done, in the order in which they were enqueued."""
        for each in self.before:
            if not (each._is_done or each.is_done):
                break
        else:
            return [] if self.run is None else [self]
        found, waiting = {self}, [self]
        while waiting:
            for each in waiting.pop().before:
                if each not in found and not each.is_done:
                    found.add(each)
                    waiting.append(each)
        return sorted((each for each in found if each.run is not None), key=operator.attrgetter("serial"))


def do_nothing() -> None:
    """Stands in for the work of an operation that has been computed before its turn."""


def call_all(*functions: Callable[[], object]) -> None:
    """Call functions one after the other in one call of C, so that no error strikes between two."""
    call: Callable[[Any], object] = operator.call
    _exhaust(map(call, functions))


_exhaust: Callable[[Iterable[object]], None] = deque[object](maxlen=0).extend


# Recycled memory: a new array's uses must be ordered behind the last owner's work on the same memory.
#
# A pool recycles memory at once, in the order of the stream for which it was allocated, while that stream's work may
# still be using it. This is correct as long as the next owner stays on that stream, or makes other streams wait for it.
# Here no address is used twice; a new block takes over the list of actions that may still use its memory.

_ROUNDED_TO = 512  # as the pools of CuPy and torch do
_MOST_KEPT = 256
_TRIM_FROM = 16


class LastOwner(NamedTuple):
    """The last owner of recycled memory: the actions that may still use it, and the line that freed it."""

    users: tuple[Action, ...]
    location: CodeLocation


class Pool:
    """Memory freed in the order of one stream, while its users may still be at work."""

    __slots__ = ("_freed", "_trim_at")

    def __init__(self) -> None:
        self._freed: list[tuple[int, LastOwner]] = []
        """Sizes in bytes, in the order in which they were freed."""
        self._trim_at = _TRIM_FROM

    def __len__(self) -> int:
        return len(self._freed)

    def recycle(self, nbytes: int, last_owner: LastOwner, clock: Clock) -> None:
        """Add freed memory; ``clock`` as for `take`."""
        self._freed.append(((nbytes + _ROUNDED_TO - 1) // _ROUNDED_TO * _ROUNDED_TO, last_owner))
        if len(self._freed) >= self._trim_at:
            self._freed = [each for each in self._freed if _is_at_work(each[1], clock)][-_MOST_KEPT:]
            self._trim_at = max(_TRIM_FROM, 2 * len(self._freed))

    def take(self, nbytes: int, clock: Clock) -> LastOwner | None:
        """The last owner of the memory that an allocation gets, if its work may still run; None for new memory.

        Args:
            nbytes: Size of the allocation. It takes the smallest memory that is large enough, of equals the last freed.
            clock: The clock that every possible user has reached: work that it covers is over.
        """
        freed = self._freed
        if not freed:
            return None
        wanted = (nbytes + _ROUNDED_TO - 1) // _ROUNDED_TO * _ROUNDED_TO
        while freed:
            best = -1 if freed[-1][0] == wanted else self._best(wanted)
            if best is None:
                return None
            size, last_owner = freed.pop(best)
            if _is_at_work(last_owner, clock):
                if size > wanted:
                    freed.insert(best, (size - wanted, last_owner))
                return last_owner
        return None

    def _best(self, wanted: int) -> int | None:
        found: int | None = None
        for index, (size, _) in enumerate(self._freed):
            if size >= wanted and (found is None or size <= self._freed[found][0]):
                found = index
        return found


def _is_at_work(last_owner: LastOwner, clock: Clock) -> bool:
    one = last_owner.users[0]
    if _is_later(one, clock):  # by far the most common
        return True
    return any(_is_later(each, clock) for each in last_owner.users[1:])


def _is_later(action: Action, clock: Clock) -> bool:
    participant = action.participant
    return clock.get(participant.key, 0) < action.tick and not participant.is_retired  # a retired one is in no clock


# Regions of a block's bytes, contiguous or not, and whether two of them intersect.
#
# To compare the ends alone would report columns of one matrix against each other. Whether two strided regions share a
# byte is a problem in whole numbers that may take any time, so NumPy's answer has a limit of work, beyond which both
# are listed run by run, as regions of index arrays are always.

Offsets = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

_MOST_RUNS = 8

MOST_WORK = 100_000
"""The work limit of `numpy.shares_memory`, some milliseconds; beyond it, both regions are listed element by element."""


class Strided(NamedTuple):
    """Equal runs of bytes at regular distances, the first at the start of the span.

    The form is normalised, so that the usual views of the same bytes compare equal: axes are sorted, positive, and
    merged where one continues another.
    """

    run: int
    """Bytes of one run."""
    axes: tuple[tuple[int, int], ...]
    """(stride in bytes, extent), the finest first."""


class Cells:
    """Equal runs of bytes anywhere in the span, as index arrays select them.

    Args:
        run: Bytes of one cell.
        find: Gives the cells' offsets in the block, in any order; called at the first use.
    """

    __slots__ = ("_find", "_starts", "run")

    def __init__(self, run: int, find: Callable[[], Offsets]) -> None:
        self.run = run
        self._find: Callable[[], Offsets] | None = find
        self._starts: Offsets | None = None

    @property
    def starts(self) -> Offsets:
        """The cells' offsets in the block, ascending, each once."""
        if self._starts is None:
            assert self._find is not None
            self._starts = np.unique(self._find())
            self._find = None  # with the index arrays that it holds
        return self._starts

    def list_offsets(self) -> Offsets:
        """The cells' offsets in the block, in any order, some of them perhaps more than once: at no cost of sorting."""
        return self._find() if self._find is not None else self.starts


class ByteFlags(Cells):
    """Any bytes of the span, as a run of a kernel finds them: equal if they are the same bytes.

    Args:
        start: The offset in the block of the first of them.
        flags: Of each byte from there to the last of them.
    """

    __slots__ = ("_hash", "packed", "start")

    def __init__(self, start: int, flags: Flags) -> None:
        self.start = start
        self.packed = np.packbits(np.concatenate([np.zeros(start % 64, np.bool_), flags]), bitorder="little")
        self._hash = zlib.crc32(self.packed.data)
        granule = next(each for each in (16, 8, 4, 2, 1) if self._consists_of(flags, each))
        super().__init__(granule, self._list_starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByteFlags) and self.start == other.start and np.array_equal(self.packed, other.packed)

    def __hash__(self) -> int:
        return self._hash

    @property
    def origin(self) -> int:
        """The offset in the block of the first packed bit: whole words of all sets of one block fit each other."""
        return self.start - self.start % 64

    def flags(self, begin: int, end: int) -> Flags:
        """Of the bytes in ``begin .. end`` of the block, as far as they are among the packed ones."""
        first, last = max(begin - self.origin, 0), min(end - self.origin, 8 * len(self.packed))
        if first >= last:
            return np.zeros(0, np.bool_)
        whole = np.unpackbits(self.packed[first // 8 : -(-last // 8)], bitorder="little").view(np.bool_)
        return whole[first % 8 : first % 8 + last - first]

    def meets(self, other: Region[HasData]) -> bool:
        """Whether one of the bytes is also of a span without a form, or of other bits."""
        if isinstance(other.form, ByteFlags):
            begin = max(self.origin, other.form.origin)
            one = self.packed[(begin - self.origin) // 8 :]
            two = other.form.packed[(begin - other.form.origin) // 8 :]
            nbytes = min(len(one), len(two))
            return bool((one[:nbytes] & two[:nbytes]).any())
        return bool(self.flags(max(other.start, self.start), other.stop).any())

    def _consists_of(self, flags: Flags, granule: int) -> bool:
        if self.start % granule or len(flags) % granule:
            return False
        groups = flags.reshape(-1, granule)
        return bool((groups == groups[:, :1]).all())

    def _list_starts(self) -> Offsets:
        flags = np.unpackbits(self.packed, bitorder="little").view(np.bool_)
        first = self.start % 64
        return np.flatnonzero(flags[first :: self.run]) * self.run + self.start


Form = Strided | Cells | None
"""The bytes of a span between its ends; None for all of them."""


class HasData(Protocol):
    """An object that has bytes."""

    @property
    def data(self) -> np.ndarray[Any, Any]: ...


Data = TypeVar("Data", bound=HasData)
Data_co = TypeVar("Data_co", bound=HasData, covariant=True)


class Region(NamedTuple, Generic[Data_co]):
    """Bytes of one block in ``start .. stop``: all of them, or those that ``form`` selects."""

    block: Data_co
    start: int
    stop: int
    form: Form = None


def meet(one: Region[HasData], two: Region[HasData]) -> bool:
    """Whether two regions of one block have a byte in common; exact for every form."""
    if one.start >= two.stop or two.start >= one.stop:
        return False
    if one.form is None and two.form is None:
        return True
    for form, other in ((one.form, two), (two.form, one)):
        if isinstance(form, ByteFlags) and (other.form is None or isinstance(other.form, ByteFlags)):
            return form.meets(other)
    if not isinstance(one.form, Cells) and not isinstance(two.form, Cells):
        try:
            first, second = lines(one), lines(two)
            return np.shares_memory(first, second, max_work=MOST_WORK)  # type: ignore[arg-type]  # any number
        except np.exceptions.TooHardError:
            pass
    return find_first_overlap(*starts(one), two) is not None


def find_first_overlap(cells: Offsets, run: int, span: Region[HasData]) -> int | None:
    """The index of a cell that has a byte of the span; None if no cell has.

    Args:
        cells: Ascending offsets of cells.
        run: Bytes of each.
        span: In the same block.
    """
    others, length = starts(span)
    if len(others) > len(cells):  # look up the fewer among the more
        found = np.searchsorted(others, cells - length, "right")
        inside = found < len(others)
        inside[inside] = others[found[inside]] < cells[inside] + run
        return int(inside.argmax()) if inside.any() else None
    found = np.searchsorted(cells, others - run, "right")  # the first cell that ends behind the other's begin
    is_inside = found < len(cells)
    found = found[is_inside]
    met = cells[found] < others[is_inside] + length
    return int(found[met.argmax()]) if met.any() else None


def starts(span: Region[HasData]) -> tuple[Offsets, int]:
    """The ascending offsets of a span's runs, and the bytes of each."""
    form = span.form
    if form is None:
        return np.array([span.start], np.int64), span.stop - span.start
    if isinstance(form, Cells):
        return form.starts, form.run
    offsets, is_ascending = np.array([span.start], np.int64), True
    for stride, extent in form.axes:
        is_ascending = is_ascending and stride > offsets[-1] - span.start
        offsets = (offsets + (np.arange(extent) * stride)[:, None]).reshape(-1)
    return offsets if is_ascending else np.unique(offsets), form.run


def lines(span: Region[HasData]) -> np.ndarray[Any, Any]:
    """The bytes of a span that no index array has selected."""
    return _lines(span, span.block.data)


def _lines(span: Region[HasData], data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    form = span.form
    if form is None:
        return data[span.start : span.stop]
    assert isinstance(form, Strided)
    shape = (*(extent for _, extent in form.axes), form.run)
    strides = (*(stride for stride, _ in form.axes), 1)
    return np.ndarray(shape, data.dtype, data, span.start, strides)


def bytes_of(span: Region[HasData], flags: Flags) -> Flags:
    """The flags of a span's bytes; ``flags`` has one for each byte of the block."""
    if isinstance(span.form, ByteFlags):
        return flags[span.start : span.stop][span.form.flags(span.start, span.stop)]
    if isinstance(span.form, Cells):
        return flags[_indices(span.form)]
    return _lines(span, flags)


def mark(span: Region[HasData], flags: Flags, value: bool) -> None:
    """Set the flags of a span's bytes."""
    if isinstance(span.form, ByteFlags):
        flags[span.start : span.stop][span.form.flags(span.start, span.stop)] = value
    elif isinstance(span.form, Cells):
        flags[_indices(span.form)] = value
    else:
        _lines(span, flags)[...] = value


def _indices(cells: Cells) -> Offsets:
    return (cells.starts[:, None] + np.arange(cells.run)).reshape(-1)


def find_common(one: Region[HasData], two: Region[HasData]) -> int | None:
    """The first byte that two regions of one block have in common; None if there is none."""
    begin, end = max(one.start, two.start), min(one.stop, two.stop)
    if begin >= end:
        return None
    found = np.ones(end - begin, np.bool_)
    for each in (one, two):
        if each.form is not None:
            flags = np.zeros(each.stop, np.bool_)
            mark(each, flags, True)
            found &= flags[begin:end]
    return begin + int(found.argmax()) if found.any() else None


def regions_of(block: Data, start: int, flags: Flags) -> list[Region[Data]]:
    """The regions of a block that hold the bytes with a flag, of which the first is that of byte ``start``.

    A few runs are a region each; equal runs at equal distances are one, and so are all other bytes, as bits.
    """
    begins, ends = _find_edges(flags)
    if len(begins) <= _MOST_RUNS:
        return [Region(block, start + int(a), start + int(b)) for a, b in zip(begins, ends, strict=True)]
    first, last, run = int(begins[0]), int(ends[-1]), int(ends[0] - begins[0])
    stride = int(begins[1] - begins[0])
    if (ends - begins == run).all() and (np.diff(begins) == stride).all():
        return [Region(block, start + first, start + last, Strided(run, ((stride, len(begins)),)))]
    return [Region(block, start + first, start + last, ByteFlags(start + first, flags[first:last]))]


def runs(flags: Flags) -> list[tuple[int, int]]:
    """The ranges where flags are set, each as (start, stop)."""
    begins, ends = _find_edges(flags)
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def _find_edges(flags: Flags) -> tuple[Offsets, Offsets]:
    """Where flags begin to be set, and where they end."""
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False))
    return edges[::2], edges[1::2]


# The accesses to a block, by participant and region, and only the latest of each: it is ordered behind the
# participant's earlier ones and implies them.
#
# The obvious record, a map of byte ranges to accesses, would be cut at every element of a column or of what an index
# array selects, and an access in the middle of a program is ordered behind nearly all others at once, by their last
# ticks. Keeping an access that another one has since overwritten is harmless: an action ordered behind the second is
# ordered behind the first. A write of the whole block stands for all accesses before it.

_LONG = 256
_HEAVY = 1 << 16
"""The bytes of a set of bits that count as one access more, lest they take more memory than the blocks."""


class CellLog:
    """The latest access of one participant to each of many cells of one size."""

    __slots__ = ("_actions", "_cells", "run")

    def __init__(self, run: int) -> None:
        self.run = run
        self._keep(np.empty(0, np.int64), np.empty(0, np.int64))
        self._actions: dict[int, Action] = {}

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, accesses: list[tuple[Offsets, Action]]) -> None:
        """Add later accesses, in their order: the cells of each in any order, and as often as they come."""
        ticks = [np.full(len(starts), action.tick, np.int64) for starts, action in accesses]
        self._actions.update((action.tick, action) for _, action in accesses)
        starts = np.concatenate([self._starts, *(starts for starts, _ in accesses)])[::-1]
        starts, latest = np.unique(starts, return_index=True)
        self._keep(starts, np.concatenate([self._ticks, *ticks])[::-1][latest])
        self._actions = {tick: self._actions[tick] for tick in np.unique(self._ticks).tolist()}

    def _keep(self, starts: Offsets, ticks: Offsets) -> None:
        self._cells = starts, ticks  # at once: an error between two assignments would leave arrays that do not fit

    @property
    def _starts(self) -> Offsets:
        return self._cells[0]

    @property
    def _ticks(self) -> Offsets:
        return self._cells[1]

    def forget(self, known: Callable[[Action], bool]) -> None:
        """Drop accesses that everything still to come is ordered behind."""
        self._actions = {tick: action for tick, action in self._actions.items() if not known(action)}
        kept = self._ticks >= min(self._actions, default=np.iinfo(np.int64).max)
        self._keep(self._starts[kept], self._ticks[kept])

    def find_conflict(self, span: Region[HasData], known: int) -> Action | None:
        """An access later than ``known`` to bytes of a span."""
        later = np.flatnonzero(self._ticks > known)
        if not len(later):
            return None
        index = find_first_overlap(self._starts[later], self.run, span)
        return self._actions[int(self._ticks[later[index]])] if index is not None else None


class Accesses:
    """One participant's accesses to one block, ``latest`` the last of them."""

    __slots__ = ("latest", "logs", "regions")

    def __init__(self, latest: Action) -> None:
        self.latest = latest
        self.regions: dict[tuple[int, int, Form, bool], Action] = {}
        """Accesses by first byte, end, form and whether they write; in the order of their ticks."""
        self.logs: dict[tuple[int, bool], CellLog] = {}
        """Accesses by cell size and whether they write: those moved out of a `regions` grown too long."""

    def find_conflict(self, span: Region[HasData], known: int, *, is_write: bool) -> tuple[Action, bool] | None:
        """An access later than ``known`` that collides, and whether it is a write."""
        begin, end = span.start, span.stop
        for (start, stop, form, was_write), action in reversed(self.regions.items()):
            if action.tick <= known:
                break
            if (is_write or was_write) and start < end and begin < stop:
                is_plain = form is None and span.form is None
                if is_plain or meet(Region(span.block, start, stop, form), span):
                    return action, was_write
        for (_, was_write), log in self.logs.items():
            if (is_write or was_write) and (found := log.find_conflict(span, known)) is not None:
                return found, was_write
        return None

    def forget(self, known: Callable[[Action], bool]) -> None:
        """Drop accesses that everything still to come is ordered behind."""
        self.regions = {region: action for region, action in self.regions.items() if not known(action)}
        for key, log in [*self.logs.items()]:
            log.forget(known)
            if not len(log):
                del self.logs[key]

    def compact(self) -> None:
        """Move accesses from regions, which hold index arrays, into logs, which have one entry an element at most."""
        additions: dict[tuple[int, bool], list[tuple[Offsets, Action]]] = {}
        for region, action in [*self.regions.items()]:
            form, is_write = region[2:]
            if isinstance(form, Cells):
                additions.setdefault((form.run, is_write), []).append((form.list_offsets(), action))
                del self.regions[region]
        for key, accesses in additions.items():
            self.logs.setdefault(key, CellLog(key[0])).add(accesses)


class History:
    """The accesses to one block, by participant: those who came last at the end."""

    __slots__ = ("_accesses", "_count", "_long")

    def __init__(self) -> None:
        self._accesses: dict[int, Accesses] = {}
        self._count = 0
        self._long = _LONG

    @property
    def is_long(self) -> bool:
        """Whether it is time to `forget`."""
        return self._count >= self._long

    def every(self) -> Iterator[tuple[Action, int, int, Form, bool]]:
        """The accesses to regions, the bytes of each, and whether it wrote them."""
        for accesses in self._accesses.values():
            for (start, stop, form, is_write), action in accesses.regions.items():
                yield action, start, stop, form, is_write

    def regions_of(self, block: Data, action: Action) -> list[Region[Data]]:
        """Those that an action has used, as far as it was the last to use them."""
        accesses = self._accesses.get(action.participant.key)
        regions = () if accesses is None else accesses.regions.items()
        return [Region(block, start, stop, form) for (start, stop, form, _), each in regions if each is action]

    def latest(self) -> list[Action]:
        """The last access of each participant."""
        return [each.latest for each in self._accesses.values()]

    def is_clear(self, action: Action, clock: Clock | Joined) -> bool:
        """Whether an action is ordered behind all accesses."""
        own = action.participant.key
        for key, accesses in self._accesses.items():
            latest = accesses.latest
            if key != own and latest.tick > clock.get(key, 0) and not latest.participant.is_retired:
                return False
        return True

    def find_conflict(
        self, span: Region[HasData], action: Action, clock: Clock | Joined, *, is_write: bool
    ) -> tuple[Action, bool] | None:
        """A conflicting access that no ordering puts before ``action``: the last write if there is one, else a read.

        Returns:
            The access, and whether it is a write; None if there is none.
        """
        own, found = action.participant.key, None
        for key, accesses in self._accesses.items():
            if key == own:
                continue
            latest, known = accesses.latest, clock.get(key, 0)
            if latest.tick > known and not latest.participant.is_retired:
                met = accesses.find_conflict(span, known, is_write=is_write)
                if met is not None and (found is None or met[1]):
                    found = met
        return found

    def note(self, span: Region[HasData], action: Action, *, is_write: bool) -> None:
        """Remember an access."""
        key = action.participant.key
        accesses = self._accesses.get(key)
        if accesses is None:
            accesses = self._accesses[key] = Accesses(action)
        elif len(self._accesses) > 1:
            self._accesses[key] = self._accesses.pop(key)
        accesses.latest = action
        regions, (_, start, stop, form) = accesses.regions, span
        region = start, stop, form, is_write
        if regions.pop(region, None) is None:
            self._count += 1 if not isinstance(form, ByteFlags) else 1 + len(form.packed) // _HEAVY
        regions[region] = action
        if is_write and len(regions) > 1 and regions.pop((start, stop, form, False), None) is not None:
            self._count -= 1  # the write stands for the read too

    def overwrite(self, span: Region[HasData]) -> None:
        """Drop the accesses within a contiguous span: a write of it, which was reported, stands for them."""
        for key, accesses in [*self._accesses.items()]:
            accesses.regions = {
                region: action
                for region, action in accesses.regions.items()
                if region[0] < span.start or span.stop < region[1]
            }
            if not accesses.regions and not accesses.logs:
                del self._accesses[key]

    def forget(self, known: Callable[[Action], bool]) -> bool:
        """Drop accesses that everything still to come is ordered behind; whether any is left."""
        for key, accesses in [*self._accesses.items()]:
            if known(accesses.latest):
                del self._accesses[key]
            else:
                accesses.forget(known)
                accesses.compact()
        self._count = sum(len(each.regions) for each in self._accesses.values())
        self._long = max(_LONG, 2 * self._count)
        return bool(self._accesses)


# Streams and events of the simulated devices, with CUDA's rules for the default streams.

LEGACY, LEGACY_ALIAS, PER_THREAD = 0, 1, 2
"""The handles that CUDA gives the default streams."""


class StreamKind(Enum):
    """The relation of a stream to the legacy default stream of its device."""

    LEGACY = "legacy default"
    PER_THREAD = "per-thread default"
    BLOCKING = "blocking"
    NON_BLOCKING = "non-blocking"


class SimStream(Participant):
    """A queue of operations on one device.

    Attributes:
        tail: The last operation enqueued.
        time_ps: When its last operation ends on the virtual clock.
        pool: Memory freed in its order.
        awaited: Of the legacy stream, by stream: events that its next operation waits for. Blocking streams are not
            ordered around a wait, as measured on an H200.
        last_wait: Of the legacy stream: its last wait.
        others: The streams whose work so far comes before its next operation by CUDA's rules.
        polled: The event that the host polls, until it is complete.
        recorded: Notes its operations instead of the machine doing them, while it is captured.
        idle_copies: Participants of the copies of staged transfers that are complete, which the stream comes after.
        waited: By the key of another stream, this stream's last wait for it. A report uses it to hint that the
            event was recorded too early for the access.
    """

    __slots__ = (
        "awaited", "device", "idle_copies", "is_own", "kind", "last_wait", "others", "polled", "pool", "priority",
        "recorded", "site", "tail", "time_ps", "waited",
    )  # fmt: skip

    def __init__(
        self, key: int, device: Device, kind: StreamKind, site: Site, priority: int = 0, *, is_own: bool = False
    ) -> None:
        made = f", made {'for' if is_own else 'at'} {site.file}:{site.line}" if kind.value.endswith("blocking") else ""
        super().__init__(key, f"{kind.value} stream {key} of {device}{made}")
        self.is_own = is_own
        """Whether xferlib made it for transfers: the program has no name for it."""
        self.device = device
        self.kind = kind
        self.site = site
        self.priority = priority
        self.tail: Operation | None = None
        self.others: Sequence[SimStream] = ()
        self.time_ps = 0
        self.waited: dict[int, Waited] = {}
        self.pool = Pool()
        self.awaited: dict[int, SimEvent] = {}
        self.last_wait: Operation | None = None
        self.polled: SimEvent | None = None
        self.recorded: CapturedWork | None = None
        self.idle_copies: list[TransferCopies] = []

    @property
    def handle(self) -> int:
        """Its handle, as in CUDA."""
        # Every device has default streams, under the same handles: `key` alone tells them apart.
        return {StreamKind.LEGACY: LEGACY, StreamKind.PER_THREAD: PER_THREAD}.get(self.kind, self.key)


class Waited(NamedTuple):
    """One stream's wait for an event of another; ``event`` is None if it was never recorded."""

    event: SimEvent | None
    location: CodeLocation

    @property
    def site(self) -> Site:
        return site_of(self.location)


class SimEvent(KeptClock):
    """A recorded event: the work before it as a clock, and the operation that completes it.

    A clock that has reached ``tick`` of ``participant`` is ordered behind it.
    """

    __slots__ = ("operation", "participant", "polls", "stream", "tick", "time_ps", "timing")

    def __init__(self, stream: SimStream, operation: Operation, participants: ParticipantKeys, *, timing: bool) -> None:
        super().__init__(dict(stream.clock), participants)
        self.stream = stream
        self.operation = operation
        self.participant: Participant = stream
        self.tick = operation.tick
        self.time_ps = stream.time_ps
        self.timing = timing
        self.polls = 0

    @property
    def site(self) -> Site:
        return self.operation.site

    def narrow(self, copies: Participant) -> None:
        """Cover the copies of a transfer and what came before it alone: it was begun late, behind later work."""
        self._clock = dict(copies.clock)
        self.participant, self.tick = copies, copies.clock[copies.key]


class StreamHandle(RawStream):
    """The handle of a stream for shared code; tells the machine when the last reference is gone."""

    __slots__ = ("_ended", "stream")

    def __init__(
        self, handle: int, stream: SimStream, ended: deque[SimStream] | None, device: Device | None = None
    ) -> None:
        super().__init__(handle, device if device is not None else stream.device, native=None)
        self.stream = stream
        self._ended = ended

    def __del__(self) -> None:
        ended: Any = getattr(self, "_ended", None)
        if ended is not None:
            # Not more: the collector may call this in any thread, inside any call of the machine, whose lock it would
            # wait for. Appending to a deque takes none; the machine's next call looks.
            ended.append(self.stream)


class DeviceStreams:
    """The streams of one device, by their relation to its legacy stream."""

    __slots__ = ("blocking", "every", "legacy")

    def __init__(self, legacy: SimStream) -> None:
        self.legacy = legacy
        self.blocking: list[SimStream] = []
        self.every: list[SimStream] = [legacy]
        # The legacy stream waits for every blocking stream, and they for it; non-blocking ones are exempt. Only one
        # step back: what a blocking stream waits for came before the legacy stream's last operation, and is known by
        # its clock.
        legacy.others = self.blocking

    def add(self, stream: SimStream) -> None:
        self.every.append(stream)
        if stream.kind is not StreamKind.NON_BLOCKING:
            self.blocking.append(stream)
            stream.others = (self.legacy,)

    def remove(self, stream: SimStream) -> None:
        for streams in (self.every, self.blocking):
            if stream in streams:
                streams.remove(stream)
