"""`stream_map` in other processes: executors, a Dask cluster whose worker dies, and ranks; the bits of one process."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import dataclasses
import functools
import itertools
import multiprocessing
import operator
import os
import pickle
import re
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from tests.rows import OUTS, SOURCES, mapped
from xferlib.errors import ArgumentError, DistributedError, DistributedTimeoutError, LayoutError
from xferlib.testing import assert_same_bits

DATA = np.random.default_rng(5).standard_normal((1000, 30)).astype("float32")


class Cluster:
    """As much of a Dask client as `stream_map` uses, over threads of this process.

    Args:
        workers: Their number, each time that it is asked for; the last one from then on.
        gather: Awaited in place of each range's result, which is not computed.
    """

    def __init__(self, *workers: int, gather: Callable[[], Any] | None = None) -> None:
        self._workers = itertools.chain(workers[:-1], itertools.repeat(workers[-1]))
        self._pool = ThreadPoolExecutor(max(workers))
        self._gather = gather
        self.cancelled: list[Any] = []
        self.loop = SimpleNamespace(asyncio_loop=asyncio.new_event_loop())
        self._thread = threading.Thread(target=self.loop.asyncio_loop.run_forever)

    def nthreads(self) -> dict[int, int]:
        return dict.fromkeys(range(next(self._workers)), 1)

    def submit(self, function: Any, job: Any, low: int, high: int, carried: Any, *, pure: bool) -> Any:
        if self._gather is not None:
            return low, high
        return self._pool.submit(function, job, low, high, carried)

    async def gather(self, task: Any, *, asynchronous: bool) -> Any:
        return await (asyncio.wrap_future(task) if self._gather is None else self._gather())

    def cancel(self, tasks: list[Any]) -> None:
        self.cancelled += tasks
        for each in tasks:
            if self._gather is None:
                each.cancel()

    def __enter__(self) -> Cluster:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        loop = self.loop.asyncio_loop
        asyncio.run_coroutine_threadsafe(end_tasks(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()


async def end_tasks() -> None:
    """End the other tasks of a loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@pytest.fixture
def threads() -> Iterator[Cluster]:
    with xl.use_backend("numpy"), Cluster(2) as cluster:
        yield cluster


def doubled(chunk: Any) -> Any:
    return chunk * 2


def total(chunk: Any) -> Any:
    return xl.get_array_module(chunk).sum(chunk)


# --- what goes in and out


@pytest.mark.parametrize("kind", SOURCES)
def test_rows_come_from_anything(kind: str, threads: Cluster, tmp_path: Path) -> None:
    source = SOURCES[kind](tmp_path / "rows", DATA)
    assert_same_bits(xl.stream_map(doubled, source, chunk_rows=7, engine=threads), DATA * 2)
    summed = xl.stream_map(total, source, chunk_rows=7, engine=threads, reduce=operator.add)
    assert_same_bits(summed, xl.stream_map(total, DATA, chunk_rows=7, reduce=operator.add))


@pytest.mark.parametrize("kind", ["none", *OUTS])
def test_results_go_into_anything(kind: str, threads: Cluster, tmp_path: Path) -> None:
    out = None if kind == "none" else OUTS[kind](tmp_path / "results", DATA)
    found = xl.stream_map(doubled, DATA, chunk_rows=7, out=out, engine=threads)
    assert out is None or found is out
    assert_same_bits(np.asarray(found[0:1000]), DATA * 2)


def filtered(x: Any, y: Any) -> Any:
    """The sums of neighbouring rows of one source, times those of the other, with a halo of two."""
    return x[:-4] + x[1:-3] * y[2:-2] + x[4:] * y[4:]


def filter_rows(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], mode: Any) -> Any:
    return filtered(*(np.pad(each, [(2, 2), (0, 0)], mode=mode) for each in (x, y)))


@pytest.mark.parametrize("kind", SOURCES)
def test_chunks_with_a_halo_of_several_sources_meet_at_the_ends_of_ranges(
    kind: str, threads: Cluster, tmp_path: Path
) -> None:
    """Whether workers open the rows or get them with their task; the function trims its result in one of the calls."""
    x, y = DATA[:200], DATA[200:400]
    sources = SOURCES[kind](tmp_path / "x", x), Reader(y)
    options: Any = {"chunk_rows": 7, "halo": 2, "boundary": "reflect"}
    found = xl.stream_map(filtered, *sources, engine=threads, **options)
    assert_same_bits(found, filter_rows(x, y, "reflect"))
    out = mapped(tmp_path / "out", np.zeros_like(x))
    xl.stream_map(lambda x, y: np.pad(filtered(x, y), [(2, 2), (0, 0)]), *sources, out=out, engine=threads, **options)
    assert_same_bits(out, filter_rows(x, y, "reflect"))


