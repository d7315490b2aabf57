"""The functions that a C snippet may call, by their C and CUDA names, and the numbers that it may write.

Functions of numbers alone stand here, each as a formula of the representation; `calls` has those of a preamble, and
the ones that write behind pointers.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Collection, Mapping, Sized
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import numpy as np

from xferlib._core.dtypes import float_info, small_float
from xferlib.errors import KernelTypeError, did_you_mean
from xferlib.kernels import formulas
from xferlib.kernels.functions import C_TYPES, CALLS, TABLE, c_common, c_float, fits, promote_c
from xferlib.kernels.functions import find as find_function
from xferlib.kernels.ir import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    Builder,
    DType,
    Node,
    is_complex,
    is_float,
)

# --- numbers

_INTEGER = re.compile(
    r"(?P<digits>0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)(?P<suffix>[uU]?(?:ll?|LL?)?|(?:ll?|LL?)[uU])\Z"
)
_FLOAT = re.compile(r"(?P<digits>(?:0[xX][0-9a-fA-F.]+[pP][+-]?[0-9]+)|[0-9.]+(?:[eE][+-]?[0-9]+)?)(?P<suffix>\w*)\Z")
_BASES = {"0x": 16, "0b": 2}
_MOST_DIGITS = 128  # no 64-bit number has more


class NumberError(Exception):
    """A literal is not a number that a kernel can use; the message says why."""


def number(text: str) -> tuple[float, DType]:
    """The value and the dtype of an integer or floating literal.

    Digits may be separated by ``'``. A float beyond the range is infinite.

    Raises:
        NumberError: It is neither, or does not fit the widest integer.
    """
    if text[0] == "'":
        return _character(text), INT8
    plain = text.replace("'", "") if text[0] in "0123456789." else text
    if match := _INTEGER.match(plain):
        return _integer(match["digits"].lower(), match["suffix"].lower())
    if (match := _FLOAT.match(plain)) and re.search(r"[.eE]|0[xX]", match["digits"]):
        return _float(text, match["digits"].lower(), match["suffix"].lower())
    raise NumberError(f"{text} is not a number that a kernel can use; write an integer or a float")


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
        raise NumberError(f"{text} is not a number that a kernel can use; write an integer or a float") from None
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


_ESCAPES = {"n": 10, "t": 9, "r": 13, "v": 11, "f": 12, "a": 7, "b": 8, "\\": 92, "'": 39, '"': 34, "?": 63}


def _character(text: str) -> int:
    inner = text[1:-1]
    value = -1
    if len(inner) == 1:
        value = ord(inner)
    elif re.fullmatch(r"\\[0-7]{1,3}", inner):
        value = int(inner[1:], 8)
    elif re.fullmatch(r"\\x[0-9a-fA-F]{1,2}", inner):
        value = int(f"0{inner[1:]}", 0)
    elif len(inner) == 2 and inner[0] == "\\" and inner[1] in _ESCAPES:
        value = _ESCAPES[inner[1]]
    if not 0 <= value < 256:
        raise NumberError(f"{text} is not a character of C; write its number")
    return value - 256 * (value > 127)


# --- the numbers of headers


def _limits() -> dict[str, tuple[Any, DType]]:
    found: dict[str, tuple[Any, DType]] = {}
    for prefix, dtype in (("FLT", FLOAT32), ("DBL", FLOAT64)):
        info: Any = np.finfo(dtype)
        digits = info.nmant + 1
        floats = {"MAX": info.max, "MIN": info.tiny, "EPSILON": info.eps, "TRUE_MIN": info.smallest_subnormal,
                  "NORM_MAX": info.max}  # fmt: skip
        found |= {f"{prefix}_{name}": (value, dtype) for name, value in floats.items()}
        numbers = {
            "DIG": info.precision, "MANT_DIG": digits, "MAX_EXP": info.maxexp, "MIN_EXP": info.minexp + 1,
            "MAX_10_EXP": int(math.log10(float(info.max))),
            "MIN_10_EXP": -int(-math.log10(float(info.tiny))), "DECIMAL_DIG": 9 if dtype == FLOAT32 else 17,
            "HAS_SUBNORM": 1,
        }  # fmt: skip
        found |= {f"{prefix}_{name}": (value, INT32) for name, value in numbers.items()}
    found |= {"FLT_RADIX": (2, INT32), "FLT_ROUNDS": (1, INT32), "FLT_EVAL_METHOD": (0, INT32)}
    integers = {
        "CHAR": INT8, "SCHAR": INT8, "UCHAR": UINT8, "SHRT": INT16, "USHRT": UINT16, "INT": INT32, "UINT": UINT32,
        "LONG": INT64, "ULONG": UINT64, "LLONG": INT64, "ULLONG": UINT64, "INTPTR": INT64, "UINTPTR": UINT64,
        "INTMAX": INT64, "UINTMAX": UINT64, "PTRDIFF": INT64, "SIZE": UINT64, "SIG_ATOMIC": INT32, "WCHAR": INT32,
        "WINT": UINT32,
    }  # fmt: skip
    for sign in ("INT", "UINT"):
        for bits in (8, 16, 32, 64):
            exact = C_TYPES[f"{sign.lower()}{bits}"]
            fast = C_TYPES[f"{sign.lower()}64"] if bits in (16, 32) else exact  # as on 64-bit Linux
            integers |= {f"{sign}{bits}": exact, f"{sign}_LEAST{bits}": exact, f"{sign}_FAST{bits}": fast}
    for name, held in integers.items():
        info = np.iinfo(held)
        found[f"{name}_MAX"] = (int(info.max), promote_c(held))
        if held.kind == "i" or name == "WINT":
            found[f"{name}_MIN"] = (int(info.min), promote_c(held))
    found["CHAR_BIT"] = (8, INT32)
    found["MB_LEN_MAX"] = (16, INT32)
    return found


def _numbers() -> dict[str, tuple[Any, DType]]:
    pi, e = math.pi, math.e
    named = {
        "E": e, "LOG2E": 1.4426950408889634, "LOG10E": 0.4342944819032518, "LN2": 0.6931471805599453,
        "LN10": 2.302585092994046, "PI": pi, "PI_2": pi / 2, "PI_4": pi / 4, "1_PI": 0.3183098861837907,
        "2_PI": 0.6366197723675814, "2_SQRTPI": 1.1283791670955126, "SQRT2": 1.4142135623730951,
        "SQRT1_2": 0.7071067811865476,
    }  # fmt: skip
    found: dict[str, tuple[Any, DType]] = {f"M_{name}": (value, FLOAT64) for name, value in named.items()}
    cudas = {
        "INF": math.inf, "NAN": math.nan, "PI": pi, "PIO2": pi / 2, "PIO4": pi / 4, "L2E": named["LOG2E"],
        "L2T": 3.3219280948873623, "LG2": 0.3010299956639812, "LN2": named["LN2"], "LNT": named["LN10"], "ONE": 1.0,
        "ZERO": 0.0, "2_OVER_PI": named["2_PI"], "SQRT_TWO": named["SQRT2"], "SQRT_HALF": named["SQRT1_2"],
    }  # fmt: skip
    for name, value in cudas.items():
        found[f"CUDART_{name}"] = (value, FLOAT64)
        found[f"CUDART_{name}_F"] = (np.float32(value), FLOAT32)
    found |= {
        "NAN": (math.nan, FLOAT32), "INFINITY": (math.inf, FLOAT32), "HUGE_VALF": (math.inf, FLOAT32),
        "HUGE_VAL": (math.inf, FLOAT64), "true": (True, BOOL), "false": (False, BOOL),
    }  # fmt: skip
    return found


NAMED: Mapping[str, tuple[Any, DType]] = MappingProxyType({**_limits(), **_numbers()})
"""The numbers that C's headers name, and the words for the truth: constants of the outermost scope."""


