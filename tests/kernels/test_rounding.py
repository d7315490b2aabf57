"""float32 functions are correctly rounded, and give the committed fingerprints on this CPU."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.bits import same_bits, specials
from tools import digest
from xferlib.kernels import elementwise
from xferlib.kernels import numpy_functions as rounding
from xferlib.kernels.functions import CALLS, hard_cases
from xferlib.kernels.python_frontend import NAMESPACE

DIGESTS = Path(__file__).parent / "digests.json"
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


def test_special_values():
    x = specials("float32")
    with np.errstate(all="ignore"):
        assert same_bits(_kernel("exp")(x), np.exp(x.astype(np.float64)).astype(np.float32))


def test_fast_math_is_near():
    x = np.linspace(-5, 5, 1001, dtype=np.float32)
    fast, exact = _kernel("exp", "fast")(x), _kernel("exp")(x)
    assert np.max(np.abs(fast - exact) / np.spacing(exact)) <= 4  # ulp, NumPy's documented bound for SIMD float32
