"""Advice to the kernel about the pages of a memory map: read these ahead, drop those."""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.layout import HostArray

_ADVISED_NBYTES = 512 << 10
"""Bytes of one request: Linux reads ahead no more of it than the disk's largest request or its read-ahead."""

_HUGE_FROM = 8 << 20
"""Smaller memory is often recycled by the C library. A new tensor of 64 MiB takes 19 ms to fill, and 106 without."""


class Pages:
    """The pages of an array whose rows are contiguous in a memory map; no-ops for others."""

    def __init__(self, array: HostArray) -> None:
        self._array = array  # its memory is mapped as long as it lives
        self._address = array.ctypes.data
        self._row_nbytes = array.strides[0] if array.flags.c_contiguous and len(array) else 0

    @classmethod
    def of(cls, array: Any) -> Pages | None:
        """Create for a shared, file-backed memmap; None for private (copy-on-write) maps: dirty pages must stay."""
        memory = getattr(array, "_mmap", None)
        if not isinstance(memory, mmap.mmap) or getattr(array, "mode", "c") == "c":
            return None
        return cls(array) if np.may_share_memory(np.frombuffer(memory, np.uint8), array) else None

    def will_need(self, start: int, stop: int) -> None:
        """Read these rows from the disk, in order."""
        low, high = self._bounds(start, stop)
        if high > low:
            for first in range(low // mmap.PAGESIZE * mmap.PAGESIZE, high, _ADVISED_NBYTES):
                _advise("MADV_WILLNEED", first, min(_ADVISED_NBYTES, high - first))

    def let_go(self, start: int, stop: int) -> None:
        """Unmap these rows; they stay in the kernel's page cache while it has room."""
        low, high = self._bounds(start, stop)
        page = mmap.PAGESIZE
        low, high = -(-low // page) * page, high // page * page
        if high > low:
            _advise("MADV_DONTNEED", low, high - low)

    def _bounds(self, start: int, stop: int) -> tuple[int, int]:
        """Addresses of the first byte and behind the last."""
        return self._address + start * self._row_nbytes, self._address + stop * self._row_nbytes


def prefer_huge(array: HostArray) -> None:
    """Let fresh memory of an array lie on huge pages, as NumPy's own does.

    The system clears each page at its first write: 4 KiB at a time that takes longer than the copy.
    """
    if array.nbytes >= _HUGE_FROM:
        low = -(-array.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
        _advise("MADV_HUGEPAGE", low, array.ctypes.data + array.nbytes - low)


def _advise(name: str, address: int, nbytes: int) -> None:
    """Call madvise; if it fails, speed is lost and nothing else."""
    option, madvise = getattr(mmap, name, None), _madvise()
    if option is not None and madvise is not None:
        madvise(address, nbytes, option)


@functools.cache
def _madvise() -> Callable[[Any, Any, int], int] | None:
    """The C function, called without the GIL; the method of `mmap` would hold it."""
    function = None if os.name == "nt" else getattr(ctypes.CDLL(None), "madvise", None)
    if function is not None:
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
    return function
