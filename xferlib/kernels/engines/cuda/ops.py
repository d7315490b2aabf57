"""Each core operation as a CUDA C expression, with the meaning that `xferlib.kernels.ir.nodes` defines.

Rounding is written out (``__fadd_rn``), so that no option of the compiler can contract or flush it. Half
floats live in registers as float, rounded after each operation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xferlib.kernels.ir.nodes import BOOL, FLOAT16, FLOAT32, FLOAT64, DType, Node, is_float, is_integer

C_NAMES: dict[str, str] = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long long",
    "float16": "float", "float32": "float", "float64": "double", "complex64": "xf_c64", "complex128": "xf_c128",
}  # fmt: skip
"""The C type of a value in registers."""

_STORAGE = {"bool": "unsigned char", "float16": "unsigned short"}

WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
"""The unsigned types by their size."""

_INTRINSICS = {
    "add": ("__fadd_rn", "__dadd_rn"), "sub": ("__fsub_rn", "__dsub_rn"), "mul": ("__fmul_rn", "__dmul_rn"),
    "div": ("__fdiv_rn", "__ddiv_rn"), "sqrt": ("__fsqrt_rn", "__dsqrt_rn"), "fma": ("__fmaf_rn", "__fma_rn"),
}  # fmt: skip
_FUNCTIONS = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "abs": "fabs", "fmod": "fmod"}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_WRAPPING = {"add": "+", "sub": "-", "mul": "*"}
_BITS = {"and": "&", "or": "|", "xor": "^"}
CALL_NAMES = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arctan2": "atan2", "power": "pow",
}  # fmt: skip


def c_type(dtype: DType) -> str:
    """The type of a value of ``dtype`` in registers."""
    return C_NAMES[dtype.name]


def storage_type(dtype: DType) -> str:
    """The type of a value of ``dtype`` in memory."""
    return _STORAGE.get(dtype.name) or c_type(dtype)


def fetched(address: str, dtype: DType, word: int) -> str:
    """The expression that reads an address, in words of at most ``word`` bytes."""
    memory = storage_type(dtype)
    if word >= dtype.itemsize:
        return f"*(const {memory}*)({address})"
    return f"xf_fetch<{memory}, {WORDS[word]}>({address})"


def put(address: str, value: str, dtype: DType, word: int) -> str:
    """The statement that writes to an address, in words of at most ``word`` bytes."""
    memory = storage_type(dtype)
    if word >= dtype.itemsize:
        return f"*({memory}*)({address}) = {value};"
    return f"xf_put<{memory}, {WORDS[word]}>({address}, {value});"


def loaded(text: str, dtype: DType) -> str:
    """The expression of a value in registers, from one in memory."""
    if dtype == FLOAT16:
        return f"xf_from_half({text})"
    return f"({text} != 0)" if dtype == BOOL else text


def stored(text: str, dtype: DType) -> str:
    """The expression of a value in memory, from one in registers."""
    return f"xf_to_half({text})" if dtype == FLOAT16 else text


def constant(value: Any, dtype: DType) -> str:
    """A literal with exactly the bits of ``value``."""
    if dtype == BOOL:
        return "true" if value else "false"
    if dtype == FLOAT16:
        value, dtype = np.float32(value), FLOAT32
    if is_float(dtype):
        bits = int(np.asarray(value, dtype).view(f"u{dtype.itemsize}"))
        return f"__int_as_float(0x{bits:08x})" if dtype == FLOAT32 else f"__longlong_as_double(0x{bits:016x}LL)"
    bits = int(value) & (1 << 8 * dtype.itemsize) - 1
    return f"({c_type(dtype)})0x{bits:x}ull"


def expression(node: Node, args: list[str], math: str) -> str:
    """The C expression that computes ``node`` from the names of its operands."""
    dtype, op = node.dtype, node.op
    operand = node.args[0].dtype if node.args else dtype
    if op == "cast":
        return _cast(args[0], operand, dtype)
    if op == "bitcast":
        return _bitcast(args[0], operand, dtype)
    if op == "select":
        return f"{args[0]} ? {args[1]} : {args[2]}"
    if op in _COMPARE:
        return f"{args[0]} {_COMPARE[op]} {args[1]}"
    if op == "call":
        return _call(node, args, math)
    if op == "complex":
        return f"{c_type(dtype)}{{{args[0]}, {args[1]}}}"
    if op in ("real", "imag"):
        return f"{args[0]}.{'x' if op == 'real' else 'y'}"
    if is_float(dtype):
        return _float(op, dtype, args)
    return _bool(op, args) if dtype == BOOL else _integer(op, dtype, args)


def binary(op: str, dtype: DType, x: str, y: str) -> str:
    """The C expression of a core operation on two values of one dtype that is no bool."""
    return _float(op, dtype, [x, y]) if is_float(dtype) else _integer(op, dtype, [x, y])


def _float(op: str, dtype: DType, args: list[str]) -> str:
    text = ", ".join(args)
    if op == "neg":
        return f"-{args[0]}"
    if op in ("min", "max"):
        return f"xf_{op}({text})"
    if op in _FUNCTIONS:
        return f"{_FUNCTIONS[op]}{'' if dtype == FLOAT64 else 'f'}({text})"
    if dtype == FLOAT64:
        return f"{_INTRINSICS[op][1]}({text})"
    if dtype == FLOAT32:
        return f"{_INTRINSICS[op][0]}({text})"
    return f"xf_fma_half({text})" if op == "fma" else f"xf_half({_INTRINSICS[op][0]}({text}))"


def _bool(op: str, args: list[str]) -> str:
    if op == "not":
        return f"!{args[0]}"
    return f"(bool)({args[0]} {_BITS[op]} {args[1]})"


def _integer(op: str, dtype: DType, args: list[str]) -> str:
    ctype = c_type(dtype)
    wide = "unsigned long long" if dtype.itemsize == 8 else "unsigned int"
    if op in _WRAPPING:
        return f"({ctype})(({wide}){args[0]} {_WRAPPING[op]} ({wide}){args[1]})"
    if op == "neg":
        return _narrow(f"(0 - ({wide}){args[0]})", dtype)
    if op == "abs":
        size = f"({args[0]} < 0 ? 0u - ({wide}){args[0]} : ({wide}){args[0]})"
        return args[0] if dtype.kind == "u" else _narrow(size, dtype)
    if op in _BITS:
        return f"({ctype})({args[0]} {_BITS[op]} {args[1]})"
    if op == "not":
        return f"({ctype})(~{args[0]})"
    if op in ("min", "max"):
        return f"({args[0]} {'<' if op == 'min' else '>'} {args[1]} ? {args[0]} : {args[1]})"
    return f"xf_{op}<{ctype}>({', '.join(args)})"


def _narrow(text: str, dtype: DType) -> str:
    """The low bits: CUDA 13's assembler widens a negated int16, ``neg.s16`` of -32768, to +32768."""
    if dtype.kind == "i" and dtype.itemsize < 4:
        return f"xf_narrow<{c_type(dtype)}>({text})"
    return f"({c_type(dtype)}){text}"


