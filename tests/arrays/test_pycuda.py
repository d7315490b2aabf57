"""PyCUDA's own arrays and functions, beside the arrays that xferlib gives them a namespace for."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.arrays.conftest import same
from tests.needed import need
from xferlib.errors import DeviceMemoryError
from xferlib.testing import assert_same_bits

X = np.arange(12, dtype="float32").reshape(3, 4)


@pytest.fixture
def gpuarray() -> Iterator[Any]:
    """PyCUDA's module, with its context current in this thread."""
    need("pycuda")
    with xl.use_backend("pycuda"):
        xl.zeros(1)
        yield pytest.importorskip("pycuda.gpuarray")


def test_what_xferlib_makes_is_a_gpuarray_of_its_own(gpuarray: Any) -> None:
    d: Any = xl.to_device(X)
    xp = xl.get_array_module(d)
    for each in (d, d + 1, d[1:], d.T, xp.zeros(3), xp.sum(d), xl.empty(3), d[d > 3]):
        assert isinstance(each, gpuarray.GPUArray)
        assert type(each) is type(d)
    assert (d.dtype, d.shape, d.ndim, d.size, d.nbytes, d.itemsize) == (X.dtype, (3, 4), 2, 12, 48, 4)
    assert d.flags.c_contiguous
    assert d.T.flags.f_contiguous
    assert repr(d) == repr(X)
    assert xl.device_of(d[1:, ::2]) is xl.device_of(d)


def test_pycudas_own_arrays_are_taken_everywhere(gpuarray: Any) -> None:
    theirs, ours = gpuarray.to_gpu(X), xl.to_device(X)
    xp = xl.get_array_module(theirs)
    assert xp is xl.get_array_module(ours)
    for found in (xp.add(theirs, ours), theirs + ours, ours + theirs, xp.add(theirs, theirs)):
        assert type(found) is type(ours)
        same(xl.to_host(found), X + X)
    for found in (xp.asarray(theirs), xp.flip(xp.flip(theirs)), xp.reshape(theirs, (3, 4))):
        assert type(found) is type(ours)
        same(xl.to_host(found), X)
    ours += theirs
    ours[0] = theirs[1]
    expected = X + X
    expected[0] = X[1]
    same(ours.get(), expected)
    same(xl.to_host(xp.sum(theirs, axis=0)), X.sum(axis=0))


def test_the_same_expression_that_pycuda_gets_wrong(gpuarray: Any) -> None:
    """Its operators take C and F order for each other, keep comparisons in the operand's dtype, and refuse views."""
    s = np.arange(9, dtype="float32").reshape(3, 3)
    d: Any = xl.to_device(s)
    same((d + d.T).get(), s + s.T)
    same((d < 3).get(), s < 3)
    same((d[:, ::2] * 2).get(), s[:, ::2] * 2)
    same(xl.to_host(xl.to_device(np.array([1, 2])) / 2), np.array([0.5, 1.0]))
    same((xl.to_device(np.float32(3)) < d).get(), np.float32(3) < s)
    same((np.float64(2) * d).get(), np.float64(2) * s)
    same((d + xl.to_device(s[0])).get(), s + s[0])


def test_get_and_set_wait_for_the_current_stream(gpuarray: Any) -> None:
    x = np.ones((1 << 20,), "float32")
    with xl.Stream():
        d: Any = xl.to_device(x)
        for _ in range(50):
            d = d + 1
        same(d.get(), x + 50)
        d.set(x)
        d += 1
        same(d[::2].get(), (x + 1)[::2])
        d.fill(7)
        same(d.get(), np.full_like(x, 7))


def test_memory_of_a_view_outlives_its_array(gpuarray: Any) -> None:
    part: Any = (xl.to_device(np.arange(1000)) + 1)[10:20]
    others = [xl.zeros(1000, "int64") for _ in range(8)]
    same(part.get(), np.arange(11, 21))
    del others


def test_a_view_used_on_another_stream_is_not_overwritten(gpuarray: Any) -> None:
    x = np.arange(1 << 20)
    one, two = xl.Stream(), xl.Stream()
    for number in range(8):
        with one:
            d = xl.to_device(x + number)
        one.synchronize()
        with two:
            total = d[::2] + d[1::2]
        del d
        with one:
            xl.zeros(1 << 20, "int64")
        two.synchronize()
        same(xl.to_host(total), (x + number)[::2] + (x + number)[1::2])


