"""Values that nothing has set: of shuffles from lanes that take no part, and of arrays that are not filled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.kernels.cuda_cpu.running import Bodies
from tests.sizes import IS_LONG
from xferlib.errors import KernelFaultError

pytestmark = pytest.mark.usefixtures("checked")


BODIES = Bodies("const int *x, int *out", "int t = threadIdx.x, v = x[t]; ")


def run(body: str, block: int = 48, *, bodies: Bodies = BODIES) -> KernelFaultError | None:
    x, out = xl.to_device(np.arange(128, dtype=np.int32)), xl.zeros(128, np.int32)
    try:
        bodies.find(body)(1, block, (x, out))
        xl.synchronize()
    except KernelFaultError as error:
        return error
    return None


_NEXT = "int u = __shfl_down_sync(0xffffffffu, v, 1);\n"
_SUM = "for (int step = 16; step; step /= 2) v += __shfl_down_sync(0xffffffffu, v, step);\n"

USED = {  # of 48 threads: the last one's is the lane 16 of a warp of 16
    "is stored": _NEXT + "out[t] = u;",
    "is computed with": _NEXT + "out[t] = 3 * u + 1;",
    "is part of a sum": _SUM + "if (t % 32 == 0) out[t] = v;",
    "is part of a union of bits": "v |= __shfl_down_sync(0xffffffffu, v, 1);\nout[t] = v;",
    "is an index": _NEXT + "out[u & 127] = 1;",
    "is added by an atomic": _NEXT + "atomicAdd(out, u);",
    "decides a vote": _NEXT + "if (__any_sync(__activemask(), u > 100)) out[0] = 1;",
    "decides a write": _NEXT + "if (u > 5) out[t] = 1;",
    "decides a value": _NEXT + "int w = 1;\nif (u > 5) w = x[t + 1] / 3;\nout[t] = w;",
    "decides the turns of a loop": _NEXT + "for (int i = 0; i < u % 4; i++) out[t] += x[i];",
    "passes shared memory": "__shared__ int s[64];\n" + _NEXT + "s[t] = u;\n__syncthreads();\nout[t] = s[47 - t];",
    "passes local memory": "int a[8];\n" + _NEXT + "a[v % 8] = u;\na[(v + 1) % 8] = 2;\nout[t] = a[v % 8];",
    "is shuffled again": _NEXT + "u = __shfl_sync(0xffffffffu, u, 15);\nout[t] = u;",
    "is behind an early exit": "if (t >= 20) return;\n" + _NEXT + "out[t] = u;",
    "is of a lane that the mask leaves out": "if (t < 16) out[t] = __shfl_xor_sync(0xffffu, v, 16);",
}
BODIES.add(*USED.values())


@pytest.mark.parametrize("name", USED)
def test_the_use_of_what_a_shuffle_leaves_undefined_is_reported(name: str) -> None:
    body = USED[name]
    error = run(body)
    assert error is not None
    assert error.kind == "uninitialised"
    line = next(number for number, each in enumerate(body.split("\n"), 1) if "__shfl" in each)
    assert f"which takes no part in the shuffle at line {line};" in str(error)
    assert "the value of lane " in str(error)


def test_the_report_names_the_lane() -> None:
    assert "the value of lane 20, which" in str(run("if (t < 16) out[t] = __shfl_sync(0xffffu, v, 20);"))


_SCAN = """for (int step = 1; step < 32; step *= 2) {
    int u = __shfl_up_sync(0xffffffffu, v, step);
    if (t % 32 >= step) v += u;
}
"""
_TILE = "auto tile = cg::tiled_partition<16>(cg::this_thread_block());\n"
_HALVES = "union { short parts[2]; int whole; } a; a.whole = 0; a.parts[0] = v;\n"
_WRITE_AGAIN = "s[t] = u;\nif (t == 47) s[t] = 1;\n__syncthreads();\nout[t] = s[47 - t];"
_OPERATOR = """if (t >= 20) return;
for (int step = 1; step < 32; step *= 2) {
    int u = __shfl_down_sync(0xfffffu, v, step), most = v;
    if (u > v) {
        most = u;
        for (int i = 0; i < u % 3; i++) most += v / 7;
    }
    if (t + step <= 3) v = most;
}
if (t == 0) out[t] = v;"""
_ACTIVE = "if (t % 3 == 0) { auto all = cg::coalesced_threads(); out[t] = all.shfl_down(v, 1); }"

NOT_USED = {
    "all lanes take part": (_SUM + "if (t % 32 == 0) out[t] = v;", 64),
    "a guard": (_NEXT + "if (t < 47) out[t] = u;", 48),
    "a guard with two parts": (_NEXT + "if (u > 5 && t < 47) out[t] = u;", 48),
    "a selection": (_NEXT + "out[t] = t < 47 ? u : v;", 48),
    "a product of bits": (_NEXT + "out[t] = u & -(t < 47);", 48),
    "a sum that only one lane needs": (
        _SUM.replace("16", "8", 1) + "if (t % 32 == 0) out[t] = v;",
        48,
    ),
    "a branch that decides nothing": (_NEXT + "int w = u > 5 ? x[u & 63] / 3 : 1;\nif (t < 47) out[t] = w;", 48),
    "memory that is not read": (
        "__shared__ int s[64];\n" + _NEXT + "s[t] = u;\n__syncthreads();\nif (t < 47) out[t] = s[t];",
        48,
    ),
    "memory that is written again": ("__shared__ int s[64];\n" + _NEXT + _WRITE_AGAIN, 48),
    "a scan": (
        _SCAN + "out[t] = v;",
        48,
    ),
    "tiles": (
        _TILE + "for (int step = 8; step; step /= 2) v += tile.shfl_down(v, step);\nif (t % 16 == 0) out[t] = v;",
        48,
    ),
    "lanes that are active": (_ACTIVE, 48),
    "a reduction whose operator branches": (_OPERATOR, 20),
    "halves in one register": (
        _HALVES + "a.whole = __shfl_down_sync(0xffffffffu, a.whole, 1);\nif (t < 47) out[t] = a.parts[0];",
        48,
    ),
}  # fmt: skip
BODIES.add(*(body for body, _ in NOT_USED.values()))


@pytest.mark.parametrize("name", NOT_USED)
def test_what_a_shuffle_leaves_undefined_may_be_dropped(name: str) -> None:
    assert run(*NOT_USED[name]) is None


CALLS = Bodies("const int *x, int *out", "int t = threadIdx.x, v = x[t]; ", functions="""
__device__ __noinline__ int next(int v) { return __shfl_down_sync(0xffffffffu, v, 1); }
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ void put(int *out, int v) { *out = v; }
__device__ __noinline__ int climb(int n, int v) { return n == 0 ? v : climb(n - 1, v + 1); }
__device__ int (*volatile table[2])(int, int) = {add, add};
""")  # fmt: skip
USES = (
    "out[t] = u;",
    "put(out + t, u);",
    "out[t] = add(add(1, u), 2);",
    "out[t] = climb(5, u);",
    "out[t] = table[v & 1](u, 1);",
)
PASSED = CALLS.add(*(f"int u = next(v);\n{use}" for use in USES))
GUARDED = CALLS.add(*(f"int u = next(v), other = add(u, v);\nif (t < 47) {{ {use} }}" for use in USES))


@pytest.mark.parametrize(("passed", "guarded"), [*zip(PASSED, GUARDED, strict=True)], ids=USES)
def test_a_value_of_a_shuffle_passes_calls(passed: str, guarded: str) -> None:
    error = run(passed, bodies=CALLS)
    assert error is not None
    assert "the value of lane 16, which takes no part" in str(error)
    assert run(guarded, bodies=CALLS) is None


@pytest.mark.skipif(not IS_LONG, reason="CUB's headers take NVRTC seconds; a reduction of its kind is in NOT_USED")
def test_a_reduction_of_cub_drops_what_lanes_beyond_the_last_value_give() -> None:
    """Its operator meets such values, too, and branches on them."""
    source = """
