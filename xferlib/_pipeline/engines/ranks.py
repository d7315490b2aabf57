"""`stream_map` on the ranks of a communicator: each computes the chunks of its own part of the rows.

All ranks make the same call. A communicator is anything with ``rank``, ``size`` and ``barrier()``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol

from xferlib._pipeline.chunk_ledger import Results
from xferlib._pipeline.chunk_map import ChunkMap, chunks_of, targets_of
from xferlib._pipeline.engines import portable
from xferlib.errors import ArgumentError

if TYPE_CHECKING:
    from xferlib._pipeline.engines.ranges import MapRequest


class Communicator(Protocol):
    """The part of a communicator that is used here."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def barrier(self) -> Any:
        """Return when every rank has called it."""


def run(request: MapRequest, comm: Communicator) -> Any:
    """Compute this rank's part of a call, and return when every rank has computed its own."""
    if comm.size > 1:
        _refuse_unshared(request)
    unit = math.lcm(request.chunk_rows, portable.stored_rows(request.out)) if comm.size > 1 else request.chunk_rows
    low, high = _share(request, comm, unit)
    spans = chunks_of(low, high, request.chunk_rows)
    tell = request.progress

    def progress(done: int, _: int) -> None:
        assert tell is not None
        tell(min(done, high) - low, high - low)

    results = Results(request.reader, request.sink, spans, None if tell is None else progress)
    try:
        ChunkMap(request.fn, results, targets_of(request.devices), request.depth).run()
    except BaseException as error:
        if comm.size == 1:
            results.explain(error)
        else:
            _explain(error, request, f"rank {comm.rank} of {comm.size} had rows {low} to {high}")
        raise
    comm.barrier()
    return results.value


def _explain(error: BaseException, request: MapRequest, fact: str) -> None:
    """Say in an error how to repeat the call: what the other ranks have stored is not known here."""
    found: Any = error
    found.rows_done, found.out, found.reduced = request.first, request.out, None
    error.add_note(f"stream_map: {fact}; to repeat the call, make it again on every rank")


def _refuse_unshared(request: MapRequest) -> None:
    if request.sink.is_reduction:
        raise ArgumentError(
            "stream_map: reduce needs the results of all ranks in one process; give out= and reduce it afterwards, or "
            "give engine a Dask client"
        )
    if request.out is None or portable.of_out(request.out) is None:
        what = "is missing" if request.out is None else f"is {type(request.out).__name__}, in this process's memory"
        raise ArgumentError(
            f"stream_map: engine has several ranks, and out {what}; give each rank the same file as a memory map, or "
            "a zarr array in a directory"
        )


def _share(request: MapRequest, comm: Communicator, unit: int) -> tuple[int, int]:
    """The rows of this rank, from a multiple of ``unit`` to the next rank's."""
    first, rows = request.first, request.reader.rows
    blocks = -(-rows // unit) - first // unit
    low, high = ((first // unit + blocks * rank // comm.size) * unit for rank in (comm.rank, comm.rank + 1))
    return max(low, first), max(min(high, rows), first)
