"""CUDA source without a GPU: the same kernels on numpy, torch's CPU and the simulator, and their faults."""

from __future__ import annotations

import builtins
import ctypes
import functools
import gc
import os
import signal
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.kernels.cuda_cpu.running import PTX, combine_sources
from tests.kernels.targets import has_nvrtc, need_nvrtc
from tests.needed import need
from tests.processes import printed
from tests.sizes import IS_LONG
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
    # Rounded once: a GPU contracts the operators of half.
    assert_same_bits(xl.to_host(out), (np.square(x, dtype=np.float64) + 0.5).astype(np.float16))


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


DIVIDE = """extern "C" __global__ void k(const long long *x, long long *out) {
    __int128 a = (__int128)x[0] << 64 | (unsigned long long)x[1], b = (__int128)x[2] << 64 | (unsigned long long)x[3];
    unsigned __int128 q = (unsigned __int128)a / (unsigned __int128)b;
    __int128 r = a % b;
    out[0] = q >> 64; out[1] = q; out[2] = r >> 64; out[3] = r;
}"""


@pytest.mark.parametrize("backend", ["numpy", "sim"])
def test_quotients_of_128_bits(backend: str) -> None:
    """NVRTC computes them by chains of carries."""
    need_nvrtc()
    with xl.use_backend(backend):
        kernel = xl.raw_module(DIVIDE, options=("--device-int128",)).get_function("k")
        for high, low, above, below in [(0, 7, 0, 1), (5, -1, 0, 3), (-3, 4, 0, 1000003), (1 << 61, 9, 1 << 40, -7)]:
            given, out = xl.to_device(np.array([high, low, above, below])), xl.zeros(4, np.int64)
            kernel(1, 1, (given, out))
            a, b = (high << 64) | low % (1 << 64), (above << 64) | below % (1 << 64)
            quotient, rest = a % (1 << 128) // b, abs(a) % b * (1 if a >= 0 else -1)
            parts = xl.to_host(out).astype(object) % (1 << 64)
            assert (parts[0] << 64 | parts[1], parts[2] << 64 | parts[3]) == (quotient, rest % (1 << 128))


def test_a_variable_that_there_is_not(module: Any) -> None:
    with pytest.raises(ArgumentError, match="no variable 'weight'"):
        module.get_global("weight")


