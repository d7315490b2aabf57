"""The ends of arrays, page-locked memory and streams: their order, and the records that they make obsolete.

Freeing a block in its owner's finalizer is the obvious way, and wrong twice. Python may run a finalizer inside any
call into the machine, in any thread: taking the lock there can deadlock, and freeing a block changes tables in the
middle of an operation that reads them. So a finalizer only appends to a deque, which is atomic, and the next call
into the machine does the work, with the line of the program where the object died.

A free counts as a write of the whole block, in the order of the allocation's stream. It is checked like any other,
so memory that another stream still uses is a race, unless the owner has declared the use. Raising out of a finalizer
is impossible, so that report waits too.

Vector clocks grow by one entry for each stream and thread that ever existed. Once the host is ordered behind all that
an ended participant did, it is removed from every clock, for many at a time: that walks through all of them.
"""

from __future__ import annotations

import functools
from collections import deque
from typing import TYPE_CHECKING

from xferlib._runtime.callsite import CodeLocation
from xferlib._runtime.callsite import location as here
from xferlib.sim.model.blocks import Block, last_users
from xferlib.sim.model.clocks import Joined
from xferlib.sim.model.memory import poison
from xferlib.sim.model.operations import Action, Operation
from xferlib.sim.model.pool import LastOwner, Pool
from xferlib.sim.model.streams import SimEvent, SimStream

if TYPE_CHECKING:
    from collections.abc import Collection

    from xferlib.sim.machine.parts import Parts
    from xferlib.sim.machine.staging import PostponedStaging
    from xferlib.sim.model.hosts import HostThread

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
            self._deaths.append((self.block, self.users, self.events, here()))
        except Exception:  # the interpreter is shutting down
            return


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

    def __init__(self, machine: Parts, postponed: Collection[PostponedStaging]) -> None:
        self._machine = machine
        self._postponed = postponed
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
        self._free_arrays()
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

    def _free_arrays(self) -> None:
        while self.deaths:
            death = self.deaths[0]
            try:
                self._free(*death)
            except BaseException:
                self._machine.memory.free(death[0])  # or its bytes would count as used for ever
                raise
            finally:
                if self.deaths and self.deaths[0] is death:
                    self.deaths.popleft()

    def _free(
        self, block: Block, users: dict[int, SimStream], events: dict[int, SimEvent], location: CodeLocation
    ) -> None:
        machine, stream = self._machine, block.stream
        assert stream is not None
        before = [stream, *users.values(), *machine.streams[stream.device].before(stream)]
        awaited = [event for each in (stream, *users.values()) for event in each.awaited.values()]
        # Reference counts order the threads that held the array: all their uses happen before the free.
        clock = Joined(before, machine.hosts, events.values(), awaited, block.left.values())
        undeclared = before if not users else [stream, *before[1 + len(users) :]]
        is_kept = machine.detector.is_on and block.nbytes and not stream.is_retired  # a retired one allocates no more
        if is_kept and (still := last_users(block, undeclared)):
            stream.pool.put(block.nbytes, LastOwner(still, location), machine.hosts.main.clock)
        free = Operation("free", stream, location, None)
        machine.memory.free(block, free)
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
            and all(main.get(each.key, 0) >= each.clock[each.key] for each in stream.idle_copies)
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
        late = list(self._postponed)  # in one step: other threads postpone transfers without the lock
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
