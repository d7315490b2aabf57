"""Assertions about arrays of any backend: equal bits, or a stated number of units in the last place apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from xferlib._api import transfers
from xferlib._core import registry
from xferlib.errors import ArgumentError, UnsupportedDTypeError, shown

HostArray = np.ndarray[Any, Any]


def native_bits(array: Any) -> HostArray:
    """The array's elements as unsigned bytes in native byte order: shape S + (itemsize,)."""
    a = np.asarray(array)
    a = a.astype(a.dtype.newbyteorder("="), order="C", copy=True)
    return np.frombuffer(a.tobytes(), np.uint8).reshape(*a.shape, a.dtype.itemsize)


def assert_identical(actual: Any, expected: Any, *, nan_payloads: bool = False) -> None:
    """Assert equal shape, dtype and bits, whatever backends the arrays are of.

    Zeros of different sign differ. A NaN equals any other NaN of that dtype, because arithmetic does not define its
    sign and payload: a CPU and a GPU make different ones. Byte order, strides and device do not count. Parts of
    complex numbers are compared one by one.

    Args:
        actual: An array of any backend, which is copied to the host; or anything that NumPy makes an array of.
        expected: The same.
        nan_payloads: Compare the sign and payload of NaN, too. Copies keep them.

    Raises:
        AssertionError: With the number of elements that differ, and the first of them as value and as bytes.
        UnsupportedDTypeError: The elements are no numbers.
    """
    a, b = _compared(actual, expected)
    if not nan_payloads:
        a, b = with_one_nan(a), with_one_nan(b)
    assert_same_bits(a, b)


def assert_allclose_ulp(actual: Any, expected: Any, *, max_ulp: int) -> None:
    """Assert equal shape and dtype, and that elements are at most ``max_ulp`` units in the last place apart.

    That many numbers of the dtype lie between the two, so the bound means the same for large and small numbers, across
    zero too. -0.0 equals 0.0. NaN equals NaN and nothing else, and an infinity equals itself alone. Parts of complex
    numbers are compared one by one. Integers and bool must be equal.

    Args:
        actual: An array of any backend, which is copied to the host; or anything that NumPy makes an array of.
        expected: The same, such as a result of greater precision that was converted to the dtype.
        max_ulp: Most units in the last place, 0 or more.

    Raises:
        AssertionError: With the number of elements that are too far apart, and the worst of them.
        ArgumentError: ``max_ulp`` is no such number.
        UnsupportedDTypeError: The elements are no numbers.
    """
    if isinstance(max_ulp, bool) or not isinstance(max_ulp, (int, np.integer)) or max_ulp < 0:
        raise ArgumentError(f"assert_allclose_ulp: max_ulp={shown(max_ulp)} is no number of ulp; give an int from 0")
    a, b = _compared(actual, expected)
    if a.dtype.kind not in "fc":
        assert_same_bits(a, b)
        return
    apart = _ulp_apart(a, b)
    too_far = apart > int(max_ulp)
    if not too_far.any():
        return
    worst = tuple(int(i) for i in np.unravel_index(np.argmax(apart), apart.shape))
    distance = (
        "one of the two is no finite number" if apart[worst] == _NOT_COMPARABLE else f"{int(apart[worst])} ulp apart"
    )
    raise AssertionError(
        f"{int(too_far.sum())} of {a.size} elements of dtype {a.dtype} are more than {max_ulp} ulp apart; the worst at "
        f"{worst}: {a[worst]!r}, expected {b[worst]!r}: {distance}"
    )


def _compared(actual: Any, expected: Any) -> tuple[HostArray, HostArray]:
    """Both as host arrays in native byte order, of one shape and dtype."""
    a, b = _host(actual), _host(expected)
    assert a.shape == b.shape, f"shape {a.shape}, expected {b.shape}"
    assert a.dtype == b.dtype, f"dtype {a.dtype}, expected {b.dtype}"
    return a, b


def _host(array: Any) -> HostArray:
    found = np.asarray(array if registry.backend_of(array) is None else transfers.to_host(array))
    if found.dtype.kind not in "biufc":
        raise UnsupportedDTypeError(f"elements of dtype {found.dtype} are no numbers; compare them with numpy.testing")
    return found.astype(found.dtype.newbyteorder("="), copy=False)


def parts(array: HostArray) -> tuple[HostArray, ...]:
    """The real numbers of an array: itself, or its real and its imaginary parts."""
    return (array.real, array.imag) if array.dtype.kind == "c" else (array,)


def with_one_nan(array: HostArray) -> HostArray:
    """A copy in which every NaN has the same bits."""
    if array.dtype.kind not in "fc":
        return array
    found = array.copy()
    for part in parts(found):
        part[np.isnan(part)] = np.nan
    return found


_NOT_COMPARABLE = np.uint64(0xFFFFFFFFFFFFFFFF)
"""The distance of a NaN from a number, and of an infinity from anything else."""


def _ulp_apart(a: HostArray, b: HostArray) -> HostArray:
    """How many steps from one number of the dtype to the next lie between two arrays; the larger of both parts."""
    found = np.zeros(a.shape, np.uint64)
    for x, y in zip(parts(a), parts(b), strict=True):
        ranks = _rank(x), _rank(y)
        apart = np.maximum(*ranks) - np.minimum(*ranks)
        apart = np.where(np.isfinite(x) & np.isfinite(y), apart, _NOT_COMPARABLE)
        apart = np.where((x == y) | (np.isnan(x) & np.isnan(y)), np.uint64(0), apart)
        found = np.asarray(np.maximum(found, apart))
    return found


def _rank(part: HostArray) -> HostArray:
    """The place of each number among all of its dtype in ascending order, both zeros in one."""
    bits = np.ascontiguousarray(part).view(f"u{part.dtype.itemsize}").astype(np.uint64).reshape(part.shape)
    sign = np.uint64(1) << np.uint64(8 * part.dtype.itemsize - 1)
    magnitude = bits & (sign - np.uint64(1))
    middle = np.uint64(1) << np.uint64(63)
    return np.where(bits & sign != 0, middle - magnitude, middle + magnitude)


def assert_same_bits(actual: Any, expected: Any) -> None:
    """Assert equal shape, dtype and bits of host arrays; NaN payloads and the sign of zero count, byte order does not.

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
    bits, wanted = native_bits(a.reshape(-1)), native_bits(b.reshape(-1))  # one axis more than theirs may be too many
    if bits.tobytes() == wanted.tobytes():
        return
    is_different = (bits != wanted).any(axis=-1)
    number = int(np.argmax(is_different))
    first = tuple(int(i) for i in np.unravel_index(number, a.shape))
    raise AssertionError(
        f"{int(is_different.sum())} of {a.size} elements of dtype {a.dtype} differ; the first at {first}: {a[first]!r} "
        f"({bits[number].tobytes().hex()}), expected {b[first]!r} ({wanted[number].tobytes().hex()})"
    )


def scribble(array: HostArray) -> None:
    """Change every bit of every element of a writable array, of any strides."""
    if array.dtype.kind == "b":
        np.logical_not(array, out=array)
        return
    for part in parts(array):
        words = part.view(f"u{part.dtype.itemsize}")
        np.invert(words, out=words)
