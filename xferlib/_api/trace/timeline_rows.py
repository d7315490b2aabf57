"""Rows of a drawn trace: the row of each operation, their order and titles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xferlib._api.trace.timeline import COMPUTING, TraceOperation
from xferlib._core.observe import Kind

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
    counts: dict[str, int] = {}
    for each in operations:
        if each.stream.startswith("0x") and each.stream not in names:
            counts[each.device] = counts.get(each.device, 0) + 1
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
    size, unit = float(nbytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if size >= 100 or size == int(size) else f"{size:.1f} {unit}"
