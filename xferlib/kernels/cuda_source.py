"""CUDA C for an element-wise program and one kind of layout.

Two obvious kernels fail. One with the call's extents and strides written in is fast, but every new shape waits for a
compilation. One that takes any layout from parameters divides indices for every element and moves one element at a
time: instructions bind it instead of memory. So the source depends on a *kind* of call (`CallKind`): the number of
dimensions that remain after collapsing, how each operand is addressed, the width of an access. The extents and
strides are a parameter, and one compilation serves all sizes of a kind.

Each thread computes ``width`` neighbouring elements of the innermost dimension, so that an operand that is contiguous
there moves in one access of up to 16 bytes. Operands that are contiguous along another axis (transposed ones) would
waste most of every 32-byte sector: they pass through a tile in shared memory (`SharedTile`). Offsets take 64 bits only
where 32 could overflow: 64-bit index arithmetic costs registers and time. An address that is no multiple of the
element's size is moved in parts, for a misaligned access on a GPU is an error that destroys the context.

The text is part of the disk cache's key: any change of it, a blank too, compiles every user's kernels anew.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xferlib.kernels import cuda_functions, native_functions
from xferlib.kernels.analysis import ANY, Range, find_ranges
from xferlib.kernels.c_text import (
    FMA_OF_HALF,
    WORDS,
    Dialect,
    Writer,
    binary,
    c_type,
    constant,
    expression,
    function_statements,
    operand_of_negation,
    own_functions,
    storage_type,
    table_text,
    to_memory,
    to_register,
)
from xferlib.kernels.float64_functions import Float64Function, is_own
from xferlib.kernels.formulas import expand
from xferlib.kernels.functions import CALL_NAMES
from xferlib.kernels.ir import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    LEAVES,
    UINT32,
    UINT64,
    Column,
    DType,
    ElementUpdate,
    Node,
    Program,
    bodies,
    facts,
)


def fetch(address: str, dtype: DType, word: int) -> str:
    """The expression that reads an address, in words of at most ``word`` bytes."""
    memory = storage_type(dtype)
    if word >= dtype.itemsize:
        return f"*(const {memory}*)({address})"
    return f"xf_fetch<{memory}, {WORDS[word]}>({address})"


def store(address: str, value: str, dtype: DType, word: int) -> str:
    """The statement that writes to an address, in words of at most ``word`` bytes."""
    memory = storage_type(dtype)
    if word >= dtype.itemsize:
        return f"*({memory}*)({address}) = {value};"
    return f"xf_put<{memory}, {WORDS[word]}>({address}, {value});"


def _lookup_pair(column: Column, row: str) -> str:
    """An element of a table, read together with its neighbour: two such reads are one instruction of 16 bytes."""
    pair = f"{-(-len(column.table.columns) // 2)} * (int){row} + {column.number // 2}"
    word = f"((const ulonglong2*)xf_{column.table.name}_table)[{pair}].{'xy'[column.number % 2]}"
    return word if column.dtype == UINT64 else f"__longlong_as_double((long long){word})"


def is_in_steps(node: Node, math: str) -> bool:
    """Whether it is a call of one of the library's own functions.

    They have a quick step, which says whether its result is certain, and a careful one for the others.
    """
    if node.op != "call" or math != "exact" or cuda_functions.is_certain(node):
        return False
    return node.dtype in (FLOAT16, FLOAT32) or is_own(node, math)


def steps_name(node: Node) -> str:
    """The end of the names of a call's steps."""
    name, kind = native_functions.split_call(node)
    if kind == "bfloat16":
        return f"bf16_{name}"
    return {FLOAT16: "half_{}", FLOAT32: "{}", FLOAT64: "{}_f64"}[node.dtype].format(node.attr)


def _may_be_extended(node: Node) -> bool:
    """Whether it is a float of a uint32 that an assembler may see to be a shorter signed integer before."""
    if node.op != "cast" or node.dtype not in (FLOAT16, FLOAT32, FLOAT64):
        return False
    return node.args[0].dtype == UINT32 and node.args[0].op not in ("load", "const")


def _cuts_bits(node: Node) -> bool:
    """Whether it is a signed integer of 8 or 16 bits that has fewer bits of another, or the same ones."""
    if node.op not in ("cast", "bitcast") or node.dtype not in (INT8, INT16):
        return False
    return node.args[0].dtype.kind in "iu" and not np.can_cast(node.args[0].dtype, node.dtype)


def _operand(node: Node, name: str) -> str:
    return f"xf_narrow<{c_type(node.dtype)}>((unsigned int){name})" if _cuts_bits(node) else name


def _may_be_size(node: Node) -> bool:
    """Whether a compiler may find in it, or in a difference from it, an integer's absolute value."""
    if node.dtype.kind not in "iu" or node.dtype.itemsize == 1 or node.op not in ("xor", "select"):
        return False
    x, y = node.args[-2:]
    return "const" not in (x.op, y.op) and (x.op not in LEAVES or y.op not in LEAVES)


def _call(node: Node, args: list[str], math: str, step: str = "xf_exact", more: Sequence[str] = ()) -> str:
    if _may_be_extended(node):
        found = f"xf_{'double' if node.dtype == FLOAT64 else 'float'}_of_whole({args[0]})"
        return f"xf_half({found})" if node.dtype == FLOAT16 else found
    if _may_be_size(node):
        args = [*args[:-2], f"xf_hidden<{c_type(node.dtype)}>({args[-2]})", args[-1]]
    if node.op not in ("call", "lookup"):
        return expression(node, args, math, _PLAIN)
    if node.op == "lookup":
        return _lookup_pair(node.attr, args[0])
    name = str(node.attr)
    if is_in_steps(node, math):
        return f"{step}_{steps_name(node)}({', '.join([*args, *more])})"
    if math == "exact" and cuda_functions.is_certain(node):
        found = f"xf_{cuda_functions.section_of(node)}({args[0]})"
        return found if node.dtype == FLOAT32 else f"xf_half({found})"
    if name == "rsqrt" and node.dtype == FLOAT32:
        return f"__fdiv_rn(1.0f, __fsqrt_rn({args[0]}))"
    suffix = "f" if node.dtype == FLOAT32 else ""
    return f"{CALL_NAMES.get(name, name)}{suffix}({', '.join(args)})"


def _quick_call(
    node: Node, args: list[str], math: str, flag: str = "&own", ranges: Mapping[int, Range] | None = None
) -> str:
    """An operation by its quick step, which sets a flag where it is not certain; the ranges are those of operands."""

    def limits() -> list[str]:
        return [cuda_functions.write_range(*(constant(end, FLOAT32) for end in each)) for each in known]

    known = [(ranges or {}).get(id(each), ANY) for each in node.args]
    if node.op in ("call", "lookup"):
        if known == [ANY] or node.dtype != FLOAT32 or node.attr not in cuda_functions.WITHIN:
            return _call(node, args, math, step="xf_first", more=(flag,))
        return _call(node, args, math, step="xf_bounded", more=(*limits(), flag))
    name = quick_operation(node)
    if name == "quotient":
        return f"xf_bounded_{name}({', '.join([*args, *limits(), flag])})"
    if name == "reciprocal_f64":
        args = args[1:]
    return f"xf_first_{name}({', '.join([*args, flag])})" if name else expression(node, args, math, CUDA)


_QUICK_OPERATIONS = {
    ("div", FLOAT32): "quotient", ("div", FLOAT64): "quotient_f64", ("sqrt", FLOAT64): "root_f64",
}  # fmt: skip


def quick_operation(node: Node) -> str:
    """The name of a quotient or root with a quick step, which has no branch: not for a product by a power of two."""
    if node.op == "div" and node.args[1].op == "const" and abs(math.frexp(float(node.args[1].attr))[0]) == 0.5:
        return ""
    if node.op == "div" and node.dtype == FLOAT64 and node.args[0].op == "const" and float(node.args[0].attr) == 1.0:
        return "reciprocal_f64"
    return _QUICK_OPERATIONS.get((node.op, node.dtype), "")


_again_call = functools.partial(_call, step="xf_again")


CUDA = Dialect(
    typed=lambda name, dtype: f"{name}<{c_type(dtype)}>",
    pair=lambda kind, x, y: f"{kind}{{{x}, {y}}}",
    nothing="{}",
    call=_call,
    calls=frozenset({"call", "lookup", "cast", "select", "xor"}),
    expand=lambda program: cuda_functions.narrow_calls(expand(program)),
    begin_loop=lambda name, start: [f"    for (bool {name} = {start}; {name};) {{"],
    operand=_operand,
)
_PLAIN = replace(CUDA, calls=frozenset())
QUICK = replace(CUDA, call=_quick_call, calls=CUDA.calls | {op for op, _ in _QUICK_OPERATIONS})


# Programs as CUDA device functions, for kernels that are more than one loop.


def body(program: Program, loads: dict[int, str], *, index: str = "0", size: str = "0") -> tuple[list[str], list[str]]:
    """Statements that compute a program without raw parameters.

    Args:
        program: The program.
        loads: For each parameter that is read, the C expression of its value in registers.
        index: The C expression of the element's number.
        size: That of the number of elements.

    Returns:
        The statements, and the expressions of the stored values in the order of the stores.
    """
    program = CUDA.expand(program)
    names: dict[int, str] = {}

    def leaf(node: Node) -> str:
        return loads[node.attr] if node.op == "load" else f"(long long)({index if node.op == 'index' else size})"

    nothing = lambda *_: ""  # there are no raw parameters
    writer = Writer(leaf, nothing, nothing, program.math, CUDA)
    lines = writer.statements(program.nodes, names, "v")
    values = [store.value for store in program.stores]
    return [each.strip() for each in lines], [_operand(each, names[id(each)]) for each in values]


def _own_function(function: Float64Function) -> str:
    given = [f"x{number}" for number in range(function.operands)]
    taken = ", ".join(f"double {each}" for each in given)
    quick = replace(QUICK, call=functools.partial(_quick_call, flag="is_unsure"))
    common, (value, holds) = function_statements(function.common, quick)
    rare, (found,) = function_statements(function.rare, CUDA)
    if any(quick_operation(node) for node in function.common.nodes):  # it may hold where such a step is not certain
        usual, (result, does_hold) = function_statements(function.common, CUDA)
        rare = f"{{\n{usual}  if ({does_hold}) return {result};\n}}\n{rare}"
    name = f"{function.name}_f64"
    return f"""\
__device__ __noinline__ double xf_careful_{name}({taken}) {{
{rare}  return {found};
}}
__device__ __forceinline__ double xf_quick_{name}({taken}, int* is_unsure) {{
{common}  *is_unsure |= !{holds};
  return {value};
}}
""" + cuda_functions.join_steps(name, taken, ", ".join(given), "double")


