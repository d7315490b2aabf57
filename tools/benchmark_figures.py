"""Draw the pictures of benchmark pages from the figures beside them.

python -m tools.benchmark_figures
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import kernels, overlap
from benchmarks.pictures import INK, drawing
from xferlib._cli.bench import REGIMES, size_text

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
OURS, OTHERS, LIMIT = "#3f86d0", "#8b94a3", INK
COLOURS = {"xferlib": "#14906a", "cupy": "#d1495b", "torch": "#c5862c", "pycuda": "#6f82b8", "numpy": INK}


def draw_transfers(figures: dict[str, Any], path: Path) -> None:
    """GB/s of `xferlib bench transfer` against size, one panel a kind of transfer."""
    results, machine = figures["results"], figures["machine"]
    cases = [case for case, count in Counter(each["case"] for each in results).items() if count > 2]
    rows = -(-len(cases) // 2)
    options = {"figsize": (11, 3.4 * rows), "dpi": 130, "squeeze": False, "sharex": True, "sharey": True}
    with drawing(path, nrows=rows, ncols=2, **options) as (figure, axes):
        for axis, case in zip(axes.flat, cases, strict=False):
            members = [each for each in results if each["case"] == case]
            for name in dict.fromkeys(name for each in members for name in each["seconds"]):
                timed = [each for each in members if name in each["seconds"]]
                speeds = [each["nbytes"] / each["seconds"][name] / 1e9 for each in timed]
                width, colour = 2.2 if name.startswith("xferlib") else 1.2, COLOURS.get(name.split(" ")[0])
                sizes = [each["nbytes"] for each in timed]
                axis.plot(sizes, speeds, "o-", markersize=3, label=name, color=colour, linewidth=width)
            axis.set(xscale="log", yscale="log", title=case)
            axis.set_xscale("log", base=2)
            axis.xaxis.set_major_formatter(lambda nbytes, _: size_text(int(nbytes)))
            axis.grid(visible=True, which="major", linewidth=0.3)
        axes[0][0].legend(fontsize=8)
        figure.suptitle(f"{machine['device']}, {machine['cores']} cores: transfers", fontsize=12)
        figure.supylabel("GB/s")
        figure.tight_layout()


def draw_sweep(figures: dict[str, Any], path: Path) -> None:
    """The ratios of `xferlib bench sweep` against size, a panel for each regime; lines at 1, and 10 % below."""

    def ratio(ways: dict[str, dict[str, float]]) -> float:
        own, others = (
            min(min(each.values()) for name, each in ways.items() if name.startswith("xferlib") is is_own)
            for is_own in (True, False)
        )
        return others / own

    cases = [each for each in figures["cases"] if len(each["seconds"].get("hot", ())) > 1]
    groups = sorted({each.get("group", each["kind"]) for each in cases})
    machine, options = figures["machine"], {"figsize": (11, 4.2), "dpi": 130, "sharey": True}
    with drawing(path, ncols=len(REGIMES), **options) as (figure, axes):
        for axis, (regime, meaning) in zip(axes, REGIMES.items(), strict=True):
            for colour, group in zip(COLOURS.values(), groups, strict=False):
                members = [each for each in cases if each.get("group", each["kind"]) == group]
                sizes, ratios = (
                    [each["nbytes"] for each in members],
                    [ratio(each["seconds"][regime]) for each in members],
                )
                axis.scatter(sizes, ratios, s=12, color=colour, label=group, alpha=0.7)
            axis.axhline(1, color=INK, linewidth=1)
            axis.axhline(1 / 1.1, color=INK, linewidth=0.8, linestyle="--")
            axis.set(title=f"{regime}: {meaning}", xlabel="bytes")
            axis.set_xscale("log", base=2)
            axis.set_yscale("log", base=2)
            axis.xaxis.set_major_formatter(lambda nbytes, _: size_text(int(nbytes)))
            axis.yaxis.set_major_formatter(lambda ratio, _: f"{ratio:g}")
            axis.grid(visible=True, which="major", linewidth=0.3)
            axis.tick_params(axis="x", labelsize=8)  # so that sizes stand apart
        axes[0].set_ylabel("best peer's time over xferlib's")
        axes[0].legend(fontsize=8)
        figure.suptitle(f"{machine['device']}, {machine['cores']} cores, seed {machine['seed']}", fontsize=12)
        figure.tight_layout()


def draw_kernels(figures: dict[str, Any], path: Path) -> None:
    """As `python -m benchmarks kernels --plot`."""
    results = [{name: value for name, value in each.items() if name != "run"} for each in figures["results"]]
    kernels.plot([kernels.KernelResult(**each) for each in results], figures["machine"], path)


def draw_overlap(figures: dict[str, Any], path: Path) -> None:
    """As `python -m benchmarks overlap --plot`."""
    overlap.plot([overlap.Loop(**each) for each in figures["loops"]], figures["machine"], path)


def draw_devices(figures: list[dict[str, Any]], path: Path) -> None:
    """GB/s against size, from one GPU to the other."""
    lines: dict[str, tuple[str, str, Callable[[str], bool]]] = {
        "the driver's copy: the limit": (LIMIT, "--", lambda way: way.startswith("driver, on the source")),
        "torch, CuPy": (OTHERS, "-", lambda way: way.startswith(("torch x.to", "torch y.copy_", "cupy array"))),
        "copy_to, between any two of three libraries": (OURS, "-", lambda way: way.endswith(" copy_to")),
        "copy_to through the host": (OURS, ":", lambda way: way.endswith("copy_to by host")),
    }
    sizes = sorted({each["nbytes"] for each in figures})
    with drawing(path, figsize=(9, 4), dpi=110) as (figure, axis):
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
    with drawing(path, figsize=(9, 2.6), dpi=110) as (figure, axis):
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
