"""Device memory by an MPI that reads and writes it by itself. An MPI that cannot crashes, so the user asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._memory.host import bytes_over
from xferlib.distributed.drivers.device_driver import DeviceDriver, Order

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.layout import HostArray
    from xferlib.distributed.drivers.driver import Driver, Pending

_BYTE = np.dtype(np.uint8)


class MpiDevices(DeviceDriver):
    """The driver of host memory, given the addresses of device memory, which nothing here reads.

    MPI knows no streams: the host waits for the stream before, and for the operation.

    Args:
        host: The driver.
        wait: Waits for an operation as the group does, which knows the call, its timeout and the other ranks.
    """

    name = "mpi"

    def __init__(self, host: Driver, wait: Callable[[Pending], None]) -> None:
        self._host = host
        self._wait = wait

    def reduces(self, dtype: np.dtype[Any], op: str) -> bool:
        return op != "mean" and self._host.reduces(dtype, op)

    def scatters(self, dtype: np.dtype[Any], op: str) -> bool:
        return False

    def all_reduce(self, out: int, x: int, count: int, dtype: np.dtype[Any], op: str, order: Order) -> None:
        target = _over(out, count, dtype)
        given = target if out == x else _over(x, count, dtype)
        self._complete(order, lambda: self._host.all_reduce(target, given, op))

    def reduce_scatter(self, out: int, x: int, count: int, dtype: np.dtype[Any], op: str, order: Order) -> None:
        raise AssertionError("device_steps reduces by kernels")

    def broadcast(self, x: int, nbytes: int, root: int, order: Order) -> None:
        self._complete(order, lambda: self._host.broadcast(_over(x, nbytes, _BYTE), root))

    def all_gather(self, out: int, x: int, nbytes: int, order: Order) -> None:
        target = _over(out, nbytes * self._host.size, _BYTE)
        self._complete(order, lambda: self._host.all_gather(target, _over(x, nbytes, _BYTE)))

    def all_to_all(self, out: int, x: int, nbytes: int, order: Order) -> None:
        self._complete(order, lambda: self._host.all_to_all(_over(out, nbytes, _BYTE), _over(x, nbytes, _BYTE)))

    def is_idle(self) -> bool:
        return True  # what has returned is complete, and what has not is the group's to wait for

    def _complete(self, order: Order, begin: Callable[[], Pending]) -> None:
        order.backend.stream_synchronize(order.stream)
        self._wait(begin())


def _over(pointer: int, count: int, dtype: np.dtype[Any]) -> HostArray:
    return bytes_over(pointer, count * dtype.itemsize, None).view(dtype)
