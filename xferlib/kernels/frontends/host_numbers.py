"""The Python numbers of a traced kernel: Python computes with them at each call and passes the results as parameters.

An expression of Python numbers alone follows Python's rules: ``2**n`` is an int or, for a negative ``n``, a float.
So each call computes it on the host, and a number that meets an array becomes a parameter of the kernel, of the
dtype that the array gives it (NEP 50). A recording assumes the types that these values have; a call with other
types is recorded anew.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from xferlib.errors import KernelRangeError
from xferlib.kernels.ir import types
from xferlib.kernels.ir.nodes import BOOL, Builder, DType, Node, Param, is_complex, is_integer

MOST_VARIANTS = 8
"""Recordings that are kept for one combination of argument types."""

Run = Callable[[Any, list[Any]], Any]


class OtherNumbersError(Exception):
    """The numbers of a call break an assumption of the recording."""


class Step(NamedTuple):
    """A number computed from others: a function of the numbers at the positions ``operands``."""

    function: Callable[..., Any]
    operands: tuple[int, ...]


class Use(NamedTuple):
    """A parameter of the kernel: the number at ``position``, converted to ``dtype``."""

    position: int
    dtype: DType
    text: str


class Assumption(NamedTuple):
    """An assumption of the recording: ``question``, asked of the number at ``position``, gives ``answer``."""

    position: int
    question: Callable[[Any], Any]
    answer: Any


class Recording:
    """The numbers of one recording: first those given, in the order of the parameters, then those computed.

    Args:
        builder: The builder of the program, whose parameters are its inputs so far.
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
        """Apply ``function`` to the numbers at these positions; returns the position of the result."""
        self.values.append(function(*(self.values[each] for each in operands)))
        self._steps.append(Step(function, operands))
        return len(self.values) - 1

    def ask(self, position: int, question: Callable[[Any], Any]) -> Any:
        """The answer of ``question`` for the number at ``position``; every call must give the same one."""
        answer = question(self.values[position])
        if question is not type or position >= len(self.sources):  # an argument's type chooses the recording already
            self._guards[position, question] = Assumption(position, question, answer)
        return answer

    def parameter(self, position: int, dtype: DType, text: str) -> Node:
        """The number at ``position`` as a scalar parameter of ``dtype``; ``text`` is its expression, for messages."""
        if (position, dtype) not in self._uses:
            converted(self.values[position], dtype, text)  # an error belongs to the line that is being recorded
            self._uses[position, dtype] = Use(position, dtype, text)
            self._builder.params.append(Param(name=text, dtype=dtype, is_scalar=True))
        return self._builder.load(self._first + list(self._uses).index((position, dtype)))

    def finished(self) -> HostNumbers | None:
        """The work of each call; None for a kernel without numbers."""
        if not self.sources:
            return None
        uses, guards = tuple(self._uses.values()), tuple(self._guards.values())
        return HostNumbers(self._first, tuple(self.sources), tuple(self._steps), uses, guards)


class HostNumbers:
    """Computes the numbers of a call, which follow its inputs as parameters of the kernel."""

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
            OtherNumbersError: They break an assumption of the recording.
            KernelRangeError: One is out of range for the dtype of the array that it meets.
        """
        numbers = [arguments[each] for each in self._sources]
        for function, operands in self._steps:
            numbers.append(function(*[numbers[each] for each in operands]))
        for position, question, answer in self.guards:
            if question(numbers[position]) != answer:
                raise OtherNumbersError
        return [converted(numbers[position], dtype, text) for position, dtype, text in self._uses]

    def expanded(self, arguments: Sequence[Any], computed: list[np.generic]) -> list[Any]:
        """The arguments of the kernel: those given, the computed numbers inserted; the kernel reads no given number."""
        result = list(arguments)
        for each in self._sources:
            result[each] = _NOTHING[type(arguments[each])]
        result[self.first : self.first] = computed
        return result

    def moved(self, number: int) -> int:
        """The parameter for argument ``number``."""
        return number if number < self.first else number + self.count

    def running(self, run: Run) -> Run:
        """Wrap ``run``, which takes the kernel's parameters, into a function of a call's arguments."""
        sources = self._sources

        last: tuple[list[Any], list[np.generic]] = ([], [])

        def call(given: Any, values: list[Any]) -> Any:
            nonlocal last
            numbers = [given[each] for each in sources]
            known, computed = last
            # The very objects, as constants of a program are: numbers that are equal may differ, as 0.0 and -0.0 do.
            if not known or any(map(operator.is_not, numbers, known)):
                computed = self.computed(given)
                last = numbers, computed
            return run(self.expanded(given, computed), self.expanded(values, computed))

        return Variants([call]) if self.guards else call


class Variants:
    """The runs of one kernel for arguments of one kind, one for each set of assumptions about their numbers."""

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
    """A Python number converted to ``dtype`` as NumPy does beside an array; ``text`` names it in messages.

    Raises:
        KernelRangeError: It is out of range; NumPy would refuse it, too.
    """
    if dtype == BOOL:
        return np.bool_(bool(value))
    if is_integer(dtype):
        if not types.fits(value, dtype):
            raise KernelRangeError(
                f"{text} is {shown(value)}, out of range for {dtype}, the dtype of what it meets; convert that first, "
                "with astype(...)"
            )
    elif type(value) is int and not is_complex(dtype):
        try:
            value = float(value)
        except OverflowError:
            raise KernelRangeError(
                f"{text} is {shown(value)}, beyond every float; pass a smaller number, or a float"
            ) from None
    with np.errstate(all="ignore"):
        result: np.generic = dtype.type(value)
    return result


def shown(value: Any) -> str:
    """A number for a message; a long one is described by its size."""
    if type(value) is int and value.bit_length() > 128:
        return f"an int of {value.bit_length()} bits"
    return repr(value)
