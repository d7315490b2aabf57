"""The mathematical functions of complex numbers, as formulas of real ones.

The textbook formulas fail in three respects. They overflow or cancel although the result is an ordinary number:
``exp(x) * cos(y)`` at x = 720 with a tiny cosine, ``log(|z|)`` near |z| = 1. They lose the sign of zero, which says on
which side of a branch cut an argument lies. And platforms' libraries differ in both. So each formula factors
exponentials, computes |z|² - 1 without cancellation, and sets infinities, NaNs and signed zeros as C does (ISO C,
annex G) wherever that gives a value.

All steps are float64. The formulas of complex64 call the correctly rounded float32 functions, so the result has the
same bits everywhere; where one is needed at a float64 argument, a tangent corrects for the rounding of the argument.
The formulas of complex128 call the platform's float64 functions.

Source: Kahan, "Branch cuts for complex elementary functions" (1987), for the inverse functions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xferlib.kernels import formulas
from xferlib.kernels.formulas import Lowering, Real, hypot, two_product, two_sum
from xferlib.kernels.ir import FLOAT32, FLOAT64, INT64, UINT64, Builder, Node, is_complex, part_dtype

# Division of complex numbers by float64 operations, with the infinities and zeros of C (ISO C, annex G). The sign of a
# zero that divides counts for nothing, as in NumPy and torch; annex G leaves it open. A real divisor that becomes
# complex would otherwise choose a direction in the plane by a sign that it got by chance.
#
# complex64 takes the textbook formula, which cannot overflow in float64. complex128 would overflow there for parts
# beyond 1e154, so it takes Smith's method ("Algorithm 116: Complex division", Communications of the ACM 5, 1962). It is
# arranged so that its denominator is positive: then zero parts have the signs that the textbook formula gives them.

Pair = tuple[Real, Real]


def divide(b: Builder, x: Node, y: Node) -> Node:
    """``x / y`` of complex operands."""
    part = part_dtype(x.dtype)
    top = Real(b, b.real(x)), Real(b, b.imag(x))
    bottom = Real(b, b.real(y)), Real(b, b.imag(y))
    quotient = (_textbook if part == FLOAT32 else _smith)(top, bottom)
    real, imag = _restore_infinities(b, quotient, top, bottom)
    return b.complex(b.cast(real.node, part), b.cast(imag.node, part))


def _textbook(top: Pair, bottom: Pair) -> Pair:
    (x, y), (u, v) = top, bottom
    size = u * u + v * v
    return (x * u + y * v) / size, (y * u - x * v) / size


def scale(parts: Pair) -> tuple[Pair, Real]:
    """The parts times a power of two, with which no step of the method over- or underflows, and that power."""
    wide, tall = abs(parts[0]), abs(parts[1])
    size = tall.where(tall.compare("ge", wide), wide)
    small = size.of(2.0**200).where(size.compare("lt", 2.0**-800), 1.0)
    scale = size.of(2.0**-200).where(size.compare("gt", 2.0**800), small)
    return (parts[0] * scale, parts[1] * scale), scale


def _smith(top: Pair, bottom: Pair) -> Pair:
    ((x, y), up), ((u, v), down) = scale(top), scale(bottom)
    wide, tall = abs(u), abs(v)
    is_tall = tall.compare("ge", wide)
    large, small = tall.where(is_tall, wide), u.where(is_tall, v)
    is_negative = v.where(is_tall, u).compare("lt", 0.0)
    ratio = small / large
    size = large + small * ratio
    across, along = x.where(is_tall, y), y.where(is_tall, x)
    straight = (-along).where(is_negative, along)
    turned = (-across).where(is_negative, across)
    difference = along * ratio - turned
    imag = difference.where(is_tall, turned - along * ratio)
    back = down / up
    return (across * ratio + straight) / size * back, imag / size * back


def _restore_infinities(b: Builder, quotient: Pair, top: Pair, bottom: Pair) -> Pair:
    """The quotient, with C's values where both parts are NaN beside an infinite operand, NumPy's for a zero divisor."""
    (x, y), (u, v) = top, bottom
    real, imag = quotient
    is_lost = b.op("and", real.compare("ne", real), imag.compare("ne", imag))
    is_top_endless = b.op("or", _is_infinite(x), _is_infinite(y))
    is_bottom_endless = b.op("or", _is_infinite(u), _is_infinite(v))
    is_mended = b.op("and", is_lost, b.op("xor", is_top_endless, is_bottom_endless))
    is_zero = b.op("and", u.compare("eq", 0.0), v.compare("eq", 0.0))
    first, second = x / 0.0, y / 0.0
    x, y = (_box(each).where(is_top_endless, each * 0.5) for each in (x, y))  # or the sum may overflow
    u, v = (_box(each).where(is_bottom_endless, each) for each in (u, v))
    factor = u.of(np.inf).where(is_top_endless, 0.0)
    real = (factor * (x * u + y * v)).where(is_mended, real)
    imag = (factor * (y * u - x * v)).where(is_mended, imag)
    return first.where(is_zero, real), second.where(is_zero, imag)


def _is_infinite(x: Real) -> Node:
    return x.b.op("or", x.compare("eq", np.inf), x.compare("eq", -np.inf))


def _box(x: Real) -> Real:
    """±1 for an infinity, a zero for any other value."""
    return x.of(1.0).where(x.compare("eq", np.inf), x.of(-1.0).where(x.compare("eq", -np.inf), 0.0))


# The real functions that formulas of complex functions call, on a number's parts and on computed values.
#
# The formulas of complex64 compute in float64, but call float32 functions, which alone are correctly rounded and so
# have the same bits everywhere. A part of the operand is a float32 and needs no more (`of_part`). A computed value is
# not: rounding it to float32 would lose half its digits, so the function is taken at the rounded value and a tangent
# adds the rest (`at`). Exponentials are kept as two factors, since one may overflow although its product with a sine
# does not.

LN2 = float(np.log(2.0))
PI = float(np.pi)


class Functions:
    """The real functions that a formula calls, of float64 values."""

    def __init__(self, b: Builder, *, is_single: bool) -> None:
        self.b = b
        self.is_single = is_single
        self.big = 80.0 if is_single else 700.0
        """From here on an exponential may overflow although its product with a small factor does not."""

    def _call(self, name: str, *args: Real) -> Real:
        if self.is_single:
            return Real(self.b, self.b.call(name, *(self.b.cast(each.node, FLOAT32) for each in args)))
        return Real(self.b, self.b.call(name, *(each.node for each in args)))

    def of_part(self, name: str, x: Real) -> Real:
        """Function ``name`` of a part of the operand, exact in the operand's precision."""
        return self._call(name, x)

    def at(self, name: str, x: Real, slope: Callable[[Real], Real]) -> Real:
        """Function ``name`` of a computed value, with its derivative."""
        if not self.is_single:
            return self._call(name, x)
        near = Real(self.b, self.b.cast(x.node, FLOAT32))
        there, further = self._call(name, near), x - near
        return there.where(further.compare("eq", 0.0), there + slope(near) * further)  # or -0 would become 0

    def both(self, x: Node, y: Node) -> Node:
        return self.b.op("and", x, y)

    def unlike(self, x: Node) -> Node:
        return self.b.op("not", x)

    def exp_factors(self, x: Real) -> Pair:
        """Two factors of e^x: neither overflows unless their product with any small factor does."""
        is_big = abs(x).compare("gt", self.big)
        one, two = self._big_factors(x)
        return one.where(is_big, self.of_part("exp", x)), two.where(is_big, 1.0)

    def _big_factors(self, x: Real) -> Pair:
        """The two factors where ``x`` is big: one is a power of two or, where that is not enough, both are halves."""
        if not self.is_single:
            half = self.of_part("exp", x * 0.5)
            return half, half
        is_negative = x.compare("lt", 0.0)
        moved = x + x.of(160 * LN2).where(is_negative, -160 * LN2)
        power = x.of(2.0**-160).where(is_negative, 2.0**160)
        moved = moved.minimum(88.0).maximum(-200.0)  # beyond, every product is infinite or 0 in complex64
        return self.at("exp", moved, lambda value: self.of_part("exp", value)), power

    def hyperbolic_factors(self, x: Real) -> tuple[Real, Real, Real]:
        """sinh and cosh of ``x``, both divided by the third value."""
        is_big = abs(x).compare("gt", self.big)
        one, two = self._big_factors(abs(x))
        sinh = (one * 0.5).with_sign_of(x).where(is_big, self.of_part("sinh", x))
        cosh = (one * 0.5).where(is_big, self.of_part("cosh", x))
        return sinh, cosh, two.where(is_big, 1.0)

    def angle(self, y: Real, x: Real) -> Real:
        """The angle of the point (x, y)."""
        if not self.is_single:
            return self._call("arctan2", y, x)
        b = self.b
        wide, tall = abs(x), abs(y)
        large = wide.maximum(tall)
        ratio = wide.minimum(tall) / large
        ratio = ratio.of(0.0).where(large.compare("eq", 0.0), ratio)
        ratio = ratio.of(1.0).where(self.both(wide.is_infinite(), tall.is_infinite()), ratio)
        small = ratio - ratio * ratio * ratio / 3.0
        angle = small.where(ratio.compare("lt", 2.0**-12), self.at("arctan", ratio, lambda v: 1.0 / (1.0 + v * v)))
        angle = (PI / 2 - angle).where(tall.compare("gt", wide), angle)
        angle = (PI - angle).where(formulas.signbit(b, x.node), angle).with_sign_of(y)
        is_nan = b.op("or", formulas.isnan(b, x.node), formulas.isnan(b, y.node))
        return angle.of(np.nan).where(is_nan, angle)

    def log_of(self, value: Real, less_one: Real) -> Real:
        """The logarithm of a positive value; ``less_one``, the value minus 1, makes it accurate near 1."""
        is_near = self.both(less_one.compare("gt", -0.5), less_one.compare("lt", 1.0))
        near = self.at("log1p", less_one.of(0.0).where(self.unlike(is_near), less_one), lambda v: 1.0 / (1.0 + v))
        return near.where(is_near, self.log(value))

    def log(self, value: Real) -> Real:
        """The logarithm of a positive value, not near 1."""
        if not self.is_single:
            return self._call("log", value)
        b = self.b
        bits = b.bitcast(value.node, UINT64)
        mantissa = b.op("and", bits, b.const((1 << 52) - 1, UINT64))
        scaled = Real(b, b.bitcast(b.op("or", mantissa, b.const(1023 << 52, UINT64)), FLOAT64))
        exponent = b.op("sub", b.cast(b.op("shr", bits, b.const(52, UINT64)), INT64), b.const(1023, INT64))
        result = self.at("log", scaled, lambda v: 1.0 / v) + Real(b, exponent) * LN2
        result = result.of(-np.inf).where(value.compare("eq", 0.0), result)
        return value.where(self.unlike(value.is_finite()), result)

    def log_size(self, x: Real, y: Real, less_one: Real) -> Real:
        """The logarithm of |x + iy|, given x² + y² - 1 as ``less_one``, which is accurate where it is not near -1."""
        if self.is_single:
            size = x * x + y * y
            result = self.log_of(size, less_one) * 0.5
        else:
            large = abs(x).maximum(abs(y))
            is_large, is_small = large.compare("gt", 2.0**1000), large.compare("lt", 2.0**-900)
            scale = large.of(0.25).where(is_large, large.of(2.0**128).where(is_small, 1.0))
            rest = large.of(2 * LN2).where(is_large, large.of(-128 * LN2).where(is_small, 0.0))
            size = Real(self.b, formulas.hypot(self.b, (x * scale).node, (y * scale).node))
            far = self._call("log", size) + rest
            is_near = self.both(less_one.compare("gt", -0.75), less_one.compare("lt", 2.0**900))
            result = (self._call("log1p", less_one) * 0.5).where(is_near, far)
        is_infinite = self.b.op("or", x.is_infinite(), y.is_infinite())
        return result.of(np.inf).where(is_infinite, result)

    def arcsinh(self, x: Real) -> Real:
        """arcsinh of a computed value of any size."""
        if not self.is_single:
            return self._call("arcsinh", x)
        is_large = abs(x).compare("gt", 2.0**100)
        scaled = (x * 2.0**-64).where(is_large, x)
        result = self.at("arcsinh", scaled, lambda v: 1.0 / (1.0 + v * v).sqrt())
        result = (result + result.of(64 * LN2).with_sign_of(x)).where(is_large, result)
        return x.where(self.unlike(x.is_finite()), result)

    def arcsinh_of_cross(self, p: Real, c: Real, q: Real, a: Real) -> Real:
        """arcsinh of ``p * c - q * a``, which may be beyond the range of float64."""
        cross = self.arcsinh(p * c - q * a)
        if self.is_single:
            return cross
        quarter = (p * 0.25) * c - (q * 0.25) * a
        far = (self.log(abs(quarter)) + 3 * LN2).with_sign_of(quarter)  # arcsinh v: log 2v
        return far.where(abs(quarter).compare("gt", 2.0**1000), cross)

    def root(self, x: Real, y: Real) -> Pair:
        """The square root of x + iy."""
        if self.is_single:
            size = (x * x + y * y).sqrt()
            return self._root(x, y, size, x.of(1.0))
        large = abs(x).maximum(abs(y))
        is_large, is_small = large.compare("gt", 2.0**1000), large.compare("lt", 2.0**-960)
        scale = x.of(2.0**-4).where(is_large, x.of(2.0**108).where(is_small, 1.0))
        back = x.of(2.0**2).where(is_large, x.of(2.0**-54).where(is_small, 1.0))
        x, y = x * scale, y * scale
        return self._root(x, y, Real(self.b, formulas.hypot(self.b, x.node, y.node)), back)

    def _root(self, x: Real, y: Real, size: Real, back: Real) -> Pair:
        longer = ((abs(x) + size) * 0.5).sqrt()
        shorter = abs(y) / (longer * 2.0)
        is_zero = longer.compare("eq", 0.0)
        shorter = shorter.of(0.0).where(is_zero, shorter)
        is_right = x.compare("ge", 0.0)
        real, imag = longer.where(is_right, shorter), shorter.where(is_right, longer)
        endless = y.is_infinite()
        real = real.of(np.inf).where(endless, real.of(np.inf).where(x.compare("eq", np.inf), real))
        imag = imag.of(np.inf).where(endless, imag)
        is_left = self.both(x.compare("eq", -np.inf), self.unlike(endless))
        real = real.of(0.0).where(self.both(is_left, y.is_finite()), y.where(is_left, real))
        imag = imag.of(np.inf).where(is_left, imag)
        flat = self.both(x.compare("eq", np.inf), y.is_finite())
        imag = imag.of(0.0).where(flat, imag)
        return real * back, (imag * back).with_sign_of(y)


