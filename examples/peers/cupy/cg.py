"""Simultaneous linear equations by conjugate gradients (CuPy: examples/cg).

python cg.py [size]
"""

import sys
import time
from typing import Any

import numpy as np

import xferlib as xl


def fit(a: Any, b: Any, tol: float = 0.1, max_iter: int = 5000) -> Any:
    xp = xl.get_array_module(a)
    x, r = xp.zeros_like(b), b
    p, rr = r, r @ r
    for _ in range(max_iter):
        ap = a @ p
        step = rr / (p @ ap)
        x, r = x + step * p, r - step * ap
        before, rr = rr, r @ r
        if float(xl.to_host(rr)) ** 0.5 < tol:
            return x
        p = r + rr / before * p
    raise RuntimeError("no convergence; increase tol or max_iter")


def main(size: int = 2000) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-50, 50, (size, size)).astype(float)
    a, answer = a @ a.T, rng.integers(-50, 50, size).astype(float)
    for place, (matrix, right) in (("NumPy", (a, a @ answer)), (xl.get_device(), xl.tree.to_device((a, a @ answer)))):
        start = time.perf_counter()
        x = xl.to_host(fit(matrix, right))
        print(f"{place}: {time.perf_counter() - start:.2f} s, off by {np.linalg.norm(x - answer):.1e}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
