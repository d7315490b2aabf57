"""The float64 functions that are the same on every engine: their definitions, by the names of their calls.

Only rounded operations take part, and none is fused: not every processor multiplies and adds in one instruction, and
NumPy never does. Constants are made by ``tools/float64_constants.py``.

- Exponentials, logarithms and powers reduce their arguments by tables: of 2^(j/128) for exponentials (Tang,
  "Table-driven implementation of the exponential function in IEEE floating-point arithmetic", ACM TOMS 15, 1989), of
  inverses of few bits for logarithms (Tang, ACM TOMS 16, 1990), whose products are exact, and of places where a
  function is nearly a float (Gal, "Computing elementary functions", 1986).
- Sine and cosine add the angle's rest to one of 64 angles of a full turn, whose sines a table has; the product that
  decides the last bit is exact, because the table's sines have 26 bits and a second number for what is left. The
  reduction is that of Cody and Waite, "Software Manual for the Elementary Functions", 1980; of large angles that of
  Payne and Hanek, "Radian reduction for trigonometric functions", ACM SIGNUM Newsletter 18, 1983.
- The functions of errors, of half turns, and gamma have sums of two numbers as intermediate results. Where a product
  decides the last bit it is exact, because a table has numbers of 26 bits and a second one for what is left.
"""

from __future__ import annotations

import functools
import itertools
import math
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xferlib.kernels.formulas import OWN, Real, inverse_of_error, polynomial, two_product, two_sum
from xferlib.kernels.ir import BOOL, FLOAT64, UINT64, Builder, Column, Node, Param, Program, Store, Table

# --- the form of a definition, bits, and sums of two floats

_MASK = (1 << 64) - 1
_INFINITY, _NAN = float("inf"), float("nan")


Pair = tuple[Real, Real]
"""A sum of two numbers, the second of which is about a rounding error of the first."""


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """A function of float64: what every engine computes, to the bit."""

    common: Callable[..., tuple[Real, Node]]
    """From the operands the value, and a bool: whether the value holds."""
    rare: Callable[..., Real]
    """The value where the other does not hold. It may take its time."""


def read_constants(name: str) -> dict[str, tuple[float, ...] | tuple[int, ...]]:
    """The constants of a text file beside this module: lines ``name: value value ...``."""
    found: dict[str, tuple[float, ...] | tuple[int, ...]] = {}
    for line in Path(__file__).with_name(f"{name}.txt").read_text(encoding="ascii").splitlines():
        key, _, values = line.partition(": ")
        words = values.split()
        is_float = any(mark in word for word in words for mark in ".e")
        found[key] = tuple(map(float, words)) if is_float else tuple(map(int, words))
    return found


class Word:
    """An unsigned integer of 64 bits of a program under construction."""

    __slots__ = ("b", "node")

    def __init__(self, b: Builder, node: Node) -> None:
        assert node.dtype == UINT64
        self.b = b
        self.node = node

    def _op(self, name: str, other: Word | int) -> Word:
        operand = other.node if isinstance(other, Word) else self.b.const(other & _MASK, UINT64)
        return Word(self.b, self.b.op(name, self.node, operand))

    def __add__(self, other: Word | int) -> Word:
        return self._op("add", other)

    def __sub__(self, other: Word | int) -> Word:
        return self._op("sub", other)

    def __and__(self, other: Word | int) -> Word:
        return self._op("and", other)

    def __or__(self, other: Word | int) -> Word:
        return self._op("or", other)

    def __xor__(self, other: Word | int) -> Word:
        return self._op("xor", other)

    def __lshift__(self, count: int) -> Word:
        return self._op("shl", count)

    def __rshift__(self, count: int) -> Word:
        return self._op("shr", count)

    def minimum(self, other: int) -> Word:
        return self._op("min", other)

    def maximum(self, other: int) -> Word:
        return self._op("max", other)

    def where(self, condition: Node, other: Word) -> Word:
        """This value where ``condition`` is true, else the other."""
        return Word(self.b, self.b.select(condition, self.node, other.node))

    def is_below(self, other: int) -> Node:
        """Whether it is less, as an unsigned integer."""
        return self.b.op("lt", self.node, self.b.const(other, UINT64))

    def real(self) -> Real:
        """The float of these bits."""
        return Real(self.b, self.b.bitcast(self.node, FLOAT64))

    def at(self, table: Table, column: int) -> Real:
        """The float in this row of a table."""
        return Real(self.b, self.b.lookup(Column(table, column), self.node))

    def bits_at(self, table: Table, column: int) -> Word:
        """The integer in this row of a table."""
        return Word(self.b, self.b.lookup(Column(table, column), self.node))


def bits(x: Real) -> Word:
    return Word(x.b, x.b.bitcast(x.node, UINT64))


def at_least(x: Real, least: float) -> Real:
    """The greater one; the number of NaN."""
    return x.where(x.compare("gt", least), least)


def at_most(x: Real, most: float) -> Real:
    """The smaller one; the number of NaN."""
    return x.where(x.compare("lt", most), most)


WHOLE = 1.5 * 2.0**52
"""Added, it rounds to a whole number, which the low bits then hold."""
SIGN = 1 << 63


def sum_of(large: Real, small: Real) -> tuple[Real, Real]:
    """The rounded sum and its rounding error; the first is 0, or not the smaller one (Dekker 1971)."""
    total = large + small
    return total, small - (total - large)


def head(x: Real, count: int = 27) -> Real:
    """``x`` without its ``count`` lowest bits."""
    return (bits(x) & -(1 << count)).real()


def split(x: Real) -> tuple[Real, Real]:
    """``x`` in two parts of 26 and 27 bits."""
    high = head(x)
    return high, x - high


def with_sign(size: Real, x: Real) -> Real:
    """``size``, which has the sign of ``x`` or none, with the sign of ``x``."""
    return (bits(size) | (bits(x) & SIGN)).real()


def scale(high: Real, low: Real, count: Word) -> Real:
    """``(high + low) * 2 ** count`` with one rounding, subnormal or infinite too.

    Args:
        high: A number from 1/2 to 4.
        low: What its rounding has left.
        count: From -2000 to 2000, in two's complement.
    """
    above = count + 2048
    first = above >> 1
    plain = (high + low) * ((first - 1) << 52).real() * ((above - first - 1) << 52).real()
    # The last bit of a number from 1 to 2 counts what that of a subnormal number does, 2^1022 times.
    factor = ((count + 1022 + 1023) << 52).real()
    large, small = high * factor, low * factor
    total, rest = sum_of(high.of(1.0), large)
    tiny = ((total + (rest + small)) - 1.0) * 2.0**-1022
    b = high.b
    is_tiny = b.op("and", above.is_below(2048 - 1000), large.compare("lt", 1.0))
    return tiny.where(is_tiny, plain)


def scale_any(high: Real, low: Real, count: Word) -> Real:
    """That of any other number ``high``."""
    sign = bits(high) & SIGN
    exponent = (bits(high) ^ sign) >> 52
    factor = ((exponent ^ -1) + 2047 << 52).real()
    high, low = (((bits(each) ^ sign).real()) * factor for each in (high, low))
    return (bits(scale(high, low, count + exponent - 1023)) | sign).real()


def product_of_pairs(x: Pair, y: Pair) -> Pair:
    """The product, right to some 2^-103 of it."""
    high, error = two_product(x[0], y[0])
    return sum_of(high, error + (x[0] * y[1] + x[1] * y[0]))


def sum_of_pairs(x: Pair, y: Pair) -> Pair:
    high, low = two_sum(x[0], y[0])
    return sum_of(high, low + (x[1] + y[1]))


def quotient_of_pairs(x: Pair, y: Pair) -> Pair:
    """The quotient, right to some 2^-103 of it."""
    inverse = 1.0 / y[0]
    found = x[0] * inverse
    product, error = two_product(found, y[0])
    return sum_of(found, ((x[0] - product) - error + (x[1] - found * y[1])) * inverse)


def taylor(table: Table, row: Word, rest: Real, lost: Real) -> Pair:
    """A series around a place that a table knows, at ``rest + lost``.

    The product that decides the last bit is exact, for the first number of the slope has 26 bits.

    Args:
        table: Its columns are the value and the slope, each in two numbers, and the coefficients of further powers.
        row: That of the place.
        rest: The distance from the place.
        lost: What its rounding has lost.
    """
    value, value_rest, slope, slope_rest, *further = (row.at(table, k) for k in range(len(table.columns)))
    near = head(rest, 26)
    bent = further[-1]
    for each in further[-2::-1]:
        bent = bent * rest + each
    high, low = sum_of(value, slope * near)
    square = rest * (rest + lost * 2.0)
    more = (slope + slope_rest) * ((rest - near) + lost) + (slope_rest * near + square * bent)
    return sum_of(high, low + (value_rest + more))


_EXPONENTIAL = read_constants("float64_exponentials")
_SMALLEST = 2.0**-1022


def _both(b: Real, *conditions: Node) -> Node:
    found, *rest = conditions
    for each in rest:
        found = b.b.op("and", found, each)
    return found


def _either(b: Real, x: Node, y: Node) -> Node:
    return b.b.op("or", x, y)


def _is_normal(size: Word) -> Node:
    """Whether a float is positive and neither subnormal nor infinite."""
    return (size - (1 << 52)).is_below(0x7FE << 52)


# --- exponentials

POWERS = Table("powers", (_EXPONENTIAL["powers"], _EXPONENTIAL["powers_rest"]))
"""The bits of 2^(j/128), less ``j << 45``; and what their rounding has left, divided by them."""

