"""`min` and `max`, however they are spelled: NaN propagates, and -0 is below +0, on every engine."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.bits import FLOATS, same_bits
from tests.sizes import crossed
from xferlib.kernels import elementwise, reduction, reductions
from xferlib.kernels.ir import Param, build_reduction
from xferlib.kernels.python_frontend import NAMESPACE
from xferlib.kernels.reduction import ReductionKernel
from xferlib.testing import configured

COUNTS = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 511, 513, 4096, 4097, 20_000)  # around vectors


def lower(x, y):
    """The definition, on two Python floats."""
    if math.isnan(x) or math.isnan(y):
        return math.nan
    return x if (x, math.copysign(1, x)) < (y, math.copysign(1, y)) else y


def upper(x, y):
    return -lower(-x, -y)


ORDERS = {"min": lower, "max": upper}


class _Mapped:
    """A reduction by the operation ``op`` itself, of a value that is computed first."""

    names = ("x",)

    def __init__(self, op):
        self.name, self._op = op, op

    def specialize(self, kinds, scalars):
        return build_reduction(
            [Param(name="x", dtype=kinds[0])],
            lambda b, x: [b.op("neg", b.op("neg", x[0]))],
            lambda b, x, y: [b.op(self._op, x[0], y[0])],
            lambda b, a, n, m: [a[0]],
            identity=None,
        )


@functools.cache
def kernels(op):
    """Every spelling: a ready-made one, the operation itself, and a C expression."""
    c = reduction("T x", "T y", map_expr="x", reduce_expr=f"{op}(a, b)", post_map_expr="y = a", name=f"c_{op}")
    return {"ready": getattr(reductions, op), "op": ReductionKernel(_Mapped(op)), "c": c}


values = st.sampled_from([0.0, -0.0, 0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan])
zeros = st.sampled_from([0.0, -0.0])


@st.composite
def arrays(draw):
    """Mostly zeros of both signs, in rows, with a few other values or none."""
    count = draw(st.sampled_from(COUNTS))
    rows = draw(st.sampled_from((1, 2, 5)))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((rows, count)) < draw(st.sampled_from((0, 0.05, 0.5, 0.95, 1))), 0.0, -0.0)
    for _ in range(draw(st.integers(0, 3))):
        x[rng.integers(rows), rng.integers(count)] = draw(values)
    sign = draw(st.sampled_from((0, 1, -1)))
    if sign:  # beside zeros only elements of one sign, so that a zero is the extremum
        others = rng.random(x.shape) < 0.3
        x[others] = sign * rng.random(int(others.sum()))
    return x.astype(draw(st.sampled_from(FLOATS)))


@pytest.mark.parametrize("op", ["min", "max"])
def test_reductions_along_every_axis(op, engine):
    @settings(max_examples=40, derandomize=True)
    @given(arrays())
    def run(x):
        d = engine.put(x)
        rows = np.array([functools.reduce(ORDERS[op], map(float, row)) for row in x], x.dtype)
        columns = np.array([functools.reduce(ORDERS[op], map(float, column)) for column in x[:, :50].T], x.dtype)
        whole = np.array(functools.reduce(ORDERS[op], map(float, rows)), x.dtype)
        for name in ("ready", "op"):
            kernel = kernels(op)[name]

            def found(x, kernel=kernel, **options):
                return engine.get(kernel(x, **options))

            assert same_bits(found(d, axis=1), rows), name
            assert same_bits(found(d, axis=0)[:50], columns), name
            assert same_bits(found(d), whole), name
            assert same_bits(found(d, axis=(0, 1), keepdims=True), whole.reshape(1, 1)), name
            assert same_bits(found(d[:, ::2], axis=1), np.array(
                [functools.reduce(ORDERS[op], map(float, row)) for row in x[:, ::2]], x.dtype)), name  # fmt: skip

    run()


@pytest.mark.parametrize("op", ["min", "max"])
def test_c_expressions_order_zeros(op, engine):
    @settings(max_examples=20, derandomize=True)
    @given(st.lists(zeros, min_size=1, max_size=70), st.sampled_from(FLOATS))
    def run(values, dtype):
        expected = np.array(functools.reduce(ORDERS[op], values), dtype)
        assert same_bits(engine.get(kernels(op)["c"](engine.put(np.array(values, dtype)))), expected)

    run()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["min", "max"])
def test_every_array_of_up_to_eight_zeros(op, dtype):
    rows = np.array([[-0.0 if number >> bit & 1 else 0.0 for bit in range(8)] for number in range(256)], dtype)
    for count in range(1, 9):
        x = rows[:, :count]
        one = np.signbit(x).all(axis=1) if op == "max" else np.signbit(x).any(axis=1)
        expected = np.where(one, -0.0, 0.0).astype(dtype)
        assert same_bits(getattr(reductions, op)(x, axis=1), expected)
        assert same_bits(kernels(op)["c"](x, axis=1), expected)


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_elementwise(op, dtype, engine):
    name = f"{op}imum"
    function = getattr(NAMESPACE, name)
    kernel = elementwise(lambda x, y: function(x, y), name=name)

    @settings(max_examples=30, derandomize=True)
    @given(st.lists(st.tuples(values, values), min_size=1, max_size=70))
    def run(pairs):
        x, y = (np.array(each, dtype) for each in zip(*pairs, strict=True))
        expected = np.array([ORDERS[op](*pair) for pair in pairs], dtype)
        one, two = engine.put(x), engine.put(y)
        assert same_bits(engine.get(kernel(one, two)), expected)
        kernel(one, two, out=one)
        assert same_bits(engine.get(one), expected)
        for scalar in (0.0, -0.0, 1.0, math.nan):
            beside = np.array([ORDERS[op](value, scalar) for value in y.tolist()], dtype)
            assert same_bits(engine.get(kernel(two, scalar)), beside)
            assert same_bits(engine.get(kernel(scalar, two)), beside)

    run()


def test_argmax_takes_the_first_of_equal_zeros_and_of_nans(engine):
    for x, least, most in (
        ([0.0, -0.0, 0.0, -0.0] * 9, 0, 0),
        ([-1.0, *[0.0, -0.0] * 20], 0, 1),
        ([1.0, *[-0.0, 0.0] * 20], 1, 0),
        ([1.0, math.nan, math.nan, 2.0], 1, 1),
        ([math.nan] * 40, 0, 0),
    ):
        for dtype in FLOATS:
            d = engine.put(np.array(x, dtype))
            assert int(engine.get(reductions.argmin(d))) == least
            assert int(engine.get(reductions.argmax(d))) == most


@pytest.mark.parametrize(("name", "dtype"), crossed(2, ["argmin", "argmax"], ["?", "i1"]))
@settings(max_examples=30)
@given(data=st.data())
def test_a_search_that_ends_early_finds_the_first_place(name, dtype, data):
    """A row of few bits is likely to hold the value that none exceeds, behind which compiled C looks no further."""
    dtype, found, wanted = np.dtype(dtype), getattr(reductions, name), getattr(np, name)
    count = data.draw(st.sampled_from([*COUNTS, 1 << 14, (1 << 14) + 1, 3 << 14]))
    rows = data.draw(st.integers(1, 3))
    least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = np.full((rows, count), data.draw(st.sampled_from([least, most, most // 2])), dtype)
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, count - 1))
        x[place] = data.draw(st.sampled_from([least, most]))
    x = data.draw(st.sampled_from([x, np.repeat(x, 2, axis=1)[:, ::2], np.asfortranarray(x)]))
    for cpu in ("native", "numpy"):
        with configured(cpu=cpu):
            assert np.array_equal(found(x, axis=1), wanted(x, axis=1))
            assert found(x) == wanted(x)
