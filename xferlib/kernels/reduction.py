"""`reduction`: many elements to one, with the same bits on every backend."""

from __future__ import annotations

import math as _math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib import _recording
from xferlib._array import ArrayInfo
from xferlib.errors import KernelTypeError
from xferlib.kernels import arguments as checks
from xferlib.kernels import autograd
from xferlib.kernels.definitions import Kind
from xferlib.kernels.layout import broadcast_shape
from xferlib.kernels.pickling import named
from xferlib.kernels.reduction_autograd import DifferentiableReduction
from xferlib.kernels.reduction_calls import (
    MOST_PLANS,
    Axis,
    CudaReductionCall,
    ReductionCall,
    check_axes,
    run_host,
)
from xferlib.kernels.reduction_numpy import NumpyReduction
from xferlib.kernels.reduction_spec import ReductionDefinition, ReductionSpec, SnippetReduction

if TYPE_CHECKING:
    from xferlib.kernels.reduction_cuda import CudaReduction


class ReductionKernel:
    """A reduction made by `reduction`, or a ready-made one of `xferlib.kernels.reductions`."""

    def __init__(self, definition: ReductionDefinition) -> None:
        self.definition = definition
        self.name = definition.name
        self._specs: dict[Any, ReductionSpec] = {}
        self._plans: dict[Any, CudaReduction] = {}
        self._host_plans: dict[tuple[int, int, int], NumpyReduction] = {}
        self._ready: dict[Hashable, CudaReductionCall] = {}
        self._followed: dict[Hashable, DifferentiableReduction] = {}

    def __reduce__(self) -> str | tuple[Any, ...]:
        if named(self.__module__, self.name) is self:  # a ready-made one
            return str(self.name)
        return ReductionKernel, (self.definition,)

    def __copy__(self) -> ReductionKernel:
        return self  # nothing of it changes but what it remembers

    def __deepcopy__(self, memo: dict[int, Any]) -> ReductionKernel:
        return self

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
        key = self._key(args, axis, keepdims) if out is None else None
        ready = self._ready.get(key)
        return ready.run(args) if ready is not None else self._first_call(args, axis, out, key, keepdims=keepdims)

    def _key(self, args: Sequence[Any], axis: Any, keepdims: bool) -> Hashable:
        """What a prepared call depends on; None where the checks must say what is wrong."""
        if type(axis) is tuple:
            kinds: Any = tuple(map(type, axis))  # True is no axis, but equal to 1
        elif axis is None or type(axis) is int:
            kinds = None
        else:
            return None
        try:
            return (axis, kinds, keepdims, *[checks.reader(each).signature(each) for each in args])
        except Exception:  # no array, or one that cannot be used
            return None

    def _first_call(self, args: Sequence[Any], axis: Axis, out: Any, key: Hashable, *, keepdims: bool) -> Any:
        """A call of a kind not seen before, or one to given arrays: check it, run it."""
        if autograd.needs_gradient(args):
            return self._with_gradient(args, axis, out, keepdims=keepdims)
        names = self.definition.names
        backend, device, infos = checks.common_device(self.name, [*names, "out"], args)
        if backend is None or device is None:
            raise KernelTypeError(f"{self.name}(): no argument is an array; pass one")
        spec = self._spec(args, infos)
        shape = broadcast_shape([(names[number], info.shape) for number, info in infos.items()])
        axes = check_axes(self.name, axis, len(shape))
        count = _math.prod(shape[each] for each in axes)
        if count == 0 and spec.identity is None:
            raise KernelTypeError(
                f"{self.name}(): axis {axis} of shape {shape} has no elements, and the reduction no identity; give one"
            )
        call = ReductionCall(self.name, backend, device, spec, shape, axes, self._host_plans, keepdims=keepdims)
        if device.kind == "cuda":
            prepared = CudaReductionCall(call, infos, self._cuda_plan)
            if out is not None:
                return prepared.run_into(names, args, call.outputs(out))
            if key is not None and not autograd.requires_gradient(args):  # else no_grad() would hide a gradient later
                if len(self._ready) >= MOST_PLANS:
                    self._ready.clear()
                self._ready[key] = prepared
            return prepared.run(args)
        results = call.outputs(out)
        if device.kind == "sim":
            from xferlib.sim.calls import reduce

            reduce(self.name, lambda given, into: run_host(call, given, infos, into, count), args, results)
        elif (recorder := _recording.active) is None:
            run_host(call, args, infos, results, count)
        else:
            nbytes = sum(info.nbytes for info in infos.values())
            run = lambda: run_host(call, args, infos, results, count)
            recorder.on_host(_recording.Kind.KERNEL, self.name, nbytes, backend.at(device), device, run)
        return call.returned(results)

    def _with_gradient(self, args: Sequence[Any], axis: Axis, out: Any, *, keepdims: bool) -> Any:
        """A call on torch tensors that torch follows."""
        if out is not None:
            raise KernelTypeError(
                f"{self.name}(): out= cannot be used on tensors that torch follows for a derivative; leave it out, "
                "call under torch.no_grad(), or on x.detach()"
            )
        names, plain = self.definition.names, autograd.unwrapped(args)
        _, _, infos = checks.common_device(self.name, names, plain)
        spec = self._spec(plain, infos)
        shape = broadcast_shape([(names[number], tuple(args[number].shape)) for number in infos])
        axes = check_axes(self.name, axis, len(shape))
        key = (id(spec), shape, axes, keepdims)
        found = self._followed.get(key)
        if found is None:
            scalars = frozenset(range(len(args))) - infos.keys()
            run = lambda given, along, keeps: self(*given, axis=along, keepdims=keeps)
            found = DifferentiableReduction(self.name, spec, scalars, shape, axes, run, keepdims=keepdims)
            if len(self._followed) >= MOST_PLANS:
                self._followed.clear()
            self._followed[key] = found
        if autograd.requires_gradient(args) and any(dtype.kind in "fc" for dtype in spec.output_dtypes):
            found.check()
        return autograd.apply(found, args)

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

    def _cuda_plan(self, call: ReductionCall, infos: list[ArrayInfo], arrays: int) -> CudaReduction:
        """The plan for ``arrays`` inputs and then outputs that are laid out like these."""
        from xferlib.kernels.reduction_cuda import CudaReduction

        layouts = tuple((info.dtype, info.shape, info.strides, info.pointer % 16) for info in infos)
        key = (id(call.spec), layouts, call.axes, call.device)
        plan = self._plans.get(key)
        if plan is None:
            kept, reduced = call.layouts(infos, arrays)
            plan = CudaReduction(call.backend.at(call.device), call.device, call.spec, kept, reduced, infos)
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan


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
    preamble: str = "",
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
        preamble: C functions that the expressions may call.

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
        preamble=preamble,
    )
    return ReductionKernel(definition)
