"""Reductions: the fixed tree against its definition, every library, and what is refused."""

import dataclasses
import itertools
import math
import sys
import threading
from typing import Any, cast
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import xferlib
from tests.kernels.bits import FLOATS, INTEGERS, random_bits, same_bits, specials, unread_around
from tests.kernels.emulated import Emulator
from tests.sizes import IS_LONG, crossed, some
from xferlib.backends.base import ArrayInfo
from xferlib.errors import KernelSyntaxError, KernelTypeError, LayoutError
from xferlib.kernels import (
    arguments,
    cuda_launch,
    cuda_reduction,
    host_compiler,
    native_reduction,
    numpy_reduction,
    reduction,
    reductions,
)
from xferlib.kernels.numpy_engine import BlockFunction
from xferlib.kernels.numpy_reduction import NumpyReduction
from xferlib.kernels.reduction import ReductionKernel
from xferlib.kernels.small_floats import store_bits_of
from xferlib.testing import configured

needs_compiler = pytest.mark.skipif(host_compiler.find_compiler() is None, reason="there is no C compiler")
LENGTHS = (1, 2, 3, 15, 16, 17, 100, 511, 512, 513, 1025, 4095, 4096, 4097, 32768, 40961)


def tree(values, combine):
    """The definition of the order, one number at a time."""
    nodes = list(values)
    while len(nodes) > 1:
        nodes = [combine(*nodes[k : k + 2]) if k + 1 < len(nodes) else nodes[k] for k in range(0, len(nodes), 2)]
    return nodes[0]


def repeat_compiled(name, operands, axes, *, least_part=None):
    """The results of three calls of a reduction by compiled C, in parts for two threads where their least is given."""
    kernel = ReductionKernel(getattr(reductions, name).definition)
    with configured(cpu="native"), pytest.MonkeyPatch.context() as patch:
        if least_part is not None:
            patch.setattr(native_reduction, "_LEAST_PART", least_part)
            patch.setattr(native_reduction, "helper_count", lambda *_: 2)
        found = [kernel(*operands, axis=axes) for _ in range(3)]
    assert any(each.function for each in kernel._dispatch._natives.values())
    return found


def reduce_by_numpy(name, operands, axes):
    with configured(cpu="numpy"):
        return ReductionKernel(getattr(reductions, name).definition)(*operands, axis=axes)


def check_compiled(name, operands, axes, **options):
    """Hold a reduction by compiled C against the NumPy engine; ``options`` are those of `repeat_compiled`."""
    expected = reduce_by_numpy(name, operands, axes)
    assert all(same_bits(each, expected) for each in repeat_compiled(name, operands, axes, **options))


@pytest.mark.parametrize("length", LENGTHS)
def test_sum_follows_the_tree(length):
    x = np.random.default_rng(length).standard_normal(length).astype(np.float32)
    assert reductions.sum(x)[()] == tree(list(x), lambda a, b: a + b)


def test_the_order_matters():
    x = np.random.default_rng(0).standard_normal(40961).astype(np.float32)
    assert len({float(tree(list(x), lambda a, b: a + b)), float(np.cumsum(x)[-1]), float(x.sum())}) > 1


def test_an_axis_that_numpy_computed_is_one(target):
    x = target.put(np.arange(24, dtype=np.int32).reshape(2, 3, 4))
    for axis, same in ((np.int64(1), 1), (np.int8(-1), -1), ((np.uint8(2), np.int64(0)), (2, 0))):
        found, expected = (target.get(reductions.sum(x, axis=each)) for each in (axis, same))
        assert same_bits(found, expected)
    for wrong in (True, 1.0, np.float32(1), "1"):
        with pytest.raises(KernelTypeError, match="is neither an int nor a tuple of ints"):
            reductions.sum(x, axis=wrong)
    with pytest.raises(KernelTypeError, match="out of range for 3 dimension"):
        reductions.sum(x, axis=np.int64(3))


def test_nan_and_ties():
    x = np.array([3.0, 1.0, 1.0, np.nan, 5.0, np.nan])
    assert reductions.argmax(x) == 3 == np.argmax(x)
    assert reductions.argmin(x) == 3 == np.argmin(x)
    assert reductions.argmin(x[:3]) == 1
    assert math.isnan(reductions.max(x))
    assert same_bits(reductions.min(np.array([0.0, -0.0])), np.array(-0.0))


def test_mean_var_and_norm_against_exact_sums():
    x = np.random.default_rng(1).standard_normal((5, 3000))
    mean = np.array([math.fsum(row) / 3000 for row in x])
    np.testing.assert_allclose(reductions.mean(x, axis=1), mean, rtol=0, atol=20 * 2**-53)  # 17 additions deep
    spread = np.array([math.fsum((row - m) ** 2) / 2999 for row, m in zip(x, mean, strict=True)])
    np.testing.assert_allclose(reductions.var(x, axis=1, ddof=1), spread, rtol=25 * 2**-53)
    assert reductions.norm(np.array([3.0, 4.0])) == 5


