"""`xp.arange` of every namespace is NumPy's: the same numbers, and an error where NumPy has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.arrays.conftest import SPACES, Space, opened
from xferlib.testing import strategies

EDGES = (
    -129, -128, -3, -1, 0, 1, 2, 3, 5, 127, 128, 255, 256, 2047, 2049, 65504, 2**24 + 1, 2**31, 2**53 + 1, 2**63, 2**64,
)  # fmt: skip
NUMBERS = st.one_of(
    st.integers(-4, 300),
    st.sampled_from([sign * each for each in EDGES for sign in (1, -1)]),
    st.sampled_from([-3.5, 0.5, 2.5, 2.0**63, 300.25]),
)
STEPS = st.one_of(st.sampled_from([1, 2, -1, -2, 0.5, 1.5, -0.75, 100, 2**62, 2**31]))


@pytest.fixture(params=[*SPACES, "torch", "cupy"])
def any_space(request: pytest.FixtureRequest, plugins: object) -> Iterator[Space]:
    yield from opened(request.param)


def outcome(arange: Any, *args: Any, dtype: Any) -> Any:
    try:
        with np.errstate(all="ignore"):
            return arange(*args, dtype=dtype)
    except (OverflowError, TypeError) as error:
        return error


@settings(max_examples=150, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(start=NUMBERS, count=st.integers(-1, 5), step=STEPS, dtype=st.sampled_from(strategies.DTYPES))
def test_a_range_of_any_numbers(any_space: Space, start: Any, count: int, step: Any, dtype: Any) -> None:
    stop = start + count * step
    name = np.dtype(dtype).name
    expected = outcome(np.arange, start, stop, step, dtype=dtype)
    found = outcome(any_space.xp.arange, start, stop, step, dtype=getattr(any_space.xp, name, None) or name)
    if isinstance(expected, Exception):
        assert isinstance(found, OverflowError if isinstance(expected, OverflowError) else TypeError), found
        return
    assert not isinstance(found, Exception), (found, expected)
    found = any_space.get(found)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_numbers_out_of_range_are_refused(any_space: Space) -> None:
    for args in ((-3, 2.5, 2), (-3, 3, 1), (300, 310), (0, -3, -1), (254.5, 300, 2), (0, 600, 300)):
        with pytest.raises(OverflowError):
            any_space.xp.arange(*args, dtype=any_space.xp.uint8)
