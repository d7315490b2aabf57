"""Prices of European options by the equation of Black and Scholes (CuPy: examples/finance/black_scholes.py).

One Python function serves as NumPy code and as a kernel.

python black_scholes.py [options]
"""

import sys
import time
from typing import Any

import numpy as np
from numpy import exp, log, sqrt, where

import xferlib as xl


def normal_cdf(x: Any) -> Any:
    k = 1 / (1 + 0.2316419 * abs(x))
    series = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = 0.3989422804014327 * exp(-x * x / 2) * series
    return where(x > 0, 1 - tail, tail)


def black_scholes(r: Any, v: Any, s: Any, x: Any, t: Any) -> tuple[Any, Any]:
    """Prices of the call and the put: interest `r`, volatility `v`, stock price `s`, strike `x`, `t` years."""
    d1 = (log(s / x) + (r + v * v / 2) * t) / (v * sqrt(t))
    d2 = d1 - v * sqrt(t)
    discounted = x * exp(-r * t)
    call = s * normal_cdf(d1) - discounted * normal_cdf(d2)
    return call, discounted * (1 - normal_cdf(d2)) - s * (1 - normal_cdf(d1))


kernel = xl.elementwise(black_scholes)


def market(options: int) -> Any:
    rng = xl.random.default_rng(0)
    return rng.uniform(5, 30, options), rng.uniform(1, 100, options), rng.uniform(0.25, 10, options)


def main(options: int = 1_000_000) -> None:
    arrays = market(options)
    for name, function, args in (("NumPy", black_scholes, xl.tree.to_host(arrays)), ("kernel", kernel, arrays)):
        xl.synchronize()
        start = time.perf_counter()
        prices = function(0.02, 0.3, *args)
        xl.synchronize()
        print(f"{name}: {time.perf_counter() - start:.4f} s")
    np.testing.assert_allclose(xl.tree.to_host(prices), black_scholes(0.02, 0.3, *xl.tree.to_host(arrays)), atol=1e-9)
    print(f"mean call {xl.to_host(prices[0]).mean():.4f}, mean put {xl.to_host(prices[1]).mean():.4f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
