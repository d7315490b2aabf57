"""Compiled C on a CPU: the bits and the errors of the NumPy engine, in any layout, and the choice between the two."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import itertools
import math
import operator
import os
import random
import re
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import xferlib
from tests.kernels import compiled, emulated, random_programs, targets
from tests.kernels.bits import same_bits, specials
from tests.kernels.random_expressions import Expression
from tests.kernels.test_differential import A, K, X, _outputs
from tests.processes import run
from tests.sizes import some
from xferlib.errors import (
    KernelCompileError,
    KernelError,
    KernelSyntaxError,
    KernelTypeError,
    LayoutError,
    UnsupportedError,
    XferWarning,
)
from xferlib.kernels import (
    elementwise,
    formulas,
    host_compiler,
    native_engine,
    native_reduction,
    native_source,
    reduction,
)
from xferlib.kernels.c_frontend.functions import FLOAT_FUNCTIONS
from xferlib.kernels.formulas import PAIRS
from xferlib.kernels.functions import CALLS, TABLE
from xferlib.kernels.ir import Program
from xferlib.kernels.numpy_engine import NumpyPlan
from xferlib.testing import configured

pytestmark = pytest.mark.skipif(host_compiler.find_compiler() is None, reason="there is no C compiler")


ADD = elementwise(lambda x, y: x * 2 + y)
Array = np.ndarray[Any, Any]
Case = tuple[Program, tuple[int, ...], list[Array], str]
"""A program, the shape of a call, its operands, and what it is made from."""


def compare(cases: Sequence[Case]) -> None:
    kernels = compiled.compile_all([case[0] for case in cases])
    assert sum(not kernel.why_not for kernel in kernels) > 0.8 * len(cases)
    wrong = []
    for kernel, (_, shape, operands, source) in zip(kernels, cases, strict=True):
        if not kernel.why_not:
            by_numpy, native = compiled.run_both(kernel, shape, operands)
            is_error = isinstance(by_numpy[0], str) or isinstance(native[0], str)
            if by_numpy != native if is_error else not all(map(same_bits, native, by_numpy)):
                wrong.append(source)
    assert not wrong, f"{len(wrong)} of {len(cases)} differ, the first one is\n{wrong[0]}"


# --- the same programs on each engine


def program_of(kernel: Any, *dtypes: str) -> Program:
    found: Program = kernel.definition.specialize(tuple(map(np.dtype, dtypes)), frozenset()).program
    return found


def expression_case(seed: int) -> Case | None:
    made = Expression(seed)
    arrays = made.layouts(made.arrays(204))
    number = made.rng.choice([2, -3, 2.5])
    try:
        kernel = elementwise(made.function())
        kinds = (*(each.dtype for each in arrays), type(number))
        program = kernel.definition.specialize(kinds, frozenset({3})).program
    except (TypeError, ValueError, OverflowError):
        return None
    shape = np.broadcast_shapes(*(each.shape for each in arrays))
    by_name: dict[str, Array] = dict(zip("xyz", arrays, strict=True))
    operands = []
    for param in program.params:
        if param.is_scalar:
            operands.append(np.array(number).astype(param.dtype))
        else:
            new = np.zeros(shape[::-1], param.dtype).T if made.rng.random() < 0.3 else np.zeros(shape, param.dtype)
            operands.append(by_name.get(param.name, new))
    return program, shape, operands, f"{made.text} of {made.dtypes}, {[each.strides for each in arrays]}"


def test_random_expressions() -> None:
    compare([case for case in map(expression_case, some(range(45), 2)) if case is not None])


_BOTH = (
    lambda x, y: (x + y, x - y, x * y, np.minimum(x, y), np.maximum(x, y), abs(x), -x, np.sign(x), x < y, x == y),
    lambda x, y: (
        x // y,
        x % y,
        np.fmod(x, y),
        *(x.astype(each) for each in ("i1", "u2", "i4", "u8", "f2", "f4", "f8")),
    ),
)
_OF_INTEGERS = (lambda x, y: (x << y, x >> y, x & y, x | y, x ^ y, ~x),)
_OF_FLOATS = (
    lambda x, y: (x / y, np.sqrt(x), np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.copysign(x, y)),
    lambda x, y: (np.fmax(x, y), np.fmin(x, y), np.nextafter(x, y), np.signbit(x)),
)


def test_every_operation_where_it_may_go_wrong() -> None:
    cases: list[Case] = []
    for dtype in ("float16", "float32", "float64", "int8", "uint16", "int32", "int64", "uint64"):
        x, y = (np.ascontiguousarray(each).ravel() for each in np.meshgrid(specials(dtype), specials(dtype)))
        for function in _BOTH + (_OF_FLOATS if dtype.startswith("float") else _OF_INTEGERS):
            program = program_of(elementwise(function), dtype, dtype)
            new = [np.zeros(x.shape, param.dtype) for param in program.params[2:]]
            cases.append((program, x.shape, [x, y, *new], f"{function.__code__.co_consts} of {dtype}"))
    compare(cases)


def test_an_output_that_is_an_input_is_read_before_it_is_written() -> None:
    kernel = elementwise(lambda x, y: (np.sin(x) + y, np.exp(x)))
    x, y = np.linspace(-1e6, 1e30, 999, dtype="f4"), np.linspace(-200, 200, 999, dtype="f4")
    with configured(cpu="numpy"):
        expected = kernel(x, y)
    with configured(cpu="native"):
        for _ in range(3):
            one, two = x.copy(), y.copy()
            kernel(one, two, out=(one, two))
            assert same_bits(one, expected[0])
            assert same_bits(two, expected[1])


_ONE = elementwise(lambda x: x + 1, name="one")
_TWO = elementwise(lambda x, y: (x + y, x * y), name="two")
_TO_GIVEN = elementwise("float *x, float *y", "y[i] = x[i] * 2", name="to_given")


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("kernel", [_ONE, _TWO, _TO_GIVEN], ids=lambda kernel: str(kernel.name))
def test_outputs_do_not_stand_in_for_inputs(kernel: Any, library: str) -> None:
    """Any number of arguments, and of outputs among them or in ``out=``."""
    make = pytest.importorskip("torch").tensor if library == "torch" else np.array

    def outcome(count: int, more: int | None) -> tuple[Any, ...]:
        arrays = [make(np.full(3, each, "f4")) for each in range(1, count + 1)]
        outs = [make(np.zeros(3, "f4")) for _ in range(more or 1)]
        try:
            found = kernel(*arrays, **({} if more == 0 else {"out": outs[0] if more is None else tuple(outs)}))
        except (KernelTypeError, LayoutError) as error:
            return str(error), *map(str, arrays + outs)
        return str(found), *map(str, arrays + outs)

    calls = list(itertools.product(range(6), (0, None, 1, 2, 3)))
    with configured(cpu="numpy"):
        expected = [outcome(*each) for each in calls]
    with configured(cpu="native"):
        for _ in range(3):
            outcome(len(kernel.definition.names), 0)  # C takes such calls by the third
        assert [outcome(*each) for each in calls] == expected


def function_texts() -> list[str]:
    """Calls of functions for random programs."""
    calls = {name: TABLE[entry] for name, entry in FLOAT_FUNCTIONS.items() if entry in (*CALLS, *PAIRS, "hypot")}
    of_two = [f"{name}((T)({{f}}), (T)({{f}}))" for name, each in calls.items() if each.arity == 2]
    names = [name for name, each in calls.items() if each.arity == 1] + list(formulas.SPECIAL_FORMULAS)
    return of_two + [f"{name}({{f}})" for name in names]


def program_case(seed: int, functions: Sequence[str] = ()) -> tuple[Case, Any] | None:
    made = random_programs.program(seed, functions)
    dtype = ("float64", "float32", "float16")[seed % 3]
    with np.errstate(over="ignore"):
        operands = [X.astype(dtype), K, A.astype(dtype), *_outputs(dtype)][: 6 if made.has_elements else 5]
    try:
        kernel = elementwise(
            random_programs.INPUTS, random_programs.outputs(made), made.operation, preamble=made.preamble
        )
        program = kernel.definition.specialize(tuple(each.dtype for each in operands), frozenset()).program
    except (KernelSyntaxError, KernelTypeError):
        return None
    return (program, X.shape, operands, str(made)), kernel


def test_random_programs() -> None:
    with configured(loop_turns=100_000):
        seeds = some(range(200, 220), 2)
        cases = [program_case(seed, function_texts() if number % 2 else ()) for number, seed in enumerate(seeds)]
        compare([found[0] for found in cases if found is not None])


needs_nvrtc = pytest.mark.skipif(
    not targets.has_nvrtc(), reason="NVRTC is not installed (pip install 'xferlib[cuda-on-cpu]')"
)


@needs_nvrtc
def test_random_programs_by_cuda_source_too() -> None:
    compare_with_cuda([each[0] for seed in range(250, 254) if (each := program_case(seed, function_texts()))])


@needs_nvrtc
def test_random_expressions_by_cuda_source_too() -> None:
    """Those with functions of float64, complex ones too, some behind the end of a row that no thread stores."""
    found = (each for seed in itertools.count(300) if (each := expression_case(seed)))
    calls = (each for each in found if any(node.op == "call" and node.dtype == np.float64 for node in each[0].nodes))
    compare_with_cuda(list(itertools.islice(calls, 5)))


def compare_with_cuda(cases: Sequence[Case]) -> None:
    for program, shape, operands, source in cases:
        by_numpy, by_cuda = compiled.copies(operands), compiled.copies(operands)
        NumpyPlan(program, shape, by_numpy, is_aliased=program.is_in_place).run(by_numpy)
        arrays = {number: each for number, each in enumerate(by_cuda) if number not in program.scalars}
        emulated.run_on_cuda(program, shape, arrays, [operands[number][()] for number in program.scalars])
        assert all(map(same_bits, by_cuda, by_numpy)), source


def test_a_text_that_is_refused_leaves_other_kernels_their_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = native_engine._BackgroundCompiler()
    sound, refused = (native_engine.NativeKernel(program_case(seed)[0][0]) for seed in (200, 201))  # type: ignore[index]
    monkeypatch.setattr(sound, "compile", lambda: None)
    monkeypatch.setattr(refused, "compile", lambda: (_ for _ in ()).throw(KernelCompileError("it is refused")))
    for each in (sound, refused, sound):
        compiler._compile(each)
    assert (refused.why_not, sound.why_not, compiler.problem) == ("it is refused", "", "")


# --- arrays that a kernel indexes

_INDICES = ("i", "i + 1", "i - 1", "i + w", "i - w", "2 * i - 3", "w - i", "k", "i / w", "i % w", "(int)i - 2")
_CONDITIONS = (
    "i > 0 && i < n2 - 1", "i / w > 0 && i / w < n2 / w - 1 && i % w > 0 && i % w < w - 1", "k > 0 && k < 5", "i >= w",
    "(i + 7) % w < 3", "1",
)  # fmt: skip


def indexed_case(seed: int) -> Case:
    rng = random.Random(seed)
    count, width = rng.choice([(40, 7), (700, 133), (1200, 300), (5, 2)])
    reads = [f"u[{rng.choice(_INDICES)}]" for _ in range(rng.randint(1, 4))]
    yes = " + ".join(reads)
    text = f"if ({rng.choice(_CONDITIONS)}) o = {yes}; else o = (float)(i % w) - i / w;"
    has_stores = rng.random() < 0.4
    if has_stores:
        text += f" if ({rng.choice(_CONDITIONS)}) v[{rng.choice(['i', 'count2 - 1 - i', 'i / 2', 'k'])}] = o;"
    arrays = "raw float32 u, int32 k, int32 w, int32 n2, int32 count2"
    kernel = elementwise(arrays, "float32 o, raw float32 v" if has_stores else "float32 o", text)
    kinds = (np.dtype("f4"), np.dtype("i4"), int, int, int, *[np.dtype("f4")] * (1 + has_stores))
    program = kernel.definition.specialize(kinds, frozenset({2, 3, 4})).program
    values = np.random.default_rng(seed)
    size = rng.choice([count, count, 2 * count, count - 1])
    operands = [
        values.random(size, np.float32), values.integers(-1, 7, count).astype("i4"), np.array(width, "i4"),
        np.array(count, "i4"), np.array(count, "i4"), np.zeros(count, "f4"), np.zeros(count, "f4"),
    ]  # fmt: skip
    return program, (count,), operands[: 6 + has_stores], f"{text} over {count}, w {width}, {size} of u"


_ROUNDED = (
    lambda x, y, z: x.astype("c8") + z,
    lambda x, y, z: -(z.imag + x.astype("c8")),
    lambda x, y, z: x.astype("c8").astype("c16") * z,
    lambda x, y, z: x.astype("c8") * y.astype("f4") + z,
    lambda x, y, z: abs(y.astype("f4")).astype("f8") + x,
    lambda x, y, z: (x.astype("c8") * np.float32(1)).astype("c16"),
    lambda x, y, z: -y.astype("f4") + z.imag,
    lambda x, y, z: y.astype("f4").astype("f8"),
    lambda x, y, z: y.astype("f2") + z.real,
)


def test_what_is_rounded_to_fewer_bits_and_widened_again_stays_rounded() -> None:
    """gcc 12 left out both where its vectors have as many floats as doubles, as those of complex numbers."""
    cases = []
    rng = np.random.default_rng(11)
    values = [rng.normal(size=(2, 40)) / 3, rng.normal(size=(2, 40)), rng.normal(size=(2, 40)) * 9]
    x, y, z = values[0] + 1j * values[1], values[2], values[1] + 1j * values[2]
    for number, function in enumerate(_ROUNDED):
        program = program_of(elementwise(function), "c16", "f8", "c16")
        for step in (1, -1, 2):
            operands = [each[:, ::step] for each in (x, y, z)]
            out = np.zeros(operands[0].shape, program.params[-1].dtype)
            cases.append((program, out.shape, [*operands, out], f"number {number}, every {step}"))
    compare(cases)


def test_indexed_arrays_and_their_errors() -> None:
    cases = []
    for seed in some(range(30), 2):
        try:
            cases.append(indexed_case(seed))
        except KernelTypeError:  # two elements would certainly write one
            continue
    compare(cases)


def test_reads_of_elements_that_are_computed_one_by_one() -> None:
    """Counts, and a loop that an element of an array ends: without forms for blocks of elements."""
    k, u = np.arange(200, dtype=np.int32) * 7 % 19, np.arange(200.0)
    count = elementwise("raw int32 k", "raw int64 y", "atomicAdd(&y[k[i]], 1)")
    rows = elementwise(
        "raw int32 k, raw float64 u, int32 n", "float64 o",
        "o = u[k[i]]; for (int j = 0; j < n; ++j) { if (u[j] > o) break; o += u[k[j]]; }",
    )  # fmt: skip
    of_rows = program_of(rows, "int32", "float64", "int32", "float64")
    compare([
        (program_of(count, "int32", "int64"), k.shape, [k, np.zeros(19, np.int64)], "counts"),
        (of_rows, k.shape, [k, u, np.array(20, np.int32), np.zeros(200)], "rows"),
    ])  # fmt: skip


_NEIGHBOURS = (
    "i", "i - 1", "i + 1", "i - w", "i + w", "w + i", "i - w - 1", "i + (w + 1)", "i / w * w + i % w", "i + w - i % w",
    "r * w + c", "(r + 1) * w + c - 1", "r * w + w - 1 - c", "i - w * h / 2",
)  # fmt: skip
_INSIDE = (
    "r > 0 && r < h - 1 && c > 0 && c < w - 1", "r > 0 && c < w - 1 && r < h - 1", "i > w && i + w + 1 < w * h",
    "c > 0 && !(r == 0 || r >= h - 1) && c != w - 1", "i / (w * 2) % 2 == 1 && i % (w * 2) / w == 0",
)  # fmt: skip


def stencil_case(seed: int) -> Case:
    """Products and sums of an element's neighbours, inside the edge of a matrix; some by an edge of their own."""
    rng = random.Random(seed)
    height, width = rng.choice([(7, 133), (4, 300), (3, 1111), (40, 20), (25, 31), (2, 1), (600, 1)])
    kind = rng.choice(["float32", "float32", "float64", "int16", "int64"])
    terms = []
    for _ in range(rng.randint(2, 6)):
        read = f"{rng.choice(['', '2 * ', '4 * '])}u[{rng.choice(_NEIGHBOURS)}]"
        terms.append(rng.choice([read, read, f"({rng.choice(_INSIDE)} ? {read} : ({kind}_t)(x))"]))
    yes = f"u[i] + x * ({' - '.join(terms)})"
    text = f"int r = i / w, c = i % w; o = {rng.choice(_INSIDE)} ? {yes} : ({kind}_t)(0.5f * (i + w) + i * w);"
    names = {"float32": "float", "float64": "double", "int16": "short", "int64": "long long"}
    text = text.replace(f"{kind}_t", names[kind])
    kernel = elementwise(f"raw {kind} u, {kind} x, int32 w, int32 h", f"{kind} o", text)
    kinds = (np.dtype(kind), np.dtype(kind), int, int, np.dtype(kind))
    program = kernel.definition.specialize(kinds, frozenset({2, 3})).program
    values = np.random.default_rng(seed)
    u, x = ((values.random(height * width) * 9).astype(kind) for _ in "ux")
    operands = [u, x, np.array(width, "i4"), np.array(height, "i4"), np.zeros_like(u)]
    return program, u.shape, operands, f"{text} w {width}"


