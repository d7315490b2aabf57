"""What is enqueued and not yet done: carried out in an order that the schedule chooses."""

from __future__ import annotations

from collections.abc import Iterable

from xferlib.sim.operations import Operation
from xferlib.sim.schedules import Schedule

MOST_PENDING = 256
"""A device that never had to finish anything would hold all memory it was ever given."""


class Engine:
    """The operations in flight, and which of them may run."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.pending = 0
        self._ready: dict[Operation, None] = {}
        self._serial = 0

    def add(self, operation: Operation, after: Iterable[Operation | None]) -> None:
        """Enqueue an operation behind others."""
        self._serial += 1
        operation.serial = self._serial
        self.pending += 1
        for before in after:
            if before is not None and not before.is_done:
                before.followers.append(operation)
                operation.before.append(before)
        operation.unmet = len(operation.before)
        if not operation.unmet:
            self._offer(operation)
        if self.schedule.is_eager:
            while not operation.is_done:
                self._carry_out(self.schedule.pick(self._ready, operation))
        elif self.pending > MOST_PENDING:
            self._carry_out(next(iter(self._ready)))

    def force(self, target: Operation) -> None:
        """Carry out operations until ``target`` is done."""
        if not target.is_done:
            for operation in self.schedule.plan(target):
                self._carry_out(operation)
        while not target.is_done:
            self._carry_out(self.schedule.pick(self._ready, target))

    def linger(self) -> None:
        """The host is about to look at memory: the schedule may let the devices go on first."""
        while self._ready and (operation := self.schedule.linger(self._ready)) is not None:
            self._carry_out(operation)

    def _carry_out(self, operation: Operation) -> None:
        del self._ready[operation]
        try:
            assert operation.run is not None
            operation.run()
        finally:
            self._finish(operation)

    def _offer(self, operation: Operation) -> None:
        if operation.run is None:  # a record or a wait: done as soon as it can be
            self._finish(operation)
        else:
            self._ready[operation] = None

    def _finish(self, operation: Operation) -> None:
        finished = [operation]
        while finished:
            done = finished.pop()
            done.is_done = True
            self.pending -= 1
            for follower in done.followers:
                follower.unmet -= 1
                if not follower.unmet:
                    if follower.run is None:
                        finished.append(follower)
                    else:
                        self._ready[follower] = None
            # Shadows remember operations for long: what those held must not live as long.
            done.followers, done.before, done.run = [], [], None
            done.reads = done.writes = ()
