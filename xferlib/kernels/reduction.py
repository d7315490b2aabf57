"""`reduction`: many elements to one, combined in the same order on every backend."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

import numpy as np

from xferlib._core import blocks, observe
from xferlib._core.arrays import ArrayInfo, bounds
from xferlib._native import bind_front, inherit_vectorcall
from xferlib._runtime import process
from xferlib._runtime.checks import flag, whole
from xferlib.errors import KernelShapeError, KernelTypeError, quote
from xferlib.kernels import arguments, autograd, calls, cuda_signature
from xferlib.kernels.autograd import Make, Pullback, sum_along, sum_to
from xferlib.kernels.definitions import (
    ArgumentKind,
    FixedDefinition,
    ReductionDefinition,
    SnippetReduction,
    check_texts,
)
from xferlib.kernels.elementwise import ElementwiseKernel, KernelClass, find_by_name
from xferlib.kernels.ir import (
    CallLayout,
    Param,
    ReductionSpec,
    broadcast_shape,
    broadcast_strides,
    is_float,
    order_of_result,
)
from xferlib.kernels.native_reduction import NativeReduction, NativeReductionPlan
from xferlib.kernels.numpy_engine import BlockFunction
from xferlib.kernels.numpy_reduction import NumpyReduction
from xferlib.kernels.plans import Plans
from xferlib.kernels.small_floats import storage, store_bits_of, view_bits

if TYPE_CHECKING:
    from xferlib._core.backend import Backend
    from xferlib._core.device import Device, RawStream
    from xferlib.kernels.cuda_reduction import CudaReduction


# One call of a reduction: its checks, its results, and its run on a CUDA device.

Axis = int | tuple[int, ...] | None


class ReductionCall:
    """A checked call, with its shapes and axes; repeated for arrays of the same dtypes, shapes and strides.

    Args:
        name: The reduction's, for messages.
        backend: The owner of the arrays.
        device: Where they are.
        spec: The reduction.
        shape: The common shape of the arrays.
        axes: Those that are reduced.
        infos: The arrays, by argument.
        names: The arguments'.
        keepdims: Whether reduced axes stay, with extent 1.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        device: Device,
        spec: ReductionSpec,
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        infos: dict[int, ArrayInfo],
        names: Sequence[str],
        *,
        keepdims: bool,
    ) -> None:
        self.name = name
        self.backend = backend
        self.device = device
        self.spec = spec
        self.shape = shape
        self.axes = axes
        self.owner = backend.at(device)
        self.infos = infos
        kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
        of_result = _find_memory_order(shape, kept, [*infos.values()])
        self.kept = kept if of_result is None else tuple(kept[place] for place in of_result)
        """The axes that are kept, in the order of new results in memory: that of the arguments, as of NumPy's sums."""
        self.kept_shape = tuple(shape[axis] for axis in self.kept)
        self.result_shape = tuple(
            1 if axis in axes else extent for axis, extent in enumerate(shape) if keepdims or axis not in axes
        )
        self.order = of_result if of_result is None or not keepdims else (*axes, *self.kept)
        """Of the axes of new results, the outermost first; None is C order."""
        self._places = {axis: place for place, axis in enumerate(kept)}
        """Of the axes that are kept, in results without the others."""
        self._labels = [names[number] for number in infos]
        self._output_dtypes = spec.output_dtypes
        params = enumerate(spec.map_program.params[: spec.arguments])
        self._scalar_params = [(number, param) for number, param in params if param.is_scalar]

    @functools.cached_property
    def _storage_spec(self) -> ReductionSpec:
        """The reduction as engines see it."""
        return store_bits_of(self.spec)

    def run(self, args: Sequence[Any], out: Any = None) -> Any:
        """Reduce to new arrays, or to those given, which are checked."""
        raise NotImplementedError

    def _new_outputs(self) -> list[Any]:
        owner = self.owner
        at, make = owner.stream_current(self.device), functools.partial(owner.empty, self.result_shape)
        if self.order is not None:
            make = functools.partial(owner.empty_permuted, self.result_shape, self.order)
        return [make(dtype, device=self.device, stream=at) for dtype in self._output_dtypes]

    def _check_out(self, args: Sequence[Any], out: Any) -> list[Any]:
        """The arrays given for the results, which may not share memory with an input or each other, told of a write."""
        given = list(out) if type(out) is tuple else [out]
        dtypes, owner = self._output_dtypes, self.owner
        if len(given) != len(dtypes):
            raise KernelTypeError(f"{self.name}() has {len(dtypes)} output(s), {len(given)} were given in out=")
        for number, (each, dtype) in enumerate(zip(given, dtypes, strict=True)):
            found, device, infos = arguments.common_device(self.name, ["out"], [each])
            if found is not self.backend or device is not self.device:
                raise KernelTypeError(f"{self.name}(): out must be a {self.backend.name} array on {self.device}")
            calls.check_output(self.name, f"out{number}", infos[0], self.result_shape, dtype)
        everything = [*(args[number] for number in self.infos), *given]
        written = frozenset(range(len(self.infos), len(everything)))
        labels = [*self._labels, *(f"out{number}" for number in range(len(given)))]
        if calls.check_aliasing(self.name, labels, dict(enumerate(map(owner.view, everything))), written, written):
            raise KernelTypeError(f"{self.name}(): an output is an input; pass another array")
        for number, each in enumerate(given):
            owner.note_write(each, f"{self.name}(): out{number}")
        return given

    def _pick_results(self, results: list[Any]) -> Any:
        return results[0] if len(results) == 1 else tuple(results)

    def _scalars(self, args: Sequence[Any]) -> list[np.generic]:
        return [
            arguments.convert_scalar(self.name, args[number], param.dtype, param.name)
            for number, param in self._scalar_params
        ]

    def layouts(self, everything: Sequence[ArrayInfo]) -> tuple[CallLayout, CallLayout]:
        """The kept and the reduced axes, with the strides of the arrays of all inputs and then of the outputs."""
        kept: list[tuple[int, ...]] = []
        reduced: list[tuple[int, ...]] = []
        arrays = len(self.infos)
        for info in everything[:arrays]:
            strides = broadcast_strides(self.shape, info.shape, info.strides)
            kept.append(tuple(strides[axis] for axis in self.kept))
            reduced.append(tuple(strides[axis] for axis in self.axes))
        for number in self.spec.firsts:
            kept.append(kept[number])
            reduced.append((0,) * len(self.axes))
        places = [*range(len(self.shape))] if len(self.result_shape) == len(self.shape) else self._places
        for info in everything[arrays:]:
            kept.append(tuple(info.strides[places[axis]] for axis in self.kept))
            reduced.append((0,) * len(self.axes))
        reduced_shape = tuple(self.shape[axis] for axis in self.axes)
        return CallLayout(self.kept_shape, tuple(kept)), CallLayout(reduced_shape, tuple(reduced))