def _cast(text: str, source: DType, target: DType) -> str:
    if target == BOOL:
        return f"({text} != 0)"
    if target == FLOAT16:
        return f"xf_half_of_double({text})" if source == FLOAT64 else f"xf_half((float){text})"
    if is_float(source) and is_integer(target):
        return f"xf_saturate<{c_type(target)}>({text}, {_range(source, target)})"
    return f"({c_type(target)}){text}"


def _range(source: DType, target: DType) -> str:
    """The lowest value of ``target`` and the first one beyond it, exact in float, and its highest value."""
    info = np.iinfo(target)
    kind = FLOAT64 if source == FLOAT64 else FLOAT32
    beyond = 2.0 ** (info.bits - (target.kind == "i"))
    low, high = constant(float(info.min), kind), constant(beyond, kind)
    return f"{low}, {high}, {constant(info.min, target)}, {constant(info.max, target)}"


def _bitcast(text: str, source: DType, target: DType) -> str:
    if source == FLOAT16:
        return f"({c_type(target)})xf_to_half({text})"
    if target == FLOAT16:
        return f"xf_from_half((unsigned short){text})"
    if source == FLOAT32:
        return f"({c_type(target)})__float_as_uint({text})"
    if target == FLOAT32:
        return f"__uint_as_float((unsigned int){text})"
    if source == FLOAT64:
        return f"({c_type(target)})__double_as_longlong({text})"
    if target == FLOAT64:
        return f"__longlong_as_double((long long){text})"
    return f"({c_type(target)}){text}"


def _call(node: Node, args: list[str], math: str) -> str:
    name = str(node.attr)
    if node.dtype == FLOAT32 and math == "exact":
        return f"xf_exact_{name}({args[0]})"
    if name == "rsqrt":
        return f"__fdiv_rn(1.0f, __fsqrt_rn({args[0]}))"
    suffix = "f" if node.dtype == FLOAT32 else ""
    return f"{CALL_NAMES.get(name, name)}{suffix}({', '.join(args)})"
