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

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from xferlib.errors import KernelTypeError
from xferlib.kernels import gradients
from xferlib.kernels.definitions import Definition, FixedDefinition, Specialization

if TYPE_CHECKING:
    from xferlib.kernels.ir import Program

Run = Callable[..., Any]
Make = Callable[[Definition], Callable[..., Any]]
"""Makes a kernel from its definition. It is `ElementwiseKernel`, passed in because that module imports this one."""

_function: Any = None
_sum: Run
"""`xferlib.kernels.reductions.sum`, set by `sum_by` when the package is imported."""

ORDERED = frozenset({"index", "size", "length", "gather", "loop", "update", "fact"})
"""Operations whose value depends on an element's index: a batch of examples cannot be one call of these."""


def _tracking() -> Any:
    """The module that asks torch which tensors it tracks; None where torch is not loaded."""
    if "torch" not in sys.modules:
        return None
    from xferlib.backends.torch import tensors as tracking

    return tracking


def needs_gradient(arguments: Sequence[Any]) -> bool:
    """Whether torch must record what is computed from ``arguments``."""
    torch = sys.modules.get("torch")
    if torch is None or not any(isinstance(each, torch.Tensor) for each in arguments):
        return False
    return bool(_tracking().followed(arguments))


def requires_gradient(arguments: Sequence[Any]) -> bool:
    """Whether an argument is a tensor that would need a gradient outside ``torch.no_grad()``."""
    torch = sys.modules.get("torch")
    return torch is not None and any(isinstance(each, torch.Tensor) and each.requires_grad for each in arguments)


def unwrapped(arguments: Sequence[Any]) -> list[Any]:
    """The arguments with each tensor of a transform replaced by one that has memory, to choose a program by."""
    torch, tracking = sys.modules["torch"], _tracking()
    return [tracking.unwrapped(each) if isinstance(each, torch.Tensor) else each for each in arguments]


def refuse(name: str, arguments: Sequence[Any], names: Sequence[str]) -> None:
    """Refuse tensors that torch tracks, for a kernel that has no derivative.

    Raises:
        KernelTypeError: One of them requires gradients, has a tangent, or is inside a transform.
    """
    torch = sys.modules.get("torch")
    if torch is None or not any(isinstance(each, torch.Tensor) for each in arguments):
        return
    for number in _tracking().followed(arguments):
        raise KernelTypeError(
            f"{name}(): torch follows argument {names[number]!r} for a derivative, and has none of CUDA source; pass "
            "x.detach(), call under torch.no_grad(), or write a torch.autograd.Function that calls the kernel"
        )


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
            program = gradients.backward(self._program, self._inputs, wanted)
            kernel = self._make(FixedDefinition(f"{self._name}_backward", program, -len(wanted), self._scalars))
            found = self._backward[wanted] = (kernel, program.reads)
        return found

    def tangents(self, varying: tuple[int, ...], arguments: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        """The tangents of the outputs, from the ``varying`` inputs' tangents."""
        kernel = self._forward.get(varying)
        if kernel is None:
            program = gradients.forward(self._program, self._inputs, varying)
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

    def batched(self, arguments: Sequence[Any], rank: int) -> Any:
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
        return [summed_to(gradient, arguments[number]) for number, gradient in zip(wanted, found, strict=True)]

    def tangents(self, varying: tuple[int, ...], arguments: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        return self._pullback.tangents(varying, arguments, given)

    def batched(self, arguments: Sequence[Any], rank: int) -> Any:
        if self._is_ordered:
            raise KernelTypeError(
                f"{self.name}(): the kernel uses the number of its element (i, n), which torch.func.vmap would change; "
                "call it for each example"
            )
        return apply(self, arguments)


def summed_to(gradient: Any, like: Any) -> Any:
    """Sum a gradient of the broadcast shape to that of the operand ``like``, in the order of `sum`."""
    extra = gradient.dim() - like.dim()
    axes = tuple(range(extra)) + tuple(
        axis + extra for axis, extent in enumerate(like.shape) if extent == 1 and gradient.shape[axis + extra] != 1
    )
    return summed(gradient, axes).reshape(like.shape) if axes else gradient


def summed(tensor: Any, axes: tuple[int, ...], *, keepdims: bool = False) -> Any:
    """The sum along ``axes`` in the order of `sum`; torch can differentiate it."""
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
                _aligned(each, dim, rank - own) if isinstance(each, torch.Tensor) else each
                for each, dim, own in zip(arguments, dims, ranks, strict=True)
            ]
            result = operation.batched(aligned, rank)
            return result, (0,) * len(result) if isinstance(result, tuple) else 0

    return KernelFunction


def _aligned(tensor: Any, dim: int | None, missing: int) -> Any:
    """The tensor with the examples' axis first, then axes of extent 1 for the ``missing`` dimensions."""
    moved = tensor.unsqueeze(0) if dim is None else tensor.movedim(dim, 0)
    return moved.reshape(moved.shape[0], *[1] * missing, *moved.shape[1:])
