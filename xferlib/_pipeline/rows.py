"""Rows of data on the host, read in chunks: arrays, memory maps, and whatever gives slices."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xferlib._api import creation
from xferlib._core import arrays, registry
from xferlib._core.arrays import share_memory
from xferlib._memory.buffers import Pages
from xferlib._runtime.checks import has
from xferlib._transfer.describe import refuse_overlap
from xferlib.errors import ArgumentError, LayoutError, UnsupportedArrayError, quote

if TYPE_CHECKING:
    from xferlib._core.arrays import HostArray
    from xferlib._core.device import Device


class Source(Protocol):
    """Where rows come from."""

    rows: int
    waits: bool
    """Whether reading may wait, for a disk or for the program: threads beside the function are worth their hand-overs.
    Not that of a memory map, whose pages the kernel reads ahead and keeps."""

    def read(self, start: int, stop: int) -> Any:
        """The rows as a host array, which stays as it is until they are released."""

    def read_apart(self, start: int, stop: int) -> Any:
        """A few rows as a host array that needs no release."""

    def release_rows(self, start: int, stop: int) -> None:
        """The rows will not be looked at again."""


class _Array:
    """A NumPy array, or anything with NumPy's memory."""

    waits = False

    def __init__(self, array: HostArray) -> None:
        self._array = array
        self.rows = len(array)

    def read(self, start: int, stop: int) -> HostArray:
        return self._array[start:stop]

    read_apart = read

    def release_rows(self, start: int, stop: int) -> None:
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

    def release_rows(self, start: int, stop: int) -> None:
        self._pages.let_go(start, stop)


class _Sliced:
    """Takes slices, one at a time: zarr, h5py, and the like."""

    waits = True

    def __init__(self, source: Any) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._inner = tuple(source.shape[1:])
        self.rows = int(source.shape[0])

    def read(self, start: int, stop: int) -> HostArray:
        with self._lock:
            made = np.asanyarray(self._source[start:stop])  # asarray would hide a mask, as of netCDF4's variables
        arrays.refuse_masked(made, f"source[{start}:{stop}]")
        found: HostArray = np.asarray(made)
        if found.shape != (stop - start, *self._inner):
            raise LayoutError(
                f"source[{start}:{stop}] has shape {found.shape} instead of {(stop - start, *self._inner)}; slices of "
                "the source must have the rows that were requested"
            )
        return found

    read_apart = read

    def release_rows(self, start: int, stop: int) -> None:
        """No-op: the array that `read` made is collected."""


class _Filling:
    """Calls ``read_into`` with pinned memory, one chunk at a time, so that nothing has to be staged."""

    waits = True

    def __init__(self, source: Any, most_rows: int, backend: str) -> None:
        self._source = source
        self._most_rows = most_rows
        self._inner = tuple(int(extent) for extent in source.shape[1:])
        self._dtype = arrays.check_dtype(source.dtype, what="source")
        self._backend = backend
        self._idle: list[HostArray] = []
        self._lock = threading.Lock()
        self._busy: dict[int, HostArray] = {}
        self.rows = int(source.shape[0])

    def read(self, start: int, stop: int) -> HostArray:
        memory = self._idle.pop() if self._idle else self._fresh(self._most_rows)
        part = memory[: stop - start]
        with self._lock:
            self._source.read_into(part, start)
        self._busy[start] = memory
        return part

    def read_apart(self, start: int, stop: int) -> HostArray:
        part = self._fresh(stop - start)
        with self._lock:
            self._source.read_into(part, start)
        return part

    def _fresh(self, rows: int) -> HostArray:
        return creation.pinned_empty((rows, *self._inner), self._dtype, backend=self._backend)

    def release_rows(self, start: int, stop: int) -> None:
        memory = self._busy.pop(start, None)
        if memory is not None:
            self._idle.append(memory)


# Chunks with rows of their neighbours: what lies before the first row and behind the last is made from rows there.


def _reflect(places: HostArray, rows: int) -> HostArray:
    turned: HostArray = np.abs(places) % max(2 * (rows - 1), 1)
    return np.asarray(np.minimum(turned, 2 * (rows - 1) - turned))


def _mirror(places: HostArray, rows: int) -> HostArray:
    turned: HostArray = places % (2 * rows)
    return np.asarray(np.minimum(turned, 2 * rows - 1 - turned))


BOUNDARIES: dict[str, Callable[[HostArray, int], HostArray]] = {
    "edge": lambda places, rows: np.clip(places, 0, rows - 1), "reflect": _reflect, "symmetric": _mirror,
    "wrap": lambda places, rows: places % rows,
}  # fmt: skip
"""The row that stands at a place beyond the ends, by the names of `numpy.pad`."""


