"""From two ends to the function of their direction: host, device, another device, another family's device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import array, convert, registry
from xferlib._core.array import Array, ArrayInfo
from xferlib._core.observe import Kind
from xferlib._memory import host as _host
from xferlib._transfer import download, host_copy, on_device, upload
from xferlib._transfer.arguments import download_arguments, refuse_no_copy, take_out, wanted_dtype
from xferlib._transfer.handle import Transfer
from xferlib.errors import LayoutError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream


def copy_to_device(
    x: Any,
    target: Backend,
    place: Device,
    order: RawStream | None,
    *,
    dtype: Any,
    out: Array | None,
    into: ArrayInfo | None,
    copy: bool | None,
) -> Array:
    """`to_device` of anything to a device, and on a stream, that have been looked up; ``into`` describes ``out``."""
    source = registry.backend_of(x)
    if source is None or source.name == "numpy":
        host = array.as_host_array(x)
        return from_host(x, host, target, place, order, wanted_dtype(dtype, host.dtype), out=out, into=into, copy=copy)
    info = source.view(x)
    wanted = wanted_dtype(dtype, info.dtype)
    if copy is not True and out is None and info.device is place and wanted == info.dtype:
        return x
    if info.device.kind == "cpu":
        return from_host(x, source.host_view(x), target, place, order, wanted, out=out, into=into, copy=copy)
    refuse_no_copy(copy, info, place)
    convert.check_conversion(info.dtype, wanted)
    take_out(target, out, into, info.shape, wanted)
    source = source.at(info.device)
    if place.kind == "cpu":
        filled = out if out is not None else empty_on_cpu(target, info.shape, wanted, place)
        download.device_to_host(x, info, source, wanted, out=target.host_view(filled))
        return filled
    source.attach(info.device)
    if source.pinned_domain != target.pinned_domain:  # a GPU and a simulated one: neither can reach the other
        host = download.device_to_host(x, info, source, wanted)
        return from_host(x, host, target, place, order, wanted, out=out, into=into)
    return on_device.device_to_device(x, source, target, place, wanted, stream=order, out=out)


def send(host: HostArray, target: Backend, place: Device, order: RawStream | None = None) -> Array:
    """`to_device` of a NumPy array to a device, and on a stream, that have been looked up."""
    host = array.as_host_array(host)
    wanted = wanted_dtype(None, host.dtype)
    if place.kind == "cpu":
        return from_host(host, host, target, place, None, wanted)
    target.attach(place)
    return upload.host_to_device(host, target, place, wanted, stream=order)


def from_host(
    x: Any,
    host: HostArray,
    target: Backend,
    place: Device,
    order: RawStream | None,
    wanted: np.dtype[Any],
    *,
    out: Array | None = None,
    into: ArrayInfo | None = None,
    copy: bool | None = True,
) -> Array:
    """`to_device` of ``x``, which lies in host memory as ``host``; ``into`` describes ``out``."""
    is_there = target.name == "numpy" and isinstance(x, np.ndarray) and wanted == host.dtype
    if is_there and copy is not True and out is None:
        return x
    if copy is False:
        raise LayoutError(f"copy=False, but {type(x).__name__} is not on {place}; pass copy=None or copy=True")
    if host.dtype != wanted:
        convert.check_conversion(host.dtype, wanted)
    take_out(target, out, into, host.shape, wanted)
    if place.kind == "cpu":
        filled = out if out is not None else empty_on_cpu(target, host.shape, wanted, place)
        memory = target.host_view(filled)
        if np.may_share_memory(memory, host):
            host = host.copy()
        host_copy.copy_on_cpu(Kind.H2D, memory, host, target, place)
        return filled
    target.attach(place)
    return upload.host_to_device(host, target, place, wanted, stream=order, out=out, into=into)


def empty_on_cpu(target: Backend, shape: tuple[int, ...], dtype: np.dtype[Any], place: Device) -> Array:
    return target.empty(shape, dtype, device=place, stream=target.stream_current(place))


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
            done = copy_to_device(x, target, place, order, dtype=dtype, out=out, into=into, copy=True)
            return _on_device(done, target, place, order)
        host = source.host_view(x)
    else:
        host = array.as_host_array(x)
    wanted = wanted_dtype(dtype, host.dtype)
    if place.kind == "cpu":
        return _complete(
            from_host(x, host, target, place, order, wanted, out=out, into=into), target, host.nbytes, is_upload=True
        )
    convert.check_conversion(host.dtype, wanted)
    take_out(target, out, into, host.shape, wanted)
    target.attach(place)
    return upload.host_to_device_async(host, target, place, wanted, stream=order, out=out, is_awaited=is_awaited)


def begin_to_host(
    d: Any, *, dtype: Any = None, stream: Any = None, out: HostArray | None = None, is_awaited: bool = False
) -> Transfer:
    """`to_host_async`; ``is_awaited`` as in `xferlib._transfer.handle.Transfer.start`."""
    source, info, wanted, order = download_arguments(d, dtype, stream, out, "to_host_async")
    if info.device.kind == "cpu":
        done = to_host_from_cpu(source.host_view(d), wanted, out, source, info.device)
        return _complete(done, source.at(info.device), done.nbytes, is_upload=False)
    source = source.at(info.device)
    source.attach(info.device)
    return download.device_to_host_async(d, info, source, wanted, stream=order, out=out, is_awaited=is_awaited)


def to_host_from_cpu(
    host: HostArray, wanted: np.dtype[Any], out: HostArray | None, source: Backend, place: Device
) -> HostArray:
    filled = out if out is not None else _host.host_cache.empty(host.shape, wanted)
    if np.may_share_memory(filled, host):
        host = host.copy()
    host_copy.copy_on_cpu(Kind.D2H, filled, host, source, place)
    return filled


def _complete(result: Any, backend: Backend, nbytes: int, *, is_upload: bool) -> Transfer:
    return Transfer(result, backend, None, nbytes=nbytes, path="host", is_upload=is_upload)


def _on_device(result: Array, backend: Backend, place: Device, order: RawStream | None) -> Transfer:
    carrier = order if order is not None else backend.stream_current(place)
    transfer = Transfer(result, backend, carrier, nbytes=backend.view(result).nbytes, path="device", is_upload=True)
    transfer.finish()
    return transfer
