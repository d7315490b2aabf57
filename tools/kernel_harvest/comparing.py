"""Runs kernels on NumPy arrays and as C++, and compares the bits of everything that they write."""

from __future__ import annotations

import ctypes
import functools
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tools.kernel_harvest import cpp_program
from tools.kernel_harvest.arguments import MOODS, Arguments, Mood, draw, ranks
from tools.kernel_harvest.trying import Taken
from xferlib.errors import XferError
from xferlib.kernels import elementwise, functions
from xferlib.kernels import formulas as special_functions
from xferlib.testing import configured

A = np.ndarray[Any, Any]
_ONE = ctypes.CFUNCTYPE(
    ctypes.c_double, ctypes.c_int, ctypes.c_double, ctypes.c_double, ctypes.c_int, ctypes.POINTER(ctypes.c_double)
)
_COMPLEX = ctypes.CFUNCTYPE(
    None, ctypes.c_int, ctypes.POINTER(ctypes.c_double), ctypes.c_int, ctypes.POINTER(ctypes.c_double)
)
_OPTIONS = ("-std=c++17", "-O0", "-fwrapv", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-w", "-fpermissive",
            "-Wno-narrowing", "-fsanitize=float-cast-overflow,shift,integer-divide-by-zero")  # fmt: skip
_OUT_OF_RANGE = 2
"""The mark of an element for which the C++ program used an index out of range, or faulted."""
_GUARD = 1 << 16
_MOST_TURNS = 5000
"""Of a loop; a kernel that makes more for the values of one mood is compared in the others."""


@dataclass(slots=True)
class Comparison:
    """The runs of a kernel: ``agreed`` and ``differed`` name the moods; ``reason`` says why there are none."""

    taken: Taken
    agreed: list[str]
    differed: list[str]
    undefined: int = 0
    """Elements that C++ leaves undefined, and that are not compared."""
    beyond: int = 0
    """Function results outside of the documented bound."""
    reason: str = ""


def compare(kernels: Sequence[Sequence[Taken]]) -> list[Comparison]:
    """Compare kernels, compiled together, for each choice of their dtypes."""
    parts = iter(_compare([taken for each in kernels for taken in each]))
    return [_joined([next(parts) for _ in each]) for each in kernels]


def _joined(parts: list[Comparison]) -> Comparison:
    agreed, differed = ([each for part in parts for each in names(part)] for names in (_agreed, _differed))
    reason = "" if agreed or differed else parts[0].reason
    undefined, beyond = sum(each.undefined for each in parts), sum(each.beyond for each in parts)
    return Comparison(parts[0].taken, agreed, differed, undefined, beyond, reason)


def _agreed(part: Comparison) -> list[str]:
    return part.agreed


def _differed(part: Comparison) -> list[str]:
    types = ", ".join(f"{letter}: {dtype}" for letter, dtype in part.taken.types.items())
    return [f"{each} ({types})" for each in part.differed]


def _compare(kernels: Sequence[Taken]) -> list[Comparison]:
    with tempfile.TemporaryDirectory() as folder:
        library, refusals = _library(kernels, Path(folder))
        one, two = _ONE(_asked), _COMPLEX(_asked_complex)
        library.xf_start(one, two)
        return [
            Comparison(taken, [], [], reason=f"C++ refuses it: {refusals[number]}")
            if number in refusals
            else _compared(taken, library, number)
            for number, taken in enumerate(kernels)
        ]


def _library(kernels: Sequence[Taken], folder: Path) -> tuple[Any, dict[int, str]]:
    """The compiled kernels, and the compiler's complaint about those that it refuses."""
    refusals: dict[int, str] = {}
    texts = [cpp_program.kernel(taken, number) for number, taken in enumerate(kernels)]
    source, target, library = folder / "kernels.cpp", folder / "kernels.o", folder / "kernels.so"
    while True:
        parts = [f'#line 1 "kernel_{number}"\n{text}' for number, text in enumerate(texts) if number not in refusals]
        source.write_text(cpp_program.preface() + "".join(parts))
        done = subprocess.run(
            ["g++", *_OPTIONS, "-c", source, "-o", target], check=False, capture_output=True, text=True
        )
        found = _complaints(done.stderr)
        if done.returncode and not found:
            raise RuntimeError(done.stderr[:4000])
        refusals |= found
        if not done.returncode:
            break
    subprocess.run(["g++", "-shared", target, "-o", library], check=True)
    return ctypes.CDLL(str(library)), refusals