Formula = Callable[[Functions, Real, Real], Pair]


# --- exponentials


def _exp(f: Functions, x: Real, y: Real) -> Pair:
    one, two = f.exp_factors(x)
    is_flat = y.compare("eq", 0.0)
    real = (one * two).where(is_flat, (one * f.of_part("cos", y)) * two)
    imag = y.where(is_flat, (one * f.of_part("sin", y)) * two)
    return _set_limits(f, x, y, (real, imag), 0.0)


def _expm1(f: Functions, x: Real, y: Real) -> Pair:
    one, two = f.exp_factors(x)
    cos, half = f.of_part("cos", y), f.of_part("sin", y * 0.5)
    near = f.of_part("expm1", x) * cos - half * half * 2.0
    is_flat = y.compare("eq", 0.0)
    is_big = x.compare("gt", f.big)
    real = f.of_part("expm1", x).where(is_flat, ((one * cos) * two).where(is_big, near))
    imag = y.where(is_flat, (one * f.of_part("sin", y)) * two)
    return _set_limits(f, x, y, (real, imag), -1.0)


def _set_limits(f: Functions, x: Real, y: Real, found: Pair, least: float) -> Pair:
    """An exponential, which is ``least`` or infinity where ``x`` is infinite and the angle ``y`` is not finite."""
    real, imag = found
    is_vague = f.unlike(y.is_finite())
    gone, endless = f.both(x.compare("eq", -np.inf), is_vague), f.both(x.compare("eq", np.inf), is_vague)
    real = real.of(least).where(gone, x.where(endless, real))
    return real, imag.of(0.0).with_sign_of(y).where(gone, imag.of(np.nan).where(endless, imag))


