"""From two ends to the function of their direction: host, device, another device, another family's device."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import arrays, observe, registry, streams
from xferlib._core.arrays import Array, ArrayInfo, c_strides, check_dtype
from xferlib._core.device import PER_THREAD
from xferlib._core.dtypes import in_native_order, name_of, refuse_saturation, saturates_itself
from xferlib._core.observe import Kind
from xferlib._memory import buffers, lifetimes, pinned
from xferlib._transfer import describe, on_device, plan, staging
from xferlib._transfer.describe import CopySource, CopyTarget, HostEnd, Upload
from xferlib._transfer.handle import Transfer
from xferlib._transfer.on_device import cast, in_c_order, resolve_lazy
from xferlib._transfer.plan import Conversion, Plan, TransferPath
from xferlib.errors import DeviceMemoryError, LayoutError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.arrays import HostArray
    from xferlib._core.backend import Backend
    from xferlib._core.device import RawStream


# Device to host: put in order on the device what is not, choose the path, then let its executor copy.
#
# Arguments arrive checked: devices exist, dtypes are supported, ``out`` fits.


def _source_nbytes(source: CopySource, *_: Any, **__: Any) -> tuple[Backend, int]:
    assert source.info is not None
    return source.backend, source.info.nbytes


@observe.user_call(_source_nbytes)
def device_to_host(
    source: CopySource, dtype: np.dtype[Any], *, stream: RawStream | None = None, out: HostArray | None = None
) -> HostArray:
    """Blocking download of an array on a device: complete on return."""
    src, info, backend = source.given, source.info, source.backend
    assert info is not None
    backend.attach(info.device)
    if (captured := staging.find_captured_stream("to_host", backend, info.device, stream)) is not None:
        streams.refuse("to_host", captured)
    if backend.is_lazy(src):
        src, info = resolve_lazy(src, backend, stream)
    order = stream if stream is not None else backend.stream_current(info.device)
    dst = out if out is not None else buffers.host_cache.empty(info.shape, dtype)
    try:
        end, flat, _owner, found = _prepare_download(
            src, info, backend, dst, order, "to_host" if out is not None else "", is_blocking=True
        )
        staging.download(flat, end, order, found)
    except BaseException:  # what may be enqueued reads memory that the caller may free now
        lifetimes.abandon(backend, order)
        raise
    if out is not None and observe.listener is not None:
        observe.note_host_access(out, backend.pinned_domain, is_write=True)
    return dst


def _prepare_download(
    src: Array, info: ArrayInfo, backend: Backend, dst: HostArray, order: RawStream, call: str, *, is_blocking: bool
) -> tuple[HostEnd, ArrayInfo, Array, Plan]:
    """Plan a download, and enqueue the device's part of it.

    Args:
        src, info, backend: The array on the device.
        dst: The host's.
        order: The stream.
        call: The user's; its ``dst`` may not be staged then where strict mode is on. Empty for a new ``dst``.

    Returns:
        The host's end; the device's, in the order and, if that is planned, in the dtype in which it travels; the owner
        of that memory; and the plan.
    """
    end = HostEnd(dst, info.dtype, backend)
    found = plan.of(end, info.device, is_upload=False, is_blocking=is_blocking, may_cast=is_blocking)
    if found.conversion is Conversion.ON_DEVICE:
        src, info = _convert_on_device(src, info, backend, dst.dtype, order)
        end = HostEnd(dst, info.dtype, backend)
        found = plan.of(end, info.device, is_upload=False, is_blocking=is_blocking, may_cast=False)
    if call:
        plan.refuse_slow(found, dst.nbytes, call)
    if found.path is TransferPath.PERMUTED:
        # The device puts the elements in the order of the host's memory, which is dense.
        shape, strides = (tuple(each[axis] for axis in found.order) for each in (info.shape, info.strides))
        try:
            flat, owner = in_c_order(src, info._replace(shape=shape, strides=strides), backend, order)
        except DeviceMemoryError:  # the host puts them in their places
            found = plan.of(
                end, info.device, is_upload=False, is_blocking=is_blocking, may_permute=False, may_cast=False
            )  # fmt: skip
        else:
            lies = HostEnd(dst.transpose(found.order), info.dtype, backend)
            found = plan.of(lies, info.device, is_upload=False, is_blocking=is_blocking, may_cast=False)
            return lies, flat, owner, found
    return end, *in_c_order(src, info, backend, order), found


def _convert_on_device(
    src: Array, info: ArrayInfo, backend: Backend, dtype: np.dtype[Any], stream: RawStream
) -> tuple[Array, ArrayInfo]:
    """The array in another dtype, made on the device; itself where that has no room."""
    try:
        converted = backend.empty(info.shape, dtype, device=info.device, stream=stream)
    except DeviceMemoryError:
        return src, info
    cast(src, converted, backend, stream)
    return converted, backend.view(converted)


# --- asynchronous


@observe.user_call(_source_nbytes)
def device_to_host_async(
    source: CopySource, *, stream: RawStream | None, out: HostArray | None, dtype: np.dtype[Any], is_awaited: bool
) -> Transfer:
    """Start a download; the result is handed out only when it is complete. ``is_awaited``: see `Transfer.start`."""
    src, info, backend = source.given, source.info, source.backend
    assert info is not None
    if backend.is_lazy(src):
        src, info = resolve_lazy(src, backend, stream)
    order = stream
    if order is None:
        order = streams.copy_stream(backend, info.device, "down")
        backend.event_wait(order, backend.event_record(backend.stream_current(info.device), timing=False))
    dst = out if out is not None else buffers.host_cache.empty(info.shape, dtype)
    try:
        end, flat, owner, found = _prepare_download(
            src, info, backend, dst, order, "to_host_async" if out is not None else "", is_blocking=False
        )
        transfer = Transfer(dst, backend, order, nbytes=info.nbytes, path=found.path.value, is_upload=False)
        if found.path is TransferPath.SMALL or found.path is TransferPath.STAGED:
            job = staging.job(end, flat.pointer, order, transfer.finish, is_upward=False)
            transfer.start(job, flat, keep=(src, owner), is_awaited=is_awaited)
        else:
            if found.path is TransferPath.PINNED:
                staging.copy_pinned(end, flat.pointer, order, is_upward=False)
            transfer.finish(src, owner)
    except BaseException:  # what may be enqueued reads memory that the caller may free now
        lifetimes.abandon(backend, order)
        raise
    return transfer


# Host to device: allocate, order streams, choose the path, then let its executor copy.
#
# Arguments arrive checked: devices exist, dtypes are supported, ``out`` fits.


@observe.user_call(lambda src, target, dtype: (target.backend, src.size * dtype.itemsize))
def host_to_device(src: HostArray, target: CopyTarget, dtype: np.dtype[Any]) -> Array:
    """Blocking upload: the source has been read on return, unless it is pinned and the target has a stream."""
    backend, device, stream, out, into = target
    backend.attach(device)
    order = stream if stream is not None else backend.stream_current(device)
    end = HostEnd(src, dtype, backend)
    is_given = into is not None
    try:
        if into is None:
            out = backend.empty(src.shape, dtype, device=device, stream=order)
            into = backend.view(out)
        path = send(Upload(end, out, into, order, stream is None))
        if order.handle and is_given and path is not TransferPath.PINNED:
            # Its memory may be of another stream, which must not reuse it before this one.
            lifetimes.in_flight.hold(backend, lifetimes.record(backend, order), out)
    except BaseException:  # what may be enqueued uses memory that the caller may free now
        lifetimes.abandon(backend, order)
        raise
    return out


def send(upload: Upload, *, may_cast: bool = True) -> TransferPath:
    """Fill the array on the device; returns the path that the bytes took."""
    end, out, into, stream, is_blocking = upload
    if stream.capture is not None:
        return staging.capture_upload(end, out, into, stream)
    if observe.listener is not None:
        observe.note_host_access(end.array, end.backend.pinned_domain, is_write=False)
    is_flat = into.is_c_contiguous
    found = plan.of(
        end, into.device, is_upload=True, is_blocking=is_blocking, may_permute=is_flat, may_cast=may_cast
    )  # fmt: skip
    plan.refuse_slow(found, end.array.nbytes, "to_device")
    if found.conversion is Conversion.ON_DEVICE:
        return _send_and_cast(upload)
    (_UPLOADS[found.path] if is_flat else _spread)(upload, found)
    return found.path


def _send_and_cast(upload: Upload) -> TransferPath:
    """Send the values as they are and convert them on the device; on the host if that has no room."""
    end, out, into, stream, _ = upload
    backend, dtype = end.backend, in_native_order(end.array.dtype)
    try:
        sent = backend.empty(into.shape, dtype, device=into.device, stream=stream)
    except DeviceMemoryError:
        return send(upload, may_cast=False)
    path = send(upload._replace(end=HostEnd(end.array, dtype, backend), out=sent, into=backend.view(sent)))
    cast(sent, out, backend, stream)
    return path


# --- one executor a path


def _upload_pinned(upload: Upload, _found: Plan) -> None:
    end, out, into, stream, is_blocking = upload
    backend, ranges = end.backend, end.pinned
    assert ranges is not None
    staging.copy_pinned(end, into.pointer, stream, is_upward=True)
    if is_blocking:
        staging.await_copy(backend, stream)
    else:  # both ends live until the copy is complete
        event = lifetimes.record(backend, stream)
        lifetimes.hold_pinned(end.array, ranges.lease, backend, event)
        lifetimes.in_flight.hold(backend, event, out)


def _permute(upload: Upload, found: Plan) -> None:
    """Send a dense array in the order of memory and reorder it on the device; gather it if that has no room."""
    end, _, into, stream, is_blocking = upload
    backend, lies = end.backend, end.array.transpose(found.order)
    try:
        temporary = backend.empty(lies.shape, into.dtype, device=into.device, stream=stream)
    except DeviceMemoryError:
        staging.upload(upload, plan.STAGED)
        return
    first = Upload(HostEnd(lies, into.dtype, backend), temporary, backend.view(temporary), stream, is_blocking)
    send(first)
    strides = [0] * len(into.shape)
    for axis, stride in zip(found.order, c_strides(lies.shape, into.dtype.itemsize), strict=True):
        strides[axis] = stride
    _lay_out(upload, temporary, first.into._replace(shape=into.shape, strides=tuple(strides)))


def _spread(upload: Upload, found: Plan) -> None:
    """Fill an ``out`` with gaps through a contiguous temporary."""
    backend, into = upload.end.backend, upload.into
    temporary = backend.empty(into.shape, into.dtype, device=into.device, stream=upload.stream)
    info = backend.view(temporary)
    _UPLOADS[found.path](upload._replace(out=temporary, into=info), found)
    _lay_out(upload, temporary, info)


def _lay_out(upload: Upload, temporary: Array, info: ArrayInfo) -> None:
    """Copy a temporary on the device into its place; both live until then, where the caller may drop ``out``."""
    backend, stream = upload.end.backend, upload.stream
    on_device.copy(upload.into, info, backend, stream)
    lifetimes.in_flight.hold(backend, lifetimes.record(backend, stream), temporary, upload.out)


_UPLOADS: dict[TransferPath, Callable[[Upload, Plan], None]] = {
    TransferPath.EMPTY: lambda _, found: None,
    TransferPath.SMALL: staging.upload,
    TransferPath.PINNED: _upload_pinned,
    TransferPath.STAGED: staging.upload,
    TransferPath.PERMUTED: _permute,
}
"""For a destination in C order."""


# --- asynchronous


@observe.user_call(lambda src, target, dtype, **_: (target.backend, src.size * dtype.itemsize))
def host_to_device_async(
    src: HostArray, target: CopyTarget, dtype: np.dtype[Any], *, is_awaited: bool = False
) -> Transfer:
    """Start an upload; only pinned and staged ones outlast the call. ``is_awaited``: see `Transfer.start`."""
    backend, device, order, dst, info = target
    if order is None:
        order = streams.copy_stream(backend, device, "up")
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
    if found.path is TransferPath.STAGED and is_flat:
        job = staging.job(end, info.pointer, order, transfer.finish, is_upward=True)
        transfer.start(job, info, keep=(src,), is_awaited=is_awaited)
    else:  # of small ones a thread reads pinned memory too
        observe.note_host_access(src, backend.pinned_domain, is_write=False)
        try:
            execute = _UPLOADS[found.path] if is_flat else _spread
            execute(Upload(end, dst, info, order), found)
            transfer.finish()
        except BaseException:
            lifetimes.abandon(backend, order)
            raise
    return transfer


def fill(dst: Array, value: HostArray, backend: Backend) -> None:
    """Set every element of an array to one value, on the current stream."""
    info = backend.view(dst)
    if info.size:
        stream = backend.stream_current(info.device)
        if stream.capture is not None:  # a graph copies from pinned memory alone
            given, value = value, pinned.pools.of(backend)._lend((), info.dtype)
            arrays.copy_into(value, given)
        one = host_to_device(value, CopyTarget(backend, info.device), info.dtype)
        spread = backend.view(one)._replace(shape=info.shape, strides=(0,) * len(info.shape))
        on_device.copy(info, spread, backend, stream)
        if stream.capture is not None:
            stream.capture.keep(one, dst)  # each launch uses them, whatever becomes of them before


def convert(source: CopySource, dtype: Any, *, saturate: bool) -> Array:
    """`astype` of an array that is described."""
    from xferlib.kernels.elementwise import conversion  # lazily: most transfers need no kernels

    wanted = describe.get_result_dtype(source, dtype)
    given = source.host if source.backend.name == "numpy" else source.given  # an array, where that may be a number
    converted: Array = conversion(name_of(wanted), saturate=saturate)(given)
    return converted


def _saturate(
    source: CopySource, dtype: Any, copy: bool | None, stream: RawStream | None = None
) -> tuple[CopySource, bool | None]:
    """Convert what a transfer with ``saturate=True`` sends; and the ``copy=`` of the rest.

    Before the copy, as a float8 is never more bytes, and the host's threads compute as fast as they stage.
    """
    wanted = describe.get_result_dtype(source, dtype)
    refuse_saturation(wanted)
    if wanted == source.dtype and not saturates_itself(wanted):
        return source, copy
    if copy is False:
        given, saturated = name_of(source.dtype), name_of(wanted)
        raise LayoutError(
            f"copy=False, but the array has dtype {given}, not {saturated} saturated; pass copy=None or copy=True"
        )
    enqueue = partial(convert, source, wanted, saturate=True)
    converted = enqueue() if stream is None else on_device.on_stream(stream, source.backend, enqueue)
    return describe.source_of(converted), None


def saturate_download(d: Any, dtype: Any, stream: Any, *, copy: bool | None = True) -> tuple[Array, bool | None]:
    """As `_saturate`, of a download, on the stream that the caller named, if any."""
    source = describe.source_of(d, what="d")
    order = None
    if stream is not None and source.info is not None:
        order = describe.raw_stream(stream, source.info.device)
    source, copy = _saturate(source, dtype, copy, order)
    return source.given, copy


def _transfer_in_fortran_order(source: CopySource, target: CopyTarget, dtype: Any, copy: bool | None) -> Array:
    """Transfer an array whose result has Fortran order."""
    layout: Any = source.host if source.host is not None else source.info
    is_fit = arrays.is_c_contiguous(layout.shape[::-1], layout.strides[::-1], layout.dtype.itemsize)
    if copy is False and not is_fit:
        raise LayoutError("copy=False, but the array is not in Fortran order; pass copy=None or copy=True")
    turned = describe.reverse_axes(source)
    sent = transfer_between(turned, target, dtype, copy=copy if is_fit else True)
    return source.given if sent is turned.given else target.backend.reversed_axes(sent)


def transfer_between(
    source: CopySource, target: CopyTarget, dtype: Any = None, *, copy: bool | None = True, is_reversed: bool = False,
    saturate: bool = False,
) -> Array:  # fmt: skip
    """`to_device` between two ends, in Fortran order if ``is_reversed``; all else as there."""
    if saturate:
        source, copy = _saturate(source, dtype, copy)
    if is_reversed:
        return _transfer_in_fortran_order(source, target, dtype, copy)
    wanted = describe.get_result_dtype(source, dtype)
    if copy is not True:
        if describe.fits(source, target, wanted):
            return source.given
        if copy is False:
            raise describe.needs_copy(source, target, wanted)
    if target.into is not None:
        describe.claim_out(target, source.shape, wanted)
    staging.find_captured_stream("to_device", target.backend, target.device, target.stream)
    is_to_cpu = target.device.kind == "cpu"
    if source.host is None:
        return _download_to_cpu(source, target, wanted) if is_to_cpu else _between_devices(source, target, wanted)
    return _on_cpu(source, target, wanted) if is_to_cpu else host_to_device(source.host, target, wanted)


def is_host_array(d: Any, dtype: Any) -> bool:
    """Whether `to_host` may return ``d`` itself: a NumPy array, of that dtype if one is given."""
    return type(d) is np.ndarray and (dtype is None or check_dtype(dtype, what="dtype") == d.dtype)


def to_host_needs_a_copy(d: Any, dtype: Any = None, out: Any = None, *, pinned: bool = False) -> LayoutError:
    """The error of ``to_host(copy=False)``."""
    wanted = "" if dtype is None else f" of dtype {check_dtype(dtype, what='dtype')}"
    if out is not None or pinned:
        why = "out is given" if out is not None else "pinned=True takes memory of the pool"
    else:
        why = f"{type(d).__name__} is no NumPy array{wanted}"
    return LayoutError(f"to_host: copy=False, but {why}; allow a copy: copy=None")


def begin(
    source: CopySource, target: CopyTarget, dtype: Any = None, *, saturate: bool = False, is_awaited: bool = False
) -> Transfer:
    """`to_device_async` between two ends; ``is_awaited`` as in `xferlib._transfer.handle.Transfer.start`."""
    if saturate:
        source, _ = _saturate(source, dtype, True)
    order = staging.find_captured_stream("to_device_async", target.backend, target.device, target.stream)
    if order is not None:
        done = transfer_between(source, target, dtype)
        return _complete(done, target.backend, target.backend.view(done).nbytes, is_upload=True)
    if target.stream is not None and target.stream.handle == PER_THREAD:  # threads cannot enqueue on it
        done = transfer_between(source, target, dtype)
        target.backend.stream_synchronize(target.stream)
        return _complete(done, target.backend, target.backend.view(done).nbytes, is_upload=True)
    if source.host is not None and target.device.kind != "cpu":
        wanted = describe.get_result_dtype(source, dtype)
        if target.into is not None:
            describe.claim_out(target, source.shape, wanted)
        target.backend.attach(target.device)
        return host_to_device_async(source.host, target, wanted, is_awaited=is_awaited)
    done = transfer_between(source, target, dtype)
    if source.host is not None:
        return _complete(done, target.backend, source.host.nbytes, is_upload=True)
    order = target.stream if target.stream is not None else target.backend.stream_current(target.device)
    nbytes = target.backend.view(done).nbytes
    transfer = Transfer(done, target.backend, order, nbytes=nbytes, path="device", is_upload=True)
    transfer.finish()
    return transfer


# --- to the host


def to_host(d: Any, dtype: Any, stream: Any, out: HostArray | None, *, is_pinned: bool = False) -> HostArray:
    """`xferlib.to_host`, the long way; ``is_pinned``: to a new array in pinned memory."""
    if is_pinned and out is not None:
        raise LayoutError("pinned=True asks for a new array, but out is given; leave one of them out")
    source, wanted, order = _host_arguments(d, dtype, stream, out, "to_host")
    if is_pinned:
        owner = source.backend if source.host is None else registry.default_backend()
        out = pinned.pools.of(owner)._lend(source.shape, wanted)
    if source.host is not None:
        return _to_host_from_cpu(source, wanted, out, "to_host")
    return device_to_host(source, wanted, stream=order, out=out)


def begin_to_host(
    d: Any, *, dtype: Any = None, stream: Any = None, out: HostArray | None = None, is_awaited: bool = False
) -> Transfer:
    """`to_host_async`; ``is_awaited`` as in `xferlib._transfer.handle.Transfer.start`."""
    source, wanted, order = _host_arguments(d, dtype, stream, out, "to_host_async")
    if source.host is not None:
        done = _to_host_from_cpu(source, wanted, out, "")
        return _complete(done, source.backend, done.nbytes, is_upload=False)
    assert source.info is not None
    source.backend.attach(source.info.device)
    recorded = staging.find_captured_stream("to_host_async", source.backend, source.info.device, order)
    if recorded is not None:
        done = staging.capture_download(d, source.info, source.backend, recorded, out)
        return _complete(done, source.backend, done.nbytes, is_upload=False)
    if order is not None and order.handle == PER_THREAD:  # threads cannot enqueue on it
        done = device_to_host(source, wanted, stream=order, out=out)
        return _complete(done, source.backend, done.nbytes, is_upload=False)
    return device_to_host_async(source, stream=order, out=out, dtype=wanted, is_awaited=is_awaited)


def _host_arguments(
    d: Any, dtype: Any, stream: Any, out: HostArray | None, call: str
) -> tuple[CopySource, np.dtype[Any], RawStream | None]:
    """The source of a download, the dtype that arrives and the stream."""
    source = describe.source_of(d, what="d", dtype=dtype)
    wanted = describe.get_result_dtype(source, dtype)
    if out is not None:
        describe.check_host_out(out, source.shape, wanted, call)
    device = source.device if source.device is not None else source.backend.devices()[0]
    return source, wanted, describe.raw_stream(stream, device) if stream is not None else None


def _to_host_from_cpu(source: CopySource, wanted: np.dtype[Any], out: HostArray | None, blocking: str) -> HostArray:
    """``blocking``: the call that promises complete data, if it does."""
    assert source.host is not None
    if blocking and source.device is not None:
        streams.refuse_current(blocking, source.backend, source.device)
    filled = out if out is not None else buffers.host_cache.empty(source.shape, wanted)
    memory = source.host if out is None else _apart(source.host, out)
    device = source.device if source.device is not None else source.backend.devices()[0]
    staging.copy_on_cpu(Kind.D2H, filled, memory, source.backend, device)
    return filled


def _apart(host: HostArray, filled: HostArray) -> HostArray:
    """The elements of ``host`` in memory that filling the caller's array does not change."""
    return host.copy() if np.may_share_memory(filled, host) else host


