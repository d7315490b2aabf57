"""Loops of C snippets, unrolled when the kernel is translated.

The representation has no loop: a program is straight-line code, which the NumPy engine runs for a block of elements
at a time and which needs no bound on the device. So a loop must be unrolled completely, and its condition must be
known at translation: a local variable that counts between constants. An element's value cannot end a loop, because
all elements run the same code.

Unrolling naively has two costs. A counter becomes a sum of ones that grows by a node each turn, and the condition
is evaluated anew over that sum: quadratic work. So after every turn each integer that depends on constants alone is
folded into one constant. And nested loops or calls multiply: a snippet of three lines may unroll to millions of
nodes. `MOST_TURNS` and `MOST_STEPS` bound that, and the error points at the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from xferlib.kernels.frontends.cscope import Scope
from xferlib.kernels.ir.constants import constant_value
from xferlib.kernels.ir.nodes import Builder, Node, is_integer

MOST_TURNS = 4096
"""Limit of turns, for all loops of a snippet or of one function call together."""
MOST_STEPS = 1 << 18
"""Limit of expressions and statements translated for a snippet, its function calls included."""


class TranslationState:
    """The state that a snippet's translator shares with the translators of the functions it calls."""

    def __init__(self) -> None:
        self.steps = 0
        self.known: dict[int, np.generic | None] = {}
        """By node identity, the value of a node that depends on constants alone."""
        self.results: dict[tuple[int, ...], Node] = {}
        """By function and arguments, the value that a call returns."""


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
                    self._fold()

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
        self._fold()

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

    def _fold(self) -> None:
        """Replace known integers by constants, or a counter would grow into a sum of ones."""
        self.scope.replace(self._folded)

    def _folded(self, value: Node) -> Node:
        if value.op == "const" or not is_integer(value.dtype):
            return value
        known = constant_value(value, self.work.known)
        return value if known is None else self.b.const(known, value.dtype)
