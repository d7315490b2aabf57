"""Scans, whole and in segments, sums over subsets, and errors of shape."""

from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.kernels import targets
from tests.kernels.bits import same_bits
from xferlib.errors import KernelShapeError, KernelSyntaxError, KernelTypeError, LayoutError
from xferlib.kernels import reductions

RUNNING = {
    "sum": (xl.scan("a + b", neutral="0"), lambda a, b: a + b, 0),
    "max": (xl.scan("max(a, b)", neutral="-100"), max, -100),
    "last": (xl.scan("b", neutral="7"), lambda a, b: b, 7),
}


def _segments(values: list[int], starts: list[bool]) -> list[list[int]]:
    """The values, cut before each start."""
    cuts = [n for n in range(len(values)) if n == 0 or starts[n]]
    return [values[one:two] for one, two in itertools.pairwise([*cuts, len(values)])]


@pytest.mark.parametrize("name", RUNNING)
@pytest.mark.parametrize("exclusive", [False, True])
def test_a_scan_gives_what_a_loop_gives(engine: targets.Target, name: str, exclusive: bool) -> None:
    kernel, function, neutral = RUNNING[name]

    @settings(max_examples=30)
    @given(st.lists(st.tuples(st.integers(-50, 50), st.booleans()), max_size=70), st.booleans())
    def check(elements: list[tuple[int, bool]], is_whole: bool) -> None:
        values, starts = [each for each, _ in elements], [start and not is_whole for _, start in elements]
        expected: list[int] = []
        for segment in _segments(values, starts):
            running = [*itertools.accumulate(segment, function)]
            expected += ([neutral, *running] if exclusive else running)[: len(segment)]
        segments = None if is_whole else engine.put(np.array(starts, bool))
        found = kernel(engine.put(np.array(values, np.int32)), exclusive=exclusive, segments=segments)
        assert engine.get(found).tolist() == expected

    check()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16", "int8", "uint64"])
def test_a_scan_has_the_same_bits_on_every_backend(engine: targets.Target, dtype: str) -> None:
    if engine.name == "pycuda" and dtype == "float16":
        pytest.skip("PyCUDA's own copies know no float16")
    x = np.random.default_rng(5).normal(size=1000) * 100
    x = x.astype(dtype) if dtype != "uint64" else np.abs(x).astype(dtype)
    starts = np.arange(1000) % 37 == 0
    running = xl.scan("a + b", neutral="0")
    for options in ({}, {"exclusive": True}, {"segments": starts}, {"segments": starts, "exclusive": True}):
        expected = running(x, **options)
        there = {name: engine.put(each) if isinstance(each, np.ndarray) else each for name, each in options.items()}
        assert same_bits(engine.get(running(engine.put(x), **there)), expected)


def test_a_scan_writes_to_an_array_and_may_be_in_place(engine: targets.Target) -> None:
    running = RUNNING["sum"][0]
    for n in (1, 5):
        x, out = engine.put(np.arange(n) + 1), engine.put(np.zeros(n, int))
        assert running(x, out=out) is out
        assert running(x, out=x) is x
        assert engine.get(x).tolist() == engine.get(out).tolist() == np.cumsum(np.arange(n) + 1).tolist()


def test_the_result_is_never_the_argument(engine: targets.Target) -> None:
    x = engine.put(np.ones(1))
    found = RUNNING["sum"][0](x)
    assert found is not x
    assert engine.get(found).tolist() == [1]


def test_a_scan_may_call_functions_of_its_preamble() -> None:
    twice = xl.scan("add(a, b)", preamble="__device__ float add(float a, float b) { return a + b; }")
    assert twice(np.ones(4, np.float32)).tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("name", ["d", "f", "g", "x", "y", "n", "v", "begins", "count"])
@pytest.mark.parametrize(
    "declared",
    ["const T @ = 2;", "constexpr int @ = 2;", "#define @ 2\n", "enum { @ = 2 };", "int @(int k) { return k; }"],
)
def test_a_scans_own_names_are_no_names_of_the_preamble(declared: str, name: str) -> None:
    used = f"{name}(2)" if "return" in declared else name
    kernel = xl.scan(f"a + b * ({used} - 1)", neutral=f"{used} - 2", preamble=declared.replace("@", name))
    x = np.arange(1.0, 6.0)
    starts = np.array([0, 0, 1, 0, 0], bool)
    assert kernel(x).tolist() == [1, 3, 6, 10, 15]
    assert kernel(x, segments=starts).tolist() == [1, 3, 3, 7, 12]
    assert kernel(x, segments=starts, exclusive=True).tolist() == [0, 1, 0, 3, 7]


