"""`reduction`: many elements to one, with the same bits on every backend."""

from __future__ import annotations

import math as _math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _recording
from xferlib._array import ArrayInfo
from xferlib.errors import KernelTypeError
from xferlib.kernels import arguments as checks
from xferlib.kernels.definitions import Kind
from xferlib.kernels.layout import Layout, broadcast_shape, broadcast_strides
from xferlib.kernels.reduction_numpy import NumpyReduction
from xferlib.kernels.reduction_spec import ReductionDefinition, ReductionSpec, SnippetReduction

if TYPE_CHECKING:
    from xferlib._device import Device
    from xferlib.backends.base import Backend
    from xferlib.kernels.reduction_cuda import CudaReduction

_MOST_PLANS = 256

Axis = int | tuple[int, ...] | None


class ReductionKernel:
    """A reduction made by `reduction`, or a ready-made one of `xferlib.kernels.reductions`."""

    def __init__(self, definition: ReductionDefinition) -> None:
        self.definition = definition
        self.name = definition.name
        self._specs: dict[Any, ReductionSpec] = {}
        self._plans: dict[Any, CudaReduction] = {}
        self._host_plans: dict[tuple[int, int, int], NumpyReduction] = {}

    def __repr__(self) -> str:
        return f"<ReductionKernel {self.name}({', '.join(self.definition.names)})>"

    def __call__(self, *args: Any, axis: Axis = None, keepdims: bool = False, out: Any = None) -> Any:
        """Reduce along ``axis``, or everything, on the arrays' device and its current stream.

        Args:
            *args: Arrays of one backend and device, which broadcast; Python numbers mix.
            axis: The axis or axes to reduce; all if None.
            keepdims: Keep the reduced axes with extent 1.
            out: The result, or a tuple of results; new arrays if omitted.

        Returns:
            An array, or a tuple where the reduction has several outputs.

        Raises:
            KernelTypeError: Argument count, dtype, shape or axis; an empty reduction without identity.
            LayoutError: An output of another shape or dtype, or read-only.
            MixedBackendsError, MixedDevicesError: Arrays of two backends or devices.
        """
        names = self.definition.names
        backend, device, infos = checks.common_device(self.name, [*names, "out"], args)
        if backend is None or device is None:
            raise KernelTypeError(f"{self.name}(): no argument is an array; pass one")
        spec = self._spec(args, infos)
        shape = broadcast_shape([(names[number], info.shape) for number, info in infos.items()])
        axes = _axes(self.name, axis, len(shape))
        count = _math.prod(shape[each] for each in axes)
        if count == 0 and spec.identity is None:
            raise KernelTypeError(
                f"{self.name}(): axis {axis} of shape {shape} has no elements, and the reduction no identity; give one"
            )
        call = _Call(self.name, backend, device, spec, shape, axes, self._host_plans, keepdims=keepdims)
        results = call.outputs(out)
        if device.kind == "cuda":
            self._run_cuda(call, args, infos, results, count)
        elif device.kind == "sim":
            from xferlib.sim.calls import reduce

            reduce(self.name, lambda given, into: _run_host(call, given, infos, into, count), args, results)
        elif (recorder := _recording.active) is None:
            _run_host(call, args, infos, results, count)
        else:
            nbytes = sum(info.nbytes for info in infos.values())
            run = lambda: _run_host(call, args, infos, results, count)
            recorder.on_host(_recording.Kind.KERNEL, self.name, nbytes, backend.at(device), device, run)
        return results[0] if len(results) == 1 else tuple(results)

    def _spec(self, args: Sequence[Any], infos: dict[int, ArrayInfo]) -> ReductionSpec:
        kinds: list[Kind] = []
        for number, each in enumerate(args):
            if number in infos:
                kinds.append(checks.native_dtype(infos[number].dtype, self.definition.names[number]))
            else:
                kinds.append(each.dtype if isinstance(each, np.generic) else type(each))
        scalars = frozenset(number for number in range(len(args)) if number not in infos)
        key = (tuple(kinds), scalars)
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = self.definition.specialize(tuple(kinds), scalars)
        if len(args) != spec.inputs:
            raise KernelTypeError(f"{self.name}() takes {spec.inputs} argument(s), {len(args)} were given")
        return spec

    def _run_cuda(
        self, call: _Call, args: Sequence[Any], infos: dict[int, ArrayInfo], results: list[Any], count: int
    ) -> None:
        from xferlib.kernels.reduction_cuda import CudaReduction

        backend = call.backend.at(call.device)
        arrays = [infos[number] for number in sorted(infos)]
        outputs = [backend.view(each) for each in results]
        call.check_overlap(self.definition.names, arrays, outputs)
        stream = backend.stream_current(call.device)
        everything = [*arrays, *outputs]
        layouts = tuple((info.dtype, info.shape, info.strides, info.pointer % 16) for info in everything)
        key = (id(call.spec), layouts, call.axes, call.device)
        plan = self._plans.get(key)
        if plan is None:
            kept, reduced = call.layouts(everything, len(arrays))
            plan = CudaReduction(backend, call.device, call.spec, kept, reduced, everything)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        pointers, scalars = [info.pointer for info in everything], call.scalars(args)
        if (recorder := _recording.active) is None:
            plan.run(pointers, scalars, stream)
        else:
            nbytes = sum(info.nbytes for info in everything)
            run = lambda: plan.run(pointers, scalars, stream)
            recorder.enqueue(_recording.Kind.KERNEL, self.name, nbytes, backend, stream, run)
        if stream.handle:  # arrays allocated on another stream must outlast the work on this one
            for each in (*(args[number] for number in sorted(infos)), *results):
                backend.consumed(each, stream)


