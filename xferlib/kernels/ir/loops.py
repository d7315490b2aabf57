"""Loops whose number of turns depends on the element: a node that runs a program of its own until it says stop.

A node ``loop`` has the operands ``start`` (bool), the initial values of the variables that the loop changes, and the
values that its turns use and do not change. Its attribute is a `LoopBody`. An element for which ``start`` is false
makes no turn; any other repeats the body with the variables' newest values until a turn stores false. A node ``pick``
is the last value of one variable.

What a turn does not change is computed once, before the loop: it is no part of the body. Reads of arrays are, even at
an index that stays the same, because a loop without a turn must not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xferlib.kernels.ir.nodes import BOOL, Builder, Node, Param, Program, Store, ordered

LEAF = "carried"
"""The operation of a variable's value at the beginning of a turn, while the body is being built."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBody:
    """One turn of a loop.

    The program's parameters are the ``carried`` variables, ``captured`` values, the arrays that it reads, then the
    variables' new values and, as the last one, whether another turn follows.
    """

    program: Program
    carried: int
    captured: int
    arrays: tuple[int, ...]
    """The parameters of the program around the loop that are the body's arrays."""

    @property
    def written(self) -> tuple[int, ...]:
        """The parameters around the loop to whose elements it writes."""
        first = self.carried + self.captured
        return tuple(array for number, array in enumerate(self.arrays, first) if number in self.program.writes)

    def __str__(self) -> str:
        return f"arrays {self.arrays} {{\n{self.program.text}\n}}"

    def array(self, param: int) -> int:
        """The parameter around the loop that is parameter ``param`` of the body."""
        return self.arrays[param - self.carried - self.captured]


def leaf(b: Builder, key: object, initial: Node) -> Node:
    """The value of a variable at the beginning of a turn; ``key`` is unique among the loops of a program."""
    return b.emit(LEAF, initial.dtype, (), key)


def make(
    b: Builder,
    start: Node,
    variables: Sequence[tuple[Node, Node, Node]],
    again: Node,
    before: int,
    effects: Sequence[Node] = (),
    after: Sequence[Node] = (),
) -> tuple[Node, list[Node]]:
    """Add a loop to a program; returns it, and the last values of its variables.

    Args:
        b: The program's builder.
        start: Whether an element makes a turn at all, bool.
        variables: For each variable its initial value, its leaf, and its value at the end of a turn.
        again: Whether another turn follows one, bool.
        before: The number of nodes that were made before the loop.
        effects: The nodes of a turn that are needed for what they write.
        after: The nodes that must be evaluated before the loop.
    """
    if b.reads_bits:
        variables = [(b.one_nan(initial), node, b.one_nan(value)) for initial, node, value in variables]
    roots = [*(value for _, _, value in variables), again]
    own = {id(node) for _, node, _ in variables}
    nodes = ordered([*roots, *effects])
    inside: set[int] = set()
    b.work += 4 * len(nodes)
    for node in nodes:
        if id(node) in own or b.touches_since(before, node) or any(id(each) in inside for each in node.args):
            inside.add(id(node))
    captured: dict[int, Node] = {}
    arrays: dict[int, None] = {}
    for node in nodes:
        if id(node) in inside:
            captured |= {id(each): each for each in node.args if id(each) not in inside and each.op != "const"}
            arrays |= dict.fromkeys(_arrays_of(node))
    captured |= {id(each): each for each in roots if id(each) not in inside and each.op != "const"}
    leaves = [node for _, node, _ in variables]
    body = _body(b, nodes, inside, leaves, list(captured.values()), list(arrays), roots, effects)
    loop = b.emit("loop", BOOL, (start, *(initial for initial, _, _ in variables), *captured.values(), *after), body)
    return loop, [b.emit("pick", node.dtype, (loop,), number) for number, (_, node, _) in enumerate(variables)]


def _arrays_of(node: Node) -> tuple[int, ...]:
    if node.op == "loop":
        return tuple(node.attr.arrays)
    if node.op == "update":
        return (node.attr.param,)
    return (node.attr,) if node.op == "gather" else ()


def _body(
    b: Builder, nodes: Sequence[Node], inside: set[int], leaves: list[Node], captured: list[Node],
    arrays: list[int], roots: list[Node], effects: Sequence[Node],
) -> LoopBody:  # fmt: skip
    given = [*leaves, *captured]
    params = [Param(name=f"in{number}", dtype=node.dtype) for number, node in enumerate(given)]
    params += [b.params[number] for number in arrays]
    first_result = len(params)
    params += [Param(name=f"out{number}", dtype=node.dtype) for number, node in enumerate(roots)]
    inner = Builder(params, math=b.math)
    place = {number: len(given) + position for position, number in enumerate(arrays)}
    copies = {id(node): inner.load(number) for number, node in enumerate(given)}
    for node in nodes:
        if id(node) in copies or (id(node) not in inside and node.op != "const"):
            continue
        attr = node.attr
        if node.op == "gather":
            attr = place[attr]
        elif node.op == "update":
            attr = replace(attr, param=place[attr.param])
        elif node.op == "loop":
            attr = replace(attr, arrays=tuple(place[each] for each in attr.arrays))
        copies[id(node)] = inner.emit(node.op, node.dtype, tuple(copies[id(each)] for each in node.args), attr)
    stores = [Store(param=first_result + number, value=copies[id(node)]) for number, node in enumerate(roots)]
    program = inner.program(stores, [copies[id(node)] for node in effects])
    return LoopBody(program=program, carried=len(leaves), captured=len(captured), arrays=tuple(arrays))


def bodies(program: Program) -> list[Program]:
    """The program, and those of its loops."""
    found = [program]
    for each in found:  # grows while it is read
        found += [node.attr.program for node in each.nodes if node.op == "loop"]
    return found
