"""Functions of complex numbers: within their bounds, with C's special values, the same everywhere."""

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

from tests.kernels.bits import same_bits
from tests.kernels.emulated import as_cuda
from tests.sizes import some
from tools.kernel_ulp import kernel_of
from xferlib.kernels import elementwise
from xferlib.kernels.complex_formulas import FORMULAS
from xferlib.kernels.functions import TABLE, guarantee
from xferlib.kernels.python_frontend import NAMESPACE

mpmath = pytest.importorskip("mpmath")

PLAIN = [name for name in FORMULAS if name != "sign"]
SHORT = {f"arc{name}{h}": f"a{name}{h}" for name in ("sin", "cos", "tan") for h in ("", "h")}


def kernel(name):
    call = getattr(NAMESPACE, name)
    return elementwise(lambda z: call(z), name=name)


def points(dtype):
    """Ordinary, tiny, huge, near the unit circle, near 1, -1, i and -i."""
    rng = np.random.default_rng(11)
    part = np.dtype(dtype).type(0).real.dtype
    largest = 37 if part == np.float32 else 300
    count = 12
    normal, near = (
        rng.standard_normal((2, count)),
        10 ** rng.uniform(-9, -1, (2, count)) * rng.standard_normal((2, count)),
    )
    turn, size = rng.uniform(-np.pi, np.pi, count), 1 + near[0]
    sign = rng.choice([-1, 1], (2, count))
    groups = [
        normal,
        normal * 40,
        sign * 10 ** rng.uniform(-largest, largest, (2, count)),
        np.array([size * np.cos(turn), size * np.sin(turn)]),
        np.array([sign[0] + near[0], near[1]]),
        np.array([near[1], sign[0] + near[0]]),
    ]
    real, imag = np.concatenate(groups, axis=1).astype(part)
    result = np.empty(real.size, dtype)
    result.real, result.imag = real, imag
    return result


def exact(name, z):
    z = mpmath.mpc(z)
    if name in ("expm1", "log1p"):
        return mpmath.exp(z) - 1 if name == "expm1" else mpmath.log(1 + z)
    if name in ("log2", "log10"):
        return mpmath.log(z) / mpmath.log(int(name[3:]))
    if name == "sign":
        return z / abs(z)
    return getattr(mpmath, SHORT.get(name, name))(z)


def distance_ulp(actual, expected, dtype):
    """The distance of a complex result in ulp of the exact absolute value."""
    info = np.finfo(dtype)
    exponent = max(int(mpmath.floor(mpmath.log(abs(expected), 2))), int(info.minexp))
    return mpmath.hypot(actual.real - expected.real, actual.imag - expected.imag) / mpmath.ldexp(
        1, exponent - info.nmant
    )


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", FORMULAS)
def test_results_are_within_their_bounds(name, dtype, target):
    pool = points(dtype)
    if name in ("exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh"):
        pool = pool[np.abs(pool) < 1e4]  # beyond, results overflow, or need thousands of digits to be checked
    results = target.get(kernel(name)(target.put(pool)))
    bound = guarantee(name, dtype).bound_ulp
    largest = float(np.finfo(dtype).max)
    with mpmath.workprec(2600):
        for z, result in some([*zip(pool.tolist(), results.tolist(), strict=True)], 3, name):
            expected = exact(name, z)
            if max(abs(expected.real), abs(expected.imag)) < largest:
                assert distance_ulp(result, expected, dtype) <= bound, (z, result)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_powers(dtype):
    power = elementwise(lambda z, w: z**w)
    z = points(dtype)[:12]
    w = np.roll(z, 7)
    expected = np.exp(w.astype(np.complex128) * np.log(z.astype(np.complex128)))
    np.testing.assert_allclose(power(z, w), expected, rtol=200 * np.finfo(dtype).eps)
    assert power(np.zeros(1, dtype), np.full(1, 2 + 1j, dtype))[0] == 0
    assert power(np.zeros(1, dtype), np.zeros(1, dtype))[0] == 1


def test_rounding_takes_each_part():
    assert elementwise(lambda z: NAMESPACE.round(z))(np.array([1.5 - 2.5j]))[0] == 2 - 2j


def test_c_snippets_know_them_too(target):
    snippet = elementwise("T z", "T w", "w = sin(z) * sqrt(z) + pow(z, z)")
    z = points("complex64")[:12]
    assert same_bits(target.get(snippet(target.put(z))), snippet(z))


def test_every_formula_has_a_bound():
    assert {name for name, each in TABLE.items() if each.complex_ulp} == FORMULAS.keys() | {"divide", "reciprocal"}


PARTS = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e300]
WITH_REAL = {
    "x + r": lambda x, r: (x.real + r, x.imag),
    "r + x": lambda x, r: (r + x.real, x.imag),
    "x - r": lambda x, r: (x.real - r, x.imag),
    "r - x": lambda x, r: (r - x.real, -x.imag),
    "x * r": lambda x, r: (x.real * r, x.imag * r),
    "r * x": lambda x, r: (r * x.real, r * x.imag),
    "x / r": lambda x, r: (x.real / r, x.imag / r),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("expression", WITH_REAL)
@pytest.mark.parametrize(
    ("dtype", "real"), [("complex128", "float64"), ("complex64", "float32"), ("complex64", "int16")]
)
def test_snippets_compute_with_real_numbers_part_by_part(expression, dtype, real):
    x = np.array([complex(re, im) for re in PARTS for im in PARTS], dtype).repeat(len(PARTS))
    r = np.tile(np.array(PARTS if real != "int16" else range(-4, 4), real), len(x) // len(PARTS))
    found = elementwise(f"{dtype} x, {real} r", f"{dtype} y", f"y = {expression}")(x, r)
    expected = np.empty_like(x)
    expected.real, expected.imag = WITH_REAL[expression](x, r.astype(x.real.dtype))
    assert same_bits(found, expected)


# --- zeros, infinities, NaNs, subnormal and huge parts: C's values (ISO C, annex G), signs included


INF, NAN = math.inf, math.nan
PLAIN_OF_C = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, INF, -INF, NAN]
EXTREME = {"complex64": [1e-44, -1e-44, 1e38, -1e38, 3e38], "complex128": [1e-310, -1e-310, 1e308, -1e308, 1.7e308]}
NAMES = ("exp", "log", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh", "arcsin", "arccos", "arctan",
         "arcsinh", "arccosh", "arctanh")  # fmt: skip
divide = elementwise(lambda x, y: x / y, name="divide")


def parts_of(dtype):
    part = np.empty(0, dtype).real.dtype
    return [float(part.type(each)) for each in PLAIN_OF_C + EXTREME[dtype]]


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


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_quotients_by_zero_and_infinite_parts_are_numpys(dtype):
    """The sign of a complex zero counts for nothing; elsewhere NumPy has NaN where C has an infinity or a zero."""
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        found, expected = divide(x, y), x / y
    assert same_bits(found[y == 0], expected[y == 0])
    parts = np.stack([x, y], axis=1).view(f"f{x.itemsize // 2}")
    is_plain = np.isin(parts, PLAIN_OF_C).all(axis=1)  # none of these quotients overflows
    for one, two in ((found.real, expected.real), (found.imag, expected.imag)):
        is_infinite = np.isinf(two) & is_plain
        assert np.array_equal(one[is_infinite], two[is_infinite])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_quotients_have_the_same_bits_in_cuda(dtype):
    x, y = pairs(dtype)
    found = np.zeros_like(x)
    as_cuda(elementwise(f"{dtype} x, {dtype} y", f"{dtype} z", "z = x / y"), x, y, found)
    assert same_bits(found, divide(x, y))


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
