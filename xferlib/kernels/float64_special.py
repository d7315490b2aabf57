"""Special functions of float64, each one definition for every engine: of errors, of half turns, and gamma.

Intermediate results are sums of two numbers. Where a product decides the last bit it is exact, because a table has
numbers of 26 bits and a second one for what is left. The constants are made by
``tools/float64_constants.py``.
"""

from __future__ import annotations

import math
import struct
import sys

from xferlib.kernels.float64_arithmetic import (
    WHOLE,
    OwnFunction,
    Pair,
    Word,
    add,
    at_least,
    at_most,
    bits,
    head,
    product_of_pairs,
    quotient_of_pairs,
    read_constants,
    scale,
    scale_any,
    sum_of,
    sum_of_pairs,
    taylor,
    with_sign,
)
from xferlib.kernels.float64_exponentials import exp_of_sum, log_of_number, long_log, product_with_log
from xferlib.kernels.float64_trigonometry import PI, PI_REST, Angle, cosine, flip, sign_of, sine, sine_of
from xferlib.kernels.formulas import Real, inverse_of_error, polynomial, two_product
from xferlib.kernels.ir import FLOAT64, Node, Table

# --- the error function, and sine and cosine of half turns
#
# A table has the error function's values and slopes at multiples of 1/16; the series around the nearest one has the
# coefficients of Hermite's polynomials, which their recurrence gives.

_C = read_constants("float64_special")

ERROR_TABLE = Table("errors", (_C["erf"], _C["erf_rest"], _C["slope"], _C["slope_rest"]))
"""The error function and its slope at ``row / 16``, each in two parts; the slope's first has 26 bits."""

_STEPS = 16.0
_LARGEST = 6.0
"""From here on the value is 1."""
_TERMS = 9
_LEAST = 2.0**-900
"""Below, the exact product may be subnormal."""


def _is_between(size: Real, low: float, high: float) -> Node:
    """Whether ``low <= size < high``, or it is 0."""
    first, end = (struct.unpack("<Q", struct.pack("<d", each))[0] for each in (low, high))
    return size.b.op("or", (bits(size) - first).is_below(end - first), size.compare("eq", 0.0))


def error_of(size: Real, lost: Real | None = None) -> Pair:
    """The error function of ``size + lost``, from 0 to 6, as a sum of two numbers."""
    shifted = size * _STEPS + WHOLE
    row = bits(shifted) & 127
    centre = (shifted - WHOLE) * (1 / _STEPS)
    rest = size - centre
    # exp(-2 c t - t^2) in powers of t: h(n + 1) = -2 (c h(n) + h(n - 1)) / (n + 1); the integral divides by n + 1.
    across, square = centre * rest, rest * rest
    before, term = size.of(1.0), across * -2.0
    bent = term * 0.5
    for n in range(2, _TERMS + 1):
        before, term = term, (across * term + square * before) * (-2.0 / n)
        bent = bent + term * (1.0 / (n + 1))
    near = head(rest, 26)
    missing = rest - near
    if lost is not None:
        missing = missing + (lost - across * lost * 2.0)  # by the slope at the place
    slope, slope_rest = row.at(ERROR_TABLE, 2), row.at(ERROR_TABLE, 3)
    high, low = sum_of(row.at(ERROR_TABLE, 0), slope * near)
    further = (slope + slope_rest) * (missing + rest * bent)
    return high, low + (row.at(ERROR_TABLE, 1) + (slope_rest * near + further))


