"""The distinct elements of an array, found by sorting; each NaN is an element of its own."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from xferlib._api.arrays import selecting, shaping, sorting
from xferlib._api.arrays.elementwise import binary_kernel
from xferlib._api.arrays.indexing import filled
from xferlib._api.arrays.joining import concat, part
from xferlib._api.arrays.primitives import Primitives
from xferlib._api.arrays.selecting import INDEX
from xferlib._core.array import Array, UniqueAll, UniqueCounts, UniqueInverse
from xferlib.kernels import ElementwiseKernel, elementwise


@functools.cache
def _is_first() -> ElementwiseKernel:
    return elementwise(
        "raw T x, T v", "bool y", "if (i > 0) { y = !(v == x[i - 1]); } else { y = true; }", name="is_first"
    )


@functools.cache
def _number_back() -> ElementwiseKernel:
    return elementwise("int64 place, int64 count", "raw int64 y", "y[place] = count - 1;", name="number_back")


def unique_all(lib: Primitives, x: Array, /) -> UniqueAll:
    """``unique_all`` of the Array API; waits for the values."""
    x = lib.array("unique", x)
    info = lib.info(x)
    size = math.prod(info.shape)
    rows, order = sorting.ordered(lib, shaping.reshape(lib, x, -1))
    if not size:
        none = lib.empty((0,), INDEX, info.device)
        return UniqueAll(rows, none, lib.empty(info.shape, INDEX, info.device), none)
    flags = _is_first()(rows, rows)
    counted, _ = selecting.counted(lib, flags)
    starts = selecting.positions(lib, flags)
    inverse = lib.empty((size,), INDEX, info.device)
    _number_back()(order, counted, inverse)
    ends = concat(lib, [part(lib, starts, 0, 1, None), filled(lib, (1,), size, INDEX, info.device)])
    return UniqueAll(
        selecting.gather(lib, rows, [starts]),
        selecting.gather(lib, order, [starts]),
        shaping.reshape(lib, inverse, info.shape),
        binary_kernel("subtract")(ends, starts),
    )


def unique_counts(lib: Primitives, x: Array, /) -> UniqueCounts:
    """``unique_counts`` of the Array API; waits for the values."""
    found = unique_all(lib, x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(lib: Primitives, x: Array, /) -> UniqueInverse:
    """``unique_inverse`` of the Array API; waits for the values."""
    found = unique_all(lib, x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(lib: Primitives, x: Array, /) -> Array:
    """``unique_values`` of the Array API; waits for the values."""
    x = lib.array("unique_values", x)
    rows = sorting.sort(lib, shaping.reshape(lib, x, -1))
    if not lib.info(rows).size:
        return rows
    return selecting.gather(lib, rows, [selecting.positions(lib, _is_first()(rows, rows))])


def isin(lib: Primitives, x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether each element of ``x1`` is one of ``x2``; a NaN never is."""
    given = [lib.array("isin", each) for each in (x1, x2)]
    infos = lib.infos("isin", given)
    common = np.result_type(*(info.dtype for info in infos))
    wanted, known = (
        each if info.dtype == common else lib.copy(each, common) for each, info in zip(given, infos, strict=True)
    )
    if not infos[1].size:
        return filled(lib, infos[0].shape, invert, np.dtype(bool), infos[0].device)
    rows = sorting.sort(lib, shaping.reshape(lib, known, -1))
    places = binary_kernel("minimum")(sorting.searchsorted(lib, rows, wanted), infos[1].size - 1)
    return binary_kernel("not_equal" if invert else "equal")(selecting.gather(lib, rows, [places]), wanted)
