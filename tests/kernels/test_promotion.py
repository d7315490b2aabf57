"""Traced functions beside NumPy's and SciPy's: dtype and value of every operator and function, over pairs of dtypes."""

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.bits import DTYPES, FLOATS, INTEGERS, outcome, random_bits, same_bits, specials
from tests.sizes import IS_LONG
from xferlib.errors import KernelError, KernelTypeError
from xferlib.kernels import elementwise
from xferlib.kernels.functions import TABLE, guarantee
from xferlib.kernels.python_frontend import NAMESPACE

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("kernels_apart")]


BINARY = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift",
                 "lt", "le", "gt", "ge", "eq", "ne")
}  # fmt: skip
UNARY = {"neg": operator.neg, "pos": operator.pos, "abs": abs, "invert": operator.inv}
ORDERED = {"lt", "le", "gt", "ge", "less", "less_equal", "greater", "greater_equal", "minimum", "maximum", "fmin",
           "fmax", "clip", "clip below"}  # fmt: skip
POWERS = {"pow", "power"}
NUMPY = {name: getattr(np, name) for name in TABLE if hasattr(np, name)}
LAYERS = {
    **{name: (function, getattr(NAMESPACE, name)) for name, function in NUMPY.items() if TABLE[name].arity == 2},
    **{name: (function, function) for name, function in BINARY.items()},
    "where": (lambda x, y: np.where(x, x, y),) * 2,
    "clip": (lambda x, y: np.clip(x, y, y),) * 2,
    "clip below": (lambda x, y: np.clip(x, None, y),) * 2,
}
ONE = {
    **{name: (function, getattr(NAMESPACE, name)) for name, function in NUMPY.items() if TABLE[name].arity == 1},
    **{name: (function, function) for name, function in UNARY.items()},
    "np.real": (np.real,) * 2, "np.imag": (np.imag,) * 2, "np.round": (np.round,) * 2, "np.around": (np.around,) * 2,
    ".real": (lambda x: x.real,) * 2, "clip nothing": (lambda x: np.clip(x, x, None),) * 2,
}  # fmt: skip


def _is_exception(name, operands):
    """The differences that the reference lists."""
    kinds = {each.dtype.kind for each in operands}
    if "c" in kinds and (name in ORDERED or name in ("exp2", "clip nothing")):
        return "refused"
    is_integer = kinds <= set("biu")
    if name in POWERS and is_integer and operands[1].dtype.kind == "i":
        return "power"
    return None


def _check(name, numpys, ours, operands):
    expected, actual = outcome(numpys, *operands), outcome(elementwise(ours, name="kernel"), *operands)
    label = f"{name} of {', '.join(str(each.dtype) for each in operands)}"
    difference = _is_exception(name, operands)
    if difference == "refused":
        assert isinstance(actual, KernelError), label
        return
    if difference == "power" and isinstance(expected, ValueError):  # by arrays: 1, -1 or 0 as the quotient truncates
        assert not isinstance(actual, Exception), label
        return
    if isinstance(expected, Exception):
        assert isinstance(actual, KernelError), f"{label}: NumPy refuses it ({expected}), the kernel gives {actual!r}"
        return
    assert not isinstance(actual, Exception), f"{label}: {actual}"
    assert actual.dtype == expected.dtype, label
    _compare_values(label, name, operands, expected, actual)


def _compare_values(label, name, operands, expected, actual):
    if expected.dtype.kind == "c" or any(each.dtype.kind == "c" for each in operands):
        return  # formulas of their own, whose bounds other tests hold
    if name == "logaddexp":
        return  # the sum may cancel: the table gives no bound
    if name == "reciprocal" and expected.dtype.kind in "iu":
        expected, actual = expected[operands[0] != 0], actual[operands[0] != 0]
    if expected.dtype.kind != "f":
        assert np.array_equal(expected, actual), label
        return
    same = (expected == actual) | (np.isnan(expected) & np.isnan(actual))
    rtol = 4 * float(np.finfo(expected.dtype).eps)
    close = np.isclose(actual, expected, rtol=rtol, atol=float(np.finfo(expected.dtype).smallest_subnormal))
    assert np.all(same | close), label


