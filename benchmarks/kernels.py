"""`python -m benchmarks kernels`: xferlib's kernels beside the other libraries' in one run, on the same data."""

from __future__ import annotations

import argparse
import json
import re
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from benchmarks import kernel_peers
from benchmarks.kernel_peers import Run, Runs
from benchmarks.pictures import drawing
from xferlib._cli.bench import describe_machine, print_heading, progress
from xferlib._cli.main import align, require
from xferlib.kernels import elementwise, reductions

SMALL = 16


@dataclass(slots=True)
class KernelResult:
    """Median seconds of a case for each contender, measured in turn."""

    case: str
    nbytes: int
    """Bytes that the case must read and write; 0 where the time of a call counts."""
    seconds: dict[str, float] = field(default_factory=dict)

    def shown(self, name: str) -> str:
        """The figure of one contender, with its unit."""
        if name not in self.seconds:
            return "-"
        if self.nbytes == 0:
            return f"{self.seconds[name] * 1e6:.1f} us"
        return f"{self.nbytes / self.seconds[name] / 1e9:.1f} GB/s"


Case = tuple[str, int, Callable[[], Runs]]


def _expression(x: Any, y: Any) -> Any:
    return x * y + np.exp(-abs(x))


def _several(x: Any, y: Any, z: Any) -> Any:
    return x * y + z, x - z


fast = elementwise(_expression, name="expression_fast", math="fast")
exact = elementwise(_expression, name="expression")
add = elementwise(lambda x, y: x + y, name="add")
double = elementwise(lambda x: x * 2, name="double")
identity = elementwise(lambda x: +x, name="identity")
several = elementwise(_several, name="several")


def _host_cases(count: int, modules: dict[str, Any]) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        x, y = (rng.standard_normal(count).astype(dtype) for _ in range(2))
        nbytes = 3 * x.nbytes
        yield f"x*y + exp(-abs(x)), {count} {dtype}", nbytes, _host_runs(modules, x, y)
    x, y = (rng.standard_normal(SMALL).astype("float32") for _ in range(2))
    yield f"call on {SMALL} float32", 0, _host_runs(modules, x, y, is_small=True)
    x = rng.standard_normal(count).astype("float32")
    yield f"sum of {count} float32", x.nbytes, lambda: {"xferlib exact": lambda: reductions.sum(x), "numpy": x.sum}


def _host_runs(modules: dict[str, Any], x: Any, y: Any, *, is_small: bool = False) -> Callable[[], Runs]:
    def make() -> Runs:
        out = np.empty_like(x)
        runs: Runs = {"xferlib fast": lambda: fast(x, y, out=out), "xferlib exact": lambda: exact(x, y, out=out)}
        if is_small:
            runs["the ufuncs by hand"] = _by_hand(x, y, out)
        return runs | kernel_peers.host_expression(modules, x, y, np.empty_like(x))

    return make


def _by_hand(x: Any, y: Any, out: Any) -> Run:
    one, two = np.empty_like(x), np.empty_like(x)

    def run() -> None:
        np.abs(x, one)
        np.negative(one, one)
        np.exp(one, one)
        np.multiply(x, y, two)
        np.add(two, one, out)

    return run


