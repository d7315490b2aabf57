"""Philox 4x32-10: four random words of 32 bits from a counter of four words and a key of two.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC11 (doi 10.1145/2063384.2063405). A
block depends on nothing but its counter and its key, so that every element of a call computes its own, in any order.
"""

from __future__ import annotations

from xferlib.kernels.ir.nodes import UINT32, UINT64, Builder, Node

ROUNDS = 10
WORDS = 4
"""The words of a block."""
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
"""The addends of each round to the words of the key."""


def words(b: Builder, counter: tuple[Node, ...], key: tuple[Node, ...]) -> tuple[Node, ...]:
    """The block of a counter, its lowest word first; all values are uint32."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = _product(b, c0, _MULTIPLIERS[0])
        high1, low1 = _product(b, c2, _MULTIPLIERS[1])
        c0, c1 = b.op("xor", b.op("xor", high1, c1), k0), low1
        c2, c3 = b.op("xor", b.op("xor", high0, c3), k1), low0
        k0, k1 = (b.op("add", each, b.const(step, UINT32)) for each, step in zip((k0, k1), _WEYL, strict=True))
    return c0, c1, c2, c3


def _product(b: Builder, x: Node, factor: int) -> tuple[Node, Node]:
    """The upper and the lower word of a product."""
    product = b.op("mul", b.cast(x, UINT64), b.const(factor, UINT64))
    return b.cast(b.op("shr", product, b.const(32, UINT64)), UINT32), b.cast(product, UINT32)


def pair(b: Builder, low: Node, high: Node) -> Node:
    """Two words as one number of 64 bits."""
    upper = b.op("shl", b.cast(high, UINT64), b.const(32, UINT64))
    return b.op("or", upper, b.cast(low, UINT64))
