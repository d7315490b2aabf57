"""Compute the constants of float64 functions, the files ``xferlib/kernels/float64_*.txt``.

    python -m tools.float64_constants            # writes the files (needs mpmath)
    python -m tools.float64_constants --check    # exit status 1 where one differs

A polynomial interpolates its function at the Chebyshev nodes of the interval, in 60 digits: within a factor of two of
the best one of its degree.
"""

from __future__ import annotations

import argparse
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tools.kernel_polynomials import Fit, fit, mp, parts, record

KERNELS = Path(__file__).parent.parent / "xferlib" / "kernels"
LN2 = mp.log(2)
Constants = dict[str, "list[float] | list[int]"]


def polynomial(function: Callable[[Any], Any], low: Any, high: Any, degree: int) -> list[float]:
    """The coefficients from the lowest power on."""
    return fit(Fit(function, low, high, degree, ""))[0]


def tail_of(series: Callable[[int], Any], first: int, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``function``, near 0 by the terms of its series from the power ``first`` on, which do not cancel."""

    def compute(u: Any) -> Any:
        if abs(u) > mp.mpf(10) ** -8:
            return function(u)
        return mp.fsum(series(first + k) * u**k for k in range(9))

    return compute


def series_of(term: Callable[[int], Any]) -> Callable[[Any], Any]:
    """The sum of ``term(k) * u**k``, of small numbers."""
    return lambda u: mp.fsum(term(k) * u**k for k in range(12))


def bits_of(x: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", x))[0])


def float_of(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


EXP_TAIL = tail_of(lambda k: 1 / mp.factorial(k), 2, lambda u: (mp.expm1(u) - u) / u**2)
LOG_TAIL = tail_of(lambda k: mp.mpf((-1) ** (k + 1)) / k, 2, lambda u: (mp.log1p(u) - u) / u**2)

# --- 2^(j / 128), and exp near 0

STEPS = 128


def powers() -> Constants:
    exact = [mp.mpf(2) ** (mp.mpf(j) / STEPS) for j in range(STEPS)]
    heads = [float(each) for each in exact]
    step = LN2 / STEPS
    high = parts(step, 3, 34)[0]
    half = step / 2 * mp.mpf("1.001")
    return {
        # Without the bits that the shifted number of the row adds.
        "powers": [(bits_of(each) - (j << 45)) % 2**64 for j, each in enumerate(heads)],
        "powers_rest": [float(e / mp.mpf(h) - 1) for e, h in zip(exact, heads, strict=True)],
        "step": [float(1 / step), high, float(step - mp.mpf(high))],
        "exp": polynomial(EXP_TAIL, -half, half, 3),
        "expm1": polynomial(EXP_TAIL, -half, half, 4),
        "exp2": polynomial(lambda u: mp.expm1(u * LN2) / u if u else LN2, -1 / 256, 1 / 256, 4),
        "cosh": polynomial(series_of(lambda k: 1 / mp.factorial(2 * k + 2)), 0, half**2, 1),
        "sinh": polynomial(series_of(lambda k: 1 / mp.factorial(2 * k + 3)), 0, half**2, 1),
    }


# --- logarithms of the inverses of few bits, and log near 1

LOG_STEPS = 256
OFFSET = 0x3FE6000000000000
"""The bits of the least fraction, 0.6875."""


def _inverse_of(low: float, high: float) -> float:
    """The number of nine bits whose products with an interval come nearest to 1."""
    if 1.0 in (low, high):
        return 1.0
    unit = 2.0**-9 if low >= 1 else 2.0**-8
    middle = round(2 / (low + high) / unit)
    return min(((middle + k) * unit for k in (-1, 0, 1)), key=lambda c: max(abs(c * low - 1), abs(c * high - 1)))


def logarithms() -> Constants:
    inverses = []
    for j in range(LOG_STEPS):
        low, high = (float_of(OFFSET + (j + k << 44)) for k in (0, 1))
        c = _inverse_of(low, high)
        assert max(abs(c * low - 1), abs(c * high - 1)) <= 2.0**-8  # or ``m * c - 1`` has more than 53 bits
        inverses.append(c)
    found: Constants = {"inverse": inverses}
    # Multiples of 2^-42: their sums with a multiple of the first part of ``log(2)`` are exact.
    unit = mp.mpf(2) ** -42
    for name, base in (("log", mp.e), ("log2", mp.mpf(2)), ("log10", mp.mpf(10))):
        exact = [-mp.log(c, base) for c in inverses]
        heads = [float(mp.nint(each / unit) * unit) for each in exact]
        two = mp.log(2, base)
        head = float(mp.nint(two / unit) * unit)
        factor = 1 / mp.log(base)
        high = parts(factor, 2, 26)[0]
        found |= {
            f"{name}_head": heads,
            f"{name}_rest": [float(e - mp.mpf(h)) for e, h in zip(exact, heads, strict=True)],
            f"{name}_two": [head, float(two - mp.mpf(head))],
            f"{name}_factor": [high, float(factor - mp.mpf(high))],
            f"{name}_tail": polynomial(lambda u, factor=factor: LOG_TAIL(u) * factor, -1 / 256, 1 / 256, 6),  # type: ignore[misc]
        }
    cubic = tail_of(lambda k: mp.mpf((-1) ** (k + 1)) / k, 3, lambda u: (mp.log1p(u) - u + u * u / 2) / u**3)
    return {**found, "log_cubic": polynomial(cubic, -1 / 256, 1 / 256, 6)}


# --- values of functions at places where they are nearly floats (Gal, "Computing elementary functions: a new approach
# for achieving high accuracy and good performance", 1986): so the rest of a value need not be stored


def place_near(f: Callable[[Any], Any], slopes: Sequence[Callable[[Any], Any]], middle: float) -> tuple[float, float]:
    """A place near ``middle`` and the function's value there, which is within 2^-11 ulp of a float."""
    unit = 2.0 ** (mp.frexp(middle)[1] - 53)
    value = f(mp.mpf(middle))
    scale = mp.mpf(2) ** (53 - mp.frexp(value)[1])
    bits = 60
    first, slope, bend = (
        int(mp.nint(each * scale * mp.mpf(2) ** bits))
        for each in (value, slopes[0](mp.mpf(middle)) * unit, slopes[1](mp.mpf(middle)) * mp.mpf(unit) ** 2 / 2)
    )
    most, whole = 1 << bits - 11, 1 << bits
    for k in range(1 << 20):
        for step in (k, -k):
            rest = (first + step * slope + step * step * bend) % whole
            if rest < most or whole - rest < most:
                place = middle + step * unit
                return place, float(f(mp.mpf(place)))
    raise ArithmeticError(f"no place near {middle}")


TANH_LEAST, TANH_MOST = 0.125, 22.0


def _slope_of_tanh(c: Any) -> Any:
    return 1 - mp.tanh(c) ** 2


def _bend_of_tanh(c: Any) -> Any:
    return -2 * mp.tanh(c) * _slope_of_tanh(c)


def tanh_places() -> Constants:
    places, values = [0.0], [0.0]
    for row in range(bits_of(TANH_LEAST) >> 46, (bits_of(TANH_MOST) >> 46) + 1):
        middle = (float_of(row << 46) + float_of(row + 1 << 46)) / 2
        value = min(float(mp.tanh(middle)), 1 - 2.0**-53)
        if middle > 19.2:
            place, value = middle, 1.0
        elif middle > 6:  # where neighbouring floats have nearly the same value
            place = float(mp.atanh(mp.mpf(value)))
        else:
            place, value = place_near(mp.tanh, [_slope_of_tanh, _bend_of_tanh], middle)
        places.append(place)
        values.append(value)
    series = taylor_odd(mp.tanh)
    return {"tanh_place": places, "tanh_value": values, "tanh": polynomial(series, 0, mp.mpf(1) / 64, 7)}


def taylor_odd(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``(f(x) / x - 1) / x^2`` of ``u = x * x``."""

    def compute(u: Any) -> Any:
        with mp.workdps(150):
            x = mp.sqrt(max(u, mp.mpf(10) ** -40))
            return (f(x) / x - 1) / (x * x)

    return compute


def roots() -> Constants:
    """For cube roots and inverse roots: places, their inverses, and the values there; and the functions near 1."""
    found: Constants = {}
    for name, power, low, high, steps in (("cbrt", mp.mpf(1) / 3, 0.5, 4.0, 6), ("rsqrt", mp.mpf(-1) / 2, 1.0, 4.0, 7)):

        def f(x: Any, power: Any = power) -> Any:
            return x**power

        def first(x: Any, power: Any = power) -> Any:
            return power * x ** (power - 1)

        def second(x: Any, power: Any = power) -> Any:
            return power * (power - 1) * x ** (power - 2)

        shift = 52 - steps
        rows = range(bits_of(low) >> shift, bits_of(high) >> shift)
        middles = [(float_of(row << shift) + float_of(row + 1 << shift)) / 2 for row in rows]
        pairs = [place_near(f, [first, second], middle) for middle in middles]
        found[f"{name}_place"] = [place for place, _ in pairs]
        found[f"{name}_inverse"] = [float(1 / mp.mpf(place)) for place, _ in pairs]
        found[f"{name}_value"] = [value for _, value in pairs]
        most = mp.mpf("1.01") * 2.0 ** -(steps + 1)
        near = lambda u, power=power: ((1 + u) ** power - 1) / u if abs(u) > 1e-30 else power
        found[name] = polynomial(near, -most, most, 6)
    return found


def exponentials() -> Constants:
    return {**powers(), **logarithms(), **tanh_places(), **roots()}


# --- trigonometric and special functions

ANGLES = 64
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
    step = 2 * mp.pi / ANGLES
    # Exact where a zero or one is.
    sines = [mp.mpf(round(mp.sin(k * step))) if k % 16 == 0 else mp.sin(k * step) for k in range(ANGLES + ANGLES // 2)]
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
    """The columns that `taylor` of ``float64_functions.py`` reads, with rows of zeros behind the places."""
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
    inverse, root = mp.sqrt(mp.pi) / 2, mp.sqrt(mp.mpf(1) / 2)
    first = bits_of(0.5) >> 48
    middles = [mp.mpf(float_of((first + k << 48) + (1 << 47))) for k in range(96)]
    with mp.workdps(60):
        columns = taylor_columns(lambda x: mp.exp(x * x) * mp.erfc(x), middles, 11, 128)
    named = {"first_inverse": inverse, "root_half": root}
    return {
        **{f"erfcx_{k}": column for k, column in enumerate(columns)},
        **{name: [float(each), float(each - mp.mpf(float(each)))] for name, each in named.items()},
    }


FILES: dict[str, Callable[[], Constants]] = {
    "float64_exponentials": exponentials,
    "float64_trigonometry": trigonometry,
    "float64_special": lambda: {**special(), **gamma(), **errors()},
}


def text_of(constants: Constants) -> str:
    return "".join(f"{name}: {' '.join(map(repr, values))}\n" for name, values in constants.items())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    differs = False
    for name, make in FILES.items():
        path, text = KERNELS / f"{name}.txt", text_of(make())
        differs |= not path.exists() or path.read_text(encoding="ascii") != text
        if not options.check:
            path.write_text(text, encoding="ascii")
            record(path)
    return int(options.check and differs)


if __name__ == "__main__":
    sys.exit(main())
