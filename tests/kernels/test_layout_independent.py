"""float64 functions give a value the same bits wherever it lies in memory."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.bits import same_bits
from tools.kernel_ulp import kernel_of
from xferlib.kernels.functions import CALLS

PAIRS = ("power", "arctan2", "hypot", "logaddexp")


def values(name, count):
    """Operands in the function's domain; every third exponent is 2, for which NumPy has a shortcut."""
    rng = np.random.default_rng(2)
    x = rng.uniform(0.01, 0.99, count) + (name == "arccosh")
    y = np.where(np.arange(count) % 3 == 0, 2.0, rng.uniform(-3, 3, count))
    return [x, y] if name in PAIRS else [x]


def kernel(name):
    if name != "logaddexp":
        return kernel_of(name)
    from xferlib.kernels import elementwise
    from xferlib.kernels.python_frontend import NAMESPACE

    return elementwise(lambda x, y: NAMESPACE.logaddexp(x, y), name=name)


@st.composite
def views(draw):
    """A function from a vector of 240 values to a view of it, and the same elements in order."""
    shape = draw(st.sampled_from([(240,), (1, 240), (12, 20), (4, 6, 10), (240, 1), (1,), (2, 1)]))
    axes = draw(st.permutations(range(len(shape))))
    gaps = [draw(st.sampled_from([1, 2, -1, -3])) for _ in shape]
    is_offset = draw(st.booleans())

    def lay(x):
        x = x[: int(np.prod(shape))].reshape(shape).transpose(axes)
        sides = [side * abs(gap) for side, gap in zip(x.shape, gaps, strict=True)]
        raw = np.zeros(8 * int(np.prod(sides)) + 8, np.uint8)
        start = 1 if is_offset else 0
        room = raw[start : start + 8 * int(np.prod(sides))].view(np.float64).reshape(sides)
        view = room[tuple(slice(None, None, gap) for gap in gaps)]
        view[...] = x
        return view, np.ascontiguousarray(x)

    return lay


@pytest.mark.parametrize("name", [*CALLS, *PAIRS])
@given(lays=st.lists(views(), min_size=2, max_size=2), is_out=st.booleans())
@settings(max_examples=15)
def test_bits_do_not_depend_on_the_layout(name, lays, is_out):
    operands = values(name, 240)
    laid, plain = zip(*(lay(x) for lay, x in zip(lays, operands, strict=False)), strict=True)
    try:
        shape = np.broadcast_shapes(*(each.shape for each in laid))
    except ValueError:
        laid, plain = zip(*(lays[0](x) for x in operands), strict=True)
        shape = laid[0].shape
    expected = kernel(name)(*(np.ascontiguousarray(np.broadcast_to(each, shape)) for each in plain))
    if is_out:
        out = np.empty(shape)[tuple(slice(None, None, -1) for _ in shape)]
        kernel(name)(*laid, out=out)
        assert same_bits(out.copy(), expected)
    assert same_bits(kernel(name)(*laid), expected)


@pytest.mark.parametrize("name", [*CALLS, *PAIRS])
@pytest.mark.parametrize("step", [1, -1])
def test_one_element_has_the_bits_that_it_has_among_many(name, step):
    operands = values(name, 200)
    many = kernel(name)(*operands)
    for place in range(1, 199, 9):
        alone = kernel(name)(*(each[::step][place if step > 0 else 199 - place :][:1] for each in operands))
        assert same_bits(alone, many[place : place + 1])


@pytest.mark.parametrize("name", [*CALLS, *PAIRS])
def test_large_arrays_have_the_bits_of_small_ones(name):
    operands = [np.resize(each, 40_000) for each in values(name, 500)]
    small = np.resize(kernel(name)(*(each[:500] for each in operands)), 40_000)
    assert same_bits(kernel(name)(*(each[::-1] for each in operands))[::-1].copy(), small)


def test_the_square_is_one_product_whether_the_exponent_is_one_or_many():
    x = np.random.default_rng(3).uniform(0, 20, 1000)
    power = kernel("power")
    assert same_bits(power(x, np.full(1000, 2.0)), x * x)
    assert same_bits(power(x, np.array(2.0)), x * x)
    assert same_bits(power(x, 2.0), x * x)
