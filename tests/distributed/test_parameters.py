"""The data-parallel example over processes, and sums of trees in one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.distributed import launching
from xferlib.distributed import pairwise_sum
from xferlib.errors import ArgumentError, KernelShapeError
from xferlib.testing import assert_same_bits

EXAMPLE = launching.HERE.parents[1] / "examples" / "data_parallel.py"


@pytest.mark.skipif(not EXAMPLE.is_file(), reason="the examples are not beside the tests")
def test_training_gives_the_same_weights_over_any_processes() -> None:
    sums = {}
    for driver, size in [("single", 1), ("mpi", 2), ("mpi", 4), ("torch", 2)]:
        if (driver == "mpi" and launching.mpiexec() is None) or (driver == "torch" and not launching.has("torch")):
            continue
        done = launching.job(driver, size, str(EXAMPLE))
        assert done.returncode == 0, done.stderr
        found = re.findall(r"checksum of the weights (\w{8})", done.stdout)
        assert len(found) == size
        sums[driver, size] = set(found)
    assert len(set.union(*sums.values())) == 1, sums


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("backend", ["numpy", "sim"])
def test_pairwise_sum_adds_neighbours_first(count: int, backend: str) -> None:
    rows = [np.random.default_rng(k).normal(size=100).astype("float32") for k in range(count)]

    def added(some: list[Any]) -> Any:
        if len(some) == 1:
            return some[0]
        half = 1 << ((len(some) - 1).bit_length() - 1)
        return added(some[:half]) + added(some[half:])

    trees = [{"w": xl.to_device(row, backend=backend), "step": 3} for row in rows]
    found = pairwise_sum(*trees)
    assert_same_bits(xl.to_host(found["w"]), added(rows))
    assert found["step"] == 3
    for tree, row in zip(trees, rows, strict=True):
        assert_same_bits(xl.to_host(tree["w"]), row)


def test_trees_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no tree"):
        pairwise_sum()
    with pytest.raises(ArgumentError, match="1, 2 leaves"):
        pairwise_sum([np.ones(2)], [np.ones(2), np.ones(2)])
    with pytest.raises(KernelShapeError):
        pairwise_sum(np.ones(2), np.ones(3))
