"""The table of dtypes: NumPy's, the small floats of ml_dtypes, and storage that only moves; the dtype of each result.

A dtype is a ``numpy.dtype`` everywhere. Those of bfloat16 and float8 are ml_dtypes', which is imported where the first
them is met. A packed one is a record of one byte whose field has its name: NumPy refuses arithmetic of it, and no
package is needed. Elsewhere dtypes have the same names as strings.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xferlib._runtime.version import install_command
from xferlib.errors import UnsupportedDTypeError

DType = np.dtype[Any]

DTYPES: tuple[str, ...] = (
    "bool",
    "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
    "complex64", "complex128",
)  # fmt: skip
"""The dtypes that every backend holds, by NumPy name."""


class SmallFloat(NamedTuple):
    """A float of 16 or 8 bits that NumPy has not: a sign, an exponent, and ``fraction`` bits, from the highest on.

    A number that is too large for it becomes ``beyond``, where no finite number is nearer; NaN becomes ``nan``, of the
    same sign.
    """

    itemsize: int
    fraction: int
    bias: int
    most: int
    """The bits of the largest finite number."""
    beyond: int
    """Those of infinity, or of NaN in a format without."""
    nan: int
    is_unsigned_zero: bool
    """There is no -0: its bits are those of NaN."""
    dlpack: int
    """DLPack's number of the kind."""
    safetensors: str


SMALL_FLOATS: dict[str, SmallFloat] = {
    "bfloat16": SmallFloat(2, 7, 127, 0x7F7F, 0x7F80, 0x7FC0, False, 4, "BF16"),
    "float8_e4m3fn": SmallFloat(1, 3, 7, 0x7E, 0x7F, 0x7F, False, 10, "F8_E4M3"),
    "float8_e5m2": SmallFloat(1, 2, 15, 0x7B, 0x7C, 0x7E, False, 12, "F8_E5M2"),
    "float8_e4m3fnuz": SmallFloat(1, 3, 8, 0x7F, 0x80, 0x80, True, 11, "F8_E4M3FNUZ"),
    "float8_e5m2fnuz": SmallFloat(1, 2, 16, 0x7F, 0x80, 0x80, True, 13, "F8_E5M2FNUZ"),
}  # fmt: skip
"""Those with which kernels compute; the values are the same as ml_dtypes'."""


class StoredDType(NamedTuple):
    """A dtype that only moves: nothing converts it or computes with it."""

    is_packed: bool
    """Two numbers in a byte, the first in its low bits; a shape counts bytes. Others are ml_dtypes'."""
    dlpack: tuple[int, int, int]
    """DLPack's kind, the bits of a number, and how many numbers of these are in an element."""
    safetensors: str | None
    content: str
    """For messages: its numbers, and how to compute with them."""


_TWO_IN_A_BYTE = (
    "two numbers of 4 bits in a byte, which only moves; view it as 'uint8' and unpack it: x & 15 and x >> 4 are the "
    "bits of its numbers"
)
_POWERS_OF_2 = "powers of 2 that only move; view it as 'uint8', which has their exponents plus 127"
STORED: dict[str, StoredDType] = {
    "float8_e8m0fnu": StoredDType(False, (14, 8, 1), "F8_E8M0", _POWERS_OF_2),  # scales of blocks of numbers
    "float4_e2m1fn_x2": StoredDType(True, (17, 4, 2), "F4", _TWO_IN_A_BYTE),
    "int4_x2": StoredDType(True, (0, 4, 2), None, _TWO_IN_A_BYTE),
    "uint4_x2": StoredDType(True, (1, 4, 2), None, _TWO_IN_A_BYTE),
}
NAMES: tuple[str, ...] = (*DTYPES, *SMALL_FLOATS, *STORED)

SUPPORTED: set[DType] = {*map(np.dtype, DTYPES)}
"""The dtypes that move, in native byte order; those of ml_dtypes are among them once one of them has been met."""

_packed = {name: np.dtype([(name, np.uint8)]) for name, each in STORED.items() if each.is_packed}
_FOREIGN = [name for name in (*SMALL_FLOATS, *STORED) if name not in _packed]
_names = {dtype: name for name, dtype in _packed.items()}
"""The names of those that are none of NumPy's, as far as they have been met."""
SUPPORTED.update(_packed.values())


@functools.cache
def _ml_dtypes() -> dict[str, DType]:
    """The dtypes of ml_dtypes, which are known from now on.

    Raises:
        ImportError: It is not installed.
    """
    package = importlib.import_module("ml_dtypes")
    found = {name: np.dtype(getattr(package, name)) for name in _FOREIGN if hasattr(package, name)}
    _names.update({dtype: name for name, dtype in found.items()})
    SUPPORTED.update(found.values())
    for each in _listeners:
        each(found)
    return found


_listeners: list[Callable[[dict[str, DType]], None]] = []


