"""float32 functions are correctly rounded, and give the committed fingerprints on this CPU; so do own float64 ones."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.bits import same_bits, specials
from tools import digest
from tools.kernel_ulp import kernel_of
from xferlib.kernels import elementwise
from xferlib.kernels import numpy_functions as rounding
from xferlib.kernels.cuda_source import CallKind, OperandAccess, elementwise_source
from xferlib.kernels.formulas import PAIRS, expand
from xferlib.kernels.functions import CALL_NAMES, CALLS, TABLE, hard_cases
from xferlib.kernels.ir import FLOAT64, Builder, Param, Store
from xferlib.kernels.python_frontend import NAMESPACE

DIGESTS = Path(__file__).parent / "digests.json"
DIGESTS_OF_FLOAT64 = Path(__file__).parent / "float64_digests.json"
SAMPLE = np.arange(1 << 20, dtype=np.uint32) * np.uint32(4099)


def _kernel(name, math="exact"):
    call = getattr(NAMESPACE, name)
    return elementwise(lambda x: call(x), name=name, math=math)


@pytest.mark.parametrize("name", CALLS)
def test_hard_cases(name):
    table = hard_cases()[name]
    assert same_bits(_kernel(name)(table.inputs.view(np.float32)), table.results.view(np.float32))


@pytest.mark.parametrize("name", CALLS)
def test_a_hard_case_in_an_array_without_axes(name):
    table = hard_cases()[name]
    for number in range(0, table.inputs.size, max(table.inputs.size // 5, 1)):
        x = table.inputs[number : number + 1].view(np.float32).reshape(())
        assert same_bits(_kernel(name)(x), table.results[number : number + 1].view(np.float32).reshape(()))


def test_the_tables_matter():
    wrong = 0
    for name, table in hard_cases().items():
        if name == "rsqrt":
            continue
        with np.errstate(all="ignore"):
            naive = getattr(np, name)(table.inputs.view(np.float32).astype(np.float64)).astype(np.float32)
        wrong += int(np.sum(naive.view(np.uint32) != table.results))
    assert wrong > 10


@pytest.mark.parametrize("name", CALLS)
def test_fingerprint_of_a_million_inputs(name):
    expected = json.loads(DIGESTS.read_text())[name]
    assert f"{digest.total(digest.complete(name), SAMPLE, 1):016x}" == expected, "this CPU or NumPy changes bits"


@pytest.mark.parametrize("path", [digest.COMPLETE, digest.EXACT], ids=lambda path: path.name)
def test_what_is_promised_to_be_identical_has_a_digest(path):
    known = {pair: row["inputs"] for pair, row in digest.read(path).items()}
    promised = {pair: count * chunks for pair, (_, count, chunks) in digest.promised(path).items()}
    assert known == promised, "run python -m tools.digest --update"


@pytest.mark.parametrize("name", CALLS)
def test_against_arbitrary_precision(name):
    mpmath = pytest.importorskip("mpmath")
    from tools.kernel_hard_cases import rounded

    assert mpmath
    rng = np.random.default_rng(5)
    x = rng.uniform(-4, 4, 60).astype(np.float32)
    y = _kernel(name)(x)
    for a, r in zip(x, y, strict=True):
        if np.isfinite(r):
            assert int(r.view(np.uint32)) & 0x7FFFFFFF == rounded(name, int(a.view(np.uint32))) & 0x7FFFFFFF


def test_a_wrong_last_bit_is_caught():
    sample = SAMPLE[::1000]
    kernel = digest.complete("exp")
    before = digest.total(kernel, sample, 1)
    assert before != digest.total(digest.complete("exp2"), sample, 1)
    one_less = digest.total(kernel, sample[:-1], 1)
    assert before != one_less


def test_nearness_is_detected_on_both_sides():
    table = hard_cases()["log"]
    function = rounding.round_correctly("log", np.log)
    x, out = table.inputs.view(np.float32).copy(), np.empty(table.inputs.size, np.float32)
    with np.errstate(all="ignore"):
        function(x, out)
    assert same_bits(out, table.results.view(np.float32))


def _pair(name, x, y):
    call = getattr(NAMESPACE, name)
    return elementwise(lambda x, y: call(x, y), name=name)(x, y)


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_any_pair_by_comparison_with_a_midpoint(name, monkeypatch):
    rng = np.random.default_rng(8)
    x, y = rng.uniform(-3, 3, (2, 300)).astype(np.float32)
    x[::50], y[1::50] = 0, 0
    if name == "power":
        x, y[::2] = np.abs(x), rng.uniform(-120, 120, 150)
    plain = _pair(name, x, y)
    monkeypatch.setattr(rounding, "_is_near_midpoint", lambda wide: np.isfinite(wide) & (wide != 0))
    assert same_bits(_pair(name, x, y), plain)


def test_powers_that_are_midpoints():
    x = np.arange(4097, 5793, 2, dtype=np.float32)
    wide = np.full_like(x, 2.0)
    found = rounding._is_near_midpoint(x.astype(np.float64) ** 2)
    assert found.all()
    assert same_bits(_pair("power", x, wide), (x.astype(np.float64) ** 2).astype(np.float32))


def test_an_angle_below_a_midpoint_is_rounded_down():
    half, x = np.arange(1, 200), np.float32(3 * 2.0**60)
    y = ((2 * half + 1) * 3 * 2.0**-90).astype(np.float32)
    expected = np.ldexp(half.astype(np.float32), -149)
    assert same_bits(_pair("arctan2", y, x), expected)
    with np.errstate(all="ignore"):
        assert not same_bits(np.arctan2(y.astype(np.float64), float(x)).astype(np.float32), expected)


def test_a_pair_becomes_one_call_of_float32():
    b = Builder([Param(name=name, dtype=np.dtype(np.float32)) for name in ("x", "y", "out")])
    value = TABLE["power"].lowering(b, b.load(0), b.load(1))
    expanded = expand(b.program([Store(param=2, value=value)]))
    assert [(node.op, node.dtype) for node in expanded.nodes if node.op in ("call", "cast")] == [
        ("call", np.dtype(np.float32))
    ]


def test_special_values():
    x = specials("float32")
    with np.errstate(all="ignore"):
        assert same_bits(_kernel("exp")(x), np.exp(x.astype(np.float64)).astype(np.float32))


def test_fast_math_is_near():
    x = np.linspace(-5, 5, 1001, dtype=np.float32)
    fast, exact = _kernel("exp", "fast")(x), _kernel("exp")(x)
    assert np.max(np.abs(fast - exact) / np.spacing(exact)) <= 4  # ulp, NumPy's documented bound for SIMD float32


# --- float64 functions that xferlib computes itself: the same bits everywhere


def program(name):
    b = Builder([Param(name="x", dtype=FLOAT64), Param(name="y", dtype=FLOAT64)])
    return b.program([Store(param=1, value=b.call(name, b.load(0)))])


@pytest.mark.parametrize("name", CALLS)
def test_fingerprint_of_random_bits(name):
    counters = np.arange(1 << 17, dtype=np.uint32)
    expected = json.loads(DIGESTS_OF_FLOAT64.read_text())[name]
    assert f"{digest.total(digest.random(name, 'float64'), counters, 1):016x}" == expected


@pytest.mark.parametrize("name", CALLS)
def test_no_engine_calls_the_platform(name):
    shape = CallKind(
        rank=1,
        width=1,
        is_wide=False,
        accesses=(OperandAccess("unit", True, 8),) * 2,
        tile=None,
        raw_ranks=(),
        raw_words=(),
    )
    text = elementwise_source(program(name), shape)
    operations = r"XF_QUICK double xf_first_(reciprocal|quotient|root)_f64\(.*?\n}\n"  # rounded as IEEE 754 says
    text = re.sub(operations, "", text, flags=re.DOTALL)
    assert not re.search(rf"\b({name}|{CALL_NAMES.get(name, name)}|fma|__fma_rn)\(", text)


def test_a_program_without_them_stays_what_it_is():
    plain = program("exp")
    assert expand(plain) is plain


def test_special_values_of_float64():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 8.0, -27.0])
    nan = np.nan
    assert same_bits(kernel_of("rsqrt")(x)[:6], np.array([np.inf, -np.inf, 0.0, nan, nan, nan]))
    assert same_bits(kernel_of("cbrt")(x), np.array([0.0, -0.0, np.inf, -np.inf, nan, -1.0, 2.0, -3.0]))


def test_cubes_have_their_roots():
    whole = np.arange(1, 100_000, dtype=np.float64)
    assert same_bits(kernel_of("cbrt")(whole * whole * whole), whole)
    powers = 2.0 ** np.arange(-358, 342)
    assert same_bits(kernel_of("cbrt")(powers**3), powers)
