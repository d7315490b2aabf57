"""Draw the pictures of the gallery, light and dark.

    python tools/gallery.py [FOLDER]

The timelines are of the simulated accelerator, in the time of its clock. The demo's losses are those of
``docs/benchmarks/h200``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import xferlib as xl  # noqa: E402 - from this tree, installed or not
from xferlib._cli import demo as report  # noqa: E402
from xferlib._cli.demo import Row  # noqa: E402

DARK = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "#1e2129"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color"), "#dfe3ea"),
    "axes.edgecolor": "#7b8494", "grid.color": "#3b414d", "legend.facecolor": "#2a2e38",
}  # fmt: skip
MEASURED = ROOT / "docs" / "benchmarks" / "h200"
ROWS, COLUMNS, BATCHES = 2048, 512, 6
WEIGHTS = 1 << 25
"""Numbers that a step computes on: 128 MiB, so that it takes about as long as a batch of 4 MiB on the link."""

forward = xl.elementwise(lambda w: w * 2 + 1, name="forward")
backward = xl.elementwise(lambda w: w * w, name="backward")


class Program:
    """Programs that train on the same batches."""

    def __init__(self) -> None:
        self.ordinary = [np.full((ROWS, COLUMNS), number, np.float32) for number in range(BATCHES)]
        self.pinned = [xl.pinned_array(batch) for batch in self.ordinary]
        self.weights = xl.ones(WEIGHTS, "float32")
        xl.synchronize()

    def step(self, x: Any) -> Any:
        """Two kernels, for which a range stands in the picture."""
        with xl.trace.range("train"):
            backward(forward(self.weights))
        return x

    def loop(self) -> None:
        for batch in self.ordinary:
            self.step(xl.to_device(batch))

    def prefetch(self) -> None:
        for x in xl.prefetch(self.pinned):
            self.step(x)

    def stream_map(self) -> None:
        xl.stream_map(self.step, np.concatenate(self.ordinary), chunk_rows=ROWS)


TIMELINES: dict[str, tuple[str, Callable[[Program], None]]] = {
    "loop": ("A plain loop over ordinary memory", Program.loop),
    "prefetch": ("The loop with prefetch, from pinned memory", Program.prefetch),
    "stream-map": ("stream_map", Program.stream_map),
}


def draw_timelines(folder: Path) -> None:
    """Record each program once."""
    for name, (title, run) in TIMELINES.items():
        with xl.use_backend("sim"):
            program = Program()
            with xl.trace() as t:
                run(program)
                xl.synchronize()
        for is_dark in (False, True):
            t.plot(folder / picture_name(name, is_dark), title=title, dark=is_dark)
        print(name, f"{t.overlap:.0%} overlap")


def draw_demo(folder: Path) -> None:
    """The losses of the demo, as measured."""
    rows = [Row(**row) for row in json.loads((MEASURED / "demo.json").read_text())["rows"]]
    for is_dark in (False, True):
        with mpl.rc_context(DARK if is_dark else {}):
            report.write_plot(folder / picture_name("demo", is_dark), rows)


def picture_name(name: str, is_dark: bool) -> str:
    """The file of a picture."""
    return f"{name}-dark.png" if is_dark else f"{name}.png"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    draw_timelines(folder)
    draw_demo(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "gallery")
