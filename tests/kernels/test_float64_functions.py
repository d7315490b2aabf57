"""Own float64 functions: their bounds, their special values, and one fingerprint for every engine."""

import hashlib

import numpy as np
import pytest

from tests.kernels.bits import random_bits, same_bits
from tools import ulp_oracle
from xferlib.kernels import cuda_source
from xferlib.kernels.float64_functions import EXP, FUNCTIONS, LOG
from xferlib.kernels.formulas import Real
from xferlib.kernels.ir import FLOAT64, Builder, Param, Store
from xferlib.kernels.numpy_engine import NumpyPlan

BOUNDS = {"exp": 0.8, "log": 1.0}
NAN, INF = float("nan"), float("inf")
SPECIAL = {
    "exp": [
        (0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN), (5e-324, 1.0), (709.8, INF), (-745.2, 0.0),
        (-745.1, 5e-324),
    ],
    "log": [(0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1.0, NAN), (NAN, NAN), (1.0, 0.0)],
}  # fmt: skip
FINGERPRINTS = {"exp": "360a1f9923c6b5fd", "log": "d54e5e441ae12c6c"}


def program(name):
    b = Builder([Param(name="x", dtype=FLOAT64), Param(name="out", dtype=FLOAT64)])
    return b.program([Store(param=1, value=FUNCTIONS[name](Real(b, b.load(0))).node)])


def run(name, x):
    out = np.empty_like(x)
    NumpyPlan(program(name), x.shape, [x, out], is_aliased=False).run([x, out])
    return out


@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_the_bound(name):
    if not ulp_oracle.IS_PRECISE:
        pytest.skip("long double is float64 here")
    (x,) = ulp_oracle.inputs_of(name, "float64", 200_000, 1)
    near = np.random.default_rng(2).uniform(0.25, 4, 200_000)
    for each in (x, near, near - 2 if name == "exp" else 1 / near):
        assert ulp_oracle.worst(name, [each], run(name, each))[0] <= BOUNDS[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name):
    x, expected = np.array(SPECIAL[name]).T.copy()
    assert same_bits(run(name, x), expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_fingerprint(name):
    """The bits are those of any engine: on another one a difference is a fault."""
    x = np.concatenate([random_bits("float64", 20_000, seed=3), np.random.default_rng(4).uniform(0, 700, 20_000)])
    y = run(name, x)
    bits = np.where(np.isnan(y), np.uint64(0), y.view(np.uint64))
    assert hashlib.sha256(bits.tobytes()).hexdigest()[:16] == FINGERPRINTS[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_function_of_the_platform_takes_part(name):
    one = program(name)
    assert {node.op for node in one.nodes} <= {
        "const", "load", "add", "sub", "mul", "div", "bitcast", "select", "shl", "shr", "or", "lt", "gt", "eq",
    }  # fmt: skip
    lines, _ = cuda_source.body(one, {0: "x"})
    assert not any("fma" in line for line in lines)


def test_the_polynomials_are_those_of_the_tool():
    pytest.importorskip("mpmath")
    from tools.kernel_polynomials import FLOAT64_FITS, fit

    assert {"EXP": list(EXP), "LOG": list(LOG)} == {name: fit(of)[0] for name, of in FLOAT64_FITS.items()}