def wide_rows_case() -> Case:
    """Rows that read no element, of the widest dtype, in the longest pieces: zeros are read instead."""
    text = "int r = i / w; complex<double> t = 0; if (r > 1) t = a[i]; z = t; o = x + float16(1);"
    kernel = elementwise("float16 x, raw complex128 a, int32 w", "float16 o, complex64 z", text)
    kinds = (*map(np.dtype, ("float16", "complex128")), int, *map(np.dtype, ("float16", "complex64")))
    program = kernel.definition.specialize(kinds, frozenset({2})).program
    a = np.random.default_rng(1).random(6000) + 1j
    operands = [a.real.astype("f2"), a, np.array(2000, "i4"), np.zeros(6000, "f2"), np.zeros(6000, "c8")]
    return program, (6000,), operands, text


_TWICE = (
    "o = c ? u[k] * 2 + x : u[k];", "if (c) o = u[k] - x; else if (d) o = u[k]; else o = x;",
    "if (c) { o = d ? u[k] + 1 : u[k] * u[k]; } else o = -x;", "o = x; if (c) o = u[k]; if (!c) o += u[k];",
    "float t = u[k]; o = c ? t : u[k + 1]; if (d) o += u[k + 1];", "o = (c ? u[k] : x) + (c ? x : u[k]);",
)  # fmt: skip


