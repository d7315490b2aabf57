"""Device to device: on one device or two, between arrays of one pinned domain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import observe
from xferlib._core.array import Array, ArrayInfo
from xferlib._core.layout import bounds
from xferlib._core.observe import Kind
from xferlib._memory import in_flight
from xferlib._transfer import relayout
from xferlib._transfer.preparation import cast, in_c_order, resolved

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream


def device_to_device(
    src: Array,
    source: Backend,
    target: Backend,
    device: Device,
    dtype: np.dtype[Any],
    *,
    stream: RawStream | None = None,
    out: Array = None,
) -> Array:
    """A copy between arrays of one pinned domain, on one device or two."""
    recorder = observe.active
    begun = recorder.begin(target) if recorder is not None else None
    src, info = resolved(src, source.view(src), source)
    order = stream if stream is not None else target.stream_current(device)
    before = source.stream_current(info.device)
    is_local = info.device.index == device.index
    if is_local:
        _follow(order, before, target, source)
    near = order if is_local else before  # a device's own streams alone reach its memory
    if info.dtype != dtype:
        converted = source.empty(info.shape, dtype, device=info.device, stream=near)
        cast(src, converted, source, near)
        src, info = converted, source.view(converted)
    dst = out if out is not None else target.empty(info.shape, dtype, device=device, stream=order)
    into = target.view(dst)
    needs_room = not is_local or _overlap(info, into)
    flat, temporary = in_c_order(src, info, source, near) if needs_room else (info, src)
    if not is_local:
        _follow(order, near, target, source)
        source.consumed(temporary, order)
    if needs_room and not into.is_c_contiguous:
        between = target.empty(info.shape, dtype, device=device, stream=order)
        observe.copy(Kind.PEER, target.view(between).pointer, flat.pointer, flat.nbytes, target, order)
        flat, temporary = target.view(between), (temporary, between)
    kind = Kind.D2D if flat.device.index == into.device.index else Kind.PEER
    relayout.copy(into, flat._replace(device=into.device), target, order, kind)
    in_flight.in_flight.hold(target, in_flight.record(target, order), src, temporary, dst)
    if recorder is not None:
        recorder.called(begun, target, into.nbytes)
    return dst


def _follow(order: RawStream, before: RawStream, target: Backend, source: Backend) -> None:
    """Make a stream of ``target`` wait for the work enqueued so far on a stream of ``source``."""
    if (before.device.index, before.handle) != (order.device.index, order.handle):
        target.event_wait(order, source.event_record(before, timing=False))


def _overlap(one: ArrayInfo, two: ArrayInfo) -> bool:
    """Whether the address ranges overlap."""
    (low_one, high_one), (low_two, high_two) = (
        bounds(each.pointer, each.shape, each.strides, each.dtype.itemsize) for each in (one, two)
    )
    return low_one < high_two and low_two < high_one
