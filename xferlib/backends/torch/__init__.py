"""The PyTorch backend: tensors on the CPU and on CUDA devices."""

from __future__ import annotations

import torch

from xferlib._core.backend import Backend
from xferlib.backends.torch.backend import TorchCpu


def TorchBackend() -> Backend:  # noqa: N802 - the registry's factory, one of two classes
    """The torch backend for this machine: with CUDA devices where torch sees any."""
    if not torch.cuda.is_available():
        return TorchCpu()
    from xferlib.backends.torch.cuda import TorchCuda

    return TorchCuda()
