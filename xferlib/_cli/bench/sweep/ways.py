"""How each library makes a case's transfer: for the others every way that its users know, of which the fastest counts.

A way is one complete transfer, from the call to the arrival of the data. It takes the source as it is: what a library
cannot take directly, such as a negative stride, is made contiguous first, within the time.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

import xferlib as xl
from xferlib._cli.bench.sweep.cases import HostArray, TransferCase, TreeCase
from xferlib._cli.bench.sweep.timing import Run


@dataclass(frozen=True, slots=True)
class Way:
    """One complete transfer, from the call to the arrival of the data."""

    run: Run
    is_pinned: bool = False
    """The result is a new array in page-locked memory."""


Runs = dict[str, Run]
Ways = dict[str, Way]


def _ordinary(runs: Runs) -> Ways:
    return {name: Way(run) for name, run in runs.items()}


def _pinned(runs: Runs) -> Ways:
    return {name: Way(run, is_pinned=True) for name, run in runs.items()}


class LibraryWays(Protocol):
    """A library that makes transfers. A missing way is left out."""

    name: str

    def up(self, case: TransferCase, source: HostArray) -> Ways: ...
    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Ways:
        """Ways to the host, of a device array with the elements of ``source``; into ``out`` if given."""

    def tree_up(self, sources: list[HostArray]) -> Ways: ...
    def tree_down(self, sources: list[HostArray]) -> Ways: ...


class XferlibWays:
    """xferlib, making or reading the arrays of one backend: the obvious way, and pinned results."""

    def __init__(self, backend: str) -> None:
        self.name = f"xferlib ({backend})"
        self._place = xl.get_device(backend)
        self._pins = self._place.kind == "cuda"

    def _done(self, result: Any) -> Any:
        self._place.synchronize()
        return result

    def up(self, case: TransferCase, source: HostArray) -> Ways:
        options: dict[str, Any] = {} if case.given == case.wanted else {"dtype": case.wanted}
        if case.is_new:
            return _ordinary({"to_device": lambda: self._done(xl.to_device(source, device=self._place, **options))})
        target = xl.empty(case.shape, case.wanted, device=self._place)
        return _ordinary({"to_device(out=)": lambda: self._done(xl.to_device(source, out=target, **options))})

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Ways:
        held = xl.to_device(source, device=self._place)
        options: dict[str, Any] = {} if case.given == case.wanted else {"dtype": case.wanted}
        if out is not None:
            return _ordinary({"to_host(out=)": lambda: xl.to_host(held, out=out, **options)})
        ways = _ordinary({"to_host": lambda: xl.to_host(held, **options)})
        if self._pins:
            ways |= _pinned({"to_host(pinned=True)": lambda: xl.to_host(held, pinned=True, **options)})
        return ways

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return _ordinary({"tree.to_device": lambda: self._done(xl.tree.to_device(sources, device=self._place))})

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = xl.tree.to_device(sources, device=self._place)
        ways = _ordinary({"tree.to_host": lambda: xl.tree.to_host(held)})
        if self._pins:
            ways |= _pinned({"tree.to_host(pinned=True)": lambda: xl.tree.to_host(held, pinned=True)})
        return ways


class CupyWays:
    """CuPy: ``asarray``, ``set`` and ``get``, the last into a new array of its pinned pool too."""

    name = "cupy"

    def __init__(self) -> None:
        import cupy
        import cupyx

        self._cupy, self._new_pinned = cupy, cupyx.empty_pinned

    def _done(self, result: Any) -> Any:
        self._cupy.cuda.Device().synchronize()
        return result

    def up(self, case: TransferCase, source: HostArray) -> Ways:
        cp, wanted = self._cupy, case.wanted
        arrays: Runs = {"asarray": lambda: cp.asarray(_native(source))}
        if case.given != wanted:
            arrays = {
                "asarray, then astype": lambda: cp.asarray(_native(source)).astype(wanted),
                "astype, then asarray": lambda: cp.asarray(source.astype(wanted)),
            }
        if case.is_new:
            return _ordinary({name: functools.partial(self._made, make) for name, make in arrays.items()})
        target = cp.empty(case.shape, wanted)
        assigned = {f"{name}, assigned": functools.partial(self._assign, target, make) for name, make in arrays.items()}
        return _ordinary({"set": lambda: self._done(target.set(np.ascontiguousarray(source, wanted))), **assigned})

    def _made(self, make: Run) -> Any:
        return self._done(make())

    def _assign(self, target: Any, make: Run) -> None:
        target[...] = make()
        self._done(target)

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Ways:
        held = self._cupy.asarray(np.ascontiguousarray(source))
        wanted = case.wanted
        gets: Runs = {"get": held.get}
        if case.given != wanted:
            gets = {
                "astype, then get": lambda: held.astype(wanted).get(),
                "get, then astype": lambda: held.get().astype(wanted),
            }
        if out is None:
            return _ordinary(gets) | _pinned({"get(out=empty_pinned())": lambda: self._pinned_each([held], wanted)[0]})
        if case.given == wanted and out.flags.c_contiguous and out.dtype.isnative:
            return _ordinary({"get(out=)": lambda: held.get(out=out)})
        return _ordinary({f"{name}, assigned": functools.partial(_fill, out, get) for name, get in gets.items()})

    def _pinned_each(self, held: list[Any], dtype: str) -> Any:
        """New pinned arrays, all of them requested before the first is waited for."""
        results = [
            each.astype(dtype, copy=False).get(out=self._new_pinned(each.shape, dtype), blocking=False) for each in held
        ]
        return self._done(results)

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return _ordinary({"asarray of each": lambda: self._done([self._cupy.asarray(each) for each in sources])})

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = [self._cupy.asarray(each) for each in sources]
        dtype = str(held[0].dtype)
        return _ordinary({"get of each": lambda: [each.get() for each in held]}) | _pinned(
            {"get(out=empty_pinned()) of each": lambda: self._pinned_each(held, dtype)}
        )


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
            runs: Runs = {"copy_": lambda: self._done(target.copy_(self._tensor(source), non_blocking=True))}
            if self._pins and not case.is_pinned:
                runs["pin_memory, then copy_"] = lambda: self._done(
                    target.copy_(self._tensor(source).contiguous().pin_memory(), non_blocking=True)
                )
            return _ordinary(runs)
        flat = self._torch.contiguous_format

        def to() -> Any:
            there = self._tensor(source).to(device, non_blocking=True, copy=True, memory_format=flat)
            return self._done(there.to(wanted))

        runs = {"to": to}
        if not is_same:
            runs["dtype first"] = lambda: self._done(self._tensor(source).to(wanted).to(device, non_blocking=True))
        if self._pins and not case.is_pinned:
            runs["pin_memory, then to"] = lambda: self._done(
                self._tensor(source).to(wanted).contiguous().pin_memory().to(device, non_blocking=True)
            )
        return _ordinary(runs)

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Ways:
        held = self._tensor(source).contiguous().to(self._device, copy=True)
        wanted = getattr(self._torch, case.wanted)
        if out is None:
            runs: Runs = {"cpu": lambda: held.to(wanted).to("cpu", copy=not self._pins)}
            if case.given != case.wanted:
                runs["dtype last"] = lambda: held.cpu().to(wanted)
            if not self._pins:
                return _ordinary(runs)
            late = {"non_blocking": lambda: self._done(held.to(wanted).to("cpu", non_blocking=True))}
            return _ordinary(runs) | _pinned(late)
        if out.dtype.isnative and all(stride >= 0 for stride in out.strides):
            target = self._torch.from_numpy(out)
            return _ordinary({"copy_": lambda: self._done(target.copy_(held))})
        return _ordinary({"cpu, assigned": lambda: np.copyto(out, held.to(wanted).cpu().numpy())})

    def tree_up(self, sources: list[HostArray]) -> Ways:
        tensors = [self._tensor(each) for each in sources]
        runs: Runs = {"to of each": lambda: self._done([each.to(self._device, copy=True) for each in tensors])}
        if self._pins:
            runs["pin_memory, then to"] = lambda: self._done(
                [each.pin_memory().to(self._device, non_blocking=True) for each in tensors]
            )
        return _ordinary(runs)

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = [self._tensor(each).to(self._device, copy=True) for each in sources]
        ways = _ordinary({"cpu of each": lambda: [each.to("cpu", copy=not self._pins) for each in held]})
        if self._pins:
            ways |= _pinned({"non_blocking": lambda: self._done([each.to("cpu", non_blocking=True) for each in held])})
        return ways


class NumpyWays:
    """A plain copy in host memory: the peer where there is no GPU."""

    name = "numpy"

    def up(self, case: TransferCase, source: HostArray) -> Ways:
        if case.is_new:
            return _ordinary({"array": lambda: np.array(source, case.wanted, order="C")})
        target = np.empty(case.shape, case.wanted)
        return _ordinary({"copyto": lambda: np.copyto(target, source, casting="unsafe")})

    def down(self, case: TransferCase, source: HostArray, out: HostArray | None) -> Ways:
        held = np.ascontiguousarray(source)
        if out is None:
            return _ordinary({"array": lambda: np.array(held, case.wanted, order="C")})
        return _ordinary({"copyto": lambda: np.copyto(out, held, casting="unsafe")})

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return _ordinary({"copy of each": lambda: [each.copy() for each in sources]})

    tree_down = tree_up


def _fill(out: HostArray, get: Run) -> None:
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
