"""Functions of real numbers as formulas of core operations, so that every engine computes the same bits.

Of the special ones, the error functions, the normal distribution and Bessel's I0, NumPy has none, and CUDA's differ in
their last bits: they are polynomials fitted with 40 digits (Chebyshev interpolation), whose error is below a tenth of a
float64 ulp, around one ``exp`` or ``log`` of float64 where the function is no polynomial. The complementary error
function is scaled by ``exp(x * x)``, as in Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x)exp(x^2)erfc
x", Mathematics of Computation 36, 1981; the inverses are those of Giles, "Approximating the erfinv function", GPU
Computing Gems, 2011, in their variable.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from xferlib._core.dtypes import small_float
from xferlib.kernels.ir import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    UINT16,
    UINT32,
    UINT64,
    Builder,
    DType,
    Node,
    Program,
    is_float,
    result_of_float32,
)

# Real functions as formulas of core operations, so that every engine computes the same bits.
#
# Calling each platform's ``nextafter``, ``remainder`` or ``copysign`` would be shorter. But they differ: in the signs
# of zeros and of NaN, at infinities, in the rounding of float16, in the sign of a remainder. A formula of core
# operations, each defined to the last bit by `xferlib.kernels.ir`, has one result everywhere, and a derivative.
#
# Each function takes a `Builder` and operands of one dtype. The formula is the definition of the result, rounding by
# rounding: no engine may simplify, reorder or contract it, and a change here changes published results.

Lowering = Callable[..., Node]

_BITS: dict[int, DType] = {2: UINT16, 4: UINT32, 8: UINT64}


def core(op: str) -> Lowering:
    """The lowering that is one core operation."""

    def lower(b: Builder, *args: Node) -> Node:
        return b.op(op, *args)

    return lower


def by_kind(**lowerings: Lowering) -> Lowering:
    """Choose by the kind of the first operand: ``b``, ``i`` (also unsigned), ``f`` or ``c``.

    A function of small floats is that of float32, whose result is rounded once.
    """

    def lower(b: Builder, *args: Node) -> Node:
        given = args[0].dtype
        if small_float(given) is not None:
            found = lowerings["f"](b, *[b.cast(each, FLOAT32) for each in args])
            return b.cast(found, result_of_float32(given)) if found.dtype == FLOAT32 else found
        kind = given.kind
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


def _bits_of(b: Builder, x: Node) -> tuple[Node, Node]:
    """The bits of ``x``, and the sign bit."""
    bits = plain_bits(b, x)
    return bits, b.const(1 << (8 * bits.dtype.itemsize - 1), bits.dtype)


def signbit(b: Builder, x: Node) -> Node:
    bits, sign = _bits_of(b, x)
    return b.op("ne", b.op("and", bits, sign), b.const(0, bits.dtype))


def copysign(b: Builder, x: Node, y: Node) -> Node:
    bits, sign = _bits_of(b, x)
    sign_bits, _ = _bits_of(b, y)
    magnitude = b.op("and", bits, b.op("not", sign))
    return b.bitcast(b.op("or", magnitude, b.op("and", sign_bits, sign)), x.dtype)


def nextafter(b: Builder, x: Node, y: Node) -> Node:
    """The neighbour of ``x`` towards ``y``: its bits plus or minus one."""
    bits, sign = _bits_of(b, x)
    one = b.const(1, bits.dtype)
    zero = b.const(0, x.dtype)
    smallest = b.bitcast(b.op("or", b.op("and", _bits_of(b, y)[0], sign), one), x.dtype)
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
    """``sqrt(x*x + y*y)``; in float64, which holds the squares, for float32 and float16."""
    if x.dtype == FLOAT64:
        return b.call("hypot", x, y)
    wide = hypot_sums(b, b.cast(x, FLOAT64), b.cast(y, FLOAT64))
    return _infinite_if(b, b.cast(wide, x.dtype), x, y)


def hypot_sums(b: Builder, x: Node, y: Node) -> Node:
    return b.op("sqrt", b.op("add", b.op("mul", x, x), b.op("mul", y, y)))


def _infinite_if(b: Builder, value: Node, x: Node, y: Node) -> Node:
    """Infinity where a side is infinite, even if the other is NaN, as IEEE 754 demands."""
    return b.select(b.op("or", isinf(b, x), isinf(b, y)), b.const(np.inf, value.dtype), value)


def logaddexp(b: Builder, x: Node, y: Node) -> Node:
    """``high + log1p(exp(low - high))``, for equal operands too: a branch of their own has other derivatives."""
    if x.dtype not in (FLOAT32, FLOAT64):
        return b.cast(logaddexp(b, b.cast(x, FLOAT32), b.cast(y, FLOAT32)), x.dtype)
    high, low = order_exponents(b, x, y)
    return b.op("add", high, b.call("log1p", b.call("exp", low)))


def order_exponents(b: Builder, x: Node, y: Node) -> tuple[Node, Node]:
    """The larger of two exponents, and how far the other is below it, 0 of equal infinities."""
    is_less = b.op("lt", x, y)
    high, low = b.select(is_less, y, x), b.select(is_less, x, y)
    is_limit = b.op("and", b.op("eq", x, y), isinf(b, x))
    return high, b.select(is_limit, b.const(0, x.dtype), b.op("sub", low, high))


def call_wide(name: str) -> Lowering:
    """A function of two floats; float32 and float16 round the float64 result once."""

    def lower(b: Builder, *args: Node) -> Node:
        dtype = args[0].dtype
        if dtype == FLOAT64 or (dtype == FLOAT32 and b.math == "fast"):
            return b.call(name, *args)
        return b.cast(b.call(name, *(b.cast(each, FLOAT64) for each in args)), dtype)

    return lower


def call(name: str) -> Lowering:
    """A function of one float; float16 rounds the float32 result."""

    def lower(b: Builder, x: Node) -> Node:
        if x.dtype in (FLOAT32, FLOAT64):
            return b.call(name, x)
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
    inverse = b.select(is_unit, b.select(_is_odd_integer(b, y), x, one), zero)
    return b.select(b.op("lt", y, b.const(0, y.dtype)), inverse, result)


def _is_odd_integer(b: Builder, y: Node) -> Node:
    return b.op("ne", b.op("and", y, b.const(1, y.dtype)), b.const(0, y.dtype))


def same(_: Builder, x: Node) -> Node:
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


# CUDA's functions of a number's bits, and its conversions with a given rounding.


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


def _make_clz(unsigned: DType) -> Lowering:
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


def _round_to(source: DType, op: str, target: DType) -> Lowering:
    return lambda b, x: b.cast(b.op(op, b.cast(x, source)), target)


def _bits(source: DType, target: DType) -> Lowering:
    return lambda b, x: b.bitcast(b.one_nan(b.cast(x, source)), target)


_READING = re.compile(r"_as_u?(?:int|longlong)\b")


def read_bits(*sources: str) -> bool:
    """Whether one of these texts has a function that gives the bits of a float."""
    return any(_READING.search(each) for each in sources)


_ROUNDINGS = {"rd": "floor", "ru": "ceil", "rn": "rint", "rz": "trunc"}

FUNCTIONS: dict[str, Lowering] = {
    "__popc": _ones(UINT32), "__popcll": _ones(UINT64), "__clz": _make_clz(UINT32),
    "__clzll": _make_clz(UINT64), "__ffs": _first_one(UINT32), "__ffsll": _first_one(UINT64),
    **{
        f"__{name}2{kind}_{ending}": _round_to(source, op, target)
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


# A float taken to pieces and put together: its exponent and fraction, its whole part, exact remainders.
#
# Every result is exact, or one rounding of the exact one, but for `length` and `inverse`, which round several times; it
# comes from operations that have a derivative where the function has one.

_BIAS = 1023
_FRACTION_BITS = 52
_MOST = 2200
"""An exponent beyond which every float64 becomes 0 or infinite."""


def _power_of_two(b: Builder, exponent: Node) -> Node:
    """``2 ** exponent`` of an int64 from -1022 to 1023, as float64."""
    biased = b.cast(b.op("add", exponent, b.const(_BIAS, INT64)), UINT64)
    return b.bitcast(b.op("shl", biased, b.const(_FRACTION_BITS, UINT64)), FLOAT64)


def ldexp(b: Builder, x: Node, exponent: Node) -> Node:
    """``x * 2 ** exponent``, rounded once."""
    wide = b.cast(x, FLOAT64)  # which holds every such product of a narrower float that its dtype does not lose
    rest = _clamp(b, exponent, _MOST)
    for _ in range(2):
        wide, rest = _scale_if(b, b.op("gt", rest, b.const(_BIAS, INT64)), wide, rest, _BIAS)
    for _ in range(2):  # 53 bits above the least exponent, so that a subnormal result is rounded once
        wide, rest = _scale_if(b, b.op("lt", rest, b.const(1 - _BIAS, INT64)), wide, rest, 54 - _BIAS)
    return b.cast(b.op("mul", wide, _power_of_two(b, rest)), x.dtype)


def _clamp(b: Builder, exponent: Node, most: int) -> Node:
    if exponent.dtype.itemsize == 8 and exponent.dtype.kind == "u":
        exponent = b.op("min", exponent, b.const(most, exponent.dtype))
    wide = b.cast(exponent, INT64)
    return b.op("max", b.op("min", wide, b.const(most, INT64)), b.const(-most, INT64))


def _scale_if(b: Builder, condition: Node, x: Node, exponent: Node, step: int) -> tuple[Node, Node]:
    factor = b.select(condition, b.const(2.0**step, FLOAT64), b.const(1, FLOAT64))
    less = b.select(condition, b.const(step, INT64), b.const(0, INT64))
    return b.op("mul", x, factor), b.op("sub", exponent, less)


def frexp(b: Builder, x: Node) -> tuple[Node, Node]:
    """The fraction, from 0.5 up to 1, and the exponent (int32); ``x`` and 0 of zeros, infinities and NaN."""
    wide = b.cast(x, FLOAT64)
    size = b.op("abs", wide)
    is_small = b.op("lt", size, b.const(2.0**-1022, FLOAT64))
    wide, shift = _scale_if(b, is_small, wide, b.const(0, INT64), 54)
    bits = b.op("shr", plain_bits(b, b.op("abs", wide)), b.const(_FRACTION_BITS, UINT64))
    exponent = b.op("sub", b.cast(bits, INT64), b.const(_BIAS - 1, INT64))
    # By way of [2, 4): the inverse power itself may be subnormal.
    factor = _power_of_two(b, b.op("sub", b.const(2, INT64), _clamp(b, exponent, _BIAS + 1)))
    fraction = b.op("mul", b.op("mul", wide, factor), b.const(0.25, FLOAT64))
    is_plain = b.op("and", isfinite(b, x), b.op("ne", x, b.const(0, x.dtype)))
    exponent = b.select(is_plain, b.cast(b.op("add", exponent, shift), INT32), b.const(0, INT32))
    return b.select(is_plain, b.cast(fraction, x.dtype), x), exponent


def modf(b: Builder, x: Node) -> tuple[Node, Node]:
    """The fraction and the whole part, both with the sign of ``x``."""
    whole, zero = b.op("trunc", x), b.const(0, x.dtype)
    rest = b.select(b.op("lt", x, zero), b.op("neg", b.op("sub", whole, x)), b.op("sub", x, whole))
    rest = b.select(b.op("eq", x, zero), x, rest)
    return b.select(isinf(b, x), b.op("div", b.const(1, x.dtype), x), rest), whole


def ilogb(b: Builder, x: Node) -> Node:
    """The exponent as an int32; the least int32 of 0 and NaN, the greatest of an infinity."""
    found = b.op("sub", frexp(b, x)[1], b.const(1, INT32))
    is_none = b.op("or", b.op("eq", x, b.const(0, x.dtype)), isnan(b, x))
    found = b.select(is_none, b.const(-(2**31), INT32), found)
    return b.select(isinf(b, x), b.const(2**31 - 1, INT32), found)


def logb(b: Builder, x: Node) -> Node:
    """The exponent as a float; -inf of 0, inf of an infinity."""
    found = b.cast(b.op("sub", frexp(b, x)[1], b.const(1, INT32)), x.dtype)
    found = b.select(b.op("eq", x, b.const(0, x.dtype)), b.const(-np.inf, x.dtype), found)
    return b.select(isfinite(b, x), found, b.op("abs", x))


def fdim(b: Builder, x: Node, y: Node) -> Node:
    """``x - y`` where it is positive, else 0; NaN where one of them is."""
    difference = b.op("sub", x, y)
    found = b.select(b.op("gt", x, y), difference, b.const(0, x.dtype))
    is_none = b.op("or", isnan(b, x), isnan(b, y))
    return b.select(is_none, b.const(np.nan, x.dtype), found)


def remquo(b: Builder, x: Node, y: Node) -> tuple[Node, Node]:
    """IEEE's remainder, exact: ``x - n * y`` with the nearest integer ``n``, even in a tie; and ``n`` modulo 8 (int32).

    The number has the sign of ``x / y``.
    """
    if x.dtype == FLOAT16:
        rest, count = remquo(b, b.cast(x, FLOAT32), b.cast(y, FLOAT32))
        return b.cast(rest, FLOAT16), count
    size, step = b.op("abs", x), b.op("abs", y)
    rest, count = b.op("fmod", size, _times(b, 8, step)), b.const(0, INT32)
    for factor in (4, 2):
        several = _times(b, factor, step)
        rest, count = _reduce_if(b, b.op("ge", rest, several), rest, several, count, factor)
    half = b.op("mul", step, b.const(0.5, x.dtype))
    # Half of a tiny number is not exact, twice a great one is infinite.
    is_tiny = b.op("lt", step, b.const(float(np.finfo(x.dtype).tiny) * 4, x.dtype))
    is_beyond = b.select(is_tiny, b.op("gt", b.op("add", rest, rest), step), b.op("gt", rest, half))
    rest, count = _reduce_if(b, is_beyond, rest, step, count, 1)
    is_far = b.select(is_tiny, b.op("ge", b.op("add", rest, rest), step), b.op("ge", rest, half))
    rest, count = _reduce_if(b, b.op("and", is_beyond, is_far), rest, step, count, 1)
    rest = b.select(b.op("eq", x, b.const(0, x.dtype)), size, rest)
    rest = b.select(signbit(b, x), b.op("neg", rest), rest)
    is_negative = b.op("ne", signbit(b, x), signbit(b, y))
    count = b.op("and", count, b.const(7, INT32))
    is_none = b.op("or", b.op("eq", step, b.const(0, x.dtype)), isnan(b, step))
    rest = b.select(is_none, b.const(np.nan, x.dtype), rest)
    count = b.select(isnan(b, rest), b.const(0, INT32), count)
    return rest, b.select(is_negative, b.op("neg", count), count)


def _times(b: Builder, factor: int, x: Node) -> Node:
    return b.op("mul", x, b.const(factor, x.dtype))


def _reduce_if(b: Builder, condition: Node, rest: Node, step: Node, count: Node, steps: int) -> tuple[Node, Node]:
    none = b.const(0, rest.dtype)
    taken = b.select(condition, b.const(steps, INT32), b.const(0, INT32))
    return b.op("sub", rest, b.select(condition, step, none)), b.op("add", count, taken)


def length(b: Builder, *parts: Node) -> Node:
    """The Euclidean length of a vector: in float64 for narrower floats, else scaled by the largest part."""
    dtype = parts[0].dtype
    sizes = [b.op("abs", b.cast(each, FLOAT64)) for each in parts]
    largest = functools.reduce(functools.partial(b.op, "max"), sizes)
    is_plain = b.op("and", b.op("gt", largest, b.const(0, FLOAT64)), isfinite(b, largest))
    unit = b.const(1, FLOAT64) if dtype != FLOAT64 else b.select(is_plain, largest, b.const(1, FLOAT64))
    ratios = [b.op("div", each, unit) for each in sizes]
    squares = [b.op("mul", each, each) for each in ratios]
    root = b.op("sqrt", functools.reduce(functools.partial(b.op, "add"), squares))
    found = b.op("mul", root, unit)
    is_infinite = functools.reduce(functools.partial(b.op, "or"), [isinf(b, each) for each in sizes])
    return b.cast(b.select(is_infinite, b.const(np.inf, FLOAT64), found), dtype)


def inverse(function: Callable[..., Node]) -> Callable[..., Node]:
    """One divided by a function's value, which is computed in float64 for narrower floats."""

    def lower_inverse(b: Builder, *args: Node) -> Node:
        found = function(b, *(b.cast(each, FLOAT64) for each in args))
        return b.cast(b.op("div", b.const(1, FLOAT64), found), args[0].dtype)

    return lower_inverse


