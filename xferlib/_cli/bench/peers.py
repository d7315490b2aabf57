"""The libraries that transfers are measured against, each used the best way its users know.

Every function makes a closure that performs one complete transfer, device work included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

import xferlib as xl
from xferlib._memory import host

_MOST_RESULTS = 6

Run = Callable[[], Any]
HostArray = np.ndarray[Any, Any]


class Peer(Protocol):
    """One library. A method returns None for what the library cannot do."""

    name: str

    def up_new(self, source: HostArray) -> Run | None: ...
    def up_into(self, source: HostArray) -> Run | None: ...
    def up_converted(self, source: HostArray, dtype: str) -> Run | None: ...
    def up_tree(self, sources: list[HostArray]) -> Run | None: ...
    def down_new(self, source: HostArray) -> Run | None: ...
    def down_into(self, source: HostArray, out: HostArray) -> Run | None: ...


class Xferlib:
    """xferlib on one backend."""

    def __init__(self, backend: str) -> None:
        self.name = f"xferlib ({backend})"
        self._place = xl.get_device(backend)

    def _done(self, result: Any) -> Any:
        self._place.synchronize()
        return result

    def up_new(self, source: HostArray) -> Run:
        return lambda: self._done(xl.to_device(source, device=self._place))

    def up_into(self, source: HostArray) -> Run:
        target = xl.empty(source.shape, source.dtype, device=self._place)
        return lambda: self._done(xl.to_device(source, out=target))

    def up_converted(self, source: HostArray, dtype: str) -> Run:
        return lambda: self._done(xl.to_device(source, device=self._place, dtype=dtype))

    def up_tree(self, sources: list[HostArray]) -> Run:
        return lambda: self._done(xl.tree.to_device(sources, device=self._place))

    def down_new(self, source: HostArray) -> Run:
        held = xl.to_device(source, device=self._place)
        return lambda: xl.to_host(held)

    def down_into(self, source: HostArray, out: HostArray) -> Run:
        held = xl.to_device(source, device=self._place)
        return lambda: xl.to_host(held, out=out)

    def down_unrecycled(self, source: HostArray) -> Run:
        """`down_new` whose results are kept, so that none is in recycled memory."""
        held = xl.to_device(source, device=self._place)
        results: list[HostArray] = []

        def run() -> None:
            if len(results) >= _MOST_RESULTS:
                results.clear()
                host.host_cache.trim()
            results.append(xl.to_host(held))

        return run

    def both_ways(self, source: HostArray, out: HostArray) -> Run:
        held, target = xl.to_device(source, device=self._place), xl.empty_like(xl.to_device(source, device=self._place))

        def run() -> None:
            up, down = xl.to_device_async(source, out=target), xl.to_host_async(held, out=out)
            up.result()
            down.result()
            self._place.synchronize()

        return run


class Cupy:
    """CuPy: ``asarray``, ``set`` and ``get``."""

    name = "cupy"

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy

    def _done(self, result: Any) -> Any:
        self._cupy.cuda.Device().synchronize()
        return result

    def up_new(self, source: HostArray) -> Run:
        return lambda: self._done(self._cupy.asarray(source))

    def up_into(self, source: HostArray) -> Run:
        target = self._cupy.empty(source.shape, source.dtype)
        return lambda: self._done(target.set(source))

    def up_converted(self, source: HostArray, dtype: str) -> Run:
        return lambda: self._done(self._cupy.asarray(source).astype(dtype))

    def up_tree(self, sources: list[HostArray]) -> Run:
        return lambda: self._done([self._cupy.asarray(each) for each in sources])

    def down_new(self, source: HostArray) -> Run:
        held = self._cupy.asarray(source)
        return lambda: held.get()  # noqa: PLW0108 - typed, which the library is not

    def down_into(self, source: HostArray, out: HostArray) -> Run:
        held = self._cupy.asarray(source)
        return lambda: held.get(out=out)


class Torch:
    """PyTorch: ``from_numpy`` with ``cuda``, ``copy_`` and ``cpu``."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        self._torch = torch

    def _done(self, result: Any) -> Any:
        self._torch.cuda.synchronize()
        return result

    def up_new(self, source: HostArray) -> Run:
        tensor = self._torch.from_numpy(source)
        return lambda: self._done(tensor.cuda(non_blocking=True))

    def up_into(self, source: HostArray) -> Run:
        tensor = self._torch.from_numpy(source)
        target = self._torch.empty_like(tensor, device="cuda")
        return lambda: self._done(target.copy_(tensor, non_blocking=True))

    def up_converted(self, source: HostArray, dtype: str) -> Run:
        tensor, wanted = self._torch.from_numpy(source), getattr(self._torch, dtype)
        return lambda: self._done(tensor.to(wanted).cuda())

    def up_tree(self, sources: list[HostArray]) -> Run:
        tensors = [self._torch.from_numpy(each) for each in sources]
        return lambda: self._done([tensor.to("cuda") for tensor in tensors])

    def down_new(self, source: HostArray) -> Run:
        held = self._torch.from_numpy(source).cuda()
        return lambda: held.cpu()  # noqa: PLW0108 - typed, which the library is not

    def down_into(self, source: HostArray, out: HostArray) -> Run:
        held, target = self._torch.from_numpy(source).cuda(), self._torch.from_numpy(out)
        return lambda: self._done(target.copy_(held))


