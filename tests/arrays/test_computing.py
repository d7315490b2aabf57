"""Reductions, scans, order, sets, joins and products: NumPy's dtypes, shapes and, where exact, values."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import xferlib as xl
from tests.arrays.conftest import Space, same
from xferlib.errors import XferError
from xferlib.kernels import reductions
from xferlib.testing import strategies

quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=40)
NAN = float("nan")
X = np.arange(24.0).reshape(2, 3, 4) % 7
REDUCTIONS = ("all", "any", "count_nonzero", "max", "mean", "min", "prod", "std", "sum", "var")
AXES = (None, 0, -1, (0, 2), (), (0, 1, 2))


def close(space: Space, *pairs: tuple[Any, Any]) -> None:
    """Compare results with NumPy's, whose last bits depend on the order of additions."""
    for found, each in zip(space.get([found for found, _ in pairs]), (expected for _, expected in pairs), strict=True):
        expected = np.asarray(each)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-2 if expected.dtype == np.float16 else 2e-5)


# --- reductions


@pytest.mark.filterwarnings("ignore")  # of divisions by zero, where the correction is the number of elements or more
@pytest.mark.parametrize("name", [*REDUCTIONS, "argmax", "argmin"])
def test_a_reduction_over_axes(space: Space, name: str) -> None:
    of_numpy, of_ours = getattr(np, name), getattr(space.xp, name)
    pairs: list[tuple[Any, Any]] = []
    for dtype in strategies.DTYPES:
        x = X.astype(dtype)
        if dtype.startswith("complex") and name.endswith(("max", "min")):
            with pytest.raises(XferError):
                of_ours(space.put(x))
            continue
        if name in ("std", "var") and dtype == "bool":
            continue
        y = space.put(x)
        for axis, keepdims in itertools.product((None, 0, -1) if name.startswith("arg") else AXES, (False, True)):
            options: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
            pairs.append((of_ours(y, **options), of_numpy(x, **options)))
        pairs.append((of_ours(y.T, axis=0), of_numpy(x.T, axis=0)))
    corrections = (0, 1, 1.0, 0.5, 2, 2.5, 3) if name in ("std", "var") else ()
    for shape, correction in itertools.product(((0, 2), (1, 2), (2, 2), (5, 3)), corrections):
        x = np.arange(math.prod(shape)).reshape(shape) / 4
        options = {"axis": 0, "correction": correction}
        pairs.append((of_ours(space.put(x), **options), of_numpy(x, **options)))
    close(space, *pairs)


def test_a_sum_has_the_bits_of_xferlibs(space: Space) -> None:
    x = np.random.default_rng(0).random((37, 53)).astype("float32")
    for axis in (None, 0, 1):
        same(space.get(space.xp.sum(space.put(x), axis=axis)), reductions.sum(x, axis=axis))
        same(space.get(space.xp.var(space.put(x), axis=axis)), reductions.var(x, axis=axis))


def test_no_elements_have_no_greatest_one(space: Space) -> None:
    with pytest.raises(XferError, match="no elements"):
        space.xp.max(space.put(np.zeros((0, 3), "float32")), axis=0)


# --- running sums


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_running_sums(space: Space, name: str) -> None:
    dtypes = ("bool", "int8", "uint16", "int64", "float16", "float32", "complex64")
    pairs = []
    for dtype, axis, initial in itertools.product(dtypes, (0, 1, -1), (False, True)):
        x, options = (X % 3).astype(dtype), {"axis": axis, "include_initial": initial}
        pairs.append((getattr(space.xp, name)(space.put(x), **options), getattr(np, name)(x, **options)))
    close(space, *pairs)


@pytest.mark.parametrize("extent", [1, 31, 32, 33, 64, 65, 1024, 1025, 2100])
def test_running_sums_of_rows_of_any_length(space: Space, extent: int) -> None:
    """Whole numbers and powers of 2: exact in any order."""
    x = np.random.default_rng(extent).integers(-9, 10, (3, extent))
    for dtype in ("float32", "complex128", "int64"):
        space.check("cumulative_sum", x.astype(dtype), axis=1)
        space.check("cumulative_sum", x.T.astype(dtype), axis=0)
        space.check("cumulative_prod", np.where(x % 2, -1, 1).astype(dtype), axis=1)


