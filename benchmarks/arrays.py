"""`python -m benchmarks arrays`: sums, products, factorisations and sorting on PyCUDA's arrays, beside CuPy and torch.

Sums and copies are measured on PyCUDA's own arrays too, the column ``GPUArray``.

Every library works on the same numbers on one device, in turns, and each figure is the median of the rounds: the time
from one event to another around several calls, so that the host's share counts only where it is the longer one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import xferlib as xl
from xferlib.errors import BackendUnavailableError

_NATIVE = "GPUArray"
"""PyCUDA's own arrays, which can add and copy."""
_LIBRARIES = ("pycuda", _NATIVE, "cupy", "torch")
_OURS = ("pycuda", "sim")
"""Libraries whose functions are xferlib's."""
_CALLS, _SMALL_CALLS, _SMALL = 5, 200, 1 << 16
"""Calls of one measurement; calls of one with small arrays, and the most elements of a small array."""

Run = Callable[[], Any]


def _sums(counts: list[int]) -> dict[str, tuple[tuple[Any, ...], Callable[..., Any]]]:
    """A sum reads two arrays and writes one; a copy of one of them tells what the memory can do."""
    found: dict[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {}
    for count in counts:
        x = np.arange(count, dtype="float32")
        found[f"add float32 {count}"] = (x, x), lambda _, a, b: a + b
        found[f"copy float32 {count}"] = (x,), lambda _, a: a.clone() if hasattr(a, "clone") else a.copy()
    return found


def _products(sizes: list[int]) -> dict[str, tuple[tuple[Any, ...], Callable[..., Any]]]:
    """Cases by their names: the host's arrays, and what a namespace does with two of them."""
    random = np.random.default_rng(0)
    found: dict[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {}
    for dtype in ("float32", "float64", "float16"):
        for size in sizes:
            pair = tuple(random.standard_normal((size, size)).astype(dtype) for _ in range(2))
            found[f"matmul {dtype} {size}"] = pair, lambda xp, a, b: xp.matmul(a, b)
        if not sizes:
            continue
        found[f"matmul {dtype} {sizes[0]} transposed"] = (
            tuple(random.standard_normal((sizes[0],) * 2).astype(dtype) for _ in range(2)),
            lambda xp, a, b: xp.matmul(a.T, b.T),
        )
        half = -(-sizes[-1] // 2)
        found[f"matmul {dtype} 64 x {half}"] = (
            tuple(random.standard_normal((64, half, half)).astype(dtype) for _ in range(2)),
            lambda xp, a, b: xp.matmul(a, b),
        )
    return found


def _factorisations(stacks: list[str]) -> dict[str, tuple[tuple[Any, ...], Callable[..., Any]]]:
    """Stacks of positive-definite matrices, given as ``count x rows``."""
    random = np.random.default_rng(0)
    found: dict[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {}
    for each in stacks:
        count, rows = map(int, each.split("x"))
        x = random.standard_normal((count, rows, rows)).astype("float32")
        definite = x @ x.swapaxes(1, 2) + rows * np.eye(rows, dtype="float32")
        for name in ("cholesky", "det", "eigh", "inv", "qr", "svd"):
            found[f"{name} float32 {count} x {rows}"] = (
                (definite,),
                lambda xp, a, name=name: getattr(xp.linalg, name)(a),
            )
        found[f"solve float32 {count} x {rows}"] = (definite, x), lambda xp, a, b: xp.linalg.solve(a, b)
    return found


def _sorts(counts: list[int]) -> dict[str, tuple[tuple[Any, ...], Callable[..., Any]]]:
    random = np.random.default_rng(0)
    found: dict[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {}
    for count in counts:
        for dtype in ("float32", "int32", "int64", "float64"):
            x = (random.standard_normal(count) * 1e6).astype(dtype)
            found[f"sort {dtype} {count}"] = (x,), lambda xp, a: xp.sort(a)
        found[f"argsort float32 {count}"] = (random.random(count, dtype="float32"),), lambda xp, a: xp.argsort(a)
        found[f"cumulative_sum float32 {count}"] = (
            (random.random(count, dtype="float32"),),
            lambda xp, a: xp.cumulative_sum(a, axis=0),
        )
    return found


def _ready(name: str, host: tuple[Any, ...], function: Callable[..., Any]) -> tuple[Run, Callable[[], float]]:
    """The call on one library's arrays, and a measurement of it in microseconds a call."""
    backend = "pycuda" if name == _NATIVE else name
    arrays = [_native(each) if name == _NATIVE else xl.to_device(each, backend=name) for each in host]
    xp = None if name == _NATIVE else xl.get_array_module(*arrays) if name in _OURS else _peer(name)
    run: Run = lambda: function(xp, *arrays)
    calls = _SMALL_CALLS if host[0].size <= _SMALL else _CALLS

    def measure() -> float:
        with xl.use_backend(backend):
            stream = xl.current_stream()
            first = stream.record(xl.Event(timing=True))
            for _ in range(calls):
                run()
            last = stream.record(xl.Event(timing=True))
            last.synchronize()
            return last.elapsed_ms(first) * 1e3 / calls

    return run, measure


def _native(host: Any) -> Any:
    """An array of PyCUDA's own type."""
    return importlib.import_module("pycuda.gpuarray").to_gpu(host)


def _peer(name: str) -> Any:
    """A library's own functions by the standard's names: for torch not xferlib's namespace over it."""
    library: Any = importlib.import_module(name)
    if name != "torch":
        return SimpleNamespace(
            matmul=library.matmul,
            linalg=library.linalg,
            sort=library.sort,
            argsort=library.argsort,
            cumulative_sum=lambda x, axis: library.cumsum(x, axis=axis),
        )
    return SimpleNamespace(
        matmul=library.matmul,
        linalg=library.linalg,
        sort=lambda x: library.sort(x, stable=True).values,
        argsort=lambda x: library.argsort(x, stable=True),
        cumulative_sum=library.cumsum,
    )


def main(argv: list[str]) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks arrays", description=__doc__.partition("\n\n")[0])
    parser.add_argument("--backends", nargs="+", default=_LIBRARIES)
    parser.add_argument("--sums", type=int, nargs="*", default=[16, 1 << 28], help="elements of arrays to add")
    parser.add_argument("--sizes", type=int, nargs="*", default=[4096, 512], help="of square matrices")
    parser.add_argument("--stacks", nargs="*", default=["1000x16", "100x128"], help="of matrices to factor")
    parser.add_argument("--counts", type=int, nargs="*", default=[1 << 24, 1 << 16], help="of elements to sort")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(argv)
    libraries = []
    for name in options.backends:
        try:
            xl.to_device(np.zeros(1), backend="pycuda" if name == _NATIVE else name)
            libraries.append(name)
        except BackendUnavailableError as error:
            print(error, file=sys.stderr)
    results: dict[str, dict[str, float]] = {}
    print(f"| {'case':34} | " + " | ".join(f"{name + ', us':>12}" for name in libraries) + " |")
    print(f"|{'-' * 36}|" + "|".join("-" * 14 for _ in libraries) + "|")
    sums = _sums(options.sums)
    cases = {**sums, **_products(options.sizes), **_factorisations(options.stacks), **_sorts(options.counts)}
    for case, (host, function) in cases.items():
        able = [name for name in libraries if name != _NATIVE or case in sums]
        ready = {name: _ready(name, host, function) for name in able}
        for run, _ in ready.values():
            run()
        rounds = [{name: measure() for name, (_, measure) in ready.items()} for _ in range(options.rounds)]
        results[case] = {name: statistics.median(each[name] for each in rounds) for name in able}
        cells = [f"{results[case][name]:12.1f}" if name in able else f"{'':12}" for name in libraries]
        print(f"| {case:34} | " + " | ".join(cells) + " |", flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0