def call_at_first(listener: Callable[[dict[str, DType]], None]) -> None:
    """Call a function, once, with ml_dtypes' dtypes by name: now or when the first of them is met."""
    _listeners.append(listener)
    if _ml_dtypes.cache_info().currsize:
        listener(_ml_dtypes())


def find(name: str, *, what: str = "dtype") -> DType | None:
    """The dtype of a name that NumPy has not; None of any other.

    Raises:
        UnsupportedDTypeError: It is one of ml_dtypes', which is not installed, or is too old.
    """
    if name in _packed:
        return _packed[name]
    if name not in _FOREIGN:
        return None
    try:
        return _ml_dtypes()[name]
    except (ImportError, KeyError) as error:
        raise UnsupportedDTypeError(
            f"{what}: arrays of {name} on the host are those of the package ml_dtypes, which is not installed or has "
            f"no such dtype: {install_command('dtypes')}"
        ) from error


def is_foreign(dtype: DType) -> bool:
    """Whether a dtype is one of another package's, and now known to be among those that move."""
    if dtype.isbuiltin != 2:  # a registered one
        return False
    try:
        _ml_dtypes()
    except ImportError:
        return False
    return dtype in SUPPORTED


def in_native_order(dtype: DType) -> DType:
    """The dtype in the byte order of this machine."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")  # StringDType has no order


def name_of(dtype: DType) -> str:
    """The name of a dtype, in either byte order."""
    return _names.get(dtype) or dtype.name


def is_numpys(dtype: DType) -> bool:
    """Whether a dtype that moves is one of NumPy's own."""
    return dtype not in _names


def small_float(dtype: DType) -> SmallFloat | None:
    """The form of a small float; None of any other dtype."""
    return SMALL_FLOATS.get(_names.get(dtype, ""))


def is_float8(dtype: DType) -> bool:
    """Whether a dtype is a float of a byte, to which conversions may saturate."""
    return dtype.itemsize == 1 and small_float(dtype) is not None


def refuse_saturation(dtype: DType) -> None:
    """Refuse a dtype to which no conversion with ``saturate=True`` is defined.

    Raises:
        UnsupportedDTypeError: It is none of float8.
    """
    if not is_float8(dtype):
        raise UnsupportedDTypeError(
            f"saturate=True with dtype={name_of(dtype)!r}, but it is for float8, of which the largest numbers are "
            "small; integers always saturate; leave it out, or use np.clip"
        )


def saturates_itself(dtype: DType) -> bool:
    """Whether a float8 has numbers that a conversion to itself with ``saturate=True`` changes: its infinities."""
    form = small_float(dtype)
    return form is not None and form.beyond != form.nan


def float_info(dtype: DType) -> Any:
    """``numpy.finfo``, or that of ml_dtypes, of a float or complex dtype."""
    return np.finfo(dtype) if is_numpys(dtype) else importlib.import_module("ml_dtypes").finfo(dtype)


class FloatLimits(NamedTuple):
    """The result of `finfo`: Python numbers, as the Array API demands; of the real part, for complex dtypes."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


def float_limits(dtype: np.dtype[Any]) -> FloatLimits:
    """The limits of a float dtype of NumPy's or ml_dtypes'."""
    info = float_info(dtype)
    eps, most, least, normal = (float(each) for each in (info.eps, info.max, info.min, info.smallest_normal))
    return FloatLimits(info.bits, eps, most, least, normal, dtype)


def ask_isdtype(dtype: Any, kind: Any, otherwise: Callable[[Any, Any], Any]) -> bool:
    """The Array API's ``isdtype`` of dtypes that NumPy has not; of others by a library's function."""
    if not isinstance(dtype, np.dtype) or not (is_foreign(dtype) or not is_numpys(dtype)):
        return bool(otherwise(dtype, kind))
    kinds = kind if isinstance(kind, tuple) else (kind,)
    of_floats = ("real floating", "numeric") if kind_of(dtype) == "f" else ()
    return any(each in of_floats if isinstance(each, str) else dtype == each for each in kinds)


def is_stored(dtype: DType) -> bool:
    """Whether a dtype only moves."""
    return _names.get(dtype, "") in STORED


def kind_of(dtype: DType) -> str:
    """``b``, ``i``, ``u``, ``f`` or ``c``, as ``dtype.kind``, arbitrary for ml_dtypes'; ``V`` of what is stored."""
    name = _names.get(dtype)
    return dtype.kind if name is None else "f" if name in SMALL_FLOATS else "V"


_NUMBERS = {name: number for number, name in enumerate((*DTYPES, *SMALL_FLOATS))}
_BYTES = _NUMBERS["uint8"]


def number_of(dtype: DType) -> int:
    """The number of a dtype in native byte order, for C; what is stored moves as bytes."""
    return _NUMBERS.get(name_of(dtype), _BYTES)


_DLPACK_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


