"""The namespace over xferlib's own kernels, on arrays of backends that have another one to compare with."""

from __future__ import annotations

import functools
import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import xferlib as xl
from tests.arrays.conftest import namespace_over
from xferlib.testing import assert_same_bits

DTYPES = (
    "bool",
    "int8",
    "int32",
    "int64",
    "uint8",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
REAL = tuple(name for name in DTYPES if not name.startswith("complex"))


pytestmark = [
    pytest.mark.parametrize("backend", ["bare", "sim", "pycuda"], indirect=True),
    pytest.mark.usefixtures("plugins", "backend"),
]


@pytest.fixture
def xp(backend: str) -> ModuleType:
    return namespace_over(backend)


def up(x: Any) -> Any:
    """The array on the current backend, with the strides that it has."""
    x = np.asarray(x)
    base = np.empty_like(x)
    base[...] = x
    return xl.to_device(base)


def check(found: Any, expected: Any) -> None:
    assert_same_bits(np.asarray(xl.to_host(found)), np.asarray(expected))


def arrays(dtypes: tuple[str, ...] = DTYPES, *, least: int = 0, most: int = 3, side: int = 5) -> Any:
    shapes = hnp.array_shapes(min_dims=least, max_dims=most, min_side=0 if least == 0 else 1, max_side=side)
    return st.sampled_from(dtypes).flatmap(
        lambda name: hnp.arrays(name, shapes, elements=_elements(name), fill=st.nothing())
    )


@functools.cache
def _elements(name: str) -> Any:
    kind = np.dtype(name).kind
    if kind == "b":
        return st.booleans()
    if kind in "iu":
        return st.integers(0 if kind == "u" else -20, 20)
    numbers = st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.5, 2.0, 3.25, -7.0, 100.0])
    return numbers if kind == "f" else st.builds(complex, numbers, numbers)


class TestElementwise:
    @settings(max_examples=60)
    @given(x=arrays(), data=st.data())
    def test_a_pair_has_numpys_dtype_shape_and_bits(self, x: Any, data: Any) -> None:
        y = data.draw(arrays())
        name = data.draw(st.sampled_from(["add", "subtract", "multiply", "maximum", "less", "equal", "bitwise_and"]))
        has_order = "c" not in x.dtype.kind + y.dtype.kind
        assume(has_order or name not in ("maximum", "less"))
        xp = namespace_over(xl.get_backend().name)
        try:
            with np.errstate(all="ignore"):
                expected = getattr(np, name)(x, y)
        except (TypeError, ValueError):
            with pytest.raises((TypeError, ValueError, xl.errors.XferError)):
                getattr(xp, name)(up(x), up(y))
            return
        assume(not (name == "maximum" and expected.dtype.kind == "f"))  # of two zeros NumPy takes either
        check(getattr(xp, name)(up(x), up(y)), expected)

    @pytest.mark.parametrize("scalar", [2, 2.5, True, 1j, np.float32(1.5), np.int8(3), np.float64(0.5)])
    @pytest.mark.parametrize("name", ["int32", "float32", "uint8"])
    def test_numbers_mix_as_in_numpy(self, xp: ModuleType, name: str, scalar: Any) -> None:
        x = np.arange(6, dtype=name).reshape(2, 3)
        check(xp.add(up(x), scalar), x + scalar)
        check(xp.multiply(scalar, up(x)), scalar * x)

    @pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round"])
    def test_whole_numbers_stay(self, xp: ModuleType, name: str) -> None:
        check(getattr(xp, name)(up([1, 2])), np.array([1, 2]))
        check(getattr(xp, name)(up([1.5, -2.5])), getattr(np, name)(np.array([1.5, -2.5])))

    def test_division_of_integers_is_true(self, xp: ModuleType) -> None:
        check(xp.divide(up([1, 2]), 2), np.array([0.5, 1.0]))

    def test_choice_and_limits(self, xp: ModuleType) -> None:
        x = np.arange(-3, 3, dtype=np.float32)
        check(xp.where(up(x > 0), up(x), 0), np.where(x > 0, x, np.float32(0)))
        check(xp.clip(up(x), -1, 1), np.clip(x, -1, 1))
        check(xp.clip(up(x), min=0.5), np.clip(x, 0.5, None))
        check(xp.clip(up(x), max=0.5), np.clip(x, None, 0.5))
        check(xp.clip(up(x)), x)


