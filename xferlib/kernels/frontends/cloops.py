"""Loops of C snippets: written out where their turns are known, and run where they end with the data.

A loop whose condition is known at translation, because a local variable counts between constants, is unrolled: its
turns become straight-line code, whose indices and branches are known. Any other becomes a loop of the program, which
`control.data_loops` translates; so does the rest of a loop from the turn on whose condition is not known.

Unrolling naively has two costs. A counter becomes a sum of ones that grows by a node each turn, and the condition
is evaluated anew over that sum: quadratic work. So after every turn each integer that depends on constants alone is
folded into one constant. And nested loops or calls multiply: a snippet of three lines may unroll to millions of
nodes. `MOST_TURNS` and `MOST_STEPS` bound that: with more turns a loop is run, and more steps are an error.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from xferlib.kernels.frontends.control import assigned, data_loops
from xferlib.kernels.frontends.control.data_loops import Loop
from xferlib.kernels.frontends.cscope import Scope
from xferlib.kernels.frontends.memory.contents import Before, TranslatorPart
from xferlib.kernels.ir.constants import constant_value
from xferlib.kernels.ir.nodes import MOST_STEPS, Node, is_integer

MOST_TURNS = 4096
"""Limit of turns, for all loops of a snippet or of one function call together."""
MOST_OF_ONE = 1 << 18
"""The work of one loop's turns beyond which it is run, where that leaves the rest of the snippet a part."""
_STEP = 3
"""The work of an expression or statement, beside the nodes that it makes."""
NEXT_ELEMENT = ("continue", 0)
"""The jump of ``continue`` outside of a loop, which in CuPy goes on with the next element."""
TOO_LONG = "the loops and functions written out have more than"


class TranslationState:
    """The state that a snippet's translator shares with the translators of the functions it calls."""

    def __init__(self, assigning: frozenset[str]) -> None:
        self.assigning = assigning
        """The functions that may assign to what they are called with."""
        self.has_loops = False
        """Whether a function of the preamble has one."""
        self.loops = 0
        """Of loops and switches, to number them."""
        self.switches: set[int] = set()
        """The numbers of those that ``continue`` passes by."""
        self.known: dict[int, np.generic | None] = {}
        """By node identity, the value of a node that depends on constants alone."""
        self.changing: dict[int, dict[Hashable, None]] = {}
        """By loop, the variables that a translation of it has found to change, in order."""
        self.results: dict[tuple[Any, ...], Any] = {}
        """By function and arguments, the value that a call returns."""


def is_true(condition: Any) -> bool:
    """Whether an expression is the word ``true``."""
    return getattr(condition, "name", None) == "true"


class Loops(TranslatorPart):
    """``for``, ``while`` and ``do``, for the translator of snippets."""

    scope: Scope
    work: TranslationState
    _statement: Callable[[Any], None]
    block: Callable[[], AbstractContextManager[None]]
    returns: Any
    is_function: bool
    _turns = 0
    _inside: tuple[int, ...] = ()
    """The numbers of the loops around the current statement."""

    def _do_for(self, node: Any) -> None:
        with self.block():
            if node.init is not None:
                self.part(node.init)
            self._loop(node, node.cond, node.next)

    def _do_while(self, node: Any) -> None:
        self._loop(node, node.cond)

    def _do_dowhile(self, node: Any) -> None:
        self._loop(node, node.cond, is_late=True)

    def _do_break(self, node: Any) -> None:
        self._jump(node, "break")

    def _do_continue(self, node: Any) -> None:
        self._jump(node, "continue")

    def _jump(self, node: Any, kind: str) -> None:
        loops = [each for each in self._inside if each not in self.work.switches]
        if not loops and kind == "continue" and not self.is_function:
            self.scope.jump(NEXT_ELEMENT)
            return
        if not (self._inside if kind == "break" else loops):
            self.fail(node, f"{kind} stands outside of a loop; return ends the snippet for an element")
        self.scope.jump((kind, self._inside[-1] if kind == "break" else loops[-1]))

    def part(self, node: Any) -> None:
        """Translate the first or the last part of the head of a loop."""
        for each in node.exprs if type(node).__name__ == "ExprList" else [node]:
            self._statement(each)

    def _loop(self, node: Any, condition: Any, after: Any = None, *, is_late: bool = False) -> None:
        is_endless = condition is None or type(condition).__name__ == "Constant" or is_true(condition)
        if condition is None and not assigned.has(("Break", "Return"), node.stmt):
            self.fail(node, "a loop without a condition, break or return has no end; add one")
        self.work.loops += 1
        loop = Loop(node, condition, node.stmt, after, self.work.loops, is_late)
        self._inside = (*self._inside, loop.number)
        start = self.scope.snapshot()
        jumps = assigned.has(("Break", "Return"), node.stmt)
        if is_endless and jumps:
            data_loops.translate(self, loop)
        elif not self._unrolled(loop):
            self.scope.restore(start)
            data_loops.translate(self, loop)
        self.scope.end_jump(("break", loop.number))
        self._inside = self._inside[:-1]

    def _unrolled(self, loop: Loop) -> bool:
        """Write the turns of a loop out; False if there are too many, and the scope is to be restored."""
        opened: list[tuple[Node, Before]] = []
        is_first, begun = True, self.b.work
        while (is_first and loop.is_late) or (goes := self._goes_on(loop.condition)):
            is_first = False
            if self._turns >= MOST_TURNS or self.b.work - begun > MOST_OF_ONE:
                return False
            before = self.scope.jumped()
            self._turn(loop)
            jumped = self.scope.jumped()
            goes = True
            if jumped is not None and jumped.op == "const":
                break
            if jumped is not None and jumped is not before:
                opened.append((jumped, self.scope.enter(self.b.op("not", jumped))))
            if loop.after is not None:
                self.part(loop.after)
                self._fold()
        if goes is None:
            data_loops.translate(self, loop._replace(is_late=False))
        for jumped, outside in reversed(opened):
            self.scope.resume(jumped, outside)
        return True

    def _turn(self, loop: Loop) -> None:
        self._turns += 1
        with self.block():
            self._statement(loop.body)
        self.scope.end_jump(("continue", loop.number))
        self._fold()

    def _step(self, node: Any) -> None:
        """Count one more expression or statement."""
        self.b.work += _STEP
        if self.b.work > MOST_STEPS:
            self.fail(node, f"{TOO_LONG} {MOST_STEPS} steps; take fewer turns and calls, or use raw_module")

    def _goes_on(self, condition: Any) -> bool | None:
        """The value of a condition; None if it is not known, with the scope as before."""
        before = self.scope.snapshot()
        value = constant_value(self.b.truth(self.expression(condition)), self.work.known)
        if value is None:
            self.scope.restore(before)
            return None
        return bool(value)

    def _fold(self) -> None:
        """Replace known integers by constants, or a counter would grow into a sum of ones."""
        self.scope.replace(self._folded)

    def _folded(self, value: Node) -> Node:
        if value.op == "const" or not is_integer(value.dtype):
            return value
        known = constant_value(value, self.work.known)
        return value if known is None else self.b.const(known, value.dtype)
