"""Whether an installed wheel has its compiled parts, and copies an array: what the build of wheels runs on each."""

from __future__ import annotations

import sys

import numpy as np

import xferlib as xl
from xferlib import _native
from xferlib._native import driver_calls


def main() -> int:
    problems = [each for each in (_native.why_absent(), driver_calls.why_absent()) if each]
    for problem in problems:
        print(problem, file=sys.stderr)
    source = np.arange(1 << 20, dtype=np.float32)
    assert np.array_equal(xl.to_host(xl.to_device(source, backend="sim")), source)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
