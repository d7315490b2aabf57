"""Arrays that share memory, found from pointers and strides, against the sets of their bytes; empty ones share none."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import targets
from xferlib._core.arrays import overlaps_itself, share_bytes
from xferlib.kernels import elementwise, reductions

shapes = st.lists(st.integers(0, 4), min_size=0, max_size=3).map(tuple)


@st.composite
def memories(draw):
    shape = draw(shapes)
    strides = tuple(draw(st.integers(-12, 12)) for _ in shape)
    return draw(st.integers(1000, 1060)), shape, strides, draw(st.sampled_from([1, 2, 4, 8]))


def elements(memory):
    pointer, shape, strides, itemsize = memory
    for index in itertools.product(*map(range, shape)):
        first = pointer + sum(place * stride for place, stride in zip(index, strides, strict=True))
        yield set(range(first, first + itemsize))


@given(memories(), memories())
def test_two_arrays(one, two):
    assert share_bytes(one, two) == any(a & b for a in elements(one) for b in elements(two))


@given(memories())
def test_the_elements_of_one_array(memory):
    assert overlaps_itself(*memory[1:]) == any(a & b for a, b in itertools.combinations(elements(memory), 2))


@given(shapes, st.sampled_from([1, 2, 4, 8]))
def test_elements_of_new_arrays_lie_apart(shape, itemsize):
    whole = np.empty(shape, f"V{itemsize}")
    for array in (whole, whole.T, whole[..., ::-2] if shape else whole):
        assert not overlaps_itself(array.shape, array.strides, itemsize)


@pytest.mark.parametrize("name", targets.ENGINES)
@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 3)])
def test_empty_outputs(name, shape):
    there = targets.target(name)
    kernel = elementwise(lambda x, y: (y, x + y))
    x, y, z = (there.put(np.empty(shape, np.float32)) for _ in range(3))
    for out in ((y, z), (x, y), (y, x), (x, z)):
        for _ in range(2):
            assert kernel(x, y, out=out)[0] is out[0]
    if len(shape) == 1:
        return
    total = there.put(np.full(shape[1:], 7, np.float32))
    assert not there.get(reductions.sum(x, axis=0, out=total)).any()


def test_parts_of_one_array_without_elements():
    x = np.arange(12.0).reshape(3, 4)
    kernel = elementwise(lambda x, y: x + y)
    for one, two in ((x[1:1], x[1:1]), (x[:, 2:2], x[:, 3:3]), (x[1:1], x[2:2]), (x[1:1], x[1:1, ::-1])):
        kernel(one, two, out=two)
        kernel(one, 1, out=two)
    assert x.ravel().tolist() == list(range(12))
