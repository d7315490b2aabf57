"""Layouts: chunks cover each element once, and merged axes reach the same memory in the same order."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.processes import printed
from xferlib.backends.base import ArrayInfo
from xferlib.testing import assert_same_bits, configured, forced, native, strategies

HERE = "fake:sim:0"
relaxed = settings(max_examples=300, deadline=None, derandomize=True, database=None)
on_fake = settings(relaxed, suppress_health_check=[HealthCheck.function_scoped_fixture])


@contextmanager
def copies_of(fake: Any) -> Iterator[list[tuple[int, int, int]]]:
    """Destination, source and bytes of each copy that is enqueued in a block, in which Python stages."""
    seen: list[tuple[int, int, int]] = []
    own = fake.copy

    def noted(dst: int, src: int, nbytes: int, **options: Any) -> None:
        seen.append((dst, src, nbytes))
        own(dst, src, nbytes, **options)

    with pytest.MonkeyPatch.context() as patched, configured(native="off"):
        patched.setattr(fake, "copy", noted)
        yield seen


@on_fake
@given(data=st.data(), chunk_nbytes=st.integers(1, 400), dtype=st.sampled_from(["int8", "int16", "float32", "float64"]))
def test_chunks_cover_every_element_once_and_fit(fake: Any, data: st.DataObject, chunk_nbytes: int, dtype: str) -> None:
    shape = data.draw(strategies.shapes())
    assume(math.prod(shape))
    itemsize = np.dtype(dtype).itemsize
    chunk_nbytes = max(chunk_nbytes, itemsize)
    layouts = strategies.layouts(dtype="int64", shape=shape, native=True, distinct=True)
    source, out = (each.over(np.zeros(each.nbytes, np.uint8)) for each in (data.draw(layouts), data.draw(layouts)))
    source[...] = np.arange(source.size).reshape(shape) % 100
    with forced("staged", chunk_nbytes=chunk_nbytes):
        with copies_of(fake) as sent:
            d = xl.to_device(source, device=HERE, dtype=dtype)
        with copies_of(fake) as fetched:
            assert xl.to_host(d, out=out, dtype="int64") is out
    assert_same_bits(out, source)  # which a copy of the target would not have reached
    assert_same_bits(xl.to_host(d), source.astype(dtype))
    start = fake.view(d).pointer
    for spans in ([(dst, nbytes) for dst, _, nbytes in sent], [(src, nbytes) for _, src, nbytes in fetched]):
        position = start
        for at, nbytes in sorted(spans):
            assert at == position
            assert 0 < nbytes <= chunk_nbytes
            assert nbytes % itemsize == 0
            position += nbytes
        assert position == start + source.size * itemsize


@pytest.mark.parametrize(
    ("make", "elements", "count"),
    [
        (lambda x: x[:, :, ::2], 60, 1),
        (lambda x: x[:, :, ::2], 7, 9),
        (lambda x: x[::2, :, :5], 7, 8),
        (lambda x: x[::2], 40, 2),
        (lambda x: x[::2], 15, 6),
        (lambda x: x[:1, :1, :1], 1, 1),
    ],
)
def test_axes_that_advance_together_are_cut_as_one(fake: Any, make: Any, elements: int, count: int) -> None:
    x = make(np.arange(3 * 4 * 10, dtype=np.int64).reshape(3, 4, 10))
    with forced("staged", chunk_nbytes=8 * elements), copies_of(fake) as sent:
        d = xl.to_device(x, device=HERE)
    assert len(sent) == count
    assert_same_bits(xl.to_host(d), x)


@on_fake
@given(strategies.host_arrays())
def test_a_dense_array_in_any_order_of_axes_is_sent_as_it_lies(fake: Any, source: Any) -> None:
    """And no other one is."""
    with forced("permuted"):
        path = xl.explain(source, device=HERE).path
        assert_same_bits(xl.to_host(xl.to_device(source, device=HERE)), source)
    orders = itertools.permutations(range(source.ndim))
    is_dense = any(source.transpose(order).flags.c_contiguous for order in orders)
    is_reordered = source.size and source.dtype.isnative and is_dense and not source.flags.c_contiguous
    assert (path == "permuted") == is_reordered


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda x: x.T, "permuted"),
        (lambda x: x.transpose(1, 2, 0), "permuted"),
        (lambda x: x[::2].T, "staged"),
        (lambda x: x[::-1], "staged"),
    ],
)
def test_transposed_and_fortran_arrays_are_put_in_order_on_the_device(fake: Any, make: Any, path: str) -> None:
    x = make(np.arange(60_000.0).reshape(30, 40, 50))
    with forced("permuted"):
        assert xl.explain(x, device=HERE).path == path
        assert_same_bits(xl.to_host(xl.to_device(x, device=HERE)), x)


@relaxed
@given(strategies.host_arrays())
def test_contiguity_agrees_with_numpy(source: Any) -> None:
    info = ArrayInfo(0, source.shape, source.strides, source.dtype, xl.get_device("cpu"), True)
    assert info.is_c_contiguous == source.flags.c_contiguous


ADDRESSES = """
import numpy as np, xferlib as xl
from xferlib.testing import assert_same_bits, native
x = np.arange(24.0).reshape(2, 3, 4)
fixed = x.copy()
fixed.flags.writeable = False
for each in (x, x[1:], x[:, 1:], x.T, x[::-1, ::-1], x[..., ::-2], fixed, fixed[1:], fixed[::-1], x[1, 1, 1], x[:0]):
    d = xl.to_device(each, backend="sim")
    assert_same_bits(xl.to_host(d), each)
    out = np.zeros(each.shape)[::-1] if each.ndim else np.zeros(())
    assert_same_bits(xl.to_host(d, out=out), each)
print(native().is_on)
"""


@pytest.mark.parametrize("setting", ["on", "off"])
def test_memory_is_read_and_written_from_the_first_element_on(setting: str) -> None:
    """In a process of its own: how addresses are found is settled by the first array."""
    found = printed("-c", ADDRESSES, XFERLIB_NATIVE=setting)
    with configured(native="on"):
        is_on = setting == "on" and native().is_on
    assert found.split() == [str(is_on)]


def test_no_chunks_are_planned_for_an_empty_array() -> None:
    for columns in (0, 1):
        transfer = xl.to_device_async(np.zeros((3, columns)), backend="sim")
        transfer.result()  # or it would be left to the next test
        assert (transfer.stats.path == "empty") == (columns == 0)
