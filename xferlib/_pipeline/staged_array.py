"""Arrays of a loop in pinned memory: the buffer that holds one, and when it may be used again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._core.layout import address
from xferlib._transfer.compiled_copies import Filling

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawEvent
    from xferlib._memory.lease import Lease


class PinnedBuffer:
    """Pinned memory for one array after the other, recycled by the pool when the last copy from it is complete."""

    __slots__ = ("_copied", "_lease", "memory", "nbytes", "pointer")

    def __init__(self, memory: HostArray, lease: Lease) -> None:
        self.memory = memory
        self._lease = lease
        self._copied: RawEvent | None = None
        self.pointer = address(memory)
        self.nbytes = memory.nbytes

    def note(self, copied: RawEvent) -> None:
        """Note the event of the last copy from this buffer."""
        self._copied = copied
        self._lease.events[:] = [copied]

    def settle(self, backend: Backend) -> None:
        """Wait until no copy uses the buffer."""
        if self._copied is not None:
            backend.event_synchronize(self._copied)


class StagedArray(NamedTuple):
    """An array whose bytes are in pinned memory, or are being staged there."""

    buffer: PinnedBuffer
    filling: Filling | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    def end(self) -> None:
        """Wait until the source is not read any more."""
        if self.filling is not None:
            self.filling.end()
