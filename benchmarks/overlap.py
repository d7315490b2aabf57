"""`python -m benchmarks overlap`: loops with and without `prefetch`, beside CuPy and PyTorch, and `stream_map`."""

from __future__ import annotations

import argparse
import functools
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from benchmarks.overlap_loops import HostArray, XferlibLoop, compute_on, peers, summed
from benchmarks.pictures import INK, drawing
from xferlib._cli.bench import describe_machine, print_heading, size_text
from xferlib._cli.main import align, output_file, parse_size, progress, require

_GIB = 1 << 30
_MIB = 1 << 20
_LEAST_BATCHES = 48
_ROW = 1024
"""float32 values of a row of a batch."""


@dataclass(slots=True)
class Loop:
    """Epochs of one kind of batch; the computing of a batch takes as long as its copy."""

    case: str
    nbytes: int
    """Bytes of a batch."""
    batches: int
    copy_s: float
    """Seconds of an epoch of `prefetch` alone, without computing."""
    compute_s: float
    """Seconds of an epoch of computing alone."""
    epochs: dict[str, float] = field(default_factory=dict)
    """Median seconds of an epoch by library and kind of loop."""

    @property
    def bound_s(self) -> float:
        return max(self.copy_s, self.compute_s)


@dataclass(slots=True)
class Map:
    """One `stream_map`."""

    case: str
    nbytes: int
    """Bytes read, and as many written."""
    seconds: float
    bound_s: float
    """Seconds for the same bytes at the speed of the link, or of the disk."""
    bound: str


@dataclass(slots=True)
class Figures:
    """All that `python -m benchmarks overlap` measures."""

    loops: list[Loop] = field(default_factory=list)
    maps: list[Map] = field(default_factory=list)
    small_us: dict[str, float] = field(default_factory=dict)
    """Microseconds for each batch of 64 KiB."""


# --- loops


