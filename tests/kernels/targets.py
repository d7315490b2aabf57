"""The array libraries present here, each as a pair of functions from and to NumPy arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import xferlib as xl
from xferlib.testing import load_backend


class Target(NamedTuple):
    """A library on a device."""

    name: str
    put: Callable[[np.ndarray[Any, Any]], Any]
    get: Callable[[Any], np.ndarray[Any, Any]]


def _torch(device: str) -> Target:
    import torch

    return Target(
        f"torch-{device}",
        lambda x: torch.from_numpy(np.ascontiguousarray(x).reshape(x.shape)).to(device, copy=True),
        lambda y: y.cpu().numpy(),
    )


def _cupy() -> Target:
    import cupy

    return Target("cupy", cupy.asarray, cupy.asnumpy)


def _pycuda() -> Target:
    from pycuda import gpuarray

    backend = load_backend("pycuda")

    def put(x: np.ndarray[Any, Any]) -> Any:
        backend.attach(backend.device_current())  # PyCUDA itself wants a context in each thread
        return gpuarray.to_gpu(np.ascontiguousarray(x).reshape(x.shape))

    return Target("pycuda", put, lambda y: y.get())


def _sim() -> Target:
    return Target("sim", lambda x: xl.to_device(x, backend="sim"), xl.to_host)


_CHOICES = {
    "numpy": ("numpy", "cpu", lambda: Target("numpy", lambda x: np.array(x, order="C"), np.asarray)),
    "sim": ("sim", "sim", _sim),
    "torch-cpu": ("torch", "cpu", lambda: _torch("cpu")),
    "torch-cuda": ("torch", "cuda", lambda: _torch("cuda")),
    "cupy": ("cupy", "cuda", _cupy),
    "pycuda": ("pycuda", "cuda", _pycuda),
}


def _is_here(name: str) -> bool:
    backend, kind, _ = _CHOICES[name]
    return any(kind in device for device in xl.available_backends()[backend].devices)


ENGINES = tuple(filter(_is_here, _CHOICES))
"""Every engine that can run here: for tests whose reference is none of them."""
NAMES = tuple(name for name in ENGINES if name not in ("numpy", "sim"))
"""Those that are compared with NumPy arrays."""


def target(name: str) -> Target:
    """The library, or a skip where it cannot run."""
    if name not in ENGINES:
        pytest.skip(f"{name} cannot run here")
    return _CHOICES[name][2]()


def need_nvrtc() -> None:
    """Skip where CUDA source cannot be compiled for a CPU."""
    if not has_nvrtc():
        pytest.skip("NVRTC is not installed (pip install 'xferlib[cuda-on-cpu]')")


@functools.cache
def has_nvrtc() -> bool:
    """Whether CUDA source can be compiled for a CPU."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):
        return False
    return True
