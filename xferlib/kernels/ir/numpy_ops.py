"""Each core operation as a function of NumPy blocks: ``f(*operands, out)``.

It is a plain ufunc where that gives the defined result on every CPU; the others are written here. All run with
floating-point warnings off. Operands are arrays of the operation's dtype, with or without axes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib.kernels.ir import fma, rounding
from xferlib.kernels.ir.layout_independent import layout_independent
from xferlib.kernels.ir.nodes import BOOL, FLOAT32, FLOAT64, DType, Node, is_float, is_integer

A = np.ndarray[Any, Any]
Operation = Callable[..., Any]

_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.absolute, "div": np.divide,
    "imod": np.fmod, "floordiv": np.floor_divide, "floormod": np.remainder, "fmod": np.fmod, "sqrt": np.sqrt,
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "shl": np.left_shift, "shr": np.right_shift,
}  # fmt: skip

_local = threading.local()


def scratch(like: A, dtype: DType, name: str) -> A:
    """This thread's contiguous temporary of the shape of ``like``, valid until the next request by that name."""
    return scratch_of(like.shape, dtype, name)


def scratch_of(shape: tuple[int, ...], dtype: DType, name: str) -> A:
    """As `scratch`, for a shape. It is reused because the system clears new memory of this size page by page."""
    buffers: dict[str, A] = _local.__dict__.setdefault("buffers", {})
    nbytes = math.prod(shape) * dtype.itemsize
    buffer = buffers.get(name)
    if buffer is None or buffer.nbytes < nbytes:
        buffer = buffers[name] = np.empty(nbytes, np.uint8)
    return buffer[:nbytes].view(dtype).reshape(shape)


def operation(node: Node, mode: str) -> tuple[Operation, bool]:
    """The function that computes ``node``, and whether it may write over an operand."""
    op, dtype = node.op, node.dtype
    if op in ("min", "max") and is_float(dtype):
        return (_float_min if op == "min" else _float_max), False
    if op in ("min", "max"):
        return (_min if op == "min" else _max), True
    if op in _UFUNCS:
        return _UFUNCS[op], True
    if op == "call":
        return _call(node, mode), False
    if op == "cast":
        return _cast(node.args[0].dtype, dtype), False
    return _OTHERS[op], False


def _call(node: Node, mode: str) -> Operation:
    name = str(node.attr)
    if name == "rsqrt":
        return _rsqrt if mode == "fast" else rounding.rounded("rsqrt", _rsqrt)
    function: np.ufunc = getattr(np, name)
    if len(node.args) == 1 and node.dtype == FLOAT32 and mode == "exact":
        return rounding.rounded(name, function)
    return layout_independent(function) if node.dtype == FLOAT64 else function


def _rsqrt(x: A, out: A) -> None:
    np.sqrt(x, out)
    np.divide(x.dtype.type(1), out, out)


# --- choosing


def _min(x: A, y: A, out: A) -> None:
    np.minimum(x, y, out=out)


def _max(x: A, y: A, out: A) -> None:
    np.maximum(x, y, out=out)


def _float_min(x: A, y: A, out: A) -> None:
    np.minimum(x, y, out=out)
    _order_zeros(x, y, out, np.bitwise_or)


def _float_max(x: A, y: A, out: A) -> None:
    np.maximum(x, y, out=out)
    for each in (x, y):
        if each.ndim == 0 and each == 0 and not np.signbit(each):
            np.add(out, each, out)  # -0 + +0 is +0; any other value stays
            return
    _order_zeros(x, y, out, np.bitwise_and)


def _order_zeros(x: A, y: A, out: A, sign: np.ufunc) -> None:
    """Set the zeros' signs, of which NumPy takes either: ``sign`` combines the operands' sign bits."""
    for each in (x, y):
        if each.ndim == 0 and each != 0:
            return
    if np.all(out):
        return
    where = np.equal(x, y, out=scratch(out, BOOL, "zeros"))
    bits = np.dtype(f"u{out.dtype.itemsize}")
    zeros = np.equal(out, 0) & where
    x, y = np.broadcast_to(x, out.shape), np.broadcast_to(y, out.shape)
    out[zeros] = sign(x[zeros].view(bits), y[zeros].view(bits)).view(out.dtype)


