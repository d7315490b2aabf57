"""Functions of snippets that NumPy has not: error and gamma functions, those of bits, parts of floats, float16, NaN."""

import ctypes
import ctypes.util
import math
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernels.bits import FLOATS, random_bits, same_bits, specials
from tests.kernels.emulated import as_cuda
from xferlib.errors import KernelSyntaxError, KernelTypeError
from xferlib.kernels import elementwise, host_compiler, reduction
from xferlib.kernels.c_frontend.functions import FLOAT_FUNCTIONS
from xferlib.kernels.float64_functions import SPECIAL
from xferlib.kernels.formulas import BOUNDS, OWN
from xferlib.kernels.functions import TABLE
from xferlib.testing import configured

pytestmark = [pytest.mark.usefixtures("kernels_apart"), pytest.mark.filterwarnings("ignore")]

ARGUMENTS: dict[str, list[float]] = {
    "erf": [-3.25, -0.875, 1e-09, 0.3, 0.9990234375, 1.0009765625, 2.5, 5.75],
    "erfc": [-2.5, -0.4375, 0.25, 0.5, 1.75, 6.5, 15.25, 26.0],
    "erfcx": [-20.5, -1.5, -0.125, 0.0625, 0.75, 4.0, 31.5, 1000000000000.0],
    "erfinv": [-0.96875, 0.001953125, 0.5, 0.9375, 0.9990234375, 0.9999998807907104, 0.9999999999990905, 1e-300],
    "erfcinv": [1e-300, 1e-40, 1e-08, 0.0078125, 0.40625, 1.0009765625, 1.5, 1.9999998807907104],
    "normcdf": [-36.5, -20.25, -5.5, -1.0, -0.125, 0.75, 3.5, 8.0],
    "normcdfinv": [1e-300, 1e-30, 0.0009765625, 0.25, 0.4990234375, 0.75, 0.984375, 0.9999998807907104],
    "cyl_bessel_i0": [0.125, -1.5, 3.75, 7.9375, 8.0625, 20.5, -150.25, 700.0],
    "tgamma": [1e-12, 0.375, 1.4375, 2.0009765625, 4.5, 7.9375, 8.0625, 33.25, 171.5, -0.25, -3.5, -20.125, -170.5],
    "lgamma": [1e-300, 0.40625, 0.9990234375, 1.0009765625, 1.75, 2.0009765625, 3.25, 7.9375, 8.0625, 40.5,
        10000000000.0, 1e+300],
    "sinpi": [1e-300, 0.1875, 0.25, 0.4375, 0.9990234375, -1.3125, 2.625, 1000000.125],
    "cospi": [1e-300, 0.1875, 0.25, 0.4990234375, 0.75, -1.3125, 2.625, 1000000.125],
    "exp10": [-300.5, -5.25, 0.0009765625, 0.5, 1.75, 22.5, 150.125, 308.125],
    "rcbrt": [1e-300, 0.375, 2.0, -5.5, 1000.5, 1e+300, -0.0009765625, 7e-05],
}  # fmt: skip
"""At which values are compared with those of mpmath."""

