"""The dtype of every result: the rules of NumPy 2, which are those of the Array API and more, as data.

A dtype is one letter of `CODES`, and a rule is one letter for each of them: the result's dtype, or ``-`` where NumPy
refuses the call. A function of two arrays applies its rule to the dtype that `PAIRS` promotes both to. Arrays without
axes and NumPy's scalars promote as other arrays do. A Python scalar takes the dtype of the array beside it, unless its
kind is higher: `SCALARS` has what comes of that.

Nothing is computed here, and NumPy is not asked: tests hold the tables to the installed NumPy.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xferlib._core.array import DTYPES
from xferlib.errors import UnsupportedDTypeError

DType = np.dtype[Any]

CODES = "?bhilBHILefdFD"
"""The letters of `DTYPES`, in the same order: NumPy's own, but `l` and `L` are 64 bits on every system."""

PAIRS: tuple[str, ...] = (
    "?bhilBHILefdFD",  # bool
    "bbhilhildefdFD",  # int8
    "hhhilhildffdFD",  # int16
    "iiiiliilddddDD",  # int32
    "llllllllddddDD",  # int64
    "BhhilBHILefdFD",  # uint8
    "HiiilHHILffdFD",  # uint16
    "IllllIIILdddDD",  # uint32
    "LddddLLLLdddDD",  # uint64
    "eefddefddefdFD",  # float16
    "fffddffddffdFD",  # float32
    "ddddddddddddDD",  # float64
    "FFFDDFFDDFFDFD",  # complex64
    "DDDDDDDDDDDDDD",  # complex128
)
"""The dtype of two arrays together: one row and one letter for each of `CODES`."""

SCALARS: dict[type, str] = {
    bool: "?bhilBHILefdFD",
    int: "lbhilBHILefdFD",
    float: "dddddddddefdFD",
    complex: "DDDDDDDDDFFDFD",
}
"""The dtype of an array and a Python scalar together."""

ALONE: dict[type, str] = {bool: "?", int: "l", float: "d", complex: "D"}
"""The dtype of a Python scalar for itself."""

_SAME = CODES
_NO_BOOL = "-bhilBHILefdFD"
_BOOL_COUNTS = "bbhilBHILefdFD"
_FLOATS = "dddddddddefdFD"
_BY_WIDTH = "eefddefddefdFD"
_REAL_BY_WIDTH = "eefddefddefd--"
_REAL = "?bhilBHILefd--"
_WHOLE = "?bhilBHIL-----"
_SHIFTS = "bbhilBHIL-----"
_TRUTH = "?" * 14
_PARTS = "?bhilBHILefdfd"
_SUMS = "lllllLLLLefdFD"
_INDEX = "l" * 14

OF_TWO: dict[str, str] = {
    "add": _SAME, "subtract": _NO_BOOL, "multiply": _SAME, "divide": _FLOATS,
    "floor_divide": "bbhilBHILefd--", "remainder": "bbhilBHILefd--", "pow": _BOOL_COUNTS,
    "maximum": _SAME, "minimum": _SAME,
    "bitwise_and": _WHOLE, "bitwise_or": _WHOLE, "bitwise_xor": _WHOLE,
    "bitwise_left_shift": _SHIFTS, "bitwise_right_shift": _SHIFTS,
    "equal": _TRUTH, "not_equal": _TRUTH, "less": _TRUTH, "less_equal": _TRUTH, "greater": _TRUTH,
    "greater_equal": _TRUTH, "logical_and": _TRUTH, "logical_or": _TRUTH, "logical_xor": _TRUTH,
    "atan2": _REAL_BY_WIDTH, "copysign": _REAL_BY_WIDTH, "hypot": _REAL_BY_WIDTH, "logaddexp": _REAL_BY_WIDTH,
    "nextafter": _REAL_BY_WIDTH,
}  # fmt: skip
"""The rules of functions of two arrays, element by element."""

PRODUCTS: dict[str, str] = {"matmul": _SAME, "tensordot": _SAME, "vecdot": _SAME}
"""Those of products."""

