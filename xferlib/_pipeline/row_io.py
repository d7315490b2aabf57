"""Rows of data on the host, read and written in chunks: arrays, memory maps, and objects that take slices."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xferlib._api import creation
from xferlib._core import registry
from xferlib._core.array import check_dtype
from xferlib._memory.mmap_advice import Pages
from xferlib._pipeline import shared_rows
from xferlib.errors import LayoutError, UnsupportedArrayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.device import Device
    from xferlib._core.layout import HostArray


class Source(Protocol):
    """The origin of rows."""

    rows: int

    def read(self, start: int, stop: int) -> Any:
        """Return the rows as a host array, which does not change before `done` is called for them."""

    def done(self, start: int, stop: int) -> None:
        """Release the rows: they will not be read again."""


class Sink(Protocol):
    """The target of results."""

    is_ordered: bool
    """Whether `put` is called in the order of the rows, by one thread at a time."""
    is_reduction: bool
    """Whether results are trees of any shape, instead of arrays with as many rows."""

    @property
    def value(self) -> Any:
        """The results so far."""

    def target(self, start: int, stop: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray | None:
        """Return memory to copy a result into, or None; refuse a result that does not fit."""

    def put(self, start: int, stop: int, host: Any) -> None:
        """Store a result; one that was copied into `target` is there already."""


# --- sources


class _Array:
    """A NumPy array, or anything with NumPy's memory."""

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
        self._pages = pages
        self._is_staged = is_staged
        self._asked = 0
        """The first row that has not been requested from the disk."""

    def read(self, start: int, stop: int) -> HostArray:
        ahead = min(2 * stop - start, self.rows)
        if self._is_staged and ahead > self._asked:
            self._pages.will_need(max(start, self._asked), ahead)
            self._asked = ahead
        return self._array[start:stop]

    def done(self, start: int, stop: int) -> None:
        self._pages.let_go(start, stop)