# The device functions that generated kernels use; as text, because the source includes no header.

OPTIONS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")
"""IEEE arithmetic. The generated code does not depend on these options; NVRTC's functions may."""

TYPES = """\
struct __align__(8) xf_c64 { float x, y; };
struct __align__(16) xf_c128 { double x, y; };
"""

PARTS = """\
template <typename T, typename W> __device__ __forceinline__ T xf_fetch(const char* from) {
  union { T whole; W words[sizeof(T) / sizeof(W)]; } it;
  #pragma unroll
  for (int k = 0; k < (int)(sizeof(T) / sizeof(W)); ++k) it.words[k] = ((const W*)from)[k];
  return it.whole;
}
template <typename T, typename W> __device__ __forceinline__ void xf_put(char* to, T value) {
  union { T whole; W words[sizeof(T) / sizeof(W)]; } it;
  it.whole = value;
  #pragma unroll
  for (int k = 0; k < (int)(sizeof(T) / sizeof(W)); ++k) ((W*)to)[k] = it.words[k];
}
#ifdef __CUDACC__
// CUDA 13's assembler takes a conversion to half whose low byte is stored for a conversion to an integer, and stores
// that (3.0 gives 03 42, not 00 42). A register of 32 bits between the two prevents it.
template <> __device__ __forceinline__ void xf_put<unsigned short, unsigned char>(char* to, unsigned short value) {
  unsigned int bits; asm("mov.b32 %0, {%1, %1};" : "=r"(bits) : "h"(value));
  to[0] = (char)bits; to[1] = (char)(bits >> 8);
}
#endif
"""
"""Loads and stores of elements at unaligned addresses, in parts."""

HALF = """\
__device__ __forceinline__ float xf_from_half(unsigned short h) {
  float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f;
}
__device__ __forceinline__ unsigned short xf_to_half(float f) {
  unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h;
}
__device__ __forceinline__ float xf_half(float f) { return xf_from_half(xf_to_half(f)); }
__device__ __forceinline__ unsigned int xf_two_halves(float low, float high) {
#if __CUDA_ARCH__ >= 800
  unsigned int r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); return r;
#else
  return xf_to_half(low) | (unsigned int)xf_to_half(high) << 16;
#endif
}
__device__ __forceinline__ float xf_half_of_double(double d) {
  unsigned short h; asm("cvt.rn.f16.f64 %0, %1;" : "=h"(h) : "d"(d)); return xf_from_half(h);
}
"""

_BFLOAT16 = """\
// To nearest, ties to even, by one instruction where there is one; NaN keeps its sign, which that drops.
__device__ __forceinline__ unsigned short xf_to_bfloat16(float f) {
  unsigned int bits = __float_as_uint(f), nan = (bits & 0x80000000u) | 0x7fc00000u;
#if __CUDA_ARCH__ >= 800
  unsigned short h; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return f == f ? h : (unsigned short)(nan >> 16);
#else
  return (unsigned short)((f == f ? bits + 0x7fffu + (bits >> 16 & 1) : nan) >> 16);
#endif
}
"""

_CHOICE = """\
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ float xf_min(float x, float y) {
  float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r;
}
__device__ __forceinline__ float xf_max(float x, float y) {
  float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r;
}
#else
__device__ __forceinline__ float xf_min(float x, float y) { return x != x ? x : y != y ? y : fminf(x, y); }
__device__ __forceinline__ float xf_max(float x, float y) { return x != x ? x : y != y ? y : fmaxf(x, y); }
#endif
__device__ __forceinline__ double xf_min(double x, double y) {
  return x < y || (__double2hiint(x) < 0 && x <= y) || x != x ? x : y;
}
__device__ __forceinline__ double xf_max(double x, double y) {
  return x > y || (__double2hiint(x) >= 0 && x >= y) || x != x ? x : y;
}
"""

# What CUDA 13.0 computes wrongly:
# - its assembler widens a negated int16, ``neg.s16`` of -32768, to +32768;
# - its compiler leaves the cut of a longer integer to an int8 out, in every other element of a vector of int16;
# - its assembler takes ``abs.s32`` for positive, which it is not of -2147483648: a remainder or a quotient of it had
#   the wrong sign. The compiler writes it for every choice between x and -x that it recognises, or x - y and y - x,
#   and for (x ^ m) - m with m = x >> 31.
# So operations take narrow integers that were cut from 32 bits by an instruction of this text's own, and the compiler
# sees no negation, nor where one operand of a choice or of an exclusive or comes from; the absolute value is the larger
# of x and -x.
_NEGATION = """\
template <typename T> __device__ __forceinline__ T xf_narrow(unsigned int bits) {
  int wide; asm("bfe.s32 %0, %1, 0, %2;" : "=r"(wide) : "r"(bits), "n"(8 * (int)sizeof(T))); return (T)wide;
}
template <typename T> __device__ __forceinline__ T xf_neg(T x) {
  if (sizeof(T) < 4) return xf_narrow<T>(0u - (unsigned int)x);
  T result;
  if (sizeof(T) == 4) { int y; asm("neg.s32 %0, %1;" : "=r"(y) : "r"((int)x)); result = (T)y; }
  else { long long y; asm("neg.s64 %0, %1;" : "=l"(y) : "l"((long long)x)); result = (T)y; }
  return result;
}
template <typename T> __device__ __forceinline__ T xf_hidden(T x) {
  T result;
  if (sizeof(T) <= 4) { int y; asm("mov.b32 %0, %1;" : "=r"(y) : "r"((int)x)); result = (T)y; }
  else { long long y; asm("mov.b64 %0, %1;" : "=l"(y) : "l"((long long)x)); result = (T)y; }
  return result;
}
template <typename T> __device__ __forceinline__ T xf_abs(T x) {
  T y = xf_neg<T>(x);
  return x < y ? y : x;
}
"""

_OF_WHOLE = """\
// CUDA 13.0's assembler makes one signed conversion of an int16 or int8 that becomes a uint32 and then a float: -1
// gives -1.0. So no conversion of 32 bits is in it.
__device__ __forceinline__ double xf_double_of_whole(unsigned int x) {
  return __dadd_rn(__hiloint2double(0x43300000, (int)x), -0x1p52);
}
__device__ __forceinline__ float xf_float_of_whole(unsigned int x) {
  return __fmaf_rn((float)(unsigned short)(x >> 16), 65536.0f, (float)(unsigned short)x);
}
"""

_INTEGER = """\
template <typename T> __device__ __forceinline__ T xf_idiv(T x, T y) {
  if (y == 0) return 0;
  if ((T)-1 < (T)0 && y == (T)-1) return xf_neg<T>(x);
  return x / y;
}
template <typename T> __device__ __forceinline__ T xf_imod(T x, T y) {
  if (y == 0 || ((T)-1 < (T)0 && y == (T)-1)) return 0;
  return x % y;
}
template <typename T> __device__ __forceinline__ T xf_floordiv(T x, T y) {
  T quotient = xf_idiv<T>(x, y), rest = xf_imod<T>(x, y);
  return rest != 0 && ((rest < 0) != (y < 0)) ? (T)(quotient - 1) : quotient;
}
template <typename T> __device__ __forceinline__ T xf_floormod(T x, T y) {
  T rest = xf_imod<T>(x, y);
  return rest != 0 && ((rest < 0) != (y < 0)) ? (T)(rest + y) : rest;
}
template <typename T> __device__ __forceinline__ T xf_shl(T x, T count) {
  return (unsigned long long)count < 8 * sizeof(T) ? (T)((unsigned long long)x << count) : (T)0;
}
template <typename T> __device__ __forceinline__ T xf_shr(T x, T count) {
  if ((unsigned long long)count < 8 * sizeof(T)) return (T)(x >> count);
  return x < 0 ? (T)-1 : (T)0;
}
template <typename T, typename F> __device__ __forceinline__ T xf_saturate(F x, F low, F high, T least, T most) {
  return x != x ? (T)0 : x >= high ? most : x < low ? least : (T)x;
}
"""


def prelude(programs: Iterable[Program], *, is_shared: bool = False) -> str:
    """The functions that the programs need, in an order that compiles; ``is_shared`` as for `cuda_functions.text`."""
    programs = [CUDA.expand(each) for program in programs for each in bodies(program)]
    own = own_functions(programs)
    in_steps = [*programs, *(each.common for each in own)]
    programs += [program for each in own for program in (each.common, each.rare)]
    nodes = [node for program in programs for node in program.nodes]
    names = {param.dtype.name for program in programs for param in program.params} | {n.dtype.name for n in nodes}
    parts = [TYPES] if names & {"complex64", "complex128"} else []
    if "float16" in names:
        parts += [HALF, FMA_OF_HALF]
    if any(node.op == "narrow" for node in nodes):
        parts.append(_BFLOAT16)
    if any(node.op in ("min", "max") and node.dtype.kind == "f" for node in nodes):
        parts.append(_CHOICE)
    if any(_may_be_extended(node) for node in nodes):
        parts.append(_OF_WHOLE)
    if any(_needs_integer(node) for node in nodes):
        parts += [_NEGATION, _INTEGER]
    elif any(_needs_negation(node) for node in nodes):
        parts.append(_NEGATION)
    if own or any(node.op == "call" for node in nodes):
        taken = {quick_operation(node) for program in in_steps for node in program.nodes}
        steps = sorted(name for name in taken if name.endswith("_f64"))
        parts += [cuda_functions.sections()[each][1] for each in (["language"] if own or steps else []) + steps]
    if own:
        parts += [
            table_text(own, "__device__ const __align__(16) unsigned long long", multiple=2),
            cuda_functions.pool_constants("".join(map(_own_function, own)), "xf_constants_f64"),
        ]
    return "".join(parts) + _exact_functions(programs, is_shared=is_shared)


def _needs_negation(node: Node) -> bool:
    is_size = node.op == "abs" and node.dtype.kind == "i"
    return is_size or operand_of_negation(node) is not None or _may_be_size(node) or _cuts_bits(node)


def _needs_integer(node: Node) -> bool:
    if node.op == "cast":
        return node.dtype.kind in "iu" and node.args[0].dtype.kind == "f"
    return node.op in ("idiv", "imod", "floordiv", "floormod", "shl", "shr")


