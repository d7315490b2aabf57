"""`trace`: records the copies, staging steps and kernels of a block, as numbers, as a file, as a picture."""

from __future__ import annotations

import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self

from xferlib._core import blocks, observe, registry, streams
from xferlib._core import device as device_module
from xferlib._core.observe import Kind
from xferlib._core.streams import Stream, current_stream
from xferlib._runtime import checks
from xferlib._runtime.checks import site_of, whole
from xferlib._runtime.version import __version__, install_command
from xferlib._trace import recorder
from xferlib._trace.recorder import EventRecorder, close_recording, open_recording
from xferlib.errors import ArgumentError, CaptureError, ForkError, UnsupportedError, quote

if TYPE_CHECKING:
    from collections.abc import Callable

    from xferlib._core.device import DeviceSpec
    from xferlib._trace.recorder import Record, RecordBuffer


# The operations of a recorded program, and the numbers that follow from them.

Span = tuple[float, float]

COPIES = (Kind.H2D, Kind.D2H, Kind.PEER)
"""Copies over a link; one inside a device's memory is not among them."""
COMPUTING = (Kind.KERNEL, Kind.RANGE)
ON_DEVICE = (*COPIES, Kind.D2D, *COMPUTING)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOperation:
    """One operation; times in seconds from the beginning of the recorded block."""

    kind: str
    """``h2d``, ``d2h``, ``d2d``, ``peer``, ``kernel``, ``staging``, ``call`` or ``range``."""
    name: str
    """The kernel's or range's name, the function called, or the sort of copy."""
    nbytes: int
    """Bytes copied, or those of a kernel's arrays; 0 where unknown."""
    device: str
    """``cuda:0``, ``sim:1``, ``cpu``; ``host`` for calls and staging steps."""
    stream: str
    """The stream's address, ``default`` or ``per-thread``; for calls and staging steps the thread's name."""
    thread: str
    """The name of the thread that requested it; empty where unknown."""
    start_s: float
    """Device time, between the events around it; host time for calls, staging steps and CPUs."""
    end_s: float
    host_start_s: float
    """Host time of the program's request; the same as ``start_s`` for work of the host."""
    host_end_s: float
    file: str
    """The user's file that requested it."""
    line: int
    function: str
    is_timed: bool = True
    """False if the device's times are unknown, as in a stream capture or after a lost device: the host's stand in."""

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s

    @property
    def gb_per_s(self) -> float:
        """1e9 bytes a second; 0 where bytes or time are unknown."""
        return self.nbytes / self.seconds / 1e9 if self.seconds > 0 else 0.0


def union(spans: Iterable[Span]) -> list[Span]:
    """The spans in which at least one of ``spans`` runs, in order, apart from each other."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def length(spans: Iterable[Span]) -> float:
    """Sum the seconds of spans that do not overlap."""
    return sum(end - start for start, end in spans)


def intersection(one: Sequence[Span], two: Sequence[Span]) -> list[Span]:
    """Return the spans that two results of `union` have in common."""
    found: list[Span] = []
    first = second = 0
    while first < len(one) and second < len(two):
        start = max(one[first][0], two[second][0])
        end = min(one[first][1], two[second][1])
        if start < end:
            found.append((start, end))
        if one[first][1] < two[second][1]:
            first += 1
        else:
            second += 1
    return found


def overlap(copies: Sequence[Span], computing: Sequence[Span]) -> float:
    """The share of the shorter of the two, each a result of `union`, that ran beside the other."""
    shorter = min(length(copies), length(computing))
    return length(intersection(copies, computing)) / shorter if shorter > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Recorded:
    """All that a trace has recorded, with its totals and shares.

    Attributes:
        operations: In the order in which the program asked for them.
        dropped: The number of earlier operations that were forgotten.
        clock_error_s: The possible error of device times against host times.
    """

    operations: Sequence[TraceOperation]
    dropped: int = 0
    clock_error_s: float = 0.0

    def spans(self, *kinds: str, device: str | None = None) -> list[Span]:
        """Return the spans in which at least one operation of these kinds ran."""
        wanted = frozenset(kinds)
        return union(
            (each.start_s, each.end_s)
            for each in self.operations
            if each.kind in wanted and device in (None, each.device)
        )

    def seconds(self) -> dict[str, float]:
        """Kind to the time in which at least one operation of it ran; only kinds that occurred."""
        return {str(kind): length(self.spans(kind)) for kind in Kind if any(op.kind == kind for op in self.operations)}

    def nbytes(self) -> dict[str, int]:
        """Kind to bytes."""
        totals: Counter[str] = Counter()
        for each in self.operations:
            totals[each.kind] += each.nbytes
        return dict(totals)

    def gb_per_s(self) -> dict[str, float]:
        """Kind to bytes over the time in which at least one operation of it ran; 0 where it did not occur."""
        totals, seconds = self.nbytes(), self.seconds()
        kinds = (Kind.H2D, Kind.D2H, Kind.D2D, Kind.PEER, Kind.STAGING)
        return {
            str(kind): totals[kind] / seconds[kind] / 1e9 if seconds.get(kind, 0.0) > 0 else 0.0
            for kind in kinds
        }  # fmt: skip

    def overlap(self) -> float:
        """See `xferlib.trace.overlap`."""
        return overlap(self.spans(*COPIES), self.spans(*COMPUTING))

    def idle(self) -> float:
        """See `xferlib.trace.idle`."""
        everything = self.spans(*ON_DEVICE)
        if not everything or everything[-1][1] <= everything[0][0]:
            return 0.0
        extent = everything[-1][1] - everything[0][0]
        devices = {each.device for each in self.operations if each.kind in ON_DEVICE}
        busy = [length(self.spans(*ON_DEVICE, device=device)) / extent for device in devices]
        return max(0.0, 1.0 - sum(busy) / len(busy))


# Rows of a drawn trace: the row of each operation, their order and titles.

TITLES = {
    Kind.CALL: "calls", Kind.STAGING: "staging", Kind.H2D: "H2D", Kind.KERNEL: "kernels", Kind.D2H: "D2H",
    Kind.D2D: "D2D", Kind.PEER: "peer copies",
}  # fmt: skip
_ORDER = list(TITLES)
_SAME_S = 1e-6
"""The resolution of events' times."""