@given(
    dtype=st.sampled_from(["f4", "f8", "c8", "f2"]),
    shape=st.sampled_from([(1,), (2,), (777,), (3, 501), (65, 7), (5, 3, 40)]),
    mean=st.sampled_from([0, 1, -300, 1e6]),
    ddof=st.integers(0, 2),
    data=st.data(),
)
def test_a_large_mean_costs_the_variance_no_digits(dtype, shape, mean, ddof, data):
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1)).map(sorted).map(tuple))
    x = np.random.default_rng(data.draw(st.integers(0, 99))).standard_normal(shape)
    x = (x + (1j * x[..., ::-1] if dtype == "c8" else 0) + (mean if dtype != "f2" else 3)).astype(dtype)
    wide = x.astype(np.clongdouble if dtype == "c8" else np.longdouble)
    with np.errstate(all="ignore"):
        apart = wide - wide.mean(axes, keepdims=True)
        count = math.prod(shape[axis] for axis in axes)
        expected = (apart.real**2 + apart.imag**2).sum(axes) / max(count - ddof, 0)
    bound = 1e-3 if dtype == "f2" else 2e-5 if dtype in ("f4", "c8") else 1e-13
    np.testing.assert_allclose(reductions.var(x, axis=axes, ddof=ddof), expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("values", [[np.inf, 1, 2], [1, 2, np.inf], [1, np.nan], [1, -np.inf, np.inf, 3], [np.inf]])
def test_the_variance_of_what_is_not_finite(values):
    assert np.isnan(reductions.var(np.array(values)))
    assert np.isnan(reductions.var(np.array(values, np.float32)))


def test_complex():
    x = np.array([1 + 2j, 3 - 1j, -2j], np.complex64)
    assert reductions.sum(x) == 4 - 1j
    assert reductions.prod(x) == (1 + 2j) * (3 - 1j) * -2j
    assert reductions.norm(np.array([3 + 4j], np.complex64)).dtype == np.float32


SHAPES = [
    ((40, 515), 1), ((515, 40), 0), ((33, 5), 1), ((40961,), None), ((4, 130, 33), (0, 2)), ((9000, 3), 0),
    ((7, 9000), 1), ((5000, 64), 0), ((300, 64), 1), ((3, 100_000), 1), ((2, 4096), 1), ((600, 8), 0), ((3, 33, 7), 1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["bool", "int8", *INTEGERS[4:], *FLOATS, "complex64"])
@pytest.mark.parametrize("name", ["sum", "prod", "min", "argmax", "mean", "any", "norm"])
def test_every_library_gives_the_same_bits(name, dtype, target):
    kernel = getattr(reductions, name)
    if np.dtype(dtype).kind == "c" and name in ("min", "argmax"):
        pytest.skip("complex numbers have no order")
    for shape, axis in SHAPES:
        x = random_bits(dtype, math.prod(shape)).reshape(shape)
        if np.dtype(dtype).kind in "fc":
            x = np.where(np.isfinite(x), x, 1).astype(dtype)
        expected = kernel(x, axis=axis)
        assert same_bits(target.get(kernel(target.put(x), axis=axis)), expected), (shape, axis)


def test_strided_and_misaligned_input(target):
    x = random_bits("int32", 70 * 1100).reshape(70, 1100)
    d = target.put(x)
    for view in (lambda a: a[:, 1:], lambda a: a[::2, ::3], lambda a: a[1:].T):
        for axis in (0, 1):
            expected = reductions.sum(view(x), axis=axis)
            assert same_bits(target.get(reductions.sum(view(d), axis=axis)), expected)


def test_cupy_mean_with_sizes():
    mean = reduction("T x", "T y", map_expr="x", reduce_expr="a + b",
                     post_map_expr="y = a / (_in_ind.size() / _out_ind.size())", identity="0")  # fmt: skip
    assert mean(np.arange(12.0).reshape(3, 4), axis=0).tolist() == [4, 5, 6, 7]


def test_a_single_output_is_the_accumulator(target):
    total = reduction("T x", "float32 y", map_expr="x * x", reduce_expr="a + b", identity="0")
    assert target.get(total(target.put(np.arange(4, dtype=np.int64)))).item() == 14


def test_pycuda_form(target):
    dot = reduction("float *x, float *y", map_expr="x[i]*y[i]", reduce_expr="a+b", identity="0", dtype="float")
    x, y = np.arange(400, dtype=np.float32), np.ones(400, np.float32)
    assert dot(x, y) == 79800
    assert target.get(dot(target.put(x), target.put(y))) == 79800


@pytest.mark.parametrize("name", ["long long", "longlong", "q", "<i8", np.longlong, np.dtype("q"), np.dtype(">i8")])
def test_the_accumulators_dtype_has_any_name_of_c_or_numpy(name):
    total = reduction("T x", map_expr="x", reduce_expr="a+b", identity="0", dtype=name)(np.full(4, 100, np.int8))
    assert total.dtype == np.int64
    assert total == 400


def test_keepdims_out_and_broadcasting():
    x = np.ones((3, 4), np.float32)
    assert reductions.sum(x, axis=0, keepdims=True).shape == (1, 4)
    out = np.empty(3, np.float32)
    assert reductions.sum(x, axis=-1, out=out) is out
    assert out.tolist() == [4, 4, 4]


def test_empty_on_every_library(target):
    empty = target.put(np.empty((0, 3), np.float32))
    assert target.get(reductions.sum(empty, axis=0)).tolist() == [0, 0, 0]
    assert target.get(reductions.prod(empty, axis=0, keepdims=True)).tolist() == [[1, 1, 1]]
    assert target.get(reductions.norm(empty)).tolist() == 0
    assert target.get(reductions.sum(empty, axis=1)).shape == (0,)
    with pytest.raises(KernelTypeError, match="no identity"):
        reductions.max(empty, axis=0)


def test_calls_of_one_kind_see_their_own_arrays(target):
    for number in range(3):
        x = np.full((5, 7), number, np.float32)
        d = target.put(x)
        assert target.get(reductions.sum(d, axis=1)).tolist() == [7 * number] * 5
        assert target.get(reductions.sum(d)).tolist() == 35 * number
    with pytest.raises(KernelTypeError):
        reductions.sum(d, axis=True)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: reductions.sum(x, axis=2), KernelTypeError, "axis 2 is out of range"),
        (lambda x: reductions.sum(x, axis=(0, -2)), KernelTypeError, "names an axis twice"),
        (lambda x: reductions.sum(x, axis=0, out=np.empty(3)), LayoutError, r"shape \(3,\)"),
        (lambda x: reductions.sum(x, axis=0, out=np.empty(4, np.float32)), LayoutError, "dtype"),
        (lambda x: reductions.sum(x, axis=0, out=x[0]), KernelTypeError, "overlaps|is an input"),
        (lambda x: reductions.sum(3.0), KernelTypeError, "no argument is an array"),
        (lambda x: reductions.min(x * 1j), KernelTypeError, "not defined for complex128"),
        (lambda x: reduction("T x", "T y, T z", map_expr="x", reduce_expr="a")(x), KernelSyntaxError, "post_map_expr"),
        (lambda x: reduction("T x", map_expr="x", reduce_expr="a+b")(x), KernelSyntaxError, "dtype="),
        (lambda x: reduction("T x", map_expr="x", reduce_expr="a+c", dtype="T")(x), KernelSyntaxError, "'c' is not"),
        (lambda x: reduction("T x", map_expr="x", reduce_expr="a+b", dtype="U3")(x), KernelTypeError, "not a type of"),
    ],
)  # fmt: skip
def test_refused(call, error, words):
    with pytest.raises(error, match=words):
        call(np.ones((3, 4)))


