"""`elementwise` as a user writes it: both notations, NumPy and torch arrays, and what is refused."""

import numpy as np
import pytest
from numpy import exp, log1p, maximum

import xferlib as xl
from tests.kernels import targets
from tests.kernels.bits import same_bits
from xferlib.errors import KernelSyntaxError, KernelTypeError, LayoutError, MixedBackendsError, UnsupportedDTypeError
from xferlib.kernels import elementwise, reduction, reductions

torch = pytest.importorskip("torch")


@elementwise
def softplus(x):
    """A docstring."""
    return maximum(0, x) + log1p(exp(-abs(x)))


@elementwise
def scaled(x, y, *, alpha=2.0):
    return alpha * x + y, x > y


def test_the_program_is_given_for_a_dtype_of_each_parameter():
    traced = elementwise(lambda x, y=1.0, *, a=2.0: x * y + a, name="scaled")
    snippet = elementwise("T x, raw T w", "T z", "z = x + w[0]", name="added")
    assert traced.ir("float32").count("\n") < traced.ir("float32", "int64", float).count("\n")
    assert snippet.ir("float32", "float32", "float32")
    for call, words in (
        (lambda: traced.ir(), r"scaled.ir\(\): 0 dtype\(s\) were given for x, y, a"),
        (lambda: snippet.ir("float32"), r"added.ir\(\): 1 dtype\(s\) were given for x, w, z"),
        (lambda: traced.ir(float, float, float, float), "4 dtype"),
        (lambda: traced.ir("number"), "'number' is not a dtype"),
        (lambda: traced.ir(np.zeros(2)), "not a dtype"),
    ):
        with pytest.raises((KernelTypeError, UnsupportedDTypeError), match=words):
            call()


def test_traced_function_on_numpy():
    x = np.linspace(-3, 3, 7, dtype=np.float32)
    expected = np.maximum(0, x) + np.log1p(np.exp(-np.abs(x.astype(np.float64)))).astype(np.float32)
    np.testing.assert_allclose(softplus(x), expected, rtol=3e-7)  # three float32 roundings
    assert softplus(x).dtype == np.float32
    assert softplus.__doc__ == "A docstring."


def test_several_outputs_and_keyword_scalar():
    x, y = np.arange(4.0), np.full(4, 3.0)
    total, is_more = scaled(x, y)
    assert total.tolist() == [3.0, 5.0, 7.0, 9.0]
    assert is_more.tolist() == [False, False, False, False]
    assert scaled(x, y, alpha=0.5)[0].tolist() == [3.0, 3.5, 4.0, 4.5]
    out = np.empty(4), np.empty(4, bool)
    assert scaled(x, y, out=out)[0] is out[0]


def test_cupy_signature_with_a_generic_type():
    squared_diff = elementwise("T x, T y", "T z", "z = (x - y) * (x - y)", name="squared_diff")
    x, y = np.arange(10, dtype=np.float32).reshape(2, 5), np.arange(5, dtype=np.float32)
    assert same_bits(squared_diff(x, y), (x - y) * (x - y))
    assert same_bits(squared_diff(x, 5), (x - 5) * (x - 5))
    z = np.empty((2, 5), np.float32)
    assert squared_diff(x, y, z) is z


def test_pycuda_signature():
    x, y = np.arange(10, dtype=np.int32), np.zeros(10, np.int32)
    assert elementwise("int *x, int *y", "y[i] = x[i] + 1")(x, y) is None
    assert y.tolist() == list(range(1, 11))


def test_pycuda_complex():
    kernel = elementwise("pycuda::complex<float> *x, pycuda::complex<float> *y, pycuda::complex<float> *z",
                         "z[i] = x[i] * y[i]")  # fmt: skip
    x, z = np.array([1 + 2j, 3 - 1j], np.complex64), np.empty(2, np.complex64)
    kernel(x, x, z)
    assert z.tolist() == [-3 + 4j, 8 - 6j]


def test_mixed_orders_compute_the_same_element():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    y = np.empty((2, 3), np.float32, order="F")
    elementwise("float *x, float *y", "y[i] = x[i]")(x, y)
    assert np.array_equal(x, y)


def test_masked_read_stays_inside():
    kernel = elementwise("raw T x", "T z", "z = i > 0 && x[i - 1] > 1 ? x[i - 1] : -1")
    z = np.empty(4)
    kernel(np.arange(4.0), z)
    assert z.tolist() == [-1, -1, -1, 2]


def test_index_beyond_a_raw_array_is_an_error_on_the_cpu():
    with pytest.raises(KernelTypeError, match=r"'x' has 3 elements, and the kernel used index 3"):
        elementwise("raw T x", "T z", "z = x[i + 1]")(np.arange(3.0), np.empty(3))


