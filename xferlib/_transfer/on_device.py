"""Work on arrays on their devices: copy from one to another, put in C order, convert."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from xferlib._core import devices, observe, raw, registry
from xferlib._core.array import SUPPORTED, Array, ArrayInfo, is_c_contiguous
from xferlib._core.device import Device
from xferlib._core.layout import bounds
from xferlib._core.observe import Kind
from xferlib._core.thresholds import MEDIUM_NBYTES
from xferlib._memory import in_flight, slab
from xferlib._runtime.interrupts import deferred
from xferlib._transfer import relayout
from xferlib._transfer.ends import CopySource, CopyTarget
from xferlib.errors import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.raw import RawEvent, RawStream

T = TypeVar("T")


# --- the usual copies, in few steps


_SPECS = (Device, str, int)


class _Routes:
    """The facts that copies between two accelerators have in common: the source's backend, and the target."""

    __slots__ = ("_number", "_table")

    def __init__(self) -> None:
        self._number = -1
        self._table: dict[tuple[Device, Any], tuple[Backend, CopyTarget] | None] = {}

    def find(self, info: ArrayInfo, x: Array, spec: Any) -> tuple[Backend, CopyTarget] | None:
        """The route of an array to a device by its specification; None where one of them is no accelerator.

        It is kept where the specification names one device for ever: ``"torch"`` means the current one.
        """
        if self._number != registry.forgotten:
            self._table, self._number = {}, registry.forgotten  # in this order: another thread may look in between
        table = self._table
        try:
            return table[info.device, spec]
        except KeyError:
            device = devices.for_array(spec, x)
        giver, taker = (registry.get(each.backend).at(each) for each in (info.device, device))
        is_route = "cpu" not in (info.device.kind, device.kind) and giver.pinned_domain == taker.pinned_domain
        route = (giver, CopyTarget(taker, device)) if is_route else None
        if type(spec) is not str or str(device).endswith(spec):
            table[info.device, spec] = route
        return route


_routes = _Routes()


def copy_to(x: Any, spec: Any) -> Array | None:
    """`xferlib.copy_to` between accelerators; None, a no-op, in every case that the long way must look at."""
    owner = _looked_at(x)
    if owner is None or type(spec) not in _SPECS:
        return None
    info = owner.view(x)
    if info.dtype not in SUPPORTED or (route := _routes.find(info, x, spec)) is None:
        return None
    return _carry(x, info, info.dtype, *route)


def to_device(x: Any, backend: Any, device: Any, out: Array | None, dtype: Any) -> Array | None:
    """`xferlib.to_device`, likewise: to a device by its full name, or to an array of the same form in C order."""
    if dtype is not None or backend is not None:
        return None
    if out is None:
        is_full = type(device) is Device or (type(device) is str and device.count(":") == 2)
        return copy_to(x, device) if is_full else None  # any other is a device of the default backend
    owner, other = _looked_at(x), _looked_at(out)
    if owner is None or other is None or device is not None:
        return None
    info, into = owner.view(x), other.view(out)
    if (info.shape, info.dtype, True) != (into.shape, into.dtype, into.is_writable) or info.dtype not in SUPPORTED:
        return None
    if not is_c_contiguous(into.shape, into.strides, into.dtype.itemsize):
        return None
    if (route := _routes.find(info, x, into.device)) is None:
        return None
    giver, target = route
    if other.follows_writes:
        other.note_write(out, "out")
    return _carry(x, info, info.dtype, giver, CopyTarget(target.backend, target.device, None, out, into))


def _looked_at(x: Any) -> Backend | None:
    """The backend of an array that may be on an accelerator, where nothing is recorded; None in any other case."""
    if observe.active is not None or raw.opened:
        return None
    owner = registry.by_type.get(type(x))
    return owner if owner is not None and owner.capabilities.streams else None


# --- every copy


@observe.user_call(lambda source, target, dtype: (target.backend, math.prod(source.shape) * dtype.itemsize))
def device_to_device(source: CopySource, target: CopyTarget, dtype: np.dtype[Any]) -> Array:
    """A copy between arrays of one pinned domain, on one device or two.

    It comes after the work enqueued so far on both ends' streams; and, unless the caller has named the stream, before
    the later work on them, which may change the source.

    Raises:
        CaptureError: The streams of the two ends are not of one capture.
    """
    assert source.info is not None
    if raw.opened:
        _refuse_two_captures(source.backend, source.info.device, target)
    return _carry(source.given, source.info, dtype, source.backend, target)