def twice_case(seed: int) -> Case:
    """Reads of one element on both sides of a condition, which are one; the last index may be out of range."""
    rng = random.Random(seed)
    text = f"bool c = x > 0.5f, d = k % 3 == 1; {_TWICE[seed % len(_TWICE)]}"
    kernel = elementwise("raw float32 u, float32 x, int32 k", "float32 o", text)
    kinds = [np.dtype(each) for each in ("f4", "f4", "i4", "f4")]
    program = kernel.definition.specialize(tuple(kinds), frozenset()).program
    values = np.random.default_rng(seed)
    count = rng.choice([5, 300, 2000])
    k = values.integers(0, count - 1, count).astype("i4")
    if rng.random() < 0.3:
        k[rng.randrange(count)] = rng.choice([-1, count + 3])
    operands = [values.random(count, np.float32), values.random(count, np.float32), k, np.zeros(count, "f4")]
    return program, (count,), operands, text


def test_an_element_that_both_sides_of_a_condition_read_is_read_once() -> None:
    cases = [twice_case(seed) for seed in range(24)]
    compare(cases)
    gathers = [[node.op for node in case[0].nodes].count("gather") for case in cases[: len(_TWICE)]]
    assert gathers[0] == 1
    assert gathers[2] == 1
    u, x, k = np.arange(9, dtype="f4"), np.linspace(0, 1, 9, dtype="f4"), np.arange(9, dtype="i4")[::-1].copy()
    kernel = elementwise("raw float32 u, float32 x, int32 k", "float32 o", f"bool c = x > 0.5f; {_TWICE[0]}")
    assert same_bits(kernel(u, x, k), np.where(x > 0.5, u[k] * 2 + x, u[k]))


def test_stencils() -> None:
    compare([wide_rows_case(), *(stencil_case(seed) for seed in some(range(20), 2))])


_STEPS = (
    "v = v * T(0.5) + x", "v = v * v - x", "s = s * 3 + k", "if (s % 3 == 1) v = v + u[(s & 0x7fffffff) % n]",
    "v += u[i] * T(k)", "v = v + u[k % n]", "if (k == lim / 2) continue", "if (v * v > T(50)) break", "s ^= (int)i + k",
    "if (s > 40) break", "v = exp(-v * v) + x", "if (i % 2) v = v - T(1)", "s = s / (k + 1)", "v = v + T(w) - y[i]",
    "z = z * z + x",
)  # fmt: skip
_LOOPS = (
    "for (int k = 0; k < lim; ++k) { STEPS }", "for (int k = 0; k < (int)i % 9; ++k) { STEPS }",
    "int k = 0; while (v * v < T(9) && k < 3 * lim) { ++k; STEPS }", "for (int k = 0; k < w; k += 2) { STEPS }",
)  # fmt: skip


def loop_case(seed: int) -> Case:
    """Loops that end together or each by itself, with gathers that elements share, of their own, and others."""
    rng = random.Random(seed)
    dtype = rng.choice(["float32", "float64", "float16", "float32"])
    text = "T v = x; int s = w; DECLARED "
    for number in range(rng.choice([1, 1, 2])):
        steps = [rng.choice(_STEPS) for _ in range(rng.randint(1, 4))]
        loop = rng.choice(_LOOPS).replace("STEPS", " ".join(f"{each};" for each in steps))
        text += re.sub(r"\bk\b", f"k{number}", loop) + " "
    name = {"float32": "float", "float64": "double", "float16": "float16"}[dtype]
    is_complex = "z" in text and dtype != "float16"
    text = text.replace("DECLARED", f"complex<{name}> z = x;" if is_complex else "T z = x;")
    text += "o = v; p = s; q = z.real() - z.imag();" if is_complex else "o = v; p = s; q = z;"
    text = re.sub(r"\bT\(", f"({name})(", re.sub(r"\bT\b(?!\()", name, text))
    array = f"raw {dtype}"
    inputs = f"{dtype} x, {array} u, {array} y, int32 w, int32 lim, int32 n"
    kernel = elementwise(inputs, f"{dtype} o, int32 p, {dtype} q", text)
    kinds = (*[np.dtype(dtype)] * 3, np.dtype("i4"), int, int, np.dtype(dtype), np.dtype("i4"), np.dtype(dtype))
    program = kernel.definition.specialize(kinds, frozenset({4, 5})).program
    count = rng.choice([1, 7, 64, 65, 300, 700])
    values = np.random.default_rng(seed)
    sizes = (count, rng.choice([5, 40]), count - rng.choice([0, 0, 0, 1]))
    x, u, y = (values.normal(size=size).astype(dtype) for size in sizes)
    w = values.integers(-3, 12, count).astype("i4")
    numbers = [np.array(rng.choice([0, 1, 6, 30]), "i4"), np.array(u.size, "i4")]
    outputs = [np.zeros_like(x), np.zeros_like(w), np.zeros_like(x)]
    return program, (count,), [x, u, y, w, *numbers, *outputs], f"{text} over {count}"


def test_loops() -> None:
    with configured(loop_turns=50):
        compare([each for seed in some(range(20), 2, "loops") if (each := loop_case(seed))])


def test_loops_of_many_turns_that_are_written_out() -> None:
    body = "float h = expf(-g) * x; if (fabsf(h - g) < 1e-6f) break; g = h; n = n + 1;"
    kernel = elementwise(
        "float32 x", "float32 y", f"float g = x; int n = 0; for (int i = 0; i < 50; ++i) {{ {body} }} y = g + n;"
    )
    x = np.linspace(-3, 3, 1000, dtype=np.float32)
    with configured(cpu="numpy"):
        expected = kernel(x)
    with configured(cpu="native"):
        assert same_bits(kernel(x), expected)
    assert len(set(expected.tolist())) > 100


