"""Random element-wise expressions, as each library writes them.

An expression is an input's name, a number, or a tuple of a function's name and its operands; the names are those that
NumPy, CuPy and PyTorch share. What would magnify rounding errors without limit is not drawn: a divisor and what is
under a root is at least 1, an exponent negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from xferlib._cli.bench.libraries import HostArray

Expression: TypeAlias = "str | float | tuple[Any, ...]"
NAMES = ("x", "y", "z")
_BINARY = {
    "f": ("add", "subtract", "multiply", "maximum", "minimum", "divide"),
    "i": ("add", "subtract", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_xor"),
    "b": ("bitwise_and", "bitwise_or", "bitwise_xor"),
    "c": ("add", "subtract", "multiply"),
}
_UNARY = ("exp", "sqrt", "log1p", "tanh", "sin", "cos", "half", "more")
_INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "bitwise_and": "&", "bitwise_or": "|",
    "bitwise_xor": "^",
}  # fmt: skip
_EXTREMA = {"maximum": ">", "minimum": "<"}


def drawn(chance: np.random.Generator, names: tuple[str, ...], kind: str, narrow: tuple[str, ...]) -> Expression:
    """An expression that uses every name.

    Args:
        chance: Draws it.
        names: Of the inputs.
        kind: The letter of the result's dtype: f, i, b or c.
        narrow: The inputs of a narrower dtype, which are added to the first one: alone they would overflow.
    """

    def leaf(name: str) -> Expression:
        return ("add", name, names[0]) if name in narrow else name

    parts = [leaf(name) for name in names]
    parts += [leaf(str(chance.choice(names))) for _ in range(int(chance.integers(0, 3)))]
    if kind == "b" or (kind == "c" and len(parts) == 1):
        parts.append(leaf(names[0]))
    if kind in "fi":
        parts = [_unary(chance, part, kind) if chance.random() < 0.4 else part for part in parts]
    while len(parts) > 1:
        one, two = (parts.pop(int(chance.integers(len(parts)))) for _ in range(2))
        function = str(chance.choice(_BINARY[kind]))
        parts.append((function, one, ("add", ("abs", two), 1) if function == "divide" else two))
    if isinstance(parts[0], str) or (kind in "fi" and chance.random() < 0.3):
        return _unary(chance, parts[0], kind)
    return parts[0]


def _unary(chance: np.random.Generator, operand: Expression, kind: str) -> Expression:
    if kind != "f":
        return (("multiply", operand, 3), ("add", operand, 7))[int(chance.integers(2))]
    function = str(chance.choice(_UNARY))
    forms: dict[str, Expression] = {
        "exp": ("exp", ("negative", ("abs", operand))),
        "sqrt": ("sqrt", ("add", ("abs", operand), 1)),
        "log1p": ("log1p", ("abs", operand)),
        "half": ("multiply", operand, 0.5),
        "more": ("add", operand, 0.25),
    }
    return forms.get(function, (function, operand))


def text(expression: Expression, out: str = "") -> str:
    """The expression in Python, with functions of a module ``m``; ``out`` names an array for the result."""
    if not isinstance(expression, tuple):
        return str(expression)
    function, *operands = expression
    given = [text(each) for each in operands] + ([f"out={out}"] if out else [])
    return f"m.{function}({', '.join(given)})"


def function(source: str, module: Any, names: tuple[str, ...]) -> Callable[..., Any]:
    """A Python function of these names that returns ``source``, whose ``m`` is the module."""
    made: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {source}", {"m": module})  # noqa: S307 - drawn above
    made.__name__ = "sweep"
    return made


def c_text(expression: Expression, ctype: str) -> str:
    """The expression in CUDA C++, each step rounded to the type."""
    if not isinstance(expression, tuple):
        return f"(({ctype}){expression})"
    function, *operands = expression
    given = [c_text(each, ctype) for each in operands]
    if function in _INFIX:
        return f"(({ctype})({given[0]} {_INFIX[function]} {given[1]}))"
    if function in _EXTREMA:
        return f"({given[0]} {_EXTREMA[function]} {given[1]} ? {given[0]} : {given[1]})"
    if function == "negative":
        return f"(-{given[0]})"
    return f"{function}({given[0]})"


def numexpr_text(expression: Expression) -> str:
    """The expression for numexpr; numbers are called c3 and c0_5, for only arrays keep their dtype."""
    if isinstance(expression, str):
        return expression
    if not isinstance(expression, tuple):
        return number_name(expression)
    function, *operands = expression
    given = [numexpr_text(each) for each in operands]
    if function in _INFIX:
        return f"({given[0]} {_INFIX[function]} {given[1]})"
    if function in _EXTREMA:
        return f"where({given[0]} {_EXTREMA[function]} {given[1]}, {given[0]}, {given[1]})"
    return f"(-{given[0]})" if function == "negative" else f"{function}({given[0]})"


def number_name(number: float) -> str:
    """The name of a number for numexpr."""
    return "c" + str(number).replace(".", "_")


def numbers(expression: Expression) -> set[float]:
    """The numbers in the expression."""
    if isinstance(expression, tuple):
        return {number for each in expression[1:] for number in numbers(each)}
    return set() if isinstance(expression, str) else {expression}


def functions(expression: Expression) -> set[str]:
    """The names of the functions in the expression."""
    if not isinstance(expression, tuple):
        return set()
    return {str(expression[0])}.union(*(functions(each) for each in expression[1:]))


def evaluated(expression: Expression, inputs: dict[str, HostArray], largest: list[float]) -> Any:
    """The values by NumPy, step for step; ``largest[0]`` becomes the largest size of all steps, if it was smaller."""
    if isinstance(expression, str):
        return inputs[expression]
    if not isinstance(expression, tuple):
        return expression
    operands = [evaluated(each, inputs, largest) for each in expression[1:]]
    value = getattr(np, expression[0])(*operands)
    if value.dtype.kind in "fc" and value.size:
        largest[0] = max(largest[0], float(np.abs(value).max()))
    return value
