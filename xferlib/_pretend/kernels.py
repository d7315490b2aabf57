"""The kernels of CuPy and PyCUDA over xferlib's."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import xferlib as xl
from xferlib._pretend import policy
from xferlib._pretend.arrays import PretendedArray, ndarray
from xferlib._pretend.functions import bare
from xferlib._pretend.memory import CupyMemoryPointer, OwnedPointer
from xferlib._pretend.streams import own_stream
from xferlib.errors import ArgumentError, KernelOrderError, KernelSyntaxError


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


class CupyElementwiseKernel(policy.Pretended):
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
        self._parameters = _parse_parameters(in_params, is_out=False) + _parse_parameters(out_params, is_out=True)

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
        given = [*_broadcast_to_outputs(given, self._parameters), *args[len(given) :]]  # too many are refused there
        try:
            found = self._own(given, options, ndarray)
        except KernelSyntaxError:  # some of them are of the arguments' dtypes
            self._own = functools.partial(call_kernel, self._make(CudaLoop))
            found = self._own(given, options, ndarray)
        if self._no_return:
            return None
        return (found,) if self._return_tuple and not isinstance(found, tuple) else found


def _convert(value: Any, parameter: LoopParameter) -> Any:
    """A number as the declared dtype, to which CuPy converts it without a word."""
    is_number = isinstance(value, (bool, int, float, complex, np.generic))
    return np.dtype(parameter.type).type(value) if is_number and len(parameter.type) > 1 else value


def _broadcast_to_outputs(given: list[Any], parameters: Sequence[LoopParameter]) -> list[Any]:
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


class CupyReductionKernel(policy.Pretended):
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


# CuPy's element-wise kernels as loops of CUDA C, for operations that `xl.elementwise` does not take.

_HEAD = """
struct Indexer { long long count; __device__ long long size() const { return count; } };
template <typename T> struct RawArray {
    T *data; const long long *extents; int ndim;
    __device__ T &operator[](long long i) const { return data[i]; }
    template <typename I, int N> __device__ T &operator[](const I (&index)[N]) const {
        long long at = 0;
        for (int k = 0; k < N; ++k) at = at * extents[k] + index[k];
        return data[at];
    }
    __device__ const long long *shape() const { return extents; }
    __device__ long long size() const { long long n = 1; for (int k = 0; k < ndim; ++k) n *= extents[k]; return n; }
};
"""
_COMPLEX = """
#include <cuda/std/complex>
using cuda::std::complex;
"""
_THREADS = 128
_NAMES = {"bool": "bool", "complex64": "complex<float>", "complex128": "complex<double>", "float16": "__half",
          "float32": "float", "float64": "double"}  # fmt: skip


class LoopParameter(NamedTuple):
    """A parameter of a kernel."""

    type: str
    name: str
    is_raw: bool
    is_out: bool


def _parse_parameters(text: str, *, is_out: bool) -> list[LoopParameter]:
    """The parameters in CuPy's text."""
    found = []
    for each in filter(None, (part.split() for part in text.split(","))):
        words = [word for word in each if word not in ("raw", "const")]
        found.append(LoopParameter(words[0], words[1], "raw" in each, is_out))
    return found


def _c_name(dtype: Any) -> str:
    kind = np.dtype(dtype)
    return _NAMES.get(kind.name) or {"i": "", "u": "unsigned "}[kind.kind] + {
        1: "signed char" if kind.kind == "i" else "char", 2: "short", 4: "int", 8: "long long",
    }[kind.itemsize]  # fmt: skip


