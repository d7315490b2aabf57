"""Finds the names that a C snippet uses, and the arrays that it indexes by anything but the element's own number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from xferlib.kernels.frontends.signature import CParam


def may_be_numbers(inputs: Sequence[CParam], text: str) -> frozenset[int]:
    """The inputs declared raw that a snippet never indexes, which CuPy's users give as numbers."""
    return frozenset(
        number for number, each in enumerate(inputs) if each.is_raw and not re.search(rf"\b{each.name}\s*[\[.]", text)
    )


def indexed_otherwise(statements: Iterable[Any]) -> frozenset[str]:
    """The names indexed by anything but ``i``, the element's number; a local variable ``i`` does not count as that."""
    found: set[str] = set()
    blocks = [(iter(statements), False)]  # a tree may be deeper than Python's stack
    while blocks:
        nodes, is_shadowed = blocks.pop()
        node = next(nodes, None)
        if node is None:
            continue
        if _is_indexed(node) and (is_shadowed or not _is_own(node.subscript)):
            found.add(node.name.name)
        inner = iter([child for _, child in node.children()])
        blocks += [(nodes, is_shadowed or _declares_i(node)), (inner, is_shadowed)]
    return frozenset(found)


def names_in(statements: Iterable[Any]) -> frozenset[str]:
    """The names that stand for values in a snippet."""
    found: set[str] = set()
    nodes = list(statements)
    while nodes:
        node = nodes.pop()
        if type(node).__name__ == "ID":
            found.add(node.name)
        nodes += [child for _, child in node.children()]
    return frozenset(found)


def _is_indexed(node: Any) -> bool:
    return type(node).__name__ == "ArrayRef" and type(node.name).__name__ == "ID"


def _is_own(subscript: Any) -> bool:
    return type(subscript).__name__ == "ID" and subscript.name == "i"


def _declares_i(node: Any) -> bool:
    """Whether a statement declares another ``i`` for the rest of its block."""
    kind = type(node).__name__
    return (kind == "Decl" and node.name == "i") or (
        kind == "DeclList" and any(each.name == "i" for each in node.decls)
    )
