"""The question which tensors PyTorch tracks for a derivative; cheap where there is no torch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from xferlib.errors import KernelTypeError


def _get_tracking_module() -> Any:
    """The module that asks torch which tensors it tracks; None where torch is not loaded."""
    if "torch" not in sys.modules:
        return None
    from xferlib.backends.torch import tensors as tracking

    return tracking


def needs_gradient(arguments: Sequence[Any]) -> bool:
    """Whether torch must record what is computed from ``arguments``."""
    torch = sys.modules.get("torch")
    if torch is None or not any(isinstance(each, torch.Tensor) for each in arguments):
        return False
    return bool(_get_tracking_module().list_followed(arguments))


def requires_gradient(arguments: Sequence[Any]) -> bool:
    """Whether an argument is a tensor that would need a gradient outside ``torch.no_grad()``."""
    torch = sys.modules.get("torch")
    return torch is not None and any(isinstance(each, torch.Tensor) and each.requires_grad for each in arguments)


def unwrap(arguments: Sequence[Any]) -> list[Any]:
    """The arguments with each tensor of a transform replaced by one that has memory, to choose a program by."""
    torch, tracking = sys.modules["torch"], _get_tracking_module()
    return [tracking.unwrap_transforms(each) if isinstance(each, torch.Tensor) else each for each in arguments]


def refuse(name: str, arguments: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse tensors that torch tracks, for a kernel that has no derivative.

    Raises:
        KernelTypeError: One of them requires gradients, has a tangent, or is inside a transform.
    """
    torch = sys.modules.get("torch")
    if torch is None or not any(isinstance(each, torch.Tensor) for each in arguments):
        return
    for number in _get_tracking_module().list_followed(arguments):
        raise KernelTypeError(
            f"{name}(): torch follows argument {names[number]!r} for a derivative, and has none of CUDA source; pass "
            "x.detach(), call under torch.no_grad(), or write a torch.autograd.Function that calls the kernel"
        )