def test_reads_below_as_many_conditions_as_a_loop_has_turns() -> None:
    body = "if (q[k] > 5) break; if (z > q[k]) s += x[k]; else s -= x[k];"
    text = f"float s = 0; for (int k = 0; k < 400; ++k) {{ {body} }} y = s;"
    kernel = elementwise("raw float32 x, raw float32 q, float32 z", "float32 y", text)
    x, q, z = np.ones(400, np.float32), np.zeros(400, np.float32), np.array([1, -1], np.float32)
    q[300] = 9
    with configured(cpu="numpy"):
        assert kernel(x, q, z).tolist() == [300, -300]


COMPARISONS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


@pytest.mark.parametrize("sign", COMPARISONS)
def test_a_column_is_compared_with_any_number(sign: str) -> None:
    """A column, which grows by one within a row, beside numbers far from it too."""
    text = f"long long c = i % w; p = c {sign} t ? x : -x; q = t {sign} c ? u[i] : x - 1;"
    kernel = elementwise("float32 x, raw float32 u, int64 w, int64 t", "float32 p, float32 q", text, name="columns")
    x, w = np.arange(4_000, dtype="f4") + 1, 1_300
    column, compare_numbers = np.arange(4_000) % w, COMPARISONS[sign]
    near = (-2, -1, 0, 1, 511, 512, 513, 1_023, 1_299, 1_300, 1_301)
    with configured(cpu="native"):
        for t in (-(2**63), 1 - 2**63, *near, 2**31, 2**32, 2**63 - 2, 2**63 - 1):
            p, q = kernel(x, x, w, t, out=(np.empty_like(x), np.empty_like(x)))
            assert same_bits(p, np.where(compare_numbers(column, t), x, -x))
            assert same_bits(q, np.where(compare_numbers(t, column), x, x - 1))


def test_a_row_that_32_bits_cut() -> None:
    kernel = elementwise(
        "int64 s, int64 w, float32 x", "int64 o, int64 p", "long long k = (int)(i + s); o = k / w; p = k % w;"
    )
    program = kernel.definition.specialize((int, int, *map(np.dtype, ("f4", "i8", "i8"))), frozenset({0, 1})).program
    given = [np.array(2**31 - 300), np.array(1000), np.zeros(900, "f4"), np.zeros(900, int), np.zeros(900, int)]
    compare([(program, (900,), given, "an index in 32 bits")])


def test_a_loop_without_an_end_is_the_error_of_the_numpy_engine() -> None:
    kernel = elementwise("int32 x", "int32 y", "y = x; while (y != 5) ++y;")
    program = kernel.definition.specialize((np.dtype("i4"),) * 2, frozenset()).program
    with configured(loop_turns=100):
        operands = [np.array([1, 6, 5, 7, -200], "i4"), np.zeros(5, "i4")]
        compare([(program, (5,), operands, "a loop")])
        (native,) = compiled.compile_all([program])
        with pytest.raises(KernelError, match=r"100 turns and 3 element\(s\)"):
            native_engine.NativePlan(native, (5,), operands, lambda _: pytest.fail("NumPy")).run(operands)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_threads_give_what_one_does(threads: int) -> None:
    x = np.random.default_rng(0).random((1000, 333), np.float32)
    kernel = elementwise(lambda x, y: np.exp(x) * y)
    with configured(cpu="numpy"):
        expected = kernel(x, x[::-1])
    with configured(cpu="native", threads=threads):
        assert same_bits(kernel(x, x[::-1]), expected)


@pytest.mark.parametrize("dtype", ["i1", "f4", "f8", "c16"])
@pytest.mark.parametrize("threads", [1, 3])
def test_large_matrices_that_lie_across_one_another(dtype: str, threads: int) -> None:
    values = np.arange(2 * 333 * 501) % 113
    x = values.reshape(2, 333, 501).astype(dtype)
    y = values[::-1].reshape(2, 501, 333).astype(dtype).transpose(0, 2, 1)
    z = np.zeros((2, 501, 333), dtype).transpose(0, 2, 1)
    with configured(cpu="native", threads=threads):
        for out in (None, z):
            for _ in range(3):
                found = ADD(x, y, out=out)
            assert same_bits(found, x + x + y)
            assert same_bits(ADD(y[:, ::-1], y, out=out), y[:, ::-1] + y[:, ::-1] + y)


# --- plain calls, which C does alone


@pytest.fixture(scope="module")
def both() -> Any:
    kernel = elementwise(lambda x, y, *, s: (x * s + y, x - y))
    with configured(cpu="native"):
        for _ in range(3):
            kernel(np.ones(3), np.ones(3), s=2.0)
    return kernel


_NUMBERS = [
    2,
    -3,
    0,
    2.5,
    -0.0,
    float("nan"),
    1e300,
    True,
    2**40,
    300,
    np.float32(2.5),
    np.float64(1e-3),
    np.int8(-7),
    np.uint64(2**63 + 5),
    np.float16(1.5),
    np.bool_(True),
    np.complex64(1 - 2j),
    1j,
]


@settings(max_examples=15)
@given(
    st.sampled_from(["f4", "f8", "i1", "u2", "f2", "c8"]), st.booleans(), st.booleans(),
    st.lists(st.tuples(*[st.sampled_from(_NUMBERS)] * 2, st.integers(0, 9)), min_size=3, max_size=5),
)  # fmt: skip
def test_numbers_of_any_kind_in_turn(dtype: str, has_keyword: bool, has_out: bool, calls: list[Any]) -> None:
    """A kernel that C has taken for some numbers gives for others what a new one gives, on arrays of any shape."""

    def make() -> Any:
        if has_keyword:
            return elementwise(lambda x, t, *, s: x * s + (s * t + x))
        return elementwise(lambda x, t, s: x * s + (s * t + x))

    def outcome(kernel: Any, t: Any, s: Any, count: int) -> Any:
        x = np.arange(count).astype(dtype)
        out = {"out": np.zeros(count, dtype)} if has_out else {}
        try:
            found = kernel(x, t, s=s, **out) if has_keyword else kernel(x, t, s, **out)
        except Exception as error:
            return type(error), str(error).partition("\n")[0]  # a first call names the line of the function too
        return found.dtype, found.tobytes()

    kernel = make()
    with np.errstate(all="ignore"):
        for t, s, count in [each for each in calls for _ in range(2)]:
            with configured(cpu="numpy"):
                expected = outcome(make(), t, s, count)
            with configured(cpu="native"):
                assert outcome(kernel, t, s, count) == expected


LAYOUTS = ("c", "f", "step", "back", "row", "column", "scalar", "shifted")


def laid_out(values: Array, layout: str) -> Array:
    if layout == "f":
        return np.asfortranarray(values)
    if layout == "step":
        wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    if layout == "back":
        return values[::-1, ::-1].copy()[::-1, ::-1]
    if layout == "row":
        return values[:1]
    if layout == "column":
        return values[:, :1]
    if layout == "scalar":
        return values[:1, :1].reshape(())
    if layout == "shifted":
        memory = np.zeros(values.nbytes + 1, np.uint8)
        found = memory[1:].view(values.dtype).reshape(values.shape)
        found[...] = values
        return found
    return values


def test_a_block_on_numpys_engine_behind_one_of_compiled_c_runs_on_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    """C makes calls that it knows by itself, and learns at both ends of a block which engine is chosen."""
    runs: list[Any] = []
    compute = NumpyPlan.run

    def run(plan: NumpyPlan, operands: Any) -> None:
        runs.append(plan)
        compute(plan, operands)

    monkeypatch.setattr(NumpyPlan, "run", run)
    kernel, x = xferlib.elementwise(lambda x: x + 1), np.arange(5.0)
    for engine, expected in (("native", 0), ("numpy", 3), ("native", 0), ("numpy", 3)):
        runs.clear()
        with configured(cpu=engine):
            for _ in range(3):
                kernel(x)
        assert len(runs) == expected, engine


def test_calls_that_c_leaves_to_python_lose_no_reference() -> None:
    """On 3.11 the objects that say so are counted, also where the headers of a later Python have compiled C."""
    constants = (None, False, NotImplemented)
    held = [each for each in constants for _ in range(100)]  # or the process would end before the test
    with configured(cpu="native"):
        x = np.arange(4.0)
        ADD(x, x)
        ADD(x, x)  # from here on C looks first
        before = [sys.getrefcount(each) for each in constants]
        for _ in range(50):
            ADD(x.astype(">f8"), x)
        after = [sys.getrefcount(each) for each in constants]
    del held
    assert all(now > then - 25 for then, now in zip(before, after, strict=True))


