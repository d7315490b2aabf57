"""One table of every function of kernels: its formula, dtypes, guarantee and derivative.

`TABLE` maps a name to its `Function`. `guarantee(name, dtype)` says how near the result is to the
exact one, and whether its bits are the same on every backend. The reference page is made from it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xferlib._core import dtypes
from xferlib._core.arrays import check_number
from xferlib._core.dtypes import small_float
from xferlib.errors import KernelTypeError, did_you_mean
from xferlib.kernels import complex_formulas, formulas
from xferlib.kernels.formulas import Lowering, by_kind, call, call_wide, core, logical, same
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
    Builder,
    DType,
    Node,
    is_complex,
    is_float,
    part_dtype,
    result_of_float32,
)

# How exact a function is.
#
# A float64 function is one definition for every engine (`xferlib.kernels.float64_functions`), so that its error is the
# same everywhere. The bounds leave a margin to the errors of the last step, of about 0.51 ulp by construction, and to
# the figures in ``tools/kernel_ulps.json``, which ``tools/kernel_ulp.py`` measures. The bounds of complex functions
# follow from the formulas, and were measured alike.


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """How exact a result is. Its bits are the same on every backend, but for those of a NaN.

    ``bound_ulp`` is the largest distance from the exact result in units in the last place: 0.5 is
    correct rounding, 0 an exact result by definition, None a fixed sequence of such operations.
    """

    bound_ulp: float | None

    def __str__(self) -> str:
        if self.bound_ulp is None:
            return "fixed formula"
        if self.bound_ulp == 0:
            return "exact"
        if self.bound_ulp == 0.5:
            return "correctly rounded"
        return f"{self.bound_ulp:g} ulp"


EXACT = Guarantee(bound_ulp=0)
ROUNDED = Guarantee(bound_ulp=0.5)
FORMULA = Guarantee(bound_ulp=None)


Rule = Callable[[Builder, Node, tuple[Node, ...], Node], tuple[Node | None, ...]]
"""From the node, its operands and the gradient of its value to the gradients of the operands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function.

    ``kinds`` are the NumPy kinds of operand it takes (``u`` goes with ``i``); ``ufunc`` is the NumPy ufunc
    whose promotion it follows.
    """

    name: str
    arity: int
    kinds: str
    lowering: Lowering
    ufunc: str | None = None
    guarantee: Guarantee = EXACT
    ulp64: float | None = None
    """The bound of a mathematical function's float64 result, in ulp."""
    complex_ulp: tuple[float, float] | None = None
    """The bounds for complex64 and complex128: distances in the plane, in ulp of the exact absolute value."""
    rule: Rule | None = None
    """The derivative of a function that stays a call in a program; the others have those of their operations."""

    def promotion(self) -> np.ufunc | None:
        """The NumPy ufunc that decides the dtypes."""
        found: Any = getattr(np, self.ufunc or self.name, None)
        return found if isinstance(found, np.ufunc) else None


# --- derivatives of calls

Slope = Callable[[Builder, Node, Node], Node]
"""The derivative of a function of one operand at x, where its value is y."""


def _times(slope: Slope) -> Rule:
    return lambda b, y, x, g: (b.op("mul", g, slope(b, x[0], y)),)


def _over(denominator: Slope, numerator: float = 1.0) -> Rule:
    """The rule of a function whose derivative is a quotient: that rounds once less than a product."""

    def rule(b: Builder, y: Node, x: tuple[Node, ...], g: Node) -> tuple[Node | None, ...]:
        top = g if numerator == 1.0 else b.op("mul", g, b.const(numerator, g.dtype))
        return (b.op("div", top, denominator(b, x[0], y)),)

    return rule


def _one_plus(b: Builder, x: Node, sign: str = "add") -> Node:
    return b.op(sign, b.const(1, x.dtype), b.op("mul", x, x))


def _root(b: Builder, x: Node) -> Node:
    return b.op("sqrt", _one_plus(b, x, "sub"))


def _arccosh_root(b: Builder, x: Node, y: Node) -> Node:
    one = b.const(1, x.dtype)
    return b.op("mul", b.op("sqrt", b.op("sub", x, one)), b.op("sqrt", b.op("add", x, one)))  # x * x may overflow


