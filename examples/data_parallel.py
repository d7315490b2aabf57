"""Train on handwritten digits over several processes: the same weights, bit for bit, for 1, 2 or 4 of them.

    python examples/data_parallel.py
    mpiexec -n 2 python examples/data_parallel.py
    torchrun --nproc-per-node=2 examples/data_parallel.py

Each batch is cut into four parts, by any number of processes, and the gradients of the parts are added pairwise:
first within a process, then over all. Kernels of float32 give the same bits on every backend, so one GPU, two GPUs and
a laptop end with the same weights.
"""

from __future__ import annotations

import zlib
from importlib.resources import files
from typing import Any

import numpy as np

import xferlib as xl
from xferlib import distributed
from xferlib.kernels.reductions import dot
from xferlib.kernels.reductions import sum as total

STEPS, PARTS, ROWS, HIDDEN, CLASSES, RATE = 60, 4, 25, 32, 10, 0.5


def product(a: Any, b: Any) -> Any:
    """The matrix product, added in the same order everywhere: a library's own depends on the library."""
    return dot(a[:, :, None], b[None, :, :], axis=1)


@xl.elementwise
def softplus(z: Any) -> Any:
    return np.maximum(0, z) + np.log1p(np.exp(-abs(z)))


@xl.elementwise
def error(e: Any, summed: Any, target: Any) -> Any:
    return (e / summed - target) / ROWS


@xl.elementwise
def grad_before(back: Any, z: Any, h: Any) -> Any:
    return back * np.exp(z - h)  # the derivative of softplus(z) is exp(z - softplus(z))


@xl.elementwise
def step(w: Any, grad: Any) -> Any:
    return w - np.float32(RATE) * grad


exp = xl.elementwise(lambda y: np.exp(y), name="exp")  # noqa: PLW0108 - a kernel is traced from a function of Python


def grads(w: dict[str, Any], x: Any, t: Any) -> dict[str, Any]:
    """The derivatives of the mean cross-entropy of one part."""
    z = product(x, w["W1"]) + w["b1"]
    h = softplus(z)
    e = exp(product(h, w["W2"]) + w["b2"])
    dy = error(e, total(e, axis=1, keepdims=True), t)
    dz = grad_before(product(dy, w["W2"].T), z, h)
    return {"W1": product(x.T, dz), "b1": total(dz, axis=0), "W2": product(h.T, dy), "b2": total(dy, axis=0)}


def load() -> tuple[Any, Any]:
    """1,797 images as float32 rows of 64 pixels from 0 to 1, and their labels as rows with a single 1."""
    with (files("xferlib") / "_cli" / "demo" / "digits.npz").open("rb") as file, np.load(file) as data:
        return data["images"].reshape(-1, 64).astype("float32") / 16, np.eye(CLASSES, dtype="float32")[data["labels"]]


def place_of(comm: distributed.Communicator) -> xl.Device:
    """A device of this process's own, where the host has as many."""
    place = xl.get_device()
    devices = [each for each in xl.get_backend().devices() if each.kind == place.kind]
    return devices[comm.local_rank % len(devices)]


def train(comm: distributed.Communicator) -> dict[str, Any]:
    if PARTS % comm.size:
        raise ValueError(f"{PARTS} parts of a batch do not fit {comm.size} processes; start 1, 2 or 4")
    images, targets = load()
    rng = np.random.default_rng(0)  # the same numbers in every process
    start = {"W1": rng.normal(0, 1 / 8, (64, HIDDEN)), "b1": np.zeros(HIDDEN)}
    start |= {"W2": rng.normal(0, HIDDEN**-0.5, (HIDDEN, CLASSES)), "b2": np.zeros(CLASSES)}
    own = PARTS // comm.size  # parts of each batch in this process
    with place_of(comm) as place:
        w = {name: xl.to_device(value, device=place, dtype="float32") for name, value in start.items()}
        w = distributed.broadcast_params(comm, w)
        for _ in range(STEPS):
            rows = rng.integers(0, len(images), (PARTS, ROWS))[comm.rank * own : (comm.rank + 1) * own]
            parts = [grads(w, xl.to_device(images[each]), xl.to_device(targets[each])) for each in rows]
            mean = distributed.mean_grads(comm, distributed.pairwise_sum(*parts), reproducible=True)
            w = {name: step(w[name], mean[name] / own) for name in w}
        return {name: xl.to_host(value) for name, value in w.items()}


if __name__ == "__main__":
    with distributed.init() as comm:
        weights = train(comm)
        checksum = zlib.crc32(b"".join(value.tobytes() for value in weights.values()))
        print(f"rank {comm.rank} of {comm.size}: checksum of the weights {checksum:08x}")
