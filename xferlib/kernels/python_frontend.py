"""The front end for Python functions: run the function once on traced values, which record the program.

Python's control flow cannot be recorded, so asking a traced value for its truth is an error that shows the user's
line.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xferlib._core.arrays import check_number
from xferlib._core.dtypes import float_limits, kind_of, promote_small_floats, small_float
from xferlib._runtime.checks import refuse_no_flag
from xferlib.errors import KernelError, KernelSyntaxError, KernelTypeError
from xferlib.kernels import formulas, functions, small_floats
from xferlib.kernels.functions import Function
from xferlib.kernels.guards import HostNumbers, Recording, convert_number
from xferlib.kernels.ir import (
    BOOL,
    FLOAT16,
    FLOAT32,
    INT64,
    MOST_STEPS,
    UINT8,
    UINT64,
    Builder,
    DType,
    Node,
    Param,
    Program,
    Store,
    is_complex,
    is_integer,
)
from xferlib.kernels.source_lines import at_user_line, user_call

# Promotion in traced kernels, as in NumPy (NEP 50): a Python scalar takes the dtype of the array beside it.

_CALL = 10
"""The work of a function of traced values, beside the nodes that it makes."""
COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip


def operand_kind(value: Any, name: str) -> DType | type:
    """The kind of an operand of function ``name`` in promotion: a dtype, or the type of a Python number."""
    if isinstance(value, Traced):
        kind = value.kind
        return BOOL if kind is bool else kind
    if type(value) is bool or isinstance(value, np.bool_):
        return BOOL
    if type(value) in functions.PYTHON_TYPES:
        return type(value)
    if isinstance(value, np.generic):
        return value.dtype
    raise at_user_line(
        KernelTypeError(
            f"{name} got {type(value).__name__}; inside a kernel only its parameters, Python numbers and NumPy scalars "
            "take part: pass arrays as arguments"
        )
    )


def _operand_kinds(name: str, args: tuple[Any, ...], arity: int) -> tuple[DType | type, ...]:
    """The kinds of a function's operands; numbers alone have dtypes, as NumPy's function makes arrays of them."""
    if len(args) != arity:
        raise at_user_line(
            KernelTypeError(f"{name}() takes {arity} operand(s), {len(args)} were given; see the reference")
        )
    kinds = tuple(operand_kind(each, name) for each in args)
    if any(isinstance(each, np.dtype) for each in kinds):
        return kinds
    return tuple(functions.PYTHON_TYPES[each] for each in kinds if isinstance(each, type))


def builder_of(args: tuple[Any, ...], name: str) -> Builder:
    """The builder of the traced values among the operands of function ``name``."""
    for each in args:
        if isinstance(each, Traced):
            if each.builder.work > MOST_STEPS:
                raise at_user_line(
                    KernelSyntaxError(
                        f"{name}: the function has recorded more than {MOST_STEPS} steps; take fewer turns and calls, "
                        "or write the loop in C, where it is run"
                    )
                )
            each.builder.work += _CALL
            return each.builder
    raise at_user_line(
        KernelTypeError(f"{name} was called without a traced value; use the function of math or numpy on constants")
    )


def node_of(b: Builder, value: Any, dtype: DType) -> Node:
    """``value`` as a node of ``dtype``; a Python scalar must be in its range."""
    if isinstance(value, Traced):
        return value.as_dtype(dtype)
    if isinstance(value, np.generic):
        return b.cast(b.const(value, value.dtype), dtype)
    try:
        return b.const(convert_number(value, dtype, "the Python number"), dtype)
    except KernelTypeError as error:
        raise at_user_line(error) from None


def node_of_call(b: Builder, name: str, args: tuple[Any, ...]) -> Node:
    """Function ``name`` of traced values and scalars, promoted as NumPy does."""
    function = functions.find(name)
    if function is None:
        raise at_user_line(
            KernelTypeError(f"no kernel function {name!r}; known are {', '.join(sorted(functions.TABLE))}")
        )
    operands = _operand_kinds(name, args, function.arity)
    try:
        special = _promote_special(b, function, args, operands)
        if special is not None:
            return special
        loop = functions.numpy_loop(function, operands)
        nodes = [node_of(b, each, dtype) for each, dtype in zip(args, loop, strict=True)]
    except KernelError as error:
        raise at_user_line(error) from None
    return function.lowering(b, *nodes)


def _promote_special(b: Builder, function: Function, args: tuple[Any, ...], operands: tuple[Any, ...]) -> Node | None:
    """Handle the cases that promotion alone does not decide: integer powers, comparisons across integer ranges."""
    if function.name == "power":
        return _constant_power(b, args, operands)
    if function.name not in COMPARISONS.values():
        return None
    for position in (0, 1):
        value, other = args[position], operands[1 - position]
        if operands[position] is int and isinstance(other, np.dtype) and other.kind in "biu":
            side = ask(value, _side_of(INT64 if other == BOOL else other))
            if side:
                return _compare_out_of_range(b, function, side, position)
    kinds = [each.kind for each in operands if isinstance(each, np.dtype)]
    if UINT64 in operands and "i" in kinds:
        return _compare_signs(b, function, args, kinds.index("i"))
    return None


def ask(value: Any, question: Callable[[Any], Any]) -> Any:
    """The answer of ``question`` for a Python number, a literal or an argument; a recording assumes it."""
    if not isinstance(value, Traced):
        return question(value)
    number: Any = value
    return number.ask(question)


@functools.cache
def _side_of(dtype: DType) -> Callable[[int], int]:
    """Make a function that tells where an int lies: -1 below the range of ``dtype``, 0 in it, 1 above."""
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    return lambda value: (value > high) - (value < low)


def _is_negative(value: int) -> bool:
    return value < 0


def _constant_power(b: Builder, args: tuple[Any, ...], operands: tuple[Any, ...]) -> Node | None:
    """A power with a constant exponent that is one correctly rounded operation; None for any other.

    A negative exponent of an integer is an error.
    """
    base, exponent = args
    dtype = operands[0]
    is_number = not isinstance(exponent, Traced) or isinstance(exponent.kind, type)
    if operands[1] not in (int, INT64) or not is_number or isinstance(exponent, np.generic):
        return None
    if (isinstance(dtype, np.dtype) and dtype.kind in "biu") or dtype is int:
        if ask(exponent, _is_negative):
            raise KernelTypeError(f"{dtype} to a negative power is not an integer; convert the base with astype first")
    if isinstance(exponent, Traced) or not isinstance(base, Traced) or isinstance(base.kind, type) or dtype == BOOL:
        return None
    if is_integer(dtype):
        convert_number(exponent, dtype, "the exponent")
        return _integer_power(b, base, exponent)
    shortcuts = {2: "square", -1: "reciprocal", 1: "positive"}
    if kind_of(dtype) in "fc" and exponent in shortcuts:
        return node_of_call(b, shortcuts[exponent], (base,))
    return None


def _integer_power(b: Builder, base: Traced, exponent: int) -> Node:
    result, square = b.const(1, base.dtype), base.node
    while exponent:
        if exponent & 1:
            result = b.op("mul", result, square)
        exponent >>= 1
        if exponent:
            square = b.op("mul", square, square)
    return result


def _compare_signs(b: Builder, function: Function, args: tuple[Any, ...], signed: int) -> Node:
    """Compare a signed integer with a uint64 by value: a negative number is below every unsigned one."""
    node = node_of(b, args[signed], INT64)
    is_negative = b.op("lt", node, b.const(0, INT64))
    sides = [b.cast(node, UINT64)] * 2
    sides[1 - signed] = node_of(b, args[1 - signed], UINT64)
    if function.name in ("equal", "not_equal"):
        when_negative = function.name == "not_equal"
    else:
        when_negative = function.name.startswith("less") == (signed == 0)
    return b.select(is_negative, b.const(when_negative, BOOL), function.lowering(b, *sides))


def _compare_out_of_range(b: Builder, function: Function, side: int, position: int) -> Node:
    """Compare with a Python integer outside the dtype's range: every element gives the same answer."""
    name = next(key for key, full in COMPARISONS.items() if full == function.name)
    sides = (side, 0) if position == 0 else (0, side)
    return b.const(getattr(operator, name)(*sides), BOOL)


UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}
OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip

_ARRAY_NAMES = {"fabs": "abs", "pow": "power"}
_FLOAT_FUNCTIONS = frozenset(name for name in dir(math) if hasattr(np, name)) | _ARRAY_NAMES.keys()
"""Functions of Python's ``math`` that NumPy has for arrays, by the name in ``math``."""

NAMESPACE = ModuleType("xferlib.kernels.namespace", "What ``x.__array_namespace__()`` gives for a traced value.")
"""The functions of a traced kernel, by their names in the Array API and in NumPy; filled where those are defined."""


class Traced:
    """A value inside a traced kernel, with the dtype that promotion reads."""

    __slots__ = ("builder", "node")
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 1000.0

    def __init__(self, builder: Builder, node: Node) -> None:
        self.builder = builder
        self.node = node

    @property
    def dtype(self) -> DType:
        return self.node.dtype

    @property
    def kind(self) -> DType | type:
        """The dtype, or the type of a Python number."""
        return self.dtype

    def as_dtype(self, dtype: DType) -> Node:
        """The value converted."""
        return self.builder.cast(self.node, dtype)

    def __repr__(self) -> str:
        return f"<a {self.dtype} in a kernel>"

    if not TYPE_CHECKING:  # or every name would be an attribute for a type checker

        def __getattr__(self, name: str) -> NoReturn:
            remedy = ""
            if not name.startswith("_") and hasattr(np.ndarray, name):
                remedy = ": it is one element, seen by itself; call that on the array, or see xferlib.reduction"
            raise AttributeError(f"a value in a kernel has no {name!r}{remedy}", name=name, obj=self)

    @property
    def real(self) -> Traced:
        return apply("real", (self,))

    @property
    def imag(self) -> Traced:
        return apply("imag", (self,))

    def conj(self) -> Traced:
        return apply("conj", (self,))

    def astype(self, dtype: Any, *, saturate: bool = False) -> Traced:
        return astype(self, dtype, saturate=saturate)

    def clip(self, min: Any = None, max: Any = None) -> Traced:  # noqa: A002 - the Array API's names
        return clip(self, min, max)

    def __divmod__(self, other: Any) -> Pair:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Pair:
        return other // self, other % self

    def __round__(self, digits: int | None = None) -> Traced:
        if digits:
            _refuse(self, f"round(x, {digits})", "scale, round and scale back")
        return round_to_integer(self)

    def __float__(self) -> NoReturn:
        function = user_call(_FLOAT_FUNCTIONS)
        if function is None:
            _refuse(
                self, "float(), or a function of Python's math", "use astype('float64'), or NumPy's function: np.sin(x)"
            )
        name = _ARRAY_NAMES.get(function, function)
        _refuse(self, f"{function}() of Python's math", f"use np.{name}(x) instead of math.{function}(x)")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return NAMESPACE

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Traced:
        if method != "__call__" or options:
            _refuse(self, f"numpy.{ufunc.__name__}.{method} with {sorted(options)}", "call the plain ufunc")
        # A NumPy scalar on the left of a comparison comes as an array without dimensions.
        plain = (each[()] if isinstance(each, np.ndarray) and each.ndim == 0 else each for each in inputs)
        if (composite := COMPOSITES.get(ufunc.__name__)) is not None:
            return composite(*plain, ufunc=ufunc)  # type: ignore[no-any-return]
        return apply(ufunc.__name__, tuple(plain))

    def __array_function__(self, function: Callable[..., Any], kinds: Any, args: Any, options: Any) -> Traced:
        found = FUNCTIONS.get(function)
        if found is None:
            _refuse(self, f"numpy.{function.__name__}", "call only element-wise functions")
        return found(*args, **options)  # type: ignore[no-any-return]

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, args: Any = (), options: Any = None) -> NoReturn:
        value = next(each for each in args if isinstance(each, cls))
        _refuse(value, f"torch's {function.__name__}", "call NumPy's function: the kernel runs on tensors too")