def test_a_running_sum_rounds_less_than_one_after_the_other(space: Space) -> None:
    x = np.full(1 << 16, 0.1, "float32")
    found = space.get(space.xp.cumulative_sum(space.put(x), axis=0))
    exact = np.cumsum(x.astype("float64"))
    assert np.abs(found / exact - 1).max() < 5e-6 < np.abs(np.cumsum(x) / exact - 1).max()


# --- order


def descending(function: Any) -> Any:
    """NumPy's sort or argsort in descending order, equal elements in their order."""

    def like(x: Any, *, axis: int = -1, descending: bool = False) -> Any:
        if not descending:
            return function(x, axis=axis, stable=True)
        flipped = function(np.flip(x, axis), axis=axis, stable=True)
        return np.flip(flipped if function is np.sort else x.shape[axis] - 1 - flipped, axis)

    return like


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_complex_numbers_are_ordered_as_numpy_does_it(space: Space, name: str, dtype: str) -> None:
    parts = np.array([0.0, 1.0, -1.0, NAN, 1.0])
    x = np.random.default_rng(0).permutation((parts[:, None] + 1j * np.array([2.0, NAN, 0.0, 2.0])).ravel())
    x.real[3] = NAN
    for each in (x.astype(dtype), x.astype(dtype).reshape(4, 5)):
        space.check(name, each, like=functools.partial(getattr(np, name), stable=True))


@quiet
@given(data=st.data(), reverse=st.booleans())
@pytest.mark.parametrize("name", ["sort", "argsort"])
def test_a_sort_is_stable_with_nan_last(space: Space, name: str, data: st.DataObject, reverse: bool) -> None:
    dtype = data.draw(st.sampled_from(["bool", "int8", "uint64", "float16", "float32", "float64"]))
    shape = data.draw(npst.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=9))
    few = st.sampled_from([0, 1]) if dtype in ("bool", "uint64") else st.sampled_from([-3, 0, 1, 2])
    values = st.one_of(few, st.just(NAN)) if dtype.startswith("f") else few
    x = data.draw(npst.arrays(dtype, shape, elements=values))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    space.check(name, x, axis=axis, descending=reverse, like=descending(getattr(np, name)))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 255, 256, 257, 5000])
def test_sorts_of_many_elements(space: Space, size: int) -> None:
    x = np.random.default_rng(size).integers(-1000, 1000, size)
    space.check("sort", x)
    space.check("argsort", x, like=lambda x: np.argsort(x, stable=True))
    space.check("sort", x.astype("float32") / 7)
    space.check("nonzero", x % 3)


# --- sets


@pytest.mark.parametrize(
    "x",
    [
        X,
        np.array([3, 1, 3, 2, 1]),
        np.array([True, False, True]),
        np.zeros((0,)),
        np.array(5),
        np.array([1j, 2, 1j]),
        np.arange(600) % 7,
    ],
)
def test_distinct_elements(space: Space, x: Any) -> None:
    expected = np.unique_all(x)
    for name, fields in (
        ("unique_all", expected), ("unique_counts", (expected.values, expected.counts)),
        ("unique_inverse", (expected.values, expected.inverse_indices)),
    ):  # fmt: skip
        space.check(name, x, like=lambda _, fields=fields: tuple(fields))
    space.check("unique_values", x, like=lambda x: np.sort(np.unique_values(x)))


def test_each_nan_is_an_element_of_its_own(space: Space) -> None:
    found = space.xp.unique_counts(space.put(np.array([NAN, 1, NAN, 1])))
    same(space.get(found.values), np.array([1, NAN, NAN]))
    same(space.get(found.counts), np.array([2, 1, 1]))


