"""Checks the arguments of a kernel call: arrays and their device, scalars and their conversion."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._core import mixing, registry
from xferlib._core.array import DTYPES, SUPPORTED, UNWRITABLE, ArrayInfo, check_dtype
from xferlib._core.layout import overlaps_itself, share_bytes
from xferlib._core.pending import RESULT_REMEDY, PendingTransfer
from xferlib.errors import KernelRangeError, KernelTypeError, LayoutError, UnsupportedArrayError
from xferlib.kernels.ir import types
from xferlib.kernels.ir.nodes import BOOL, DType, is_complex, is_float

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device

SCALARS = (bool, int, float, complex)


class Reader(NamedTuple):
    """Reads the arguments of one type at each call, by `Backend.signature`, `operands` and `matcher`.

    Where ``operands`` is None, the call takes the argument itself; a scalar has no ``matcher``.
    """

    signature: Callable[[Any], Hashable]
    operands: Callable[[Sequence[Any]], list[Any]] | None = None
    matcher: Callable[[Sequence[Any]], Callable[..., bool]] | None = None


_READERS: dict[type, Reader] = {
    **dict.fromkeys(SCALARS, Reader(type)),
    **dict.fromkeys((np.dtype(name).type for name in DTYPES), Reader(attrgetter("dtype"))),
}


def reader(value: Any) -> Reader:
    """The reader for arguments of the type of ``value``.

    Raises:
        KernelTypeError: It is neither an array nor a scalar.
    """
    kind = type(value)
    found = _READERS.get(kind)
    if found is None:
        backend = registry.backend_of(value)
        if backend is None:
            raise KernelTypeError(f"{kind.__name__} is neither an array nor a number")
        operands = None if kind is np.ndarray else backend.operands
        found = _READERS[kind] = Reader(backend.signature, operands, backend.matcher)
    return found


def is_scalar(value: Any) -> bool:
    """Whether a value is a Python number, or a NumPy scalar of a dtype that devices have."""
    return type(value) in SCALARS or (isinstance(value, np.generic) and value.dtype in SUPPORTED)


def is_array(value: Any) -> bool:
    """Whether a value is an array of some backend; NumPy's scalars are none here."""
    return registry.backend_of(value) is not None and not isinstance(value, np.generic)


def common_device(
    call: str, names: Sequence[str], arguments: Sequence[Any]
) -> tuple[Backend | None, Device | None, dict[int, ArrayInfo]]:
    """The one backend and device of the arrays among ``arguments``, and a view of each.

    Raises:
        UnsupportedArrayError: Neither an array nor a scalar.
        MixedBackendsError, MixedDevicesError: Arrays of two backends or devices.
    """
    backend: Backend | None = None
    first = 0
    infos: dict[int, ArrayInfo] = {}
    for number, value in enumerate(arguments):
        if value is None or is_scalar(value):
            continue
        if isinstance(value, np.generic):
            raise KernelTypeError(
                f"{call}: argument {names[number]!r} is a number of dtype {value.dtype}; devices have no dtype "
                f"{value.dtype}: convert it first, as with numpy.float64(x)"
            )
        found = registry.backend_of(value)
        if found is None:
            remedy = "pass it through xferlib.to_device() first"
            if isinstance(value, PendingTransfer):
                remedy = RESULT_REMEDY
            elif isinstance(value, str):
                remedy = "give an array or a number"
            raise KernelTypeError(
                f"{call}: argument {names[number]!r} is {type(value).__name__}, neither an array of a backend nor a "
                f"Python number; {remedy}"
            )
        info = found.view(value)
        if backend is None:
            backend, first = found, number
        elif found is not backend:
            raise mixing.mixed_backends(
                call, (f"argument {names[first]!r}", backend), (f"argument {names[number]!r}", found)
            )
        elif info.device is not infos[first].device:
            raise mixing.mixed_devices(
                call, (f"argument {names[first]!r}", infos[first].device), (f"argument {names[number]!r}", info.device)
            )
        infos[number] = info
    return backend, infos[first].device if infos else None, infos


def resolve(owner: Backend, given: list[Any], infos: dict[int, ArrayInfo]) -> list[int]:
    """Put arrays with their elements in memory in the positions of lazy ones, and return these positions.

    A conjugated tensor of torch is one: a flag on the tensor, of which its memory knows nothing.
    """
    lazy = [number for number in infos if owner.is_lazy(given[number])]
    for number in lazy:
        given[number] = owner.resolved(given[number])
        # What a kernel wrote to the copy would be lost.
        infos[number] = owner.view(given[number])._replace(is_writable=False)
    return lazy


def refuse_freed(call: str, infos: Iterable[ArrayInfo], pointers: Sequence[int]) -> None:
    """Refuse arrays without memory that are not empty.

    Raises:
        UnsupportedArrayError: torch frees the memory of a tensor that it will fill again, such as a sharded parameter.
    """
    if any(not pointer and info.size for info, pointer in zip(infos, pointers, strict=True)):
        raise UnsupportedArrayError(
            f"{call}(): an argument's memory was freed, as that of sharded parameters is outside of their layer; "
            "gather it first"
        )


