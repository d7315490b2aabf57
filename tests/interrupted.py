"""A program that Ctrl-C ends at any point: ``python interrupted.py BACKEND WAY``.

It writes a line once its loop runs; the loop ends only by Ctrl-C, and begins again. What it finds wrong is an error.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl

backend, way = sys.argv[1:]
xl.use_backend(backend)
blocked = threading.Event()


def write_ready() -> None:
    print("ready", flush=True)


class Numbered:
    """A data set without an end, of which each item is full of its number."""

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, number: int) -> Any:
        return {"x": np.full(30_000, number, np.int32), "number": np.array(number)}


class Blocked(Numbered):
    """One whose file server does not answer."""

    def __getitem__(self, number: int) -> Any:
        if number == 40:
            write_ready()
            blocked.wait()
        return super().__getitem__(number)


class BlockedRows:
    """Rows of such a file server."""

    shape, dtype = (1000, 3000), np.dtype(np.int32)

    def __getitem__(self, part: slice) -> Any:
        if part.start == 40:
            write_ready()
            blocked.wait()
        return np.full((part.stop - part.start, 3000), part.start, np.int32)


def prefetch(source: Any, begun: int) -> None:
    expected = itertools.count()
    with xl.prefetch(source, workers=3) as batches:
        for batch in batches:
            number, found = next(expected), xl.tree.to_host(batch)
            assert found["number"] == number, "a batch is lost"
            assert (found["x"] == number).all(), "a batch is not whole"
            if number == 4 * begun - 1:
                write_ready()


def stream_map(memory: Any, begun: int) -> None:
    """Two sources into a file, which is compared with what the error says."""
    x, y = np.arange(40 * 9000, dtype=np.int32).reshape(40, 9000), np.arange(40, dtype=np.int32)
    wanted = x + y[:, None]
    chunks = itertools.count()

    def add(x: Any, y: Any) -> Any:
        if next(chunks) == begun:
            write_ready()
        return x + xl.get_array_module(y).reshape(y, (-1, 1))

    while True:
        memory[...] = -1
        try:
            xl.stream_map(add, x, y, chunk_rows=7, out=memory)
        except KeyboardInterrupt as error:
            done = getattr(error, "rows_complete", 0)
            assert (memory[:done] == wanted[:done]).all(), "rows are not stored"
            if hasattr(error, "rows_complete"):
                xl.stream_map(add, x, y, chunk_rows=7, out=memory, start=done)
                assert (memory == wanted).all(), "the rest is wrong"
            raise
        assert (memory == wanted).all(), "the result is wrong"


def repeat(work: Callable[[Any, int], None], given: Any) -> None:
    for begun in range(1, 6):
        try:
            work(given, begun)
        except KeyboardInterrupt:  # a loop without end: nothing else leaves it
            pass
        for thread in threading.enumerate():
            if thread.name.startswith(("xferlib-feed", "xferlib-drain", "xferlib-read")):
                thread.join(60)
                assert not thread.is_alive(), thread.name


if way == "blocked":
    prefetch(Blocked(), 0)
elif way == "blocked rows":
    xl.stream_map(lambda x: x, BlockedRows(), chunk_rows=5)
else:
    repeat(prefetch, Numbered())
    with tempfile.TemporaryDirectory() as folder:
        repeat(stream_map, np.memmap(Path(folder) / "out", np.int32, "w+", shape=(40, 9000)))
