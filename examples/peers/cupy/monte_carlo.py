"""Prices of European options by simulation (CuPy: examples/finance/monte_carlo.py).

The numbers are drawn by `xl.random`, so that every backend gives the same prices; paying off and averaging are one
reduction, which stores none of the payoffs.

python monte_carlo.py [options] [samples]
"""

import sys
from typing import Any

import black_scholes
import numpy as np

import xferlib as xl

mean_payoff = xl.reduction(
    "T s, T x, T t, T r, T v, T p",
    "T call",
    map_expr="max(s * exp((r - v * v / 2) * t + v * sqrt(t) * p) - x, T(0)) * exp(-r * t)",
    reduce_expr="a + b",
    post_map_expr="call = a * _out_ind.size() / _in_ind.size()",
    identity="0",
)


def price(arrays: Any, samples: int, rng: Any) -> Any:
    """The mean of the discounted payoffs of each call."""
    draws = rng.normal(size=(1, samples))
    return mean_payoff(*[each[:, None] for each in arrays], 0.02, 0.3, draws, axis=1)


def main(options: int = 100, samples: int = 20_000) -> None:
    arrays = black_scholes.market(options)
    exact, _ = black_scholes.kernel(0.02, 0.3, *arrays)
    error = xl.to_host(price(arrays, samples, xl.random.default_rng(1)) - exact)
    print(f"{options} options, {samples} samples: standard deviation of the error {np.std(error):.4f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
