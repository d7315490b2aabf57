"""The kernels of CuPy and PyCUDA over xferlib's."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._pretend import loops, policy
from xferlib._pretend.arrays import PretendedArray
from xferlib._pretend.cupy_arrays import ndarray
from xferlib._pretend.functions import bare
from xferlib._pretend.memory import CupyMemoryPointer, OwnedPointer
from xferlib._pretend.streams import own_stream
from xferlib.errors import KernelOrderError, KernelSyntaxError


def call_kernel(
    kernel: Callable[..., Any], args: Sequence[Any], options: dict[str, Any], cls: type[PretendedArray]
) -> Any:
    """Call a kernel of xferlib's on pretended arrays, on the stream that ``stream=`` names."""
    stream = own_stream(options.get("stream"))
    given = [bare(each) for each in args]
    named = {name: bare(each) for name, each in options.items() if name != "stream"}
    with contextlib.nullcontext() if stream is None else stream:
        return cls.over(kernel(*given, **named))


def bare_argument(value: Any) -> Any:
    """An argument for a kernel of CUDA C: a pointer to memory is its address, an array of NumPy's a struct.

    CuPy and PyCUDA pass the address of an array of any strides; `xl.raw_module` takes arrays in C order.
    """
    if isinstance(value, np.ndarray):
        return value
    own = value.ptr if isinstance(value, OwnedPointer) else bare(value)
    if isinstance(value, PretendedArray) and not (info := xl.get_backend(own).view(own)).is_c_contiguous:
        in_c_order = bare(value.T)
        return in_c_order if xl.get_backend(own).view(in_c_order).is_c_contiguous else info.pointer
    return own


class AnyOrderCall:
    """A call of a kernel by xferlib's front end, in any order of what is added up where it refuses to promise one.

    CuPy and PyCUDA promise none. Its functions are those of ``math="fast"`` then.

    Args:
        make: Makes the kernel; takes ``math``.
        call: Calls it.
    """

    def __init__(self, make: Callable[..., Any], call: Callable[..., Any]) -> None:
        self._make = make
        self._kernel: Any = None
        self._call = call

    def __call__(self, *args: Any) -> Any:
        if self._kernel is None:
            self._kernel = self._make(math="exact")
        try:
            return self._call(self._kernel, *args)
        except KernelOrderError:
            found = self._call(kernel := self._make(math="fast"), *args)
            self._kernel = kernel
            return found