def _scale(b: Builder, x: Node, value: float) -> Node:
    return b.op("mul", x, b.const(value, x.dtype))


def _power_rule(b: Builder, y: Node, x: tuple[Node, ...], g: Node) -> tuple[Node | None, ...]:
    base, exponent = x
    zero, one = b.const(0, g.dtype), b.const(1, g.dtype)
    lower = b.op("mul", exponent, b.call("power", base, b.op("sub", exponent, one)))
    lower = b.select(b.op("eq", exponent, zero), zero, lower)
    upper = b.select(b.op("eq", base, zero), zero, b.op("mul", y, b.call("log", base)))
    return b.op("mul", g, lower), b.op("mul", g, upper)


def _arctan2_rule(b: Builder, y: Node, x: tuple[Node, ...], g: Node) -> tuple[Node | None, ...]:
    length = formulas.hypot(b, *x)  # whose square may overflow
    sine, cosine = (b.op("div", b.op("div", each, length), length) for each in x)
    return b.op("mul", g, cosine), b.op("neg", b.op("mul", g, sine))


def _hypot_rule(b: Builder, y: Node, x: tuple[Node, ...], g: Node) -> tuple[Node | None, ...]:
    is_zero = b.op("eq", y, b.const(0, y.dtype))
    length = b.select(is_zero, b.const(1, y.dtype), y)
    return tuple(b.op("mul", g, b.op("div", each, length)) for each in x)


_LN2, _LN10 = 0.6931471805599453, 2.302585092994046


def _bell(scale: float, factor: float) -> Slope:
    """``factor * exp(-scale * x**2)``, the derivative of an integral over it."""
    return lambda b, x, y: _scale(b, b.call("exp", _scale(b, b.op("mul", x, x), -scale)), factor)


def _inverse_bell(scale: float, factor: float) -> Slope:
    """``factor * exp(scale * y**2)``, the derivative of the inverse of such an integral."""
    return lambda b, x, y: _scale(b, b.call("exp", _scale(b, b.op("mul", y, y), scale)), factor)


def _erfcx_slope(b: Builder, x: Node, y: Node) -> Node:
    return b.op("sub", _scale(b, b.op("mul", x, y), 2.0), b.const(_ERF_SLOPE, x.dtype))


_PI = 3.141592653589793
_ERF_SLOPE, _NORMAL = 1.1283791670955126, 2.5066282746310002
"""The slope of erf at 0, 2 / sqrt(pi), and sqrt(2 pi)."""

_SPECIAL_RULES: dict[str, Rule] = {
    "erf": _times(_bell(1.0, _ERF_SLOPE)),
    "erfc": _times(_bell(1.0, -_ERF_SLOPE)),
    "erfcx": _times(_erfcx_slope),
    "erfinv": _times(_inverse_bell(1.0, 1 / _ERF_SLOPE)),
    "erfcinv": _times(_inverse_bell(1.0, -1 / _ERF_SLOPE)),
    "normcdf": _times(_bell(0.5, 1 / _NORMAL)),
    "normcdfinv": _times(_inverse_bell(0.5, _NORMAL)),
    "sinpi": _times(lambda b, x, y: _scale(b, b.call("cospi", x), _PI)),
    "cospi": _times(lambda b, x, y: _scale(b, b.call("sinpi", x), -_PI)),
}
"""Those of calls that are no functions of the table."""

# --- the table

Meaning = Lowering | str | None
"""A formula, or the core operation that a function is."""

TABLE: dict[str, Function] = {}

ALIASES = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin",
    "asinh": "arcsinh", "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "pow": "power",
    "bitwise_invert": "invert", "bitwise_not": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "mod": "remainder", "true_divide": "divide", "round": "rint",
    "conjugate": "conj",
}  # fmt: skip
"""Array-API and other usual names of functions in the table."""


