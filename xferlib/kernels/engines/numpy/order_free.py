"""Reductions whose bits do not depend on the order, so that one NumPy call reduces a whole block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib.kernels.ir.nodes import Program, is_float

A = np.ndarray[Any, Any]
Fold = Callable[[A], A]
"""Reduces the last axis, of one element or more."""

_BITWISE = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_EXTREMA = {"min": np.minimum, "max": np.maximum}
_WRAPPING = {"add": np.add, "mul": np.multiply}  # of integers


def fold_of(combine: Program) -> Fold | None:
    """The fold for the combining program of a reduction; None where the order of the elements matters."""
    node = combine.stores[0].value
    operands = sorted(each.attr for each in node.args if each.op == "load")
    if len(combine.stores) > 1 or operands != [0, 1]:
        return None
    if is_float(node.dtype):
        return _extremum(node.op) if node.op in _EXTREMA else None
    ufunc = {**_BITWISE, **_EXTREMA, **_WRAPPING}.get(node.op)
    if ufunc is None or node.dtype.kind == "c":
        return None
    reduce = ufunc.reduce
    return lambda x: reduce(x, axis=-1, dtype=x.dtype)


def _extremum(op: str) -> Fold:
    """The smallest or largest float: NaN propagates, and -0 is below +0.

    Of +0 and -0 NumPy returns either, depending on the vector instructions it uses. So the signs of zeros are
    reduced separately.
    """
    reduce = _EXTREMA[op].reduce
    # Where the maximum is zero, no element has a clear sign but +0: it is -0 only if all signs are set.
    signs = {"min": np.bitwise_or.reduce, "max": np.bitwise_and.reduce}[op]

    def fold(x: A) -> A:
        result: A = reduce(x, axis=-1)
        if result.all():
            return result
        bits = np.dtype(f"u{x.dtype.itemsize}")
        sign = bits.type(1 << (8 * x.dtype.itemsize - 1))
        is_zero = result == 0
        zeros = x if is_zero.all() else x[is_zero]
        result[is_zero] = (signs(zeros.view(bits), axis=-1) & sign).view(x.dtype)
        return result

    return fold