@st.composite
def small_inputs(draw):
    """A reduction's name, and an input in shape (rows, count), of any layout, whose values are finite."""
    name = draw(st.sampled_from(["sum", "prod", "min", "max", "argmin", "argmax", "any", "mean", "norm"]))
    dtype = draw(st.sampled_from(["int8", "uint16", "int64", "bool", *FLOATS, "complex64"]))
    if dtype == "complex64" and name in ("min", "max", "argmin", "argmax"):
        dtype = "float32"
    count = draw(st.sampled_from([1, 2, 3, 8, 31, 255, 256, 257, 512, 513, 1024, 1500, 4096, 4097, 8192, 9000]))
    rows = draw(st.integers(1, max(1, min(40, 16_384 // count))))
    x = random_bits(dtype, 2 * rows * count, seed=draw(st.integers(0, 99))).reshape(rows, 2 * count)
    if x.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            x = np.where(np.isfinite(x), x, -0.0).astype(dtype)
        if draw(st.booleans()):  # numbers of one size show every rounding
            x = np.random.default_rng(rows).standard_normal(x.shape).astype(dtype)
    repeated = np.broadcast_to(x[:, :1], (rows, count))
    backwards = x[:, : count - 1 : -1], x[::-1, :count]
    layouts = (x[:, :count], x[:, ::2], *backwards, np.asfortranarray(x[:, :count]), repeated)
    return name, draw(st.sampled_from(layouts))


@settings(max_examples=60)
@given(small_inputs())
def test_every_way_of_the_cpu_gives_the_same_bits(example):
    """In memory of its own, in blocks, by whole blocks where the order is free, and by NumPy's own functions."""
    name, x = example
    spec = getattr(reductions, name).definition.specialize((x.dtype,), frozenset())
    results = []
    for has_shortcut, is_small, is_free, has_ufunc in itertools.product((True, False), repeat=4):
        plan = NumpyReduction(spec if has_shortcut else dataclasses.replace(spec, shortcut=None), *x.shape)
        plan._is_small &= is_small
        plan._free = plan._free if is_free else None
        plan._ufunc = plan._ufunc if has_ufunc else None
        out = np.empty(x.shape[0], spec.output_dtypes[0])
        for _ in range(2):  # the memory that a call leaves is taken by the next
            plan.run([x], [out])
        results.append(out)
    assert all(same_bits(results[0], each) for each in results[1:])
    if x.dtype.kind in "biu" and name in ("min", "max", "argmin", "argmax", "any", "sum", "prod"):
        assert np.array_equal(results[0], getattr(np, name)(x, axis=1))


def check_constant_counts(dtype, rows, count, ddof, is_transposed):
    dtype = np.dtype(dtype)
    values = np.random.default_rng(rows).standard_normal((2, rows, count)) * 3 + 1000
    x = (values[0] + 1j * values[1] if dtype.kind == "c" else values[0]).astype(dtype)
    if is_transposed:
        x = np.asfortranarray(x)
    spec = reductions._make_var(ddof).definition.specialize((dtype,), frozenset())
    results = []
    for found, is_small in itertools.product(({0}, set()), (True, False)):
        with mock.patch.object(numpy_reduction, "find_constant", lambda _, found=found: found):
            plan = NumpyReduction(spec, *x.shape)
        plan._is_small &= is_small
        results.append(np.empty(rows, spec.output_dtypes[0]))
        for _ in range(2):
            with np.errstate(all="ignore"):
                plan.run([x, np.broadcast_to(x[:, :1], x.shape)], results[-1:])
    assert numpy_reduction.find_constant(spec) == {0}
    assert all(same_bits(results[0], each) for each in results[1:])


@settings(max_examples=60)
@given(st.data())
def test_what_depends_on_the_number_of_elements_alone_costs_no_bit(data):
    """The counts of a variance are zero-dimensional where nodes have one size; without that each node has its own."""
    dtype = data.draw(st.sampled_from(["f2", "f4", "f8", "c8", "c16", "i4"]))
    count = data.draw(st.one_of(st.integers(1, 70), st.sampled_from([255, 257, 1023, 1024, 1025, 3000, 4096, 20_001])))
    rows = data.draw(st.integers(1, max(1, min(40, 40_000 // count))))
    check_constant_counts(dtype, rows, count, data.draw(st.integers(0, 2)), data.draw(st.booleans()))


@pytest.mark.parametrize("count", [1024, 1025, 1026, 1536, 2049, 3072])
@pytest.mark.parametrize("is_transposed", [True, False])
def test_the_last_piece_of_the_work_may_be_a_node_of_fewer_elements(count, is_transposed):
    check_constant_counts("f8", 40, count, 0, is_transposed)


@pytest.mark.parametrize("name", ["argmax", "argmin", "norm", "any", "max"])
@pytest.mark.parametrize("is_transposed", [False, True])
def test_numpy_maps_many_short_rows_together(name, is_transposed, monkeypatch):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.random.default_rng(5).integers(0, 4, (50_000, 3)).astype(ml_dtypes.bfloat16)
    x = np.asfortranarray(x) if is_transposed else x
    calls, run = [], BlockFunction.__call__

    def count(*args):
        calls.append(args)
        run(*args)

    monkeypatch.setattr(BlockFunction, "__call__", count)
    with configured(cpu="numpy"):
        found = ReductionKernel(getattr(reductions, name).definition)(x, axis=1)
    expected = {"norm": np.linalg.norm}.get(name) or getattr(np, name)
    assert same_bits(found, expected(x.astype("f4"), axis=1).astype(found.dtype))
    assert len(calls) < 500  # in pieces of rows, of one row each before


_EXTREMA = [("max", "float16"), ("min", "float64"), ("max", "float32")]


@pytest.mark.parametrize(("name", "dtype"), crossed(1, ["min", "max"], FLOATS) if IS_LONG else _EXTREMA)
def test_extrema_of_every_sign_and_nan(name, dtype):
    special = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, -np.nan], dtype)
    rows = np.array(list(itertools.product(special, repeat=3)))
    for x in (rows, np.asfortranarray(rows), np.repeat(rows, 40, axis=1), np.repeat(rows, 40, axis=1)[:, ::-2]):
        check_compiled(name, (x,), 1)


@pytest.mark.parametrize("dtype", some([np.bool_, np.uint8, np.int8, np.int16, np.uint16], 2))
def test_sums_of_the_largest_small_integers(dtype):
    values = (True,) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    for value, axis in itertools.product(values, (None, 0, 1)):
        x = np.full((300, 700), value, dtype)
        for found in repeat_compiled("sum", (x,), axis):
            assert np.array_equal(found, np.asarray(x.sum(axis)))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32])
def test_products_of_the_largest_small_integers(dtype):
    values = (True, False) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max, np.iinfo(dtype).max)
    chance = np.random.default_rng(2)
    for shape, axis in itertools.product(((3, 400), (8, 400), (400, 8), (13, 900), (4001, 1)), (0, 1)):
        x = chance.choice(np.array(values, dtype), shape)
        for found in repeat_compiled("prod", (x,), axis):
            assert np.array_equal(found, np.asarray(x.prod(axis)))


_REPEATED = [("sum", "float32"), ("max", "int16"), ("argmin", "float32"), ("any", "int32")]


@pytest.mark.parametrize(
    ("name", "dtype"), crossed(1, ["sum", "max", "argmin", "any"], ["float32", "int16"]) if IS_LONG else _REPEATED
)
def test_elements_that_are_repeated_by_broadcasting(name, dtype):
    x = np.random.default_rng(1).integers(-50, 50, (30, 1, 7)).astype(dtype)
    for shape, axis in (((30, 11, 7), None), ((30, 11, 7), 1), ((30, 11, 7), (0, 1)), ((5, 30, 11, 7), (0, 3))):
        if name == "argmin" and isinstance(axis, tuple):
            continue
        check_compiled(name, (np.broadcast_to(x, shape),), axis)


def test_calls_that_c_knows_differ_in_their_keywords():
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    kernel = ReductionKernel(reductions.sum.definition)
    for options in ({"axis": 0}, {}, {"axis": 1, "keepdims": True}, {"keepdims": True}, {"axis": None}) * 2:
        for _ in range(4):
            assert same_bits(kernel(x, **options), x.sum(**options))
            with pytest.raises(KernelTypeError, match="axis True"):
                kernel(x, axis=True)
            with pytest.raises(TypeError, match="unknown"):
                kernel(x, unknown=1)  # type: ignore[call-arg]
    out = np.empty(4, np.float32)
    assert kernel(x, axis=0, out=out) is out


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("sum", "float32"), ("max", "int16"), ("var", "float64"), ("argmax", "uint8"), *[("argmin", "uint8")][:IS_LONG]],
)
@given(data=st.data())
def test_c_plans_calls_of_other_layouts(name, dtype, data):
    kernel = getattr(reductions, name)
    kernel = kernel if isinstance(kernel, ReductionKernel) else reductions._make_var(0)
    kernel = ReductionKernel(kernel.definition)
    rank = data.draw(st.integers(1, 4))
    axes = data.draw(st.sampled_from([None, *range(-rank, rank), *([(0, rank - 1)] if rank > 2 else [])]))
    options = {"axis": axes, "keepdims": data.draw(st.booleans())}
    seed = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))

    def draw_array():
        shape, order = seed.integers(1, 9, rank), seed.permutation(rank)
        x = (seed.random(shape[order]) * 99).astype(dtype).transpose(np.argsort(order))
        steps = data.draw(st.sampled_from([1, -1, 2]))
        return x[tuple(slice(None, None, steps) for _ in range(rank))]

    with configured(cpu="native"):
        first = draw_array()
        for _ in range(3):
            kernel(first, **options)
        with mock.patch.object(kernel._dispatch, "_prepare", side_effect=AssertionError):
            given = [draw_array() for _ in range(4)]
            found = [kernel(x, **options) for x in given]
    with configured(cpu="numpy"):
        for x, result in zip(given, found, strict=True):
            expected = kernel(x, **options)
            assert same_bits(result, expected)
            assert np.shape(result) == np.shape(expected)
            assert result.strides == expected.strides