# --- functions whose second result goes behind a pointer

Parts = tuple[Node, Node]


class Split(NamedTuple):
    """A function whose second result goes behind a pointer."""

    operands: int
    """Of the floats that it takes."""
    make: Callable[..., Parts]
    second: np.dtype[np.int32] | None
    """The dtype behind the pointer; None: that of the first result."""


def _turns(b: Builder, x: Node) -> Parts:
    return TABLE["sin"].lowering(b, x), TABLE["cos"].lowering(b, x)


def _half_turns(b: Builder, x: Node) -> Parts:
    return formulas.lower(b, "sinpi", x), formulas.lower(b, "cospi", x)


SPLITS = {
    "frexp": Split(1, formulas.frexp, INT32),
    "modf": Split(1, formulas.modf, None),
    "remquo": Split(2, formulas.remquo, INT32),
}
"""The functions whose result is one of the parts, the other one going behind the last argument."""

PAIRS = {"sincos": _turns, "sincospi": _half_turns}
"""The functions that give both parts behind pointers."""


# --- functions of numbers

FailAs = Callable[[str, type[Exception] | None], NoReturn]

_SHORT = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh",
          "arctanh": "atanh", "arctan2": "atan2", "power": "pow"}  # fmt: skip

FLOAT_FUNCTIONS: dict[str, str] = {
    **{_SHORT.get(name, name): name for name in CALLS},
    **{_SHORT.get(name, name): name for name in ("power", "arctan2", "hypot", "fmod", "copysign", "nextafter", "sqrt")},
    "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "nearbyint": "rint", "fma": "fma",
    "fmin": "fmin", "fmax": "fmax", "fabs": "absolute",
}  # fmt: skip
"""C name to table name; a name with a final ``f`` converts its operands to float."""


