"""A float taken to pieces and put together: its exponent and fraction, its whole part, exact remainders.

Every result is exact, or one rounding of the exact one, but for `length` and `inverse`, which round several times; it
comes from operations that have a derivative where the function has one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from xferlib.kernels.ir.formulas import lower
from xferlib.kernels.ir.nodes import FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT64, Builder, Node

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
    rest = _clamped(b, exponent, _MOST)
    for _ in range(2):
        wide, rest = _scaled_if(b, b.op("gt", rest, b.const(_BIAS, INT64)), wide, rest, _BIAS)
    for _ in range(2):  # 53 bits above the least exponent, so that a subnormal result is rounded once
        wide, rest = _scaled_if(b, b.op("lt", rest, b.const(1 - _BIAS, INT64)), wide, rest, 54 - _BIAS)
    return b.cast(b.op("mul", wide, _power_of_two(b, rest)), x.dtype)


def _clamped(b: Builder, exponent: Node, most: int) -> Node:
    if exponent.dtype.itemsize == 8 and exponent.dtype.kind == "u":
        exponent = b.op("min", exponent, b.const(most, exponent.dtype))
    wide = b.cast(exponent, INT64)
    return b.op("max", b.op("min", wide, b.const(most, INT64)), b.const(-most, INT64))


def _scaled_if(b: Builder, condition: Node, x: Node, exponent: Node, step: int) -> tuple[Node, Node]:
    factor = b.select(condition, b.const(2.0**step, FLOAT64), b.const(1, FLOAT64))
    less = b.select(condition, b.const(step, INT64), b.const(0, INT64))
    return b.op("mul", x, factor), b.op("sub", exponent, less)


def frexp(b: Builder, x: Node) -> tuple[Node, Node]:
    """The fraction, from 0.5 up to 1, and the exponent (int32); ``x`` and 0 of zeros, infinities and NaN."""
    wide = b.cast(x, FLOAT64)
    size = b.op("abs", wide)
    is_small = b.op("lt", size, b.const(2.0**-1022, FLOAT64))
    wide, shift = _scaled_if(b, is_small, wide, b.const(0, INT64), 54)
    bits = b.op("shr", lower.plain_bits(b, b.op("abs", wide)), b.const(_FRACTION_BITS, UINT64))
    exponent = b.op("sub", b.cast(bits, INT64), b.const(_BIAS - 1, INT64))
    # By way of [2, 4): the inverse power itself may be subnormal.
    factor = _power_of_two(b, b.op("sub", b.const(2, INT64), _clamped(b, exponent, _BIAS + 1)))
    fraction = b.op("mul", b.op("mul", wide, factor), b.const(0.25, FLOAT64))
    is_plain = b.op("and", lower.isfinite(b, x), b.op("ne", x, b.const(0, x.dtype)))
    exponent = b.select(is_plain, b.cast(b.op("add", exponent, shift), INT32), b.const(0, INT32))
    return b.select(is_plain, b.cast(fraction, x.dtype), x), exponent


def modf(b: Builder, x: Node) -> tuple[Node, Node]:
    """The fraction and the whole part, both with the sign of ``x``."""
    whole, zero = b.op("trunc", x), b.const(0, x.dtype)
    rest = b.select(b.op("lt", x, zero), b.op("neg", b.op("sub", whole, x)), b.op("sub", x, whole))
    rest = b.select(b.op("eq", x, zero), x, rest)
    return b.select(lower.isinf(b, x), b.op("div", b.const(1, x.dtype), x), rest), whole


def ilogb(b: Builder, x: Node) -> Node:
    """The exponent as an int32; the least int32 of 0 and NaN, the greatest of an infinity."""
    found = b.op("sub", frexp(b, x)[1], b.const(1, INT32))
    is_none = b.op("or", b.op("eq", x, b.const(0, x.dtype)), lower.isnan(b, x))
    found = b.select(is_none, b.const(-(2**31), INT32), found)
    return b.select(lower.isinf(b, x), b.const(2**31 - 1, INT32), found)


def logb(b: Builder, x: Node) -> Node:
    """The exponent as a float; -inf of 0, inf of an infinity."""
    found = b.cast(b.op("sub", frexp(b, x)[1], b.const(1, INT32)), x.dtype)
    found = b.select(b.op("eq", x, b.const(0, x.dtype)), b.const(-np.inf, x.dtype), found)
    return b.select(lower.isfinite(b, x), found, b.op("abs", x))


def fdim(b: Builder, x: Node, y: Node) -> Node:
    """``x - y`` where it is positive, else 0; NaN where one of them is."""
    difference = b.op("sub", x, y)
    found = b.select(b.op("gt", x, y), difference, b.const(0, x.dtype))
    is_none = b.op("or", lower.isnan(b, x), lower.isnan(b, y))
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
        rest, count = _reduced_if(b, b.op("ge", rest, several), rest, several, count, factor)
    half = b.op("mul", step, b.const(0.5, x.dtype))
    # Half of a tiny number is not exact, twice a great one is infinite.
    is_tiny = b.op("lt", step, b.const(float(np.finfo(x.dtype).tiny) * 4, x.dtype))
    is_beyond = b.select(is_tiny, b.op("gt", b.op("add", rest, rest), step), b.op("gt", rest, half))
    rest, count = _reduced_if(b, is_beyond, rest, step, count, 1)
    is_far = b.select(is_tiny, b.op("ge", b.op("add", rest, rest), step), b.op("ge", rest, half))
    rest, count = _reduced_if(b, b.op("and", is_beyond, is_far), rest, step, count, 1)
    rest = b.select(b.op("eq", x, b.const(0, x.dtype)), size, rest)
    rest = b.select(lower.signbit(b, x), b.op("neg", rest), rest)
    is_negative = b.op("ne", lower.signbit(b, x), lower.signbit(b, y))
    count = b.op("and", count, b.const(7, INT32))
    is_none = b.op("or", b.op("eq", step, b.const(0, x.dtype)), lower.isnan(b, step))
    rest = b.select(is_none, b.const(np.nan, x.dtype), rest)
    count = b.select(lower.isnan(b, rest), b.const(0, INT32), count)
    return rest, b.select(is_negative, b.op("neg", count), count)


def _times(b: Builder, factor: int, x: Node) -> Node:
    return b.op("mul", x, b.const(factor, x.dtype))


def _reduced_if(b: Builder, condition: Node, rest: Node, step: Node, count: Node, steps: int) -> tuple[Node, Node]:
    none = b.const(0, rest.dtype)
    taken = b.select(condition, b.const(steps, INT32), b.const(0, INT32))
    return b.op("sub", rest, b.select(condition, step, none)), b.op("add", count, taken)


def length(b: Builder, *parts: Node) -> Node:
    """The Euclidean length of a vector: in float64 for narrower floats, else scaled by the largest part."""
    dtype = parts[0].dtype
    sizes = [b.op("abs", b.cast(each, FLOAT64)) for each in parts]
    largest = functools.reduce(functools.partial(b.op, "max"), sizes)
    is_plain = b.op("and", b.op("gt", largest, b.const(0, FLOAT64)), lower.isfinite(b, largest))
    unit = b.const(1, FLOAT64) if dtype != FLOAT64 else b.select(is_plain, largest, b.const(1, FLOAT64))
    ratios = [b.op("div", each, unit) for each in sizes]
    squares = [b.op("mul", each, each) for each in ratios]
    root = b.op("sqrt", functools.reduce(functools.partial(b.op, "add"), squares))
    found = b.op("mul", root, unit)
    is_infinite = functools.reduce(functools.partial(b.op, "or"), [lower.isinf(b, each) for each in sizes])
    return b.cast(b.select(is_infinite, b.const(np.inf, FLOAT64), found), dtype)


def inverse(function: Callable[..., Node]) -> Callable[..., Node]:
    """One divided by a function's value, which is computed in float64 for narrower floats."""

    def lowered(b: Builder, *args: Node) -> Node:
        found = function(b, *(b.cast(each, FLOAT64) for each in args))
        return b.cast(b.op("div", b.const(1, FLOAT64), found), args[0].dtype)

    return lowered
