"""How arrays lie in memory: shapes, axes, addresses, bounds, axes that merge, chunks of contiguous destination."""

from __future__ import annotations

import functools
import math
import mmap
import operator
from collections.abc import Callable, Iterable, Sequence
from ctypes import addressof, c_char
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from xferlib.errors import LayoutError, LayoutIndexError, LayoutTypeError, shown

HostArray = np.ndarray[Any, Any]
Between: Any = type(as_strided(np.empty(1), (1,)).base)
"""The type of what NumPy puts between an array and windows of it."""


def mapped(array: Any) -> Any:
    """The memory map whose memory an array is: a ``numpy.memmap``, an ``mmap.mmap`` behind it, or None.

    ``np.asarray`` of a map, and a view of that, are plain arrays with the map among their bases.
    """
    while array is not None:
        if isinstance(array, np.ndarray):
            if isinstance(array, np.memmap) and getattr(array, "_mmap", None) is not None:
                return array
            array = array.base  # also of a result of arithmetic with a map, which is no map
        elif isinstance(array, memoryview):
            array = array.obj
        elif type(array) is Between:
            array = array.base
        else:
            return array if isinstance(array, mmap.mmap) else None
    return None


def refuse_truncated(array: Any, what: str) -> None:
    """Refuse a memory map whose file has become shorter: to touch pages that it lacks ends the process with SIGBUS.

    Of one that is whole this is one system call; of other arrays nothing.

    Raises:
        LayoutError: The file ends before the array does.
    """
    if type(array) is np.ndarray and array.base is None:
        return
    found = mapped(array)
    if found is None or not array.size:
        return
    is_numpys = found.__class__ is not mmap.mmap
    memory: Any = found._mmap if is_numpys else found
    offset: int = (found.offset or 0) if is_numpys else 0  # others do not tell: a longer file is none that was cut
    begin = offset - offset % mmap.ALLOCATIONGRANULARITY
    try:
        nbytes = memory.size()
    except (OSError, ValueError):  # anonymous memory; closed
        return
    if nbytes >= begin + len(memory):
        return
    from pathlib import Path  # takes milliseconds, which `import xferlib` need not

    file = found.filename if is_numpys else None
    if not nbytes and not (file and Path(file).is_file()) and is_numpys:  # a device, whose length says nothing
        return
    # Views have the offset of the whole map.
    end = np.lib.array_utils.byte_bounds(array)[1] - np.frombuffer(memory, np.uint8).ctypes.data
    if 0 < end <= len(memory) and nbytes < begin + end:
        raise LayoutError(
            f"{what} is a memory map of {begin + end} bytes of {file or 'a file'}, which has been truncated to "
            f"{nbytes}; map the file again, or write it anew"
        )


@functools.cache
def _addresser() -> Callable[[Any], int] | None:
    """`xferlib._native.driver_calls.addresser`, imported lazily, on the first array."""
    from xferlib._native import driver_calls

    return driver_calls.addresser()


def address_in_order(array: HostArray) -> int:
    """`address` of an array in C order that is not empty; 0 of any other."""
    find = _addresser()
    if find is not None:
        return find(array)
    return address(array) if array.flags.c_contiguous and array.nbytes else 0


def address(array: HostArray) -> int:
    """``array.ctypes.data`` at a fraction of its cost, where the array is in C order."""
    find = _addresser()
    if find is not None and (found := find(array)):
        return found
    if array.flags.carray and array.nbytes:
        return addressof(c_char.from_buffer(array))  # type: ignore[arg-type]
    return int(array.ctypes.data)


_MOST_DIMENSIONS = 64
_MOST_ELEMENTS = (1 << 63) // 16 - 1
"""NumPy's limits, at 16 bytes an element."""


