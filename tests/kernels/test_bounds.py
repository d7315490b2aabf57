"""The published bounds hold on every device, and so do the figures kept."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import targets
from tools import kernel_ulp, ulp_oracle
from tools.kernel_ulp import kernel_of
from xferlib.kernels.functions import ALIASES, CALLS, TABLE, find, guarantee

mpmath = pytest.importorskip("mpmath")
pytestmark = pytest.mark.skipif(not ulp_oracle.IS_PRECISE, reason="long double is no wider than float64 here")

ROOT = Path(__file__).parent.parent.parent
ROWS = kernel_ulp.rows()


@pytest.mark.parametrize("row", ROWS, ids="-".join)
@pytest.mark.parametrize("name", targets.NAMES)
def test_every_bound_holds_on_every_device(row, name):
    target = targets.target(name)
    function, dtype = row
    inputs = ulp_oracle.inputs_of(function, dtype, 10_000, seed=3)
    actual = target.get(kernel_ulp.kernel_of(function)(*map(target.put, inputs)))
    ulp, place = ulp_oracle.worst(function, inputs, actual)
    bound = guarantee(function, dtype).bound_ulp
    assert bound is not None
    assert ulp <= bound, place


def test_every_row_has_a_figure_within_its_bound():
    figures = json.loads(kernel_ulp.FIGURES.read_text())
    assert {(name, dtype) for dtype, found in figures["x86-64"].items() for name in found} == set(ROWS)
    for column, dtypes in figures.items():
        for dtype, found in dtypes.items():
            for name, figure in found.items():
                assert figure["ulp"] <= guarantee(name, dtype).bound_ulp, (column, name, dtype)


def precisely(mpmath, name, is_complex, operands):
    """The function in the working precision of mpmath."""
    if name in ("divide", "reciprocal"):
        return operands[0] / operands[1] if name == "divide" else 1 / operands[0]
    pairs = {"power": mpmath.power, "arctan2": mpmath.atan2, "hypot": mpmath.hypot}
    if name in pairs:
        return pairs[name](*operands)
    if is_complex:
        from tests.kernels.test_complex import exact

        return exact(name, operands[0])
    from tools.kernel_hard_cases import exact as exact_real

    return exact_real(mpmath, name, operands[0])


@pytest.mark.parametrize("row", ROWS, ids="-".join)
def test_the_oracle_is_right(row):
    mpmath = pytest.importorskip("mpmath")
    name, dtype = row
    inputs = ulp_oracle.inputs_of(name, dtype, 28, seed=4)
    info = np.finfo(dtype)
    is_complex = np.dtype(dtype).kind == "c"
    limit = 1e4 if is_complex and name in ulp_oracle.EXPONENTIALS + ulp_oracle.CIRCULAR else np.inf
    with np.errstate(all="ignore"), mpmath.workprec(2600):
        found = ulp_oracle.exact(name, *inputs)
        for place, operands in enumerate(zip(*inputs, strict=True)):
            value = (found[0][place], found[1][place]) if is_complex else (found[place], np.longdouble(0))
            size = np.hypot(*value)
            is_plain = size <= info.max and all(abs(each) < limit for each in operands)
            if not is_plain or all(each == 0 for each in operands):  # mpmath has no -0
                continue
            numbers = [mpmath.mpmathify(each.item()) for each in operands]
            unit = mpmath.mpf(float(ulp_oracle.spacing(size, info.dtype)))
            real, imag = (mpmath.mpf(np.format_float_scientific(each, precision=25)) for each in value)
            away = abs(mpmath.mpc(real, imag) - precisely(mpmath, name, is_complex, numbers)) / unit
            assert away < 0.02, (operands, value)


def test_a_result_beyond_its_bound_is_found():
    inputs = ulp_oracle.inputs_of("tanh", "float64", 1000, seed=5)
    exact = ulp_oracle.exact("tanh", *inputs).astype(np.float64)
    exact[500] = np.nextafter(np.nextafter(exact[500], 2), 2)
    ulp, place = ulp_oracle.worst("tanh", inputs, exact)
    assert 1.5 <= ulp <= 2.5
    assert place == float(inputs[0][500]).hex()


def test_a_nan_or_an_infinity_too_many_is_found():
    inputs = [np.array([0.5, 0.25])]
    assert ulp_oracle.worst("exp", inputs, np.array([np.nan, np.exp(0.25)]))[0] == np.inf
    assert ulp_oracle.worst("exp", inputs, np.array([np.inf, np.exp(0.25)]))[0] > 1e15


# --- sin, cos and tan of large float64 arguments next to multiples of π/2


NEAREST = ulp_oracle._nearest_to_halves_of_pi()
NAMES = ("sin", "cos", "tan")


def distance_ulp(name, x, actual):
    with mpmath.workprec(2600):
        expected = getattr(mpmath, name)(mpmath.mpf(x))
        unit = mpmath.ldexp(1, mpmath.frexp(expected)[1] - 53)
        return abs(mpmath.mpf(actual) - expected) / unit


def test_half_pi():
    with mpmath.workprec(1400):
        assert ulp_oracle.half_pi() == int(mpmath.floor(mpmath.pi / 2 * mpmath.mpf(2) ** 1300))


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


# --- the table of guarantees: complete and published


def test_every_array_api_function_is_there():
    names = [
        "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
        "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil",
        "conj", "copysign", "cos", "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide",
        "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan", "less", "less_equal",
        "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or",
        "logical_xor", "maximum", "minimum", "multiply", "negative", "nextafter", "not_equal", "positive",
        "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square",
        "subtract", "tan", "tanh", "trunc",
    ]  # fmt: skip
    assert [name for name in names if find(name) is None] == []


def test_aliases_lead_somewhere():
    assert set(ALIASES.values()) <= set(TABLE)


@pytest.mark.parametrize("name", CALLS)
def test_float32_functions_are_correctly_rounded_and_float64_ones_bounded(name):
    assert guarantee(name, "float32").bound_ulp == 0.5
    assert str(guarantee(name, np.float64)) == "0.52 ulp"


def test_unknown_function_or_dtype():
    with pytest.raises(KeyError, match="no function 'sinc'"):
        guarantee("sinc", "float32")
    with pytest.raises(KeyError, match="of complex64"):
        guarantee("floor", "complex64")


def test_words():
    assert str(guarantee("add", "int8")) == "exact"
    assert str(guarantee("exp", "float32")) == "correctly rounded"
    assert str(guarantee("exp", "float64")) == "0.52 ulp"
    assert str(guarantee("remainder", "float64")) == "fixed formula"
