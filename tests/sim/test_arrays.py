"""Arrays of the simulated devices compute as NumPy's do, and refuse what a GPU's would."""

from __future__ import annotations

import copy
import operator
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from xferlib import sim
from xferlib.errors import (
    ArgumentError,
    KernelTypeError,
    LayoutError,
    MixedBackendsError,
    MixedDevicesError,
    UnsupportedArrayError,
    XferError,
)
from xferlib.sim import model as ranges

pytestmark = pytest.mark.usefixtures("xferlib_sim")
X = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda d: np.asarray(d), "xferlib.to_host(x)"),
        (lambda d: np.array([d, d]), "xferlib.to_host(x)"),
        (lambda d: np.add.reduce(d), "get_array_module(x).add"),
        (lambda d: np.concatenate([d, d]), "get_array_module(x).concat,"),
        (lambda d: np.median(d), "use get_array_module(x).median, or xferlib.to_host(x) first"),
        (lambda d: np.unwrap(d), "was given an array of sim:sim:0; use xferlib.to_host(x) first"),
        (lambda d: np.linalg.norm(d), "use get_array_module(x).linalg.vector_norm, or xferlib.to_host(x) first"),
        (lambda d: X + d, "xferlib.to_device(x, device='sim:sim:0')"),
        (lambda d: np.array(2.0) + d, "xferlib.to_device(x, device='sim:sim:0')"),
        (lambda d: np.add(d, X), "get_array_module(x).add"),
        (lambda d: d.item(), "xferlib.to_host(x).item()"),
        (lambda d: d.item(0, 1), "xferlib.to_host(x).item(0, 1)"),
        (lambda d: d.tolist(), "xferlib.to_host(x).tolist()"),
        (lambda d: float(d), "float(xferlib.to_host(x))"),
        (lambda d: int(d), "int(xferlib.to_host(x))"),
        (lambda d: complex(d), "complex(xferlib.to_host(x))"),
        (lambda d: bool(d), "bool(xferlib.to_host(x))"),
        (lambda d: [1, 2][d], "int(xferlib.to_host(x))"),
        (lambda d: 1.0 in d, "value in xferlib.to_host(x)"),
        (lambda d: pickle.dumps(d), "pickle xferlib.to_host(x)"),
    ],
)
def test_an_implicit_copy_to_the_host_is_refused_with_the_call_that_says_it(
    use: Callable[[Any], Any], says: str
) -> None:
    with pytest.raises(sim.ImplicitCopyError) as raised:
        use(xl.to_device(X))
    assert says in str(raised.value)


def test_rows_and_copies_are_made_on_the_device() -> None:
    d: Any = xl.to_device(X)
    rows = list(d)
    assert all(isinstance(each, sim.SimArray) for each in rows)
    assert np.array_equal(np.stack([xl.to_host(each) for each in rows]), X)
    rows[0] += 1.0  # views, as in CuPy and torch
    assert np.array_equal(xl.to_host(d)[0], X[0] + 1.0)
    shallow, (one, two) = copy.copy(d), copy.deepcopy([d, d])
    assert one is two
    d += 1.0
    for each in (shallow, one):
        assert np.array_equal(xl.to_host(each)[1:], X[1:])
    with pytest.raises(TypeError, match="no length"):
        iter(d[0, 0])


@pytest.mark.parametrize("given", [3, None, [1.0], "x", xl.sim])
def test_only_arrays_of_the_host_are_declared(given: Any) -> None:
    for declare in (sim.reads, sim.writes):
        with pytest.raises(UnsupportedArrayError, match="not an array in host memory"):
            declare(given)
        with pytest.raises(UnsupportedArrayError, match="SimArray"):
            declare(xl.to_device(X))


def test_numbers_are_broadcast_and_joined_as_arrays_are() -> None:
    d = xl.to_device(X[0])
    xp: Any = xl.get_array_module(d)
    assert [each.shape for each in xp.broadcast_arrays(d, 3.0)] == [d.shape] * 2
    assert xp.broadcast_arrays(3)[0].shape == ()
    assert xl.to_host(xp.concat([d, np.bool_(1)], axis=None))[-1] == 1.0
    for other in (np.ones(3), "a", [1.0]):
        with pytest.raises(XferError):
            xp.broadcast_arrays(d, other)
    for join in (xp.concat, xp.stack):
        with pytest.raises(XferError):
            join([d, np.bool_(1)])
        with pytest.raises(ArgumentError, match="is not a list of arrays"):
            join(3)


def test_mixing_with_a_numpy_array_is_refused() -> None:
    with pytest.raises(MixedBackendsError, match="to_device"):
        xl.to_device(X) + X
    with pytest.raises(MixedBackendsError, match="to_device"):
        xl.to_device(X) * np.array(2.0)
    with pytest.raises(MixedBackendsError, match="to_device"):
        xl.to_device(X)[0] = X[0]


