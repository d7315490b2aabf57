"""`stream_map` on the ranks of a communicator: each computes the chunks of its own part of the rows.

All ranks make the same call. A communicator is anything with ``rank``, ``size`` and ``barrier()``, and for reductions
``all_gather(array)`` as `xferlib.distributed` has it, or ``allgather(object)`` as mpi4py has it.
"""

from __future__ import annotations

import math
import pickle
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xferlib._pipeline.chunk_ledger import Results
from xferlib._pipeline.chunk_map import ChunkMap, chunks_of, targets_of
from xferlib._pipeline.engines import portable, ranges
from xferlib.errors import ArgumentError

if TYPE_CHECKING:
    from xferlib._pipeline.engines.ranges import MapRequest


class Ranks(Protocol):
    """The part of a communicator that is used here."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def barrier(self) -> Any:
        """Return when every rank has called it."""


def run(request: MapRequest, comm: Ranks) -> Any:
    """Compute this rank's part of a call, and return when every rank has computed its own."""
    if comm.size == 1:
        return _alone(request, comm)
    is_reduction = request.sink.is_reduction
    if is_reduction:
        _refuse_silent(comm)
    else:
        _refuse_unshared(request)
    unit = request.chunk_rows if is_reduction else math.lcm(request.chunk_rows, portable.stored_rows(request.out))
    low, high = _share(request, comm, unit)
    tell = request.progress

    def progress(done: int, _: int) -> None:
        assert tell is not None
        tell(min(done, high) - low, high - low)

    sink = ranges.listing_sink() if is_reduction else request.sink
    spans = chunks_of(low, high, request.chunk_rows)
    results = Results(request.reader, sink, spans, None if tell is None else progress)
    try:
        value = ChunkMap(
            request.fn, results, targets_of(request.devices), request.depth, may_alias=request.may_alias
        ).run()
    except BaseException as error:
        _explain(error, request, f"rank {comm.rank} of {comm.size} had rows {low} to {high}")
        raise
    if not is_reduction:
        comm.barrier()
        return value
    for values in _gathered(comm, value):
        for each in values:
            request.sink.put(0, 0, each)
    return request.sink.value


def _alone(request: MapRequest, comm: Ranks) -> Any:
    spans = chunks_of(request.first, request.reader.rows, request.chunk_rows)
    results = Results(request.reader, request.sink, spans, request.progress)
    try:
        value = ChunkMap(
            request.fn, results, targets_of(request.devices), request.depth, may_alias=request.may_alias
        ).run()
    except BaseException as error:
        results.explain(error)
        raise
    comm.barrier()
    return value


def _gathered(comm: Any, values: list[Any]) -> list[list[Any]]:
    """The results of every rank's chunks, in the order of the ranks, in every rank."""
    if hasattr(comm, "allgather"):  # mpi4py's, of any objects
        return list(comm.allgather(values))
    data = np.frombuffer(pickle.dumps(values), np.uint8)
    lengths = comm.all_gather(np.array(data.size))
    padded = np.zeros(int(lengths.max()), np.uint8)
    padded[: data.size] = data
    rows = comm.all_gather(padded)
    return [pickle.loads(row[:length].tobytes()) for row, length in zip(rows, lengths, strict=True)]  # noqa: S301 - ours


def _explain(error: BaseException, request: MapRequest, fact: str) -> None:
    """Say in an error how to repeat the call: what the other ranks have stored is not known here."""
    found: Any = error
    found.rows_done, found.out, found.reduced = request.first, request.out, None
    error.add_note(f"stream_map: {fact}; to repeat the call, make it again on every rank")


def _refuse_silent(comm: Any) -> None:
    if not hasattr(comm, "all_gather") and not hasattr(comm, "allgather"):
        raise ArgumentError(
            f"stream_map: reduce needs the results of all ranks, but engine is {type(comm).__name__}, without "
            "all_gather(); give a communicator of xferlib.distributed or mpi4py, or give out= and reduce that"
        )


def _refuse_unshared(request: MapRequest) -> None:
    if request.out is None or portable.of_out(request.out) is None:
        what = "is missing" if request.out is None else f"is {type(request.out).__name__}, in this process's memory"
        raise ArgumentError(
            f"stream_map: engine has several ranks, and out {what}; give each rank the same file as a memory map, or "
            "a zarr array in a directory"
        )


def _share(request: MapRequest, comm: Ranks, unit: int) -> tuple[int, int]:
    """The rows of this rank, from a multiple of ``unit`` to the next rank's."""
    first, rows = request.first, request.reader.rows
    blocks = -(-rows // unit) - first // unit
    low, high = ((first // unit + blocks * rank // comm.size) * unit for rank in (comm.rank, comm.rank + 1))
    return max(low, first), max(min(high, rows), first)
