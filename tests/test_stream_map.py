"""`stream_map`: sources and sinks of every kind, bounded memory, and an interrupt that loses nothing."""

from __future__ import annotations

import errno
import gc
import itertools
import mmap
import os
import platform
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from tests.processes import printed
from tests.rows import OUTS, SOURCES, Filling, Sliced, mapped
from xferlib import errors as e
from xferlib._pipeline import chunks as chunk_ledger
from xferlib.testing import advised, assert_same_bits, load_backend, start_results_early

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture(autouse=True)
def begun() -> Iterator[None]:
    """Every result is begun while the one before is received, as large ones are; the conformance suite has others."""
    with start_results_early():
        yield


def rows(count: int = 100, width: int = 3000, dtype: str = "int32") -> np.ndarray[Any, Any]:
    return np.arange(count * width).reshape(count, width).astype(dtype)


def same(chunk: Any) -> Any:
    return chunk


@pytest.mark.parametrize("kind", SOURCES)
def test_rows_come_from_anything_with_rows(kind: str, tmp_path: Path) -> None:
    data = rows(45)
    source = SOURCES[kind](tmp_path / "rows", data)
    for _ in range(2):
        assert_same_bits(xl.stream_map(same, source, chunk_rows=7), data)
    summed = xl.stream_map(lambda chunk: xl.to_host(chunk).sum(axis=1, dtype=np.float64), source, chunk_rows=7)
    assert_same_bits(summed, data.sum(axis=1, dtype=np.float64))


@pytest.mark.parametrize("kind", [*OUTS, "itself"])
def test_results_go_into_anything_with_rows(kind: str, tmp_path: Path) -> None:
    data = rows(45)
    out = mapped(tmp_path / "rows", data) if kind == "itself" else OUTS[kind](tmp_path / "rows", data)
    add = lambda chunk: xl.to_device(xl.to_host(chunk) + 1)
    assert xl.stream_map(add, out if kind == "itself" else data, chunk_rows=7, out=out) is out
    assert_same_bits(np.asarray(out[0:45]), data + 1)
    if kind == "sliced":
        assert out.written == [(low, min(low + 7, 45)) for low in range(0, 45, 7)]


class Read(np.memmap[Any, Any]):
    """Notes the rows that are read, and how far the disk had been asked for them."""

    seen: list[tuple[int, int]]
    asked: list[tuple[str, int, int]]

    def __getitem__(self, part: Any) -> Any:
        if "seen" in vars(self):
            self.seen.append((part.stop, len(self.asked)))
        return super().__getitem__(part)


def test_the_disk_is_asked_for_every_row_of_a_memory_map_once_in_pieces_and_before_it_is_read(tmp_path: Path) -> None:
    data = rows(60, 40_000)  # rows of 160 kB
    file = mapped(tmp_path / "rows", data, "r").view(Read)
    page, start = mmap.PAGESIZE, file.ctypes.data
    with advised() as advice:
        file.seen, file.asked = [], advice
        assert_same_bits(xl.stream_map(same, file, chunk_rows=7), data)
    spans: dict[str, list[tuple[int, int]]] = {"MADV_WILLNEED": [], "MADV_DONTNEED": []}
    for name, address, nbytes in advice:
        spans[name].append((address - start, address - start + nbytes))
    asked, dropped = spans.values()
    assert sum(high - low for low, high in dropped) > data.nbytes - 10 * 2 * page
    assert all((start + low) % page == (start + high) % page == 0 for low, high in dropped)
    assert sorted({stop for stop, _ in file.seen}) == [7, 14, 21, 28, 35, 42, 49, 56, 60]
    if xl.get_device().kind == "cpu":  # one thread reads the rows, and the kernel ahead of it by itself
        assert not asked
        return
    for stop, count in file.seen:
        ends = [at + nbytes - start for name, at, nbytes in advice[:count] if name == "MADV_WILLNEED"]
        assert ends[-1] >= stop * 160_000
    assert asked[0][0] <= 0
    assert asked[-1][1] == data.nbytes
    assert all(0 <= before[1] - after[0] < page for before, after in itertools.pairwise(asked))
    assert all(0 < high - low <= 512 << 10 and (start + low) % page == 0 for low, high in asked)