def _pairs(one, two):
    x, y = np.meshgrid(specials(one)[:: 7 if np.dtype(one).kind == "c" else 1], specials(two))
    return [x.ravel().copy(), y.ravel().copy()]


@pytest.mark.parametrize("name", LAYERS)
def test_two_operands(name):
    numpys, ours = LAYERS[name]
    function = lambda x, y: ours(x, y)
    for number, one in enumerate(DTYPES):
        # A third of the pairs, other ones for each function.
        for two in DTYPES if IS_LONG else DTYPES[(number + len(name)) % 3 :: 3]:
            _check(name, numpys, function, _pairs(one, two))


@pytest.mark.parametrize("name", ONE)
def test_one_operand(name):
    numpys, ours = ONE[name]
    for dtype in DTYPES:
        _check(name, numpys, lambda x: ours(x), [specials(dtype)])


@pytest.mark.parametrize("source", DTYPES)
def test_astype(source):
    for target in DTYPES:
        x = specials(source)
        if x.dtype.kind in "fc" and np.dtype(target).kind in "iu":
            x = np.array([0, 1, 2.5, 100]).astype(source)  # beyond the range, floats saturate
        with np.errstate(all="ignore"):
            assert same_bits(elementwise(lambda x: x.astype(target))(x), x.astype(target)), (source, target)  # noqa: B023


