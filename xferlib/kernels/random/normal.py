"""Normal numbers with the same bits on every backend: Box and Muller's method in exact and rounded operations alone.

Box and Muller, "A note on the generation of random normal deviates", Ann. Math. Stat. 29 (1958): a point whose squared
distance from the origin is ``-2 log(u)``, in a direction of its own, has two independent normal coordinates. A ziggurat
is faster on one core, but repeats its loop as often as the numbers say. The platforms' own float64 ``log``, ``sin`` and
``cos`` differ in their last bits, so the series of Taylor are written out; no coefficient is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from xferlib.kernels.ir.nodes import FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, Builder, DType, Node
from xferlib.kernels.random.distributions import Distribution, Words, wide


class _Format(NamedTuple):
    """A float dtype, the integers of its width, and how many terms its series need."""

    dtype: DType
    unsigned: DType
    signed: DType
    mantissa: int
    """The bits of the mantissa that are stored."""
    log_terms: int
    circle_terms: int

    @property
    def bits(self) -> int:
        return 8 * self.dtype.itemsize

    @property
    def root_half(self) -> int:
        """The bits of the square root of 1/2."""
        return int.from_bytes(self.dtype.type(math.sqrt(0.5)).tobytes(), "little")


# The first term left out is below a quarter of an ulp.
_SINGLE = _Format(FLOAT32, UINT32, INT32, 23, log_terms=6, circle_terms=6)
_DOUBLE = _Format(FLOAT64, UINT64, INT64, 52, log_terms=11, circle_terms=9)


def normal(dtype: DType) -> Distribution:
    """``loc + scale * z``, both operations rounded, for pairs of independent normal ``z``."""
    form = _SINGLE if dtype == FLOAT32 else _DOUBLE

    def values(b: Builder, words: Words, parameters: Sequence[Node]) -> Sequence[Node]:
        loc, scale = parameters
        sources = words if form is _SINGLE else wide(b, words)
        pairs = [_pair(b, form, *sources[at : at + 2]) for at in range(0, len(sources), 2)]
        return [b.op("add", loc, b.op("mul", scale, each)) for pair in pairs for each in pair]

    return Distribution("normal", dtype, 128 // form.bits, (("loc", dtype), ("scale", dtype)), values)


def _pair(b: Builder, form: _Format, x: Node, y: Node) -> tuple[Node, Node]:
    """Two normal numbers from two random words, or pairs of words.

    The radius is of ``x``. The upper bits of ``y`` are an angle within 1/8 turn of 0; its bit 0 mirrors the point on
    the diagonal and bit 1 on the origin, which takes it to every part of the circle alike.
    """
    radius = b.op("sqrt", _minus_two_log(b, form, x))
    sign = b.op("shl", b.op("shr", y, b.const(1, form.unsigned)), b.const(form.bits - 1, form.unsigned))
    radius = b.bitcast(b.op("xor", b.bitcast(radius, form.unsigned), sign), form.dtype)
    cosine, sine = _near_zero(b, form, y)
    is_mirrored = b.truth(b.op("and", y, b.const(1, form.unsigned)))
    first, second = b.select(is_mirrored, sine, cosine), b.select(is_mirrored, cosine, sine)
    return b.op("mul", radius, first), b.op("mul", radius, second)


def _minus_two_log(b: Builder, form: _Format, x: Node) -> Node:
    """``-2 log(u)`` of the odd number ``u``, in units of 2^-bits, that has the upper bits of ``x``.

    ``u`` is ``m * 2**k`` with ``m`` between the roots of 1/2 and 2; ``log(m) = 2 artanh((m - 1) / (m + 1))``.
    """
    unsigned, dtype = form.unsigned, form.dtype
    one = int.from_bytes(dtype.type(1).tobytes(), "little")
    number = b.cast(b.op("or", x, b.const(1, unsigned)), dtype)
    bits = b.op("add", b.bitcast(number, unsigned), b.const(one - form.root_half, unsigned))
    exponent = b.bitcast(b.op("shr", bits, b.const(form.mantissa, unsigned)), form.signed)
    k = b.op("sub", exponent, b.const((one >> form.mantissa) + form.bits, form.signed))
    rest = b.op("and", bits, b.const((1 << form.mantissa) - 1, unsigned))
    m = b.bitcast(b.op("add", rest, b.const(form.root_half, unsigned)), dtype)
    s = b.op("div", b.op("sub", m, b.const(1, dtype)), b.op("add", m, b.const(1, dtype)))
    series = _polynomial(b, b.op("mul", s, s), [Fraction(1, 2 * n + 1) for n in range(form.log_terms)])
    whole = b.op("mul", b.cast(k, dtype), b.const(-2 * math.log(2), dtype))
    return b.op("add", whole, b.op("mul", b.op("mul", s, b.const(-4, dtype)), series))


def _near_zero(b: Builder, form: _Format, y: Node) -> tuple[Node, Node]:
    """Cosine and sine of an angle within 1/8 turn of 0: ``y`` as a signed number, cut to what a mantissa holds."""
    shift = form.bits - form.mantissa - 2
    upper = b.op("shr", b.bitcast(y, form.signed), b.const(shift, form.signed))
    odd = b.cast(b.op("or", upper, b.const(1, form.signed)), form.dtype)
    angle = b.op("mul", odd, b.const(math.pi / 4 * 2.0 ** -(form.mantissa + 1), form.dtype))
    square = b.op("mul", angle, angle)
    terms = [Fraction((-1) ** n, math.factorial(2 * n)) for n in range(form.circle_terms)]
    sines = [each / (2 * n + 1) for n, each in enumerate(terms)]
    return _polynomial(b, square, terms), b.op("mul", angle, _polynomial(b, square, sines))


def _polynomial(b: Builder, x: Node, coefficients: Sequence[Fraction]) -> Node:
    """The sum of ``coefficients[n] * x**n``, by Horner's rule."""
    total = b.const(float(coefficients[-1]), x.dtype)
    for each in reversed(coefficients[:-1]):
        total = b.op("add", b.op("mul", total, x), b.const(float(each), x.dtype))
    return total
