"""Checks the arguments of a raw kernel's launch: extents, shared memory, and the value of each parameter."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._runtime.checks import has
from xferlib.errors import KernelTypeError, LayoutError, shown
from xferlib.kernels.calls import arguments as checks

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.device import Device
    from xferlib.kernels.frontends.raw.signature import RawParameter

_MOST_THREADS = 1024
_MOST_THREADS_Z = 64
_MOST_SHARED_NBYTES = 227 << 10
"""The most dynamic shared memory of a block on any GPU; on a GPU, its driver checks the exact limit."""

_MOST_STRUCT_NBYTES = 32764
"""All parameters of a kernel, on any GPU."""


def passed(kernel: str, parameter: RawParameter, value: Any, info: ArrayInfo | None) -> np.generic:
    """The value passed to the kernel: an address of 64 bits, or a number of the declared type.

    Raises:
        KernelTypeError: It is of another type than the parameter.
        LayoutError: An array that is not in C order, not aligned to its elements, or written and read-only.
    """
    if parameter.is_struct:
        return _struct(kernel, parameter, value)
    if not parameter.is_pointer:
        if info is not None:
            raise KernelTypeError(
                f"{kernel}(): argument {parameter.name!r} is an array, and the parameter a number; "
                "pass xferlib.to_host(x).item() or declare a pointer"
            )
        assert parameter.dtype is not None
        try:
            return checks.convert_scalar(value, parameter.dtype, parameter.name)
        except KernelTypeError:
            raise
        except TypeError:  # what NumPy makes no number of
            raise KernelTypeError(
                f"{kernel}(): argument {parameter.name!r} is {type(value).__name__}, and the parameter a number; "
                "pass one"
            ) from None
    if info is None:
        return _address(kernel, parameter, value)
    if parameter.dtype is not None and info.dtype != parameter.dtype:
        raise KernelTypeError(
            f"{kernel}(): argument {parameter.name!r} has dtype {info.dtype}, and the parameter points to "
            f"{parameter.dtype}; convert it first"
        )
    if not info.is_c_contiguous and info.size:
        raise LayoutError(
            f"{kernel}(): argument {parameter.name!r} has shape {info.shape} and byte strides {info.strides}, and a "
            "pointer knows no strides; pass a copy in C order, or x.T where that is one, or the whole array and where "
            "to begin"
        )
    if info.pointer % info.dtype.itemsize:
        raise LayoutError(
            f"{kernel}(): argument {parameter.name!r} begins at address {info.pointer:#x}, which is no multiple of the "
            f"{info.dtype.itemsize} bytes of {info.dtype}, so that a GPU cannot read it as one; pass a copy"
        )
    if not parameter.is_const:
        checks.check_writable(kernel, parameter.name, info)
    return np.uint64(info.pointer)


def _address(kernel: str, parameter: RawParameter, value: Any) -> np.generic:
    """A pointer given as such: an int, None for a null pointer, or an allocation of a library, which ``int`` takes."""
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    is_handle = not checks.is_scalar(value) and not isinstance(value, (np.generic, type)) and has(value, "__int__")
    if value is None:
        return np.uint64(0)
    try:
        address = int(value) if is_number or is_handle else -1
    except Exception:  # a stranger's object may raise anything
        address = -1
    if not 0 <= address < 1 << 64:
        what = shown(value) if is_number else type(value).__name__
        raise KernelTypeError(
            f"{kernel}(): argument {parameter.name!r} is {what}, and the parameter a pointer; pass an "
            "array, or an address as an int"
        )
    return np.uint64(address)


def _struct(kernel: str, parameter: RawParameter, value: Any) -> np.generic:
    """A struct from a NumPy record (or an array of one), a dict by its members, or as many values as it has members."""
    dtype = parameter.dtype
    assert dtype is not None
    names = dtype.names or ()
    given = value.dtype if has(value, "dtype") else None
    record = np.zeros((), dtype)
    if isinstance(value, (np.ndarray, np.void)) and value.size == 1 and _has_layout(value.dtype, dtype):
        nbytes = min(value.dtype.itemsize, dtype.itemsize)  # one of them may have more bytes behind its members
        record.reshape(1).view(np.uint8)[:nbytes] = np.frombuffer(value.tobytes(), np.uint8, nbytes)
        return _scalar(record)
    if isinstance(value, dict):
        fits = value.keys() == set(names)
        members = tuple(value[name] for name in names) if fits else ()
    elif isinstance(given, np.dtype) and given.names is not None:
        fits = given.names == names and getattr(value, "size", 1) == 1
        members = tuple(value[name].reshape(given[name].shape) for name in names) if fits else ()
    elif isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim == 1):
        members = tuple(value)
        fits = len(members) == len(names)
    else:
        fits, members = False, ()
    try:
        if fits:
            record[()] = tuple(members)
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise KernelTypeError(
            f"{kernel}(): argument {parameter.name!r} is {shown(value)}, and the parameter a struct of "
            f"{', '.join(names) or dtype}; pass a NumPy record, a dict, or a tuple in that order"
        )
    return _scalar(record)


def _scalar(record: Any) -> np.generic:
    found: np.generic = record[()]
    return found


def _has_layout(given: Any, wanted: Any) -> bool:
    """Whether two dtypes have the same numbers at the same bytes, and no name of the one is elsewhere in the other."""
    if given == wanted:
        return True
    if not given.names or not wanted.names or max(given.itemsize, wanted.itemsize) > _MOST_STRUCT_NBYTES:
        return False
    if any(a != b and (a in wanted.names or b in given.names) for a, b in zip(given.names, wanted.names, strict=False)):
        return False
    return _numbers_of(given) == _numbers_of(wanted)


def _numbers_of(dtype: Any, at: int = 0) -> list[tuple[int, Any]]:
    """The offset and dtype of each number within a dtype."""
    if dtype.names:
        return [found for name in dtype.names for found in _numbers_of(dtype[name], at + dtype.fields[name][1])]
    if dtype.subdtype is None:
        return [(at, dtype)]
    each, shape = dtype.subdtype
    return [found for number in range(math.prod(shape)) for found in _numbers_of(each, at + number * each.itemsize)]


def extents_of(kernel: str, what: str, given: Any) -> tuple[int, int, int]:
    """A grid's or a block's extents along x, y and z."""
    extents = given if isinstance(given, tuple) else (given,)
    least = 0 if what == "grid" else 1
    if not 1 <= len(extents) <= 3 or not all(type(each) is int and each >= least for each in extents):
        raise KernelTypeError(f"{kernel}(): {what}={shown(given)} must be one to three positive ints")
    x, y, z = (*extents, 1, 1)[:3]
    if x >= 2**31 or max(y, z) > 65535:
        raise KernelTypeError(f"{kernel}(): {what}={shown(given)} is beyond 2**31-1 along x or 65535 along y and z")
    return x, y, z


def check_block(kernel: str, block: tuple[int, int, int]) -> None:
    if math.prod(block) > _MOST_THREADS:
        raise KernelTypeError(f"{kernel}(): block {block} has more than {_MOST_THREADS} threads; make it smaller")
    if block[2] > _MOST_THREADS_Z:
        raise KernelTypeError(
            f"{kernel}(): block {block} has more than {_MOST_THREADS_Z} threads along z; move them to x or y"
        )


def check_shared(kernel: str, nbytes: Any, device: Device) -> None:
    if type(nbytes) is not int or nbytes < 0:
        raise KernelTypeError(f"{kernel}(): shared_nbytes={shown(nbytes)} must be an int, 0 or more")
    if nbytes > _MOST_SHARED_NBYTES and device.kind != "cuda":
        raise KernelTypeError(
            f"{kernel}(): shared_nbytes={nbytes} is beyond the {_MOST_SHARED_NBYTES} bytes that a block can have on "
            "any GPU; use less"
        )
