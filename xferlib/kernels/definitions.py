"""A kernel before its dtypes are known: a Python function, or a C snippet with its signature.

`Definition.specialize` turns the dtypes of one call into a program. Both front ends end here; what follows is common.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from xferlib._core.arrays import check_number
from xferlib._core.dtypes import small_float
from xferlib._runtime.checks import has
from xferlib.errors import KernelSyntaxError, KernelTypeError, UnsupportedDTypeError, quote
from xferlib.kernels import functions
from xferlib.kernels.analysis import conflict
from xferlib.kernels.c_frontend import parse, preprocess, tree
from xferlib.kernels.c_frontend.memory import OrderNeededError, OutputReadError
from xferlib.kernels.c_frontend.parse import Snippet
from xferlib.kernels.c_frontend.preprocess import SourceText, Token, check_length, on_one_line, tokens
from xferlib.kernels.c_frontend.scope import (
    Constant,
    Own,
    Raw,
    ReadOnly,
    ShapeOfCall,
    StructType,
    is_struct,
    leaf_types,
    leaves,
    make_value,
)
from xferlib.kernels.c_frontend.translate import TOO_LONG, Translator
from xferlib.kernels.c_frontend.tree import names_in
from xferlib.kernels.formulas import read_bits
from xferlib.kernels.functions import C_TYPES, know_types, tell_unknown_type
from xferlib.kernels.guards import HostNumbers
from xferlib.kernels.ir import (
    FLOAT32,
    INT64,
    MOST_STEPS,
    Builder,
    DType,
    Elementwise,
    Node,
    Param,
    Postmap,
    Program,
    ReductionSpec,
    build_reduction,
    store_all,
)
from xferlib.kernels.numpy_functions import compute_stored_value
from xferlib.kernels.python_frontend import trace
from xferlib.kernels.source_lines import caret

# --- parameter lists of C kernels: ``"raw T x, float32 y"`` as in CuPy, ``"int *x, float a"`` as in PyCUDA

MAX_PARAMS = 1024

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TYPE_LETTER = re.compile(r"[A-Za-z]\Z")
_COMPLEX_TYPES = {"complex<float>": "complex64", "complex<double>": "complex128"}
_RESERVED = frozenset({"i", "_ind", "CUPY_UNUSED", "and", "or", "not"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CParam:
    """One declared parameter; ``dtype`` is None where ``generic`` names a type letter."""

    name: str
    dtype: DType | None
    generic: str | None
    is_raw: bool = False
    is_pointer: bool = False
    is_const: bool = False


def check_name(name: str) -> str:
    """``name`` if it is an ASCII identifier.

    Raises:
        KernelSyntaxError: It is not.
    """
    if not isinstance(name, str) or not _IDENTIFIER.match(name):
        raise KernelSyntaxError(f"kernel name {quote(name)} is not a C identifier; use ASCII letters, digits and _")
    return name


def check_texts(call: str, **texts: Any) -> None:
    """Refuse parts of a kernel that are no texts.

    Raises:
        KernelSyntaxError: One of them is no string.
    """
    for what, text in texts.items():
        if not isinstance(text, str):
            raise KernelSyntaxError(f"{call}: {what}={quote(text)} is not a string; give one")


def parse_parameters(text: str, what: str) -> list[CParam]:
    """The parameters of a comma-separated list.

    Args:
        text: The list; empty for none.
        what: ``"in_params"`` or the like, for messages.

    Raises:
        KernelSyntaxError: The list cannot be read.
    """
    check_length(text, what)
    know_types(text)
    given = [each for each in tokens(SourceText(on_one_line(text), what)) if each.kind != "newline"]
    if not given:
        return []
    commas = [number for number, each in enumerate(given) if each.text == ","]
    ends = zip((-1, *commas), (*commas, len(given)), strict=True)
    params = [_parse_parameter(given[first + 1 : last], given[max(first, 0)].at, text, what) for first, last in ends]
    if len(params) > MAX_PARAMS:
        raise KernelSyntaxError(f"{what} has {len(params)} parameters; at most {MAX_PARAMS} fit a launch")
    return params


def _parse_parameter(piece: list[Token], at: int, text: str, what: str) -> CParam:
    words = [each.text for each in piece]

    def fail(message: str) -> KernelSyntaxError:
        start = piece[0].at if piece else at
        end = piece[-1].at + len(piece[-1].text) if piece else at + 1
        begin = text.rfind("\n", 0, start) + 1
        line = text[begin:].split("\n", 1)[0]
        return KernelSyntaxError(f"{what}: {message}\n{caret(line, start - begin, end - begin)}")

    is_raw = words[:1] == ["raw"]
    is_const = "const" in words
    is_pointer = "*" in words
    if words.count("*") > 1:
        raise fail("a pointer to a pointer is not an array; declare one * for each array")
    words = [word for word in words[is_raw:] if word not in ("const", "*", "__restrict__", "restrict")]
    if len(words) < 2:
        raise fail("expected 'type name', for instance 'float32 x' or 'float *x'")
    *type_words, name = words
    if not _IDENTIFIER.match(name):
        raise fail(f"{name!r} is not a C identifier; use ASCII letters, digits and _")
    if name in _RESERVED or name in C_TYPES:
        raise fail(f"{name!r} has a meaning of its own in a kernel; choose another name")
    if type_words[1:2] == ["::"] and type_words[0] in ("pycuda", "thrust", "std"):
        del type_words[:2]
    type_name = _COMPLEX_TYPES.get("".join(type_words)) or " ".join(type_words)
    dtype = C_TYPES.get(type_name) or C_TYPES.get(" ".join(word for word in type_words if word != "signed"))
    generic = None
    if dtype is None:
        if not _TYPE_LETTER.match(type_name):
            raise fail(f"{tell_unknown_type(type_name)}, or one letter for a generic type")
        generic = type_name
    if is_raw and is_pointer:
        raise fail("'raw' and '*' are two notations for the same; use one")
    return CParam(name=name, dtype=dtype, generic=generic, is_raw=is_raw, is_pointer=is_pointer, is_const=is_const)


# Finds the names that a C snippet uses, and the arrays that it indexes by anything but the element's own number.


def may_be_numbers(inputs: Sequence[CParam], text: str) -> frozenset[int]:
    """The inputs declared raw that a snippet never indexes, which CuPy's users give as numbers."""
    return frozenset(
        number for number, each in enumerate(inputs) if each.is_raw and not re.search(rf"\b{each.name}\s*[\[.]", text)
    )