SCALARS = [
    np.dtype(name).type(2) for name in (DTYPES if IS_LONG else ("bool", "int8", "uint64", "float32", "complex64"))
]
SCALARS += [np.int8(-1), np.uint64(2**64 - 1), np.float64(0.1)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_numpy_scalar_on_either_side(dtype):
    x = specials(dtype)[::3]
    functions = {**BINARY, **{name: NUMPY[name] for name in ("minimum", "copysign", "equal", "hypot")}}
    for place, (name, function) in enumerate(functions.items()):
        for number, value in enumerate(SCALARS):
            sides = (lambda x: function(x, value), lambda x: function(value, x))  # noqa: B023
            first = (place + number + DTYPES.index(dtype)) % 2  # the other side with the next dtype
            for ours in sides if IS_LONG else sides[first : first + 1]:
                expected, actual = outcome(ours, x), outcome(elementwise(ours, name="kernel"), x)
                operands = [x, np.asarray(value)]
                is_power = name == "pow" and {each.dtype.kind for each in operands} <= set("biu")
                if _is_exception(name, operands) == "refused":
                    assert isinstance(actual, KernelError), (name, value)
                elif isinstance(expected, Exception) and not is_power:
                    assert isinstance(actual, KernelError), (name, value, actual)
                elif not isinstance(expected, Exception):
                    assert not isinstance(actual, Exception), (name, value, actual)
                    assert actual.dtype == expected.dtype, (name, value)
                    if np.asarray(expected).dtype.kind in "biu" and "c" not in (x.dtype.kind, value.dtype.kind):
                        assert np.array_equal(actual, expected), (name, value)


def test_uint64_beside_signed_integers_compares_by_value():
    big = np.array([0, 1, 127, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    for dtype in ("int8", "int16", "int32", "int64"):
        x, y = np.meshgrid(big, specials(dtype))
        exact = x.astype(object), y.astype(object)
        for name in ("lt", "le", "gt", "ge", "eq", "ne"):
            function = BINARY[name]
            expected = function(*exact).astype(bool)
            assert np.array_equal(elementwise(lambda x, y: function(x, y))(x, y), expected), (name, dtype)  # noqa: B023
            assert np.array_equal(elementwise(lambda x, y: function(y, x))(y, x), expected), (name, dtype)  # noqa: B023


REAL = ("bool", *INTEGERS, *FLOATS)
BOUNDS = [None, True, 1, -(2**70), 2**70, 2.5, *[np.dtype(name).type(2) for name in ("bool", *INTEGERS, *FLOATS)]]
CLIPS = {
    "by position": lambda x, low, high: np.clip(x, low, high),
    "a_min": lambda x, low, high: np.clip(x, a_min=low, a_max=high),
    "min": lambda x, low, high: np.clip(x, min=low, max=high),
    "a": lambda x, low, high: np.clip(a=x, a_min=low, a_max=high),
    "method": lambda x, low, high: x.clip(low, high),
}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.sampled_from(list(CLIPS)),
    st.sampled_from(REAL),
    st.tuples(*[st.sampled_from([*BOUNDS, *REAL])] * 2),
)
def test_clip_promotes_all_three_together(way, dtype, bounds):
    clip = CLIPS[way]
    arrays = [specials(each) if isinstance(each, str) else each for each in bounds]
    operands = [np.resize(each, 8) if isinstance(each, np.ndarray) else each for each in (specials(dtype), *arrays)]
    given_arrays = [each for each in operands if isinstance(each, np.ndarray)]

    def chosen(*values):
        found = iter(values)
        return clip(*[next(found) if isinstance(each, np.ndarray) else each for each in operands])

    expected = outcome(chosen, *given_arrays)
    kernel = elementwise(
        [lambda x: chosen(x), lambda x, y: chosen(x, y), chosen_of_three(chosen)][len(given_arrays) - 1]
    )
    actual = outcome(kernel, *given_arrays)
    if isinstance(expected, Exception):
        no_bounds = all(each is None for each in bounds)
        assert isinstance(actual, KernelError) or no_bounds, (expected, actual)
        return
    assert not isinstance(actual, Exception), actual
    assert actual.dtype == expected.dtype
    assert np.array_equal(actual, expected, equal_nan=expected.dtype.kind == "f")


def chosen_of_three(function):
    return lambda x, y, z: function(x, y, z)


def test_a_bound_that_is_an_argument_is_none_beyond_the_dtype():
    kernel = elementwise(lambda x, low, high: np.clip(x, low, high))
    x = np.array([-128, -3, 5, 127], np.int8)
    for low, high in ((-1000, 4), (-2, 4), (-2, 1000), (-(2**70), 2**70)):
        assert np.array_equal(kernel(x, low, high), np.clip(x, low, high))


CLOSED = ["add", "sub", "mul", "floordiv", "mod", "lt", "ge", "eq", "and_", "xor"]


@st.composite
def trees(draw, depth=3):
    """A function of three operands, made of operators that agree with NumPy's bit for bit."""
    if depth == 0:
        leaf = draw(
            st.one_of(st.integers(0, 2), st.sampled_from([1, 2, 0.5, np.float32(3), np.int16(-2), np.uint64(7)]))
        )
        return (lambda *args: args[leaf]) if type(leaf) is int else lambda *args: leaf
    form = draw(st.sampled_from([*CLOSED, "where", "abs"]))
    parts = [draw(trees(depth=draw(st.integers(0, depth - 1)))) for _ in range(3)]
    if form == "where":
        return lambda *args: np.where(*(each(*args) for each in parts))
    if form == "abs":
        return lambda *args: abs(parts[0](*args))
    return lambda *args: BINARY[form](parts[0](*args), parts[1](*args))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(trees(), st.tuples(*[st.sampled_from(REAL)] * 3))
def test_random_expressions(tree, dtypes):
    operands = [
        np.resize(np.arange(-3 if np.dtype(dtype).kind in "if" else 0, 5), 16).astype(dtype) for dtype in dtypes
    ]
    operands = [np.roll(each, number * 3) for number, each in enumerate(operands)]
    expected = outcome(lambda *args: tree(*args) + args[0] * 0, *operands)
    actual = outcome(elementwise(lambda x, y, z: tree(x, y, z) + x * 0), *operands)
    if isinstance(expected, Exception):  # of Python numbers alone the error is Python's
        assert isinstance(actual, KernelError) or str(actual) == str(expected)
        return
    assert not isinstance(actual, Exception), actual
    assert actual.dtype == expected.dtype
    assert np.array_equal(actual, expected, equal_nan=expected.dtype.kind == "f")


def test_functions_that_numpy_does_not_have_are_listed():
    others = {name for name in TABLE if name not in NUMPY}
    assert others == {"fma", "rsqrt"}, "nothing here tests their values: test them elsewhere, and add them to this list"


def test_a_part_of_a_bool_is_exact():
    assert guarantee("real", "bool").bound_ulp == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.clip(7, x, x), lambda x: np.clip(5, None, x), lambda x: np.clip(2.5, 0, x),
        lambda x: np.clip(np.float32(7), x, 9), lambda x: np.clip(x, 0, 5), lambda x: np.clip(x, None, None),
    ],
)  # fmt: skip
def test_a_number_that_is_clipped_has_a_dtype_of_its_own(function):
    x = np.array([3, 9], np.int32)
    found, expected = elementwise(function)(x), function(x)
    assert found.dtype == expected.dtype
    assert found.tolist() == expected.tolist()


