"""Copies between host arrays and pinned memory by the C: plain bytes by several threads, any layout by this one; and
how it cuts a transfer."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._core import convert
from xferlib._core.array import DTYPES
from xferlib._core.layout import address, dense_order, merged_axes
from xferlib._core.thresholds import (
    C_FIRST_BLOCK_NBYTES,
    C_GATHER_FROM,
    C_HELPER_NBYTES,
    C_HELPERS_OF_MEDIUM,
    C_LARGEST_BLOCK_PARTS,
    C_PATIENT_FROM,
    C_PIECE_LEAST,
    C_SPIN_NS,
    CHUNK_NBYTES,
    HOST_HELPER_NBYTES,
    HOST_SPIN_NS,
    MEDIUM_NBYTES,
)
from xferlib._runtime import thread_budget

if TYPE_CHECKING:
    from xferlib._core.layout import HostArray

# --- any layout


_NUMBERS = {np.dtype(name): number for number, name in enumerate(DTYPES)}
LINE = 64
"""Bytes of a line of the processor's cache, at which pieces of plain bytes begin if the array does."""


class HostForm(NamedTuple):
    """The form of host arrays, for C."""

    layout: _native.StridedLayout
    address: int
    """Of ``layout``."""
    unit: int
    """Bytes on the device: pieces of a multiple of this use lines of the cache wholly; see `xf_unit`."""


@functools.lru_cache(maxsize=128)  # loops move arrays of few forms
def form(
    shape: tuple[int, ...], strides: tuple[int, ...], given: np.dtype[Any], dtype: np.dtype[Any]
) -> HostForm | None:
    """Describe arrays of at least one element for `strided.c`; None where they have too many axes.

    Args:
        shape, strides: Of the host arrays.
        given: Their dtype, in either byte order.
        dtype: Of the device side, in native byte order.
    """
    axes = merged_axes(zip(shape, strides, strict=True)) or [(1, given.itemsize)]
    if len(axes) > _native.MOST_AXES:
        return None
    layout = _native.StridedLayout(axes=len(axes), host_size=given.itemsize, device_size=dtype.itemsize)
    for number, (extent, stride) in enumerate(axes):
        layout.extents[number] = extent
        layout.strides[number] = stride
    layout.host_type = _NUMBERS[given.newbyteorder("=")]
    layout.device_type = _NUMBERS[dtype]
    layout.is_swapped = not given.isnative
    return HostForm(layout, ctypes.addressof(layout), _native.library().xf_unit(layout))


def gather(array: HostArray, dtype: np.dtype[Any], memory: HostArray, pointer: int) -> None:
    """Copy the elements in C order to ``memory``, at an address, converted; releases the GIL."""
    found = _suitable(array, dtype)
    if found is None:
        convert.copy_into(np.ndarray(array.shape, dtype, memory), array)
    else:
        _native.library().xf_gather(found.layout, array.ctypes.data, 0, array.size, pointer, 0)


def scatter(array: HostArray, dtype: np.dtype[Any], memory: HostArray, pointer: int) -> None:
    """Fill an array from elements of ``dtype`` in C order in ``memory``, at an address; releases the GIL."""
    found = _suitable(array, dtype)
    if found is None:
        convert.copy_into(array, np.ndarray(array.shape, dtype, memory))
    else:
        _native.library().xf_scatter(found.layout, array.ctypes.data, 0, array.size, pointer, 1)


_SHORT_ROW = 8


def copy_between(dst: HostArray, src: HostArray, helpers: int) -> bool:
    """Fill a host array from one that shares no memory with it; releases the GIL.

    One of them must be in C order, aligned and in native byte order; or ``dst`` dense in another order, in which the
    axes of both are put then.

    Args:
        dst, src: Of the same shape.
        helpers: The most threads that may help.

    Returns:
        Whether that was done, not where NumPy takes no more time, or the C knows no way.
    """
    is_gathered = dst.flags.carray and dst.dtype.isnative
    if not is_gathered and not (src.flags.c_contiguous and src.flags.aligned and src.dtype.isnative):
        order = dense_order(dst.shape, dst.strides, dst.itemsize)
        if order is None or not (dst.flags.behaved and dst.dtype.isnative):
            return False
        dst, src, is_gathered = dst.transpose(order), src.transpose(order), True
        if src.dtype != dst.dtype and not _has_rows(dst.shape):
            return False
    host, plain, layout = (src, dst, None) if is_gathered else (dst, src, None)
    if host.flags.c_contiguous and src.dtype == dst.dtype:
        if src.nbytes < HOST_HELPER_NBYTES or not _native.is_on():
            return False
        host, plain = src, dst
    elif (found := _suitable(host, plain.dtype)) is not None:
        layout = found.layout
    else:
        return False
    pointers = address(host), address(plain)
    _native.library().xf_host_copy(layout, *pointers, plain.nbytes, is_gathered, *host_crew(helpers))
    return True


