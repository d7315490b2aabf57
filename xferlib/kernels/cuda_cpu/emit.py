"""PTX as C: each kernel becomes a function of kernel.h, and each place that can be at fault a site with its line.

`translate` returns a complete C text: the headers are in it, so that it compiles anywhere, also in memory. Compile it
with the options of `C_OPTIONS`. A library of it exports each kernel by `Kernel.symbol`, and
`void xf_init_module(char *block)`, which completes a block of the module's variables (addresses of variables and
functions) after their initial bytes were copied. The block's address is `xf_launch.module`: one library serves any
number of loaded modules.

What becomes of PTX's types: a register is a C variable of its size, unsigned or, where it mostly holds floats, a float
(NVRTC declares `.b32` for both); each instruction reads its operands as the type that it names. All integer
arithmetic is unsigned, as signed overflow has no meaning in C. Loops count `t->budget` down at their backward branches.

Where C differs from the GPU: NaN results of float are 0x7fffffff; shifts by more than the width give 0 or the sign;
division of integers by 0 gives all ones; conversions to integers clamp. min and max ignore NaN, and order the zeros.
Registers that a program reads before it has written them are 0.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePath
from typing import NoReturn

from xferlib.kernels.cuda_cpu import dataflow, ptx
from xferlib.kernels.cuda_cpu.assembler import assemble
from xferlib.kernels.cuda_cpu.dataflow import NO_EFFECT, STRONG, find_registers
from xferlib.kernels.cuda_cpu.ptx import (
    NBYTES,
    Address,
    Immediate,
    Instruction,
    Module,
    NoOperand,
    Not,
    Operand,
    OperandList,
    Pair,
    PtxError,
    PtxFunction,
    PtxLabel,
    PtxVariable,
    Register,
    Special,
    Symbol,
    Vector,
)
from xferlib.kernels.cuda_engine import USUAL_SHARED_NBYTES

C_OPTIONS = (
    "-O1",
    "-std=gnu11",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fno-math-errno",
    "-w",
    "-fcaller-saves",
    "-fno-asynchronous-unwind-tables",
)
SHARED_BEGIN = 1024  # XF_SHARED_BEGIN
_MOST_JOINS = 32  # XF_JOINS
_MOST_LOCAL_NBYTES = 512 << 10  # of one thread, as on every GPU
_MOST_BLOCK_NBYTES = 4 << 30
_MOST_PASSED = 8  # XF_PASSED
_MOST_CALLERS = 3  # in words: more say no more
_FUNCTIONS_BEGIN = 0xF0F << 52  # no address that a machine has
REDZONE = 32  # bytes on each side of a variable in checked code: an index that is wrong by a few is seen


@dataclass(frozen=True, slots=True)
class InlinedCall:
    """A place in the source where a function's text replaced its call."""

    function: str
    file: str
    line: int


@dataclass(frozen=True, slots=True)
class FaultSite:
    """Where a fault can be. `line` is 0 where the PTX has no lines; then `ptx_line` is all that is known."""

    file: str
    line: int
    column: int
    instruction: str
    function: str  # the PTX function: a kernel, or a function that kernels call
    ptx_line: int
    inlined: tuple[InlinedCall, ...] = ()  # the innermost call first; the function is the callee
    is_whole: bool = True  # all calls are known
    source_lines: tuple[
        int, ...
    ] = ()  # in the file of the kernels: that of the place or of a call, the innermost first

    @property
    def source_line(self) -> int:
        """The line in the file of the kernels, where a header's function is called; 0 where that is not known."""
        return self.source_lines[0] if self.source_lines else 0

    @property
    def words(self) -> str:
        """The place as people name it: the line of the source, the header's that it calls, and what calls it."""
        if not self.line:
            return f"line {self.ptx_line} of the PTX"
        header = f"{PurePath(self.file).name}:{self.line}"
        if not self.source_lines:
            return header
        line, *callers = self.source_lines
        return "".join(
            [
                f"line {line}",
                f" ({header})" * (line != self.line),
                *(f", called at line {each}" for each in callers[:_MOST_CALLERS]),
            ]
        )


def make_site(function: PtxFunction, instruction: Instruction, sources: Collection[str]) -> FaultSite:
    """Where an instruction stands; ``sources`` are the files of the kernels."""
    place = instruction.place
    if place is None:
        return FaultSite("", 0, 0, instruction.text, function.name, instruction.line)
    file = function.files.get(place.file, "")
    calls, frames, is_whole = [], [(file, place.line)], place.is_whole
    inner = place
    while inner.inlined_at:
        outer = inner.inlined_at
        called_in = function.files.get(outer.file, "")
        calls.append(InlinedCall(inner.function, called_in, outer.line))
        frames.append((called_in, outer.line))
        is_whole &= outer.is_whole
        inner = outer
    source_lines = tuple(line for name, line in frames if name in sources)
    return FaultSite(
        file, place.line, place.column, instruction.text, function.name, instruction.line, tuple(calls), is_whole,
        source_lines,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class KernelParameter:
    name: str
    offset: int
    nbytes: int
    align: int


@dataclass(frozen=True, slots=True)
class SharedVariable:
    name: str
    offset: int  # in the shared window
    nbytes: int


@dataclass(slots=True)
class Kernel:
    name: str
    symbol: str  # of the C function
    params: tuple[KernelParameter, ...]
    params_nbytes: int
    shared: tuple[SharedVariable, ...]
    shared_nbytes: int  # from SHARED_BEGIN on, with redzones: xf_launch.static_nbytes
    static_nbytes: int  # what the GPU would say
    dynamic_align: int  # of dynamic shared memory; 0: it has none
    needs_fibers: bool
    is_cooperative: bool  # waits for the whole grid
    maxntid: tuple[int, ...]
    reqntid: tuple[int, ...]
    local_nbytes: int  # local variables of the kernel and of all functions that it may call, each once
    is_recursive: bool  # or calls through pointers: local_nbytes is only one level of it


@dataclass(frozen=True, slots=True)
class ModuleVariable:
    name: str
    space: str  # global or const
    offset: int  # in the module's block
    nbytes: int
    align: int
    is_visible: bool
    initial: bytes  # empty: zeros


class UncoveredError(PtxError):
    """A GPU runs the instruction, this translator does not. `site` says where in the CUDA source it stands."""

    def __init__(self, message: str, site: FaultSite) -> None:
        super().__init__(message, site.ptx_line)
        self.site = site


@dataclass(slots=True)
class CTranslation:
    text: str
    kernels: dict[str, Kernel]
    variables: dict[str, ModuleVariable]
    block_nbytes: int  # of the module's variables
    block_align: int
    sites: list[FaultSite]
    uncovered: dict[str, UncoveredError]  # kernels that were left out, and why

    @property
    def places(self) -> list[int]:
        """A number of each site's place in the source, the same for copies of one place; 0 where it is not known.

        A line is not enough: a header's barrier is at one line for all its calls.
        """
        numbers: dict[tuple[object, ...], int] = {}
        keys = [(site.file, site.line, site.inlined) if site.is_whole and site.line else None for site in self.sites]
        return [0 if key is None else numbers.setdefault(key, len(numbers) + 1) for key in keys]

    def block(self) -> bytes:
        """The initial bytes of the module's variables; `xf_init_module` adds the addresses."""
        data = bytearray(self.block_nbytes)
        for variable in self.variables.values():
            data[variable.offset : variable.offset + len(variable.initial)] = variable.initial
        return bytes(data)


# C types

_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "xf_b128"}
_SIGNED = {1: "s8", 2: "s16", 4: "s32", 8: "s64"}


@cache
def _ctype(ptx_type: str) -> str:
    if ptx_type == "pred":
        return "u32"
    if ptx_type in ("f32", "f64"):
        return ptx_type
    return (_SIGNED if ptx_type in ("s8", "s16", "s32", "s64") else _UNSIGNED)[NBYTES[ptx_type]]


_CTYPE_NBYTES = {
    "u8": 1,
    "s8": 1,
    "u16": 2,
    "s16": 2,
    "u32": 4,
    "s32": 4,
    "f32": 4,
    "u64": 8,
    "s64": 8,
    "f64": 8,
    "xf_b128": 16,
}
_FLOATS = ("f32", "f64")
_NARROW = {"f16": "XF_HALF", "bf16": "XF_BFLOAT"}
_PACKED = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16", "f32x2": "f32"}
_MODES = {"rn": "XF_RN", "rz": "XF_RZ", "rm": "XF_RM", "rp": "XF_RP", "rna": "XF_RNA",
          "rni": "XF_RN", "rzi": "XF_RZ", "rmi": "XF_RM", "rpi": "XF_RP"}  # fmt: skip
_SPACES = ("global", "shared", "local", "const", "param")
_SPACE_FLAG = {"global": "XF_GLOBAL", "shared": "XF_SHARED", "local": "XF_LOCAL", "const": "XF_CONST"}
_SCOPES = {"cta", "cluster", "gpu", "sys"}
_CACHE = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified"}
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_ATOMICS = {"add": "XF_ADD", "min": "XF_MIN", "max": "XF_MAX", "inc": "XF_INC", "dec": "XF_DEC", "and": "XF_AND",
            "or": "XF_OR", "xor": "XF_XOR", "exch": "XF_EXCH", "cas": "XF_CAS"}  # fmt: skip
_ATOMIC_TYPES = {"b16": "XF_U16", "u16": "XF_U16", "b32": "XF_U32", "u32": "XF_U32", "s32": "XF_S32", "b64": "XF_U64",
                 "u64": "XF_U64", "s64": "XF_S64", "f16": "XF_F16", "f16x2": "XF_F16X2", "bf16": "XF_BF16",
                 "bf16x2": "XF_BF16X2", "f32": "XF_F32", "f64": "XF_F64", "b128": "XF_B128"}  # fmt: skip
_NEEDS_FIBERS = {"bar", "barrier", "shfl", "vote", "match", "redux", "activemask", "elect", "nanosleep"}
_BUILTINS = {"vprintf": 2, "__assertfail": 5, "malloc": 1, "free": 1}
# Instructions that make a canonical NaN of every NaN, so that it does not matter which one they are given.
_NAN_BLIND = {
    "add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "min", "max",
    "setp", "set", "testp",
}  # fmt: skip

# Helpers in C: those that a text uses, and what they use, stand before it.

_HELPERS = {
    "xf_b128": "typedef struct { u64 x, y; } xf_b128;",
    "xf_f32": "static inline f32 xf_f32(u32 a) { union { u32 u; f32 f; } x; x.u = a; return x.f; }",
    "xf_b32": "static inline u32 xf_b32(f32 a) { union { u32 u; f32 f; } x; x.f = a; return x.u; }",
    "xf_f64": "static inline f64 xf_f64(u64 a) { union { u64 u; f64 f; } x; x.u = a; return x.f; }",
    "xf_b64": "static inline u64 xf_b64(f64 a) { union { u64 u; f64 f; } x; x.f = a; return x.u; }",
    "xf_nan": "static inline f32 xf_nan(f32 a) { return a == a ? a : xf_f32(0x7fffffffu); }",
    "xf_ftz": """static inline f32 xf_ftz(f32 a) {
    return (xf_b32(a) & 0x7f800000u) ? a : xf_f32(xf_b32(a) & 0x80000000u);
}""",
    "xf_sat": "static inline f32 xf_sat(f32 a) { return a > 0 ? a < 1 ? a : 1.0f : 0.0f; }",
    "xf_sat64": "static inline f64 xf_sat64(f64 a) { return a > 0 ? a < 1 ? a : 1.0 : 0.0; }",
    "xf_fma32": """#if defined(__FMA__) || defined(__aarch64__)
#define xf_fma32(m, a, b, c) __builtin_fmaf(a, b, c)
#else
#define xf_fma32(m, a, b, c) (m)->fma_f32(a, b, c, XF_RN)
#endif""",
    "xf_fma64": """#if defined(__FMA__) || defined(__aarch64__)
#define xf_fma64(m, a, b, c) __builtin_fma(a, b, c)
#else
#define xf_fma64(m, a, b, c) (m)->fma_f64(a, b, c, XF_RN)
#endif""",
    "xf_sqrt32": """#if defined(__TINYC__)
#define xf_sqrt32(m, a) (m)->sqrt_f32(a, XF_RN)
#else
#define xf_sqrt32(m, a) __builtin_sqrtf(a)
#endif""",
    "xf_sqrt64": """#if defined(__TINYC__)
#define xf_sqrt64(m, a) (m)->sqrt_f64(a, XF_RN)
#else
#define xf_sqrt64(m, a) __builtin_sqrt(a)
#endif""",
    "xf_f32_from_u64": """#if defined(__TINYC__)
#define xf_f32_from_u64(m, a) (m)->f32_from_u64(a, XF_RN)
#else
#define xf_f32_from_u64(m, a) ((f32)(a))
#endif""",
    "xf_f64_from_u64": """#if defined(__TINYC__)
#define xf_f64_from_u64(m, a) (m)->f64_from_u64(a, XF_RN)
#else
#define xf_f64_from_u64(m, a) ((f64)(a))
#endif""",
    "xf_popc": """static inline u32 xf_popc(u64 a) {
    a -= a >> 1 & 0x5555555555555555ull;
    a = (a & 0x3333333333333333ull) + (a >> 2 & 0x3333333333333333ull);
    a = (a + (a >> 4)) & 0x0f0f0f0f0f0f0f0full;
    return (u32)(a * 0x0101010101010101ull >> 56);
}""",
    "xf_clz64": """static inline u32 xf_clz64(u64 a) {
#if defined(__TINYC__)
    u32 n = 0;
    if (!a) return 64;
    while (!(a >> 63)) a <<= 1, n++;
    return n;
#else
    return a ? __builtin_clzll(a) : 64;
#endif
}""",
    "xf_clz32": "static inline u32 xf_clz32(u32 a) { return xf_clz64(a) - 32; }",
    "xf_brev32": """static inline u32 xf_brev32(u32 a) {
    a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
    a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
    a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
    a = (a >> 8 & 0x00ff00ffu) | (a & 0x00ff00ffu) << 8;
    return a >> 16 | a << 16;
}""",
    "xf_brev64": """static inline u64 xf_brev64(u64 a) {
    return (u64)xf_brev32((u32)a) << 32 | xf_brev32((u32)(a >> 32));
}""",
    "xf_mulhi_u64": """static inline u64 xf_mulhi_u64(u64 a, u64 b) {
#if defined(__SIZEOF_INT128__)
    return (u64)((unsigned __int128)a * b >> 64);
#else
    u64 al = (u32)a, ah = a >> 32, bl = (u32)b, bh = b >> 32;
    u64 low = al * bl, one = ah * bl + (low >> 32), two = al * bh + (u32)one;
    return ah * bh + (one >> 32) + (two >> 32);
#endif
}""",
    "xf_mulhi_s64": """static inline u64 xf_mulhi_s64(u64 a, u64 b) {
    return xf_mulhi_u64(a, b) - ((s64)a < 0 ? b : 0) - ((s64)b < 0 ? a : 0);
}""",
    "xf_adds": """static inline u32 xf_adds(s32 a, s32 b) {
    s64 sum = (s64)a + b;
    return (u32)(sum > 0x7fffffff ? 0x7fffffff : sum < -0x80000000ll ? -0x80000000ll : sum);
}""",
    "xf_subs": """static inline u32 xf_subs(s32 a, s32 b) {
    s64 sum = (s64)a - b;
    return (u32)(sum > 0x7fffffff ? 0x7fffffff : sum < -0x80000000ll ? -0x80000000ll : sum);
}""",
    "xf_bfind": """static inline u32 xf_bfind(u64 a, u32 nbits, u32 is_signed, u32 shift_amount) {
    if (is_signed && a >> (nbits - 1) & 1) a = ~a;
    if (nbits == 32) a = (u32)a;
    return !a ? 0xffffffffu : shift_amount ? nbits - 64 + xf_clz64(a) : 63 - xf_clz64(a);
}""",
    "xf_fns": """static inline u32 xf_fns(u32 mask, u32 base, s32 offset) {
    s32 at = (s32)base, step = offset < 0 ? -1 : 1, count = offset == 0 ? 1 : offset < 0 ? -offset : offset;
    if (offset == 0) return base < 32 && mask >> base & 1 ? base : 0xffffffffu;
    for (; at >= 0 && at < 32; at += step)
        if (mask >> at & 1 && --count == 0) return (u32)at;
    return 0xffffffffu;
}""",
    "xf_bfe": """static inline u64 xf_bfe(u64 a, u32 begin, u32 count, u32 nbits, u32 is_signed) {
    u64 sign;
    begin &= 255, count &= 255;
    if (!count) return 0;
    sign = is_signed ? a >> (begin + count - 1 < nbits - 1 ? begin + count - 1 : nbits - 1) & 1 : 0;
    a = begin >= nbits ? 0 : (nbits == 32 ? (u32)a : a) >> begin;
    if (begin + count > nbits) count = begin >= nbits ? 0 : nbits - begin;
    if (count >= 64) return a;
    a &= (1ull << count) - 1;
    return sign ? a | ~0ull << count : a;
}""",
    "xf_bfi": """static inline u64 xf_bfi(u64 a, u64 b, u32 begin, u32 count, u32 nbits) {
    u64 mask;
    begin &= 255, count &= 255;
    if (begin >= nbits || !count) return b;
    mask = (count >= 64 ? ~0ull : (1ull << count) - 1) << begin;
    return (b & ~mask) | (a << begin & mask);
}""",
    "xf_bmsk": """static inline u32 xf_bmsk(u32 begin, u32 count, u32 wrap) {
    u64 mask;
    if (wrap) begin &= 31, count &= 31;
    if (begin >= 32) return 0;
    mask = count >= 32 ? 0xffffffffull : (1ull << count) - 1;
    return (u32)(mask << begin);
}""",
    "xf_szext": """static inline u32 xf_szext(u32 a, u32 count, u32 wrap, u32 is_signed) {
    if (wrap) count &= 31;
    if (!count) return 0;
    if (count >= 32) return a;
    a &= (1u << count) - 1;
    return is_signed && a >> (count - 1) & 1 ? a | 0xffffffffu << count : a;
}""",
    "xf_shf_l": """static inline u32 xf_shf_l(u32 a, u32 b, u32 n, u32 wrap) {
    n = wrap ? n & 31 : n > 32 ? 32 : n;
    return n == 0 ? b : n == 32 ? a : b << n | a >> (32 - n);
}""",
    "xf_shf_r": """static inline u32 xf_shf_r(u32 a, u32 b, u32 n, u32 wrap) {
    n = wrap ? n & 31 : n > 32 ? 32 : n;
    return n == 0 ? a : n == 32 ? b : b << (32 - n) | a >> n;
}""",
    "xf_prmt_byte": """static inline u32 xf_prmt_byte(u64 bytes, u32 selector) {
    u32 byte = (u32)(bytes >> (selector & 7) * 8) & 255;
    return selector & 8 ? byte >> 7 ? 255 : 0 : byte;
}""",
    "xf_prmt": """static inline u32 xf_prmt(u32 a, u32 b, u32 c) {
    u64 bytes = (u64)b << 32 | a;
    return xf_prmt_byte(bytes, c) | xf_prmt_byte(bytes, c >> 4) << 8 | xf_prmt_byte(bytes, c >> 8) << 16 |
           xf_prmt_byte(bytes, c >> 12) << 24;
}""",
    "xf_prmt_mode": """static inline u32 xf_prmt_mode(u32 a, u32 b, u32 c, u32 mode) {
    static const u16 table[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
        {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333}, {0x0000, 0x1110, 0x2210, 0x3210},
        {0x1010, 0x3232, 0x1010, 0x3232}};
    return xf_prmt(a, b, table[mode][c & 3]);
}""",
    "xf_dot": """static inline u32 xf_dot4(u32 a, u32 b, u32 c, u32 a_signed, u32 b_signed) {
    u32 i;
    for (i = 0; i < 32; i += 8)
        c += (u32)((a_signed ? (s32)(s8)(a >> i) : (s32)(u8)(a >> i)) *
                   (b_signed ? (s32)(s8)(b >> i) : (s32)(u8)(b >> i)));
    return c;
}
static inline u32 xf_dot2(u32 a, u32 b, u32 c, u32 a_signed, u32 b_signed) {
    u32 i;
    for (i = 0; i < 2; i++)
        c += (u32)((a_signed ? (s32)(s16)(a >> i * 16) : (s32)(u16)(a >> i * 16)) *
                   (b_signed ? (s32)(s8)(b >> i * 8) : (s32)(u8)(b >> i * 8)));
    return c;
}""",
    "xf_neg64": "static inline f64 xf_neg64(f64 a) { return a == a ? -a : a; }",
    "xf_abs64": "static inline f64 xf_abs64(f64 a) { return a == a ? xf_f64(xf_b64(a) & ~(1ull << 63)) : a; }",
    "xf_half": """static inline f32 xf_half(u32 a) {
    u32 size = (a & 0x7fffu) << 13;
    f32 b = xf_f32(size) * 0x1p112f;
    if (size >= 0x0f800000u) b = xf_f32(size > 0x0f800000u ? 0x7fffffffu : 0x7f800000u);
    return size > 0x0f800000u ? b : xf_f32(xf_b32(b) | (a & 0x8000u) << 16);
}""",
    "xf_bfloat": "static inline f32 xf_bfloat(u32 a) { return xf_f32(a << 16); }",
    "xf_narrow_ftz": "static inline u32 xf_narrow_ftz(u32 a, u32 exponent) { return a & exponent ? a : a & 0x8000u; }",
    "xf_narrow_sat": """static inline u32 xf_narrow_sat(u32 a, u32 one, u32 infinity) {
    return a & 0x8000u || a > infinity ? 0 : a > one ? one : a;
}""",
    "xf_narrow_relu": "static inline u32 xf_narrow_relu(u32 a) { return a & 0x8000u ? 0 : a; }",
    "xf_to_s32": """static inline s32 xf_to_s32(f64 a, u32 nan) {
    return a >= -0x1p31 && a < 0x1p31 ? (s32)a : a != a ? (s32)nan : a < 0 ? (s32)0x80000000u : 0x7fffffff;
}""",
    # Rare: with -fcaller-saves the compiler keeps registers in the loop, and saves them around the call only.
    "XF_TICK": """#if defined(__TINYC__)
#define XF_TICK(site) do { if (--t->budget <= 0) run->tick(t, site); } while (0)
#else
#define XF_TICK(site) do { if (__builtin_expect(--t->budget <= 0, 0)) run->tick(t, site); } while (0)
#endif""",
}
for _nbits in (16, 32, 64):
    _u, _s = f"u{_nbits}", f"s{_nbits}"
    _HELPERS[f"xf_div_{_u}"] = f"static inline {_u} xf_div_{_u}({_u} a, {_u} b) {{ return b ? a / b : ({_u})~0ull; }}"
    _HELPERS[f"xf_rem_{_u}"] = f"static inline {_u} xf_rem_{_u}({_u} a, {_u} b) {{ return b ? a % b : ({_u})~0ull; }}"
    _HELPERS[f"xf_div_{_s}"] = (
        f"static inline {_u} xf_div_{_s}({_s} a, {_s} b) {{ "
        f"return !b ? ({_u})~0ull : b == -1 ? ({_u})(0 - ({_u})a) : ({_u})(a / b); }}"
    )
    _HELPERS[f"xf_rem_{_s}"] = (
        f"static inline {_u} xf_rem_{_s}({_s} a, {_s} b) {{ return !b ? ({_u})~0ull : b == -1 ? 0 : ({_u})(a % b); }}"
    )
