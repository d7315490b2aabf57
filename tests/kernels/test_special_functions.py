"""Functions of snippets that NumPy has not: error and gamma functions, the normal distribution, I0, those of bits."""

import math

import numpy as np
import pytest

from tests.kernels.bits import same_bits, specials
from tests.kernels.emulated import as_cuda
from xferlib.errors import KernelTypeError
from xferlib.kernels import elementwise
from xferlib.kernels.formulas import BOUNDS

pytestmark = pytest.mark.usefixtures("kernels_apart")

EXACT = {
    "erf": [(-3.25, -0.9999956972205363, -5.22e-17), (-0.875, -0.7840750610598597, 3.2e-17),
        (1e-09, 1.1283791670955127e-09, -1.62e-26), (0.3, 0.3286267594591274, 2.29e-17),
        (0.9990234375, 0.8422950185281028, 4.32e-17), (1.0009765625, 0.843105775616735, -3.32e-17),
        (2.5, 0.999593047982555, 4.69e-17), (5.75, 0.9999999999999996, 2.09e-17)],
    "erfc": [(-2.5, 1.999593047982555, 4.69e-17), (-0.4375, 1.463898135749933, -2.08e-17),
        (0.25, 0.7236736098317631, -3.13e-17), (0.5, 0.4795001221869535, -1.9e-17),
        (1.75, 0.013328328780817557, -6.15e-19), (6.5, 3.8421483271206475e-20, -2.45e-37),
        (15.25, 3.6865151492308134e-103, 3.8e-120), (26.0, 5.663192408856143e-296, -3.45e-312)],
    "erfcx": [(-20.5, 6.50557990548002e182, 3.35e166), (-1.5, 18.653886256262734, 2.72e-16),
        (-0.125, 1.1582735720912207, -4.14e-17), (0.0625, 0.9332062486492742, -3.96e-17),
        (0.75, 0.5069376502931449, -5.34e-17), (4.0, 0.13699945762506138, 7.2e-18),
        (31.5, 0.017901768703002825, -2.71e-19), (1000000000000.0, 5.641895835477563e-13, 3.78e-30)],
    "erfinv": [(-0.96875, -1.523019401996956, -4.28e-17), (0.001953125, 0.0017309136924150655, -7.11e-20),
        (0.5, 0.4769362762044699, -4.42e-18), (0.9375, 1.3171503349861307, 9.36e-17),
        (0.9990234375, 2.331467773621948, -1.2e-16), (0.9999998807907104, 3.7439211627767994, 1.98e-16),
        (0.9999999999990905, 5.05125408524939, 6.47e-17), (1e-300, 8.86226925452758e-301, 5.06e-317)],
    "erfcinv": [(1e-300, 26.209469960516124, 9.06e-18), (1e-40, 9.448789766720859, -6.41e-16),
        (1e-08, 4.05223724387139, -4.13e-16), (0.0078125, 1.8809517454731395, -5.97e-17),
        (0.40625, 0.5872598738282325, 4.93e-17), (1.0009765625, -0.0008654561979671376, 4.57e-20),
        (1.5, -0.4769362762044699, 4.42e-18), (1.9999998807907104, -3.7439211627767994, -1.98e-16)],
    "normcdf": [(-36.5, 5.544725713074845e-292, -4.07e-308), (-20.25, 1.77619986494957e-91, 7.45e-108),
        (-5.5, 1.8989562465887718e-08, 1.51e-24), (-1.0, 0.15865525393145705, 4.95e-18),
        (-0.125, 0.4502617751698871, 2.74e-17), (0.75, 0.7733726476231318, -4.74e-17),
        (3.5, 0.9997673709209645, 1.51e-17), (8.0, 0.9999999999999993, 4.4e-17)],
    "normcdfinv": [(1e-300, -37.0470962993612, 1.29e-15), (1e-30, -11.464024688443615, -5.01e-16),
        (0.0009765625, -3.0972690781987846, 1.46e-16), (0.25, -0.6744897501960817, -3.78e-17),
        (0.4990234375, -0.0024478816191106775, 4.22e-20), (0.75, 0.6744897501960817, 3.78e-17),
        (0.984375, 2.1538746940614564, -1.61e-16), (0.9999998807907104, 5.1665781197287535, -3.58e-16)],
    "cyl_bessel_i0": [(0.125, 1.0039100663533544, 3.85e-17), (-1.5, 1.646723189772891, -4.92e-17),
        (3.75, 9.118945860844567, -5.73e-16), (7.9375, 403.2951163718128, -2.3e-14),
        (8.0625, 453.30847298208903, 7.48e-15), (20.5, 70922869.83431701, -6.97e-09),
        (-150.25, 5.829230816021766e63, -1.25e47), (700.0, 1.5295933476718737e302, 6.08e285)],
    "tgamma": [(1e-12, 999999999999.4229, -4.71e-05), (0.375, 2.370436184416601, 4.2e-17),
        (1.4375, 0.8858546203723767, -3.68e-17), (2.0009765625, 1.0004132681648321, 2.55e-17),
        (4.5, 11.631728396567448, 8.71e-16), (7.9375, 4444.597199803276, -4.02e-13),
        (8.0625, 5718.13664217883, -3.48e-13), (33.25, 6.288735965374881e35, -2.54e19),
        (171.5, 9.4833675668248e307, 3.22e291), (-0.25, -4.901666809860711, -8.61e-18),
        (-3.5, 0.2700882058522691, -5.34e-18), (-20.125, -2.3123088525059488e-18, -1.42e-34),
        (-170.5, -3.3127395215386074e-308, 0.0)],
    "lgamma": [(1e-300, 690.7755278982137, 2.37e-14), (0.40625, 0.7808099641256692, 2.75e-18),
        (0.9990234375, 0.0005644719118551234, -1.73e-20), (1.0009765625, -0.0005629031799912047, 4.92e-20),
        (1.75, -0.08440112102048555, -2.64e-18), (2.0009765625, 0.00041318279306425424, 2.04e-20),
        (3.25, 0.9358019311087253, 2.05e-17), (7.9375, 8.399444525124958, 3.81e-17),
        (8.0625, 8.651398269445076, -6.84e-16), (40.5, 108.47307506906539, -3.71e-15),
        (10000000000.0, 220258509288.81058, 4.08e-06), (1e300, 6.897755278982137e302, -1.48e285)],
    "sinpi": [(1e-300, 3.1415926535897936e-300, -2.62e-316), (0.1875, 0.5555702330196022, 4.71e-17),
        (0.25, 0.7071067811865476, -4.83e-17), (0.4375, 0.9807852804032304, 1.85e-17),
        (0.9990234375, 0.003067956762965976, 1.27e-19), (-1.3125, 0.8314696123025452, 1.41e-18),
        (2.625, 0.9238795325112867, 1.76e-17), (1000000.125, 0.3826834323650898, -1.01e-17)],
    "cospi": [(1e-300, 1.0, 0.0), (0.1875, 0.8314696123025452, 1.41e-18), (0.25, 0.7071067811865476, -4.83e-17),
        (0.4990234375, 0.003067956762965976, 1.27e-19), (0.75, -0.7071067811865476, 4.83e-17),
        (-1.3125, -0.5555702330196022, -4.71e-17), (2.625, -0.3826834323650898, 1.01e-17),
        (1000000.125, 0.9238795325112867, 1.76e-17)],
    "exp10": [(-300.5, 3.1622776601683794e-301, -3.17e-318), (-5.25, 5.623413251903491e-06, -4.04e-22),
        (0.0009765625, 1.0022511482929128, 7.42e-17), (0.5, 3.1622776601683795, -1.91e-16),
        (1.75, 56.23413251903491, -1.31e-16), (22.5, 3.1622776601683792e22, 1090000.0),
        (150.125, 1.3335214321633241e150, -8.32e133), (308.125, 1.333521432163324e308, 7.81e291)],
    "rcbrt": [(1e-300, 1e100, -2.43e83), (0.375, 1.3867225487012693, 9e-17), (2.0, 0.7937005259840998, -5.43e-17),
        (-5.5, -0.5665163349427047, -3.3e-17), (1000.5, 0.09998333888672929, 2.73e-18), (1e300, 1e-100, -3.75e-117),
        (-0.0009765625, -10.079368399158986, 2.07e-16), (7e-05, 24.264275032025868, -1.25e-15)],
}  # fmt: skip
"""Arguments, and values computed with 40 digits: the nearest float64, and the rest."""

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
    "tgamma": {
        0.0: INF,
        -1.0: NAN,
        -40.0: NAN,
        INF: INF,
        -INF: NAN,
        172.0: INF,
        5.0: 24,
        9e15: INF,
        -190.5: -0.0,
        NAN: NAN,
    },
    "lgamma": {0.0: INF, -3.0: INF, -1e306: INF, INF: INF, -INF: INF, 1.0: 0, 2.0: 0, NAN: NAN},
    "sinpi": {0.0: 0.0, 1.0: 0.0, -2.0: -0.0, 0.5: 1, -2.5: -1, 1e300: 0.0, INF: NAN, NAN: NAN},
    "cospi": {0.0: 1, 1.0: -1, 0.5: 0.0, -1.5: 0.0, 9007199254740993.0: 1, INF: NAN, NAN: NAN},
    "exp10": {0.0: 1, 3.0: 1000, INF: INF, -INF: 0, 400.0: INF, NAN: NAN},
    "rcbrt": {0.0: INF, 8.0: 0.5, -27.0: -1 / 3, INF: 0, -INF: -0.0, NAN: NAN},
}