def _median(run: Callable[[], Any], rounds: int) -> float:
    run()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _batches(kind: str, base: HostArray, nbytes: int, count: int, backend: str) -> list[HostArray]:
    """``count`` batches, parts of ``base`` in turn: at least four, and 512 MiB of them, which no cache holds."""
    rows, parts = nbytes // 4 // _ROW, []
    flat = base.reshape(-1, 2 * _ROW)[:, ::2] if kind == "strided" else base.reshape(-1, _ROW)
    for low in range(0, min(len(flat) - rows + 1, max(4, 512 * _MIB // nbytes) * rows), rows):
        part = flat[low : low + rows]
        parts.append(xl.pinned_array(part, backend=backend) if kind == "pinned" else part)
    return [parts[number % len(parts)] for number in range(count)]


def _loop(kind: str, base: HostArray, nbytes: int, count: int, place: xl.Device, rounds: int) -> Loop:
    subject = XferlibLoop(place)
    batches = _batches(kind, base, nbytes, count, place.backend)
    compute = compute_on(place, nbytes // 4)
    copy_s = _median(lambda: subject.prefetched(batches, lambda batch: None), rounds)
    compute.take(copy_s / count)
    loop = Loop(kind, nbytes, count, copy_s, compute.seconds(count) * count)
    ways: dict[str, Callable[[], Any]] = {
        f"{subject.name}, list": lambda: subject.prefetched(batches, compute),
        f"{subject.name}, generator": lambda: subject.prefetched(iter(batches), compute),
        f"{subject.name}, no prefetch": lambda: subject.in_turn(batches, compute),
    }
    sums = [compute]
    if place.kind != "cpu":
        for peer in peers(is_pinned=kind == "pinned"):
            other = compute_on(peer.place, nbytes // 4)
            other.rounds = compute.rounds
            ways[peer.name] = functools.partial(peer.prefetched, batches, other, is_pinned=kind == "pinned")
            sums.append(other)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):  # in turns
        for name, run in ways.items():
            if number and "workers" in name:  # takes ten times as long as all others together
                continue
            run()  # in a training loop an epoch follows its like: threads are awake then, and cores at speed
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    expected = summed(batches)
    for each in sums:
        each.check(expected)
    loop.epochs = {name: statistics.median(found) for name, found in times.items()}
    return loop


def _loops(place: xl.Device, largest: int, is_quick: bool) -> Iterator[Callable[[], Loop]]:
    base = np.ones(largest // 4, np.float32)
    base[:: _ROW // 2] = np.arange(base[:: _ROW // 2].size) % 7  # values that tell batches apart, exact in any sum
    sizes = [size for size in (_MIB, 16 * _MIB, 64 * _MIB, 256 * _MIB) if 4 * size <= largest]
    middle = sizes[-2] if len(sizes) > 1 else sizes[0]
    cases = [("contiguous", size) for size in sizes]
    cases += [("strided", middle), *(("pinned", size) for size in sizes)]
    for kind, size in cases:
        count = max(_LEAST_BATCHES, min(256, 3 * largest // size))  # the first copy overlaps nothing: 2 % of 48
        yield functools.partial(_loop, kind, base, size, count, place, 1 if is_quick else 3)


def _small(place: xl.Device) -> dict[str, float]:
    """Microseconds that each batch of 64 KiB costs beyond the loop itself."""
    count = 2000
    batches = list(np.ones((count, 16384), np.float32))
    subject, compute = XferlibLoop(place), compute_on(place, 16384)
    held = xl.to_device(batches[0], device=place)

    def alone() -> None:
        for _ in batches:
            compute(held)
        place.synchronize()

    kernel = _median(alone, 5)
    found = {}
    for name, given in (("list", list), ("generator", iter)):
        with_kernel = _median(lambda given=given: subject.prefetched(given(batches), compute), 5)  # type: ignore[misc]
        copies = _median(lambda given=given: subject.prefetched(given(batches), lambda batch: None), 5)  # type: ignore[misc]
        found[f"{name}, beside a kernel"] = (with_kernel - kernel) / count * 1e6
        found[f"{name}, copies alone"] = copies / count * 1e6
    return found


# --- stream_map


def _duplex_s(place: xl.Device, nbytes: int) -> float:
    """Measure the link: the seconds for ``nbytes`` in both directions at once, between pinned memory and the device."""
    part = 256 * _MIB
    up, down = (xl.pinned_zeros(part, "uint8", backend=place.backend) for _ in range(2))
    there, back = xl.zeros(part, "uint8", device=place), xl.zeros(part, "uint8", device=place)
    streams = xl.Stream(place), xl.Stream(place)
    place.synchronize()

    def run() -> None:
        for _ in range(8):
            xl.to_device_async(up, out=there, stream=streams[0])
            xl.to_host_async(back, out=down, stream=streams[1])
        place.synchronize()

    return _median(run, 3) / 8 / part * nbytes


def _maps(places: list[xl.Device], nbytes: int) -> Iterator[Callable[[], Map]]:
    place = places[0]
    rows, width = nbytes // (4 * _MIB), _MIB
    chunk_rows = max(1, min(64, rows // 8))
    link_s = _duplex_s(place, nbytes) / len(places) if place.kind != "cpu" else 0.0
    with xl.use_backend(place.backend):
        double = xl.elementwise("float32 x", "float32 y", "y = x + x", name="bench_double")
    source, out = np.ones((rows, width), np.float32), np.ones((rows, width), np.float32)

    def mapped(case: str, devices: list[xl.Device], bound_s: float, bound: str) -> Map:
        seconds = _median(lambda: xl.stream_map(double, source, chunk_rows=chunk_rows, out=out, devices=devices), 2)
        assert (out[:: max(1, rows // 64), ::4096] == 2).all()
        return Map(case, nbytes, seconds, bound_s or seconds, bound)

    def pinned() -> Map:
        with xl.pin(source, backend=place.backend), xl.pin(out, backend=place.backend):
            return mapped("pinned to pinned", places, link_s, "link, both ways")

    yield lambda: mapped("array to array", places, link_s, "link, both ways")
    if place.kind != "cpu":
        yield pinned
    if len(places) > 1:
        yield lambda: mapped("array to array, one device", places[:1], link_s * len(places), "link, both ways")


# --- tables and a picture

_COLOURS = ("#14906a", "#57b865", "#9bc1bc", "#d1495b", "#c5862c", "#e0b675", "#8f6b2e")


def table(figures: Figures, machine: dict[str, Any]) -> None:
    """Print every figure; epochs as multiples of the longer of copying and computing."""
    print_heading(machine, {})
    names = list(dict.fromkeys(name for loop in figures.loops for name in loop.epochs))
    header = ["batches", "size", "copy GB/s", "compute / copy", *names]
    _print([header, *(_row(loop, names) for loop in figures.loops)])
    print()
    _print([["64 KiB batches", "us a batch"], *([name, f"{us:.1f}"] for name, us in figures.small_us.items())])
    print()
    rows = [
        [
            each.case, size_text(each.nbytes), f"{each.seconds:.2f} s", f"{each.nbytes / each.seconds / 1e9:.1f} GB/s",
            f"{each.bound_s / each.seconds:.2f} of the {each.bound}",
        ]
        for each in figures.maps
    ]  # fmt: skip
    _print([["stream_map", "size", "time", "each way", "share"], *rows])


def _row(loop: Loop, names: list[str]) -> list[str]:
    speed = loop.nbytes * loop.batches / loop.copy_s / 1e9
    epochs = [f"{loop.epochs[name] / loop.bound_s:.2f}" if name in loop.epochs else "-" for name in names]
    return [loop.case, size_text(loop.nbytes), f"{speed:.1f}", f"{loop.compute_s / loop.copy_s:.2f}", *epochs]


def _print(rows: list[list[str]]) -> None:
    print("\n".join(align(rows)))


def plot(loops: list[Loop], machine: dict[str, Any], path: Path) -> None:
    """Epochs of every loop beside the bound, one group of bars a kind of batch."""
    names = list(dict.fromkeys(name for loop in loops for name in loop.epochs))
    width = 0.8 / len(names)
    with drawing(path, figsize=(13, 5)) as (figure, axis):
        for number, name in enumerate(names):
            places = [index + number * width for index, loop in enumerate(loops) if name in loop.epochs]
            heights = [loop.epochs[name] / loop.bound_s for loop in loops if name in loop.epochs]
            axis.bar(places, heights, width, label=name, color=_COLOURS[number % len(_COLOURS)])
        axis.axhline(1.0, color=INK, linewidth=0.8, linestyle="--")
        labels = [f"{loop.case}\n{size_text(loop.nbytes)}" for loop in loops]
        axis.set_xticks([index + 0.4 - width / 2 for index in range(len(labels))], labels)
        axis.set_ylabel("epoch / max(copy, compute)")
        axis.set_yscale("log")
        ticks = [1, 1.5, 2, 3, 5, 8]
        axis.set_yticks(ticks, [str(tick) for tick in ticks])
        axis.minorticks_off()
        axis.grid(visible=True, axis="y", linewidth=0.3)
        axis.legend(fontsize=8, ncols=2)
        axis.set_title(
            f"{machine['device']}, {machine['cores']} cores: loops whose batches take as long to copy as to compute"
        )
        figure.tight_layout()


# --- the command


def measure(
    places: list[xl.Device], largest: int, mapped: int, report: Callable[[str], None], *,
    is_quick: bool,
) -> Figures:  # fmt: skip
    """Every case."""
    figures = Figures()
    for run in _loops(places[0], largest, is_quick):
        figures.loops.append(run())
        report(f"{figures.loops[-1].case}, {size_text(figures.loops[-1].nbytes)}")
        gc.collect()
        xl.trim()
    report("small batches")
    figures.small_us = _small(places[0])
    for work in _maps(places, mapped):
        figures.maps.append(work())
        report(f"stream_map, {figures.maps[-1].case}")
    return figures


def main(argv: list[str] | None = None) -> int:
    """Measure, print tables, write JSON and a picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks overlap", description=__doc__)
    parser.add_argument("--backend", help="backend that xferlib uses (default: the current one)")
    parser.add_argument("--devices", type=int, default=1, help="devices that stream_map uses (default: 1)")
    parser.add_argument("--largest", type=parse_size, help="memory that batches are cut from (1GiB; 64MiB on a CPU)")
    parser.add_argument("--map", type=parse_size, help="bytes that stream_map reads (default: 16GiB; 256MiB on a CPU)")
    parser.add_argument("--quick", action="store_true", help="one round of every loop")
    parser.add_argument("--json", type=output_file, help="write the figures to this file")
    parser.add_argument("--plot", type=output_file, help="draw the loops to this file (needs matplotlib)")
    options = parser.parse_args(argv)
    if options.plot is not None:
        require("matplotlib", "--plot", extra="bench")  # before anything is measured
    from xferlib._core import registry

    backend = options.backend or xl.get_backend().name
    kind = xl.get_device(backend).kind
    places = [each for each in registry.get(backend).devices() if each.kind == kind][: options.devices]
    is_gpu = kind == "cuda"
    largest = options.largest or (_GIB if is_gpu else 64 * _MIB)
    mapped = options.map or (16 * _GIB if is_gpu else 256 * _MIB)
    with progress("measuring overlap") as report:
        figures = measure(places, largest, mapped, report, is_quick=options.quick)
    found = describe_machine(backend)
    table(figures, found)
    if options.json is not None:
        options.json.write_text(json.dumps({"machine": found, **asdict(figures)}, indent=1), encoding="utf-8")
    if options.plot is not None:
        plot(figures.loops, found, options.plot)
    return 0
