"""The namespace by the Array API's rules, where the standard says more than "as NumPy does it"."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from xferlib.errors import LayoutError

pytestmark = pytest.mark.usefixtures("xferlib_sim")
X = np.array([3.0, 1.0, 2.0, 1.0, -0.0, 0.0])


@pytest.fixture
def xp() -> Any:
    return xl.get_array_module(xl.empty(1))


def test_it_says_what_it_can_do(xp: Any) -> None:
    info = xp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"]
    assert info.default_device() in info.devices()
    assert isinstance(info.devices(), list)  # SciPy's tests add to it
    assert info.default_dtypes()["real floating"] == xp.float64
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {"bool", "complex64", "complex128"}
    assert "float16" not in info.dtypes()


def test_limits_are_python_numbers(xp: Any) -> None:
    limits = xp.finfo(xl.empty(1, "float32"))
    assert (type(limits.eps), limits.eps, limits.bits) == (float, 2.0**-23, 32)
    assert xp.iinfo(xp.int8).max == 127
    assert not xp.can_cast(xl.empty(1, "int64"), xp.int8)


@pytest.mark.parametrize("descending", [False, True])
def test_sorting_goes_both_ways_and_keeps_equal_elements_in_their_order(xp: Any, descending: bool) -> None:
    d = xl.to_device(X)
    order = xl.to_host(xp.argsort(d, descending=descending))
    expected = sorted(range(X.size), key=lambda n: -X[n] if descending else X[n])
    assert order.tolist() == expected
    np.testing.assert_array_equal(xl.to_host(xp.sort(d, descending=descending)), X[expected])


def test_sums_take_a_dtype_and_deviations_a_correction(xp: Any) -> None:
    d = xl.to_device(X)
    assert xl.to_host(xp.sum(d, dtype=xp.float32)).dtype == np.float32
    assert xl.to_host(xp.std(d, correction=1)).item() == np.std(X, correction=1)
    assert xl.to_host(xp.sum(xl.to_device(np.array([200, 100], np.uint8)))).item() == 300


def test_unique_values_come_under_the_names_of_the_standard(xp: Any) -> None:
    found = xp.unique_counts(xl.to_device(X))
    assert found._fields == ("values", "counts")
    np.testing.assert_array_equal(xl.to_host(found.counts), np.unique_counts(X).counts)


def test_an_array_without_axes_stays_one(xp: Any) -> None:
    zero = xl.to_device(np.array(3.0))
    for each in (xp.flip(zero), xp.sqrt(zero), zero + 1.0, xp.reshape(zero, ())):
        assert each.shape == ()


def test_unstack_and_broadcast_are_views_of_the_same_memory(xp: Any) -> None:
    d = xl.zeros((2, 3))
    one, two = xp.unstack(d)
    one += 1.0
    two += 2.0
    np.testing.assert_array_equal(xl.to_host(d), [[1.0] * 3, [2.0] * 3])


def test_a_view_that_repeats_its_elements_is_not_written_to(xp: Any) -> None:
    wide = xp.broadcast_to(xl.zeros(3), (4, 3))
    with pytest.raises(LayoutError, match="share their memory"):
        wide += 1.0
    with pytest.raises(LayoutError, match="share their memory"):
        wide[0, 0] = 1.0


@pytest.mark.parametrize("number", [1000, -1])
def test_a_python_number_that_the_dtype_cannot_hold_is_an_error_each_time(number: int) -> None:
    small = xl.zeros(3, "uint8")
    small += 100  # which it can, and is remembered
    for _ in range(2):
        with pytest.raises(OverflowError):
            small += number
    np.testing.assert_array_equal(xl.to_host(small), [100] * 3)


def test_the_product_of_matrices_in_place(xp: Any) -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(9.0).reshape(3, 3)
    d = xl.to_device(a)
    d @= xl.to_device(b)
    np.testing.assert_array_equal(xl.to_host(d), a @ b)


@pytest.mark.parametrize(
    ("name", "parameters"),
    {
        "add": "x1 x2", "sqrt": "x", "sum": "x axis dtype keepdims", "std": "x axis correction keepdims",
        "sort": "x axis descending stable", "searchsorted": "x1 x2 side sorter",
        "arange": "start stop step dtype device", "expand_dims": "x axis", "concat": "arrays axis",
    }.items(),
)  # fmt: skip
def test_signatures_are_those_of_the_standard(xp: Any, name: str, parameters: str) -> None:
    assert list(inspect.signature(getattr(xp, name)).parameters) == parameters.split()


def test_operators_are_the_functions(xp: Any) -> None:
    assert type(xl.empty(1)).__add__ is xp.add
    d = xl.to_device(X)
    np.testing.assert_array_equal(xl.to_host(2.0 - d), 2.0 - X)
    np.testing.assert_array_equal(xl.to_host(-(abs(d) ** 2)), -(abs(X) ** 2))
