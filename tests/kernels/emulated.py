"""Generated CUDA source on a CPU: compiled by g++ as C++, threads as fibers, every misaligned access counted.

A stand-in for what `xferlib.kernels` asks of a CUDA backend. It knows what the generated sources use and no more.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from xferlib.backends.base import ArrayInfo

_HEADER = """
#include <type_traits>
#include <ucontext.h>
#include <cmath>
using std::fabs; using std::sqrt;
#define __global__
#define __device__
#define __forceinline__ inline
#define __noinline__
#define __grid_constant__
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
struct uint2 { unsigned int x, y; } __align__(8);
struct uint4 { unsigned int x, y, z, w; } __align__(16);
struct ulonglong2 { unsigned long long x, y; } __align__(16);
struct Index { int x, y, z; };
static Index threadIdx, blockIdx, blockDim, gridDim;
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fsqrt_rn(float x) { return sqrt(x); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline unsigned int __float_as_uint(float x) { unsigned int y; __builtin_memcpy(&y, &x, 4); return y; }
inline float __uint_as_float(unsigned int x) { float y; __builtin_memcpy(&y, &x, 4); return y; }
inline long long __double_as_longlong(double x) { long long y; __builtin_memcpy(&y, &x, 8); return y; }
inline float __int_as_float(unsigned int x) { float y; __builtin_memcpy(&y, &x, 4); return y; }
inline double __longlong_as_double(long long x) { double y; __builtin_memcpy(&y, &x, 8); return y; }

inline unsigned int __brev(unsigned int x) {
  unsigned int y = 0; for (int k = 0; k < 32; ++k) y |= (x >> k & 1) << (31 - k); return y;
}

template <typename T> T atomicAdd(T* at, T value) { T old = *at; *at = old + value; return old; }
template <typename T> T atomicCAS(T* at, T compared, T value) {
  T old = *at; if (old == compared) *at = value; return old;
}

static int misaligned = 0;
extern "C" void __ubsan_handle_type_mismatch_v1(void*, void*) { ++misaligned; }
extern "C" int take_misaligned() { int found = misaligned; misaligned = 0; return found; }

enum { MOST = 1024, STACK = 65536 };
static ucontext_t home, fibers[MOST];
static char stacks[MOST][STACK] __align__(16);
static bool is_done[MOST];
static unsigned long long slots[MOST];
static int now, threads;
static void pause_thread() { swapcontext(&fibers[now], &home); }
static void __syncthreads() { pause_thread(); }
template <typename T> T __shfl_down_sync(unsigned, T v, int step) {
  slots[now] = 0;
  __builtin_memcpy(&slots[now], &v, sizeof(T));
  const int from = now % 32 + step < 32 ? now + step : now;
  pause_thread();
  T other; __builtin_memcpy(&other, &slots[from], sizeof(T));
  pause_thread();
  return other;
}
static void (*body)();
static void enter() { body(); is_done[now] = true; }
static void run_block() {
  for (int t = 0; t < threads; ++t) {
    getcontext(&fibers[t]);
    fibers[t].uc_stack.ss_sp = stacks[t]; fibers[t].uc_stack.ss_size = STACK; fibers[t].uc_link = &home;
    makecontext(&fibers[t], enter, 0);
    is_done[t] = false;
  }
  for (bool is_over = false; !is_over;) {
    is_over = true;
    for (now = 0; now < threads; ++now)
      if (!is_done[now]) {
        is_over = false;
        threadIdx = Index{now % blockDim.x, now / blockDim.x % blockDim.y, now / blockDim.x / blockDim.y};
        swapcontext(&home, &fibers[now]);
      }
  }
}
"""

_RUN = """
static void call_{name}() {{ {name}({arguments}); }}
extern "C" void run_{name}(void** params, int grid, int x, int y) {{
  given = params; body = call_{name}; threads = x * y;
  blockDim = Index{{x, y, 1}}; gridDim = Index{{grid, 1, 1}};
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) run_block();
}}
"""
_ENTRY = re.compile(r'extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(([^{]*)\) \{')


_PTX = {
    'asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h))': "_Float16 x; __builtin_memcpy(&x, &h, 2); f = (float)x",
    'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f))': "_Float16 x = (_Float16)f; __builtin_memcpy(&h, &x, 2)",
    'asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(d))': "_Float16 x = (_Float16)d; __builtin_memcpy(&h, &x, 2)",
    'asm("bfe.s32 %0, %1, 0, %2;" : "=r"(wide) : "r"(bits), "n"(8 * (int)sizeof(T)))': "wide = (T)bits",
    'asm("mov.b32 %0, {%1, %1};" : "=r"(bits) : "h"(value))': "bits = value * 0x10001u",
}
"""The instructions of the GPU in the sources, and what they do."""

_OPTIONS = ("-fPIC", "-O0", "-w", "-std=c++17", "-fno-strict-aliasing", "-fsanitize=alignment")


@functools.cache
def _header() -> Path:
    """The header, compiled once for the process: <cmath> takes three quarters of the time of a kernel."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder)
    header = folder / "header.hpp"
    header.write_text(_HEADER)
    subprocess.run(["g++", *_OPTIONS, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    return header


class _Compiled(NamedTuple):
    cubin: bytes


def compiled(*sources: str) -> list[bytes]:
    """One shared library of the kernels of several sources, and behind it the number of each; skips without g++."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    parts = ["#define __restrict__"]
    for number, source in enumerate(sources):
        for instruction, meaning in _PTX.items():
            source = source.replace(instruction, meaning)
        entries = _ENTRY.findall(source)
        for name, _ in entries:
            source = re.sub(rf"\b{name}\b", f"{name}_{number}", source)
        parts.append(f"namespace unit_{number} {{\n{source}\nstatic void** given;")
        for name, parameters in entries:
            types = [each.strip().rpartition(" ")[0] for each in parameters.replace("*", "* ").split(",")]
            arguments = ", ".join(f"*(std::remove_reference<{kind}>::type*)given[{k}]" for k, kind in enumerate(types))
            parts.append(_RUN.format(name=f"{name}_{number}", arguments=arguments))
        parts.append("}")
    with tempfile.TemporaryDirectory() as folder:
        text, object_file, library = (Path(folder) / name for name in ("kernel.cpp", "kernel.o", "kernel.so"))
        text.write_text("\n".join(parts))
        command = ["g++", *_OPTIONS, "-include", _header(), "-c", text, "-o", object_file]
        done = subprocess.run(command, capture_output=True, text=True)
        assert not done.returncode, done.stderr
        subprocess.run(["g++", "-shared", object_file, "-o", library], check=True)
        content = library.read_bytes()
    return [content + number.to_bytes(4, "little") for number in range(len(sources))]


class Kernel(NamedTuple):
    run: Any
    take_misaligned: Callable[[], int]


class Emulator:
    """The CUDA part of a backend, as far as plans of kernels go."""

    misaligned = 0
    """Accesses at addresses that are no multiples of their size, which a GPU refuses."""

    def __init__(self, compile_source: Callable[[str], bytes] = lambda source: compiled(source)[0]) -> None:
        self._compile = compile_source

    def compute_capability(self, device: Any) -> tuple[int, int]:
        return (0, 0)

    def compiler_version(self) -> str:
        return "emulated"

    def compile(self, source: str, *, device: Any, options: tuple[str, ...] = ()) -> _Compiled:
        return _Compiled(self._compile(source))

    def load(self, cubin: bytes, *, name: str, device: Any) -> Kernel:
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(cubin)
            file.flush()
            library = ctypes.CDLL(file.name)
        return Kernel(library[f"run_{name}_{int.from_bytes(cubin[-4:], 'little')}"], library.take_misaligned)

    def prepare_launch(self, kernel: Kernel, grid: Any, block: Any, params: int, **_: Any) -> Callable[[int], None]:
        return lambda handle: self._run(kernel, grid[0], block, params)

    def launch(self, kernel: Kernel, grid: Any, block: Any, params: int, **_: Any) -> None:
        self._run(kernel, grid[0], block, params)

    def _run(self, kernel: Kernel, grid: int, block: Any, params: int) -> None:
        kernel.run(ctypes.c_void_p(params), grid, block[0], block[1])
        self.misaligned += kernel.take_misaligned()


def info_of(array: np.ndarray[Any, Any]) -> ArrayInfo:
    return ArrayInfo(array.ctypes.data, array.shape, array.strides, array.dtype, None, True)


def run_on_cuda(
    program: Any, shape: tuple[int, ...], arrays: Mapping[int, np.ndarray[Any, Any]], scalars: Any = (),
    emulator: Any = None, **options: Any,
) -> int:  # fmt: skip
    """Run a program's CUDA source on arrays by the numbers of their parameters; the count of misaligned accesses."""
    from xferlib.kernels.cuda_engine import CudaPlan

    infos = {number: info_of(each) for number, each in arrays.items()}
    emulator = Emulator() if emulator is None else emulator
    plan = CudaPlan(emulator, None, program, shape, infos, is_aliased=False, **options)
    plan.bind([infos[number].pointer for number in plan.array_order], scalars)
    plan.launch(0)
    return emulator.misaligned


def as_cuda(kernel: Any, *arrays: np.ndarray[Any, Any], emulator: Any = None) -> int:
    """Run an element-wise kernel's CUDA source, compiled by g++, on all its arguments."""
    program = kernel.definition.specialize(tuple(each.dtype for each in arrays), frozenset()).program
    elements = [each for each, param in zip(arrays, program.params, strict=True) if not param.is_raw]
    return run_on_cuda(program, (elements or arrays)[-1].shape, dict(enumerate(arrays)), emulator=emulator)


class _Collected(Exception):
    """A source is known, and not compiled yet."""


def all_as_cuda(calls: Sequence[tuple[Any, ...]]) -> None:
    """`as_cuda` of many kernels, each with its arguments, compiled together: g++ takes most of its time to begin."""
    sources: list[str] = []

    def collect(source: str) -> bytes:
        sources.append(source)
        raise _Collected

    for each in calls:
        with contextlib.suppress(_Collected):
            as_cuda(*each, emulator=Emulator(collect))
    ready = dict(zip(sources, compiled(*sources), strict=True)) if sources else {}
    for each in calls:
        as_cuda(*each, emulator=Emulator(ready.__getitem__))
