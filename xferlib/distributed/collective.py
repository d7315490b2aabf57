"""A collective operation that was begun with ``async_op=True``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xferlib._core.pending import ArrayUse
from xferlib._runtime import peer_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xferlib.distributed.call import Call
    from xferlib.distributed.drivers.driver import Pending
    from xferlib.distributed.group import Group


class Collective(ArrayUse):
    """A collective operation that runs beside the program; made by ``async_op=True``.

    Neither ``x`` may be written nor ``out`` be used before `wait` returns. The ranks may wait for their operations in
    any order. An operation that the program drops goes on; `Communicator.close` waits for it.
    """

    _instead = (
        "a Collective is an operation in progress",
        "the array is what its wait() gives: write operation.wait()",
    )
    _peers = peer_names.COLLECTIVE_NAMES

    __slots__ = ("_array", "_call", "_group", "_pending", "_steps", "is_in_steps")

    def __init__(self, group: Group, call: Call, steps: Iterator[Pending], array: Any) -> None:
        self.is_in_steps = True
        """Whether it begins more than one operation of the driver, so that the next call must wait for it."""
        self._group = group
        self._call = call
        self._steps = steps
        self._array = array
        # The first step is taken here, so that data move while the program goes on; the later ones in calls of the
        # program alone: a thread would begin them in an order that the other ranks cannot know.
        self._pending: Pending | None = next(steps, None)

    @property
    def is_done(self) -> bool:
        """Whether the operation is complete, so that `wait` returns at once."""
        if self._pending is not None:
            self._group.check_process()
        with self._group.lock:
            while self._pending is not None and not self._group.cause and self._pending.wait(0.0):
                self._pending = next(self._steps, None)
            return self._pending is None

    def wait(self) -> Any:
        """Wait until the operation is complete, and return its array.

        Where NCCL carries device memory, the host does not wait: later work of the call's stream does.

        Raises:
            DistributedError: A rank has failed, or did not come in time.
            ForkError: It is in flight in the process that this one was forked from.
        """
        if self._pending is not None:
            self._group.check_process()
        with self._group.lock:
            if self._pending is None:
                return self._array
            self._group.check_usable()
            with self._group.failing():
                while (pending := self._pending) is not None:
                    self._group.wait(pending, self._call)
                    if self._pending is pending:  # else the group has looked after it meanwhile
                        self._pending = next(self._steps, None)
        return self._array

    def __repr__(self) -> str:
        return f"<Collective: {self._call}>"
