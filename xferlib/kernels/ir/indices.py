"""Computed indices: proves before a kernel runs that its elements write different elements of an array, or the same.

Two elements of a call that write one element of an array would race on a GPU. An index of the form ``c * i + u``,
with a constant ``c`` and a ``u`` that is the same for all elements, differs for each element.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from xferlib.kernels.ir.nodes import Node, Param, is_integer, ordered

_MOST_FACTOR = 1 << 20
"""The largest factor; a larger one may overflow 64 bits within the memory of a device."""


class Linear(NamedTuple):
    """``factor * i + offset`` and the sum of uniform values, each with its own factor."""

    factor: int
    offset: int
    uniform: frozenset[tuple[int, int]]
    """(identity of the node, its factor)"""


def linear(index: Node, params: list[Param]) -> Linear | None:
    """The linear form of an index; None if it depends on the element in another form.

    Arithmetic in 32 bits counts as not overflowing, as in C.
    """
    forms: dict[int, Linear | None] = {}
    for node in ordered([index]):
        forms[id(node)] = _form(node, [forms[id(each)] for each in node.args], params)
    return forms[id(index)]


def is_distinct(index: Node, params: list[Param]) -> bool:
    """Whether the elements of a call certainly have different indices."""
    form = linear(index, params)
    return form is not None and form.factor != 0


def may_be_own(index: Node, params: list[Param]) -> bool:
    """Whether each element of a call may have indices of its own: ``c * i`` and something that does not undo it.

    True of ``3 * i + k % 3``, which nothing proves to be distinct; false of ``k``, ``i / 2`` and ``i - i % 4``.
    """
    factor, terms = 0, [(index, 1)]
    while terms:
        node, sign = terms.pop()
        form = linear(node, params)
        if form is not None:
            factor += sign * form.factor
        elif node.op in ("add", "sub"):
            terms += [(node.args[0], sign), (node.args[1], sign if node.op == "add" else -sign)]
        elif node.op == "cast" and is_integer(node.dtype) and is_integer(node.args[0].dtype):
            terms.append((node.args[0], sign))
        elif _is_made_of_index(node):
            return False
    return factor != 0


def _is_made_of_index(node: Node) -> bool:
    """Whether arithmetic alone makes a value of the element's number; what an array holds there counts as unrelated."""
    waiting, seen = [node], set[int]()
    while waiting:
        each = waiting.pop()
        if each.op == "index":
            return True
        if each.op not in ("gather", "update") and id(each) not in seen:
            seen.add(id(each))
            waiting += each.args
    return False


def conflict(stores: Iterable[tuple[int, Node]], params: list[Param]) -> int | None:
    """The parameter of which two elements of a call certainly write the same element; None if there is none.

    Args:
        stores: Parameter and index of each store that every element of a call executes.
        params: The parameters of the program.
    """
    offsets: dict[tuple[int, int, frozenset[tuple[int, int]]], dict[int, int]] = {}
    for param, index in stores:
        form = linear(index, params)
        if form is None or form.factor == 0:
            continue
        taken = offsets.setdefault((param, form.factor, form.uniform), {})
        if taken.setdefault(form.offset % abs(form.factor), form.offset) != form.offset:
            return param
    return None


def _form(node: Node, args: list[Linear | None], params: list[Param]) -> Linear | None:
    if node.op == "const":
        return Linear(0, int(node.attr), frozenset()) if is_integer(node.dtype) else _symbol(node)
    if node.op == "index":
        return Linear(1, 0, frozenset())
    if node.op == "load":
        return _symbol(node) if params[node.attr].is_scalar else None
    if node.op in ("size", "length", "fact"):
        return _symbol(node)
    if node.op in ("gather", "loop", "carried", "update") or any(each is None for each in args):
        return None
    known = [each for each in args if each is not None]
    return _combined(node, known)


def _combined(node: Node, args: list[Linear]) -> Linear | None:
    if node.op in ("add", "sub") and is_integer(node.dtype) and node.dtype.itemsize >= 4:
        return _sum(args[0], args[1], 1 if node.op == "add" else -1)
    if node.op == "neg" and node.dtype.itemsize >= 4:
        return _scaled(args[0], -1)
    if node.op == "mul" and node.dtype.itemsize >= 4 and is_integer(node.dtype):
        for one, two in (args, args[::-1]):
            if not one.factor and not one.uniform:
                return _scaled(two, one.offset)
    if node.op == "cast" and is_integer(node.dtype) and node.dtype.itemsize >= 4 and is_integer(node.args[0].dtype):
        return args[0]
    return _symbol(node) if all(each.factor == 0 for each in args) else None


def _symbol(node: Node) -> Linear:
    return Linear(0, 0, frozenset({(id(node), 1)}))


def _sum(x: Linear, y: Linear, sign: int) -> Linear:
    uniform = dict(x.uniform)
    for node, factor in y.uniform:
        uniform[node] = uniform.get(node, 0) + sign * factor
    pairs = frozenset((node, factor) for node, factor in uniform.items() if factor)
    return Linear(x.factor + sign * y.factor, x.offset + sign * y.offset, pairs)


def _scaled(x: Linear, factor: int) -> Linear | None:
    if abs(x.factor * factor) > _MOST_FACTOR:
        return None
    pairs = frozenset((node, each * factor) for node, each in x.uniform if each * factor)
    return Linear(x.factor * factor, x.offset * factor, pairs)
