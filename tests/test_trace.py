"""Traces: numbers, files, pictures, and what surrounds them; what is recorded is in the conformance suite."""

from __future__ import annotations

import gc
import itertools
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import ArgumentError, ForkError
from xferlib.testing import is_recording, load_backend, recorded, settle_all
from xferlib.testing.tools import in_threads


def operation(kind: str = "h2d", start: float = 0.0, end: float = 1.0, **others: Any) -> xl.TraceOperation:
    given = {
        "name": "copy", "nbytes": 1000, "device": "cuda:0", "stream": "default", "thread": "MainThread",
        "host_start_s": start, "host_end_s": start, "file": "program.py", "line": 3, "function": "main",
    }  # fmt: skip
    return xl.TraceOperation(kind=kind, start_s=start, end_s=end, **{**given, **others})


def program(xp_name: str = "sim") -> Any:
    """A program with copies both ways, a kernel and a range, on a simulated device."""
    double = xl.elementwise("T x", "T y", "y = x + x", name="double")
    with xl.use_backend(xp_name), xl.trace() as t:
        d = xl.to_device(np.ones((512, 512)))
        with t.range("work"):
            e = double(d)
        up = xl.to_device_async(np.zeros(300_000, np.uint8))
        assert xl.to_host(e).sum() == 2 * 512 * 512
        up.result()
    return t


@pytest.fixture(scope="module")
def t() -> xl.trace:
    with xl.sim.check():  # which finishes what earlier tests left to be staged
        return program()


# --- the numbers

TICKS = st.integers(0, 40)
SPANS = st.lists(st.tuples(TICKS, TICKS).map(sorted).map(tuple), max_size=8)


def ticks(spans: Any) -> set[int]:
    return {tick for start, end in spans for tick in range(start, end)}


@given(SPANS, SPANS)
def test_seconds_overlap_and_idle_follow_their_definitions(copies: Any, kernels: Any) -> None:
    found = recorded([operation("h2d", *span) for span in copies] + [operation("kernel", *span) for span in kernels])
    copying, computing = ticks(copies), ticks(kernels)
    times = {"h2d": copying} if copies else {}
    times |= {"kernel": computing} if kernels else {}
    assert found.seconds == {kind: len(each) for kind, each in times.items()}
    shorter = min(len(copying), len(computing))
    assert found.overlap == pytest.approx(len(copying & computing) / shorter if shorter else 0.0)
    busy = copying | computing
    edges = [tick for span in (*copies, *kernels) for tick in span]
    extent = max(edges, default=0) - min(edges, default=0)
    assert found.idle == pytest.approx(1 - len(busy) / extent if extent else 0.0)


def test_idle_of_two_devices_is_their_mean() -> None:
    assert recorded([operation(end=1.0), operation(end=0.5, device="cuda:1")]).idle == 0.25


def test_speed_counts_the_time_in_which_anything_ran() -> None:
    found = recorded([operation(nbytes=4 * 10**9, end=2.0), operation(nbytes=4 * 10**9, start=6.0, end=8.0)])
    assert found.gb_per_s == {"h2d": 2.0, "d2h": 0.0, "d2d": 0.0, "peer": 0.0, "staging": 0.0}
    assert operation(nbytes=10**9, end=0.5).gb_per_s == 2.0
    assert operation(end=0.0).gb_per_s == 0.0


def test_copies_inside_a_device_do_not_count_as_copying() -> None:
    assert recorded([operation("d2d"), operation("kernel")]).overlap == 0.0
    assert recorded([operation("peer"), operation("range")]).overlap == 1.0


def test_nothing_recorded_is_no_error(tmp_path: Path) -> None:
    gc.collect()
    settle_all()  # what other tests dropped ends before the recording
    for place in ("sim:sim:0", "sim:sim:1"):
        xl.Device(place).synchronize()
    with xl.trace() as t:
        pass
    assert (t.operations, t.overlap, t.idle, t.dropped) == ((), 0.0, 0.0, 0)
    assert set(t.gb_per_s.values()) == {0.0}
    t.plot(tmp_path / "empty.png")
    t.write(tmp_path / "empty.json")
    assert json.loads((tmp_path / "empty.json").read_text())["traceEvents"] == []