def _define(
    name: str, arity: int, *, b: Meaning = None, i: Meaning = None, f: Meaning = None, c: Meaning = None, **facts: Any
) -> None:
    """Add a function; ``b``, ``i``, ``f`` and ``c`` are what it means for the kinds of operand that it takes.

    Python kernels have it by this name in `python_frontend.NAMESPACE`, small floats as float32, C by a name of its own.
    """
    given = {"b": b, "i": i, "f": f, "c": c}
    lowerings = {kind: core(each) if isinstance(each, str) else each for kind, each in given.items() if each}
    kinds = "".join("iu" if kind == "i" else kind for kind in lowerings)
    TABLE[name] = Function(name=name, arity=arity, kinds=kinds, lowering=by_kind(**lowerings), **facts)


def _define_arithmetic() -> None:
    product = complex_formulas.complex_multiply
    parts = complex_formulas.each_part
    _define("add", 2, b="or", i="add", f="add", c=parts("add"), guarantee=ROUNDED)
    _define("subtract", 2, i="sub", f="sub", c=parts("sub"), guarantee=ROUNDED)
    _define("multiply", 2, b="and", i="mul", f="mul", c=product, guarantee=ROUNDED)
    _define("divide", 2, f="div", c=complex_formulas.divide, guarantee=ROUNDED, complex_ulp=(1, 4))
    _define("floor_divide", 2, i="floordiv", f=formulas.floor_divide, guarantee=FORMULA)
    _define("remainder", 2, i="floormod", f=formulas.remainder, guarantee=FORMULA)
    _define("fmod", 2, i="imod", f="fmod")
    _define("negative", 1, i="neg", f="neg", c=parts("neg"))
    _define("positive", 1, i=same, f=same, c=same)
    _define("absolute", 1, b=same, i=formulas.absolute, f=formulas.absolute, c=complex_formulas.complex_absolute)
    _define("fabs", 1, f=formulas.absolute)
    inverse = formulas.reciprocal
    _define("reciprocal", 1, i=inverse, f=inverse, c=complex_formulas.complex_reciprocal, guarantee=ROUNDED,
            complex_ulp=(1, 4))  # fmt: skip
    square = formulas.square
    _define("square", 1, i=square, f=square, c=complex_formulas.complex_square, guarantee=ROUNDED)
    _define("sqrt", 1, f="sqrt", c=complex_formulas.make_lowering("sqrt"), guarantee=ROUNDED, complex_ulp=(1, 3))
    _define("fma", 3, f="fma", guarantee=ROUNDED)


def _define_selection() -> None:
    _define("minimum", 2, b="and", i="min", f="min")
    _define("maximum", 2, b="or", i="max", f="max")
    _define("fmin", 2, b="and", i="min", f=formulas.fmin)
    _define("fmax", 2, b="or", i="max", f=formulas.fmax)
    _define("sign", 1, i=formulas.sign, f=formulas.sign, c=complex_formulas.make_lowering("sign"), complex_ulp=(1, 4))
    _define("copysign", 2, f=formulas.copysign)
    _define("nextafter", 2, f=formulas.nextafter)
    for op in ("floor", "ceil", "trunc", "rint"):
        parts = complex_formulas.each_part(op) if op == "rint" else None
        _define(op, 1, b=same, i=same, f=op, c=parts)
    _define("conj", 1, **dict.fromkeys("ifc", complex_formulas.conjugate))
    _define("real", 1, **dict.fromkeys("bifc", complex_formulas.real))
    _define("imag", 1, **dict.fromkeys("bifc", complex_formulas.imag))


def _define_predicates() -> None:
    _define("equal", 2, b="eq", i="eq", f="eq", c=complex_formulas.complex_equal)
    _define("not_equal", 2, b="ne", i="ne", f="ne", c=complex_formulas.complex_not_equal)
    for name, op in (("less", "lt"), ("less_equal", "le"), ("greater", "gt"), ("greater_equal", "ge")):
        _define(name, 2, b=op, i=op, f=op)
    for name, lowering, value, join in (
        ("isnan", formulas.isnan, False, "or"),
        ("isinf", formulas.isinf, False, "or"),
        ("isfinite", formulas.isfinite, True, "and"),
    ):
        constant = formulas.always(value)
        _define(name, 1, b=constant, i=constant, f=lowering, c=complex_formulas.any_part(lowering, join))
    _define("signbit", 1, f=formulas.signbit)
    for op in ("and", "or", "xor", "not"):
        _define(f"logical_{op}", 1 if op == "not" else 2, **dict.fromkeys("bifc", logical(op)))