def _has_rows(shape: tuple[int, ...]) -> bool:
    """Whether the last two axes have elements enough for a block of them to be worth converting: as in `front.c`."""
    return shape[-1] >= _SHORT_ROW and (len(shape) < 2 or shape[-1] * shape[-2] >= _SHORT_ROW**2)


def host_crew(helpers: int) -> tuple[int, int, int, int]:
    """How threads take part in a copy between host arrays, as ``xf_host_copy`` takes it."""
    return HOST_HELPER_NBYTES, helpers, thread_budget.crew().both_ways, HOST_SPIN_NS


def _suitable(array: HostArray, dtype: np.dtype[Any]) -> HostForm | None:
    """The form of an array for which the C takes less time than NumPy, whose floats saturate in several steps."""
    given = array.dtype
    is_small = array.size * dtype.itemsize < C_GATHER_FROM
    if (is_small and not (given.kind == "f" and dtype.kind in "iu")) or not array.size or not _native.is_on():
        return None
    return form(array.shape, array.strides, given, dtype)


# --- plain bytes


def fill(pinned: int, host: int, nbytes: int) -> None:
    """Copy plain bytes into pinned memory; in a loop, spinning helper threads take part."""
    _native.library().xf_fill(*_arguments(pinned, host, nbytes))


def _arguments(pinned: int, host: int, nbytes: int) -> tuple[int, ...]:
    """The arguments of ``xf_fill``."""
    budget = thread_budget.crew()
    helpers = budget.fillers if nbytes > MEDIUM_NBYTES else min(budget.fillers, C_HELPERS_OF_MEDIUM)
    return pinned, host, nbytes, helpers, budget.each_way - 1, budget.both_ways, C_SPIN_NS


class Filling:
    """Plain bytes on their way into pinned memory.

    Args:
        pinned: The address of memory that nothing else uses.
        host: The address of as many bytes, which stay as they are until `end`.
        nbytes: The number of bytes.
        keep: Must outlive the copy.
    """

    __slots__ = ("_handle", "_keep", "_pid", "nbytes")

    def __init__(self, pinned: int, host: int, nbytes: int, keep: Any) -> None:
        arguments, library = _arguments(pinned, host, nbytes), _native.library()
        self.nbytes = nbytes
        self._keep = keep
        self._pid = os.getpid()
        self._handle: int | None = library.xf_fill_begin(*arguments)
        if self._handle is None:
            library.xf_fill(*arguments)

    def end(self) -> None:
        """Do what is left in this thread too; on return every byte is there."""
        handle, self._handle = self._handle, None
        if handle is not None and self._pid == os.getpid():  # a forked child has none of the threads
            _native.library().xf_fill_end(handle)
        self._keep = None

    def __del__(self) -> None:
        try:
            if self._handle is not None:
                self.end()
        except Exception:  # it was never begun, or the interpreter is going away
            return


# --- how a transfer is cut


class Cutting(NamedTuple):
    """Into what a transfer is cut."""

    blocks: int
    """Copies on the link."""
    first: int
    """Bytes of the first block."""
    largest: int
    """Bytes of the largest."""
    threads: int
    """The most that work on it."""


def cut(nbytes: int, unit: int, budget: thread_budget.Crew, most: int, *, is_upload: bool) -> Cutting:
    """How a transfer in a loop is cut, of an array whose pieces begin at multiples of ``unit``; as `limits` says."""
    setup, found = _native.Setup(is_upward=is_upload, **limits(budget, most)), (ctypes.c_int64 * 4)()
    _native.library().xf_cut(ctypes.byref(setup), nbytes, unit, found)
    return Cutting(*found)


def limits(budget: thread_budget.Crew, most: int) -> dict[str, int]:
    """The sizes and numbers by which transfers are cut, whose threads take up to ``most`` bytes at a time."""
    return {
        "first_block": min(C_FIRST_BLOCK_NBYTES, most), "largest_block": min(CHUNK_NBYTES, 8 * most),
        "block_parts": C_LARGEST_BLOCK_PARTS, "least_piece": min(C_PIECE_LEAST, most), "most_piece": most,
        "helper_nbytes": min(C_HELPER_NBYTES, most), "spin_ns": C_SPIN_NS if budget.fillers else 0,
        "patient_from": C_PATIENT_FROM if budget.fillers else 0,
        "each_way": budget.each_way, "clearing": budget.clearing, "both_ways": budget.both_ways,
    }  # fmt: skip
