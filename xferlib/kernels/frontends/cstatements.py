"""Statements of C snippets, for the translator: declarations, blocks and branches; `cloops` has the loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xferlib.errors import KernelTypeError
from xferlib.kernels.frontends.calls import atomics
from xferlib.kernels.frontends.cloops import Loops
from xferlib.kernels.frontends.control import assigned
from xferlib.kernels.frontends.cpp.structs import SELF
from xferlib.kernels.frontends.ctext import AUTO
from xferlib.kernels.frontends.memory.contents import Before, Place
from xferlib.kernels.frontends.memory.structs import StructType
from xferlib.kernels.ir.constants import constant_value
from xferlib.kernels.ir.nodes import BOOL, DType, Node
from xferlib.kernels.ir.types import c_promoted


def _may_assign(node: Any) -> bool:
    """Whether an expression, as a statement, may assign something."""
    name = type(node).__name__
    is_chosen = name == "TernaryOp" or (name == "BinaryOp" and node.op in ("&&", "||"))
    return assigned.has(("Assignment", "FuncCall", *(["UnaryOp"] if is_chosen else [])), node)


class Statements(Loops):
    """Translates statements, which change the scope."""

    type_of: Callable[[Any], Any]
    converted: Callable[[Any, Any], Any]
    has_constructor: Callable[[StructType], bool]
    made_record: Callable[..., Any]
    aggregate: Callable[..., Any]
    pointed: Callable[[Any], Any]
    place: Callable[[Any], Place]
    _listed: Callable[[Any], list[Node]]
    _declare_pointer: Callable[[Any], None]
    _declare_array: Callable[[Any], None]
    is_function = False
    is_global = False
    """Whether the constants of the preamble are declared."""
    returns: DType | None = None
    """The dtype that a function returns; None in a snippet."""
    returned_places: list[Place] | None = None
    """The places to which the references lead that a function returns; None where their values are enough."""
    params: frozenset[str] = frozenset()
    """The names of a function's parameters."""

    def _statement(self, node: Any) -> None:
        self._step(node)
        name = type(node).__name__
        handler = getattr(self, f"_do_{name.lower()}", None)
        if handler is not None:
            handler(node)
        elif name == "FuncCall" and getattr(node.name, "name", None) in atomics.KINDS:
            atomics.call(self, node, node.args.exprs if node.args else [], is_used=False)
        elif name in ("UnaryOp", "Assignment", "FuncCall") or _may_assign(node):
            self.any_value(node)
        elif name == "ExprList":
            for each in node.exprs:
                self._statement(each)
        elif name in ("Goto", "Label"):
            self.fail(node, f"{name.lower()} is not supported in a snippet; use raw_module for such a kernel")
        else:
            self.fail(node, f"a statement without effect ({name}); assign its value")

    def _do_emptystatement(self, node: Any) -> None:
        pass

    @contextmanager
    def block(self) -> Iterator[None]:
        """Open a block: the names of variables and types declared inside end with it."""
        types = self.own_types
        with self.scope.nested():
            yield
        self.own_types = types

    def _do_typedef(self, node: Any) -> None:
        """``typedef T R``, as which the parser sees ``using R = T`` too."""
        if type(node.type).__name__ != "TypeDecl":
            self.fail(node, f"typedef {node.name!r} names no plain type; pointers and arrays are declared by their own")
        self.own_types = {**self.own_types, node.name: self.type_of(node.type.type)}

    def _do_compound(self, node: Any) -> None:
        with self.block():
            self._block(node.block_items or [])

    def _block(self, statements: list[Any]) -> None:
        """Translate statements in order; after one that may have jumped, the rest runs where it has not."""
        opened: list[tuple[Node, Before]] = []
        for statement in statements:
            before = self.scope.jumped()
            if before is not None and before.op == "const":
                break  # every path has jumped
            self._statement(statement)
            jumped = self.scope.jumped()
            if jumped is not None and jumped is not before and jumped.op != "const":
                opened.append((jumped, self.scope.enter(self.b.op("not", jumped))))
        for jumped, outside in reversed(opened):
            self.scope.resume(jumped, outside)

    def _do_return(self, node: Any) -> None:
        if self.returns is None:
            if node.expr is not None:
                self.fail(node, "the snippet returns no value; assign it to an output")
            self.scope.set_result(self.b.const(True, BOOL))
            return
        if node.expr is None:
            self.fail(node, "return needs a value")
        if self.returned_places is not None:
            if self._inside:
                self.fail(node, "a reference that a loop returns cannot be assigned to; break, and return behind it")
            self.returned_places.append(self.place(node.expr))
        self.scope.set_result(self.converted(node.expr, self.returns))

    def _do_decllist(self, node: Any) -> None:
        for declaration in node.decls:
            self._do_decl(declaration)

    def _do_decl(self, node: Any) -> None:
        kind = type(node.type).__name__
        if node.name is None:
            self.fail(node, f"{kind.lower()} within a function is not supported; write it in the preamble")
        if self.scope.is_declared_here(node.name):
            self.fail(node, f"{node.name!r} is declared already; choose another name")
        if node.name in ("true", "false"):
            self.fail(node, f"{node.name!r} is a value of C++; choose another name")
        if not self.is_global and ("static" in node.storage or "extern" in node.storage):
            self._check_static(node)
        if kind == "PtrDecl":
            self._declare_pointer(node)
        elif kind == "ArrayDecl":
            self._declare_array(node)
        elif kind != "TypeDecl":
            self.fail(node, f"local variable {node.name!r} must be a number, a pointer or an array")
        else:
            self._declare_number(node)

    def _check_static(self, node: Any) -> None:
        """Refuse a variable that would outlive its block, unless it is a constant."""
        kind = node.type
        while type(kind).__name__ == "ArrayDecl":
            kind = kind.type
        is_const = "const" in getattr(kind, "quals", ()) and type(kind).__name__ == "TypeDecl" and node.init is not None
        if not is_const or "extern" in node.storage or assigned.has(("FuncCall", "Assignment"), node.init):
            self.fail(
                node, f"{' '.join(node.storage)} variable {node.name!r} is not supported; constants alone may be static"
            )
        before = self.scope.snapshot()
        for each in self._listed(node.init) if type(self.type_of(kind.type)) is not StructType else ():
            if constant_value(each, self.work.known) is None:
                self.fail(node, f"static {node.name!r} keeps the value of its first run; give it a constant")
        self.scope.restore(before)

    def _declare_number(self, node: Any) -> None:
        if getattr(node.type.type, "names", None) == [AUTO]:
            if node.init is None:
                self.fail(node, f"auto {node.name!r} has no value that says its type; give it one")
            if getattr(node.init, "op", None) == "&":
                self.scope.point(node.name, self.pointed(node.init), is_reference=False)
                return
            value = self.any_value(node.init)
            self.scope.declare(node.name, value.dtype, value)
            return
        dtype = self.type_of(node.type.type)
        if node.init is not None:
            given = self.converted(node.init, dtype)
        elif isinstance(dtype, StructType) and self.has_constructor(dtype):
            given = (self.aggregate if node.name == SELF else self.made_record)(node, dtype, [])
        else:
            given = None
        self.scope.declare(node.name, dtype, given)
        if node.name == SELF:
            self.scope.open_members(self.scope.place(SELF, None, self.fail).variable, self.params)

    def _do_switch(self, node: Any) -> None:
        """Cases in order: each runs where its value was met, or the one before it has not ended with ``break``."""
        self.work.loops += 1
        number = self.work.loops
        self.work.switches.add(number)
        self._inside = (*self._inside, number)
        value = self.expression(node.cond)
        opened: list[tuple[Node, Before]] = []
        with self.block():
            for condition, statements in self._cases(node, value):
                before = self.scope.jumped()
                if before is not None and before.op == "const":
                    break
                if condition is None:
                    self._block(statements)
                    break
                with self.scope.branch(condition) as yes:
                    self._block(statements)
                with self.scope.branch(self.b.op("not", condition)) as no:
                    pass
                self.scope.merge(condition, yes, no)
                jumped = self.scope.jumped()
                if jumped is not None and jumped is not before and jumped.op != "const":
                    opened.append((jumped, self.scope.enter(self.b.op("not", jumped))))
            for jumped, outside in reversed(opened):
                self.scope.resume(jumped, outside)
        self.scope.end_jump(("break", number))
        self._inside = self._inside[:-1]

    def _cases(self, node: Any, value: Node) -> list[tuple[Node | None, list[Any]]]:
        """The groups of statements of a ``switch``, each with its condition; None of a ``default`` at the end."""
        if value.dtype.kind not in "biu":
            self.fail(node, f"switch needs an integer, not {value.dtype}; cast it", KernelTypeError)
        value = self.b.cast(value, c_promoted(value.dtype))
        body = node.stmt.block_items or [] if type(node.stmt).__name__ == "Compound" else [node.stmt]
        is_met: dict[int, Node] = {}
        for each in body:
            if type(each).__name__ not in ("Case", "Default"):
                self.fail(each, "a statement in a switch stands behind no case; move it, or add one")
            if type(each).__name__ == "Case":
                label = self.b.cast(self.expression(each.expr), value.dtype)
                is_met[id(each)] = self.b.op("eq", value, label)
        active = none = self.b.const(False, BOOL)
        for each in is_met.values():
            none = self.b.op("or", none, each)
        found: list[tuple[Node | None, list[Any]]] = []
        for each in body:
            active = self.b.op("or", active, is_met.get(id(each), self.b.op("not", none)))
            is_rest = each is body[-1] and type(each).__name__ == "Default"
            found.append((None if is_rest else active, each.stmts or []))
        return found

    def _do_if(self, node: Any) -> None:
        condition = self.b.truth(self.expression(node.cond))
        with self.scope.branch(condition) as yes, self.block():
            self._statement(node.iftrue)
        with self.scope.branch(self.b.op("not", condition)) as no, self.block():
            if node.iffalse is not None:
                self._statement(node.iffalse)
        self.scope.merge(condition, yes, no)
