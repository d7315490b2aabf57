"""The arguments of a transfer: checked and looked up once, before anything happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import array, convert, devices, mixing, registry
from xferlib._core.array import Array, ArrayInfo
from xferlib._core.stream import Stream
from xferlib.errors import LayoutError, MixedDevicesError, StreamError, UnsupportedArrayError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream


def refuse_no_copy(copy: bool | None, info: ArrayInfo, place: Device) -> None:
    if copy is False:
        raise LayoutError(f"copy=False, but the array is on {info.device}, not {place}; pass copy=None or copy=True")


def download_arguments(
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


# --- the checks


def wanted_dtype(dtype: Any, given: np.dtype[Any]) -> np.dtype[Any]:
    if dtype is None:
        return given if given.isnative else given.newbyteorder("=")
    return array.check_dtype(dtype, what="dtype")


def target_of(
    backend: str | None, device: Any, stream: Any, out: Array | None
) -> tuple[Backend, Device, RawStream | None, ArrayInfo | None]:
    """Backend, device, stream and description of ``out`` of an upload; all given arguments must agree."""
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


def take_out(
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
