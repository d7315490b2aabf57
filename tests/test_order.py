"""Orders of elements, views as another dtype, and arrays over memory that another library owns."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import xferlib as xl
from xferlib.errors import ArgumentError, LayoutError, UnsupportedError
from xferlib.testing import assert_same_bits, load_backend

SHAPES = [(), (5,), (3, 4), (2, 3, 4), (0, 3), (1, 7, 1)]


def _info(array: Any) -> Any:
    return load_backend(xl.device_of(array).backend).view(array)


def _is_fortran(array: Any) -> bool:
    info = _info(array)
    step = info.dtype.itemsize
    for extent, stride in zip(info.shape, info.strides, strict=True):
        if extent > 1 and stride != step and info.size:
            return False
        step *= extent
    return True


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_new_arrays_are_in_the_order_asked_for(backend: str, shape: tuple[int, ...]) -> None:
    for make in (xl.empty, xl.zeros, xl.ones, lambda n, **options: xl.full(n, 3.0, **options)):
        assert _is_fortran(make(shape, order="F"))
        assert _info(make(shape, order="F")).shape == shape
        assert _info(make(shape, order="C")).is_c_contiguous
    assert_same_bits(xl.to_host(xl.full(shape, 3.0, order="F")), np.full(shape, 3.0))


@pytest.mark.parametrize("shape", SHAPES)
def test_an_array_like_another_is_in_the_order_that_numpy_gives_it(backend: str, shape: tuple[int, ...]) -> None:
    for order in ("C", "F"):
        host = np.ones(shape, "float32", order=order)
        like = xl.full(shape, 1, "float32", order=order)
        for name, values in (("empty_like", ()), ("zeros_like", ()), ("ones_like", ()), ("full_like", (2,))):
            made, expected = getattr(xl, name)(like, *values, dtype="float64"), getattr(np, name)(host, *values)
            assert _is_fortran(made) == expected.flags.f_contiguous
            assert _info(made).is_c_contiguous == expected.flags.c_contiguous
            if name != "empty_like":
                assert_same_bits(xl.to_host(made), expected.astype("float64"))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("source", ["C", "F"])
def test_a_transfer_arrives_in_the_order_asked_for(backend: str, shape: tuple[int, ...], source: str) -> None:
    x = np.asarray(np.arange(np.prod(shape, dtype=int)).reshape(shape), dtype=np.float32, order=source)  # type: ignore[call-overload]
    stream = xl.Stream()
    for dtype, on in ((None, None), ("float64", None), (None, stream)):
        d = xl.to_device(x, order="F", dtype=dtype, stream=on)
        stream.synchronize()
        assert _is_fortran(d)
        assert_same_bits(xl.to_host(d), x.astype(dtype or np.float32))
    if x.size:
        assert_same_bits(xl.to_host(xl.to_device(x.tolist(), order="F", dtype=np.float32)), x)


def test_a_device_array_is_reordered_on_the_device(backend: str) -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    d = xl.to_device(xl.to_device(x), order="F")
    assert _is_fortran(d)
    assert_same_bits(xl.to_host(d), x)


@pytest.mark.parametrize(
    "dtypes", [("float16", "float32"), ("float32", "float64"), ("int16", "int64"), ("float64", "float32")]
)
def test_a_result_in_another_order_and_dtype_is_that_of_numpy(backend: str, dtypes: tuple[str, str]) -> None:
    there, here = dtypes
    x = np.random.default_rng(5).integers(-900, 900, (33, 40, 6, 16)).astype(there)
    d = xl.to_device(x)
    for axes in ((3, 2, 1, 0), (1, 2, 3, 0), (0, 2, 1, 3)):
        out = np.zeros([x.shape[axis] for axis in axes], here).transpose(np.argsort(axes))
        xl.to_host(d, out=out, dtype=here)
        assert_same_bits(out, x.astype(here))
        out[...] = 0
        xl.to_host_async(d, out=out, dtype=here).result()
        assert_same_bits(out, x.astype(here))


def test_no_copy_is_made_of_what_is_there_in_that_order(backend: str) -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    c, f = xl.to_device(x), xl.to_device(x, order="F")
    for copy in (None, False):
        assert xl.to_device(f, order="F", copy=copy) is f
    assert _is_fortran(xl.to_device(c, order="F", copy=None))
    for sequence in ([1.0, 2.0], 3.0, np.float32(4)):  # a list is in every order, but never on a device
        sent = xl.to_device(sequence, order="F", copy=None)
        assert type(sent) is type(c)
        assert_same_bits(xl.to_host(sent), np.asarray(sequence))
        with pytest.raises(LayoutError, match="is not on"):
            xl.to_device(sequence, order="F", copy=False)
    with pytest.raises(LayoutError, match="not in Fortran order"):
        xl.to_device(c, order="F", copy=False)


def test_a_transfer_to_where_an_array_is_gives_the_array_itself(backend: str) -> None:
    d = xl.to_device(np.arange(3.0))
    for device in (None, xl.device_of(d), str(xl.device_of(d)), xl.get_device(d)):
        assert xl.to_device(d, device=device, copy=None) is d
    assert xl.to_device(d) is not d
    with xl.get_device(d):
        assert xl.device_of(xl.zeros(2)) is xl.device_of(d)


@pytest.mark.parametrize("order", ["K", "A", "c", "", None, 1])
def test_an_unknown_order_is_refused(backend: str, order: Any) -> None:
    for call in (xl.empty, xl.zeros, xl.ones, xl.to_device):
        with pytest.raises(ArgumentError, match=f"^{call.__name__}: order=.* is neither 'C' nor 'F'"):
            call(3, order=order)
    with pytest.raises(ArgumentError, match="^full: "):
        xl.full(3, 1.0, order=order)
    with pytest.raises(ArgumentError, match="out is given"):
        xl.to_device(np.zeros(3), out=xl.zeros(3), order="F")


# --- views as another dtype


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    hnp.arrays(np.uint8, st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([0, 3, 8, 16, 24]))),
    st.sampled_from(["uint8", "int16", "float32", "complex64", "complex128", "bool"]),
    st.sampled_from([np.s_[...], np.s_[::2], np.s_[..., ::2], np.s_[..., :8], np.s_[:, 0], np.s_[0:0]]),
)
def test_a_view_as_another_dtype_is_numpys(x: Any, dtype: str, key: Any) -> None:
    assume(x.shape[1] or key != np.s_[:, 0])
    host, device = x[key], xl.to_device(x, backend="sim")[key]
    try:
        expected = host.view(dtype)
    except ValueError:
        with pytest.raises(LayoutError, match="cannot be viewed"):
            device.view(dtype)
        return
    seen = device.view(dtype)
    assert (seen.shape, seen.dtype) == (expected.shape, expected.dtype)
    assert_same_bits(xl.to_host(seen), np.ascontiguousarray(expected))


def test_a_view_shares_its_memory() -> None:
    for name in ("sim", "pycuda"):
        if not xl.available_backends()[name].is_available:
            continue
        d: Any = xl.to_device(np.zeros((2, 4), np.float32), backend=name)
        d.view("uint32")[0, 1] = 0x3F800000
        assert xl.to_host(d).tolist() == [[0, 1, 0, 0], [0, 0, 0, 0]]
        assert xl.to_host(d.view(np.uint8)).shape == (2, 16)


# --- memory of other libraries


class _Memory:
    """The owner of memory in another library."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.pointer = _info(array).pointer


