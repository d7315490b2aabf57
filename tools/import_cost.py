"""Measures the time of ``import xferlib`` beyond ``import numpy``: the median of several fresh interpreters.

    python tools/import_cost.py [limit_ms [runs]]

Exits with 1 where the cost is above the limit, 5 ms if omitted. There are 11 runs, unless told. Byte code is kept in
a folder of its own, also where the environment forbids it, so that the figure is that of an installed package.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

_SCRIPT = "import numpy, time; start = time.perf_counter(); import xferlib; print((time.perf_counter() - start) * 1e3)"


def cost_ms(runs: int = 11) -> float:
    """Median milliseconds over ``runs`` interpreters; the first one, which writes the byte code, is left out."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        times = []
        for _ in range(runs + 1):
            command = [sys.executable, "-c", _SCRIPT]
            done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
            times.append(float(done.stdout))
    return statistics.median(times[1:])


if __name__ == "__main__":
    limit_ms = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    measured_ms = cost_ms(*map(int, sys.argv[2:]))
    print(f"import xferlib: {measured_ms:.1f} ms over numpy (limit {limit_ms:g} ms)")
    sys.exit(measured_ms > limit_ms)
