"""C's functions that take floats apart and put them together: against Python's and C's own, bit for bit."""

import ctypes
import ctypes.util
import math

import numpy as np
import pytest

from tests.kernels.bits import FLOATS, random_bits, same_bits, specials
from tests.kernels.emulated import as_cuda
from xferlib.errors import KernelSyntaxError, KernelTypeError
from xferlib.kernels import elementwise

pytestmark = [pytest.mark.usefixtures("kernels_apart"), pytest.mark.filterwarnings("ignore")]

FREXP = "int e; y = frexp(x, &e); k = e;"
MODF = "T whole; y = modf(x, &whole); w = whole;"
REMQUO = "int q; z = remquo(x, y, &q); k = q;"
EXPONENTS = np.array([-(2**31), -2200, -1100, -1074, -1023, -53, -1, 0, 1, 52, 1023, 1024, 2100, 2**31 - 1], np.int32)


def _numbers(dtype, count=2000):
    return np.concatenate([specials(dtype), random_bits(dtype, count)])


def _pairs(dtype):
    x, y = np.meshgrid(specials(dtype), specials(dtype))
    return [np.concatenate([each.ravel(), random_bits(dtype, 3000, seed)]) for seed, each in enumerate((x, y))]


@pytest.mark.parametrize("dtype", FLOATS)
def test_fraction_and_exponent(engine, dtype):
    x = _numbers(dtype)
    fraction, exponent = map(engine.get, elementwise("T x", "T y, int32 k", FREXP)(engine.put(x)))
    expected = np.frexp(x)
    assert same_bits(fraction, expected[0])
    assert same_bits(exponent, np.where(np.isfinite(x), expected[1], 0).astype(np.int32))


