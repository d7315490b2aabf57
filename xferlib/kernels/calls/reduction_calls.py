"""One call of a reduction: its checks, its results, and its run on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core import observe
from xferlib._core.array import ArrayInfo
from xferlib._runtime.checks import whole
from xferlib.errors import KernelShapeError, KernelTypeError, shown
from xferlib.kernels.calls import arguments as checks
from xferlib.kernels.ir.layout import CallLayout, broadcast_strides
from xferlib.kernels.ir.reduction import ReductionSpec

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream
    from xferlib.kernels.engines.cuda.reduction import CudaReduction

Axis = int | tuple[int, ...] | None


class ReductionCall:
    """One checked call, with its shapes and axes."""

    def __init__(
        self,
        name: str,
        backend: Backend,
        device: Device,
        spec: ReductionSpec,
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        labels: Sequence[str],
        *,
        keepdims: bool,
    ) -> None:
        self._labels = labels
        self.name = name
        self.backend = backend
        self.device = device
        self.spec = spec
        self.shape = shape
        self.axes = axes
        self._owner = backend.at(device)
        self._output_dtypes = spec.output_dtypes
        params = enumerate(spec.map_program.params[: spec.inputs])
        self._scalar_params = [(number, param) for number, param in params if param.is_scalar]
        self.kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
        self.kept_shape = tuple(shape[axis] for axis in self.kept)
        self.result_shape = (
            tuple(1 if axis in axes else extent for axis, extent in enumerate(shape)) if keepdims else self.kept_shape
        )

    def outputs(self, out: Any) -> list[Any]:
        """The arrays for the results: those given, after their checks, or new ones."""
        dtypes = self.spec.output_dtypes
        if out is None:
            return self.new_outputs()
        given = list(out) if type(out) is tuple else [out]
        if len(given) != len(dtypes):
            raise KernelTypeError(f"{self.name}() has {len(dtypes)} output(s), {len(given)} were given in out=")
        for number, (each, dtype) in enumerate(zip(given, dtypes, strict=True)):
            found, device, infos = checks.common_device(self.name, ["out"], [each])
            if found is not self.backend or device is not self.device:
                raise KernelTypeError(f"{self.name}(): out must be a {self.backend.name} array on {self.device}")
            checks.check_output(self.name, f"out{number}", infos[0], self.result_shape, dtype)
        return given

    def note_writes(self, results: Sequence[Any]) -> None:
        """Tell the arrays' library that given arrays are about to be written; it may refuse."""
        for number, each in enumerate(results):
            self._owner.note_write(each, f"{self.name}(): out{number}")

    def new_outputs(self, stream: RawStream | None = None) -> list[Any]:
        owner = self._owner
        at = owner.stream_current(self.device) if stream is None else stream
        return [owner.empty(self.result_shape, dtype, device=self.device, stream=at) for dtype in self._output_dtypes]

    def returned(self, results: list[Any]) -> Any:
        return results[0] if len(results) == 1 else tuple(results)

    def scalars(self, args: Sequence[Any]) -> list[np.generic]:
        return [checks.convert_scalar(args[number], param.dtype, param.name) for number, param in self._scalar_params]

    def check_aliasing(self, arrays: Sequence[ArrayInfo], outputs: Sequence[ArrayInfo]) -> None:
        """Refuse outputs that share memory with an input or with each other."""
        infos = dict(enumerate([*arrays, *outputs]))
        written = frozenset(range(len(arrays), len(infos)))
        labels = [*self._labels, *(f"out{number}" for number in range(len(outputs)))]
        if checks.check_aliasing(self.name, labels, infos, written, written):
            raise KernelTypeError(f"{self.name}(): an output is an input; pass another array")

    def layouts(self, everything: Sequence[ArrayInfo], arrays: int) -> tuple[CallLayout, CallLayout]:
        """The kept and the reduced axes, with the strides of the inputs and then of the outputs."""
        kept: list[tuple[int, ...]] = []
        reduced: list[tuple[int, ...]] = []
        for info in everything[:arrays]:
            strides = broadcast_strides(self.shape, info.shape, info.strides)
            kept.append(tuple(strides[axis] for axis in self.kept))
            reduced.append(tuple(strides[axis] for axis in self.axes))
        for info in everything[arrays:]:
            own = info.strides if len(info.shape) == len(self.kept) else tuple(info.strides[axis] for axis in self.kept)
            kept.append(own)
            reduced.append((0,) * len(self.axes))
        reduced_shape = tuple(self.shape[axis] for axis in self.axes)
        return CallLayout(self.kept_shape, tuple(kept)), CallLayout(reduced_shape, tuple(reduced))


