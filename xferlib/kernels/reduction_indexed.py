"""Reductions in several kernels: where the map reads arrays at computed indices, or arguments finish the results."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xferlib.errors import KernelTypeError
from xferlib.kernels.calls.reduction_calls import Axis, check_axes
from xferlib.kernels.elementwise import ElementwiseKernel
from xferlib.kernels.frontends.definitions import ArgumentKind, Specialization
from xferlib.kernels.frontends.reduction_definition import ReductionDefinition
from xferlib.kernels.ir.layout import broadcast_shape
from xferlib.kernels.ir.nodes import Param
from xferlib.kernels.ir.reduction import Elementwise, ReductionSpec

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device


class _ElementwisePart:
    """The definition of an element-wise kernel beside the reduction; its dtypes are fixed."""

    defaults: dict[str, Any] = {}  # noqa: RUF012 - never written
    keywords: list[str] = []  # noqa: RUF012 - never written
    first_output: int | None = None

    def __init__(self, name: str, kernel: Elementwise) -> None:
        self.name = name
        params = kernel.program.params
        self.positional = [param.name for param in params[: kernel.inputs]]
        self.names = tuple(param.name for param in params)
        self._special = Specialization(program=kernel.program, outputs=tuple(range(kernel.inputs, len(params))))

    def specialize(
        self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int], arguments: Sequence[Any] = ()
    ) -> Specialization:
        return self._special


class _Rest:
    """The definition of the reduction that another kernel prepares or finishes."""

    def __init__(self, name: str, names: tuple[str, ...], spec: ReductionSpec) -> None:
        self.name = name
        self.names = names
        self._spec = spec

    def specialize(self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int]) -> ReductionSpec:
        return self._spec


def _shape(params: Sequence[Param], shapes: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of the arrays indexed by ``i`` alone or, where there are none, of the first array."""
    named = [(params[n].name, shape) for n, shape in shapes.items() if not params[n].is_raw]
    return broadcast_shape(named) if named else next(iter(shapes.values()))


class IndexedReduction:
    """A reduction in two kernels, for one set of dtypes; the first writes an array of accumulators for the second."""

    def __init__(
        self, name: str, spec: ReductionSpec, make: Callable[[ReductionDefinition], Callable[..., Any]]
    ) -> None:
        assert spec.premap is not None
        self._name = name
        self._params = spec.premap.program.params
        self._dtype = spec.accumulators[0]
        self._map = ElementwiseKernel(_ElementwisePart(f"{name}_map", spec.premap))
        self._rest = make(_Rest(name, ("mapped",), dataclasses.replace(spec, premap=None)))

    def prepare(
        self, owner: Backend, device: Device, shapes: dict[int, tuple[int, ...]], axis: Axis, *, keepdims: bool
    ) -> IndexedCall:
        """The call for arrays of these shapes, by argument; it takes all elements."""
        shape = _shape(self._params, shapes)
        if len(check_axes(self._name, axis, len(shape))) < len(shape):
            raise KernelTypeError(
                f"{self._name}(): axis {axis} of shape {shape} leaves some, but map_expr indexes an array freely, "
                "which counts all elements; leave axis= out, or index by i alone"
            )

        def run(args: Sequence[Any], out: Any) -> Any:
            mapped = owner.empty(shape, self._dtype, device=device, stream=owner.stream_current(device))
            self._map(*args, out=mapped)
            return self._rest(mapped, keepdims=keepdims, out=out)

        return IndexedCall(run)


class FinishedReduction:
    """A reduction to accumulators, and a kernel that turns them into the outputs by arguments of the call.

    Args:
        name: For messages.
        names: The inputs.
        spec: The reduction, for one set of dtypes.
        make: Makes the kernel of a reduction.
    """

    def __init__(
        self,
        name: str,
        names: tuple[str, ...],
        spec: ReductionSpec,
        make: Callable[[ReductionDefinition], Callable[..., Any]],
    ) -> None:
        assert spec.postmap is not None
        self._name = name
        self._arguments = spec.postmap.arguments
        self._is_one = len(spec.accumulators) == 1
        self._params = (spec.map_program if spec.premap is None else spec.premap.program).params
        self._reduce = make(_Rest(name, names, dataclasses.replace(spec, postmap=None)))
        self._post = ElementwiseKernel(_ElementwisePart(f"{name}_post", spec.postmap))

    def prepare(self, owner: Backend, shapes: dict[int, tuple[int, ...]], axis: Axis, *, keepdims: bool) -> IndexedCall:
        """The call for arrays of these shapes, by argument."""
        count = math.prod(_shape(self._params, shapes))

        def run(args: Sequence[Any], out: Any) -> Any:
            found = self._reduce(*args, axis=axis, keepdims=keepdims)
            accumulators = [found] if self._is_one else [*found]
            sizes = count, owner.view(accumulators[0]).size
            return self._post(*accumulators, *(args[each] for each in self._arguments), *sizes, out=out)

        return IndexedCall(run)


class IndexedCall:
    """One checked call of a reduction in several kernels, for arrays of the same dtypes, shapes and device."""

    def __init__(self, run: Callable[[Sequence[Any], Any], Any]) -> None:
        self._run = run

    def run(self, args: Sequence[Any]) -> Any:
        """Reduce to a new array."""
        return self._run(args, None)

    def run_into(self, args: Sequence[Any], out: Any) -> Any:
        """Reduce to a given array, which is checked."""
        return self._run(args, out)
