"""The NumPy engine against exact arithmetic: an independent definition of every core operation."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from numpy import maximum, where

from tests.kernels import targets
from tests.kernels.bits import FLOATS, INTEGERS, random_bits, same_bits, specials
from xferlib.kernels import elementwise
from xferlib.kernels.cuda_source import OPTIONS, CallKind, OperandAccess, elementwise_source
from xferlib.kernels.ir import Builder, Param, Store
from xferlib.kernels.numpy_engine import NumpyPlan


def run(op, *operands, out=None):
    """One core operation on the engine; ``out`` is a cast's dtype."""
    dtypes = [each.dtype for each in operands]
    b = Builder([Param(name=f"x{k}", dtype=dtype) for k, dtype in enumerate(dtypes)])
    loads = [b.load(k) for k in range(len(operands))]
    node = b.cast(loads[0], np.dtype(out)) if op == "cast" else b.op(op, *loads)
    b.params.append(Param(name="out", dtype=node.dtype))
    program = b.program([Store(param=len(operands), value=node)])
    result = np.empty(operands[0].shape, node.dtype)
    NumpyPlan(program, result.shape, [*operands, result], is_aliased=False).run([*operands, result])
    return result


def nearest(value, dtype):
    """The float nearest to a fraction, ties to even: by integers alone."""
    info = np.finfo(dtype)
    if value == 0:
        return dtype.type(0)
    sign, value = (-1, -value) if value < 0 else (1, value)
    exponent = max(value.numerator.bit_length() - value.denominator.bit_length() - 1, int(info.minexp))
    while value >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** (exponent - int(info.nmant))
    whole, rest = divmod(value, unit)
    if rest * 2 > unit or (rest * 2 == unit and whole % 2):
        whole += 1
    rounded = whole * unit
    if rounded > Fraction(float(info.max)):
        return dtype.type(sign * math.inf)
    return dtype.type(sign * float(rounded))  # exact: at most 53 bits


def finite(dtype, count, seed):
    pool = np.concatenate([specials(dtype), random_bits(dtype, 400, seed)])
    pool = pool[np.isfinite(pool)]
    return np.random.default_rng(seed).choice(pool, count)