def shape_of(shape: Any, *, what: str = "shape") -> tuple[int, ...]:
    """A shape, given as an integer or a sequence of integers.

    Raises:
        LayoutTypeError: It is neither.
        LayoutError: An extent is negative, or there are more axes or elements than any array has.
    """
    try:
        is_one = not hasattr(shape, "__iter__") or getattr(shape, "ndim", 1) == 0
        extents = (int(shape.__index__()),) if is_one else tuple(int(n.__index__()) for n in shape)
    except Exception:  # a foreign object may raise anything; it is not a shape
        raise LayoutTypeError(f"{what}={shown(shape)} is no shape; give an int or a sequence of ints") from None
    if any(extent < 0 for extent in extents):
        raise LayoutError(f"{what}={shown(extents)} has a negative extent; extents are 0 or more")
    if len(extents) > _MOST_DIMENSIONS or math.prod([extent for extent in extents if extent]) > _MOST_ELEMENTS:
        raise LayoutError(
            f"{what}={shown(extents)} is too large; an array has at most {_MOST_DIMENSIONS} dimensions, and no more "
            "bytes than can be addressed"
        )
    return extents


def integer_of(number: Any, *, what: str) -> int:
    """An integer, given as one of any kind; an array is none, because it may be on a device.

    Raises:
        LayoutTypeError: It is none.
    """
    try:
        if not hasattr(number, "__dlpack__"):
            return operator.index(number)
        raise TypeError
    except Exception:  # a foreign object may raise anything; it is no integer
        raise LayoutTypeError(f"{what}={shown(number)} is no integer; give one") from None


def axis_of(name: str, axis: Any, ndim: int) -> int:
    """An axis of an array, counted from the first.

    Raises:
        LayoutTypeError: It is no integer.
        LayoutIndexError: There is no such axis.
    """
    if isinstance(axis, (int, np.integer)) and -ndim <= axis < ndim:
        return int(axis) % ndim
    remedy = f"give one from {-ndim} to {ndim - 1}" if ndim else "reshape the array first"
    kind = LayoutIndexError if isinstance(axis, (int, np.integer)) else LayoutTypeError
    raise kind(f"{name}: axis={shown(axis)} is no axis of an array of {ndim}; {remedy}")


def axes_of(name: str, axes: Any, ndim: int) -> tuple[int, ...]:
    """Axes of an array, counted from the first: one, a tuple, or None for all.

    Raises:
        LayoutTypeError: They are no integers.
        LayoutError: There is no such axis, or it is named twice.
    """
    if axes is None:
        return tuple(range(ndim))
    found = tuple([axis_of(name, each, ndim) for each in (axes if isinstance(axes, tuple) else (axes,))])
    if len(set(found)) < len(found):
        raise LayoutError(f"{name}: axis={axes} names an axis twice; name each once")
    return found


def merged(array: HostArray) -> HostArray:
    """The same elements in the same C order with the fewest dimensions, never copied."""
    if array.flags.c_contiguous:
        return array.reshape(-1)
    axes = merged_axes(zip(array.shape, array.strides, strict=True))
    return array if len(axes) == array.ndim else array.reshape([extent for extent, _ in axes] or (1,))


