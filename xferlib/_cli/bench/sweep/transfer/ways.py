"""How each library makes a case's transfer: for the others every way that its users know, of which the fastest counts.

A way is one complete transfer, from the call to the arrival of the data. It takes the source as it is: what a library
cannot take directly, such as a negative stride, is made contiguous first, within the time.
"""

from __future__ import annotations

import functools
from typing import Any, Protocol

import numpy as np

import xferlib as xl
from xferlib._cli.bench import libraries
from xferlib._cli.bench.libraries import HostArray
from xferlib._cli.bench.sweep.timing import Run
from xferlib._cli.bench.sweep.transfer.array_cases import ArrayCase
from xferlib._cli.bench.sweep.trial import Runs, Ways, ordinary, pinned


class LibraryWays(Protocol):
    """A library that makes transfers. A missing way is left out."""

    name: str

    def up(self, case: ArrayCase, source: HostArray) -> Ways: ...
    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        """Ways to the host, of a device array with the elements of ``source``; into ``out`` if given."""

    def tree_up(self, sources: list[HostArray]) -> Ways: ...
    def tree_down(self, sources: list[HostArray]) -> Ways: ...


class XferlibWays(libraries.XferlibDevice):
    """xferlib, making or reading the arrays of one backend: the obvious way, and pinned results.

    Args:
        backend: Of the device arrays.
        owner: The peer whose arrays they are. An upload ends with its `done`, as that peer's own do, so that the steps
            of xferlib's `synchronize` beside the wait are not counted as the transfer's.
    """

    def __init__(self, backend: str, owner: libraries.ArrayLibrary | None = None) -> None:
        super().__init__(backend)
        self._owner = owner
        self._pins = self.place.kind == "cuda"

    def done(self, result: Any) -> Any:
        return super().done(result) if self._owner is None else self._owner.done(result)

    def up(self, case: ArrayCase, source: HostArray) -> Ways:
        options: dict[str, Any] = {} if case.given == case.wanted else {"dtype": case.wanted}
        if case.is_new:
            return ordinary({"to_device": lambda: self.done(xl.to_device(source, device=self.place, **options))})
        target = xl.empty(case.shape, case.wanted, device=self.place)
        return ordinary({"to_device(out=)": lambda: self.done(xl.to_device(source, out=target, **options))})

    def down(self, case: ArrayCase, source: HostArray, out: HostArray | None) -> Ways:
        held = xl.to_device(source, device=self.place)
        options: dict[str, Any] = {} if case.given == case.wanted else {"dtype": case.wanted}
        if out is not None:
            return ordinary({"to_host(out=)": lambda: xl.to_host(held, out=out, **options)})
        ways = ordinary({"to_host": lambda: xl.to_host(held, **options)})
        if self._pins:
            ways |= pinned({"to_host(pinned=True)": lambda: xl.to_host(held, pinned=True, **options)})
        return ways

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return ordinary({"tree.to_device": lambda: self.done(xl.tree.to_device(sources, device=self.place))})

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

        self._cupy, self._done, self._new_pinned = library.module, library.done, cupyx.empty_pinned

    def up(self, case: ArrayCase, source: HostArray) -> Ways:
        cp, wanted = self._cupy, case.wanted
        arrays: Runs = {"asarray": lambda: cp.asarray(_native(source))}
        if case.given != wanted:
            arrays = {
                "asarray, then astype": lambda: cp.asarray(_native(source)).astype(wanted),
                "astype, then asarray": lambda: cp.asarray(source.astype(wanted)),
            }
        if case.is_new:
            return ordinary({name: functools.partial(self._made, make) for name, make in arrays.items()})
        target = cp.empty(case.shape, wanted)
        assigned = {f"{name}, assigned": functools.partial(self._assign, target, make) for name, make in arrays.items()}
        return ordinary({"set": lambda: self._done(target.set(np.ascontiguousarray(source, wanted))), **assigned})

    def _made(self, make: Run) -> Any:
        return self._done(make())

    def _assign(self, target: Any, make: Run) -> None:
        target[...] = make()
        self._done(target)

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
            return ordinary(gets) | pinned({"get(out=emptypinned())": lambda: self._pinned_each([held], wanted)[0]})
        if case.given == wanted and out.flags.c_contiguous and out.dtype.isnative:
            return ordinary({"get(out=)": lambda: held.get(out=out)})
        return ordinary({f"{name}, assigned": functools.partial(_fill, out, get) for name, get in gets.items()})

    def _pinned_each(self, held: list[Any], dtype: str) -> Any:
        """New pinned arrays, all of them requested before the first is waited for."""
        results = [
            each.astype(dtype, copy=False).get(out=self._new_pinned(each.shape, dtype), blocking=False) for each in held
        ]
        return self._done(results)

    def tree_up(self, sources: list[HostArray]) -> Ways:
        return ordinary({"asarray of each": lambda: self._done([self._cupy.asarray(each) for each in sources])})

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = [self._cupy.asarray(each) for each in sources]
        dtype = str(held[0].dtype)
        return ordinary({"get of each": lambda: [each.get() for each in held]}) | pinned(
            {"get(out=emptypinned()) of each": lambda: self._pinned_each(held, dtype)}
        )


