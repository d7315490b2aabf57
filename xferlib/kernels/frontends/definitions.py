"""A kernel before its dtypes are known: a Python function, or a C snippet with its signature.

`Definition.specialize` turns the dtypes of one call into a program. Both front ends end here; what follows is common.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from xferlib._runtime.checks import has
from xferlib.errors import KernelSyntaxError, KernelTypeError, shown
from xferlib.kernels.c_frontend import parse, preprocess
from xferlib.kernels.c_frontend.scope import OrderNeededError, Own, Raw, ReadOnly
from xferlib.kernels.c_frontend.translate import TOO_LONG, Translator
from xferlib.kernels.frontends import signature, tracing
from xferlib.kernels.frontends.host_numbers import HostNumbers
from xferlib.kernels.frontends.indexed_arrays import indexed_otherwise, may_be_numbers
from xferlib.kernels.frontends.signature import CParam
from xferlib.kernels.ir import types
from xferlib.kernels.ir.formulas.bit_functions import read_bits
from xferlib.kernels.ir.indices import conflict
from xferlib.kernels.ir.nodes import INT64, MOST_STEPS, Builder, DType, Param, Program

ArgumentKind = DType | type | None
"""The kind of an argument: an array's dtype, a Python scalar's type, None for an omitted output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Specialization:
    """A program for one set of dtypes, and how its parameters are passed."""

    program: Program
    outputs: tuple[int, ...]
    """The parameters that are allocated when omitted, and returned."""
    numbers: HostNumbers | None = None
    """Computes the Python numbers of a traced kernel; None where the arguments are the parameters."""


class Definition(Protocol):
    """A kernel's parameters, and its program for given dtypes."""

    name: str
    names: tuple[str, ...]
    """The parameters in the order of the program; unnamed outputs are called out0, out1."""
    first_output: int | None
    """The index in ``names`` of the first output that may be omitted; None if it depends on the dtypes."""

    def specialize(
        self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int], arguments: Sequence[Any] = ()
    ) -> Specialization:
        """The program for these dtypes and types; ``arguments`` are those of the call, for the values of numbers."""
        ...


class TracedDefinition:
    """A Python function; keyword-only parameters are scalars."""

    def __init__(self, function: Callable[..., Any], *, name: str | None, math: str) -> None:
        self.function = function
        try:
            parameters = inspect.signature(function).parameters.values()
        except Exception as error:  # a type, a function in C, or a stranger's object, which may raise anything
            raise KernelTypeError(
                f"elementwise: {shown(function)} shows no parameters; write lambda x: ... around it"
            ) from error
        self.name: str = name or (str(function.__name__) if has(function, "__name__") else "kernel")
        self.math = math
        self.positional: list[str] = []
        self.defaults: dict[str, Any] = {}
        self.keywords: list[str] = []
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise KernelSyntaxError(
                    f"{self.name}: parameter {str(parameter)!r} takes any number of arguments; name each one"
                )
            is_keyword = parameter.kind is parameter.KEYWORD_ONLY
            (self.keywords if is_keyword else self.positional).append(parameter.name)
            if parameter.default is not parameter.empty:
                self.defaults[parameter.name] = parameter.default
        self.names = (*self.positional, *self.keywords)
        self.first_output: int | None = None

    def specialize(
        self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int], arguments: Sequence[Any] = ()
    ) -> Specialization:
        given = [(name, kind) for name, kind in zip(self.names, kinds, strict=False) if kind is not None]
        count = len(self.positional)
        names = frozenset(self.names[number] for number in scalars if number < len(self.names))
        program, outputs, numbers = tracing.trace(
            self.function,
            given[:count],
            given[count : len(self.names)],
            scalars=names,
            numbers=dict(zip(self.names, arguments, strict=False)),
            math=self.math,
        )
        first = len(program.params) - outputs
        return Specialization(program=program, outputs=tuple(range(first, len(program.params))), numbers=numbers)


