"""Data larger than the device: batch k + 1 is copied while batch k is computed on."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import xferlib as xl


def on_device(source: Any, rows: int) -> Iterator[Any]:
    """Batches of ``source`` as device arrays; the next is on its way while the caller works on this one."""
    ahead: xl.Transfer | None = None
    for start in range(0, len(source), rows):
        this, ahead = ahead, xl.to_device_async(source[start : start + rows])  # any memory: it need not be pinned
        if this is not None:
            yield this.result()  # ordered on the current stream; the host does not wait for the copy
    if ahead is not None:
        yield ahead.result()


def main() -> None:
    data = np.random.default_rng(0).normal(3.0, 2.0, (200_000, 64)).astype("float32")
    total: Any = 0.0
    squares: Any = 0.0
    for batch in on_device(data, rows=20_000):
        xp = xl.get_array_module(batch)
        total = total + xp.sum(batch, axis=0)
        squares = squares + xp.sum(batch * batch, axis=0)
    mean = xl.to_host(total) / len(data)
    deviation = np.sqrt(xl.to_host(squares) / len(data) - mean**2)
    print(f"mean {mean.mean():.2f}, standard deviation {deviation.mean():.2f}, from 10 batches")


if __name__ == "__main__":
    main()
