"""Compare the C functions of native kernels with the project's digests over all 2^32 float32 inputs.

    python -m tools.native_digest [--only exp,log] [--plain | --cuda WAY] [--flags "-O3 -mavx2 -mfma"]

Each function takes some seconds on two cores. ``--plain`` compiles without fused multiplications, whose results differ
before they are rounded: a sweep of each kind proves the functions for every machine. ``--cuda`` sweeps the CUDA
functions in ``pairs`` of floats or in ``double``, whose text is C too. Prints how many inputs took the slow form or
the careful step too.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from xferlib.kernels import cuda_functions, host_compiler, native_functions
from xferlib.kernels.functions import CALLS
from xferlib.kernels.native_functions import collect_sections

DIGESTS = Path(__file__).with_name("kernel_digests.json")
FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
PLAIN = ("-DXF_FUSED=0",)
BLOCK = 256
_ALL = 1 << 32
_PART = 1 << 26
_MASK = (1 << 64) - 1

_SWEEP = """
// The digest of counters first, first + factor, ... as tools/digest.py defines it; the slow ones are counted.
unsigned long long sweep_{name}(unsigned int first, unsigned int factor, unsigned long long count,
                                unsigned long long *slow) {{
  unsigned long long total = 0, done;
  for (done = 0; done < count; done += {block}) {{
    float x[{block}], y[{block}];
    unsigned int bits[{block}];
    int flag = 0, i;
    for (i = 0; i < {block}; ++i) bits[i] = first + factor * ((unsigned int)done + (unsigned int)i);
    for (i = 0; i < {block}; ++i) x[i] = xf_float_of_bits(bits[i]);
    for (i = 0; i < {block}; ++i) y[i] = xf_{name}_f32(x[i], &flag);
    if (flag)
      for (i = 0; i < {block}; ++i) {{
        int own = 0;
        y[i] = xf_{name}_f32(x[i], &own);
        if (own) y[i] = xf_{name}_f32_slow(x[i]);
        *slow += (unsigned long long)own;
      }}
    for (i = 0; i < {block}; ++i) {{
      unsigned int r = y[i] != y[i] ? 0x7fc00000u : xf_bits_of_float(y[i]);
      unsigned int h = ((bits[i] * 0x9e3779b1u) ^ r) * 0x85ebca6bu;
      h ^= h >> 15;
      total += h;
    }}
  }}
  return total;
}}
"""


_AS_C = """
#define XF_QUICK static inline
#define XF_CAREFUL static __attribute__((noinline))
#define XF_TABLE static const
typedef struct { unsigned int x, y; } uint2;
typedef struct { unsigned int x, y, z, w; } uint4;
typedef struct { double x, y; } double2;
typedef struct { float x, y; } float2;
typedef struct { float x, y, z, w; } float4;
static inline unsigned int __float_as_uint(float x) { union { float f; unsigned int u; } it; it.f = x; return it.u; }
static inline float __uint_as_float(unsigned int x) { union { float f; unsigned int u; } it; it.u = x; return it.f; }
static inline double __hiloint2double(int high, int low) {
  union { double d; unsigned long long u; } it;
  it.u = (unsigned long long)(unsigned int)high << 32 | (unsigned int)low;
  return it.d;
}
static inline int __double2hiint(double x) { union { double d; long long u; } it; it.d = x; return (int)(it.u >> 32); }
static inline int __double2loint(double x) { union { double d; long long u; } it; it.d = x; return (int)it.u; }
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}
static inline long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
#define __clzll(x) __builtin_clzll((unsigned long long)(x))
#define __clz(x) __builtin_clz((unsigned int)(x))
#define __fmaf_rn __builtin_fmaf
#define __fma_rn __builtin_fma
#define fabsf __builtin_fabsf
#define fminf __builtin_fminf
#define fmaxf __builtin_fmaxf
#define floorf __builtin_floorf
#define sqrtf __builtin_sqrtf
#define exp2f __builtin_exp2f
#define log2f __builtin_log2f
#define rsqrtf(x) (1.0f / __builtin_sqrtf(x))
#ifndef XF_OFF
#define XF_OFF 0x1p-22  // by which approximations of the hardware are off
#endif
"""

_SWEEP_CUDA = """
unsigned long long sweep_{name}(unsigned int first, unsigned int factor, unsigned long long count,
                                unsigned long long *slow) {{
  unsigned long long total = 0, done, before = xf_careful_count;
  for (done = 0; done < count; ++done) {{
    unsigned int bits = first + factor * (unsigned int)done;
    float y = xf_exact_{name}(__uint_as_float(bits));
    unsigned int h = ((bits * 0x9e3779b1u) ^ (y != y ? 0x7fc00000u : __float_as_uint(y))) * 0x85ebca6bu;
    total += h ^ h >> 15;
  }}
  *slow += xf_careful_count - before;
  return total;
}}
"""

_VALUES_CUDA = """
void values_{name}(const float *x, const float *y, float *out, unsigned char *is_careful, long long count) {{
  (void)y;
  for (long long k = 0; k < count; ++k) {{
    unsigned long long before = xf_careful_count;
    out[k] = xf_exact_{name}({args});
    is_careful[k] = xf_careful_count != before;
  }}
}}
"""


_CAREFUL_STEP = re.compile(r"(XF_CAREFUL float xf_careful_\w+\([^)]*\) \{)")


def cuda_library(names: Iterable[str], way: str = "pairs") -> ctypes.CDLL:
    """The CUDA functions, compiled as C, with the calls of careful steps counted.

    Args:
        names: The functions.
        way: ``pairs`` of floats or ``double``.
    """
    names = list(names)
    sections = cuda_functions.sections()
    source = _AS_C + "static _Thread_local unsigned long long xf_careful_count;\n"
    for each in collect_sections(sections, cuda_functions.sections_of(names, way)):
        source += _CAREFUL_STEP.sub(r"\1 ++xf_careful_count;", sections[each][1])
    source += "".join(cuda_functions.join_steps(name, *cuda_functions.operands_of(name), way=way) for name in names)
    source += "".join(_SWEEP_CUDA.format(name=name) for name in names if name not in cuda_functions.BINARY)
    for name in names:
        source += _VALUES_CUDA.format(name=name, args="x[k], y[k]" if name in cuda_functions.BINARY else "x[k]")
    return host_compiler.load_c(source, flags=("-O2", "-march=native", "-ffp-contract=off", "-fno-math-errno"))


def library(names: Iterable[str], flags: tuple[str, ...] = FLAGS) -> ctypes.CDLL:
    """The functions' sweeps, compiled."""
    names = list(names)
    source = native_functions.text(names)
    source += "".join(_SWEEP.format(name=name, block=BLOCK) for name in names)
    return host_compiler.load_c(source, flags=flags)


