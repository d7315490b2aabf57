"""The tables and the picture of `python -m benchmarks overlap`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.overlap_result import Figures, Loop
from xferlib._cli import bench as show
from xferlib._cli.bench import size_text
from xferlib._cli.main import aligned

_COLOURS = ("#14906a", "#57b865", "#9bc1bc", "#d1495b", "#c5862c", "#e0b675", "#8f6b2e")


def table(figures: Figures, machine: dict[str, Any]) -> None:
    """Print every figure; epochs as multiples of the longer of copying and computing."""
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
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
    print("\n".join(aligned(rows)))


def plot(figures: Figures, machine: dict[str, Any], path: Path) -> None:
    """Epochs of every loop beside the bound, one group of bars a kind of batch."""
    names = list(dict.fromkeys(name for loop in figures.loops for name in loop.epochs))
    width = 0.8 / len(names)
    with show.drawing(path, figsize=(13, 5), dpi=130) as (figure, axis):
        for number, name in enumerate(names):
            places = [index + number * width for index, loop in enumerate(figures.loops) if name in loop.epochs]
            heights = [loop.epochs[name] / loop.bound_s for loop in figures.loops if name in loop.epochs]
            axis.bar(places, heights, width, label=name, color=_COLOURS[number % len(_COLOURS)])
        axis.axhline(1.0, color=show.INK, linewidth=0.8, linestyle="--")
        labels = [f"{loop.case}\n{size_text(loop.nbytes)}" for loop in figures.loops]
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