OPERATIONS = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y,
    "fmod": lambda x, y: x - y * (int(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", OPERATIONS)
def test_float_arithmetic(op, dtype):
    dtype = np.dtype(dtype)
    x, y = finite(dtype, 600, 1), finite(dtype, 600, 2)
    y[y == 0] = 1
    actual = run(op, x, y)
    for a, b, r in zip(x, y, actual, strict=True):
        if dtype == np.float16 and op != "fmod":
            exact = nearest(OPERATIONS[op](Fraction(float(a)), Fraction(float(b))), np.dtype(np.float32))
            with np.errstate(over="ignore"):
                expected = exact.astype(np.float16)
        else:
            expected = nearest(OPERATIONS[op](Fraction(float(a)), Fraction(float(b))), dtype)
        assert r == expected, (op, a, b, r, expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_fma_rounds_once(dtype):
    dtype = np.dtype(dtype)
    x, y, z = (finite(dtype, 500, seed) for seed in (3, 4, 5))
    with np.errstate(over="ignore"):
        products = x.astype(np.float64) * y.astype(np.float64)
        z[::2] = -products.astype(dtype)[::2]  # cancellation, where a second rounding would show
    z[~np.isfinite(z)] = 1
    for a, b, c, r in zip(x, y, z, run("fma", x, y, z), strict=True):
        expected = nearest(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)), dtype)
        assert r == expected, (a, b, c, r, expected)


def test_fma_of_a_product_beyond_the_range():
    big, inf = np.finfo(np.float64).max, np.inf
    x, y, z = np.array([[big, 1.5, -inf], [big, 2, -big], [-big, big, inf], [inf, 1, -inf], [inf, 0, 1]]).T.copy()
    assert same_bits(run("fma", x, y, z), np.array([-inf, big, inf, np.nan, np.nan]))


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_sqrt(dtype):
    x = np.abs(finite(dtype, 500, 6))
    for a, r in zip(x, run("sqrt", x), strict=True):
        below, above = np.nextafter(r, x.dtype.type(0)), np.nextafter(r, x.dtype.type(np.inf))
        low, middle, high = (Fraction(float(each)) for each in (below, r, above if np.isfinite(above) else r))
        target = Fraction(float(a))
        assert ((low + middle) / 2) ** 2 <= target <= ((middle + high) / 2) ** 2 or middle**2 == target


def wrap(value, dtype):
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def truncated(x, y):
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


INTEGER = {
    "add": lambda x, y, bits: x + y, "sub": lambda x, y, bits: x - y, "mul": lambda x, y, bits: x * y,
    "idiv": lambda x, y, bits: truncated(x, y),
    "imod": lambda x, y, bits: 0 if y == 0 else x - y * truncated(x, y),
    "floordiv": lambda x, y, bits: 0 if y == 0 else x // y,
    "floormod": lambda x, y, bits: 0 if y == 0 else x % y,
    "min": lambda x, y, bits: min(x, y), "max": lambda x, y, bits: max(x, y), "and": lambda x, y, bits: x & y,
    "or": lambda x, y, bits: x | y, "xor": lambda x, y, bits: x ^ y,
    "shl": lambda x, y, bits: x << y if 0 <= y < bits else 0,
    "shr": lambda x, y, bits: x >> y if 0 <= y < bits else -(x < 0),
}  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", INTEGER)
def test_integer_arithmetic(op, dtype):
    dtype = np.dtype(dtype)
    pool = np.concatenate([specials(dtype), random_bits(dtype, 10, seed=8)])
    x, y = (each.ravel().copy() for each in np.meshgrid(pool, pool))
    expected = [wrap(INTEGER[op](int(a), int(b), 8 * dtype.itemsize), dtype) for a, b in zip(x, y, strict=True)]
    assert run(op, x, y).tolist() == expected


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", INTEGERS)
def test_float_to_integer_saturates(source, target):
    x = np.concatenate([specials(source), random_bits(source, 500, seed=9)])
    info = np.iinfo(target)

    def expected(value):
        if math.isnan(value):
            return 0
        return int(max(min(value, 2.0**100), -(2.0**100))) if math.isinf(value) else math.trunc(value)

    clipped = [min(max(expected(float(each)), int(info.min)), int(info.max)) for each in x]
    assert run("cast", x, out=target).tolist() == clipped


@pytest.mark.parametrize("source", ["int32", "int64", "uint64"])
@pytest.mark.parametrize("target", ["float32", "float64"])
def test_integer_to_float_rounds_to_nearest(source, target):
    x = np.concatenate([specials(source), random_bits(source, 500, seed=10)])
    dtype = np.dtype(target)
    assert run("cast", x, out=target).tolist() == [nearest(Fraction(int(each)), dtype) for each in x]


@pytest.mark.parametrize("dtype", FLOATS)
def test_minimum_and_maximum_order_zeros_and_carry_nan(dtype):
    zero, nan = np.dtype(dtype).type(0), np.dtype(dtype).type(np.nan)
    x = np.array([zero, -zero, -zero, nan, zero, 1], dtype)
    y = np.array([-zero, zero, -zero, zero, nan, 2], dtype)
    assert same_bits(run("max", x, y), np.array([zero, zero, -zero, nan, nan, 2], dtype))
    assert same_bits(run("min", x, y), np.array([-zero, -zero, -zero, nan, nan, 1], dtype))


def test_the_oracle_can_fail():
    one = np.dtype(np.float32)
    assert nearest(Fraction(1) + Fraction(1, 2**24), one) == 1
    assert nearest(Fraction(1) + Fraction(3, 2**24), one) == np.float32(1) + np.float32(2**-22)
    assert nearest(Fraction(1, 2**150), one) == 0
    assert nearest(Fraction(3, 2**150), one) == np.float32(2**-148)
    assert nearest(Fraction(2) ** 128, one) == np.inf


SIZES = {
    "abs": lambda x: abs(x),
    "where": lambda x: where(x < 0, -x, x),
    "difference": lambda x: where(x >= 0, x, 0 - x),
    "product": lambda x: where(x > -1, x, x * -1),
    "maximum": lambda x: maximum(x, -x),
    "bits turned over": lambda x: where(x < 0, ~x + 1, x),
    "bits of the sign": lambda x: (x ^ (x >> 63)) - (x >> 63),
    "sum with the sign": lambda x: (x + (x >> 63)) ^ (x >> 63),
}
"""The absolute value, in ways that a compiler recognises; of the least integer it is itself."""


@pytest.mark.parametrize("way", SIZES)
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_quotients_of_the_least_integer_are_negative(engine, dtype, way):
    size, least = SIZES[way], int(np.iinfo(dtype).min)
    x = np.array([least, least, least, least + 1, -6, 7, 100], dtype)
    y = np.array([7, -7, 100, 7, 4, -4, least], dtype)
    kernel = elementwise(lambda x, y: (size(x) // y, size(x) % y, size(x) < 0, y // size(x), y % size(x)))
    found = [engine.get(each) for each in kernel(engine.put(x), engine.put(y))]
    sizes = [wrap(abs(int(each)), np.dtype(dtype)) for each in x]
    for (a, b), *results in zip(zip(sizes, y.tolist(), strict=True), *(each.tolist() for each in found), strict=True):
        assert results == [a // b, a % b, a < 0, b // a, b % a]


@pytest.mark.parametrize("way", [*SIZES, "of a difference"])
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_no_absolute_value_for_the_assembler_of_cuda(dtype, way):
    from xferlib.backends.cuda.compiler import compile_source

    targets.need_nvrtc()
    one = np.ones(1, dtype)
    size = (lambda x, y: where(x - y < 0, y - x, x - y)) if way == "of a difference" else lambda x, _: SIZES[way](x)
    program = elementwise(lambda x, y: size(x, y) % y).definition.specialize((one.dtype, one.dtype), frozenset())
    access = OperandAccess("unit", True, one.itemsize)
    kind = CallKind(rank=1, width=1, is_wide=False, accesses=(access,) * 3, tile=None, raw_ranks=(), raw_words=())
    text = elementwise_source(program.program, kind)
    ptx = compile_source(text, arch="compute_90", options=OPTIONS, names=()).cubin.decode()
    assert "rem.s" in ptx
    assert not re.search(r"\babs\.s", ptx)
