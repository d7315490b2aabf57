"""Writes to an array's elements in a given order: stores that others of the kernel may see, and atomic operations.

A node ``update`` has the operands index (int64), value, mask (bool) and, to compare with, another value; behind those
stand the nodes that come before it in the source and touch the same array, so that the order of evaluation keeps them
in order. Its own value is the element's before. A ``gather`` that must see an update has it as its third operand.

Elements of a call are in no order: where two of them update one element of an array, a result is the same on every
device only if the operation commutes and is exact, and nothing reads in between. The front end refuses any other use
where exact results are promised. A CPU takes the elements of a block in their order, one update after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xferlib.kernels.ir.nodes import Builder, Node

COMMUTING = frozenset({"add", "sub", "and", "or", "xor", "min", "max"})
"""The kinds whose order does not matter, for integers and as long as they are not mixed; but add and sub may be."""


@dataclass(frozen=True, slots=True)
class Update:
    """The attribute of a node ``update``."""

    param: int
    kind: str
    """One of `COMMUTING`, or ``store``, ``exch`` (which returns the value before) or ``cas``."""
    is_used: bool
    """Whether the value before is used."""

    @property
    def operands(self) -> int:
        """The number of operands that are no mere order."""
        return 4 if self.kind == "cas" else 3


def update(
    b: Builder, what: Update, index: Node, value: Node, mask: Node, compared: Node | None, after: Iterable[Node]
) -> Node:
    """Add an update to a program."""
    operands = (index, value, mask) if compared is None else (index, value, mask, compared)
    return b.emit("update", b.params[what.param].dtype, (*operands, *after), what)


def is_exact(kinds: frozenset[str], dtype_kind: str) -> bool:
    """Whether an array that is touched in these ways alone ends with the same contents in any order."""
    if kinds == {"store"}:
        return True  # each element by one element of the call, as for stores without an order
    return dtype_kind in "iu" and (kinds <= {"add", "sub"} or (len(kinds) == 1 and kinds <= COMMUTING))


def real_operands(node: Node) -> Sequence[Node]:
    """The operands of a node that are no mere order."""
    if node.op == "update":
        return node.args[: node.attr.operands]
    if node.op == "gather":
        return node.args[:2]
    return node.args
