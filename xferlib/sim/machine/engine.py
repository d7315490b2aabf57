"""The operations in flight, carried out in an order that the schedule chooses.

Carrying out each operation when it is enqueued is what a CPU fallback does: it hides every missing wait. A thread for
each stream would be late at random, so that a fault shows on some runs and cannot be replayed. Here an operation
is a node of a graph: it may run once the operations that CUDA's rules put before it are done. Nothing runs until the
host waits for something; then the schedule chooses, step by step, among all that may run. So one seed gives one
order, and every legal order can be given.

Records and waits do no work and complete as soon as they can: only their order counts. A program that never waits
would pile up operations, and with them memory, so beyond a limit the oldest are carried out.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xferlib.sim.machine.schedules import Schedule
from xferlib.sim.model.operations import Operation

MOST_PENDING = 256
"""The most operations in flight; without a limit, a program that never waits would fill the memory."""
_AT_ONCE = 32


class Engine:
    """The operations in flight, and those of them that may run."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.pending = 0
        self._ready: dict[Operation, None] = {}
        self._serial = 0

    def add(self, operation: Operation, after: Iterable[Operation | None]) -> None:
        """Enqueue an operation behind the operations ``after``."""
        self._serial += 1
        operation.serial = self._serial
        self.pending += 1
        unmet: list[Operation] = []
        for before in after:
            if before is not None and not before.is_done:
                unmet.append(before)
                if before.followers:
                    before.followers.append(operation)
                else:
                    before.followers = [operation]
        if unmet:
            operation.before = tuple(unmet)
            operation.unmet = len(unmet)
        elif operation.run is None:  # a record or a wait: done as soon as it can be
            self._finish(operation)
        else:
            self._ready[operation] = None
        if self.schedule.is_eager:
            with np.errstate(all="ignore"):
                while not operation.is_done:
                    self._carry_out(self.schedule.pick(self._ready, operation))
        elif self.pending > MOST_PENDING:
            with np.errstate(all="ignore"):
                while self.pending > MOST_PENDING - _AT_ONCE:
                    self._carry_out(next(iter(self._ready)))

    def force(self, target: Operation) -> None:
        """Carry out operations until ``target`` is done."""
        if target.is_done:
            return
        with np.errstate(all="ignore"):  # a GPU gives inf and NaN, and no warning
            for operation in self.schedule.plan(target):
                self._carry_out(operation)
            while not target.is_done:
                self._carry_out(self.schedule.pick(self._ready, target))

    def drain(self) -> None:
        """Carry out everything, the overwriting of freed memory included, which no program can wait for."""
        with np.errstate(all="ignore"):
            while self._ready:
                self._carry_out(next(iter(self._ready)))

    def linger(self) -> None:
        """Let the devices go on before the host looks at memory, if the schedule says so."""
        with np.errstate(all="ignore"):
            while self._ready and (operation := self.schedule.linger(self._ready)) is not None:
                self._carry_out(operation)

    def _carry_out(self, operation: Operation) -> None:
        del self._ready[operation]
        try:
            assert operation.run is not None
            operation.run()
        finally:
            self._finish(operation)

    def _finish(self, operation: Operation) -> None:
        finished = [operation]
        for done in finished:  # it grows by the records and waits that this releases
            done.is_done = True
            self.pending -= 1
            for follower in done.followers:
                follower.unmet -= 1
                if not follower.unmet:
                    if follower.run is None:
                        finished.append(follower)
                    else:
                        self._ready[follower] = None
            # Shadows keep operations for long, but must not keep their arrays.
            done.followers = done.before = ()
            done.run = None
