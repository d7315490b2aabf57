"""The demo's command: the devices that it runs on, and its result on each."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._api.trace.trace import PICTURES
from xferlib._cli.arguments import output_file, picture_file, require
from xferlib._cli.demo import program, report
from xferlib._cli.demo.row import Row
from xferlib._cli.demo.timeline import LastEpoch, path_for
from xferlib._core import registry
from xferlib._core.devices import get_device, resolve
from xferlib._runtime import config
from xferlib.errors import XferError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from xferlib._core.backend import Backend
    from xferlib._core.device import Device

REFERENCE = "numpy:cpu"


def main(argv: list[str]) -> int:
    """``xferlib demo``: 0 if every backend that can run did."""
    options = parser().parse_args(argv)
    if options.plot is not None or (options.trace is not None and options.trace.suffix != ".json"):
        require("matplotlib", "--plot", extra="demo")
    digits = program.load()
    devices = list(_devices())
    runnable = [device for device in devices if not isinstance(device, Row)]
    with report.DemoProgress(total=options.epochs * (len(runnable) + _needs_reference(runnable))) as progress:
        rows = list(_rows(digits, devices, options, progress))
    report.show(rows, epochs=options.epochs)
    if options.json is not None:
        report.write_json(options.json, rows, epochs=options.epochs, seed=options.seed)
    if options.plot is not None:
        report.write_plot(options.plot, rows)
    return 1 if any(row.has_failed for row in rows) else 0


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(
        prog="xferlib demo",
        description="Train a classifier on handwritten digits on every usable backend, or on the one that "
        "XFERLIB_BACKEND or XFERLIB_DEVICE names.",
    )
    made.add_argument("--epochs", type=_count, default=30, help="passes over the 1,500 training images (30)")
    made.add_argument("--seed", type=int, default=0, help="of the first weights and the order of images (0)")
    made.add_argument("--plot", type=picture_file, metavar="FILE", help="write the loss curves: .png, .svg or .pdf")
    made.add_argument(
        "--trace", type=_timeline, metavar="FILE", help="write the timeline: .json for Perfetto, or a picture"
    )
    made.add_argument("--json", type=output_file, metavar="FILE", help="write the table and the losses as JSON")
    return made


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def _timeline(text: str) -> Path:
    path = output_file(text)
    if path.suffix not in (".json", *PICTURES):
        raise argparse.ArgumentTypeError(f"{text!r} is no timeline: give a name that ends in .json, .png, .svg or .pdf")
    return path


def _devices() -> Iterator[Device | Row]:
    """Return the devices to run on, one of each kind a backend has, and a row for each backend without any."""
    settings = config.get()
    if settings.device is not None:
        yield get_device()
        return
    if settings.backend is not None:
        yield from _places_of(registry.get(settings.backend))
        return
    statuses = sorted(registry.available_backends().values(), key=lambda status: status.name != "numpy")
    for status in statuses:  # the reference first
        if status.is_available:
            yield from _places_of(registry.get(status.name))
        else:
            yield Row(backend=status.name, reason=f"{status.reason}; {status.install}")


def _places_of(backend: Backend) -> Iterator[Device | Row]:
    if backend.capabilities.namespace:
        yield from {device.kind: device for device in reversed(backend.devices())}.values()
    else:
        yield Row(backend=backend.name, reason=backend.capabilities.reason("namespace"))


def _needs_reference(devices: list[Device]) -> bool:
    return all(str(device) != REFERENCE for device in devices)


def _rows(
    digits: program.DemoProgram, devices: list[Device | Row], options: argparse.Namespace, progress: report.DemoProgress
) -> Iterator[Row]:
    runnable = [device for device in devices if not isinstance(device, Row)]

    def train(device: Device) -> program.TrainingResult:
        progress.start(str(device))
        file = path_for(options.trace, device, is_only=len(runnable) == 1) if device in runnable else None
        with LastEpoch(file, options.epochs, title=f"The last epoch of the demo on {device}") as last:
            return digits.train(device, options.epochs, options.seed, last.after_each(progress.advance))

    reference: dict[str, Any] | None = None
    if _needs_reference(runnable):
        reference = train(resolve(REFERENCE)).weights
    for device in devices:
        if isinstance(device, Row):
            yield device
            continue
        row, weights = _run(device, train, reference, digits.TRAIN)
        if str(device) == REFERENCE:
            reference = weights
        yield row


def _run(
    device: Device, train: Callable[[Device], program.TrainingResult], reference: dict[str, Any] | None, images: int
) -> tuple[Row, dict[str, Any] | None]:
    row = Row(backend=device.backend, device=str(device), device_name=device.properties.name)
    try:
        result = train(device)
    except Exception as error:  # one backend's failure must not hide the others' rows
        row.has_failed = True
        row.reason = str(error) if isinstance(error, XferError) else f"{type(error).__name__}: {error}"
        return row, None
    weights = result.weights
    row.accuracy, row.nbytes, row.losses = result.accuracy, result.nbytes, result.losses
    # The first epoch pays for the library's start: compiled kernels, memory pools, handles.
    row.images_per_s = images / statistics.median(result.epoch_s[1:] or result.epoch_s)
    if reference is not None:
        row.difference = max(float(np.abs(weights[name] - reference[name]).max()) for name in weights)
    return row, weights