class Reader:
    """Rows that are too many to travel as a whole, read into memory or by slices."""

    def __init__(self, data: np.ndarray[Any, Any]) -> None:
        self._data = data
        self.shape, self.dtype = data.shape, data.dtype
        self.ballast = bytes(2 << 20)

    def __getitem__(self, part: slice) -> Any:
        return self._data[part]

    def read_into(self, out: np.ndarray[Any, Any], start: int) -> None:
        out[...] = self._data[start : start + len(out)]


@given(rows=st.integers(0, 40), chunk_rows=st.integers(1, 50), start=st.integers(0, 6), workers=st.integers(1, 3))
def test_every_cut_gives_each_row_once(rows: int, chunk_rows: int, start: int, workers: int) -> None:
    data, first = np.arange(rows * 2.0).reshape(rows, 2), min(start * chunk_rows, rows)
    seen: list[int] = []

    def noted(chunk: Any) -> Any:
        seen.append(len(chunk))
        return chunk + 1

    out = np.zeros_like(data)
    with xl.use_backend("numpy"), Cluster(workers) as executor:
        xl.stream_map(noted, data, chunk_rows=chunk_rows, out=out, start=first, engine=executor)
    assert_same_bits(out[first:], data[first:] + 1)
    assert not out[:first].any()
    assert sorted(seen) == sorted(min(chunk_rows, rows - low) for low in range(first, rows, chunk_rows))


def test_a_worker_computes_one_range_at_a_time_on_the_backend_that_the_program_has_chosen() -> None:
    inside, most, names = threading.Semaphore(), [], set()

    def noted(chunk: Any) -> Any:
        most.append(inside.acquire(blocking=False))
        names.add(xl.get_backend().name)
        value = chunk + 1
        inside.release()
        return value

    with xl.use_backend("sim"), Cluster(4) as executor:
        assert_same_bits(xl.stream_map(noted, DATA, chunk_rows=50, engine=executor), DATA + 1)
    assert all(most)
    assert names == {"sim"}


def test_devices_are_named_as_the_worker_has_them(threads: Cluster) -> None:
    seen: list[str] = []

    def noted(chunk: Any) -> Any:
        seen.append(str(xl.device_of(chunk)))
        return chunk + 1

    devices = ["sim:sim:0", "sim:sim:1"]
    assert_same_bits(xl.stream_map(noted, DATA, chunk_rows=50, engine=threads, devices=iter(devices)), DATA + 1)
    assert {name: seen.count(name) for name in seen} == dict.fromkeys(devices, 10)


def test_results_may_be_trees_and_are_folded_in_the_order_of_the_rows(threads: Cluster) -> None:
    def ends(chunk: Any) -> Any:
        return {"first": chunk[0, 0], "rows": [len(chunk)]}

    def fold(one: Any, two: Any) -> Any:
        return {"first": [*np.ravel(one["first"]), two["first"]], "rows": one["rows"] + two["rows"]}

    found = xl.stream_map(ends, DATA, chunk_rows=99, engine=threads, reduce=fold)
    assert found["rows"] == [99] * 10 + [10]
    assert_same_bits(np.array(found["first"]), DATA[::99, 0])


# --- errors


def test_an_error_says_how_far_it_came_and_the_call_can_go_on(threads: Cluster, tmp_path: Path) -> None:
    out, told = mapped(tmp_path / "results", np.zeros_like(DATA)), []
    is_broken = True

    def failing(chunk: Any) -> Any:
        if is_broken and chunk[0, 0] == DATA[500, 0]:
            raise ZeroDivisionError
        return chunk * 2

    with pytest.raises(ZeroDivisionError) as raised:
        xl.stream_map(failing, DATA, chunk_rows=10, out=out, engine=threads, progress=lambda *each: told.append(each))
    error: Any = raised.value
    assert error.out is out
    assert error.rows_complete == told[-1][0] <= 500
    assert_same_bits(out[: error.rows_complete], DATA[: error.rows_complete] * 2)
    assert "start=error.rows_complete" in error.__notes__[-1]
    is_broken = False
    xl.stream_map(failing, DATA, chunk_rows=10, out=out, start=error.rows_complete, engine=threads)
    assert_same_bits(out, DATA * 2)


