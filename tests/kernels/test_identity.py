"""The same bits from every library that is present: functions, casts, layouts, random programs."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import targets
from tests.kernels.bits import DTYPES, FLOATS, INTEGERS, random_bits, same_bits, specials
from xferlib.kernels import ElementwiseKernel, elementwise
from xferlib.kernels.definitions import FixedDefinition
from xferlib.kernels.functions import TABLE, numpy_loop
from xferlib.kernels.ir import Builder, Param, Store
from xferlib.kernels.python_frontend import NAMESPACE

REAL = ("bool", *INTEGERS, *FLOATS)


def _kernel(function):
    call = getattr(NAMESPACE, function)
    shapes = {1: lambda x: call(x), 2: lambda x, y: call(x, y), 3: lambda x, y, z: call(x, y, z)}
    return elementwise(shapes[TABLE[function].arity], name=function)


def _operands(dtype, arity):
    pool = np.concatenate([specials(dtype), random_bits(dtype, 200, seed=arity)])
    if arity == 1:
        return [np.concatenate([pool, random_bits(dtype, 20_000, seed=7)])]
    if arity == 2:
        left, right = np.meshgrid(pool[:100], pool[:100])
        return [left.ravel().copy(), right.ravel().copy()]
    pool = pool[:24]
    return [each.ravel().copy() for each in np.meshgrid(pool, pool, pool)]


@pytest.mark.parametrize("name", TABLE)
def test_every_function_of_every_dtype(name, target):
    for dtype in DTYPES:
        function = TABLE[name]
        if np.dtype(dtype).kind not in function.kinds:
            continue
        if numpy_loop(function, (np.dtype(dtype),) * function.arity) != (np.dtype(dtype),) * function.arity:
            continue  # NumPy computes it in another dtype, which has its own turn
        operands = _operands(dtype, function.arity)
        kernel = _kernel(name)
        expected = kernel(*operands)
        actual = target.get(kernel(*map(target.put, operands)))
        is_same = same_bits(actual, expected)
        assert is_same, f"{name} of {dtype}: {_first_difference(actual, expected, operands)}"


def _first_difference(actual, expected, operands):
    for place in range(expected.size):
        if not same_bits(actual[place : place + 1], expected[place : place + 1]):
            return [each[place] for each in operands], actual[place], expected[place]
    return None


def _ulps(actual, expected):
    """The largest distance in units in the last place; infinity where one is not finite."""
    finite = np.isfinite(expected)
    if not np.array_equal(finite, np.isfinite(actual)):
        return np.inf
    with np.errstate(all="ignore"):
        spacing = np.spacing(np.abs(expected[finite]))
        return np.max(np.abs(actual[finite] - expected[finite]) / spacing, initial=0)


@pytest.mark.parametrize("name", [name for name, function in TABLE.items() if "i" in function.kinds])
def test_narrow_results_widen_like_any_other(name, target):
    call = getattr(NAMESPACE, name)
    shapes = {1: lambda x: call(x).astype("uint64"), 2: lambda x, y: call(x, y).astype("uint64")}
    kernel = elementwise(shapes[TABLE[name].arity], name=f"wide_{name}")
    for dtype in ("int8", "int16", "int32"):
        operands = _operands(dtype, TABLE[name].arity)
        expected = kernel(*operands)
        assert same_bits(target.get(kernel(*map(target.put, operands))), expected), dtype


@pytest.mark.parametrize("source", REAL)
def test_narrow_conversions_widen_like_any_other(source, target):
    x = np.concatenate([specials(source), random_bits(source, 5000)])
    for narrow in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float16"):
        for wide in ("int64", "float64", "float32", "float16"):
            kernel = _chain(narrow, wide)
            assert same_bits(target.get(kernel(target.put(x))), kernel(x)), f"{source} to {narrow} to {wide}"


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int32", "uint64"])
def test_sums_cut_to_fewer_bits(dtype, target):
    x, y = random_bits(dtype, 1000, 1), random_bits(dtype, 1000, 2)
    for narrow, wide in itertools.product(("int8", "uint8", "int16"), ("int16", "uint16", "int64", "float32")):
        kernel = _cut(narrow, wide)
        for found, right in zip(kernel(target.put(x), target.put(y)), kernel(x, y), strict=True):
            assert same_bits(target.get(found), right), f"{narrow} to {wide}"


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_short_integers_by_way_of_unsigned_ones(dtype, target):
    """Elements that a thread reads one by one, and those that the careful step of a function takes."""
    x = np.arange(-128, 128, dtype=dtype) * (1 if dtype == "int8" else 255)
    kernels = [_chain(narrow, wide) for narrow in ("uint16", "uint32", "uint64") for wide in FLOATS]
    kernels.append(elementwise(lambda x: np.cos(x.astype("uint32"))))
    kernels.append(elementwise(lambda x: ((x.astype("int32") << 24) >> 24).astype("uint32").astype("float32")))
    for kernel in kernels:
        for each in (x, np.repeat(x, 2)):
            given = target.put(each)[:: each.size // 256]
            with np.errstate(all="ignore"):
                assert same_bits(target.get(kernel(given)), kernel(each[:: each.size // 256])), kernel.name


def _cut(narrow, wide):
    def function(x, y):
        return (x + y).astype(narrow).astype(wide), x.astype(narrow) < y.astype(narrow)

    return elementwise(function, name=f"cut_to_{narrow}_and_{wide}")


def _chain(narrow, wide):
    return elementwise(lambda x: x.astype(narrow).astype(wide), name=f"by_{narrow}_to_{wide}")


@pytest.mark.parametrize("source", DTYPES)
def test_every_conversion(source, target):
    x = np.concatenate([specials(source), random_bits(source, 5000)])
    for dtype in DTYPES:
        kernel = _cast(dtype)
        assert same_bits(target.get(kernel(target.put(x))), kernel(x)), f"{source} to {dtype}"


SIZES = {
    "remainder": lambda x, y: abs(x) % y,
    "quotient": lambda x, y: abs(x) // y,
    "fmod": lambda x, y: np.fmod(abs(x), y),
    "comparison": lambda x, y: abs(x) < 0,
    "shift": lambda x, y: abs(x) >> 3,
    "wide": lambda x, y: abs(x).astype("i8") + y,
    "float64": lambda x, y: y % abs(x).astype("f8"),
    "select": lambda x, y: np.where(x < 0, -x, x) % y,
    "product": lambda x, y: np.where(x >= 0, x, x * -1) // y,
    "maximum": lambda x, y: np.maximum(x, -x) % y,
    "bits": lambda x, y: ((x ^ (x >> 63)) - (x >> 63)) % y,
    "difference": lambda x, y: np.where(x - y < 0, y - x, x - y) % 7,
}
"""Functions of the size of an integer, which a compiler must not take for positive: the least one has none."""


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("name", SIZES)
def test_sizes_of_the_least_integers(name, dtype, target):
    info = np.iinfo(dtype)
    x, y = np.meshgrid(
        np.array([info.min, info.min + 1, -5, 0, 5, info.max], dtype), np.array([7, -7, 3, 1, -2], dtype)
    )
    x, y = x.ravel().copy(), y.ravel().copy()
    kernel = elementwise(SIZES[name], name=name)
    assert same_bits(target.get(kernel(target.put(x), target.put(y))), kernel(x, y))


def _cast(dtype):
    return elementwise(lambda x: x.astype(dtype), name=f"to_{dtype}")


LAYOUTS = {
    "row": lambda x: x[:1], "column": lambda x: x[:, :1], "strided": lambda x: x[:, ::2],
    "misaligned": lambda x: x[:, 1:], "transposed": lambda x: x.T, "zero-dimensional": lambda x: x[0, 0],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(layout, dtype, target):
    kernel = elementwise(lambda x, y: x * y + y)
    base = random_bits(dtype, 67 * 67).reshape(67, 67)
    if target.name == "pycuda" and layout == "zero-dimensional":
        pytest.skip("GPUArray has no zero-dimensional views")
    x = LAYOUTS[layout](base)
    other = base if layout in ("row", "column", "transposed", "zero-dimensional") else base[:, : x.shape[1]]
    expected = kernel(x, other)
    on_device = target.put(base)
    y = on_device if other is base else on_device[:, : x.shape[1]]
    assert same_bits(target.get(kernel(LAYOUTS[layout](on_device), y)), expected)


def test_three_dimensions_with_gaps(target):
    kernel = elementwise(lambda x, y: x - y)
    base = random_bits("float32", 9 * 10 * 22).reshape(9, 10, 22)
    d = target.put(base)
    expected = kernel(base[::2, 1:8, 2:19], base[:5, 2:9, 3:20])
    assert same_bits(target.get(kernel(d[::2, 1:8, 2:19], d[:5, 2:9, 3:20])), expected)


def test_raw_parameters_and_index(target):
    kernel = elementwise("raw T x, T y", "T z, int64 k", "z = i > 2 ? x[n - 1 - i] + y : y; k = i")
    x, y = np.arange(50, dtype=np.float32), np.ones(50, np.float32)
    for actual, expected in zip(kernel(target.put(x), target.put(y)), kernel(x, y), strict=True):
        assert same_bits(target.get(actual), expected)


def test_scatter(target):
    kernel = elementwise("T x, raw T z", "raw T w", "if (x > 3) w[n - 1 - i] = x + z[0]")
    x = np.arange(9, dtype=np.int16)
    w, expected = target.put(np.zeros(9, np.int16)), np.zeros(9, np.int16)
    kernel(target.put(x), target.put(x), w)
    kernel(x, x, expected)
    assert same_bits(target.get(w), expected)


def test_scalars_and_several_outputs(target):
    @elementwise
    def kernel(x, y, *, alpha=0.1, count=3):
        return x * alpha + y, x > count, (x + y).astype("int16")

    x, y = random_bits("float32", 1001), random_bits("float16", 1001)
    for actual, expected in zip(kernel(target.put(x), target.put(y)), kernel(x, y), strict=True):
        assert same_bits(target.get(actual), expected)


# --- random programs

UNARY = {"f": ["neg", "abs", "floor", "rint", "sqrt"], "i": ["neg", "abs", "not"]}
BINARY = {
    "f": ["add", "sub", "mul", "div", "min", "max", "fmod"],
    "i": ["add", "sub", "mul", "idiv", "imod", "floordiv", "floormod", "min", "max", "and", "or", "xor", "shl", "shr"],
}
COMPARE = ["eq", "ne", "lt", "le", "gt", "ge"]


@st.composite
def programs(draw):
    """A random program over two inputs, and their dtypes."""
    dtypes = [np.dtype(draw(st.sampled_from([*INTEGERS, *FLOATS]))) for _ in range(2)]
    b = Builder([Param(name=f"x{number}", dtype=dtype) for number, dtype in enumerate(dtypes)])
    nodes = [b.load(0), b.load(1)]
    for _ in range(draw(st.integers(1, 12))):
        x = draw(st.sampled_from(nodes))
        y = b.cast(draw(st.sampled_from(nodes)), x.dtype)
        kind = "f" if x.dtype.kind == "f" else "b" if x.dtype.kind == "b" else "i"
        choices = ["cast", "select", "compare"]
        choices += ["unary", "binary"] if kind != "b" else ["logic"]
        choices += ["call"] if x.dtype == np.float32 else []
        choice = draw(st.sampled_from(choices))
        if choice == "cast":
            nodes.append(b.cast(x, np.dtype(draw(st.sampled_from(REAL)))))
        elif choice == "select":
            test = b.truth(draw(st.sampled_from(nodes)))
            nodes.append(b.select(test, x, y))
        elif choice == "compare":
            nodes.append(b.op(draw(st.sampled_from(COMPARE)), x, y))
        elif choice == "logic":
            nodes.append(b.op(draw(st.sampled_from(["and", "or", "xor"])), x, y))
        elif choice == "unary":
            nodes.append(b.op(draw(st.sampled_from(UNARY[kind])), x))
        elif choice == "call":
            nodes.append(b.call(draw(st.sampled_from(["exp", "log", "sin", "tanh", "cbrt"])), x))
        else:
            nodes.append(b.op(draw(st.sampled_from(BINARY[kind])), x, y))
    b.params.append(Param(name="out", dtype=nodes[-1].dtype))
    return b.program([Store(param=2, value=nodes[-1])]), dtypes


@pytest.mark.parametrize("name", targets.NAMES)
def test_random_programs(name):
    there = targets.target(name)
    examples = 60 if name == "torch-cpu" else 25  # each one is compiled on a GPU

    @settings(max_examples=examples, deadline=None, derandomize=True)
    @given(programs())
    def check(example):
        program, dtypes = example
        pools = [np.concatenate([specials(dtype), random_bits(dtype, 64, seed=3)]) for dtype in dtypes]
        operands = [each.ravel().copy() for each in np.meshgrid(*pools)]
        kernel = ElementwiseKernel(FixedDefinition("random", program, 2))
        expected = kernel(*operands)
        assert same_bits(there.get(kernel(*map(there.put, operands))), expected), program.text

    check()


def test_the_comparison_can_fail():
    x = np.array([1.0, np.nan, -0.0], np.float32)
    assert same_bits(x, x.copy())
    assert not same_bits(x, np.array([1.0, np.nan, 0.0], np.float32))
    assert not same_bits(x, np.nextafter(x, np.float32(2)))
    assert not same_bits(x, x.astype(np.float64))
    assert not same_bits(x, x[:2])
