"""CUDA source without a GPU: the same kernels on numpy, torch's CPU and the simulator, and their faults."""

from __future__ import annotations

import builtins
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.kernels.targets import has_nvrtc, need_nvrtc
from tests.needed import need
from xferlib.errors import ArgumentError, KernelCompileError, KernelFaultError, KernelTypeError, UnsupportedError
from xferlib.testing import assert_same_bits, configured

BACKENDS = ("numpy", "torch", "sim")


@pytest.fixture(params=BACKENDS)
def library(request: pytest.FixtureRequest) -> Any:
    need_nvrtc()
    _need_cpu(request.param)
    with xl.use_backend(request.param), configured(kernel_check="1"):
        yield request.param


def _need_cpu(backend: str) -> None:
    """Skip torch where it is not installed, or its current device is a GPU."""
    if backend == "torch" and any("cuda" in device for device in need("torch").devices):
        pytest.skip("torch's current device is a GPU")


@pytest.fixture
def checked() -> Any:
    need_nvrtc()
    with xl.use_backend("sim"), configured(kernel_check="1"):
        yield


ADDITION = """
__global__ void add(const float *x, const float *y, float *out, int width, int height)
{
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (column < width && row < height)
        out[row * width + column] = x[row * width + column] + y[row * width + column];
}
"""


def test_the_two_dimensional_addition_in_both_styles_of_calling(library: str) -> None:
    add = xl.raw_module(f'extern "C" {ADDITION}').get_function("add")
    x, y = np.random.default_rng(1).random((2, 37, 53), np.float32)
    out = xl.to_device(np.zeros_like(x))
    add((4, 3), (16, 16), (xl.to_device(x), xl.to_device(y), out, np.int32(53), np.int32(37)))
    assert_same_bits(xl.to_host(out), x + y)
    other = xl.to_device(np.zeros_like(x))
    add(xl.to_device(x), xl.to_device(y), other, np.int32(53), np.int32(37), block=(16, 16, 1), grid=(4, 3))
    assert_same_bits(xl.to_host(other), x + y)


PROGRAMS = """
#include <cooperative_groups.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

struct Line { float slope; double offset; int n; };
__constant__ float weights[4];
__device__ int calls;

extern "C" __global__ void total(const float *x, float *out, int n)
{
    extern __shared__ float partial[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    partial[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, partial[0]);
}

template <typename T> __global__ void warp_sums(const T *x, T *out)
{
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    T value = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int step = 16; step > 0; step /= 2) value += tile.shfl_down(value, step);
    if (tile.thread_rank() == 0) {
        out[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = value * (T)weights[1];
        atomicAdd(&calls, 1);
    }
}

extern "C" __global__ void line(Line f, float3 shift, float *out)
{
    if (threadIdx.x < f.n) out[threadIdx.x] = f.slope * threadIdx.x + (float)f.offset + shift.y;
}

extern "C" __global__ void halves(const __half *x, __half *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __hadd(__hmul(x[i], x[i]), __float2half(0.5f));
}

extern "C" __global__ void steps(int *x, int rounds)
{
    auto grid = cg::this_grid();
    int i = grid.thread_rank(), n = grid.size();
    for (int round = 0; round < rounds; ++round) {
        int next = x[(i + 1) % n];
        grid.sync();
        x[i] = next;
        grid.sync();
    }
}

extern "C" __global__ void say(int number)
{
    if (threadIdx.x == 1) printf("thread %d of block %u: %5.2f %s\\n", threadIdx.x, blockIdx.x, number * 0.5, "ends");
}
"""


@pytest.fixture
def module(library: str) -> Any:
    return xl.raw_module(PROGRAMS, names=("warp_sums<float>", "warp_sums<double>"))


def test_dynamic_shared_memory_barriers_and_atomics(module: Any) -> None:
    x = np.arange(1000, dtype=np.float32)
    out = xl.to_device(np.zeros(1, np.float32))
    module.get_function("total")(4, 256, (xl.to_device(x), out, 1000), shared_nbytes=1024)
    assert xl.to_host(out)[0] == x.sum()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_templates_tiles_constant_memory_and_variables(module: Any, dtype: str) -> None:
    name = {"float32": "warp_sums<float>", "float64": "warp_sums<double>"}[dtype]
    x = np.arange(128, dtype=dtype)
    out = xl.to_device(np.zeros(4, dtype))
    xl.to_device(np.array([1, 3, 0, 0], np.float32), out=module.get_global("weights"))
    module.get_function(name)(2, 64, (xl.to_device(x), out))
    assert_same_bits(xl.to_host(out), x.reshape(4, 32).sum(1) * 3)
    assert xl.to_host(module.get_global("calls", "int32")).tolist() == [4]