def test_compound_assignment_reads_the_output():
    z = np.arange(3.0)
    elementwise("T x", "T z", "z += x; z *= 2")(np.ones(3), z)
    assert z.tolist() == [2, 4, 6]
    with pytest.raises(KernelTypeError, match="read before it is written"):
        elementwise("T x", "T z", "z += x")(np.ones(3))


def test_empty_zero_dimensional_and_large():
    assert softplus(np.empty((0, 3), np.float32)).shape == (0, 3)
    assert softplus(np.ones((), np.float32)).shape == ()
    x = np.arange(200_001, dtype=np.float32)
    assert same_bits(softplus(x)[-3:], softplus(x[-3:]))


def test_memory_maps_and_other_subclasses(tmp_path):
    x = np.memmap(tmp_path / "x", np.float32, "w+", shape=(50,))
    out = np.memmap(tmp_path / "out", np.float32, "w+", shape=(50,))
    x[:] = np.arange(50)
    for _ in range(3):  # the first call, the one looked up and the one remembered take different ways
        out[:] = 0
        assert softplus(x, out=out) is out
        assert same_bits(np.asarray(out), softplus(np.arange(50, dtype=np.float32)))


def test_every_way_of_a_call_gives_the_same():
    x, y = np.arange(6, dtype=np.float32), np.ones(6, np.float32)
    kernel = elementwise(lambda x, y: x - y)
    expected = x - y
    for _ in range(4):
        assert same_bits(kernel(x, y), expected)
        assert same_bits(kernel(x, 1), expected)
        assert same_bits(kernel(x[:3], y[:3]), expected[:3])
        assert same_bits(kernel(torch.from_numpy(x), torch.from_numpy(y)).numpy(), expected)
        by_position = np.empty_like(x)
        assert kernel(x, y, by_position) is by_position
        assert same_bits(by_position, expected)
        with pytest.raises(KernelTypeError, match=r"1 output\(s\)"):
            kernel(x, y, by_position, by_position)
        out = np.empty_like(x)
        assert kernel(x, y, out=out) is out
        out.flags.writeable = False
        with pytest.raises(LayoutError, match="read-only"):
            kernel(x, y, out=out)
        with pytest.raises(KernelTypeError, match="overlaps"):
            kernel(x[:-1], y[:-1], out=x[1:])


def test_byte_swapped_input_and_output():
    x = np.arange(5, dtype=">f4")
    out = np.empty(5, ">f4")
    softplus(x, out=out)
    assert same_bits(out.astype("f4"), softplus(x.astype("f4")))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: softplus(x, np.ones_like(x), np.ones_like(x)), KernelTypeError, r"1 output\(s\)"),
        (lambda x: softplus(), KernelTypeError, "lacks argument 'x'"),
        (lambda x: softplus(x, y=1), KernelTypeError, "has no parameter 'y'"),
        (lambda x: softplus("abc"), KernelTypeError, "argument 'x' is str"),
        (lambda x: softplus(2.0), KernelTypeError, "no argument is an array"),
        (lambda x: softplus(x, out=np.empty(3, np.float32)), LayoutError, r"shape \(3,\)"),
        (lambda x: softplus(x, out=np.empty(4)), LayoutError, "dtype float64, and the result float32"),
        (lambda x: scaled(x, x[:3]), KernelTypeError, r"argument 'y' has shape \(3,\).*does not broadcast"),
        (lambda x: scaled(x, torch.ones(4)), MixedBackendsError, "argument 'x'.*numpy.*argument 'y'.*torch"),
        (lambda x: scaled(x, x, alpha=x), KernelTypeError, "keyword 'alpha' is ndarray"),
        (lambda x: softplus(np.array(["a"])), TypeError, "dtype"),
    ],
)
def test_refused(call, error, words):
    with pytest.raises(error, match=words):
        call(np.ones(4, np.float32))


def test_partial_overlap_is_refused_and_exact_overlap_is_not():
    x = np.zeros(10, np.float32)
    with pytest.raises(KernelTypeError, match="overlaps argument 'x' in part"):
        softplus(x[:-1], out=x[1:])
    with pytest.raises(KernelTypeError, match="overlaps"):
        softplus(x[::-1], out=x)
    softplus(x[::2], out=x[1::2])  # interleaved: no byte in common


def test_generic_letter_must_agree():
    kernel = elementwise("T x, T y", "T z", "z = x + y")
    with pytest.raises(KernelTypeError, match="type T is float32 of argument 'x' and float64 of argument 'y'"):
        kernel(np.ones(2, np.float32), np.ones(2))


def test_letter_used_by_a_scalar_only_takes_its_type():
    assert elementwise("T x, S s", "T z", "z = x * s")(np.ones(2, np.float32), 2.5).tolist() == [2.5, 2.5]


