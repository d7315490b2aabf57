"""Derivatives of reductions in PyTorch.

A reduction maps its elements, combines them, and computes the results from the accumulators. The first and the last
are programs, differentiated as such. The combination has a derivative if it adds, multiplies, or takes the minimum or
maximum; any other is refused. It is written in torch's operations, so that it is differentiable again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from xferlib.errors import KernelTypeError
from xferlib.kernels import autograd
from xferlib.kernels.autograd import Derivative, Make, Pullback, summed, summed_to
from xferlib.kernels.ir.nodes import is_float
from xferlib.kernels.ir.reduction import ReductionSpec

_COMBINING = frozenset({"add", "mul", "min", "max"})


class DifferentiableReduction:
    """A reduction of certain dtypes along certain axes, as an `xferlib.kernels.autograd.GraphOperation`.

    Args:
        name: For messages.
        spec: The reduction.
        scalars: The inputs that are numbers.
        shape: The common shape of the inputs; of one example inside ``vmap``.
        axes: The axes that are reduced.
        keepdims: Whether they stay, with extent 1.
        run: ``run(arguments, axes, keepdims)`` reduces tensors that torch does not follow, or some that it does.
        make: Makes the element-wise kernels of derivatives.
    """

    def __init__(
        self,
        name: str,
        spec: ReductionSpec,
        scalars: frozenset[int],
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        run: Callable[[Sequence[Any], tuple[int, ...], bool], Any],
        make: Make,
        *,
        keepdims: bool,
    ) -> None:
        self.name = name
        self.shape = shape
        self.axes = axes
        self.kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
        self.kept_shape = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
        self.accumulators = spec.accumulators
        count = len(spec.accumulators)
        self.combining = [_combining(spec, k) for k in range(count)]
        self._spec = spec
        self._keepdims = keepdims
        self._run = run
        self._make = make
        self._scalars = scalars
        self._all = range(count)
        self._floating = tuple(k for k in range(count) if is_float(spec.accumulators[k]))
        self._map = Pullback(name, spec.map_program, range(spec.inputs, spec.inputs + count), scalars, make)
        outputs = range(count + 2, len(spec.post.params))
        self._post = Pullback(name, spec.post, outputs, frozenset((count, count + 1)), make)
        self._mapped: Any = None

    def run(self, *arguments: Any) -> Any:
        return self._run(arguments, self.axes, self._keepdims)

    def batched(self, arguments: Sequence[Any], rank: int) -> Any:
        first = rank - len(self.shape) + 1
        axes = tuple(axis + first for axis in self.axes)
        return self._run(arguments, axes, self._keepdims)

    def check(self) -> None:
        """Refuse what has no derivative.

        Raises:
            KernelTypeError: How accumulators are combined, complex numbers, or the number of an element in the map.
        """
        if any(how is None for how in self.combining) or _is_ordered(self._spec):
            raise KernelTypeError(
                f"{self.name}(): gradients need accumulators that are added, multiplied, or the least or greatest of "
                "all, each on its own, and made without the number of the element; pass x.detach(), or call under "
                "torch.no_grad()"
            )
        params = (*self._spec.map_program.params, *self._spec.post.params)
        if any(param.dtype.kind == "c" for param in params):
            raise KernelTypeError(
                f"{self.name}(): gradients of complex reductions are not supported; compute with real and imaginary "
                "parts, or pass x.detach()"
            )

    # --- derivatives
    def backward(self, wanted: tuple[int, ...], arguments: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        self.check()
        if not self._floating or 0 in self.shape:
            return [arguments[number].new_zeros(arguments[number].shape) for number in wanted]
        middle = _Middle(self, arguments)
        totals = [middle.total(k) if k in self._post.reads(self._floating) else middle.nothing(k) for k in self._all]
        spread = [each.reshape(self.kept_shape) for each in given]
        found = self._post.gradients(self._floating, [*totals, *self._sizes()], spread)
        slopes = [middle.nothing(k) for k in self._all]
        for k, gradient in zip(self._floating, found, strict=True):
            slopes[k] = middle.scaled(k, gradient)
        parts = self._map.gradients(wanted, arguments, slopes)
        return [summed_to(part, arguments[number]) for number, part in zip(wanted, parts, strict=True)]

    def tangents(self, varying: tuple[int, ...], arguments: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        self.check()
        middle = _Middle(self, arguments)
        moved = self._map.tangents(varying, arguments, given)
        sums = [middle.summed(middle.scaled(k, moved[k].expand(self.shape))) for k in self._floating]
        totals = [middle.total(k) for k in self._all]
        found = self._post.tangents(self._floating, [*totals, *self._sizes()], sums)
        shape = self.kept_shape if self._keepdims else [self.shape[axis] for axis in self.kept]
        return tuple(each.reshape(shape) for each in found)

    def elements(self, arguments: Sequence[Any]) -> list[Any]:
        """The mapped elements, one array an accumulator, in the common shape."""
        if self._mapped is None:
            count = len(self._spec.accumulators)
            self._mapped = self._make(Derivative(f"{self.name}_map", self._spec.map_program, count, self._scalars))
        found = self._mapped(*arguments)
        return [each.expand(self.shape) for each in (found if isinstance(found, tuple) else (found,))]

    def _sizes(self) -> tuple[int, int]:
        """``in_size`` and ``out_size`` of the program that follows the reduction."""
        return math.prod(self.shape), math.prod(self.kept_shape)


class _Middle:
    """The accumulators of one call, computed at their first use, and the derivative of combining them."""

    def __init__(self, operation: DifferentiableReduction, arguments: Sequence[Any]) -> None:
        self._operation = operation
        self._arguments = arguments
        self._found: list[Any] | None = None

    def elements(self, k: int) -> Any:
        if self._found is None:
            self._found = self._operation.elements(self._arguments)
        return self._found[k]

    def nothing(self, k: int) -> Any:
        """A zero of the shape and dtype of accumulator ``k``."""
        import torch

        dtype = getattr(torch, self._operation.accumulators[k].name)
        device = next(each.device for each in self._arguments if isinstance(each, torch.Tensor))
        return torch.zeros((), dtype=dtype, device=device)

    def total(self, k: int) -> Any:
        """The accumulator of all elements, of `DifferentiableReduction.kept_shape`."""
        operation, axes = self._operation, self._operation.axes
        how = operation.combining[k]
        if not axes:
            return self.elements(k)
        if operation.accumulators[k].kind != "f":
            return self.nothing(k)
        if how == "add":
            return self.summed(self.elements(k))
        if how == "mul":
            return self._rows(self.elements(k)).prod(-1).reshape(operation.kept_shape)
        elements = self.elements(k)
        return (elements.amin if how == "min" else elements.amax)(axes, keepdim=True)

    def summed(self, elements: Any) -> Any:
        axes = self._operation.axes
        return summed(elements, axes, keepdims=True) if axes else elements

    def scaled(self, k: int, value: Any) -> Any:
        """``value`` times the derivative of the total by each element; equal extrema share it."""
        operation, axes = self._operation, self._operation.axes
        how = operation.combining[k]
        if how == "add" or not axes:
            return value
        elements = self.elements(k)
        if how == "mul":
            return value * self._others(elements)
        total = self.total(k)
        chosen = ((elements == total) | ((elements != elements) & (total != total))).to(elements.dtype)
        return value * (chosen / chosen.sum(axes, keepdim=True))

    def _others(self, elements: Any) -> Any:
        """For each element the product of the others, without division: correct beside zeros, and differentiable."""
        import torch

        rows = self._rows(elements)
        ones = torch.ones_like(rows[..., :1])
        before = torch.cat([ones, rows[..., :-1]], -1).cumprod(-1)
        behind = torch.cat([ones, rows.flip(-1)[..., :-1]], -1).cumprod(-1).flip(-1)
        order = self._order()
        permuted = [self._operation.shape[axis] for axis in order]
        back = sorted(range(len(order)), key=order.__getitem__)
        return (before * behind).reshape(permuted).permute(back)

    def _order(self) -> list[int]:
        return [*self._operation.kept, *self._operation.axes]

    def _rows(self, elements: Any) -> Any:
        """The elements with the reduced axes joined into one, the last."""
        shape = self._operation.shape
        kept = [shape[axis] for axis in self._operation.kept]
        return elements.permute(self._order()).reshape(*kept, math.prod(shape[axis] for axis in self._operation.axes))


def _combining(spec: ReductionSpec, k: int) -> str | None:
    """The operation that combines accumulator ``k``; None for one without a derivative here."""
    count = len(spec.accumulators)
    if spec.accumulators[k].kind != "f":
        return "add"  # a whole number, which has none at all
    value = next(store.value for store in spec.combine.stores if store.param == 2 * count + k)
    loads = sorted(each.attr for each in value.args if each.op == "load")
    return value.op if value.op in _COMBINING and loads == [k, count + k] else None


def _is_ordered(spec: ReductionSpec) -> bool:
    return any(node.op in autograd.ORDERED for node in spec.map_program.nodes)
