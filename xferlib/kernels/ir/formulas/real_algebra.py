"""Operators for writing float64 formulas: each is one rounded operation of the representation."""

from __future__ import annotations

from collections.abc import Sequence

from xferlib.kernels.ir.formulas import lower
from xferlib.kernels.ir.nodes import FLOAT64, Builder, Node


class Real:
    """A float64 value of a program under construction."""

    __slots__ = ("b", "node")

    def __init__(self, b: Builder, value: Node | float) -> None:
        self.b = b
        self.node = b.cast(value, FLOAT64) if isinstance(value, Node) else b.const(value, FLOAT64)

    def of(self, value: Real | float) -> Real:
        """Another value, or a constant, as a value of the same program."""
        return value if isinstance(value, Real) else Real(self.b, value)

    def _op(self, name: str, *others: Real | float) -> Real:
        return Real(self.b, self.b.op(name, self.node, *(self.of(each).node for each in others)))

    def __add__(self, other: Real | float) -> Real:
        return self._op("add", other)

    def __sub__(self, other: Real | float) -> Real:
        return self._op("sub", other)

    def __mul__(self, other: Real | float) -> Real:
        return self._op("mul", other)

    def __truediv__(self, other: Real | float) -> Real:
        return self._op("div", other)

    def __radd__(self, other: float) -> Real:
        return self.of(other) + self

    def __rsub__(self, other: float) -> Real:
        return self.of(other) - self

    def __rmul__(self, other: float) -> Real:
        return self.of(other) * self

    def __rtruediv__(self, other: float) -> Real:
        return self.of(other) / self

    def __neg__(self) -> Real:
        return self._op("neg")

    def __abs__(self) -> Real:
        return self._op("abs")

    def sqrt(self) -> Real:
        return self._op("sqrt")

    def maximum(self, other: Real | float) -> Real:
        return self._op("max", other)

    def minimum(self, other: Real | float) -> Real:
        return self._op("min", other)

    def with_sign_of(self, other: Real) -> Real:
        return Real(self.b, lower.copysign(self.b, self.node, other.node))

    def compared(self, op: str, other: Real | float) -> Node:
        """``self op other``, as bool; ``op`` as in the representation."""
        return self.b.op(op, self.node, self.of(other).node)

    def where(self, condition: Node, other: Real | float) -> Real:
        """This value where ``condition`` is true, else the other."""
        return Real(self.b, self.b.select(condition, self.node, self.of(other).node))

    def is_infinite(self) -> Node:
        return lower.isinf(self.b, self.node)

    def is_finite(self) -> Node:
        return lower.isfinite(self.b, self.node)


def polynomial(x: Real, coefficients: Sequence[float]) -> Real:
    """The sum of ``coefficients[k] * x ** k``, by Horner's rule."""
    total = x.of(coefficients[-1])
    for each in coefficients[-2::-1]:
        total = total * x + each
    return total


def two_sum(x: Real, y: Real) -> tuple[Real, Real]:
    """The rounded ``x + y`` and its exact rounding error (Knuth, TAOCP 2, section 4.2.2)."""
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def two_product(x: Real, y: Real) -> tuple[Real, Real]:
    """The rounded ``x * y`` and its rounding error, exact unless a step over- or underflows (Dekker 1971)."""
    product = x * y
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    rest = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, rest


def _halves(x: Real) -> tuple[Real, Real]:
    scaled = x * 134217729.0  # 2^27 + 1
    high = scaled - (scaled - x)
    return high, x - high