def check_boundary(number: complex, dtype: np.dtype[Any]) -> None:
    """Check that rows of a dtype hold a number.

    Raises:
        ArgumentError: They do not.
    """
    try:
        with np.errstate(invalid="ignore"):
            is_held = dtype.kind in "fcV" or bool(np.full((), number, dtype) == number)
    except (OverflowError, ValueError):  # of a Python integer; of NaN
        is_held = False
    if not is_held or (isinstance(number, (complex, np.complexfloating)) and dtype.kind != "c"):
        raise ArgumentError(
            f"stream_map: boundary={quote(number)} is not a number that rows of {dtype} hold; give another one, or one "
            f"of {', '.join(map(repr, BOUNDARIES))}"
        )


class WithHalo:
    """Chunks of a source with ``halo`` rows more before them and behind.

    Args:
        source: It is read in chunks longer than the halo, so that no two of them begin at the same row.
        halo: Rows on each side.
        boundary: A name of `BOUNDARIES`, or the number that stands beyond the ends.
    """

    def __init__(self, source: Source, halo: int, boundary: str | complex) -> None:
        self._source = source
        self._halo = halo
        self._boundary = boundary
        self.rows, self.waits = source.rows, source.waits

    def read(self, start: int, stop: int) -> HostArray:
        return self._surround(start, stop, self._source.read)

    def read_apart(self, start: int, stop: int) -> HostArray:
        return self._surround(start, stop, self._source.read_apart)

    def _surround(self, start: int, stop: int, read: Callable[[int, int], Any]) -> HostArray:
        low, high = max(start - self._halo, 0), min(stop + self._halo, self.rows)
        found: HostArray = read(low, high)
        parts = [
            self._beyond(found, low, np.arange(start - self._halo, low)),
            found,
            self._beyond(found, low, np.arange(high, stop + self._halo)),
        ]
        given = [each for each in parts if len(each)]
        return given[0] if len(given) == 1 else np.concatenate(given)

    def _beyond(self, found: HostArray, low: int, places: HostArray) -> HostArray:
        """The rows at places beyond the ends, of which some may have been read."""
        if not len(places):
            return found[:0]
        if not isinstance(self._boundary, str):
            check_boundary(self._boundary, found.dtype)
            return np.full((len(places), *found.shape[1:]), self._boundary, found.dtype)
        wanted = BOUNDARIES[self._boundary](places, self.rows)
        first, end = int(wanted.min()), int(wanted.max()) + 1
        if first >= low and end <= low + len(found):
            return np.asarray(found[wanted - low])
        return np.asarray(np.asarray(self._source.read_apart(first, end))[wanted - first])

    def release_rows(self, start: int, stop: int) -> None:
        """Release the rows that no later chunk looks at."""
        self._source.release_rows(max(start - self._halo, 0), self.rows if stop == self.rows else stop - self._halo)


class Trimmed:
    """A function of chunks with a halo, whose result loses the rows of the halo where it has them.

    Args:
        fn: Gives as many rows as the chunk without its halo, or as it was given.
        halo: Rows on each side.
    """

    def __init__(self, fn: Callable[[Any], Any], halo: int) -> None:
        self._fn = fn
        self._halo = halo

    def __call__(self, *chunks: Any) -> Any:
        given = chunks[0].shape[0]
        found = self._fn(*chunks)
        is_whole = registry.owner_of(found) is not None and len(found.shape) and found.shape[0] == given
        return found[self._halo : given - self._halo] if is_whole else found


class Carried:
    """Rows of a source that were sent to this process, those of the halo with them.

    Args:
        array: Rows from ``first - halo`` on.
        first: The first row that may be read.
        halo: Rows on each side.
        rows: Of the whole source.
    """

    waits = False

    def __init__(self, array: HostArray, first: int, halo: int, rows: int) -> None:
        self._array = array
        self._first = first
        self._halo = halo
        self.rows = rows

    def read(self, start: int, stop: int) -> HostArray:
        return self._array[start - self._first : stop - self._first + 2 * self._halo]

    read_apart = read

    def release_rows(self, start: int, stop: int) -> None:
        """No-op: the array came with the task, and goes with it."""


class Together:
    """The same rows of several sources, as a tuple of arrays.

    They are read one by one: two of them may be the same object, or parts of one file.
    """

    def __init__(self, sources: list[Source]) -> None:
        self._sources = sources
        self._lock = threading.Lock()
        self.rows = sources[0].rows
        self.waits = any(each.waits for each in sources)

    def read(self, start: int, stop: int) -> tuple[Any, ...]:
        with self._lock:
            return tuple(each.read(start, stop) for each in self._sources)

    def read_apart(self, start: int, stop: int) -> tuple[Any, ...]:
        with self._lock:
            return tuple(each.read_apart(start, stop) for each in self._sources)

    def release_rows(self, start: int, stop: int) -> None:
        for each in self._sources:
            each.release_rows(start, stop)


