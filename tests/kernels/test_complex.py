"""Functions of complex numbers: within their bounds, with C's special values, the same everywhere."""

import numpy as np
import pytest

from tests.kernels.bits import same_bits
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
        for z, result in zip(pool.tolist(), results.tolist(), strict=True):
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