def round_to_integer(x: Traced, decimals: int = 0) -> Traced:
    """The nearest integer, in the dtype of ``x``."""
    if decimals:
        _refuse(x, f"round(x, {decimals})", "scale, round and scale back")
    return apply("positive" if is_integer(x.dtype) else "rint", (x,))


_REFUSED = {
    "bool": ("a test of an element (if, while, and, or, not)", "use where(condition, a, b), & , | and ~"),
    "int": ("int()", "use astype('int64')"),
    "complex": ("complex()", "use astype('complex128')"),
    "index": ("range() or an index", "use arithmetic on the values"),
    "iter": ("iteration or unpacking", "a kernel sees one element at a time"),
    "len": ("len()", "a kernel sees one element at a time"),
    "getitem": ("indexing", "a kernel sees one element at a time; a C snippet has raw parameters"),
    "matmul": ("x @ y", "a kernel sees one element at a time; multiply arrays with xp.matmul"),
    "rmatmul": ("x @ y", "a kernel sees one element at a time; multiply arrays with xp.matmul"),
    "array": ("conversion to an array", "call only element-wise functions"),
}
"""Python's special methods that one element cannot have: what was asked of it, and the remedy."""


def _install_operators() -> None:
    def method(name: str, *, is_reflected: bool = False) -> Callable[..., Traced]:
        if is_reflected:
            return lambda self, other: apply(name, (other, self))
        return lambda *operands: apply(name, operands)

    def refusal(what: str, remedy: str) -> Callable[..., NoReturn]:
        return lambda self, *_, **__: _refuse(self, what, remedy)

    for operation, name in {**UNARY, **OPERATORS, **COMPARISONS}.items():
        setattr(Traced, f"__{operation}__", method(name))
    for operation, name in OPERATORS.items():
        setattr(Traced, f"__r{operation}__", method(name, is_reflected=True))
    for operation, (what, remedy) in _REFUSED.items():
        setattr(Traced, f"__{operation}__", refusal(what, remedy))


