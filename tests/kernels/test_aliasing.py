"""Outputs that are inputs, exactly: every engine gives what it gives on copies; arrays that share memory."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import targets
from tests.kernels.bits import random_bits, same_bits
from tests.kernels.test_reductions import tree
from xferlib._core.arrays import overlaps_itself, share_bytes
from xferlib.errors import KernelTypeError, LayoutError
from xferlib.kernels import elementwise, reduction, reductions
from xferlib.testing import configured

INPUTS = ("a", "b", "c", "d")
LAYOUTS = {
    "contiguous": lambda x: x, "strided": lambda x: x[:, ::2], "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1, ::-1],
}  # fmt: skip
EXPRESSIONS = ("{0}", "{0} + {1}", "{0} - {1} * {2}", "-{0}", "{0} * {0}")
SIZES = ((1, 1), (5, 6), (150, 500))  # the last in several blocks


@pytest.fixture(params=[1, 3])
def threads(request, monkeypatch):
    monkeypatch.setattr("xferlib._runtime.threads.THREAD_NS", 1)  # however little there is to do
    with configured(threads=request.param):
        yield request.param


class Example(NamedTuple):
    """A program of ``inputs`` arrays, and where each of its outputs goes: to an input, or (None) elsewhere."""

    inputs: int
    expressions: tuple[str, ...]
    goes_to: tuple[int | None, ...]
    dtype: str
    layout: str
    shape: tuple[int, int]


@st.composite
def examples(draw):
    inputs = draw(st.integers(2, 4))
    names = st.sampled_from(INPUTS[:inputs])
    bare = "{0}"
    count = draw(st.integers(1, inputs))
    forms = [draw(st.sampled_from((bare, bare, *EXPRESSIONS))) for _ in range(count)]
    expressions = tuple(form.format(*(draw(names) for _ in range(3))) for form in forms)
    places = draw(st.permutations(range(inputs)))[:count]
    goes_to = tuple(place if draw(st.integers(0, 4)) else None for place in places)
    dtype = draw(st.sampled_from(("int32", "float32", "float64", "int16", "complex64")))
    return Example(
        inputs, expressions, goes_to, dtype, draw(st.sampled_from(list(LAYOUTS))), draw(st.sampled_from(SIZES))
    )


def python_kernel(example):
    return elementwise(eval(f"lambda {', '.join(INPUTS[: example.inputs])}: ({', '.join(example.expressions)},)"))


def c_kernel(example):
    names = [f"out{number}" for number in range(len(example.expressions))]
    pairs = zip(names, example.expressions, strict=True)
    return elementwise(
        ", ".join(f"T {name}" for name in INPUTS[: example.inputs]),
        ", ".join(f"T {name}" for name in names),
        "; ".join(f"{name} = {expression}" for name, expression in pairs),
    )


def check(example, engine, kernel, call):
    layout = LAYOUTS[example.layout]
    if example.layout == "reversed" and engine.name.startswith(("torch", "pycuda")):
        layout = LAYOUTS["strided"]  # tensors have no negative strides
    rows, columns = example.shape
    hosts = [
        random_bits(example.dtype, rows * 2 * columns, seed=number).reshape(rows, 2 * columns)
        for number in range(example.inputs)
    ]
    with np.errstate(all="ignore"):
        hosts = [np.where(np.isfinite(host), host, 1).astype(example.dtype) for host in hosts]
    bases = [engine.put(host) for host in hosts]
    arrays = [layout(base) for base in bases]
    blank = [engine.put(np.zeros_like(hosts[0])) for _ in example.goes_to]
    outputs = [layout(blank[n]) if place is None else arrays[place] for n, place in enumerate(example.goes_to)]
    expected = kernel(*(np.array(layout(host)) for host in hosts))
    expected = expected if isinstance(expected, tuple) else (expected,)
    for _ in range(2):  # the first call, and one that finds its plan
        call(kernel, arrays, outputs)
        for n, place in enumerate(example.goes_to):
            whole = np.zeros_like(hosts[0]) if place is None else hosts[place].copy()
            layout(whole)[...] = expected[n]  # and nothing beside it
            assert same_bits(engine.get(blank[n] if place is None else bases[place]), whole), example
        for number in range(example.inputs):
            bases[number][...] = engine.put(hosts[number])


@pytest.mark.parametrize("is_snippet", [False, True])
def test_kernels_whose_outputs_are_inputs(engine, threads, is_snippet):
    @settings(max_examples=15, derandomize=True)
    @given(examples())
    def run(example):
        if is_snippet:
            check(example, engine, c_kernel(example), lambda kernel, x, out: kernel(*x, *out))
        else:
            check(example, engine, python_kernel(example), lambda kernel, x, out: kernel(*x, out=tuple(out)))

    run()


@pytest.mark.parametrize("size", [3, 20_000])
def test_pycudas_notation_assigns_in_place(engine, size):
    """Statements take effect one after the other, within each element."""
    names = INPUTS[:3]
    statements = [f"{one}[i] = {two}[i]" for one, two in itertools.permutations(names, 2)]
    statements += [f"{one}[i] = {one}[i] + {two}[i]" for one, two in itertools.combinations(names, 2)]
    parameters = ", ".join(f"int *{name}" for name in names)

    @settings(max_examples=50 if engine.name in ("numpy", "sim", "torch-cpu") else 10, derandomize=True)
    @given(st.lists(st.sampled_from(statements), min_size=3, max_size=9))
    def run(chosen):
        values = dict(zip(names, (np.arange(size, dtype=np.int32) * (k + 1) for k in range(3)), strict=True))
        arrays = {name: engine.put(value) for name, value in values.items()}
        elementwise(parameters, "; ".join(chosen))(*arrays.values())
        for statement in chosen:
            name, _, value = statement.partition("[i] = ")
            terms = [values[term.strip().removesuffix("[i]")] for term in value.split("+")]
            values[name] = sum(terms[1:], terms[0].copy())
        for name in names:
            assert same_bits(engine.get(arrays[name]), values[name]), (chosen, name)

    run()


def test_outputs_of_another_dtype_in_the_memory_of_inputs(engine):
    kernel = elementwise(lambda a, b, c: (b.astype("int32"), c.astype("uint32"), a > 0))
    whole = [random_bits("float32", 1000), random_bits("uint32", 1000), random_bits("int32", 1000)]
    flags = random_bits("int8", 1000)
    expected = kernel(*whole)
    arrays = [engine.put(each) for each in whole]
    third = engine.put(flags.view(bool))
    bits = [_viewed(arrays[0], "int32"), _viewed(arrays[1], "uint32")]
    kernel(*arrays, out=(*bits, third))
    for actual, each in zip((*bits, third), expected, strict=True):
        assert same_bits(engine.get(actual), each)
    less = elementwise(lambda a, b: a < b)
    small = engine.put(flags)
    less(small, small, out=_viewed(small, "bool"))
    assert not engine.get(_viewed(small, "bool")).any()


def _viewed(array, dtype):
    if type(array).__module__.startswith("torch"):
        import torch

        return array.view(getattr(torch, dtype))
    return array.view(np.dtype(dtype))


def test_a_store_elsewhere_takes_what_an_earlier_store_overwrites(engine):
    """The value, the index and the mask of an indexed store are inputs that an output is, too."""
    scatter = elementwise("T x, int64 at, bool is_kept", "T y, raw T z", "y = -x; if (is_kept) z[at] = x")
    x, at = np.arange(6, dtype=np.float32), np.arange(6)[::-1].copy()
    is_kept = np.array([True, False, True, True, False, True])
    expected_y, expected_z = np.empty_like(x), np.zeros_like(x)
    scatter(x, at, is_kept, expected_y, expected_z)
    dx, dz = engine.put(x), engine.put(np.zeros_like(x))
    scatter(dx, engine.put(at), engine.put(is_kept), dx, dz)
    assert expected_z.tolist() == [5, 0, 3, 2, 0, 0]
    assert same_bits(engine.get(dx), expected_y)
    assert same_bits(engine.get(dz), expected_z)


def test_byte_swapped_arrays_swap():
    x, y = np.arange(5, dtype=">f4"), np.arange(10, 15, dtype=">f4")
    elementwise(lambda x, y: (y, x))(x, y, out=(x, y))
    assert x.tolist() == [10, 11, 12, 13, 14]
    assert y.tolist() == [0, 1, 2, 3, 4]


# --- reductions


@pytest.mark.parametrize(
    "combine", ["a", "b", "max(a, b)", "min(a, b)", "fma(a, b, 1)", "a * b", "b / a", "hypot(a, b)"]
)
@pytest.mark.parametrize("count", [2, 5000])
def test_accumulators_that_are_combined_in_place(combine, count, engine):
    """A reduction combines into its own accumulators; here each level goes to new memory."""
    x = np.random.default_rng(count).uniform(0.9, 1.1, count)
    merge = elementwise("T a, T b", "T c", f"c = {combine}")
    folded = reduction("T x", "T y", map_expr="x", reduce_expr=combine, post_map_expr="y = a", dtype="T")
    actual = engine.get(folded(engine.put(x)))
    expected = tree(list(x), lambda a, b: merge(np.array(a), np.array(b))[()])
    assert same_bits(actual, expected) or ("hypot" in combine and np.isclose(actual, expected))


def test_a_reduction_to_its_input_is_refused(engine):
    x = engine.put(np.ones((1, 5), np.float32))
    for out in (x, x[:, :3]):
        with pytest.raises((KernelTypeError, LayoutError)):
            reductions.max(x, axis=0, keepdims=True, out=out)


# --- memory that arrays share, found from pointers and strides, against the sets of their bytes


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