@pytest.mark.parametrize(
    "expression", ["a + y", "a + xf_y", "a + i", "a + x[i]", "a = b", "a; b", "a +", "xf_combined(a, b)"]
)
def test_a_scans_expression_knows_two_values(expression: str) -> None:
    with pytest.raises((KernelSyntaxError, KernelTypeError)):
        xl.scan(expression)(np.ones(4))


def test_a_scan_refuses_what_it_cannot_take() -> None:
    running, x = RUNNING["sum"][0], np.ones(4)
    for wrong in (np.ones((2, 2)), np.float64(1), np.ones(())):
        with pytest.raises(KernelShapeError, match="one axis"):
            running(wrong)
    with pytest.raises(ValueError, match="3 elements and x 4"):
        running(x, segments=np.zeros(3, bool))
    with pytest.raises(TypeError, match="dtype int64"):
        running(x, segments=np.zeros(4, int))
    for each in (None, [1, 2], 5):
        with pytest.raises(KernelTypeError, match="not an array"):
            running(each)
    with pytest.raises(KernelTypeError, match="neutral element"):
        xl.scan("a + b")(x, exclusive=True)
    with pytest.raises(LayoutError, match="shape"):
        running(x, out=np.zeros(3))
    with pytest.raises(KernelSyntaxError):
        xl.scan("a +")


def test_a_scan_travels() -> None:
    running = RUNNING["max"][0]
    assert copy.copy(running) is copy.deepcopy(running) is running
    assert pickle.loads(pickle.dumps(running))(np.array([1, 3, 2]), exclusive=True).tolist() == [-100, 1, 3]


# --- dot and subsets


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "complex64", "bool"])
def test_dot_is_the_sum_of_the_products(engine: targets.Target, dtype: str) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 2 if dtype == "bool" else 9, 300).astype(dtype) for _ in range(2))
    found = engine.get(reductions.dot(engine.put(x), engine.put(y)))
    wide = x.astype({"bool": "i8", "uint8": "u8", "int32": "i8"}.get(dtype, dtype))
    assert (found, found.dtype) == (np.sum(wide * y), wide.dtype)


def test_dot_promotes_and_reduces_along_an_axis(engine: targets.Target) -> None:
    x, y = np.arange(6, dtype=np.int32).reshape(2, 3), np.arange(3, dtype=np.float32)
    found = engine.get(reductions.dot(engine.put(x), engine.put(y), axis=1))
    assert (found.tolist(), found.dtype) == ([5, 14], np.dtype("float64"))


def test_subsets_are_summed_and_searched(engine: targets.Target) -> None:
    x, y = np.arange(10, dtype=np.float32) - 3, np.arange(10, dtype=np.float32)
    for index_dtype in ("int32", "int64", "uint32"):
        subset = np.array([7, 2, 2, 5], index_dtype)
        d, s, e = engine.put(x), engine.put(subset), engine.put(y)
        assert engine.get(reductions.subset_sum(s, d)) == x[subset].sum()
        assert engine.get(reductions.subset_min(s, d)) == -1
        assert engine.get(reductions.subset_max(s, d)) == 4
        assert engine.get(reductions.subset_dot(s, d, e)) == np.dot(x[subset], y[subset])


# --- errors


def test_errors_of_shape_are_value_errors_and_type_errors() -> None:
    add = xl.elementwise("T x, T y", "T z", "z = x + y")
    cases: list[tuple[Any, ...]] = [
        (add, np.zeros(3), np.zeros(4)),
        (lambda x: reductions.sum(x, axis=2), np.zeros(3)),
        (lambda x: reductions.sum(x, axis=(0, 0)), np.zeros(3)),
        (reductions.min, np.zeros(0)),
        (reductions.dot, np.zeros(3), np.zeros(4)),
    ]
    for call, *args in cases:
        with pytest.raises(KernelShapeError) as caught:
            call(*args)
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, KernelTypeError)
    with pytest.raises(ValueError, match="shape"):
        add(np.zeros(3), np.zeros(3), np.zeros(4))
    with pytest.raises(TypeError):
        add(np.zeros(3))


def test_a_message_shows_the_expression_alone() -> None:
    for expression in ("a + c", "a + d", "x[i]"):
        with pytest.raises(KernelSyntaxError, match="known here are a, b, xf_result\n    xf_result = "):
            xl.scan(expression)
