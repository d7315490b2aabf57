"""The Python numbers of a traced kernel: what Python computes of them at each call, and how they reach the kernel.

An expression of Python numbers alone is Python's: ``2**n`` is an int or, of a negative ``n``, a float. So it is
computed on the host, with the values of the call, and what meets an array becomes a parameter of the kernel, of the
dtype that the array gives it (NEP 50). The kernel is recorded for the types that these values have; where another
call gives others, it is recorded once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xferlib.errors import KernelTypeError
from xferlib.kernels.ir import types
from xferlib.kernels.ir.nodes import BOOL, Builder, DType, Node, Param, is_complex, is_integer

MOST_VARIANTS = 8
"""Recordings that are kept for one combination of argument types."""

Run = Callable[[Any, list[Any]], Any]


class OtherNumbersError(Exception):
    """The numbers of a call are not of the kind for which the kernel was recorded."""


class Step(NamedTuple):
    """A number computed from others: a function of the numbers in these places."""

    function: Callable[..., Any]
    operands: tuple[int, ...]


class Use(NamedTuple):
    """A parameter of the kernel: the number in ``place``, converted to ``dtype``."""

    place: int
    dtype: DType
    text: str


class Assumption(NamedTuple):
    """What the recording took for granted of the number in ``place``."""

    place: int
    question: Callable[[Any], Any]
    answer: Any


class Recording:
    """The numbers of one recording: first those given, by parameter, then those computed.

    Args:
        builder: Of the program, whose parameters are its inputs so far.
        given: The value of each input that is a Python number.
    """

    def __init__(self, builder: Builder, given: dict[int, Any]) -> None:
        self.sources = list(given)
        self.values: list[Any] = list(given.values())
        self._builder = builder
        self._first = len(builder.params)
        self._uses: dict[tuple[int, DType], Use] = {}
        self._steps: list[Step] = []
        self._guards: dict[tuple[int, Any], Assumption] = {}

    def compute(self, function: Callable[..., Any], *operands: int) -> int:
        """The place of ``function`` of the numbers in these places."""
        self.values.append(function(*(self.values[each] for each in operands)))
        self._steps.append(Step(function, operands))
        return len(self.values) - 1

    def ask(self, place: int, question: Callable[[Any], Any]) -> Any:
        """What ``question`` answers for the number in ``place``: at each call as now."""
        answer = question(self.values[place])
        if question is not type or place >= len(self.sources):  # the type of an argument chooses the recording already
            self._guards[place, question] = Assumption(place, question, answer)
        return answer

    def parameter(self, place: int, dtype: DType, text: str) -> Node:
        """The number in ``place`` as a scalar parameter of ``dtype``; ``text`` is how the function writes it."""
        if (place, dtype) not in self._uses:
            converted(self.values[place], dtype, text)  # an error belongs to the line that is being recorded
            self._uses[place, dtype] = Use(place, dtype, text)
            self._builder.params.append(Param(name=text, dtype=dtype, is_scalar=True))
        return self._builder.load(self._first + list(self._uses).index((place, dtype)))

    def finished(self) -> HostNumbers | None:
        """What each call does; None of a kernel without numbers."""
        if not self.sources:
            return None
        uses, guards = tuple(self._uses.values()), tuple(self._guards.values())
        return HostNumbers(self._first, tuple(self.sources), tuple(self._steps), uses, guards)


class HostNumbers:
    """The numbers that a call computes, and puts behind its inputs as parameters of the kernel."""

    def __init__(
        self,
        first: int,
        sources: tuple[int, ...],
        steps: tuple[Step, ...],
        uses: tuple[Use, ...],
        guards: tuple[Assumption, ...],
    ) -> None:
        self.first = first
        self.count = len(uses)
        self._sources = sources
        self._steps = steps
        self._uses = uses
        self.guards = guards

    def computed(self, arguments: Sequence[Any]) -> list[np.generic]:
        """The values of the parameters for the arguments of a call.

        Raises:
            OtherNumbersError: They are of another kind than the kernel was recorded for.
            KernelTypeError: One is out of range for the dtype of the array that it meets.
        """
        numbers = [arguments[each] for each in self._sources]
        for function, operands in self._steps:
            numbers.append(function(*[numbers[each] for each in operands]))
        for place, question, answer in self.guards:
            if question(numbers[place]) != answer:
                raise OtherNumbersError
        return [converted(numbers[place], dtype, text) for place, dtype, text in self._uses]

    def expanded(self, arguments: Sequence[Any], computed: list[np.generic]) -> list[Any]:
        """The arguments with the numbers in their places; the kernel reads those given no more."""
        result = list(arguments)
        for each in self._sources:
            result[each] = _NOTHING[type(arguments[each])]
        result[self.first : self.first] = computed
        return result

    def moved(self, number: int) -> int:
        """The parameter for argument ``number``."""
        return number if number < self.first else number + self.count

    def running(self, run: Run) -> Run:
        """``run``, which takes the parameters of the kernel, for the arguments of a call."""

        def call(given: Any, values: list[Any]) -> Any:
            computed = self.computed(given)
            return run(self.expanded(given, computed), self.expanded(values, computed))

        return Variants([call]) if self.guards else call


class Variants:
    """The runs of one kernel for arguments of one kind, whose numbers differ in kind."""

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs

    @staticmethod
    def joined(first: Any, others: Any) -> Variants:
        return Variants([*first.runs, *others.runs][:MOST_VARIANTS])

    def __call__(self, given: Any, values: list[Any]) -> Any:
        for run in self.runs:
            try:
                return run(given, values)
            except OtherNumbersError:
                continue
        raise OtherNumbersError


_NOTHING: dict[type, np.generic] = {kind: dtype.type(0) for kind, dtype in types.PYTHON_TYPES.items()}


def converted(value: Any, dtype: DType, text: str) -> np.generic:
    """A Python number as ``dtype``, as NumPy converts it beside an array; ``text`` says what it is.

    Raises:
        KernelTypeError: NumPy would refuse it, for it is out of range.
    """
    if dtype == BOOL:
        return np.bool_(bool(value))
    if is_integer(dtype):
        if not types.fits(value, dtype):
            raise KernelTypeError(
                f"{text} is {shown(value)}, out of range for {dtype}, the dtype of what it meets; convert that first, "
                "with astype(...)"
            )
    elif type(value) is int and not is_complex(dtype):
        try:
            value = float(value)
        except OverflowError:
            raise KernelTypeError(
                f"{text} is {shown(value)}, beyond every float; pass a smaller number, or a float"
            ) from None
    with np.errstate(all="ignore"):
        result: np.generic = dtype.type(value)
    return result


def shown(value: Any) -> str:
    """A number for a message; a long one by its size."""
    if type(value) is int and value.bit_length() > 128:
        return f"an int of {value.bit_length()} bits"
    return repr(value)