_install_operators()


def _refuse(value: Traced, what: str, remedy: str) -> NoReturn:
    raise at_user_line(
        KernelSyntaxError(
            f"{what}: a kernel is recorded once, without data, and so a {value.dtype} has no value yet; {remedy}"
        )
    )


def apply(name: str, args: tuple[Any, ...]) -> Traced:
    """Function ``name`` of traced values and scalars, promoted as NumPy does."""
    b = builder_of(args, name)
    return Traced(b, node_of_call(b, name, args))


def where(condition: Any, yes: Any, no: Any) -> Traced:
    """``yes`` where ``condition`` is true, else ``no``; the common dtype of the two."""
    args = (condition, yes, no)
    b = builder_of(args, "where")
    try:
        dtype = functions.numpy_common((operand_kind(yes, "where"), operand_kind(no, "where")))
        kind = operand_kind(condition, "where")
    except TypeError as error:
        raise at_user_line(KernelTypeError(f"where: {error}")) from None
    test = node_of(b, condition, BOOL) if isinstance(kind, type) else b.truth(node_of(b, condition, kind))
    return Traced(b, b.select(test, node_of(b, yes, dtype), node_of(b, no, dtype)))


def clip(x: Any, min: Any = None, max: Any = None) -> Traced:  # noqa: A002 - the Array API's names
    """``x`` from ``min`` to ``max``, in the dtype of NumPy's ufunc of all three.

    A bound of None does nothing, nor does a Python int at or beyond that end of the integer dtype of ``x``.
    """
    if not isinstance(x, Traced):
        x = np.asarray(x)[()]  # in NumPy a number that is clipped has a dtype of its own; a bound has none
    dtype = x.dtype
    if is_integer(dtype):
        least, most = (int(each) for each in (np.iinfo(dtype).min, np.iinfo(dtype).max))
        min = None if _is_int(min) and ask(min, functools.partial(operator.ge, least)) else min  # noqa: A001
        max = None if _is_int(max) and ask(max, functools.partial(operator.le, most)) else max  # noqa: A001
    bounds = [each for each in (min, max) if each is not None]
    b = builder_of((x, *bounds), "clip")
    try:
        common = functions.numpy_common((dtype, *(operand_kind(each, "clip") for each in bounds)))
        if bounds and is_complex(common):
            raise KernelTypeError(f"clip of {common} is not defined: complex numbers have no order; clip real and imag")
        node, *limits = (node_of(b, each, common) for each in (x, *bounds))
    except KernelError as error:
        raise at_user_line(error) from None
    for name, limit in zip(
        [name for name, each in (("max", min), ("min", max)) if each is not None], limits, strict=True
    ):
        node = b.op({"max": "or", "min": "and"}[name] if common == BOOL else name, node, limit)
    return Traced(b, node)


def _is_int(value: Any) -> bool:
    return (value.kind if isinstance(value, Traced) else type(value)) is int


def _numpys_clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None, max: Any = None, **options: Any  # noqa: A002
) -> Traced:  # fmt: skip
    """`numpy.clip`: the bounds have two names each."""
    if out is not None or options:
        raise at_user_line(
            KernelTypeError(
                "clip of an element takes no out= and no options of a ufunc; leave them out: the result is new"
            )
        )
    if (a_min is not None and min is not None) or (a_max is not None and max is not None):
        raise at_user_line(KernelTypeError("clip got a bound twice, as a_min and min or a_max and max; leave out one"))
    return clip(a, min if a_min is None else a_min, max if a_max is None else a_max)


def astype(x: Any, dtype: Any, *, saturate: bool = False) -> Traced:
    """``x`` converted: floats to integers saturate, NaN gives 0. Floats to float8 do with ``saturate``; NaN is NaN."""
    b, wanted = builder_of((x,), "astype"), check_number(dtype, what="astype")
    refuse_no_flag(saturate, "astype: saturate")
    return Traced(b, small_floats.saturate(b, x.node, wanted) if saturate else b.cast(x.node, wanted))