def test_pages_of_other_memory_than_rows_of_a_map_are_left_alone(tmp_path: Path) -> None:
    data = rows()
    stray = data.view(np.memmap)
    stray._mmap, stray.mode = mapped(tmp_path / "rows", data, "r")._mmap, "r"  # type: ignore[attr-defined]
    columns = mapped(tmp_path / "columns", rows(), "r+")[:, ::2]
    with advised() as advice:
        assert_same_bits(xl.stream_map(same, stray, chunk_rows=7), data)
        assert_same_bits(xl.stream_map(same, columns, chunk_rows=7), rows()[:, ::2])
        xl.stream_map(same, np.zeros_like(columns), chunk_rows=7, out=columns)
    assert not columns.any()
    assert advice == []


@pytest.mark.parametrize("what", ["source", "out"])
@pytest.mark.parametrize("chunks_before", [0, 2])
def test_a_file_that_was_truncated_is_an_error_and_does_not_end_the_process(
    tmp_path: Path, what: str, chunks_before: int
) -> None:
    file = mapped(tmp_path / "rows", rows())
    calls = itertools.count()

    def truncating(chunk: Any) -> Any:
        if next(calls) == chunks_before:
            os.truncate(tmp_path / "rows", file.nbytes // 2)
        return chunk

    arrays = {"source": rows()[3:], "out": np.empty_like(rows()[3:]), what: file[3:]}
    if not chunks_before:
        os.truncate(tmp_path / "rows", file.nbytes // 2)
    with pytest.raises(e.LayoutError, match=f"{what} is a memory map of {file.nbytes} bytes of .*rows, which has been"):
        xl.stream_map(truncating, arrays["source"], chunk_rows=7, out=arrays["out"])


def test_a_disk_without_room_for_the_results_is_an_error_and_does_not_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=0, f_frsize=4096))
    out = mapped(tmp_path / "rows", np.zeros_like(rows()))
    with advised() as advice:
        assert_same_bits(xl.stream_map(same, rows(), chunk_rows=7, out=out), rows())  # its pages exist
    assert sys.platform != "linux" or advice[0][0] == "MADV_POPULATE_WRITE"
    monkeypatch.setattr("xferlib._memory.buffers._advise_kernel", lambda *_: errno.EFAULT)
    with pytest.raises(e.TransferError, match=r"the disk of .*rows has no room for rows \d+ to \d+ of out; free"):
        xl.stream_map(same, rows(), chunk_rows=7, out=out)


# --- memory


