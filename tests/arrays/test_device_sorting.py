"""Sorting by a vendor's library, held by a double of its binding."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.arrays.conftest import Space, opened, same
from xferlib.backends.cuda.sorting import load_compute
from xferlib.errors import KernelError
from xferlib.testing import backend_named

DTYPES = ("bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "complex64")


@pytest.fixture
def vendor(plugins: object) -> Iterator[Space]:
    calls().clear()
    yield from opened("vendor")


def calls() -> list[tuple[str, int, bool]]:
    backend: Any = backend_named("vendor")
    found: list[tuple[str, int, bool]] = backend.compute.calls
    return found


def numbers(dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    """Few different ones, with NaN, zeros of both signs and infinities among them."""
    x = np.random.default_rng(seed).integers(-3, 4, shape)
    if dtype in ("bool", "uint16", "uint64"):
        return np.abs(x).astype(dtype)
    found = x.astype(dtype)
    if found.dtype.kind == "f":
        flat = found.reshape(-1)
        special = np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf], dtype)
        flat[::3] = np.random.default_rng(seed).choice(special, len(flat[::3]))
    return found


def reversed_sort(x: Any, axis: int) -> tuple[Any, Any]:
    """The standard's descending order, in which equal elements keep theirs."""
    moved = np.moveaxis(x, axis, -1)
    places = x.shape[axis] - 1 - np.argsort(moved[..., ::-1], axis=-1, kind="stable")[..., ::-1]
    found = np.take_along_axis(moved, places, axis=-1)
    return np.moveaxis(found, -1, axis), np.moveaxis(places, -1, axis)


@settings(max_examples=60)
@given(data=st.data())
@pytest.mark.parametrize("name", ["vendor", "pycuda"])
def test_it_sorts_as_numpy_does(plugins: object, name: str, data: st.DataObject) -> None:
    if not xl.available_backends()[name].is_available or backend_named(name).sorting is None:
        pytest.skip("there is no library that sorts")
    dtype = data.draw(st.sampled_from(DTYPES))
    shape = data.draw(st.sampled_from([(1,), (7,), (300,), (2, 300), (300, 3), (2, 257, 2), (3, 1, 260), (5, 6)]))
    axis, is_descending = data.draw(st.integers(-len(shape), len(shape) - 1)), data.draw(st.booleans())
    x = numbers(dtype, shape, data.draw(st.integers(0, 9)))
    step = data.draw(st.sampled_from([1, -1, 2]))
    with xl.use_backend(name):
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


def test_which_arrays_the_library_sorts(vendor: Space) -> None:
    for x, expected in (
        (np.ones(9, "float32"), [("float32", 9, False)]),
        (np.ones(9, "float16"), [("float32", 9, False)]),
        (np.ones(9, bool), [("uint8", 9, False)]),
        (np.ones((2, 300), "int16"), [("int16", 600, True), ("uint32", 600, True)]),
        (np.ones((300, 9), "int16"), []),
        (np.ones(9, "complex64"), []),
        (np.ones(0), []),
    ):
        calls().clear()
        vendor.xp.sort(vendor.put(x))
        assert calls() == expected


def test_sets_and_searches_are_sorted_by_it_too(vendor: Space) -> None:
    x = np.array([3, 1, 2, 3, 1, 1], "float64")
    d = vendor.put(x)
    same(vendor.get(vendor.xp.unique_all(d)), tuple(np.unique_all(x)))
    same(vendor.get(vendor.xp.isin(d, vendor.put(x[:2]))), np.isin(x, x[:2]))
    assert calls()


def test_a_library_that_fails_is_an_error(vendor: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise ValueError("no such key")

    backend: Any = backend_named("vendor")
    monkeypatch.setattr(backend.compute, "make_radix_sort", fail)
    with pytest.raises(KernelError, match="sort: cuda-cccl failed with no such key"):
        vendor.xp.sort(vendor.put(np.ones(3)))


def test_a_package_without_its_library_is_none() -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    def unfit(name: str) -> Any:
        raise RuntimeError("libnvJitLink.so was not found")

    def warned(name: str) -> Any:
        warnings.warn("bindings not available", RuntimeWarning, stacklevel=1)
        return object()

    assert load_compute(missing) is load_compute(unfit) is load_compute(warned) is None
    assert load_compute(lambda name: object()) is None  # as on a machine without a driver
