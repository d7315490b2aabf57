"""The loop as one writes it first: copy a batch, train on it, copy the next."""

from typing import Any

import cupy as cp
from training import batches_of, data_of, step

import xferlib as xl


def run(data: Any, rows: int, weights: Any) -> Any:
    """One epoch; returns the weights."""
    for batch in batches_of(data, rows):
        with xl.trace.range("asarray", kind="h2d", nbytes=batch.nbytes):
            x = cp.asarray(batch)
        with xl.trace.range("train"):
            weights = step(x, weights)
    cp.cuda.Device().synchronize()
    return weights


def main() -> None:
    data, weights = data_of(16, rows=16384)
    print(f"norm {float(cp.linalg.norm(run(data, 16384, cp.asarray(weights)))):.3f}")


if __name__ == "__main__":
    main()
