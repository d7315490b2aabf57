"""Approximate instructions against what an NVIDIA H200 gives, bit for bit: by digests of all results of a binade, and
by samples.

`h200_approximate.json` has the SHA-256 of the results for consecutive floats, for all operands of the narrow types, and
of the upper halves for all upper halves of a binade of double. `h200_approximate.npz` has operands, special ones first
(zeros, subnormal numbers, infinities, NaN), with results by instruction; `_ftz` where subnormal operands are 0.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.cuda_cpu.running import Program, runner
from tests.kernels.cuda_cpu.test_translate import evaluate_all, kernel
from tests.sizes import IS_LONG

OPERATIONS = ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh")
"""As in arithmetic.h."""

FOLDER = Path(__file__).parent
DIGESTS = json.loads((FOLDER / "h200_approximate.json").read_text())


@pytest.fixture(scope="module")
def samples() -> dict[str, np.ndarray]:
    with np.load(FOLDER / "h200_approximate.npz") as file:
        return dict(file)


def digest(results: np.ndarray) -> str:
    return hashlib.sha256(results.tobytes()).hexdigest()


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def assert_same_hex(results: np.ndarray, expected: np.ndarray, *operands: np.ndarray) -> None:
    """Bits, with the operands of the first that differs."""
    wrong = np.flatnonzero(results != expected)
    assert not wrong.size, (
        f"{wrong.size} of {results.size} differ, first of {[hex(o[wrong[0]]) for o in operands]}: "
        f"{results[wrong[0]]:#x}, not {expected[wrong[0]]:#x}"
    )


def choose_binades() -> list[tuple[str, float, int, str]]:
    """All binades in a long run; else one that reads an operation's whole table, which those of tanh do together."""
    rows: list[tuple[str, float, int, str]] = [tuple(row) for row in DIGESTS["binades"]]
    if IS_LONG:
        return rows
    return [*{row[0] if row[0] != "tanh" else row[:2]: row for row in rows}.values()]


@pytest.mark.parametrize(("name", "first", "binades", "expected"), choose_binades(), ids=lambda value: str(value)[:8])
def test_all_floats_of_a_binade(name: str, first: float, binades: int, expected: str) -> None:
    found, results = hashlib.sha256(), np.empty(1 << 17, np.uint32)  # as much as a cache holds
    bits = int(np.float32(first).view(np.uint32))
    for begin in range(bits, bits + (binades << 23), results.size):
        runner().approximate(OPERATIONS.index(name), 1, begin, None, pointer(results), results.size)
        found.update(results)
    assert found.hexdigest() == expected


