"""A recorded trace as SVG for notebooks: the rows and bars of `picture`, without matplotlib."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from xferlib._api.trace import picture
from xferlib._api.trace.timeline import COMPUTING, COPIES, Numbers, Recorded, TraceOperation, intersection
from xferlib._api.trace.timeline_rows import TimelineRow, rows_of
from xferlib._core.observe import Kind

_WIDTH, _LEFT, _ROW, _BAR, _AXIS, _LEGEND = 900, 150, 22, 16, 30, 18
"""Pixels: the picture, its column of titles, a row, a bar, the axis below, a line of the legend."""
_CHARACTER = 6.5
_TICKS = 6
"""At most."""


def html(found: Recorded) -> str:
    """The timeline of a trace, with a heading; colours of text are the notebook's own."""
    heading = escape(picture.heading("", found, found.operations))
    if not found.operations:
        return f"<div><p>{heading}</p><p>nothing was recorded</p></div>"
    return f'<div><p style="margin:0 0 4px">{heading}</p>{_svg(found.operations)}</div>'


def _svg(operations: Sequence[TraceOperation]) -> str:
    first, last = picture.extent(operations, None, None)
    rows = picture.drawn_rows(rows_of(operations))
    scale = (_WIDTH - _LEFT - 10) / (last - first)
    devices = {row.device for row in rows} - {"host"}
    shades = [*_shades(operations, first, scale, _ROW * len(rows))]
    legend = [*_legend(picture.legend_of(rows, picture.BOTH_COLOUR if shades else None), _ROW * len(rows) + _AXIS)]
    height = max(bottom for bottom, _ in legend)
    parts = [*shades, *_axis(first, last, scale, _ROW * len(rows)), *(part for _, part in legend)]
    for position, row in enumerate(rows):
        title = f"{row.device} {row.title}" if len(devices) > 1 and row.device != "host" else row.title
        middle = position * _ROW + _ROW / 2
        parts.append(f'<text x="{_LEFT - 8}" y="{middle + 4:.0f}" text-anchor="end">{escape(title)}</text>')
        parts += _bars(row, middle, first, scale, (last - first) / (_WIDTH - _LEFT))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="100%" '
        f'style="max-width:{_WIDTH}px" font-family="sans-serif" font-size="11" fill="currentColor" role="img">'
        f"{''.join(parts)}</svg>"
    )


def _bars(row: TimelineRow, middle: float, first: float, scale: float, pixel_s: float) -> Iterator[str]:
    ranges = [each for each in row.operations if each.kind == Kind.RANGE]
    others = [each for each in row.operations if each.kind != Kind.RANGE]
    for members, colour, height in (
        (ranges, picture.RANGE_COLOUR, _BAR),
        (others, picture.COLOURS[row.kind], _BAR if not ranges else _BAR * 5 // 8),
    ):
        for bar in picture.bars_of(members, pixel_s):
            x, width = _LEFT + (bar.start - first) * scale, max((bar.end - bar.start) * scale, 1.0)
            tip = escape(f"{bar.label or f'{len(members)} operations'}, {(bar.end - bar.start) * 1e3:.3f} ms")
            yield (
                f'<rect x="{x:.1f}" y="{middle - height / 2:.1f}" width="{width:.1f}" height="{height}" '
                f'fill="{colour}"><title>{tip}</title></rect>'
            )
            if bar.label and len(bar.label) * _CHARACTER < width - 4 and members is not ranges:
                yield (
                    f'<text x="{x + width / 2:.1f}" y="{middle + 4:.0f}" text-anchor="middle" fill="white" '
                    f'pointer-events="none">{escape(bar.label)}</text>'
                )


def _shades(operations: Sequence[TraceOperation], first: float, scale: float, height: int) -> Iterator[str]:
    """The spans in which a copy and a kernel ran at once."""
    numbers = Numbers(operations)
    for start, end in intersection(numbers.spans(*COPIES), numbers.spans(*COMPUTING)):
        x, width = _LEFT + (start - first) * scale, (end - start) * scale
        yield (
            f'<rect x="{x:.1f}" y="0" width="{width:.1f}" height="{height}" fill="{picture.BOTH_COLOUR}" '
            'fill-opacity="0.6"/>'
        )


def _axis(first: float, last: float, scale: float, y: int) -> Iterator[str]:
    factor, unit = next((factor, unit) for limit, factor, unit in picture.UNITS if last - first < limit)
    step = _step((last - first) * factor / _TICKS)
    for number in range(int((last - first) * factor / step) + 1):
        x = _LEFT + number * step / factor * scale
        text = f"{number * step:.4g}{'' if number else ' ' + unit}"
        yield f'<path d="M{x:.1f} 0V{y + 4}" stroke="currentColor" stroke-opacity="0.2" fill="none"/>'
        yield f'<text x="{x:.1f}" y="{y + 18}" text-anchor="middle">{text}</text>'


def _step(least: float) -> float:
    """The next of 1, 2, 5, 10, ... and their tenths."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)


def _legend(meanings: Sequence[tuple[str, str]], y: int) -> Iterator[tuple[int, str]]:
    """Draw the meaning of each colour, in lines; with each where its line ends."""
    x = _LEFT
    for label, colour in meanings:
        width = int(24 + len(label) * _CHARACTER)
        if x > _LEFT and x + width > _WIDTH:
            x, y = _LEFT, y + _LEGEND
        yield (
            y + _LEGEND,
            (
                f'<rect x="{x}" y="{y + 3}" width="12" height="10" fill="{colour}"/>'
                f'<text x="{x + 17}" y="{y + 12}">{escape(label)}</text>'
            ),
        )
        x += width
