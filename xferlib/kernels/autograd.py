"""Derivatives in PyTorch: a kernel called on tensors that autograd tracks becomes a node of torch's graph.

A derivative written in torch's operations would have other bits on other devices. Here the gradient and the tangent
are kernels too, made from the derivative of the program: the same on every device, and differentiable again. The
transforms of ``torch.func`` find both, and a rule for ``vmap``.

A tensor inside a transform is a wrapper without memory, so nothing here may look at a pointer. ``vmap`` runs the
kernel once for all examples, which is right only if no element's value depends on its index (`ORDERED`). torch may
request some gradients only, and others in a later call: each combination is a kernel of its own, made at its first
use. A call on tensors that torch does not track pays for one question, `needs_gradient`, and never comes here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from xferlib.errors import KernelTypeError
from xferlib.kernels import functions
from xferlib.kernels.definitions import Definition, FixedDefinition, Specialization
from xferlib.kernels.functions import Rule
from xferlib.kernels.ir import Builder, Node, Param, Program, Store, is_complex, is_float

Run = Callable[..., Any]
Make = Callable[[Definition], Callable[..., Any]]
"""Makes a kernel from its definition. It is `ElementwiseKernel`, passed in because that module imports this one."""

_function: Any = None
_sum: Run | None = None
"""`xferlib.kernels.reductions.sum`, set by `sum_by` when that is imported."""

ORDERED = frozenset({"index", "size", "length", "gather", "loop", "update", "fact"})
"""Operations whose value depends on an element's index: a batch of examples cannot be one call of these."""


# The derivative of a program: reverse accumulation over its nodes.
#
# Comparisons, integer arithmetic and rounding have derivative zero. Where two operands of a minimum or maximum are
# equal, each takes half.

Nodes = tuple[Node, ...]
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
    copies = _copy_nodes(b, program, place)
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
    return _store_gradients(b, program, wanted, gradients)


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
    copies = _copy_nodes(b, program, {number: position for position, number in enumerate(inputs)})
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


def _store_gradients(b: Builder, program: Program, wanted: tuple[int, ...], gradients: dict[int, Node]) -> Program:
    loads = {node.attr: node for node in program.nodes if node.op == "load"}
    stores = []
    for number in wanted:
        dtype = program.params[number].dtype
        found = gradients.get(id(loads[number])) if number in loads else None
        b.params.append(Param(name=f"d_{program.params[number].name}", dtype=dtype))
        stores.append(Store(param=len(b.params) - 1, value=b.const(0, dtype) if found is None else found))
    return b.program(stores)


def _copy_nodes(b: Builder, program: Program, place: dict[int, int]) -> dict[int, Node]:
    """The nodes of the program in another builder."""
    copies: dict[int, Node] = {}
    for node in program.nodes:
        copies[id(node)] = b.copy(node, copies, place[node.attr] if node.op == "load" else None)
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
        return functions.rule_of(str(node.attr))
    if node.op in _FLAT:
        return _no_gradients
    return _RULES[node.op]


# --- rules


def _no_gradients(b: Builder, y: Node, x: Nodes, g: Node) -> tuple[Node | None, ...]:
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


# Derivatives as kernels, and kernels as nodes of torch's graph.


