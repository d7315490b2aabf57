"""The mistakes that compute-sanitizer's samples and manual show, in programs of our own: each is reported."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pytest

import xferlib as xl
from tests.kernels.cuda_cpu.running import combine_sources
from xferlib.errors import KernelFaultError
from xferlib.testing import configured


@dataclass(frozen=True)
class Example:
    """`source` defines `k(int *x, int *out)`, of 128 and 64 elements."""

    kind: str | tuple[str, str]
    line: tuple[int, ...]
    source: str
    block: int = 64


EXAMPLES = {
    # Memcheck
    "a device variable at an odd address": Example("misaligned", (4,), """
__device__ int counter;
extern "C" __global__ void k(int *x, int *out) {
    *(int *)((char *)&counter + 1) = 7;
}"""),
    "an address of nothing": Example("out of bounds", (2,), """
__device__ void store() { *(int *)0x12345678 = 7; }
extern "C" __global__ void k(int *x, int *out) { store(); }"""),
    "an atomic behind the array": Example("out of bounds", (2,), """
extern "C" __global__ void k(int *x, int *out) { atomicAdd(&out[threadIdx.x + 1], 1); }"""),
    "behind the dynamic shared memory": Example("out of bounds", (4,), """
extern "C" __global__ void k(int *x, int *out) {
    extern __shared__ int s[];
    s[threadIdx.x] = 1;
}"""),
    "memory of the heap that is freed": Example("out of bounds", (5,), """
extern "C" __global__ void k(int *x, int *out) {
    int *p = (int *)malloc(64);
    free(p);
    p[1] = 2;
}"""),
    "memory of the heap that is freed twice": Example("bad free", (5,), """
extern "C" __global__ void k(int *x, int *out) {
    int *p = (int *)malloc(64);
    free(p);
    free(p);
}""", block=1),
    "a null pointer": Example("out of bounds", (3,), """
extern "C" __global__ void k(int *x, int *out) {
    int *p = (int *)(size_t)(x[0] - 1); p[threadIdx.x] = 1;
}"""),
    # Racecheck
    "a sum without a barrier": Example(("race", "uninitialised"), (5, 9), """
extern "C" __global__ void k(int *x, int *out) {
    __shared__ int part[64];
    int t = threadIdx.x;
    part[t] = x[t] * t;
    if (t == 0) {
        int sum = 0;
        for (int i = 0; i < 64; ++i)
            sum += part[i];
        out[0] = sum;
    }
}"""),
    "sums of warps without __syncwarp": Example(("race", "uninitialised"), (5, 8), """
extern "C" __global__ void k(int *x, int *out) {
    __shared__ int part[64], sums[2];
    int t = threadIdx.x;
    part[t] = x[t] * t;
    if (t % 32 == 0) {
        int sum = 0;
        for (int i = 0; i < 32; ++i) sum += part[t + i];
        sums[t / 32] = sum;
    }
    __syncthreads();
    if (t == 0) out[0] = sums[0] + sums[1];
}"""),
    "two threads write one word": Example("race", (4,), """
extern "C" __global__ void k(int *x, int *out) {
    __shared__ int s[32];
    s[threadIdx.x / 2] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x / 2];
}"""),
    "a word that is read is written again": Example("race", (6, 7), """
extern "C" __global__ void k(int *x, int *out) {
    __shared__ int s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    int value = s[63 - threadIdx.x];
    s[threadIdx.x] = value * 2;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}"""),
    # Initcheck
    "elements are counted as bytes": Example("uninitialised", (6,), """
extern "C" __global__ void k(int *x, int *out) {
    __shared__ int *v;
    if (threadIdx.x == 0) { v = (int *)malloc(256); memset(v, 0, 64); }
    __syncthreads();
    v[threadIdx.x] += threadIdx.x;
}"""),
    "all bytes but the last": Example("uninitialised", (6,), """
extern "C" __global__ void k(int *x, int *out) {
    __shared__ int *v;
    if (threadIdx.x == 0) { v = (int *)malloc(256); memset(v, 0, 255); }
    __syncthreads();
    out[threadIdx.x] = v[threadIdx.x] * 2;
}"""),
    # Synccheck
    "a barrier that the last threads pass by": Example("divergent barrier", (8,), """
extern "C" __global__ void k(int *x, int *out) {
    __shared__ int part[64];
    int t = threadIdx.x; part[t] = 0;
    __syncthreads();
    for (int i = t; i - t < 128; i += 64) {
        if (i < 112) {
            part[t] += x[i]; __syncthreads();
        }
    }
    if (t == 0) {
        out[0] = 0;
        for (int i = 0; i < 64; ++i) out[0] += part[i];
    }
}"""),
    "a barrier in a branch": Example("divergent barrier", (3,), """
extern "C" __global__ void k(int *x, int *out) {
    if (threadIdx.x < 16) __syncthreads();
    out[threadIdx.x] = 1;
}"""),
    "a warp function by a thread that its mask does not name": Example("bad mask", (6,), """
extern "C" __global__ void k(int *x, int *out) {
    __shared__ int s[64];
    int t = threadIdx.x; unsigned mask = __ballot_sync(0xffffffffu, t < 16);
    if (t <= 16) {
        s[t] = t; __syncwarp(mask);
        if (t == 0) out[0] = s[15];
    }
}""", block=32),
    "a warp function whose mask names a thread that is elsewhere": Example("deadlock", (3, 4), """
extern "C" __global__ void k(int *x, int *out) {
    if (threadIdx.x < 16) __syncwarp(0xffffffffu);
    else __syncthreads();
    out[threadIdx.x] = 1;
}"""),
}  # fmt: skip


@functools.cache
def compile_examples() -> xl.RawModule:
    return xl.raw_module(combine_sources(each.source for each in EXAMPLES.values()))


@pytest.mark.parametrize("schedule", ["in-order", "reversed", "random"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_compute_sanitizer_is_reported(checked: None, name: str, schedule: str) -> None:
    example = EXAMPLES[name]
    x, out = (xl.to_device(np.ones(count, np.int32)) for count in (128, 64))
    kernel = compile_examples().get_function(f"k{[*EXAMPLES].index(name)}")
    with configured(kernel_schedule=schedule), pytest.raises(KernelFaultError) as caught:
        kernel(1, example.block, (x, out), shared_nbytes=0)
        xl.synchronize()
    kinds = (example.kind,) if isinstance(example.kind, str) else example.kind
    assert caught.value.kind in kinds, str(caught.value)
    assert caught.value.line in example.line, str(caught.value)
