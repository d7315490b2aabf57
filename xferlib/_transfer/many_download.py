"""Many arrays of one device to the host, of any number and sizes.

The obvious way, one copy after the other, each into memory of its own, waits for each; and to describe all of them
before the first is copied leaves the link idle for as long as a third of the copying takes.

So arrays are added one by one, and copied in groups that double in size: the link carries one group while Python
describes the next. Those of a group that go into pinned memory share one lease, and are enqueued by one call of C.
Those that go into ordinary memory are one staged transfer; the larger ones have memory of their own, the others of a
group share some. Small arrays come last, and all together: on a GPU a kernel puts them one behind the other, into
pinned memory if that is where they end, else into a slab on the device, which is a part of the transfer.

Guaranteed: on return of `finish` and `abort` no copy is in flight.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._core import observe
from xferlib._core.array import Array
from xferlib._core.layout import address
from xferlib._core.observe import Kind
from xferlib._core.thresholds import (
    GATHERED_LEAVES_MOST,
    GROUP_NBYTES,
    MEDIUM_NBYTES,
    PACKED_DOWN_FROM,
    PACKED_LEAF_MOST,
)
from xferlib._memory import host, in_flight, pinned, slab
from xferlib._transfer import compiled_staging, download, many, plan, regions, relayout, staged, upload
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.packing import ALIGNMENT, BYTE
from xferlib._transfer.regions import PlainCopy
from xferlib._transfer.upload import Upload

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream
    from xferlib._transfer.handle import Transfer
    from xferlib._transfer.regions import Regions

_FIRST = 2 * GROUP_NBYTES
"""Bytes of the first group: less is copied when all is described."""
_ALL = 1 << 62
_INTEGER = np.dtype(np.int64)
_THREADS = 256
"""Of a block, which gathers one array."""

_GATHER = """
typedef long long i64;
struct Piece { const char* from; i64 offset; i64 nbytes; };

