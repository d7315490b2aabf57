"""Conversion on the host: equal dtypes keep their bits, floats saturate, in any layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.sizes import some
from xferlib.errors import UnsupportedDTypeError
from xferlib.testing import assert_same_bits, strategies
from xferlib.testing.conformance import convert_saturating

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]


def copy_into(target: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> None:
    """Copy on the CPU, converted."""
    assert xl.to_device(source, out=target, dtype=target.dtype) is target


relaxed = settings(max_examples=150, deadline=None, derandomize=True, database=None)


@relaxed
@given(st.data())
def test_equal_dtypes_keep_every_bit_in_any_layout(data: st.DataObject) -> None:
    source = data.draw(strategies.host_arrays())
    layout = data.draw(
        strategies.layouts(dtype=source.dtype.newbyteorder("="), shape=source.shape, distinct=True, native=True)
    )
    target = layout.over(np.zeros(layout.nbytes, np.uint8))
    copy_into(target, source)
    assert_same_bits(target, source)


@relaxed
@given(st.data(), st.sampled_from(INTEGERS), st.sampled_from(FLOATS))
def test_floats_saturate_to_integers_in_any_layout(data: st.DataObject, target: str, source: str) -> None:
    values = data.draw(strategies.host_arrays(dtype=source))
    layout = data.draw(strategies.layouts(dtype=target, shape=values.shape, distinct=True, native=True))
    out = layout.over(np.zeros(layout.nbytes, np.uint8))
    copy_into(out, values)
    assert_same_bits(out, convert_saturating(values, np.dtype(target)))


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FLOATS)
def test_saturation_is_exact_at_the_ends_of_the_range(source: str, target: str) -> None:
    limits, kind = np.iinfo(target), np.dtype(source).type
    with np.errstate(over="ignore"):
        ends = [kind(float(end)) for end in (limits.min, limits.max)]
    near = [np.nextafter(end, kind(sign * np.inf)) for end in ends for sign in (-1, 1)]
    small = [kind(x) for x in (0.5, -0.5, -0.0, 0.99, -0.99, 1.5, -1.5, np.inf, -np.inf, np.nan)]
    values = np.array([*ends, *near, *small], source)
    out = np.empty(values.shape, target)
    copy_into(out, values)
    assert_same_bits(out, convert_saturating(values, np.dtype(target)))


@pytest.mark.parametrize("target", ["int8", "uint16", "int32", "uint64"])
def test_every_float16_saturates_exactly(target: str) -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    out = np.empty(values.shape, target)
    copy_into(out, values)
    assert_same_bits(out, convert_saturating(values, np.dtype(target)))


def test_blocks_of_a_large_strided_array_are_all_converted() -> None:
    values = np.linspace(-300, 300, 400_000).reshape(500, 800)[::-1, ::2]
    out = np.empty(values.shape[::-1], np.int8).T
    copy_into(out, values)
    assert_same_bits(out, np.clip(np.trunc(values), -128, 127).astype(np.int8))


def test_complex_does_not_become_real_unasked() -> None:
    for target in ("float64", "int8"):
        with pytest.raises(UnsupportedDTypeError, match="imaginary"):
            xl.to_device(np.zeros(1, "complex64"), dtype=target, backend="numpy")
    xl.to_device(np.zeros(1, "complex64"), dtype="complex128", backend="numpy")
    xl.to_device(np.zeros(1, "float32"), dtype="complex64", backend="numpy")
    xl.to_device(np.zeros(1, "complex64"), dtype="bool", backend="numpy")


def _special(dtype: str) -> np.ndarray[Any, Any]:
    """A dtype's limits, halves between integers, and for floats NaN and infinities."""
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return np.array([info.min, info.min + 1, 0, 1, 3, info.max // 2, info.max - 1, info.max], dtype)
    ends = [sign * 2.0**bits for bits in (7, 8, 15, 16, 31, 32, 63, 64) for sign in (-1, 1)]
    with np.errstate(over="ignore"):
        exact = np.array([*ends, 0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 65504.0, 65520.0, 6e-8, np.inf, -np.inf], dtype)
        near = [np.nextafter(exact, exact.dtype.type(way)) for way in (np.inf, -np.inf)]
    return np.concatenate([exact, *near, np.array([np.nan, 0.1], dtype)])


@pytest.mark.parametrize("source", ["bool", *INTEGERS, *FLOATS])
def test_every_pair_of_dtypes_has_the_same_bits_everywhere(backend: str, source: str) -> None:
    """Of sizes that the device converts, whichever side is the wider one, in order and transposed."""
    special = _special(source)
    chosen = np.random.default_rng(11).integers(0, special.size, (320, 500))
    values = special[chosen]
    sent = xl.to_device(values)
    for target in some(["bool", *INTEGERS, *FLOATS], 2, source):
        expected = convert_saturating(special, np.dtype(target))[chosen]
        is_nan = expected != expected
        for found in (
            xl.to_host(xl.to_device(values, dtype=target)),
            xl.to_host(xl.to_device(values.T, dtype=target)).T,
            xl.to_host(xl.to_device(values, out=xl.empty(values.shape, target), dtype=target)),
            xl.to_host(sent, dtype=target),
            xl.to_host(sent, out=np.empty((500, 320), target).T, dtype=target),
        ):
            assert_same_bits(np.where(is_nan, expected, found), expected)
            assert (found[is_nan] != found[is_nan]).all()
