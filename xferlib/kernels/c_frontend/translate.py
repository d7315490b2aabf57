"""Statements and expressions of a snippet, translated into the nodes of a program.

Passing the C text through to NVRTC would be shorter, and CuPy does it. But then the CPU engine could not run the
kernel, and results would differ: NVRTC contracts ``a*b+c``, and leaves ``(int)NaN`` or ``x % 0`` undefined. Here the
operations of the representation define every result, on every backend.

Three things of C need care. C converts silently, by the integer promotions and the usual arithmetic conversions: each
becomes an explicit cast. A branch becomes straight-line code: both sides are computed and one is selected, which is
sound because no operation of the representation can fail; reading or writing an element at a computed index could, so
it carries the branch's condition as its mask. ``&&``, ``||`` and ``?:`` guard their operands alike.

A short snippet may stand for millions of nodes through its loops and functions. `Work` counts what is translated, and
ends it with an error; a loop that would be too long written out is run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from xferlib.errors import KernelSyntaxError, KernelTypeError, did_you_mean
from xferlib.kernels import complex_formulas
from xferlib.kernels.c_frontend import functions, parse, tree
from xferlib.kernels.c_frontend.calls import Calls
from xferlib.kernels.c_frontend.loops import Loops, may_change, owner_of
from xferlib.kernels.c_frontend.memory import Branch, Memory, RefusedError, SsaValue
from xferlib.kernels.c_frontend.preprocess import SourceText
from xferlib.kernels.c_frontend.scope import (
    MOST_ELEMENTS,
    VECTORS,
    ArrayType,
    Cell,
    ComplexParts,
    CompoundObject,
    Constant,
    Either,
    Frame,
    HeaderNumber,
    Jump,
    NamedType,
    Overloads,
    Own,
    Pointer,
    PointerType,
    PointerVariable,
    Raw,
    ReadOnly,
    Scope,
    ScopedNumbers,
    ShapeOfCall,
    StructType,
    cells_of,
    is_array,
    is_struct,
    is_variable,
    plain,
)
from xferlib.kernels.c_frontend.types import Types
from xferlib.kernels.complex_formulas import complex_equal, complex_multiply, complex_not_equal, each_part, with_real
from xferlib.kernels.functions import C_TYPES, c_common, promote_c
from xferlib.kernels.ir import (
    BOOL,
    INT32,
    INT64,
    MOST_AXES,
    MOST_STEPS,
    UINT64,
    Builder,
    DType,
    LayoutFact,
    Node,
    Store,
    is_complex,
    is_float,
    is_integer,
    part_dtype,
)

_STEP = 3
"""The work of translating an expression or a statement, beside the nodes that it makes."""
TOO_LONG = "the loops and functions written out have more than"

_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
_COMPLEX = {
    "+": each_part("add"), "-": each_part("sub"), "*": complex_multiply, "/": complex_formulas.divide,
    "==": complex_equal, "!=": complex_not_equal,
}  # fmt: skip
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_BITS = {"&": "and", "|": "or", "^": "xor"}
_SHIFTS = {"<<": "shl", ">>": "shr"}
_LISTS = {"shape": "extent", "strides": "stride"}


class TranslationTooLongError(Exception):
    """More work than a snippet may take."""


def _root() -> Scope:
    found = Scope(is_users=False)
    found.names.update({name: HeaderNumber(*each) for name, each in functions.NAMED.items()})
    found.names.update(VECTORS)
    return found


_ROOT = _root()


class Translator:
    """Builds the nodes of one program from snippets that share a preamble, for one binding of the generic types."""

    def __init__(
        self, b: Builder, preamble: parse.Preamble, types: Mapping[str, DType], ordered: frozenset[int] = frozenset()
    ) -> None:
        self.b = b
        b.saturates = True
        self.memory = Memory(b, ordered, work=self.count)
        self.zero_index = b.const(0, INT64)
        self.number = b.index()
        """The value of ``i``."""
        _ROOT.names.update(C_TYPES)  # also with types that a later text has named
        self.globals = Scope(Scope(_ROOT, is_users=False))
        assert self.globals.outer is not None
        self.globals.outer.names.update(types)
        self.frame = Frame(preamble.source, self.globals, Jump())
        self.types = Types(self)
        self.calls: Calls = Calls(self, self.types)
        self._loops = Loops(self, self.calls.may_write)
        self._end, self._next = Jump(), Jump()
        self._safely(lambda: self._define(preamble))
        self._kernel = Scope(self.globals, is_users=False)
        self.frame = Frame(preamble.source, self._kernel, self._end)

    def count(self, more: int) -> None:
        self.b.work += _STEP * more
        if self.b.work > MOST_STEPS:
            raise TranslationTooLongError

    # --- entries
    def declare_kernel(self, layouts: Mapping[str, tuple[Node, bool]], *, is_pycudas: bool = False) -> None:
        """Declare what a snippet knows of its call: ``i``, ``n``, and the sizes by name, with axes or without.

        In CuPy's notation a kernel has no ``n``, so that the name is the preamble's where that declares one.
        """
        names = self._kernel.names
        cell = self.memory.cell("i", INT64)
        self.memory.state.cells[cell] = SsaValue(self.number, self.memory.true)
        names["i"] = cell
        if is_pycudas or "n" not in self.globals.names:
            names["n"] = Constant(self.b.size())
        for name, (size, has_axes) in layouts.items():
            names[name] = ShapeOfCall(name, size, has_axes)
        self.frame.scope = self._params = Scope(self._kernel)

    def bind(self, name: str, entity: Any) -> None:
        """Declare a parameter or a value."""
        self._params.names[name] = entity

    def run(self, snippet: parse.Snippet) -> None:
        """Translate statements whose variables live on, such as those before the others."""
        self.frame.source = snippet.source
        self.frame.scope = Scope(self.frame.scope)
        self._safely(lambda: self.statements(snippet.statements))

    def run_unless_returned(self, snippet: parse.Snippet) -> None:
        """Translate statements that run where those before have not met ``return``; their variables end with them."""
        self.frame.source = snippet.source

        def run() -> None:
            returned = self.memory.jump_condition()
            if returned is None:
                self._run_in_block(snippet)
            elif returned is not self.memory.true:
                before = self.memory.enter(self.b.op("not", returned))
                self._run_in_block(snippet)
                self._resume(returned, before)

        self._safely(run)

    def _run_in_block(self, snippet: parse.Snippet) -> None:
        with self.block():
            self.statements(snippet.statements)
        self.memory.end_jump(self._next)

    def result(self, snippet: parse.Snippet, dtype: Any) -> Any:
        """The value of a snippet that is one expression, as one of this type."""
        self.frame.source = snippet.source
        return self._safely(lambda: self.types.convert(snippet.statements[0].value, self.types.own_type(dtype)))

    def find_user_type(self, name: str) -> Any:
        """The type of a name as a user gives it, a dtype or a `StructType`; None if there is none."""
        try:
            text = parse.read_snippet(f"{name} x = 0", "dtype", self._preamble)
            return self.types.resolve_name(text.statements[0].variables[0].type.base)
        except (KernelSyntaxError, KernelTypeError):  # no name of a type
            return None

    def stores(self) -> list[Store]:
        return self.memory.stores()

    def _safely(self, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except RecursionError:
            raise self.frame.source.error("is nested too deeply; use local variables for parts of it") from None
        except TranslationTooLongError:
            raise self.frame.source.error(
                f"{TOO_LONG} {MOST_STEPS} steps; take fewer turns and calls, or use raw_module"
            ) from None
        except RefusedError as problem:
            raise self.frame.source.error(str(problem), kind=problem.kind) from None

    def error(self, node: Any, message: str, kind: type[Exception] | None = None) -> Exception:
        """An error that points at ``node``."""
        return self.frame.source.error(message, node.at, node.width, **({"kind": kind} if kind else {}))

    def fail(self, node: Any, message: str, kind: type[Exception] | None = None) -> NoReturn:
        raise self.error(node, message, kind)

    @contextmanager
    def _point_at(self, node: Any) -> Iterator[None]:
        """Point what memory refuses at an expression."""
        try:
            yield
        except RefusedError as problem:
            raise self.error(node, str(problem), problem.kind) from None

    # --- the preamble
    def _define(self, preamble: parse.Preamble) -> None:
        """Declare what a preamble defines."""
        self._preamble = preamble
        for each in preamble.definitions:
            if isinstance(each, tree.FunctionTree):
                self.calls.define(self.globals, each)
            elif isinstance(each, tree.StructTree):
                self.types.declare_struct(each)
            elif isinstance(each, tree.Alias):
                self.types.refuse_another(each, self.globals.names.get(each.name))
                self.globals.names[each.name] = NamedType(each, self.globals, preamble.source)
        for each in preamble.definitions:
            if isinstance(each, (tree.Enumeration, tree.Declaration)):
                self.statement(each)
        for name, each in self.globals.names.items():
            if is_variable(each) and not isinstance(each, (ReadOnly, Constant)):
                self.globals.names[name] = ReadOnly(each)

    # --- frames and blocks
    @contextmanager
    def inside(self, scope: Scope, source: SourceText) -> Any:
        """Look names up in another scope, and point errors into its source."""
        frame = self.frame
        outside = frame.scope, frame.source
        frame.scope, frame.source = scope, source
        yield
        frame.scope, frame.source = outside

    @contextmanager
    def block(self) -> Any:
        """Open a block: the names declared inside end with it, and their contents."""
        frame, memory = self.frame, self.memory
        outside, mark = frame.scope, len(memory.created)
        frame.scope = Scope(outside)
        yield
        frame.scope = outside
        memory.forget(mark)

    def where(self, condition: Node, yes: Callable[[], Any], no: Callable[[], Any] = lambda: None) -> list[Any]:
        """Run one function under ``condition`` and one under its opposite; returns their values, and merges states."""
        memory, states, found = self.memory, [], []
        for each, run in ((condition, yes), (self.b.op("not", condition), no)):
            before = memory.enter(each)
            found.append(run())
            states.append(memory.leave(before))
        memory.merge(condition, *states)
        return found

    def follow(self, runs: Iterable[Callable[[], Any]], last: Callable[[], Any] = lambda: None) -> None:
        """Run functions in order, and ``last``; after one that may have jumped, the rest runs where it has not."""
        memory = self.memory
        opened: list[tuple[Node, Branch]] = []
        for run in runs:
            before = memory.jump_condition()
            if before is not memory.true:
                run()
            jumped = memory.jump_condition()
            if jumped is memory.true:
                break  # every path has jumped; the next function may not even be asked for
            if jumped is not None and jumped is not before:
                opened.append((jumped, memory.enter(self.b.op("not", jumped))))
        last()
        for jumped, outside in reversed(opened):
            self._resume(jumped, outside)

    def _resume(self, jumped: Node, before: Branch) -> None:
        """End a branch that ran where nothing had ``jumped``, and merge its state."""
        rest = self.memory.leave(before)
        self.memory.merge(jumped, self.memory.state, rest)

    # --- statements
    def statements(self, statements: Sequence[Any]) -> None:
        self.follow(functools.partial(self.statement, each) for each in statements)

    def statement(self, node: Any) -> None:
        self.count(1)
        try:
            _STATEMENTS[type(node)](self, node)
        except RefusedError as problem:
            raise self.error(node, str(problem), problem.kind) from None

    def _evaluate(self, node: tree.Evaluate) -> None:
        self.effect(node.expr)

    def effect(self, expr: Any) -> None:
        """Translate an expression for what it changes."""
        if isinstance(expr, tree.Comma):
            for each in expr.exprs:
                self.effect(each)
        elif isinstance(expr, tree.CallExpression):
            self.calls.call(expr, is_used=False)
        elif (
            isinstance(expr, tree.Assignment)
            or (isinstance(expr, tree.Unary) and expr.op in tree.STEPS)
            or (isinstance(expr, (tree.Conditional, tree.Binary)) and may_change(expr))
            or (isinstance(expr, tree.Unary) and self.calls.operator(expr.op) is not None)
        ):
            self.value(expr)
        elif isinstance(expr, tree.Cast) and expr.type.base.name == "void" and not expr.type.pointers:
            pass  # says that a variable is not used
        else:
            self.fail(expr, "a statement without effect; assign its value")

    def _compound(self, node: tree.Compound) -> None:
        with self.block():
            self.statements(node.statements)

    def _return(self, node: tree.Return) -> None:
        frame = self.frame
        if not frame.is_function:
            if node.value is not None:
                self.fail(node, "the snippet returns no value; assign it to an output")
        elif frame.references is not None:
            if node.value is None:
                self.fail(node, "return needs a value")
            found = self.pointer(node.value) if frame.is_pointer else self.lvalue(node.value)
            frame.references.append((self.memory.path, found))
        elif frame.returns is not None:
            if node.value is None:
                self.fail(node, "return needs a value")
            self.memory.store(frame.result, self.types.convert(node.value, frame.returns))
        elif node.value is not None:
            self.effect(node.value)
        self.memory.jump(frame.end)

    def _declaration(self, node: tree.Declaration) -> None:
        for each in node.variables:
            self.count(1)
            with self._point_at(each):
                self._declare(each)

    def _declare(self, node: tree.Variable) -> None:
        frame, name, kind = self.frame, node.name, node.type
        if frame.scope.names.get(name) is not None and is_variable(frame.scope.names[name]):
            self.fail(node, f"{name!r} is declared already; choose another name")
        if node.is_static and frame.scope is not self.globals and not kind.is_const:
            self.fail(
                node, f"static variable {name!r} is not supported: it would live on between elements, which run in no "
                "order; write 'static const' for a constant, or use an array",
            )  # fmt: skip
        if kind.is_reference:
            found = self._reference(node)
        elif kind.base.name == "auto":
            found = self._auto(node)
        else:
            found = self._variable(node)
        if node.is_static and frame.scope is not self.globals:
            values = [self.memory.state.cells.get(cell) for cell in cells_of(found)]
            if any(slot is not None and self.memory.constant(slot.value) is None for slot in values):
                self.fail(
                    node, f"static {name!r} keeps the value of its first run in C++, and elements run in no order; "
                    "drop 'static'",
                )  # fmt: skip
        frame.scope.names[name] = found

    def _variable(self, node: tree.Variable) -> Any:
        name, declared = node.name, node.type
        extents = declared.extents
        if declared.pointers:
            return self._pointer(node, self.types.resolve(declared))
        if extents and extents[0] is None:
            if node.value is None:
                self.fail(node, f"the length of {name!r} must be known at translation; write a number")
            inner = self.types.resolve(tree.DeclaredType(declared.base, extents=extents[1:], at=declared.at))
            rows = inner if isinstance(inner, ArrayType) else ArrayType(inner, ())
            values: list[Any] | None = self.types.list_elements(node.value, replace(rows, extents=(0, *rows.extents)))
            count = max(1, -(-len(values or ()) // rows.count))
            kind: Any = replace(rows, extents=(count, *rows.extents))
        else:
            kind = self.types.resolve(declared)
            if isinstance(kind, PointerType):
                return self._pointer(node, kind)
            values = (
                self.types.list_elements(node.value, kind)
                if isinstance(kind, ArrayType) and node.value is not None
                else None
            )
        if isinstance(kind, ArrayType):
            return self._array(node, kind, values)
        value = None
        if node.value is not None:
            value = self.types.convert(node.value, kind)
        elif isinstance(kind, StructType) and self.calls.has_constructor(kind):
            value = self.calls.make(node, kind, [])
        found = self.memory.new(name, kind)
        if value is not None:
            self.memory.store(found, value, name)
        return ReadOnly(found) if declared.is_const and value is not None else found

    def _array(self, node: tree.Variable, kind: ArrayType, values: list[Any] | None) -> Any:
        if not 0 < kind.count <= MOST_ELEMENTS or (values is not None and len(values) > kind.count):
            self.fail(
                node, f"{node.name!r} has {kind.count} element(s); at most {MOST_ELEMENTS}, and no fewer than values"
            )
        found = self.memory.new(node.name, kind)
        if values is not None:
            for number, each in enumerate(found.inside):
                given = values[number] if number < len(values) else self.types.zero(node, kind.element)
                self.memory.store(each, given, node.name)
        elif isinstance(kind.element, StructType) and self.calls.has_constructor(kind.element):
            for each in found.inside:
                self.memory.store(each, self.calls.make(node, kind.element, []), node.name)
        return ReadOnly(found) if node.type.is_const and values is not None else found

    def _pointer(self, node: tree.Variable, kind: PointerType) -> Any:
        """``T* p = &x[k]``."""
        if node.value is None:
            self.fail(node, f"{node.name!r} must point to numbers, and be given its place where it is declared")
        value = self.pointer(self._only(node))
        self.types.check_pointer(node, kind, value)
        is_const = kind.is_const or value.is_const
        return self.memory.pointer_variable(node.name, Pointer(value.base, value.index, value.dtype, is_const))

    def _only(self, node: tree.Variable) -> Any:
        """The one expression that a variable is given."""
        value = node.value
        if isinstance(value, (tree.Listed, tree.Arguments)):
            if len(value.items) != 1:
                self.fail(node, f"{node.name!r} is given {len(value.items)} values and takes one")
            return value.items[0]
        return value

    def _reference(self, node: tree.Variable) -> Any:
        """``T& r = x[k]``: another name for the object."""
        if node.value is None:
            self.fail(node, f"reference {node.name!r} must be given its variable where it is declared")
        return self.bind_reference(node, node.type, self._only(node))

    def bind_reference(self, node: Any, declared: tree.DeclaredType, expr: Any) -> Any:
        """The object that a reference to an expression is."""
        is_auto = declared.base.name == "auto"
        kind = None if is_auto else self.types.resolve(declared)
        place, value = self.evaluate(expr)
        if place is not None:
            given = self.type_at(place)
            if kind is None or kind == given:
                return ReadOnly(place) if declared.is_const else place
            if not declared.is_const:
                self.fail(node, f"a reference to {kind} cannot lead to {given}; convert", KernelTypeError)
            value = self.memory.load(place) if value is None else value
        if not declared.is_const:
            self.fail(node, f"reference {_format_name(node)} leads to no variable; declare it const, or give it one")
        if kind is not None:
            value = self.types.cast(node, value, kind)
        return ReadOnly(self.memory.temporary(value))

    def _auto(self, node: tree.Variable) -> Any:
        if node.value is None:
            self.fail(node, f"auto {node.name!r} has no value that says its type; give it one")
        expr = self._only(node)
        if node.type.extents:
            self.fail(node, "auto is not a type of an array; name the type")
        value = self.value(expr)
        if isinstance(value, Pointer):
            is_const = value.is_const or (bool(node.type.pointers) and node.type.is_const)
            return self.memory.pointer_variable(node.name, Pointer(value.base, value.index, value.dtype, is_const))
        if node.type.pointers:
            self.fail(node, f"auto* {node.name!r} needs a pointer, and {value.dtype} is given")
        found = self.memory.new(node.name, value.dtype)
        self.memory.store(found, value, node.name)
        return ReadOnly(found) if node.type.is_const else found

    # --- branches and loops
    def _if(self, node: tree.If) -> None:
        if node.begin is not None:
            with self.block():
                self.statement(node.begin)
                self._if(tree.If(node.condition, node.yes, node.no, at=node.at))
            return
        condition = self.b.truth(self.value_of_number(node.condition))
        known = self.memory.constant(condition)
        if known is not None:
            self._branch(node.yes if known else node.no)
        else:
            self.where(condition, lambda: self._branch(node.yes), lambda: self._branch(node.no))

    def _branch(self, statement: Any) -> None:
        if statement is not None:
            with self.block():
                self.statement(statement)

    def _jump(self, node: tree.JumpStatement) -> None:
        frame = self.frame
        for stop, following in reversed(frame.loops):
            if node.kind == "break":
                self.memory.jump(stop)
                return
            if following is not None:
                self.memory.jump(following)
                return
        if node.kind == "continue" and not frame.is_function:
            self.memory.jump(self._next)  # in CuPy it goes on with the next element
            return
        self.fail(node, f"{node.kind} stands outside of a loop; return ends the snippet for an element")

    def _switch(self, node: tree.Switch) -> None:
        """Cases in order: each runs where its value was met, or the one before it has not ended with ``break``."""
        memory, frame = self.memory, self.frame
        stop = Jump()
        outside = frame.loops
        frame.loops = (*outside, (stop, None))
        value = self.value_of_number(node.value)
        if value.dtype.kind not in "biu":
            self.fail(node.value, f"switch needs an integer, not {value.dtype}; cast it", KernelTypeError)

        def run(condition: Node | None, case: tree.SwitchCase) -> None:
            if condition is None or condition is memory.true:
                self.statements(case.statements)
            elif (known := memory.constant(condition)) is None or known:
                self.where(condition, lambda: self.statements(case.statements))

        with self.block():
            self.follow(functools.partial(run, *each) for each in self._cases(node, value))
        memory.end_jump(stop)
        frame.loops = outside

    def _cases(self, node: tree.Switch, value: Node) -> list[tuple[Node | None, tree.SwitchCase]]:
        """The cases of a ``switch``, each with its condition; None of a ``default`` at the end."""
        value = self.b.cast(value, promote_c(value.dtype))
        is_met: dict[int, Node] = {}
        labels: set[int] = set()
        for each in node.cases:
            if each.value is not None:
                label = self.b.cast(self.value_of_number(each.value), value.dtype)
                known = self.memory.constant(label)
                if known is None:
                    self.fail(each.value, "a case must be known at translation; use if")
                if int(known) in labels:
                    self.fail(each.value, f"case {int(known)} stands there twice; take one away")
                labels.add(int(known))
                is_met[id(each)] = self.b.op("eq", value, label)
        active = none = self.b.const(False, BOOL)
        for condition in is_met.values():
            none = self.b.op("or", none, condition)
        found: list[tuple[Node | None, tree.SwitchCase]] = []
        for case in node.cases:
            active = self.b.op("or", active, is_met.get(id(case), self.b.op("not", none)))
            is_rest = case is node.cases[-1] and case.value is None
            found.append((None if is_rest else active, case))
        return found

    # --- expressions
    def evaluate(self, node: Any) -> tuple[Any, Any]:
        """The object that an expression stands for, None where it stands for none, and its value, None if not read."""
        self.count(1)
        translate = _EXPRESSIONS.get(type(node))
        if translate is None:
            self.fail(node, f"{type(node).__name__} has no value here; use it where a variable is declared")
        try:
            found = translate(self, node)
        except RefusedError as problem:
            raise self.error(node, str(problem), problem.kind) from None
        if type(found) is tuple:
            return found
        return (None, found) if type(found) is Node or not is_variable(found) else (found, None)

    def value(self, node: Any) -> Any:
        """The value of an expression: a number, a struct or a pointer."""
        try:
            if type(node) is tree.Conditional:  # each side is read where it is reached
                self.count(1)
                return self._conditional(node, lambda side: (None, self.value(side)))
            place, value = self.evaluate(node)
            return self.memory.load(place) if value is None else value
        except RefusedError as problem:
            raise self.error(node, str(problem), problem.kind) from None

    def lvalue(self, node: Any) -> Any:
        """The object that an expression stands for."""
        place, _ = self.evaluate(node)
        if place is not None:
            return place
        if isinstance(node, tree.This):
            self.fail(node, "'this' is a pointer that cannot be changed")
        if isinstance(node, tree.Assignment):
            self.fail(node, "this assignment gives no variable")
        if isinstance(node, (tree.Index, tree.Member)):
            self.fail(node, "a part of a value is read-only; assign to an output or a local variable")
        raise self.error(node, "this is neither a variable nor an element, has no address, and cannot be assigned to")

    def read(self, found: Any) -> Any:
        """The value of an object, or a value itself."""
        return self.memory.load(found) if is_variable(found) else found

    def value_of_number(self, node: Any) -> Node:
        """The value of an expression that is a number."""
        return self.number_of(node, self.value(node))

    def number_of(self, node: Any, value: Any) -> Node:
        if isinstance(value, Node):
            return value
        if is_struct(value):
            self.fail(node, f"a {value.dtype} is not a number; take a member of it", KernelTypeError)
        if isinstance(node, tree.Unary) and node.op == "&":
            self.fail(node, "an address is not a number; pass it to a function, or declare a pointer by it")
        name = _find_variable_name(node)
        raise self.error(node, f"{name!r} is an array; index it, for instance {name}[i]")

    def _number(self, node: tree.Literal) -> Node:
        try:
            value, dtype = functions.number(node.text)
        except functions.NumberError as problem:
            self.fail(node, str(problem))
        return self.b.const(value, dtype)

    def entity(self, node: tree.Name) -> Any:
        """The meaning of a name."""
        scope = self.frame.scope
        if node.owner is not None:
            return self.resolve_scope(node)
        found = scope.find(node.name)
        if found is None:
            known = scope.list_names()
            given = ", ".join(known) or "no names"
            self.fail(node, f"{node.name!r} is not declared{did_you_mean(node.name, known)}; known here are {given}")
        if isinstance(found, HeaderNumber):
            return Constant(self.b.const(*found))
        return found

    def resolve_scope(self, node: tree.Name) -> Any:
        """``E::A``, and ``numeric_limits<T>::max``."""
        owner = node.owner
        assert owner is not None
        if owner.parts[0][0] != "numeric_limits":
            entity = self.frame.scope.find(owner.parts[0][0])
            if isinstance(entity, ScopedNumbers) and node.name in entity.numbers:
                return entity.numbers[node.name]
            kind = self.types.find(owner)
            found = kind.scope.find(node.name) if isinstance(kind, StructType) and kind.scope is not None else None
            if found is not None:
                return found
            if owner.parts[0][1] is None and isinstance(entity, np.dtype) and len(owner.parts) == 1:
                numbers = self.frame.scope.find(node.name)  # an enumeration's own name before its number
                if isinstance(numbers, Constant):
                    return numbers
        raise self.error(node, f"{owner}::{node.name} is not known here")

    def _name(self, node: tree.Name) -> Any:
        found = self.entity(node)
        if isinstance(found, ShapeOfCall):
            self.fail(node, f"{node.name} is not a number; use {node.name}.size()")
        if not is_variable(found):
            what = "a function" if isinstance(found, Overloads) else "a type"
            self.fail(node, f"{node.name!r} is {what}, and has no value")
        return found, None

    def this(self, node: tree.This) -> Any:
        if self.frame.this is None:
            self.fail(node, "'this' stands outside of a struct's functions")
        return self.memory.address(self.frame.this)

    def _cast(self, node: tree.Cast) -> Any:
        kind = node.type
        if kind.base.name == "void":
            if kind.pointers:
                return self.pointer(node.expr)
            self.fail(node, "void has no value")
        if kind.is_reference:
            return self._reference_cast(node)
        if not kind.pointers:
            return self.types.cast(node.expr, self.value(node.expr), self.types.resolve(kind))
        found: PointerType = self.types.resolve(kind)
        value = self.pointer(node.expr)
        dtype, given = found.element, value.dtype
        is_const = value.is_const or found.is_const
        if dtype == given:
            return Pointer(value.base, value.index, value.dtype, value.is_const)
        if isinstance(given, np.dtype) and isinstance(dtype, np.dtype):
            if is_complex(given) and dtype == part_dtype(given):
                return self.memory.parts(value)
            if isinstance(value.base, ComplexParts) and dtype == value.base.base.dtype and value.index is not None:
                half = self.b.op("shr", value.index, self.b.const(1, INT64))
                return self.memory.move(value.base.base, half)
            is_plain = dtype.kind in "iuf" and given.kind in "iuf" and dtype.itemsize == given.itemsize
            if is_plain and not isinstance(value.base, ComplexParts):
                return Pointer(value.base, value.index, dtype, is_const)
        raise self.error(node, f"a pointer to {given} cannot become one to {dtype}; convert the value", KernelTypeError)

    def _reference_cast(self, node: tree.Cast) -> Any:
        """``(T&)x``."""
        place = self.lvalue(node.expr)
        if self.types.resolve(node.type) == self.type_at(place):
            return place
        pointed = tree.DeclaredType(node.type.base, 1, is_const=node.type.is_const, at=node.at)
        address = tree.Unary("&", node.expr, at=node.at)
        return self.memory.element(self.value(tree.Cast(pointed, address, at=node.at)), self.zero_index)

    def _construct(self, node: tree.Construct) -> Any:
        return self.types.construct(node, self.types.resolve_name(node.type), node.args)

    def _unary(self, node: tree.Unary) -> Any:
        op = node.op
        if op in tree.STEPS:
            count = self.b.const(1, INT32)
            place, before, after = self._update(
                node.expr, lambda value: self._step(node, op.lstrip("p")[0], value, count)
            )
            return before if op.startswith("p") else (place, after)
        if op == "&":
            return self._address(node.expr)
        if self.calls.operator(op) is not None:
            argument = self.calls.argument(node.expr)
            if (found := self.calls.call_operator(node, op, [argument])) is not None:
                return found
            value = argument.value
        else:
            value = self.value(node.expr)
        if op == "*":
            name = _find_variable_name(node.expr)
            return self.memory.element(self.as_pointer(node.expr, value), self.zero_index, name)
        return self._apply_sign(node, op, self.number_of(node.expr, value))

    def _address(self, node: Any) -> Pointer:
        """``&x``; of an element it is a pointer that may move along the array."""
        if isinstance(node, tree.Index) and not self._is_layout(node.array):
            array, index = self._array_and_index(node)
            if isinstance(plain(array), (Raw, Pointer, PointerVariable)) or (
                is_array(plain(array)) and len(array.dtype.extents) == 1
            ):
                pointer = array if isinstance(array, Pointer) else self.memory.load(array)
                return self.memory.move(pointer, index, _find_variable_name(node))
            if is_array(plain(array)):
                self.fail(node, "a pointer to a row of an array is not supported; write the address of an element")
        if isinstance(node, tree.Unary) and node.op == "*":
            return self.pointer(node.expr)
        place = self.lvalue(node)
        if isinstance(plain(place), (Raw, Own)) or is_array(plain(place)):
            self.fail(node, f"{_find_variable_name(node)!r} is an array, which is a pointer already")
        return self.memory.address(place)

    def _apply_sign(self, node: Any, op: str, value: Node) -> Node:
        if op == "!":
            return self.b.op("not", self.b.truth(value))
        value = self.b.cast(value, promote_c(value.dtype))
        if op == "+":
            return value
        if op == "~":
            if value.dtype.kind not in "iu":
                self.fail(node, f"~ needs an integer, not {value.dtype}", KernelTypeError)
            return self.b.op("not", value)
        return each_part("neg")(self.b, value) if is_complex(value.dtype) else self.b.op("neg", value)

    def _binary(self, node: tree.Binary) -> Any:
        chain = []
        while isinstance(node, tree.Binary) and node.op not in ("&&", "||"):
            chain.append(node)
            node = node.left
        left: Any = self._either_side(node) if isinstance(node, tree.Binary) else None
        for each in reversed(chain):
            self.count(1)
            with self._point_at(each):
                left = self._of_two(each, each.left if left is None else left, each.right)
        return left

    def _of_two(self, node: tree.Binary, left: Any, right: Any) -> Any:
        """The value of an operator of two expressions, the left one of which may be a value."""
        if self.calls.operator(node.op) is not None:
            args = [self.calls.argument(each) for each in (left, right)]
            found = self.calls.call_operator(node, node.op, args)
            if found is not None:
                return self.read(found)
            x, y = (each.value for each in args)
        else:
            x = self.value(left) if isinstance(left, tree.Tree) else left
            y = self.value(right)
        if isinstance(x, Pointer) or isinstance(y, Pointer):
            return self._on_pointers(node, node.op, x, y)
        return self._arithmetic(node, node.op, self.number_of(node.left, x), self.number_of(node.right, y))

    def _either_side(self, node: tree.Binary) -> Node:
        """``&&`` and ``||``."""
        left = self.b.truth(self.value_of_number(node.left))
        known = self.memory.constant(left)
        if known is not None and bool(known) == (node.op == "||"):
            return self.b.const(bool(known), BOOL)
        taken = left if node.op == "&&" else self.b.op("not", left)
        if known is not None:
            return self.b.truth(self.value_of_number(node.right))
        if may_change(node.right):
            right, _ = self.where(taken, lambda: self.b.truth(self.value_of_number(node.right)))
        else:
            with self.memory.guard(taken):
                right = self.b.truth(self.value_of_number(node.right))
        return self.b.op("and" if node.op == "&&" else "or", left, right)

    def _step(self, node: Any, op: str, value: Any, count: Any) -> Any:
        """A variable's value after ``++`` or ``+=``."""
        if isinstance(value, Pointer):
            return self._on_pointers(node, op, value, count)
        target = getattr(node, "target", getattr(node, "expr", node))
        return self._arithmetic(node, op, self.number_of(target, value), self.number_of(node, count))

    def _on_pointers(self, node: Any, op: str, left: Any, right: Any) -> Any:
        if isinstance(left, Pointer) and isinstance(right, Pointer):
            if left.base is not right.base or op not in ("-", *_COMPARE):
                self.fail(node, f"{op} of pointers needs two into one array; compare indices")
            zero = self.b.const(0, INT64)
            x, y = (zero if each.index is None else each.index for each in (left, right))
            return self.b.op("sub" if op == "-" else _COMPARE[op], x, y)
        if op not in "+-" or (op == "-" and isinstance(right, Pointer)):
            self.fail(node, f"{op} of a pointer and a number is not defined")
        pointer, count = (left, right) if isinstance(left, Pointer) else (right, left)
        number = self.number_of(node, count)
        if number.dtype.kind not in "biu":
            self.fail(node, f"the index is {number.dtype}; cast it to an integer", KernelTypeError)
        number = self.b.cast(number, INT64)
        return self.memory.move(pointer, number if op == "+" else self.b.op("neg", number), _find_variable_name(node))

    def _arithmetic(self, node: Any, op: str, left: Node, right: Node) -> Node:
        b = self.b
        if op in _SHIFTS:
            return self._shift(node, op, left, right)
        common = c_common(left.dtype, right.dtype)
        if op in _ARITHMETIC and is_complex(left.dtype) != is_complex(right.dtype):
            part = part_dtype(common)
            x, y = (b.cast(each, common if is_complex(each.dtype) else part) for each in (left, right))
            if (found := with_real(b, _ARITHMETIC[op], x, y)) is not None:
                return found
        x, y = b.cast(left, common), b.cast(right, common)
        if is_complex(common):
            if op not in _COMPLEX:
                self.fail(node, f"{op} is not defined for {common}", KernelTypeError)
            return _COMPLEX[op](b, x, y)
        if op in _COMPARE:
            return b.op(_COMPARE[op], x, y)
        if op in _BITS or op == "%":
            if is_float(common):
                remedy = {"%": "use fmod", "^": "cast to an integer, or write pow(x, y) for a power"}.get(
                    op, "cast to an integer"
                )
                self.fail(node, f"{op} is not defined for {left.dtype} and {right.dtype}; {remedy}", KernelTypeError)
            return b.op("imod" if op == "%" else _BITS[op], x, y)
        if op == "/" and not is_float(common):
            return b.op("idiv", x, y)
        if op not in _ARITHMETIC:
            self.fail(node, f"operator {op} is not supported in a snippet")
        return b.op(_ARITHMETIC[op], x, y)

    def _shift(self, node: Any, op: str, left: Node, right: Node) -> Node:
        if left.dtype.kind not in "biu" or right.dtype.kind not in "biu":
            problem = f"{op} is not defined for {left.dtype} and {right.dtype}; cast to integers"
            self.fail(node, problem, KernelTypeError)
        value = self.b.cast(left, promote_c(left.dtype))
        count = self.b.cast(right, INT64)
        if value.dtype.itemsize < 8:  # a count beyond the narrow type must stay beyond it
            width = self.b.const(8 * value.dtype.itemsize, INT64)
            is_inside = self.b.op("and", self.b.op("ge", count, self.zero_index), self.b.op("lt", count, width))
            count = self.b.select(is_inside, count, width)
        return self.b.op(_SHIFTS[op], value, self.b.cast(count, value.dtype))

    def _conditional(self, node: tree.Conditional, evaluate: Callable[[Any], tuple[Any, Any]] | None = None) -> Any:
        """``c ? x : y``: one of two objects, where ``evaluate`` finds both sides to be objects; else a value."""
        evaluate = evaluate or self.evaluate
        b, memory = self.b, self.memory
        condition = b.truth(self.value_of_number(node.condition))
        opposite = b.op("not", condition)
        sides: list[tuple[Any, Any]] = []
        if may_change(node.yes) or may_change(node.no):
            sides = self.where(condition, lambda: evaluate(node.yes), lambda: evaluate(node.no))
        else:
            for each, side in ((condition, node.yes), (opposite, node.no)):
                with memory.guard(each):
                    sides.append(evaluate(side))
        (yes, yes_value), (no, no_value) = sides
        if yes is not None and no is not None:
            one, other = self.type_at(yes), self.type_at(no)
            if isinstance(one, (PointerType, ArrayType)) and isinstance(other, (PointerType, ArrayType)):
                return memory.temporary(memory.select(condition, memory.load(yes), memory.load(no)))
            if one == other:
                return yes if yes is no else Either(((condition, yes), (opposite, no)), one)
        if yes_value is None:
            with memory.guard(condition):
                yes_value = memory.load(yes)
        if no_value is None:
            with memory.guard(opposite):
                no_value = memory.load(no)
        if is_struct(yes_value) or is_struct(no_value):
            if yes_value.dtype is not no_value.dtype:
                problem = f"?: chooses between a {yes_value.dtype} and a {no_value.dtype}; make them one type"
                self.fail(node, problem, KernelTypeError)
            return memory.select(condition, yes_value, no_value)
        if isinstance(yes_value, Pointer) or isinstance(no_value, Pointer):
            return memory.select(condition, yes_value, no_value)
        one, other = yes_value.dtype, no_value.dtype
        dtype = one if one == other else c_common(one, other)
        return b.select(condition, b.cast(yes_value, dtype), b.cast(no_value, dtype))

    def _comma(self, node: tree.Comma) -> Any:
        """All are evaluated, and the last one is the value."""
        for each in node.exprs[:-1]:
            self.effect(each)
        return self.evaluate(node.exprs[-1])

    def _assign(self, node: tree.Assignment) -> tuple[Any, Any]:
        """Translate an assignment; the object that has changed, or None, and its value."""
        if node.op == "=":
            if isinstance(node.value, tree.Listed):
                place = self.lvalue(node.target)
                return self._assign_value(node, place, self.types.convert(node.value, self.type_at(place)))
            value = self.value(node.value)
            return self._assign_value(node, self.lvalue(node.target), value)
        op = node.op[:-1]
        if self.calls.operator(node.op) is not None:
            args = [self.calls.argument(each) for each in (node.target, node.value)]
            if (found := self.calls.call_operator(node, node.op, args)) is not None:
                return (found if is_variable(found) else args[0].place), self.read(found)
            value, place = args[1].value, args[0].place
        else:
            value, place = self.value(node.value), None
        place, _, after = self._update(node.target, lambda before: self._step(node, op, before, value), place)
        return place, after

    def _assign_value(self, node: tree.Assignment, place: Any, value: Any) -> tuple[Any, Any]:
        target = node.target
        if isinstance(value, Pointer) and not isinstance(plain(place), (PointerVariable, CompoundObject, Raw, Own)):
            self.number_of(node.value, value)  # says what is wrong
        if is_struct(plain(place)) and isinstance(value, Node):
            kind = self.type_at(place)
            if self.calls.has_constructor(kind):
                value = self.calls.make(node, kind, [value], is_implicit=True)
        with self._point_at(target):
            return place, self.memory.store(place, value, _find_variable_name(target))

    def _update(self, target: Any, change: Callable[[Any], Any], place: Any = None) -> tuple[Any, Any, Any]:
        """Assign to what ``target`` stands for its changed value; the object, and its values before and after.

        The target is evaluated once: ``x[k++] += 1`` counts ``k`` by one.
        """
        place = self.lvalue(target) if place is None else place
        with self._point_at(target):
            value = self.memory.load(place)
            if is_struct(value):
                self.fail(target, f"a {value.dtype} is not a number; take a member of it", KernelTypeError)
            return place, value, self.memory.store(place, change(value), _find_variable_name(target))

    def _sizeof(self, node: tree.SizeOf) -> Node:
        if isinstance(node.of, tree.DeclaredType):
            kind = self.types.resolve(node.of)
        else:
            before = self.memory.snapshot()
            place, value = self.evaluate(node.of)
            kind = value.dtype if place is None else self.type_at(place)
            self.memory.restore(before)
            if isinstance(plain(place), PointerVariable):
                return self.b.const(8, UINT64)
        return self.b.const(kind.itemsize, UINT64)

    # --- places
    def type_at(self, place: Any) -> Any:
        """The type of an object."""
        inner = plain(place)
        if isinstance(inner, PointerVariable):
            return PointerType(inner.dtype, inner.is_const)
        if isinstance(inner, Raw):
            return PointerType(inner.dtype, isinstance(place, ReadOnly))
        if isinstance(inner, Own):
            raise RefusedError(f"{inner.name!r} is an array; index it, for instance {inner.name}[i]")
        return inner.dtype

    def _array_and_index(self, node: tree.Index) -> tuple[Any, Node]:
        """The array of an element, and the index."""
        array, value = self.evaluate(node.array)
        if array is None:
            array = self.as_pointer(node.array, value)
        inner = plain(array)
        if isinstance(inner, Own):
            index = self.index(node.index)
            if index is not self.number:
                self.fail(
                    node,
                    f"{inner.name!r} is indexed by i alone here; an index that is computed needs another parameter",
                )
            return array, index
        if isinstance(inner, Raw) and (listed := self._coordinates(node.index)) is not None:
            return array, self._by_coordinates(inner.param, listed)
        if isinstance(node.index, tree.Listed):
            self.fail(node.index, "a list of indices is for arrays of the call")
        return array, self.index(node.index)

    def index(self, node: Any) -> Node:
        index = self.value_of_number(node)
        if not is_integer(index.dtype) and index.dtype.kind != "b":
            self.fail(node, f"the index is {index.dtype}; cast it to an integer", KernelTypeError)
        return self.b.cast(index, INT64)

    def _coordinates(self, node: Any) -> list[Node] | None:
        """The indices along each axis of ``x[{i, j}]``, or of ``x[a]`` with a local array; None of one index."""
        if isinstance(node, tree.Listed):
            return [self.index(each) for each in node.items]
        entity = self.frame.scope.find(node.name) if isinstance(node, tree.Name) else None
        array = plain(entity)
        if not isinstance(array, CompoundObject) or not is_array(array):
            return None
        if len(array.dtype.extents) != 1:
            self.fail(node, f"{array.name!r} has {len(array.dtype.extents)} dimensions; an index is a list of integers")
        values = [self.memory.load(each) for each in array.inside]
        if not all(isinstance(each, Node) and is_integer(each.dtype) for each in values):
            self.fail(node, f"the index is {array.dtype.element}; make {array.name!r} an array of integers")
        return [self.b.cast(each, INT64) for each in values]

    def _by_coordinates(self, array: int, listed: list[Node]) -> Node:
        """The number in C order of the element with these indices."""
        found = self.b.const(0, INT64)
        for axis, each in enumerate(listed):
            step = self._entry(array, "inner", self.b.const(axis, INT64))
            found = self.b.op("add", found, self.b.op("mul", each, step))
        return found

    # --- layouts
    def _is_layout(self, node: Any) -> bool:
        """Whether an expression is ``x.shape()``, ``x.strides()`` or ``_ind.get()``."""
        if not isinstance(node, tree.CallExpression) or not isinstance(node.function, tree.Member) or node.args:
            return False
        owner = node.function.owner
        if not isinstance(owner, tree.Name) or node.function.name not in (*_LISTS, "get"):
            return False
        return isinstance(plain(self.frame.scope.find(owner.name)), (Raw, ShapeOfCall, Own, Cell))

    def _layout_entry(self, node: tree.CallExpression, axis: Node) -> Node:
        """``x.shape()[axis]``, ``x.strides()[axis]`` and ``_ind.get()[axis]``."""
        name, owner = node.function.name, node.function.owner
        array = self._owner(owner)
        if (name == "get") != (array is None) and name != "shape":
            self.fail(
                node.function, f"{owner.name} has no {name}(); _ind has get() and shape(), arrays shape() and strides()"
            )
        if name != "get":
            return self._entry(array, _LISTS[name], axis)
        rows = self.b.op("idiv", self.number, self._entry(None, "inner", axis))
        return self.b.op("imod", rows, self._entry(None, "extent", axis))

    def _owner(self, node: tree.Name) -> int | None:
        """The array that a name stands for; None for the call itself."""
        found = plain(self.entity(node))
        if isinstance(found, ShapeOfCall) and found.has_axes:
            return None
        if not isinstance(found, Raw):
            self.fail(node, f"{node.name!r} has no layout here; declare it 'raw'")
        return found.param

    def _entry(self, array: int | None, what: str, axis: Node) -> Node:
        """An entry of a layout; 0 for an axis that does not exist."""
        known = self.memory.constant(axis)
        if known is not None:
            return self.b.fact(LayoutFact(array, what, int(known)))
        found = self.b.const(0, INT64)
        for number in range(MOST_AXES):
            is_it = self.b.op("eq", axis, self.b.const(number, axis.dtype))
            found = self.b.select(is_it, self.b.fact(LayoutFact(array, what, number)), found)
        return found

    def _member(self, node: tree.Member) -> Any:
        """``p.member``, ``f(x).member``, ``x.ndim`` and ``_ind.ndim``."""
        if node.name == "ndim" and isinstance(node.owner, tree.Name) and not node.is_arrow:
            found = plain(self.entity(node.owner))
            if not is_struct(found):
                return self.b.fact(LayoutFact(self._owner(node.owner), "rank", 0))
        if node.is_arrow:
            value, place = (
                None,
                self.memory.element(self.pointer(node.owner), self.zero_index, _find_variable_name(node.owner)),
            )
        else:
            place, value = self.evaluate(node.owner)
        if isinstance(plain(place), PointerVariable):
            self.fail(node, f"{_find_variable_name(node.owner)!r} is a pointer; write -> in place of the dot")
        owner = self.memory.temporary(value) if place is None else place
        at = tree.Name(node.name, at=node.name_at, width=len(node.name))
        with self._point_at(at):
            found = self.memory.member(owner, node.name)
        return found if place is not None else self.memory.load(found)

    def _index(self, node: tree.Index) -> Any:
        if self._is_layout(node.array):
            return self._layout_entry(node.array, self.index(node.index))
        array, index = self._array_and_index(node)
        if isinstance(plain(array), Own):
            return plain(array).cell
        return self.memory.element(array, index, _find_variable_name(node.array))

    # --- pointers
    def pointer(self, node: Any) -> Pointer:
        """The value of an expression that is a pointer or an array."""
        return self.as_pointer(node, self.value(node))

    def as_pointer(self, node: Any, value: Any) -> Pointer:
        if not isinstance(value, Pointer):
            self.fail(node, "this is not a pointer (for a power, write pow(x, y)); write &x, &x[k] or an array")
        return value