Convert = Callable[[Builder, list[Node], DType | None], list[Node]]
"""Converts operands; the dtype is float for the form of a function whose name ends with ``f``."""


class CFunction(NamedTuple):
    """A function of C: the conversion of its operands, and the formula."""

    arity: int
    convert: Convert
    make: Callable[..., Node]
    kinds: str
    """Those of its first operand."""
    has_single: bool = False
    """Whether there is a form for float, by the name with a final ``f``."""
    remedy: str = "cast the operand"


def _convert_floats(b: Builder, args: list[Node], dtype: DType | None) -> list[Node]:
    """The operands in C++'s common floating type: an integer counts as double."""
    if dtype is None:
        dtype = functools.reduce(c_common, (c_float(each.dtype) for each in args))
    return [b.cast(each, dtype) for each in args]


def _convert_to_common(b: Builder, args: list[Node], _: DType | None) -> list[Node]:
    dtype = functools.reduce(c_common, (each.dtype for each in args))
    return [b.cast(each, dtype) for each in args]


def _convert_exponent(kind: DType) -> Convert:
    """A float and an integer exponent, which C converts to the declared type."""

    def convert(b: Builder, args: list[Node], dtype: DType | None) -> list[Node]:
        exponent = args[1] if args[1].dtype.kind in "iuc" else b.cast(args[1], kind)
        return [*_convert_floats(b, args[:1], dtype), exponent]

    return convert


def _convert_to(target: Callable[[DType], DType]) -> Convert:
    return lambda b, args, _: [b.cast(each, target(each.dtype)) for each in args]


def _of_table(name: str, convert: Convert, *, has_single: bool = False) -> CFunction:
    entry = TABLE[name]
    return CFunction(entry.arity, convert, entry.lowering, entry.kinds, has_single)


def _of_floats(arity: int, make: Callable[..., Node]) -> CFunction:
    """A function of floats alone: an integer counts as double, which has not all of 64 bits."""
    return CFunction(arity, _convert_floats, make, "f", has_single=True)


def _special(name: str) -> Callable[..., Node]:
    return lambda b, x: formulas.lower(b, name, x)