# --- on the simulator


def test_a_test_can_assert_that_copies_and_computing_overlap() -> None:
    """The double-buffered loop of the articles, on the clock of a simulated H200."""
    with xl.use_backend("sim"):
        batches = [xl.pinned_array(np.full(4 << 20, value, np.float32)) for value in range(6)]
        copying, computing = xl.Stream(), xl.Stream()
        buffers = [xl.empty(4 << 20, np.float32) for _ in range(2)]
        copied, used = [[xl.Event(timing=False) for _ in range(2)] for _ in range(2)]
        with xl.trace() as overlapping:
            for k, batch in enumerate(batches):
                copying.wait(used[k % 2])
                xl.to_device(batch, out=buffers[k % 2], stream=copying)
                copying.record(copied[k % 2])
                computing.wait(copied[k % 2])
                with computing:
                    for _ in range(50):
                        buffers[k % 2] += 1.0
                    computing.record(used[k % 2])
            computing.synchronize()
        with xl.trace() as in_turn:
            for batch in batches:
                x = xl.to_device(batch)
                x += 1.0
                xl.synchronize()
    assert overlapping.overlap > 0.8
    assert in_turn.overlap == 0.0
    assert overlapping.gb_per_s["h2d"] == pytest.approx(55.5, rel=0.01)


def test_the_simulators_own_operations_are_in_it() -> None:
    with xl.use_backend("sim"), xl.sim.check():  # which finishes what earlier tests left to be staged
        x = xl.ones((64, 64))
        with xl.trace() as t:
            _ = x + x
    assert [each.kind for each in t.operations] == ["kernel"]
    assert t.operations[0].file == __file__


def test_the_copies_of_a_prefetcher_belong_to_the_line_that_made_it() -> None:
    with xl.use_backend("sim"), xl.trace() as t:
        batches = [np.full(9_000_000, value, np.float32) for value in range(3)]
        prefetcher = xl.prefetch(batches, workers=1)  # a thread reads and stages each
        line = sys._getframe().f_lineno - 1
        for batch in prefetcher:
            del batch
    found = {(each.file, each.line) for each in t.operations if each.kind == "h2d"}
    assert found == {(__file__, line)}


def test_the_copies_of_a_map_belong_to_the_line_that_called_it() -> None:
    source = np.ones((40_000, 8), np.float32)
    with xl.use_backend("sim"), xl.trace() as t:
        found, line = xl.stream_map(lambda x: x + x, source, chunk_rows=10_000), sys._getframe().f_lineno
    assert found.shape == source.shape
    for kind in ("h2d", "d2h"):
        lines = {each.line for each in t.operations if each.kind == kind}
        assert lines == {line}, kind


# --- the file


def test_the_file_is_a_chrome_trace(t: xl.trace, tmp_path: Path) -> None:
    t.write(tmp_path / "run.json")
    found = json.loads((tmp_path / "run.json").read_text())
    assert found["displayTimeUnit"] == "ms"
    assert found["otherData"]["overlap"] == t.overlap
    events = found["traceEvents"]
    named = {(each["pid"], each["tid"]) for each in events if each["ph"] == "M" and each["name"] == "thread_name"}
    complete = [each for each in events if each["ph"] == "X"]
    assert {each["ph"] for each in events} == {"M", "X"}
    assert len(complete) == len(t.operations)
    for each in complete:
        assert (each["pid"], each["tid"]) in named
        assert each["ts"] >= 0
        assert each["dur"] >= 0
        assert each["args"]["source"].startswith(__file__)
    assert {each["cat"] for each in complete} == {"call", "staging", "h2d", "kernel", "range", "d2h"}
    copy = next(each for each in complete if each["cat"] == "d2h")
    assert copy["args"]["nbytes"] > 0
    assert {each["args"]["name"] for each in events if each["name"] == "process_name"} == {"host", "sim:0"}