@pytest.mark.parametrize("invert", [False, True])
def test_membership(space: Space, invert: bool) -> None:
    space.check("isin", X, np.array([1, 5], "int16"), invert=invert)
    space.check("isin", X, np.zeros(0), invert=invert)
    space.check("isin", np.array([1, NAN]), np.array([NAN, 2, 1]), invert=invert)
    space.check("isin", X.astype(int), 3, invert=invert)


# --- parts and joins


JOINS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("concat", ([X, X[:1].astype("int8")],), {"axis": 0}), ("concat", ([X, X.astype("complex64")],), {"axis": -1}),
    ("concat", ([X, X[0]],), {"axis": None}), ("concat", ([X[:0], X],), {}), ("stack", ([X, X + 1],), {"axis": 1}),
    ("stack", ([X[0, 0], X[0, 0].astype("float32")],), {"axis": -1}), ("repeat", (X, 3), {"axis": 1}),
    ("repeat", (X, 2), {}), ("repeat", (X, 0), {"axis": 0}), ("repeat", (X, np.array([1, 0, 3])), {"axis": 1}),
    ("repeat", (X[0, 0], np.array([1, 2, 0, 4])), {}), ("repeat", (X, np.array(2)), {"axis": 0}),
    ("tile", (X, (2,)), {}), ("tile", (X, (2, 1, 3)), {}), ("tile", (X[0, 0], (2, 2)), {}), ("tile", (X, ()), {}),
    ("roll", (X, 5), {}), ("roll", (X, -1), {"axis": 2}), ("roll", (X, (1, 2)), {"axis": (0, 1)}),
    ("roll", (X, 1), {"axis": (0, 1)}), ("roll", (X[:0], 1), {"axis": 0}), ("tril", (X,), {"k": 1}),
    ("triu", (X.T,), {"k": -1}), ("triu", (np.ones((3, 3), bool),), {}),
    ("meshgrid", (np.arange(3), np.arange(2)), {}),
    ("meshgrid", (np.arange(3), np.arange(2), np.arange(4)), {"indexing": "ij"}),
    ("meshgrid", (np.arange(3), np.arange(2), np.arange(4)), {}), ("meshgrid", (np.arange(3),), {}),
    ("diff", (X,), {}), ("diff", (X > 3,), {"axis": 0}),
    ("diff", (X,), {"axis": 1, "n": 2, "prepend": X[:, :1], "append": X[:, 1:]}),
    ("take", (X, np.array([1, 0, 1])), {"axis": 1}), ("take", (X[0, 0], np.array([[1, -1]])), {}),
    ("take_along_axis", (X, np.argsort(X, axis=1)), {"axis": 1}),
    ("take_along_axis", (X, np.zeros((2, 3, 1), int)), {}),
    ("take_along_axis", (X, np.array([[[2]], [[1]]])), {"axis": 1}),
]  # fmt: skip


def test_parts_and_joins(space: Space) -> None:
    for name, args, options in JOINS:
        space.check(name, *args, **options)


# --- products


