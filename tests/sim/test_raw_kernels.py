"""CUDA source on the simulator: the detector knows the bytes that each launch has touched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.kernels.targets import need_nvrtc
from tests.sizes import IS_LONG
from xferlib.errors import KernelFaultError
from xferlib.sim import Hazard, RaceError
from xferlib.testing import assert_same_bits, configured, load_backend

SOURCE = """
struct Line { float *x; int n; };
struct Node { Node *next; float value; };
__device__ int counter = 0;
__device__ float *kept;
__constant__ float factors[4] = {1, 2, 3, 4};

extern "C" __global__ void fill(float *x, int begin, int count, int step, float value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[begin + i * step] = value;
}

extern "C" __global__ void twice(float *x, int begin, int count, int step)
{
    int i = threadIdx.x;
    if (i < count) x[begin + i * step] *= 2;
}

extern "C" __global__ void gather(const float *x, const int *index, float *y, int begin, int count)
{
    int i = threadIdx.x;
    if (i < count) y[begin + i] = x[index[i]];
}

extern "C" __global__ void total(const float *x, int begin, int count, float *y, int at)
{
    if (threadIdx.x) return;
    float sum = 0;
    for (int i = 0; i < count; ++i) sum += x[begin + i];
    y[at] = sum;
}

extern "C" __global__ void line(Line f) { if (threadIdx.x < f.n) f.x[threadIdx.x] = threadIdx.x; }

extern "C" __global__ void rows(const unsigned long long *table, int row, int at)
{
    if (!threadIdx.x) ((float *)table[row])[at] += 1;
}

extern "C" __global__ void count_up() { if (!threadIdx.x) counter += 1; }

extern "C" __global__ void keep(float *x) { kept = x; }

extern "C" __global__ void use_kept() { kept[3] = 1; }

extern "C" __global__ void weigh(float *x) { x[threadIdx.x] *= factors[threadIdx.x]; }