extern "C" __global__ void gather_pieces(char* dst, const Piece* pieces) {
    Piece piece = pieces[blockIdx.x];
    char* to = dst + piece.offset;
    i64 done = 0;
    if (!(((i64)piece.from | (i64)to) & 15)) {
        i64 words = piece.nbytes / 16;
        for (i64 i = threadIdx.x; i < words; i += blockDim.x) ((uint4*)to)[i] = ((const uint4*)piece.from)[i];
        done = words * 16;
    }
    for (i64 i = done + threadIdx.x; i < piece.nbytes; i += blockDim.x) to[i] = piece.from[i];
}
"""


class _Leaf(NamedTuple):
    """An array on the device, in C order, and its number in the tree."""

    number: int
    array: Array
    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int


class ManyDownload:
    """Arrays of one device on their way to the host.

    Args:
        results: Filled in by number.
        backend: Of the device, which is attached.
        stream: After whose work the copies run.
        is_pinned: The results are in pinned memory.
    """

    def __init__(self, results: list[Any], backend: Backend, stream: RawStream, *, is_pinned: bool) -> None:
        device = stream.device
        self._results = results
        self._backend = backend
        self._stream = stream
        self._is_pinned = is_pinned
        self._can_stage = many.can_stage(backend, stream)
        self._gathers = device.kind == "cuda"
        self._small: list[_Leaf] = []
        self._group: list[_Leaf] = []
        self._nbytes = 0
        """Of the group."""
        self._most = self._first = _FIRST if observe.active is None else _ALL
        """A recording is told of all bytes when the first are copied."""
        self._transfers: list[Transfer] = []
        self._shipment: many.Shipment | None = None
        self._kept: list[Any] = []
        """Memory that copies read, besides the arrays."""
        self._has_copies = False
        """Copies into pinned memory may be in flight."""
        self.alone: list[int] = []
        """The numbers of arrays that are left to the caller."""
        self._carried = 0
        """Bytes of the others."""
        self._recorder = observe.active
        self._since = self._recorder.begin(backend) if self._recorder is not None else None

    def add(self, number: int, array: Array) -> None:
        """Copy an array to the host; if that cannot be done here, its number is in `alone` when this ends."""
        fast = self._backend.fast
        found = fast.whole(array) if fast is not None else _whole(array, self._backend)
        nbytes = math.prod(found[1]) * found[2].itemsize if found is not None else 0
        if found is None or not nbytes:
            self.alone.append(number)
            return
        leaf = _Leaf(number, array, *found, nbytes)
        self._carried += nbytes
        if self._gathers and nbytes <= PACKED_LEAF_MOST:
            self._small.append(leaf)
        elif self._is_pinned or self._can_stage:
            self._group.append(leaf)
            self._nbytes += nbytes
            if self._nbytes >= self._most:
                self._send_group()
        else:
            self.alone.append(number)
            self._carried -= nbytes

    def finish_adding(self) -> None:
        """No array will be added: `alone` is complete, and all others are on their way, or there."""
        if len(self._small) + len(self._group) < PACKED_DOWN_FROM and self._most == self._first:
            self.alone += [leaf.number for leaf in (*self._small, *self._group)]
            self._carried = 0
        elif self._is_pinned:
            if self._group:
                self._send_group()
            self._send_small_pinned()
        else:
            self._send_rest()
        if self._shipment is not None:
            self._shipment.close()

    def finish(self) -> None:
        """Wait until every copy is complete.

        Raises:
            TransferError: A copy failed.
        """
        many.settle(self._transfers)
        if self._has_copies:
            staged.await_copy(self._backend, self._stream)
        if self._carried and self._recorder is not None and self._recorder is observe.active:
            self._recorder.called(self._since, self._backend, self._carried)

    def abort(self) -> None:
        """Wait until nothing uses the results' memory any more: they are of no use."""
        many.abort(self._transfers)
        if self._has_copies:
            in_flight.abandon(self._backend, self._stream)

    def _send_group(self) -> None:
        group, self._group = self._group, []
        self._nbytes, self._most = 0, 2 * self._most
        if self._is_pinned:
            self._copy_to_pinned(group)
        else:
            self._stage(group)

    # --- into ordinary memory

    def _stage(self, group: list[_Leaf]) -> None:
        if self._shipment is None:
            begun = self._transfers.append
            self._shipment = many.Shipment(self._most, self._backend, self._stream, begun, is_upload=False)
        self._shipment.add(self._described(group))

    def _described(self, group: list[_Leaf]) -> Regions:
        """Describe copies of a group into new arrays, the results, for C."""
        copies = []
        few = [leaf for leaf in group if leaf.nbytes < host.RECYCLED_FROM]
        if few:
            places, nbytes = _places(few)
            memory = host.host_cache.empty((nbytes,), BYTE)
            self._cut(memory, few, places)
            start, is_fresh = address(memory), host.is_fresh(memory)
            copies = [
                PlainCopy(start + place, leaf.pointer, leaf.nbytes, is_fresh)
                for leaf, place in zip(few, places, strict=True)
            ]
        for leaf in group:
            if leaf.nbytes >= host.RECYCLED_FROM:
                made = self._results[leaf.number] = host.host_cache.empty(leaf.shape, leaf.dtype)
                copies.append(PlainCopy(address(made), leaf.pointer, leaf.nbytes, host.is_fresh(made)))
        return regions.of_plain(copies)._replace(keep=(group, [self._results[leaf.number] for leaf in group]))

    def _send_rest(self) -> None:
        """Copy the last arrays, and all small ones."""
        group, small, backend, stream = self._group, self._small, self._backend, self._stream
        places, nbytes = _places(small)
        if small and not group and self._shipment is None and nbytes <= MEDIUM_NBYTES:
            self._cut(self._fetched(places, nbytes), small, places)
            return
        if small:
            memory = backend.empty((nbytes,), BYTE, device=stream.device, stream=stream)
            info = backend.view(memory)
            self._gather(info.pointer, places, nbytes)
            if not self._can_stage:
                self._cut(download.device_to_host(memory, info, backend, BYTE, stream=stream), small, places)
                return
            group.append(_Leaf(len(self._results), memory, info.pointer, (nbytes,), BYTE, nbytes))
            self._results.append(None)
        described = self._described(group)
        if small:
            self._cut(self._results.pop(), small, places)
        if self._shipment is None and observe.active is not None:
            self._shipment = many.Shipment(described.nbytes, backend, stream, self._transfers.append, is_upload=False)
        if self._shipment is not None:
            self._shipment.add(described)
        elif group:
            setup = compiled_staging.setup_of(backend, stream, is_upward=False)
            assert setup is not None
            compiled_staging.copy(described, setup, backend, stream)

    def _cut(self, memory: HostArray, leaves: Sequence[_Leaf], places: list[int]) -> None:
        """Let views of memory be the results."""
        for leaf, place in zip(leaves, places, strict=True):
            self._results[leaf.number] = np.ndarray(leaf.shape, leaf.dtype, memory, place)

    def _fetched(self, places: list[int], nbytes: int) -> HostArray:
        """Copy the small arrays into the thread's slab, and all of it from there."""
        backend, stream = self._backend, self._stream
        own = slab.slab_of(backend, nbytes, stream)
        memory, start = own.take(nbytes, stream)
        try:
            self._copy_small(start, places, nbytes)
            backend.stream_synchronize(stream)
            self._has_copies = False  # all that was enqueued is complete
        except BaseException:  # the slab's bytes may be taken again, so even an interrupted copy must be waited for
            in_flight.abandon(backend, stream)
            raise
        found = memory.copy()
        own.emptied()
        return found

    # --- into pinned memory

    def _copy_to_pinned(self, group: list[_Leaf]) -> None:
        """Enqueue copies into one block of the pool, or stage, where that is full and gives ordinary memory."""
        backend, stream = self._backend, self._stream
        places, nbytes = _places(group)
        memory = pinned.pools.of(backend)._lend((nbytes,), BYTE)
        self._cut(memory, group, places)
        start = address(memory)
        if memory.base is None:
            for leaf in group:
                end = HostEnd(self._results[leaf.number], leaf.dtype, backend)
                staged.download(backend.view(leaf.array), end, stream, plan.STAGED)
            return
        self._has_copies = True
        self._copy_each(start, group, places)

    def _send_small_pinned(self) -> None:
        if not self._small:
            return
        places, nbytes = _places(self._small)
        memory = pinned.pools.of(self._backend)._lend((nbytes,), BYTE)
        if memory.base is None:
            self._send_rest()
            return
        self._cut(memory, self._small, places)
        self._has_copies = True
        self._copy_small(address(memory), places, nbytes)

    def _copy_small(self, start: int, places: list[int], nbytes: int) -> None:
        """Enqueue copies of the small arrays into pinned memory at an address."""
        if len(places) <= GATHERED_LEAVES_MOST or observe.active is not None:  # which knows no kernel that copies
            self._copy_each(start, self._small, places)
        else:
            self._gather(start, places, nbytes)

    def _copy_each(self, start: int, leaves: Sequence[_Leaf], places: list[int]) -> None:
        """Enqueue one copy for each array into pinned memory at an address."""
        backend, stream = self._backend, self._stream
        sources, sizes = [leaf.pointer for leaf in leaves], [leaf.nbytes for leaf in leaves]
        targets = [start + place for place in places]
        fast = backend.fast if observe.active is None else None
        if fast is None or not fast.copy_each(targets, sources, sizes, stream=stream):
            for target, source, size in zip(targets, sources, sizes, strict=True):
                observe.copy(Kind.D2H, target, source, size, backend, stream)

    # --- on the device

    def _gather(self, pointer: int, places: list[int], nbytes: int) -> None:
        """Enqueue a kernel that writes the small arrays to their places in memory of the device, or pinned memory."""
        backend, stream = self._backend, self._stream
        rows = [(leaf.pointer, place, leaf.nbytes) for leaf, place in zip(self._small, places, strict=True)]
        table = pinned.pools.of(backend)._lend((len(rows), 3), _INTEGER)
        table[...] = rows
        self._kept.append(table)
        self._has_copies = True
        if table.base is None:  # the pool is full
            there = backend.empty(table.shape, table.dtype, device=stream.device, stream=stream)
            info = backend.view(there)
            upload.send(Upload(HostEnd(table, table.dtype, backend), there, info, stream, is_blocking=False))
            self._kept.append(there)
            start = info.pointer
        else:
            start = address(table)
        code = relayout.kernel("gather_pieces", _GATHER, (0, 0), backend, stream.device)
        size, args = (_THREADS, 1, 1), (pointer, start)
        relayout.launch(code, len(rows), size, args, backend, stream, name="gather_pieces", nbytes=2 * nbytes)


def _places(leaves: Sequence[_Leaf]) -> tuple[list[int], int]:
    """Where arrays begin that follow one another in memory, and how many bytes they take."""
    places, nbytes = [], 0
    for leaf in leaves:
        places.append(nbytes)
        nbytes += -(-leaf.nbytes // ALIGNMENT) * ALIGNMENT
    return places, nbytes


def _whole(array: Array, backend: Backend) -> tuple[int, tuple[int, ...], np.dtype[Any]] | None:
    """As `FastCopies.whole`, for a backend without these."""
    info = backend.view(array)
    is_whole = info.is_writable and info.is_c_contiguous and not backend.is_lazy(array)
    return (info.pointer, info.shape, info.dtype) if is_whole else None