def _sinh(f: Functions, x: Real, y: Real) -> Pair:
    sinh, cosh, rest = f.hyperbolic_factors(x)
    is_flat = y.compare("eq", 0.0)
    real = (sinh * rest).where(is_flat, (sinh * f.of_part("cos", y)) * rest)
    imag = y.where(is_flat, (cosh * f.of_part("sin", y)) * rest)
    is_special = f.b.op("or", x.compare("eq", 0.0), x.is_infinite())
    return x.where(f.both(is_special, f.unlike(y.is_finite())), real), imag


def _cosh(f: Functions, x: Real, y: Real) -> Pair:
    sinh, cosh, rest = f.hyperbolic_factors(x)
    is_flat = y.compare("eq", 0.0)
    real = (cosh * rest).where(is_flat, (cosh * f.of_part("cos", y)) * rest)
    zero = y.of(0.0).with_sign_of(x) * y.of(1.0).with_sign_of(y)
    is_vague = f.unlike(y.is_finite())
    is_zero = f.b.op("or", is_flat, f.both(x.compare("eq", 0.0), is_vague))
    imag = zero.where(is_zero, (sinh * f.of_part("sin", y)) * rest)
    return abs(x).where(f.both(x.is_infinite(), is_vague), real), imag


def _tanh(f: Functions, x: Real, y: Real) -> Pair:
    sinh, cosh, _ = f.hyperbolic_factors(x)
    sin, cos = f.of_part("sin", y), f.of_part("cos", y)
    below = sinh * sinh + cos * cos
    decay = f.of_part("exp", -abs(x))
    is_far = abs(x).compare("gt", 22.0)
    real = x.of(1.0).with_sign_of(x).where(is_far, sinh * cosh / below)
    imag = (sin * cos * 4.0 * decay * decay).where(is_far, sin * cos / below)
    is_vague = f.unlike(y.is_finite())
    real = real.of(np.nan).where(f.both(is_vague, x.is_finite()), real)
    real = x.where(x.compare("eq", 0.0), real)
    is_end = f.both(x.is_infinite(), is_vague)
    imag = y.where(y.compare("eq", 0.0), imag.of(0.0).with_sign_of(y).where(is_end, imag))
    return real, imag


