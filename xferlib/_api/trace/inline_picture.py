"""A recorded trace as SVG for notebooks: the rows and bars of `picture`, without matplotlib."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from xferlib._api.trace import picture
from xferlib._api.trace.timeline import COMPUTING, COPIES, Numbers, Recorded, TraceOperation, intersection
from xferlib._api.trace.timeline_rows import TimelineRow, rows_of
from xferlib._core.observe import Kind

_WIDTH, _LEFT, _ROW, _BAR, _AXIS = 900, 150, 22, 16, 30
"""Pixels: the picture, its column of titles, a row, a bar, the axis below."""
_CHARACTER = 6.5
_TICKS = 6


def html(found: Recorded) -> str:
    """The timeline of a trace, with a heading; colours of text are the notebook's own."""
    heading = escape(picture.heading("", found, found.operations))
    if not found.operations:
        return f"<div><p>{heading}</p><p>nothing was recorded</p></div>"
    return f'<div><p style="margin:0 0 4px">{heading}</p>{_svg(found.operations)}</div>'


def _svg(operations: Sequence[TraceOperation]) -> str:
    first, last = picture.extent(operations, None, None)
    rows = picture.drawn_rows(rows_of(operations))
    height = _ROW * len(rows) + _AXIS
    scale = (_WIDTH - _LEFT - 10) / (last - first)
    devices = {row.device for row in rows} - {"host"}
    parts = [*_shades(operations, first, scale, _ROW * len(rows)), *_axis(first, last, scale, _ROW * len(rows))]
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
    for number in range(_TICKS + 1):
        time_s = (last - first) * number / _TICKS
        x = _LEFT + time_s * scale
        text = f"{time_s * factor:.4g}{' ' + unit if number == _TICKS else ''}"
        yield f'<path d="M{x:.1f} 0V{y + 4}" stroke="currentColor" stroke-opacity="0.2" fill="none"/>'
        anchor = "end" if number == _TICKS else "middle"
        yield f'<text x="{x:.1f}" y="{y + 18}" text-anchor="{anchor}">{text}</text>'
