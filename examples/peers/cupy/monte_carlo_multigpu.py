"""Prices by simulation on several devices at a time (CuPy: examples/finance/monte_carlo_multigpu.py).

python monte_carlo_multigpu.py [options] [samples a device]
"""

import sys
from typing import Any

import black_scholes
import monte_carlo
import numpy as np

import xferlib as xl


def main(options: int = 100, samples: int = 20_000) -> None:
    kind = xl.get_device().kind
    devices = [device for device in xl.get_backend().devices() if device.kind == kind]
    arrays: Any = xl.tree.to_host(black_scholes.market(options))
    prices = []
    for device, rng in zip(devices, xl.random.default_rng(1).spawn(len(devices)), strict=True):
        with device:  # each device computes while the next one gets its work
            prices.append(monte_carlo.price(xl.tree.to_device(arrays), samples, rng))
    exact, _ = black_scholes.black_scholes(0.02, 0.3, *arrays)
    error = np.mean(xl.tree.to_host(prices), axis=0) - exact
    print(f"{len(devices)} device(s), {samples} samples each: standard deviation of the error {np.std(error):.4f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
