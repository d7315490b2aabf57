"""Find every float32 input whose function value lies next to a rounding midpoint, and write the tables.

Two steps, for the GPU and the arithmetic are rarely on one machine::

    python tools/kernel_hard_cases.py find candidates.json      # needs a CUDA device and CuPy; seconds
    python tools/kernel_hard_cases.py write candidates.json     # needs mpmath; writes hard_cases.bin

``find`` evaluates each function in float64 at all 2^32 inputs and keeps those within FOUND_ULP of a
midpoint, which leaves room for the error of CUDA's own functions beyond the margin of the tables.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np

from xferlib._core import registry
from xferlib.kernels.cuda_source import OPTIONS
from xferlib.kernels.functions import CALL_NAMES, CALLS, MARGIN_ULP

FOUND_ULP = MARGIN_ULP + 8
MOST = 1 << 16
DATA = Path(__file__).parent.parent / "xferlib" / "kernels" / "hard_cases.bin"

SOURCE = """
extern "C" __global__ void find(unsigned int* found, unsigned int* count) {{
  unsigned int bits = blockIdx.x * 256u + threadIdx.x;
  double x = __uint_as_float(bits), y = {wide}, size = fabs(y);
  bool near = (((unsigned int)__double2loint(y) - 0x10000000u + {ulp}u) & 0x1fffffffu) <= 2u * {ulp}u;
  if (size < 0x1p-126) {{  // the float32 result is subnormal: midpoints are the odd multiples of 2^-150
    double scaled = size * 0x1p150, nearest = rint(scaled);
    near = fmod(nearest, 2.0) == 1.0 && fabs(scaled - nearest) <= {ulp}.0 * 0x1p-52 * scaled;
  }}
  if (near && size <= 0x1p128) {{
    unsigned int place = atomicAdd(count, 1u);
    if (place < {most}u) found[place] = bits;
  }}
}}
"""


def find(path: Path) -> None:
    """Sweep all inputs on the GPU; write candidates as JSON."""
    import cupy

    from xferlib.kernels.cuda_launch import ParameterBlock

    backend: Any = registry.get("cupy")
    device = backend.devices()[0]
    result = {}
    for name in CALLS:
        wide = "__ddiv_rn(1.0, __dsqrt_rn(x))" if name == "rsqrt" else f"{CALL_NAMES.get(name, name)}(x)"
        source = SOURCE.format(wide=wide, ulp=FOUND_ULP, most=MOST)
        kernel = backend.load(backend.compile(source, device=device, options=OPTIONS).cubin, name="find", device=device)
        found, count = cupy.zeros(MOST, cupy.uint32), cupy.zeros(1, cupy.uint32)
        block = ParameterBlock(2, [], b"")
        block.patch([found.data.ptr, count.data.ptr])
        stream = backend.stream_current(device)
        backend.launch(kernel, (1 << 24, 1, 1), (256, 1, 1), block.address, stream=stream)
        total = int(count.get()[0])
        if total > MOST:
            raise SystemExit(f"{name}: {total} candidates; the sweep is wrong")
        result[name] = sorted(found.get()[:total].tolist())
        print(f"{name}: {total} candidates", flush=True)
    path.write_text(json.dumps(result))


def write(path: Path) -> None:
    """Round the exact value at each candidate, and write the tables."""
    candidates = json.loads(path.read_text())
    counts, cases = [], b""
    for name in CALLS:
        pairs = [(bits, rounded(name, bits)) for bits in candidates[name]]
        counts.append(f"{name}={len(pairs)}")
        cases += b"".join(struct.pack("<II", *pair) for pair in sorted(pairs))
        print(f"{name}: {len(pairs)} cases")
    DATA.write_bytes(" ".join(counts).encode() + b"\n" + cases)


def rounded(name: str, bits: int) -> int:
    """The bits of the float32 nearest to the function's exact value at ``bits``."""
    import mpmath

    x = mpmath.mpf(float(np.uint32(bits).view(np.float32)))
    for digits in (60, 200, 1000):
        with mpmath.workdps(digits):
            value = exact(mpmath, name, x)
            margin = abs(value) * mpmath.mpf(10) ** (8 - digits)
            low, high = nearest(mpmath, value - margin), nearest(mpmath, value + margin)
        if low == high:
            return low
    with mpmath.workdps(1000):  # an exact midpoint: ties to even
        return nearest(mpmath, exact(mpmath, name, x))


def exact(mpmath: Any, name: str, x: Any) -> Any:
    """The function in the working precision."""
    simple = {
        "exp2": lambda: mpmath.power(2, x), "log2": lambda: mpmath.log(x, 2), "log10": lambda: mpmath.log10(x),
        "rsqrt": lambda: 1 / mpmath.sqrt(x), "cbrt": lambda: mpmath.sign(x) * mpmath.cbrt(abs(x)),
        "arcsin": lambda: mpmath.asin(x), "arccos": lambda: mpmath.acos(x), "arctan": lambda: mpmath.atan(x),
        "arcsinh": lambda: mpmath.asinh(x), "arccosh": lambda: mpmath.acosh(x), "arctanh": lambda: mpmath.atanh(x),
    }  # fmt: skip
    return simple[name]() if name in simple else getattr(mpmath, name)(x)


def nearest(mpmath: Any, value: Any) -> int:
    """The bits of the float32 nearest to ``value``, ties to even."""
    if value == 0:
        return 0
    exponent = max(int(mpmath.floor(mpmath.log(abs(value), 2))), -126)
    while abs(value) < mpmath.ldexp(1, exponent) and exponent > -126:
        exponent -= 1
    while abs(value) >= mpmath.ldexp(1, exponent + 1):
        exponent += 1
    scaled = mpmath.ldexp(value, 23 - exponent)
    whole = int(mpmath.floor(scaled))
    rest = scaled - whole
    if rest > mpmath.mpf(1) / 2 or (rest == mpmath.mpf(1) / 2 and whole % 2):
        whole += 1
    with np.errstate(over="ignore"):
        number = np.float32(float(mpmath.ldexp(mpmath.mpf(whole), exponent - 23)))
    return int(number.view(np.uint32))


if __name__ == "__main__":
    steps = {"find": find, "write": write}
    if len(sys.argv) != 3 or sys.argv[1] not in steps:
        raise SystemExit(__doc__)
    steps[sys.argv[1]](Path(sys.argv[2]))
