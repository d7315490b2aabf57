"""The order of a scan's operations: the bits of the documented chunks, by each engine."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xferlib as xl
from tests.kernels.bits import COMPLEX, FLOATS, INTEGERS, random_bits, same_bits, unread_around
from xferlib.kernels import elementwise, host_compiler
from xferlib.kernels.scan import find_compiled
from xferlib.testing import configured

A = np.ndarray[Any, Any]
REAL = ("bool", *INTEGERS, *FLOATS)
SUM = xl.scan("a + b", neutral="0")
EXPRESSIONS = {
    "a + b": (*REAL, *COMPLEX), "a * b": (*REAL, *COMPLEX), "max(a, b)": REAL, "min(a, b)": REAL, "maximum(a, b)": REAL,
    "minimum(a, b)": REAL, "a > b ? a : b": REAL, "a < b ? a : b": REAL, "a & b": ("bool", *INTEGERS),
    "a | b": ("bool", *INTEGERS), "a ^ b": ("bool", *INTEGERS), "a * b - a + b": ("int32", "float32"),
}  # fmt: skip
SCANS = {expression: xl.scan(expression, neutral="1") for expression in EXPRESSIONS}
COMBINE = {expression: elementwise("T a, T b", "T c", f"c = ({expression})") for expression in EXPRESSIONS}
CASES = [(expression, dtype) for expression, dtypes in EXPRESSIONS.items() for dtype in dtypes]


def in_chunks(combine: Callable[[A, A], A], x: A, begins: A | None = None) -> A:
    """The scan as the reference defines it: in chunks of 32, and of the chunks' totals likewise, anew at each flag."""
    begun = np.zeros(x.size, bool) if begins is None else begins
    found, whole = x.copy(), max(x.size - 1, 0) // 32 * 32
    if whole:
        totals, flags = x[:whole:32].copy(), begun[:whole:32].copy()
        for k in range(1, 32):
            totals = np.where(begun[k:whole:32], x[k:whole:32], combine(totals, x[k:whole:32]))
            flags |= begun[k:whole:32]
        before = in_chunks(combine, totals, flags)
        found[32::32] = np.where(begun[32::32], x[32::32], combine(before, x[32::32]))
    for k in range(1, min(x.size, 32)):
        each = x[k::32]
        found[k::32] = np.where(begun[k::32], each, combine(found[k - 1 :: 32][: each.size], each))
    return found


def values(dtype: str, count: int, seed: int) -> A:
    """Random bits, or numbers near 1, whose products stay finite."""
    if seed % 2 and np.dtype(dtype).kind in "fc":
        rng = np.random.default_rng(seed)
        x = 1 + rng.normal(size=count) / 8
        return x.astype(dtype) if dtype in FLOATS else (x + 1j * rng.normal(size=count) / 8).astype(dtype)
    return random_bits(dtype, count, seed)


@pytest.mark.parametrize("expression", ["a * b + (b - a * 2)", "(T)(float)(a / 3) - b"])
def test_a_scan_by_what_gcc_would_fuse_or_leave_out_is_compiled(expression: str) -> None:
    if host_compiler.find_compiler() is None:
        pytest.skip("there is no C compiler")
    x = values("float64", 300, 1)
    combine = elementwise("T a, T b", "T c", f"c = {expression}")
    with configured(cpu="native"):
        found = xl.scan(expression, neutral="0")(x)
    with configured(cpu="numpy"):
        assert same_bits(found, in_chunks(combine, x))


@pytest.mark.parametrize(("expression", "dtype"), CASES)
def test_a_scan_has_the_bits_of_its_chunks(expression: str, dtype: str) -> None:
    kernel, combine = SCANS[expression], COMBINE[expression]

    @settings(max_examples=5)
    @given(st.integers(0, 300), st.integers(0, 999), st.sampled_from([None, 0.02, 0.5]), st.booleans())
    def check(count: int, seed: int, share: float | None, is_exclusive: bool) -> None:
        x = values(dtype, count, seed)
        begins = None if share is None else np.random.default_rng(seed).random(count) < share
        expected = in_chunks(combine, x, begins)
        if is_exclusive and count:
            first = np.ones(1, dtype)
            expected = np.concatenate([first, expected[:-1]])
            expected[begins if begins is not None else slice(0)] = first[0]
        kept = x.copy()
        found = kernel(x, exclusive=is_exclusive, segments=begins)
        assert same_bits(found, expected)
        assert x.tobytes() == kept.tobytes()
        assert same_bits(kernel(x, exclusive=is_exclusive, segments=begins, out=x), expected)

    check()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("expression", ["a + b", "a * b"])
