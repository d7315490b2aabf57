"""The fused multiply-add on NumPy arrays: ``x * y + z`` with one rounding.

``x * y + z`` in float64, rounded to float32, is not it: the sum is rounded twice, and a result next to a midpoint goes
the wrong way. So float32 and float16 go through float64 with rounding to odd, float64 through error-free
transformations (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding
to odd", IEEE Transactions on Computers 57, 2008), and through exact rational arithmetic where those could over- or
underflow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xferlib.kernels.ir.nodes import FLOAT64

A = np.ndarray[Any, Any]

_SPLITTER = 134217729.0  # 2**27 + 1 (Dekker, 1971)
_LARGE, _SMALL = 2.0**500, 2.0**-450  # within these, products of halves are exact and normal


def fma(x: A, y: A, z: A, out: A) -> None:
    """``x * y + z`` of one float dtype, rounded once."""
    with np.errstate(all="ignore"):
        wide = [np.asarray(each, FLOAT64) for each in (x, y, z)]
        if out.dtype == FLOAT64:
            out[...] = _fma64(*np.broadcast_arrays(*wide))
        else:
            out[...] = _sum_to_odd(wide[0] * wide[1], wide[2])  # the product of two float32 is exact


def _two_sum(x: A, y: A) -> tuple[A, A]:
    total = x + y
    back = total - x
    return total, (x - (total - back)) + (y - back)


def _sum_to_odd(x: A, y: A) -> A:
    """``x + y`` in float64, an inexact result rounded to the neighbour with an odd last bit."""
    total, error = _two_sum(x, y)
    bits = np.array(total, copy=True, ndmin=1).view(np.int64)
    is_inexact = (error != 0) & np.isfinite(total)
    is_even = (bits.reshape(np.shape(total)) & 1) == 0
    is_away = (error > 0) == (total > 0)
    bits += np.where(is_inexact & is_even, np.where(is_away, 1, -1), 0).reshape(bits.shape)
    odd: A = bits.view(np.float64).reshape(np.shape(total))
    return odd


def _two_product(x: A, y: A) -> tuple[A, A]:
    product = x * y
    xh = x * _SPLITTER - (x * _SPLITTER - x)
    yh = y * _SPLITTER - (y * _SPLITTER - y)
    xl, yl = x - xh, y - yh
    return product, ((xh * yh - product) + xh * yl + xl * yh) + xl * yl


def _is_plain(x: A) -> A:
    size = np.abs(x)
    plain: A = (size < _LARGE) & (size > _SMALL)
    return plain


def _fma64(x: A, y: A, z: A) -> A:
    product, low = _two_product(x, y)
    high, low_sum = _two_sum(z, low)
    total, error = _two_sum(product, high)
    result = np.array(total + _sum_to_odd(error, low_sum))
    is_plain = _is_plain(x) & _is_plain(y) & _is_plain(product) & (_is_plain(z) | (z == 0)) & _is_plain(result)
    for position in zip(*np.nonzero(np.atleast_1d(~is_plain)), strict=True):
        place = position if np.ndim(result) else ()
        result[place] = _exact(float(x[place]), float(y[place]), float(z[place]))
    return result


def _exact(x: float, y: float, z: float) -> float:
    from fractions import Fraction  # rarely needed, and slow to import

    product = float(np.float64(x) * np.float64(y))
    if not np.isfinite([x, y]).all() or x == 0 or y == 0:
        return float(np.float64(product) + np.float64(z))
    if not np.isfinite(z):  # the exact product is finite, even where the rounded one is not
        return z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:  # a non-zero product cancelled: +0 in round-to-nearest
        return 0.0
    try:
        nearest = float(exact)
    except OverflowError:
        nearest = float("inf") if exact > 0 else float("-inf")
    return nearest or (0.0 if exact > 0 else -0.0)
