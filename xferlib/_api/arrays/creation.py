"""Arrays made from nothing, from Python numbers and from other arrays, by the Array API's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from xferlib._api import transfers
from xferlib._api.arrays import dlpack, indexing
from xferlib._api.arrays.primitives import Primitives, checked_dtype
from xferlib._core import array as _array
from xferlib._core import convert, registry
from xferlib._core.array import Array
from xferlib._core.layout import integer_of, shape_of
from xferlib.errors import ArgumentError, UnsupportedArrayError

_FLOAT = np.dtype("float64")
Extents = int | tuple[int, ...]


def asarray(lib: Primitives, obj: Any, /, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array from Python numbers, nested lists, a NumPy array, an array, or another library's on the device."""
    if registry.backend_of(obj) is None and hasattr(obj, "__cuda_array_interface__"):
        found = dlpack.shared(lib, obj)
        obj = obj if found is None else found
    if not lib.is_array(obj):
        if copy is False:
            raise ValueError("copy=False: host memory cannot become device memory without a copy; leave copy out")
        wanted = checked_dtype(dtype)
        if registry.backend_of(obj) is None:
            host = _array.as_host_array(obj, what="obj")
            obj = host if wanted is None else convert.exactly(obj, host, wanted)
        return lib.upload(obj, device, wanted)
    place = lib.info(obj).device if device is None else lib.device(device)
    return lib.own(transfers.to_device(obj, device=place, dtype=checked_dtype(dtype), copy=copy))


def from_dlpack(lib: Primitives, x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array over the memory of another one on the device, of any library; a copy where they cannot share it.

    Args:
        lib: The library.
        x: An array of a backend, or any object with ``__dlpack__`` and ``__dlpack_device__``.
        device: The device of the result; that of ``x`` if omitted.
        copy: Whether to copy; if omitted, where need be.

    Raises:
        BufferError: ``copy=False``, and only a copy will do.
        UnsupportedArrayError: ``x`` is no such array, or of a dtype or on a device that the library does not have.
    """
    if registry.backend_of(x) is None and hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        x = dlpack.borrowed(lib, x, copy=copy)
    if copy is not True and device is None:
        found = lib.viewed(x, lib.shadow(x)) if lib.is_array(x) else dlpack.shared(lib, x)
        if found is not None:
            return found
    owner = registry.backend_of(x)
    if owner is None:
        raise UnsupportedArrayError(f"from_dlpack: {type(x).__name__} is not an array of any backend; use asarray(x)")
    place = owner.device_of(x)
    if copy is not True and device is None and place.kind != lib.device(None).kind:
        raise UnsupportedArrayError(
            f"from_dlpack: {type(x).__name__} is on {place}, whose memory {lib.backend.name} cannot share; move it: "
            "xferlib.to_device(x)"
        )
    if copy is False and not lib.is_array(x):
        raise BufferError(f"from_dlpack: copy=False, and {lib.backend.name} cannot share this memory; leave copy out")
    return asarray(lib, x, device=device, copy=copy)


def empty(lib: Primitives, shape: Extents, dtype: Any = None, *, device: Any = None) -> Array:
    """An uninitialised array."""
    return lib.empty(shape_of(shape), checked_dtype(dtype) or _FLOAT, lib.device(device))


def full(lib: Primitives, shape: Extents, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """An array of one value."""
    wanted = checked_dtype(dtype)
    if wanted is None:
        known = lib.info(fill_value).dtype if lib.is_array(fill_value) else np.asarray(fill_value).dtype
        wanted = _array.check_dtype(known, what="fill_value")
    out = empty(lib, shape, dtype=wanted, device=device)
    indexing.assign(lib, out, fill_value)
    return out


def zeros(lib: Primitives, shape: Extents, dtype: Any = None, *, device: Any = None) -> Array:
    """An array of zeros."""
    return full(lib, shape, 0, dtype=dtype or _FLOAT, device=device)


def ones(lib: Primitives, shape: Extents, dtype: Any = None, *, device: Any = None) -> Array:
    """An array of ones."""
    return full(lib, shape, 1, dtype=dtype or _FLOAT, device=device)


def empty_like(lib: Primitives, x: Array, /, dtype: Any = None, *, device: Any = None) -> Array:
    """An uninitialised array of the same shape."""
    info = lib.info(lib.array("empty_like", x))
    return empty(lib, info.shape, dtype=dtype or info.dtype, device=device or info.device)


def full_like(lib: Primitives, x: Array, /, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """One value in the same shape."""
    info = lib.info(lib.array("full_like", x))
    return full(lib, info.shape, fill_value, dtype=dtype or info.dtype, device=device or info.device)


def zeros_like(lib: Primitives, x: Array, /, dtype: Any = None, *, device: Any = None) -> Array:
    """Zeros of the same shape."""
    return full_like(lib, x, 0, dtype=dtype, device=device)


def ones_like(lib: Primitives, x: Array, /, dtype: Any = None, *, device: Any = None) -> Array:
    """Ones of the same shape."""
    return full_like(lib, x, 1, dtype=dtype, device=device)


def arange(
    lib: Primitives, start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Array:
    """Values from ``start`` to below ``stop``, ``step`` apart; computed by the host."""
    lib.refuse_arrays("arange", start=start, stop=stop, step=step)
    first, last = (0, start) if stop is None else (start, stop)
    if first is None or last is None:
        raise ArgumentError(f"arange: start={start} and stop={stop}; give numbers")
    if step == 0:
        raise ArgumentError("arange: step=0 makes a range without end; give another step")
    return lib.upload(np.arange(first, last, step, dtype=checked_dtype(dtype)), device)


def linspace(
    lib: Primitives, start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None,
    endpoint: bool = True,
) -> Array:  # fmt: skip
    """``num`` values from ``start`` to ``stop``, evenly apart; computed by the host."""
    lib.refuse_arrays("linspace", start=start, stop=stop, num=num)
    if (wanted := checked_dtype(dtype)) is not None:
        convert.check_conversion(np.result_type(start, stop, 0.0), wanted)
    shape_of(num, what="linspace: num")
    return lib.upload(np.linspace(start, stop, num, dtype=wanted, endpoint=endpoint), device)


def eye(
    lib: Primitives, n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: Any = None, *, device: Any = None
) -> Array:
    """Ones on a diagonal, zeros elsewhere; computed by the host."""
    shape, k = shape_of((n_rows, n_rows if n_cols is None else n_cols), what="eye: shape"), integer_of(k, what="eye: k")
    return lib.upload(np.eye(shape[0], shape[1], k, checked_dtype(dtype) or _FLOAT), device)
