"""Small leaves of a tree, packed: one pinned slab, one DMA, one device slab, cut into views."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._core import array as _array
from xferlib._core import convert, observe, registry
from xferlib._core.array import Array, ArrayInfo
from xferlib._core.observe import Kind
from xferlib._core.thresholds import GATHERED_LEAVES_MOST, MEDIUM_NBYTES, PACKED_LEAF_MOST
from xferlib._memory import in_flight, pinned
from xferlib._memory.slab import slab_of
from xferlib._transfer import download, regions, relayout, upload
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.upload import Upload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream
    from xferlib._transfer.regions import Regions

_THREADS = 256
"""Of a block that gathers one leaf."""

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

_ALIGNMENT = 256
_VECTOR_NBYTES = 16
_BYTE = np.dtype(np.uint8)


def check_leaf(dtype_given: Any, dtype: Any) -> np.dtype[Any]:
    """The dtype that a leaf arrives in."""
    given = _array.check_dtype(dtype_given)
    if dtype is None:
        return given
    wanted = _array.check_dtype(dtype, what="dtype")
    convert.check_conversion(given, wanted)
    return wanted


# --- host to device


class LeafKind(NamedTuple):
    """Leaves of one shape and dtype."""

    shape: tuple[int, ...]
    given: np.dtype[Any]
    wanted: np.dtype[Any]
    members: list[int]


class _Group(NamedTuple):
    """Leaves that are contiguous in the slab, one after the other."""

    offset: int
    kind: LeafKind
    members: list[int]


def _layout_of(kinds: list[LeafKind]) -> tuple[list[_Group], int]:
    """Lay the leaves out in a slab; returns the groups and the slab's size in bytes.

    Every leaf is aligned for 16-byte loads: one whose size is no multiple of that is a group of its own.
    """
    groups: list[_Group] = []
    offset = 0
    for kind in kinds:
        nbytes = math.prod(kind.shape) * kind.wanted.itemsize
        is_aligned = nbytes % _VECTOR_NBYTES == 0
        for part in [kind.members] if is_aligned else [[member] for member in kind.members]:
            groups.append(_Group(offset, kind, part))
            offset += -(-nbytes * len(part) // _ALIGNMENT) * _ALIGNMENT
    return groups, offset


def chosen(leaves: Sequence[Any], dtype: Any, place: Device, *, least: int = 2) -> tuple[list[LeafKind], list[int]]:
    """Sort arrays: those that travel together by kind, and the numbers of those copied alone; skip other leaves.

    Args:
        leaves: Of a tree.
        dtype: That arrives; each leaf's own if None.
        place: The target.
        least: Fewer small leaves are copied alone.

    Raises:
        UnsupportedDTypeError: A leaf cannot be held by a device, or not be converted to ``dtype``.
    """
    kinds: dict[tuple[tuple[int, ...], np.dtype[Any]], list[int]] = {}
    alone: list[int] = []
    shape, given, add = None, None, alone.append
    for number, leaf in enumerate(leaves):
        if type(leaf) is np.ndarray:
            if leaf.dtype is not given or leaf.shape != shape:  # as a rule they are those of the one before
                shape, given = leaf.shape, leaf.dtype
                add = kinds.setdefault((shape, given), []).append
            add(number)
        elif registry.backend_of(leaf) is not None:
            check_leaf(leaf.dtype, dtype)
            alone.append(number)
    packed: list[LeafKind] = []
    for (extents, arrives), members in kinds.items():
        wanted = check_leaf(arrives, dtype)
        if place.kind != "cpu" and 0 < math.prod(extents) * wanted.itemsize <= PACKED_LEAF_MOST:
            packed.append(LeafKind(extents, arrives, wanted, members))
        else:
            alone += members
    if sum(len(kind.members) for kind in packed) >= least:
        return packed, alone
    return [], alone + [member for kind in packed for member in kind.members]


def send(
    leaves: Sequence[Any], results: list[Any], kinds: list[LeafKind], backend: Backend, stream: RawStream
) -> Array:
    """Copy leaves as one slab, and put views of it into ``results``; returns the slab."""
    return _send(leaves, results, *_layout_of(kinds), backend, stream)


class Alike:
    """Arrays of one shape and dtype that travel in groups, one after the other: the layout of a group is computed once.

    Args:
        first: One of them.
    """

    __slots__ = ("_dtype", "_layouts", "_shape")

    def __init__(self, first: HostArray) -> None:
        self._shape = first.shape
        self._dtype = first.dtype
        self._layouts: dict[int, tuple[list[_Group], int]] = {}

    @classmethod
    def of(cls, array: Any, place: Device) -> Alike | None:
        """Create for arrays like ``array``; None where it travels in another way."""
        if type(array) is not np.ndarray:
            return None
        kinds, _ = chosen([array, array], None, place)
        return cls(array) if kinds and kinds[0].given == kinds[0].wanted else None

    def send(self, arrays: Sequence[Any], backend: Backend, stream: RawStream) -> list[Array] | None:
        """Copy the arrays to the device as one; None, a no-op, where one is different.

        Raises:
            As `xferlib.to_device`: nothing has been copied.
        """
        shape, dtype, count = self._shape, self._dtype, len(arrays)
        for array in arrays:
            if type(array) is not np.ndarray or array.dtype is not dtype or array.shape != shape:
                return None
        layout = self._layouts.get(count)
        if layout is None:
            layout = self._layouts[count] = _layout_of([LeafKind(shape, dtype, dtype, list(range(count)))])
        backend.attach(stream.device)
        results: list[Any] = [None] * count
        _send(arrays, results, *layout, backend, stream)
        return results


def _send(
    leaves: Sequence[Any], results: list[Any], groups: list[_Group], nbytes: int, backend: Backend, stream: RawStream
) -> Array:
    slab = backend.empty((nbytes,), _BYTE, device=stream.device, stream=stream)

    def fill(staged: HostArray) -> None:
        for group in groups:
            _fill(_block(staged, group), group, leaves)

    locate = lambda pointer: _located(groups, leaves, nbytes, pointer)
    transfer = upload.packed_to_device(fill, locate, nbytes, slab, backend, stream)
    try:
        for group in groups:  # which takes as long as the copying
            arrays = backend.subarrays(slab, group.offset, len(group.members), group.kind.shape, group.kind.wanted)
            for number, array in zip(group.members, arrays, strict=True):
                results[number] = array
        if transfer is not None:
            transfer.settle()
            transfer.check()
    except BaseException:
        if transfer is not None:
            transfer.abort()
        raise
    return slab


def _located(groups: list[_Group], leaves: Sequence[Any], nbytes: int, pointer: int) -> Regions | None:
    """Addresses of leaves whose bytes stay as they are; None where one is converted or gathered, or without the C."""
    from xferlib._native import driver_calls

    locate = driver_calls.locator()
    if locate is None or any(group.kind.given != group.kind.wanted for group in groups):
        return None
    members = [[leaves[member] for member in group.members] for group in groups]
    parts = (_native.Part * sum(map(len, members)))()
    address = ctypes.addressof(parts)
    for group, arrays in zip(groups, members, strict=True):
        if not locate(arrays, address, group.offset, math.prod(group.kind.shape) * group.kind.wanted.itemsize):
            return None
        address += len(arrays) * ctypes.sizeof(_native.Part)
    return regions.of_parts(parts, nbytes, pointer, members)


def _fill(block: HostArray, group: _Group, leaves: Sequence[Any]) -> None:
    shape, given, wanted, _ = group.kind
    if shape and given == wanted and len(group.members) > 1:
        np.concatenate([leaves[member] for member in group.members], axis=0, out=block.reshape(-1, *shape[1:]))
        return
    for index, member in enumerate(group.members):
        convert.copy_into(block[index, ...], leaves[member])


def _block(slab: HostArray, group: _Group) -> HostArray:
    """A group's bytes in a host slab as an array of shape (members, *shape)."""
    return np.ndarray((len(group.members), *group.kind.shape), group.kind.wanted, slab, group.offset)


