"""Compute the constants of the trigonometric and special float64 functions.

They are in ``float64_trigonometry.txt`` and ``float64_special.txt`` of ``xferlib/kernels``.

python -m tools.float64_trigonometry_constants            # writes the file (needs mpmath)
python -m tools.float64_trigonometry_constants --check    # exit status 1 where the file differs
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from tools.float64_constants import Constants, bits_of, float_of, main, polynomial
from tools.kernel_polynomials import mp

STEPS = 64
"""Of a full turn."""
WORDS = 41
"""Words of 32 bits of 1 / (2 pi), behind two of zeros: the largest float64 has the exponent 971 + 53."""
BINADES = range(-4, 5)
"""Of arguments of the arctangent that have rows of their own, 32 each."""


def fit_of_square(function: Callable[[Any], Any], limit: Any, series: Iterable[Any], count: int) -> list[float]:
    """The coefficients of a polynomial in u = t * t that is to be multiplied by u: it interpolates, in ``count`` nodes.

    The nodes are those of Chebyshev for one more, of which one is 0: there the product has no error anyway.

    Args:
        function: Of t, not near 0.
        limit: The greatest t.
        series: The first two coefficients of the function's series in u.
        count: The number of coefficients.
    """
    first, second = series
    size = mp.mpf(limit) ** 2
    cosines = [mp.cos(mp.pi * (2 * k + 1) / (2 * (count + 1))) for k in range(count + 1)]
    nodes = [size * (each - cosines[-1]) / (cosines[0] - cosines[-1]) for each in cosines[:-1]]
    powers = mp.matrix([[u**power for power in range(count)] for u in nodes])
    exact = [function(mp.sqrt(u)) if u > 1e-20 else first + second * u for u in nodes]
    return [float(each) for each in mp.lu_solve(powers, mp.matrix(exact))]


def shorten(value: Any, count: int) -> float:
    """``value`` rounded to ``count`` bits."""
    if not value:
        return 0.0
    unit = mp.mpf(2) ** (mp.floor(mp.log(abs(value), 2)) + 1 - count)
    return float(mp.nint(value / unit) * unit)


def rest_of(values: Iterable[Any], heads: Iterable[float]) -> list[float]:
    return [float(value - mp.mpf(head)) for value, head in zip(values, heads, strict=True)]


def circular() -> Constants:
    step = 2 * mp.pi / STEPS
    # Exact where a zero or one is.
    sines = [mp.mpf(round(mp.sin(k * step))) if k % 16 == 0 else mp.sin(k * step) for k in range(STEPS + STEPS // 2)]
    heads = [shorten(each, 26) for each in sines]
    first = shorten(step, 36)
    second = shorten(step - mp.mpf(first), 36)
    limit = step / 2 * mp.mpf("1.0001")
    with mp.workprec(32 * WORDS + 64):
        whole = int(mp.floor(mp.mpf(2) ** (32 * (WORDS - 2)) / (2 * mp.pi)))
    return {
        "sine": heads,
        "sine_rest": rest_of(sines, heads),
        "step": [float(1 / step), first, second, float(step - mp.mpf(first) - mp.mpf(second))],
        "whole_step": [float(step), float(step - mp.mpf(float(step)))],
        "turns": [whole >> 32 * (WORDS - 1 - k) & 0xFFFFFFFF for k in range(WORDS)],
        "sin": fit_of_square(lambda t: (mp.sin(t) / t - 1) / t**2, limit, (-mp.mpf(1) / 6, mp.mpf(1) / 120), 3),
        "cos": fit_of_square(lambda t: (mp.cos(t) - 1) / t**2, limit, (-mp.mpf(1) / 2, mp.mpf(1) / 24), 4),
        "tan": fit_of_square(lambda t: (mp.tan(t) / t - 1) / t**2, limit, (mp.mpf(1) / 3, mp.mpf(2) / 15), 5),
        "pi": [float(+mp.pi), float(mp.pi - mp.mpf(float(+mp.pi)))],
    }


def inverse() -> Constants:
    first = bits_of(2.0 ** BINADES[0]) >> 47
    centres = [float_of((first + k << 47) + (1 << 46)) for k in range(32 * len(BINADES))]
    angles = [mp.mpf(0), *(mp.atan(mp.mpf(each)) for each in centres), mp.pi / 2]
    heads = [float(each) for each in angles]
    limit = 2.0 ** BINADES[0] * 1.0001
    third, fifth = -mp.mpf(1) / 3, mp.mpf(1) / 5
    part = mp.mpf(23) / 128
    arcsin = (mp.mpf(1) / 6 - part, mp.mpf(3) / 40)
    return {
        # Behind the last one x - c is -c and 1 + c * x is c * x.
        "centre": [0.0, *centres, 2.0**500],
        "angle": heads,
        "angle_rest": rest_of(angles, heads),
        "arctan": fit_of_square(lambda t: (mp.atan(t) / t - 1) / t**2, limit, (third, fifth), 5),
        "arcsin": fit_of_square(lambda t: (mp.asin(t) / t - 1) / t**2 - part, 1 / 2, arcsin, 14),
    }


def trigonometry() -> Constants:
    return {**circular(), **inverse()}


def special() -> Constants:
    points = [mp.mpf(k) / 16 for k in range(97)]
    values, slopes = [mp.erf(c) for c in points], [2 / mp.sqrt(mp.pi) * mp.exp(-c * c) for c in points]
    heads, slope_heads = [float(each) for each in values], [shorten(each, 26) for each in slopes]
    more = [0.0] * (128 - len(points))  # for the rows of large numbers
    return {
        "erf": heads + more,
        "erf_rest": rest_of(values, heads) + more,
        "slope": slope_heads + more,
        "slope_rest": rest_of(slopes, slope_heads) + more,
        "first_slope": [float(slopes[0]), float(slopes[0] - mp.mpf(float(slopes[0])))],
    }


def taylor_columns(function: Callable[[Any], Any], places: Iterable[Any], degree: int, rows: int) -> list[list[float]]:
    """The columns that `taylor` of ``float64_arithmetic.py`` reads, with rows of zeros behind the places."""
    columns: list[list[float]] = [[] for _ in range(degree + 3)]
    for place in places:
        value, slope, *further = mp.taylor(function, place, degree)
        short = shorten(slope, 26)
        row = [float(value), float(value - mp.mpf(float(value))), short, float(slope - mp.mpf(short))]
        for column, each in zip(columns, [*row, *map(float, further)], strict=True):
            column.append(each)
    return [column + [0.0] * (rows - len(column)) for column in columns]


def gamma() -> Constants:
    def logarithm(x: Any) -> Any:
        if x in (1, 2):  # the limit
            return mp.euler if x == 1 else 1 - mp.euler
        return mp.loggamma(x) / ((x - 1) * (x - 2))

    with mp.workdps(60):
        plain = taylor_columns(mp.gamma, [1 + mp.mpf(k) / 32 for k in range(33)], 10, 64)
        logarithms = taylor_columns(logarithm, [mp.mpf(k) / 32 for k in range(16, 97)], 11, 112)
        logarithms = [[0.0] * 16 + column for column in logarithms]
        half, whole = mp.log(2 * mp.pi) / 2, mp.log(mp.pi)

        def series(u: Any) -> Any:
            x = 1 / mp.sqrt(u) if u else None
            return x * (mp.loggamma(x) - (x - 0.5) * mp.log(x) + x - half) if x else mp.mpf(1) / 12

        stirling = polynomial(series, mp.mpf(10) ** -6, mp.mpf(1) / 64, 8)
    return {
        **{f"gamma_{k}": column for k, column in enumerate(plain)},
        **{f"log_{k}": column for k, column in enumerate(logarithms)},
        "half_log": [float(half), float(half - mp.mpf(float(half)))],
        "log_pi": [float(whole), float(whole - mp.mpf(float(whole)))],
        "stirling": stirling,
    }


def errors() -> Constants:
    slope, inverse, root = 2 / mp.sqrt(mp.pi), mp.sqrt(mp.pi) / 2, mp.sqrt(mp.mpf(1) / 2)
    first = bits_of(0.5) >> 48
    middles = [mp.mpf(float_of((first + k << 48) + (1 << 47))) for k in range(96)]
    with mp.workdps(60):
        columns = taylor_columns(lambda x: mp.exp(x * x) * mp.erfc(x), middles, 11, 128)
    named = {"slope": slope, "first_inverse": inverse, "root_half": root}
    return {
        **{f"erfcx_{k}": column for k, column in enumerate(columns)},
        **{name: [float(each), float(each - mp.mpf(float(each)))] for name, each in named.items()},
    }


FILES: dict[str, Callable[[], Constants]] = {
    "float64_trigonometry": trigonometry,
    "float64_special": special,
    "float64_gamma": gamma,
    "float64_errors": errors,
}

if __name__ == "__main__":
    sys.exit(main(FILES))
