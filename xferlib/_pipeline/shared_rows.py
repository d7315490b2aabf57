"""Detection of overlap between the rows that `stream_map` reads and those that it writes.

Chunks are read ahead of results that are stored. Where a chunk's result goes to that chunk's own rows, they have been
read by then. Any other overlap would let the result depend on which of the two comes first.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from xferlib._core.layout import share_memory
from xferlib.errors import LayoutError

if TYPE_CHECKING:
    from xferlib._core.layout import HostArray


def is_in_place(source: HostArray, out: HostArray) -> bool:
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
