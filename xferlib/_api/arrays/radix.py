"""Sorting by a vendor's library, which sorts one row of numbers by their bits.

Several rows are one: their elements are sorted together, and then by the numbers of their rows, which keeps the order
within a row. Of floats each NaN becomes the one that counts as the greatest, so a sorted array has that one alone.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from xferlib._api.arrays import shaping
from xferlib._api.arrays.elementwise import binary_kernel
from xferlib._api.arrays.primitives import Primitives, Shape
from xferlib._api.arrays.selecting import INDEX, gather
from xferlib._core.array import Array, ArrayInfo
from xferlib._core.device import Device
from xferlib.kernels import ElementwiseKernel, elementwise

_SHORT_ROWS = 256
"""The elements up to which several rows are merged by a few kernels instead."""
_MOST_NARROW = 1 << 31
"""Positions below it are int32, which move faster."""
_KEYS = {"bool": "uint8", "float16": "float32"}
"""The dtype that is sorted instead, which holds every value."""

DType = np.dtype[Any]


@functools.cache
def _number() -> ElementwiseKernel:
    return elementwise("int64 extent", "T y", "y = i % extent;", name="number")


@functools.cache
def _row() -> ElementwiseKernel:
    return elementwise("T place, int64 extent", "uint32 y", "y = place / extent;", name="row")


@functools.cache
def _one_nan() -> ElementwiseKernel:
    return elementwise("T x", "T y", "if (x == x) { y = x; } else { y = NAN; }", name="one_nan")


def numbered(lib: Primitives, shape: Shape, device: Device, dtype: DType = INDEX) -> Array:
    """The positions of elements along the last axis."""
    out = lib.empty(shape, dtype, device)
    if math.prod(shape):
        _number()(shape[-1], out)
    return out


def suits(lib: Primitives, info: ArrayInfo) -> bool:
    """Whether the library sorts such an array along its last axis."""
    if info.dtype.kind == "c" or lib.sorting(info.device) is None:
        return False
    is_one_row = info.size == info.shape[-1]
    return is_one_row or (info.shape[-1] > _SHORT_ROWS and info.size // info.shape[-1] < 1 << 32)


def sort(lib: Primitives, x: Array, *, descending: bool, is_indexed: bool) -> tuple[Array, Array | None]:
    """The elements in order along the last axis, and the positions from which they come."""
    info = lib.info(x)
    extent, rows = info.shape[-1], info.size // info.shape[-1]
    dtype = np.dtype(_KEYS.get(info.dtype.name, info.dtype))
    flat = shaping.reshape(lib, x, -1)
    keys = flat if info.dtype == dtype else lib.copy(flat, dtype)
    if dtype.kind == "f":
        keys = _one_nan()(keys)
    elif not lib.info(keys).is_c_contiguous:
        keys = lib.copy(keys)
    if rows == 1 and not is_indexed:
        found, _ = _by_library(lib, keys, None, descending=descending)
        return _result(lib, found, info), None
    place = np.dtype("int32") if info.size < _MOST_NARROW else INDEX
    found, places = _by_library(lib, keys, numbered(lib, (info.size,), info.device, place), descending=descending)
    assert places is not None
    if rows > 1:
        numbers = _row()(places, extent)
        _, places = _by_library(lib, numbers, places, descending=False, bits=(rows - 1).bit_length())
        assert places is not None
        found = gather(lib, keys, [places])
    if not is_indexed:
        return _result(lib, found, info), None
    order = lib.copy(places, INDEX)
    if rows > 1:
        order = binary_kernel("remainder")(order, extent)
    return _result(lib, found, info), shaping.reshape(lib, order, info.shape)


def _by_library(
    lib: Primitives, keys: Array, values: Array | None, *, descending: bool, bits: int | None = None
) -> tuple[Array, Array | None]:
    info = lib.info(keys)
    found = lib.empty(info.shape, info.dtype, info.device)
    arrays, moved = [keys, found], None
    if values is not None:
        moved = lib.empty(info.shape, lib.info(values).dtype, info.device)
        arrays += [values, moved]

    def run(given: ArrayInfo, out: ArrayInfo, *pair: ArrayInfo, stream: Any) -> None:
        library = lib.sorting(stream.device)
        assert library is not None
        both = (pair[0], pair[1]) if pair else None
        library.sort(given, out, both, is_descending=descending, bits=bits, stream=stream)

    lib.enqueue("sort", arrays, run)
    return found, moved


def _result(lib: Primitives, found: Array, info: ArrayInfo) -> Array:
    shaped = shaping.reshape(lib, found, info.shape)
    return shaped if lib.info(shaped).dtype == info.dtype else lib.copy(shaped, info.dtype)
