"""Tensors from numbers: with NumPy's dtypes, on the device that a call names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import array_api_compat.torch as compat
import numpy as np
import torch
from torch import Tensor

from xferlib._core import convert, namespaces, registry
from xferlib._core.array import as_host_array
from xferlib._core.device import Device
from xferlib._core.layout import shape_of
from xferlib._runtime import config
from xferlib.backends.torch import namespace_dtypes as dtypes
from xferlib.backends.torch.namespace_dtypes import FROM_TORCH, SIGNED, torch_dtype
from xferlib.backends.torch.tensors import TO_TORCH
from xferlib.errors import ArgumentError, DeviceNotFoundError, shown

FLOAT = torch.float64
_DLPACK_CPU = 1


def by_default(dtype: torch.dtype = FLOAT) -> torch.dtype:
    """The dtype of new floats and complex numbers where none is given: NumPy's, or torch's own if so configured."""
    if config.get().torch_float == "float64" or dtype not in (FLOAT, torch.complex128):
        return dtype
    default = torch.get_default_dtype()
    return default if dtype is FLOAT else default.to_complex()


def _nowhere() -> torch.device | None:
    return None


current_place: Callable[[], torch.device | None] = _nowhere
"""The device of tensors that are made without one, None for torch's default; `TorchCuda` sets it."""


def _current_gpu(_pointer: int) -> torch.device:
    return torch.device("cuda")


place_at: Callable[[int], torch.device] = _current_gpu
"""The device of memory of a GPU, by its address; `TorchCuda` sets it."""


def place_of(device: Any) -> torch.device | None:
    """Torch's device of one of its names or objects, of xferlib's, or of xferlib's names; None: the current one.

    Raises:
        DeviceNotFoundError: Torch has no such device.
    """
    if device is None:
        return current_place()
    if isinstance(device, Device):
        device = "cpu" if device.kind == "cpu" else f"{device.kind}:{device.index}"
    if isinstance(device, str):
        device = device.removeprefix("torch:")
    try:
        return torch.device(device)
    except (RuntimeError, TypeError):
        pass
    raise DeviceNotFoundError(f"device={shown(device)} is no device of torch here; give 'cpu', 'cuda:0' or x.device")


def tensor_of(name: str, x: Any) -> Tensor:
    """An argument of function ``name`` as a tensor; numbers become tensors on the current device.

    Raises:
        MixedBackendsError, UnsupportedArrayError: It is neither.
    """
    if isinstance(x, Tensor):
        return x
    dtypes.kind_of(name, x)
    return asarray(x)


def _filled(name: str) -> Callable[..., Tensor]:
    compute = getattr(torch, name)

    def operate(shape: Any, dtype: Any = None, *, device: Any = None, **options: Any) -> Tensor:
        wanted = by_default() if dtype is None else torch_dtype(dtype)
        place = place_of(device)
        try:
            found: Tensor = compute(shape, dtype=wanted, device=place, **options)
        except (RuntimeError, TypeError):
            found = compute(shape_of(shape), dtype=wanted, device=place, **options)  # which refuses what is no shape
        return found

    return operate


def _like(name: str) -> Callable[..., Tensor]:
    compute = getattr(torch, name)

    def operate(x: Tensor, /, dtype: Any = None, *, device: Any = None, **options: Any) -> Tensor:
        place = x.device if device is None else place_of(device)
        found: Tensor = compute(x, dtype=torch_dtype(dtype), device=place, **options)
        return found

    return operate


FILLED: dict[str, Callable[..., Tensor]] = {
    **{name: _filled(name) for name in ("empty", "zeros", "ones")},
    **{name: _like(name) for name in ("empty_like", "zeros_like", "ones_like")},
}


