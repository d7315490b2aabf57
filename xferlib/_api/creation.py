"""Creation of arrays, on devices and in pinned memory, and release of memory that is kept for reuse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._api import transfers
from xferlib._api.order import is_fortran, reversed_axes
from xferlib._core import convert, defaults, devices, registry
from xferlib._core.array import Array, as_host_array, check_dtype, is_c_contiguous
from xferlib._core.layout import shape_of
from xferlib._memory import host, pinned, registration, slab, staging_ring
from xferlib._transfer import ends, upload
from xferlib.errors import ArgumentError, LayoutError, UnsupportedArrayError, shown

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import DeviceSpec
    from xferlib._core.layout import HostArray

Shape = int | Sequence[int]


def empty(
    shape: Shape, dtype: Any = "float64", *, backend: str | None = None, device: DeviceSpec = None, order: str = "C"
) -> Array:
    """An uninitialised contiguous array on a device, from the library's memory pool.

    Args:
        shape: An int or a sequence of ints.
        dtype: A supported dtype.
        backend: Registry name; the default backend if omitted.
        device: The device; the backend's current one if omitted.
        order: ``"C"``, or ``"F"`` for elements whose first index changes fastest, as in Fortran and in BLAS.

    Raises:
        ArgumentError: ``order`` is neither.
        LayoutTypeError: ``shape`` is no shape.
        DeviceMemoryError: The device has too little memory.
    """
    if is_fortran(order, "empty"):
        return reversed_axes(empty(shape_of(shape)[::-1], dtype, backend=backend, device=device))
    place = devices.resolve(device, backend=None if backend is None else registry.get(backend))
    owner = registry.get(place.backend).at(place)
    owner.attach(place)
    made = check_dtype(dtype, what="dtype")
    owner.hand_out(made)
    return owner.empty(shape_of(shape), made, device=place, stream=owner.stream_current(place))


def full(
    shape: Shape, fill_value: complex, dtype: Any = None, *, backend: str | None = None, device: DeviceSpec = None,
    order: str = "C",
) -> Array:  # fmt: skip
    """An array filled with one value; its dtype is the value's, as NumPy has it, if omitted. Others as for `empty`.

    Raises:
        OverflowError: The value is a Python integer that ``dtype`` does not hold.
    """
    if is_fortran(order, "full"):
        return reversed_axes(full(shape_of(shape)[::-1], fill_value, dtype, backend=backend, device=device))
    if fill_value is None or isinstance(fill_value, str):
        raise UnsupportedArrayError(f"full: fill_value={fill_value!r} is no number; give one: full(shape, number)")
    value = as_host_array(fill_value, what="fill_value")
    wanted = ends.wanted_dtype(dtype, value.dtype)
    convert.check_conversion(value.dtype, wanted)
    value = convert.exactly(fill_value, value, wanted)
    if value.ndim:
        raise LayoutError(f"fill_value has shape {value.shape}; give one number, or use to_device()")
    array = empty(shape, wanted, backend=backend, device=device)
    owner = registry.backend_of(array)
    assert owner is not None
    place = owner.view(array).device
    if place.kind == "cpu":
        convert.copy_into(owner.host_view(array), np.broadcast_to(value, owner.host_view(array).shape))
    else:
        upload.fill(array, value, owner.at(place))
    return array


def zeros(
    shape: Shape, dtype: Any = "float64", *, backend: str | None = None, device: DeviceSpec = None, order: str = "C"
) -> Array:
    """An array of zeros. Arguments as for `empty`."""
    return full(shape, 0, "float64" if dtype is None else dtype, backend=backend, device=device, order=order)


def ones(
    shape: Shape, dtype: Any = "float64", *, backend: str | None = None, device: DeviceSpec = None, order: str = "C"
) -> Array:
    """An array of ones. Arguments as for `empty`."""
    return full(shape, 1, "float64" if dtype is None else dtype, backend=backend, device=device, order=order)


def _like(x: Array, dtype: Any, device: DeviceSpec) -> tuple[tuple[int, ...], Any, Any, str]:
    """Shape, dtype, device and order of an array like another; the order is C unless that is in Fortran order alone."""
    backend = registry.backend_of(x)
    if backend is None:
        raise UnsupportedArrayError(f"{type(x).__name__} is not an array of any backend; pass an array")
    info = backend.view(x)
    lies_in_f = is_c_contiguous(info.shape[::-1], info.strides[::-1], info.dtype.itemsize)
    order = "F" if lies_in_f and not info.is_c_contiguous else "C"
    return info.shape, info.dtype if dtype is None else dtype, info.device if device is None else device, order


def empty_like(x: Array, dtype: Any = None, *, device: DeviceSpec = None) -> Array:
    """An uninitialised array with the shape, dtype and device of another, in Fortran order where that is."""
    shape, dtype, device, order = _like(x, dtype, device)
    return empty(shape, dtype, device=device, order=order)


def zeros_like(x: Array, dtype: Any = None, *, device: DeviceSpec = None) -> Array:
    """Zeros with the shape, dtype and device of another array, in Fortran order where that is."""
    shape, dtype, device, order = _like(x, dtype, device)
    return zeros(shape, dtype, device=device, order=order)


def ones_like(x: Array, dtype: Any = None, *, device: DeviceSpec = None) -> Array:
    """Ones with the shape, dtype and device of another array, in Fortran order where that is."""
    shape, dtype, device, order = _like(x, dtype, device)
    return ones(shape, dtype, device=device, order=order)


def full_like(x: Array, fill_value: complex, dtype: Any = None, *, device: DeviceSpec = None) -> Array:
    """One value with the shape, dtype and device of another array, in Fortran order where that is."""
    shape, dtype, device, order = _like(x, dtype, device)
    return full(shape, fill_value, dtype, device=device, order=order)


def array_over(
    pointer: int, shape: Shape, dtype: Any, *, owner: Any, backend: str | None = None, device: DeviceSpec = None
) -> Array:
    """An array over memory that another library allocated: nothing is copied, checked or freed.

    Args:
        pointer: The address of the first element, on the device.
        shape: An int or a sequence of ints; the elements lie in C order without gaps.
        dtype: A supported dtype.
        owner: Whatever keeps the memory allocated; it lives at least as long as the array and its views.
        backend: Registry name; the default backend if omitted.
        device: Where the memory is; the backend's current device if omitted.

    Raises:
        ArgumentError: ``pointer`` is no address, or the simulator has no memory there.
        LayoutError: ``shape`` is no shape, or ``pointer`` no multiple of the element's size.
        UnsupportedError: The backend cannot.
    """
    extents, kind = shape_of(shape), check_dtype(dtype, what="dtype")
    place = devices.resolve(device, backend=None if backend is None else registry.get(backend))
    nbytes = math.prod(extents) * kind.itemsize
    is_int = isinstance(pointer, (int, np.integer)) and not isinstance(pointer, bool)
    if not is_int or not 0 <= pointer <= (1 << 64) - nbytes or (nbytes and not pointer):
        raise ArgumentError(f"array_over: pointer={shown(pointer)} is no address of {nbytes} bytes; give int(pointer)")
    if pointer % kind.itemsize:
        raise LayoutError(
            f"array_over: address {int(pointer):#x} is no multiple of the {kind.itemsize} bytes of {kind}; "
            "make an array of uint8"
        )
    part = registry.get(place.backend).at(place)
    part.attach(place)
    if not nbytes:
        return part.empty(extents, kind, device=place, stream=part.stream_current(place))
    return part.over(int(pointer), extents, kind, device=place, owner=owner)


# --- pinned memory


def _pinning_backend(backend: str | None) -> Backend:
    chosen = registry.get(backend) if backend is not None else defaults.default_backend()
    place = devices.current_device(chosen)
    chosen = chosen.at(place)
    chosen.attach(place)
    return chosen


def pinned_empty(shape: Shape, dtype: Any = "float64", *, backend: str | None = None) -> HostArray:
    """An uninitialised NumPy array in page-locked memory, from a pool.

    Copies from and to it run at the speed of the link, and asynchronously. On a CPU backend it is
    ordinary memory.

    Args:
        shape: An int or a sequence of ints.
        dtype: A supported dtype.
        backend: The backend that will copy it; the default one if omitted.

    Raises:
        PinnedMemoryError: The system or ``XFERLIB_PINNED_LIMIT`` allows no more.
    """
    chosen = _pinning_backend(backend)
    return pinned.pools.of(chosen)._lend(shape_of(shape), check_dtype(dtype, what="dtype"))


def pinned_zeros(shape: Shape, dtype: Any = "float64", *, backend: str | None = None) -> HostArray:
    """Zeros in page-locked memory. Arguments as for `pinned_empty`."""
    array = pinned_empty(shape, dtype, backend=backend)
    array.fill(0)
    return array


def pinned_empty_like(x: Any, dtype: Any = None, *, backend: str | None = None) -> HostArray:
    """An uninitialised pinned array with the shape and dtype of any array."""
    owner = registry.backend_of(x)
    like = owner.view(x) if owner is not None else as_host_array(x)
    return pinned_empty(like.shape, like.dtype if dtype is None else dtype, backend=backend)


def pinned_array(x: Any, dtype: Any = None, *, backend: str | None = None) -> HostArray:
    """A pinned copy of any array: same shape, dtype and contents, C-contiguous."""
    owner = registry.backend_of(x)
    source = x if owner is not None else ends.source_of(x, dtype=dtype).host
    out = pinned_empty_like(source, dtype, backend=backend)
    return transfers.to_host(source, dtype=out.dtype, out=out)


def pin(array: HostArray, *, backend: str | None = None) -> registration.pin:
    """Page-lock an existing array in place, for the time of a block: ``with xl.pin(x): ...``.

    Worth it for memory that is sent many times: page-locking 1 GiB takes 24 ms where the pages are resident and about
    140 ms where they are not. One transfer alone is faster staged.

    Args:
        array: A C- or F-contiguous ``numpy.ndarray`` in ordinary memory. Not a file-backed map.
        backend: The backend that will copy it; the default one if omitted.

    Raises:
        LayoutError: The array has gaps, or is a file-backed map, or something else.
        PinnedMemoryError: The system refuses to lock the pages.
    """
    return registration.pin(array, _pinning_backend(backend))


def pinned_pool(backend: str | None = None) -> pinned.PinnedPool:
    """The pool of page-locked memory: ``stats()``, ``trim()``, ``max_bytes``, ``when_full``."""
    return pinned.pools.of(_pinning_backend(backend))


def trim() -> int:
    """Give back all memory that xferlib keeps for speed: pinned blocks, staging chunks, recycled results.

    Returns:
        Bytes given back to the system.
    """
    pooled = sum(pool.trim() for pool in pinned.pools.all())
    return pooled + staging_ring.trim() + slab.trim() + host.host_cache.trim()


def synchronize(device: DeviceSpec = None) -> None:
    """Block until all work on a device is done; the current device if omitted."""
    devices.get_device(device).synchronize()
