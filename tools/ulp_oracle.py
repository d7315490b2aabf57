"""How far results of mathematical functions are from the exact ones: inputs, exact values, distances in ulp.

The oracle is the C library's long double, whose 64 bits leave an error of some thousandths of a float64 ulp (an x86
CPU is assumed; elsewhere long double may be float64, and `IS_PRECISE` is false). Complex functions are computed from
real ones by the formulas of Kahan, "Branch cuts for complex elementary functions" (1987). For complex numbers the
distance is that in the plane, in ulp of the exact absolute value.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

A = np.ndarray[Any, Any]
Pair = tuple[A, A]
Random = np.random.Generator

L = np.longdouble
IS_PRECISE = np.finfo(L).nmant >= 63
PI = L("3.14159265358979323846264338327950288")
LN2 = L("0.693147180559945309417232121458176568")
LN10 = L("2.302585092994045684017991454684364208")

OF_TWO = ("power", "arctan2", "hypot", "divide")
EXPONENTIALS = ("exp", "exp2", "expm1", "sinh", "cosh", "tanh")
CIRCULAR = ("sin", "cos", "tan")
_EDGES = np.array([
    709.78271289338397, 708.39641853226408, 745.13321910194122, 710.47586007394386, 1024.0, 1022.0, 1074.0,
    0.34657359027997264, 0.28768207245178096, 0.40546510810816438, 1.0, 0.5, 2.0, 0.70710678118654757,
    1.4142135623730951, 0.69314718055994531, 1.0986122886681098, 0.54930614433405489, 22.0, 19.061547465398498,
    0.8813735870195430, 10.0, 100.0, 0.975, 0.4375, 0.6875, 1.1875, 2.4375, 2.0**28, 2.0**-28, 2.0**1022, 36.7,
    0.25, 4.0,
])  # fmt: skip
"""Where implementations change their formula, and where results over- or underflow; both signs are used."""


# --- inputs


def inputs_of(name: str, dtype: str, count: int, seed: int) -> list[A]:
    """About ``count`` operands of function ``name``: random bits, and values near everything that is difficult."""
    is_complex = np.dtype(dtype).kind == "c"
    with np.errstate(all="ignore"):
        if is_complex and name in OF_TWO:
            rng = np.random.default_rng(seed)
            return [rng.permutation(_plane(f"{name}{k}", count, seed, dtype)) for k in (0, 1)]
        if is_complex:
            return [_plane(name, count, seed, dtype)]
        found = _pairs(name, count, seed) if name in OF_TWO else [_reals(name, count, seed)]
        return [each.astype(dtype) for each in found]


def _random(name: str, seed: int) -> Random:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def _bits(rng: Random, count: int, below: int = 64) -> A:
    bits: A = rng.integers(0, 1 << below, count, np.uint64).view(np.float64)
    return bits


def _signs(rng: Random, count: int) -> A:
    return rng.choice(np.array([-1.0, 1.0]), count)


def _powers(rng: Random, count: int, low: float, high: float) -> A:
    sizes: A = 2.0 ** rng.uniform(low, high, count) * _signs(rng, count)
    return sizes


def _near(rng: Random, count: int, centres: Any) -> A:
    result: A = rng.choice(np.asarray(centres, np.float64), count) * (1 + _powers(rng, count, -53, -1))
    return result


def _near_halves_of_pi(rng: Random, count: int) -> A:
    """The floats nearest to multiples of π/2, their neighbours, and the nearest of all."""
    multiple = np.floor(2.0 ** rng.uniform(0, 60, count)).astype(L) * _signs(rng, count)
    nearest = (multiple * (PI / 2)).astype(np.float64).view(np.int64)
    neighbours = (nearest + rng.integers(-2, 3, count)).view(np.float64)
    nearest_of_all = rng.choice(_nearest_to_halves_of_pi(), count) * _signs(rng, count)
    return np.where(rng.random(count) < 0.8, neighbours, nearest_of_all)


@functools.cache
def half_pi(bits: int = 1300) -> int:
    """π/2 times ``2 ** bits``, by Machin's formula."""

    def arctan_of_inverse(x: int) -> int:
        term = total = (1 << bits + 32) // x
        divisor = 1
        while term:
            term //= -x * x
            divisor += 2
            total += term // divisor
        return total

    return (8 * arctan_of_inverse(5) - 2 * arctan_of_inverse(239)) >> 32


