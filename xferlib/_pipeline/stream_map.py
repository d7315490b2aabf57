"""`stream_map`: a function over data of any size, chunk by chunk, copying in, computing and copying out at once.

On each device a station uploads chunks and downloads results; the caller's thread gives the chunks to the function. A
chunk counts as one of those on its device from before it is read until its result is stored: that bounds the memory on
both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from xferlib._core import registry
from xferlib._core import streams as capture
from xferlib._pipeline import rows as row_sinks
from xferlib._pipeline import rows as row_sources
from xferlib._pipeline.chunk_map import ChunkMap, chunks_of, listed, targets_of
from xferlib._pipeline.chunks import Results
from xferlib._runtime.checks import MOST_AHEAD, refuse_keyword, whole
from xferlib.errors import ArgumentError, shown

if TYPE_CHECKING:
    from typing import Never


def stream_map(
    fn: Callable[[Any], Any],
    source: Any,
    *,
    chunk_rows: int,
    out: Any = None,
    devices: Any = None,
    depth: int = 3,
    reduce: Callable[[Any, Any], Any] | None = None,
    initial: Any = None,
    start: int = 0,
    progress: Callable[[int, int], Any] | None = None,
    engine: Any = None,
    copy: bool | None = True,
    **unknown: Never,
) -> Any:
    """Apply a function on devices to data of any size, in chunks of rows.

    Three chunks are in flight at once on each device: one is uploaded, one computed, one downloaded. No
    more than ``depth`` chunks and their results are on a device, and as much of the source on the host,
    whatever its size. Chunk k goes to device k modulo their number; the result does not depend on it.

    An error that ends the call early, Ctrl-C included, is raised when the results in flight are stored,
    with three more attributes: ``rows_done``, the rows from the beginning whose results are stored,
    ``out``, and with ``reduce`` ``reduced``, the value so far. To go on, call again with
    ``start=error.rows_done``, ``out=error.out``, ``initial=error.reduced``: the result has the same bits.

    With an ``engine`` other processes compute ranges of chunks, each as described here, and with the same bits.
    They open memory maps and zarr arrays by themselves; rows of any other source travel to them, and results for any
    other ``out``, or for ``reduce``, travel back.

    Args:
        fn: Called with each chunk, shape (rows, ...) on its device, in order, in the calling thread, with
            that device current; gives an array with as many rows, or with ``reduce`` anything. It may
            leave its work on the current stream.
        source: Rows on the host: an array, a ``numpy.memmap``, an object with shape, dtype and slices (zarr,
            h5py), or with shape, dtype and ``read_into(out, start)``, which fills a pinned array with the rows
            from ``start`` and is the fastest way from a file.
        chunk_rows: Rows of a chunk; chunks of 16 to 256 MiB keep the link busy.
        out: Takes the results: an array, a memory map, or an object that takes slices (zarr, h5py), with as many
            rows as the source; a new NumPy array if omitted. The source's array itself: each row is
            replaced by its result. Any other overlap with the source's memory is refused.
        devices: Specifications of devices; the current one if omitted.
        depth: Chunks on each device, from 1; 3 lets all three steps run at once.
        reduce: ``reduce(value, result)`` folds each result, on the host, into one value, in the order of
            the chunks, one call at a time, in xferlib's own threads. The first result is the first value.
        initial: The value to begin with instead.
        start: The row to begin at, where a chunk begins.
        progress: Called with the rows done and all rows, in the calling thread, whenever they change.
        engine: A ``dask.distributed.Client``, or an executor of ``concurrent.futures``: its workers compute, each on
            its own current device, or on ``devices`` as it has them. A range whose worker died is computed again, if
            the executor tries again, as Dask does. Or a communicator, of `xferlib.distributed` or anything with
            ``rank``, ``size`` and ``barrier()``: each rank makes this call, and computes its part of the rows; all of
            them share ``out``, and each gets the value of ``reduce``, for which results travel as arrays, numbers and
            texts in containers, and never as pickles.
        copy: None: the function only reads its chunk, so where the device is a CPU it may get the source's rows
            themselves, which NumPy lets it only read. True: it may write to its chunk, which is a copy.

    Returns:
        ``out``, or the new array, or the value of ``reduce``; without any row None or ``initial``.

    Raises:
        ArgumentError: A number out of its range; ``reduce`` and ``out`` together; another ``copy``; a result that is
            not sent between ranks.
        UnsupportedArrayError, UnsupportedDTypeError: ``source`` or ``out`` cannot be read or written so.
        LayoutError: ``out`` does not fit the source, or shares memory with it, or a result does not fit ``out``; or it
            is the source and there is an executor; or the file of a memory map has been truncated.
        TransferError: The disk of ``out`` has no room.
        DeviceNotFoundError: A device does not exist.
        DistributedError: The cluster of an ``engine`` has lost its scheduler; or another rank has sent what are no
            results.
        DistributedTimeoutError: Or has had no workers for a minute.
    """
    if unknown:
        refuse_keyword("stream_map", unknown)
    chunk_rows, depth = _from_one("chunk_rows", chunk_rows), _from_one("depth", depth)
    if depth > MOST_AHEAD:
        raise ArgumentError(f"stream_map: depth={shown(depth)} is more than {MOST_AHEAD}; 3 lets all steps run at once")
    for name, function, arguments in (
        ("fn", fn, "a chunk on a device"),
        ("reduce", reduce, "two results"),
        ("progress", progress, "the rows done and all rows"),
    ):
        if not callable(function) and (name == "fn" or function is not None):
            raise ArgumentError(
                f"stream_map: {name}={shown(function)} is no function; give a function of {arguments}"
                f"{', or leave it away' * (name != 'fn')}"
            )
    if copy is not True and copy is not None:
        raise ArgumentError(
            f"stream_map: copy={shown(copy)} is neither True nor None; give None for a function that only reads its "
            "chunk"
        )
    if reduce is not None and out is not None:
        raise ArgumentError("stream_map: reduce and out exclude each other; leave out away, and take what is returned")
    if reduce is None and initial is not None:
        raise ArgumentError("stream_map: initial is what reduce begins with; give reduce, or leave initial away")
    if engine is not None:
        from xferlib._pipeline import engines as choice
        from xferlib._pipeline import engines as ranges

        run = choice.runner_of(engine)
    targets = targets_of(devices) if engine is None else []  # workers have devices of their own
    for target in targets:
        capture.refuse_current("stream_map", registry.get(target.backend).at(target), target)
    rows = row_sources.source_of(source, chunk_rows, targets[0] if targets else registry.get("numpy").devices()[0])
    first = whole(start, least=0)
    if first is None or first > rows.rows or (first % chunk_rows and first != rows.rows):
        raise ArgumentError(
            f"stream_map: start={shown(start)} is no row at which a chunk begins; give a multiple of {chunk_rows} "
            f"up to {rows.rows}, such as error.rows_done"
        )
    sink = row_sinks.sink_of(out, rows.rows, source) if reduce is None else row_sinks.Reduced(reduce, initial)
    if engine is not None:
        return run(
            ranges.MapRequest(
                fn, source, rows, out, sink, chunk_rows, listed(devices), depth, first, progress, copy is None
            ),
            engine,
        )
    results = Results(rows, sink, chunks_of(first, rows.rows, chunk_rows), progress)
    try:
        return ChunkMap(fn, results, targets, depth, may_alias=copy is None).run()
    except BaseException as error:
        results.explain(error)
        raise


def _from_one(name: str, number: int) -> int:
    found = whole(number, least=1)
    if found is None:
        raise ArgumentError(f"stream_map: {name}={shown(number)} is not a whole number from 1")
    return found
