"""The speed of random numbers, beside NumPy's (PyCUDA's wiki: measure_gpuarray_speed_random).

python measure_random.py [largest power of two]
"""

import sys
import time
from typing import Any

import numpy as np

import xferlib as xl


def speed(draw: Any, size: int, repeats: int = 5) -> float:
    draw(size)
    xl.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        draw(size)
    xl.synchronize()
    return size * repeats / (time.perf_counter() - start) / 1e6


def main(largest: int = 18) -> None:
    ours, numpys = xl.random.default_rng(0), np.random.default_rng(0)
    print(f"{'size':>10} {xl.get_device()!s:>12} {'NumPy':>12}   millions a second")
    for power in range(10, largest + 1, 2):
        mine, theirs = (speed(lambda size, g=g: g.random(size, "float32"), 1 << power) for g in (ours, numpys))
        print(f"{1 << power:>10} {mine:>12.1f} {theirs:>12.1f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
