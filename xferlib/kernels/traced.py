"""The front end for Python functions: run the function once on traced values, which record the program.

Promotion is NumPy's (NEP 50): a Python scalar takes the dtype of what it meets. Python's own control
flow cannot be recorded, so that asking a traced value for its truth is an error at the user's line.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from xferlib.errors import KernelError, KernelSyntaxError, KernelTypeError
from xferlib.kernels import functions, types
from xferlib.kernels.functions import Function
from xferlib.kernels.host_numbers import converted
from xferlib.kernels.ir import (
    BOOL,
    INT64,
    UINT64,
    Builder,
    DType,
    Node,
    is_integer,
)
from xferlib.kernels.source_lines import at_user_line

OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip


class Traced:
    """A value inside a traced kernel."""

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
        """What promotion sees: the dtype, or the type of a Python number."""
        return self.dtype

    def as_dtype(self, dtype: DType) -> Node:
        """The value converted."""
        return self.builder.cast(self.node, dtype)

    @property
    def real(self) -> Traced:
        return apply("real", (self,))

    @property
    def imag(self) -> Traced:
        return apply("imag", (self,))

    def conj(self) -> Traced:
        return apply("conj", (self,))

    def astype(self, dtype: Any) -> Traced:
        return astype(self, dtype)

    def clip(self, min: Any = None, max: Any = None) -> Traced:  # noqa: A002 - the Array API's names
        return clip(self, min, max)

    def __neg__(self) -> Traced:
        return apply("negative", (self,))

    def __pos__(self) -> Traced:
        return apply("positive", (self,))

    def __abs__(self) -> Traced:
        return apply("absolute", (self,))

    def __invert__(self) -> Traced:
        return apply("invert", (self,))

    def __round__(self, digits: int | None = None) -> Traced:
        if digits:
            _refuse(self, f"round(x, {digits})", "scale, round and scale back")
        return rounded(self)

    def __bool__(self) -> NoReturn:  # noqa: PLE0304 - raises
        _refuse(self, "if, while, and, or, not", "use where(condition, a, b), & , | and ~")

    def __float__(self) -> NoReturn:
        _refuse(self, "float()", "use astype('float64')")

    def __int__(self) -> NoReturn:
        _refuse(self, "int()", "use astype('int64')")

    def __complex__(self) -> NoReturn:
        _refuse(self, "complex()", "use astype('complex128')")

    def __index__(self) -> NoReturn:  # noqa: PLE0305 - raises
        _refuse(self, "range() or an index", "use arithmetic on the values")

    def __iter__(self) -> NoReturn:
        _refuse(self, "iteration or unpacking", "a kernel sees one element at a time")

    def __len__(self) -> NoReturn:  # noqa: PLE0303 - raises
        _refuse(self, "len()", "a kernel sees one element at a time")

    def __getitem__(self, key: object) -> NoReturn:
        _refuse(self, "indexing", "a kernel sees one element at a time; a C snippet has raw parameters")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(self, "conversion to an array", "call only element-wise functions")

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        from xferlib.kernels import trace_math

        return trace_math

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Traced:
        if method != "__call__" or options:
            _refuse(self, f"numpy.{ufunc.__name__}.{method} with {sorted(options)}", "call the plain ufunc")
        # A NumPy scalar on the left of a comparison comes as an array without dimensions.
        plain = (each[()] if isinstance(each, np.ndarray) and each.ndim == 0 else each for each in inputs)
        return apply(ufunc.__name__, tuple(plain))

    def __array_function__(self, function: Callable[..., Any], kinds: Any, args: Any, options: Any) -> Traced:
        supported: list[tuple[Any, Callable[..., Traced]]] = [
            (np.where, where), (np.clip, clip), (np.real, _real), (np.imag, _imag), (np.round, rounded),
            (np.around, rounded),
        ]  # fmt: skip
        found = next((ours for theirs, ours in supported if theirs is function), None)
        if found is None:
            _refuse(self, f"numpy.{function.__name__}", "call only element-wise functions")
        return found(*args, **options)


def _real(x: Traced) -> Traced:
    return apply("real", (x,))


def _imag(x: Traced) -> Traced:
    return apply("imag", (x,))


def rounded(x: Traced, decimals: int = 0) -> Traced:
    """The nearest integer, of the dtype of ``x``."""
    if decimals:
        _refuse(x, f"round(x, {decimals})", "scale, round and scale back")
    return apply("positive" if is_integer(x.dtype) else "rint", (x,))


def _install_operators() -> None:
    def binary(name: str) -> Callable[[Traced, Any], Traced]:
        return lambda self, other: apply(name, (self, other))

    def reflected(name: str) -> Callable[[Traced, Any], Traced]:
        return lambda self, other: apply(name, (other, self))

    for operation, name in OPERATORS.items():
        setattr(Traced, f"__{operation}__", binary(name))
        setattr(Traced, f"__r{operation}__", reflected(name))
    for operation, name in COMPARISONS.items():
        setattr(Traced, f"__{operation}__", binary(name))


_install_operators()


def _refuse(value: Traced, what: str, remedy: str) -> NoReturn:
    raise at_user_line(
        KernelSyntaxError(
            f"{what} needs the value of an element, but a traced kernel is recorded once for all ({value.dtype}); "
            f"{remedy}"
        )
    )


def _operand(value: Any, name: str) -> DType | type:
    if isinstance(value, Traced):
        kind = value.kind
        return BOOL if kind is bool else kind
    if type(value) is bool or isinstance(value, np.bool_):
        return BOOL
    if type(value) in types.PYTHON_TYPES:
        return type(value)
    if isinstance(value, np.generic):
        return value.dtype
    raise at_user_line(
        KernelTypeError(
            f"{name} got {type(value).__name__}; inside a kernel only its parameters, Python numbers and NumPy scalars "
            "take part: pass arrays as arguments"
        )
    )


def _builder(args: tuple[Any, ...], name: str) -> Builder:
    for each in args:
        if isinstance(each, Traced):
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
        return b.const(converted(value, dtype, "the Python number"), dtype)
    except KernelTypeError as error:
        raise at_user_line(error) from None


def apply(name: str, args: tuple[Any, ...]) -> Traced:
    """Function ``name`` of traced values and scalars, promoted as NumPy does."""
    b = _builder(args, name)
    function = functions.find(name)
    if function is None:
        raise at_user_line(
            KernelTypeError(f"no kernel function {name!r}; known are {', '.join(sorted(functions.TABLE))}")
        )
    if len(args) != function.arity:
        raise at_user_line(
            KernelTypeError(f"{name}() takes {function.arity} operand(s), {len(args)} were given; see the reference")
        )
    operands = tuple(_operand(each, name) for each in args)
    try:
        if not any(isinstance(each, np.dtype) for each in operands):  # as NumPy's function of Python numbers: of arrays
            operands = tuple(each if isinstance(each, np.dtype) else types.PYTHON_TYPES[each] for each in operands)
        special = _special(b, function, args, operands)
        if special is not None:
            return special
        loop = types.numpy_loop(function, operands)
        nodes = [node_of(b, each, dtype) for each, dtype in zip(args, loop, strict=True)]
    except KernelError as error:
        raise at_user_line(error) from None
    return Traced(b, function.lowering(b, *nodes))


def _special(b: Builder, function: Function, args: tuple[Any, ...], operands: tuple[Any, ...]) -> Traced | None:
    """What promotion alone does not say: powers of integers, and comparison across integer ranges."""
    if function.name == "power":
        return _constant_power(b, args, operands)
    if function.name not in COMPARISONS.values():
        return None
    for position in (0, 1):
        value, other = args[position], operands[1 - position]
        if operands[position] is int and isinstance(other, np.dtype) and other.kind in "biu":
            side = _asked(value, _side_of(INT64 if other == BOOL else other))
            if side:
                return _compare_out_of_range(b, function, side, position)
    kinds = [each.kind for each in operands if isinstance(each, np.dtype)]
    if UINT64 in operands and "i" in kinds:
        return _compare_signs(b, function, args, kinds.index("i"))
    return None


def _asked(value: Any, question: Callable[[Any], Any]) -> Any:
    """What ``question`` answers for a Python number of the function, or of the call."""
    if not isinstance(value, Traced):
        return question(value)
    number: Any = value
    return number.asked(question)


@functools.cache
def _side_of(dtype: DType) -> Callable[[int], int]:
    """The function that says on which side of the range of ``dtype`` an int lies: -1, 0 (in it) or 1."""
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    return lambda value: (value > high) - (value < low)


def _is_negative(value: int) -> bool:
    return value < 0


def _constant_power(b: Builder, args: tuple[Any, ...], operands: tuple[Any, ...]) -> Traced | None:
    """Exponents whose correctly rounded power is one operation; a negative one of integers is an error."""
    base, exponent = args
    dtype = operands[0]
    is_number = not isinstance(exponent, Traced) or isinstance(exponent.kind, type)
    if operands[1] not in (int, INT64) or not is_number or isinstance(exponent, np.generic):
        return None
    if (isinstance(dtype, np.dtype) and dtype.kind in "biu") or dtype is int:
        if _asked(exponent, _is_negative):
            raise KernelTypeError(f"{dtype} to a negative power is no integer; convert the base with astype first")
    if isinstance(exponent, Traced) or not isinstance(base, Traced) or isinstance(base.kind, type) or dtype == BOOL:
        return None
    if is_integer(dtype):
        converted(exponent, dtype, "the exponent")
        return _integer_power(b, base, exponent)
    shortcuts = {2: "square", -1: "reciprocal", 1: "positive"}
    if dtype.kind in "fc" and exponent in shortcuts:
        return apply(shortcuts[exponent], (base,))
    return None


def _integer_power(b: Builder, base: Traced, exponent: int) -> Traced:
    result, square = b.const(1, base.dtype), base.node
    while exponent:
        if exponent & 1:
            result = b.op("mul", result, square)
        exponent >>= 1
        if exponent:
            square = b.op("mul", square, square)
    return Traced(b, result)


def _compare_signs(b: Builder, function: Function, args: tuple[Any, ...], signed: int) -> Traced:
    """A signed integer beside uint64, by value: a negative number is below every unsigned one."""
    node = node_of(b, args[signed], INT64)
    is_negative = b.op("lt", node, b.const(0, INT64))
    sides = [b.cast(node, UINT64)] * 2
    sides[1 - signed] = node_of(b, args[1 - signed], UINT64)
    if function.name in ("equal", "not_equal"):
        when_negative = function.name == "not_equal"
    else:
        when_negative = function.name.startswith("less") == (signed == 0)
    return Traced(b, b.select(is_negative, b.const(when_negative, BOOL), function.lowering(b, *sides)))


def _compare_out_of_range(b: Builder, function: Function, side: int, position: int) -> Traced:
    """Compared with a Python integer beyond the dtype, every element gives the same answer."""
    name = next(key for key, full in COMPARISONS.items() if full == function.name)
    sides = (side, 0) if position == 0 else (0, side)
    return Traced(b, b.const(getattr(operator, name)(*sides), BOOL))


def where(condition: Any, yes: Any, no: Any) -> Traced:
    """``yes`` where ``condition`` is true, else ``no``; the common dtype of the two."""
    args = (condition, yes, no)
    b = _builder(args, "where")
    try:
        dtype = types.numpy_common((_operand(yes, "where"), _operand(no, "where")))
        kind = _operand(condition, "where")
    except TypeError as error:
        raise at_user_line(KernelTypeError(f"where: {error}")) from None
    test = node_of(b, condition, BOOL) if isinstance(kind, type) else b.truth(node_of(b, condition, kind))
    return Traced(b, b.select(test, node_of(b, yes, dtype), node_of(b, no, dtype)))


def clip(x: Any, min: Any = None, max: Any = None) -> Traced:  # noqa: A002 - the Array API's names
    """``minimum(maximum(x, min), max)``; a bound of None does nothing."""
    result = x if min is None else apply("maximum", (x, min))
    if max is not None:
        return apply("minimum", (result, max))
    return Traced(_builder((result,), "clip"), node_of(result.builder, result, result.dtype))


def astype(x: Any, dtype: Any) -> Traced:
    """``x`` converted: floats to integers saturate, NaN gives 0."""
    from xferlib._array import check_dtype

    b = _builder((x,), "astype")
    return Traced(b, b.cast(x.node, check_dtype(dtype, what="astype")))
