"""The complement of the error function of float64, what it defines, and the inverses.

Each is one definition for every engine. From 1/2 on ``erfc(x)`` is ``exp(-x * x)`` times ``erfcx(x)``, of which a table
has values and derivatives; below, it is 1 less the error function. An inverse is a formula for nearly all bits and one
step of Newton's method. Intermediate results are sums of two numbers. The constants are made by
``tools/float64_trigonometry_constants.py``.
"""

from __future__ import annotations

import math
import sys

from xferlib.kernels.float64_arithmetic import (
    OwnFunction,
    Pair,
    Word,
    at_least,
    at_most,
    bits,
    product_of_pairs,
    quotient_of_pairs,
    read_constants,
    scale,
    scale_any,
    sum_of_pairs,
    taylor,
    with_sign,
)
from xferlib.kernels.float64_exponentials import exp_of_sum, log_of_number
from xferlib.kernels.float64_special import error_of, multiple_of
from xferlib.kernels.float64_trigonometry import flip, sign_of
from xferlib.kernels.formulas import Real, inverse_of_error, polynomial, two_product
from xferlib.kernels.ir import Node, Table

_C = read_constants("float64_errors")
SCALED = Table("scaled_errors", tuple(_C[f"erfcx_{k}"] for k in range(14)))
"""``erfcx`` around the middles of 16 parts of each binade from 1/2 to 32."""
_FIRST = 1022 << 4
"""The row of 1/2, in the highest bits of floats."""
_MIDDLE = 1 << 47
_LEAST, _MOST, _ZERO = 0.5, 32.0, 30.0
"""Where the table begins and ends, and from where on ``erfc`` is 0."""
_INFINITY, _NAN, _GREATEST = float("inf"), float("nan"), sys.float_info.max
_SLOPE, _SLOPE_REST = _C["slope"]
_ROOT_HALF, _ROOT_HALF_REST = _C["root_half"]
_SERIES = tuple(math.prod(range(1, 2 * k, 2)) * (-0.5) ** k for k in range(1, 9))
"""``sqrt(pi) x erfcx(x) - 1`` in powers of ``1 / x**2``, divided by the first."""


def _erfcx_of(size: Real, lost: Real) -> Pair:
    """``erfcx(size + lost)`` of sizes in the table."""
    own = bits(at_most(at_least(size, _LEAST), _MOST * (1 - 2.0**-53)))
    centre = ((own >> 48 << 48) + _MIDDLE).real()
    return taylor(SCALED, ((own >> 48) - _FIRST) & 127, own.real() - centre, lost)


def _power(size: Real, lost: Real, sign: float) -> tuple[Real, Real, Word]:
    """``exp(sign * (size + lost)**2)`` as a sum of two numbers, and an exponent of 2."""
    square, error = two_product(size, size)
    return exp_of_sum(square * sign, (error + size * lost * 2.0) * sign)


def _near(x: Real, lost: Real) -> Pair:
    """1 less the error function, of sizes below 1/2."""
    sign = sign_of(x)
    high, low = error_of(abs(x), flip(lost, sign))
    return sum_of_pairs((x.of(1.0), x.of(0.0)), (-flip(high, sign), -flip(low, sign)))


def _choose(condition: Node, yes: Pair, no: Pair) -> Pair:
    return yes[0].where(condition, no[0]), yes[1].where(condition, no[1])


def _times_power(x: Pair, exponent: Word) -> Pair:
    """``x * 2 ** exponent``, as far as it is a normal number."""
    factor = ((exponent + 1023 + 4096).maximum(4096 + 1) - 4096 << 52).real()
    return x[0] * factor, x[1] * factor


def _complement(x: Real, lost: Real) -> tuple[Pair, Word, Real]:
    """``erfc(x + lost)`` as a sum of two numbers, an exponent of 2, and ``exp(-x * x)`` with the same exponent."""
    size = at_most(abs(x), _ZERO)
    shift = flip(lost, sign_of(x))
    *power, exponent = _power(size, shift, -1.0)
    tail = product_of_pairs((power[0], power[1]), _erfcx_of(size, shift))
    is_near, is_below = size.compare("lt", _LEAST), x.compare("lt", 0.0)
    above = sum_of_pairs((x.of(2.0), x.of(0.0)), _times_power((-tail[0], -tail[1]), exponent))
    plain = _choose(is_near, _near(x, lost), above)
    is_plain = x.b.op("or", is_near, is_below)
    slope = _times_power((power[0], power[1]), exponent)[0].where(is_plain, power[0])
    return _choose(is_plain, plain, tail), bits(x.of(0.0)).where(is_plain, exponent), slope


def _usual(parts: tuple[Pair, Word, Real], factor: int = 0) -> Real:
    """The number, which is normal, times ``2 ** factor``."""
    (high, low), exponent, _ = parts
    return (high + low) * (exponent + 1023 + factor << 52).real()


def _rare(x: Real, parts: tuple[Pair, Word, Real], factor: int = 0) -> Real:
    """The number, subnormal or 0 too; NaN of NaN."""
    (high, low), exponent, _ = parts
    return x.where(x.compare("ne", x), scale_any(high, low, exponent + factor))


def _erfc(x: Real) -> tuple[Real, Node]:
    return _usual(_complement(x, x.of(0.0))), x.compare("lt", 26.0)


def _rare_erfc(x: Real) -> Real:
    return _rare(x, _complement(x, x.of(0.0)))


def _halves(x: Real) -> tuple[Pair, Word, Real]:
    """Twice the normal distribution function."""
    x = -at_most(at_least(x, -40.0), 40.0)
    high, error = two_product(x, x.of(_ROOT_HALF))
    return _complement(high, error + x * _ROOT_HALF_REST)


