"""Computed indices: stores that might race are refused, reductions read where the index says, layouts are read."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.bits import same_bits
from tests.kernels.emulated import all_as_cuda
from xferlib.errors import KernelSyntaxError, KernelTypeError, LayoutError
from xferlib.kernels import elementwise, host_compiler, reduction
from xferlib.kernels.numpy_engine import SMALL
from xferlib.testing import configured

pytestmark = pytest.mark.usefixtures("kernels_apart")

INDEX = np.array([0, 0, 1], np.int32)


@pytest.mark.parametrize(
    "source",
    [
        "y[n - 1 - i] += j[i + 0]", "y[s + i] += j[i + 0]", "y[2 * i] = 1; y[2 * i + 1] = j[0 * i]",
        "y[i + n] = 1; y[i + 0] = j[0 * i]",
        "int k = i; y[k * 2 + 1] -= j[k]; y[k * 2 + 1] *= 3",
    ],
)  # fmt: skip
def test_an_index_of_its_own_may_be_updated(source, engine):
    kernel = elementwise("int *j, int s, double *y", source)
    j, y, expected = np.array([5, 3, 4], np.int32), np.arange(6.0), np.arange(6.0)
    given = engine.put(y)
    kernel(engine.put(j), 2, given, size=3)
    size, shift = 3, 2
    for i in range(size):  # C, one element after the other
        k = i
        if source.startswith("y[n"):
            expected[size - 1 - i] += j[i]
        elif source.startswith("y[s"):
            expected[shift + i] += j[i]
        elif source.startswith("y[2"):
            expected[2 * i], expected[2 * i + 1] = 1, j[0]
        elif source.startswith("y[i"):
            expected[i + size], expected[i] = 1, j[0]
        else:
            expected[k * 2 + 1] = (expected[k * 2 + 1] - j[k]) * 3
    assert same_bits(engine.get(given), expected)


@pytest.mark.parametrize(
    "update",
    ["y[j[i]] += 1", "y[j[i]] = y[j[i]] + x[i]", "y[j[i]]++", "y[i / 2] += x[i]", "y[i % 2] -= x[i]", "y[0] += x[i]",
     "y[i * s] *= 2", "int k = j[i]; if (k > 0) y[k] += 1", "int16 k = i; y[k] += 1", "y[(i * 3) / 2] += 1",
     "for (int k = 0; k < 2; ++k) y[j[i] + k] += 1", "y[i & 1] |= 1"],
)  # fmt: skip
def test_an_update_that_elements_may_share_is_refused(update):
    x, y = np.arange(3, dtype=np.int32), np.zeros(9, np.int32)
    with pytest.raises(KernelSyntaxError, match="update would be lost|read and written at different indices"):
        elementwise("int *j, int *x, int s, int *y", update)(INDEX, x, 1, y)
    assert not y.any()


@pytest.mark.parametrize(
    "stores", ["y[i] = 1; y[i + 1] = 2", "y[n - i] = 1; y[n - i - 3] = 2", "y[2*i] = 1; y[2*i + 4] = 2"]
)
def test_stores_of_two_elements_to_one_place_are_refused(stores):
    with pytest.raises(KernelSyntaxError, match="two elements of a call write the same element of 'y'"):
        elementwise("int *x, int *y", stores)(np.zeros(3, np.int32), np.zeros(9, np.int32))


def test_values_that_replace_one_another_are_an_error_where_they_can_be_seen():
    kernel = elementwise("int *j, double v, double *y", "y[j[i]] = i * v")
    y = np.zeros(3)
    kernel(np.array([2, 0, 1], np.int32), 1.0, y)
    assert y.tolist() == [1, 2, 0]
    with pytest.raises(KernelTypeError, match="different values to element 0"):
        kernel(INDEX, 1.0, y)
    kernel(INDEX, 0.0, y)  # the same value: whichever stays
    assert y.tolist() == [0, 0, 0]
    with pytest.raises(KernelTypeError, match="different values to element 0"):
        kernel(INDEX, 1.0, np.zeros((3, 2))[:, 0])


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(-3, 3), st.integers(-2, 2), st.integers(-3, 3), st.integers(-2, 2), st.integers(1, 5))
def test_an_accepted_kernel_writes_each_element_once(factor, shift, other, further, size):
    """The rule against every element's own index."""
    source = f"y[{factor} * i + {shift + 20}] = 1; y[{other} * i + {further + 20}] = i + 2"
    y = np.zeros(41, np.int32)
    first, second = ([f * i + s + 20 for i in range(size)] for f, s in ((factor, shift), (other, further)))
    shared = any(first[a] == second[b] for a, b in itertools.permutations(range(size), 2))
    try:
        elementwise("int *y", source)(y, size=size)
    except KernelSyntaxError:
        assert factor == other != 0
        assert (shift - further) % factor == 0
        return
    except KernelTypeError:
        assert other == 0
        assert size > 1
        return
    if not shared:
        expected = np.zeros(41, np.int32)
        for i in range(size):
            expected[first[i]] = 1
            expected[second[i]] = i + 2
        assert same_bits(y, expected)