_MOST_BOUND = 4
"""Streams on which C takes the calls of a reduction that has memory of a stream for its partial results."""


class CudaReductionCall(ReductionCall):
    """A call on a CUDA device; ``find_plan`` makes or finds the plan for arrays of these layouts, outputs last."""

    def __init__(
        self, *args: Any, find_plan: Callable[[ReductionCall, list[ArrayInfo]], CudaReduction], keepdims: bool
    ) -> None:
        super().__init__(*args, keepdims=keepdims)
        self._arrays = sorted(self.infos)
        self._takes_all = len(self._arrays) == self.spec.arguments
        self._find_plan = find_plan
        self._plans: dict[Any, CudaReduction] = {}
        """For new outputs, by the alignment of all addresses."""
        self.direct: Callable[[tuple[Any, ...]], Any] | None = None
        """Does a whole call with new outputs in C, once it is there."""
        self._bound: set[int] = set()
        """The handles of the streams for which that is known, or known not to be."""
        self._known: _KnownOutput | None = None

    def run(self, args: Sequence[Any], out: Any = None) -> Any:
        """Reduce on the current stream."""
        owner, device, known, plans = self.owner, self.device, self._known, self._plans
        given = args if self._takes_all else [args[number] for number in self._arrays]
        if out is not None:
            if known is not None and known.takes(owner, out, given):
                results = [out]
                owner.note_write(out, f"{self.name}(): out0")
            else:
                results = self._check_out(args, out)
                known = self._known = self._know(results)
            plans = {} if known is None else known.plans
        stream = owner.stream_current(device)
        if out is None and self.order is not None:
            results = self._new_outputs()
        elif out is None:
            shape, empty = self.result_shape, owner.empty
            results = [empty(shape, dtype, device=device, stream=stream) for dtype in self._output_dtypes]
        everything = [*given, *results]
        pointers = owner.operands(everything)
        if 0 in pointers:
            infos = [self.infos[number] for number in self._arrays]
            calls.refuse_freed(self.name, infos, pointers[: len(infos)])
        key = tuple([pointer & 15 for pointer in pointers])
        plan = plans.get(key)
        if plan is None:
            plan = plans[key] = self._find_plan(self, [*map(owner.view, everything)])
        elif out is None and self._is_unbound(stream):  # the second call
            others, new = self.direct, [(self.result_shape, dtype, self.order) for dtype in self._output_dtypes]
            self.direct = plan.repeat(given, pointers, new, stream, others) or others
        scalars = self._scalars(args) if self._scalar_params else ()
        if (recorder := observe.active) is None:
            plan.run(pointers, scalars, stream)
        else:
            nbytes = sum(info.nbytes for info in (*self.infos.values(), *map(owner.view, results)))
            launch = functools.partial(plan.run, pointers, scalars, stream)
            recorder.enqueue(observe.Kind.KERNEL, self.name, nbytes, owner, stream, launch)
        if stream.handle or owner.has_made_streams:  # arrays of another stream must outlast the work on this one
            for each in everything:
                owner.note_use(each, stream)
        return self._pick_results(results)

    def _is_unbound(self, stream: RawStream) -> bool:
        """Whether C is to be told of calls on a stream, from now on."""
        is_able = self._takes_all and len(self._bound) < _MOST_BOUND
        if not is_able or stream.handle in self._bound:
            return False
        if stream.capture is not None or self.owner.stream_is_recorded(stream):  # what is cleared there is not yet
            return False
        self._bound.add(stream.handle)
        return True

    def _know(self, results: list[Any]) -> _KnownOutput | None:
        """The kind of these outputs, which were checked."""
        if len(results) > 1 or (matcher := calls.reader(results[0]).matcher) is None:
            return None
        low, high = _span(self.owner.view(results[0]))
        spans = [_span(self.infos[number]) for number in self._arrays]
        return _KnownOutput(matcher(results), [(first - high, end - low) for first, end in spans], {})


