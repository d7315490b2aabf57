"""Order: sorting, searching and sets.

Sorting is Batcher's bitonic network (1968): every pass is one kernel that compares elements at a fixed distance, which
any engine can run. Equal elements keep their order, because their places are compared too.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xferlib._api import transfers
from xferlib._api.arrays import elementwise, indexing, reductions, views
from xferlib._core.array import Array, UniqueAll, UniqueCounts, UniqueInverse
from xferlib.errors import KernelTypeError
from xferlib.kernels.elementwise import ElementwiseKernel
from xferlib.kernels.elementwise import elementwise as kernel

_INT64 = np.dtype(np.int64)
_PAD = 1 << 62
_COMPARE = """
long long p = i ^ distance;
T a = v[i], b = v[p];
long long ka = k[i], kb = k[p];
bool same = b == a || (a != a && b != b);
bool below = kb < pad && (ka >= pad || b < a || (a != a && b == b) || (same && kb < ka));
bool small = ((i & distance) == 0) == ((i & size) == 0);
bool takes = small == below;
w = takes ? b : a;
m = takes ? kb : ka;
"""


@functools.cache
def _pass() -> ElementwiseKernel:
    parameters = "raw T v, raw int64 k, int64 distance, int64 size, int64 pad"
    return kernel(parameters, "T w, int64 m", _COMPARE, name="bitonic_pass")


def _ordered(x: Array) -> tuple[Array, Array]:
    """The elements in order along the last axis, and where each was; in C order."""
    info = views.info_of(x)
    if info.dtype.kind == "c":
        raise KernelTypeError(f"sort: {info.dtype} has no order; sort abs(x), or its parts")
    extent = info.shape[-1]
    wide = 1 << max(extent - 1, 0).bit_length()
    values = views.new(x, (*info.shape[:-1], wide), info.dtype)
    numbers = np.arange(wide)
    numbers[extent:] += _PAD
    places = views.copied(transfers.to_device(numbers, device=info.device), None, (*info.shape[:-1], wide))
    views.fill(views.viewed(values, lambda a: a[..., extent:]), 0)
    views.assign(views.viewed(values, lambda a: a[..., :extent]), x)
    size = 2
    while size <= wide:
        distance = size // 2
        while distance:
            direction = size if size < wide else 0  # the last merge of every line is ascending
            values, places = _next(values, places, distance, direction)
            distance //= 2
        size *= 2
    cut = lambda a: a[..., :extent]
    return views.viewed(values, cut), views.viewed(places, cut)


def _next(values: Array, places: Array, distance: int, size: int) -> tuple[Array, Array]:
    info = views.info_of(values)
    out = views.new(values, info.shape, info.dtype), views.new(values, info.shape, _INT64)
    _pass()(values, places, distance, size, _PAD, *out)
    return out


def _along(x: Array, axis: int, call: str) -> tuple[Array, int]:
    along = indexing.axis_of(call, x, axis)
    return views.moveaxis(x, along, -1), along


def _sorted(x: Array, axis: int, *, descending: bool, call: str) -> tuple[Array, Array]:
    """Values and places, each sorted along an axis; equal elements keep their order."""
    info = views.info_of(x, call)
    if not info.size or info.shape[axis] == 0:
        return views.copied(x), views.new(x, info.shape, _INT64)
    line, along = _along(x, axis, call)
    flip = lambda a: a[..., ::-1]
    values, places = _ordered(views.viewed(line, flip) if descending else line)
    if descending:
        last = info.shape[along] - 1
        values = views.viewed(values, flip)
        places = elementwise.made("subtract")(last, views.viewed(places, flip))
    return tuple(views.copied(views.moveaxis(each, -1, along)) for each in (values, places))


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:  # noqa: ARG001
    """The elements in order along an axis; NaN last."""
    return _sorted(x, axis, descending=descending, call="sort")[0]


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:  # noqa: ARG001
    """The indices that sort the elements along an axis; equal elements keep their order."""
    return _sorted(x, axis, descending=descending, call="argsort")[1]


@functools.cache
def _halve(is_left: bool) -> ElementwiseKernel:
    goes_right = "a < v || (v != v && a == a)" if is_left else "!(v < a || (a != a && v == v))"
    text = f"""
    long long middle = (low + high) / 2;
    bool open = low < high;
    T a = x[order[open ? middle : 0]];
    bool right = {goes_right};
    low_out = open && right ? middle + 1 : low;
    high_out = open && !right ? middle : high;
    """
    parameters = "raw T x, raw int64 order, T v, int64 low, int64 high"
    return kernel(parameters, "int64 low_out, int64 high_out", text, name="searchsorted")


def searchsorted(x1: Array, x2: Array, /, *, side: str = "left", sorter: Array | None = None) -> Array:
    """The indices at which the elements of ``x2`` belong in the sorted ``x1``."""
    info = views.info_of(x1, "searchsorted")
    dtype = np.result_type(info.dtype, views.info_of(x2, "searchsorted").dtype)
    line, values = views.astype(x1, dtype, copy=False), views.astype(x2, dtype, copy=False)
    extent, shape = info.shape[0], views.info_of(x2).shape
    low, high = views.new(x2, shape, _INT64), views.new(x2, shape, _INT64)
    views.fill(low, 0)
    views.fill(high, extent)
    if not extent or not views.info_of(low).size:
        return low
    order = transfers.to_device(np.arange(extent), device=info.device) if sorter is None else sorter
    for _ in range(extent.bit_length()):
        lower, upper = views.new(x2, shape, _INT64), views.new(x2, shape, _INT64)
        _halve(side == "left")(line, views.astype(order, _INT64, copy=False), values, low, high, lower, upper)
        low, high = lower, upper
    return low


# --- sets


def unique_all(x: Array, /) -> UniqueAll:
    """The distinct elements in order, where each is first, its number for every element, and how often it occurs.

    NaNs are distinct. Waits for the values.
    """
    shape = views.info_of(x, "unique").shape
    flat = views.reshape(x, -1)
    count = views.info_of(flat).size
    if not count:
        empty = [views.new(x, (0,), _INT64) for _ in range(2)]
        return UniqueAll(flat, empty[0], views.new(x, shape, _INT64), empty[1])
    values, places = _sorted(flat, -1, descending=False, call="unique")
    is_new = views.new(x, (count,), np.dtype(bool))
    views.fill(indexing.get(is_new, slice(1)), True)
    changes = elementwise.made("not_equal")(indexing.get(values, slice(1, None)), indexing.get(values, slice(None, -1)))
    indexing.put(is_new, slice(1, None), changes)
    (starts,) = indexing.nonzero(is_new)
    numbers = elementwise.made("add")(reductions.cumulative_sum(is_new), -1)
    inverse = views.new(x, (count,), _INT64)
    indexing.scatter(inverse, places, numbers)
    ends = views.new(x, views.info_of(starts).shape, _INT64)
    indexing.put(ends, slice(None, -1), indexing.get(starts, slice(1, None)))
    indexing.put(ends, slice(-1, None), count)
    return UniqueAll(
        indexing.gather(values, starts),
        indexing.gather(places, starts),
        views.reshape(inverse, shape),
        elementwise.made("subtract")(ends, starts),
    )


def unique_counts(x: Array, /) -> UniqueCounts:
    """The distinct elements in order, and how often each occurs; waits for the values."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Array, /) -> UniqueInverse:
    """The distinct elements in order, and for every element the number of its own; waits for the values."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Array, /) -> Array:
    """The distinct elements in order; waits for the values."""
    return unique_all(x).values


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether each element of ``x1`` is one of ``x2``."""
    values = unique_values(x2)
    info = views.info_of(values)
    if not info.size:
        none = views.new(x1, views.info_of(x1).shape, np.dtype(bool))
        views.fill(none, invert)
        return none
    places = elementwise.made("minimum")(searchsorted(values, x1), info.size - 1)
    found = elementwise.made("equal")(indexing.gather(values, places), x1)
    return elementwise.made("logical_not")(found) if invert else found
