"""PTX's types and values in C."""

from __future__ import annotations

import struct
from functools import cache

from xferlib.kernels.cuda_cpu import ptx
from xferlib.kernels.cuda_cpu.ptx import NBYTES, Immediate

UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "xf_b128"}
_SIGNED = {1: "s8", 2: "s16", 4: "s32", 8: "s64"}


@cache
def name_c_type(ptx_type: str) -> str:
    if ptx_type == "pred":
        return "u32"
    if ptx_type in ("f32", "f64"):
        return ptx_type
    return (_SIGNED if ptx_type in ("s8", "s16", "s32", "s64") else UNSIGNED)[NBYTES[ptx_type]]


FLOATS = {"f32": 4, "f64": 8}
C_NBYTES = {name: nbytes for kinds in (UNSIGNED, _SIGNED) for nbytes, name in kinds.items()} | FLOATS


def convert_value(expression: str, source: str, target: str) -> str:
    """A C expression of one C type as another: bits stay, wider integers are extended, floats are never rounded."""
    if source == target:
        return expression
    if source in FLOATS:
        bits = f"xf_b{8 * C_NBYTES[source]}({expression})"
        plain = "u32" if source == "f32" else "u64"
        return bits if target == plain else convert_value(bits, plain, target)
    if target in FLOATS:
        plain = "u32" if target == "f32" else "u64"
        return f"xf_{target}({convert_value(expression, source, plain)})"
    if target == "xf_b128":
        return f"(xf_b128){{{expression}, 0}}"
    if source == "xf_b128":
        return f"({target})({expression}).x"
    return f"({target}){expression}" if expression.isidentifier() else f"({target})({expression})"


def write_integer(value: int, kind: str) -> str:
    nbits = 8 * C_NBYTES[kind]
    if kind == "xf_b128":
        return f"(xf_b128){{{value & (1 << 64) - 1}ull, {value >> 64 & (1 << 64) - 1}ull}}"
    value &= (1 << nbits) - 1
    if kind[0] == "u":
        return f"{value}ull" if nbits == 64 else f"{value}u" if nbits == 32 else f"(({kind}){value})"
    if value < 1 << (nbits - 1):
        return f"{value}ll" if nbits == 64 else str(value)
    return f"({kind}){value}ull" if nbits == 64 else f"({kind}){value}u"


def encode_float(value: float, kind: str) -> int:
    if kind == "f64":
        return int.from_bytes(struct.pack("<d", value), "little")
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0x7F800000 | (0x80000000 if value < 0 else 0)


def write_float(bits: int, kind: str) -> str:
    nbits, exponent = (32, 0x7F800000) if kind == "f32" else (64, 0x7FF0000000000000)
    if bits & exponent == exponent:
        return f"xf_{kind}({bits}{'u' if nbits == 32 else 'ull'})"
    value = ptx.float_of(Immediate(bits, nbits))
    return f"({value.hex()}{'f' if nbits == 32 else ''})"
