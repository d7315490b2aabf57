"""Loops of C snippets: written out, turn by turn, when the kernel is translated.

So the condition must be known by then: a local variable that counts between constants. What depends on an
element's value cannot end a loop, for all elements run the same straight-line code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from xferlib.kernels.cscope import Scope
from xferlib.kernels.ir import Builder, Node, is_integer

MOST_TURNS = 4096
"""Of all loops of a snippet together."""


class Loops:
    """``for``, ``while`` and ``do``, for the translator of snippets."""

    b: Builder
    scope: Scope
    fail: Callable[..., NoReturn]
    _statement: Callable[[Any], None]
    expression: Callable[[Any], Node]
    _turns = 0

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
        with self.scope.nested():
            self._statement(node)
        self._settle()

    def _goes_on(self, condition: Any) -> bool:
        value = constant_value(self.b.truth(self.expression(condition)))
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
        known = constant_value(value)
        return value if known is None else self.b.const(known, value.dtype)


def constant_value(node: Node) -> np.generic | None:
    """The value of a node that depends on constants alone; None of any other."""
    from xferlib.kernels.numpy_ops import operation  # the reference engine: what a constant is is what it computes

    if node.op == "const":
        value: np.generic = node.attr
        return value
    if not node.args or node.op == "gather":
        return None
    operands = [constant_value(each) for each in node.args]
    if any(each is None for each in operands):
        return None
    out = np.empty((), node.dtype)
    with np.errstate(all="ignore"):
        operation(node, "exact")[0](*map(np.asarray, operands), out)
    result: Any = out[()]
    return result  # type: ignore[no-any-return]