#include <cub/warp/warp_reduce.cuh>
struct Larger {
    __device__ int operator()(int a, int b) const {
        int found = a;
        if (b > a) {
            found = b;
            for (int i = 0; i < b % 3; i++) found += a / 7;
        }
        return found;
    }
};
extern "C" __global__ void k(const int *x, int *out, int n) {
    typedef cub::WarpReduce<int> Reduce;
    __shared__ Reduce::TempStorage memory;
    int found = Reduce(memory).Reduce(x[threadIdx.x], Larger(), n);
    if (threadIdx.x == 0) out[0] = found;
}"""
    kernel = xl.raw_module(source, options=("--std=c++17",)).get_function("k")
    x, out = xl.to_device(np.array([1, 4, 9, 3] + [99] * 28, np.int32)), xl.zeros(1, np.int32)
    kernel(1, 20, (x, out, 4))
    xl.synchronize()
    assert xl.to_host(out).tolist() == [9]


def test_memory_that_nothing_has_written_is_no_value_of_a_shuffle() -> None:
    error = run("__shared__ int s[64];\n" + _NEXT + "if (t < 40) s[t] = u;\n__syncthreads();\nout[t] = s[t];")
    assert error is not None
    assert "shared variable 's'" in str(error)


_MODES = {
    "up": lambda lane, by, width: lane - by if lane % width >= by else lane,
    "down": lambda lane, by, width: lane + by if lane % width + by < width else lane,
    "xor": lambda lane, by, width: lane ^ by if (lane ^ by) // width <= lane // width else lane,
    "": lambda lane, by, width: lane // width * width + by % width,
}  # fmt: skip


def _make_shuffles() -> str:
    calls = "\n".join(
        f"if (mode == {number}) u = __shfl_{name}{'_' * bool(name)}sync(mask, v, by, width);"
        for number, name in enumerate(_MODES)
    )
    return f"""