OF_ONE: dict[str, str] = {
    "abs": _PARTS, "real": _PARTS, "imag": _PARTS, "positive": _NO_BOOL, "negative": _NO_BOOL, "sign": _NO_BOOL,
    "conj": _BOOL_COUNTS, "square": _BOOL_COUNTS, "reciprocal": _BOOL_COUNTS, "bitwise_invert": _WHOLE,
    "ceil": _REAL, "floor": _REAL, "trunc": _REAL, "round": "ebhilBHILefdFD",
    "isfinite": _TRUTH, "isinf": _TRUTH, "isnan": _TRUTH, "logical_not": _TRUTH, "signbit": "?" * 12 + "--",
    **dict.fromkeys(
        ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log10", "log1p",
         "log2", "sin", "sinh", "sqrt", "tan", "tanh"), _BY_WIDTH,
    ),
}  # fmt: skip
"""Those of functions of one array, element by element."""

OVER_AXES: dict[str, str] = {
    "sum": _SUMS, "prod": _SUMS, "cumulative_sum": _SUMS, "cumulative_prod": _SUMS,
    "mean": _FLOATS, "std": "dddddddddefdfd", "var": "dddddddddefdfd",
    "max": _SAME, "min": _SAME, "argmax": _INDEX, "argmin": _INDEX, "count_nonzero": _INDEX,
    "all": _TRUTH, "any": _TRUTH,
    "sort": _SAME, "argsort": _INDEX, "diff": _SAME,
}  # fmt: skip
"""Those of functions of one array that look at elements together."""

RULES: dict[str, str] = {**OF_TWO, **PRODUCTS, **OF_ONE, **OVER_AXES}
"""The result's dtype of each function."""

PAIRED_BY_WIDTH = ("atan2", "copysign", "hypot", "logaddexp", "nextafter")
"""Functions that promote two arrays after each has become a float: uint8 and int8 are float16, not float32 by int16."""

_NUMPY = dict(zip(CODES, map(np.dtype, DTYPES), strict=True))
_CODE = {dtype: code for code, dtype in _NUMPY.items()}


def promote(*operands: DType | type) -> DType:
    """The dtype of arrays of these dtypes, and of Python scalars of these types, together.

    Raises:
        KeyError: An operand is neither.
    """
    dtypes = [each for each in operands if not isinstance(each, type)]
    scalars: list[Any] = [each for each in operands if isinstance(each, type)]
    if dtypes:
        found = functools.reduce(lambda a, b: PAIRS[CODES.index(a)][CODES.index(b)], [_CODE[each] for each in dtypes])
        return _NUMPY[functools.reduce(lambda code, kind: SCALARS[kind][CODES.index(code)], scalars, found)]
    return _NUMPY[max((ALONE[each] for each in scalars), key=CODES.index)]


@functools.cache
def result(name: str, *operands: DType | type) -> DType:
    """The dtype of a function's result.

    Args:
        name: One of `RULES`.
        *operands: The dtypes of arrays and NumPy scalars, the types of Python scalars.

    Raises:
        UnsupportedDTypeError: NumPy has no such function of these.
    """
    rule = RULES[name]
    if name in PAIRED_BY_WIDTH and not any(isinstance(each, type) for each in operands):
        found = [rule[CODES.index(_CODE[each])] for each in operands]  # type: ignore[index]
        code = "-" if "-" in found else _CODE[promote(*(_NUMPY[each] for each in found))]
    else:
        code = rule[CODES.index(_CODE[promote(*operands)])]
    if code == "-":
        listed = " and ".join(each.__name__ if isinstance(each, type) else each.name for each in operands)
        remedy = _REMEDIES.get(name, "convert with xp.astype first")
        raise UnsupportedDTypeError(f"{name} of {listed} does not exist, in NumPy as here; {remedy}")
    return _NUMPY[code]


_REMEDIES = {
    "subtract": "use xp.logical_xor of booleans, or convert one with xp.astype(x, 'int8')",
    "negative": "use xp.logical_not of booleans, or convert with xp.astype(x, 'int8')",
    "signbit": "take xp.real(x) or xp.imag(x) first",
    "floor": "take xp.real(x) or xp.imag(x) first",
    "ceil": "take xp.real(x) or xp.imag(x) first",
    "trunc": "take xp.real(x) or xp.imag(x) first",
}
