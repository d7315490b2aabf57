"""The verbs: check the arguments, choose the backend, delegate."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import array, convert, defaults, devices, mixing, registry
from xferlib._core import device as _device
from xferlib._core.array import Array, ArrayInfo
from xferlib._core.observe import Kind
from xferlib._core.stream import Stream
from xferlib._memory import host as _host
from xferlib._transfer import driver_copy, routes, staged
from xferlib._transfer.handle import Transfer
from xferlib.errors import LayoutError, MixedDevicesError, StreamError, UnsupportedArrayError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream


def get_array_module(*arrays: Any) -> ModuleType:
    """The Array-API namespace of the arrays' backend; NumPy for Python scalars only, and for nothing.

    Raises:
        MixedBackendsError: Arrays of two backends.
        UnsupportedError: The backend has no namespace; the message names what works.
    """
    backend = mixing.common_backend(arrays, call="get_array_module")
    return np if backend is None else backend.namespace()


def get_backend(*arrays: Any) -> Backend:
    """The backend of the arrays; without arrays the current default.

    Raises:
        MixedBackendsError: Arrays of two backends.
        BackendUnavailableError: The default asked for by name cannot run here.
    """
    return mixing.common_backend(arrays, call="get_backend") or defaults.default_backend()


# --- transfers


def to_device(
    x: Any,
    *,
    backend: str | None = None,
    device: str | int | Device | None = None,
    dtype: Any = None,
    stream: Any = None,
    out: Array | None = None,
    copy: bool | None = True,
) -> Array:
    """Copy an array to a device; the result never aliases ``x`` unless ``copy`` allows it.

    Any strides, order, alignment and byte order are taken; the result is C-contiguous. Without
    ``stream`` the source may be changed when the call returns, and the result is ordered on the
    current stream. With ``stream`` a pinned source must stay unchanged until the stream has passed
    the copy; any other has been read on return.

    Args:
        x: A host array (NumPy, torch on the CPU, a sequence, a scalar) or a device array; shape S.
        backend: Registry name of the target; the default backend if omitted.
        device: Target device; the backend's current one if omitted.
        dtype: Converted to while staging; floats saturate to integers. The dtype of ``x`` if omitted.
        stream: The stream that carries the copy; the current one if omitted.
        out: Device array of shape S to fill, of any strides.
        copy: True: always copy. None: return ``x`` itself where it already fits. False: only that.

    Returns:
        ``out``, or a new array of shape S on the device.

    Raises:
        UnsupportedArrayError, UnsupportedDTypeError: ``x`` cannot be held by a device.
        LayoutError: ``out`` differs in shape or dtype or is read-only; or ``copy=False`` cannot be met.
        BackendNotFoundError, BackendUnavailableError, DeviceNotFoundError: The target is not to be had.
        MixedBackendsError, MixedDevicesError: ``out`` and ``device`` or ``backend`` disagree.
        StreamError: ``stream`` is of another device.
        DeviceMemoryError, PinnedMemoryError: Nothing has been copied.
    """
    if backend is dtype is stream is None:  # as most calls are
        if out is None:
            if copy is True and type(x) is np.ndarray and isinstance(device, _device.Device):
                target = devices.backend_of(device)
                if target is not None:
                    return send(x, target, device)
        elif device is None and driver_copy.upload(x, out):
            return out
    source = registry.backend_of(x)
    target, place, order, into = target_of(backend, device, stream, out)
    if source is None or source.name == "numpy":
        host = array.as_host_array(x)
        return _from_host(x, host, target, place, order, wanted_dtype(dtype, host.dtype), out, into, copy)
    info = source.view(x)
    wanted = wanted_dtype(dtype, info.dtype)
    if copy is not True and out is None and info.device is place and wanted == info.dtype:
        return x
    if info.device.kind == "cpu":
        return _from_host(x, source.host_view(x), target, place, order, wanted, out, into, copy)
    _refuse_no_copy(copy, info, place)
    convert.check_conversion(info.dtype, wanted)
    _take_out(target, out, into, info.shape, wanted)
    source = source.at(info.device)
    if place.kind == "cpu":
        filled = out if out is not None else _empty_on_cpu(target, info.shape, wanted, place)
        routes.device_to_host(x, info, source, wanted, None, target.host_view(filled))
        return filled
    source.attach(info.device)
    if source.pinned_domain != target.pinned_domain:  # a GPU and a simulated one: neither can reach the other
        host = routes.device_to_host(x, info, source, wanted, None, None)
        return _from_host(x, host, target, place, order, wanted, out, into, True)
    return routes.device_to_device(x, source, target, place, wanted, order, out)


def send(host: HostArray, target: Backend, place: Device, order: RawStream | None = None) -> Array:
    """`to_device` of a NumPy array to a device, and on a stream, that have been looked up."""
    host = array.as_host_array(host)
    wanted = wanted_dtype(None, host.dtype)
    if place.kind == "cpu":
        return _from_host(host, host, target, place, None, wanted, None, None, True)
    target.attach(place)
    return routes.host_to_device(host, target, place, wanted, order, None, None)


def _from_host(
    x: Any,
    host: HostArray,
    target: Backend,
    place: Device,
    order: RawStream | None,
    wanted: np.dtype[Any],
    out: Array | None,
    into: ArrayInfo | None,
    copy: bool | None,
) -> Array:
    is_there = target.name == "numpy" and isinstance(x, np.ndarray) and wanted == host.dtype
    if is_there and copy is not True and out is None:
        return x
    if copy is False:
        raise LayoutError(f"copy=False, but {type(x).__name__} is not on {place}; pass copy=None or copy=True")
    if host.dtype != wanted:
        convert.check_conversion(host.dtype, wanted)
    _take_out(target, out, into, host.shape, wanted)
    if place.kind == "cpu":
        filled = out if out is not None else _empty_on_cpu(target, host.shape, wanted, place)
        memory = target.host_view(filled)
        if np.may_share_memory(memory, host):
            host = host.copy()
        staged.copy_on_cpu(Kind.H2D, memory, host, target, place)
        return filled
    target.attach(place)
    return routes.host_to_device(host, target, place, wanted, order, out, into)


def _empty_on_cpu(target: Backend, shape: tuple[int, ...], dtype: np.dtype[Any], place: Device) -> Array:
    return target.empty(shape, dtype, device=place, stream=target.stream_current(place))


def _refuse_no_copy(copy: bool | None, info: ArrayInfo, place: Device) -> None:
    if copy is False:
        raise LayoutError(f"copy=False, but the array is on {info.device}, not {place}; pass copy=None or copy=True")


def to_device_async(
    x: Any,
    *,
    backend: str | None = None,
    device: str | int | Device | None = None,
    dtype: Any = None,
    stream: Any = None,
    out: Array | None = None,
) -> Transfer:
    """Start copying an array to a device and return at once, whatever memory it lies in.

    The source must stay unchanged until `Transfer.source_released`. The destination is ordered
    after ``Transfer.wait(stream)`` or ``Transfer.result()``, not before.

    Args:
        x, backend, device, dtype, out: As for `to_device`.
        stream: The stream that carries the copy; a stream of xferlib's own if omitted, so that the
            copy runs beside the current stream's work.

    Returns:
        A `Transfer` whose result is the device array.

    Raises:
        As `to_device`, before anything is copied; later failures come from ``Transfer.result()``.
    """
    target, place, order, into = target_of(backend, device, stream, out)
    return begin(x, target, place, order, dtype=dtype, out=out, into=into)


def begin(
    x: Any,
    target: Backend,
    place: Device,
    order: RawStream | None,
    *,
    dtype: Any = None,
    out: Array | None = None,
    into: ArrayInfo | None = None,
    is_awaited: bool = False,
) -> Transfer:
    """`to_device_async` to a device, and on a stream, that have been looked up.

    Args:
        into: What ``out`` is.
        is_awaited: As in `xferlib._transfer.handle.Transfer.start`.
    """
    source = registry.backend_of(x)
    if source is not None and source.name != "numpy":
        info = source.view(x)
        if info.device.kind != "cpu":
            stream = Stream._of(order, target) if order is not None else None
            return _on_device(to_device(x, device=place, dtype=dtype, stream=stream, out=out), target, place, order)
        host = source.host_view(x)
    else:
        host = array.as_host_array(x)
    wanted = wanted_dtype(dtype, host.dtype)
    if place.kind == "cpu":
        return _complete(
            _from_host(x, host, target, place, order, wanted, out, into, True), target, host.nbytes, is_upload=True
        )
    convert.check_conversion(host.dtype, wanted)
    _take_out(target, out, into, host.shape, wanted)
    target.attach(place)
    return routes.host_to_device_async(host, target, place, wanted, order, out, is_awaited=is_awaited)


def to_host(d: Any, *, dtype: Any = None, stream: Any = None, out: HostArray | None = None) -> HostArray:
    """Copy an array to host memory; complete on return, and never an alias of ``d``.

    Args:
        d: An array of any backend, shape S. Host arrays are copied too.
        dtype: Converted to on the way; floats saturate to integers. The dtype of ``d`` if omitted.
        stream: The stream after whose pending work the copy runs; the current one if omitted.
        out: Host array of shape S to fill, of any strides; a new one if omitted.

    Returns:
        ``out``, or a new array of shape S in C order.

    Raises:
        UnsupportedArrayError: ``d`` is no array.
        LayoutError: ``out`` differs in shape or dtype, or is read-only.
        StreamError: ``stream`` is of another device.
    """
    if dtype is None and stream is None and (done := driver_copy.download(d, out)) is not None:
        return done
    source, info, wanted, order = _download_arguments(d, dtype, stream, out, "to_host")
    if info.device.kind == "cpu":
        return _to_host_from_cpu(source.host_view(d), wanted, out, source, info.device)
    source = source.at(info.device)
    source.attach(info.device)
    return routes.device_to_host(d, info, source, wanted, order, out)


def to_host_async(d: Any, *, dtype: Any = None, stream: Any = None, out: HostArray | None = None) -> Transfer:
    """Start copying an array to host memory and return at once.

    The data is handed out by ``Transfer.result()`` only, when it is complete. Until then ``d`` must
    not be written, nor ``out`` read.

    Args:
        d, dtype, out: As for `to_host`.
        stream: The stream that carries the copy; a stream of xferlib's own, behind the current
            stream's pending work, if omitted.

    Returns:
        A `Transfer` whose result is the host array.
    """
    return begin_to_host(d, dtype=dtype, stream=stream, out=out)


def begin_to_host(
    d: Any, *, dtype: Any = None, stream: Any = None, out: HostArray | None = None, is_awaited: bool = False
) -> Transfer:
    """`to_host_async`; ``is_awaited`` as in `xferlib._transfer.handle.Transfer.start`."""
    source, info, wanted, order = _download_arguments(d, dtype, stream, out, "to_host_async")
    if info.device.kind == "cpu":
        done = _to_host_from_cpu(source.host_view(d), wanted, out, source, info.device)
        return _complete(done, source.at(info.device), done.nbytes, is_upload=False)
    source = source.at(info.device)
    source.attach(info.device)
    return routes.device_to_host_async(d, info, source, wanted, order, out, is_awaited=is_awaited)


def _download_arguments(
    d: Any, dtype: Any, stream: Any, out: Any, call: str
) -> tuple[Backend, ArrayInfo, np.dtype[Any], RawStream | None]:
    source = registry.backend_of(d)
    if source is None:
        d = array.as_host_array(d, what="d")
        source = registry.get("numpy")
    info = source.view(d)
    wanted = wanted_dtype(dtype, array.check_dtype(info.dtype))
    if wanted != info.dtype:
        convert.check_conversion(info.dtype, wanted)
    if out is not None:
        _check_host_out(out, info.shape, wanted, call)
    order = raw_stream(stream, info.device) if stream is not None else None
    return source, info, wanted, order


def _to_host_from_cpu(
    host: HostArray, wanted: np.dtype[Any], out: HostArray | None, source: Backend, place: Device
) -> HostArray:
    filled = out if out is not None else _host.host_cache.empty(host.shape, wanted)
    if np.may_share_memory(filled, host):
        host = host.copy()
    staged.copy_on_cpu(Kind.D2H, filled, host, source, place)
    return filled


def _complete(result: Any, backend: Backend, nbytes: int, *, is_upload: bool) -> Transfer:
    return Transfer(result, backend, None, nbytes=nbytes, path="host", is_upload=is_upload)


def _on_device(result: Array, backend: Backend, place: Device, order: RawStream | None) -> Transfer:
    carrier = order if order is not None else backend.stream_current(place)
    transfer = Transfer(result, backend, carrier, nbytes=backend.view(result).nbytes, path="device", is_upload=True)
    transfer.finish()
    return transfer


# --- the checks


def wanted_dtype(dtype: Any, given: np.dtype[Any]) -> np.dtype[Any]:
    if dtype is None:
        return given if given.isnative else given.newbyteorder("=")
    return array.check_dtype(dtype, what="dtype")


def target_of(
    backend: str | None, device: Any, stream: Any, out: Array | None
) -> tuple[Backend, Device, RawStream | None, ArrayInfo | None]:
    """Backend, device and stream of an upload, and what ``out`` is; every argument that is given must agree."""
    into: ArrayInfo | None = None
    chosen = registry.get(backend) if backend is not None else None
    if out is not None:
        owner = registry.backend_of(out)
        if owner is None:
            raise UnsupportedArrayError(
                f"out is {type(out).__name__}, not an array of any backend; make it with xferlib.empty()"
            )
        if chosen is not None and chosen is not owner:
            raise mixing.mixed_backends("to_device", ("backend=", chosen), ("out", owner))
        into = owner.view(out)
        place = into.device
        if device is not None and devices.resolve(device, backend=owner) is not place:
            raise MixedDevicesError(
                f"to_device: device={devices.text(device)!r}, but out is on {place}; "
                "leave device out, or move out first"
            )
    elif device is None and stream is not None and _is_stream_of(stream, chosen):
        place = stream.device
    else:
        place = devices.resolve(device, backend=chosen)
    target = registry.get(place.backend).at(place)
    return target, place, (raw_stream(stream, place) if stream is not None else None), into


def _is_stream_of(stream: Any, chosen: Backend | None) -> bool:
    return isinstance(stream, Stream) and (chosen is None or stream.device.backend == chosen.name)


def raw_stream(stream: Any, place: Device) -> RawStream:
    if not isinstance(stream, Stream):
        stream = Stream.from_any(stream, place)
    if stream.device is not place:
        raise StreamError(
            f"the stream is of {stream.device}, but the array of {place}; "
            f"use a stream made with xferlib.Stream({str(place)!r})"
        )
    raw: RawStream = stream._raw
    return raw


def _take_out(
    target: Backend, out: Array | None, into: ArrayInfo | None, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> None:
    """Check ``out``, if one is given, and tell its library that it is about to be written."""
    if into is not None:
        _check_fit(into.shape, into.dtype, into.is_writable, shape, dtype)
        target.note_write(out, "out")


def _check_host_out(out: Any, shape: tuple[int, ...], dtype: np.dtype[Any], call: str) -> None:
    if not isinstance(out, np.ndarray):
        raise UnsupportedArrayError(
            f"{call}: out is {type(out).__name__}, not a numpy.ndarray; make it with numpy.empty() or pinned_empty()"
        )
    _check_fit(out.shape, out.dtype, out.flags.writeable, shape, dtype)


def _check_fit(
    has_shape: tuple[int, ...],
    has_dtype: np.dtype[Any],
    is_writable: bool,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> None:
    if has_shape != shape:
        raise LayoutError(f"out has shape {has_shape}, but the source has shape {shape}; reshape one of them")
    if has_dtype != dtype:
        raise LayoutError(f"out has dtype {has_dtype}, but {dtype} arrives; pass dtype={str(has_dtype)!r} to convert")
    if not is_writable:
        raise LayoutError("out is read-only; pass an array that may be written")
