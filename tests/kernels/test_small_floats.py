"""bfloat16 and float8 in kernels: every bit pattern converted, random expressions, reductions, on each engine."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import xferlib as xl
from tests.kernels import compiled, emulated, targets
from tests.sizes import some
from xferlib._transfer.on_device import plan_conversion
from xferlib.errors import KernelTypeError, UnsupportedDTypeError
from xferlib.kernels import elementwise, host_compiler, reduction, reductions
from xferlib.kernels.elementwise import cast_into
from xferlib.kernels.native_engine import ns_per_element
from xferlib.kernels.reduction import HostReductionCall
from xferlib.kernels.small_floats import store_bits, view_bits
from xferlib.testing import arrays as core_arrays
from xferlib.testing import configured, dtypes

pytest.importorskip("ml_dtypes")

SMALL = {name: core_arrays.check_dtype(name) for name in dtypes.SMALL_FLOATS}
BFLOAT16 = SMALL["bfloat16"]
PAIRS = [(one, two) for one, two in itertools.product((*SMALL, *dtypes.DTYPES), repeat=2) if {one, two} & {*SMALL}]
needs_nvrtc = pytest.mark.skipif(not targets.has_nvrtc(), reason="NVRTC is not installed")
needs_compiler = pytest.mark.skipif(host_compiler.find_compiler() is None, reason="there is no C compiler")

Array = np.ndarray[Any, Any]


def put(engine: targets.Target, x: Array) -> Any:
    return xl.to_device(x, device={"torch-cpu": "torch:cpu", "torch-cuda": "torch"}.get(engine.name, engine.name))


def bits_of(x: Array) -> Array:
    return np.ascontiguousarray(x).view(f"u{min(x.dtype.itemsize, 8)}")


def patterns(name: str, rng: np.random.Generator) -> Array:
    """Every value of a dtype of 8 or 16 bits; of others numbers of all sizes, at ties among small ones, and bits."""
    dtype = core_arrays.check_dtype(name)
    if name == "bool":
        return np.array([False, True] * 128)
    if dtype.itemsize <= 2:
        return np.arange(1 << 8 * dtype.itemsize, dtype=f"u{dtype.itemsize}").view(dtype)
    bits = rng.integers(0, 256, 20_000 * dtype.itemsize, dtype=np.uint8).view(dtype)
    if dtype.kind in "iu":
        near = rng.integers(0, 513, 5000) * 2 ** rng.integers(0, 8 * dtype.itemsize - 11, 5000)
        return np.concatenate([bits, (near + rng.integers(-1, 2, 5000)).astype(dtype)])
    ties = [each[np.isfinite(each)] for each in (midpoints(small) for small in SMALL.values())]
    numbers = np.concatenate([*ties, rng.standard_normal(5000) * 10.0 ** rng.integers(-10, 10, 5000)]).astype(dtype)
    if dtype.kind != "f":
        return np.concatenate([bits, numbers])
    with np.errstate(all="ignore"):
        return np.concatenate(
            [bits, numbers, np.nextafter(numbers, dtype.type(0)), np.nextafter(numbers, np.inf, dtype=dtype)]
        )


def finite(dtype: np.dtype[Any]) -> Array:
    """The finite numbers from 0 on, as float64."""
    codes = np.arange(dtypes.SMALL_FLOATS[dtype.name].most + 1, dtype=f"u{dtype.itemsize}")
    return codes.view(dtype).astype(np.float64)


def midpoints(dtype: np.dtype[Any]) -> Array:
    """The numbers in the middle between a finite number and the next, from 0 on, and behind the last one."""
    numbers = finite(dtype)
    return np.append((numbers[1:] + numbers[:-1]) / 2, numbers[-1] + (numbers[-1] - numbers[-2]) / 2)


def round_once(x: Array, dtype: np.dtype[Any]) -> Array:
    """The bits of float64 numbers rounded to nearest, ties to even: found among all numbers of the dtype."""
    form, size = dtypes.SMALL_FLOATS[dtype.name], np.abs(x)
    ends = midpoints(dtype)
    low, high = np.searchsorted(ends, size, "left"), np.searchsorted(ends, size, "right")
    code = np.where((low != high) & (low % 2 == 1), high, low)
    code = np.where(np.isnan(x), form.nan, np.where(code > form.most, form.beyond, code))
    sign = np.signbit(x).astype(np.uint64) << np.uint64(8 * form.itemsize - 1)
    code = code.astype(np.uint64) | sign
    is_zero = form.is_unsigned_zero & ((code & np.uint64(0x7F)) == 0) & ~np.isnan(x) & (size <= ends[0])
    return np.where(is_zero, 0, code).astype(f"u{form.itemsize}")


@pytest.mark.parametrize("name", SMALL)
def test_float64_is_rounded_once(name: str) -> None:
    x = patterns("float64", np.random.default_rng(1))
    found = np.empty(x.shape, SMALL[name])
    core_arrays.copy_into(found, x)
    np.testing.assert_array_equal(bits_of(found), round_once(x, SMALL[name]))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("given", ["int32", "uint32", "int64", "uint64"])
def test_integers_are_rounded_once(given: str, name: str) -> None:
    """Also next to a midpoint, where neither float32 nor float64 may tell on which side they are."""
    dtype, small = np.dtype(given), SMALL[name]
    signs = (-1, 1) if dtype.kind == "i" else (1,)
    places = [(sign * int(each) + step, sign * each, step) for each in midpoints(small) if 0 < each == int(each)
              for step in (-1, 0, 1) for sign in signs]  # fmt: skip
    known = [each for each in places if np.iinfo(dtype).min <= each[0] <= np.iinfo(dtype).max]
    found = np.empty(len(known), small)
    core_arrays.copy_into(found, np.array([number for number, *_ in known], dtype))
    # The nearest float64 on the same side of the midpoint rounds to the same number.
    near = np.array([each if not step else np.nextafter(each, step * np.inf) for _, each, step in known])
    np.testing.assert_array_equal(bits_of(found), round_once(near, small))


@pytest.mark.parametrize(("given", "wanted"), PAIRS)
def test_a_conversion_on_a_device_has_the_bits_of_the_hosts(engine: targets.Target, given: str, wanted: str) -> None:
    if given.startswith("complex") and wanted != "bool":
        pytest.skip("it would drop the imaginary parts")
    x = patterns(given, np.random.default_rng(2))
    expected = np.empty(x.shape, core_arrays.check_dtype(wanted))
    core_arrays.copy_into(expected, x)
    source = put(engine, x)
    out = put(engine, np.zeros(x.shape, expected.dtype))
    cast_into(out, source)
    found = xl.to_host(out)
    if wanted.startswith("complex"):
        found, expected = found.real.copy(), expected.real.copy()
    if given == "float16" or wanted in ("float16", "float32", "float64"):  # of whose NaN processors have their own bits
        assert_same(found, expected)
    else:
        np.testing.assert_array_equal(bits_of(found), bits_of(expected))


OF_TRANSFERS = [
    (one, two)
    for small in ("bfloat16", "float8_e4m3fn", "float8_e5m2fnuz")
    for other in ("float64", "float16", "int64", "uint64", "int8", "bool", "float8_e5m2")
    for one, two in ((small, other), (other, small))
    if one != "bool"
]


@needs_nvrtc
def test_the_kernels_of_transfers_convert_as_the_host_does() -> None:
    """The kernels that C launches for transfers which come again, run on the CPU."""
    cases = []
    for given, wanted in some(OF_TRANSFERS, 3):
        x, dtype = patterns(given, np.random.default_rng(3)), core_arrays.check_dtype(wanted)
        launch = plan_conversion(x.shape, (dtype.itemsize,), (x.itemsize,), x.dtype, dtype)
        assert launch is not None
        cases.append((x, np.empty(x.shape, dtype), launch))
    module = xl.raw_module(emulated.join_sources([launch.source for *_, launch in cases]))
    for number, (x, expected, launch) in enumerate(cases):
        core_arrays.copy_into(expected, x)
        found = np.zeros(expected.nbytes, np.int8)
        kernel = module.get_function(f"{launch.name}_{number}")
        kernel((launch.blocks,), launch.block, (found, x.view(np.int8).copy(), *map(np.int64, launch.args)))
        what, found = f"{x.dtype} to {expected.dtype}", found.view(expected.dtype)
        if expected.dtype.kind in "iub":
            np.testing.assert_array_equal(found, expected, what)
        else:
            assert_same(found, expected, what)


@pytest.mark.parametrize("wanted", [name for name, dtype in SMALL.items() if dtype.itemsize == 1])
@pytest.mark.parametrize(
    "given", [*SMALL, "bool", "int16", "int64", "uint8", "uint64", "float16", "float32", "float64"]
)
def test_a_saturating_conversion_ends_at_the_largest_number(engine: targets.Target, given: str, wanted: str) -> None:
    x, form = patterns(given, np.random.default_rng(3)), dtypes.SMALL_FLOATS[wanted]
    most = dtypes.float_limits(SMALL[wanted]).max
    with np.errstate(all="ignore"):
        expected = np.clip(x.astype(np.float64), -most, most)
    rounded = np.empty(x.shape, SMALL[wanted])
    core_arrays.copy_into(rounded, expected)
    found = xl.to_host(xl.astype(put(engine, x), wanted, saturate=True))
    assert found.dtype == SMALL[wanted]
    assert not np.any(bits_of(found)[np.isfinite(expected)] == form.beyond)
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), np.isnan(expected))
    are_numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(bits_of(found)[are_numbers], bits_of(rounded)[are_numbers])


CONVERT = """
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
extern "C" __global__ void convert(const {type} *x, __nv_fp8_e4m3 *y, __nv_fp8_e5m2 *z, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __nv_fp8_e4m3(x[i]), z[i] = __nv_fp8_e5m2(x[i]);
}}
"""


@pytest.mark.parametrize("kind", ["float", "double", "__half", "__nv_bfloat16", "int", "unsigned long long"])
def test_saturation_is_that_of_cuda(launcher: targets.Target, kind: str) -> None:
    """Of the constructors of its types, whose numbers come from its header; in snippets and of `astype`."""
    names = {"float": "float32", "double": "float64", "__half": "float16", "__nv_bfloat16": "bfloat16", "int": "int32"}
    x = np.random.default_rng(4).permutation(patterns(names.get(kind, "uint64"), np.random.default_rng(4)))[:3000]
    with xl.use_backend(launcher.name.partition("-")[0]):
        given, y, z = xl.to_device(x), xl.empty(x.shape, "float8_e4m3fn"), xl.empty(x.shape, "float8_e5m2")
        source = CONVERT.format(type=kind)
        types = f"const {kind} *x, __nv_fp8_e4m3 *y, __nv_fp8_e5m2 *z, int n"
        xl.raw_module(source).get_function("convert", signature=types)(24, 128, (given, y, z, x.size))
        for made, name, own in ((y, "float8_e4m3fn", "__nv_fp8_e4m3"), (z, "float8_e5m2", "__nv_fp8_e5m2")):
            assert_same(xl.to_host(xl.astype(given, name, saturate=True)), xl.to_host(made), name)
            assert_same(xl.to_host(elementwise(f"{kind} x", f"{own} y", "y = x")(given)), xl.to_host(made), own)
            cast = elementwise(f"{kind} x", "float y", f"y = ({name})x")(given)
            assert_same(xl.to_host(cast), xl.to_host(xl.astype(made, "float32")), own)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int8"])
def test_only_float8_saturates_where_it_is_told(dtype: str) -> None:
    with pytest.raises(UnsupportedDTypeError, match=rf"saturate=True with dtype='{dtype}', but it is for float8"):
        xl.astype(np.ones(3), dtype, saturate=True)
    with pytest.raises(UnsupportedDTypeError, match="it is for float8"):
        elementwise(lambda x: x.astype(dtype, saturate=True))(np.ones(3))


# --- expressions

UNARY: list[Callable[[Any], Any]] = [
    np.negative, np.abs, np.sqrt, np.floor, np.rint, np.square, np.exp, np.log, np.tanh, np.sin, np.sign, np.reciprocal,
]  # fmt: skip
BINARY: list[Callable[[Any, Any], Any]] = [
    np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.hypot, np.copysign,
]  # fmt: skip


def make_expression(rng: np.random.Generator) -> Callable[..., Any]:
    """A random expression of three operands, the same for traced values and for promotion."""
    steps: list[tuple[Any, tuple[int, ...]]] = []
    for _ in range(rng.integers(2, 6)):
        values = 3 + len(steps)
        choices = [tuple(rng.integers(0, values, count).tolist()) for count in (1, 2, 3)]
        kind = rng.integers(0, 10)
        if kind < 4:
            steps.append((UNARY[rng.integers(len(UNARY))], choices[0]))
        elif kind < 9:
            steps.append((BINARY[rng.integers(len(BINARY))], choices[1]))
        else:
            steps.append((None, choices[2]))

    def compute(x: Any, y: Any, z: Any) -> Any:
        found = [x, y, z]
        for function, places in steps:
            operands = [found[each] for each in places]
            found.append(
                np.where(operands[0] < operands[1], *operands[1:]) if function is None else function(*operands)
            )
        return found[-1]

    return compute


def operands_for(rng: np.random.Generator, size: int = 500) -> list[Array]:
    """Numbers of all sizes, and a few of any bits."""
    found = []
    for _ in range(3):
        numbers = (rng.standard_normal(size) * 2.0 ** rng.integers(-8, 9, size)).astype(BFLOAT16)
        numbers[: size // 8] = rng.integers(0, 1 << 16, size // 8, dtype=np.uint16).view(BFLOAT16)
        found.append(numbers)
    return found


def assert_same(found: Array, expected: Array, what: object = "") -> None:
    assert found.dtype == expected.dtype
    are_nan = np.isnan(found.astype(np.float32)) & np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(
        np.where(are_nan, 0, bits_of(found)), np.where(are_nan, 0, bits_of(expected)), str(what)
    )


def unary_kernel(function: Callable[..., Any]) -> Any:
    return elementwise(lambda x: function(x))


def binary_kernel(function: Callable[..., Any]) -> Any:
    return elementwise(lambda x, y: function(x, y))


def of_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of bfloat16 by way of xferlib's own of float32, rounded by ml_dtypes."""
    kernel = (unary_kernel if function in UNARY else binary_kernel)(function)

    def compute(*operands: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(kernel(*(each.astype(np.float32) for each in operands))).astype(BFLOAT16)

    return compute


@pytest.mark.parametrize("function", [*UNARY, *BINARY], ids=lambda each: each.__name__)
def test_a_function_is_that_of_float32_rounded_once(engine: targets.Target, function: Any) -> None:
    count = 1 if function in UNARY else 2
    x = np.arange(1 << 16, dtype=np.uint16).view(BFLOAT16)
    given = [x, np.random.default_rng(3).permutation(x)][:count]
    kernel = (unary_kernel if count == 1 else binary_kernel)(function)
    found = xl.to_host(kernel(*(put(engine, each) for each in given)))
    assert_same(found, of_float32(function)(*given))


def parts_of_seeds(first: int, count: int) -> list[range]:
    """Those of random expressions; with ``XFERLIB_TEST_LONG=n`` 500 others, the same for each engine, in parts."""
    start = 1000 * int(os.environ.get("XFERLIB_TEST_LONG") or 0)
    return (
        [range(first, first + 20) for first in range(start, start + 500, 20)]
        if start
        else [range(first, first + count)]
    )


@pytest.mark.parametrize("seeds", parts_of_seeds(0, 40), ids=str)
def test_random_expressions_are_the_same_on_each_engine(engine: targets.Target, seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        kernel, given = elementwise(make_expression(rng)), operands_for(rng)
        with configured(cpu="numpy"):
            expected = np.asarray(kernel(*given))
        assert_same(xl.to_host(kernel(*(put(engine, each) for each in given))), expected, seed)


@needs_compiler
@pytest.mark.parametrize("seeds", parts_of_seeds(100, 20), ids=str)
def test_random_expressions_are_the_same_in_compiled_c(seeds: range) -> None:
    cases = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        kernel, given = elementwise(make_expression(rng)), operands_for(rng)
        with configured(cpu="numpy"):
            expected = np.asarray(kernel(*given))
        program = kernel.definition.specialize((BFLOAT16,) * 3, frozenset()).program
        operands = [view_bits(each).copy() for each in (*given, np.empty_like(expected))]
        cases.append((store_bits(program), operands, expected))
    for kernel_, (_, operands, expected) in zip(compiled.compile_all([each[0] for each in cases]), cases, strict=True):
        assert not kernel_.why_not
        _, by_c = compiled.run_both(kernel_, expected.shape, operands)
        assert_same(by_c[-1].view(expected.dtype), expected)


@pytest.mark.parametrize("name", SMALL)
def test_bits_are_no_reason_for_threads(name: str) -> None:
    """Threads are woken by a guess of the time, in which each operation of a rounding weighed as much as a sum."""

    def guess(dtype: np.dtype[Any]) -> float:
        kernel = elementwise(lambda x, y: (np.sqrt(x) * y - x).astype(dtype))
        return ns_per_element(store_bits(kernel.definition.specialize((dtype,) * 2, frozenset()).program))

    assert guess(SMALL[name]) < 2 * guess(np.dtype(np.float32))


@needs_nvrtc
@pytest.mark.parametrize("seeds", parts_of_seeds(200, 6), ids=str)
def test_random_expressions_are_the_same_in_cuda_source(seeds: range) -> None:
    calls, expected = [], []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        kernel, given = elementwise(make_expression(rng)), operands_for(rng, 64)
        expected.append(np.asarray(kernel(*given)))
        calls.append((kernel, *given, np.empty_like(expected[-1])))
    emulated.all_as_cuda(calls)
    for seed, call, each in zip(seeds, calls, expected, strict=True):
        assert_same(call[-1], each, seed)


OWN: dict[str, Callable[[Any], Any]] = {
    **{each.__name__: each for each in (np.exp, np.expm1, np.tanh, np.log, np.log1p, np.sin, np.cos, np.arctan)},
    **{each.__name__: each for each in (np.arcsin, np.arccos, np.arctanh, np.exp2, np.log2, np.log10)},
    "signs": lambda x: -abs(x), "both": lambda x: np.exp(-abs(x)) * np.sin(-x),
}  # fmt: skip


@needs_nvrtc
@needs_compiler
def test_functions_of_all_numbers_in_cuda_source_and_c() -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(BFLOAT16)
    kernels = {name: unary_kernel(function) for name, function in OWN.items()}
    kernels |= {name: elementwise("bfloat16 x", "bfloat16 y", f"y = {name}(x)") for name in ("erf", "rsqrt")}
    calls = [(kernel, x, np.zeros_like(x)) for kernel in kernels.values()]
    emulated.all_as_cuda(calls)
    programs = [
        store_bits(kernel.definition.specialize((BFLOAT16,) * 2, frozenset()).program) for kernel in kernels.values()
    ]
    for name, native, (*_, by_cuda) in zip(kernels, compiled.compile_all(programs), calls, strict=True):
        assert not native.why_not
        operands = [view_bits(x).copy(), np.zeros(x.shape, np.uint16)]
        by_numpy, by_c = (each[-1].view(BFLOAT16) for each in compiled.run_both(native, x.shape, operands))
        assert_same(by_c, by_numpy, name)
        assert_same(by_cuda, by_numpy, name)


def test_signs_need_no_conversion() -> None:
    """A GPU converts at a quarter of the rate of other operations, or less."""
    kernel = elementwise(lambda x: -abs(x))
    program = store_bits(kernel.definition.specialize((BFLOAT16,), frozenset()).program)
    assert not {"narrow", "abs", "neg"} & {node.op for node in program.nodes}
    x = np.array([1, -2, 0, -0.0, np.inf, np.nan], BFLOAT16)
    assert_same(np.asarray(kernel(x)), np.array([-1, -2, -0.0, -0.0, -np.inf, np.nan], BFLOAT16))


@needs_compiler
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_calls_that_come_again_are_made_in_c(library: str, name: str) -> None:
    """C compares the arrays' own dtypes, where the compiled kernel sees integers: of integers Python makes the call."""
    targets.target("torch-cpu" if library == "torch" else library)
    device = xl.get_device("torch:cpu" if library == "torch" else library)
    kernel = elementwise(lambda x, y: (x * y + 1).astype(x.dtype), name="again")
    given = [np.arange(low, 96, dtype=f"u{SMALL[name].itemsize}").view(SMALL[name]) for low in (0, 1, 60)]
    arrays = [xl.to_device(each, device=device) for each in given]
    with configured(cpu="numpy"):
        expected = [np.asarray(kernel(each, each[::-1])) for each in given]
    with configured(cpu="native"):
        for _ in range(3):
            kernel(arrays[0], arrays[0])
        assert len(kernel._dispatch._known[0]) == 1
        for array, each in zip(arrays, expected, strict=True):
            turned = xl.to_device(xl.to_host(array)[::-1], device=device)
            found, out = kernel(array, turned), xl.empty_like(array)
            assert xl.device_of(found) is device
            assert_same(xl.to_host(found), each)
            assert kernel(array, turned, out=out) is out
            assert_same(xl.to_host(out), each)
        space: Any = xl.get_array_module(arrays[0])
        bits = getattr(arrays[0], "view")(getattr(space, f"uint{8 * SMALL[name].itemsize}"))  # noqa: B009 - both have it
        assert kernel(bits, bits).dtype == bits.dtype  # numbers, not bits


@needs_compiler
def test_reductions_that_come_again_are_made_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    x = (np.arange(120) / 8).astype(BFLOAT16).reshape(6, 20)
    with configured(cpu="native"):
        for name, axis in (("sum", 1), ("argmax", 1)):
            reduce = getattr(reductions, name)
            expected = [np.asarray(reduce(each, axis=axis)) for each in (x, -x) for _ in range(3)]
            counts = []
            for _ in range(4):  # another thread's settings may have a call prepared anew in between
                with monkeypatch.context() as patched:
                    run = Mock(side_effect=HostReductionCall.run)
                    patched.setattr(HostReductionCall, "run", lambda *args, run=run: run(*args))
                    found = [np.asarray(reduce(each, axis=axis)) for each in (x, -x)]
                assert_same(found[0], expected[0])
                assert_same(found[1], expected[3])
                counts.append(run.call_count)
            assert min(counts) == 0


def test_arithmetic_is_that_of_ml_dtypes() -> None:
    x, y = (np.random.default_rng(each).permutation(1 << 16).astype(np.uint16).view(BFLOAT16) for each in (4, 5))
    with np.errstate(all="ignore"):
        for operation in (np.add, np.subtract, np.multiply, np.divide):
            assert_same(np.asarray(binary_kernel(operation)(x, y)), operation(x, y), operation)
        assert_same(np.asarray(elementwise(lambda x, y: x * y + y)(x, y)), x * y + y)


def test_arithmetic_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x, y = (np.random.default_rng(each).permutation(1 << 16).astype(np.uint16).view(BFLOAT16) for each in (6, 7))
    one, two = (xl.to_device(each, device="torch:cpu") for each in (x, y))
    for name in ("add", "subtract", "multiply", "divide"):
        kernel = binary_kernel(getattr(np, name))
        assert_same(xl.to_host(kernel(one, two)), xl.to_host(getattr(torch, name)(one, two)), name)


# --- dtypes of results

MIXED = {
    "bool": "bfloat16", "int8": "bfloat16", "int16": "bfloat16", "int32": "bfloat16", "int64": "bfloat16",
    "uint8": "bfloat16", "uint64": "bfloat16", "float16": "float32", "float32": "float32", "float64": "float64",
    "complex64": "complex64", "complex128": "complex128", "bfloat16": "bfloat16", "float8_e4m3fn": "float32",
}  # fmt: skip


@pytest.mark.parametrize(("other", "expected"), MIXED.items())
def test_promotion(other: str, expected: str) -> None:
    x, y = np.ones(3, BFLOAT16), np.ones(3, core_arrays.check_dtype(other))
    for one, two in ((x, y), (y, x)):
        assert elementwise(lambda x, y: x + y)(one, two).dtype == core_arrays.check_dtype(expected)
    assert dtypes.promote(BFLOAT16, y.dtype) == core_arrays.check_dtype(expected)


def test_promotion_is_torchs() -> None:
    torch = pytest.importorskip("torch")
    for other, expected in MIXED.items():
        if not other.startswith("float8"):  # which torch does not promote
            assert str(torch.promote_types(torch.bfloat16, getattr(torch, other))) == f"torch.{expected}"


@pytest.mark.parametrize(("number", "expected"), [(True, BFLOAT16), (2, BFLOAT16), (0.5, BFLOAT16), (1j, np.complex64)])
def test_a_number_takes_the_arrays_dtype(number: Any, expected: Any) -> None:
    assert elementwise(lambda x: x + number)(np.ones(3, BFLOAT16)).dtype == expected
    assert elementwise(lambda x, y: x + y)(np.ones(3, BFLOAT16), number).dtype == expected


def test_float8_is_loaded_as_float32_and_stored() -> None:
    x = np.arange(256, dtype=np.uint8).view(SMALL["float8_e4m3fn"])
    with np.errstate(all="ignore"):
        assert_same(np.asarray(elementwise(lambda x: x * 3)(x)), x.astype(np.float32) * np.float32(3))
        stored = elementwise(lambda x: (x * 3).astype("float8_e4m3fn"))(x)
        assert_same(np.asarray(stored), (x.astype(np.float32) * np.float32(3)).astype(x.dtype))
    np.testing.assert_array_equal(bits_of(np.asarray(elementwise(lambda x: x)(x))), bits_of(x))


# --- snippets of C


@pytest.mark.parametrize("name", ["bfloat16", "__nv_bfloat16"])
def test_a_snippet_has_bfloat16(engine: targets.Target, name: str) -> None:
    kernel = elementwise(f"{name} x, float s", f"{name} y", f"{name} t = x * x; y = t + ({name})s;")
    x = operands_for(np.random.default_rng(8))[0]
    with np.errstate(all="ignore"):
        expected = x * x + BFLOAT16.type(0.3)
    assert_same(xl.to_host(kernel(put(engine, x), 0.3)), expected)


def test_a_snippet_stores_float8(engine: targets.Target) -> None:
    kernel = elementwise("__nv_bfloat16 x, float scale", "__nv_fp8_e4m3 y", "y = x * scale")
    x = operands_for(np.random.default_rng(9))[0]
    with np.errstate(all="ignore"):
        product = x.astype(np.float32) * np.float32(1.5)
        expected = np.clip(product, -448, 448).astype(SMALL["float8_e4m3fn"])  # as CUDA's type does
    found = xl.to_host(kernel(put(engine, x), 1.5))
    np.testing.assert_array_equal(bits_of(found), bits_of(expected))


def test_a_snippet_with_a_loop(engine: targets.Target) -> None:
    kernel = elementwise("bfloat16 x", "bfloat16 y", "bfloat16 t = x; while (t < 100) t = t * 2 + 1; y = t;")
    x = np.abs(operands_for(np.random.default_rng(10))[0])
    expected = x.copy()
    while (small := expected.astype(np.float32) < 100).any():
        expected[small] = expected[small] * BFLOAT16.type(2) + BFLOAT16.type(1)
    assert_same(xl.to_host(kernel(put(engine, x))), expected)


def test_elements_at_computed_places(engine: targets.Target) -> None:
    kernel = elementwise("raw bfloat16 x, int64 k", "bfloat16 y", "y = x[k] - x[0]")
    x, k = operands_for(np.random.default_rng(11))[0], np.random.default_rng(12).integers(0, 500, 300)
    x[0] = 0.5
    with np.errstate(all="ignore"):
        assert_same(xl.to_host(kernel(put(engine, x), put(engine, k))), x[k] - x[0])


RAW = """
#include <cuda_bf16.h>
#include <cuda_fp8.h>
extern "C" __global__ void scale(const __nv_bfloat16 *x, __nv_bfloat16 a, __nv_fp8_e4m3 b, __nv_bfloat16 *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2bfloat16(__bfloat162float(x[i]) * __bfloat162float(a) + (float)b);
}
"""


def test_a_raw_kernel_takes_pointers_and_numbers(launcher: targets.Target) -> None:
    x = np.arange(16).astype(BFLOAT16)
    with xl.use_backend(launcher.name.partition("-")[0]):
        y = xl.empty((16,), "bfloat16")
        xl.raw_module(RAW).get_function("scale")(1, 32, (xl.to_device(x), 0.5, SMALL["float8_e4m3fn"].type(2), y, 16))
        assert_same(xl.to_host(y), (x.astype(np.float32) / 2 + 2).astype(BFLOAT16))


# --- reductions


@pytest.mark.parametrize("name", SMALL)
def test_the_bits_tell_whether_a_number_is_zero(engine: targets.Target, name: str) -> None:
    form = SMALL[name]
    every = np.arange(1 << 8 * form.itemsize, dtype=f"u{form.itemsize}").view(form.type)
    expected = every.astype(np.float32) != 0
    for _ in range(2):
        assert_same(reductions.any(every[:, None], axis=1), expected)
        assert_same(reductions.all(np.stack([every, every]), axis=0), expected)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("through", ["int", "unsigned char", "half", "float", "double"])
def test_what_is_compared_with_zero_is_the_converted_number(engine: targets.Target, name: str, through: str) -> None:
    every = patterns(name, np.random.default_rng(0))
    every = every[np.abs(every.astype(np.float32)) < 100] if through in ("int", "unsigned char") else every
    every = every[every.astype(np.float32) >= 0] if through == "unsigned char" else every
    direct, kept = (
        elementwise("T x", out, expression, name="compared")
        for out, expression in (("bool y", f"y = ({through})x != 0"), (f"{through} y", f"y = ({through})x"))
    )
    with np.errstate(all="ignore"):
        assert_same(xl.to_host(direct(put(engine, every))), kept(every) != 0)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "argmax", "argmin", "any", "all", "norm", "var", "prod"])
