"""Two ordinary arrays, two streams: the first is doubled while the second is on its way. Nothing is pinned by hand."""

from typing import Any

import numpy as np

import xferlib as xl

SHAPE = (1000, 10_000)


def run(a: Any, b: Any) -> Any:
    """Copy both; double the first while the second is on its way. Returns the device arrays."""
    first, second = xl.Stream(), xl.Stream()
    da, db = xl.empty(a.shape, a.dtype), xl.empty(b.shape, b.dtype)
    xl.to_device_async(a, out=da, stream=first)
    later = xl.to_device_async(b, out=db, stream=second)
    first.synchronize()
    with xl.trace.range("da *= 2"):
        da *= 2
    return da, later.result()


def main() -> None:
    da, db = run(np.ones(SHAPE), np.ones(SHAPE))
    print(f"sums {xl.to_host(da).sum():g} and {xl.to_host(db).sum():g}")


if __name__ == "__main__":
    main()
