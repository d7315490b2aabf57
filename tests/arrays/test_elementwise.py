"""Element-wise functions and operators: NumPy's dtypes and shapes, and the bits of xferlib's kernels."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.arrays.conftest import Space, same
from tests.comparing import OF_ONE, OF_TWO
from tests.sizes import crossed, some
from xferlib.backends.base import make_namespace
from xferlib.errors import KernelTypeError, LayoutError, MixedBackendsError, XferError
from xferlib.testing import assert_identical, load_backend, strategies

ORDERS = ("maximum", "minimum", "less", "less_equal", "greater", "greater_equal")
quiet = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=40)


def tried(function: Any, *args: Any) -> Any:
    """The result, or None where the function refuses its arguments."""
    try:
        with np.errstate(all="ignore"):
            return function(*args)
    except (TypeError, ValueError, OverflowError):
        return None


@functools.cache
def of_kernel(name: str) -> list[tuple[tuple[Any, ...], Any]]:
    """Arguments, and what xferlib's kernel makes of them; None where NumPy's function refuses them."""
    function, y = getattr(np, name), np.array([3, 1, 2], "float32")
    kernel: Any = xl.elementwise(
        (lambda x: function(x)) if name in OF_ONE else (lambda x, y: function(x, y)), name=name
    )
    found: list[tuple[tuple[Any, ...], Any]] = []
    for dtype in strategies.DTYPES:
        x = np.array([[0, 1, 2], [3, 100, 7]]).astype(dtype)
        for args in [(x,)] if name in OF_ONE else [(x, y), (x, y.astype(dtype))]:
            is_refused = tried(function, *args) is None or (name in ORDERS and "complex" in dtype)
            found.append((args, None if is_refused else kernel(*args)))
    return found


@pytest.mark.parametrize("name", [*OF_ONE, *OF_TWO])
def test_a_function_has_the_bits_of_xferlibs_kernel(space: Space, name: str) -> None:
    """Its dtypes are NumPy's, of any two: tests/test_namespace.py and test_exact.py have those."""
    found = [tried(getattr(space.xp, name), *space.put_all(args)) for args, _ in of_kernel(name)]
    expected = [each for _, each in of_kernel(name)]
    assert [each is None for each in found] == [each is None for each in expected]
    if space.name != "pycuda":  # another engine, within the published bounds
        same(space.get([each for each in found if each is not None]), tuple(e for e in expected if e is not None))


OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "&": operator.and_, "|": operator.or_, "^": operator.xor, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
SCALARS = (True, 3, 2.5, 1 + 2j, np.int8(3), np.uint16(3), np.float32(2.5), np.complex64(1j), np.bool_(True))


@pytest.mark.parametrize("symbol", OPERATORS)
def test_an_operator_takes_numbers_on_either_side(space: Space, symbol: str) -> None:
    function, results = OPERATORS[symbol], []
    for scalar, dtype in crossed(4, SCALARS, strategies.DTYPES):
        x = np.array([1, 2, 7]).astype(dtype)
        for swapped in (False, True):
            operands = (scalar, x) if swapped else (x, scalar)
            given_ = (scalar, space.put(x)) if swapped else (space.put(x), scalar)
            expected, found = tried(function, *operands), tried(function, *given_)
            if symbol in "<=>=" and np.result_type(*operands).kind == "c" and symbol not in ("==", "!="):
                continue
            assert (expected is None) == (found is None), (scalar, dtype, swapped)
            if expected is not None:
                assert found.dtype == expected.dtype
                results.append((found, expected))
    for there, expected in zip(space.get([found for found, _ in results]), (each for _, each in results), strict=True):
        np.testing.assert_allclose(there, expected, rtol=1e-6)


@quiet
@given(data=st.data())
def test_arrays_of_any_strides_broadcast(space: Space, data: st.DataObject) -> None:
    steps = data.draw(strategies.views(negative=True, max_dims=3))
    dtype = data.draw(st.sampled_from(["int16", "float32", "float64"]))
    parent = strategies.bits_of(int(np.prod(steps.parent)) * np.dtype(dtype).itemsize, dtype, seed=3)
    parent = parent.reshape(steps.parent)
    x, d = steps.of(parent), steps.of(space.put(parent))
    same(space.get(d), x)
    shape = [data.draw(st.sampled_from([1, extent])) for extent in x.shape][data.draw(st.integers(0, x.ndim)) :]
    y = np.arange(np.prod(shape), dtype="int32").reshape(shape)
    with np.errstate(all="ignore"):
        same(space.get(d + space.put(y)), x + y)
        same(space.get(space.put(y) < d), y < x)


