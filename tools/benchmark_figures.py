"""Draw the pictures of benchmark pages that no benchmark draws itself, from the figures beside them.

python -m tools.benchmark_figures
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
OURS, OTHERS, LIMIT = "#2a6bb0", "#8b94a3", "#1d1d1d"


def devices(figures: list[dict[str, Any]]) -> Any:
    """GB/s against size, from one GPU to the other."""
    lines: dict[str, tuple[str, str, Callable[[str], bool]]] = {
        "the driver's copy: the limit": (LIMIT, "--", lambda way: way.startswith("driver, on the source")),
        "torch, CuPy": (OTHERS, "-", lambda way: way.startswith(("torch x.to", "torch y.copy_", "cupy array"))),
        "copy_to, between any two of three libraries": (OURS, "-", lambda way: way.endswith(" copy_to")),
        "copy_to through the host": (OURS, ":", lambda way: way.endswith("copy_to by host")),
    }
    figure, axis = plt.subplots(figsize=(9, 4))
    sizes = sorted({each["nbytes"] for each in figures})
    for label, (colour, style, is_meant) in lines.items():
        speeds = [
            [each["best_gb_per_s"] for each in figures if each["nbytes"] == size and is_meant(each["way"])]
            for size in sizes
        ]
        axis.plot(sizes, [max(each) for each in speeds], style, color=colour, label=label)
        if len(speeds[0]) > 1:
            lowest, highest = ([pick(each) for each in speeds] for pick in (min, max))
            axis.fill_between(sizes, lowest, highest, color=colour, alpha=0.2)
    axis.set(xscale="log", yscale="log", ylabel="GB/s", title="From one H100 to the other")
    axis.set_xticks(sizes, ["4 KiB", "1 MiB", "64 MiB", "1 GiB"])
    axis.legend(frameon=False)
    return figure


def races(figures: dict[str, Any]) -> Any:
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
    figure, axis = plt.subplots(figsize=(9, 2.6))
    axis.barh(names, [len(waits)] * len(names), color="#e6e8eb", label="deleted")
    axis.barh(names, [reported, *once.values()], color="#f0b37e", label="a wrong result in some runs")
    bars = axis.barh(names, [reported, *always.values()], color=[OURS, *["#c8641e"] * len(always)])
    axis.bar_label(bars, [f"{reported} reported", *(f"{each} wrong in every run" for each in always.values())],
                   label_type="center", color="white", fontsize=9)  # fmt: skip
    axis.invert_yaxis()
    axis.set(xlabel="waits", title=f"{len(waits)} waits deleted, one at a time")
    figure.legend(loc="lower right", fontsize=8, frameon=False, ncols=2)
    return figure


def main() -> None:
    for name, draw in (("h100/devices", devices), ("h200/races", races)):
        figure = draw(json.loads((FOLDER / f"{name}.json").read_text()))
        figure.tight_layout()
        figure.savefig(FOLDER / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
