"""The variables that a statement of C may assign, and its jumps, by its syntax alone."""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterator
from typing import Any

_kinds: weakref.WeakKeyDictionary[Any, frozenset[str]] = weakref.WeakKeyDictionary()
"""The kinds of the nodes of each statement that was asked for, once for all its turns and calls."""


def _nodes(*roots: Any) -> Iterator[Any]:
    stack = [each for each in roots if each is not None]
    while stack:
        node = stack.pop()
        yield node
        stack += [child for _, child in node.children()]


def names(functions: Container[str], *roots: Any) -> list[str]:
    """The variables and arrays to which the statements may assign, each once.

    Args:
        functions: Those that may assign to variables which they are called with.
        *roots: The statements.
    """
    found: dict[str, None] = {}
    for node in _nodes(*roots):
        kind = type(node).__name__
        targets: list[Any] = [node.lvalue] if kind == "Assignment" else []
        if kind == "UnaryOp" and node.op in ("++", "--", "p++", "p--", "&"):
            targets = [node.expr]
        if kind == "FuncCall":
            args = node.args.exprs if node.args is not None else []
            if type(node.name).__name__ == "StructRef":  # z.real(x), or a function of a struct
                targets = [node.name.name, *args]
            elif type(node.name).__name__ == "ID" and node.name.name in functions:
                targets = args
        for target in targets:
            if name := _owner(target):
                found[name] = None
    return sorted(found)


def _owner(target: Any) -> str | None:
    """The name of the variable of which a target is a part."""
    while True:
        kind = type(target).__name__
        if kind in ("ArrayRef", "StructRef"):
            target = target.name
        elif kind == "UnaryOp" and target.op in ("*", "&"):
            target = target.expr
        elif kind == "BinaryOp":
            target = target.left
        elif kind == "Cast":
            target = target.expr
        else:
            return str(target.name) if kind == "ID" else None


def has(kinds: tuple[str, ...], *roots: Any) -> bool:
    """Whether a node of one of these kinds is among the statements."""
    return any(not _kinds_in(each).isdisjoint(kinds) for each in roots if each is not None)


def _kinds_in(root: Any) -> frozenset[str]:
    found = _kinds.get(root)
    if found is None:
        found = _kinds[root] = frozenset(type(node).__name__ for node in _nodes(root))
    return found
