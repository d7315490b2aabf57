"""Outputs behind the inputs or as ``out=``, alike for every notation and on every backend."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from xferlib.errors import KernelTypeError, LayoutError
from xferlib.kernels.c_frontend.memory import Truth
from xferlib.kernels.ir import Builder, Node, Param
from xferlib.testing import assert_identical

X = np.arange(4.0)
ONE = {
    "C": xl.elementwise("T x, T a", "T y", "y = x * 2 + a", name="one"),
    "Python": xl.elementwise(lambda x, a: x * 2 + a, name="one"),
}
TWO = {
    "C": xl.elementwise("T x", "T y, T z", "y = x * 2; z = x - 1", name="two"),
    "Python": xl.elementwise(lambda x: (x * 2, x - 1), name="two"),
}
ADD = {
    "C": xl.elementwise("T x, T y", "T z", "z = x + y", name="add"),
    "Python": xl.elementwise(lambda x, y: x + y, name="add"),
}
SUM = xl.reduction("T x", "T y", map_expr="x", reduce_expr="a + b", post_map_expr="y = a", identity="0", name="sum")
LEAST_AND_MOST = xl.reduction(
    "T x", "T y, T z", map_expr="x", reduce_expr="min(a, b)", post_map_expr="y = a; z = -a", dtype="T", name="ends"
)
NOTATIONS = pytest.mark.parametrize("notation", ["C", "Python"])


@NOTATIONS
def test_one_output(notation: str, xl_backend: Any) -> None:
    kernel, x, y, z = ONE[notation], xl.to_device(X), xl.zeros(4), xl.zeros(4)
    for _ in range(3):  # the second call is recognised, the third by comparison alone
        assert kernel(x, 1.0, y) is y
        assert kernel(x, 1.0, out=z) is z
        assert kernel(x, 1.0, out=(z,)) is z
        for each in (y, z, kernel(x, 1.0)):
            assert_identical(each, X * 2 + 1)
        xl.to_device(np.zeros(4), out=y)
        xl.to_device(np.zeros(4), out=z)


@NOTATIONS
def test_two_outputs(notation: str, xl_backend: Any) -> None:
    kernel, x = TWO[notation], xl.to_device(X)
    outputs = [xl.zeros(4) for _ in range(4)]
    assert kernel(x, *outputs[:2]) == tuple(outputs[:2]) if xl_backend.name != "numpy" else kernel(x, *outputs[:2])
    kernel(x, out=tuple(outputs[2:]))
    for each, expected in zip(outputs, [X * 2, X - 1] * 2, strict=True):
        assert_identical(each, expected)


def test_outputs_of_a_reduction(xl_backend: Any) -> None:
    x, y, z = xl.to_device(X.reshape(2, 2)), xl.zeros(2), xl.zeros(2)
    assert SUM(x, y, axis=1) is y
    assert SUM(x, axis=1, out=z) is z
    assert_identical(y, z)
    assert_identical(y, np.array([1.0, 5.0]))
    LEAST_AND_MOST(x, y, z, axis=0)
    assert_identical(y, np.array([0.0, 1.0]))
    assert_identical(z, np.array([-0.0, -1.0]))


@pytest.mark.parametrize("kernel", [*ONE.values(), *TWO.values()])
def test_too_many_outputs_are_refused_and_nothing_is_written(kernel: Any) -> None:
    inputs = [X, 1.0] if kernel.name == "one" else [X]
    outputs = [np.full(4, 7.0) for _ in range(3)]
    for call in (lambda: kernel(*inputs, *outputs), lambda: kernel(*inputs, out=tuple(outputs))):
        with pytest.raises(KernelTypeError, match="output|argument"):
            call()
    with pytest.raises(KernelTypeError, match="output|argument"):
        kernel(*inputs, *outputs[: 1 + (kernel.name == "two")], out=outputs[0])
    assert all((each == 7).all() for each in outputs)


@NOTATIONS
def test_one_of_two_outputs_is_refused(notation: str) -> None:
    y = np.full(4, 7.0)
    for call in (lambda: TWO[notation](X, y), lambda: TWO[notation](X, out=y)):
        with pytest.raises(KernelTypeError, match="output"):
            call()
    assert (y == 7).all()


@NOTATIONS
@pytest.mark.parametrize("output", [np.zeros(3), np.zeros(4, "float32"), np.broadcast_to(np.zeros(1), 4)])
def test_an_output_that_does_not_fit_is_refused_either_way(notation: str, output: Any) -> None:
    kernel = ONE[notation]
    for call in (lambda: kernel(X, 1.0, output), lambda: kernel(X, 1.0, out=output)):
        with pytest.raises((LayoutError, KernelTypeError)):
            call()


def test_a_number_is_no_output() -> None:
    for extra in (3.0, np.float64(3)):
        with pytest.raises(KernelTypeError, match="takes 2"):
            ONE["Python"](X, 1.0, extra)


def test_a_kernel_that_writes_its_arguments_has_no_out() -> None:
    kernel = xl.elementwise("double *x, double *y", "y[i] = x[i]")
    with pytest.raises(KernelTypeError, match="writes to its arguments"):
        kernel(X, out=np.zeros(4))


def test_a_default_comes_before_an_output() -> None:
    kernel = xl.elementwise(lambda x, a=2.0: x * a)
    y = np.zeros(4)
    assert_identical(kernel(X, X), X * X)
    assert kernel(X, X, y) is y
    assert_identical(kernel(X, out=y), X * 2)


COMPARED = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq,
            "ne": operator.ne}  # fmt: skip


def _holds(node: Node, values: tuple[Any, ...]) -> bool:
    given = [values[each.attr] if each.op == "load" else _holds(each, values) for each in node.args]
    if node.op in COMPARED:
        return bool(COMPARED[node.op](*given))
    if node.op == "select":
        return bool(given[1] if given[0] else given[2])
    return not given[0] if node.op == "not" else any(given) if node.op == "or" else all(given)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False), st.sampled_from(["float64", "int64"]))
def test_an_output_counts_as_written_only_where_every_value_writes_it(random: Any, dtype: str) -> None:
    b = Builder([Param(name=name, dtype=np.dtype(dtype)) for name in "xy"])
    made = [b.op(op, b.load(one), b.load(1 - one)) for op in COMPARED for one in (0, 1)]
    for _ in range(12):
        one, two, three = random.choices(made, k=3)
        made.append(random.choice([b.op("or", one, two), b.op("not", one), b.select(one, two, three)]))
    numbers = [0, 1, *([np.nan] if dtype == "float64" else [])]
    pairs = list(itertools.product(numbers, repeat=2))
    for each in made:
        holds = all(_holds(each, pair) for pair in pairs)
        assert holds or not Truth().always(each)
    one = made[0]
    assert Truth().always(b.op("or", one, b.op("not", one)))
    assert Truth().always(b.op("or", b.op("lt", b.load(0), b.load(1)), b.op("ge", b.load(0), b.load(1)))) == (
        dtype == "int64"
    )


@st.composite
def _layouts(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[slice, ...]]:
    """An array to make, the order of its axes afterwards, and its slices."""
    axes = tuple(draw(st.permutations(range(len(shape)))))
    own = tuple(draw(st.sampled_from([extent, extent, extent, 1])) for extent in shape)
    steps = tuple(draw(st.sampled_from([1, 1, 2])) for _ in shape)
    made = [0] * len(shape)
    for place, axis in enumerate(axes):
        made[axis] = own[place] * steps[place]
    return tuple(made), axes, tuple(slice(None, None, step) for step in steps)


LAYOUTS = st.lists(st.integers(1, 4), min_size=1, max_size=4).flatmap(
    lambda shape: st.tuples(_layouts(tuple(shape)), _layouts(tuple(shape)))
)


@NOTATIONS
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layouts=LAYOUTS)
def test_results_lie_as_those_of_numpys_ufuncs(notation: str, layouts: Any, xl_backend: Any) -> None:
    kernel = ADD[notation]
    on_host, on_device = [], []
    for made, axes, slices in layouts:
        x = np.arange(float(np.prod(made))).reshape(made)
        on_host.append(x.transpose(axes)[slices])
        d = xl.to_device(x)
        on_device.append(xl.get_backend(d).at(xl.device_of(d)).permuted_axes(d, axes)[slices])
    expected = np.add(*on_host)
    for _ in range(3):  # prepared, by comparison, and by compiled code
        found = kernel(*on_device)
        assert_identical(found, expected)
        info = xl.get_backend(found).view(found)
        steps = [(step, extent) for step, extent in zip(info.strides, info.shape, strict=True) if extent > 1]
        assert steps == [
            (step, extent) for step, extent in zip(expected.strides, expected.shape, strict=True) if extent > 1
        ]
