"""Checked runs tell apart values, arrays and orders: a source with the fault is reported, its neighbour is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.kernels.cuda_cpu.running import Bodies
from xferlib.errors import KernelFaultError, LayoutError
from xferlib.testing import configured

pytestmark = pytest.mark.usefixtures("checked")


BODIES = Bodies("int *x, int *y, int n")


def run(body: str, n: int = 3, *, grid: int = 1, block: int = 64) -> np.ndarray[Any, Any]:
    """Run a body on 128 elements each, which are 0 to 127 and zeros; `y` as it is afterwards."""
    x, y = xl.to_device(np.arange(128, dtype=np.int32)), xl.to_device(np.zeros(128, np.int32))
    BODIES.find(body)(grid, block, (x, y, n))
    xl.synchronize()
    return xl.to_host(y)


def fault(body: str, n: int = 3, *, grid: int = 1, block: int = 64) -> tuple[str, int]:
    """The kind of what is reported, and the line of the body, from 1."""
    with pytest.raises(KernelFaultError) as caught:
        run(body, n, grid=grid, block=block)
    return caught.value.kind, caught.value.line


# Variables without a value


@pytest.mark.parametrize("body", BODIES.add(
    "int sum;\nfor (int i = 0; i < 3; ++i)\nsum += x[i];\ny[0] = sum;",
    "int sum;\nfor (int i = 0; i < n; ++i)\nsum += x[i];\ny[0] = sum;",
    "bool is_done;\nint i = 0;\nwhile (!is_done) { y[i] = 1; is_done = ++i > n; }",
    "int i;\n\nwhile (i < n) { y[i] = x[i]; i += 64; }",
    "__shared__ int s[64];\n__syncthreads();\ny[threadIdx.x] = s[threadIdx.x];",
))  # fmt: skip
def test_a_variable_that_nothing_sets_is_found_even_where_the_optimiser_drops_it(body: str) -> None:
    assert fault(body) == ("uninitialised", 3)


def test_a_variable_that_is_set_on_another_path_is_found_where_its_value_is_used() -> None:
    body = "int value;\nif (x[threadIdx.x] > n)\nvalue = x[threadIdx.x + 1];\ny[threadIdx.x] = value + x[n];"
    assert fault(body) == ("uninitialised", 4)


@pytest.mark.parametrize("body", BODIES.add(
    "int last; for (int i = 0; i < n; ++i) { if (i > 0) y[i] = last * 2; last = x[i]; }",
    "int a; if (threadIdx.x < n) a = x[threadIdx.x]; a += __shfl_down_sync(~0u, a, 1); if (threadIdx.x == 1) y[1] = a;",
    """__shared__ int s[64]; int a; if (threadIdx.x < n) a = x[threadIdx.x]; s[threadIdx.x] = a; __syncthreads();
    int b = s[63 - threadIdx.x]; if (threadIdx.x + n > 63) y[threadIdx.x] = b + 1;""",
    "float a; if (threadIdx.x < n) a = x[threadIdx.x]; a = fmodf(a, 7.f); if (threadIdx.x < n) y[threadIdx.x] = a;",
    "struct { int a, b; } pair[2]; pair[0].a = x[0]; pair[1] = pair[n & 0]; y[0] = pair[1].a;",
    "int a[4]; for (int i = 0; i < n; ++i) if (x[i] & 1) a[0] = x[i]; if (n > 1) y[0] = a[0];",
))  # fmt: skip
def test_a_variable_without_a_value_that_is_not_used_is_none(body: str) -> None:
    run(body)


# Local arrays


def test_an_index_from_one_local_array_into_the_next_is_out_of_bounds() -> None:
    body = """int a[4], b[4];
    for (int i = 0; i < 4; ++i) a[i] = x[i], b[i] = x[i + 4];
    b[n - 3] = 1;
    a[n + 1] = 5;
    y[0] = a[n - 1] + b[n - 2];"""
    assert fault(body) == ("out of bounds", 4)


def test_pointers_into_local_arrays_and_structs_of_arrays_are_within() -> None:
    body = """struct { int k[4]; float w[4]; } s; int a[8], b[8];
    for (int i = 0; i < 8; ++i) a[i] = x[i], b[i] = 2 * x[i];
    for (int i = 0; i < 4; ++i) s.k[i] = a[i], s.w[i] = b[i];
    int *middle = n > 2 ? a + 4 : b + 2; middle[-n] += 1; (&s.k[2])[n - 2] = 7;
    y[0] = a[n - 2] + middle[n] + s.k[n] + (int)s.w[n];"""
    assert run(body)[0] == 2 + 7 + 7 + 6


# The order of volatile accesses, atomics of a block, reads that may be old


FLAG = """volatile int *data = x, *flag = y;
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) { data[1] = 7;
            %s
            flag[0] = 1; }
    } else if (threadIdx.x == 0) {
        while (flag[0] == 0) ;
        %s
        flag[2] = data[1];
    }"""


@pytest.mark.parametrize("fences", [("__threadfence();", ""), ("", "__threadfence();"), ("", "")])
def test_volatile_data_need_a_fence_on_both_sides_of_a_flag(fences: tuple[str, str]) -> None:
    kind, line = fault(FLAG % fences, grid=2)
    assert kind == "race"
    assert line in (3, 9)


def test_volatile_data_with_fences_are_in_order() -> None:
    assert run(FLAG % (("__threadfence();",) * 2), grid=2)[2] == 7


def test_a_barrier_is_no_fence_for_plain_data_of_other_blocks() -> None:
    body = """__shared__ bool is_last;
    if (threadIdx.x == 0) x[blockIdx.x] = 5;
    __threadfence();
    if (threadIdx.x == 0) is_last = atomicAdd(y, 1) == gridDim.x - 1;
    __syncthreads();
    if (is_last && threadIdx.x < gridDim.x) y[threadIdx.x + 1] = %s[threadIdx.x];"""
    assert fault(body % "x", grid=4, block=32)[0] == "race"
    assert run(body % "((volatile int *)x)", grid=4, block=32).tolist()[1:5] == [5] * 4


def test_an_atomic_for_a_block_is_none_for_others() -> None:
    assert fault("atomicAdd_block(&y[0], 1);", grid=2) == ("race", 1)
    assert run("atomicAdd_block(&y[blockIdx.x], 1);", grid=2).tolist()[:2] == [64, 64]


@pytest.mark.parametrize("schedule", ["in-order", "reversed", "random"])
def test_a_guard_of_a_write_may_read_an_old_value(schedule: str) -> None:
    with configured(kernel_schedule=schedule):
        assert run("if (y[0] < x[threadIdx.x]) atomicMax(y, x[threadIdx.x]);", grid=3)[0] == 63
        assert run("if (y[threadIdx.x % 4] == 0) y[threadIdx.x % 4] = n;", grid=3).tolist()[:5] == [3, 3, 3, 3, 0]


SWAPS = [f"int v = x[threadIdx.x]; {swap}" for swap in (
    "int old = *y, e; do { e = old; if (e >= v) break; old = atomicCAS(y, e, v); } while (old != e);",
    "int old = *y; while (v > old) { int e = old; if ((old = atomicCAS(y, e, v)) == e) break; }",
    "int old = *y; while (v > old) { int e = old; old = atomicCAS(y, e, max(e, v)); if (old == e) break; }",
)]  # fmt: skip
USED = BODIES.add(*(f"{swap} if (threadIdx.x) y[threadIdx.x] = old;" for swap in SWAPS))


@pytest.mark.parametrize("schedule", ["in-order", "reversed", "random"])
@pytest.mark.parametrize("body", BODIES.add(*SWAPS))
def test_a_swap_that_is_left_out_where_the_value_read_is_enough_may_read_an_old_one(body: str, schedule: str) -> None:
    with configured(kernel_schedule=schedule):
        assert run(body, grid=3)[0] == 63


@pytest.mark.parametrize("body", USED)
def test_a_value_that_is_used_beside_its_swap_needs_order(body: str) -> None:
    assert fault(body)[0] == "race"


@pytest.mark.parametrize("body", BODIES.add(*("int t = threadIdx.x; " + swap for swap in (
    "int v = *y; if (v < t) atomicCAS(y, 0, v + 1);",
    "int v = *y; if (v < t) atomicCAS(y, v & 1, v + t);",
    "int2 v = *(int2 *)y; if (v.x < t) atomicCAS(y, v.x, v.y + 1);",
    """int first = *y, old = first;
    while (old < t) { int e = old; if ((old = atomicCAS(y, e, first + 1 + t)) == e) break; }""",
))))  # fmt: skip
def test_a_swap_verifies_what_it_expects_and_nothing_else(body: str) -> None:
    assert fault(body)[0] == "race"


WRITES = ("*p = 7", "atomicMax(p, t)", "atomicCAS(p, v, t)")
_BEGIN = "int t = threadIdx.x, *p = y;"
OWN = BODIES.add(*(f"{_BEGIN} for (; p < y + n; ++p) {{ int v = *p; if (v < 1) {write}; }}" for write in WRITES))
OTHERS = BODIES.add(*(f"{_BEGIN} int v = *p; do {{ if (v < 1) {write}; }} while (++p < y + n);" for write in WRITES))


@pytest.mark.parametrize(("own", "others"), [*zip(OWN, OTHERS, strict=True)], ids=WRITES)
def test_a_read_guards_writes_of_the_element_that_it_has_read(own: str, others: str) -> None:
    assert run(own)[3] == 0
    assert fault(others)[0] == "race"


def test_a_guard_that_reads_what_another_thread_prepares_is_a_race() -> None:
    body = """__shared__ int s[64];
    s[threadIdx.x] = 0;
    if (s[63 - threadIdx.x] == 0) atomicAdd(&s[63 - threadIdx.x], 1);"""
    assert fault(body)[0] in ("race", "uninitialised")


# Barriers that threads pass by


@pytest.mark.parametrize("body", BODIES.add(
    "if (threadIdx.x < 32) __syncthreads();\ny[threadIdx.x] = 1;",
    "for (int i = threadIdx.x; i < 96; i += 64) __syncthreads();\ny[threadIdx.x] = 1;",
))  # fmt: skip
def test_a_barrier_that_some_threads_pass_by_is_divergent_though_they_leave(body: str) -> None:
    assert fault(body) == ("divergent barrier", 1)


@pytest.mark.parametrize("body", BODIES.add(
    "if (threadIdx.x >= 40) return; __shared__ int s[64]; s[threadIdx.x] = 1; __syncthreads(); y[threadIdx.x] = s[0];",
    "if (threadIdx.x < 40) { y[threadIdx.x] = 1; __syncthreads(); y[40] = 2; }",
    """for (int i = 0; i < 8; ++i) {
        if (i % 2) __syncthreads();
        if (threadIdx.x / 8 == i) return;
        y[threadIdx.x] += i;
    } y[0] = 1;""",
))  # fmt: skip
@pytest.mark.parametrize("schedule", ["in-order", "reversed", "random"])
def test_threads_that_leave_early_are_not_waited_for(body: str, schedule: str) -> None:
    with configured(kernel_schedule=schedule):
        run(body)


def test_an_array_that_may_not_be_written_is_refused_without_checks_too() -> None:
    kernel = xl.raw_module('extern "C" __global__ void k(int *x) { x[threadIdx.x] = 1; }').get_function("k")
    x = np.zeros(8, np.int32)
    x.flags.writeable = False
    with xl.use_backend("numpy"), configured(kernel_check="0"), pytest.raises(LayoutError, match="'x' is read-only"):
        kernel(1, 8, (x,))
    assert not x.any()


# Overflow


def test_an_index_that_overflows_is_reported_where_that_is_set() -> None:
    body = "int row = n + threadIdx.x;\nint at = row * n;\nif (threadIdx.x == 1)\ny[at & 63 ? 0 : at] = x[at];"
    with configured(kernel_overflow="1"):
        with pytest.raises(
            KernelFaultError, match=r"computes the index 2147534622, which does not fit in 32 bits"
        ) as e:
            run(body, 46341)
        assert e.value.kind == "overflow"
    with pytest.raises(KernelFaultError) as other:
        run(body, 46341)
    assert other.value.kind == "out of bounds"


@pytest.mark.parametrize("body", BODIES.add(
    "unsigned h = (x[threadIdx.x] + n) * 2654435761u; y[h >> 26] = 1; y[(h * 40503u) & 63] = 1; y[h % 64] = 1;",
    "unsigned s = n; for (int i = 0; i < 9; ++i) { s = s * 1664525u + 1013904223u; y[(int)(s >> 25)] = 1; }",
    "unsigned i = threadIdx.x - 1; if (i + 1 < 64) y[i + 1] = x[(int)(i + 1)];",
    "y[threadIdx.x + n - 3] = x[(63 - threadIdx.x) * 2];",
))  # fmt: skip
def test_sums_that_are_meant_to_wrap_are_no_overflow(body: str) -> None:
    with configured(kernel_overflow="1"):
        run(body, block=64)
