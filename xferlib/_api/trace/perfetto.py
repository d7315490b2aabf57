"""A recorded trace as Chrome trace events, the format that Perfetto and chrome://tracing open."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xferlib._api.trace.timeline import Recorded, TraceOperation
from xferlib._api.trace.timeline_rows import rows_of
from xferlib._runtime.version import __version__

_HOST_PROCESS = 1


def write(found: Recorded, path: Path) -> None:
    """Write the file: one event a line, so that files can be compared."""
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in _events(found))
    numbers = found.numbers
    other = json.dumps({
        "version": f"xferlib {__version__}", "overlap": numbers.overlap(), "idle": numbers.idle(),
        "gb_per_s": numbers.gb_per_s(), "clock_error_us": found.clock_error_s * 1e6, "dropped": found.dropped,
    })  # fmt: skip
    path.write_text(f'{{"displayTimeUnit":"ms","otherData":{other},"traceEvents":[\n{lines}\n]}}\n', encoding="utf-8")


def _events(found: Recorded) -> Iterator[dict[str, Any]]:
    processes: dict[str, int] = {}
    for number, row in enumerate(rows_of(found.operations), start=1):
        process = processes.get(row.device)
        if process is None:
            process = processes[row.device] = _HOST_PROCESS + len(processes)
            yield _named("process_name", process, 0, row.device)
            yield {"ph": "M", "name": "process_sort_index", "pid": process, "tid": 0, "args": {"sort_index": process}}
        yield _named("thread_name", process, number, row.title)
        yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": number, "args": {"sort_index": number}}
        for each, start_ns, end_ns in _nested(row.operations):
            yield _event(each, process, number, start_ns, end_ns)


def _nested(operations: list[TraceOperation]) -> Iterator[tuple[TraceOperation, int, int]]:
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


def _named(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


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
