"""The functions of `Stream.call`: they touch host memory in their turn on a stream, and not when the program calls.

Nothing tells what a function touches before it runs, and then operations that come after it may be in flight already.
So what it declares is noted behind what came before it, and before what is ordered behind it. Memory that it may want
to read keeps its contents, and what it writes into the target of a later copy is no fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xferlib._runtime.callsite import user_call
from xferlib.sim.detect.reports import RaceError
from xferlib.sim.model.operations import at_operation

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.layout import HostArray
    from xferlib.sim.machine.parts import Parts
    from xferlib.sim.machine.staging import Staging
    from xferlib.sim.model.clocks import Clock
    from xferlib.sim.model.operations import Operation
    from xferlib.sim.model.streams import SimStream


class HostFunction:
    """One function, from the call on until it has run."""

    def __init__(self, machine: Parts, staging: Staging, stream: SimStream, function: Callable[[], object]) -> None:
        self._machine = machine
        self._staging = staging
        self._stream = stream
        self._function = function
        self._operation: Operation | None = None
        self._clock: Clock = {}
        machine.functions.add(self)

    def enqueued(self) -> None:
        """Note the operation, and what it is ordered behind."""
        self._operation, self._clock = self._stream.tail, dict(self._stream.clock)

    def run(self) -> None:
        machine = self._machine
        if self._operation is None:  # at once, before `enqueue` returns
            self.enqueued()
        watches = [each for block in machine.memory.on_host() for each in block.watches if each.is_target]
        for watch in watches:
            watch.look()
        touches = None if machine.guard is None else machine.guard.touches
        before = 0 if touches is None else len(touches)
        machine.function = self
        try:
            self._function()
        finally:
            machine.function = None
            machine.functions.discard(self)
            for watch in watches:
                watch.accept()
            while touches is not None and len(touches) > before:
                touches.pop()

    def access(self, data: HostArray, *, is_write: bool) -> None:
        """Check an access that the function declares; a fault is raised by the program's next call."""
        assert self._operation is not None
        action = at_operation("a write" if is_write else "a read", self._operation, *user_call())
        try:
            self._staging.check(action, self._with_later(), data, is_write=is_write, before=self._clock)
        except RaceError as error:
            self._machine.detector.postponed.append(error.race)

    def _with_later(self) -> Clock:
        """The clock of the function, and of the participants that are known to come after it."""
        assert self._operation is not None
        machine, own, clock = self._machine, self._stream, self._clock.copy()
        streams = (stream for each in machine.streams.values() for stream in each.every)
        stagers = (each for asked in self._staging.postponed for each in asked.participants())
        for each in (*streams, *machine.hosts, *stagers):
            if each is not own and each.clock.get(own.key, 0) >= self._operation.tick:
                clock[each.key] = each.clock[each.key]
        return clock
