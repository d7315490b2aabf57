"""The namespace's own CUDA kernels, run thread by thread on a CPU: running results, sorts, products of matrices."""

from __future__ import annotations

import functools
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.arrays.test_sorting import numbers
from tests.kernels.bits import same_bits
from tests.kernels.emulated import Emulator, info_of
from tests.kernels.targets import need_nvrtc
from tests.kernels.test_scan_order import COMBINE, in_chunks, values
from xferlib.backends.base import Matrices, Product, RawStream, make_device
from xferlib.kernels import cuda_arrays
from xferlib.testing import configured

HostArray = np.ndarray[Any, Any]


class Memory(Emulator):
    """Host memory that counts as a device's."""

    has_made_streams = False

    def __init__(self) -> None:
        super().__init__()
        self.stream_current = lambda _: STREAM

    def operands(self, arrays: list[HostArray]) -> list[int]:
        return [each.ctypes.data for each in arrays]

    def empty(self, shape: tuple[int, ...], dtype: Any, *, device: Any, stream: Any) -> HostArray:
        return np.empty(shape, dtype)

    def view(self, array: HostArray) -> Any:
        return info_of(array)

    def is_lazy(self, array: HostArray) -> bool:
        return False

    def note_write(self, array: HostArray, label: str) -> None:
        """Nothing: no library counts the writes."""


@pytest.fixture(scope="module")
def memory() -> Memory:
    need_nvrtc()
    return Memory()


DEVICE = make_device("memory", "cuda", 0)
STREAM = RawStream(0, DEVICE)
"""Of all calls: its scratch memory must be left as the next one wants it."""


def run(memory: Memory, kernel: Any, *arrays: HostArray) -> None:
    kernel.run([each.ctypes.data for each in arrays], STREAM)
    assert not memory.misaligned


def scanned(x: HostArray, dtype: str, symbol: str) -> HostArray:
    """The running results along the last axis as a CPU computes them, in the same order."""
    d: Any = xl.to_device(x, backend="sim")
    xp = xl.get_array_module(d)
    scan = xp.cumulative_sum if symbol == "+" else xp.cumulative_prod
    found: HostArray = xl.to_host(scan(d, axis=-1, dtype=dtype))
    return found


def prepare_scan(memory: Memory, given: Any, dtype: Any, symbol: str, rows: int, extent: int) -> Any:
    combination = cuda_arrays.combine_by(symbol, dtype)
    return cuda_arrays.prepare_scan(memory, DEVICE, given, dtype, combination, rows, extent)


# Around a chunk, a tile, a block, a group of 32 tiles, and a group of 32 of those in 8 bytes: 1, 2, 3 and 4 levels.
EXTENTS = (1, 31, 33, 100, 1024, 1025, 4097, 8193, 33000, 70001)


SCANS = [
    ("float32", "float32", "+"), ("float64", "float64", "*"), ("uint8", "int64", "+"), ("bool", "bool", "+"),
    ("float16", "float16", "+"), ("int8", "int8", "*"), ("complex64", "complex64", "+"), ("bool", "float16", "+"),
    ("complex128", "complex128", "*"),
]  # fmt: skip
"""The dtypes of elements and of results, and the operation."""


@settings(max_examples=25)
@given(
    kinds=st.sampled_from(SCANS),
    rows=st.integers(1, 40),
    extent=st.sampled_from(EXTENTS),
    seed=st.integers(0, 99),
)
def test_running_results_have_the_bits_of_a_cpu(
    memory: Memory, kinds: tuple[str, str, str], rows: int, extent: int, seed: int
) -> None:
    dtype, wide, symbol = kinds
    shape = rows if extent <= 100 else min(rows, 2), extent
    chance = np.random.default_rng(seed)
    x: Any = 1 + (chance.standard_normal(shape) + 1j * chance.standard_normal(shape)) / 100
    if "float" in dtype:
        x = x.real
    elif not dtype.startswith("complex"):
        x = chance.integers(0, 99, shape) // (98 if dtype == "bool" else 1)
    x, y = x.astype(dtype), np.empty(shape, wide)
    run(memory, prepare_scan(memory, x.dtype, y.dtype, symbol, *shape), x, y)
    assert y.tobytes() == scanned(x, wide, symbol).tobytes()


def test_a_scan_of_four_levels(memory: Memory) -> None:
    x = np.random.default_rng(4).standard_normal(1_100_000).astype("float32")
    y = np.empty_like(x)
    run(memory, prepare_scan(memory, x.dtype, y.dtype, "+", 1, x.size), x, y)
    assert y.tobytes() == scanned(x[None], "float32", "+").tobytes()