extern "C" __global__ void between(float *x, float *y, long long distance) { x[distance / 4 + 1] = 5; }
"""
N = 32


class Kernels:
    """The kernels by name, and two streams."""

    def __init__(self) -> None:
        self.module = xl.raw_module(SOURCE)
        self.module.compile()
        self.a, self.b = xl.Stream(), xl.Stream()

    def run(self, name: str, args: Any, stream: xl.Stream | None = None) -> None:
        """Launch a kernel with a block of N threads."""
        self.module.get_function(name)(1, N, args, stream=stream)


@pytest.fixture(scope="module")
def loaded() -> Iterator[Kernels]:
    need_nvrtc()
    with xl.use_backend("sim"):
        yield Kernels()


@pytest.fixture
def k(loaded: Kernels) -> Iterator[Kernels]:
    with xl.use_backend("sim"), configured(kernel_check="auto"), xl.sim.check(mode="raise"):
        yield loaded


def put(x: Any) -> Any:
    """An array on the device, complete."""
    array = xl.to_device(np.asarray(x))
    xl.synchronize()
    return array


def zeros(n: int = N) -> Any:
    return put(np.zeros(n, np.float32))


def address(x: Any) -> int:
    return int(x.info.pointer)


# Programs of several streams, beside a model with one clock an operation and one set of bytes an array.


class Step(NamedTuple):
    """A step of a program: its name, and numbers that it takes as it can."""

    what: str
    stream: int
    x: int
    y: int
    begin: int
    length: int
    step: int


STREAMS, ARRAYS = 3, 2
STEPS = st.builds(
    Step,
    st.sampled_from(["fill", "twice", "gather", "total", "rows", "copy", "to_host", "record", "wait", "synchronize"]),
    st.integers(0, STREAMS - 1), st.integers(0, ARRAYS - 1), st.integers(0, ARRAYS - 1), st.integers(0, N - 1),
    st.integers(1, N), st.sampled_from([1, 1, 2, 3, 7]),
)  # fmt: skip
INDICES = np.random.default_rng(3).permutation(N).astype(np.int32)


class Model:
    """The bytes that a program touches, and which of it is ordered."""

    def __init__(self) -> None:
        self.values = [np.arange(N, dtype=np.float32) for _ in range(ARRAYS)]
        self.clocks = [dict.fromkeys(range(STREAMS), 0) for _ in range(STREAMS + 1)]  # the host's is the last
        self.events = [dict.fromkeys(range(STREAMS), 0) for _ in range(STREAMS)]
        self.accesses: list[tuple[int, int, set[tuple[int, int]], set[tuple[int, int]]]] = []

    def learn(self, who: int, clock: dict[int, int]) -> None:
        self.clocks[who] = {each: max(tick, clock[each]) for each, tick in self.clocks[who].items()}

    def access(self, stream: int, reads: set[tuple[int, int]], writes: set[tuple[int, int]]) -> bool:
        """Whether the access of a stream is ordered behind all that it meets."""
        self.learn(stream, self.clocks[STREAMS])
        clock = self.clocks[stream]
        clock[stream] += 1
        is_ordered = all(
            other == stream
            or tick <= clock[other]
            or not (writes & (others_writes | others_reads) or reads & others_writes)
            for other, tick, others_reads, others_writes in self.accesses
        )
        self.accesses.append((stream, clock[stream], reads, writes))
        return is_ordered

    def step(self, step: Step) -> bool:
        """Whether a step is free of races."""
        what, stream, x, y, begin, count, stride = step
        count = min(count, -(-(N - begin) // stride))
        elements = range(begin, begin + count * stride, stride)
        line = range(begin, begin + min(count, N - begin))
        values, used = self.values, lambda array, which: {(array, each) for each in which}
        if what == "fill":
            values[x][elements] = step.length
            return self.access(stream, set(), used(x, elements))
        if what == "twice":
            values[x][elements] *= 2
            return self.access(stream, used(x, elements), used(x, elements))
        if what == "gather":
            gathered = INDICES[: len(line)].tolist()
            values[y][line] = values[x][gathered].copy()
            return self.access(stream, used(x, gathered), used(y, line))
        if what == "total":
            values[y][begin] = np.add.accumulate(values[x][line])[-1]
            return self.access(stream, used(x, line), {(y, begin)})
        if what == "rows":
            values[x][begin] += 1
            return self.access(stream, {(x, begin)}, {(x, begin)})
        if what == "copy":
            values[y][line] = values[x][line].copy()
            return self.access(stream, used(x, line), used(y, line))
        if what == "to_host":
            is_free = self.access(stream, used(x, line), set())
            self.learn(STREAMS, self.clocks[stream])
            return is_free
        if what == "record":
            self.learn(stream, self.clocks[STREAMS])
            self.events[stream] = dict(self.clocks[stream])
        elif what == "wait":
            self.learn(stream, self.events[begin % STREAMS])
        else:
            self.learn(STREAMS, self.clocks[stream])
        return True


class Program:
    """Carries out the same steps on the simulator."""

    def __init__(self, k: Kernels) -> None:
        self.k = k
        self.arrays = [put(np.arange(N, dtype=np.float32)) for _ in range(ARRAYS)]
        self.table = put(np.array([address(each) for each in self.arrays], np.uint64))
        self.indices = put(INDICES)
        self.streams = [xl.Stream() for _ in range(STREAMS)]
        self.events = [stream.record() for stream in self.streams]

    def step(self, step: Step) -> None:
        what, number, x, y, begin, count, stride = step
        stream, k = self.streams[number], self.k
        dst, src = self.arrays[y], self.arrays[x]
        count = min(count, -(-(N - begin) // stride))
        length = min(count, N - begin)
        if what == "fill":
            k.run("fill", (src, begin, count, stride, float(step.length)), stream=stream)
        elif what == "twice":
            k.run("twice", (src, begin, count, stride), stream=stream)
        elif what == "gather":
            k.run("gather", (src, self.indices, dst, begin, length), stream=stream)
        elif what == "total":
            k.run("total", (src, begin, length, dst, begin), stream=stream)
        elif what == "rows":
            k.run("rows", (self.table, x, begin), stream=stream)
        elif what == "copy" and x != y:
            with stream:
                xl.to_device(src[begin : begin + length], out=dst[begin : begin + length])
        elif what == "to_host":
            xl.to_host(src[begin : begin + length], stream=stream)
        elif what == "record":
            self.events[number] = stream.record()
        elif what == "wait":
            stream.wait(self.events[begin % STREAMS])
        elif what == "synchronize":
            stream.synchronize()


@pytest.mark.parametrize("schedule", ["lazy", "lifo", "random"])
@given(steps=st.lists(STEPS, min_size=2, max_size=14))
@settings(
    max_examples=1000 if IS_LONG else 60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_race_is_reported_where_bytes_meet_without_order_and_nowhere_else(
    loaded: Kernels, schedule: str, steps: list[Step]
) -> None:
    steps = [each for each in steps if each.what not in ("copy", "gather") or each.x != each.y]
    with xl.use_backend("sim"), xl.sim.check(mode="raise", schedule=schedule, seed=1):
        program, model = Program(loaded), Model()
        for step in steps:
            if model.step(step):
                program.step(step)
                continue
            with pytest.raises(RaceError):
                program.step(step)
            break
        else:
            xl.synchronize()
            for array, values in zip(program.arrays, model.values, strict=True):
                assert_same_bits(xl.to_host(array), values)
        for stream in program.streams:
            stream.synchronize()


# What a launch can touch.


def fails(hazard: Hazard, *words: str) -> Any:
    """Expects a report of that hazard, in these words."""
    pattern = ".*".join(words)
    return pytest.raises(RaceError, match=rf"(?s)^{hazard.value}.*{pattern}")


def test_parts_in_place_on_two_streams_do_not_meet(k: Kernels) -> None:
    x = put(np.ones(N, np.float32))
    k.run("twice", (x, 0, 16, 1), k.a)
    k.run("twice", (x, 16, 16, 1), k.b)
    xl.synchronize()
    assert_same_bits(xl.to_host(x), np.full(N, 2, np.float32))


def test_the_report_names_kernel_argument_index_and_remedy(k: Kernels) -> None:
    x, a, b = zeros(), k.a, k.b
    fill, twice = map(k.module.get_function, ("fill", "twice"))
    fill(1, N, (x, 0, 17, 1, 1.0), stream=a)
    words = (
        "first: +fill on a,",
        "second: +twice on b,",
        r"index 16 of argument 'x' of fill\(\), line 11 and ",
        r"twice\(\), line 17\n",
    )
    with fails(Hazard.READ_AFTER_WRITE, *words, r"remedy: +b\.wait\(a\) before .*test_raw_kernels"):
        twice(1, N, (x, 16, 16, 1), stream=b)


def test_a_copy_meets_what_a_kernel_wrote_and_not_the_rest_of_its_argument(k: Kernels) -> None:
    x = zeros()
    k.run("fill", (x, 0, 8, 1, 3.0), k.a)
    assert_same_bits(xl.to_host(x[8:], stream=k.b), np.zeros(N - 8, np.float32))
    with fails(Hazard.READ_AFTER_WRITE, r"index 7 of argument 'x' of fill\(\)"):
        xl.to_host(x[7:], stream=k.b)


def test_an_index_array_decides_what_is_read(k: Kernels) -> None:
    x, y, even, odd = zeros(), zeros(), put(np.arange(0, N, 2, dtype=np.int32)), put(np.arange(1, N, 2, dtype=np.int32))
    k.run("fill", (x, 1, 16, 2, 3.0), k.a)
    k.run("gather", (x, even, y, 0, 16), k.b)
    with fails(Hazard.READ_AFTER_WRITE, r"index 1 of argument 'x' of fill\(\), line 11 and .*gather\(\), line 23"):
        k.run("gather", (x, odd, y, 16, 16), k.b)


def test_a_pointer_in_a_struct_is_followed(k: Kernels) -> None:
    x = zeros()
    k.run("line", ((address(x), 5),), k.a)
    k.run("fill", (x, 5, 3, 1, 1.0), k.b)
    with fails(Hazard.WRITE_AFTER_WRITE, "index 4 of argument 'x' of fill"):
        k.run("fill", (x, 4, 3, 1, 1.0), k.b)
    xl.synchronize()


def test_a_pointer_into_an_array_that_is_an_argument_too_is_another_way_to_its_block(k: Kernels) -> None:
    x = zeros()
    module = xl.raw_module(
        'struct P { float *x; }; extern "C" __global__ void both(float *x, P p) { x[0] = 1; p.x[0] = 2; }'
    )
    module.get_function("both")(1, 1, (x[:4], (address(x) + 64,)))
    expected = np.zeros(N, np.float32)
    expected[0], expected[16] = 1, 2
    assert_same_bits(xl.to_host(x), expected)


def test_a_table_of_pointers_is_followed(k: Kernels) -> None:
    rows = [zeros(4) for _ in range(20)]
    table = put(np.array([address(each) for each in rows], np.uint64))
    for number in range(20):
        k.run("rows", (table, number, 2), (k.a, k.b)[number % 2])
    with fails(Hazard.READ_AFTER_WRITE, "first: +rows on .*second: +to_host", r"in put: rows\(\), line 38\n"):
        xl.to_host(rows[0], stream=k.b)
    xl.synchronize()
    assert [xl.to_host(each)[2] for each in rows] == [1] * 20


def test_memory_reached_by_arithmetic_counts_and_an_index_that_is_too_large_is_none(k: Kernels) -> None:
    x, y = zeros(), zeros()
    k.run("between", (x, y, address(y) - address(x)), k.a)
    with fails(Hazard.READ_AFTER_WRITE, "index 1 of argument 'y' of between"):
        xl.to_host(y, stream=k.b)
    with pytest.raises(KernelFaultError, match="out of bounds, argument 'x' at index 33 of 32 elements"):
        k.run("between", (x, y, 4 * N), k.a)
    with pytest.raises(KernelFaultError, match="out of bounds, argument 'x' at index 5 of 4 elements"):
        k.run("between", (x[:4], y, 16), k.a)


def test_variables_and_constant_memory_of_a_module_are_followed(k: Kernels) -> None:
    k.run("count_up", (), k.a)
    with fails(Hazard.READ_AFTER_WRITE, "index 0 of variable 'counter' of count_up"):
        k.run("count_up", (), k.b)
    xl.synchronize()
    x = zeros(4)
    k.module.get_function("weigh")(1, 4, (x,), stream=k.a)
    with k.b, fails(Hazard.WRITE_AFTER_READ, r"index 0 of variable 'factors' of weigh\(\)"):
        xl.to_device(np.ones(4, np.float32), out=k.module.get_global("factors"))


def test_a_pointer_that_a_kernel_has_kept_is_followed(k: Kernels) -> None:
    x = zeros()
    k.run("keep", (x,), k.a)
    k.a.synchronize()
    k.run("use_kept", (), k.a)
    with fails(Hazard.READ_AFTER_WRITE, "use_kept"):
        xl.to_host(x[3:4], stream=k.b)
    xl.to_host(x[4:], stream=k.b)


def test_an_index_past_memory_that_a_pointer_leads_to_is_told_with_its_allocation(k: Kernels) -> None:
    x = zeros(4)
    with pytest.raises(
        KernelFaultError, match=r"out of bounds, 16 bytes of memory of .* allocated at .* at byte 16 of 16"
    ):
        k.run("line", ((address(x), 5),))


# Memory that is freed, or has no value.


def test_a_pointer_to_freed_memory_is_use_after_free(k: Kernels) -> None:
    x = zeros()
    pointer = address(x)
    del x
    with fails(Hazard.USE_AFTER_FREE, "second: +line on", "freed before this operation was even enqueued"):
        k.run("line", ((pointer, 5),), k.a)


def test_an_array_whose_pointer_was_given_must_outlive_the_kernel(k: Kernels) -> None:
    x = zeros()
    k.run("line", ((address(x), 5),), k.a)
    del x
    with fails(Hazard.USE_AFTER_FREE, "first: +line on"):
        xl.synchronize()


def test_memory_that_a_freed_array_had_is_not_written_while_a_kernel_uses_it(k: Kernels) -> None:
    with k.a:
        x = xl.to_device(np.zeros(N, np.float32))
        k.run("fill", (x, 0, 1, 1, 1.0), k.a)
        del x
        y = xl.empty(N, "float32")
    with fails(Hazard.MEMORY_REUSED, "first: +fill on"):
        k.run("fill", (y, 9, 1, 1, 1.0), k.b)


def test_what_a_kernel_leaves_alone_has_no_value_afterwards(k: Kernels) -> None:
    x = xl.empty(N, "float32")
    k.run("fill", (x, 0, 16, 2, 1.0))
    assert_same_bits(xl.to_host(x[::2]), np.ones(16, np.float32))
    with fails(Hazard.UNINITIALISED, "bytes 4 to 8 of 128"):
        xl.to_host(x)
    with pytest.raises(KernelFaultError, match="thread .1, 0, 0. .* nothing has written, argument 'x' at index 1"):
        k.run("twice", (x, 0, 2, 1))


# When it is computed, and what is left for later.


def test_what_a_kernel_did_before_its_fault_counts(k: Kernels) -> None:
    x = zeros()
    with pytest.raises(KernelFaultError, match="out of bounds, argument 'x' at index 32"):
        k.module.get_function("fill")(1, 2 * N, (x, 0, 2 * N, 1, 1.0), stream=k.a)
    with fails(Hazard.READ_AFTER_WRITE, "first: +fill on"):
        xl.to_host(x, stream=k.b)
    xl.synchronize()  # before the array dies


def test_a_fault_that_may_follow_from_a_race_is_its_cause(k: Kernels) -> None:
    x, y, index = zeros(), zeros(), put(np.zeros(N, np.int32))
    with k.a:
        xl.to_device(np.full(N, 99, np.int32), out=index)
    with k.a:
        k.run("fill", (x, 0, 4, 1, 1.0), k.a)
    with fails(Hazard.READ_AFTER_WRITE, "second: +gather") as caught:
        k.run("gather", (x, index, y, 0, N), k.b)
    assert caught.value.__cause__ is None or isinstance(caught.value.__cause__, KernelFaultError)


def test_a_pinned_source_is_still_watched_when_a_kernel_comes_behind_its_copy(k: Kernels) -> None:
    source, x = xl.pinned_array(np.ones(N, np.float32)), zeros()
    k.a.wait(xl.to_device_async(source, out=x, stream=k.a))
    k.run("twice", (x, 0, N, 1), k.a)
    source[0] = 5
    with fails(Hazard.SOURCE_CHANGED):
        k.a.synchronize()
    assert_same_bits(xl.to_host(x, stream=k.a), np.full(N, 2, np.float32))


def test_a_pinned_target_is_written_in_its_turn_when_a_kernel_comes_behind_its_copy(k: Kernels) -> None:
    target, x = xl.pinned_array(np.zeros(N, np.float32)), put(np.ones(N, np.float32))
    k.a.wait(xl.to_host_async(x, out=target, stream=k.a))
    k.run("twice", (x, 0, N, 1), k.a)
    assert np.isnan(target).all()
    k.a.synchronize()
    assert_same_bits(np.asarray(target), np.ones(N, np.float32))
    assert_same_bits(xl.to_host(x, stream=k.a), np.full(N, 2, np.float32))


def test_values_come_through_page_locked_memory_to_a_kernel_at_once(k: Kernels) -> None:
    between, x, y = xl.pinned_array(np.zeros(N, np.float32)), put(np.ones(N, np.float32)), zeros()
    backend, pointer = load_backend("sim"), between.ctypes.data  # no call of the library reads it before the host does
    backend.copy(pointer, address(x), 4 * N, stream=k.a._raw)
    backend.copy(address(y), pointer, 4 * N, stream=k.a._raw)
    k.run("twice", (y, 0, N, 1), k.a)
    assert_same_bits(xl.to_host(y, stream=k.a), np.full(N, 2, np.float32))


def test_a_function_on_the_host_has_what_came_before_it(k: Kernels) -> None:
    target, x, seen = xl.pinned_array(np.zeros(N, np.float32)), put(np.ones(N, np.float32)), []
    k.a.wait(xl.to_host_async(x, out=target, stream=k.a))
    k.a.call(lambda: seen.append(target.copy()))
    k.run("twice", (x, 0, N, 1), k.a)
    assert_same_bits(seen[0], np.ones(N, np.float32))


def test_each_launch_of_a_graph_is_followed(k: Kernels) -> None:
    x = zeros()
    with k.a.capture() as graph:
        k.run("fill", (x, 0, 4, 1, 1.0), k.a)
        k.run("twice", (x, 0, 4, 1), k.a)
    for _ in range(2):
        graph.launch(k.a)
    assert_same_bits(xl.to_host(x, stream=k.a)[:5], np.array([2, 2, 2, 2, 0], np.float32))
    graph.launch(k.a)
    with fails(Hazard.READ_AFTER_WRITE, "index 3 of argument 'x'"):
        k.run("twice", (x, 3, 4, 1), k.b)


def test_without_a_detector_a_kernel_is_computed_in_its_turn(loaded: Kernels) -> None:
    with xl.use_backend("sim"), xl.sim.check(mode="off", schedule="lifo"):
        x = zeros()
        loaded.run("fill", (x, 0, N, 1, 1.0), loaded.a)
        loaded.run("fill", (x, 0, N, 1, 2.0), loaded.b)
        xl.synchronize()
        assert_same_bits(xl.to_host(x), np.ones(N, np.float32))


@pytest.mark.parametrize("check", ["0", "1"])
def test_bytes_are_followed_with_and_without_checks_of_kernels(k: Kernels, check: str) -> None:
    x = zeros()
    with configured(kernel_check=check):
        k.run("twice", (x, 0, 16, 1), k.a)
        k.run("twice", (x, 16, 16, 1), k.b)
        with fails(Hazard.READ_AFTER_WRITE, "index 15"):
            k.run("twice", (x, 15, 4, 1), k.b)


def test_a_function_in_place_of_the_source_counts_as_it_is_declared(k: Kernels) -> None:
    function = k.module.get_function("twice", cpu=lambda x, begin, count, step: None)
    x = zeros()
    function(1, N, (x, 0, 16, 1), stream=k.a)
    with fails(Hazard.READ_AFTER_WRITE):
        function(1, N, (x, 16, 16, 1), stream=k.b)


def test_what_is_kept_of_a_loop_of_launches_does_not_grow(k: Kernels) -> None:
    x, y = zeros(), zeros()
    index = put(np.random.default_rng(1).permutation(N).astype(np.int32))
    history: Any = None
    for _ in range(600):
        k.run("gather", (x, index, y, 0, 20), k.a)
        history = x.allocation.block.history
    assert sum(1 for _ in history.every()) < 10
