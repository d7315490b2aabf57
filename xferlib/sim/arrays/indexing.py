"""``x[key]`` and ``x[key] = value``: views where NumPy has views, operations otherwise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xferlib._core.array import c_strides
from xferlib._core.device import Device
from xferlib.errors import LayoutError
from xferlib.sim.arrays import launching
from xferlib.sim.arrays.array import HostArray, SimArray
from xferlib.sim.machine import current
from xferlib.sim.model import ranges
from xferlib.sim.model.blocks import Spans


def _is_basic(key: Any) -> bool:
    keys = key if isinstance(key, tuple) else (key,)
    return all(
        each is None or each is Ellipsis or type(each) is int or isinstance(each, (slice, np.integer)) for each in keys
    )


def get(array: SimArray, key: Any) -> SimArray:
    """A view for integers and slices; a new array for a mask or integer arrays."""
    if _is_basic(key):
        view = array.memory()[key if isinstance(key, tuple) else (key,)]
        # NumPy returns a scalar where every axis has an index: make it an array without axes.
        if not isinstance(view, np.ndarray):
            view = array.memory()[(*(key if isinstance(key, tuple) else (key,)), ...)]
        return launching.viewed(array, view)
    return select("index", array, key if isinstance(key, tuple) else (key,))


def select(name: str, array: SimArray, keys: tuple[Any, ...]) -> SimArray:
    """A new array of the elements that masks or integer arrays among ``keys`` select."""
    device, found, is_mask = _values(name, array, keys)
    memory, stream = array.memory(), current.stream(device)
    result: list[HostArray] = []
    with current.machine().lock:
        launching.now(name, stream, lambda: result.append(np.array(memory[found])), selected(array, found))
    if is_mask:  # the number of elements depends on the mask, so the host has to wait for it
        current.machine().waits.synchronize_stream(stream)
    return launching.stored(name, result[0], device)


def _values(name: str, array: SimArray, keys: tuple[Any, ...]) -> tuple[Device, tuple[Any, ...], bool]:
    """The device, the keys with the arrays' values in stream order, and whether one is a mask.

    The bytes to access depend on the keys, so these are read at once, which is a legal order.
    """
    arrays = [each for each in keys if isinstance(each, SimArray)]
    device = launching.common_device(name, (array, *arrays))
    memories = launching.memories(arrays)
    copies: list[HostArray] = []
    if arrays:
        spans = launching.spans_of(arrays)
        launching.now(name, current.stream(device), lambda: copies.extend(each.copy() for each in memories), spans)
    values = iter(copies)
    found = tuple(next(values) if isinstance(each, SimArray) else _kept(each) for each in keys)
    return device, found, any(each.dtype == np.bool_ for each in arrays)


def _kept(key: Any) -> Any:
    return key.copy() if isinstance(key, np.ndarray) else key


def selected(array: SimArray, keys: tuple[Any, ...]) -> Spans:
    """The spans of the elements of ``array[keys]``."""
    (whole,) = array.spans() or (None,)
    if whole is None:
        return ()
    shape, strides, axes = array.shape, array.strides, array.ndim
    if all(each is not Ellipsis for each in keys):
        rest = sum(_axes(each) for each in keys)
        if c_strides(shape[rest:], array.dtype.itemsize) == strides[rest:]:
            axes = rest  # the axes without a key are contiguous
    run = math.prod(shape[axes:]) * array.dtype.itemsize
    base = array.info.pointer - array.allocation.block.pointer

    def find() -> ranges.Offsets:
        offsets = np.full((), base, np.int64)
        for axis in range(axes):
            along = np.arange(shape[axis], dtype=np.int64) * strides[axis]
            line = along.reshape(-1, *[1] * (axes - axis - 1))
            offsets = offsets + np.broadcast_to(line, shape[:axes])[keys]
        return np.asarray(offsets).reshape(-1)

    return (whole._replace(form=ranges.Cells(run, find)),)


def _axes(key: Any) -> int:
    """The number of an array's axes that a key indexes."""
    if key is None:
        return 0
    return key.ndim if isinstance(key, np.ndarray) and key.dtype == np.bool_ else 1


def put(array: SimArray, key: Any, value: Any) -> None:
    """Write a scalar or an array into a part of another array, as one operation."""
    launching.common_device("assignment", (array, value))
    launching.check_writable("assignment", array)
    if not _is_basic(key):
        _put_selected(array, key if isinstance(key, tuple) else (key,), value)
        return
    target = get(array, key)
    if isinstance(value, SimArray) and value.info == target.info:
        return  # `x[key] += y` ends with this call, the result being in its memory already
    _check_fits(value, target.shape)
    into, (source,) = target.memory(), launching.memories((value,))

    def run() -> None:
        into[...] = source

    launching.launch("assignment", run, [value] if isinstance(value, SimArray) else [], [target])


def _check_fits(value: Any, shape: tuple[int, ...]) -> None:
    if isinstance(value, SimArray) and not _broadcasts(value.shape, shape):
        raise LayoutError(f"assignment: shape {value.shape} does not fit into {shape}; reshape the value")


def _broadcasts(one: tuple[int, ...], into: tuple[int, ...]) -> bool:
    while one[:1] == (1,) and len(one) > len(into):  # NumPy ignores these
        one = one[1:]
    return len(one) <= len(into) and all(a in (1, b) for a, b in zip(one[::-1], into[::-1], strict=False))


def _put_selected(array: SimArray, keys: tuple[Any, ...], value: Any) -> None:
    _, found, _ = _values("assignment", array, keys)
    into, (source,) = array.memory(), launching.memories((value,))
    _check_fits(value, np.broadcast_to(np.uint8(0), array.shape)[found].shape)

    def run() -> None:
        into[found] = source

    stream = current.stream(array.device)
    reads = launching.spans_of([value]) if isinstance(value, SimArray) else ()
    current.machine().enqueue(
        stream, "assignment", run, reads=reads, writes=selected(array, found), nbytes=array.nbytes
    )
