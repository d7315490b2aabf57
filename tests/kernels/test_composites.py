"""Functions of traced kernels with two results, or made of others: dtypes and bits as NumPy's and SciPy's."""

import numpy as np
import pytest

from tests.kernels.bits import DTYPES, FLOATS, INTEGERS, outcome, random_bits, same_bits, specials
from xferlib.errors import KernelTypeError
from xferlib.kernels import elementwise

pytestmark = [pytest.mark.usefixtures("kernels_apart"), pytest.mark.filterwarnings("ignore")]

EXACT_ONE = {
    "frexp": np.frexp, "modf": np.modf, "spacing": np.spacing, "bitwise_count": np.bitwise_count,
    "isposinf": np.isposinf, "isneginf": np.isneginf, "isreal": np.isreal, "iscomplex": np.iscomplex,
    "nan_to_num": np.nan_to_num, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg, "degrees": np.degrees,
    "radians": np.radians,
}  # fmt: skip
EXACT_TWO = {"ldexp": np.ldexp, "heaviside": np.heaviside, "divmod": np.divmod}


def _numbers(dtype):
    return np.concatenate([specials(dtype), random_bits(dtype, 500)])


def _kernel(function, count):
    return elementwise((lambda x: function(x)) if count == 1 else (lambda x, y: function(x, y)))


def _check(function, *operands):
    """The kernel gives the bits and dtypes of NumPy's function, or both refuse."""
    expected, found = outcome(function, *operands), outcome(_kernel(function, len(operands)), *operands)
    label = f"{function.__name__} of {', '.join(str(each.dtype) for each in operands)}"
    if isinstance(expected, Exception):
        assert isinstance(found, KernelTypeError), label
        return
    assert not isinstance(found, Exception), f"{label}: {found}"
    both = (found, expected) if isinstance(found, tuple) else ((found,), (expected,))
    assert all(map(same_bits, *both)), label


@pytest.mark.parametrize("name", EXACT_ONE)
def test_functions_of_one(name):
    for dtype in DTYPES:
        x = _numbers(dtype)
        if name == "frexp" and x.dtype.kind == "f":
            x = x[np.isfinite(x)]  # C leaves the exponent of an infinity open
        if name == "spacing" and dtype in ("bool", "int8", "uint8", "float16"):
            continue  # NumPy's is positive there, of negative numbers too
        _check(EXACT_ONE[name], x)


@pytest.mark.parametrize("name", EXACT_TWO)
def test_functions_of_two(name):
    for first in (*FLOATS, "int8", "int32", "bool", "complex64"):
        for second in (*FLOATS, *INTEGERS):
            x, y = specials(first), specials(second)
            if name == "ldexp":
                y = np.clip(y, 0, 60) if y.dtype.kind == "u" else np.clip(y, -60, 60).astype(second)
                if first == "float16":
                    x = x[np.abs(x.astype(float)) > 1e-2]  # NumPy rounds subnormal results twice
            x, y = (each.ravel() for each in np.meshgrid(x, y))
            if name == "divmod" and np.result_type(x, y) == np.float16:
                continue  # NumPy rounds the quotient twice
            _check(EXACT_TWO[name], x, y)


def test_every_engine_gives_two_results(engine):
    x = _numbers("float32")
    x = x[np.isfinite(x)]
    found = elementwise(lambda x: (*np.frexp(x), *np.modf(x)))(engine.put(x))
    assert [engine.get(each).dtype for each in found] == [np.float32, np.int32, np.float32, np.float32]
    assert all(map(same_bits, map(engine.get, found), (*np.frexp(x), *np.modf(x))))