def test_threads_that_specialise_at_a_time_use_one_specification(monkeypatch):
    """Compiled functions are kept by the identity of a specification, which another one has after its end."""
    kernel, both = ReductionKernel(reductions.sum.definition), threading.Barrier(2)
    specialize, found = type(kernel.definition).specialize, []

    def meet(*args):
        both.wait()
        return specialize(*args)

    monkeypatch.setattr(type(kernel.definition), "specialize", meet)
    callers = [threading.Thread(target=lambda: found.append(kernel(np.arange(5, dtype=np.float16)))) for _ in "ab"]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    assert found == [10, 10]
    assert len(kernel._dispatch._natives) == len(kernel._dispatch._functions) == 1


def test_small_reductions_of_several_inputs_and_numbers():
    weighted = reduction("T x, T y, T w", "T z", map_expr="x * y + w", reduce_expr="a + b", post_map_expr="z = a / 2",
                         identity="0")  # fmt: skip
    counted = reduction("float *x", map_expr="x[i] * i", reduce_expr="a + b", identity="0", dtype="float")
    x, y = np.arange(12.0).reshape(3, 4), np.arange(4.0)
    for _ in range(3):
        for w in (1.0, 2.0, 3):
            assert weighted(x, y, w, axis=1).tolist() == ((x * y + w).sum(axis=1) / 2).tolist()
            assert weighted(x.T, y[:, None], w, axis=(0, 1)) == (x.T * y[:, None] + w).sum() / 2
        assert counted(y.astype(np.float32)) == 14


def test_an_input_of_another_byte_order_and_an_output_with_gaps():
    x = np.arange(12, dtype=">f4").reshape(3, 4)
    out = np.zeros((3, 2), np.float32)
    for _ in range(2):
        reductions.sum(x, axis=1, out=out[:, 0])
        assert out.tolist() == [[6, 0], [22, 0], [38, 0]]


def test_a_given_output_tells_a_type_that_no_input_tells(engine):
    texts = {"map_expr": "x", "reduce_expr": "a + b", "post_map_expr": "y = a / 2", "identity": "0"}
    half = reduction("T x", "U y", **texts)
    x = engine.put(np.arange(6, dtype=np.float64))
    for dtype, expected in (("float32", 7.5), ("int32", 7), ("float64", 7.5)):
        out = engine.put(np.zeros((), dtype))
        assert half(x, out=out) is out
        assert engine.get(out).item() == expected
        assert engine.get(half(x, out)).item() == expected
    with pytest.raises(KernelTypeError, match="type U of 'y' is not determined by any argument"):
        half(x)
    wide = reduction("T x", "U y", dtype="double", **texts)
    assert engine.get(wide(x, out=engine.put(np.zeros((), np.int64)))).item() == 7


def test_the_numbers_of_elements_have_cupys_names():
    rows = np.arange(12.0).reshape(4, 3)
    picked = reduction(
        "S t, raw T y, int32 n", "T out", map_expr="t < 0 ? T(0) : y[_j * n + t]", reduce_expr="a + b", identity="0"
    )
    assert picked(np.array([0, 2, -1, 1]), rows, 3) == rows[0, 0] + rows[1, 2] + rows[3, 1]
    last = reduction("T x", "int64 y", map_expr="x > 0 ? _J : -1", reduce_expr="max(a, b)", identity="-1")
    x = np.array([[1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]])
    assert (last(x, axis=1).tolist(), last(x, axis=0).tolist()) == ([2, 1, -1], [1, 1, 0, -1])
    with pytest.raises(KernelSyntaxError, match="'_j' is not declared"):
        reduction("T x", "int64 y", map_expr="_j", reduce_expr="max(a, b)", identity="-1")


FINISHED = {
    "a number": (("T x, float64 s", "T y", "y = a * s + _in_ind.size()"), lambda x, y: x.sum(1) * 2 + 12),
    "what the output holds": (("T x, float64 s", "T y", "y += a"), lambda x, y: x.sum(1) + y),
    "both": (("T x, float64 s", "T y", "if (a > s) y += s; else y = y * a"),
             lambda x, y: np.where(x.sum(1) > 2, y + 2, y * x.sum(1))),
}  # fmt: skip


@pytest.mark.parametrize("name", FINISHED)
def test_a_result_is_finished_by_arguments_and_outputs(engine, name):
    (inputs, outputs, post), compute = FINISHED[name]
    kernel = reduction(inputs, outputs, map_expr="x", reduce_expr="a + b", post_map_expr=post, identity="0")
    x, y = np.arange(12.0).reshape(3, 4) - 3, np.array([1.0, 5, 7])
    expected = compute(x, y).tolist()
    for _ in range(2):
        found = engine.put(y.copy())
        assert kernel(engine.put(x), 2, axis=1, out=found) is found
        assert engine.get(found).tolist() == expected
        found = kernel(engine.put(x), 2, engine.put(y[:, None].copy()), axis=1, keepdims=True)
        assert engine.get(found).ravel().tolist() == expected
    if "+=" in post:
        with pytest.raises(KernelTypeError, match="read before it is written"):
            kernel(engine.put(x), 2, axis=1)


def test_raw_arrays_serve_the_map_and_the_end():
    kernel = reduction(
        "S t, raw T y, raw T k", "T out", map_expr="y[t]", reduce_expr="a + b", post_map_expr="out = a * k[0] + k[1]",
        identity="0",
    )  # fmt: skip
    assert kernel(np.array([2, 0, 2]), np.arange(1.0, 4), np.array([0.5, 10])) == 13.5
    pair = reduction(
        "T x, int32 n", "T lo, T hi", map_expr="E{x, x}", reduce_expr="j(a, b)",
        post_map_expr="lo = a.l - n; hi = a.h + n", dtype="E",
        preamble="struct E { double l, h; }; E j(E a, E b) { return E{fmin(a.l, b.l), fmax(a.h, b.h)}; }",
    )  # fmt: skip
    assert pair(np.array([3.0, -1, 4]), 10) == (-11, 14)
    with pytest.raises(KernelSyntaxError, match="output 'z' is never written"):
        reduction("T x", "T y, T z", map_expr="x", reduce_expr="a + b", post_map_expr="y += a")
    with pytest.raises(KernelSyntaxError, match="'x' is not declared"):
        reduction("T x, T k", "T y", map_expr="x", reduce_expr="a + b", post_map_expr="y = a + x + k")(np.ones(3), 1)


