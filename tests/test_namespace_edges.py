"""Functions beside the table of guarantees have NumPy's bits too: ranges, limits, searches, assignments."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.arrays.conftest import SPACES
from tests.comparing import DTYPES, numpys, ours, same
from xferlib.errors import ArgumentError, LayoutError, LayoutIndexError, LayoutTypeError, UnsupportedDTypeError
from xferlib.testing import assert_identical, strategies

pytestmark = pytest.mark.parametrize("backend", [*SPACES, "torch"], indirect=True)
drawn = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
NUMBERS = st.one_of(st.integers(-20, 20), st.floats(-5, 5), st.floats(-5, 5, width=32).map(np.float32))
EDGES = st.sampled_from([
    sign * each for sign in (1, -1) for each in
    (3, 127, 128, 129, 255, 256, 300, 2047, 2049, 65504, 2**24 + 1, 2**31, 2**53 + 1, 2**63, 2**64, 2.0**63, 300.25)
])  # fmt: skip
STEPS = st.one_of(st.sampled_from((1, -2, 0.1, 0.3, -0.7)), st.floats(0.0625, 3, width=32).map(np.float32))
FAR_STEPS = st.sampled_from((1, 2, -1, -2, 0.5, 1.5, -0.75, 100, 2**62, 2**31))
FAR = st.tuples(st.integers(-4, 300) | EDGES, st.integers(-1, 5), FAR_STEPS).map(
    lambda drawn: (drawn[0], drawn[0] + drawn[1] * drawn[2], drawn[2])
)
FLOATS = st.sampled_from((None, "float16", "float32", "float64", "complex64"))
RANGES = st.tuples(st.tuples(NUMBERS, NUMBERS, STEPS), FLOATS | st.just("int32")) | st.tuples(
    FAR, st.sampled_from(strategies.DTYPES)
)


@pytest.fixture
def xp(backend: str, plugins: object) -> Any:
    return xl.get_array_module(xl.zeros(1))


def check(xp: Any, name: str, *args: Any, **options: Any) -> None:
    """Compare a function with NumPy's, of the same name and arguments: dtype, shape and bits."""
    found, expected = ours(getattr(xp, name), *args, **options), numpys(getattr(np, name), *args, **options)
    assert not isinstance(found, Exception), found
    host = xl.to_host(found)
    assert (host.dtype, host.shape) == (expected.dtype, expected.shape)
    assert same(host, expected, signed_zeros=name != "clip"), f"{host} instead of {expected}"


@settings(max_examples=200, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=RANGES)
def test_a_range_is_numpys(xp: Any, drawn: Any) -> None:
    """The same bits, and an error where NumPy has one."""
    (start, stop, step), dtype = drawn
    expected = numpys(np.arange, start, stop, step, dtype=dtype)
    found = numpys(xp.arange, start, stop, step, dtype=None if dtype is None else np.dtype(dtype).name)
    if isinstance(expected, Exception):
        assert isinstance(found, OverflowError if isinstance(expected, OverflowError) else TypeError), found
        return
    assert not isinstance(found, Exception), (found, expected)
    assert_identical(xl.to_host(found), expected)


def test_numbers_out_of_range_are_refused(xp: Any) -> None:
    for args in ((-3, 2.5, 2), (-3, 3, 1), (300, 310), (0, -3, -1), (254.5, 300, 2), (0, 600, 300)):
        with pytest.raises(OverflowError):
            xp.arange(*args, dtype=xp.uint8)


@drawn
@given(start=NUMBERS | st.just(2j), stop=NUMBERS, num=st.integers(0, 12), endpoint=st.booleans(), dtype=FLOATS)
def test_evenly_spaced_numbers_have_numpys_bits(
    xp: Any, start: Any, stop: Any, num: int, endpoint: bool, dtype: Any
) -> None:
    if isinstance(start, complex) and dtype is not None:
        dtype = "complex64"
    check(xp, "linspace", start, stop, num, endpoint=endpoint, dtype=dtype)


