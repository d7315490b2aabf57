"""Assertions about arrays: bits, not values."""

from __future__ import annotations

from typing import Any

import numpy as np

HostArray = np.ndarray[Any, Any]


def native_bits(array: Any) -> HostArray:
    """The array's elements as unsigned bytes in native byte order: shape S + (itemsize,)."""
    a = np.asarray(array)
    a = a.astype(a.dtype.newbyteorder("="), order="C", copy=True)
    return np.frombuffer(a.tobytes(), np.uint8).reshape(*a.shape, a.dtype.itemsize)


def assert_same_bits(actual: Any, expected: Any) -> None:
    """Assert equal shape, dtype and bits; NaN payloads and the sign of zero count, byte order does not.

    Args:
        actual: A host array.
        expected: A host array.

    Raises:
        AssertionError: With the first element that differs, as value and as bytes.
    """
    a, b = np.asarray(actual), np.asarray(expected)
    assert a.shape == b.shape, f"shape {a.shape}, expected {b.shape}"
    native = (a.dtype.newbyteorder("="), b.dtype.newbyteorder("="))
    assert native[0] == native[1], f"dtype {a.dtype}, expected {b.dtype}"
    bits, wanted = native_bits(a), native_bits(b)
    if bits.tobytes() == wanted.tobytes():
        return
    is_different = (bits != wanted).any(axis=-1)
    first = tuple(int(i) for i in np.argwhere(is_different)[0])
    raise AssertionError(
        f"{int(is_different.sum())} of {a.size} elements of dtype {a.dtype} differ; the first at {first}: {a[first]!r} "
        f"({bits[first].tobytes().hex()}), expected {b[first]!r} ({wanted[first].tobytes().hex()})"
    )


def scribble(array: HostArray) -> None:
    """Change every bit of every element of a writable array, of any strides."""
    if array.dtype.kind == "b":
        np.logical_not(array, out=array)
        return
    parts = (array.real, array.imag) if array.dtype.kind == "c" else (array,)
    for part in parts:
        words = part.view(f"u{part.dtype.itemsize}")
        np.invert(words, out=words)