def _saturate(b: Builder, x: Node) -> Node:
    """CUDA's ``saturate``: the number between 0 and 1; 0 of NaN."""
    zero, one = b.const(0, x.dtype), b.const(1, x.dtype)
    return formulas.fmin(b, formulas.fmax(b, x, zero), one)


def _polar(b: Builder, size: Node, angle: Node) -> Node:
    """The complex number ``size * cos(angle) + i size * sin(angle)``."""
    return b.complex(b.op("mul", size, b.call("cos", angle)), b.op("mul", size, b.call("sin", angle)))


def _norm(b: Builder, x: Node) -> Node:
    return b.op("add", *(b.op("mul", part, part) for part in (b.real(x), b.imag(x))))


def _nearest(b: Builder, x: Node) -> Node:
    return b.cast(b.op("rint", x), INT64)


def _round_to_int64(b: Builder, x: Node) -> Node:
    return b.cast(formulas.round_half_away(b, x), INT64)


_rlength = formulas.inverse(formulas.length)
_as_is = _convert_to(lambda dtype: dtype)
_as_c_float = _convert_to(c_float)
_as_int64 = _convert_to(lambda _: INT64)

_FUNCTIONS: dict[str, CFunction] = {
    **{name: _of_table(entry, _convert_floats, has_single=True) for name, entry in FLOAT_FUNCTIONS.items()},
    **{name: _of_table(name, _convert_floats) for name in ("isnan", "isinf", "isfinite", "signbit")},
    **{name: _of_table(name, _as_c_float) for name in ("real", "imag", "conj")},
    **{name: _of_table("absolute", _as_int64) for name in ("labs", "llabs")},
    **{
        name: _of_table(entry, _convert_to_common)
        for name, entry in {"min": "fmin", "max": "fmax", "minimum": "minimum", "maximum": "maximum"}.items()
    },
    **{name: _of_floats(1, _special(name)) for name in formulas.SPECIAL_FORMULAS},
    **{
        name: _of_floats(arity, make)
        for name, arity, make in (
            ("fdim", 2, formulas.fdim), ("remainder", 2, lambda b, x, y: formulas.remquo(b, x, y)[0]),
            ("logb", 1, formulas.logb), ("ilogb", 1, formulas.ilogb), ("lrint", 1, _nearest), ("llrint", 1, _nearest),
            ("lround", 1, _round_to_int64), ("llround", 1, _round_to_int64), ("rhypot", 2, _rlength),
            ("norm3d", 3, formulas.length), ("norm4d", 4, formulas.length), ("rnorm3d", 3, _rlength),
            ("rnorm4d", 4, _rlength), ("round", 1, formulas.round_half_away), ("__saturate", 1, _saturate),
        )
    },
    **{
        name: CFunction(2, _convert_exponent(kind), formulas.ldexp, "f", has_single=True)
        for name, kind in (("ldexp", INT32), ("scalbn", INT32), ("scalbln", INT64))
    },
    "abs": _of_table("absolute", _convert_to(promote_c)),
    "polar": CFunction(2, _convert_floats, _polar, "f", remedy="cast the operands to float or double"),
    "norm": CFunction(1, _as_is, _norm, "c", remedy="it takes complex numbers"),
    "arg": CFunction(
        1, _as_is, lambda b, x: TABLE["arctan2"].lowering(b, b.imag(x), b.real(x)), "c",
        remedy="it takes complex numbers",
    ),
}  # fmt: skip
"""The functions of C and C++."""
_OF_BITS = {name: CFunction(1, _as_is, make, formulas.TAKES[name]) for name, make in formulas.FUNCTIONS.items()}
_INTRINSICS = {f"__{name}f": f"{name}f" for name in ("exp", "log", "log2", "log10", "sin", "cos", "tan", "pow")}
"""CUDA's approximate functions of float, each by its accurate name: the same bits everywhere leave no room for them."""


