"""Trigonometric float64 functions: special values, angles next to multiples of pi / 2.

What holds for every own float64 function is in ``test_float64_functions.py``.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.bits import same_bits, specials
from tools.ulp_oracle import half_pi
from xferlib.kernels.float64_functions import LARGEST_REDUCED, read_constants
from xferlib.kernels.functions import guarantee
from xferlib.kernels.numpy_functions import own_function

A = np.ndarray[Any, Any]
INF, NAN, PI = math.inf, math.nan, math.pi
SPECIAL: dict[str, list[tuple[float, float]]] = {
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (5e-324, 5e-324), (-1e-310, -1e-310)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (5e-324, 1.0)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (5e-324, 5e-324), (-1e-310, -1e-310)],
    "arcsin": [
        (0.0, 0.0), (-0.0, -0.0), (1.0, PI / 2), (-1.0, -PI / 2), (1.0 + 2.0**-52, NAN), (-INF, NAN), (NAN, NAN),
        (5e-324, 5e-324), (-1e-310, -1e-310),
    ],
    "arccos": [
        (0.0, PI / 2), (-0.0, PI / 2), (1.0, 0.0), (-1.0, PI), (1.0 + 2.0**-52, NAN), (-1.5, NAN), (INF, NAN),
        (NAN, NAN), (1e-300, PI / 2),
    ],
    "arctan": [
        (0.0, 0.0), (-0.0, -0.0), (INF, PI / 2), (-INF, -PI / 2), (NAN, NAN), (5e-324, 5e-324), (-1e-310, -1e-310),
        (1.0, PI / 4), (1e300, PI / 2), (-1e120, -PI / 2),
    ],
}  # fmt: skip
WORST = [
    6381956970095103 * 2.0**797,
    math.ldexp(6411027962775774, -48),
    5.319372648326541416707296656673541083813475e255,
]
"""Floats that are next to a multiple of pi / 2."""


def run(name: str, *operands: Any) -> A:
    given = [np.asarray(each, np.float64) for each in operands]
    out = np.empty(given[0].shape)
    with np.errstate(all="ignore"):
        own_function(name)(*given, out)
    return out


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str) -> None:
    x, expected = np.array(SPECIAL[name]).T.copy()
    assert same_bits(run(name, x), expected)


def test_arctan2_of_special_values() -> None:
    """C's values, annex F; those of ordinary numbers within the bound of the C library's and this one."""
    y, x = (each.ravel() for each in np.meshgrid(specials("float64"), specials("float64")))
    with np.errstate(all="ignore"):
        found, known = run("arctan2", y, x), np.arctan2(y, x)
        is_special = (y == 0) | (x == 0) | ~np.isfinite(y) | ~np.isfinite(x)
        assert same_bits(found[is_special], known[is_special])
        assert np.array_equal(np.signbit(found), np.signbit(known) & ~np.isnan(found))
        assert np.all(np.abs(found - known)[~is_special] <= 2 * np.spacing(np.abs(known[~is_special])))


def exact(name: str, x: float) -> Fraction:
    """The sine, cosine or tangent to some 2^-200, by integers."""
    bits = 1300
    half = half_pi()
    scaled = int(Fraction(x) * (1 << bits))
    multiple = (2 * scaled + half) // (2 * half)
    rest = Fraction(scaled - multiple * half, 1 << bits)
    powers = [Fraction(1)]
    for k in range(1, 60):
        powers.append(Fraction(int(powers[-1] * rest / k * (1 << bits)), 1 << bits))
    sums = [sum(powers[k::4], Fraction()) for k in range(4)]
    sine, cosine = sums[1] - sums[3], sums[0] - sums[2]
    for _ in range(multiple % 4):
        sine, cosine = cosine, -sine
    return {"sin": sine, "cos": cosine, "tan": sine / cosine}[name]


def is_within_the_bound(name: str, x: float) -> bool:
    found, bound = float(run(name, [x])[0]), guarantee(name, "float64").bound_ulp
    assert bound is not None
    return abs(Fraction(found) - exact(name, x)) <= Fraction(float(np.spacing(abs(found)))) * Fraction(bound)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@given(
    x=st.sampled_from(WORST)
    | st.floats(-1e5, 1e5, allow_subnormal=False)
    | st.floats(1e4, allow_infinity=False)
    | st.builds(math.ldexp, st.integers(1 << 52, (1 << 53) - 1), st.integers(-60, 971))
    | st.integers(1, 10**9).map(lambda n: n * (PI / 2))
)
def test_any_angle(name: str, x: float) -> None:
    assert x == 0 or abs(x) < 1e-100 or is_within_the_bound(name, x)


def test_the_reduction_holds_up_to_its_limit() -> None:
    """The rest of the floats next to multiples of pi / 2 is right to 2^-60 of itself."""
    inverse, *parts = read_constants("float64_trigonometry")["step"]
    count = np.arange(1, int(LARGEST_REDUCED / (PI / 2)) + 1)
    near = count * (PI / 2)
    for x in (np.nextafter(near, 0), near, np.nextafter(near, INF)):
        steps = np.rint(x * inverse)
        above, step = x - steps * parts[0], steps * parts[1]
        rest = above - step
        lost = ((above - rest) - step) - steps * parts[2]
        for k in np.argsort(np.abs(rest) / count)[:300].tolist():
            right = Fraction(float(x[k])) - int(count[k]) * Fraction(half_pi(), 1 << 1300)
            assert abs(Fraction(float(rest[k])) + Fraction(float(lost[k])) - right) <= abs(right) / (1 << 60)
