"""Data larger than the device: batch k + 1 is copied while batch k is computed on."""

from typing import Any

import numpy as np

import xferlib as xl


def main() -> None:
    data = np.random.default_rng(0).normal(3.0, 2.0, (200_000, 64)).astype("float32")
    batches = [data[start : start + 20_000] for start in range(0, len(data), 20_000)]  # need not be pinned
    total: Any = 0.0
    squares: Any = 0.0
    for batch in xl.prefetch(batches):  # the next two are on their way; the host waits for none of the copies
        xp = xl.get_array_module(batch)
        total = total + xp.sum(batch, axis=0)
        squares = squares + xp.sum(batch * batch, axis=0)
    mean = xl.to_host(total) / len(data)
    deviation = np.sqrt(xl.to_host(squares) / len(data) - mean**2)
    print(f"mean {mean.mean():.2f}, standard deviation {deviation.mean():.2f}, from 10 batches")


if __name__ == "__main__":
    main()