def test_a_range_from_0_has_numpys_bits(xp: Any) -> None:
    for stop, dtype in itertools.product((4.0, 3, np.float32(2.5)), ("float16", "float32", "complex128", None)):
        check(xp, "arange", stop, dtype=dtype)
    check(xp, "linspace", 0, 5e-324, 5)  # whose step is 0
    check(xp, "linspace", 2j, np.float32(1e-45), 3, endpoint=False)  # a part of whose step is 0
    check(xp, "arange", -8e-95, 0, np.float32(1))  # whose extent is 0 in float32
    check(xp, "arange", 1e-45, np.float16(0.3), np.float16(np.inf))
    check(xp, "arange", np.float32(-1), np.float32(1), np.float32(0.001))  # float32 rounds to one more
    check(xp, "arange", 0, np.float16(1), np.float16(0.3333))  # and float16 to one less


def test_a_range_without_end_is_refused(xp: Any) -> None:
    for stop in (np.inf, np.nan):
        with pytest.raises((ArgumentError, ValueError)):
            xp.arange(0, stop)


@pytest.mark.parametrize("dtype", [each for each in DTYPES if np.dtype(each).kind in "iu"])
def test_a_limit_beyond_the_dtype_limits_nothing(xp: Any, dtype: str) -> None:
    limits = np.iinfo(dtype)
    x = np.array([limits.min, 0, 5, limits.max], dtype)
    for low, high in ((limits.min - 7, 3), (2, limits.max + 9), (limits.min - 1, limits.max + 1)):
        check(xp, "clip", x, low, high)
        check(xp, "clip", x[2], low, high)
    for options in ({"min": limits.max + 1}, {"max": limits.min - 1}):
        with pytest.raises(OverflowError):
            xp.clip(xl.to_device(x), **options)
    check(xp, "clip", x, limits.max + 1, np.float64(1e30))  # a float64 holds both limits


def test_three_dtypes_of_a_limit_promote_together(xp: Any) -> None:
    for dtypes in itertools.permutations(("uint16", "int8", "float16")):
        check(xp, "clip", *(np.array([1, 7], dtype) for dtype in dtypes))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_is_last_in_a_search(xp: Any, dtype: str) -> None:
    rows = np.array([-np.inf, -2, -0.0, 0, 0, 1, np.inf, np.nan, np.nan], dtype)
    wanted = np.array([np.nan, -np.nan, np.inf, 3, 0, -0.0, -1, -np.inf, 1e-8, -1e-8], dtype)
    order = np.random.default_rng(5).permutation(rows.size)
    for side in ("left", "right"):
        check(xp, "searchsorted", rows, wanted, side=side)
        check(xp, "searchsorted", rows[:7], wanted.reshape(2, 5), side=side)
        found = xp.searchsorted(
            xl.to_device(rows[order]), xl.to_device(wanted), side=side, sorter=xl.to_device(np.argsort(order))
        )
        np.testing.assert_array_equal(xl.to_host(found), np.searchsorted(rows, wanted, side=side))


def test_remainders_of_very_small_divisors_of_another_dtype(xp: Any) -> None:
    for one, two in itertools.product(("float16", "float32", "int8"), ("float32", "float64")):
        x = np.resize(np.array([-2, 1, 3], one), 24)
        check(xp, "remainder", x, np.full(24, np.finfo(two).smallest_subnormal, two))


def test_quotients_of_float16_beside_small_integers(backend: str, xp: Any) -> None:
    names = ("floor_divide", "remainder") if backend == "torch" else ("remainder",)  # the table has a bound for others
    x = np.arange(-128, 128).astype("int8")
    for number in (0.03448, 0.4336, 1.5, -7.2):
        y = np.full(x.shape, number, "float16")
        for name in names:
            check(xp, name, x, y)
            check(xp, name, y, x.astype("uint8"))


def test_complex_numbers_do_not_become_real(xp: Any) -> None:
    x = xl.to_device(np.zeros(3))
    for call in (
        lambda: xp.full(2, 2j, dtype="float32"),
        lambda: xp.full(2, np.complex64(2j), dtype="int8"),
        lambda: xp.full_like(x, 2j),
        lambda: xp.linspace(0, 2j, 3, dtype="float64"),
    ):
        with pytest.raises(UnsupportedDTypeError, match="imaginary"):
            call()


