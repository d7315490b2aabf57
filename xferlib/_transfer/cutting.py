"""How a staged transfer is cut for `staging.c`: into loads that the link carries, and those into pieces.

The first loads are small, so that the link starts early; a download ends with small ones too, so that
little is left to empty when the link is done. In between they are as large as a chunk.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xferlib._core.thresholds import (
    C_FIRST_BLOCK_NBYTES,
    C_LARGEST_BLOCK_PARTS,
    C_PIECE_LEAST,
    C_PIECE_MOST,
    CHUNK_NBYTES,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Cut:
    """Loads in order, each of equal pieces; the last piece of a load may be smaller."""

    offsets: tuple[int, ...]
    """Of each load, and the end of the last, in bytes."""
    shares: tuple[int, ...]
    """Bytes of a piece of each load."""
    firsts: tuple[int, ...]
    """The number of the first piece of each load, and of all pieces."""

    @functools.cached_property
    def numbers(self) -> tuple[Any, Any, Any]:
        """The same as arrays of int64, for C."""
        offsets, shares, firsts = (
            (ctypes.c_int64 * len(each))(*each) for each in (self.offsets, self.shares, self.firsts)
        )
        return offsets, shares, firsts

    def sizes(self) -> Iterator[int]:
        """Bytes of every piece."""
        for (start, end), share in zip(itertools.pairwise(self.offsets), self.shares, strict=True):
            for offset in range(start, end, share):
                yield min(share, end - offset)


@functools.lru_cache(maxsize=64)  # loops move arrays of one size
def cut(nbytes: int, *, unit: int, threads: int, is_upward: bool, least: int = 0, most: int = C_PIECE_MOST) -> Cut:
    """Cut a transfer.

    Args:
        nbytes: In all; a multiple of ``unit``.
        unit: Every piece begins and ends at a multiple of it; a power of two.
        threads: How many will fill or empty pieces.
        is_upward: Host to device.
        least: Every piece but the last begins and ends at a multiple of it; 0: of ``unit``.
        most: Bytes of a piece, if that is not less than ``least``.
    """
    unit, most = least or unit, max(most, least)
    tail = nbytes % unit
    loads = [*_loads(nbytes - tail, unit, most, is_upward=is_upward), *([tail] if tail else [])]
    return _pieces(loads, unit, threads, most)


def _pieces(loads: list[int], unit: int, threads: int, most: int) -> Cut:
    """Cut loads into pieces for that many threads."""
    smallest = min(C_PIECE_LEAST, most)
    shares = [_multiple(min(most, max(-(-load // threads), smallest)), unit) for load in loads]
    counts = (-(-load // share) for load, share in zip(loads, shares, strict=True))
    return Cut(
        tuple(itertools.accumulate(loads, initial=0)), tuple(shares), tuple(itertools.accumulate(counts, initial=0))
    )


@functools.lru_cache(maxsize=64)
def cut_regions(sizes: tuple[int, ...], *, unit: int, threads: int, is_upward: bool, most: int = C_PIECE_MOST) -> Cut:
    """Cut a transfer of several regions of device memory, one behind the other: no load reaches into two.

    Args:
        sizes: Of the regions.
        unit, threads, is_upward, most: As for `cut`.
    """
    loads: list[int] = []
    for number, nbytes in enumerate(sizes):
        tail = nbytes % unit
        if number == (0 if is_upward else len(sizes) - 1):  # where the link starts, or the last thread ends
            found = _loads(nbytes - tail, unit, most, is_upward=True)
            loads += found if is_upward else reversed(found)
        else:
            loads += _even(nbytes - tail, unit, most)
        loads += [tail] if tail else []
    return _pieces(loads, unit, threads, most)


def _even(nbytes: int, unit: int, most: int) -> list[int]:
    """Sizes of loads of a region in the middle of a transfer: as large as a chunk."""
    largest = _multiple(min(CHUNK_NBYTES, 8 * most), unit)
    rest = nbytes % largest
    return [*[largest] * (nbytes // largest), *([rest] if rest else [])]


def _loads(nbytes: int, unit: int, most: int, *, is_upward: bool) -> list[int]:
    """Sizes of loads, doubled from the first one to the largest; of downloads also halved towards the end."""
    if not nbytes:
        return []
    first = _multiple(min(C_FIRST_BLOCK_NBYTES, most), unit)
    largest = _multiple(min(CHUNK_NBYTES, 8 * most, max(first, nbytes // C_LARGEST_BLOCK_PARTS)), unit)
    rising = list(itertools.takewhile(lambda size: size < largest, (first << n for n in itertools.count())))
    falling = [] if is_upward else rising[::-1]
    middle = nbytes - sum(rising) - sum(falling)
    rest = middle % largest
    return [*rising, *[largest] * (middle // largest), *([rest] if rest else []), *falling]


def _multiple(nbytes: int, unit: int) -> int:
    """The largest multiple of ``unit`` up to ``nbytes``, at least one."""
    return max(nbytes // unit, 1) * unit
