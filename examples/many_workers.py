"""Scale rows of a file on the workers of a Dask cluster; without one, in this process.

    python examples/many_workers.py
    python examples/many_workers.py cluster.json        the file that `dask scheduler --scheduler-file` writes

Each worker opens the files by itself, and computes ranges of chunks on its own device.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl

ROWS, COLUMNS, CHUNK = 20_000, 64, 500


def scale(chunk: Any) -> Any:
    """Each row, with its largest element 1."""
    xp = xl.get_array_module(chunk)
    return chunk / xp.max(chunk, axis=1, keepdims=True)


def run(engine: Any, folder: Path) -> Any:
    rows = np.lib.format.open_memmap(folder / "rows.npy", "w+", "float32", (ROWS, COLUMNS))
    rows[:] = np.random.default_rng(0).random((ROWS, COLUMNS), "float32")
    out = np.lib.format.open_memmap(folder / "out.npy", "w+", rows.dtype, rows.shape)
    xl.stream_map(scale, rows, chunk_rows=CHUNK, out=out, engine=engine)
    assert (out.max(axis=1) == 1).all()
    return out.sum(dtype="float64")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=".") as folder:  # which every worker sees
        if len(sys.argv) > 1:
            from distributed import Client

            with Client(scheduler_file=sys.argv[1]) as client:
                client.wait_for_workers(1, timeout=60)
                total, workers = run(client, Path(folder).resolve()), len(client.scheduler_info()["workers"])
            print(f"{ROWS} rows on {workers} workers; the elements sum to {total:.0f}")
        else:
            print(f"{ROWS} rows on {xl.get_device()}; the elements sum to {run(None, Path(folder)):.0f}")
