"""Indexing of simulated arrays: the results and the IndexErrors of NumPy."""

from __future__ import annotations

from typing import Any

import hypothesis.extra.numpy as arrays
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import LayoutError

INTEGERS = arrays.arrays(np.int64, arrays.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3),
                         elements=st.integers(-4, 4))  # fmt: skip


@st.composite
def arrays_and_keys(draw: st.DrawFn) -> tuple[np.ndarray, tuple[Any, ...]]:
    """An array of small extents, 0 and 1 among them, and a key whose indices often lie beyond them."""
    shape = draw(arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
    mask = arrays.arrays(np.bool_, st.sampled_from([shape, shape[:1], ()]))
    parts = [INTEGERS, mask, st.integers(-4, 3), st.slices(4), st.none(), st.just(...)]
    key = draw(st.lists(st.one_of(parts), max_size=len(shape) + 1))
    return np.arange(np.prod(shape, dtype=int)).reshape(shape), tuple(key)


def _index(array: Any, key: tuple[Any, ...], value: int | None) -> Any:
    """The part, or all behind an assignment of a number; None for an IndexError."""
    try:
        if value is None:
            return np.asarray(xl.to_host(array[key]))
        array[key] = value
    except (IndexError, LayoutError):  # the latter of indices that do not broadcast
        return None
    return np.asarray(xl.to_host(array))


@example((np.empty((2, 0)), (np.array([4]),)), None)
@example((np.empty((2, 0)), (np.array([-3]),)), -1)
@example((np.empty((2, 2)), (np.array([9]), np.empty(0, int))), None)
@given(arrays_and_keys(), st.sampled_from([None, -1]))
def test_indexing_is_as_with_numpy(drawn: tuple[np.ndarray, tuple[Any, ...]], value: int | None) -> None:
    array, key = drawn
    with xl.use_backend("sim"):
        on_device = tuple(xl.to_device(each) if isinstance(each, np.ndarray) else each for each in key)
        found = _index(xl.to_device(array), on_device, value)
    expected = _index(array.copy(), key, value)
    assert (found is None) == (expected is None)
    if found is not None:
        np.testing.assert_array_equal(found, expected, strict=True)
