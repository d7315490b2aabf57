"""The operations that run beside the program: begun with ``async_op=True``, and perhaps not complete.

The obvious way is to leave them alone until the program waits for them. But MPI moves their data only while it is
looked at, and one of several steps begins the next in a call. A rank that waits for anything else would hold up another
one that waits for such an operation first, and both would wait for ever. So every wait looks after those of all groups.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from xferlib.distributed.drivers.driver import Pending

_STEP_S = 0.0002
"""A rank that waits looks after them so often."""

_all: set[OpenOperations] = set()
"""Those of the groups that have any."""
_turn = threading.Lock()
"""Of `_advance`: an operation takes no step within another one's."""


class OpenOperation(Protocol):
    """An operation that runs beside the program."""

    @property
    def is_done(self) -> bool:
        """Whether it is complete, after the steps that can be taken at once."""

    @property
    def is_in_steps(self) -> bool:
        """Whether it begins more than one operation of the driver."""

    def wait(self) -> Any: ...


class OpenOperations:
    """Those of one group.

    Args:
        lock: `Group.lock`.
        failing: `Group.failing`.
    """

    def __init__(self, lock: threading.RLock, failing: Callable[[], AbstractContextManager[None]]) -> None:
        self.lock = lock
        self.failing = failing
        self._operations: list[OpenOperation] = []

    def __bool__(self) -> bool:
        return bool(self._operations)

    def add(self, operation: OpenOperation) -> None:
        """Look after an operation until it is complete."""
        self._operations.append(operation)
        _all.add(self)

    def settle(self, *, all_of_them: bool) -> None:
        """Complete all, or those of several steps, which must begin in the same order everywhere."""
        for each in self._operations:
            if all_of_them or each.is_in_steps:
                each.wait()
        self.sweep()

    def sweep(self) -> None:
        """Take the steps that can be taken, and forget what is complete."""
        self._operations = [each for each in self._operations if not each.is_done]
        if not self._operations:
            self.drop()

    def drop(self) -> None:
        """Look after none any longer: the group has failed."""
        _all.discard(self)


def waited(pending: Pending, most_s: float) -> bool:
    """Wait for a part of a call, and look after open operations meanwhile; returns whether it is complete."""
    if not _all:
        return pending.wait(most_s)
    end_s = time.monotonic() + most_s
    while not pending.wait(_STEP_S):
        if time.monotonic() > end_s:
            return False
        _advance()
    return True


def _advance() -> None:
    if not _turn.acquire(blocking=False):  # another thread is at it, or this call is within a step
        return
    try:
        for each in tuple(_all):
            if each.lock.acquire(blocking=False):  # else a thread is in a call of that group, which looks after it
                try:
                    with each.failing():
                        each.sweep()
                finally:
                    each.lock.release()
    finally:
        _turn.release()
