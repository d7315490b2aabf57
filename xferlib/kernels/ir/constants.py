"""Folds constants: the value of a node that depends on constants alone, as the reference engine computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib.kernels.ir.formulas.own_functions import expanded
from xferlib.kernels.ir.nodes import INT64, Node, Program
from xferlib.kernels.ir.numpy_ops import operation

_MOST_ATOMS = 10
_MOST_NODES = 512
_MIRRORED = {"gt": "lt", "ge": "le"}
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


def is_tautology(condition: Node) -> bool:
    """Whether a condition is true for any values of the comparisons that it is made of; False where that is unclear.

    Its truth table is one number: a bit for each combination of the comparisons.
    """
    nodes = _logical(condition)
    if nodes is None:
        return False
    atoms: dict[Any, int] = {}
    for each in nodes:
        if each.op not in _LOGICAL:
            atoms.setdefault(_atom(each)[0], len(atoms))
    if len(atoms) > _MOST_ATOMS:
        return False
    count = 1 << len(atoms)
    whole = (1 << count) - 1
    columns = [whole // ((1 << (1 << at)) + 1) << (1 << at) for at in range(len(atoms))]
    tables: dict[int, int] = {}
    for each in nodes:
        given = [tables[id(arg)] for arg in each.args] if each.op in _LOGICAL else []
        if each.op == "const":
            found = whole if each.attr else 0
        elif each.op in _LOGICAL:
            found = _LOGICAL[each.op](whole, *given)
        else:
            key, is_negated = _atom(each)
            found = columns[atoms[key]] ^ (whole if is_negated else 0)
        tables[id(each)] = found
    return tables[id(condition)] == whole


_LOGICAL: dict[str, Callable[..., int]] = {
    "const": lambda whole: whole,
    "and": lambda whole, x, y: x & y,
    "or": lambda whole, x, y: x | y,
    "xor": lambda whole, x, y: x ^ y,
    "not": lambda whole, x: whole ^ x,
    "select": lambda whole, condition, x, y: (condition & x) | ((whole ^ condition) & y),
}


def _logical(root: Node) -> list[Node] | None:
    """The nodes of a condition down to its comparisons, operands first; None of too many."""
    found: dict[int, Node] = {}
    comparisons = 0
    stack = [(root, False)]
    while stack:
        node, is_expanded = stack.pop()
        if id(node) in found:
            continue
        if is_expanded or node.op not in _LOGICAL:
            found[id(node)] = node
            comparisons += node.op not in _LOGICAL
        else:
            stack.append((node, True))
            stack += [(each, False) for each in node.args]
        if len(found) > _MOST_NODES or comparisons > 2 * _MOST_ATOMS:  # a comparison and its opposite are one atom
            return None
    return list(found.values())


def _atom(node: Node) -> tuple[Any, bool]:
    """A comparison as the one that stands for it and its kin, and whether it is the opposite of that."""
    if node.op in ("eq", "ne"):
        return ("eq", frozenset(map(id, node.args))), node.op == "ne"
    if node.op not in ("lt", "le", "gt", "ge"):
        return id(node), False
    op, pair = node.op, tuple(map(id, node.args))
    if op in _MIRRORED:
        op, pair = _MIRRORED[op], pair[::-1]
    if op == "le" and node.args[0].dtype.kind in "biu":  # no NaN: a <= b is not b < a
        return ("lt", pair[::-1]), True
    return (op, pair), False
