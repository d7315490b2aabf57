"""Programs as CUDA device functions, for kernels that are more than one loop."""

from __future__ import annotations

from xferlib.kernels.engines.cuda.ops import c_type, constant, expression
from xferlib.kernels.ir.formulas.own_functions import expanded
from xferlib.kernels.ir.nodes import Program


def body(program: Program, loads: dict[int, str], *, index: str = "0", size: str = "0") -> tuple[list[str], list[str]]:
    """Statements that compute a program without raw parameters.

    Args:
        program: The program.
        loads: For each parameter that is read, the C expression of its value in registers.
        index: The C expression of the element's number.
        size: That of the number of elements.

    Returns:
        The statements, and the names of the stored values in the order of the stores.
    """
    program = expanded(program)
    names: dict[int, str] = {}
    lines = []
    for number, node in enumerate(program.nodes):
        if node.op == "const":
            text = constant(node.attr, node.dtype)
        elif node.op == "load":
            text = loads[node.attr]
        elif node.op in ("index", "size"):
            text = f"(long long)({index if node.op == 'index' else size})"
        else:
            text = expression(node, [names[id(each)] for each in node.args], program.math)
        names[id(node)] = f"v{number}"
        lines.append(f"const {c_type(node.dtype)} v{number} = {text};")
    return lines, [names[id(store.value)] for store in program.stores]
