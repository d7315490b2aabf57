"""Ends: of arrays, of page-locked memory and of streams; what an end comes after, and what is then forgotten.

Objects die at any moment, also inside a call into the machine: they are put down here, and buried at
the next call.
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
from xferlib.sim.model.pool import Former, Pool
from xferlib.sim.model.streams import SimEvent, SimStream

if TYPE_CHECKING:
    from collections.abc import Collection

    from xferlib.sim.machine.parts import Parts
    from xferlib.sim.machine.staging import PostponedStaging
    from xferlib.sim.model.hosts import HostThread

_ENDED_TOGETHER = 16


class Allocation:
    """Owns a block; its death frees the block in the order of its stream."""

    __slots__ = ("__weakref__", "_deaths", "block", "events", "users")

    def __init__(self, block: Block, deaths: deque[Death]) -> None:
        self.block = block
        self._deaths = deaths
        self.users: dict[int, SimStream] = {}
        """Streams besides the allocation's that the owner has declared; the free waits for them."""
        self.events: dict[int, SimEvent] = {}
        """By stream, the last event that the free waits for."""

    def outlast(self, event: SimEvent) -> None:
        """Let the free wait for an event."""
        self.events[event.stream.key] = event

    def __del__(self) -> None:
        try:
            self._deaths.append((self.block, self.users, self.events, here()))
        except Exception:  # the interpreter is going away
            return


Death = tuple[Block, dict[int, SimStream], dict[int, SimEvent], CodeLocation]
"""The memory of an array that was collected, as its `Allocation` had it, and the line where that happened."""


class Lifetimes:
    """What has died and is not buried yet."""

    def __init__(self, machine: Parts, postponed: Collection[PostponedStaging]) -> None:
        self._machine = machine
        self._postponed = postponed
        self.deaths: deque[Death] = deque()
        self.released: deque[tuple[int, HostThread, CodeLocation]] = deque()
        self.ended: deque[SimStream] = deque()
        self._retiring: list[SimStream] = []

    def release_host(self, pointer: int) -> None:
        """Host memory that devices could reach is let go; may be called at any moment."""
        self.released.append((pointer, self._machine.hosts.current(), here()))

    def bury(self) -> None:
        """What has died since the last call: arrays, and page-locked memory."""
        machine = self._machine
        self._bury_arrays()
        while self.released:
            pointer, host, location = self.released.popleft()
            block = machine.memory.untrack(pointer)
            action = Action("release of page-locked memory", host, location)
            clock = Joined(machine.hosts)  # each thread that dropped it comes before, as above
            if machine.detector.is_on and (race := machine.detector.check_free(action, clock, block)) is not None:
                machine.detector.postpone(race)

    def _bury_arrays(self) -> None:
        machine = self._machine
        while self.deaths:
            block, users, events, location = self.deaths.popleft()
            stream = block.stream
            assert stream is not None
            before = [stream, *users.values(), *machine.streams[stream.device].before(stream)]
            awaited = [event for each in (stream, *users.values()) for event in each.awaited.values()]
            # Reference counts order the threads that held the array: each that dropped it before comes before.
            clock = Joined(before, machine.hosts, events.values(), awaited, block.left)
            undeclared = before if not users else [stream, *before[1 + len(users) :]]
            is_kept = machine.detector.is_on and block.nbytes and not stream.is_retired  # which allocates no more
            if is_kept and (still := last_users(block, undeclared)):
                stream.pool.put(block.nbytes, Former(still, location), machine.hosts.main.clock)
            free = Operation("free", stream, location, None)
            machine.memory.free(block, free)
            if machine.detector.is_on and (race := machine.detector.check_free(free, clock, block)) is not None:
                machine.detector.postpone(race)
            if machine.engine.schedule.reuses_memory:
                free.run = functools.partial(poison, block.data)
                tails = [each.tail for each in before]
                machine.engine.add(free, [*tails, *(event.operation for event in (*events.values(), *awaited))])

    def retire_ended(self) -> None:
        """Forget streams whose handles are gone and threads that have ended, if the host knows all they did."""
        machine = self._machine
        threads = machine.hosts.over
        if len(self.ended) + len(threads) < _ENDED_TOGETHER:
            return
        self._retiring.extend(self.ended)
        self.ended.clear()
        main = machine.hosts.main.clock
        # What it enqueued last counts: frees may come later, but nothing can collide with what is gone.
        over = [s for s in self._retiring if s.tail is None or main.get(s.key, 0) >= s.tail.tick]
        known = [each for each in threads if main.get(each.key, 0) >= each.clock[each.key]]
        for thread in known:
            thread.is_retired = True
            threads.remove(thread)
        keys = {each.key for each in (*over, *known)}
        self._retiring = [stream for stream in self._retiring if stream.key not in keys]
        for stream in over:
            stream.is_retired = True
            stream.pool = Pool()  # what it keeps leads to streams that ended before
            machine.streams[stream.device].remove(stream)
        machine.roll.leave(keys)
        pending = (each for postponed in self._postponed for each in postponed.participants())
        for participant in (*machine.hosts, *pending, *(s for each in machine.streams.values() for s in each.every)):
            participant.forget(keys)
        for each in machine.streams.values():
            for stream in each.every:
                for key in keys:
                    stream.waited.pop(key, None)
