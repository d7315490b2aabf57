"""`python -m benchmarks kernels`: xferlib's kernels beside the other libraries' in one run, on the same data."""

from __future__ import annotations

import argparse
import functools
import json
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import xferlib as xl
from benchmarks.pictures import drawing
from xferlib._cli.bench import Peers, describe_machine, find_peers, print_heading
from xferlib._cli.main import align, has_module, output_file, picture_file, progress, require
from xferlib.kernels import elementwise, reductions

SMALL = 16
HostArray = np.ndarray[Any, Any]
Run = Callable[[], Any]
Runs = dict[str, Run]
Ways = dict[str, Callable[..., Any]]
Part = tuple[HostArray, Any]
"""An array, and the index of the part of it."""
_WHOLE = (Ellipsis,)


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


class KernelCase(NamedTuple):
    """What is computed, of parts of arrays that are made on the host first."""

    name: str
    nbytes: int
    ours: Ways
    """xferlib's ways, called with the operands and, unless they give new arrays, ``out``."""
    theirs: Callable[..., Any] | None
    """Called with a library's module, the operands and, unless it gives a new array, the result."""
    operands: tuple[Part, ...]
    out: str = "new array"
    """Or ``given``, or ``first operand``."""


def _expression(x: Any, y: Any) -> Any:
    return x * y + np.exp(-abs(x))


fast = elementwise(_expression, name="expression_fast", math="fast")
exact = elementwise(_expression, name="expression")
add = elementwise(lambda x, y: x + y, name="add")
double = elementwise(lambda x: x * 2, name="double")
identity = elementwise(lambda x: +x, name="identity")
several = elementwise(lambda x, y, z: (x * y + z, x - z), name="several")
_EXACT_AND_FAST: Ways = {"xferlib fast": fast, "xferlib exact": exact}


def _eager(m: Any, x: Any, y: Any) -> Any:
    return x * y + m.exp(-m.abs(x))


def _add(m: Any, x: Any, y: Any, out: Any) -> None:
    m.add(x, y, out=out)


def _copy(m: Any, x: Any, out: Any) -> None:
    out.copy_(x) if hasattr(out, "copy_") else m.copyto(out, x)


def _sum(axis: int | None) -> Callable[..., Any]:
    return lambda m, x: x.sum() if axis is None else x.sum(axis)


def host_cases(count: int) -> Iterator[KernelCase]:
    rng = np.random.default_rng(0)
    for size, dtype in ((count, "float32"), (count, "float64"), (SMALL, "float32")):
        x, y = (rng.standard_normal(size).astype(dtype) for _ in range(2))
        name = f"call on {SMALL} float32" if size == SMALL else f"x*y + exp(-abs(x)), {count} {dtype}"
        nbytes = 0 if size == SMALL else 3 * x.nbytes
        yield KernelCase(name, nbytes, _EXACT_AND_FAST, _eager, ((x, _WHOLE), (y, _WHOLE)), "given")
    x = rng.standard_normal(count).astype("float32")
    yield KernelCase(f"sum of {count} float32", x.nbytes, {"xferlib exact": reductions.sum}, _sum(None), ((x, _WHOLE),))


