"""``xferlib demo``: the program of ``examples/digits.py`` on every backend, and its data."""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import statistics
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from xferlib._cli.main import (
    Command,
    align,
    argument,
    output_file,
    parse_seed,
    picture_file,
    progress,
    require,
    terminal_columns,
    wrap,
)
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


# The demo's table, JSON and picture.

_HEADERS = ("device", "accuracy", "images/s", "moved", "weights differ by at most")
_CAPTION = "Weights: how far the trained model's are from those of the run on NumPy."
_LEAST_FOR_TABLE = 104
"""Columns that the table needs."""
_COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860")


def show(rows: list[Row], *, epochs: int) -> None:
    """Print the table, on a narrow terminal a paragraph for each device; then why other backends did not run."""
    width = terminal_columns()
    title = f"Handwritten digits: 1,500 to learn from, 297 held out, {epochs} epochs of 15 mini-batches"
    print(*wrap(title, width, indent=0), sep="\n")
    ran = [_cells(row) for row in rows if not row.reason]
    if width is None or width >= _LEAST_FOR_TABLE:
        print("\n".join(align([[*_HEADERS], *ran])) if ran else "no backend ran")
    else:
        for device, *figures in ran:
            print("", *wrap(device, width, indent=2), sep="\n")
            for header, figure in zip(_HEADERS[1:], figures, strict=True):
                print(f"  {header:<26}{figure:>10}")
    print(*wrap(_CAPTION, width, indent=0), sep="\n")
    for row in rows:
        if row.reason:
            state = "failed" if row.has_failed else "absent"
            print(*wrap(f"{row.device or row.backend}: {state}: {row.reason}", width, indent=2), sep="\n")


def _cells(row: Row) -> list[str]:
    figures = f"{row.accuracy:.2%}", f"{row.images_per_s:,.0f}", f"{row.nbytes / 1e6:.1f} MB", f"{row.difference:.1e}"
    return [f"{row.device} ({row.device_name})", *figures]


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
def record_last_epoch(path: Path | None, epochs: int, *, title: str) -> Iterator[Callable[[], None]]:
    """Give the function that the training calls after every epoch; write the file when the block ends without an error.

    Args:
        path: The file; None: record nothing.
        epochs: The number of epochs in all.
        title: The picture's title.
    """
    left, last = epochs, trace()
    with ExitStack() as recording:

        def begin_next() -> None:
            nonlocal left
            left -= 1
            if path is not None and left == 0:
                recording.enter_context(last)

        begin_next()
        yield begin_next
    if path is not None and path.suffix in PICTURES:
        last.plot(path, title=title)
    elif path is not None:
        last.write(path)


# The demo's command: the devices that it runs on, and its result on each.

REFERENCE = "numpy:cpu"


def run_demo(options: argparse.Namespace) -> int:
    """``xferlib demo``: 0 if every backend that can run did."""
    if options.plot is not None or (options.trace is not None and options.trace.suffix != ".json"):
        require("matplotlib", "--plot" if options.plot is not None else "a picture by --trace", extra="demo")
    digits = load()
    devices = list(_devices())
    with progress("training") as report:
        rows = list(_rows(digits, devices, options, report))
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


def _rows(
    digits: DemoProgram, devices: list[Device | Row], options: argparse.Namespace, report: Callable[[str], None]
) -> Iterator[Row]:
    runnable = [device for device in devices if not isinstance(device, Row)]

    def train(device: Device) -> TrainingResult:
        report(str(device))
        path, title = options.trace if device in runnable else None, f"The last epoch of the demo on {device}"
        if path is not None and len(runnable) > 1:  # a file for each, with the device in its name
            path = path.with_stem(f"{path.stem}-{str(device).replace(':', '-')}")
        with record_last_epoch(path, options.epochs, title=title) as end_epoch:
            return digits.train(device, options.epochs, options.seed, end_epoch)

    reference: dict[str, Any] | None = None
    if all(str(device) != REFERENCE for device in runnable):
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
            argument("--seed", type=parse_seed, default=0, help="of the first weights and the order of images (0)"),
            argument("--plot", type=picture_file, metavar="FILE", help="write the loss curves: .png, .svg or .pdf"),
            argument(
                "--trace", type=_timeline, metavar="FILE", help="write the timeline: .json for Perfetto, or a picture"
            ),
            argument("--json", type=output_file, metavar="FILE", help="write the table and the losses as JSON"),
        ),
    )
}