class TimelineRow(NamedTuple):
    """Operations that are drawn in one row."""

    device: str
    kind: Kind
    """The kind of operations; a range counts as a kernel."""
    stream: str
    """The stream; for calls and staging the thread."""
    title: str
    operations: list[TraceOperation]


def rows_of(operations: Sequence[TraceOperation]) -> list[TimelineRow]:
    """The host's rows, then each device's: copies in, kernels, copies out, for each stream."""
    found: dict[tuple[str, Kind, str], list[TraceOperation]] = {}
    for each in operations:
        kind = Kind.KERNEL if each.kind in COMPUTING else Kind(each.kind)
        found.setdefault((each.device, kind, each.stream), []).append(each)
    names = _stream_names(operations)
    order = {"MainThread": -2, "default": -1, **{stream: number for number, stream in enumerate(names)}}
    last = len(order)
    keys = sorted(
        found, key=lambda key: (key[0] != "host", key[0], _ORDER.index(key[1]), order.get(key[2], last), key[2])
    )
    return [TimelineRow(*key, _title(key, names), members) for key in keys for members in _apart(found[key])]


def _apart(members: list[TraceOperation]) -> list[list[TraceOperation]]:
    """Distribute operations over few rows, in each of which they contain one another or do not overlap.

    Transfers that several threads stage onto one stream at once interleave there.
    """
    lines: list[list[TraceOperation]] = []
    open_until: list[list[float]] = []
    for each in sorted(members, key=lambda operation: (operation.start_s, -operation.end_s)):
        for line, ends in zip(lines, open_until, strict=True):
            while ends and ends[-1] <= each.start_s + _SAME_S:
                ends.pop()
            if not ends or each.end_s <= ends[-1] + _SAME_S:
                line.append(each)
                ends.append(each.end_s)
                break
        else:
            lines.append([each])
            open_until.append([each.end_s])
    return lines


def _stream_names(operations: Sequence[TraceOperation]) -> dict[str, str]:
    """Number stream addresses, in the order in which they first appear on their device."""
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for each in operations:
        if each.stream.startswith("0x") and each.stream not in names:
            counts[each.device] += 1
            names[each.stream] = f"stream {counts[each.device]}"
    return names


def _title(key: tuple[str, Kind, str], names: dict[str, str]) -> str:
    device, kind, stream = key
    what = TITLES[kind]
    if device == "host":
        return f"{what}, {stream}"
    if device == "cpu":
        return what
    own = f"{stream} stream" if stream in ("default", "per-thread") else stream
    return f"{what}, {names.get(stream, own)}"


def size_text(nbytes: int) -> str:
    """Format bytes in binary units."""
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if size >= 100 or size == int(size) else f"{size:.1f} {unit}"


# A recorded trace as Chrome trace events, the format that Perfetto and chrome://tracing open.

_HOST_PROCESS = 1


def write(found: Recorded, path: Path) -> None:
    """Write the file: one event a line, so that files can be compared."""
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in _events(found))
    other = json.dumps({
        "version": f"xferlib {__version__}", "overlap": found.overlap(), "idle": found.idle(),
        "gb_per_s": found.gb_per_s(), "clock_error_us": found.clock_error_s * 1e6, "dropped": found.dropped,
    })  # fmt: skip
    path.write_text(f'{{"displayTimeUnit":"ms","otherData":{other},"traceEvents":[\n{lines}\n]}}\n', encoding="utf-8")


def _events(found: Recorded) -> Iterator[dict[str, Any]]:
    processes: dict[str, int] = {}
    for number, row in enumerate(rows_of(found.operations), start=1):
        process = processes.get(row.device)
        if process is None:
            process = processes[row.device] = _HOST_PROCESS + len(processes)
            yield _make_metadata("process_name", process, 0, name=row.device)
            yield _make_metadata("process_sort_index", process, 0, sort_index=process)
        yield _make_metadata("thread_name", process, number, name=row.title)
        yield _make_metadata("thread_sort_index", process, number, sort_index=number)
        for each, start_ns, end_ns in _nest_operations(row.operations):
            yield _event(each, process, number, start_ns, end_ns)


