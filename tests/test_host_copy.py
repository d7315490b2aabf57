"""Copies between host arrays that are too large for one step: by several threads, and on huge pages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from xferlib.testing import advised, assert_same_bits, forced, in_python

PAGE = 4096
ROWS, COLUMNS = 1031, 769  # 3 MiB of float32: no row and no part is a multiple of a line of the cache


def _filled(dtype: str) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(7)
    values = rng.standard_normal((ROWS, COLUMNS)) * 300
    values[::97, ::89] = np.nan
    with np.errstate(invalid="ignore"):
        return values.astype(dtype)


def _converted(values: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """The values that arrive: floats saturate to integers, and NaN is 0."""
    if values.dtype.kind == "f" and np.dtype(dtype).kind == "i":
        limits = np.iinfo(dtype)
        values = np.nan_to_num(values.astype("float64"), nan=0.0).clip(limits.min, limits.max)
    return values.astype(dtype)


FORMS = {
    "in C order": lambda a: a,
    "transposed": lambda a: a.T,
    "reversed": lambda a: a[::-1, ::-1],
    "every second column": lambda a: a[:, ::2],
    "the other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "not aligned": lambda a: np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(a.dtype).reshape(a.shape),
}


@pytest.mark.parametrize("name", ["numpy", "torch"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "dtypes", [("float32", "float32"), ("float16", "float64"), ("float32", "int16"), ("bool", "float32")]
)
def test_large_arrays_of_any_form_are_copied_by_several_threads(name: str, form: str, dtypes: tuple[str, str]) -> None:
    pytest.importorskip(name)
    given, wanted = dtypes
    source = FORMS[form](_filled(given))
    expected = _converted(source, wanted)
    strided = np.zeros((*source.shape, 2), wanted)[..., 0]
    with xl.use_backend(name), forced(None, helpers=2):
        sent = xl.to_device(source, device="cpu", dtype=wanted)
        assert_same_bits(xl.to_host(sent), expected)
        assert_same_bits(xl.to_host(sent, out=strided), expected)
        there = xl.zeros(source.shape, wanted, device="cpu")
        xl.to_device(source, out=there, dtype=wanted)
        assert_same_bits(xl.to_host(there), expected)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_arrays_in_any_two_orders_of_axes_are_copied(data: st.DataObject) -> None:
    extents = data.draw(st.lists(st.sampled_from([1, 2, 3, 7, 40]), min_size=1, max_size=4))
    given_, wanted = data.draw(st.tuples(*[st.sampled_from(["float32", "uint8", "int64", "float64"])] * 2))
    axes = range(len(extents))

    def made(dtype: str) -> np.ndarray[Any, Any]:
        order = data.draw(st.permutations(axes))
        return np.zeros([extents[axis] for axis in order], dtype).transpose(np.argsort(order))

    source, out, swapped = made(given_), made(wanted), made(given_)
    source[...] = np.random.default_rng(1).integers(0, 200, source.shape)
    swapped = swapped.astype(swapped.dtype.newbyteorder())
    swapped[...] = source
    gaps = np.repeat(source, 2, axis=0)[::2]
    for call in (xl.to_host, in_python(xl.to_host)):
        for each in (source, swapped, gaps, source[::-1]):
            out[...] = 0
            with xl.use_backend("numpy"):
                assert call(each, out=out, dtype=wanted) is out
            assert_same_bits(out, each.astype(wanted))


def test_overlapping_memory_is_read_before_it_is_written() -> None:
    base = np.arange(1 << 20, dtype=np.float32)
    expected = base[::-1].copy()
    with xl.use_backend("numpy"):
        xl.to_device(base[::-1], out=base)
    assert_same_bits(base, expected)


@pytest.mark.parametrize(("nbytes", "is_advised"), [(4 << 20, False), (16 << 20, True)])
def test_a_large_new_tensor_lies_on_huge_pages(nbytes: int, is_advised: bool) -> None:
    pytest.importorskip("torch")
    x = np.ones(nbytes, np.uint8)
    with advised() as advice, xl.use_backend("torch"):
        xl.to_device(x, device="cpu")
    assert [name for name, *_ in advice] == ["MADV_HUGEPAGE"] * is_advised


@given(st.integers(0, 5000), st.integers(0, 80), st.integers(0, 80), st.integers(0, 255))
def test_bytes_arrive_wherever_the_two_ends_lie_in_a_page(size: int, read: int, written: int, value: int) -> None:
    """Some processors copy slowly where the one is a few bytes behind the other, so that case has a loop of its own."""
    source, target = (np.zeros(4 * PAGE, "uint8") for _ in range(2))
    starts = [-each.__array_interface__["data"][0] % PAGE + PAGE for each in (source, target)]
    x = source[starts[0] + read : starts[0] + read + size]
    x[:] = (np.arange(size) * 7 + value).astype("uint8")
    out = target[starts[1] + written : starts[1] + written + size]
    with xl.use_backend("numpy"):
        xl.to_device(x, out=out)
    assert out.tobytes() == x.tobytes()
    assert np.count_nonzero(target) == np.count_nonzero(x)


@pytest.mark.parametrize("count", [0, 10, 1_000_000])
def test_a_dtype_keeps_what_a_program_has_noted_in_it(count: int) -> None:
    dtype = np.dtype("float32", metadata={"unit": "m"})
    x = np.ones((count, 2), dtype)
    with xl.use_backend("numpy"):
        for source in (x, x.T, x[:, ::2]):
            for result in (xl.to_device(source), xl.to_host(source)):
                assert dict(result.dtype.metadata or {}) == {"unit": "m"}