def convert_scalar(value: Any, dtype: DType, name: str) -> np.generic:
    """A scalar argument as ``dtype``.

    Raises:
        KernelTypeError: It is out of range, has a fraction, or is complex where that does not fit.
    """
    if isinstance(value, np.generic):
        if value.dtype == dtype:
            return value
        value = value.item()
    if isinstance(value, complex) and not is_complex(dtype):
        raise KernelTypeError(f"argument {name!r} is complex and the parameter {dtype}; pass value.real")
    if dtype == BOOL:
        return np.bool_(bool(value))
    if dtype.kind in "iu":
        if isinstance(value, float):
            if not math.isfinite(value) or value != int(value):
                raise KernelTypeError(f"argument {name!r} is {value!r} and the parameter {dtype}; round it first")
            value = int(value)
        if not types.fits(int(value), dtype):
            raise KernelRangeError(f"argument {name!r} is {value!r}, out of range for {dtype}; use a wider type")
    elif isinstance(value, int) and is_float(dtype) and abs(value) > float(np.finfo(dtype).max):
        raise KernelRangeError(f"argument {name!r} is {value!r}, out of range for {dtype}; use a wider type")
    with np.errstate(over="ignore"):
        converted: np.generic = dtype.type(value)
    return converted


def scalar_converter(kind: type, dtype: DType, name: str) -> Callable[[Any], np.ndarray[Any, Any]]:
    """Make a function that converts scalars of one type to zero-dimensional arrays of ``dtype``, with all checks.

    Args:
        kind: The type of the scalars.
        dtype: The dtype of the result.
        name: The parameter's.
    """

    def checked(value: Any) -> np.ndarray[Any, Any]:
        return np.array(convert_scalar(value, dtype, name))

    if issubclass(kind, np.generic):
        return np.array if np.dtype(kind) == dtype else checked
    bounds = _plain_bounds(kind, dtype)
    if bounds is None:
        return checked
    low, high = bounds
    return lambda value: np.array(value, dtype) if low <= value <= high else checked(value)


def _plain_bounds(kind: type, dtype: DType) -> tuple[float, float] | None:
    """The range in which NumPy converts without an error, a warning or double rounding; None if there is none."""
    if kind is int and dtype.kind in "iu":
        info = np.iinfo(dtype)
        return int(info.min), int(info.max)
    if not is_float(dtype) or kind not in (int, float):
        return None
    most = float(np.finfo(dtype).max)
    return (-most, most) if kind is float else (-min(most, 2.0**53), min(most, 2.0**53))


def check_output(call: str, name: str, info: ArrayInfo, shape: tuple[int, ...], dtype: DType) -> None:
    """Refuse an output that cannot take the result.

    Raises:
        LayoutError: Shape, dtype or writability.
    """
    if info.shape != shape:
        raise LayoutError(
            f"{call}: output {name!r} has shape {info.shape}, and the result {shape}; give one of that shape"
        )
    if info.dtype != dtype:
        raise LayoutError(
            f"{call}: output {name!r} has dtype {info.dtype}, and the result {dtype}; give one of that dtype"
        )
    check_writable(call, name, info)


def check_writable(call: str, name: str, info: ArrayInfo) -> None:
    if overlaps_itself(info.shape, info.strides, info.dtype.itemsize):
        raise LayoutError(
            f"{call}: elements of output {name!r} share memory, as of a broadcast array or of windows; pass a copy"
        )
    if not info.is_writable:
        raise LayoutError(f"{call}: output {name!r} {UNWRITABLE}")


def is_same_memory(one: ArrayInfo, two: ArrayInfo) -> bool:
    return (
        one.pointer == two.pointer
        and one.shape == two.shape
        and one.strides == two.strides
        and one.dtype.itemsize == two.dtype.itemsize
    )


def check_aliasing(call: str, names: Sequence[str], infos: dict[int, ArrayInfo], writes: frozenset[int],
                  raw: frozenset[int]) -> bool:  # fmt: skip
    """Whether an output is exactly an input's memory, which is allowed.

    Raises:
        KernelTypeError: An output overlaps another array in part, or one that is indexed freely.
    """
    is_aliased = False
    for written in sorted(writes):
        one = infos[written]
        for number, two in infos.items():
            if number == written or (number in writes and number < written):
                continue
            if not share_bytes(_memory(one), _memory(two)):
                continue
            if number in writes or written in raw or number in raw or not is_same_memory(one, two):
                raise KernelTypeError(
                    f"{call}: output {names[written]!r} overlaps argument {names[number]!r} "
                    f"{'in part' if not is_same_memory(one, two) else 'entirely'}, so that the result would depend on "
                    "the order of the elements; pass a copy"
                )
            is_aliased = True
    return is_aliased


def _memory(info: ArrayInfo) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
    return info.pointer, info.shape, info.strides, info.dtype.itemsize


def native_dtype(dtype: DType, name: str) -> DType:
    """The dtype in native byte order; an error for one that no device holds."""
    return check_dtype(dtype, what=f"argument {name!r}")
