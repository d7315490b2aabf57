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

from xferlib.kernels.ir.formulas import lower
from xferlib.kernels.ir.formulas.complex_division import scaled
from xferlib.kernels.ir.formulas.complex_parts import LN2, PI, Functions, Pair
from xferlib.kernels.ir.formulas.lower import COMPLEX_FUNCTIONS, Lowering
from xferlib.kernels.ir.formulas.real_algebra import Real, two_product, two_sum
from xferlib.kernels.ir.nodes import FLOAT32, Builder, Node, part_dtype

Formula = Callable[[Functions, Real, Real], Pair]


# --- exponentials


def _exp(f: Functions, x: Real, y: Real) -> Pair:
    one, two = f.exp_factors(x)
    is_flat = y.compared("eq", 0.0)
    real = (one * two).where(is_flat, (one * f.of_part("cos", y)) * two)
    imag = y.where(is_flat, (one * f.of_part("sin", y)) * two)
    is_vague = f.unlike(y.is_finite())
    gone, endless = f.both(x.compared("eq", -np.inf), is_vague), f.both(x.compared("eq", np.inf), is_vague)
    real = real.of(0.0).where(gone, x.where(endless, real))
    return real, imag.of(0.0).with_sign_of(y).where(gone, imag.of(np.nan).where(endless, imag))


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
    return real, imag.of(0.0).with_sign_of(y).where(gone, imag.of(np.nan).where(endless, imag))


def _sinh(f: Functions, x: Real, y: Real) -> Pair:
    sinh, cosh, rest = f.hyperbolic_factors(x)
    is_flat = y.compared("eq", 0.0)
    real = (sinh * rest).where(is_flat, (sinh * f.of_part("cos", y)) * rest)
    imag = y.where(is_flat, (cosh * f.of_part("sin", y)) * rest)
    is_special = f.b.op("or", x.compared("eq", 0.0), x.is_infinite())
    return x.where(f.both(is_special, f.unlike(y.is_finite())), real), imag


def _cosh(f: Functions, x: Real, y: Real) -> Pair:
    sinh, cosh, rest = f.hyperbolic_factors(x)
    is_flat = y.compared("eq", 0.0)
    real = (cosh * rest).where(is_flat, (cosh * f.of_part("cos", y)) * rest)
    zero = y.of(0.0).with_sign_of(x) * y.of(1.0).with_sign_of(y)
    is_vague = f.unlike(y.is_finite())
    is_zero = f.b.op("or", is_flat, f.both(x.compared("eq", 0.0), is_vague))
    imag = zero.where(is_zero, (sinh * f.of_part("sin", y)) * rest)
    return abs(x).where(f.both(x.is_infinite(), is_vague), real), imag


def _tanh(f: Functions, x: Real, y: Real) -> Pair:
    sinh, cosh, _ = f.hyperbolic_factors(x)
    sin, cos = f.of_part("sin", y), f.of_part("cos", y)
    below = sinh * sinh + cos * cos
    decay = f.of_part("exp", -abs(x))
    is_far = abs(x).compared("gt", 22.0)
    real = x.of(1.0).with_sign_of(x).where(is_far, sinh * cosh / below)
    imag = (sin * cos * 4.0 * decay * decay).where(is_far, sin * cos / below)
    is_vague = f.unlike(y.is_finite())
    real = real.of(np.nan).where(f.both(is_vague, x.is_finite()), real)
    real = x.where(x.compared("eq", 0.0), real)
    is_end = f.both(x.is_infinite(), is_vague)
    imag = y.where(y.compared("eq", 0.0), imag.of(0.0).with_sign_of(y).where(is_end, imag))
    return real, imag


def _rotated(formula: Formula) -> Formula:
    """``-i f(iz)``: the circular function from the hyperbolic one, and the reverse."""

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
    imag = y.of(np.inf).with_sign_of(y).where(endless, f.arcsinh_of_cross(a, q, c, p))
    return x.where(x.compared("eq", 0.0), real), imag


def _arccos(f: Functions, x: Real, y: Real) -> Pair:
    (a, c), (p, q) = f.root(1.0 - x, -y), f.root(1.0 + x, y)
    endless = f.b.op("or", x.is_infinite(), y.is_infinite())
    real = f.angle(abs(y), x).where(endless, f.angle(a, p) * 2.0)
    imag = (-y.of(np.inf).with_sign_of(y)).where(endless, f.arcsinh_of_cross(p, c, q, a))
    return x.of(PI / 2).where(x.compared("eq", 0.0), real), imag


def _arccosh(f: Functions, x: Real, y: Real) -> Pair:
    (a, c), (p, q) = f.root(x - 1.0, y), f.root(x + 1.0, y)
    endless = f.b.op("or", x.is_infinite(), y.is_infinite())
    real = x.of(np.inf).where(endless, f.arcsinh_of_cross(a, p, -c, q))
    is_upright = f.both(x.compared("eq", 0.0), lower.isnan(f.b, y.node))
    imag = f.angle(y, x).where(endless, f.angle(c, p) * 2.0)
    return real, x.of(PI / 2).where(is_upright, imag)


