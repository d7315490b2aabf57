"""The derivative of a program: reverse accumulation over its nodes.

Comparisons, integer arithmetic and rounding have derivative zero. Where two operands of a minimum or
maximum are equal, each takes half.
"""

from __future__ import annotations

from collections.abc import Callable

from xferlib.errors import KernelTypeError
from xferlib.kernels.ir import Builder, Node, Param, Program, Store, is_complex, is_float

Nodes = tuple[Node, ...]
Rule = Callable[[Builder, Node, Nodes, Node], tuple[Node | None, ...]]
"""From the node, its operands and the gradient of its value to the gradients of the operands."""

_UNKNOWN = (
    "the derivative of an operation on the bits of a float is not known (copysign, signbit, nextafter, frexp, "
    "remainder and floor_divide of floats use them); compute that part under torch.no_grad(), or write it with where()"
)

_FLAT = frozenset({"floor", "ceil", "trunc", "rint"})


def backward(program: Program, inputs: tuple[int, ...], wanted: tuple[int, ...]) -> Program:
    """The program for the gradients.

    Args:
        program: An element-wise program without raw parameters.
        inputs: Its input parameters.
        wanted: The inputs whose gradients are computed.

    Returns:
        A program whose parameters are the inputs, then the gradient of each output, then, written, the
        gradient of each wanted input.

    Raises:
        KernelTypeError: The derivative of some operation on the way is not known.
    """
    b = Builder([program.params[number] for number in inputs], math=program.math)
    place = {number: position for position, number in enumerate(inputs)}
    copies = _copied(b, program, place)
    gradients: dict[int, Node] = {}
    depends = _dependents(program, wanted)
    for store in program.stores:
        dtype = program.params[store.param].dtype
        b.params.append(Param(name=f"grad_{program.params[store.param].name}", dtype=dtype))
        if id(store.value) in depends:
            _accumulate(b, gradients, store.value, b.load(len(b.params) - 1))
    for node in reversed(program.nodes):
        gradient = gradients.get(id(node))
        if gradient is None or node.op == "load":
            continue
        operands = tuple(copies[id(each)] for each in node.args)
        for operand, part in zip(node.args, _rule(node)(b, copies[id(node)], operands, gradient), strict=True):
            if part is not None and id(operand) in depends:
                _accumulate(b, gradients, operand, part)
    return _finished(b, program, wanted, gradients)


def forward(program: Program, inputs: tuple[int, ...], varying: tuple[int, ...]) -> Program:
    """The program for the tangents of forward mode.

    Args:
        program, inputs: As for `backward`.
        varying: The inputs that have tangents.

    Returns:
        A program whose parameters are the inputs, then the tangent of each varying input, then, written, the
        tangent of each output.

    Raises:
        KernelTypeError: The derivative of some operation on the way is not known.
    """
    b = Builder([program.params[number] for number in inputs], math=program.math)
    copies = _copied(b, program, {number: position for position, number in enumerate(inputs)})
    depends = _dependents(program, varying)
    seeds: dict[int, Node] = {}
    for number in varying:
        param = program.params[number]
        b.params.append(Param(name=f"t_{param.name}", dtype=param.dtype))
        seeds[number] = b.load(len(b.params) - 1)
    tangents: dict[int, Node] = {}
    for node in program.nodes:
        if id(node) not in depends:
            continue
        found = seeds.get(node.attr) if node.op == "load" else _tangent(b, node, copies, tangents)
        if found is not None:
            tangents[id(node)] = found
    stores = []
    for store in program.stores:
        dtype = program.params[store.param].dtype
        b.params.append(Param(name=f"t_{program.params[store.param].name}", dtype=dtype))
        value = tangents.get(id(store.value))
        stores.append(Store(param=len(b.params) - 1, value=b.const(0, dtype) if value is None else value))
    return b.program(stores)


def _tangent(b: Builder, node: Node, copies: dict[int, Node], tangents: dict[int, Node]) -> Node | None:
    """The tangent of a node: its operands' tangents times their slopes, which the reverse-mode rule gives, summed."""
    if node.op == "cast":
        inner = tangents.get(id(node.args[0]))
        return None if inner is None else b.cast(inner, node.dtype)
    operands = tuple(copies[id(each)] for each in node.args)
    parts: list[Node] = []
    for number, each in enumerate(node.args):
        tangent = tangents.get(id(each))
        part = None if tangent is None else _rule(node)(b, copies[id(node)], operands, tangent)[number]
        if part is not None:
            parts.append(part)
    total: Node | None = None
    for part in parts:
        total = part if total is None else b.op("add", total, part)
    return total


