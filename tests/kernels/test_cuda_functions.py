"""The float32 functions of CUDA kernels, in pairs of floats and in double: correctly rounded.

Their text is C as well: compiled for this CPU it is compared with the project's digests. The CUDA text itself runs
where NVRTC is installed.
"""

import ctypes
import functools
import json
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from tests.kernels import emulated, targets
from tests.kernels.bits import random_bits, same_bits, specials
from tests.sizes import IS_LONG
from tools import cuda_bounds, native_digest
from xferlib.kernels import cuda_engine, cuda_functions, cuda_source, elementwise, host_compiler
from xferlib.kernels.cuda_functions import BINARY
from xferlib.kernels.cuda_source import OPTIONS
from xferlib.kernels.functions import CALL_NAMES, CALLS, hard_cases
from xferlib.kernels.python_frontend import NAMESPACE

COMPILER = host_compiler.find_compiler()
DIGESTS = Path(__file__).parent / "digests.json"
INF = float("inf")
SINGLE = [*CALLS, "erf"]
WAYS = ("pairs", "double")
NEXT_TO_MIDDLES = {
    "arctan2": [
        (0x3e1d2f9d, 0xbdec4f12, 0x400dc8b6), (0xb8aa9a72, 0xbf85ea7a, 0xc0490e94),
        (0x3d31d153, 0x3ed0d2a0, 0x3dd92c2c), (0xb9c87aad, 0xbd16ded0, 0xc04865c5),
        (0x3abd8415, 0xbf91b0b2, 0x4048fb0a), (0x39fe0269, 0x3fd063df, 0x399c0557),
        (0x390e95ab, 0xbf5dd985, 0x40490d49), (0x415717ca, 0x3d1844e0, 0x3fc8b53d),
        (0x3c1ee0d7, 0xbcd7aa21, 0x4032798c), (0xb900b542, 0xbfcaae78, 0xc0490e96),
        (0xc3785c2d, 0xbffd6b9c, 0xbfca1510), (0x4000d989, 0xbde0ab9d, 0x3fd0079a),
        (0x441b99e0, 0xbefae8c9, 0x3fc929a8), (0xbc7c0f7b, 0x3fc530c6, 0xbc239c96),
        (0x418fb8e6, 0x3efcf74e, 0x3fc58ae8), (0x3c9b1ac6, 0x3ee858f6, 0x3d2acb7b),
    ],
    "power": [
        (0x3f7f6028, 0x46c6a8f9, 0x12aa8648), (0x3f80004c, 0x4aaf7edb, 0x650f735c),
        (0x3ecd3def, 0xc18d2282, 0x4b19f54a), (0x3f8039aa, 0x46e9ec7d, 0x65776a9a),
        (0x40c19c19, 0xc23cb36f, 0x02333783), (0x3f49244c, 0xc24cf9a4, 0x48636f0c),
        (0x3f8951d9, 0x4449e75a, 0x686ce4c9), (0x3f7fffc2, 0x4b59a966, 0x1976fba9),
        (0x3fce64d0, 0x419ac5e0, 0x46216e35), (0x3f7fffd6, 0xcb884b93, 0x5fb78ef5),
        (0x3f6d1844, 0x41990e78, 0x3e6bf892), (0x3f7ffa0e, 0xc807ee8d, 0x4894eb97),
        (0x3f7fffe5, 0xcbdd5bbc, 0x6124ad1b), (0x3f8000c6, 0x4a5eec44, 0x7da58b14),
        (0x3f86cdf2, 0x4488262b, 0x6827aace), (0x3f043871, 0xc1fe0d01, 0x4e9a5a89),
    ],
}  # fmt: skip
"""The bits of x, y and the right result, which is within 2^-27 of its last place of the middle of two floats."""
both_ways = pytest.mark.parametrize("way", WAYS)
needs_compiler = pytest.mark.skipif(COMPILER is None or COMPILER.is_tcc, reason="needs a C compiler that optimises")
needs_nvrtc = pytest.mark.skipif(not targets.has_nvrtc(), reason="NVRTC is not installed")


