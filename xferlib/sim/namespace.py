"""The Array-API namespace of the simulated devices: every function is an operation on a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xferlib import _api, _array, _create, _device, _registry
from xferlib.errors import UnsupportedArrayError
from xferlib.sim import elementwise as _elementwise
from xferlib.sim import kernels as _kernels
from xferlib.sim.arrays import SimArray
from xferlib.sim.current import simulator as _simulator

__array_api_version__ = "2024.12"

bool = np.dtype("bool")  # noqa: A001 - the Array API's name
int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{bits}") for bits in (16, 32, 64))
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")
pi, e, inf, nan, newaxis = np.pi, np.e, np.inf, np.nan, None

for _name in _elementwise.UNARY:
    globals()[_name] = _elementwise.unary(_name)
for _name in _elementwise.BINARY:
    globals()[_name] = _elementwise.binary(_name)
for _name in _elementwise.REDUCTIONS:
    globals()[_name] = _elementwise.reduction(_name)
clip, where = _elementwise.clip, _elementwise.where


# --- making arrays


def _place(device: Any) -> Any:
    return _device.resolve(device, backend=_registry.get("sim")) if device is not None else _current()


def _current() -> Any:
    return _simulator().device_current()


def _uploaded(host: Any, device: Any, dtype: Any = None) -> SimArray:
    array: SimArray = _api.to_device(host, backend="sim", device=device, dtype=dtype)
    return array


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> SimArray:
    """An array from Python numbers, nested lists, a NumPy array or an array."""
    if not isinstance(obj, SimArray):
        return _uploaded(_array.as_host_array(obj, what="obj"), device, dtype)
    array: SimArray = _api.to_device(obj, device=device if device is not None else obj.device, dtype=dtype, copy=copy)
    return array


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> SimArray:
    """An array over the memory of another one of a simulated device."""
    if not isinstance(x, SimArray):
        raise UnsupportedArrayError(
            f"{type(x).__name__} is in memory that a simulated device cannot share; move it: xferlib.to_device(x)"
        )
    return asarray(x, device=device, copy=copy) if copy or device is not None else SimArray(x.allocation, x.info)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> SimArray:
    """An uninitialised array."""
    return _kernels.new(_create.shape_of(shape), np.dtype(dtype or float64), _place(device))


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> SimArray:
    """An array of one value."""
    out = empty(shape, dtype=np.asarray(fill_value).dtype if dtype is None else dtype, device=device)
    into = out.memory()
    _kernels.launch("fill", lambda: into.fill(fill_value), [], [out])
    return out


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> SimArray:
    """An array of zeros."""
    return full(shape, 0, dtype=dtype or float64, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> SimArray:
    """An array of ones."""
    return full(shape, 1, dtype=dtype or float64, device=device)


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


def _created(name: str) -> Any:
    function = getattr(np, name)

    def create(*args: Any, dtype: Any = None, device: Any = None, **options: Any) -> SimArray:
        return _uploaded(function(*args, dtype=dtype, **options), device)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = f"``{name}`` of the Array API: computed by the host and uploaded."
    return create


arange, linspace, eye = _created("arange"), _created("linspace"), _created("eye")


# --- other views of the same memory


def _view(name: str) -> Any:
    function = getattr(np, name)

    def view(x: SimArray, /, *args: Any, **options: Any) -> SimArray:
        return _kernels.viewed(x, function(x.memory(), *args, **options))

    view.__name__ = view.__qualname__ = name
    view.__doc__ = f"``{name}`` of the Array API, as a view."
    return view


for _name in ("permute_dims", "matrix_transpose", "expand_dims", "squeeze", "flip", "moveaxis", "broadcast_to"):
    globals()[_name] = _view(_name)


def broadcast_arrays(*arrays: SimArray) -> list[SimArray]:
    """Views of one common shape."""
    shape = np.broadcast_shapes(*(each.shape for each in arrays))
    return [globals()["broadcast_to"](each, shape) for each in arrays]


def reshape(x: SimArray, /, shape: Any, *, copy: Any = None) -> SimArray:
    """The elements in another shape: a view where strides allow."""
    try:
        view = np.reshape(x.memory(), shape, copy=False)
    except ValueError:
        if copy is False:
            raise
        flat = _kernels.contiguous(x) if not x.info.is_c_contiguous else x
        return _kernels.viewed(flat, np.reshape(flat.memory(), shape, copy=False))
    found = _kernels.viewed(x, view)
    return _kernels.deferred("copy", lambda a: a, [found], found.shape, found.dtype) if copy else found


def astype(x: SimArray, dtype: Any, /, *, copy: Any = True, device: Any = None) -> SimArray:
    """The elements as another dtype."""
    wanted = _array.check_dtype(dtype, what="dtype")
    if wanted == x.dtype and not copy and device is None:
        return x
    found = _kernels.deferred("astype", lambda a: a.astype(wanted), [x], x.shape, wanted)
    return asarray(found, device=device) if device is not None else found


# --- whole-array functions


def _filled(arg: Any, found: Iterator[Any]) -> Any:
    """An argument with its arrays replaced by their values, also inside a list of arrays."""
    if isinstance(arg, (list, tuple)):
        return type(arg)(_filled(each, found) for each in arg)
    return next(found) if isinstance(arg, SimArray) else arg


def _called(name: str, *, waits: Any = False) -> Any:
    function = getattr(np, name)

    def call(*args: Any, **options: Any) -> Any:
        arrays = [each for arg in args for each in (arg if isinstance(arg, (list, tuple)) else (arg,))
                  if isinstance(each, SimArray)]  # fmt: skip
        if options.get("axis", 0) is None:
            options = {**options, "axis": None}

        def run(*values: Any) -> Any:
            found = iter(values)
            result = function(*(_filled(arg, found) for arg in args), **options)
            return tuple(result) if isinstance(result, (tuple, list)) else result

        result = _kernels.immediate(name, run, arrays, waits=waits)
        return list(result) if name in ("meshgrid", "unstack") and isinstance(result, tuple) else result

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``{name}`` of the Array API, on the current stream."
    return call


for _name in (
    "argsort", "concat", "cumulative_prod", "cumulative_sum", "diff", "matmul", "meshgrid", "repeat", "roll",
    "searchsorted", "sort", "stack", "take", "take_along_axis", "tensordot", "tile", "tril", "triu", "unstack",
    "vecdot",
):  # fmt: skip
    globals()[_name] = _called(_name)
for _name in ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"):
    globals()[_name] = _called(_name, waits=True)


# --- dtypes

can_cast, isdtype, finfo, iinfo = np.can_cast, np.isdtype, np.finfo, np.iinfo


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype that an operation on these would have."""
    values = (np.empty(0, each.dtype) if isinstance(each, SimArray) else each for each in arrays_and_dtypes)
    return np.result_type(*values)


_NOT_OURS = {"annotations", "Any", "Iterator", "np"}
__all__ = [name for name in sorted(globals()) if not name.startswith("_") and name not in _NOT_OURS]