def _format_name(node: Any) -> str:
    return repr(node.name) if getattr(node, "name", None) else "here"


def _find_variable_name(node: Any) -> str:
    """The name of the variable that an expression is about, for messages."""
    found = owner_of(node)
    return "*" if found is None else found


_STATEMENTS: dict[type, Any] = {
    tree.Evaluate: Translator._evaluate, tree.Compound: Translator._compound,
    tree.Return: Translator._return, tree.Alias: lambda self, node: self.types.declare_alias(node),
    tree.StructTree: lambda self, node: self.types.declare_struct(node),
    tree.Enumeration: lambda self, node: self.types.declare_enumeration(node),
    tree.Declaration: Translator._declaration, tree.If: Translator._if,
    tree.JumpStatement: Translator._jump, tree.Switch: Translator._switch,
    tree.Loop: lambda self, node: self._loops.loop(node),
}  # fmt: skip

_EXPRESSIONS: dict[type, Any] = {
    tree.Literal: Translator._number, tree.Name: Translator._name,
    tree.This: Translator.this, tree.Cast: Translator._cast, tree.Construct: Translator._construct,
    tree.Unary: Translator._unary, tree.Binary: Translator._binary, tree.Conditional: Translator._conditional,
    tree.Comma: Translator._comma, tree.Assignment: Translator._assign, tree.SizeOf: Translator._sizeof,
    tree.Member: Translator._member, tree.Index: Translator._index,
    tree.CallExpression: lambda self, node: self.calls.call(node, is_used=True),
}  # fmt: skip