# Functions of traced values that are made of others: NumPy's with two results, and those of `scipy.special`.
#
# The dtypes are those of NumPy's or SciPy's function, which the caller gives; without one, as for NumPy's ``sqrt``.

Pair = tuple[Any, Any]
_where: Any = where  # the results have operators, which are made at run time
_apply: Any = apply


def _convert_operands(name: str, ufunc: np.ufunc, args: tuple[Any, ...]) -> list[Any]:
    """The operands in the dtypes to which ``ufunc`` converts them."""
    kinds = [
        FLOAT32 if isinstance(each, np.dtype) and small_float(each) is not None else each
        for each in _operand_kinds(name, args, ufunc.nin)
    ]
    b = builder_of(args, name)
    try:
        given: Any = (*kinds, *[None] * ufunc.nout)
        dtypes = ufunc.resolve_dtypes(given)[: len(args)]
    except TypeError:
        dtypes = ()
    if not dtypes or dtypes[0].kind == "c":
        names = ", ".join(each.__name__ if isinstance(each, type) else str(each) for each in kinds)
        raise at_user_line(KernelTypeError(f"{name}({names}) is not defined; convert with astype(...)"))
    return [Traced(b, node_of(b, each, np.dtype(dtype))) for each, dtype in zip(args, dtypes, strict=True)]


