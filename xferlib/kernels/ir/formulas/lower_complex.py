"""Arithmetic of complex numbers as formulas of their real and imaginary parts."""

from __future__ import annotations

from xferlib.kernels.ir.formulas.complex_division import divide
from xferlib.kernels.ir.formulas.lower import Lowering, hypot
from xferlib.kernels.ir.nodes import Builder, Node, is_complex


def each_part(op: str) -> Lowering:
    def lower(b: Builder, *args: Node) -> Node:
        real = b.op(op, *(b.real(each) for each in args))
        return b.complex(real, b.op(op, *(b.imag(each) for each in args)))

    return lower


def complex_multiply(b: Builder, x: Node, y: Node) -> Node:
    """(ac - bd) + (ad + bc)i, each operation rounded."""
    a, c, e, f = b.real(x), b.imag(x), b.real(y), b.imag(y)
    real = b.op("sub", b.op("mul", a, e), b.op("mul", c, f))
    return b.complex(real, b.op("add", b.op("mul", a, f), b.op("mul", c, e)))


def complex_absolute(b: Builder, x: Node) -> Node:
    return hypot(b, b.real(x), b.imag(x))


def conjugate(b: Builder, x: Node) -> Node:
    return b.complex(b.real(x), b.op("neg", b.imag(x))) if is_complex(x.dtype) else x


def real(b: Builder, x: Node) -> Node:
    return b.real(x) if is_complex(x.dtype) else x


def imag(b: Builder, x: Node) -> Node:
    return b.imag(x) if is_complex(x.dtype) else b.const(0, x.dtype)


def complex_equal(b: Builder, x: Node, y: Node) -> Node:
    return b.op("and", b.op("eq", b.real(x), b.real(y)), b.op("eq", b.imag(x), b.imag(y)))


def complex_not_equal(b: Builder, x: Node, y: Node) -> Node:
    return b.op("or", b.op("ne", b.real(x), b.real(y)), b.op("ne", b.imag(x), b.imag(y)))


def any_part(lowering: Lowering, op: str) -> Lowering:
    def lower(b: Builder, x: Node) -> Node:
        return b.op(op, lowering(b, b.real(x)), lowering(b, b.imag(x)))

    return lower


def complex_square(b: Builder, x: Node) -> Node:
    return complex_multiply(b, x, x)


def complex_reciprocal(b: Builder, x: Node) -> Node:
    return divide(b, b.const(1, x.dtype), x)
