"""`python -m benchmarks launches`: what it costs to launch raw kernels and graphs, beside the other libraries' own.

    raw           one kernel of CUDA source with two arrays and two numbers, on 16 elements
    raw, streams  the same where xferlib has made a stream, and keeps arrays until each that uses them is done
    raw, stream   the same with the stream named in the call
    graph of N    N such kernels captured once, enqueued by one call
    N calls       the same kernels without a graph

Each way has two figures, in microseconds: `call`, the time until a call returns, of many in a row; and `done`, the time
of one call and of waiting for its work. All ways of a case take turns, and the figure is the median of the turns.
Without a GPU the simulated accelerator shows that every way runs, and nothing about speed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from benchmarks import kernel_peers

Way = tuple[Callable[[], Any], Callable[[], Any]]
"""A launch, and how to wait for it."""

_COUNT = 16
_CALLS = 200
_WAITED = 50
_SOURCE = """extern "C" __global__ void scale(const float *x, float *y, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
}"""


def _on_host(x: Any, y: Any, factor: float, count: int) -> None:
    y[:count] = x[:count] * factor


def _kernel_and_arrays(device: xl.Device) -> tuple[Any, Any, Any]:
    kernel = xl.raw_module(_SOURCE).get_function("scale", cpu=_on_host)
    x = xl.to_device(np.ones(_COUNT, np.float32), device=device)
    return kernel, x, xl.empty_like(x)


def own_ways(name: str, length: int) -> dict[str, dict[str, Way]]:
    """xferlib's ways on the arrays of one library, by case, in a program that makes no stream."""
    device = xl.get_device(name)
    kernel, x, y = _kernel_and_arrays(device)

    def launch() -> None:
        kernel((1,), (_COUNT,), (x, y, 2.0, _COUNT))

    def launch_all() -> None:
        for _ in range(length):
            launch()

    return {
        "raw": {f"xferlib, {name}": (launch, device.synchronize)},
        f"{length} calls": {f"xferlib, {name}": (launch_all, device.synchronize)},
    }


def own_ways_of_streams(name: str, length: int) -> dict[str, dict[str, Way]]:
    """The same with a stream: xferlib then keeps each array until the streams that use it have done so."""
    device = xl.get_device(name)
    stream = xl.Stream(device=device)
    with stream:
        kernel, x, y = _kernel_and_arrays(device)

    def launch() -> None:
        kernel((1,), (_COUNT,), (x, y, 2.0, _COUNT))

    def launch_on_stream() -> None:
        kernel((1,), (_COUNT,), (x, y, 2.0, _COUNT), stream=stream)

    launch_on_stream()
    with stream.capture() as graph:
        for _ in range(length):
            launch()
    device.synchronize()
    return {
        "raw, streams": {f"xferlib, {name}": (launch, device.synchronize)},
        "raw, stream": {f"xferlib, {name}": (launch_on_stream, stream.synchronize)},
        f"graph of {length}": {f"xferlib, {name}": (graph.launch, stream.synchronize)},
    }


def cupy_ways(cupy: Any, length: int) -> dict[str, dict[str, Way]]:
    """CuPy's `RawKernel` and its graphs."""
    kernel = cupy.RawKernel(_SOURCE, "scale")
    stream = cupy.cuda.Stream(non_blocking=True)
    x = cupy.ones(_COUNT, np.float32)
    y = cupy.empty_like(x)
    cupy.cuda.get_current_stream().synchronize()
    factor, count = np.float32(2), np.int32(_COUNT)

    def launch() -> None:
        kernel((1,), (_COUNT,), (x, y, factor, count))

    def launch_on_stream() -> None:
        with stream:
            launch()

    def launch_all() -> None:
        for _ in range(length):
            launch()

    wait = cupy.cuda.get_current_stream().synchronize
    launch_on_stream()
    with stream:
        stream.begin_capture()
        launch_all()
        graph = stream.end_capture()
    return {
        "raw": {"CuPy": (launch, wait)},
        "raw, stream": {"CuPy": (launch_on_stream, stream.synchronize)},
        f"graph of {length}": {"CuPy": (lambda: graph.launch(stream), stream.synchronize)},
        f"{length} calls": {"CuPy": (launch_all, wait)},
    }


