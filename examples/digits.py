"""Train a small classifier on handwritten digits, on whatever device there is.

The arrays decide where the work is done: the same lines run on NumPy, PyTorch and CuPy. Mini-batches
are prefetched: the next ones are on their way while the device works on the one before.

    python examples/digits.py                              # on the default device
    XFERLIB_BACKEND=torch python examples/digits.py
    xferlib demo                                           # this program on every backend, as a table
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np

import xferlib as xl

TRAIN, BATCH, HIDDEN, CLASSES = 1500, 100, 100, 10
RATE, MOMENTUM = 0.1, 0.9


@dataclass
class Result:
    accuracy: float  # on the 297 images that were held out
    weights: dict[str, Any]  # NumPy arrays
    losses: list[float] = field(default_factory=list)  # mean cross-entropy in nats, one an epoch
    epoch_s: list[float] = field(default_factory=list)
    nbytes: int = 0  # moved between host and device, both ways


def load() -> tuple[Any, Any]:
    """1,797 images as float32 rows of 64 pixels from 0 to 1, and their labels, with the writers mixed."""
    with (files("xferlib") / "_cli" / "demo" / "digits.npz").open("rb") as file, np.load(file) as data:
        mixed = np.random.default_rng(0).permutation(len(data["labels"]))
        return data["images"][mixed].reshape(-1, 64).astype("float32") / 16, data["labels"][mixed]


def forward(w: dict[str, Any], x: Any) -> tuple[Any, Any, Any]:
    xp = xl.get_array_module(x)
    z = x @ w["W1"] + w["b1"]
    h = xp.maximum(0, z) + xp.log1p(xp.exp(-xp.abs(z)))  # softplus: log(1 + exp(z)) without overflow
    return z, h, h @ w["W2"] + w["b2"]


def step(w: dict[str, Any], v: dict[str, Any], x: Any, t: Any) -> Any:
    """One step of gradient descent with momentum; returns the batch's summed loss, on the device."""
    xp = xl.get_array_module(x)
    z, h, y = forward(w, x)
    y = y - xp.max(y, axis=1, keepdims=True)
    e = xp.exp(y)
    total = xp.sum(e, axis=1, keepdims=True)
    dy = (e / total - t) / BATCH
    dz = (dy @ w["W2"].T) * xp.exp(z - h)  # the derivative of softplus(z) is exp(z - softplus(z))
    grads = {"W1": x.T @ dz, "b1": xp.sum(dz, axis=0), "W2": h.T @ dy, "b2": xp.sum(dy, axis=0)}
    for name, grad in grads.items():
        v[name] = MOMENTUM * v[name] - RATE * grad
        w[name] = w[name] + v[name]
    return xp.sum(xp.log(total)) - xp.sum(t * y)


def train(device: xl.Device, epochs: int = 30, seed: int = 0, on_epoch: Callable[[], Any] = lambda: None) -> Result:
    images, labels = load()
    targets = np.eye(CLASSES, dtype="float32")[labels]
    rng = np.random.default_rng(seed)  # on the host, so that every device sees the same numbers
    start = {"W1": rng.normal(0, 64**-0.5, (64, HIDDEN)), "b1": np.zeros(HIDDEN)}
    start |= {"W2": rng.normal(0, HIDDEN**-0.5, (HIDDEN, CLASSES)), "b2": np.zeros(CLASSES)}
    result = Result(accuracy=0.0, weights={})
    with device, xl.Stream(device):  # on a CPU both do nothing
        w = {name: xl.to_device(value, device=device, dtype="float32") for name, value in start.items()}
        v = {name: xl.zeros_like(value) for name, value in w.items()}
        for _ in range(epochs):
            began, loss = time.perf_counter(), xl.zeros((), "float32", device=device)
            batches = [(images[rows], targets[rows]) for rows in rng.permutation(TRAIN).reshape(-1, BATCH)]
            for x, t in xl.prefetch(batches, device=device):  # the host waits for none of them
                loss = loss + step(w, v, x, t)
            result.nbytes += sum(x.nbytes + t.nbytes for x, t in batches)
            result.losses.append(float(xl.to_host(loss)) / TRAIN)  # waits for the epoch's work
            result.epoch_s.append(time.perf_counter() - began)
            on_epoch()
        scores = xl.to_host(forward(w, xl.to_device(images[TRAIN:], device=device))[2])
        result.accuracy = float((scores.argmax(axis=1) == labels[TRAIN:]).mean())
        result.weights = {name: xl.to_host(value) for name, value in w.items()}
    result.nbytes += 2 * sum(value.nbytes for value in result.weights.values())  # up at the start, down at the end
    result.nbytes += images[TRAIN:].nbytes + scores.nbytes + 4 * epochs
    return result


if __name__ == "__main__":
    place = xl.get_device()
    found = train(place)
    print(f"{place}: {found.accuracy:.1%} of 297 held-out digits, loss {found.losses[0]:.2f} -> {found.losses[-1]:.4f}")