@given(
    st.tuples(st.integers(0, 5), st.integers(0, 6)), st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS),
    st.sampled_from(["new", "c", "f", "step", "back", "x", "y"]), st.sampled_from(["f4", "i2", "c16"]),
)  # fmt: skip
def test_plain_calls_of_any_layout(shape: tuple[int, int], one: str, two: str, out: str, dtype: str) -> None:
    count = int(np.prod(shape))
    if not count:
        one = two = "c"
    with configured(cpu="native"):
        ADD(np.ones(2, dtype), np.ones(2, dtype))
        ADD(np.ones(2, dtype), np.ones(2, dtype))  # from here on C looks first
        x = laid_out(np.arange(count).reshape(shape).astype(dtype), one)
        y = laid_out(np.arange(count)[::-1].reshape(shape).astype(dtype), two)
        expected = x * np.dtype(dtype).type(2) + y
        if out in ("x", "y"):
            target = x if out == "x" else y
            if target.shape != expected.shape:
                return
        else:
            target = laid_out(np.zeros(expected.shape, dtype), out if expected.ndim == 2 and count else "c")
        found = ADD(x, y) if out == "new" else ADD(x, y, out=target)
        assert same_bits(found, expected)
        assert out == "new" or found is target


NUMBERED = elementwise("int32 x, int32 y", "int32 z", "z = x * 2 + y + (int)i;", name="numbered")
SHAPES = ((40, 3), (3, 40), (70, 23), (300, 30), (2, 33, 17), (3, 2, 5, 9), (700, 2), (9, 130), (2, 30, 350), (1300,))
AXES = st.tuples(
    st.permutations(range(4)), st.lists(st.sampled_from([1, 1, 1, 2, 3, 4, 5, -1, -2, 0]), min_size=4, max_size=4)
)


def strided(values: Array, order: Sequence[int], steps: Sequence[int], shift: int, *, is_output: bool = False) -> Array:
    """The values in an array of any order of axes, steps (0 for one element) and address."""
    order = [axis for axis in order if axis < values.ndim]
    steps = [step or int(is_output) for step in steps[: values.ndim]]
    for axis, step in enumerate(steps):
        if step == 0:
            values = values.take([0], axis)
    extents = [values.shape[axis] * max(1, abs(steps[axis])) for axis in order]
    memory = np.zeros(int(np.prod(extents)) * values.itemsize + 16, np.uint8)
    wide = memory[shift:][: memory.size - 16].view(values.dtype).reshape(extents).transpose(np.argsort(order))
    found = wide[tuple(slice(None, None, step or 1) for step in steps)]
    found[...] = values
    return found


@given(
    st.sampled_from(SHAPES), st.tuples(AXES, AXES, AXES), st.sampled_from([0, 0, 0, 1]), st.booleans(),
    st.sampled_from(["f4", "f8", "i1", "f2", "c16", "numbered"]),
)  # fmt: skip
def test_rows_tiles_and_blocks_of_any_layout(
    shape: tuple[int, ...], layouts: Any, shift: int, is_new: bool, dtype: str
) -> None:
    kernel, dtype = (NUMBERED, "i4") if dtype == "numbered" else (ADD, dtype)
    values = np.arange(np.prod(shape)).reshape(shape)
    x = strided((values % 23).astype(dtype), *layouts[0], shift)
    y = strided((values % 19).astype(dtype), *layouts[1], shift)
    expected = x * np.dtype(dtype).type(2) + y
    if kernel is NUMBERED:
        expected = expected + np.arange(expected.size, dtype=dtype).reshape(expected.shape)
    out = strided(np.zeros(expected.shape, dtype), *layouts[2], shift, is_output=True)
    with configured(cpu="native"):
        for _ in range(2):  # by Python, then by C alone
            found = kernel(x, y) if is_new else kernel(x, y, out=out)
            assert same_bits(found, expected)


@pytest.mark.parametrize("dtype", ["i2", "f8", "c16"])
def test_tiles_beside_operands_at_odd_addresses(dtype: str) -> None:
    """Operands that lie in C order need room in a tile too, where the function cannot read them at their addresses."""
    kernel = elementwise(lambda x, a, b, c, d, e: x * a + b * c - d * e, name="six")
    x = np.asfortranarray((np.arange(66 * 401) % 23).reshape(66, 401).astype(dtype))
    others = [
        laid_out(((np.arange(66 * 401) + shift) % 19).reshape(66, 401).astype(dtype), "shifted") for shift in range(5)
    ]
    a, b, c, d, e = others
    with configured(cpu="native", threads=1):
        assert same_bits(kernel(x, *others), x * a + b * c - d * e)


@functools.cache
def compiled_for_pieces() -> list[native_engine.NativeKernel]:
    functions = [lambda x, y: x * 2 + y, lambda x, y: np.exp(x) + y]
    programs = [program_of(elementwise(each), "f4", "f4") for each in functions]
    return compiled.compile_all([*programs, program_of(NUMBERED, "i4", "i4", "i4")])


@given(
    st.sampled_from(SHAPES), st.tuples(AXES, AXES, AXES), st.sampled_from([0, 0, 1]), st.integers(0, 2),
    st.lists(st.floats(0, 1), max_size=4),
)  # fmt: skip
@example((3, 701), (([0, 1], [2, 1]), ([0, 1], [0, 0]), ([0, 1], [1, 1])), 0, 0, [0.3])
def test_pieces_of_any_layout(
    shape: tuple[int, ...], layouts: Any, shift: int, number: int, cuts: Sequence[float]
) -> None:
    """A thread begins and ends at any element: in the middle of a row, of a tile, of a value that all rows share."""
    kernel, dtype = compiled_for_pieces()[number], "i4" if number == 2 else "f4"
    values = np.arange(np.prod(shape)).reshape(shape)
    x = strided((values % 23).astype(dtype), *layouts[0], shift)
    y = strided((values % 19).astype(dtype), *layouts[1], shift)
    size = (x + y).size
    out = strided(np.zeros((x + y).shape, dtype), *layouts[2], shift, is_output=True)
    plan = native_engine.NativePlan(kernel, out.shape, [x, y, out], lambda _: pytest.fail("NumPy"))

    def run_pieces(pointers: Any, geometry: Any) -> None:
        report = (ctypes.c_longlong * 3)()
        pieces = [*itertools.pairwise([0, *sorted(int(cut * size) for cut in cuts), size])]
        for begin, end in reversed(pieces):
            assert not kernel.driver(kernel.function, kernel.form, pointers, geometry, begin, end, report, None)

    plan.run([x, strided((values % 19 + 1).astype(dtype), *layouts[1], shift), out])  # other values in its buffers
    plan._run = run_pieces
    plan.run([x, y, out])
    by_numpy, _ = compiled.run_both(kernel, out.shape, [x, y, out])
    assert same_bits(out, by_numpy[2])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("dtype", "size"), [("i4", 700_001), ("f4", 1_300_000), ("f8", 40_000), ("c8", 600_000)])
def test_long_rows_that_are_not_copied(dtype: str, size: int, threads: int) -> None:
    x = np.arange(3 * size).astype(dtype)[::3]
    y = np.arange(5 * size).astype(dtype)[::-5]
    out = np.zeros(2 * size, dtype)
    kernel = NUMBERED if dtype == "i4" else ADD
    expected = x * np.dtype(dtype).type(2) + y + (np.arange(size, dtype=dtype) if dtype == "i4" else 0)
    with configured(cpu="native", threads=threads):
        kernel(x, y, out=out[1::2])
    assert same_bits(out[1::2], expected)
    assert not out[::2].any()


@functools.cache
def compiled_for_steps() -> dict[tuple[str, str], native_engine.NativeKernel]:
    functions = {"sum": lambda x, y: x + y, "maximum": lambda x, y: np.maximum(x, y) + y}
    names = [*itertools.product(("sum",), ("?", "i1", "i2", "u4", "i8", "f2", "f4", "f8", "c8", "c16"))]
    names += [*itertools.product(("maximum",), ("i2", "f4", "f8"))]
    programs = [program_of(elementwise(functions[name]), dtype, dtype) for name, dtype in names]
    return dict(zip(names, compiled.compile_all(programs), strict=True))


