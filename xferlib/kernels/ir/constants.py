"""Folds constants: the value of a node that depends on constants alone, as the reference engine computes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from xferlib.kernels.ir.formulas.own_functions import expanded
from xferlib.kernels.ir.nodes import INT64, Node, Program
from xferlib.kernels.ir.numpy_ops import operation

_UNKNOWN = frozenset({"const", "gather", "loop", "update", "fact"})
"""The operations whose operands say nothing about their value."""


def constant_value(node: Node, known: dict[int, np.generic | None]) -> np.generic | None:
    """The value of a node that depends on constants alone; None for any other.

    Args:
        node: The node.
        known: The answers so far, by node identity, so that a shared node is computed once.
    """
    stack = [node]
    while stack:
        each = stack[-1]
        if id(each) in known:
            stack.pop()
            continue
        waiting = [] if each.op in _UNKNOWN else [arg for arg in each.args if id(arg) not in known]
        if waiting:
            stack += waiting
        else:
            known[id(each)] = _computed(each, [known[id(arg)] for arg in each.args if each.op not in _UNKNOWN])
            stack.pop()
    return known[id(node)]


def _computed(node: Node, operands: list[np.generic | None]) -> np.generic | None:
    if node.op == "const":
        value: np.generic = node.attr
        return value
    if not operands or any(each is None for each in operands):
        return None
    return _applied(node, operands, "exact")


def stored_value(program: Program) -> np.generic:
    """The value that a program stores in a call of one element; its output is its only parameter."""
    program = expanded(program)
    known: dict[int, Any] = {}
    for node in program.nodes:
        if node.op in ("const", "index", "size"):
            known[id(node)] = node.attr if node.op == "const" else INT64.type(node.op == "size")
        else:
            known[id(node)] = _applied(node, [known[id(each)] for each in node.args], program.math)
    (store,) = program.stores
    found: np.generic = known[id(store.value)]
    return found


def _applied(node: Node, operands: list[Any], math: str) -> np.generic:
    out = np.empty((), node.dtype)
    with np.errstate(all="ignore"):
        operation(node, math)[0](*map(np.asarray, operands), out)
    result: Any = out[()]
    return result  # type: ignore[no-any-return]
