"""`xferlib bench transfer`: xferlib beside CuPy, PyTorch and PyCUDA, in one run, on the same data."""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib import metadata
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._cli.arguments import output_file, output_folder, parsed_size, picture_file, require
from xferlib._cli.bench import HostArray, Peer, Run, TransferResult, Xferlib, present, size_text
from xferlib._runtime import threads as thread_budget

_GIB = 1 << 30
_SEED = 20260501
_PARTS = 4


Maker = Callable[[Peer], Run | None]
Kind = Callable[[Peer, HostArray, HostArray], Run | None]
_UP_INTO: Kind = lambda peer, source, _: peer.up_into(source)
_DOWN_INTO: Kind = lambda peer, source, out: peer.down_into(source, out)
_PAGEABLE: dict[str, Kind] = {
    "pageable to new device array": lambda peer, source, _: peer.up_new(source),
    "pageable to existing device array": _UP_INTO,
    "device to new host array": lambda peer, source, _: peer.down_new(source),
    "device to existing host array": _DOWN_INTO,
}


def _cases(largest: int, is_gpu: bool, backend: str) -> Iterator[tuple[str, int, Maker]]:
    """Name, bytes, and what makes a library's run; built one by one, because each holds up to 1 GiB."""
    rng = np.random.default_rng(_SEED)
    big = rng.integers(0, 1 << 32, largest // 4, dtype=np.uint32).view(np.float32)
    np.nan_to_num(big, copy=False, nan=1.0, posinf=2.0, neginf=-2.0)
    out = np.zeros_like(big)
    sizes = [size for size in (1 << power for power in range(10, 31, 2)) if size <= largest]
    for case, kind in _PAGEABLE.items():
        for size in sizes:
            yield case, size, _in_turn(kind, size, big, out)
    if is_gpu:
        yield (
            "device to new host array, nothing recycled",
            big.nbytes,
            lambda peer: peer.down_unrecycled(big) if isinstance(peer, Xferlib) else peer.down_new(big),
        )
        pinned = xl.pinned_array(big, backend=backend)
        for size in sizes:
            yield "pinned to existing device array", size, _in_turn(_UP_INTO, size, pinned, pinned)
        for size in sizes:
            yield "device to pinned host array", size, _in_turn(_DOWN_INTO, size, big, pinned)
        del pinned
        xl.trim()
    side = int((largest // 4) ** 0.5)
    square = big[: side * side].reshape(side, side)
    yield "transposed", square.nbytes, lambda peer: peer.up_new(square.T)
    yield "every second row", square.nbytes // 2, lambda peer: peer.up_new(square[::2])
    yield "every second column", square.nbytes // 2, lambda peer: peer.up_new(square[:, ::2])
    wide = big[: largest // 8].astype(np.float64)
    yield "float64 to float32, of source", wide.nbytes, lambda peer: peer.up_converted(wide, "float32")
    leaves = [big[start : start + 1024].copy() for start in range(0, 1024 * min(1000, big.size // 1024), 1024)]
    yield f"tree of {len(leaves)} arrays of 4 KiB", 4096 * len(leaves), lambda peer: peer.up_tree(leaves)
    if is_gpu:
        half = largest // 8
        both = big[:half], out[:half]
        yield (
            "both ways at once, each way",
            both[0].nbytes,
            lambda peer: peer.both_ways(*both) if isinstance(peer, Xferlib) else None,
        )


def _in_turn(kind: Kind, nbytes: int, source: HostArray, out: HostArray) -> Maker:
    """Transfers of one part of ``source`` after the other: four of them, or one that no cache holds anyway."""
    size = nbytes // 4
    starts = range(0, min(_PARTS * size, source.size - size + 1), size)
    parts = [slice(start, start + size) for start in starts]

    def make(peer: Peer) -> Run | None:
        runs = [run for each in parts if (run := kind(peer, source[each], out[each])) is not None]
        turn = itertools.cycle(runs)
        return (lambda: next(turn)()) if runs else None  # noqa: PLW0108 - another one at each call

    return make


def _measure(runs: dict[str, Run], nbytes: int) -> tuple[dict[str, float], dict[str, float]]:
    """Median seconds of each library, in a loop and for the first transfer after the others' turns.

    In every round each library has one turn: a first run, a few uncounted ones, then the counted ones.
    """
    rounds, warm, inner = (2, 3, 4) if nbytes >= 64 << 20 else (5, 3, 5) if nbytes >= 1 << 20 else (7, 5, 30)
    loops: dict[str, list[float]] = {name: [] for name in runs}
    firsts: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            kept = None
            for count in range(1 + warm + inner):
                start = time.perf_counter()
                kept = run()
                elapsed = time.perf_counter() - start
                if not count:
                    firsts[name].append(elapsed)
                elif count > warm:
                    loops[name].append(elapsed)
            del kept
    return {k: statistics.median(v) for k, v in loops.items()}, {k: statistics.median(v) for k, v in firsts.items()}


def measure(backend: str, largest: int, report: Callable[[str], None]) -> tuple[list[TransferResult], dict[str, str]]:
    """Every case on every library here."""
    peers, absent = present()
    subject: Any = Xferlib(backend)
    is_gpu = xl.get_device(backend).kind == "cuda"
    results = []
    for case, nbytes, make in _cases(largest, is_gpu, backend):
        report(f"{case}, {size_text(nbytes)}")
        runs = {peer.name: run for peer in (subject, *peers) if (run := make(peer)) is not None}
        results.append(TransferResult(case, nbytes, *_measure(runs, nbytes)))
        del runs
    return results, absent


def machine(backend: str) -> dict[str, Any]:
    """Return the machine and the versions that figures belong to."""
    versions = {}
    for name in ("numpy", "torch", "pycuda", "cuda-core", "cuda-bindings"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if "cupy" in sys.modules:
        versions["cupy"] = sys.modules["cupy"].__version__
    return {
        "device": xl.get_device(backend).properties.name,
        "cores": thread_budget.usable_cores(),
        "staging threads": thread_budget.crew().each_way,
        "python": platform.python_version(),
        "xferlib": xl.__version__,
        **versions,
    }


def main(argv: list[str] | None = None) -> int:
    """Measure, print a table, write JSON and a picture."""
    options = parser().parse_args(argv)
    if options.plot is not None or options.out is not None:
        require("matplotlib", "--plot", extra="bench")  # before anything is measured
    from xferlib._cli import bench as show

    backend = options.backend or xl.get_backend().name
    is_gpu = xl.get_device(backend).kind == "cuda"
    largest = options.largest or (_GIB if is_gpu else 64 << 20)
    if options.out is not None:
        options.json, options.plot = options.out / "transfer.json", options.out / "transfer.png"
    with show.progress("measuring transfers") as report:
        results, absent = measure(backend, largest, report)
    here = machine(backend)
    show.transfer_table(results, here, absent)
    if options.json is not None:
        figures = {"machine": here, "absent": absent, "results": [asdict(result) for result in results]}
        options.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    if options.plot is not None:
        show.transfer_plot(results, here, options.plot)
    return 0


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(prog="xferlib bench transfer", description=__doc__)
    made.add_argument("--backend", help="backend that xferlib uses (default: the current one)")
    made.add_argument("--largest", type=parsed_size, help="largest one, e.g. 64MiB (default: 1GiB; 64MiB on a CPU)")
    made.add_argument("--json", type=output_file, metavar="FILE", help="write the figures to this file")
    made.add_argument("--plot", type=picture_file, metavar="FILE", help="draw GB/s against size (needs matplotlib)")
    made.add_argument("--out", type=output_folder, metavar="DIR", help="a folder for transfer.json and transfer.png")
    return made
