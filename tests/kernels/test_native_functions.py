"""The C functions of native kernels are correctly rounded: both their forms, with and without fused multiplications."""

import ctypes
import functools
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.bits import random_bits, same_bits, specials
from tools import native_digest
from xferlib.kernels import host_compiler, native_functions, native_source
from xferlib.kernels.functions import CALLS, hard_cases
from xferlib.kernels.native_functions import BINARY, NAMES

COMPILER = host_compiler.find_compiler()
pytestmark = pytest.mark.skipif(COMPILER is None or COMPILER.is_tcc, reason="needs a C compiler that optimises")
DIGESTS = Path(__file__).parent / "digests.json"
FLAGS = {"fused": native_digest.FLAGS, "plain": native_digest.FLAGS + native_digest.PLAIN}
_LOOP = """
void {form}_{name}(const float *x, const float *y, float *out, long long count) {{
  (void)y;
  for (long long i = 0; i < count; ++i) {{ int flag = {is_slow}; float r = xf_{name}_f32({args}, &flag);
    out[i] = flag ? xf_{name}_f32_slow({args}) : r; }}
}}
"""


@functools.cache
def library(kind):
    source = native_functions.text(NAMES)
    for name in NAMES:
        args = "x[i], y[i]" if name in BINARY else "x[i]"
        for form in ("fast", "slow"):
            source += _LOOP.format(form=form, name=name, args=args, is_slow=int(form == "slow"))
    return host_compiler.load_c(source, flags=FLAGS[kind])


def run(kind, form, name, x, y=None):
    x = np.ascontiguousarray(x, np.float32)
    y, out = np.ascontiguousarray(x if y is None else y, np.float32), np.empty_like(x)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (x, y, out)]
    getattr(library(kind), f"{form}_{name}")(*pointers, ctypes.c_longlong(x.size))
    return out


def wide(name, *operands):
    """The float64 function, rounded once: right but next to midpoints."""
    with np.errstate(all="ignore"):
        exact = [each.astype(np.float64) for each in operands]
        return (1 / np.sqrt(exact[0]) if name == "rsqrt" else getattr(np, name)(*exact)).astype(np.float32)


both_kinds = pytest.mark.parametrize("kind", FLAGS)
both_forms = pytest.mark.parametrize("form", ["fast", "slow"])


@both_kinds
@both_forms
@pytest.mark.parametrize("name", CALLS)
def test_hard_cases(name, form, kind):
    table = hard_cases()[name]
    assert same_bits(run(kind, form, name, table.inputs.view(np.float32)), table.results.view(np.float32))


@pytest.mark.parametrize("name", CALLS)
def test_fingerprint_of_a_million_inputs(name):
    found, _ = native_digest.digest(_sweeps(), name, factor=4099, count=1 << 20, threads=1)
    assert f"{found:016x}" == json.loads(DIGESTS.read_text())[name]


@functools.cache
def _sweeps():
    return native_digest.library(CALLS)


@both_kinds
@both_forms
@pytest.mark.parametrize("name", CALLS)
def test_random_and_special_values(name, form, kind):
    x = np.concatenate([specials("float32"), random_bits("float32", 500, seed=3)])
    assert same_bits(run(kind, form, name, x), wide(name, x))


@both_kinds
@both_forms
@pytest.mark.parametrize("name", sorted(BINARY))
def test_special_pairs(name, form, kind):
    x, y = (each.ravel() for each in np.meshgrid(specials("float32"), specials("float32")))
    assert same_bits(run(kind, form, name, x, y), wide(name, x, y))


@both_forms
@pytest.mark.parametrize("name", sorted(BINARY))
def test_random_pairs(name, form):
    x, y = random_bits("float32", 3000, seed=4), random_bits("float32", 3000, seed=5)
    rng = np.random.default_rng(6)
    x[::2], y[::2] = rng.uniform(0, 9, 1500), rng.uniform(-9, 9, 1500)
    assert same_bits(run("fused", form, name, x, y), wide(name, x, y))


def _midpoints():
    """Every odd m, n and part with ``m^n`` of 25 bits and ``m^(1/part)`` of at most 24."""
    for n in range(2, 16):
        for root in (1, 2, 4, 8):
            for m in range(3, 6000, 2):
                if 1 << 24 <= m**n < 1 << 25 and m**root < 1 << 24:
                    yield m, n, root


@both_kinds
@both_forms
def test_powers_that_are_midpoints_go_to_the_even_neighbour(form, kind):
    cases = np.array(list(_midpoints()))
    m, n, root = cases.T
    assert {1, 2, 4} <= set(root)
    scale = np.random.default_rng(7).integers(-8, 9, len(cases))
    x, y = np.ldexp(m.astype(np.float64) ** root, scale * root), n / root
    expected = np.ldexp(m.astype(np.float64) ** n, scale * n).astype(np.float32)
    assert same_bits(run(kind, form, "power", x, y), expected)
    whole = root == 1
    signed = np.where(n % 2, -expected, expected)[whole]
    assert same_bits(run(kind, form, "power", -x[whole], y[whole]), signed)