class SnippetDefinition:
    """A C snippet: CuPy's two parameter lists, or PyCUDA's one list with pointers."""

    def __init__(
        self,
        inputs: Sequence[CParam],
        outputs: Sequence[CParam],
        operation: str,
        *,
        name: str,
        math: str,
        preamble: str = "",
        loop_prep: str = "",
        after_loop: str = "",
        macros: Mapping[str, str] = MappingProxyType({}),
        step: int | None = None,
    ) -> None:
        """``macros`` are those of a compiler's options, by their texts.

        ``step``: for a part of the elements, every ``step``-th from a number that the call gives last.
        """
        self.name = signature.check_name(name, "kernel name")
        self.math = math
        self.params = (*inputs, *outputs)
        self.names = tuple(param.name for param in self.params)
        self.first_output = len(inputs) if outputs else None
        self.step = step
        if step is not None:
            self.params += (CParam(name="first element", dtype=INT64, generic=None),)
            self.names += ("first element",)
        self._outputs = range(len(inputs), len(inputs) + len(outputs))
        self.work = 0
        """Of the last attempt at a program that failed."""
        self._reads_bits = read_bits(preamble, loop_prep, operation, after_loop)
        texts: Any = {
            "preamble": preamble, "loop_prep": loop_prep, "after_loop": after_loop, "macros": dict(macros),
        }  # fmt: skip
        self._made_from = functools.partial(
            SnippetDefinition, tuple(inputs), tuple(outputs), operation, name=name, math=math, **texts
        )
        check_names(self.name, self.names)
        generics = frozenset(param.generic for param in self.params if param.generic)
        self._preamble = parse.read_preamble(preamble, generics, preprocess.defined_by(macros))
        self._text = parse.read_snippet(operation, "operation", self._preamble)
        self._preparation = parse.read_snippet(loop_prep, "loop_prep", self._preamble)
        self._end = parse.read_snippet(after_loop, "after_loop", self._preamble)
        preprocess.check_length(f"{preamble}{loop_prep}{operation}{after_loop}", f"kernel {name}")
        texts = (self._preparation, self._text, self._end)
        self._raw = indexed_otherwise(each for text in texts for each in text.statements)

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(self._made_from, step=self.step), ()

    def specialize(
        self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int], arguments: Sequence[Any] = ()
    ) -> Specialization:
        bound = bind_generics(self.params, kinds)
        ordered: frozenset[int] = frozenset()
        b = Builder(math=self.math)
        while True:
            try:
                program = self._translated(b, bound, scalars, ordered)
            except OrderNeededError as found:
                ordered |= {found.param}
                again = Builder(math=self.math)
                again.work, b = b.work, again
            except Exception:
                self.work = b.work
                raise
            else:
                break
        return Specialization(program=program, outputs=tuple(self._outputs))

    def _translated(
        self, b: Builder, bound: dict[str, DType], scalars: frozenset[int], ordered: frozenset[int]
    ) -> Program:
        """The program; ``ordered`` are the arrays whose reads and writes stay in the order of the source."""
        b.reads_bits = self._reads_bits
        for number, param in enumerate(self.params):
            dtype = param.dtype or bound[str(param.generic)]
            is_scalar = number in scalars
            b.params.append(
                Param(name=param.name, dtype=dtype, is_raw=self._is_raw(param) and not is_scalar, is_scalar=is_scalar)
            )
        translator = Translator(b, self._preamble, bound, ordered)
        if self.step is not None:
            shift = b.op("mul", b.index(), b.const(self.step, INT64))
            translator.number = b.op("add", shift, b.load(len(self.params) - 1))
        is_pycudas = any(param.is_pointer for param in self.params)
        translator.declare_kernel({"_ind": (b.size(), True)}, is_pycudas=is_pycudas)
        for number, param in enumerate(self.params):
            translator.bind(param.name, self._object(translator, number, param, b.params[number]))
        translator.run(self._preparation)
        translator.run_unless_returned(self._text)
        translator.run_unless_returned(self._end)
        translator.memory.check_order(self.names)
        program = b.program(translator.stores(), translator.memory.effects())
        self._check_outputs(program)
        return program

    def _is_raw(self, param: CParam) -> bool:
        """Whether the kernel indexes an array parameter by more than the element's number."""
        return param.is_raw or (param.is_pointer and (param.name in self._raw or self.step is not None))

    def of_part(self, step: int) -> SnippetDefinition:
        """The same kernel for every ``step``-th element.

        Raises:
            KernelTypeError: Its parameters are not PyCUDA's.
        """
        if self.first_output is not None or not any(param.is_pointer for param in self.params):
            raise KernelTypeError(
                f"{self.name}(): range= and slice= are for kernels in PyCUDA's notation, such as 'float *x'; give the "
                "arrays' own parts: kernel(x[2:4])"
            )
        return self._made_from(step=step)

    def _object(self, translator: Translator, number: int, param: CParam, given: Param) -> Any:
        """The meaning of a parameter's name."""
        if given.is_scalar and param.is_pointer:
            raise KernelTypeError(f"{self.name}: argument {param.name!r} is declared as a pointer; pass an array")
        is_writable = not given.is_scalar and (number in self._outputs or param.is_pointer) and not param.is_const
        if given.is_raw:
            found: Any = translator.memory.raw(Raw(param.name, given.dtype, number))
        else:
            found = translator.memory.cell(param.name, given.dtype, number)
        found = found if is_writable else ReadOnly(found)
        return Own(param.name, found) if param.is_pointer and not given.is_raw else found

    def _check_outputs(self, program: Program) -> None:
        plain = [(store.param, store.index) for store in program.stores if store.index is not None and not store.mask]
        if (number := conflict(plain, list(program.params))) is not None:
            raise KernelSyntaxError(
                f"{self.name}: two elements of a call write the same element of {self.names[number]!r}, so that the "
                "result would depend on their order; write each element once"
            )
        if self._text.is_empty and self._end.is_empty:
            return  # CuPy's kernel that does nothing
        if not program.writes:
            raise KernelSyntaxError(f"{self.name}: the operation writes no parameter; assign to an output")
        for number in self._outputs:
            if number not in program.writes and not (self.params[number].is_raw and number in program.reads):
                raise KernelSyntaxError(
                    f"{self.name}: output {self.names[number]!r} is never written; assign to it, or drop it"
                )


