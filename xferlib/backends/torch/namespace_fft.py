"""The Fourier transforms of torch's namespace: ``xp.fft``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import array_api_compat.torch.fft as compat
import torch
from torch import Tensor

from xferlib.backends.torch import namespace_creation as creation
from xferlib.backends.torch import namespace_dtypes as dtypes

_FLOATS = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def _transform(name: str) -> Callable[..., Tensor]:
    """A transform, which computes float16 in float32 and integers in float64, as NumPy's does."""
    compute = getattr(compat, name)

    @functools.wraps(compute)
    def operate(x: Tensor, /, *args: Any, **options: Any) -> Tensor:
        is_half = x.dtype is torch.float16
        if x.dtype not in _FLOATS:
            x = x.to(torch.float32 if is_half else dtypes.RESULTS["mean"].get(x.dtype, x.dtype))
        found: Tensor = compute(x, *args, **options)
        return found.to(torch.float16) if is_half and not found.is_complex() else found

    return creation.named(operate, name, __name__)


for _name in (
    "fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft",
):  # fmt: skip
    globals()[_name] = _transform(_name)
for _name in ("fftshift", "ifftshift"):
    globals()[_name] = creation.moving(_name, compat, __name__)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `fft`; float64 by default."""
    wanted = dtypes.torch_dtype(dtype) or creation.by_default()
    return torch.fft.fftfreq(n, d, dtype=wanted, device=creation.place_of(device))


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `rfft`; float64 by default."""
    wanted = dtypes.torch_dtype(dtype) or creation.by_default()
    return torch.fft.rfftfreq(n, d, dtype=wanted, device=creation.place_of(device))


def __getattr__(name: str) -> Any:
    """An attribute of array-api-compat's module, which has torch's."""
    return getattr(compat, name)


def __dir__() -> list[str]:
    return sorted(dtypes.names_of(compat) | {"fftfreq", "rfftfreq"})
