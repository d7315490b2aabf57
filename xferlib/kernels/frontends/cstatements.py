"""Statements of C snippets, for the translator: declarations, blocks and branches; `cloops` has the loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xferlib.kernels.frontends.cloops import Loops
from xferlib.kernels.frontends.cscope import Before
from xferlib.kernels.ir.nodes import DType, Node


class Statements(Loops):
    """Translates statements, which change the scope."""

    type_of: Callable[[Any], DType]
    returns: DType | None = None
    """The dtype that a function returns; None in a snippet."""

    def _statement(self, node: Any) -> None:
        self._step(node)
        name = type(node).__name__
        handler = getattr(self, f"_do_{name.lower()}", None)
        if handler is not None:
            handler(node)
        elif name in ("UnaryOp", "Assignment", "FuncCall"):
            self.expression(node)
        elif name in ("Goto", "Switch", "Break", "Continue", "Label"):
            self.fail(node, f"{name.lower()} is not supported in a snippet; use raw_module for such a kernel")
        else:
            self.fail(node, f"a statement without effect ({name}); assign its value")

    def _do_emptystatement(self, node: Any) -> None:
        pass

    def _do_compound(self, node: Any) -> None:
        with self.scope.nested():
            self._block(node.block_items or [])

    def _block(self, statements: list[Any]) -> None:
        """Translate statements in order; after one that may have returned, the rest runs where it has not."""
        opened: list[tuple[Node, Before]] = []
        for statement in statements:
            before = self.scope.result
            if before is not None and before.written.op == "const":
                break  # every path has returned
            self._statement(statement)
            result = self.scope.result
            is_new = result is not None and (before is None or result.written is not before.written)
            if is_new and result is not None and result.written.op != "const":
                returned = result.written
                opened.append((returned, self.scope.enter(self.b.op("not", returned))))
        for returned, outside in reversed(opened):
            self.scope.resume(returned, outside)

    def _do_return(self, node: Any) -> None:
        if self.returns is None:
            self.fail(node, "return is not supported in a snippet; use raw_module for such a kernel")
        if self._open_loops:
            self.fail(node, "return inside a loop is not supported; end the loop, then return")
        if node.expr is None:
            self.fail(node, "return needs a value")
        self.scope.set_result(self.b.cast(self.expression(node.expr), self.returns))

    def _do_decllist(self, node: Any) -> None:
        for declaration in node.decls:
            self._do_decl(declaration)

    def _do_decl(self, node: Any) -> None:
        if type(node.type).__name__ != "TypeDecl":
            self.fail(node, f"local variable {node.name!r} must be a number; arrays and pointers are not supported")
        if self.scope.is_declared_here(node.name):
            self.fail(node, f"{node.name!r} is declared already; choose another name")
        dtype = self.type_of(node.type.type)
        value = None if node.init is None else self.b.cast(self.expression(node.init), dtype)
        self.scope.declare(node.name, dtype, value)

    def _do_if(self, node: Any) -> None:
        condition = self.b.truth(self.expression(node.cond))
        with self.scope.branch(condition) as yes, self.scope.nested():
            self._statement(node.iftrue)
        with self.scope.branch(self.b.op("not", condition)) as no, self.scope.nested():
            if node.iffalse is not None:
                self._statement(node.iffalse)
        self.scope.merge(condition, yes, no)
