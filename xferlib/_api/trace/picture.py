"""A recorded trace as a picture: rows for streams and kinds, shaded where copies ran beside kernels; a legend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xferlib._api.trace.timeline import (
    COMPUTING,
    COPIES,
    ON_DEVICE,
    Numbers,
    Recorded,
    Span,
    TraceOperation,
    intersection,
    union,
)
from xferlib._api.trace.timeline_rows import TITLES, TimelineRow, rows_of, size_text
from xferlib._core.observe import Kind
from xferlib._runtime.version import install_command
from xferlib.errors import UnsupportedError

COLOURS = {
    Kind.CALL: "#8a94a3", Kind.STAGING: "#8e6bb0", Kind.H2D: "#2b6cb0", Kind.KERNEL: "#2f855a", Kind.D2H: "#c2570c",
    Kind.D2D: "#0f8b8d", Kind.PEER: "#b83280",
}  # fmt: skip
LEGEND = {
    Kind.CALL: "call", Kind.STAGING: "staging threads at work", Kind.H2D: "to the device", Kind.KERNEL: "kernel",
    Kind.D2H: "to the host", Kind.D2D: "within the device", Kind.PEER: "from another device",
}  # fmt: skip
RANGE_COLOUR = "#74b894"
BOTH_COLOUR = "#fbe8a6"
_WIDTH_IN = 11.0
_PIXELS = 1400.0
_CHARACTER_PX = 8.0
UNITS = ((1e-3, 1e6, "µs"), (2.0, 1e3, "ms"), (float("inf"), 1.0, "s"))
_MOST_CALL_ROWS = 4
_LEAST_SHORTENED = 7
"""Characters that a name is shortened to, at least; a bar with room for fewer has none. A size is never shortened."""
_MOST_NAMES = 4
"""Names that the legend explains because no bar has room for them."""
LIGHT = {"grid.color": "#d9dde3"}
DARK = {
    "figure.facecolor": "#1e2129", "axes.facecolor": "#1e2129", "savefig.facecolor": "#1e2129", "text.color": "#dfe3ea",
    "axes.labelcolor": "#dfe3ea", "axes.titlecolor": "#dfe3ea", "xtick.color": "#dfe3ea", "ytick.color": "#dfe3ea",
    "axes.edgecolor": "#7b8494", "grid.color": "#3b414d", "legend.facecolor": "#2a2e38", "legend.edgecolor": "#3b414d",
}  # fmt: skip
"""Settings of matplotlib for pictures on a dark page."""
_BOTH_COLOUR_DARK = "#5a4a17"


class Bar(NamedTuple):
    start: float
    end: float
    label: str


def plot(found: Recorded, path: Path, *, title: str, start_s: float | None, end_s: float | None, dark: bool) -> None:
    """Draw and save the picture."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise UnsupportedError(f"a picture needs matplotlib: {install_command('trace')}") from None
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    operations = found.operations
    first, last = extent(operations, start_s, end_s)
    shown = [each for each in operations if each.end_s >= first and each.start_s <= last]
    scale, unit = next((scale, unit) for limit, scale, unit in UNITS if last - first < limit)
    rows = drawn_rows(rows_of(shown))
    with mpl.rc_context(DARK if dark else LIGHT):
        figure, axes = plt.subplots(figsize=(_WIDTH_IN, 1.5 + 0.42 * max(len(rows), 2)), layout="constrained")
        try:
            has_shade = _shade(axes, shown, first, scale, _BOTH_COLOUR_DARK if dark else BOTH_COLOUR)
            named: set[str] = set()
            for position, row in enumerate(rows):
                named |= _draw(axes, position, row, first, last, scale)
            _dress(axes, rows, title, found, shown, (last - first) * scale, unit)
            _explain(figure, rows, has_shade, unnamed(shown, named), dark=dark)
            figure.savefig(path, dpi=130)
        finally:
            plt.close(figure)


def extent(operations: Sequence[TraceOperation], start_s: float | None, end_s: float | None) -> Span:
    first = min((each.start_s for each in operations), default=0.0) if start_s is None else start_s
    last = max((each.end_s for each in operations), default=first) if end_s is None else end_s
    return first, max(last, first + 1e-6)


