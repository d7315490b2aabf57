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


def with_real(b: Builder, op: str, x: Node, y: Node) -> Node | None:
    """The sum, difference, product or quotient of a complex number and a real one, part by part as C has them.

    A real number is not one with the imaginary part 0: infinity times 2 stays infinity, and -0 plus a real one -0.

    Returns:
        None for a real number divided by a complex one, which has no such form.
    """
    if not is_complex(x.dtype):
        if op == "div":
            return None
        imaginary = b.op("mul", x, b.imag(y)) if op == "mul" else b.op("neg", b.imag(y)) if op == "sub" else b.imag(y)
        return b.complex(b.op(op, x, b.real(y)), imaginary)
    return b.complex(b.op(op, b.real(x), y), b.op(op, b.imag(x), y) if op in ("mul", "div") else b.imag(x))


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
