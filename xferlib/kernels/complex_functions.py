"""The mathematical functions of complex numbers, as formulas of real ones.

Everything is float64. The float32 functions in the formulas of complex64 are the correctly rounded ones, so that
the result has the same bits everywhere; where one is needed at a float64 argument, its tangent there corrects for
the rounding of the argument. The formulas of complex128 use the platform's float64 functions. Infinities, NaNs and
signed zeros are those of C (ISO C, annex G) wherever that gives a value.

Sources: Kahan, "Branch cuts for complex elementary functions" (1987), for the inverse functions.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xferlib.kernels import lower
from xferlib.kernels.ir import FLOAT32, FLOAT64, INT64, UINT64, Builder, Node, part_dtype
from xferlib.kernels.lower import COMPLEX_FUNCTIONS, Lowering
from xferlib.kernels.real_algebra import Real, two_product, two_sum

Pair = tuple[Real, Real]
Formula = Callable[["Functions", Real, Real], Pair]

_LN2 = float(np.log(2.0))
_PI = float(np.pi)


class Functions:
    """The real functions that a formula calls, of float64 values."""

    def __init__(self, b: Builder, *, is_single: bool) -> None:
        self.b = b
        self.is_single = is_single
        self.big = 80.0 if is_single else 700.0
        """Beyond it an exponential may overflow where its product with something small does not."""

    def _call(self, name: str, *args: Real) -> Real:
        if self.is_single:
            return Real(self.b, self.b.call(name, *(self.b.cast(each.node, FLOAT32) for each in args)))
        return Real(self.b, self.b.call(name, *(each.node for each in args)))

    def of_part(self, name: str, x: Real) -> Real:
        """Function ``name`` of a part of the operand, which is exact in the operand's own precision."""
        return self._call(name, x)

    def at(self, name: str, x: Real, slope: Callable[[Real], Real]) -> Real:
        """Function ``name`` of a computed value, with its derivative."""
        if not self.is_single:
            return self._call(name, x)
        near = Real(self.b, self.b.cast(x.node, FLOAT32))
        there, further = self._call(name, near), x - near
        return there.where(further.compared("eq", 0.0), there + slope(near) * further)  # or -0 would become 0

    def both(self, x: Node, y: Node) -> Node:
        return self.b.op("and", x, y)

    def unlike(self, x: Node) -> Node:
        return self.b.op("not", x)

    def exp_factors(self, x: Real) -> Pair:
        """Two factors of e^x, neither of which overflows before their product with something small does."""
        is_big = abs(x).compared("gt", self.big)
        half = self.of_part("exp", x * 0.5)
        return half.where(is_big, self.of_part("exp", x)), half.where(is_big, 1.0)

    def hyperbolic_factors(self, x: Real) -> tuple[Real, Real, Real]:
        """sinh and cosh of ``x``, both without the third value as a factor."""
        is_big = abs(x).compared("gt", self.big)
        half = self.of_part("exp", abs(x) * 0.5)
        sinh = (half * 0.5).with_sign_of(x).where(is_big, self.of_part("sinh", x))
        cosh = (half * 0.5).where(is_big, self.of_part("cosh", x))
        return sinh, cosh, half.where(is_big, 1.0)

    def angle(self, y: Real, x: Real) -> Real:
        """The angle of the point (x, y)."""
        if not self.is_single:
            return self._call("arctan2", y, x)
        b = self.b
        wide, tall = abs(x), abs(y)
        large = wide.maximum(tall)
        ratio = wide.minimum(tall) / large
        ratio = ratio.of(0.0).where(large.compared("eq", 0.0), ratio)
        ratio = ratio.of(1.0).where(self.both(wide.is_infinite(), tall.is_infinite()), ratio)
        small = ratio - ratio * ratio * ratio / 3.0
        angle = small.where(ratio.compared("lt", 2.0**-12), self.at("arctan", ratio, lambda v: 1.0 / (1.0 + v * v)))
        angle = (_PI / 2 - angle).where(tall.compared("gt", wide), angle)
        angle = (_PI - angle).where(lower.signbit(b, x.node), angle).with_sign_of(y)
        is_nan = b.op("or", lower.isnan(b, x.node), lower.isnan(b, y.node))
        return angle.of(np.nan).where(is_nan, angle)

    def log_of(self, value: Real, less_one: Real) -> Real:
        """The logarithm of a positive value, given that value less one too: accurate where the value is near 1."""
        is_near = self.both(less_one.compared("gt", -0.5), less_one.compared("lt", 1.0))
        near = self.at("log1p", less_one.of(0.0).where(self.unlike(is_near), less_one), lambda v: 1.0 / (1.0 + v))
        return near.where(is_near, self._log_far(value))

    def _log_far(self, value: Real) -> Real:
        if not self.is_single:
            return self._call("log", value)
        b = self.b
        bits = b.bitcast(value.node, UINT64)
        mantissa = b.op("and", bits, b.const((1 << 52) - 1, UINT64))
        scaled = Real(b, b.bitcast(b.op("or", mantissa, b.const(1023 << 52, UINT64)), FLOAT64))
        exponent = b.op("sub", b.cast(b.op("shr", bits, b.const(52, UINT64)), INT64), b.const(1023, INT64))
        result = self.at("log", scaled, lambda v: 1.0 / v) + Real(b, exponent) * _LN2
        result = result.of(-np.inf).where(value.compared("eq", 0.0), result)
        return value.where(self.unlike(value.is_finite()), result)

    def log_size(self, x: Real, y: Real, less_one: Real) -> Real:
        """The logarithm of |x + iy|, given x² + y² - 1 accurate where that is near 0."""
        if self.is_single:
            size = x * x + y * y
            result = self.log_of(size, less_one) * 0.5
        else:
            large = abs(x).maximum(abs(y))
            is_large = large.compared("gt", 2.0**1000)
            scale = large.of(0.25).where(is_large, 1.0)
            size = Real(self.b, lower.hypot(self.b, (x * scale).node, (y * scale).node))
            far = self._call("log", size) + large.of(2 * _LN2).where(is_large, 0.0)
            is_near = self.both(less_one.compared("gt", -0.5), less_one.compared("lt", 1.0))
            result = (self._call("log1p", less_one) * 0.5).where(is_near, far)
        is_infinite = self.b.op("or", x.is_infinite(), y.is_infinite())
        return result.of(np.inf).where(is_infinite, result)

    def arcsinh(self, x: Real) -> Real:
        """Of a computed value, however large."""
        if not self.is_single:
            return self._call("arcsinh", x)
        is_large = abs(x).compared("gt", 2.0**100)
        scaled = (x * 2.0**-64).where(is_large, x)
        result = self.at("arcsinh", scaled, lambda v: 1.0 / (1.0 + v * v).sqrt())
        result = (result + result.of(64 * _LN2).with_sign_of(x)).where(is_large, result)
        return x.where(self.unlike(x.is_finite()), result)

    def root(self, x: Real, y: Real) -> Pair:
        """The square root of x + iy."""
        if self.is_single:
            size = (x * x + y * y).sqrt()
            return self._root(x, y, size, x.of(1.0))
        large = abs(x).maximum(abs(y))
        is_large, is_small = large.compared("gt", 2.0**1000), large.compared("lt", 2.0**-960)
        scale = x.of(2.0**-4).where(is_large, x.of(2.0**108).where(is_small, 1.0))
        back = x.of(2.0**2).where(is_large, x.of(2.0**-54).where(is_small, 1.0))
        x, y = x * scale, y * scale
        return self._root(x, y, Real(self.b, lower.hypot(self.b, x.node, y.node)), back)

    def _root(self, x: Real, y: Real, size: Real, back: Real) -> Pair:
        longer = ((abs(x) + size) * 0.5).sqrt()
        shorter = abs(y) / (longer * 2.0)
        is_zero = longer.compared("eq", 0.0)
        shorter = shorter.of(0.0).where(is_zero, shorter)
        is_right = x.compared("ge", 0.0)
        real, imag = longer.where(is_right, shorter), shorter.where(is_right, longer)
        endless = y.is_infinite()
        real = real.of(np.inf).where(endless, real.of(np.inf).where(x.compared("eq", np.inf), real))
        imag = imag.of(np.inf).where(endless, imag)
        is_left = self.both(x.compared("eq", -np.inf), self.unlike(endless))
        real = real.of(0.0).where(self.both(is_left, y.is_finite()), y.where(is_left, real))
        imag = imag.of(np.inf).where(is_left, imag)
        flat = self.both(x.compared("eq", np.inf), y.is_finite())
        imag = imag.of(0.0).where(flat, imag)
        return real * back, (imag * back).with_sign_of(y)


