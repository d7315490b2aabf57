"""PyCUDA's arrays as xferlib makes them: operators, methods and indexing are NumPy's."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.testing import assert_same_bits

pycuda = pytest.importorskip("pycuda.gpuarray")


@pytest.fixture(autouse=True)
def backend() -> Iterator[None]:
    with xl.use_backend("pycuda"):
        yield


def check(found: Any, expected: Any) -> None:
    assert_same_bits(np.asarray(xl.to_host(found)), np.asarray(expected))


x = np.arange(12, dtype=np.int32).reshape(3, 4)
y = np.linspace(0.5, 2, 4, dtype=np.float32)

_PAIRS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.lt,
          operator.ge, operator.eq, operator.ne]  # fmt: skip


@pytest.mark.parametrize("function", _PAIRS)
def test_operators_broadcast_and_promote(function: Any) -> None:
    d, e = xl.to_device(x), xl.to_device(y)
    with np.errstate(all="ignore"):
        for one, two, left, right in (
            (d, e, x, y), (d.T, d.T, x.T, x.T), (d, 2, x, 2), (2.5, d, 2.5, x), (np.float32(2), e, np.float32(2), y)
        ):  # fmt: skip
            check(function(one, two), function(left, right))


def test_bits_and_signs() -> None:
    d: Any = xl.to_device(x)
    for function in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
        check(function(d, 3), function(x, 3))
        check(function(3, d), function(3, x))
    check(~d, ~x)
    check(-d, -x)
    check(abs(-d), abs(-x))
    check(d**2, x**2)


def test_in_place() -> None:
    d, value = xl.to_device(y), y.copy()
    same = d
    for function in (operator.iadd, operator.imul, operator.isub, operator.itruediv):
        d, value = function(d, 1.5), function(value, np.float32(1.5))
    assert d is same
    check(d, value)
    with pytest.raises(TypeError, match="does not fit"):
        whole = xl.to_device(x)
        whole += 0.5
    d[1:3] += 1
    value[1:3] += 1
    check(d, value)


def test_methods_and_attributes() -> None:
    d: Any = xl.to_device(x)
    xp = xl.get_array_module(d)
    assert xp is d.__array_namespace__()
    for name in ("sum", "max", "min", "any", "all", "argmax", "prod"):
        check(getattr(d, name)(axis=1), getattr(x, name)(axis=1))
    check(d.mean(), x.mean())
    check(d.T, x.T)
    check(d.T.ravel(), x.T.ravel())
    check(d.reshape(2, 6), x.reshape(2, 6))
    check(d.astype("float64"), x.astype("float64"))
    check(d.copy(), x)
    check(d @ d.T, x @ x.T)
    check(d.dot(d.T), x.dot(x.T))
    check(d.reshape((4, 3), order="F"), x.reshape((4, 3), order="F"))
    check(d.ravel(order="F"), x.ravel(order="F"))
    assert_same_bits(d[:, ::2].get(), np.ascontiguousarray(x[:, ::2]))
    assert d.sum().item() == int(d.sum()) == x.sum()
    assert d.device is xl.device_of(d)
    assert d.to_device(d.device) is d
    assert bool(d.sum() > 5)
    with pytest.raises(ValueError, match="needs one element"):
        bool(d)


def test_indexing() -> None:
    d, value = xl.to_device(x), x.copy()
    check(d[1, ::2], x[1, ::2])
    check(d[:, None, -1], x[:, None, -1])
    check(d[xl.to_device(np.array([2, 0]))], x[[2, 0]])
    check(d[d > 5], x[x > 5])
    d[d > 5] = 0
    value[x > 5] = 0
    d[0] = xl.to_device(y)
    value[0] = y
    check(d, value)
    assert len(d) == 3


def test_pycuda_takes_them_and_they_take_pycudas() -> None:
    plain = pycuda.to_gpu(y)
    mine = xl.to_device(y)
    assert isinstance(mine, pycuda.GPUArray)
    check(mine + plain, y + y)
    check(plain.copy(), y)
    assert xl.get_array_module(plain) is xl.get_array_module(mine)
    check(xl.get_array_module(plain).add(plain, plain), y + y)
    assert_same_bits(mine.get(), y)
    assert np.isclose(float(pycuda.sum(mine).get()), y.sum())
    pycuda_min = pycuda.minimum(mine, plain)
    check(pycuda_min, y)


def test_on_another_stream() -> None:
    stream = xl.Stream()
    with stream:
        d = xl.to_device(y)
        e = (d * 2 + 1).sum()
        assert e.item() == (y * 2 + 1).sum()  # `get` waits for the stream
    stream.synchronize()
    check(e, (y * 2 + 1).sum())


def test_views_of_another_dtype_are_numpys() -> None:
    host = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    there: Any = xl.to_device(host)
    made: Any = xl.to_device
    for take in (lambda a: a, lambda a: a[::-1], lambda a: a[:, 1:2], lambda a: a[:, :, :1]):
        for dtype in ("int16", "float32", "uint8"):
            check(take(there).view(dtype), take(host).view(dtype))
    check(there[:, :, ::2][:, :, :1].view("int16"), host[:, :, ::2][:, :, :1].view("int16"))
    check(made(np.float32(1.5)).view("int32"), np.float32(1.5).view("int32"))
    check(made(np.zeros((0, 4), "int32")).view("int16"), np.zeros((0, 4), "int32").view("int16"))
    for wrong in (there[:, :, ::2], there.transpose(2, 1, 0)):
        with pytest.raises(ValueError, match="copy it first"):
            wrong.view("int16")
    with pytest.raises(ValueError, match="pad it first"):
        there[:, :, :3].copy().view("int64")


def address(d: Any) -> int:
    return int(d.gpudata)


def test_small_memory_is_used_again_once_its_last_view_is_gone() -> None:
    d: Any = xl.empty(900)
    first, part = address(d), d[3:5]
    del d
    kept = xl.empty(900)
    assert address(kept) != first
    del part
    assert address(xl.empty(899)) == first  # rounded up, it is as large


def test_addresses_are_numbers_that_pycuda_takes() -> None:
    driver = pytest.importorskip("pycuda.driver")
    d: Any = xl.to_device(x)
    host = np.empty_like(x)
    driver.memcpy_dtoh(host, d.gpudata)
    check(host, x)
    same: Any = pycuda.GPUArray(d.shape, d.dtype, gpudata=d.gpudata)
    del d
    xl.empty(x.shape, x.dtype)[...] = 7
    check(same.get(), x)
