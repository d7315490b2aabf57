"""Measure how far the special functions of float64 are from the exact ones, and compare with their bounds.

    python -m tools.special_ulp [--count 2000] [--seed 1] [--only tgamma,erfc]

Each function has ranges in which its operands are uniform, or uniform in the exponent. Prints the largest distance in
units of the last place and where it is; the exit status is 1 if one is beyond its bound. Needs mpmath.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

from xferlib.kernels import elementwise
from xferlib.kernels.formulas import BOUNDS, OWN

Range = tuple[str, float, float]
_TAILS: list[Range] = [("uniform", 0.25, 0.75), ("uniform", 0, 1), ("power", -1020, -1)]
RANGES: dict[str, list[Range]] = {
    "erf": [("uniform", -6, 6), ("power", -1000, 0)],
    "erfc": [("uniform", -6, -0.5), ("uniform", -0.5, 0.5), ("uniform", 0.5, 2), ("uniform", 2, 27.2)],
    "erfcx": [("uniform", -26.6, 0), ("uniform", -1, 1), ("uniform", 1, 40), ("power", 0, 1020)],
    "erfinv": [("uniform", -1, 1), ("uniform", 0.4, 0.6), ("power", -1000, 0), ("below one", -53, -1)],
    "erfcinv": [*_TAILS, ("uniform", 1, 2)],
    "normcdf": [("uniform", -38.4, -1), ("uniform", -1, 1), ("uniform", 1, 9)],
    "normcdfinv": _TAILS,
    "tgamma": [
        ("uniform", 0, 1), ("uniform", 1, 2), ("uniform", 2, 8), ("uniform", 8, 171.6), ("uniform", -8, 0),
        ("uniform", -178, -8), ("power", -1020, 0),
    ],
    "lgamma": [
        ("uniform", 0, 1), ("uniform", 1, 3), ("uniform", 3, 8), ("power", 3, 1010), ("power", -1020, 0),
        ("above one", -52, -3), ("above two", -51, -3),
    ],
    "sinpi": [("uniform", -4, 4), ("power", -1000, 52)],
    "cospi": [("uniform", -4, 4), ("power", -1000, 52)],
}  # fmt: skip


def inputs(name: str, count: int, seed: int) -> np.ndarray[Any, Any]:
    """``count`` operands of each range."""
    rng = np.random.default_rng(seed)
    parts = []
    for kind, low, high in RANGES[name]:
        x = rng.uniform(low, high, count)
        if kind != "uniform":
            x = np.exp2(x)
        parts.append({"below one": 1 - x, "above one": 1 + x, "above two": 2 + x}.get(kind, x))
    x = np.concatenate(parts)
    found: np.ndarray[Any, Any] = x[(x != 0) & (np.floor(x) != x)]
    return found


def _exact(name: str, x: Any) -> Any:
    with_precision: dict[str, Callable[[Any], Any]] = {
        "erf": mpmath.erf, "erfc": mpmath.erfc, "erfcx": _erfcx_of, "tgamma": mpmath.gamma,
        "normcdf": lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2, "lgamma": mpmath.loggamma,
        "sinpi": mpmath.sinpi, "cospi": mpmath.cospi, "exp10": lambda x: mpmath.mpf(10) ** x,
        "rcbrt": lambda x: mpmath.sign(x) / mpmath.cbrt(abs(x)), "cyl_bessel_i0": lambda x: mpmath.besseli(0, x),
    }  # fmt: skip
    return with_precision[name](x)


def _erfcx_of(x: Any) -> Any:
    if x < 1000:
        return mpmath.exp(x * x) * mpmath.erfc(x)
    u = 1 / (2 * x * x)
    return (1 - u + 3 * u**2 - 15 * u**3 + 105 * u**4 - 945 * u**5) / (x * mpmath.sqrt(mpmath.pi))


def _distance(name: str, x: float, found: float) -> float:
    """In units of the last place of the exact value."""
    if name not in ("erfinv", "erfcinv", "normcdfinv"):
        exact = _exact(name, mpmath.mpf(x))
        return abs(float((mpmath.mpf(found) - exact) / np.spacing(abs(float(exact)))))
    # Of an inverse by what its function is at the result, and the function's slope there.
    z, given = mpmath.mpf(found), mpmath.mpf(x)
    if name == "normcdfinv":
        z, given = -z / mpmath.sqrt(2), 2 * given
    value = mpmath.erf(z) if name == "erfinv" else mpmath.erfc(z)
    off = (value - given) / (2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-z * z))
    off *= mpmath.sqrt(2) if name == "normcdfinv" else 1
    return abs(float(off / np.spacing(abs(found))))


def worst(name: str, count: int, seed: int) -> tuple[float, float]:
    """The largest distance over ``count`` operands of each range, and where it is."""
    x = inputs(name, count, seed)
    with np.errstate(all="ignore"):
        found = elementwise("T x", "T y", f"y = {name}(x)", name=name)(x)
    return find_worst(name, x, found)


def find_worst(name: str, x: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The largest distance of results at these operands, and where it is."""
    with mpmath.workprec(200):
        distances = [_distance(name, *pair) for pair in zip(x.tolist(), found.tolist(), strict=True)]
    place = int(np.argmax(distances))
    return distances[place], float(x[place])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="functions, separated by commas")
    options = parser.parse_args()
    is_beyond = False
    for name in options.only.split(",") if options.only else OWN:
        distance, place = worst(name, options.count, options.seed)
        is_beyond |= not distance <= BOUNDS[name]
        print(
            f"{'PASS' if distance <= BOUNDS[name] else 'FAIL'} {name:10} {distance:.4f} of {BOUNDS[name]} at {place!r}"
        )
    return int(is_beyond)


if __name__ == "__main__":
    sys.exit(main())
