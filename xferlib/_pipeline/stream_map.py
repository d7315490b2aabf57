"""`stream_map`: a function over data of any size, chunk by chunk, copying in, computing and copying out at once.

On each device a station uploads chunks and downloads results; the caller's thread gives the chunks to the function. A
chunk counts as one of those on its device from before it is read until its result is stored: that bounds the memory on
both sides.

With an engine other processes compute: the workers of a Dask cluster, or the ranks of a communicator. A range is a few
consecutive chunks. Each is computed as in one process, so that every chunk has the same rows, and a result the same
bits.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import pickle
import socket
import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from xferlib._core import registry
from xferlib._core.arrays import check_dtype
from xferlib._core.dtypes import NAMES, SUPPORTED, name_of
from xferlib._core.registry import use_backend
from xferlib._core.streams import refuse_current
from xferlib._core.trees import parts, remake
from xferlib._pipeline import rows
from xferlib._pipeline.chunks import MapRequest, Results, run_here
from xferlib._pipeline.feeds import list_device_specs, targets_of
from xferlib._runtime.checks import MOST_AHEAD, refuse_keyword, whole
from xferlib._runtime.process import reset_in_child
from xferlib.errors import ArgumentError, DistributedError, DistributedTimeoutError, LayoutError, XferError, quote

if TYPE_CHECKING:
    from typing import Never

    from xferlib._core.arrays import HostArray


def stream_map(
    fn: Callable[..., Any],
    source: Any,
    *sources: Any,
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
    halo: int = 0,
    boundary: Any = "edge",
    **unknown: Never,
) -> Any:
    """Apply a function on devices to data of any size, in chunks of rows.

    Three chunks are in flight at once on each device: one is uploaded, one computed, one downloaded. No
    more than ``depth`` chunks and their results are on a device, and as much of the source on the host,
    whatever its size. Chunk k goes to device k modulo their number; the result does not depend on it.

    An error that ends the call early, Ctrl-C included, is raised when the results in flight are stored,
    with three more attributes: ``rows_complete``, the rows from the beginning whose results are stored,
    ``out``, and with ``reduce`` ``reduced``, the value so far. To go on, call again with
    ``start=error.rows_complete``, ``out=error.out``, ``initial=error.reduced``: the result has the same bits.

    With an ``engine`` other processes compute ranges of chunks, each as described here, and with the same bits.
    They open memory maps and zarr arrays by themselves; rows of any other source travel to them, and results for any
    other ``out``, or for ``reduce``, travel back.

    Args:
        fn: Called with each chunk, shape (rows, ...) on its device, in order, in the calling thread, with
            that device current; gives an array with as many rows, or with ``reduce`` anything. It may
            leave its work on the current stream. Of several sources it gets a chunk each, of the same rows.
        source: Rows on the host: an array, a ``numpy.memmap``, an object with shape, dtype and slices (zarr,
            h5py), or with shape, dtype and ``read_into(out, start)``, which fills a pinned array with the rows
            from ``start`` and is the fastest way from a file.
        sources: More of them, of any kinds and dtypes, with as many rows; none is broadcast.
        chunk_rows: Rows of a chunk; chunks of 16 to 256 MiB keep the link busy.
        out: Takes the results: an array, a memory map, or an object that takes slices (zarr, h5py), with as many
            rows as the source; a new NumPy array if omitted. A source's array itself: each row is
            replaced by its result. Any other overlap with a source's memory is refused.
        devices: Specifications of devices; the current one if omitted.
        depth: Chunks on each device, from 1; 3 lets all three steps run at once.
        reduce: ``reduce(value, result)`` folds each result, on the host, into one value, in the order of
            the chunks, one call at a time, in xferlib's own threads. The first result is the first value.
        initial: The value to begin with instead.
        start: The row to begin at, where a chunk begins.
        progress: Called with the rows done and all rows, in the calling thread, whenever they change.
        engine: A ``dask.distributed.Client``: its workers compute, each on its own current device, or on ``devices``
            as it has them, and a range whose worker died is computed again. Or a communicator, of
            `xferlib.distributed` or anything with ``rank``, ``size`` and ``barrier()``: each rank makes this call, and
            computes its part of the rows; all of them share ``out``, and each gets the value of ``reduce``, for which
            results travel as arrays, numbers and texts in containers, and never as pickles.
        halo: Rows of its neighbours that each chunk gets on either side, for stencils and filters; less than
            ``chunk_rows``. The function gets (rows + 2 * halo, ...), and gives as many rows as the chunk has without
            the halo, or with it, which is then cut off.
        boundary: What stands before the first row and behind the last: rows by the rule of `numpy.pad` of that name,
            'edge', 'reflect', 'symmetric' or 'wrap', or a number.
        copy: None: the function only reads its chunk, so where the device is a CPU it may get the source's rows
            themselves, which NumPy lets it only read, and torch does not protect. True: it may write to its chunk,
            which is a copy.

    Returns:
        ``out``, or the new array, or the value of ``reduce``; without any row None or ``initial``.

    Raises:
        ArgumentError: A number out of its range; ``reduce`` and ``out`` together; another ``copy``; a result that is
            not sent between ranks; an unknown ``boundary``.
        UnsupportedArrayError, UnsupportedDTypeError: ``source`` or ``out`` cannot be read or written so.
        LayoutError: Two sources differ in their rows; ``out`` does not fit the source, or shares memory with it, or a
            result does not fit ``out``; or it is the source and the engine is Dask; or the file of a memory map has
            been truncated.
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
        raise ArgumentError(f"stream_map: depth={quote(depth)} is more than {MOST_AHEAD}; 3 lets all steps run at once")
    for name, function, arguments in (
        ("fn", fn, "a chunk on a device"),
        ("reduce", reduce, "two results"),
        ("progress", progress, "the rows done and all rows"),
    ):
        if not callable(function) and (name == "fn" or function is not None):
            raise ArgumentError(
                f"stream_map: {name}={quote(function)} is not a function; give a function of {arguments}"
                f"{', or leave it away' * (name != 'fn')}"
            )
    if copy is not True and copy is not None:
        raise ArgumentError(
            f"stream_map: copy={quote(copy)} is neither True nor None; give None for a function that only reads its "
            "chunk"
        )
    if reduce is not None and out is not None:
        raise ArgumentError("stream_map: reduce and out exclude each other; leave out away, and take what is returned")
    if reduce is None and initial is not None:
        raise ArgumentError("stream_map: initial is what reduce begins with; give reduce, or leave initial away")
    run = None if engine is None else choose_engine(engine)
    targets = targets_of(devices) if run is None else []  # workers have devices of their own
    for target in targets:
        refuse_current("stream_map", registry.part_of(target), target)
    margin = _check_halo(halo, boundary, chunk_rows)
    place = targets[0] if targets else registry.get("numpy").devices()[0]
    sources = (source, *sources)
    readers = rows.readers_of(sources, chunk_rows, place, margin, boundary)
    count, first = readers[0].rows, whole(start, least=0)
    if first is None or first > count or (first % chunk_rows and first != count):
        raise ArgumentError(
            f"stream_map: start={quote(start)} is not a row at which a chunk begins; give a multiple of {chunk_rows} "
            f"up to {count}, such as error.rows_complete"
        )
    sink = rows.sink_of(out, count, sources) if reduce is None else rows.Reduced(reduce, initial)
    if margin:
        if isinstance(sink, rows.InPlace):
            raise LayoutError(
                "stream_map: out is the source itself, whose rows are read again as the halo of the next chunk; give "
                "out memory of its own, or None for a new array"
            )
        fn = fn if reduce is not None else rows.Trimmed(fn, margin)
    if len(sources) > 1:
        fn = rows.Spread(fn)
    specs = [] if run is None else list_device_specs(devices)
    request = MapRequest(
        fn, sources, readers, out, sink, chunk_rows, specs, depth, first, progress, copy is None, margin, boundary
    )
    if run is not None:
        return run(request, engine)
    return run_here(request, sink, first, count, Results.explain, targets)