def _erf(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    high, low = error_of(size)
    return with_sign(high + low, x), _is_between(size, _LEAST, _LARGEST)


def _rare_erf(x: Real) -> Real:
    size = abs(x)
    found = multiple_of(size, *_C["first_slope"])
    return with_sign(x.of(1.0).where(size.compare("ge", _LARGEST), found), x)


def multiple_of(small: Real, factor: float, rest_of_factor: float) -> Real:
    """A number below 2^-700 times a constant, with one rounding, where the result is subnormal too."""
    scaled = small * 2.0**300
    product, error = two_product(scaled, small.of(factor))
    error = error + scaled * rest_of_factor
    # The last bit of this number counts what that of a subnormal result does.
    unit = 2.0 ** (300 - 1022)
    total, rest = sum_of(small.of(unit), product)
    return ((total + (rest + error)) - unit).where(product.compare("lt", unit), product + error) * 2.0**-300


# --- sine and cosine of half turns

_MOST_TURNS = 2.0**40


def _angle_of(size: Real) -> Angle:
    """The angle of a number of half turns: the reduction is exact."""
    shifted = size * 32.0 + WHOLE
    rest = size - (shifted - WHOLE) * (1 / 32)
    found, error = two_product(rest, rest.of(PI))
    return bits(shifted) & 63, found, error + rest * PI_REST


def _whole_turns(size: Real) -> Real:
    """The rest of a number of half turns beyond whole turns; NaN of infinity."""
    turns = Real(size.b, size.b.op("floor", (size * 0.5).node))
    return size - turns * 2.0


def sine_of_turns(size: Real) -> Pair:
    """The sine of a number of half turns, as a sum of two numbers."""
    return sum_of(*sine_of(_angle_of(_whole_turns(size))))


def _sinpi(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    return flip(sine(_angle_of(size)), sign_of(x)), _is_between(size, _LEAST, _MOST_TURNS)


def _rare_sinpi(x: Real) -> Real:
    size = abs(x)
    found = sine(_angle_of(_whole_turns(size)))
    tiny = multiple_of(size, PI, PI_REST)
    return flip(tiny.where(size.compare("lt", _LEAST), found), sign_of(x))


def _cospi(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    return cosine(_angle_of(size)), size.compare("lt", _MOST_TURNS)


def _rare_cospi(x: Real) -> Real:
    return cosine(_angle_of(_whole_turns(abs(x))))


# --- the complement of the error function, what it defines, and the inverses
#
# From 1/2 on ``erfc(x)`` is ``exp(-x * x)`` times ``erfcx(x)``, of which a table has values and derivatives; below, it
# is 1 less the error function. An inverse is a formula for nearly all bits and one step of Newton's method.

SCALED = Table("scaled_errors", tuple(_C[f"erfcx_{k}"] for k in range(14)))
"""``erfcx`` around the middles of 16 parts of each binade from 1/2 to 32."""
_FIRST = 1022 << 4
"""The row of 1/2, in the highest bits of floats."""
_MIDDLE = 1 << 47
_LEAST_ROW, _MOST, _ZERO = 0.5, 32.0, 30.0
"""Where the table begins and ends, and from where on ``erfc`` is 0."""
_INFINITY, _NAN, _GREATEST = math.inf, math.nan, sys.float_info.max
_SLOPE, _SLOPE_REST = _C["first_slope"]
_ROOT_HALF, _ROOT_HALF_REST = _C["root_half"]
_SERIES = tuple(math.prod(range(1, 2 * k, 2)) * (-0.5) ** k for k in range(1, 9))
"""``sqrt(pi) x erfcx(x) - 1`` in powers of ``1 / x**2``, divided by the first."""


def _erfcx_of(size: Real, lost: Real) -> Pair:
    """``erfcx(size + lost)`` of sizes in the table."""
    own = bits(at_most(at_least(size, _LEAST_ROW), _MOST * (1 - 2.0**-53)))
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
    is_near, is_below = size.compare("lt", _LEAST_ROW), x.compare("lt", 0.0)
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
    high, low = _choose(size.compare("lt", _LEAST_ROW), inner, outer)
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


# --- the gamma function and its logarithm
#
# Up to 8 the recurrence leads to a table of the function and its derivatives from 1 to 2; from 8 on it is the
# exponential of Stirling's series, and below 0 the reflection. The logarithm has a table of
# ``log(gamma(x)) / ((x - 1) * (x - 2))``, because it is 0 at 1 and 2.

_GAMMA_STEPS = 32.0
GAMMA = Table("gammas", tuple(_C[f"gamma_{k}"] for k in range(13)))
"""The function around ``1 + row / 32``."""
LOGARITHM = Table("gamma_logarithms", tuple(_C[f"log_{k}"] for k in range(14)))
"""``log(gamma(x)) / ((x - 1) * (x - 2))`` around ``row / 32``, from 1/2 to 3."""
_LARGE = 8.0
_HALF_LOG, _HALF_LOG_REST = _C["half_log"]
_LOG_PI, _LOG_PI_REST = _C["log_pi"]
_USUAL, _HUGE = 150.0, 2.0**900
"""Up to here the two functions are computed without regard to the ends of the range."""
_TINY = 2.0**-100
"""Below, ``gamma(x)`` is ``1 / x`` but for its last bit, and its logarithm ``-log(x)``."""


def _row(table: Table, x: Real, lost: Real, first: int) -> Pair:
    """The function of a table at ``x + lost``."""
    shifted = x * _GAMMA_STEPS + WHOLE
    row = (bits(shifted) - (bits(x.of(WHOLE)) + first)) & (len(table.columns[0]) - 1)
    return taylor(table, row, x - (shifted - WHOLE) * (1 / _GAMMA_STEPS), lost)


def _reduce(x: Real, least: float, steps: int) -> tuple[Real, Pair]:
    """A number below ``least + 1`` that is some whole number less, and the product of the numbers that were passed."""
    product = x.of(1.0), x.of(0.0)
    for _ in range(steps):
        is_large = x.compare("ge", least + 1.0)
        lower = x - 1.0
        high, low = product_of_pairs(product, (lower, x.of(0.0)))
        product = high.where(is_large, product[0]), low.where(is_large, product[1])
        x = lower.where(is_large, x)
    return x, product


def _log_of_large(x: Real) -> Pair:
    """The logarithm of gamma(x), of x from 8 on."""
    less, lost = add(x, x.of(-0.5))
    log, log_rest = long_log(bits(x))
    high, low = product_with_log(less, log, log_rest)
    high, error = sum_of(high, -x)
    high, more = sum_of(high, x.of(_HALF_LOG))
    inverse = 1.0 / x
    series = inverse * polynomial(inverse * inverse, _C["stirling"])
    return sum_of(high, ((error + more) + lost * log) + (low + (series + _HALF_LOG_REST)))


def _near_gamma(size: Real) -> Pair:
    """``gamma(size)`` up to 8, or of numbers below 1 ``gamma(size + 1)``."""
    is_small = size.compare("lt", 1.0)
    above, lost = sum_of(size.of(1.0), size)
    within, product = _reduce(at_most(size, _LARGE), 1.0, 6)
    near = _row(GAMMA, above.where(is_small, within), lost.where(is_small, 0.0), int(_GAMMA_STEPS))
    return product_of_pairs(near, product)


def _is_pole(x: Real, size: Real) -> Node:
    is_whole = size.b.op("eq", size.node, size.b.op("floor", size.node))
    return size.b.op("and", x.compare("lt", 0.0), is_whole)


def _gamma_parts(x: Real, size: Real) -> tuple[Real, Real, Word]:
    """``gamma(x)`` as a sum of two numbers, and an exponent of 2.

    ``gamma(-s)`` is ``-pi / (s sin(pi s) gamma(s))``, and ``s gamma(s)`` is ``gamma(s + 1)``.
    """
    is_negative, is_small = x.compare("lt", 0.0), size.compare("lt", 1.0)
    is_large = size.compare("ge", _LARGE)
    *large, exponent = exp_of_sum(*_log_of_large(at_least(size, _LARGE)))
    high, low = (each.where(is_large, other) for each, other in zip(large, _near_gamma(size), strict=True))
    one, none = x.of(1.0), x.of(0.0)
    below = product_of_pairs((one.where(is_small, size), none), sine_of_turns(size))
    below = product_of_pairs(below, (high, low))
    top = x.of(-PI).where(is_negative, high), x.of(-PI_REST).where(is_negative, low)
    bottom = below[0].where(is_negative, size.where(is_small, one)), below[1].where(is_negative, none)
    zero = bits(none)
    exponent = exponent.where(is_large, zero)
    return (*quotient_of_pairs(top, bottom), (zero - exponent).where(is_negative, exponent))


def _gamma(x: Real) -> tuple[Real, Node]:
    size, b = abs(x), x.b
    high, low, exponent = _gamma_parts(x, size)
    is_usual = b.op("and", size.compare("ge", _TINY), size.compare("lt", _USUAL))
    holds = b.op("and", is_usual, b.op("not", _is_pole(x, size)))
    return (high + low) * (exponent + 1023 << 52).real(), holds


def _rare_gamma(x: Real) -> Real:
    size = abs(x)
    limited = x.b.op("lt", size.node, x.b.const(200.0, FLOAT64))
    half = at_most(size, 2.0**60) * 0.5
    floor = Real(x.b, x.b.op("floor", half.node))
    inner = size.where(limited, (half - floor) * 2.0 + 198.0)  # as even or odd below: the sign of what underflows
    found = scale_any(*_gamma_parts(with_sign(inner, x), inner))
    found = (1.0 / x).where(size.compare("lt", _TINY), found)
    found = x.of(_NAN).where(_is_pole(x, size), found)
    return x.where(x.compare("ne", x), found)


# --- the logarithm of its absolute value


def _log_of(x: Pair) -> Pair:
    """The logarithm of a sum of two numbers."""
    high, low = long_log(bits(x[0]))
    return high, low + x[1] / x[0]


def _positive_log(size: Real) -> Pair:
    """The logarithm of gamma of a positive number, not tiny nor huge."""
    is_small, is_between = size.compare("lt", 0.5), size.compare("ge", 3.0)
    none = size.of(0.0)
    above, lost = sum_of(size.of(1.0), at_most(size, 1.0))
    within, product = _reduce(at_most(size, _LARGE), 2.0, 6)
    place, lost = above.where(is_small, within.where(is_between, at_most(size, 3.0))), lost.where(is_small, 0.0)
    first, rest = add(place, size.of(-2.0))
    less = sum_of(first, rest + lost)
    factor = size.where(is_small, place - 1.0)
    core = product_of_pairs(product_of_pairs(less, (factor, none)), _row(LOGARITHM, place, lost, 0))
    passed = size.where(is_small, product[0]), none.where(is_small, product[1])
    log = _log_of(passed)
    shifted = sum_of_pairs(core, (-log[0].where(is_small, -log[0]), -log[1].where(is_small, -log[1])))
    is_large = size.compare("ge", _LARGE)
    is_core = size.b.op("and", size.b.op("not", is_small), size.b.op("not", is_between))
    parts = zip(_log_of_large(at_least(size, _LARGE)), core, shifted, strict=True)
    high, low = (large.where(is_large, own.where(is_core, other)) for large, own, other in parts)
    return high, low


def _log_parts(x: Real, size: Real) -> Pair:
    positive = _positive_log(size)
    below = product_of_pairs((size, size.of(0.0)), sine_of_turns(size))
    sign = sign_of(below[0])
    log = _log_of((flip(below[0], sign), flip(below[1], sign)))
    total = sum_of_pairs(positive, log)
    total = sum_of_pairs(total, (x.of(-_LOG_PI), x.of(-_LOG_PI_REST)))
    is_negative = x.compare("lt", 0.0)
    return (-total[0]).where(is_negative, positive[0]), (-total[1]).where(is_negative, positive[1])


def _log_gamma(x: Real) -> tuple[Real, Node]:
    size, b = abs(x), x.b
    high, low = _log_parts(x, size)
    is_usual = b.op("and", size.compare("ge", _TINY), size.compare("lt", _HUGE))
    return high + low, b.op("and", is_usual, b.op("not", _is_pole(x, size)))


def _rare_log_gamma(x: Real) -> Real:
    size = abs(x)
    log, rest = long_log(bits(size * 2.0**54), 54)
    tiny = -(log + rest)
    log, rest = long_log(bits(size))
    high, low = product_with_log(size * 2.0**-30, log, rest)
    huge = (high + (low - size * 2.0**-30)) * 2.0**30
    found = tiny.where(size.compare("lt", _TINY), huge)
    is_infinite = x.b.op("or", _is_pole(x, size), size.compare("eq", _INFINITY))
    is_infinite = x.b.op("or", is_infinite, size.compare("eq", 0.0))
    found = x.of(_INFINITY).where(is_infinite, found)
    return x.where(x.compare("ne", x), found)


SPECIAL: dict[str, OwnFunction] = {
    "erf": OwnFunction(_erf, _rare_erf),
    "sinpi": OwnFunction(_sinpi, _rare_sinpi),
    "cospi": OwnFunction(_cospi, _rare_cospi),
    "erfc": OwnFunction(_erfc, _rare_erfc),
    "erfcx": OwnFunction(_erfcx, _rare_erfcx),
    "normcdf": OwnFunction(_normcdf, _rare_normcdf),
    "erfinv": OwnFunction(_erfinv, _rare_erfinv),
    "erfcinv": OwnFunction(_erfcinv, lambda y: _ends(y, 2.0)),
    "normcdfinv": OwnFunction(_normcdfinv, lambda p: -_ends(p, 1.0)),
    "tgamma": OwnFunction(_gamma, _rare_gamma),
    "lgamma": OwnFunction(_log_gamma, _rare_log_gamma),
}
