"""The loop with `prefetch`: an ordinary loop over ordinary memory, and the next batches are on their way."""

import sys
from typing import Any

import numpy as np
from training import batches_of, data_of, step

import xferlib as xl


def run(data: Any, rows: int, weights: Any) -> Any:
    """One epoch; returns the weights."""
    for x in xl.prefetch(batches_of(data, rows)):
        with xl.trace.range("train"):
            weights = step(x, weights)
    xl.synchronize()
    return weights


def main() -> None:
    batches, rows = (int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else (16, 16384)
    data, weights = data_of(batches, rows)
    trained = xl.to_host(run(data, rows, xl.to_device(weights)))
    print(f"norm {np.linalg.norm(trained):.3f}")


if __name__ == "__main__":
    main()