def test_a_long_scan_has_the_bits_of_its_chunks(expression: str, dtype: str) -> None:
    for count in (32, 33, 127, 128, 129, 160, 1024, 1025, 1152, 32768, 32769, 70000, 1_048_609):  # ends of chunks
        x = values(dtype, count, 2 * count + 1)
        assert same_bits(SCANS[expression](x), in_chunks(COMBINE[expression], x)), count


@pytest.mark.skipif(host_compiler.find_compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint64"])
def test_an_own_operation_is_compiled_to_the_same_bits(dtype: str) -> None:
    expression = "a * b - a + b"
    combine = elementwise("T a, T b", "T c", f"c = ({expression})")
    with configured(cpu="native"):
        for count in (1, 31, 32, 33, 127, 128, 129, 4097, 50001):
            x = values(dtype, count, 2 * count + 1)
            begins = np.random.default_rng(count).random(count) < 1e-4
            scan = xl.scan(expression)
            for flags in (None, begins):
                expected = in_chunks(combine, x, flags)
                assert same_bits(scan(x, segments=flags), expected), count
                assert same_bits(scan(y := x.copy(), segments=flags, out=y), expected), count


@pytest.mark.skipif(host_compiler.find_compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_scans_of_small_floats_are_compiled_to_the_bits_of_numpys_functions(dtype: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = (np.random.default_rng(5).normal(size=3000) / 4).astype(getattr(ml_dtypes, dtype))
    found = []
    for cpu in ("native", "numpy"):
        with configured(cpu=cpu):
            found += [xl.scan("a * b - a + b")(x).tobytes()]
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
def test_views_and_orders_of_bytes_are_scanned(dtype: str) -> None:
    x = values(dtype, 100, 3)
    expected = in_chunks(COMBINE["a + b"], x)
    apart, moved = np.repeat(x, 2)[::2], np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(dtype)
    for each in (apart, moved, x.astype(x.dtype.newbyteorder())):
        assert same_bits(SCANS["a + b"](each), expected)
    for first, second in ((0, 1), (1, 0)):  # results in the row itself, an element further or before
        kept = np.concatenate([x, x[:1]])
        kept[first : first + 100] = x
        to = kept[second : second + 100]
        assert SCANS["a + b"](kept[first : first + 100], out=to) is to
        assert same_bits(to, expected)


@pytest.mark.skipif(not inspect.isbuiltin(xl.get_array_module), reason="the extension is not compiled, or not wanted")
def test_what_is_compiled_is_what_the_operations_are() -> None:
    for expression, dtype in CASES:
        kind = np.dtype(dtype)
        operation = elementwise("T a, T b", "T xf_result", f"xf_result = ({expression})")
        program = operation.definition.specialize((kind, kind, kind), frozenset()).program
        is_float_choice = "?" in expression and kind.kind == "f"  # depends on the order, by NaN
        is_half = dtype == "float16" and expression in ("a + b", "a * b")
        expected = not (is_float_choice or is_half or expression == "a * b - a + b")
        assert (find_compiled(program, kind) is not None) is expected, (expression, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
def test_running_results_of_a_namespace_have_the_bits_of_their_chunks(name: str, dtype: str) -> None:
    combine = COMBINE["a + b" if name == "cumulative_sum" else "a * b"]
    for count in (1, 2, 31, 32, 33, 64, 65, 1025, 1100):
        x = np.stack([values(dtype, count, 2 * count + 1), values(dtype, count, 2 * count + 3)])
        there = xl.to_device(x, backend="sim")
        found = xl.to_host(getattr(xl.get_array_module(there), name)(there, axis=1))
        assert same_bits(found, np.stack([in_chunks(combine, row) for row in x])), count


@pytest.mark.skipif(sys.platform != "linux", reason="it protects a page by mmap's numbers of Linux")
@pytest.mark.parametrize("count", [1, 7, 512, 32768 + 1, 32768 + 8, 65536 + 15])
def test_nothing_beyond_the_end_of_a_row_is_read(count: int) -> None:
    with unread_around(4 * count, at_end=True) as memory:
        row = memory.view(np.float32)
        row[:] = 1
        assert np.array_equal(SUM(row), np.arange(1, count + 1, dtype=np.float32))
