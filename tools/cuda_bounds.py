"""Measure the errors of the CUDA functions' quick steps in double before they are rounded, against their bounds.

    python -m tools.cuda_bounds [--only log,erf] [--count 22]

Compares with the C library's functions of ``long double`` at random operands of all sizes within the domain. Sweeps
over all operands prove the results, and do not say by how much.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import re
import sys

import numpy as np

from tools import native_digest
from xferlib.kernels import cuda_functions, host_compiler
from xferlib.kernels.native_functions import collect_sections

_C_NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
            "arctanh": "atanh"}  # fmt: skip
_FACTORS = {"arctanh": 2.0}
"""The rounded number over the result."""
_SIGNED = {"arccos", "log", "log2", "log10", "exp", "exp2", "cosh", "arccosh"}
"""The rounded number has the result's sign; others get it later."""
DOMAINS = {
    "log": (-149, 128, 1), "log2": (-149, 128, 1), "log10": (-149, 128, 1), "log1p": (-149, 127, 0),
    "exp": (-30, 6.4, 0), "exp2": (-30, 6.9, 0), "expm1": (-30, 6.4, 0), "sinh": (-30, 6.4, 0), "cosh": (-30, 6.4, 0),
    "sin": (-30, 21.9, 0), "cos": (-30, 21.9, 0), "tan": (-30, 21.9, 0), "arcsin": (-149, 0, 0), "arccos": (-30, 0, 0),
    "arctan": (-149, 59, 0), "tanh": (-149, 3, 0), "arcsinh": (-149, 59, 0), "arccosh": (0, 127, 1),
    "arctanh": (-149, 0, 0), "erf": (-30, 1.9, 0),
}  # fmt: skip
"""The binary logarithms of the least and the largest operands, and whether they are positive."""

_MEASURE = """
extern long double {c_name}l(long double);
double measure_{name}(const float *x, long long count, float *where) {{
  long double most = 0;
  for (long long k = 0; k < count; ++k) {{
    int is_unsure = 0;
    long double right, error;
    xf_bounded_{name}(x[k], xf_any(), &is_unsure);
    right = {factor}L * {c_name}l((long double)x[k]);
    error = __builtin_fabsl(({size}(xf_captured) - {size}(right)) / right);
    if (is_unsure || right == 0 || __builtin_isinf(right) || !(error > most)) continue;
    most = error;
    *where = x[k];
  }}
  return (double)most;
}}
"""


def bound_of(name: str) -> float:
    """The bound in the text of a function, or of the sections that it shares with others."""
    sections = cuda_functions.sections()
    texts = [sections[each][1] for each in reversed(collect_sections(sections, [f"{name}_in_double"]))]
    found = next(each for text in texts for each in re.findall(r"XF_DOUBLE_BOUND\((0x[^)]+)\), is_unsure", text))
    return float.fromhex(found)


def operands(name: str, count: int, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Random ones, some of them next to 1."""
    low, high, is_positive = DOMAINS[name]
    rng = np.random.default_rng(seed)
    x = np.exp2(rng.uniform(low, high, count))
    x[::2] = np.exp2(rng.uniform(max(low, -14), min(high, 5), x[::2].size))
    near = 1 + np.exp2(rng.uniform(-23, -1, x[::8].size)) * rng.choice([-1, 1], x[::8].size)
    if low < 0 < high or name == "arccosh":
        x[::8] = np.abs(near - 1) + 1 if name == "arccosh" else near
    if high == 0:
        x[::8] = 1 - np.abs(near - 1)
    sign = 1 if is_positive else rng.choice([-1, 1], count)
    return (x * sign).astype(np.float32)


def library(names: list[str]) -> ctypes.CDLL:
    """The functions, compiled as C, with what they round kept."""
    sections = cuda_functions.sections()
    source = native_digest._AS_C + "static _Thread_local double xf_captured;\n"
    for each in collect_sections(sections, cuda_functions.sections_of(names, "double")):
        text = sections[each][1]
        if each == "double":
            text = text.replace("  return (float)y;\n}", "  xf_captured = y;\n  return (float)y;\n}", 1)
        source += text
    for name in names:
        source += _MEASURE.format(
            name=name, c_name=_C_NAMES.get(name, name), factor=_FACTORS.get(name, 1.0),
            size="" if name in _SIGNED else "__builtin_fabsl",
        )  # fmt: skip
    return host_compiler.load_c(source, flags=("-O2", "-march=native", "-ffp-contract=off", "-fno-math-errno"))


def measure(measures: ctypes.CDLL, name: str, x: np.ndarray[tuple[int], np.dtype[np.float32]]) -> tuple[float, float]:
    """The greatest relative error at operands, and the one where it is."""
    where = ctypes.c_float()
    function = getattr(measures, f"measure_{name}")
    function.restype = ctypes.c_double
    return function(ctypes.c_void_p(x.ctypes.data), ctypes.c_longlong(x.size), ctypes.byref(where)), where.value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="functions, separated by commas")
    parser.add_argument("--count", type=int, default=22, help="the binary logarithm of the number of operands")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(DOMAINS)
    measures, is_wrong = library(names), False
    for name in names:
        error, where = measure(measures, name, operands(name, 1 << options.count, options.seed))
        bound = bound_of(name)
        is_wrong |= error >= bound
        print(f"{name:8} 2^{math.log2(error):.1f} of 2^{math.log2(bound):.1f} at {where!r}", flush=True)
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