# Operators for writing float64 formulas: each is one rounded operation of the representation.


class Real:
    """A float64 value of a program under construction."""

    __slots__ = ("b", "node")

    def __init__(self, b: Builder, value: Node | float) -> None:
        self.b = b
        self.node = b.cast(value, FLOAT64) if isinstance(value, Node) else b.const(value, FLOAT64)

    def of(self, value: Real | float) -> Real:
        """Another value, or a constant, as a value of the same program."""
        return value if isinstance(value, Real) else Real(self.b, value)

    def _op(self, name: str, *others: Real | float) -> Real:
        return Real(self.b, self.b.op(name, self.node, *(self.of(each).node for each in others)))

    def __add__(self, other: Real | float) -> Real:
        return self._op("add", other)

    def __sub__(self, other: Real | float) -> Real:
        return self._op("sub", other)

    def __mul__(self, other: Real | float) -> Real:
        return self._op("mul", other)

    def __truediv__(self, other: Real | float) -> Real:
        return self._op("div", other)

    def __radd__(self, other: float) -> Real:
        return self.of(other) + self

    def __rsub__(self, other: float) -> Real:
        return self.of(other) - self

    def __rmul__(self, other: float) -> Real:
        return self.of(other) * self

    def __rtruediv__(self, other: float) -> Real:
        return self.of(other) / self

    def __neg__(self) -> Real:
        return self._op("neg")

    def __abs__(self) -> Real:
        return self._op("abs")

    def sqrt(self) -> Real:
        return self._op("sqrt")

    def maximum(self, other: Real | float) -> Real:
        return self._op("max", other)

    def minimum(self, other: Real | float) -> Real:
        return self._op("min", other)

    def with_sign_of(self, other: Real) -> Real:
        return Real(self.b, copysign(self.b, self.node, other.node))

    def compare(self, op: str, other: Real | float) -> Node:
        """``self op other``, as bool; ``op`` as in the representation."""
        return self.b.op(op, self.node, self.of(other).node)

    def where(self, condition: Node, other: Real | float) -> Real:
        """This value where ``condition`` is true, else the other."""
        return Real(self.b, self.b.select(condition, self.node, self.of(other).node))

    def is_infinite(self) -> Node:
        return isinf(self.b, self.node)

    def is_finite(self) -> Node:
        return isfinite(self.b, self.node)


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """The sum of ``coefficients[k] * x ** k``, by Horner's rule."""
    total = x.of(coefficients[-1])
    for each in coefficients[-2::-1]:
        total = total * x + each
    return total


