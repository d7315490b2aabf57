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
COLOURS = {"xferlib": "#14906a", "cupy": "#d1495b", "torch": "#c5862c", "pycuda": "#6f82b8", "numpy": INK}


def draw_transfers(figures: dict[str, Any], path: Path) -> None:
    """GB/s of `xferlib bench transfer` against size, one panel a kind of transfer."""
    results, machine = figures["results"], figures["machine"]
    cases = [case for case, count in Counter(each["case"] for each in results).items() if count > 2]
    rows = -(-len(cases) // 2)
    options = {"figsize": (11, 3.4 * rows), "squeeze": False, "sharex": True, "sharey": True}
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
    machine, options = figures["machine"], {"figsize": (11, 4.2), "sharey": True}
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


DRAWN: dict[str, Callable[[Any, Path], None]] = {
    "h200/transfer": draw_transfers,
    "h200/kernels": draw_kernels,
    "h200/overlap": draw_overlap,
    "h100/sweep": draw_sweep,
    "h200/sweep": draw_sweep,
}


def main() -> None:
    for name, draw in DRAWN.items():
        draw(json.loads((FOLDER / f"{name}.json").read_text()), FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