def call(b: Builder, name: str, args: list[Node], fail: FailAs) -> Node:
    """Emit a call of C function ``name``; ``fail`` reports an unknown name, arity or dtype."""
    own = _INTRINSICS.get(name, name)
    found = _OF_BITS.get(own) or _FUNCTIONS.get(own)
    is_single = found is None
    if found is None:
        found = _FUNCTIONS.get(own.removesuffix("f"))
        if found is None or not found.has_single:
            fail(f"unknown function {name!r}{_suggest(name)}", None)
    check_arity(name, args, found.arity, fail)
    operands = found.convert(b, args, FLOAT32 if is_single else None)
    first = operands[0].dtype
    if small_float(first) is not None:  # in float32, and rounded once
        operands = [b.cast(each, FLOAT32) if each.dtype == first else each for each in operands]
    if operands[0].dtype.kind not in found.kinds or (found.make is _polar and first == FLOAT16):
        fail(f"{name}() is not defined for {first}; {found.remedy}", KernelTypeError)
    if is_complex(operands[-1].dtype) and found.make is formulas.ldexp:
        fail(f"{name}() needs an integer exponent, and {operands[-1].dtype} is given; cast it", KernelTypeError)
    result = found.make(b, *operands)
    return b.cast(result, first) if small_float(first) is not None and result.dtype == FLOAT32 else result


def _suggest(name: str) -> str:
    """The end of the message for a name that C has not; NumPy's name of a function may be meant."""
    known = sorted({*_FUNCTIONS, *SPLITS, *PAIRS})
    meant = find_function(name)
    if meant is None:
        return did_you_mean(name, known) or f"; known are {', '.join(known)}"
    own = [each for each, function in _FUNCTIONS.items() if function.make is meant.lowering]
    if own:
        return f" (did you mean {own[0]!r}?)"
    return ", which Python kernels alone know; write it by C's operators and functions"


def find_name(name: str, names: Collection[str]) -> str | None:
    """The name among ``names`` of a function or of its form for float, which ends with ``f``; None if there is none."""
    short = name.removesuffix("f")
    return name if name in names else short if short in names else None


def check_arity(name: str, args: Sized, count: int, fail: FailAs) -> None:
    """Refuse a call of a function of ``count`` arguments with more or fewer."""
    if len(args) != count:
        fail(f"{name}() takes {count} argument(s), {len(args)} were given", KernelTypeError)


def real_operands(b: Builder, name: str, args: list[Node], is_single: bool, fail: FailAs) -> list[Node]:
    """The operands of a function of real floats, in their common type."""
    operands = _convert_floats(b, args, FLOAT32 if is_single else None)
    if is_complex(operands[0].dtype):
        fail(f"{name}() is not defined for {operands[0].dtype}; cast the operand", KernelTypeError)
    return operands


_FLOAT_LIMITS = {
    "max": "max", "lowest": "min", "min": "tiny", "epsilon": "eps", "denorm_min": "smallest_subnormal",
    "infinity": np.inf, "quiet_NaN": np.nan, "signaling_NaN": np.nan,
}  # fmt: skip
"""The members of ``numeric_limits`` of floats, by their names in `numpy.finfo`, or their values."""


def limit(b: Builder, name: str, dtype: DType, fail: FailAs) -> Node:
    """``numeric_limits<T>::max()`` and its like."""
    if is_float(dtype) and name in _FLOAT_LIMITS:
        found = _FLOAT_LIMITS[name]
        return b.const(getattr(float_info(dtype), found) if isinstance(found, str) else found, dtype)
    if dtype.kind in "iu" and name in ("max", "min", "lowest"):
        limits = np.iinfo(dtype)
        return b.const(limits.max if name == "max" else limits.min, dtype)
    if dtype.kind == "b" and name in ("max", "min", "lowest"):
        return b.const(name == "max", dtype)
    return fail(f"numeric_limits of {dtype} have no {name}(); write the number", None)