def _rotate(formula: Formula) -> Formula:
    """``-i f(iz)``: the circular function from the hyperbolic one, and the reverse."""

    def turn(f: Functions, x: Real, y: Real) -> Pair:
        real, imag = formula(f, -y, x)
        return imag, -real

    return turn


def _cos(f: Functions, x: Real, y: Real) -> Pair:
    return _cosh(f, -y, x)


# --- logarithms


def _less_one(p: Real, q: Real, rest: Real, y: Real) -> Real:
    """``p * (q + rest) + y²``, as exact as float64 can hold it."""
    (first, first_rest), (second, second_rest) = two_product(p, q), two_product(y, y)
    total, total_rest = two_sum(first, second)
    return total + (total_rest + (first_rest + second_rest + p * rest))


def _log(f: Functions, x: Real, y: Real) -> Pair:
    large, small = abs(x).maximum(abs(y)), abs(x).minimum(abs(y))
    q, rest = two_sum(large, large.of(1.0))
    return f.log_size(x, y, _less_one(large - 1.0, q, rest, small)), f.angle(y, x)


def _log1p(f: Functions, x: Real, y: Real) -> Pair:
    q, rest = two_sum(x, x.of(2.0))
    one = 1.0 + x
    return f.log_size(one, y, _less_one(x, q, rest, y)), f.angle(y, one)


