"""`reduction`: many elements to one, combined in the same order on every backend."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from xferlib._core import blocks, observe, registry
from xferlib._core.arrays import ArrayInfo
from xferlib._runtime.checks import MadeBy, flag, refuse_no_flag, whole
from xferlib.errors import KernelShapeError, KernelTypeError, shown
from xferlib.kernels import autograd, calls, cuda_signature, signature
from xferlib.kernels.autograd import Derivative, Make, Pullback, summed, summed_to
from xferlib.kernels.calls import Plans, engine_of
from xferlib.kernels.definitions import ArgumentKind, ReductionDefinition, SnippetReduction, Specialization
from xferlib.kernels.elementwise import ElementwiseKernel, elementwise, named
from xferlib.kernels.ir import Param, is_float
from xferlib.kernels.ir_reduction import Elementwise, ReductionSpec
from xferlib.kernels.layouts import CallLayout, broadcast_shape, broadcast_strides
from xferlib.kernels.numpy_engine import BlockFunction
from xferlib.kernels.numpy_reduction import NumpyReduction
from xferlib.kernels.signature import check_texts

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, RawStream
    from xferlib.kernels.cuda_reduction import CudaReduction


# One call of a reduction: its checks, its results, and its run on a CUDA device.

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
            found, device, infos = calls.common_device(self.name, ["out"], [each])
            if found is not self.backend or device is not self.device:
                raise KernelTypeError(f"{self.name}(): out must be a {self.backend.name} array on {self.device}")
            calls.check_output(self.name, f"out{number}", infos[0], self.result_shape, dtype)
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
        return [calls.convert_scalar(args[number], param.dtype, param.name) for number, param in self._scalar_params]

    def check_aliasing(self, arrays: Sequence[ArrayInfo], outputs: Sequence[ArrayInfo]) -> None:
        """Refuse outputs that share memory with an input or with each other."""
        infos = dict(enumerate([*arrays, *outputs]))
        written = frozenset(range(len(arrays), len(infos)))
        labels = [*self._labels, *(f"out{number}" for number in range(len(outputs)))]
        if calls.check_aliasing(self.name, labels, infos, written, written):
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
        if 0 in pointers:
            calls.refuse_freed(call.name, self._infos, pointers)
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


class ResolvingCall:
    """A checked call some of whose arguments are lazy, as `arguments.resolve` found them.

    Args:
        call: The call for arguments that are not.
        owner: The part of a backend that owns the arrays.
        lazy: The positions of those that are.
    """

    def __init__(self, call: Any, owner: Backend, lazy: Sequence[int]) -> None:
        self._call = call
        self._owner = owner
        self._lazy = lazy

    def run(self, args: Sequence[Any]) -> Any:
        """Reduce to new arrays."""
        return self._call.run(self._resolved(args))

    def run_into(self, args: Sequence[Any], out: Any) -> Any:
        """Reduce to given arrays, which are checked."""
        return self._call.run_into(self._resolved(args), out)

    def _resolved(self, args: Sequence[Any]) -> list[Any]:
        return [self._owner.resolved(each) if number in self._lazy else each for number, each in enumerate(args)]


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


# One call of a reduction on host memory: NumPy arrays, torch CPU tensors, or through a backend's own engine.

A = np.ndarray[Any, Any]


class HostReductionCall:
    """A call on host memory, checked once, for arrays of the same dtypes, shapes and strides.

    Args:
        call: The call.
        infos: Its arrays, by argument.
        functions: What calls of all shapes share.
    """

    def __init__(
        self, call: ReductionCall, infos: dict[int, ArrayInfo], functions: dict[str, BlockFunction] | None = None
    ) -> None:
        self._call = call
        self._owner = call.backend.at(call.device)
        self._engine = engine_of(self._owner)
        self._infos = infos
        self._order = (*call.kept, *call.axes)
        self._shape = (math.prod(call.kept_shape), math.prod(call.shape[axis] for axis in call.axes))
        self._is_in_order = self._order == tuple(range(len(self._order)))
        self._whole = frozenset(n for n, info in infos.items() if info.shape == call.shape and info.dtype.isnative)
        self._plan = NumpyReduction(call.spec, *self._shape, functions)

    def run(self, args: Sequence[Any]) -> Any:
        """Reduce to new arrays."""
        return self._run(args, self._call.new_outputs())

    def run_into(self, args: Sequence[Any], out: Any) -> Any:
        """Reduce to given arrays, which are checked."""
        call, owner = self._call, self._owner
        results = call.outputs(out)
        call.check_aliasing([owner.view(args[number]) for number in self._infos], [*map(owner.view, results)])
        call.note_writes(results)
        return self._run(args, results)

    def _run(self, args: Sequence[Any], results: list[Any]) -> Any:
        call = self._call
        if self._engine is not None:
            self._engine.reduce(call.name, self._compute, args, results)
        elif (recorder := observe.active) is None:
            self._compute(args, results)
        else:
            nbytes = sum(info.nbytes for info in self._infos.values())
            run = lambda: self._compute(args, results)
            recorder.on_host(observe.Kind.KERNEL, call.name, nbytes, self._owner, call.device, run)
        return call.returned(results)

    def _compute(self, args: Sequence[Any], results: Sequence[Any]) -> None:
        host_view, rows = self._owner.host_view, self._shape[0]
        scalars = iter(self._call.scalars(args))
        operands = [
            self._operand(number, host_view(each)) if number in self._infos else np.array(next(scalars))
            for number, each in enumerate(args)
        ]
        targets = [host_view(each) for each in results]
        if all(each.flags.c_contiguous for each in targets):
            self._plan.run(operands, [each.reshape(rows) for each in targets])
            return
        buffers = [np.empty(rows, each.dtype) for each in targets]
        self._plan.run(operands, buffers)
        for target, buffer in zip(targets, buffers, strict=True):
            target[...] = buffer.reshape(target.shape)

    def _operand(self, number: int, array: A) -> A:
        """The array of an input in shape (rows, count)."""
        if number not in self._whole:
            native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
            array = np.broadcast_to(native, self._call.shape)
        return (array if self._is_in_order else array.transpose(self._order)).reshape(self._shape)


# Derivatives of reductions in PyTorch.
#
# A reduction maps its elements, combines them, and computes the results from the accumulators. The first and the last
# are programs, differentiated as such. The combination has a derivative if it adds, multiplies, or takes the minimum or
# maximum; any other is refused. It is written in torch's operations, so that it is differentiable again.

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


if TYPE_CHECKING:
    from typing import TypeAlias

    _Call: TypeAlias = "HostReductionCall | CudaReductionCall | IndexedCall | ResolvingCall"


_P = ParamSpec("_P")


class ReductionKernel(metaclass=MadeBy, by="reduction"):
    """A reduction made by `reduction`, or a ready-made one of `xferlib.kernels.reductions`."""

    def __init__(self, definition: ReductionDefinition) -> None:
        self.definition = definition
        self.name = definition.name
        self._inputs: int = getattr(definition, "inputs", len(definition.names))  # outputs come behind them
        self._specs: dict[Any, ReductionSpec] = {}
        self._open: frozenset[int] = getattr(definition, "open_outputs", frozenset())
        """The outputs whose types no input tells."""
        self._plans: Plans[CudaReduction] = Plans()
        self._functions: dict[int, dict[str, BlockFunction]] = {}
        """By the identity of the specification."""
        self._two_kernels: dict[int, IndexedReduction] = {}
        self._finishing: dict[int, FinishedReduction] = {}
        self._ready: Plans[_Call] = Plans()
        self._followed: Plans[DifferentiableReduction] = Plans()

    def __reduce__(self) -> str | tuple[Any, ...]:
        if named(self.__module__, self.name) is self:  # a ready-made one
            return str(self.name)
        return ReductionKernel, (self.definition,)

    def __copy__(self) -> ReductionKernel:
        return self  # only its caches change

    def __deepcopy__(self, memo: dict[int, Any]) -> ReductionKernel:
        return self

    def __repr__(self) -> str:
        return f"<ReductionKernel {self.name}({', '.join(self.definition.names)})>"

    def __call__(self, *args: Any, axis: Axis = None, keepdims: bool = False, out: Any = None) -> Any:
        """Reduce along ``axis``, or everything, on the arrays' device and its current stream.

        Args:
            *args: Arrays of one backend and device, which broadcast; Python numbers mix. Outputs may follow them.
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
        blocks.follow()
        key = None if self._open else self._key(args, axis, keepdims)  # the output's dtype may be another each time
        call = self._ready.get(key)
        if call is None:
            if out is None and len(args) > self._inputs and all(map(calls.is_array, args[self._inputs :])):
                given = args[self._inputs :]
                out = given if len(given) > 1 else given[0]
                return self(*args[: self._inputs], axis=axis, keepdims=keepdims, out=out)
            keepdims = flag(keepdims, f"{self.name}(): keepdims")
            if autograd.needs_gradient(args):
                return self._with_gradient(args, axis, out, keepdims=keepdims)
            call = self._prepare(args, axis, self._open_kinds(out), keepdims=keepdims)
            if key is not None and not autograd.requires_gradient(args):  # else no_grad() would hide a gradient later
                self._ready.keep(key, call)
        return call.run(args) if out is None else call.run_into(args, out)

    def _key(self, args: Sequence[Any], axis: Any, keepdims: bool) -> Hashable:
        """The key of a prepared call; None for arguments that the checks must refuse."""
        if keepdims is not True and keepdims is not False:
            return None
        if axis is None or type(axis) is int:
            kinds: Any = None
        else:  # True is no axis, but equal to 1
            kinds = tuple(map(type, axis)) if type(axis) is tuple else (type(axis),)
            if not all(issubclass(kind, (int, np.integer)) for kind in kinds):
                return None
        try:
            return (axis, kinds, keepdims, *[calls.reader(each).signature(each) for each in args])
        except Exception:  # no array, or one that cannot be used
            return None

    def _open_kinds(self, out: Any) -> tuple[ArgumentKind, ...]:
        """The dtypes of given outputs that alone tell a type of the definition; no others."""
        if not self._open or out is None:
            return ()
        given = list(out) if type(out) is tuple else [out]
        _, _, infos = calls.common_device(self.name, ["out"] * len(given), given)
        return tuple(info.dtype if number in self._open else None for number, info in sorted(infos.items()))

    def _prepare(self, args: Sequence[Any], axis: Axis, outputs: tuple[ArgumentKind, ...], *, keepdims: bool) -> _Call:
        """Check a call of a new kind, all but its output."""
        names = self.definition.names
        if len(args) > len(names):
            raise KernelTypeError(
                f"{self.name}({', '.join(names)}) takes at most {len(names)} argument(s), {len(args)} were given"
            )
        backend, device, infos = calls.common_device(self.name, [*names, "out"], args)
        if backend is None or device is None:
            raise KernelTypeError(f"{self.name}(): no argument is an array; pass one")
        if lazy := calls.resolve(backend.at(device), arguments := [*args], infos):
            found = self._prepare(arguments, axis, outputs, keepdims=keepdims)
            return ResolvingCall(found, backend.at(device), lazy)
        spec = self._spec(args, infos, outputs)
        shapes = {number: info.shape for number, info in infos.items()}
        if spec.postmap is not None:
            return self._finished(spec).prepare(backend.at(device), shapes, axis, keepdims=keepdims)
        if spec.premap is not None:
            return self._indexed(spec).prepare(backend.at(device), device, shapes, axis, keepdims=keepdims)
        shape = broadcast_shape([(names[number], info.shape) for number, info in infos.items()])
        axes = check_axes(self.name, axis, len(shape))
        if spec.identity is None and 0 in [shape[each] for each in axes]:
            raise KernelShapeError(
                f"{self.name}(): axis {axis} of shape {shape} has no elements, and the reduction no identity; give one"
            )
        labels = [names[number] for number in infos]
        call = ReductionCall(self.name, backend, device, spec, shape, axes, labels, keepdims=keepdims)
        if device.kind == "cuda":
            return CudaReductionCall(call, infos, self._cuda_plan)
        return HostReductionCall(call, infos, self._functions.setdefault(id(spec), {}))

    def _with_gradient(self, args: Sequence[Any], axis: Axis, out: Any, *, keepdims: bool) -> Any:
        """Run a call on tensors that torch tracks."""
        if out is not None:
            raise KernelTypeError(
                f"{self.name}(): out= cannot be used on tensors that torch follows for a derivative; leave it out, "
                "call under torch.no_grad(), or on x.detach()"
            )
        names, plain = self.definition.names, autograd.unwrapped(args)
        _, _, infos = calls.common_device(self.name, names, plain)
        spec = self._spec(plain, infos)
        if spec.premap is not None or spec.postmap is not None:
            raise KernelTypeError(
                f"{self.name}(): gradients need a map that indexes its arrays by i alone, and a post_map_expr of a "
                "alone; pass x.detach(), or call under torch.no_grad()"
            )
        shape = broadcast_shape([(names[number], tuple(args[number].shape)) for number in infos])
        axes = check_axes(self.name, axis, len(shape))
        key = (id(spec), shape, axes, keepdims)
        found = self._followed.get(key)
        if found is None:
            scalars = frozenset(range(len(args))) - infos.keys()
            run = lambda given, along, keeps: self(*given, axis=along, keepdims=keeps)
            found = DifferentiableReduction(
                self.name, spec, scalars, shape, axes, run, ElementwiseKernel, keepdims=keepdims
            )
            self._followed.keep(key, found)
        if autograd.requires_gradient(args) and any(dtype.kind in "fc" for dtype in spec.output_dtypes):
            found.check()
        return autograd.apply(found, args)

    def _spec(
        self, args: Sequence[Any], infos: dict[int, ArrayInfo], outputs: tuple[ArgumentKind, ...] = ()
    ) -> ReductionSpec:
        kinds: list[ArgumentKind] = []
        for number, each in enumerate(args):
            if number in infos:
                kinds.append(calls.native_dtype(infos[number].dtype, self.definition.names[number]))
            else:
                kinds.append(each.dtype if isinstance(each, np.generic) else type(each))
        scalars = frozenset(number for number in range(len(args)) if number not in infos)
        if outputs and len(args) == self._inputs:
            kinds += outputs
        key = (tuple(kinds), scalars)
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = self.definition.specialize(tuple(kinds), scalars)
        if len(args) != spec.arguments:
            raise KernelTypeError(f"{self.name}() takes {spec.arguments} argument(s), {len(args)} were given")
        return spec

    def _indexed(self, spec: ReductionSpec) -> IndexedReduction:
        """The reduction in two kernels, for a map that reads arrays at computed indices."""
        found = self._two_kernels.get(id(spec))
        if found is None:
            found = self._two_kernels[id(spec)] = IndexedReduction(self.name, spec, ReductionKernel)
        return found

    def _finished(self, spec: ReductionSpec) -> FinishedReduction:
        """The reduction in two kernels, for results that depend on further arguments."""
        found = self._finishing.get(id(spec))
        if found is None:
            names = self.definition.names[: self._inputs]
            found = self._finishing[id(spec)] = FinishedReduction(self.name, names, spec, ReductionKernel)
        return found

    def _cuda_plan(self, call: ReductionCall, infos: list[ArrayInfo], arrays: int) -> CudaReduction:
        """The plan for arrays of these layouts: ``arrays`` inputs, then the outputs."""
        from xferlib.kernels.cuda_reduction import CudaReduction

        layouts = tuple((info.dtype, info.shape, info.strides, info.pointer % 16) for info in infos)
        key = (id(call.spec), layouts, call.axes, call.device)
        plan = self._plans.get(key)
        if plan is None:
            kept, reduced = call.layouts(infos, arrays)
            plan = CudaReduction(call.backend.at(call.device), call.device, call.spec, kept, reduced, infos)
            self._plans.keep(key, plan)
        return plan


