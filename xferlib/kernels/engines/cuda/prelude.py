"""The device functions that generated kernels use; as text, because the source includes no header."""

from __future__ import annotations

from collections.abc import Iterable

from xferlib.kernels.engines.cuda.ops import CALL_NAMES
from xferlib.kernels.ir.formulas.own_functions import expanded
from xferlib.kernels.ir.hard_cases import MARGIN_ULP, tables
from xferlib.kernels.ir.loops import bodies
from xferlib.kernels.ir.nodes import FLOAT32, Node, Program

OPTIONS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
"""IEEE arithmetic. The generated code does not depend on these options; NVRTC's functions may."""

_TYPES = """\
struct __align__(8) xf_c64 { float x, y; };
struct __align__(16) xf_c128 { double x, y; };
"""

PARTS = """\
template <typename T, typename W> __device__ __forceinline__ T xf_fetch(const char* from) {
  union { T whole; W words[sizeof(T) / sizeof(W)]; } it;
  #pragma unroll
  for (int k = 0; k < (int)(sizeof(T) / sizeof(W)); ++k) it.words[k] = ((const W*)from)[k];
  return it.whole;
}
template <typename T, typename W> __device__ __forceinline__ void xf_put(char* to, T value) {
  union { T whole; W words[sizeof(T) / sizeof(W)]; } it;
  it.whole = value;
  #pragma unroll
  for (int k = 0; k < (int)(sizeof(T) / sizeof(W)); ++k) ((W*)to)[k] = it.words[k];
}
#ifdef __CUDACC__
// CUDA 13's assembler takes a conversion to half whose low byte is stored for a conversion to an integer, and stores
// that (3.0 gives 03 42, not 00 42). A register of 32 bits between the two prevents it.
template <> __device__ __forceinline__ void xf_put<unsigned short, unsigned char>(char* to, unsigned short value) {
  unsigned int bits; asm("mov.b32 %0, {%1, %1};" : "=r"(bits) : "h"(value));
  to[0] = (char)bits; to[1] = (char)(bits >> 8);
}
#endif
"""
"""Loads and stores of elements at unaligned addresses, in parts."""

_HALF = """\
__device__ __forceinline__ float xf_from_half(unsigned short h) {
  float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f;
}
__device__ __forceinline__ unsigned short xf_to_half(float f) {
  unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
}
__device__ __forceinline__ float xf_half(float f) { return xf_from_half(xf_to_half(f)); }
__device__ __forceinline__ float xf_half_of_double(double d) {
  unsigned short h; asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(d)); return xf_from_half(h);
}
// x*y is exact in double; the sum is rounded to odd, so that rounding it again to half is right.
__device__ __forceinline__ float xf_fma_half(float x, float y, float z) {
  double p = __dmul_rn(x, y), s = __dadd_rn(p, z), back = __dadd_rn(s, -p);
  double error = __dadd_rn(__dadd_rn(p, -__dadd_rn(s, -back)), __dadd_rn(z, -back));
  long long bits = __double_as_longlong(s);
  if (error != 0.0 && !(bits & 1) && fabs(s) < __longlong_as_double(0x7ff0000000000000LL))
    bits += (error > 0.0) == (s > 0.0) ? 1 : -1;
  return xf_half_of_double(__longlong_as_double(bits));
}
"""

_CHOICE = """\
__device__ __forceinline__ float xf_min(float x, float y) { return x != x ? x : y != y ? y : fminf(x, y); }
__device__ __forceinline__ float xf_max(float x, float y) { return x != x ? x : y != y ? y : fmaxf(x, y); }
__device__ __forceinline__ double xf_min(double x, double y) { return x != x ? x : y != y ? y : fmin(x, y); }
__device__ __forceinline__ double xf_max(double x, double y) { return x != x ? x : y != y ? y : fmax(x, y); }
"""

_NARROW = """\
template <typename T> __device__ __forceinline__ T xf_narrow(unsigned int bits) {
  int wide; asm("bfe.s32 %0, %1, 0, %2;" : "=r"(wide) : "r"(bits), "n"(8 * (int)sizeof(T))); return (T)wide;
}
"""