def _layouts(draw):
    """A shape, and what makes a view of that many axes from an array of any."""
    rank = draw(st.integers(1, 4))
    shape = [draw(st.sampled_from([1, 2, 3, 4, 7, 8, 9, 17, 33, 60, 130])) for _ in range(rank)]
    shape[draw(st.integers(0, rank - 1))] = draw(st.sampled_from([1, 64, 1000, 1024, 1025, 9000, 17000, 34000]))
    while math.prod(shape) > 100_000:
        shape[shape.index(max(shape))] //= 4
    order = draw(st.permutations(range(rank)))
    steps = tuple(slice(None, None, draw(st.sampled_from([1, 1, 1, 1, 2, 3, 4, -1]))) for _ in shape)
    return shape, lambda x: x.transpose(order)[steps]


_ORDERED = ("min", "max", "dot", "argmin", "argmax")
_COMPILED = ("all", "prod", "min", "any", "argmax", "sum", "max", "argmin", "dot", "norm", "mean")
_FEW = [
    ("all", "bool"), ("sum", "bool"), ("sum", "int8"), ("argmax", "int8"), ("any", "int32"), ("min", "float16"),
    ("norm", "float16"), ("sum", "float32"), ("argmin", "float32"), ("dot", "float32"), ("prod", "float64"),
    ("max", "float64"), ("norm", "complex64"), ("mean", "complex64"), ("prod", "complex128"), ("sum", "complex128"),
]  # fmt: skip
"""Each reduction and each dtype, most of them compiled for the tests below as well: one takes seconds to compile."""


def _compiled():
    """Reductions with dtypes, all at full size."""
    every = itertools.product(_COMPILED, ["bool", "int8", "int32", *FLOATS, "complex64", "complex128"])
    return [(name, dtype) for name, dtype in every if np.dtype(dtype).kind != "c" or name not in _ORDERED]


@needs_compiler
@pytest.mark.parametrize(("name", "dtype"), _compiled() if IS_LONG else _FEW)
@settings(max_examples=10)
@given(data=st.data())
def test_compiled_reductions_give_the_bits_of_the_numpy_engine(name, dtype, data):
    """Any layout, axes and alignment, by rows and by columns, whole and in parts for several threads."""
    shape, view = _layouts(data.draw)
    x = random_bits(dtype, math.prod(shape), seed=data.draw(st.integers(0, 99))).reshape(shape)
    x = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(dtype).reshape(shape) if data.draw(st.booleans()) else x
    x = view(x)
    axes = tuple(data.draw(st.sets(st.integers(0, x.ndim - 1), min_size=1)))
    if data.draw(st.booleans()) and np.dtype(dtype).kind in "fc":
        x = np.copysign(0, x.real).astype(dtype)
    operands = [x, x[..., :1]] if name == "dot" else [x]
    check_compiled(name, operands, axes, least_part=1024 if data.draw(st.booleans()) else None)


@needs_compiler
def test_the_first_of_elements_that_are_the_same_along_an_axis_keeps_its_number():
    x = np.array([[3, 1, 2], [5, 1, 0]], "float32")
    for shape, source in (((4, 2, 3), x), ((2, 4, 3), x[:, None]), ((2, 3, 4), x[..., None]), ((4, 5, 3), x[0])):
        view = np.broadcast_to(source, shape)
        with configured(cpu="native"):
            for axes in (None, 0, 1, 2):
                for found in repeat_compiled("argmin", [view], axes):
                    np.testing.assert_array_equal(found, np.argmin(view, axis=axes))


@needs_compiler
@pytest.mark.parametrize(
    ("name", "dtype"), [("sum", "float16"), ("sum", "float32"), ("prod", "float64"), ("argmax", "uint8")]
)
@settings(max_examples=20)
@given(data=st.data())
def test_several_short_axes_and_one_in_any_order_in_memory(name, dtype, data):
    """Of elements, of results, or of both; some of them adjacent, or with gaps between."""
    extents = data.draw(st.lists(st.integers(2, 7), min_size=2, max_size=3))
    extents.insert(data.draw(st.integers(0, 3)), data.draw(st.integers(1, 20) | st.sampled_from([34, 100, 300])))
    gaps = [data.draw(st.sampled_from([0, 0, 1])) for _ in extents]
    room = tuple(extent + gap for extent, gap in zip(extents, gaps, strict=True))
    x = _draw_numbers(data, dtype, math.prod(room)).reshape(room)[tuple(map(slice, extents))]
    axes = data.draw(st.none() | st.integers(0, x.ndim - 1) | st.just((0, x.ndim - 1)))
    axes = axes if name != "argmax" or isinstance(axes, int) else None
    for order in (range(x.ndim)[::-1], data.draw(st.permutations(range(x.ndim)))):
        check_compiled(name, [x.transpose(order)], axes)


@needs_compiler
@pytest.mark.parametrize(("name", "dtype"), [("dot", "float32"), ("argmax", "uint8")])
@settings(max_examples=20)
@given(data=st.data())
def test_results_along_several_short_axes(name, dtype, data):
    """With gaps, and in another order in the memory of each operand."""
    extents = data.draw(st.tuples(st.integers(1, 20), *[st.integers(2, 5)] * 3))
    operands = []
    for _ in range(2 if name == "dot" else 1):
        order = (0, *data.draw(st.permutations((1, 2, 3))))
        room = tuple(extents[axis] + 1 for axis in order)
        memory = _draw_numbers(data, dtype, math.prod(room)).reshape(room)
        operands.append(memory[tuple(slice(extents[axis]) for axis in order)].transpose(np.argsort(order)))
    check_compiled(name, operands, 0)


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="it protects a page by mmap's numbers of Linux")
@pytest.mark.parametrize(("name", "dtype"), [("argmax", "uint8"), ("sum", "float16"), ("sum", "float32")])
def test_nothing_beyond_the_end_of_turned_elements_is_read(name, dtype):
    for shape in ((40, 2), (40, 7), (40, 15), (9, 17), (300, 13), (5, 6, 9), (20, 3, 5)):
        for order in itertools.permutations(range(len(shape))):
            nbytes = math.prod(shape) * np.dtype(dtype).itemsize
            with unread_around(nbytes, at_end=True) as memory:
                x = memory.view(dtype).reshape([shape[axis] for axis in order]).transpose(np.argsort(order))
                x[...] = np.random.default_rng(3).integers(0, 9, shape)
                check_compiled(name, [x], None)


