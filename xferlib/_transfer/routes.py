"""One function a direction: allocates, orders streams and settles layout, then lets `_transfer.handle` copy.

Arguments arrive checked: devices exist, dtypes are supported, ``out`` fits.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _native
from xferlib._core import observe, staging_hooks
from xferlib._core.array import Array, ArrayInfo, c_strides
from xferlib._core.observe import Kind
from xferlib._memory import host, in_flight, pinned, staging
from xferlib._runtime.fork import reset_in_child
from xferlib._runtime.interrupts import deferred
from xferlib._transfer import driver_copy, plan, relayout
from xferlib._transfer import staged as _staged
from xferlib._transfer.handle import Transfer
from xferlib._transfer.plan import Path, Plan
from xferlib.errors import DeviceMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream
    from xferlib._transfer.partition import Scattered

_copy_streams: dict[tuple[Device, str], RawStream] = {}
_copy_streams_lock = threading.RLock()  # reentrant: a finalizer may run inside


def _copy_stream(backend: Backend, device: Device, direction: str) -> RawStream:
    """xferlib's own stream for asynchronous copies in one direction, so that both engines can run."""
    key = (device, direction)
    stream = _copy_streams.get(key)
    if stream is None:
        with _copy_streams_lock:
            stream = _copy_streams.get(key)
            if stream is None:
                stream = backend.stream_create(device, non_blocking=True, priority=0)
                _copy_streams[key] = stream
    return stream


reset_in_child(_copy_streams.clear)


# --- host to device


def host_to_device(
    src: HostArray,
    backend: Backend,
    device: Device,
    dtype: np.dtype[Any],
    stream: RawStream | None,
    out: Array,
    into: ArrayInfo | None,
) -> Array:
    """Blocking upload: the source has been read on return, unless it is pinned and ``stream`` was given.

    ``into`` describes ``out``; both None for a new array.
    """
    recorder = observe.active
    begun = recorder.begin(backend) if recorder is not None else None
    order = stream if stream is not None else backend.stream_current(device)
    is_given = into is not None
    if into is None:
        out = backend.empty(src.shape, dtype, device=device, stream=order)
        if stream is None and src.dtype == dtype and driver_copy.fill(src, out, backend):
            return out
        into = backend.view(out)
        is_flat = True
    else:
        is_flat = into.is_c_contiguous
    if stream is None and is_flat and driver_copy.send(src, into, backend, order):
        return out
    staging_hooks.touched(src, backend.pinned_domain, is_write=False)
    found = plan.plan(src, dtype, backend, may_permute=is_flat, is_blocking=stream is None)
    if found.path is not Path.SMALL:
        plan.refuse_slow(found, src, "to_device")
    if _casts_on_device(src.dtype, dtype, into) and _upload_and_cast(src, out, into, backend, order):
        return out
    if found.path is Path.PERMUTED:
        found = _upload_permuted(src, into, backend, order, found)
    elif is_flat:
        _staged.upload(src, into, backend, order, found, is_blocking=stream is None)
    else:
        _upload_strided(src, into, backend, order, found)
    if found.path is Path.PINNED:
        if stream is None:
            _staged.await_copy(backend, order, src, out)
        else:
            _keep_until_copied(src, found, out, backend, order)
    elif is_given and order.handle:  # its memory may be of another stream, which must not reuse it before this one
        in_flight.in_flight.hold(backend, in_flight.record(backend, order), out)
    if recorder is not None:
        recorder.called(begun, backend, into.nbytes)
    return out


_CAST_FROM = 1 << 20


def _casts_on_device(narrow: np.dtype[Any], wide: np.dtype[Any], info: ArrayInfo) -> bool:
    """Whether converting on the device sends fewer bytes, and enough fewer to pay for a kernel."""
    return narrow.itemsize < wide.itemsize and info.nbytes >= _CAST_FROM and info.device.kind == "cuda"


def _upload_and_cast(src: HostArray, dst: Array, into: ArrayInfo, backend: Backend, stream: RawStream) -> bool:
    """Send the narrow values and widen them on the device; False where that has no room."""
    try:
        narrow = backend.empty(src.shape, _in_native_order(src.dtype), device=into.device, stream=stream)
    except DeviceMemoryError:
        return False
    host_to_device(src, backend, into.device, _in_native_order(src.dtype), stream, narrow, backend.view(narrow))
    _cast(narrow, dst, backend, stream)
    return True