def test_progress_comes_in_the_order_of_the_rows_and_ends_at_the_end(threads: Cluster) -> None:
    told: list[tuple[int, int]] = []
    xl.stream_map(doubled, DATA, chunk_rows=10, engine=threads, progress=lambda *each: told.append(each))
    assert told == sorted(told)
    assert (told[0], told[-1]) == ((0, 1000), (1000, 1000))


def test_a_source_is_not_replaced_by_its_results_where_a_range_may_be_tried_again(
    threads: Cluster, tmp_path: Path
) -> None:
    rows = mapped(tmp_path / "rows", DATA)
    with pytest.raises(LayoutError, match="out is the source itself"):
        xl.stream_map(doubled, rows, chunk_rows=10, out=rows, engine=threads)
    assert_same_bits(rows, DATA)


@pytest.mark.parametrize("engine", [object(), 3, "client", Cluster, SimpleNamespace(rank=0, size=1)])
def test_what_is_not_an_engine_is_refused(engine: Any) -> None:
    with pytest.raises(ArgumentError, match=r"is not an engine; give a dask.distributed.Client"):
        xl.stream_map(doubled, DATA, chunk_rows=10, engine=engine)


def test_an_executor_is_refused_with_the_remedy() -> None:
    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(ArgumentError, match=r"in place of an executor start a cluster"),
    ):
        xl.stream_map(doubled, DATA, chunk_rows=10, engine=executor)


# --- processes


def uuid_of(chunk: Any) -> Any:
    return np.frombuffer(xl.device_of(chunk).uuid.encode(), np.uint8)


