"""A recorded trace as a table of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xferlib._api.trace.timeline import Recorded, TraceOperation, length, union
from xferlib._api.trace.timeline_rows import TITLES, size_text
from xferlib._core.observe import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    lines = ["  ".join(_padded(row, widths)).rstrip() for row in rows]
    lines.append(f"overlap {found.numbers.overlap():.0%}, idle {found.numbers.idle():.0%}")
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


def _padded(row: list[str], widths: list[int]) -> list[str]:
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
