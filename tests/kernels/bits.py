"""Comparison bit for bit, and inputs that hold every kind of value."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from xferlib.errors import KernelError

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
DTYPES = ("bool", *INTEGERS, *FLOATS, *COMPLEX)


def same_bits(actual: Any, expected: Any) -> bool:
    """Equal dtype, shape and bits; any NaN equals any NaN."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    if actual.dtype.kind == "c":
        return same_bits(actual.real.copy(), expected.real.copy()) and same_bits(
            actual.imag.copy(), expected.imag.copy()
        )
    if actual.dtype.kind != "f":
        return bool(np.array_equal(actual, expected))
    bits = f"u{actual.dtype.itemsize}"
    equal = actual.ravel().view(bits) == expected.ravel().view(bits)
    return bool(np.all(equal | (np.isnan(actual.ravel()) & np.isnan(expected.ravel()))))


def specials(dtype: Any) -> np.ndarray[Any, Any]:
    """Every value of ``dtype`` at which an operation may go wrong."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        near = [info.min, info.min + 1, info.max - 1, info.max, info.max // 2]
        small = [value for value in (-8, -3, -2, -1, 0, 1, 2, 3, 7, 31, 64) if info.min <= value <= info.max]
        return np.array([*near, *small], dtype)
    if dtype.kind == "c":
        part = specials(np.float32 if dtype == np.complex64 else np.float64)[::2]
        real, imag = np.meshgrid(part, part)
        result = np.empty(real.size, dtype)
        result.real, result.imag = real.ravel(), imag.ravel()
        return result
    about = np.finfo(dtype)
    values = [0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 127.5, 255.0, 1e4]
    values += [float(about.max), float(about.tiny), float(about.smallest_subnormal)]
    values += [float(about.tiny) * 0.7, float(about.eps), 1 + float(about.eps), float("inf"), 2.0**31, 2.0**63, 0.1]
    with np.errstate(over="ignore"):
        return np.array([*values, *(-value for value in values), float("nan")]).astype(dtype)


def random_bits(dtype: Any, count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Arrays of uniformly random bit patterns: subnormals, infinities and NaNs among them."""
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy()


def outcome(function: Callable[..., Any], *operands: Any) -> Any:
    """The result of a function, or the error that a kernel, NumPy or Python may have instead."""
    try:
        with np.errstate(all="ignore"):
            return function(*operands)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError, KernelError) as error:
        return error


@contextlib.contextmanager
def unread_around(nbytes: int, *, at_end: bool) -> Iterator[np.ndarray[Any, Any]]:
    """Bytes right before a page, or else right behind one, whose access ends the process; on Linux alone."""
    libc, page = ctypes.CDLL(None), mmap.PAGESIZE
    pages = mmap.mmap(-1, -(-nbytes // page) * page + 2 * page)
    whole = np.frombuffer(pages, np.uint8)
    ends = [whole.ctypes.data, whole.ctypes.data + len(pages) - page]
    for end in ends:
        assert libc.mprotect(ctypes.c_void_p(end), ctypes.c_size_t(page), 0) == 0
    try:
        yield whole[len(pages) - page - nbytes : -page] if at_end else whole[page : page + nbytes]
    finally:
        for end in ends:
            assert libc.mprotect(ctypes.c_void_p(end), ctypes.c_size_t(page), 3) == 0