@pytest.mark.parametrize("name", ["cupy", "torch", "pycuda"])
def test_each_worker_computes_on_the_gpu_that_it_sees(name: str) -> None:
    gpus = [each for each in map(xl.Device, xl.available_backends()[name].devices) if each.kind == "cuda"]
    if len(gpus) < 2:
        pytest.skip(f"{name} has no two GPUs here")
    distributed = pytest.importorskip("distributed")
    sees = [
        {"cls": distributed.Nanny, "options": {"nthreads": 1, "env": {"CUDA_VISIBLE_DEVICES": str(gpu)}}}
        for gpu in (0, 1)
    ]
    options = {
        "workers": dict(enumerate(sees)),
        "scheduler": {"cls": distributed.Scheduler, "options": {"dashboard": False}},
    }
    with xl.use_backend(name), distributed.SpecCluster(**options) as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(2)
        seen = xl.stream_map(uuid_of, DATA, chunk_rows=7, engine=client, initial=set(),
                             reduce=lambda found, each: {*found, bytes(each).decode()})  # fmt: skip
    assert seen == {each.uuid for each in gpus[:2]}


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of a Dask cluster of two processes on this host."""
    distributed = pytest.importorskip("distributed")
    import dask

    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    # Workers are forked from a process that has imported what they need.
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    with dask.config.set({"distributed.worker.multiprocessing-method": method}):
        distributed.utils.get_mp_context().set_forkserver_preload(["distributed", __name__])
        with distributed.LocalCluster(**options, silence_logs=50) as cluster, distributed.Client(cluster) as made:
            yield made


def die_once(mark: Path) -> None:
    """Kill this process, unless another one was killed already."""
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("backend", ["numpy", *(["sim"] if os.environ.get("XFERLIB_TEST_LONG") else [])])
def test_a_worker_that_dies_in_the_middle_changes_nothing(client: Any, backend: str, tmp_path: Path) -> None:
    rows, out = mapped(tmp_path / "rows", DATA, "r"), mapped(tmp_path / "results", np.zeros_like(DATA))
    dead, dies_at = tmp_path / "dead", float(DATA[560, 0])

    def mortal(chunk: Any) -> Any:
        if float(xl.to_host(chunk)[0, 0]) == dies_at:
            die_once(dead)
        return (chunk * 3 - 1) / 7

    with xl.use_backend(backend):
        assert xl.stream_map(mortal, rows, chunk_rows=7, out=out, engine=client) is out
        assert dead.exists()
        assert_same_bits(out, xl.stream_map(mortal, DATA, chunk_rows=7))


def test_a_reduction_on_a_cluster_has_the_bits_of_one_process(client: Any, tmp_path: Path) -> None:
    rows, dead = mapped(tmp_path / "rows", DATA, "r"), tmp_path / "dead"

    def mortal(chunk: Any) -> Any:
        if len(chunk) < 7:  # in the last range
            die_once(dead)
        return total(chunk)

    found = [xl.stream_map(mortal, rows, chunk_rows=7, reduce=operator.add, engine=each) for each in (client, None)]
    assert dead.exists()
    assert_same_bits(*found)


def test_a_halo_and_two_sources_on_a_cluster_have_the_bits_of_one_process(client: Any, tmp_path: Path) -> None:
    x, y = mapped(tmp_path / "x", DATA, "r"), DATA[::-1].copy()
    options: Any = {"chunk_rows": 30, "halo": 2, "boundary": "symmetric"}
    found = xl.stream_map(filtered, x, y, engine=client, **options)
    assert_same_bits(found, xl.stream_map(filtered, DATA, y, **options))


def test_an_error_on_a_worker_is_raised_here(client: Any) -> None:
    def failing(chunk: Any) -> Any:
        return chunk[:, :3, 0]

    with pytest.raises(IndexError) as raised:
        xl.stream_map(failing, DATA, chunk_rows=100, engine=client)
    assert any("in the range of rows" in note for note in raised.value.__notes__)
    assert raised.value.rows_complete == 0


def test_a_cluster_without_workers_is_an_error_and_not_a_wait() -> None:
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 0, "dashboard_address": ":0", "processes": False, "silence_logs": 50}
    refused = pytest.raises(ArgumentError, match=r"no workers; start some, or wait for them")
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as empty, refused:
        xl.stream_map(doubled, DATA, chunk_rows=10, engine=empty)


def test_a_cluster_whose_workers_are_gone_for_good_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xferlib._pipeline.stream_map._LOOK_S", 0.0)
    monkeypatch.setattr("xferlib._pipeline.stream_map._DESERTED_S", -1.0)
    refused = pytest.raises(DistributedTimeoutError, match="the cluster has had no workers for")
    with Cluster(1, 1, 0, gather=lambda: asyncio.Event().wait()) as cluster, refused as raised:
        xl.stream_map(doubled, DATA, chunk_rows=10, depth=1, engine=cluster)
    assert cluster.cancelled == [(0, 120), (120, 240)]
    assert "0 of 1000 rows are done" in raised.value.__notes__[-1]


def test_a_cluster_without_its_scheduler_is_an_error() -> None:
    async def lost() -> None:
        raise concurrent.futures.CancelledError("range-1 cancelled for reason: scheduler-connection-lost.\nmore")

    refused = pytest.raises(DistributedError, match=r"dropped a range: .*-lost. its scheduler has ended, or the client")
    with Cluster(1, gather=lost) as cluster, refused:
        xl.stream_map(doubled, DATA, chunk_rows=500, engine=cluster)


def test_processes_do_not_share_a_block_of_a_zarr_array(client: Any, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr")
    rows = zarr.create_array(str(tmp_path / "rows"), shape=DATA.shape, chunks=(64, 30), dtype="float32")
    rows[...] = DATA
    out = zarr.create_array(str(tmp_path / "out"), shape=DATA.shape, chunks=(96, 11), dtype="float32")
    memory = zarr.create_array(zarr.storage.MemoryStore(), shape=DATA.shape, chunks=(96, 11), dtype="float32")
    for each in (out, memory):
        assert xl.stream_map(doubled, rows, chunk_rows=5, out=each, engine=client) is each
        assert_same_bits(each[...], DATA * 2)


# --- ranks


class Ranks:
    """A communicator of threads, each of which is a rank."""

    def __init__(self, size: int) -> None:
        self._barrier = threading.Barrier(size)
        self.comms = [SimpleNamespace(rank=rank, size=size, barrier=self._barrier.wait) for rank in range(size)]

    def run(self, program: Callable[[Any], Any]) -> list[Any]:
        """Run a program in each rank, on NumPy."""

        def work(comm: Any) -> Any:
            with xl.use_backend("numpy"):
                return program(comm)

        with ThreadPoolExecutor(len(self.comms)) as executor:
            return list(executor.map(work, self.comms))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("chunk_rows", [7, 400])
def test_each_rank_computes_its_part_and_returns_when_all_have(size: int, chunk_rows: int, tmp_path: Path) -> None:
    mapped(tmp_path / "results", np.zeros_like(DATA))
    seen: dict[int, int] = dict.fromkeys(range(size), 0)
    told: dict[int, list[tuple[int, int]]] = {rank: [] for rank in range(size)}

    def program(comm: Any) -> None:
        def noted(chunk: Any) -> Any:
            seen[comm.rank] += len(chunk)
            return chunk * 2

        out: Any = np.memmap(tmp_path / "results", "float32", "r+", shape=DATA.shape)
        tell = lambda *each: told[comm.rank].append(each)
        xl.stream_map(noted, DATA, chunk_rows=chunk_rows, out=out, engine=comm, progress=tell)
        assert_same_bits(out, DATA * 2)

    Ranks(size).run(program)
    assert sum(seen.values()) == len(DATA)
    assert max(seen.values()) <= -(-len(DATA) // size) + chunk_rows
    assert all(told[rank][-1] == (seen[rank], seen[rank]) for rank in range(size))


@pytest.mark.parametrize("size", [1, 3])
def test_ranks_see_the_rows_of_their_neighbours(size: int, tmp_path: Path) -> None:
    x, y = DATA[:500], DATA[500:]
    out = mapped(tmp_path / "results", np.zeros_like(x))
    files = mapped(tmp_path / "x", x, "r"), y
    options: Any = {"chunk_rows": 9, "halo": 2, "boundary": "wrap"}
    Ranks(size).run(
        lambda comm: xl.stream_map(filtered, *files, out=mapped_again(tmp_path / "results", x), engine=comm, **options)
    )
    assert_same_bits(out, filter_rows(x, y, "wrap"))


def mapped_again(path: Path, like: np.ndarray[Any, Any]) -> Any:
    return np.memmap(path, like.dtype, "r+", shape=like.shape)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "out is missing; give each rank the same file"),
        ({"out": np.zeros_like(DATA)}, "out is ndarray, in this process's memory"),
        ({"reduce": max}, "reduce needs the results of all ranks, but engine is SimpleNamespace"),
    ],
)
def test_ranks_need_an_out_that_they_share_or_a_communicator_that_gathers(options: dict[str, Any], words: str) -> None:
    comm = SimpleNamespace(rank=0, size=2, barrier=lambda: None)
    with pytest.raises(ArgumentError, match=words):
        xl.stream_map(doubled, DATA, chunk_rows=10, engine=comm, **options)


def gathering(ranks: Ranks, kind: str, change: Callable[[Any], Any] = lambda value: value) -> Ranks:
    """Give the communicators the method by which they gather; ``change`` is what the network does to rank 0's."""
    given: list[Any] = [None] * len(ranks.comms)

    def gather(rank: int, value: Any) -> Any:
        given[rank] = change(value) if rank == 0 else value
        ranks.comms[0].barrier()
        found = list(given) if kind == "allgather" else np.stack(given)
        ranks.comms[0].barrier()
        return found

    def fill(rank: int, value: Any, out: Any) -> None:
        out[...] = gather(rank, value)

    for comm in ranks.comms:
        setattr(comm, kind, functools.partial(fill if kind == "Allgather" else gather, comm.rank))
    return ranks


