"""Trigonometric functions of float64 and their inverses, each one definition for every engine.

Sine and cosine add the angle's rest to one of 64 angles of a full turn, whose sines a table has; the product that
decides the last bit is exact, because the table's sines have 26 bits and a second number for what is left. The
reduction is that of Cody and Waite, "Software Manual for the Elementary Functions", 1980; of large angles that of Payne
and Hanek, "Radian reduction for trigonometric functions", ACM SIGNUM Newsletter 18, 1983. The constants are made by
``tools/float64_constants.py``.
"""

from __future__ import annotations

import itertools

from xferlib.kernels.float64_arithmetic import (
    SIGN,
    WHOLE,
    OwnFunction,
    Word,
    always,
    bits,
    head,
    read_constants,
    sum_of,
)
from xferlib.kernels.formulas import Real, polynomial, two_product
from xferlib.kernels.ir import Node, Table

_C = read_constants("float64_trigonometry")

SINES = Table("sines", (_C["sine"], _C["sine_rest"]))
"""The sine of ``2 * pi * row / 64`` in 26 bits, and the rest of it; the cosine is 16 rows further."""
TURNS = Table("turns", (_C["turns"],))
"""The bits of ``1 / (2 * pi)``, 32 in a row, from the place 2^64 on."""
ANGLES = Table("angles", (_C["centre"], _C["angle"], _C["angle_rest"]))
"""Tangents of six bits, and their angles in two parts; before them 0, behind them a tangent without end."""

_STEPS, *_PARTS = _C["step"]
_STEP, _STEP_REST = _C["whole_step"]
PI, PI_REST = _C["pi"]
_INFINITY = float("inf")
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


def _reduce(size: Real) -> Angle:
    first, second, third = _PARTS
    shifted = size * _STEPS + WHOLE
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
    found, error = two_product(rest, size.of(_STEP))
    return (moved >> 26) & 63, found, error + (rest * _STEP_REST + lost * _STEP)


def sine_of(angle: Angle, *, quarters: int = 0) -> tuple[Real, Real]:
    """The sine of an angle and some quarters of a turn, as a sum of two numbers."""
    row, rest, lost = angle
    row = row + _QUARTER * quarters if quarters else row
    sine, sine_rest = row.at(SINES, 0), row.at(SINES, 1)
    cosine, cosine_rest = (row + _QUARTER).at(SINES, 0), (row + _QUARTER).at(SINES, 1)
    near = head(rest, 26)
    square = rest * rest
    bent = square * polynomial(square, _C["cos"])
    cubic = (rest * square) * polynomial(square, _C["sin"])
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
    small = ((rest - near) + lost) + (rest * square) * polynomial(square, _C["tan"])
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
    return flip(sine(_reduce(size)), sign_of(x)), _holds(size)


def _cos(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    return cosine(_reduce(size)), _holds(size)


def _tan(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    return flip(_tangent_of(_reduce(size)), sign_of(x)), _holds(size)


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
    return tangent * square * polynomial(square, _C["arctan"])


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
    bent = polynomial(square, _C["arcsin"])
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
    return flip(found, sign_of(x)), always(x.b)


def _arccos(x: Real) -> tuple[Real, Node]:
    size = abs(x)
    is_far, sign = _is_far(size), sign_of(x)
    is_left = (sign & 0) - (sign >> 63)
    far = [bits(x.of(each)) & is_left for each in (PI, PI_REST)]
    half = [bits(x.of(each / 2)) for each in (PI, PI_REST)]
    base, base_rest = (((one ^ other) & is_far ^ other).real() for one, other in zip(far, half, strict=True))
    factor = flip(_with_mask(is_far, 2.0, -1.0), sign)
    return _add_arcsine(size, is_far, base, base_rest, factor), always(x.b)


TRIGONOMETRY: dict[str, OwnFunction] = {
    "sin": OwnFunction(_sin, _rare_sin),
    "cos": OwnFunction(_cos, _rare_cos),
    "tan": OwnFunction(_tan, _rare_tan),
    "arcsin": OwnFunction(_arcsin, lambda x: _arcsin(x)[0]),
    "arccos": OwnFunction(_arccos, lambda x: _arccos(x)[0]),
    "arctan": OwnFunction(_arctan, _rare_arctan),
    "arctan2": OwnFunction(_arctan2, _rare_arctan2),
}
