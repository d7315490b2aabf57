"""Pictures of benchmarks, for light pages and dark ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

INK, DPI = "#7f7f7f", 130
_ON_BOTH = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor", "legend.facecolor"), "none"),
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    "grid.color": INK, "grid.alpha": 0.4, "legend.edgecolor": INK,
}  # fmt: skip
"""Settings of matplotlib for pictures without a background: on a white page and on a dark one the contrast is 4."""


@contextmanager
def drawing(path: Path, **options: Any) -> Iterator[tuple[Any, Any]]:
    """Give a figure and its axes to draw on, and write it to a file.

    Args:
        path: To write.
        options: For ``subplots``.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    with mpl.rc_context(_ON_BOTH):
        figure, axes = plt.subplots(dpi=DPI, **options)
        try:
            yield figure, axes
            figure.savefig(path)
        finally:
            plt.close(figure)
