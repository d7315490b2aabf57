"""Model-parallel training on two devices: the first layer is on one, the second on the other.

A batch passes as four smaller ones, so that the first device computes the next one while the second computes this one.
The weights have the bits of one device that has both layers. Without two devices one stands in for both.
"""

from importlib.resources import files
from typing import Any

import numpy as np

import xferlib as xl

TRAIN, BATCH, PARTS, HIDDEN, CLASSES, RATE = 1500, 300, 4, 50, 10, 1.0


def load() -> tuple[Any, Any]:
    """1,797 images of digits as float32 rows from 0 to 1, and their labels."""
    with (files("xferlib") / "_cli" / "demo" / "digits.npz").open("rb") as file, np.load(file) as data:
        mixed = np.random.default_rng(0).permutation(len(data["labels"]))
        return data["images"][mixed].reshape(-1, 64).astype("float32") / 16, data["labels"][mixed]


def probabilities(h: Any, w: Any) -> Any:
    xp = xl.get_array_module(h)
    e = xp.exp(h @ w)  # the scores stay small: no overflow
    return e / xp.sum(e, axis=1, keepdims=True)


def step(w1: Any, w2: Any, parts: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """One step of gradient descent; each part of the batch has its images where ``w1`` is, its targets with ``w2``."""
    one, two = xl.get_device(w1), xl.get_device(w2)
    hidden, grads1, grads2, returning = [], [], [], []
    for x, t in parts:  # the host only enqueues: the first device goes on while the second computes
        with one:
            h = xl.get_array_module(x).tanh(x @ w1)
        there = xl.copy_to(h, two)
        with two:
            dy = (probabilities(there, w2) - t) / BATCH
            grads2.append(there.T @ dy)
            returning.append(dy @ w2.T)
        hidden.append(h)
    for (x, _), h, dh in zip(parts, hidden, returning, strict=True):
        back = xl.copy_to(dh, one)
        with one:
            grads1.append(x.T @ (back * (1 - h * h)))
    with one:
        w1 = w1 - RATE * sum(grads1[1:], grads1[0])
    with two:
        w2 = w2 - RATE * sum(grads2[1:], grads2[0])
    return w1, w2


def train(one: xl.Device, two: xl.Device, epochs: int = 5) -> tuple[Any, Any]:
    """The weights of both layers, on the host."""
    images, labels = load()
    targets = np.eye(CLASSES, dtype="float32")[labels]
    rng = np.random.default_rng(1)
    w1 = xl.to_device(rng.normal(0, 64**-0.5, (64, HIDDEN)), device=one, dtype="float32")
    w2 = xl.to_device(rng.normal(0, HIDDEN**-0.5, (HIDDEN, CLASSES)), device=two, dtype="float32")
    for _ in range(epochs):
        for rows in rng.permutation(TRAIN).reshape(-1, PARTS, BATCH // PARTS):
            xs, ts = ([*xl.prefetch([data[each] for each in rows], device=device, depth=PARTS)]
                      for data, device in ((images, one), (targets, two)))  # fmt: skip
            w1, w2 = step(w1, w2, list(zip(xs, ts, strict=True)))
    return xl.to_host(w1), xl.to_host(w2)


def main() -> None:
    kind = xl.get_device().kind
    found = [device for device in xl.get_backend().devices() if device.kind == kind]
    split, whole = train(found[0], found[-1]), train(found[0], found[0])
    assert all((one == two).all() for one, two in zip(split, whole, strict=True))
    images, labels = load()
    scores = probabilities(np.tanh(images[TRAIN:] @ split[0]), split[1])
    right = (scores.argmax(axis=1) == labels[TRAIN:]).mean()
    print(f"layers on {found[0]} and {found[-1]}: {right:.1%} of 297 digits, with the bits of one device")


if __name__ == "__main__":
    main()
