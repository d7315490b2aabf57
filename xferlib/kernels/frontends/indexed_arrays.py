"""Finds the names that a C snippet uses, and the arrays that it indexes by anything but the element's own number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from xferlib.kernels.c_frontend import parse
from xferlib.kernels.frontends.signature import CParam


def may_be_numbers(inputs: Sequence[CParam], text: str) -> frozenset[int]:
    """The inputs declared raw that a snippet never indexes, which CuPy's users give as numbers."""
    return frozenset(
        number for number, each in enumerate(inputs) if each.is_raw and not re.search(rf"\b{each.name}\s*[\[.]", text)
    )


def indexed_otherwise(statements: Iterable[Any]) -> frozenset[str]:
    """The names of arrays that are used by more than ``x[i]``, with the element's number ``i``.

    A local variable ``i`` does not count as that number, nor does ``i`` in a text that assigns to it.
    """
    nodes = list(_with_own_i(statements))
    is_changed = any(is_number and _changes_i(each) for each, is_number in nodes)
    own: set[int] = set()
    for each, is_number in nodes:
        if isinstance(each, parse.Index) and isinstance(each.index, parse.Name) and each.index.name == "i":
            if is_number and not is_changed:
                own.add(id(each.array))
        elif isinstance(each, parse.Member):  # x.size()
            own.add(id(each.owner))
    return frozenset(each.name for each, _ in nodes if isinstance(each, parse.Name) and id(each) not in own)


def _with_own_i(statements: Iterable[Any]) -> Iterator[tuple[Any, bool]]:
    """All nodes, each with whether ``i`` is the element's number there."""
    levels: list[tuple[Iterator[Any], list[bool]]] = [(iter(list(statements)), [True])]
    while levels:  # a tree may be deeper than Python's stack
        nodes, known = levels[-1]
        node = next(nodes, None)
        if node is None:
            levels.pop()
            continue
        yield node, known[0]
        is_block = isinstance(node, (parse.Compound, parse.Loop, parse.If, parse.Switch))
        levels.append((iter(list(parse.children(node))), list(known) if is_block else known))
        if isinstance(node, parse.Variable) and node.name == "i":
            known[0] = False


def _changes_i(node: Any) -> bool:
    """Whether a node assigns to ``i``."""
    target: Any = None
    if isinstance(node, parse.Assignment):
        target = node.target
    elif isinstance(node, parse.Unary) and node.op in ("++", "--", "p++", "p--", "&"):
        target = node.expr
    return isinstance(target, parse.Name) and target.name == "i"