def test_operators_of_one_array(space: Space) -> None:
    x = np.array([[1, -2], [3, -4]])
    d = space.put(x)
    for function in (operator.neg, operator.pos, operator.abs, operator.invert):
        same(space.get(function(d)), function(x))
    same(space.get(d**2), x**2)
    same(space.get(2 ** abs(d)), 2 ** abs(x))
    same(space.get(d << 2), x << 2)
    same(space.get(d >> 1), x >> 1)
    same(space.get(1 << abs(d)), np.left_shift(1, abs(x)))
    same(space.get(d @ d), x @ x)


def test_a_result_that_does_not_fit_in_place_is_refused(space: Space) -> None:
    """Cases that tests/arrays/test_programs.py does not draw."""
    d = same_one = space.put(np.arange(3))
    with pytest.raises(TypeError, match="does not fit"):
        d += 0.5
    with pytest.raises(TypeError):
        d /= 2
    with pytest.raises(LayoutError):
        d += space.put(np.ones((2, 3), int))
    d += np.int8(1)
    same(space.get(d), np.array([1, 2, 3]))
    d += space.put(np.ones(3, "int16"))
    same(space.get(d), np.array([2, 3, 4]))
    assert d is same_one
    z = space.put(np.ones(2, "complex64"))
    z *= 2j
    same(space.get(z), np.full(2, 2j, "complex64"))


def test_where_and_clip(space: Space) -> None:
    """With what tests/surface.py does not draw."""
    x = np.arange(6.0, dtype="float32").reshape(2, 3)
    space.check("where", x > 2, 1, 0)
    space.check("where", x > 2, np.float32(1), np.arange(3))
    space.check("clip", x, np.array([0.0, 1.0, 2.0]), None)
    space.check("clip", x, None, None)
    space.check("clip", x, a_min=1, a_max=4)
    space.check("clip", np.arange(5, dtype="int8"), 1, 3)


def test_numbers_alone_become_arrays(space: Space) -> None:
    same(space.get(space.xp.exp(0.0)), np.float64(1))
    same(space.get(space.xp.add(1, 2)), np.int64(3))
    same(space.get(space.xp.add(2.0, np.float32(1))), np.float32(3))
    with pytest.raises(OverflowError):  # though only the truth counts
        space.xp.logical_and(space.put(np.array([True])), 2**63)


def test_arrays_of_other_libraries_are_refused(space: Space) -> None:
    d = space.put(np.arange(3))
    for use in (
        lambda: space.xp.add(d, np.arange(3)), lambda: space.xp.exp(np.arange(3)), lambda: d + np.arange(3),
        lambda: space.xp.add(np.arange(3), np.arange(3)), lambda: space.xp.sum(np.arange(3)),
    ):  # fmt: skip
        with pytest.raises((MixedBackendsError, TypeError), match="to_device"):
            use()
    for use in (lambda: space.xp.add(d, [1, 2, 3]), lambda: space.xp.exp("x"), lambda: d + None):
        with pytest.raises(XferError):
            use()


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, z: xp.clip(z, 0, 1), lambda xp, z: xp.clip(z, min=0), lambda xp, z: xp.clip(xp.real(z), max=1j),
        lambda xp, z: xp.maximum(z, z), lambda xp, z: z < 1, lambda xp, z: xp.max(z), lambda xp, z: xp.argmin(z),
    ],
)  # fmt: skip
def test_complex_numbers_have_no_order(space: Space, call: Any) -> None:
    with pytest.raises(KernelTypeError, match=r"^\w+: complex numbers have no order \(complex128\); [^\n]*$"):
        call(space.xp, space.put(np.ones(3, np.complex128)))