GATHERS = ["all_gather", "Allgather", "allgather"]


@pytest.mark.parametrize("kind", GATHERS)
def test_every_rank_gets_the_folded_value_with_the_bits_of_one_process(kind: str) -> None:
    options: dict[str, Any] = {"chunk_rows": 7, "reduce": operator.add, "initial": np.float32(3)}
    with xl.use_backend("numpy"):
        alone = xl.stream_map(total, DATA, **options)
    for found in gathering(Ranks(3), kind).run(lambda comm: xl.stream_map(total, DATA, engine=comm, **options)):
        assert_same_bits(found, alone)


@dataclasses.dataclass(frozen=True)
class Moments:
    count: int
    mean: Any


class Pair(NamedTuple):
    low: Any
    high: Any


def results(number: int) -> list[Any]:
    """Objects of many classes, different in each chunk."""
    x = np.arange(6.0).reshape(2, 3) + number
    metadata: Any = collections.OrderedDict(z=x, a=1)
    metadata.about = [number]
    return [
        x.T, x[:0], x.astype("complex64"), np.array(number), x > 2, Moments(number, x), Pair(x, (number, None)),
        collections.Counter({"a": number, (1, b"b"): 2}), collections.defaultdict(list, {number: [x]}), metadata,
        collections.deque([x, number], 3), SimpleNamespace(x=x, n=number), collections.UserDict({"x": x}),
        {"text": f"\ud800{number}", 1.5: float("nan"), None: -0.0, True: complex(number, float("-inf"))},
        10 ** (400 + number), bytes([number]), [[[]], (), {}],
    ]  # fmt: skip