class _Sliced:
    """Takes slices, one at a time: zarr, h5py, and their kin."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._inner = tuple(source.shape[1:])
        self.rows = int(source.shape[0])

    def read(self, start: int, stop: int) -> HostArray:
        with self._lock:
            found: HostArray = np.asarray(self._source[start:stop])
        if found.shape != (stop - start, *self._inner):
            raise LayoutError(
                f"source[{start}:{stop}] has shape {found.shape} instead of {(stop - start, *self._inner)}; slices of "
                "the source must have the rows that were asked for"
            )
        return found

    def done(self, start: int, stop: int) -> None:
        """No-op: the array that `read` made is collected."""


class _Filling:
    """Calls ``read_into`` with pinned memory, one chunk at a time, so that nothing has to be staged."""

    def __init__(self, source: Any, most_rows: int, backend: str) -> None:
        self._source = source
        self._shape = (most_rows, *(int(extent) for extent in source.shape[1:]))
        self._dtype = check_dtype(source.dtype, what="source")
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


def source_of(source: Any, most_rows: int, device: Device) -> Source:
    """Return the reader of ``source``, in chunks of at most ``most_rows`` rows, for a device.

    Raises:
        UnsupportedArrayError: It has no shape, dtype and slices, and no ``read_into`` either.
    """
    owner = registry.backend_of(source)
    if owner is not None:
        host, pages = _host_rows(source, "source"), Pages.of(source)
        return _Array(host) if pages is None else _Mapped(host, pages, is_staged=device.kind != "cpu")
    shape, is_readable = getattr(source, "shape", None), hasattr(source, "read_into") or hasattr(source, "__getitem__")
    if not shape or not is_readable or getattr(source, "dtype", None) is None:
        raise UnsupportedArrayError(
            f"stream_map: source is {type(source).__name__}, which has no shape, dtype and slices; give an array, a "
            "memory map, a zarr or h5py array, or an object with shape, dtype and read_into(out, start)"
        )
    check_dtype(source.dtype, what="source")
    return _Filling(source, most_rows, device.backend) if hasattr(source, "read_into") else _Sliced(source)


def _host_rows(array: Any, what: str) -> HostArray:
    owner = registry.backend_of(array)
    assert owner is not None
    info = owner.view(array)
    if info.device.kind != "cpu":
        raise UnsupportedArrayError(
            f"stream_map: {what} is on {info.device} already; call the function with it, or give it on the host"
        )
    check_dtype(info.dtype, what=what)
    if not info.shape:
        raise UnsupportedArrayError(f"stream_map: {what} has no rows: its shape is (); give at least one dimension")
    host: HostArray = owner.host_view(array) if owner.name != "numpy" else array
    return host


# --- sinks


class _Into:
    """An array of the host, filled in any order."""

    is_ordered = is_reduction = False

    def __init__(self, value: Any, out: HostArray, pages: Pages | None = None) -> None:
        self.value = value
        self.out = out
        self._pages = pages

    def target(self, start: int, stop: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
        into: HostArray = self.out[start:stop]
        if into.shape != shape or into.dtype != dtype:
            raise _misfit(start, stop, shape, dtype, into.shape, into.dtype)
        return into

    def put(self, start: int, stop: int, host: Any) -> None:
        if self._pages is not None:
            self._pages.let_go(start, stop)


class _Assigned:
    """An object that takes slices. Two of our chunks may share one of its own, so they are written one by one."""

    is_ordered = True
    is_reduction = False

    def __init__(self, out: Any) -> None:
        self.value = self.out = out

    def target(self, start: int, stop: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        wanted = (stop - start, *self.out.shape[1:])
        if shape != wanted or dtype != self.out.dtype:
            raise _misfit(start, stop, shape, dtype, wanted, self.out.dtype)

    def put(self, start: int, stop: int, host: Any) -> None:
        self.out[start:stop] = host


class _InPlace(_Assigned):
    """The memory of the source: rows are stored in their order, so that those not yet stored can be read again."""

    def __init__(self, value: Any, out: HostArray) -> None:
        super().__init__(out)
        self.value = value


class _Collected:
    """A new array, allocated when the shape of the first result is known."""

    is_ordered = is_reduction = False

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._lock = threading.Lock()
        self.value: Any = None

    def target(self, start: int, stop: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
        if not shape or shape[0] != stop - start:
            raise _misfit(start, stop, shape, dtype, (stop - start, *shape[1:]), dtype)
        with self._lock:
            if self.value is None:
                self.value = np.empty((self._rows, *shape[1:]), dtype)
        return _Into(self.value, self.value).target(start, stop, shape, dtype)

    def put(self, start: int, stop: int, host: Any) -> None:
        """No-op: `target` returned the destination itself."""


class Reduced:
    """The value into which every result is folded, in the order of the rows."""

    is_ordered = is_reduction = True

    def __init__(self, function: Callable[[Any, Any], Any], initial: Any) -> None:
        self._function = function
        self.value = initial

    def target(self, start: int, stop: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Return None: results are small, and need no target."""

    def put(self, start: int, stop: int, host: Any) -> None:
        self.value = host if self.value is None else self._function(self.value, host)


def sink_of(out: Any, rows: int, source: Any) -> _Into | _Assigned | _Collected:
    """Return the writer for ``out``, of results of ``source``.

    Raises:
        LayoutError: It has other rows than the source, is read-only, or shares some of the source's memory.
        UnsupportedArrayError: It takes no slices.
    """
    if out is None:
        return _Collected(rows)
    shape = getattr(out, "shape", None)
    if not shape or not hasattr(out, "__setitem__") or getattr(out, "dtype", None) is None:
        raise UnsupportedArrayError(
            f"stream_map: out is {type(out).__name__}, which has no shape, dtype and slices; give an array, a memory "
            "map, a zarr or h5py array, or None for a new array"
        )
    if int(shape[0]) != rows:
        raise LayoutError(f"stream_map: out has {shape[0]} rows, but the source has {rows}; make out of that length")
    owner = registry.backend_of(out)
    if owner is None:
        if out is source:
            raise shared_rows.refusal()
        return _Assigned(out)
    host = _host_rows(out, "out")
    if not host.flags.writeable:
        raise LayoutError("stream_map: out is read-only; pass an array that may be written (mode='r+' for a memmap)")
    is_in_place = registry.backend_of(source) is not None and shared_rows.is_in_place(
        _host_rows(source, "source"), host
    )
    owner.note_write(out, "stream_map: out")
    return _InPlace(out, host) if is_in_place else _Into(out, host, Pages.of(out))


def _misfit(
    start: int, stop: int, shape: tuple[int, ...], dtype: Any, wanted: tuple[int, ...], wanted_dtype: Any
) -> LayoutError:
    return LayoutError(
        f"stream_map: the function gave shape {shape} and dtype {dtype} for rows {start} to {stop}, but out takes "
        f"{wanted} and {wanted_dtype} there; let it give one row for each row, and astype({str(wanted_dtype)!r})"
    )
