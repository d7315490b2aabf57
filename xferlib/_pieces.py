"""How a staged transfer is cut into pieces, each one chunk of the ring."""

from __future__ import annotations

from ctypes import memmove
from typing import Any, Protocol

import numpy as np

from xferlib import _config, _staging
from xferlib._convert import copy_into
from xferlib._layout import HostArray, chunked
from xferlib._staging import Chunk

_SMALLEST_CHUNK = 512 << 10
_END_NBYTES = 1 << 20
_END_PIECES = 8
"""A large transfer begins and ends with this many pieces of that size."""
_HELPER_NBYTES = 4 << 20
"""A thread that sleeps takes about 50 us to come: it pays from about here."""


def helpers(nbytes: int) -> int:
    """How many threads are worth waking beside the caller's."""
    return min(_config.staging_threads() - 1, nbytes // _HELPER_NBYTES)


def chunk_nbytes(nbytes: int) -> int:
    """Bytes of a chunk: small enough that filling and sending overlap, large enough to be few."""
    share = nbytes // (2 * (helpers(nbytes) + 1))
    return max(_SMALLEST_CHUNK, min(_staging.CHUNK_NBYTES, -(-share // 65536) * 65536))


class Pieces(Protocol):
    """A host array cut into numbered parts, each contiguous on the device."""

    count: int

    def span(self, index: int) -> tuple[int, int]:
        """Offset and size in bytes on the device."""

    def fill(self, index: int, chunk: Chunk) -> tuple[int, int]:
        """Copy part ``index`` into a chunk; returns its span."""

    def drain(self, index: int, chunk: Chunk) -> None:
        """Copy a chunk into part ``index``."""


def _spans(nbytes: int, limit: int) -> list[tuple[int, int]]:
    """Offsets and sizes of pieces: small at both ends, so that the link starts early and little is left after it."""
    small = min(_END_NBYTES, limit)
    ends = _END_PIECES * small if nbytes >= 4 * _END_PIECES * small else 0
    starts = [
        *range(0, ends, small),
        *range(ends, nbytes - ends, limit),
        *range(nbytes - ends, nbytes, small),
    ]
    return [(start, stop - start) for start, stop in zip(starts, [*starts[1:], nbytes], strict=True)]


class _Plain:
    """Parts of a C-contiguous array of the device's dtype: bytes are bytes."""

    __slots__ = ("_array", "_spans", "_start", "count")

    def __init__(self, array: HostArray, limit: int) -> None:
        self._array = array  # keeps the memory alive
        self._start = array.ctypes.data
        self._spans = _spans(array.nbytes, limit)
        self.count = len(self._spans)

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

    __slots__ = ("_chunks", "_dtype", "count")

    def __init__(self, array: HostArray, dtype: np.dtype[Any], limit: int) -> None:
        self._chunks = chunked(array, dtype.itemsize, limit)
        self._dtype = dtype
        self.count = self._chunks.count

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
