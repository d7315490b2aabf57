"""How each library makes a case's transfer: for the others every way that its users know, of which the fastest counts.

A way is one complete transfer, from the call to the arrival of the data. It takes the source as it is: what a library
cannot take directly, such as a negative stride, is made contiguous first, within the time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

import xferlib as xl
from xferlib._cli.bench.sweep.cases import HostArray, TransferCase, TreeCase

Way = Callable[[], Any]
Ways = dict[str, Way]


PINNED = frozenset({"to_host(pinned=True)", "tree.to_host(pinned=True)", "non_blocking"})
"""Ways to the host whose new results are in pinned memory."""


class LibraryWays(Protocol):
    """A library that makes transfers. A missing way is left out."""

    name: str

    def up(self, case: TransferCase, source: HostArray) -> Ways: ...
    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Ways:
        """Ways to the host, of a device array with the elements of ``source``; into ``out`` if given."""

    def tree_up(self, sources: list[HostArray]) -> Ways: ...
    def tree_down(self, sources: list[HostArray]) -> Ways: ...


class XferlibWays:
    """xferlib, making or reading the arrays of one backend; new results in ordinary and in pinned memory."""

    def __init__(self, backend: str) -> None:
        self.name = f"xferlib ({backend})"
        self._place = xl.get_device(backend)

    def _done(self, result: Any) -> Any:
        self._place.synchronize()
        return result

    def up(self, case: TransferCase, source: HostArray) -> Ways:
        options: dict[str, Any] = {} if case.given == case.wanted else {"dtype": case.wanted}
        if case.is_new:
            return {"to_device": lambda: self._done(xl.to_device(source, device=self._place, **options))}
        target = xl.empty(case.shape, case.wanted, device=self._place)
        return {"to_device(out=)": lambda: self._done(xl.to_device(source, out=target, **options))}

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Ways:
        held = xl.to_device(source, device=self._place)
        options: dict[str, Any] = {} if case.given == case.wanted else {"dtype": case.wanted}
        if out is None:
            return {
                "to_host": lambda: xl.to_host(held, **options),
                "to_host(pinned=True)": lambda: xl.to_host(held, pinned=True, **options),
            }
        return {"to_host(out=)": lambda: xl.to_host(held, out=out, **options)}

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return {"tree.to_device": lambda: self._done(xl.tree.to_device(sources, device=self._place))}

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = xl.tree.to_device(sources, device=self._place)
        return {
            "tree.to_host": lambda: xl.tree.to_host(held),
            "tree.to_host(pinned=True)": lambda: xl.tree.to_host(held, pinned=True),
        }


class CupyWays:
    """CuPy: ``asarray``, ``set`` and ``get``."""

    name = "cupy"

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy

    def _done(self, result: Any) -> Any:
        self._cupy.cuda.Device().synchronize()
        return result

    def up(self, case: TransferCase, source: HostArray) -> Ways:
        cp, wanted = self._cupy, case.wanted
        arrays: Ways = {"asarray": lambda: cp.asarray(_native(source))}
        if case.given != wanted:
            arrays = {
                "asarray, then astype": lambda: cp.asarray(_native(source)).astype(wanted),
                "astype, then asarray": lambda: cp.asarray(source.astype(wanted)),
            }
        if case.is_new:
            return {name: functools.partial(self._made, make) for name, make in arrays.items()}
        target = cp.empty(case.shape, wanted)
        return {
            "set": lambda: self._done(target.set(np.ascontiguousarray(source, wanted))),
            **{f"{name}, assigned": functools.partial(self._assign, target, make) for name, make in arrays.items()},
        }

    def _made(self, make: Way) -> Any:
        return self._done(make())

    def _assign(self, target: Any, make: Way) -> None:
        target[...] = make()
        self._done(target)

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Ways:
        held = self._cupy.asarray(np.ascontiguousarray(source))
        wanted = case.wanted
        gets: Ways = {"get": held.get}
        if case.given != wanted:
            gets = {
                "astype, then get": lambda: held.astype(wanted).get(),
                "get, then astype": lambda: held.get().astype(wanted),
            }
        if out is None:
            return gets
        if case.given == wanted and out.flags.c_contiguous and out.dtype.isnative:
            return {"get(out=)": lambda: held.get(out=out)}
        return {f"{name}, assigned": functools.partial(_fill, out, get) for name, get in gets.items()}

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return {"asarray of each": lambda: self._done([self._cupy.asarray(each) for each in sources])}

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = [self._cupy.asarray(each) for each in sources]
        return {"get of each": lambda: [each.get() for each in held]}


class TorchWays:
    """PyTorch: ``cuda`` and ``cpu``, with and without ``pin_memory`` and ``non_blocking``."""

    name = "torch"

    def __init__(self, device: str = "cuda") -> None:
        import torch

        self._torch = torch
        self._device = device
        self._pins = device != "cpu"

    def _done(self, result: Any) -> Any:
        if self._pins:
            self._torch.cuda.synchronize()
        return result

    def _tensor(self, array: HostArray) -> Any:
        if not array.dtype.isnative or any(stride < 0 for stride in array.strides):
            array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        return self._torch.from_numpy(array)

    def up(self, case: TransferCase, source: HostArray) -> Ways:
        wanted, device = getattr(self._torch, case.wanted), self._device
        is_same = case.given == case.wanted
        if not case.is_new:
            target = self._torch.empty(case.shape, dtype=wanted, device=device)
            ways: Ways = {"copy_": lambda: self._done(target.copy_(self._tensor(source), non_blocking=True))}
            if self._pins and not case.is_pinned:
                ways["pin_memory, then copy_"] = lambda: self._done(
                    target.copy_(self._tensor(source).contiguous().pin_memory(), non_blocking=True)
                )
            return ways
        flat = self._torch.contiguous_format

        def to() -> Any:
            there = self._tensor(source).to(device, non_blocking=True, copy=True, memory_format=flat)
            return self._done(there.to(wanted))

        ways = {"to": to}
        if not is_same:
            ways["dtype first"] = lambda: self._done(self._tensor(source).to(wanted).to(device, non_blocking=True))
        if self._pins and not case.is_pinned:
            ways["pin_memory, then to"] = lambda: self._done(
                self._tensor(source).to(wanted).contiguous().pin_memory().to(device, non_blocking=True)
            )
        return ways

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Ways:
        held = self._tensor(source).contiguous().to(self._device, copy=True)
        wanted = getattr(self._torch, case.wanted)
        if out is None:
            ways: Ways = {"cpu": lambda: held.to(wanted).to("cpu", copy=not self._pins)}
            if self._pins:
                ways["non_blocking"] = lambda: self._done(held.to(wanted).to("cpu", non_blocking=True))
            if case.given != case.wanted:
                ways["dtype last"] = lambda: held.cpu().to(wanted)
            return ways
        if out.dtype.isnative and all(stride >= 0 for stride in out.strides):
            target = self._torch.from_numpy(out)
            return {"copy_": lambda: self._done(target.copy_(held))}
        return {"cpu, assigned": lambda: np.copyto(out, held.to(wanted).cpu().numpy())}

    def tree_up(self, sources: list[HostArray]) -> Ways:
        tensors = [self._tensor(each) for each in sources]
        ways: Ways = {"to of each": lambda: self._done([each.to(self._device, copy=True) for each in tensors])}
        if self._pins:
            ways["pin_memory, then to"] = lambda: self._done(
                [each.pin_memory().to(self._device, non_blocking=True) for each in tensors]
            )
        return ways

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = [self._tensor(each).to(self._device, copy=True) for each in sources]
        ways: Ways = {"cpu of each": lambda: [each.to("cpu", copy=not self._pins) for each in held]}
        if self._pins:
            ways["non_blocking"] = lambda: self._done([each.to("cpu", non_blocking=True) for each in held])
        return ways


class NumpyWays:
    """A plain copy in host memory: the peer where there is no GPU."""

    name = "numpy"

    def up(self, case: TransferCase, source: HostArray) -> Ways:
        if case.is_new:
            return {"array": lambda: np.array(source, case.wanted, order="C")}
        target = np.empty(case.shape, case.wanted)
        return {"copyto": lambda: np.copyto(target, source, casting="unsafe")}

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Ways:
        held = np.ascontiguousarray(source)
        if out is None:
            return {"array": lambda: np.array(held, case.wanted, order="C")}
        return {"copyto": lambda: np.copyto(out, held, casting="unsafe")}

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return {"copy of each": lambda: [each.copy() for each in sources]}

    tree_down = tree_up


def _fill(out: HostArray, get: Way) -> None:
    np.copyto(out, get())


def _native(array: HostArray) -> HostArray:
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def present() -> tuple[list[LibraryWays], tuple[str, ...], dict[str, str]]:
    """The peers here, the backends whose arrays xferlib can make, and why others are absent."""
    peers: list[LibraryWays] = []
    absent: dict[str, str] = {}
    states = xl.available_backends()
    for name, make in (("cupy", CupyWays), ("torch", TorchWays)):
        if any(":cuda:" in device for device in states[name].devices):
            peers.append(make())
        else:
            absent[name] = states[name].reason or "no CUDA device"
    if peers:
        return peers, tuple(peer.name for peer in peers), absent
    if states["torch"].is_available:
        return [NumpyWays(), TorchWays("cpu")], ("numpy", "torch"), absent
    return [NumpyWays()], ("numpy",), absent


def made(library: LibraryWays, case: TransferCase | TreeCase, source: Any, out: HostArray | None) -> Ways:
    """The ways of a library; none where it refuses the case."""
    try:
        if isinstance(case, TreeCase):
            return library.tree_up(source) if case.is_upload else library.tree_down(source)
        return library.up(case, source) if case.is_upload else library.down(case, source, out)
    except (TypeError, ValueError, RuntimeError, xl.errors.XferError):
        return {}
