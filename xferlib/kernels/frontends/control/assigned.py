"""The variables that a statement of C may assign, and its jumps, by its syntax alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def _nodes(*roots: Any) -> Iterator[Any]:
    stack = [each for each in roots if each is not None]
    while stack:
        node = stack.pop()
        yield node
        stack += [child for _, child in node.children()]


def names(*roots: Any) -> list[str]:
    """The variables and arrays to which the statements assign, each once."""
    found: dict[str, None] = {}
    for node in _nodes(*roots):
        kind = type(node).__name__
        target: Any = node.lvalue if kind == "Assignment" else None
        if kind == "UnaryOp" and node.op in ("++", "--", "p++", "p--"):
            target = node.expr
        if type(target).__name__ == "ArrayRef":
            target = target.name
        if type(target).__name__ == "ID":
            found[target.name] = None
    return sorted(found)


def has(kinds: tuple[str, ...], *roots: Any) -> bool:
    """Whether a node of one of these kinds is among the statements."""
    return any(type(node).__name__ in kinds for node in _nodes(*roots))
