"""The arguments of a kernel call: arrays and their device, numbers and their conversion, tensors that torch follows."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import arrays, registry
from xferlib._core.arrays import UNWRITABLE, ArrayInfo, overlaps_itself
from xferlib._core.dtypes import SUPPORTED, float_limits, small_float
from xferlib.errors import KernelRangeError, KernelTypeError, LayoutError, quote
from xferlib.kernels import functions
from xferlib.kernels.ir import BOOL, DType, is_complex, is_float

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device

SCALARS = (bool, int, float, complex)


def is_scalar(value: Any) -> bool:
    """Whether a value is a Python number, or a NumPy scalar of a dtype that devices have."""
    return type(value) in SCALARS or (isinstance(value, np.generic) and value.dtype in SUPPORTED)


def is_array(value: Any) -> bool:
    """Whether a value is an array of some backend; NumPy's scalars are none here."""
    return registry.owner_of(value) is not None and not isinstance(value, np.generic)


def common_device(
    call: str, names: Sequence[str], given: Sequence[Any]
) -> tuple[Backend | None, Device | None, dict[int, ArrayInfo]]:
    """The one backend and device of the arrays among ``given``, and a view of each.

    Raises:
        UnsupportedArrayError: Neither an array nor a scalar.
        MixedBackendsError, MixedDevicesError: Arrays of two backends or devices.
    """
    backend: Backend | None = None
    first = 0
    infos: dict[int, ArrayInfo] = {}
    for number, value in enumerate(given):
        if value is None or is_scalar(value):
            continue
        if isinstance(value, np.generic):
            raise KernelTypeError(
                f"{call}: argument {names[number]!r} is a number of dtype {value.dtype}; devices have no dtype "
                f"{value.dtype}: convert it first, as with numpy.float64(x)"
            )
        found = registry.owner_of(value)
        if found is None:
            remedy = "give an array or a number" if isinstance(value, str) else registry.find_array_remedy(value)
            raise KernelTypeError(
                f"{call}: argument {names[number]!r} is {type(value).__name__}, neither an array of a backend nor a "
                f"Python number; {remedy}"
            )
        info = found.view(value)
        if backend is None:
            backend, first = found, number
        elif found is not backend:
            raise registry.make_mixed_backends_error(
                call, (f"argument {names[first]!r}", backend), (f"argument {names[number]!r}", found)
            )
        elif info.device is not infos[first].device:
            raise registry.make_mixed_devices_error(
                call, (f"argument {names[first]!r}", infos[first].device), (f"argument {names[number]!r}", info.device)
            )
        infos[number] = info
    return backend, infos[first].device if infos else None, infos


def convert_scalar(kernel: str, value: Any, dtype: DType, name: str) -> np.generic:
    """A scalar argument as ``dtype``.

    Raises:
        KernelTypeError: It is out of range, has a fraction, or is complex where that does not fit.
    """
    if isinstance(value, np.generic):
        if value.dtype == dtype:
            return value
        value = value.item()
    if isinstance(value, complex) and not is_complex(dtype):
        raise KernelTypeError(f"{kernel}(): argument {name!r} is complex and the parameter {dtype}; pass value.real")
    if dtype == BOOL:
        return np.bool_(bool(value))
    if dtype.kind in "iu":
        if isinstance(value, float):
            if not math.isfinite(value) or value != int(value):
                raise KernelTypeError(
                    f"{kernel}(): argument {name!r} is {quote(value)} and the parameter {dtype}; round it first"
                )
            value = int(value)
        if not functions.fits(int(value), dtype):
            raise KernelRangeError(
                f"{kernel}(): argument {name!r} is {quote(value)}, out of range for {dtype}; use a wider type"
            )
    elif isinstance(value, int) and is_float(dtype) and abs(value) > float_limits(dtype).max:
        raise KernelRangeError(
            f"{kernel}(): argument {name!r} is {quote(value)}, out of range for {dtype}; use a wider type"
        )
    with np.errstate(over="ignore"):
        converted: np.generic = dtype.type(value) if small_float(dtype) is None else arrays.number(value, dtype)
    return converted


def check_writable(call: str, name: str, info: ArrayInfo) -> None:
    if overlaps_itself(info.shape, info.strides, info.dtype.itemsize):
        raise LayoutError(
            f"{call}: elements of output {name!r} share memory, as of a broadcast array or of windows; pass a copy"
        )
    if not info.is_writable:
        raise LayoutError(f"{call}: output {name!r} {UNWRITABLE}")


HALF = "e"
_CODES = {
    np.dtype(name): code
    for name, code in {
        "bool": "?", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I",
        "int64": "q", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d",
    }.items()
}  # fmt: skip


def find_code(dtype: np.dtype[Any], value: Any) -> str | None:
    """The `struct` code that writes a number like this one with NumPy's bits; None if there is none."""
    if isinstance(value, np.generic):
        is_plain = value.dtype == dtype
    else:
        is_plain = type(value) is int if dtype.kind in "iu" else type(value) in (bool, int, float)
    return _CODES.get(dtype) if is_plain else None


# --- tensors that PyTorch tracks for a derivative; cheap where there is no torch


def _get_tracking_module() -> Any:
    """The module that asks torch which tensors it tracks; None where torch is not loaded."""
    if "torch" not in sys.modules:
        return None
    from xferlib.backends.torch import tensors as tracking

    return tracking


def needs_gradient(arguments: Sequence[Any]) -> bool:
    """Whether torch must record what is computed from ``arguments``."""
    torch = sys.modules.get("torch")
    if torch is None or not any(isinstance(each, torch.Tensor) for each in arguments):
        return False
    return bool(_get_tracking_module().list_followed(arguments))


def requires_gradient(arguments: Sequence[Any]) -> bool:
    """Whether an argument is a tensor that would need a gradient outside ``torch.no_grad()``."""
    torch = sys.modules.get("torch")
    return torch is not None and any(isinstance(each, torch.Tensor) and each.requires_grad for each in arguments)


def unwrap_transforms(arguments: Sequence[Any]) -> list[Any]:
    """The arguments with each tensor of a transform replaced by one that has memory, to choose a program by."""
    torch, tracking = sys.modules["torch"], _get_tracking_module()
    return [tracking.unwrap_transforms(each) if isinstance(each, torch.Tensor) else each for each in arguments]


def refuse_followed(name: str, arguments: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse tensors that torch tracks, for a kernel that has no derivative.

    Raises:
        KernelTypeError: One of them requires gradients, has a tangent, or is inside a transform.
    """
    torch = sys.modules.get("torch")
    if torch is None or not any(isinstance(each, torch.Tensor) for each in arguments):
        return
    for number in _get_tracking_module().list_followed(arguments):
        raise KernelTypeError(
            f"{name}(): torch follows argument {names[number]!r} for a derivative, and has none of CUDA source; pass "
            "x.detach(), call under torch.no_grad(), or write a torch.autograd.Function that calls the kernel"
        )
