"""Blocking uploads of one array in few steps, for what `front.c` leaves to Python: another dtype or layout, more bytes,
a busy stream, and all where it is not compiled; `one_step_download` is the other way.

`xferlib._transfer.copies` knows every case. This module knows those in which one copy is the whole transfer, and
leaves the others to it. To and from a CPU device NumPy copies. To and from a GPU it is one synchronous call of the
driver: up to 1.5 MiB (24 MiB from the pinned pool, or where nothing stages in C), both ends in C order, on a stream
that the driver's copies are ordered behind. Up to there the driver is as fast as any other way. A small array of
another layout, byte order or dtype is gathered into the thread's slab, and sent from there, or fetched into it and put
in its places, in one call of C where the stream allows a synchronous copy; a download to the pinned pool is one copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _native
from xferlib._core import defaults, devices, registry
from xferlib._core.array import SUPPORTED
from xferlib._core.device import Device
from xferlib._core.layout import address, dense_order
from xferlib._core.thresholds import (
    DRIVER_MOST_OF_ALL,
    DRIVER_MOST_UP,
    GATHERED_ELEMENTS_MOST,
    GATHERED_MOST,
    SMALL_NBYTES,
)
from xferlib._memory import pinned_ranges, slab
from xferlib._transfer import compiled_copies, compiled_staging, host_copy, plan, upload
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.on_device import cast_on_current, in_native_order
from xferlib._transfer.upload import Upload
from xferlib.errors import DeviceMemoryError

if TYPE_CHECKING:
    from xferlib._core.array import Array, ArrayInfo
    from xferlib._core.backend import Backend
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream


def to_device(x: Any, backend: Any, device: Any, out: Array | None, dtype: Any = None) -> Array | None:
    """Copy ``x`` to a device, into ``out`` if given; it has been read on return. None, a no-op, in every other case."""
    if type(x) is not np.ndarray or not plan.may_skip():
        return None
    wanted = x.dtype if dtype is None and x.dtype in SUPPORTED else arriving(x.dtype, dtype)
    if wanted is None:
        return None
    if out is not None:
        return out if backend is device is None and _fills(x, out, wanted) else None
    part: Backend | None
    if backend is not None or isinstance(device, (str, int)):
        part, place = _named(backend, device)
    elif device is None:
        owner = defaults.default_backend()
        place = devices.current_device(owner)
        part = owner.at(place)
    else:
        part, place = (devices.backend_of(device), device) if isinstance(device, Device) else (None, device)
    return _to_new(x, part, place, wanted) if part is not None else None


def arriving(given: np.dtype[Any], dtype: Any) -> np.dtype[Any] | None:
    """The dtype that arrives, native; None where that must be looked at, or refused, the long way."""
    native = given if given.isnative else given.newbyteorder("=")
    if dtype is None or native not in SUPPORTED:
        return native if native in SUPPORTED else None
    if not isinstance(dtype, (str, type, np.dtype)):
        return None
    try:
        wanted = np.dtype(dtype)
    except TypeError:
        return None
    return wanted if wanted in SUPPORTED and (native.kind != "c" or wanted.kind == "c") else None


def _named(name: Any, device: Any) -> tuple[Backend | None, Any]:
    """The backend's part and the device that a call names; None where that must be checked."""
    if name is not None and type(name) is not str:
        return None, None
    chosen = registry.get(name) if name is not None else None
    place = devices.resolve(device, backend=chosen)
    return registry.get(place.backend).at(place), place


def _to_new(x: HostArray, backend: Backend, device: Device, wanted: np.dtype[Any]) -> Array | None:
    """Copy an array to a new one on a device; on the usual way where the driver declines."""
    is_same = x.dtype == wanted
    if device.kind == "cpu":
        filled = host_copy.new(backend, device, x.shape, wanted)
        host_copy.copy_on_host(backend.host_view(filled), x)
        return filled
    if backend.fast is None or not x.nbytes:
        return None
    if not is_same and plan.is_cast_after(HostEnd(x, wanted, backend), device):
        narrow = _to_new(x, backend, device, in_native_order(x.dtype))
        return converted(narrow, x.shape, wanted, backend) if narrow is not None else None
    backend.attach(device)
    stream = backend.stream_current(device)
    out = backend.empty(x.shape, wanted, device=device, stream=stream)
    if not (is_same and x.flags.c_contiguous) and _is_gathered(x, wanted):
        _gather_and_send(x, wanted, out, backend.operands((out,))[0], backend, stream)
        return out
    into = backend.view(out)
    if _stages(x, wanted, into, stream, backend, DRIVER_MOST_UP):
        return out
    end = HostEnd(x, wanted, backend)
    if not _sends(end, into, stream) and not _stages(x, wanted, into, stream, backend, SMALL_NBYTES):
        upload.send(Upload(end, out, into, stream, is_blocking=True, may_be_drivers=False))
    return out


def converted(src: Array, shape: tuple[int, ...], dtype: np.dtype[Any], backend: Backend) -> Array | None:
    """A new array, converted on the device in the order of the current stream; None where that has no room."""
    device = backend.device_of(src)
    backend.attach(device)
    try:
        made = backend.empty(shape, dtype, device=device, stream=backend.stream_current(device))
    except DeviceMemoryError:
        return None
    cast_on_current(backend.detached(src), made)
    return made


