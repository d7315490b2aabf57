"""Sorts of every dtype, beside NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.arrays.conftest import Space, same
from xferlib.errors import UnsupportedError

DTYPES = ("bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "complex64")


def numbers(dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    """Few different ones, with NaN, zeros of both signs and infinities among them."""
    x = np.random.default_rng(seed).integers(-3, 4, shape)
    if dtype in ("bool", "uint16", "uint64"):
        return np.abs(x).astype(dtype)
    found = x.astype(dtype)
    chance = np.random.default_rng(seed)
    special = [np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf]
    if found.dtype.kind in "fc":
        flat = found.reshape(-1)
        flat.real[::3] = chance.choice(special, len(flat[::3]))
    if found.dtype.kind == "c":
        flat.imag[...] = chance.integers(-1, 2, len(flat))
        flat.imag[::2] = chance.choice(special, len(flat[::2]))
    return found


def reversed_sort(x: Any, axis: int) -> tuple[Any, Any]:
    """The standard's descending order, in which equal elements keep theirs."""
    moved = np.moveaxis(x, axis, -1)
    places = x.shape[axis] - 1 - np.argsort(moved[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    found = np.take_along_axis(moved, places, axis=-1)
    return np.moveaxis(found, -1, axis), np.moveaxis(places, -1, axis)


def check_sorts(x: Any, axis: int, step: int = 1, *, is_descending: bool) -> None:
    """Compare sort and argsort with NumPy's."""
    d: Any = xl.to_device(x)[::step]
    x = x[::step]
    xp = xl.get_array_module(d)
    found, places = (
        xp.sort(d, axis=axis, descending=is_descending),
        xp.argsort(d, axis=axis, descending=is_descending),
    )
    if is_descending:
        expected = reversed_sort(x, axis)
    else:
        expected = np.sort(x, axis=axis, kind="stable"), np.argsort(x, axis=axis, kind="stable")
    same((xl.to_host(found), xl.to_host(places)), expected)
    if x.dtype.kind == "f":
        signs = np.signbit(expected[0]) & ~np.isnan(expected[0])
        np.testing.assert_array_equal(np.signbit(xl.to_host(found)) & ~np.isnan(expected[0]), signs)


SHAPES = st.sampled_from([(1,), (7,), (300,), (2, 300), (300, 3), (2, 257, 2), (3, 1, 260), (5, 6), (5000,)])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(dtype=st.sampled_from(DTYPES), shape=SHAPES, data=st.data())
def test_it_sorts_as_numpy_does(space: Space, dtype: str, shape: tuple[int, ...], data: st.DataObject) -> None:
    axis, is_descending = data.draw(st.integers(-len(shape), len(shape) - 1)), data.draw(st.booleans())
    x = numbers(dtype, shape, data.draw(st.integers(0, 9)))
    check_sorts(x, axis, data.draw(st.sampled_from([1, -1, 2])), is_descending=is_descending)


def test_a_device_without_kernels_whose_memory_the_host_cannot_read_refuses_by_name(plugins: object) -> None:
    with xl.use_backend("vendor"):
        d: Any = xl.to_device(np.arange(3.0))
        xp = xl.get_array_module(d)
        for call in (xp.sort, xp.argsort, lambda x: xp.sort(x[::-1])):
            with pytest.raises(UnsupportedError, match=r"sort: .*numpy\.sort\(xferlib\.to_host\(x\)\)"):
                call(d)
        with pytest.raises(UnsupportedError, match=r"cumsum: .*numpy\.cumsum\(xferlib\.to_host\(x\)\)"):
            xp.cumulative_sum(d)