def _finished(b: Builder, program: Program, wanted: tuple[int, ...], gradients: dict[int, Node]) -> Program:
    loads = {node.attr: node for node in program.nodes if node.op == "load"}
    stores = []
    for number in wanted:
        dtype = program.params[number].dtype
        found = gradients.get(id(loads[number])) if number in loads else None
        b.params.append(Param(name=f"d_{program.params[number].name}", dtype=dtype))
        stores.append(Store(param=len(b.params) - 1, value=b.const(0, dtype) if found is None else found))
    return b.program(stores)


def _copied(b: Builder, program: Program, place: dict[int, int]) -> dict[int, Node]:
    """The nodes of the program in another builder."""
    copies: dict[int, Node] = {}
    for node in program.nodes:
        attr = place[node.attr] if node.op == "load" else node.attr
        copies[id(node)] = b.emit(node.op, node.dtype, tuple(copies[id(each)] for each in node.args), attr)
    return copies


def _dependents(program: Program, wanted: tuple[int, ...]) -> set[int]:
    """The nodes of floating dtype that depend on a wanted input."""
    found: set[int] = set()
    for node in program.nodes:
        varies = node.attr in wanted if node.op == "load" else any(id(each) in found for each in node.args)
        if varies and is_complex(node.dtype):
            raise KernelTypeError("gradients of complex kernels are not supported; compute with the two parts")
        if varies and node.op == "bitcast":
            raise KernelTypeError(_UNKNOWN)
        if varies and node.op in ("loop", "update"):
            raise KernelTypeError("gradients of loops that end with the data are not supported; count to a constant")
        if varies and is_float(node.dtype):
            found.add(id(node))
    return found


def _accumulate(b: Builder, gradients: dict[int, Node], node: Node, part: Node) -> None:
    before = gradients.get(id(node))
    gradients[id(node)] = part if before is None else b.op("add", before, part)


def _rule(node: Node) -> Rule:
    if node.op == "call":
        return _CALLS[str(node.attr)]
    if node.op in _FLAT:
        return _nothing
    return _RULES[node.op]


# --- rules


def _nothing(b: Builder, y: Node, x: Nodes, g: Node) -> tuple[Node | None, ...]:
    return (None,) * len(x)


def _cast(b: Builder, y: Node, x: Nodes, g: Node) -> tuple[Node | None, ...]:
    return (b.cast(g, x[0].dtype) if is_float(x[0].dtype) else None,)


def _abs(b: Builder, y: Node, x: Nodes, g: Node) -> tuple[Node | None, ...]:
    zero = b.const(0, g.dtype)
    negative = b.select(b.op("lt", x[0], zero), b.op("neg", g), zero)
    return (b.select(b.op("gt", x[0], zero), g, negative),)


def _div(b: Builder, y: Node, x: Nodes, g: Node) -> tuple[Node | None, ...]:
    return b.op("div", g, x[1]), b.op("neg", b.op("mul", g, b.op("div", y, x[1])))


def _extremum(b: Builder, y: Node, x: Nodes, g: Node) -> tuple[Node | None, ...]:
    zero, half = b.const(0, g.dtype), b.op("mul", g, b.const(0.5, g.dtype))
    same = b.op("eq", x[0], x[1])
    parts = [b.select(same, half, b.select(b.op("eq", y, each), g, zero)) for each in x]
    return tuple(parts)


def _select(b: Builder, y: Node, x: Nodes, g: Node) -> tuple[Node | None, ...]:
    zero = b.const(0, g.dtype)
    return None, b.select(x[0], g, zero), b.select(x[0], zero, g)


def _fmod(b: Builder, y: Node, x: Nodes, g: Node) -> tuple[Node | None, ...]:
    return g, b.op("neg", b.op("mul", g, b.op("trunc", b.op("div", x[0], x[1]))))


def _sqrt(b: Builder, y: Node, x: Nodes, g: Node) -> tuple[Node | None, ...]:
    return (b.op("div", b.op("mul", g, b.const(0.5, g.dtype)), y),)


_RULES: dict[str, Rule] = {
    "add": lambda b, y, x, g: (g, g),
    "sub": lambda b, y, x, g: (g, b.op("neg", g)),
    "mul": lambda b, y, x, g: (b.op("mul", g, x[1]), b.op("mul", g, x[0])),
    "neg": lambda b, y, x, g: (b.op("neg", g),),
    "fma": lambda b, y, x, g: (b.op("mul", g, x[1]), b.op("mul", g, x[0]), g),
    "abs": _abs, "div": _div, "min": _extremum, "max": _extremum, "select": _select, "fmod": _fmod,
    "sqrt": _sqrt, "cast": _cast,
}  # fmt: skip