KINDS = [
    ("a + b", "float32"), ("a + b", "float16"), ("max(a, b)", "float64"), ("a + b", "int8"), ("a | b", "bool"),
    ("a * b", "complex64"), ("a + b", "complex128"), ("a * b - a + b", "int32"),
]  # fmt: skip
"""Operations and dtypes of scans."""


@settings(max_examples=15)
@given(
    kind=st.sampled_from(KINDS),
    count=st.sampled_from((0, *EXTENTS)) | st.integers(1, 3000),
    share=st.sampled_from([None, 0, 0.001, 0.3]),
    exclusive=st.booleans(),
    place=st.sampled_from(["new", "apart", "elements", "behind"]),
    seed=st.integers(0, 99),
)
def test_a_scan_on_a_gpu_has_the_bits_of_its_chunks(
    memory: Memory, kind: tuple[str, str], count: int, share: float | None, exclusive: bool, place: str, seed: int
) -> None:
    expression, dtype = kind
    kernel = _scan_of(expression)
    room = np.concatenate([values(dtype, count, seed), np.zeros(1, dtype)])
    x, out = room[:-1], {"new": None, "apart": np.empty(count, dtype), "elements": room[:-1], "behind": room[1:]}[place]
    begins = None if share is None else np.random.default_rng(seed).random(count) < share
    expected = in_chunks(COMBINE[expression], x, begins)
    if exclusive and count:
        expected = np.concatenate([np.ones(1, dtype), expected[:-1]])
        expected[begins if begins is not None else slice(0)] = np.ones(1, dtype)
    arrays = [x] if begins is None else [x, begins]
    found = run_scan(kernel, memory, arrays, out, exclusive=exclusive)
    assert same_bits(found, expected)
    overwrites = {"behind": count > 1, "elements": exclusive and count > 0}.get(place, False)
    assert (found is out) is (out is not None and not overwrites)


def run_scan(kernel: Any, memory: Memory, arrays: list[HostArray], out: Any = None, *, exclusive: bool = False) -> Any:
    x = arrays[0]
    return kernel._run_on_device(memory, DEVICE, arrays, x.dtype, x.shape, out, exclusive=exclusive)


@functools.cache
def _scan_of(expression: str) -> Any:
    return xl.scan(expression, neutral="1")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "complex64"])
def test_sums_and_products_of_floats_are_operators(dtype: str) -> None:
    kind = np.dtype(dtype)
    for expression, symbol in (("a + b", "+"), ("a * b", "*"), ("a + a", "+"), ("b - a", "-"), ("a + b * 2", "+")):
        found = cuda_arrays.combine_as(_scan_of(expression)._specialize(kind))
        is_one = expression in ("a + b", "a * b") and dtype in ("float32", "float64")
        assert (found == cuda_arrays.combine_by(symbol, kind)) is is_one


@pytest.mark.parametrize("expression", ["(a < b ? log(b - a) : a / b) + b", "step(a, b)"])
def test_a_long_operation_has_the_bits_of_a_cpu(memory: Memory, expression: str) -> None:
    preamble = "float step(float a, float b) { float c = a; for (int k = 0; k < 3; ++k) c = c * b + a; return c; }"
    kernel = xl.scan(expression, preamble=preamble)
    x = np.random.default_rng(3).random(3000, np.float32) + 1
    found = run_scan(kernel, memory, [x])
    with configured(cpu="numpy"):
        assert same_bits(found, kernel(x))


def test_no_operation_takes_what_is_no_element(memory: Memory) -> None:
    preamble = "int divisor(int a, int b) { while (a != b) { if (a > b) a -= b; else b -= a; } return a; }"  # none of 0
    kernel = xl.scan("divisor(a, b)", preamble=preamble)
    x = np.gcd.outer(np.arange(1, 34), 6).astype(np.int32).ravel()[:33] * 6
    expected = np.gcd.accumulate(x)
    found = run_scan(kernel, memory, [x])
    assert found.tolist() == expected.tolist()
    with configured(cpu="numpy"):
        assert kernel(x).tolist() == expected.tolist()


def test_scratch_memory_of_a_capture_is_no_later_calls(memory: Memory) -> None:
    combination = cuda_arrays.combine_by("+", np.dtype("float32"))
    kernel = cuda_arrays.prepare_scan(memory, DEVICE, np.dtype("float32"), np.dtype("float32"), combination, 1, 9000)
    stream, x = RawStream(0, DEVICE), np.ones(9000, np.float32)
    capture: Any = object()
    with mock.patch.object(Memory, "repeat_call", lambda *_, **options: options["only"]):
        assert kernel.repeat([(x, x.dtype)], [1, 2], [(x.shape, x.dtype)], stream) is not None
        stream.capture = capture
        assert kernel.repeat([(x, x.dtype)], [1, 2], [(x.shape, x.dtype)], stream) is None