def test_scalar_out_of_range():
    kernel = elementwise("T x, T y", "T z", "z = x + y")
    x = np.ones(2, np.int8)
    for value, words in ((300, "out of range for int8"), (1.5, "round it first"), (1j, "is complex")):
        with pytest.raises(KernelTypeError, match=words):
            kernel(x, value)
    with pytest.raises(KernelTypeError, match="out of range for int8"):
        elementwise(lambda x, y: x + y)(x, 300)


def test_definition_of_the_wrong_kind():
    with pytest.raises(KernelTypeError, match="given were int"):
        elementwise(3)
    with pytest.raises(KernelTypeError, match="neither 'exact' nor 'fast'"):
        elementwise("T x", "T z", "z = x", math="quick")


def test_many_arguments():
    names = [f"x{number}" for number in range(256)]
    kernel = elementwise(", ".join(f"T {name}" for name in names), "T z", "z = " + " + ".join(names))
    assert kernel(*[np.ones(3)] * 256).tolist() == [256.0] * 3


def test_a_loop_over_neighbours():
    smooth = elementwise(
        "raw T x", "T z", "T s = 0; for (int k = -1; k <= 1; ++k) s += x[(i + k + n) % n]; z = s / 3", name="smooth"
    )
    x = np.arange(6.0)
    np.testing.assert_allclose(smooth(x, size=6), (np.roll(x, 1) + x + np.roll(x, -1)) / 3)
    np.testing.assert_array_equal(smooth(x, size=np.int64(6)), smooth(x, size=6))
    for wrong in (True, 5.0, -1, np.int8(-1)):
        with pytest.raises(KernelTypeError, match="must be an int, 0 or more"):
            smooth(x, size=wrong)


def test_a_counter_does_not_grow():
    program = elementwise("T x", "T z", "z = x; for (int k = 0; k < 2000; ++k) z += k").ir("float32", "float32")
    assert program.count("= add") == 2000


def test_a_preamble_in_pycudas_notation_and_in_a_reduction():
    x = np.arange(5, dtype=np.float32)
    double = "__device__ float twice(float v) { return 2 * v; }"
    z = np.empty_like(x)
    elementwise("float *x, float *z", "z[i] = twice(x[i])", preamble=double)(x, z)
    assert z.tolist() == (2 * x).tolist()
    total = reduction("T x", "T y", map_expr="twice(x)", reduce_expr="a + b", post_map_expr="y = a", identity="0",
                         preamble=double)  # fmt: skip
    assert total(x) == 20


@pytest.mark.parametrize(
    ("preamble", "words"),
    [
        ("float f(float v) { return g(v); }", "unknown function 'g'"),
        ("float f(float v) { return f(v); }", "must not call itself"),
        ("float f(float v) { v = 1; }", "ends without return"),
        ("float f(float v) { if (v > 0) return 1; }", "ends without return"),
        ("float f(float *v) { return 1; }", "must be a pointer"),
        ("float f(float v, float w) { return v; }", r"f\(\) takes 2 argument"),
        ("float f(float v) { for (int k = 0; k < v; ++k) return v; }", "ends without return"),
        ("float f(float v) { return x; }", "'x' is not declared"),
        ("int global;", "'global' is a variable of all elements"),
        ("float f(float v) { return v;", "is not complete C"),
    ],
)
def test_preambles_that_cannot_be_used(preamble, words):
    with pytest.raises((KernelSyntaxError, KernelTypeError), match=words):
        elementwise("float x", "float z", "z = f(x)", preamble=preamble)(np.ones(3, np.float32))


@pytest.mark.parametrize("name", targets.ENGINES)
@pytest.mark.parametrize("shape", [(2,) * 17, (1,) * 23 + (2,) * 17 + (1,) * 23], ids=["17", "63"])
def test_as_many_axes_as_numpy_has(name, shape):
    there = targets.target(name)
    x = np.arange(1 << 17, dtype=np.float32).reshape(shape)
    d = there.put(x)
    turned = xl.get_backend(d).at(xl.device_of(d)).reversed_axes(d)  # none of its axes merges with one of the other
    add = elementwise(lambda x, y: x + 2 * y)
    for _ in range(2):
        assert same_bits(there.get(add(d, turned)), x + 2 * x.T)
        assert same_bits(there.get(add(d, turned, out=there.put(np.zeros_like(x)))), x + 2 * x.T)
    first = shape.index(2)
    for axis in (first, first + 16, (first, first + 8)):
        assert same_bits(there.get(reductions.sum(turned, axis=axis)), x.T.sum(axis=axis))  # whole numbers below 2^24
    assert float(there.get(reductions.max(turned))) == (1 << 17) - 1