def _device_cases(count: int, modules: dict[str, Any], backend: str) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    side = int(count**0.5)
    x, y = (rng.standard_normal(side * side, dtype=np.float32) for _ in range(2))
    square = x.reshape(side, side)
    yield "copy", 2 * x.nbytes, lambda: _copy_runs(modules, backend, x)
    yield f"x*y + exp(-abs(x)), {x.size} float32", 3 * x.nbytes, _device_runs(modules, backend, x, y)
    row, column = square[0].copy(), square[:, :1].copy()
    for label, other in (("broadcast row", row), ("broadcast column", column)):
        yield f"x + {label}", 2 * x.nbytes, _binary_runs(modules, backend, square, other)
    column_view, even, odd = (slice(None), slice(1)), (slice(None), slice(0, None, 2)), (slice(None), slice(1, None, 2))
    views = ((slice(None),), column_view)
    yield "x + its first column", 2 * x.nbytes, _view_runs(modules, backend, square, views)
    yield "even columns + odd columns", 3 * x.nbytes // 2, _view_runs(modules, backend, square, (even, odd))
    yield "even columns * 2 in place", 2 * x.nbytes, lambda: _in_place_runs(modules, backend, square, even)
    for dtype in ("int8", "float16", "float64"):
        whole = np.ones(4 * x.size // np.dtype(dtype).itemsize, dtype)
        yield f"x + y, {dtype}", 3 * whole.nbytes, _binary_runs(modules, backend, whole, whole[:])
    yield "3 inputs, 2 outputs", 5 * x.nbytes, lambda: _several_runs(backend, x)
    for axis in (None, 0, 1):
        yield f"sum of {side} x {side} float32, axis {axis}", x.nbytes, _sum_runs(modules, backend, square, axis)
    yield f"call on {SMALL} float32", 0, _call_runs(modules, x[:SMALL].copy(), y[:SMALL].copy(), is_given=True)
    yield (
        f"call on {SMALL} float32, new output",
        0,
        _call_runs(modules, x[:SMALL].copy(), y[:SMALL].copy(), is_given=False),
    )


def _device_runs(modules: dict[str, Any], backend: str, x: Any, y: Any) -> Callable[[], Runs]:
    def make() -> Runs:
        dx, dy = xl.to_device(x, backend=backend), xl.to_device(y, backend=backend)
        out = xl.to_device(x, backend=backend)
        runs: Runs = {"xferlib fast": lambda: fast(dx, dy, out=out), "xferlib exact": lambda: exact(dx, dy, out=out)}
        return runs | kernel_peers.device_expression(modules, x, y)

    return make


def _call_runs(modules: dict[str, Any], x: Any, y: Any, *, is_given: bool) -> Callable[[], Runs]:
    """The time of a call, on the arrays of each CUDA library that is there."""

    def make() -> Runs:
        runs: Runs = {}
        for name in ("cupy", "torch", "pycuda"):
            status = xl.available_backends()[name]
            if any("cuda" in device for device in status.devices):
                runs[f"xferlib, {name} arrays"] = _call(name, x, y, is_given=is_given)
        peers = kernel_peers.device_expression(modules, x, y, is_given=is_given)
        return runs | peers

    return make


def _call(backend: str, x: Any, y: Any, *, is_given: bool) -> Run:
    dx, dy, out = (xl.to_device(each, backend=backend) for each in (x, y, x))
    return (lambda: exact(dx, dy, out=out)) if is_given else (lambda: exact(dx, dy))


def _binary_runs(modules: dict[str, Any], backend: str, x: Any, y: Any) -> Callable[[], Runs]:
    def make() -> Runs:
        dx, dy = xl.to_device(x, backend=backend), xl.to_device(y, backend=backend)
        out = xl.to_device(x, backend=backend)
        return {"xferlib exact": lambda: add(dx, dy, out=out)} | kernel_peers.device_binary(modules, x, y)

    return make


def _view_runs(modules: dict[str, Any], backend: str, x: Any, views: tuple[Any, Any]) -> Callable[[], Runs]:
    """The sum of two views of one array on the device, without a copy."""

    def make() -> Runs:
        dx = xl.to_device(x, backend=backend)
        one, two = (dx[view] for view in views)
        out = xl.empty(np.broadcast_shapes(one.shape, two.shape), x.dtype, device=xl.get_device(backend))
        return {"xferlib exact": lambda: add(one, two, out=out)} | kernel_peers.device_views(modules, x, views)

    return make


def _in_place_runs(modules: dict[str, Any], backend: str, x: Any, view: Any) -> Runs:
    part = xl.to_device(x, backend=backend)[view]
    return {"xferlib exact": lambda: double(part, out=part)} | kernel_peers.device_in_place(modules, x, view)


def _copy_runs(modules: dict[str, Any], backend: str, x: Any) -> Runs:
    dx, out = (xl.to_device(x, backend=backend) for _ in range(2))
    return {"xferlib exact": lambda: identity(dx, out=out)} | kernel_peers.device_copy(modules, x)


def _several_runs(backend: str, x: Any) -> Runs:
    a, b, c, one, two = (xl.to_device(x, backend=backend) for _ in range(5))
    return {"xferlib exact": lambda: several(a, b, c, out=(one, two))}


def _sum_runs(modules: dict[str, Any], backend: str, x: Any, axis: int | None) -> Callable[[], Runs]:
    def make() -> Runs:
        dx = xl.to_device(x, backend=backend)
        runs: Runs = {"xferlib exact": lambda: reductions.sum(dx, axis=axis)}
        return runs | kernel_peers.device_sum(modules, x, axis)

    return make


def _measure(runs: Runs, nbytes: int, synchronize: Callable[[], None]) -> dict[str, float]:
    """Median seconds of a call: in every round, one contender after the other makes many calls."""
    rounds, inner = (15, 2000) if nbytes == 0 else (7, 20) if nbytes > 1 << 20 else (9, 200)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 1):
        for name, run in runs.items():
            run()
            synchronize()
            start = time.perf_counter()
            for _ in range(inner):
                run()
            if nbytes:
                synchronize()
            taken = (time.perf_counter() - start) / inner
            synchronize()
            if turn:  # the first round compiles and warms up
                times[name].append(taken)
    return {name: statistics.median(each) for name, each in times.items()}


