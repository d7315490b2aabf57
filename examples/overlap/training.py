"""The model that the loops train, for arrays of any library: a linear map, by gradient descent."""

from typing import Any

import numpy as np

COLUMNS = 1024


def data_of(batches: int, rows: int) -> tuple[Any, Any]:
    """Training data in ordinary memory, and first weights; 64 MiB a batch of 16,384 rows."""
    generator = np.random.default_rng(0)
    data = np.empty((batches * rows, COLUMNS), np.float32)
    data[:] = generator.standard_normal((rows, COLUMNS), np.float32)[np.arange(len(data)) % rows]
    return data, (generator.standard_normal((COLUMNS, COLUMNS), np.float32) / 100).astype(np.float32)


def batches_of(data: Any, rows: int) -> list[Any]:
    """Views, in order."""
    return [data[start : start + rows] for start in range(0, len(data), rows)]


def step(x: Any, weights: Any) -> Any:
    """One step of gradient descent towards reproducing the input."""
    return weights - (x.T @ (x @ weights - x)) * (0.01 / x.shape[0])