@pytest.mark.parametrize("kind", ["sliced", "filling"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_more_than_depth_chunks_are_read_ahead(kind: str, depth: int) -> None:
    source: Any = Sliced(rows()) if kind == "sliced" else Filling(rows())
    computed = itertools.count(1)

    def checked(chunk: Any) -> Any:
        if kind == "sliced":
            assert len(source.asked) <= next(computed) - 1 + depth
        return chunk

    assert_same_bits(xl.stream_map(checked, source, chunk_rows=5, depth=depth), rows())
    if kind == "filling":
        assert len(source.filled) <= depth


@pytest.mark.parametrize("depth", [1, 3])
def test_device_memory_is_bounded_whatever_the_size(backend: str, depth: int) -> None:
    if backend != "sim":
        pytest.skip("sim counts what is allocated")
    from xferlib.sim.machine import machine

    data = rows(400, 5000)
    used = machine().memory.used.get(0, 0)
    peak = 0

    def watched(chunk: Any) -> Any:
        nonlocal peak
        result = chunk + 1
        peak = max(peak, machine().memory.used.get(0, 0) - used)
        return result

    xl.stream_map(watched, data, chunk_rows=10, depth=depth)
    assert peak <= (2 * depth + 2) * 10 * 5000 * 4


def test_the_next_result_is_begun_while_one_is_received(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    changed = threading.Condition()
    begin = chunk_ledger.Results.begin

    def noted(self: chunk_ledger.Results, number: int, value: Any, stream: Any) -> Callable[[], Any]:
        receive = begin(self, number, value, stream)
        with changed:
            begun.append(number)
            changed.notify_all()

        def receive_late() -> Any:
            with changed:
                assert changed.wait_for(lambda: number == 3 or number + 1 in begun, 60)
            return receive()

        return receive_late

    monkeypatch.setattr(chunk_ledger.Results, "begin", noted)
    source = np.arange(28 * 160_000, dtype=np.float64).reshape(28, -1)  # small chunks take turns on a CPU
    assert_same_bits(xl.stream_map(same, source, chunk_rows=7), source)
    assert sorted(begun) == [0, 1, 2, 3]


@pytest.mark.parametrize("width", [100, 1_200_000])
def test_threads_carry_the_chunks_of_a_cpu_only_where_they_are_large(width: int) -> None:
    others, found = threading.enumerate(), []

    def looked(chunk: Any) -> Any:
        new = [each.name for each in threading.enumerate() if each not in others]
        found.append(any(name.startswith(("xferlib-feed", "xferlib-drain")) for name in new))
        return chunk

    xl.stream_map(looked, np.ones((4, width)), chunk_rows=1)
    assert set(found) == {width > 100 or xl.get_device().kind != "cpu"}


@pytest.mark.skipif(sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="about glibc's malloc")
@pytest.mark.parametrize("backend", ["numpy"], indirect=True)
def test_arrays_of_a_function_on_a_cpu_lie_on_pages_that_were_touched_before() -> None:
    program = """if True:
        import resource, numpy as np, xferlib as xl
        source = np.ones((32768, 256), np.float32)
        out = np.zeros_like(source)
        for chunk_rows in (128, 512, 2048):
            for _ in range(2):
                before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
                xl.stream_map(lambda chunk: np.sqrt(chunk) + 1, source, chunk_rows=chunk_rows, out=out)
            print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC")}  # Dask sets some
    found = printed(
        "-c", program, environ=environment, XFERLIB_BACKEND="numpy", after=()
    )  # malloc reads them at its start
    assert all(int(count) < 1000 for count in found.split())  # of 8192 pages each array


def test_a_chunk_that_is_let_go_gives_its_memory_to_the_next_and_a_view_of_one_does_not() -> None:
    source = np.arange(8 * 50_000.0).reshape(8, -1)
    places: list[int] = []
    views: list[Any] = []

    def placed(chunk: Any) -> Any:
        places.append(chunk.__array_interface__["data"][0] // 4096)
        if len(places) > 4:
            views.append(chunk[0, -3:])
        return chunk.sum(axis=1)

    xl.stream_map(placed, source, chunk_rows=1, devices="numpy:cpu")
    assert len(set(places[:4])) == 1
    assert len(set(places[4:])) == 4
    assert [view.tolist() for view in views] == [row[-3:].tolist() for row in source[4:]]


@pytest.mark.parametrize("dtype", ["float32", ">i4"])
def test_a_chunk_that_the_function_keeps_is_not_filled_again(dtype: str) -> None:
    source = np.arange(12 * 50_000).reshape(12, -1).astype(dtype)  # chunks whose memory a CPU recycles
    kept: list[Any] = []

    def kept_now_and_then(chunk: Any) -> Any:
        if len(places) % 3 == 0:
            kept.append(chunk)
        places.append(xl.get_backend(chunk).view(chunk).pointer // 4096)
        return xl.to_host(chunk) * 2

    places: list[int] = []
    doubled = xl.stream_map(kept_now_and_then, source, chunk_rows=1)
    assert_same_bits(doubled, source.astype(source.dtype.newbyteorder("=")) * 2)
    for number, chunk in enumerate(kept):
        assert_same_bits(xl.to_host(chunk), source[3 * number : 3 * number + 1].astype(doubled.dtype))
    if xl.get_device().kind == "cpu":
        assert len(set(places)) < len(places)  # those that it lets go of are


@pytest.mark.parametrize("offset", [0, 4, 16, 2048])
def test_a_chunk_lies_as_its_rows_do_within_a_page_so_that_no_load_waits_for_an_earlier_store(offset: int) -> None:
    memory = np.empty(4 * 400_000 + 8192, np.uint8)
    begin = -memory.ctypes.data % 4096 + offset
    source = memory[begin : begin + 4 * 400_000].view(np.float32).reshape(4, -1)
    source[:] = rows(4, 100_000)
    places: list[int] = []

    def placed(chunk: Any) -> Any:
        places.append(chunk.ctypes.data % 4096 - chunk.ctypes.data % 4096 % 16)
        return chunk * 2

    assert_same_bits(xl.stream_map(placed, source, chunk_rows=1, devices="numpy:cpu"), source * 2)
    assert places == [row.ctypes.data % 4096 // 16 * 16 for row in source]


# --- chunks that are not copied


@pytest.mark.parametrize("kind", ["array", "map", "swapped", "strided", "read-only"])
def test_a_function_that_only_reads_gets_the_rows_themselves_where_the_device_is_the_hosts_memory(
    kind: str, tmp_path: Path
) -> None:
    data = rows(60, 4000)
    swapped = data.astype(data.dtype.newbyteorder())
    source = swapped if kind == "swapped" else SOURCES[kind](tmp_path / "rows", data)
    is_writeable = source.flags.writeable
    is_on_host = xl.get_device().kind == "cpu"
    shared: set[bool] = set()

    def looked_at(chunk: Any) -> Any:
        if is_on_host:
            shared.add(np.shares_memory(np.asarray(chunk), source))
        if shared == {True} and isinstance(chunk, np.ndarray):
            assert not chunk.flags.writeable
        return same(chunk)

    assert_same_bits(xl.stream_map(looked_at, source, chunk_rows=7, copy=None), data)
    if is_on_host:
        is_kept_from_writing = xl.get_backend().name == "numpy" or kind == "array"
        assert shared == {kind not in ("swapped", "strided") and is_kept_from_writing}
    assert source.flags.writeable == is_writeable  # the rows' views are others


def test_rows_that_are_not_copied_are_read_by_kernels_and_functions_and_never_written() -> None:
    floats = rows(60, 4000).astype(np.float32)
    twice = xl.elementwise("float32 x", "float32 y", "y = x * 2", name="twice")
    options: dict[str, Any] = {"chunk_rows": 7, "devices": "numpy:cpu", "copy": None}
    assert_same_bits(xl.stream_map(twice, floats, **options), floats * 2)
    doubled = floats * 2
    assert xl.stream_map(lambda rows: rows * 2, floats, out=floats, **options) is floats
    assert_same_bits(floats, doubled)
    data = rows(60)
    before = data.copy()

    def written(chunk: Any) -> Any:
        chunk += 1
        return chunk

    with pytest.raises(ValueError, match="read-only") as caught:
        xl.stream_map(written, data, **options)
    assert caught.value.rows_complete == 0
    assert_same_bits(data, before)
    assert_same_bits(xl.stream_map(written, data, chunk_rows=7, devices="numpy:cpu"), before + 1)
    assert_same_bits(data, before)


def test_the_result_and_the_function_live_no_longer_than_their_users_without_the_garbage_collector() -> None:
    class Doubling:
        def __call__(self, chunk: Any) -> Any:
            return same(chunk)

    doubling = Doubling()
    watched = weakref.ref(doubling)
    gc.disable()
    try:
        xl.stream_map(doubling, rows(), chunk_rows=7)
        del doubling
        assert watched() is None
    finally:
        gc.enable()


# --- reduction


@given(
    count=st.integers(0, 60),
    chunk_rows=st.integers(1, 20),
    depth=st.integers(1, 4),
    initial=st.sampled_from([None, 0.5]),
)
def test_a_reduction_is_the_fold_of_the_chunks_in_their_order(
    count: int, chunk_rows: int, depth: int, initial: float | None
) -> None:
    data = np.random.default_rng(count).standard_normal((count, 4)).astype(np.float32)
    given = None if initial is None else np.full(4, initial, np.float32)
    expected = given
    for low in range(0, count, chunk_rows):
        part = data[low : low + chunk_rows].sum(axis=0)
        expected = part if expected is None else expected * np.float32(0.9) + part
    fold = lambda value, part: value * np.float32(0.9) + part
    found = xl.stream_map(
        lambda chunk: xl.to_host(chunk).sum(axis=0),
        data,
        chunk_rows=chunk_rows,
        depth=depth,
        reduce=fold,
        initial=given,
    )
    assert (found is None) == (expected is None)
    if expected is not None:
        assert_same_bits(found, expected)
    if depth > 1:
        return
    tree = xl.stream_map(
        lambda chunk: {"rows": chunk.shape[0], "last": chunk}, data, chunk_rows=chunk_rows, depth=depth,
        reduce=lambda value, part: {"rows": value["rows"] + part["rows"], "last": part["last"]},
    )  # fmt: skip
    if count:
        assert tree["rows"] == count
        assert_same_bits(tree["last"], data[(count - 1) // chunk_rows * chunk_rows :])


def test_several_devices_give_the_same_bits(backend: str) -> None:
    devices = [each for each in load_backend(backend).devices() if each.kind != "cpu"]
    if len(devices) < 2:
        pytest.skip(f"{backend} sees fewer than two devices")
    seen: list[Any] = []

    def noted(chunk: Any) -> Any:
        seen.append(xl.device_of(chunk))
        assert xl.get_device() is seen[-1]
        return chunk

    found = xl.stream_map(noted, rows(), chunk_rows=7, devices=devices)
    assert_same_bits(found, rows())
    assert seen == [devices[number % len(devices)] for number in range(15)]
    folded = [
        xl.stream_map(same, rows(), chunk_rows=7, devices=places, reduce=lambda a, b: a[:1] * 3 + b[:1])
        for places in (devices[:1], devices)
    ]
    assert_same_bits(folded[0], folded[1])


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint32])
def test_numbers_that_numpy_computed_are_numbers(kind: Any) -> None:
    data, depth = rows(20, 5), kind(2)
    assert_same_bits(xl.stream_map(same, data, chunk_rows=kind(7), depth=depth), data)
    out = np.zeros_like(data)
    xl.stream_map(same, data, chunk_rows=kind(7), start=kind(7), out=out)
    assert_same_bits(out[7:], data[7:])
    assert not out[:7].any()
    for found, batch in zip(xl.prefetch(list(data), depth=depth), data, strict=True):
        assert_same_bits(xl.to_host(found), batch)
    with xl.trace(keep=depth) as trace:
        for row in data:
            xl.to_device(row)
    assert len(trace.operations) <= 2


# --- what ends it early


class Broken(Sliced):
    """Fails at a row, once."""

    def __init__(self, data: np.ndarray[Any, Any], row: int) -> None:
        super().__init__(data)
        self.row = row

    def _fail(self, part: slice) -> None:
        if part.start <= self.row < part.stop:
            self.row = -1
            raise OSError("the disk is gone")

    def __getitem__(self, part: slice) -> np.ndarray[Any, Any]:
        self._fail(part)
        return super().__getitem__(part)

    def __setitem__(self, part: slice, value: np.ndarray[Any, Any]) -> None:
        self._fail(part)
        super().__setitem__(part, value)


@pytest.mark.parametrize("row", [0, 30, 59])
@pytest.mark.parametrize("where", ["source", "out", "function", "reduce"])
def test_a_failed_map_says_how_far_it_came_and_can_be_resumed(where: str, row: int) -> None:
    data = rows(60, 40)
    source: Any = Broken(data, row) if where == "source" else data
    out: Any = Broken(np.zeros_like(data), row) if where == "out" else None
    left = {"function": row // 7, "reduce": row // 7}
    fails = threading.Lock()

    def failing(name: str) -> None:
        with fails:
            left[name] -= 1
            if left[name] == -1 and where == name:
                raise KeyboardInterrupt

    def function(chunk: Any) -> Any:
        failing("function")
        return chunk

    def fold(value: Any, part: Any) -> Any:
        failing("reduce")
        return np.concatenate([value, part])

    options: dict[str, Any] = {"reduce": fold, "initial": data[:0]} if where == "reduce" else {"out": out}
    with pytest.raises((OSError, KeyboardInterrupt)) as stopped:
        xl.stream_map(function, source, chunk_rows=7, **options)
    error: Any = stopped.value
    assert error.rows_complete == row // 7 * 7
    assert f"{error.rows_complete} of 60 rows are done" in error.__notes__[0]
    assert not [thread for thread in threading.enumerate() if thread.name == "xferlib-drain"]
    options = {"reduce": fold, "initial": error.reduced} if where == "reduce" else {"out": error.out}
    found = xl.stream_map(function, source, chunk_rows=7, start=error.rows_complete, **options)
    assert_same_bits(found[0:60], data)


def test_a_function_that_gives_something_else_is_told_so() -> None:
    for wrong, error, words in (
        (lambda c: None, e.UnsupportedArrayError, "gave None"),
        (lambda c: "done", e.UnsupportedArrayError, "gave str, not an array"),
        (lambda c: c[:1], e.LayoutError, r"gave shape \(1, 3000\).*let it give one row for each row"),
        (lambda c: c[:, :2], e.LayoutError, r"gave shape \(50, 2\).*let it give rows of shape \(3000,\), as out has\n"),
        (lambda c: xl.to_host(c, dtype="float64"), e.LayoutError, "dtype float64.*astype"),
    ):
        with pytest.raises(error, match=words) as stopped:
            xl.stream_map(wrong, rows(), chunk_rows=50, out=np.zeros_like(rows()))
        assert stopped.value.rows_complete == 0


# --- progress


def test_progress_is_told_in_the_calling_thread_and_ends_at_the_end() -> None:
    told: list[tuple[int, int]] = []

    def tell(done: int, total: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        told.append((done, total))

    xl.stream_map(same, rows(), chunk_rows=7, progress=tell)
    assert told[0] == (0, 100)
    assert told[-1] == (100, 100)
    assert told == sorted(set(told))


def test_how_far_it_has_come_may_be_asked_while_the_last_result_is_stored() -> None:
    class Moving(chunk_ledger.Results):
        """Another thread stores a result whenever this one reads their number."""

        passed = 0

        @property
        def _next(self) -> int:
            self.passed += 1
            return self.passed

        @_next.setter
        def _next(self, number: int) -> None:
            self.passed = number

    source: Any = SimpleNamespace(rows=100)
    found = Moving(source, None, [(0, 50), (50, 100)])  # type: ignore[arg-type]
    assert [found.rows_complete for _ in range(3)] == [50, 100, 100]


# --- arguments


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"chunk_rows": 0}, e.ArgumentError, "chunk_rows=0"),
    ({"chunk_rows": 2.0}, e.ArgumentError, "chunk_rows=2.0"),
    ({"chunk_rows": True}, e.ArgumentError, "chunk_rows=True"),
    ({"chunk_rows": np.float32(2)}, e.ArgumentError, "chunk_rows=np.float32"),
    ({"depth": 0}, e.ArgumentError, "depth=0"),
    ({"fn": "double"}, e.ArgumentError, "fn='double' is not a function; give a function of a chunk"),
    ({"fn": None}, e.ArgumentError, "fn=None is not a function"),
    ({"reduce": "sum"}, e.ArgumentError, "a function of two results, or leave it away"),
    ({"progress": True}, e.ArgumentError, "a function of the rows done and all rows, or leave it away"),
    ({"reduce": np.add, "out": rows()}, e.ArgumentError, "exclude each other"),
    ({"initial": 0}, e.ArgumentError, "give reduce"),
    *(
        ({"copy": copy}, e.ArgumentError, "copy=.* is neither True nor None; give None for a function that only")
        for copy in (False, 1, "none")
    ),
    ({"chunk_rows": 7, "start": 8}, e.ArgumentError, "multiple of 7"),
    ({"chunk_rows": 7, "start": 105}, e.ArgumentError, "up to 100"),
    ({"source": [1, 2]}, e.UnsupportedArrayError, "source is list"),
    ({"source": np.array(1)}, e.UnsupportedArrayError, "no rows"),
    ({"source": np.array([{}])}, e.UnsupportedDTypeError, "object"),
    ({"out": [0]}, e.UnsupportedArrayError, "out is list"),
    ({"out": rows(99)}, e.LayoutError, "out has 99 rows.*source has 100"),
    ({"out": SOURCES["read-only"](Path(), rows())}, e.LayoutError, "out is read-only"),
    ({"devices": []}, e.ArgumentError, "at least one"),
    ({"devices": ["numpy:cpu", "numpy:cpu"]}, e.ArgumentError, "each once"),
    ({"devices": ["cuda:99"]}, e.DeviceNotFoundError, "cuda:99"),
]


@pytest.mark.parametrize(("changed", "error", "words"), REFUSED)
def test_wrong_arguments_are_refused_before_anything_is_read(
    changed: dict[str, Any], error: type[Exception], words: str
) -> None:
    options: dict[str, Any] = {"fn": same, "source": rows(), "chunk_rows": 1, **changed}
    fn, source = options.pop("fn"), options.pop("source")
    with pytest.raises(error, match=words):
        xl.stream_map(fn, source, **options)


def test_a_source_on_a_device_is_refused(backend: str) -> None:
    if xl.get_device().kind == "cpu":
        pytest.skip("a CPU device is the host")
    with pytest.raises(e.UnsupportedArrayError, match="source is on .* already"):
        xl.stream_map(same, xl.zeros((3, 2)), chunk_rows=1)


# --- source and out in one memory


OVERLAPPING: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "an object that takes slices": lambda memory: (Sliced(memory),) * 2,
    "a part of the columns": lambda memory: (memory, memory[:, :5]),
    "shifted": lambda memory: (memory[:20], memory[10:30]),
    "reversed": lambda memory: (memory, memory[::-1]),
    "columns that meet": lambda memory: (memory[:, :5], memory[:, 4:9]),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_an_out_that_shares_memory_with_its_source_is_refused_before_anything_happens(name: str) -> None:
    memory = np.arange(400.0).reshape(40, 10)
    before = memory.copy()
    source, out = OVERLAPPING[name](memory)
    calls: list[Any] = []
    with pytest.raises(e.LayoutError, match="shares memory with source"):
        xl.stream_map(calls.append, source, chunk_rows=4, out=out)
    assert not calls
    assert_same_bits(memory, before)
    add = lambda chunk: xl.to_device(xl.to_host(chunk) + 1.0)
    xl.stream_map(add, memory[:, ::2], chunk_rows=4, out=memory[:, 1::2])  # which share nothing
    assert_same_bits(memory[:, 1::2], before[:, ::2] + 1.0)


def test_rows_in_place_are_stored_in_order_so_that_what_failed_can_go_on() -> None:
    memory = np.arange(400.0).reshape(40, 10)
    expected = memory + 1.0
    failures = iter([KeyError("once")])

    def fn(chunk: Any) -> Any:
        if float(xl.to_host(chunk)[0, 0]) == 200.0:
            for failure in failures:
                raise failure
        return xl.to_device(xl.to_host(chunk) + 1.0)

    with pytest.raises(KeyError) as raised:
        xl.stream_map(fn, memory, chunk_rows=4, out=memory[:])
    done = raised.value.rows_complete
    assert_same_bits(memory[:done], expected[:done])
    assert_same_bits(memory[done:], expected[done:] - 1.0)
    xl.stream_map(fn, memory, chunk_rows=4, out=memory, start=done)
    assert_same_bits(memory, expected)


def test_two_maps_of_a_file_share_it_where_they_overlap(tmp_path: Path) -> None:
    np.arange(100.0).tofile(tmp_path / "rows")
    whole = np.memmap(tmp_path / "rows", mode="r+")
    first = np.memmap(tmp_path / "rows", "f8", mode="r+", shape=(50, 1))
    second = np.memmap(tmp_path / "rows", "f8", mode="r+", offset=400, shape=(50, 1))
    with pytest.raises(e.LayoutError, match="shares memory with source"):
        xl.stream_map(lambda chunk: chunk, first, chunk_rows=7, out=np.memmap(tmp_path / "rows", "f8", shape=(50, 1)))
    xl.stream_map(lambda chunk: xl.to_device(xl.to_host(chunk) + 1.0), first, chunk_rows=7, out=second)
    np.testing.assert_array_equal(whole.view("f8")[50:], np.arange(50.0) + 1.0)


# --- chunks with rows of their neighbours


def _sums(halo: int) -> Callable[[Any], Any]:
    """The sums of each row and its neighbours, on the host: of as many rows as the chunk has without its halo."""

    def add(chunk: Any) -> Any:
        x = xl.to_host(chunk)
        count = len(x) - 2 * halo
        return sum((x[number : number + count] for number in range(2 * halo + 1)), np.zeros_like(x[:count]))

    return add


@given(st.data())
def test_chunks_with_a_halo_give_what_the_whole_array_gives(data: Any) -> None:
    """Of any lengths, shorter than the halo too, by every rule for the ends, whether the function trims or not."""
    count, halo = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 4))
    x = rows(count, 3)
    boundary = data.draw(st.sampled_from(["edge", "reflect", "symmetric", "wrap", 7]))
    options: Any = {"mode": "constant", "constant_values": 7} if boundary == 7 else {"mode": boundary}
    expected = _sums(halo)(np.pad(x, [(halo, halo), (0, 0)], **options))
    fn = _sums(halo)
    if data.draw(st.booleans()) and halo:  # the function leaves the halo where it is
        fn = lambda chunk: np.pad(_sums(halo)(chunk), [(halo, halo), (0, 0)])
    given_ = {"chunk_rows": data.draw(st.integers(halo + 1, 9)), "halo": halo, "boundary": boundary}
    assert_same_bits(xl.stream_map(fn, x, **given_, copy=data.draw(st.sampled_from([None, True]))), expected)
    half = given_["chunk_rows"]
    if half < count:  # what an error has interrupted goes on
        out = np.zeros_like(x)
        xl.stream_map(fn, x, **given_, out=out, start=half)
        assert_same_bits(out[half:], expected[half:])


@pytest.mark.parametrize("kind", SOURCES)
def test_rows_of_neighbours_come_from_anything_with_rows(kind: str, tmp_path: Path) -> None:
    data = rows(50, 300)
    source = SOURCES[kind](tmp_path / "rows", data)
    for boundary in ("edge", "wrap"):
        expected = _sums(2)(np.pad(data, [(2, 2), (0, 0)], mode=boundary))
        found = xl.stream_map(_sums(2), source, chunk_rows=7, halo=2, boundary=boundary)
        assert_same_bits(found, expected)
    if xl.get_backend().name != "fake":  # whose arrays have no slices
        assert_same_bits(xl.stream_map(same, source, chunk_rows=7, halo=3, boundary="reflect"), data)
    total = xl.stream_map(
        lambda chunk: int(xl.to_host(chunk).sum()), source, chunk_rows=25, halo=1, boundary=0, reduce=int.__add__
    )
    assert total == data.sum() + data[24].sum() + data[25].sum()


def test_a_halo_that_cannot_be_is_refused_before_a_row_is_read() -> None:
    x = rows(10, 3)
    beyond: list[tuple[str, Any]] = [
        ("u1", -1), ("u1", 300), ("i4", 2.5), ("i4", float("nan")), ("i4", float("inf")), ("f4", 1j), ("?", 2),
    ]  # fmt: skip
    for dtype, number in beyond:
        with pytest.raises(e.ArgumentError, match=r"stream_map: boundary=.* is not a number that rows of .* hold"):
            xl.stream_map(same, np.ones(3, dtype), chunk_rows=3, halo=1, boundary=number)
    for options in ({"halo": 5}, {"halo": -1}, {"halo": 1.5}, {"halo": 1, "boundary": "constant"}, {"boundary": None}):
        with pytest.raises(e.ArgumentError, match="stream_map: (halo|boundary)=.*; give"):
            xl.stream_map(same, x, chunk_rows=5, **options)
    with pytest.raises(e.LayoutError, match="out is the source itself, whose rows are read again"):
        xl.stream_map(same, x, chunk_rows=5, halo=1, out=x)
    with pytest.raises(e.LayoutError, match="one row for each row"):
        xl.stream_map(lambda chunk: xl.to_host(chunk)[:3], x, chunk_rows=5, halo=1)


# --- several sources


@given(st.data())
def test_chunks_of_several_sources_are_the_same_rows_of_each(data: Any) -> None:
    """Of any shapes and dtypes, with or without a halo, copied or not, into a new array or over one of them."""
    count, halo = data.draw(st.integers(1, 30)), data.draw(st.integers(0, 2))
    chosen = st.tuples(st.sampled_from(["int32", "int16", "int64"]), st.sampled_from([(), (3,), (40, 20)]))
    sources = [
        (np.arange(count * int(np.prod(inner))) * (number + 1)).reshape(count, *inner).astype(dtype)
        for number, (dtype, inner) in enumerate(data.draw(st.lists(chosen, min_size=2, max_size=4)))
    ]
    chunk_rows = data.draw(st.integers(halo + 1, 12))
    options: Any = {"chunk_rows": chunk_rows, "halo": halo, "boundary": "wrap"}
    seen: list[int] = []

    def fn(*chunks: Any) -> Any:
        assert len(chunks) == len(sources)
        hosts = [xl.to_host(each) for each in chunks]
        assert len({len(each) for each in hosts}) == 1
        seen.append(len(hosts[0]) - 2 * halo)
        sums = sum(each.reshape(len(each), -1).sum(1, dtype=np.int64) for each in hosts)
        return _sums(halo)(sums)

    whole = sum(each.reshape(count, -1).sum(1, dtype=np.int64) for each in sources)
    expected = _sums(halo)(np.pad(whole, [(halo, halo)], mode="wrap"))
    given_: list[Any] = [Sliced(each) if data.draw(st.booleans()) else each for each in sources]
    found = xl.stream_map(fn, *given_, **options, copy=data.draw(st.sampled_from([None, True])))
    assert_same_bits(found, expected)
    assert sum(seen) == count
    if not halo:  # over one of the sources
        place = data.draw(st.integers(0, len(sources) - 1))
        target = np.zeros(count, np.int64)
        given_.insert(place, target)
        sources.insert(place, target)
        assert xl.stream_map(fn, *given_, **options, out=target) is target
        assert_same_bits(target, expected)


@pytest.mark.parametrize("kind", SOURCES)
def test_several_sources_may_be_of_several_kinds(kind: str, tmp_path: Path) -> None:
    x, y = rows(50, 300), rows(50, 2, "float32")
    sources = SOURCES[kind](tmp_path / "x", x), y
    add = lambda x, y: xl.to_host(x) + xl.to_host(y)[:, :1].astype("int32")
    assert_same_bits(xl.stream_map(add, *sources, chunk_rows=7), x + y[:, :1].astype("int32"))
    total = xl.stream_map(lambda x, y: int(xl.to_host(x).sum()), *sources, chunk_rows=25, reduce=int.__add__)
    assert total == x.sum()
    twice = xl.stream_map(lambda x, again: xl.to_host(x) + xl.to_host(again), *sources[:1] * 2, chunk_rows=7)
    assert_same_bits(twice, x + x)


def test_sources_of_different_lengths_are_refused_with_the_remedy() -> None:
    x, weights = rows(10, 3), np.ones((1, 3), np.int32)
    for other in (weights, x[:9]):
        with pytest.raises(e.LayoutError, match=r"source 2 has . rows, but source 1 has 10.*let the function hold"):
            xl.stream_map(same, x, other, chunk_rows=3)
    with pytest.raises(e.UnsupportedArrayError, match="source 2 is list"):
        xl.stream_map(same, x, [1], chunk_rows=3)
    with pytest.raises(e.LayoutError, match="shares memory with source"):
        xl.stream_map(same, rows(10, 3), x, chunk_rows=3, out=x[::-1])
