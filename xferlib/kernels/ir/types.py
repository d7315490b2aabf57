"""Dtypes of results: NumPy 2 promotion for traced functions, C's conversions for snippets."""

from __future__ import annotations

from typing import Any

import numpy as np

from xferlib.errors import KernelTypeError
from xferlib.kernels.ir.functions import Function, accepts
from xferlib.kernels.ir.nodes import (
    BOOL,
    COMPLEX64,
    COMPLEX128,
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
    DType,
    is_complex,
    is_float,
    part_dtype,
)

PYTHON_TYPES: dict[type, DType] = {bool: BOOL, int: INT64, float: FLOAT64, complex: COMPLEX128}
"""The dtype of a Python scalar as a parameter, and of a result whose operands are Python scalars alone."""


def numpy_loop(function: Function, operands: tuple[DType | type, ...]) -> tuple[DType, ...]:
    """The dtypes to which NumPy converts the operands of ``function``.

    Args:
        function: The function.
        operands: A dtype each, or ``int``, ``float`` or ``complex`` for a Python scalar.

    Raises:
        KernelTypeError: NumPy defines no such operation, or the library offers none on the dtype.
    """
    ufunc = function.promotion()
    if ufunc is None or ufunc.nin != len(operands):
        common = numpy_common(operands)
        loop: tuple[DType, ...] = tuple(common for _ in operands)
    else:
        try:
            resolved: tuple[Any, ...] = ufunc.resolve_dtypes((*operands, *[None] * ufunc.nout))
        except TypeError as error:
            raise KernelTypeError(_no_operation(function, operands)) from error
        loop = tuple(np.dtype(each) for each in resolved[: ufunc.nin])
    if not all(accepts(function, each) for each in loop):
        raise KernelTypeError(_no_operation(function, operands))
    return loop


def numpy_common(operands: tuple[DType | type, ...]) -> DType:
    """The dtype that NumPy gives to ``where`` of the operands."""
    strong = [each for each in operands if isinstance(each, np.dtype)]
    weak = [each for each in operands if not isinstance(each, np.dtype)]
    if not strong:
        return np.result_type(*(PYTHON_TYPES[each] for each in weak))
    return np.result_type(*strong, *(each(0) for each in weak))


def _no_operation(function: Function, operands: tuple[DType | type, ...]) -> str:
    names = ", ".join(each.__name__ if isinstance(each, type) else str(each) for each in operands)
    return f"{function.name}({names}) is not defined: it takes {_kind_names(function.kinds)}; convert with astype(...)"


def _kind_names(kinds: str) -> str:
    names = {"b": "bool", "i": "integers", "f": "floats", "c": "complex"}
    return ", ".join(name for kind, name in names.items() if kind in kinds)


# --- C

C_TYPES: dict[str, DType] = {
    "bool": BOOL, "_Bool": BOOL, "char": INT8, "signed char": INT8, "unsigned char": UINT8,
    "short": INT16, "unsigned short": UINT16, "int": INT32, "unsigned int": UINT32, "unsigned": UINT32,
    "long": INT64, "unsigned long": UINT64, "long long": INT64, "unsigned long long": UINT64,
    "float": FLOAT32, "double": FLOAT64, "half": FLOAT16, "__half": FLOAT16,
    "int8": INT8, "int16": INT16, "int32": INT32, "int64": INT64,
    "uint8": UINT8, "uint16": UINT16, "uint32": UINT32, "uint64": UINT64,
    "int8_t": INT8, "int16_t": INT16, "int32_t": INT32, "int64_t": INT64,
    "uint8_t": UINT8, "uint16_t": UINT16, "uint32_t": UINT32, "uint64_t": UINT64,
    "float16": FLOAT16, "float32": FLOAT32, "float64": FLOAT64, "complex64": COMPLEX64, "complex128": COMPLEX128,
    "size_t": UINT64, "ssize_t": INT64, "ptrdiff_t": INT64, "intp": INT64, "uintp": UINT64,
    "ushort": UINT16, "uint": UINT32, "ulong": UINT64, "longlong": INT64, "ulonglong": UINT64,
}  # fmt: skip
"""Every type name of a signature or snippet: C's on a 64-bit CUDA platform, NumPy's, and <stdint.h>'s."""

VECTOR_PARTS: dict[str, DType] = {"uchar": UINT8} | {
    name: C_TYPES[name]
    for name in (
        "char", "short", "ushort", "int", "uint", "long", "ulong", "longlong", "ulonglong", "float", "double",
    )
}  # fmt: skip
"""The numbers of CUDA's vector types, by the name without the count."""

_SMALL = frozenset({BOOL, INT8, UINT8, INT16, UINT16})


def c_promoted(dtype: DType) -> DType:
    """C's integer promotions: a type narrower than int becomes int."""
    return INT32 if dtype in _SMALL else dtype


def c_common(x: DType, y: DType) -> DType:
    """C's usual arithmetic conversions; half ranks below float, complex above its parts."""
    if is_complex(x) or is_complex(y):
        part = c_common(_part(x, y), _part(y, x))
        return COMPLEX128 if part == FLOAT64 else COMPLEX64
    if is_float(x) or is_float(y):
        floats = [each for each in (x, y) if is_float(each)]
        return max(floats, key=lambda each: each.itemsize)
    x, y = c_promoted(x), c_promoted(y)
    if x.kind == y.kind:
        return x if x.itemsize >= y.itemsize else y
    unsigned, signed = (x, y) if x.kind == "u" else (y, x)
    return unsigned if unsigned.itemsize >= signed.itemsize else signed


def _part(x: DType, other: DType) -> DType:
    """The real dtype that ``x`` contributes to a complex operation; an integer takes the other's."""
    if is_complex(x):
        return part_dtype(x)
    return x if is_float(x) and x != FLOAT16 else (part_dtype(other) if is_complex(other) else x)


def c_float(dtype: DType) -> DType:
    """The dtype in which a mathematical function of C++ takes its operand: an integer becomes double."""
    return dtype if is_float(dtype) or is_complex(dtype) else FLOAT64


def fits(value: int, dtype: DType) -> bool:
    """Whether a Python int is in the range of an integer dtype."""
    if dtype == BOOL:
        return value in (0, 1)
    info = np.iinfo(dtype)
    return int(info.min) <= value <= int(info.max)
