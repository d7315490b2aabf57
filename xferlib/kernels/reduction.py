"""`reduction`: many elements to one, combined in the same order on every backend."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from xferlib._core import blocks
from xferlib._core.array import ArrayInfo
from xferlib._runtime.checks import MadeBy, flag
from xferlib.errors import KernelShapeError, KernelTypeError
from xferlib.kernels import autograd
from xferlib.kernels.calls import arguments as checks
from xferlib.kernels.calls.caller import Plans
from xferlib.kernels.calls.reduction_calls import (
    Axis,
    CudaReductionCall,
    ReductionCall,
    ResolvingCall,
    check_axes,
)
from xferlib.kernels.calls.reduction_host import HostReductionCall
from xferlib.kernels.elementwise import ElementwiseKernel
from xferlib.kernels.frontends import compiler_options, signature
from xferlib.kernels.frontends.definitions import ArgumentKind
from xferlib.kernels.frontends.reduction_definition import ReductionDefinition, SnippetReduction
from xferlib.kernels.ir.layout import broadcast_shape
from xferlib.kernels.ir.reduction import ReductionSpec
from xferlib.kernels.pickling import named
from xferlib.kernels.reduction_autograd import DifferentiableReduction

if TYPE_CHECKING:
    from xferlib.kernels.engines.cuda.reduction import CudaReduction
    from xferlib.kernels.engines.numpy.block_function import BlockFunction
    from xferlib.kernels.reduction_indexed import FinishedReduction, IndexedCall, IndexedReduction

    _Call = HostReductionCall | CudaReductionCall | IndexedCall | ResolvingCall


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
            if out is None and len(args) > self._inputs and all(map(checks.is_array, args[self._inputs :])):
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
            return (axis, kinds, keepdims, *[checks.reader(each).signature(each) for each in args])
        except Exception:  # no array, or one that cannot be used
            return None

    def _open_kinds(self, out: Any) -> tuple[ArgumentKind, ...]:
        """The dtypes of given outputs that alone tell a type of the definition; no others."""
        if not self._open or out is None:
            return ()
        given = list(out) if type(out) is tuple else [out]
        _, _, infos = checks.common_device(self.name, ["out"] * len(given), given)
        return tuple(info.dtype if number in self._open else None for number, info in sorted(infos.items()))

    def _prepare(self, args: Sequence[Any], axis: Axis, outputs: tuple[ArgumentKind, ...], *, keepdims: bool) -> _Call:
        """Check a call of a new kind, all but its output."""
        names = self.definition.names
        if len(args) > len(names):
            raise KernelTypeError(
                f"{self.name}({', '.join(names)}) takes at most {len(names)} argument(s), {len(args)} were given"
            )
        backend, device, infos = checks.common_device(self.name, [*names, "out"], args)
        if backend is None or device is None:
            raise KernelTypeError(f"{self.name}(): no argument is an array; pass one")
        if lazy := checks.resolve(backend.at(device), arguments := [*args], infos):
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
        _, _, infos = checks.common_device(self.name, names, plain)
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
                kinds.append(checks.native_dtype(infos[number].dtype, self.definition.names[number]))
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
        from xferlib.kernels.reduction_indexed import IndexedReduction

        found = self._two_kernels.get(id(spec))
        if found is None:
            found = self._two_kernels[id(spec)] = IndexedReduction(self.name, spec, ReductionKernel)
        return found

    def _finished(self, spec: ReductionSpec) -> FinishedReduction:
        """The reduction in two kernels, for results that depend on further arguments."""
        from xferlib.kernels.reduction_indexed import FinishedReduction

        found = self._finishing.get(id(spec))
        if found is None:
            names = self.definition.names[: self._inputs]
            found = self._finishing[id(spec)] = FinishedReduction(self.name, names, spec, ReductionKernel)
        return found

    def _cuda_plan(self, call: ReductionCall, infos: list[ArrayInfo], arrays: int) -> CudaReduction:
        """The plan for arrays of these layouts: ``arrays`` inputs, then the outputs."""
        from xferlib.kernels.engines.cuda.reduction import CudaReduction

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
    compiled = compiler_options.read(options, math)
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
