"""The steps of collectives on device memory, from GPU to GPU; what the driver does not reduce is reduced by kernels.

The library adds in an order of its own, which depends on the number of ranks and of bytes. What is to have the same
bits everywhere, and what the library does not reduce, goes as in host memory (`reductions`): each rank gets one part of
all ranks' elements, reduces it with the same kernels, and all gather the parts. Arrays of intermediate data are kept
for the call (`OnDevice.made`): the library uses them when the host has long gone on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._api import transfers
from xferlib._core.stream import Stream
from xferlib.distributed import reductions
from xferlib.distributed.drivers.device_driver import DeviceDriver, Enqueued, Order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xferlib._core.array import ArrayInfo
    from xferlib.distributed.drivers.driver import Pending
    from xferlib.distributed.operands import Operand, Result


class OnDevice(NamedTuple):
    """The driver of the group's devices, and one call's arrays."""

    driver: DeviceDriver
    rank: int
    size: int
    operand: Operand
    result: Result
    is_beside: bool
    made: list[Any]
    """Arrays of intermediate data, which the driver may use until the call's end."""

    @property
    def order(self) -> Order:
        device, stream = self.operand.source.device, self.operand.raw_stream
        assert device is not None
        assert stream is not None
        return Order(device, stream, self.operand.source.backend, self.is_beside)

    @property
    def out(self) -> ArrayInfo:
        """The result's location and layout."""
        info = self.result.info
        assert info is not None
        return info

    def on_stream(self) -> Stream:
        """The call's stream, to make it current for kernels."""
        return Stream._of(self.order.stream, self.operand.source.backend)

    def given(self, *, may_be_same: bool = True) -> tuple[Any, ArrayInfo]:
        """The array and its location; of one that has gaps, that the result overlaps in part, or that is lazy, a copy.

        Args:
            may_be_same: Whether the driver may read and write the same array.
        """
        source, out = self.operand.source, self.out
        info = source.info
        assert info is not None
        # The library reads and writes in pieces, in an order of its own: of two arrays that overlap in part it would
        # read pieces of the result. The very same array is what it calls in place, and takes.
        begins_inside = info.pointer != out.pointer and (
            info.pointer < out.pointer + out.nbytes and out.pointer < info.pointer + info.nbytes
        )
        is_apart = info.pointer != out.pointer or (may_be_same and info.nbytes == out.nbytes)
        if info.is_c_contiguous and not begins_inside and is_apart and not source.backend.is_lazy(source.given):
            return source.given, info
        copied = transfers.to_device(source.given, device=source.device, stream=self.operand.stream)
        self.made.append(copied)
        return copied, source.backend.view(copied)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Any, int]:
        """An array for intermediate data on the stream, and its address."""
        backend, order = self.operand.source.backend, self.order
        array = backend.empty(shape, dtype, device=order.device, stream=order.stream)
        self.made.append(array)
        return array, backend.view(array).pointer


class _Beside:
    """An operation beside the stream as a step: complete for the host at once, where the host may go on."""

    def __init__(self, enqueued: Enqueued, kept: Any) -> None:
        self._enqueued = enqueued
        self._kept = kept  # the memory that it reads and writes

    def wait(self, most_s: float) -> bool:
        if not most_s:
            return self._enqueued.is_done()
        self._enqueued.wait()
        return True


def _steps(enqueued: Enqueued | None, *kept: Any) -> Iterator[Pending]:
    if enqueued is not None:
        yield _Beside(enqueued, kept)


def all_reduce(on: OnDevice, op: str, *, in_order: bool) -> Iterator[Pending]:
    array, info = on.given()
    out = on.out
    dtype, count = numbers(info, op)
    if not info.size:
        return
    if not in_order and on.driver.reduces(dtype, op):
        enqueued = on.driver.all_reduce(out.pointer, info.pointer, count, dtype, op, on.order)
        yield from _steps(enqueued, array, on.result.array)
        return
    plain = "sum" if op == "mean" else op
    with on.on_stream():
        # On the call's own stream: the kernels between the two exchanges run there, and one beside it would need an
        # event on each side of them.
        _in_order(on._replace(is_beside=False), out.pointer, info, count, dtype, plain)
        if op == "mean":
            _divide(on, dtype, count)


