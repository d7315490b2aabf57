"""The error function of float64, one definition for every engine.

A table has its values and slopes at multiples of 1/16; the series around the nearest one has the coefficients of
Hermite's polynomials, which their recurrence gives. The product that decides the last bit is exact, because the slopes
of the table have 26 bits and a second number for what is left. The constants are made by
``tools/float64_trigonometry_constants.py``.
"""

from __future__ import annotations

from xferlib.kernels.float64_arithmetic import WHOLE, Definition, bits, head, read_constants, sum_of, with_sign
from xferlib.kernels.formulas import Real, two_product
from xferlib.kernels.ir import Node, Table

_C = read_constants("float64_special")

ERRORS = Table("errors", (_C["erf"], _C["erf_rest"], _C["slope"], _C["slope_rest"]))
"""The error function and its slope at ``row / 16``, each in two parts; the slope's first has 26 bits."""

_STEPS = 16.0
_LARGEST = 6.0
"""From here on the value is 1."""
_TERMS = 9
_SLOPE, _SLOPE_REST = _C["first_slope"]
_LEAST, _LARGEST_BITS = 1023 - 900 << 52, 0x4018 << 48
"""The bits of 2^-900, below which the exact product may be subnormal, and those of `_LARGEST`."""


def _erf(x: Real) -> tuple[Real, Node]:
    b = x.b
    size = abs(x)
    shifted = size * _STEPS + WHOLE
    row = bits(shifted) & 127
    centre = (shifted - WHOLE) * (1 / _STEPS)
    rest = size - centre
    # exp(-2 c t - t^2) in powers of t: h(n + 1) = -2 (c h(n) + h(n - 1)) / (n + 1); the integral divides by n + 1.
    across, square = centre * rest, rest * rest
    before, term = x.of(1.0), across * -2.0
    bent = term * 0.5
    for n in range(2, _TERMS + 1):
        before, term = term, (across * term + square * before) * (-2.0 / n)
        bent = bent + term * (1.0 / (n + 1))
    near = head(rest, 26)
    slope, slope_rest = row.at(ERRORS, 2), row.at(ERRORS, 3)
    high, low = sum_of(row.at(ERRORS, 0), slope * near)
    further = (slope + slope_rest) * ((rest - near) + rest * bent)
    found = high + (low + (row.at(ERRORS, 1) + (slope_rest * near + further)))
    holds = b.op("or", (bits(size) - _LEAST).is_below(_LARGEST_BITS - _LEAST), size.compare("eq", 0.0))
    return with_sign(found, x), holds


def _rare_erf(x: Real) -> Real:
    size = abs(x)
    scaled = size * 2.0**300
    product, error = two_product(scaled, x.of(_SLOPE))
    error = error + scaled * _SLOPE_REST
    # The last bit of this number counts what that of a subnormal result does: one rounding, there too.
    unit = 2.0 ** (300 - 1022)
    total, rest = sum_of(x.of(unit), product)
    found = ((total + (rest + error)) - unit).where(product.compare("lt", unit), product + error) * 2.0**-300
    return with_sign(x.of(1.0).where(size.compare("ge", _LARGEST), found), x)


SPECIAL: dict[str, Definition] = {"erf": Definition(_erf, _rare_erf)}
