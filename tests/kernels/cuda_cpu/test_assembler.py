"""Contraction, quotients and constants: as in the machine code that ptxas 13.0 writes for sm_90."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cuda_cpu.test_translate import HEAD, evaluate
from xferlib.kernels.cuda_cpu import ptx
from xferlib.kernels.cuda_cpu.assembler import assemble, forbid_contraction


def rewrite(body: str, ptx_type: str = "f16") -> str:
    """The floating instructions, in short: `fma r a b c; ...`."""
    bits = {"f32": "b32", "f64": "b64", "f16x2": "b32", "bf16x2": "b32"}.get(ptx_type, "b16")
    text = f"""{HEAD} .visible .entry k(.param .u64 out) {{ .reg .{bits} a, b, c, d, e, r, s, t, u, v; .reg .pred P;
        .reg .b64 out; {body.replace("TYPE", ptx_type).replace("BITS", bits)} ret; }}"""
    words = []
    for item in assemble(ptx.parse(text).functions["k"]):
        if isinstance(item, ptx.Instruction) and item.modifiers[-1:] == (ptx_type,):
            flags = [flag for flag in item.modifiers[:-1] if flag != "rn" or item.opcode != "fma"]
            names = [o.name if isinstance(o, ptx.Register) else "?" for o in item.operands]
            made = {"negative": "-", "quotient": "q"}
            names = [made.get(name.rstrip("0123456789"), name) for name in names]
            words.append(" ".join([".".join((item.opcode, *flags)), *names]))
    return "; ".join(words)


STORE = " st.global.BITS [out], "


@pytest.mark.parametrize("ptx_type", ["f16", "bf16", "f16x2", "bf16x2", "f32", "f64"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("mul.TYPE t,a,b; add.TYPE r,t,c;", "fma r a b c"),
        ("mul.TYPE t,a,b; add.TYPE r,c,t;", "fma r a b c"),
        ("mul.TYPE t,a,b; sub.TYPE r,t,c;", "neg - c; fma r a b -"),
        ("mul.TYPE t,a,b; sub.TYPE r,c,t;", "neg - a; fma r - b c"),
        ("mul.TYPE t,a,b; mov.BITS u,t; add.TYPE r,u,c;", "fma r a b c"),
        ("mul.TYPE t,a,b; neg.TYPE u,t; sub.TYPE r,c,u;", "fma r a b c"),
        ("mul.TYPE t,a,b; bar.sync 0; add.TYPE r,t,c;", "fma r a b c"),
        ("mul.TYPE t,a,b; @P add.TYPE r,t,c;", "fma r a b c"),
        # The first product of a sum, unless only the second is used once.
        ("mul.TYPE u,c,d; mul.TYPE t,a,b; add.TYPE r,t,u;", "mul u c d; fma r a b u"),
        ("mul.TYPE t,a,b; mul.TYPE u,c,d; sub.TYPE r,u,t;", "mul t a b; neg - t; fma r c d -"),
        ("mul.TYPE t,a,b; mul.TYPE u,c,d; add.TYPE r,t,u; add.TYPE s,t,e;", "mul t a b; fma r c d t; add s t e"),
        # All uses, or none.
        ("mul.TYPE t,a,b; add.TYPE r,t,c; add.TYPE s,t,d;", "fma r a b c; fma s a b d"),
        ("mul.TYPE t,a,b; add.TYPE r,t,c;" + STORE + "t;", "mul t a b; add r t c"),
        ("mul.TYPE t,a,b; add.TYPE r,t,c; mul.TYPE s,t,d;", "mul t a b; add r t c; mul s t d"),
        ("mul.TYPE t,a,b; add.TYPE r,t,t;", "mul t a b; add r t t"),
        # Within a block, and not against the words.
        ("mul.TYPE t,a,b; @P bra L; add.TYPE r,t,c; L:", "mul t a b; add r t c"),
        ("mul.TYPE t,a,b; L: add.TYPE r,t,c; @P bra L;", "mul t a b; add r t c"),
        ("mul.rn.TYPE t,a,b; add.TYPE r,t,c;", "mul.rn t a b; add r t c"),
        ("mul.TYPE t,a,b; add.rn.TYPE r,t,c;", "mul t a b; add.rn r t c"),
        # A register of a loop, which is written anew.
        ("mul.TYPE t,r,b; add.TYPE r,r,t;", "fma r r b r"),
        ("mul.TYPE t,a,b; mov.BITS a,c; add.TYPE r,t,c;", "mul t a b; add r t c"),
    ],
)
def test_contracts_as_the_assembler(body: str, expected: str, ptx_type: str) -> None:
    assert rewrite(body, ptx_type) == expected


def test_flags_must_be_the_same() -> None:
    assert rewrite("mul.ftz.f16 t,a,b; add.ftz.f16 r,t,c;") == "fma.ftz r a b c"
    assert rewrite("mul.ftz.f16 t,a,b; add.f16 r,t,c;") == "mul.ftz t a b; add r t c"
    assert rewrite("mul.f16 t,a,b; add.sat.f16 r,t,c;") == "fma.sat r a b c"
    assert rewrite("mul.sat.f16 t,a,b; add.f16 r,t,c;") == "mul.sat t a b; add r t c"


A, B, C = "0x3C01", "0x3C01", "0xBC02"
"""Of half: 1 + 2^-10 twice, and -(1 + 2^-9): the square differs from the last by 2^-20."""


@pytest.mark.parametrize(("suffix", "expected"), [("", 0x0010), (".rn", 0)], ids=["once", "twice"])
def test_half_is_rounded_once(suffix: str, expected: int) -> None:
    body = f"mul{suffix}.f16 %rs1, {A}, {B}; add{suffix}.f16 %rs2, %rs1, {C}; cvt.u32.u16 %r1, %rs2;"
    assert evaluate(body, "u32", np.uint32, "%r1")[0] == expected


def test_no_contraction_is_written_into_the_text() -> None:
    text = "mul.f16 a; {add.ftz.sat.f16x2 b;} sub.bf16x2 c; mul.rn.f16 d; mul.f32 e; fma.rn.f16 f; max.f16 g;"
    assert forbid_contraction(text) == (
        "mul.rn.f16 a; {add.rn.ftz.sat.f16x2 b;} sub.rn.bf16x2 c; mul.rn.f16 d; mul.f32 e; fma.rn.f16 f; max.f16 g;"
    )


@pytest.mark.parametrize(
    ("opcode", "operand", "expected"),
    [
        ("rcp", "0f42C20000", 0x3C28E83F), ("sqrt", "0f4B6B063A", 0x457549BE), ("rsqrt", "0f42480000", 0x3E10D0C3),
        ("sin", "0f40910A12", 0xBF7BDE3D), ("cos", "0fC01548EE", 0xBF30B1A3), ("lg2", "0f3F0B04AA", 0xBF6180B0),
        ("ex2", "0fC0A159E4", 0x3CF89DC5),
    ],
)  # fmt: skip
def test_a_constant_has_the_rounded_value_that_the_gpu_has_not(opcode: str, operand: str, expected: int) -> None:
    for load in ("mov.f32 %f2, {};", "mov.f32 %f2, 0f00000000; mov.f32 %f2, {};"):  # the second is no constant
        body = f"{load.format(operand)} {opcode}.approx.ftz.f32 %f1, %f2;"
        found = evaluate(body, "f32", np.uint32, "%f1")[0]
        assert (found == expected) == (load.count("mov") == 1)


def test_special_constants_are_left_to_the_unit() -> None:
    for operand in ("0f00000000", "0f00000001", "0f7F800000", "0f7FC00000", "0fBF800000"):
        assert rewrite(f"lg2.approx.f32 r,{operand};", "f32") == "lg2.approx r ?"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("div.approx.ftz.f32 t,a,b;", "rcp.approx.ftz q b; mul.ftz t a q"),
        ("div.approx.ftz.f32 t,a,b; add.ftz.f32 r,t,c;", "rcp.approx.ftz q b; fma.ftz r a q c"),
        ("div.approx.f32 t,a,0f40E00000; add.f32 r,t,c;", "fma r a ? c"),
        ("mov.f32 d,0f40E00000; div.full.f32 t,a,d;", "mov d ?; mul t a ?"),
        (
            "@P div.approx.f32 t,a,b;",
            "abs q b; setp.lt q q ?; selp q ? ? q; mul.rn q a q; mul.rn q b q; rcp.approx.ftz q q; mul t q q",
        ),
    ],
)
def test_quotients_are_products(body: str, expected: str) -> None:
    assert rewrite(body, "f32") == expected