def _expressions_by_keyword(make: Callable[_P, ReductionKernel]) -> Callable[_P, ReductionKernel]:
    """Refuse the call of CuPy's ReductionKernel, or of PyCUDA's, as it stands: their orders differ."""

    @functools.wraps(make)
    def checked(*args: _P.args, **options: _P.kwargs) -> ReductionKernel:
        if args and callable(args[0]):
            raise KernelTypeError(
                "reduction takes strings of C, and no function; for a sum: "
                "reduction('T x', 'T y', map_expr='x', reduce_expr='a + b')"
            )
        if len(args) > 2:
            raise KernelTypeError(
                f"reduction takes the inputs and the outputs by position, and {len(args)} arguments were given so; "
                "write the others as map_expr=, reduce_expr=, post_map_expr=, identity=, dtype=, name="
            )
        return make(*args, **options)

    return checked


@_expressions_by_keyword
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
    options: Sequence[str] = (),
) -> ReductionKernel:
    """Make a reduction from C expressions, as CuPy's ReductionKernel and PyCUDA's do.

    Args:
        in_params: The inputs, in either notation: ``"T x"`` or ``"float *x"``.
        out_params: The outputs; omitted, the result is the accumulator.
        map_expr: The mapped element, an expression in the inputs (``x * x``, or ``x[i] * x[i]``).
        reduce_expr: The combination of two accumulators ``a`` and ``b``; associative and commutative up to rounding.
        post_map_expr: Statements that assign the outputs from ``a``; a single output is ``a`` if omitted.
        identity: The accumulator of no elements; without it an empty reduction is an error.
        dtype: The accumulator's dtype, C type or generic letter; the first output's if omitted.
        name: For messages and profilers.
        math: ``"exact"`` or ``"fast"``.
        preamble: C functions that the expressions may call.
        options: Of a CUDA compiler, as for `elementwise`.

    Raises:
        KernelSyntaxError, KernelTypeError: A signature or expression cannot be read, or uses what it does not declare.
    """
    texts = {"in_params": in_params, "map_expr": map_expr, "reduce_expr": reduce_expr, "preamble": preamble}
    optional = {"out_params": out_params, "post_map_expr": post_map_expr, "identity": identity}
    given = {what: text for what, text in optional.items() if text is not None}
    signature.check_texts("reduction", **texts, **given)
    compiled = cuda_signature.read(options, math)
    definition = SnippetReduction(
        compiled.applied(in_params),
        compiled.applied(out_params),
        map_expr=map_expr,
        reduce_expr=reduce_expr,
        post_map_expr=post_map_expr,
        identity=identity,
        dtype=dtype,
        name=name,
        math=compiled.math,
        preamble=preamble,
        macros=compiled.macros,
    )
    definition.check()
    return ReductionKernel(definition)


