"""Ranges of values that programs compute, and the text that leaves out what no operand within them needs."""

import ctypes
import functools
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.exact import NAMES, draw
from tests.kernels import emulated
from tests.kernels.bits import random_bits, same_bits, specials
from tests.kernels.random_expressions import Expression
from tests.kernels.test_cuda_functions import SINGLE, kernel_of, needs_compiler, needs_nvrtc
from tests.sizes import sized
from tools import native_digest
from xferlib.kernels import cuda_functions, cuda_source, elementwise, host_compiler
from xferlib.kernels.analysis import ANY, find_ranges
from xferlib.kernels.functions import CALLS
from xferlib.kernels.ir import Builder, Node, Param, Store
from xferlib.kernels.native_functions import collect_sections
from xferlib.kernels.numpy_engine import NumpyPlan
from xferlib.kernels.python_frontend import NAMESPACE

F4 = np.dtype("f4")
INF = float("inf")


def check_range(found, values):
    """Fails where a value is no NaN and not within a range."""
    values = values[~np.isnan(values)].astype(np.float64)
    assert (values >= found.low).all(), found
    assert (values <= found.high).all(), found
    assert found.low < 0 or not np.signbit(values).any(), found


def check_ranges(program, operands, shape):
    """Every float of a program, each by a program whose result it is."""
    for node, found in ((node, found) for node in program.nodes if (found := find_ranges(program).get(id(node)))):
        if found == ANY:
            continue
        b = Builder(program.params)
        copies: dict[int, Node] = {}
        for each in program.nodes:
            copies[id(each)] = b.copy(each, copies)
        count = len(program.params)
        b.params.append(Param(name="found", dtype=node.dtype))
        part = b.program([Store(param=count, value=copies[id(node)])])
        out = np.empty(shape, node.dtype)
        NumpyPlan(part, shape, [*operands, out], is_aliased=False).run([*operands, out])
        check_range(found, out)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 10**9))
def test_values_are_within_their_ranges(seed):
    """Of random expressions of any dtypes, and of functions composed of float32."""
    made = Expression(seed)
    operands = made.arrays(200)
    if seed % 2:
        text = draw(np.random.default_rng(seed), 1 + seed % 3)
        function = eval(f"lambda x, y, z, *, s: {text}", {name: getattr(np, name) for name in NAMES})
        operands = [np.concatenate([specials(F4), random_bits(F4, 200, seed + k)]) for k in range(3)]
    else:
        function = made.function()
    try:
        kernel = elementwise(function)
        program = kernel.definition.specialize((*(each.dtype for each in operands), float), frozenset({3})).program
    except (TypeError, ValueError, OverflowError):
        return
    program = cuda_source.CUDA.expand(program)
    numbers = [np.array(2.5).astype(param.dtype) for param in program.params if param.is_scalar]
    shape = operands[0].shape
    outs = [np.empty(shape, param.dtype) for param in program.params[3 + len(numbers) :]]
    with np.errstate(all="ignore"):
        check_ranges(program, [*operands, *numbers, *outs], shape)


