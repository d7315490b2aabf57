"""Python numbers in traced functions: what is made of them alone is Python's, their dtypes are NumPy's."""

import itertools
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.bits import outcome, same_bits
from xferlib.errors import KernelTypeError
from xferlib.kernels import elementwise

FUNCTIONS = {
    "x * n": lambda x, n: x * n, "n - x": lambda x, n: n - x, "x * 2**n": lambda x, n: x * 2**n,
    "x + n * n": lambda x, n: x + n * n, "x + n * 2": lambda x, n: x + n * 2,
    "x + (n // 3 - n % 5)": lambda x, n: x + (n // 3 - n % 5),
    "x + divmod(n, True)[0]": lambda x, n: x + divmod(n, True)[0],
    "x + divmod(7, n)[1]": lambda x, n: x + divmod(7, n)[1],
    "x + n / 7": lambda x, n: x + n / 7, "x + 7 // n": lambda x, n: x + 7 // n,
    "x + (abs(n) + -n)": lambda x, n: x + (abs(n) + -n),
    "x * (n > 2)": lambda x, n: x * (n > 2),
    "x + (n & 6 | 1)": lambda x, n: x + (n & 6 | 1),
    "x + (n << 3 ^ ~n)": lambda x, n: x + (n << 3 ^ ~n),
    "x + round(n)": lambda x, n: x + round(n),
    "x + (n.real - n.imag)": lambda x, n: x + (n.real - n.imag),
    "x + (n + True)": lambda x, n: x + (n + True),
    "x + np.maximum(n, 3)": lambda x, n: x + np.maximum(n, 3),
    "x < n": lambda x, n: x < n, "n <= x": lambda x, n: n <= x, "x == n": lambda x, n: x == n,
    "x + np.float32(2) * n": lambda x, n: x + np.float32(2) * n,
    "x + n * np.int8(2)": lambda x, n: x + n * np.int8(2),
    "x // n": lambda x, n: x // n,
    "where": lambda x, n: np.where(n, x, x + 1),
    "copysign": lambda x, n: np.copysign(x, n),
}  # fmt: skip
KERNELS = {name: elementwise(function, name="kernel") for name, function in FUNCTIONS.items()}
NUMBERS = (0, 1, 2, 3, -1, -3, 100, 127, 128, 300, -128, 2**31, 2**40, 2**63, -(2**63), True, False, 0.0, -0.0, 0.5,
           -2.5, 1e39, float("inf"), float("nan"), 2 - 3j)  # fmt: skip
DTYPES = ("bool", "int8", "int32", "int64", "uint8", "uint64", "float16", "float32", "float64", "complex64")


def _orders_complex(name, dtype, number):
    """NumPy orders complex numbers; a kernel does not."""
    if name == "x + np.maximum(n, 3)":
        return isinstance(number, complex)
    return name in ("x < n", "n <= x") and (isinstance(number, complex) or dtype == "complex64")


def _operand(dtype):
    values = {"b": [True, False], "i": [-3, 0, 1, 100], "u": [0, 1, 5, 100]}
    return np.array(values.get(np.dtype(dtype).kind, [-2.5, 0.0, 1.0, 7.25]), dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore")
def test_numbers_are_what_they_are_beside_numpy_arrays(name):
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        if name == "x * 2**n" and abs(number) > 1000:
            continue  # Python's integer would fill the memory
        x = _operand(dtype)
        expected, actual = (outcome(each, x, number) for each in (FUNCTIONS[name], KERNELS[name]))
        if isinstance(expected, Exception) or expected.dtype == object:
            assert isinstance(actual, Exception) or name in ("x == n", "x < n", "n <= x"), (dtype, number, actual)
        elif _orders_complex(name, dtype, number):
            assert isinstance(actual, KernelTypeError), (dtype, number)
        elif isinstance(actual, KernelTypeError) and number == 2**63:
            assert "out of range for int64" in str(actual), (dtype, number)  # NumPy's function takes it for uint64
        else:
            assert not isinstance(actual, Exception), (dtype, number, actual)
            assert actual.dtype == expected.dtype, (dtype, number)
            is_complex = "c" in (expected.dtype.kind, np.asarray(number).dtype.kind)  # infinities: see the table
            if not is_complex or np.all(np.isfinite(expected)):
                np.testing.assert_allclose(actual, expected, rtol=2e-3 if dtype == "float16" else 1e-6, atol=0)


def test_negative_powers_and_overflow_of_numbers():
    x = np.array([8.0, 3.0])
    assert elementwise(lambda x, n: x * 2**n)(x, -3).tolist() == [1.0, 0.375]
    assert elementwise(lambda x, n: x + n * n)(x, 2**40).tolist() == (x + 2.0**80).tolist()
    with pytest.raises(KernelTypeError, match=r"\(n \* 2\) is 200, out of range for int8"):
        elementwise(lambda x, n: x + n * 2)(np.zeros(2, np.int8), 100)


def test_one_kernel_sees_numbers_of_every_kind_in_turn(engine):
    kernel = elementwise(lambda x, n, m: (x + 2**n) * (n / m) + (m > 2))
    x = np.arange(6, dtype=np.float32)
    d = engine.put(x)
    calls = [(3, 2), (-3, 2), (3, 2.5), (0.5, 7), (-1, 1), (3, 2), (True, 4), (2j, 1), (-3, 2), (2**6, 3)]
    for n, m in calls * 2:
        expected = (x + 2**n) * (n / m) + (m > 2)
        result = engine.get(kernel(d, n, m))
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-6)  # NumPy multiplies complex numbers otherwise


def test_the_dtype_of_the_result_may_follow_the_value(engine):
    kernel = elementwise(lambda x, n: x * 2**n)
    x = engine.put(np.arange(4, dtype=np.int32))
    for _ in range(2):
        assert same_bits(engine.get(kernel(x, 2)), np.array([0, 4, 8, 12], np.int32))
        assert same_bits(engine.get(kernel(x, -1)), np.array([0, 0.5, 1, 1.5]))


def test_outputs_keywords_and_defaults():
    @elementwise
    def kernel(x, y=3, *, n=2):
        return x * (n - y), n * y, n > y

    x = np.arange(4, dtype=np.int16)
    for others, keywords, (n, y) in (
        ((), {}, (2, 3)),
        ((5,), {"n": 7}, (7, 5)),
        ((2**40,), {"n": 2**40}, (2**40, 2**40)),
    ):
        out = kernel(x, *others, **keywords) if n * y < 2**63 else None
        if out is None:
            with pytest.raises(KernelTypeError, match="out of range for int64"):
                kernel(x, *others, **keywords)
            continue
        into = np.empty(4, np.int16), np.empty(4, np.int64), np.empty(4, bool)
        for result in (out, kernel(x, *others, out=into, **keywords)):
            assert same_bits(result[0], x * (n - y))
            assert result[1].tolist() == [n * y] * 4
            assert result[2].tolist() == [n > y] * 4
        assert result[0] is into[0]


def test_errors_of_python_come_out_as_they_are():
    kernel = elementwise(lambda x, n: x + 1 / n)
    x = np.ones(2)
    for _ in range(2):
        assert kernel(x, 2).tolist() == [1.5, 1.5]
        with pytest.raises(ZeroDivisionError):
            kernel(x, 0)


def test_a_negative_power_of_integers_is_refused_whenever_it_comes():
    kernel = elementwise(lambda x, n: x**n)
    x = np.array([2, 3])
    for _ in range(2):
        assert kernel(x, 2).tolist() == [4, 9]
        with pytest.raises(KernelTypeError, match="negative power"):
            kernel(x, -2)
    with pytest.raises(KernelTypeError, match="out of range for int8"):
        elementwise(lambda x: x**200)(x.astype(np.int8))


def test_an_integer_beyond_the_dtype_compares_by_value():
    kernel = elementwise(lambda x, n: (x < n, x == n, n >= x))
    for dtype, n in itertools.product(("int8", "uint8", "int64", "uint64"), (5, 300, -300, 2**70, -(2**70))):
        x = np.array([0, 5, 100], dtype)
        for result, expected in zip(kernel(x, n), (x < n, x == n, n >= x), strict=True):
            assert same_bits(result, expected)


def test_gradients_of_kernels_with_numbers():
    torch = pytest.importorskip("torch")
    kernel = elementwise(lambda x, n, y: x**2 * 2**n + y * n)
    for n in (3, -2, 0.5):
        x, y = (torch.tensor([1.5, -2.0], dtype=torch.float64, requires_grad=True) for _ in range(2))
        kernel(x, n, y).sum().backward()
        assert same_bits(x.grad.numpy(), (2 * x.detach() * 2**n).numpy())
        assert y.grad.tolist() == [n, n]


SCALAR = st.one_of(st.integers(-20, 20), st.floats(-8, 8, width=16), st.booleans())
OPERATORS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.lt,
             operator.ge, operator.eq)  # fmt: skip