def _scaled(slope: Callable[[Builder, Node, Node], Node]) -> Rule:
    """The rule of a function of one operand, from its derivative at x with value y."""

    def rule(b: Builder, y: Node, x: Nodes, g: Node) -> tuple[Node | None, ...]:
        return (b.op("mul", g, slope(b, x[0], y)),)

    return rule


def _over(denominator: Callable[[Builder, Node, Node], Node], numerator: float = 1.0) -> Rule:
    def rule(b: Builder, y: Node, x: Nodes, g: Node) -> tuple[Node | None, ...]:
        top = g if numerator == 1.0 else b.op("mul", g, b.const(numerator, g.dtype))
        return (b.op("div", top, denominator(b, x[0], y)),)

    return rule


def _one_plus(b: Builder, x: Node, sign: str = "add") -> Node:
    return b.op(sign, b.const(1, x.dtype), b.op("mul", x, x))


def _root(b: Builder, x: Node, sign: str, *, squared_first: bool = False) -> Node:
    square, one = b.op("mul", x, x), b.const(1, x.dtype)
    return b.op("sqrt", b.op(sign, square, one) if squared_first else b.op(sign, one, square))


def _constant_times(b: Builder, x: Node, value: float) -> Node:
    return b.op("mul", x, b.const(value, x.dtype))


def _power(b: Builder, y: Node, x: Nodes, g: Node) -> tuple[Node | None, ...]:
    base, exponent = x
    zero, one = b.const(0, g.dtype), b.const(1, g.dtype)
    lower = b.op("mul", exponent, b.call("power", base, b.op("sub", exponent, one)))
    lower = b.select(b.op("eq", exponent, zero), zero, lower)
    upper = b.select(b.op("eq", base, zero), zero, b.op("mul", y, b.call("log", base)))
    return b.op("mul", g, lower), b.op("mul", g, upper)


def _arctan2(b: Builder, y: Node, x: Nodes, g: Node) -> tuple[Node | None, ...]:
    scale = b.op("add", b.op("mul", x[0], x[0]), b.op("mul", x[1], x[1]))
    return b.op("div", b.op("mul", g, x[1]), scale), b.op("neg", b.op("div", b.op("mul", g, x[0]), scale))


_LN2, _LN10 = 0.6931471805599453, 2.302585092994046

_CALLS: dict[str, Rule] = {
    "exp": _scaled(lambda b, x, y: y),
    "exp2": _scaled(lambda b, x, y: _constant_times(b, y, _LN2)),
    "expm1": _scaled(lambda b, x, y: b.op("add", y, b.const(1, y.dtype))),
    "log": _over(lambda b, x, y: x),
    "log2": _over(lambda b, x, y: _constant_times(b, x, _LN2)),
    "log10": _over(lambda b, x, y: _constant_times(b, x, _LN10)),
    "log1p": _over(lambda b, x, y: b.op("add", b.const(1, x.dtype), x)),
    "sin": _scaled(lambda b, x, y: b.call("cos", x)),
    "cos": _scaled(lambda b, x, y: b.op("neg", b.call("sin", x))),
    "tan": _scaled(lambda b, x, y: _one_plus(b, y)),
    "arcsin": _over(lambda b, x, y: _root(b, x, "sub")),
    "arccos": _over(lambda b, x, y: _root(b, x, "sub"), -1.0),
    "arctan": _over(lambda b, x, y: _one_plus(b, x)),
    "sinh": _scaled(lambda b, x, y: b.call("cosh", x)),
    "cosh": _scaled(lambda b, x, y: b.call("sinh", x)),
    "tanh": _scaled(lambda b, x, y: _one_plus(b, y, "sub")),
    "arcsinh": _over(lambda b, x, y: _root(b, x, "add")),
    "arccosh": _over(lambda b, x, y: _root(b, x, "sub", squared_first=True)),
    "arctanh": _over(lambda b, x, y: _one_plus(b, x, "sub")),
    "cbrt": _over(lambda b, x, y: _constant_times(b, b.op("mul", y, y), 3.0)),
    "rsqrt": _scaled(lambda b, x, y: _constant_times(b, b.op("mul", y, b.op("mul", y, y)), -0.5)),
    "power": _power,
    "arctan2": _arctan2,
}