def test_pickles_and_views(gpuarray: Any) -> None:
    d: Any = xl.to_device(X)
    again = pickle.loads(pickle.dumps(d.T))
    assert type(again) is type(d)
    same(again.get(), X.T)
    same(d.view("int32").get(), X.view("int32"))
    assert type(d.view("int32")) is type(d)
    assert type(d._new_like_me()) is type(d)


def test_another_library_sees_the_memory(gpuarray: Any) -> None:
    d: Any = xl.to_device(X)
    described = d[:, 1:].__cuda_array_interface__
    assert described["shape"] == (3, 3)
    assert described["strides"] == (16, 4)
    assert described["data"][0] == d.ptr + 4
    with xl.Stream() as stream:
        assert d.__cuda_array_interface__["stream"] == stream.handle
    assert d.__cuda_array_interface__["stream"] == 1


def test_other_threads(gpuarray: Any) -> None:
    d: Any = xl.to_device(X)
    results: list[Any] = []

    def work() -> None:
        results.append((d @ d.T).get())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    same(results[0], X @ X.T)


def test_too_large_an_array_is_refused(gpuarray: Any) -> None:
    with pytest.raises(DeviceMemoryError, match="do not fit"):
        xl.get_array_module(xl.zeros(1)).empty((1 << 50,), dtype=np.dtype("uint8"))


def same_bits(found: Any, expected: Any) -> None:
    assert_same_bits(np.asarray(xl.to_host(found)), np.asarray(expected))


def test_views_of_another_dtype_are_numpys(gpuarray: Any) -> None:
    host = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    there: Any = xl.to_device(host)
    made: Any = xl.to_device
    for take in (lambda a: a, lambda a: a[::-1], lambda a: a[:, 1:2], lambda a: a[:, :, :1]):
        for dtype in ("int16", "float32", "uint8"):
            same_bits(take(there).view(dtype), take(host).view(dtype))
    same_bits(there[:, :, ::2][:, :, :1].view("int16"), host[:, :, ::2][:, :, :1].view("int16"))
    same_bits(made(np.float32(1.5)).view("int32"), np.float32(1.5).view("int32"))
    same_bits(made(np.zeros((0, 4), "int32")).view("int16"), np.zeros((0, 4), "int32").view("int16"))
    for wrong in (there[:, :, ::2], there.transpose(2, 1, 0)):
        with pytest.raises(ValueError, match="copy it first"):
            wrong.view("int16")
    with pytest.raises(ValueError, match="pad it first"):
        there[:, :, :3].copy().view("int64")


def address(d: Any) -> int:
    return int(d.gpudata)


def test_small_memory_is_used_again_once_its_last_view_is_gone(gpuarray: Any) -> None:
    d: Any = xl.empty(900)
    first, part = address(d), d[3:5]
    del d
    kept = xl.empty(900)
    assert address(kept) != first
    del part
    assert address(xl.empty(899)) == first  # rounded up, it is as large


def test_addresses_are_numbers_that_pycuda_takes(gpuarray: Any) -> None:
    driver = pytest.importorskip("pycuda.driver")
    d: Any = xl.to_device(X)
    host = np.empty_like(X)
    driver.memcpy_dtoh(host, d.gpudata)
    same_bits(host, X)
    same_memory: Any = gpuarray.GPUArray(d.shape, d.dtype, gpudata=d.gpudata)
    del d
    xl.empty(X.shape, X.dtype)[...] = 7
    same_bits(same_memory.get(), X)


# --- PyCUDA's functions on these arrays


def test_pycudas_functions_take_the_arrays(gpuarray: Any) -> None:
    cumath = pytest.importorskip("pycuda.cumath")
    d = xl.to_device(X)
    same(gpuarray.sum(d).get(), X.sum())
    np.testing.assert_allclose(cumath.exp(d / 12).get(), np.exp(X / 12), rtol=1e-6)
    same(gpuarray.maximum(d, d).get(), X)
    assert float(gpuarray.dot(d, d).get()) == float((X * X).sum())
    doubled = gpuarray.empty_like(d)
    kernel = pytest.importorskip("pycuda.elementwise").ElementwiseKernel("float *x, float *y", "y[i] = 2 * x[i]")
    kernel(d, doubled)
    same(xl.to_host(doubled), 2 * X)
    same(gpuarray.concatenate([d, d]).get(), np.concatenate([X, X]))