def test_mixing_devices_is_refused() -> None:
    with pytest.raises(MixedDevicesError, match="sim:sim:1"):
        xl.to_device(X, device="sim:0") + xl.to_device(X, device="sim:1")


def test_something_that_is_no_number_is_refused() -> None:
    with pytest.raises(TypeError, match="str"):
        xl.to_device(X) + "1"


def test_dlpack_stays_among_simulated_devices() -> None:
    d: Any = xl.to_device(X)
    assert d.__dlpack_device__() == (12, 0)
    with pytest.raises(BufferError, match="move it: xferlib"):
        np.from_dlpack(d)
    shared = d.__array_namespace__().from_dlpack(d)
    shared[0] = -1.0
    assert (xl.to_host(d)[0] == -1).all()
    with pytest.raises(XferError, match="sim cannot share"):
        d.__array_namespace__().from_dlpack(X)


def test_attributes() -> None:
    d: Any = xl.to_device(X)
    assert (d.shape, d.ndim, d.size, d.nbytes, len(d), d.dtype) == ((3, 4), 2, 12, 96, 3, np.dtype("f8"))
    assert d.device is xl.Device("sim:0")
    assert "xferlib.to_host(x)" in repr(d)
    assert d.T.shape == (4, 3)
    with pytest.raises(TypeError):
        hash(d)


BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip


@pytest.mark.parametrize("function", BINARY, ids=lambda function: function.__name__)
def test_operators_compute_what_numpy_computes(function: Any) -> None:
    a, b = X + 1, np.linspace(1, 2, 4)
    d, e = xl.to_device(a), xl.to_device(b)
    np.testing.assert_array_equal(xl.to_host(function(d, e)), function(a, b))
    np.testing.assert_array_equal(xl.to_host(function(d, 2)), function(a, 2))
    np.testing.assert_array_equal(xl.to_host(function(2, d)), function(2, a))


DTYPES = ("float32", "float64", "float16", "int32", "uint8", "bool", "complex64")
SCALARS: list[Any] = [
    np.float64(2), np.float32(0.1), np.float16(1), np.int8(2), np.int64(300), np.uint8(3), np.bool_(True),
    np.complex64(1 - 2j),
]  # fmt: skip
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