def _exact_functions(programs: Iterable[Program], *, is_shared: bool) -> str:
    """The text of the float32 functions that the programs need correctly rounded."""
    calls = [node for each in programs if each.math == "exact" for node in each.nodes if node.op == "call"]
    small = {section for node in calls if (section := cuda_functions.section_of(node))}
    others = [node for node in calls if not cuda_functions.section_of(node)]
    names, halves = ({str(node.attr) for node in others if node.dtype == each} for each in (FLOAT32, FLOAT16))
    quotients = bool(calls) and any(quick_operation(node) == "quotient" for each in programs for node in each.nodes)
    return cuda_functions.text(names, halves, small, has_quotients=quotients, is_shared=is_shared)


# Updates of arrays' elements in CUDA C: see `xferlib.kernels.ir`.

UPDATE_FUNCTIONS = """\
template <typename T, typename F> __device__ __forceinline__ T xf_update(char* at, F next) {
  if constexpr (sizeof(T) == 8) {
    union { unsigned long long bits; T value; } before, after;
    unsigned long long* word = (unsigned long long*)at;
    unsigned long long seen = *(volatile unsigned long long*)word;
    do { before.bits = seen; after.value = next(before.value); seen = atomicCAS(word, before.bits, after.bits); }
    while (seen != before.bits);
    return before.value;
  } else {
    union { unsigned int bits; T value; } before, after;
    const unsigned int byte = (unsigned int)((unsigned long long)at & 3), shift = 8 * byte;
    const unsigned int own = (sizeof(T) == 4 ? 0xffffffffu : (1u << 8 * sizeof(T) % 32) - 1u) << shift;
    unsigned int* word = (unsigned int*)(at - byte);
    unsigned int seen = *(volatile unsigned int*)word, now;
    do {
      now = seen; before.bits = (now & own) >> shift; after.bits = 0; after.value = next(before.value);
      seen = atomicCAS(word, now, (now & ~own) | (after.bits << shift));
    } while (seen != now);
    return before.value;
  }
}
"""
"""Any update of an element of up to 8 bytes, by compare-and-swap on the word around it."""

_NATIVE = {
    "int32": "unsigned int", "uint32": "unsigned int", "int64": "unsigned long long", "uint64": "unsigned long long",
    "float32": "float", "float64": "double",
}  # fmt: skip
"""The types whose sums a device has an instruction for; two's complement serves signed integers."""


def update_kinds(programs: Iterable[Program]) -> set[str]:
    """The kinds of updates in programs and their loops."""
    inner = [each for program in programs for each in bodies(program)]
    return {node.attr.kind for each in inner for node in each.nodes if node.op == "update"}


def update_statement(what: ElementUpdate, dtype: DType, address: str, args: list[str], name: str) -> str:
    """The statement that updates the element at ``address`` and puts its value before into ``name``."""
    memory, value = storage_type(dtype), args[1]
    if what.kind == "add" and dtype.name in _NATIVE:
        native = _NATIVE[dtype.name]
        return f"{name} = ({c_type(dtype)})atomicAdd(({native}*)({address}), ({native}){value});"
    if what.kind == "exch":
        after = to_memory(value, dtype)
    elif what.kind == "cas":
        after = f"before == {args[3]} ? {to_memory(value, dtype)} : old"
    else:
        after = to_memory(binary(what.kind, dtype, "before", value, CUDA), dtype)
    before = to_register("old", dtype)
    function = f"[&]({memory} old) {{ const {c_type(dtype)} before = {before}; return ({memory})({after}); }}"
    return f"{name} = {to_register(f'xf_update<{memory}>({address}, {function})', dtype)};"


SHIFTED = (4, 8, 16)
"""The bytes that one of these functions loads."""


def write_unaligned_load(nbytes: int) -> str:
    """The device functions that load N bytes from ``shift`` bytes behind a multiple of N; ``word`` divides the shift.

    ``xf_read_words_N`` loads the two aligned N bytes that they lie in. Of these the bytes from ``begin`` to ``end`` are
    wanted: an access without any is not made, so that none leaves the memory's aligned N bytes. ``xf_choose_words_N``
    finds them there, without a branch: the threads of a warp may differ, and behind a branch a compiler makes no
    further load before it has the value of the one before. ``xf_load_shifted_N`` is both.
    """
    count = nbytes // 4
    word = {4: "unsigned int", 8: "uint2", 16: "uint4"}[nbytes]
    moves = []
    for step in (2, 1):
        if step < count:
            each = " ".join(f"w[{i}] = w[{i + step}];" for i in range(2 * count - step))
            moves.append(f"if (word <= {4 * step} && (shift & {4 * step})) {{ {each} }}")
    return f"""\
__device__ __forceinline__ void xf_read_words_{nbytes}(
    unsigned int* w, const char* from, int shift, int begin = 0, int end = {nbytes}) {{
  if (begin < {nbytes} - shift) (({word}*)w)[0] = *(const {word}*)(from - shift);
  if (end > {nbytes} - shift) (({word}*)w)[1] = *(const {word}*)(from - shift + {nbytes});
}}
template <int word> __device__ __forceinline__ void xf_choose_words_{nbytes}(void* to, unsigned int* w, int shift) {{
  unsigned int* r = (unsigned int*)to;
  {" ".join(moves)}
  #pragma unroll
  for (int i = 0; i < {count}; ++i) r[i] = word < 4 ? __funnelshift_r(w[i], w[i + 1], 8 * (shift & 3)) : w[i];
}}
template <int word> __device__ __forceinline__ void xf_load_shifted_{nbytes}(
    void* to, const char* from, int shift, int begin = 0, int end = {nbytes}) {{
  __align__({nbytes}) unsigned int w[{2 * count}] = {{}};
  xf_read_words_{nbytes}(w, from, shift, begin, end);
  xf_choose_words_{nbytes}<word>(to, w, shift);
}}
"""


def step_nbytes(width: int, step: int, size: int) -> tuple[int, int]:
    """The bytes that a vector spans whose elements are ``step`` apart, and those of an access to a part of it."""
    span = ((width - 1) * abs(step) + 1) * size
    return span, max((each for each in SHIFTED if each <= span), default=span)


def step_pieces(width: int, step: int, size: int) -> list[tuple[int, int]]:
    """The parts, of 16 bytes or fewer, in which such a vector is read.

    They overlap, so that each begins and ends within the bytes from the first element to the last.
    """
    span, nbytes = step_nbytes(width, step, size)
    starts = [*range(0, span - nbytes, nbytes), span - nbytes]
    return [(start, start + nbytes) for start in starts]


_BATCH_NBYTES = 32
"""Of the loads to a box that a thread makes before it needs the first one's value."""
_LEAST_RUN_NBYTES = 64
"""That the threads of a warp take of a run."""
_TRANSPOSE = {
    2: """\
__device__ __forceinline__ void xf_transpose_2(unsigned int* x) {
  const unsigned int low = __byte_perm(x[0], x[1], 0x5410);
  x[1] = __byte_perm(x[0], x[1], 0x7632); x[0] = low;
}
""",
    4: """\
__device__ __forceinline__ void xf_transpose_4(unsigned int* x) {
  const unsigned int a = __byte_perm(x[0], x[1], 0x5140), b = __byte_perm(x[2], x[3], 0x5140);
  const unsigned int c = __byte_perm(x[0], x[1], 0x7362), d = __byte_perm(x[2], x[3], 0x7362);
  x[0] = __byte_perm(a, b, 0x5410); x[1] = __byte_perm(a, b, 0x7632);
  x[2] = __byte_perm(c, d, 0x5410); x[3] = __byte_perm(c, d, 0x7632);
}
""",
}
"""The transposition of a square of 2 x 2 elements of 2 bytes, or of 4 x 4 bytes: a word is a row."""


def write_digits(threads: int, radices: Sequence[int]) -> list[str]:
    """The digits of ``threadIdx.x + threads * it``, the lowest first, in a number system of these radices.

    What depends on the thread is apart from what depends on ``it``, as far as it goes: a compiler that unrolls a loop
    over ``it`` then computes all but constants once.
    """
    found = []
    thread, many, it = "threadIdx.x", threads, "it"
    for number, radix in enumerate(radices):
        if radix == 1:
            found.append("0")
        elif many % radix == 0:
            found.append(f"(int)({thread} % {radix}u)")
            thread, many = f"({thread} / {radix}u)", many // radix
        elif radix % many == 0:
            turns = radix // many
            turn = it if number == len(radices) - 1 else f"{it} % {turns}"
            found.append(turn if many == 1 else f"(int){thread} + {many} * ({turn})")
            thread, many, it = "0", 1, f"({it} / {turns})"
        else:
            both = f"((int){thread} + {many} * {it})"
            found.append(f"{both} % {radix}")
            thread, many, it = "0", 1, f"({both} / {radix})"
    return found


ENTRY = "xf_kernel"


@dataclass(frozen=True, slots=True)
class OperandAccess:
    """How an operand's elements are addressed: ``vector``, ``shifted``, ``unit``, ``stepped``, ``strided``, or ``same``
    for the row.

    A ``shifted`` one is contiguous, and its vectors begin anywhere: each is made of two aligned accesses. The elements
    of a ``stepped`` one are few apart, or in the reverse order.
    """

    kind: str
    is_restrict: bool
    word: int
    """Bytes of the widest access to an element: see `xferlib.kernels.ir.word_of`."""
    step: int = 0
    """Of ``stepped``: from an element to the next, in elements."""


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A box of elements in shared memory, through which operands pass that are not contiguous along the last axis.

    Read and written where they lie, each warp would touch 32 sectors for 32 elements; through the box each operand
    moves in whole lines, in the order of its own memory.
    """

    sides: tuple[int, ...]
    """Along each axis; 1 where it is no axis of the box."""
    runs: tuple[tuple[int, ...], ...]
    """For each operand that passes through the box the axes of it along which its memory has no gap, the one of
    neighbours first: all but the last are in the box as a whole."""
    others: tuple[tuple[int, ...], ...]
    """The other axes of the box, the one of the least stride first; without those along which the operand is the same.
    """
    widths: tuple[int, ...]
    """For each operand the elements of an access along the run; 0: it does not pass through the box."""
    crossed: int
    """The last axes that are one row of elements for the operands that do not pass through the box: all but the first
    of these are in the box as a whole."""
    shifts: tuple[bool, ...]
    """For each operand: whether its accesses begin anywhere, and are made of two aligned ones."""
    before: int = 0
    """The positions along the axis `edge` that a box has before its own.

    Where vectors begin at aligned memory of an operand, a box takes of each row the vectors that begin in it, from the
    same distance before its start: so all are whole, but at the ends of memory's rows.
    """

    @property
    def edge(self) -> int:
        """The first axis of a row."""
        return len(self.sides) - self.crossed

    @property
    def whole(self) -> int:
        """The elements of a row for a position along `edge`."""
        return math.prod(self.sides[self.edge + 1 :])

    @property
    def row(self) -> int:
        """The elements of a row whose vectors the box takes."""
        return self.sides[self.edge] * self.whole

    def cells(self, axis: int) -> int:
        """The positions along an axis that the box has in memory."""
        return self.sides[axis] + (self.before if axis == self.edge else 0)


@dataclass(frozen=True, slots=True)
class CallKind:
    """The kind of a call: all that the source depends on besides the program."""

    rank: int
    width: int
    is_wide: bool
    """Offsets need 64 bits."""
    accesses: tuple[OperandAccess, ...]
    """For each element-wise operand, in parameter order."""
    tile: SharedTile | None
    raw_ranks: tuple[int, ...]
    """For each raw operand: the dimensions that remain after collapsing."""
    raw_words: tuple[int, ...]
    """For each raw operand: as `OperandAccess.word`."""
    threads: int = 256
    """Of a block."""
    leader: int | None = None
    """The place of the operand where whose memory is aligned vectors begin; None: they begin with the rows."""
    parts: int = 1
    """The pieces of a thread's elements, of which the block has all first ones together, then all second ones."""
    turns: int = 1
    """The vectors of a thread, one after the other, the next of which is on its way from memory."""
    resident: int = 0
    """The blocks for which a multiprocessor must have registers; 0: as the compiler likes."""


