"""The numeric literals of C snippets: value and type."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from xferlib.kernels.ir.nodes import BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, DType
from xferlib.kernels.ir.types import fits

_INTEGER = re.compile(r"(?P<digits>0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)(?P<suffix>[uUlL]*)\Z")
_FLOAT = re.compile(r"(?P<digits>(?:0[xX][0-9a-fA-F.]+[pP][+-]?[0-9]+)|[0-9.]+(?:[eE][+-]?[0-9]+)?)(?P<suffix>\w*)\Z")
_BASES = {"0x": 16, "0b": 2}
_MOST_DIGITS = 128  # no 64-bit number has more
_FLOATS = (("FLT", FLOAT32), ("DBL", FLOAT64))
_WIDTHS = ("8", "16", "32", "64")
_INTEGERS: dict[str, Any] = {
    "CHAR": np.int8, "SCHAR": np.int8, "UCHAR": np.uint8, "SHRT": np.int16, "USHRT": np.uint16, "INT": np.int32,
    "UINT": np.uint32, "LONG": np.int64, "ULONG": np.uint64, "LLONG": np.int64, "ULLONG": np.uint64,
    "INTPTR": np.int64, "UINTPTR": np.uint64, "PTRDIFF": np.int64, "SIZE": np.uint64, "INTMAX": np.int64,
    "UINTMAX": np.uint64,
    **{f"{kind}{width}": np.dtype(f"{kind.lower()}{width}").type for kind in ("INT", "UINT") for width in _WIDTHS},
}  # fmt: skip
"""The types of ``<climits>`` and ``<cstdint>``, by the names of their limits."""
_FRACTIONS = {"FLT": (24, 6, 9, -125, -37, 128, 38), "DBL": (53, 15, 17, -1021, -307, 1024, 308)}
_MATHEMATICAL = {
    "M_E": math.e, "M_LOG2E": 1.4426950408889634074, "M_LOG10E": 0.43429448190325182765,
    "M_LN2": 0.69314718055994530942, "M_LN10": 2.30258509299404568402, "M_PI": math.pi, "M_PI_2": math.pi / 2,
    "M_PI_4": math.pi / 4, "M_1_PI": 0.31830988618379067154, "M_2_PI": 0.63661977236758134308,
    "M_2_SQRTPI": 1.12837916709551257390, "M_SQRT2": 1.41421356237309504880, "M_SQRT1_2": 0.70710678118654752440,
    "HUGE_VAL": math.inf,
}  # fmt: skip
_CUDA = {
    "INF": math.inf, "NAN": math.nan, "NEG_ZERO": -0.0, "ZERO": 0.0, "ONE": 1.0, "PI": math.pi, "PIO2": math.pi / 2,
    "PIO4": math.pi / 4,
}  # fmt: skip


def _fits_int(dtype: DType) -> bool:
    """Whether C promotes a type to ``int``: so does a limit of it."""
    return dtype.itemsize < INT32.itemsize


NAMED: dict[str, tuple[float, DType]] = {
    "true": (True, BOOL), "false": (False, BOOL), "NAN": (math.nan, FLOAT32), "INFINITY": (math.inf, FLOAT32),
    "HUGE_VALF": (math.inf, FLOAT32), "FLT_RADIX": (2, INT32), "FLT_ROUNDS": (1, INT32), "CHAR_BIT": (8, INT32),
    **{name: (value, FLOAT64) for name, value in _MATHEMATICAL.items()},
    **{f"CUDART_{name}{end}": (value, dtype)
       for name, value in _CUDA.items() for end, dtype in (("", FLOAT64), ("_F", FLOAT32))},
    **{
        name: (float(getattr(np.finfo(dtype), fact)), dtype)
        for short, dtype in _FLOATS
        for name, fact in (
            (f"{short}_MAX", "max"), (f"{short}_MIN", "tiny"), (f"{short}_EPSILON", "eps"),
            (f"{short}_TRUE_MIN", "smallest_subnormal"),
        )
    },
    **{
        f"{name}_{fact}": (value, INT32)
        for name, values in _FRACTIONS.items()
        for fact, value in zip(
            ("MANT_DIG", "DIG", "DECIMAL_DIG", "MIN_EXP", "MIN_10_EXP", "MAX_EXP", "MAX_10_EXP"), values, strict=True
        )
    },
    **{
        f"{name}_{ending}": (int(getattr(np.iinfo(kind), ending.lower())), INT32 if _fits_int(dtype) else dtype)
        for name, kind in _INTEGERS.items()
        for dtype in (np.dtype(kind),)
        for ending in (("MAX", "MIN") if dtype.kind == "i" else ("MAX",))
    },
}  # fmt: skip
"""Those that C's headers name, and the words for the truth."""


class NumberError(Exception):
    """A literal is no number that a kernel can use; the message says why."""


def parse(text: str) -> tuple[float, DType]:
    """The value and the dtype of an integer or floating literal.

    Digits may be separated by ``'``. A float beyond the range is infinite.

    Raises:
        NumberError: It is neither, or does not fit the widest integer.
    """
    plain = text.replace("'", "") if text[0] in "0123456789." else text
    if match := _INTEGER.match(plain):
        return _integer(match["digits"].lower(), match["suffix"].lower())
    if match := _FLOAT.match(plain):
        return _float(text, match["digits"].lower(), match["suffix"].lower())
    raise NumberError(f"{text} is no number that a kernel can use; write an integer or a float")


def _float(text: str, digits: str, suffix: str) -> tuple[float, DType]:
    if suffix == "l":
        raise NumberError(f"{text}: long double exists on no GPU; drop the suffix")
    if suffix not in ("", "f"):
        raise NumberError(f"{text} has the suffix {suffix!r}, which no float of a kernel has; use f or none")
    try:
        value = float.fromhex(digits) if digits.startswith("0x") else float(digits)
    except OverflowError:
        value = math.inf
    except ValueError:
        raise NumberError(f"{text} is no number that a kernel can use; write an integer or a float") from None
    return value, FLOAT32 if suffix else FLOAT64


def _integer(digits: str, suffix: str) -> tuple[int, DType]:
    is_decimal = digits[0] != "0" or digits == "0"
    candidates = [INT64, UINT64] if "l" in suffix else [INT32, UINT32, INT64, UINT64]
    if "u" in suffix:
        candidates = [each for each in candidates if each.kind == "u"]
    elif is_decimal:
        candidates = [*(each for each in candidates if each.kind == "i"), UINT64]  # the last as NVCC and GCC do
    if len(digits) <= _MOST_DIGITS:
        value = int(digits, 10 if is_decimal else _BASES.get(digits[:2], 8))
        for dtype in candidates:
            if fits(value, dtype):
                return value, dtype
    shown = digits if len(digits) <= _MOST_DIGITS else f"{digits[:16]}..., of {len(digits)} digits,"
    raise NumberError(f"{shown} does not fit {candidates[-1]}; use a float or an unsigned suffix")
