"""Compare the C functions of native kernels with the project's digests over all 2^32 float32 inputs.

    python -m tools.native_digest [--only exp,log] [--plain] [--flags "-O3 -mavx2 -mfma"]

Each function takes some seconds on two cores. ``--plain`` compiles without fused multiplications, whose results differ
before they are rounded: a sweep of each kind proves the functions for every machine. Prints how many inputs took the
slow form too.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from xferlib.kernels import host_compiler, native_functions
from xferlib.kernels.functions import CALLS

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
    parser.add_argument("--flags", help="of the compiler, instead of its best")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(CALLS)
    flags = tuple(options.flags.split()) if options.flags else FLAGS
    if "-ffp-contract=off" not in flags:
        flags += ("-ffp-contract=off",)
    known = {row["function"]: row["here"] for row in json.loads(DIGESTS.read_text(encoding="utf-8"))}
    sweeps = library(names, flags + PLAIN if options.plain else flags)
    wrong = 0
    for name in names:
        total, slow = digest(sweeps, name, threads=options.threads)
        is_equal = f"{total:016x}" == known[name]
        wrong += not is_equal
        print(f"{name:8} {total:016x} {'equal' if is_equal else 'DIFFERENT'}, {slow / _ALL:.1e} slow", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
