"""NCCL, which carries device memory from GPU to GPU. Its unique id comes by way of the driver of host memory.

Operations of one communicator run one after the other, in the same order in every rank, whatever streams the calls
come from: each is enqueued behind the event of the last one. On the device they wait for the other ranks without a
limit; `watch` looks after that. Between an operation and its event an error or Ctrl-C may come, and nothing marks the
operation then: the device counts as busy for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import registry
from xferlib._runtime.version import install_command
from xferlib.distributed.drivers import nccl_library
from xferlib.distributed.drivers.device_driver import DeviceDriver, Enqueued, Order
from xferlib.errors import DriverUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device

_DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
_NUMBERS = {np.dtype(name): number for number, name in enumerate(_DTYPES)}
"""``ncclDataType_t``: the dtypes that it reduces."""
_BYTE = _NUMBERS[np.dtype(np.uint8)]
_OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "mean": 4}
"""``ncclRedOp_t``."""


def is_installed() -> bool:
    """Whether NCCL's library is there."""
    return nccl_library.load() is not None


def carries(backend: Backend) -> bool:
    """Whether NCCL may carry the arrays of a backend."""
    return backend.pinned_domain == "cuda" and is_installed()


def check_installed() -> None:
    """Refuse to go on without NCCL.

    Raises:
        DriverUnavailableError: It is not installed.
    """
    if not is_installed():
        raise DriverUnavailableError(
            f"driver 'nccl' cannot run here: libnccl.so.2 is not installed; install it with {install_command('nccl')}"
        )


class _OnOwnStream(Enqueued):
    """An operation on NCCL's own stream."""

    def __init__(self, order: Order, event: Any) -> None:
        self._order = order
        self._event = event

    def is_done(self) -> bool:
        return self._order.backend.event_done(self._event)

    def wait(self) -> None:
        self._order.backend.event_wait(self._order.stream, self._event)


class Nccl(DeviceDriver):
    """A communicator of NCCL on one device; made by all ranks together."""

    name = "nccl"

    def __init__(self, rank: int, size: int, device: Device, exchange: Callable[[bytes], list[bytes]]) -> None:
        backend = registry.get(device.backend).at(device)
        self._library = nccl_library.load()
        self._size = size
        with device:  # the communicator is of the current device; `attach` is content with the context of another
            backend.attach(device)
            identity = exchange(nccl_library.unique_id() if rank == 0 else b"")[0]
            self._comm = nccl_library.join(size, rank, identity)
        self._beside = backend.stream_create(device, non_blocking=True, priority=0)
        self._backend = backend
        self._own_event: Any = None
        self._end: Any = None
        """The event behind the last operation, and the handle of its stream."""
        self._on = 0
        self._is_torn = False
        """Whether an error or Ctrl-C came between an operation and its event, so that it may be running unmarked."""

    def reduces(self, dtype: np.dtype[Any], op: str) -> bool:
        return dtype in _NUMBERS and not (op == "mean" and dtype.kind in "iu")

    def all_reduce(self, out: int, x: int, count: int, dtype: np.dtype[Any], op: str, order: Order) -> Enqueued | None:
        return self._enqueue("ncclAllReduce", (x, out, count, _NUMBERS[dtype], _OPS[op]), order)

    def reduce_scatter(
        self, out: int, x: int, count: int, dtype: np.dtype[Any], op: str, order: Order
    ) -> Enqueued | None:
        return self._enqueue("ncclReduceScatter", (x, out, count, _NUMBERS[dtype], _OPS[op]), order)

    def broadcast(self, x: int, nbytes: int, root: int, order: Order) -> Enqueued | None:
        return self._enqueue("ncclBroadcast", (x, x, nbytes, _BYTE, root), order)

    def all_gather(self, out: int, x: int, nbytes: int, order: Order) -> Enqueued | None:
        return self._enqueue("ncclAllGather", (x, out, nbytes, _BYTE), order)

    def all_to_all(self, out: int, x: int, nbytes: int, order: Order) -> Enqueued | None:
        part = nbytes // self._size
        sent = [("ncclSend", (x + rank * part, part, _BYTE, rank)) for rank in range(self._size)]
        received = [("ncclRecv", (out + rank * part, part, _BYTE, rank)) for rank in range(self._size)]
        return self._enqueue_all([*sent, *received], order)

    def _enqueue(self, name: str, arguments: tuple[int, ...], order: Order) -> Enqueued | None:
        stream = self._stream_of(order)
        try:
            nccl_library.check(getattr(self._library, name)(*arguments, self._comm, stream.handle), name)
            return self._ended(stream, order)
        except BaseException:
            self._is_torn = True
            raise

    def _enqueue_all(self, calls: list[tuple[str, tuple[int, ...]]], order: Order) -> Enqueued | None:
        """Enqueue messages that wait for each other."""
        stream = self._stream_of(order)
        try:
            nccl_library.check(self._library.ncclGroupStart(), "ncclGroupStart")
            try:
                for name, arguments in calls:
                    nccl_library.check(getattr(self._library, name)(*arguments, self._comm, stream.handle), name)
            finally:
                # Also after an error: within an open group every later call of this thread, of any communicator, would
                # only be noted down.
                code = self._library.ncclGroupEnd()
            nccl_library.check(code, "ncclGroupEnd")
            return self._ended(stream, order)
        except BaseException:
            self._is_torn = True
            raise

    def _stream_of(self, order: Order) -> Any:
        """The stream to enqueue on, behind the call's stream and behind the last operation."""
        backend, stream = order.backend, order.stream
        if stream.capture is not None:  # a graph orders its own work alone
            return stream
        if order.is_beside:
            backend.event_wait(self._beside, backend.event_record(stream, timing=False))
            stream = self._beside
        # NCCL orders nothing between two streams: operations of one communicator that run at once wait for each other's
        # partners, in all ranks, for good.
        if self._end is not None and self._on != stream.handle:
            backend.event_wait(stream, self._end)
        return stream

    def _ended(self, stream: Any, order: Order) -> Enqueued | None:
        if stream.capture is not None:
            return None
        self._on = stream.handle
        if order.is_beside:
            self._end = order.backend.event_record(stream, timing=False)
            return _OnOwnStream(order, self._end)
        # One event, recorded again and again: only the next operation waits for it. The handle of an operation
        # beside the stream keeps its own, above, for as long as the program likes.
        self._end = self._own_event = order.backend.event_record(stream, timing=False, event=self._own_event)
        return None

    def is_idle(self) -> bool:
        if self._is_torn:
            return False
        return self._end is None or self._backend.event_done(self._end)

    def failure(self) -> str:
        return nccl_library.failure(self._comm)

    def abort(self) -> None:
        self._library.ncclCommAbort(self._comm)

    def close(self) -> None:
        nccl_library.check(self._library.ncclCommDestroy(self._comm), "ncclCommDestroy")