def find_general_indexing(statements: Iterable[Any]) -> frozenset[str]:
    """The names of arrays that are used by more than ``x[i]``, with the element's number ``i``.

    A local variable ``i`` does not count as that number, nor does ``i`` in a text that assigns to it.
    """
    nodes = list(_with_own_i(statements))
    is_changed = any(is_number and _changes_i(each) for each, is_number in nodes)
    own: set[int] = set()
    for each, is_number in nodes:
        if isinstance(each, tree.Index) and isinstance(each.index, tree.Name) and each.index.name == "i":
            if is_number and not is_changed:
                own.add(id(each.array))
        elif isinstance(each, tree.Member):  # x.size()
            own.add(id(each.owner))
    return frozenset(each.name for each, _ in nodes if isinstance(each, tree.Name) and id(each) not in own)


def _with_own_i(statements: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    """All nodes, each with whether ``i`` is the element's number there."""
    levels: list[tuple[Iterator[Any], list[bool]]] = [(iter(list(statements)), [True])]
    while levels:  # a tree may be deeper than Python's stack
        nodes, known = levels[-1]
        node = next(nodes, None)
        if node is None:
            levels.pop()
            continue
        yield node, known[0]
        is_block = isinstance(node, (tree.Compound, tree.Loop, tree.If, tree.Switch))
        levels.append((iter(list(tree.children(node))), list(known) if is_block else known))
        if isinstance(node, tree.Variable) and node.name == "i":
            known[0] = False


def _changes_i(node: Any) -> bool:
    """Whether a node assigns to ``i``."""
    target = tree.find_target(node)
    return isinstance(target, tree.Name) and target.name == "i"


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
    in_c: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """The functions that run plain calls of any shape, by the library of the arrays and the types of the numbers."""


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
                f"elementwise: {quote(function)} shows no parameters; write lambda x: ... around it"
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
        program, outputs, numbers = trace(
            self.function,
            given[:count],
            given[count : len(self.names)],
            scalars=names,
            numbers=dict(zip(self.names, arguments, strict=False)),
            math=self.math,
        )
        first = len(program.params) - outputs
        return Specialization(program=program, outputs=tuple(range(first, len(program.params))), numbers=numbers)


class FixedDefinition:
    """One program whose dtypes are fixed: a derivative, or the part of a reduction that an element-wise kernel does.

    Args:
        name: For messages.
        program: Its inputs come first, then its outputs.
        inputs: The number of inputs; negative, that of the outputs.
        scalars: The inputs that are numbers, where other calls are refused.
    """

    defaults: Mapping[str, Any] = MappingProxyType({})
    keywords: Sequence[str] = ()
    first_output: int | None = None

    def __init__(self, name: str, program: Program, inputs: int, scalars: frozenset[int] | None = None) -> None:
        params = range(len(program.params))
        self.name = name
        self.names = tuple(param.name for param in program.params)
        self.positional = list(self.names[:inputs])
        self._special = Specialization(program=program, outputs=tuple(params[inputs:]))
        self._scalars = scalars

    def specialize(
        self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int], arguments: Sequence[Any] = ()
    ) -> Specialization:
        """Return the one program."""
        if self._scalars is not None and scalars != self._scalars:
            raise KernelTypeError(f"{self.name}: made for other arguments")
        return self._special


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
        self.name = check_name(name)
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
        self._preamble = parse.read_preamble(preamble, generics, preprocess.parse_options(macros))
        self._text = parse.read_snippet(operation, "operation", self._preamble)
        self._preparation = parse.read_snippet(loop_prep, "loop_prep", self._preamble)
        self._end = parse.read_snippet(after_loop, "after_loop", self._preamble)
        preprocess.check_length(f"{preamble}{loop_prep}{operation}{after_loop}", f"kernel {name}")
        texts = (self._preparation, self._text, self._end)
        self._raw = find_general_indexing(each for text in texts for each in text.statements)

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(self._made_from, step=self.step), ()

    def specialize(
        self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int], arguments: Sequence[Any] = ()
    ) -> Specialization:
        bound = bind_generics(self.name, self.params, kinds)
        ordered: frozenset[int] = frozenset()
        b = Builder(math=self.math)
        while True:
            try:
                program = self._translate(b, bound, scalars, ordered)
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

    def _translate(
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
        for number, (param, given) in enumerate(zip(self.params, b.params, strict=True)):
            if given.is_scalar and param.is_pointer:
                raise KernelTypeError(f"{self.name}: argument {param.name!r} is declared as a pointer; pass an array")
            is_writable = not given.is_scalar and (number in self._outputs or param.is_pointer) and not param.is_const
            _bind_parameter(translator, number, given, is_writable=is_writable, is_indexed=param.is_pointer)
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


def bind_generics(kernel: str, params: Sequence[CParam], kinds: Sequence[ArgumentKind]) -> dict[str, DType]:
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
                    f"{kernel}(): argument {param.name!r} is declared {param.dtype} and has dtype {kind}; convert it "
                    f"to {param.dtype} first"
                )
            continue
        dtype, first = bound.setdefault(param.generic, (kind, param.name))
        if dtype != kind:
            raise KernelTypeError(
                f"{kernel}(): type {param.generic} is {dtype} of argument {first!r} and {kind} of argument "
                f"{param.name!r}; convert one of them, or declare another letter"
            )
    result = {letter: dtype for letter, (dtype, _) in bound.items()}
    for param, kind in zip(params, kinds, strict=True):
        if param.generic and param.generic not in result and isinstance(kind, type):
            weak = [each for other, each in zip(params, kinds, strict=True) if other.generic == param.generic]
            result[param.generic] = functions.numpy_common(tuple(each for each in weak if isinstance(each, type)))
    for param in params:
        if param.generic and param.generic not in result:
            raise KernelTypeError(
                f"{kernel}(): type {param.generic} of {param.name!r} is not determined by any argument; pass "
                f"{param.name!r}, or name its type"
            )
    return result


