"""The real functions that formulas of complex functions call, on a number's parts and on computed values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xferlib.kernels.ir.formulas import lower
from xferlib.kernels.ir.formulas.real_algebra import Real
from xferlib.kernels.ir.nodes import FLOAT32, FLOAT64, INT64, UINT64, Builder, Node

Pair = tuple[Real, Real]

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
        return there.where(further.compared("eq", 0.0), there + slope(near) * further)  # or -0 would become 0

    def both(self, x: Node, y: Node) -> Node:
        return self.b.op("and", x, y)

    def unlike(self, x: Node) -> Node:
        return self.b.op("not", x)

    def exp_factors(self, x: Real) -> Pair:
        """Two factors of e^x: neither overflows unless their product with any small factor does."""
        is_big = abs(x).compared("gt", self.big)
        one, two = self._big_factors(x)
        return one.where(is_big, self.of_part("exp", x)), two.where(is_big, 1.0)

    def _big_factors(self, x: Real) -> Pair:
        """The two factors where ``x`` is big: one is a power of two or, where that is not enough, both are halves."""
        if not self.is_single:
            half = self.of_part("exp", x * 0.5)
            return half, half
        is_negative = x.compared("lt", 0.0)
        moved = x + x.of(160 * LN2).where(is_negative, -160 * LN2)
        power = x.of(2.0**-160).where(is_negative, 2.0**160)
        moved = moved.minimum(88.0).maximum(-200.0)  # beyond, every product is infinite or 0 in complex64
        return self.at("exp", moved, lambda value: self.of_part("exp", value)), power

    def hyperbolic_factors(self, x: Real) -> tuple[Real, Real, Real]:
        """sinh and cosh of ``x``, both divided by the third value."""
        is_big = abs(x).compared("gt", self.big)
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
        ratio = ratio.of(0.0).where(large.compared("eq", 0.0), ratio)
        ratio = ratio.of(1.0).where(self.both(wide.is_infinite(), tall.is_infinite()), ratio)
        small = ratio - ratio * ratio * ratio / 3.0
        angle = small.where(ratio.compared("lt", 2.0**-12), self.at("arctan", ratio, lambda v: 1.0 / (1.0 + v * v)))
        angle = (PI / 2 - angle).where(tall.compared("gt", wide), angle)
        angle = (PI - angle).where(lower.signbit(b, x.node), angle).with_sign_of(y)
        is_nan = b.op("or", lower.isnan(b, x.node), lower.isnan(b, y.node))
        return angle.of(np.nan).where(is_nan, angle)

    def log_of(self, value: Real, less_one: Real) -> Real:
        """The logarithm of a positive value; ``less_one``, the value minus 1, makes it accurate near 1."""
        is_near = self.both(less_one.compared("gt", -0.5), less_one.compared("lt", 1.0))
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
        result = result.of(-np.inf).where(value.compared("eq", 0.0), result)
        return value.where(self.unlike(value.is_finite()), result)

    def log_size(self, x: Real, y: Real, less_one: Real) -> Real:
        """The logarithm of |x + iy|, given x² + y² - 1 as ``less_one``, which is accurate where it is not near -1."""
        if self.is_single:
            size = x * x + y * y
            result = self.log_of(size, less_one) * 0.5
        else:
            large = abs(x).maximum(abs(y))
            is_large, is_small = large.compared("gt", 2.0**1000), large.compared("lt", 2.0**-900)
            scale = large.of(0.25).where(is_large, large.of(2.0**128).where(is_small, 1.0))
            rest = large.of(2 * LN2).where(is_large, large.of(-128 * LN2).where(is_small, 0.0))
            size = Real(self.b, lower.hypot(self.b, (x * scale).node, (y * scale).node))
            far = self._call("log", size) + rest
            is_near = self.both(less_one.compared("gt", -0.75), less_one.compared("lt", 2.0**900))
            result = (self._call("log1p", less_one) * 0.5).where(is_near, far)
        is_infinite = self.b.op("or", x.is_infinite(), y.is_infinite())
        return result.of(np.inf).where(is_infinite, result)

    def arcsinh(self, x: Real) -> Real:
        """arcsinh of a computed value of any size."""
        if not self.is_single:
            return self._call("arcsinh", x)
        is_large = abs(x).compared("gt", 2.0**100)
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
        return far.where(abs(quarter).compared("gt", 2.0**1000), cross)

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