def _nest_operations(operations: list[TraceOperation]) -> Iterator[tuple[TraceOperation, int, int]]:
    """The operations of a row with times in whole nanoseconds, in which each two are nested or apart.

    Perfetto drops a slice that begins inside of another and ends behind it. The row allows for the resolution of
    events' times, so that such ends are moved by that much here.
    """
    around: list[tuple[int, int]] = []
    for each in sorted(operations, key=lambda operation: (operation.start_s, -operation.end_s)):
        start, end = max(round(each.start_s * 1e9), 0), round(each.end_s * 1e9)
        while around and end > around[-1][1]:
            limit = around[-1][1]
            if limit - start > end - limit:  # it ends a little too late, and else begins a little too early
                end = limit
            else:
                start = max(start, limit)
                around.pop()
        if around:
            start = max(start, around[-1][0])
        end = max(start, end)
        around.append((start, end))
        yield each, start, end


def _make_metadata(what: str, process: int, thread: int, **arguments: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": arguments}


def _event(each: TraceOperation, process: int, thread: int, start_ns: int, end_ns: int) -> dict[str, Any]:
    arguments: dict[str, Any] = {"source": f"{each.file}:{each.line} in {each.function}"}
    if each.nbytes:
        arguments |= {"nbytes": each.nbytes, "GB/s": round(each.gb_per_s, 3)}
    if each.device not in ("host", "cpu"):
        arguments |= {"stream": each.stream, "enqueued_us": round(each.host_start_s * 1e6, 3)}
        if not each.is_timed:
            arguments["timed"] = False
    return {
        "ph": "X", "name": each.name, "cat": each.kind, "pid": process, "tid": thread,
        "ts": start_ns / 1000, "dur": (end_ns - start_ns) / 1000, "args": arguments,
    }  # fmt: skip


# A recorded trace as a picture: rows for streams and kinds, shaded where copies ran beside kernels; a legend. It is
# laid out once, in pixels, as boxes, lines and texts, which matplotlib draws to a file and SVG in a notebook.

COLOURS = {
    Kind.CALL: "#8a94a3", Kind.STAGING: "#8e6bb0", Kind.H2D: "#2b6cb0", Kind.KERNEL: "#2f855a", Kind.D2H: "#c2570c",
    Kind.D2D: "#0f8b8d", Kind.PEER: "#b83280",
}  # fmt: skip
LEGEND = {
    Kind.CALL: "call", Kind.STAGING: "staging threads at work", Kind.H2D: "to the device", Kind.KERNEL: "kernel",
    Kind.D2H: "to the host", Kind.D2D: "within the device", Kind.PEER: "from another device",
}  # fmt: skip
_RANGE_COLOUR, _RANGE_INK = "#74b894", "#0c2b1c"
_DARK_PAGE = {"paper": "#1e2129", "ink": "#dfe3ea", "grid": "#3b414d", "shade": "#5a4a17"}
_LIGHT_PAGE = {"paper": "#ffffff", "ink": "#1b1f26", "grid": "#d9dde3", "shade": "#fbe8a6"}
_NOTEBOOK = {"ink": "currentColor", "grid": "#8884", "shade": "#f0c83066"}
"""Colours of a page; a notebook's own are not known."""
_UNITS = ((1e-3, 1e6, "µs"), (2.0, 1e3, "ms"), (float("inf"), 1.0, "s"))
_WIDTH, _MARGIN, _ROW, _BAR, _LINE = 1000.0, 10.0, 34.0, 28.0, 19.0
"""Pixels: the picture, its rims, a row, a bar in it, and a line of text."""
_CHARACTER = 6.6
"""Pixels of a character of 11 pixels' height."""
_DPI = 100
_TICKS = 8
"""At most."""
_MOST_CALL_ROWS = 4
_LEAST_SHORTENED = 7
"""Characters that a name is shortened to, at least; a bar with room for fewer has none. A size is never shortened."""
_MOST_NAMES = 4
"""Names that the legend explains because no bar has room for them."""


class Bar(NamedTuple):
    start: float
    end: float
    label: str


class Box(NamedTuple):
    """A rectangle, from its left upper corner, with what a notebook tells of it."""

    x: float
    y: float
    width: float
    height: float
    colour: str
    tip: str = ""


class Label(NamedTuple):
    """A line of text whose middle is at that height; of no colour: the page's ink."""

    x: float
    y: float
    text: str
    anchor: str = "left"
    colour: str = ""


class Picture:
    """The timeline of the operations of a part of the block, laid out.

    Args:
        found: What was recorded.
        page: The colours of the page.
        title: Above it.
        start_s, end_s: The part; from the first operation to the last if omitted.
    """

    def __init__(
        self, found: Recorded, page: dict[str, str], title: str, start_s: float | None, end_s: float | None
    ) -> None:
        operations = found.operations
        self.first_s = min((each.start_s for each in operations), default=0.0) if start_s is None else start_s
        last_s = max((each.end_s for each in operations), default=self.first_s) if end_s is None else end_s
        self.seconds = max(last_s - self.first_s, 1e-6)
        self.boxes: list[Box] = []
        self.lines: list[tuple[float, float, float, float]] = []
        self.labels: list[Label] = []
        self.outlines: list[tuple[list[tuple[float, float]], str]] = []
        shown = [
            each for each in operations if each.end_s >= self.first_s and each.start_s - self.first_s <= self.seconds
        ]
        rows = select_rows(rows_of(shown))
        devices = {row.device for row in rows} - {"host"}
        titles = [
            f"{row.device} {row.title}" if len(devices) > 1 and row.device != "host" else row.title for row in rows
        ]
        self._left = 2 * _MARGIN + _CHARACTER * max(map(len, titles), default=0)
        self._pixels_per_s = (_WIDTH - 2 * _MARGIN - self._left) / self.seconds
        self._unnamed = {each.name for each in shown}
        y = _MARGIN
        for line in format_heading(title, found, shown).splitlines():
            y = self._write_line(y, line)
        if not operations:
            y = self._write_line(y, "nothing was recorded")
        numbers = Recorded(shown)
        shades = intersection(numbers.spans(*COPIES), numbers.spans(*COMPUTING))
        top, bottom = y, y + _ROW * len(rows)
        self._add_axis(top, bottom)
        self.boxes += [Box(self._x(a), top, self._x(b) - self._x(a), bottom - top, page["shade"]) for a, b in shades]
        for number, (row, text) in enumerate(zip(rows, titles, strict=True)):
            middle = top + _ROW * (number + 0.5)
            self.labels.append(Label(self._left - _MARGIN, middle, text, "right"))
            if number and row.device != rows[number - 1].device:
                self.lines.append((_MARGIN, middle - _ROW / 2, _WIDTH - _MARGIN, middle - _ROW / 2))
            self._add_row(row, middle)
        meanings = {LEGEND[row.kind]: COLOURS[row.kind] for row in rows}
        if any(each.kind == Kind.RANGE for each in shown):
            meanings["range"] = _RANGE_COLOUR
        if shades:
            meanings["copy beside kernel"] = page["shade"]
        y = self._add_legend(meanings, bottom + 2 * _LINE)
        if names := list_unnamed(shown, self._unnamed):
            y = self._write_line(y, "no room for: " + ";  ".join(names))
        self.height = y + _MARGIN

    def _x(self, at_s: float) -> float:
        """The pixel of a time; those outside of the part are at its rims."""
        return self._left + min(max(at_s - self.first_s, 0.0), self.seconds) * self._pixels_per_s

    def _write_line(self, y: float, text: str) -> float:
        self.labels.append(Label(_MARGIN, y + _LINE / 2, text))
        return y + _LINE

    def _add_axis(self, top: float, bottom: float) -> None:
        scale, unit = next((scale, unit) for limit, scale, unit in _UNITS if self.seconds < limit)
        length = self.seconds * scale
        power = 10.0 ** math.floor(math.log10(length / _TICKS))
        step = next(step * power for step in (1, 2, 5, 10) if step * power >= length / _TICKS)
        for number in range(int(length / step) + 1):
            x = self._left + number * step / scale * self._pixels_per_s
            self.lines.append((x, top, x, bottom + 4))
            self.labels.append(Label(x, bottom + 14, f"{number * step:.4g}{'' if number else ' ' + unit}", "center"))

    def _add_row(self, row: TimelineRow, middle: float) -> None:
        """Bars with their labels; ranges are drawn behind, and of staging the number of threads at each moment."""
        if row.kind is Kind.STAGING:
            self._add_staging(row, middle + _BAR / 2)
            return
        ranges = [each for each in row.operations if each.kind == Kind.RANGE]
        others = [each for each in row.operations if each.kind != Kind.RANGE]
        is_split = bool(ranges and others)
        self._add_bars(ranges, middle, _BAR, middle - _BAR / 4 if is_split else middle, _RANGE_COLOUR, _RANGE_INK)
        height = _BAR / 2 if is_split else _BAR
        middle += (_BAR - height) / 2
        self._add_bars(others, middle, height, middle, COLOURS[row.kind], "#ffffff")

    def _add_bars(
        self, members: list[TraceOperation], middle: float, height: float, label_at: float, colour: str, ink: str
    ) -> None:
        for bar in bars_of(members, 1 / self._pixels_per_s):
            x = self._x(bar.start)
            width = max(self._x(bar.end) - x, 1.0)
            tip = f"{bar.label or f'{len(members)} operations'}, {(bar.end - bar.start) * 1e3:.3f} ms"
            self.boxes.append(Box(x, middle - height / 2, width, height, colour, tip))
            room = int(width * 0.9 / _CHARACTER)
            least = len(bar.label) if " " in bar.label else min(len(bar.label), _LEAST_SHORTENED)
            if bar.label and room >= least:
                is_whole = len(bar.label) <= room
                text = bar.label if is_whole else f"{bar.label[: room - 1]}…"
                self.labels.append(Label(x + width / 2, label_at, text, "center", ink))
                self._unnamed -= {bar.label} if is_whole else set()

    def _add_staging(self, row: TimelineRow, bottom: float) -> None:
        steps = sorted([(each.start_s, 1) for each in row.operations] + [(each.end_s, -1) for each in row.operations])
        counts = [*itertools.accumulate(step for _, step in steps)]
        heights = [_BAR * count / (max(counts) or 1) for count in counts]
        points = [(self._left, bottom)]
        for (at_s, _), before, height in zip(steps, [0.0, *heights], heights, strict=False):
            points += [(self._x(at_s), bottom - before), (self._x(at_s), bottom - height)]
        self.outlines.append(([*points, (points[-1][0], bottom)], COLOURS[Kind.STAGING]))

    def _add_legend(self, meanings: dict[str, str], y: float) -> float:
        """The meaning of each colour, in lines; returns where they end."""
        x = _MARGIN
        for text, colour in meanings.items():
            width = 30 + len(text) * _CHARACTER
            if x + width > _WIDTH:
                x, y = _MARGIN, y + _LINE
            self.boxes.append(Box(x, y + _LINE / 2 - 5, 12, 10, colour))
            self.labels.append(Label(x + 17, y + _LINE / 2, text))
            x += width
        return y + _LINE if meanings else y


def plot(found: Recorded, path: Path, *, title: str, start_s: float | None, end_s: float | None, dark: bool) -> None:
    """Draw and save the picture."""
    try:
        from matplotlib.collections import LineCollection, PolyCollection
        from matplotlib.figure import Figure
    except ImportError:
        raise UnsupportedError(f"a picture needs matplotlib: {install_command('trace')}") from None
    page = _DARK_PAGE if dark else _LIGHT_PAGE
    drawn = Picture(found, page, title, start_s, end_s)
    figure = Figure(figsize=(_WIDTH / _DPI, drawn.height / _DPI), facecolor=page["paper"], dpi=1.5 * _DPI)
    axes = figure.add_axes((0, 0, 1, 1), frame_on=False, xlim=(0, _WIDTH), ylim=(drawn.height, 0), xticks=[], yticks=[])
    corners = [
        [(x, y), (x + width, y), (x + width, y + height), (x, y + height)] for x, y, width, height, *_ in drawn.boxes
    ]
    outlines, colours = zip(*drawn.outlines, strict=True) if drawn.outlines else ((), ())
    fills = [*(box.colour for box in drawn.boxes), *colours]
    lines = [((x, y), (to_x, to_y)) for x, y, to_x, to_y in drawn.lines]
    axes.add_collection(LineCollection(lines, colors=page["grid"], linewidths=0.6, zorder=0))
    axes.add_collection(
        PolyCollection([*corners, *outlines], facecolors=fills, edgecolors=page["paper"], linewidths=0.3)
    )
    for x, y, text, anchor, colour in drawn.labels:
        axes.text(x, y, text, ha=anchor, va="center_baseline", fontsize=7.9, color=colour or page["ink"], zorder=3)
    figure.savefig(path)


def html(found: Recorded) -> str:
    """The timeline as SVG; colours of text are the notebook's own."""
    drawn = Picture(found, _NOTEBOOK, "", None, None)
    anchors = {"left": "start", "center": "middle", "right": "end"}
    parts = [f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" stroke="#8884"/>' for x, y, to_x, to_y in drawn.lines]
    for x, y, width, height, colour, tip in drawn.boxes:
        title = f"<title>{escape(tip)}</title>" if tip else ""
        size = f'width="{width:.1f}" height="{height:.1f}"'
        parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{colour}">{title}</rect>')
    for points, colour in drawn.outlines:
        parts.append(f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}" fill="{colour}"/>')
    for x, y, text, anchor, colour in drawn.labels:
        at = f'x="{x:.1f}" y="{y + 4:.1f}" text-anchor="{anchors[anchor]}" fill="{colour or _NOTEBOOK["ink"]}"'
        parts.append(f'<text {at} pointer-events="none">{escape(text)}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {drawn.height:.0f}" width="100%" '
        f'style="max-width:{_WIDTH:.0f}px" font-family="sans-serif" font-size="11" role="img">{"".join(parts)}</svg>'
    )


def select_rows(found: list[TimelineRow]) -> list[TimelineRow]:
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


def list_unnamed(shown: Sequence[TraceOperation], unnamed: set[str]) -> list[str]:
    """Return number and time of the kernels, ranges and calls that took longest of those that no bar names in full."""
    seconds: dict[str, float] = {}
    counts: Counter[str] = Counter()
    for each in shown:
        is_public = not any(part.startswith("_") for part in each.name.split("."))
        if (each.kind in COMPUTING or (each.kind == Kind.CALL and is_public)) and each.name in unnamed:
            seconds[each.name] = seconds.get(each.name, 0.0) + each.seconds
            counts[each.name] += 1
    longest = sorted(seconds, key=lambda name: -seconds[name])[:_MOST_NAMES]
    return [f"{counts[name]} x {name}, {seconds[name] * 1e3:.3g} ms" for name in longest]


def bars_of(members: Sequence[TraceOperation], pixel_s: float) -> list[Bar]:
    """Return the bars to draw: pieces of one transfer, and bars narrower than a pixel, are merged."""
    bars: list[Bar] = []
    previous: TraceOperation | None = None
    nbytes = 0
    for each in sorted(members, key=lambda operation: operation.start_s):
        is_piece = previous is not None and each.nbytes and _is_same(previous, each)
        is_near = bool(bars) and each.start_s - bars[-1].end < (8 * pixel_s if is_piece else 0.5 * pixel_s)
        is_narrow = each.seconds < pixel_s and bool(bars) and bars[-1].end - bars[-1].start < 2 * pixel_s
        is_merged = is_near and (is_piece or is_narrow)
        nbytes = each.nbytes + (nbytes if is_merged else 0)
        label = each.name if each.kind in (*COMPUTING, Kind.CALL) else size_text(nbytes)
        if is_merged:
            bars[-1] = Bar(bars[-1].start, max(bars[-1].end, each.end_s), label if is_piece else "")
        else:
            bars.append(Bar(each.start_s, each.end_s, label))
        previous = each
    return bars


def _is_same(one: TraceOperation, two: TraceOperation) -> bool:
    return one.name == two.name and one.kind not in COMPUTING and one.kind != Kind.CALL and one.line == two.line


def format_heading(title: str, found: Recorded, shown: Sequence[TraceOperation]) -> str:
    """The title, and a line of the numbers of what is shown."""
    numbers = Recorded(shown)
    speeds = [f"{TITLES[Kind(kind)]} {speed:.1f} GB/s" for kind, speed in numbers.gb_per_s().items() if speed >= 0.05]
    parts = [f"{numbers.overlap():.0%} overlap (shaded)", *speeds]
    if union((each.start_s, each.end_s) for each in shown if each.kind in ON_DEVICE):
        parts.append(f"{numbers.idle():.0%} idle")
    if found.dropped:
        parts.append(f"{found.dropped} earlier operations not shown")
    return (f"{title}\n" if title else "") + "   ".join(parts)


# A recorded trace as a table of text.

_TITLES = {**TITLES, Kind.RANGE: "ranges"}


def summary(found: Recorded) -> str:
    """Return a line for each kind of operation that occurred, then one for the whole."""
    operations = found.operations
    rows = [["", "count", "busy ms", "bytes", "GB/s"]]
    for kind, title in _TITLES.items():
        members = [each for each in operations if each.kind == kind]
        if members:
            rows.append([title, *_figures(kind, members)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(_pad_row(row, widths)).rstrip() for row in rows]
    lines.append(f"overlap {found.overlap():.0%}, idle {found.idle():.0%}")
    if found.dropped:
        lines.append(f"{found.dropped} earlier operations were forgotten; trace(keep=...) keeps more")
    untimed = sum(not each.is_timed for each in operations)
    if untimed:
        lines.append(f"{untimed} operations have no times of the device; the host's stand in")
    return "\n".join(lines)


def _figures(kind: Kind, members: Sequence[TraceOperation]) -> list[str]:
    busy_s = length(union((each.start_s, each.end_s) for each in members))
    nbytes = sum(each.nbytes for each in members)
    has_speed = kind not in (Kind.CALL, Kind.RANGE, Kind.KERNEL) and nbytes and busy_s > 0
    return [
        str(len(members)),
        f"{busy_s * 1e3:.3f}",
        size_text(nbytes) if nbytes else "",
        f"{nbytes / busy_s / 1e9:.2f}" if has_speed else "",
    ]


def _pad_row(row: list[str], widths: list[int]) -> list[str]:
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]


PICTURES = (".png", ".svg", ".pdf")
_KINDS = (Kind.RANGE, Kind.KERNEL, Kind.H2D, Kind.D2H, Kind.D2D, Kind.PEER)


class trace:  # noqa: N801 - reads as a verb: `with xl.trace("run.json") as t:`
    """Record every copy, staging step and kernel that xferlib enqueues in a block, in all threads.

    An event is recorded on the stream before and after each operation; nothing waits. The device's times are read
    when the block has ended, or when the program reads them. At its end the block waits until the transfers begun
    in it have been staged, and, if it is to write a file, until they are complete.

    Work of other libraries between the calls, such as CuPy's or PyTorch's own kernels, is not seen: put `range`
    around it. On ``sim`` every operation is seen, in the simulator's virtual time. On a CPU the times are the host's.

    Blocks nest, and several may be open at once: each gets everything. A forked child records nothing.

    Args:
        path: A file to write when the block ends, also after an exception: ``.json`` for `write`, or
            ``.png``, ``.svg`` or ``.pdf`` for `plot`.
        keep: The number of latest operations to keep, some 500 bytes each; `dropped` counts the others.

    Raises:
        ArgumentError: The path has another ending or no directory; ``keep`` is not a positive int.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, keep: int = 100_000) -> None:
        self._path = None if path is None else check_path(path, (".json", *PICTURES))
        number = whole(keep, least=1)
        if number is None:
            raise ArgumentError(
                f"trace(keep={quote(keep)}): keep must be an int from 1: the number of operations to remember"
            )
        self._keep = number
        self._pid = os.getpid()
        self._recorder: EventRecorder | None = None
        self._recording: RecordBuffer | None = None
        self._is_open = False
        self._found: tuple[TraceOperation, ...] | None = None

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            checks.refuse(self, name, checks.TRACE_NAMES)

    def __enter__(self) -> Self:
        if self._recording is not None:
            raise ArgumentError("this trace has been used already; make another one with xferlib.trace()")
        if device_module.opened:
            raise CaptureError(
                "trace: a stream is being captured, and events of the trace would become part of the graph; open the "
                "trace after the capture, and launch the graph in it"
            )
        self._pid = os.getpid()
        self._recording = recorder.RecordBuffer(self._keep)
        self._recorder = open_recording(self._recording)
        self._is_open = True
        for backend in registry.list_loaded():
            self._recorder.add_backend(backend)
            device = backend.device_current()
            if device.kind == "cuda":
                self._recorder.prepare(backend.at(device), device)
        self._recording.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            return
        if self._recorder is None or self._recording is None or not self._is_open:
            raise blocks.make_entry_error(self)
        try:
            if error is None:
                streams.settle_all()
        finally:
            close_recording(self._recorder, self._recording)
            self._is_open = False
        if self._path is not None:
            try:
                self.plot(self._path) if self._path.suffix in PICTURES else self.write(self._path)
            except Exception as failure:
                if error is None:
                    raise
                error.add_note(f"the trace could not be written to {self._path}: {failure}")

    # --- the program's own work

    @staticmethod
    def range(
        name: str, *, kind: str = "range", nbytes: int = 0, stream: Any = None, device: DeviceSpec = None
    ) -> range_:
        """Show the program's own work on a stream: ``with xl.trace.range("forward"):``.

        Events are recorded on the stream at both ends, so that the range lasts from when its first operation could
        begin until its last has ended. It counts as computing. Without an open trace it does nothing.

        Args:
            name: The range's name.
            kind: ``"range"`` or ``"kernel"`` for computing, or ``"h2d"``, ``"d2h"``, ``"d2d"``, ``"peer"`` for
                copies made by other libraries.
            nbytes: The bytes that such a copy moves.
            stream: The stream of the work, anything that `Stream.from_any` takes; the current stream if omitted.
            device: The device whose current stream is meant, if not the current device.

        Raises:
            ArgumentError: Another ``kind``.
        """
        if kind not in _KINDS:
            raise ArgumentError(f"trace.range(kind={quote(kind)}): the kinds are {', '.join(_KINDS)}")
        return range_(name, kind, nbytes, stream, device)

    # --- what was recorded

    @property
    def operations(self) -> tuple[TraceOperation, ...]:
        """Everything recorded, in the order in which the program asked for it.

        Blocks until the operations enqueued so far have happened.

        Raises:
            ForkError: Read in a child of the process that recorded.
        """
        if self._found is not None:
            return self._found
        if self._recording is None or self._recorder is None:
            return ()
        if os.getpid() != self._pid:
            raise ForkError(
                f"the trace was recorded in process {self._pid} and is read in its child {os.getpid()}; "
                "read it in the process that recorded it"
            )
        self._recorder.resolve()
        own = {
            (device.index, stream.handle): f"xferlib {direction}"
            for (device, direction), stream in streams.streams.copy().items()
        }
        found = tuple([_operation(record, self._recording, own) for record in list(self._recording.records)])
        if not self._is_open:
            self._found = found
            self._recording.records.clear()
        return found

    @property
    def dropped(self) -> int:
        """Operations that were forgotten because more than ``keep`` came after them."""
        return max(0, self._recording.seen - self._keep) if self.operations and self._recording is not None else 0

    @property
    def clock_error_s(self) -> float:
        """By how many seconds device times may be off against host times, as measured at both ends of the block.

        Each device's clock is compared with the host's when the block begins and when it ends; the error is half of
        the time that one look took, and the drift between the two looks is taken to be even. 0 without a device.
        """
        return 0.0 if self._recorder is None else self._recorder.uncertainty_s

    @property
    def overlap(self) -> float:
        """The share, 0 to 1, of the shorter of copying and computing that ran beside the other.

        Copying: when at least one copy between host and device or between devices ran; computing: when at least one
        kernel or range ran, on any device. 0 if either is missing.
        """
        return self._numbers.overlap()

    @property
    def gb_per_s(self) -> dict[str, float]:
        """For ``h2d``, ``d2h``, ``d2d``, ``peer`` and ``staging``: 1e9 bytes a second, while at least one ran.

        The bytes of all operations of the kind, divided by the time in which at least one of them ran, so that
        pauses do not count. 0 where there was none.
        """
        return self._numbers.gb_per_s()

    @property
    def idle(self) -> float:
        """The share, 0 to 1, of the time from the first device operation to the end of the last in which none ran.

        With several devices the mean of theirs over the same time.
        """
        return self._numbers.idle()

    @property
    def seconds(self) -> dict[str, float]:
        """For each kind that occurred: the time in which at least one operation of it ran."""
        return self._numbers.seconds()

    @property
    def nbytes(self) -> dict[str, int]:
        """For each kind that occurred: the bytes of all its operations."""
        return self._numbers.nbytes()

    @property
    def _numbers(self) -> Recorded:
        return Recorded(self.operations)

    @property
    def _data(self) -> Recorded:
        if self._recording is None and self._found is None:
            raise ArgumentError(
                "this trace was never opened and has recorded nothing; write with xferlib.trace() as t:"
            )
        return Recorded(self.operations, self.dropped, self.clock_error_s)

    def summary(self) -> str:
        """The numbers as a table: a line for each kind of operation, and one for the whole."""
        return summary(self._data)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file for https://ui.perfetto.dev or chrome://tracing: a row for each thread, stream and kind.

        Args:
            path: Where; times in it are in microseconds from the beginning of the block.
        """
        write(self._data, Path(path))

    def plot(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "",
        start_s: float | None = None,
        end_s: float | None = None,
        dark: bool = False,
    ) -> None:
        """Draw rows for the host's calls, for staging, then for the copies and kernels of each device and stream.

        Args:
            path: ``.png``, ``.svg`` or ``.pdf``; needs matplotlib, which xferlib's extra ``trace`` brings.
            title: Above the picture.
            start_s, end_s: What part of the block to show; from the first operation to the last if omitted.
            dark: Whether the picture is for a dark page.
        """
        file = check_path(path, PICTURES)
        plot(self._data, file, title=title, start_s=start_s, end_s=end_s, dark=dark)

    def _repr_html_(self) -> str | None:
        """The timeline, for notebooks; None before the block has ended, and where it cannot be drawn."""
        if self._recording is None or self._is_open:
            return None
        try:
            return html(self._data)
        except Exception:  # a cell shows the object in words instead
            return None

    def __repr__(self) -> str:
        if self._found is not None:
            return f"<xferlib.trace: {len(self._found)} operation{'s' * (len(self._found) != 1)}>"
        state = "not begun" if self._recording is None else "open" if self._is_open else "ended, not read yet"
        return f"<xferlib.trace: {state}>"


class range_:  # noqa: N801 - what `trace.range` makes
    """A block of the program's own work; see `trace.range`."""

    __slots__ = ("_arguments", "_ended")

    def __init__(self, name: str, kind: str, nbytes: int, stream: Any, device: DeviceSpec) -> None:
        self._arguments = (name, kind, nbytes, stream, device)
        self._ended: Callable[[], None] | None = None

    def __enter__(self) -> None:
        recorder = observe.active
        if not isinstance(recorder, EventRecorder):
            return
        name, kind, nbytes, stream, device = self._arguments
        target = current_stream(device) if stream is None else Stream.from_any(stream, device)
        target._backend.attach(target.device)
        self._ended = recorder.range(target._backend, target._raw, kind, name, nbytes)

    def __exit__(self, *exc_info: object) -> None:
        if self._ended is not None:
            self._ended()


def check_path(path: str | os.PathLike[str], endings: tuple[str, ...]) -> Path:
    """Check, before the work is done, that a path can be written to."""
    if not isinstance(path, (str, os.PathLike)) or checks.path(path) is None:
        raise ArgumentError(
            f"a trace cannot be written to {quote(path)}: give a path that ends in {', '.join(endings)}"
        )
    found = Path(path)
    if found.suffix not in endings:
        raise ArgumentError(
            f"a trace cannot be written to {str(path)!r}: give a name that ends in {', '.join(endings)}"
        )
    if found.is_dir() or not found.absolute().parent.is_dir():
        raise ArgumentError(
            f"a trace cannot be written to {str(path)!r}: {found.absolute().parent} must be a directory"
        )
    if not os.access(found if found.exists() else found.absolute().parent, os.W_OK):
        raise ArgumentError(f"a trace cannot be written to {str(path)!r}: you have no permission; name another file")
    return found


_STREAMS: dict[int | str, str] = {0: "default", 1: "default", 2: "per-thread"}


def _operation(record: Record, recording: RecordBuffer, own: dict[tuple[int, int], str]) -> TraceOperation:
    _, kind, name, nbytes, device, stream, location, host_start_s, host_end_s, thread, domain, _ = record.note
    start_s, end_s = host_start_s, host_end_s
    if record.clock is not None:
        start_s, end_s = record.clock.to_host_s(record.start_s), record.clock.to_host_s(record.end_s)
    origin, site = recording.origins[domain], site_of(location)
    if isinstance(stream, int):
        index = int(device.partition(":")[2] or 0)
        stream = _STREAMS.get(stream) or own.get((index, stream)) or f"{stream:#x}"
    return TraceOperation(
        kind=str(kind), name=name, nbytes=nbytes, device=device, stream=stream,
        thread=thread or (stream if device == "host" else ""), start_s=start_s - origin, end_s=end_s - origin,
        host_start_s=host_start_s - origin, host_end_s=host_end_s - origin,
        file=site.file, line=site.line, function=site.function, is_timed=record.is_timed,
    )  # fmt: skip