@pytest.mark.parametrize(
    ("one", "two"),
    [((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((0, 4), (4, 3)),
     ((3, 0), (0, 2)), ((5, 4), (2, 4, 3)), ((4,), (2, 4, 3))],
)  # fmt: skip
def test_matmul(space: Space, one: Any, two: Any) -> None:
    for dtype in ("bool", "int8", "int64", "float16", "float32", "complex64"):
        x = (np.arange(np.prod(one)) % 5).reshape(one).astype(dtype)
        y = (np.arange(np.prod(two)) % 3).reshape(two).astype(dtype)
        space.check("matmul", x, y)
        same(space.get(space.put(x) @ space.put(y)), x @ y)


def test_other_products(space: Space) -> None:
    x, y = np.arange(24).reshape(2, 3, 4), np.arange(24).reshape(4, 3, 2)
    for axes in (1, 0, ((1, 2), (1, 0)), ((-1,), (0,))):
        space.check("tensordot", x, y.astype("float32"), axes=axes)
    space.check("vecdot", x * 1j, x + 1j, axis=1)
    space.check("outer", x[0, 0], y[:, 0, 0].astype("float32"))
    for one, two in ((x, x), (x, np.array(1)), (x, x[0, 0, :3])):
        with pytest.raises(XferError):
            space.xp.matmul(space.put(one), space.put(two))


# --- creation and inspection


def test_creation(space: Space) -> None:
    xp = space.xp
    d = space.put(X)
    assert xp.asarray(d) is d
    assert xp.asarray(d, copy=True) is not d
    same(space.get(xp.asarray(d, dtype=xp.int8)), X.astype("int8"))
    for name in ("zeros_like", "ones_like"):
        same(space.get(getattr(xp, name)(d)), getattr(np, name)(X))
    same(space.get(xp.full((), 2.5, dtype=xp.int16)), np.full((), 2.5, "int16"))
    same(space.get(xp.full_like(d, 7)), np.full_like(X, 7))
    same(space.get(xp.full(2, space.put(np.array(4.5)))), np.full(2, 4.5))
    assert space.get(xp.empty((0, 2))).shape == (0, 2)
    assert xp.empty_like(d, dtype=xp.int8).dtype == np.int8
    shared = xp.from_dlpack(d)
    shared[0, 0, 0] = 99.0
    assert space.get(d)[0, 0, 0] == 99
    with pytest.raises((XferError, ValueError)):
        xp.asarray([1], copy=False)
    same(space.get(xp.from_dlpack(X, copy=True)), X)
    if space.name == "bare":  # the same kind of device
        same(space.get(xp.from_dlpack(X)), X)
    else:
        with pytest.raises(XferError, match="cannot share"):
            xp.from_dlpack(X)
    with pytest.raises(XferError, match="no array of any backend|not an array of any backend"):
        xp.from_dlpack([1])
    with pytest.raises((XferError, BufferError), match="share"):
        xp.from_dlpack(X, copy=False)


def test_inspection(space: Space) -> None:
    xp, d = space.xp, space.put(X)
    info = xp.__array_namespace_info__()
    assert str(info.default_device()) in map(str, info.devices())
    assert info.default_dtypes()["real floating"] == np.float64
    assert xp.result_type(d, xp.float32, 1) == np.float64
    assert xp.finfo(d).bits == 64
    assert xp.iinfo(xp.int8).max == 127
    assert xp.can_cast(d, xp.complex128)
    assert xp.isdtype(xp.float32, "real floating")
    assert xp.broadcast_shapes((2, 1), (3,)) == (2, 3)
    assert xp.__array_api_version__ == "2025.12"
    several = xp.meshgrid(d[0], d[0]), xp.meshgrid(), xp.broadcast_arrays(d, d), xp.unstack(d)
    assert {type(each) for each in several} == {tuple}
    assert type(info.devices()) is list


def test_a_list_is_no_dtype_however_deep_it_is(space: Space) -> None:
    deep: Any = 1.0
    for _ in range(1000):
        deep = [deep]
    for call in (space.xp.finfo, space.xp.iinfo, space.xp.result_type, lambda to: space.xp.can_cast(space.put(X), to)):
        with pytest.raises(XferError, match=r"\[\[\[\[\.\.\.\]\]\]\] is neither a dtype nor an array"):
            call(deep)


def test_every_name_of_the_standard_is_there(space: Space) -> None:
    assert set(vars(xl.get_array_module(xl.zeros(1, backend="sim")))["__all__"]) <= {*space.xp.__all__}
    for name in space.xp.__all__:
        assert getattr(space.xp, name) is None or name in dir(space.xp)


def test_numpys_functions_name_the_namespaces(space: Space) -> None:
    same(space.get(np.sin(space.put(X))), space.get(space.xp.sin(space.put(X))))  # one of the device's functions
    with pytest.raises(TypeError, match=r"get_array_module\(x\).concat"):
        np.concatenate([space.put(X)])
