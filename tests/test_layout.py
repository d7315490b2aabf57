"""Layouts: chunks cover each element once, and merged axes reach the same memory in the same order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import xferlib as xl
from xferlib._core import layout as _layout
from xferlib.backends.base import ArrayInfo
from xferlib.testing import assert_same_bits, strategies

relaxed = settings(max_examples=300, deadline=None, derandomize=True, database=None)


@relaxed
@given(st.data(), st.integers(1, 400))
def test_chunks_cover_every_element_once_and_fit(data: st.DataObject, chunk_nbytes: int) -> None:
    source = data.draw(strategies.host_arrays())
    assume(source.size)
    itemsize = data.draw(st.sampled_from([1, 2, 4, 8, 16]))
    chunk_nbytes = max(chunk_nbytes, itemsize)
    numbered = np.arange(source.size).reshape(source.shape)
    layout = data.draw(strategies.layouts(dtype="int64", shape=source.shape, native=True, distinct=True))
    array = layout.over(np.zeros(layout.nbytes, np.uint8))
    array[...] = numbered
    chunks = _layout.chunked(array, itemsize, chunk_nbytes)
    gathered = np.full(source.size, -1)
    for index in range(chunks.count):
        offset, part = chunks[index]
        assert 0 < part.size * itemsize <= chunk_nbytes
        assert offset % itemsize == 0
        start = offset // itemsize
        assert (gathered[start : start + part.size] == -1).all()
        gathered[start : start + part.size] = part.ravel()
    assert_same_bits(gathered, numbered.ravel())


@relaxed
@given(strategies.host_arrays())
def test_merging_keeps_elements_order_and_memory(source: Any) -> None:
    flat = _layout.merged(source)
    assert flat.ndim <= max(source.ndim, 1)
    assert_same_bits(flat.ravel(), source.ravel())
    if source.size:
        assert np.shares_memory(flat, source)


def test_contiguous_runs_become_one_axis() -> None:
    assert _layout.merged(np.zeros((3, 4, 5))).shape == (60,)
    assert _layout.merged(np.zeros((3, 4, 10))[:, :, ::2]).shape == (60,)
    assert _layout.merged(np.zeros((6, 4, 5))[::2]).shape == (3, 20)
    assert _layout.merged(np.zeros(())).shape == (1,)


@relaxed
@given(strategies.host_arrays())
def test_the_dense_order_makes_an_array_contiguous_or_there_is_none(source: Any) -> None:
    order = _layout.dense_order(source)
    if order is not None:
        assert sorted(order) == list(range(source.ndim))
        assert source.transpose(order).flags.c_contiguous


def test_transposed_and_fortran_arrays_have_a_dense_order() -> None:
    x = np.zeros((3, 4, 5))
    assert _layout.dense_order(x.T) == (2, 1, 0)
    assert _layout.dense_order(x.transpose(1, 2, 0)) == (2, 0, 1)
    assert _layout.dense_order(x[::2]) is None
    assert _layout.dense_order(x[::-1]) is None


@relaxed
@given(strategies.host_arrays())
def test_contiguity_agrees_with_numpy(source: Any) -> None:
    info = ArrayInfo(0, source.shape, source.strides, source.dtype, xl.get_device("cpu"), True)
    assert info.is_c_contiguous == source.flags.c_contiguous


@given(data=st.data(), is_compiled=st.booleans(), is_read_only=st.booleans())
def test_the_address_of_any_array_is_that_of_its_first_element(
    data: st.DataObject, is_compiled: bool, is_read_only: bool
) -> None:
    layout = data.draw(strategies.layouts(distinct=True))
    array = layout.over(np.zeros(layout.nbytes, np.uint8))
    array.flags.writeable = not is_read_only
    with pytest.MonkeyPatch.context() as patch:
        if not is_compiled:
            patch.setattr(_layout, "_addresser", lambda: None)
        assert _layout.address(array) == array.ctypes.data


def test_no_chunks_are_planned_for_an_empty_array() -> None:
    for columns in (0, 1):
        transfer = xl.to_device_async(np.zeros((3, columns)), backend="sim")
        transfer.result()  # or it would be left to the next test
        assert (transfer.stats.path == "empty") == (columns == 0)
