"""Special functions of one number, for snippets: the error functions, the normal distribution, Bessel's I0.

NumPy has none of them, and CUDA's differ in their last bits, so that they are formulas here: polynomials fitted with
40 digits (Chebyshev interpolation), whose error is below a tenth of a float64 ulp, around one ``exp`` or ``log`` of
float64 where the function is no polynomial. The complementary error function is scaled by ``exp(x * x)``, as in
Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x)exp(x^2)erfc x", Mathematics of Computation 36, 1981;
the inverses are those of Giles, "Approximating the erfinv function", GPU Computing Gems, 2011, in their variable.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xferlib.kernels.ir.formulas import gamma, half_turns
from xferlib.kernels.ir.formulas.real_algebra import Real, polynomial, two_product
from xferlib.kernels.ir.nodes import Builder, Node, is_float

_ERF = (
    1.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792, 0.0052239776248180145,
    -0.000854832698083379, 0.0001205533111164271, -1.4925595266831182e-05, 1.6461000484121368e-06,
    -1.6350312701054695e-07, 1.4659775274047436e-08, -1.1372848856791674e-09, 5.957176147748911e-11,
)  # fmt: skip
"""``erf(x) / x`` in powers of ``x * x``, for x up to 1."""

_ERFCX = (
    1.2329951186255526, -0.13962111684056228, 0.015379652102619974, 0.06809705425466839, -0.10103906603631811,
    0.09373283499911264, -0.06633036581186058, 0.037167515526338006, -0.01619773406293477, 0.005031970069102256,
    -0.0007577732435942576, -0.0001992571524726518, 0.00015062142608651945, -2.4397731143023292e-05,
    -1.1221135665965907e-05, 5.70657829924074e-06, 2.9173425573089733e-07, -8.210647933297337e-07,
    7.771943241086912e-08, 1.0631817593818149e-07, -2.0725802488181963e-08, -1.2338731403798444e-08,
    3.2323973445082033e-09, 9.297625263709659e-10, -2.764120233734578e-10,
)  # fmt: skip
"""``erfcx(x) * (1 + 2 x)`` in powers of ``(x - 4) / (x + 4)``, for all x that are not negative."""

_CENTRE = (
    1.6536545626831027, 0.7504943200799635, -0.05892256710377784, -0.022604447453449802, 0.017808361818295655,
    -0.00413731437741443, -0.0012716922684373015, 0.0012324855686812834, -0.0002643936684366174,
    -0.0001168888399309713, 9.33673917780479e-05, -1.5027710420277575e-05, -1.1257319182677936e-05,
    7.1300572630824496e-06, -6.83718721812117e-07, -1.059321402540731e-06, 5.394320648707009e-07,
    -1.0185147576818285e-08, -9.867713140174249e-08, 3.915473114023045e-08, 4.792369996100387e-09,
    -8.562787796742932e-09, 1.5401738716654886e-09, 7.689312733742569e-10, -2.7032254091069344e-10,
)  # fmt: skip
"""``erfinv(y) / y`` in powers of ``w / 3.125 - 1``, where w is ``-log(1 - y * y)`` and at most 6.25."""

_MIDDLE = (
    3.0838856104922208, 0.753944225770624, 0.0030211394363747063, -0.0015825410894073097, 0.0007883078513066945,
    -0.00040063569835358583, 0.00016966502197543766, -4.7391827316182325e-05, 2.405864805789804e-06,
    5.127316786334848e-06, -2.664793846715906e-06, 5.264621626938461e-07, 9.289338749101434e-08,
    -9.468946844911027e-08, 2.63990323529153e-08, -3.6906087078089294e-10, -2.4605291139227303e-09,
    9.891297510532429e-10, -1.179100761769929e-10, -6.471554767207546e-11, 2.4355543452655723e-11,
)  # fmt: skip
"""The same in powers of ``(sqrt(w) - 3.25) / 0.75``, for w from 6.25 to 16."""

_TAIL = (
    4.9761913900163, 1.1365383104872455, -0.000269071246869911, -0.000256202312328986, 0.0001036220853961164,
    -2.9895529852808036e-05, 7.597413857222852e-06, -1.8159805540475997e-06, 4.345295104414165e-07,
    -1.1994820600562818e-07, 4.7015834870983236e-08, -2.5481987549986333e-08, 1.4990900450305634e-08,
    -8.167113758188306e-09, 3.825682076952916e-09, -1.4556453795308615e-09, 4.1839904151047413e-10,
    -5.7815233853809704e-11, -3.9699847349544004e-11, 3.5016680978788435e-11, -8.998331376452318e-12,
)  # fmt: skip
"""The same in powers of ``(sqrt(w) - 5.125) / 1.125``, for w from 16 to 39.0625."""

_FAR = (
    0.9893671779228749, -0.010373007206445432, -0.001371254867245514, 0.0003943120037352809, -6.360913261549325e-05,
    1.556059772654421e-05, -4.998393191468441e-06, 1.8068433800510511e-06, -7.105927503927352e-07,
    2.9807251113854153e-07, -1.31322097154875e-07, 6.029075716697803e-08, -2.8479792827051964e-08,
    1.3229879311147344e-08, -6.505938196548653e-09, 4.49309681517493e-09, -2.3588229215442946e-09,
    -5.632491516448388e-10, 3.591270651089143e-10, 1.5621137169584868e-09, -8.783697565928195e-10,
    -6.261866312844761e-10, 3.5671080198888185e-10, 2.0431986098154626e-10, -1.152764189213973e-10,
)  # fmt: skip
"""``erfinv(y) / y / sqrt(w)`` in powers of ``(1 / sqrt(w) - m) / h``, for larger w."""

_I0_SMALL = (
    1.0, 0.25, 0.027777777777777762, 0.001736111111111147, 6.944444444440493e-05, 1.929012345705309e-06,
    3.936759887993035e-08, 6.151187361364193e-10, 7.594057685381156e-12, 7.594070019494474e-14, 6.275948796822122e-16,
    4.359498405380122e-18, 2.5722398177811744e-20, 1.3440225063774028e-22, 5.062353740472856e-25,
    3.548836657975522e-27,
)  # fmt: skip
"""``(I0(x) - 1) / q`` in powers of ``q = x * x / 4``, for x up to 8."""

_I0_LARGE = (
    0.4021765094450081, 0.0033605519836678913, 0.00013621607438951463, 1.114303378845176e-05, 1.4838476780922646e-06,
    2.9735992084667734e-07, 8.872014585661555e-08, 3.932512321137824e-08, 2.156780676115673e-08, 7.559364098665437e-09,
    -6.856484545962442e-09, -1.3427511481900905e-08, -5.0175940345046716e-09, 7.600254486433509e-09,
    6.522264862032271e-09, -3.5862834111582305e-09, -4.5305710768621196e-09, 1.6084886155781772e-09,
    2.163681278413876e-09, -6.327909921997027e-10, -6.494591114401118e-10, 1.7698085539456536e-10,
    9.114760157514253e-11, -2.4421972688131832e-11,
)  # fmt: skip
"""``I0(x) * exp(-x) * sqrt(x)`` in powers of ``16 / x - 1``, for x from 8."""

_FAR_HALF = (1 / 6.25 - 1 / 27.5) / 2
_FAR_MIDDLE = (1 / 6.25 + 1 / 27.5) / 2
_ROOT_PI = math.sqrt(math.pi)
_ROOT_HALF, _ROOT_HALF_REST = 0.7071067811865476, -4.833646656726457e-17
"""The root of 1/2, and what its rounding has left."""


def _call(name: str, x: Real) -> Real:
    return Real(x.b, x.b.call(name, x.node))


def _small_erf(x: Real) -> Real:
    return x * polynomial(x * x, _ERF)


def _scaled(x: Real) -> Real:
    """``exp(x * x) * erfc(x)`` of numbers that are not negative."""
    near = polynomial((x - 4.0) / (x + 4.0), _ERFCX) / (1.0 + (x + x))
    return ((1 / _ROOT_PI) / x).where(x.compared("gt", 1e10), near)


def _positive_erfc(x: Real) -> Real:
    """``erfc(x)`` of numbers from 0.5."""
    x = x.minimum(28.0)  # where it is 0
    square, rest = two_product(x, x)
    return _call("exp", -square) * (1.0 - rest) * _scaled(x)


def _erf(x: Real) -> Real:
    size = abs(x)
    large = 1.0 - _positive_erfc(size)
    return _small_erf(x).where(size.compared("lt", 1.0), (-large).where(x.compared("lt", 0.0), large))


def _erfc(x: Real) -> Real:
    size = abs(x)
    tail = _positive_erfc(size)
    outer = (2.0 - tail).where(x.compared("lt", 0.0), tail)
    return (1.0 - _small_erf(x)).where(size.compared("lt", 0.5), outer)


def _erfcx(x: Real) -> Real:
    size = abs(x)
    square, rest = two_product(size.minimum(27.0), size.minimum(27.0))
    grown = _call("exp", square) * (1.0 + rest) * 2.0 - _scaled(size)
    return grown.where(x.compared("lt", 0.0), _scaled(size))


def _normcdf(x: Real) -> Real:
    x = -x.maximum(-40.0).minimum(40.0)  # where it is 0 and 1
    high, rest = two_product(x, x.of(_ROOT_HALF))
    rest = rest + x * _ROOT_HALF_REST
    share = rest * (2 / _ROOT_PI) / _scaled(abs(high))  # erfc' / erfc
    share = share.where(high.compared("gt", 0.5), 0.0)
    value = _erfc(high) * 0.5
    return value - value * share


def _inverse(x: Real, w: Real) -> Real:
    """``x * f(w)``, where ``f`` is ``erfinv(y) / y`` of ``w = -log(1 - y * y)``."""
    root = w.sqrt()
    inner = 1.0 / root
    far = polynomial((inner - _FAR_MIDDLE) / _FAR_HALF, _FAR) * root
    tail = polynomial((root - 5.125) / 1.125, _TAIL).where(w.compared("lt", 39.0625), far)
    middle = polynomial((root - 3.25) / 0.75, _MIDDLE).where(w.compared("lt", 16.0), tail)
    return x * polynomial(w / 3.125 - 1.0, _CENTRE).where(w.compared("lt", 6.25), middle)


def _erfinv(y: Real) -> Real:
    return _inverse(y, -_call("log", (1.0 - y) * (1.0 + y)))


def _erfcinv(y: Real) -> Real:
    return _inverse(1.0 - y, -_call("log", y * (2.0 - y)))


def _normcdfinv(p: Real) -> Real:
    return _erfcinv(p + p) * -math.sqrt(2)


def _bessel_i0(x: Real) -> Real:
    size = abs(x).minimum(800.0)  # where it is infinite
    quarter = size * size * 0.25
    small = 1.0 + quarter * polynomial(quarter, _I0_SMALL)
    half = _call("exp", size * 0.5)
    large = half * (polynomial(16.0 / size - 1.0, _I0_LARGE) / size.sqrt()) * half
    return small.where(size.compared("lt", 8.0), large)


def _power_of_ten(x: Real) -> Real:
    return Real(x.b, x.b.call("power", x.of(10.0).node, x.node))


def _inverse_cube_root(x: Real) -> Real:
    return 1.0 / _call("cbrt", x)


FORMULAS: dict[str, Callable[[Real], Real]] = {
    "erf": _erf, "erfc": _erfc, "erfcx": _erfcx, "erfinv": _erfinv, "erfcinv": _erfcinv, "normcdf": _normcdf,
    "normcdfinv": _normcdfinv, "cyl_bessel_i0": _bessel_i0, "tgamma": gamma.gamma, "lgamma": gamma.log_gamma,
    "sinpi": half_turns.sine, "cospi": half_turns.cosine, "exp10": _power_of_ten, "rcbrt": _inverse_cube_root,
}  # fmt: skip
"""The formulas, of float64 operands, by the names of CUDA."""

BOUNDS: dict[str, float] = {
    "erf": 3, "erfc": 6, "erfcx": 5, "erfinv": 6, "erfcinv": 6, "normcdf": 8, "normcdfinv": 7, "cyl_bessel_i0": 6,
    "tgamma": 9, "lgamma": 6, "sinpi": 2, "cospi": 2, "exp10": 2, "rcbrt": 1.5,
}  # fmt: skip
"""The largest distance of a float64 result from the exact one, in ulp; float32 results are those, rounded.

``lgamma`` keeps to it from 0 on; of negative numbers it is the difference of two values that may be close.
"""


def lowered(b: Builder, name: str, x: Node) -> Node:
    """The value of a function for a float operand, computed in float64 and rounded once."""
    assert is_float(x.dtype)
    with np.errstate(all="ignore"):
        return b.cast(FORMULAS[name](Real(b, x)).node, x.dtype)