# --- functions with two results, or made of others


EXACT_ONE = {
    "frexp": np.frexp, "modf": np.modf, "spacing": np.spacing, "bitwise_count": np.bitwise_count,
    "isposinf": np.isposinf, "isneginf": np.isneginf, "isreal": np.isreal, "iscomplex": np.iscomplex,
    "nan_to_num": np.nan_to_num, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg, "degrees": np.degrees,
    "radians": np.radians,
}  # fmt: skip
EXACT_TWO = {"ldexp": np.ldexp, "heaviside": np.heaviside, "divmod": np.divmod}


def _numbers(dtype):
    return np.concatenate([specials(dtype), random_bits(dtype, 500)])


def _kernel(function, count):
    return elementwise((lambda x: function(x)) if count == 1 else (lambda x, y: function(x, y)))


def _check_of_others(function, *operands):
    """The kernel gives the bits and dtypes of NumPy's function, or both refuse."""
    expected, found = outcome(function, *operands), outcome(_kernel(function, len(operands)), *operands)
    label = f"{function.__name__} of {', '.join(str(each.dtype) for each in operands)}"
    if isinstance(expected, Exception):
        assert isinstance(found, KernelTypeError), label
        return
    assert not isinstance(found, Exception), f"{label}: {found}"
    both = (found, expected) if isinstance(found, tuple) else ((found,), (expected,))
    assert all(map(same_bits, *both)), label


@pytest.mark.parametrize("name", EXACT_ONE)
def test_functions_of_one(name):
    for dtype in DTYPES:
        x = _numbers(dtype)
        if name == "frexp" and x.dtype.kind == "f":
            x = x[np.isfinite(x)]  # C leaves the exponent of an infinity open
        if name == "spacing" and dtype in ("bool", "int8", "uint8", "float16"):
            continue  # NumPy's is positive there, of negative numbers too
        _check_of_others(EXACT_ONE[name], x)


@pytest.mark.parametrize("name", EXACT_TWO)
def test_functions_of_two(name):
    for first in (*FLOATS, "int8", "int32", "bool", "complex64"):
        for second in (*FLOATS, *INTEGERS):
            x, y = specials(first), specials(second)
            if name == "ldexp":
                y = np.clip(y, 0, 60) if y.dtype.kind == "u" else np.clip(y, -60, 60).astype(second)
                if first == "float16":
                    x = x[np.abs(x.astype(float)) > 1e-2]  # NumPy rounds subnormal results twice
            x, y = (each.ravel() for each in np.meshgrid(x, y))
            if name == "divmod" and np.result_type(x, y) == np.float16:
                continue  # NumPy rounds the quotient twice
            _check_of_others(EXACT_TWO[name], x, y)


def test_every_engine_gives_two_results(engine):
    x = _numbers("float32")
    x = x[np.isfinite(x)]
    found = elementwise(lambda x: (*np.frexp(x), *np.modf(x)))(engine.put(x))
    assert [engine.get(each).dtype for each in found] == [np.float32, np.int32, np.float32, np.float32]
    assert all(map(same_bits, map(engine.get, found), (*np.frexp(x), *np.modf(x))))


