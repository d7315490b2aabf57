"""Formulas of complex numbers, by their real and imaginary parts."""

from __future__ import annotations

from xferlib.kernels.ir import FLOAT32, FLOAT64, Builder, Node, is_complex, part_dtype
from xferlib.kernels.lower import Lowering, hypot


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


def complex_divide(b: Builder, x: Node, y: Node) -> Node:
    """complex64 by the textbook formula in float64; complex128 by Smith's method."""
    a, c, e, f = b.real(x), b.imag(x), b.real(y), b.imag(y)
    if part_dtype(x.dtype) == FLOAT32:
        parts = _textbook_quotient(b, *(b.cast(each, FLOAT64) for each in (a, c, e, f)))
        return b.complex(*(b.cast(each, FLOAT32) for each in parts))
    is_tall = b.op("ge", b.op("abs", f), b.op("abs", e))
    p, q = b.select(is_tall, e, f), b.select(is_tall, f, e)
    s, t = b.select(is_tall, a, c), b.select(is_tall, c, a)
    ratio = b.op("div", p, q)
    scale = b.op("add", q, b.op("mul", p, ratio))
    real = b.op("div", b.op("add", b.op("mul", s, ratio), t), scale)
    difference = b.op("sub", b.op("mul", t, ratio), s)
    swapped = b.op("sub", s, b.op("mul", t, ratio))
    imag = b.op("div", b.select(is_tall, difference, swapped), scale)
    is_zero = b.op("eq", q, b.const(0, FLOAT64))
    return b.complex(b.select(is_zero, b.op("div", a, e), real), b.select(is_zero, b.op("div", c, e), imag))


def _textbook_quotient(b: Builder, a: Node, c: Node, e: Node, f: Node) -> tuple[Node, Node]:
    scale = b.op("add", b.op("mul", e, e), b.op("mul", f, f))
    real = b.op("div", b.op("add", b.op("mul", a, e), b.op("mul", c, f)), scale)
    imag = b.op("div", b.op("sub", b.op("mul", c, e), b.op("mul", a, f)), scale)
    is_zero = b.op("eq", scale, b.const(0, FLOAT64))
    return b.select(is_zero, b.op("div", a, e), real), b.select(is_zero, b.op("div", c, e), imag)


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
    return complex_divide(b, b.const(1, x.dtype), x)
