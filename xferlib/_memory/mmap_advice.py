"""The pages of a memory map: advice to the kernel, to read some ahead and drop others; and whether the file has them.

To touch pages that it lacks, because it was truncated or its disk is full, ends the process with SIGBUS. So the length
of the file is compared before each use (`layout.refuse_truncated`). Where the disk has not even room for all, one
thread asks the kernel for the pages of each part before several threads store there.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import layout
from xferlib.errors import TransferError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.layout import HostArray

_ADVISED_NBYTES = 512 << 10
"""Bytes of one request: Linux reads ahead no more of it than the disk's largest request or its read-ahead."""

_UNNAMED = {"MADV_POPULATE_WRITE": 23} if sys.platform == "linux" else {}
"""Options that `mmap` does not name; this one is of Linux 5.14."""

_HUGE_FROM = 8 << 20
"""Smaller memory is often recycled by the C library. A new tensor of 64 MiB takes 19 ms to fill, and 106 without."""


class Pages:
    """The pages of an array in a memory map; advice on rows that are not contiguous is a no-op.

    So it is on private maps (copy-on-write), whose written pages are in no file.
    """

    def __init__(self, array: Any, file: Any, *, is_shared: bool) -> None:
        self._array = array  # its memory is mapped as long as it lives
        self._file = file
        """Its name, where that is known."""
        self._address = array.ctypes.data
        is_advised = is_shared and array.flags.c_contiguous and len(array)
        self._row_nbytes = array.strides[0] if is_advised else 0

    @classmethod
    def of(cls, array: Any) -> Pages | None:
        """Create for an array in a file's map; None for other arrays."""
        found = layout.mapped(array)
        memory = getattr(found, "_mmap", found)
        if not isinstance(memory, mmap.mmap) or not np.may_share_memory(np.frombuffer(memory, np.uint8), array):
            return None
        return cls(array, getattr(found, "filename", None), is_shared=getattr(found, "mode", "c") != "c")

    def refuse_truncated(self, what: str) -> None:
        """Refuse an array whose file has become shorter.

        Raises:
            LayoutError: It ends before the array does.
        """
        layout.refuse_truncated(self._array, f"stream_map: {what}")

    def reserve(self, start: int, stop: int) -> None:
        """Have room for these rows on a disk that may be full.

        Raises:
            TransferError: There is none.
        """
        low, high = self._bounds(start, stop)
        if high > low and not self._has_room():
            first = low // mmap.PAGESIZE * mmap.PAGESIZE
            if _advise("MADV_POPULATE_WRITE", first, high - first) == errno.EFAULT:
                raise TransferError(
                    f"stream_map: the disk of {self._file} has no room for rows {start} to {stop} of out; "
                    "free some, or give out a file on another disk"
                )

    def _has_room(self) -> bool:
        """Whether the disk has room for all rows; True where that is not known."""
        try:
            disk = os.statvfs(self._file)
        except (AttributeError, OSError, TypeError):  # not on Windows; the name is gone; memory, made like a map
            return True
        return bool(disk.f_bavail * disk.f_frsize >= self._array.nbytes)

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


def _advise(name: str, address: int, nbytes: int) -> int:
    """Call madvise, and return its error number; if advice fails, speed is lost and nothing else."""
    option, madvise = getattr(mmap, name, _UNNAMED.get(name)), _madvise()
    if option is None or madvise is None or not madvise(address, nbytes, option):
        return 0
    return ctypes.get_errno()


@functools.cache
def _madvise() -> Callable[[Any, Any, int], int] | None:
    """The C function, called without the GIL; the method of `mmap` would hold it."""
    function = None if os.name == "nt" else getattr(ctypes.CDLL(None, use_errno=True), "madvise", None)
    if function is not None:
        function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
    return function
