"""Compare a GPU with this machine's CPU, bit for bit, over all inputs or very many.

    python tools/kernel_sweep.py --backend cupy --json sweep.json

For each float32 function of one argument all 2^32 inputs are computed on both, and for each exact function 10^8
random bit patterns of every dtype (`SLOW` has the exceptions): one digest of all results from each side. Without a
GPU, ``--backend numpy`` prints the CPU's digests; ``--here FILE`` takes them from what ``--json`` wrote then. The
repository has them: ``tools/kernel_digests.json``, ``tools/kernel_exact_digests.json``. ``--only exp,log`` does less.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import xferlib as xl
from tools import digest
from xferlib.kernels.functions import CALLS, TABLE, guarantee

EXACT_DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
                "float64")  # fmt: skip
COUNT = 10**8
SLOW = {("fma", "float64"): 10**5}
"""On a CPU, most random operands of these go through rational arithmetic."""


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="cupy")
    parser.add_argument("--only", default="", help="functions, separated by commas")
    parser.add_argument("--part", choices=("all", "complete", "exact"), default="all")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--here", type=Path)
    options = parser.parse_args(argv)
    only = options.only.split(",") if options.only else None
    known = json.loads(options.here.read_text()) if options.here else []
    _known.update({(row["function"], row["dtype"], row["inputs"]): int(row["here"], 16) for row in known})
    rows = []
    if options.part in ("all", "complete"):
        rows += _complete(options.backend, only)
    if options.part in ("all", "exact"):
        rows += _exact(options.backend, only)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    wrong = [row for row in rows if row["here"] != row["there"]]
    print(f"{len(rows)} digests, {len(wrong)} differ")
    return 1 if wrong else 0


_known: dict[tuple[str, str, int], int] = {}


def _complete(backend: str, only: list[str] | None) -> list[dict[str, Any]]:
    names = [name for name in CALLS if only is None or name in only]
    counters = np.arange(digest.CHUNK, dtype=np.uint32)
    chunks = (1 << 32) // digest.CHUNK
    return [_row(name, "float32", digest.complete(name), counters, chunks, backend) for name in names]


def _exact(backend: str, only: list[str] | None) -> list[dict[str, Any]]:
    counters = np.arange(COUNT, dtype=np.uint32)
    rows = []
    for name, function in TABLE.items():
        if only is not None and name not in only:
            continue
        for dtype in ("float64",) if name in CALLS else EXACT_DTYPES:  # those of float32 are swept completely
            kind = np.dtype(dtype).kind
            if kind in function.kinds.replace("i", "iu") and guarantee(name, dtype).is_identical:
                count = SLOW.get((name, dtype), COUNT)
                rows.append(_row(name, dtype, digest.random(name, dtype), counters[:count], 1, backend))
    return rows


def _row(name: str, dtype: str, kernel: Any, counters: Any, chunks: int, backend: str) -> dict[str, Any]:
    start = time.perf_counter()
    found = _known.get((name, dtype, counters.size * chunks))
    here = digest.total(kernel, counters, chunks) if found is None else found
    middle = time.perf_counter()
    there, seconds = here, 0.0
    if backend != "numpy":
        with xl.use_backend(backend):
            moved = xl.to_device(counters)
            there = digest.total(kernel, moved, chunks, xl.to_host)
        seconds = time.perf_counter() - middle
    row = {
        "function": name, "dtype": dtype, "inputs": counters.size * chunks, "here": f"{here:016x}",
        "there": f"{there:016x}", "here_s": round(middle - start, 2), "there_s": round(seconds, 2),
    }  # fmt: skip
    verdict = "equal" if here == there else "DIFFERENT"
    print(f"{name:14} {dtype:8} {row['inputs']:>11}  {row['here']} {row['there']}  {verdict}", flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
