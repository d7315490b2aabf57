"""float64 functions that xferlib computes itself: the same bits everywhere, without the platform's."""

import numpy as np
import pytest

from tests.kernels.bits import same_bits
from tools import digest
from tools.kernel_ulp import kernel_of
from xferlib.kernels.cuda_source import CallKind, OperandAccess, elementwise_source
from xferlib.kernels.formulas import IDENTICAL, expand
from xferlib.kernels.functions import guarantee
from xferlib.kernels.ir import FLOAT64, Builder, Param, Store

DIGESTS = {"rsqrt": "0001ffc1079621ff", "cbrt": "0001ff1a71824c55"}


def program(name):
    b = Builder([Param(name="x", dtype=FLOAT64), Param(name="y", dtype=FLOAT64)])
    return b.program([Store(param=1, value=b.call(name, b.load(0)))])


@pytest.mark.parametrize("name", sorted(IDENTICAL))
def test_fingerprint_of_random_bits(name):
    counters = np.arange(1 << 18, dtype=np.uint32)
    assert f"{digest.total(digest.random(name, 'float64'), counters, 1):016x}" == DIGESTS[name]


@pytest.mark.parametrize("name", sorted(IDENTICAL))
def test_no_engine_calls_the_platform(name):
    assert not any(node.op == "call" for node in expand(program(name)).nodes)
    shape = CallKind(
        rank=1,
        width=1,
        unroll=1,
        is_wide=False,
        accesses=(OperandAccess("unit", True, 8),) * 2,
        tile=0,
        raw_ranks=(),
        raw_words=(),
    )
    assert f"{name}(" not in elementwise_source(program(name), shape)
    assert guarantee(name, "float64").is_identical


def test_a_program_without_them_stays_what_it_is():
    plain = program("exp")
    assert expand(plain) is plain


def test_special_values():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 8.0, -27.0])
    nan = np.nan
    assert same_bits(kernel_of("rsqrt")(x)[:6], np.array([np.inf, -np.inf, 0.0, nan, nan, nan]))
    assert same_bits(kernel_of("cbrt")(x), np.array([0.0, -0.0, np.inf, -np.inf, nan, -1.0, 2.0, -3.0]))


def test_cubes_have_their_roots():
    whole = np.arange(1, 100_000, dtype=np.float64)
    assert same_bits(kernel_of("cbrt")(whole * whole * whole), whole)
    powers = 2.0 ** np.arange(-358, 342)
    assert same_bits(kernel_of("cbrt")(powers**3), powers)