def flat(value: Any) -> Any:
    """A form of results in which equal bits are equal."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.flags.f_contiguous, value.tobytes()
    if isinstance(value, dict):
        return type(value), [(key, flat(each)) for key, each in value.items()], flat(getattr(value, "__dict__", None))
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value), [flat(each) for each in value], getattr(value, "maxlen", None)
    return (type(value), flat(vars(value))) if hasattr(value, "__dict__") else (type(value), repr(value))


@pytest.mark.parametrize("kind", GATHERS)
def test_ranks_reduce_results_of_many_classes(kind: str) -> None:
    def program(comm: Any) -> Any:
        make = lambda chunk: [results(int(chunk[0]))]
        return xl.stream_map(make, np.arange(7), chunk_rows=1, reduce=operator.add, engine=comm)

    for found in gathering(Ranks(3), kind).run(program):
        assert list(map(flat, found)) == [flat(xl.tree.to_host(results(number))) for number in range(7)]


class Bomb:
    """An object whose pickle would do harm."""

    has_gone_off = False

    @staticmethod
    def go_off() -> Any:
        Bomb.has_gone_off = True
        return [1.0]

    def __reduce__(self) -> Any:
        return Bomb.go_off, ()


def test_what_comes_from_other_ranks_is_never_unpickled() -> None:
    sent = (
        pickle.dumps([Bomb()]), b"", b"\xff" * 8, (2).to_bytes(8, "little") + b"[]" + pickle.dumps(Bomb()),
        *(len(text).to_bytes(8, "little") + text for text in (
            b'{"tree": ["list", [["array", 0]]], "arrays": [["object", [1]]]}',
            b'{"tree": ["list", [["array", 0]]], "arrays": [["float64", [1000000000000]]]}',
            b'{"tree": ["list", [["object", "builtins.eval(.x)", [["value", "1"]]]]], "arrays": []}',
            b'{"tree": ["value", [1]], "arrays": []}', b'{"tree": ' + b'["list", [' * 50_000,
        )),
    )  # fmt: skip

    def program(comm: Any) -> Any:
        with pytest.raises((DistributedError, ArgumentError)) as caught:
            xl.stream_map(lambda chunk: 1.0, np.arange(4), chunk_rows=1, reduce=max, engine=comm)
        return str(caught.value)

    for data in sent:
        for said in gathering(Ranks(2), "allgather", lambda _, data=data: data).run(program):
            assert said.startswith("stream_map: rank 0 has ")
    assert not Bomb.has_gone_off
    package = Path(xl.__file__).parent
    for file in {*package.rglob("*.py")} - {*package.glob("testing/*.py")}:  # tests send nothing
        assert not re.search(r"pickle\.loads?\(|marshal|Unpickler|all_gather_object", file.read_text("utf-8")), file


def test_a_result_that_cannot_be_sent_is_an_error_in_every_rank() -> None:
    def program(comm: Any) -> Any:
        unsent = lambda chunk: {2, 3} if chunk[0] == 1 else 1.0
        with pytest.raises(ArgumentError) as caught:
            xl.stream_map(unsent, np.arange(4), chunk_rows=1, reduce=max, engine=comm)
        return str(caught.value)

    said = gathering(Ranks(2), "all_gather").run(program)
    assert all("a result holds an object of type set, which is not sent between ranks" in each for each in said)
    assert said[1].startswith("rank 0: ")


def test_one_rank_alone_is_as_without_an_engine() -> None:
    comm = SimpleNamespace(rank=0, size=1, barrier=lambda: None)
    assert_same_bits(xl.stream_map(doubled, DATA, chunk_rows=10, engine=comm), DATA * 2)
    found = [xl.stream_map(total, DATA, chunk_rows=10, reduce=operator.add, engine=each) for each in (comm, None)]
    assert_same_bits(*found)


def test_a_rank_that_fails_says_which_rows_it_had(tmp_path: Path) -> None:
    out = mapped(tmp_path / "results", np.zeros_like(DATA))
    comm = SimpleNamespace(rank=1, size=2, barrier=lambda: None)

    def failing(chunk: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        xl.stream_map(failing, DATA, chunk_rows=10, out=out, engine=comm)
    assert raised.value.rows_complete == 0
    assert raised.value.__notes__[-1].startswith("stream_map: rank 1 of 2 had rows 500 to 1000")
