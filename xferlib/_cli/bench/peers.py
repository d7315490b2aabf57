"""The libraries that transfers are measured against, each used the best way its users know.

Every function makes a closure that performs one complete transfer, device work included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

import xferlib as xl
from xferlib._cli.bench import libraries
from xferlib._cli.bench.libraries import HostArray, Run
from xferlib._memory import host

_MOST_RESULTS = 6


class Peer(Protocol):
    """One library. A method returns None for what the library cannot do."""

    name: str

    def up_new(self, source: HostArray) -> Run | None: ...
    def up_into(self, source: HostArray) -> Run | None: ...
    def up_converted(self, source: HostArray, dtype: str) -> Run | None: ...
    def up_tree(self, sources: list[HostArray]) -> Run | None: ...
    def down_new(self, source: HostArray) -> Run | None: ...
    def down_into(self, source: HostArray, out: HostArray) -> Run | None: ...


class Xferlib(libraries.XferlibDevice):
    """xferlib on one backend."""

    def up_new(self, source: HostArray) -> Run:
        return self.awaited(lambda: xl.to_device(source, device=self.place))

    def up_into(self, source: HostArray) -> Run:
        target = xl.empty(source.shape, source.dtype, device=self.place)
        return self.awaited(lambda: xl.to_device(source, out=target))

    def up_converted(self, source: HostArray, dtype: str) -> Run:
        return self.awaited(lambda: xl.to_device(source, device=self.place, dtype=dtype))

    def up_tree(self, sources: list[HostArray]) -> Run:
        return self.awaited(lambda: xl.tree.to_device(sources, device=self.place))

    def down_new(self, source: HostArray) -> Run:
        held = xl.to_device(source, device=self.place)
        return lambda: xl.to_host(held)

    def down_into(self, source: HostArray, out: HostArray) -> Run:
        held = xl.to_device(source, device=self.place)
        return lambda: xl.to_host(held, out=out)

    def down_unrecycled(self, source: HostArray) -> Run:
        """`down_new` whose results are kept, so that none is in recycled memory."""
        held = xl.to_device(source, device=self.place)
        results: list[HostArray] = []

        def run() -> None:
            if len(results) >= _MOST_RESULTS:
                results.clear()
                host.host_cache.trim()
            results.append(xl.to_host(held))

        return run

    def both_ways(self, source: HostArray, out: HostArray) -> Run:
        held, target = xl.to_device(source, device=self.place), xl.empty_like(xl.to_device(source, device=self.place))

        def run() -> None:
            up, down = xl.to_device_async(source, out=target), xl.to_host_async(held, out=out)
            up.result()
            down.result()

        return self.awaited(run)


class Cupy(libraries.CupyLibrary):
    """CuPy: ``asarray``, ``set`` and ``get``."""

    def up_new(self, source: HostArray) -> Run:
        return self.awaited(lambda: self.module.asarray(source))

    def up_into(self, source: HostArray) -> Run:
        target = self.module.empty(source.shape, source.dtype)
        return self.awaited(lambda: target.set(source))

    def up_converted(self, source: HostArray, dtype: str) -> Run:
        return self.awaited(lambda: self.module.asarray(source).astype(dtype))

    def up_tree(self, sources: list[HostArray]) -> Run:
        return self.awaited(lambda: [self.module.asarray(each) for each in sources])

    def down_new(self, source: HostArray) -> Run:
        held = self.module.asarray(source)
        return lambda: held.get()  # noqa: PLW0108 - typed, which the library is not

    def down_into(self, source: HostArray, out: HostArray) -> Run:
        held = self.module.asarray(source)
        return lambda: held.get(out=out)


class Torch(libraries.TorchLibrary):
    """PyTorch: ``from_numpy`` with ``cuda``, ``copy_`` and ``cpu``."""

    def up_new(self, source: HostArray) -> Run:
        tensor = self.module.from_numpy(source)
        return self.awaited(lambda: tensor.cuda(non_blocking=True))

    def up_into(self, source: HostArray) -> Run:
        tensor = self.module.from_numpy(source)
        target = self.module.empty_like(tensor, device="cuda")
        return self.awaited(lambda: target.copy_(tensor, non_blocking=True))

    def up_converted(self, source: HostArray, dtype: str) -> Run:
        tensor, wanted = self.module.from_numpy(source), getattr(self.module, dtype)
        return self.awaited(lambda: tensor.to(wanted).cuda())

    def up_tree(self, sources: list[HostArray]) -> Run:
        tensors = [self.module.from_numpy(each) for each in sources]
        return self.awaited(lambda: [tensor.to("cuda") for tensor in tensors])

    def down_new(self, source: HostArray) -> Run:
        held = self.module.from_numpy(source).cuda()
        return lambda: held.cpu()  # noqa: PLW0108 - typed, which the library is not

    def down_into(self, source: HostArray, out: HostArray) -> Run:
        held, target = self.module.from_numpy(source).cuda(), self.module.from_numpy(out)
        return lambda: target.copy_(held)


class Pycuda(libraries.PycudaLibrary):
    """PyCUDA: ``to_gpu``, ``set`` and ``get``; contiguous arrays only."""

    def up_new(self, source: HostArray) -> Run | None:
        if not source.flags.c_contiguous:
            return None
        return self.awaited(lambda: self.module.to_gpu(source))

    def up_into(self, source: HostArray) -> Run:
        target = self.module.empty(source.shape, source.dtype)
        return self.awaited(lambda: target.set(source))

    def up_converted(self, source: HostArray, dtype: str) -> Run:
        return self.awaited(lambda: self.module.to_gpu(source.astype(dtype)))

    def up_tree(self, sources: list[HostArray]) -> Run:
        return self.awaited(lambda: [self.module.to_gpu(each) for each in sources])

    def down_new(self, source: HostArray) -> Run:
        held = self.module.to_gpu(source)
        return lambda: held.get()  # noqa: PLW0108 - typed, which the library is not

    def down_into(self, source: HostArray, out: HostArray) -> Run:
        held = self.module.to_gpu(source)
        return lambda: held.get(out)


class Numpy(libraries.NumpyLibrary):
    """A plain copy in host memory: what a machine without a GPU is measured against."""

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
    makers: dict[str, Callable[[], Peer]] = {"cupy": Cupy, "torch": Torch, "pycuda": Pycuda}
    found, absent = libraries.with_cuda(tuple(makers))
    return [makers[name]() for name in found] or [Numpy()], absent
