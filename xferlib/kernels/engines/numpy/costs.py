"""Rough times of a program's steps on one core, to decide whether another thread pays.

Measured with NumPy 2.4 on x86-64 with AVX-512, in blocks that fit the cache. A plain ufunc is bound by the
bytes it writes, the rest by what it computes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xferlib.kernels.ir.nodes import FLOAT16, FLOAT32, Node

THREAD_NS = 100_000
"""The least work for which a thread is woken; waking one and waiting for it takes 30 to 40 us."""

_PER_BYTE_NS = 0.05
_SLOW_NS = {
    "call": 4.0,
    "fma": 25.0,
    "fmod": 8.0,
    "gather": 4.0,
    "update": 20.0,
    "select": 0.6,
    "cast": 0.5,
    "index": 0.5,
    "loop": 200.0,
}
_DIVISIONS_NS = 3.0
_HALF_NS = 3.0
_DIVISIONS = frozenset({"idiv", "imod", "floordiv", "floormod"})


def ns_per_element(nodes: Sequence[Node]) -> float:
    """The time for one element of a program with these nodes."""
    return sum(_ns(node) for node in nodes if node.op not in ("const", "load", "size", "length", "fact")) + _PER_BYTE_NS


def _ns(node: Node) -> float:
    plain = _PER_BYTE_NS * max([node.dtype.itemsize, *(each.dtype.itemsize for each in node.args)])
    if node.op in _DIVISIONS:
        return _DIVISIONS_NS
    if FLOAT16 in (node.dtype, *(each.dtype for each in node.args)) and node.op != "select":
        return _HALF_NS
    slow = _SLOW_NS.get(node.op, 0.0)
    return slow * (2 if node.op == "call" and node.dtype == FLOAT32 else 1) + plain


def helpers(nanoseconds: float, blocks: int, threads: int) -> int:
    """The number of threads to wake, beside the calling one, for this much work in that number of blocks."""
    return max(0, min(blocks, threads, int(nanoseconds / THREAD_NS)) - 1)
