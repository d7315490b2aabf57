"""Sums of trees, and an example; `ranks/parameters.py` tests trees over ranks, and `test_how_to.py` its example."""

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


def test_gradients_travel_while_others_are_computed() -> None:
    done = launching.job("torch", 2, str(launching.HERE.parents[1] / "examples" / "overlapped_gradients.py"))
    found = re.findall(r"rank (\d) of 2: 9[3-7]\.\d% of 297 digits; weights differ by 0\.0 between ranks", done.stdout)
    assert sorted(found) == ["0", "1"], done.stdout + done.stderr
