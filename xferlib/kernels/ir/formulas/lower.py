"""Real functions as formulas of core operations, so that every engine computes the same bits.

Calling each platform's ``nextafter``, ``remainder`` or ``copysign`` would be shorter. But they differ: in the signs of
zeros and of NaN, at infinities, in the rounding of float16, in the sign of a remainder. A formula of core operations,
each defined to the last bit by `xferlib.kernels.ir.nodes`, has one result everywhere, and a derivative.

Each function takes a `Builder` and operands of one dtype. The formula is the definition of the result, rounding by
rounding: no engine may simplify, reorder or contract it, and a change here changes published results.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xferlib.kernels.ir.nodes import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    UINT16,
    UINT32,
    UINT64,
    Builder,
    DType,
    Node,
    is_complex,
    is_float,
)

Lowering = Callable[..., Node]

COMPLEX_FUNCTIONS: dict[str, Lowering] = {}
"""Formulas of the mathematical functions of complex operands; `complex_functions` fills the table."""

_BITS: dict[int, DType] = {2: UINT16, 4: UINT32, 8: UINT64}


def core(op: str) -> Lowering:
    """The lowering that is one core operation."""

    def lower(b: Builder, *args: Node) -> Node:
        return b.op(op, *args)

    return lower


def by_kind(**lowerings: Lowering) -> Lowering:
    """Choose by the kind of the first operand: ``b``, ``i`` (also unsigned), ``f`` or ``c``."""

    def lower(b: Builder, *args: Node) -> Node:
        kind = args[0].dtype.kind
        return lowerings["i" if kind == "u" else kind](b, *args)

    return lower


# --- floats


def isnan(b: Builder, x: Node) -> Node:
    return b.op("ne", x, x)


def isinf(b: Builder, x: Node) -> Node:
    return b.op("eq", b.op("abs", x), b.const(np.inf, x.dtype))


def isfinite(b: Builder, x: Node) -> Node:
    return b.op("lt", b.op("abs", x), b.const(np.inf, x.dtype))


_NAN = {2: 0x7E00, 4: 0x7FC00000, 8: 0x7FF8000000000000}


def plain_bits(b: Builder, x: Node) -> Node:
    """The bits of a float, one pattern for every NaN: an operation's NaN may have any."""
    bits = _BITS[x.dtype.itemsize]
    return b.select(isnan(b, x), b.const(_NAN[bits.itemsize], bits), b.bitcast(x, bits))


def _bits(b: Builder, x: Node) -> tuple[Node, Node]:
    """The bits of ``x``, and the sign bit."""
    bits = plain_bits(b, x)
    return bits, b.const(1 << (8 * bits.dtype.itemsize - 1), bits.dtype)


def signbit(b: Builder, x: Node) -> Node:
    bits, sign = _bits(b, x)
    return b.op("ne", b.op("and", bits, sign), b.const(0, bits.dtype))


def copysign(b: Builder, x: Node, y: Node) -> Node:
    bits, sign = _bits(b, x)
    sign_bits, _ = _bits(b, y)
    magnitude = b.op("and", bits, b.op("not", sign))
    return b.bitcast(b.op("or", magnitude, b.op("and", sign_bits, sign)), x.dtype)


def nextafter(b: Builder, x: Node, y: Node) -> Node:
    """The neighbour of ``x`` towards ``y``: its bits plus or minus one."""
    bits, sign = _bits(b, x)
    one = b.const(1, bits.dtype)
    zero = b.const(0, x.dtype)
    smallest = b.bitcast(b.op("or", b.op("and", _bits(b, y)[0], sign), one), x.dtype)
    is_outward = b.op("eq", b.op("gt", y, x), b.op("gt", x, zero))
    stepped = b.bitcast(b.select(is_outward, b.op("add", bits, one), b.op("sub", bits, one)), x.dtype)
    moved = b.select(b.op("eq", x, zero), smallest, stepped)
    result = b.select(b.op("eq", x, y), y, moved)
    return b.select(b.op("or", isnan(b, x), isnan(b, y)), b.const(np.nan, x.dtype), result)