# --- exponentials


def _exp(f: Functions, x: Real, y: Real) -> Pair:
    one, two = f.exp_factors(x)
    is_flat = y.compared("eq", 0.0)
    real = (one * two).where(is_flat, (one * f.of_part("cos", y)) * two)
    imag = y.where(is_flat, (one * f.of_part("sin", y)) * two)
    is_vague = f.unlike(y.is_finite())
    gone, endless = f.both(x.compared("eq", -np.inf), is_vague), f.both(x.compared("eq", np.inf), is_vague)
    real = real.of(0.0).where(gone, x.where(endless, real))
    return real, imag.of(0.0).where(gone, imag.of(np.nan).where(endless, imag))


def _expm1(f: Functions, x: Real, y: Real) -> Pair:
    one, two = f.exp_factors(x)
    cos, half = f.of_part("cos", y), f.of_part("sin", y * 0.5)
    near = f.of_part("expm1", x) * cos - half * half * 2.0
    is_flat = y.compared("eq", 0.0)
    is_big = x.compared("gt", f.big)
    real = f.of_part("expm1", x).where(is_flat, ((one * cos) * two).where(is_big, near))
    imag = y.where(is_flat, (one * f.of_part("sin", y)) * two)
    is_vague = f.unlike(y.is_finite())
    gone, endless = f.both(x.compared("eq", -np.inf), is_vague), f.both(x.compared("eq", np.inf), is_vague)
    real = real.of(-1.0).where(gone, x.where(endless, real))
    return real, imag.of(0.0).where(gone, imag.of(np.nan).where(endless, imag))


