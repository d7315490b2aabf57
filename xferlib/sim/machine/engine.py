"""What is enqueued and not yet done: carried out in an order that the schedule chooses."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xferlib.sim.machine.schedules import Schedule
from xferlib.sim.model.operations import Operation

MOST_PENDING = 256
"""A device that never had to finish anything would hold all memory it was ever given."""
_AT_ONCE = 32


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
        """Carry out everything, including the overwriting of freed memory, which no program can wait for."""
        with np.errstate(all="ignore"):
            while self._ready:
                self._carry_out(next(iter(self._ready)))

    def linger(self) -> None:
        """The host is about to look at memory: the schedule may let the devices go on first."""
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
        for done in finished:  # which grows by records and waits that this lets pass
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
            done.followers = done.before = ()
            done.run = None
