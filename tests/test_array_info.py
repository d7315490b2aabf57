"""Descriptions of arrays."""

from __future__ import annotations

import numpy as np
import pytest

import xferlib as xl
from xferlib.testing import backend_named


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (2, 0, 3)])
def test_an_array_without_elements_may_be_written(shape: tuple[int, ...]) -> None:
    with xl.use_backend("sim"):
        sim, x = backend_named("sim"), xl.zeros(shape)
        view = sim.strided(x, sim.view(x).pointer, shape, (0,) * len(shape))
    assert sim.view(view).is_writable


def test_an_array_whose_elements_share_memory_may_not() -> None:
    numpy = backend_named("numpy")
    x = np.zeros(3)
    view = numpy.strided(x, x.ctypes.data, (2, 3), (0, 8))
    assert not numpy.view(view).is_writable
