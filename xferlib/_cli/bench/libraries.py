"""The array libraries that benchmarks time: how each makes arrays, and the one call that awaits the work of all.

The obvious way is each library's own ``synchronize``. Those differ: `torch.cuda.synchronize` takes some 6 us more than
CuPy's, on the same idle device, which a comparison would count as the transfer's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

import xferlib as xl
from xferlib.errors import TransferError

HostArray = np.ndarray[Any, Any]
Run = Callable[[], Any]


def wait_for(device: xl.Device) -> Callable[[], None] | None:
    """The call that waits for all work on the device, of every library; None for a CPU, where a call ends its work.

    On a GPU it is the driver's ``cuCtxSynchronize`` in the primary context, which all libraries share: the least that
    each one's own wait does.
    """
    if device.kind == "cpu":
        return None
    if device.kind != "cuda":
        return device.synchronize
    from xferlib.backends.cuda.driver import context_synchronize

    def wait() -> None:
        if status := context_synchronize():
            raise TransferError(f"{device}: cuCtxSynchronize returned error {status}; an earlier call has failed")

    return wait


class Awaiting:
    """Ends runs by the wait that all libraries on the device have in common."""

    def __init__(self, device: xl.Device) -> None:
        self._wait = wait_for(device)

    def awaited(self, run: Run) -> Run:
        """A run that ends when the device has done its work."""
        wait = self._wait
        if wait is None:
            return run

        def awaited_run() -> Any:
            result = run()
            wait()
            return result

        return awaited_run


class ArrayLibrary(Protocol):
    """A library whose arrays NumPy's index expressions cut."""

    name: str
    module: Any

    def awaited(self, run: Run) -> Run:
        """A run that ends when the device has done its work."""

    def array(self, source: HostArray) -> Any:
        """A new array in C order on the device."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any: ...
    def permuted(self, array: Any, axes: tuple[int, ...]) -> Any:
        """A view with the axes in another order."""


class XferlibDevice(Awaiting):
    """xferlib on the device of one backend."""

    def __init__(self, backend: str) -> None:
        self.name = f"xferlib ({backend})"
        self.place = xl.get_device(backend)
        super().__init__(self.place)


class NumpyLibrary(Awaiting):
    """NumPy."""

    name = "numpy"
    module: Any = np

    def __init__(self) -> None:
        super().__init__(xl.get_device("numpy"))

    def array(self, source: HostArray) -> Any:
        return np.array(source, order="C")

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return np.empty(shape, dtype)

    def permuted(self, array: Any, axes: tuple[int, ...]) -> Any:
        return array.transpose(axes)


class CupyLibrary(Awaiting):
    """CuPy on its current device."""

    name = "cupy"

    def __init__(self) -> None:
        import cupy

        super().__init__(xl.get_device("cupy"))
        self.module = cupy

    def array(self, source: HostArray) -> Any:
        return self.module.array(source, order="C")

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.module.empty(shape, dtype)

    def permuted(self, array: Any, axes: tuple[int, ...]) -> Any:
        return array.transpose(axes)


class TorchLibrary(Awaiting):
    """PyTorch on the current GPU, or on the CPU."""

    name = "torch"

    def __init__(self, device: str = "cuda") -> None:
        import torch

        super().__init__(xl.get_device(f"torch:{device}"))
        self.module, self.device = torch, device

    def array(self, source: HostArray) -> Any:
        return self.module.from_numpy(np.ascontiguousarray(source)).to(self.device, copy=True)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self.module.empty(shape, dtype=getattr(self.module, dtype), device=self.device)

    def permuted(self, array: Any, axes: tuple[int, ...]) -> Any:
        return array.permute(axes)


class PycudaLibrary(Awaiting):
    """PyCUDA in the primary context, as the others."""

    name = "pycuda"

    def __init__(self) -> None:
        super().__init__(xl.get_device("pycuda"))  # makes the context
        import pycuda.gpuarray

        self.module = pycuda.gpuarray


def with_cuda(names: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """Those of the libraries that see a CUDA device, and for the others the reason."""
    states = xl.available_backends()
    found = [name for name in names if any(":cuda:" in device for device in states[name].devices)]
    return found, {name: states[name].reason or "no CUDA device" for name in names if name not in found}