def test_a_reduction_accumulates_in_float32(engine: targets.Target, name: str, axis: int | None) -> None:
    x = (np.random.default_rng(13).standard_normal((37, 65)) * (0.1 if name == "prod" else 1)).astype(BFLOAT16)
    x[3, 5] = -0.0
    reduce = getattr(reductions, name)
    wide = np.asarray(reduce(x.astype(np.float32), axis=axis))
    with np.errstate(all="ignore"):
        expected = wide.astype(BFLOAT16) if wide.dtype == np.float32 else wide
    for _ in range(3):  # compiled behind the first calls
        assert_same(xl.to_host(reduce(put(engine, x), axis=axis)), expected)


@pytest.mark.parametrize("name", ["float32", *SMALL])
@pytest.mark.parametrize(("axes", "step"), [((0, 1, 2), 1), ((2, 1, 0), 1), ((1, 0, 2), 1), ((0, 1, 2), 2)])
def test_calls_that_come_again_have_the_same_results(
    engine: targets.Target, axes: tuple[int, ...], step: int, name: str
) -> None:
    """From the third one on C makes the outputs, where it can."""
    x = (np.arange(6 * 5 * 7) / 8).astype(core_arrays.check_dtype(name)).reshape(6, 5, 7)
    kernel = elementwise(lambda x, y: x * y + 1, name="again")
    view = lambda array: xl.get_array_module(array).permute_dims(array, axes)[::step]
    d, host = view(put(engine, x)), view(x)
    runs: list[Callable[[Any], Any]] = [lambda x: kernel(x, x), *(getattr(reductions, each) for each in ("sum", "var"))]
    runs += [lambda x, reduce=each: reduce(x, axis=1) for each in runs[1:]]
    for run in runs:
        expected = np.asarray(run(host))
        for _ in range(5):
            found = run(d)
            assert_same(xl.to_host(found), expected)
            assert xl.device_of(found) is xl.device_of(d)