def drawn_rows(found: list[TimelineRow]) -> list[TimelineRow]:
    """Keep one row for all staging threads, and the calls of the threads that call most."""
    calls = [row for row in found if row.kind is Kind.CALL]
    calls = sorted(calls, key=lambda row: (row.stream != "MainThread", -len(row.operations)))[:_MOST_CALL_ROWS]
    staging = [row for row in found if row.kind is Kind.STAGING]
    rows = calls
    if staging:
        threads = f"{len(staging)} thread{'s' if len(staging) > 1 else ''}"
        members = [each for row in staging for each in row.operations]
        rows = [*rows, TimelineRow("host", Kind.STAGING, "", f"staging, {threads}", members)]
    return [*rows, *(row for row in found if row.kind not in (Kind.CALL, Kind.STAGING))]


def _shade(axes: Any, shown: Sequence[TraceOperation], first: float, scale: float, colour: str) -> bool:
    """Shade the spans in which a copy and a kernel ran at once, and return whether there are any."""
    numbers = Numbers(shown)
    spans = list(intersection(numbers.spans(*COPIES), numbers.spans(*COMPUTING)))
    for start, end in spans:
        axes.axvspan((start - first) * scale, (end - first) * scale, color=colour, linewidth=0, zorder=0)
    return bool(spans)


def _draw(axes: Any, position: int, row: TimelineRow, first: float, last: float, scale: float) -> set[str]:
    """Draw a row, and return the labels that found room."""
    if row.kind is Kind.STAGING:
        _draw_staging(axes, position, row, first, scale)
        return set()
    named = set()
    ranges = [each for each in row.operations if each.kind == Kind.RANGE]
    others = [each for each in row.operations if each.kind != Kind.RANGE]
    colour = COLOURS[row.kind]
    is_split = bool(ranges and others)
    pixel_s = (last - first) / _PIXELS
    for members, paint, bottom, top in (
        (ranges, RANGE_COLOUR, 0.39, -0.39),
        (others, colour, 0.34 if is_split else 0.39, -0.06 if is_split else -0.39),
    ):
        bars = bars_of(members, pixel_s)
        pieces = [((bar.start - first) * scale, max(bar.end - bar.start, 1.5 * pixel_s) * scale) for bar in bars]
        axes.broken_barh(
            pieces, (position + top, bottom - top), facecolors=paint, edgecolors="white",
            linewidth=0.4 if len(bars) < 60 else 0.0, zorder=3,
        )  # fmt: skip
        middle = position + (-0.22 if is_split and members is ranges else (bottom + top) / 2)
        ink = "#0c2b1c" if members is ranges else "white"
        named |= {bar.label for bar in bars if _label(axes, middle, bar, first, last, scale, ink)}
    return named


def _label(axes: Any, height: float, bar: Bar, first: float, last: float, scale: float, ink: str) -> bool:
    """Write a bar's label into it, shortened where it must be, and return whether all of it is there."""
    start, end = max(bar.start, first), min(bar.end, last)
    room = int((end - start) / (last - first) * _PIXELS * 0.8 / _CHARACTER_PX)
    least = len(bar.label) if " " in bar.label else min(len(bar.label), _LEAST_SHORTENED)
    if not bar.label or room < least:
        return False
    text = bar.label if len(bar.label) <= room else bar.label[: room - 1] + "…"
    middle = ((start + end) / 2 - first) * scale
    axes.text(middle, height, text, ha="center", va="center", fontsize=7.5, color=ink, clip_on=True, zorder=4)
    return text == bar.label


def unnamed(shown: Sequence[TraceOperation], named: set[str]) -> list[str]:
    """Return number and time of the kernels, ranges and calls that took longest of those that no bar names in full."""
    seconds: dict[str, float] = {}
    counts: dict[str, int] = {}
    for each in shown:
        is_public = not any(part.startswith("_") for part in each.name.split("."))
        if (each.kind in COMPUTING or (each.kind == Kind.CALL and is_public)) and each.name not in named:
            seconds[each.name] = seconds.get(each.name, 0.0) + each.seconds
            counts[each.name] = counts.get(each.name, 0) + 1
    longest = sorted(seconds, key=lambda name: -seconds[name])[:_MOST_NAMES]
    return [f"{counts[name]} x {name}, {seconds[name] * 1e3:.3g} ms" for name in longest]


def _explain(figure: Any, rows: list[TimelineRow], has_shade: bool, names: list[str], *, dark: bool) -> None:
    """Draw the legend, below everything."""
    from matplotlib.patches import Patch

    shade = (_BOTH_COLOUR_DARK if dark else BOTH_COLOUR) if has_shade else None
    parts = [Patch(color=colour, label=label) for label, colour in legend_of(rows, shade)]
    if parts:
        made = figure.legend(
            handles=parts, loc="outside lower left", ncols=len(parts), fontsize=8, frameon=False, columnspacing=1.2,
            title="no room for: " + ";  ".join(names) if names else None, title_fontsize=8,
        )  # fmt: skip
        made.set_alignment("left")