# Reductions in several kernels: where the map reads arrays at computed indices, or arguments finish the results.


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


# `scan`: running results of an associative operation, whole or in segments, in the same order on every backend.

_COMBINED = "\n\nT xf_combined(T a, T b) {{ return ({}); }}"
_NEUTRAL = "\nT xf_neutral() {{ return ({}); }}"
"""The expressions stand in functions, and the names below are no user's: a preamble may have an ``x`` or a ``d``."""
_STEP = "xf_y = i < xf_distance ? xf_x[i] : xf_combined(xf_x[i - xf_distance], xf_x[i]);"
_STEP_IN_SEGMENTS = """
xf_begins = xf_begun[i];
xf_y = xf_x[i];
if (i >= xf_distance && !xf_begins) {
    xf_y = xf_combined(xf_x[i - xf_distance], xf_x[i]);
    xf_begins = xf_begun[i - xf_distance];
}"""
_SHIFT = "xf_y = i == 0 ? xf_neutral() : xf_x[i - 1];"
_SHIFT_IN_SEGMENTS = "xf_y = i == 0 || xf_begun[i] ? xf_neutral() : xf_x[i - 1];"


class ScanKernel(metaclass=MadeBy, by="scan"):
    """A scan made by `scan`.

    It runs in passes over the whole array, one more each time that the length doubles. Each combines an element with
    the one ``2**k`` before it, in an order that depends on nothing but their positions.
    """

    def __init__(self, expression: str, neutral: str | None, name: str, math: str, preamble: str) -> None:
        self.name = name
        self._made = (expression, neutral, name, math, preamble)

        def make(inputs: str, outputs: str, text: str, functions: str = "") -> ElementwiseKernel:
            return elementwise(inputs, outputs, text, name=name, math=math, preamble=preamble + functions)

        make(
            "T a, T b", "T xf_result", f"xf_result = ({expression})"
        )  # so that a message speaks of the expression's own text
        functions = _COMBINED.format(expression)
        self._step = make("raw T xf_x, int64 xf_distance", "T xf_y", _STEP, functions)
        self._step_in_segments = make(
            "raw T xf_x, raw bool xf_begun, int64 xf_distance", "T xf_y, bool xf_begins", _STEP_IN_SEGMENTS, functions
        )
        self._shift = self._shift_in_segments = None
        if neutral is not None:
            functions = _NEUTRAL.format(neutral)
            self._shift = make("raw T xf_x", "T xf_y", _SHIFT, functions)
            self._shift_in_segments = make("raw T xf_x, raw bool xf_begun", "T xf_y", _SHIFT_IN_SEGMENTS, functions)

    def __reduce__(self) -> tuple[Any, ...]:
        return ScanKernel, self._made

    def __copy__(self) -> ScanKernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> ScanKernel:
        return self

    def __repr__(self) -> str:
        return f"<ScanKernel {self.name}>"

    def __call__(self, x: Any, *, exclusive: bool = False, segments: Any = None, out: Any = None) -> Any:
        """Scan an array of one axis, on its device and the current stream.

        Args:
            x: The array, in C order.
            exclusive: Result ``i`` combines the elements before ``i``, and the first is the neutral one; otherwise
                element ``i`` too.
            segments: A bool array of the same length, True where a new segment begins; one segment if omitted.
            out: The result, which may be ``x``; a new array if omitted.

        Returns:
            ``out``, or a new array of the shape and dtype of ``x``.

        Raises:
            KernelShapeError: ``x`` has not one axis, or ``segments`` another length.
            KernelTypeError: ``x`` is no array; ``segments`` is not of bool; no neutral element for ``exclusive``.
            LayoutError: ``out`` of another shape or dtype, or ``x`` not in C order.
        """
        blocks.follow()
        refuse_no_flag(exclusive, f"{self.name}(): exclusive")
        count = self._check(x, segments)
        if exclusive and self._shift is None:
            raise KernelTypeError(f"{self.name}(): an exclusive scan needs a neutral element; scan(..., neutral='0')")
        found, begins = x, segments
        distance = 1
        while distance < count:
            if segments is None:
                found = self._step(found, distance, size=count)
            else:
                found, begins = self._step_in_segments(found, begins, distance, size=count)
            distance *= 2
        if exclusive and segments is None:
            assert self._shift is not None
            found = self._shift(found, size=count)
        elif exclusive:
            assert self._shift_in_segments is not None
            found = self._shift_in_segments(found, segments, size=count)
        if out is not None:
            return _copy()(found, out)
        return _copy()(found) if found is x else found

    def _check(self, x: Any, segments: Any) -> int:
        """The number of elements."""
        count, _ = self._row("x", x)
        if segments is not None:
            found, dtype = self._row("segments", segments)
            if dtype.kind != "b":
                raise KernelTypeError(f"{self.name}(): segments has dtype {dtype}; pass bool, True where one begins")
            if found != count:
                raise KernelShapeError(f"{self.name}(): segments has {found} elements and x {count}; pass one for each")
        return count

    def _row(self, name: str, array: Any) -> tuple[int, np.dtype[Any]]:
        """Length and dtype of an array of one axis."""
        backend = registry.owner_of(array)
        if backend is None:
            raise KernelTypeError(f"{self.name}(): {name} is {type(array).__name__}, not an array of a backend")
        info = backend.view(array)
        if len(info.shape) != 1:
            raise KernelShapeError(f"{self.name}(): {name} has shape {info.shape}; pass an array of one axis")
        return info.shape[0], info.dtype


@functools.cache
def _copy() -> ElementwiseKernel:
    return elementwise("T x", "T y", "y = x", name="scan_result")


def scan(
    expression: str, *, neutral: str | None = None, name: str = "scan", math: str = "exact", preamble: str = ""
) -> ScanKernel:
    """Make a scan: running sums, maxima, or any other associative operation.

        running_sum = xl.scan("a + b", neutral="0")
        running_sum(x)                                   # x[0], x[0] + x[1], ...
        running_sum(x, exclusive=True)                   # 0, x[0], x[0] + x[1], ...
        running_sum(x, segments=starts)                  # anew at each True

    Args:
        expression: C, in ``a``, the result so far, and ``b``, the next element; associative up to rounding.
        neutral: C, the element that changes nothing; for exclusive scans.
        name: For messages and profilers.
        math: ``"exact"`` or ``"fast"``.
        preamble: C functions that the expressions may call.

    Raises:
        KernelSyntaxError: An expression cannot be read.
    """
    texts = {"expression": expression, "name": name, "math": math, "preamble": preamble}
    check_texts("scan", **(texts if neutral is None else {**texts, "neutral": neutral}))
    return ScanKernel(expression, neutral, name, math, preamble)