def test_numbers_take_part():
    x = np.array([1.5, -3.0], np.float32)
    assert same_bits(elementwise(lambda x, n: np.ldexp(x, n))(x, -3), np.ldexp(x, -3))
    whole, rest = elementwise(lambda x, n: divmod(n, x))(x, 7.0)
    assert same_bits(whole, 7.0 // x)
    assert same_bits(rest, np.float32(7) % x)


def test_functions_made_of_others_are_near():
    x = np.concatenate([np.linspace(-4, 4, 201), [0.0]])
    y = np.roll(x, 7)
    for name, operands in (("sinc", (x,)), ("i0", (x,)), ("logaddexp2", (x, y)), ("float_power", (np.abs(x), y))):
        function = getattr(np, name)
        kernel = _kernel(function, len(operands))
        np.testing.assert_allclose(kernel(*operands), function(*operands), rtol=1e-14, atol=1e-16)
    assert elementwise(lambda x: np.float_power(x, 2))(np.array([3], np.float32)).dtype == np.float64
    z = x + 1j * y
    np.testing.assert_allclose(elementwise(lambda z: np.angle(z))(z), np.angle(z), rtol=1e-15)
    np.testing.assert_allclose(elementwise(lambda z: np.angle(z, deg=True))(z), np.angle(z, deg=True), rtol=1e-15)
    assert same_bits(elementwise(lambda x: np.fix(x))(x), np.fix(x))
    found = elementwise(lambda x: np.nan_to_num(x, nan=1, posinf=2, neginf=-2))(np.array([np.nan, np.inf, -np.inf]))
    assert found.tolist() == [1, 2, -2]


def _filled(x):
    return np.nan_to_num(x, nan=np.float64(1.5), posinf=np.float64(2), neginf=-2)


@pytest.mark.parametrize("function", [np.i0, np.angle, np.sinc, _filled])
def test_dtypes_of_functions_made_of_others_are_numpys(function):
    for dtype in DTYPES:
        x = np.array([0, 1, 1], dtype)
        expected, found = outcome(function, x), outcome(_kernel(function, 1), x)
        if isinstance(expected, Exception):
            assert isinstance(found, KernelTypeError), dtype
        else:
            assert not isinstance(found, Exception), found
            assert found.dtype == expected.dtype, dtype
            rtol = 4 * np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol, err_msg=str(dtype))
    assert elementwise(lambda x, n: function(n) + x)(np.zeros(1), 3).dtype == np.float64


def test_a_number_that_replaces_nan_keeps_the_dtype():
    x = np.array([np.nan, np.inf, -np.inf, 0.1], np.float32)
    assert same_bits(elementwise(_filled)(x), _filled(x))
    with pytest.raises(KernelTypeError, match="takes real numbers, and a complex one is given"):
        elementwise(lambda x: np.nan_to_num(x, nan=1j))(x)


SCIPY = ("erf", "erfc", "erfcx", "erfinv", "erfcinv", "ndtr", "ndtri", "gamma", "gammaln", "i0", "exp10", "expit",
         "logit")  # fmt: skip


@pytest.mark.parametrize("name", SCIPY)
def test_functions_of_scipy(name):
    special = pytest.importorskip("scipy.special")
    function = getattr(special, name)
    kernel = elementwise(lambda x: function(x))
    x = np.linspace(0.01, 0.99, 99)
    np.testing.assert_allclose(kernel(x), function(x), rtol=1e-13)
    assert kernel(x.astype(np.float32)).dtype == function(x.astype(np.float32)).dtype
    assert kernel(np.arange(3)).dtype == np.float64


@pytest.mark.parametrize("name", ["erf", "gammaln", "expit", "xlogy"])
def test_they_are_in_the_namespace_of_a_traced_value(name):
    def function(x):
        call = getattr(x.__array_namespace__(), name)
        return call(x, x) if name == "xlogy" else call(x)

    x = np.array([0.25, 1.5, 3.0])
    text = {"erf": "erf(x)", "gammaln": "lgamma(x)", "expit": "1 / (1 + exp(-x))", "xlogy": "x * log(x)"}[name]
    assert same_bits(elementwise(function)(x), elementwise("T x", "T y", f"y = {text}")(x))
    with pytest.raises(KernelTypeError, match=rf"{name}\(.*\) is not defined"):
        elementwise(function)(x.astype(complex))
    assert elementwise(lambda x: x.__array_namespace__().xlogy(x * 0, x))(np.array([0.0, np.nan])).tolist()[0] == 0
