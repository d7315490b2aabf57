"""Checks of the arguments of `xferlib.random`: what comes through is what a kernel can use."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xferlib._core.array import check_dtype
from xferlib._runtime.checks import whole
from xferlib.errors import ArgumentError, UnsupportedArrayError, UnsupportedDTypeError, shown

DType = np.dtype[Any]


def float_dtype(call: str, dtype: Any) -> DType:
    wanted = check_dtype(dtype, what=f"{call}: dtype")
    if wanted.name not in ("float32", "float64"):
        raise UnsupportedDTypeError(
            f"{call}: dtype={wanted.name!r} is neither float32 nor float64; draw one of them and convert it"
        )
    return wanted


def integer_dtype(dtype: Any) -> DType:
    wanted = check_dtype(dtype, what="integers: dtype")
    if wanted.kind not in "biu":
        raise UnsupportedDTypeError(
            f"integers: dtype={wanted.name!r} is no integer dtype; use random() or uniform(), or convert the result"
        )
    return wanted


def finite(call: str, name: str, value: Any, dtype: DType) -> float:
    """A finite number, rounded to ``dtype``."""
    if isinstance(value, (int, float, np.integer, np.floating)):
        try:
            with np.errstate(over="ignore"):
                found = float(dtype.type(value))
        except OverflowError:  # an int beyond every float
            found = math.inf
        if math.isfinite(found):
            return found
    raise ArgumentError(f"{call}: {name}={shown(value)} is no finite number of {dtype}; give one, such as float(x)")


def limits(low: Any, high: Any, dtype: DType) -> tuple[float, float]:
    """The lower limit, and the distance to the upper one, rounded to ``dtype``."""
    first, last = finite("uniform", "low", low, dtype), finite("uniform", "high", high, dtype)
    with np.errstate(over="ignore"):
        span = float(dtype.type(last) - dtype.type(first))
    if not 0 <= span < math.inf:
        raise ArgumentError(
            f"uniform: from low={shown(low)} to high={shown(high)} is no finite distance of {dtype}; give low <= high"
        )
    return first, span


def integer_range(low: Any, high: Any, dtype: DType, *, endpoint: bool) -> tuple[int, int]:
    """The least value, and how many values there are."""
    first, last = (0, low) if high is None else (low, high)
    ends = [whole(each, least=-(1 << 64)) for each in (first, last)]
    given = f"low={shown(first)}, high={shown(last)}"
    if ends[0] is None or ends[1] is None:
        raise ArgumentError(f"integers: {given} are not two ints of 64 bits; give such ints, for instance int(x)")
    least, count = ends[0], ends[1] - ends[0] + endpoint
    bounds = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if count <= 0:
        raise ArgumentError(f"integers: {given}, endpoint={endpoint} leave no value; give low < high")
    if least < bounds[0] or least + count - 1 > bounds[1]:
        raise ArgumentError(
            f"integers: {given} are beyond {dtype}, which holds {bounds[0]} to {bounds[1]}; give a wider dtype"
        )
    return least, count


def length(x: Any) -> int:
    count = whole(x, least=0)
    if count is not None:
        return count
    if isinstance(x, (int, float, complex, np.generic)):
        raise ArgumentError(f"permutation: x={shown(x)} is no int from 0 on; give one, or an array")
    raise UnsupportedArrayError(
        f"permutation: x is an object of type {type(x).__name__}, not an array; pass an int or xferlib.asarray(x)"
    )