_CANDIDATES = ("float64", "complex128", "int32", "bool", "float32", "uint8")
"""Dtypes to try for generic letters, likely ones first."""
_ENOUGH = 3
"""Choices: an error in which the first ones agree, of floats, complex numbers and integers, depends on no dtype."""


def check_definition(
    inputs: Sequence[CParam],
    outputs: Sequence[CParam],
    specialize: Callable[[tuple[np.dtype[Any], ...], frozenset[int]], object],
    text: str,
    work: Callable[[], int],
) -> None:
    """Raise the error that every call of a C definition would raise; such as for a name that it misspells.

    An error that depends on dtypes, or on which arguments are numbers, is left for the calls that have it.

    Args:
        inputs, outputs: The parameters.
        specialize: Makes the program for their dtypes, and the positions of those that are no arrays.
        text: The snippets.
        work: Tells the work of the last program, or of the attempt at it.

    Raises:
        KernelSyntaxError, KernelTypeError: That error.
    """
    params = (*inputs, *outputs)
    errors: list[KernelSyntaxError | KernelTypeError] = []
    spent = 0
    letters = list(dict.fromkeys(param.generic for param in params if param.generic))
    plain = frozenset(n for n, param in enumerate(inputs) if not (param.is_pointer or param.is_raw))
    tried_scalars = [frozenset[int](), plain] if plain else [frozenset[int]()]
    if numbers := may_be_numbers(inputs, text):
        tried_scalars = [numbers, plain | numbers, *tried_scalars]
    choices = [dict.fromkeys(letters, first) for first in _CANDIDATES]
    if len(letters) > 1:
        for one, others in (("float64", "int32"), ("int32", "float64"), ("bool", "float64")):
            choices += [{**dict.fromkeys(letters, others), letter: one} for letter in letters]
    for tried, chosen in enumerate(choices if letters else [{}]):
        if tried == _ENOUGH and len({str(each) for each in errors}) == 1:
            break
        kinds = tuple(param.dtype or np.dtype(chosen[str(param.generic)]) for param in params)
        for scalars in tried_scalars:
            try:
                specialize(kinds, scalars)
            except (KernelSyntaxError, KernelTypeError) as error:
                errors.append(error)
                if TOO_LONG in str(error):  # for any dtype, and after long work
                    raise
                spent += work()
                if spent > MOST_STEPS // 2:
                    return
            except Exception:  # such as one too large to be made twice: its call says so
                return
            else:
                return
    if len({str(each) for each in errors}) == 1 or all(isinstance(each, KernelSyntaxError) for each in errors):
        raise errors[0].with_traceback(None) from None


def check_names(kernel: str, names: Sequence[str]) -> None:
    """Refuse two parameters of one name."""
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise KernelSyntaxError(f"{kernel}: parameter {twice!r} is declared twice; rename one")


def bind_generics(params: Sequence[CParam], kinds: Sequence[ArgumentKind]) -> dict[str, DType]:
    """The dtype of each generic letter: that of the arrays declared with it, else that of a scalar.

    Raises:
        KernelTypeError: Two arrays differ, or a declared dtype is not the array's.
    """
    bound: dict[str, tuple[DType, str]] = {}
    for param, kind in zip(params, kinds, strict=True):
        if not isinstance(kind, np.dtype):
            continue
        if param.generic is None:
            if kind != param.dtype:
                raise KernelTypeError(
                    f"argument {param.name!r} is declared {param.dtype} and has dtype {kind}; convert it first, "
                    f"e.g. with astype({str(param.dtype)!r})"
                )
            continue
        dtype, first = bound.setdefault(param.generic, (kind, param.name))
        if dtype != kind:
            raise KernelTypeError(
                f"type {param.generic} is {dtype} of argument {first!r} and {kind} of argument {param.name!r}; "
                "convert one of them, or declare another letter"
            )
    result = {letter: dtype for letter, (dtype, _) in bound.items()}
    for param, kind in zip(params, kinds, strict=True):
        if param.generic and param.generic not in result and isinstance(kind, type):
            weak = [each for other, each in zip(params, kinds, strict=True) if other.generic == param.generic]
            result[param.generic] = types.numpy_common(tuple(each for each in weak if isinstance(each, type)))
    for param in params:
        if param.generic and param.generic not in result:
            raise KernelTypeError(
                f"type {param.generic} of {param.name!r} is not determined by any argument; pass {param.name!r}, or "
                "name its type"
            )
    return result
