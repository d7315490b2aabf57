"""Loops of C snippets: written out, turn by turn, when the kernel is translated.

So the condition must be known by then: a local variable that counts between constants. What depends on an
element's value cannot end a loop, for all elements run the same straight-line code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from xferlib.kernels.frontends.cscope import Scope
from xferlib.kernels.ir.constants import constant_value
from xferlib.kernels.ir.nodes import Builder, Node, is_integer

MOST_TURNS = 4096
"""Of all loops of a snippet, or of one call of a function, together."""
MOST_STEPS = 1 << 18
"""Expressions and statements that are read to write a snippet out, those of its functions included."""


class TranslationState:
    """What a snippet and the functions that it calls have in common while they are written out."""

    def __init__(self) -> None:
        self.steps = 0
        self.known: dict[int, np.generic | None] = {}
        """By the identity of a node, its value if it depends on constants alone."""
        self.results: dict[tuple[int, ...], Node] = {}
        """By function and arguments, what a call returns."""


class Loops:
    """``for``, ``while`` and ``do``, for the translator of snippets."""

    b: Builder
    scope: Scope
    work: TranslationState
    fail: Callable[..., NoReturn]
    _statement: Callable[[Any], None]
    expression: Callable[[Any], Node]
    _turns = 0
    _open_loops = 0

    def _do_for(self, node: Any) -> None:
        with self.scope.nested():
            if node.init is not None:
                self._part(node.init)
            if node.cond is None:
                self.fail(node, "a loop without a condition has no end; count a local variable to a constant")
            while self._goes_on(node.cond):
                self._turn(node.stmt)
                if node.next is not None:
                    self._part(node.next)
                    self._settle()

    def _do_while(self, node: Any) -> None:
        while self._goes_on(node.cond):
            self._turn(node.stmt)

    def _do_dowhile(self, node: Any) -> None:
        self._turn(node.stmt)
        while self._goes_on(node.cond):
            self._turn(node.stmt)

    def _part(self, node: Any) -> None:
        for each in node.exprs if type(node).__name__ == "ExprList" else [node]:
            self._statement(each)

    def _turn(self, node: Any) -> None:
        self._turns += 1
        if self._turns > MOST_TURNS:
            self.fail(node, f"the loops take more than {MOST_TURNS} turns, which are written out; use raw_module")
        self._open_loops += 1
        with self.scope.nested():
            self._statement(node)
        self._open_loops -= 1
        self._settle()

    def _step(self, node: Any) -> None:
        """Count one more expression or statement."""
        self.work.steps += 1
        if self.work.steps > MOST_STEPS:
            problem = f"the loops and functions written out have more than {MOST_STEPS} expressions"
            self.fail(node, f"{problem}; take fewer turns, or use raw_module")

    def _goes_on(self, condition: Any) -> bool:
        value = constant_value(self.b.truth(self.expression(condition)), self.work.known)
        if value is None:
            problem = "a loop is written out, so its condition must not depend on an element or an argument"
            self.fail(condition, f"{problem}; count a local variable to a constant, and use if inside, or raw_module")
        return bool(value)

    def _settle(self) -> None:
        """Integers that are known become constants, or a counter would grow into a sum of ones."""
        self.scope.replace(self._settled)

    def _settled(self, value: Node) -> Node:
        if value.op == "const" or not is_integer(value.dtype):
            return value
        known = constant_value(value, self.work.known)
        return value if known is None else self.b.const(known, value.dtype)
