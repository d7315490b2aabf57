"""Between which numbers the float32 values of a program lie, for any operands.

The result of a sine is never above 1, and a sum of 1 and a size never below 1. Text that knows so leaves out what it
would do for other operands: limits, poles, special values. The intervals are found by the operations, operands before
users, in float64 and rounded outwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from xferlib.kernels.ir import FLOAT16, FLOAT32, FLOAT64, Node, Program

_INF = math.inf
_LEAST = 2.0**-149
_FLOATS = (FLOAT16, FLOAT32, FLOAT64)


class Range(NamedTuple):
    """The least and the greatest value but for NaN, which any may be.

    A ``low`` of 0 or more also says that the sign is clear: a value that may be -0 has a negative one.
    """

    low: float
    high: float


ANY = Range(-_INF, _INF)
_POSITIVE = Range(0.0, _INF)

_GROWING: dict[str, tuple[Callable[[float], float], float, float]] = {
    "exp": (np.exp, -_INF, _INF), "exp2": (np.exp2, -_INF, _INF), "expm1": (np.expm1, -_INF, _INF),
    "log": (np.log, 0.0, _INF), "log2": (np.log2, 0.0, _INF), "log10": (np.log10, 0.0, _INF),
    "log1p": (np.log1p, -1.0, _INF), "arcsin": (np.arcsin, -1.0, 1.0), "arctan": (np.arctan, -_INF, _INF),
    "sinh": (np.sinh, -_INF, _INF), "tanh": (np.tanh, -_INF, _INF), "arcsinh": (np.arcsinh, -_INF, _INF),
    "arccosh": (np.arccosh, 1.0, _INF), "arctanh": (np.arctanh, -1.0, 1.0), "cbrt": (np.cbrt, -_INF, _INF),
    "sqrt": (np.sqrt, -0.0, _INF),
}  # fmt: skip
"""The functions that never fall, and between which operands they have results."""
_ODD = frozenset({"expm1", "log1p", "arcsin", "arctan", "sinh", "tanh", "arcsinh", "arctanh", "cbrt", "sqrt"})
"""Those whose result has the sign of the operand, that of zeros too."""


def find_ranges(program: Program) -> dict[int, Range]:
    """The range of each float node of a program without loops, by its identity."""
    found: dict[int, Range] = {}
    with np.errstate(all="ignore"):
        for node in program.nodes:
            if node.dtype in _FLOATS:
                found[id(node)] = _round(_range_of(node, [found.get(id(each), ANY) for each in node.args]), node)
    return found


def _range_of(node: Node, args: list[Range]) -> Range:
    op = str(node.attr) if node.op == "call" else node.op
    if op == "const":
        value = float(node.attr)
        return ANY if math.isnan(value) else Range(value if math.copysign(1, value) > 0 else min(value, -_LEAST), value)
    if op == "cast":
        return _of_integers(node.args[0]) if node.args[0].dtype not in _FLOATS else args[0]
    if op == "mul" and node.args[0] is node.args[1]:
        args = [_size(args[0])] * 2
    elif op == "mul" and node.args[0].op == "neg" and node.args[0].args[0] is node.args[1]:
        return _negate(_ends(np.multiply, _size(args[1]), _size(args[1])))
    if op in _GROWING:
        return _grow(op, args[0])
    if op in _OPERATIONS:
        return _OPERATIONS[op](*args)
    return ANY


def _round(range_: Range, node: Node) -> Range:
    """The range of values that are rounded to float32 or float16, or computed in float64 with an error of some ulp."""
    low, high = range_
    if node.op in ("const", "neg", "abs", "min", "max", "select"):
        return range_
    step, least, most = (2.0**-10, 2.0**-24, 6.5e4) if node.dtype == FLOAT16 else (2.0**-20, _LEAST, 3.4e38)
    if math.isfinite(low):
        wider = low - abs(low) * step - least
        low = max(wider, 0.0) if low >= 0 else wider if wider > -most else -_INF
    if math.isfinite(high):
        high += abs(high) * step + least
    return Range(min(low, most), max(high, -most) if high < most else _INF)


def _of_integers(node: Node) -> Range:
    if node.dtype.kind == "b":
        return Range(0.0, 1.0)
    if node.dtype.kind not in "iu":
        return ANY
    info = np.iinfo(node.dtype)
    return Range(float(info.min), float(info.max))


def _grow(name: str, x: Range) -> Range:
    function, least, most = _GROWING[name]
    low, high = (float(function(min(max(each, least), most))) for each in x)
    if name in _ODD and x.low >= 0:
        return Range(max(low, 0.0), high)
    return Range(low if low > 0 else 0.0 if name in ("exp", "exp2", "arccosh") else min(low, -_LEAST), high)


def _ends(function: Callable[[float, float], float], x: Range, y: Range) -> Range:
    """The range of a function whose greatest and least values are at the ends; 0 where these have none."""
    values = [
        0.0 if math.isnan(value := float(function(np.float64(a), np.float64(b)))) else value for a in x for b in y
    ]
    is_positive = x.low >= 0 and y.low >= 0
    return Range(max(min(values), 0.0) if is_positive else min(*values, -_LEAST), max(values))


def _add(x: Range, y: Range) -> Range:
    low, high = x.low + y.low, x.high + y.high
    if math.isnan(low) or math.isnan(high):
        return ANY
    return Range(low if low > 0 or (x.low >= 0 and y.low >= 0) else min(low, -_LEAST), high)


def _negate(x: Range) -> Range:
    return Range(-x.high if x.high < 0 else min(-x.high, -_LEAST), -x.low)


def _size(x: Range) -> Range:
    if x.low >= 0:
        return x
    return Range(-x.high if x.high < 0 else 0.0, max(-x.low, x.high))


def _divide(x: Range, y: Range) -> Range:
    return _ends(np.divide, x, y) if y.low > 0 else ANY


def _join(_: Range, x: Range, y: Range) -> Range:
    return Range(min(x.low, y.low), max(x.high, y.high))


_OPERATIONS: dict[str, Callable[..., Range]] = {
    "neg": _negate, "abs": _size, "add": _add, "sub": lambda x, y: _add(x, _negate(y)),
    "mul": lambda x, y: _ends(np.multiply, x, y), "div": _divide, "select": _join,
    "min": lambda x, y: Range(min(x.low, y.low), min(x.high, y.high)),
    "max": lambda x, y: Range(max(x.low, y.low), max(x.high, y.high)),
    "sin": lambda _: Range(-1.0, 1.0), "cos": lambda _: Range(-1.0, 1.0),
    "arccos": lambda x: Range(math.acos(min(max(x.high, -1.0), 1.0)), math.acos(min(max(x.low, -1.0), 1.0))),
    "cosh": lambda x: Range(float(np.cosh(_size(x).low)), float(np.cosh(_size(x).high))),
    "erf": lambda x: Range(0.0 if x.low >= 0 else -1.0, 1.0),
    "hypot": lambda *_: _POSITIVE,
}  # fmt: skip
