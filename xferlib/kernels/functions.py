"""The machine-readable table of the functions that kernels may call, and the guarantee of each.

`TABLE` maps a name to its `Function`. `guarantee(name, dtype)` says how near the result is to the
exact one, and whether its bits are the same on every backend. The reference page is made from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from xferlib.errors import KernelTypeError
from xferlib.kernels import complex_formulas, formulas
from xferlib.kernels.formulas import Lowering, by_kind, call, call_wide, core, logical
from xferlib.kernels.ir import (
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

# The published error bounds: the largest distance of a result from the exact one, in units in the last place.
#
# A float64 function is the platform's: CUDA's on a GPU, NumPy's on a CPU, where the code path depends on the
# instruction set, the NumPy version and the layout of the operands. No library states a bound for all of these, so a
# table copied from one documentation would be wrong elsewhere. Each bound here covers every platform: it is at least
# what NVIDIA documents (CUDA C++ Programming Guide, Mathematical Functions), and what was measured on each code path
# of NumPy. Measurement finds a lower limit of the worst error only, so every bound leaves a margin to the figures in
# ``tools/kernel_ulps.json``, which ``tools/kernel_ulp.py`` makes. The bounds of complex functions follow from the
# formulas, and were measured alike.

FLOAT64_ULP: dict[str, float] = {
    "exp": 1, "exp2": 1, "expm1": 1.5, "log": 1, "log2": 1.5, "log10": 2, "log1p": 2, "sin": 2, "cos": 2, "tan": 2.5,
    "arcsin": 2, "arccos": 2, "arctan": 2, "sinh": 2.5, "cosh": 2.5, "tanh": 3, "arcsinh": 3, "arccosh": 3,
    "arctanh": 2.5, "cbrt": 0.67, "rsqrt": 0.86,
}  # fmt: skip
"""Bounds of functions of one float64, in ulp."""

FLOAT64_PAIRS: dict[str, float] = {"power": 2, "arctan2": 2, "hypot": 2, "logaddexp": math.inf}
"""Bounds of functions of two; ``logaddexp`` has none, because its sum may cancel."""

COMPLEX: dict[str, tuple[float, float]] = {
    "divide": (1, 4), "reciprocal": (1, 4), "sqrt": (1, 3), "sign": (1, 4), "exp": (2.5, 4), "expm1": (3, 6),
    **dict.fromkeys(("log", "log1p", "log2", "log10"), (1.5, 6)),
    **dict.fromkeys(("sin", "cos", "sinh", "cosh"), (2.5, 6)),
    "tan": (3, 10), "tanh": (3, 10),
    **dict.fromkeys(("arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"), (1.5, 8)),
}  # fmt: skip
"""Bounds for complex64 and complex128: distances in the plane, in ulp of the exact absolute value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """How exact a result is.

    ``bound_ulp`` is the largest distance from the exact result in units in the last place: 0.5 is
    correct rounding, 0 an exact result by definition, None a fixed sequence of such operations.
    """

    bound_ulp: float | None
    is_identical: bool
    """The same bits on every backend (any NaN counts as equal to any NaN)."""

    def __str__(self) -> str:
        where = "identical" if self.is_identical else "not identical"
        if self.bound_ulp is None:
            return f"fixed formula, {where}"
        if self.bound_ulp == 0:
            return f"exact, {where}"
        if self.bound_ulp == 0.5:
            return f"correctly rounded, {where}"
        return f"{self.bound_ulp:g} ulp, {where}"