def _composite(name: str, numpys: np.ufunc, compute: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose operands are converted as by NumPy's; ``compute`` gives a traced value, a node, or two nodes."""

    def call(*args: Any, ufunc: np.ufunc = numpys) -> Any:
        operands = _convert_operands(name, ufunc, args)
        found, b = compute(*operands), operands[0].builder
        results = [
            each.node if isinstance(each, Traced) else each
            for each in (found if isinstance(found, tuple) else (found,))
        ]
        small = promote_small_floats(tuple([operand_kind(each, name) for each in args]))
        if isinstance(small, np.dtype):  # computed in float32, and rounded once
            results = [b.cast(each, small) if each.dtype == FLOAT32 else each for each in results]
        traced = tuple([Traced(b, each) for each in results])
        return traced if isinstance(found, tuple) else traced[0]

    return call


def _divmod(x: Any, y: Any, /, *, ufunc: np.ufunc | None = None) -> Pair:  # noqa: ARG001 - as of all ufuncs
    return apply("floor_divide", (x, y)), apply("remainder", (x, y))


def _heaviside(x: Any, middle: Any) -> Node:
    """0 below 0, 1 above it, and ``middle`` at 0; NaN of NaN."""
    b, number, half = x.builder, x.node, middle.node
    zero, one = b.const(0, number.dtype), b.const(1, number.dtype)
    found = b.select(b.op("eq", number, zero), half, b.select(b.op("lt", number, zero), zero, one))
    return b.select(b.op("eq", number, number), found, b.const(np.nan, number.dtype))  # type: ignore[no-any-return]


def _logaddexp2(x: Any, y: Any) -> Any:
    high, low = (Traced(x.builder, each) for each in formulas.order_exponents(x.builder, x.node, y.node))
    return _apply("log1p", (apply("exp2", (low,)),)) * float(1 / np.log(2.0)) + high


def _scale(x: Any, numerator: float, denominator: float) -> Node:
    """``x`` times a quotient that is rounded first, as C divides the constants."""
    b, node = x.builder, x.node
    wide = node if node.dtype != FLOAT16 else b.cast(node, FLOAT32)
    factor = wide.dtype.type(numerator) / wide.dtype.type(denominator)
    return b.cast(b.op("mul", wide, b.const(factor, wide.dtype)), node.dtype)  # type: ignore[no-any-return]


def _measure_ulp(x: Any) -> Any:
    """The distance to the next number away from 0."""
    limit = _where(apply("less", (x, 0)), -np.inf, np.inf).astype(x.dtype)
    return apply("nextafter", (x, limit)) - x


def _bitwise_count(x: Any) -> Node:
    """The ones among the bits of ``abs(x)``, as uint8."""
    b, node = x.builder, x.node
    if node.dtype == BOOL:
        return b.cast(node, UINT8)  # type: ignore[no-any-return]
    size = node if node.dtype.kind == "u" else b.op("abs", node)  # the least int keeps its one bit
    unsigned = b.cast(size, np.dtype(f"u{node.dtype.itemsize}"))
    return b.cast(formulas.FUNCTIONS["__popcll"](b, unsigned), UINT8)  # type: ignore[no-any-return]


def _expit(x: Any) -> Any:
    """``1 / (1 + exp(-x))``, of which no part overflows: where ``x < 0``, ``exp(x) / (1 + exp(x))``."""
    is_low = apply("less", (x, 0))
    part = _apply("exp", (_where(is_low, x, -x),))
    return _where(is_low, part, 1) / (part + 1)


def _xlogy(x: Any, y: Any) -> Any:
    """``x * log(y)``, and 0 where ``x`` is 0 and ``y`` no NaN; there too its slope is ``log(y)``, if that is finite."""
    slope, is_zero = apply("log", (y,)), apply("equal", (x, 0))
    is_limit = is_zero & ~_apply("isfinite", (slope,)) & ~_apply("isnan", (y,))
    product = x * _where(is_limit, 0, slope)
    return _where(is_zero, product + 0.0, product)  # no -0


_RADIANS = (np.pi, 180.0)
_COMPUTED: dict[str, tuple[np.ufunc, Callable[..., Any]]] = {
    "frexp": (np.frexp, lambda x: formulas.frexp(x.builder, x.node)),
    "modf": (np.modf, lambda x: formulas.modf(x.builder, x.node)),
    "ldexp": (np.ldexp, lambda x, exponent: formulas.ldexp(x.builder, x.node, exponent.node)),
    "heaviside": (np.heaviside, _heaviside),
    "float_power": (np.float_power, lambda x, y: apply("power", (x, y))),
    "logaddexp2": (np.logaddexp2, _logaddexp2),
    "spacing": (np.spacing, _measure_ulp),
    "bitwise_count": (np.bitwise_count, _bitwise_count),
    "expit": (np.sqrt, _expit),
    "logit": (np.sqrt, lambda x: apply("log", (x / (1 - x),))),
    "xlogy": (np.arctan2, _xlogy),
    **{name: (getattr(np, name), lambda x: _scale(x, *_RADIANS)) for name in ("deg2rad", "radians")},
    **{name: (getattr(np, name), lambda x: _scale(x, *_RADIANS[::-1])) for name in ("rad2deg", "degrees")},
}
"""By the name of the ufunc: whose dtypes, and the formula."""

_SPECIAL = {
    "erf": "erf", "erfc": "erfc", "erfcx": "erfcx", "erfinv": "erfinv", "erfcinv": "erfcinv", "ndtr": "normcdf",
    "ndtri": "normcdfinv", "gamma": "tgamma", "gammaln": "lgamma", "i0": "cyl_bessel_i0", "exp10": "exp10",
}  # fmt: skip
"""SciPy's names, and CUDA's for the formula."""


def _special(formula: str) -> Callable[[Any], Node]:
    return lambda x: formulas.lower(x.builder, formula, x.node)


COMPOSITES: dict[str, Callable[..., Any]] = {
    "divmod": _divmod,
    **{name: _composite(name, *each) for name, each in _COMPUTED.items()},
    **{name: _composite(name, np.sqrt, _special(formula)) for name, formula in _SPECIAL.items()},
}
"""By the name of the ufunc; each takes the operands, and the ufunc as ``ufunc=``."""


# --- functions of NumPy that are no ufuncs


def _angle(z: Any, deg: bool = False) -> Any:
    parts = (apply("imag", (z,)), apply("real", (z,))) if z.dtype.kind == "c" else (0, z)
    found = _apply("arctan2", parts)
    return found * (180 / np.pi) if deg else found


def _is_infinity(x: Any, side: str) -> Any:
    return _apply("isinf", (x,)) & apply(side, (x, 0))


_SINC = (1.0, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800)
"""The series in the square of a small angle, where derivatives of the quotient are differences of large numbers."""


def _sinc(x: Any) -> Any:
    angle = x * np.pi
    is_small = apply("less", (abs(angle), 0.25))
    near, divisor = _where(is_small, angle, 0), _where(is_small, 1, angle)
    square = near * near
    total: Any = _SINC[-1]
    for each in _SINC[-2::-1]:
        total = total * square + each
    return _where(is_small, total, _apply("sin", (divisor,)) / divisor)


def _nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    if kind_of(x.dtype) not in "fc":
        return Traced(x.builder, x.as_dtype(x.dtype))
    if x.dtype.kind == "c":
        parts = [_nan_to_num(apply(each, (x,)), copy, nan, posinf, neginf) for each in ("real", "imag")]
        return Traced(x.builder, x.builder.complex(*(each.node for each in parts)))
    limits = float_limits(x.dtype)
    found = _where(apply("isnan", (x,)), nan, x)
    found = _where(_is_infinity(x, "greater"), limits.max if posinf is None else posinf, found)
    found = _where(_is_infinity(x, "less"), limits.min if neginf is None else neginf, found)
    if found.dtype.kind == "c":
        raise at_user_line(KernelTypeError(f"nan_to_num({x.dtype}) takes real numbers, and a complex one is given"))
    return found.astype(x.dtype)


FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    np.where: where, np.clip: _numpys_clip, np.round: round_to_integer, np.around: round_to_integer,
    np.real: lambda x: apply("real", (x,)), np.imag: lambda x: apply("imag", (x,)),
    np.isposinf: lambda x: _is_infinity(x, "greater"), np.isneginf: lambda x: _is_infinity(x, "less"),
    np.isreal: lambda x: apply("equal", (apply("imag", (x,)), 0)),
    np.iscomplex: lambda x: apply("not_equal", (apply("imag", (x,)), 0)), np.angle: _angle,
    np.fix: lambda x: apply("trunc", (x,)), np.sinc: _sinc, np.nan_to_num: _nan_to_num,
    np.i0: lambda x: COMPOSITES["i0"](x if kind_of(x.dtype) in "fc" else x.astype(np.float64)),
}  # fmt: skip
"""By NumPy's function."""