extern "C" __global__ void k(const unsigned *x, unsigned *out, unsigned mask, unsigned stores, int mode, int by,
                             int width)
{{
    unsigned lane = threadIdx.x, v = x[lane], u = 0;
    if (!(mask >> lane & 1)) return;
    {calls}
    if (stores >> lane & 1) out[lane] = u;
}}"""


@given(
    mask=st.integers(0, 2**32 - 1), lanes=st.integers(1, 32), stores=st.integers(0, 2**32 - 1),
    mode=st.sampled_from([*_MODES]), by=st.integers(0, 31), width=st.sampled_from([1, 2, 4, 8, 16, 32]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_a_value_is_reported_just_if_a_lane_stores_what_no_lane_gives(
    mask: int, lanes: int, stores: int, mode: str, by: int, width: int
) -> None:
    alive = {lane for lane in range(lanes) if mask >> lane & 1}
    sources = {lane: _MODES[mode](lane, by, width) for lane in alive}
    is_undefined = any(stores >> lane & 1 and source not in alive for lane, source in sources.items())
    x, out = xl.to_device(np.arange(7, 39, dtype=np.uint32)), xl.zeros(32, np.uint32)
    kernel = xl.raw_module(_make_shuffles()).get_function("k")
    number = [*_MODES].index(mode)
    try:
        kernel(1, lanes, (x, out, mask, stores, number, by, width))
        xl.synchronize()
        report = ""
    except KernelFaultError as error:
        report = str(error)
    assert bool(report) == is_undefined, report
    if not report:
        wanted = [sources[lane] + 7 if lane in alive and stores >> lane & 1 else 0 for lane in range(32)]
        assert xl.to_host(out).tolist() == wanted


# ---- arrays ----

FILLS = """
extern "C" __global__ void fill(char *x, int begin, int end) {
    for (int i = begin + threadIdx.x; i < end; i += 32) x[i] = 1;
}
extern "C" __global__ void read(const char *x, char *out, int begin, int end) {
    for (int i = begin + threadIdx.x; i < end; i += 32) out[i] = x[i];
}"""
_SIZE = 96


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["kernel", "assign", "copy", "strided", "device copy"]),
            st.integers(0, _SIZE), st.integers(0, _SIZE),
        ), min_size=1, max_size=4,
    ),
    begin=st.integers(0, _SIZE), end=st.integers(0, _SIZE), off=st.integers(0, 3),
    schedule=st.sampled_from(["lazy", "eager"]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_an_array_is_uninitialised_just_where_nothing_has_filled_it(
    steps: list[tuple[str, int, int]], begin: int, end: int, off: int, schedule: str
) -> None:
    module = xl.raw_module(FILLS)
    fill, read = module.get_function("fill"), module.get_function("read")
    recycled = xl.zeros(_SIZE, np.int8)
    del recycled
    x, out, full = xl.empty(_SIZE, np.int8), xl.zeros(_SIZE, np.int8), xl.zeros(_SIZE, np.int8)
    has_value = np.zeros(_SIZE, bool)
    for number, (kind, first, last) in enumerate(steps):
        with xl.sim.check("off" if number == off else "raise", schedule=schedule):
            part = slice(first, last, 2 if kind == "strided" else 1)
            if first >= last:
                continue
            if kind == "kernel":
                fill(1, 32, (x, first, last))
            elif kind == "copy":
                xl.to_device(np.ones(last - first, np.int8), out=x[part])
            elif kind == "device copy":
                x[part] = full[part]
            else:
                x[part] = 1
            has_value[part] = True
    for run_begin, run_end in _list_runs(has_value):
        read(1, 32, (x, out, run_begin, run_end))
        xl.synchronize()
    if not has_value[begin:end].all():
        with pytest.raises(KernelFaultError) as caught:
            read(1, 32, (x, out, begin, end))
            xl.synchronize()
        assert caught.value.kind == "uninitialised"
        assert caught.value.index is not None
        assert not has_value[caught.value.index]


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "given"])
@pytest.mark.parametrize("off", range(3))
def test_what_a_call_computes_while_the_detector_is_off_has_a_value(is_new: bool, off: int) -> None:
    """Calls after the first are prepared, and go another way than other operations."""
    read = xl.raw_module(FILLS).get_function("read")
    x, out, negate = xl.zeros(_SIZE, np.int8), xl.zeros(_SIZE, np.int8), xl.elementwise(lambda x: -x)
    results = []
    for number in range(3):
        with xl.sim.check("off" if number == off else "raise"):
            results.append(-x if is_new else negate(x, out=xl.empty(_SIZE, np.int8)))
    for each in results:
        read(1, 32, (each, out, 0, _SIZE))
        xl.synchronize()


def _list_runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """The beginnings and ends of runs that are set."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return [(int(begin), int(end)) for begin, end in edges.reshape(-1, 2)]
