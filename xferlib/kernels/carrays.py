"""Which arrays a C snippet indexes, and how: by the element's own number, or otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def indexed_otherwise(statements: Iterable[Any]) -> frozenset[str]:
    """The names that are indexed by anything but ``i``, the number of the element; a local ``i`` is not that."""
    found: set[str] = set()
    _scan(statements, found, is_shadowed=False)
    return frozenset(found)


def _scan(nodes: Iterable[Any], found: set[str], *, is_shadowed: bool) -> None:
    """The nodes of one block, in order: a declaration holds for what follows it."""
    for node in nodes:
        kind = type(node).__name__
        if kind == "ArrayRef" and type(node.name).__name__ == "ID":
            is_own = type(node.subscript).__name__ == "ID" and node.subscript.name == "i" and not is_shadowed
            if not is_own:
                found.add(node.name.name)
        children = [child for _, child in node.children()]
        if kind == "DeclList":
            _scan(children, found, is_shadowed=is_shadowed)
            is_shadowed = is_shadowed or any(each.name == "i" for each in node.decls)
        else:
            _scan(children, found, is_shadowed=is_shadowed)
            is_shadowed = is_shadowed or (kind == "Decl" and node.name == "i")
