"""The numeric literals of C snippets: value and type."""

from __future__ import annotations

import math
import re

import numpy as np

from xferlib.kernels.ir.nodes import BOOL, FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, DType
from xferlib.kernels.ir.types import fits

_INTEGER = re.compile(r"(?P<digits>0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)(?P<suffix>[uUlL]*)\Z")
_FLOAT = re.compile(r"(?P<digits>(?:0[xX][0-9a-fA-F.]+[pP][+-]?[0-9]+)|[0-9.]+(?:[eE][+-]?[0-9]+)?)(?P<suffix>\w*)\Z")
_BASES = {"0x": 16, "0b": 2}
_MOST_DIGITS = 128  # no 64-bit number has more
NAMED: dict[str, tuple[float, DType]] = {
    "true": (True, BOOL), "false": (False, BOOL), "NAN": (math.nan, FLOAT32), "INFINITY": (math.inf, FLOAT32),
    "M_PI": (math.pi, FLOAT64), "CUDART_PI": (math.pi, FLOAT64),
    **{
        f"{name}_{ending}": (float(getattr(np.finfo(dtype), fact)), dtype)
        for name, dtype in (("FLT", FLOAT32), ("DBL", FLOAT64))
        for ending, fact in (("MAX", "max"), ("MIN", "tiny"), ("EPSILON", "eps"))
    },
    **{
        f"{name}_{ending}": (getattr(np.iinfo(dtype), ending.lower()), dtype)
        for name, dtype in (("INT", INT32), ("UINT", UINT32), ("LLONG", INT64), ("ULLONG", UINT64))
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
