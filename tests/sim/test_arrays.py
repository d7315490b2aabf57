"""What arrays of the simulated devices compute, and what they refuse."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from xferlib import sim
from xferlib.errors import LayoutError, MixedBackendsError, MixedDevicesError, UnsupportedArrayError, XferError
from xferlib.sim import ranges

pytestmark = pytest.mark.usefixtures("xferlib_sim")
X = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    ("use", "says"),
    [
        (lambda d: np.asarray(d), "xferlib.to_host(x)"),
        (lambda d: np.array([d, d]), "xferlib.to_host(x)"),
        (lambda d: np.sin(d), "get_array_module(x).sin"),
        (lambda d: np.concatenate([d, d]), "get_array_module(x).concatenate"),
        (lambda d: X + d, "xferlib.to_device(x, device='sim:sim:0')"),
        (lambda d: float(d), "float(xferlib.to_host(x))"),
        (lambda d: int(d), "int(xferlib.to_host(x))"),
        (lambda d: complex(d), "complex(xferlib.to_host(x))"),
        (lambda d: bool(d), "bool(xferlib.to_host(x))"),
        (lambda d: [1, 2][d], "int(xferlib.to_host(x))"),
        (lambda d: list(d), "for value in xferlib.to_host(x)"),
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


def test_mixing_with_a_numpy_array_is_refused() -> None:
    with pytest.raises(MixedBackendsError, match="to_device"):
        xl.to_device(X) + X
    with pytest.raises(MixedBackendsError, match="to_device"):
        xl.to_device(X) * np.float64(2)
    with pytest.raises(MixedBackendsError, match="to_device"):
        xl.to_device(X)[0] = X[0]


def test_mixing_devices_is_refused() -> None:
    with pytest.raises(MixedDevicesError, match="sim:sim:1"):
        xl.to_device(X, device="sim:0") + xl.to_device(X, device="sim:1")


def test_something_that_is_no_number_is_refused() -> None:
    with pytest.raises(UnsupportedArrayError, match="str"):
        xl.to_device(X) + "1"


def test_dlpack_stays_among_simulated_devices() -> None:
    d = xl.to_device(X)
    assert d.__dlpack_device__() == (12, 0)
    with pytest.raises(BufferError, match="move it: xferlib"):
        np.from_dlpack(d)
    shared = d.__array_namespace__().from_dlpack(d)
    shared[0] = -1.0
    assert (xl.to_host(d)[0] == -1).all()
    with pytest.raises(XferError, match="cannot share"):
        d.__array_namespace__().from_dlpack(X)


def test_attributes() -> None:
    d = xl.to_device(X)
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
    d = xl.empty(shape, "int16")
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