def dlpack_type(dtype: DType) -> tuple[int, int, int]:
    """DLPack's kind of a dtype, its bits, and how many numbers of these are in an element."""
    name = name_of(dtype)
    if name in STORED:
        return STORED[name].dlpack
    if name in SMALL_FLOATS:
        return SMALL_FLOATS[name].dlpack, 8 * dtype.itemsize, 1
    return _DLPACK_KINDS[dtype.kind], 8 * dtype.itemsize, 1


@functools.cache
def of_dlpack(kind: int, bits: int, lanes: int) -> DType | None:
    """The dtype of DLPack's kind, bits and lanes; None where none moves.

    Raises:
        UnsupportedDTypeError: It is one of ml_dtypes', which is not installed.
    """
    for each in map(np.dtype, DTYPES):
        if dlpack_type(each) == (kind, bits, lanes):
            return each
    known = {(each.dlpack, 8 * each.itemsize, 1): name for name, each in SMALL_FLOATS.items()}
    known |= {each.dlpack: name for name, each in STORED.items()}
    name = known.get((kind, bits, lanes))
    return None if name is None else find(name, what="from_dlpack")


_FLOAT32 = np.dtype(np.float32)


def promote_small_floats(operands: tuple[DType | type, ...]) -> DType | tuple[DType | type, ...] | None:
    """The dtype of operands with small floats among them, for which NumPy has no rules; None if there are none.

    bfloat16 stays what it is beside bool, integers and Python's real numbers. Beside another float, and of float8
    always, a small float counts as float32: then the operands that NumPy is to promote.
    """
    kinds = [each for each in operands if isinstance(each, np.dtype) and small_float(each) is not None]
    if not kinds:
        return None
    others = [each for each in operands if each not in kinds]
    if (
        {*kinds} == {kinds[0]}
        and kinds[0].itemsize == 2
        and all(each.kind in "biu" if isinstance(each, np.dtype) else each is not complex for each in others)
    ):
        return kinds[0]
    return tuple([_FLOAT32 if each in kinds else each for each in operands])


def letter_of(dtype: DType) -> str | DType:
    """NumPy's letter, which tells long from long long, which are equal; of other packages' dtypes the dtype."""
    return dtype.char if is_numpys(dtype) else dtype


def typestr_of(dtype: DType) -> str:
    """The ``typestr`` of an array interface; others' `dtype.str` may be one that NumPy does not read."""
    return dtype.str if is_numpys(dtype) else f"|V{dtype.itemsize}"


def refuse_arithmetic(dtype: DType, what: str) -> None:
    """Refuse a dtype that only moves.

    Raises:
        UnsupportedDTypeError: It is one.
    """
    name = _names.get(dtype, "")
    if name in STORED:
        raise UnsupportedDTypeError(f"{what} is {name}, {STORED[name].content}")


# The dtype of every result: the rules of NumPy 2, which are those of the Array API and more.
#
# A dtype is one letter of `CODES`, and a rule is one letter for each of them: the result's dtype, or ``-`` where NumPy
# refuses the call. A function of two arrays applies its rule to the dtype that both promote to. Arrays without axes and
# NumPy's scalars promote as other arrays do. A Python scalar takes the dtype of the array beside it, unless its kind is
# higher.
#
# The rules are data, as NumPy 2.0 had other ones for rounding; tests hold them to the installed NumPy.

CODES = "?bhilBHILefdFD"
"""The letters of `DTYPES`, in the same order: NumPy's own, but `l` and `L` are 64 bits on every system."""

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
    """The dtype of arrays of these dtypes, and of Python scalars of these types, together."""
    if (small := promote_small_floats(operands)) is not None:
        return promote(*small) if isinstance(small, tuple) else small
    return np.result_type(*(each(0) if isinstance(each, type) else each for each in operands))


def sum_dtype(dtype: DType) -> DType:
    """The dtype in which floats of a dtype are summed: of those of 16 bits float32."""
    return np.dtype(np.float32) if dtype.itemsize == 2 and kind_of(dtype) == "f" else dtype


@functools.cache
def result(name: str, *operands: DType | type) -> DType:
    """The dtype of a function's result.

    Args:
        name: One of `RULES`.
        *operands: The dtypes of arrays and NumPy scalars, the types of Python scalars.

    Raises:
        UnsupportedDTypeError: NumPy has no such function of these, or one of them only moves.
    """
    for each in operands:
        if isinstance(each, np.dtype):
            refuse_arithmetic(each, f"{name}: an argument")
    rule, small = RULES[name], promote_small_floats(operands)
    if isinstance(small, tuple):
        return result(name, *small)
    if small is not None:  # as float32, which is rounded once
        code = rule[CODES.index("f")]
        if code == "f":
            return small
    elif name in PAIRED_BY_WIDTH and not any(isinstance(each, type) for each in operands):
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


# --- the Array API's names of what operators call

BINARY_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
UNARY_OPERATORS = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}
"""Functions by the names of Python's operators, without their underscores."""
