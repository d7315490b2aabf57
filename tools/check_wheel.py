"""Whether an installed wheel has its compiled parts, and copies an array: what the build of wheels runs on each.

With ``--pure`` it must have none, and do the same.
"""

from __future__ import annotations

import sys

import numpy as np

import xferlib as xl
from xferlib import _native
from xferlib.errors import UnsupportedError
from xferlib.kernels.cuda_cpu import runtime


def why_no_emulator() -> str:
    """Why CUDA source does not run on this CPU; empty where it can, with NVRTC and a C compiler."""
    try:
        runtime.load()
    except UnsupportedError as error:
        return str(error)
    return ""


def main() -> int:
    parts = [_native.why_absent(), _native.why_calls_absent()]
    if sys.platform != "win32":  # where it is not made
        parts.append(why_no_emulator())
    absent = [each for each in parts if each]
    is_right = len(absent) == len(parts) if "--pure" in sys.argv[1:] else not absent
    if not is_right:
        print("\n".join(absent) or "there are compiled parts", file=sys.stderr)
    source = np.arange(1 << 20, dtype=np.float32)
    assert np.array_equal(xl.to_host(xl.to_device(source, backend="sim")), source)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
