"""Host to device: allocate, order streams, choose the layout, then let the executor of the path copy.

Arguments arrive checked: devices exist, dtypes are supported, ``out`` fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _native
from xferlib._core import observe, staging_hooks
from xferlib._core.array import Array, ArrayInfo, c_strides
from xferlib._core.observe import Kind
from xferlib._core.thresholds import MEDIUM_NBYTES, SCATTERED_FROM
from xferlib._memory import in_flight, pinned
from xferlib._memory import slab as _slab
from xferlib._transfer import driver_copy, plan, relayout
from xferlib._transfer import staged as _staged
from xferlib._transfer.copy_streams import copy_stream
from xferlib._transfer.handle import Transfer
from xferlib._transfer.plan import Path, Plan
from xferlib._transfer.preparation import cast, casts_on_device, in_native_order
from xferlib.errors import DeviceMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream
    from xferlib._transfer.partition import Scattered


# --- host to device


def host_to_device(
    src: HostArray,
    backend: Backend,
    device: Device,
    dtype: np.dtype[Any],
    *,
    stream: RawStream | None = None,
    out: Array = None,
    into: ArrayInfo | None = None,
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
    if casts_on_device(src.dtype, dtype, into) and _upload_and_cast(src, out, into, backend, order):
        return out
    if found.path is Path.PERMUTED:
        found = _upload_permuted(src, into, backend, order, found)
    elif is_flat:
        _staged.upload(src, into, backend, order, found, is_blocking=stream is None)
    else:
        _upload_strided(src, into, backend, order, found)
    if found.path is Path.PINNED:
        if stream is None:
            _staged.await_copy(backend, order)
        else:
            _keep_until_copied(src, found, out, backend, order)
    elif is_given and order.handle:  # its memory may be of another stream, which must not reuse it before this one
        in_flight.in_flight.hold(backend, in_flight.record(backend, order), out)
    if recorder is not None:
        recorder.called(begun, backend, into.nbytes)
    return out


def _upload_and_cast(src: HostArray, dst: Array, into: ArrayInfo, backend: Backend, stream: RawStream) -> bool:
    """Send the narrow values and widen them on the device; False where that has no room."""
    try:
        narrow = backend.empty(src.shape, in_native_order(src.dtype), device=into.device, stream=stream)
    except DeviceMemoryError:
        return False
    given, info = in_native_order(src.dtype), backend.view(narrow)
    host_to_device(src, backend, into.device, given, stream=stream, out=narrow, into=info)
    cast(narrow, dst, backend, stream)
    return True


def _keep_until_copied(src: HostArray, found: Plan, dst: Array, backend: Backend, stream: RawStream) -> None:
    """Keep both ends of a copy from pinned memory that is in flight until it is done."""
    event = in_flight.record(backend, stream)
    in_flight.hold_pinned(src, found.lease, backend, event)
    in_flight.in_flight.hold(backend, event, dst)


def _upload_permuted(src: HostArray, dst: ArrayInfo, backend: Backend, stream: RawStream, found: Plan) -> Plan:
    """Send a dense array in the order of memory and reorder it on the device; gather it if that has no room."""
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
    *,
    stream: RawStream | None = None,
    out: Array = None,
    is_awaited: bool = False,
) -> Transfer:
    """Start an upload; only pinned and staged ones outlast the call. ``is_awaited``: see `Transfer.start`."""
    recorder = observe.active
    begun = recorder.begin(backend) if recorder is not None else None
    order = stream
    if order is None:
        order = copy_stream(backend, device, "up")
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
    if info.nbytes > MEDIUM_NBYTES:
        staged = pinned.pools.of(backend).empty(info.shape, info.dtype)
        fill(staged)
        host_to_device(staged, backend, stream.device, info.dtype, stream=stream, out=slab, into=info)
    else:
        memory, pointer = _slab.slab_of(backend, info.nbytes).take(info.nbytes, stream)
        fill(memory)
        observe.copy(Kind.H2D, info.pointer, pointer, info.nbytes, backend, stream)
        if recorder is not None:
            recorder.called(begun, backend, info.nbytes)


def scattered_to_device(
    locate: Callable[[], Scattered | None], nbytes: int, slab: Array, backend: Backend, stream: RawStream
) -> Transfer | None:
    """Begin to fill a device slab of ``nbytes`` from scattered memory; None where only Python could.

    The caller settles or cancels the transfer.
    """
    if nbytes < SCATTERED_FROM or plan.forced() is not None or not _native.is_on():
        return None
    info = backend.view(slab)
    if backend.fast is None or backend.fast.staging_calls(info.device) is None or (parts := locate()) is None:
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
        one = host_to_device(value, backend, info.device, info.dtype)
        spread = backend.view(one)._replace(shape=info.shape, strides=(0,) * len(info.shape))
        relayout.copy(info, spread, backend, backend.stream_current(info.device))
