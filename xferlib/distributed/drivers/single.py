"""One process alone: nothing is installed, started or sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xferlib.distributed.drivers.driver import COMPLETE, Driver, Pending

if TYPE_CHECKING:
    import numpy as np

    from xferlib._core.layout import HostArray


class SingleDriver(Driver):
    """The only rank of its group: what it sends arrives at itself."""

    name = "single"
    rank = 0
    size = 1

    def reduces(self, dtype: np.dtype[Any], op: str) -> bool:
        return True

    def all_reduce(self, out: HostArray, x: HostArray, op: str) -> Pending:
        return self._copied(out, x)

    def broadcast(self, x: HostArray, root: int) -> Pending:
        return COMPLETE

    def all_gather(self, out: HostArray, x: HostArray) -> Pending:
        return self._copied(out, x)

    def all_to_all(self, out: HostArray, x: HostArray) -> Pending:
        return self._copied(out, x)

    def _copied(self, out: HostArray, x: HostArray) -> Pending:
        if out is not x:
            out[...] = x
        return COMPLETE

    def send(self, x: HostArray, dest: int, tag: int) -> Pending:
        raise AssertionError("a rank does not send to itself")

    def recv(self, out: HostArray, source: int, tag: int) -> Pending:
        raise AssertionError("a rank does not receive from itself")

    def split(self, members: list[int], name: str) -> Driver:
        return SingleDriver()