@given(st.integers(1, (1 << 11) - 1), st.integers(1, 1 << 11), st.integers(1, 100))
def test_an_angle_below_a_midpoint_is_rounded_down(half, odd, exponent):
    """A quotient may lie in the middle of two subnormal numbers; its arc tangent is less. y has at most 24 bits."""
    x, y = (2 * odd - 1) * 2.0**exponent, (2 * half + 1) * (2 * odd - 1) * 2.0 ** (exponent - 150)
    below = np.ldexp(np.float32(half), -149)
    for form in ("fast", "slow"):
        assert run("fused", form, "arctan2", np.array([y]), np.array([x]))[0] == below


@given(st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1))
def test_the_rest_of_a_division_is_exact(x_bits, y_bits):
    x, y = np.array([x_bits, y_bits], np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = np.fmod(np.array([x]), np.array([y]))
    for form in ("fast", "slow"):
        assert same_bits(run("fused", form, "fmod", np.array([x]), np.array([y])), expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_functions_text_is_complete_and_without_warnings(name):
    source = native_functions.text([name])
    parameters = "float x, float y" if name in BINARY else "float x"
    args = "x, y" if name in BINARY else "x"
    source += f"float use({parameters}) {{ int flag = 0; float r = xf_{name}_f32({args}, &flag);"
    source += f" return flag ? xf_{name}_f32_slow({args}) : r; }}\n"
    assert COMPILER
    words = [*COMPILER.command, "-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-fsyntax-only"]
    done = subprocess.run([*words, "-xc", "-"], input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_sections_are_there_once():
    source = native_functions.text(["sin", "cos", "sin"])
    assert source.count("static int xf_reduce(") == source.count("xf_cos_f32_slow(float x) {") == 1
    assert "xf_exp_f32" not in source
    assert "#include" not in source
    assert "//: " not in source


def test_every_function_has_a_text():
    assert set(CALLS) <= set(NAMES)


def test_a_bound_that_is_too_small_is_caught(monkeypatch):
    needs, body = native_functions._sections()["log"]
    core_needs, core = native_functions._sections()["log_of_float"]
    wrong = core.replace("0x1p-40", "0x1p-80")
    assert wrong != core
    changed = native_functions._sections() | {"log_of_float": (core_needs, wrong), "log": (needs, body)}
    monkeypatch.setattr(native_functions, "_sections", lambda: changed)
    table = hard_cases()["log"]
    source = native_functions.text(["log"]) + _LOOP.format(form="fast", name="log", args="x[i]", is_slow=0)
    wrong_library = host_compiler.load_c(source, flags=native_digest.FLAGS)
    x, out = table.inputs.view(np.float32).copy(), np.empty(table.inputs.size, np.float32)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (x, x, out)]
    wrong_library.fast_log(*pointers, ctypes.c_longlong(x.size))
    assert not same_bits(out, table.results.view(np.float32))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@both_kinds
def test_functions_of_all_numbers_of_two_bytes(kind, dtype):
    """Against the functions of float32, rounded once more; NaN included."""
    # Of erf there is no function of float32 in C: other tests run the text that CUDA shares.
    names, bits = sorted(native_functions.OF_HALF - {"erf"}), "half"
    if dtype == "bfloat16":
        names, bits = sorted(native_functions.OF_BFLOAT16 - {"erf"}), dtype
    calls = [(name, dtype) for name in names]
    source = native_source.section("prelude") + native_source.section(bits) + native_source.function_text(calls)
    widen = "xf_from_half(x[i])" if bits == "half" else "__uint_as_float((unsigned int)x[i] << 16)"
    ending = "f16" if bits == "half" else "bf16"
    loops = {"widen": ("unsigned short", "float", widen), "narrow": ("float", "unsigned short", f"xf_to_{bits}(x[i])")}
    for name in names:
        careful = "careful_" * ((name, dtype) in native_functions.UNCERTAIN)
        call = f"xf_to_{bits}(xf_{careful}{name}_{ending}({widen}))"
        loops[name] = ("unsigned short", "unsigned short", call)
    for name, (of, to, value) in loops.items():
        source += f"void run_{name}(const {of} *x, {to} *y) {{ for (int i = 0; i < 65536; ++i) y[i] = {value}; }}\n"
    functions = host_compiler.load_c(source, flags=(*native_source.OPTIONS, *FLAGS[kind], "-fvisibility=default"))

    def compute(name, x, made):
        y = np.empty(x.size, made)
        getattr(functions, f"run_{name}")(*[ctypes.c_void_p(each.ctypes.data) for each in (x, y)])
        return y

    x = np.arange(1 << 16, dtype=np.uint16)
    wide = compute("widen", x, np.float32)
    for name in names:
        own, expected = compute(name, x, np.uint16), compute("narrow", run(kind, "fast", name, wide), np.uint16)
        where = np.flatnonzero(own != expected)[:4]
        assert not where.size, (name, where, own[where], expected[where])
        assert len(np.unique(own)) > (2400 if bits == "half" else 300)  # arccosh and arccos have the fewest results
