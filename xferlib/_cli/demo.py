"""``xferlib demo``: the program of ``examples/digits.py`` on every backend, and its data."""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import shutil
import statistics
import sys
import textwrap
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

import numpy as np

from xferlib._cli.main import Command, argument, has_module, output_file, picture_file, require
from xferlib._core import registry
from xferlib._core.registry import get_device, resolve
from xferlib._runtime import process
from xferlib._trace.trace import PICTURES, trace
from xferlib.errors import XferError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xferlib import Device


# Finds the example program, so that the command runs what people read and not a copy.

_MODULE = "xferlib._cli.digits"


class TrainingResult(Protocol):
    """The program's report of one run."""

    accuracy: float
    weights: dict[str, Any]
    losses: list[float]
    epoch_s: list[float]
    nbytes: int


class DemoProgram(Protocol):
    """The module ``digits.py``."""

    TRAIN: int

    def train(self, device: Device, epochs: int, seed: int, on_epoch: Callable[[], Any]) -> TrainingResult: ...


def load() -> DemoProgram:
    """The module: inside the package when installed from a wheel, under ``examples`` in a source tree."""
    here = Path(__file__).parent
    path = here / "digits.py"
    if not path.exists():
        path = here.parents[1] / "examples" / "digits.py"
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return cast("DemoProgram", module)


# The demo's result on one device.


@dataclass(kw_only=True)
class Row:
    """One line of the table: a run, or the reason why there is none."""

    backend: str
    device: str = ""
    device_name: str = ""
    reason: str = ""
    """The reason why it did not run; empty if it did."""
    has_failed: bool = False
    """Whether it should have run, and did not."""
    accuracy: float = 0.0
    images_per_s: float = 0.0
    nbytes: int = 0
    difference: float = 0.0
    """Largest absolute difference of a trained weight from NumPy's."""
    losses: list[float] = field(default_factory=list)


# The demo's progress, table, JSON and picture; rich and matplotlib where they are installed.

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
        if has_module("rich") and sys.stderr.isatty():
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
    elif has_module("rich"):
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


# The timeline of the demo: the last epoch on each device, when everything has been compiled and allocated.


@contextmanager
def record_last_epoch(
    path: Path | None, epochs: int, advance: Callable[[], None], *, title: str
) -> Iterator[Callable[[], None]]:
    """Give the function that the training calls after every epoch; write the file when the block ends without an error.

    Args:
        path: The file; None: record nothing.
        epochs: The number of epochs in all.
        advance: Called after every epoch.
        title: The picture's title.
    """
    left, last = epochs, trace()
    with ExitStack() as recording:

        def begin_next() -> None:
            nonlocal left
            left -= 1
            if path is not None and left == 0:
                recording.enter_context(last)

        def end_epoch() -> None:
            advance()
            begin_next()

        begin_next()
        yield end_epoch
    if path is not None and path.suffix in PICTURES:
        last.plot(path, title=title)
    elif path is not None:
        last.write(path)


# The demo's command: the devices that it runs on, and its result on each.

REFERENCE = "numpy:cpu"


def run_demo(options: argparse.Namespace) -> int:
    """``xferlib demo``: 0 if every backend that can run did."""
    if options.plot is not None or (options.trace is not None and options.trace.suffix != ".json"):
        require("matplotlib", "--plot", extra="demo")
    digits = load()
    devices = list(_devices())
    runnable = [device for device in devices if not isinstance(device, Row)]
    with DemoProgress(total=options.epochs * (len(runnable) + _needs_reference(runnable))) as progress:
        rows = list(_rows(digits, devices, options, progress))
    show(rows, epochs=options.epochs)
    if options.json is not None:
        write_json(options.json, rows, epochs=options.epochs, seed=options.seed)
    if options.plot is not None:
        write_plot(options.plot, rows)
    return 1 if any(row.has_failed for row in rows) else 0


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def _timeline(text: str) -> Path:
    path = output_file(text)
    if path.suffix not in (".json", *PICTURES):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a timeline: give a name that ends in .json, .png, .svg or .pdf"
        )
    return path


def _devices() -> Iterator[Device | Row]:
    """The devices to run on, one of each kind a backend has, and a row for each backend without any."""
    settings = process.get()
    if settings.device is not None:
        yield get_device()
        return
    statuses = registry.available_backends() if settings.backend is None else {settings.backend: None}
    for name, status in sorted(statuses.items(), key=lambda each: each[0] != "numpy"):  # the reference first
        if status is not None and not status.is_available:
            yield Row(backend=name, reason=f"{status.reason}; {status.install}")
            continue
        backend = registry.get(name)
        if backend.capabilities.namespace:
            yield from {device.kind: device for device in reversed(backend.devices())}.values()
        else:
            yield Row(backend=name, reason=backend.capabilities.reason("namespace"))


def _needs_reference(devices: list[Device]) -> bool:
    return all(str(device) != REFERENCE for device in devices)


def _rows(
    digits: DemoProgram, devices: list[Device | Row], options: argparse.Namespace, progress: DemoProgress
) -> Iterator[Row]:
    runnable = [device for device in devices if not isinstance(device, Row)]

    def train(device: Device) -> TrainingResult:
        progress.start(str(device))
        path, title = options.trace if device in runnable else None, f"The last epoch of the demo on {device}"
        if path is not None and len(runnable) > 1:  # a file for each, with the device in its name
            path = path.with_stem(f"{path.stem}-{str(device).replace(':', '-')}")
        with record_last_epoch(path, options.epochs, progress.advance, title=title) as end_epoch:
            return digits.train(device, options.epochs, options.seed, end_epoch)

    reference: dict[str, Any] | None = None
    if _needs_reference(runnable):
        reference = train(resolve(REFERENCE)).weights
    for device in devices:
        if isinstance(device, Row):
            yield device
            continue
        row = Row(backend=device.backend, device=str(device), device_name=device.properties.name)
        try:
            result = train(device)
        except Exception as error:  # one backend's failure must not hide the others' rows
            row.has_failed = True
            row.reason = str(error) if isinstance(error, XferError) else f"{type(error).__name__}: {error}"
        else:
            reference = result.weights if str(device) == REFERENCE else reference
            _fill(row, result, reference, digits.TRAIN)
        yield row


def _fill(row: Row, result: TrainingResult, reference: dict[str, Any] | None, images: int) -> None:
    """Put the figures of a run into its row."""
    row.accuracy, row.nbytes, row.losses = result.accuracy, result.nbytes, result.losses
    # The first epoch pays for the library's start: compiled kernels, memory pools, handles.
    row.images_per_s = images / statistics.median(result.epoch_s[1:] or result.epoch_s)
    if reference is not None:
        weights = result.weights
        row.difference = max(float(np.abs(weights[name] - reference[name]).max()) for name in weights)


COMMANDS = {
    "demo": Command(
        run_demo,
        "Train a classifier on handwritten digits on every usable backend, or on the one that XFERLIB_BACKEND or "
        "XFERLIB_DEVICE names.",
        lambda: (
            argument("--epochs", type=_count, default=30, help="passes over the 1,500 training images (30)"),
            argument("--seed", type=int, default=0, help="of the first weights and the order of images (0)"),
            argument("--plot", type=picture_file, metavar="FILE", help="write the loss curves: .png, .svg or .pdf"),
            argument(
                "--trace", type=_timeline, metavar="FILE", help="write the timeline: .json for Perfetto, or a picture"
            ),
            argument("--json", type=output_file, metavar="FILE", help="write the table and the losses as JSON"),
        ),
    )
}