@needs_compiler
@pytest.mark.parametrize(("name", "dtypes"), [("sum", ("int8", "uint16")), ("argmax", ("uint8", "float32"))])
@given(windows=st.integers(1, 200), length=st.integers(1, 120), step=st.integers(1, 5), is_wide=st.booleans())
@example(windows=162, length=100, step=1, is_wide=False)
@example(windows=176, length=100, step=1, is_wide=False)
def test_windows_whose_results_are_as_near_as_their_elements(name, dtypes, windows, length, step, is_wide):
    x = np.random.default_rng(5).integers(0, 9, 1200).astype(dtypes[is_wide])
    view = np.lib.stride_tricks.sliding_window_view(x, length)[::step][:windows]
    check_compiled(name, [view], 1)


_STREAMED = [
    ("sum", "float32"), ("sum", "float64"), ("norm", "float16"), ("norm", "complex64"), ("prod", "complex128"),
    ("dot", "float32"),
]  # fmt: skip
"""Accumulators of which vectors make the nodes: as they are, mapped, of parts, in two arrays."""


@needs_compiler
@pytest.mark.parametrize(("name", "dtype"), _STREAMED)
@settings(max_examples=10)
@given(data=st.data())
def test_rows_of_any_length_have_the_bits_of_the_numpy_engine(name, dtype, data):
    count = data.draw(st.integers(1, 300) | st.sampled_from([1023, 1025, 4095, 8191, 8193, 20_000, 65_535, 65_600]))
    operands = _draw_numbers(data, dtype, (2 if name == "dot" else 1) * count).reshape(-1, count)
    check_compiled(name, operands, None)


def _draw_numbers(data, dtype, count):
    """Numbers whose sums and products stay finite, or any bits."""
    seed, dtype = data.draw(st.integers(0, 1 << 30)), np.dtype(dtype)
    if data.draw(st.booleans()):
        return random_bits(dtype, count, seed)
    numbers = np.exp(0.01 * np.random.default_rng(seed).standard_normal((2, count)))
    return (numbers[0] + 0.01j * numbers[1] if dtype.kind == "c" else numbers[0]).astype(dtype)


_ROWS = [
    ("sum", "float32"), ("prod", "float64"), ("norm", "float16"), ("mean", "complex64"), ("max", "float32"),
    ("min", "float64"), ("max", "float16"), ("min", "int16"), ("sum", "int8"), ("prod", "int32"), ("all", "bool"),
    ("any", "float16"), ("argmax", "float32"), ("argmin", "int64"),
]  # fmt: skip
"""Reductions that combine many rows together: by nodes of vectors, or by lanes."""


@needs_compiler
@pytest.mark.parametrize(("name", "dtype"), _ROWS)
@settings(max_examples=12)
@given(data=st.data())
def test_many_rows_of_any_length_have_the_bits_of_the_numpy_engine(name, dtype, data):
    rows = data.draw(st.integers(1, 40))
    outer, count = (
        data.draw(st.integers(1, 3)),
        data.draw(st.integers(1, 140) | st.integers(1, 20).map(lambda n: 16 * n) | st.sampled_from([257, 1025, 2049])),
    )
    shape = (outer, rows, count + data.draw(st.sampled_from([0, 0, 1, 3])))
    seed, numbers = data.draw(st.integers(0, 1 << 30)), specials(dtype)
    x = random_bits(dtype, math.prod(shape), seed)
    if data.draw(st.booleans()):
        x = np.random.default_rng(seed).choice(numbers[: data.draw(st.integers(1, len(numbers)))], x.size)
    x = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[data.draw(st.integers(0, 1)) :][: x.nbytes].view(dtype)
    x = x.reshape(shape)[:, :, :: data.draw(st.sampled_from([1, 1, 2, -1]))][:, :, :count]
    axes = data.draw(st.sampled_from([(2,), (0, 2)])) if not name.startswith("arg") else 2
    check_compiled(name, (x,), axes)


@needs_compiler
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@settings(max_examples=20)
@given(data=st.data())
def test_many_rows_of_two_sums_have_the_bits_of_the_numpy_engine(dtype, data):
    """Rows that follow each other and end with a node, and others, of products with two accumulators."""
    rows = data.draw(st.integers(9, 40))
    count = 16 * data.draw(st.integers(1, 20)) + data.draw(st.sampled_from([0, 0, 1, 9]))
    gap = data.draw(st.sampled_from([0, 0, 3]))
    x = _draw_numbers(data, dtype, rows * (count + gap)).reshape(rows, -1)[:, :count]
    check_compiled("dot", (x, x), 1)


@pytest.mark.skipif(sys.platform != "linux", reason="it protects a page by mmap's numbers of Linux")
@needs_compiler
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("sum", "float32"), ("prod", "float64"), ("norm", "float16"), ("max", "int16"), ("dot", "complex64")],
)
@settings(max_examples=20)
@given(data=st.data())
def test_nothing_beside_the_memory_of_rows_is_read(name, dtype, data):
    """Of rows in any order of memory, with gaps: vectors that reach into the next row have none behind the last."""
    rows, count = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 300))
    size = np.dtype(dtype).itemsize
    step = data.draw(st.sampled_from([1, 1, 0, -1])) * (count + data.draw(st.sampled_from([0, 0, 3]))) * size
    with unread_around(abs(step) * (rows - 1) + count * size, at_end=data.draw(st.booleans())) as memory:
        memory[:] = 1
        first = max(0, -step) * (rows - 1)
        x = np.ndarray((rows, count), dtype, memory.data, first, (step, size))
        operands = (x, x) if name == "dot" else (x,)
        check_compiled(name, operands, 1)


@needs_compiler
@pytest.mark.parametrize(("name", "dtype"), [*_ROWS, ("sum", "float64")])
def test_the_text_compiles_for_every_processor_of_its_kind(name, dtype):
    spec = getattr(reductions, name).definition.specialize((np.dtype(dtype),), frozenset())
    text = native_reduction.NativeReduction(store_bits_of(spec)).write_text()
    assert host_compiler.compile_c(text, flags=("-O0", "-w"), target=None)