def pycuda_ways(gpuarray: Any, length: int) -> dict[str, dict[str, Way]]:
    """PyCUDA's prepared calls."""
    import pycuda.autoprimaryctx  # noqa: F401 - which makes a context current
    import pycuda.driver as driver
    from pycuda.compiler import SourceModule

    kernel = SourceModule(_SOURCE, no_extern_c=True).get_function("scale")
    kernel.prepare("PPfi")
    stream = driver.Stream()
    x = gpuarray.to_gpu(np.ones(_COUNT, np.float32))
    y = gpuarray.empty_like(x)
    from_x, to_y, grid, block = x.gpudata, y.gpudata, (1, 1), (_COUNT, 1, 1)

    def launch() -> None:
        kernel.prepared_call(grid, block, from_x, to_y, 2.0, _COUNT)

    def launch_all() -> None:
        for _ in range(length):
            launch()

    return {
        "raw": {"PyCUDA": (launch, driver.Context.synchronize)},
        "raw, stream": {
            "PyCUDA": (
                lambda: kernel.prepared_async_call(grid, block, stream, from_x, to_y, 2.0, _COUNT),
                stream.synchronize,
            )
        },
        f"{length} calls": {"PyCUDA": (launch_all, driver.Context.synchronize)},
    }


def torch_ways(torch: Any, length: int) -> dict[str, dict[str, Way]]:
    """The graphs of PyTorch, whose kernel is a multiplication into a given output."""
    x = torch.ones(_COUNT, device="cuda")
    y = torch.empty_like(x)

    def launch_all() -> None:
        for _ in range(length):
            torch.mul(x, 2.0, out=y)

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch_all()
    return {
        f"graph of {length}": {"torch": (graph.replay, torch.cuda.synchronize)},
        f"{length} calls": {"torch, mul": (launch_all, torch.cuda.synchronize)},
    }


_PEERS = {"cupy": cupy_ways, "pycuda.gpuarray": pycuda_ways, "torch": torch_ways}


def measured(ways: dict[str, Way], rounds: int) -> dict[str, dict[str, float]]:
    """Microseconds of a call, and of a call with its work, for each way."""
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in ways}
    for turn in range(rounds + 1):  # the first one warms up
        for name, (launch, wait) in ways.items():
            wait()
            begun = time.perf_counter()
            for _ in range(_CALLS):
                launch()
            call = (time.perf_counter() - begun) / _CALLS
            wait()
            begun = time.perf_counter()
            for _ in range(_WAITED):
                launch()
                wait()
            done = (time.perf_counter() - begun) / _WAITED
            if turn:
                found[name][0].append(call * 1e6)
                found[name][1].append(done * 1e6)
    return {
        name: {"call": statistics.median(calls), "done": statistics.median(dones)}
        for name, (calls, dones) in found.items()
    }


def _cases(length: int) -> Iterator[dict[str, dict[str, Way]]]:
    """Every case with the ways of each library that is here, or of the simulator where there is no GPU.

    In two parts: measure those of programs that have made no stream before the second part makes some.
    """
    status = xl.available_backends()
    found = [name for name in ("cupy", "torch", "pycuda") if any("cuda" in each for each in status[name].devices)]
    names = found or ["sim"]
    modules = kernel_peers.load(tuple(_PEERS))[0] if found else {}
    theirs = _merged(_PEERS[name](module, length) for name, module in modules.items())
    own = _merged(own_ways(name, length) for name in names)
    yield {case: {**ways, **theirs.pop(case, {})} for case, ways in own.items()}
    own = _merged(own_ways_of_streams(name, length) for name in names)
    yield {case: {**ways, **theirs.pop(case, {})} for case, ways in own.items()}


def _merged(parts: Iterable[dict[str, dict[str, Way]]]) -> dict[str, dict[str, Way]]:
    cases: dict[str, dict[str, Way]] = {}
    for part in parts:
        for case, ways in part.items():
            cases.setdefault(case, {}).update(ways)
    return cases


def main(argv: list[str]) -> int:
    """Measure every case, and print a line for each way."""
    parser = argparse.ArgumentParser(
        prog="benchmarks launches", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--length", type=int, default=20, help="kernels of a graph")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(argv)
    results: dict[str, dict[str, dict[str, float]]] = {}
    for cases in _cases(options.length):
        for case, ways in cases.items():
            results[case] = measured(ways, options.rounds)
            for name, each in results[case].items():
                print(f"{case:14} {name:18} call {each['call']:8.2f} us   done {each['done']:8.2f} us")
            sys.stdout.flush()
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0
