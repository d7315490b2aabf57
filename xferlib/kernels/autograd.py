"""Gradients in PyTorch: a kernel called on tensors that require them becomes a node of torch's graph.

The gradient is a kernel too, made from the derivative of the program: the same on every device, and
differentiable again. Tensors that require no gradient never come here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xferlib.errors import KernelTypeError
from xferlib.kernels import gradients
from xferlib.kernels.definitions import Kind, Specialization

if TYPE_CHECKING:
    from xferlib.kernels.ir import Program

Run = Callable[..., Any]

_function: Any = None


def needs_gradient(arguments: Sequence[Any]) -> bool:
    """Whether a result of ``arguments`` belongs into torch's graph."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.is_grad_enabled():
        return False
    return any(isinstance(each, torch.Tensor) and each.requires_grad for each in arguments)


def requires_gradient(arguments: Sequence[Any]) -> bool:
    """Whether an argument is a tensor that would need a gradient outside ``torch.no_grad()``."""
    torch = sys.modules.get("torch")
    return torch is not None and any(isinstance(each, torch.Tensor) and each.requires_grad for each in arguments)


class Derivative:
    """The definition of a kernel that computes gradients: one program, dtypes settled."""

    defaults: dict[str, Any] = {}  # noqa: RUF012 - never written
    keywords: list[str] = []  # noqa: RUF012 - never written
    first_output: int | None = None

    def __init__(self, name: str, program: Program, outputs: int, scalars: frozenset[int]) -> None:
        inputs = len(program.params) - outputs
        self.name = name
        self.names = tuple(param.name for param in program.params[:inputs])
        self.positional = list(self.names)
        self._special = Specialization(program=program, outputs=tuple(range(inputs, len(program.params))))
        self._scalars = scalars

    def specialize(
        self, kinds: tuple[Kind, ...], scalars: frozenset[int], arguments: Sequence[Any] = ()
    ) -> Specialization:
        """The program, for the dtypes that it was made for."""
        if scalars != self._scalars:
            raise KernelTypeError(f"{self.name}: made for other arguments")
        return self._special


class Differentiable:
    """One specialization of a kernel, with the kernels of its gradients as they come to be needed."""

    def __init__(self, name: str, special: Specialization, scalars: frozenset[int], run: Run) -> None:
        program = special.program
        if any(param.is_raw for param in program.params) or program.writes & program.reads:
            raise KernelTypeError(
                f"{name}(): gradients need a kernel without raw parameters that does not write to its inputs; "
                "call it under torch.no_grad(), or on x.detach()"
            )
        if any(param.dtype.kind == "c" for param in program.params):
            raise KernelTypeError(
                f"{name}(): gradients of complex kernels are not supported; compute with real and imaginary parts"
            )
        self.name = name
        self.special = special
        self.run = run
        self._scalars = scalars
        self._inputs = tuple(number for number in range(len(program.params)) if number not in special.outputs)
        self._kernels: dict[tuple[int, ...], Any] = {}

    def backward(self, wanted: tuple[int, ...], arguments: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """The gradients of the ``wanted`` inputs, summed to their shapes."""
        kernel = self._kernels.get(wanted)
        if kernel is None:
            from xferlib.kernels.elementwise import ElementwiseKernel

            program = gradients.backward(self.special.program, self._inputs, wanted)
            definition = Derivative(f"{self.name}_backward", program, len(wanted), self._scalars)
            kernel = self._kernels[wanted] = ElementwiseKernel(definition)
        results = kernel(*arguments, *given)
        results = results if isinstance(results, tuple) else (results,)
        return [_summed(result, arguments[number]) for number, result in zip(wanted, results, strict=True)]


def _summed(gradient: Any, like: Any) -> Any:
    """A gradient of the broadcast shape, for an operand of shape ``like``."""
    extra = gradient.dim() - like.dim()
    axes = tuple(range(extra)) + tuple(
        axis + extra for axis, extent in enumerate(like.shape) if extent == 1 and gradient.shape[axis + extra] != 1
    )
    if not axes:
        return gradient
    return _Summed.of(gradient, axes).reshape(like.shape)


class _Summed:
    """The sum of a gradient along axes: in xferlib's order, and differentiable."""

    @staticmethod
    def of(gradient: Any, axes: tuple[int, ...]) -> Any:
        if needs_gradient((gradient,)):
            return gradient.sum(axes)  # a gradient of a gradient: torch records its own sum
        from xferlib.kernels import reductions

        return reductions.sum(gradient.detach(), axis=axes)


def apply(differentiable: Differentiable, arguments: Sequence[Any]) -> Any:
    """Run the kernel and record it in torch's graph."""
    return _torch_function().apply(differentiable, *arguments)


def _torch_function() -> Any:
    global _function
    if _function is None:
        _function = _make_function()
    return _function


def _make_function() -> Any:
    import torch

    class KernelFunction(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
        @staticmethod
        def forward(ctx: Any, differentiable: Differentiable, *arguments: Any) -> Any:
            ctx.differentiable = differentiable
            ctx.others = [None if isinstance(each, torch.Tensor) else each for each in arguments]
            ctx.save_for_backward(*(each if isinstance(each, torch.Tensor) else None for each in arguments))
            plain = (each.detach() if isinstance(each, torch.Tensor) else each for each in arguments)
            result = differentiable.run(*plain)
            outputs = result if isinstance(result, tuple) else (result,)
            ctx.mark_non_differentiable(*(each for each in outputs if not each.dtype.is_floating_point))
            ctx.outputs = [(each.shape, each.dtype, each.device) for each in outputs]
            return result

        @staticmethod
        def backward(ctx: Any, *given: Any) -> Any:
            pairs = zip(ctx.saved_tensors, ctx.others, strict=True)
            arguments = [other if saved is None else saved for saved, other in pairs]
            filled = [
                torch.zeros(shape, dtype=dtype, device=device) if each is None or not dtype.is_floating_point else each
                for each, (shape, dtype, device) in zip(given, ctx.outputs, strict=True)
            ]
            wanted = tuple(number for number, needed in enumerate(ctx.needs_input_grad[1:]) if needed)
            found = dict(zip(wanted, ctx.differentiable.backward(wanted, arguments, filled), strict=True))
            return None, *(found.get(number) for number in range(len(arguments)))

    return KernelFunction