def _kernel(name):
    return elementwise("T x", "T y", f"y = {name}(x)")


@pytest.mark.parametrize("name", EXACT)
def test_values_are_within_their_bounds(engine, name):
    x, near, rest = map(np.array, zip(*EXACT[name], strict=True))
    found = engine.get(_kernel(name)(engine.put(x)))
    assert (np.abs((found - near) - rest) <= BOUNDS[name] * np.spacing(np.abs(near))).all()


@pytest.mark.parametrize("name", LIMITS)
def test_limits_and_arguments_without_a_value(name):
    x = np.array(list(LIMITS[name]))
    assert same_bits(_kernel(name)(x), np.array(list(LIMITS[name].values()), float))


@pytest.mark.parametrize("name", ["erf", "erfinv", "sinpi"])
def test_zeros_keep_their_sign(name):
    x = np.array([0.0, -0.0])
    assert same_bits(_kernel(name)(x), x)


@pytest.mark.parametrize("name", EXACT)
def test_narrow_floats_are_the_float64_result_rounded(name):
    for dtype in ("float16", "float32"):
        x = np.concatenate([specials(dtype), np.linspace(-3, 3, 500).astype(dtype)])
        wide = _kernel(name)(x.astype(np.float64))
        with np.errstate(over="ignore"):
            assert same_bits(_kernel(name)(x), wide.astype(dtype))
    single = elementwise("float32 x", "float32 y", f"y = {name}f(x)")
    x = np.linspace(0, 1, 9).astype(np.float32)
    assert same_bits(single(x), _kernel(name)(x))


@pytest.mark.parametrize("name", EXACT)
def test_the_cuda_source_computes_the_same_formula(name):
    x, near, rest = map(np.array, zip(*EXACT[name], strict=True))
    found = np.zeros_like(x)
    as_cuda(_kernel(name), x, found)
    assert (np.abs((found - near) - rest) <= BOUNDS[name] * np.spacing(np.abs(near))).all()


@pytest.mark.parametrize("name", EXACT)
def test_inverses_go_back(name):
    back = {"erf": "erfinv", "erfc": "erfcinv", "normcdf": "normcdfinv"}.get(name)
    if back is None:
        pytest.skip("no inverse here")
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
        ("__popc", 32, int.bit_count),
        ("__popcll", 64, int.bit_count),
        ("__clz", 32, lambda x: 32 - x.bit_length()),
        ("__clzll", 64, lambda x: 64 - x.bit_length()),
        ("__ffs", 32, _first_one),
        ("__ffsll", 64, _first_one),
    ],
)
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