def test_an_array_over_foreign_memory_shares_it_and_keeps_its_owner(backend: str) -> None:
    if backend == "fake":
        with pytest.raises(UnsupportedError, match="foreign memory"):
            xl.array_over(4096, 3, np.float32, owner=None)
        return
    memory = _Memory(xl.to_device(np.arange(12, dtype=np.float32)))
    alive = weakref.ref(memory)
    array = xl.array_over(memory.pointer, (3, 4), np.float32, owner=memory)
    part = xl.array_over(memory.pointer + 16, (2,), "float32", owner=memory)
    assert xl.get_backend(array).name == backend
    assert _info(array).pointer == memory.pointer
    xl.to_device(np.full(2, 7, np.float32), out=part)
    del memory
    gc.collect()
    assert alive() is not None
    assert xl.to_host(array).tolist() == [[0, 1, 2, 3], [7, 7, 6, 7], [8, 9, 10, 11]]
    del array, part
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float64", "complex128"])
def test_every_dtype_lies_over_foreign_memory(backend: str, dtype: str) -> None:
    if backend == "fake":
        pytest.skip("it has no memory of others")
    x = np.arange(6).astype(dtype)
    d = xl.to_device(x)
    assert_same_bits(xl.to_host(xl.array_over(_info(d).pointer, 6, dtype, owner=d)), x)
    assert xl.to_host(xl.array_over(0, (0, 3), dtype, owner=None)).shape == (0, 3)


def test_what_is_no_address_is_refused(backend: str) -> None:
    for pointer in (None, -1, 0, 1.5, "0x10", True, 1 << 64):
        with pytest.raises(ArgumentError, match="is not an address"):
            xl.array_over(pointer, 3, np.float32, owner=None)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match="is not a multiple of the 4 bytes"):
        xl.array_over(4098, 3, np.float32, owner=None)


def test_the_simulator_knows_its_own_memory_alone() -> None:
    d = xl.to_device(np.zeros(4, np.float32), backend="sim")
    pointer = _info(d).pointer
    for address, device in ((pointer, "sim:1"), (4096, "sim:0"), (pointer + 4, "sim:0")):
        with pytest.raises(ArgumentError, match="are in no array of"):
            xl.array_over(address, 4, np.float32, owner=d, device=device)


@pytest.mark.parametrize("name", ["numpy", "sim"])
@pytest.mark.parametrize("shape", [(0,), (1, 0, 2), (3, 0)], ids=str)
def test_arrays_without_elements_have_numpys_strides(name: str, shape: tuple[int, ...]) -> None:
    x = np.empty(shape)
    with xl.use_backend(name):
        for order in ("C", "F"):
            for d in (xl.empty(shape, order=order), xl.to_device(x, order=order)):
                assert _info(d).strides == x.strides


@pytest.mark.parametrize("letter", ["l", "q", "L", "Q", ">q"])
def test_copies_and_views_tell_long_from_long_long(backend: str, letter: str) -> None:
    x = np.arange(6).reshape(2, 3).astype(letter)
    kind = x.dtype.newbyteorder("=")
    for part in (x, x.T, x[:, 1:]):
        for order in ("C", "F"):
            d = xl.to_device(part, order=order)
            assert_same_bits(xl.to_host(d), part.astype(kind))
            if backend in ("numpy", "sim"):  # torch has one integer of 64 bits
                assert (d.dtype.char, xl.to_host(d).dtype.char) == (kind.char, kind.char)
    assert xl.to_host(xl.to_device(x), dtype=kind).dtype.char == kind.char
    assert xl.to_host(xl.to_device(np.arange(6, dtype="int32")), dtype=kind).dtype.char == kind.char