INF, NAN = math.inf, math.nan
LIMITS = {
    "erf": {INF: 1, -INF: -1, 0.0: 0.0, 5e-324: 5e-324, NAN: NAN},
    "erfc": {INF: 0, -INF: 2, 28.0: 0, -10.0: 2, 0.0: 1, NAN: NAN},
    "erfcx": {INF: 0, -INF: INF, -28.0: INF, 0.0: 1, NAN: NAN},
    "erfinv": {1.0: INF, -1.0: -INF, 0.0: 0.0, 1.5: NAN, -INF: NAN, NAN: NAN},
    "erfcinv": {0.0: INF, 2.0: -INF, 1.0: 0, -0.5: NAN, 3.0: NAN, NAN: NAN},
    "normcdf": {INF: 1, -INF: 0, 0.0: 0.5, -40.0: 0, 9.0: 1, NAN: NAN},
    "normcdfinv": {0.0: -INF, 1.0: INF, 1.5: NAN, -1.0: NAN, NAN: NAN},
    "cyl_bessel_i0": {INF: INF, -INF: INF, 0.0: 1, 800.0: INF, NAN: NAN},
    "tgamma": {0.0: INF, -1.0: NAN, -40.0: NAN, INF: INF, -INF: NAN, 172.0: INF, 5.0: 24, 9e15: INF, -190.5: -0.0, NAN:
        NAN},
    "lgamma": {0.0: INF, -3.0: INF, -1e306: INF, INF: INF, -INF: INF, 1.0: 0, 2.0: 0, NAN: NAN},
    "sinpi": {0.0: 0.0, 1.0: 0.0, -2.0: -0.0, 0.5: 1, -2.5: -1, 1e300: 0.0, INF: NAN, NAN: NAN},
    "cospi": {0.0: 1, 1.0: -1, 0.5: 0.0, -1.5: 0.0, 9007199254740993.0: 1, INF: NAN, NAN: NAN},
    "exp10": {0.0: 1, 3.0: 1000, INF: INF, -INF: 0, 400.0: INF, NAN: NAN},
    "rcbrt": {0.0: INF, 8.0: 0.5, -27.0: -1 / 3, INF: 0, -INF: -0.0, NAN: NAN},
}  # fmt: skip


def _kernel(name):
    return elementwise("T x", "T y", f"y = {name}(x)")


@pytest.mark.parametrize("name", ARGUMENTS)
def test_values_are_within_their_bounds(engine, name):
    pytest.importorskip("mpmath")
    from tools import special_ulp

    x = np.array(ARGUMENTS[name])
    found = engine.get(_kernel(name)(engine.put(x)))
    assert special_ulp.find_worst(name, x, found)[0] <= BOUNDS[name]


@pytest.mark.parametrize("name", OWN)
def test_random_values_are_within_their_bounds(name):
    pytest.importorskip("mpmath")
    from tools import special_ulp

    distance, place = special_ulp.worst(name, 60, seed=3)
    assert distance <= BOUNDS[name], place


def test_next_to_the_ends_and_where_a_definition_changes():
    def of(name, *x):
        return elementwise("double x", "double y", f"y = {name}(x)", name=name)(np.array(x))

    huge = np.array([2.0**1023, 1.2e308, 1.5e308, np.finfo(float).max])
    assert same_bits(of("erfcx", *huge), 1 / math.sqrt(math.pi) / huge)
    assert of("erfcinv", 0.49999999999999994)[0] == 0.47693627620446993
    assert of("normcdfinv", 0.24999999999999997)[0] == -0.6744897501960818
    x = np.array([-183.5, -184.5, -198.5, -199.5, -200.5, -201.5, -1002.5, -1003.5, -(2.0**51) - 0.5])
    assert same_bits(of("tgamma", *x), np.array([math.copysign(0.0, -(math.floor(each) % 2) or 1) for each in x]))
    assert np.isinf(of("tgamma", 200.0, 201.5, 1e300, np.inf)).all()


def test_own_functions_are_those_that_are_defined():
    assert sorted(OWN) == sorted(SPECIAL)


@pytest.mark.parametrize("name", LIMITS)
def test_limits_and_arguments_without_a_value(name):
    x = np.array(list(LIMITS[name]))
    assert same_bits(_kernel(name)(x), np.array(list(LIMITS[name].values()), float))


@pytest.mark.parametrize("name", ["erf", "erfinv", "sinpi"])
def test_zeros_keep_their_sign(name):
    x = np.array([0.0, -0.0])
    assert same_bits(_kernel(name)(x), x)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_narrow_floats_are_the_float64_result_rounded(name):
    for dtype in ("float16", "float32"):
        x = np.concatenate([specials(dtype), np.linspace(-3, 3, 500).astype(dtype)])
        wide = _kernel(name)(x.astype(np.float64))
        with np.errstate(over="ignore"):
            assert same_bits(_kernel(name)(x), wide.astype(dtype))
    single = elementwise("float32 x", "float32 y", f"y = {name}f(x)")
    x = np.linspace(0, 1, 9).astype(np.float32)
    assert same_bits(single(x), _kernel(name)(x))