def _in_order(on: OnDevice, out: int, info: ArrayInfo, count: int, dtype: np.dtype[Any], op: str) -> None:
    """As `reductions` does it in host memory, with the same kernels."""
    backend, order = on.operand.source.backend, on.order
    part = count // on.size
    main, rest = part * on.size, count - part * on.size
    rows, tail = [], []
    if rest:
        # What the ranks cannot share evenly, fewer elements than there are ranks: every rank reduces all of it.
        slab, address = on.empty((on.size * rest * dtype.itemsize,), np.dtype(np.uint8))
        nbytes = rest * dtype.itemsize
        on.driver.all_gather(address, info.pointer + main * dtype.itemsize, nbytes, order)
        tail = [backend.subarray(slab, k * nbytes, (rest,), dtype) for k in range(on.size)]
        reductions.pairwise(tail, op)
    if part:
        slab, address = on.empty((main * dtype.itemsize,), np.dtype(np.uint8))
        nbytes = part * dtype.itemsize
        # Part k of every rank arrives in rank k as one row for each rank: the rows are in the order of ranks, as
        # `pairwise` has to see them, whichever came first.
        on.driver.all_to_all(address, info.pointer, main * dtype.itemsize, order)
        rows = [backend.subarray(slab, k * nbytes, (part,), dtype) for k in range(on.size)]
        reductions.pairwise(rows, op)
        on.driver.all_gather(out, backend.view(rows[0]).pointer, nbytes, order)
    if rest:
        target = backend.over(out + main * dtype.itemsize, (rest,), dtype, device=order.device, owner=on.result.array)
        transfers.to_device(tail[0], out=target)


def _divide(on: OnDevice, dtype: np.dtype[Any], count: int) -> None:
    backend = on.operand.source.backend
    flat = backend.over(on.out.pointer, (count,), dtype, device=on.order.device, owner=on.result.array)
    reductions.divide(flat, on.size)


def reduce_scatter(on: OnDevice, op: str) -> Iterator[Pending]:
    array, info = on.given()
    out = on.out
    dtype, count = numbers(info, op)
    if not info.size:
        return
    part = count // on.size
    if on.driver.scatters(dtype, op):
        enqueued = on.driver.reduce_scatter(out.pointer, info.pointer, part, dtype, op, on.order)
        yield from _steps(enqueued, array, on.result.array)
        return
    backend, nbytes = on.operand.source.backend, part * dtype.itemsize
    with on.on_stream():
        slab, address = on.empty((info.nbytes,), np.dtype(np.uint8))
        on.driver.all_to_all(address, info.pointer, info.nbytes, on.order._replace(is_beside=False))
        rows = [backend.subarray(slab, k * nbytes, (part,), dtype) for k in range(on.size)]
        reductions.pairwise(rows, "sum" if op == "mean" else op)
        target = backend.over(out.pointer, (part,), dtype, device=on.order.device, owner=on.result.array)
        transfers.to_device(rows[0], out=target)
        if op == "mean":
            _divide(on, dtype, part)


def broadcast(on: OnDevice, root: int) -> Iterator[Pending]:
    out = on.out
    if on.rank == root and on.result.array is not on.operand.source.given:
        transfers.to_device(on.operand.source.given, out=on.result.array, stream=on.operand.stream)
    if out.nbytes:
        yield from _steps(on.driver.broadcast(out.pointer, out.nbytes, root, on.order), on.result.array)


def all_gather(on: OnDevice) -> Iterator[Pending]:
    array, info = on.given()
    if info.nbytes:
        enqueued = on.driver.all_gather(on.out.pointer, info.pointer, info.nbytes, on.order)
        yield from _steps(enqueued, array, on.result.array)


def all_to_all(on: OnDevice) -> Iterator[Pending]:
    array, info = on.given(may_be_same=False)
    if info.nbytes:
        enqueued = on.driver.all_to_all(on.out.pointer, info.pointer, info.nbytes, on.order)
        yield from _steps(enqueued, array, on.result.array)


def numbers(info: ArrayInfo, op: str) -> tuple[np.dtype[Any], int]:
    """The dtype in which the elements are reduced, and how many there are of it: see `reductions.as_numbers`."""
    dtype = reductions.as_numbers(np.empty(0, info.dtype), op).dtype
    return dtype, math.prod(info.shape) * info.dtype.itemsize // dtype.itemsize