class CudaLoop:
    """A kernel whose operation is compiled as it stands: one thread for each element, arrays of C order.

    Args:
        in_params: CuPy's parameters, as text: ``raw`` ones are indexed by the operation.
        out_params: The same of the results.
        operation: Statements for the element of index ``i``.
        name: Of the kernel.
        preamble: Source that stands before it.
        loop_prep: Statements before the loop over the elements of a thread.
        after_loop: Statements behind it.
        options: Of the compiler.
    """

    def __init__(
        self, in_params: str, out_params: str, operation: str, name: str, preamble: str = "", *, loop_prep: str = "",
        after_loop: str = "", options: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._parameters = [*_parse_parameters(in_params, is_out=False), *_parse_parameters(out_params, is_out=True)]
        self._inputs = sum(not each.is_out for each in self._parameters)
        self._text = operation, loop_prep, after_loop, preamble
        self._name, self._options = name, tuple(options)
        self._compiled: dict[tuple[Any, ...], Any] = {}

    def __call__(self, *args: Any, size: int | None = None) -> Any:
        if len(args) not in (self._inputs, len(self._parameters)):
            raise ArgumentError(
                f"{self._name}: {len(args)} arguments; it takes {self._inputs}, or {len(self._parameters)} with results"
            )
        types = self._types(args)
        shape = np.broadcast_shapes(*(
            each.shape for each, p in zip(args, self._parameters, strict=False) if xl.is_array(each) and not p.is_raw
        ))  # fmt: skip
        count = int(np.prod(shape)) if size is None else int(size)
        given, meta, results = [], [], []
        xp = xl.namespace()
        for number, parameter in enumerate(self._parameters):
            x = args[number] if number < len(args) else xl.empty(shape, types[parameter.type])
            if not xl.is_array(x):
                given.append(np.dtype(types[parameter.type]).type(x))
                continue
            if not parameter.is_raw and x.shape != shape:
                x = xp.broadcast_to(x, shape)
            whole = xl.to_device(x, order="C") if not parameter.is_out and not _is_whole(x) else x
            if not _is_whole(whole):
                raise NotImplementedError(f"{self._name}: the result {parameter.name!r} is not in C order")
            meta += [whole.ndim, *whole.shape]
            given.append(whole)
            if parameter.is_out:
                results.append(whole)
        kinds = tuple((xl.is_array(x), str(x.dtype)) for x in given)
        kernel = self._compiled.get(kinds)
        if kernel is None:
            kernel = self._compiled[kinds] = self._compile(types, given)
        if count:
            extents = xl.to_device(np.asarray(meta or [0], np.int64))
            blocks = min(-(-count // _THREADS), 65535)
            kernel((blocks,), (_THREADS,), [*given, extents, np.int64(count)])
        return results[0] if len(results) == 1 else tuple(results) or None

    def _types(self, args: Sequence[Any]) -> dict[str, Any]:
        """The dtype of each name of a type: of an argument that has it, or a dtype's own name."""
        found: dict[str, Any] = {}
        for value, parameter in zip(args, self._parameters, strict=False):
            if xl.is_array(value) or parameter.type not in found:
                found[parameter.type] = np.dtype(value.dtype) if hasattr(value, "dtype") else np.dtype(type(value))
        for parameter in self._parameters:
            if len(parameter.type) > 1:
                found[parameter.type] = np.dtype(parameter.type)
        return found

    def _compile(self, types: dict[str, Any], given: Sequence[Any]) -> Any:
        operation, before, behind, preamble = self._text
        heads, begins, elements, at = [], [], [], 0
        for parameter, x in zip(self._parameters, given, strict=True):
            name, kind = parameter.name, _c_name(x.dtype)
            if not xl.is_array(x):
                heads.append(f"{kind} {name}")
                continue
            const = "" if parameter.is_out else "const "
            heads.append(f"{const}{kind} *p_{name}")
            if parameter.is_raw:
                begins.append(f"RawArray<{const}{kind}> {name} = {{p_{name}, meta_ + {at + 1}, (int)meta_[{at}]}};")
            else:
                elements.append(f"{const}{kind} &{name} = p_{name}[i];")
            at += 1 + x.ndim
        named = {each: dtype for each, dtype in types.items() if len(each) == 1}
        uses_complex = any(np.dtype(each).kind == "c" for each in types.values())
        head = ", ".join([*heads, "const long long *meta_", "long long n_"])
        source = "\n".join([
            _COMPLEX if uses_complex else "", _HEAD,
            *(f"typedef {_c_name(kind)} {each};" for each, kind in named.items()),
            preamble, f'extern "C" __global__ void {self._name}({head}) {{',
            "Indexer _ind = {n_};", *begins, before,
            "long long step_ = gridDim.x * (long long)blockDim.x;",
            "for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n_; i += step_) {",
            *elements, operation + ";", "}", behind, "}",
        ])  # fmt: skip
        return xl.raw_module(source, options=self._options).get_function(self._name)


def _is_whole(x: Any) -> bool:
    return xl.get_backend(x).view(x).is_c_contiguous