def _together(names: Collection[str]) -> tuple[Any, list[np.ndarray], list[np.ndarray]]:
    """A kernel of several functions, its arguments, and what the NumPy engine gives."""
    rng = np.random.default_rng(23)
    x = [
        np.concatenate([
            np.resize(arguments, 13), specials("float64"), rng.choice(arguments, 400) * rng.uniform(0.5, 1.5, 400),
            2.0 ** rng.uniform(-40, 10, 200), random_bits("float64", 200, number),
        ])
        for number, arguments in enumerate(ARGUMENTS[name] for name in names)
    ]  # fmt: skip
    inputs, outputs = (", ".join(f"T {letter}{name}" for name in names) for letter in "xy")
    kernel = elementwise(inputs, outputs, "".join(f"y{name} = {name}(x{name}); " for name in names))
    with configured(cpu="numpy"):
        return kernel, x, list(kernel(*x))


def test_the_cuda_source_gives_the_same_bits():
    kernel, x, expected = _together(ARGUMENTS)
    found = [np.zeros_like(each) for each in x]
    as_cuda(kernel, *x, *found)
    assert all(map(same_bits, found, expected))


@pytest.mark.skipif(host_compiler.find_compiler() is None, reason="there is no C compiler")
def test_compiled_c_gives_the_same_bits():
    kernel, x, expected = _together(["erf", "sinpi", "erfc", "erfcx", "erfinv", "tgamma", "lgamma", "exp10"])
    with configured(cpu="native"):
        assert all(map(same_bits, kernel(*x), expected))


@pytest.mark.parametrize(("name", "back"), [("erf", "erfinv"), ("erfc", "erfcinv"), ("normcdf", "normcdfinv")])
def test_inverses_go_back(name, back):
    x = np.linspace(-2, 2, 101)
    np.testing.assert_allclose(_kernel(back)(_kernel(name)(x)), x, rtol=1e-13, atol=1e-15)


def test_log_gamma_of_negative_numbers_is_near_in_absolute_terms():
    x = -np.linspace(0.0625, 20.0625, 201)
    expected = np.array([math.lgamma(each) for each in x])
    assert (np.abs(_kernel("lgamma")(x) - expected) <= 1e-14 * np.maximum(np.abs(expected), 1)).all()


def test_factorials_are_exact():
    x = np.arange(1.0, 9.0)
    assert _kernel("tgamma")(x).tolist() == [math.factorial(int(each) - 1) for each in x]


def test_integers_count_as_double_and_complex_numbers_are_refused():
    found = elementwise("int32 x", "float64 y", "y = erf(x)")(np.array([1], np.int32))
    assert found.tolist() == _kernel("erf")(np.ones(1)).tolist()
    with pytest.raises(KernelTypeError, match=r"erf\(\) is not defined for complex128"):
        _kernel("erf")(np.ones(2, complex))
    with pytest.raises(KernelTypeError, match=r"__popc\(\) is not defined for float64"):
        _kernel("__popc")(np.ones(2))


def test_derivatives_follow_the_formulas():
    torch = pytest.importorskip("torch")
    x = torch.tensor([-2.5, -0.75, 0.25, 1.5], dtype=torch.float64, requires_grad=True)
    _kernel("erf")(x).sum().backward()
    expected = 2 / math.sqrt(math.pi) * torch.exp(-(x.detach() ** 2))
    torch.testing.assert_close(x.grad, expected, rtol=1e-12, atol=0)


# --- bits


def _first_one(x: int) -> int:
    return (x & -x).bit_length()


