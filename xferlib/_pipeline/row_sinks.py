"""Results in rows on the host, written in chunks: arrays, memory maps, whatever takes slices, and reductions."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xferlib._core import registry
from xferlib._memory.mmap_advice import Pages
from xferlib._pipeline import shared_rows
from xferlib._pipeline.row_sources import has_rows, host_rows
from xferlib._runtime.checks import has
from xferlib._transfer.ends import refuse_overlap
from xferlib.errors import LayoutError, UnsupportedArrayError

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.layout import HostArray


class Sink(Protocol):
    """The target of results."""

    is_ordered: bool
    """Whether `put` is called in the order of the rows, by one thread at a time."""
    is_reduction: bool
    """Whether results are trees of any shape, instead of arrays with as many rows."""
    waits: bool
    """Whether storing may wait, for a disk or for the program."""

    @property
    def value(self) -> Any:
        """The results so far."""

    def target(self, start: int, stop: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray | None:
        """Return memory to copy a result into, or None; refuse a result that does not fit."""

    def put(self, start: int, stop: int, host: Any) -> None:
        """Store a result; one that was copied into `target` is there already."""


class _Into:
    """An array of the host, filled in any order."""

    is_ordered = is_reduction = waits = False

    def __init__(self, value: Any, out: HostArray, pages: Pages | None = None) -> None:
        self.value = value
        self.out = out.view(np.ndarray)  # which takes the short ways
        self._pages = pages

    def target(self, start: int, stop: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
        into: HostArray = self.out[start:stop]
        if into.shape != shape or into.dtype != dtype:
            raise _misfit(start, stop, shape, dtype, into.shape, into.dtype)
        if self._pages is not None:
            self._pages.refuse_truncated("out")
            self._pages.reserve(start, stop)
        return into

    def put(self, start: int, stop: int, host: Any) -> None:
        if self._pages is not None:
            self._pages.let_go(start, stop)


class _Assigned:
    """An object that takes slices. Two of our chunks may share one of its own, so they are written one by one."""

    is_ordered = waits = True
    is_reduction = False

    def __init__(self, out: Any) -> None:
        self.value = self.out = out

    def target(self, start: int, stop: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        wanted = (stop - start, *self.out.shape[1:])
        if shape != wanted or dtype != self.out.dtype:
            raise _misfit(start, stop, shape, dtype, wanted, self.out.dtype)

    def put(self, start: int, stop: int, host: Any) -> None:
        self.out[start:stop] = host


class InPlace(_Assigned):
    """The memory of the source: rows are stored in their order, so that those not yet stored can be read again."""

    waits = False

    def __init__(self, value: Any, out: HostArray) -> None:
        super().__init__(out)
        self.value = value


class _Collected:
    """A new array, allocated when the shape of the first result is known."""

    is_ordered = is_reduction = waits = False

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
    waits = False

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
    if not has_rows(out) or not has(out, "__setitem__") or out.dtype is None:
        raise UnsupportedArrayError(
            f"stream_map: out is {type(out).__name__}, which has no shape, dtype and slices; give an array, a memory "
            "map, a zarr or h5py array, or None for a new array"
        )
    if int(out.shape[0]) != rows:
        raise LayoutError(
            f"stream_map: out has {out.shape[0]} rows, but the source has {rows}; make out of that length"
        )
    owner = registry.backend_of(out)
    if owner is None:
        if out is source:
            raise shared_rows.refusal()
        return _Assigned(out)
    host = host_rows(out, "out")
    if not host.flags.writeable:
        raise LayoutError("stream_map: out is read-only; pass an array that may be written (mode='r+' for a memmap)")
    refuse_overlap(host, "stream_map: out")
    is_in_place = registry.backend_of(source) is not None and shared_rows.is_in_place(host_rows(source, "source"), host)
    owner.note_write(out, "stream_map: out")
    if is_in_place:
        return InPlace(out, host)
    pages = Pages.of(out)
    if pages is not None:
        pages.refuse_truncated("out")
    return _Into(out, host, pages)


def _misfit(
    start: int, stop: int, shape: tuple[int, ...], dtype: Any, wanted: tuple[int, ...], wanted_dtype: Any
) -> LayoutError:
    remedies = []
    if shape != wanted:
        remedies.append("let it give one row for each row, or give reduce= to combine the chunks' results")
    if dtype != wanted_dtype:
        remedies.append(f"let it end with astype({str(wanted_dtype)!r})")
    return LayoutError(
        f"stream_map: the function gave shape {shape} and dtype {dtype} for rows {start} to {stop}, but out takes "
        f"{wanted} and {wanted_dtype} there; {', and '.join(remedies)}"
    )