def _find_memory_order(
    shape: tuple[int, ...], kept: tuple[int, ...], infos: Sequence[ArrayInfo]
) -> tuple[int, ...] | None:
    """The order of the kept axes in memory, by their places among these; None for C order."""
    strides = [broadcast_strides(shape, info.shape, info.strides) for info in infos]
    own = tuple(shape[axis] for axis in kept)
    views = zip(infos, strides, strict=True)
    return order_of_result(
        own, [i._replace(shape=own, strides=tuple(each[axis] for axis in kept)) for i, each in views]
    )


def _span(info: ArrayInfo) -> tuple[int, int]:
    """The first byte of an array and the one behind its last, from its address."""
    return bounds(0, info.shape, info.strides, info.dtype.itemsize)


class _KnownOutput(NamedTuple):
    """An output that was checked, by its kind."""

    matches: Callable[..., bool]
    distances: list[tuple[int, int]]
    """Of each input: those between which an output shares memory with it."""
    plans: dict[Any, CudaReduction]

    def takes(self, owner: Backend, out: Any, given: Sequence[Any]) -> bool:
        """Whether an output is of this kind, and apart from the inputs."""
        try:
            if not self.matches(out):
                return False
        except Exception:  # of another type
            return False
        *pointers, own = owner.operands([*given, out])
        pairs = zip(pointers, self.distances, strict=True)
        return bool(own) and not any(low < own - pointer < high for pointer, (low, high) in pairs)


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
            raise KernelShapeError(f"{name}(): axis {quote(each)} is {problem}")
        result.add(number % rank)
    if len(result) < len(given):
        raise KernelShapeError(f"{name}(): axis {axis} names an axis twice")
    return tuple(sorted(result))


A = np.ndarray[Any, Any]