def _multiply_by(formula: Formula, factor: float) -> Formula:
    def multiply(f: Functions, x: Real, y: Real) -> Pair:
        real, imag = formula(f, x, y)
        return real * factor, imag * factor

    return multiply


# --- inverse functions


def _arcsin(f: Functions, x: Real, y: Real) -> Pair:
    (a, c), (p, q) = f.root(1.0 - x, -y), f.root(1.0 + x, y)
    endless = f.b.op("or", x.is_infinite(), y.is_infinite())
    real = f.angle(x, abs(y).where(endless, a * p - c * q))
    imag = y.of(np.inf).with_sign_of(y).where(endless, f.arcsinh_of_cross(a, q, c, p))
    return x.where(x.compare("eq", 0.0), real), imag


def _arccos(f: Functions, x: Real, y: Real) -> Pair:
    (a, c), (p, q) = f.root(1.0 - x, -y), f.root(1.0 + x, y)
    endless = f.b.op("or", x.is_infinite(), y.is_infinite())
    real = f.angle(abs(y), x).where(endless, f.angle(a, p) * 2.0)
    imag = (-y.of(np.inf).with_sign_of(y)).where(endless, f.arcsinh_of_cross(p, c, q, a))
    return x.of(PI / 2).where(x.compare("eq", 0.0), real), imag


def _arccosh(f: Functions, x: Real, y: Real) -> Pair:
    (a, c), (p, q) = f.root(x - 1.0, y), f.root(x + 1.0, y)
    endless = f.b.op("or", x.is_infinite(), y.is_infinite())
    real = x.of(np.inf).where(endless, f.arcsinh_of_cross(a, p, -c, q))
    is_upright = f.both(x.compare("eq", 0.0), formulas.isnan(f.b, y.node))
    imag = f.angle(y, x).where(endless, f.angle(c, p) * 2.0)
    return real, x.of(PI / 2).where(is_upright, imag)


