"""The state of a tensor that torch follows besides its memory: gradients, tangents, transforms, its count of changes.

xferlib reads and writes memory past torch's own operations. Here it learns where that would make a derivative wrong,
and tells torch what it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.autograd.graph import increment_version

from xferlib._native.driver_calls import bind_plain
from xferlib.errors import LayoutError, UnsupportedError

_functorch: Any = getattr(torch._C, "_functorch", None)
_is_wrapped: Callable[[torch.Tensor], bool] = getattr(_functorch, "is_functorch_wrapped_tensor", lambda tensor: False)
_levels = vars(forward_ad)
"""Holds the number of the innermost level of forward mode, -1 outside of any; private to torch, which may drop it."""
tracing_state: Callable[[], Any] = getattr(torch._C, "_get_tracing_state", lambda: None)
_PLAIN = {torch.Tensor.__torch_dispatch__, torch.nn.Parameter.__torch_dispatch__}


def has_levels() -> bool:
    """Whether some tensor may have a tangent: forward-mode differentiation is going on."""
    return bool(_levels.get("_current_level", 0) >= 0)


def refuse_recorders() -> None:
    """Refuse to run while torch records operations: it does not see kernels, and would record a constant result.

    Raises:
        UnsupportedError: ``torch.jit.trace`` is at work.
    """
    if is_recording():
        raise UnsupportedError(
            "torch.jit.trace records torch's own operations, and would keep the result of this call as a constant; "
            "leave the call out of what is traced, or use torch.compile"
        )


def is_recording() -> bool:
    """Whether ``torch.jit.trace`` is at work."""
    return tracing_state() is not None


def has_tangent(tensor: torch.Tensor) -> bool:
    """Whether the tensor carries a derivative in forward mode."""
    if not has_levels() or not torch._C._is_fwd_grad_enabled() or _is_wrapped(tensor):
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None


def is_wrapped(tensor: torch.Tensor) -> bool:
    """Whether the tensor wraps another inside a transform of ``torch.func``, without memory of its own."""
    return _is_wrapped(tensor)


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor at the bottom of the transforms: of the same dtype and device, and perhaps of more dimensions."""
    while _is_wrapped(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor


def is_memoryless(tensor: torch.Tensor) -> bool:
    """Whether the tensor's class computes by other means than memory: fake, distributed and other wrapping tensors."""
    return type(tensor).__torch_dispatch__ not in _PLAIN


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor has memory of its own and nothing records what is done: each small copy asks, in one call."""
    if type(tensor) is not torch.Tensor and is_memoryless(tensor):
        return False
    return not _is_wrapped(tensor) and tracing_state() is None


def is_followed(tensor: torch.Tensor) -> bool:
    """Whether torch wants to know what is computed with the tensor."""
    return (tensor.requires_grad and torch.is_grad_enabled()) or _is_wrapped(tensor) or has_tangent(tensor)


def note_write(tensor: torch.Tensor, what: str) -> None:
    """As `Backend.note_write`."""
    if (tensor.requires_grad or _levels.get("_current_level", 0) >= 0) and is_followed(tensor):
        how = "has a tangent" if not tensor.requires_grad else "requires gradients"
        raise LayoutError(
            f"{what} {how}, and torch cannot record what is written into it; pass x.detach() if its history is to be "
            "left as it is, or call under torch.no_grad()"
        )
    if tensor.is_inference() and not torch.is_inference_mode_enabled():
        raise LayoutError(
            f"{what} was made under torch.inference_mode(), where torch does not count changes; write it there, or "
            "pass x.clone()"
        )
    increment_version(tensor)


def plain_only(check: Callable[..., bool]) -> Callable[..., bool]:
    """``check``, and False while tensors may have tangents or are recorded, of which it does not know.

    It must not see nested tensors: they have no strides, and torch ends the process where it asks for them there.
    """

    def matches(*tensors: torch.Tensor) -> bool:
        if any(each.is_nested for each in tensors) or tracing_state() is not None:
            return False
        return _levels.get("_current_level", 0) < 0 and check(*tensors)

    return bind_plain(check, "is_nested", _levels, "_current_level", tracing_state) or matches


def followed(arguments: Sequence[Any]) -> list[int]:
    """The numbers of the tensors that `is_followed`."""
    return [number for number, each in enumerate(arguments) if isinstance(each, torch.Tensor) and is_followed(each)]
