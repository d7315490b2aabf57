"""Ranges of chunks: the rows of one call cut for several processes, and one range computed in one of them."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from xferlib._core.defaults import use_backend
from xferlib._pipeline import row_sinks, row_sources
from xferlib._pipeline.chunk_ledger import Results
from xferlib._pipeline.chunk_map import ChunkMap, chunks_of, targets_of
from xferlib._pipeline.engines import portable
from xferlib._runtime.fork import reset_in_child

if TYPE_CHECKING:
    from xferlib._pipeline.engines.portable import Stored

_RANGES = 8
"""Ranges for each worker: one that dies loses little, and those that are faster get more."""
_STORED_MOST = 8 << 30
_CARRIED_MOST = 256 << 20
"""Bytes of the rows of a range, which may have to be computed again; and of one whose rows travel."""


class MapRequest(NamedTuple):
    """One call of `xferlib.stream_map`, checked, for other processes."""

    fn: Callable[[Any], Any]
    source: Any
    reader: row_sources.Source
    out: Any
    sink: row_sinks.Sink
    chunk_rows: int
    devices: list[Any]
    """Specifications, for the process that computes."""
    depth: int
    first: int
    """The row to begin at."""
    progress: Callable[[int, int], Any] | None
    may_alias: bool
    """As for `ChunkMap`."""


class RangeJob(NamedTuple):
    """All ranges of a call have this in common."""

    fn: Callable[[Any], Any]
    source: Stored | None
    """None: the rows come with the range."""
    out: Stored | None
    """None: the results are returned."""
    is_reduction: bool
    chunk_rows: int
    devices: list[Any]
    depth: int
    may_alias: bool
    backend: str | None
    """The one that the program has chosen by `use_backend`."""
    host: str
    """The name of the caller's."""


def cut(request: MapRequest, unit: int, workers: int, *, is_carried: bool) -> list[tuple[int, int]]:
    """Cut the rows into ranges that end at multiples of ``unit`` rows.

    A range keeps its worker's devices busy, and none is so large that it is a loss to compute it again.
    """
    rows, first = request.reader.rows, request.first
    left, most = rows - first, _CARRIED_MOST if is_carried else _STORED_MOST
    busy = request.depth * len(request.devices) * request.chunk_rows
    each = max(-(-left // (_RANGES * workers)), min(busy, -(-left // workers)))
    each = max(min(each, most // max(portable.row_nbytes(request.source), 1)) // unit, 1) * unit
    edges = [first, *range((first // unit) * unit + each, rows, each), rows]
    return [(low, high) for low, high in itertools.pairwise(edges) if low < high]


def stream_rows(job: RangeJob, low: int, high: int, carried: Any = None) -> Any:
    """Compute one range in this process; one at a time, so that no device holds more chunks than ``depth``.

    Returns:
        With a reduction the list of its chunks' results; else the results' rows, or None where they are in ``out``.
    """
    chosen = contextlib.nullcontext() if job.backend is None else use_backend(job.backend)
    with _one_at_a_time, chosen:
        try:
            return _stream(job, low, high, carried)
        except BaseException as error:
            error.add_note(f"stream_map: in the range of rows {low} to {high}, counted from its beginning")
            raise


def _stream(job: RangeJob, low: int, high: int, carried: Any) -> Any:
    source = carried if job.source is None else job.source.rows(low, high)
    out = None if job.out is None else job.out.rows(low, high)
    targets = targets_of(job.devices)
    reader = row_sources.source_of(source, job.chunk_rows, targets[0])
    if job.is_reduction:
        sink: row_sinks.Sink = listing_sink()
    else:
        sink = row_sinks.sink_of(out, high - low, source)
    results = Results(reader, sink, chunks_of(0, high - low, job.chunk_rows))
    value = ChunkMap(job.fn, results, targets, job.depth, may_alias=job.may_alias).run()
    if out is None:
        return value
    if job.host != socket.gethostname() and hasattr(out, "flush"):
        out.flush()
    return None


def listing_sink() -> row_sinks.Reduced:
    """Collects the results of chunks in a list, for another process to fold."""
    return row_sinks.Reduced(_appended, [])


def _appended(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values


_one_at_a_time = threading.Lock()


def _after_fork_in_child() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


reset_in_child(_after_fork_in_child)
