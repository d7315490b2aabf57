"""The operators of arrays: each the function of the Array API that it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xferlib.sim import elementwise, namespace
from xferlib.sim.arrays import SimArray

_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
_COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
_UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}


def _swapped(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: function(other, self)


def install() -> None:
    """Give `SimArray` its operators, which are functions over it."""
    for operator, name in {**_UNARY, **_BINARY, **_COMPARISONS, "matmul": "matmul"}.items():
        function = getattr(namespace, name)
        setattr(SimArray, f"__{operator}__", function)
        if operator not in _UNARY and operator not in _COMPARISONS:
            setattr(SimArray, f"__r{operator}__", _swapped(function))
    for operator, name in _BINARY.items():
        setattr(SimArray, f"__i{operator}__", elementwise.in_place(name))