def _stages(
    x: HostArray, wanted: np.dtype[Any], into: ArrayInfo, stream: RawStream, backend: Backend, more_than: int
) -> bool:
    """Upload by threads of C; False, a no-op, where there may be a better way: see `plan.plan`.

    Args:
        x, wanted, into, stream, backend: Both ends, and what carries the copy.
        more_than: Bytes up to which plain memory has a better way.
    """
    is_same = x.dtype == wanted
    if not is_same or not x.flags.c_contiguous:
        if x.size * wanted.itemsize <= GATHERED_MOST:
            return False
        if is_same and dense_order(x.shape, x.strides, x.itemsize) is not None:  # the device may put it in order
            return False
        return compiled_staging.stage(x, wanted, address(x), into.pointer, backend, stream, is_upward=True)
    if x.nbytes <= more_than:
        return False
    pointer = address(x)
    if pinned_ranges.find(pointer, x.nbytes, backend) is not None:
        return False
    return compiled_staging.stage(x, wanted, pointer, into.pointer, backend, stream, is_upward=True)


def _is_gathered(x: HostArray, wanted: np.dtype[Any]) -> bool:
    """Whether this thread gathers the array, for one copy."""
    if x.size * wanted.itemsize > GATHERED_MOST:
        return False
    return x.size <= GATHERED_ELEMENTS_MOST or x.dtype != wanted or dense_order(x.shape, x.strides, x.itemsize) is None


def _gather_and_send(
    x: HostArray, dtype: np.dtype[Any], out: Array, pointer: int, backend: Backend, stream: RawStream
) -> None:
    """Send an array of any layout, up to `GATHERED_MOST`, to one on the device, by way of the thread's slab."""
    if _sends_gathered(x, dtype, out, pointer, backend):
        return
    nbytes = x.size * dtype.itemsize
    memory, address = slab.slab_of(backend, nbytes).take(nbytes, stream)
    compiled_copies.gather(x, dtype, memory, address)
    backend.copy(pointer, address, nbytes, stream=stream)


def _sends_gathered(x: HostArray, dtype: np.dtype[Any], out: Array, pointer: int, backend: Backend) -> bool:
    """The same in one call of C; False, a no-op, where the stream or the layout does not allow that."""
    if not _native.is_on() or backend.fast is None:
        return False
    layout = compiled_copies.form(x.shape, x.strides, x.dtype, dtype)
    if layout is None:
        return False
    nbytes = x.size * dtype.itemsize
    return backend.fast.send_gathered(x, layout.address, out, pointer, nbytes, slab.scratch_of(backend))


def _fills(x: HostArray, out: Array, wanted: np.dtype[Any]) -> bool:
    """Fill the caller's array; False, a no-op, in every case but this module's."""
    owner = registry.backend_of(out)
    if owner is None:
        return False
    is_same = x.dtype == wanted
    if (fast := owner.fast) is None:
        return not owner.capabilities.streams and _fills_on_host(x, wanted, out, owner)
    found = fast.whole(out)
    if found is None or found[1] != x.shape or found[2] != wanted or not x.nbytes:
        return False
    pointer = found[0]
    if not is_same or not x.flags.c_contiguous:
        return _fills_from_gathered(x, out, pointer, wanted, owner)
    if owner.follows_writes:
        owner.note_write(out, "out")
    into = owner.view(out)
    backend = owner.at(into.device)
    backend.attach(into.device)
    stream = backend.stream_current(into.device)
    stages = not stream.handle  # else the array's memory may be another stream's
    if stages and _stages(x, wanted, into, stream, backend, DRIVER_MOST_UP):
        return True
    if _sends(HostEnd(x, wanted, backend), into, stream):
        return True
    return stages and _stages(x, wanted, into, stream, backend, SMALL_NBYTES)


def _fills_from_gathered(x: HostArray, out: Array, pointer: int, wanted: np.dtype[Any], owner: Backend) -> bool:
    if not _is_gathered(x, wanted):
        return False
    if owner.follows_writes:
        owner.note_write(out, "out")
    if _sends_gathered(x, wanted, out, pointer, owner):
        return True
    device = owner.device_of(out)
    backend = owner.at(device)
    backend.attach(device)
    stream = backend.stream_current(device)
    if stream.handle:  # the array's memory may be of another stream, which must not reuse it before this one
        return False
    _gather_and_send(x, wanted, out, pointer, backend, stream)
    return True


def _fills_on_host(x: HostArray, wanted: np.dtype[Any], out: Array, owner: Backend) -> bool:
    memory = memory_of(out, owner)
    if memory is None or not host_copy.is_fitting(memory, x, wanted):
        return False
    if memory is not out and not owner.view(out).is_writable:  # such as an array of JAX, whose memory could be written
        return False
    if owner.follows_writes:
        owner.note_write(out, "out")
    host_copy.copy_on_host(memory, x)
    return True


def memory_of(array: Array, owner: Backend) -> HostArray | None:
    """The memory of an array on the CPU; None where it has none, which the long way tells."""
    try:
        return owner.host_view(array)
    except RuntimeError:
        return None


def _sends(end: HostEnd, into: ArrayInfo, stream: RawStream) -> bool:
    """Fill a C-contiguous destination of the same shape; False, a no-op, in every other case."""
    nbytes, fast = end.nbytes, end.backend.fast
    if not nbytes or fast is None or not end.is_plain or not _is_drivers(end):
        return False
    return fast.takes_pageable(stream, idle=True) and fast.copy_to_device(
        into.pointer, end.pointer, nbytes, stream=stream
    )


def _is_drivers(end: HostEnd) -> bool:
    """Whether one synchronous copy by the driver is as fast as any other upload."""
    if plan.is_drivers_size(end.nbytes, is_upward=True):
        return True
    return end.nbytes <= DRIVER_MOST_OF_ALL and end.pinned is not None and end.pinned.lease is not None