def _complaints(printed: str) -> dict[int, str]:
    """The first error of each kernel: one in the common part belongs to the kernel named before it."""
    found: dict[int, str] = {}
    number = None
    for line in printed.splitlines():
        if match := re.search(r"\bkernel_(\d+):", line):
            number = int(match[1])
        if number is not None and (error := re.search(r"error: .*", line)):
            found.setdefault(number, error[0])
    return found


# --- one kernel


def _compared(taken: Taken, library: Any, number: int) -> Comparison:
    result = Comparison(taken, [], [])
    run = library[f"xf_run_{number}"]
    _math[0] = taken.math
    for mood in MOODS:
        for rank in ranks(taken):
            reason = _run(taken, library, run, mood, rank, result)
            if reason and not result.reason:
                result.reason = reason
    result.beyond = library.xf_take_beyond()
    if result.agreed or result.differed:
        result.reason = ""
    return result


def _run(taken: Taken, library: Any, run: Any, mood: Mood, rank: int, result: Comparison) -> str:
    """One run on both sides; returns why there is nothing to compare, or nothing."""
    arguments = draw(taken, mood, rank, seed=len(mood.name) + rank)
    mine = [np.array(each) if isinstance(each, np.ndarray) else each for each in arguments.values]
    theirs = [_guarded(each) for each in arguments.values]
    try:
        with configured(loop_turns=_MOST_TURNS):
            _call(taken, mine, arguments)
    except XferError as error:
        return str(error).partition("\n")[0]
    undefined = _call_cpp(run, arguments, theirs, taken)
    if (undefined == _OUT_OF_RANGE).any():
        result.differed.append(f"{mood.name}, an index out of range")
        return ""
    result.undefined += int(undefined.sum())
    is_bad = undefined.astype(bool)
    if is_bad.all() or (is_bad.any() and any(each.is_raw or each.is_pointer for each in taken.outputs)):
        return "C++ leaves it undefined for all inputs tried"
    name = f"{mood.name}, arrays of rank {rank}" if rank > 1 else mood.name
    if _all_same(taken, mine, theirs, is_bad):
        result.agreed.append(name)
        return ""
    others = [_guarded(each) for each in arguments.values]
    library.xf_turn(1)
    _call_cpp(run, arguments, others, taken)
    library.xf_turn(0)
    if not _all_same(taken, others, theirs, is_bad):
        return "the elements race for these values: C++ gives something else for them in the reverse order"
    result.differed.append(name)
    return ""


def _all_same(taken: Taken, mine: Sequence[Any], theirs: Sequence[A], is_bad: A) -> bool:
    for param, x, y in zip((*taken.inputs, *taken.outputs), mine, theirs, strict=True):
        is_element = isinstance(x, np.ndarray) and x.size == is_bad.size and not param.is_raw
        if not _same(np.asarray(x), y, ~is_bad if is_element else None):
            return False
    return True


