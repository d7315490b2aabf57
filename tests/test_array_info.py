"""Descriptions of arrays."""

from __future__ import annotations

import pytest

import xferlib as xl
from xferlib.testing import backend_named


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (2, 0, 3)])
def test_an_array_without_elements_may_be_written(shape: tuple[int, ...]) -> None:
    with xl.use_backend("sim"):
        sim, x = backend_named("sim"), xl.zeros(shape)
        view = sim.strided_view(x, 0, shape, (0,) * len(shape), x.dtype)
    assert sim.view(view).is_writable


def test_an_array_whose_elements_share_memory_may_not() -> None:
    with xl.use_backend("sim"):
        sim, x = backend_named("sim"), xl.zeros(3)
        view = sim.strided_view(x, 0, (2, 3), (0, 8), x.dtype)
    assert not sim.view(view).is_writable
