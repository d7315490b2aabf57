"""CUDA C++ over all that is covered: compiled by NVRTC, translated, run with and without checks, compared with NumPy.

The kernels of the same options are one source, each in a namespace: a compiler begins more slowly than it compiles one.
"""

# ruff: noqa: E501 - kernels in one line

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.kernels.cuda_cpu.running import combine_sources, compile_cuda, needs_cc, needs_nvrtc
from xferlib.kernels.cuda_cpu.code import CpuCode, compile_ptx
from xferlib.kernels.cuda_cpu.module import CpuModule

pytestmark = [needs_cc, needs_nvrtc]

RANDOM = np.random.default_rng(7)
F = RANDOM.uniform(-4, 4, 256).astype(np.float32)
G = RANDOM.uniform(-4, 4, 256).astype(np.float32)
D = RANDOM.uniform(-4, 4, 256)
I = RANDOM.integers(-1000, 1000, 256, np.int32)  # noqa: E741
J = RANDOM.integers(1, 1000, 256, np.int32)
U = RANDOM.integers(0, 1 << 32, 256, np.uint32)
L = RANDOM.integers(0, 1 << 63, 256, np.uint64)
H = RANDOM.uniform(-4, 4, 256).astype(np.float16)
T = np.arange(256)


@dataclass
class Case:
    """`source` defines `k(out, inputs...)`; `out` begins as zeros, and must end as `expected`."""

    name: str
    source: str
    inputs: tuple[object, ...]
    expected: np.ndarray | Callable[[], np.ndarray]
    block: int = 256
    grid: int = 1
    dynamic: int = 0
    tolerance: float = 0
    options: tuple[str, ...] = ()
    cooperative: bool = False
    printed: str = ""


CASES: list[Case] = []
DTYPES = {"float": np.float32, "double": np.float64, "int": np.int32, "unsigned": np.uint32, "short": np.int16,
          "unsigned long long": np.uint64, "__half": np.float16, "__half2": np.float16, "float4": np.float32}  # fmt: skip


def case(name: str, source: str, inputs: tuple[object, ...], expected: Any, **more: Any) -> None:
    CASES.append(Case(name, source, inputs, expected, **more))


def collatz(n: int) -> int:
    count = 0
    while n != 1 and count < 500:
        n, count = 3 * n + 1 if n % 2 else n // 2, count + 1
    return count


def mix(value: int) -> int:
    word = (1 if value < 77 else value * 3 + 5 & 0xFFFFFFFF) >> 4 & 0xFFFFF
    return word + (value * word >> 32) & 0xFFFFFFFF


def simple(
    name: str,
    kind: str,
    expression: str,
    inputs: tuple[np.ndarray, ...],
    expected: object,
    before: str = "",
    **more: object,
) -> None:
    """One expression of x, y, z and the thread's number i; `kind` is the C type of the result."""
    types = {"float32": "float", "float64": "double", "int32": "int", "uint32": "unsigned", "uint64": "unsigned long long",
             "int64": "long long", "float16": "__half", "uint16": "unsigned short", "uint8": "unsigned char"}  # fmt: skip
    params = "".join(
        f", const {types[str(array.dtype)]} *{letter}" for letter, array in zip("abc", inputs, strict=False)
    )
    loads = "".join(
        f"auto {letter} = {source}[i]; " for letter, source in zip("xyz"[: len(inputs)], "abc", strict=False)
    )
    case(
        name,
        f'{before}\nextern "C" __global__ void k({kind} *out{params}) {{ int i = blockIdx.x * blockDim.x + threadIdx.x;'
        f" {loads} out[i] = {expression}; }}",
        inputs, expected, **more,
    )  # fmt: skip


