"""The ring of pinned chunks through which the transfers of one device are staged.

`ring.c` knows which chunks are free, and hands them out without the GIL. Python makes them, each with an event of the
device, and frees them: `provide` before a transfer that could use more than are free, `trim` when the program asks.

Guaranteed: no chunk is freed while a copy may use it. After an error whose copies the device does not end, `lose` keeps
a transfer's chunks for ever. A chunk that Python has made is known to both sides or to none, whenever Ctrl-C comes.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from xferlib import _native
from xferlib._core.thresholds import CHUNK_NBYTES, LENT_CHUNKS, RING_CHUNKS
from xferlib._memory.domains import PerDevice
from xferlib._runtime.interrupts import deferred
from xferlib.errors import OutOfMemoryError, PinnedMemoryError

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import PinnedBlock, RawEvent, RawStream


class Ring:
    """The chunks of one device.

    Attributes:
        handle: Of the ring in C.
        setups: What transfers have in common, by stream and direction: see `xferlib._transfer.compiled_staging`.
    """

    def __init__(self, backend: Backend, device: Device) -> None:
        self._backend = backend
        self._device = device
        self.handle = _native.library().xf_ring_new()
        if self.handle is None:
            raise OutOfMemoryError(f"host memory for the staging buffers of {device} is short; free arrays")
        self.setups: dict[Any, Any] = {}
        self._chunks: dict[int, tuple[PinnedBlock, RawEvent]] = {}
        self._lost = 0
        self._lock = threading.RLock()  # reentrant: a finalizer may run inside

    def provide(self, count: int, stream: RawStream) -> None:
        """Make chunks, so that ``count`` are free, or as many as the ring may have.

        Raises:
            PinnedMemoryError: The system refuses page-locked memory, and there is no chunk at all.
        """
        library, wanted = _native.library(), min(count, LENT_CHUNKS)
        if library.xf_ring_free(self.handle) >= wanted or len(self._chunks) - self._lost >= RING_CHUNKS:
            return
        with self._lock:
            while library.xf_ring_free(self.handle) < wanted and len(self._chunks) - self._lost < RING_CHUNKS:
                try:
                    block = self._backend.pinned_alloc(CHUNK_NBYTES)
                except PinnedMemoryError:
                    if len(self._chunks) > self._lost:
                        return
                    raise
                event: Any = self._backend.event_record(stream, timing=False)
                with deferred:
                    number = library.xf_ring_add(self.handle, block.pointer, event.handle)
                    self._chunks[number] = block, event

    def lose(self, count: int) -> None:
        """Note that the device may use ``count`` chunks for ever; others are made instead."""
        with self._lock:
            self._lost += count

    def lent(self, *, is_upward: bool) -> int:
        """The number of chunks that transfers of one direction have."""
        return int(_native.library().xf_ring_lent(self.handle, is_upward))

    @property
    def nbytes(self) -> int:
        """Pinned memory held, but for lost chunks."""
        return (len(self._chunks) - self._lost) * CHUNK_NBYTES

    def trim(self) -> int:
        """Free the chunks that no transfer has; returns the bytes given up."""
        freed = 0
        self.setups.clear()
        self._backend.attach(self._device)
        with self._lock:
            while (number := _native.library().xf_ring_remove(self.handle)) >= 0:
                self._backend.event_synchronize(self._chunks[number][1])
                del self._chunks[number]  # behind the wait: where that fails, the chunk is kept for ever
                freed += 1
        return freed * CHUNK_NBYTES


rings = PerDevice(Ring)


def trim() -> int:
    """Free every ring's idle chunks; returns the bytes given up."""
    return sum(ring.trim() for ring in rings.all())
