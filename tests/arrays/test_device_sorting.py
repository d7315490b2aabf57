"""Sorting by a vendor's library, held by a double of its binding."""

from __future__ import annotations

import functools
import hashlib
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.arrays.conftest import Space, opened, same
from xferlib.backends.cuda.libraries import CudaSorting, load_compute
from xferlib.errors import KernelError, UnsupportedError
from xferlib.kernels import cuda_engine as cache
from xferlib.testing import configured, load_backend

DTYPES = ("bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64", "complex64")


LARGE = 1 << 14
"""The elements from which the library is compiled for a sort."""


@pytest.fixture
def vendor(plugins: object, tmp_path: Path) -> Iterator[Space]:
    """A device whose library has been compiled for nothing yet."""
    backend: Any = load_backend("vendor")
    backend.sorting = CudaSorting(backend, backend.compute)
    backend.compute.compiled.clear()
    calls().clear()
    with configured(cache_dir=tmp_path):
        yield from opened("vendor")


@functools.cache
def compiled_library() -> CudaSorting:
    """The library of the same device, compiled for all sorts."""
    backend: Any = load_backend("vendor")
    backend.sorting = found = CudaSorting(backend, backend.compute)
    with xl.use_backend("vendor"):
        compile_all(backend.namespace())
    return found


def compile_all(xp: Any) -> None:
    """Sort a large array of each dtype, in each way."""
    for dtype in DTYPES[:-1]:
        for shape in ((LARGE,), (2, LARGE)):
            x = xl.to_device(np.zeros(shape, dtype))
            for descending in (False, True):
                xp.sort(x, descending=descending)
                xp.argsort(x, descending=descending)


def calls() -> list[tuple[str, int, bool]]:
    backend: Any = load_backend("vendor")
    found: list[tuple[str, int, bool]] = backend.compute.calls
    return found


def compiled() -> list[tuple[str, str | None, int]]:
    backend: Any = load_backend("vendor")
    found: list[tuple[str, str | None, int]] = backend.compute.compiled
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


SHAPES = st.sampled_from([(1,), (7,), (300,), (2, 300), (300, 3), (2, 257, 2), (3, 1, 260), (5, 6)])


@settings(max_examples=60)
@given(dtype=st.sampled_from(DTYPES), shape=SHAPES, data=st.data())
@pytest.mark.parametrize("is_compiled", [True, False])
def test_it_sorts_as_numpy_does(
    plugins: object, is_compiled: bool, dtype: str, shape: tuple[int, ...], data: st.DataObject
) -> None:
    axis, is_descending = data.draw(st.integers(-len(shape), len(shape) - 1)), data.draw(st.booleans())
    x = numbers(dtype, shape, data.draw(st.integers(0, 9)))
    backend: Any = load_backend("vendor")
    backend.sorting = compiled_library() if is_compiled else CudaSorting(backend, backend.compute)
    with configured(cache_dir=os.devnull), xl.use_backend("vendor"):
        check_sorts(x, axis, data.draw(st.sampled_from([1, -1, 2])), is_descending=is_descending)


@pytest.mark.parametrize("name", ["vendor", "pycuda"])
def test_large_arrays_are_sorted_by_the_library(plugins: object, name: str) -> None:
    if not xl.available_backends()[name].is_available or load_backend(name).sorting is None:
        pytest.skip("there is no library that sorts")
    with xl.use_backend(name):
        for shape in ((3 * LARGE,), (3, LARGE + 1)):
            for is_descending in (False, True):
                check_sorts(numbers("float32", shape, shape[0]), -1, is_descending=is_descending)


# --- machine code


def test_short_arrays_wait_for_no_compiler(vendor: Space) -> None:
    x = numbers("float32", (LARGE,), 0)
    same(vendor.get(vendor.xp.sort(vendor.put(x[1:]))), np.sort(x[1:]))
    assert not compiled()
    same(vendor.get(vendor.xp.sort(vendor.put(x))), np.sort(x))
    assert compiled() == [("<f4", None, 0)]
    calls().clear()
    vendor.xp.sort(vendor.put(x[:9]))
    assert calls() == [("float32", 9, False)]
    vendor.xp.argsort(vendor.put(x[:9]))  # which is another sort
    assert compiled() == [("<f4", None, 0)]


