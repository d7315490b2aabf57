"""Zeros, infinities, NaNs, subnormal and huge parts of complex numbers: C's values (ISO C, annex G), signs included."""

import cmath
import itertools
import math
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tools.kernel_ulp import kernel_of
from xferlib.kernels import elementwise

INF, NAN = math.inf, math.nan
PLAIN = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, INF, -INF, NAN]
EXTREME = {"complex64": [1e-44, -1e-44, 1e38, -1e38, 3e38], "complex128": [1e-310, -1e-310, 1e308, -1e308, 1.7e308]}
NAMES = ("exp", "log", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan",
         "arcsinh", "arccosh", "arctanh")  # fmt: skip
divide = elementwise(lambda x, y: x / y, name="divide")


def parts_of(dtype):
    part = np.empty(0, dtype).real.dtype
    return [float(part.type(each)) for each in PLAIN + EXTREME[dtype]]


def complexes(real, imag, dtype):
    z = np.empty(np.shape(real), dtype)
    z.real, z.imag = real, imag
    return z


def leaves_sign_open(name, z):
    """Zero parts whose sign C does not determine: where the other function of the plane has no limit there."""
    is_x, is_y = cmath.isinf(complex(z.real, 0)), cmath.isinf(complex(0, z.imag))
    return {
        "exp": z.real == -INF and not math.isfinite(z.imag),
        "tanh": is_x and not math.isfinite(z.imag),
        "tan": is_y and not math.isfinite(z.real),
        "arctan": is_x and math.isnan(z.imag),
        "arctanh": is_y and math.isnan(z.real),
    }.get(name, False)


def agrees(name, z, actual, expected, info):
    """Whether each part is C's: infinities, NaNs and zeros with their signs, the rest nearly."""
    is_open = math.isnan(expected.real) or math.isnan(expected.imag) or leaves_sign_open(name, z)
    for one, two in ((actual.real, expected.real), (actual.imag, expected.imag)):
        if math.isnan(one) or math.isnan(two):
            if math.isnan(one) != math.isnan(two):
                return False
        elif one == 0 or two == 0 or math.isinf(one) or math.isinf(two):
            if abs(one) != abs(two) or not (is_open or math.copysign(1, one) == math.copysign(1, two)):
                return False
        elif abs(one - two) > 64 * info.eps * abs(two) + 4 * info.smallest_subnormal:
            return False
    return True


def differences(name, dtype, reference):
    """The rows of the reference, pairs of operand and value, that the kernel does not agree with."""
    z = complexes([each.real for each, _ in reference], [each.imag for each, _ in reference], dtype)
    actual = kernel_of(name)(z)
    triples = zip((each for each, _ in reference), actual.tolist(), (value for _, value in reference), strict=True)
    return [each for each in triples if not agrees(name, *each, np.finfo(dtype))]


@pytest.fixture(scope="module")
def c_tables(tmp_path_factory):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    program = tmp_path_factory.mktemp("c") / "c_complex"
    source = Path(__file__).with_name("c_complex.cpp")
    subprocess.run([str(compiler), "-O0", "-o", str(program), str(source)], check=True)
    tables: dict[Any, Any] = {}
    for dtype in EXTREME:
        text = subprocess.run(
            [program, dtype, *map(float.hex, parts_of(dtype))], check=True, capture_output=True, text=True
        ).stdout
        for line in text.splitlines():
            kind, name, *numbers = line.split()
            x, y, u, v = map(float.fromhex, numbers)
            tables.setdefault((kind, name), []).append((complex(x, y), complex(u, v)))
    return tables


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", NAMES)
def test_values_are_those_of_c(name, dtype, c_tables):
    assert differences(name, dtype, c_tables[dtype, name]) == []


# --- division


def pairs(dtype):
    grid = np.array(list(itertools.product(parts_of(dtype), repeat=4)))
    return complexes(grid[:, 0], grid[:, 1], dtype), complexes(grid[:, 2], grid[:, 3], dtype)


def is_zero(z):
    return z.real == 0 and z.imag == 0


def is_finite(z):
    return math.isfinite(z.real) and math.isfinite(z.imag)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_quotients_are_infinite_zero_or_nan_as_in_c(dtype):
    """Annex G.5.1: infinite / finite and non-zero / 0 are infinite, finite / infinite is zero."""
    x, y = pairs(dtype)
    for top, bottom, quotient in zip(x.tolist(), y.tolist(), divide(x, y).tolist(), strict=True):
        where = top, bottom, quotient
        if cmath.isinf(top) and is_finite(bottom):
            assert cmath.isinf(quotient), where
        elif is_finite(top) and cmath.isinf(bottom):
            assert is_zero(quotient), where
        elif is_zero(bottom) and not is_zero(top) and not cmath.isnan(top):
            assert cmath.isinf(quotient), where
        elif (is_zero(top) and is_zero(bottom)) or (cmath.isinf(top) and cmath.isinf(bottom)):
            assert cmath.isnan(quotient), where


def exact_quotient(top, bottom):
    x, y, u, v = (Fraction(each) for each in (top.real, top.imag, bottom.real, bottom.imag))
    size = u * u + v * v
    return (x * u + y * v) / size, (y * u - x * v) / size


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_quotients_of_extreme_numbers_are_near_the_exact_ones(dtype):
    x, y = pairs(dtype)
    is_plain = np.isfinite(x) & np.isfinite(y) & (y != 0)
    x, y = x[is_plain][::29], y[is_plain][::29]
    info = np.finfo(dtype)
    for top, bottom, quotient in zip(x.tolist(), y.tolist(), divide(x, y).tolist(), strict=True):
        expected = exact_quotient(top, bottom)
        largest = max(map(abs, expected))
        for one, two in zip((quotient.real, quotient.imag), expected, strict=True):
            if abs(two) >= Fraction(float(info.max)):
                assert math.isinf(one) or abs(one) == info.max, (top, bottom, quotient)
            elif math.isfinite(quotient.real) and math.isfinite(quotient.imag):
                bound = 4 * (largest * Fraction(float(info.eps)) + Fraction(float(info.smallest_subnormal)))
                assert abs(Fraction(one) - two) <= bound, (top, bottom, quotient)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_inverse_of_infinity_is_zero(dtype):
    endless = complexes([INF, -INF, 0.0, INF, NAN], [0.0, NAN, -INF, INF, INF], dtype)
    assert np.all(elementwise(lambda z: 1 / z)(endless) == 0)
