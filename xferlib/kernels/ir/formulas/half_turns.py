"""Sine and cosine of an angle in half turns: ``sin(pi * x)`` and ``cos(pi * x)``.

The angle is reduced exactly, and polynomials fitted with 130 digits do the rest, so that no platform's function takes
part and the bits are the same everywhere.
"""

from __future__ import annotations

from xferlib.kernels.ir.formulas.real_algebra import Real, polynomial
from xferlib.kernels.ir.nodes import Node

_SIN = (
    3.141592653589793, -5.16771278004997, 2.5501640398773415, -0.5992645293202978, 0.08214588658005621,
    -0.007370429884712669, 0.00046628272951211076, -2.1717401400090533e-05,
)  # fmt: skip
"""``sin(pi * x) / x`` in powers of ``x * x``, for x up to 1/4."""

_COS = (
    -4.934802200544679, 4.0587121264167685, -1.3352627688545888, 0.23533063035880689, -0.025806891384587305,
    0.0019295741241061913, -0.0001046345989636836, 4.268505646755225e-06,
)  # fmt: skip
"""``(cos(pi * x) - 1) / (x * x)`` in powers of ``x * x``, for x up to 1/4."""


def _reduced(x: Real) -> tuple[Real, Real]:
    """The distance to the nearest multiple of 1/2, and the number of that multiple modulo 4."""
    x = x.where(abs(x).compared("lt", 2.0**53), x * 0.0)  # beyond, every number is even; infinity becomes NaN
    count = Real(x.b, x.b.op("rint", (x + x).node))
    rest = x - count * 0.5
    quarter = Real(x.b, x.b.op("floor", (count * 0.25).node))
    return rest, count - quarter * 4.0


def _both(rest: Real) -> tuple[Real, Real]:
    square = rest * rest
    return rest * polynomial(square, _SIN), 1.0 + square * polynomial(square, _COS)


def _is_odd(number: Real) -> Node:
    return number.b.op("or", number.compared("eq", 1.0), number.compared("eq", 3.0))


def sine(x: Real) -> Real:
    """``sin(pi * x)``; a zero of the sign of ``x`` where it is 0."""
    rest, number = _reduced(x)
    sin, cos = _both(rest)
    found = cos.where(_is_odd(number), sin)
    found = (-found).where(number.compared("ge", 2.0), found)
    return found.where(found.compared("ne", 0.0), x * 0.0)


def cosine(x: Real) -> Real:
    """``cos(pi * x)``; +0 where it is 0."""
    rest, number = _reduced(x)
    sin, cos = _both(rest)
    found = sin.where(_is_odd(number), cos)
    is_below = x.b.op("or", number.compared("eq", 1.0), number.compared("eq", 2.0))
    return (-found).where(is_below, found) + 0.0