def _normcdf(x: Real) -> tuple[Real, Node]:
    return _usual(_halves(x), -1), x.b.op("and", x.compare("gt", -37.0), abs(x).compare("gt", 2.0**-900))


def _rare_normcdf(x: Real) -> Real:
    return x.of(0.5).where(abs(x).compare("lt", 2.0**-100), _rare(x, _halves(x), -1))


def _square_power(size: Real) -> tuple[Real, Real, Word]:
    return _power(at_most(size, 27.0), size.of(0.0), 1.0)


def _erfcx(x: Real) -> tuple[Real, Node]:
    size, none = abs(x), x.of(0.0)
    *power, exponent = _square_power(size)
    grown = _times_power((power[0], power[1]), exponent)
    scaled = _erfcx_of(size, none)
    below = sum_of_pairs((grown[0] * 2.0, grown[1] * 2.0), (-scaled[0], -scaled[1]))
    outer = _choose(x.compare("lt", 0.0), below, scaled)
    inner = product_of_pairs(grown, _near(x, none))
    high, low = _choose(size.compare("lt", _LEAST), inner, outer)
    return high + low, x.b.op("and", x.compare("gt", -26.0), x.compare("lt", _MOST))


def _rare_erfcx(x: Real) -> Real:
    high, low, exponent = _square_power(abs(x))
    below = scale(high, low, exponent + 1)
    # The series of 1 / x: of great numbers one of a part of them, and the first term.
    is_great, zero = x.compare("gt", 2.0**500), bits(x.of(0.0))
    part = (at_most(x, _GREATEST) * 2.0**-500).where(is_great, at_least(x, 1.0))
    share = (x.of(0.0)).where(is_great, 1.0 / part)
    high, low = quotient_of_pairs((x.of(_SLOPE / 2), x.of(_SLOPE_REST / 2)), (part, x.of(0.0)))
    less = share * share
    low = low + high * (less * polynomial(less, _SERIES))
    above = scale_any(high, low, (zero - 500).where(is_great, zero))
    above = x.of(0.0).where(x.compare("eq", _INFINITY), above)
    found = above.where(x.compare("gt", 0.0), below)
    return x.where(x.compare("ne", x), found)


# --- inverses


def _solve(inside: Real, outside: Real) -> Pair:
    """The number of which ``inside`` is the error function and ``outside`` 1 less it, each exact up to 1/2.

    A number nearly right, and what a step of Newton's method adds.
    """
    none = inside.of(0.0)
    logs = [log_of_number(bits(each * 2.0**54), 54) for each in (outside, 2.0 - outside)]
    found = inverse_of_error(inside, -(logs[0] + logs[1]))
    (high, low), exponent, slope = _complement(found, none)
    value, rest = error_of(found)
    is_inside = outside.compare("ge", 0.5)  # where the one that may be rounded is the other
    half = (exponent + 4096 >> 1) - 2048
    wanted = outside
    for each in (half, exponent - half):  # the factor alone may be infinite
        wanted = wanted * (bits(none) + 1023 - each << 52).real()
    missing = ((inside - value) - rest).where(is_inside, (high - wanted) + low)
    return found, missing / (slope * _SLOPE)


def _erfinv(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    found, more = _solve(size, 1.0 - size)
    return with_sign(found + more, x), x.b.op("and", size.compare("lt", 1.0), size.compare("gt", 2.0**-900))


def _rare_erfinv(x: Real) -> Real:
    size = abs(x)
    tiny = multiple_of(size, *_C["first_inverse"])
    found = tiny.where(size.compare("lt", 0.5), size.of(_INFINITY).where(size.compare("eq", 1.0), _NAN))
    return with_sign(found, x)


def _tail_of(y: Real) -> tuple[Real, Pair, Word]:
    """The smaller one of y and ``2 - y``, the inverse of its complement, and the sign."""
    sign = sign_of(1.0 - y)
    tail = y.where(y.compare("le", 1.0), 2.0 - y)
    return tail, _solve(1.0 - tail, tail), sign


def _erfcinv(y: Real) -> tuple[Real, Node]:
    _, (found, more), sign = _tail_of(y)
    return flip(found + more, sign), y.b.op("and", y.compare("gt", 0.0), y.compare("lt", 2.0))


def _ends(y: Real, end: float) -> Real:
    """Of the ends 0 and ``end`` infinities, of all others NaN."""
    found = y.of(-_INFINITY).where(y.compare("eq", end), _NAN)
    return y.of(_INFINITY).where(y.compare("eq", 0.0), found)


def _normcdfinv(p: Real) -> tuple[Real, Node]:
    _, parts, sign = _tail_of(p + p)
    high, low = product_of_pairs(parts, (p.of(2 * _ROOT_HALF), p.of(2 * _ROOT_HALF_REST)))
    return -flip(high + low, sign), p.b.op("and", p.compare("gt", 0.0), p.compare("lt", 1.0))


ERRORS: dict[str, OwnFunction] = {
    "erfc": OwnFunction(_erfc, _rare_erfc),
    "erfcx": OwnFunction(_erfcx, _rare_erfcx),
    "normcdf": OwnFunction(_normcdf, _rare_normcdf),
    "erfinv": OwnFunction(_erfinv, _rare_erfinv),
    "erfcinv": OwnFunction(_erfcinv, lambda y: _ends(y, 2.0)),
    "normcdfinv": OwnFunction(_normcdfinv, lambda p: -_ends(p, 1.0)),
}