def _in_native_order(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def _cast(src: Array, dst: Array, backend: Backend, stream: RawStream) -> None:
    """Enqueue ``dst[...] = src`` with conversion; both live until it is done."""
    from xferlib.kernels import casting

    src, dst = backend.detached(src), backend.detached(dst)  # a copy carries values, no history
    current = backend.stream_current(stream.device)
    if current.handle == stream.handle:
        casting.cast_into(dst, src)
    else:
        with deferred:  # or Ctrl-C might leave the other stream current
            backend.stream_use(stream)
            try:
                casting.cast_into(dst, src)
            finally:
                backend.stream_use(current)
    in_flight.in_flight.hold(backend, in_flight.record(backend, stream), src, dst)


def _keep_until_copied(src: HostArray, found: Plan, dst: Array, backend: Backend, stream: RawStream) -> None:
    """Keep both ends of a copy from pinned memory that is in flight until it is done."""
    event = in_flight.record(backend, stream)
    in_flight.hold_pinned(src, found.lease, backend, event)
    in_flight.in_flight.hold(backend, event, dst)


def _upload_permuted(src: HostArray, dst: ArrayInfo, backend: Backend, stream: RawStream, found: Plan) -> Plan:
    """Send a dense array as it lies and put it in C order on the device; gather it if that has no room."""
    lies = src.transpose(found.order)
    try:
        temporary = backend.empty(lies.shape, dst.dtype, device=dst.device, stream=stream)
    except DeviceMemoryError:
        _staged.upload(src, dst, backend, stream, plan.STAGED)
        return plan.STAGED
    info = backend.view(temporary)
    inner = plan.plan(lies, dst.dtype, backend, may_permute=False)
    _staged.upload(lies, info, backend, stream, inner)
    strides = [0] * src.ndim
    for axis, stride in zip(found.order, c_strides(lies.shape, dst.dtype.itemsize), strict=True):
        strides[axis] = stride
    relayout.copy(dst, info._replace(shape=src.shape, strides=tuple(strides)), backend, stream)
    in_flight.in_flight.hold(backend, in_flight.record(backend, stream), temporary)
    return inner


def _upload_strided(src: HostArray, dst: ArrayInfo, backend: Backend, stream: RawStream, found: Plan) -> None:
    """Fill an ``out`` with gaps through a contiguous temporary."""
    temporary = backend.empty(src.shape, dst.dtype, device=dst.device, stream=stream)
    info = backend.view(temporary)
    _staged.upload(src, info, backend, stream, found)
    relayout.copy(dst, info, backend, stream)
    in_flight.in_flight.hold(backend, in_flight.record(backend, stream), temporary)


def host_to_device_async(
    src: HostArray,
    backend: Backend,
    device: Device,
    dtype: np.dtype[Any],
    stream: RawStream | None,
    out: Array,
    *,
    is_awaited: bool = False,
) -> Transfer:
    """Start an upload; only pinned and staged ones outlast the call. ``is_awaited``: see `Transfer.start`."""
    recorder = observe.active
    begun = recorder.begin(backend) if recorder is not None else None
    order = stream
    if order is None:
        order = _copy_stream(backend, device, "up")
        if out is not None:
            backend.event_wait(order, backend.event_record(backend.stream_current(device), timing=False))
    dst = out if out is not None else backend.empty(src.shape, dtype, device=device, stream=order)
    info = backend.view(dst)
    found = plan.plan(src, dtype, backend, may_permute=False, is_blocking=False)
    plan.refuse_slow(found, src, "to_device_async")
    transfer = Transfer(dst, backend, order, nbytes=info.nbytes, path=found.path.value, is_upload=True)
    if found.path is Path.STAGED and info.is_c_contiguous:
        job = _staged.upload_job(src, info, backend, order, transfer)
        transfer.start(job, info, keep=(src,), is_awaited=is_awaited)
    else:
        try:
            if info.is_c_contiguous:
                _staged.upload(src, info, backend, order, found)
            else:
                _upload_strided(src, info, backend, order, found)
            if found.path is Path.PINNED:
                _keep_until_copied(src, found, dst, backend, order)
            transfer.finish()
        except BaseException:
            in_flight.abandon(backend, order)
            raise
    if recorder is not None:
        recorder.called(begun, backend, info.nbytes)
    return transfer


def filled_to_device(fill: Callable[[HostArray], None], slab: Array, backend: Backend, stream: RawStream) -> None:
    """Let ``fill`` write the bytes of a device slab into pinned memory, and send them."""
    recorder = observe.active
    begun = recorder.begin(backend) if recorder is not None else None
    info = backend.view(slab)
    if info.nbytes > staging.MEDIUM_NBYTES:
        staged = pinned.pool_of(backend).empty(info.shape, info.dtype)
        fill(staged)
        host_to_device(staged, backend, stream.device, info.dtype, stream, slab, info)
    else:
        memory, pointer = staging.slab_of(backend, info.nbytes).take(info.nbytes, stream)
        fill(memory)
        observe.copy(Kind.H2D, info.pointer, pointer, info.nbytes, backend, stream)
        if recorder is not None:
            recorder.called(begun, backend, info.nbytes)


_SCATTERED_FROM = 512 << 10
"""Less is copied by one thread before another has come."""


def scattered_to_device(
    locate: Callable[[], Scattered | None], nbytes: int, slab: Array, backend: Backend, stream: RawStream
) -> Transfer | None:
    """Begin to fill a device slab of so many bytes from memory that lies anywhere; None where only Python could.

    The caller settles or cancels the transfer.
    """
    if nbytes < _SCATTERED_FROM or plan.forced() is not None or not _native.is_on():
        return None
    info = backend.view(slab)
    if backend.staging_calls(info.device) is None or (parts := locate()) is None:
        return None
    recorder = observe.active
    begun = recorder.begin(backend) if recorder is not None else None
    transfer = Transfer(slab, backend, stream, nbytes=nbytes, path=Path.STAGED.value, is_upload=True)
    job = _staged.scattered_job(parts, info, backend, stream, transfer)
    if job is None:
        return None
    transfer.start(job, info, keep=(parts,), is_awaited=True)
    if recorder is not None:
        recorder.called(begun, backend, nbytes)
    return transfer


def fill(dst: Array, value: HostArray, backend: Backend) -> None:
    """Set every element of an array to one value, on the current stream."""
    info = backend.view(dst)
    if info.size:
        one = host_to_device(value, backend, info.device, info.dtype, None, None, None)
        spread = backend.view(one)._replace(shape=info.shape, strides=(0,) * len(info.shape))
        relayout.copy(info, spread, backend, backend.stream_current(info.device))


# --- device to host


def device_to_host(
    src: Array, info: ArrayInfo, backend: Backend, dtype: np.dtype[Any], stream: RawStream | None, out: HostArray | None
) -> HostArray:
    """Blocking download: complete on return."""
    recorder = observe.active
    begun = recorder.begin(backend) if recorder is not None else None
    src, info = _resolved(src, info, backend)
    order = stream if stream is not None else backend.stream_current(info.device)
    if dtype != info.dtype and _casts_on_device(dtype, info.dtype, info):
        src, info = _narrowed(src, info, backend, dtype, order)
    dst = out if out is not None else host.host_cache.empty(info.shape, dtype)
    found = plan.plan(dst, info.dtype, backend, may_permute=False)
    if out is not None:
        plan.refuse_slow(found, dst, "to_host")
    flat, temporary = _contiguous(src, info, backend, order)
    _staged.download(flat, dst, backend, order, found)
    del temporary
    if out is not None:
        staging_hooks.touched(out, backend.pinned_domain, is_write=True)
    if recorder is not None:
        recorder.called(begun, backend, info.nbytes)
    return dst


def _narrowed(
    src: Array, info: ArrayInfo, backend: Backend, dtype: np.dtype[Any], stream: RawStream
) -> tuple[Array, ArrayInfo]:
    """The array in a narrower dtype, made on the device; itself where that has no room."""
    try:
        narrow = backend.empty(info.shape, dtype, device=info.device, stream=stream)
    except DeviceMemoryError:
        return src, info
    _cast(src, narrow, backend, stream)
    return narrow, backend.view(narrow)


def _resolved(src: Array, info: ArrayInfo, backend: Backend) -> tuple[Array, ArrayInfo]:
    resolved = backend.resolved(src)
    return (src, info) if resolved is src else (resolved, backend.view(resolved))


def _contiguous(src: Array, info: ArrayInfo, backend: Backend, stream: RawStream) -> tuple[ArrayInfo, Array]:
    """The array in C order, copied on the device if it is not; and what owns it."""
    if info.is_c_contiguous:
        return info, src
    temporary = backend.empty(info.shape, info.dtype, device=info.device, stream=stream)
    flat = backend.view(temporary)
    relayout.copy(flat, info, backend, stream)
    return flat, temporary


def device_to_host_async(
    src: Array,
    info: ArrayInfo,
    backend: Backend,
    dtype: np.dtype[Any],
    stream: RawStream | None,
    out: HostArray | None,
    *,
    is_awaited: bool = False,
) -> Transfer:
    """Start a download; the result is handed out only when it is complete. ``is_awaited``: see `Transfer.start`."""
    recorder = observe.active
    begun = recorder.begin(backend) if recorder is not None else None
    src, info = _resolved(src, info, backend)
    order = stream
    if order is None:
        order = _copy_stream(backend, info.device, "down")
        backend.event_wait(order, backend.event_record(backend.stream_current(info.device), timing=False))
    dst = out if out is not None else host.host_cache.empty(info.shape, dtype)
    found = plan.plan(dst, info.dtype, backend, may_permute=False, is_blocking=False)
    if out is not None:
        plan.refuse_slow(found, dst, "to_host_async")
    flat, temporary = _contiguous(src, info, backend, order)
    transfer = Transfer(dst, backend, order, nbytes=info.nbytes, path=found.path.value, is_upload=False)
    if found.path in (Path.SMALL, Path.STAGED):
        job = _staged.download_job(flat, dst, backend, order, transfer)
        transfer.start(job, flat, keep=(src, temporary), is_awaited=is_awaited)
    else:
        try:
            _staged.enqueue_download(flat, dst, backend, order, found)
            transfer.finish(src, temporary)
        except BaseException:
            in_flight.abandon(backend, order)
            raise
    if recorder is not None:
        recorder.called(begun, backend, info.nbytes)
    return transfer


# --- device to device


def device_to_device(
    src: Array,
    source: Backend,
    target: Backend,
    device: Device,
    dtype: np.dtype[Any],
    stream: RawStream | None,
    out: Array,
) -> Array:
    """A copy between arrays of one pinned domain, on one device or two."""
    recorder = observe.active
    begun = recorder.begin(target) if recorder is not None else None
    src, info = _resolved(src, source.view(src), source)
    order = stream if stream is not None else target.stream_current(device)
    before = source.stream_current(info.device)
    is_local = info.device.index == device.index
    if is_local:
        _follow(order, before, target, source)
    near = order if is_local else before  # a device's own streams alone reach its memory
    if info.dtype != dtype:
        converted = source.empty(info.shape, dtype, device=info.device, stream=near)
        _cast(src, converted, source, near)
        src, info = converted, source.view(converted)
    dst = out if out is not None else target.empty(info.shape, dtype, device=device, stream=order)
    into = target.view(dst)
    needs_room = not is_local or _overlap(info, into)
    flat, temporary = _contiguous(src, info, source, near) if needs_room else (info, src)
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
    """Let a stream of ``target`` come after what a stream of ``source`` has been given."""
    if (before.device.index, before.handle) != (order.device.index, order.handle):
        target.event_wait(order, source.event_record(before, timing=False))


def _overlap(one: ArrayInfo, two: ArrayInfo) -> bool:
    """Whether the address ranges meet."""
    (low_one, high_one), (low_two, high_two) = _bounds(one), _bounds(two)
    return low_one < high_two and low_two < high_one


def _bounds(info: ArrayInfo) -> tuple[int, int]:
    low = high = info.pointer
    for extent, stride in zip(info.shape, info.strides, strict=True):
        reach = (extent - 1) * stride
        low, high = (low + reach, high) if reach < 0 else (low, high + reach)
    return low, high + info.dtype.itemsize
