"""Finds the names that a C snippet uses, and the arrays that it indexes by anything but the element's own number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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

    Any use counts where ``i`` is a variable of the text, or one that the text assigns to.
    """
    roots = list(statements)
    nodes = list(parse.walk(*roots))
    is_changed = any(_changes_i(each) for each in nodes)
    own: set[int] = set()
    for each in nodes:
        is_own = isinstance(each, parse.Index) and isinstance(each.index, parse.Name) and each.index.name == "i"
        if is_own and not is_changed:
            own.add(id(each.array))
        elif isinstance(each, parse.Member):  # x.size()
            own.add(id(each.owner))
    return frozenset(each.name for each in nodes if isinstance(each, parse.Name) and id(each) not in own)


def _changes_i(node: Any) -> bool:
    """Whether a node declares another ``i``, or assigns to it."""
    target: Any = None
    if isinstance(node, parse.Variable):
        return node.name == "i"
    if isinstance(node, parse.Assignment):
        target = node.target
    elif isinstance(node, parse.Unary) and node.op in ("++", "--", "p++", "p--", "&"):
        target = node.expr
    return isinstance(target, parse.Name) and target.name == "i"