def _check_halo(halo: Any, boundary: Any, chunk_rows: int) -> int:
    """The rows on each side of a chunk.

    Raises:
        ArgumentError: They are no number below that of a chunk's rows, or there is no such rule for the ends.
    """
    found = whole(halo, least=0)
    if found is None or found >= chunk_rows:
        raise ArgumentError(
            f"stream_map: halo={quote(halo)} is not a number of rows from 0 to below chunk_rows={chunk_rows}; give a "
            "smaller one, or larger chunks"
        )
    is_number = isinstance(boundary, (int, float, complex, np.number))
    if not is_number and (not isinstance(boundary, str) or boundary not in rows.BOUNDARIES):
        raise ArgumentError(
            f"stream_map: boundary={quote(boundary)} is none of {', '.join(map(repr, rows.BOUNDARIES))}, and no "
            "number; give one of them"
        )
    return found


def _from_one(name: str, number: int) -> int:
    found = whole(number, least=1)
    if found is None:
        raise ArgumentError(f"stream_map: {name}={quote(number)} is not a whole number from 1")
    return found


# Rows that another process opens by itself, sent there as a description: parts of files, and of stored arrays.
#
# Anything else travels: the rows of a source with their task, the results back to the caller. That is slower, and right
# for whatever cannot be seen from outside: a copy of an array in memory would be written there, and lost.

