"""Promotion in traced kernels, as in NumPy (NEP 50): a Python scalar takes the dtype of the array beside it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib.errors import KernelError, KernelSyntaxError, KernelTypeError
from xferlib.kernels.frontends.host_numbers import converted
from xferlib.kernels.ir import functions, types
from xferlib.kernels.ir.functions import Function
from xferlib.kernels.ir.nodes import BOOL, INT64, MOST_STEPS, UINT64, Builder, DType, Node, is_integer
from xferlib.kernels.source_lines import at_user_line

_CALL = 10
"""The work of a function of traced values, beside the nodes that it makes."""
COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip


class Value:
    """A value inside a traced kernel, with the dtype that promotion reads."""

    __slots__ = ("builder", "node")

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


def operand_kind(value: Any, name: str) -> DType | type:
    """The kind of an operand of function ``name`` in promotion: a dtype, or the type of a Python number."""
    if isinstance(value, Value):
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


def builder_of(args: tuple[Any, ...], name: str) -> Builder:
    """The builder of the traced values among the operands of function ``name``."""
    for each in args:
        if isinstance(each, Value):
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
    if isinstance(value, Value):
        return value.as_dtype(dtype)
    if isinstance(value, np.generic):
        return b.cast(b.const(value, value.dtype), dtype)
    try:
        return b.const(converted(value, dtype, "the Python number"), dtype)
    except KernelTypeError as error:
        raise at_user_line(error) from None


def node_of_call(b: Builder, name: str, args: tuple[Any, ...]) -> Node:
    """Function ``name`` of traced values and scalars, promoted as NumPy does."""
    function = functions.find(name)
    if function is None:
        raise at_user_line(
            KernelTypeError(f"no kernel function {name!r}; known are {', '.join(sorted(functions.TABLE))}")
        )
    if len(args) != function.arity:
        raise at_user_line(
            KernelTypeError(f"{name}() takes {function.arity} operand(s), {len(args)} were given; see the reference")
        )
    operands = tuple(operand_kind(each, name) for each in args)
    try:
        if not any(isinstance(each, np.dtype) for each in operands):  # NumPy's function makes arrays of Python numbers
            operands = tuple(each if isinstance(each, np.dtype) else types.PYTHON_TYPES[each] for each in operands)
        special = _special(b, function, args, operands)
        if special is not None:
            return special
        loop = types.numpy_loop(function, operands)
        nodes = [node_of(b, each, dtype) for each, dtype in zip(args, loop, strict=True)]
    except KernelError as error:
        raise at_user_line(error) from None
    return function.lowering(b, *nodes)


def _special(b: Builder, function: Function, args: tuple[Any, ...], operands: tuple[Any, ...]) -> Node | None:
    """Handle the cases that promotion alone does not decide: integer powers, comparisons across integer ranges."""
    if function.name == "power":
        return _constant_power(b, args, operands)
    if function.name not in COMPARISONS.values():
        return None
    for position in (0, 1):
        value, other = args[position], operands[1 - position]
        if operands[position] is int and isinstance(other, np.dtype) and other.kind in "biu":
            side = asked(value, _side_of(INT64 if other == BOOL else other))
            if side:
                return _compare_out_of_range(b, function, side, position)
    kinds = [each.kind for each in operands if isinstance(each, np.dtype)]
    if UINT64 in operands and "i" in kinds:
        return _compare_signs(b, function, args, kinds.index("i"))
    return None


def asked(value: Any, question: Callable[[Any], Any]) -> Any:
    """The answer of ``question`` for a Python number, a literal or an argument; a recording assumes it."""
    if not isinstance(value, Value):
        return question(value)
    number: Any = value
    return number.asked(question)


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
    is_number = not isinstance(exponent, Value) or isinstance(exponent.kind, type)
    if operands[1] not in (int, INT64) or not is_number or isinstance(exponent, np.generic):
        return None
    if (isinstance(dtype, np.dtype) and dtype.kind in "biu") or dtype is int:
        if asked(exponent, _is_negative):
            raise KernelTypeError(f"{dtype} to a negative power is no integer; convert the base with astype first")
    if isinstance(exponent, Value) or not isinstance(base, Value) or isinstance(base.kind, type) or dtype == BOOL:
        return None
    if is_integer(dtype):
        converted(exponent, dtype, "the exponent")
        return _integer_power(b, base, exponent)
    shortcuts = {2: "square", -1: "reciprocal", 1: "positive"}
    if dtype.kind in "fc" and exponent in shortcuts:
        return node_of_call(b, shortcuts[exponent], (base,))
    return None


def _integer_power(b: Builder, base: Value, exponent: int) -> Node:
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
