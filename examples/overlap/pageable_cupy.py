"""Two ordinary arrays, two streams, with CuPy's own calls: nothing overlaps, because the memory is pageable."""

from typing import Any

import cupy as cp
import numpy as np

import xferlib as xl

SHAPE = (1000, 10_000)


def run(a: Any, b: Any) -> Any:
    """Copy both; double the first while the second is on its way, or so one hopes. Returns the device arrays."""
    first, second = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    da, db = cp.empty(a.shape, a.dtype), cp.empty(b.shape, b.dtype)
    with xl.trace.range("da.set(a)", kind="h2d", nbytes=a.nbytes, stream=first):  # the ranges are for the picture
        da.set(a, stream=first)
    with xl.trace.range("db.set(b)", kind="h2d", nbytes=b.nbytes, stream=second):
        db.set(b, stream=second)
    first.synchronize()
    with xl.trace.range("da *= 2"):
        da *= 2
    cp.cuda.Device().synchronize()
    return da, db


def main() -> None:
    da, db = run(np.ones(SHAPE), np.ones(SHAPE))
    print(f"sums {float(da.sum()):g} and {float(db.sum()):g}")


if __name__ == "__main__":
    main()