def digest(
    sweeps: ctypes.CDLL, name: str, *, first: int = 0, factor: int = 1, count: int = _ALL, threads: int = 2
) -> tuple[int, int]:
    """The digest over ``count`` inputs, a multiple of `BLOCK`, and how many of them were slow."""
    sweep = getattr(sweeps, f"sweep_{name}")
    sweep.restype = ctypes.c_uint64

    def run(start: int) -> tuple[int, int]:
        slow = ctypes.c_uint64(0)
        here = ctypes.c_uint32(first + factor * start)
        size = ctypes.c_uint64(min(_PART, count - start))
        return sweep(here, ctypes.c_uint32(factor), size, ctypes.byref(slow)), slow.value

    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(run, range(0, count, _PART)))
    return sum(total for total, _ in found) & _MASK, sum(slow for _, slow in found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="functions, separated by commas")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--cuda", choices=("pairs", "double"))
    parser.add_argument("--flags", help="of the compiler, instead of its best")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(CALLS)
    flags = tuple(options.flags.split()) if options.flags else FLAGS
    if "-ffp-contract=off" not in flags:
        flags += ("-ffp-contract=off",)
    known = {row["function"]: row["here"] for row in json.loads(DIGESTS.read_text(encoding="utf-8"))}
    sweeps = (
        cuda_library(names, options.cuda) if options.cuda else library(names, flags + PLAIN if options.plain else flags)
    )
    wrong = 0
    for name in names:
        total, slow = digest(sweeps, name, threads=options.threads)
        is_equal = f"{total:016x}" == known[name]
        wrong += not is_equal
        print(f"{name:8} {total:016x} {'equal' if is_equal else 'DIFFERENT'}, {slow / _ALL:.1e} slow", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
