"""Corrects NumPy's float64 sin, cos and tan of large arguments next to multiples of π/2.

The C library subtracts the multiple with too few bits of π: for the some 600,000 floats nearest to a multiple, the
result loses up to all its bits (10^5 ulp). These few are found by their results, which are small, or large for tan,
and computed anew by integer arithmetic.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

A = np.ndarray[Any, Any]

_BITS = 1300
"""Bits of π's fraction: the largest float is below 2^1024, and none is nearer to a multiple of π/2 than 2^-62."""
_LARGE = 1e8  # below, the libraries reduce with enough bits
_SMALL = 2.0**-20


def mended(name: str, function: Callable[..., Any]) -> Callable[[A, A], None]:
    """NumPy's function ``name`` on contiguous arrays, corrected."""

    def compute(x: A, out: A) -> None:
        if _are_moderate(x):
            function(x, out)
            return
        source = x.copy()  # the output may be the operand
        function(x, out)
        _mend(name, source, out)

    return compute


def _are_moderate(x: A) -> bool:
    """Whether no argument is large; False if one is NaN."""
    if x.size <= 1024:  # the sum of squares: a third of the time of two reductions
        return bool(np.vdot(x, x) <= _LARGE * _LARGE)
    return bool(np.minimum.reduce(x, axis=None) >= -_LARGE and np.maximum.reduce(x, axis=None) <= _LARGE)


def _mend(name: str, x: A, out: A) -> None:
    x, out = np.atleast_1d(x, out)  # views, which have places; an array without axes has none
    size = np.abs(out)
    is_near = size < _SMALL
    if name == "tan":
        is_near |= size > 1 / _SMALL
    places = np.nonzero(is_near & (np.abs(x) > _LARGE) & np.isfinite(x))
    out[places] = [value_near(name, each) for each in x[places].tolist()]


def value_near(name: str, x: float) -> float:
    """Function ``name`` at ``x``, next to a multiple of π/2 where it is 0 (or, for tan, infinite)."""
    numerator, denominator = x.as_integer_ratio()
    half = half_pi()
    scaled = (numerator << _BITS) // denominator
    multiple = (2 * scaled + half) // (2 * half)
    distance = scaled - multiple * half
    rest = distance / (1 << _BITS)  # the quotient of two integers, correctly rounded
    if name == "tan":
        return rest + rest**3 / 3 if multiple % 2 == 0 else -(1 << _BITS) / distance + rest / 3
    quarter = (multiple if name == "sin" else multiple + 1) % 4
    return (rest - rest**3 / 6) * (1 if quarter == 0 else -1)


@functools.cache
def half_pi() -> int:
    """π/2 times 2^`_BITS`, by Machin's formula."""

    def arctan_of_inverse(x: int) -> int:
        term = total = (1 << _BITS + 32) // x
        divisor = 1
        while term:
            term //= -x * x
            divisor += 2
            total += term // divisor
        return total

    return (8 * arctan_of_inverse(5) - 2 * arctan_of_inverse(239)) >> 32