def _carry(x: Array, info: ArrayInfo, dtype: np.dtype[Any], giver: Backend, target: CopyTarget) -> Array:
    """`device_to_device` of an array that ``info`` describes."""
    taker, device, stream, out, into = target
    giver.attach(info.device)
    if taker is not giver:
        taker.attach(device)
    src, info = resolved(x, info, giver)
    order = stream if stream is not None else taker.stream_current(device)
    before = giver.stream_current(info.device)
    is_local = info.device.index == device.index
    near = before  # a device's own streams alone reach its memory
    if is_local and order.handle != before.handle:
        _follow(order, before, taker, giver)
        near = order.known_to(giver)
    dst = out if into is not None else taker.empty(info.shape, dtype, device=device, stream=order)
    if 0 in info.shape:
        return dst
    if dtype is not info.dtype and dtype != info.dtype:
        converted = giver.empty(info.shape, dtype, device=info.device, stream=near)
        cast(src, converted, giver, near)
        src, info = converted, giver.view(converted)
    is_mutual = stream is None
    try:
        if is_local:
            used = _within(src, info, dst, into, giver, taker, near, order)
            event = None
        else:
            event, used = _across(src, info, dst, into, giver, taker, before, order, is_mutual=is_mutual)
            is_mutual = is_mutual and event is None
        if event is None:
            event = in_flight.record(taker, order)
        in_flight.in_flight.hold(taker, event, src, used, dst)
    except BaseException:  # what may be enqueued uses memory that dies with this frame
        in_flight.abandon(giver, before)
        in_flight.abandon(taker, order)
        raise
    if is_mutual:
        _follow(before, order, giver, taker, event)
    return dst


def _refuse_two_captures(giver: Backend, here: Device, target: CopyTarget) -> None:
    """Refuse a copy in which a captured stream and another one would wait for each other."""
    order = target.stream if target.stream is not None else target.backend.stream_current(target.device)
    before = giver.stream_current(here)
    is_one = here.index == target.device.index and before.handle == order.handle
    if before.capture is not order.capture and not is_one:
        raise CaptureError(
            f"a copy from {here} to {target.device}: {before!r} and {order!r}, the current streams there, are not of "
            "one capture, so that neither may wait for the other; let the one that is not captured wait for the other "
            "first, or copy outside of the capture"
        )


def _follow(order: RawStream, before: RawStream, taker: Backend, giver: Backend, event: RawEvent | None = None) -> None:
    """Make a stream of ``taker`` wait for the work so far on a stream of ``giver``, behind which ``event`` may be."""
    if before.handle == order.handle and before.device.index == order.device.index:
        return
    if event is None or before.capture is not None:
        event = giver.event_record(before, timing=False)
    taker.event_wait(order, event)


# --- on one device


def _within(
    src: Array, info: ArrayInfo, dst: Array, into: ArrayInfo | None, giver: Backend, taker: Backend, near: RawStream,
    order: RawStream,
) -> Array:  # fmt: skip
    """Enqueue the copy; return what is used besides both ends."""
    temporary = src
    if into is not None and _overlap(info, into):  # no copy may read what it writes
        info, temporary = _copied(info, giver, near)
    if into is None and is_c_contiguous(info.shape, info.strides, info.dtype.itemsize):
        observe.copy(Kind.D2D, taker.operands((dst,))[0], info.pointer, info.nbytes, taker, order)
    else:
        into = into if into is not None else taker.view(dst)
        relayout.copy(into, info._replace(device=into.device), taker, order)
    return temporary


def _overlap(one: ArrayInfo, two: ArrayInfo) -> bool:
    """Whether the address ranges overlap."""
    (low_one, high_one), (low_two, high_two) = (
        bounds(each.pointer, each.shape, each.strides, each.dtype.itemsize) for each in (one, two)
    )
    return low_one < high_two and low_two < high_one


# --- from one device to another


