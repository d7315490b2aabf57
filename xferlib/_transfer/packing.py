"""Small arrays of a tree, as one: which they are, their places in a slab, and how its bytes are collected."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib import _native
from xferlib._core import array as _array
from xferlib._core import convert, observe, registry, staging_hooks
from xferlib._core.layout import refuse_truncated
from xferlib._core.observe import Kind
from xferlib._core.thresholds import FEW_LARGE_LEAVES, FEW_LEAVES, MEDIUM_NBYTES, PACKED_LEAF_MOST
from xferlib._memory import pinned
from xferlib._memory.slab import slab_of
from xferlib._native import driver_calls
from xferlib._transfer import compiled_copies, plan, regions, upload
from xferlib._transfer.host_end import HostEnd
from xferlib._transfer.upload import Upload

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.layout import HostArray
    from xferlib._core.raw import RawStream
    from xferlib._transfer.regions import Regions

ALIGNMENT = 64
"""Bytes at a multiple of which each array begins: vector loads want 16, a line of a cache holds 64."""
BYTE = np.dtype(np.uint8)


def is_few(leaves: int, large: int) -> bool:
    """Whether that many arrays, of which some are large, are better copied one after the other."""
    return leaves < FEW_LEAVES and large <= FEW_LARGE_LEAVES


def are_few(leaves: Sequence[Any], most: int, backend: Backend | None = None) -> bool:
    """Whether arrays are copied one after the other in less time than it takes to describe all of them.

    Args:
        leaves: Of a tree.
        most: Bytes; all but `FEW_LARGE_LEAVES` of the arrays are that small.
        backend: The arrays are NumPy's, and go there; without one, each is of a device.
    """
    if not is_few(len(leaves), 0) or not plan.may_skip():
        return False
    large = 0
    for leaf in leaves:
        if (owner := registry.backend_of(leaf)) is None:
            continue
        if backend is not None and type(leaf) is not np.ndarray:
            return False
        carrier = owner if backend is None else backend
        if carrier.fast is None:
            return False
        large += owner.view(leaf).nbytes > most
    return is_few(len(leaves), large)


class LeafKind(NamedTuple):
    """Arrays of one shape and dtype."""

    shape: tuple[int, ...]
    given: np.dtype[Any]
    wanted: np.dtype[Any]
    members: list[int]


def all_of(leaves: Sequence[Any], dtype: Any) -> list[int]:
    """The numbers of the arrays among leaves.

    Raises:
        UnsupportedDTypeError: As `chosen`.
    """
    found: list[int] = []
    for number, leaf in enumerate(leaves):
        if type(leaf) is np.ndarray or registry.backend_of(leaf) is not None:
            if dtype is not None or leaf.dtype not in _array.SUPPORTED:
                _arriving(leaf.dtype, dtype)
            found.append(number)
    return found


def chosen(leaves: Sequence[Any], dtype: Any, *, least: int = 2) -> tuple[list[LeafKind], list[int]]:
    """Sort arrays: the small ones, which share a slab, by kind, and the numbers of the others; skip other leaves.

    Args:
        leaves: Of a tree.
        dtype: That arrives; each leaf's own if None.
        least: Fewer small arrays share none.

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
            _arriving(leaf.dtype, dtype)
            alone.append(number)
    packed: list[LeafKind] = []
    for (extents, arrives), members in kinds.items():
        wanted = arrives if dtype is None and arrives in _array.SUPPORTED else _arriving(arrives, dtype)
        # An empty array has no bytes to copy, and its place in a slab would be that of the next one.
        if 0 < math.prod(extents) * wanted.itemsize <= PACKED_LEAF_MOST:
            packed.append(LeafKind(extents, arrives, wanted, members))
        else:
            alone += members
    if sum(len(kind.members) for kind in packed) < least:  # nothing to travel with
        alone += [number for kind in packed for number in kind.members]
        packed = []
    return packed, sorted(alone)


def _arriving(given: Any, dtype: Any) -> np.dtype[Any]:
    """The dtype that a leaf arrives in."""
    known = _array.check_dtype(given)
    if dtype is None:
        return known
    wanted = _array.check_dtype(dtype, what="dtype")
    convert.check_conversion(known, wanted)
    return wanted