@pytest.mark.parametrize("suffix", ["", "_ftz"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_special_and_random_floats(samples: dict[str, np.ndarray], name: str, suffix: str) -> None:
    x = samples["x"]
    results = np.empty_like(x)
    runner().approximate(OPERATIONS.index(name), suffix == "_ftz", 0, pointer(x), pointer(results), x.size)
    assert_same_hex(results, samples[name if name == "tanh" else name + suffix], x)


@pytest.mark.parametrize(
    ("instruction", "name"),
    [
        ("div.approx.f32", "div"),
        ("div.approx.ftz.f32", "div_ftz"),
        ("div.full.f32", "div_full"),
        ("div.full.ftz.f32", "div_full_ftz"),
    ],
)
def test_quotients(samples: dict[str, np.ndarray], instruction: str, name: str) -> None:
    a, b = samples["a"], samples["b"]
    results = np.empty_like(a)
    body = f"""mul.wide.u32 %rd1, %t, 4; ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b];
    add.u64 %out, %out, %rd1; add.u64 %rd2, %rd2, %rd1; add.u64 %rd3, %rd3, %rd1;
    ld.global.f32 %f1, [%rd2]; ld.global.f32 %f2, [%rd3]; {instruction} %f3, %f1, %f2; st.global.f32 [%out], %f3;"""
    program = Program(kernel(body, ".param .u64 out, .param .u64 a, .param .u64 b"))
    program.run("k", results, a, b, block=a.size)
    assert_same_hex(results, samples[name], a, b)


@pytest.mark.parametrize(("key", "expected"), DIGESTS["narrow"].items())
def test_all_operands_of_the_narrow_types(key: str, expected: str) -> None:
    name, kind = key.split("_")
    results = np.empty(1 << 16, np.uint16)
    runner().approximate_narrow(OPERATIONS.index(name), ["f16", "bf16"].index(kind), pointer(results))
    assert digest(results) == expected


@pytest.mark.parametrize(("name", "exponent", "expected"), DIGESTS["double"])
def test_all_upper_halves_of_double(name: str, exponent: int, expected: str) -> None:
    operands = (np.uint64(exponent) << np.uint64(20) | np.arange(1 << 20, dtype=np.uint64)) << np.uint64(32)
    results = np.empty_like(operands)
    runner().approximate_double(OPERATIONS.index(name), 1, pointer(operands), pointer(results), operands.size)
    assert digest((results >> np.uint64(32)).astype(np.uint32)) == expected
    assert not (results & np.uint64(0xFFFFFFFF)).any()


@pytest.mark.parametrize("name", ["rcp_f64", "rsqrt_ftz_f64", "rsqrt_f64"])
def test_special_and_random_doubles(samples: dict[str, np.ndarray], name: str) -> None:
    w = samples["w"]
    results = np.empty_like(w)
    operation = OPERATIONS.index(name.partition("_")[0])
    runner().approximate_double(operation, "ftz" in name, pointer(w), pointer(results), w.size)
    assert_same_hex(results, samples[name], w)


FORMS = {
    "rcp.approx.f32 0f007FFFFF": 0x7E800001,
    "rcp.approx.ftz.f32 0f007FFFFF": 0x7F800000,
    "rcp.approx.f32 0f7F7FFFFF": 0x00200000,
    "rcp.approx.ftz.f32 0f7F7FFFFF": 0,
    "rsqrt.approx.f32 0f00000001": 0x64B504F2,
    "rsqrt.approx.ftz.f32 0f80000001": 0xFF800000,
    "sqrt.approx.f32 0f007FFFFF": 0x1FFFFFFF,
    "sqrt.approx.ftz.f32 0f007FFFFF": 0,
    "lg2.approx.f32 0f00000001": 0xC3150000,
    "lg2.approx.ftz.f32 0f00000001": 0xFF800000,
    "lg2.approx.f32 0f00800000": 0xC2FBFFFF,
    "ex2.approx.f32 0fFF7FFFFF": 0,
    "sin.approx.f32 0f3F800000": 0x3F576AA3,
    "cos.approx.ftz.f32 0f3F800000": 0x3F0A5141,
    "tanh.approx.f32 0fBF800000": 0xBF42F848,
    "div.approx.f32 0f00000001, 0f00000001": 0x3F800000,
    "div.approx.f32 0f7F000000, 0f7F000000": 0,
    "div.approx.ftz.f32 0f00000001, 0f00000001": 0x7FFFFFFF,
    "div.full.f32 0f7F000000, 0f7F000000": 0x3F800000,
    "div.full.ftz.f32 0f00000001, 0f00000001": 0x7FFFFFFF,
}
"""The bits that instructions give."""


def test_instructions_of_ptx() -> None:
    """That each form of an instruction reaches its function. A register that is written twice is no constant."""
    bodies = []
    for form in FORMS:
        instruction, *operands = form.replace(",", "").split()
        names = [f"%f{number}" for number, _ in enumerate(operands, 2)]
        moves = (
            f"mov.f32 {name}, {bits};"
            for name, own in zip(names, operands, strict=True)
            for bits in ("0f00000000", own)
        )
        bodies.append(f"{' '.join(moves)} {instruction} %f1, {', '.join(names)};")
    found = evaluate_all(bodies, "f32", np.uint32, "%f1")[:, 0].tolist()
    assert {form: hex(bits) for form, bits in zip(FORMS, found, strict=True)} == {
        form: hex(bits) for form, bits in FORMS.items()
    }
