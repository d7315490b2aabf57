"""The gamma function and the logarithm of its absolute value.

NumPy has neither, CUDA's differ from C's in their last bits, so that both are formulas here: polynomials fitted with
130 digits (Chebyshev interpolation) between 1 and 8, where the recurrence leads to the first of them, and Stirling's
series from 8 on, whose correction is a polynomial in the inverse. Factorials that the recurrence reaches are exact.
"""

from __future__ import annotations

import math

from xferlib.kernels.ir.formulas import half_turns
from xferlib.kernels.ir.formulas.real_algebra import Real, polynomial

_GAMMA = (
    1.0, 0.42278433509846713, 0.4118403304264397, 0.08157691924708547, 0.0742490107535143, -0.00026698206870205086,
    0.011154045718109509, -0.002852645822238074, 0.002103933341238755, -0.0009195738233020034,
    0.0004903884430606014, -0.00024094157667906612, 0.00012167387695960527, -6.0792028418135266e-05,
    3.0453125591294713e-05, -1.5238654734441492e-05, 7.6236391160898195e-06, -3.800542087240169e-06,
    1.900707500604262e-06, -9.797308428241726e-07, 4.899132271268016e-07, -1.942982605384776e-07,
    9.715443357786186e-08, -1.1347406478400732e-07, 5.673762478772092e-08, 3.219973171818913e-08,
    -1.609980276581325e-08, -3.198415968697838e-08, 1.5992088671737057e-08, 9.753034510841453e-09,
    -4.876517079787821e-09, -2.294829995886298e-09, 1.1474152322275287e-09,
)  # fmt: skip
"""``gamma(x)`` in powers of ``x - 2``, for x from 1 to 3."""

_STIRLING = (
    2.5197159807609406, 0.0131184038546755, 2.904176984273277e-05, -1.6572405356472303e-06, 5.58803761642899e-10,
    1.8227233783256432e-09, -2.6644875693023428e-11, -4.7341759650476816e-12, 2.0627883821862595e-13,
    1.904017758526113e-14,
)  # fmt: skip
"""``gamma(x) * exp(x) * x ** (0.5 - x)`` in powers of ``16 / x - 1``, for x from 8."""

_LOG = (
    0.42278433509846713, -0.10031730167435392, 0.03296500062115691, -0.012384192193371805, 0.004998641164627129,
    -0.0021081308339216706, 0.0009153769240386907, -0.0004057073983775151, 0.0001825526153982638,
    -8.309511477709561e-05, 3.816907658276081e-05, -1.7661767658452517e-05, 8.221234475942905e-06,
    -3.846858091533014e-06, 1.8113906873056685e-06, -8.54560908975883e-07, 3.958940459367468e-07,
    -1.878442644643758e-07, 1.042041826608264e-07, -4.9827532071170234e-08, 5.910565853507869e-09,
    -2.7296358592514825e-09, 1.6194359237484174e-08, -7.842557720538356e-09, -4.312495770350818e-09,
    2.0986002157033107e-09, 1.5746606982777302e-09, -7.639292345836201e-10,
)  # fmt: skip
"""``log(gamma(x)) / ((x - 1) * (x - 2))`` in powers of ``x - 2``, for x from 1 to 3."""

_LOG_STIRLING = (
    0.08332249471375425, -2.1653159611710507e-05, -1.077856031783919e-05, 4.774179184932758e-08,
    1.1591328883657616e-08, -2.0232065648952998e-10, -3.0336432745911885e-11, 1.3750003459420004e-12,
    1.261961772105556e-13, -1.276365083328252e-14,
)  # fmt: skip
"""``x * (log(gamma(x)) - (x - 0.5) * log(x) + x - log(2 * pi) / 2)`` in powers of ``16 / x - 1``, for x from 8."""

_HALF_LOG = math.log(2 * math.pi) / 2 - 0.5
_STEPS = 5
"""Steps of the recurrence from 8 down to 3."""


def _reduced(x: Real) -> tuple[Real, Real]:
    """A number from 1 to 3 for one from 1 to 8, and the product of what the recurrence has passed."""
    product = x.of(1.0)
    for _ in range(_STEPS):
        is_large = x.compared("ge", 3.0)
        lower = x - 1.0
        product = (product * lower).where(is_large, product)
        x = lower.where(is_large, x)
    return x, product


def gamma(x: Real) -> Real:
    size = abs(x)
    is_small = size.compared("lt", 1.0)
    base = (size + 1.0).where(is_small, size)
    near, product = _reduced(base.minimum(8.0))
    near = polynomial((size - 1.0).where(is_small, near - 2.0), _GAMMA) * product
    large = base.maximum(8.0).minimum(200.0)  # beyond, it is infinite, and 0 for negative numbers
    power = _call("power", large, large * 0.5 - 0.25)
    decay = _call("exp", -large)
    series = polynomial(16.0 / large - 1.0, _STIRLING)
    is_large = size.compared("ge", 8.0)
    value = ((series * power) * decay * power).where(is_large, near)
    positive = (value / x).where(is_small, value)
    # The reflection, divided by one factor after the other, as the product may be out of range.
    sine = half_turns.sine(size)
    share = -math.pi / sine.where(is_small, sine * size)
    negative = (share / series / power / decay / power).where(is_large, share / near)
    is_pole = x.b.op("eq", size.node, x.b.op("floor", size.node))
    negative = x.of(math.nan).where(x.b.op("and", is_pole, size.compared("gt", 0.0)), negative)
    return negative.where(x.compared("lt", 0.0), positive)


def log_gamma(x: Real) -> Real:
    size = abs(x)
    is_small, is_large = size.compared("lt", 1.0), size.compared("ge", 8.0)
    near, product = _reduced(size.maximum(1.0).minimum(8.0))
    shift = (size - 1.0).where(is_small, near - 2.0)  # exact but for tiny numbers, where the polynomial is flat
    core = shift * size.where(is_small, near - 1.0) * polynomial(shift, _LOG)
    is_between = x.b.op("not", x.b.op("or", is_small, is_large))
    log = _call("log", product.where(is_between, size))
    rest = polynomial(16.0 / size.maximum(8.0) - 1.0, _LOG_STIRLING) / size
    series = (size - 0.5) * (log - 1.0) + (rest + _HALF_LOG)
    positive = (core - log).where(is_small, series.where(is_large, core + log))
    sine = abs(half_turns.sine(size))
    share = _call("log", sine.where(is_small, sine * size) / math.pi)
    is_pole = share.compared("eq", -math.inf)  # of large numbers the other term is infinite too
    negative = x.of(math.inf).where(is_pole, -share - core.where(is_small, positive))
    found = negative.where(x.compared("lt", 0.0), positive)
    return x.of(math.inf).where(x.is_infinite(), found)


def _call(name: str, *args: Real) -> Real:
    return Real(args[0].b, args[0].b.call(name, *(each.node for each in args)))