class TestViews:
    @settings(max_examples=60)
    @given(x=arrays(least=1), data=st.data())
    def test_basic_indices(self, x: Any, data: Any) -> None:
        xp = namespace_over(xl.get_backend().name)
        key = data.draw(hnp.basic_indices(x.shape, allow_newaxis=True, allow_ellipsis=True))
        check(xp.add(up(x)[key], 0), np.add(x[key], 0))

    def test_shapes(self, xp: ModuleType) -> None:
        x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
        d = up(x)
        check(xp.reshape(d, (4, 6)), x.reshape(4, 6))
        check(xp.reshape(xp.permute_dims(d, (2, 0, 1)), (-1,)), x.transpose(2, 0, 1).reshape(-1))
        check(xp.flip(d, axis=1), np.flip(x, 1))
        check(xp.broadcast_to(up(x[0, 0]), (2, 4)), np.broadcast_to(x[0, 0], (2, 4)))
        check(xp.squeeze(xp.expand_dims(d, axis=1), 1), x)
        check(xp.moveaxis(d, 0, -1), np.moveaxis(x, 0, -1))
        check(xp.matrix_transpose(d), x.transpose(0, 2, 1))
        for one, two in zip(xp.unstack(d, axis=1), np.moveaxis(x, 1, 0), strict=True):
            check(one, two)
        with pytest.raises(xl.errors.LayoutError, match="as many elements"):
            xp.reshape(d, (5, 5))
        with pytest.raises(xl.errors.LayoutError, match="leave copy=False out"):
            xp.reshape(xp.permute_dims(d, (2, 0, 1)), (-1,), copy=False)
        with pytest.raises(xl.errors.LayoutError, match="broadcast"):
            xp.broadcast_to(d, (7,))

    def test_arrays_without_axes(self, xp: ModuleType) -> None:
        d = up(np.float32(2))
        check(xp.flip(d), np.float32(2))
        check(xp.permute_dims(d, ()), np.float32(2))
        check(d[()], np.float32(2))
        check(xp.reshape(d, (1,)), np.array([2], np.float32))
        check(xp.cumulative_sum(d), np.cumulative_sum(np.float32(2)))

    def test_parts_that_overlap_are_assigned_as_if_copied_first(self, xp: ModuleType) -> None:
        x = np.arange(6)
        for target, value in (
            (slice(1, None), slice(-1)),
            (slice(-1), slice(1, None)),
            (slice(None, None, -1), slice(6)),
        ):
            d, y = up(x), x.copy()
            d[target] = d[value]
            y[target] = y[value]
            check(d, y)


