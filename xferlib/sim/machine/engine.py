"""The operations in flight, carried out in an order that the schedule chooses.

Carrying out each operation when it is enqueued is what a CPU fallback does: it hides every missing wait. A thread for
each stream would be late at random, so that a fault shows on some runs and cannot be replayed. Here an operation
is a node of a graph: it may run once the operations that CUDA's rules put before it are done. Nothing runs until the
host waits for something; then the schedule chooses, step by step, among all that may run. So one seed gives one
order, and every legal order can be given.

Records and waits do no work and complete as soon as they can: only their order counts. A program that never waits
would pile up operations, and with them memory, so beyond a limit the oldest are carried out.

Ctrl-C, or an allocation that fails, may strike at any line. So nothing is kept but the operations and what comes before
each: counts and queues of what may run are made anew where they are needed. An operation belongs to its stream from the
one assignment on that makes it the stream's last one, even if it never comes here, and is carried out exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xferlib._runtime.interrupts import deferred
from xferlib.sim.machine.schedules import Schedule
from xferlib.sim.model.operations import Operation

MOST_PENDING = 256
"""The most operations in flight; without a limit, a program that never waits would fill the memory."""
_AT_ONCE = 32


class Engine:
    """The operations in flight."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._in_flight: dict[Operation, None] = {}
        """In the order in which they were enqueued; some may be done."""
        self._serial = 0

    @property
    def pending(self) -> int:
        """The number of operations in flight."""
        self._sweep()
        return len(self._in_flight)

    def order(self, operation: Operation, after: Iterable[Operation | None]) -> None:
        """Put an operation behind the operations ``after``, before it becomes its stream's last one."""
        self._serial += 1
        operation.serial = self._serial
        operation.before = tuple([each for each in after if each is not None and not each.is_done])

    def add(self, operation: Operation) -> None:
        """Let the schedule carry out an operation from now on."""
        if not operation.is_done:
            self._in_flight[operation] = None
        if self.schedule.is_eager:
            self._carry_out(operation.needed())
        elif len(self._in_flight) > MOST_PENDING:
            self._sweep()
            oldest = list(self._in_flight)[: max(0, len(self._in_flight) - MOST_PENDING + _AT_ONCE)]
            self._carry_out(each for operation in oldest for each in operation.needed())
            self._sweep()

    def _sweep(self) -> None:
        self._in_flight = {each: None for each in self._in_flight if not each.is_done_behind()}  # in their order

    def force(self, target: Operation) -> None:
        """Carry out operations until ``target`` is done."""
        if target.is_done:
            return
        self._carry_out(self.schedule.plan(target))
        if not target.is_done:
            front = _Front([*self._in_flight, target])
            while not target.is_done:
                chosen = self.schedule.pick(front.ready, target)
                self._carry_out([chosen])
                front.finished(chosen)
        self._sweep()

    def drain(self) -> None:
        """Carry out everything, the overwriting of freed memory included, which no program can wait for."""
        self._carry_out(each for operation in list(self._in_flight) for each in operation.needed())
        self._sweep()

    def linger(self) -> None:
        """Let the devices go on before the host looks at memory, if the schedule says so."""
        if type(self.schedule).linger is Schedule.linger:
            return
        front = _Front(self._in_flight)
        while front.ready and (operation := self.schedule.linger(front.ready)) is not None:
            self._carry_out([operation])
            front.finished(operation)

    def _carry_out(self, operations: Iterable[Operation]) -> None:
        with deferred, np.errstate(all="ignore"):  # a GPU gives inf and NaN, and no warning
            for operation in operations:
                _carry_out(operation)
                self._in_flight.pop(operation, None)
                deferred.check()


def _carry_out(operation: Operation) -> None:
    around = operation.around
    if around is None:
        _run(operation)
        return
    around.begin()
    try:
        _run(operation)
        around.end()
    except BaseException:
        around.end()
        raise
    operation.around = None
    around.report()


def _run(operation: Operation) -> None:
    try:
        operation.carry_out()
    except MemoryError:  # tried again at the next wait, and then given up
        if operation.has_failed:
            operation.finish()
        operation.has_failed = True
        raise
    except Exception:  # of a function of the program's: it would fail for ever
        operation.finish()
        raise


class _Front:
    """Those of some operations that may run, and what each has to wait for."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.ready: dict[Operation, None] = {}
        self._unmet: dict[Operation, int] = {}
        self._followers: dict[Operation, list[Operation]] = {}
        found: dict[Operation, None] = {}
        waiting = [each for each in operations if not each.is_done]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found[each] = None
                waiting += [before for before in each.before if not before.is_done]
        for operation in sorted(found, key=lambda each: each.serial):
            unmet = [each for each in operation.before if not each.is_done]
            for each in unmet:
                self._followers.setdefault(each, []).append(operation)
            if unmet:
                self._unmet[operation] = len(unmet)
            else:
                self.ready[operation] = None

    def finished(self, operation: Operation) -> None:
        """Let those run that waited for nothing else."""
        self.ready.pop(operation, None)
        done = [operation]
        for each in done:  # it grows by the records and waits that this completes
            for follower in self._followers.pop(each, ()):
                self._unmet[follower] -= 1
                if not self._unmet[follower]:
                    if follower.is_done:
                        done.append(follower)
                    else:
                        self.ready[follower] = None
