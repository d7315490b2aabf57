"""Calls as CuPy and PyCUDA have them: size=, block_size=, range=, slice= and options=, and bodies that do nothing."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.kernels.emulated import run_on_cuda
from xferlib.errors import KernelSyntaxError, KernelTypeError

double = xl.elementwise("float *x, float *y", "y[i] = 2 * x[i]", name="double_it")
count_up = xl.elementwise("", "raw int32 y", "y[i] = i * 2")
nothing = xl.elementwise("T x", "T y", "")


def _pair(count: int = 6) -> tuple[Any, Any]:
    return xl.to_device(np.arange(count, dtype="float32")), xl.to_device(np.full(count, -1, "float32"))


# --- size=


def test_an_omitted_raw_output_has_the_given_size(library: str) -> None:
    assert xl.to_host(count_up(size=5)).tolist() == [0, 2, 4, 6, 8]
    assert xl.to_host(count_up(size=0)).shape == (0,)
    y = xl.to_device(np.zeros(4, "int32"))
    assert count_up(y, size=2) is y
    assert xl.to_host(y).tolist() == [0, 2, 0, 0]


@pytest.mark.parametrize(
    ("kernel", "args", "options"),
    [
        (count_up, (np.zeros(3, "int32"),), {}), (count_up, (), {"size": -1}), (nothing, (np.zeros(3),), {"size": 3}),
        (xl.elementwise("T x", "raw T y", "y[i] = x"), (np.zeros(3),), {}),
    ],
    ids=["no size", "negative", "another shape", "raw output beside an array with a shape"],
)  # fmt: skip
def test_a_size_that_does_not_fit_is_an_error_of_shape_and_of_kind(kernel: Any, args: Any, options: Any) -> None:
    with pytest.raises(ValueError):
        kernel(*args, **options)
    with pytest.raises(TypeError):
        kernel(*args, **options)


# --- bodies that do nothing


def test_a_kernel_without_statements_leaves_its_arrays_alone(library: str) -> None:
    x, y = _pair()
    assert nothing(x, y) is y
    assert xl.to_host(y).tolist() == [-1] * 6
    assert xl.elementwise("float *x", ";")(x) is None
    made = nothing(x)
    assert xl.to_host(xl.zeros_like(made)).tolist() == [0] * 6
    with pytest.raises(ValueError, match="shape"):
        nothing(x, xl.to_device(np.zeros(5, "float32")))


# --- block_size=


@pytest.mark.parametrize("threads", [1, 33, 256, 1024, np.int32(64)])
def test_the_size_of_a_block_changes_no_bit(library: str, threads: Any) -> None:
    x = xl.to_device(np.linspace(-4, 4, 5000, dtype="float32").reshape(50, 100))
    wave = xl.elementwise("T x, T y", "T z", "z = sin(x) * y + x")
    for y in (x, x[:, ::-1] if library in ("numpy", "sim", "cupy") else x * 2):
        assert np.array_equal(xl.to_host(wave(x, y, block_size=threads)), xl.to_host(wave(x, y)))


@pytest.mark.parametrize(
    ("threads", "error"), [(0, ValueError), (1025, ValueError), ("64", TypeError), (True, TypeError)]
)
def test_a_block_that_no_gpu_has_is_refused(threads: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="block_size"):
        double(*_pair(), block_size=threads)


# --- range= and slice=


@pytest.mark.parametrize(
    ("option", "chosen"),
    [("range", slice(2, 4)), ("range", range(1, 6, 2)), ("range", slice(5, 0, -2)), ("range", slice(3)),
     ("slice", slice(-2, None)), ("slice", slice(None, None, -3)), ("slice", slice(1, -1)), ("range", slice(4, 4)),
     ("slice", slice(9, 20))],
    ids=repr,
)  # fmt: skip
def test_a_part_of_the_elements_is_computed(library: str, option: str, chosen: Any) -> None:
    x, y = _pair()
    for _ in range(2):
        options: Any = {option: chosen}
        assert double(x, y, **options) is None
    expected = np.full(6, -1.0)
    numbers = np.arange(6)[chosen] if isinstance(chosen, slice) else np.array(chosen)
    expected[numbers] = 2 * numbers
    assert xl.to_host(y).tolist() == expected.tolist()


@settings(max_examples=30)
@given(st.slices(7), st.slices(9))
def test_every_slice_is_numpys(one: slice, other: slice) -> None:
    add = xl.elementwise("int *x, int k", "x[i] += k + i")
    for chosen, size in ((one, 7), (other, 9)):
        x, expected = np.zeros(size, "int32"), np.zeros(size, "int32")
        expected[chosen] += 3 + np.arange(size, dtype="int32")[chosen]
        add(x, 3, slice=chosen)
        assert x.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("options", "error"),
    [({"range": slice(0, 7)}, ValueError), ({"range": slice(-1, 3)}, ValueError), ({"range": 3}, TypeError),
     ({"slice": range(3)}, TypeError), ({"range": slice(0, 2), "slice": slice(0, 2)}, TypeError),
     ({"slice": slice(0, 2, 0)}, TypeError), ({"slice": slice(0.5)}, TypeError),
     ({"range": slice(0, 2), "size": 2}, TypeError)],
    ids=repr,
)  # fmt: skip
def test_a_part_that_does_not_exist_is_refused(options: Any, error: type[Exception]) -> None:
    x, y = _pair()
    with pytest.raises(error):
        double(x, y, **options)
    assert xl.to_host(y).tolist() == [-1] * 6


def test_parts_are_for_pycudas_notation_and_arrays() -> None:
    with pytest.raises(KernelTypeError, match="PyCUDA's notation"):
        xl.elementwise("T x", "T y", "y = x")(np.ones(3), np.ones(3), range=slice(0, 2))
    with pytest.raises(KernelTypeError, match="first array"):
        xl.elementwise("float *x, int k", "x[i] = k")(1, 2, slice=slice(0, 2))


def test_parts_on_two_arrays_of_which_one_is_indexed_further(library: str) -> None:
    x, y = _pair()
    shift = xl.elementwise("float *x, float *y", "y[i] = x[i + 1] - x[i]")
    shift(x, y, slice=slice(0, -1))
    assert xl.to_host(y).tolist() == [1] * 5 + [-1]


def test_a_python_function_may_have_such_a_keyword_of_its_own() -> None:
    kernel = xl.elementwise(lambda x, *, block_size: x * block_size)
    assert kernel(np.arange(3), block_size=5).tolist() == [0, 5, 10]


def test_a_kernel_that_was_called_by_parts_can_be_pickled() -> None:
    x, y = _pair()
    double(x, y, range=slice(0, 1))
    pickle.loads(pickle.dumps(double))(x, y, range=slice(1, 2))
    assert xl.to_host(y).tolist()[:3] == [0, 2, -1]


# --- options=


def test_macros_replace_words_everywhere(library: str) -> None:
    options = ("-DSCALE=twice(3)", "-DREAL=double", "--std=c++17")
    kernel = xl.elementwise(
        "T x", "T y", "y = x * SCALE", preamble="__device__ REAL twice(REAL v) { return 2 * v; }", options=options
    )
    assert xl.to_host(kernel(xl.to_device(np.arange(3.0)))).tolist() == [0, 6, 12]
    total = xl.reduction("T x", "T y", map_expr="x * K", reduce_expr="a + b", identity="0", options=["-D K=3"])
    assert xl.to_host(total(xl.to_device(np.arange(4.0)))).tolist() == 18
    fast = xl.elementwise("T x", "T y", "y = exp(x)", options=("--use_fast_math",))
    assert xl.to_host(fast(xl.to_device(np.zeros(2, "float32")))).tolist() == [1, 1]


@pytest.mark.parametrize("options", [("--fmad=true",), ("-arch=sm_90",), "-DX", (3,)], ids=repr)
def test_options_that_mean_nothing_on_a_cpu_are_refused(options: Any) -> None:
    with pytest.raises(KernelSyntaxError, match="options"):
        xl.elementwise("T x", "T y", "y = x", options=options)
    with pytest.raises(KernelTypeError, match="options= is for C snippets"):
        xl.elementwise(lambda x: x, options=options)


# --- the source for GPUs, compiled as C++


@pytest.mark.parametrize("threads", [1, 33, 96])
def test_the_source_for_gpus_computes_each_element_with_any_block(threads: int, kernels_apart: None) -> None:
    program = (
        xl.elementwise("T x", "T y", "y = x + 1").definition.specialize((np.dtype("f4"),) * 2, frozenset()).program
    )
    source = np.arange(500, dtype="f4").reshape(20, 25)
    for x, y in ((source, np.zeros_like(source)), (source.T, np.zeros((25, 20), "f4"))):
        run_on_cuda(program, x.shape, {0: x, 1: y}, threads=threads)
        assert np.array_equal(y, x + 1)


def test_the_source_for_gpus_computes_a_part_of_the_elements(kernels_apart: None) -> None:
    definition: Any = double.definition
    part = definition.of_part(-2).specialize((np.dtype("f4"), np.dtype("f4"), int), frozenset({2}))
    x, y = np.arange(9, dtype="f4"), np.full(9, -1, "f4")
    run_on_cuda(part.program, (3,), {0: x, 1: y}, [np.int64(7)])
    assert y.tolist() == [-1, -1, -1, 6, -1, 10, -1, 14, -1]
