"""Rows of data on the host, read in chunks: arrays, memory maps, and whatever gives slices."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xferlib._api import creation
from xferlib._core import array as _array
from xferlib._core import registry
from xferlib._memory.mmap_advice import Pages
from xferlib._runtime.checks import has
from xferlib.errors import LayoutError, UnsupportedArrayError

if TYPE_CHECKING:
    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray


class Source(Protocol):
    """Where rows come from."""

    rows: int
    waits: bool
    """Whether reading may wait, for a disk or for the program: threads beside the function are worth their hand-overs.
    Not that of a memory map, whose pages the kernel reads ahead and keeps."""

    def read(self, start: int, stop: int) -> Any:
        """The rows as a host array, which stays as it is until they are `done` with."""

    def done(self, start: int, stop: int) -> None:
        """The rows will not be looked at again."""


class _Array:
    """A NumPy array, or anything with NumPy's memory."""

    waits = False

    def __init__(self, array: HostArray) -> None:
        self._array = array
        self.rows = len(array)

    def read(self, start: int, stop: int) -> HostArray:
        return self._array[start:stop]

    def done(self, start: int, stop: int) -> None:
        """No-op: the array is the caller's."""


class _Mapped(_Array):
    """A memory map: releases the pages of rows that are done, so that they do not fill memory.

    Args:
        array: The rows.
        pages: The pages of the rows.
        is_staged: Threads stage the rows out of order, so they are requested from the disk in order, ahead of time. For
            one thread that reads in order the kernel reads ahead by itself, with less work.
    """

    def __init__(self, array: HostArray, pages: Pages, *, is_staged: bool) -> None:
        super().__init__(array)
        pages.refuse_truncated("source")
        self._pages = pages
        self._is_staged = is_staged
        self._asked = 0
        """The first row that has not been requested from the disk."""

    def read(self, start: int, stop: int) -> HostArray:
        self._pages.refuse_truncated("source")
        ahead = min(2 * stop - start, self.rows)
        if self._is_staged and ahead > self._asked:
            self._pages.will_need(max(start, self._asked), ahead)
            self._asked = ahead
        return self._array[start:stop].view(np.ndarray)  # which takes the short ways

    def done(self, start: int, stop: int) -> None:
        self._pages.let_go(start, stop)


class _Sliced:
    """Takes slices, one at a time: zarr, h5py, and their kin."""

    waits = True

    def __init__(self, source: Any) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._inner = tuple(source.shape[1:])
        self.rows = int(source.shape[0])

    def read(self, start: int, stop: int) -> HostArray:
        with self._lock:
            made = np.asanyarray(self._source[start:stop])  # asarray would hide a mask, as of netCDF4's variables
        _array.refuse_masked(made, f"source[{start}:{stop}]")
        found: HostArray = np.asarray(made)
        if found.shape != (stop - start, *self._inner):
            raise LayoutError(
                f"source[{start}:{stop}] has shape {found.shape} instead of {(stop - start, *self._inner)}; slices of "
                "the source must have the rows that were requested"
            )
        return found

    def done(self, start: int, stop: int) -> None:
        """No-op: the array that `read` made is collected."""


class _Filling:
    """Calls ``read_into`` with pinned memory, one chunk at a time, so that nothing has to be staged."""

    waits = True

    def __init__(self, source: Any, most_rows: int, backend: str) -> None:
        self._source = source
        self._shape = (most_rows, *(int(extent) for extent in source.shape[1:]))
        self._dtype = _array.check_dtype(source.dtype, what="source")
        self._backend = backend
        self._idle: list[HostArray] = []
        self._lock = threading.Lock()
        self._busy: dict[int, HostArray] = {}
        self.rows = int(source.shape[0])

    def read(self, start: int, stop: int) -> HostArray:
        memory = self._idle.pop() if self._idle else self._fresh()
        part = memory[: stop - start]
        with self._lock:
            self._source.read_into(part, start)
        self._busy[start] = memory
        return part

    def _fresh(self) -> HostArray:
        return creation.pinned_empty(self._shape, self._dtype, backend=self._backend)

    def done(self, start: int, stop: int) -> None:
        memory = self._busy.pop(start, None)
        if memory is not None:
            self._idle.append(memory)


def source_of(source: Any, most_rows: int, place: Device) -> Source:
    """Return the reader of ``source`` in chunks of at most ``most_rows`` rows, for a device.

    Raises:
        UnsupportedArrayError: It has no shape, dtype and slices, and no ``read_into`` either.
    """
    owner = registry.backend_of(source)
    if owner is not None:
        host, pages = host_rows(source, "source"), Pages.of(source)
        return _Array(host) if pages is None else _Mapped(host, pages, is_staged=place.kind != "cpu")
    if isinstance(source, (str, os.PathLike)):
        raise UnsupportedArrayError(
            f"stream_map: source is the name of a file, {os.fspath(source)!r}; open it first: "
            "numpy.load(path, mmap_mode='r'), or numpy.memmap(path, dtype, 'r', shape=shape)"
        )
    is_readable = hasattr(source, "read_into") or hasattr(source, "__getitem__")
    if not has_rows(source) or not is_readable:
        others = "; loop over batches of your own: xferlib.prefetch(batches)" if isinstance(source, Iterable) else ""
        raise UnsupportedArrayError(
            f"stream_map: source is {type(source).__name__}, which has no shape, dtype and slices; give an array, a "
            f"memory map, a zarr or h5py array, or an object with shape, dtype and read_into(out, start){others}"
        )
    _array.check_dtype(source.dtype, what="source")
    return _Filling(source, most_rows, place.backend) if hasattr(source, "read_into") else _Sliced(source)


def has_rows(given: Any) -> bool:
    """Whether a foreign object has a dtype, and a shape of an axis or more, of any type."""
    if not (has(given, "shape") and has(given, "dtype")):
        return False
    shape, dtype = given.shape, given.dtype
    return shape is not None and dtype is not None and hasattr(type(shape), "__len__") and len(shape) > 0


def host_rows(array: Any, what: str) -> HostArray:
    owner = registry.backend_of(array)
    assert owner is not None
    info = owner.view(array)
    if info.device.kind != "cpu":
        raise UnsupportedArrayError(
            f"stream_map: {what} is on {info.device} already; call the function with it, or give it on the host"
        )
    _array.check_dtype(info.dtype, what=what)
    if not info.shape:
        raise UnsupportedArrayError(f"stream_map: {what} has no rows: its shape is (); give at least one dimension")
    host: HostArray = owner.host_view(array) if owner.name != "numpy" else array
    return host
