"""The form of definitions of float64 functions, their constants, and operators on bits and on sums of two floats.

Only rounded operations take part, and none is fused: not every processor multiplies and adds in one instruction, and
NumPy never does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xferlib.kernels.formulas import Real, two_product, two_sum
from xferlib.kernels.ir import BOOL, FLOAT64, UINT64, Builder, Column, Node, Table

_MASK = (1 << 64) - 1


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
    """The constants of a module, from the text file beside it: lines ``name: value value ...``."""
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


def always(b: Builder) -> Node:
    """The condition of a value that always holds."""
    return b.const(True, BOOL)


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


def add(x: Real, y: Real) -> tuple[Real, Real]:
    """The rounded sum of any two numbers and its rounding error (Knuth, TAOCP 2, section 4.2.2)."""
    return two_sum(x, y)


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
    high, low = add(x[0], y[0])
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