@functools.cache
def library(way="pairs"):
    """All functions, for it takes one process of the compiler."""
    return native_digest.cuda_library([*SINGLE, *sorted(BINARY)], way)


def run(name, x, y=None, sweeps=None):
    """The results of the text compiled as C, and which took the careful step."""
    x = np.ascontiguousarray(x, np.float32)
    y, out = np.ascontiguousarray(x if y is None else y, np.float32), np.empty_like(x)
    is_careful = np.empty(x.size, np.bool_)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (x, y, out, is_careful)]
    getattr(sweeps or library(), f"values_{name}")(*pointers, ctypes.c_longlong(x.size))
    return out, is_careful


@needs_compiler
@pytest.mark.parametrize("name", CALLS)
@both_ways
def test_hard_cases(name, way):
    table = hard_cases()[name]
    found, _ = run(name, table.inputs.view(np.float32), sweeps=library(way))
    assert same_bits(found, table.results.view(np.float32))


@needs_compiler
@pytest.mark.parametrize("name", CALLS)
@both_ways
def test_fingerprint_of_a_million_inputs(name, way):
    found, _ = native_digest.digest(library(way), name, factor=4099, count=1 << 20, threads=1)
    assert f"{found:016x}" == json.loads(DIGESTS.read_text())[name]


def usual(name, count, seed):
    """Values in the function's domain: of all exponents from 2^-12 to 2^4, and next to 1."""
    rng = np.random.default_rng(seed)
    x = rng.choice([-1, 1], count) * np.exp2(rng.uniform(-12, 4, count))
    x[::3] = rng.choice([-1, 1], x[::3].size) * (1 + rng.uniform(-0.03, 0.03, x[::3].size))
    if name in ("log", "log2", "log10", "rsqrt", "log1p"):
        return np.abs(x).astype(np.float32)
    if name in ("arcsin", "arccos", "arctanh"):
        return np.fmod(x, 1).astype(np.float32)
    return (1 + np.abs(x) if name == "arccosh" else x).astype(np.float32)


def kernel_of(name):
    if name == "erf":
        return elementwise("float x", "float y", "y = erff(x)", name="erf")
    call = getattr(NAMESPACE, name)
    return elementwise(lambda x: call(x), name=name)


@needs_compiler
@pytest.mark.parametrize("name", SINGLE)
@both_ways
def test_usual_values_rarely_take_the_careful_step(name, way):
    x = usual(name, 60_000, seed=1)
    y, is_careful = run(name, x, sweeps=library(way))
    assert same_bits(y, kernel_of(name)(x))
    assert is_careful.mean() < 5e-4


@functools.cache
def careful_library():
    """All functions, of which each result is the careful step's."""
    changed = never_sure(cuda_functions.sections())
    with mock.patch.object(cuda_functions, "sections", return_value=changed):
        return native_digest.cuda_library([*SINGLE, *sorted(BINARY)])


def never_sure(sections):
    changed = {
        name: (needs, text.replace("*is_unsure |= ", "*is_unsure |= 1 || ")) for name, (needs, text) in sections.items()
    }
    assert changed != sections
    return changed


@needs_compiler
@pytest.mark.parametrize("name", SINGLE)
def test_the_careful_step_alone(name):
    x = np.concatenate([usual(name, 2000, seed=2), specials("float32"), random_bits("float32", 500, seed=3)])
    y, is_careful = run(name, x, sweeps=careful_library())
    assert np.array_equal(is_careful, x == x)
    assert same_bits(y, kernel_of(name)(x))


@needs_compiler
@pytest.mark.parametrize("name", SINGLE)
@both_ways
def test_nan_takes_the_quick_step(name, way):
    x = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF, 0x7FD55555], np.uint32).view(np.float32)
    y, is_careful = run(name, x, sweeps=library(way))
    assert not is_careful.any()
    assert np.isnan(y).all()