def test_complex_numbers_are_not_assigned_to_real_elements(backend: str, xp: Any) -> None:
    if backend == "torch":
        pytest.skip("assignment is torch's own, which warns")
    x, z = xl.to_device(np.zeros(3)), xl.to_device(np.array([1j, 2, 3]))
    keys = (slice(None), 0, xl.to_device(np.array([True, False, True])), np.array([2, 0]))
    for key, value in itertools.product(keys, (2j, np.complex64(2j), z[0])):
        with pytest.raises(UnsupportedDTypeError, match="imaginary"):
            x[key] = value
    with pytest.raises(UnsupportedDTypeError):
        x[:] = z
    assert xl.to_host(x).tolist() == [0, 0, 0]
    flags = xl.to_device(np.zeros(3, bool))
    flags[:] = z
    assert xl.to_host(flags).tolist() == [True, True, True]


def test_numbers_beyond_the_dtype_are_infinite(xp: Any) -> None:
    for dtype, numbers in {
        "float16": (65519.9, 65520.0, -1e5, 1e300),
        "float32": (3.4028235677973362e38, 3.4028235677973366e38, -1e300, 10**39),
    }.items():
        x = np.array([0.5, -3, np.inf], dtype)
        for number, y in itertools.product(numbers, (x, x[:1].reshape(()))):
            for name in ("maximum", "minimum", "less", "greater_equal", "equal", "copysign", "add", "subtract"):
                check(xp, name, y, number)
            check(xp, "clip", y, number, None)
            found = ours(lambda z, n: xp.where(z > 0, n, z), y, number)
            assert same(xl.to_host(found), numpys(lambda z, n: np.where(z > 0, z.dtype.type(n), z), y, number))


def test_the_greatest_of_no_values_is_the_norm_0(xp: Any) -> None:
    vectors: tuple[tuple[Any, Any], ...] = (((0,), None), ((2, 0), -1), ((0, 3), 0), ((0, 2), (0, 1)))
    for shape, axis in vectors:
        x = np.empty(shape, "float32")
        for keepdims in (False, True):
            found = xp.linalg.vector_norm(xl.to_device(x), ord=np.inf, axis=axis, keepdims=keepdims)
            expected = np.linalg.vector_norm(x, ord=np.inf, axis=axis, keepdims=keepdims)
            assert_identical(xl.to_host(found), np.asarray(expected))
    matrices: tuple[Any, ...] = ((2, 0), (0, 3), (4, 0, 2), (0, 2, 2))
    for shape, order in itertools.product(matrices, (1, np.inf)):
        x = np.empty(shape)
        found = xp.linalg.matrix_norm(xl.to_device(x), ord=order)
        assert_identical(xl.to_host(found), np.asarray(np.linalg.matrix_norm(x, ord=order)))


# --- arguments that do not fit


@pytest.mark.parametrize(
    ("name", "call", "kind"),
    [
        ("matrix_transpose", lambda xp, x: xp.matrix_transpose(x), LayoutError),
        ("moveaxis", lambda xp, x: xp.moveaxis(x, 1, 0), LayoutIndexError),
        ("expand_dims", lambda xp, x: xp.expand_dims(x, axis=5), LayoutIndexError),
        ("squeeze", lambda xp, x: xp.squeeze(x, axis=0), LayoutError),
        ("permute_dims", lambda xp, x: xp.permute_dims(x, (1, 0)), LayoutError),
        ("broadcast_to", lambda xp, x: xp.broadcast_to(x, (3,)), LayoutError),
        ("roll", lambda xp, x: xp.roll(x, 1.5), LayoutTypeError),
        ("vecdot", lambda xp, x: xp.vecdot(x, x[:3]), LayoutError),
        ("nonzero", lambda xp, x: xp.nonzero(xp.sum(x)), LayoutError),
        ("eye", lambda xp, x: xp.eye(-1), LayoutError),
        ("linspace", lambda xp, x: xp.linspace(0, 1, -1), LayoutError),
        ("matrix_power", lambda xp, x: xp.linalg.matrix_power(xp.eye(2), 0.5), LayoutTypeError),
    ],
)
def test_shapes_and_axes_that_do_not_fit_are_layout_errors(xp: Any, name: str, call: Any, kind: Any) -> None:
    with pytest.raises(kind, match=name):
        call(xp, xp.ones(4))
