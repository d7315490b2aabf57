"""Host to device: allocate, order streams, choose the path, then let its executor copy.

Arguments arrive checked: devices exist, dtypes are supported, ``out`` fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._core import convert, observe, staging_hooks
from xferlib._core.array import Array, ArrayInfo, c_strides
from xferlib._memory import in_flight, pinned
from xferlib._transfer import plan, relayout, staged
from xferlib._transfer.ends import CopyTarget
from xferlib._transfer.handle import Transfer
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.on_device import cast, in_native_order
from xferlib._transfer.plan import Conversion, Path, Plan
from xferlib.errors import DeviceMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.backend import Backend
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream


class Upload(NamedTuple):
    """One copy to a device: both ends, and the stream that orders it."""

    end: HostEnd
    out: Array
    """The array on the device."""
    into: ArrayInfo
    """Location and layout of ``out``."""
    stream: RawStream
    is_blocking: bool
    """The source has been read on return even if it is pinned."""


@observe.user_call(lambda src, target, dtype: (target.backend, src.size * dtype.itemsize))
def host_to_device(src: HostArray, target: CopyTarget, dtype: np.dtype[Any]) -> Array:
    """Blocking upload: the source has been read on return, unless it is pinned and the target has a stream."""
    backend, device, stream, out, into = target
    order = stream if stream is not None else backend.stream_current(device)
    end = HostEnd(src, dtype, backend)
    is_given = into is not None
    try:
        if into is None:
            out = backend.empty(src.shape, dtype, device=device, stream=order)
            into = backend.view(out)
        path = send(Upload(end, out, into, order, stream is None))
        if order.handle and is_given and path is not Path.PINNED:
            # Its memory may be of another stream, which must not reuse it before this one.
            in_flight.in_flight.hold(backend, in_flight.record(backend, order), out)
    except BaseException:  # what may be enqueued uses memory that the caller may free now
        in_flight.abandon(backend, order)
        raise
    return out


def send(upload: Upload) -> Path:
    """Fill the array on the device; returns the path that the bytes took."""
    if upload.stream.capture is not None:
        return staged.captured_upload(upload.end, upload.out, upload.into, upload.stream)
    staging_hooks.touched(upload.end.array, upload.end.backend.pinned_domain, is_write=False)
    return _send(upload)


def _send(upload: Upload, *, may_cast: bool = True) -> Path:
    end, _, into, _, is_blocking = upload
    is_flat = into.is_c_contiguous
    found = plan.of(
        end, into.device, is_upload=True, is_blocking=is_blocking, may_permute=is_flat, may_cast=may_cast
    )  # fmt: skip
    plan.refuse_slow(found, end.array.nbytes, "to_device")
    if found.conversion is Conversion.ON_DEVICE:
        return _send_and_cast(upload)
    return _EXECUTORS[found.path](upload, found) if is_flat else _spread(upload, found)


def _send_and_cast(upload: Upload) -> Path:
    """Send the values as they are and convert them on the device; on the host if that has no room."""
    end, out, into, stream, _ = upload
    backend, dtype = end.backend, in_native_order(end.array.dtype)
    try:
        sent = backend.empty(into.shape, dtype, device=into.device, stream=stream)
    except DeviceMemoryError:
        return _send(upload, may_cast=False)
    path = _send(upload._replace(end=HostEnd(end.array, dtype, backend), out=sent, into=backend.view(sent)))
    cast(sent, out, backend, stream)
    return path


# --- one executor a path


def _staged(upload: Upload, found: Plan) -> Path:
    staged.upload(upload.end, upload.into, upload.stream, found)
    return found.path


def _pinned(upload: Upload, found: Plan) -> Path:
    end, out, into, stream, is_blocking = upload
    backend, ranges = end.backend, end.pinned
    assert ranges is not None
    staged.copy_pinned(end, into.pointer, stream, is_upward=True)
    if is_blocking:
        staged.await_copy(backend, stream)
    else:  # both ends live until the copy is complete
        event = in_flight.record(backend, stream)
        in_flight.hold_pinned(end.array, ranges.lease, backend, event)
        in_flight.in_flight.hold(backend, event, out)
    return found.path


def _permuted(upload: Upload, found: Plan) -> Path:
    """Send a dense array in the order of memory and reorder it on the device; gather it if that has no room."""
    end, _, into, stream, is_blocking = upload
    backend, lies = end.backend, end.array.transpose(found.order)
    try:
        temporary = backend.empty(lies.shape, into.dtype, device=into.device, stream=stream)
    except DeviceMemoryError:
        return _staged(upload, plan.STAGED)
    first = Upload(HostEnd(lies, into.dtype, backend), temporary, backend.view(temporary), stream, is_blocking)
    path = _send(first)
    strides = [0] * len(into.shape)
    for axis, stride in zip(found.order, c_strides(lies.shape, into.dtype.itemsize), strict=True):
        strides[axis] = stride
    _lay_out(upload, temporary, first.into._replace(shape=into.shape, strides=tuple(strides)))
    return path


def _spread(upload: Upload, found: Plan) -> Path:
    """Fill an ``out`` with gaps through a contiguous temporary."""
    backend, into = upload.end.backend, upload.into
    temporary = backend.empty(into.shape, into.dtype, device=into.device, stream=upload.stream)
    info = backend.view(temporary)
    path = _EXECUTORS[found.path](upload._replace(out=temporary, into=info), found)
    _lay_out(upload, temporary, info)
    return path


def _lay_out(upload: Upload, temporary: Array, info: ArrayInfo) -> None:
    """Copy a temporary on the device into its place; both live until then, where the caller may drop ``out``."""
    backend, stream = upload.end.backend, upload.stream
    relayout.copy(upload.into, info, backend, stream)
    in_flight.in_flight.hold(backend, in_flight.record(backend, stream), temporary, upload.out)


_EXECUTORS: dict[Path, Callable[[Upload, Plan], Path]] = {
    Path.EMPTY: lambda _, found: found.path,
    Path.SMALL: _staged,
    Path.PINNED: _pinned,
    Path.STAGED: _staged,
    Path.PERMUTED: _permuted,
}
"""For a destination in C order; each returns the path that the bytes took."""


# --- asynchronous


@observe.user_call(lambda src, target, dtype, **_: (target.backend, src.size * dtype.itemsize))
def host_to_device_async(
    src: HostArray, target: CopyTarget, dtype: np.dtype[Any], *, is_awaited: bool = False
) -> Transfer:
    """Start an upload; only pinned and staged ones outlast the call. ``is_awaited``: see `Transfer.start`."""
    backend, device, order, dst, info = target
    if order is None:
        from xferlib._core.ordering.copy_streams import copy_stream  # here, for programs that only wait

        order = copy_stream(backend, device, "up")
        if dst is not None:
            backend.event_wait(order, backend.event_record(backend.stream_current(device), timing=False))
    if info is None:
        dst = backend.empty(src.shape, dtype, device=device, stream=order)
        info = backend.view(dst)
    end = HostEnd(src, dtype, backend)
    found = plan.of(end, device, is_upload=True, is_blocking=False, may_permute=False, may_cast=False)
    plan.refuse_slow(found, end.array.nbytes, "to_device_async")
    transfer = Transfer(dst, backend, order, nbytes=info.nbytes, path=found.path.value, is_upload=True)
    is_flat = info.is_c_contiguous
    if found.path is Path.STAGED and is_flat:
        job = staged.job(end, info.pointer, order, transfer.finish, is_upward=True)
        transfer.start(job, info, keep=(src,), is_awaited=is_awaited)
    else:
        staging_hooks.touched(
            src, backend.pinned_domain, is_write=False
        )  # of small ones a thread reads pinned memory too
        try:
            execute = _EXECUTORS[found.path] if is_flat else _spread
            execute(Upload(end, dst, info, order, is_blocking=False), found)
            transfer.finish()
        except BaseException:
            in_flight.abandon(backend, order)
            raise
    return transfer


def fill(dst: Array, value: HostArray, backend: Backend) -> None:
    """Set every element of an array to one value, on the current stream."""
    info = backend.view(dst)
    if info.size:
        stream = backend.stream_current(info.device)
        if stream.capture is not None:  # a graph copies from pinned memory alone
            given, value = value, pinned.pools.of(backend)._lend((), info.dtype)
            convert.copy_into(value, given)
        one = host_to_device(value, CopyTarget(backend, info.device), info.dtype)
        spread = backend.view(one)._replace(shape=info.shape, strides=(0,) * len(info.shape))
        relayout.copy(info, spread, backend, stream)
        if stream.capture is not None:
            stream.capture.keep(one, dst)  # each launch uses them, whatever becomes of them before