@needs_compiler
@pytest.mark.parametrize(
    ("name", "dtype"),
    [("sum", "float32"), ("prod", "float64"), ("norm", "float16"), ("dot", "float32"), *[("dot", "float64")][:IS_LONG]],
)
@settings(max_examples=15)
@given(data=st.data())
def test_rows_that_lie_side_by_side_have_the_bits_of_the_numpy_engine(name, dtype, data):
    outer, side, rest = (data.draw(st.integers(*limits)) for limits in ((1, 3), (32, 70), (1, 6)))
    shape = (outer, side, data.draw(st.integers(44, 90)), rest)  # the second axis has the unit stride
    memory = data.draw(st.permutations([0, 2, 3])) + [1]
    operands = [
        _draw_numbers(data, dtype, math.prod(shape))
        .reshape([shape[axis] for axis in memory])
        .transpose(np.argsort(memory))
        for _ in range(2 if name == "dot" else 1)
    ]
    axes = data.draw(st.sampled_from([None, (1, 2, 3)]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_reduction, "_LEAST_SIDE", 8)
        check_compiled(name, operands, axes)


@needs_compiler
@settings(max_examples=30)
@given(data=st.data())
def test_empty_arrays_are_reduced_alike_whether_compiled_or_not(data):
    """Without elements, without results, and without both, in the strides of a part of any array."""
    rank = data.draw(st.integers(1, 4))
    extents = [data.draw(st.sampled_from([0, 1, 2, 9])) for _ in range(rank)]
    extents[data.draw(st.integers(0, rank - 1))] = 0
    whole = np.ones([each + data.draw(st.integers(0, 2)) for each in extents], np.float32)
    x = whole[tuple(map(slice, extents))].transpose(data.draw(st.permutations(range(rank))))
    axes = tuple(data.draw(st.sets(st.integers(0, rank - 1), min_size=1)))
    found = []
    for engine in ("numpy", "native"):
        with configured(cpu=engine):
            found += [np.asarray(reductions.sum(x, axis=axes)) for _ in range(2)]
    assert all(same_bits(each, found[0]) and each.shape == found[0].shape for each in found)


@needs_compiler
def test_a_compiled_reduction_may_map_by_functions():
    """The text of the functions and that of the reduction share no name."""
    make = lambda mapped: xferlib.reduction("T x", "T y", map_expr=mapped, reduce_expr="a + b", identity="0")
    few = "sin(x) + pow(x, 2.5) + floor(x)"
    many = f"{few} + cos(x) + exp(x / 99) + log(x) + tanh(x) + atan2(x, x + 1) + fmod(x, 7) + sqrt(x)"
    text = native_reduction.NativeReduction(
        make(many).definition.specialize((np.dtype("f4"),), frozenset())
    ).write_text()
    assert host_compiler.compile_c(text, flags=("-O0", "-w"), target=None)
    x = np.linspace(0.1, 900, 5000, dtype=np.float32).reshape(50, 100)
    found = []
    for engine in ("numpy", "native"):
        kernel = make(many if IS_LONG else few)
        with configured(cpu=engine):
            found.append(kernel(x, axis=1))
        assert engine == "numpy" or all(each.function for each in kernel._dispatch._natives.values())
    assert same_bits(*found)


class _Gpu(Emulator):
    """A backend whose arrays are NumPy's, and whose kernels are the source for CUDA."""

    name, has_made_streams, kind = "gpu", True, "cuda"

    def __init__(self):
        super().__init__()
        self.writes: list[str] = []
        self.uses: list[Any] = []
        self.at = self.stream_current = lambda _: self
        self.handle = 0
        self.capture = self.scratch = None
        self.is_lazy = lambda _: False
        self.empty = lambda shape, dtype, **_: np.empty(shape, dtype)
        self.empty_permuted = lambda shape, order, dtype, **_: np.empty(
            [shape[axis] for axis in order], dtype
        ).transpose(np.argsort(order))
        self.operands = lambda arrays: [each.ctypes.data for each in arrays]
        self.note_write = lambda array, label: self.writes.append(label)
        self.note_use = lambda array, stream: self.uses.append(array)

    def view(self, x):
        return ArrayInfo(x.ctypes.data, x.shape, x.strides, x.dtype, cast("Any", self), x.flags.writeable)


def _run_on_gpu(patch):
    """Take the arrays of all calls for those of a GPU, which is returned."""
    gpu = _Gpu()
    views = lambda _, names, args: (gpu, gpu, {number: gpu.view(each) for number, each in enumerate(args)})
    patch.setattr(arguments, "common_device", views)
    return gpu


def test_outputs_of_several_kinds_on_a_gpu(monkeypatch, kernels_apart):
    """Each output is checked, and has a plan for its own layout, also where the last one was of another kind."""
    x = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    gpu, kernel = _run_on_gpu(monkeypatch), ReductionKernel(reductions.sum.definition)
    kinds = [
        lambda: np.zeros(6, np.float32),
        lambda: np.zeros((6, 3), np.float32)[:, 1],
        lambda: np.zeros(6, "f4")[::-1],
    ]
    expected = kernel(x, axis=1).copy()
    for number in (0, 0, 1, 1, 0, 2, 1, 1, 2, 2):
        out = kinds[number]()
        assert kernel(x, axis=1, out=out) is out
        assert same_bits(out, expected)
        assert len(gpu.writes) == 1
        gpu.writes.clear()
    for out in (x[:, 0], x.reshape(-1)[:6]):
        for _ in range(2):
            with pytest.raises(KernelTypeError, match="overlaps|is an input"):
                kernel(x, axis=1, out=out)
    for out in (np.zeros(7, np.float32), np.zeros(6)):
        with pytest.raises(LayoutError):
            kernel(x, axis=1, out=out)


@settings(max_examples=12)
@given(data=st.data())
def test_a_result_in_several_parts_on_a_gpu(data):
    """Rows and columns whose parts the last block joins: by the stream's scratch memory, or by memory of the call."""
    shape = data.draw(st.sampled_from([(1, 70_001), (3, 40_000), (40_000, 3), (20_001, 40), (2, 30_000, 2)]))
    axis = data.draw(st.sampled_from([1, (0, 1), 0, None][: 3 if len(shape) == 2 else 4]))
    name, dtype = data.draw(st.sampled_from(["sum", "argmax", "prod"])), data.draw(st.sampled_from(["f4", "f2", "c8"]))
    if name == "argmax" and (dtype == "c8" or type(axis) is tuple):
        axis, dtype = None, "f4"
    is_recorded, few = data.draw(st.booleans()), data.draw(st.booleans())
    x = np.random.default_rng(data.draw(st.integers(0, 9))).uniform(0.9, 1.1, shape).astype(dtype)
    kernel = getattr(reductions, name)
    expected = kernel(x, axis=axis)
    with pytest.MonkeyPatch.context() as patch:
        gpu = _run_on_gpu(patch)
        vars(gpu)["stream_is_recorded"] = lambda _: is_recorded
        patch.setattr(cuda_launch, "_COUNTERS", 1 if few else 4096)
        again = ReductionKernel(kernel.definition)
        for _ in range(2):  # the counters are as before
            assert same_bits(again(x, axis=axis), expected)
    assert not (is_recorded and gpu.scratch)
    assert gpu.scratch is None or not gpu.scratch[2][:64].any() or few


@pytest.mark.parametrize("by", ["xferlib", "another library"])
def test_a_call_that_a_graph_records_is_not_made_in_c(monkeypatch, by):
    """The memory of its partial results is cleared when the graph is launched, and not before."""
    x = np.ones((1, 70_001), np.float32)
    gpu, kernel, bound = _run_on_gpu(monkeypatch), ReductionKernel(reductions.sum.definition), []
    vars(gpu)["repeat_call"] = lambda *_, only, **options: bound.append(only)
    kernel(x, axis=1)
    if by == "xferlib":
        gpu.capture = object()
    vars(gpu)["stream_is_recorded"] = lambda _: True
    for _ in range(3):
        assert kernel(x, axis=1)[0] == 70_001
    assert bound == []
    gpu.capture = None
    vars(gpu)["stream_is_recorded"] = lambda _: False
    for _ in range(3):
        assert kernel(x, axis=1)[0] == 70_001
    assert bound == [gpu]


@settings(max_examples=12)
@given(data=st.data())
def test_elements_a_row_apart_in_the_order_on_a_gpu(data):
    """Groups of elements that cross rows and matrices, whose nodes a second launch combines."""
    shape = data.draw(st.sampled_from([(40, 21), (33, 2), (70, 53), (300, 16), (64, 129), (3, 1500), (13, 700)]))
    outer, kept = data.draw(st.sampled_from([1, 3])), data.draw(st.sampled_from([1, 2]))
    dtype, name = data.draw(st.sampled_from(["f4", "f2", "f8"])), data.draw(st.sampled_from(["sum", "argmax", "var"]))
    x = np.random.default_rng(data.draw(st.integers(0, 9))).standard_normal((kept, outer, *shape[::-1])).astype(dtype)
    x = x.transpose(0, 1, 3, 2)
    axis = None if name == "argmax" or kept == 1 else (1, 2, 3)
    with pytest.MonkeyPatch.context() as patch:
        _run_on_gpu(patch)
        patch.setattr(cuda_reduction, "_FULL", data.draw(st.sampled_from([64, 1024])))
        patch.setattr(reductions, "_spreads", {})
        patch.setattr(reductions, "argmax", ReductionKernel(reductions.argmax.definition))
        patch.setattr(reductions, "sum", ReductionKernel(reductions.sum.definition))
        found = getattr(reductions, name)(x, axis=axis)
    assert same_bits(found, getattr(reductions, name)(x, axis=axis))


@settings(max_examples=12)
@given(data=st.data())
def test_rows_at_any_address_on_a_gpu(data):
    """Rows of an odd length, and arrays that start anywhere: two aligned accesses make one."""
    dtype = np.dtype(data.draw(st.sampled_from(["i1", "f2", "f4", "f8", "?"])))
    rows, count = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([17, 263, 1025, 2301, 5003]))
    start, gap = data.draw(st.integers(0, 9)), data.draw(st.sampled_from([0, 0, 1, 3]))
    values = np.random.default_rng(data.draw(st.integers(0, 9))).integers(-9, 9, start + rows * (count + gap))
    x = values.astype(dtype)[start:].reshape(rows, count + gap)[:, :count]
    name = data.draw(st.sampled_from(["any", "max"] if dtype.name == "bool" else ["sum", "max", "any", "argmax"]))
    kernel = getattr(reductions, name)
    with pytest.MonkeyPatch.context() as patch:
        _run_on_gpu(patch)
        found = ReductionKernel(kernel.definition)(x, axis=1)
    assert same_bits(found, kernel(x, axis=1))


