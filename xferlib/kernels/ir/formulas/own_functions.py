"""float64 functions that xferlib computes itself, as formulas with the same bits on every backend.

A program keeps them as calls, because their derivatives are known; `expanded` inserts the formulas for an engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from xferlib.kernels.ir.formulas.real_algebra import Real
from xferlib.kernels.ir.nodes import FLOAT64, UINT64, Builder, Node, Program, Store


def _rsqrt(x: Real) -> Real:
    """The root of 1 / x, which halves the division's error: less than 0.86 ulp; ±inf at ±0."""
    is_small, is_large = x.compared("lt", 2.0**-1000), x.compared("gt", 2.0**1000)
    scale = x.of(2.0**100).where(is_small, x.of(2.0**-100).where(is_large, 1.0))
    back = x.of(2.0**50).where(is_small, x.of(2.0**-50).where(is_large, 1.0))
    inverse = 1.0 / (x * scale)
    root = (inverse.sqrt() * back).where(x.compared("gt", 0.0), np.nan)
    return inverse.where(x.compared("eq", 0.0), root)


_THIRD = 0x55555556  # 2^32 / 3
_CBRT_BIAS = 715093663
"""The addend to a third of the high word: two thirds of the exponent's bias, less a share that makes the guess's error
equal above and below, 3.2 %."""


def _cbrt(x: Real) -> Real:
    """Two steps of Halley's method from a guess by bits, then one with an exact square: less than 0.667 ulp."""
    size = abs(x)
    is_small = size.compared("lt", 2.0**-1022)
    size = size * size.of(2.0**54).where(is_small, 1.0)
    root = _improved(_improved(_guess(size), size), size)
    b = x.b
    bits = b.op("add", b.bitcast(root.node, UINT64), b.const(1 << 27, UINT64))
    bits = b.op("and", bits, b.const(-(1 << 27) & (1 << 64) - 1, UINT64))
    near = Real(b, b.bitcast(bits, FLOAT64))  # of 26 bits, so that its square is exact, and not below the root
    other = size / (near * near)
    root = near + near * ((other - near) / (near + near + other))
    root = root * root.of(2.0**-18).where(is_small, 1.0)
    root = (-root).where(x.compared("lt", 0.0), root)
    return root.where(b.op("and", x.compared("ne", 0.0), x.is_finite()), x)


def _guess(x: Real) -> Real:
    """A guess of the cube root: a third of the bits, and so of the exponent."""
    b = x.b
    high = b.op("shr", b.bitcast(x.node, UINT64), b.const(32, UINT64))
    third = b.op("shr", b.op("mul", high, b.const(_THIRD, UINT64)), b.const(32, UINT64))
    bits = b.op("shl", b.op("add", third, b.const(_CBRT_BIAS, UINT64)), b.const(32, UINT64))
    return Real(b, b.bitcast(bits, FLOAT64))


def _improved(root: Real, x: Real) -> Real:
    """Halley's step; the relative error becomes 2/3 of its cube."""
    ratio = root * root * (root / x)
    return root * ((ratio + 2.0) / (ratio + ratio + 1.0))


def _power(x: Real, y: Real) -> Real:
    """The platform's function except for a square, which NumPy multiplies only if all elements share the exponent."""
    general = Real(x.b, x.b.call("power", x.node, y.node))
    exponent = y.node
    if exponent.op == "const":
        return x * x if exponent.attr == 2 else general
    return (x * x).where(y.compared("eq", 2.0), general)


FORMULAS: dict[str, Callable[..., Real]] = {"rsqrt": _rsqrt, "cbrt": _cbrt, "power": _power}
"""The formulas, of float64 operands."""

IDENTICAL = frozenset({"rsqrt", "cbrt"})
"""The functions whose formulas call none of the platform's."""


def expanded(program: Program) -> Program:
    """The program with the formulas inserted for its calls of own functions; the same object if it has none."""
    if not any(map(_is_own, program.nodes)):
        return program
    b = Builder(program.params, math=program.math)
    copies: dict[int, Node] = {}
    for node in program.nodes:
        args = tuple(copies[id(each)] for each in node.args)
        if _is_own(node):
            copies[id(node)] = FORMULAS[str(node.attr)](*(Real(b, each) for each in args)).node
        else:
            copies[id(node)] = b.emit(node.op, node.dtype, args, node.attr)
    effects = [copies[id(node)] for node in program.effects]
    return b.program((_moved(store, copies) for store in program.stores), effects)


def _is_own(node: Node) -> bool:
    return node.op == "call" and node.dtype == FLOAT64 and node.attr in FORMULAS


def _moved(store: Store, copies: dict[int, Node]) -> Store:
    index = None if store.index is None else copies[id(store.index)]
    mask = None if store.mask is None else copies[id(store.mask)]
    return replace(store, value=copies[id(store.value)], index=index, mask=mask)
