"""Regions of a block's bytes, contiguous or not, and whether two of them intersect.

To compare the ends alone would report columns of one matrix against each other. Whether two strided regions share a
byte is a problem in whole numbers that may take any time, so NumPy's answer has a limit of work, beyond which both are
listed run by run, as regions of index arrays are always.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

Offsets = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

MOST_WORK = 100_000
"""The work limit of `numpy.shares_memory`, some milliseconds; beyond it, both regions are listed element by element."""


class Strided(NamedTuple):
    """Equal runs of bytes at regular distances, the first at the start of the span.

    The form is normalised, so that the usual views of the same bytes compare equal: axes are sorted, positive, and
    merged where one continues another.
    """

    run: int
    """Bytes of one run."""
    axes: tuple[tuple[int, int], ...]
    """(stride in bytes, extent), the finest first."""


class Cells:
    """Equal runs of bytes anywhere in the span, as index arrays select them.

    Args:
        run: Bytes of one cell.
        find: Gives the cells' offsets in the block, in any order; called at the first use.
    """

    __slots__ = ("_find", "_starts", "run")

    def __init__(self, run: int, find: Callable[[], Offsets]) -> None:
        self.run = run
        self._find: Callable[[], Offsets] | None = find
        self._starts: Offsets | None = None

    @property
    def starts(self) -> Offsets:
        """The cells' offsets in the block, ascending, each once."""
        if self._starts is None:
            assert self._find is not None
            self._starts = np.unique(self._find())
            self._find = None  # with the index arrays that it holds
        return self._starts


Form = Strided | Cells | None
"""The bytes of a span between its ends; None for all of them."""


class HasData(Protocol):
    """An object that has bytes."""

    @property
    def data(self) -> np.ndarray[Any, Any]: ...


Data_co = TypeVar("Data_co", bound=HasData, covariant=True)


class Region(NamedTuple, Generic[Data_co]):
    """Bytes of one block in ``start .. stop``: all of them, or those that ``form`` selects."""

    block: Data_co
    start: int
    stop: int
    form: Form = None


def meet(one: Region[HasData], two: Region[HasData]) -> bool:
    """Whether two regions of one block have a byte in common; exact for every form."""
    if one.start >= two.stop or two.start >= one.stop:
        return False
    if one.form is None and two.form is None:
        return True
    if not isinstance(one.form, Cells) and not isinstance(two.form, Cells):
        try:
            first, second = lines(one), lines(two)
            return np.shares_memory(first, second, max_work=MOST_WORK)  # type: ignore[arg-type]  # any number
        except np.exceptions.TooHardError:
            pass
    return first_met(*starts(one), two) is not None


def first_met(cells: Offsets, run: int, span: Region[HasData]) -> int | None:
    """The index of a cell that has a byte of the span; None if no cell has.

    Args:
        cells: Ascending offsets of cells.
        run: Bytes of each.
        span: In the same block.
    """
    others, length = starts(span)
    if len(others) > len(cells):  # look up the fewer among the more
        found = np.searchsorted(others, cells - length, "right")
        inside = found < len(others)
        inside[inside] = others[found[inside]] < cells[inside] + run
        return int(inside.argmax()) if inside.any() else None
    found = np.searchsorted(cells, others - run, "right")  # the first cell that ends behind the other's begin
    found = found[found < len(cells)] if (is_inside := found < len(cells)).all() else found[is_inside]
    met = cells[found] < others[is_inside] + length
    return int(found[met.argmax()]) if met.any() else None


def starts(span: Region[HasData]) -> tuple[Offsets, int]:
    """The ascending offsets of a span's runs, and the bytes of each."""
    form = span.form
    if form is None:
        return np.array([span.start], np.int64), span.stop - span.start
    if isinstance(form, Cells):
        return form.starts, form.run
    offsets, is_ascending = np.array([span.start], np.int64), True
    for stride, extent in form.axes:
        is_ascending = is_ascending and stride > offsets[-1] - span.start
        offsets = (offsets + (np.arange(extent) * stride)[:, None]).reshape(-1)
    return offsets if is_ascending else np.unique(offsets), form.run


def lines(span: Region[HasData]) -> np.ndarray[Any, Any]:
    """The bytes of a span that no index array has selected."""
    return _lines(span, span.block.data, 0)


def _lines(span: Region[HasData], data: np.ndarray[Any, Any], origin: int) -> np.ndarray[Any, Any]:
    form = span.form
    if form is None:
        return data[span.start - origin : span.stop - origin]
    assert isinstance(form, Strided)
    shape = (*(extent for _, extent in form.axes), form.run)
    strides = (*(stride for stride, _ in form.axes), 1)
    return np.ndarray(shape, data.dtype, data, span.start - origin, strides)


def bytes_of(span: Region[HasData], flags: Flags, origin: int = 0) -> Flags:
    """The flags of a span's bytes; ``flags`` has one for each byte of the block from ``origin`` on."""
    if isinstance(span.form, Cells):
        return flags[_indices(span.form, origin)]
    return _lines(span, flags, origin)


def mark(span: Region[HasData], flags: Flags, value: bool) -> None:
    """Set the flags of a span's bytes."""
    if isinstance(span.form, Cells):
        flags[_indices(span.form, 0)] = value
    else:
        _lines(span, flags, 0)[...] = value


def _indices(cells: Cells, origin: int) -> Offsets:
    return (cells.starts[:, None] + np.arange(-origin, cells.run - origin)).reshape(-1)


def runs(flags: Flags) -> list[tuple[int, int]]:
    """The ranges where flags are set, each as (start, stop)."""
    edges = np.flatnonzero(np.diff(flags, prepend=False, append=False)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
