"""A file larger than the device, or than memory: scaled into another file, and summed, chunk by chunk."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl

ROWS, COLUMNS = 20_000, 256


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = np.memmap(Path(folder) / "raw.bin", "float32", "w+", shape=(ROWS, COLUMNS))
        source[:] = np.arange(COLUMNS, dtype="float32")
        out = np.memmap(Path(folder) / "scaled.bin", "float32", "w+", shape=(ROWS, COLUMNS))

        xl.stream_map(lambda chunk: chunk / COLUMNS, source, chunk_rows=2000, out=out)

        def summed(chunk: Any) -> Any:
            return xl.get_array_module(chunk).sum(chunk, axis=0)

        totals = xl.stream_map(summed, out, chunk_rows=2000, reduce=np.add)
        print(f"{out.nbytes >> 20} MiB in 10 chunks; the last column sums to {totals[-1]:.1f}")
        del source, out


if __name__ == "__main__":
    main()