def _arctanh(f: Functions, x: Real, y: Real) -> Pair:
    size = abs(x)
    side = 1.0 - size
    ratio = size * 4.0 / (side * side + y * y)
    real = f.log_of(1.0 + ratio, ratio) * 0.25
    if not f.is_single:  # next to a pole the squares underflow
        is_pole = f.both(side.compared("eq", 0.0), abs(y).compared("lt", 2.0**-500))
        real = ((LN2 - f.log(abs(y))) * 0.5).where(is_pole, real)
    large = size.maximum(abs(y))
    u, v = size / large, abs(y) / large
    far = u / (u * u + v * v) / large
    far = far.of(0.0).where(large.is_infinite(), far)
    real = far.where(large.compared("gt", 2.0**100), real).with_sign_of(x)
    imag = f.angle(y, (side * (1.0 + size) - y * y) * 0.5) * 0.5
    endless = f.both(f.b.op("or", x.is_infinite(), y.is_infinite()), f.unlike(lower.isnan(f.b, y.node)))
    imag = y.of(PI / 2).with_sign_of(y).where(endless, imag)
    is_nothing = f.b.op("or", x.compared("eq", 0.0), f.b.op("or", x.is_infinite(), y.is_infinite()))
    return x.of(0.0).with_sign_of(x).where(is_nothing, real), imag


# --- others


def _sqrt(f: Functions, x: Real, y: Real) -> Pair:
    return f.root(x, y)


def _sign(f: Functions, x: Real, y: Real) -> Pair:
    """z / |z|; 0 for 0. Beside an infinite part, a finite one becomes zero."""
    endless = f.b.op("or", x.is_infinite(), y.is_infinite())

    def boxed(part: Real) -> Real:
        edge = part.of(1.0).where(part.is_infinite(), 0.0).with_sign_of(part)
        return edge.where(f.both(endless, f.unlike(lower.isnan(f.b, part.node))), part)

    p, q = boxed(x), boxed(y)
    if not f.is_single:
        (p, q), _ = scaled((p, q))
    size = (p * p + q * q).sqrt() if f.is_single else Real(f.b, lower.hypot(f.b, p.node, q.node))
    is_zero = size.compared("eq", 0.0)
    return p.where(is_zero, p / size), q.where(is_zero, q / size)


FORMULAS: dict[str, Formula] = {
    "exp": _exp, "expm1": _expm1, "log": _log, "log1p": _log1p, "log2": _scaled(_log, 1 / LN2),
    "log10": _scaled(_log, 1 / float(np.log(10.0))), "sqrt": _sqrt, "sign": _sign,
    "sin": _rotated(_sinh), "cos": _cos, "tan": _rotated(_tanh), "sinh": _sinh, "cosh": _cosh, "tanh": _tanh,
    "arcsin": _arcsin, "arccos": _arccos, "arctan": _rotated(_arctanh), "arcsinh": _rotated(_arcsin),
    "arccosh": _arccosh, "arctanh": _arctanh,
}  # fmt: skip
"""The functions of one complex number."""

IDENTICAL = frozenset({"sqrt", "sign", "divide", "reciprocal"})
"""The functions whose formulas call none of the platform's: complex128 has the same bits everywhere too."""


def lowering(name: str) -> Lowering:
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
    is_real = v.compared("eq", 0.0)  # or a zero times an infinite logarithm would spoil the other part
    real = (u * size).where(is_real, u * size - v * angle)
    imag = (u * angle).where(is_real, u * angle + v * size)
    real = real.maximum(-most).minimum(most)
    if f.is_single:  # a large angle lies too far from the next float32 for a tangent
        imag = Real(b, b.op("fmod", imag.node, imag.of(2 * PI).node))
    is_big = abs(real).compared("gt", f.big)
    grow = f.at("exp", (real * 0.5).where(is_big, real), lambda value: f.of_part("exp", value))
    rest = grow.where(is_big, 1.0)
    cos = f.at("cos", imag, lambda value: -f.of_part("sin", value))
    sin = f.at("sin", imag, lambda value: f.of_part("cos", value))
    is_flat = imag.compared("eq", 0.0)
    parts = ((grow * rest).where(is_flat, (grow * cos) * rest), imag.where(is_flat, (grow * sin) * rest))
    is_one = f.both(u.compared("eq", 0.0), v.compared("eq", 0.0))
    is_zero = f.both(f.both(x.compared("eq", 0.0), y.compared("eq", 0.0)), u.compared("gt", 0.0))
    is_vague = f.unlike(imag.is_finite())
    is_zero = b.op("or", is_zero, f.both(real.compared("le", -most), is_vague))  # whatever its direction
    endless = real.of(np.inf).where(f.both(real.compared("ge", most), is_vague), parts[0])  # as of `_exp`
    real = real.of(1.0).where(is_one, real.of(0.0).where(is_zero, endless))
    imag = parts[1].of(0.0).where(b.op("or", is_one, is_zero), parts[1])
    return b.complex(b.cast(real.node, part), b.cast(imag.node, part))


COMPLEX_FUNCTIONS.update({name: lowering(name) for name in FORMULAS})
