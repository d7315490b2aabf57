"""Arithmetic of uint64, which torch has not, with the bits in int64.

Sums, products and bits are the same in both. Order is that of the signed numbers once the highest bit is changed.
Every function takes tensors of int64 that hold the bits, and returns what NumPy's function of uint64 returns.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

_TOP = -(1 << 63)
_REST = (1 << 63) - 1


def flipped(x: Tensor) -> Tensor:
    """The bits of uint64 as int64 of the same order, and back."""
    return torch.bitwise_xor(x, _TOP)


def _ordered(compare: Callable[..., Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda a, b: compare(flipped(a), flipped(b))


def _extreme(choose: Callable[..., Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda a, b: flipped(choose(flipped(a), flipped(b)))


def _half(x: Tensor) -> Tensor:
    """Half of the number, which fits into int64."""
    return torch.bitwise_and(torch.bitwise_right_shift(x, 1), _REST)


def _divided(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Quotient and remainder; both are 0 where the divisor is.

    Twice the quotient of half the dividend is at most one too small. A divisor from 2**63 goes into any number at most
    once.
    """
    is_big = b < 0
    divisor = torch.where(is_big | (b == 0), 1, b)
    first = torch.bitwise_left_shift(torch.floor_divide(_half(a), divisor), 1)
    rest = a - first * divisor
    more = flipped(rest) >= flipped(divisor)
    once = flipped(a) >= flipped(b)
    quotient = torch.where(is_big, once.to(torch.int64), first + more.to(torch.int64))
    quotient = torch.where(b == 0, 0, quotient)
    return quotient, torch.where(b == 0, 0, a - quotient * b)


def _power(a: Tensor, b: Tensor) -> Tensor:
    """The square of the power to half the exponent: torch takes an exponent from 2**63 for a negative one."""
    root = torch.pow(a, _half(b))
    return root * root * torch.where(torch.bitwise_and(b, 1) == 1, a, 1)


def _is_all(count: Tensor) -> Tensor:
    """Where a shift moves every bit out."""
    return (count < 0) | (count >= 64)


def _right(a: Tensor, count: Tensor) -> Tensor:
    moved = torch.bitwise_right_shift(_half(a), torch.clamp(count - 1, 0, 63))
    return torch.where(count == 0, a, torch.where(_is_all(count), 0, moved))


def _left(a: Tensor, count: Tensor) -> Tensor:
    moved = torch.bitwise_left_shift(a, torch.clamp(count, 0, 63))
    return torch.where(_is_all(count), 0, moved)


COMPUTED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add, "subtract": torch.subtract, "multiply": torch.multiply, "pow": _power,
    "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or, "bitwise_xor": torch.bitwise_xor,
    "bitwise_left_shift": _left, "bitwise_right_shift": _right,
    "maximum": _extreme(torch.maximum), "minimum": _extreme(torch.minimum),
    "floor_divide": lambda a, b: _divided(a, b)[0], "remainder": lambda a, b: _divided(a, b)[1],
}  # fmt: skip
"""Functions whose result is the bits of uint64."""

COMPARED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "equal": torch.eq, "not_equal": torch.ne, "less": _ordered(torch.lt), "less_equal": _ordered(torch.le),
    "greater": _ordered(torch.gt), "greater_equal": _ordered(torch.ge),
}  # fmt: skip
"""Comparisons."""

SWAPPED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}
"""The comparison of the operands in the other order; equality is its own."""


def compare_signed(name: str, signed: Tensor, bits: Tensor) -> Tensor:
    """Compare numbers of int64 with those of uint64, exactly, as NumPy does."""
    if name in ("equal", "not_equal"):
        is_equal = (signed >= 0) & (signed == bits)
        return is_equal if name == "equal" else ~is_equal
    found = COMPARED[name](torch.clamp(signed, min=0), bits)
    return found | (signed < 0) if name.startswith("less") else found & (signed >= 0)
