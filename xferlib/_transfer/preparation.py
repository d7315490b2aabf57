"""Work on an array on its device before or after a copy: resolve, put in C order, convert."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core.array import Array, ArrayInfo
from xferlib._memory import in_flight
from xferlib._runtime.interrupts import deferred
from xferlib._transfer import relayout
from xferlib.errors import DeviceMemoryError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.raw import RawStream


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
    if info.is_c_contiguous:
        return info, src
    temporary = backend.empty(info.shape, info.dtype, device=info.device, stream=stream)
    flat = backend.view(temporary)
    relayout.copy(flat, info, backend, stream)
    return flat, temporary