def test_structs_and_vectors_are_passed_by_value(module: Any) -> None:
    out = xl.to_device(np.zeros(8, np.float32))
    module.get_function("line")(1, 32, ({"slope": 2.0, "offset": 0.5, "n": 5}, (0.0, 10.0, 0.0), out))
    expected = np.zeros(8, np.float32)
    expected[:5] = 2 * np.arange(5) + 10.5
    assert_same_bits(xl.to_host(out), expected)


def test_half_numbers(module: Any) -> None:
    x = np.linspace(-3, 3, 50, dtype=np.float16)
    out = xl.to_device(np.zeros_like(x))
    module.get_function("halves", "const __half *x, __half *out, int n")(1, 64, (xl.to_device(x), out, 50))
    assert_same_bits(xl.to_host(out), x * x + np.float16(0.5))


def test_the_whole_grid_waits_for_its_blocks(module: Any) -> None:
    x = xl.to_device(np.arange(96, dtype=np.int32))
    module.get_function("steps")(3, 32, (x, 5), cooperative=True)
    assert_same_bits(xl.to_host(x), np.roll(np.arange(96, dtype=np.int32), -5))


def test_output_of_printf_is_written_by_python(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    module.get_function("say")(2, 32, (7,))
    xl.synchronize()
    assert sorted(capsys.readouterr().out.splitlines()) == [f"thread 1 of block {each}:  3.50 ends" for each in (0, 1)]


def test_attributes_are_told_as_far_as_they_are_known(module: Any) -> None:
    found = module.get_function("total").attributes()
    assert (found.registers, found.max_threads, found.constant_nbytes) == (0, 1024, 16)


def test_a_variable_that_there_is_not(module: Any) -> None:
    with pytest.raises(ArgumentError, match="no variable 'weight'"):
        module.get_global("weight")


FAULTY = {
    "out of bounds": """
extern "C" __global__ void k(float *x, int n) {
    int i = threadIdx.x;
    if (i <= n) x[i] = 1;
}""",
    "uninitialised": """
extern "C" __global__ void k(float *x, int n) {
    __shared__ float s[64]; if (threadIdx.x > 3) s[threadIdx.x] = 0; __syncthreads();
    x[threadIdx.x % n] = s[threadIdx.x];
}""",
    "race": """
extern "C" __global__ void k(float *x, int n) {
    __shared__ float s[64]; s[threadIdx.x] = 0; __syncthreads(); s[threadIdx.x] = threadIdx.x;
    if (threadIdx.x < n) x[threadIdx.x] = s[63 - threadIdx.x];
}""",
    "divergent barrier": """
extern "C" __global__ void k(float *x, int n) {
    if (threadIdx.x < 32) { x[0] = 1; __syncthreads(); } else
    { __syncthreads(); }
}""",
    "endless": """
extern "C" __global__ void k(float *x, int n) {
    volatile float *y = x;
    while (y[0] == 0) ;
}""",
    "assertion": """
extern "C" __global__ void k(float *x, int n) {
    int i = threadIdx.x;
    assert(i < 40);
}""",
}


@pytest.mark.parametrize("schedule", ["in-order", "reversed", "random"])
@pytest.mark.parametrize("kind", FAULTY)
def test_a_fault_is_reported_with_its_line(checked: None, kind: str, schedule: str) -> None:
    kernel = xl.raw_module(FAULTY[kind]).get_function("k")
    x = xl.to_device(np.zeros(32, np.float32))
    with configured(kernel_schedule=schedule, loop_turns=10_000), pytest.raises(KernelFaultError) as caught:
        kernel(1, 64, (x, 32))
        xl.synchronize()
    error = caught.value
    line = (3, 4) if kind in ("race", "divergent barrier") else (4,)
    assert error.kind == kind
    assert error.line in line, str(error)
    assert str(error).startswith(f"k(), line {error.line}: thread (")
    if kind == "out of bounds":
        assert error.index == 32
        assert "argument 'x'" in str(error)


def test_a_mistake_in_the_source_is_the_compilers_error(library: str) -> None:
    kernel = xl.raw_module('extern "C" __global__ void k(float *x) { x[0] = y; }').get_function("k")
    with pytest.raises(KernelCompileError, match='identifier "y" is undefined'):
        kernel(1, 1, (xl.to_device(np.zeros(1, np.float32)),))


def test_what_is_not_covered_is_named_with_its_line(library: str) -> None:
    source = """
extern "C" __global__ void k(cudaTextureObject_t t, float *x) {
    x[0] = tex2D<float>(t, 0.5f, 0.5f);
}"""
    kernel = xl.raw_module(source).get_function("k", "unsigned long long t, float *x")
    with pytest.raises(UnsupportedError, match=r"tex\.2d.*not supported on a CPU.*cpu="):
        kernel(1, 1, (0, xl.to_device(np.zeros(1, np.float32))))


def test_arguments_of_another_size_than_the_kernels_are_refused(library: str) -> None:
    kernel = xl.raw_module('extern "C" __global__ void k(double a, float *x) { x[0] = a; }').get_function(
        "k", "float a, float *x"
    )
    with pytest.raises(KernelTypeError, match="has 8 bytes, and the signature 4"):
        kernel(1, 1, (1.0, xl.to_device(np.zeros(1, np.float32))))


PTX = """
.version 7.0
.target sm_75
.address_size 64
.visible .entry triple(.param .u64 x)
{
    .reg .b64 %rd<4>; .reg .b32 %r<4>;
    ld.param.u64 %rd1, [x];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.u64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    mul.lo.u32 %r3, %r2, 3;
    st.global.u32 [%rd3], %r3;
    ret;
}
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_ptx_is_loaded_without_nvrtc(backend: str, tmp_path: Path) -> None:
    _need_cpu(backend)
    path = tmp_path / "triple.ptx"
    path.write_text(PTX)
    with xl.use_backend(backend):
        x = xl.to_device(np.arange(5, dtype=np.int32))
        xl.raw_module(path=path).get_function("triple", "int *x")(1, 5, (x,))
        assert_same_bits(xl.to_host(x), 3 * np.arange(5, dtype=np.int32))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_address_is_the_array_that_is_there(backend: str, tmp_path: Path) -> None:
    _need_cpu(backend)
    path = tmp_path / "triple.ptx"
    path.write_text(PTX)
    with xl.use_backend(backend):
        triple = xl.raw_module(path=path).get_function("triple", "int *x")
        x = xl.to_device(np.arange(5, dtype=np.int32))
        address = xl.get_backend(x).view(x).pointer
        triple(1, 4, (address + 4,))
        assert xl.to_host(x).tolist() == [0, 3, 6, 9, 12]
        if backend == "sim":
            for grid, block, wrong in ((1, 5, address + 4), (1, 1, address + 1000)):
                with pytest.raises((ArgumentError, KernelFaultError)):
                    triple(grid, block, (wrong,))
                    xl.synchronize()


@pytest.mark.parametrize("line", ["bra ;", "bra.uni ;", "brx.idx;", "nonsense;", "add.u32 %r1, %r2;"])
def test_what_is_not_ptx_is_an_error_of_the_compiler(line: str, tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(PTX.replace("ret;", line))
    with xl.use_backend("numpy"), pytest.raises((KernelCompileError, UnsupportedError)):
        xl.raw_module(path=path).get_function("triple", "int *x")(1, 1, (np.zeros(1, np.int32),))


def test_machine_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "k.cubin"
    path.write_bytes(b"\x7fELF" + bytes(60))
    with xl.use_backend("numpy"), pytest.raises(UnsupportedError, match="machine code does not run on a CPU"):
        xl.raw_module(path=path).get_function("k", "int *x")(1, 1, (np.zeros(1, np.int32),))


def test_without_nvrtc_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find = builtins.__import__

    def refuse(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("xferlib.backends.cuda") or "compiler" in (args[2] if len(args) > 2 and args[2] else ()):
            raise ImportError("No module named 'cuda'")
        return find(name, *args, **options)

    kernel = xl.raw_module('extern "C" __global__ void k(float *x) { x[0] = 1; }').get_function("k")
    monkeypatch.setattr(builtins, "__import__", refuse)
    with xl.use_backend("numpy"), pytest.raises(UnsupportedError, match=r"NVRTC.*No module named.*cuda-on-cpu.*cpu="):
        kernel(1, 1, (np.zeros(1, np.float32),))


COUNTER = """
__device__ int counter = 1;
extern "C" __global__ void set(int n) { counter = n; }
extern "C" __global__ void get(int *out) { *out = counter; }
"""


def test_kernels_without_arrays_keep_their_order_on_the_simulator(checked: None) -> None:
    module, stream = xl.raw_module(COUNTER), xl.Stream()
    with stream:
        out = xl.to_device(np.zeros(1, np.int32))
        module.get_function("set")(1, 1, (3,))
        module.get_function("set")(1, 1, (7,))
        module.get_function("get")(1, 1, (out,))
    assert xl.to_host(out, stream=stream).tolist() == [7]


def test_a_variable_that_streams_use_without_order_is_a_race(checked: None) -> None:
    module = xl.raw_module(COUNTER)
    module.compile()
    first, second = xl.Stream(), xl.Stream()
    with first:
        module.get_function("set")(1, 1, (3,))
    with pytest.raises(xl.sim.RaceError, match="set"), second:
        out = xl.to_device(np.zeros(1, np.int32))
        module.get_function("get")(1, 1, (out,))
        xl.synchronize()


def test_a_module_is_loaded_before_a_capture(checked: None) -> None:
    stream = xl.Stream()
    x = xl.to_device(np.zeros(1, np.int32), stream=stream)
    stream.synchronize()
    kernel = xl.raw_module(COUNTER).get_function("get")
    with pytest.raises(UnsupportedError, match=r"module\.compile\(\) before"), stream.capture():
        kernel(1, 1, (x,), stream=stream)


def test_launch_bounds_and_cooperative_launches_are_checked_at_the_call(library: str) -> None:
    source = """
#include <cooperative_groups.h>
extern "C" __global__ void __launch_bounds__(64) small(int *x) { x[0] = 1; }
extern "C" __global__ void wide(int *x) { cooperative_groups::this_grid().sync(); x[0] = 1; }
"""
    module, x = xl.raw_module(source), xl.to_device(np.zeros(1, np.int32))
    with pytest.raises(KernelTypeError, match=r"more threads than the 64 of the kernel's __launch_bounds__"):
        module.get_function("small")(1, 128, (x,))
    with pytest.raises(KernelTypeError, match="launch it with cooperative=True"):
        module.get_function("wide")(2, 32, (x,))
    with pytest.raises(KernelTypeError, match="a cooperative launch of 25600000 threads is too large"):
        module.get_function("wide")(100_000, 256, (x,), cooperative=True)


@pytest.mark.parametrize(
    "line", ['#include "{}"', '/**/ #include "{}"', '%:include "{}"', '#define H "{}"\n#include H']
)
def test_a_header_that_changes_is_read_again(library: str, line: str, tmp_path: Path) -> None:
    header = tmp_path / "value.h"
    x = xl.to_device(np.zeros(1, np.int32))
    for value in (1, 2):
        header.write_text(f"#define VALUE {value}\n")
        source = f'{line.format(header)}\nextern "C" __global__ void k(int *x) {{ x[0] = VALUE; }}'
        xl.raw_module(source).get_function("k", "int *x")(1, 1, (x,))
        assert xl.to_host(x).tolist() == [value]


def test_settings_are_those_of_the_call(checked: None) -> None:
    source = """
extern "C" __global__ void k(int *x) { int turn = atomicAdd(x + 1, 1); if (threadIdx.x == 0) x[0] = turn; }"""
    kernel = xl.raw_module(source).get_function("k")
    x = xl.to_device(np.zeros(2, np.int32))
    with configured(kernel_schedule="reversed", sim_schedule="lazy"):
        kernel(1, 8, (x,))
    assert xl.to_host(x).tolist() == [7, 8]


@pytest.mark.parametrize("named", ["nosuchcompiler", "gcc -x'"])
def test_a_compiler_that_cannot_be_found_is_named(named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", named)
    path = tmp_path / "triple.ptx"
    path.write_text(f"// {named}\n{PTX}")  # a text that no other test has compiled
    kernel = xl.raw_module(path=path).get_function("triple", "int *x")
    with xl.use_backend("numpy"), configured(kernel_check="1"), pytest.raises(KernelCompileError, match="CC="):
        kernel(1, 1, (np.zeros(3, np.int32),))


@pytest.mark.skipif("CI" not in os.environ or sys.platform != "linux", reason="a machine that need not have NVRTC")
def test_the_check_of_every_change_has_nvrtc() -> None:
    assert has_nvrtc()