def _complete(result: Any, backend: Any, nbytes: int, *, is_upload: bool) -> Transfer:
    return Transfer(result, backend, None, nbytes=nbytes, path="host", is_upload=is_upload)


# --- one function a direction


def _download_to_cpu(source: CopySource, target: CopyTarget, dtype: np.dtype[Any]) -> Array:
    filled = target.out if target.out is not None else staging.new(target.backend, target.device, source.shape, dtype)
    device_to_host(source, dtype, out=target.backend.host_view(filled))
    return filled


def _between_devices(source: CopySource, target: CopyTarget, dtype: np.dtype[Any]) -> Array:
    if source.backend.pinned_domain != target.backend.pinned_domain:
        # A GPU and a simulated one: neither can reach the other.
        return host_to_device(device_to_host(source, dtype), target, dtype)
    return on_device.device_to_device(source, target, dtype)


def _on_cpu(source: CopySource, target: CopyTarget, dtype: np.dtype[Any]) -> Array:
    assert source.host is not None
    filled = target.out if target.out is not None else staging.new(target.backend, target.device, source.shape, dtype)
    memory = target.backend.host_view(filled)
    host = source.host if target.out is None else _apart(source.host, memory)
    staging.copy_on_cpu(Kind.H2D, memory, host, target.backend, target.device)
    return filled
