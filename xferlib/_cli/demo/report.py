"""The demo's progress, table, JSON and picture; rich and matplotlib where they are installed."""

from __future__ import annotations

import json
import platform
import shutil
import sys
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from xferlib._cli.arguments import has
from xferlib._cli.demo.row import Row

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_HEADERS = ("backend", "device", "accuracy", "images/s", "moved", "weights differ\nby at most")
_CAPTION = "Weights: how far the trained model's are from those of the run on NumPy."
_WIDE = 118
_LEAST_FOR_TABLE = 104
"""Columns that the table needs."""
_COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860")


class DemoProgress:
    """A bar on a terminal's standard error; one line a backend where there is no terminal or no rich."""

    def __init__(self, *, total: int) -> None:
        self._bar: Any = None
        self._task: Any = None
        if has("rich") and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Bar(*columns, TextColumn("epochs"), console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("starting", total=total)

    def start(self, device: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=device)
        else:
            print(f"training on {device} ...", file=sys.stderr, flush=True)

    def advance(self) -> None:
        if self._bar is not None:
            self._bar.advance(self._task)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


# --- the table


def show(rows: list[Row], *, epochs: int) -> None:
    """Print the table; a backend that did not run has its reason in place of figures."""
    title = f"Handwritten digits: 1,500 to learn from, 297 held out, {epochs} epochs of 15 mini-batches"
    width = shutil.get_terminal_size((_WIDE, 24)).columns
    if width < _LEAST_FOR_TABLE:
        _show_narrow(rows, title, width)
    elif has("rich"):
        _show_rich(rows, title)
    else:
        _show_plain(rows, title)


def _cells(row: Row) -> tuple[str, ...]:
    if row.reason:
        return (row.backend, f"{'failed' if row.has_failed else 'absent'}: {row.reason}", "", "", "", "")
    figures = f"{row.accuracy:.2%}", f"{row.images_per_s:,.0f}", f"{row.nbytes / 1e6:.1f} MB", f"{row.difference:.1e}"
    return (row.backend, f"{row.device} ({row.device_name})", *figures)


def _show_rich(rows: list[Row], title: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else _WIDE)
    table = Table(title=title, box=box.SIMPLE_HEAVY, title_justify="left", caption=_CAPTION, caption_justify="left")
    for index, header in enumerate(_HEADERS):
        table.add_column(header, justify="left" if index < 2 else "right", no_wrap=index != 1, overflow="fold")
    for row in rows:
        style = "red" if row.has_failed else "dim" if row.reason else ""
        table.add_row(*(Text(cell) for cell in _cells(row)), style=style)
    console.print(table)


def _show_narrow(rows: list[Row], title: str, width: int) -> None:
    """A paragraph for each backend, in place of a table whose lines the terminal would break."""
    print(textwrap.fill(title, width))
    for row in rows:
        backend, device, *figures = _cells(row)
        print(f"\n{backend}")
        print(textwrap.fill(device, width, initial_indent="  ", subsequent_indent="  "))
        for header, figure in zip(_HEADERS[2:], figures, strict=True):
            if figure:
                print(f"  {header.replace(chr(10), ' '):<24}{figure:>12}")
    print("\n" + textwrap.fill(_CAPTION, width))


def _show_plain(rows: list[Row], title: str) -> None:
    ran = [_cells(row) for row in rows if not row.reason]
    lines = [tuple(header.replace("\n", " ") for header in _HEADERS), *ran]
    widths = [max(len(line[index]) for line in lines) for index in range(len(_HEADERS))]
    print(title)
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for row in rows:
        if row.reason:
            print("  ".join(_cells(row)[:2]))


# --- files


def write_json(path: Path, rows: list[Row], *, epochs: int, seed: int) -> None:
    """Every figure of the table and every loss, with the versions that produced them."""
    from xferlib import __version__

    versions = {"xferlib": __version__, "python": platform.python_version(), "numpy": np.__version__}
    versions |= {
        name: str(getattr(sys.modules[name], "__version__", ""))
        for name in ("torch", "cupy", "array_api_compat")
        if name in sys.modules
    }
    data = {"epochs": epochs, "seed": seed, "versions": versions, "rows": [asdict(row) for row in rows]}
    path.write_text(json.dumps(data, indent=2) + "\n")


def write_plot(path: Path, rows: list[Row]) -> None:
    """The loss of every epoch, one curve a device, and the speed of each."""
    from matplotlib.figure import Figure

    ran = [row for row in rows if not row.reason]
    figure = Figure(figsize=(10, 4.2), dpi=150, layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for index, row in enumerate(ran):
        # The curves lie on one another, as they should: each is drawn thinner than the one below it.
        width = 1.5 + 1.8 * (len(ran) - 1 - index)
        epochs = range(1, len(row.losses) + 1)
        left.plot(epochs, row.losses, color=_colour(index), linewidth=width, label=row.device, solid_capstyle="round")
    left.set_yscale("log")
    left.yaxis.set_major_formatter("{x:g}")
    left.set(xlabel="epoch", ylabel="cross-entropy (nats)", title="Loss on the training digits")
    left.grid(True, which="both", alpha=0.35)
    left.legend(framealpha=1.0, edgecolor="none")  # over the grid's lines
    speeds = [row.images_per_s / 1e3 for row in ran]
    bars = right.barh(
        [row.device for row in ran], speeds, height=0.6, color=[_colour(index) for index in range(len(ran))]
    )
    right.bar_label(bars, fmt="{:,.0f}", padding=4)
    right.set(xlabel="thousand images a second", title="Speed, mini-batches of 100")
    right.margins(x=0.18)
    right.invert_yaxis()
    for axes in (left, right):
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]