class Pycuda:
    """PyCUDA: ``to_gpu``, ``set`` and ``get``; contiguous arrays only."""

    name = "pycuda"

    def __init__(self) -> None:
        xl.get_device("pycuda")  # in the primary context, as the others
        import pycuda.driver
        import pycuda.gpuarray

        self._gpuarray, self._driver = pycuda.gpuarray, pycuda.driver

    def up_new(self, source: HostArray) -> Run | None:
        if not source.flags.c_contiguous:
            return None
        return lambda: self._done(self._gpuarray.to_gpu(source))

    def _done(self, result: Any) -> Any:
        self._driver.Context.synchronize()
        return result

    def up_into(self, source: HostArray) -> Run:
        target = self._gpuarray.empty(source.shape, source.dtype)
        return lambda: self._done(target.set(source))

    def up_converted(self, source: HostArray, dtype: str) -> Run:
        return lambda: self._done(self._gpuarray.to_gpu(source.astype(dtype)))

    def up_tree(self, sources: list[HostArray]) -> Run:
        return lambda: self._done([self._gpuarray.to_gpu(each) for each in sources])

    def down_new(self, source: HostArray) -> Run:
        held = self._gpuarray.to_gpu(source)
        return lambda: held.get()  # noqa: PLW0108 - typed, which the library is not

    def down_into(self, source: HostArray, out: HostArray) -> Run:
        held = self._gpuarray.to_gpu(source)
        return lambda: held.get(out)


class Numpy:
    """A plain copy in host memory: what a machine without a GPU is measured against."""

    name = "numpy"

    def up_new(self, source: HostArray) -> Run:
        return lambda: np.array(source, order="C")

    def up_into(self, source: HostArray) -> Run:
        target = np.zeros(source.shape, source.dtype)
        return lambda: np.copyto(target, source)

    def up_converted(self, source: HostArray, dtype: str) -> Run:
        return lambda: source.astype(dtype)

    def up_tree(self, sources: list[HostArray]) -> Run:
        return lambda: [each.copy() for each in sources]

    def down_new(self, source: HostArray) -> Run:
        return source.copy

    def down_into(self, source: HostArray, out: HostArray) -> Run:
        return lambda: np.copyto(out, source)


def present() -> tuple[list[Peer], dict[str, str]]:
    """The libraries that can be measured here, and for the others the reason."""
    peers: list[Peer] = []
    absent: dict[str, str] = {}
    states = xl.available_backends()
    for name, make in (("cupy", Cupy), ("torch", Torch), ("pycuda", Pycuda)):
        state = states[name]
        if any(":cuda:" in device for device in state.devices):
            peers.append(make())
        else:
            absent[name] = state.reason or "no CUDA device"
    return (peers or [Numpy()]), absent