def _arctanh(f: Functions, x: Real, y: Real) -> Pair:
    size = abs(x)
    side = 1.0 - size
    ratio = size * 4.0 / (side * side + y * y)
    real = f.log_of(1.0 + ratio, ratio) * 0.25
    if not f.is_single:  # next to a pole the squares underflow
        is_pole = f.both(side.compare("eq", 0.0), abs(y).compare("lt", 2.0**-500))
        real = ((LN2 - f.log(abs(y))) * 0.5).where(is_pole, real)
    large = size.maximum(abs(y))
    u, v = size / large, abs(y) / large
    far = u / (u * u + v * v) / large
    far = far.of(0.0).where(large.is_infinite(), far)
    real = far.where(large.compare("gt", 2.0**100), real).with_sign_of(x)
    imag = f.angle(y, (side * (1.0 + size) - y * y) * 0.5) * 0.5
    endless = f.both(f.b.op("or", x.is_infinite(), y.is_infinite()), f.unlike(formulas.isnan(f.b, y.node)))
    imag = y.of(PI / 2).with_sign_of(y).where(endless, imag)
    is_nothing = f.b.op("or", x.compare("eq", 0.0), f.b.op("or", x.is_infinite(), y.is_infinite()))
    return x.of(0.0).with_sign_of(x).where(is_nothing, real), imag


# --- others


def _sign(f: Functions, x: Real, y: Real) -> Pair:
    """z / |z|; 0 for 0. Beside an infinite part, a finite one becomes zero."""
    endless = f.b.op("or", x.is_infinite(), y.is_infinite())

    def box(part: Real) -> Real:
        edge = part.of(1.0).where(part.is_infinite(), 0.0).with_sign_of(part)
        return edge.where(f.both(endless, f.unlike(formulas.isnan(f.b, part.node))), part)

    p, q = box(x), box(y)
    if not f.is_single:
        (p, q), _ = scale((p, q))
    size = (p * p + q * q).sqrt() if f.is_single else Real(f.b, formulas.hypot(f.b, p.node, q.node))
    is_zero = size.compare("eq", 0.0)
    return p.where(is_zero, p / size), q.where(is_zero, q / size)


FORMULAS: dict[str, Formula] = {
    "exp": _exp, "expm1": _expm1, "log": _log, "log1p": _log1p, "log2": _multiply_by(_log, 1 / LN2),
    "log10": _multiply_by(_log, 1 / float(np.log(10.0))), "sqrt": Functions.root, "sign": _sign,
    "sin": _rotate(_sinh), "cos": _cos, "tan": _rotate(_tanh), "sinh": _sinh, "cosh": _cosh, "tanh": _tanh,
    "arcsin": _arcsin, "arccos": _arccos, "arctan": _rotate(_arctanh), "arcsinh": _rotate(_arcsin),
    "arccosh": _arccosh, "arctanh": _arctanh,
}  # fmt: skip
"""The functions of one complex number."""


def make_lowering(name: str) -> Lowering:
    """Function ``name`` of a complex operand."""

    def lower_one(b: Builder, z: Node) -> Node:
        part = part_dtype(z.dtype)
        functions = Functions(b, is_single=part == FLOAT32)
        real, imag = FORMULAS[name](functions, Real(b, b.real(z)), Real(b, b.imag(z)))
        return b.complex(b.cast(real.node, part), b.cast(imag.node, part))

    return lower_one


