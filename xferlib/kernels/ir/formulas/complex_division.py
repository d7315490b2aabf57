"""Division of complex numbers by float64 operations, with the infinities and zeros of C (ISO C, annex G).

complex64 takes the textbook formula, which cannot overflow in float64. complex128 would overflow there for parts
beyond 1e154, so it takes Smith's method ("Algorithm 116: Complex division", Communications of the ACM 5, 1962). It is
arranged so that its denominator is positive: then zero parts have the signs that the textbook formula gives them.
"""

from __future__ import annotations

import numpy as np

from xferlib.kernels.ir.formulas.real_algebra import Real
from xferlib.kernels.ir.nodes import FLOAT32, Builder, Node, part_dtype

Pair = tuple[Real, Real]


def divide(b: Builder, x: Node, y: Node) -> Node:
    """``x / y`` of complex operands."""
    part = part_dtype(x.dtype)
    top = Real(b, b.real(x)), Real(b, b.imag(x))
    bottom = Real(b, b.real(y)), Real(b, b.imag(y))
    quotient = (_textbook if part == FLOAT32 else _smith)(top, bottom)
    real, imag = _mended(b, quotient, top, bottom)
    return b.complex(b.cast(real.node, part), b.cast(imag.node, part))


def _textbook(top: Pair, bottom: Pair) -> Pair:
    (x, y), (u, v) = top, bottom
    size = u * u + v * v
    return (x * u + y * v) / size, (y * u - x * v) / size


def scaled(parts: Pair) -> tuple[Pair, Real]:
    """The parts times a power of two, with which no step of the method over- or underflows, and that power."""
    wide, tall = abs(parts[0]), abs(parts[1])
    size = tall.where(tall.compared("ge", wide), wide)
    small = size.of(2.0**200).where(size.compared("lt", 2.0**-800), 1.0)
    scale = size.of(2.0**-200).where(size.compared("gt", 2.0**800), small)
    return (parts[0] * scale, parts[1] * scale), scale


def _smith(top: Pair, bottom: Pair) -> Pair:
    ((x, y), up), ((u, v), down) = scaled(top), scaled(bottom)
    wide, tall = abs(u), abs(v)
    is_tall = tall.compared("ge", wide)
    large, small = tall.where(is_tall, wide), u.where(is_tall, v)
    is_negative = v.where(is_tall, u).compared("lt", 0.0)
    ratio = small / large
    size = large + small * ratio
    across, along = x.where(is_tall, y), y.where(is_tall, x)
    straight = (-along).where(is_negative, along)
    turned = (-across).where(is_negative, across)
    difference = along * ratio - turned
    imag = difference.where(is_tall, turned - along * ratio)
    back = down / up
    return (across * ratio + straight) / size * back, imag / size * back


def _mended(b: Builder, quotient: Pair, top: Pair, bottom: Pair) -> Pair:
    """The quotient, with C's values where both parts are NaN although an operand is infinite or the divisor 0."""
    (x, y), (u, v) = top, bottom
    real, imag = quotient
    is_lost = b.op("and", real.compared("ne", real), imag.compared("ne", imag))
    is_top_endless = b.op("or", _is_infinite(x), _is_infinite(y))
    is_bottom_endless = b.op("or", _is_infinite(u), _is_infinite(v))
    is_mended = b.op("and", is_lost, b.op("xor", is_top_endless, is_bottom_endless))
    is_zero = b.op("and", u.compared("eq", 0.0), v.compared("eq", 0.0))
    first, second = x / u, y / u
    x, y = (_boxed(each).where(is_top_endless, each * 0.5) for each in (x, y))  # or the sum may overflow
    u, v = (_boxed(each).where(is_bottom_endless, each) for each in (u, v))
    factor = u.of(np.inf).where(is_top_endless, 0.0)
    real = (factor * (x * u + y * v)).where(is_mended, real)
    imag = (factor * (y * u - x * v)).where(is_mended, imag)
    return first.where(is_zero, real), second.where(is_zero, imag)


def _is_infinite(x: Real) -> Node:
    return x.b.op("or", x.compared("eq", np.inf), x.compared("eq", -np.inf))


def _boxed(x: Real) -> Real:
    """±1 for an infinity, a zero for any other value."""
    return x.of(1.0).where(x.compared("eq", np.inf), x.of(-1.0).where(x.compared("eq", -np.inf), 0.0))
