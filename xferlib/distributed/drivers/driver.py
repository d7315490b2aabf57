"""The seam between the communicator and the libraries that carry its data.

Arrays arrive checked: contiguous, of the same shape and dtype in every rank. Each method begins one operation and
returns at once; the communicator waits, since only it knows the timeout and the state of the other ranks.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib.distributed.drivers.device_driver import DeviceDriver


class Pending(Protocol):
    """An operation that was begun."""

    def wait(self, most_s: float) -> bool:
        """Wait at most that long; return whether the operation is complete.

        Raises:
            Exception: Any of the library's, where the operation failed.
        """


class Complete:
    """An operation that is complete at once."""

    def wait(self, most_s: float) -> bool:
        return True


COMPLETE = Complete()


class Driver(ABC):
    """Carries host memory between the ranks of one group. Arrays are one-dimensional, contiguous and not empty."""

    name: str
    rank: int
    size: int
    reduces_below: int = sys.maxsize
    """Bytes below which `all_reduce` is as fast as an exchange of parts, which each rank reduces by itself."""

    @abstractmethod
    def reduces(self, dtype: np.dtype[Any], op: str) -> bool:
        """Whether `all_reduce` knows the dtype and the operation."""

    @abstractmethod
    def all_reduce(self, out: HostArray, x: HostArray, op: str) -> Pending:
        """``out`` may be ``x`` itself; ``op`` is sum, prod, min or max."""

    @abstractmethod
    def broadcast(self, x: HostArray, root: int) -> Pending: ...

    @abstractmethod
    def all_gather(self, out: HostArray, x: HostArray) -> Pending:
        """``out`` has the elements of every rank's ``x``, in the order of ranks."""

    @abstractmethod
    def all_to_all(self, out: HostArray, x: HostArray) -> Pending:
        """Part ``i`` of ``x``, one of as many equal parts as there are ranks, goes to rank ``i``."""

    @abstractmethod
    def send(self, x: HostArray, dest: int, tag: int) -> Pending: ...

    @abstractmethod
    def recv(self, out: HostArray, source: int, tag: int) -> Pending: ...

    def carries(self, backend: Backend) -> bool:
        """Whether `for_device` may give a driver for the backend's arrays; the same in every rank."""
        return False

    def for_device(
        self, device: Device, exchange: Callable[[bytes], list[bytes]], wait: Callable[[Pending], None]
    ) -> DeviceDriver:
        """Join the devices of the group, one of each rank; every rank calls it.

        Args:
            device: This rank's.
            exchange: Gives every rank's bytes to all.
            wait: Waits for an operation of this driver within the present call, or raises what ends the group.
        """
        raise AssertionError("host memory alone")

    @abstractmethod
    def split(self, members: list[int], name: str) -> Driver:
        """The driver of a part of the group, called by its members alone.

        Args:
            members: Ranks of this group, in the order of the new ranks.
            name: The same in all members, and of no other part of any group.
        """

    def notify(self, text: str) -> None:
        """Tell every other rank, without its help, that this one has failed, and why."""

    def notices(self) -> dict[int, str]:
        """By rank, the texts that others have told."""
        return {}

    def is_torn(self) -> bool:
        """Whether an operation that was begun is still open, so that the library cannot end in order."""
        return False

    def abort(self) -> None:
        """End the processes of the whole job, where the library can."""

    def close(self) -> None:
        """Release what the library holds for the group; every rank calls it."""
