"""``x[key]`` and ``x[key] = value``: views where NumPy has views, operations otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from xferlib.errors import LayoutError
from xferlib.sim import kernels
from xferlib.sim.arrays import SimArray


def _is_basic(key: Any) -> bool:
    keys = key if isinstance(key, tuple) else (key,)
    return all(each is None or each is Ellipsis or type(each) is int or isinstance(each, slice) for each in keys)


def get(array: SimArray, key: Any) -> SimArray:
    """A view for integers and slices; a new array for a mask or integer arrays."""
    if _is_basic(key):
        view = array.memory()[key if isinstance(key, tuple) else (key,)]
        # NumPy hands out a scalar where every axis has an index: keep it an array without axes.
        if not isinstance(view, np.ndarray):
            view = array.memory()[(*(key if isinstance(key, tuple) else (key,)), ...)]
        return kernels.viewed(array, view)
    keys = key if isinstance(key, tuple) else (key,)
    arrays = tuple(each for each in keys if isinstance(each, SimArray))
    select = lambda a, *found: a[_filled(keys, found)]
    is_mask = any(each.dtype == np.bool_ for each in arrays)
    result = kernels.immediate("index", select, (array, *arrays), waits=is_mask)
    assert isinstance(result, SimArray)
    return result


def _filled(keys: tuple[Any, ...], found: tuple[Any, ...]) -> tuple[Any, ...]:
    values = iter(found)
    return tuple(next(values) if isinstance(each, SimArray) else each for each in keys)


def put(array: SimArray, key: Any, value: Any) -> None:
    """Write a scalar or an array into a part of another, as one operation."""
    kernels.common_device("assignment", (array, value))
    kernels.check_writable("assignment", array)
    if not _is_basic(key):
        _put_selected(array, key if isinstance(key, tuple) else (key,), value)
        return
    target = get(array, key)
    if isinstance(value, SimArray) and np.broadcast_shapes(value.shape, target.shape) != target.shape:
        raise LayoutError(f"assignment: shape {value.shape} does not fit into {target.shape}; reshape the value")
    into, (source,) = target.memory(), kernels.memories((value,))

    def run() -> None:
        into[...] = source

    kernels.launch("assignment", run, [value] if isinstance(value, SimArray) else [], [target])


def _put_selected(array: SimArray, keys: tuple[Any, ...], value: Any) -> None:
    arrays = [each for each in keys if isinstance(each, SimArray)]
    into, (source,) = array.memory(), kernels.memories((value,))
    found = kernels.memories(arrays)

    def run() -> None:
        into[_filled(keys, tuple(found))] = source

    reads = [array, *arrays, *([value] if isinstance(value, SimArray) else [])]
    kernels.launch("assignment", run, reads, [array], uses_values=False)