@functools.cache
def _nearest_to_halves_of_pi() -> A:
    """For each exponent the floats that come nearest to a multiple of π/2: denominators of a continued fraction."""
    found = set()
    for exponent in range(-20, 971):
        top, bottom = 1 << 1300 + exponent, half_pi()
        before, denominator = 1, 0
        while bottom:
            quotient, (top, bottom) = top // bottom, (bottom, top % bottom)
            before, denominator = denominator, quotient * denominator + before
            if denominator >= 1 << 53:
                break
            if denominator >= 1 << 44:
                found.add(float(denominator) * 2.0**exponent)
    return np.array(sorted(each for each in found if np.isfinite(each)))


def _reals(name: str, count: int, seed: int) -> A:
    rng = _random(name, seed)
    n = count // 8
    special = rng.uniform(-100, 100, n)
    if name in EXPONENTIALS:
        special = rng.uniform(-760, 760, n)
    if name in CIRCULAR:
        special = _near_halves_of_pi(rng, n)
    halves = [np.pi / 4, 3 * np.pi / 4] if name in CIRCULAR else [0.5, 2.0]
    x = np.concatenate([
        _bits(rng, n), rng.uniform(-1, 1, n), rng.uniform(-4, 4, n), special, _powers(rng, n, -60, 60),
        _near(rng, n, [1.0, -1.0, *halves]), _near(rng, n, [_EDGES, -_EDGES][seed % 2]), _bits(rng, n, below=55),
    ])  # fmt: skip
    if name in ("log", "log2", "log10", "rsqrt"):
        x = np.abs(x)
    if name == "arccosh":
        x = np.where(np.abs(x) < 1, 1 + np.abs(x), np.abs(x))
    if name == "log1p":
        x = np.where(x < -1, 1 / x, x)
    if name in ("arcsin", "arccos", "arctanh"):
        x = np.where(np.abs(x) > 1, 1 / x, x)
    return x


def _pairs(name: str, count: int, seed: int) -> list[A]:
    rng = _random(name, seed)
    n = count // 4
    if name == "power":
        x = [2.0 ** rng.uniform(-1074, 1024, n), rng.uniform(0, 20, n), _near(rng, n, [1.0])]
        y = rng.uniform(-1080, 1030, 3 * n) / np.log2(np.abs(np.concatenate(x)))
        x.append(-np.floor(2.0 ** rng.uniform(0, 20, n)))
        return [np.concatenate(x), np.concatenate([y, np.floor(rng.uniform(-40, 40, n))])]
    near = rng.standard_normal(n)
    y = [_bits(rng, n), rng.standard_normal(n), near, _powers(rng, n, -500, 500)]
    x = [_bits(rng, n), rng.standard_normal(n), near * (1 + _powers(rng, n, -52, 0)), _powers(rng, n, -500, 500)]
    return [np.concatenate(y), np.concatenate(x)]