class TestIndexing:
    KEYS: tuple[Any, ...] = (
        np.array([0, -1]), (np.array([[0], [2]]), np.array([0, 1])), (slice(None), np.array([1, 0])),
        (np.array([1, 0]), slice(1, None)), (np.array([1, 0]), slice(None), np.array([0, 3])),
        (slice(None), np.array([0, 1]), np.array([1, 2])), (1, slice(None), np.array([0, 1])), (None, np.array([1])),
        (Ellipsis, np.array([3, 0])), np.array([True, False, True]), np.zeros(3, bool),
        np.arange(24).reshape(3, 2, 4) % 3 == 0, (np.array([True, False, True]), 0), [2, 1], np.zeros(0, np.int64),
    )  # fmt: skip

    @pytest.mark.parametrize("number", range(len(KEYS)))
    def test_arrays_as_keys(self, xp: ModuleType, number: int) -> None:
        x, key = np.arange(24, dtype=np.float32).reshape(3, 2, 4), self.KEYS[number]
        keys = key if isinstance(key, tuple) else (key,)
        theirs = tuple(up(each) if isinstance(each, np.ndarray) else each for each in keys)
        check(up(x)[theirs], x[keys])
        target, value = up(x), x.copy()
        target[theirs] = 7
        value[keys] = 7
        check(target, value)
        values = np.arange(x[keys].size, dtype=np.float64).reshape(x[keys].shape)
        target[theirs] = up(values)
        value[keys] = values
        check(target, value)
        turned = xp.permute_dims(up(x.transpose(2, 0, 1).copy()), (1, 2, 0))  # of other strides
        turned[theirs] = up(values)
        value = x.copy()
        value[keys] = values
        check(turned, value)

    def test_an_index_outside_is_refused(self, xp: ModuleType) -> None:
        d = up(np.arange(6).reshape(2, 3))
        for key in (np.array([0, 2]), [-3], (0, [3]), (5, up([0]))):
            with pytest.raises(IndexError, match="out of"):
                d[key]
        with pytest.raises(IndexError, match="no index|used as indices"):
            d[up([0.5])]
        with pytest.raises(xl.errors.LayoutError, match="not fit"):
            d[slice(None)] = up(np.zeros((4, 3)))
        with pytest.raises(xl.errors.LayoutError, match="read-only|share"):
            xp.broadcast_to(up([1, 2]), (3, 2))[0] = 1

    @given(x=arrays(REAL, least=1))
    def test_nonzero(self, x: Any) -> None:
        xp = namespace_over(xl.get_backend().name)
        for one, two in zip(xp.nonzero(up(x)), np.nonzero(x), strict=True):
            check(one, two)

    def test_taking(self, xp: ModuleType) -> None:
        x = np.arange(12.0).reshape(3, 4)
        check(xp.take(up(x), up([2, 0]), axis=1), np.take(x, [2, 0], axis=1))
        places = np.argsort(-x, axis=1)
        check(xp.take_along_axis(up(x), up(places), axis=1), np.take_along_axis(x, places, axis=1))


class TestReductions:
    @settings(max_examples=60)
    @given(x=arrays(REAL, least=1), data=st.data())
    def test_integers_are_numpys_and_floats_near(self, x: Any, data: Any) -> None:
        xp = namespace_over(xl.get_backend().name)
        axis = data.draw(st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1)))
        name = data.draw(st.sampled_from(["sum", "prod", "max", "min", "any", "all", "argmax", "count_nonzero"]))
        keepdims = data.draw(st.booleans())
        with np.errstate(all="ignore"):
            expected = np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims))
        found = np.asarray(xl.to_host(getattr(xp, name)(up(x), axis=axis, keepdims=keepdims)))
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-2 if expected.dtype == np.float16 else 1e-5, atol=1e-3)
        else:
            assert_same_bits(found, expected)

    def test_spread(self, xp: ModuleType) -> None:
        x = np.arange(12.0).reshape(3, 4) ** 2
        for correction in (0, 1, 0.5):
            for name in ("var", "std"):
                found = xl.to_host(getattr(xp, name)(up(x), axis=1, correction=correction))
                np.testing.assert_allclose(found, getattr(np, name)(x, axis=1, correction=correction), rtol=1e-12)
        check(xp.sum(up(x), dtype="float32"), np.float32(x.sum()))

    @given(x=arrays(("bool", "int32", "int64", "uint8", "float64"), least=1, most=2), data=st.data())
    def test_running_sums(self, x: Any, data: Any) -> None:
        xp = namespace_over(xl.get_backend().name)
        axis, initial = data.draw(st.integers(-x.ndim, x.ndim - 1)), data.draw(st.booleans())
        expected = np.cumulative_sum(x, axis=axis, include_initial=initial)
        found = xl.to_host(xp.cumulative_sum(up(x), axis=axis, include_initial=initial))
        if x.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        else:
            assert_same_bits(found, expected)


