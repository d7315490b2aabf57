"""Statements of C snippets, for the translator: declarations, blocks, branches; loops are a chapter of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xferlib.kernels.cloops import Loops
from xferlib.kernels.ir import DType


class Statements(Loops):
    """What changes the scope."""

    type_of: Callable[[Any], DType]

    def _statement(self, node: Any) -> None:
        name = type(node).__name__
        handler = getattr(self, f"_do_{name.lower()}", None)
        if handler is not None:
            handler(node)
        elif name in ("UnaryOp", "Assignment", "FuncCall"):
            self.expression(node)
        elif name in ("Goto", "Switch", "Return", "Break", "Continue", "Label"):
            self.fail(node, f"{name.lower()} is not supported in a snippet; use raw_module for such a kernel")
        else:
            self.fail(node, f"a statement without effect ({name}); assign its value")

    def _do_emptystatement(self, node: Any) -> None:
        pass

    def _do_compound(self, node: Any) -> None:
        with self.scope.nested():
            for statement in node.block_items or []:
                self._statement(statement)

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