def _result(call: Callable[[], Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            return call()
    except (TypeError, ValueError) as error:
        return type(error)


ORDERING = (operator.lt, operator.le, operator.gt, operator.ge)
BOUNDED = (operator.truediv, operator.pow, operator.itruediv, operator.ipow)
"""Operators whose complex results have a bound, and not NumPy's bits."""


def _assert_same(found: Any, expected: Any, function: Any = None) -> None:
    if isinstance(expected, type):
        assert isinstance(found, type), (found, expected)
        return
    values = xl.to_host(found)
    assert values.dtype == expected.dtype
    if values.dtype.kind == "c" and function in BOUNDED:
        np.testing.assert_allclose(values, expected, rtol=8 * np.finfo(values.dtype).eps)
    else:
        assert values.tobytes() == expected.tobytes()


@pytest.mark.parametrize("function", [*BINARY, *BITS], ids=lambda function: function.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_scalars_are_numbers_with_a_dtype_on_either_side(function: Any, dtype: str) -> None:
    """NEP 50: they take part in promotion, as in NumPy 2; a Python number does not."""
    a = np.array([1, 0, 3]).astype(dtype)
    d = xl.to_device(a)
    for scalar in SCALARS:
        if function in ORDERING and "c" in a.dtype.kind + scalar.dtype.kind:
            for call in (lambda s=scalar: function(d, s), lambda s=scalar: function(s, d)):
                assert _result(call) is KernelTypeError  # the Array API does not order them
            continue
        _assert_same(_result(lambda s=scalar: function(d, s)), _result(lambda s=scalar: function(a, s)), function)
        _assert_same(_result(lambda s=scalar: function(s, d)), _result(lambda s=scalar: function(s, a)), function)


@pytest.mark.parametrize("function", [operator.iadd, operator.imul, operator.itruediv, operator.ipow])
@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_scalars_in_place(function: Any, dtype: str) -> None:
    a = np.array([1, 0, 3]).astype(dtype)
    for scalar in SCALARS:
        found = _result(lambda s=scalar: function(xl.to_device(a), s))
        _assert_same(found, _result(lambda s=scalar: function(a.copy(), s)), function)


@pytest.mark.parametrize("dtype", DTYPES[:5])
def test_numpy_scalars_in_functions_and_assignments(dtype: str) -> None:
    a = np.array([1, 0, 3]).astype(dtype)
    d, xp = xl.to_device(a), xl.get_array_module(xl.empty(1))
    for s in SCALARS[:6]:
        _assert_same(xp.maximum(d, s), np.maximum(a, s))
        _assert_same(_result(lambda s=s: xp.where(d > s, s, d)), np.where(a > s, s, a))
        _assert_same(_result(lambda s=s: xp.clip(d, min=s)), np.clip(a, s, None))
        _assert_same(_result(lambda s=s: xp.clip(d, np.int8(0), s)), np.clip(a, np.int8(0), s))
        _assert_same(xp.full(3, s), np.full(3, s))
        assert xp.result_type(d, s) == np.result_type(a, s)
        b, e = a.copy(), xl.to_device(a)
        b[1], e[1] = s, s
        _assert_same(e, b)


def test_a_numpy_integer_as_an_index_gives_a_view() -> None:
    d = xl.zeros((3, 2))
    for index in np.arange(3):
        row = d[index]
        row += float(index)
        d[index, np.int8(1)] = -1.0
    np.testing.assert_array_equal(xl.to_host(d), [[0, -1], [1, -1], [2, -1]])


@pytest.mark.parametrize("scalar", [np.longdouble(2), np.clongdouble(2), np.datetime64("2020"), np.str_("2")])
def test_numpy_scalars_of_dtypes_that_devices_lack_are_refused(scalar: Any) -> None:
    d = xl.to_device(X)
    with pytest.raises(TypeError, match="devices have no dtype"):
        d == scalar  # noqa: B015 - it raises
    with pytest.raises(TypeError, match="devices have no dtype"):
        scalar == d  # noqa: B015 - it raises


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (lambda x: x.sum(0), X.sum(0)), (lambda x: x.sum(axis=1, keepdims=True), X.sum(axis=1, keepdims=True)),
        (lambda x: x.sum(dtype="float32"), X.sum(dtype="float32")), (lambda x: x.mean(), X.mean()),
        (lambda x: x.max(1), X.max(1)), (lambda x: (x > 3).any(), (X > 3).any()), (lambda x: x.argmin(), X.argmin()),
        (lambda x: x.reshape(4, 3), X.reshape(4, 3)), (lambda x: x.reshape((2, -1)), X.reshape((2, -1))),
        (lambda x: x.T.ravel(), X.T.ravel()), (lambda x: x.T.copy(), X.T.copy()), (lambda x: x.var(0), X.var(0)),
        (lambda x: x.astype("int8"), X.astype("int8")), (lambda x: x.dot(x.T), X.dot(X.T)),
        (lambda x: x.dot(x[0]), X.dot(X[0])), (lambda x: x[0].dot(x[1]), X[0].dot(X[1])),
    ],
)  # fmt: skip
def test_methods_are_the_functions_of_the_namespace(use: Callable[[Any], Any], expected: Any) -> None:
    _assert_same(use(xl.to_device(X)), np.asarray(expected))


def test_a_copy_has_memory_of_its_own_and_ravel_has_not_where_strides_allow() -> None:
    d: Any = xl.to_device(X)
    same, flat = d.copy(), d.ravel()
    d += 1.0
    np.testing.assert_array_equal(xl.to_host(same), X)
    np.testing.assert_array_equal(xl.to_host(flat), X.reshape(-1) + 1)


def _numpy_functions() -> list[Any]:
    modules = (np, np.linalg, np.fft, np.random, np.lib.stride_tricks)
    found = {id(each): each for module in modules for each in vars(module).values()}
    return [each for each in found.values() if isinstance(each, np.ufunc) or hasattr(each, "_implementation")]


def _advice(d: Any, function: Any) -> str:
    with pytest.raises(sim.ImplicitCopyError) as raised:
        if isinstance(function, np.ufunc):
            d.__array_ufunc__(function, "reduce", d)
        else:
            d.__array_function__(function, (), (), {})
    return str(raised.value)


def test_advice_names_only_what_there_is() -> None:
    d = xl.to_device(X)
    xp, functions = xl.get_array_module(d), _numpy_functions()
    assert len(functions) > 300
    for function in functions:
        advice = _advice(d, function)
        for name in re.findall(r"get_array_module\(x\)\.([\w.]+)", advice):
            assert callable(operator.attrgetter(name)(xp)), advice
        assert "xferlib.to_host(x)" in advice


def test_in_place_operators_write_into_the_array_and_into_its_views() -> None:
    d = xl.to_device(X)
    view = d[1]
    d += 1
    d *= xl.to_device(np.array([1.0, 2, 3, 4]))
    np.testing.assert_array_equal(xl.to_host(view), (X[1] + 1) * [1, 2, 3, 4])


def test_an_in_place_operator_that_cannot_hold_its_result_is_refused() -> None:
    d = xl.to_device(np.arange(3))
    with pytest.raises(TypeError, match="does not fit"):
        d += 1.5
    with pytest.raises(LayoutError, match="does not fit"):
        d += xl.to_device(np.ones((2, 3), np.int64))


INDICES = [0, -1, slice(1, None), (slice(None), 1), (..., None, 2), (1, 2), (slice(None, None, -1), slice(0, 4, 2))]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_basic_indices_give_views(index: Any) -> None:
    d = xl.to_device(X)
    view = d[index]
    np.testing.assert_array_equal(xl.to_host(view), X[index])
    d *= 2.0
    np.testing.assert_array_equal(xl.to_host(view), 2 * X[index])


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_assignment_writes_only_where_the_index_says(index: Any) -> None:
    d, expected = xl.to_device(X), X.copy()
    d[index] = 7.0
    expected[index] = 7.0
    np.testing.assert_array_equal(xl.to_host(d), expected)


def test_masks_and_integer_arrays_select_and_assign() -> None:
    d = xl.to_device(X)
    np.testing.assert_array_equal(xl.to_host(d[d > 5.0]), X[X > 5])
    rows = xl.to_device(np.array([2, 0]))
    np.testing.assert_array_equal(xl.to_host(d[rows]), X[[2, 0]])
    d[d > 5.0] = 0.0
    np.testing.assert_array_equal(xl.to_host(d), np.where(X > 5, 0, X))


FUNCTIONS: list[Callable[[Any, Any], Any]] = [
    lambda xp, x: xp.sum(x, axis=1), lambda xp, x: xp.mean(x), lambda xp, x: xp.max(x, axis=(0, 1), keepdims=True),
    lambda xp, x: xp.argmax(x, axis=0), lambda xp, x: xp.std(x, axis=-1, correction=1), lambda xp, x: xp.any(x > 3),
    lambda xp, x: xp.where(x > 3, x, -x), lambda xp, x: xp.clip(x, min=2, max=7), lambda xp, x: xp.clip(x, max=4),
    lambda xp, x: xp.reshape(x, (4, 3)), lambda xp, x: xp.reshape(xp.permute_dims(x, (1, 0)), (12,)),
    lambda xp, x: xp.concat([x, x], axis=1), lambda xp, x: xp.stack([x, x]), lambda xp, x: xp.flip(x, axis=0),
    lambda xp, x: xp.matmul(x, xp.matrix_transpose(x)), lambda xp, x: xp.sort(-x, axis=1), lambda xp, x: xp.tril(x),
    lambda xp, x: xp.cumulative_sum(x, axis=1), lambda xp, x: xp.take(x, xp.asarray([2, 0]), axis=0),
    lambda xp, x: xp.astype(x, xp.int32), lambda xp, x: xp.zeros_like(x) + xp.full((3, 1), 2.0),
    lambda xp, x: xp.broadcast_to(xp.arange(4), (3, 4)) + xp.linspace(0, 1, 4), lambda xp, x: xp.unique_values(x % 5),
    lambda xp, x: xp.meshgrid(xp.arange(3), xp.arange(2))[1], lambda xp, x: xp.nonzero(x > 6)[0],
    lambda xp, x: xp.expand_dims(x, axis=1), lambda xp, x: xp.squeeze(x[:1], axis=0), lambda xp, x: xp.roll(x, 2),
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_namespace_functions_compute_what_numpy_computes(function: Callable[[Any, Any], Any]) -> None:
    d = xl.to_device(X)
    found = xl.to_host(function(xl.get_array_module(d), d))
    expected = function(np, X)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


def test_division_by_zero_gives_infinity_and_no_warning() -> None:
    d = xl.to_device(np.array([1.0, -1.0, 0.0]))
    np.testing.assert_array_equal(xl.to_host(d / 0.0), [np.inf, -np.inf, np.nan])


@given(st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_the_bytes_of_a_view_are_the_bytes_that_its_elements_are_in(data: st.DataObject) -> None:

    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    d: Any = xl.empty(shape, "int16")
    slices = [data.draw(st.slices(extent)) for extent in shape]
    view = d[tuple(slices)]
    if data.draw(st.booleans()):
        view = view.T
    marked = d.memory()
    marked[...] = 0
    view.memory()[...] = 1
    touched = np.zeros(d.nbytes, bool)
    for span in view.spans():
        starts, run = ranges.starts(span)
        assert starts[0] == span.start
        assert starts[-1] + run == span.stop
        for start in starts.tolist():
            assert not touched[start : start + run].any()
            touched[start : start + run] = True
    np.testing.assert_array_equal(touched[::2], marked.reshape(-1) == 1)
    np.testing.assert_array_equal(touched[1::2], touched[::2])
