"""The Fourier transforms of torch's namespace: ``xp.fft``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import array_api_compat.torch.fft as compat
import torch
from torch import Tensor

from xferlib._core import registry as namespaces
from xferlib._core.arrays import axes_of
from xferlib.backends.torch import functions as creation
from xferlib.backends.torch import functions as dtypes
from xferlib.backends.torch import functions as shaping
from xferlib.errors import ArgumentError, LayoutTypeError, UnsupportedDTypeError, shown

_OF_REAL = ("rfft", "rfftn", "ihfft")
_FLOATS = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def _of_nothing(
    name: str, compute: Callable[..., Tensor], x: Tensor, **options: Any
) -> Tensor:  # fmt: skip
    """A transform of no elements, which some of torch's libraries refuse: zeros, of the shape for one element more."""
    like = dtypes.checked(f"fft.{name}", compute, torch.empty(x.shape, dtype=x.dtype, device="meta"), **options)
    return torch.zeros(like.shape, dtype=like.dtype, device=x.device)


def _transform(name: str) -> Callable[..., Tensor]:
    """A transform, which computes float16 in float32 and integers in float64, as NumPy's does."""
    compute = getattr(compat, name)
    parameters = ("s", "axes", "norm") if name.endswith("n") else ("n", "axis", "norm")

    @functools.wraps(compute)
    def operate(x: Tensor, /, *args: Any, **options: Any) -> Tensor:
        x = creation.tensor_of(name, x)
        options |= dict(zip(parameters, args, strict=False))
        if x.is_complex() and name in _OF_REAL:
            raise UnsupportedDTypeError(f"fft.{name}: takes real numbers, not {x.dtype}; use fft.fft or fft.fftn")
        for each in ("s", "axes"):
            if options.get(each) is not None and not isinstance(options[each], (tuple, list)):
                raise LayoutTypeError(f"fft.{name}: {each}={shown(options[each])} is no tuple of integers; give one")
        if options.get("axes") is not None:
            options["axes"] = axes_of(f"fft.{name}", tuple(options["axes"]), x.dim())
        is_half = x.dtype is torch.float16
        axes = options.get("axes") or options.get("s") or x.shape
        stays_half = is_half and (name != "irfftn" or len(axes) == 1)  # over several axes NumPy computes in float32
        if x.dtype not in _FLOATS:
            x = x.to(torch.float32 if is_half else dtypes.RESULTS["mean"].get(x.dtype, x.dtype))
        if not x.numel() and x.dim() > 1:
            found: Tensor = _of_nothing(name, compute, x, **options)
            return found.to(torch.float16) if stays_half and not found.is_complex() else found
        found = dtypes.checked(f"fft.{name}", compute, x, **options)
        return found.to(torch.float16) if stays_half and not found.is_complex() else found

    return namespaces.named(operate, name, __name__)


for _name in (
    "fft", "ifft", "fftn", "ifftn", "rfft", "irfft", "rfftn", "irfftn", "hfft", "ihfft",
):  # fmt: skip
    globals()[_name] = _transform(_name)


def _shifted(name: str, sign: int) -> Callable[..., Tensor]:
    def operate(x: Tensor, /, axes: Any = None) -> Tensor:
        x = creation.tensor_of(name, x)
        places = axes_of(f"fft.{name}", tuple(axes) if isinstance(axes, list) else axes, x.dim())
        return shaping.roll(x, tuple([sign * (x.shape[place] // 2) for place in places]), axis=places)

    operate.__doc__ = f"``fft.{name}`` of the Array API."
    return namespaces.named(operate, name, __name__)


fftshift, ifftshift = _shifted("fftshift", 1), _shifted("ifftshift", -1)


def _frequencies(name: str) -> Callable[..., Tensor]:
    compute = getattr(torch.fft, name)

    def operate(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
        if n < 1:
            raise ArgumentError(f"fft.{name}: n={n} is no number of elements; give 1 or more")
        wanted = dtypes.torch_dtype(dtype) or creation.by_default()
        found: Tensor = compute(n, d, dtype=wanted, device=creation.place_of(device))
        return found

    operate.__doc__ = f"The frequencies of `{name.removesuffix('freq')}`; float64 by default."
    return namespaces.named(operate, name, __name__)


fftfreq, rfftfreq = _frequencies("fftfreq"), _frequencies("rfftfreq")


def __getattr__(name: str) -> Any:
    """An attribute of array-api-compat's module, which has torch's."""
    return getattr(compat, name)


def __dir__() -> list[str]:
    return sorted(dtypes.names_of(compat) | {"fftfreq", "rfftfreq"})
