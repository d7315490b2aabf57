"""Uniform numbers and integers from random words: shifts, products and conversions, each of them exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xferlib.kernels.ir.nodes import FLOAT32, UINT32, UINT64, Builder, DType, Node
from xferlib.kernels.random.philox import pair

Words = tuple[Node, ...]


class Distribution(NamedTuple):
    """The numbers that a kernel makes of each block of words."""

    name: str
    dtype: DType
    per_block: int
    """The numbers that a block gives."""
    parameters: tuple[tuple[str, DType], ...]
    """Names and dtypes of the numbers that a call takes besides counter and key."""
    values: Callable[[Builder, Words, Sequence[Node]], Sequence[Node]]
    """From the words of a block, and the parameters, to its numbers."""


def wide(b: Builder, words: Words) -> Words:
    """A block as two numbers of 64 bits."""
    return pair(b, words[0], words[1]), pair(b, words[2], words[3])


def random(dtype: DType) -> Distribution:
    """Multiples of 2^-24 (float32) or 2^-53 (float64) from 0 up to and without 1."""
    return Distribution("random", dtype, _floats_per_block(dtype), (), lambda b, words, _: [*_units(b, words, dtype)])


def uniform(dtype: DType) -> Distribution:
    """``low + span * random``, both operations rounded."""

    def values(b: Builder, words: Words, parameters: Sequence[Node]) -> Sequence[Node]:
        low, span = parameters
        return [b.op("add", low, b.op("mul", span, each)) for each in _units(b, words, dtype)]

    return Distribution("uniform", dtype, _floats_per_block(dtype), (("low", dtype), ("span", dtype)), values)


def _floats_per_block(dtype: DType) -> int:
    return 4 if dtype == FLOAT32 else 2


def _units(b: Builder, words: Words, dtype: DType) -> Words:
    is_single = dtype == FLOAT32
    sources, bits = (words, 24) if is_single else (wide(b, words), 53)
    scale = b.const(2.0**-bits, dtype)
    return tuple(b.op("mul", b.cast(_upper(b, each, bits), dtype), scale) for each in sources)


def _upper(b: Builder, word: Node, bits: int) -> Node:
    return b.op("shr", word, b.const(8 * word.dtype.itemsize - bits, word.dtype))


# --- integers


def shifted(dtype: DType, bits: int) -> Distribution:
    """``low`` plus the upper bits of a random number of 32 or 64 ``bits``: 2^n values, all equally likely.

    The parameter ``shift`` is the number of bits dropped.
    """
    work = UINT32 if bits == 32 else UINT64

    def values(b: Builder, words: Words, parameters: Sequence[Node]) -> Sequence[Node]:
        low, shift = parameters
        sources = words if bits == 32 else wide(b, words)
        return [_moved(b, b.op("shr", each, shift), low, dtype) for each in sources]

    return Distribution("integers", dtype, 128 // bits, (("low", UINT64), ("shift", work)), values)


def multiplied(dtype: DType, bits: int) -> Distribution:
    """``low`` plus the upper part of the product of ``count`` and a random number of 64 or 128 ``bits``.

    ``count`` has at most 32 bits beside 64, at most 64 beside 128. Lemire, "Fast random integer generation in an
    interval", ACM TOMACS 29 (2019), without its rejection: the probability of each value is off by less than 2^-bits.
    """

    def values(b: Builder, words: Words, parameters: Sequence[Node]) -> Sequence[Node]:
        low, count = parameters
        if bits == 64:
            found = [_upper_of_96(b, words[0], words[1], count), _upper_of_96(b, words[2], words[3], count)]
        else:
            found = [_upper_of_192(b, wide(b, words), count)]
        return [_moved(b, each, low, dtype) for each in found]

    return Distribution("integers", dtype, 128 // bits, (("low", UINT64), ("count", UINT64)), values)


def _moved(b: Builder, offset: Node, low: Node, dtype: DType) -> Node:
    """``low + offset``, wrapping, as ``dtype``."""
    work = UINT32 if dtype.itemsize <= 4 else UINT64
    return b.cast(b.op("add", b.cast(low, work), b.cast(offset, work)), dtype)


def _upper_of_96(b: Builder, low: Node, high: Node, count: Node) -> Node:
    """The bits from 64 on of the product of two words and ``count``, of 32 bits; nothing overflows."""
    carry = _shr32(b, b.op("mul", b.cast(low, UINT64), count))
    return _shr32(b, b.op("add", b.op("mul", b.cast(high, UINT64), count), carry))


def _upper_of_192(b: Builder, words: Words, count: Node) -> Node:
    """The bits from 128 on of the product of two numbers of 64 bits and ``count``."""
    carry = _upper_of_128(b, words[0], count)
    low = b.op("mul", words[1], count)
    has_carried = b.op("lt", b.op("add", low, carry), low)
    return b.op("add", _upper_of_128(b, words[1], count), b.cast(has_carried, UINT64))


def _upper_of_128(b: Builder, x: Node, y: Node) -> Node:
    """The bits from 64 on of the product of two numbers of 64 bits, by halves."""
    mask = b.const(0xFFFFFFFF, UINT64)
    (x0, x1), (y0, y1) = ((b.op("and", each, mask), _shr32(b, each)) for each in (x, y))
    middle = b.op("add", b.op("mul", x1, y0), _shr32(b, b.op("mul", x0, y0)))
    rest = b.op("add", b.op("mul", x0, y1), b.op("and", middle, mask))
    return b.op("add", b.op("add", b.op("mul", x1, y1), _shr32(b, middle)), _shr32(b, rest))


def _shr32(b: Builder, x: Node) -> Node:
    return b.op("shr", x, b.const(32, UINT64))