_PICKLED_MOST = 1 << 20
"""Bytes of an object that is sent whole with each task: more are data, of which a task needs a part."""
_STORES = frozenset({"LocalStore", "FsspecStore", "ObjectStore", "DirectoryStore", "NestedDirectoryStore", "FSStore"})
"""The stores of zarr that several processes may write; its others are in memory, or one file."""


class MappedFile(NamedTuple):
    """An array in a file, as a memory map sees it."""

    path: str
    start: int
    """The byte of the file at which the first element begins."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    mode: str
    """As for `numpy.memmap`."""

    def open(self) -> HostArray:
        """Map it."""
        if not math.prod(self.shape):
            return np.empty(self.shape, self.dtype)
        reach = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)]
        first = self.start + sum(min(each, 0) for each in reach)
        nbytes = sum(abs(each) for each in reach) + self.dtype.itemsize
        memory = np.memmap(self.path, np.uint8, self.mode, first, (nbytes,))  # type: ignore[call-overload]
        found: HostArray = np.ndarray(self.shape, self.dtype, memory, self.start - first, self.strides)
        # A memory map where that can be one, which `flush` writes.
        return memory.view(self.dtype).reshape(self.shape) if found.flags.c_contiguous else found


class StoredObject(NamedTuple):
    """An object that finds its data again when it is unpickled: a zarr array, a reader of a file."""

    whole: Any

    def open(self) -> Any:
        return self.whole


Stored = MappedFile | StoredObject


def describe_source(source: Any) -> Stored | None:
    """The description of a source; None if its rows are to travel."""
    if registry.owner_of(source) is not None:
        return _describe_map(source, "r")
    if _is_shared(source) or not hasattr(source, "__getitem__") or _is_small(source):
        return StoredObject(source)
    return None


def describe_out(out: Any) -> Stored | None:
    """The description of a target of results, which other processes write; None if results are to travel."""
    if registry.owner_of(out) is not None:
        return _describe_map(out, "r+")
    return StoredObject(out) if _is_shared(out) else None


def get_block_rows(out: Any) -> int:
    """The rows that ``out`` writes as a whole: two processes must not share such a block."""
    if registry.owner_of(out) is not None:
        return 1
    blocks = getattr(out, "shards", None)
    if blocks is None:
        blocks = getattr(out, "chunks", None)
    return int(blocks[0]) if blocks is not None and len(blocks) else 1


def row_nbytes(source: Any) -> int:
    """Bytes of one row of a source."""
    owner = registry.owner_of(source)
    dtype = np.dtype(source.dtype) if owner is None else owner.view(source).dtype
    return math.prod(int(each) for each in source.shape[1:]) * dtype.itemsize


def _describe_map(array: Any, mode: str) -> MappedFile | None:
    if not isinstance(array, np.memmap) or array.filename is None or array.mode == "c" or not array.ndim:
        return None
    path = Path(array.filename).absolute()
    if not path.exists():
        return None
    whole: Any = array
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    if array.mode != "r":
        whole.flush()  # a process on another host sees what the file has
    start = whole.offset + array.ctypes.data - whole.ctypes.data
    return MappedFile(str(path), start, array.shape, array.strides, array.dtype, mode)


def _is_shared(given: Any) -> bool:
    """Whether this is an array of zarr in a store that other processes can open."""
    if type(given).__module__.partition(".")[0] != "zarr":
        return False
    store = getattr(given, "store", None)
    protocol = getattr(getattr(store, "fs", None), "protocol", ())
    return type(store).__name__ in _STORES and "memory" not in ((protocol,) if isinstance(protocol, str) else protocol)


def _is_small(given: Any) -> bool:
    try:
        return len(pickle.dumps(given)) <= _PICKLED_MOST
    except Exception:  # a foreign object may raise anything
        return False


# Ranges of chunks: the rows of one call cut for several processes, and one range computed in one of them.

_RANGES = 8
"""Ranges for each worker: one that dies loses little, and those that are faster get more."""
_STORED_MOST = 8 << 30
_CARRIED_MOST = 256 << 20
"""Bytes of the rows of a range, which may have to be computed again; and of one whose rows travel."""


class RangeJob(NamedTuple):
    """All ranges of a call have this in common."""

    request: MapRequest
    """Of each source the description, or None where its rows come with the range; of ``out`` as well, or None where
    results are returned; and nothing that belongs to this process."""
    rows: int
    """Of the whole call."""
    is_reduction: bool
    backend: str | None
    """The one that the program has chosen by `use_backend`."""
    host: str
    """The name of the caller's."""