BEYOND = {
    "exp": (-1e30, -104, 104, INF, -INF), "exp2": (-1000, -151, 129, 1e30, INF), "expm1": (-1e30, -40, 104, INF),
    "sinh": (-1e30, -104, 104, INF), "cosh": (-1e30, 104, INF), "log": (-1e30, -1, -INF), "log2": (-1e30, -1, -INF),
    "log10": (-1e30, -1, -INF), "log1p": (-1e30, -1.5, -INF), "arcsin": (-1e30, -1.5, 1.5, INF),
    "arccos": (-1e30, -1.5, 1.5, INF), "arccosh": (-INF, -1.5, 0, 0.5), "arctanh": (-1e30, -1.5, 1.5, INF),
}  # fmt: skip
"""Operands without a result, or beyond those whose result is a usual number: arrays may have many of them."""


@needs_compiler
@pytest.mark.parametrize("name", BEYOND)
@both_ways
def test_operands_beyond_the_usual_ones_take_the_quick_step(name, way):
    x = np.array(BEYOND[name], np.float32)
    y, is_careful = run(name, x, sweeps=library(way))
    assert not is_careful.any()
    assert same_bits(y, kernel_of(name)(x))


POLES = {
    "log": (0, -0.0, INF), "log2": (0, -0.0, INF), "log10": (0, -0.0, INF), "log1p": (-1, INF), "arctanh": (-1, 1),
    "arctan": (-INF, INF, 3e38), "arcsin": (-1, 1), "arccos": (-1, 1),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize(("name", "poles"), POLES.items())
def test_poles_and_limits_take_the_first_step_in_double(name, poles):
    x = np.array(poles, np.float32)
    y, is_careful = run(name, x, sweeps=library("double"))
    assert not is_careful.any()
    assert same_bits(y, kernel_of(name)(x))


@needs_compiler
@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_subnormal_results_of_powers_are_usual_in_double(name):
    x = -np.random.default_rng(4).uniform(80, 151, 100_000).astype(np.float32)
    y, is_careful = run(name, x, sweeps=library("double"))
    assert is_careful.mean() < 5e-4
    assert same_bits(y, kernel_of(name)(x))


@needs_compiler
@both_ways
def test_a_bound_that_is_too_small_is_caught(way, monkeypatch):
    sections = cuda_functions.sections()
    none = {"pairs": "1.0f", "double": "0u"}[way]
    bound = re.compile(r"XF_(?:DOUBLE_)?BOUND\(0x[^)]*\)")
    wrong = {name: (needs, bound.sub(none, text)) for name, (needs, text) in sections.items()}
    assert wrong != sections
    monkeypatch.setattr(cuda_functions, "sections", lambda: wrong)
    table = hard_cases()["exp"]
    y, _ = run("exp", table.inputs.view(np.float32), sweeps=native_digest.cuda_library(["exp"], way))
    assert not same_bits(y, table.results.view(np.float32))


@needs_compiler
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long double is no wider than double")
def test_the_first_steps_in_double_keep_their_bound():
    measures = cuda_bounds.library(list(cuda_bounds.DOMAINS))
    for name in cuda_bounds.DOMAINS:
        error, where = cuda_bounds.measure(measures, name, cuda_bounds.operands(name, 1 << 15, seed=7))
        assert 2.0**-60 < error < cuda_bounds.bound_of(name), (name, where)


_KERNEL = """
extern "C" __global__ void use_{name}(const float* x, const float* y, float* out) {{
  int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = xf_exact_{name}({args});
}}
"""


def ptx(names, arch):
    from xferlib.backends.cuda.compiler import compile_source

    source = cuda_functions.text(names) + "".join(
        _KERNEL.format(name=name, args="x[i], y[i]" if name in BINARY else "x[i]") for name in names
    )
    return compile_source(source, arch=arch, options=OPTIONS, names=()).cubin.decode()


@needs_nvrtc
def test_no_step_has_float64_where_it_is_slow():
    text = ptx([*SINGLE, *sorted(BINARY)], "compute_89")
    assert ".f64" not in text
    assert not re.search(r"\b(?:add|sub|mul)\.f32", text)  # without .rn an assembler may contract them
    assert ".f64" in ptx(["exp"], "compute_90")


def all_at_once(names):
    """One kernel with all these functions of one operand, which takes less time than one for each."""
    calls = [getattr(NAMESPACE, name) for name in names]
    return elementwise(lambda x: tuple(call(x) for call in calls), name="all_at_once")


def spread(x):
    """A copy with room between the elements: a thread computes one, so that the kernel is short."""
    result = np.empty((x.size, 2), x.dtype)[:, 0]
    result[:] = x
    return result


@needs_nvrtc
@pytest.mark.parametrize("is_fast", [0, 1])
def test_cuda_text_has_the_bits_of_numpy(is_fast, monkeypatch):
    monkeypatch.setattr(cuda_functions, "FULL_DOUBLE", (800,) if is_fast else ())
    parts = [usual(name, 40, seed) for seed, name in enumerate(CALLS)]
    parts += [hard_cases()[name].inputs[:12].view(np.float32) for name in CALLS]
    x = spread(np.concatenate([*parts, random_bits("float32", 300, 1), specials("float32")]))
    results = [spread(x) for _ in CALLS]
    emulated.all_as_cuda([(all_at_once(CALLS), x, *results)])
    for name, found in zip(CALLS, results, strict=True):
        assert same_bits(found, kernel_of(name)(x)), name


def nested(x, y):
    """Calls whose operands are results of calls, and values that are needed before, between and behind them."""
    near = NAMESPACE.tanh(x)
    return NAMESPACE.exp(near * 2 - y) + near * y, NAMESPACE.hypot(near, x) - x


def single(x, y):
    return NAMESPACE.exp(x - y), x / y


KINDS = [("float16", 0), ("float32", 0), ("float32", 1), ("float64", 0), ("float64", 1)]


@needs_nvrtc
@pytest.mark.parametrize(
    ("function", "dtype", "is_long"),
    # Only long calls of one function are computed in another way than those of several.
    [*((nested, *each) for each in KINDS), *((single, *each) for each in KINDS if each[1] or IS_LONG)],
)
def test_a_vectors_elements_take_each_step_together(function, dtype, is_long, monkeypatch):
    monkeypatch.setattr(cuda_engine, "_LONG", 1 if is_long else 1 << 20)
    kernel = elementwise(function, name="nested")
    calls, wholes = [], []
    # The third one has a whole vector in the first part of a block, and none in the second; the last one a second block
    # of vectors that follow one another.
    for size in (1, 19, 3081, 8192 + 1027):
        width = (size + 63) // 32 * 32  # so that rows are aligned as vectors are
        x, y = np.random.default_rng(size).standard_normal((2, width)).astype(dtype)[:, :size]
        x[[0, -1]] = 0  # whose hypotenuse takes the careful step
        y[[0, -1]] = 740 if dtype == "float64" else 92  # whose exponential is subnormal
        found = np.full((2, width), 7, dtype)
        calls.append((kernel, x, y, found[0, :size], found[1, :size]))
        wholes.append(found)
    emulated.all_as_cuda(calls)
    for (_, x, y, first, second), whole in zip(calls, wholes, strict=True):
        with np.errstate(all="ignore"):
            assert all(map(same_bits, (first, second), kernel(x, y)))
        assert (whole[:, x.size :] == 7).all()


@needs_nvrtc
def test_turns_of_two_parts(monkeypatch):
    monkeypatch.setattr(cuda_engine, "_LONG", 1)
    kernel = elementwise("T x", "T y", "y = erf(x)", name="erf")
    calls, wholes = [], []
    for size in (1, 1027, 2048, 3081, 8192 + 5127):  # of turns of 2,048, of which a block has four
        x = usual("erf", size, size)
        x[:: 16 * 61] = x[-1] = float.fromhex("0x1.2c6744p0")  # which takes the careful step, in each turn
        wholes.append(np.full((size + 63) // 32 * 32, 7, np.float32))
        calls.append((kernel, x, wholes[-1][:size]))
    emulated.all_as_cuda(calls)
    for (_, x, found), whole in zip(calls, wholes, strict=True):
        assert same_bits(found, kernel(x))
        assert (whole[x.size :] == 7).all()


@needs_nvrtc
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_beside_calls_are_rounded(dtype):
    """Those of all sizes, of zeros, infinities and NaN, and of numbers whose last bits are all set or clear."""
    x, y = (np.concatenate([random_bits(dtype, 3000, seed), random_bits(dtype, 3000, seed)]) for seed in (11, 12))
    rng = np.random.default_rng(13)
    x[3000:], y[3000:] = (np.ldexp(1 + rng.random(3000), rng.integers(-60, 60, 3000)).astype(dtype) for _ in "xy")
    y[3000::3] = np.nextafter(y[3000::3] * 0 + 2, 0, dtype=dtype)
    special = specials(dtype)
    x, y = (
        np.concatenate(each) for each in ((x, np.repeat(special, special.size)), (y, np.tile(special, special.size)))
    )
    kernel = elementwise(lambda x, y: (x / y, 1 / y, NAMESPACE.sqrt(x), NAMESPACE.tanh(x)), name="quotients")
    found = np.empty((4, x.size), dtype)
    emulated.all_as_cuda([(kernel, x, y, *found)])
    with np.errstate(all="ignore"):
        for one, right in zip(found, (x / y, 1 / y, np.sqrt(x)), strict=False):
            assert same_bits(one, right)


@needs_nvrtc
def test_float16():
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    erf, of_erf = elementwise("half x", "half y", "y = erf(x)", name="erf"), np.empty_like(every)
    x = spread(every[::7])
    results = [spread(x) for _ in CALLS]
    emulated.all_as_cuda([(all_at_once(CALLS), x, *results), (erf, every, of_erf)])
    for name, found in zip(CALLS, results, strict=True):
        assert same_bits(found, kernel_of(name)(x)), name
    assert same_bits(of_erf, erf(every))


def pairs_of(name, count, seed):
    """Special values with each other, random bits, and usual values."""
    rng = np.random.default_rng(seed)
    x, y = (each.ravel() for each in np.meshgrid(specials("float32")[::2], specials("float32")))
    usual_x, usual_y = rng.standard_normal((2, count)) * np.exp2(rng.uniform(-20, 4, (2, count)))
    if name == "hypot":
        usual_y = np.sign(usual_y) * near_middles(np.abs(usual_x.astype(np.float32)), rng)
    if name == "power":
        usual_x[::3] = rng.integers(-6000, 6000, usual_x[::3].size)
        usual_y = np.where(rng.random(count) < 0.5, rng.integers(-5, 9, count) / rng.choice([1, 2, 4], count), usual_y)
    x = np.concatenate([x, random_bits("float32", 500, seed), usual_x.astype(np.float32)])
    return x, np.concatenate([y, random_bits("float32", 500, seed + 1), usual_y.astype(np.float32)])


def near_middles(x, rng):
    """For each x a y such that hypot(x, y) is next to the middle of two floats, where float64 rounds twice."""
    x = x.astype(np.float64)
    middle = x + np.spacing(x.astype(np.float32)) * (rng.integers(0, 40, x.size) + 0.5)
    return np.sqrt((middle - x) * (middle + x))


def pair_kernel(name):
    call = getattr(NAMESPACE, name)
    return elementwise(lambda x, y: call(x, y), name=name)


@needs_compiler
@pytest.mark.parametrize("name", sorted(BINARY))
@both_ways
def test_pairs_of_operands(name, way):
    x, y = pairs_of(name, 20_000, seed=20)
    assert same_bits(run(name, x, y, sweeps=library(way))[0], pair_kernel(name)(x, y))


@needs_compiler
@pytest.mark.parametrize("name", sorted(BINARY))
def test_the_careful_step_of_pairs_alone(name):
    x, y = pairs_of(name, 5000, seed=21)
    found, is_careful = run(name, x, y, sweeps=careful_library())
    assert is_careful.all()
    assert same_bits(found, pair_kernel(name)(x, y))


@needs_compiler
def test_the_comparison_with_the_middle_of_two_floats_alone(monkeypatch):
    sections = never_sure(cuda_functions.sections())
    needs, wide = sections["wide"]
    always = wide.replace("return rest - (1ull << 63) + bound <= 2ull * bound;", "return 1;")
    assert always != wide
    monkeypatch.setattr(cuda_functions, "sections", lambda: {**sections, "wide": (needs, always)})
    names = ["arctan2", "power"]
    sweeps = native_digest.cuda_library(names)
    for name in names:
        x, y = pairs_of(name, 3000, seed=24)
        if name == "arctan2":  # the middle next to the angle of others may lie beyond an axis
            with np.errstate(all="ignore"):
                is_between = np.abs(np.log2(np.abs(x) / np.abs(y))) < 22
            x, y = x[is_between], y[is_between]
        found, _ = run(name, x, y, sweeps=sweeps)
        assert same_bits(found, pair_kernel(name)(x, y)), name


@needs_compiler
@pytest.mark.parametrize("name", ["arctan2", "power"])
@both_ways
def test_pairs_next_to_the_middle_of_two_floats(name, way):
    x, y, exact = np.array(NEXT_TO_MIDDLES[name], np.uint32).view(np.float32).T
    found, is_careful = run(name, x, y, sweeps=library(way))
    assert is_careful.all()
    assert same_bits(found, exact)
    assert same_bits(pair_kernel(name)(x, y), exact)


@needs_compiler
def test_powers_that_are_midpoints_go_to_the_even_neighbour():
    m, n, root = np.array([(m, n, root) for n in range(2, 16) for root in (1, 2, 4) for m in range(3, 6000, 2)
                           if 1 << 24 <= m**n < 1 << 25 and m**root < 1 << 24]).T  # fmt: skip
    assert set(root) == {1, 2, 4}
    x, y = (m.astype(np.float64) ** root), n / root
    assert same_bits(run("power", x, y)[0], (m.astype(np.float64) ** n).astype(np.float32))


@needs_nvrtc
def test_cuda_text_of_pairs_has_the_bits_of_numpy():
    calls = []
    for name in sorted(BINARY):
        for dtype, count, seed in (("float32", 2000, 22), ("float16", 3000, 23)):
            with np.errstate(over="ignore"):
                x, y = (each.astype(dtype) for each in pairs_of(name, count, seed))
            calls.append((pair_kernel(name), x, y, np.empty_like(x)))
    emulated.all_as_cuda(calls)
    for kernel, x, y, found in calls:
        assert same_bits(found, kernel(x, y)), (kernel, x.dtype)


@pytest.mark.parametrize("name", SINGLE)
def test_text_of_float64_has_the_steps_that_it_takes(name):
    kernel = elementwise("T x", "T y", f"y = {CALL_NAMES.get(name, name)}(x)", name="one")
    text = cuda_source.prelude([kernel.definition.specialize((np.dtype("f8"),) * 2, frozenset()).program])
    for step in ("reciprocal", "quotient", "root"):
        assert text.count(f"xf_first_{step}_f64(") != 1


def test_no_name_of_the_text_is_another_parts_too():
    kernels = Path(cuda_functions.__file__).parent
    mine = set(re.findall(r"\b(?:xf|XF)_\w+", kernels.joinpath("cuda_functions.cu").read_text()))
    for other in ("c_text.py", "cuda_source.py", "cuda_reduction.py", "float64_functions.py", "scan.py", "random.py"):
        assert not mine & set(re.findall(r"\b(?:xf|XF)_\w+", kernels.joinpath(other).read_text())), other