for _nbits, _name, _sign, _is_first in (
    (32, "min", "<", ""), (32, "max", ">", "!"), (64, "min", "<", ""), (64, "max", ">", "!"),
):  # fmt: skip
    _HELPERS[f"xf_{_name}{_nbits}"] = f"""static inline f{_nbits} xf_{_name}{_nbits}(f{_nbits} a, f{_nbits} b) {{
    if (a != a) return b;
    if (b != b) return a;
    return a {_sign} b || (a == b && {_is_first}(xf_b{_nbits}(a) >> {_nbits - 1})) ? a : b;
}}"""
_HELPER_NAME = re.compile(r"\b(xf_\w+|XF_TICK)\b")
_HELPER_OF = {"xf_dot4": "xf_dot", "xf_dot2": "xf_dot"}


def _helpers(text: str) -> str:
    chosen: dict[str, str] = {}

    def add(source: str) -> None:
        for name in dict.fromkeys(_HELPER_NAME.findall(source)):
            name = _HELPER_OF.get(name, name)
            if name in _HELPERS and name not in chosen:
                chosen[name] = ""
                add(_HELPERS[name])
                del chosen[name]
                chosen[name] = _HELPERS[name]

    add(text)
    return "\n".join(chosen.values())


@cache
def _headers() -> str:
    folder = Path(__file__).parents[2] / "_native" / "emulator"
    text = "".join((folder / name).read_text("utf-8") for name in ("kernel.h", "arithmetic.h"))
    text = re.sub(r"/\*.*?\*/|^#include[^\n]*", "", text, flags=re.DOTALL | re.MULTILINE)
    return "#define XF_KERNEL_ONLY 1\n" + re.sub(r"\n\s*\n+", "\n", text)


def _sanitise(name: str) -> str:
    return re.sub(r"\W", "_", name.lstrip("%"))