# --- device to host


def receive(infos: list[ArrayInfo], backend: Backend, stream: RawStream, *, is_pinned: bool = False) -> list[HostArray]:
    """Copy arrays of one device to the host, as one; into pinned memory with ``is_pinned``."""
    by_kind: dict[tuple[tuple[int, ...], np.dtype[Any]], list[int]] = {}
    for number, info in enumerate(infos):
        by_kind.setdefault((info.shape, info.dtype), []).append(number)
    groups, nbytes = _layout_of([LeafKind(shape, dtype, dtype, members) for (shape, dtype), members in by_kind.items()])
    backend.attach(stream.device)
    pieces = [
        (infos[member].pointer, group.offset + index * infos[member].nbytes, infos[member].nbytes)
        for group in groups
        for index, member in enumerate(group.members)
    ]
    if len(pieces) <= GATHERED_LEAVES_MOST and nbytes <= MEDIUM_NBYTES and not is_pinned:
        host = _fetched(pieces, nbytes, backend, stream)
    else:
        slab = backend.empty((nbytes,), _BYTE, device=stream.device, stream=stream)
        _gather(backend.view(slab), pieces, backend, stream)
        out = pinned.pools.of(backend).empty((nbytes,), _BYTE) if is_pinned else None
        host = download.device_to_host(slab, backend.view(slab), backend, _BYTE, stream=stream, out=out)
    results: list[Any] = [None] * len(infos)
    for group in groups:
        block = _block(host, group)
        for index, member in enumerate(group.members):
            results[member] = block[index, ...]
    return results


def _fetched(pieces: list[tuple[int, int, int]], nbytes: int, backend: Backend, stream: RawStream) -> HostArray:
    """Copy ``(pointer, offset, nbytes)`` pieces one by one into the thread's slab, and all of it from there."""
    own = slab_of(backend, nbytes)
    memory, start = own.take(nbytes, stream)
    try:
        for pointer, offset, size in pieces:
            observe.copy(Kind.D2H, start + offset, pointer, size, backend, stream)
        backend.stream_synchronize(stream)
    except BaseException:  # the slab's bytes may be taken again, so even an interrupted copy must be waited for
        in_flight.abandon(backend, stream)
        raise
    host = memory.copy()
    own.emptied()
    return host


def _gather(dst: ArrayInfo, pieces: list[tuple[int, int, int]], backend: Backend, stream: RawStream) -> None:
    """Enqueue copies of ``(pointer, offset, nbytes)`` pieces into ``dst``, all in one launch."""
    table = np.array(pieces, dtype=np.int64)
    on_device = backend.empty(table.shape, table.dtype, device=stream.device, stream=stream)
    info = backend.view(on_device)
    upload.send(Upload(HostEnd(table, table.dtype, backend), on_device, info, stream, is_blocking=False))
    code = relayout.kernel("gather_pieces", _GATHER, (0, 0), backend, stream.device)
    args = (dst.pointer, info.pointer)
    relayout.launch(
        code, len(pieces), (_THREADS, 1, 1), args, backend, stream, name="gather_pieces", nbytes=2 * dst.nbytes
    )