def test_an_index_assignment_whose_value_overlaps_its_target(space: Space) -> None:
    x = np.arange(6.0)
    d, order = space.put(x), np.array([4, 2, 0, 3, 1])
    d[space.put(order)] = d[1:]
    expected = x.copy()
    expected[order] = x[1:]
    np.testing.assert_array_equal(space.get(d), expected)


def test_a_class_has_the_methods_of_the_namespace_that_was_made_last_and_its_own(plugins: object) -> None:
    class Own(type(xl.zeros(1, backend="bare"))):
        def copy(self) -> str:
            return "its own"

    backend: Any = load_backend("bare")
    made = [make_namespace(backend, Own) for _ in range(2)]
    assert Own.__matmul__ is made[1].matmul is not made[0].matmul
    assert Own.copy(Own(np.zeros(1))) == "its own"


_ENDS = [
    # NumPy's values where a part is infinite or zero: base, exponent, power
    (0j, 0j, 1), (0j, 1 + 1j, 0), (0j, 2 + 0j, 0), (2 + 0j, 0j, 1), (np.inf, 0j, 1), (2 + 0j, -np.inf, 0),
    (1 + 1j, -np.inf, 0), (-0.5 + 0j, np.inf, 0), (complex(np.inf), 1 + 0j, np.inf), (complex(np.inf), -2 + 0j, 0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_powers_where_a_part_is_zero_or_infinite(space: Space, dtype: str) -> None:
    base, exponent, expected = (np.array(values, dtype) for values in zip(*_ENDS, strict=True))
    found = space.get(space.xp.pow(space.put(base), space.put(exponent)))
    np.testing.assert_array_equal(found, expected)


def _special(dtype: str, *, is_finite: bool) -> Any:
    parts = np.array([0.0, -0.0, 1, -1, 0.5, 2, -3, 33, 101.5, -300, 65504, 1e30, -1e-30, np.inf, -np.inf, np.nan])
    if dtype[0] == "c":
        parts = np.array([complex(real, imag) for real in parts for imag in parts])
    with np.errstate(all="ignore"):
        found = (np.arange(5) if dtype[0] in "bu" else np.arange(-4, 5) if dtype[0] == "i" else parts).astype(dtype)
    return found[np.isfinite(found)] if is_finite else found


@pytest.mark.parametrize("one", strategies.DTYPES)
def test_powers_of_mixed_dtypes_are_those_of_the_dtype_of_both(space: Space, one: str) -> None:
    for other in some(strategies.DTYPES, 3, one):
        x, y = np.meshgrid(_special(one, is_finite=False), _special(other, is_finite=False))
        common = np.result_type(x, y)
        with np.errstate(all="ignore"):
            together = space.xp.pow(space.put(x.astype(common)), space.put(y.astype(common)))
        assert_identical(space.get(space.xp.pow(space.put(x), space.put(y))), space.get(together))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("exponent", ["float16", "float32", "complex64", "complex128"])
def test_powers_of_finite_numbers_are_never_nan(space: Space, dtype: str, exponent: str) -> None:
    z, w = np.meshgrid(_special(dtype, is_finite=True), _special(exponent, is_finite=True))
    z, w = z[z != 0], w[z != 0]
    found = space.get(space.xp.pow(space.put(z), space.put(w)))
    logarithm = w.astype(np.complex128) * np.log(z.astype(np.complex128))
    with np.errstate(all="ignore"):
        expected = np.exp(logarithm)
    assert not np.isnan(found).any()
    assert np.isinf(found[logarithm.real > 720]).all()
    assert (found[logarithm.real < -760] == 0).all()
    is_near = np.abs(logarithm) < 80  # else the float32 logarithm of the formula tells
    np.testing.assert_array_less(np.abs(found[is_near] / expected[is_near] - 1), 1e-5)


def test_a_complex_zero_to_the_power_zero_is_one_on_torch() -> None:
    torch = pytest.importorskip("torch")
    xp: Any = xl.get_array_module(torch.zeros(1))
    zeros = torch.zeros(2, dtype=torch.complex64)
    assert xp.pow(zeros, zeros).tolist() == [1, 1]
    assert xp.pow(zeros, 0).tolist() == [1, 1]
    assert xp.pow(zeros, zeros + 2).tolist() == [0, 0]
