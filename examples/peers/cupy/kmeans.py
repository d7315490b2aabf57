"""k-means clustering (CuPy: examples/kmeans), by the functions of the arrays' library or by kernels.

python kmeans.py [samples] [clusters]
"""

import sys
from typing import Any

import numpy as np

import xferlib as xl

distance2 = xl.elementwise("T x0, T x1, T c0, T c1", "T out", "out = (x0 - c0) * (x0 - c0) + (x1 - c1) * (x1 - c1)")
masked_sum = xl.reduction("T x, bool mask", "T out", map_expr="mask ? x : 0", reduce_expr="a + b", identity="0")
count = xl.reduction("bool mask", "float32 out", map_expr="mask ? 1.0 : 0.0", reduce_expr="a + b", identity="0")


def by_functions(x: Any, centers: Any) -> tuple[Any, Any, Any]:
    """The nearest center of each sample; the sum and the number of the samples of each."""
    xp = xl.get_array_module(x)
    labels = xp.argmin(xp.sum((x[:, None, :] - centers[None, :, :]) ** 2, axis=2), axis=1)
    mask = labels[None, :] == xp.arange(len(centers))[:, None]
    return labels, xp.sum(xp.where(mask[:, :, None], x, 0), axis=1), xp.sum(mask, axis=1)


def by_kernels(x: Any, centers: Any) -> tuple[Any, Any, Any]:
    xp = xl.get_array_module(x)
    labels = xp.argmin(distance2(x[:, None, 0], x[:, None, 1], centers[None, :, 0], centers[None, :, 1]), axis=1)
    mask = labels[None, :] == xp.arange(len(centers))[:, None]
    return labels, masked_sum(x, mask[:, :, None], axis=1), count(mask, axis=1)


def fit(x: Any, step: Any, clusters: int, max_iter: int = 10) -> tuple[Any, Any]:
    xp = xl.get_array_module(x)
    centers = xp.take(x, xl.random.default_rng(0).permutation(len(x))[:clusters], axis=0)
    labels = xp.zeros(len(x), dtype=xp.int64)
    for _ in range(max_iter):
        found, sums, counts = step(x, centers)
        if xl.to_host(xp.all(found == labels)):
            break
        labels, centers = found, sums / counts[:, None]
    return centers, labels


def main(samples: int = 100_000, clusters: int = 2) -> None:
    points = np.random.default_rng(1).normal(size=(samples, 2))
    x = xl.to_device(np.concatenate((points + 1, points - 1)))
    for step in (by_functions, by_kernels):
        centers, labels = fit(x, step, clusters)
        sizes = np.bincount(xl.to_host(labels), minlength=clusters)
        print(f"{step.__name__}: centers {np.round(xl.to_host(centers), 2).tolist()}, sizes {sizes.tolist()}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