class SlabLayout:
    """Places of arrays in a slab.

    Args:
        kinds: Of the arrays, which follow one another kind by kind.
    """

    __slots__ = ("is_plain", "kinds", "members", "nbytes", "places")

    def __init__(self, kinds: Sequence[LeafKind]) -> None:
        self.kinds = kinds
        self.members: list[int] = []
        """Their numbers among the leaves."""
        self.places: list[int] = []
        """Where each begins, in bytes."""
        self.nbytes = 0
        self.is_plain = all(kind.given == kind.wanted for kind in kinds)
        """The bytes stay as they are, of what is in C order."""
        for kind in kinds:
            step = -(-math.prod(kind.shape) * kind.wanted.itemsize // ALIGNMENT) * ALIGNMENT
            end = self.nbytes + step * len(kind.members)
            self.members += kind.members
            self.places += range(self.nbytes, end, step)
            self.nbytes = end

    def forms(self) -> Iterator[tuple[int, tuple[int, ...], np.dtype[Any]]]:
        """Place, shape and dtype of each array."""
        places = iter(self.places)
        for kind in self.kinds:
            for place in itertools.islice(places, len(kind.members)):
                yield place, kind.shape, kind.wanted


class PackedLeaves:
    """Small arrays on their way, and the memory on the device that they share.

    Args:
        leaves, layout: The arrays, and their places.
        backend, stream: They carry the copy.
    """

    def __init__(self, leaves: Sequence[Any], layout: SlabLayout, backend: Backend, stream: RawStream) -> None:
        self._sources = [leaves[number] for number in layout.members]
        if staging_hooks.listener is not None:
            for each in self._sources:
                staging_hooks.touched(each, backend.pinned_domain, is_write=False)
        self._layout = layout
        self._backend = backend
        self._stream = stream
        self.memory = backend.empty((layout.nbytes,), BYTE, device=stream.device, stream=stream)

    def cut(self, results: list[Any]) -> None:
        """Put views of the slab into ``results``."""
        arrays = self._backend.subarrays(self.memory, self._layout.forms())
        for number, view in zip(self._layout.members, arrays, strict=True):
            results[number] = view

    def region(self) -> Regions:
        """Describe the arrays, for threads of C that collect them."""
        parts, keep = self._parts()
        pointer = self._backend.view(self.memory).pointer
        return regions.of_parts(parts, self._layout.nbytes, pointer, (keep, self.memory))

    def _parts(self) -> tuple[Any, Any]:
        """The arrays as C takes them, and what must outlive the copy."""
        sources, layout = self._sources, self._layout
        parts = (_native.Part * len(sources))()
        locate = driver_calls.locator() if layout.is_plain else None
        if locate is not None and not locate(sources, layout.places, ctypes.addressof(parts)):
            return parts, sources
        kept: list[Any] = []
        for part, source, (place, shape, wanted) in zip(parts, sources, layout.forms(), strict=True):
            if not part.host:
                part.place = place
                kept.append(_describe(part, source, shape, wanted))
        return parts, (sources, kept)

    def send(self) -> None:
        """Pack the arrays in this thread, and enqueue one copy; the arrays have been read on return."""
        backend, stream, nbytes = self._backend, self._stream, self._layout.nbytes
        info = backend.view(self.memory)
        # A slab's segments are small and come round soon; what is larger comes from the pool, which keeps it to the
        # end of its copy.
        if nbytes > MEDIUM_NBYTES:
            memory = pinned.pools.of(backend)._lend(info.shape, info.dtype)
            self._pack(memory, memory.ctypes.data)
            upload.send(Upload(HostEnd(memory, BYTE, backend), self.memory, info, stream, is_blocking=False))
        else:
            memory, pointer = slab_of(backend, nbytes, stream).take(nbytes, stream)
            self._pack(memory, pointer)
            observe.copy(Kind.H2D, info.pointer, pointer, nbytes, backend, stream)

    def _pack(self, memory: HostArray, pointer: int) -> None:
        if _native.is_on():
            parts, _kept = self._parts()
            _native.library().xf_collect(parts, len(self._sources), self._layout.nbytes, pointer)
            return
        for source, (place, shape, wanted) in zip(self._sources, self._layout.forms(), strict=True):
            refuse_truncated(source, "an array of the tree")
            convert.copy_into(np.ndarray(shape, wanted, memory, place), source)


def _describe(part: Any, source: HostArray, shape: tuple[int, ...], wanted: np.dtype[Any]) -> Any:
    """Say where an array lies, and how; returns what must outlive the part."""
    refuse_truncated(source, "an array of the tree")
    form = compiled_copies.form(shape, source.strides, source.dtype, wanted)
    # The part keeps an address alone: nothing in C holds the array or its form, so the caller does, to the copy's end.
    if form is None:  # it has too many axes
        plain = np.empty(shape, wanted)
        convert.copy_into(plain, source)
        part.host, part.nbytes = plain.ctypes.data, plain.nbytes
        return plain
    part.host, part.nbytes = source.ctypes.data, source.size * wanted.itemsize
    part.layout = ctypes.pointer(form.layout)
    return form
