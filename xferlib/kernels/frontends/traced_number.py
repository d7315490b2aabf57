"""A Python number inside a traced kernel: an argument, or a number that Python computes from arguments."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from xferlib.kernels.frontends.host_numbers import Recording
from xferlib.kernels.frontends.promotion import COMPARISONS
from xferlib.kernels.frontends.traced import OPERATORS, Traced, apply
from xferlib.kernels.ir import types
from xferlib.kernels.ir.nodes import Builder, DType, Node

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
        return types.PYTHON_TYPES[self.kind]

    @property
    def kind(self) -> type:
        """Its Python type, which the recording assumes from now on."""
        kind: type = self._recording.ask(self._position, type)
        return kind

    def asked(self, question: Callable[[Any], Any]) -> Any:
        """The answer of ``question`` for the number, which the recording assumes from now on."""
        return self._recording.ask(self._position, question)

    def as_dtype(self, dtype: DType) -> Node:
        """The number as a parameter of the kernel."""
        return self._recording.parameter(self._position, dtype, self._text)

    def computed(self, function: Callable[..., Any], text: str, *others: Number) -> Number:
        """``function`` of this number and others, computed by Python at each call."""
        position = self._recording.compute(function, self._position, *(each._position for each in others))
        return Number(self.builder, self._recording, position, text)

    def _binary(self, function: Callable[[Any, Any], Any], symbol: str, other: Any) -> Number:
        if isinstance(other, Number):
            return self.computed(function, f"({self._text} {symbol} {other._text})", other)
        return self.computed(lambda value: function(value, other), f"({self._text} {symbol} {other!r})")

    def _reflected(self, function: Callable[[Any, Any], Any], symbol: str, other: Any) -> Number:
        return self.computed(lambda value: function(other, value), f"({other!r} {symbol} {self._text})")

    @property
    def real(self) -> Traced:
        return self.computed(operator.attrgetter("real"), f"{self._text}.real")

    @property
    def imag(self) -> Traced:
        return self.computed(operator.attrgetter("imag"), f"{self._text}.imag")

    def conjugate(self) -> Traced:
        return self.computed(lambda value: value.conjugate(), f"{self._text}.conjugate()")

    def conj(self) -> Traced:
        return self.conjugate()

    def __neg__(self) -> Traced:
        return self.computed(operator.neg, f"-{self._text}")

    def __pos__(self) -> Traced:
        return self.computed(operator.pos, f"+{self._text}")

    def __abs__(self) -> Traced:
        return self.computed(abs, f"abs({self._text})")

    def __invert__(self) -> Traced:
        return self.computed(operator.invert, f"~{self._text}")

    def __round__(self, digits: int | None = None) -> Traced:
        return self.computed(lambda value: round(value, digits), f"round({self._text}, {digits})")


def _install_operators() -> None:
    def binary(function: Callable[[Any, Any], Any], name: str, symbol: str) -> Callable[[Number, Any], Traced]:
        def method(self: Number, other: Any) -> Traced:
            if isinstance(other, Number) or type(other) in types.PYTHON_TYPES:
                return self._binary(function, symbol, other)
            return apply(name, (self, other))

        return method

    def reflected(function: Callable[[Any, Any], Any], name: str, symbol: str) -> Callable[[Number, Any], Traced]:
        def method(self: Number, other: Any) -> Traced:
            if type(other) in types.PYTHON_TYPES:
                return self._reflected(function, symbol, other)
            return apply(name, (other, self))

        return method

    for short, name in {**OPERATORS, **COMPARISONS}.items():
        function = getattr(operator, f"__{short}__")
        setattr(Number, f"__{short}__", binary(function, name, _SYMBOLS[short]))
        if short in OPERATORS:
            setattr(Number, f"__r{short}__", reflected(function, name, _SYMBOLS[short]))


_install_operators()
