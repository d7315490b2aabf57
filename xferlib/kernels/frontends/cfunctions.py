"""The functions that a C snippet may call, by their C and CUDA names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from xferlib.errors import KernelTypeError, did_you_mean
from xferlib.kernels.ir.formulas import bit_functions, lower, special_functions
from xferlib.kernels.ir.functions import CALLS, TABLE
from xferlib.kernels.ir.nodes import FLOAT32, FLOAT64, Builder, Node, is_complex, is_float
from xferlib.kernels.ir.types import c_common, c_float, c_promoted

FailAs = Callable[[str, type[Exception] | None], NoReturn]

_SHORT = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
          "arctanh": "atanh", "arctan2": "atan2", "power": "pow"}  # fmt: skip

FLOAT_FUNCTIONS: dict[str, str] = {
    **{_SHORT.get(name, name): name for name in CALLS},
    **{_SHORT.get(name, name): name for name in ("power", "arctan2", "hypot", "fmod", "copysign", "nextafter", "sqrt")},
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "nearbyint": "rint", "fma": "fma",
    "fmin": "fmin", "fmax": "fmax", "fabs": "absolute",
}  # fmt: skip
"""C name to table name; a name with a final ``f`` converts its operands to float."""

_INTRINSICS = {f"__{name}f": f"{name}f" for name in ("exp", "log", "log2", "log10", "sin", "cos", "tan", "pow")}
"""CUDA's approximate functions of float, each by its accurate name: the same bits everywhere leave no room for them."""

_MISSING = frozenset(f"{name}{suffix}" for name in ("tgamma", "lgamma") for suffix in ("", "f"))
_COMMON = {"min": "fmin", "max": "fmax", "minimum": "minimum", "maximum": "maximum"}
_PLAIN = ("abs", "round", "real", "imag", "conj", "norm", "polar")
_PREDICATES = ("isnan", "isinf", "isfinite", "signbit")


def call(b: Builder, name: str, args: list[Node], fail: FailAs) -> Node:
    """Emit a call of C function ``name``; ``fail`` reports an unknown name, arity or dtype."""
    if name in ("round", "roundf"):
        _check_arity(name, args, 1, fail)
        operand = _floats(b, args, name == "roundf")[0]
        if is_complex(operand.dtype):
            fail(f"{name}() is not defined for {operand.dtype}; cast the operand", KernelTypeError)
        return lower.round_half_away(b, operand)
    if (special := name.removesuffix("f")) in special_functions.FORMULAS or name in special_functions.FORMULAS:
        _check_arity(name, args, 1, fail)
        base = name if name in special_functions.FORMULAS else special
        operand = _floats(b, args, name != base)[0]
        if is_complex(operand.dtype):
            fail(f"{name}() is not defined for {operand.dtype}; cast the operand", KernelTypeError)
        return special_functions.lowered(b, base, operand)
    if name in bit_functions.FUNCTIONS:
        _check_arity(name, args, 1, fail)
        if args[0].dtype.kind not in bit_functions.TAKES[name]:
            fail(f"{name}() is not defined for {args[0].dtype}; cast the operand", KernelTypeError)
        return bit_functions.FUNCTIONS[name](b, args[0])
    if name == "polar":
        return _polar(b, args, fail)
    if name in ("abs", "conj", "real", "imag", "norm"):
        return _plain(b, name, args, fail)
    if name in _COMMON:
        return _common(b, name, args, fail)
    if name in _PREDICATES:
        _check_arity(name, args, 1, fail)
        return _apply(b, name, name, _floats(b, args, False), fail)
    c_name = _INTRINSICS.get(name, name)
    is_single = c_name.endswith("f") and c_name[:-1] in FLOAT_FUNCTIONS and c_name not in FLOAT_FUNCTIONS
    base = c_name[:-1] if is_single else c_name
    if base in _MISSING:
        problem = "tgamma and lgamma are left to raw_module: NumPy has none, and identical bits need one"
        fail(f"{name}() is not among the kernel functions; {problem}", None)
    if base not in FLOAT_FUNCTIONS:
        known = sorted({*FLOAT_FUNCTIONS, *_COMMON, *_PREDICATES, *special_functions.FORMULAS, *_PLAIN})
        fail(f"unknown function {name!r}{did_you_mean(name, known)}; known are {', '.join(known)}", None)
    function = FLOAT_FUNCTIONS[base]
    _check_arity(name, args, TABLE[function].arity, fail)
    return _apply(b, name, function, _floats(b, args, is_single), fail)


def _check_arity(name: str, args: list[Node], count: int, fail: FailAs) -> None:
    if len(args) != count:
        fail(f"{name}() takes {count} argument(s), {len(args)} were given", KernelTypeError)


def _floats(b: Builder, args: list[Node], is_single: bool) -> list[Node]:
    """The operands in C++'s common floating type: an integer counts as double."""
    dtype = FLOAT32 if is_single else c_float(args[0].dtype)
    if not is_single:
        for each in args[1:]:
            dtype = c_common(dtype, c_float(each.dtype))
    return [b.cast(each, dtype) for each in args]


def _plain(b: Builder, name: str, args: list[Node], fail: FailAs) -> Node:
    _check_arity(name, args, 1, fail)
    operand = args[0]
    if name == "norm":
        if not is_complex(operand.dtype):
            fail(f"norm() is not defined for {operand.dtype}; it takes complex numbers", KernelTypeError)
        squares = [b.op("mul", part, part) for part in (b.real(operand), b.imag(operand))]
        return b.op("add", *squares)
    if name == "abs":
        operand = b.cast(operand, c_promoted(operand.dtype))
    elif not is_complex(operand.dtype) and not is_float(operand.dtype):
        operand = b.cast(operand, c_float(operand.dtype))
    return _apply(b, name, {"abs": "absolute"}.get(name, name), [operand], fail)


def _polar(b: Builder, args: list[Node], fail: FailAs) -> Node:
    """``polar(size, angle)``: the complex number ``size * cos(angle) + i size * sin(angle)``."""
    _check_arity("polar", args, 2, fail)
    size, angle = _floats(b, args, False)
    if size.dtype not in (FLOAT32, FLOAT64):
        fail(f"polar() is not defined for {size.dtype}; cast the operands to float or double", KernelTypeError)
    return b.complex(b.op("mul", size, b.call("cos", angle)), b.op("mul", size, b.call("sin", angle)))


def _common(b: Builder, name: str, args: list[Node], fail: FailAs) -> Node:
    _check_arity(name, args, 2, fail)
    dtype = c_common(args[0].dtype, args[1].dtype)
    return _apply(b, name, _COMMON[name], [b.cast(each, dtype) for each in args], fail)


def _apply(b: Builder, name: str, function: str, args: list[Node], fail: FailAs) -> Node:
    entry: Any = TABLE[function]
    if args[0].dtype.kind not in entry.kinds.replace("i", "iu"):
        fail(f"{name}() is not defined for {args[0].dtype}; cast the operand", KernelTypeError)
    result: Node = entry.lowering(b, *args)
    return result