def dropped_by_perfetto(file: Path) -> list[Any]:
    """The slices of a file that Perfetto's trace processor leaves out: `SliceTracker::MaybeCloseStack` in its sources.

    It sorts by time, keeps a stack of open slices for each thread, and drops one that begins inside of the innermost
    and ends behind it, or before time 0. Its times are whole nanoseconds.
    """
    found = []
    stacks: dict[Any, list[int]] = {}
    events = [each for each in json.loads(file.read_text())["traceEvents"] if each["ph"] == "X"]
    for each in sorted(events, key=lambda event: event["ts"]):
        start = round(each["ts"] * 1000)
        end = start + round(each["dur"] * 1000)
        stack = stacks.setdefault((each["pid"], each["tid"]), [])
        while stack and stack[-1] <= start:
            stack.pop()
        if start < 0 or end < start or (stack and end > stack[-1]):
            found.append(each)
        else:
            stack.append(end)
    return found


def test_perfetto_drops_no_event(t: xl.trace, tmp_path: Path) -> None:
    t.write(tmp_path / "run.json")
    assert dropped_by_perfetto(tmp_path / "run.json") == []


NANOSECONDS = st.integers(-900, 6_000)


@given(st.lists(st.tuples(NANOSECONDS, NANOSECONDS).map(sorted), min_size=1, max_size=12))
def test_perfetto_drops_no_event_whose_time_is_rough(tmp_path_factory: pytest.TempPathFactory, spans: Any) -> None:
    """Times of events are true to a microsecond: neighbours overlap by as much, and the first may begin before 0."""
    file = tmp_path_factory.getbasetemp() / "rough.json"
    recorded(operation(start=start * 1e-9, end=end * 1e-9) for start, end in spans).write(file)
    assert dropped_by_perfetto(file) == []
    kept = [each for each in json.loads(file.read_text())["traceEvents"] if each["ph"] == "X"]
    assert len(kept) == len(spans)
    starts = zip(sorted(each["ts"] for each in kept), sorted(start for start, _ in spans), strict=True)
    assert all(abs(found - given / 1000) < 2 for found, given in starts)


def test_the_block_writes_its_file_at_the_end(tmp_path: Path) -> None:
    for name in ("run.json", "run.svg"):
        with xl.use_backend("sim"), xl.trace(tmp_path / name):
            xl.to_device(np.ones(10))
        assert (tmp_path / name).stat().st_size > 100


def test_the_block_writes_its_file_after_an_exception(tmp_path: Path) -> None:
    def fail() -> None:
        with xl.use_backend("sim"), xl.trace(tmp_path / "run.json"):
            xl.to_device(np.ones(10))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert len(json.loads((tmp_path / "run.json").read_text())["traceEvents"]) > 1