class Pullback:
    """The derivatives of one element-wise program, whose kernels are made at their first use.

    Args:
        name: The name of the kernels, for messages.
        program: Without raw parameters, and not writing what it reads.
        outputs: Its output parameters, which come last.
        scalars: The inputs that are numbers.
        make: Makes the kernels.
    """

    def __init__(
        self, name: str, program: Program, outputs: Sequence[int], scalars: frozenset[int], make: Make
    ) -> None:
        self._name = name
        self._make = make
        self._program = program
        self._inputs = tuple(number for number in range(len(program.params)) if number not in outputs)
        self._outputs = len(outputs)
        self._scalars = scalars
        self._backward: dict[tuple[int, ...], tuple[Any, frozenset[int]]] = {}
        self._forward: dict[tuple[int, ...], Any] = {}

    def gradients(self, wanted: tuple[int, ...], arguments: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients of the ``wanted`` inputs, in the shape of the results, from the outputs' gradients."""
        return _tuple(self._gradient(wanted)[0](*arguments, *given))

    def reads(self, wanted: tuple[int, ...]) -> frozenset[int]:
        """The inputs on whose values those gradients depend."""
        return self._gradient(wanted)[1]

    def _gradient(self, wanted: tuple[int, ...]) -> tuple[Any, frozenset[int]]:
        found = self._backward.get(wanted)
        if found is None:
            program = backward(self._program, self._inputs, wanted)
            kernel = self._make(FixedDefinition(f"{self._name}_backward", program, -len(wanted), self._scalars))
            found = self._backward[wanted] = (kernel, program.reads)
        return found

    def tangents(self, varying: tuple[int, ...], arguments: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        """The tangents of the outputs, from the ``varying`` inputs' tangents."""
        kernel = self._forward.get(varying)
        if kernel is None:
            program = forward(self._program, self._inputs, varying)
            kernel = self._make(FixedDefinition(f"{self._name}_forward", program, -self._outputs, self._scalars))
            self._forward[varying] = kernel
        return _tuple(kernel(*arguments, *given))


class GraphOperation(Protocol):
    """A node's operation in torch's graph: a kernel for certain dtypes."""

    name: str

    def run(self, *arguments: Any) -> Any:
        """The results for tensors outside torch's graph."""

    def backward(self, wanted: tuple[int, ...], arguments: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """The gradients of the ``wanted`` arguments, in their shapes."""

    def tangents(self, varying: tuple[int, ...], arguments: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        """The tangents of the results."""

    def batch(self, arguments: Sequence[Any], rank: int) -> Any:
        """The results of many examples: the first axis of each is the example's number.

        Args:
            arguments: All of one rank, with an extent of 1 in front where they are the same for all examples.
            rank: The dimensions of an example.
        """


class Differentiable:
    """One specialization of an element-wise kernel, as a `GraphOperation`."""

    def __init__(self, name: str, special: Specialization, scalars: frozenset[int], run: Run, make: Make) -> None:
        program = special.program
        is_written = program.writes - frozenset(special.outputs)
        if program.raw or is_written or program.is_in_place:
            raise KernelTypeError(
                f"{name}(): gradients need a kernel without raw parameters that does not write to its inputs; "
                "call it under torch.no_grad(), or on x.detach()"
            )
        if any(param.dtype.kind == "c" for param in program.params):
            raise KernelTypeError(
                f"{name}(): gradients of complex kernels are not supported; compute with real and imaginary parts"
            )
        self.name = name
        self.run = run
        self._pullback = Pullback(name, program, special.outputs, scalars, make)
        self._is_ordered = any(node.op in ORDERED for node in program.nodes)

    def backward(self, wanted: tuple[int, ...], arguments: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        found = self._pullback.gradients(wanted, arguments, given)
        return [sum_to(gradient, arguments[number]) for number, gradient in zip(wanted, found, strict=True)]

    def tangents(self, varying: tuple[int, ...], arguments: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        return self._pullback.tangents(varying, arguments, given)

    def batch(self, arguments: Sequence[Any], rank: int) -> Any:
        if self._is_ordered:
            raise KernelTypeError(
                f"{self.name}(): the kernel uses the number of its element (i, n), which torch.func.vmap would change; "
                "call it for each example"
            )
        return apply(self, arguments)


def sum_to(gradient: Any, like: Any) -> Any:
    """Sum a gradient of the broadcast shape to that of the operand ``like``, in the order of `sum`."""
    extra = gradient.dim() - like.dim()
    axes = tuple(range(extra)) + tuple(
        axis + extra for axis, extent in enumerate(like.shape) if extent == 1 and gradient.shape[axis + extra] != 1
    )
    return sum_along(gradient, axes).reshape(like.shape) if axes else gradient


def sum_along(tensor: Any, axes: tuple[int, ...], *, keepdims: bool = False) -> Any:
    """The sum along ``axes`` in the order of `sum`; torch can differentiate it."""
    if _sum is None:
        importlib.import_module("xferlib.kernels.reductions")  # which imports this module: no statement may name it
    assert _sum is not None
    return _sum(tensor, axis=axes, keepdims=keepdims)


def sum_by(kernel: Run) -> None:
    """Sum derivatives with this reduction, whose module imports this one."""
    global _sum
    _sum = kernel


def apply(operation: GraphOperation, arguments: Sequence[Any]) -> Any:
    """Run the operation and record it in torch's graph."""
    return _torch_function().apply(operation, *arguments)


def _tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _torch_function() -> Any:
    global _function
    if _function is None:
        _function = _make_function()
    return _function


def _make_function() -> Any:
    import torch

    def all_of(ctx: Any) -> list[Any]:
        pairs = zip(ctx.saved_tensors, ctx.others, strict=True)
        return [other if saved is None else saved for saved, other in pairs]

    class KernelFunction(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
        @staticmethod
        def forward(operation: GraphOperation, *arguments: Any) -> Any:
            return operation.run(*(each.detach() if isinstance(each, torch.Tensor) else each for each in arguments))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            ctx.operation, *arguments = inputs
            ctx.others = [None if isinstance(each, torch.Tensor) else each for each in arguments]
            tensors = [each if isinstance(each, torch.Tensor) else None for each in arguments]
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)
            outputs = _tuple(output)
            ctx.mark_non_differentiable(*(each for each in outputs if not each.dtype.is_floating_point))
            ctx.set_materialize_grads(False)
            ctx.outputs = [(each.shape, each.dtype, each.device) for each in outputs]

        @staticmethod
        def backward(ctx: Any, *given: Any) -> Any:
            arguments = all_of(ctx)
            wanted = tuple(number for number, needed in enumerate(ctx.needs_input_grad[1:]) if needed)
            if all(each is None for each in given) or not wanted:
                return None, *[None] * len(arguments)
            filled = [
                torch.zeros(shape, dtype=dtype, device=device) if each is None or not dtype.is_floating_point else each
                for each, (shape, dtype, device) in zip(given, ctx.outputs, strict=True)
            ]
            found = dict(zip(wanted, ctx.operation.backward(wanted, arguments, filled), strict=True))
            return None, *(found.get(number) for number in range(len(arguments)))

        @staticmethod
        def jvp(ctx: Any, _: Any, *given: Any) -> Any:
            arguments = all_of(ctx)
            varying = tuple(number for number, each in enumerate(given) if each is not None)
            found = ctx.operation.tangents(varying, arguments, [given[number] for number in varying])
            pairs = zip(found, ctx.outputs, strict=True)
            results = tuple(tangent if dtype.is_floating_point else None for tangent, (_, dtype, _) in pairs)
            return results if len(results) > 1 else results[0]

        @staticmethod
        def vmap(info: Any, in_dims: tuple[Any, ...], operation: GraphOperation, *arguments: Any) -> Any:
            dims = in_dims[1:]
            ranks = [
                each.dim() - (dim is not None) if isinstance(each, torch.Tensor) else 0
                for each, dim in zip(arguments, dims, strict=True)
            ]
            rank = max(ranks)
            aligned = [
                _align(each, dim, rank - own) if isinstance(each, torch.Tensor) else each
                for each, dim, own in zip(arguments, dims, ranks, strict=True)
            ]
            result = operation.batch(aligned, rank)
            return result, (0,) * len(result) if isinstance(result, tuple) else 0

    return KernelFunction


def _align(tensor: Any, dim: int | None, missing: int) -> Any:
    """The tensor with the examples' axis first, then axes of extent 1 for the ``missing`` dimensions."""
    moved = tensor.unsqueeze(0) if dim is None else tensor.movedim(dim, 0)
    return moved.reshape(moved.shape[0], *[1] * missing, *moved.shape[1:])
