"""Arrays made from nothing, from Python numbers and from other arrays, by the Array API's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from xferlib._api import creation, transfers
from xferlib._core import array as _array
from xferlib._core import devices, registry
from xferlib.errors import UnsupportedArrayError
from xferlib.sim.arrays import launching
from xferlib.sim.arrays.array import SimArray
from xferlib.sim.machine.current import simulator

_FLOAT = np.dtype("float64")


def _place(device: Any) -> Any:
    if device is None:
        return simulator().device_current()
    return devices.resolve(device, backend=registry.get("sim"))


def _uploaded(host: Any, device: Any, dtype: Any = None) -> SimArray:
    array: SimArray = transfers.to_device(host, backend="sim", device=device, dtype=dtype)
    return array


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> SimArray:
    """An array from Python numbers, nested lists, a NumPy array or an array."""
    if not isinstance(obj, SimArray):
        if copy is False:
            raise ValueError("copy=False: host memory cannot become device memory without a copy; leave copy out")
        return _uploaded(_array.as_host_array(obj, what="obj"), device, dtype)
    array: SimArray = transfers.to_device(
        obj, device=device if device is not None else obj.device, dtype=dtype, copy=copy
    )
    return array


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> SimArray:
    """An array over the memory of another one of a simulated device."""
    if not isinstance(x, SimArray):
        raise UnsupportedArrayError(
            f"{type(x).__name__} is in memory that a simulated device cannot share; move it: xferlib.to_device(x)"
        )
    return asarray(x, device=device, copy=copy) if copy or device is not None else SimArray(x.allocation, x.info)


def empty(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> SimArray:
    """An uninitialised array."""
    return launching.new(creation.shape_of(shape), np.dtype(dtype or _FLOAT), _place(device))


def full(shape: int | tuple[int, ...], fill_value: Any, *, dtype: Any = None, device: Any = None) -> SimArray:
    """An array of one value."""
    out = empty(shape, dtype=np.asarray(fill_value).dtype if dtype is None else dtype, device=device)
    into = out.memory()
    launching.launch("fill", lambda: into.fill(fill_value), [], [out])
    return out


def zeros(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> SimArray:
    """An array of zeros."""
    return full(shape, 0, dtype=dtype or _FLOAT, device=device)


def ones(shape: int | tuple[int, ...], *, dtype: Any = None, device: Any = None) -> SimArray:
    """An array of ones."""
    return full(shape, 1, dtype=dtype or _FLOAT, device=device)


def empty_like(x: SimArray, /, *, dtype: Any = None, device: Any = None) -> SimArray:
    """An uninitialised array of the same shape."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def zeros_like(x: SimArray, /, *, dtype: Any = None, device: Any = None) -> SimArray:
    """Zeros of the same shape."""
    return full(x.shape, 0, dtype=dtype or x.dtype, device=device or x.device)


def ones_like(x: SimArray, /, *, dtype: Any = None, device: Any = None) -> SimArray:
    """Ones of the same shape."""
    return full(x.shape, 1, dtype=dtype or x.dtype, device=device or x.device)


def full_like(x: SimArray, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> SimArray:
    """One value in the same shape."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> SimArray:  # fmt: skip
    """Values from ``start`` to below ``stop``, ``step`` apart; computed by the host."""
    host = np.arange(start, step=step, dtype=dtype) if stop is None else np.arange(start, stop, step, dtype=dtype)
    return _uploaded(host, device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> SimArray:  # fmt: skip
    """``num`` values from ``start`` to ``stop``, evenly apart; computed by the host."""
    return _uploaded(np.linspace(start, stop, num, dtype=dtype, endpoint=endpoint), device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> SimArray:
    """Ones on a diagonal, zeros elsewhere; computed by the host."""
    return _uploaded(np.eye(n_rows, n_cols, k, dtype or _FLOAT), device)
