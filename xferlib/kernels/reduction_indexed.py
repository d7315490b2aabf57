"""Reductions whose map reads arrays at computed indices: an element-wise kernel computes it, a reduction adds it up."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xferlib._array import ArrayInfo
from xferlib.errors import KernelTypeError
from xferlib.kernels.definitions import Kind, Specialization
from xferlib.kernels.elementwise import ElementwiseKernel
from xferlib.kernels.layout import broadcast_shape
from xferlib.kernels.reduction_calls import Axis, check_axes
from xferlib.kernels.reduction_spec import ReductionSpec

if TYPE_CHECKING:
    from xferlib._device import Device
    from xferlib.backends.base import Backend
    from xferlib.kernels.reduction import ReductionKernel


class _Mapping:
    """The definition of the kernel that computes the map; its dtypes are settled."""

    defaults: dict[str, Any] = {}  # noqa: RUF012 - never written
    keywords: list[str] = []  # noqa: RUF012 - never written
    first_output: int | None = None

    def __init__(self, name: str, special: Specialization) -> None:
        self.name = f"{name}_map"
        self.positional = [param.name for param in special.program.params[: special.outputs[0]]]
        self.names = tuple(self.positional)
        self._special = special

    def specialize(
        self, kinds: tuple[Kind, ...], scalars: frozenset[int], arguments: Sequence[Any] = ()
    ) -> Specialization:
        return self._special


class _Rest:
    """The definition of the reduction of what was mapped."""

    names: tuple[str, ...] = ("mapped",)

    def __init__(self, name: str, spec: ReductionSpec) -> None:
        self.name = name
        self._spec = dataclasses.replace(spec, premap=None)

    def specialize(self, kinds: tuple[Kind, ...], scalars: frozenset[int]) -> ReductionSpec:
        return self._spec


class IndexedReduction:
    """A reduction in two kernels, for one set of dtypes; between them stands an array of accumulators."""

    def __init__(self, name: str, spec: ReductionSpec, make: type[ReductionKernel]) -> None:
        assert spec.premap is not None
        self._name = name
        self._params = spec.premap.program.params
        self._dtype = spec.accumulators[0]
        self._map = ElementwiseKernel(_Mapping(name, spec.premap))
        self._rest = make(_Rest(name, spec))

    def run(
        self,
        args: Sequence[Any],
        place: tuple[Backend, Device, dict[int, ArrayInfo]],
        axis: Axis,
        out: Any,
        *,
        keepdims: bool,
    ) -> Any:
        """Reduce all elements; ``place`` is the backend, the device and the views of the arrays."""
        backend, device, infos = place
        shape = self._shape(infos)
        if len(check_axes(self._name, axis, len(shape))) < len(shape):
            raise KernelTypeError(
                f"{self._name}(): axis {axis} of shape {shape} leaves some, but map_expr indexes an array freely, "
                "which counts all elements; leave axis= out, or index by i alone"
            )
        owner = backend.at(device)
        mapped = owner.empty(shape, self._dtype, device=device, stream=owner.stream_current(device))
        plain = [each.detach() if getattr(each, "requires_grad", False) else each for each in args]
        self._map(*plain, out=mapped)
        return self._rest(mapped, keepdims=keepdims, out=out)

    def _shape(self, infos: dict[int, ArrayInfo]) -> tuple[int, ...]:
        """That of the arrays indexed by i alone; where there are none, of the first one."""
        named = [(self._params[n].name, info.shape) for n, info in infos.items() if not self._params[n].is_raw]
        return broadcast_shape(named) if named else next(iter(infos.values())).shape