def test_numbers_take_part():
    x = np.array([1.5, -3.0], np.float32)
    assert same_bits(elementwise(lambda x, n: np.ldexp(x, n))(x, -3), np.ldexp(x, -3))
    whole, rest = elementwise(lambda x, n: divmod(n, x))(x, 7.0)
    assert same_bits(whole, 7.0 // x)
    assert same_bits(rest, np.float32(7) % x)


def test_functions_made_of_others_are_near():
    x = np.concatenate([np.linspace(-4, 4, 200), [0.0, 0.0795]])  # the last: where the series of sinc is longest
    y = np.roll(x, 7)
    for name, operands in (("sinc", (x,)), ("i0", (x,)), ("logaddexp2", (x, y)), ("float_power", (np.abs(x), y))):
        function = getattr(np, name)
        kernel = _kernel(function, len(operands))
        np.testing.assert_allclose(kernel(*operands), function(*operands), rtol=1e-14, atol=1e-16)
    assert elementwise(lambda x: np.float_power(x, 2))(np.array([3], np.float32)).dtype == np.float64
    z = x + 1j * y
    np.testing.assert_allclose(elementwise(lambda z: np.angle(z))(z), np.angle(z), rtol=1e-15)
    np.testing.assert_allclose(elementwise(lambda z: np.angle(z, deg=True))(z), np.angle(z, deg=True), rtol=1e-15)
    assert same_bits(elementwise(lambda x: np.fix(x))(x), np.fix(x))
    found = elementwise(lambda x: np.nan_to_num(x, nan=1, posinf=2, neginf=-2))(np.array([np.nan, np.inf, -np.inf]))
    assert found.tolist() == [1, 2, -2]


def _filled(x):
    return np.nan_to_num(x, nan=np.float64(1.5), posinf=np.float64(2), neginf=-2)


@pytest.mark.parametrize("function", [np.i0, np.angle, np.sinc, _filled])
def test_dtypes_of_functions_made_of_others_are_numpys(function):
    for dtype in DTYPES:
        x = np.array([0, 1, 1], dtype)
        expected, found = outcome(function, x), outcome(_kernel(function, 1), x)
        if isinstance(expected, Exception):
            assert isinstance(found, KernelTypeError), dtype
        else:
            assert not isinstance(found, Exception), found
            assert found.dtype == expected.dtype, dtype
            rtol = 4 * np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol, err_msg=str(dtype))
    assert elementwise(lambda x, n: function(n) + x)(np.zeros(1), 3).dtype == np.float64


def test_a_number_that_replaces_nan_keeps_the_dtype():
    x = np.array([np.nan, np.inf, -np.inf, 0.1], np.float32)
    assert same_bits(elementwise(_filled)(x), _filled(x))
    with pytest.raises(KernelTypeError, match="takes real numbers, and a complex one is given"):
        elementwise(lambda x: np.nan_to_num(x, nan=1j))(x)


def test_functions_of_scipy():
    special = pytest.importorskip("scipy.special")
    x = np.linspace(0.01, 0.99, 99)
    names = "erf erfc erfcx erfinv erfcinv ndtr ndtri gamma gammaln i0 exp10 expit logit"
    for function in (getattr(special, name) for name in names.split()):
        kernel = elementwise(lambda x: function(x))  # noqa: B023
        np.testing.assert_allclose(kernel(x), function(x), rtol=1e-13)
        assert kernel(x.astype(np.float32)).dtype == function(x.astype(np.float32)).dtype
        assert kernel(np.arange(3)).dtype == np.float64


@pytest.mark.parametrize("name", ["erf", "gammaln", "expit", "xlogy"])
def test_they_are_in_the_namespace_of_a_traced_value(name):
    def function(x):
        call = getattr(x.__array_namespace__(), name)
        return call(x, x) if name == "xlogy" else call(x)

    x = np.array([0.25, 1.5, 3.0])
    text = {"erf": "erf(x)", "gammaln": "lgamma(x)", "expit": "1 / (1 + exp(-x))", "xlogy": "x * log(x)"}[name]
    assert same_bits(elementwise(function)(x), elementwise("T x", "T y", f"y = {text}")(x))
    with pytest.raises(KernelTypeError, match=rf"{name}\(.*\) is not defined"):
        elementwise(function)(x.astype(complex))


def test_a_product_with_a_logarithm_at_zero():
    kernel = elementwise(lambda x, y: x.__array_namespace__().xlogy(x, y))
    y = np.array([0.0, 0.5, 2.0, np.inf, -1.0, np.nan])
    for zero in (0.0, -0.0):
        assert same_bits(kernel(np.full(6, zero), y), np.array([0.0, 0.0, 0.0, 0.0, 0.0, np.nan]))
