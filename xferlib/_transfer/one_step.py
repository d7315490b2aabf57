"""Blocking uploads of one array in few steps, for what `front.c` leaves to Python: devices that are not current, what
the device converts from another byte order, and all where it is not compiled; `one_step_download` is the other way.

`xferlib._transfer.copies` knows every case. This module knows those in which one copy is the whole transfer, and
leaves the others to it. To and from a CPU device NumPy copies. To and from a GPU it is one synchronous call of the
driver: up to 1 MiB (24 MiB from the pinned pool, or where nothing stages in C), both ends in C order, on a stream
that the driver's copies are ordered behind. A small array of another layout, byte order or dtype is gathered into the
thread's slab, and sent from there, or fetched into it and put in its places, in one call of C where the stream allows a
synchronous copy; a download to the pinned pool is one copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import defaults, devices, registry
from xferlib._core.array import SUPPORTED
from xferlib._core.device import Device
from xferlib._core.layout import address, refuse_truncated
from xferlib._memory import pinned_ranges, slab
from xferlib._transfer import compiled_copies, compiled_staging, host_copy, on_device, plan, upload
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.on_device import cast_on_current, in_native_order
from xferlib._transfer.plan import Conversion, Path, Plan
from xferlib._transfer.upload import Upload
from xferlib.errors import DeviceMemoryError

if TYPE_CHECKING:
    from xferlib._core.array import Array
    from xferlib._core.backend import Backend
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream


def to_device(x: Any, backend: Any, device: Any, out: Array | None, dtype: Any = None) -> Array | None:
    """Copy ``x`` to a device, into ``out`` if given; it has been read on return. None, a no-op, in every other case."""
    if type(x) is not np.ndarray:
        return on_device.to_device(x, backend, device, out, dtype)
    if not plan.may_skip():
        return None
    refuse_truncated(x, "x")
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
    except Exception:  # of a text, NumPy raises what its parser does
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
    if device.kind == "cpu":
        filled = host_copy.new(backend, device, x.shape, wanted)
        host_copy.copy_on_host(backend.host_view(filled), x)
        return filled
    if backend.fast is None or not x.nbytes:
        return None
    means = plan.known.get(device) or plan.means_of(backend, device)
    found = plan.compiled(x.shape, x.strides, x.dtype, wanted, means, True, True, True, True, "pageable", None)
    if found.path is Path.PERMUTED:
        return None
    is_cast = found.conversion is Conversion.ON_DEVICE
    if found.asks_pinned and not found.is_plain:
        is_cast = pinned_ranges.find(address(x), x.nbytes, backend) is not None
    if is_cast:
        sent = _to_new(x, backend, device, in_native_order(x.dtype))
        return converted(sent, x.shape, wanted, backend) if sent is not None else None
    backend.attach(device)
    stream = backend.stream_current(device)
    out = backend.empty(x.shape, wanted, device=device, stream=stream)
    into = backend.view(out)
    if not _sends(x, wanted, out, into.pointer, backend, stream, found):
        upload.send(Upload(HostEnd(x, wanted, backend), out, into, stream, is_blocking=True))
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


def _sends(
    x: HostArray, wanted: np.dtype[Any], out: Array, pointer: int, backend: Backend, stream: RawStream, found: Plan
) -> bool:
    """Fill a C-contiguous array at an address of the device; False, a no-op, in every case but this module's.

    Args:
        x, wanted, out, pointer, backend, stream: Both ends, and what carries the copy.
        found: The plan for pageable memory.
    """
    host, fast, nbytes = address(x), backend.fast, found.nbytes
    if found.is_plain:
        ranges = None if found.tries_driver else pinned_ranges.find(host, nbytes, backend)
        if ranges is not None:
            means, memory = plan.means_of(backend, stream.device), plan.memory_of(ranges)
            found = plan.compiled(x.shape, x.strides, x.dtype, wanted, means, True, True, True, True, memory, None)
        if found.tries_driver and fast is not None and fast.takes_pageable(stream, idle=True):
            if fast.copy_to_device(pointer, host, nbytes, stream=stream):
                return True
    if found.path is Path.SMALL:
        _gather_and_send(x, wanted, out, pointer, backend, stream, found)
        return True
    if found.path is not Path.STAGED:
        return False
    if found.tries_driver and pinned_ranges.find(host, nbytes, backend) is not None:  # the driver is busy
        return False
    return compiled_staging.stage(x, wanted, host, pointer, backend, stream, is_upward=True)


def _gather_and_send(
    x: HostArray, dtype: np.dtype[Any], out: Array, pointer: int, backend: Backend, stream: RawStream, found: Plan
) -> None:
    """Send a small array of any layout by way of the thread's slab, in one call of C where the stream allows that."""
    form, fast, nbytes = found.form, backend.fast, found.nbytes
    if form is not None and fast is not None:
        if fast.send_gathered(x, form.address, out, pointer, nbytes, slab.scratch_of(backend)):
            return
    memory, address = slab.slab_of(backend, nbytes, stream).take(nbytes, stream)
    compiled_copies.gather(x, dtype, memory, address)
    backend.copy(pointer, address, nbytes, stream=stream)


def _fills(x: HostArray, out: Array, wanted: np.dtype[Any]) -> bool:
    """Fill the caller's array; False, a no-op, in every case but this module's."""
    owner = registry.backend_of(out)
    if owner is None:
        return False
    if (fast := owner.fast) is None:
        return not owner.capabilities.streams and _fills_on_host(x, wanted, out, owner)
    whole = fast.whole(out)
    if whole is None or whole[1] != x.shape or whole[2] != wanted or not x.nbytes:
        return False
    device = owner.view(out).device
    backend = owner.at(device)
    means = plan.known.get(device) or plan.means_of(backend, device)
    found = plan.compiled(x.shape, x.strides, x.dtype, wanted, means, True, True, True, True, "pageable", None)
    backend.attach(device)
    stream = backend.stream_current(device)
    if stream.handle:  # the array's memory may be of another stream, which must not reuse it before this one
        return False
    if owner.follows_writes:
        owner.note_write(out, "out")
    if found.conversion is Conversion.ON_DEVICE:
        try:
            sent = _to_new(x, backend, device, in_native_order(x.dtype))
        except DeviceMemoryError:  # for a temporary; the long way converts on the host
            sent = None
        if sent is None:
            return False
        cast_on_current(backend.detached(sent), backend.detached(out))
        return True
    return found.path is not Path.PERMUTED and _sends(x, wanted, out, whole[0], backend, stream, found)


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
    refuse_truncated(array, "the array")
    try:
        return owner.host_view(array)
    except RuntimeError:
        return None