def sign(b: Builder, x: Node) -> Node:
    """-1, 0 or 1; NaN of NaN."""
    zero, one = b.const(0, x.dtype), b.const(1, x.dtype)
    if x.dtype.kind == "u":
        return b.select(b.op("gt", x, zero), one, zero)
    negative = b.select(b.op("lt", x, zero), b.const(-1, x.dtype), zero)
    result = b.select(b.op("gt", x, zero), one, negative)
    return b.select(isnan(b, x), x, result) if is_float(x.dtype) else result


def floor_divide(b: Builder, x: Node, y: Node) -> Node:
    """The floor of the exact quotient, found by the exact remainder; x/0 as in IEEE division.

    Of float16 it is that of float32, rounded once: a quotient of float16 may be rounded up to the next whole number.
    """
    if x.dtype == FLOAT16:
        return b.cast(floor_divide(b, b.cast(x, FLOAT32), b.cast(y, FLOAT32)), FLOAT16)
    zero, one = b.const(0, x.dtype), b.const(1, x.dtype)
    rest = b.op("fmod", x, y)
    quotient = b.op("div", b.op("sub", x, rest), y)
    quotient = b.select(_is_other_side(b, rest, y), b.op("sub", quotient, one), quotient)
    floored = b.op("floor", quotient)
    is_low = b.op("gt", b.op("sub", quotient, floored), b.const(0.5, x.dtype))
    floored = b.select(is_low, b.op("add", floored, one), floored)
    plain = b.op("div", x, y)
    result = b.select(b.op("eq", quotient, zero), copysign(b, zero, plain), floored)
    return b.select(b.op("eq", y, zero), plain, result)


def remainder(b: Builder, x: Node, y: Node) -> Node:
    """The exact remainder with the sign of ``y``; x % 0 is NaN."""
    zero = b.const(0, x.dtype)
    rest = b.op("fmod", x, y)
    result = b.select(_is_other_side(b, rest, y), b.op("add", rest, y), rest)
    return b.select(b.op("eq", result, zero), copysign(b, zero, y), result)


def _is_other_side(b: Builder, rest: Node, y: Node) -> Node:
    """Whether the truncating remainder is non-zero and of the other sign than the divisor."""
    zero = b.const(0, y.dtype)
    differs = b.op("ne", b.op("lt", rest, zero), b.op("lt", y, zero))
    return b.op("and", b.op("ne", rest, zero), differs)


def fmax(b: Builder, x: Node, y: Node) -> Node:
    """The larger; the other operand where one is NaN."""
    return b.select(isnan(b, x), y, b.select(isnan(b, y), x, b.op("max", x, y)))


def fmin(b: Builder, x: Node, y: Node) -> Node:
    return b.select(isnan(b, x), y, b.select(isnan(b, y), x, b.op("min", x, y)))


def round_half_away(b: Builder, x: Node) -> Node:
    """C's ``round``: the nearest integer, halves away from zero."""
    whole = b.op("trunc", x)
    is_far = b.op("ge", b.op("abs", b.op("sub", x, whole)), b.const(0.5, x.dtype))
    away = b.op("add", whole, copysign(b, b.const(1, x.dtype), x))
    return b.select(is_far, away, copysign(b, whole, x))


def reciprocal(b: Builder, x: Node) -> Node:
    return b.op("div" if is_float(x.dtype) else "idiv", b.const(1, x.dtype), x)


def square(b: Builder, x: Node) -> Node:
    return b.op("mul", x, x)


def hypot(b: Builder, x: Node, y: Node) -> Node:
    """``sqrt(x*x + y*y)`` in float64 for float32 and float16; scaled by the larger one for float64."""
    if x.dtype != FLOAT64:
        wide = hypot_sums(b, b.cast(x, FLOAT64), b.cast(y, FLOAT64))
        return _infinite_if(b, b.cast(wide, x.dtype), x, y)
    a, c = b.op("abs", x), b.op("abs", y)
    large, small = b.op("max", a, c), b.op("min", a, c)
    ratio = b.op("div", small, large)
    root = b.op("sqrt", b.op("add", b.const(1, FLOAT64), b.op("mul", ratio, ratio)))
    scaled = b.select(b.op("eq", large, b.const(0, FLOAT64)), large, b.op("mul", large, root))
    return _infinite_if(b, scaled, x, y)