def test_machine_code_is_kept_on_disk(vendor: Space, tmp_path: Path) -> None:
    backend: Any = load_backend("vendor")
    x = numbers("int16", (2, LARGE), 0)
    for _ in range(2):
        same(vendor.get(vendor.xp.sort(vendor.put(x))), np.sort(x))
        assert compiled() == [("<i2", "<i4", 0), ("<u4", "<i4", 0)]
        assert len([*tmp_path.rglob("*.kernel")]) == 2
        backend.sorting = CudaSorting(backend, backend.compute)  # as in another process
    same(vendor.get(vendor.xp.sort(vendor.put(x[:, :300]))), np.sort(x[:, :300]))
    assert len(compiled()) == 2


def test_short_sorts_look_for_machine_code_once(vendor: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    backend: Any = load_backend("vendor")
    looks: list[str] = []
    read = cache.read

    def look(name: str) -> bytes | None:
        looks.append(name)
        return read(name)

    monkeypatch.setattr(cache, "read", look)
    x = numbers("float32", (LARGE,), 1)
    for size in (9, 10, 300):
        same(vendor.get(vendor.xp.sort(vendor.put(x[:size]))), np.sort(x[:size]))
    assert len(looks) == 1
    same(vendor.get(vendor.xp.sort(vendor.put(x))), np.sort(x))
    assert looks == looks[:1] * 2
    backend.sorting = CudaSorting(backend, backend.compute)  # as in another process
    calls().clear()
    same(vendor.get(vendor.xp.sort(vendor.put(x[:9]))), np.sort(x[:9]))
    assert calls() == [("float32", 9, False)]
    assert len(compiled()) == 1


@pytest.mark.parametrize(("kind", "told"), [(ValueError, KernelError), (RuntimeError, UnsupportedError)])
def test_code_that_the_library_refuses_is_compiled_again(
    vendor: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception], told: type[Exception]
) -> None:
    backend: Any = load_backend("vendor")
    monkeypatch.setattr(backend.compute, "refusal", kind)
    with monkeypatch.context() as patch:
        patch.setattr(backend.compute, "serialize", lambda made: b"of another version")
        with pytest.raises(told, match="sort: cuda-cccl failed with serialization blob: bad magic"):
            vendor.xp.sort(vendor.put(np.ones(LARGE)))
    assert not [*tmp_path.rglob("*.kernel")]
    vendor.xp.sort(vendor.put(np.ones(LARGE)))
    (path,) = tmp_path.rglob("*.kernel")
    good = path.read_bytes()
    payload = b"of another version"
    path.write_bytes(good[: good.index(b"\n") + 1] + hashlib.sha256(payload).digest() + payload)
    for size in (9, LARGE):
        backend.sorting = CudaSorting(backend, backend.compute)
        same(vendor.get(vendor.xp.sort(vendor.put(np.ones(size)))), np.ones(size))
    assert path.read_bytes() == good
    assert len(compiled()) == 3


def test_each_thread_has_sorters_of_its_own(vendor: Space) -> None:
    x = numbers("float32", (LARGE,), 0)
    d = vendor.put(x)
    vendor.xp.sort(d)

    def work() -> Any:
        with xl.use_backend("vendor"):
            return vendor.get(vendor.xp.sort(d))

    with ThreadPoolExecutor(2) as threads:
        for found in [threads.submit(work) for _ in range(4)]:
            same(found.result(), np.sort(x))
    assert len(compiled()) == 1


def test_which_arrays_the_library_sorts(vendor: Space) -> None:
    compile_all(vendor.xp)
    for x, expected in (
        (np.ones(9, "float32"), [("float32", 9, False)]),
        (np.ones(9, "float16"), [("float32", 9, False)]),
        (np.ones(9, bool), [("uint8", 9, False)]),
        (np.ones((2, 300), "int8"), [("int8", 600, True), ("uint32", 600, True)]),
        (np.ones((300, 9), "int8"), []),
        (np.ones(9, "complex64"), []),
        (np.ones(0), []),
    ):
        calls().clear()
        vendor.xp.sort(vendor.put(x))
        assert calls() == expected


def test_sets_and_searches_are_sorted_by_it_too(vendor: Space) -> None:
    x = np.array([3, 1, 2, 3, 1, 1] * LARGE, "float64")
    d = vendor.put(x)
    same(vendor.get(vendor.xp.unique_all(d)), tuple(np.unique_all(x)))
    same(vendor.get(vendor.xp.isin(d, vendor.put(x[:2]))), np.isin(x, x[:2]))
    assert calls()


def test_a_library_that_fails_is_an_error(vendor: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise ValueError("no such key")

    backend: Any = load_backend("vendor")
    monkeypatch.setattr(backend.compute, "make_radix_sort", fail)
    with pytest.raises(KernelError, match="sort: cuda-cccl failed with no such key"):
        vendor.xp.sort(vendor.put(np.ones(LARGE)))


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