def _define_bits() -> None:
    for name, op in (("bitwise_and", "and"), ("bitwise_or", "or"), ("bitwise_xor", "xor"), ("invert", "not")):
        _define(name, 1 if op == "not" else 2, b=op, i=op)
    _define("left_shift", 2, i="shl")
    _define("right_shift", 2, i="shr")


ULP64 = 0.52
"""The bound of a float64 function of one number."""

_CALLS: dict[str, tuple[tuple[float, float] | None, Rule]] = {
    "exp": ((2.5, 3), _times(lambda b, x, y: y)),
    "exp2": (None, _times(lambda b, x, y: _scale(b, y, _LN2))),
    "expm1": ((3, 5), _times(lambda b, x, y: b.op("add", y, b.const(1, y.dtype)))),
    "log": ((1.5, 4), _over(lambda b, x, y: x)),
    "log2": ((1.5, 4), _over(lambda b, x, y: _scale(b, x, _LN2))),
    "log10": ((1.5, 4.5), _over(lambda b, x, y: _scale(b, x, _LN10))),
    "log1p": ((1.5, 3), _over(lambda b, x, y: b.op("add", b.const(1, x.dtype), x))),
    "sin": ((2.5, 3), _times(lambda b, x, y: b.call("cos", x))),
    "cos": ((2.5, 3), _times(lambda b, x, y: b.op("neg", b.call("sin", x)))),
    "tan": ((3, 5.5), _times(lambda b, x, y: _one_plus(b, y))),
    "arcsin": ((1.5, 4), _over(lambda b, x, y: _root(b, x))),
    "arccos": ((1.5, 4), _over(lambda b, x, y: _root(b, x), -1.0)),
    "arctan": ((1.5, 4), _over(lambda b, x, y: _one_plus(b, x))),
    "sinh": ((2.5, 3), _times(lambda b, x, y: b.call("cosh", x))),
    "cosh": ((2.5, 3), _times(lambda b, x, y: b.call("sinh", x))),
    "tanh": ((3, 5.5), _times(lambda b, x, y: _one_plus(b, y, "sub"))),
    "arcsinh": ((1.5, 4.5), _over(lambda b, x, y: formulas.hypot(b, x, b.const(1, x.dtype)))),
    "arccosh": ((1.5, 4), _over(_arccosh_root)),
    "arctanh": ((1.5, 4), _over(lambda b, x, y: _one_plus(b, x, "sub"))),
    "cbrt": (None, _over(lambda b, x, y: _scale(b, b.op("mul", y, y), 3.0))),
    "rsqrt": (None, _times(lambda b, x, y: _scale(b, b.op("mul", y, b.op("mul", y, y)), -0.5))),
}
"""Functions of one float: the bounds for complex numbers, and the derivative."""

CALLS = tuple(_CALLS)
"""The functions of one float argument: correctly rounded in float32."""


def _define_calls() -> None:
    for name, (complex_ulp, rule) in _CALLS.items():
        lower_complex = complex_formulas.make_lowering(name) if complex_ulp else None
        _define(name, 1, f=call(name), c=lower_complex, guarantee=ROUNDED, ulp64=ULP64, complex_ulp=complex_ulp,
                rule=rule, ufunc="sqrt" if name == "rsqrt" else None)  # fmt: skip
    _define("power", 2, i=formulas.integer_power, f=call_wide("power"), c=complex_formulas.power, guarantee=ROUNDED,
            ulp64=0.52, rule=_power_rule)  # fmt: skip
    _define("arctan2", 2, f=call_wide("arctan2"), guarantee=ROUNDED, ulp64=0.55, rule=_arctan2_rule)
    _define("hypot", 2, f=formulas.hypot, guarantee=FORMULA, ulp64=0.51, rule=_hypot_rule)
    _define("logaddexp", 2, f=formulas.logaddexp, guarantee=FORMULA)


