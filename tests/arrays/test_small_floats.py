"""Namespaces with bfloat16 and float8: functions are those of float32, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xferlib as xl
from tests.needed import among, need
from tests.processes import printed
from xferlib.errors import UnsupportedDTypeError

ml_dtypes = pytest.importorskip("ml_dtypes")

Space = Any
Array = np.ndarray[Any, Any]

EXACT: dict[str, tuple[Callable[[Space, Any], Any], Callable[[Array], Any]]] = {
    "sort": (lambda xp, x: xp.sort(x), np.sort),
    "argsort": (lambda xp, x: xp.argsort(x), lambda x: np.argsort(x, kind="stable")),
    "unique": (lambda xp, x: xp.unique_values(x[0, 30:]), lambda x: np.unique(x[0, 30:])),
    "searchsorted": (
        lambda xp, x: xp.searchsorted(xp.sort(x[0]), x[1]),
        lambda x: np.searchsorted(np.sort(x[0]), x[1]),
    ),
    "roll": (lambda xp, x: xp.roll(x, 3, axis=1), lambda x: np.roll(x, 3, axis=1)),
    "nonzero": (lambda xp, x: xp.nonzero(x)[1], lambda x: np.nonzero(x)[1]),
    "where": (lambda xp, x: xp.where(x > 0, x, 0), lambda x: np.where(x > 0, x, 0)),
    "clip": (lambda xp, x: xp.clip(x, -1, 1), lambda x: np.clip(x, -1, 1)),
    "mask": (lambda xp, x: x[x > 0], lambda x: x[x > 0]),
    "take": (lambda xp, x: xp.take(x, xp.asarray([1, 0]), axis=1), lambda x: x[:, [1, 0]]),
    "concat": (lambda xp, x: xp.concat([x, x]), lambda x: np.concatenate([x, x])),
    "max": (lambda xp, x: xp.max(x[:, 30:], axis=1), lambda x: x[:, 30:].max(1)),
    "argmin": (lambda xp, x: xp.argmin(x[:, 30:], axis=1), lambda x: x[:, 30:].argmin(1)),
    "isnan": (lambda xp, x: xp.isnan(x), np.isnan),
}
ROUNDED: dict[str, tuple[Callable[[Space, Any], Any], Callable[[Array], Any]]] = {
    "diff": (lambda xp, x: xp.diff(x, axis=1), lambda x: np.diff(x, axis=1)),
    "sum": (lambda xp, x: xp.sum(x, axis=0), lambda x: x.sum(0)),
    "mean": (lambda xp, x: xp.mean(x), np.mean),
    "std": (lambda xp, x: xp.std(x), np.std),
    "cumulative_sum": (lambda xp, x: xp.cumulative_sum(x, axis=1), lambda x: np.cumsum(x, axis=1)),
    "matmul": (lambda xp, x: x @ x.T, lambda x: x @ x.T),
    "vecdot": (lambda xp, x: xp.vecdot(x, x), lambda x: (x * x).sum(1)),
    "add": (lambda xp, x: x + 0.1, lambda x: x + float(ml_dtypes.bfloat16(0.1))),
    "divide": (lambda xp, x: 1 / (x + 8), lambda x: 1 / (x.astype(ml_dtypes.bfloat16) + 8).astype(np.float64)),
}


@pytest.fixture(params=among("sim", "pycuda"))
def space(request: pytest.FixtureRequest) -> Space:
    need(request.param)
    with xl.use_backend(request.param):
        yield xl.get_array_module(xl.zeros(1))


def numbers(*, has_nan: bool) -> Array:
    x = np.random.default_rng(1).standard_normal((3, 400)).astype(ml_dtypes.bfloat16)
    x[:, :30:5], x[:, 1:30:5] = 0, -0.0
    if has_nan:
        x[:, 2:30:5] = np.nan
    return x


@pytest.fixture(params=among("sim", "pycuda", "torch"))
def any_space(request: pytest.FixtureRequest) -> Space:
    need(request.param)
    with xl.use_backend(request.param):
        yield xl.get_array_module(xl.zeros(1))


@pytest.mark.parametrize("name", EXACT)
def test_what_chooses_is_exact(any_space: Space, name: str) -> None:
    function, numpys = EXACT[name]
    x = numbers(has_nan=name in ("sort", "argsort", "isnan", "roll", "concat"))
    found = xl.to_host(function(any_space, xl.to_device(x)))
    expected = np.asarray(numpys(x.astype(np.float32)))
    if expected.dtype == np.float32:
        assert found.dtype == x.dtype
        found = found.astype(np.float32)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ROUNDED)
def test_what_computes_is_rounded_once(space: Space, name: str) -> None:
    """Sums in float32 differ in their last bits by the order, which may decide a rounding."""
    function, numpys = ROUNDED[name]
    x = numbers(has_nan=False)
    found = xl.to_host(function(space, xl.to_device(x)))
    expected = np.asarray(numpys(x.astype(np.float64)))
    assert found.dtype == x.dtype
    scale = np.maximum(np.abs(expected), 1e-3 * np.abs(expected).max())
    assert np.all(np.abs(found.astype(np.float64) - expected) <= 2.0**-8 * scale)


def calls(x: Any) -> list[tuple[Any, ...]]:
    """Arguments with which a function may be called."""
    return [(x,), (x, x), (x, x, x), (x[0], x[0]), ([x, x],), (x, 2.0), (x, 1), (x, x > 1, x)]


def try_call(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return error


def test_what_takes_float16_takes_bfloat16(any_space: Space) -> None:
    """Each function, called in each way in which it takes float16 and float32."""
    data = np.array([[1, 2, 0.5], [3, 1, 2], [2, 5, 4]], np.float32)
    kinds = [[*calls(xl.to_device(data, dtype=dtype))] for dtype in ("float32", "float16", "bfloat16")]
    with xl.use_backend("sim"):
        names = [*dir(xl.get_array_module(xl.zeros(1)))]
    count = 0
    for name in names:
        function = getattr(any_space, name, None)
        if name.startswith("_") or not callable(function) or isinstance(function, type):
            continue
        for ways in zip(*kinds, strict=True):
            wide, half, small = (try_call(function, each) for each in ways)
            if isinstance(wide, Exception) or isinstance(half, Exception):
                continue
            count += 1
            assert not isinstance(small, Exception), (name, ways[2], small)
            if xl.is_array(small) and "empty" not in name:
                found, expected = (np.asarray(xl.to_host(each), np.complex128) for each in (small, wide))
                np.testing.assert_allclose(found, expected, rtol=2**-6, atol=2**-6, err_msg=name)
    assert count > 300


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_left_shift", "bitwise_invert"])
def test_functions_of_integers_refuse_bfloat16(any_space: Space, name: str) -> None:
    x = any_space.ones(3, dtype=any_space.bfloat16 if any_space.__name__.endswith("torch.namespace") else "bfloat16")
    with pytest.raises(TypeError, match=rf"{name}.*bfloat16"):
        getattr(any_space, name)(*[x] * (1 if name == "bitwise_invert" else 2))


def test_dtypes_of_bfloat16_with_others_in_torch() -> None:
    x = xl.to_device(np.array([[1, 2], [3, 5]], np.float32), backend="torch", dtype="bfloat16")
    xp: Space = xl.get_array_module(x)
    for name, wanted in {"float32": "float32", "float16": "float32", "int64": "bfloat16", "float64": "float64"}.items():
        other = xp.astype(x, getattr(xp, name))
        for one, two in ((x, other), (other, x)):
            assert xp.result_type(one, two) == getattr(xp, wanted)
            assert xp.matmul(one, two).dtype == getattr(xp, wanted)
            assert xl.to_host(xp.isin(one, two)).all()
            assert xl.to_host(xp.searchsorted(one[0], two[0])).tolist() == [0, 1]
    assert xp.result_type(x, 1j) == xp.complex64
    small = xl.to_device(np.array([1, 2, 3], np.float32), backend="torch", dtype="float8_e4m3fn")
    assert xl.to_host(xp.searchsorted(small, small)).tolist() == [0, 1, 2]
    with pytest.raises(UnsupportedDTypeError, match=r"xp\.astype\(x, xp\.float32\)"):
        xp.result_type(x, xl.to_device(np.ones(1, np.float32), backend="torch", dtype="float8_e5m2"))


def test_dtypes_of_a_namespace(space: Space) -> None:
    x, y = space.zeros(3, dtype="bfloat16"), space.ones(3, dtype="float8_e4m3fn")
    assert space.isdtype(x.dtype, "real floating")
    assert space.isdtype(x.dtype, ("integral", x.dtype))
    assert not space.isdtype(x.dtype, "complex floating")
    assert space.finfo(x).max == float(ml_dtypes.finfo("bfloat16").max)
    assert space.result_type(x, "int32") == x.dtype
    assert space.result_type(x, y) == (x + y).dtype == np.float32
    assert space.astype(y, "bfloat16").dtype == x.dtype
    assert space.finfo("float8_e5m2").max == 57344
    assert space.result_type("bfloat16", "float32") == np.float32
    assert space.result_type("bfloat16", "int8") == x.dtype


def test_dtypes_of_the_exact_namespace_of_numpys() -> None:
    x = np.ones(3, ml_dtypes.bfloat16)
    xp: Space = xl.get_exact_module(x)
    assert xp.isdtype(x.dtype, "real floating")
    assert not xp.isdtype(x.dtype, ("integral", np.dtype(np.float32)))
    assert xp.isdtype(np.dtype(np.float32), "real floating")
    for of in (x, x.dtype, "bfloat16"):
        assert (xp.finfo(of).bits, xp.finfo(of).eps) == (16, 2.0**-7)
    assert xp.finfo(np.float32).bits == xp.finfo("float32").bits == 32
    assert xp.astype(x, "float8_e4m3fn").dtype == ml_dtypes.float8_e4m3fn


def test_a_dtype_is_known_though_no_array_of_it_was_met() -> None:
    code = (
        "import numpy as np, ml_dtypes, xferlib as xl\n"
        "xp, dtype = xl.get_array_module(xl.zeros(3, backend='sim')), np.dtype(ml_dtypes.bfloat16)\n"
        "assert xp.{}"
    )
    for question in ("isdtype(dtype, 'real floating')", "finfo(dtype).bits == 16"):
        printed("-c", code.format(question))


def test_packed_numbers_are_moved_but_not_compared() -> None:
    x = xl.to_device(np.arange(6, dtype=np.uint8).view([("int4_x2", "u1")]).reshape(2, 3), backend="sim")
    space: Space = xl.get_array_module(x)
    assert xl.to_host(x.T[::-1]).view(np.uint8).tolist() == [[2, 5], [1, 4], [0, 3]]
    refused: list[Callable[[], Any]] = [
        lambda: space.sort(x), lambda: space.argsort(x), lambda: space.unique_values(x), lambda: x + 1, lambda: x == x,
        lambda: space.sum(x), lambda: space.searchsorted(x[0], x[1]), lambda: space.astype(x, "int8"),
        lambda: space.max(x), lambda: space.cumulative_sum(x, axis=1), lambda: space.where(x, 1, 0), lambda: x @ x.T,
        lambda: xl.arange(3, dtype="int4_x2"), lambda: xl.eye(3, dtype="uint4_x2"),
        lambda: xl.explain(xl.to_host(x), dtype="float32"),
    ]  # fmt: skip
    for call in refused:
        with pytest.raises(UnsupportedDTypeError, match=r"int4_x2, two numbers .*; view it as 'uint8' and unpack it"):
            call()
    assert xl.to_host(space.full(2, 1.7, dtype="bfloat16")).tolist() == [1.703125] * 2


MOVES: dict[str, Callable[[Space, Any], Any]] = {
    "roll": lambda xp, x: xp.roll(x, (1, -2), axis=(0, 1)),
    "roll of all": lambda xp, x: xp.roll(x, 5),
    "concat": lambda xp, x: xp.concat([x, x[::-1]], axis=1),
    "stack": lambda xp, x: xp.stack([x, x], axis=1),
    "repeat": lambda xp, x: xp.repeat(x, 3, axis=1),
    "repeat each": lambda xp, x: xp.repeat(x, xp.asarray([2, 0, 1]), axis=0),
    "tile": lambda xp, x: xp.tile(x, (2, 1, 3)),
    "take": lambda xp, x: xp.take(x, xp.asarray([2, 0]), axis=1),
    "rows": lambda xp, x: x[xp.asarray([2, 0])],
    "mask": lambda xp, x: x[xp.asarray([True, False, True])],
    "flip": lambda xp, x: xp.asarray(xp.flip(x), copy=True),
}


@pytest.mark.parametrize("name", ["int4_x2", "uint4_x2", "float4_e2m1fn_x2", "float8_e8m0fnu"])
@pytest.mark.parametrize("move", MOVES)
def test_what_only_moves_is_moved_by_a_namespace(space: Space, move: str, name: str) -> None:
    bits = np.arange(12, dtype=np.uint8).reshape(3, 4) * 7
    dtype = xl.empty(1, name, backend="sim").dtype
    found = xl.to_host(MOVES[move](space, xl.to_device(bits.view(dtype))))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.view(np.uint8), xl.to_host(MOVES[move](space, xl.to_device(bits))))


@pytest.mark.parametrize("name", ["int4_x2", "float8_e8m0fnu"])
def test_what_only_moves_is_assigned(space: Space, name: str) -> None:
    bits = np.arange(12, dtype=np.uint8).reshape(3, 4) * 7
    dtype = xl.empty(1, name, backend="sim").dtype
    x, y = (xl.to_device(bits.view(each)) for each in (dtype, np.uint8))
    for each in (x, y):
        each[0] = each[2]
        each[1:, ::2] = each[1:, 1::2][:, ::-1]
        each[space.asarray([2, 0])] = xl.to_device(xl.to_host(each[:2]))
        each[:2] = each[1:]  # which overlap
    np.testing.assert_array_equal(xl.to_host(x).view(np.uint8), xl.to_host(y))
    with pytest.raises(UnsupportedDTypeError, match="only move"):
        x[0] = y[0]
