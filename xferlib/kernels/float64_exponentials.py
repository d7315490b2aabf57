"""Exponentials and logarithms of float64, each one definition for every engine.

Arguments are reduced by tables: of 2^(j/128) for exponentials (Tang, "Table-driven implementation of the exponential
function in IEEE floating-point arithmetic", ACM TOMS 15, 1989), of inverses of few bits for logarithms (Tang, ACM TOMS
16, 1990), whose products are exact. The constants are made by ``tools/float64_constants.py``.
"""

from __future__ import annotations

from xferlib.kernels.float64_arithmetic import (
    WHOLE,
    Bits,
    Definition,
    bits,
    head,
    read_constants,
    scale,
    sum_of,
)
from xferlib.kernels.formulas import Real, polynomial
from xferlib.kernels.ir import Node, Table

_C = read_constants("float64_exponentials")

POWERS = Table("powers", (_C["powers"], _C["powers_rest"]))
"""The bits of 2^(j/128), less ``j << 45``; and what their rounding has left, divided by them."""
LOGS = Table("logs", (_C["inverse"], _C["log_head"], _C["log_rest"]))
"""Inverses of few bits, their negative logarithms of 42 bits behind the point, and the rest of these."""

_STEPS, _STEP, _STEP_REST = _C["step"]
_LN2, _LN2_REST = _C["ln2"]
_INFINITY = float("inf")

# --- exponentials


def _reduce(x: Real) -> tuple[Real, Bits]:
    """``x - n * ln(2) / 128``, and the number n in the low bits."""
    shifted = x * _STEPS + WHOLE
    count = shifted - WHOLE
    return (x - count * _STEP) - count * _STEP_REST, bits(shifted)


def _power_of(count: Bits) -> tuple[Real, Real]:
    """``2 ** (count / 128)``, and what its rounding has left, divided by it."""
    row = count & 127
    return (row.bits_at(POWERS, 0) + (count << 45)).real(), row.at(POWERS, 1)


def _exp(x: Real) -> tuple[Real, Node]:
    rest, count = _reduce(x)
    power, missing = _power_of(count)
    grown = missing + (rest + rest * rest * polynomial(rest, _C["exp"]))
    return power + power * grown, abs(x).compare("lt", 700.0)  # beyond, the product may be subnormal


def _rare_exp(x: Real) -> Real:
    bounded = x.of(-750.0).where(x.compare("lt", -750.0), x)
    bounded = x.of(750.0).where(x.compare("gt", 750.0), bounded)
    rest, count = _reduce(bounded)
    power, missing = _power_of(count & 127)
    high, low = sum_of(power, power * (missing + (rest + rest * rest * polynomial(rest, _C["exp"]))))
    found = scale(high, low, (count - bits(x.of(WHOLE)) + (1 << 20) >> 7) - (1 << 13))
    return x.where(x.compare("ne", x), found)


# --- logarithms

_OFFSET = 0x3FE6000000000000
_SMALLEST = 2.0**-1022


def _log_parts(x: Bits, lost: int = 0) -> tuple[Real, Real, Real, Real]:
    """What the logarithm of a positive number consists of.

    Args:
        x: The number's bits.
        lost: The exponent of the power of two by which it was multiplied.

    Returns:
        The exponent, ``m * c - 1`` of the fraction and its inverse, and the logarithm of the inverse in two parts.
    """
    above = x - _OFFSET
    row = (above >> 45) & 127
    fraction = (x - (above & 0xFFF << 52)).real()
    # The exponent, by way of the low bits of a float.
    count = ((above + ((1 << 63) - (lost << 52)) >> 52) | 0x4330000000000000).real() - (2.0**52 + 2048)
    inverse = row.at(LOGS, 0)
    high = head(fraction, 10)
    rest = (high * inverse - 1.0) + (fraction - high) * inverse
    return count, rest, row.at(LOGS, 1), row.at(LOGS, 2)


def _log_of(x: Bits, lost: int = 0) -> Real:
    count, rest, known, known_rest = _log_parts(x, lost)
    high, low = sum_of(count * _LN2 + known, rest)
    return high + (low + ((known_rest + count * _LN2_REST) + rest * rest * polynomial(rest, _C["log"])))


def _log(x: Real) -> tuple[Real, Node]:
    own = bits(x)
    is_normal = (own - (1 << 52)).is_below(0x7FE << 52)
    return _log_of(own), is_normal


def _rare_log(x: Real) -> Real:
    return _special_log(x, _log_of(bits(x * 2.0**54), 54))


def _special_log(x: Real, found: Real) -> Real:
    """The logarithm of a subnormal number; or that of 0, an infinity, a negative number or NaN."""
    found = found.where(x.compare("lt", _INFINITY), x)
    found = found.where(x.compare("gt", 0.0), float("nan"))
    return x.of(-_INFINITY).where(x.compare("eq", 0.0), found)


EXPONENTIALS = {"exp": Definition(_exp, _rare_exp), "log": Definition(_log, _rare_log)}