def _guarded(value: Any) -> A:
    """A copy with memory around it that a wrong pointer may spoil."""
    array = np.asarray(value)
    whole = np.zeros(array.nbytes + 2 * _GUARD, np.uint8)
    found = whole[_GUARD : _GUARD + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def _call(taken: Taken, values: list[Any], arguments: Arguments) -> None:
    if taken.found.is_reduction:
        inputs = values[: len(taken.inputs)]
        outputs = values[len(taken.inputs) :]
        for k in range(len(outputs)):
            outputs[k] = outputs[k].reshape(-1)[:1].reshape(())
        taken.kernel(*inputs, out=tuple(outputs) if len(outputs) > 1 else outputs[0])
    elif arguments.needs_size:
        taken.kernel(*values, size=arguments.size)
    else:
        taken.kernel(*values)


def _call_cpp(run: Any, arguments: Arguments, values: list[A], taken: Taken) -> A:
    pointers = (ctypes.c_void_p * len(values))(*(each.ctypes.data for each in values))
    rows = [(arguments.size, 2, 7, 9, 0, 0)]
    for value, given in zip(values, arguments.values, strict=True):
        is_number = not isinstance(given, np.ndarray)
        extents = (*value.shape, 0, 0, 0, 0)[:4]
        rows.append((-1 if is_number else value.size, value.ndim, *extents))
    sizes = np.array(rows, np.int64)
    undefined = np.zeros(1 if taken.found.is_reduction else arguments.size, np.uint8)
    run(pointers, ctypes.c_void_p(sizes.ctypes.data), ctypes.c_void_p(undefined.ctypes.data))
    return undefined


def _same(x: A, y: A, where: A | None) -> bool:
    """Whether the bits are equal; any NaN equals any NaN."""
    if x.dtype.kind == "c":
        part = f"f{x.dtype.itemsize // 2}"
        if where is not None:
            where = np.repeat(where.reshape(-1), 2)
        return _same(x.reshape(-1).view(part), y.reshape(-1).view(part), where)
    x, y = x.reshape(-1), y.reshape(-1)
    if where is not None:
        x, y = x[where.reshape(-1)], y[where.reshape(-1)]
    if x.dtype.kind != "f":
        return np.array_equal(x, y)
    bits = f"u{x.dtype.itemsize}"
    return bool(np.all((x.view(bits) == y.view(bits)) | (np.isnan(x) & np.isnan(y))))


# --- functions


_math = ["exact"]
"""The mode of the kernel that runs."""


@functools.cache
def _function(number: int, is_single: int, math: str) -> tuple[Any, int, float, np.dtype[Any]]:
    """The kernel of a function, its arity, its documented bound and its dtype."""
    from xferlib.kernels.c_frontend.functions import FLOAT_FUNCTIONS

    name = cpp_program.FUNCTIONS[number]
    dtype = np.dtype(np.float32 if is_single else np.float64)
    if name in special_functions.SPECIAL_FORMULAS:
        return (
            elementwise("T x", "T y", f"y = {name}(x)"),
            1,
            0.51 if is_single else special_functions.BOUNDS[name],
            dtype,
        )
    arity = functions.TABLE[FLOAT_FUNCTIONS[name]].arity
    found = functions.guarantee(FLOAT_FUNCTIONS[name], dtype).bound_ulp
    bound = (functions.TABLE[FLOAT_FUNCTIONS[name]].ulp64 or 1.0) if found is None else found
    if math == "fast" and is_single:
        bound = np.inf  # no bound is documented
    inputs = ", ".join(f"T x{k}" for k in range(arity))
    call = ", ".join(f"x{k}" for k in range(arity))
    return elementwise(inputs, "T y", f"y = {name}({call})", math=math), arity, bound, dtype


def _asked(number: int, x: float, y: float, is_single: int, bound: Any) -> float:
    kernel, arity, bound[0], dtype = _function(number, is_single, _math[0])
    return float(kernel(*(np.full(1, each, dtype) for each in (x, y)[:arity]))[0])


@functools.cache
def _complex_function(number: int, is_single: int, math: str) -> tuple[Any, int, np.dtype[Any]]:
    name = cpp_program.FUNCTIONS[number]
    dtype = np.dtype(np.complex64 if is_single else np.complex128)
    if name == "divide":
        return elementwise("T x, T y", "T z", "z = x / y", math=math), 2, dtype
    return elementwise("T x", "T y", f"y = {name}(x)", math=math), 1, dtype


def _asked_complex(number: int, x: Any, is_single: int, result: Any) -> None:
    kernel, arity, dtype = _complex_function(number, is_single, _math[0])
    values = [np.full(1, complex(x[2 * k], x[2 * k + 1]), dtype) for k in range(arity)]
    found = complex(kernel(*values)[0])
    result[0], result[1] = found.real, found.imag