_BINARY = ("add", "sub", "mul", "div", "min", "max")
_LIMITS = [*(10.0**k for k in range(-30, 40, 2)), 2.0**-149, 0.5, 3.0, 20.0, 88.0, 3e38, INF, 0.0]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from("efd"), st.integers(0, 10**9))
def test_the_rule_of_each_operation(kind, seed):
    """Of operands in random intervals: what a rounding makes 0 or infinite is in the interval of results too."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(kind)
    b = Builder([Param(name=name, dtype=dtype) for name in ("x", "y")])
    operands, args = [], []
    with np.errstate(all="ignore"):
        for number in range(2):
            x = np.concatenate([specials(dtype), random_bits(dtype, 300, seed + number)])
            low, high = np.sort(rng.choice(_LIMITS, 2) * rng.choice([-1, 1], 2)).astype(dtype)
            x[:40] = rng.choice([low, high, np.nextafter(low, high), np.nextafter(high, low)], 40)
            within = b.op("min", b.emit("load", dtype, (), number), b.const(high, dtype))
            args.append(b.op("max", within, b.const(low, dtype)))
            operands.append(x)
        wide = b.cast(args[0], F4) if kind == "e" else args[0]
        found = [b.op(name, *args) for name in _BINARY] + [b.op(name, args[0]) for name in ("neg", "abs", "sqrt")]
        found += [b.cast(b.call(name, wide), dtype) for name in sorted(CALLS)]
        found += [b.cast(b.cast(args[0], np.dtype(name)), dtype) for name in ("f2", "f4")]
        b.params += [Param(name=f"z{number}", dtype=dtype) for number in range(len(found))]
        program = b.program([Store(param=2 + number, value=each) for number, each in enumerate(found)])
        outs = [np.empty_like(operands[0]) for _ in found]
        check_ranges(cuda_source.CUDA.expand(program), [*operands, *outs], operands[0].shape)


def range_of(function):
    program = elementwise(function).definition.specialize((F4,), frozenset()).program
    program = cuda_source.CUDA.expand(program)
    return find_ranges(program)[id(program.stores[0].value)]


@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        (lambda x: NAMESPACE.exp(-x * x), 0, 1),
        (lambda x: NAMESPACE.exp(-(x * x)), 0, 1),
        (lambda x: NAMESPACE.log1p(abs(x)), 0, INF),
        (lambda x: NAMESPACE.sqrt(x * x + 1), 1, INF),
        (lambda x: NAMESPACE.tanh(NAMESPACE.sin(x)) * 2 - 3, -4.6, -1.4),
        (lambda x: 1 / (1 + NAMESPACE.exp(x)), 0, 1),
        (lambda x: NAMESPACE.cosh(x), 1, INF),
        (lambda x: NAMESPACE.arccos(x), 0, 3.2),
        (lambda x: x + 1, -INF, INF),
        (lambda x: NAMESPACE.exp(NAMESPACE.minimum(x.astype("f8"), -1e300).astype("f4")), 0, 0),
    ],
)
def test_known_ranges(function, low, high):
    found = range_of(function)
    assert found.low >= low - 1e-3
    assert found.high <= high + 1e-3


_WITHIN = """
void within_{name}(const float *x, float low, float high, float *out, char *is_unsure, long long count) {{
  for (long long k = 0; k < count; ++k) {{
    int own = 0;
    out[k] = xf_bounded_{name}(x[k], xf_known(low, high), &own);
    is_unsure[k] = own != 0;
  }}
}}
"""
_QUOTIENT = """
void within_quotient(
  const float *x, const float *y, const float *limits, float *out, char *is_unsure, long long count
) {
  for (long long k = 0; k < count; ++k) {
    int own = 0;
    out[k] = xf_bounded_quotient(x[k], y[k], xf_known(limits[0], limits[1]), xf_known(limits[2], limits[3]), &own);
    is_unsure[k] = own != 0;
  }
}
"""
ENDS = (-INF, -88.0, -9.5, -1.0, -0.5, -(2.0**-149), 0.0, 0.5, 0.75, 1.0, 9.0, 2.0**22, 2.0**61, INF)


@functools.cache
def library(way):
    names = [*SINGLE]
    sections = cuda_functions.sections()
    source = native_digest._AS_C
    wanted = [*cuda_functions.sections_of(names, way), "quotient"]
    for each in collect_sections(sections, wanted):
        source += sections[each][1]
    source += "".join(cuda_functions.join_steps(each, "float x", "x", way=way) for each in names)
    source += "".join(_WITHIN.format(name=each) for each in names if each in cuda_functions.WITHIN) + _QUOTIENT
    return host_compiler.load_c(source, flags=("-O2", "-march=native", "-ffp-contract=off", "-fno-math-errno"))


def values_within(low, high, seed):
    """Numbers of all sizes between two, these, and NaN; without -0 where the sign is clear."""
    rng = np.random.default_rng(seed)
    ends = np.array([low, high], F4)
    x = np.concatenate([
        ends, np.nextafter(ends, ends[::-1]), specials(F4), random_bits(F4, 300, seed),
        rng.uniform(np.clip(low, -100, 100), np.clip(high, -100, 100), 300).astype(F4),
    ])  # fmt: skip
    is_within = np.isnan(x) | ((x >= low) & (x <= high) & ((low < 0) | ~np.signbit(x)))
    return x[is_within]


@needs_compiler
@pytest.mark.parametrize("name", sorted(cuda_functions.WITHIN))
@pytest.mark.parametrize("way", ["pairs", "double"])
def test_what_is_certain_within_limits_is_right(name, way):
    compute = getattr(library(way), f"within_{name}")
    kernel = kernel_of(name)
    for number, (low, high) in enumerate(itertools.combinations(ENDS, 2)):
        x = values_within(low, high, number)
        y, is_unsure = np.empty_like(x), np.empty(x.size, np.bool_)
        pointers = [ctypes.c_void_p(each.ctypes.data) for each in (x, y, is_unsure)]
        compute(pointers[0], ctypes.c_float(low), ctypes.c_float(high), *pointers[1:], ctypes.c_longlong(x.size))
        with np.errstate(all="ignore"):
            right = np.asarray(kernel(x))
        assert same_bits(y[~is_unsure], right[~is_unsure]), (low, high)
        assert not is_unsure[np.isnan(x)].any()


@needs_compiler
def test_quotients_that_are_certain_within_limits_are_right():
    compute = library("double").within_quotient
    pairs = list(itertools.combinations((-INF, -1.0, -(2.0**-149), 0.0, 2.0**-70, 1.0, 2.0**61, INF), 2))
    for number, (of_x, of_y) in enumerate(itertools.product(pairs, pairs)):
        x, y = (values_within(*each, number + k)[::3] for k, each in enumerate((of_x, of_y)))
        zero = F4.type(0.0 if of_x[0] >= 0 else -0.0)
        x, y = (each.ravel().copy() for each in np.meshgrid(x[:40], y[:40]))
        x[::5] = zero if of_x[0] <= 0 <= of_x[1] else x[0]
        out, is_unsure, limits = np.empty_like(x), np.empty(x.size, np.bool_), np.array([*of_x, *of_y], F4)
        compute(
            *(ctypes.c_void_p(each.ctypes.data) for each in (x, y, limits, out, is_unsure)), ctypes.c_longlong(x.size)
        )
        with np.errstate(all="ignore"):
            right = x / y
        assert same_bits(out[~is_unsure], right[~is_unsure]), (of_x, of_y)


@needs_nvrtc
@pytest.mark.parametrize("is_fast", [0, 1])
def test_composed_functions_have_the_bits_of_numpy(is_fast, monkeypatch):
    monkeypatch.setattr(cuda_functions, "FULL_DOUBLE", (800,) if is_fast else ())
    rng = np.random.default_rng(5)
    calls: list[tuple[Any, ...]] = []
    x = np.concatenate([rng.standard_normal(300).astype(F4), random_bits(F4, 150, 1), specials(F4)])
    for _ in range(sized(30)):
        texts = [draw(rng, 2).replace("y", "x") for _ in range(8)]
        kernel = elementwise(eval(f"lambda x: ({', '.join(texts)})", {n: getattr(np, n) for n in NAMES}), name="many")
        calls.append((kernel, x, *(np.empty_like(x) for _ in texts)))
    emulated.all_as_cuda(calls)
    for call in calls:
        with np.errstate(all="ignore"):
            assert all(map(same_bits, call[2:], call[0](x)))


ROUNDED = (
    lambda x: 1 / np.exp(np.clip(x.astype("f2"), -20, 0)).astype("f4") + np.sin(x),
    lambda x: np.log(np.exp(np.clip(x.astype("f2"), -20, 0)).astype("f4")),
    lambda x: np.exp(np.minimum(x.astype("f8"), -1e300).astype("f4")),
    lambda x: np.sin(x) + (1 / np.maximum(x.astype("f8"), 1e300).astype("f4")),
    lambda x: np.sin(x.astype("f8")) / 1e300,
)
"""Functions of values that a rounding makes 0 or infinite."""


@needs_nvrtc
def test_what_is_rounded_to_nothing_or_beyond(monkeypatch):
    monkeypatch.setattr(cuda_functions, "FULL_DOUBLE", (800,))
    x = np.linspace(-20, 20, 81, dtype="f4")
    with np.errstate(all="ignore"):
        calls = [(kernel, x, np.empty_like(kernel(x))) for kernel in map(elementwise, ROUNDED)]
    emulated.all_as_cuda(calls)  # no warning of an overflow
    for kernel, _, out in calls:
        with np.errstate(all="ignore"):
            assert same_bits(out, kernel(x))


@needs_nvrtc
@pytest.mark.parametrize("is_fast", [0, 1])
def test_functions_of_two_dtypes_in_one_kernel(is_fast, monkeypatch):
    """Their tables have names of their own."""
    monkeypatch.setattr(cuda_functions, "FULL_DOUBLE", (800,) if is_fast else ())
    names = ["log", "tanh", "arctanh", "sin", "arctan", "exp"]

    def function(x):
        wide = x.astype("f8")
        calls = [(getattr(np, name)(x), getattr(np, name)(wide)) for name in names]
        return tuple(itertools.chain(*calls))

    kernel, x = elementwise(function), np.linspace(0.1, 0.9, 40, dtype=F4)
    outs = [np.empty_like(each) for each in kernel(x)]
    emulated.as_cuda(kernel, x, *outs)
    assert all(map(same_bits, outs, kernel(x)))
