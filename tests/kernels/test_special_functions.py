"""Functions of snippets that NumPy has not: error functions, the normal distribution, I0, and those of bits."""

import math

import numpy as np
import pytest

from tests.kernels import targets
from tests.kernels.bits import same_bits, specials
from tests.kernels.emulated import as_cuda
from xferlib.errors import KernelTypeError
from xferlib.kernels import elementwise
from xferlib.kernels.ir.formulas.special_functions import BOUNDS

pytestmark = pytest.mark.usefixtures("kernels_apart")

EXACT = {
    "erf": [
        (-3.25, -0.9999956972205363, -5.22e-17),
        (-0.875, -0.7840750610598597, 3.2e-17),
        (1e-09, 1.1283791670955127e-09, -1.62e-26),
        (0.3, 0.3286267594591274, 2.29e-17),
        (0.9990234375, 0.8422950185281028, 4.32e-17),
        (1.0009765625, 0.843105775616735, -3.32e-17),
        (2.5, 0.999593047982555, 4.69e-17),
        (5.75, 0.9999999999999996, 2.09e-17),
    ],
    "erfc": [
        (-2.5, 1.999593047982555, 4.69e-17),
        (-0.4375, 1.463898135749933, -2.08e-17),
        (0.25, 0.7236736098317631, -3.13e-17),
        (0.5, 0.4795001221869535, -1.9e-17),
        (1.75, 0.013328328780817557, -6.15e-19),
        (6.5, 3.8421483271206475e-20, -2.45e-37),
        (15.25, 3.6865151492308134e-103, 3.8e-120),
        (26.0, 5.663192408856143e-296, -3.45e-312),
    ],
    "erfcx": [
        (-20.5, 6.50557990548002e182, 3.35e166),
        (-1.5, 18.653886256262734, 2.72e-16),
        (-0.125, 1.1582735720912207, -4.14e-17),
        (0.0625, 0.9332062486492742, -3.96e-17),
        (0.75, 0.5069376502931449, -5.34e-17),
        (4.0, 0.13699945762506138, 7.2e-18),
        (31.5, 0.017901768703002825, -2.71e-19),
        (1000000000000.0, 5.641895835477563e-13, 3.78e-30),
    ],
    "erfinv": [
        (-0.96875, -1.523019401996956, -4.28e-17),
        (0.001953125, 0.0017309136924150655, -7.11e-20),
        (0.5, 0.4769362762044699, -4.42e-18),
        (0.9375, 1.3171503349861307, 9.36e-17),
        (0.9990234375, 2.331467773621948, -1.2e-16),
        (0.9999998807907104, 3.7439211627767994, 1.98e-16),
        (0.9999999999990905, 5.05125408524939, 6.47e-17),
        (1e-300, 8.86226925452758e-301, 5.06e-317),
    ],
    "erfcinv": [
        (1e-300, 26.209469960516124, 9.06e-18),
        (1e-40, 9.448789766720859, -6.41e-16),
        (1e-08, 4.05223724387139, -4.13e-16),
        (0.0078125, 1.8809517454731395, -5.97e-17),
        (0.40625, 0.5872598738282325, 4.93e-17),
        (1.0009765625, -0.0008654561979671376, 4.57e-20),
        (1.5, -0.4769362762044699, 4.42e-18),
        (1.9999998807907104, -3.7439211627767994, -1.98e-16),
    ],
    "normcdf": [
        (-36.5, 5.544725713074845e-292, -4.07e-308),
        (-20.25, 1.77619986494957e-91, 7.45e-108),
        (-5.5, 1.8989562465887718e-08, 1.51e-24),
        (-1.0, 0.15865525393145705, 4.95e-18),
        (-0.125, 0.4502617751698871, 2.74e-17),
        (0.75, 0.7733726476231318, -4.74e-17),
        (3.5, 0.9997673709209645, 1.51e-17),
        (8.0, 0.9999999999999993, 4.4e-17),
    ],
    "normcdfinv": [
        (1e-300, -37.0470962993612, 1.29e-15),
        (1e-30, -11.464024688443615, -5.01e-16),
        (0.0009765625, -3.0972690781987846, 1.46e-16),
        (0.25, -0.6744897501960817, -3.78e-17),
        (0.4990234375, -0.0024478816191106775, 4.22e-20),
        (0.75, 0.6744897501960817, 3.78e-17),
        (0.984375, 2.1538746940614564, -1.61e-16),
        (0.9999998807907104, 5.1665781197287535, -3.58e-16),
    ],
    "cyl_bessel_i0": [
        (0.125, 1.0039100663533544, 3.85e-17),
        (-1.5, 1.646723189772891, -4.92e-17),
        (3.75, 9.118945860844567, -5.73e-16),
        (7.9375, 403.2951163718128, -2.3e-14),
        (8.0625, 453.30847298208903, 7.48e-15),
        (20.5, 70922869.83431701, -6.97e-09),
        (-150.25, 5.829230816021766e63, -1.25e47),
        (700.0, 1.5295933476718737e302, 6.08e285),
    ],
}
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
}


def _kernel(name):
    return elementwise("T x", "T y", f"y = {name}(x)")


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("library", targets.ENGINES)
def test_values_are_within_their_bounds(library, name):
    target = targets.target(library)
    x, near, rest = map(np.array, zip(*EXACT[name], strict=True))
    found = target.get(_kernel(name)(target.put(x)))
    assert (np.abs((found - near) - rest) <= BOUNDS[name] * np.spacing(np.abs(near))).all()


@pytest.mark.parametrize("name", LIMITS)
def test_limits_and_arguments_without_a_value(name):
    x = np.array(list(LIMITS[name]))
    assert same_bits(_kernel(name)(x), np.array(list(LIMITS[name].values()), float) + 0 * (x == x))


@pytest.mark.parametrize("name", ["erf", "erfinv"])
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


@pytest.mark.parametrize("library", targets.ENGINES)
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
def test_functions_of_bits(library, name, bits, by_hand):
    target = targets.target(library)
    x = np.concatenate([specials(f"int{bits}"), np.random.default_rng(0).integers(-(2**31), 2**31, 50, f"int{bits}")])
    found = target.get(elementwise("T x", "int32 y", f"y = {name}(x)")(target.put(x)))
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
