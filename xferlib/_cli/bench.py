"""`xferlib bench transfer`; the other benchmarks are in the repository's `benchmarks/`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import xferlib as xl
from xferlib._cli.main import aligned
from xferlib._memory import buffers
from xferlib.errors import TransferError

# The array libraries that benchmarks time: how each makes arrays, and the one call that awaits the work of all.
#
# The obvious way is each library's own ``synchronize``. Those differ: `torch.cuda.synchronize` takes some 6 us more
# than CuPy's, on the same idle device, which a comparison would count as the transfer's.

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


# The libraries that transfers are measured against, each used the best way its users know.
#
# Every function makes a closure that performs one complete transfer, device work included.

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


class Xferlib(XferlibDevice):
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
                buffers.host_cache.trim()
            results.append(xl.to_host(held))

        return run

    def both_ways(self, source: HostArray, out: HostArray) -> Run:
        held, target = xl.to_device(source, device=self.place), xl.empty_like(xl.to_device(source, device=self.place))

        def run() -> None:
            up, down = xl.to_device_async(source, out=target), xl.to_host_async(held, out=out)
            up.result()
            down.result()

        return self.awaited(run)


class Cupy(CupyLibrary):
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


class Torch(TorchLibrary):
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


class Pycuda(PycudaLibrary):
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


class Numpy(NumpyLibrary):
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
    found, absent = with_cuda(tuple(makers))
    return [makers[name]() for name in found] or [Numpy()], absent


# The figures of `xferlib bench transfer`, and a size as its tables show it.


@dataclass(slots=True)
class TransferResult:
    """Median seconds of a case for each library."""

    case: str
    nbytes: int
    """Bytes delivered; for a conversion, bytes of the source."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Median seconds in a loop."""
    first_seconds: dict[str, float] = field(default_factory=dict)
    """Median seconds of the first transfer after other work: threads and pages are cold."""

    def gb_per_s(self, library: str) -> float:
        return self.nbytes / self.seconds[library] / 1e9


def size_text(nbytes: int) -> str:
    """Bytes as a person writes them."""
    for unit, step in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << step:
            return f"{nbytes / (1 << step):.4g} {unit}"
    return f"{nbytes} B"


# Tables, progress and pictures of benchmarks.

INK = "#7f7f7f"
ON_BOTH = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "legend.facecolor"), "none"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    "grid.color": INK, "grid.alpha": 0.4, "legend.edgecolor": INK,
}  # fmt: skip
"""Settings of matplotlib for pictures without a background: on a white page and on a dark one the contrast is 4."""
_COLOURS = {"xferlib": "#14906a", "cupy": "#d1495b", "torch": "#c5862c", "pycuda": "#6f82b8", "numpy": INK}


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Show the current step in one line, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return

    def report(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{what}: {text}")
        sys.stderr.flush()

    try:
        yield report
    finally:
        sys.stderr.write("\r\x1b[K")


def heading(machine: dict[str, Any], absent: dict[str, str]) -> None:
    """Print what was measured, and which libraries are missing."""
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    for name, reason in absent.items():
        print(f"{name}: absent ({reason})")


@contextmanager
def drawing(path: Path, **options: Any) -> Iterator[tuple[Any, Any]]:
    """Give a figure and its axes to draw on, for light pages and dark ones, and write it to a file.

    Args:
        path: To write.
        options: For ``subplots``.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with mpl.rc_context(ON_BOTH):
        figure, axes = plt.subplots(**options)
        try:
            yield figure, axes
            figure.savefig(path)
        finally:
            plt.close(figure)


@contextmanager
def picture(path: Path, title: str, panels: tuple[int, int], panel_height: float, **options: Any) -> Iterator[Any]:
    """Give rows of axes to draw on, and write them to a file.

    Args:
        path: To write.
        title: Over all panels.
        panels: Rows and columns.
        panel_height: In inches.
        options: For ``subplots``.
    """
    rows, columns = panels
    size = (11, panel_height * rows)
    with drawing(path, nrows=rows, ncols=columns, figsize=size, dpi=130, squeeze=False, **options) as (figure, axes):
        yield axes
        axes[0][0].legend(fontsize=8)
        figure.suptitle(title, fontsize=12)
        figure.tight_layout()


def transfer_table(results: list[TransferResult], machine: dict[str, Any], absent: dict[str, str]) -> None:
    """Print GB/s of every case and library, microseconds where that says more, and the ratio to the best peer."""
    libraries = list(dict.fromkeys(name for result in results for name in result.seconds))
    heading(machine, absent)
    header = ["case", "size", *libraries, "xferlib / best peer", "first transfer"]
    rows = [_row(result, libraries) for result in results]
    for row, before in zip(rows[:0:-1], rows[-2::-1], strict=True):
        row[0] = "" if row[0] == before[0] else row[0]
    print("\n".join(aligned([header, *rows])))


def _row(result: TransferResult, libraries: list[str]) -> list[str]:
    def cell(name: str) -> str:
        if name not in result.seconds:
            return "-"
        if result.nbytes < 1 << 18:
            return f"{result.seconds[name] * 1e6:.1f} us"
        return f"{result.gb_per_s(name):.2f} GB/s"

    subject = next(name for name in result.seconds if name.startswith("xferlib"))

    def ratio(seconds: dict[str, float]) -> str:
        peers = [value for name, value in seconds.items() if name != subject]
        return f"{min(peers) / seconds[subject]:.2f}" if peers else "-"

    ratios = [ratio(result.seconds), ratio(result.first_seconds)]
    return [result.case, size_text(result.nbytes), *(cell(name) for name in libraries), *ratios]


def transfer_plot(results: list[TransferResult], machine: dict[str, Any], path: Path) -> None:
    """GB/s against size, one panel a kind of transfer, log axes, the link as a line."""
    cases = list(dict.fromkeys(result.case for result in results))
    curves = [case for case in cases if sum(result.case == case for result in results) > 2]
    pinned = [result for result in results if "pinned" in result.case]
    link = max((result.gb_per_s(name) for result in pinned for name in result.seconds), default=None)
    title = f"{machine['device']}, {machine['cores']} cores: transfers"
    with picture(path, title, (-(-len(curves) // 2), 2), 3.4, sharex=True, sharey=True) as axes:
        for axis, case in zip(axes.flat, curves, strict=False):
            members = [result for result in results if result.case == case]
            for name in dict.fromkeys(name for result in members for name in result.seconds):
                points = [(result.nbytes, result.gb_per_s(name)) for result in members if name in result.seconds]
                is_subject = name.startswith("xferlib")
                axis.plot(
                    *zip(*points, strict=True), label=name, color=_COLOURS.get(name.split(" ")[0]),
                    marker="o", markersize=3,
                    linewidth=2.2 if is_subject else 1.2, zorder=3 if is_subject else 2,
                )  # fmt: skip
            if link is not None:
                axis.axhline(link, color=INK, linewidth=0.8, linestyle="--")
                axis.annotate(f"link {link:.1f} GB/s", (members[0].nbytes, link), fontsize=8, va="bottom")
            axis.set(xscale="log", yscale="log", title=case)
            axis.set_xscale("log", base=2)
            axis.grid(visible=True, which="major", linewidth=0.3)
        ticks = [1 << power for power in range(10, 31, 4)]
        for axis in axes[-1]:
            axis.set_xticks(ticks, [size_text(tick) for tick in ticks])
            axis.set_xlabel("bytes")
        for row in axes:
            row[0].set_ylabel("GB/s")
