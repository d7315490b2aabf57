"""Work on arrays on their devices: copy from one to another, put in C order, convert."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import observe
from xferlib._core.array import Array, ArrayInfo
from xferlib._core.layout import bounds
from xferlib._core.observe import Kind
from xferlib._core.thresholds import MEDIUM_NBYTES
from xferlib._memory import in_flight, slab
from xferlib._runtime.interrupts import deferred
from xferlib._transfer import relayout
from xferlib._transfer.ends import CopySource, CopyTarget
from xferlib.errors import DeviceMemoryError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.raw import RawStream


@observe.user_call(lambda source, target, dtype: (target.backend, math.prod(source.shape) * dtype.itemsize))
def device_to_device(source: CopySource, target: CopyTarget, dtype: np.dtype[Any]) -> Array:
    """A copy between arrays of one pinned domain, on one device or two.

    It comes after the work enqueued so far on both ends' streams; and, unless the caller has named the stream, before
    the later work on them, which may change the source.
    """
    assert source.info is not None
    giver, taker, device = source.backend, target.backend, target.device
    src, info = resolved(source.given, source.info, giver)
    order = target.stream if target.stream is not None else taker.stream_current(device)
    before = giver.stream_current(info.device)
    is_local = info.device.index == device.index
    if is_local:
        _follow(order, before, taker, giver)
    near = order if is_local else before  # a device's own streams alone reach its memory
    if info.dtype != dtype:
        converted = giver.empty(info.shape, dtype, device=info.device, stream=near)
        cast(src, converted, giver, near)
        src, info = converted, giver.view(converted)
    dst, into = target.out, target.into
    if into is None:
        dst = taker.empty(info.shape, dtype, device=device, stream=order)
        into = taker.view(dst)
    flat, temporary, arrived = info, src, None
    if not is_local:
        flat, temporary = in_c_order(src, info, giver, near)
    elif _overlap(info, into):  # no copy may read what it writes
        flat, temporary = _copied(info, giver, near)
    if is_local:
        relayout.copy(into, flat._replace(device=into.device), taker, order)
    elif flat.size:
        _follow(order, near, taker, giver)
        giver.consumed(temporary, order.known_to(giver))
        arrived = _fetch(into, flat, taker, giver, order, near)
    in_flight.in_flight.hold(taker, in_flight.record(taker, order), src, temporary, arrived, dst)
    if target.stream is None:
        _follow(before, order, giver, taker)
    return dst


def _follow(order: RawStream, before: RawStream, taker: Backend, giver: Backend) -> None:
    """Make a stream of ``taker`` wait for the work enqueued so far on a stream of ``giver``."""
    if (before.device.index, before.handle) != (order.device.index, order.handle):
        taker.event_wait(order, giver.event_record(before, timing=False))


def _overlap(one: ArrayInfo, two: ArrayInfo) -> bool:
    """Whether the address ranges overlap."""
    (low_one, high_one), (low_two, high_two) = (
        bounds(each.pointer, each.shape, each.strides, each.dtype.itemsize) for each in (one, two)
    )
    return low_one < high_two and low_two < high_one


# --- from one device to another


def _fetch(
    into: ArrayInfo, flat: ArrayInfo, taker: Backend, giver: Backend, order: RawStream, near: RawStream
) -> Array | None:
    """Fill an array of any layout from contiguous memory of another device; returns the temporary that it took."""
    between = None
    arrived = into
    if not into.is_c_contiguous:
        between = taker.empty(flat.shape, flat.dtype, device=into.device, stream=order)
        arrived = taker.view(between)
    if taker.reaches(into.device, flat.device):
        observe.copy(Kind.PEER, arrived.pointer, flat.pointer, flat.nbytes, taker, order)
    else:
        _send_by_host(arrived.pointer, flat, taker, giver, order, near)
    if between is not None:
        relayout.copy(into, arrived, taker, order)
    return between


def _send_by_host(dst: int, flat: ArrayInfo, taker: Backend, giver: Backend, order: RawStream, near: RawStream) -> None:
    """Copy by way of this thread's slab, so that one piece leaves it while the next one comes.

    Returns when the last pieces are enqueued, as any staged copy.
    """
    own = slab.slab_of(taker, min(flat.nbytes, MEDIUM_NBYTES))
    for start in range(0, flat.nbytes, MEDIUM_NBYTES):
        nbytes = min(flat.nbytes - start, MEDIUM_NBYTES)
        _, pinned = own.take(nbytes, order)
        try:
            observe.copy(Kind.D2H, pinned, flat.pointer + start, nbytes, giver, near)
            _follow(order, near, taker, giver)
        except BaseException:  # the slab knows of the copy on ``order`` alone, which has not come
            in_flight.abandon(giver, near)
            raise
        observe.copy(Kind.H2D, dst + start, pinned, nbytes, taker, order)


# --- before or after a copy


def in_native_order(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def cast_on_current(src: Array, dst: Array) -> None:
    """Enqueue ``dst[...] = src`` with conversion on the current stream."""
    from xferlib.kernels import casting

    casting.cast_into(dst, src)


def cast(src: Array, dst: Array, backend: Backend, stream: RawStream) -> None:
    """Enqueue ``dst[...] = src`` with conversion; both live until it is done."""
    src, dst = backend.detached(src), backend.detached(dst)  # a copy carries values, no history
    current = backend.stream_current(stream.device)
    if current.handle == stream.handle:
        cast_on_current(src, dst)
    else:
        with deferred:  # or Ctrl-C might leave the other stream current
            backend.stream_use(stream)
            try:
                cast_on_current(src, dst)
            finally:
                backend.stream_use(current)
    in_flight.in_flight.hold(backend, in_flight.record(backend, stream), src, dst)


def narrowed(
    src: Array, info: ArrayInfo, backend: Backend, dtype: np.dtype[Any], stream: RawStream
) -> tuple[Array, ArrayInfo]:
    """The array in a narrower dtype, made on the device; itself where that has no room."""
    try:
        narrow = backend.empty(info.shape, dtype, device=info.device, stream=stream)
    except DeviceMemoryError:
        return src, info
    cast(src, narrow, backend, stream)
    return narrow, backend.view(narrow)


def resolved(src: Array, info: ArrayInfo, backend: Backend) -> tuple[Array, ArrayInfo]:
    done = backend.resolved(src)
    return (src, info) if done is src else (done, backend.view(done))


def in_c_order(src: Array, info: ArrayInfo, backend: Backend, stream: RawStream) -> tuple[ArrayInfo, Array]:
    """The array in C order, copied on the device if it is not; and what owns it."""
    return (info, src) if info.is_c_contiguous else _copied(info, backend, stream)


def _copied(info: ArrayInfo, backend: Backend, stream: RawStream) -> tuple[ArrayInfo, Array]:
    temporary = backend.empty(info.shape, info.dtype, device=info.device, stream=stream)
    flat = backend.view(temporary)
    relayout.copy(flat, info, backend, stream)
    return flat, temporary