def device_cases(count: int) -> Iterator[KernelCase]:
    rng = np.random.default_rng(0)
    side = int(count**0.5)
    x, y = (rng.standard_normal(side * side, dtype=np.float32) for _ in range(2))
    square, n = x.reshape(side, side), x.nbytes
    whole, pair = (x, _WHOLE), ((x, _WHOLE), (y, _WHOLE))
    sums: Ways = {"xferlib exact": add}
    parts: tuple[Part, ...]
    yield KernelCase("copy", 2 * n, {"xferlib exact": identity}, _copy, (whole,), "given")
    yield KernelCase(f"x*y + exp(-abs(x)), {x.size} float32", 3 * n, _EXACT_AND_FAST, _eager, pair, "given")
    for label, other in (("row", square[0].copy()), ("column", square[:, :1].copy())):
        parts = (square, _WHOLE), (other, _WHOLE)
        yield KernelCase(f"x + broadcast {label}", 2 * n, sums, _add, parts, "given")
    even, odd = np.s_[:, 0::2], np.s_[:, 1::2]
    parts = (square, _WHOLE), (square, np.s_[:, :1])
    yield KernelCase("x + its first column", 2 * n, sums, _add, parts, "given")
    yield KernelCase("even columns + odd columns", 3 * n // 2, sums, _add, ((square, even), (square, odd)), "given")
    in_place = lambda m, x, out: m.multiply(x, 2, out=out)
    ours: Ways = {"xferlib exact": double}
    yield KernelCase("even columns * 2 in place", 2 * n, ours, in_place, ((square, even),), "first operand")
    for dtype in ("int8", "float16", "float64"):
        ones = np.ones(4 * x.size // np.dtype(dtype).itemsize, dtype)
        parts = (ones, _WHOLE), (ones.copy(), _WHOLE)
        yield KernelCase(f"x + y, {dtype}", 3 * ones.nbytes, sums, _add, parts, "given")
    yield KernelCase("3 inputs, 2 outputs", 5 * n, {"xferlib exact": several}, None, (*pair, (x.copy(), _WHOLE)))
    for axis in (None, 0, 1):
        ours = {"xferlib exact": lambda x, axis=axis: reductions.sum(x, axis=axis)}
        text = f"sum of {side} x {side} float32, axis {axis}"
        yield KernelCase(text, n, ours, _sum(axis), ((square, _WHOLE),))
    small = (x[:SMALL].copy(), _WHOLE), (y[:SMALL].copy(), _WHOLE)
    yield KernelCase(f"call on {SMALL} float32", 0, {"xferlib": exact}, _eager, small, "given")
    yield KernelCase(f"call on {SMALL} float32, new output", 0, {"xferlib": exact}, _eager, small)


def _operands(case: KernelCase, put: Callable[[HostArray], Any]) -> tuple[list[Any], Any]:
    """The operands of a case among a library's arrays, and the result; None is a new array at each call."""
    arrays = {id(array): put(array) for array, _ in case.operands}
    parts = [arrays[id(array)] if index is _WHOLE else arrays[id(array)][index] for array, index in case.operands]
    if case.out == "first operand":
        return parts, parts[0]
    shape = np.broadcast_shapes(*(array[index].shape for array, index in case.operands))
    return parts, put(np.empty(shape, case.operands[0][0].dtype)) if case.out == "given" else None


def own_runs(case: KernelCase, backend: str) -> Runs:
    """xferlib's ways, on the arrays of a backend."""
    parts, out = _operands(case, functools.partial(xl.to_device, device=xl.get_device(backend)))
    words = {} if out is None else {"out": out}
    return {name: functools.partial(run, *parts, **words) for name, run in case.ours.items()}


def peer_runs(case: KernelCase, peers: Peers) -> Runs:
    """The other libraries' ways."""
    runs: Runs = {}
    if case.theirs is None:
        return runs
    is_expression = case.theirs is _eager
    for name, library in peers.libraries.items():
        if name == "pycuda" and not (is_expression and case.out == "given"):
            continue
        parts, out = _operands(case, library.module.to_gpu if name == "pycuda" else library.array)
        if name == "cupy" and is_expression:
            kernel = library.module.ElementwiseKernel("T x, T y", "T z", "z = x * y + exp(-abs(x))", "bench")
            runs["cupy ElementwiseKernel"] = functools.partial(kernel, *parts, *(() if out is None else (out,)))
        elif name == "pycuda":
            from pycuda.elementwise import ElementwiseKernel

            text = "z[i] = x[i] * y[i] + expf(-fabsf(x[i]))"
            kernel = ElementwiseKernel("float *x, float *y, float *z", text, "bench")
            runs["pycuda ElementwiseKernel"] = functools.partial(kernel, *parts, out)
        else:
            # The expression gives a new array always.
            given = parts if out is None or is_expression else [*parts, out]
            runs["torch eager" if name == "torch" else name] = functools.partial(case.theirs, library.module, *given)
        if name == "torch" and is_expression and peers.is_gpu:
            runs |= _compile(library.module, parts)
        if name == "numpy" and is_expression and has_module("numexpr"):
            import numexpr

            named = dict(zip("xy", parts, strict=True))
            runs["numexpr"] = functools.partial(numexpr.evaluate, "x*y + exp(-abs(x))", named, out=out)
    return runs


def _compile(torch: Any, tensors: list[Any]) -> Runs:
    compiled = torch.compile(_eager)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled(torch, *tensors)
    except Exception:
        return {}
    return {"torch.compile": functools.partial(compiled, torch, *tensors)}


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
    device, results = xl.get_device(backend), []
    is_gpu = device.kind == "cuda"
    peers = find_peers("cupy", "torch", "pycuda", on_gpu=is_gpu)
    if not is_gpu and not has_module("numexpr"):
        peers.absent["numexpr"] = "not installed"
    for case in device_cases(count) if is_gpu else host_cases(count):
        if not re.search(wanted, case.name):
            continue
        report(case.name)
        runs = own_runs(case, backend)
        if is_gpu and not case.nbytes:  # the time of a call differs by the library of the arrays
            runs = {f"xferlib, {name} arrays": run for name in peers.libraries for run in own_runs(case, name).values()}
        runs |= peer_runs(case, peers)
        results.append(KernelResult(case.name, case.nbytes, _measure(runs, case.nbytes, device.synchronize)))
    return results, peers.absent


_COLOURS = {
    "xferlib exact": "#14906a", "xferlib fast": "#6bbd9f", "cupy": "#d1495b", "torch eager": "#c5862c",
    "torch.compile": "#e0b675", "pycuda": "#6f82b8", "numpy": "#7f7f7f", "numexpr": "#a0a0a0",
}  # fmt: skip


def plot(results: list[KernelResult], machine: dict[str, Any], path: Path) -> None:
    """GB/s of every contender, one group of bars a case; the time of a call is left to the table."""
    size = (10, 0.28 * sum(len(each.seconds) + 1 for each in results) + 1)
    with drawing(path, figsize=size) as (figure, axis):
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
    parser.add_argument("--json", type=output_file, help="write the figures to this file")
    parser.add_argument("--plot", type=picture_file, help="draw the figures to this file (needs matplotlib)")
    options = parser.parse_args(argv)
    if options.plot is not None:
        require("matplotlib", "--plot", extra="bench")  # before anything is measured
    backend = options.backend or xl.get_backend().name
    count = options.count or (1 << 28 if xl.get_device(backend).kind == "cuda" else 10**7)
    with progress("measuring kernels") as report:
        results, absent = measure(backend, count, options.only, report)
    machine = {**describe_machine(backend), "backend": backend}
    print_heading(machine, absent)
    columns = list(dict.fromkeys(name for result in results for name in result.seconds))
    print("\n".join(align([["case", *columns], *([each.case, *map(each.shown, columns)] for each in results)])))
    if options.json is not None:
        figures = {"machine": machine, "absent": absent, "results": [asdict(result) for result in results]}
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    if options.plot is not None:
        plot(results, machine, options.plot)
    return 0
