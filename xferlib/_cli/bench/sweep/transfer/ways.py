"""How each library makes a case's transfer: for the others every way that its users know, of which the fastest counts.

A way is one complete transfer, from the call to the arrival of the data. It takes the source as it is: what a library
cannot take directly, such as a negative stride, is made contiguous first, within the time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

import numpy as np

import xferlib as xl
from xferlib._cli.bench import libraries
from xferlib._cli.bench.libraries import HostArray, Run
from xferlib._cli.bench.sweep.transfer.array_cases import ArrayCase
from xferlib._cli.bench.sweep.trial import Runs, Ways, ordinary, pinned

Stream: TypeAlias = AbstractContextManager[Any]


def on_stream(stream: Stream | None, make: Callable[[], Ways]) -> Ways:
    """Ways that are made, and run, in a stream's block; None is no block."""
    if stream is None:
        return make()

    def inside(run: Run) -> Run:
        def block() -> Any:
            with stream:
                return run()

        return block

    with stream:
        found = make()
    return {name: replace(way, run=inside(way.run)) for name, way in found.items()}


class LibraryWays(Protocol):
    """A library that makes transfers. A missing way is left out."""

    name: str

    def stream(self) -> Stream | None:
        """A stream of the program's own, which is current in its block; None on a CPU."""

    def up(self, case: ArrayCase, source: HostArray) -> Ways: ...
    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        """Ways to the host, of a device array with the elements of ``source``; into ``out`` if given."""

    def tree_up(self, sources: list[HostArray]) -> Ways: ...
    def tree_down(self, sources: list[HostArray]) -> Ways: ...


class XferlibWays(libraries.XferlibDevice):
    """xferlib, making or reading the arrays of one backend: the obvious way, and pinned results; a stream is named.

    Args:
        backend: Of the device arrays.
    """

    def __init__(self, backend: str) -> None:
        super().__init__(backend)
        self._pins = self.place.kind == "cuda"

    def _options(self, case: ArrayCase) -> dict[str, Any]:
        options: dict[str, Any] = {} if case.given == case.wanted else {"dtype": case.wanted}
        return options | ({"stream": xl.Stream(self.place)} if case.has_stream and self._pins else {})

    def stream(self) -> Stream | None:
        return xl.Stream(self.place) if self._pins else None

    def up(self, case: ArrayCase, source: HostArray) -> Ways:
        options = self._options(case)
        if case.is_new:
            return ordinary({"to_device": self.awaited(lambda: xl.to_device(source, device=self.place, **options))})
        target = xl.empty(case.shape, case.wanted, device=self.place)
        return ordinary({"to_device(out=)": self.awaited(lambda: xl.to_device(source, out=target, **options))})

    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        held = xl.to_device(source, device=self.place)
        self.place.synchronize()
        options = self._options(case)
        if out is not None:
            return ordinary({"to_host(out=)": lambda: xl.to_host(held, out=out, **options)})
        ways = ordinary({"to_host": lambda: xl.to_host(held, **options)})
        if self._pins:
            ways |= pinned({"to_host(pinned=True)": lambda: xl.to_host(held, pinned=True, **options)})
        return ways

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return ordinary({"tree.to_device": self.awaited(lambda: xl.tree.to_device(sources, device=self.place))})

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = xl.tree.to_device(sources, device=self.place)
        ways = ordinary({"tree.to_host": lambda: xl.tree.to_host(held)})
        if self._pins:
            ways |= pinned({"tree.to_host(pinned=True)": lambda: xl.tree.to_host(held, pinned=True)})
        return ways


