"""The host's end of a copy between host and device: the facts that a plan is made from, each found once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core.layout import HostArray, address, refuse_truncated
from xferlib._memory import pinned_ranges

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._memory.pinned_ranges import PinnedRanges

_UNKNOWN: Any = object()


class HostEnd:
    """A host array, the source of an upload or the destination of a download, and the device's side of the copy.

    Args:
        array: Of any layout.
        dtype: Of the elements on the device.
        backend: Of the device.

    Raises:
        LayoutError: It is a memory map of a file that has been truncated.
    """

    __slots__ = ("_pinned", "_pointer", "array", "backend", "dtype", "nbytes")

    def __init__(self, array: HostArray, dtype: np.dtype[Any], backend: Backend) -> None:
        refuse_truncated(array, "the array")
        self.array = array
        self.dtype = dtype
        self.backend = backend
        self.nbytes: int = array.size * dtype.itemsize
        """Of the elements on the device."""
        self._pointer = 0
        self._pinned: PinnedRanges | None = _UNKNOWN

    @property
    def is_plain(self) -> bool:
        """The bytes are contiguous, and the same on both sides."""
        return bool(self.array.dtype == self.dtype and self.array.flags.c_contiguous)

    @property
    def pointer(self) -> int:
        """The address of the first element."""
        if not self._pointer:
            self._pointer = address(self.array)
        return self._pointer

    @property
    def pinned(self) -> PinnedRanges | None:
        """The page-locked memory of an array in C order; None: it is pageable. The first look may ask the driver."""
        if self._pinned is _UNKNOWN:
            self._pinned = pinned_ranges.find(self.pointer, self.array.nbytes, self.backend)
        return self._pinned