@st.composite
def trees(draw, depth=3):
    """A function of two numbers, made of operators and constants."""
    if depth == 0 or draw(st.booleans()):
        choice = draw(st.one_of(st.sampled_from(["n", "m"]), SCALAR))
        return (lambda n, m: n) if choice == "n" else (lambda n, m: m) if choice == "m" else (lambda n, m: choice)
    function, left, right = draw(st.sampled_from(OPERATORS)), draw(trees(depth - 1)), draw(trees(depth - 1))
    return lambda n, m: function(left(n, m), right(n, m))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(trees(), st.lists(st.tuples(SCALAR, SCALAR), min_size=2, max_size=4))
def test_random_expressions_of_numbers(tree, calls):
    kernel = elementwise(lambda x, n, m: x + tree(n, m))
    x = np.array([1.0, -2.0])
    for n, m in calls:
        expected, actual = outcome(lambda n, m: x + tree(n, m), n, m), outcome(kernel, x, n, m)
        assert type(expected) is type(actual), (expected, actual)
        if not isinstance(expected, Exception):
            assert same_bits(actual, expected)


def test_numbers_that_are_equal_are_told_apart_in_turn(target):
    there = target
    kernel = elementwise(lambda x, y: x * y)
    x, zero, minus = np.array([1.0, -1.0]), 0.0, -0.0
    same, out = there.put(x), there.put(x)
    for number in (zero, minus, zero, zero, 1.0, True, 1, 1.0, minus):
        assert same_bits(there.get(kernel(there.put(x), number)), x * number)
        assert same_bits(there.get(kernel(same, number)), x * number)
        assert same_bits(there.get(kernel(same, number, out=out)), x * number)


def test_a_refused_number_leaves_no_trace(target):
    there = target
    kernel = elementwise("int8 x, int8 n", "int8 y", "y = x * n")
    x = np.array([1, -2], np.int8)
    d, out, three = there.put(x), there.put(x), 3
    for _ in range(2):
        assert same_bits(there.get(kernel(d, three)), x * np.int8(3))
        with pytest.raises(KernelTypeError, match="300"):
            kernel(d, 300)
        for number in (np.int8(5), three, np.int8(7)):  # the same arrays, which stay bound
            assert same_bits(there.get(kernel(d, number, out=out)), x * np.int8(number))
            with pytest.raises(KernelTypeError, match="300"):
                kernel(d, 300, out=out)
