"""exp and log of float64 with the same bits on every device: formulas of rounded operations, no fused ones.

Each is one definition, in the operations of the representation, from which every engine has its code. A fused
multiplication would save a third of the operations, but not every CPU has one, and NumPy none at all. They are not in
`xferlib.kernels.formulas.FORMULAS` yet: there a program's calls would be replaced by them, which changes results.

The polynomials are fitted by ``tools/kernel_polynomials.py``. The reductions are those of Tang, "Table-driven
implementation of the exponential function", ACM TOMS 15 (1989), without his table, and of the logarithm by
``2 artanh(f / (2 + f))``.
"""

from __future__ import annotations

from collections.abc import Callable

from xferlib.kernels.formulas import Real, polynomial
from xferlib.kernels.ir import FLOAT64, INT64, UINT64, Node

_LOG2E = float.fromhex("0x1.71547652b82fep+0")
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42fefa3800p-1"), float.fromhex("0x1.ef35793c76730p-45")
"""ln 2: of 42 bits, so that its product with an exponent is exact, and the rest."""
_WHOLE = 1.5 * 2.0**52
"""Added, it rounds to a whole number, which the low bits then hold."""
_WHOLE_BITS = 0x4338000000000000
_BIAS = 1023 << 52
_ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
_SHIFT = 1024
"""Added to exponents, so that they are not negative."""

EXP = (
    0.5000000000000001, 0.16666666666666669, 0.041666666666624136, 0.008333333333330063, 0.001388888891720967,
    0.00019841269863050506, 2.4801521302241082e-05, 2.7557268464831627e-06, 2.7620085455018414e-07,
    2.510038319586702e-08,
)  # fmt: skip
"""``(exp(r) - 1 - r) / r**2``, for r up to ln(2) / 2."""

LOG = (
    0.666666666666667, 0.3999999999989924, 0.2857142862609589, 0.22222211115144158, 0.18182890556695763,
    0.15331674030163508, 0.1461703754883715,
)  # fmt: skip
"""``(2 artanh(s) / s - 2) / s**2`` in powers of ``s * s``, for s up to 0.1716."""


def _bits(x: Real) -> Node:
    return x.b.bitcast(x.node, INT64)


def _power_of_two(x: Real, count: Node) -> Real:
    """``2 ** count``, ``count`` an int64 whose bits above the 12 lowest do not matter."""
    shifted = x.b.op("shl", count, x.b.const(52, INT64))
    return Real(x.b, x.b.bitcast(x.b.op("add", shifted, x.b.const(_BIAS, INT64)), FLOAT64))


def exp(x: Real) -> Real:
    """``exp(x)``, within 0.8 ulp."""
    x = x.of(-746.0).where(x.compare("lt", -746.0), x)  # where it is 0; NaN stays
    x = x.of(710.0).where(x.compare("gt", 710.0), x)
    quotient = x * _LOG2E
    whole, half = quotient + _WHOLE, quotient * 0.5 + _WHOLE
    count = whole - _WHOLE
    high, low = x - count * _LN2_HIGH, count * _LN2_LOW
    rest = high - low
    lost = (high - rest) - low
    total = 1.0 + rest
    missing = rest - (total - 1.0)
    value = total + (missing + (rest * rest * polynomial(rest, EXP) + lost))
    # Two factors: one of them would be infinite or subnormal before the product is.
    first = _bits(half)
    return value * _power_of_two(x, first) * _power_of_two(x, x.b.op("sub", _bits(whole), first))


def log(x: Real) -> Real:
    """``log(x)``, within 1 ulp; NaN of negative numbers, -inf of zeros."""
    b = x.b
    is_small = x.compare("lt", 2.0**-1022)
    scaled = (x * 2.0**54).where(is_small, x)
    bits = b.bitcast(scaled.node, UINT64)
    above = b.op("add", bits, b.const((_SHIFT << 52) - _ROOT_HALF_BITS, UINT64))
    exponent = b.op("shr", above, b.const(52, UINT64))
    shifted = Real(b, b.bitcast(b.op("or", exponent, b.const(0x4330000000000000, UINT64)), FLOAT64))
    count = shifted - Real(b, 2.0**52 + _SHIFT + 54).where(is_small, 2.0**52 + _SHIFT)
    own = b.op("sub", b.op("shl", exponent, b.const(52, UINT64)), b.const(_SHIFT << 52, UINT64))
    f = Real(b, b.bitcast(b.op("sub", bits, own), FLOAT64)) - 1.0
    s = f / (f + 2.0)
    v = s * s
    # log(1 + f) = 2 s + s^3 P(s^2), and 2 s = f - s f
    small = s * (f - v * polynomial(v, LOG)) - count * _LN2_LOW
    found = count * _LN2_HIGH - (small - f)
    found = found.where(x.compare("lt", float("inf")), x)
    found = found.where(x.compare("gt", 0.0), float("nan"))
    return x.of(float("-inf")).where(x.compare("eq", 0.0), found)


FUNCTIONS: dict[str, Callable[[Real], Real]] = {"exp": exp, "log": log}