def test_a_file_that_cannot_be_written_hides_no_exception(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()

    def fail() -> None:
        with xl.trace(folder / "run.json"):
            folder.rmdir()
            raise InterruptedError("the program's own")

    with pytest.raises(InterruptedError, match="own") as found:
        fail()
    assert "could not be written" in found.value.__notes__[0]
    folder.mkdir()
    with pytest.raises(FileNotFoundError), xl.trace(folder / "run.json"):
        folder.rmdir()
    assert not is_recording()


@pytest.mark.parametrize(
    ("path", "message"),
    [("run.txt", r"ends in \.json, \.png, \.svg, \.pdf"), ("missing/run.json", "missing must be a directory")],
)
def test_a_path_is_checked_before_anything_is_done(path: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=message):
        xl.trace(tmp_path / path)
    with pytest.raises(ArgumentError, match=r"\.png, \.svg, \.pdf"):
        xl.trace().plot(tmp_path / "run.json")


# --- the picture


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_picture_is_drawn(t: xl.trace, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{ending}"
    t.plot(path, title="A program", end_s=max(each.end_s for each in t.operations))
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert path.read_bytes().startswith(start)


def test_a_picture_of_many_operations_stays_small(tmp_path: Path) -> None:
    found = recorded(operation("kernel", k * 1e-6, k * 1e-6 + 4e-7, name="tiny") for k in range(20_000))
    found.plot(tmp_path / "run.svg")
    assert (tmp_path / "run.svg").stat().st_size < 2_000_000


def drawn(found: xl.trace, path: Path) -> tuple[list[float], list[str]]:
    """Draw a picture of one row; where its bars begin, in pixels, and the texts in them."""
    axes = pytest.importorskip("matplotlib.axes").Axes
    corners: list[Any] = []
    labels: list[str] = []
    own_add, own_text = axes.add_collection, axes.text

    def add(self: Any, collection: Any, *args: Any, **options: Any) -> Any:
        corners.extend(each.vertices[:4] for each in collection.get_paths() if len(each.vertices) == 5)
        return own_add(self, collection, *args, **options)

    def text(self: Any, x: float, y: float, label: str, **options: Any) -> Any:
        labels.extend([label] if options["color"] == "#ffffff" else [])
        return own_text(self, x, y, label, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(axes, "add_collection", add)
        patched.setattr(axes, "text", text)
        found.plot(path)
    bars = [each for each in corners if np.ptp(each[:, 1]) > 12]  # those of the legend are lower
    return [float(each[:, 0].min()) for each in bars], labels


def test_pieces_of_one_transfer_are_one_bar(tmp_path: Path) -> None:
    pieces = [operation("h2d", k, k + 0.99, nbytes=4 << 20) for k in range(16)]
    starts, labels = drawn(recorded(pieces), tmp_path / "copies.svg")
    assert (len(starts), labels) == (1, ["64 MiB"])
    kernels = [operation("kernel", k, k + 0.99, name="f") for k in range(16)]
    starts, labels = drawn(recorded(kernels), tmp_path / "kernels.svg")
    assert labels == ["f"] * 16
    assert np.allclose(np.diff(starts), (starts[-1] - starts[0]) / 15)  # each begins as long behind the one before
    assert starts[0] < starts[-1]


def texts(found: xl.trace, path: Path, **options: Any) -> list[Any]:
    """Draw a picture, and return all that is written in it, as matplotlib's objects."""
    figures = pytest.importorskip("matplotlib.figure").Figure
    seen: list[Any] = []
    own = figures.savefig

    def savefig(self: Any, *args: Any, **others: Any) -> Any:
        done = own(self, *args, **others)
        seen.extend(each for each in self.findobj(pytest.importorskip("matplotlib.text").Text) if each.get_text())
        return done

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(figures, "savefig", savefig)
        found.plot(path, **options)
    return [each for each in seen if each.get_visible()]


CROWDED = [
    operation("range", 0, 8, name="train"), operation("range", 8, 9, name="evaluate_everything"),
    operation("kernel", 0, 4, name="forward"), operation("kernel", 4, 5, name="a_kernel_with_a_long_name"),
    operation("kernel", 5, 5.1, name="short"), operation("kernel", 8, 9, name="forward"),
    operation("h2d", 0, 0.3, nbytes=64 << 20), operation("h2d", 1, 4, nbytes=64 << 20),
    operation("call", 0, 0.2, name="to_device", device="host"), operation("staging", 0, 0.2, device="host"),
]  # fmt: skip


@pytest.mark.parametrize("dark", [False, True])
def test_no_label_lies_over_another(dark: bool, tmp_path: Path) -> None:
    written = texts(recorded(CROWDED), tmp_path / "run.png", title="A program", dark=dark)
    boxes = [(each.get_text(), each.get_window_extent()) for each in written]
    over = [(one, two) for (one, here), (two, there) in itertools.combinations(boxes, 2) if here.overlaps(there)]
    assert not over
    assert {"train", "forward"} <= {text for text, _ in boxes}


def test_the_legend_explains_colours_and_names_without_room(tmp_path: Path) -> None:
    written = {each.get_text() for each in texts(recorded(CROWDED), tmp_path / "run.png")}
    assert {"call", "staging threads at work", "to the device", "kernel", "range", "copy beside kernel"} <= written
    assert "to the host" not in written
    (line,) = (text for text in written if text.startswith("no room for: "))
    for name in ("1 x a_kernel_with_a_long_name, 1e+03 ms", "1 x short, 100 ms", "1 x to_device, 200 ms"):
        assert name in line
    assert "forward" not in line


def test_a_dark_picture_is_dark(tmp_path: Path) -> None:
    images = pytest.importorskip("matplotlib.image")
    for dark, least, most in ((False, 1.0, 1.0), (True, 0.0, 0.3)):
        recorded(CROWDED).plot(tmp_path / "run.png", dark=dark)
        corner = images.imread(tmp_path / "run.png")[0, 0, :3]
        assert least <= corner.min() <= corner.max() <= most


def test_lanes_are_in_the_order_of_the_work(tmp_path: Path) -> None:
    kinds = ["d2h", "kernel", "h2d", "staging", "call"]
    found = [operation(kind, device="host" if kind in ("staging", "call") else "cuda:0") for kind in kinds]
    found += [operation("h2d", stream="0x55"), operation("range", stream="0x77"), operation("h2d", device="cpu")]
    recorded(found).write(tmp_path / "run.json")
    events = json.loads((tmp_path / "run.json").read_text())["traceEvents"]
    devices = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
    rows = [each for each in events if each["name"] == "thread_name"]
    orders = [each["args"]["sort_index"] for each in events if each["name"] == "thread_sort_index"]
    assert orders == sorted(orders)
    assert [(devices[row["pid"]], row["args"]["name"]) for row in rows] == [
        ("host", "calls, default"), ("host", "staging, default"), ("cpu", "H2D"), ("cuda:0", "H2D, default stream"),
        ("cuda:0", "H2D, stream 1"), ("cuda:0", "kernels, default stream"), ("cuda:0", "kernels, stream 2"),
        ("cuda:0", "D2H, default stream"),
    ]  # fmt: skip


def test_sizes_are_short(tmp_path: Path) -> None:
    sizes = {"0 B": 0, "1000 B": 1000, "1.5 KiB": 1536, "64 MiB": 64 << 20, "2000 GiB": 2000 << 30}
    copies = [operation("d2d", k, k + 0.9, nbytes=nbytes, line=k) for k, nbytes in enumerate(sizes.values())]
    starts, labels = drawn(recorded(copies), tmp_path / "run.svg")
    assert (len(starts), labels) == (len(sizes), list(sizes))
    assert starts == sorted(starts)


def test_the_summary_has_a_line_for_each_kind(t: xl.trace) -> None:
    lines = t.summary().splitlines()
    assert [line.split()[0] for line in lines[1:-1]] == ["calls", "staging", "H2D", "kernels", "D2H", "ranges"]
    assert lines[-1].startswith("overlap ")
    assert "2.3 MiB" in lines[3]


# --- what surrounds a trace


def test_only_the_latest_operations_are_kept() -> None:
    with xl.use_backend("numpy"), xl.trace(keep=10) as t:
        for nbytes in range(1, 26):
            xl.to_device(np.zeros(nbytes, np.uint8))
    assert [each.nbytes for each in t.operations] == list(range(16, 26))
    assert t.dropped == 15
    assert "15 earlier operations were forgotten" in t.summary()


@pytest.mark.parametrize("keep", [0, -1, 2.5, True])
def test_keep_is_checked(keep: Any) -> None:
    with pytest.raises(ArgumentError, match="keep must be an int from 1"):
        xl.trace(keep=keep)


def test_a_trace_is_used_once() -> None:
    t = xl.trace()
    with t:
        pass
    with pytest.raises(ArgumentError, match="has been used already"), t:
        pass
    assert not is_recording()


def test_a_range_outside_a_trace_does_nothing() -> None:
    with xl.trace.range("nothing"):
        assert not is_recording()


def test_the_kind_of_a_range_is_checked() -> None:
    with pytest.raises(ArgumentError, match="the kinds are range, kernel, h2d"):
        xl.trace.range("x", kind="call")


def test_all_threads_are_recorded() -> None:
    with xl.use_backend("numpy"), xl.trace() as t:
        in_threads(lambda _: [xl.to_device(np.zeros(8), backend="numpy") for _ in range(50)], range(4))
    assert t.nbytes["h2d"] == 4 * 50 * 64


def test_traces_of_two_threads_may_cross() -> None:
    """Each gets what happens while it is open, and recording ends with the last."""
    first, second = xl.trace(), xl.trace()
    x = np.zeros(1, np.uint8)
    first.__enter__()
    xl.to_device(x, backend="numpy")
    second.__enter__()
    xl.to_device(x, backend="numpy")
    first.__exit__(None, None, None)
    xl.to_device(x, backend="numpy")
    assert is_recording()
    second.__exit__(None, None, None)
    assert not is_recording()
    assert (len(first.operations), len(second.operations)) == (2, 2)


def test_the_simulator_is_told_nothing_when_no_trace_is_open(t: xl.trace) -> None:
    backend: Any = load_backend("sim")
    assert backend.machine.listener is None


def test_reading_inside_the_block_is_allowed() -> None:
    with xl.use_backend("sim"), xl.trace() as t:
        xl.to_device(np.ones(10))
        seen = len(t.operations)
        xl.to_device(np.ones(10))
        assert len(t.operations) > seen > 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_records_nothing_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    t = xl.trace(path)
    with t:
        xl.to_device(np.zeros(8), backend="numpy")
        child = os.fork()
        if not child:
            status = 1
            try:
                xl.to_device(np.zeros(8), backend="numpy")
                try:
                    _ = t.operations
                except ForkError as error:
                    is_named = "in its child" in str(error)
                t.__exit__(None, None, None)
                status = 0 if is_named and not is_recording() and not path.exists() else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        xl.to_device(np.zeros(8), backend="numpy")
    assert len(t.operations) == 2
    assert path.exists()


def test_a_profiler_sees_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Domain:
        def get_event_attributes(self, *, message: str, category: str) -> str:
            return f"{category} {message}"

        def push_range(self, attributes: str) -> None:
            seen.append(attributes)

        def pop_range(self) -> None:
            seen.append("end")

    monkeypatch.setitem(sys.modules, "nvtx", types.SimpleNamespace(get_domain=lambda name: Domain()))
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "libprofiler.so")
    with xl.use_backend("numpy"), xl.trace(), xl.trace.range("mine"):
        xl.to_device(np.zeros(8))
    assert seen == ["range mine", "h2d copy", "end", "end"]
    monkeypatch.delenv("NVTX_INJECTION64_PATH")
    monkeypatch.delenv("NSYS_PROFILING_SESSION_ID", raising=False)
    with xl.use_backend("numpy"), xl.trace(), xl.trace.range("mine"):
        xl.to_device(np.zeros(8))
    assert len(seen) == 4  # no profiler looks


def test_the_loop_over_a_prefetcher_has_a_users_name() -> None:
    with xl.use_backend("sim"), xl.trace() as t:
        for _ in xl.prefetch([np.ones(1000)] * 3):
            pass
    assert {each.name for each in t.operations if each.kind == "call"} == {"prefetch"}


def test_calls_in_threads_of_the_library_have_words() -> None:
    with xl.use_backend("sim"), xl.trace() as t:
        xl.stream_map(lambda x: x * 2, np.ones((40, 3000)), chunk_rows=10)
        for _ in xl.prefetch(iter([np.ones(100_000)] * 3)):
            pass
    named = {each.name for each in t.operations if each.kind == "call"}
    assert {"reading ahead", "stream_map"} <= named
    assert not [name for name in named if "_" in (name[0], name.rpartition(".")[2][0])]