_define_arithmetic()
_define_selection()
_define_predicates()
_define_bits()
_define_calls()

CALL_NAMES = {target: alias for alias, target in ALIASES.items() if TABLE[target].rule}
"""The names in C and CUDA of the functions that stay calls, where they differ from NumPy's."""


def find(name: str) -> Function | None:
    """The function of that name, or of that Array-API alias."""
    return TABLE.get(ALIASES.get(name, name))


def rule_of(name: str) -> Rule:
    """The derivative of a call.

    Raises:
        KernelTypeError: It is none of the functions that are known here.
    """
    rule = TABLE[name].rule if name in TABLE else _SPECIAL_RULES.get(name)
    if rule is None:
        raise KernelTypeError(f"the derivative of {name} is not known; compute that part by torch.special")
    return rule


def accepts(function: Function, dtype: DType) -> bool:
    return dtypes.kind_of(dtype) in function.kinds


def guarantee(name: str, dtype: Any) -> Guarantee:
    """The guarantee of ``math="exact"`` for function ``name`` on operands of ``dtype``.

    Raises:
        KeyError: No such function, or it does not take the dtype.
    """
    function = find(name)
    resolved = check_number(dtype)
    if function is None or not accepts(function, resolved):
        raise KeyError(f"no function {name!r} of {resolved}")
    if resolved.kind in "biu":
        return EXACT
    if resolved.kind == "c":
        return _complex_guarantee(function, resolved)
    if resolved.itemsize <= 2 and function.guarantee is ROUNDED and function.ulp64 is not None:
        return Guarantee(bound_ulp=0.501)  # float32 correctly rounded, then rounded once more
    if resolved.itemsize <= 4 or function.ulp64 is None:
        return function.guarantee
    return Guarantee(bound_ulp=function.ulp64)


def measurable(dtype: Any) -> list[str]:
    """The functions whose guarantee for a float or complex dtype is a bound beyond that of correct rounding."""
    takers = [name for name, function in TABLE.items() if accepts(function, check_number(dtype))]
    return [name for name in takers if (guarantee(name, dtype).bound_ulp or 0) > 0.5]


def _complex_guarantee(function: Function, dtype: DType) -> Guarantee:
    if function.complex_ulp is not None:
        return Guarantee(bound_ulp=function.complex_ulp[dtype == np.complex128])
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
    ufunc, small = function.promotion(), dtypes.promote_small_floats(operands)
    if isinstance(small, tuple):
        operands = small
    if small is not None and not isinstance(small, tuple):
        loop: tuple[DType, ...] = (small,) * len(operands)
    elif ufunc is None or ufunc.nin != len(operands):
        loop = (numpy_common(operands),) * len(operands)
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
    if (small := dtypes.promote_small_floats(operands)) is not None:
        if not isinstance(small, tuple):
            return small
        operands = small
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
"""Every type name of a signature or snippet: C's on a 64-bit CUDA platform, NumPy's, and <stdint.h>'s.

Those of `SMALL_TYPES` are added by the first text that has one.
"""

SMALL_TYPES: dict[str, str] = {name: name for name in dtypes.SMALL_FLOATS} | {
    "__nv_bfloat16": "bfloat16", "nv_bfloat16": "bfloat16", "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
}  # fmt: skip
"""The names of small floats: NumPy's and CUDA's."""
_SMALL_TYPE = re.compile(rf"\b(?:{'|'.join(SMALL_TYPES)})\b")


def know_types(text: str) -> None:
    """Make the small floats that a text names types of C.

    Raises:
        UnsupportedDTypeError: ml_dtypes, whose they are on the host, is not installed.
    """
    for name in _SMALL_TYPE.findall(text):
        if name not in C_TYPES:
            found = dtypes.find(SMALL_TYPES[name], what=name)
            assert found is not None
            C_TYPES[name] = found


def tell_unknown_type(name: str) -> str:
    """The message for a name of a kernel's text that is no type."""
    return f"unknown type {name!r}{did_you_mean(name, {*C_TYPES, *SMALL_TYPES})}; use a C or NumPy type name"


