"""Own float64 functions: distance from the exact value, special values, and the same bits on every engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import compiled
from tests.kernels.bits import random_bits, same_bits, specials
from tests.kernels.emulated import all_as_cuda
from tools import ulp_oracle
from xferlib.kernels import elementwise, host_compiler
from xferlib.kernels.float64_functions import DEFINITIONS, EXPONENTIALS, float64_function
from xferlib.kernels.functions import TABLE, ULP64, guarantee
from xferlib.kernels.numpy_functions import PIECE, own_function
from xferlib.kernels.python_frontend import NAMESPACE

A = np.ndarray[Any, Any]
NAMES = [name for name in sorted(DEFINITIONS) if name in TABLE]
"""Without the special functions, which have tests of their own."""
OPERANDS = {name: "xy"[: float64_function(name).operands] for name in NAMES}
ROUNDED = {"add", "sub", "mul", "div", "sqrt", "neg", "abs", "floor", "rint"}
EXACT = {
    "const", "load", "lookup", "bitcast", "select", "shl", "shr", "and", "or", "xor", "not", "lt", "le", "gt", "ge",
    "eq", "ne", "cast", "min", "max",
}  # fmt: skip
INF, NAN = float("inf"), float("nan")


def run(name: str, *operands: A) -> A:
    out = np.empty(operands[0].shape)
    with np.errstate(all="ignore"):
        own_function(name)(*operands, out)
    return out


def inputs(name: str, count: int, seed: int) -> list[A]:
    """Values of every kind and size, and many at which the function neither over- nor underflows."""
    given = ulp_oracle.inputs_of(name, "float64", count, seed)
    rng = np.random.default_rng(seed)
    few = [rng.choice(specials("float64"), 400) for _ in given]
    return [np.concatenate(each) for each in zip(given, few, strict=True)]


def kernel_of(name: str) -> Any:
    call = getattr(NAMESPACE, name)
    if float64_function(name).operands == 2:
        return elementwise(lambda x, y: call(x, y), name=name)
    return elementwise(lambda x: call(x), name=name)


@pytest.mark.parametrize("name", NAMES)
def test_within_the_bound(name: str) -> None:
    if not ulp_oracle.IS_PRECISE:
        pytest.skip("long double is float64 here")
    for seed in (1, 2):
        given = ulp_oracle.inputs_of(name, "float64", 60_000, seed)
        far, place = ulp_oracle.worst(name, given, run(name, *given))
        bound = guarantee(name, "float64").bound_ulp
        assert bound is not None
        assert far <= bound, f"{far} ulp at {place}"


@pytest.mark.parametrize("name", DEFINITIONS)
def test_only_rounded_operations_take_part(name: str) -> None:
    function = float64_function(name)
    for program in (function.common, function.rare):
        ops = {node.op for node in program.nodes}
        assert ops <= ROUNDED | EXACT
        assert all(node.dtype.kind == "u" for node in program.nodes if node.op in ("min", "max"))
        assert all(node.args[0].dtype.kind in "ub" for node in program.nodes if node.op == "cast")


@pytest.mark.skipif(host_compiler.find_compiler() is None, reason="there is no C compiler")
def test_compiled_functions_give_the_bits_of_the_numpy_engine() -> None:
    kernels = [kernel_of(name) for name in NAMES]
    programs = [
        each.definition.specialize((np.dtype("f8"),) * float64_function(name).operands, frozenset()).program
        for name, each in zip(NAMES, kernels, strict=True)
    ]
    for name, kernel in zip(NAMES, compiled.compile_all(programs), strict=True):
        assert not kernel.why_not
        given = inputs(name, 20_000, 3)
        given = [np.concatenate([each, random_bits("float64", 8_000, 4 + k)]) for k, each in enumerate(given)]
        by_numpy, native = compiled.run_both(kernel, given[0].shape, [*given, np.empty_like(given[0])])
        assert same_bits(native[0], by_numpy[0]), name


def test_cuda_gives_the_bits_of_the_numpy_engine() -> None:
    calls = []
    for name in NAMES:
        given = inputs(name, 1_600, 5)
        given = [np.concatenate([each, random_bits("float64", 400, 6 + k)]) for k, each in enumerate(given)]
        calls.append((kernel_of(name), *given, np.empty_like(given[0])))
    all_as_cuda(calls)
    for name, (_, *given, out) in zip(NAMES, calls, strict=True):
        assert same_bits(out, run(name, *given)), name


@pytest.mark.parametrize("name", NAMES)
def test_a_value_has_its_bits_in_every_piece(name: str) -> None:
    """Also where the calls of a longer piece have left other numbers."""
    given = inputs(name, PIECE // 2, 7)
    whole = [np.resize(each, PIECE + 40) for each in given]
    found = run(name, *whole)
    for start, size in ((0, 1), (PIECE - 3, 17), (5, 100), (PIECE, 40)):
        assert same_bits(run(name, *(each[start : start + size] for each in whole)), found[start : start + size])


def borders() -> A:
    """Numbers next to the borders of rows: multiples of log(2) / 128 and their middles, fractions of few bits."""
    steps = np.arange(-800, 800) * (math.log(2) / 256)
    rows = np.concatenate([2.0**exponent * (1 + np.arange(256) / 256) for exponent in range(-4, 3)])
    near = np.concatenate([steps[steps != 0], rows, -rows])
    return np.unique(np.concatenate([(near.view(np.int64) + k).view(np.float64) for k in range(-2, 3)]))


DOMAINS = {
    "log": (0, INF), "log2": (0, INF), "log10": (0, INF), "log1p": (-1, INF), "arccosh": (1, INF), "arctanh": (-1, 1),
    "rsqrt": (0, INF), "arcsin": (-1, 1), "arccos": (-1, 1),
}  # fmt: skip
FALLING = ("arccos", "rsqrt")


@pytest.mark.parametrize("name", [name for name in NAMES if len(OPERANDS[name]) == 1])
def test_borders_of_tables(name: str) -> None:
    low, high = DOMAINS.get(name, (-INF, INF))
    x = borders()
    x = x[(x > low) & (x < high)]
    found = run(name, x)
    if ulp_oracle.IS_PRECISE:
        assert ulp_oracle.worst(name, [x], found)[0] <= ULP64
    if name not in ("sin", "cos", "tan", "cosh"):
        assert np.all(np.diff(-found if name in FALLING else found) >= 0), "it is monotone"


EDGES = (1.0, 0.5, 2.0, 3.0, 5e-324, 2.0**-1022, 2.0**-1060, 709.782712893384, 709.7827128933841, 710.4758600739439,
         710.475860073944, 745.1, 745.14, 1024.0, 1075.0, 1e300, 2.0**52 + 1, 2.0**53 + 2)  # fmt: skip


def library(name: str) -> Any:
    """NumPy's function, whose special values are those of C's annex F."""
    return getattr(np, name) if name != "rsqrt" else lambda x: 1 / np.sqrt(x)


@pytest.mark.parametrize("name", EXPONENTIALS)
def test_special_values_are_those_of_c(name: str) -> None:
    x = np.concatenate([specials("float64"), EDGES, np.negative(EDGES)])
    given = [x] if len(OPERANDS[name]) == 1 else [each.ravel() for each in np.meshgrid(x, x)]
    with np.errstate(all="ignore"):
        found, known = run(name, *given), library(name)(*given)
        is_special = ~np.isfinite(known) | (known == 0)
        assert same_bits(found[is_special], known[is_special])
        away = np.abs(found - known)[~is_special] / np.spacing(np.abs(known[~is_special]))
    assert np.all(away <= 4)


VALUES = [
    ("power", 2.0, 0.5, math.sqrt(2)), ("power", -3.0, 3.0, -27.0), ("power", 10.0, 22.0, 1e22),
    ("power", 1 + 2.0**-52, 2.0**62, INF), ("log2", 2.0**-1060, 0, -1060.0), ("log10", 1e22, 0, 22.0),
    ("cbrt", -27.0, 0, -3.0), ("rsqrt", 2.0**-1060, 0, 2.0**530), ("hypot", 3e-320, 4e-320, 5e-320),
    ("hypot", 3e300, 4e300, 5e300), ("exp2", -1074.0, 0, 5e-324), ("tanh", 30.0, 0, 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "x", "y", "value"), VALUES)
def test_values_that_are_floats_are_found(name: str, x: float, y: float, value: float) -> None:
    operands = [np.array([each]) for each in (x, y)[: len(OPERANDS[name])]]
    assert run(name, *operands)[0] == value


def exact_error(name: str, x: float, value: float) -> float:
    """The distance from the exact value, in ulp, of 40 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        return float(abs(mpmath.mpf(value) - getattr(mpmath, name)(mpmath.mpf(x))) / np.spacing(abs(value)))


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "expm1"])
@given(seed=st.integers(0, 1 << 40))
def test_against_many_digits(name: str, seed: int) -> None:
    (x,) = (each[:16] for each in ulp_oracle.inputs_of(name, "float64", 16 * 8, seed))
    x = x[np.isfinite(x) & np.isfinite(run(name, x)) & (run(name, x) != 0)]
    assert all(exact_error(name, *each) <= ULP64 for each in zip(x.tolist(), run(name, x).tolist(), strict=True))


@given(st.lists(st.tuples(*[st.integers(0, (1 << 52) - 1)] * 2), min_size=1))
def test_a_subnormal_length_is_rounded_once(multiples: list[tuple[int, int]]) -> None:
    """Multiples of the least number, so that the exact result is the root of an integer."""
    least = 5e-324
    found = run("hypot", *np.array(multiples, np.float64).T.copy() * least)
    for (x, y), own in zip(multiples, (found / least).tolist(), strict=True):
        length, bound = 100 * int(own), 51
        assert max(0, length - bound) ** 2 <= 100**2 * (x * x + y * y) <= (length + bound) ** 2
