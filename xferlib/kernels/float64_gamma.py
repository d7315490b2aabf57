"""The gamma function of float64 and its logarithm, each one definition for every engine.

Up to 8 the recurrence leads to a table of the function and its derivatives from 1 to 2; from 8 on it is the exponential
of Stirling's series, and below 0 the reflection. The logarithm has a table of ``log(gamma(x)) / ((x - 1) * (x - 2))``,
because it is 0 at 1 and 2. All intermediate results are sums of two numbers. The constants are made by
``tools/float64_trigonometry_constants.py``.
"""

from __future__ import annotations

from xferlib.kernels.float64_arithmetic import (
    WHOLE,
    OwnFunction,
    Pair,
    Word,
    add,
    at_least,
    at_most,
    bits,
    product_of_pairs,
    quotient_of_pairs,
    read_constants,
    scale_any,
    sum_of,
    sum_of_pairs,
    taylor,
    with_sign,
)
from xferlib.kernels.float64_exponentials import exp_of_sum, long_log, product_with_log
from xferlib.kernels.float64_special import sine_of_turns
from xferlib.kernels.float64_trigonometry import PI, PI_REST, flip, sign_of
from xferlib.kernels.formulas import Real, polynomial
from xferlib.kernels.ir import FLOAT64, Node, Table

_C = read_constants("float64_gamma")
_STEPS = 32.0
GAMMA = Table("gammas", tuple(_C[f"gamma_{k}"] for k in range(13)))
"""The function around ``1 + row / 32``."""
LOGARITHM = Table("gamma_logarithms", tuple(_C[f"log_{k}"] for k in range(14)))
"""``log(gamma(x)) / ((x - 1) * (x - 2))`` around ``row / 32``, from 1/2 to 3."""
_LARGE = 8.0
_HALF_LOG, _HALF_LOG_REST = _C["half_log"]
_LOG_PI, _LOG_PI_REST = _C["log_pi"]
_INFINITY, _NAN = float("inf"), float("nan")
_USUAL, _HUGE = 150.0, 2.0**900
"""Up to here the two functions are computed without regard to the ends of the range."""
_TINY = 2.0**-100
"""Below, ``gamma(x)`` is ``1 / x`` but for its last bit, and its logarithm ``-log(x)``."""


def _row(table: Table, x: Real, lost: Real, first: int) -> Pair:
    """The function of a table at ``x + lost``."""
    shifted = x * _STEPS + WHOLE
    row = (bits(shifted) - (bits(x.of(WHOLE)) + first)) & (len(table.columns[0]) - 1)
    return taylor(table, row, x - (shifted - WHOLE) * (1 / _STEPS), lost)


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
    near = _row(GAMMA, above.where(is_small, within), lost.where(is_small, 0.0), int(_STEPS))
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


GAMMAS: dict[str, OwnFunction] = {
    "tgamma": OwnFunction(_gamma, _rare_gamma),
    "lgamma": OwnFunction(_log_gamma, _rare_log_gamma),
}