class HostReductionCall(ReductionCall):
    """A call on host memory, or through a backend's own engine.

    Args:
        functions: What calls of all shapes share on the NumPy engine.
        native: The compiled reduction, or how far it is.
    """

    def __init__(
        self,
        *args: Any,
        functions: dict[str, BlockFunction] | None = None,
        native: NativeReduction | None = None,
        keepdims: bool,
    ) -> None:
        super().__init__(*args, keepdims=keepdims)
        self._engine = self.owner.engine()
        self._order = (*self.kept, *self.axes)
        self._shape = (math.prod(self.kept_shape), math.prod(self.shape[axis] for axis in self.axes))
        self._is_in_order = self._order == tuple(range(len(self._order)))
        self._first = tuple(slice(0, 1) if axis in self.axes else slice(None) for axis in range(len(self.shape)))
        """The index of the first element of each result."""
        self._whole = frozenset(
            number for number, info in self.infos.items() if info.shape == self.shape and info.dtype.isnative
        )
        self._functions = functions
        self._numpy: NumpyReduction | None = None
        is_able = all(info.dtype.isnative for info in self.infos.values())
        is_able = is_able and native is not None and native.takes(*self._shape)
        self._native = native if is_able else None
        self._plan: NativeReductionPlan | None = None
        self.direct: Callable[[tuple[Any, ...]], Any] | None = None
        """Runs plain calls on arrays of the same dtypes and rank, once it is there."""

    def run(self, args: Sequence[Any], out: Any = None) -> Any:
        """Reduce."""
        results = self._new_outputs() if out is None else self._check_out(args, out)
        if self._engine is not None:
            self._engine.reduce(self.name, self._compute, args, results)
        elif (recorder := observe.active) is None:
            self._compute(args, results)
        else:
            nbytes = sum(info.nbytes for info in self.infos.values())
            run = lambda: self._compute(args, results)
            recorder.on_host(observe.Kind.KERNEL, self.name, nbytes, self.owner, self.device, run)
        return self._pick_results(results)

    def _compute(self, args: Sequence[Any], results: Sequence[Any]) -> None:
        host_view = self.owner.host_view
        scalars = iter(self._scalars(args) if self._scalar_params else ())
        given = [
            view_bits(host_view(each) if number in self.infos else np.array(next(scalars)))
            for number, each in enumerate(args)
        ]
        given += [np.broadcast_to(given[number], self.shape)[self._first] for number in self.spec.firsts]
        targets = [view_bits(self._in_memory_order(host_view(each))) for each in results]
        if all(each.flags.c_contiguous for each in targets):
            self._reduce(given, targets)
            return
        buffers = [np.empty(each.shape, each.dtype) for each in targets]
        self._reduce(given, buffers)
        for target, buffer in zip(targets, buffers, strict=True):
            target[...] = buffer

    def _in_memory_order(self, result: A) -> A:
        """A result without the reduced axes, and the others in the order that they have in new results."""
        if len(self.result_shape) == len(self.shape):
            result = result[(*(0 if axis in self.axes else slice(None) for axis in range(result.ndim)), ...)]
        return result if self.order is None else result.transpose([self._places[axis] for axis in self.kept])

    def _reduce(self, given: list[A], targets: Sequence[A]) -> None:
        """Reduce to contiguous arrays, on the engine that is chosen and there."""
        native = self._native
        if native is not None and native.is_ready():
            if self._plan is None:
                kept, reduced = self.layouts([self.infos[number] for number in sorted(self.infos)])
                self._plan = NativeReductionPlan(native, kept, reduced)
                if self._engine is None and self.backend.name == "numpy":
                    self.direct = self._bind(native)
            self._plan.run([each.__array_interface__["data"][0] for each in given], targets)
            return
        if self._numpy is None:
            self._numpy = NumpyReduction(self._storage_spec, *self._shape, self._functions)
        rows = self._shape[0]
        scalars = frozenset(number for number, _ in self._scalar_params)
        operands = [each if number in scalars else self._operand(number, each) for number, each in enumerate(given)]
        self._numpy.run(operands, [each.reshape(rows) for each in targets])

    def _bind(self, native: NativeReduction) -> Callable[[tuple[Any, ...]], Any] | None:
        """A function for calls of arrays that need no broadcasting, of any layout."""
        infos = [self.infos[number] for number in sorted(self.infos)]
        if any(info.shape != self.shape for info in infos):
            return None
        keepdims = len(self.result_shape) == len(self.shape)
        dtypes = [info.dtype for info in infos]
        return native.bind(dtypes, self._output_dtypes, len(self.shape), self.axes, keepdims=keepdims)

    def _operand(self, number: int, array: A) -> A:
        """The array of an input in shape (rows, count)."""
        if number not in self._whole:
            native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
            array = np.broadcast_to(native, self.shape)
        return (array if self._is_in_order else array.transpose(self._order)).reshape(self._shape)


Run = Callable[[Sequence[Any], Any], Any]
"""Reduces the arguments of a call to its outputs, or to new ones for None."""