def _sinh(f: Functions, x: Real, y: Real) -> Pair:
    sinh, cosh, rest = f.hyperbolic_factors(x)
    real = x.where(x.compared("eq", 0.0), (sinh * f.of_part("cos", y)) * rest)
    is_flat = y.compared("eq", 0.0)
    real = (sinh * rest).where(is_flat, real)
    imag = y.where(is_flat, (cosh * f.of_part("sin", y)) * rest)
    return x.where(f.both(x.is_infinite(), f.unlike(y.is_finite())), real), imag


def _cosh(f: Functions, x: Real, y: Real) -> Pair:
    sinh, cosh, rest = f.hyperbolic_factors(x)
    is_flat = y.compared("eq", 0.0)
    real = (cosh * rest).where(is_flat, (cosh * f.of_part("cos", y)) * rest)
    zero = y.of(0.0).with_sign_of(x) * y.of(1.0).with_sign_of(y)
    is_zero = f.b.op("or", is_flat, x.compared("eq", 0.0))
    imag = zero.where(is_zero, (sinh * f.of_part("sin", y)) * rest)
    return abs(x).where(f.both(x.is_infinite(), f.unlike(y.is_finite())), real), imag


def _tanh(f: Functions, x: Real, y: Real) -> Pair:
    sinh, cosh, _ = f.hyperbolic_factors(x)
    sin, cos = f.of_part("sin", y), f.of_part("cos", y)
    below = sinh * sinh + cos * cos
    decay = f.of_part("exp", -abs(x))
    is_far = abs(x).compared("gt", 22.0)
    real = x.of(1.0).with_sign_of(x).where(is_far, sinh * cosh / below)
    imag = (sin * cos * 4.0 * decay * decay).where(is_far, sin * cos / below)
    real = x.where(x.compared("eq", 0.0), real)
    is_end = f.both(x.is_infinite(), f.unlike(y.is_finite()))
    imag = y.where(y.compared("eq", 0.0), imag.of(0.0).where(is_end, imag))
    return real, imag