class CupyWays:
    """CuPy: ``asarray``, ``set`` and ``get``, the last into a new array of its pinned pool too."""

    name = "cupy"

    def __init__(self, library: libraries.CupyLibrary) -> None:
        import cupyx

        self._cupy, self._awaited, self._new_pinned = library.module, library.awaited, cupyx.empty_pinned

    def stream(self) -> Stream | None:
        made: Stream = self._cupy.cuda.Stream(non_blocking=True)
        return made

    def up(self, case: ArrayCase, source: HostArray) -> Ways:
        cp, wanted = self._cupy, case.wanted
        arrays: Runs = {"asarray": lambda: cp.asarray(_native(source))}
        if case.given != wanted:
            arrays = {
                "asarray, then astype": lambda: cp.asarray(_native(source)).astype(wanted),
                "astype, then asarray": lambda: cp.asarray(source.astype(wanted)),
            }
        if case.is_new:
            return ordinary({name: self._awaited(make) for name, make in arrays.items()})
        target = cp.empty(case.shape, wanted)
        runs: Runs = {"set": lambda: target.set(np.ascontiguousarray(source, wanted))}
        runs |= {f"{name}, assigned": functools.partial(_fill, target, make) for name, make in arrays.items()}
        return ordinary({name: self._awaited(run) for name, run in runs.items()})

    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        held = self._cupy.asarray(np.ascontiguousarray(source))
        wanted = case.wanted
        gets: Runs = {"get": held.get}
        if case.given != wanted:
            gets = {
                "astype, then get": lambda: held.astype(wanted).get(),
                "get, then astype": lambda: held.get().astype(wanted),
            }
        if out is None:
            return ordinary(gets) | pinned(
                {"get(out=emptypinned())": self._awaited(lambda: self._pinned(held, wanted))}
            )
        if case.given == wanted and out.flags.c_contiguous and out.dtype.isnative:
            return ordinary({"get(out=)": lambda: held.get(out=out)})
        return ordinary({f"{name}, assigned": functools.partial(_fill, out, get) for name, get in gets.items()})

    def _pinned(self, held: Any, dtype: str) -> Any:
        """Request a new pinned array, and do not wait for it."""
        return held.astype(dtype, copy=False).get(out=self._new_pinned(held.shape, dtype), blocking=False)

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return ordinary({"asarray of each": self._awaited(lambda: [self._cupy.asarray(each) for each in sources])})

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = [self._cupy.asarray(each) for each in sources]
        dtype = str(held[0].dtype)
        late = self._awaited(lambda: [self._pinned(each, dtype) for each in held])
        return ordinary({"get of each": lambda: [each.get() for each in held]}) | pinned(
            {"get(out=emptypinned()) of each": late}
        )


class TorchWays:
    """PyTorch: ``cuda`` and ``cpu``, with and without ``pin_memory`` and ``non_blocking``."""

    name = "torch"

    def __init__(self, library: libraries.TorchLibrary) -> None:
        self._torch, self._awaited, self._device = library.module, library.awaited, library.device
        self._pins = library.device != "cpu"

    def stream(self) -> Stream | None:
        cuda = self._torch.cuda
        return cuda.stream(cuda.Stream(self._device)) if self._pins else None

    def _tensor(self, array: HostArray) -> Any:
        if not array.dtype.isnative or any(stride < 0 for stride in array.strides):
            array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        return self._torch.from_numpy(array)

    def up(self, case: ArrayCase, source: HostArray) -> Ways:
        wanted, device = getattr(self._torch, case.wanted), self._device
        is_same = case.given == case.wanted
        if not case.is_new:
            target = self._torch.empty(case.shape, dtype=wanted, device=device)
            runs: Runs = {"copy_": self._awaited(lambda: target.copy_(self._tensor(source), non_blocking=True))}
            if self._pins and not case.is_pinned:
                runs["pin_memory, then copy_"] = self._awaited(
                    lambda: target.copy_(self._tensor(source).contiguous().pin_memory(), non_blocking=True)
                )
            return ordinary(runs)
        flat = self._torch.contiguous_format

        def to() -> Any:
            there = self._tensor(source).to(device, non_blocking=True, copy=True, memory_format=flat)
            return there.to(wanted)

        runs = {"to": self._awaited(to)}
        if not is_same:
            runs["dtype first"] = self._awaited(lambda: self._tensor(source).to(wanted).to(device, non_blocking=True))
        if self._pins and not case.is_pinned:
            runs["pin_memory, then to"] = self._awaited(
                lambda: self._tensor(source).to(wanted).contiguous().pin_memory().to(device, non_blocking=True)
            )
        return ordinary(runs)

    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        held = self._tensor(source).contiguous().to(self._device, copy=True)
        wanted = getattr(self._torch, case.wanted)
        if out is None:
            runs: Runs = {"cpu": lambda: held.to(wanted).to("cpu", copy=not self._pins)}
            if case.given != case.wanted:
                runs["dtype last"] = lambda: held.cpu().to(wanted)
            if not self._pins:
                return ordinary(runs)
            late = {"non_blocking": self._awaited(lambda: held.to(wanted).to("cpu", non_blocking=True))}
            return ordinary(runs) | pinned(late)
        if out.dtype.isnative and all(stride >= 0 for stride in out.strides):
            target = self._torch.from_numpy(out)
            return ordinary({"copy_": lambda: target.copy_(held)})
        return ordinary({"cpu, assigned": lambda: np.copyto(out, held.to(wanted).cpu().numpy())})

    def tree_up(self, sources: list[HostArray]) -> Ways:
        tensors = [self._tensor(each) for each in sources]
        runs: Runs = {"to of each": self._awaited(lambda: [each.to(self._device, copy=True) for each in tensors])}
        if self._pins:
            runs["pin_memory, then to"] = self._awaited(
                lambda: [each.pin_memory().to(self._device, non_blocking=True) for each in tensors]
            )
        return ordinary(runs)

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = [self._tensor(each).to(self._device, copy=True) for each in sources]
        ways = ordinary({"cpu of each": lambda: [each.to("cpu", copy=not self._pins) for each in held]})
        if self._pins:
            late = self._awaited(lambda: [each.to("cpu", non_blocking=True) for each in held])
            ways |= pinned({"non_blocking": late})
        return ways


