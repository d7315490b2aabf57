"""Rows that another process opens by itself, sent there as a description: parts of files, and of stored arrays.

Anything else travels: the rows of a source with their task, the results back to the caller. That is slower, and right
for whatever cannot be seen from outside: a copy of an array in memory would be written there, and lost.
"""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from xferlib._core import registry
from xferlib._pipeline.row_sources import host_rows

if TYPE_CHECKING:
    from xferlib._core.layout import HostArray

_PICKLED_MOST = 1 << 20
"""Bytes of an object that is sent whole with each task: more are data, of which a task needs a part."""
_STORES = frozenset({"LocalStore", "FsspecStore", "ObjectStore", "DirectoryStore", "NestedDirectoryStore", "FSStore"})
"""The stores of zarr that several processes may write; its others are in memory, or one file."""


class MappedFile(NamedTuple):
    """An array in a file, as a memory map sees it."""

    path: str
    start: int
    """The byte of the file at which the first element begins."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    mode: str
    """As for `numpy.memmap`."""

    def rows(self, low: int, high: int) -> HostArray:
        """Map some rows."""
        shape, start = (high - low, *self.shape[1:]), self.start + low * self.strides[0]
        if not math.prod(shape):
            return np.empty(shape, self.dtype)
        reach = [(extent - 1) * stride for extent, stride in zip(shape, self.strides, strict=True)]
        first = start + sum(min(each, 0) for each in reach)
        nbytes = sum(abs(each) for each in reach) + self.dtype.itemsize
        if nbytes == math.prod(shape) * self.dtype.itemsize and self._is_c_contiguous:
            return np.memmap(self.path, self.dtype, self.mode, first, shape)  # type: ignore[call-overload,no-any-return]
        memory = np.memmap(self.path, np.uint8, self.mode, first, (nbytes,))  # type: ignore[call-overload]
        return np.ndarray(shape, self.dtype, memory, start - first, self.strides)

    @property
    def _is_c_contiguous(self) -> bool:
        expected = self.dtype.itemsize
        for extent, stride in zip(self.shape[:0:-1], self.strides[:0:-1], strict=True):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return self.strides[0] == expected


class StoredObject(NamedTuple):
    """An object that finds its data again when it is unpickled: a zarr array, a reader of a file."""

    whole: Any

    def rows(self, low: int, high: int) -> RowWindow:
        return (FillingWindow if hasattr(self.whole, "read_into") else RowWindow)(self.whole, low, high)


Stored = MappedFile | StoredObject


class RowWindow:
    """Some rows of an object that takes slices."""

    def __init__(self, whole: Any, low: int, high: int) -> None:
        self._whole = whole
        self._low = low
        self.shape = (high - low, *whole.shape[1:])
        self.dtype = np.dtype(whole.dtype)

    def _shifted(self, rows: slice) -> slice:
        return slice(self._low + rows.start, self._low + rows.stop)

    def __getitem__(self, rows: slice) -> Any:
        return self._whole[self._shifted(rows)]

    def __setitem__(self, rows: slice, value: HostArray) -> None:
        self._whole[self._shifted(rows)] = value


class FillingWindow(RowWindow):
    """The same of one that fills memory."""

    def read_into(self, out: HostArray, start: int) -> None:
        self._whole.read_into(out, self._low + start)


def of_source(source: Any) -> Stored | None:
    """The description of a source; None if its rows are to travel."""
    if registry.backend_of(source) is not None:
        return _mapped(source, "r")
    if _is_shared(source) or not hasattr(source, "__getitem__") or _is_small(source):
        return StoredObject(source)
    return None


def of_out(out: Any) -> Stored | None:
    """The description of a target of results, which other processes write; None if results are to travel."""
    if registry.backend_of(out) is not None:
        return _mapped(out, "r+")
    return StoredObject(out) if _is_shared(out) else None


def stored_rows(out: Any) -> int:
    """The rows that ``out`` writes as a whole: two processes must not share such a block."""
    if registry.backend_of(out) is not None:
        return 1
    blocks = getattr(out, "shards", None)
    if blocks is None:
        blocks = getattr(out, "chunks", None)
    return int(blocks[0]) if blocks is not None and len(blocks) else 1


def carried(source: Any, low: int, high: int) -> HostArray:
    """Some rows of a source, to be sent."""
    if registry.backend_of(source) is not None:
        return host_rows(source, "source")[low:high]
    return np.asarray(source[low:high])


def row_nbytes(source: Any) -> int:
    """Bytes of one row of a source."""
    owner = registry.backend_of(source)
    dtype = np.dtype(source.dtype) if owner is None else owner.view(source).dtype
    return math.prod(int(each) for each in source.shape[1:]) * dtype.itemsize


def _mapped(array: Any, mode: str) -> MappedFile | None:
    if not isinstance(array, np.memmap) or array.filename is None or array.mode == "c" or not array.ndim:
        return None
    path = Path(array.filename).absolute()
    if not path.exists():
        return None
    whole: Any = array
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    if array.mode != "r":
        whole.flush()  # a process on another host sees what the file has
    start = whole.offset + array.ctypes.data - whole.ctypes.data
    return MappedFile(str(path), start, array.shape, array.strides, array.dtype, mode)


def _is_shared(given: Any) -> bool:
    """Whether this is an array of zarr in a store that other processes can open."""
    if type(given).__module__.partition(".")[0] != "zarr":
        return False
    store = getattr(given, "store", None)
    protocol = getattr(getattr(store, "fs", None), "protocol", ())
    return type(store).__name__ in _STORES and "memory" not in ((protocol,) if isinstance(protocol, str) else protocol)


def _is_small(given: Any) -> bool:
    try:
        return len(pickle.dumps(given)) <= _PICKLED_MOST
    except Exception:  # a foreign object may raise anything
        return False