def _resolve_first(run: Run, owner: Backend, lazy: Sequence[int]) -> Run:
    """``run`` for calls whose arguments at these positions are lazy, as `calls.resolve` found them."""

    def run_resolved(args: Sequence[Any], out: Any = None) -> Any:
        return run([owner.resolved(each) if number in lazy else each for number, each in enumerate(args)], out)

    return run_resolved


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
        self.combining = [_find_combine(spec, k) for k in range(count)]
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

    def batch(self, arguments: Sequence[Any], rank: int) -> Any:
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
        totals = [middle.total(k) if k in self._post.reads(self._floating) else middle.zero(k) for k in self._all]
        spread = [each.reshape(self.kept_shape) for each in given]
        found = self._post.gradients(self._floating, [*totals, *self._sizes()], spread)
        slopes = [middle.zero(k) for k in self._all]
        for k, gradient in zip(self._floating, found, strict=True):
            slopes[k] = middle.scale(k, gradient)
        parts = self._map.gradients(wanted, arguments, slopes)
        return [sum_to(part, arguments[number]) for number, part in zip(wanted, parts, strict=True)]

    def tangents(self, varying: tuple[int, ...], arguments: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        self.check()
        middle = _Middle(self, arguments)
        moved = self._map.tangents(varying, arguments, given)
        sums = [middle.add(middle.scale(k, moved[k].expand(self.shape))) for k in self._floating]
        totals = [middle.total(k) for k in self._all]
        found = self._post.tangents(self._floating, [*totals, *self._sizes()], sums)
        shape = self.kept_shape if self._keepdims else [self.shape[axis] for axis in self.kept]
        return tuple(each.reshape(shape) for each in found)

    def elements(self, arguments: Sequence[Any]) -> list[Any]:
        """The mapped elements, one array an accumulator, in the common shape."""
        if self._mapped is None:
            self._mapped = self._make(
                FixedDefinition(f"{self.name}_map", self._spec.map_program, self._spec.inputs, self._scalars)
            )
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

    def zero(self, k: int) -> Any:
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
            return self.zero(k)
        if how == "add":
            return self.add(self.elements(k))
        if how == "mul":
            return self._rows(self.elements(k)).prod(-1).reshape(operation.kept_shape)
        elements = self.elements(k)
        return (elements.amin if how == "min" else elements.amax)(axes, keepdim=True)

    def add(self, elements: Any) -> Any:
        axes = self._operation.axes
        return sum_along(elements, axes, keepdims=True) if axes else elements

    def scale(self, k: int, value: Any) -> Any:
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


def _find_combine(spec: ReductionSpec, k: int) -> str | None:
    """The operation that combines accumulator ``k``; None for one without a derivative here."""
    count = len(spec.accumulators)
    if spec.accumulators[k].kind != "f":
        return "add"  # a whole number, which has none at all
    value = next(store.value for store in spec.combine.stores if store.param == 2 * count + k)
    loads = sorted(each.attr for each in value.args if each.op == "load")
    return value.op if value.op in _COMBINING and loads == [k, count + k] else None


def _is_ordered(spec: ReductionSpec) -> bool:
    return any(node.op in autograd.ORDERED for node in spec.map_program.nodes)


class _Rest:
    """The definition of the reduction that another kernel prepares or finishes."""

    def __init__(self, name: str, names: tuple[str, ...], spec: ReductionSpec) -> None:
        self.name = name
        self.names = names
        self._spec = spec

    def specialize(self, kinds: tuple[ArgumentKind, ...], scalars: frozenset[int]) -> ReductionSpec:
        return self._spec


def _shape(kernel: str, params: Sequence[Param], shapes: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of the arrays indexed by ``i`` alone or, where there are none, of the first array."""
    named = [(params[n].name, shape) for n, shape in shapes.items() if not params[n].is_raw]
    return broadcast_shape(kernel, named) if named else next(iter(shapes.values()))


class _KnownCall(NamedTuple):
    """A call that later ones are compared with: the very axis, since ``True == 1``, and the arrays' kinds."""

    axis: Any
    keepdims: bool
    matches: Callable[..., bool]
    run: Run
    call: Any
    direct: Callable[[tuple[Any, ...]], Any] | None


_P = ParamSpec("_P")


class _Dispatch:
    """Runs the calls of one reduction: each kind of call is checked and prepared once.

    Args:
        definition: The reduction.
        evaluate: Computes the value of a call that torch follows, whose derivative the definition has; `call` if None.
    """

    def __init__(self, definition: ReductionDefinition, evaluate: Callable[..., Any] | None) -> None:
        self.definition = definition
        self._evaluate = evaluate or self.call
        self.follow: Callable[..., Any] = self._with_gradient
        """Runs a call on tensors that torch follows; set where another kernel has the derivative."""
        self.name = definition.name
        self._inputs: int = getattr(definition, "inputs", len(definition.names))  # outputs come behind them
        self._specs: dict[Any, ReductionSpec] = {}
        self._open: frozenset[int] = getattr(definition, "open_outputs", frozenset())
        """The outputs whose types no input tells."""
        self._plans: Plans[CudaReduction] = Plans()
        self._functions: dict[int, dict[str, BlockFunction]] = {}
        """By the identity of the specification."""
        self._natives: dict[int, NativeReduction] = {}
        self._parts: dict[int, tuple[ElementwiseKernel, ReductionKernel]] = {}
        """The kernels of a reduction in two, by the identity of the specification."""
        self._ready: Plans[Run] = Plans()
        self._last: _KnownCall | None = None
        self._known: list[Any] = [None, None, False]
        """For C, which looks at it first: what runs the last call again, and its axis and keepdims."""
        self._followed: Plans[DifferentiableReduction] = Plans()

    def front(self) -> Callable[..., Any]:
        """Make `call` by way of C, for others to hold: the collector does not see a cycle that C closes."""
        return bind_front(self.call, self._known, process.scopes, vars(observe), "active", "axis", "keepdims")

    def call(self, *args: Any, axis: Axis = None, keepdims: bool = False, out: Any = None) -> Any:
        """The call of a `ReductionKernel`."""
        if process.scopes:
            blocks.follow()
        last = self._last
        if last is not None and last.axis is axis and last.keepdims is keepdims:
            if last.direct is not None and out is None and observe.active is None:
                found = last.direct(args)
                if found is not NotImplemented:
                    return found
            try:
                is_like = last.matches(*args)
            except Exception:  # an argument of another type: the key finds out which
                is_like = False
            if is_like:
                found = last.run(args, out)
                if (direct := getattr(last.call, "direct", None)) is not last.direct and direct is not None:
                    self._last = last._replace(direct=direct)
                    self._known[:] = [direct, axis, keepdims]
                return found
        key = None if self._open else self._key(args, axis, keepdims)  # the output's dtype may be another each time
        run = self._ready.get(key)
        if run is None:
            if out is None and len(args) > self._inputs and all(map(arguments.is_array, args[self._inputs :])):
                given = args[self._inputs :]
                out = given if len(given) > 1 else given[0]
                return self.call(*args[: self._inputs], axis=axis, keepdims=keepdims, out=out)
            keepdims = flag(keepdims, f"{self.name}(): keepdims")
            if arguments.needs_gradient(args):
                return self.follow(args, axis, out, keepdims=keepdims)
            run = self._prepare(args, axis, self._open_kinds(out), keepdims=keepdims)
            if key is not None and not arguments.requires_gradient(args):  # else no_grad() would hide a gradient later
                self._ready.keep(key, run)
        if key is not None and key in self._ready:
            self._remember(args, axis, run, keepdims=keepdims)
        return run(args, out)

    def _remember(self, args: Sequence[Any], axis: Any, run: Run, *, keepdims: bool) -> None:
        """Recognise calls like this one by comparison from now on, if its arguments are arrays of one type."""
        if len({*map(type, args)}) == 1 and (matcher := calls.reader(args[0]).matcher) is not None:
            self._last = _KnownCall(axis, keepdims, matcher(args), run, getattr(run, "__self__", None), None)
            self._known[0] = None

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
        _, _, infos = arguments.common_device(self.name, ["out"] * len(given), given)
        return tuple(info.dtype if number in self._open else None for number, info in sorted(infos.items()))

    def _prepare(self, args: Sequence[Any], axis: Axis, outputs: tuple[ArgumentKind, ...], *, keepdims: bool) -> Run:
        """Check a call of a new kind, all but its output."""
        names = self.definition.names
        for name, each in zip(names, args, strict=False):
            if each is None:
                raise KernelTypeError(f"{self.name}() lacks argument {name!r}; give all of {', '.join(names)}")
        if len(args) > len(names):
            raise KernelTypeError(
                f"{self.name}({', '.join(names)}) takes at most {len(names)} argument(s), {len(args)} were given"
            )
        backend, device, infos = arguments.common_device(self.name, [*names, "out"], args)
        if backend is None or device is None:
            raise KernelTypeError(f"{self.name}(): no argument is an array; pass one")
        if lazy := calls.resolve(backend.at(device), resolved := [*args], infos):
            found = self._prepare(resolved, axis, outputs, keepdims=keepdims)
            return _resolve_first(found, backend.at(device), lazy)
        spec = self._spec(args, infos, outputs)
        shapes = {number: info.shape for number, info in infos.items()}
        if spec.postmap is not None:
            return self._finish_by_kernel(spec, backend.at(device), shapes, axis, keepdims=keepdims)
        if spec.premap is not None:
            return self._map_by_kernel(spec, backend.at(device), device, shapes, axis, keepdims=keepdims)
        shape = broadcast_shape(self.name, [(names[number], info.shape) for number, info in infos.items()])
        axes = check_axes(self.name, axis, len(shape))
        if spec.identity is None and 0 in [shape[each] for each in axes]:
            raise KernelShapeError(
                f"{self.name}(): axis {axis} of shape {shape} has no elements, and the reduction no identity; give one"
            )
        checked = (self.name, backend, device, spec, shape, axes, infos, names)
        if device.kind == "cuda":
            return CudaReductionCall(*checked, find_plan=self._cuda_plan, keepdims=keepdims).run
        functions = self._functions.setdefault(id(spec), {})
        native = self._natives.get(id(spec))
        if native is None:
            native = self._natives.setdefault(id(spec), NativeReduction(store_bits_of(spec)))
        return HostReductionCall(*checked, functions=functions, native=native, keepdims=keepdims).run

    def _with_gradient(self, args: Sequence[Any], axis: Axis, out: Any, *, keepdims: bool) -> Any:
        """Run a call on tensors that torch tracks."""
        if out is not None:
            raise KernelTypeError(
                f"{self.name}(): out= cannot be used on tensors that torch follows for a derivative; leave it out, "
                "call under torch.no_grad(), or on x.detach()"
            )
        names, plain = self.definition.names, arguments.unwrap_transforms(args)
        _, _, infos = arguments.common_device(self.name, names, plain)
        spec = self._spec(plain, infos)
        if spec.premap is not None or spec.postmap is not None:
            raise KernelTypeError(
                f"{self.name}(): gradients need a map that indexes its arrays by i alone, and a post_map_expr of a "
                "alone; pass x.detach(), or call under torch.no_grad()"
            )
        shape = broadcast_shape(self.name, [(names[number], tuple(args[number].shape)) for number in infos])
        axes = check_axes(self.name, axis, len(shape))
        key = (id(spec), shape, axes, keepdims)
        found = self._followed.get(key)
        if found is None:
            scalars = frozenset(range(len(args))) - infos.keys()
            run = lambda given, along, keeps: self._evaluate(*given, axis=along, keepdims=keeps)
            found = DifferentiableReduction(
                self.name, spec, scalars, shape, axes, run, ElementwiseKernel, keepdims=keepdims
            )
            self._followed.keep(key, found)
        if arguments.requires_gradient(args) and any(dtype.kind in "fc" for dtype in spec.output_dtypes):
            found.check()
        return autograd.apply(found, args)

    def _spec(
        self, args: Sequence[Any], infos: dict[int, ArrayInfo], outputs: tuple[ArgumentKind, ...] = ()
    ) -> ReductionSpec:
        kinds: list[ArgumentKind] = []
        for number, each in enumerate(args):
            if number in infos:
                kinds.append(calls.native_dtype(self.name, infos[number].dtype, self.definition.names[number]))
            else:
                kinds.append(each.dtype if isinstance(each, np.generic) else type(each))
        scalars = frozenset(number for number in range(len(args)) if number not in infos)
        if outputs and len(args) == self._inputs:
            kinds += outputs
        key = (tuple(kinds), scalars)
        spec = self._specs.get(key)
        if spec is None:
            # One for all threads: what is kept by its identity must not outlive it.
            spec = self._specs.setdefault(key, self.definition.specialize(tuple(kinds), scalars))
        if len(args) != spec.arguments:
            raise KernelTypeError(f"{self.name}() takes {spec.arguments} argument(s), {len(args)} were given")
        return spec

    # --- reductions in two kernels: where the map reads arrays at computed indices, or arguments finish the results
    def _map_by_kernel(
        self,
        spec: ReductionSpec,
        owner: Backend,
        device: Device,
        shapes: dict[int, tuple[int, ...]],
        axis: Axis,
        *,
        keepdims: bool,
    ) -> Run:
        """A kernel that writes an array of accumulators, and the reduction of that; it takes all elements."""
        assert spec.premap is not None
        shape = _shape(self.name, spec.premap.program.params, shapes)
        if len(check_axes(self.name, axis, len(shape))) < len(shape):
            raise KernelTypeError(
                f"{self.name}(): axis {axis} of shape {shape} leaves some, but map_expr indexes an array freely, "
                "which counts all elements; leave axis= out, or index by i alone"
            )
        if id(spec) not in self._parts:
            first = FixedDefinition(f"{self.name}_map", spec.premap.program, spec.premap.inputs)
            rest = _Rest(self.name, ("mapped",), dataclasses.replace(spec, premap=None))
            self._parts[id(spec)] = ElementwiseKernel(first), ReductionKernel(rest)
        mapping, reduce = self._parts[id(spec)]

        def run(args: Sequence[Any], out: Any = None) -> Any:
            mapped = owner.empty(shape, spec.accumulators[0], device=device, stream=owner.stream_current(device))
            mapping(*args, out=mapped)
            return reduce(mapped, keepdims=keepdims, out=out)

        return run

    def _finish_by_kernel(
        self, spec: ReductionSpec, owner: Backend, shapes: dict[int, tuple[int, ...]], axis: Axis, *, keepdims: bool
    ) -> Run:
        """The reduction to accumulators, and a kernel that makes the outputs of them and of arguments of the call."""
        assert spec.postmap is not None
        count = math.prod(_shape(self.name, (spec.premap.program if spec.premap else spec.map_program).params, shapes))
        if id(spec) not in self._parts:
            last = FixedDefinition(f"{self.name}_post", spec.postmap.program, spec.postmap.inputs)
            rest = _Rest(self.name, self.definition.names[: self._inputs], dataclasses.replace(spec, postmap=None))
            self._parts[id(spec)] = ElementwiseKernel(last), ReductionKernel(rest)
        finishing, reduce = self._parts[id(spec)]
        arguments = spec.postmap.arguments

        def run(args: Sequence[Any], out: Any = None) -> Any:
            found = reduce(*args, axis=axis, keepdims=keepdims)
            accumulators = [found] if len(spec.accumulators) == 1 else [*found]
            sizes = count, owner.view(accumulators[0]).size
            return finishing(*accumulators, *(args[each] for each in arguments), *sizes, out=out)

        return run

    def _cuda_plan(self, call: ReductionCall, infos: list[ArrayInfo]) -> CudaReduction:
        """The plan for arrays of these layouts: inputs, then the outputs."""
        from xferlib.kernels.cuda_reduction import CudaReduction

        layouts = tuple((info.dtype, info.shape, info.strides, info.pointer % 16) for info in infos)
        key = (id(call.spec), layouts, call.axes, call.device)
        plan = self._plans.get(key)
        if plan is None:
            kept, reduced = call.layouts(infos)
            arrays = len(infos) - call.spec.outputs
            infos = [*infos[:arrays], *(infos[number] for number in call.spec.firsts), *infos[arrays:]]
            infos = [info._replace(dtype=storage(info.dtype)) for info in infos]
            plan = CudaReduction(call.owner, call.device, store_bits_of(call.spec), kept, reduced, infos)
            self._plans.keep(key, plan)
        return plan


@inherit_vectorcall
class ReductionKernel(functools.partial[Any], metaclass=KernelClass, by="reduction"):
    """A reduction made by `reduction`, or a ready-made one of `xferlib.kernels.reductions`.

    Call it as ``kernel(*args, axis=None, keepdims=False, out=None)``, on the arrays' device and its current stream:

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

    # A partial is called without building a dict of the keywords, as an element-wise kernel is.

    definition: ReductionDefinition
    name: str
    _dispatch: _Dispatch

    def __new__(cls, definition: ReductionDefinition, evaluate: Callable[..., Any] | None = None) -> ReductionKernel:
        dispatch = _Dispatch(definition, evaluate)
        self = super().__new__(cls, dispatch.front())
        self._dispatch = dispatch
        self.definition = definition
        self.name = definition.name
        self.__module__ = cls.__module__
        return self

    if TYPE_CHECKING:

        def __call__(self, *args: Any, axis: Axis = None, keepdims: bool = False, out: Any = None) -> Any: ...

    def _follow_by(self, follow: Callable[..., Any]) -> None:
        """Let ``follow(args, axis, out, keepdims=...)`` run the calls on tensors that torch follows."""
        self._dispatch.follow = follow

    def __reduce__(self) -> str | tuple[Any, ...]:
        if find_by_name(self.__module__, self.name) is self:  # a ready-made one
            return str(self.name)
        return ReductionKernel, (self.definition,)

    def __copy__(self) -> ReductionKernel:
        return self  # only its caches change

    def __deepcopy__(self, memo: dict[int, Any]) -> ReductionKernel:
        return self

    def __repr__(self) -> str:
        return f"<ReductionKernel {self.name}({', '.join(self.definition.names)})>"


def _expressions_by_keyword(make: Callable[_P, ReductionKernel]) -> Callable[_P, ReductionKernel]:
    """Refuse the call of CuPy's ReductionKernel, or of PyCUDA's, as it stands: their orders differ."""

    @functools.wraps(make)
    def check_first(*args: _P.args, **options: _P.kwargs) -> ReductionKernel:
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

    return check_first


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
        reduce_expr: The combination of two accumulators ``a`` and ``b``; associative up to rounding.
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
    check_texts("reduction", **texts, **given)
    compiled = cuda_signature.read(options, math)
    definition = SnippetReduction(
        compiled.apply(in_params),
        compiled.apply(out_params),
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