def elementwise_source(program: Program, shape: CallKind) -> str:
    """The whole source of the kernel, named `ENTRY`."""
    program = CUDA.expand(program)
    writer = _ElementwiseWriter(program, shape)
    functions = UPDATE_FUNCTIONS if update_kinds([program]) - {"store"} else ""
    parts = PARTS if writer.needs_parts() else ""
    start = prelude([program], is_shared=writer.is_shared)
    return start + parts + writer.write_unaligned_loads() + functions + writer.kernel()


# A program of one operand of 16 bits as a table of its results.

RESULTS = 1 << 16
LOOKUP_THREADS, LOOKUP_VECTORS = 512, 4
"""Threads of a block, which has the whole table in its shared memory, and a multiprocessor to itself; and the accesses
that a thread has on the way."""
LOOKUP_NBYTES = 2 * RESULTS
LOOKUP_WIDTH = 8
"""Elements of an access of 16 bytes."""

_OF_PLACES = frozenset({"index", "size", "length", "fact", "gather", "update"})
"""The operations whose values depend on more than the operand."""


def maps_numbers_of_16_bits(program: Program) -> bool:
    """Whether each element of one output of 16 bits depends on that of one array of 16 bits alone."""
    sizes = [program.params[number].dtype.itemsize for number in program.elements]
    is_one = len(program.reads) == len(program.writes) == 1 and program.reads != program.writes
    if sizes != [2, 2] or not is_one or program.raw or program.scalars:
        return False
    return not any(node.op in _OF_PLACES for each in bodies(program) for node in each.nodes)


def lookup_source(program: Program) -> str:
    """The source of a kernel, named `ENTRY`, that looks the results of such a program up.

    Without elements the kernel makes the table, with a thread for each result. Results of numbers whose bits differ in
    the highest places only, such as small integers, would all lie in the same bank: a number's place is its bits, the
    high byte of which is added to the low one without carries. So each place is the number of its own place.
    """
    (read,), (written,) = program.reads, program.writes
    number = to_register(f"({storage_type(program.params[read].dtype)})number", program.params[read].dtype)
    lines, (value,) = body(program, {read: number})
    statements = "".join(f"  {each}\n" for each in lines)
    pointers = {read: "const char* from", written: "char* to"}
    return f"""\
{prelude([program])}struct xf_geometry {{ long long count; }};
__device__ __align__(16) unsigned short xf_results[{RESULTS}];
__device__ __forceinline__ void xf_make_result(unsigned int place) {{
  const unsigned short number = (unsigned short)(place ^ place >> 8);
{statements}  xf_results[place] = (unsigned short){to_memory(value, program.params[written].dtype)};
}}
{_LOOKUP}extern "C" __global__ void __launch_bounds__({LOOKUP_THREADS}) {ENTRY}(
    {pointers[min(read, written)]}, {pointers[max(read, written)]}, const __grid_constant__ xf_geometry g) {{
  if (g.count) xf_look_up(from, to, g.count);
  else xf_make_result(blockIdx.x * {LOOKUP_THREADS} + threadIdx.x);
}}
"""


_LOOKUP = f"""\
__device__ __forceinline__ void xf_look_up(const char* from, char* to, long long count) {{
  extern __shared__ uint4 xf_table[];
  const unsigned short* table = (const unsigned short*)xf_table;
  const long long step = gridDim.x * {LOOKUP_THREADS}, vectors = count / {LOOKUP_WIDTH};
  long long vector = blockIdx.x * {LOOKUP_THREADS} + threadIdx.x;
  uint4 ahead[{LOOKUP_VECTORS}], now[{LOOKUP_VECTORS}];
  #pragma unroll
  for (int u = 0; u < {LOOKUP_VECTORS}; ++u)
    if (vector + u * step < vectors) ahead[u] = ((const uint4*)from)[vector + u * step];
  #pragma unroll 8
  for (int k = threadIdx.x; k < {RESULTS // LOOKUP_WIDTH}; k += {LOOKUP_THREADS})
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"((unsigned int)__cvta_generic_to_shared(xf_table + k)), "l"((const uint4*)xf_results + k));
  asm volatile("cp.async.wait_all;" ::: "memory");
#else
    xf_table[k] = ((const uint4*)xf_results)[k];
#endif
  __syncthreads();
  for (; vector < vectors; vector += {LOOKUP_VECTORS} * step) {{
    #pragma unroll
    for (int u = 0; u < {LOOKUP_VECTORS}; ++u) now[u] = ahead[u];
    #pragma unroll
    for (int u = 0; u < {LOOKUP_VECTORS}; ++u)
      if (vector + ({LOOKUP_VECTORS} + u) * step < vectors)
        ahead[u] = ((const uint4*)from)[vector + ({LOOKUP_VECTORS} + u) * step];
    #pragma unroll
    for (int u = 0; u < {LOOKUP_VECTORS}; ++u) {{
      if (vector + u * step >= vectors) break;
      unsigned int two[4] = {{now[u].x, now[u].y, now[u].z, now[u].w}};
      #pragma unroll
      for (int k = 0; k < {LOOKUP_WIDTH // 2}; ++k) {{
        const unsigned int places = two[k] ^ (two[k] >> 8 & 0x00ff00ffu);
        two[k] = table[places & 0xffffu] | (unsigned int)table[places >> 16] << 16;
      }}
      ((uint4*)to)[vector + u * step] = make_uint4(two[0], two[1], two[2], two[3]);
    }}
  }}
  if (blockIdx.x == 0 && threadIdx.x < count % {LOOKUP_WIDTH}) {{
    const long long last = count - 1 - threadIdx.x;
    const unsigned short number = ((const unsigned short*)from)[last];
    ((unsigned short*)to)[last] = table[number ^ number >> 8];
  }}
}}
"""


