"""sin, cos and tan of large float64 arguments next to multiples of π/2."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools import ulp_oracle
from tools.kernel_ulp import kernel_of
from xferlib.kernels import numpy_functions as large_angles
from xferlib.kernels.functions import guarantee

mpmath = pytest.importorskip("mpmath")

NEAREST = ulp_oracle._nearest_to_halves_of_pi()
NAMES = ("sin", "cos", "tan")


def distance_ulp(name, x, actual):
    with mpmath.workprec(2600):
        expected = getattr(mpmath, name)(mpmath.mpf(x))
        unit = mpmath.ldexp(1, mpmath.frexp(expected)[1] - 53)
        return abs(mpmath.mpf(actual) - expected) / unit


def test_half_pi():
    with mpmath.workprec(1400):
        assert large_angles.half_pi() == int(mpmath.floor(mpmath.pi / 2 * mpmath.mpf(2) ** 1300))


@pytest.mark.parametrize("name", NAMES)
def test_arrays_without_axes(name):
    for value in (float(NEAREST[0]), 1e300, np.nan, np.inf):
        x = np.array(value)
        assert np.array_equal(kernel_of(name)(x), kernel_of(name)(x.reshape(1))[0], equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
def test_the_nearest_arguments_of_all(name, engine):
    x = np.concatenate([NEAREST[::23], -NEAREST[::29], [0.5, 1e300, 6381956970095103 * 2.0**797]])
    actual = engine.get(kernel_of(name)(engine.put(x)))
    for each, value in zip(x.tolist(), actual.tolist(), strict=True):
        assert distance_ulp(name, each, value) <= guarantee(name, "float64").bound_ulp, each.hex()


@pytest.mark.parametrize("name", NAMES)
@given(place=st.integers(0, NEAREST.size - 1), step=st.integers(-3, 3), sign=st.sampled_from([1, -1]))
@settings(max_examples=40)
def test_their_neighbours(name, place, step, sign):
    x = sign * float(NEAREST[place]) * (1 + step * 2.0**-52)
    actual = kernel_of(name)(np.array([x, x, 1.0]))
    assert distance_ulp(name, x, float(actual[0])) <= guarantee(name, "float64").bound_ulp


@pytest.mark.parametrize("name", NAMES)
def test_only_arguments_near_a_multiple_are_corrected(name):
    x = np.array([1e9, 3.0, np.inf, np.nan, 0.0, -2e200])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    assert kernel_of(name)(x)[[0, 1, 4, 5]].tolist() == expected[[0, 1, 4, 5]].tolist()
    assert np.isnan(kernel_of(name)(x)[[2, 3]]).all()


def test_the_mending_matters():
    """Or the C library has been mended, and this module may go."""
    if not hasattr(np, "longdouble") or not ulp_oracle.IS_PRECISE:
        pytest.skip("the figures are those of glibc on x86-64")
    plain = ulp_oracle.worst("sin", [NEAREST], np.sin(NEAREST))[0]
    ours = ulp_oracle.worst("sin", [NEAREST], kernel_of("sin")(NEAREST))[0]
    assert ours < 1
    assert plain >= ours
