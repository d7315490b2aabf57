"""The statements of a program's nodes in CUDA C, loops among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xferlib.kernels.engines.cuda.ops import c_type, constant, expression
from xferlib.kernels.ir.formulas.own_functions import expanded
from xferlib.kernels.ir.loops import LoopBody
from xferlib.kernels.ir.nodes import Node

Gather = Callable[[Node, int, list[str]], str]
"""The expression of an element of an array: the node, the array's parameter, and the names of the operands."""


def statements(
    nodes: Sequence[Node], names: dict[int, str], prefix: str, value: Callable[[Node], str], gather: Gather, math: str
) -> list[str]:
    """The statements that compute nodes, and their names in ``names``.

    Args:
        nodes: Operands before users.
        names: Gets the name of each node by its identity.
        prefix: What the names begin with.
        value: The expression of any node but a loop and what belongs to it.
        gather: The expression of an array's element.
        math: ``"exact"`` or ``"fast"``.
    """
    lines: list[str] = []
    for count, node in enumerate(nodes):
        name = names[id(node)] = f"{prefix}{count}"
        if node.op == "loop":
            lines += _loop(node.attr, name, [names[id(each)] for each in node.args], gather, math)
        elif node.op == "pick":
            names[id(node)] = f"{names[id(node.args[0])]}_{node.attr}"
        else:
            lines.append(f"    const {c_type(node.dtype)} {name} = {value(node)};")
    return lines


def _loop(body: LoopBody, name: str, args: list[str], gather: Gather, math: str) -> list[str]:
    """A loop whose variables are ``name_0``, ``name_1``, ..."""
    program = expanded(body.program)
    given: list[str] = [f"{name}_{number}" for number in range(body.carried)] + args[1 + body.carried :]
    names: dict[int, str] = {}

    def outer_gather(node: Node, array: int, args: list[str]) -> str:
        return gather(node, body.array(array), args)

    def value(node: Node) -> str:
        args = [names[id(each)] for each in node.args]
        if node.op == "load":
            return given[int(node.attr)]
        if node.op == "const":
            return constant(node.attr, node.dtype)
        return outer_gather(node, node.attr, args) if node.op == "gather" else expression(node, args, math)

    lines = [
        f"    {c_type(param.dtype)} {name}_{number} = {args[1 + number]};"
        for number, param in enumerate(program.params[: body.carried])
    ]
    lines.append(f"    for (bool {name}_go = {args[0]}; {name}_go;) {{")
    lines += statements(program.nodes, names, f"{name}_v", value, outer_gather, math)
    *results, again = [names[id(store.value)] for store in program.stores]
    lines += [f"    {name}_{number} = {result};" for number, result in enumerate(results)]
    return [*lines, f"    {name}_go = {again};", "    }"]
