"""Reductions whose map reads arrays at computed indices: an element-wise kernel computes it, a reduction adds it up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xferlib.errors import KernelTypeError
from xferlib.kernels.calls.reduction_calls import Axis, check_axes
from xferlib.kernels.elementwise import ElementwiseKernel
from xferlib.kernels.frontends.definitions import ArgumentKind, Specialization
from xferlib.kernels.frontends.reduction_definition import ReductionDefinition
from xferlib.kernels.ir.layout import broadcast_shape
from xferlib.kernels.ir.reduction import Premap, ReductionSpec

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device


class _Mapping:
    """The definition of the kernel that computes the map; its dtypes are fixed."""

    defaults: dict[str, Any] = {}  # noqa: RUF012 - never written
    keywords: list[str] = []  # noqa: RUF012 - never written
    first_output: int | None = None

    def __init__(self, name: str, premap: Premap) -> None:
        self.name = f"{name}_map"
        self.positional = [param.name for param in premap.program.params[: premap.inputs]]
        self.names = tuple(self.positional)
        self._special = Specialization(program=premap.program, outputs=(premap.inputs,))

    def specialize(
        self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int], arguments: Sequence[Any] = ()
    ) -> Specialization:
        return self._special


class _Rest:
    """The definition of the reduction of the mapped elements."""

    names: tuple[str, ...] = ("mapped",)

    def __init__(self, name: str, spec: ReductionSpec) -> None:
        self.name = name
        self._spec = dataclasses.replace(spec, premap=None)

    def specialize(self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int]) -> ReductionSpec:
        return self._spec


class IndexedReduction:
    """A reduction in two kernels, for one set of dtypes; the first writes an array of accumulators for the second."""

    def __init__(
        self, name: str, spec: ReductionSpec, make: Callable[[ReductionDefinition], Callable[..., Any]]
    ) -> None:
        assert spec.premap is not None
        self._name = name
        self._params = spec.premap.program.params
        self._dtype = spec.accumulators[0]
        self._map = ElementwiseKernel(_Mapping(name, spec.premap))
        self._rest = make(_Rest(name, spec))

    def prepare(
        self, owner: Backend, device: Device, shapes: dict[int, tuple[int, ...]], axis: Axis, *, keepdims: bool
    ) -> IndexedCall:
        """The call for arrays of these shapes, by argument; it takes all elements."""
        shape = self._shape(shapes)
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

    def _shape(self, shapes: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
        """The shape of the arrays indexed by ``i`` alone or, where there are none, of the first array."""
        named = [(self._params[n].name, shape) for n, shape in shapes.items() if not self._params[n].is_raw]
        return broadcast_shape(named) if named else next(iter(shapes.values()))


class IndexedCall:
    """One checked call of an `IndexedReduction`, for arrays of the same dtypes, shapes and device."""

    def __init__(self, run: Callable[[Sequence[Any], Any], Any]) -> None:
        self._run = run

    def run(self, args: Sequence[Any]) -> Any:
        """Reduce to a new array."""
        return self._run(args, None)

    def run_into(self, args: Sequence[Any], out: Any) -> Any:
        """Reduce to a given array, which is checked."""
        return self._run(args, out)