VECTOR_PARTS: dict[str, DType] = {"uchar": UINT8} | {
    name: C_TYPES[name]
    for name in (
        "char", "short", "ushort", "int", "uint", "long", "ulong", "longlong", "ulonglong", "float", "double",
    )
}  # fmt: skip
"""The numbers of CUDA's vector types, by the name without the count."""

_SMALL = frozenset({BOOL, INT8, UINT8, INT16, UINT16})


def promote_c(dtype: DType) -> DType:
    """C's integer promotions: a type narrower than int becomes int; float8 is float, as nothing computes with it."""
    if dtype in _SMALL:
        return INT32
    return dtype if small_float(dtype) is None else result_of_float32(dtype)


def c_common(x: DType, y: DType) -> DType:
    """C's usual arithmetic conversions; half and bfloat16 rank below float, complex above its parts."""
    if is_complex(x) or is_complex(y):
        part = c_common(_part(x, y), _part(y, x))
        return COMPLEX128 if part == FLOAT64 else COMPLEX64
    if is_float(x) or is_float(y):
        floats = {promote_c(each) for each in (x, y) if is_float(each)}
        widest = max(floats, key=lambda each: each.itemsize)
        return FLOAT32 if len(floats) == 2 and widest.itemsize == 2 else widest  # half and bfloat16
    x, y = promote_c(x), promote_c(y)
    if x.kind == y.kind:
        return x if x.itemsize >= y.itemsize else y
    unsigned, signed = (x, y) if x.kind == "u" else (y, x)
    return unsigned if unsigned.itemsize >= signed.itemsize else signed


def _part(x: DType, other: DType) -> DType:
    """The real dtype that ``x`` contributes to a complex operation; an integer takes the other's."""
    if is_complex(x):
        return part_dtype(x)
    return x if is_float(x) and x.itemsize > 2 else (part_dtype(other) if is_complex(other) else x)


def c_float(dtype: DType) -> DType:
    """The dtype in which a mathematical function of C++ takes its operand: an integer becomes double."""
    return promote_c(dtype) if is_float(dtype) or is_complex(dtype) else FLOAT64


def fits(value: int, dtype: DType) -> bool:
    """Whether a Python int is in the range of an integer dtype."""
    if dtype == BOOL:
        return value in (0, 1)
    info = np.iinfo(dtype)
    return int(info.min) <= value <= int(info.max)


# The float32 inputs whose exact function value lies next to a rounding midpoint, with the right result.
#
# For every function of one argument, `hard_cases` holds each of the 2^32 inputs for which a float64 result within
# `MARGIN_ULP` ulp of the exact value could round to the wrong float32. ``tools/kernel_hard_cases.py`` finds
# them on a GPU and computes the results in arbitrary precision.

MARGIN_ULP = 8
"""The largest error of a float64 function, in its ulp, that the tables cover."""


@dataclass(frozen=True, slots=True, eq=False)
class HardCases:
    """Input and result bits, sorted by input; ``has_subnormal`` if a subnormal result is among them."""

    inputs: np.ndarray[Any, np.dtype[np.uint32]]
    results: np.ndarray[Any, np.dtype[np.uint32]]
    has_subnormal: bool


@functools.cache
def hard_cases() -> dict[str, HardCases]:
    """The tables by the name of the function, read at the first use.

    ``hard_cases.bin`` has a line with the number of cases of each function, ``exp=40 exp2=32 ...``, and then all of
    them as little-endian pairs (input bits, result bits).
    """
    head, _, data = Path(__file__).with_name("hard_cases.bin").read_bytes().partition(b"\n")
    pairs = np.frombuffer(data, "<u4").reshape(-1, 2).astype(np.uint32)
    result: dict[str, HardCases] = {}
    first = 0
    for name, _, count in (each.partition("=") for each in head.decode().split()):
        result[name] = _table(pairs[first : first + int(count)])
        first += int(count)
    return result


def _table(pairs: np.ndarray[Any, np.dtype[np.uint32]]) -> HardCases:
    magnitude = pairs[:, 1] & 0x7FFFFFFF
    return HardCases(pairs[:, 0].copy(), pairs[:, 1].copy(), bool(np.any(magnitude < 0x00800000)))
