"""Fingerprints of functions over many inputs: two engines that agree on one agree on every result.

The inputs are made inside the kernel from a counter, so that 2^32 of them need no memory, and each
result is hashed together with its input, to 32 bits. NaNs count as one value. The fingerprint is the sum of the
hashes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xferlib.kernels.definitions import ArgumentKind
from xferlib.kernels.formulas import plain_bits
from xferlib.kernels.functions import TABLE
from xferlib.kernels.ir import (
    FLOAT32,
    UINT32,
    UINT64,
    Builder,
    DType,
    Node,
    Param,
    ReductionSpec,
    build_reduction,
    is_float,
)
from xferlib.kernels.reduction import ReductionKernel

CHUNK = 1 << 26
MASK = (1 << 64) - 1


class _Definition:
    """The sum of the hashes of ``function`` of ``dtype`` at ``count`` counters from ``offset`` on."""

    names: tuple[str, ...] = ("counter", "offset")

    def __init__(self, function: str, dtype: DType, *, is_complete: bool) -> None:
        self.name = f"digest_{function}"
        self._function = TABLE[function]
        self._dtype = dtype
        self._is_complete = is_complete

    def specialize(self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int]) -> ReductionSpec:
        params = [Param(name="counter", dtype=UINT32), Param(name="offset", dtype=UINT32, is_scalar=True)]
        return build_reduction(
            params,
            lambda b, x: [self._hashed(b, b.op("add", x[0], x[1]))],
            lambda b, x, y: [b.op("add", x[0], y[0])],
            lambda b, a, n, m: [a[0]],
            identity=(0,),
        )

    def _hashed(self, b: Builder, counter: Node) -> Node:
        if self._is_complete:
            operands = [b.bitcast(counter, FLOAT32)]
        else:
            seed = b.cast(counter, UINT64)
            operands = [self._random(b, seed, number) for number in range(self._function.arity)]
        result = _bits(b, self._function.lowering(b, *operands))
        place = b.op("mul", counter, b.const(0x9E3779B1, UINT32))  # 2^32 over the golden ratio, odd
        return b.cast(_scrambled(b, b.op("xor", place, result)), UINT64)

    def _random(self, b: Builder, seed: Node, number: int) -> Node:
        """Uniformly random bits of the dtype."""
        mixed = _mixed(b, b.op("add", b.op("mul", seed, b.const(3, UINT64)), b.const(number, UINT64)))
        if self._dtype.kind == "b":
            return b.truth(b.op("and", mixed, b.const(1, UINT64)))
        bits = b.cast(mixed, np.dtype(f"u{self._dtype.itemsize}"))
        return b.bitcast(bits, self._dtype)


def _bits(b: Builder, value: Node) -> Node:
    """The bits of a result as uint32; the halves of 64 of them folded into one another."""
    if is_float(value.dtype):
        value = plain_bits(b, value)
    if value.dtype.itemsize < 8:
        return b.cast(value, UINT32)
    low, high = b.cast(value, UINT32), b.cast(b.op("shr", value, b.const(32, value.dtype)), UINT32)
    return b.op("xor", low, b.op("mul", high, b.const(0xC2B2AE35, UINT32)))


def _scrambled(b: Builder, x: Node) -> Node:
    """Mix bits: a multiplication spreads each to higher ones, a shift brings the result down again."""
    x = b.op("mul", x, b.const(0x85EBCA6B, UINT32))
    return b.op("xor", x, b.op("shr", x, b.const(15, UINT32)))


def _mixed(b: Builder, x: Node) -> Node:
    """The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, None)):
        x = b.op("xor", x, b.op("shr", x, b.const(shift, UINT64)))
        if factor is not None:
            x = b.op("mul", x, b.const(factor, UINT64))
    return x


def complete(function: str) -> ReductionKernel:
    """The kernel for a function of one float32; call it with counters, which are the bits, and an offset."""
    return ReductionKernel(_Definition(function, FLOAT32, is_complete=True))


def random(function: str, dtype: Any) -> ReductionKernel:
    """The kernel for a function of ``dtype`` at random bit patterns, one for each counter."""
    return ReductionKernel(_Definition(function, np.dtype(dtype), is_complete=False))


def total(kernel: ReductionKernel, counters: Any, chunks: int, to_host: Any = np.asarray) -> int:
    """The digest over ``chunks`` times the counters, each time `CHUNK` further on."""
    result = 0
    for chunk in range(chunks):
        result += int(to_host(kernel(counters, np.uint32(chunk * CHUNK & 0xFFFFFFFF))))
    return result & MASK