@pytest.mark.parametrize("size", [1_000, 40_000])
@pytest.mark.parametrize("step", [2, -5])
def test_only_elements_of_eight_bytes_are_read_where_they_lie(step: int, size: int) -> None:
    """Shorter ones are copied, at most 512 at a time: one by one they would take several times as long."""
    for (name, dtype), kernel in compiled_for_steps().items():
        operands = [np.ones(size * abs(step), dtype)[::step], np.ones(size, dtype), np.zeros(size, dtype)]
        calls: list[tuple[int, bool]] = []

        def note(count: int, begin: int, *pointers: int | None, calls: Any = calls) -> None:
            calls.append((count, pointers[-1] is not None))

        function = ctypes.CFUNCTYPE(None, *[ctypes.c_longlong] * 2, *[ctypes.c_void_p] * 6)(note)

        def run(pointers: Any, geometry: Any, kernel: Any = kernel, function: Any = function) -> None:
            address = ctypes.cast(function, ctypes.c_void_p)
            kernel.driver(address, kernel.form, pointers, geometry, 0, size, (ctypes.c_longlong * 3)(), None)

        plan = native_engine.NativePlan(kernel, (size,), operands, lambda _: pytest.fail("NumPy"))
        plan._run = run
        plan.run(operands)
        is_in_place = dtype in ("i8", "f8", "c16") and (name == "sum" or size > 1 << 15)
        if is_in_place:
            assert calls == [(size, True)], (name, dtype)
        else:
            assert [count for count, _ in calls] == [512] * (size // 512) + [size % 512], (name, dtype)
            assert not any(has_steps for _, has_steps in calls), (name, dtype)


TO_RAW = elementwise(
    "raw float32 x, int64 n, int64 shift",
    "raw float32 y",
    "if (x[i] > 0) y[i + shift] = expf(x[n - 1 - i]);",
    name="to_raw",
)


@given(st.integers(1, 700), st.integers(-2, 2), st.integers(0, 3))
def test_stores_at_an_index_of_each_elements_own(size: int, shift: int, more: int) -> None:
    x = np.random.default_rng(size).normal(0, 60, size).astype("f4")
    found: list[Any] = []
    for engine in ("numpy", "native"):
        y = np.zeros(size + more, "f4")
        with configured(cpu=engine):
            try:
                TO_RAW(x, size, shift, y, size=size)
            except KernelError as error:
                found.append(str(error))
            else:
                found.append(y)
    assert found[0] == found[1] if isinstance(found[0], str) else same_bits(found[0], found[1])


def test_a_kernel_says_which_engine_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = elementwise(lambda x, y: x * 3 - y)
    x = np.ones(3, "f4")
    with configured(cpu="numpy"):
        assert "XFERLIB_CPU=numpy" in kernel.engine("f4", "f4")
    with configured(cpu="auto"):
        kernel(x, x)
        assert "not compiled yet" in kernel.engine("f4", "f4")
    with configured(cpu="native"):
        kernel(x, x)
        assert kernel.engine("f4", "f4").startswith("in C, by ")
    monkeypatch.setattr(native_source, "MOST_OPERANDS", 2)
    with configured(cpu="auto"):
        assert "by NumPy: it has more than 2 operands" in elementwise(lambda x, y: x * 5 - y).engine("f4", "f4")


def test_explain_names_the_engine_of_each_call_so_far() -> None:
    kernel = elementwise(lambda x, y: x * 4 - y, name="four")
    assert xferlib.explain(kernel).startswith("four: not called yet")
    with configured(cpu="numpy"):
        kernel(np.ones(3, "f4"), np.ones(3, "f4"))
        kernel(np.ones(3), 2.0)
        lines = xferlib.explain(kernel).splitlines()
        assert lines == [
            f"four(float32, float32): {kernel.engine('f4', 'f4')}",
            f"four(float64, float): {kernel.engine('f8', float)}",
        ]


def test_a_kernel_that_c_calls_is_freed() -> None:
    number = 2.0
    kernel = elementwise(lambda x: x + number)
    with configured(cpu="native"):
        for _ in range(3):
            kernel(np.ones(2))
    assert _direct_calls(kernel)
    dispatch = weakref.ref(kernel._dispatch)
    del kernel
    gc.collect()
    assert dispatch() is None


def test_a_plain_call_refuses_what_a_prepared_one_refuses() -> None:
    memory = np.arange(20, dtype="f4")
    with configured(cpu="native"):
        for _ in range(3):
            ADD(memory, memory)
        fixed = np.zeros(10, "f4")
        fixed.flags.writeable = False
        for arguments, out, message in (
            ((memory[:10], memory[5:15]), memory[1:11], "overlaps argument"),
            ((memory[:10], memory[10:]), memory[:18:2][:9], "has shape"),
            ((memory[:10], memory[10:]), fixed, "read-only"),
            ((memory[:10], memory[10:]), np.broadcast_to(memory[:1], 10), "read-only|share memory"),
            ((memory[:10], memory[:7]), None, "does not broadcast"),
        ):
            with pytest.raises((KernelTypeError, ValueError), match=message):
                ADD(*arguments, out=out)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(-5, 5)), min_size=1, max_size=3))
def test_a_plain_call_refuses_outputs_whose_elements_share_memory_and_no_others(
    axes: list[tuple[int, int]],
) -> None:
    shape, steps = zip(*axes, strict=True)
    memory, places = np.zeros(128, "f4"), np.arange(128)
    out, used = (
        np.lib.stride_tricks.as_strided(each[64:], shape, [step * each.itemsize for step in steps])
        for each in (memory, places)
    )
    x = np.arange(math.prod(shape), dtype="f4").reshape(shape)
    with configured(cpu="native"):
        for _ in range(3):
            ADD(x, x)
            ADD(x, x, out=np.empty_like(x))
        if len(np.unique(used)) == x.size:
            assert same_bits(ADD(x, x, out=out), x * 3)
        else:
            with pytest.raises(LayoutError, match="share memory"):
                ADD(x, x, out=out)
            assert not memory.any()


def test_plain_calls_convert_numbers_as_prepared_ones_do(both: Any) -> None:
    x = np.arange(5.0)
    for number in (2.5, -0.0, float("inf"), 3, 2**60 + 1, True, np.float64(0.1)):
        with configured(cpu="numpy"):
            expected = both(x, x, s=number)
        with configured(cpu="native"):
            assert all(map(same_bits, both(x, x, s=number), expected))


def test_plain_calls_of_other_types_are_those_of_the_numpy_engine() -> None:
    x = np.arange(5, dtype="f4")
    with configured(cpu="native"):
        for _ in range(3):
            ADD(x, x)
        assert same_bits(ADD(x.astype(">f4"), x), x * 3)
        assert ADD(x.astype("f8"), x.astype("f8")).dtype == np.float64
        assert same_bits(ADD(x, 1.0), x * 2 + 1)


def _direct_calls(kernel: Any) -> list[Any]:
    found: list[Any] = kernel._dispatch._known[0]
    return found


