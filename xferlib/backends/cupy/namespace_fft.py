"""The Fourier transforms of CuPy's namespace: ``xp.fft``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cupy import fft as _fft

from xferlib._core import registry as namespaces
from xferlib.backends.cupy.namespace_devices import inside


def _frequencies(name: str) -> Callable[..., Any]:
    compute = getattr(_fft, name)

    def made(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
        with inside(device):
            found = compute(n, d)
            return found if dtype is None else found.astype(dtype, copy=False)

    made.__doc__ = f"`cupy.fft.{name}`, on the device that is named; float64 by default."
    return namespaces.named(made, name, __name__)


fftfreq, rfftfreq = _frequencies("fftfreq"), _frequencies("rfftfreq")
__all__ = sorted(name for name in dir(_fft) if not name.startswith("_"))  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    """An attribute of CuPy's module."""
    return getattr(_fft, name)


def __dir__() -> list[str]:
    return __all__