@pytest.mark.parametrize("name", ["sum", "argmax"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_a_call_on_a_gpu_launches_what_the_source_computes(name, axes, monkeypatch, kernels_apart):
    x = np.random.default_rng(0).standard_normal((6, 700)).astype(np.float32)
    kernel = getattr(reductions, name)
    expected, gpu = kernel(x, axis=axes), _run_on_gpu(monkeypatch)
    again = ReductionKernel(kernel.definition)
    found = again(x, axis=axes)
    assert same_bits(found, expected)
    out = np.zeros_like(expected)
    assert again(x, axis=axes, out=out) is out
    assert same_bits(out, expected)
    assert gpu.writes == [f"{name}(): out0"]
    assert sum(each is x for each in gpu.uses) == 2
    with pytest.raises(KernelTypeError, match="overlaps|is an input"):
        again(x[:1].view(out.dtype), axis=(), out=x[:1].view(out.dtype))


@given(st.data())
@settings(max_examples=30)
def test_results_lie_as_those_of_numpys_sums(data):
    rank = data.draw(st.integers(1, 4))
    shape = data.draw(st.lists(st.integers(2, 4), min_size=rank, max_size=rank))
    x = np.arange(math.prod(shape), dtype="float32").reshape(shape).transpose(data.draw(st.permutations(range(rank))))
    axes = tuple(data.draw(st.sets(st.integers(0, rank - 1), min_size=1)))
    options = {"axis": axes, "keepdims": data.draw(st.booleans())}
    expected = x.sum(**options)
    for _ in range(3):  # in steps, and whole in C
        found = reductions.sum(x, **options)
        assert found.shape == expected.shape
        steps = [
            [s for s, extent in zip(each.strides, each.shape, strict=True) if extent > 1] for each in (found, expected)
        ]
        assert steps[0] == steps[1]
        assert np.array_equal(found, expected)
    given_ = np.full(expected.shape, -1, expected.dtype)
    assert reductions.sum(x, **options, out=given_) is given_
    assert np.array_equal(given_, expected)


@pytest.mark.parametrize("count", [0, 1, 2, 700, 5000])
def test_a_reduction_may_change_streams_between_calls(count, target):
    """Each call after the first is done in one step where that fits: on some streams, of some lengths, it does not."""
    host = np.arange(3 * count, dtype=np.float32).reshape(3, count)
    x, expected = target.put(host), reductions.sum(host, axis=1)
    device = xferlib.device_of(x)
    stream = xferlib.Stream(device) if device.kind != "cpu" else None
    for _ in range(3):
        assert same_bits(target.get(reductions.sum(x, axis=1)), expected)
        if stream is not None:
            with stream:
                found = reductions.sum(x, axis=1)
            stream.synchronize()
            assert same_bits(target.get(found), expected)


_PAIRS = [("float32", "sum"), ("float64", "prod"), ("float16", "sum"), ("complex64", "mean"), ("complex128", "sum")]


@needs_compiler
@pytest.mark.parametrize(("dtype", "name"), _PAIRS)
@settings(max_examples=25)
@given(data=st.data())
def test_a_few_results_side_by_side_have_the_bits_of_the_numpy_engine(dtype, name, data):
    """Groups as wide as results, read where they are or in another order, and the parts of complex numbers."""
    width, count = data.draw(st.integers(1, 18)), data.draw(st.integers(32, 700))
    shape = [data.draw(st.integers(1, 4)), count, data.draw(st.integers(1, 6)), width]
    order = [*data.draw(st.permutations(range(3))), 3] if data.draw(st.booleans()) else [0, 1, 2, 3]
    x = random_bits("float32", 2 * math.prod(shape), seed=data.draw(st.integers(0, 99)))
    x = np.ldexp(np.frexp(np.where(np.isfinite(x), x, -0.0))[0] * 1.9, 0)  # every sum is rounded, and none overflows
    x = (x[::2] + 1j * x[1::2] if np.dtype(dtype).kind == "c" else x[::2]).astype(dtype)
    x = x.reshape(shape).transpose(order)
    x = x[..., :: data.draw(st.sampled_from([1, 1, 2]))]
    axes = tuple(data.draw(st.sampled_from([(0, 1, 2), (0, 1), (1, 2), (1,)])))
    check_compiled(name, [x], axes, least_part=256 if data.draw(st.booleans()) else None)


@needs_compiler
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_products_of_complex_numbers_are_compiled_in_two_roundings(dtype):
    """gcc fuses the neighbours of a difference and a sum of products, in spite of its options."""
    rng = np.random.default_rng(5)
    # Not `prod`, whose parts gcc keeps apart by itself.
    product = reduction("T x", "T y", map_expr="x", reduce_expr="a * b", post_map_expr="y = a", identity="1")
    for count in (24, 31, 50, 333):
        x = (rng.normal(size=(3, count)) + 1j * rng.normal(size=(3, count))).astype(dtype)
        found = []
        for engine in ("numpy", "native"):
            with configured(cpu=engine):
                found.append(product(x, axis=1))
        assert same_bits(*found)