class _Call:
    """One checked call: shapes and axes settled."""

    def __init__(
        self,
        name: str,
        backend: Backend,
        device: Device,
        spec: ReductionSpec,
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        host_plans: dict[tuple[int, int, int], NumpyReduction],
        *,
        keepdims: bool,
    ) -> None:
        self._host_plans = host_plans
        self.name = name
        self.backend = backend
        self.device = device
        self.spec = spec
        self.shape = shape
        self.axes = axes
        self.kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
        self.kept_shape = tuple(shape[axis] for axis in self.kept)
        self.result_shape = (
            tuple(1 if axis in axes else extent for axis, extent in enumerate(shape)) if keepdims else self.kept_shape
        )

    def outputs(self, out: Any) -> list[Any]:
        """The arrays for the results: those given, checked, or new ones."""
        dtypes = self.spec.output_dtypes
        owner = self.backend.at(self.device)
        if out is None:
            stream = owner.stream_current(self.device)
            return [owner.empty(self.result_shape, dtype, device=self.device, stream=stream) for dtype in dtypes]
        given = list(out) if type(out) is tuple else [out]
        if len(given) != len(dtypes):
            raise KernelTypeError(f"{self.name}() has {len(dtypes)} output(s), {len(given)} were given in out=")
        for number, (each, dtype) in enumerate(zip(given, dtypes, strict=True)):
            found, device, infos = checks.common_device(self.name, ["out"], [each])
            if found is not self.backend or device is not self.device:
                raise KernelTypeError(f"{self.name}(): out must be a {self.backend.name} array on {self.device}")
            checks.check_output(self.name, f"out{number}", infos[0], self.result_shape, dtype)
        return given

    def host_plan(self, rows: int, count: int) -> NumpyReduction:
        """The reduction on a CPU, remembered: to build it takes longer than to run a small one."""
        key = (id(self.spec), rows, count)
        plan = self._host_plans.get(key)
        if plan is None:
            if len(self._host_plans) >= _MOST_PLANS:
                self._host_plans.clear()
            plan = self._host_plans[key] = NumpyReduction(self.spec, rows, count)
        return plan

    def scalars(self, args: Sequence[Any]) -> list[np.generic]:
        params = self.spec.map_program.params
        return [
            checks.convert_scalar(args[number], params[number].dtype, params[number].name)
            for number in range(self.spec.inputs)
            if params[number].is_scalar
        ]

    def check_overlap(self, names: Sequence[str], arrays: Sequence[ArrayInfo], outputs: Sequence[ArrayInfo]) -> None:
        infos = dict(enumerate([*arrays, *outputs]))
        written = frozenset(range(len(arrays), len(infos)))
        labels = [*names[: len(arrays)], *(f"out{number}" for number in range(len(outputs)))]
        if checks.check_overlap(self.name, labels, infos, written, written):
            raise KernelTypeError(f"{self.name}(): an output is an input; pass another array")

    def layouts(self, everything: Sequence[ArrayInfo], arrays: int) -> tuple[Layout, Layout]:
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
        return Layout(self.kept_shape, tuple(kept)), Layout(reduced_shape, tuple(reduced))