EXACT = Guarantee(bound_ulp=0, is_identical=True)
ROUNDED = Guarantee(bound_ulp=0.5, is_identical=True)
FORMULA = Guarantee(bound_ulp=None, is_identical=True)
LOOSE = Guarantee(bound_ulp=None, is_identical=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function.

    ``kinds`` are the NumPy kinds of operand it takes (``u`` goes with ``i``); ``ufunc`` is the NumPy ufunc
    whose promotion it follows; ``ulp64`` bounds the float64 result of a mathematical function: infinite, nothing does.
    """

    name: str
    arity: int
    kinds: str
    lowering: Lowering
    ufunc: str | None = None
    guarantee: Guarantee = EXACT
    ulp64: float | None = None

    def promotion(self) -> np.ufunc | None:
        """The NumPy ufunc that decides the dtypes."""
        found: Any = getattr(np, self.ufunc or self.name, None)
        return found if isinstance(found, np.ufunc) else None


TABLE: dict[str, Function] = {}

ALIASES = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin",
    "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "pow": "power",
    "bitwise_invert": "invert", "bitwise_not": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "mod": "remainder", "true_divide": "divide", "round": "rint",
    "conjugate": "conj",
}  # fmt: skip
"""Array-API and other usual names of functions in the table."""


def _add(name: str, arity: int, kinds: str, lowering: Lowering, **options: Any) -> None:
    TABLE[name] = Function(name=name, arity=arity, kinds=kinds, lowering=lowering, **options)


def _define_arithmetic() -> None:
    for name, op, logic in (("add", "add", "or"), ("subtract", "sub", ""), ("multiply", "mul", "and")):
        product = complex_formulas.complex_multiply if op == "mul" else complex_formulas.each_part(op)
        kinds = "biufc" if logic else "iufc"
        _add(name, 2, kinds, by_kind(b=core(logic or "and"), i=core(op), f=core(op), c=product), guarantee=ROUNDED)
    _add("divide", 2, "fc", by_kind(f=core("div"), c=complex_formulas.divide), guarantee=ROUNDED)
    _add("floor_divide", 2, "iuf", by_kind(i=core("floordiv"), f=formulas.floor_divide), guarantee=FORMULA)
    _add("remainder", 2, "iuf", by_kind(i=core("floormod"), f=formulas.remainder), guarantee=FORMULA)
    _add("fmod", 2, "iuf", by_kind(i=core("imod"), f=core("fmod")))
    _add("negative", 1, "iufc", by_kind(i=core("neg"), f=core("neg"), c=complex_formulas.each_part("neg")))
    _add("positive", 1, "iufc", formulas.identity)
    real_size = formulas.absolute
    magnitude = by_kind(b=formulas.identity, i=real_size, f=real_size, c=complex_formulas.complex_absolute)
    _add("absolute", 1, "biufc", magnitude)
    _add("fabs", 1, "f", real_size)
    reciprocals = by_kind(i=formulas.reciprocal, f=formulas.reciprocal, c=complex_formulas.complex_reciprocal)
    _add("reciprocal", 1, "iufc", reciprocals, guarantee=ROUNDED)
    squares = by_kind(i=formulas.square, f=formulas.square, c=complex_formulas.complex_square)
    _add("square", 1, "iufc", squares, guarantee=ROUNDED)
    roots = by_kind(f=core("sqrt"), c=complex_formulas.lowering("sqrt"))
    _add("sqrt", 1, "fc", roots, guarantee=ROUNDED)
    _add("fma", 3, "f", core("fma"), guarantee=ROUNDED)


def _define_selection() -> None:
    minimum = by_kind(b=core("and"), i=core("min"), f=core("min"))
    maximum = by_kind(b=core("or"), i=core("max"), f=core("max"))
    _add("minimum", 2, "biuf", minimum)
    _add("maximum", 2, "biuf", maximum)
    _add("fmin", 2, "biuf", by_kind(b=core("and"), i=core("min"), f=formulas.fmin))
    _add("fmax", 2, "biuf", by_kind(b=core("or"), i=core("max"), f=formulas.fmax))
    _add("sign", 1, "iufc", by_kind(i=formulas.sign, f=formulas.sign, c=complex_formulas.lowering("sign")))
    _add("copysign", 2, "f", formulas.copysign)
    _add("nextafter", 2, "f", formulas.nextafter)
    for name, op in (("floor", "floor"), ("ceil", "ceil"), ("trunc", "trunc"), ("rint", "rint")):
        kinds = "biufc" if op == "rint" else "biuf"
        parts = complex_formulas.each_part(op)
        _add(name, 1, kinds, by_kind(b=formulas.identity, i=formulas.identity, f=core(op), c=parts))
    _add("conj", 1, "iufc", complex_formulas.conjugate)
    _add("real", 1, "biufc", complex_formulas.real)
    _add("imag", 1, "biufc", complex_formulas.imag)


def _define_predicates() -> None:
    comparisons = (("equal", "eq"), ("not_equal", "ne"), ("less", "lt"), ("less_equal", "le"),
                   ("greater", "gt"), ("greater_equal", "ge"))  # fmt: skip
    complex_equality = {"eq": complex_formulas.complex_equal, "ne": complex_formulas.complex_not_equal}
    for name, op in comparisons:
        each = {"b": core(op), "i": core(op), "f": core(op)}
        if op in complex_equality:
            each["c"] = complex_equality[op]
        _add(name, 2, "biuf" + "c" * ("c" in each), by_kind(**each))
    for name, lowering, value, join in (
        ("isnan", formulas.isnan, False, "or"),
        ("isinf", formulas.isinf, False, "or"),
        ("isfinite", formulas.isfinite, True, "and"),
    ):
        constant = formulas.always(value)
        _add(name, 1, "biufc", by_kind(b=constant, i=constant, f=lowering, c=complex_formulas.any_part(lowering, join)))
    _add("signbit", 1, "f", formulas.signbit)
    for name, op in (("logical_and", "and"), ("logical_or", "or"), ("logical_xor", "xor"), ("logical_not", "not")):
        _add(name, 1 if op == "not" else 2, "biufc", logical(op))


def _define_bits() -> None:
    for name, op in (("bitwise_and", "and"), ("bitwise_or", "or"), ("bitwise_xor", "xor")):
        _add(name, 2, "biu", core(op))
    _add("invert", 1, "biu", core("not"))
    _add("left_shift", 2, "iu", core("shl"))
    _add("right_shift", 2, "iu", core("shr"))


def _define_functions() -> None:
    for name, ulp in FLOAT64_ULP.items():
        kinds = "fc" if name in complex_formulas.FORMULAS else "f"
        _add(name, 1, kinds, call(name), guarantee=ROUNDED, ulp64=ulp, ufunc="sqrt" if name == "rsqrt" else None)
    near = Guarantee(bound_ulp=0.5001, is_identical=False)
    powers = by_kind(i=formulas.integer_power, f=call_wide("power"), c=complex_formulas.power)
    pairs = FLOAT64_PAIRS
    _add("power", 2, "iufc", powers, guarantee=near, ulp64=pairs["power"])
    _add("arctan2", 2, "f", call_wide("arctan2"), guarantee=near, ulp64=pairs["arctan2"])
    _add("hypot", 2, "f", formulas.hypot, guarantee=FORMULA, ulp64=pairs["hypot"])
    _add("logaddexp", 2, "f", formulas.logaddexp, guarantee=FORMULA, ulp64=pairs["logaddexp"])


_define_arithmetic()
_define_selection()
_define_predicates()
_define_bits()
_define_functions()

CALLS = tuple(FLOAT64_ULP)
"""The functions of one float argument: correctly rounded in float32."""


def find(name: str) -> Function | None:
    """The function of that name, or of that Array-API alias."""
    return TABLE.get(ALIASES.get(name, name))


def accepts(function: Function, dtype: DType) -> bool:
    return dtype.kind in function.kinds


def guarantee(name: str, dtype: Any) -> Guarantee:
    """The guarantee of ``math="exact"`` for function ``name`` on operands of ``dtype``.

    Raises:
        KeyError: No such function, or it does not take the dtype.
    """
    function = find(name)
    resolved = np.dtype(dtype)
    if function is None or not accepts(function, resolved):
        raise KeyError(f"no function {name!r} of {resolved}")
    if resolved.kind in "biu":
        return EXACT
    if resolved.kind == "c":
        return _complex_guarantee(function, resolved)
    if resolved == FLOAT16 and function.guarantee is ROUNDED and function.ulp64 is not None:
        return Guarantee(bound_ulp=0.501, is_identical=True)  # float32 correctly rounded, then rounded once more
    if resolved in (FLOAT16, FLOAT32) or function.ulp64 is None:
        return function.guarantee
    if function.ulp64 == math.inf:
        return LOOSE
    is_own = function.name in formulas.IDENTICAL or function.name == "hypot"
    return Guarantee(bound_ulp=function.ulp64, is_identical=is_own)


def measurable(dtype: Any) -> list[str]:
    """The functions whose guarantee for a float or complex dtype is a bound beyond that of correct rounding."""
    takers = [name for name, function in TABLE.items() if accepts(function, np.dtype(dtype))]
    return [name for name in takers if (guarantee(name, dtype).bound_ulp or 0) > 0.5]


def _complex_guarantee(function: Function, dtype: DType) -> Guarantee:
    is_single = dtype != np.complex128
    if function.name in COMPLEX:
        bound = COMPLEX[function.name][0 if is_single else 1]
        return Guarantee(bound_ulp=bound, is_identical=is_single or function.name in complex_formulas.IDENTICAL)
    if function.ulp64 is not None:
        return FORMULA if is_single else LOOSE
    is_exact = function.guarantee is EXACT or function.name in ("add", "subtract", "logical_and")
    return function.guarantee if is_exact and function.name != "absolute" else FORMULA


# Dtypes of results: NumPy 2 promotion for traced functions, C's conversions for snippets.

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
