"""How a staged transfer is cut into pieces, each one chunk of the ring."""

from __future__ import annotations

import functools
import itertools
from ctypes import memmove
from typing import Any, NamedTuple, Protocol

import numpy as np

from xferlib._core.convert import copy_into
from xferlib._core.layout import HostArray, address, chunked
from xferlib._core.thresholds import (
    PYTHON_ENDS_FROM,
    PYTHON_FIRST_PIECES,
    PYTHON_HELPER_NBYTES,
    PYTHON_LAST_PIECES,
    PYTHON_PIECE_LEAST,
    PYTHON_PIECE_MOST,
)
from xferlib._memory import host
from xferlib._memory.staging_ring import Chunk
from xferlib._runtime import thread_budget


def helpers(nbytes: int) -> int:
    """How many threads are worth waking beside the caller's."""
    return min(thread_budget.crew().each_way - 1, nbytes // PYTHON_HELPER_NBYTES)


def chunk_nbytes(nbytes: int) -> int:
    """Bytes of a chunk: small enough that filling and sending overlap, large enough to be few."""
    share = nbytes // (2 * (helpers(nbytes) + 1))
    return max(PYTHON_PIECE_LEAST, min(PYTHON_PIECE_MOST, -(-share // 65536) * 65536))


_WORDS = (4, 8, 16)
"""Rows of these sizes are copied as single words; NumPy is faster with smaller ones."""


class Rows(NamedTuple):
    """Bytes to be copied as they are, in rows of one size and distance."""

    address: int
    total: int
    """Bytes, without the gaps."""
    nbytes: int
    """Of a row; 0 where the bytes are contiguous."""
    stride: int
    unit: int
    """Bytes that are not to be divided."""
    least: int
    """Fewest bytes of a piece, except for the last: two threads that fault in one huge page both clear it."""
    limit: int
    """Most bytes of a piece."""
    parts: Any = None
    """An array of `xferlib._native.Part`, for scattered memory instead of ``address``."""


class Memory(Protocol):
    """Host memory to stage."""

    @property
    def count(self) -> int:
        """Parts in which Python would stage it."""

    def rows(self) -> Rows | None:
        """The bytes to copy, if they stay as they are and form rows; else None."""


class Pieces(Memory, Protocol):
    """A host array cut into numbered parts, each contiguous on the device."""

    def span(self, index: int) -> tuple[int, int]:
        """Offset and size in bytes on the device."""

    def fill(self, index: int, chunk: Chunk) -> tuple[int, int]:
        """Copy part ``index`` into a chunk; returns its span."""

    def drain(self, index: int, chunk: Chunk) -> None:
        """Copy a chunk into part ``index``."""


def _spans(nbytes: int, limit: int) -> list[tuple[int, int]]:
    """Offsets and sizes of pieces of at most ``limit`` bytes, smaller at both ends of a large transfer."""
    first, last = (PYTHON_FIRST_PIECES, PYTHON_LAST_PIECES) if nbytes >= PYTHON_ENDS_FROM else ((), ())
    head, tail = ([min(size, limit) for size in sizes] for sizes in (first, last))
    middle = nbytes - sum(head) - sum(tail)
    sizes = [*head, *[limit] * (middle // limit), *([middle % limit] if middle % limit else []), *tail]
    return list(zip(itertools.accumulate(sizes, initial=0), sizes, strict=False))


class Scattered:
    """Memory in parts at any address, which only the C can collect.

    Args:
        parts: An array of `xferlib._native.Part`, in the order of their offsets.
        nbytes: From the offset of the first to the end of the last.
        owner: Keeps the memory alive.
    """

    __slots__ = ("_limit", "_nbytes", "_owner", "_parts")

    def __init__(self, parts: Any, nbytes: int, owner: Any) -> None:
        self._parts = parts
        self._nbytes = nbytes
        self._owner = owner
        self._limit = chunk_nbytes(nbytes)

    @property
    def count(self) -> int:
        return -(-self._nbytes // self._limit)

    def rows(self) -> Rows:
        return Rows(0, self._nbytes, 0, 0, 1, 0, self._limit, self._parts)


class _Plain:
    """Parts of a C-contiguous array of the device's dtype: bytes are bytes."""

    def __init__(self, array: HostArray, limit: int) -> None:
        self._array = array  # keeps the memory alive
        self._limit = limit
        self._start = address(array)

    @functools.cached_property
    def _spans(self) -> list[tuple[int, int]]:
        return _spans(self._array.nbytes, self._limit)

    @property
    def count(self) -> int:
        return len(self._spans)

    def rows(self) -> Rows:
        least = host.HUGE if host.is_fresh(self._array) else 0
        return Rows(self._start, self._array.nbytes, 0, 0, 1, least, self._limit)

    def span(self, index: int) -> tuple[int, int]:
        return self._spans[index]

    def fill(self, index: int, chunk: Chunk) -> tuple[int, int]:
        offset, nbytes = span = self._spans[index]
        memmove(chunk.pointer, self._start + offset, nbytes)
        return span

    def drain(self, index: int, chunk: Chunk) -> None:
        offset, nbytes = self._spans[index]
        memmove(self._start + offset, chunk.pointer, nbytes)


class _Converted:
    """Parts of any other array: gathered or scattered, and converted, in one pass."""

    __slots__ = ("_array", "_chunks", "_dtype", "_limit", "count")

    def __init__(self, array: HostArray, dtype: np.dtype[Any], limit: int) -> None:
        self._array = array
        self._limit = limit
        self._chunks = chunked(array, dtype.itemsize, limit)
        self._dtype = dtype
        self.count = self._chunks.count

    def rows(self) -> Rows | None:
        if self._array.dtype != self._dtype:
            return None
        flat, itemsize = self._chunks.array, self._dtype.itemsize
        if flat.ndim == 1:
            nbytes = itemsize
        elif flat.ndim == 2 and flat.strides[1] == itemsize:
            nbytes = flat.shape[1] * itemsize
        else:
            return None
        if nbytes < min(_WORDS):
            return None
        unit = nbytes if nbytes in _WORDS else itemsize  # a piece begins and ends with one
        return Rows(int(flat.ctypes.data), flat.nbytes, nbytes, flat.strides[0], unit, 0, self._limit)

    def span(self, index: int) -> tuple[int, int]:
        offset, part = self._chunks[index]
        return offset, part.size * self._dtype.itemsize

    def fill(self, index: int, chunk: Chunk) -> tuple[int, int]:
        offset, part = self._chunks[index]
        nbytes = part.size * self._dtype.itemsize
        copy_into(chunk.as_array(part.shape, self._dtype, nbytes), part)
        return offset, nbytes

    def drain(self, index: int, chunk: Chunk) -> None:
        _, part = self._chunks[index]
        copy_into(part, chunk.as_array(part.shape, self._dtype, part.size * self._dtype.itemsize))


def pieces(array: HostArray, dtype: np.dtype[Any]) -> Pieces:
    """Cut a host array for staging.

    Args:
        array: At least one element.
        dtype: Of the device side.
    """
    limit = chunk_nbytes(array.size * dtype.itemsize)
    if array.dtype == dtype and array.flags.c_contiguous:
        return _Plain(array, limit)
    return _Converted(array, dtype, limit)