class Spread:
    """A function of several chunks, called with a tuple of them."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn

    def __call__(self, chunks: tuple[Any, ...]) -> Any:
        return self._fn(*chunks)


def readers_of(
    sources: tuple[Any, ...], chunk_rows: int, place: Device, halo: int = 0, boundary: str | complex = "edge"
) -> list[Source]:
    """Return the reader of each source in chunks of at most ``chunk_rows`` rows and the halo, for a device.

    Raises:
        ArgumentError: A number beyond the ends is none of the rows'.
        LayoutError: They differ in the number of their rows.
        UnsupportedArrayError: One has no shape, dtype and slices, and no ``read_into`` either.
    """
    found: list[Source] = []
    for number, source in enumerate(sources, 1):
        what = "source" if len(sources) == 1 else f"source {number}"
        reader = _source_of(source, chunk_rows + 2 * halo, place, what)
        if found and reader.rows != found[0].rows:
            raise LayoutError(
                f"stream_map: {what} has {reader.rows} rows, but source 1 has {found[0].rows}, and a chunk is the same "
                "rows of each; let the function hold what belongs to every chunk: lambda x: fn(x, xl.to_device(y)), or "
                "numpy.broadcast_to(y, shape) with as many rows"
            )
        if halo and not isinstance(boundary, str) and isinstance(getattr(source, "dtype", None), np.dtype):
            check_boundary(boundary, source.dtype)
        found.append(WithHalo(reader, halo, boundary) if halo else reader)
    return found


def _source_of(source: Any, most_rows: int, place: Device, what: str) -> Source:
    owner = registry.owner_of(source)
    if owner is not None:
        host, pages = host_rows(source, what), Pages.of(source)
        return _Array(host) if pages is None else _Mapped(host, pages, is_staged=place.kind != "cpu")
    if isinstance(source, (str, os.PathLike)):
        raise UnsupportedArrayError(
            f"stream_map: {what} is the name of a file, {os.fspath(source)!r}; open it first: "
            "numpy.load(path, mmap_mode='r'), or numpy.memmap(path, dtype, 'r', shape=shape)"
        )
    is_readable = hasattr(source, "read_into") or hasattr(source, "__getitem__")
    if not has_rows(source) or not is_readable:
        others = "; loop over batches of your own: xferlib.prefetch(batches)" if isinstance(source, Iterable) else ""
        raise UnsupportedArrayError(
            f"stream_map: {what} is {type(source).__name__}, which has no shape, dtype and slices; give an array, a "
            f"memory map, a zarr or h5py array, or an object with shape, dtype and read_into(out, start){others}"
        )
    arrays.check_dtype(source.dtype, what=what)
    return _Filling(source, most_rows, place.backend) if hasattr(source, "read_into") else _Sliced(source)


def has_rows(given: Any) -> bool:
    """Whether a foreign object has a dtype, and a shape of an axis or more, of any type."""
    if not (has(given, "shape") and has(given, "dtype")):
        return False
    shape, dtype = given.shape, given.dtype
    return shape is not None and dtype is not None and hasattr(type(shape), "__len__") and len(shape) > 0


def host_rows(array: Any, what: str) -> HostArray:
    owner = registry.owner_of(array)
    assert owner is not None
    info = owner.view(array)
    if info.device.kind != "cpu":
        raise UnsupportedArrayError(
            f"stream_map: {what} is on {info.device} already; call the function with it, or give it on the host"
        )
    arrays.check_dtype(info.dtype, what=what)
    if not info.shape:
        raise UnsupportedArrayError(f"stream_map: {what} has no rows: its shape is (); give at least one dimension")
    host: HostArray = owner.host_view(array) if owner.name != "numpy" else array
    return host


# Detection of overlap between the rows that `stream_map` reads and those that it writes.
#
# Chunks are read ahead of results that are stored. Where a chunk's result goes to that chunk's own rows, they have been
# read by then. Any other overlap would let the result depend on which of the two comes first.


def is_same_rows(source: HostArray, out: HostArray) -> bool:
    """Whether each row is stored where it was read; False where the two have no byte in common.

    Raises:
        LayoutError: They overlap in another way.
    """
    if _form(source) == _form(out):
        return source.nbytes > 0
    if share_memory(source, out) or _share_file(source, out):
        raise refusal()
    return False


def refusal() -> LayoutError:
    """Return the error for an ``out`` that overlaps the source."""
    return LayoutError(
        "stream_map: out shares memory with source, whose rows are read ahead: the result would depend on what is "
        "stored first; give out memory of its own, None for a new array, or exactly the source's array to work in place"
    )


def _form(array: HostArray) -> tuple[object, ...]:
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _share_file(one: HostArray, two: HostArray) -> bool:
    """Whether two memory maps share bytes of a file, which have a different address in each."""
    for each in (one, two):
        if not isinstance(each, np.memmap) or each.filename is None:  # None: memory, made like a map
            return False
    assert isinstance(one, np.memmap)
    assert isinstance(two, np.memmap)
    (file, low, high), (other, begin, end) = _in_file(one), _in_file(two)
    if low >= end or begin >= high:
        return False
    return file.exists() and other.exists() and file.samefile(other)


def _in_file(mapped: np.memmap) -> tuple[Path, int, int]:
    """Return the file, and the range of its bytes that an array occupies."""
    whole: HostArray = mapped
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    assert isinstance(whole, np.memmap)
    low, high = np.lib.array_utils.byte_bounds(mapped)
    start = whole.offset + low - np.lib.array_utils.byte_bounds(whole)[0]
    return Path(whole.filename or ""), start, start + high - low


# Results in rows on the host, written in chunks: arrays, memory maps, whatever takes slices, and reductions.


class Sink(Protocol):
    """The target of results."""

    is_ordered: bool
    """Whether `write` is called in the order of the rows, by one thread at a time."""
    is_reduction: bool
    """Whether results are trees of any shape, instead of arrays with as many rows."""
    waits: bool
    """Whether storing may wait, for a disk or for the program."""

    @property
    def value(self) -> Any:
        """The results so far."""

    def target(self, start: int, stop: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray | None:
        """Return memory to copy a result into, or None; refuse a result that does not fit."""

    def write(self, start: int, stop: int, host: Any) -> None:
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

    def write(self, start: int, stop: int, host: Any) -> None:
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

    def write(self, start: int, stop: int, host: Any) -> None:
        self.out[start:stop] = host


class InPlace(_Assigned):
    """The memory of the source: rows are stored in their order, so that those not yet stored can be read again."""

    waits = False

    def __init__(self, value: Any, out: HostArray) -> None:
        super().__init__(out)
        self.value = value


class Collected:
    """A new array for some rows, allocated when the shape of the first result is known."""

    is_ordered = is_reduction = waits = False

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high
        self._lock = threading.Lock()
        self.value: Any = None

    def target(self, start: int, stop: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
        if not shape or shape[0] != stop - start:
            raise _misfit(start, stop, shape, dtype, (stop - start, *shape[1:]), dtype)
        with self._lock:
            if self.value is None:
                self.value = np.empty((self._high - self._low, *shape[1:]), dtype)
        into: HostArray = self.value[start - self._low : stop - self._low]
        if into.shape != shape or into.dtype != dtype:
            raise _misfit(start, stop, shape, dtype, into.shape, into.dtype)
        return into

    def write(self, start: int, stop: int, host: Any) -> None:
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

    def write(self, start: int, stop: int, host: Any) -> None:
        self.value = host if self.value is None else self._function(self.value, host)


def sink_of(out: Any, rows: int, sources: tuple[Any, ...]) -> _Into | _Assigned | Collected:
    """Return the writer for ``out``, of results of ``sources``.

    Raises:
        LayoutError: It has other rows than a source, is read-only, or shares some of a source's memory.
        UnsupportedArrayError: It takes no slices.
    """
    if out is None:
        return Collected(0, rows)
    if not has_rows(out) or not has(out, "__setitem__") or out.dtype is None:
        raise UnsupportedArrayError(
            f"stream_map: out is {type(out).__name__}, which has no shape, dtype and slices; give an array, a memory "
            "map, a zarr or h5py array, or None for a new array"
        )
    if int(out.shape[0]) != rows:
        raise LayoutError(
            f"stream_map: out has {out.shape[0]} rows, but the source has {rows}; make out of that length"
        )
    owner = registry.owner_of(out)
    if owner is None:
        if any(out is source for source in sources):
            raise refusal()
        return _Assigned(out)
    host = host_rows(out, "out")
    if not host.flags.writeable:
        raise LayoutError("stream_map: out is read-only; pass an array that may be written (mode='r+' for a memmap)")
    refuse_overlap(host, "stream_map: out")
    in_memory = [host_rows(source, "source") for source in sources if registry.owner_of(source) is not None]
    are_out = [is_same_rows(source, host) for source in in_memory]  # each: any overlap is to be refused
    owner.note_write(out, "stream_map: out")
    if any(are_out):
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
        is_row_each = shape[:1] == wanted[:1]
        remedies.append(
            f"let it give rows of shape {wanted[1:]}, as out has"
            if is_row_each
            else "let it give one row for each row, or give reduce= to combine the chunks' results"
        )
    if dtype != wanted_dtype:
        remedies.append(f"let it end with astype({str(wanted_dtype)!r})")
    return LayoutError(
        f"stream_map: the function gave shape {shape} and dtype {dtype} for rows {start} to {stop}, but out takes "
        f"{wanted} and {wanted_dtype} there; {', and '.join(remedies)}"
    )