def hypot_sums(b: Builder, x: Node, y: Node) -> Node:
    return b.op("sqrt", b.op("add", b.op("mul", x, x), b.op("mul", y, y)))


def _infinite_if(b: Builder, value: Node, x: Node, y: Node) -> Node:
    """Infinity where a side is infinite, even if the other is NaN, as IEEE 754 demands."""
    return b.select(b.op("or", isinf(b, x), isinf(b, y)), b.const(np.inf, value.dtype), value)


def logaddexp(b: Builder, x: Node, y: Node) -> Node:
    """``max + log1p(exp(-|x - y|))``."""
    if x.dtype not in (FLOAT32, FLOAT64):
        return b.cast(logaddexp(b, b.cast(x, FLOAT32), b.cast(y, FLOAT32)), x.dtype)
    decay = b.call("exp", b.op("neg", b.op("abs", b.op("sub", x, y))))
    result = b.op("add", b.op("max", x, y), b.call("log1p", decay))
    return b.select(b.op("eq", x, y), b.op("add", x, b.const(np.log(2.0), x.dtype)), result)


def call_wide(name: str) -> Lowering:
    """A function of two floats; float32 and float16 round the float64 result once."""

    def lower(b: Builder, *args: Node) -> Node:
        dtype = args[0].dtype
        if dtype == FLOAT64 or (dtype == FLOAT32 and b.math == "fast"):
            return b.call(name, *args)
        return b.cast(b.call(name, *(b.cast(each, FLOAT64) for each in args)), dtype)

    return lower


def call(name: str) -> Lowering:
    """A function of one float, or of a complex operand where a formula exists; float16 rounds the float32 result."""

    def lower(b: Builder, x: Node) -> Node:
        if x.dtype in (FLOAT32, FLOAT64):
            return b.call(name, x)
        if is_complex(x.dtype):
            return COMPLEX_FUNCTIONS[name](b, x)
        return b.cast(b.call(name, b.cast(x, FLOAT32)), x.dtype)

    return lower


# --- integers and bool


def integer_power(b: Builder, x: Node, y: Node) -> Node:
    """``x ** y`` by repeated squaring, modulo the width; for a negative exponent the truncated quotient: 1, ±1 or 0."""
    bits = 8 * y.dtype.itemsize
    zero, one = b.const(0, x.dtype), b.const(1, x.dtype)
    result, base = one, x
    for bit in range(bits - (y.dtype.kind == "i")):
        taken = b.op("ne", b.op("and", y, b.const(1 << bit, y.dtype)), b.const(0, y.dtype))
        result = b.select(taken, b.op("mul", result, base), result)
        base = b.op("mul", base, base)
    if y.dtype.kind == "u":
        return result
    is_unit = b.op("eq", x, one)
    if x.dtype.kind == "i":
        is_unit = b.op("or", is_unit, b.op("eq", x, b.const(-1, x.dtype)))
    inverse = b.select(is_unit, b.select(_is_odd(b, y), x, one), zero)
    return b.select(b.op("lt", y, b.const(0, y.dtype)), inverse, result)


def _is_odd(b: Builder, y: Node) -> Node:
    return b.op("ne", b.op("and", y, b.const(1, y.dtype)), b.const(0, y.dtype))


def identity(_: Builder, x: Node) -> Node:
    return x


def always(value: bool) -> Lowering:
    def lower(b: Builder, _: Node) -> Node:
        return b.const(value, BOOL)

    return lower


def logical(op: str) -> Lowering:
    def lower(b: Builder, *args: Node) -> Node:
        truths = [b.truth(each) for each in args]
        return b.op(op, *truths)

    return lower


def absolute(b: Builder, x: Node) -> Node:
    return x if x.dtype.kind in "bu" else b.op("abs", x)