# --- a local variable named i


def test_a_local_i_is_an_index_like_any_other(engine):
    x, y = np.array([1.0, 2.0, 4.0, 8.0]), np.zeros(4)
    total = elementwise("double *x, double *y", "double s = 0; for (int i = 0; i < 3; ++i) s += x[i]; y[i] = s")
    given = engine.put(y)
    total(engine.put(x), given)
    assert engine.get(given).tolist() == [7.0] * 4
    both = elementwise("double *x, double *y", "double s = x[i]; { int i = 2, k = i; s += x[k] + x[i]; } y[i] = s")
    both(engine.put(x), given)
    assert engine.get(given).tolist() == (x + 8).tolist()
    preamble = "double f(double v) { double s = 0; for (int i = 0; i < 3; i++) s += v * i; return s; }"
    elementwise("double *x, double *y", "y[i] = f(x[i])", preamble=preamble)(engine.put(x), given)
    assert engine.get(given).tolist() == (3 * x).tolist()


# --- reductions

MAPS = {
    "x[n - 1 - i] * y[i]": lambda x, y: x[::-1] * y,
    "x[(i + 1) % n] - x[i]": lambda x, y: np.roll(x, -1) - x,
    "i > 0 ? x[i - 1] : y[i]": lambda x, y: np.concatenate([y[:1], x[:-1]]),
    "x[(int)y[i]]": lambda x, y: x[y.astype(int)],
    "x[0 * i] + x[i] * y[i]": lambda x, y: x[0] + x * y,
    "x[i] * y[i] + x[n / 2]": lambda x, y: x * y + x[x.size // 2],
}


@pytest.mark.parametrize("source", MAPS)
def test_a_reduction_reads_where_the_index_says(source, engine):
    kernel = reduction("float *x, const float *y", map_expr=source, reduce_expr="a + b", identity="0", dtype="float")
    plain = reduction("float *x", map_expr="x[i]", reduce_expr="a + b", identity="0", dtype="float")
    for size in (1, 5, 700, 9001):
        x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
        y = (np.arange(size, dtype=np.float32) * 3) % size
        expected = plain(MAPS[source](x, y).astype(np.float32))
        for _ in range(2):
            assert same_bits(engine.get(kernel(engine.put(x), engine.put(y))), expected), size


def test_raw_parameters_shapes_scalars_and_outputs(engine):
    kernel = reduction("raw T x, T w, int64 k", "T y, int64 m", map_expr="x[(i + k) % n] * w", reduce_expr="max(a, b)",
                       post_map_expr="y = a; m = _in_ind.size()")  # fmt: skip
    x, w = np.arange(12, dtype=np.int32).reshape(3, 4), np.array([1, 2, 3, 1], np.int32)
    expected = (np.roll(x.ravel(), -5).reshape(3, 4) * w).max()
    y, count = kernel(engine.put(x), engine.put(np.broadcast_to(w, (3, 4)).copy()), 5)
    assert (engine.get(y), engine.get(count)) == (expected, 12)
    kept, _ = kernel(engine.put(x), engine.put(np.broadcast_to(w, (3, 4)).copy()), 5, keepdims=True, axis=(0, 1))
    assert engine.get(kept).tolist() == [[expected]]
    with pytest.raises(KernelTypeError, match="indexes an array freely"):
        kernel(engine.put(x), engine.put(x), 5, axis=0)


def test_indices_in_a_reduction_that_cannot_be_right():
    total = {"reduce_expr": "a + b", "identity": "0", "dtype": "double"}
    with pytest.raises(KernelTypeError, match="'x' has 3 elements, and the kernel used index 3"):
        reduction("double *x", map_expr="x[i + 1]", **total)(np.ones(3))
    with pytest.raises(KernelSyntaxError, match="declare it 'raw'"):
        reduction("double x", map_expr="x[n - 1]", **total)(np.ones(3))
    with pytest.raises(KernelSyntaxError, match="'y' is raw, but a reduction has one result"):
        reduction("double x", "raw double y", map_expr="x", reduce_expr="a + b", post_map_expr="y = a")
    with pytest.raises(LayoutError, match="'out0' has shape"):  # an output may be given by its position
        reduction("double x", map_expr="x", **total)(np.ones(3), np.ones(3))
    with pytest.raises(KernelTypeError, match="1 output"):
        reduction("double x", map_expr="x", **total)(np.ones(3), np.ones(()), np.ones(()))
    with pytest.raises(KernelSyntaxError, match="declared twice"):
        reduction("double x, double x", map_expr="x", **total)
    assert reduction("double *x", map_expr="x[n - 1 - i]", **total)(np.ones((0, 2))) == 0


def test_a_reduction_with_indices_on_the_simulator():
    import xferlib as xl

    kernel = reduction(
        "raw T x", "T y", map_expr="x[n - 1 - i] * i", reduce_expr="a + b", post_map_expr="y = a", identity="0"
    )
    x = np.arange(10.0)
    with xl.use_backend("sim"):
        assert xl.to_host(kernel(xl.to_device(x))) == (x[::-1] * np.arange(10)).sum()


def test_a_bool_array_is_read_under_a_condition():
    kernel = elementwise("raw bool x", "bool y", "if (i > 0) { y = x[i - 1]; } else { y = false; }", name="shift")
    out = np.empty(4, bool)
    kernel(np.array([True, False, True, True]), out)
    assert out.tolist() == [False, True, False, True]


# --- shapes, strides and an element's indices, and arrays indexed along each axis


A = np.arange(24.0).reshape(2, 3, 4)
B = np.arange(12, dtype=np.int64).reshape(3, 4)
Z, Y, X = np.meshgrid(range(2), range(3), range(4), indexing="ij")

KERNELS = {
    "indices": ("y = _ind.get()[0] * 100 + _ind.get()[1] * 10 + _ind.get()[2];", Z * 100 + Y * 10 + X),
    "last axis": ("y = _ind.get()[_ind.ndim - 1] + 10 * _ind.get()[_ind.ndim - 2];", X + 10 * Y),
    "an axis in a loop": ("y = 0; for (int d = 0; d < _ind.ndim + a; d++) y = y * 10 + _ind.get()[d % _ind.ndim] + d;",
        None),
    "no such axis": ("y = _ind.get()[3] + _ind.shape()[7] + b.shape()[2] + _ind.get()[-1];", Z * 0),
    "shape of the call": ("y = _ind.shape()[0] * 100 + _ind.shape()[1] * 10 + _ind.shape()[2];", Z * 0 + 234),
    "shape": ("y = b.shape()[0] * 10 + b.shape()[1] + b.ndim * 100 + b.size() * 1000;", Z * 0 + 12234),
    "strides": ("y = b.strides()[0] * 100 + b.strides()[1];", Z * 0 + 3208),
    "list of indices": ("y = b[{i % 3, 1}] + b[{2, i % 4}];",
        (B[np.arange(24) % 3, 1] + B[2, np.arange(24) % 4]).reshape(2, 3, 4)),
    "array of indices": ("int at[] = {_ind.get()[1], _ind.get()[2]}; y = b[at];", B[Y, X]),
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_reads_layouts(engine, name):
    operation, expected = KERNELS[name]
    kernel = elementwise("T a, raw int64 b", "T y", operation)
    found = engine.get(kernel(engine.put(A % 2), engine.put(B)))
    if expected is not None:
        assert found.tolist() == expected.tolist()


def test_a_kernel_of_cuda_reads_layouts():
    kernels = {name: elementwise("T a, raw int64 b", "T y", operation) for name, (operation, _) in KERNELS.items()}
    given = [(name, B) for name in KERNELS]
    given += [("list of indices", np.asfortranarray(B)), ("array of indices", B[:, ::-1])]  # whose axes are not one
    calls = [(kernels[name], A % 2, b, np.zeros_like(A)) for name, b in given]
    all_as_cuda(calls)
    for (name, _), (kernel, a, b, found) in zip(given, calls, strict=True):
        assert same_bits(found, kernel(a, b)), name


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


@pytest.mark.parametrize("cpu", ["numpy", "native"])
@pytest.mark.parametrize("size", [SMALL, SMALL + 1, 1 << 16, (1 << 16) + 1, 200_000])
def test_large_calls_over_raw_arrays_alone_meet_each_number_once(size, cpu):
    if cpu == "native" and host_compiler.find_compiler() is None:
        pytest.skip("there is no C compiler")
    count = elementwise("raw T x", "raw int64 count", "atomicAdd(&count[i % 3], x[n - 1 - i]); atomicAdd(&count[3], 1)")
    turn = elementwise("raw T x", "raw T y", "y[i] = x[n - 1 - i]")
    x, y, counts = np.arange(size), np.zeros(size, np.int64), np.zeros(4, np.int64)
    with configured(cpu=cpu):
        turn(x, y, size=size)
        count(x, counts, size=size)
    assert np.array_equal(y, x[::-1])
    assert counts.tolist() == [*(int(y[rest::3].sum()) for rest in range(3)), size]


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
