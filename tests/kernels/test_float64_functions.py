"""Own float64 functions: distance from the exact value, special values, and the same bits on every engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import compiled
from tests.kernels.bits import random_bits, same_bits, specials
from tests.kernels.emulated import as_cuda
from tools import ulp_oracle
from xferlib.kernels import elementwise, host_compiler
from xferlib.kernels.float64_functions import DEFINITIONS, float64_function
from xferlib.kernels.functions import guarantee
from xferlib.kernels.numpy_functions import PIECE, own_function
from xferlib.kernels.python_frontend import NAMESPACE

A = np.ndarray[Any, Any]
NAMES = sorted(DEFINITIONS)
OPERANDS = {name: "xy"[: float64_function(name).operands] for name in NAMES}
ROUNDED = {"add", "sub", "mul", "div", "sqrt", "neg", "abs", "floor", "rint"}
EXACT = {
    "const", "load", "lookup", "bitcast", "select", "shl", "shr", "and", "or", "xor", "not", "lt", "le", "gt", "ge",
    "eq", "ne", "cast",
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


@pytest.mark.parametrize("name", NAMES)
def test_only_rounded_operations_take_part(name: str) -> None:
    function = float64_function(name)
    for program in (function.common, function.rare):
        ops = {node.op for node in program.nodes}
        assert ops <= ROUNDED | EXACT
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


@pytest.mark.parametrize("name", NAMES)
def test_cuda_gives_the_bits_of_the_numpy_engine(name: str) -> None:
    given = inputs(name, 1_600, 5)
    given = [np.concatenate([each, random_bits("float64", 400, 6 + k)]) for k, each in enumerate(given)]
    out = np.empty_like(given[0])
    as_cuda(kernel_of(name), *given, out)
    assert same_bits(out, run(name, *given))


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 1 << 30), size=st.integers(0, 40), step=st.integers(1, 3), begin=st.integers(0, 5))
def test_a_value_has_its_bits_at_every_place_in_every_layout(
    name: str, seed: int, size: int, step: int, begin: int
) -> None:
    rng = np.random.default_rng(seed)
    given = [
        rng.standard_normal(size) * 10.0 ** rng.integers(-3, 4, size) for _ in range(float64_function(name).operands)
    ]
    whole = run(name, *given)
    assert same_bits(run(name, *(each[begin::step] for each in given)), whole[begin::step])
    assert same_bits(run(name, *(each[::-1] for each in given)), whole[::-1])
    long = [np.resize(each, PIECE + 40) if size else each for each in given]
    assert same_bits(run(name, *long)[-40:], np.resize(whole, PIECE + 40)[-40:] if size else whole)


SPECIAL: dict[str, list[tuple[float, float]]] = {
    "exp": [
        (0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN), (5e-324, 1.0),
        (709.782712893384, 1.7976931348622732e308), (709.7827128933841, INF), (-745.14, 0.0), (-745.1, 5e-324),
    ],
    "log": [(0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1.0, NAN), (NAN, NAN), (1.0, 0.0)],
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name: str) -> None:
    x, expected = np.array(SPECIAL[name]).T.copy()
    assert same_bits(run(name, x), expected)


def exact_error(name: str, x: float, value: float) -> float:
    """The distance from the exact value, in ulp, of 40 digits."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(40):
        return float(abs(mpmath.mpf(value) - getattr(mpmath, name)(mpmath.mpf(x))) / np.spacing(abs(value)))


@pytest.mark.parametrize("name", SPECIAL)
@given(seed=st.integers(0, 1 << 40))
def test_against_many_digits(name: str, seed: int) -> None:
    (x,) = (each[:16] for each in ulp_oracle.inputs_of(name, "float64", 16 * 8, seed))
    x = x[np.isfinite(x) & np.isfinite(run(name, x)) & (run(name, x) != 0)]
    assert all(exact_error(name, *each) <= 0.52 for each in zip(x.tolist(), run(name, x).tolist(), strict=True))
