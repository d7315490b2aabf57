"""Is there a GPU, and how much faster is it? Two square float32 matrices, multiplied on both.

python examples/matmul.py [side]      (15360 on a GPU, 1024 without one)
"""

import sys
import time
from typing import Any

import numpy as np

import xferlib as xl


def time_product(device: xl.Device, a: Any, b: Any) -> tuple[Any, float]:
    xp = xl.get_array_module(a)
    start = time.perf_counter()
    product = xp.matmul(a, b)
    device.synchronize()  # a GPU returns before it has computed anything
    return product, time.perf_counter() - start


def main() -> None:
    device = xl.get_device()
    side = int(sys.argv[1]) if len(sys.argv) > 1 else 15_360 if device.kind == "cuda" else 1024
    rng = np.random.default_rng(0)
    a, b = rng.random((side, side), dtype="float32"), rng.random((side, side), dtype="float32")
    expected, seconds = time_product(xl.get_device("numpy:cpu"), a, b)
    print(f"NumPy on the CPU: {seconds:.3f} s")
    da, db = xl.to_device(a), xl.to_device(b)
    product = None
    for _ in range(3):  # the first call also initialises the library
        product, seconds = time_product(device, da, db)
        print(f"{device} ({device.properties.name}): {seconds:.3f} s")
    # A sum of `side` positive products, each rounded: the error grows with the side, in units of 2**-24.
    worst = float(np.max(np.abs(xl.to_host(product) - expected) / expected))
    assert worst <= side * 2.0**-24, worst
    print(f"the two agree to {worst:.1e}")


if __name__ == "__main__":
    main()