class TestOrder:
    @settings(max_examples=60)
    @given(x=arrays(REAL, least=1, side=9), data=st.data())
    def test_sorting_is_stable_and_numpys(self, x: Any, data: Any) -> None:
        xp = namespace_over(xl.get_backend().name)
        axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
        if x.dtype.kind == "f":
            x[data.draw(hnp.arrays(bool, x.shape))] = np.nan
        found = xl.to_host(xp.sort(up(x), axis=axis))
        np.testing.assert_array_equal(found, np.sort(x, axis=axis, stable=True), strict=True)  # NaNs of any payload
        check(xp.argsort(up(x), axis=axis), np.argsort(x, axis=axis, stable=True))
        down = xl.to_host(xp.argsort(up(x), axis=axis, descending=True))
        back = np.flip(np.argsort(np.flip(x, axis), axis=axis, stable=True), axis)
        assert_same_bits(down, x.shape[axis] - 1 - back)

    def test_a_long_line(self, xp: ModuleType) -> None:
        x = np.random.default_rng(3).integers(0, 500, 3000).astype(np.float32)
        check(xp.argsort(up(x)), np.argsort(x, stable=True))

    @given(x=arrays(("int32", "float32", "bool"), least=1, most=2))
    def test_sets(self, x: Any) -> None:
        xp = namespace_over(xl.get_backend().name)
        for one, two in zip(xp.unique_all(up(x)), np.unique_all(x), strict=True):
            if x.dtype.kind == "f":
                np.testing.assert_array_equal(xl.to_host(one), two)
            else:
                check(one, two)
        check(xp.isin(up(x), up(x.reshape(-1)[:1])), np.isin(x, x.reshape(-1)[:1]))

    @given(
        x=arrays(("int32", "float32"), least=1, most=1, side=12),
        y=arrays(("int32", "float32"), least=1),
        data=st.data(),
    )
    def test_searching(self, x: Any, y: Any, data: Any) -> None:
        xp = namespace_over(xl.get_backend().name)
        side = data.draw(st.sampled_from(["left", "right"]))
        x = np.sort(x)
        check(xp.searchsorted(up(x), up(y), side=side), np.searchsorted(x, y, side=side))