def full(shape: int | tuple[int, ...], fill_value: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of one value; of the value's dtype if ``dtype`` is omitted."""
    extents = (
        shape
        if isinstance(shape, tuple) and all(type(each) is int and each >= 0 for each in shape)
        else shape_of(shape)
    )
    wanted = torch_dtype(dtype)
    if isinstance(fill_value, Tensor):
        place = fill_value.device if device is None else place_of(device)
        value = fill_value.to(place, wanted or fill_value.dtype)
        dtypes.shape_together("full", extents, value.shape, is_first=True)
        return value.expand(extents).clone(memory_format=torch.contiguous_format)
    if wanted is None:
        kind = dtypes.kind_of("full", fill_value)
        wanted = by_default(dtypes.promoted(kind)) if isinstance(kind, type) else dtypes.promoted(kind)
    if isinstance(fill_value, np.generic):
        fill_value = fill_value.item()
    if isinstance(fill_value, int) and not isinstance(fill_value, bool) and wanted in dtypes.RANGES:
        dtypes.check_fits(fill_value, wanted)
    place = place_of(device)
    try:
        return torch.full(extents, fill_value, dtype=wanted, device=place)
    except (RuntimeError, TypeError, OverflowError):  # of numbers that torch does not convert, such as 1 << 63
        if wanted not in FROM_TORCH:
            raise
    value = convert.number(fill_value, FROM_TORCH[wanted])  # or NumPy's error, of what the dtype does not hold
    return dtypes.as_tensor(value, wanted, torch.device(place or "cpu")).expand(extents).clone()


def full_like(x: Tensor, /, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """One value in the shape of another tensor."""
    return full(tuple(x.shape), fill_value, dtype=dtype or x.dtype, device=x.device if device is None else device)


def eye(n_rows: int, n_cols: int | None = None, /, k: int = 0, dtype: Any = None, *, device: Any = None) -> Tensor:
    """Ones on a diagonal, zeros elsewhere."""
    wanted: torch.dtype = torch_dtype(dtype) or by_default()
    n_rows, n_cols = shape_of((n_rows, n_rows if n_cols is None else n_cols), what="eye: shape")
    found: Tensor = compat.eye(n_rows, n_cols, k=k, dtype=SIGNED.get(wanted, wanted), device=place_of(device))
    return found.view(wanted)


def asarray(obj: Any, /, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor from numbers, nested lists, a NumPy array, a tensor, or another library's array on a device.

    ``copy=None`` shares memory where torch can, which it cannot with NumPy's read-only arrays, negative strides and
    other byte orders.

    Raises:
        ArgumentError: ``copy=False``, and the memory cannot be shared.
    """
    wanted = torch_dtype(dtype)
    if isinstance(obj, Tensor):
        place = obj.device if device is None else place_of(device)
        return torch.asarray(obj, dtype=wanted, device=place, copy=copy)
    if isinstance(obj, (list, tuple)) and any(isinstance(each, Tensor) for each in obj):
        _check_shared(obj, copy, is_shared=False)
        place = next(each.device for each in obj if isinstance(each, Tensor)) if device is None else place_of(device)
        parts = [asarray(each, wanted, device=place) for each in obj]
        common = wanted or dtypes.result_type(*parts)
        return torch.stack([each.to(common) for each in parts])
    if not isinstance(obj, (np.ndarray, np.generic)) and hasattr(obj, "__dlpack__"):
        return torch.asarray(_ascending(obj, copy), dtype=wanted, device=place_of(device), copy=copy)
    if hasattr(obj, "__cuda_array_interface__") and torch.cuda.is_available():
        return asarray(_described(obj), dtype=dtype, device=device, copy=copy)
    host = as_host_array(obj, what="obj")
    if wanted in FROM_TORCH:
        host = convert.exactly(obj, host, FROM_TORCH[wanted])
        if host.dtype.kind == "f" and FROM_TORCH[wanted].kind in "iu":  # torch gives whatever the processor does
            _check_shared(obj, copy, is_shared=False)
            whole = np.empty(host.shape, FROM_TORCH[wanted])
            convert.copy_into(whole, host)
            host = whole
    if wanted is None and not isinstance(obj, (np.ndarray, np.generic)):
        wanted = by_default(TO_TORCH[host.dtype.newbyteorder("=")])
    can_share = host.flags.writeable and host.dtype.isnative and all(step >= 0 for step in host.strides)
    _check_shared(obj, copy, is_shared=host is obj and can_share)
    if not can_share:
        host = np.array(host, host.dtype.newbyteorder("="), order="C")
    shared = torch.from_numpy(host.view(host.dtype.name))  # of two types of 64 bits torch knows one
    return torch.asarray(shared, dtype=wanted, device=place_of(device), copy=copy if host is obj else None)


def _described(obj: Any) -> Tensor:
    """A tensor over memory that CUDA's array interface describes; the current stream waits for the object's."""
    described = obj.__cuda_array_interface__
    # On another device torch would copy it, before the wait.
    found = torch.as_tensor(obj, device=place_at(int(described["data"][0])))
    handle = described.get("stream")
    if handle is not None:
        is_legacy = int(handle) == 1
        theirs = (
            torch.cuda.default_stream(found.device)
            if is_legacy
            else torch.cuda.ExternalStream(int(handle), device=found.device)
        )
        torch.cuda.current_stream(found.device).wait_stream(theirs)
    return found


def _check_shared(obj: Any, copy: bool | None, *, is_shared: bool) -> None:
    if copy is False and not is_shared:
        raise ArgumentError(f"copy=False: no tensor can share the memory of this {type(obj).__name__}; leave copy out")


def _ascending(x: Any, copy: bool | None) -> Any:
    """An array of another library, copied if a stride is negative: torch ends the process at such memory.

    Host memory that no backend knows is given as NumPy's array: some objects hand their capsule out only once.
    """
    owner = registry.backend_of(x)
    array: Any = x if owner is not None else _in_host_memory(x)
    strides = () if array is None else array.strides if owner is None else owner.view(array).strides
    if all(step >= 0 for step in strides):
        return x if array is None else array
    if copy is False:
        raise BufferError("copy=False: torch cannot share memory of negative strides; leave copy out")
    return array.copy()


def _in_host_memory(x: Any) -> np.ndarray[Any, Any] | None:
    """NumPy's array over the memory of an object; None where it is a device's, or of a dtype that NumPy has not."""
    if not hasattr(x, "__dlpack_device__") or x.__dlpack_device__()[0] != _DLPACK_CPU:
        return None
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError):
        return None  # torch may take it, or says why not


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's array; a copy where torch cannot share it.

    Without ``device`` it stays where it is: one of NumPy's is on the CPU, even where the current device is a GPU.

    Raises:
        BufferError: ``copy=False``, and only a copy will do.
    """
    if isinstance(x, np.ndarray):
        try:
            return asarray(x, device="cpu" if device is None else device, copy=copy)
        except ArgumentError as error:
            raise BufferError(str(error)) from None
    found = torch.from_dlpack(_ascending(x, copy))
    return asarray(found, device=device, copy=copy) if copy or device is not None else found


def astype(x: Tensor, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """Convert the elements to another dtype."""
    place = x.device if device is None else place_of(device)
    wanted = torch_dtype(np.dtype(None) if dtype is None else dtype)
    if x.is_complex() and wanted in FROM_TORCH:
        convert.check_conversion(FROM_TORCH[x.dtype], FROM_TORCH[wanted])
    return x.to(place, wanted, copy=copy)


# --- elements that torch moves


def where(condition: Tensor, x1: Any = None, x2: Any = None, /) -> Any:
    """``x1`` where ``condition`` holds, else ``x2``; the indices where it holds, if it is given alone."""
    if x1 is None and x2 is None:
        return compat.nonzero(tensor_of("where", condition).to(torch.bool))
    if isinstance(x1, Tensor) and isinstance(x2, Tensor) and x1.dtype is x2.dtype and x1.dtype not in SIGNED:
        found: Tensor = dtypes.checked("where", torch.where, condition.to(torch.bool), x1, x2)
        return found
    device = dtypes.device_of("where", condition, x1, x2)
    if dtypes.is_foreign(x1) or dtypes.is_foreign(x2):
        own: Tensor = compat.where(condition, x1, x2)
        return own
    kinds = [dtypes.kind_of("where", each) for each in (x1, x2)]
    wanted = dtypes.promoted(*kinds)
    for each, kind in zip((x1, x2), kinds, strict=True):
        if kind is int and wanted in dtypes.RANGES:
            dtypes.check_fits(each, wanted)
    dtypes.shape_together("where", *[each.shape for each in (condition, x1, x2) if isinstance(each, Tensor)])
    first, second = (moved(dtypes.as_tensor(each, wanted, device)) for each in (x1, x2))
    return back(torch.where(condition.to(torch.bool), first, second), wanted)


def moved(x: Tensor) -> Tensor:
    """A tensor that torch moves on every device: unsigned integers by their bits."""
    return x.view(SIGNED[x.dtype]) if x.dtype in SIGNED else x


def back(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.view(dtype) if dtype in SIGNED else x


def moving(name: str, library: Any = compat, module: str = __name__) -> Callable[..., Tensor]:
    """A function of a library that moves elements without a look at them."""
    compute = getattr(library, name)

    @functools.wraps(compute)
    def operate(x: Tensor, /, *args: Any, **options: Any) -> Tensor:
        found: Tensor
        if isinstance(x, Tensor) and x.dtype in SIGNED:
            found = back(compute(moved(x), *args, **options), x.dtype)
        else:
            found = compute(x, *args, **options)
        return found

    return namespaces.named(operate, name, module)
