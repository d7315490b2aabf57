"""`stream_map` in every rank of a job.

mpiexec -n 2 python -m pytest tests/distributed/ranks/streaming.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import xferlib as xl
from xferlib.distributed import Communicator
from xferlib.testing import assert_same_bits

DATA = np.random.default_rng(5).standard_normal((1000, 30)).astype("float32")


def test_ranks_share_the_rows_and_each_returns_when_all_are_stored(comm: Communicator) -> None:
    name = np.zeros(64, np.uint8)  # of a folder that one rank has made, for all
    if comm.rank == 0:
        made = tempfile.mkdtemp().encode()
        name[: len(made)] = np.frombuffer(made, np.uint8)
    path = Path(bytes(comm.broadcast(name)).rstrip(b"\0").decode()) / "results.npy"
    if comm.rank == 0:
        np.save(path, np.zeros_like(DATA))
    comm.barrier()
    out: Any = np.load(path, mmap_mode="r+")
    seen: list[int] = []

    def doubled(chunk: Any) -> Any:
        seen.append(len(chunk))
        return chunk * 2

    assert xl.stream_map(doubled, DATA, chunk_rows=7, out=out, engine=comm) is out
    assert_same_bits(np.asarray(out), DATA * 2)
    assert sum(seen) < len(DATA) or comm.size == 1
    assert comm.all_reduce(np.array(sum(seen))) == len(DATA)


def test_every_rank_gets_the_folded_value_with_the_bits_of_one_process(comm: Communicator) -> None:
    def total(chunk: Any) -> Any:
        return xl.get_array_module(chunk).sum(chunk, axis=0)

    found = [xl.stream_map(total, DATA, chunk_rows=7, reduce=lambda one, two: one + two, engine=engine)
             for engine in (comm, None)]  # fmt: skip
    assert_same_bits(*found)