_EXP_STEPS, _EXP_STEP, _EXP_STEP_REST = _EXPONENTIAL["step"]
_LARGE_EXPONENT = 700.0
"""Beyond, a result or a product on the way may overflow or be subnormal."""


def _reduce_exponent(x: Real) -> tuple[Real, Real, Real, Word]:
    """``x - n * ln(2) / 128`` rounded, its two terms, and the number n in the low bits."""
    shifted = x * _EXP_STEPS + WHOLE
    count = shifted - WHOLE
    near, low = x - count * _EXP_STEP, count * _EXP_STEP_REST
    return near - low, near, low, bits(shifted)


def _power_of(count: Word) -> tuple[Real, Real]:
    """``2 ** (count / 128)``, and what its rounding has left, divided by it."""
    row = count & 127
    return (row.bits_at(POWERS, 0) + (count << 45)).real(), row.at(POWERS, 1)


def _exp_less_one(rest: Real) -> Real:
    """``exp(rest) - 1``."""
    return rest + rest * rest * polynomial(rest, _EXPONENTIAL["exp"])


def _exp(x: Real) -> tuple[Real, Node]:
    rest, _, _, count = _reduce_exponent(x)
    power, missing = _power_of(count)
    return power + power * (missing + _exp_less_one(rest)), abs(x).compare("lt", _LARGE_EXPONENT)


def clamp(x: Real, most: float) -> Real:
    x = x.of(-most).where(x.compare("lt", -most), x)
    return x.of(most).where(x.compare("gt", most), x)


def _power_parts(count: Word, grown: Real) -> tuple[Real, Real, Word]:
    """``2 ** (count / 128) * (1 + grown)`` as a sum of two numbers, from 1 to 2, and an exponent of 2.

    The count is one of `WHOLE`.
    """
    power, missing = _power_of(count & 127)
    high, low = sum_of(power, power * (missing + grown))
    whole = count - bits(power.of(WHOLE)) + (1 << 20)
    return high, low, (whole >> 7) - (1 << 13)


def _scale_power(count: Word, grown: Real, factor: int = 0) -> Real:
    """The same times ``2 ** factor``, subnormal or infinite too."""
    high, low, exponent = _power_parts(count, grown)
    return scale(high, low, exponent + factor)


def _large_exp(x: Real, factor: int) -> Real:
    """``exp(x) * 2 ** factor``."""
    rest, _, _, count = _reduce_exponent(clamp(x, 800.0))
    return x.where(x.compare("ne", x), _scale_power(count, _exp_less_one(rest), factor))


def _exp2_parts(x: Real) -> tuple[Real, Word]:
    shifted = x + WHOLE / 128
    rest = x - (shifted - WHOLE / 128)
    return rest * polynomial(rest, _EXPONENTIAL["exp2"]), bits(shifted)


def _exp2(x: Real) -> tuple[Real, Node]:
    grown, count = _exp2_parts(x)
    power, missing = _power_of(count)
    return power + power * (missing + grown), abs(x).compare("lt", 1000.0)


def _rare_exp2(x: Real) -> Real:
    grown, count = _exp2_parts(clamp(x, 1200.0))
    count = count - bits(x.of(WHOLE / 128)) + bits(x.of(WHOLE))
    return x.where(x.compare("ne", x), _scale_power(count, grown))


def _expm1_parts(x: Real) -> tuple[Real, Real]:
    """``exp(x) - 1`` in two parts: 2^n - 1 and the exact first product are added without loss."""
    rest, near, low, count = _reduce_exponent(x)
    first = head(rest)
    second = (rest - first) + ((near - rest) - low)
    second = second + rest * rest * polynomial(rest, _EXPONENTIAL["expm1"])
    power, missing = _power_of(count)
    high, low = split(power)
    low = low + power * missing
    less, lost = two_sum(high, x.of(-1.0))
    total, error = sum_of(less, high * first)
    return total, ((high * second + low * (first + second)) + low) + (error + lost)


def _expm1(x: Real) -> tuple[Real, Node]:
    high, low = _expm1_parts(x)
    return with_sign(high + low, x), abs(x).compare("lt", _LARGE_EXPONENT)


def _rare_expm1(x: Real) -> Real:
    return x.of(-1.0).where(x.compare("lt", 0.0), _large_exp(x, 0))


# --- hyperbolic functions: of exp(n ln(2) / 128) and its inverse, and of the rest


@dataclass(frozen=True, slots=True)
class _Hyperbolic:
    rest: Real
    lost: Real
    """The rounding error of the rest."""
    power: Real
    power_rest: Real
    inverse: Real
    inverse_rest: Real
    even: Real
    """``cosh(rest) - 1``."""
    odd: Real
    """``sinh(rest) - rest``."""


def _hyperbolic(size: Real) -> _Hyperbolic:
    rest, near, low, count = _reduce_exponent(size)
    (power, missing), (inverse, inverse_missing) = _power_of(count), _power_of(bits(size.of(WHOLE)) - count)
    square = rest * rest
    return _Hyperbolic(
        rest, (near - rest) - low, power, power * missing, inverse, inverse * inverse_missing,
        square * polynomial(square, _EXPONENTIAL["cosh"]), rest * square * polynomial(square, _EXPONENTIAL["sinh"]),
    )  # fmt: skip