# A reduction before its dtypes are known, and its definition by C expressions.


class ReductionDefinition(Protocol):
    """A reduction before its dtypes are known."""

    name: str
    names: tuple[str, ...]

    def specialize(self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int]) -> ReductionSpec: ...


class SnippetReduction:
    """A reduction defined as CuPy's and PyCUDA's ReductionKernel are: by C expressions over ``a`` and ``b``."""

    def __init__(
        self,
        in_params: str,
        out_params: str | None,
        *,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str | None,
        identity: str | None,
        dtype: Any,
        name: str,
        math: str,
        preamble: str = "",
        macros: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = check_name(name)
        self.math = math
        self._made_from = functools.partial(
            SnippetReduction, in_params, out_params, map_expr=map_expr, reduce_expr=reduce_expr,
            post_map_expr=post_map_expr, identity=identity, dtype=dtype, name=name, math=math, preamble=preamble,
            macros=dict(macros),
        )  # fmt: skip
        self._inputs = parse_parameters(in_params, "in_params")
        self._outputs = parse_parameters(out_params or "", "out_params")
        self.names = tuple(param.name for param in (*self._inputs, *self._outputs))
        self.inputs = len(self._inputs)
        check_names(name, self.names)
        told = {param.generic for param in self._inputs}
        self.open_outputs = frozenset(
            n for n, each in enumerate(self._outputs) if each.generic and each.generic not in told
        )
        """The outputs whose types no input tells, so that a given output must."""
        self._dtype = dtype
        if (raw := next((each for each in self._outputs if each.is_raw), None)) is not None:
            raise KernelSyntaxError(f"{name}: output {raw.name!r} is raw, but a reduction has one result; drop 'raw'")
        if not self._outputs and dtype is None:
            raise KernelSyntaxError(f"{name}: without out_params, dtype= must say what the result is")
        if post_map_expr is None and len(self._outputs) == 1:
            post_map_expr = f"{self._outputs[0].name} = a"
        if self._outputs and not post_map_expr:
            raise KernelSyntaxError(f"{name}: post_map_expr must assign the outputs, for instance 'y = a'")
        generics = frozenset(param.generic for param in (*self._inputs, *self._outputs) if param.generic)
        self._preamble = parse.read_preamble(preamble, generics, preprocess.parse_options(macros))
        self._reads_bits = read_bits(preamble, map_expr, reduce_expr, post_map_expr or "")
        self._map = self._expression(map_expr, "map_expr")
        free = find_general_indexing(self._map.statements)
        self._free = frozenset(
            each.name for each in self._inputs if each.is_raw or (each.is_pointer and each.name in free)
        )
        self._reduce = self._expression(reduce_expr, "reduce_expr")
        self._post = parse.read_snippet(post_map_expr or "", "post_map_expr", self._preamble)
        self._post_names = names_in(*self._post.statements)
        self._identity = self._expression(identity, "identity") if identity is not None else None

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made_from, ()

    def _expression(self, source: str, what: str) -> Snippet:
        return parse.read_snippet(source, what, self._preamble, is_expression=True)

    def _translator(self, b: Builder, types: Mapping[str, DType], *, has_sizes: bool = False) -> Translator:
        """A translator; ``has_sizes`` where a reduction's sizes take the place of its call's."""
        found = Translator(b, self._preamble, types)
        is_pycudas = any(param.is_pointer for param in self._inputs)
        found.declare_kernel({} if has_sizes else {"_ind": (b.size(), True)}, is_pycudas=is_pycudas)
        return found

    def specialize(self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int]) -> ReductionSpec:
        """The programs for inputs, and given outputs, of these dtypes."""
        declared = (*self._inputs, *self._outputs)
        kinds = (*kinds, *[None] * (len(declared) - len(kinds)))
        types = bind_generics(self.name, declared, kinds)
        resolved = [param.dtype or types[str(param.generic)] for param in declared]
        inputs = resolved[: len(self._inputs)]
        params = [
            Param(name=param.name, dtype=dtype, is_scalar=number in scalars, is_raw=self._is_free(number, scalars))
            for number, (param, dtype) in enumerate(zip(self._inputs, inputs, strict=True))
        ]
        outputs = resolved[len(self._inputs) :]
        accumulator = self._accumulator(types, outputs)
        if isinstance(accumulator, np.dtype) and small_float(accumulator) is not None:
            accumulator = FLOAT32
        used = tuple(number for number, param in enumerate(params) if self._is_in_post(param))
        if not used:
            try:
                return self._spec(params, types, accumulator, outputs)
            except OutputReadError:
                pass
        spec = self._spec(params, types, accumulator, None)
        return replace(spec, postmap=self._postmap(params, used, types, accumulator, outputs))

    def _spec(
        self, params: list[Param], types: dict[str, DType], accumulator: Any, outputs: list[DType] | None
    ) -> ReductionSpec:
        """The programs; ``outputs`` is None where they give the accumulators, which another kernel finishes."""
        premap = None
        whole: Any = lambda nodes: make_value(accumulator, iter(nodes))
        mapping = lambda b, nodes: self._leaves(b, self._map_element(b, types, accumulator))
        if any(param.is_raw for param in params):
            if isinstance(accumulator, StructType):
                raise KernelSyntaxError(
                    f"{self.name}: the map indexes an array freely and gives a {accumulator}; compute its members "
                    "with an element-wise kernel, and reduce those"
                )
            premap = self._premap(params, types, accumulator)
            params, mapping = [Param(name="mapped", dtype=accumulator)], lambda b, nodes: [nodes[0]]
        spec = build_reduction(
            params,
            mapping,
            lambda b, a, c: self._leaves(
                b, self._value(b, self._reduce, types, accumulator, {"a": whole(a), "b": whole(c)})
            ),
            lambda b, a, n, m: a if outputs is None else self._finish(b, whole(a), n, m, types, outputs),
            identity=self._identity_value(types, accumulator),
            math=self.math,
        )
        for program in (spec.map_program, spec.combine, spec.post):
            self._refuse_loops(program)
        return replace(spec, premap=premap)

    def _is_in_post(self, param: Param) -> bool:
        """Whether post_map_expr uses an input that is the same for all elements."""
        return param.name in self._post_names and (param.is_scalar or param.is_raw)

    def _postmap(
        self,
        params: list[Param],
        used: tuple[int, ...],
        types: dict[str, DType],
        accumulator: Any,
        outputs: list[DType],
    ) -> Postmap:
        """The kernel that computes post_map_expr from accumulators, inputs and the outputs' contents."""
        dtypes = leaf_types(accumulator)
        count = len(dtypes)
        sizes = [Param(name=name, dtype=INT64, is_scalar=True) for name in ("in_size", "out_size")]
        accumulators = [Param(name=f"a{k}", dtype=dtype) for k, dtype in enumerate(dtypes)]
        b = Builder([*accumulators, *(params[each] for each in used), *sizes], math=self.math)
        inputs = len(b.params)
        b.params += [Param(name=each.name, dtype=dtype) for each, dtype in zip(self._outputs, outputs, strict=True)]
        translator = self._translator(b, types, has_sizes=True)
        _bind(translator, "a", make_value(accumulator, map(b.load, range(count))))
        _bind_sizes(translator, b.load(inputs - 2), b.load(inputs - 1))
        for number, param in enumerate(b.params[count : inputs - 2], count):
            _bind_parameter(translator, number, param)
        written = [param.name for param in b.params[inputs:]]
        for number, param in enumerate(b.params[inputs:], inputs):
            _bind_parameter(translator, number, param, is_writable=True)
        translator.run(self._post)
        program = b.program(translator.stores(), translator.memory.effects())
        for number, name in enumerate(written, inputs):
            if number not in program.writes:
                raise KernelSyntaxError(f"{self.name}: output {name!r} is never written by post_map_expr")
        return Postmap(program=program, inputs=inputs, arguments=used)

    def check(self) -> None:
        """Raise the error that every call would raise."""
        check_definition(self._inputs, self._outputs, self.specialize, self._map.source.text, lambda: 0)

    def _is_free(self, number: int, scalars: frozenset[int]) -> bool:
        """Whether input ``number`` is an array that the map indexes by anything but the element's number."""
        return self._inputs[number].name in self._free and number not in scalars

    def _premap(self, params: list[Param], types: dict[str, DType], accumulator: DType) -> Elementwise:
        b = Builder(params, math=self.math)
        program = store_all(b, "acc", self._leaves(b, self._map_element(b, types, accumulator)))
        return Elementwise(program=program, inputs=len(params))

    def _leaves(self, b: Builder, accumulator: Any) -> list[Node]:
        """The numbers of an accumulator, whose bits a later expression may read."""
        found = leaves(accumulator)
        return [b.one_nan(each) for each in found] if self._reads_bits else found

    def _accumulator(self, types: dict[str, DType], outputs: list[DType]) -> Any:
        """The dtype of the accumulator, or the type of a struct."""
        if self._dtype is None:
            return outputs[0]
        if isinstance(self._dtype, str):
            found = self._translator(Builder(math=self.math), types).find_user_type(str(self._dtype))
            if found is not None:
                return found
        try:
            return check_number(self._dtype)  # NumPy's other names too, as "f4" and "q"
        except UnsupportedDTypeError:
            raise KernelTypeError(
                f"{self.name}: dtype={quote(self._dtype)} is not a type of a kernel; use a NumPy or C name"
            ) from None

    def _map_element(self, b: Builder, types: dict[str, DType], accumulator: Any) -> Any:
        translator = self._translator(b, types)
        # CuPy's numbers of an element: of those reduced together, and of all, which are the same with raw arrays.
        _bind(translator, "_J", b.index())
        if any(each.is_raw for each in b.params):
            _bind(translator, "_j", b.index())
        for number, param in enumerate(self._inputs):  # which come first
            _bind_parameter(translator, number, b.params[number], is_indexed=param.is_pointer)
        return translator.result(self._map, accumulator)

    def _value(self, b: Builder, text: Snippet, types: dict[str, DType], dtype: Any, names: dict[str, Any]) -> Any:
        translator = self._translator(b, types)
        for name, value in names.items():
            _bind(translator, name, value)
        return translator.result(text, dtype)

    def _finish(
        self, b: Builder, a: Any, in_size: Node, out_size: Node, types: dict[str, DType], outputs: list[DType]
    ) -> list[Node]:
        if not self._outputs:
            return leaves(a)
        translator = self._translator(b, types, has_sizes=True)
        memory = translator.memory
        _bind(translator, "a", a)
        _bind_sizes(translator, in_size, out_size)
        cells = [memory.cell(param.name, dtype) for param, dtype in zip(self._outputs, outputs, strict=True)]
        memory.outputs = frozenset(cells)
        for cell in cells:
            translator.bind(cell.name, cell)
        translator.run(self._post)
        found = [memory.state.cells.get(cell) for cell in cells]
        for cell, slot in zip(cells, found, strict=True):
            if slot is None:
                raise KernelSyntaxError(f"{self.name}: output {cell.name!r} is never written by post_map_expr")
            if slot.written is not memory.true:  # another path keeps what the output holds
                raise OutputReadError
        return [slot.value for slot in found if slot is not None]

    def _identity_value(self, types: dict[str, DType], accumulator: Any) -> tuple[Any, ...] | None:
        if self._identity is None:
            return None
        b = Builder(math=self.math)
        numbers = leaves(self._value(b, self._identity, types, accumulator, {}))
        programs = [store_all(Builder(math=self.math), "out", [node]) for node in numbers]
        for program in programs:
            self._refuse_loops(program)
        return tuple(map(compute_stored_value, programs))

    def _refuse_loops(self, program: Program) -> None:
        if any(node.op == "fact" for node in program.nodes):
            raise KernelSyntaxError(
                f"{self.name}: _ind.get(), shape() and ndim are for element-wise kernels, and for maps of raw arrays"
            )
        if any(node.op == "loop" for node in program.nodes):
            raise KernelSyntaxError(
                f"{self.name}: a function of its preamble has a loop that ends with the data, or is too long to be "
                "written out, which a reduction's expressions cannot run; compute an array with an element-wise kernel "
                "and reduce that"
            )


def _bind(translator: Translator, name: str, value: Any) -> None:
    """Declare a name for a value."""
    if is_struct(value):
        translator.bind(name, ReadOnly(translator.memory.temporary(translator.types.own_value(value))))
    else:
        translator.bind(name, Constant(value))


def _bind_parameter(
    translator: Translator, number: int, param: Param, *, is_writable: bool = False, is_indexed: bool = False
) -> None:
    """Declare a parameter; ``is_indexed`` of an array whose elements PyCUDA's notation writes as ``x[i]``."""
    memory, name = translator.memory, param.name
    own = memory.raw(Raw(name, param.dtype, number)) if param.is_raw else memory.cell(name, param.dtype, number)
    found = own if is_writable else ReadOnly(own)
    translator.bind(name, Own(name, found) if is_indexed and not (param.is_raw or param.is_scalar) else found)


def _bind_sizes(translator: Translator, in_size: Node, out_size: Node) -> None:
    """Declare ``_in_ind`` and ``_out_ind``."""
    translator.bind("_in_ind", ShapeOfCall("_in_ind", in_size, has_axes=False))
    translator.bind("_out_ind", ShapeOfCall("_out_ind", out_size, has_axes=False))