class NumpyWays:
    """A plain copy in host memory: the peer where there is no GPU."""

    name = "numpy"

    def stream(self) -> Stream | None:
        return None

    def up(self, case: ArrayCase, source: HostArray) -> Ways:
        if case.is_new:
            return ordinary({"array": lambda: np.array(source, case.wanted, order="C")})
        target = np.empty(case.shape, case.wanted)
        return ordinary({"copyto": lambda: np.copyto(target, source, casting="unsafe")})

    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        held = np.ascontiguousarray(source)
        if out is None:
            return ordinary({"array": lambda: np.array(held, case.wanted, order="C")})
        return ordinary({"copyto": lambda: np.copyto(out, held, casting="unsafe")})

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return ordinary({"copy of each": lambda: [each.copy() for each in sources]})

    tree_down = tree_up


class NumpyWaysOfTensors:
    """The same for tensors in host memory, by way of their NumPy arrays, which share it."""

    name = "numpy"

    def __init__(self) -> None:
        import torch

        self._torch = torch

    def stream(self) -> Stream | None:
        return None

    def up(self, case: ArrayCase, source: HostArray) -> Ways:
        tensor = self._torch.from_numpy
        if case.is_new:
            return ordinary({"array, then from_numpy": lambda: tensor(np.array(source, case.wanted, order="C"))})
        target = self._torch.empty(case.shape, dtype=getattr(self._torch, case.wanted))
        return ordinary({"copyto(numpy())": lambda: np.copyto(target.numpy(), source, casting="unsafe")})

    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        held = self._torch.from_numpy(np.ascontiguousarray(source))
        if out is None:
            return ordinary({"array(numpy())": lambda: np.array(held.numpy(), case.wanted, order="C")})
        return ordinary({"copyto(numpy())": lambda: np.copyto(out, held.numpy(), casting="unsafe")})

    def tree_up(self, sources: list[HostArray]) -> Ways:
        tensor = self._torch.from_numpy
        return ordinary({"copy of each, then from_numpy": lambda: [tensor(each.copy()) for each in sources]})

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = [self._torch.from_numpy(each) for each in sources]
        return ordinary({"copy of each's numpy()": lambda: [each.numpy().copy() for each in held]})


def _fill(out: Any, get: Run) -> None:
    out[...] = get()


def _native(array: HostArray) -> HostArray:
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def of(library: libraries.ArrayLibrary, backend: str) -> LibraryWays:
    """The ways of one of the peers, where xferlib makes arrays of ``backend``."""
    if isinstance(library, libraries.CupyLibrary):
        return CupyWays(library)
    if isinstance(library, libraries.TorchLibrary):
        return TorchWays(library)
    return NumpyWaysOfTensors() if backend == "torch" else NumpyWays()