N = TypeVar("N", Real, "np.ndarray[Any, Any]")
"""A number of a program, or an array of NumPy."""


def two_sum(x: N, y: N) -> tuple[N, N]:
    """The rounded ``x + y`` and its exact rounding error (Knuth, TAOCP 2, section 4.2.2)."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def two_product(x: N, y: N) -> tuple[N, N]:
    """The rounded ``x * y`` and its rounding error, exact unless a step over- or underflows (Dekker 1971)."""
    product = x * y
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    rest = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, rest


def _halves(x: N) -> tuple[N, N]:
    scaled = x * 134217729.0  # 2^27 + 1
    high = scaled - (scaled - x)
    return high, x - high


def _call(name: str, *args: Real) -> Real:
    return Real(args[0].b, args[0].b.call(name, *(each.node for each in args)))


# Calls of functions of two numbers that an engine computes in another way than the program says.

PAIRS = frozenset({"power", "arctan2"})
"""The functions of two floats whose exact float32 result is that of float64, rounded once."""


def expand(program: Program) -> Program:
    """The program as an engine computes it; the same object if nothing changes.

    A square by ``power`` becomes the product, which it is. A function of two float32 numbers, which a program computes
    in float64 and rounds, becomes a call of float32: one result is right, and an engine may find it in another way.
    """
    if not any(_is_square(node) or _is_pair(node, program) for node in program.nodes):
        return program

    def replacement(b: Builder, node: Node, copies: dict[int, Node]) -> Node | None:
        if _is_pair(node, program):
            wide = node.args[0]
            return b.emit("call", FLOAT32, tuple(_narrow(b, each, copies) for each in wide.args), wide.attr)
        if _is_square(node):
            base = copies[id(node.args[0])]
            return b.op("mul", base, base)
        return None

    return rebuild(program, replacement)


def rebuild(program: Program, replacement: Callable[[Builder, Node, dict[int, Node]], Node | None]) -> Program:
    """A copy of a program in which some nodes are others.

    Args:
        program: The program.
        replacement: Makes another node for one, or returns None; gets the copies of the nodes before by their identity.
    """
    b = Builder(program.params, math=program.math)
    copies: dict[int, Node] = {}
    for node in program.nodes:
        found = replacement(b, node, copies)
        copies[id(node)] = b.copy(node, copies) if found is None else found
    return b.program((each.move(copies) for each in program.stores), [copies[id(each)] for each in program.effects])


def _is_square(node: Node) -> bool:
    """Whether it is a power of float64 whose value is a product: of the exponent 2."""
    return node.op == "call" and node.dtype == FLOAT64 and node.attr == "power" and _is_two(node.args[1])


def _is_two(node: Node) -> bool:
    return node.op == "const" and bool(node.attr == 2)


def _is_pair(node: Node, program: Program) -> bool:
    """Whether it is the float32 result of a call of float64 with float32 operands."""
    if node.op != "cast" or node.dtype != FLOAT32 or program.math != "exact":
        return False
    wide = node.args[0]
    if wide.op != "call" or wide.dtype != FLOAT64 or wide.attr not in PAIRS:
        return False
    if not all(is_narrow(each, FLOAT32) for each in wide.args):
        return False
    base, exponent = wide.args
    is_square = wide.attr == "power" and _is_two(exponent)
    return not is_square and (base.op, exponent.op) != ("const", "const")


def is_narrow(node: Node, dtype: DType) -> bool:
    """Whether a float64 operand has a value of ``dtype``: a constant, or what was widened."""
    if node.op == "const":
        with np.errstate(over="ignore"):
            return bool(dtype.type(node.attr) == node.attr)
    return node.op == "cast" and node.args[0].dtype == dtype


def _narrow(b: Builder, node: Node, copies: dict[int, Node]) -> Node:
    return b.const(node.attr, FLOAT32) if node.op == "const" else copies[id(node.args[0])]


_CENTRE = (
    1.6536545626831027, 0.7504943200799635, -0.05892256710377784, -0.022604447453449802, 0.017808361818295655,
    -0.00413731437741443, -0.0012716922684373015, 0.0012324855686812834, -0.0002643936684366174,
    -0.0001168888399309713, 9.33673917780479e-05, -1.5027710420277575e-05, -1.1257319182677936e-05,
    7.1300572630824496e-06, -6.83718721812117e-07, -1.059321402540731e-06, 5.394320648707009e-07,
    -1.0185147576818285e-08, -9.867713140174249e-08, 3.915473114023045e-08, 4.792369996100387e-09,
    -8.562787796742932e-09, 1.5401738716654886e-09, 7.689312733742569e-10, -2.7032254091069344e-10,
)  # fmt: skip
"""``erfinv(y) / y`` in powers of ``w / 3.125 - 1``, where w is ``-log(1 - y * y)`` and at most 6.25."""

_MIDDLE = (
    3.0838856104922208, 0.753944225770624, 0.0030211394363747063, -0.0015825410894073097, 0.0007883078513066945,
    -0.00040063569835358583, 0.00016966502197543766, -4.7391827316182325e-05, 2.405864805789804e-06,
    5.127316786334848e-06, -2.664793846715906e-06, 5.264621626938461e-07, 9.289338749101434e-08,
    -9.468946844911027e-08, 2.63990323529153e-08, -3.6906087078089294e-10, -2.4605291139227303e-09,
    9.891297510532429e-10, -1.179100761769929e-10, -6.471554767207546e-11, 2.4355543452655723e-11,
)  # fmt: skip
"""The same in powers of ``(sqrt(w) - 3.25) / 0.75``, for w from 6.25 to 16."""

_TAIL = (
    4.9761913900163, 1.1365383104872455, -0.000269071246869911, -0.000256202312328986, 0.0001036220853961164,
    -2.9895529852808036e-05, 7.597413857222852e-06, -1.8159805540475997e-06, 4.345295104414165e-07,
    -1.1994820600562818e-07, 4.7015834870983236e-08, -2.5481987549986333e-08, 1.4990900450305634e-08,
    -8.167113758188306e-09, 3.825682076952916e-09, -1.4556453795308615e-09, 4.1839904151047413e-10,
    -5.7815233853809704e-11, -3.9699847349544004e-11, 3.5016680978788435e-11, -8.998331376452318e-12,
)  # fmt: skip
"""The same in powers of ``(sqrt(w) - 5.125) / 1.125``, for w from 16 to 39.0625."""

_FAR = (
    0.9893671779228749, -0.010373007206445432, -0.001371254867245514, 0.0003943120037352809, -6.360913261549325e-05,
    1.556059772654421e-05, -4.998393191468441e-06, 1.8068433800510511e-06, -7.105927503927352e-07,
    2.9807251113854153e-07, -1.31322097154875e-07, 6.029075716697803e-08, -2.8479792827051964e-08,
    1.3229879311147344e-08, -6.505938196548653e-09, 4.49309681517493e-09, -2.3588229215442946e-09,
    -5.632491516448388e-10, 3.591270651089143e-10, 1.5621137169584868e-09, -8.783697565928195e-10,
    -6.261866312844761e-10, 3.5671080198888185e-10, 2.0431986098154626e-10, -1.152764189213973e-10,
)  # fmt: skip
"""``erfinv(y) / y / sqrt(w)`` in powers of ``(1 / sqrt(w) - m) / h``, for larger w."""

_I0_SMALL = (
    1.0, 0.25, 0.027777777777777762, 0.001736111111111147, 6.944444444440493e-05, 1.929012345705309e-06,
    3.936759887993035e-08, 6.151187361364193e-10, 7.594057685381156e-12, 7.594070019494474e-14, 6.275948796822122e-16,
    4.359498405380122e-18, 2.5722398177811744e-20, 1.3440225063774028e-22, 5.062353740472856e-25,
    3.548836657975522e-27,
)  # fmt: skip
"""``(I0(x) - 1) / q`` in powers of ``q = x * x / 4``, for x up to 8."""

_I0_LARGE = (
    0.4021765094450081, 0.0033605519836678913, 0.00013621607438951463, 1.114303378845176e-05, 1.4838476780922646e-06,
    2.9735992084667734e-07, 8.872014585661555e-08, 3.932512321137824e-08, 2.156780676115673e-08, 7.559364098665437e-09,
    -6.856484545962442e-09, -1.3427511481900905e-08, -5.0175940345046716e-09, 7.600254486433509e-09,
    6.522264862032271e-09, -3.5862834111582305e-09, -4.5305710768621196e-09, 1.6084886155781772e-09,
    2.163681278413876e-09, -6.327909921997027e-10, -6.494591114401118e-10, 1.7698085539456536e-10,
    9.114760157514253e-11, -2.4421972688131832e-11,
)  # fmt: skip
"""``I0(x) * exp(-x) * sqrt(x)`` in powers of ``16 / x - 1``, for x from 8."""

_FAR_HALF = (1 / 6.25 - 1 / 27.5) / 2
_FAR_MIDDLE = (1 / 6.25 + 1 / 27.5) / 2
_ROOT_HALF, _ROOT_HALF_REST = 0.7071067811865476, -4.833646656726457e-17
"""The root of 1/2, and what its rounding has left."""


def inverse_of_error(x: Real, w: Real) -> Real:
    """``x * f(w)``, where ``f`` is ``erfinv(y) / y`` of ``w = -log(1 - y * y)``."""
    root = w.sqrt()
    inner = 1.0 / root
    far = polynomial((inner - _FAR_MIDDLE) / _FAR_HALF, _FAR) * root
    tail = polynomial((root - 5.125) / 1.125, _TAIL).where(w.compare("lt", 39.0625), far)
    middle = polynomial((root - 3.25) / 0.75, _MIDDLE).where(w.compare("lt", 16.0), tail)
    return x * polynomial(w / 3.125 - 1.0, _CENTRE).where(w.compare("lt", 6.25), middle)


def _bessel_i0(x: Real) -> Real:
    is_small = abs(x).compare("lt", 8.0)
    near = x.where(is_small, 8.0)  # no power overflows where it is not taken: 0 * inf is a slope of NaN
    quarter = near * near * 0.25
    small = 1.0 + quarter * polynomial(quarter, _I0_SMALL)
    size = x.of(8.0).where(is_small, abs(x)).minimum(800.0)  # where it is infinite
    half = _call("exp", size * 0.5)
    large = half * (polynomial(16.0 / size - 1.0, _I0_LARGE) / size.sqrt()) * half
    return small.where(is_small, large)


OWN = (
    "erf", "erfc", "erfcx", "erfinv", "erfcinv", "normcdf", "normcdfinv", "tgamma", "lgamma", "sinpi", "cospi",
)  # fmt: skip
"""Those that are own functions of float64."""


def _own(name: str) -> Callable[[Real], Real]:
    return lambda x: _call(name, x)


SPECIAL_FORMULAS: dict[str, Callable[[Real], Real]] = {
    **{name: _own(name) for name in OWN},
    "cyl_bessel_i0": _bessel_i0,
    "exp10": lambda x: _call("power", x.of(10.0), x),
    "rcbrt": lambda x: 1.0 / _call("cbrt", x),
}
"""The formulas, of float64 operands, by the names of CUDA."""

BOUNDS: dict[str, float] = {**dict.fromkeys(OWN, 0.52), "cyl_bessel_i0": 6, "exp10": 0.52, "rcbrt": 1.5}
"""The largest distance of a float64 result from the exact one, in ulp; float32 results are those, rounded.

``lgamma`` keeps to it from 0 on; of negative numbers it is the sum of values that may nearly cancel.
"""


def lower(b: Builder, name: str, x: Node) -> Node:
    """The value of a function for a float operand, computed in float64 and rounded once."""
    assert is_float(x.dtype)
    with np.errstate(all="ignore"):
        return b.cast(SPECIAL_FORMULAS[name](Real(b, x)).node, x.dtype)
