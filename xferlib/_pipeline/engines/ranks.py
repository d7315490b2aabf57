"""`stream_map` on the ranks of a communicator: each computes the chunks of its own part of the rows.

All ranks make the same call. A communicator is anything with ``rank``, ``size`` and ``barrier()``, and for reductions
``all_gather(array)`` as `xferlib.distributed` has it, ``Allgather(array, array)`` as mpi4py, or ``allgather(bytes)``.

The obvious way for results is to pickle them. But a pickle runs what it contains, and these come over a network. So
they are sent as bytes of arrays behind a text that says how they stand in containers; whatever else it says is an
error. An object of a class of the program's is made like one of the receiver's own, and no class is looked up by its
name.
"""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from xferlib._core.array import SUPPORTED
from xferlib._core.containers import parts, remade
from xferlib._pipeline.chunk_ledger import Results
from xferlib._pipeline.chunk_map import ChunkMap, chunks_of, targets_of
from xferlib._pipeline.engines import portable, ranges
from xferlib.errors import ArgumentError, DistributedError, XferError, shown

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
    """The results of every rank's chunks, in the order of the ranks, in every rank.

    Raises:
        ArgumentError: A rank has a result that cannot be sent, or received here; the others raise, too.
    """
    try:
        data, error = _packed(values), None
    except XferError as refused:  # the others must not wait for it
        data, error = _framed({"error": str(refused)}, []), refused
    rows = _exchanged(comm, data)
    if error is not None:
        raise error
    samples: dict[Any, Any] = {}
    _sample(values, samples)
    return [_unpacked(row, rank, samples) for rank, row in enumerate(rows)]


def _exchanged(comm: Any, data: bytes) -> list[bytes]:
    """The bytes of every rank."""
    if not hasattr(comm, "all_gather") and not hasattr(comm, "Allgather"):
        return list(comm.allgather(data))
    size = np.array([len(data)], np.int64)
    sizes = _all_gathered(comm, size)[:, 0]
    if sizes.min() < 0:
        raise DistributedError(
            "stream_map: a rank has sent results of less than nothing; run one program on every rank"
        )
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    rows = _all_gathered(comm, padded)
    return [row[:nbytes].tobytes() for row, nbytes in zip(rows, sizes.tolist(), strict=True)]


def _all_gathered(comm: Any, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
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


def _packed(values: list[Any]) -> bytes:
    """Values as bytes.

    Raises:
        ArgumentError: There is something among them that cannot be sent.
    """
    arrays: list[np.ndarray[Any, Any]] = []
    try:
        told = _told(values, arrays)
        return _framed({"tree": told, "arrays": [[each.dtype.name, each.shape] for each in arrays]}, arrays)
    except RecursionError as error:
        raise ArgumentError("stream_map: a result is nested too deeply, or holds itself; give a flatter one") from error


def _framed(header: Any, arrays: list[np.ndarray[Any, Any]]) -> bytes:
    text = json.dumps(header).encode()
    return b"".join([len(text).to_bytes(8, "little"), text, *(each.tobytes() for each in arrays)])


def _told(value: Any, arrays: list[np.ndarray[Any, Any]]) -> list[Any]:
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
        return [cls.__name__, [_told(each, arrays) for each in value]]
    if cls is np.ndarray and value.dtype in SUPPORTED:
        arrays.append(value)
        return ["array", len(arrays) - 1]
    if cls in _DICTS.values() and not getattr(value, "__dict__", None):
        items = [[_told(key, arrays), _told(each, arrays)] for key, each in value.items()]
        if cls is not defaultdict:
            return [cls.__name__, items]
        if value.default_factory is None or value.default_factory in _FACTORIES.values():
            return [cls.__name__, items, getattr(value.default_factory, "__name__", None)]
    inside = parts(value)
    if inside is None or not all(step.is_named for step, _ in inside):  # what is registered has more than its children
        raise ArgumentError(
            f"stream_map: a result holds {shown(value)}, which is not sent between ranks; give arrays, numbers and "
            "texts in dicts, lists, tuples and dataclasses"
        )
    return ["object", _kind(value, inside), [_told(each, arrays) for _, each in inside]]


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


def _unpacked(data: Any, rank: int, samples: dict[Any, Any]) -> list[Any]:
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
            dtype = np.dtype(name)
            if dtype not in SUPPORTED or type(data) is not bytes:
                raise ValueError(f"dtype {shown(name)} in {type(data).__name__}")
            found = np.ndarray(tuple(shape), dtype, data, place)  # refuses what does not fit
            arrays.append(found.copy())
            place += found.nbytes
        values = _made(header["tree"], arrays, samples, rank)
        if place != len(data) or type(values) is not list:
            raise ValueError(f"{len(data) - place} bytes behind them")
        return values
    except XferError:
        raise
    except Exception as error:
        raise DistributedError(
            f"stream_map: rank {rank} has sent what are no results ({str(error)[:200]}); run the same program and the "
            "same xferlib on every rank"
        ) from error


def _made(told: list[Any], arrays: list[np.ndarray[Any, Any]], samples: dict[Any, Any], rank: int) -> Any:
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
        made = [_made(each, arrays, samples, rank) for each in value]
        return made if kind == "list" else tuple(made)
    if kind in _DICTS:
        cls = _DICTS[kind]
        found = defaultdict(_FACTORIES[more[0]] if more[0] else None) if cls is defaultdict else cls()
        for key, each in value:
            found[_made(key, arrays, samples, rank)] = _made(each, arrays, samples, rank)
        return found
    if kind != "object":
        raise ValueError(f"a {shown(kind)}")
    if value not in samples:
        raise ArgumentError(
            f"stream_map: rank {rank} has a result of class {value.partition('(')[0]}, and this one has none with the "
            "same attributes, and so does not know how to make it; give arrays, numbers and texts in dicts, lists and "
            "tuples"
        )
    children = [_made(each, arrays, samples, rank) for each in more[0]]
    if len(children) != len(parts(samples[value]) or ()):
        raise ValueError(f"{len(children)} parts of a {value}")
    return remade(samples[value], children)


def _explain(error: BaseException, request: MapRequest, fact: str) -> None:
    """Say in an error how to repeat the call: what the other ranks have stored is not known here."""
    found: Any = error
    found.rows_done, found.out, found.reduced = request.first, request.out, None
    error.add_note(f"stream_map: {fact}; to repeat the call, make it again on every rank")


def _refuse_silent(comm: Any) -> None:
    if not any(hasattr(comm, name) for name in ("all_gather", "Allgather", "allgather")):
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
