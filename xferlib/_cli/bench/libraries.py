"""The array libraries that benchmarks time: how each makes arrays, and waits until its work is done."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

import xferlib as xl

HostArray = np.ndarray[Any, Any]


class ArrayLibrary(Protocol):
    """A library whose arrays NumPy's index expressions cut."""

    name: str
    module: Any

    def done(self, result: Any) -> Any:
        """Wait for all work, and return ``result``."""

    def array(self, source: HostArray) -> Any:
        """A new array in C order on the device."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any: ...
    def permuted(self, array: Any, axes: tuple[int, ...]) -> Any:
        """A view with the axes in another order."""


class XferlibDevice:
    """xferlib on the device of one backend."""

    def __init__(self, backend: str) -> None:
        self.name = f"xferlib ({backend})"
        self.place = xl.get_device(backend)

    def done(self, result: Any) -> Any:
        self.place.synchronize()
        return result


class NumpyLibrary:
    """NumPy, whose calls end when their work is done."""

    name = "numpy"
    module: Any = np

    def done(self, result: Any) -> Any:
        return result

    def array(self, source: HostArray) -> Any:
        return np.array(source, order="C")

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return np.empty(shape, dtype)

    def permuted(self, array: Any, axes: tuple[int, ...]) -> Any:
        return array.transpose(axes)


class CupyLibrary:
    """CuPy on its current device."""

    name = "cupy"

    def __init__(self) -> None:
        import cupy

        self.module = cupy

    def done(self, result: Any) -> Any:
        self.module.cuda.Device().synchronize()
        return result

    def array(self, source: HostArray) -> Any:
        return self.module.array(source, order="C")

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.module.empty(shape, dtype)

    def permuted(self, array: Any, axes: tuple[int, ...]) -> Any:
        return array.transpose(axes)


class TorchLibrary:
    """PyTorch on the current GPU, or on the CPU."""

    name = "torch"

    def __init__(self, device: str = "cuda") -> None:
        import torch

        self.module, self.device = torch, device

    def done(self, result: Any) -> Any:
        if self.device != "cpu":
            self.module.cuda.synchronize()
        return result

    def array(self, source: HostArray) -> Any:
        return self.module.from_numpy(np.ascontiguousarray(source)).to(self.device, copy=True)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.module.empty(shape, dtype=getattr(self.module, dtype), device=self.device)

    def permuted(self, array: Any, axes: tuple[int, ...]) -> Any:
        return array.permute(axes)


class PycudaLibrary:
    """PyCUDA in the primary context, as the others."""

    name = "pycuda"

    def __init__(self) -> None:
        xl.get_device("pycuda")  # makes the context
        import pycuda.driver
        import pycuda.gpuarray

        self.module, self._driver = pycuda.gpuarray, pycuda.driver

    def done(self, result: Any) -> Any:
        self._driver.Context.synchronize()
        return result


def with_cuda(names: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """Those of the libraries that see a CUDA device, and for the others the reason."""
    states = xl.available_backends()
    found = [name for name in names if any(":cuda:" in device for device in states[name].devices)]
    return found, {name: states[name].reason or "no CUDA device" for name in names if name not in found}