def _fill_namespace() -> None:
    def make_caller(name: str) -> Callable[..., Traced]:
        def call(*args: Any) -> Traced:
            return apply(name, args)

        call.__name__ = call.__qualname__ = name
        call.__doc__ = f"``{name}`` of traced values and Python scalars, with NumPy's promotion."
        return call

    for name in (*functions.TABLE, *functions.ALIASES):
        setattr(NAMESPACE, name, make_caller(name))
    vars(NAMESPACE).update(COMPOSITES, astype=astype, clip=clip, where=where)


_fill_namespace()


# A Python number inside a traced kernel: an argument, or a number that Python computes from arguments.

_MOST_TEXT = 60
_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**", "and": "&",
    "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
    "ne": "!=",
}  # fmt: skip


class Number(Traced):
    """A number without a dtype: Python computes with it, and beside an array it takes the array's dtype."""

    __slots__ = ("_position", "_recording", "_text")

    def __init__(self, builder: Builder, recording: Recording, position: int, text: str) -> None:
        self.builder = builder
        self._recording = recording
        self._position = position
        self._text = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}..."

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The number as an array of it would be: int64, float64, complex128 or bool."""
        return self.as_dtype(self.dtype)

    @property
    def dtype(self) -> DType:
        return functions.PYTHON_TYPES[self.kind]

    @property
    def kind(self) -> type:
        """Its Python type, which the recording assumes from now on."""
        kind: type = self._recording.ask(self._position, type)
        return kind

    def ask(self, question: Callable[[Any], Any]) -> Any:
        """The answer of ``question`` for the number, which the recording assumes from now on."""
        return self._recording.ask(self._position, question)

    def as_dtype(self, dtype: DType) -> Node:
        """The number as a parameter of the kernel."""
        return self._recording.parameter(self._position, dtype, self._text)

    def compute(self, function: Callable[..., Any], text: str, *others: Number) -> Number:
        """``function`` of this number and others, computed by Python at each call."""
        position = self._recording.compute(function, self._position, *(each._position for each in others))
        return Number(self.builder, self._recording, position, text)

    def _compute_binary(self, function: Callable[[Any, Any], Any], symbol: str, other: Any) -> Number:
        if isinstance(other, Number):
            return self.compute(function, f"({self._text} {symbol} {other._text})", other)
        return self.compute(lambda value: function(value, other), f"({self._text} {symbol} {other!r})")

    def _compute_right(self, function: Callable[[Any, Any], Any], symbol: str, other: Any) -> Number:
        return self.compute(lambda value: function(other, value), f"({other!r} {symbol} {self._text})")

    @property
    def real(self) -> Traced:
        return self.compute(operator.attrgetter("real"), f"{self._text}.real")

    @property
    def imag(self) -> Traced:
        return self.compute(operator.attrgetter("imag"), f"{self._text}.imag")

    def conjugate(self) -> Traced:
        return self.compute(lambda value: value.conjugate(), f"{self._text}.conjugate()")

    def conj(self) -> Traced:
        return self.conjugate()

    def __round__(self, digits: int | None = None) -> Traced:
        return self.compute(lambda value: round(value, digits), f"round({self._text}, {digits})")


def _install_number_operators() -> None:
    def binary(function: Callable[[Any, Any], Any], name: str, symbol: str) -> Callable[[Number, Any], Traced]:
        def method(self: Number, other: Any) -> Traced:
            if isinstance(other, Number) or type(other) in functions.PYTHON_TYPES:
                return self._compute_binary(function, symbol, other)
            return apply(name, (self, other))

        return method

    def reflect(function: Callable[[Any, Any], Any], name: str, symbol: str) -> Callable[[Number, Any], Traced]:
        def method(self: Number, other: Any) -> Traced:
            if type(other) in functions.PYTHON_TYPES:
                return self._compute_right(function, symbol, other)
            return apply(name, (other, self))

        return method

    def unary(function: Callable[[Any], Any], text: str) -> Callable[[Number], Traced]:
        return lambda self: self.compute(function, text.format(self._text))

    for short, text in {"neg": "-{}", "pos": "+{}", "abs": "abs({})", "invert": "~{}"}.items():
        setattr(Number, f"__{short}__", unary(getattr(operator, short), text))
    for short, name in {**OPERATORS, **COMPARISONS}.items():
        function = getattr(operator, f"__{short}__")
        setattr(Number, f"__{short}__", binary(function, name, _SYMBOLS[short]))
        if short in OPERATORS:
            setattr(Number, f"__r{short}__", reflect(function, name, _SYMBOLS[short]))


_install_number_operators()


# The recording of a Python function: it runs once on traced values.


def trace(
    function: Callable[..., Any],
    positional: list[tuple[str, DType | type]],
    keywords: list[tuple[str, DType | type]],
    *,
    scalars: frozenset[str],
    numbers: dict[str, Any],
    math: str,
) -> tuple[Program, int, HostNumbers | None]:
    """Record ``function`` for these dtypes as a program: its parameters are the inputs, the numbers, the outputs.

    Args:
        function: What is recorded.
        positional: Its positional parameters with their dtypes, or the types of Python numbers.
        keywords: Its keyword-only ones.
        scalars: The names of those that are passed by value.
        numbers: By name, the value of each Python number in the call that is recorded.
        math: ``"exact"`` or ``"fast"``.

    Returns:
        The program, the number of its outputs, and what each call computes from Python numbers.
    """
    b = Builder(math=math)
    given: dict[int, Any] = {}
    for name, kind in (*positional, *keywords):
        if isinstance(kind, type):
            given[len(b.params)] = numbers.get(name, kind(1))
        dtype = functions.PYTHON_TYPES[kind] if isinstance(kind, type) else kind
        b.params.append(Param(name=name, dtype=dtype, is_scalar=name in scalars))
    recording = Recording(b, given)
    positions = {number: position for position, number in enumerate(given)}
    values = {
        param.name: Traced(b, b.load(number))
        if (position := positions.get(number)) is None
        else Number(b, recording, position, param.name)
        for number, param in enumerate(b.params)
    }
    try:
        result = function(*(values[name] for name, _ in positional), **{name: values[name] for name, _ in keywords})
    except RecursionError as error:
        raise KernelSyntaxError(
            f"{getattr(function, '__name__', 'the kernel')} recurses without end while it is traced; a condition on a "
            "traced value never ends a recursion: unroll it with a Python counter"
        ) from error
    outputs = result if isinstance(result, tuple) else (result,)
    nodes = [_output(b, value, number, function) for number, value in enumerate(outputs)]
    if not nodes:
        raise KernelTypeError(f"{_name(function)} returned an empty tuple; return one value for each output")
    first = len(b.params)
    b.params += [Param(name=f"out{number}", dtype=node.dtype) for number, node in enumerate(nodes)]
    program = b.program([Store(param=first + number, value=node) for number, node in enumerate(nodes)])
    return program, len(nodes), recording.finish()


def _output(b: Builder, value: Any, number: int, function: Callable[..., Any]) -> Node:
    if isinstance(value, Traced):
        return value.node
    if type(value) in functions.PYTHON_TYPES:
        return node_of(b, value, functions.PYTHON_TYPES[type(value)])
    if isinstance(value, np.generic):
        return b.const(value, check_number(value.dtype, what=f"output {number}"))
    raise KernelTypeError(
        f"{_name(function)} returned {type(value).__name__} as output {number}; return traced values or numbers"
    )


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", function))