def power(b: Builder, z: Node, w: Node) -> Node:
    """``exp(w log z)``; 1 for an exponent of 0, 0 for a zero base whose exponent has a positive real part."""
    part = part_dtype(z.dtype)
    f = Functions(b, is_single=part == FLOAT32)
    most = 176.0 if f.is_single else 2000.0  # beyond, the exponential is 0 or infinite, and that of a half is not yet
    x, y, u, v = (Real(b, each) for each in (b.real(z), b.imag(z), b.real(w), b.imag(w)))
    size, angle = _log(f, x, y)
    is_real = v.compare("eq", 0.0)  # or a zero times an infinite logarithm would spoil the other part
    real = (u * size).where(is_real, u * size - v * angle)
    imag = (u * angle).where(is_real, u * angle + v * size)
    real = real.maximum(-most).minimum(most)
    if f.is_single:  # a large angle lies too far from the next float32 for a tangent
        imag = Real(b, b.op("fmod", imag.node, imag.of(2 * PI).node))
    is_big = abs(real).compare("gt", f.big)
    grow = f.at("exp", (real * 0.5).where(is_big, real), lambda value: f.of_part("exp", value))
    rest = grow.where(is_big, 1.0)
    cos = f.at("cos", imag, lambda value: -f.of_part("sin", value))
    sin = f.at("sin", imag, lambda value: f.of_part("cos", value))
    is_flat = imag.compare("eq", 0.0)
    parts = ((grow * rest).where(is_flat, (grow * cos) * rest), imag.where(is_flat, (grow * sin) * rest))
    is_one = f.both(u.compare("eq", 0.0), v.compare("eq", 0.0))
    is_zero = f.both(f.both(x.compare("eq", 0.0), y.compare("eq", 0.0)), u.compare("gt", 0.0))
    is_vague = f.unlike(imag.is_finite())
    is_zero = b.op("or", is_zero, f.both(real.compare("le", -most), is_vague))  # whatever its direction
    endless = real.of(np.inf).where(f.both(real.compare("ge", most), is_vague), parts[0])  # as of `_exp`
    real = real.of(1.0).where(is_one, real.of(0.0).where(is_zero, endless))
    imag = parts[1].of(0.0).where(b.op("or", is_one, is_zero), parts[1])
    return b.complex(b.cast(real.node, part), b.cast(imag.node, part))


# Arithmetic of complex numbers as formulas of their real and imaginary parts.


def each_part(op: str) -> Lowering:
    def lower(b: Builder, *args: Node) -> Node:
        real = b.op(op, *(b.real(each) for each in args))
        return b.complex(real, b.op(op, *(b.imag(each) for each in args)))

    return lower


def complex_multiply(b: Builder, x: Node, y: Node) -> Node:
    """(ac - bd) + (ad + bc)i, each operation rounded."""
    a, c, e, f = b.real(x), b.imag(x), b.real(y), b.imag(y)
    real = b.op("sub", b.op("mul", a, e), b.op("mul", c, f))
    return b.complex(real, b.op("add", b.op("mul", a, f), b.op("mul", c, e)))


def with_real(b: Builder, op: str, x: Node, y: Node) -> Node | None:
    """The sum, difference, product or quotient of a complex number and a real one, part by part as C has them.

    A real number is not one with the imaginary part 0: infinity times 2 stays infinity, and -0 plus a real one -0.

    Returns:
        None for a real number divided by a complex one, which has no such form.
    """
    if not is_complex(x.dtype):
        if op == "div":
            return None
        imaginary = b.op("mul", x, b.imag(y)) if op == "mul" else b.op("neg", b.imag(y)) if op == "sub" else b.imag(y)
        return b.complex(b.op(op, x, b.real(y)), imaginary)
    return b.complex(b.op(op, b.real(x), y), b.op(op, b.imag(x), y) if op in ("mul", "div") else b.imag(x))


def complex_absolute(b: Builder, x: Node) -> Node:
    return hypot(b, b.real(x), b.imag(x))


def conjugate(b: Builder, x: Node) -> Node:
    return b.complex(b.real(x), b.op("neg", b.imag(x))) if is_complex(x.dtype) else x


def real(b: Builder, x: Node) -> Node:
    return b.real(x) if is_complex(x.dtype) else x


def imag(b: Builder, x: Node) -> Node:
    return b.imag(x) if is_complex(x.dtype) else b.const(0, x.dtype)


def complex_equal(b: Builder, x: Node, y: Node) -> Node:
    return b.op("and", b.op("eq", b.real(x), b.real(y)), b.op("eq", b.imag(x), b.imag(y)))


def complex_not_equal(b: Builder, x: Node, y: Node) -> Node:
    return b.op("or", b.op("ne", b.real(x), b.real(y)), b.op("ne", b.imag(x), b.imag(y)))


def any_part(lowering: Lowering, op: str) -> Lowering:
    def lower(b: Builder, x: Node) -> Node:
        return b.op(op, lowering(b, b.real(x)), lowering(b, b.imag(x)))

    return lower


def complex_square(b: Builder, x: Node) -> Node:
    return complex_multiply(b, x, x)


def complex_reciprocal(b: Builder, x: Node) -> Node:
    return divide(b, b.const(1, x.dtype), x)