def _align_up(value: int, align: int) -> int:
    return -(-value // align) * align


# ---- what a module holds, and where ----


class ModuleLayout:
    """Offsets of module variables and of shared variables, and which functions a kernel may reach."""

    def __init__(self, module: Module, checked: bool) -> None:
        self.module = module
        self.gap = REDZONE if checked else 0  # in shared memory
        self.variables: dict[str, ModuleVariable] = {}
        self.offsets: dict[int, int] = {}  # by the identity of the variable
        self.relocations: list[tuple[int, PtxVariable]] = []
        self.block_nbytes = 0
        self.block_align = 16
        self.const_begin = self.const_end = 0
        self.uses = {
            name: self.collect(function) for name, function in module.functions.items() if function.body is not None
        }
        self.lay_out_block()

    def resolve(self, name: str, function: PtxFunction | None) -> PtxFunction | PtxVariable | None:
        """The meaning of a name in a function."""
        name = function.aliases.get(name, name) if function else name
        name = self.module.aliases.get(name, name)
        return self.module.variables.get(name) or self.module.functions.get(name)

    def collect(self, function: PtxFunction) -> tuple[list[str], dict[int, PtxVariable]]:
        """The functions and the variables that a function names."""
        functions: dict[str, None] = {}
        variables: dict[int, PtxVariable] = {}

        def visit(operand: Operand) -> None:
            if isinstance(operand, Symbol):
                target = operand.target
                found = self.resolve(target, function) if isinstance(target, str) else target
                if isinstance(found, PtxVariable):
                    variables[id(found)] = found
                elif isinstance(found, PtxFunction):
                    functions[found.name] = None
            elif isinstance(operand, Address):
                visit(operand.base)
            elif isinstance(operand, Vector | OperandList):
                for item in operand.items:
                    visit(item)

        for instruction in function.body or ():
            if isinstance(instruction, Instruction):
                for operand in instruction.operands:
                    visit(operand)
        return list(functions), variables

    def reach(self, roots: Iterable[str]) -> list[str]:
        found: dict[str, None] = {}
        waiting = list(roots)
        while waiting:
            name = waiting.pop()
            if name in found or name not in self.uses:
                continue
            found[name] = None
            waiting.extend(self.uses[name][0])
        return list(found)

    def lay_out_block(self) -> None:
        everything = [variable for variable in self.module.variables.values() if variable.space in ("global", "const")]
        for function in self.module.functions.values():
            everything.extend(variable for variable in function.variables if variable.space in ("global", "const"))
        everything.sort(key=lambda variable: variable.space)  # the constants first, together: isspacep.const
        at = REDZONE  # in unchecked code too: both kinds may use the same memory
        for variable in everything:
            if variable.is_extern:
                continue
            at = _align_up(at, max(variable.align, 1))
            self.block_align = max(self.block_align, variable.align)
            self.offsets[id(variable)] = at
            name = variable.name if variable.name not in self.variables else f"{variable.function}::{variable.name}"
            self.variables[name] = ModuleVariable(
                name, variable.space, at, variable.nbytes, variable.align, variable.is_visible, variable.initial
            )
            if variable.relocations:
                self.relocations.append((at, variable))
            at += variable.nbytes + REDZONE
            if variable.space == "const":
                self.const_end = at
        self.block_nbytes = max(_align_up(at, 16), 16)
        if self.block_nbytes > _MOST_BLOCK_NBYTES:
            raise PtxError(
                f"the module's variables take {self.block_nbytes} bytes, and the most is {_MOST_BLOCK_NBYTES}; use "
                "arrays"
            )
        self.arrange_window()

    def arrange_window(self) -> None:
        """Variables of the module and of functions have one offset for all kernels; those of kernels begin after."""
        self.common: list[PtxVariable] = [
            v for v in self.module.variables.values() if v.space == "shared" and not v.is_extern
        ]
        self.own: dict[str, list[PtxVariable]] = {}
        for function in self.module.functions.values():
            variables = [v for v in function.variables if v.space == "shared" and not v.is_extern]
            if function.is_entry:
                self.own[function.name] = variables
            else:
                self.common.extend(variables)
        self.shared_end: dict[int, int] = {}
        self.assign_offsets(self.common, SHARED_BEGIN)
        self.reached: dict[str, list[str]] = {}
        for function in self.module.functions.values():
            if function.is_entry and function.body is not None:
                self.reached[function.name] = self.reach([function.name])
                begin = max((self.shared_end[id(v)] for v in self.used_common(function.name)), default=SHARED_BEGIN)
                self.assign_offsets(self.own[function.name], begin)

    def assign_offsets(self, variables: list[PtxVariable], at: int) -> None:
        for variable in variables:
            at = _align_up(at + self.gap, max(variable.align, 1))
            self.offsets[id(variable)] = at
            at += variable.nbytes
            self.shared_end[id(variable)] = at + self.gap

    def used_common(self, kernel: str) -> list[PtxVariable]:
        used: dict[int, PtxVariable] = {}
        for name in self.reached[kernel]:
            used.update(self.uses[name][1])
        return [variable for variable in self.common if id(variable) in used]

    def find_window(self, kernel: str) -> list[PtxVariable]:
        return [*self.used_common(kernel), *self.own[kernel]]

    def dynamic_align(self, kernel: str) -> int:
        aligns = [0]
        for name in self.reached[kernel]:
            aligns += [v.align for v in self.uses[name][1].values() if v.space == "shared" and v.is_extern]
        return max(aligns)


def translate(module: Module, *, checked: bool, partial: bool = False, finds_overflow: bool = False) -> CTranslation:
    """Write the C text of all kernels of a module.

    Args:
        module: What `ptx.parse` returned.
        checked: Each access goes through `run->access`, `store` or `atomic`, and variables have redzones between them.
        partial: Leave out kernels that are not covered, and say in `uncovered` why.
        finds_overflow: In checked code, report a signed product or sum that does not fit in 32 bits, where it is
            widened to be part of an address.

    Raises:
        UncoveredError: A kernel, or a function that it may call, has an instruction that is not covered.
        PtxError: A name is not defined, or operands do not fit their instruction.
    """
    return _ModuleWriter(module, checked, partial, finds_overflow).write()


class _ModuleWriter:
    def __init__(self, module: Module, checked: bool, partial: bool, finds_overflow: bool) -> None:
        self.module = module
        self.checked = checked
        self.finds_overflow = finds_overflow
        self.partial = partial
        for function in module.functions.values():
            if function.body is not None:
                function.body = assemble(function)
        self.layout = ModuleLayout(module, checked)
        self.sites: list[FaultSite] = []
        self.entries = [f for f in module.functions.values() if f.is_entry and f.body is not None]
        self.numbers = {name: number for number, name in enumerate(module.functions)}
        required = {name for entry in self.entries for name in self.layout.reached[entry.name]}
        named = [
            relocation.target for _, variable in self.layout.relocations for relocation in variable.relocations
            if relocation.target in module.functions
        ]  # fmt: skip
        self.optional = [name for name in self.layout.reach(named) if name not in required]
        self.required = [name for name in module.functions if name in required]
        self.ends = self.find_ends()
        self.passes_doubts = checked and self.finds_doubts()
        self.sources = {self.find_source(entry) for entry in self.entries}

    @staticmethod
    def find_source(entry: PtxFunction) -> str:
        """The file of a kernel; empty where the PTX has no lines."""
        place = next((i.place for i in entry.body or () if isinstance(i, Instruction) and i.place), None)
        while place and place.inlined_at:
            place = place.inlined_at
        return entry.files.get(place.file, "") if place else ""

    def finds_doubts(self) -> bool:
        """Whether a function may give another one what has no value."""
        functions = [self.module.functions[name] for name in (*self.required, *self.optional)]
        return not all(function.is_entry for function in functions) and any(
            dataflow.find_unwritten(function)
            or any(isinstance(item, Instruction) and item.opcode == "shfl" for item in function.body or ())
            for function in functions
        )

    def find_ends(self) -> set[str]:
        """Functions that may end their thread by `exit`: their callers must ask."""
        ends = set()
        for name in self.layout.uses:
            body = self.module.functions[name].body or ()
            if any(
                isinstance(i, Instruction)
                and (i.opcode == "exit" or (i.opcode == "call" and any(isinstance(o, Register) for o in i.operands)))
                for i in body
            ):
                ends.add(name)
        while True:
            more = {
                name for name, (called, _) in self.layout.uses.items() if name not in ends and ends.intersection(called)
            }
            if not more:
                return ends
            ends |= more

    def address_of(self, function: PtxFunction) -> int:
        """The address of a function as kernels have it: the same in checked and unchecked code, and none of memory."""
        return _FUNCTIONS_BEGIN + 16 * self.numbers[function.name]

    def write_functions(self, written: Collection[str]) -> str:
        """The function that finds the C function at an address."""
        names = (f"(u64){self.c_name(name)}" if name in written else "0" for name in self.numbers)
        return "\n".join([
            "static u64 xf_function(u64 a) {",
            f"    const u64 all[] = {{{', '.join(names)}}};",
            f"    const u64 i = a - {_FUNCTIONS_BEGIN}ull;",
            "    return i % 16 == 0 && i / 16 < sizeof all / sizeof *all ? all[i / 16] : a;",
            "}",
        ])  # fmt: skip

    def c_name(self, name: str) -> str:
        return f"xf_k{self.numbers[name]}" if self.module.functions[name].is_entry else f"xf_fn{self.numbers[name]}"

    def signature(self, function: PtxFunction) -> str:
        if function.is_entry:
            return f"void {self.c_name(function.name)}(xf_thread *t, const char *params)"
        params = [f"char *o{n}" for n in range(len(function.returns))] + [
            f"char *i{n}" for n in range(len(function.params))
        ]
        return f"static u32 {self.c_name(function.name)}({', '.join(['xf_thread *t', *params])})"

    def write(self) -> CTranslation:
        bodies, failures = {}, {}
        local: dict[str, int] = {}
        facts: dict[str, _FunctionWriter] = {}
        for name in [*self.required, *self.optional]:
            function = self.module.functions[name]
            mark = len(self.sites)
            try:
                writer = _FunctionWriter(self, function)
                bodies[name] = writer.write()
            except UncoveredError as error:
                if name in self.required and not self.partial:
                    raise
                del self.sites[mark:]
                failures[name] = error
                if not function.is_entry:
                    # A kernel that has only its address may call it after all, and is stopped there.
                    self.sites.append(error.site)
                    bodies[name] = f"{self.signature(function)} {{ t->run->unsupported(t, {mark}); return 0; }}"
                continue
            local[name], facts[name] = writer.local_nbytes, writer
        uncovered = {}
        for entry in self.entries:
            for name in self.layout.reached[entry.name]:
                if name in failures:
                    uncovered[entry.name] = failures[name]
                    bodies.pop(entry.name, None)
        declarations = [self.signature(self.module.functions[name]) + ";" for name in bodies]
        if any(writer.calls_pointers for writer in facts.values()):
            declarations.append(self.write_functions(bodies.keys()))
        text = "\n".join([*declarations, *bodies.values(), self.write_init(bodies.keys())])
        kernels = {entry.name: self.kernel(entry, local, facts) for entry in self.entries if entry.name in bodies}
        return CTranslation(
            "\n".join([_headers(), _helpers(text), text, ""]), kernels, self.layout.variables, self.layout.block_nbytes,
            self.layout.block_align, self.sites, uncovered,
        )  # fmt: skip

    def kernel(self, entry: PtxFunction, local: dict[str, int], facts: dict[str, _FunctionWriter]) -> Kernel:
        layout, reached = self.layout, self.layout.reached[entry.name]
        offset, params = 0, []
        for variable in entry.params:
            offset = _align_up(offset, variable.align)
            params.append(KernelParameter(variable.name, offset, variable.nbytes, variable.align))
            offset += variable.nbytes
        variables = layout.find_window(entry.name)
        shared = tuple(SharedVariable(v.name, layout.offsets[id(v)], v.nbytes) for v in variables)
        end = max((layout.shared_end[id(v)] for v in variables), default=SHARED_BEGIN)
        static = 0
        for variable in variables:
            static = _align_up(static, max(variable.align, 1)) + variable.nbytes
        if static > USUAL_SHARED_NBYTES:
            raise PtxError(
                f"'{entry.name}' has {static} bytes of shared variables, and the most is "
                f"{USUAL_SHARED_NBYTES}; use dynamic shared memory for more"
            )
        indirect = any(facts[name].calls_pointers for name in reached if name in facts)
        reached_all = {*reached, *(self.optional if indirect else ())}
        if indirect:  # any function whose address may have been taken
            everything = {name for other in layout.reached.values() for name in other}
            reached_all.update(name for name in everything if not self.module.functions[name].is_entry)
        own = [facts[name] for name in reached_all if name in facts]
        return Kernel(
            entry.name, self.c_name(entry.name), tuple(params), offset, shared, end - SHARED_BEGIN, static,
            layout.dynamic_align(entry.name),
            needs_fibers=any(writer.needs_fibers for writer in own),
            is_cooperative=any(writer.is_cooperative for writer in own),
            maxntid=entry.attributes.get("maxntid", ()), reqntid=entry.attributes.get("reqntid", ()),
            local_nbytes=sum(local.get(name, 0) for name in reached_all),
            is_recursive=indirect or self.is_recursive(reached),
        )  # fmt: skip

    def is_recursive(self, names: list[str]) -> bool:
        return any(name in self.layout.reach(self.layout.uses[name][0]) for name in names)

    def write_init(self, written: Collection[str]) -> str:
        lines = []
        for offset, variable in self.layout.relocations:
            for relocation in variable.relocations:
                target = self.layout.resolve(relocation.target, self.module.functions.get(variable.function))
                if isinstance(target, PtxVariable) and id(target) in self.layout.offsets:
                    address = f"(u64)block + {self.layout.offsets[id(target)]}ull"
                    if target.space == "shared":
                        address = f"{self.layout.offsets[id(target)]}ull"
                elif isinstance(target, PtxFunction) and target.body is not None:
                    if target.name not in written:  # a kernel that was left out
                        continue
                    address = f"{self.address_of(target)}ull"
                else:
                    raise PtxError(
                        f"variable '{variable.name}' holds the address of '{relocation.target}', which is not defined"
                    )
                value = f"({address} + {relocation.addend & (1 << 64) - 1}ull) >> {relocation.shift}"
                kind = _UNSIGNED[relocation.nbytes]
                lines.append(f"    *({kind} *)(block + {offset + relocation.offset}) = ({kind})({value});")
        return "\n".join(["void xf_init_module(char *block) {", "    (void)block;", *lines, "}"])


# ---- one function ----


_NO_INSTRUCTION = Instruction("", (), [], None, False, None, 0, "")


def _any(*doubts: str) -> str:
    """The first doubt of some that is one."""
    *first, last = [each for each in doubts if each != "0"] or ["0"]
    return f"({''.join(f'{each} ? {each} : ' for each in first)}{last})" if first else last


class _FunctionWriter:
    """Writes one function. Methods `do_*` are the instructions, by opcode."""

    def __init__(self, module: _ModuleWriter, function: PtxFunction) -> None:
        self.module = module
        self.layout = module.layout
        self.function = function
        self.checked = module.checked
        self.local_nbytes = 0
        self.needs_fibers = self.is_cooperative = self.calls_pointers = False

    def write(self) -> str:
        mark = len(self.module.sites)
        self.kinds: dict[int, str] = {}
        self.separate = dataflow.separate_locals(self.function, REDZONE) if self.checked else None
        if self.separate is not None:
            self.function = replace(self.function, body=self.separate.body)
        self.zeroed = dataflow.find_unwritten(self.function)
        self.find_loops()
        self.find_meanings()
        text = self.write_once()
        # NVRTC declares registers of floats as bits, too: those that mostly hold floats become floats, in a second
        # pass.
        floats = {number: kind for number, (kind, score) in self.scores.items() if score > 0}
        if floats:
            del self.module.sites[mark:]
            self.kinds = floats
            text = self.write_once()
        return text

    def write_once(self) -> str:
        function = self.function
        self.lines: list[str] = []
        self.names: dict[int, tuple[str, str]] = {}  # of registers: C name and C type
        self.used = {"void", "volatile"}  # a register may be named oid
        self.scores: dict[int, tuple[str, int]] = {}
        self.arrays: dict[int, str] = {}
        self.locals: list[tuple[str, int, int]] = []
        self.site_number: int | None = None
        self.temporaries = 0
        self.declare_variables()
        self.find_observed()
        for number, variable in enumerate(function.params):
            if register := function.param_registers.get(variable.number):
                self.instruction = _NO_INSTRUCTION
                self.assign(register, variable.type, f"*({_ctype(variable.type)} *)i{number}")
        if not function.is_entry:
            self.put_passed(function.params, "{name} = t->doubts[{number}];")
        body = function.body or []
        for index, item in enumerate(body):
            if isinstance(item, PtxLabel):
                self.lines.append(f"L{item.number}:;")
                continue
            self.index, self.instruction, self.site_number = index, item, None
            for number in self.passed.get(index, ()):
                self.put(f"t->joins[{number}]++;")
            for branch in self.decided.get(index, ()):
                self.put_decided(branch)
            self.write_instruction(item)
        self.leave("0")
        return self.assemble()

    def make_site(self) -> FaultSite:
        return make_site(self.function, self.instruction, self.module.sources)

    def fail(self, message: str) -> NoReturn:
        site = self.make_site()
        raise PtxError(f"{site.words}: {message}: `{self.instruction.text}`", self.instruction.line)

    def refuse(self, what: str = "") -> NoReturn:
        site = self.make_site()
        what = what or f"the instruction '{self.instruction.name}'"
        raise UncoveredError(f"{self.function.name}(), {site.words}: {what} does not run on a CPU", site)

    @property
    def site(self) -> int:
        if self.site_number is None:
            self.site_number = len(self.module.sites)
            self.module.sites.append(self.make_site())
        return self.site_number

    # Declarations

    def declare_variables(self) -> None:
        function = self.function
        self.offsets: dict[int, int] = {}
        offset = 0
        if function.is_entry:
            for variable in function.params:
                offset = _align_up(offset, variable.align)
                self.offsets[id(variable)] = offset
                offset += variable.nbytes
        else:
            for number, variable in enumerate(function.returns):
                self.arrays[id(variable)] = f"o{number}"
            for number, variable in enumerate(function.params):
                self.arrays[id(variable)] = f"i{number}"
        for variable in function.variables:
            if variable.space in ("local", "param"):
                name = self.unique(variable.name)
                self.arrays[id(variable)] = name
                is_apart = self.separate is not None and variable is self.separate.variable
                nbytes = self.separate.nbytes if self.separate is not None and is_apart else variable.nbytes
                self.locals.append((name, nbytes, max(variable.align, 1)))
                if variable.space == "local":
                    self.local_nbytes += nbytes
        for variable in self.layout.uses[function.name][1].values():
            if variable.space == "local" and id(variable) not in self.arrays:  # of the module: each thread has its own
                name = self.unique(variable.name)
                self.arrays[id(variable)] = name
                self.locals.append((name, variable.nbytes, max(variable.align, 1)))
                self.local_nbytes += variable.nbytes
        if self.local_nbytes > _MOST_LOCAL_NBYTES:
            raise PtxError(
                f"'{function.name}' has {self.local_nbytes} bytes of local variables, and the most is "
                f"{_MOST_LOCAL_NBYTES}; use an array for more"
            )
        local = {
            id(v): v for v in [*function.variables, *self.layout.uses[function.name][1].values()]
            if v.space == "local" and v.nbytes
        }  # fmt: skip
        self.watched: list[tuple[str, int, int]] = []  # the array, the offset and the bytes of a variable in it
        for identity, variable in local.items():
            name = self.arrays[identity]
            if self.separate is not None and variable is self.separate.variable:
                self.watched.extend((name, offset, nbytes) for offset, nbytes in self.separate.ranges)
            else:
                self.watched.append((name, 0, variable.nbytes))

    def unique(self, name: str) -> str:
        name = base = "v" + _sanitise(name)
        number = 2
        while name in self.used:
            name, number = f"{base}__{number}", number + 1
        self.used.add(name)
        return name

    def name_of(self, register: Register) -> tuple[str, str]:
        found = self.names.get(register.number)
        if found is None:
            kind = self.kinds.get(register.number) or _ctype(register.type)
            if kind[0] == "s":
                kind = "u" + kind[1:]
            found = self.names[register.number] = self.unique(register.name), kind
        return found

    def find_observed(self) -> None:
        """Registers whose bits are observed: only for these must a NaN be the canonical one."""
        self.observed: set[int] = set()
        copies: list[tuple[Register, list[Operand]]] = []
        for item in self.function.body or ():
            if isinstance(item, PtxLabel) or (item.opcode in _NAN_BLIND and "f32" in item.modifiers):
                continue
            target = item.operands[0] if item.operands else None
            if item.opcode in ("mov", "selp") and item.modifiers == ("f32",) and isinstance(target, Register):
                copies.append((target, item.operands[1:]))
                continue
            for operand in item.operands:
                self.observe(operand)
        size = -1
        while size != len(self.observed):  # who observes a copy observes its source
            size = len(self.observed)
            for target, sources in copies:
                if target.number in self.observed:
                    for operand in sources:
                        self.observe(operand)

    def observe(self, operand: Operand) -> None:
        if isinstance(operand, Register):
            self.observed.add(operand.number)
        elif isinstance(operand, Vector | OperandList):
            for item in operand.items:
                self.observe(item)
        elif isinstance(operand, Pair):
            self.observe(operand.first)
            self.observe(operand.second)

    # Loops

    def find_loops(self) -> None:
        body = self.function.body or []
        self.positions = {item.number: index for index, item in enumerate(body) if isinstance(item, PtxLabel)}
        loops: set[tuple[int, int]] = set()
        for index, item in enumerate(body):
            if isinstance(item, Instruction):
                for target in dataflow.find_targets(self.function, item):
                    begin = self.positions[target.number]
                    if begin <= index:
                        loops.add((begin, index))
        self.loops = loops
        self.in_loop: set[int] = set()
        for begin, end in loops:
            self.in_loop.update(range(begin, end + 1))
        for item in body:
            if isinstance(item, Instruction):
                if item.opcode in _NEEDS_FIBERS:
                    self.needs_fibers = True
                for operand in item.operands:
                    if isinstance(operand, Special) and operand.name in ("envreg1", "envreg2"):
                        self.is_cooperative = True
                        self.needs_fibers = True
        if not self.needs_fibers:
            sources = [index for index, item in enumerate(body) if _is_source(item)]
            self.needs_fibers = any(
                bisect_left(sources, begin) < bisect_left(sources, end + 1) and self.spins(begin, end)
                for begin, end in loops
            )

    def spins(self, begin: int, end: int) -> bool:
        """Whether a loop may end only because another thread wrote to memory.

        That is: whether a branch out of it depends on a strong load or an atomic. A compare-and-swap whose expected
        value is renewed in the loop succeeds when its thread runs alone; so does what each turn changes by itself.
        """
        body = self.function.body or []
        inside = [item for item in body[begin : end + 1] if isinstance(item, Instruction)]
        defined = {number for item in inside for number in find_registers(item.operands[:1])}
        tainted: set[int] = set()
        for item in inside:
            if item.opcode == "ld" and not STRONG.isdisjoint(item.modifiers):
                tainted |= find_registers(item.operands[:1])
            elif item.opcode == "atom":
                second = item.operands[2] if len(item.operands) > 2 else None
                if "cas" in item.modifiers:
                    if not (second is not None and find_registers([second]) & defined):
                        tainted |= find_registers(item.operands[:1])
                elif "inc" in item.modifiers or "dec" in item.modifiers:
                    continue
                elif "exch" in item.modifiers or not isinstance(second, Immediate) or not second.value:
                    tainted |= find_registers(item.operands[:1])
            elif item.opcode == "call":
                for operand in item.operands:
                    if isinstance(operand, Symbol) and isinstance(operand.target, str) and self.waits(operand.target):
                        return True
        if not tainted:
            return False
        size = -1
        while size != len(tainted):
            size = len(tainted)
            for item in inside:
                if item.opcode not in ("st", "bra", "red") and find_registers(item.operands[1:]) & tainted:
                    tainted |= find_registers(item.operands[:1])
        for index in range(begin, end + 1):
            leaving = body[index]
            if (
                isinstance(leaving, Instruction)
                and leaving.opcode in ("bra", "exit", "ret")
                and leaving.guard
                and leaving.guard.number in tainted
            ):
                targets = [self.positions[target.number] for target in dataflow.find_targets(self.function, leaving)]
                if index == end or not targets or any(not begin <= target <= end for target in targets):
                    return True
        return False

    def body_of(self, name: str) -> list[Instruction]:
        return [item for item in self.module.module.functions[name].body or () if isinstance(item, Instruction)]

    def waits(self, name: str) -> bool:
        """Whether a called function, or what it calls, looks at memory that other threads write."""
        for called in self.layout.reach([self.function.aliases.get(name, name)]):
            if any(_is_source(item) and item.opcode != "call" for item in self.body_of(called)):
                return True
        return False

    # Text

    def assemble(self) -> str:
        body = "\n".join(self.lines)
        head = [self.module.signature(self.function) + " {"]
        for kind in sorted({kind for _, kind in self.names.values()}):
            declared = [
                name + (" = 0" if number in self.zeroed and kind != "xf_b128" else "")
                for number, (name, of) in self.names.items()
                if of == kind
            ]
            head.append(f"{kind} {', '.join(declared)};")
        if self.doubtful:
            unset = dict.fromkeys(self.zeroed, "XF_UNSET")
            initial = (f"u_{number} = {unset.get(number, '0')}" for number in sorted(self.doubtful))
            head.append(f"u32 {', '.join(initial)};")
        if passed := sorted(set(re.findall(r"\bp_\w+", body))):
            head.append(f"u32 {', '.join(f'{name} = 0' for name in passed)};")
        if self.decisions:
            head.append(f"u32 {', '.join(f'd_{branch} = 0' for branch in self.decisions)};")
        if self.exact:
            head.append(f"u64 {', '.join(f'e_{number} = 0' for number in sorted(self.exact))};")
        if re.search(r"\bcc\b", body):
            head.append("u32 cc = 0;")
        for name, nbytes, align in self.locals:
            zone = max(REDZONE, align) if self.checked and any(name == each for each, _, _ in self.watched) else 0
            total = max(nbytes + 2 * zone, 1)
            if zone:
                head.append(
                    f"char {name}_[{total}] __attribute__((aligned({align}))); char *const {name} = {name}_ + {zone};"
                )
            elif (
                nbytes <= 16
                and align <= 16
                and align * _align_up(nbytes, align) // align == nbytes
                and align in (4, 8)
                and nbytes == align
            ):
                # One word: a compiler keeps it in a register where its address is not taken otherwise.
                head.append(f"{_UNSIGNED[align]} {name}_; char *const {name} = (char *)&{name}_;")
            else:
                head.append(f"char {name}[{total}] __attribute__((aligned({align})));")
        if self.watched and self.checked:
            begins = (f"run->local_begin(t, {name} + {offset}, {nbytes});" for name, offset, nbytes in self.watched)
            body = "\n".join([*begins, body])
        for name, text in (
            ("run", "const xf_run *const run = t->run;"),
            ("m", "const xf_math *const m = t->math;"),
            ("sh", "const u64 sh = t->shared;"),
            ("md", "const u64 md = t->module;"),
        ):
            if re.search(rf"\b{name}\b", body) or (name == "run" and "XF_TICK" in body):
                head.append(text)
        return "\n".join([*head, body, "}"])

    def put(self, line: str) -> None:
        self.lines.append(line)

    def write_instruction(self, item: Instruction) -> None:
        handler = _HANDLERS.get(item.opcode)
        if handler is None:
            self.refuse()
        guard = f"u_{item.guard.number}" if item.guard is not None and item.guard.number in self.doubtful else ""
        decided = dataflow.find_results(item) & self.doubtful if guard else set()
        if guard and not decided and item.opcode not in ("bra", "exit", "ret"):
            self.refuse_doubts([guard])
        if (decision := self.decisions.get(self.index)) is not None:
            self.refuse_doubts([guard] if decision.is_of_write else [])
            self.put(f"d_{self.index} = {_any(guard, f'd_{self.index}')};")
        begin = len(self.lines)
        self.refuse_doubts([f"d_{branch}" for branch, each in self.decisions.items() if self.index in each.writes])
        if self.doubtful:
            self.put_doubts(item)
        if self.exact:
            self.put_whole_numbers(item)
        handler(self, item)
        if self.doubtful and item.opcode == "st" and dataflow.may_be_kept(item):
            self.put_forgotten(item)
        if self.checked and item.opcode == "shfl":
            self.put_doubt_of_shuffle(item)
        if self.exact and not dataflow.is_exact_step(item):
            for number in sorted(dataflow.find_results(item) & self.exact):
                self.put(f"e_{number} = (u64)(s64)(s32){self.names[number][0]};")
        if item.guard is not None:
            condition = self.read_register(item.guard, "pred")
            body = " ".join(self.lines[begin:])
            del self.lines[begin:]
            self.put(f"if ({'!' if item.negated else ''}{condition}) {{ {body} }}")
            for number in sorted(decided - {item.guard.number}):
                self.put(f"u_{number} = {_any(f'u_{number}', guard)};")

    # What is checked of registers

    def find_meanings(self) -> None:
        self.meanings: dict[int, str] = {}
        self.doubtful: set[int] = set()
        self.decisions: dict[int, dataflow.Decision] = {}  # of branches by registers that may have no value
        self.decided: dict[int, list[int]] = {}  # where their ways meet, those branches
        self.exact: set[int] = set()
        self.widenings: set[int] = set()
        self.bypasses: dict[int, int] = {}  # of barriers that may be passed by, their numbers
        self.passed: dict[int, list[int]] = {}  # where they have been, their numbers
        if not self.checked:
            return
        flow = dataflow.ValueFlow(self.function)
        self.meanings = dataflow.find_meanings(flow, self.loops)
        if self.function.is_entry:
            joins = dataflow.find_joins(flow, _MOST_JOINS)
            self.bypasses = {barrier: number for number, barrier in enumerate(joins)}
            for number, join in enumerate(joins.values()):
                self.passed.setdefault(join, []).append(number)
        self.parts = dataflow.find_parts(flow)
        unset = self.zeroed | self.find_received()
        self.doubtful, self.decisions = dataflow.find_doubtful(flow, unset, self.loops)
        for branch, decision in self.decisions.items():
            if decision.join is not None:
                self.decided.setdefault(decision.join, []).append(branch)
        if self.module.finds_overflow:
            self.exact, self.widenings = dataflow.find_indices(flow)

    def passes(self, variable: object) -> bool:
        """Whether the doubt of a parameter, or of what a call returns, goes with it: of numbers, in some modules."""
        return (
            self.module.passes_doubts and isinstance(variable, PtxVariable) and variable.space == "param"
            and 0 < variable.nbytes <= 8
            and not (self.function.is_entry and any(variable is each for each in self.function.params))
        )  # fmt: skip

    def find_passed(self, operand: Operand) -> PtxVariable | None:
        """The variable at an address, if its doubt goes with it."""
        base = operand.base if isinstance(operand, Address) else None
        target = base.target if isinstance(base, Symbol) else None
        return target if isinstance(target, PtxVariable) and self.passes(target) else None

    def find_received(self) -> set[int]:
        """Registers that may have received no value from another function."""
        loads = (each for each in self.function.body or () if isinstance(each, Instruction) and each.opcode == "ld")
        return set[int]().union(*(dataflow.find_results(each) for each in loads if self.find_passed(each.operands[1])))

    def put_passed(self, variables: Iterable[object], text: str) -> None:
        """Give the doubts of some variables to another function, or take them, as `text` says."""
        for number, variable in enumerate(variables):
            if number < _MOST_PASSED and self.module.passes_doubts:
                name = f"p_{self.arrays[id(variable)]}" if self.passes(variable) else ""
                if name or "= {name}" in text:
                    self.put(text.format(number=number, name=name or "0"))

    def doubts(self, operands: Iterable[Operand]) -> list[str]:
        """Conditions that registers among operands have no value."""
        found = find_registers(operands, with_addresses=True) & self.doubtful
        return [f"u_{number}" for number in sorted(found)]

    def refuse_doubts(self, doubts: list[str], operator: str = " || ") -> None:
        if doubts:
            self.put(f"if ({operator.join(doubts)}) run->unset(t, {_any(*doubts)}, {self.site});")

    def put_decided(self, branch: int) -> None:
        """Where the ways of a branch that was decided without a value meet, what they have set has none."""
        doubts = (f"u_{number} = {_any(f'u_{number}', f'd_{branch}')};" for number in self.decisions[branch].results)
        self.put(f"if (d_{branch}) {{ {' '.join(sorted(doubts))} d_{branch} = 0; }}")

    def put_doubt_of_shuffle(self, item: Instruction) -> None:
        """Of the value that it has given, and not of whether the lane is in the range."""
        target = item.operands[0]
        value = target.first if isinstance(target, Pair) else target
        for number in sorted(dataflow.find_results(item) & self.doubtful):
            self.put(f"u_{number} = {'t->doubt' if number in find_registers([value]) else '0'};")

    def put_doubts(self, item: Instruction) -> None:
        """Registers without a value make others so, until they reach memory, an address or another thread.

        Kernels compute whole rows of which they store the first ones, and a compiler selects among such registers: also
        a branch may depend on what is not used.
        """
        operands, opcode = item.operands, item.opcode
        results = sorted(dataflow.find_results(item) & self.doubtful)
        if opcode == "ld" and dataflow.may_be_kept(item):
            self.refuse_doubts(self.doubts(operands[1:]))
            self.put_lacks(item)
            return
        if opcode in ("ld", "ldu", "call"):
            self.refuse_doubts(self.doubts(operands[1:]) if opcode != "call" else [])
            received = self.find_passed(operands[1]) if opcode == "ld" else None
            expression = "0" if received is None else f"p_{self.arrays[id(received)]}"
        elif opcode == "st":
            self.refuse_doubts(self.doubts(operands[:1]))
            values = operands[1].items if isinstance(operands[1], Vector) else operands[1:2]
            doubts = [self.doubts([value]) for value in values]
            if (passed := self.find_passed(operands[0])) is not None:
                self.put(f"p_{self.arrays[id(passed)]} = {_any(*(each for doubt in doubts for each in doubt))};")
            # Of a struct that is copied, some members may have no value.
            if all(doubts) and "global" in item.modifiers:
                self.refuse_doubts([each for doubt in doubts for each in doubt], " && ")
            return
        elif opcode in ("atom", "red", "vote", "match", "redux", "bar", "barrier"):
            self.refuse_doubts(self.doubts(operands[dataflow.has_target(item) :]))
            expression = "0"
        elif opcode == "shfl":
            self.refuse_doubts(self.doubts(operands[2:]))
            self.put(f"t->doubt = {_any(*self.doubts(operands[1:2]))};")
            return
        else:
            expression = self.combine_doubts(item)
        for number in results:
            self.put(f"u_{number} = {expression};")

    def combine_doubts(self, item: Instruction) -> str:
        operands, opcode = item.operands, item.opcode
        sources = [self.doubts([operand]) for operand in operands[1:]]
        if not any(sources):
            return "0"
        each = [_any(*source) for source in sources]
        if opcode == "selp":
            return _any(each[2], f"({self.read(operands[3], 'pred')} ? {each[0]} : {each[1]})")
        if opcode == "and" or (opcode == "or" and item.modifiers == ("pred",)):  # the other one may decide
            sign = "" if opcode == "and" else "!"
            a, b = (f"{sign}{self.read(operand, item.modifiers[0])}" for operand in operands[1:3])
            return f"{each[0]} && ({each[1]} || {b}) ? {each[0]} : {each[1]} && {a} ? {each[1]} : 0"
        is_pack = opcode in ("bfi", "prmt") or (opcode == "mov" and isinstance(operands[1], Vector))
        is_pack = is_pack or (opcode == "or" and bool(find_registers(operands[1:3]) & self.parts))
        if is_pack:  # of members, some of which may have no value
            parts = operands[1].items if isinstance(operands[1], Vector) else operands[1:3]
            doubts = [_any(*self.doubts([part])) for part in parts]
            return f"{' && '.join(doubts)} ? {doubts[0]} : 0"
        return _any(*dict.fromkeys(doubt for source in sources for doubt in source))

    def put_forgotten(self, item: Instruction) -> None:
        """Shared and local memory may receive what has no value, if no thread uses it then."""
        values = item.operands[1].items if isinstance(item.operands[1], Vector) else item.operands[1:2]
        for value, place in zip(values, self.places(item, 0), strict=False):
            for doubt in self.doubts([value]):
                self.put(f"if ({doubt}) run->forget(t, {place}, {doubt}, {self.site});")

    def put_lacks(self, item: Instruction) -> None:
        target = item.operands[0]
        values = target.items if isinstance(target, Vector) else [target]
        for value, place in zip(values, self.places(item, 1), strict=False):
            for number in find_registers([value]) & self.doubtful:
                self.put(f"u_{number} = run->lacks(t, {place});")

    def places(self, item: Instruction, operand: int) -> list[str]:
        """The address, the bytes and the state space of each value of an access."""
        nbytes = next(NBYTES[word] for word in item.modifiers if word in NBYTES)
        count = next((_VECTORS[word] for word in item.modifiers if word in _VECTORS), 1)
        space = next((_SPACE_FLAG[word] for word in item.modifiers if word in _SPACE_FLAG), "0")
        address = _address(self, item.operands[operand])
        return [f"{address} + {number * nbytes}, {nbytes}, {space}" for number in range(count)]

    def put_whole_numbers(self, item: Instruction) -> None:
        """The whole numbers that 32-bit registers stand for; sums that leave their range and come back are right."""

        def whole(operand: Operand) -> str:
            if isinstance(operand, Register) and operand.number in self.exact:
                return f"e_{operand.number}"
            return f"(u64)(s64)(s32){self.read(operand, 'u32')}"

        operands = item.operands
        if self.index in self.widenings:
            for operand in operands[1:3] if item.opcode != "cvt" else operands[1:2]:
                if isinstance(operand, Register) and operand.number in self.exact:
                    number = f"e_{operand.number}"
                    test = f"(u64)(s64)(s32){self.read(operand, 'u32')} != {number}"
                    self.put(f"if ({test}) run->overflow(t, (s64){number}, {self.site});")
        results = dataflow.find_results(item) & self.exact
        if not results or not dataflow.is_exact_step(item):
            return
        a = whole(operands[1])
        b = whole(operands[2]) if len(operands) > 2 else ""
        expression = {
            "add": f"{a} + {b}", "sub": f"{a} - {b}", "mul": f"{a} * {b}", "shl": f"{a} << (u32)({b})", "mov": a,
            "mad": f"{a} * {b} + {whole(operands[3])}" if len(operands) > 3 else "",
        }[item.opcode]  # fmt: skip
        for result in results:
            self.put(f"e_{result} = {expression};")

    def leave(self, result: str) -> None:
        if self.watched and self.checked:
            for name, offset, nbytes in reversed(self.watched):
                self.put(f"run->local_end(t, {name} + {offset}, {nbytes});")
        if not self.function.is_entry:
            self.put_passed(self.function.returns, "t->doubts[{number}] = {name};")
            for number, variable in enumerate(self.function.returns):
                if register := self.function.param_registers.get(variable.number):
                    value = self.read_register(register, variable.type)
                    self.put(f"*({_ctype(variable.type)} *)o{number} = {value};")
        self.put("return;" if self.function.is_entry else f"return {result};")

    # Operands

    def score(self, register: Register, ptx_type: str) -> None:
        kind = _ctype(register.type)
        if kind in ("u32", "s32", "u64", "s64") and register.type != "pred":
            wanted = "f32" if NBYTES[register.type] == 4 else "f64"
            _, score = self.scores.get(register.number, (wanted, 0))
            self.scores[register.number] = wanted, score + (1 if ptx_type == wanted else -1)

    def read_register(self, register: Register, ptx_type: str) -> str:
        self.score(register, ptx_type)
        name, kind = self.name_of(register)
        return _convert(name, kind, _ctype(ptx_type))

    def read(self, operand: Operand, ptx_type: str) -> str:
        """An operand as a C expression of the type's C type."""
        if isinstance(operand, Register):
            return self.read_register(operand, ptx_type)
        if isinstance(operand, Immediate):
            return self.literal(operand, ptx_type)
        if isinstance(operand, Not):
            return f"(u32)(!{self.read(operand.operand, 'pred')})"
        if isinstance(operand, Symbol):
            return _convert(self.address_of(operand), "u64", _ctype(ptx_type))
        if isinstance(operand, Special):
            expression, kind = self.special(operand)
            return _convert(expression, kind, _ctype(ptx_type))
        if not isinstance(operand, Vector):
            self.fail("an operand has the wrong form")
        return self.pack(operand, ptx_type)

    def literal(self, operand: Immediate, ptx_type: str) -> str:
        value, kind = operand.value, _ctype(ptx_type)
        if kind in _FLOATS:
            if kind == "f32" and operand.nbits == 32:
                return _float_literal(int(value), "f32")
            if kind == "f64" and operand.nbits == 64:
                return _float_literal(int(value), "f64")
            number = ptx.float_of(operand)
            return _float_literal(_float_bits(number, kind), kind)
        if ptx_type == "pred":
            return f"{int(bool(value))}u"
        if operand.nbits:
            bits = int(value)
            if operand.nbits != 8 * NBYTES[ptx_type] and NBYTES[ptx_type] in (4, 8):
                bits = _float_bits(ptx.float_of(operand), "f32" if NBYTES[ptx_type] == 4 else "f64")
        elif isinstance(value, float):
            bits = _float_bits(value, "f32" if NBYTES[ptx_type] == 4 else "f64")
        else:
            bits = value
        return _integer_literal(bits, kind)

    def address_of(self, symbol: Symbol) -> str:
        target = symbol.target
        found = self.layout.resolve(target, self.function) if isinstance(target, str) else target
        offset = f" + {_integer_literal(symbol.offset, 'u64')}" if symbol.offset else ""
        if isinstance(found, PtxFunction):
            if found.body is None:
                self.refuse(f"the address of '{found.name}', which is not defined,")
            return _integer_literal(self.module.address_of(found), "u64")
        if found is None:
            if isinstance(target, str) and target.startswith("%"):
                self.refuse(f"the register '{target}'")
            self.fail(f"'{target}' is not defined")
        if found.space == "shared":
            if found.is_extern:
                return f"((u64)t->dynamic_begin{offset})"
            return _integer_literal(self.layout.offsets[id(found)] + symbol.offset, "u64")
        if id(found) in self.arrays:
            return f"((u64){self.arrays[id(found)]}{offset})"
        if id(found) in self.offsets:
            return f"((u64)params + {self.offsets[id(found)] + symbol.offset}ull)"
        if id(found) not in self.layout.offsets:
            self.fail(f"'{found.name}' is declared, but not defined")
        return f"(md + {_integer_literal(self.layout.offsets[id(found)] + symbol.offset, 'u64')})"

    def special(self, operand: Special) -> tuple[str, str]:
        name, _, part = operand.name.partition(".")
        index = "xyzw".find(part) if part else 0
        if name in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid"):
            name = {"clusterid": "ctaid", "nclusterid": "nctaid"}.get(name, name)
            return (f"t->{name}[{index}]", "u32") if index < 3 else ("0u", "u32")
        if name.startswith("envreg"):
            return f"run->environment(t, {name[6:]})", "u64"
        if name.startswith("pm"):
            return "0u", "u32"
        if name not in _SPECIAL:
            self.refuse(f"the register '%{operand.name}'")
        return _SPECIAL[name]

    def pack(self, vector: Vector, ptx_type: str) -> str:
        nbytes = NBYTES[ptx_type]
        part = nbytes // len(vector.items)
        if part == 8:
            low, high = (self.read(item, "b64") for item in vector.items)
            return f"(xf_b128){{{low}, {high}}}"
        if nbytes == 16:
            low, high = (
                self.pack(Vector(vector.items[at : at + len(vector.items) // 2]), "b64")
                for at in (0, len(vector.items) // 2)
            )
            return f"(xf_b128){{{low}, {high}}}"
        kind = _ctype(f"b{8 * nbytes}")
        words = [f"({kind}){self.read(item, f'b{8 * part}')} << {8 * part * n}" for n, item in enumerate(vector.items)]
        words[0] = words[0].removesuffix(" << 0")
        return f"({kind})({' | '.join(words)})"

    def assign(self, operand: Operand, ptx_type: str, expression: str) -> None:
        """Assign a C expression of the type's C type to a destination; a wider register is extended."""
        if isinstance(operand, NoOperand):
            return
        if isinstance(operand, Vector):
            self.unpack(operand, ptx_type, expression)
            return
        if isinstance(operand, Symbol) and isinstance(operand.target, str):
            self.fail(f"'{operand.target}' is not declared")
        if not isinstance(operand, Register):
            self.fail("a destination is not a register")
        self.score(operand, ptx_type)
        name, kind = self.name_of(operand)
        source = _ctype(ptx_type)
        if (
            source != kind
            and _CTYPE_NBYTES[source] < _CTYPE_NBYTES[kind]
            and kind not in _FLOATS
            and source not in _FLOATS
        ):
            expression = f"({source})({expression})"
        self.put(f"{name} = {_convert(expression, source, kind)};")

    def unpack(self, vector: Vector, ptx_type: str, expression: str) -> None:
        nbytes = NBYTES[ptx_type]
        part = nbytes // len(vector.items)
        if nbytes == 16:
            words = [f"{{ const xf_b128 x = {expression};"]
            self.put(words[0])
            half = len(vector.items) // 2
            for side, name in ((vector.items[:half], "x.x"), (vector.items[half:], "x.y")):
                if half == 1:
                    self.assign(side[0], "b64", name)
                else:
                    self.unpack(Vector(side), "b64", name)
            self.put("}")
            return
        temporary = self.temporary()
        kind = _ctype(f"b{8 * nbytes}")
        self.put(f"{{ const {kind} {temporary} = {expression};")
        for number, item in enumerate(vector.items):
            shifted = f"{temporary} >> {8 * part * number}" if number else temporary
            self.assign(item, f"b{8 * part}", f"({_ctype(f'b{8 * part}')})({shifted})")
        self.put("}")

    def temporary(self) -> str:
        self.temporaries += 1
        return f"x{self.temporaries}"

    def bind(self, ptx_type: str, operands: Iterable[Operand]) -> list[str]:
        """Operands in C variables of a new block, for instructions that use them often; `end` closes the block."""
        names = []
        kind = _ctype(ptx_type)
        declared = []
        for operand in operands:
            name = self.temporary()
            names.append(name)
            declared.append(f"{name} = {self.read(operand, ptx_type)}")
        self.put(f"{{ const {kind} {', '.join(declared)};")
        return names

    def split(self, item: Instruction, allowed: Iterable[str], count: int | None = None) -> tuple[list[str], set[str]]:
        """Types of an instruction, and its other modifiers, which must be known."""
        types = [word for word in item.modifiers if word in NBYTES]
        flags = {word for word in item.modifiers if word not in NBYTES}
        for word in flags.difference(allowed):
            self.refuse(f"'.{word}' of the instruction '{item.name}'")
        if count is not None and len(types) != count:
            self.refuse()
        return types, flags

    def operands(self, least: int, most: int | None = None) -> list[Operand]:
        operands = self.instruction.operands
        if not least <= len(operands) <= (most or least):
            self.fail(f"'{self.instruction.name}' has {len(operands)} operands")
        return operands


def _is_source(item: Instruction | PtxLabel) -> bool:
    """Whether an instruction may see what another thread wrote, as a loop that waits for it must."""
    if isinstance(item, PtxLabel):
        return False
    return item.opcode in ("atom", "call") or (item.opcode == "ld" and not STRONG.isdisjoint(item.modifiers))


def _convert(expression: str, source: str, target: str) -> str:
    """A C expression of one C type as another: bits stay, wider integers are extended, floats are never rounded."""
    if source == target:
        return expression
    if source in _FLOATS:
        bits = f"xf_b{8 * _CTYPE_NBYTES[source]}({expression})"
        plain = "u32" if source == "f32" else "u64"
        return bits if target == plain else _convert(bits, plain, target)
    if target in _FLOATS:
        plain = "u32" if target == "f32" else "u64"
        return f"xf_{target}({_convert(expression, source, plain)})"
    if target == "xf_b128":
        return f"(xf_b128){{{expression}, 0}}"
    if source == "xf_b128":
        return f"({target})({expression}).x"
    return f"({target}){expression}" if _is_atom(expression) else f"({target})({expression})"


def _is_atom(expression: str) -> bool:
    return expression.isidentifier()


def _integer_literal(value: int, kind: str) -> str:
    nbits = 8 * _CTYPE_NBYTES[kind]
    if kind == "xf_b128":
        return f"(xf_b128){{{value & (1 << 64) - 1}ull, {value >> 64 & (1 << 64) - 1}ull}}"
    value &= (1 << nbits) - 1
    if kind[0] == "u":
        return f"{value}ull" if nbits == 64 else f"{value}u" if nbits == 32 else f"(({kind}){value})"
    if value < 1 << (nbits - 1):
        return f"{value}ll" if nbits == 64 else str(value)
    return f"({kind}){value}ull" if nbits == 64 else f"({kind}){value}u"


def _float_bits(value: float, kind: str) -> int:
    if kind == "f64":
        return int.from_bytes(struct.pack("<d", value), "little")
    try:
        return int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        return 0x7F800000 | (0x80000000 if value < 0 else 0)


def _float_literal(bits: int, kind: str) -> str:
    nbits, exponent = (32, 0x7F800000) if kind == "f32" else (64, 0x7FF0000000000000)
    if bits & exponent == exponent:
        return f"xf_{kind}({bits}{'u' if nbits == 32 else 'ull'})"
    value = ptx.float_of(Immediate(bits, nbits))
    return f"({value.hex()}{'f' if nbits == 32 else ''})"


_SPECIAL = {
    "laneid": ("t->lane", "u32"),
    "warpid": ("t->warp", "u32"),
    "nwarpid": ("((t->ntid[0] * t->ntid[1] * t->ntid[2] + 31) / 32)", "u32"),
    "smid": ("0u", "u32"),
    "nsmid": ("1u", "u32"),
    "gridid": ("1ull", "u64"),
    "lanemask_eq": ("(1u << t->lane)", "u32"),
    "lanemask_lt": ("((1u << t->lane) - 1)", "u32"),
    "lanemask_le": ("((2u << t->lane) - 1)", "u32"),
    "lanemask_gt": ("(~((2u << t->lane) - 1))", "u32"),
    "lanemask_ge": ("(~((1u << t->lane) - 1))", "u32"),
    "clock": ("run->clock(t)", "u64"),
    "clock64": ("run->clock(t)", "u64"),
    "clock_hi": ("(run->clock(t) >> 32)", "u64"),
    "globaltimer": ("run->global_timer(t)", "u64"),
    "globaltimer_lo": ("run->global_timer(t)", "u64"),
    "globaltimer_hi": ("(run->global_timer(t) >> 32)", "u64"),
    "dynamic_smem_size": ("t->dynamic_nbytes", "u32"),
    "total_smem_size": ("(t->dynamic_begin - XF_SHARED_BEGIN + t->dynamic_nbytes)", "u32"),
    "aggr_smem_size": ("(t->dynamic_begin - XF_SHARED_BEGIN + t->dynamic_nbytes)", "u32"),
    "current_graph_exec": ("0ull", "u64"),
    "reserved_smem_offset_begin": ("512u", "u32"),
    "reserved_smem_offset_end": ("XF_SHARED_BEGIN", "u32"),
    "reserved_smem_offset_cap": ("XF_SHARED_BEGIN", "u32"),
    "reserved_smem_offset_0": ("512u", "u32"),
    "reserved_smem_offset_1": ("512u", "u32"),
    "cluster_ctaid": ("0u", "u32"),
    "cluster_nctaid": ("1u", "u32"),
    "cluster_ctarank": ("0u", "u32"),
    "cluster_nctarank": ("1u", "u32"),
    "is_explicit_cluster": ("0u", "u32"),
}

Handler = Callable[[_FunctionWriter, Instruction], None]
_HANDLERS: dict[str, Handler] = {}


def _covers(*opcodes: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for opcode in opcodes:
            _HANDLERS[opcode] = handler
        return handler

    return register


def _find_unsigned(ptx_type: str) -> str:
    return f"u{8 * NBYTES[ptx_type]}"


def _write_packed(
    writer: _FunctionWriter, ptx_type: str, sources: list[Operand], scalar: Callable[[list[str]], str]
) -> None:
    """An instruction on both halves of its operands; `scalar` writes it for one half, given the operands' halves."""
    part = _PACKED[ptx_type]
    nbytes = NBYTES[part]
    half = _ctype(f"b{8 * nbytes}")
    names = writer.bind(ptx_type, sources)
    lows = [f"(({half}){name})" for name in names]
    highs = [f"(({half})({name} >> {8 * nbytes}))" for name in names]
    if part == "f32":
        lows, highs = ([f"xf_f32({name})" for name in side] for side in (lows, highs))
    low, high = scalar(lows), scalar(highs)
    if part == "f32":
        low, high = f"xf_b32({low})", f"xf_b32({high})"
    kind = _ctype(ptx_type)
    writer.assign(
        writer.instruction.operands[0],
        ptx_type,
        f"({kind})(({kind})({half})({low}) | ({kind})({half})({high}) << {8 * nbytes})",
    )
    writer.put("}")


# ---- integers ----

_INTEGERS = {"u16", "s16", "u32", "s32", "u64", "s64", "b16", "b32", "b64"}


def _wrap(ptx_type: str, expression: str) -> str:
    return f"(({_find_unsigned(ptx_type)})({expression}))"


@_covers("add", "sub")
def _add(writer: _FunctionWriter, item: Instruction) -> None:
    types = [word for word in item.modifiers if word in NBYTES]
    if types and types[-1] not in _INTEGERS | {"u16x2", "s16x2"}:
        _float_arithmetic(writer, item)
        return
    types, flags = writer.split(item, {"sat", "cc"}, 1)
    ptx_type = types[0]
    operator = "+" if item.opcode == "add" else "-"
    _, a, b = writer.operands(3)
    if ptx_type in _PACKED:
        _write_packed(writer, ptx_type, [a, b], lambda halves: f"{halves[0]} {operator} {halves[1]}")
    elif "sat" in flags:
        writer.assign(item.operands[0], "u32", f"xf_{item.opcode}s({writer.read(a, 's32')}, {writer.read(b, 's32')})")
    elif "cc" in flags:
        x, y = writer.bind(_find_unsigned(ptx_type), [a, b])
        writer.put(f"cc = {f'({_find_unsigned(ptx_type)})({x} + {y}) < {x}' if operator == '+' else f'{x} < {y}'};")
        writer.assign(item.operands[0], _find_unsigned(ptx_type), f"{x} {operator} {y}")
        writer.put("}")
    else:
        kind = _find_unsigned(ptx_type)
        writer.assign(
            item.operands[0], kind, _wrap(ptx_type, f"{writer.read(a, kind)} {operator} {writer.read(b, kind)}")
        )


@_covers("addc", "subc")
def _add_carry(writer: _FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, {"cc"}, 1)
    kind = _find_unsigned(types[0])
    d, a, b = writer.operands(3)
    x, y = writer.bind(kind, [a, b])
    if item.opcode == "addc":
        writer.put(f"const {kind} s = {x} + {y}, r = s + cc;")
        carry = f"(s < {x}) | (r < s)"
    else:
        writer.put(f"const {kind} s = {x} - {y}, r = s - cc;")
        carry = f"({x} < {y}) | (s < cc)"
    if "cc" in flags:
        writer.put(f"cc = {carry};")
    writer.assign(d, kind, "r")
    writer.put("}")


def _product(ptx_type: str, part: str, a: str, b: str) -> str:
    """The part (lo, hi, wide) of a product; a and b have the type's own C type."""
    unsigned, nbits, signed = _find_unsigned(ptx_type), 8 * NBYTES[ptx_type], ptx_type[0] == "s"
    if part == "lo":
        return f"((u16)((u32){a} * (u32){b}))" if nbits == 16 else f"(({unsigned}){a} * ({unsigned}){b})"
    if nbits == 64:
        return f"xf_mulhi_{ptx_type}({a}, {b})"
    wide = f"{'s' if signed else 'u'}{2 * nbits}"
    product = f"(({wide}){a} * ({wide}){b})"
    if part == "wide":
        return f"((u{2 * nbits}){product})"
    return f"(({unsigned})({product} >> {nbits}))"


@_covers("mul", "mad")
def _multiply(writer: _FunctionWriter, item: Instruction) -> None:
    types = [word for word in item.modifiers if word in NBYTES]
    if types and types[-1] not in _INTEGERS:
        _float_arithmetic(writer, item)
        return
    types, flags = writer.split(item, {"lo", "hi", "wide", "sat", "cc"}, 1)
    ptx_type = types[0]
    part = next((word for word in ("lo", "hi", "wide") if word in flags), "")
    if not part or (part == "wide" and NBYTES[ptx_type] == 8):
        writer.refuse()
    result = f"u{16 * NBYTES[ptx_type]}" if part == "wide" else _find_unsigned(ptx_type)
    operands = writer.operands(3 if item.opcode == "mul" else 4)
    product = _product(ptx_type, part, writer.read(operands[1], ptx_type), writer.read(operands[2], ptx_type))
    if item.opcode == "mul":
        writer.assign(operands[0], result, product)
    elif "sat" in flags:
        writer.assign(operands[0], "u32", f"xf_adds((s32){product}, {writer.read(operands[3], 's32')})")
    elif "cc" in flags:
        _carry_product(writer, operands, result, product, carry_in=False, carry_out=True)
    else:
        writer.assign(operands[0], result, _wrap(result, f"{product} + {writer.read(operands[3], result)}"))


def _carry_product(
    writer: _FunctionWriter, operands: list[Operand], kind: str, product: str, *, carry_in: bool, carry_out: bool
) -> None:
    third, carry = writer.read(operands[3], kind), " + cc" if carry_in else ""
    writer.put(f"{{ const {kind} p = {product}, y = {third}, s = p + y, r = s{carry};")
    if carry_out:
        writer.put("cc = (s < p) | (r < s);")
    writer.assign(operands[0], kind, "r")
    writer.put("}")


@_covers("madc")
def _multiply_carry(writer: _FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, {"lo", "hi", "cc"}, 1)
    operands = writer.operands(4)
    product = _product(
        types[0],
        "lo" if "lo" in flags else "hi",
        writer.read(operands[1], types[0]),
        writer.read(operands[2], types[0]),
    )
    _carry_product(writer, operands, _find_unsigned(types[0]), product, carry_in=True, carry_out="cc" in flags)


@_covers("mul24", "mad24")
def _multiply24(writer: _FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, {"lo", "hi", "sat"}, 1)
    operands = writer.operands(3 if item.opcode == "mul24" else 4)
    wide = "s64" if types[0] == "s32" else "u64"
    factors = [f"({wide})(({types[0]})({writer.read(operand, 'u32')} << 8) >> 8)" for operand in operands[1:3]]
    product = f"((u32)(({factors[0]} * {factors[1]}) >> {16 if 'hi' in flags else 0}))"
    if item.opcode == "mad24":
        c = operands[3]
        product = (
            f"xf_adds((s32){product}, {writer.read(c, 's32')})"
            if "sat" in flags
            else f"({product} + {writer.read(c, 'u32')})"
        )
    writer.assign(operands[0], "u32", product)


@_covers("sad")
def _sad(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), _ = writer.split(item, (), 1)
    d, a, b, c = writer.operands(4)
    kind = _find_unsigned(ptx_type)
    third = writer.read(c, kind)
    x, y = writer.bind(ptx_type, [a, b])
    writer.assign(
        d, kind, _wrap(ptx_type, f"{third} + ({x} < {y} ? ({kind}){y} - ({kind}){x} : ({kind}){x} - ({kind}){y})")
    )
    writer.put("}")


@_covers("div", "rem")
def _divide(writer: _FunctionWriter, item: Instruction) -> None:
    types = [word for word in item.modifiers if word in NBYTES]
    if types and types[-1] not in _INTEGERS:
        _float_arithmetic(writer, item)
        return
    (ptx_type,), _ = writer.split(item, (), 1)
    d, a, b = writer.operands(3)
    x, y = writer.read(a, ptx_type), writer.read(b, ptx_type)
    writer.assign(d, _find_unsigned(ptx_type), f"xf_{item.opcode}_{ptx_type}({x}, {y})")


@_covers("abs", "neg")
def _absolute(writer: _FunctionWriter, item: Instruction) -> None:
    types = [word for word in item.modifiers if word in NBYTES]
    if types and types[-1] not in _INTEGERS:
        _float_sign(writer, item)
        return
    (ptx_type,), _ = writer.split(item, (), 1)
    d, a = writer.operands(2)
    kind = _find_unsigned(ptx_type)
    (x,) = writer.bind(kind, [a])
    negated = f"({kind})(0 - {x})"
    writer.assign(d, kind, negated if item.opcode == "neg" else f"(({ptx_type}){x} < 0 ? {negated} : {x})")
    writer.put("}")


@_covers("min", "max")
def _extreme(writer: _FunctionWriter, item: Instruction) -> None:
    types = [word for word in item.modifiers if word in NBYTES]
    if types and types[-1] not in _INTEGERS | {"u16x2", "s16x2"}:
        _float_extreme(writer, item)
        return
    (ptx_type,), flags = writer.split(item, {"relu"}, 1)
    sign = "<" if item.opcode == "min" else ">"

    def scalar(kind: str, a: str, b: str) -> str:
        result = f"(({kind}){a} {sign} ({kind}){b} ? ({kind}){a} : ({kind}){b})"
        return f"({result} > 0 ? {result} : 0)" if "relu" in flags else result

    d, a, b = writer.operands(3)
    if ptx_type in _PACKED:
        _write_packed(writer, ptx_type, [a, b], lambda halves: scalar(_PACKED[ptx_type], *halves))
    else:
        x, y = writer.bind(ptx_type, [a, b])
        writer.assign(d, _find_unsigned(ptx_type), f"({_find_unsigned(ptx_type)}){scalar(_ctype(ptx_type), x, y)}")
        writer.put("}")


@_covers("popc", "clz", "brev", "cnot")
def _bits(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), _ = writer.split(item, (), 1)
    d, a = writer.operands(2)
    kind = _find_unsigned(ptx_type)
    value, nbits = writer.read(a, kind), 8 * NBYTES[ptx_type]
    if item.opcode == "popc":
        writer.assign(d, "u32", f"xf_popc({value})")
    elif item.opcode == "clz":
        writer.assign(d, "u32", f"xf_clz{nbits}({value})")
    elif item.opcode == "brev":
        writer.assign(d, kind, f"xf_brev{nbits}({value})")
    else:
        writer.assign(d, kind, f"({kind})({value} == 0)")


@_covers("bfind")
def _find_bit(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, {"shiftamt"}, 1)
    d, a = writer.operands(2)
    value = writer.read(a, _find_unsigned(ptx_type))
    writer.assign(
        d, "u32", f"xf_bfind({value}, {8 * NBYTES[ptx_type]}, {int(ptx_type[0] == 's')}, {int('shiftamt' in flags)})"
    )


@_covers("fns")
def _find_nth(writer: _FunctionWriter, item: Instruction) -> None:
    writer.split(item, (), 1)
    d, mask, base, offset = writer.operands(4)
    writer.assign(
        d, "u32", f"xf_fns({writer.read(mask, 'u32')}, {writer.read(base, 'u32')}, {writer.read(offset, 's32')})"
    )


@_covers("bfe")
def _extract(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), _ = writer.split(item, (), 1)
    d, a, b, c = writer.operands(4)
    kind, nbits = _find_unsigned(ptx_type), 8 * NBYTES[ptx_type]
    if isinstance(b, Immediate) and isinstance(c, Immediate) and not b.nbits and not c.nbits:
        begin, count = int(b.value) & 255, int(c.value) & 255
        if count and begin + count <= nbits:  # two shifts
            value = writer.read(a, kind)
            writer.assign(d, kind, f"({kind})(({ptx_type})({value} << {nbits - begin - count}) >> {nbits - count})")
            return
    values = f"{writer.read(a, kind)}, {writer.read(b, 'u32')}, {writer.read(c, 'u32')}"
    writer.assign(d, kind, f"({kind})xf_bfe({values}, {nbits}, {int(ptx_type[0] == 's')})")


@_covers("bfi")
def _insert(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), _ = writer.split(item, (), 1)
    d, a, b, c, e = writer.operands(5)
    kind = _find_unsigned(ptx_type)
    parts = [writer.read(a, kind), writer.read(b, kind), writer.read(c, "u32"), writer.read(e, "u32")]
    writer.assign(d, kind, f"({kind})xf_bfi({', '.join(parts)}, {8 * NBYTES[ptx_type]})")


@_covers("bmsk")
def _bit_mask(writer: _FunctionWriter, item: Instruction) -> None:
    _, flags = writer.split(item, {"clamp", "wrap"}, 1)
    d, a, b = writer.operands(3)
    writer.assign(d, "u32", f"xf_bmsk({writer.read(a, 'u32')}, {writer.read(b, 'u32')}, {int('wrap' in flags)})")


@_covers("szext")
def _extend(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, {"clamp", "wrap"}, 1)
    d, a, b = writer.operands(3)
    tail = f"{int('wrap' in flags)}, {int(ptx_type == 's32')}"
    writer.assign(d, "u32", f"xf_szext({writer.read(a, 'u32')}, {writer.read(b, 'u32')}, {tail})")


@_covers("dp4a", "dp2a")
def _dot(writer: _FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, {"lo", "hi"}, 2)
    d, a, b, c = writer.operands(4)
    second = writer.read(b, "u32")
    if "hi" in flags:
        second = f"({second} >> 16)"
    signs = ", ".join(str(int(ptx_type == "s32")) for ptx_type in types)
    writer.assign(
        d, "u32", f"xf_dot{item.opcode[2]}({writer.read(a, 'u32')}, {second}, {writer.read(c, 'u32')}, {signs})"
    )


@_covers("and", "or", "xor", "not")
def _logic(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), _ = writer.split(item, (), 1)
    kind = "pred" if ptx_type == "pred" else _find_unsigned(ptx_type)
    if item.opcode == "not":
        d, a = writer.operands(2)
        value = writer.read(a, kind)
        writer.assign(d, kind, f"!{value}" if ptx_type == "pred" else _wrap(ptx_type, f"~{value}"))
        return
    d, a, b = writer.operands(3)
    operator = {"and": "&", "or": "|", "xor": "^"}[item.opcode]
    expression = f"{writer.read(a, kind)} {operator} {writer.read(b, kind)}"
    writer.assign(d, kind, expression if ptx_type == "pred" else _wrap(ptx_type, expression))


@_covers("lop3")
def _logic3(writer: _FunctionWriter, item: Instruction) -> None:
    _, flags = writer.split(item, {"or", "and"}, 1)
    d, a, b, c, table, *rest = writer.operands(5, 6)
    if not isinstance(table, Immediate):
        writer.fail("the table of lop3 is not a constant")
    x, y, z = writer.bind("u32", [a, b, c])
    lut = int(table.value) & 255
    inverted = lut.bit_count() > 4
    terms = [
        f"({'' if bit & 4 else '~'}{x} & {'' if bit & 2 else '~'}{y} & {'' if bit & 1 else '~'}{z})"
        for bit in range(8)
        if (lut >> bit & 1) != inverted
    ]
    expression = f"{'~' if inverted else ''}({' | '.join(terms) or '0u'})"
    if isinstance(d, Pair):
        writer.put(f"const u32 r = {expression};")
        operator = "|" if "or" in flags else "&"
        other = writer.read(rest[0], "pred")
        writer.put(f"const u32 q = {other};")
        writer.assign(d.first, "u32", "r")
        writer.assign(d.second, "pred", f"(r != 0) {operator} q")
    else:
        writer.assign(d, "u32", expression)
    writer.put("}")


@_covers("shl", "shr")
def _shift(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), _ = writer.split(item, (), 1)
    d, a, b = writer.operands(3)
    kind, nbits = _find_unsigned(ptx_type), 8 * NBYTES[ptx_type]
    signed = item.opcode == "shr" and ptx_type[0] == "s"
    value = writer.read(a, ptx_type if signed else kind)
    operator = "<<" if item.opcode == "shl" else ">>"
    if isinstance(b, Immediate) and not b.nbits:
        amount = int(b.value) & 0xFFFFFFFF
        if amount >= nbits and not signed:
            writer.assign(d, kind, _integer_literal(0, kind))
        else:
            writer.assign(d, kind, _wrap(ptx_type, f"{value} {operator} {min(amount, nbits - 1)}"))
        return
    amount_of = writer.read(b, "u32")
    if signed:
        writer.assign(d, kind, _wrap(ptx_type, f"{value} >> ({amount_of} < {nbits} ? {amount_of} : {nbits - 1})"))
    else:
        writer.assign(d, kind, f"({amount_of} < {nbits} ? {_wrap(ptx_type, f'{value} {operator} {amount_of}')} : 0)")


@_covers("shf")
def _funnel(writer: _FunctionWriter, item: Instruction) -> None:
    _, flags = writer.split(item, {"l", "r", "clamp", "wrap"}, 1)
    d, a, b, c = writer.operands(4)
    side = "l" if "l" in flags else "r"
    values = ", ".join(writer.read(operand, "u32") for operand in (a, b, c))
    writer.assign(d, "u32", f"xf_shf_{side}({values}, {int('wrap' in flags)})")


@_covers("prmt")
def _permute(writer: _FunctionWriter, item: Instruction) -> None:
    modes = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
    _, flags = writer.split(item, modes, 1)
    d, a, b, c = writer.operands(4)
    values = ", ".join(writer.read(operand, "u32") for operand in (a, b, c))
    mode = next((number for number, name in enumerate(modes) if name in flags), None)
    writer.assign(d, "u32", f"xf_prmt({values})" if mode is None else f"xf_prmt_mode({values}, {mode})")


@_covers(*(f"v{name}{lanes}" for name in ("add", "sub", "avrg", "absdiff", "min", "max") for lanes in "24"))
def _video(writer: _FunctionWriter, item: Instruction) -> None:
    """Bytes or halves of words; with .add their sum instead."""
    types, flags = writer.split(item, {"add", "sat"}, 3)
    operands = writer.operands(4)
    lanes, name = int(item.opcode[-1]), item.opcode[1:-1]
    nbits = 32 // lanes
    mask = (1 << nbits) - 1
    a, b, c = writer.bind("u32", operands[1:])
    least, most = (-(1 << (nbits - 1)), mask >> 1) if types[0] == "s32" else (0, mask)
    parts = []
    for lane in range(lanes):
        x, y = (
            f"(s32)({'s' if ptx_type == 's32' else 'u'}{nbits})({value} >> {lane * nbits})"
            for value, ptx_type in ((a, types[1]), (b, types[2]))
        )
        result = {
            "add": f"({x} + {y})", "sub": f"({x} - {y})", "avrg": f"(({x} + {y} + ({x} + {y} >= 0)) >> 1)",
            "absdiff": f"({x} < {y} ? {y} - {x} : {x} - {y})", "min": f"({x} < {y} ? {x} : {y})",
            "max": f"({x} > {y} ? {x} : {y})",
        }[name]  # fmt: skip
        if "sat" in flags:
            result = f"({result} < {least} ? {least} : {result} > {most} ? {most} : {result})"
        parts.append(f"(u32){result}")
    if "add" in flags:
        writer.assign(operands[0], "u32", f"({c} + {' + '.join(parts)})")
    else:
        joined = " | ".join(f"({part} & {mask}u) << {lane * nbits}" for lane, part in enumerate(parts))
        writer.assign(operands[0], "u32", f"({joined})")
    writer.put("}")


# ---- floats ----


class _Float:
    """How values of one floating type are read, rounded and finished: with .ftz, .sat, .relu and a canonical NaN."""

    def __init__(self, writer: _FunctionWriter, ptx_type: str, flags: set[str]) -> None:
        self.writer, self.type, self.flags = writer, ptx_type, flags

    def take(self, bits: str) -> str:
        """A C float out of an operand's C value: bits for the narrow types."""
        if self.type == "f16":
            return f"xf_half({f'xf_narrow_ftz({bits}, 0x7c00)' if 'ftz' in self.flags else bits})"
        if self.type == "bf16":
            return f"xf_bfloat({bits})"
        return f"xf_ftz({bits})" if self.type == "f32" and "ftz" in self.flags else bits

    def read(self, operand: Operand) -> str:
        return self.take(self.writer.read(operand, self.type))

    def finish(self, expression: str, destination: Operand | None = None) -> str:
        """The operand's C value out of a C float, which is not yet rounded for the narrow types."""
        if self.type == "f32":
            if "ftz" in self.flags:
                expression = f"xf_ftz({expression})"
            if "sat" in self.flags:
                return f"xf_sat({expression})"
            if isinstance(destination, Register) and destination.number not in self.writer.observed:
                return expression
            return f"xf_nan({expression})"
        if self.type == "f64":
            return f"xf_sat64({expression})" if "sat" in self.flags else expression
        return self.finish_bits(f"m->narrow({expression}, {_NARROW[self.type]}, XF_RN, XF_INFINITE)")

    def finish_bits(self, bits: str) -> str:
        one, infinity = ("0x3c00", "0x7c00") if self.type == "f16" else ("0x3f80", "0x7f80")
        if "ftz" in self.flags and self.type == "f16":
            bits = f"xf_narrow_ftz({bits}, {infinity})"
        if "sat" in self.flags:
            bits = f"xf_narrow_sat({bits}, {one}, {infinity})"
        if "relu" in self.flags:
            bits = f"xf_narrow_relu({bits})"
        return f"((u16){bits})"

    def compute(self, opcode: str, values: list[str], mode: str, destination: Operand | None) -> str:
        """The finished result of an arithmetic instruction on C floats."""
        if self.type in _NARROW:
            if opcode in ("fma", "mad"):
                return self.finish_bits(f"m->fma_narrow({', '.join(values)}, {_NARROW[self.type]})")
            operator = {"add": "+", "sub": "-", "mul": "*"}.get(opcode)
            if operator is None:
                self.writer.refuse()
            return self.finish(f"(f64){values[0]} {operator} {values[1]}")
        bits = self.type[1:]
        if mode == "XF_RN":
            plain = {
                "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "rcp": "1 / {0}",
                "fma": f"xf_fma{bits}(m, {{0}}, {{1}}, {{2}})", "mad": f"xf_fma{bits}(m, {{0}}, {{1}}, {{2}})",
                "sqrt": f"xf_sqrt{bits}(m, {{0}})",
            }[opcode]  # fmt: skip
            expression = plain.format(*values)
        else:
            name = {"mad": "fma", "rcp": "div", "sub": "add"}.get(opcode, opcode)
            if opcode == "rcp":
                values = [f"({self.type})1", *values]
            elif opcode == "sub":
                values = [values[0], f"-({values[1]})"]
            expression = f"m->{name}_{self.type}({', '.join(values)}, {mode})"
        return self.finish(f"({expression})", destination)


_ARITHMETIC_FLAGS = {"rn", "rz", "rm", "rp", "ftz", "sat", "relu", "approx", "full"}


def _mode(flags: Iterable[str]) -> str:
    return next((_MODES[flag] for flag in flags if flag in _MODES), "XF_RN")


@_covers("fma")
def _float_arithmetic(writer: _FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, _ARITHMETIC_FLAGS, 1)
    ptx_type = types[0]
    count = {"fma": 3, "mad": 3}.get(item.opcode, 2)
    operands = writer.operands(count + 1)
    if {"approx", "full"} & flags:  # quotients of float are expanded before
        writer.refuse()
    part = _PACKED.get(ptx_type)
    kind = _Float(writer, part or ptx_type, flags)
    if (
        kind.type not in ("f32", "f64", *_NARROW)
        or item.opcode == "rem"
        or (kind.type in _NARROW and item.opcode == "div")
    ):
        writer.refuse()
    if part:
        _write_packed(
            writer, ptx_type, operands[1:],
            lambda halves: kind.compute(item.opcode, [kind.take(half) for half in halves], _mode(flags), None),
        )  # fmt: skip
    else:
        values = [kind.read(operand) for operand in operands[1:]]
        writer.assign(operands[0], ptx_type, kind.compute(item.opcode, values, _mode(flags), operands[0]))


@_covers("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh")
def _unary(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, _ARITHMETIC_FLAGS, 1)
    d, a = writer.operands(2)
    part = _PACKED.get(ptx_type, ptx_type)
    kind = _Float(writer, part, flags)
    number = f"XF_{item.opcode.upper()}"
    if "approx" not in flags:
        if item.opcode not in ("rcp", "sqrt") or ptx_type not in _FLOATS:
            writer.refuse()
        writer.assign(d, ptx_type, kind.compute(item.opcode, [kind.read(a)], _mode(flags), d))
    elif ptx_type == "f64":
        if item.opcode not in ("rcp", "rsqrt"):
            writer.refuse()
        name = "rsqrt_ftz_f64" if item.opcode == "rsqrt" and "ftz" in flags else f"{item.opcode}_f64"
        writer.assign(d, ptx_type, f"m->approximate->{name}({writer.read(a, ptx_type)})")
    elif ptx_type == "f32":
        table = "flushed" if "ftz" in flags else "full"
        writer.assign(d, ptx_type, f"m->approximate->{table}[{number}]({writer.read(a, ptx_type)})")
    else:
        if item.opcode not in ("ex2", "tanh") or part not in _NARROW:
            writer.refuse()

        def narrow(bits: str) -> str:
            return f"((u16)m->approximate->narrow({number}, {bits}, {_NARROW[part]}))"

        if ptx_type in _PACKED:
            _write_packed(writer, ptx_type, [a], lambda halves: narrow(halves[0]))
        else:
            writer.assign(d, ptx_type, narrow(writer.read(a, ptx_type)))


def _float_sign(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, {"ftz"}, 1)
    d, a = writer.operands(2)
    negates = item.opcode == "neg"
    if ptx_type == "f32":
        kind = _Float(writer, ptx_type, flags)
        value = kind.read(a)
        writer.assign(
            d, ptx_type, kind.finish(f"(-{value})" if negates else f"xf_f32(xf_b32({value}) & 0x7fffffffu)", d)
        )
    elif ptx_type == "f64":
        writer.assign(d, ptx_type, f"xf_{item.opcode}64({writer.read(a, ptx_type)})")
    elif ptx_type in _NARROW or ptx_type in ("f16x2", "bf16x2"):
        bits, sign = _find_unsigned(ptx_type), 0x8000 if ptx_type in _NARROW else 0x80008000
        value = writer.read(a, bits)
        if "ftz" in flags:
            if ptx_type in _NARROW:
                value = f"xf_narrow_ftz({value}, 0x7c00)"
            else:
                value = f"(xf_narrow_ftz({value} & 0xffff, 0x7c00) | xf_narrow_ftz({value} >> 16, 0x7c00) << 16)"
        mask = _integer_literal(sign if negates else ~sign, bits)
        writer.assign(d, bits, _wrap(ptx_type, f"{value} {'^' if negates else '&'} {mask}"))
    else:
        writer.refuse()


def _float_extreme(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, {"ftz", "NaN", "xorsign", "abs"}, 1)
    operands = writer.operands(3, 4)
    part = _PACKED.get(ptx_type, ptx_type)
    if part not in ("f32", "f64", *_NARROW):
        writer.refuse()
    kind = _Float(writer, part, flags)
    bits = 64 if part == "f64" else 32
    float_type = f"f{bits}"
    top = _integer_literal(1 << (bits - 1), f"u{bits}")

    def scalar(values: list[str]) -> str:
        names = values
        if "abs" in flags:
            names = [f"xf_f{bits}(xf_b{bits}({value}) & ~{top})" for value in values]
        result = names[0]
        for name in names[1:]:
            result = f"xf_{item.opcode}{bits}({result}, {name})"
        if "NaN" in flags:
            tests = " || ".join(f"{name} != {name}" for name in names)
            nan = "xf_f32(0x7fffffffu)" if bits == 32 else "xf_f64(0x7fffffffffffffffull)"
            result = f"({tests} ? {nan} : {result})"
        if "xorsign" in flags:
            signs = " ^ ".join(f"xf_b{bits}({value})" for value in values)
            result = f"xf_f{bits}(xf_b{bits}({result}) | (({signs}) & {top}))"
        return result

    def finish(values: list[str]) -> str:
        if part in _NARROW:
            return f"((u16)m->narrow({scalar(values)}, {_NARROW[part]}, XF_RN, XF_INFINITE))"
        return kind.finish(scalar(values), operands[0])

    if ptx_type in _PACKED:
        _write_packed(writer, ptx_type, operands[1:], lambda halves: finish([kind.take(half) for half in halves]))
        return
    values = [kind.read(operand) for operand in operands[1:]]
    names = [writer.temporary() for _ in values]
    declared = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    writer.put(f"{{ const {float_type} {declared};")
    writer.assign(operands[0], ptx_type, finish(names))
    writer.put("}")


@_covers("copysign")
def _copy_sign(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), _ = writer.split(item, (), 1)
    d, a, b = writer.operands(3)
    bits = _find_unsigned(ptx_type)
    top = _integer_literal(1 << (8 * NBYTES[ptx_type] - 1), bits)
    writer.assign(d, bits, f"(({writer.read(a, bits)} & {top}) | ({writer.read(b, bits)} & ~{top}))")


@_covers("testp")
def _test(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, {"finite", "infinite", "number", "notanumber", "normal", "subnormal"}, 1)
    d, a = writer.operands(2)
    bits = _find_unsigned(ptx_type)
    top, exponent, least = (
        (0x7FFFFFFF, 0x7F800000, 0x00800000) if ptx_type == "f32" else ((1 << 63) - 1, 0x7FF << 52, 1 << 52)
    )
    size = f"({writer.read(a, bits)} & {_integer_literal(top, bits)})"
    infinity, tiny = _integer_literal(exponent, bits), _integer_literal(least, bits)
    (flag,) = flags
    expression = {
        "finite": f"{size} < {infinity}", "infinite": f"{size} == {infinity}", "number": f"{size} <= {infinity}",
        "notanumber": f"{size} > {infinity}", "normal": f"{size} >= {tiny} && {size} < {infinity}",
        "subnormal": f"{size} && {size} < {tiny}",
    }[flag]  # fmt: skip
    writer.assign(d, "pred", f"({expression})")


# ---- comparisons ----

_COMPARISONS = {
    "eq": "{0} == {1}", "ne": "({0} < {1} || {0} > {1})", "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}",
    "ge": "{0} >= {1}", "equ": "!({0} < {1} || {0} > {1})", "neu": "{0} != {1}", "ltu": "!({0} >= {1})",
    "leu": "!({0} > {1})", "gtu": "!({0} <= {1})", "geu": "!({0} < {1})",
    "num": "({0} == {0} && {1} == {1})", "nan": "({0} != {0} || {1} != {1})",
}  # fmt: skip
_UNORDERED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BOOLEANS = {"and": "&", "or": "|", "xor": "^"}


def _comparison(writer: _FunctionWriter, ptx_type: str, flags: set[str], word: str) -> Callable[[list[str]], str]:
    """Writes a comparison of two C values of the type."""
    if ptx_type in _INTEGERS:
        word = _UNORDERED.get(word, word)
        operator = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}.get(word)
        if operator is None:
            writer.refuse()
        return lambda values: f"({values[0]} {operator} {values[1]})"
    if word not in _COMPARISONS or ptx_type not in ("f32", "f64", *_NARROW):
        writer.refuse()
    kind = _Float(writer, ptx_type, flags)
    return lambda values: f"({_COMPARISONS[word].format(*(kind.take(value) for value in values))})"


@_covers("setp", "set")
def _compare(writer: _FunctionWriter, item: Instruction) -> None:
    words = [word for word in item.modifiers if word not in NBYTES]
    types = [word for word in item.modifiers if word in NBYTES]
    flags = {word for word in words if word == "ftz"}
    plain = [word for word in words if word != "ftz"]
    if not plain or len(plain) > 2 or len(types) != (1 if item.opcode == "setp" else 2):
        writer.refuse()
    word, boolean = plain[0], plain[1] if len(plain) > 1 else ""
    if boolean and boolean not in _BOOLEANS:
        writer.refuse()
    operands = writer.operands(4 if boolean else 3)
    d, ptx_type = operands[0], types[-1]
    part = _PACKED.get(ptx_type, ptx_type)
    compare = _comparison(writer, part, flags, word)
    third = writer.read(operands[3], "pred") if boolean else ""

    def combine(test: str) -> str:
        return f"({test} {_BOOLEANS[boolean]} {third})" if boolean else test

    if ptx_type in _PACKED:
        x, y = writer.bind(ptx_type, operands[1:3])
        low, high = (
            combine(compare([f"((u16){x})", f"((u16){y})"])),
            combine(compare([f"(u16)({x} >> 16)", f"(u16)({y} >> 16)"])),
        )
        if item.opcode == "setp":
            if not isinstance(d, Pair):
                writer.fail("two halves need two predicates")
            writer.put(f"const u32 low = {low}, high = {high};")
            writer.assign(d.first, "pred", "low")
            writer.assign(d.second, "pred", "high")
        else:
            one = _ONE.get(_PACKED.get(types[0], ""), "0xffffu")
            writer.assign(
                d, types[0] if types[0] in _PACKED else "u32", f"(({low}) ? {one} : 0u) | (({high}) ? {one} : 0u) << 16"
            )
        writer.put("}")
        return
    x, y = writer.bind(ptx_type, operands[1:3])
    test = combine(compare([x, y]))
    if item.opcode == "set":
        result = types[0]
        if result == "f32":
            writer.assign(d, "f32", f"({test} ? 1.0f : 0.0f)")
        elif result in _NARROW:
            writer.assign(d, result, f"(u16)({test} ? {_ONE[result]} : 0)")
        else:
            writer.assign(d, _find_unsigned(result), f"({_find_unsigned(result)})({test} ? -1 : 0)")
    elif isinstance(d, Pair):
        opposite = combine(f"!{compare([x, y])}")
        writer.put(f"const u32 p = {test}, q = {opposite};")
        writer.assign(d.first, "pred", "p")
        writer.assign(d.second, "pred", "q")
    else:
        writer.assign(d, "pred", test)
    writer.put("}")


_ONE = {"f16": "0x3c00u", "bf16": "0x3f80u"}


@_covers("selp")
def _select(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), _ = writer.split(item, (), 1)
    d, a, b, c = writer.operands(4)
    writer.assign(d, ptx_type, f"({writer.read(c, 'pred')} ? {writer.read(a, ptx_type)} : {writer.read(b, ptx_type)})")


@_covers("slct")
def _select_by_sign(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type, selector), flags = writer.split(item, {"ftz"}, 2)
    d, a, b, c = writer.operands(4)
    value = writer.read(c, selector)
    if selector == "f32" and "ftz" in flags:
        value = f"xf_ftz({value})"
    writer.assign(d, ptx_type, f"({value} >= 0 ? {writer.read(a, ptx_type)} : {writer.read(b, ptx_type)})")


# ---- moves and conversions ----


@_covers("mov")
def _move(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, _VECTORS, 1)
    d, a = writer.operands(2)
    if flags and isinstance(d, Vector):
        names = (
            [Special(f"{a.name}.{letter}") for letter in "xyzw"]
            if isinstance(a, Special)
            else a.items
            if isinstance(a, Vector)
            else ()
        )
        for target, source in zip(d.items, names, strict=False):
            writer.assign(target, ptx_type, writer.read(source, ptx_type))
    elif isinstance(a, Vector):
        writer.assign(d, ptx_type, writer.pack(a, ptx_type))
    elif isinstance(a, PtxLabel):
        writer.refuse("the address of a label")
    else:
        writer.assign(d, ptx_type, writer.read(a, ptx_type))


@_covers("cvta")
def _convert_address(writer: _FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, {"to", *_SPACES, "shared::cta", "param::entry"}, 1)
    d, a = writer.operands(2)
    value = writer.read(a, types[0])
    if {"shared", "shared::cta"} & flags:
        value = f"({value} {'-' if 'to' in flags else '+'} sh)"
    writer.assign(d, "u64", value)


@_covers("isspacep")
def _is_space(writer: _FunctionWriter, item: Instruction) -> None:
    _, flags = writer.split(item, {*_SPACES, "shared::cta", "shared::cluster", "param::entry"}, 0)
    d, a = writer.operands(2)
    (x,) = writer.bind("u64", [a])
    shared = f"({x} - sh < t->dynamic_begin + t->dynamic_nbytes)"
    local = f"({x} >= t->stack_begin && {x} < t->stack_end)"
    (space,) = flags
    const = f"({x} - md - {writer.layout.const_begin}ull < {writer.layout.const_end}ull)"
    expression = {
        "shared": shared, "shared::cta": shared, "shared::cluster": shared, "local": local, "const": const,
        "param": "0", "param::entry": "0", "global": f"(!{shared} && !{local} && !{const})",
    }[space]  # fmt: skip
    writer.assign(d, "pred", expression)
    writer.put("}")


_CVT_FLAGS = {"rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna", "ftz", "sat", "relu", "satfinite"}
_LIMITS = {
    "s8": (-128, 127),
    "s16": (-32768, 32767),
    "s32": (-(1 << 31), (1 << 31) - 1),
    "s64": (-(1 << 63), (1 << 63) - 1),
}


@_covers("cvt")
def _cvt(writer: _FunctionWriter, item: Instruction) -> None:
    if "pack" in item.modifiers:
        _cvt_pack(writer, item)
        return
    types, flags = writer.split(item, _CVT_FLAGS, 2)
    target, source = types
    operands = writer.operands(2, 3)
    d, mode = operands[0], _mode(flags)
    floats = ("f16", "bf16", "f32", "f64")
    if target in ("f16x2", "bf16x2") and source == "f32":
        part = _Float(writer, "f16" if target == "f16x2" else "bf16", flags & {"relu"})
        high, low = (_narrow(part, writer.read(operand, "f32"), flags) for operand in operands[1:])
        writer.assign(d, "u32", f"((u32){high} << 16 | {low})")
    elif target in ("e4m3x2", "e5m2x2"):
        _cvt_to_8(writer, operands, target, source, flags)
    elif target == "f16x2" and source in ("e4m3x2", "e5m2x2"):
        (x,) = writer.bind("u16", operands[1:])
        name = f"XF_{source[:4].upper()}"
        parts = [
            f"m->narrow(m->widen({x}{shift} & 255, {name}), XF_HALF, XF_RN, XF_INFINITE)" for shift in ("", " >> 8")
        ]
        if "relu" in flags:
            parts = [f"xf_narrow_relu({part})" for part in parts]
        writer.assign(d, "u32", f"({parts[0]} | {parts[1]} << 16)")
        writer.put("}")
    elif target == "tf32" and source == "f32":
        value = f"m->narrow({writer.read(operands[1], 'f32')}, XF_TF32, {mode}, {_overflow(flags)})"
        writer.assign(d, "u32", f"({value} >> 31 ? 0u : {value})" if "relu" in flags else value)
    elif source in floats and target in floats:
        _cvt_float(writer, operands, target, source, flags, mode)
    elif source in floats and target in _INT_TYPES:
        _cvt_to_int(writer, operands, target, source, flags, mode)
    elif source in _INT_TYPES and target in floats:
        _cvt_from_int(writer, operands, target, source, flags, mode)
    elif source in _INT_TYPES and target in _INT_TYPES:
        value = writer.read(operands[1], source)
        if "sat" in flags:
            value = _clamp(writer, operands[1], source, target)
        writer.assign(d, target, value if _ctype(source) == _ctype(target) else f"(({_ctype(target)}){value})")
    else:
        writer.refuse()


_INT_TYPES = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64", "b8", "b16", "b32", "b64"}


def _overflow(flags: set[str]) -> str:
    return "XF_SATFINITE" if "satfinite" in flags else "XF_INFINITE"


def _narrow(part: _Float, value: str, flags: set[str]) -> str:
    bits = f"m->narrow({value}, {_NARROW[part.type]}, {_mode(flags)}, {_overflow(flags)})"
    return part.finish_bits(bits)


def _cvt_to_8(writer: _FunctionWriter, operands: list[Operand], target: str, source: str, flags: set[str]) -> None:
    name = f"XF_{target[:4].upper()}"
    if source == "f32":
        high, low = (writer.read(operand, "f32") for operand in operands[1:3])
        opened = False
    elif source in ("f16x2", "bf16x2"):
        (x,) = writer.bind("u32", operands[1:])
        wide = "xf_half" if source == "f16x2" else "xf_bfloat"
        high, low = f"{wide}({x} >> 16)", f"{wide}({x} & 0xffff)"
        opened = True
    else:
        writer.refuse()
    parts = [f"m->narrow({value}, {name}, XF_RN, XF_SATFINITE)" for value in (high, low)]
    if "relu" in flags:
        parts = [f"({part} & 128 ? 0 : {part})" for part in parts]
    writer.assign(operands[0], "u16", f"(u16)({parts[0]} << 8 | {parts[1]})")
    if opened:
        writer.put("}")


def _cvt_float(
    writer: _FunctionWriter, operands: list[Operand], target: str, source: str, flags: set[str], mode: str
) -> None:
    integral = any(word in flags for word in ("rni", "rzi", "rmi", "rpi"))
    reader = _Float(writer, source, flags if source == "f32" else set())
    value = reader.read(operands[1])
    kind = _Float(writer, target, flags)
    if target == "f64":
        if source == "f64":
            value = f"m->round_f64({value}, {mode})" if integral else value
        else:
            value = f"(f64){value}"
        writer.assign(operands[0], "f64", f"xf_sat64({value})" if "sat" in flags else value)
    elif target == "f32":
        if source == "f64":
            value = f"(f32){value}" if mode == "XF_RN" else f"m->f32_from_f64({value}, {mode})"
        elif integral:
            value = f"m->round_f32({value}, {mode})"
        writer.assign(operands[0], "f32", kind.finish(f"({value})", operands[0]))
    elif integral:
        bits = f"m->narrow(m->round_f32({value}, {mode}), {_NARROW[target]}, XF_RN, XF_INFINITE)"
        writer.assign(operands[0], target, kind.finish_bits(bits))
    else:
        kind.flags = flags - {"ftz"}
        writer.assign(operands[0], target, _narrow(kind, value, flags))


def _cvt_to_int(
    writer: _FunctionWriter, operands: list[Operand], target: str, source: str, flags: set[str], mode: str
) -> None:
    value = _Float(writer, source, flags if source == "f32" else set()).read(operands[1])
    target = target.replace("b", "u")
    nbits = 8 * NBYTES[target]
    # The manual: NaN becomes 0, or where either side has 64 bits the number with the highest bit alone.
    nan = 1 << (nbits - 1) if source == "f64" or nbits == 64 else 0
    if target == "s32" and mode == "XF_RZ":
        writer.assign(operands[0], "s32", f"xf_to_s32({value}, {nan}u)")
        return
    x = writer.temporary()
    writer.put(f"{{ const f64 {x} = {value};")
    if target[0] == "s":
        least, most = _LIMITS[target]
        whole = f"m->to_s64({x}, {mode}, {least + 1}ll - 1, {most}ll)"
    else:
        whole = f"m->to_u64({x}, {mode}, {(1 << nbits) - 1}ull)"
    kind = _ctype(target)
    writer.assign(operands[0], target, f"({x} == {x} ? ({kind}){whole} : ({kind}){nan}ull)")
    writer.put("}")


def _cvt_from_int(
    writer: _FunctionWriter, operands: list[Operand], target: str, source: str, flags: set[str], mode: str
) -> None:
    source = source.replace("b", "u")
    value = writer.read(operands[1], source)
    wide = f"{source[0]}64"
    kind = _Float(writer, target, flags)
    if target in _NARROW:
        exact = f"m->f64_from_{wide}({value}, XF_ODD)" if NBYTES[source] == 8 else f"(f64){value}"
        writer.assign(operands[0], target, _narrow(kind, exact, flags))
    elif mode == "XF_RN":
        expression = f"xf_{target}_from_u64(m, {value})" if source == "u64" else f"({target}){value}"
        writer.assign(
            operands[0], target, f"xf_sat({expression})" if "sat" in flags and target == "f32" else expression
        )
    else:
        writer.assign(operands[0], target, f"m->{target}_from_{wide}({value}, {mode})")


def _clamp(writer: _FunctionWriter, operand: Operand, source: str, target: str) -> str:
    """An integer between the limits of the target's type."""
    value = writer.read(operand, source)
    least, most = _LIMITS.get(target, (0, (1 << 8 * NBYTES[target]) - 1))
    kind = _ctype(source)
    own_least, own_most = _LIMITS.get(source, (0, (1 << 8 * NBYTES[source]) - 1))
    result = value
    if own_most > most:
        result = f"({value} > ({kind}){most}ull ? ({kind}){most}ull : {result})"
    if own_least < least:
        result = f"({value} < ({kind}){least} ? ({kind}){least} : {result})"
    return result


def _cvt_pack(writer: _FunctionWriter, item: Instruction) -> None:
    types, _ = writer.split(item, {"pack", "sat"})
    if len(types) < 2 or types[1] != "s32" or types[0] not in ("u16", "s16", "u8", "s8", "u4", "s4"):
        writer.refuse()
    operands = writer.operands(3, 4)
    nbits = 8 * NBYTES[types[0]]
    mask = (1 << nbits) - 1
    a, b = writer.bind("s32", operands[1:3])
    third = f"{writer.read(operands[3], 'u32')} << {2 * nbits}" if len(operands) > 3 else "0u"
    least, most = _LIMITS.get(types[0], (0, mask))
    parts = [f"((u32)({x} < {least} ? {least} : {x} > {most} ? {most} : {x}) & {mask}u)" for x in (a, b)]
    writer.assign(operands[0], "u32", f"({parts[0]} << {nbits} | {parts[1]} | {third})")
    writer.put("}")


# ---- memory ----


@dataclass(slots=True)
class _Access:
    space: str  # one of _SPACES, or "" for a generic address
    flags: str  # of kernel.h
    is_strong: bool
    count: int
    type: str


def _access(writer: _FunctionWriter, item: Instruction, direction: str) -> _Access:
    space, count, flags, strong = "", 1, [direction], False
    types = []
    for word in item.modifiers:
        base = word.partition("::")[0]
        if word in NBYTES:
            types.append(word)
        elif word in _VECTORS:
            count = _VECTORS[word]
        elif base in _SPACES:
            if word == "shared::cluster" and item.opcode not in ("ld", "st", "atom", "red"):
                writer.refuse()
            space = base
        elif word in ("volatile", "relaxed", "mmio"):
            strong = True
        elif word == "acquire":
            strong = True
            flags.append("XF_ACQUIRE")
        elif word == "release":
            strong = True
            flags.append("XF_RELEASE")
        elif word in _SCOPES or word in _CACHE or word == "weak" or base in ("L1", "L2"):
            strong = strong or word == "cv"
        else:
            writer.refuse(f"'.{word}' of the instruction '{item.name}'")
    if len(types) != 1:
        writer.refuse()
    if strong:
        flags.append("XF_STRONG")
    if meaning := writer.meanings.get(writer.index):
        flags.append(meaning)
    if direction == "XF_READ" and writer.doubtful & dataflow.find_results(item) and dataflow.may_be_kept(item):
        flags.append("XF_COPY")
    if space in _SPACE_FLAG:
        flags.append(_SPACE_FLAG[space])
    return _Access(space, " | ".join(flags), strong, count, types[0])


def _address(writer: _FunctionWriter, operand: Operand) -> str:
    """An address as a C expression of u64: the host's, or an offset in the shared window where the space is shared."""
    if not isinstance(operand, Address):
        writer.fail("an operand is not an address")
    base, offset = operand.base, operand.offset
    if isinstance(base, Register):
        value = writer.read_register(base, _find_unsigned(base.type))
        if not offset:
            return value
        operator, size = ("+", offset) if offset > 0 else ("-", -offset)
        suffix = "ull" if NBYTES[base.type] == 8 else "u"
        return f"({value} {operator} {size}{suffix})"
    if isinstance(base, Symbol):
        return writer.address_of(Symbol(base.target, base.offset + offset))
    return _integer_literal(int(base.value) + offset, "u64")


def _host_address(writer: _FunctionWriter, operand: Operand, space: str) -> str:
    address = _address(writer, operand)
    if space == "shared":
        return f"(sh + {address})"
    return address


def _check_param(writer: _FunctionWriter, operand: Operand, nbytes: int) -> None:
    """A parameter's bytes are known here: what lies outside of them is an error of the text."""
    base = operand.base if isinstance(operand, Address) else None
    if isinstance(operand, Address) and isinstance(base, Symbol) and isinstance(variable := base.target, PtxVariable):
        begin = base.offset + operand.offset
        if begin < 0 or (variable.nbytes and begin + nbytes > variable.nbytes):
            writer.fail(
                f"bytes {begin} to {begin + nbytes} are outside of '{variable.name}', which has {variable.nbytes}"
            )


@_covers("ld", "ldu")
def _load(writer: _FunctionWriter, item: Instruction) -> None:
    access = _access(writer, item, "XF_READ")
    d, source = writer.operands(2, 3)[:2]
    kind = _ctype(access.type)
    nbytes = NBYTES[access.type] * access.count
    direct = access.space == "param"  # the translator itself has laid them out
    if direct:
        _check_param(writer, source, nbytes)
    if writer.checked and not direct:
        pointer = f"run->access(t, {_address(writer, source)}, {nbytes}, {access.flags}, {writer.site})"
    else:
        pointer = _host_address(writer, source, access.space)
        if access.is_strong and (writer.index in writer.in_loop or not writer.function.is_entry):
            writer.put(f"run->yield(t, {writer.site});")
    volatile = "volatile " if access.is_strong else ""
    # Loads go as bits into registers that hold bits: a register's C type is known only now.
    if access.count == 1:
        if isinstance(d, Vector):
            d = d.items[0] if len(d.items) == 1 else writer.fail("a vector needs .v2, .v4 or .v8")
        kind, ptx_type = _load_type(writer, d, access.type)
        writer.assign(d, ptx_type, f"*(const {volatile}{kind} *){pointer}")
        return
    if not isinstance(d, Vector) or len(d.items) != access.count:
        writer.fail(f"the destination is not a vector of {access.count}")
    name = writer.temporary()
    writer.put(f"{{ const {volatile}{kind} *const {name} = (const {volatile}{kind} *){pointer};")
    values = [writer.temporary() for _ in d.items]
    wanted = [_load_type(writer, target, access.type) for target in d.items]
    for number, value in enumerate(values):
        writer.put(f"const {wanted[number][0]} {value} = *(const {volatile}{wanted[number][0]} *)({name} + {number});")
    for target, value, (_, ptx_type) in zip(d.items, values, wanted, strict=True):
        writer.assign(target, ptx_type, value)
    writer.put("}")


def _load_type(writer: _FunctionWriter, operand: Operand, ptx_type: str) -> tuple[str, str]:
    if isinstance(operand, Register) and ptx_type in ("b32", "u32", "f32", "b64", "u64", "f64"):
        own = writer.name_of(operand)[1]
        if own in ("u32", "f32", "u64", "f64") and _CTYPE_NBYTES[own] == NBYTES[ptx_type]:
            return own, own
    return _ctype(ptx_type), ptx_type


@_covers("st")
def _store(writer: _FunctionWriter, item: Instruction) -> None:
    access = _access(writer, item, "XF_WRITE")
    target, value = writer.operands(2, 3)[:2]
    kind = _ctype(access.type)
    nbytes = NBYTES[access.type] * access.count
    items = list(value.items) if isinstance(value, Vector) else [value]
    if len(items) != access.count:
        writer.fail(f"the source is not a vector of {access.count}")
    values = [writer.read(operand, access.type) for operand in items]
    direct = access.space == "param"
    if direct:
        _check_param(writer, target, nbytes)
    if writer.checked and not direct:
        address = _address(writer, target)
        writer.put(f"{{ const {kind} x[{access.count}] = {{{', '.join(values)}}};")
        writer.put(f"run->store(t, {address}, {nbytes}, {access.flags}, x, {writer.site}); }}")
        return
    volatile = "volatile " if access.is_strong else ""
    pointer = _host_address(writer, target, access.space)
    if access.count == 1:
        if isinstance(items[0], Register) and access.type in ("b32", "u32", "f32", "b64", "u64", "f64"):
            kind, ptx_type = _load_type(writer, items[0], access.type)
            values = [writer.read(items[0], ptx_type)]
        writer.put(f"*({volatile}{kind} *){pointer} = {values[0]};")
        return
    name = writer.temporary()
    writer.put(f"{{ {volatile}{kind} *const {name} = ({volatile}{kind} *){pointer};")
    for number, text in enumerate(values):
        writer.put(f"{name}[{number}] = {text};")
    writer.put("}")


@_covers("atom", "red")
def _atomic(writer: _FunctionWriter, item: Instruction) -> None:
    space, operation, flags, count, types = "", "", ["XF_STRONG"], 1, []
    for word in item.modifiers:
        base = word.partition("::")[0]
        if word in _ATOMIC_TYPES and word not in _ATOMICS:
            types.append(word)
        elif word in _ATOMICS:
            operation = word
        elif base in ("global", "shared"):
            space = base
        elif word in _VECTORS:
            count = _VECTORS[word]
        elif word in ("acquire", "acq_rel", "release", "sc"):
            flags += ["XF_ACQUIRE"] if word != "release" else []
            flags += ["XF_RELEASE"] if word != "acquire" else []
        elif word == "cta":
            flags.append("XF_NARROW")
        elif word not in ("relaxed", "noftz") and word not in _SCOPES and base not in ("L1", "L2"):
            writer.refuse(f"'.{word}' of the instruction '{item.name}'")
    if not operation or len(types) != 1:
        writer.refuse()
    if space:
        flags.append(_SPACE_FLAG[space])
    ptx_type, operands = types[0], item.operands
    is_atom = item.opcode == "atom"
    needed = 2 + (operation == "cas") + is_atom
    if not needed <= len(operands) <= needed + 1:
        writer.fail(f"'{item.name}' has {len(operands)} operands")
    target = operands[0] if is_atom else NoOperand()
    address, first = operands[is_atom], operands[is_atom + 1]
    second = operands[is_atom + 2] if operation == "cas" else None
    kind, step = _ctype(ptx_type), NBYTES[ptx_type]
    name = (
        "XF_U64"
        if ptx_type == "s64" and operation in ("add", "and", "or", "xor", "exch", "cas")
        else _ATOMIC_TYPES[ptx_type]
    )
    if ptx_type == "s32" and operation in ("add", "and", "or", "xor", "exch", "cas"):
        name = "XF_U32"
    targets = target.items if isinstance(target, Vector) and count > 1 else (target,) * count
    sources = first.items if isinstance(first, Vector) and count > 1 else (first,)
    if len(sources) != count or len(targets) != count:
        writer.fail(f"an operand is not a vector of {count}")
    where = _address(writer, address)
    writer.put(f"{{ const u64 a = {where};")
    for number, source in enumerate(sources):
        other = f", y = {writer.read(second, ptx_type)}" if second is not None else ""
        pointer = "&y" if second is not None else "0"
        writer.put(f"{{ {kind} x = {writer.read(source, ptx_type)}{other}, o;")
        place = f"a + {number * step}" if number else "a"
        writer.put(
            f"run->atomic(t, {place}, XF_{operation.upper()}, {name}, &x, {pointer}, &o, "
            f"{' | '.join(flags)}, {writer.site});"
        )
        if not isinstance(targets[number], NoOperand):
            writer.assign(targets[number], ptx_type, "o")
        writer.put("}")
    writer.put("}")


@_covers("fence", "membar")
def _fence(writer: _FunctionWriter, item: Instruction) -> None:
    if "proxy" in item.modifiers or any(
        word.startswith(("proxy", "mbarrier_init", "op_restrict")) for word in item.modifiers
    ):
        return
    scope = "XF_FENCE_BLOCK"
    if {"gl", "gpu", "cluster"} & set(item.modifiers):
        scope = "XF_FENCE_DEVICE"
    elif "sys" in item.modifiers:
        scope = "XF_FENCE_SYSTEM"
    writer.put(f"run->fence(t, {scope}, {writer.site});")


@_covers("alloca")
def _alloca(writer: _FunctionWriter, _item: Instruction) -> None:
    d, nbytes = writer.operands(2, 3)[:2]
    size = writer.read(nbytes, "u64")
    writer.put(f"{{ const u64 n = {size}; char *const x = (char *)(((u64)__builtin_alloca(n + 64) + 31) & ~31ull);")
    if writer.checked:
        writer.put("run->local_begin(t, x, (u32)n);")
    writer.assign(d, "u64", "(u64)x")
    writer.put("}")


@_covers("stacksave")
def _stack_save(writer: _FunctionWriter, _item: Instruction) -> None:
    writer.assign(writer.operands(1)[0], "u64", "0ull")


@_covers("createpolicy")
def _create_policy(writer: _FunctionWriter, item: Instruction) -> None:
    writer.assign(item.operands[0], "u64", "0ull")


@_covers(*NO_EFFECT)
def _nothing(writer: _FunctionWriter, item: Instruction) -> None:
    """Hints, and what orders the launches of a stream: a CPU has no use for them."""


# ---- control ----


@_covers("bra")
def _branch(writer: _FunctionWriter, _item: Instruction) -> None:
    label = writer.operands(1)[0]
    assert isinstance(label, PtxLabel)
    _jump(writer, label)


def _jump(writer: _FunctionWriter, label: PtxLabel) -> None:
    if writer.positions[label.number] <= writer.index:
        writer.put(f"XF_TICK({writer.site});")
    writer.put(f"goto L{label.number};")


@_covers("brx")
def _branch_by_index(writer: _FunctionWriter, item: Instruction) -> None:
    index, _ = writer.operands(2)
    labels = dataflow.find_targets(writer.function, item)
    if not labels:
        writer.fail("the list of targets is not defined")
    writer.put(f"switch ({writer.read(index, 'u32')}) {{")
    for number, label in enumerate(labels):
        writer.put(f"case {number}:" if number + 1 < len(labels) else "default:")
        _jump(writer, label)
    writer.put("}")


@_covers("ret")
def _return(writer: _FunctionWriter, _item: Instruction) -> None:
    writer.leave("0")


@_covers("exit")
def _exit(writer: _FunctionWriter, _item: Instruction) -> None:
    writer.leave("1")


@_covers("trap", "brkpt")
def _trap(writer: _FunctionWriter, _item: Instruction) -> None:
    writer.put(f"run->trap(t, {writer.site});")


@_covers("nanosleep")
def _sleep(writer: _FunctionWriter, _item: Instruction) -> None:
    writer.put(f"run->yield(t, {writer.site});")


@_covers("call")
def _call(writer: _FunctionWriter, item: Instruction) -> None:
    operands = list(item.operands)
    returns: tuple[Operand, ...] = ()
    if operands and isinstance(operands[0], OperandList):
        returns = operands.pop(0).items  # type: ignore[union-attr]
    if not operands:
        writer.fail("a call of nothing")
    target = operands.pop(0)
    arguments: tuple[Operand, ...] = ()
    if operands and isinstance(operands[0], OperandList):
        arguments = operands.pop(0).items  # type: ignore[union-attr]
    if isinstance(target, Symbol) and isinstance(target.target, str):
        found = writer.layout.resolve(target.target, writer.function)
        if isinstance(found, PtxFunction) and found.body is not None:
            _call_function(writer, writer.module.c_name(found.name), found.returns, found.params, returns, arguments,
                           may_end=found.name in writer.module.ends)  # fmt: skip
            return
        _call_builtin(writer, target.target, returns, arguments)
    elif isinstance(target, Register):
        writer.calls_pointers = True
        prototype = operands[0] if operands else None
        name = prototype.target if isinstance(prototype, Symbol) and isinstance(prototype.target, str) else ""
        known = writer.function.prototypes.get(name)
        if known is None and name in writer.function.call_targets:
            first = writer.layout.resolve(writer.function.call_targets[name][0], writer.function)
            known = ptx.Prototype(first.returns, first.params) if isinstance(first, PtxFunction) else None
        if known is None:
            writer.fail("a call by address needs a prototype")
        types = ", ".join(["xf_thread *", *["char *"] * (len(known.returns) + len(known.params))])
        pointer = f"((u32 (*)({types}))xf_function({writer.read_register(target, 'u64')}))"
        _call_function(writer, pointer, known.returns, known.params, returns, arguments, may_end=True)
    else:
        writer.fail("a call of what is not a function")


def _call_function(
    writer: _FunctionWriter, name: str, formal_returns: list[PtxVariable], formal_params: list[PtxVariable],
    returns: tuple[Operand, ...], arguments: tuple[Operand, ...], *, may_end: bool,
) -> None:  # fmt: skip
    if len(formal_returns) != len(returns) or len(formal_params) != len(arguments):
        writer.fail(f"a call with {len(arguments)} arguments of a function of {len(formal_params)}")
    writer.put("{")
    passed, results = [], []
    for formal, actual in (*zip(formal_returns, returns, strict=True), *zip(formal_params, arguments, strict=True)):
        if isinstance(actual, Symbol) and isinstance(actual.target, PtxVariable) and actual.target.space == "param":
            if actual.target.nbytes - actual.offset < formal.nbytes:
                writer.fail(f"'{actual.target.name}' is smaller than the parameter, which has {formal.nbytes} bytes")
            passed.append(f"(char *){writer.address_of(actual)}")
            continue
        temporary = writer.temporary()  # a register or a number is passed by value: in memory of its own
        is_result = len(passed) < len(returns)
        writer.put(f"{_ctype(formal.type)} {temporary}{'' if is_result else f' = {writer.read(actual, formal.type)}'};")
        if is_result:
            results.append((actual, formal.type, temporary))
        passed.append(f"(char *)&{temporary}")
    call = f"{name}({', '.join(['t', *passed])})"
    given, received = (
        [each.target if isinstance(each, Symbol) else None for each in operands] for operands in (arguments, returns)
    )
    writer.put_passed(given, "t->doubts[{number}] = {name};")
    if may_end:
        writer.put(f"if ({call}) {{")
        writer.leave("1")
        writer.put("}")
    else:
        writer.put(f"{call};")
    writer.put_passed(received, "{name} = t->doubts[{number}];")
    for actual, ptx_type, temporary in results:
        writer.assign(actual, ptx_type, temporary)
    writer.put("}")


def _call_builtin(
    writer: _FunctionWriter, name: str, returns: tuple[Operand, ...], arguments: tuple[Operand, ...]
) -> None:
    if name not in _BUILTINS:
        writer.refuse(f"a call of '{name}', which is not defined in the module,")
    if len(arguments) < _BUILTINS[name]:
        writer.fail(f"'{name}' needs {_BUILTINS[name]} arguments")

    def value(operand: Operand, ptx_type: str) -> str:
        if isinstance(operand, Symbol) and isinstance(operand.target, PtxVariable) and operand.target.space == "param":
            return f"*({_ctype(ptx_type)} *){writer.address_of(operand)}"
        return writer.read(operand, ptx_type)

    def result(ptx_type: str, expression: str) -> None:
        target = returns[0] if returns else NoOperand()
        if isinstance(target, Symbol):
            writer.put(f"*({_ctype(ptx_type)} *){writer.address_of(target)} = {expression};")
        elif isinstance(target, NoOperand):
            writer.put(f"{expression};")
        else:
            writer.assign(target, ptx_type, expression)

    site = writer.site
    if name == "vprintf":
        text, values = (value(argument, "u64") for argument in arguments[:2])
        result("u32", f"run->printf(t, (const char *){text}, (const char *){values}, {site})")
    elif name == "malloc":
        result("u64", f"run->allocate(t, {value(arguments[0], 'u64')}, {site})")
    elif name == "free":
        writer.put(f"run->release(t, {value(arguments[0], 'u64')}, {site});")
    else:
        message, file, line, function = (value(a, "u32" if n == 2 else "u64") for n, a in enumerate(arguments[:4]))
        pointers = f"(const char *){message}, (const char *){file}, {line}, (const char *){function}"
        writer.put(f"run->assert_fail(t, {pointers}, {site});")


# ---- threads together ----


@_covers("bar", "barrier")
def _barrier(writer: _FunctionWriter, item: Instruction) -> None:
    words = [word for word in item.modifiers if word not in ("cta", "aligned")]
    if "cluster" in words:
        writer.refuse()
    operands = item.operands
    if words[:2] == ["warp", "sync"]:
        writer.put(f"run->warp_sync(t, {writer.read(operands[0], 'u32')}, {writer.site});")
        return
    kind = words[0] if words else ""
    aligned = "" if item.opcode == "bar" or "aligned" in item.modifiers else " | XF_BAR_UNALIGNED"
    if kind in ("sync", "arrive") and 1 <= len(operands) <= 2:
        count = writer.read(operands[1], "u32") if len(operands) > 1 else "0"
        name = f"XF_BAR_{kind.upper()}{aligned}"
        bypass = writer.bypasses.get(writer.index)
        if bypass is not None:
            writer.put(f"t->bypass = {bypass + 1};")
        writer.put(f"run->barrier(t, {name}, {writer.read(operands[0], 'u32')}, {count}, 0, {writer.site});")
        if bypass is not None:
            writer.put("t->bypass = 0;")
    elif kind == "red" and len(words) >= 2 and words[1] in ("popc", "and", "or") and 3 <= len(operands) <= 4:
        count = writer.read(operands[2], "u32") if len(operands) > 3 else "0"
        value = writer.read(operands[-1], "pred")
        name = f"XF_BAR_{words[1].upper()}{aligned}"
        call = f"run->barrier(t, {name}, {writer.read(operands[1], 'u32')}, {count}, {value}, {writer.site})"
        writer.assign(
            operands[0], "u32" if words[1] == "popc" else "pred", call if words[1] == "popc" else f"({call} != 0)"
        )
    else:
        writer.refuse()


def _lane_mask(writer: _FunctionWriter, item: Instruction, number: int) -> str:
    """The mask of a warp operation; old ones without .sync have the threads that are there."""
    if "sync" in item.modifiers:
        return writer.read(item.operands[number], "u32")
    return f"run->active_mask(t, {writer.site})"


@_covers("shfl")
def _shuffle(writer: _FunctionWriter, item: Instruction) -> None:
    _, flags = writer.split(item, {"sync", "up", "down", "bfly", "idx"}, 1)
    operands = writer.operands(4, 5)
    mode = next((word for word in ("up", "down", "bfly", "idx") if word in flags), None)
    if mode is None:
        writer.refuse()
    d = operands[0]
    a, b, c = (writer.read(operand, "u32") for operand in operands[1:4])
    mask = _lane_mask(writer, item, 4)
    call = f"run->shuffle(t, XF_SHFL_{mode.upper()}, {a}, {b}, {c}, {mask}, &p, {writer.site})"
    writer.put(f"{{ u32 p; const u32 r = {call};")
    if isinstance(d, Pair):
        writer.assign(d.first, "b32", "r")
        writer.assign(d.second, "pred", "(p != 0)")
    else:
        writer.assign(d, "b32", "r")
    writer.put("}")


@_covers("vote")
def _vote(writer: _FunctionWriter, item: Instruction) -> None:
    types, flags = writer.split(item, {"sync", "all", "any", "uni", "ballot"}, 1)
    operands = writer.operands(2, 3)
    mode = next((word for word in ("all", "any", "uni", "ballot") if word in flags), None)
    if mode is None:
        writer.refuse()
    mask = _lane_mask(writer, item, 2)
    call = f"run->vote(t, XF_VOTE_{mode.upper()}, {writer.read(operands[1], 'pred')}, {mask}, {writer.site})"
    writer.assign(operands[0], types[0], call if mode == "ballot" else f"({call} != 0)")


@_covers("match")
def _match(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, {"sync", "any", "all"}, 1)
    d, a, mask = writer.operands(3)
    mode = "XF_MATCH_ALL" if "all" in flags else "XF_MATCH_ANY"
    value = writer.read(a, ptx_type)
    writer.put(
        f"{{ u32 p; const u32 r = run->match(t, {mode}, {value}, {writer.read(mask, 'u32')}, &p, {writer.site});"
    )
    if isinstance(d, Pair):
        writer.assign(d.first, "b32", "r")
        writer.assign(d.second, "pred", "(p != 0)")
    else:
        writer.assign(d, "b32", "r")
    writer.put("}")


@_covers("redux")
def _reduce(writer: _FunctionWriter, item: Instruction) -> None:
    (ptx_type,), flags = writer.split(item, {"sync", "add", "min", "max", "and", "or", "xor"}, 1)
    if ptx_type == "f32":
        writer.refuse()
    d, a, mask = writer.operands(3)
    operation = next(word for word in ("add", "min", "max", "and", "or", "xor") if word in flags)
    kind = "XF_S32" if ptx_type == "s32" else "XF_U32"
    values = f"{writer.read(a, 'u32')}, {writer.read(mask, 'u32')}"
    writer.assign(d, "u32", f"run->redux(t, XF_{operation.upper()}, {kind}, {values}, {writer.site})")


@_covers("activemask")
def _active_mask(writer: _FunctionWriter, item: Instruction) -> None:
    writer.split(item, (), 1)
    writer.assign(writer.operands(1)[0], "u32", f"run->active_mask(t, {writer.site})")


@_covers("elect")
def _elect(writer: _FunctionWriter, _item: Instruction) -> None:
    d, mask = writer.operands(2)
    (x,) = writer.bind("u32", [mask])
    writer.put(f"run->warp_sync(t, {x}, {writer.site}); const u32 r = 31 - xf_clz32({x} & (0 - {x}));")
    if isinstance(d, Pair):
        writer.assign(d.first, "u32", "r")
        writer.assign(d.second, "pred", "(t->lane == r)")
    else:
        writer.assign(d, "u32", "r")
    writer.put("}")
