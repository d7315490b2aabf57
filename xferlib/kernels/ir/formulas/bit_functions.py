"""CUDA's functions of a number's bits, and its conversions with a given rounding."""

from __future__ import annotations

import re

from xferlib.kernels.ir.formulas.lower import Lowering
from xferlib.kernels.ir.nodes import FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, Builder, DType, Node


def _count(b: Builder, x: Node) -> Node:
    """The number of ones in the bits of an unsigned integer: sums of neighbours, then one multiplication."""
    bits = 8 * x.dtype.itemsize
    every = (1 << bits) - 1

    def const(value: int) -> Node:
        return b.const(value, x.dtype)

    x = b.op("sub", x, b.op("and", b.op("shr", x, const(1)), const(every // 3)))
    two = const(every // 5)
    x = b.op("add", b.op("and", x, two), b.op("and", b.op("shr", x, const(2)), two))
    x = b.op("and", b.op("add", x, b.op("shr", x, const(4))), const(every // 17))
    return b.cast(b.op("shr", b.op("mul", x, const(every // 255)), const(bits - 8)), INT32)


def _ones(unsigned: DType) -> Lowering:
    return lambda b, x: _count(b, b.cast(x, unsigned))


def _leading_zeros(unsigned: DType) -> Lowering:
    def lower(b: Builder, x: Node) -> Node:
        x = b.cast(x, unsigned)
        step = 1
        while step < 8 * unsigned.itemsize:
            x = b.op("or", x, b.op("shr", x, b.const(step, unsigned)))
            step *= 2
        return b.op("sub", b.const(8 * unsigned.itemsize, INT32), _count(b, x))

    return lower


def _first_one(unsigned: DType) -> Lowering:
    """The position of the lowest one, counted from 1; 0 of 0."""

    def lower(b: Builder, x: Node) -> Node:
        x = b.cast(x, unsigned)
        zero, one = b.const(0, unsigned), b.const(1, unsigned)
        below = b.op("and", b.op("not", x), b.op("sub", x, one))
        found = b.op("add", _count(b, below), b.const(1, INT32))
        return b.select(b.op("eq", x, zero), b.const(0, INT32), found)

    return lower


def _rounded(source: DType, op: str, target: DType) -> Lowering:
    return lambda b, x: b.cast(b.op(op, b.cast(x, source)), target)


def _bits(source: DType, target: DType) -> Lowering:
    return lambda b, x: b.bitcast(b.one_nan(b.cast(x, source)), target)


_READING = re.compile(r"_as_u?(?:int|longlong)\b")


def read_bits(*sources: str) -> bool:
    """Whether one of these texts has a function that gives the bits of a float."""
    return any(_READING.search(each) for each in sources)


_ROUNDINGS = {"rd": "floor", "ru": "ceil", "rn": "rint", "rz": "trunc"}

FUNCTIONS: dict[str, Lowering] = {
    "__popc": _ones(UINT32), "__popcll": _ones(UINT64), "__clz": _leading_zeros(UINT32),
    "__clzll": _leading_zeros(UINT64), "__ffs": _first_one(UINT32), "__ffsll": _first_one(UINT64),
    **{
        f"__{name}2{kind}_{ending}": _rounded(source, op, target)
        for name, source in (("float", FLOAT32), ("double", FLOAT64))
        for kind, target in (("int", INT32), ("uint", UINT32), ("ll", INT64), ("ull", UINT64))
        for ending, op in _ROUNDINGS.items()
    },
    "__float_as_int": _bits(FLOAT32, INT32), "__int_as_float": _bits(INT32, FLOAT32),
    "__float_as_uint": _bits(FLOAT32, UINT32), "__uint_as_float": _bits(UINT32, FLOAT32),
    "__double_as_longlong": _bits(FLOAT64, INT64), "__longlong_as_double": _bits(INT64, FLOAT64),
}  # fmt: skip
"""The functions of one number, by CUDA's names."""
TAKES = {name: "biuf" if "2" in name or "_as_" in name else "biu" for name in FUNCTIONS}
"""The kinds of their operands."""
