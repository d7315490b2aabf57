"""Exponentials, logarithms and powers of float64, each one definition for every engine.

Arguments are reduced by tables: of 2^(j/128) for exponentials (Tang, "Table-driven implementation of the exponential
function in IEEE floating-point arithmetic", ACM TOMS 15, 1989), of inverses of few bits for logarithms (Tang, ACM TOMS
16, 1990), whose products are exact, and of places where a function is nearly a float (Gal, "Computing elementary
functions", 1986). The constants are made by ``tools/float64_constants.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from xferlib.kernels.float64_arithmetic import (
    WHOLE,
    OwnFunction,
    Word,
    add,
    bits,
    head,
    read_constants,
    scale,
    split,
    sum_of,
    with_sign,
)
from xferlib.kernels.formulas import Real, polynomial
from xferlib.kernels.ir import Node, Table

_C = read_constants("float64_exponentials")
_INFINITY, _NAN = float("inf"), float("nan")
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

POWERS = Table("powers", (_C["powers"], _C["powers_rest"]))
"""The bits of 2^(j/128), less ``j << 45``; and what their rounding has left, divided by them."""

_STEPS, _STEP, _STEP_REST = _C["step"]
_LARGE = 700.0
"""Beyond, a result or a product on the way may overflow or be subnormal."""


def _reduce(x: Real) -> tuple[Real, Real, Real, Word]:
    """``x - n * ln(2) / 128`` rounded, its two terms, and the number n in the low bits."""
    shifted = x * _STEPS + WHOLE
    count = shifted - WHOLE
    near, low = x - count * _STEP, count * _STEP_REST
    return near - low, near, low, bits(shifted)


def _power_of(count: Word) -> tuple[Real, Real]:
    """``2 ** (count / 128)``, and what its rounding has left, divided by it."""
    row = count & 127
    return (row.bits_at(POWERS, 0) + (count << 45)).real(), row.at(POWERS, 1)


def _exp_less_one(rest: Real) -> Real:
    """``exp(rest) - 1``."""
    return rest + rest * rest * polynomial(rest, _C["exp"])


def _exp(x: Real) -> tuple[Real, Node]:
    rest, _, _, count = _reduce(x)
    power, missing = _power_of(count)
    return power + power * (missing + _exp_less_one(rest)), abs(x).compare("lt", _LARGE)


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


def _rare_exp(x: Real) -> Real:
    return _large_exp(x, 0)


def _large_exp(x: Real, factor: int) -> Real:
    """``exp(x) * 2 ** factor``."""
    rest, _, _, count = _reduce(clamp(x, 800.0))
    return x.where(x.compare("ne", x), _scale_power(count, _exp_less_one(rest), factor))


def _exp2_parts(x: Real) -> tuple[Real, Word]:
    shifted = x + WHOLE / 128
    rest = x - (shifted - WHOLE / 128)
    return rest * polynomial(rest, _C["exp2"]), bits(shifted)


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
    rest, near, low, count = _reduce(x)
    first = head(rest)
    second = (rest - first) + ((near - rest) - low)
    second = second + rest * rest * polynomial(rest, _C["expm1"])
    power, missing = _power_of(count)
    high, low = split(power)
    low = low + power * missing
    less, lost = add(high, x.of(-1.0))
    total, error = sum_of(less, high * first)
    return total, ((high * second + low * (first + second)) + low) + (error + lost)


def _expm1(x: Real) -> tuple[Real, Node]:
    high, low = _expm1_parts(x)
    return with_sign(high + low, x), abs(x).compare("lt", _LARGE)


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
    rest, near, low, count = _reduce(size)
    (power, missing), (inverse, inverse_missing) = _power_of(count), _power_of(bits(size.of(WHOLE)) - count)
    square = rest * rest
    return _Hyperbolic(
        rest, (near - rest) - low, power, power * missing, inverse, inverse * inverse_missing,
        square * polynomial(square, _C["cosh"]), rest * square * polynomial(square, _C["sinh"]),
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
    return with_sign((total + (error + (less_rest + low))) * 0.5, x), size.compare("lt", _LARGE)


def _rare_sinh(x: Real) -> Real:
    return with_sign(_large_exp(abs(x), -1), x)


def _cosh(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    h = _hyperbolic(size)
    more, error = sum_of(h.power, h.inverse)
    error = error + (h.power_rest + h.inverse_rest)
    low = more * h.even + (h.power - h.inverse) * (h.rest + h.odd)
    return (more + (error + low)) * 0.5, size.compare("lt", _LARGE)


def _rare_cosh(x: Real) -> Real:
    return _large_exp(abs(x), -1)


TANH = Table("tanh", (_C["tanh_place"], _C["tanh_value"]))
_TANH_LEAST, _TANH_MOST = 0x3FC0000000000000, 0x4036000000000000
"""The bits of 1/8, below which there is no table, and of 22, where the value is 1."""


def _tanh(x: Real) -> tuple[Real, Node]:
    """``tanh(c + r)`` by the sum of arguments: ``t + (1 - t^2) tanh(r) / (1 + t tanh(r))``."""
    size = bits(abs(x)).minimum(_TANH_MOST)
    row = (size.maximum(_TANH_LEAST - (1 << 46)) - (_TANH_LEAST - (1 << 46))) >> 46
    known = row.at(TANH, 1)
    rest = size.real() - row.at(TANH, 0)
    square = rest * rest
    small = rest + rest * square * polynomial(square, _C["tanh"])
    slope = (1.0 - known) * (1.0 + known)
    value = known + slope * small / (1.0 + known * small)
    return with_sign(value, x), x.compare("eq", x)


def _rare_tanh(x: Real) -> Real:
    return x


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
    table = Table(name, (_C["inverse"], _C[f"{name}_head"], _C[f"{name}_rest"]))
    (two, two_rest), (factor, factor_rest) = _C[f"{name}_two"], _C[f"{name}_factor"]
    return _Base(table, two, two_rest, factor, factor_rest, _C[f"{name}_tail"])


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


def log_of_number(x: Word, lost: int = 0) -> Real:
    """The natural logarithm of a positive number of these bits, divided by ``2 ** lost``."""
    return _log_in(_NATURAL, x, lost)


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
    near, error = add(x.of(1.0), x)
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
    high, low = add(size.of(1.0), square)
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
    high, low = add(less + less, square)
    root, root_rest = _root(high, low + square_rest)
    total, error = add(less, root)
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

CBRT = Table("cbrt", (_C["cbrt_place"], _C["cbrt_inverse"], _C["cbrt_value"]))
RSQRT = Table("rsqrt", (_C["rsqrt_place"], _C["rsqrt_inverse"], _C["rsqrt_value"]))
_ONE = 0x3FF << 52


def _near(table: Table, name: str, x: Word, row: Word) -> Real:
    """A power of x: at a place of the table, times the power of the quotient, which is nearly 1."""
    value = row.at(table, 2)
    rest = (x.real() - row.at(table, 0)) * row.at(table, 1)
    return value + value * (rest * polynomial(rest, _C[name]))


def _cbrt_of(size: Word) -> Real:
    """The cube root of a normal number."""
    exponent = ((size >> 52) | 0x4330000000000000).real() - (2.0**52 + 1023)
    third = bits(exponent * (1 / 3) + WHOLE) << 52
    fraction = size - third - (third << 1)  # from 1/2 to 4
    value = _near(CBRT, "cbrt", fraction, (fraction >> 46) - (0x3FE << 6))
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
    value = _near(RSQRT, "rsqrt", fraction, (fraction >> 45) - (0x3FF << 7))
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
    total, error = add(a, c)
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
    tail = rest * (rest * rest) * polynomial(rest, _C["log_cubic"])
    small = (parts.row.at(table, 2) + parts.count * _NATURAL.two_rest) + tail
    return sum_of(high, (error + more) + (small - (rest + first) * 0.5 * second))


def product_with_log(y: Real, log: Real, log_rest: Real) -> tuple[Real, Real]:
    """``y * log`` in two parts, the first of which is exact."""
    (a, a_rest), (c, c_rest) = split(y), split(log)
    return a * c, (a * c_rest + a_rest * log) + y * log_rest


def _reduce_sum(x: Real, more: Real) -> tuple[Real, Word]:
    shifted = (x + more) * _STEPS + WHOLE
    count = shifted - WHOLE
    return ((x - count * _STEP) - count * _STEP_REST) + more, bits(shifted)


def exp_of_sum(x: Real, more: Real) -> tuple[Real, Real, Word]:
    """``exp(x + more)``, of up to some 800, as a sum of two numbers, from 1 to 2, and an exponent of 2."""
    rest, count = _reduce_sum(x, more)
    return _power_parts(count, _exp_less_one(rest))


def _power(x: Real, y: Real) -> tuple[Real, Node]:
    size = bits(abs(x))
    high, low = product_with_log(y, *long_log(size))
    rest, count = _reduce_sum(high, low)
    power, missing = _power_of(count)
    value = power + power * (missing + _exp_less_one(rest))
    whole = y + WHOLE  # whose last bit says whether y is odd
    sign = (bits(whole) << 63) & bits(x)
    is_right = _either(x, x.compare("gt", 0.0), (whole - WHOLE).compare("eq", y))
    is_plain = _both(x, _is_normal(size), abs(high).compare("lt", _LARGE), abs(y).compare("lt", 2.0**51))
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
    "exp": OwnFunction(_exp, _rare_exp),
    "exp2": OwnFunction(_exp2, _rare_exp2),
    "expm1": OwnFunction(_expm1, _rare_expm1),
    "log": _make_log(_NATURAL),
    "log2": _make_log(_BINARY),
    "log10": _make_log(_DECIMAL),
    "log1p": OwnFunction(_log1p, _rare_log1p),
    "sinh": OwnFunction(_sinh, _rare_sinh),
    "cosh": OwnFunction(_cosh, _rare_cosh),
    "tanh": OwnFunction(_tanh, _rare_tanh),
    "arcsinh": OwnFunction(_arcsinh, _rare_arcsinh),
    "arccosh": OwnFunction(_arccosh, _rare_arccosh),
    "arctanh": OwnFunction(_arctanh, _rare_arctanh),
    "cbrt": OwnFunction(_cbrt, _rare_cbrt),
    "rsqrt": OwnFunction(_rsqrt, _rare_rsqrt),
    "hypot": OwnFunction(_hypot, _rare_hypot),
    "power": OwnFunction(_power, _rare_power),
}
