"""The error function of float64, and sine and cosine of half turns, each one definition for every engine.

A table has the error function's values and slopes at multiples of 1/16; the series around the nearest one has the
coefficients of Hermite's polynomials, which their recurrence gives. The product that decides the last bit is exact,
because the slopes of the table have 26 bits and a second number for what is left. The constants are made by
``tools/float64_trigonometry_constants.py``.
"""

from __future__ import annotations

import struct

from xferlib.kernels.float64_arithmetic import WHOLE, OwnFunction, Pair, bits, head, read_constants, sum_of, with_sign
from xferlib.kernels.float64_trigonometry import PI, PI_REST, Angle, cosine, flip, sign_of, sine, sine_of
from xferlib.kernels.formulas import Real, two_product
from xferlib.kernels.ir import Node, Table

_C = read_constants("float64_special")

ERRORS = Table("errors", (_C["erf"], _C["erf_rest"], _C["slope"], _C["slope_rest"]))
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
    slope, slope_rest = row.at(ERRORS, 2), row.at(ERRORS, 3)
    high, low = sum_of(row.at(ERRORS, 0), slope * near)
    further = (slope + slope_rest) * (missing + rest * bent)
    return high, low + (row.at(ERRORS, 1) + (slope_rest * near + further))


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


SPECIAL: dict[str, OwnFunction] = {
    "erf": OwnFunction(_erf, _rare_erf),
    "sinpi": OwnFunction(_sinpi, _rare_sinpi),
    "cospi": OwnFunction(_cospi, _rare_cospi),
}
