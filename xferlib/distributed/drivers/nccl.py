"""NCCL through nccl4py: GPUs without PyTorch. Its unique id comes by way of the driver of host memory."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib.distributed.drivers.device_driver import DeviceDriver, Enqueued, Order
from xferlib.errors import DriverUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.device import Device

_DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
_NUMBERS = {np.dtype(name): number for number, name in enumerate(_DTYPES)}
"""``ncclDataType_t``: the dtypes that it reduces."""
_BYTE = _NUMBERS[np.dtype(np.uint8)]
_OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "mean": 4}
"""``ncclRedOp_t``."""


def is_installed() -> bool:
    """Whether nccl4py is there; its library may be missing all the same."""
    return importlib.util.find_spec("nccl") is not None


def check_installed() -> None:
    """Refuse to go on without nccl4py.

    Raises:
        DriverUnavailableError: It is not installed.
    """
    if not is_installed():
        raise DriverUnavailableError(
            "driver 'nccl' cannot run here: nccl4py is not installed; install it with pip install 'xferlib[nccl]', or "
            "start the program by torchrun, with PyTorch's NCCL"
        )


class Nccl(DeviceDriver):
    """A communicator of NCCL on one device; made by all ranks together."""

    name = "nccl"

    def __init__(self, rank: int, size: int, device: Device, exchange: Callable[[bytes], list[bytes]]) -> None:
        from nccl.bindings import nccl

        from xferlib._core import registry

        registry.get(device.backend).at(device).attach(device)  # the communicator is of the current device
        self._nccl = nccl
        self._size = size
        unique_id = exchange(bytes(nccl.get_unique_id()) if rank == 0 else b"")[0]
        self._comm = nccl.comm_init_rank_scalable(size, rank, 1, bytearray(unique_id), 0)

    def reduces(self, dtype: np.dtype[Any], op: str) -> bool:
        return dtype in _NUMBERS and not (op == "mean" and dtype.kind in "iu")

    def all_reduce(self, out: int, x: int, count: int, dtype: np.dtype[Any], op: str, order: Order) -> Enqueued | None:
        kind = _NUMBERS[dtype]
        self._nccl.all_reduce(x, out, count, kind, _OPS[op], self._comm, order.stream.handle)
        return None

    def reduce_scatter(
        self, out: int, x: int, count: int, dtype: np.dtype[Any], op: str, order: Order
    ) -> Enqueued | None:
        kind = _NUMBERS[dtype]
        self._nccl.reduce_scatter(x, out, count, kind, _OPS[op], self._comm, order.stream.handle)
        return None

    def broadcast(self, x: int, nbytes: int, root: int, order: Order) -> Enqueued | None:
        self._nccl.broadcast(x, x, nbytes, _BYTE, root, self._comm, order.stream.handle)
        return None

    def all_gather(self, out: int, x: int, nbytes: int, order: Order) -> Enqueued | None:
        self._nccl.all_gather(x, out, nbytes, _BYTE, self._comm, order.stream.handle)
        return None

    def all_to_all(self, out: int, x: int, nbytes: int, order: Order) -> Enqueued | None:
        part = nbytes // self._size
        self._nccl.group_start()
        for rank in range(self._size):
            self._nccl.send(x + rank * part, part, _BYTE, rank, self._comm, order.stream.handle)
            self._nccl.recv(out + rank * part, part, _BYTE, rank, self._comm, order.stream.handle)
        self._nccl.group_end()
        return None

    def abort(self) -> None:
        self._nccl.comm_abort(self._comm)
