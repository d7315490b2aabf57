"""How a staged transfer is cut into pieces, each one chunk of the ring."""

from __future__ import annotations

import functools
import itertools
from ctypes import memmove
from typing import Any, NamedTuple, Protocol

import numpy as np

from xferlib._core.convert import copy_into
from xferlib._core.layout import Chunks, HostArray, address, chunked
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
from xferlib._transfer import compiled_copies
from xferlib._transfer.compiled_copies import HostForm


def helpers(nbytes: int) -> int:
    """How many threads are worth waking beside the caller's."""
    return min(thread_budget.crew().each_way - 1, nbytes // PYTHON_HELPER_NBYTES)


def chunk_nbytes(nbytes: int) -> int:
    """Bytes of a chunk: small enough that filling and sending overlap, large enough to be few."""
    share = nbytes // (2 * (helpers(nbytes) + 1))
    return max(PYTHON_PIECE_LEAST, min(PYTHON_PIECE_MOST, -(-share // 65536) * 65536))


_WIDEST = 16
"""Bytes of the widest element."""


class Staged(NamedTuple):
    """Host memory as C stages it; sizes are in bytes on the device."""

    address: int
    total: int
    unit: int
    """Bytes that are not to be divided."""
    least: int
    """Fewest bytes of a piece, except for the last: two threads that fault in one huge page both clear it."""
    limit: int
    """Most bytes of a piece."""
    strided: HostForm | None = None
    """Of an array whose bytes are not contiguous, or are converted."""
    parts: Any = None
    """An array of `xferlib._native.Part`, for scattered memory instead of ``address``."""
    regions: tuple[tuple[int, int], ...] = ()
    """Addresses and sizes on the device, if that is scattered too."""


class Memory(Protocol):
    """Host memory to stage."""

    @property
    def count(self) -> int:
        """Parts in which Python would stage it."""

    def staged(self) -> Staged | None:
        """The memory, for C; None where only Python can stage it."""


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
        regions: Where they are on the device, if not one behind the other.
    """

    __slots__ = ("_limit", "_nbytes", "_owner", "_parts", "_regions")

    def __init__(self, parts: Any, nbytes: int, owner: Any, regions: tuple[tuple[int, int], ...] = ()) -> None:
        self._parts = parts
        self._nbytes = nbytes
        self._owner = owner
        self._limit = chunk_nbytes(nbytes)
        self._regions = regions

    @property
    def nbytes(self) -> int:
        return self._nbytes

    @property
    def count(self) -> int:
        return -(-self._nbytes // self._limit)

    def staged(self) -> Staged:
        unit = _WIDEST if self._regions else 1
        return Staged(0, self._nbytes, unit, 0, self._limit, parts=self._parts, regions=self._regions)


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

    def staged(self) -> Staged:
        least = host.HUGE if host.is_fresh(self._array) else 0
        return Staged(self._start, self._array.nbytes, 1, least, self._limit)

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

    def __init__(self, array: HostArray, dtype: np.dtype[Any], limit: int) -> None:
        self._array = array
        self._limit = limit
        self._dtype = dtype

    @functools.cached_property
    def _chunks(self) -> Chunks:
        return chunked(self._array, self._dtype.itemsize, self._limit)

    @property
    def count(self) -> int:
        return self._chunks.count

    def staged(self) -> Staged | None:
        array, dtype = self._array, self._dtype
        found = compiled_copies.form(array.shape, array.strides, array.dtype, dtype)
        if found is None:
            return None
        unit = found.unit if found.unit <= self._limit else dtype.itemsize
        return Staged(array.ctypes.data, array.size * dtype.itemsize, unit, 0, self._limit, found)

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