def merged_axes(axes: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The same elements in the same order with the fewest axes: no extent of 1, no neighbours that advance together.

    Args:
        axes: Outermost first; of each its extent, then its byte stride in every operand.
    """
    merged: list[tuple[int, ...]] = []
    last: tuple[int, ...] = ()
    for axis in axes:
        extent = axis[0]
        if extent == 1:
            continue
        for outer, inner in zip(last[1:], axis[1:], strict=False):  # the first has none before it
            if outer != inner * extent:
                break
        else:
            if last:
                last = merged[-1] = (last[0] * extent, *axis[1:])
                continue
        merged.append(axis)
        last = axis
    return merged


def bounds(pointer: int, shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """The first byte, and the one after the last, that an array can touch."""
    low = high = pointer
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 0:
            return pointer, pointer
        if stride < 0:
            low += stride * (extent - 1)
        else:
            high += stride * (extent - 1)
    return low, high + itemsize


@dataclass(frozen=True, slots=True)
class Chunks:
    """A C-order partition of an array along one axis, leading axes taken one index at a time.

    Chunk ``i`` covers ``rows`` rows (fewer at the end of the axis) of the axis ``axis``.
    """

    array: HostArray
    """As `merged` gives it."""
    axis: int
    rows: int
    blocks: int
    """Chunks along ``axis`` for each index of the leading axes."""
    count: int
    inner: int
    """Destination bytes of one row."""

    def __getitem__(self, index: int) -> tuple[int, HostArray]:
        """Chunk ``index``: its destination offset in bytes, and its elements."""
        lead, block = divmod(index, self.blocks)
        start = block * self.rows
        stop = min(start + self.rows, self.array.shape[self.axis])
        offset = (lead * self.array.shape[self.axis] + start) * self.inner
        leading = []
        for extent in reversed(self.array.shape[: self.axis]):
            lead, position = divmod(lead, extent)
            leading.append(position)
        return offset, self.array[(*reversed(leading), slice(start, stop))]


def chunked(array: HostArray, itemsize: int, chunk_nbytes: int) -> Chunks:
    """Cut an array into chunks of at most ``chunk_nbytes`` at the destination.

    Args:
        array: At least one element.
        itemsize: Bytes of an element at the destination, at most ``chunk_nbytes``.
    """
    flat = merged(array)
    axis, inner = 0, itemsize * math.prod(flat.shape[1:])
    while inner > chunk_nbytes:
        axis += 1
        inner //= flat.shape[axis]
    extent = flat.shape[axis]
    blocks = -(-extent // max(chunk_nbytes // inner, 1))
    rows = -(-extent // blocks)
    blocks = -(-extent // rows)
    return Chunks(flat, axis, rows, blocks, blocks * math.prod(flat.shape[:axis]), inner)


@functools.lru_cache(maxsize=256)
def dense_order(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, ...] | None:
    """The axis order in which a dense array is C-contiguous in memory; None if it has gaps.

    ``array.transpose(order)`` is then C-contiguous: a transposed or Fortran array is one.
    """
    order = tuple(sorted(range(len(shape)), key=lambda axis: (-strides[axis], -shape[axis])))
    dense = itemsize
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != dense and 0 not in shape:
            return None
        dense *= shape[axis]
    return order


_SHARED_MEMORY_WORK = 100_000
"""Steps of NumPy's exact search, of some nanoseconds each; it may need exponentially many."""


def share_memory(one: HostArray, two: HostArray) -> bool:
    """Whether some byte belongs to both; columns beside each other share none. True where that is too hard to say."""
    if not np.may_share_memory(one, two):
        return False
    try:
        return np.shares_memory(one, two, max_work=_SHARED_MEMORY_WORK)  # type: ignore[arg-type]  # any int
    except np.exceptions.TooHardError:
        return True


# --- the same of arrays on any device, by their addresses

_START = 1 << 12
"""An address like any other."""


class _Memory:
    """An array interface over an address that NumPy never dereferences."""

    def __init__(self, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> None:
        self.__array_interface__ = {
            "version": 3, "data": (pointer, False), "shape": shape, "strides": strides, "typestr": f"|V{itemsize}",
        }  # fmt: skip


def share_bytes(
    one: tuple[int, tuple[int, ...], tuple[int, ...], int], two: tuple[int, tuple[int, ...], tuple[int, ...], int]
) -> bool:
    """Whether two arrays, each (pointer, shape, strides, itemsize), have a byte in common; True if too hard to say.

    Empty arrays share nothing.
    """
    return share_memory(_as_array(*one), _as_array(*two))


def _as_array(*memory: Any) -> np.ndarray[Any, Any]:
    return np.asarray(_Memory(*memory))


def overlaps_itself(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether two elements of an array have a byte in common, as after broadcasting; True if too hard to say."""
    if 0 in shape:
        return False  # NumPy's strides are often 0 then
    steps = sorted((abs(stride), extent) for extent, stride in zip(shape, strides, strict=True) if extent > 1)
    reach = itemsize
    for stride, extent in steps:
        if stride < reach:
            break
        reach = stride * (extent - 1) + reach
    else:
        return False
    if not steps[0][0]:
        return True
    # Of two elements let the index be another along this axis and the same along those before it: the first of them is
    # among the elements at 0, the second among those from 1 on.
    for axis, (stride, extent) in enumerate(steps):
        shape, strides = (tuple(each[kind] for each in steps[axis + 1 :]) for kind in (1, 0))
        first = _START, shape, strides, itemsize
        if share_bytes(first, (_START + stride, (extent - 1, *shape), (stride, *strides), itemsize)):
            return True
    return False