def measure(
    backend: str, count: int, wanted: str, report: Callable[[str], None]
) -> tuple[list[KernelResult], dict[str, str]]:
    """Every case whose name matches ``wanted``, and the peers that are absent with the reason."""
    device = xl.get_device(backend)
    is_gpu = device.kind == "cuda"
    names = ("cupy", "torch", "pycuda.autoprimaryctx", "pycuda.gpuarray") if is_gpu else ("numexpr", "numba", "torch")
    modules, absent = kernel_peers.load(names)
    cases = _device_cases(count, modules, backend) if is_gpu else _host_cases(count, modules)
    results = []
    for case, nbytes, make in cases:
        if not re.search(wanted, case):
            continue
        report(case)
        results.append(KernelResult(case, nbytes, _measure(make(), nbytes, device.synchronize)))
    return results, absent


def _print(results: list[KernelResult], machine: dict[str, Any], absent: dict[str, str]) -> None:
    print_heading(machine, absent)
    columns = list(dict.fromkeys(name for result in results for name in result.seconds))
    print("\n".join(align([["case", *columns], *([each.case, *map(each.shown, columns)] for each in results)])))


_COLOURS = {
    "xferlib exact": "#14906a", "xferlib fast": "#6bbd9f", "cupy": "#d1495b", "torch eager": "#c5862c",
    "torch.compile": "#e0b675", "pycuda": "#6f82b8", "numpy": "#7f7f7f", "numexpr": "#a0a0a0", "numba": "#626262",
}  # fmt: skip


def plot(results: list[KernelResult], machine: dict[str, Any], path: Path) -> None:
    """GB/s of every contender, one group of bars a case; the time of a call is left to the table."""
    size = (10, 0.28 * sum(len(each.seconds) + 1 for each in results) + 1)
    with drawing(path, figsize=size, dpi=110) as (figure, axis):
        labels: dict[str, Any] = {}
        ticks, place = [], 0.0
        for result in (each for each in results if each.nbytes):
            first = place
            for name, seconds in result.seconds.items():
                speed = result.nbytes / seconds / 1e9
                bar = axis.barh(place, speed, color=_COLOURS.get(name, _COLOURS.get(name.split()[0], "#bbbbbb")))
                axis.annotate(f"{speed:.0f} ", (speed, place), va="center", ha="right", fontsize=7, color="white")
                labels.setdefault(name, bar)
                place += 1
            ticks.append(((first + place - 1) / 2, result.case))
            place += 0.8
        axis.set_yticks([at for at, _ in ticks], [case for _, case in ticks])
        axis.invert_yaxis()
        axis.set(xlabel="GB/s read and written", title=f"{machine['device']}: kernels")
        figure.legend(labels.values(), labels.keys(), ncols=4, loc="lower center", fontsize=8, frameon=False)
        figure.tight_layout(rect=(0, 0.05, 1, 1))


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, write JSON and a picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks kernels", description=__doc__)
    parser.add_argument("--backend", help="backend that xferlib uses (default: the current one)")
    parser.add_argument("--count", type=int, help="elements of the large cases (default: 2**28; 10**7 on a CPU)")
    parser.add_argument("--only", default="", help="a regular expression: the cases whose names it matches")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--plot", type=Path, help="draw the figures to this file (needs matplotlib)")
    options = parser.parse_args(argv)
    if options.plot is not None:
        require("matplotlib", "--plot", extra="bench")  # before anything is measured
    backend = options.backend or xl.get_backend().name
    is_gpu = xl.get_device(backend).kind == "cuda"
    count = options.count or (1 << 28 if is_gpu else 10**7)
    with progress("measuring kernels") as report:
        results, absent = measure(backend, count, options.only, report)
    machine = {**describe_machine(backend), "backend": backend}
    _print(results, machine, absent)
    if options.json is not None:
        figures = {"machine": machine, "absent": absent, "results": [asdict(result) for result in results]}
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    if options.plot is not None:
        plot(results, machine, options.plot)
    return 0