_BLENDED_FROM = 1024
_RARE = 32


def _select(condition: A, yes: A, no: A, out: A) -> None:
    size = condition.size
    if size >= _BLENDED_FROM:
        count = int(np.count_nonzero(condition))
        if size < _RARE * count < (_RARE - 1) * size:
            _blend(condition, yes, no, out)
            return
    np.copyto(out, no)
    np.copyto(out, yes, where=condition)


def _blend(condition: A, yes: A, no: A, out: A) -> None:
    """``no ^ (no ^ yes) & mask``; a masked copy would mispredict its branch for every other element."""
    bits = np.dtype(f"i{out.dtype.itemsize}")
    mask = np.negative(condition.view(np.int8), scratch(out, bits, "mask"))
    yes, no, out = yes.view(bits), no.view(bits), out.view(bits)
    np.bitwise_xor(no, yes, out)
    np.bitwise_and(out, mask, out)
    np.bitwise_xor(out, no, out)


# --- conversions


def _cast(source: DType, target: DType) -> Operation:
    if target == BOOL:
        return lambda x, out: np.not_equal(x, 0, out)
    if is_float(source) and is_integer(target):
        return _saturate
    if is_integer(source) and target == np.float16:
        return _integer_to_half
    return _copy


def _copy(x: A, out: A) -> None:
    np.copyto(out, x, casting="unsafe")


def _integer_to_half(x: A, out: A) -> None:
    """Convert through float32, as defined; NumPy's own conversions differ between integer widths."""
    wide = scratch(out, FLOAT32, "half")
    np.copyto(wide, x, casting="unsafe")
    np.copyto(out, wide, casting="unsafe")


def _saturate(x: A, out: A) -> None:
    """Convert towards zero; a value out of range saturates, NaN gives 0. C leaves both undefined, and CPUs differ."""
    info = np.iinfo(out.dtype)
    if out.dtype.itemsize < 4 or (out.dtype.itemsize == 4 and x.dtype == FLOAT64):
        wide = scratch(out, FLOAT64, "saturate")
        np.copyto(wide, x)
        np.clip(wide, info.min, info.max, out=wide)
        np.copyto(wide, 0.0, where=np.isnan(wide))
        np.copyto(out, wide, casting="unsafe")
        return
    low, high = x.dtype.type(info.min), x.dtype.type(2.0 ** (info.bits - (out.dtype.kind == "i")))
    with np.errstate(all="ignore"):
        inside = np.logical_and(np.greater_equal(x, low), np.less(x, high))
        np.copyto(out, 0)
        np.copyto(out, x, where=inside, casting="unsafe")
        np.copyto(out, info.max, where=np.greater_equal(x, high))
        np.copyto(out, info.min, where=np.less(x, low))


def _bitcast(x: A, out: A) -> None:
    whole = x if x.ndim == 0 or x.flags.c_contiguous else np.ascontiguousarray(x)
    np.copyto(out, whole.view(out.dtype))


def _complex(real: A, imag: A, out: A) -> None:
    out.real[...] = real
    out.imag[...] = imag


def _real(x: A, out: A) -> None:
    np.copyto(out, x.real)


def _imag(x: A, out: A) -> None:
    np.copyto(out, x.imag)


# --- integers


def _truncated_quotient(x: A, y: A, out: A) -> None:
    rest = scratch(out, out.dtype, "rest")
    np.fmod(x, y, rest)
    np.subtract(x, rest, rest)
    np.floor_divide(rest, y, out)


_OTHERS: dict[str, Operation] = {
    "select": _select, "bitcast": _bitcast, "complex": _complex, "real": _real, "imag": _imag,
    "idiv": _truncated_quotient, "fma": fma.fma,
}  # fmt: skip