TENSORS = {
    "plain": lambda torch: torch.arange(6.0),
    "transposed": lambda torch: torch.arange(12.0).reshape(3, 4).T,
    "broadcast": lambda torch: torch.arange(3.0).expand(2, 3),
    "none": lambda torch: torch.empty(0),
    "half": lambda torch: torch.arange(6.0).half(),
    "negated": lambda torch: torch.complex(torch.ones(4), torch.arange(4.0)).conj().imag,
    "conjugated": lambda torch: torch.complex(torch.ones(4), torch.arange(4.0)).conj(),
    "followed": lambda torch: torch.arange(6.0, requires_grad=True),
    "parameter": lambda torch: torch.nn.Parameter(torch.arange(6.0)),
    "nested": lambda torch: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "sparse": lambda torch: torch.eye(3).to_sparse(),
    "meta": lambda torch: torch.empty(3, device="meta"),
    "zero": lambda torch: torch._efficientzerotensor(3),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", TENSORS)
def test_tensors_that_c_looks_at_first_give_what_others_do(name: str) -> None:
    torch = pytest.importorskip("torch")

    def outcome(kernel: Any, out: Any) -> Any:
        x = TENSORS[name](torch)
        try:
            found = kernel(x, x, out=x.detach().clone() if out else None)
        except Exception as error:
            return type(error), str(error)
        return found.detach().resolve_conj().numpy().tobytes(), found.shape, found.stride(), found.requires_grad

    with configured(cpu="native"):
        first, kernel = (
            elementwise(lambda x, y: x * 2 + y, name="same"),
            elementwise(lambda x, y: x * 2 + y, name="same"),
        )
        for dtype in (torch.float32, torch.float16, torch.complex64):
            for _ in range(3):
                kernel(torch.ones(2, dtype=dtype), torch.ones(2, dtype=dtype))
        assert len(_direct_calls(kernel)) == 3
        for out in (False, True):
            x = TENSORS[name](torch)
            plain = torch.ones([2] * x.ndim, dtype=x.dtype)
            for _ in range(4):  # from then on C has one check for tensors of these ranks
                kernel(plain, plain, out=plain.clone() if out else None)
            assert outcome(kernel, out) == outcome(first, out)
            assert outcome(torch.no_grad()(kernel), out) == outcome(torch.no_grad()(first), out)
            assert outcome(torch.inference_mode()(kernel), out) == outcome(torch.inference_mode()(first), out)


def test_ctrl_c_while_a_check_of_tensors_is_made_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from xferlib.backends.torch import tensors

    def strike(*_: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    kernel, x = elementwise(lambda x: x + x, name="twice"), torch.ones(4)
    monkeypatch.setattr(tensors, "_guards", strike)
    with configured(cpu="native"), pytest.raises(KeyboardInterrupt):
        for _ in range(5):
            kernel(x)


def test_tensors_within_transforms_and_levels_are_left_to_python() -> None:
    torch = pytest.importorskip("torch")
    kernel = elementwise(lambda x: x * x, name="square")
    x = torch.arange(4.0)
    with configured(cpu="native"):
        for _ in range(5):
            kernel(x)
            kernel(x, out=torch.ones(4))
        assert len(_direct_calls(kernel)) == 1
        with pytest.raises(UnsupportedError, match="jit.trace"):
            torch.jit.trace(lambda x: kernel(x), (x,))
        assert torch.equal(torch.func.vmap(kernel)(x.reshape(2, 2)), (x * x).reshape(2, 2))
        assert torch.equal(torch.func.grad(lambda x: kernel(x).sum())(x), 2 * x)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones(4))
            assert torch.equal(torch.autograd.forward_ad.unpack_dual(kernel(dual)).tangent, 2 * x)
        with torch.inference_mode():
            frozen = torch.zeros(4)
        with pytest.raises(LayoutError, match="inference_mode"):
            kernel(x, out=frozen)
        before = x._version
        kernel(torch.ones(4), out=x)
        assert x._version == before + 1


@pytest.mark.parametrize("size", [0, 1, 5, 400_000])
@pytest.mark.parametrize("threads", [1, 2])
def test_plain_calls_of_indexed_arrays(size: int, threads: int) -> None:
    shift = elementwise("raw T x, int32 n", "T y", "y = x[i + n]", name="shift")
    x = np.arange(size + 3.0)
    with configured(cpu="native", threads=threads):
        for _ in range(3):
            shift(np.ones(4), 0, np.ones(2))
        assert len(_direct_calls(shift)) == 1
        for each in (x, np.repeat(x, 2)[::2]):
            assert same_bits(shift(each, 3, np.zeros(size)), x[3:])
        if size:
            with pytest.raises(
                KernelTypeError, match=rf"has {size + 3} elements, and the kernel used index {size + 3}"
            ):
                shift(x, 4, np.zeros(size))
            with pytest.raises(KernelTypeError, match="overlaps argument"):
                shift(x, 3, x[:size])


def test_each_combination_of_dtypes_keeps_its_plain_call() -> None:
    kernel = elementwise(lambda x: x + x, name="twice")
    with configured(cpu="native"):
        for _ in range(3):
            for dtype in ("f4", "f8", "i4", "i8", "i2"):
                assert same_bits(kernel(np.ones(3, dtype)), np.full(3, 2, dtype))
        assert len(_direct_calls(kernel)) == 4


# --- which engine runs


_numbers = itertools.count(1_000)


def new_kernel() -> Any:
    """A kernel that was never compiled in this process."""
    number = next(_numbers)
    return elementwise(lambda x: x * number)


def test_auto_compiles_behind_the_numpy_engine() -> None:
    kernel, x = new_kernel(), np.arange(5.0)
    with configured(cpu="auto"):
        expected = kernel(x)
        program = program_of(kernel, "f8")
        for _ in range(native_engine.CALLS_BEFORE):
            kernel(x)
        native_engine.wait_until_idle()
        assert same_bits(kernel(x), expected)
        assert native_engine.engine_of(program) == "native"
    with configured(cpu="numpy"):
        assert native_engine.engine_of(program) == "numpy"
        assert same_bits(kernel(x), expected)


def test_what_is_called_once_is_not_compiled() -> None:
    kernel = new_kernel()
    with configured(cpu="auto"):
        kernel(np.arange(5.0))
        native_engine.wait_until_idle()
        assert native_engine.engine_of(program_of(kernel, "f8")) == "numpy"


def test_native_without_a_compiler_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_compiler, "find_compiler", lambda: None)
    with configured(cpu="native"), pytest.raises(KernelCompileError, match="needs a C compiler"):
        new_kernel()(np.arange(5.0))
    with configured(cpu="auto"):
        kernel = new_kernel()
        for _ in range(4):
            assert kernel(np.arange(3.0)).size == 3


@pytest.fixture
def broken_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    program = tmp_path / "cc"
    program.write_text("#!/bin/sh\necho 'no room on the disk' >&2\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(program))
    monkeypatch.setattr(native_engine, "_compiler", native_engine._BackgroundCompiler())
    yield
    native_engine._compiler.close()


@pytest.mark.usefixtures("broken_compiler")
def test_a_broken_compiler_is_told_of_once() -> None:
    x = np.arange(5.0)
    with configured(cpu="auto"):
        kernels = [new_kernel() for _ in range(3)]
        for kernel in kernels[:1] * 3:
            kernel(x)
        native_engine.wait_until_idle()
        kernels[1](x)
        with pytest.warns(XferWarning, match="no room on the disk"):
            kernels[1](x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                assert kernels[2](x).size == 5
    with configured(cpu="native"), pytest.raises(KernelCompileError, match="no room on the disk"):
        new_kernel()(x)


def test_a_compiler_that_breaks_later_is_told_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_engine, "_compiler", native_engine._BackgroundCompiler())
    x, kernels = np.arange(5.0), [new_kernel() for _ in range(6)]
    with configured(cpu="auto"):
        for kernel in kernels[:1] * 3:
            kernel(x)
        native_engine.wait_until_idle()
        assert native_engine.engine_of(program_of(kernels[0], "f8")) == "native"
        monkeypatch.setattr(host_compiler, "load_c", _refuse_all)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for kernel in kernels[1:] * 3:
                assert same_bits(kernel(x), x * kernel(np.ones(1)))
                native_engine.wait_until_idle()
    assert [each.category for each in told] == [XferWarning]
    assert "no room on the disk" in str(told[0].message)
    native_engine._compiler.close()


def new_reduction() -> Any:
    return reduction("T x", "T y", map_expr=f"x * {next(_numbers)}", reduce_expr="a + b", post_map_expr="y = a")


@pytest.mark.parametrize("make", [new_kernel, new_reduction])
def test_an_error_in_the_writer_of_c_is_told_of_once_as_a_fault(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_engine, "_compiler", native_engine._BackgroundCompiler())
    x, sound, kernels = np.arange(5.0), new_kernel(), [make() for _ in range(3)]
    with configured(cpu="numpy"):
        expected = [kernel(x) for kernel in kernels]

    def fail(*_: Any, **__: Any) -> Any:
        raise KeyError("node 7")

    with configured(cpu="auto"), monkeypatch.context() as patch:
        patch.setattr(native_source, "native_source", fail)
        patch.setattr(native_reduction.NativeReduction, "write_text", fail)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for kernel, result in [*zip(kernels, expected, strict=True)] * 4:
                assert same_bits(kernel(x), result)
                native_engine.wait_until_idle()
    assert [(each.category, each.filename) for each in told] == [(XferWarning, __file__)]
    assert re.search("NumPy engine.*a fault of xferlib's .KeyError: 'node 7'", str(told[0].message))
    with configured(cpu="auto"):
        for _ in range(3):  # the compiler is not blamed
            sound(x)
        native_engine.wait_until_idle()
        assert native_engine.engine_of(program_of(sound, "f8")) == "native"
    native_engine._compiler.close()


def test_an_error_in_the_writer_of_c_is_raised_where_c_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, str] = {}
    monkeypatch.setattr(native_source, "native_source", lambda _: names["node 7"])
    with configured(cpu="native"), pytest.raises(KeyError, match="node 7"):
        new_kernel()(np.arange(5.0))