def cut_ranges(request: MapRequest, unit: int, workers: int, *, is_carried: bool) -> list[tuple[int, int]]:
    """Cut the rows into ranges that end at multiples of ``unit`` rows.

    A range keeps its worker's devices busy, and none is so large that it is a loss to compute it again.
    """
    rows, first = request.rows, request.first
    left, most = rows - first, _CARRIED_MOST if is_carried else _STORED_MOST
    busy = request.depth * len(request.devices) * request.chunk_rows
    each = max(-(-left // (_RANGES * workers)), min(busy, -(-left // workers)))
    each = max(min(each, most // max(sum(map(row_nbytes, request.sources)), 1)) // unit, 1) * unit
    edges = [first, *range((first // unit) * unit + each, rows, each), rows]
    return [(low, high) for low, high in itertools.pairwise(edges) if low < high]


def stream_rows(job: RangeJob, low: int, high: int, carried: list[HostArray | None]) -> Any:
    """Compute one range in this process; one at a time, so that no device holds more chunks than ``depth``.

    Args:
        job: The call.
        low, high: The first row, and the row after the last.
        carried: The rows of each source that this process does not open.

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


def _stream(job: RangeJob, low: int, high: int, carried: list[HostArray | None]) -> Any:
    request, place = job.request, targets_of(job.request.devices)[0]
    readers: list[rows.Source] = []
    for stored, given in zip(request.sources, carried, strict=True):
        if given is None:
            opened = (stored.open(),)
            readers += rows.readers_of(opened, request.chunk_rows, place, request.halo, request.boundary)
        else:
            readers.append(rows.Carried(given, low, request.halo, job.rows))
    out = None if request.out is None else request.out.open()
    sink: rows.Sink = rows.Collected(low, high) if out is None else rows.sink_of(out, job.rows, ())
    if job.is_reduction:
        sink = make_list_sink()
    value = run_here(request._replace(readers=readers), sink, low, high, lambda *_: None)
    if out is None:
        return value
    if job.host != socket.gethostname() and hasattr(out, "flush"):
        out.flush()
    return None


def make_list_sink() -> rows.Reduced:
    """Collects the results of chunks in a list, for another process to fold."""
    return rows.Reduced(_append, [])


def _append(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values


_one_at_a_time = threading.Lock()


def _after_fork_in_child() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


reset_in_child(_after_fork_in_child)


class RangeSink:
    """Stores the results of whole ranges: folds lists of them, or copies rows; or they have been written already.

    Args:
        sink: Takes the results of chunks; None where workers write them.
        out: What they write.
    """

    def __init__(self, sink: rows.Sink | None, out: Any) -> None:
        self._sink = sink
        self._out = out
        self.is_reduction = sink is not None and sink.is_reduction
        self.is_ordered = sink is not None and sink.is_ordered
        self.waits = True

    @property
    def value(self) -> Any:
        return self._out if self._sink is None else self._sink.value

    def target(self, start: int, stop: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray | None:
        """Return None: ranges come as they are, and `write` copies them."""

    def write(self, start: int, stop: int, host: Any) -> None:
        if self._sink is None:
            return
        if self.is_reduction:
            for each in host:
                self._sink.write(start, stop, each)
            return
        into = self._sink.target(start, stop, host.shape, host.dtype)
        if into is not None:
            into[...] = host
        self._sink.write(start, stop, host)


# `stream_map` on the workers of a Dask cluster: ranges are submitted, and what comes back is stored here.
#
# A range that is computed twice, because the worker of the first time died, gives the same rows again. So Dask may
# retry. Its own executor raises a TypeError where a worker dies just after its result has been collected.

_AHEAD = 2
"""Ranges submitted for each worker: one that it computes, and the next."""
_LOOK_S = 1.0
_DESERTED_S = 60.0
"""Dask waits for workers for ever; one that has died is started again within seconds, if at all."""


def run_on_dask(request: MapRequest, client: Any) -> Any:
    """Compute a call on the workers of a `dask.distributed.Client`.

    Raises:
        ArgumentError: The client is asynchronous, or its cluster has no workers.
        LayoutError: The source is replaced by its results.
        DistributedTimeoutError: There have been no workers for too long.
    """
    if getattr(client, "asynchronous", False):
        raise ArgumentError(
            "stream_map: engine is an asynchronous Dask client, which a blocking call cannot use; make one without "
            "asynchronous=True"
        )
    workers = len(client.nthreads())
    if not workers:
        raise ArgumentError(
            "stream_map: engine is a Dask client whose cluster has no workers; start some, or wait for them with "
            "client.wait_for_workers(1)"
        )
    if isinstance(request.sink, rows.InPlace):
        raise LayoutError(
            "stream_map: out is the source itself, which an engine may not replace: a range that is tried again would "
            "be computed from its own results; give out memory of its own, or leave engine away"
        )
    sources = tuple(describe_source(each) for each in request.sources)
    out = None if request.out is None else describe_out(request.out)
    unit = request.chunk_rows if out is None else math.lcm(request.chunk_rows, get_block_rows(request.out))
    sink = RangeSink(request.sink if out is None else None, request.out)
    here: Any = None  # what belongs to this process does not travel
    job = RangeJob(request._replace(sources=sources, readers=here, out=out, sink=here, progress=None),
                   request.rows, sink.is_reduction, registry.get_chosen_backend(), socket.gethostname())  # fmt: skip
    results = Results(
        request.reader, sink, cut_ranges(request, unit, workers, is_carried=None in sources), request.progress
    )
    try:
        _submit_ranges(client, job, request, results, _AHEAD * workers)
    except BaseException as error:
        results.explain(error)
        raise
    return results.value


def _submit_ranges(client: Any, job: RangeJob, request: MapRequest, results: Results, ahead: int) -> None:
    """Submit ranges in their order, ``ahead`` at most, and store what comes; an ordered sink gets them in order."""
    import asyncio
    from concurrent.futures import FIRST_COMPLETED, wait

    tasks: dict[Any, Any] = {}
    numbers: dict[Any, int] = {}
    arrived: dict[int, Any] = {}
    left = iter(range(len(results.spans)))
    stored, seen_s = 0, time.monotonic()
    results.report()
    try:
        while True:
            while len(tasks) + len(arrived) < ahead and (number := next(left, None)) is not None:
                low, high = results.spans[number]
                carried = [
                    reader.read_apart(low, high) if stored is None else None
                    for reader, stored in zip(request.readers, job.request.sources, strict=True)
                ]
                task = client.submit(stream_rows, job, low, high, carried, pure=False)
                future = asyncio.run_coroutine_threadsafe(_gather(client, task), client.loop.asyncio_loop)
                tasks[future], numbers[future] = task, number
            if not tasks:
                return
            done = wait(tasks, _LOOK_S, FIRST_COMPLETED).done
            if done or client.nthreads():
                seen_s = time.monotonic()
            elif time.monotonic() - seen_s > _DESERTED_S:
                raise DistributedTimeoutError(
                    f"stream_map: the cluster has had no workers for {_DESERTED_S:g} s; start some, with nannies that "
                    "start them again"
                )
            for future in done:
                del tasks[future]
                arrived[numbers.pop(future)] = future.result()
            for number in sorted(arrived):
                if number == stored or not request.sink.is_ordered:
                    results.store(number, arrived.pop(number))
                    stored += 1
            results.report()
    finally:
        if tasks:  # the cluster is to forget what it has not computed
            client.cancel(list(tasks.values()))


async def _gather(client: Any, task: Any) -> Any:
    from concurrent.futures import CancelledError

    try:
        return await client.gather(task, asynchronous=True)
    except CancelledError as error:
        raise DistributedError(
            f"stream_map: the cluster has dropped a range: {str(error).partition(chr(10))[0]} its scheduler has ended, "
            "or the client was closed; start the cluster again"
        ) from error


# `stream_map` on the ranks of a communicator: each computes the chunks of its own part of the rows.
#
# All ranks make the same call. A communicator is anything with ``rank``, ``size`` and ``barrier()``, and for reductions
# ``all_gather(array)`` as `xferlib.distributed` has it, ``Allgather(array, array)`` as mpi4py, or ``allgather(bytes)``.
#
# The obvious way for results is to pickle them. But a pickle runs what it contains, and these come over a network. So
# they are sent as bytes of arrays behind a text that says how they stand in containers; whatever else it says is an
# error. An object of a class of the program's is made like one of the receiver's own, and no class is looked up by its
# name.


class Ranks(Protocol):
    """The part of a communicator that is used here."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def barrier(self) -> Any:
        """Return when every rank has called it."""


def run_on_ranks(request: MapRequest, comm: Ranks) -> Any:
    """Compute this rank's part of a call, and return when every rank has computed its own."""
    if comm.size == 1:
        value = run_here(request, request.sink, request.first, request.rows, Results.explain)
        comm.barrier()
        return value
    is_reduction = request.sink.is_reduction
    if is_reduction:
        _refuse_silent(comm)
    else:
        _refuse_unshared(request)
    unit = request.chunk_rows if is_reduction else math.lcm(request.chunk_rows, get_block_rows(request.out))
    low, high = _share(request, comm, unit)
    tell = request.progress

    def progress(done: int, _: int) -> None:
        assert tell is not None
        tell(min(done, high) - low, high - low)

    def explain(_: Results, error: BaseException) -> None:
        """Say in an error how to repeat the call: what the other ranks have stored is not known here."""
        found: Any = error
        found.rows_complete, found.out, found.reduced = request.first, request.out, None
        error.add_note(
            f"stream_map: rank {comm.rank} of {comm.size} had rows {low} to {high}; to repeat the call, make it again "
            "on every rank"
        )

    part = request._replace(progress=None if tell is None else progress)
    value = run_here(part, make_list_sink() if is_reduction else request.sink, low, high, explain)
    if not is_reduction:
        comm.barrier()
        return value
    for values in _gather_results(comm, value):
        for each in values:
            request.sink.write(0, 0, each)
    return request.sink.value


def _gather_results(comm: Any, values: list[Any]) -> list[list[Any]]:
    """The results of every rank's chunks, in the order of the ranks, in every rank.

    Raises:
        ArgumentError: A rank has a result that cannot be sent, or received here; the others raise, too.
    """
    try:
        data, error = _pack(values), None
    except XferError as refused:  # the others must not wait for it
        data, error = _frame({"error": str(refused)}, []), refused
    rows = _exchange_bytes(comm, data)
    if error is not None:
        raise error
    samples: dict[Any, Any] = {}
    _sample(values, samples)
    return [_unpack(row, rank, samples) for rank, row in enumerate(rows)]


def _exchange_bytes(comm: Any, data: bytes) -> list[bytes]:
    """The bytes of every rank."""
    if not hasattr(comm, "all_gather") and not hasattr(comm, "Allgather"):
        return list(comm.allgather(data))
    size = np.array([len(data)], np.int64)
    sizes = _all_gather(comm, size)[:, 0]
    if sizes.min() < 0:
        raise DistributedError(
            "stream_map: a rank has sent results of less than nothing; run one program on every rank"
        )
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    rows = _all_gather(comm, padded)
    return [row[:nbytes].tobytes() for row, nbytes in zip(rows, sizes.tolist(), strict=True)]


def _all_gather(comm: Any, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if hasattr(comm, "all_gather"):
        found: np.ndarray[Any, Any] = comm.all_gather(x)
        return found
    found = np.empty((comm.size, x.size), x.dtype)
    comm.Allgather(x, found)
    return found


# --- results as bytes

_FACTORIES = {each.__name__: each for each in (list, int, float, dict, set, str, tuple)}
_DICTS: dict[str, type[Any]] = {each.__name__: each for each in (dict, OrderedDict, Counter, defaultdict)}
_LONG = 1000
"""Bits of a number of which Python may refuse to write the digits in tens."""


def _pack(values: list[Any]) -> bytes:
    """Values as bytes.

    Raises:
        ArgumentError: There is something among them that cannot be sent.
    """
    arrays: list[np.ndarray[Any, Any]] = []
    try:
        told = _encode(values, arrays)
        return _frame({"tree": told, "arrays": [[name_of(each.dtype), each.shape] for each in arrays]}, arrays)
    except RecursionError as error:
        raise ArgumentError("stream_map: a result is nested too deeply, or holds itself; give a flatter one") from error


def _frame(header: Any, arrays: list[np.ndarray[Any, Any]]) -> bytes:
    text = json.dumps(header).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *(each.tobytes() for each in arrays)])


def _encode(value: Any, arrays: list[np.ndarray[Any, Any]]) -> list[Any]:
    """A value in JSON: its kind, and what that needs; of an array its number."""
    cls = type(value)
    if value is None or cls in (bool, float, str) or (cls is int and value.bit_length() < _LONG):
        return ["value", value]
    if cls is int:
        return ["int", hex(value)]
    if cls is complex:
        return ["complex", [value.real, value.imag]]
    if cls is bytes:
        return ["bytes", value.hex()]
    if cls is list or cls is tuple:
        return [cls.__name__, [_encode(each, arrays) for each in value]]
    if cls is np.ndarray and value.dtype in SUPPORTED:
        arrays.append(value)
        return ["array", len(arrays) - 1]
    if cls in _DICTS.values() and not getattr(value, "__dict__", None):
        items = [[_encode(key, arrays), _encode(each, arrays)] for key, each in value.items()]
        if cls is not defaultdict:
            return [cls.__name__, items]
        if value.default_factory is None or value.default_factory in _FACTORIES.values():
            return [cls.__name__, items, getattr(value.default_factory, "__name__", None)]
    inside = parts(value)
    if inside is None or not all(step.is_named for step, _ in inside):  # what is registered has more than its children
        raise ArgumentError(
            f"stream_map: a result holds {quote(value)}, which is not sent between ranks; give arrays, numbers and "
            "texts in dicts, lists, tuples and dataclasses"
        )
    return ["object", _kind(value, inside), [_encode(each, arrays) for _, each in inside]]


def _kind(node: Any, inside: list[tuple[Any, Any]]) -> str:
    most = f", maxlen={node.maxlen}" if isinstance(node, deque) else ""
    return f"{type(node).__module__}.{type(node).__qualname__}({', '.join(repr(step.key) for step, _ in inside)}{most})"


def _sample(value: Any, samples: dict[Any, Any]) -> None:
    """Collect an object of each class among a rank's own results: those of other ranks are made like it."""
    for _, each in parts(value) or ():
        inside = parts(each)
        if inside is not None:
            samples.setdefault(_kind(each, inside), each)
            _sample(each, samples)


def _unpack(data: Any, rank: int, samples: dict[Any, Any]) -> list[Any]:
    """The values that a rank has sent.

    Raises:
        ArgumentError: It could not send them, or no object here is like one of them.
        DistributedError: These are no such bytes.
    """
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        if "error" in header:
            raise ArgumentError(f"rank {rank}: {header['error']}")
        arrays, place = [], 8 + length
        for name, shape in header["arrays"]:
            if name not in NAMES or type(data) is not bytes:
                raise ValueError(f"dtype {quote(name)} in {type(data).__name__}")
            dtype = check_dtype(name, what="a result")
            found = np.ndarray(tuple(shape), dtype, data, place)  # refuses what does not fit
            arrays.append(found.copy())
            place += found.nbytes
        values = _decode(header["tree"], arrays, samples, rank)
        if place != len(data) or type(values) is not list:
            raise ValueError(f"{len(data) - place} bytes behind them")
        return values
    except XferError:
        raise
    except Exception as error:
        raise DistributedError(
            f"stream_map: rank {rank} has sent something other than results ({str(error)[:200]}); run the same program "
            "and the same xferlib on every rank"
        ) from error


def _decode(told: list[Any], arrays: list[np.ndarray[Any, Any]], samples: dict[Any, Any], rank: int) -> Any:
    kind, value, *more = told
    if kind == "value":
        if type(value) in (dict, list):
            raise ValueError("a value is none")
        return value
    if kind == "int":
        return int(value, 16)
    if kind == "complex":
        return complex(*value)
    if kind == "bytes":
        return bytes.fromhex(value)
    if kind == "array":
        return arrays[value]
    if kind == "list" or kind == "tuple":
        made = [_decode(each, arrays, samples, rank) for each in value]
        return made if kind == "list" else tuple(made)
    if kind in _DICTS:
        cls = _DICTS[kind]
        found = defaultdict(_FACTORIES[more[0]] if more[0] else None) if cls is defaultdict else cls()
        for key, each in value:
            found[_decode(key, arrays, samples, rank)] = _decode(each, arrays, samples, rank)
        return found
    if kind != "object":
        raise ValueError(f"a {quote(kind)}")
    if value not in samples:
        raise ArgumentError(
            f"stream_map: rank {rank} has a result of class {value.partition('(')[0]}, and this one has none with the "
            "same attributes, and so does not know how to make it; give arrays, numbers and texts in dicts, lists and "
            "tuples"
        )
    children = [_decode(each, arrays, samples, rank) for each in more[0]]
    if len(children) != len(parts(samples[value]) or ()):
        raise ValueError(f"{len(children)} parts of a {value}")
    return remake(samples[value], children)


def _refuse_silent(comm: Any) -> None:
    if not any(hasattr(comm, name) for name in ("all_gather", "Allgather", "allgather")):
        raise ArgumentError(
            f"stream_map: reduce needs the results of all ranks, but engine is {type(comm).__name__}, without "
            "all_gather(); give a communicator of xferlib.distributed or mpi4py, or give out= and reduce that"
        )


def _refuse_unshared(request: MapRequest) -> None:
    if request.out is None or describe_out(request.out) is None:
        what = "is missing" if request.out is None else f"is {type(request.out).__name__}, in this process's memory"
        raise ArgumentError(
            f"stream_map: engine has several ranks, and out {what}; give each rank the same file as a memory map, or "
            "a zarr array in a directory"
        )


def _share(request: MapRequest, comm: Ranks, unit: int) -> tuple[int, int]:
    """The rows of this rank, from a multiple of ``unit`` to the next rank's."""
    first, rows = request.first, request.rows
    blocks = -(-rows // unit) - first // unit
    low, high = ((first // unit + blocks * rank // comm.size) * unit for rank in (comm.rank, comm.rank + 1))
    return max(low, first), max(min(high, rows), first)


# The kind of engine that an object is.


def choose_engine(engine: Any) -> Callable[[MapRequest, Any], Any]:
    """The function that computes a call on an engine.

    Raises:
        ArgumentError: It is not an engine.
    """
    if _has(engine, "rank", "size", "barrier"):
        return run_on_ranks
    if _has(engine, "submit", "gather", "nthreads") and not isinstance(engine, type):
        return run_on_dask
    is_executor = _has(engine, "submit", "shutdown")
    remedy = "start a cluster on this host, and give its client: dask.distributed.Client(n_workers=2)"
    raise ArgumentError(
        f"stream_map: engine={quote(engine)} is not an engine; give a dask.distributed.Client, or a communicator with "
        f"rank, size and barrier(){'; in place of an executor ' * is_executor}{remedy * is_executor}"
    )


def _has(engine: Any, *names: str) -> bool:
    try:
        return all(hasattr(engine, name) for name in names)
    except Exception:  # a foreign object may raise anything
        return False