@pytest.mark.parametrize(
    ("name", "bits", "by_hand"),
    [
        ("__popc", 32, int.bit_count), ("__popcll", 64, int.bit_count),
        ("__clz", 32, lambda x: 32 - x.bit_length()),
        ("__clzll", 64, lambda x: 64 - x.bit_length()),
        ("__ffs", 32, _first_one), ("__ffsll", 64, _first_one),
    ],
)  # fmt: skip
def test_functions_of_bits(engine, name, bits, by_hand):
    x = np.concatenate([specials(f"int{bits}"), np.random.default_rng(0).integers(-(2**31), 2**31, 50, f"int{bits}")])
    found = engine.get(elementwise("T x", "int32 y", f"y = {name}(x)")(engine.put(x)))
    assert found.tolist() == [by_hand(each % 2**bits) for each in x.tolist()]


def test_conversions_with_a_rounding():
    x = np.array([-2.5, -0.5, 0.5, 1.5, 2.75, 3e10, math.nan], np.float32)
    text = "a = __float2int_rd(x); b = __float2int_ru(x); c = __float2int_rn(x); d = __double2ll_rz(x);"
    a, b, c, d = elementwise("float32 x", "int32 a, int32 b, int32 c, int64 d", text)(x)
    most = 2**31 - 1
    assert a.tolist() == [-3, -1, 0, 1, 2, most, 0]
    assert b.tolist() == [-2, 0, 1, 2, 3, most, 0]
    assert c.tolist() == [-2, 0, 0, 2, 3, most, 0]
    assert d.tolist() == [-2, 0, 0, 1, 2, 30000001024, 0]


def test_complex_numbers_by_size_and_angle():
    z = elementwise("float64 r, float64 t", "complex128 z", "z = thrust::polar(r, t) * norm(complex<double>(r, 1))")
    r, t = np.array([1.0, 2.0]), np.array([0.0, math.pi])
    np.testing.assert_allclose(z(r, t), [2, -10], atol=1e-14)
    with pytest.raises(KernelTypeError, match=r"norm\(\) is not defined"):
        elementwise("T x", "T y", "y = norm(x)")(r)


# --- functions that take floats apart and put them together: against Python's and C's own, bit for bit


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


# --- snippets over float16: what NumPy's float16 gives, operation by operation