# Arithmetic
simple("add", "float", "x + y", (F, G), F + G)
simple("fused", "float", "x * y + x", (F, G), (F.astype(np.float64) * G + F).astype(np.float32))
simple("not fused", "float", "x * y + x", (F, G), F * G + F, options=("--fmad=false",))
simple("divide", "float", "x / y", (F, G), F / G)
simple("sqrt", "float", "sqrtf(fabsf(x))", (F,), np.sqrt(np.abs(F)))
simple(
    "double", "double", "x * x - x / 3 + sqrt(fabs(x))", (D,), D * D - D / 3 + np.sqrt(np.abs(D)),
    options=("--fmad=false",),
)  # fmt: skip
simple(
    "fast math", "float", "__expf(x) + __sinf(y) * __fdividef(x, y)", (F, G), np.exp(F) + np.sin(G) * (F / G),
    tolerance=1e-5,
)  # fmt: skip
simple(
    "use_fast_math", "float", "expf(x) / (1.f + y * y) + sqrtf(fabsf(x))", (F, G),
    np.exp(F) / (1 + G * G) + np.sqrt(np.abs(F)), tolerance=1e-5, options=("--use_fast_math",),
)  # fmt: skip
simple(
    "transcendental", "float", "sinf(x) + cosf(y) + tanf(x) + atan2f(x, y) + powf(fabsf(x), y)", (F, G),
    np.sin(F.astype(float)) + np.cos(G) + np.tan(F.astype(float)) + np.arctan2(F, G) + np.abs(F.astype(float)) ** G,
    tolerance=1e-4,
)  # fmt: skip
simple(
    "transcendental double", "double", "sin(x) + exp(x) + log(fabs(x)) + pow(fabs(x), 1.5) + erf(x) * 0", (D,),
    np.sin(D) + np.exp(D) + np.log(np.abs(D)) + np.abs(D) ** 1.5, tolerance=1e-13,
)  # fmt: skip
simple("big sine", "float", "sinf(x * 1e6f)", (F,), np.sin((F * np.float32(1e6)).astype(float)), tolerance=1e-5)
simple("integer division", "int", "x / y * 7 + x % y", (I, J), (np.trunc(I / J) * 7 + np.fmod(I, J)).astype(np.int32))
simple(
    "division by constants", "int", "x / 7 + x % 10 + (unsigned)x / 3u", (I,),
    (np.trunc(I / 7) + np.fmod(I, 10)).astype(np.int32) + (I.astype(np.uint32) // 3).astype(np.int32),
)  # fmt: skip
simple(
    "64 bits", "unsigned long long", "x * 6364136223846793005ull + (x >> 13) + (x / 12345u) + __umul64hi(x, x)", (L,),
    L * np.uint64(6364136223846793005)
    + (L >> np.uint64(13))
    + L // np.uint64(12345)
    + np.array([int(v) * int(v) >> 64 for v in L], np.uint64),
)  # fmt: skip
simple(
    "bits", "unsigned", "__popc(x) + __clz(x) * 64 + __ffs(x) * 4096 + (__brev(x) & 0xff000000)", (U,),
    np.array(
        [
            v.bit_count()
            + (32 - v.bit_length()) * 64
            + ((v & -v).bit_length()) * 4096
            + (int(f"{v:032b}"[::-1], 2) & 0xFF000000)
            & 0xFFFFFFFF
            for v in map(int, U)
        ],
        np.uint32,
    ),
)  # fmt: skip
simple(
    "permute", "unsigned", "__byte_perm(x, y, 0x4163) ^ __funnelshift_l(x, y, 9) ^ __vaddus4(x, y) * 0",
    (U, U[::-1].copy()),
    np.array(
        [
            (
                int.from_bytes(
                    bytes([x >> 24 & 255, y >> 16 & 255, x >> 8 & 255, y & 255]),
                    "little",
                )
            )
            ^ (((y << 32 | x) << 9) >> 32 & 0xFFFFFFFF)
            for x, y in zip(map(int, U), map(int, U[::-1]), strict=True)
        ],
        np.uint32,
    ),
)  # fmt: skip
simple(
    "dot of bytes", "int", "__dp4a((int)x, (int)y, i)", (U, U[::-1].copy()),
    (U.view(np.int8).astype(np.int32) * U[::-1].copy().view(np.int8)).reshape(-1, 4).sum(1).astype(np.int32)
    + T.astype(np.int32),
)  # fmt: skip
simple(
    "multiply high", "unsigned", "__umulhi(x, x) + (unsigned)__mulhi((int)x, (int)x)", (U,),
    np.array([(v * v >> 32) + ((w := v - ((v >> 31) << 32)) * w >> 32) & 0xFFFFFFFF for v in map(int, U)], np.uint32),
)  # fmt: skip
simple(
    "saturate", "float", "__saturatef(x) + fminf(x, y) + fmaxf(x, __int_as_float(0x7fc00000))", (F, G),
    np.clip(F, 0, 1) + np.minimum(F, G) + F,
)  # fmt: skip
simple(
    "conversions", "int",
    "(int)x + (unsigned char)(int)y + (short)(x * 1000) + __float2int_rn(y) + __float_as_int(x) / 16777216", (F, G),
    F.astype(np.int32)
    + (G.astype(np.int32) & 255)
    + (F * np.float32(1000)).astype(np.int32).astype(np.int16)
    + np.rint(G).astype(np.int32)
    + np.trunc(F.view(np.int32) / 16777216).astype(np.int32),
)  # fmt: skip
simple(
    "roundings", "float", "floorf(x) + ceilf(y) * 2 + truncf(x) * 4 + rintf(y) * 8 + roundf(x) * 16", (F, G),
    np.floor(F)
    + np.ceil(G) * 2
    + np.trunc(F) * 4
    + np.rint(G) * 8
    + np.trunc(F + np.copysign(np.float32(0.5), F)) * 16,
)  # fmt: skip
simple("directed", "double", "__dadd_ru(x, 1e-30) - __dadd_rd(x, 1e-30)", (D,), np.nextafter(D, 9) - D)
simple(
    "classes", "int", "isnan(x * y) + 2 * isinf(x / 0.f) + 4 * signbit(x) + 8 * (x == y) + 16 * isfinite(y)", (F, G),
    2 + 4 * np.signbit(F) + 16,
)  # fmt: skip
HALF = "#include <cuda_fp16.h>"
simple(
    "half", "__half", "__hadd(__hmul(x, y), x)", (H, H[::-1].copy()), (H * H[::-1] + H), HALF, options=("--fmad=false",)
)
simple(
    "half fused", "__half", "__hfma(x, y, x)", (H, H[::-1].copy()),
    (H.astype(float) * H[::-1] + H.astype(float)).astype(np.float16), HALF,
)  # fmt: skip
simple("half to float", "float", "__half2float(x) * 2", (H,), H.astype(np.float32) * 2, HALF)
simple("float to half", "__half", "__float2half(x / 3)", (F,), (F / 3).astype(np.float16), HALF)
case(
    "half2",
    HALF
    + '\nextern "C" __global__ void k(__half2 *out, const __half2 *a) { int i = threadIdx.x; __half2 x = a[i]; out[i] = __hfma2(x, x, __hneg2(x)); if (__hgt(x.x, x.y)) out[i] = __lowhigh2highlow(out[i]); }',
    (H,),
    lambda: np.array(
        [
            p[::-1] if h[0] > h[1] else p
            for p, h in zip(
                (H.astype(float) ** 2 - H.astype(float)).astype(np.float16).reshape(-1, 2),
                H.reshape(-1, 2),
                strict=True,
            )
        ]
    ).ravel(),
    block=128,
)
BF = (F.view(np.uint32) >> 16).astype(np.uint16)
BFF = (BF.astype(np.uint32) << 16).view(np.float32)
case(
    "bfloat16",
    '#include <cuda_bf16.h>\nextern "C" __global__ void k(float *out, const __nv_bfloat16 *a) { int i = threadIdx.x; out[i] = __bfloat162float(__hmul(a[i], a[i])); }',
    (BF,),
    lambda: (
        (((b := (BFF * BFF).view(np.uint32)) + 0x7FFF + (b >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    ),
)

# Control
simple(
    "collatz", "int",
    "[&] { int n = y, c = 0; while (n != 1 && c < 500) { n = n % 2 ? 3 * n + 1 : n / 2; c++; } return c; }()", (I, J),
    lambda: np.array([collatz(int(n)) for n in J], np.int32),
)  # fmt: skip
simple(
    "switch", "int",
    "[&] { int r; switch (i % 8) { case 0: r = x; break; case 1: r = -x; break; case 2: r = x * 3; break; case 3: r = 7; break; case 4: r = x & 5; break; case 5: r = x ^ 9; break; case 6: r = x << 2; break; default: r = x >> 1; } return r; }()",
    (I,), np.choose(T % 8, [I, -I, I * 3, np.full(256, 7, np.int32), I & 5, I ^ 9, I << 2, I >> 1]).astype(np.int32),
)  # fmt: skip
simple(
    "recursion", "int", "ackermann(2, i % 4)", (), np.array([2 * (t % 4) + 3 for t in T], np.int32),
    "__device__ __noinline__ int ackermann(int m, int n) { return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)); }",
)  # fmt: skip
simple(
    "function pointers", "float", "table[i % 3](x)", (F,), np.choose(T % 3, [F * 2, F + 1, -F]).astype(np.float32),
    "typedef float (*f)(float); __device__ float a1(float x) { return x * 2; } __device__ float a2(float x) { return x + 1; } __device__ float a3(float x) { return -x; } __device__ f table[3] = {a1, a2, a3};",
)  # fmt: skip
simple(
    "virtual functions", "int", "[&] { A a; B b; S *s = i % 2 ? (S *)&a : (S *)&b; return s->f(i); }()", (),
    np.where(T % 2, T + 1, T * 2).astype(np.int32),
    "struct S { __device__ virtual int f(int) = 0; }; struct A : S { __device__ int f(int x) override { return x + 1; } }; struct B : S { __device__ int f(int x) override { return x * 2; } };",
)  # fmt: skip
simple(
    "local arrays", "int",
    "[&] { int a[16]; for (int j = 0; j < 16; j++) a[j] = j * x; int s = 0; for (int j = 0; j < 5; j++) s += a[(i + j * 3) % 16]; return s; }()",
    (I,),
    lambda: np.array(
        [sum((int(t) + j * 3) % 16 * int(x) for j in range(5)) for t, x in zip(T, I, strict=True)], np.int32
    ),
)  # fmt: skip
case(
    "templates",
    "template <class V, int N> __global__ void k(V *out, const V *a) { int i = threadIdx.x; V s = 0; for (int j = 0; j < N; j++) s += a[(i + j) % 256]; out[i] = s; } template __global__ void k<int, 3>(int *, const int *);",
    (I,), (I + np.roll(I, -1) + np.roll(I, -2)).astype(np.int32),
)  # fmt: skip
case(
    "structs by value",
    'struct P { char c; double d; short s[3]; float4 v; }; extern "C" __global__ void k(double *out, P p) { int i = threadIdx.x; out[i] = p.c + p.d * i + p.s[i % 3] + p.v.z; }',
    (
        np.array(
            [(3, 2.5, (10, 20, 30), (1, 2, 3, 4))],
            np.dtype([("c", "i1"), ("d", "f8"), ("s", "i2", 3), ("v", "f4", 4)], align=True),
        )
        .tobytes()[:24]
        .ljust(32, b"\0")
        + np.array([1, 2, 3, 4], np.float32).tobytes(),
    ),
    3 + 2.5 * T + np.choose(T % 3, [10, 20, 30]) + 3.0,
)
case(
    "return of a struct",
    'struct R { float a, b; int c; }; __device__ __noinline__ R f(int i, R r) { r.a += i; r.c *= 2; return r; } extern "C" __global__ void k(float *out) { int i = threadIdx.x; R r = f(i, R{1.5f, 2.5f, i}); out[i] = r.a + r.b + r.c; }',
    (), (1.5 + T + 2.5 + 2 * T).astype(np.float32),
)  # fmt: skip
case(
    "grid stride",
    'extern "C" __global__ void k(float *out, const float *a, int n) { for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = a[i] * 2; }',
    (F, np.int32(256)), F * 2, block=32, grid=3,
)  # fmt: skip
case(
    "early return",
    'extern "C" __global__ void k(int *out, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; out[i] = i; }',
    (np.int32(200),), np.where(T < 200, T, 0).astype(np.int32), block=64, grid=4,
)  # fmt: skip
case(
    "inline PTX",
    'extern "C" __global__ void k(unsigned *out, const unsigned *a) { int i = threadIdx.x; unsigned r; asm volatile("{ .reg .u32 t; .reg .pred p; setp.lt.u32 p, %1, 77; mad.lo.u32 t, %1, 3, 5; @p mov.u32 t, 1; bfe.u32 %0, t, 4, 20; }" : "=r"(r) : "r"(a[i])); unsigned long long w; asm("mul.wide.u32 %0, %1, %2;" : "=l"(w) : "r"(a[i]), "r"(r)); out[i] = r + (unsigned)(w >> 32); }',
    (U,), lambda: np.array([mix(int(v)) for v in U], np.uint32),
)  # fmt: skip
case(
    "carry",
    'extern "C" __global__ void k(unsigned *out, const unsigned *a) { int i = threadIdx.x; unsigned l, h; asm("add.cc.u32 %0, %2, %3; addc.u32 %1, %2, 5;" : "=r"(l), "=r"(h) : "r"(a[i]), "r"(a[255 - i])); unsigned b, c; asm("sub.cc.u32 %0, %2, %3; subc.u32 %1, 9, 0;" : "=r"(b), "=r"(c) : "r"(a[i]), "r"(a[255 - i])); out[i] = l ^ h ^ b ^ c; }',
    (U,),
    lambda: np.array(
        [
            (x + y & 0xFFFFFFFF) ^ (x + 5 + (x + y >> 32) & 0xFFFFFFFF) ^ (x - y & 0xFFFFFFFF) ^ (9 - (x < y))
            for x, y in zip(map(int, U), map(int, U[::-1]), strict=True)
        ],
        np.uint32,
    ),
)

# Memory
case(
    "constant",
    '__constant__ float c[4] = {1, 2, 3, 4}; extern "C" __global__ void k(float *out, const float *a) { int i = threadIdx.x; out[i] = a[i] * c[i % 4]; }',
    (F,), F * np.array([1, 2, 3, 4], np.float32)[T % 4],
)  # fmt: skip
case(
    "device variables",
    '__device__ int seen = 5; __device__ int *where = &seen; extern "C" __global__ void k(int *out) { int i = threadIdx.x; out[i] = *where + i; }',
    (), (5 + T).astype(np.int32),
)  # fmt: skip
case(
    "vectors",
    'extern "C" __global__ void k(float4 *out, const float4 *a, const int2 *b) { int i = threadIdx.x; float4 v = a[i]; int2 w = b[i]; out[i] = make_float4(v.w, v.z + w.x, v.y + w.y, v.x); }',
    (F, I[:128].copy()),
    lambda: (
        np.stack(
            [
                F.reshape(-1, 4)[:, 3],
                F.reshape(-1, 4)[:, 2] + I[:128:2],
                F.reshape(-1, 4)[:, 1] + I[1:128:2],
                F.reshape(-1, 4)[:, 0],
            ],
            1,
        )
        .astype(np.float32)
        .ravel()
    ),
    block=64,
)
case(
    "bytes and shorts",
    'extern "C" __global__ void k(short *out, const unsigned char *a, const signed char *b) { int i = threadIdx.x; out[i] = a[i] * 3 + b[i]; }',
    (U.view(np.uint8)[:256].copy(), U.view(np.int8)[256:512].copy()),
    (U.view(np.uint8)[:256].astype(np.int16) * 3 + U.view(np.int8)[256:512]).astype(np.int16),
)
case(
    "read-only loads",
    'extern "C" __global__ void k(float *out, const float *__restrict__ a) { int i = threadIdx.x; out[i] = __ldg(a + i) + __ldcg(a + 255 - i) + __ldcs(a); __stwt(out + i, out[i]); }',
    (F,), F + F[::-1] + F[0],
)  # fmt: skip
case(
    "shared",
    'extern "C" __global__ void k(float *out, const float *a) { __shared__ float s[256]; int i = threadIdx.x; s[i] = a[i]; __syncthreads(); out[i] = s[255 - i]; }',
    (F,), F[::-1],
)  # fmt: skip
case(
    "dynamic shared",
    'extern __shared__ double d[]; extern "C" __global__ void k(double *out, const double *a) { __shared__ int n; int i = threadIdx.x; if (i == 0) n = 3; d[i] = a[i]; __syncthreads(); out[i] = d[(i + n) % 256]; }',
    (D,), np.roll(D, -3), dynamic=2048,
)  # fmt: skip
case(
    "matrix product",
    'extern "C" __global__ void k(float *out, const float *a, const float *b) { __shared__ float s[16][16], t[16][17]; int x = threadIdx.x % 16, y = threadIdx.x / 16; s[y][x] = a[y * 16 + x]; t[y][x] = b[y * 16 + x]; __syncthreads(); float c = 0; for (int j = 0; j < 16; j++) c += s[y][j] * t[j][x]; out[y * 16 + x] = c; }',
    (F, G), (F.reshape(16, 16).astype(float) @ G.reshape(16, 16)).ravel(), tolerance=1e-5,
)  # fmt: skip
case(
    "heap",
    'extern "C" __global__ void k(int *out) { int i = threadIdx.x; int *p = (int *)malloc(64); for (int j = 0; j < 16; j++) p[j] = i * j; out[i] = p[15] + p[1]; free(p); }',
    (), (16 * T).astype(np.int32),
)  # fmt: skip
case(
    "new and delete",
    'struct N { int v; N *next; }; extern "C" __global__ void k(int *out) { int i = threadIdx.x; N *h = nullptr; for (int j = 0; j <= i % 5; j++) h = new N{j, h}; int s = 0; while (h) { s = s * 10 + h->v; N *n = h->next; delete h; h = n; } out[i] = s; }',
    (), np.array([int("".join(map(str, range(t % 5, -1, -1)))) for t in T], np.int32),
)  # fmt: skip
case(
    "printf",
    'extern "C" __global__ void k(int *out) { printf("%d %5.2f %s|%c %lld\\n", threadIdx.x, 1.5 * threadIdx.x, "text", 65 + threadIdx.x, 1ll << 40); }',
    (), np.zeros(256, np.int32), block=2, printed="0  0.00 text|A 1099511627776\n1  1.50 text|B 1099511627776\n",
)  # fmt: skip

# Atomics
case(
    "histogram",
    'extern "C" __global__ void k(int *out, const int *a) { atomicAdd(out + (a[threadIdx.x] & 63), 1); }', (I,),
    np.bincount(I & 63, minlength=256).astype(np.int32),
)  # fmt: skip
case(
    "integer atomics",
    'extern "C" __global__ void k(int *out, const int *a) { int v = a[threadIdx.x]; atomicMax(out, v); atomicMin(out + 1, v); atomicOr(out + 2, v); atomicXor(out + 3, v); atomicAnd((unsigned *)out + 4, (unsigned)v); atomicMax((unsigned *)out + 5, (unsigned)v); atomicInc((unsigned *)out + 6, 99); atomicDec((unsigned *)out + 7, 99); atomicSub(out + 8, v); }',
    (I,),
    lambda: np.array(
        [
            max(0, I.max()),
            min(0, I.min()),
            np.bitwise_or.reduce(I),
            np.bitwise_xor.reduce(I),
            0,
            I.view(np.uint32).max().astype(np.int32),
            256 % 100,
            (-256) % 100,
            -I.sum(),
            *[0] * 247,
        ],
        np.int64,
    ).astype(np.int32),
)
case(
    "float atomics",
    'extern "C" __global__ void k(double *out) { atomicAdd(out, 0.5); atomicAdd((float *)(out + 1), 0.25f); }', (),
    lambda: np.concatenate([[128.0], np.array([64, 0], np.float32).view(np.float64), np.zeros(254)]),
)  # fmt: skip
case(
    "compare and swap",
    'extern "C" __global__ void k(float *out, const float *a) { int *p = (int *)out; int old = *p, e; do { e = old; old = atomicCAS(p, e, __float_as_int(fmaxf(a[threadIdx.x], __int_as_float(e)))); } while (old != e); }',
    (F,), np.concatenate([[F.max()], np.zeros(255)]).astype(np.float32),
)  # fmt: skip
case(
    "64-bit atomics",
    'extern "C" __global__ void k(unsigned long long *out, const unsigned long long *a) { atomicAdd(out, a[threadIdx.x]); atomicMax(out + 1, a[threadIdx.x]); if (threadIdx.x == 9) atomicExch(out + 2, 77ull); }',
    (L,), lambda: np.array([np.add.reduce(L), L.max(), 77, *[0] * 253], np.uint64),
)  # fmt: skip
case(
    "shared atomics",
    'extern "C" __global__ void k(int *out) { __shared__ int n; if (threadIdx.x == 0) n = 0; __syncthreads(); int me = atomicAdd(&n, 1); __syncthreads(); atomicAdd(out + me, 1); if (threadIdx.x == 0) atomicAdd(out, n); }',
    (), np.concatenate([[257], np.ones(255)]).astype(np.int32),
)  # fmt: skip
case(
    "half atomics",
    HALF
    + '\nextern "C" __global__ void k(__half *out) { atomicAdd(out + 3, __float2half(0.5f)); atomicAdd((__half2 *)out + 4, __floats2half2_rn(1.f, 2.f)); }',
    (), lambda: np.array([0, 0, 0, 16, 0, 0, 0, 0, 32, 64, *[0] * 246], np.float16), block=32,
)  # fmt: skip
case(
    "spin lock",
    '__device__ int lock; __device__ int value; extern "C" __global__ void k(int *out) { while (atomicCAS(&lock, 0, 1) != 0); __threadfence(); value = value + 1; out[blockIdx.x * blockDim.x + threadIdx.x] = value; __threadfence(); atomicExch(&lock, 0); }',
    (), lambda: np.concatenate([np.arange(1, 65), np.zeros(192)]).astype(np.int32), block=32, grid=2,
)  # fmt: skip
case(
    "last block",
    '__device__ unsigned done; extern "C" __global__ void k(int *out) { __shared__ bool last; int i = blockIdx.x * blockDim.x + threadIdx.x; out[i] = i; __threadfence(); __syncthreads(); if (threadIdx.x == 0) last = atomicAdd(&done, 1) == gridDim.x - 1; __syncthreads(); if (last && threadIdx.x == 0) { int s = 0; for (int j = 0; j < 128; j++) s += ((volatile int *)out)[j]; out[200] = s; } }',
    (), lambda: np.where(T < 128, T, np.where(T == 200, 127 * 64, 0)).astype(np.int32), block=32, grid=4,
)  # fmt: skip
case(
    "libcu++ atomics",
    '#include <cuda/atomic>\n__device__ cuda::atomic<int, cuda::thread_scope_device> n{0}; extern "C" __global__ void k(int *out) { int m = n.fetch_add(2, cuda::memory_order_acq_rel); atomicAdd(out + m / 2, 1); if (threadIdx.x == 0) while (n.load() < 512); }',
    (), np.ones(256, np.int32),
)  # fmt: skip

# Threads together
case(
    "reduction",
    'extern "C" __global__ void k(float *out, const float *a) { __shared__ float s[256]; int i = threadIdx.x; s[i] = a[i]; for (int n = 128; n; n /= 2) { __syncthreads(); if (i < n) s[i] += s[i + n]; } if (i == 0) out[0] = s[0]; }',
    (J.astype(np.float32),), np.concatenate([[J.sum()], np.zeros(255)]).astype(np.float32),
)  # fmt: skip
case(
    "shuffles",
    'extern "C" __global__ void k(int *out, const int *a) { int v = a[threadIdx.x], m = 0xffffffff; for (int n = 16; n; n /= 2) v += __shfl_xor_sync(m, v, n); v += __shfl_up_sync(m, (int)threadIdx.x, 1) * 2 + __shfl_down_sync(m, (int)threadIdx.x, 3, 8) * 4 + __shfl_sync(m, (int)threadIdx.x, 5) * 8; out[threadIdx.x] = v; }',
    (I,),
    lambda: np.array(
        [
            I[t // 32 * 32 : t // 32 * 32 + 32].sum()
            + 2 * (t - (t % 32 > 0))
            + 4 * (t + 3 if t % 8 < 5 else t)
            + 8 * (t // 32 * 32 + 5)
            for t in T
        ],
        np.int32,
    ),
)
case(
    "votes",
    'extern "C" __global__ void k(unsigned *out, const int *a) { int v = a[threadIdx.x]; unsigned m = 0xffffffff; out[threadIdx.x] = __ballot_sync(m, v > 0) ^ (__any_sync(m, v > 900) * 5 + __all_sync(m, v > -2000) * 9); }',
    (I,),
    lambda: np.array(
        [
            sum(int(I[t // 32 * 32 + j] > 0) << j for j in range(32))
            ^ (5 * bool((I[t // 32 * 32 :][:32] > 900).any()) + 9)
            for t in T
        ],
        np.uint32,
    ),
)
case(
    "warp reductions",
    'extern "C" __global__ void k(int *out, const int *a) { int v = a[threadIdx.x]; unsigned m = 0xffffffff; out[threadIdx.x] = __reduce_add_sync(m, v) + __reduce_max_sync(m, v) * 3 + (int)__reduce_xor_sync(m, (unsigned)v) + __popc(__match_any_sync(m, v & 3)); }',
    (I,),
    lambda: np.array(
        [
            (w := I[t // 32 * 32 :][:32]).sum() + 3 * w.max() + np.bitwise_xor.reduce(w) + ((w & 3) == (I[t] & 3)).sum()
            for t in T
        ],
        np.int32,
    ),
)
case(
    "counting barriers",
    'extern "C" __global__ void k(int *out, const int *a) { int v = a[threadIdx.x]; int c = __syncthreads_count(v > 0), o = __syncthreads_or(v == 12345), n = __syncthreads_and(v < 5000); out[threadIdx.x] = c + o * 1000 + n * 2000; }',
    (I,), np.full(256, (I > 0).sum() + 2000, np.int32),
)  # fmt: skip
case(
    "named barriers",
    'extern "C" __global__ void k(int *out) { __shared__ int s[64]; int i = threadIdx.x; if (i < 32) { s[i] = i * 3; asm volatile("bar.arrive 1, 64;" ::: "memory"); } else { asm volatile("bar.sync 1, 64;" ::: "memory"); out[i] = s[i - 32]; } }',
    (), np.where((T >= 32) & (T < 64), (T - 32) * 3, 0).astype(np.int32), block=64,
)  # fmt: skip
CG = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
case(
    "tiles",
    CG
    + 'extern "C" __global__ void k(int *out, const int *a) { auto t = cg::tiled_partition<8>(cg::this_thread_block()); int v = a[threadIdx.x]; for (int n = t.size() / 2; n; n /= 2) v += t.shfl_down(v, n); out[threadIdx.x] = t.shfl(v, 0) + t.meta_group_rank() + t.ballot(threadIdx.x & 1); }',
    (I,), lambda: np.array([I[t // 8 * 8 :][:8].sum() + t // 8 + 0xAA for t in T], np.int32),
)  # fmt: skip
case(
    "reduce of a group",
    CG
    + '#include <cooperative_groups/reduce.h>\nextern "C" __global__ void k(int *out, const int *a) { auto t = cg::tiled_partition<16>(cg::this_thread_block()); out[threadIdx.x] = cg::reduce(t, a[threadIdx.x], cg::plus<int>()) + cg::reduce(t, a[threadIdx.x], cg::less<int>()); }',
    (I,), lambda: np.array([(w := I[t // 16 * 16 :][:16]).sum() + w.min() for t in T], np.int32),
)  # fmt: skip
case(
    "coalesced group",
    CG
    + 'extern "C" __global__ void k(int *out) { int i = threadIdx.x; if (i % 3 == 0) { auto g = cg::coalesced_threads(); out[i] = g.size() * 100 + g.thread_rank(); } }',
    (),
    lambda: np.array(
        [
            len([j for j in range(32) if (t // 32 * 32 + j) % 3 == 0]) * 100
            + len([j for j in range(t % 32) if (t // 32 * 32 + j) % 3 == 0])
            if t % 3 == 0
            else 0
            for t in T
        ],
        np.int32,
    ),
)
case(
    "grid synchronisation",
    CG
    + 'extern "C" __global__ void k(int *out) { auto g = cg::this_grid(); int i = g.thread_rank(); out[i] = i; g.sync(); int s = out[(i + 64) % 128]; g.sync(); out[i] = s; }',
    (), lambda: np.where(T < 128, (T + 64) % 128, 0).astype(np.int32), block=32, grid=4, cooperative=True,
)  # fmt: skip
case(
    "lanes and clocks",
    'extern "C" __global__ void k(int *out) { unsigned l, m, w; asm("mov.u32 %0, %%laneid; mov.u32 %1, %%lanemask_lt; mov.u32 %2, %%warpid;" : "=r"(l), "=r"(m), "=r"(w)); long long c = clock64(), d = clock64(); out[threadIdx.x] = l + __popc(m) + w * 100 + (d > c) * 1000; }',
    (), (2 * (T % 32) + T // 32 * 100 + 1000).astype(np.int32),
)  # fmt: skip
case(
    "nanosleep",
    '__device__ volatile int flag; extern "C" __global__ void k(int *out) { if (threadIdx.x == 31) { out[0] = 5; __threadfence(); flag = 1; } else if (threadIdx.x == 0) { while (!flag) __nanosleep(10); __threadfence(); out[1] = 7; } }',
    (), np.array([5, 7, *[0] * 254], np.int32), block=32,
)  # fmt: skip
case(
    "hopper",
    'extern "C" __global__ void k(int *out, const int *a) { int i = threadIdx.x; out[i] = __vimax3_s32(a[i], a[255 - i], 0) + __viaddmin_s32(a[i], 5, 0) + (int)__vmaxs2(a[i], 7) * 0; }',
    (I,), np.maximum(np.maximum(I, I[::-1]), 0) + np.minimum(I + 5, 0),
)  # fmt: skip


@functools.cache
def compile_cases(options: tuple[str, ...], *, checked: bool) -> CpuCode:
    source = combine_sources(each.source for each in CASES if each.options == options)
    return compile_ptx(compile_cuda(source, *options), is_checked=checked)


def run(case: Case, *, checked: bool) -> np.ndarray:
    code = compile_cases(case.options, checked=checked)
    number = [each.name for each in CASES if each.options == case.options].index(case.name)
    own = re.compile(rf"(_Z.*\d)?k{number}([A-Z].*)?")  # with the name of a template's instance around it
    (name,) = filter(own.fullmatch, code.translation.kernels)
    module = CpuModule(code, np.zeros(code.variables_nbytes, np.uint8))
    module.initialise()
    expected = case.expected() if callable(case.expected) else case.expected
    found = re.search(r"k\(([\w ]+?) ?\*out", case.source)
    out = np.zeros(256, DTYPES.get(found[1] if found else "", np.asarray(expected).dtype))
    kind = module.find_kernel(name).params[0]
    assert kind.nbytes == 8
    values, operands = [np.uint64(out.ctypes.data).tobytes()], [("out", out, False)]
    for number, value in enumerate(case.inputs):
        if isinstance(value, np.ndarray):
            operands.append((f"input {number}", value, False))
            values.append(np.uint64(value.ctypes.data).tobytes())
        else:
            values.append(value if isinstance(value, bytes) else value.tobytes())  # type: ignore[attr-defined]
    module.launch(
        name, (case.grid, 1, 1), (case.block, 1, 1), values, operands, label=name,
        shared_nbytes=case.dynamic, is_cooperative=case.cooperative,
    )  # fmt: skip
    return out


@pytest.mark.parametrize("checked", [False, True], ids=["plain", "checked"])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_kernel(case: Case, checked: bool, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(case, checked=checked)
    expected = np.asarray(case.expected() if callable(case.expected) else case.expected)
    if case.tolerance:
        np.testing.assert_allclose(out, expected, rtol=case.tolerance, atol=case.tolerance)
    else:
        np.testing.assert_array_equal(out[: expected.size], expected)
    if case.printed:
        assert capsys.readouterr().out == case.printed