def _plane(name: str, count: int, seed: int, dtype: str) -> A:
    part: Any = np.float32 if dtype == "complex64" else np.float64
    rng = _random(name, seed)
    n = max(1, count // 14)
    wide = float(np.log2(np.finfo(part).max))
    least = -wide - 20

    def size(low: float, high: float) -> A:
        return _powers(rng, n, low, high)

    def steps() -> A:
        found: A = np.round(rng.uniform(-40, 40, n)) * (np.pi / 2) * (1 + size(-53, -20))
        return found

    turn, ring = rng.uniform(-np.pi, np.pi, n), 1 + size(-45, -1)
    unit = _signs(rng, n)
    raw = [np.frombuffer(rng.bytes(n * np.dtype(part).itemsize), part).astype(np.float64) for _ in range(2)]
    groups = [
        (raw[0], raw[1]),
        (rng.standard_normal(n), rng.standard_normal(n)),
        (rng.standard_normal(n) * 40, rng.standard_normal(n) * 40),
        (size(-wide, wide), size(-wide, wide)),
        (ring * np.cos(turn), ring * np.sin(turn)),
        (unit * (1 + size(-53, -1)), size(-wide, 1)),
        (size(-wide, 1), unit * (1 + size(-53, -1))),
        (size(-wide / 8, 8), steps()),
        (steps(), size(-wide / 8, 8)),
        (unit, size(least, 1)),
        (size(least, 1), unit),
        (size(least, least + 40), size(least, least + 40)),
        (size(-60, 10), size(-60, 10)),
        (rng.uniform(-1, 1, n) * 1.02 * np.log(float(np.finfo(part).max)), rng.uniform(-8, 8, n)),
    ]
    z = np.empty(n * len(groups), dtype)
    z.real, z.imag = (np.concatenate([group[k] for group in groups]).astype(part) for k in (0, 1))
    return z


# --- exact values


def exact(name: str, *args: A) -> Any:
    """The function of the operands, in long double; of complex ones its two parts."""
    with np.errstate(all="ignore"):
        if np.iscomplexobj(args[0]):
            parts = [np.asarray(part).astype(L) for each in args for part in (each.real, each.imag)]
            return _quotient(*parts) if name == "divide" else _COMPLEX[name](*parts)
        wide = [each.astype(L) for each in args]
        if name == "rsqrt":
            return np.where(wide[0] == 0, 1 / wide[0], 1 / np.sqrt(wide[0]))
        result: A = getattr(np, name)(*wide)
        return result


def two_product(x: A, y: A) -> Pair:
    """``x * y`` and the rest (Dekker 1971)."""
    product = x * y
    split = L(2) ** 32 + 1
    x_high, y_high = x * split - (x * split - x), y * split - (y * split - y)
    x_low, y_low = x - x_high, y - y_high
    rest: A = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, rest


def _sum_of_products(a: A, b: A, c: A, d: A) -> A:
    (p, p_rest), (q, q_rest) = two_product(a, b), two_product(c, d)
    total: A = (p + q) + (p_rest + q_rest)
    return total


def _quotient(x: A, y: A, u: A, v: A) -> Pair:
    size = u * u + v * v  # long double: the squares of subnormals are normal
    return _sum_of_products(x, u, y, v) / size, _sum_of_products(y, u, -x, v) / size


def _exp(x: A, y: A) -> Pair:
    return np.exp(x) * np.cos(y), np.exp(x) * np.sin(y)


def _expm1(x: A, y: A) -> Pair:
    half = np.sin(y / 2)
    near = np.expm1(x) * np.cos(y) - 2 * half * half
    return np.where(x > 1, np.exp(x) * np.cos(y) - 1, near), np.exp(x) * np.sin(y)


def _sinh(x: A, y: A) -> Pair:
    return np.sinh(x) * np.cos(y), np.cosh(x) * np.sin(y)


def _cosh(x: A, y: A) -> Pair:
    return np.cosh(x) * np.cos(y), np.sinh(x) * np.sin(y)


def _tanh(x: A, y: A) -> Pair:
    sinh, cosh, sin, cos = np.sinh(x), np.cosh(x), np.sin(y), np.cos(y)
    below = sinh * sinh + cos * cos
    is_far, decay = abs(x) > 100, np.exp(-abs(x))
    real = np.where(is_far, np.sign(x), sinh * cosh / below)
    return real, np.where(is_far, 4 * sin * cos * decay * decay, sin * cos / below)


def _log_size(x: A, y: A) -> A:
    large, small = np.maximum(abs(x), abs(y)), np.minimum(abs(x), abs(y))
    near = np.log1p(_sum_of_products(large - 1, large + 1, small, small)) / 2
    size = np.hypot(x, y)
    is_near = (size > 0.7) & (size < 1.5)
    result: A = np.where(is_near, near, np.log(size))
    return result


def _log(x: A, y: A) -> Pair:
    return _log_size(x, y), np.arctan2(y, x)


def _log1p(x: A, y: A) -> Pair:
    less = x * (2 + x) + y * y
    is_near = (abs(less) < 0.5) | (np.hypot(x, y) < 0.5)
    return np.where(is_near, np.log1p(less) / 2, _log_size(1 + x, y)), np.arctan2(y, 1 + x)


def _over(formula: Callable[[A, A], Pair], factor: Any) -> Callable[[A, A], Pair]:
    def scaled(x: A, y: A) -> Pair:
        real, imag = formula(x, y)
        return real / factor, imag / factor

    return scaled


def _sqrt(x: A, y: A) -> Pair:
    longer = np.sqrt((abs(x) + np.hypot(x, y)) / 2)
    shorter = np.where(longer == 0, 0, abs(y) / (2 * longer))
    is_right = x >= 0
    return np.where(is_right, longer, shorter), np.copysign(np.where(is_right, shorter, longer), y)


def _sign(x: A, y: A) -> Pair:
    size = np.hypot(x, y)
    return np.where(size == 0, x, x / size), np.where(size == 0, y, y / size)


def _arctanh(x: A, y: A) -> Pair:
    size = abs(x)
    side = 1 - size
    ratio = 4 * size / (side * side + y * y)
    far = (np.log(4 * size) - 2 * np.log(np.hypot(side, y))) / 4
    real = np.where(ratio < 1e30, np.log1p(ratio) / 4, far)
    large = np.maximum(size, abs(y))
    is_large = large > 1e100
    u, v = size / large, abs(y) / large
    real = np.where(is_large, u / (u * u + v * v) / large, real)
    imag = np.arctan2(2 * y, _sum_of_products(side, 1 + size, -y, y)) / 2
    return np.copysign(real, x), np.where(is_large, np.copysign(PI / 2, y), imag)


def _arcsin(x: A, y: A) -> Pair:
    (a, c), (p, q) = _sqrt(1 - x, -y), _sqrt(1 + x, y)
    return np.arctan2(x, a * p - c * q), np.arcsinh(a * q - c * p)


def _arccos(x: A, y: A) -> Pair:
    (a, c), (p, q) = _sqrt(1 - x, -y), _sqrt(1 + x, y)
    return 2 * np.arctan2(a, p), np.arcsinh(p * c - q * a)


def _arccosh(x: A, y: A) -> Pair:
    (a, c), (p, q) = _sqrt(x - 1, y), _sqrt(x + 1, y)
    return np.arcsinh(a * p + c * q), 2 * np.arctan2(c, p)


def _turned(formula: Callable[[A, A], Pair]) -> Callable[[A, A], Pair]:
    """``-i f(iz)``."""

    def turned(x: A, y: A) -> Pair:
        real, imag = formula(-y, x)
        return imag, -real

    return turned


_COMPLEX: dict[str, Callable[[A, A], Pair]] = {
    "exp": _exp, "expm1": _expm1, "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "sin": _turned(_sinh),
    "cos": lambda x, y: _cosh(-y, x), "tan": _turned(_tanh), "log": _log, "log2": _over(_log, LN2),
    "log10": _over(_log, LN10), "log1p": _log1p, "sqrt": _sqrt, "sign": _sign, "arctanh": _arctanh,
    "arctan": _turned(_arctanh), "arcsin": _arcsin, "arcsinh": _turned(_arcsin), "arccos": _arccos,
    "arccosh": _arccosh, "reciprocal": lambda x, y: _quotient(np.ones_like(x), np.zeros_like(x), x, y),
}  # fmt: skip


# --- distances


def distances(name: str, inputs: list[A], actual: A) -> A:
    """How far each result is from the exact one, in ulp; infinite where one of them is NaN."""
    expected = exact(name, *inputs)
    with np.errstate(all="ignore"):
        if np.iscomplexobj(actual):
            return _in_the_plane(inputs, actual, expected)
        dtype = actual.dtype
        limit = np.ldexp(L(1), int(np.finfo(dtype).maxexp))  # an infinite result counts as the next number
        bounded, found = (np.clip(each, -limit, limit) for each in (expected, actual.astype(L)))
        away = np.abs(found - bounded) / spacing(np.abs(bounded), dtype)
        is_nan = np.isnan(actual), np.isnan(expected)
        return np.where(is_nan[0] | is_nan[1], np.where(is_nan[0] & is_nan[1], 0, np.inf), away)


def _in_the_plane(inputs: list[A], actual: A, expected: Pair) -> A:
    """Infinite and NaN operands, and results beyond the range, are left to the tests of C's values: 0 here."""
    real, imag = expected
    part = actual.real.dtype
    limit = float(np.finfo(part).max)
    is_plain = (abs(real) < limit) & (abs(imag) < limit)
    for each in inputs:
        is_plain &= np.isfinite(each)
    away = np.hypot(actual.real.astype(L) - real, actual.imag.astype(L) - imag)
    away /= spacing(np.hypot(real, imag), part)
    return np.where(is_plain, np.where(np.isnan(away), np.inf, away), 0)


def spacing(size: A, dtype: Any) -> A:
    """The unit in the last place of ``dtype`` at exact values of that size."""
    info = np.finfo(dtype)
    exponent = np.clip(np.frexp(size)[1] - 1, int(info.minexp), int(info.maxexp) - 1)
    unit: A = np.ldexp(L(1), exponent - int(info.nmant))
    return unit


def worst(name: str, inputs: list[A], actual: A) -> tuple[float, str]:
    """The largest distance, and the operands where it is."""
    away = distances(name, inputs, actual)
    place = int(np.argmax(away))
    return float(away[place]), ", ".join(map(_shown, (each[place] for each in inputs)))


def _shown(value: Any) -> str:
    if np.iscomplexobj(value):
        return f"{float(value.real).hex()} {float(value.imag).hex()}i"
    return float(value).hex()


def in_chunks(inputs: list[A], actual: A, size: int) -> Iterator[tuple[list[A], A]]:
    for start in range(0, actual.size, size):
        yield [each[start : start + size] for each in inputs], actual[start : start + size]
