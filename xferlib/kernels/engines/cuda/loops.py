"""The statements of a program's nodes in CUDA C, loops among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xferlib.kernels.engines.cuda.ops import c_type, constant, expression
from xferlib.kernels.ir.formulas.own_functions import expanded
from xferlib.kernels.ir.loops import LoopBody
from xferlib.kernels.ir.nodes import Node
from xferlib.kernels.ir.updates import real_operands

Gather = Callable[[Node, int, list[str]], str]
"""The expression of an element of an array: the node, the array's parameter, and the names of the operands."""
Update = Callable[[Node, int, list[str], str], str]
"""The statement of an update: as for `Gather`, and the name that gets the element's value before."""


def statements(
    nodes: Sequence[Node], names: dict[int, str], prefix: str, value: Callable[[Node], str], gather: Gather,
    update: Update, math: str,
) -> list[str]:  # fmt: skip
    """The statements that compute nodes, and their names in ``names``.

    Args:
        nodes: Operands before users.
        names: Gets the name of each node by its identity.
        prefix: What the names begin with.
        value: The expression of any node but a loop and what belongs to it.
        gather: The expression of an array's element.
        update: The statement of an update.
        math: ``"exact"`` or ``"fast"``.
    """
    lines: list[str] = []
    for count, node in enumerate(nodes):
        name = names[id(node)] = f"{prefix}{count}"
        if node.op == "loop":
            lines += _loop(node.attr, name, [names[id(each)] for each in node.args], gather, update, math)
        elif node.op == "update":
            args = [names[id(each)] for each in real_operands(node)]
            lines.append(f"    {c_type(node.dtype)} {name} = {{}}; {update(node, node.attr.param, args, name)}")
        elif node.op == "pick":
            names[id(node)] = f"{names[id(node.args[0])]}_{node.attr}"
        else:
            lines.append(f"    const {c_type(node.dtype)} {name} = {value(node)};")
    return lines


def _loop(body: LoopBody, name: str, args: list[str], gather: Gather, update: Update, math: str) -> list[str]:
    """A loop whose variables are ``name_0``, ``name_1``, ..."""
    program = expanded(body.program)
    given: list[str] = [f"{name}_{number}" for number in range(body.carried)] + args[1 + body.carried :]
    names: dict[int, str] = {}

    def outer_gather(node: Node, array: int, args: list[str]) -> str:
        return gather(node, body.array(array), args)

    def outer_update(node: Node, array: int, args: list[str], name: str) -> str:
        return update(node, body.array(array), args, name)

    def value(node: Node) -> str:
        args = [names[id(each)] for each in real_operands(node)]
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
    lines += statements(program.nodes, names, f"{name}_v", value, outer_gather, outer_update, math)
    *results, again = [names[id(store.value)] for store in program.stores]
    lines += [f"    {name}_{number} = {result};" for number, result in enumerate(results)]
    return [*lines, f"    {name}_go = {again};", "    }"]