class TestRest:
    def test_joining(self, xp: ModuleType) -> None:
        x = np.arange(6, dtype=np.int32).reshape(2, 3)
        d = up(x)
        check(xp.concat([d, xp.astype(d, "float32")], axis=1), np.concat([x, x.astype("f4")], axis=1))
        check(xp.stack([d, d], axis=1), np.stack([x, x], axis=1))
        check(xp.repeat(d, 2, axis=1), np.repeat(x, 2, axis=1))
        check(xp.repeat(d, up([1, 2]), axis=0), np.repeat(x, [1, 2], axis=0))
        check(xp.repeat(d, 2), np.repeat(x, 2))
        check(xp.tile(d, (2, 1, 2)), np.tile(x, (2, 1, 2)))
        check(xp.roll(d, 2), np.roll(x, 2))
        check(xp.roll(d, (1, -1), axis=(0, 1)), np.roll(x, (1, -1), axis=(0, 1)))
        check(xp.tril(d, k=-1), np.tril(x, -1))
        check(xp.triu(d), np.triu(x))
        for kind in ("xy", "ij"):
            for one, two in zip(xp.meshgrid(up(x[0]), up(x[:, 0]), indexing=kind),
                                np.meshgrid(x[0], x[:, 0], indexing=kind), strict=True):  # fmt: skip
                check(one, two)
        check(xp.diff(d, n=2), np.diff(x, n=2))
        check(xp.diff(d, axis=0, prepend=up(x[:1])), np.diff(x, axis=0, prepend=x[:1]))

    @settings(max_examples=40)
    @given(
        name=st.sampled_from(["int32", "int64", "float32", "float64", "complex128", "bool"]),
        stacks=st.sampled_from([((), ()), ((2,), ()), ((2, 1), (3,)), ((), (2,))]),
        extents=st.tuples(*[st.integers(0, 4)] * 3),
    )
    def test_matrices(self, name: str, stacks: Any, extents: Any) -> None:
        xp = namespace_over(xl.get_backend().name)
        rng = np.random.default_rng(math.prod(extents))
        m, k, n = extents
        x = rng.integers(-3, 4, (*stacks[0], m, k)).astype(name)
        y = rng.integers(-3, 4, (*stacks[1], k, n)).astype(name)
        # Small whole numbers: exact in any order, but for the signs of zeros.
        np.testing.assert_array_equal(xl.to_host(xp.matmul(up(x), up(y))), np.matmul(x, y), strict=True)
        np.testing.assert_array_equal(xl.to_host(xp.vecdot(up(x), up(x))), np.vecdot(x, x), strict=True)

    def test_other_products(self, xp: ModuleType) -> None:
        x, y = np.arange(24).reshape(2, 3, 4), np.arange(12).reshape(3, 4)
        check(xp.tensordot(up(x), up(y), axes=2), np.tensordot(x, y, 2))
        check(xp.tensordot(up(x), up(y), axes=((1,), (0,))), np.tensordot(x, y, ((1,), (0,))))
        iterators = iter([1]), iter([0])
        check(xp.tensordot(up(x), up(y), axes=iterators), np.tensordot(x, y, ((1,), (0,))))
        check(xp.outer(up(y[0]), up(y[:, 0])), np.outer(y[0], y[:, 0]))
        check(xp.matmul(up(y), up(y[0])), y @ y[0])
        check(xp.matmul(up(y[0]), up(y.T.copy())), y[0] @ y.T)
        half = (np.arange(12).reshape(3, 4) / 8).astype(np.float16)
        check(xp.matmul(up(half), up(half.T.copy())), half @ half.T)
        with pytest.raises(xl.errors.LayoutError, match="do not fit"):
            xp.matmul(up(x), up(x))

    def test_making(self, xp: ModuleType, backend: str) -> None:
        check(xp.zeros((2, 3)), np.zeros((2, 3)))
        check(xp.ones(3, dtype="int8"), np.ones(3, np.int8))
        check(xp.full((2,), 7), np.full((2,), 7))
        check(xp.arange(5), np.arange(5))
        check(xp.arange(1, 2, 0.25), np.arange(1, 2, 0.25))
        check(xp.linspace(0, 1, 5), np.linspace(0, 1, 5))
        check(xp.eye(3, k=1), np.eye(3, k=1))
        check(xp.asarray([1.0, 2.0]), np.array([1.0, 2.0]))
        d = xp.asarray([1, 2])
        assert xp.asarray(d) is d
        check(xp.zeros_like(d), np.zeros(2, np.int64))
        check(xp.full_like(d, 3, dtype="float32"), np.full(2, 3, np.float32))
        assert xp.empty_like(d).shape == (2,)
        assert xp.result_type(d, "float32") == np.float64
        assert xp.can_cast(d, "int64")
        assert xp.finfo("float32").bits == xp.iinfo("int32").bits == 32
        info = xp.__array_namespace_info__()
        assert info.default_dtypes()["integral"] == "int64"
        assert "float32" in info.dtypes(kind="real floating")
        assert info.default_device() in info.devices()

    def test_every_name_of_the_standard_is_there(self, xp: ModuleType) -> None:
        own = set(xp.__all__)
        missing = set(xl.get_array_module(xl.to_device([1.0], backend="sim")).__all__) - own
        assert not missing


def test_a_mask_without_axes_assigns_all_or_nothing(xp: ModuleType) -> None:
    for x in (np.array(3.0), np.arange(4.0)):
        for flag in (True, False):
            d, y = up(x), x.copy()
            d[up(np.array(flag))] = 7.0
            y[np.array(flag)] = 7.0
            check(d, y)
