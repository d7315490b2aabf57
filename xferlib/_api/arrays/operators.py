"""The names of the reductions, and the operators and methods that stand for functions of a namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xferlib._core.array import BINARY_OPERATORS, COMPARISONS, UNARY_OPERATORS, Array

REDUCTIONS = ("all", "any", "argmax", "argmin", "count_nonzero", "max", "mean", "min")
ACCUMULATIONS = ("prod", "sum")
DEVIATIONS = ("std", "var")

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
        found[f"__{operator}__"] = _equality(function) if operator in ("eq", "ne") else function
        if operator not in UNARY_OPERATORS and operator not in COMPARISONS:
            found[f"__r{operator}__"] = _swapped(function)
    floor_divide, remainder = namespace.floor_divide, namespace.remainder
    found["__divmod__"] = lambda self, other: (floor_divide(self, other), remainder(self, other))
    found["__rdivmod__"] = lambda self, other: (floor_divide(other, self), remainder(other, self))
    return found | {f"__i{operator}__": in_place(name) for operator, name in BINARY_OPERATORS.items()}


def _equality(function: Method) -> Method:
    """An operator that leaves what is no number to Python, for which it is not equal."""

    def operator(self: Array, other: Any) -> Any:
        return NotImplemented if other is None or type(other) is str else function(self, other)

    return operator


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