class CupyElementwiseKernel:
    """`xl.elementwise` by CuPy's constructor; what that refuses, such as a sum into raw memory, runs as CUDA C."""

    def __init__(
        self, in_params: str, out_params: str, operation: str, name: str = "kernel", reduce_dims: bool = True,
        preamble: str = "", no_return: bool = False, return_tuple: bool = False, **options: Any,
    ) -> None:  # fmt: skip
        if not name.isidentifier():
            raise ValueError(f"invalid kernel name: {name!r}")
        given = {key: options[key] for key in ("options", "loop_prep", "after_loop") if options.get(key)}
        self.name, self._no_return, self._return_tuple = name, no_return, return_tuple
        self.in_params, self.out_params, self.operation, self.preamble = in_params, out_params, operation, preamble
        self._given = given
        self._own: Callable[..., Any] = AnyOrderCall(functools.partial(self._make, xl.elementwise), call_kernel)
        self._parameters = loops.parse(in_params, is_out=False) + loops.parse(out_params, is_out=True)

    def _make(self, make: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """The kernel, made at the first call, as CuPy compiles it."""
        return make(  # type: ignore[no-any-return]
            self.in_params, self.out_params, self.operation, name=self.name, preamble=self.preamble, **self._given,
            **options,
        )  # fmt: skip

    def __call__(self, *args: Any, **options: Any) -> Any:
        if options.pop("block_size", 1) <= 0:
            raise ValueError(f"{self.name}: block_size must be greater than zero")
        given = [_convert(each, parameter) for each, parameter in zip(args, self._parameters, strict=False)]
        given = _broadcast_to_outputs(given, self._parameters)
        try:
            found = self._own(given, options, ndarray)
        except KernelSyntaxError:  # some of them are of the arguments' dtypes
            self._own = functools.partial(call_kernel, self._make(loops.CudaLoop))
            found = self._own(given, options, ndarray)
        if self._no_return:
            return None
        return (found,) if self._return_tuple and not isinstance(found, tuple) else found

    def __getattr__(self, name: str) -> Any:
        return policy.refuse_member(self, name)


def _convert(value: Any, parameter: loops.LoopParameter) -> Any:
    """A number as the declared dtype, to which CuPy converts it without a word."""
    is_number = isinstance(value, (bool, int, float, complex, np.generic))
    return np.dtype(parameter.type).type(value) if is_number and len(parameter.type) > 1 else value


def _broadcast_to_outputs(given: list[Any], parameters: Sequence[loops.LoopParameter]) -> list[Any]:
    """The arguments, inputs with the shape of a given output: with CuPy outputs take part in broadcasting."""
    whole = [isinstance(each, ndarray) and not own.is_raw for each, own in zip(given, parameters, strict=False)]
    shape = next((given[at].shape for at, is_whole in enumerate(whole) if is_whole and parameters[at].is_out), None)
    if shape is None:
        return given
    return [
        ndarray.over(xl.get_array_module(own := bare(each)).broadcast_to(own, shape))
        if is_whole and each.shape != shape and _is_spread(each.shape, shape)
        else each
        for each, is_whole in zip(given, whole, strict=True)
    ]


def _is_spread(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


class CupyReductionKernel:
    """`xl.reduction` by CuPy's constructor."""

    def __init__(
        self, in_params: str, out_params: str, map_expr: str, reduce_expr: str, post_map_expr: str, identity: Any,
        name: str = "reduce_kernel", reduce_type: Any = None, reduce_dims: bool = True, preamble: str = "",
        options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.name = name
        self._own = xl.reduction(
            in_params, out_params, map_expr=map_expr, reduce_expr=reduce_expr, post_map_expr=post_map_expr,
            identity=None if identity is None else str(identity), name=name, dtype=reduce_type, preamble=preamble,
            options=options,
        )  # fmt: skip

    def __call__(self, *args: Any, **options: Any) -> Any:
        return call_kernel(self._own, args, options, ndarray)

    def __getattr__(self, name: str) -> Any:
        return policy.refuse_member(self, name)


class CupyRawModule:
    """`xl.raw_module` by CuPy's constructor."""

    def __init__(
        self, code: str | None = None, *, path: str | None = None, options: Sequence[str] = (), backend: str = "nvrtc",
        translate_cucomplex: bool = False, enable_cooperative_groups: bool = False,
        name_expressions: Sequence[str] | None = None, jitify: bool = False,
    ) -> None:  # fmt: skip
        if translate_cucomplex or jitify:
            policy.refuse("RawModule(translate_cucomplex=)" if translate_cucomplex else "RawModule(jitify=)")
        self.enable_cooperative_groups, self.path = enable_cooperative_groups, path
        self.own = xl.raw_module(code, path=path, options=tuple(options), names=tuple(name_expressions or ()))

    def get_function(self, name: str) -> CupyRawKernel:
        return CupyRawKernel("", name, module=self, enable_cooperative_groups=self.enable_cooperative_groups)

    def get_global(self, name: str) -> Any:
        found = self.own.get_global(name)
        info = xl.get_backend(found).view(found)
        return CupyMemoryPointer(info.pointer, found, info.nbytes)

    def compile(self, log_stream: Any = None) -> None:
        self.own.compile(log_stream=log_stream)


class CupyRawKernel:
    """A kernel of CUDA C, which a CPU runs and checks."""

    def __init__(
        self, code: str, name: str, options: Sequence[str] = (), backend: str = "nvrtc", *,
        translate_cucomplex: bool = False, enable_cooperative_groups: bool = False, jitify: bool = False,
        module: CupyRawModule | None = None,
    ) -> None:  # fmt: skip
        self.name, self.code, self.enable_cooperative_groups = name, code, enable_cooperative_groups
        self.module = module or CupyRawModule(
            code, options=options, translate_cucomplex=translate_cucomplex, jitify=jitify
        )
        self._function: Any = None
        self.max_dynamic_shared_size_bytes = 0

    @property
    def kernel(self) -> Any:
        """The kernel of xferlib's."""
        if self._function is None:
            self._function = self.module.own.get_function(self.name)
        return self._function

    def __call__(self, grid: Any, block: Any, args: Any = (), *, shared_mem: int = 0, stream: Any = None) -> None:
        given = [*map(bare_argument, args if isinstance(args, (list, tuple)) else (args,))]
        self.kernel(
            tuple(grid), tuple(block), given, shared_nbytes=shared_mem, stream=own_stream(stream),
            cooperative=self.enable_cooperative_groups,
        )  # fmt: skip

    def linear_launch(self, size: int, args: Any, shared_mem: int = 0, block_max_size: int = 128) -> None:
        block = min(max(int(size), 1), block_max_size)
        self((-(-int(size) // block),), (block,), args, shared_mem=shared_mem)

    def compile(self, log_stream: Any = None) -> None:
        self.module.compile(log_stream)

    @property
    def attributes(self) -> dict[str, int]:
        found = self.kernel.attributes()
        return {theirs: getattr(found, ours) for theirs, ours in ATTRIBUTES.items()}

    num_regs = property(lambda self: self.attributes["num_regs"])
    max_threads_per_block = property(lambda self: self.attributes["max_threads_per_block"])
    shared_size_bytes = property(lambda self: self.attributes["shared_size_bytes"])
    local_size_bytes = property(lambda self: self.attributes["local_size_bytes"])
    const_size_bytes = property(lambda self: self.attributes["const_size_bytes"])
    ptx_version = property(lambda self: self.attributes["ptx_version"])
    binary_version = property(lambda self: self.attributes["binary_version"])


ATTRIBUTES = {
    "binary_version": "binary_version", "const_size_bytes": "constant_nbytes", "local_size_bytes": "local_nbytes",
    "max_threads_per_block": "max_threads", "num_regs": "registers", "ptx_version": "ptx_version",
    "shared_size_bytes": "shared_nbytes", "max_dynamic_shared_size_bytes": "max_dynamic_shared_nbytes",
}  # fmt: skip
"""A kernel's facts by CuPy's names."""