def _rotated(formula: Formula) -> Formula:
    """``-i f(iz)``: the circular function of a hyperbolic one, and the other way round."""

    def turned(f: Functions, x: Real, y: Real) -> Pair:
        real, imag = formula(f, -y, x)
        return imag, -real

    return turned


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


def _scaled(formula: Formula, factor: float) -> Formula:
    def scaled(f: Functions, x: Real, y: Real) -> Pair:
        real, imag = formula(f, x, y)
        return real * factor, imag * factor

    return scaled


# --- inverse functions


def _arcsin(f: Functions, x: Real, y: Real) -> Pair:
    (a, c), (p, q) = f.root(1.0 - x, -y), f.root(1.0 + x, y)
    endless = f.b.op("or", x.is_infinite(), y.is_infinite())
    real = f.angle(x, abs(y).where(endless, a * p - c * q))
    imag = y.of(np.inf).with_sign_of(y).where(endless, f.arcsinh(a * q - c * p))
    return x.where(x.compared("eq", 0.0), real), imag


def _arccos(f: Functions, x: Real, y: Real) -> Pair:
    (a, c), (p, q) = f.root(1.0 - x, -y), f.root(1.0 + x, y)
    endless = f.b.op("or", x.is_infinite(), y.is_infinite())
    real = f.angle(abs(y), x).where(endless, f.angle(a, p) * 2.0)
    imag = (-y.of(np.inf).with_sign_of(y)).where(endless, f.arcsinh(p * c - q * a))
    return x.of(_PI / 2).where(x.compared("eq", 0.0), real), imag


def _arccosh(f: Functions, x: Real, y: Real) -> Pair:
    (a, c), (p, q) = f.root(x - 1.0, y), f.root(x + 1.0, y)
    endless = f.b.op("or", x.is_infinite(), y.is_infinite())
    real = x.of(np.inf).where(endless, f.arcsinh(a * p + c * q))
    return real, f.angle(y, x).where(endless, f.angle(c, p) * 2.0)


def _arctanh(f: Functions, x: Real, y: Real) -> Pair:
    size = abs(x)
    side = 1.0 - size
    ratio = size * 4.0 / (side * side + y * y)
    real = f.log_of(1.0 + ratio, ratio) * 0.25
    large = size.maximum(abs(y))
    u, v = size / large, abs(y) / large
    far = u / (u * u + v * v) / large
    far = far.of(0.0).where(large.is_infinite(), far)
    real = far.where(large.compared("gt", 2.0**100), real).with_sign_of(x)
    imag = f.angle(y, (side * (1.0 + size) - y * y) * 0.5) * 0.5
    endless = f.both(f.b.op("or", x.is_infinite(), y.is_infinite()), f.unlike(lower.isnan(f.b, y.node)))
    imag = y.of(_PI / 2).with_sign_of(y).where(endless, imag)
    is_nothing = f.b.op("or", x.compared("eq", 0.0), f.b.op("or", x.is_infinite(), y.is_infinite()))
    return x.of(0.0).with_sign_of(x).where(is_nothing, real), imag


# --- others


def _sqrt(f: Functions, x: Real, y: Real) -> Pair:
    return f.root(x, y)


def _sign(f: Functions, x: Real, y: Real) -> Pair:
    """z / |z|; an infinite part leaves of the finite one a zero; 0 of 0."""
    endless = f.b.op("or", x.is_infinite(), y.is_infinite())

    def boxed(part: Real) -> Real:
        edge = part.of(1.0).where(part.is_infinite(), 0.0).with_sign_of(part)
        return edge.where(f.both(endless, f.unlike(lower.isnan(f.b, part.node))), part)

    p, q = boxed(x), boxed(y)
    size = (p * p + q * q).sqrt() if f.is_single else Real(f.b, lower.hypot(f.b, p.node, q.node))
    is_zero = size.compared("eq", 0.0)
    return p.where(is_zero, p / size), q.where(is_zero, q / size)