FAULTY = {  # races, barriers and values that nothing sets: test_sanitizer_examples.py
    "out of bounds": """
extern "C" __global__ void k(float *x, int n) {
    int i = threadIdx.x;
    if (i <= n) x[i] = 1;
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


@functools.cache
def compile_faulty() -> xl.RawModule:
    return xl.raw_module(combine_sources(FAULTY.values()))


@pytest.mark.parametrize("schedule", ["in-order", "reversed", "random"])
@pytest.mark.parametrize("kind", FAULTY)
def test_a_fault_is_reported_with_its_line(checked: None, kind: str, schedule: str) -> None:
    name = f"k{[*FAULTY].index(kind)}"
    kernel = compile_faulty().get_function(name)
    x = xl.to_device(np.zeros(32, np.float32))
    with configured(kernel_schedule=schedule, loop_turns=10_000), pytest.raises(KernelFaultError) as caught:
        kernel(1, 64, (x, 32))
        xl.synchronize()
    error = caught.value
    assert error.kind == kind
    assert str(error).startswith(f"{name}(), line 4: thread (")
    assert error.line == 4
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
    with pytest.raises(UnsupportedError, match=r"tex\.2d.*does not run on a CPU.*cpu="):
        kernel(1, 1, (0, xl.to_device(np.zeros(1, np.float32))))


def test_arguments_of_another_size_than_the_kernels_are_refused(library: str) -> None:
    kernel = xl.raw_module('extern "C" __global__ void k(double a, float *x) { x[0] = a; }').get_function(
        "k", "float a, float *x"
    )
    with pytest.raises(KernelTypeError, match="has 8 bytes, and the signature 4"):
        kernel(1, 1, (1.0, xl.to_device(np.zeros(1, np.float32))))


def _load_triple(folder: Path) -> xl.RawKernel:
    path = folder / "triple.ptx"
    path.write_text(PTX)
    return xl.raw_module(path=path).get_function("triple", "int *x")


@pytest.mark.parametrize("backend", BACKENDS)
def test_ptx_is_loaded_without_nvrtc(backend: str, tmp_path: Path) -> None:
    _need_cpu(backend)
    with xl.use_backend(backend):
        x = xl.to_device(np.arange(5, dtype=np.int32))
        _load_triple(tmp_path)(1, 5, (x,))
        assert_same_bits(xl.to_host(x), 3 * np.arange(5, dtype=np.int32))


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_address_is_the_array_that_is_there(backend: str, tmp_path: Path) -> None:
    _need_cpu(backend)
    with xl.use_backend(backend):
        triple = _load_triple(tmp_path)
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

    source = f'extern "C" __global__ void k(float *x) {{ x[0] = 1; }} // {os.urandom(8).hex()}'  # in no cache
    kernel = xl.raw_module(source).get_function("k")
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
def test_a_header_that_changes_is_read_again(line: str, tmp_path: Path) -> None:
    need_nvrtc()
    header = tmp_path / "value.h"
    x = np.zeros(1, np.int32)
    for value in (1, 2):
        header.write_text(f"#define VALUE {value}\n")
        source = f'{line.format(header)}\nextern "C" __global__ void k(int *x) {{ x[0] = VALUE; }}'
        with xl.use_backend("numpy"):
            xl.raw_module(source).get_function("k", "int *x")(1, 1, (x,))
        assert x.tolist() == [value]


GROUPS = {
    "groups alone": "#include <cooperative_groups.h>",
    "more than is tried first": "#ifdef _CG_LIMIT_INCLUDED_DEPENDENCIES\n#error cooperative_groups\n#endif",
}
if IS_LONG:  # NVRTC takes a second for libcu++
    GROUPS["libcu++"] = "#include <cooperative_groups.h>\nstatic_assert(cuda::std::is_same<int, int>::value);"


@pytest.mark.parametrize("name", GROUPS)
def test_cooperative_groups_bring_what_they_bring_on_a_gpu(name: str) -> None:
    need_nvrtc()
    size = "cooperative_groups::this_thread_block().size()" if "#include" in GROUPS[name] else "blockDim.x"
    source = f"""
{GROUPS[name]}
extern "C" __global__ void k(int *x) {{ x[threadIdx.x] = {size}; }} // {os.urandom(8).hex()}"""  # in no cache
    x = np.zeros(8, np.int32)
    with xl.use_backend("numpy"):
        xl.raw_module(source).get_function("k")(1, 8, (x,))
    assert x.tolist() == [8] * 8


def test_settings_are_those_of_the_call(checked: None) -> None:
    source = """
extern "C" __global__ void k(int *x) { int turn = atomicAdd(x + 1, 1); if (threadIdx.x == 0) x[0] = turn; }"""
    kernel = xl.raw_module(source).get_function("k")
    x = xl.to_device(np.zeros(2, np.int32))
    with configured(kernel_schedule="reversed", sim_schedule="lazy"):
        kernel(1, 8, (x,))
    assert xl.to_host(x).tolist() == [7, 8]


LOADED = """
import sys
import numpy as np, xferlib as xl
source = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] = 1; }'
with xl.use_backend("numpy"):
    xl.raw_module(source).get_function("k")(1, 4, (np.zeros(4, np.float32),))
heavy = ("cuda.bindings", "cuda.pathfinder", "importlib.metadata", "subprocess", "xferlib.kernels.definitions")
print(*(name for name in heavy if name in sys.modules))
"""


def test_a_cached_kernel_is_loaded_without_its_compilers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_nvrtc()
    monkeypatch.setenv("XFERLIB_CACHE_DIR", str(tmp_path))
    assert "cuda.bindings" in printed("-c", LOADED, after=()).split()
    assert printed("-c", LOADED, after=()).split() == []


INTERRUPTED = """
extern "C" __global__ void loop(volatile int *x) { x[1] = 1; while (x[0] == 0) ; }
extern "C" __global__ void barrier(volatile int *x) { x[1] = 1; do __syncthreads(); while (x[0] == 0); }
extern "C" __global__ void blocks(volatile int *x) { if (threadIdx.x == 0) x[1] = 1; }
"""


@pytest.mark.parametrize(
    ("name", "blocks", "check"),
    [("loop", 1, "0"), ("barrier", 3, "0"), ("blocks", 2**31 - 1, "0"), ("blocks", 2**31 - 1, "1")],
)
def test_ctrl_c_ends_a_launch(name: str, blocks: int, check: str) -> None:
    need_nvrtc()
    kernel = xl.raw_module(INTERRUPTED).get_function(name, "int *x")
    x, once = np.zeros(2, np.int32), np.ones(2, np.int32)
    with xl.use_backend("numpy"), configured(kernel_check=check, loop_turns=2**40):
        kernel(1, 1, (once,))  # compiled before

        def interrupt() -> None:
            while not x[1]:
                pass
            signal.raise_signal(signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            kernel(blocks, 32 if name == "barrier" else 1, (x,))
        thread.join()


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


@pytest.mark.parametrize(("options", "expected"), [((), 2.0**-20), (("--fmad=false",), 0.0), (("-fmad", "false"), 0.0)])
def test_sums_of_products_of_half_are_rounded_as_on_a_gpu(options: tuple[str, ...], expected: float) -> None:
    need_nvrtc()
    source = """
    #include <cuda_fp16.h>
    extern "C" __global__ void square(const half *x, const half *y, float *out) { out[0] = x[0] * x[0] + y[0]; }
    """
    with xl.use_backend("numpy"):
        x, y = (xl.to_device(np.array([value], np.float16)) for value in (1 + 2.0**-10, -1 - 2.0**-9))
        out = xl.to_device(np.zeros(1, np.float32))
        xl.raw_module(source, options=options).get_function("square")(1, 1, (x, y, out))
        assert xl.to_host(out)[0] == expected


CALLS = """#include <cuda_pipeline.h>
__device__ __forceinline__ void meet() { __syncthreads(); }
extern "C" __global__ void barriers(int *x)
{
    __shared__ int shared[64];
    shared[threadIdx.x] = 0;
    if (threadIdx.x < 32) {
        meet();
        x[threadIdx.x] = shared[63 - threadIdx.x];
    } else
        meet();
}
extern "C" __global__ void header(int *x)
{
    __shared__ int shared[64];
    __pipeline_memcpy_async(shared + threadIdx.x, x + 100, 4);
    x[threadIdx.x] = shared[threadIdx.x];
}
"""


@pytest.mark.parametrize(
    ("name", "words", "line"),
    [
        ("barriers", r"line 2, called at line 11: .* at another one \(.*, line 2, called at line 8\)", 2),
        ("header", r"line 16 \(\w+\.h:\d+\): .* argument 'x' at index 100", 16),
    ],
)
def test_a_place_in_a_function_that_is_called_is_named_by_the_call(
    checked: None, name: str, words: str, line: int
) -> None:
    kernel = xl.raw_module(CALLS).get_function(name)
    with pytest.raises(KernelFaultError, match=words) as caught:
        kernel(1, 64, (xl.to_device(np.zeros(64, np.int32)),))
        xl.synchronize()
    assert caught.value.line == line


@pytest.mark.parametrize("x", [None, 0, 0x1234567])
def test_a_pointer_to_no_array_is_told_by_its_address(library: str, x: int | None) -> None:
    kernel = xl.raw_module('extern "C" __global__ void k(int *x) { x[3] = 1; }').get_function("k")
    words = (
        f"at address {(x or 0) + 12:#x}{'' if x else ' .a null pointer.'}, in no array of the launch; pass the array"
    )
    with pytest.raises(KernelFaultError, match=words):
        kernel(1, 1, (x,))
        xl.synchronize()


def test_a_kernel_with_a_mangled_name_is_found_where_it_is_named(library: str) -> None:
    source = "__global__ void set(int *x) { *x = 7; }"
    x = xl.to_device(np.zeros(1, np.int32))
    with pytest.raises(KernelCompileError, match=r"no kernel 'set'.*_Z3setPi: declare it extern .* names="):
        xl.raw_module(source).get_function("set")(1, 1, (x,))
    xl.raw_module(source, names=("set",)).get_function("set")(1, 1, (x,))
    assert xl.to_host(x).tolist() == [7]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell what is loaded")
def test_code_that_is_forgotten_leaves_memory_with_its_last_module(monkeypatch: pytest.MonkeyPatch) -> None:
    from xferlib.kernels.cuda_cpu import code

    def list_files() -> dict[tuple[str, str], list[range]]:
        """The mapped files by device and number, since a path may be used again; and where they are."""
        files: dict[tuple[str, str], list[range]] = {}
        for line in Path("/proc/self/maps").read_text().splitlines():
            extent, _, _, device, number, *_ = line.split()
            files.setdefault((device, number), []).append(range(*(int(each, 16) for each in extent.split("-"))))
        return files

    def find_file(loaded: code.CpuCode) -> tuple[str, str]:
        address = ctypes.cast(loaded.library.xf_init_module, ctypes.c_void_p).value
        return next(file for file, parts in list_files().items() if any(address in part for part in parts))

    monkeypatch.setattr(code, "_MOST_NBYTES", 1)
    monkeypatch.setattr(code, "_codes", {})
    first, second = (code.compile_ptx(f"// {number}\n{PTX}", is_checked=False) for number in range(2))
    assert code.compile_ptx(f"// 1\n{PTX}", is_checked=False) is second  # the last one stays, however large
    files, name = (find_file(first), find_file(second)), weakref.ref(first)
    del first
    gc.collect()
    assert name() is None
    assert [each in list_files() for each in files] == [False, True]


def test_a_wheel_without_the_runtime_says_so_before_anything_is_compiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from xferlib.kernels.cuda_cpu import code, runtime

    monkeypatch.setattr(runtime, "LIBRARY", tmp_path / "emulator.so")
    monkeypatch.setattr(runtime, "load", runtime.load.__wrapped__)
    monkeypatch.setattr(code, "load_nvrtc", lambda: pytest.fail("NVRTC was loaded"))
    kernel = xl.raw_module('extern "C" __global__ void k(int *x) {}').get_function("k")
    with (
        xl.use_backend("numpy"),
        pytest.raises(UnsupportedError, match=r"not been compiled.*python -m xferlib\._native"),
    ):
        kernel(1, 1, (np.zeros(1, np.int32),))


def test_tensors_of_bfloat16_are_passed_by_their_bits(library: str) -> None:
    if library != "torch":
        pytest.skip("NumPy has no bfloat16")
    torch = pytest.importorskip("torch")
    kernel = xl.raw_module("""
#include <cuda_bf16.h>
extern "C" __global__ void k(__nv_bfloat16 *x) { x[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x]; }
""").get_function("k")
    x = torch.arange(8, dtype=torch.bfloat16)
    kernel(1, 8, (x.view(torch.int16),))
    assert x.tolist() == [i * i for i in range(8)]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("table[n] = 1;", "writes 4 bytes out of bounds, variable 'table' at byte 28 of 16; guard"),
        ("more[n] = 1;", "out of bounds, dynamic shared memory; give the launch as much .* shared_nbytes="),
    ],
)
def test_memory_of_the_module_and_of_the_launch_is_told(checked: None, body: str, words: str) -> None:
    source = f"""
__device__ int table[4];
extern "C" __global__ void k(int n) {{ extern __shared__ int more[]; {body} }}"""
    with pytest.raises(KernelFaultError, match=words) as caught:
        xl.raw_module(source).get_function("k")(1, 1, (7,))
        xl.synchronize()
    assert caught.value.index is None


