"""A mixture of two Gaussian distributions, fitted by expectation and maximisation (CuPy: examples/gmm).

python gmm.py [samples] [dimensions]
"""

import sys
from typing import Any

import numpy as np

import xferlib as xl


def log_prob(x: Any, means: Any, inverse: Any, weights: Any) -> Any:
    """The logarithm of each weighted density, for each sample: shape (samples, 2)."""
    xp = xl.get_array_module(x)
    precisions = inverse**2
    square = xp.sum(means**2 * precisions, axis=1) - 2 * (x @ (means * precisions).T) + x**2 @ precisions.T
    return xp.log(weights) + xp.sum(xp.log(inverse), axis=1) - 0.5 * (x.shape[1] * np.log(2 * np.pi) + square)


def fit(x: Any, means: Any, covariances: Any, max_iter: int = 30, tol: float = 1e-3) -> tuple[Any, Any, Any]:
    xp = xl.get_array_module(x)
    weights, bound = xp.full((2,), 0.5, dtype=x.dtype), -np.inf
    for _ in range(max_iter):
        weighted = log_prob(x, means, 1 / xp.sqrt(covariances), weights)
        norm = xp.log(xp.sum(xp.exp(weighted), axis=1))
        shares = xp.exp(weighted - norm[:, None])
        sizes = xp.sum(shares, axis=0)
        weights, means = sizes / len(x), shares.T @ x / sizes[:, None]
        covariances = shares.T @ (x * x) / sizes[:, None] - means**2
        before, bound = bound, float(xl.to_host(xp.mean(norm)))
        if abs(bound - before) < tol:
            return means, 1 / xp.sqrt(covariances), weights
    raise RuntimeError("no convergence; increase max_iter or tol")


def main(samples: int = 50_000, dimensions: int = 2) -> None:
    rng = np.random.default_rng(0)
    centers = np.repeat([1.0, -1.0], samples)
    train = rng.normal(centers[:, None], 1, (2 * samples, dimensions))
    test = rng.normal(centers[:, None], 1, (2 * samples, dimensions))
    start = rng.normal([[1.0], [-1.0]], 1, (2, dimensions)), rng.random((2, dimensions))
    x, unseen, means, covariances = xl.tree.to_device((train, test, *start))
    found = fit(x, means, covariances)
    for name, values in (("train", x), ("test", unseen)):
        right = (log_prob(values, *found)[:, 0] > log_prob(values, *found)[:, 1]) == xl.to_device(centers > 0)
        accuracy = 100 * xl.to_host(right).mean()
        print(f"{name} accuracy: {max(accuracy, 100 - accuracy):.1f} %")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
