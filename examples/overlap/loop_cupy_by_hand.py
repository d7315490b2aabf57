"""The loop as the articles end up writing it for CuPy: two pinned buffers, a copy stream, events both ways."""

from typing import Any

import cupy as cp
import numpy as np
from training import batches_of, data_of, step

import xferlib as xl


class DoubleBuffer:
    """Two pinned buffers and two on the device: one pair is filled while the other is used."""

    def __init__(self, rows: int, columns: int, dtype: Any) -> None:
        nbytes = rows * columns * np.dtype(dtype).itemsize
        memories = [cp.cuda.alloc_pinned_memory(nbytes) for _ in range(2)]
        self.pinned = [np.frombuffer(each, dtype, rows * columns).reshape(rows, columns) for each in memories]
        self.device = [cp.empty((rows, columns), dtype) for _ in range(2)]
        self.copied, self.used = ([cp.cuda.Event(disable_timing=True) for _ in range(2)] for _ in range(2))
        self.stream = cp.cuda.Stream(non_blocking=True)

    def send(self, batch: Any, k: int) -> None:
        """Begin the copy of batch ``k``."""
        which = k % 2
        self.copied[which].synchronize()  # the copy of batch k - 2 may still read the buffer
        self.pinned[which][...] = batch
        self.stream.wait_event(self.used[which])  # batch k - 2 may still be trained on
        with xl.trace.range("set", kind="h2d", nbytes=batch.nbytes, stream=self.stream):
            self.device[which].set(self.pinned[which], stream=self.stream)
        self.copied[which].record(self.stream)

    def take(self, k: int) -> Any:
        """Batch ``k``, which the current stream waits for."""
        cp.cuda.get_current_stream().wait_event(self.copied[k % 2])
        return self.device[k % 2]

    def give_back(self, k: int) -> None:
        """Everything that uses batch ``k`` has been enqueued."""
        self.used[k % 2].record(cp.cuda.get_current_stream())


def run(data: Any, rows: int, weights: Any, buffer: DoubleBuffer | None = None) -> Any:
    """One epoch; returns the weights."""
    buffer = buffer if buffer is not None else DoubleBuffer(rows, data.shape[1], data.dtype)
    batches = batches_of(data, rows)
    buffer.send(batches[0], 0)
    for k in range(len(batches)):
        x = buffer.take(k)
        with xl.trace.range("train"):
            weights = step(x, weights)
        buffer.give_back(k)
        if k + 1 < len(batches):
            buffer.send(batches[k + 1], k + 1)
    cp.cuda.Device().synchronize()
    return weights


def main() -> None:
    data, weights = data_of(16, rows=16384)
    print(f"norm {float(cp.linalg.norm(run(data, 16384, cp.asarray(weights)))):.3f}")


if __name__ == "__main__":
    main()