ACCESS = """
extern "C" __global__ void access(unsigned char *x, long long at, int nbytes, int writes, unsigned char *y)
{
    if (nbytes == 1) writes ? (void)(x[at] = 7) : (void)(y[0] = x[at]);
    if (nbytes == 4) writes ? (void)(*(int *)(x + at) = 7) : (void)(*(int *)y = *(int *)(x + at));
    if (nbytes == 8) writes ? (void)(*(double *)(x + at) = 7) : (void)(*(double *)y = *(double *)(x + at));
}
"""


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_access_is_a_fault_exactly_if_it_leaves_the_array(library: str, data: st.DataObject) -> None:
    pages = st.sampled_from([4095, 4096, 4097, 8192])
    before, behind = (data.draw(st.sampled_from([0, 0, 8, 4096]), label=each) for each in ("before", "behind"))
    size = data.draw(st.one_of(st.integers(1, 70), pages, st.integers(1, 20_000)), label="bytes of the array")
    nbytes = data.draw(st.sampled_from([1, 4, 8]), label="bytes of the access")
    near = st.one_of(st.integers(-40, 40), st.integers(size - 40, size + 40), st.sampled_from([-4096, size + 4096]))
    at = data.draw(near, label="at") // nbytes * nbytes
    writes = data.draw(st.booleans(), label="writes")
    access = xl.raw_module(ACCESS).get_function("access")
    neighbours = [xl.ones(size, dtype="uint8") for _ in range(2)]
    x, y = xl.ones(before + size + behind, dtype="uint8")[before : before + size], xl.zeros(8, dtype="uint8")
    for each in (*neighbours, x):  # in this order they get their addresses on sim
        access(1, 1, (each, 0, 1, 0, y))
    del each, neighbours[data.draw(st.integers(0, 1), label="freed")]
    if 0 <= at <= size - nbytes:
        access(1, 1, (x, at, nbytes, int(writes), y))
        expected = 7 if writes else 1
        found = xl.to_host(x)[at] if writes and nbytes < 8 else xl.to_host(y)[0] if not writes else expected
        assert found == expected
    else:
        with pytest.raises(KernelFaultError, match=f"{nbytes} bytes? out of bounds"):
            access(1, 1, (x, at, nbytes, int(writes), y))
    assert all((xl.to_host(each) == 1).all() for each in neighbours)