def _across(
    src: Array, info: ArrayInfo, dst: Array, into: ArrayInfo | None, giver: Backend, taker: Backend, before: RawStream,
    order: RawStream, *, is_mutual: bool,
) -> tuple[RawEvent | None, tuple[Array, Array]]:  # fmt: skip
    """Enqueue the copy of plain bytes, and what puts both ends in order.

    Returns:
        An event after the copy, for which ``before`` then waits if that is wanted (``is_mutual``), or None; and what is
        used besides both ends.
    """
    itemsize = info.dtype.itemsize
    nbytes = math.prod(info.shape) * itemsize
    temporary, arrived = src, dst
    if not is_c_contiguous(info.shape, info.strides, itemsize):
        info, temporary = _copied(info, giver, before)
    if into is not None and not is_c_contiguous(into.shape, into.strides, itemsize):
        arrived = taker.empty(info.shape, info.dtype, device=into.device, stream=order)
    pointer = into.pointer if into is not None and arrived is dst else taker.operands((arrived,))[0]
    if not is_mutual:
        giver.consumed(temporary, order.known_to(giver))
    elif before.handle or giver.has_made_streams:  # which later waits for the copy, and so does who gets the memory
        giver.consumed(temporary, before)
    is_mutual = is_mutual and arrived is dst
    if not taker.reaches(order.device, info.device):
        event = _send_by_host(pointer, info.pointer, nbytes, giver, taker, before, order, is_mutual=is_mutual)
    else:
        event = _at_once(pointer, info.pointer, nbytes, taker, before, order, is_mutual=is_mutual)
        if event is None:
            _follow(order, before, taker, giver)
            observe.copy(Kind.PEER, pointer, info.pointer, nbytes, taker, order)
    if arrived is not dst:
        assert into is not None
        relayout.copy(into, taker.view(arrived), taker, order)
        event = None
    return event, (temporary, arrived)


def _at_once(
    dst: int, src: int, nbytes: int, taker: Backend, before: RawStream, order: RawStream, *, is_mutual: bool
) -> RawEvent | None:
    """Copy in the order of both ends in one call of the backend; None, no copy, where that is not possible.

    Returns:
        An event after the copy, for which ``before`` waits if that is wanted.
    """
    if taker.fast is None or observe.active is not None or raw.opened:
        return None
    try:
        return taker.fast.copy_behind(dst, src, nbytes, behind=before, stream=order, is_mutual=is_mutual)
    except BaseException:  # the copy may have been enqueued
        in_flight.abandon(taker, order)
        raise


def _send_by_host(
    dst: int, src: int, nbytes: int, giver: Backend, taker: Backend, before: RawStream, order: RawStream, *,
    is_mutual: bool,
) -> RawEvent | None:  # fmt: skip
    """Copy by way of this thread's slab, so that one piece leaves it while the next one comes; returns as `_at_once`.

    The last pieces are enqueued then, as those of any staged copy.
    """
    own, event = slab.slab_of(taker, min(nbytes, MEDIUM_NBYTES), order), None
    for start in range(0, nbytes, MEDIUM_NBYTES):
        count = min(nbytes - start, MEDIUM_NBYTES)
        _, pinned = own.take(count, order)
        try:
            observe.copy(Kind.D2H, pinned, src + start, count, giver, before)
            is_last = start + count == nbytes
            event = _at_once(dst + start, pinned, count, taker, before, order, is_mutual=is_mutual and is_last)
            if event is None:
                _follow(order, before, taker, giver)
        except BaseException:  # the slab knows of the copy on ``order`` alone, which has not come
            in_flight.abandon(giver, before)
            raise
        if event is None:
            observe.copy(Kind.H2D, dst + start, pinned, count, taker, order)
    return event


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
    _on(stream, backend, lambda: cast_on_current(src, dst))
    in_flight.in_flight.hold(backend, in_flight.record(backend, stream), src, dst)


def _on(stream: RawStream, backend: Backend, enqueue: Callable[[], T]) -> T:
    """Enqueue what a library puts on its current stream on this one."""
    current = backend.stream_current(stream.device)
    if current.handle == stream.handle:
        return enqueue()
    with deferred:  # or Ctrl-C might leave the other stream current
        backend.stream_use(stream)
        try:
            return enqueue()
        finally:
            backend.stream_use(current)


def resolved(src: Array, info: ArrayInfo, backend: Backend, stream: RawStream | None = None) -> tuple[Array, ArrayInfo]:
    """The array with its elements in memory, made on ``stream``, the current one if omitted."""
    if not backend.is_lazy(src):
        return src, info
    if stream is None:
        done = backend.resolved(src)
    else:
        done = _on(stream, backend, lambda: backend.resolved(src))
        backend.consumed(src, stream)
    return done, backend.view(done)


def in_c_order(src: Array, info: ArrayInfo, backend: Backend, stream: RawStream) -> tuple[ArrayInfo, Array]:
    """The array in C order, copied on the device if it is not; and what owns it."""
    return (info, src) if info.is_c_contiguous else _copied(info, backend, stream)


def _copied(info: ArrayInfo, backend: Backend, stream: RawStream) -> tuple[ArrayInfo, Array]:
    temporary = backend.empty(info.shape, info.dtype, device=info.device, stream=stream)
    flat = backend.view(temporary)
    relayout.copy(flat, info, backend, stream)
    return flat, temporary
