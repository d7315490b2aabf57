"""NCCL through PyTorch's process group, for device arrays of any library: tensors over their memory."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import registry
from xferlib._runtime import leak
from xferlib.distributed.drivers.device_driver import DeviceDriver, Enqueued, Order

if TYPE_CHECKING:
    from xferlib._core.device import Device

_REDUCED = frozenset(map(np.dtype, ("int8", "uint8", "int32", "int64", "float16", "float32", "float64")))
_BYTE = np.dtype(np.uint8)


def is_available() -> bool:
    """Whether this PyTorch has NCCL and sees a device."""
    import torch.distributed as torch_distributed
    from torch import cuda

    return bool(cuda.is_available() and torch_distributed.is_nccl_available())


@functools.lru_cache(1024)
def _tensor(pointer: int, count: int, dtype: np.dtype[Any], index: int) -> Any:
    """A tensor over memory that the caller keeps alive; equal ones are made once, as a loop asks for the same again."""
    backend = registry.get("torch")
    device = next(each for each in backend.devices() if each.kind == "cuda" and each.index == index)
    return backend.at(device).over(pointer, (count,), dtype, device=device, owner=None)


@functools.lru_cache(64)
def _stream(handle: int, index: int) -> Any:
    from torch import cuda

    return cuda.ExternalStream(handle, device=index) if handle else cuda.default_stream(index)


class _NcclWork(Enqueued):
    def __init__(self, work: Any, order: Order) -> None:
        self._work = work
        self._order = order

    def is_done(self) -> bool:
        return bool(self._work.is_completed())

    def wait(self) -> None:
        with _current(self._order):
            self._work.wait()


def _current(order: Order) -> Any:
    from torch import cuda

    return cuda.stream(_stream(order.stream.handle, order.device.index))


class TorchNccl(DeviceDriver):
    """An NCCL process group of its own over the store of a group of hosts."""

    name = "nccl"

    def __init__(self, store: Any, rank: int, size: int, timeout_s: float, device: Device) -> None:
        import torch
        import torch.distributed as torch_distributed

        self._torch = torch
        self._distributed = torch_distributed
        self._size = size
        options = torch_distributed.ProcessGroupNCCL.Options()
        options._timeout = timedelta(seconds=timeout_s)
        with torch.cuda.device(device.index):
            store = torch_distributed.PrefixStore("nccl", store)
            self._group = torch_distributed.ProcessGroupNCCL(store, rank, size, options)
        leak.keep(self._group)  # its end would wait for ranks that are gone
        reduce = torch_distributed.ReduceOp
        self._ops = {
            "sum": reduce.SUM, "prod": reduce.PRODUCT, "min": reduce.MIN, "max": reduce.MAX, "mean": reduce.AVG,
        }  # fmt: skip

    def reduces(self, dtype: np.dtype[Any], op: str) -> bool:
        return dtype in _REDUCED

    def all_reduce(self, out: int, x: int, count: int, dtype: np.dtype[Any], op: str, order: Order) -> Enqueued | None:
        target = _tensor(out, count, dtype, order.device.index)
        options = self._options("AllreduceOptions", order)
        options.reduceOp = self._ops[op]

        def begin() -> Any:
            if out != x:
                target.copy_(_tensor(x, count, dtype, order.device.index))
            return self._group.allreduce([target], options)

        return self._enqueued(begin, order)

    def reduce_scatter(
        self, out: int, x: int, count: int, dtype: np.dtype[Any], op: str, order: Order
    ) -> Enqueued | None:
        options = self._options("ReduceScatterOptions", order)
        options.reduceOp = self._ops[op]
        target = _tensor(out, count, dtype, order.device.index)
        source = _tensor(x, count * self._size, dtype, order.device.index)
        return self._enqueued(lambda: self._group._reduce_scatter_base(target, source, options), order)

    def broadcast(self, x: int, nbytes: int, root: int, order: Order) -> Enqueued | None:
        options = self._options("BroadcastOptions", order)
        options.rootRank = root
        tensor = _tensor(x, nbytes, _BYTE, order.device.index)
        return self._enqueued(lambda: self._group.broadcast([tensor], options), order)

    def all_gather(self, out: int, x: int, nbytes: int, order: Order) -> Enqueued | None:
        options = self._options("AllgatherOptions", order)
        target = _tensor(out, nbytes * self._size, _BYTE, order.device.index)
        source = _tensor(x, nbytes, _BYTE, order.device.index)
        return self._enqueued(lambda: self._group._allgather_base(target, source, options), order)

    def all_to_all(self, out: int, x: int, nbytes: int, order: Order) -> Enqueued | None:
        options = self._options("AllToAllOptions", order)
        target = _tensor(out, nbytes, _BYTE, order.device.index)
        source = _tensor(x, nbytes, _BYTE, order.device.index)
        return self._enqueued(lambda: self._group.alltoall_base(target, source, [], [], options), order)

    def _options(self, name: str, order: Order) -> Any:
        options = getattr(self._distributed.distributed_c10d, name)()  # torch.distributed itself lacks some of them
        if hasattr(options, "asyncOp"):  # without it the group uses a stream of its own in any case
            options.asyncOp = order.is_beside
        return options

    def _enqueued(self, begin: Any, order: Order) -> Enqueued | None:
        """Begin an operation with the stream as PyTorch's current one; the stream waits for it unless it is beside."""
        index = order.device.index
        torch_backend = registry.get("torch")
        place = next(each for each in torch_backend.devices() if each.kind == "cuda" and each.index == index)
        is_current = torch_backend.at(place).stream_handle(place) == order.stream.handle
        if is_current and self._torch.cuda.current_device() == index:
            work = begin()
            if not order.is_beside and work is not None:
                work.wait()
        else:
            with _current(order):
                work = begin()
                if not order.is_beside and work is not None:
                    work.wait()
        return _NcclWork(work, order) if order.is_beside else None

    def abort(self) -> None:
        self._group.abort()
