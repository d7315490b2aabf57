"""Tables, progress and pictures of benchmarks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xferlib._cli.bench.result import TransferResult, size_text
from xferlib._cli.columns import aligned

INK = "#7f7f7f"
ON_BOTH = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "legend.facecolor"), "none"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    "grid.color": INK, "grid.alpha": 0.4, "legend.edgecolor": INK,
}  # fmt: skip
"""Settings of matplotlib for pictures without a background: on a white page and on a dark one the contrast is 4."""
_COLOURS = {"xferlib": "#14906a", "cupy": "#d1495b", "torch": "#c5862c", "pycuda": "#6f82b8", "numpy": INK}


@contextmanager
def progress(what: str) -> Iterator[Callable[[str], None]]:
    """Show the current step in one line, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda text: None
        return

    def report(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{what}: {text}")
        sys.stderr.flush()

    try:
        yield report
    finally:
        sys.stderr.write("\r\x1b[K")


def heading(machine: dict[str, Any], absent: dict[str, str]) -> None:
    """Print what was measured, and which libraries are missing."""
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    for name, reason in absent.items():
        print(f"{name}: absent ({reason})")


@contextmanager
def drawing(path: Path, **options: Any) -> Iterator[tuple[Any, Any]]:
    """Give a figure and its axes to draw on, for light pages and dark ones, and write it to a file.

    Args:
        path: To write.
        options: For ``subplots``.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with mpl.rc_context(ON_BOTH):
        figure, axes = plt.subplots(**options)
        try:
            yield figure, axes
            figure.savefig(path)
        finally:
            plt.close(figure)


@contextmanager
def picture(path: Path, title: str, panels: tuple[int, int], panel_height: float, **options: Any) -> Iterator[Any]:
    """Give rows of axes to draw on, and write them to a file.

    Args:
        path: To write.
        title: Over all panels.
        panels: Rows and columns.
        panel_height: In inches.
        options: For ``subplots``.
    """
    rows, columns = panels
    size = (11, panel_height * rows)
    with drawing(path, nrows=rows, ncols=columns, figsize=size, dpi=130, squeeze=False, **options) as (figure, axes):
        yield axes
        axes[0][0].legend(fontsize=8)
        figure.suptitle(title, fontsize=12)
        figure.tight_layout()


def transfer_table(results: list[TransferResult], machine: dict[str, Any], absent: dict[str, str]) -> None:
    """Print GB/s of every case and library, microseconds where that says more, and the ratio to the best peer."""
    libraries = list(dict.fromkeys(name for result in results for name in result.seconds))
    heading(machine, absent)
    header = ["case", "size", *libraries, "xferlib / best peer", "first transfer"]
    rows = [_row(result, libraries) for result in results]
    for row, before in zip(rows[:0:-1], rows[-2::-1], strict=True):
        row[0] = "" if row[0] == before[0] else row[0]
    print("\n".join(aligned([header, *rows])))


def _row(result: TransferResult, libraries: list[str]) -> list[str]:
    def cell(name: str) -> str:
        if name not in result.seconds:
            return "-"
        if result.nbytes < 1 << 18:
            return f"{result.seconds[name] * 1e6:.1f} us"
        return f"{result.gb_per_s(name):.2f} GB/s"

    subject = next(name for name in result.seconds if name.startswith("xferlib"))

    def ratio(seconds: dict[str, float]) -> str:
        peers = [value for name, value in seconds.items() if name != subject]
        return f"{min(peers) / seconds[subject]:.2f}" if peers else "-"

    ratios = [ratio(result.seconds), ratio(result.first_seconds)]
    return [result.case, size_text(result.nbytes), *(cell(name) for name in libraries), *ratios]


def transfer_plot(results: list[TransferResult], machine: dict[str, Any], path: Path) -> None:
    """GB/s against size, one panel a kind of transfer, log axes, the link as a line."""
    cases = list(dict.fromkeys(result.case for result in results))
    curves = [case for case in cases if sum(result.case == case for result in results) > 2]
    pinned = [result for result in results if "pinned" in result.case]
    link = max((result.gb_per_s(name) for result in pinned for name in result.seconds), default=None)
    title = f"{machine['device']}, {machine['cores']} cores: transfers"
    with picture(path, title, (-(-len(curves) // 2), 2), 3.4, sharex=True, sharey=True) as axes:
        for axis, case in zip(axes.flat, curves, strict=False):
            members = [result for result in results if result.case == case]
            for name in dict.fromkeys(name for result in members for name in result.seconds):
                points = [(result.nbytes, result.gb_per_s(name)) for result in members if name in result.seconds]
                is_subject = name.startswith("xferlib")
                axis.plot(
                    *zip(*points, strict=True), label=name, color=_COLOURS.get(name.split(" ")[0]),
                    marker="o", markersize=3,
                    linewidth=2.2 if is_subject else 1.2, zorder=3 if is_subject else 2,
                )  # fmt: skip
            if link is not None:
                axis.axhline(link, color=INK, linewidth=0.8, linestyle="--")
                axis.annotate(f"link {link:.1f} GB/s", (members[0].nbytes, link), fontsize=8, va="bottom")
            axis.set(xscale="log", yscale="log", title=case)
            axis.set_xscale("log", base=2)
            axis.grid(visible=True, which="major", linewidth=0.3)
        ticks = [1 << power for power in range(10, 31, 4)]
        for axis in axes[-1]:
            axis.set_xticks(ticks, [size_text(tick) for tick in ticks])
            axis.set_xlabel("bytes")
        for row in axes:
            row[0].set_ylabel("GB/s")