def _sinh(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    h = _hyperbolic(size)
    (a, a_rest), (c, c_rest) = split(h.power), split(h.inverse)
    a_rest, c_rest = a_rest + h.power_rest, c_rest + h.inverse_rest
    less, less_rest = sum_of(a, -c)
    more, more_rest = sum_of(a, c)
    less_rest, more_rest = less_rest + (a_rest - c_rest), more_rest + (a_rest + c_rest)
    first = head(h.rest, 28)
    total, error = sum_of(less, more * first)
    second = (h.rest - first) + (h.lost + h.odd)
    low = (less + less_rest) * h.even + (more * second + more_rest * (first + second))
    return with_sign((total + (error + (less_rest + low))) * 0.5, x), size.compare("lt", _LARGE_EXPONENT)


def _rare_sinh(x: Real) -> Real:
    return with_sign(_large_exp(abs(x), -1), x)


def _cosh(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    h = _hyperbolic(size)
    more, error = sum_of(h.power, h.inverse)
    error = error + (h.power_rest + h.inverse_rest)
    low = more * h.even + (h.power - h.inverse) * (h.rest + h.odd)
    return (more + (error + low)) * 0.5, size.compare("lt", _LARGE_EXPONENT)


TANH = Table("tanh", (_EXPONENTIAL["tanh_place"], _EXPONENTIAL["tanh_value"]))
_TANH_LEAST, _TANH_MOST = 0x3FC0000000000000, 0x4036000000000000
"""The bits of 1/8, below which there is no table, and of 22, where the value is 1."""


def _tanh(x: Real) -> tuple[Real, Node]:
    """``tanh(c + r)`` by the sum of arguments: ``t + (1 - t^2) tanh(r) / (1 + t tanh(r))``."""
    size = bits(abs(x)).minimum(_TANH_MOST)
    row = (size.maximum(_TANH_LEAST - (1 << 46)) - (_TANH_LEAST - (1 << 46))) >> 46
    known = row.at(TANH, 1)
    rest = size.real() - row.at(TANH, 0)
    square = rest * rest
    small = rest + rest * square * polynomial(square, _EXPONENTIAL["tanh"])
    slope = (1.0 - known) * (1.0 + known)
    value = known + slope * small / (1.0 + known * small)
    return with_sign(value, x), x.compare("eq", x)


# --- logarithms

_OFFSET = 0x3FE6000000000000
"""The bits of 0.6875: fractions are from there to its double."""
_EXPONENT = 0xFFF << 52


@dataclass(frozen=True, slots=True)
class _Base:
    """The constants of a base."""

    table: Table
    """Inverses c of few bits, ``-log(c)`` of 42 bits behind the point, and the rest of that."""
    two: float
    """The logarithm of 2, of 42 bits behind the point, and the rest."""
    two_rest: float
    factor: float
    """The logarithm of e, of 26 bits, and the rest."""
    factor_rest: float
    tail: tuple[float, ...]
    """``log(1 + r) - r`` times the factor, divided by ``r * r``."""


def _base(name: str) -> _Base:
    table = Table(name, (_EXPONENTIAL["inverse"], _EXPONENTIAL[f"{name}_head"], _EXPONENTIAL[f"{name}_rest"]))
    (two, two_rest), (factor, factor_rest) = _EXPONENTIAL[f"{name}_two"], _EXPONENTIAL[f"{name}_factor"]
    return _Base(table, two, two_rest, factor, factor_rest, _EXPONENTIAL[f"{name}_tail"])


_NATURAL, _BINARY, _DECIMAL = map(_base, ("log", "log2", "log10"))


@dataclass(frozen=True, slots=True)
class _Parts:
    """A positive number as ``2 ** count * (1 + rest) / c``."""

    count: Real
    rest: Real
    row: Word
    inverse: Real
    exponent: Word
    """The count in the bits of an exponent."""


def _take_apart(x: Word, table: Table, lost: int = 0) -> _Parts:
    """The parts of a positive number of these bits; ``lost``: of the number divided by ``2 ** lost``."""
    above = x - _OFFSET
    exponent, row = above & _EXPONENT, (above >> 44) & 255
    # The exponent as a float, by way of the low bits of one.
    count = ((above + ((1 << 63) - (lost << 52)) >> 52) | 0x4330000000000000).real() - (2.0**52 + 2048)
    fraction, inverse = (x - exponent).real(), row.at(table, 0)
    high = head(fraction, 10)  # of 43 bits, so that both products are exact, and their sum less 1 too
    return _Parts(count, (high * inverse - 1.0) + (fraction - high) * inverse, row, inverse, exponent)


def _log_in(base: _Base, x: Word, lost: int = 0) -> Real:
    """The logarithm of a positive number of these bits, divided by ``2 ** lost``."""
    parts = _take_apart(x, base.table, lost)
    rest = parts.rest
    known, known_rest = parts.row.at(base.table, 1), parts.row.at(base.table, 2)
    known, known_rest = known + parts.count * base.two, known_rest + parts.count * base.two_rest
    tail = rest * rest * polynomial(rest, base.tail)
    if base.factor != 1.0:
        first, second = split(rest)
        known_rest = known_rest + (second * base.factor + rest * base.factor_rest)
        rest = first * base.factor
    high, low = sum_of(known, rest)
    return high + (low + (known_rest + tail))


def _make_log(base: _Base) -> OwnFunction:
    def common(x: Real) -> tuple[Real, Node]:
        own = bits(x)
        return _log_in(base, own), _is_normal(own)

    def rare(x: Real) -> Real:
        return _special_log(x, _log_in(base, bits(x * 2.0**54), 54))

    return OwnFunction(common, rare)


def _special_log(x: Real, found: Real) -> Real:
    """The logarithm of a subnormal number, ``found``; or that of 0, an infinity, a negative number or NaN."""
    found = found.where(x.compare("lt", _INFINITY), x)
    found = found.where(x.compare("gt", 0.0), _NAN)
    return x.of(-_INFINITY).where(x.compare("eq", 0.0), found)


def _log1p_of(x: Real, more: Real | None = None) -> Real:
    """``log(1 + x + more)``; the number ``more`` is small beside x."""
    near, error = two_sum(x.of(1.0), x)
    if more is not None:
        error = error + more
    parts = _take_apart(bits(near), _NATURAL.table)
    error = error * (Word(x.b, bits(x.of(1.0)).node) - parts.exponent).real() * parts.inverse
    rest, lost = sum_of(parts.rest, error)
    known, known_rest = parts.row.at(_NATURAL.table, 1), parts.row.at(_NATURAL.table, 2)
    high, low = sum_of(parts.count * _NATURAL.two + known, rest)
    tail = rest * rest * polynomial(rest, _NATURAL.tail)
    return high + (low + ((known_rest + parts.count * _NATURAL.two_rest) + (lost + tail)))


def _log1p(x: Real) -> tuple[Real, Node]:
    return with_sign(_log1p_of(x), x), _both(x, x.compare("gt", -1.0), x.compare("lt", 2.0**1000))


def _rare_log1p(x: Real) -> Real:
    found = _log_in(_NATURAL, bits(x)).where(x.compare("lt", _INFINITY), x)
    found = found.where(x.compare("gt", -1.0), _NAN)
    return x.of(-_INFINITY).where(x.compare("eq", -1.0), found)


def _square(x: Real) -> tuple[Real, Real]:
    """``x * x`` exactly, but for the last bits of the second part."""
    high, low = split(x)
    return high * high, (x + high) * low


def _root(high: Real, low: Real) -> tuple[Real, Real]:
    """The square root of a sum, of 0 too, in two parts."""
    high, low = sum_of(high, low)
    root = high.sqrt()
    first, second = split(root)
    rest = ((high - first * first) - (root + first) * second) + low
    return root, rest * 0.5 / (root + 2.0**-600)


def _arcsinh(x: Real) -> tuple[Real, Node]:
    """``log(x + sqrt(x * x + 1))``."""
    size = abs(x)
    square, square_rest = _square(size)
    high, low = two_sum(size.of(1.0), square)
    root, root_rest = _root(high, low + square_rest)
    total, error = sum_of(size, root - 1.0)
    return with_sign(_log1p_of(total, error + root_rest), x), size.compare("lt", 2.0**400)


def _log_of_double(x: Real) -> Real:
    """``log(2 * x)`` of a great number."""
    return _log_in(_NATURAL, bits(x), -1)


def _rare_arcsinh(x: Real) -> Real:
    size = abs(x)
    found = _log_of_double(size)
    return with_sign(found.where(size.compare("lt", _INFINITY), size), x)


def _arccosh(x: Real) -> tuple[Real, Node]:
    """``log1p(t + sqrt(2 t + t * t))`` of ``t = x - 1``."""
    less = x - 1.0
    square, square_rest = _square(less)
    high, low = two_sum(less + less, square)
    root, root_rest = _root(high, low + square_rest)
    total, error = two_sum(less, root)
    return _log1p_of(total, error + root_rest), _both(x, x.compare("ge", 1.0), x.compare("lt", 2.0**400))


def _rare_arccosh(x: Real) -> Real:
    found = _log_of_double(x).where(x.compare("lt", _INFINITY), x)
    return found.where(x.compare("ge", 1.0), _NAN)


def _arctanh(x: Real) -> tuple[Real, Node]:
    """``log1p(2 x / (1 - x)) / 2``, with the quotient in two parts."""
    size = abs(x)
    below, below_rest = sum_of(size.of(1.0), -size)
    inverse = 1.0 / below
    twice = size + size
    first = head(twice * inverse)
    high, low = split(below)
    rest = ((twice - first * high) - first * low) - first * below_rest
    total, error = sum_of(first, rest * inverse)
    return with_sign(_log1p_of(total, error) * 0.5, x), size.compare("lt", 1.0)


def _rare_arctanh(x: Real) -> Real:
    return with_sign(x.of(_INFINITY), x).where(abs(x).compare("eq", 1.0), _NAN)


# --- roots

CBRT = Table("cbrt", (_EXPONENTIAL["cbrt_place"], _EXPONENTIAL["cbrt_inverse"], _EXPONENTIAL["cbrt_value"]))
RSQRT = Table("rsqrt", (_EXPONENTIAL["rsqrt_place"], _EXPONENTIAL["rsqrt_inverse"], _EXPONENTIAL["rsqrt_value"]))
_ONE = 0x3FF << 52


def _power_near(table: Table, name: str, x: Word, row: Word) -> Real:
    """A power of x: at a place of the table, times the power of the quotient, which is nearly 1."""
    value = row.at(table, 2)
    rest = (x.real() - row.at(table, 0)) * row.at(table, 1)
    return value + value * (rest * polynomial(rest, _EXPONENTIAL[name]))


def _cbrt_of(size: Word) -> Real:
    """The cube root of a normal number."""
    exponent = ((size >> 52) | 0x4330000000000000).real() - (2.0**52 + 1023)
    third = bits(exponent * (1 / 3) + WHOLE) << 52
    fraction = size - third - (third << 1)  # from 1/2 to 4
    value = _power_near(CBRT, "cbrt", fraction, (fraction >> 46) - (0x3FE << 6))
    return (bits(value) + third).real()


def _cbrt(x: Real) -> tuple[Real, Node]:
    size = bits(abs(x))
    is_zero = x.compare("eq", 0.0)
    return with_sign(x.of(0.0).where(is_zero, _cbrt_of(size)), x), _either(x, is_zero, _is_normal(size))


def _rare_cbrt(x: Real) -> Real:
    size = abs(x)
    found = with_sign(_cbrt_of(bits(size * 2.0**54)) * 2.0**-18, x)
    return found.where(size.compare("lt", _INFINITY), x)


def _rsqrt_of(x: Word) -> Real:
    """The inverse root of a positive normal number."""
    half = ((x >> 52) + 1) >> 1
    fraction = x - ((half - 512) << 53)  # from 1 to 4
    value = _power_near(RSQRT, "rsqrt", fraction, (fraction >> 45) - (0x3FF << 7))
    return (bits(value) - ((half - 512) << 52)).real()


def _rsqrt(x: Real) -> tuple[Real, Node]:
    own = bits(x)
    return _rsqrt_of(own), _is_normal(own)


def _rare_rsqrt(x: Real) -> Real:
    found = (_rsqrt_of(bits(x * 2.0**54)) * 2.0**27).where(x.compare("lt", _INFINITY), 1.0 / x)
    found = found.where(x.compare("gt", 0.0), _NAN)
    return (1.0 / x).where(x.compare("eq", 0.0), found)


def _length(x: Real, y: Real) -> tuple[Real, Real, Real]:
    """``sqrt(x * x + y * y)`` in two parts, and nearly the sum of squares."""
    (a, a_rest), (c, c_rest) = _square(x), _square(y)
    total, error = two_sum(a, c)
    return (*_root(total, error + (a_rest + c_rest)), total)


def _hypot(x: Real, y: Real) -> tuple[Real, Node]:
    root, rest, square = _length(x, y)
    is_zero = (abs(x) + abs(y)).compare("eq", 0.0)
    is_plain = _both(x, square.compare("gt", 2.0**-800), square.compare("lt", 2.0**1000))
    return root + rest, _either(x, is_zero, is_plain)


def _rare_hypot(x: Real, y: Real) -> Real:
    a, c = abs(x), abs(y)
    is_small = _both(x, a.compare("lt", 1.0), c.compare("lt", 1.0))
    factor, back = x.of(2.0**600).where(is_small, 2.0**-600), x.of(2.0**-600).where(is_small, 2.0**600)
    root, rest, _ = _length(a * factor, c * factor)
    # A subnormal result is rounded once: the last bit of this sum is the subnormal numbers'.
    total, error = sum_of(x.of(2.0**-422), root)
    subnormal = (total + (error + rest)) - 2.0**-422
    found = subnormal.where(_both(x, is_small, root.compare("lt", 2.0**-422)), root + rest) * back
    is_infinite = _either(x, a.compare("eq", _INFINITY), c.compare("eq", _INFINITY))
    return x.of(_INFINITY).where(is_infinite, found)


# --- powers


def long_log(x: Word, lost: int = 0) -> tuple[Real, Real]:
    """The natural logarithm of a positive number in two parts, within 2^-68 of it."""
    table = _NATURAL.table
    parts = _take_apart(x, table, lost)
    rest = parts.rest
    high, error = sum_of(parts.count * _NATURAL.two + parts.row.at(table, 1), rest)
    first, second = split(rest)
    half = first * -0.5
    high, more = sum_of(high, half * first)
    tail = rest * (rest * rest) * polynomial(rest, _EXPONENTIAL["log_cubic"])
    small = (parts.row.at(table, 2) + parts.count * _NATURAL.two_rest) + tail
    return sum_of(high, (error + more) + (small - (rest + first) * 0.5 * second))


def product_with_log(y: Real, log: Real, log_rest: Real) -> tuple[Real, Real]:
    """``y * log`` in two parts, the first of which is exact."""
    (a, a_rest), (c, c_rest) = split(y), split(log)
    return a * c, (a * c_rest + a_rest * log) + y * log_rest


def _reduce_sum(x: Real, more: Real) -> tuple[Real, Word]:
    shifted = (x + more) * _EXP_STEPS + WHOLE
    count = shifted - WHOLE
    return ((x - count * _EXP_STEP) - count * _EXP_STEP_REST) + more, bits(shifted)


def exp_of_sum(x: Real, more: Real) -> tuple[Real, Real, Word]:
    """``exp(x + more)``, of up to some 800, as a sum of two numbers, from 1 to 2, and an exponent of 2."""
    rest, count = _reduce_sum(x, more)
    return _power_parts(count, _exp_less_one(rest))


def _power_of_two_operands(x: Real, y: Real) -> tuple[Real, Node]:
    size = bits(abs(x))
    high, low = product_with_log(y, *long_log(size))
    rest, count = _reduce_sum(high, low)
    power, missing = _power_of(count)
    value = power + power * (missing + _exp_less_one(rest))
    whole = y + WHOLE  # whose last bit says whether y is odd
    sign = (bits(whole) << 63) & bits(x)
    is_right = _either(x, x.compare("gt", 0.0), (whole - WHOLE).compare("eq", y))
    is_plain = _both(x, _is_normal(size), abs(high).compare("lt", _LARGE_EXPONENT), abs(y).compare("lt", 2.0**51))
    is_square = y.compare("eq", 2.0)
    value = (x * x).where(is_square, (bits(value) | sign).real())
    return value, _either(x, is_square, _both(x, is_right, is_plain))


def _rare_power(x: Real, y: Real) -> Real:
    b, size = x.b, abs(x)
    is_subnormal = size.compare("lt", _SMALLEST)
    exponent = clamp(y, 2.0**66)  # beyond, every power but that of 1 is 0 or infinite
    logs = [product_with_log(exponent, *long_log(bits(each), lost)) for each, lost in ((size, 0), (size * 2.0**54, 54))]
    high, low = (small.where(is_subnormal, plain) for plain, small in zip(*logs, strict=True))
    low = low.where(abs(high).compare("lt", 800.0), 0.0)
    rest, count = _reduce_sum(clamp(high, 800.0), low)
    found = _scale_power(count, _exp_less_one(rest))
    # Of 0 and of an infinity, and with an infinite exponent.
    is_growing = size.compare("gt", 1.0)
    is_growing = b.op("eq", is_growing, y.compare("gt", 0.0))
    limit = x.of(_INFINITY).where(is_growing, 0.0)
    is_limit = _either(x, size.compare("eq", 0.0), size.compare("eq", _INFINITY))
    found = limit.where(_either(x, is_limit, abs(y).compare("eq", _INFINITY)), found)
    whole, half = (Real(b, b.op("rint", each.node)) for each in (y, y * 0.5))
    is_whole = whole.compare("eq", y)
    is_odd = _both(x, is_whole, half.compare("ne", y * 0.5))
    found = with_sign(found, x).where(is_odd, found)
    is_none = _both(x, x.compare("lt", 0.0), x.compare("gt", -_INFINITY), b.op("not", is_whole))
    found = x.of(_NAN).where(is_none, found)
    found = x.of(_NAN).where(_either(x, x.compare("ne", x), y.compare("ne", y)), found)
    is_one = _both(x, size.compare("eq", 1.0), abs(y).compare("eq", _INFINITY))
    is_one = _either(x, is_one, _either(x, x.compare("eq", 1.0), y.compare("eq", 0.0)))
    return x.of(1.0).where(is_one, found)


EXPONENTIALS: dict[str, OwnFunction] = {
    "exp": OwnFunction(_exp, lambda x: _large_exp(x, 0)),
    "exp2": OwnFunction(_exp2, _rare_exp2),
    "expm1": OwnFunction(_expm1, _rare_expm1),
    "log": _make_log(_NATURAL),
    "log2": _make_log(_BINARY),
    "log10": _make_log(_DECIMAL),
    "log1p": OwnFunction(_log1p, _rare_log1p),
    "sinh": OwnFunction(_sinh, _rare_sinh),
    "cosh": OwnFunction(_cosh, lambda x: _large_exp(abs(x), -1)),
    "tanh": OwnFunction(_tanh, lambda x: x),
    "arcsinh": OwnFunction(_arcsinh, _rare_arcsinh),
    "arccosh": OwnFunction(_arccosh, _rare_arccosh),
    "arctanh": OwnFunction(_arctanh, _rare_arctanh),
    "cbrt": OwnFunction(_cbrt, _rare_cbrt),
    "rsqrt": OwnFunction(_rsqrt, _rare_rsqrt),
    "hypot": OwnFunction(_hypot, _rare_hypot),
    "power": OwnFunction(_power_of_two_operands, _rare_power),
}


_CIRCULAR = read_constants("float64_trigonometry")

SINES = Table("sines", (_CIRCULAR["sine"], _CIRCULAR["sine_rest"]))
"""The sine of ``2 * pi * row / 64`` in 26 bits, and the rest of it; the cosine is 16 rows further."""
TURNS = Table("turns", (_CIRCULAR["turns"],))
"""The bits of ``1 / (2 * pi)``, 32 in a row, from the place 2^64 on."""
ANGLES = Table("angles", (_CIRCULAR["centre"], _CIRCULAR["angle"], _CIRCULAR["angle_rest"]))
"""Tangents of six bits, and their angles in two parts; before them 0, behind them a tangent without end."""

_ANGLE_STEPS, *_PARTS = _CIRCULAR["step"]
_ANGLE_STEP, _ANGLE_STEP_REST = _CIRCULAR["whole_step"]
PI, PI_REST = _CIRCULAR["pi"]
_QUARTER = 16

Angle = tuple[Word, Real, Real]
"""A row of `SINES`, and what the angle has beyond it: a number, and what its rounding has left."""


def sign_of(x: Real) -> Word:
    return bits(x) & SIGN


def flip(size: Real, sign: Word) -> Real:
    """A number whose sign changes where the bit is set."""
    return (bits(size) ^ sign).real()


def _whole(number: Word) -> Real:
    """An integer below 2^52 as a float."""
    return (number | 0x4330000000000000).real() - 2.0**52


# --- sine, cosine and tangent

LARGEST_REDUCED = 12800.0
"""Up to here the products of the step's parts are exact, and the rest of an angle is right to 2^-59 of itself.

For each multiple of pi / 2 the test `test_the_reduction_holds_up_to_its_limit` looks at the nearest floats.
"""


def _reduce_angle(size: Real) -> Angle:
    first, second, third = _PARTS
    shifted = size * _ANGLE_STEPS + WHOLE
    count = shifted - WHOLE
    above, step = size - count * first, count * second
    rest = above - step
    return bits(shifted) & 63, rest, ((above - rest) - step) - count * third


def _product(x: Word, y: Word) -> Word:
    return Word(x.b, x.b.op("mul", x.node, y.node))


def _reduce_any(size: Real) -> Angle:
    """The angle of a large number: the product with the bits of 1 / (2 pi) that count, in words of 32 bits."""
    own = bits(size)
    place = (own >> 52) - (1075 - 64)
    row, shift = place >> 5, place & 31
    words = [(row + k).bits_at(TURNS, 0) for k in range(7)]
    window = [
        Word(own.b, own.b.op("shl", (high << 32 | low).node, shift.node)) >> 32
        for high, low in itertools.pairwise(words)
    ]
    fraction = own & (1 << 52) - 1 | 1 << 52
    low, high = fraction & 0xFFFFFFFF, fraction >> 32
    limbs: list[Word] = []
    carry = own & 0
    above = own & 0  # the products that belong to the next limb
    for word in reversed(window):
        first, second = _product(low, word), _product(high, word)
        total = carry + above + (first & 0xFFFFFFFF)
        limbs.append(total & 0xFFFFFFFF)
        carry, above = total >> 32, (first >> 32) + second
    turn, *further = reversed(limbs)
    moved = turn + (1 << 25)  # half a step
    rest, lost = _whole(moved & (1 << 26) - 1) - 2.0**25, size.of(0.0)
    for k, each in enumerate(further[:3]):
        rest, more = sum_of(rest, _whole(each) * 2.0 ** (-32 * (k + 1)))
        lost = lost + more
    rest, lost = rest * 2.0**-26, lost * 2.0**-26
    found, error = two_product(rest, size.of(_ANGLE_STEP))
    return (moved >> 26) & 63, found, error + (rest * _ANGLE_STEP_REST + lost * _ANGLE_STEP)


def sine_of(angle: Angle, *, quarters: int = 0) -> tuple[Real, Real]:
    """The sine of an angle and some quarters of a turn, as a sum of two numbers."""
    row, rest, lost = angle
    row = row + _QUARTER * quarters if quarters else row
    sine, sine_rest = row.at(SINES, 0), row.at(SINES, 1)
    cosine, cosine_rest = (row + _QUARTER).at(SINES, 0), (row + _QUARTER).at(SINES, 1)
    near = head(rest, 26)
    square = rest * rest
    bent = square * polynomial(square, _CIRCULAR["cos"])
    cubic = (rest * square) * polynomial(square, _CIRCULAR["sin"])
    high, low = sum_of(sine, cosine * near)
    further = (cosine + cosine_rest) * (((rest - near) + lost) + cubic)
    return high, low + (further + (cosine_rest * near + ((sine + sine_rest) * bent + sine_rest)))


def _tangent_of(angle: Angle) -> Real:
    """``(sine + cosine * t) / (cosine - sine * t)``, by the tangent t of what the angle has beyond its row."""
    row, rest, lost = angle
    sine, sine_rest = row.at(SINES, 0), row.at(SINES, 1)
    cosine, cosine_rest = (row + _QUARTER).at(SINES, 0), (row + _QUARTER).at(SINES, 1)
    near = head(rest, 26)
    square = rest * rest
    small = ((rest - near) + lost) + (rest * square) * polynomial(square, _CIRCULAR["tan"])
    tangent = near + small
    top, top_rest = sum_of(sine, cosine * near)
    bottom, bottom_rest = sum_of(cosine, -(sine * near))
    top_rest = top_rest + (sine_rest + (cosine * small + cosine_rest * tangent))
    bottom_rest = bottom_rest + (cosine_rest - (sine * small + sine_rest * tangent))
    inverse = 1.0 / (bottom + bottom_rest)
    found = head(top * inverse)
    wide = head(bottom)
    missing = ((top - found * wide) - found * (bottom - wide)) + (top_rest - found * bottom_rest)
    return found + missing * inverse


def _remainder(top: Real, quotient: Real, bottom: Real) -> Real:
    """``top - quotient * bottom``, of a quotient that is nearly right: all but the last product are exact."""
    high, wide = head(quotient), head(bottom)
    low, narrow = quotient - high, bottom - wide
    return (((top - high * wide) - high * narrow) - low * wide) - low * narrow


def sine(angle: Angle) -> Real:
    high, low = sine_of(angle)
    return high + low


def cosine(angle: Angle) -> Real:
    high, low = sine_of(angle, quarters=1)
    return high + low


def _holds(size: Real) -> Node:
    return size.compare("lt", LARGEST_REDUCED)


def _sin(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    return flip(sine(_reduce_angle(size)), sign_of(x)), _holds(size)


def _cos(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    return cosine(_reduce_angle(size)), _holds(size)


def _tan(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    return flip(_tangent_of(_reduce_angle(size)), sign_of(x)), _holds(size)


def _of_any_angle(x: Real, found: Real) -> Real:
    """A function's value at a large number; NaN at infinity and NaN."""
    return found + (x - x)


def _rare_sin(x: Real) -> Real:
    return _of_any_angle(x, flip(sine(_reduce_any(abs(x))), sign_of(x)))


def _rare_cos(x: Real) -> Real:
    return _of_any_angle(x, cosine(_reduce_any(abs(x))))


def _rare_tan(x: Real) -> Real:
    return _of_any_angle(x, flip(_tangent_of(_reduce_any(abs(x))), sign_of(x)))


# --- arctangent

_FIRST_ROW, _LAST_ROW = 2.0**-4, 2.0**5
_BELOW = (1023 - 4) * 32 - 1
"""The row before the first one of its own, in the highest bits of floats."""


def _row_of(tangent: Real) -> Word:
    inside = tangent.where(tangent.compare("lt", _LAST_ROW), _LAST_ROW)
    inside = inside.where(inside.compare("ge", _FIRST_ROW), _FIRST_ROW * (1 - 2.0**-53))
    return (bits(inside) >> 47) - _BELOW


def _cubic_rest(tangent: Real) -> Real:
    """``arctan(t) - t`` of a small number."""
    square = tangent * tangent
    return tangent * square * polynomial(square, _CIRCULAR["arctan"])


def _arctan(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    row = _row_of(size)
    centre = row.at(ANGLES, 0)
    rest = (size - centre) / (size * centre + 1.0)
    high, low = sum_of(row.at(ANGLES, 1), rest)
    found = high + (low + (row.at(ANGLES, 2) + _cubic_rest(rest)))
    return flip(found, sign_of(x)), size.compare("lt", 2.0**400)


def _rare_arctan(x: Real) -> Real:
    return x.where(x.compare("ne", x), flip(x.of(PI / 2), sign_of(x)))


def _angle(tall: Real, wide: Real, sign: Word) -> Real:
    """The angle of a point above; it is left of the other axis where the sign is set."""
    inverse = 1.0 / wide
    ratio = tall * inverse
    missing = _remainder(tall, ratio, wide) * inverse
    row = _row_of(ratio)
    centre = row.at(ANGLES, 0)
    below = 1.0 / (ratio * centre + 1.0)
    rest = (ratio - centre) * below
    further = row.at(ANGLES, 2) + (missing * below + _cubic_rest(rest))
    is_left = (sign & 0) - (sign >> 63)
    base, base_rest = ((bits(tall.of(each)) & is_left).real() for each in (PI, PI_REST))
    high, low = sum_of(base, flip(row.at(ANGLES, 1), sign))
    return high + (flip(rest, sign) + (low + (base_rest + flip(further, sign))))


def _arctan2(y: Real, x: Real) -> tuple[Real, Node]:
    tall, wide = abs(y), abs(x)
    least, range_of = 1023 - 150 << 52, 300 << 52
    inside = [(bits(each) - least).is_below(range_of) for each in (tall, wide)]
    return flip(_angle(tall, wide, sign_of(x)), sign_of(y)), y.b.op("and", *inside)


def _fraction(size: Real) -> tuple[Real, Real]:
    """A number from 1 to 2, and the exponent."""
    is_small = size.compare("lt", 2.0**-1022)
    own = bits((size * 2.0**54).where(is_small, size))
    exponent = _whole(own >> 52)
    fraction = (own & (1 << 52) - 1 | 1023 << 52).real()
    return fraction, (exponent - 54.0).where(is_small, exponent)


def _rare_arctan2(y: Real, x: Real) -> Real:
    """That of the fractions, with the difference of the exponents as far as it counts."""
    b = y.b
    tall, wide = abs(y), abs(x)
    (top, above), (bottom, below) = _fraction(tall), _fraction(wide)
    steps = above - below
    is_upright = b.op("or", wide.compare("eq", 0.0), tall.compare("eq", _INFINITY))
    is_flat = b.op("or", tall.compare("eq", 0.0), wide.compare("eq", _INFINITY))
    steps = steps.of(200.0).where(b.op("or", is_upright, steps.compare("gt", 200.0)), steps)
    steps = steps.of(-200.0).where(b.op("or", is_flat, steps.compare("lt", -200.0)), steps)
    steps = steps.of(0.0).where(b.op("and", tall.compare("eq", wide), tall.compare("gt", 0.0)), steps)
    power = (bits(steps + (WHOLE + 1023.0)) << 52).real()
    found = _angle(top * power, bottom, sign_of(x))
    ratio = tall.of(0.0).where(tall.compare("eq", 0.0), tall / wide)
    is_right = b.op("eq", sign_of(x).node, bits(x.of(0.0)).node)
    found = ratio.where(b.op("and", is_right, steps.compare("lt", -60.0)), found)
    found = flip(found, sign_of(y))
    total = x + y
    is_number = b.op("and", x.compare("eq", x), y.compare("eq", y))
    return found.where(is_number, total)


# --- arcsine and arccosine

_PART = 23 / 128
_FEW = 1.5 * 2.0**35
"""Added, it rounds to a multiple of 2^-17."""
_MOST_DIRECT = 1 / 2
"""Beyond, the angle is found by that of half the rest to a quarter of a turn."""
_RECIPROCAL = 0x7FDE623822FC16E6
"""Less the bits of a number, those of its reciprocal within an eighth (J. F. Blinn, "Floating-point tricks", 1997)."""


def _with_mask(mask: Word, yes: float, no: float) -> Real:
    one, other = bits(Real(mask.b, yes)), bits(Real(mask.b, no))
    return ((mask & (one ^ other)) ^ other).real()


def _root_error(square: Real, root: Real) -> Real:
    """The exact root less the rounded one, within some 2 % and by no division."""
    near = head(root)
    twice = root + near
    missing = (square - near * near) - (root - near) * twice
    inverse = (bits(twice.of(0.0)) + _RECIPROCAL - bits(twice)).real()
    return (missing * inverse) * (2.0 - twice * inverse)


def _add_arcsine(size: Real, is_far: Word, base: Real, base_rest: Real, factor: Real) -> Real:
    """``base + factor * arcsine``, of a size, or where it ``is_far`` of the root of ``(1 - size) / 2``.

    The arcsine is ``t + t^3 * p`` where p is a short number, and so the product of the cube of the few highest bits of
    t with it is exact. The factor is a power of two, or the negative of one.
    """
    share = 0.5 - size * 0.5
    root = share.sqrt()
    lost = (bits(_root_error(share, root) * factor) & is_far).real()
    sine = ((bits(root) & is_far) | (bits(size) & (is_far ^ -1))).real()
    scaled = sine * factor
    few, few_scaled = head(sine, 41), head(scaled, 41)
    square = sine * sine
    bent = polynomial(square, _CIRCULAR["arcsin"])
    short = (bent + (_FEW + _PART)) - _FEW
    cube = few * few * few_scaled
    more = ((scaled - few_scaled) + lost) * (square + few * (sine + few)) * (bent + _PART)
    total, rest = sum_of(base, scaled)
    total, further = sum_of(total, cube * short)
    return total + (further + (rest + (base_rest + (cube * (bent - (short - _PART)) + (more + lost)))))


def _is_far(size: Real) -> Word:
    return (bits(size) & 0) - (bits(size.of(_MOST_DIRECT) - size) >> 63)


def _arcsin(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    is_far = _is_far(size)
    base, base_rest = (_with_mask(is_far, each / 2, 0.0) for each in (PI, PI_REST))
    found = _add_arcsine(size, is_far, base, base_rest, _with_mask(is_far, -2.0, 1.0))
    return flip(found, sign_of(x)), x.b.const(True, BOOL)


def _arccos(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    is_far, sign = _is_far(size), sign_of(x)
    is_left = (sign & 0) - (sign >> 63)
    far = [bits(x.of(each)) & is_left for each in (PI, PI_REST)]
    half = [bits(x.of(each / 2)) for each in (PI, PI_REST)]
    base, base_rest = (((one ^ other) & is_far ^ other).real() for one, other in zip(far, half, strict=True))
    factor = flip(_with_mask(is_far, 2.0, -1.0), sign)
    return _add_arcsine(size, is_far, base, base_rest, factor), x.b.const(True, BOOL)


TRIGONOMETRY: dict[str, OwnFunction] = {
    "sin": OwnFunction(_sin, _rare_sin),
    "cos": OwnFunction(_cos, _rare_cos),
    "tan": OwnFunction(_tan, _rare_tan),
    "arcsin": OwnFunction(_arcsin, lambda x: _arcsin(x)[0]),
    "arccos": OwnFunction(_arccos, lambda x: _arccos(x)[0]),
    "arctan": OwnFunction(_arctan, _rare_arctan),
    "arctan2": OwnFunction(_arctan2, _rare_arctan2),
}


# --- the error function, and sine and cosine of half turns
#
# A table has the error function's values and slopes at multiples of 1/16; the series around the nearest one has the
# coefficients of Hermite's polynomials, which their recurrence gives.

_SPECIAL = read_constants("float64_special")

ERROR_TABLE = Table("errors", (_SPECIAL["erf"], _SPECIAL["erf_rest"], _SPECIAL["slope"], _SPECIAL["slope_rest"]))
"""The error function and its slope at ``row / 16``, each in two parts; the slope's first has 26 bits."""

_ERROR_STEPS = 16.0
_LARGEST = 6.0
"""From here on the value is 1."""
_TERMS = 9
_LEAST = 2.0**-900
"""Below, the exact product may be subnormal."""


def _is_between(size: Real, low: float, high: float) -> Node:
    """Whether ``low <= size < high``, or it is 0."""
    first, end = (struct.unpack("<Q", struct.pack("<d", each))[0] for each in (low, high))
    return size.b.op("or", (bits(size) - first).is_below(end - first), size.compare("eq", 0.0))


def error_of(size: Real, lost: Real | None = None) -> Pair:
    """The error function of ``size + lost``, from 0 to 6, as a sum of two numbers."""
    shifted = size * _ERROR_STEPS + WHOLE
    row = bits(shifted) & 127
    centre = (shifted - WHOLE) * (1 / _ERROR_STEPS)
    rest = size - centre
    # exp(-2 c t - t^2) in powers of t: h(n + 1) = -2 (c h(n) + h(n - 1)) / (n + 1); the integral divides by n + 1.
    across, square = centre * rest, rest * rest
    before, term = size.of(1.0), across * -2.0
    bent = term * 0.5
    for n in range(2, _TERMS + 1):
        before, term = term, (across * term + square * before) * (-2.0 / n)
        bent = bent + term * (1.0 / (n + 1))
    near = head(rest, 26)
    missing = rest - near
    if lost is not None:
        missing = missing + (lost - across * lost * 2.0)  # by the slope at the place
    slope, slope_rest = row.at(ERROR_TABLE, 2), row.at(ERROR_TABLE, 3)
    high, low = sum_of(row.at(ERROR_TABLE, 0), slope * near)
    further = (slope + slope_rest) * (missing + rest * bent)
    return high, low + (row.at(ERROR_TABLE, 1) + (slope_rest * near + further))


def _erf(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    high, low = error_of(size)
    return with_sign(high + low, x), _is_between(size, _LEAST, _LARGEST)


def _rare_erf(x: Real) -> Real:
    size = abs(x)
    found = multiple_of(size, *_SPECIAL["first_slope"])
    return with_sign(x.of(1.0).where(size.compare("ge", _LARGEST), found), x)


def multiple_of(small: Real, factor: float, rest_of_factor: float) -> Real:
    """A number below 2^-700 times a constant, with one rounding, where the result is subnormal too."""
    scaled = small * 2.0**300
    product, error = two_product(scaled, small.of(factor))
    error = error + scaled * rest_of_factor
    # The last bit of this number counts what that of a subnormal result does.
    unit = 2.0 ** (300 - 1022)
    total, rest = sum_of(small.of(unit), product)
    return ((total + (rest + error)) - unit).where(product.compare("lt", unit), product + error) * 2.0**-300


# --- sine and cosine of half turns

_MOST_TURNS = 2.0**40


def _angle_of(size: Real) -> Angle:
    """The angle of a number of half turns: the reduction is exact."""
    shifted = size * 32.0 + WHOLE
    rest = size - (shifted - WHOLE) * (1 / 32)
    found, error = two_product(rest, rest.of(PI))
    return bits(shifted) & 63, found, error + rest * PI_REST


def _whole_turns(size: Real) -> Real:
    """The rest of a number of half turns beyond whole turns; NaN of infinity."""
    turns = Real(size.b, size.b.op("floor", (size * 0.5).node))
    return size - turns * 2.0


def sine_of_turns(size: Real) -> Pair:
    """The sine of a number of half turns, as a sum of two numbers."""
    return sum_of(*sine_of(_angle_of(_whole_turns(size))))


def _sinpi(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    return flip(sine(_angle_of(size)), sign_of(x)), _is_between(size, _LEAST, _MOST_TURNS)


def _rare_sinpi(x: Real) -> Real:
    size = abs(x)
    found = sine(_angle_of(_whole_turns(size)))
    tiny = multiple_of(size, PI, PI_REST)
    return flip(tiny.where(size.compare("lt", _LEAST), found), sign_of(x))


def _cospi(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    return cosine(_angle_of(size)), size.compare("lt", _MOST_TURNS)


def _rare_cospi(x: Real) -> Real:
    return cosine(_angle_of(_whole_turns(abs(x))))


# --- the complement of the error function, what it defines, and the inverses
#
# From 1/2 on ``erfc(x)`` is ``exp(-x * x)`` times ``erfcx(x)``, of which a table has values and derivatives; below, it
# is 1 less the error function. An inverse is a formula for nearly all bits and one step of Newton's method.

SCALED = Table("scaled_errors", tuple(_SPECIAL[f"erfcx_{k}"] for k in range(14)))
"""``erfcx`` around the middles of 16 parts of each binade from 1/2 to 32."""
_FIRST = 1022 << 4
"""The row of 1/2, in the highest bits of floats."""
_MIDDLE = 1 << 47
_LEAST_ROW, _MOST, _ZERO = 0.5, 32.0, 30.0
"""Where the table begins and ends, and from where on ``erfc`` is 0."""
_GREATEST = sys.float_info.max
_SLOPE, _SLOPE_REST = _SPECIAL["first_slope"]
_ROOT_HALF, _ROOT_HALF_REST = _SPECIAL["root_half"]
_SERIES = tuple(math.prod(range(1, 2 * k, 2)) * (-0.5) ** k for k in range(1, 9))
"""``sqrt(pi) x erfcx(x) - 1`` in powers of ``1 / x**2``, divided by the first."""


def _erfcx_of(size: Real, lost: Real) -> Pair:
    """``erfcx(size + lost)`` of sizes in the table."""
    own = bits(at_most(at_least(size, _LEAST_ROW), _MOST * (1 - 2.0**-53)))
    centre = ((own >> 48 << 48) + _MIDDLE).real()
    return taylor(SCALED, ((own >> 48) - _FIRST) & 127, own.real() - centre, lost)


def _exp_of_minus_square(size: Real, lost: Real, sign: float) -> tuple[Real, Real, Word]:
    """``exp(sign * (size + lost)**2)`` as a sum of two numbers, and an exponent of 2."""
    square, error = two_product(size, size)
    return exp_of_sum(square * sign, (error + size * lost * 2.0) * sign)


def _complement_near_0(x: Real, lost: Real) -> Pair:
    """1 less the error function, of sizes below 1/2."""
    sign = sign_of(x)
    high, low = error_of(abs(x), flip(lost, sign))
    return sum_of_pairs((x.of(1.0), x.of(0.0)), (-flip(high, sign), -flip(low, sign)))


def _choose(condition: Node, yes: Pair, no: Pair) -> Pair:
    return yes[0].where(condition, no[0]), yes[1].where(condition, no[1])


def _times_power(x: Pair, exponent: Word) -> Pair:
    """``x * 2 ** exponent``, as far as it is a normal number."""
    factor = ((exponent + 1023 + 4096).maximum(4096 + 1) - 4096 << 52).real()
    return x[0] * factor, x[1] * factor


def _complement(x: Real, lost: Real) -> tuple[Pair, Word, Real]:
    """``erfc(x + lost)`` as a sum of two numbers, an exponent of 2, and ``exp(-x * x)`` with the same exponent."""
    size = at_most(abs(x), _ZERO)
    shift = flip(lost, sign_of(x))
    *power, exponent = _exp_of_minus_square(size, shift, -1.0)
    tail = product_of_pairs((power[0], power[1]), _erfcx_of(size, shift))
    is_near, is_below = size.compare("lt", _LEAST_ROW), x.compare("lt", 0.0)
    above = sum_of_pairs((x.of(2.0), x.of(0.0)), _times_power((-tail[0], -tail[1]), exponent))
    plain = _choose(is_near, _complement_near_0(x, lost), above)
    is_plain = x.b.op("or", is_near, is_below)
    slope = _times_power((power[0], power[1]), exponent)[0].where(is_plain, power[0])
    return _choose(is_plain, plain, tail), bits(x.of(0.0)).where(is_plain, exponent), slope


def _usual(parts: tuple[Pair, Word, Real], factor: int = 0) -> Real:
    """The number, which is normal, times ``2 ** factor``."""
    (high, low), exponent, _ = parts
    return (high + low) * (exponent + 1023 + factor << 52).real()


def _rare(x: Real, parts: tuple[Pair, Word, Real], factor: int = 0) -> Real:
    """The number, subnormal or 0 too; NaN of NaN."""
    (high, low), exponent, _ = parts
    return x.where(x.compare("ne", x), scale_any(high, low, exponent + factor))


def _erfc(x: Real) -> tuple[Real, Node]:
    return _usual(_complement(x, x.of(0.0))), x.compare("lt", 26.0)


def _rare_erfc(x: Real) -> Real:
    return _rare(x, _complement(x, x.of(0.0)))


def _halves(x: Real) -> tuple[Pair, Word, Real]:
    """Twice the normal distribution function."""
    x = -at_most(at_least(x, -40.0), 40.0)
    high, error = two_product(x, x.of(_ROOT_HALF))
    return _complement(high, error + x * _ROOT_HALF_REST)


def _normcdf(x: Real) -> tuple[Real, Node]:
    return _usual(_halves(x), -1), x.b.op("and", x.compare("gt", -37.0), abs(x).compare("gt", 2.0**-900))


def _rare_normcdf(x: Real) -> Real:
    return x.of(0.5).where(abs(x).compare("lt", 2.0**-100), _rare(x, _halves(x), -1))


def _square_power(size: Real) -> tuple[Real, Real, Word]:
    return _exp_of_minus_square(at_most(size, 27.0), size.of(0.0), 1.0)


def _erfcx(x: Real) -> tuple[Real, Node]:
    size, none = abs(x), x.of(0.0)
    *power, exponent = _square_power(size)
    grown = _times_power((power[0], power[1]), exponent)
    scaled = _erfcx_of(size, none)
    below = sum_of_pairs((grown[0] * 2.0, grown[1] * 2.0), (-scaled[0], -scaled[1]))
    outer = _choose(x.compare("lt", 0.0), below, scaled)
    inner = product_of_pairs(grown, _complement_near_0(x, none))
    high, low = _choose(size.compare("lt", _LEAST_ROW), inner, outer)
    return high + low, x.b.op("and", x.compare("gt", -26.0), x.compare("lt", _MOST))


def _rare_erfcx(x: Real) -> Real:
    high, low, exponent = _square_power(abs(x))
    below = scale(high, low, exponent + 1)
    # The series of 1 / x: of great numbers one of a part of them, and the first term.
    is_great, zero = x.compare("gt", 2.0**500), bits(x.of(0.0))
    part = (at_most(x, _GREATEST) * 2.0**-500).where(is_great, at_least(x, 1.0))
    share = (x.of(0.0)).where(is_great, 1.0 / part)
    high, low = quotient_of_pairs((x.of(_SLOPE / 2), x.of(_SLOPE_REST / 2)), (part, x.of(0.0)))
    less = share * share
    low = low + high * (less * polynomial(less, _SERIES))
    above = scale_any(high, low, (zero - 500).where(is_great, zero))
    above = x.of(0.0).where(x.compare("eq", _INFINITY), above)
    found = above.where(x.compare("gt", 0.0), below)
    return x.where(x.compare("ne", x), found)


# --- inverses


def _solve(inside: Real, outside: Real) -> Pair:
    """The number of which ``inside`` is the error function and ``outside`` 1 less it, each exact up to 1/2.

    A number nearly right, and what a step of Newton's method adds.
    """
    none = inside.of(0.0)
    logs = [_log_in(_NATURAL, bits(each * 2.0**54), 54) for each in (outside, 2.0 - outside)]
    found = inverse_of_error(inside, -(logs[0] + logs[1]))
    (high, low), exponent, slope = _complement(found, none)
    value, rest = error_of(found)
    is_inside = outside.compare("ge", 0.5)  # where the one that may be rounded is the other
    half = (exponent + 4096 >> 1) - 2048
    wanted = outside
    for each in (half, exponent - half):  # the factor alone may be infinite
        wanted = wanted * (bits(none) + 1023 - each << 52).real()
    missing = ((inside - value) - rest).where(is_inside, (high - wanted) + low)
    return found, missing / (slope * _SLOPE)


def _erfinv(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    found, more = _solve(size, 1.0 - size)
    return with_sign(found + more, x), x.b.op("and", size.compare("lt", 1.0), size.compare("gt", 2.0**-900))


def _rare_erfinv(x: Real) -> Real:
    size = abs(x)
    tiny = multiple_of(size, *_SPECIAL["first_inverse"])
    found = tiny.where(size.compare("lt", 0.5), size.of(_INFINITY).where(size.compare("eq", 1.0), _NAN))
    return with_sign(found, x)


def _tail_of(y: Real) -> tuple[Real, Pair, Word]:
    """The smaller one of y and ``2 - y``, the inverse of its complement, and the sign."""
    sign = sign_of(1.0 - y)
    tail = y.where(y.compare("le", 1.0), 2.0 - y)
    return tail, _solve(1.0 - tail, tail), sign


def _erfcinv(y: Real) -> tuple[Real, Node]:
    _, (found, more), sign = _tail_of(y)
    return flip(found + more, sign), y.b.op("and", y.compare("gt", 0.0), y.compare("lt", 2.0))


def _ends(y: Real, end: float) -> Real:
    """Of the ends 0 and ``end`` infinities, of all others NaN."""
    found = y.of(-_INFINITY).where(y.compare("eq", end), _NAN)
    return y.of(_INFINITY).where(y.compare("eq", 0.0), found)


def _normcdfinv(p: Real) -> tuple[Real, Node]:
    _, parts, sign = _tail_of(p + p)
    high, low = product_of_pairs(parts, (p.of(2 * _ROOT_HALF), p.of(2 * _ROOT_HALF_REST)))
    return -flip(high + low, sign), p.b.op("and", p.compare("gt", 0.0), p.compare("lt", 1.0))


# --- the gamma function and its logarithm
#
# Up to 8 the recurrence leads to a table of the function and its derivatives from 1 to 2; from 8 on it is the
# exponential of Stirling's series, and below 0 the reflection. The logarithm has a table of
# ``log(gamma(x)) / ((x - 1) * (x - 2))``, because it is 0 at 1 and 2.

_GAMMA_STEPS = 32.0
GAMMA = Table("gammas", tuple(_SPECIAL[f"gamma_{k}"] for k in range(13)))
"""The function around ``1 + row / 32``."""
LOGARITHM = Table("gamma_logarithms", tuple(_SPECIAL[f"log_{k}"] for k in range(14)))
"""``log(gamma(x)) / ((x - 1) * (x - 2))`` around ``row / 32``, from 1/2 to 3."""
_LARGE_GAMMA = 8.0
_HALF_LOG, _HALF_LOG_REST = _SPECIAL["half_log"]
_LOG_PI, _LOG_PI_REST = _SPECIAL["log_pi"]
_USUAL, _HUGE = 150.0, 2.0**900
"""Up to here the two functions are computed without regard to the ends of the range."""
_TINY = 2.0**-100
"""Below, ``gamma(x)`` is ``1 / x`` but for its last bit, and its logarithm ``-log(x)``."""


def _row(table: Table, x: Real, lost: Real, first: int) -> Pair:
    """The function of a table at ``x + lost``."""
    shifted = x * _GAMMA_STEPS + WHOLE
    row = (bits(shifted) - (bits(x.of(WHOLE)) + first)) & (len(table.columns[0]) - 1)
    return taylor(table, row, x - (shifted - WHOLE) * (1 / _GAMMA_STEPS), lost)


def _reduce_gamma(x: Real, least: float, steps: int) -> tuple[Real, Pair]:
    """A number below ``least + 1`` that is some whole number less, and the product of the numbers that were passed."""
    product = x.of(1.0), x.of(0.0)
    for _ in range(steps):
        is_large = x.compare("ge", least + 1.0)
        lower = x - 1.0
        high, low = product_of_pairs(product, (lower, x.of(0.0)))
        product = high.where(is_large, product[0]), low.where(is_large, product[1])
        x = lower.where(is_large, x)
    return x, product


def _log_of_large(x: Real) -> Pair:
    """The logarithm of gamma(x), of x from 8 on."""
    less, lost = two_sum(x, x.of(-0.5))
    log, log_rest = long_log(bits(x))
    high, low = product_with_log(less, log, log_rest)
    high, error = sum_of(high, -x)
    high, more = sum_of(high, x.of(_HALF_LOG))
    inverse = 1.0 / x
    series = inverse * polynomial(inverse * inverse, _SPECIAL["stirling"])
    return sum_of(high, ((error + more) + lost * log) + (low + (series + _HALF_LOG_REST)))


def _near_gamma(size: Real) -> Pair:
    """``gamma(size)`` up to 8, or of numbers below 1 ``gamma(size + 1)``."""
    is_small = size.compare("lt", 1.0)
    above, lost = sum_of(size.of(1.0), size)
    within, product = _reduce_gamma(at_most(size, _LARGE_GAMMA), 1.0, 6)
    near = _row(GAMMA, above.where(is_small, within), lost.where(is_small, 0.0), int(_GAMMA_STEPS))
    return product_of_pairs(near, product)


def _is_pole(x: Real, size: Real) -> Node:
    is_whole = size.b.op("eq", size.node, size.b.op("floor", size.node))
    return size.b.op("and", x.compare("lt", 0.0), is_whole)


def _gamma_parts(x: Real, size: Real) -> tuple[Real, Real, Word]:
    """``gamma(x)`` as a sum of two numbers, and an exponent of 2.

    ``gamma(-s)`` is ``-pi / (s sin(pi s) gamma(s))``, and ``s gamma(s)`` is ``gamma(s + 1)``.
    """
    is_negative, is_small = x.compare("lt", 0.0), size.compare("lt", 1.0)
    is_large = size.compare("ge", _LARGE_GAMMA)
    *large, exponent = exp_of_sum(*_log_of_large(at_least(size, _LARGE_GAMMA)))
    high, low = (each.where(is_large, other) for each, other in zip(large, _near_gamma(size), strict=True))
    one, none = x.of(1.0), x.of(0.0)
    below = product_of_pairs((one.where(is_small, size), none), sine_of_turns(size))
    below = product_of_pairs(below, (high, low))
    top = x.of(-PI).where(is_negative, high), x.of(-PI_REST).where(is_negative, low)
    bottom = below[0].where(is_negative, size.where(is_small, one)), below[1].where(is_negative, none)
    zero = bits(none)
    exponent = exponent.where(is_large, zero)
    return (*quotient_of_pairs(top, bottom), (zero - exponent).where(is_negative, exponent))


def _gamma(x: Real) -> tuple[Real, Node]:
    size, b = abs(x), x.b
    high, low, exponent = _gamma_parts(x, size)
    is_usual = b.op("and", size.compare("ge", _TINY), size.compare("lt", _USUAL))
    holds = b.op("and", is_usual, b.op("not", _is_pole(x, size)))
    return (high + low) * (exponent + 1023 << 52).real(), holds


def _rare_gamma(x: Real) -> Real:
    size = abs(x)
    limited = x.b.op("lt", size.node, x.b.const(200.0, FLOAT64))
    half = at_most(size, 2.0**60) * 0.5
    floor = Real(x.b, x.b.op("floor", half.node))
    inner = size.where(limited, (half - floor) * 2.0 + 198.0)  # as even or odd below: the sign of what underflows
    found = scale_any(*_gamma_parts(with_sign(inner, x), inner))
    found = (1.0 / x).where(size.compare("lt", _TINY), found)
    found = x.of(_NAN).where(_is_pole(x, size), found)
    return x.where(x.compare("ne", x), found)


# --- the logarithm of its absolute value


def _log_of(x: Pair) -> Pair:
    """The logarithm of a sum of two numbers."""
    high, low = long_log(bits(x[0]))
    return high, low + x[1] / x[0]


def _positive_log(size: Real) -> Pair:
    """The logarithm of gamma of a positive number, not tiny nor huge."""
    is_small, is_between = size.compare("lt", 0.5), size.compare("ge", 3.0)
    none = size.of(0.0)
    above, lost = sum_of(size.of(1.0), at_most(size, 1.0))
    within, product = _reduce_gamma(at_most(size, _LARGE_GAMMA), 2.0, 6)
    place, lost = above.where(is_small, within.where(is_between, at_most(size, 3.0))), lost.where(is_small, 0.0)
    first, rest = two_sum(place, size.of(-2.0))
    less = sum_of(first, rest + lost)
    factor = size.where(is_small, place - 1.0)
    core = product_of_pairs(product_of_pairs(less, (factor, none)), _row(LOGARITHM, place, lost, 0))
    passed = size.where(is_small, product[0]), none.where(is_small, product[1])
    log = _log_of(passed)
    shifted = sum_of_pairs(core, (-log[0].where(is_small, -log[0]), -log[1].where(is_small, -log[1])))
    is_large = size.compare("ge", _LARGE_GAMMA)
    is_core = size.b.op("and", size.b.op("not", is_small), size.b.op("not", is_between))
    parts = zip(_log_of_large(at_least(size, _LARGE_GAMMA)), core, shifted, strict=True)
    high, low = (large.where(is_large, own.where(is_core, other)) for large, own, other in parts)
    return high, low


def _log_parts(x: Real, size: Real) -> Pair:
    positive = _positive_log(size)
    below = product_of_pairs((size, size.of(0.0)), sine_of_turns(size))
    sign = sign_of(below[0])
    log = _log_of((flip(below[0], sign), flip(below[1], sign)))
    total = sum_of_pairs(positive, log)
    total = sum_of_pairs(total, (x.of(-_LOG_PI), x.of(-_LOG_PI_REST)))
    is_negative = x.compare("lt", 0.0)
    return (-total[0]).where(is_negative, positive[0]), (-total[1]).where(is_negative, positive[1])


def _log_gamma(x: Real) -> tuple[Real, Node]:
    size, b = abs(x), x.b
    high, low = _log_parts(x, size)
    is_usual = b.op("and", size.compare("ge", _TINY), size.compare("lt", _HUGE))
    return high + low, b.op("and", is_usual, b.op("not", _is_pole(x, size)))


def _rare_log_gamma(x: Real) -> Real:
    size = abs(x)
    log, rest = long_log(bits(size * 2.0**54), 54)
    tiny = -(log + rest)
    log, rest = long_log(bits(size))
    high, low = product_with_log(size * 2.0**-30, log, rest)
    huge = (high + (low - size * 2.0**-30)) * 2.0**30
    found = tiny.where(size.compare("lt", _TINY), huge)
    is_infinite = x.b.op("or", _is_pole(x, size), size.compare("eq", _INFINITY))
    is_infinite = x.b.op("or", is_infinite, size.compare("eq", 0.0))
    found = x.of(_INFINITY).where(is_infinite, found)
    return x.where(x.compare("ne", x), found)


SPECIAL: dict[str, OwnFunction] = {
    "erf": OwnFunction(_erf, _rare_erf),
    "sinpi": OwnFunction(_sinpi, _rare_sinpi),
    "cospi": OwnFunction(_cospi, _rare_cospi),
    "erfc": OwnFunction(_erfc, _rare_erfc),
    "erfcx": OwnFunction(_erfcx, _rare_erfcx),
    "normcdf": OwnFunction(_normcdf, _rare_normcdf),
    "erfinv": OwnFunction(_erfinv, _rare_erfinv),
    "erfcinv": OwnFunction(_erfcinv, lambda y: _ends(y, 2.0)),
    "normcdfinv": OwnFunction(_normcdfinv, lambda p: -_ends(p, 1.0)),
    "tgamma": OwnFunction(_gamma, _rare_gamma),
    "lgamma": OwnFunction(_log_gamma, _rare_log_gamma),
}


# --- all definitions, and their programs

DEFINITIONS: dict[str, OwnFunction] = {**EXPONENTIALS, **TRIGONOMETRY, **SPECIAL}
BINARY = frozenset({"power", "arctan2", "hypot"})


@dataclass(frozen=True, slots=True)
class Float64Function:
    """The programs of a definition."""

    name: str
    common: Program
    """From the operands the value, and whether it holds."""
    rare: Program
    """The value of the others."""
    operands: int


@functools.cache
def float64_function(name: str) -> Float64Function:
    """The programs of a function."""
    operands = 1 + (name in BINARY)
    params = [Param(name=f"x{number}", dtype=FLOAT64) for number in range(operands)]
    definition = DEFINITIONS[name]
    b = Builder([*params, Param(name="value", dtype=FLOAT64), Param(name="holds", dtype=BOOL)])
    value, holds = definition.common(*(Real(b, b.load(number)) for number in range(operands)))
    common = b.program([Store(param=operands, value=value.node), Store(param=operands + 1, value=holds)])
    b = Builder([*params, Param(name="value", dtype=FLOAT64)])
    found = definition.rare(*(Real(b, b.load(number)) for number in range(operands)))
    return Float64Function(name, common, b.program([Store(param=operands, value=found.node)]), operands)


def is_own(node: Node, math: str) -> bool:
    """Whether a node is the call of such a function; one that a platform has may be the platform's."""
    is_exact = math == "exact" or node.attr in OWN
    return node.op == "call" and node.dtype == FLOAT64 and is_exact and node.attr in DEFINITIONS