@pytest.mark.parametrize("dtype", FLOATS)
def test_scaling_rounds_once(engine, dtype):
    x, n = map(np.ravel, np.meshgrid(_numbers(dtype, 200), EXPONENTS))
    for name in ("ldexp", "scalbn", "scalbln"):
        found = engine.get(elementwise("T x, int32 n", "T y", f"y = {name}(x, n)")(engine.put(x), engine.put(n)))
        with np.errstate(all="ignore"):
            wide = np.ldexp(x.astype(np.float64), n)  # NumPy's own of float16 rounds twice
            assert same_bits(found, wide.astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_whole_part_and_rest(engine, dtype):
    x = _numbers(dtype)
    rest, whole = map(engine.get, elementwise("T x", "T y, T w", MODF)(engine.put(x)))
    expected = np.modf(x)
    assert same_bits(rest, expected[0])
    assert same_bits(whole, expected[1])


def _libm(name, dtype, *kinds):
    library = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
    single = dtype == "float32"
    function = getattr(library, name + ("f" if single else ""))
    real = ctypes.c_float if single else ctypes.c_double
    function.restype = kinds[0] if kinds else real
    function.argtypes = [*[real] * (2 if name in ("remainder", "fdim", "remquo") else 1), *kinds[1:]]
    return function


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_exact_remainder_and_the_number_of_steps(engine, dtype):
    x, y = _pairs(dtype)
    rest, count = map(engine.get, elementwise("T x, T y", "T z, int32 k", REMQUO)(engine.put(x), engine.put(y)))
    function, steps = _libm("remquo", dtype), ctypes.c_int()
    function.argtypes = [*function.argtypes[:2], ctypes.POINTER(ctypes.c_int)]
    expected = np.array([function(a, b, ctypes.byref(steps)) for a, b in zip(x, y, strict=True)], dtype)
    assert same_bits(rest, expected)
    plain = elementwise("T x, T y", "T z", "z = remainder(x, y)")
    assert same_bits(engine.get(plain(engine.put(x), engine.put(y))), expected)
    for each in np.flatnonzero(~np.isnan(rest))[::7]:  # C promises three bits of the number, and the sign
        function(x[each], y[each], ctypes.byref(steps))
        number = int(count[each])
        assert abs(number) == abs(steps.value) % 8, (x[each], y[each])
        assert number == 0 or (number < 0) == (np.signbit(x[each]) != np.signbit(y[each]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["fdim", "logb"])
def test_functions_of_floats_are_those_of_c(name, dtype):
    operands = _pairs(dtype)[: 2 if name == "fdim" else 1]
    names = "xy"[: len(operands)]
    kernel = elementwise(", ".join(f"T {each}" for each in names), "T z", f"z = {name}({', '.join(names)})")
    function = _libm(name, dtype)
    expected = np.array([function(*each) for each in zip(*operands, strict=True)], dtype)
    assert same_bits(kernel(*operands), expected)


def test_exponents_as_integers():
    x = np.array([1.0, -0.75, 5e-324, 1e300, 0.0, math.inf, math.nan])
    found = elementwise("float64 x", "int32 y", "y = ilogb(x)")(x)
    assert found.tolist() == [0, -1, -1074, 996, -(2**31), 2**31 - 1, -(2**31)]


def test_rounding_to_integers():
    x = np.array([-2.5, -0.5, 0.5, 1.5, 2.6, 1e30, math.nan])
    for name, expected in (("lrint", [-2, 0, 0, 2, 3]), ("lround", [-3, -1, 1, 2, 3])):
        for kind in (name, "l" + name):
            found = elementwise("float64 x", "int64 y", f"y = {kind}(x)")(x)
            assert found.tolist() == [*expected, 2**63 - 1, 0]


def test_lengths_of_vectors(engine):
    x = np.array([3e200, 1e-200, 0.0, math.inf, 1.0, 2.0])
    text = (
        "a = norm3d(x, x, y); b = norm4d(x, x, x, x); c = rhypot(x, y); d = rnorm3d(x, x, x); e = rnorm4d(x, x, x, y)"
    )
    kernel = elementwise("float64 x, float64 y", ", ".join(f"float64 {each}" for each in "abcde"), text)
    y = np.array([1e200, 5e-324, 0.0, math.nan, 2.0, -4.0])
    a, b, c, d, e = map(engine.get, kernel(engine.put(x), engine.put(y)))
    np.testing.assert_allclose(
        a, [math.sqrt(19) * 1e200, math.sqrt(2) * 1e-200, 0, math.inf, math.sqrt(6), math.sqrt(24)], rtol=1e-15
    )
    assert b.tolist() == [6e200, 2e-200, 0, math.inf, 2, 4]
    np.testing.assert_allclose(
        c, [1 / math.hypot(3e200, 1e200), 1e200, math.inf, 0, 1 / math.sqrt(5), 1 / math.sqrt(20)], rtol=1e-15
    )
    np.testing.assert_allclose(d * math.sqrt(3), [1 / 3e200, 1e200, math.inf, 0, 1, 0.5], rtol=1e-15)
    np.testing.assert_allclose(e[-2:], [1 / math.sqrt(7), 1 / math.sqrt(28)], rtol=1e-15)
    half = elementwise("float16 x", "float16 y", "y = norm3d(x, x, x)")(np.array([4e4], np.float16))
    assert np.isinf(half).all()


def test_both_parts_behind_pointers():
    x = np.array([0.25, 1.5, -2.0])
    s, c = elementwise("T x", "T s, T c", "T a, b; sincospi(x, &a, &b); s = a; c = b")(x)
    np.testing.assert_allclose(s, [math.sqrt(0.5), -1, 0], rtol=1e-15)
    np.testing.assert_allclose(c, [math.sqrt(0.5), 0, 1], rtol=1e-15)


def test_a_loop_carries_what_a_function_writes():
    text = "int e = 0, steps = 0; double v = x; while (v != 0) { v = modf(v * 2, &w) ; ++steps; } y = steps;"
    found = elementwise("float64 x", "int32 y", f"double w; {text}")(np.array([0.5, 0.8125, 0.0]))
    assert found.tolist() == [1, 4, 0]
    text = "int e; int *p = &e; double v = x; while (v > 1) { v = frexp(v, p); y += e; }"
    assert elementwise("float64 x", "int32 y", f"y = 0; {text}")(np.array([8.5, 1.0])).tolist() == [4, 0]


@pytest.mark.parametrize(
    ("outputs", "text"),
    [
        ("float64 y, int32 k", "int e; y = frexp(x, &e); k = e"),
        ("float64 y", "y = ldexp(x, 3) + ldexp(x, -1073)"),
        ("float64 y, int32 k", "int q; y = remquo(x, 0.7, &q); k = q"),
    ],
)
def test_the_cuda_source_computes_the_same(outputs, text):
    kernel = elementwise("float64 x", outputs, text)
    x = np.array([0.3, -7.25, 5e-324, 1e300, 0.0, -0.0, 3.85])
    expected = kernel(x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    found = [np.zeros_like(each) for each in expected]
    as_cuda(kernel, x, *found)
    assert all(map(same_bits, found, expected))


def test_wrong_arguments():
    x = np.ones(3)
    with pytest.raises(KernelTypeError, match="a pointer to int32, and one to int64"):
        elementwise("T x", "T y", "long e; y = frexp(x, &e)")(x)
    with pytest.raises(KernelTypeError, match=r"modf\(\) takes 2 argument"):
        elementwise("T x", "T y", "y = modf(x)")
    with pytest.raises(KernelTypeError, match=r"ldexp\(\) is not defined for complex128"):
        elementwise("T x", "T y", "y = ldexp(x, 2)")(x.astype(complex))
    with pytest.raises(KernelTypeError, match="needs an integer exponent"):
        elementwise("T x, complex128 z", "T y", "y = ldexp(x, z)")(x, x.astype(complex))
    with pytest.raises(KernelSyntaxError, match=r"unknown function 'frexq' \(did you mean 'frexp'"):
        elementwise("T x", "T y", "y = frexq(x)")(x)
    with pytest.raises(KernelSyntaxError, match=r"did you mean 'sincos'"):
        elementwise("T x", "T y", "y = sincoz(x)")(x)
    for name in ("sincos", "sincospif"):
        with pytest.raises(KernelTypeError, match=rf"{name}\(\) takes 3 argument\(s\), 2 were given"):
            elementwise("T x", "T y", f"{name}(x, &y)")(x)
        with pytest.raises(KernelTypeError, match=rf"{name}\(\) needs two pointers to float or to double"):
            elementwise("T x", "T y", f"int k; {name}(x, &y, &k)")(x)


def test_derivatives():
    torch = pytest.importorskip("torch")
    x = torch.tensor([-2.5, -0.75, 0.3, 1.0, 6.5], dtype=torch.float64, requires_grad=True)
    elementwise(lambda x: np.modf(x)[0] * 3 + np.ldexp(x, 2))(x).sum().backward()
    assert x.grad.tolist() == [7.0] * 5
    with pytest.raises(KernelTypeError, match="derivative of an operation on the bits of a float is not known"):
        elementwise(lambda x: np.frexp(x)[0])(x).sum().backward()