def _refuse_all(*_: Any, **__: Any) -> Any:
    raise KernelCompileError("no room on the disk")


@pytest.mark.parametrize("mode", ["auto", "native"])
def test_a_folder_that_takes_no_files(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_engine, "_compiler", native_engine._BackgroundCompiler())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    kernel, x = new_kernel(), np.arange(3.0)
    with configured(cpu=mode):
        if mode == "native":
            with pytest.raises(KernelCompileError, match="cannot be written.*TMPDIR"):
                kernel(x)
        else:
            for _ in range(3):
                kernel(x)
            native_engine.wait_until_idle()
            new = new_kernel()
            new(x)
            with pytest.warns(XferWarning, match="cannot be written.*TMPDIR"):
                new(x)
    native_engine._compiler.close()


PROGRAM = """
import os, sys, warnings
warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
import numpy as np
import xferlib as xl
from xferlib.kernels import elementwise, host_compiler, native_engine
load_c = host_compiler.load_c  # where kernels are compiled is the question, not how
host_compiler.load_c = lambda source, *, flags, **given: load_c(source, flags=(*flags, "-O1"), **given)
def make(n):
    return elementwise(lambda x: x * n)
kernels = [*map(make, (2, 3))]
def run():
    return all(kernel(np.arange(3.0))[1] == n for n, kernel in enumerate(kernels, 2) for _ in range(3))
"""


def _run_program(text: str, **variables: str) -> str:
    done = run("-c", PROGRAM + text, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_exit_ends_the_compiler_and_what_it_has_started(tmp_path: Path) -> None:
    program, started = tmp_path / "cc", tmp_path / "started"
    program.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {started}.new\nmv {started}.new {started}\nwait\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    _run_program(f"run()\nwhile not os.path.exists({str(started)!r}): pass", CC=str(program), XFERLIB_CPU="auto")
    with contextlib.suppress(FileNotFoundError):  # else nothing of the process is left but its entry
        assert Path("/proc", started.read_text().strip(), "stat").read_text().split()[2] == "Z"


def test_shapes_that_never_come_twice_are_not_prepared() -> None:
    text = """
from xferlib.kernels.calls import Caller
calls = [
    (elementwise(lambda x: x * 2.5 + 1), lambda x: [x]), (elementwise(lambda x: x * 2.5 + 1), lambda x: [x, 0 * x]),
    (elementwise(lambda x, s: x * s + 1), lambda x: [x, 2.5]),
    (elementwise("T x", "T y", "y = x * (T)2.5 + 1"), lambda x: [x]),
]
for count in range(1, 9):
    if count == 3:
        Caller.prepare = None
    x = np.arange(count, dtype="f4")
    assert all((kernel(*make(x)) == x * np.float32(2.5) + np.float32(1)).all() for kernel, make in calls)
"""
    assert not _run_program(text, XFERLIB_CPU="native")


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
FORK = """
child = os.fork()
assert run()
native_engine.wait_until_idle()
assert run()
made = [kernel.definition.specialize((np.dtype("f8"),), frozenset()).program for kernel in kernels]
assert all(native_engine.engine_of(program) == "native" for program in made)
if child:
    print("status", os.waitpid(child, 0)[1])
"""


@needs_fork
@pytest.mark.parametrize("module", [None, "selectors", "_lzma"])
def test_a_child_compiles_what_its_parent_has_begun(tmp_path: Path, module: str | None) -> None:
    """Though the fork comes while the parent's thread imports `subprocess` or `tempfile`, here a module of these."""
    importing = f"""
import sys, threading
has_begun, goes_on = threading.Event(), threading.Event()
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            has_begun.set()
            goes_on.wait()
for name in ("subprocess", "selectors", "tempfile", "shutil", "lzma", "_lzma"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Finder())
assert run()
has_begun.wait()
os.register_at_fork(before=goes_on.set)  # what is registered last comes first
"""
    text = ("assert run()" if module is None else importing) + FORK
    assert _run_program(text, XFERLIB_CPU="auto", XFERLIB_CACHE_DIR=str(tmp_path)) == "status 0\n"


@needs_fork
def test_a_child_compiles_the_scans_and_reductions_of_its_parent(tmp_path: Path) -> None:
    text = """
scan = xl.scan("a * b + a")
total = xl.reduction("T x", "T y", map_expr="x * x", reduce_expr="a + b")
def call():
    return [scan(np.ones(9)).tolist(), float(total(np.arange(9.0)))]
expected = call()
assert [call(), call()] == [expected, expected]
child = os.fork()
assert [call(), call()] == [expected, expected]
native_engine.wait_until_idle()
assert call() == expected
assert [kernel.function is not None for kernel in native_engine._made] == [True, True]
if child:
    print("status", os.waitpid(child, 0)[1])
"""
    assert _run_program(text, XFERLIB_CPU="auto", XFERLIB_CACHE_DIR=str(tmp_path)) == "status 0\n"


@needs_fork
def test_a_child_that_ends_leaves_its_parent_the_folder_of_the_compiler(tmp_path: Path) -> None:
    compiler, started, fifo = tmp_path / "cc", tmp_path / "started", tmp_path / "fifo"
    os.mkfifo(fifo)
    waits = f'case "$*" in *-shared*) [ -e {started} ] || {{ : > {started}; read line < {fifo}; }};; esac'
    compiler.write_text(f'#!/bin/sh\n{waits}\nexec {host_compiler.find_compiler().command[0]} "$@"\n')  # type: ignore[union-attr]
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    text = f"""
assert run()
while not os.path.exists({str(started)!r}): pass
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
    open({str(fifo)!r}, "w").close()
    native_engine.wait_until_idle()
    print(native_engine._compiler.problem)
"""
    variables = {"CC": str(compiler), "XFERLIB_CPU": "auto", "XFERLIB_CACHE_DIR": str(tmp_path / "cache")}
    assert _run_program(text, **variables) == "\n"


def test_processes_that_fill_one_cache_at_a_time(tmp_path: Path) -> None:
    variables = {**os.environ, "XFERLIB_CPU": "native", "XFERLIB_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM + "assert run()"]
    children = [subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [(each.communicate()[1], each.returncode) for each in children] == [("", 0)] * 2


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="the system has no signals of threads")
def test_a_long_call_in_c_hears_ctrl_c() -> None:
    kernel = elementwise(
        "int64 n", "int64 y", "int64 i = 0; int64 v = n; while (i < 40000) { i = i + 1; v = v * 3 + i; } y = v"
    )
    out = np.zeros(1_000_000, np.int64)

    def strike() -> None:
        while not out[0]:  # the call is under way
            pass
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with configured(cpu="native", threads=1):
        for _ in range(3):
            few = kernel(np.arange(4))
        striker = threading.Thread(target=strike)
        striker.start()
        with pytest.raises(KeyboardInterrupt):
            kernel(np.arange(out.size), out)
        striker.join()
        assert not out[-1]
        assert same_bits(kernel(np.arange(4)), few)


def test_a_compiler_is_done_with_conditions_that_are_made_of_others_at_each_turn() -> None:
    """gcc looked for ranges through six of them at a time: each turn took four times as long, and 8 turns minutes."""
    body = (
        "switch ((x >> j) & 3) { case 0: continue; case 1: z += j; break; "
        "case 2: if (y & 1) break; z *= 2; case 3: z -= 1; }"
    )
    kernel = elementwise("int32 x, int32 y", "int64 z", f"for (int j = 0; j < 8; j++) {{ {body} z ^= 5; }}")
    x, y = np.arange(99, dtype="int32") * 12345 - 40, np.arange(99, dtype="int32")
    found, expected = np.ones((2, 99), "int64")
    with configured(cpu="numpy"):
        kernel(x, y, out=expected)
    with configured(cpu="native"):
        kernel(x, y, out=found)
    assert same_bits(found, expected)