class TorchWays:
    """PyTorch: ``cuda`` and ``cpu``, with and without ``pin_memory`` and ``non_blocking``."""

    name = "torch"

    def __init__(self, library: libraries.TorchLibrary) -> None:
        self._torch, self._done, self._device = library.module, library.done, library.device
        self._pins = library.device != "cpu"

    def _tensor(self, array: HostArray) -> Any:
        if not array.dtype.isnative or any(stride < 0 for stride in array.strides):
            array = np.ascontiguousarray(array, array.dtype.newbyteorder("="))
        return self._torch.from_numpy(array)

    def up(self, case: ArrayCase, source: HostArray) -> Ways:
        wanted, device = getattr(self._torch, case.wanted), self._device
        is_same = case.given == case.wanted
        if not case.is_new:
            target = self._torch.empty(case.shape, dtype=wanted, device=device)
            runs: Runs = {"copy_": lambda: self._done(target.copy_(self._tensor(source), non_blocking=True))}
            if self._pins and not case.is_pinned:
                runs["pin_memory, then copy_"] = lambda: self._done(
                    target.copy_(self._tensor(source).contiguous().pin_memory(), non_blocking=True)
                )
            return ordinary(runs)
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
            late = {"non_blocking": lambda: self._done(held.to(wanted).to("cpu", non_blocking=True))}
            return ordinary(runs) | pinned(late)
        if out.dtype.isnative and all(stride >= 0 for stride in out.strides):
            target = self._torch.from_numpy(out)
            return ordinary({"copy_": lambda: self._done(target.copy_(held))})
        return ordinary({"cpu, assigned": lambda: np.copyto(out, held.to(wanted).cpu().numpy())})

    def tree_up(self, sources: list[HostArray]) -> Ways:
        tensors = [self._tensor(each) for each in sources]
        runs: Runs = {"to of each": lambda: self._done([each.to(self._device, copy=True) for each in tensors])}
        if self._pins:
            runs["pin_memory, then to"] = lambda: self._done(
                [each.pin_memory().to(self._device, non_blocking=True) for each in tensors]
            )
        return ordinary(runs)

    def tree_down(self, sources: list[HostArray]) -> Ways:
        held = [self._tensor(each).to(self._device, copy=True) for each in sources]
        ways = ordinary({"cpu of each": lambda: [each.to("cpu", copy=not self._pins) for each in held]})
        if self._pins:
            ways |= pinned({"non_blocking": lambda: self._done([each.to("cpu", non_blocking=True) for each in held])})
        return ways


class NumpyWays:
    """A plain copy in host memory: the peer where there is no GPU."""

    name = "numpy"

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


def _fill(out: HostArray, get: Run) -> None:
    np.copyto(out, get())


def _native(array: HostArray) -> HostArray:
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def of(library: libraries.ArrayLibrary) -> LibraryWays:
    """The ways of one of the peers."""
    if isinstance(library, libraries.CupyLibrary):
        return CupyWays(library)
    if isinstance(library, libraries.TorchLibrary):
        return TorchWays(library)
    return NumpyWays()
