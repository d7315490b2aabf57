"""Train a network of PyTorch over several processes; gradients travel while the backward pass computes others.

    python examples/overlapped_gradients.py
    torchrun --nproc-per-node=2 examples/overlapped_gradients.py
    mpiexec -n 2 python examples/overlapped_gradients.py

PyTorch calls a hook as soon as it has made the gradient of a parameter, those of the last layer first. The hook begins
the mean over all processes, and the step waits for all of them.
"""

from __future__ import annotations

import sys
from importlib.resources import files
from typing import Any

import numpy as np

from xferlib import distributed

try:
    import torch
except ImportError:
    sys.exit("needs PyTorch: pip install torch")

EPOCHS, BATCH, TRAIN, HIDDEN, RATE = 12, 100, 1500, 64, 0.3


class MeanGradients:
    """The gradients of a module, each the mean over all ranks: begun in the backward pass, complete after `wait`."""

    def __init__(self, comm: distributed.Communicator, module: torch.nn.Module) -> None:
        self._comm = comm
        self._begun: list[distributed.Collective] = []
        for parameter in module.parameters():
            parameter.register_post_accumulate_grad_hook(self._begin)

    def _begin(self, parameter: Any) -> None:
        self._begun.append(self._comm.all_reduce(parameter.grad, "mean", out=parameter.grad, async_op=True))

    def wait(self) -> None:
        for each in self._begun:
            each.wait()
        self._begun.clear()


def load(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """1,797 images of digits as float32 rows from 0 to 1, mixed, and their labels."""
    with (files("xferlib") / "_cli" / "demo" / "digits.npz").open("rb") as file, np.load(file) as data:
        mixed = np.random.default_rng(0).permutation(len(data["labels"]))
        images, labels = data["images"][mixed].reshape(-1, 64).astype("float32") / 16, data["labels"][mixed]
    return torch.from_numpy(images).to(device), torch.from_numpy(labels.astype("int64")).to(device)


def train(comm: distributed.Communicator) -> tuple[torch.nn.Module, float]:
    """The trained network, and the share of the images kept back that it knows."""
    count = torch.cuda.device_count()
    device = torch.device("cuda", comm.local_rank % count) if count else torch.device("cpu")
    images, labels = load(device)
    torch.manual_seed(comm.rank)  # every rank begins with the weights of rank 0 all the same
    net = torch.nn.Sequential(torch.nn.Linear(64, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 10)).to(device)
    net.load_state_dict(distributed.broadcast_params(comm, net.state_dict()))
    gradients = MeanGradients(comm, net)
    rng = np.random.default_rng(1)  # the same numbers in every rank
    for _ in range(EPOCHS):
        for batch in rng.permutation(TRAIN).reshape(-1, BATCH):
            own = torch.from_numpy(np.array_split(batch, comm.size)[comm.rank]).to(device)
            torch.nn.functional.cross_entropy(net(images[own]), labels[own]).backward()
            gradients.wait()
            with torch.no_grad():
                for parameter in net.parameters():
                    assert parameter.grad is not None
                    parameter -= RATE * parameter.grad
                    parameter.grad = None
    with torch.no_grad():
        return net, float((net(images[TRAIN:]).argmax(1) == labels[TRAIN:]).float().mean())


if __name__ == "__main__":
    with distributed.init() as comm:
        net, share = train(comm)
        own = np.concatenate([each.detach().cpu().numpy().ravel() for each in net.parameters()])
        spread = np.ptp(comm.all_gather(own), axis=0).max()
        print(f"rank {comm.rank} of {comm.size}: {share:.1%} of 297 digits; weights differ by {spread} between ranks")