X, Y = (np.ascontiguousarray(each.ravel()) for each in np.meshgrid(specials("float16"), specials("float16")))
ONE, TENTH = np.float16(1), np.float16(0.1)
PROGRAMS = {
    "a product and a sum": ("z = x * y + x", lambda: X * Y + X),
    "compound": ("T t = x; t *= y; t -= (T)0.1; z = t / 3", lambda: (X * Y - TENTH) / np.float16(3)),
    "a float": ("z = x * 0.1f + y", lambda: (X.astype("f4") * np.float32(0.1) + Y).astype("f2")),
    "a double": ("z = x * 0.1 + y", lambda: (X.astype("f8") * 0.1 + Y).astype("f2")),
    "an int": ("z = x * (int)1000 - y", lambda: X * np.float16(1000) - Y),
    "a long": ("z = (T)(i * 4099LL) + x", lambda: (np.arange(X.size) * 4099).astype("f2") + X),
    "a loop": ("T s = 0; for (int k = 1; k < 4; ++k) s += x / (T)k; z = s",
               lambda: ((np.float16(0) + X / ONE) + X / np.float16(2)) + X / np.float16(3)),
    "a choice": ("z = x < y ? x : !y ? (T)-1 : -y", lambda: np.where(X < Y, X, np.where(Y == 0, -ONE, -Y))),
    "steps": ("T t = x; ++t; t--; z = t--", lambda: (X + ONE) - ONE),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_operation_is_rounded(name):
    text, compute = PROGRAMS[name]
    expected = compute()
    kernel = elementwise("T x, T y", "T z", text)
    assert same_bits(kernel(X, Y), expected)
    found = np.zeros_like(X)
    as_cuda(kernel, X, Y, found)
    assert same_bits(found, expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_quotient_rounded_down_is_numpys():
    numbers = np.random.default_rng(5)
    x, y = (numbers.integers(0, 1 << 16, 100_000, dtype=np.uint16).view(np.float16) for _ in range(2))
    x[:2], y[:2] = (100, -100), (0.05237, 0.05237)  # 1909.6, which a float16 rounds up to 1910
    kernel = elementwise(lambda x, y: x // y)
    assert kernel(x, y)[:2].tolist() == [1909, -1910]
    for one, two in ((x, y), (X, Y)):
        assert same_bits(kernel(one, two), one // two)
    found = np.zeros_like(X)
    as_cuda(kernel, X, Y, found)
    assert same_bits(found, X // Y)


# --- the bits of a NaN, read as an integer: CUDA's for one that is computed, its own for one that an array held


FLOAT, DOUBLE = 0x7FFFFFFF, 0xFFF8000000000000 - 2**64
ZERO = "float z = x * 0; "
COMPUTED = {
    "quotient": "y = __float_as_int(z / z)",
    "constants": "y = __float_as_int(0.f / 0.f)",
    "constant": "y = __float_as_int(NAN)",
    "root": "y = __float_as_uint(sqrtf(z - 1))",
    "negated": "y = __float_as_int(-(z / z))",
    "absolute": "y = __float_as_int(fabsf(p))",
    "payload and a sum": "y = __float_as_int(p + 1)",
    "function": "y = __float_as_int(logf(z - 1))",
    "by a double": "double d = z / z; y = __float_as_int((float)d)",
    "by a condition": "float v = p; if (x > 0) v = z / z; y = x > 0 ? __float_as_int(v) : 0x7fffffff",
    "by a loop": "float v = 1; for (int j = 0; j < (int)(x + 2); j++) v = v * z / z; y = __float_as_int(v)",
    "within a loop": "float v = 1; for (int j = 0; j < 3 + (int)x; j++) { v = v * z / z; y = __float_as_int(v); }",
    "by memory": "w[i] = z / z; y = __float_as_int(w[i])",
    "by a function": "y = bits(z / z)",
    "by a struct": "Pair q; q.a = z / z; y = __float_as_int(q.a)",
}
PREAMBLE = "struct Pair { float a; float b; }; __device__ int bits(float v) { return __float_as_int(v); }"


@pytest.mark.parametrize("name", COMPUTED)
def test_a_computed_nan_has_cudas_bits(engine, name):
    outputs = "int y, raw float w" if "w[" in COMPUTED[name] else "int y"
    kernel = elementwise("float x, float p", outputs, ZERO + COMPUTED[name], preamble=PREAMBLE)
    x, payload = np.array([0, 1, 2], np.float32), np.array([0xFFC12345] * 3, np.uint32).view(np.float32)
    y = engine.put(np.zeros(3, np.int32))
    kernel(engine.put(x), engine.put(payload), y, *[engine.put(x)] * ("w[" in COMPUTED[name]))
    assert engine.get(y).tolist() == [FLOAT] * 3


def test_a_computed_double_has_cudas_bits():
    kernel = elementwise("double x", "int64 y", "y = __double_as_longlong(x / x)")
    assert kernel(np.array([0.0, np.inf, 1])).tolist() == [DOUBLE, DOUBLE, 1023 << 52]


@pytest.mark.parametrize(
    "operation",
    [
        "y = __float_as_int(x)",
        "y = __float_as_int(__int_as_float(__float_as_int(x)))",
        "float v = x; y = __float_as_int(v)",
        "float v = 1; if (i >= 0) v = x; y = __float_as_int(v)",
        "w[i] = x; y = __float_as_int(w[i])",
        "float v = 1; for (int j = 0; j < 1 + i % 2; j++) v = x; y = __float_as_int(v)",
        "float v = x; for (int j = 0; j < 2 + i % 2; j++) { y = __float_as_int(v); v = __int_as_float(y); }",
    ],
)
def test_integers_that_floats_carry_are_kept(operation):
    packed = np.array([-1, -4194304, 0x7FC00001, -(2**31), 5], np.int32)
    kernel = elementwise("float x", "int y, raw float w" if "w[" in operation else "int y", operation)
    y = np.zeros(5, np.int32)
    kernel(packed.view(np.float32), y, *[np.zeros(5, np.float32)] * ("w[" in operation))
    assert y.tolist() == packed.tolist()


def test_a_reductions_nan():
    kernel = reduction(
        "float x", "int y", map_expr="x / x", reduce_expr="a + b", post_map_expr="y = __float_as_int(a)",
        identity="0", dtype="float",
    )  # fmt: skip
    assert int(kernel(np.zeros(100, np.float32))) == FLOAT
    assert int(kernel(np.zeros(1, np.float32))) == FLOAT


OPERATORS = {
    "add", "subtract", "multiply", "divide", "negative", "positive", "equal", "not_equal", "less", "less_equal",
    "greater", "greater_equal", "logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor",
    "invert", "left_shift", "right_shift",
}  # fmt: skip
"""Functions that C has operators for."""


def test_the_page_lists_the_functions_that_snippets_do_not_know():
    refusals = {}
    for name in sorted({*TABLE} - OPERATORS - {*FLOAT_FUNCTIONS.values()}):
        try:
            elementwise("float32 x", "T y", f"y = {name}({', '.join('x' * TABLE[name].arity)})")
        except KernelSyntaxError as error:
            refusals[name] = str(error)
    assert [name for name, told in refusals.items() if "which Python kernels alone know" not in told] == []
    page = (Path(__file__).parents[2] / "docs" / "reference" / "kernels.md").read_text(encoding="utf-8")
    listed = re.findall(r"`(\w+)`", page.partition("Python kernels alone know")[2].partition(".")[0])
    assert listed == [*refusals], (
        "give a function its C name in kernels/c_frontend/functions.py, or list it in docs/reference/kernels.md"
    )


def test_the_page_lists_the_functions_that_snippets_know():
    with pytest.raises(KernelSyntaxError) as caught:
        elementwise("float32 x", "float32 y", "y = qqqqqqqq(x)")
    known = re.findall(r"\w+", str(caught.value).partition("known are ")[2].partition("\n")[0])
    page = (Path(__file__).parents[2] / "docs" / "reference" / "kernels.md").read_text(encoding="utf-8")
    assert len(known) > 80
    assert not [name for name in known if not re.search(rf"\b{name}\b", page)]


@pytest.mark.parametrize(("name", "own"), [("arcsin", "asin"), ("power", "pow"), ("conjugate", "conj")])
def test_numpys_name_of_a_function_leads_to_its_c_name(name, own):
    with pytest.raises(KernelSyntaxError, match=rf"unknown function '{name}' \(did you mean '{own}'"):
        elementwise("float32 x", "float32 y", f"y = {name}(x)")


def test_the_error_function_is_near_in_every_row_of_its_table():
    """Between the rows, next to them, where the table ends, of tiny and of subnormal numbers."""
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(17)
    rows = rng.integers(0, 97, 700) / 16
    x = np.concatenate([
        rows + rng.uniform(-1, 1, 700) / 32, rows + rng.choice([-1, 1], 700) * (1 / 32 + rng.normal(size=700) * 1e-6),
        2.0 ** rng.uniform(-1074, 3, 600) * rng.choice([-1, 1], 600),
    ])  # fmt: skip
    found = _kernel("erf")(x)
    with mpmath.workdps(60):
        exact = [mpmath.erf(mpmath.mpf(each)) for each in x.tolist()]
        pairs = zip(found.tolist(), exact, strict=True)
        far = max(abs(mpmath.mpf(one) - two) / float(np.spacing(abs(one))) for one, two in pairs)
    assert far <= BOUNDS["erf"]


def test_the_error_function_has_its_derivative():
    torch = pytest.importorskip("torch")
    x = torch.tensor([-7.0, -1.5, 0.0, 1e-300, 0.25, 3.0], dtype=torch.float64, requires_grad=True)
    y = _kernel("erf")(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    expected = 2 / math.sqrt(math.pi) * torch.exp(-(x.detach() ** 2))
    torch.testing.assert_close(slope, expected, rtol=1e-15, atol=0)