def _axes(name: str, axis: Axis, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, tuple) else (axis,)
    result = set()
    for each in given:
        if type(each) is not int or not -rank <= each < rank:
            raise KernelTypeError(f"{name}(): axis {each!r} is out of range for {rank} dimension(s)")
        result.add(each % rank)
    if len(result) < len(given):
        raise KernelTypeError(f"{name}(): axis {axis} names an axis twice")
    return tuple(sorted(result))


def _run_host(call: _Call, args: Sequence[Any], infos: dict[int, ArrayInfo], results: list[Any], count: int) -> None:
    owner = call.backend.at(call.device)
    order = (*call.kept, *call.axes)
    rows = _math.prod(call.kept_shape)
    scalars = iter(call.scalars(args))
    operands: list[np.ndarray[Any, Any]] = []
    arrays = []
    for number, each in enumerate(args):
        if number not in infos:
            operands.append(np.array(next(scalars)))
            continue
        host = owner.host_view(each)
        arrays.append(infos[number])
        native = host.astype(host.dtype.newbyteorder("=")) if not host.dtype.isnative else host
        operands.append(np.broadcast_to(native, call.shape).transpose(order).reshape(rows, count))
    targets = [owner.host_view(each) for each in results]
    call.check_overlap([f"argument {n}" for n in infos], arrays, [owner.view(each) for each in results])
    buffers = [np.empty(rows, dtype) for dtype in call.spec.output_dtypes]
    if rows:
        call.host_plan(rows, count).run(operands, buffers)
    for target, buffer in zip(targets, buffers, strict=True):
        target[...] = buffer.reshape(call.result_shape)


def reduction(
    in_params: str,
    out_params: str | None = None,
    *,
    map_expr: str,
    reduce_expr: str,
    post_map_expr: str | None = None,
    identity: str | None = None,
    dtype: Any = None,
    name: str = "reduction",
    math: str = "exact",
) -> ReductionKernel:
    """Make a reduction from C expressions, as CuPy's ReductionKernel and PyCUDA's do.

    Args:
        in_params: The inputs, in either notation: ``"T x"`` or ``"float *x"``.
        out_params: The outputs; omitted, the result is the accumulator.
        map_expr: What is reduced, an expression in the inputs (``x * x``, or ``x[i] * x[i]``).
        reduce_expr: One accumulator from ``a`` and ``b``: associative and commutative up to rounding.
        post_map_expr: Statements that assign the outputs from ``a``.
        identity: The accumulator of no elements; without it an empty reduction is an error.
        dtype: The accumulator's dtype, C type or generic letter; the first output's if omitted.
        name: For messages and profilers.
        math: ``"exact"`` or ``"fast"``.

    Raises:
        KernelSyntaxError: A signature or expression cannot be read.
    """
    definition = SnippetReduction(
        in_params,
        out_params,
        map_expr=map_expr,
        reduce_expr=reduce_expr,
        post_map_expr=post_map_expr,
        identity=identity,
        dtype=dtype,
        name=name,
        math=math,
    )
    return ReductionKernel(definition)