FORMULAS: dict[str, Formula] = {
    "exp": _exp, "expm1": _expm1, "log": _log, "log1p": _log1p, "log2": _scaled(_log, 1 / _LN2),
    "log10": _scaled(_log, 1 / float(np.log(10.0))), "sqrt": _sqrt, "sign": _sign,
    "sin": _rotated(_sinh), "cos": _cos, "tan": _rotated(_tanh), "sinh": _sinh, "cosh": _cosh, "tanh": _tanh,
    "arcsin": _arcsin, "arccos": _arccos, "arctan": _rotated(_arctanh), "arcsinh": _rotated(_arcsin),
    "arccosh": _arccosh, "arctanh": _arctanh,
}  # fmt: skip
"""The functions of one complex number."""


BOUNDS: dict[str, tuple[float, float]] = {
    "sqrt": (1, 2), "sign": (1, 3), "exp": (2, 4), "expm1": (2.5, 6),
    **dict.fromkeys(("log", "log1p", "log2", "log10"), (1.5, 6)),
    **dict.fromkeys(("sin", "cos", "sinh", "cosh"), (2, 6)),
    "tan": (3, 10), "tanh": (3, 10),
    **dict.fromkeys(("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"), (1.5, 8)),
}  # fmt: skip
"""How far complex64 and complex128 results may be from the exact ones, in ulp of the absolute value.

Those of complex64 follow from the formulas and are tested against mpmath; those of complex128 include the bounds
of the platform's functions.
"""

IDENTICAL = frozenset({"sqrt", "sign"})
"""What calls no function of the platform: complex128 has the same bits everywhere too."""


def lowering(name: str) -> Lowering:
    """Function ``name`` of a complex operand."""

    def lower_one(b: Builder, z: Node) -> Node:
        part = part_dtype(z.dtype)
        functions = Functions(b, is_single=part == FLOAT32)
        real, imag = FORMULAS[name](functions, Real(b, b.real(z)), Real(b, b.imag(z)))
        return b.complex(b.cast(real.node, part), b.cast(imag.node, part))

    return lower_one


def power(b: Builder, z: Node, w: Node) -> Node:
    """``exp(w log z)``; 1 for an exponent of 0, and 0 of a zero whose exponent has a positive real part."""
    part = part_dtype(z.dtype)
    f = Functions(b, is_single=part == FLOAT32)
    x, y, u, v = (Real(b, each) for each in (b.real(z), b.imag(z), b.real(w), b.imag(w)))
    size, angle = _log(f, x, y)
    real, imag = u * size - v * angle, u * angle + v * size
    real = real.maximum(-2000.0).minimum(2000.0)  # beyond, the exponential is 0 or infinite twice over
    is_big = abs(real).compared("gt", f.big)
    grow = f.at("exp", (real * 0.5).where(is_big, real), lambda value: f.of_part("exp", value))
    rest = grow.where(is_big, 1.0)
    cos = f.at("cos", imag, lambda value: -f.of_part("sin", value))
    sin = f.at("sin", imag, lambda value: f.of_part("cos", value))
    is_flat = imag.compared("eq", 0.0)
    parts = ((grow * rest).where(is_flat, (grow * cos) * rest), imag.where(is_flat, (grow * sin) * rest))
    is_one = f.both(u.compared("eq", 0.0), v.compared("eq", 0.0))
    is_zero = f.both(f.both(x.compared("eq", 0.0), y.compared("eq", 0.0)), u.compared("gt", 0.0))
    real = parts[0].of(1.0).where(is_one, parts[0].of(0.0).where(is_zero, parts[0]))
    imag = parts[1].of(0.0).where(b.op("or", is_one, is_zero), parts[1])
    return b.complex(b.cast(real.node, part), b.cast(imag.node, part))


COMPLEX_FUNCTIONS.update({name: lowering(name) for name in FORMULAS})
