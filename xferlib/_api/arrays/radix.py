"""Sorting by a vendor's library, which sorts one row of numbers by their bits.

Its machine code is compiled for each dtype, for seconds, and kept on disk beside the kernels. Until there is some,
short arrays are merged by a few kernels instead.

Several rows are one: their elements are sorted together, and then by the numbers of their rows, which keeps the order
within a row. Of floats each NaN becomes the one that counts as the greatest, so a sorted array has that one alone.
"""

from __future__ import annotations

import contextlib
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
from xferlib._runtime import config
from xferlib.backends.device_math import DeviceSorting, SortKind
from xferlib.errors import KernelError, UnsupportedError
from xferlib.kernels import ElementwiseKernel, elementwise
from xferlib.kernels.engines.cuda import cache

_SHORT_ROWS = 256
"""The elements up to which several rows are merged by a few kernels instead."""
_WORTH_COMPILING = 1 << 14
"""The elements from which a sort waits for the library to be compiled; fewer are merged in a fraction of a second."""
_MOST_NARROW = 1 << 31
"""Positions below it are int32, which move faster."""
_KEYS = {"bool": "uint8", "float16": "float32"}
"""The dtype that is sorted instead, which holds every value."""

_ROWS = np.dtype("uint32")
"""Of the numbers of rows."""

_absent: set[tuple[str, str]] = set()
"""The folders and names of machine code that was not there: a look is some system calls, and short sorts look once."""

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


def suits(lib: Primitives, info: ArrayInfo, *, descending: bool, is_indexed: bool) -> bool:
    """Whether the library sorts such an array along its last axis; it may be compiled for that."""
    library = lib.sorting(info.device)
    if library is None or info.dtype.kind == "c":
        return False
    rows = info.size // info.shape[-1]
    if rows > 1 and (info.shape[-1] <= _SHORT_ROWS or rows >= 1 << 32):
        return False
    place = _place(info) if is_indexed or rows > 1 else None
    kinds = [SortKind(_keys(info), place, descending)]
    if rows > 1:
        kinds.append(SortKind(_ROWS, place, False))
    return all(_is_ready(library, kind, info.device, compiles=info.size >= _WORTH_COMPILING) for kind in kinds)


def _is_ready(library: DeviceSorting, kind: SortKind, device: Device, *, compiles: bool) -> bool:
    if library.is_loaded(kind, device):
        return True
    name = cache.key("radix sort", library.fingerprint(device), *map(str, kind))
    place = config.get().cache_dir, name
    if place in _absent and not compiles:
        return False
    code = cache.read(name)
    if code is not None:  # perhaps of another version, though the fingerprint is the same
        with contextlib.suppress(KernelError, UnsupportedError):
            library.load(kind, code, device)
            _absent.discard(place)
            return True
    if compiles:
        code = library.compile(kind, device)
        library.load(kind, code, device)
        cache.write(name, code)
        _absent.discard(place)
    else:
        _absent.add(place)
    return compiles


def _keys(info: ArrayInfo) -> DType:
    return np.dtype(_KEYS.get(info.dtype.name, info.dtype))


def _place(info: ArrayInfo) -> DType:
    return np.dtype("int32") if info.size < _MOST_NARROW else INDEX


def sort(lib: Primitives, x: Array, *, descending: bool, is_indexed: bool) -> tuple[Array, Array | None]:
    """The elements in order along the last axis, and the positions from which they come."""
    info = lib.info(x)
    extent, rows = info.shape[-1], info.size // info.shape[-1]
    dtype = _keys(info)
    flat = shaping.reshape(lib, x, -1)
    keys = flat if info.dtype == dtype else lib.copy(flat, dtype)
    if dtype.kind == "f":
        keys = _one_nan()(keys)
    elif not lib.info(keys).is_c_contiguous:
        keys = lib.copy(keys)
    if rows == 1 and not is_indexed:
        found, _ = _by_library(lib, keys, None, descending=descending)
        return _result(lib, found, info), None
    numbers = numbered(lib, (info.size,), info.device, _place(info))
    found, places = _by_library(lib, keys, numbers, descending=descending)
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
