"""Draw the pictures of benchmark pages from the figures beside them.

python -m tools.benchmark_figures
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import kernels, overlap_show
from benchmarks.overlap_result import Figures, Loop, Map
from xferlib._cli import bench as show
from xferlib._cli import bench_sweep as sweep_show
from xferlib._cli.bench import TransferResult
from xferlib._cli.bench_sweep import CaseFigures

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
OURS, OTHERS, LIMIT = "#3f86d0", "#8b94a3", show.INK


def draw_transfers(figures: dict[str, Any], path: Path) -> None:
    """As `xferlib bench transfer --plot`."""
    show.transfer_plot([TransferResult(**each) for each in figures["results"]], figures["machine"], path)


def draw_sweep(figures: dict[str, Any], path: Path) -> None:
    """As `xferlib bench sweep --plot`."""
    sweep_show.plot([CaseFigures(**each) for each in figures["cases"]], figures["machine"], path)


def draw_kernels(figures: dict[str, Any], path: Path) -> None:
    """As `python -m benchmarks kernels --plot`."""
    results = [{name: value for name, value in each.items() if name != "run"} for each in figures["results"]]
    kernels.plot([kernels.KernelResult(**each) for each in results], figures["machine"], path)


def draw_overlap(figures: dict[str, Any], path: Path) -> None:
    """As `python -m benchmarks overlap --plot`."""
    loops, maps = [Loop(**each) for each in figures["loops"]], [Map(**each) for each in figures["maps"]]
    overlap_show.plot(Figures(loops, maps, figures["small_us"]), figures["machine"], path)


def draw_devices(figures: list[dict[str, Any]], path: Path) -> None:
    """GB/s against size, from one GPU to the other."""
    lines: dict[str, tuple[str, str, Callable[[str], bool]]] = {
        "the driver's copy: the limit": (LIMIT, "--", lambda way: way.startswith("driver, on the source")),
        "torch, CuPy": (OTHERS, "-", lambda way: way.startswith(("torch x.to", "torch y.copy_", "cupy array"))),
        "copy_to, between any two of three libraries": (OURS, "-", lambda way: way.endswith(" copy_to")),
        "copy_to through the host": (OURS, ":", lambda way: way.endswith("copy_to by host")),
    }
    sizes = sorted({each["nbytes"] for each in figures})
    with show.drawing(path, figsize=(9, 4), dpi=110) as (figure, axis):
        _lines(axis, figures, lines, sizes)
        axis.set(xscale="log", yscale="log", ylabel="GB/s", title="From one H100 to the other")
        axis.set_xticks(sizes, ["4 KiB", "1 MiB", "64 MiB", "1 GiB"])
        axis.legend(frameon=False)
        figure.tight_layout()


def _lines(axis: Any, figures: list[dict[str, Any]], lines: dict[str, Any], sizes: list[int]) -> None:
    for label, (colour, style, is_meant) in lines.items():
        speeds = [
            [each["best_gb_per_s"] for each in figures if each["nbytes"] == size and is_meant(each["way"])]
            for size in sizes
        ]
        axis.plot(sizes, [max(each) for each in speeds], style, color=colour, label=label)
        if len(speeds[0]) > 1:
            lowest, highest = ([pick(each) for each in speeds] for pick in (min, max))
            axis.fill_between(sizes, lowest, highest, color=colour, alpha=0.2)


def draw_races(figures: dict[str, Any], path: Path) -> None:
    """Of the waits that were deleted: those that each way of testing shows."""
    waits = [
        (program, wait, report)
        for program, each in figures["programs"].items()
        for wait, report in each["waits"].items()
    ]
    is_wrong = {
        name: [device["programs"][program]["wrong"][wait] for program, wait, _ in waits]
        for name, device in figures["devices"].items()
    }
    always = {name: sum(all(run) for run in runs) for name, runs in is_wrong.items()}
    once = {name: sum(any(run) for run in runs) for name, runs in is_wrong.items()}
    reported = sum(bool(report) and not report.startswith("nothing") for _, _, report in waits)
    names = ["the simulator", *(f"H200, {name}" for name in always)]
    with show.drawing(path, figsize=(9, 2.6), dpi=110) as (figure, axis):
        axis.barh(names, [len(waits)] * len(names), color=OTHERS, alpha=0.3, label="deleted")
        axis.barh(names, [reported, *once.values()], color="#f0b37e", label="a wrong result in some runs")
        bars = axis.barh(names, [reported, *always.values()], color=[OURS, *["#c8641e"] * len(always)])
        axis.bar_label(bars, [f"{reported} reported", *(f"{each} wrong in every run" for each in always.values())],
                       label_type="center", color="white", fontsize=9)  # fmt: skip
        axis.invert_yaxis()
        axis.set(xlabel="waits", title=f"{len(waits)} waits deleted, one at a time")
        figure.legend(loc="lower right", fontsize=8, frameon=False, ncols=2)
        figure.tight_layout()


DRAWN: dict[str, Callable[[Any, Path], None]] = {
    "h200/transfer": draw_transfers,
    "h200/kernels": draw_kernels,
    "h200/overlap": draw_overlap,
    "h200/races": draw_races,
    "h100/devices": draw_devices,
    "h100/sweep": draw_sweep,
    "h200/sweep": draw_sweep,
}


def main() -> None:
    for name, draw in DRAWN.items():
        draw(json.loads((FOLDER / f"{name}.json").read_text()), FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