def test_a_reduction_in_c(engine: targets.Target) -> None:
    kernel = reduction("T x", "T y", map_expr="x * x", reduce_expr="a + b", post_map_expr="y = a", identity="0")
    x = np.random.default_rng(14).integers(-8, 9, (9, 40)).astype(BFLOAT16)
    expected = (x.astype(np.float32) ** 2).sum(1).astype(BFLOAT16)
    assert_same(xl.to_host(kernel(put(engine, x), axis=1)), expected)


def test_float8_sums_in_float32() -> None:
    x = np.arange(0x78, dtype=np.uint8).view(SMALL["float8_e4m3fn"])
    found = np.asarray(reductions.sum(x))
    assert found.dtype == np.float32
    assert found == x.astype(np.float64).sum()


def test_derivatives_on_torch() -> None:
    torch = pytest.importorskip("torch")
    x = torch.linspace(-2, 2, 41).to(torch.bfloat16).requires_grad_()
    elementwise(lambda x: x * x)(x).backward(torch.ones(41, dtype=torch.bfloat16))
    assert x.grad is not None
    assert torch.equal(x.grad, 2 * x.detach())


# --- refusals


def test_packed_numbers_are_not_computed_with() -> None:
    x = np.zeros(4, [("int4_x2", np.uint8)])
    with pytest.raises(UnsupportedDTypeError, match=r"'x' is int4_x2, two numbers .* view it as 'uint8' and unpack it"):
        elementwise(lambda x: x + 1)(x)


def test_bits_of_a_bfloat16_are_no_operand_of_integer_operations() -> None:
    with pytest.raises(KernelTypeError, match=r"left_shift\(bfloat16, bfloat16\)|left_shift\(bfloat16, int\)"):
        elementwise(lambda x: x << 1)(np.ones(3, BFLOAT16))