class CudaReductionCall:
    """A call on a CUDA device, checked once, for arrays of the same dtypes, shapes and strides.

    Args:
        call: The call.
        infos: Its arrays, by argument.
        find_plan: Makes or finds the plan for arrays of these layouts, inputs and then outputs.
    """

    def __init__(
        self,
        call: ReductionCall,
        infos: dict[int, ArrayInfo],
        find_plan: Callable[[ReductionCall, list[ArrayInfo], int], CudaReduction],
    ) -> None:
        self._call = call
        self._owner = call.backend.at(call.device)
        self._arrays = sorted(infos)
        self._infos = [infos[number] for number in self._arrays]
        self._find_plan = find_plan
        self._plans: dict[tuple[int, ...], CudaReduction] = {}

    def run(self, args: Sequence[Any]) -> Any:
        """Reduce to new arrays."""
        call, owner = self._call, self._owner
        stream = owner.stream_current(call.device)
        results = call.new_outputs(stream)
        pointers = owner.operands([args[number] for number in self._arrays])
        alignment = tuple([pointer % 16 for pointer in pointers])
        plan = self._plans.get(alignment)
        if plan is None:  # all new arrays have one alignment
            infos = [info._replace(pointer=at) for info, at in zip(self._infos, pointers, strict=True)]
            plan = self._plans[alignment] = self._plan(infos, results)
        self._launch(plan, [*pointers, *owner.operands(results)], args, results, stream)
        self._keep_alive(args, results, stream)
        return call.returned(results)

    def run_into(self, args: Sequence[Any], out: Any) -> Any:
        """Reduce to given arrays, which are checked."""
        call, owner = self._call, self._owner
        results = call.outputs(out)
        arrays, outputs = ([*map(owner.view, each)] for each in ([args[number] for number in self._arrays], results))
        call.check_aliasing(arrays, outputs)
        call.note_writes(results)
        stream = owner.stream_current(call.device)
        plan = self._plan(arrays, results)
        self._launch(plan, [info.pointer for info in (*arrays, *outputs)], args, results, stream)
        self._keep_alive(args, results, stream)
        return call.returned(results)

    def _launch(
        self, plan: CudaReduction, pointers: list[int], args: Sequence[Any], results: list[Any], stream: RawStream
    ) -> None:
        scalars = self._call.scalars(args)
        if (recorder := observe.active) is None:
            plan.run(pointers, scalars, stream)
            return
        nbytes = sum(info.nbytes for info in (*self._infos, *map(self._owner.view, results)))
        run = lambda: plan.run(pointers, scalars, stream)
        recorder.enqueue(observe.Kind.KERNEL, self._call.name, nbytes, self._owner, stream, run)

    def _plan(self, infos: list[ArrayInfo], results: list[Any]) -> CudaReduction:
        return self._find_plan(self._call, [*infos, *map(self._owner.view, results)], len(infos))

    def _keep_alive(self, args: Sequence[Any], results: list[Any], stream: Any) -> None:
        """Arrays allocated on another stream must outlast the work on this one."""
        if stream.handle or self._owner.has_made_streams:
            for each in (*(args[number] for number in self._arrays), *results):
                self._owner.consumed(each, stream)


def check_axes(name: str, axis: Axis, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, tuple) else (axis,)
    result = set()
    for each in given:
        number = whole(each, least=-rank)
        if number is None or number >= rank:
            is_number = whole(each, least=-(1 << 63)) is not None
            problem = f"out of range for {rank} dimension(s)" if is_number else "neither an int nor a tuple of ints"
            raise KernelShapeError(f"{name}(): axis {shown(each)} is {problem}")
        result.add(number % rank)
    if len(result) < len(given):
        raise KernelShapeError(f"{name}(): axis {axis} names an axis twice")
    return tuple(sorted(result))
