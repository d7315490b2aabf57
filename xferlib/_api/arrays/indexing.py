"""``x[key]`` and ``x[key] = value``: views where NumPy has views; integer arrays and masks by gathering and scattering.

A key with arrays is brought into one form: an array of integers for each indexed axis. From these, and from the numbers
of the other axes, a kernel computes the place of every element in C order; another one reads or writes there. Indices
are checked first, because the device would read what lies beside the array: that waits for the device, as a mask does.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from xferlib._api import transfers
from xferlib._api.arrays import elementwise, reductions, views
from xferlib._core import registry
from xferlib._core.array import Array
from xferlib.errors import LayoutError
from xferlib.kernels.elementwise import ElementwiseKernel
from xferlib.kernels.elementwise import elementwise as kernel

_INT64 = np.dtype(np.int64)
_add, _multiply = elementwise.made("add"), elementwise.made("multiply")


def _is_basic(key: tuple[Any, ...]) -> bool:
    return all(
        each is None or each is Ellipsis or type(each) is int or isinstance(each, (slice, np.integer)) for each in key
    )


def get(x: Array, key: Any) -> Array:
    """A view for integers and slices; a new array for masks and integer arrays."""
    keys = key if type(key) is tuple else (key,)
    if _is_basic(keys):
        return _view(x, keys)
    found = _places(x, keys)
    return gather(found.source, found.places)


def put(x: Array, key: Any, value: Any) -> None:
    """Write a number or an array into a part of an array."""
    info = views.info_of(x, "assignment")
    if not info.is_writable:
        raise LayoutError("assignment: the array is read-only, as after broadcast_to; write into a copy of it")
    keys = key if type(key) is tuple else (key,)
    if _is_basic(keys):
        target = _view(x, keys)
        if registry.backend_of(value) is None or isinstance(value, np.generic):
            views.fill(target, value)
        elif not _is_itself(value, target):
            _check_fits(value, views.info_of(target).shape)
            views.assign(target, _without_ones(value, len(views.info_of(target).shape)))
        return
    found = _places(x, keys)
    shape = views.info_of(found.places).shape
    if not isinstance(value, np.generic) and registry.backend_of(value) is not None:
        _check_fits(value, shape)
        values = views.copied(_without_ones(value, len(shape)), info.dtype, shape)
    else:
        number = transfers.to_device(np.asarray(value).astype(info.dtype), device=info.device)
        values = views.copied(number, None, shape)
    whole = views.contiguous(found.source)
    scatter(whole, found.places, values)
    if whole is not found.source:
        views.assign(found.source, whole)


def _view(x: Array, keys: tuple[Any, ...]) -> Array:
    # The ellipsis keeps NumPy from reading an element where every axis has an integer.
    full = keys if any(each is Ellipsis for each in keys) else (*keys, ...)
    return views.viewed(x, lambda a: a[full], "index")


def _is_itself(value: Array, target: Array) -> bool:
    """Whether ``x[key] += y`` ends with this call, the result being in its memory already."""
    one, two = views.info_of(value), views.info_of(target)
    return (one.pointer, one.shape, one.strides, one.dtype) == (two.pointer, two.shape, two.strides, two.dtype)


def _check_fits(value: Array, shape: tuple[int, ...]) -> None:
    given = views.info_of(value, "assignment").shape
    cut = given[max(len(given) - len(shape), 0) :]
    if math.prod(given) != math.prod(cut) or any(a not in (1, b) for a, b in zip(cut[::-1], shape[::-1], strict=False)):
        raise LayoutError(f"assignment: shape {given} does not fit into {shape}; reshape the value")


def _without_ones(value: Array, axes: int) -> Array:
    """The value without leading axes of extent 1 that the target has not, which NumPy ignores."""
    more = len(views.info_of(value).shape) - axes
    return views.squeeze(value, tuple(range(more))) if more > 0 else value


# --- arrays as keys


class _Places(NamedTuple):
    source: Array
    places: Array
    """Of the elements, counted in C order of ``source``."""


def _places(x: Array, keys: tuple[Any, ...]) -> _Places:
    """The elements that a key with arrays selects."""
    info = views.info_of(x, "index")
    indices = [part for each in keys for part in _parts(each, info)]
    used = sum(each is not None and each is not Ellipsis for each in indices)
    if used > len(info.shape):
        raise IndexError(f"index: {used} indices for an array of {len(info.shape)} axes")
    if all(each is not Ellipsis for each in indices):
        indices.append(Ellipsis)
    at = next(number for number, each in enumerate(indices) if each is Ellipsis)
    indices[at : at + 1] = [slice(None)] * (len(info.shape) - used)
    arrays = [number for number, each in enumerate(indices) if _is_index(each)]
    source = _view(x, tuple(slice(None) if _is_index(each) else each for each in indices))
    shape = views.info_of(source).shape
    pairs = zip(indices, shape, strict=True)
    lines = [_line(each, extent, info) if _is_index(each) else None for each, extent in pairs]
    common = views.common_shape("index", *(each for each in lines if each is not None))
    first = arrays[0] if arrays == list(range(arrays[0], arrays[-1] + 1)) else 0
    axes = [number for number in range(len(shape)) if number not in arrays]
    before = [number for number in axes if number < first]
    after = [number for number in axes if number >= first]
    result = (*(shape[n] for n in before), *common, *(shape[n] for n in after))
    strides = [math.prod(shape[number + 1 :]) for number in range(len(shape))]
    places: Array | None = None
    for number, line in enumerate(lines):
        if line is not None:
            position, extents, steps = len(result) - len(after), views.info_of(line).shape, line
        else:
            place = before.index(number) if number in before else len(result) - len(after) + after.index(number)
            position, extents = place + 1, (shape[number],)
            steps = transfers.to_device(np.arange(shape[number]), device=info.device)
        ones = (1,) * (len(result) - position)
        part = _multiply(views.reshape(steps, (*extents, *ones)), strides[number])
        places = part if places is None else _add(places, part)
    assert places is not None
    return _Places(source, views.broadcast_to(places, result))


def _is_index(key: Any) -> bool:
    return key is not None and not isinstance(key, slice) and key is not Ellipsis


def _parts(key: Any, info: Any) -> list[Any]:
    """One part of a key for each axis that it indexes; a mask indexes as many as it has axes."""
    if key is None or key is Ellipsis or isinstance(key, slice):
        return [key]
    if isinstance(key, (bool, np.bool_, list, np.ndarray)):
        key = transfers.to_device(np.asarray(key), device=info.device)
    elif isinstance(key, (int, np.integer)):
        return [key]
    dtype = views.info_of(key, "index").dtype
    if dtype.kind not in "biu":
        raise IndexError(f"index: an array of {dtype} is no index; integers and bool are")
    return list(nonzero(key)) if dtype.kind == "b" else [key]


def _line(key: Any, extent: int, info: Any) -> Array:
    """The indices of one axis, from 0 on."""
    if isinstance(key, (int, np.integer)):
        if not -extent <= key < extent:
            raise IndexError(f"index {key} is out of bounds for an axis of {extent}")
        return transfers.to_device(np.asarray(int(key) % extent), device=info.device)
    found = views.astype(key, _INT64, copy=False)
    given = views.info_of(found)
    if given.size:
        low, high = (int(transfers.to_host(each(found))) for each in (reductions.min, reductions.max))
        if low < -extent or high >= extent:
            raise IndexError(f"index {low if low < -extent else high} is out of bounds for an axis of {extent}")
        if low < 0:
            found = elementwise.where(elementwise.made("less")(found, 0), _add(found, extent), found)
    return found


@functools.cache
def _gather() -> ElementwiseKernel:
    return kernel("raw T x, int64 place", "T y", "y = x[place]", name="gather")


@functools.cache
def _scatter() -> ElementwiseKernel:
    return kernel("int64 place, T x", "raw T y", "y[place] = x", name="scatter")


@functools.cache
def _scatter_chosen() -> ElementwiseKernel:
    return kernel(
        "bool chosen, int64 place, int64 number", "raw int64 y", "if (chosen) y[place] = number", name="nonzero"
    )


def gather(x: Array, places: Array) -> Array:
    """The elements of these numbers in C order; every number is in the array."""
    out = views.new(x, views.info_of(places).shape, views.info_of(x).dtype)
    if views.info_of(out).size:
        _gather()(x, places, out)
    return out


def scatter(x: Array, places: Array, values: Array) -> None:
    """Write values to the elements of these numbers in C order. Of several for one element any is kept."""
    if views.info_of(places).size:
        _scatter()(places, values, x)


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """The indices of the elements that are not zero, an array for each axis; waits for the values."""
    info = views.info_of(x, "nonzero")
    if not info.shape:
        raise LayoutError("nonzero: an array without axes has no indices; reshape it")
    chosen = views.reshape(elementwise.made("not_equal")(x, 0) if info.dtype.kind != "b" else x, -1)
    if not info.size:
        return tuple(views.new(x, (0,), _INT64) for _ in info.shape)
    places = _add(reductions.cumulative_sum(chosen), -1)
    count = 1 + int(transfers.to_host(get(places, -1)))
    numbers = views.new(x, (count,), _INT64)
    if count:
        line = transfers.to_device(np.arange(info.size), device=info.device)
        _scatter_chosen()(chosen, places, line, numbers)
    return unravelled(numbers, info.shape)


def unravelled(numbers: Array, shape: tuple[int, ...]) -> tuple[Array, ...]:
    """The indices of elements that are counted in C order."""
    divide, remainder = elementwise.made("floor_divide"), elementwise.made("remainder")
    found = []
    for axis, extent in enumerate(shape):
        line = divide(numbers, math.prod(shape[axis + 1 :]) or 1)
        found.append(remainder(line, extent) if axis else line)
    return tuple(found)


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The slices at ``indices`` along an axis."""
    return get(x, (*[slice(None)] * axis_of("take", x, axis), indices))


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """The elements at ``indices``, each in its own line along an axis."""
    info, along = views.info_of(x, "take_along_axis"), axis_of("take_along_axis", x, axis)
    if len(views.info_of(indices).shape) != len(info.shape):
        raise LayoutError("take_along_axis: the indices have another number of axes than x; reshape one of them")
    lines = [transfers.to_device(each, device=info.device) for each in np.ogrid[tuple(map(slice, info.shape))]]
    return get(x, (*lines[:along], indices, *lines[along + 1 :]))


def axis_of(call: str, x: Any, axis: int | None) -> int:
    """The number of an axis from the front; None is the only one.

    Raises:
        LayoutError: There is no such axis.
    """
    axes = len(views.info_of(x, call).shape)
    if axis is None and axes == 1:
        return 0
    if axis is None or not -axes <= axis < axes:
        raise LayoutError(f"{call}: axis={axis} is no axis of an array of {axes}; give one")
    return axis % axes
