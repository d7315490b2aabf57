"""The state of a module while checks, overflow and the compiler's target change between launches."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.kernels.targets import need_nvrtc
from xferlib.testing import configured

STATE = """
typedef int (*Function)(int);
__device__ int twice(int x) { return 2 * x; }
__device__ int thrice(int x) { return 3 * x; }
__device__ Function table[2] = {twice, thrice}, chosen;
__device__ int count, *pointer = &count;
__constant__ int step = 5;
struct One { virtual __device__ int add(int x) { return x + 1; } };
struct Ten : One { __device__ int add(int x) override { return x + 10; } };
__device__ One *object;
extern "C" __global__ void make() { object = new Ten; chosen = table[1]; }
extern "C" __global__ void k(int *out) {
    *pointer += step;
    out[0] = count; out[1] = table[0](7); out[2] = chosen(7); out[3] = object->add(1);
}"""

MODES = [{"kernel_check": check, "kernel_overflow": overflow} for check, overflow in itertools.product("01", "01")]


@pytest.mark.parametrize("backend", ["numpy", "sim"])
@pytest.mark.parametrize("first", [0, 3], ids=["unchecked first", "checked first"])
def test_a_module_has_one_set_of_variables_in_all_modes(backend: str, first: int) -> None:
    need_nvrtc()
    modes = MODES[first:] + MODES[:first]
    with xl.use_backend(backend):
        module = xl.raw_module(STATE)
        make, kernel = module.get_function("make"), module.get_function("k")
        out = xl.zeros(4, np.int32)
        with configured(**modes[0]):
            make(1, 1, ())
        for turn, mode in enumerate([*modes, *modes], start=1):
            with configured(**mode):
                kernel(1, 1, (out,))
                assert xl.to_host(out).tolist() == [5 * turn, 14, 21, 11], mode
                assert xl.to_host(module.get_global("count")) == 5 * turn
                xl.to_device(np.int32(5), out=module.get_global("step"))


BFLOAT = """
#include <cuda_bf16.h>
typedef __nv_bfloat16 b16;
extern "C" __global__ void k(const b16 *x, const b16 *y, const b16 *z, short *out, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        b16 results[] = {x[i] + y[i], x[i] - y[i], x[i] * y[i], __hmul_rn(x[i], y[i]), x[i] * y[i] + z[i],
                         __hadd_rn(__hmul_rn(x[i], y[i]), z[i]), __hfma(x[i], y[i], z[i])};
        for (int j = 0; j < 7; j++) out[7 * i + j] = __bfloat16_as_short(results[j]);
    }
}"""


def _round(value: Fraction) -> int:
    """The bits of the nearest bfloat16, ties to even; of normal numbers."""
    if not value:
        return 0
    size = abs(value)
    exponent = (size.numerator.bit_length() - size.denominator.bit_length()) - 1
    exponent += size >= Fraction(2) ** (exponent + 1)
    whole = round(size / Fraction(2) ** (exponent - 7))
    return (value < 0) << 15 | ((exponent + 127 - 1) << 7) + whole


def test_the_nan_of_a_bfloat16_becomes_a_float_by_a_shift() -> None:
    need_nvrtc()
    source = """
    #include <cuda_bf16.h>
    extern "C" __global__ void k(const float *x, unsigned *out) {
        out[threadIdx.x] = __float_as_uint(__bfloat162float(__float2bfloat16(x[threadIdx.x])));
    }"""
    x, out = np.array([np.nan, -np.nan, 1.5, -np.inf], np.float32), np.zeros(4, np.uint32)
    xl.raw_module(source).get_function("k")(1, 4, (x, out))
    assert out.tolist() == [0x7FFF0000, 0x7FFF0000, 0x3FC00000, 0xFF800000]


def test_bfloat16_is_rounded_once() -> None:
    """CUDA's headers round twice for older targets than 9.0, in some of these."""
    need_nvrtc()
    random = np.random.default_rng(5)
    signs, exponents, fractions = (random.integers(0, most, (3, 3000)) for most in (2, 10, 128))
    bits = (signs << 15 | (exponents + 122) << 7 | fractions).astype(np.uint16)
    exact = [[Fraction(float(each)) for each in (row.astype(np.uint32) << 16).view(np.float32)] for row in bits]
    with xl.use_backend("numpy"):
        kernel = xl.raw_module(BFLOAT).get_function("k")
        out = np.zeros((3000, 7), np.int16)
        kernel(1, 32, (*(each.view(np.int16) for each in bits), out, 3000))
    wanted = []
    for x, y, z in zip(*exact, strict=True):
        product = _value(_round(x * y))
        wanted.append([_round(each) for each in (x + y, x - y, x * y, x * y, x * y + z, product + z, x * y + z)])
    different = out.view(np.uint16) != np.array(wanted)
    assert not different.any(axis=0).any(), different.sum(axis=0)


def _value(bits: int) -> Fraction:
    return Fraction(float(np.uint32(bits << 16).view(np.float32)))


def test_the_target_of_the_compiler_is_a_setting() -> None:
    need_nvrtc()
    source = 'extern "C" __global__ void k(int *out) { *out = __CUDA_ARCH__; }'
    found: dict[str, Any] = {}
    with xl.use_backend("numpy"):
        for arch in ("compute_90", "compute_80"):
            with configured(kernel_arch=arch):
                kernel = xl.raw_module(source).get_function("k")
                kernel(1, 1, (out := np.zeros(1, np.int32),))
                found[arch] = out[0]
        kernel(1, 1, (out,))  # a loaded module keeps its own
        assert found == {"compute_90": 900, "compute_80": 800}
        assert out[0] == 800
    with pytest.raises(xl.errors.ConfigError, match="compute_90"):
        xl.configure(kernel_arch="sm_90")