_INTEGER = """\
template <typename T> __device__ __forceinline__ T xf_idiv(T x, T y) {
  if (y == 0) return 0;
  if ((T)-1 < (T)0 && y == (T)-1)
    return sizeof(T) < 4 ? xf_narrow<T>(0u - (unsigned int)x) : (T)(0 - (unsigned long long)x);
  return x / y;
}
template <typename T> __device__ __forceinline__ T xf_imod(T x, T y) {
  if (y == 0 || ((T)-1 < (T)0 && y == (T)-1)) return 0;
  return x % y;
}
template <typename T> __device__ __forceinline__ T xf_floordiv(T x, T y) {
  T quotient = xf_idiv<T>(x, y), rest = xf_imod<T>(x, y);
  return rest != 0 && ((rest < 0) != (y < 0)) ? (T)(quotient - 1) : quotient;
}
template <typename T> __device__ __forceinline__ T xf_floormod(T x, T y) {
  T rest = xf_imod<T>(x, y);
  return rest != 0 && ((rest < 0) != (y < 0)) ? (T)(rest + y) : rest;
}
template <typename T> __device__ __forceinline__ T xf_shl(T x, T count) {
  return (unsigned long long)count < 8 * sizeof(T) ? (T)((unsigned long long)x << count) : (T)0;
}
template <typename T> __device__ __forceinline__ T xf_shr(T x, T count) {
  if ((unsigned long long)count < 8 * sizeof(T)) return (T)(x >> count);
  return x < 0 ? (T)-1 : (T)0;
}
template <typename T, typename F> __device__ __forceinline__ T xf_saturate(F x, F low, F high, T least, T most) {
  return x != x ? (T)0 : x >= high ? most : x < low ? least : (T)x;
}
"""

_LOOKUP = """\
__device__ __noinline__ float xf_lookup(const unsigned int* table, int count, float x, float rounded) {
  unsigned int key = __float_as_uint(x);
  int low = 0, high = count;
  while (low < high) {
    int middle = (low + high) >> 1;
    if (table[2 * middle] < key) low = middle + 1; else high = middle;
  }
  return low < count && table[2 * low] == key ? __uint_as_float(table[2 * low + 1]) : rounded;
}
"""


def prelude(programs: Iterable[Program]) -> str:
    """The functions that the programs need, in an order that compiles."""
    programs = [expanded(each) for program in programs for each in bodies(program)]
    nodes = [node for program in programs for node in program.nodes]
    names = {param.dtype.name for program in programs for param in program.params} | {n.dtype.name for n in nodes}
    parts = [_TYPES] if names & {"complex64", "complex128"} else []
    if "float16" in names:
        parts.append(_HALF)
    if any(node.op in ("min", "max") and node.dtype.kind == "f" for node in nodes):
        parts.append(_CHOICE)
    if any(_needs_integer(node) for node in nodes):
        parts += [_NARROW, _INTEGER]
    elif any(node.op in ("neg", "abs") and node.dtype.kind == "i" for node in nodes):
        parts.append(_NARROW)
    exact = exact_calls(programs)
    if exact:
        parts.append(_LOOKUP)
        parts += [_exact(name) for name in exact]
    return "".join(parts)


def _needs_integer(node: Node) -> bool:
    if node.op == "cast":
        return node.dtype.kind in "iu" and node.args[0].dtype.kind == "f"
    return node.op in ("idiv", "imod", "floordiv", "floormod", "shl", "shr")


def exact_calls(programs: Iterable[Program]) -> list[str]:
    """The float32 functions that the programs need correctly rounded."""
    return sorted(
        {
            str(node.attr)
            for program in programs
            if program.math == "exact"
            for node in program.nodes
            if node.op == "call" and node.dtype == FLOAT32
        }
    )


def _exact(name: str) -> str:
    """A float32 function: the float64 one, rounded once, and a table of its hard cases (`rounding` says why)."""
    table = tables()[name]
    words = zip(table.inputs.tolist(), table.results.tolist(), strict=True)
    pairs = ", ".join(f"0x{key:08x}u, 0x{value:08x}u" for key, value in words)
    wide = "__ddiv_rn(1.0, __dsqrt_rn(x))" if name == "rsqrt" else f"{CALL_NAMES.get(name, name)}(x)"
    subnormal = " || fabs(y) < 0x1p-126" if table.has_subnormal else ""
    count = table.inputs.size
    return f"""\
__device__ const unsigned int xf_table_{name}[{2 * max(count, 1)}] = {{{pairs or "0u, 0u"}}};
__device__ __forceinline__ double xf_wide_{name}(double x) {{ return {wide}; }}
__device__ __forceinline__ float xf_exact_{name}(float x) {{
  double y = xf_wide_{name}((double)x);
  float rounded = __double2float_rn(y);
  unsigned int distance = ((unsigned int)__double2loint(y) - 0x10000000u + {MARGIN_ULP}u) & 0x1fffffffu;
  if (distance <= {2 * MARGIN_ULP}u{subnormal}) rounded = xf_lookup(xf_table_{name}, {count}, x, rounded);
  return rounded;
}}
"""