class _ElementwiseWriter:
    def __init__(self, program: Program, shape: CallKind) -> None:
        self.program = program
        self.shape = shape
        self.index = "long long" if shape.is_wide else "int"
        self.elements, self.raw, self.scalars = program.elements, program.raw, program.scalars
        self.access = dict(zip(self.elements, shape.accesses, strict=True))
        self.words = {number: access.word for number, access in self.access.items()}
        self.words |= dict(zip(self.raw, shape.raw_words, strict=True))
        self.names: dict[int, str] = {}
        self.unrounded: dict[str, str] = {}
        """Of the values of float16, by their names, what is rounded to them."""
        self.facts = facts(program)
        tile = shape.tile
        self.passed = {n: width for n, width in zip(self.elements, tile.widths, strict=True) if width} if tile else {}
        """The operands that pass through the tile, with the elements of an access."""
        self.leads = shape.leader is not None
        self.part = shape.width // shape.parts
        self.at = "j" if shape.parts == 1 else f"(j / {self.part} * {shape.threads * self.part} + j % {self.part})"
        """The distance of a thread's element ``j`` from its first one."""
        self.exists = f"{'j >= lead && ' if self.leads else ''}{self.at} < left"
        nodes, stores = program.nodes, program.stores
        # Behind the end of a row operands have no value, and a loop whose turns depend on them need not end.
        self.is_bounded = bool(
            any(node.op == "loop" for node in nodes) or self.raw or any(each.index is not None for each in stores)
        )
        self.steps = {node.dtype for node in nodes if not self.is_bounded and is_in_steps(node, program.math)}
        """The types of the calls in steps."""
        self.is_shared = shape.turns > 1 and FLOAT32 in self.steps
        """Whether the functions' tables are in shared memory."""
        self.is_each = FLOAT16 in self.steps and shape.turns == 1
        """Whether only those elements of a vector are computed again that are not certain, and all of it is stored."""

    def needs_parts(self) -> bool:
        """Whether the elements of an operand are not aligned."""
        return any(word < self._dtype(number).itemsize for number, word in self.words.items())

    def write_unaligned_loads(self) -> str:
        """The functions that load shifted operands."""
        found = {self._nbytes(number) for number, access in self.access.items() if access.kind == "shifted"}
        for number, access in self.access.items():
            if access.kind == "stepped":
                start, end = step_pieces(self.shape.width, access.step, self._size(number))[0]
                found.add(end - start)
        if (tile := self.shape.tile) is not None:
            found |= {
                width * self._size(n)
                for n, width, shifts in zip(self.elements, tile.widths, tile.shifts, strict=True)
                if shifts
            }
        blocks = {self._block(number) for number in self.passed}
        return "".join(
            [*map(write_unaligned_load, sorted(found)), *(_TRANSPOSE[each] for each in sorted(blocks) if each > 1)]
        )

    def kernel(self) -> str:
        body, shape = self._body(), self.shape
        bounds = f"{shape.threads}, {shape.resident}" if shape.resident else f"{shape.threads}"
        return f"""\
{self._again() if self.steps else ""}struct xf_geometry {{ {self._geometry()} }};
extern "C" __global__ void __launch_bounds__({bounds}) {ENTRY}({", ".join(self._parameters())}) {{
{body}}}
"""

    def _geometry(self) -> str:
        rank, operands = self.shape.rank, len(self.elements)
        fields = ["count", "vectors"]
        if rank > 1:
            fields += [f"extent[{rank}]", "row_vectors", f"tiles[{rank}]"]  # the last for a box in shared memory
        if operands:
            fields.append(f"stride[{operands}][{max(rank, 1)}]")
        for number, raw_rank in zip(self.raw, self.shape.raw_ranks, strict=True):
            fields += [f"length{number}", f"raw_extent{number}[{raw_rank}]", f"raw_stride{number}[{raw_rank}]"]
        fields += [f"fact{number}" for number, _ in enumerate(self.facts)]
        return " ".join(f"{self._field_type(each)} {each};" for each in fields)

    def _field_type(self, field: str) -> str:
        return "long long" if field.startswith(("length", "raw", "fact")) else self.index

    def _parameters(self) -> list[str]:
        result = []
        for number in (*self.elements, *self.raw):
            is_const = number not in self.program.writes
            is_restrict = self.access[number].is_restrict if number in self.access else is_const
            restrict = " __restrict__" if is_restrict else ""
            result.append(f"{'const ' if is_const else ''}char*{restrict} p{number}")
        scalars = [f"{storage_type(self._dtype(number))} s{number}" for number in self.scalars]
        return [*result, *scalars, "const __grid_constant__ xf_geometry g"]

    # --- the body
    def _body(self) -> str:
        if self.shape.tile is not None:
            return "\n".join(self._tile_body(self.shape.tile)) + "\n"
        index, threads = self.index, self.shape.threads
        lines = ["  xf_fill_tables();"] if self.is_shared else []
        if self.shape.turns > 1:
            return "\n".join([*lines, *self._turns_body()]) + "\n"
        lines.append(f"  {index} vector = ({index})blockIdx.x * {threads} + threadIdx.x;")
        if self.shape.parts == 1:  # else a vector's first part may lie before the end of one whose number is smaller
            lines.append("  if (vector >= g.vectors) return;")
        return "\n".join([*lines, *self._offsets(), *self._vector_body()]) + "\n"

    def _turns_body(self) -> list[str]:
        """Compute the vectors of a thread, a block's elements apart.

        Those that are not certain are computed anew behind the loop, which a call within would cost registers: ``bit``
        is that of the turn.
        """
        index, step = self.index, self.shape.threads * self.shape.width
        many = step * self.shape.turns
        register = "l" if self.shape.is_wide else "r"
        lines = [
            f"  const {index} block = ({index})blockIdx.x * {many};",
            f"  {index} first = block + threadIdx.x * {self.part};",
            f"  {index} end = g.count - block < {many} ? g.count : block + {many};",
            f'  asm volatile("" : "+{register}"(end));  // which is not computed anew in each turn',
            *(line for number in self._streams() for line in self._load_first(number)),
            *(["  unsigned int pending = 0, bit = 1;"] if self.steps else []),
            f"  #pragma unroll 1\n  for (; first < end; first += {step}{', bit += bit' if self.steps else ''}) {{",
            *self._find_column(),
            *self._vector_body(),
            "  }",
        ]
        if not self.steps:
            return lines
        return [
            *lines,
            "  for (; pending; pending &= pending - 1) {",
            f"  first = block + threadIdx.x * {self.part} + (__ffs(pending) - 1) * {step};",
            *self._find_column(),
            *self._compute_again(),
            "  }",
        ]

    def _find_column(self) -> list[str]:
        """Define what `_offsets` does, from ``first`` on."""
        start = [f"  {self.index} column = first, left = g.count - first;"]
        return start + [f"  {self.index} f{number} = 0;" for number in self.elements]

    def _vector_body(self) -> list[str]:
        """Compute the elements of a vector, from ``column`` on: from the ``lead``-th on, of ``left``."""
        lines = [self._find_full()]
        for number in self.elements:
            if self.shape.tile is None or number in self.passed:
                lines += self._load(number)
        for number in self._outputs():
            held = c_type if self._dtype(number) == FLOAT16 else storage_type
            lines.append(f"  __align__(16) {held(self._dtype(number))} o{number}[{self.shape.width}];")
        lines += self._element_loop()
        flush = [line for number in self._outputs() for line in self._flush(number)]
        if not self.steps:
            return [*lines, *flush]
        if self.shape.turns > 1:
            # The usual case in a branch of its own, which is one conditional store.
            usual = ["  if (is_full & !is_unsure) {", *flush, "  } else if (is_unsure) pending |= bit; else {"]
            return [*lines, *usual, *flush, "  }"]
        again = ["  if (is_unsure) {", *self._compute_again()]
        return [*lines, *again, "  }", *flush] if self.is_each else [*lines, *again, "  } else {", *flush, "  }"]

    def _find_full(self) -> str:
        end = (self.shape.parts - 1) * self.shape.threads * self.part + self.part
        return f"  const bool is_full = {'lead <= 0 && ' if self.leads else ''}left >= {end};"

    def _tile_body(self, tile: SharedTile) -> list[str]:
        """The body whose block fills the box, computes its elements row by row, and empties it.

        What does not pass through the box is loaded one vector ahead, the first before the block waits.
        """
        index, rank, width, sides = self.index, self.shape.rank, self.shape.width, tile.sides
        lines = [
            f"  __shared__ __align__(16) {storage_type(self._dtype(number))} b{number}[{self._cell_steps(number)[1]}];"
            for number in self.passed
        ]
        lines.append(f"  {index} at = blockIdx.x;")
        for axis in reversed(range(rank)):
            now = f"at % g.tiles[{axis}]" if axis else "at"
            lines.append(f"  const {index} n{axis} = {now}{f' * {sides[axis]}' if sides[axis] > 1 else ''};")
            lines.append(f"  at /= g.tiles[{axis}];" if axis else "")
        if tile.before:
            lines.append(f"  const {index} m{tile.edge} = n{tile.edge} - {tile.before};")
        for k, number in enumerate(self.elements):
            is_passed = number in self.passed
            steps = [
                f"{self._start(axis) if is_passed else f'n{axis}'} * g.stride[{k}][{axis}]"
                for axis in range(rank if is_passed else tile.edge)
            ]
            lines.append(f"  const {index} d{number} = {' + '.join(steps) or '0'};")
        lines += self._vector_finder(tile)
        ahead = [number for number in self.elements if number in self.program.reads and number not in self.passed]
        lines += [
            f"  __align__(16) {self._ahead_type(number)} ahead{number}[{self._ahead(number)}] = {{}};"
            for number in ahead
        ]
        lines.append("  xf_vector next = find(threadIdx.x);")
        lines += self._load_ahead(ahead)
        for number in self.passed:
            if number in self.program.reads:
                lines += self._pass_tile(tile, number, is_load=True)
        lines.append("  __syncthreads();")
        lines.append(
            f"  #pragma unroll 1\n  for (int e = threadIdx.x; e < {self._vectors(tile)}; e += {self.shape.threads}) {{"
        )
        lines += [*self._name_vector("next"), f"  next = find(e + {self.shape.threads});"]
        for number in ahead:
            held = self._ahead(number)
            lines.append(f"  __align__(16) {storage_type(self._dtype(number))} l{number}[{width}];")
            if self.access[number].kind == "shifted":
                lines.append(f"  unsigned int w{number}[{held}];")
                lines.append(f"  #pragma unroll\n  for (int j = 0; j < {held}; ++j) w{number}[j] = ahead{number}[j];")
            else:
                lines.append(f"  #pragma unroll\n  for (int j = 0; j < {width}; ++j) l{number}[j] = ahead{number}[j];")
        lines += self._load_ahead(ahead)
        lines.append("  if (!is_there) continue;")
        for number in ahead:
            if self.access[number].kind == "shifted":
                nbytes, at = self._nbytes(number), self._address(number, "column")
                choose = f"xf_choose_words_{nbytes}<{self.words[number]}>"
                lines.append(f"  {choose}(l{number}, w{number}, (int)((size_t)({at}) % {nbytes}));")
        lines += [*self._vector_body(), "  }"]
        outputs = [number for number in self.passed if number in self.program.writes]
        if outputs:
            lines.append("  __syncthreads();")
        for number in outputs:
            lines += self._pass_tile(tile, number, is_load=False)
        return lines

    def _start(self, axis: int) -> str:
        """Where the box begins along an axis."""
        tile = self.shape.tile
        assert tile is not None
        return f"m{axis}" if tile.before and axis == tile.edge else f"n{axis}"

    def _vectors(self, tile: SharedTile) -> int:
        """Of the box."""
        return math.prod(tile.sides[: tile.edge]) * (tile.row // self.shape.width)

    def _vector_fields(self) -> list[tuple[str, str]]:
        """Types and names of what `_vector_body` takes of a vector of the box."""
        tile = self.shape.tile
        assert tile is not None
        names = [*(f"f{number}" for number in self.elements), "column", "first", "left", *(["lead"] * self.leads)]
        places = [f"h{axis}" for axis in range(tile.edge) if tile.sides[axis] > 1]
        return [*((self.index, each) for each in names), *(("int", each) for each in (*places, "at_column"))]

    def _vector_finder(self, tile: SharedTile) -> list[str]:
        """Define the function ``find``: where a vector of the box is."""
        index, width, sides, edge, whole = self.index, self.shape.width, tile.sides, tile.edge, tile.whole
        inner = [axis for axis in range(edge) if sides[axis] > 1]
        per_row = tile.row // width
        start, end = f"n{edge} * {whole}", f"g.extent[{edge}] * {whole}"
        fields = self._vector_fields()
        lines = [
            f"  struct xf_vector {{ {' '.join(f'{kind} {name};' for kind, name in fields)} bool is_there; }};",
            "  const auto find = [&](int number) {",
            f"  int at_column = number % {per_row} * {width};",
            *self._find_places(inner, f"number / {per_row}"),
        ]
        for k, each in enumerate(self.elements):
            steps = [f" + h{axis} * g.stride[{k}][{axis}]" for axis in inner]
            lines.append(f"  const {index} f{each} = d{each}{''.join(steps)};")
        if self.leads:
            lines.append(f"  at_column -= {self._skip(start)};")
        lines.append(f"  const {index} column = {start} + at_column, left = {end} - column;")
        if self.leads:
            lines.append(f"  const {index} lead = -column;")
        rows = "0"
        for axis in range(edge):
            rows = f"({rows} * g.extent[{axis}] + n{axis}{f' + h{axis}' if axis in inner else ''})"
        exists = f"number < {self._vectors(tile)} && {self._within(inner)}left > 0"
        values = ", ".join(name for _, name in fields)
        return [
            *lines,
            f"  const {index} first = {rows} * ({end}) + column;",
            f"  return xf_vector{{{values}, {exists}}}; }};",
        ]

    def _name_vector(self, which: str) -> list[str]:
        fields = [*self._vector_fields(), ("bool", "is_there")]
        return [f"  const {kind} {name} = {which}.{name};" for kind, name in fields]

    def _ahead(self, number: int) -> int:
        """The length of what is loaded ahead of an operand's vector: of a shifted one the words that it lies in."""
        return self._nbytes(number) // 2 if self.access[number].kind == "shifted" else self.shape.width

    def _ahead_type(self, number: int) -> str:
        return "unsigned int" if self.access[number].kind == "shifted" else storage_type(self._dtype(number))

    def _load_ahead(self, numbers: Sequence[int]) -> list[str]:
        """Load the next vector of each operand that does not pass through the box."""
        if not numbers:
            return []
        lines = ["  {", *self._name_vector("next"), self._find_full(), "  if (is_there) {"]
        for number in numbers:
            if self.access[number].kind == "shifted":
                nbytes, at = self._nbytes(number), self._address(number, "column")
                shift = f"(int)((size_t)at % {nbytes})"
                wanted = self._find_range(number)
                lines.append(
                    f"  {{ const char* at = {at}; xf_read_words_{nbytes}(ahead{number}, at, {shift}, {wanted}); }}"
                )
            else:
                lines += self._load_vector(number, f"ahead{number}")
        return [*lines, "  } }"]

    def _find_range(self, number: int) -> str:
        """The bytes of a vector that exist: where they begin and end."""
        nbytes, size = self._nbytes(number), self._size(number)
        return f"lead > 0 ? (int)lead * {size} : 0, is_full ? {nbytes} : (int)left * {size}"

    def _find_places(self, axes: Sequence[int], index: str) -> list[str]:
        """Define ``h*``, the places within the box along some axes, the last one fastest, from a number."""
        assert self.shape.tile is not None
        lines, sides = [f"  int rest = {index};"], self.shape.tile.sides
        for axis in reversed(axes):
            lines += [f"  const int h{axis} = rest % {sides[axis]};", f"  rest /= {sides[axis]};"]
        return lines

    def _within(self, axes: Iterable[int]) -> str:
        return "".join(
            f"{f'{start} + h{axis} >= 0 && ' if start[0] == 'm' else ''}{start} + h{axis} < g.extent[{axis}] && "
            for axis in axes
            for start in [self._start(axis)]
        )

    def _cell_steps(self, number: int) -> tuple[dict[int, int], int]:
        """The elements between neighbours along each axis of the box, and of all; an operand that is the same along an
        axis is there once. A gap behind each row parts rows into banks.
        """
        tile, last = self.shape.tile, self.shape.rank - 1
        assert tile is not None
        k = self.elements.index(number)
        own = {*tile.runs[k], *tile.others[k]}
        steps, step = {}, 1
        for axis in reversed(range(self.shape.rank)):
            steps[axis] = step if axis in own else 0
            step *= tile.cells(axis) if axis in own else 1
            step += max(1, 4 // self._size(number)) if axis == last else 0
        return steps, step

    def _block(self, number: int) -> int:
        """The neighbours along the last axis that a word of the box holds: small elements move to it by words."""
        tile, last, size = self.shape.tile, self.shape.rank - 1, self._size(number)
        assert tile is not None
        block = max(1, 4 // size)
        is_across = last in tile.others[self.elements.index(number)] and number not in self.program.writes
        is_whole = is_across and tile.cells(last) % block == 0 and self.passed[number] % block == 0
        return block if is_whole and self.words[number] == size else 1

    def _pass_tile(self, tile: SharedTile, number: int, *, is_load: bool) -> list[str]:
        """Move an operand's elements between memory and the box.

        A thread takes ``width`` neighbours of its memory in each of ``block`` rows, which it transposes in registers if
        they are more than one. Of several such units it makes all loads first: behind a branch each would wait.
        """
        k, width, block = self.elements.index(number), self.passed[number], self._block(number)
        (*inner, edge), index = tile.runs[k], self.index
        side, start = tile.cells(edge), self._start(edge)
        whole = math.prod(tile.sides[axis] for axis in inner)
        count, find = self._find_unit(tile, number, whole * side)
        nbytes, turns = block * width * self._size(number), -(-count // self.shape.threads)
        batch = min(max(1, _BATCH_NBYTES // nbytes), 8, turns)
        outside, inside = (
            self._move_rows(number, is_load=is_load),
            self._move_cells(number, whole * side, is_load=is_load),
        )
        lines = [
            f"  {{ const {index} behind = g.extent[{edge}] - {start};",
            f"  const int limit = (behind < {side} ? (int)behind : {side}) * {whole};",
            f"  #pragma unroll {4 if turns <= 4 * batch else 1}",
            f"  for (int batch = 0; batch < {turns}; batch += {batch}) {{",
            f"  __align__(16) {storage_type(self._dtype(number))} w[{batch}][{block}][{width}] = {{}};",
        ]
        if tile.shifts[k]:
            lines.append(
                f"  __align__(16) unsigned int words[{batch}][{block}][{width * self._size(number) // 2}] = {{}};"
            )
        # What does not exist is 0 in the box.
        within = "" if count % (batch * self.shape.threads) == 0 else f"if (unit < {count}) "
        phases = [(outside, "if (is_there) "), (inside, within if is_load else "if (is_there) ")]
        for phase, condition in phases if is_load else reversed(phases):
            lines.append(f"  #pragma unroll\n  for (int u = 0; u < {batch}; ++u) {{")
            lines += [*find, f"  {condition}{{ {phase} }}", "  }"]
        return [*lines, "  } }"]

    def _find_unit(self, tile: SharedTile, number: int, length: int) -> tuple[int, list[str]]:
        """The number of units, and the definition of the place of one: ``h`` in the run of that length, and ``h*``.

        The threads of a warp divide between the run and the rows across it, so that they touch all banks.
        """
        last, width, block = self.shape.rank - 1, self.passed[number], self._block(number)
        others = tile.others[self.elements.index(number)]
        counts = {axis: tile.cells(axis) // (block if axis == last else 1) for axis in others}
        units = -(-length // width)
        count = units * math.prod(counts.values())
        # Along the run as many as have neighbouring rows in all banks, but lines of memory come first.
        lanes = max(32, _LEAST_RUN_NBYTES // self._size(number)) // width or 1
        lanes, rows = (units, 1) if units % lanes else (lanes, math.gcd(counts.get(last, 1), 32 // min(lanes, 32)))
        radices = {"lane": lanes, "row": rows, "piece": units // lanes}
        if last in counts:
            radices["turn"] = counts.pop(last) // rows
        radices |= {f"h{axis}": counts[axis] for axis in reversed(counts)}
        lines = [f"  const int it = batch + u, unit = (int)threadIdx.x + {self.shape.threads} * it;"]
        digits = write_digits(self.shape.threads, [*radices.values()])
        lines += [f"  const int {name} = {digit};" for name, digit in zip(radices, digits, strict=True)]
        lines.append(f"  const int h = (piece * {lanes} + lane) * {width};")
        if "turn" in radices:
            lines.append(f"  const int h{last} = (turn * {rows} + row) * {block};")
        within = self._within(axis for axis in others if axis != last or block == 1)
        if (lower := self._lower(number)) != "0":
            within += f"h + {width} > {lower} && "
        return count, [*lines, f"  const bool is_there = unit < {count} && {within}h < limit;"]

    def _lower(self, number: int) -> str:
        """The first element of the run that exists."""
        tile = self.shape.tile
        assert tile is not None
        *inner, edge = tile.runs[self.elements.index(number)]
        if self._start(edge)[0] == "n":
            return "0"
        return f"(m{edge} < 0 ? (int)-m{edge} * {math.prod(tile.sides[axis] for axis in inner)} : 0)"

    def _move_rows(self, number: int, *, is_load: bool) -> str:
        """The moves of a unit between memory and registers."""
        tile, last, k = self.shape.tile, self.shape.rank - 1, self.elements.index(number)
        assert tile is not None
        width, size, block = self.passed[number], self._size(number), self._block(number)
        each = f"w[u][i][v] = {self._fetch(number, f'from + v * {size}')};"
        if not is_load:
            each = self._store(number, f"from + v * {size}", "w[u][i][v]")
        moves = f'_Pragma("unroll") for (int v = 0; v < {width}; ++v) if (h + v < limit) {{ {each} }}'
        if width > 1:
            together = vector_moves(width * size, "w[u][i]", "from", is_load=is_load)
            if tile.shifts[k]:
                wanted = f"({self._lower(number)} - h) * {size}, (limit - h) * {size}"
                shift = f"(int)((size_t)from % {width * size})"
                together = f"xf_read_words_{width * size}(words[u][i], from, {shift}, {wanted});"
            # A load may reach beyond the run: its memory's aligned bytes have an element of it.
            moves = together if is_load else f"if (h + {width} <= limit) {{ {together} }} else {{ {moves} }}"
        exists = ""
        if block > 1:
            place = f"{self._start(last)} + h{last} + i"
            is_after = f"{place} >= 0 && " if place[0] == "m" else ""
            exists = f"if ({is_after}{place} < g.extent[{last}]) "
        place = f"{'const ' if is_load else ''}char* from = {self._unit_address(number)};"
        return f'_Pragma("unroll") for (int i = 0; i < {block}; ++i) {exists}{{ {place} {moves} }}'

    def _unit_address(self, number: int) -> str:
        """The address of the row ``i`` of a unit."""
        tile, last, k = self.shape.tile, self.shape.rank - 1, self.elements.index(number)
        assert tile is not None
        offset = "".join(f" + h{axis} * g.stride[{k}][{axis}]" for axis in tile.others[k])
        offset += f" + i * g.stride[{k}][{last}]" if self._block(number) > 1 else ""
        return f"p{number} + d{number}{offset} + h * {self._size(number)}"

    def _move_cells(self, number: int, length: int, *, is_load: bool) -> str:
        """The moves of a unit between registers and the box, whose run has that length."""
        width, block, size, tile = self.passed[number], self._block(number), self._size(number), self.shape.tile
        assert tile is not None
        limit = f"{length}" if is_load else "limit"
        guard = f"if (h + {{place}} < {limit}) " if length % width or not is_load else ""
        choose = ""
        if tile.shifts[self.elements.index(number)]:
            nbytes = width * size
            shift = f"(int)((size_t)({self._unit_address(number)}) % {nbytes})"
            each = f"xf_choose_words_{nbytes}<{self.words[number]}>(w[u][i], words[u][i], {shift});"
            choose = f'_Pragma("unroll") for (int i = 0; i < {block}; ++i) {each} '
        if block == 1:
            to, value = f"b{number}[{self._run_cell(number, 'h + v')}]", "w[u][0][v]"
            if not is_load:
                to, value = value, to
            return choose + (
                f'_Pragma("unroll") for (int v = 0; v < {width}; ++v) {guard.format(place="v")}{to} = {value};'
            )
        element = f"c * {block} + i"
        cell = f"*(unsigned int*)(b{number} + {self._run_cell(number, f'h + {element}')})"
        each = f'_Pragma("unroll") for (int i = 0; i < {block}; ++i)'
        square = f"unsigned int x[{block}]; {each} x[i] = ((unsigned int*)w[u][i])[c]; xf_transpose_{block}(x);"
        return choose + (
            f'_Pragma("unroll") for (int c = 0; c < {width // block}; ++c) '
            f"{{ {square} {each} {guard.format(place=element)}{cell} = x[i]; }}"
        )

    def _run_cell(self, number: int, element: str) -> str:
        """The cell of an element of the run, in the row of the other axes."""
        tile, k = self.shape.tile, self.elements.index(number)
        assert tile is not None
        steps, _ = self._cell_steps(number)
        *inner, edge = tile.runs[k]
        terms, rest = [f"h{axis} * {steps[axis]}" for axis in tile.others[k]], f"({element})"
        for axis in inner:
            terms.append(f"{rest} % {tile.sides[axis]} * {steps[axis]}")
            rest = f"{rest} / {tile.sides[axis]}"
        return " + ".join([*terms, f"{rest} * {steps[edge]}"])

    def _offsets(self) -> list[str]:
        """Define ``first`` (index of the first element), ``left`` (elements to the row's end) and offsets ``f*``."""
        width, rank, index = self.shape.width, self.shape.rank, self.index
        if rank <= 1:
            first, end = f"vector * {width}", ""
            if self.shape.parts > 1:
                first = f"(vector - threadIdx.x) * {width} + threadIdx.x * {self.part}"
                end = " if (left <= 0) return;"
            lines = [f"  {index} first = {first}, column = first, left = g.count - first;{end}"]
            return [*lines, *(f"  {index} f{number} = 0;" for number in self.elements), *self._find_start()]
        lines = [
            f"  {index} row = vector / g.row_vectors, column = (vector - row * g.row_vectors) * {width};",
            f"  {index} first = row * g.extent[{rank - 1}] + column, left = g.extent[{rank - 1}] - column;",
        ]
        lines += [f"  {index} f{number} = 0;" for number in self.elements]
        for axis in range(rank - 2, -1, -1):
            if axis:
                extent = f"g.extent[{axis}]"
                lines.append(f"  {{ {index} rest = row / {extent}, at = row - rest * {extent}; row = rest;")
            else:
                lines.append(f"  {{ {index} at = row;")
            steps = [f"f{number} += at * g.stride[{k}][{axis}];" for k, number in enumerate(self.elements)]
            lines.append("    " + " ".join(steps) + " }")
        return lines + self._find_start()

    def _find_start(self) -> list[str]:
        """Move the vectors of a row to where the leader's memory is aligned."""
        if not self.leads:
            return []
        return [
            f"  {{ const int skip = {self._skip('0')}; column -= skip; first -= skip; left += skip; }}",
            "  if (left <= 0) return;",
            f"  const {self.index} lead = -column;",
        ]

    def _skip(self, column: str) -> str:
        """How many elements before that column the leader's memory is aligned."""
        assert self.shape.leader is not None
        number = self.elements[self.shape.leader]
        size = self._size(number)
        return f"(int)((size_t)(p{number} + f{number} + {column} * {size}) / {size} % {self.shape.width})"

    def _size(self, number: int) -> int:
        return self._dtype(number).itemsize

    def _nbytes(self, number: int) -> int:
        """Of a vector."""
        return self.shape.width * self._size(number)

    def _dtype(self, number: int) -> DType:
        return self.program.params[number].dtype

    def _outputs(self) -> list[int]:
        return [number for number in self.elements if number in self.program.writes]

    def _address(self, number: int, element: str, pointer: str = "p") -> str:
        axis = max(self.shape.rank, 1) - 1
        kind = self.access[number].kind
        size = self._dtype(number).itemsize
        start = f"{pointer}{number} + f{number}"
        if kind == "same":
            return start
        step = f"g.stride[{self.elements.index(number)}][{axis}]" if kind in ("strided", "stepped") else f"{size}"
        return f"{start} + ({element}) * {step}"

    def _load(self, number: int) -> list[str]:
        if number not in self.program.reads:
            return []
        # What is behind the end is computed too, and a function may branch on it.
        return [
            f"  __align__(16) {storage_type(self._dtype(number))} l{number}[{self.shape.width}] = {{}};",
            *(self._load_cells(number) if number in self.passed else self._load_vector(number, f"l{number}")),
        ]

    def _load_cells(self, number: int) -> list[str]:
        """Take a vector from the box: where it holds words of neighbours, by words."""
        width, block, size, tile = self.shape.width, self._block(number), self._size(number), self.shape.tile
        assert tile is not None
        if block == 1 or width % block or tile.crossed > 1:
            return [f"  #pragma unroll\n  for (int j = 0; j < {width}; ++j) l{number}[j] = {self._cell(number)};"]
        place = self._cell(number).replace("+ j)", f"+ j * {block})")
        count = width // block
        if not self.leads:
            word = f"((unsigned int*)l{number})[j] = *(const unsigned int*)&{place};"
            return [f"  #pragma unroll\n  for (int j = 0; j < {count}; ++j) {word}"]
        start = self._cell(number).replace("+ j)", ")")
        return [
            f"  {{ const int cell = (int)((const char*)&{start} - (const char*)b{number}), shift = 8 * (cell & 3);",
            f"  const unsigned int* from = (const unsigned int*)((const char*)b{number} + (cell & ~3));",
            f"  unsigned int w[{count + 1}];",
            f"  #pragma unroll\n  for (int j = 0; j < {count}; ++j) w[j] = from[j];",
            f"  w[{count}] = *(const unsigned int*)((const char*)b{number} + (cell + {width * size - 1} & ~3));",
            f"  #pragma unroll\n  for (int j = 0; j < {count}; ++j)",
            f"    ((unsigned int*)l{number})[j] = __funnelshift_r(w[j], w[j + 1], shift); }}",
        ]

    def _load_vector(self, number: int, name: str) -> list[str]:
        """Load a vector from memory to an array of that name."""
        memory, width = storage_type(self._dtype(number)), self.shape.width
        lines: list[str] = []
        each = self._element(number, "p")
        loop = f"#pragma unroll\n    for (int j = 0; j < {width}; ++j) if ({self.exists}) {name}[j] = {each};"
        kind, place = self.access[number].kind, self._address(number, "column")
        if kind == "shifted":
            nbytes = self._nbytes(number)
            given = f"{name}, at, (int)((size_t)at % {nbytes}), {self._find_range(number)}"
            lines.append(f"  {{ const char* at = {place}; xf_load_shifted_{nbytes}<{self.words[number]}>({given}); }}")
        elif kind == "stepped":
            lines.append(f"  if (is_full) {{ {self._load_stepped(number, name)} }} else {{\n    {loop}\n  }}")
        elif kind == "vector" and width > 1:  # one that is aligned may reach beyond the row
            nbytes = self._nbytes(number)
            moves = self._moves(nbytes, name, place, is_load=True)
            if number in self._streams():
                lines.append(f"  {vector_moves(nbytes, name, f'(const char*)ahead{number}', is_load=True)}")
                lines.append(f"  {self._load_next(number, f'first + {self.shape.threads * width}')}")
            elif self.shape.parts == 1:
                lines.append(f"  {moves}")
            else:
                lines.append(f"  if (is_full) {{ {moves} }} else {{\n    {loop}\n  }}")
        elif self.access[number].kind == "same":
            same = self._fetch(number, self._address(number, "0"))
            lines.append(f"  {{ {memory} v = {same};\n    #pragma unroll")
            lines.append(f"    for (int j = 0; j < {width}; ++j) {name}[j] = v; }}")
        else:
            lines.append(f"  {{\n    {loop}\n  }}")
        return lines

    def _streams(self) -> list[int]:
        """The operands whose next vector is on its way while one is computed."""
        reads = self.program.reads if self.shape.turns > 1 else ()
        return [number for number in self.elements if number in reads and self.access[number].kind == "vector"]

    def _load_first(self, number: int) -> list[str]:
        """Load a thread's first vector of such an operand."""
        memory, width = storage_type(self._dtype(number)), self.shape.width
        return [f"  __align__(16) {memory} ahead{number}[{width}] = {{}};", f"  {self._load_next(number, 'first')}"]

    def _load_next(self, number: int, first: str) -> str:
        """Load the parts of a vector that begin before the end; one that is aligned may reach beyond it."""
        size, each = self._size(number), self._nbytes(number) // self.shape.parts
        parts = []
        for k in range(self.shape.parts):
            place = f"{first} + {k * self.shape.threads * self.part}" if k else first
            move = vector_moves(
                each, f"((char*)ahead{number} + {k * each})", f"p{number} + ({place}) * {size}", is_load=True
            )
            parts.append(f"if ({place} < end) {{ {move} }}")
        return " ".join(parts)

    def _load_stepped(self, number: int, name: str) -> str:
        """Load a vector whose elements are some apart, from the words that they are in."""
        width, size, step = self.shape.width, self._size(number), self.access[number].step
        pieces = step_pieces(width, step, size)
        nbytes = pieces[0][1]
        low = self._address(number, "column" if step > 0 else f"column + {width - 1}")
        lines = [f"const char* low = {low}; __align__(16) char s[{len(pieces)}][16];"]
        for k, (start, _) in enumerate(pieces):
            first = f"low + {start}"
            given = f"s[{k}], {first}, (int)((size_t)({first}) % {nbytes})"
            lines.append(f"xf_load_shifted_{nbytes}<{self.words[number]}>({given});")
        memory = storage_type(self._dtype(number))
        for j in range(width):
            at = (j if step > 0 else width - 1 - j) * abs(step) * size
            k, start = next((k, start) for k, (start, end) in enumerate(pieces) if at + size <= end)
            lines.append(f"{name}[{j}] = *(const {memory}*)(s[{k}] + {at - start});")
        return " ".join(lines)

    def _cell(self, number: int) -> str:
        """The element ``j`` of the vector in the box."""
        tile = self.shape.tile
        assert tile is not None
        steps, _ = self._cell_steps(number)
        edge, rest = tile.edge, f"(at_column + {tile.before * tile.whole} + j)"
        terms = [f"h{axis} * {steps[axis]}" for axis in range(edge) if tile.sides[axis] > 1]
        for axis in range(self.shape.rank - 1, edge, -1):
            terms.append(f"{rest} % {tile.sides[axis]} * {steps[axis]}")
            rest = f"{rest} / {tile.sides[axis]}"
        return f"b{number}[{' + '.join([*terms, f'{rest} * {steps[edge]}'])}]"

    def _flush(self, number: int) -> list[str]:
        width = self.shape.width
        is_half = self._dtype(number) == FLOAT16
        each = self._store_element(number, to_memory(f"o{number}[j]", FLOAT16) if is_half else f"o{number}[j]")
        if number in self.passed:
            return [f"  for (int j = 0; j < {width}; ++j) if ({self.exists}) {each}"]
        loop = f"#pragma unroll\n    for (int j = 0; j < {width}; ++j) if ({self.exists}) {each}"
        if self.access[number].kind == "vector" and width > 1:
            nbytes = width * self._dtype(number).itemsize
            moves = self._moves(
                nbytes, f"{'h' if is_half else 'o'}{number}", self._address(number, "column"), is_load=False
            )
            if is_half:
                moves = (
                    f"__align__(16) unsigned int h{number}[{width // 2}]; "
                    f'_Pragma("unroll") for (int j = 0; j < {width // 2}; ++j) '
                    f"h{number}[j] = xf_two_halves(o{number}[2 * j], o{number}[2 * j + 1]); {moves}"
                )
            return [f"  if (is_full) {{ {moves} }} else {{\n    {loop}\n  }}"]
        return [f"  {{\n    {loop}\n  }}"]

    def _moves(self, nbytes: int, local: str, address: str, *, is_load: bool) -> str:
        """The moves of a vector, in its parts."""
        each = nbytes // self.shape.parts
        return " ".join(
            vector_moves(
                each, f"((char*){local} + {k * each})", f"{address} + {k * each * self.shape.threads}", is_load=is_load
            )
            for k in range(self.shape.parts)
        )

    def _fetch(self, number: int, address: str) -> str:
        return fetch(address, self._dtype(number), self.words[number])

    def _store(self, number: int, address: str, value: str) -> str:
        return store(address, value, self._dtype(number), self.words[number])

    # --- nodes
    def _element_loop(self) -> list[str]:
        """The loop over a vector's elements; behind calls in steps, what computes them again where one is not certain.

        Such a call takes the quick step for all elements, and the vector asks once whether all were certain. With a
        branch for each a compiler loads the constants and tables of each anew, and waits for each.
        """
        dialect = CUDA
        if self.steps:
            dialect = replace(QUICK, call=functools.partial(_quick_call, ranges=find_ranges(self.program)))
        writer = Writer(self._leaf, self._gather, self._update, self.program.math, dialect, self.unrounded)
        body = [*writer.statements(self.program.nodes, self.names, "v"), *self._stores()]
        if self.is_bounded:
            body.insert(0, f"    if (!({self.exists})) continue;")
        if not self.steps:
            return [self._loop_head(), *body, "  }"]
        # Of some hundred float16 elements one is not certain: note which.
        note = f"    is_unsure |= own{' << j' if self.is_each else ''};"
        return ["  int is_unsure = 0;", self._loop_head(), "    int own = 0;", *body, note, "  }"]

    def _loop_head(self) -> str:
        return f"  #pragma unroll\n  for (int j = 0; j < {self.shape.width}; ++j) {{"

    def _compute_again(self) -> list[str]:
        """Compute the elements anew by the function `_again`, from what memory holds; they are stored unless `is_each`.

        To keep the operands for it takes registers, and threads, from all vectors. A compiler that sees that the memory
        is the same keeps them.
        """
        read = [number for number in self.elements if number in self.program.reads]
        pointers = [number for number in read if number not in self.passed]
        lines = [
            f'  const char* again{number} = p{number}; asm volatile("" : "+l"(again{number}));' for number in pointers
        ]
        if self.is_each:
            lines += [self._loop_head(), "    if (!(is_unsure >> j & 1)) continue;"]
        else:
            lines.append(f"  #pragma unroll 1\n  for (int j = 0; j < {self.shape.width}; ++j) {{")
        lines.append(f"    if (!({self.exists})) continue;")
        for number in read:
            lines.append(f"    const {storage_type(self._dtype(number))} x{number} = {self._element(number, 'again')};")
        lines.append(f"    const xf_results r = xf_again({', '.join(value for _, value in self._again_arguments())});")
        for number in self._outputs():
            value = f"r.y{number}"
            held = to_register(value, FLOAT16) if self._dtype(number) == FLOAT16 else value
            lines.append(f"    o{number}[j] = {held};" if self.is_each else f"    {self._store_element(number, value)}")
        return [*lines, "  }"]

    def _element(self, number: int, pointer: str) -> str:
        """The element ``j`` of an operand, in the box or at a pointer."""
        if number in self.passed:
            return self._cell(number)
        return self._fetch(number, self._address(number, f"column + {self.at}", pointer))

    def _store_element(self, number: int, value: str) -> str:
        """Store the element ``j`` of an output."""
        if number in self.passed:
            return f"{self._cell(number)} = {value};"
        return self._store(number, self._address(number, f"column + {self.at}"), value)

    def _again_arguments(self) -> list[tuple[str, str]]:
        """The parameters of the function `_again`, and their values in the loop."""
        read, ops = self.program.reads, {node.op for node in self.program.nodes}
        named = [(number, f"x{number}") for number in self.elements if number in read]
        named += [(number, f"s{number}") for number in self.scalars]
        result = [(f"{storage_type(self._dtype(number))} {name}", name) for number, name in named]
        result += [(f"long long {op}", self._leaf_number(op)) for op in ("index", "size") if op in ops]
        return result + [(f"long long fact{number}", f"g.fact{number}") for number, _ in enumerate(self.facts)]

    def _again(self) -> str:
        """The function that computes an element by the careful steps too."""
        names: dict[int, str] = {}

        def leaf(node: Node) -> str:
            if node.op == "load":
                name = "s" if self.program.params[node.attr].is_scalar else "x"
                return to_register(f"{name}{node.attr}", node.dtype)
            return f"fact{self.facts.index(node.attr)}" if node.op == "fact" else node.op

        writer = Writer(leaf, self._gather, self._update, self.program.math, replace(CUDA, call=_again_call))
        lines = writer.statements(self.program.nodes, names, "v")
        fields = " ".join(f"{storage_type(self._dtype(number))} y{number};" for number in self._outputs())
        stores = "".join(
            f"    r.y{each.param} = {to_memory(names[id(each.value)], self._dtype(each.param))};\n"
            for each in self.program.stores
        )
        given = ", ".join(parameter for parameter, _ in self._again_arguments())
        body = "\n".join(lines)
        return f"""\
struct xf_results {{ {fields} }};
__device__ __noinline__ xf_results xf_again({given}) {{
{body}
    xf_results r;
{stores}    return r;
}}
"""

    def _leaf(self, node: Node) -> str:
        if node.op == "load":
            is_scalar = self.program.params[node.attr].is_scalar
            return to_register(f"s{node.attr}" if is_scalar else f"l{node.attr}[j]", node.dtype)
        if node.op == "fact":
            return f"g.fact{self.facts.index(node.attr)}"
        return f"g.length{node.attr}" if node.op == "length" else self._leaf_number(node.op)

    def _leaf_number(self, op: str) -> str:
        return {"index": f"(long long)first + {self.at}", "size": "(long long)g.count"}[op]

    def _gather(self, node: Node, array: int, args: list[str]) -> str:
        """An element of a raw array; 0 out of range, so that a wrong kernel cannot read foreign memory."""
        index, *mask = args
        inside = " && ".join([*mask, f"(unsigned long long){index} < (unsigned long long)g.length{array}"])
        value = to_register(self._fetch(array, self._raw_address(array, index)), node.dtype)
        zero = f"{c_type(node.dtype)}{{0, 0}}" if node.dtype.kind == "c" else f"({c_type(node.dtype)})0"
        return f"{inside} ? {value} : {zero}"

    def _update(self, node: Node, array: int, args: list[str], name: str) -> str:
        """The statement of an update; none out of range."""
        index, value, mask, *_ = args
        address = self._raw_address(array, index)
        if node.attr.kind == "store":
            done = self._store(array, address, to_memory(value, node.dtype))
        else:
            done = update_statement(node.attr, node.dtype, address, args, name)
        return f"if ({mask} && (unsigned long long){index} < (unsigned long long)g.length{array}) {{ {done} }}"

    def _raw_address(self, number: int, index: str) -> str:
        rank = self.shape.raw_ranks[self.raw.index(number)]
        terms, rest = [], index
        for axis in range(rank - 1, -1, -1):
            extent = f"g.raw_extent{number}[{axis}]"
            at = f"({rest})" if axis == 0 else f"({rest}) % {extent}"
            terms.append(f"({at}) * g.raw_stride{number}[{axis}]")
            rest = f"({rest}) / {extent}"
        return f"p{number} + {' + '.join(terms)}"

    def _stores(self) -> list[str]:
        lines = []
        for store in self.program.stores:
            dtype, name = self._dtype(store.param), self.names[id(store.value)]
            value = to_memory(name, dtype)
            if store.index is None:
                held = self.unrounded.get(name, name) if dtype == FLOAT16 else value
                lines.append(f"    o{store.param}[j] = {held};")
                continue
            index = self.names[id(store.index)]
            test = f"(unsigned long long){index} < (unsigned long long)g.length{store.param}"
            if store.mask is not None:
                test = f"{self.names[id(store.mask)]} && {test}"
            address = self._raw_address(store.param, index)
            lines.append(f"    if ({test}) {{ {self._store(store.param, address, value)} }}")
        return lines


def vector_moves(nbytes: int, local: str, address: str, *, is_load: bool) -> str:
    """The moves between memory and a local array, in words of 16 bytes or the largest power of two that fits."""
    word = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "uint2"}.get(nbytes, "uint4")
    size = min(nbytes, 16)
    moves = []
    for part in range(nbytes // size):
        inner = f"(({word}*){local})[{part}]"
        outer = f"(({'const ' if is_load else ''}{word}*)({address}))[{part}]"
        moves.append(f"{inner} = {outer};" if is_load else f"{outer} = {inner};")
    return " ".join(moves)
