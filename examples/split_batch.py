"""Data-parallel training on two devices: each has the whole network and half of every batch.

The gradients of both halves are added on the first device, in a fixed order, so that the weights have the bits of one
device that computes both halves in turn. Without two devices one stands in for both.
"""

from importlib.resources import files
from typing import Any

import numpy as np

import xferlib as xl

TRAIN, BATCH, HIDDEN, CLASSES, RATE = 1500, 300, 50, 10, 1.0


def load() -> tuple[Any, Any]:
    """1,797 images of digits as float32 rows from 0 to 1, and their labels."""
    with (files("xferlib") / "_cli" / "demo" / "digits.npz").open("rb") as file, np.load(file) as data:
        mixed = np.random.default_rng(0).permutation(len(data["labels"]))
        return data["images"][mixed].reshape(-1, 64).astype("float32") / 16, data["labels"][mixed]


def forward(w: dict[str, Any], x: Any) -> tuple[Any, Any]:
    xp = xl.get_array_module(x)
    h = xp.tanh(x @ w["W1"] + w["b1"])
    e = xp.exp(h @ w["W2"] + w["b2"])  # the scores stay small: no overflow
    return h, e / xp.sum(e, axis=1, keepdims=True)


def grads(w: dict[str, Any], x: Any, t: Any) -> dict[str, Any]:
    """The gradients of the mean cross-entropy of a batch, from one shard of it."""
    xp = xl.get_array_module(x)
    h, y = forward(w, x)
    dy = (y - t) / BATCH
    dz = (dy @ w["W2"].T) * (1 - h * h)
    return {"W1": x.T @ dz, "b1": xp.sum(dz, axis=0), "W2": h.T @ dy, "b2": xp.sum(dy, axis=0)}


def train(devices: list[xl.Device], epochs: int = 5) -> list[dict[str, Any]]:
    """The weights of the network on each device, on the host."""
    images, labels = load()
    targets = np.eye(CLASSES, dtype="float32")[labels]
    rng = np.random.default_rng(1)
    start = {"W1": rng.normal(0, 64**-0.5, (64, HIDDEN)), "b1": np.zeros(HIDDEN)}
    start |= {"W2": rng.normal(0, HIDDEN**-0.5, (HIDDEN, CLASSES)), "b2": np.zeros(CLASSES)}
    weights = {name: value.astype("float32") for name, value in start.items()}
    replicas = [xl.tree.to_device(weights, device=device) for device in devices]
    for _ in range(epochs):
        rows = rng.permutation(TRAIN).reshape(-1, BATCH // len(devices))  # each a shard: a device's part of a batch
        batches = [(images[each], targets[each]) for each in rows]
        shards = iter(xl.prefetch(batches, devices=dict.fromkeys(devices)))
        for batch in zip(*[shards] * len(devices), strict=True):
            parts = []
            for replica, (x, t) in zip(replicas, batch, strict=True):
                with xl.get_device(x):
                    parts.append(grads(replica, x, t))
            step(replicas, parts, devices)
    return [xl.tree.to_host(each) for each in replicas]


def step(replicas: list[dict[str, Any]], parts: list[dict[str, Any]], devices: list[xl.Device]) -> None:
    """Add the gradients on the first device, send the sum to all, and take a step on each."""
    for name in replicas[0]:
        total = parts[0][name]
        for part in parts[1:]:
            moved = xl.copy_to(part[name], devices[0])  # a peer copy; no thread waits for it
            with devices[0]:
                total = total + moved
        for device, replica in zip(devices, replicas, strict=True):
            change = xl.copy_to(total, device)
            with device:
                replica[name] = replica[name] - RATE * change


def main() -> None:
    kind = xl.get_device().kind
    found = [device for device in xl.get_backend().devices() if device.kind == kind]
    split, whole = train([found[0], found[-1]]), train([found[0], found[0]])
    for name, value in whole[0].items():
        assert all((replica[name] == value).all() for replica in split)
    images, labels = load()
    scores = forward(split[0], images[TRAIN:])[1]
    right = (scores.argmax(axis=1) == labels[TRAIN:]).mean()
    print(f"half a batch each on {found[0]} and {found[-1]}: {right:.1%} of 297 digits, with the bits of one device")


if __name__ == "__main__":
    main()