SORTS = [
    ("float32", True, "vp", 1 << 30), ("float16", False, "p", 1 << 30), ("int64", False, "v", 1 << 30),
    ("bool", True, "vp", 1), ("complex64", False, "p", 1 << 30), ("complex128", True, "v", 1 << 30),
]  # fmt: skip
"""The dtype, whether the order is descending, the outputs, and from which extent on words have eight bytes."""


@settings(max_examples=25)
@given(
    kind=st.sampled_from(SORTS),
    rows=st.integers(1, 40),
    extent=st.sampled_from([1, 7, 8, 9, 100, 1000, 1025, 2048, 2049, 4096, 4097, 9000]),
    seed=st.integers(0, 99),
)
def test_sorts_are_stable_in_both_directions(
    memory: Memory, kind: tuple[str, bool, str, int], rows: int, extent: int, seed: int
) -> None:
    dtype, descending, wants, longest = kind
    shape = rows if extent <= 100 else min(rows, 2), extent
    x = numbers(dtype, shape, seed)
    outputs = {"v": np.empty_like(x), "p": np.empty(shape, np.int64)}
    with mock.patch.object(cuda_arrays, "_LONGEST", longest):
        kernel = cuda_arrays.prepare_sort(memory, DEVICE, x.dtype, *shape, descending=descending, wants=wants)
    run(memory, kernel, x, *(outputs[each] for each in wants))
    places = np.argsort(x[:, ::-1] if descending else x, axis=-1, kind="stable")
    if descending:
        places = extent - 1 - places[:, ::-1]
    if "p" in wants:
        np.testing.assert_array_equal(outputs["p"], places)
    if "v" in wants:
        assert outputs["v"].tobytes() == np.take_along_axis(x, places, -1).tobytes()


@settings(max_examples=6)
@given(
    kind=st.sampled_from([("uint16", "v"), ("int8", "vp")]), extent=st.integers(4097, 30_000), seed=st.integers(0, 99)
)
def test_long_rows_of_any_bits_are_sorted(memory: Memory, kind: tuple[str, str], extent: int, seed: int) -> None:
    """Tiles lie in several groups, and no digit is rare."""
    dtype, wants = kind
    x = np.frombuffer(np.random.default_rng(seed).bytes(4 * extent), dtype)[: 2 * extent].reshape(2, extent)
    outputs = {"v": np.empty_like(x), "p": np.empty(x.shape, np.int64)}
    with mock.patch.object(cuda_arrays, "_GROUP", 2):
        kernel = cuda_arrays.prepare_sort(memory, DEVICE, x.dtype, *x.shape, descending=False, wants=wants)
    run(memory, kernel, x, *(outputs[each] for each in wants))
    np.testing.assert_array_equal(outputs["v"], np.sort(x, axis=-1))
    if "p" in wants:
        np.testing.assert_array_equal(outputs["p"], np.argsort(x, axis=-1, kind="stable"))


@settings(max_examples=30)
@given(
    dtype=st.sampled_from(["float32", "int64", "uint8"]),
    turned=st.sampled_from([(False, False), (True, True), (True, False)]),
    batch=st.integers(1, 3),
    rows=st.integers(1, 70),
    inner=st.integers(1, 40),
    columns=st.integers(1, 140),
    seed=st.integers(0, 99),
)
def test_products_of_small_numbers_are_exact(
    memory: Memory, dtype: str, turned: tuple[bool, bool], batch: int, rows: int, inner: int, columns: int, seed: int
) -> None:  # fmt: skip
    chance = np.random.default_rng(seed)
    shapes = (inner, rows) if turned[0] else (rows, inner), (columns, inner) if turned[1] else (inner, columns)
    left, right = (chance.integers(0, 9, (batch, *shape)).astype(dtype) for shape in shapes)
    out = np.empty((batch, rows, columns), dtype)
    one, two = (
        Matrices(0, shape[1], shape[0] * shape[1], is_transposed=is_turned)
        for shape, is_turned in zip(shapes, turned, strict=True)
    )
    product = Product(out.dtype, batch, rows, inner, columns, one, two, Matrices(0, columns, rows * columns))
    multiply = cuda_arrays.prepare_multiply(memory, DEVICE, product)
    multiply(left.ctypes.data, right.ctypes.data, out.ctypes.data, stream=STREAM)
    expected = (left.mT if turned[0] else left) @ (right.mT if turned[1] else right)
    np.testing.assert_array_equal(out, expected)


def test_few_results_of_long_sums_are_left_to_a_reduction() -> None:
    plain = Matrices(0, 1, 0)
    for rows, columns, is_worth in ((1, 1, False), (8, 64, False), (800, 800, True), (64, 128, True)):
        product = Product(np.dtype("float32"), 1, rows, 10**6, columns, plain, plain, plain)
        assert cuda_arrays.multiplies(product) is is_worth
