"""The machine-readable table of the functions that kernels may call, and the guarantee of each.

`TABLE` maps a name to its `Function`. `guarantee(name, dtype)` says how near the result is to the
exact one, and whether its bits are the same on every backend. The reference page is made from it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from xferlib.kernels.ir import error_bounds
from xferlib.kernels.ir.formulas import complex_division, complex_functions, lower, lower_complex, own_functions
from xferlib.kernels.ir.formulas.lower import Lowering, by_kind, call, call_wide, core, logical
from xferlib.kernels.ir.nodes import FLOAT16, FLOAT32, DType


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
        product = lower_complex.complex_multiply if op == "mul" else lower_complex.each_part(op)
        kinds = "biufc" if logic else "iufc"
        _add(name, 2, kinds, by_kind(b=core(logic or "and"), i=core(op), f=core(op), c=product), guarantee=ROUNDED)
    _add("divide", 2, "fc", by_kind(f=core("div"), c=complex_division.divide), guarantee=ROUNDED)
    _add("floor_divide", 2, "iuf", by_kind(i=core("floordiv"), f=lower.floor_divide), guarantee=FORMULA)
    _add("remainder", 2, "iuf", by_kind(i=core("floormod"), f=lower.remainder), guarantee=FORMULA)
    _add("fmod", 2, "iuf", by_kind(i=core("imod"), f=core("fmod")))
    _add("negative", 1, "iufc", by_kind(i=core("neg"), f=core("neg"), c=lower_complex.each_part("neg")))
    _add("positive", 1, "iufc", lower.identity)
    real_size = lower.absolute
    magnitude = by_kind(b=lower.identity, i=real_size, f=real_size, c=lower_complex.complex_absolute)
    _add("absolute", 1, "biufc", magnitude)
    _add("fabs", 1, "f", real_size)
    _add("reciprocal", 1, "iufc", by_kind(i=lower.reciprocal, f=lower.reciprocal, c=lower_complex.complex_reciprocal),
         guarantee=ROUNDED)  # fmt: skip
    squares = by_kind(i=lower.square, f=lower.square, c=lower_complex.complex_square)
    _add("square", 1, "iufc", squares, guarantee=ROUNDED)
    roots = by_kind(f=core("sqrt"), c=complex_functions.lowering("sqrt"))
    _add("sqrt", 1, "fc", roots, guarantee=ROUNDED)
    _add("fma", 3, "f", core("fma"), guarantee=ROUNDED)


def _define_selection() -> None:
    minimum = by_kind(b=core("and"), i=core("min"), f=core("min"))
    maximum = by_kind(b=core("or"), i=core("max"), f=core("max"))
    _add("minimum", 2, "biuf", minimum)
    _add("maximum", 2, "biuf", maximum)
    _add("fmin", 2, "biuf", by_kind(b=core("and"), i=core("min"), f=lower.fmin))
    _add("fmax", 2, "biuf", by_kind(b=core("or"), i=core("max"), f=lower.fmax))
    _add("sign", 1, "iufc", by_kind(i=lower.sign, f=lower.sign, c=complex_functions.lowering("sign")))
    _add("copysign", 2, "f", lower.copysign)
    _add("nextafter", 2, "f", lower.nextafter)
    for name, op in (("floor", "floor"), ("ceil", "ceil"), ("trunc", "trunc"), ("rint", "rint")):
        kinds = "biufc" if op == "rint" else "biuf"
        parts = lower_complex.each_part(op)
        _add(name, 1, kinds, by_kind(b=lower.identity, i=lower.identity, f=core(op), c=parts))
    _add("conj", 1, "iufc", lower_complex.conjugate)
    _add("real", 1, "biufc", lower_complex.real)
    _add("imag", 1, "biufc", lower_complex.imag)


def _define_predicates() -> None:
    comparisons = (("equal", "eq"), ("not_equal", "ne"), ("less", "lt"), ("less_equal", "le"),
                   ("greater", "gt"), ("greater_equal", "ge"))  # fmt: skip
    complex_equality = {"eq": lower_complex.complex_equal, "ne": lower_complex.complex_not_equal}
    for name, op in comparisons:
        each = {"b": core(op), "i": core(op), "f": core(op)}
        if op in complex_equality:
            each["c"] = complex_equality[op]
        _add(name, 2, "biuf" + "c" * ("c" in each), by_kind(**each))
    for name, lowering, value, join in (
        ("isnan", lower.isnan, False, "or"),
        ("isinf", lower.isinf, False, "or"),
        ("isfinite", lower.isfinite, True, "and"),
    ):
        constant = lower.always(value)
        _add(name, 1, "biufc", by_kind(b=constant, i=constant, f=lowering, c=lower_complex.any_part(lowering, join)))
    _add("signbit", 1, "f", lower.signbit)
    for name, op in (("logical_and", "and"), ("logical_or", "or"), ("logical_xor", "xor"), ("logical_not", "not")):
        _add(name, 1 if op == "not" else 2, "biufc", logical(op))


def _define_bits() -> None:
    for name, op in (("bitwise_and", "and"), ("bitwise_or", "or"), ("bitwise_xor", "xor")):
        _add(name, 2, "biu", core(op))
    _add("invert", 1, "biu", core("not"))
    _add("left_shift", 2, "iu", core("shl"))
    _add("right_shift", 2, "iu", core("shr"))


def _define_functions() -> None:
    for name, ulp in error_bounds.FLOAT64.items():
        kinds = "fc" if name in complex_functions.FORMULAS else "f"
        _add(name, 1, kinds, call(name), guarantee=ROUNDED, ulp64=ulp, ufunc="sqrt" if name == "rsqrt" else None)
    near = Guarantee(bound_ulp=0.5001, is_identical=False)
    powers = by_kind(i=lower.integer_power, f=call_wide("power"), c=complex_functions.power)
    pairs = error_bounds.FLOAT64_PAIRS
    _add("power", 2, "iufc", powers, guarantee=near, ulp64=pairs["power"])
    _add("arctan2", 2, "f", call_wide("arctan2"), guarantee=near, ulp64=pairs["arctan2"])
    _add("hypot", 2, "f", lower.hypot, guarantee=FORMULA, ulp64=pairs["hypot"])
    _add("logaddexp", 2, "f", lower.logaddexp, guarantee=FORMULA, ulp64=pairs["logaddexp"])


_define_arithmetic()
_define_selection()
_define_predicates()
_define_bits()
_define_functions()

CALLS = tuple(error_bounds.FLOAT64)
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
    is_own = function.name in own_functions.IDENTICAL or function.name == "hypot"
    return Guarantee(bound_ulp=function.ulp64, is_identical=is_own)


def measurable(dtype: Any) -> list[str]:
    """The functions whose guarantee for a float or complex dtype is a bound beyond that of correct rounding."""
    takers = [name for name, function in TABLE.items() if accepts(function, np.dtype(dtype))]
    return [name for name in takers if (guarantee(name, dtype).bound_ulp or 0) > 0.5]


def _complex_guarantee(function: Function, dtype: DType) -> Guarantee:
    is_single = dtype != np.complex128
    if function.name in error_bounds.COMPLEX:
        bound = error_bounds.COMPLEX[function.name][0 if is_single else 1]
        return Guarantee(bound_ulp=bound, is_identical=is_single or function.name in complex_functions.IDENTICAL)
    if function.ulp64 is not None:
        return FORMULA if is_single else LOOSE
    is_exact = function.guarantee is EXACT or function.name in ("add", "subtract", "logical_and")
    return function.guarantee if is_exact and function.name != "absolute" else FORMULA
