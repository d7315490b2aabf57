"""The names of the element-wise functions and reductions, and the operators and methods that stand for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xferlib._core.array import Array

UNARY: tuple[str, ...] = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_invert", "ceil", "conj", "cos", "cosh", "exp",
    "expm1", "floor", "imag", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2", "logical_not", "negative",
    "positive", "real", "reciprocal", "round", "sign", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh",
    "trunc",
)  # fmt: skip
BINARY: tuple[str, ...] = (
    "add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "copysign", "divide", "equal", "floor_divide", "greater", "greater_equal", "hypot", "less", "less_equal",
    "logaddexp", "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "nextafter",
    "not_equal", "pow", "remainder", "subtract",
)  # fmt: skip
REDUCTIONS = ("all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min")
ACCUMULATIONS = ("prod", "sum")
DEVIATIONS = ("std", "var")

BINARY_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
UNARY_OPERATORS = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}
METHODS = ("all", "any", "argmax", "argmin", "max", "mean", "min", "prod", "std", "sum", "var")
"""The reductions that are methods too."""

Method = Callable[..., Any]


def operators(namespace: Any, in_place: Callable[[str], Method]) -> dict[str, Method]:
    """The operators of an array type, by their special names.

    Args:
        namespace: The functions that they call.
        in_place: Makes the function ``target = name(target, other)`` in place.
    """
    found: dict[str, Method] = {}
    for operator, name in {**UNARY_OPERATORS, **BINARY_OPERATORS, **COMPARISONS, "matmul": "matmul"}.items():
        function = getattr(namespace, name)
        found[f"__{operator}__"] = function
        if operator not in UNARY_OPERATORS and operator not in COMPARISONS:
            found[f"__r{operator}__"] = _swapped(function)
    return found | {f"__i{operator}__": in_place(name) for operator, name in BINARY_OPERATORS.items()}


def reductions(namespace: Any) -> dict[str, Method]:
    """The methods that reduce an array, by name."""
    return {name: _reduction(name, getattr(namespace, name)) for name in METHODS}


def _swapped(function: Method) -> Method:
    return lambda self, other: function(other, self)


def _reduction(name: str, function: Method) -> Method:
    def method(self: Array, axis: Any = None, **options: Any) -> Array:
        return function(self, axis=axis, **options)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"``{name}`` of the namespace, over ``axis``; options as there."
    return method
