"""Shapes, strides and an element's indices in snippets, and arrays indexed along each axis."""

import numpy as np
import pytest

from tests.kernels.bits import same_bits
from tests.kernels.emulated import as_cuda
from xferlib.errors import KernelSyntaxError, KernelTypeError
from xferlib.kernels import elementwise, reduction

pytestmark = pytest.mark.usefixtures("kernels_apart")

A = np.arange(24.0).reshape(2, 3, 4)
B = np.arange(12, dtype=np.int64).reshape(3, 4)
Z, Y, X = np.meshgrid(range(2), range(3), range(4), indexing="ij")

KERNELS = {
    "indices": ("y = _ind.get()[0] * 100 + _ind.get()[1] * 10 + _ind.get()[2];", Z * 100 + Y * 10 + X),
    "last axis": ("y = _ind.get()[_ind.ndim - 1] + 10 * _ind.get()[_ind.ndim - 2];", X + 10 * Y),
    "an axis in a loop": (
        "y = 0; for (int d = 0; d < _ind.ndim + a; d++) y = y * 10 + _ind.get()[d % _ind.ndim] + d;",
        None,
    ),
    "no such axis": ("y = _ind.get()[3] + _ind.shape()[7] + b.shape()[2] + _ind.get()[-1];", Z * 0),
    "shape of the call": ("y = _ind.shape()[0] * 100 + _ind.shape()[1] * 10 + _ind.shape()[2];", Z * 0 + 234),
    "shape": ("y = b.shape()[0] * 10 + b.shape()[1] + b.ndim * 100 + b.size() * 1000;", Z * 0 + 12234),
    "strides": ("y = b.strides()[0] * 100 + b.strides()[1];", Z * 0 + 3208),
    "list of indices": (
        "y = b[{i % 3, 1}] + b[{2, i % 4}];",
        (B[np.arange(24) % 3, 1] + B[2, np.arange(24) % 4]).reshape(2, 3, 4),
    ),
    "array of indices": ("int at[] = {_ind.get()[1], _ind.get()[2]}; y = b[at];", B[Y, X]),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_reads_layouts(engine, name):
    operation, expected = KERNELS[name]
    kernel = elementwise("T a, raw int64 b", "T y", operation)
    found = engine.get(kernel(engine.put(A % 2), engine.put(B)))
    if expected is not None:
        assert found.tolist() == expected.tolist()
    again = np.zeros_like(A)
    as_cuda(kernel, A % 2, B, again)
    assert same_bits(found, again)


def test_strides_and_shapes_are_those_of_each_call():
    kernel = elementwise("raw T x", "raw T y", "int at[] = {1, i}; y[i] = x[at] + 100 * x.strides()[0];")
    for x in (np.arange(12.0).reshape(3, 4), np.arange(24.0).reshape(4, 6)[::2], np.arange(12.0).reshape(4, 3).T):
        y = np.zeros(3)
        kernel(x, y, size=3)
        assert y.tolist() == (x[1, :3] + 100 * x.strides[0]).tolist()


def test_elements_are_written_and_updated_by_their_indices(engine):
    y, counts = engine.put(np.zeros((5, 3))), engine.put(np.zeros((3, 2), np.int64))
    operation = "int at[] = {i, t}; y[at] = -1; atomicAdd(&counts[{t, 1}], 1)"
    kernel = elementwise("int64 t", "raw T y, raw int64 counts", operation)
    t = np.array([0, 2, 1, 1, 2])
    kernel(engine.put(t), y, counts)
    assert engine.get(y).tolist() == np.where(np.arange(3) == t[:, None], -1.0, 0.0).tolist()
    assert engine.get(counts).tolist() == [[0, 1], [0, 2], [0, 2]]


def test_large_calls_have_the_indices_of_the_whole():
    kernel = elementwise("T x", "T y", "y = _ind.get()[0] * 1000 + _ind.get()[1]")
    x = np.zeros((300, 700))
    assert np.array_equal(kernel(x), np.add.outer(np.arange(300) * 1000.0, np.arange(700)))
    assert np.array_equal(kernel(x.T), np.add.outer(np.arange(700) * 1000.0, np.arange(300)))


def test_a_map_of_raw_arrays_reads_layouts_and_other_maps_do_not():
    text = {"reduce_expr": "a + b", "post_map_expr": "y = a", "identity": "0"}
    kernel = reduction("T x, raw T w", "T y", map_expr="w.shape()[1] * x", **text)
    assert float(kernel(np.array([1.0, 2.0]), np.ones((2, 5)))) == 15
    with pytest.raises(KernelSyntaxError, match="element-wise kernels"):
        reduction("T x", "T y", map_expr="x * _ind.get()[0]", **text)(np.ones(3))


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        ("y = x.shape()[0]", "has no layout here"),
        ("y = _ind.strides()[0]", r"_ind has no strides\(\)"),
        ("y = b.get()[0]", r"b has no get\(\)"),
        ("y = x.real", "a scalar has no members"),
        ("int at[2][1] = {1, 2}; y = b[at]", "an index is a list of integers"),
        ("_ind.get()[0] = 1; y = x", "read-only"),
        ("double at[] = {1, 2}; y = b[at]", "index is float64"),
    ],
)
def test_layouts_that_are_refused(operation, words):
    with pytest.raises((KernelSyntaxError, KernelTypeError), match=words):
        elementwise("T x, raw int64 b", "T y", operation)(A, B)