def legend_of(rows: Sequence[TimelineRow], shade: str | None) -> list[tuple[str, str]]:
    """Return the meaning of each colour in these rows, and of ``shade`` if there is one."""
    found = {LEGEND[row.kind]: COLOURS[row.kind] for row in rows}
    if any(each.kind == Kind.RANGE for row in rows for each in row.operations):
        found["range"] = RANGE_COLOUR
    return [*found.items(), *([("copy beside kernel", shade)] if shade is not None else [])]


def bars_of(members: Sequence[TraceOperation], pixel_s: float) -> list[Bar]:
    """Return the bars to draw: pieces of one transfer, and bars narrower than a pixel, are merged."""
    bars: list[Bar] = []
    previous: TraceOperation | None = None
    nbytes = 0
    for each in sorted(members, key=lambda operation: operation.start_s):
        is_piece = previous is not None and each.nbytes and _is_same(previous, each)
        is_near = bool(bars) and each.start_s - bars[-1].end < (8 * pixel_s if is_piece else 0.5 * pixel_s)
        is_narrow = each.seconds < pixel_s and bool(bars) and bars[-1].end - bars[-1].start < 2 * pixel_s
        if is_near and (is_piece or is_narrow):
            nbytes += each.nbytes
            end = max(bars[-1].end, each.end_s)
            bars[-1] = Bar(bars[-1].start, end, _text(each, nbytes) if is_piece else "")
        else:
            nbytes = each.nbytes
            bars.append(Bar(each.start_s, each.end_s, _text(each, nbytes)))
        previous = each
    return bars


def _is_same(one: TraceOperation, two: TraceOperation) -> bool:
    return one.name == two.name and one.kind not in COMPUTING and one.kind != Kind.CALL and one.line == two.line


def _text(each: TraceOperation, nbytes: int) -> str:
    if each.kind in (*COMPUTING, Kind.CALL):
        return each.name
    return size_text(nbytes)


def _draw_staging(axes: Any, position: int, row: TimelineRow, first: float, scale: float) -> None:
    """Draw the number of threads that stage at each moment, as a height."""
    edges = sorted([(each.start_s, 1) for each in row.operations] + [(each.end_s, -1) for each in row.operations])
    times, counts, count = [0.0], [0], 0
    for time, step in edges:
        times.append((time - first) * scale)
        count += step
        counts.append(count)
    most = max(counts) or 1
    tops = [position + 0.39 - 0.78 * each / most for each in counts]
    axes.fill_between(times, position + 0.39, tops, step="post", color=COLOURS[Kind.STAGING], linewidth=0, zorder=3)


def _dress(
    axes: Any,
    rows: list[TimelineRow],
    title: str,
    found: Recorded,
    shown: Sequence[TraceOperation],
    extent: float,
    unit: str,
) -> None:
    devices = list(dict.fromkeys(row.device for row in rows))
    several = len([device for device in devices if device != "host"]) > 1
    labels = [f"{row.device} {row.title}" if several and row.device != "host" else row.title for row in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=8.5)
    axes.set_ylim(max(len(rows), 2) - 0.45, -0.55)
    axes.set_xlim(0.0, extent)
    axes.set_xlabel(unit, fontsize=9)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=True, axis="x", linewidth=0.5, zorder=1)
    for position in range(1, len(rows)):
        if rows[position].device != rows[position - 1].device:
            axes.axhline(position - 0.5, color="#a0a8b4", linewidth=0.8, zorder=2)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(heading(title, found, shown), fontsize=10, loc="left")


def heading(title: str, found: Recorded, shown: Sequence[TraceOperation]) -> str:
    numbers = Numbers(shown)
    speeds = [f"{TITLES[Kind(kind)]} {speed:.1f} GB/s" for kind, speed in numbers.gb_per_s().items() if speed >= 0.05]
    parts = [f"{numbers.overlap():.0%} overlap (shaded)", *speeds]
    if union((each.start_s, each.end_s) for each in shown if each.kind in ON_DEVICE):
        parts.append(f"{numbers.idle():.0%} idle")
    if found.dropped:
        parts.append(f"{found.dropped} earlier operations not shown")
    return (f"{title}\n" if title else "") + "   ".join(parts)
