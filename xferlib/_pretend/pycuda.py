"""The modules of PyCUDA, as tables of names, and its arrays and kernels."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._pretend import ModuleTable, functions, policy
from xferlib._pretend import pycuda_driver as driver
from xferlib._pretend.arrays import PretendedArray, check_dtype, order_of
from xferlib._pretend.functions import bare, to_numpy
from xferlib._pretend.kernels import AnyOrderCall, call_kernel
from xferlib._pretend.memory import OwnedPointer
from xferlib._pretend.streams import own_stream
from xferlib.errors import KernelSyntaxError

VERSION = (2026, 1)
"""Of PyCUDA, whose names these are."""
reductions = xl.kernels.reductions


class GPUArray(PretendedArray):
    """An array on the device with the members of PyCUDA's."""

    __slots__ = ()
    library = "pycuda.gpuarray"
    default_order = "K"
    __hash__ = None

    def __new__(
        cls, shape: Any, dtype: Any, allocator: Any = None, base: Any = None, gpudata: Any = None, strides: Any = None,
        order: str = "C",
    ) -> Any:  # fmt: skip
        kind, extents = check_dtype(dtype), _make_shape(shape)
        nbytes = math.prod(extents) * kind.itemsize
        if strides is not None:
            policy.refuse("GPUArray(strides=)")
        if gpudata is None and allocator is not None and allocator is not driver.allocate:
            gpudata = allocator(nbytes)
        if gpudata is None:
            return cls.over(xl.empty(extents, kind, order=order))
        memory = driver.pointer_of(gpudata)
        made = cls.over(memory.over(extents[::-1] if order == "F" else extents, kind))
        return made.transpose() if order == "F" else made

    def __init__(self, *args: Any, **options: Any) -> None: ...

    mem_size = property(lambda self: self.size)
    real = property(lambda self: self.function("real")(self).copy())  # PyCUDA's is contiguous, and no view
    imag = property(lambda self: self.function("imag")(self).copy())
    base = property(lambda self: None)
    allocator = property(lambda self: driver.allocate)
    ptr = property(lambda self: int(self._info.pointer))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        described = super().__cuda_array_interface__
        return described if hasattr(self._native, "__cuda_array_interface__") else {
            **described, "strides": self.strides, "stream": None
        }  # fmt: skip

    @property
    def gpudata(self) -> OwnedPointer:
        info = self._info
        return OwnedPointer(info.pointer, self._native, info.nbytes)

    def get(self, ary: Any = None, pagelocked: bool = False, async_: bool = False, stream: Any = None, **_: Any) -> Any:
        if ary is None and pagelocked:
            ary = xl.pinned_empty(self.shape, self.dtype)
        if ary is None:
            out = np.empty(self.shape, self.dtype) if async_ else None
            return self._copy_to_host(out, "K", stream, blocking=not async_)
        if ary.size != self.size:
            raise ValueError("self and ary must be the same size")
        if ary.dtype != self.dtype:
            raise TypeError("self and ary must have the same dtype")
        return self._copy_to_host(ary.reshape(self.shape), "K", stream, blocking=not async_)

    def get_async(self, stream: Any = None, ary: Any = None) -> Any:
        return self.get(ary, async_=True, stream=stream)

    def set(self, ary: Any, async_: bool = False, stream: Any = None, **_: Any) -> None:
        if ary.size != self.size:
            raise ValueError("ary and self must be the same size")
        if ary.dtype != self.dtype:
            raise ValueError("ary and self must have the same dtype")
        source = bare(ary) if isinstance(ary, PretendedArray) else ary.reshape(self.shape)
        xl.to_device(source, out=self._native, stream=own_stream(stream))
        if not async_:
            (own_stream(stream) or xl.current_stream()).synchronize()

    def set_async(self, ary: Any, stream: Any = None) -> None:
        self.set(ary, async_=True, stream=stream)

    def fill(self, value: Any, stream: Any = None) -> GPUArray:
        with np.errstate(all="ignore"):
            host = np.full(self.shape, np.asarray(value).astype(self.dtype))
        xl.to_device(host, out=self._native, stream=own_stream(stream))
        return self

    def astype(self, dtype: Any, stream: Any = None, order: str = "K", **options: Any) -> Any:  # type: ignore[override]
        with _on(stream):
            return super().astype(dtype, order, **options)

    def mul_add(
        self, selffac: Any, other: Any, otherfac: Any, add_timer: Any = None, stream: Any = None, out: Any = None
    ) -> Any:
        """``selffac * self + otherfac * other``."""
        with _on(stream):
            found = self * selffac + other * otherfac
            return found if out is None else _write(out, found)

    def reverse(self, stream: Any = None) -> Any:
        with _on(stream):
            return self[::-1].copy("C") if self.ndim else self

    def conj(self, out: Any = None) -> Any:
        if self.dtype.kind != "c":
            return self
        found = self.function("conj")(self)
        return found if out is None else _write(out, found)

    conjugate = conj

    def sum(self, axis: Any = None, **_: Any) -> Any:
        return self.over(reductions.sum(self._native, axis=axis))

    def any(self, stream: Any = None, allocator: Any = None) -> Any:
        with _on(stream):
            return self.over(reductions.any(self._native))

    def all(self, stream: Any = None, allocator: Any = None) -> Any:
        with _on(stream):
            return self.over(reductions.all(self._native))

    def min(self, axis: Any = None) -> Any:
        return self.over(reductions.min(self._native, axis=axis))

    def max(self, axis: Any = None) -> Any:
        return self.over(reductions.max(self._native, axis=axis))

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError("an array of more than one element is neither true nor false: call a.any() or a.all()")
        return bool(self.get())


GPUArray.root = GPUArray


def _make_shape(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, (int, np.integer)) or (isinstance(shape, np.ndarray) and not shape.ndim):
        return (int(shape),)
    return tuple(int(each) for each in shape)


def _on(stream: Any) -> Any:
    return contextlib.nullcontext() if stream is None else stream.own


def _write(out: Any, found: Any) -> Any:
    xl.to_device((found if found.dtype == out.dtype else found.astype(out.dtype))._native, out=out._native)
    return out


# --- functions of arrays


def to_gpu(ary: Any, allocator: Any = None, *, stream: Any = None) -> GPUArray:
    """A new array with the values of the host's, in their order."""
    host = np.asarray(ary)
    check_dtype(host.dtype)
    if allocator is not None and allocator is not driver.allocate:
        made = GPUArray(host.shape, host.dtype, allocator, order="F" if order_of(host, "K") == "F" else "C")
        made.set(host, async_=True, stream=stream)
        return made
    order = order_of(host, "K")
    return GPUArray.over(xl.to_device(host, order="F" if order == "F" else "C", stream=own_stream(stream)))  # type: ignore[no-any-return]


def _create(create: Callable[..., Any], default: Any = None) -> Callable[..., GPUArray]:
    def call(shape: Any, dtype: Any = default, allocator: Any = None, order: str = "C") -> GPUArray:
        if allocator is not None and allocator is not driver.allocate:
            made = GPUArray(shape, dtype, allocator, order=order)
            return made if create is xl.empty else made.fill(int(create is xl.ones))
        return GPUArray.over(create(_make_shape(shape), check_dtype(dtype), order=order))  # type: ignore[no-any-return]

    return call


def _create_like(create: Callable[..., Any]) -> Callable[..., GPUArray]:
    def call(other_ary: Any, dtype: Any = None, order: str = "K") -> GPUArray:
        kind = other_ary.dtype if dtype is None else np.dtype(dtype)
        letter = "F" if order_of(other_ary, order) == "F" else "C"
        return GPUArray.over(create(other_ary.shape, kind, order=letter))  # type: ignore[no-any-return]

    return call


def _arange(*args: Any, dtype: Any = None, allocator: Any = None, **_: Any) -> GPUArray:
    if isinstance(args[-1], np.dtype):
        args, dtype = args[:-1], args[-1]
    return to_gpu(np.arange(*args, dtype=dtype))


def _find(name: str) -> Callable[..., Any]:
    """NumPy's function of that name, with PyCUDA's options."""

    def call(*args: Any, out: Any = None, stream: Any = None, allocator: Any = None, **options: Any) -> Any:
        with _on(stream):
            found = GPUArray.function(name)(*args, **options)
            return found if out is None else _write(out, found)

    return call


def _where(criterion: Any, then_: Any, else_: Any, out: Any = None, stream: Any = None) -> Any:
    with _on(stream):
        mask = criterion if criterion.dtype == np.bool_ else criterion != 0
        namespace = xl.get_array_module(mask._native)
        found = GPUArray.over(namespace.where(*map(bare, (mask, then_, else_))))
        return found if out is None else _write(out, found)


def _if_positive(criterion: Any, then_: Any, else_: Any, out: Any = None, stream: Any = None) -> Any:
    if not criterion.shape == then_.shape == else_.shape:
        raise ValueError("shapes do not match")
    if then_.dtype != else_.dtype:
        raise ValueError("dtypes do not match")
    with _on(stream):
        return _where(criterion > 0, then_, else_, out)


def _reduce(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, dtype: Any = None, stream: Any = None, allocator: Any = None) -> Any:
        with _on(stream):
            found = GPUArray.over(function(*map(bare, args)))
            found = found if dtype is None or found.dtype == dtype else found.astype(dtype)
            return found if allocator is None else _write(GPUArray(found.shape, found.dtype, allocator), found)

    return call


def _take(a: Any, indices: Any, out: Any = None, stream: Any = None) -> Any:
    with _on(stream):
        return a.take(indices, out=out)


_MATH = {
    **{name: name for name in (
        "ceil", "floor", "exp", "log", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    )},
    "fabs": "abs", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
}  # fmt: skip
"""The functions of `pycuda.cumath`, by NumPy's names."""


def _find_math(name: str) -> Callable[..., Any]:
    call = _find(name)

    def run(array: Any, stream_or_out: Any = None, *, out: Any = None, stream: Any = None) -> Any:
        if isinstance(stream_or_out, GPUArray):
            out = stream_or_out
        elif stream_or_out is not None:
            stream = stream_or_out
        return call(array, out=out, stream=stream)

    return run


def _fmod(arg: Any, mod: Any, stream: Any = None) -> Any:
    kernel = xl.elementwise("T x, T y", "T z", "z = fmod(x, y)")
    return call_kernel(kernel, (arg, mod), {"stream": stream}, GPUArray)


def _by_numpy(name: str) -> Any:
    """A function of `cumath` that NumPy computes."""

    def call(*args: Any, stream: Any = None) -> Any:
        if not policy.is_numpy_allowed:
            policy.refuse(f"pycuda.cumath.{name}")
        host = [each if not number else each.get().astype(np.int32) for number, each in enumerate(args)]
        found = functions.by_numpy(getattr(np, name), GPUArray)(*host)
        dtype = args[0].dtype
        return tuple(each.astype(dtype) for each in found) if isinstance(found, tuple) else found.astype(dtype)

    return call


# --- kernels


class PycudaElementwiseKernel:
    """`xl.elementwise` by PyCUDA's constructor; what that refuses, such as a loop, runs as CUDA C."""

    def __init__(
        self, arguments: Any, operation: str, name: str = "kernel", keep: bool = False, options: Any = None,
        preamble: str = "", loop_prep: str = "", after_loop: str = "",
    ) -> None:  # fmt: skip
        self.arguments = _parameters_of(arguments)
        self.operation, self.name, self.preamble = operation, name, preamble
        self._options = tuple(options or ())
        self._texts = {key: text for key, text in (("loop_prep", loop_prep), ("after_loop", after_loop)) if text}
        self._own = AnyOrderCall(self._make, call_kernel)
        self._source: driver.PycudaFunction | None = None

    def _make(self, math: str) -> Any:
        return xl.elementwise(
            self.arguments.replace("pycuda::", ""), self.operation, name=self.name, options=self._options,
            preamble=self.preamble, math=math, **self._texts,
        )  # fmt: skip

    def __call__(self, *args: Any, range: Any = None, slice: Any = None, stream: Any = None) -> None:
        if range is not None and slice is not None:
            raise TypeError("may not specify both range and slice keyword arguments")
        part = {"range": range} if range is not None else {"slice": slice} if slice is not None else {}
        if self._source is None:
            try:
                self._own(args, {**part, "stream": stream}, GPUArray)
                return
            except KernelSyntaxError:
                if not policy.is_numpy_allowed:
                    raise
                self._source = driver.SourceModule(self._write_source()).get_function(self.name)
        count = next(each.size for each in args if isinstance(each, GPUArray))
        steps = range if range is not None else _slice(*slice.indices(count)) if slice is not None else _slice(0, count)
        numbers = [np.int64(each) for each in (steps.start, steps.stop, steps.step or 1)]
        blocks = max(1, min(-(-count // 128), 1024))
        self._source.prepared_async_call((blocks, 1), (128, 1, 1), stream, *args, *numbers)

    def _write_source(self) -> str:
        head = f"{self.arguments}, long long start_, long long stop_, long long step_"
        return "\n".join([
            "#include <pycuda-complex.hpp>" if "complex" in self.arguments + self.operation + self.preamble else "",
            self.preamble, f"__global__ void {self.name}({head}) {{", "const long long n = stop_;",
            self._texts.get("loop_prep", ""), ";",
            "for (long long i = start_ + (blockIdx.x * (long long)blockDim.x + threadIdx.x) * step_;",
            "step_ > 0 ? i < stop_ : i > stop_; i += gridDim.x * (long long)blockDim.x * step_) {",
            f"{self.operation};", "}", self._texts.get("after_loop", ""), ";", "}",
        ])  # fmt: skip


_slice = slice


def _parameters_of(arguments: Any) -> str:
    """The parameters as text: PyCUDA takes objects too."""
    if isinstance(arguments, str):
        return arguments
    if not all(hasattr(each, "declare") for each in arguments):
        policy.refuse("parameters that are objects")
    return ", ".join(each.declare() for each in arguments)


class PycudaReductionKernel:
    """`xl.reduction` by PyCUDA's constructor."""

    def __init__(
        self, dtype_out: Any, neutral: Any, reduce_expr: str, map_expr: Any = None, arguments: Any = None,
        name: str = "reduce_kernel", keep: bool = False, options: Any = None, preamble: str = "", allocator: Any = None,
    ) -> None:  # fmt: skip
        if np.dtype(dtype_out).names:
            policy.refuse("reductions of structs")
        self.dtype_out = np.dtype(dtype_out)
        self._own = xl.reduction(
            _parameters_of(arguments), map_expr=map_expr or "in[i]", reduce_expr=reduce_expr, identity=str(neutral),
            dtype=self.dtype_out, name=name, preamble=preamble, options=tuple(options or ()),
        )  # fmt: skip

    def __call__(self, *args: Any, out: Any = None, stream: Any = None, allocator: Any = None, **options: Any) -> Any:
        if options:
            policy.refuse(f"ReductionKernel({', '.join(options)})")
        if allocator is not None and out is None:
            out = GPUArray((), self.dtype_out, allocator)
        return call_kernel(self._own, args, {"out": out, "stream": stream}, GPUArray)


def _make_scan(*, exclusive: bool) -> Any:
    class Scan:
        """A scan by PyCUDA's constructor."""

        def __init__(self, dtype: Any, scan_expr: str, neutral: Any = None, **_: Any) -> None:
            self._own = xl.scan(scan_expr, neutral=None if neutral is None else str(neutral))

        def __call__(self, input_ary: Any, output_ary: Any = None, allocator: Any = None, stream: Any = None) -> Any:
            with _on(stream):
                found = GPUArray.over(self._own(input_ary._native, exclusive=exclusive))
                return _write(input_ary if output_ary is None else output_ary, found)

    return Scan


# --- random numbers and tools


class PycudaGenerator:
    """A generator of `pycuda.curandom`: the numbers are xferlib's."""

    def __init__(self, seed_getter: Any = None, offset: int = 0) -> None:
        seed = 0 if seed_getter is None else int(to_numpy(seed_getter(1)).reshape(-1)[0])
        self._own = xl.random.default_rng(seed)

    def gen_uniform(self, shape: Any, dtype: Any, stream: Any = None) -> Any:
        with _on(stream):
            return GPUArray.over(self._own.random(_make_shape(shape), np.dtype(dtype).name))

    def gen_normal(self, shape: Any, dtype: Any, stream: Any = None) -> Any:
        with _on(stream):
            found = GPUArray.over(self._own.normal(0.0, 1.0, _make_shape(shape)))
            return found if found.dtype == dtype else found.astype(dtype)

    def fill_uniform(self, data: Any, stream: Any = None) -> None:
        _write(data, self.gen_uniform(data.shape, data.dtype, stream))

    def fill_normal(self, data: Any, stream: Any = None) -> None:
        _write(data, self.gen_normal(data.shape, data.dtype, stream))


def rand(shape: Any, dtype: Any = np.float32, stream: Any = None) -> Any:
    """Random numbers: of integers all, of others those from 0 to 1."""
    kind, extents = np.dtype(dtype), _make_shape(shape)
    rng = xl.random.default_rng(0)
    with _on(stream):
        if kind.kind == "f":
            return GPUArray.over(rng.random(extents, kind.name))
        if kind.kind in "iu":
            return GPUArray.over(rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, extents, kind.name))
        host = np.random.default_rng(0)
        return to_gpu((host.random(extents) + 1j * host.random(extents)).astype(kind))


class PycudaArgument:
    """`VectorArg` and `ScalarArg`: a parameter of a kernel as an object."""

    is_pointer = False

    def __init__(self, dtype: Any, name: str) -> None:
        self.dtype, self.name = np.dtype(dtype), name

    def declare(self) -> str:
        return f"{_name_in_c(self.dtype)} {'*' if self.is_pointer else ''}{self.name}"


class PycudaVectorArgument(PycudaArgument):
    """`VectorArg`: an array."""

    is_pointer = True


def _name_in_c(dtype: Any, with_fp_tex_hack: bool = False) -> str:
    kind = np.dtype(dtype)
    names = {
        "bool": "bool", "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short",
        "int32": "int", "uint32": "unsigned int", "int64": "long", "uint64": "unsigned long", "float32": "float",
        "float64": "double", "complex64": "pycuda::complex<float>", "complex128": "pycuda::complex<double>",
    }  # fmt: skip
    if kind.name not in names:
        policy.refuse("dtypes without a name in C", ValueError, kind)
    return names[kind.name]


def _mark_cuda_test(inner_f: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(inner_f)
    def run(*args: Any, **options: Any) -> None:
        context = driver.make_default_context()
        try:
            inner_f(*args, **options)
        finally:
            context.detach()

    return run


def _context_fixture() -> Iterator[None]:
    context = driver.make_default_context()
    yield
    context.pop()


def make_tables() -> dict[str, ModuleTable]:
    """The modules of PyCUDA."""

    def make_context() -> dict[str, Any]:
        context = driver.make_default_context()
        return {"context": context, "device": context.get_device()}

    scans = {"InclusiveScanKernel": _make_scan(exclusive=False), "ExclusiveScanKernel": _make_scan(exclusive=True)}
    subsets = ("subset_sum", "subset_dot", "subset_min", "subset_max")
    arrays = {
        "GPUArray": GPUArray, "vec": driver.vec, "to_gpu": to_gpu, "array": to_gpu,
        "to_gpu_async": lambda ary, allocator=None, stream=None: to_gpu(ary, allocator, stream=stream),
        "empty": _create(xl.empty), "zeros": _create(xl.zeros, np.float64), "ones": _create(xl.ones, np.float64),
        "empty_like": _create_like(xl.empty), "zeros_like": _create_like(xl.zeros), "ones_like": _create_like(xl.ones),
        "arange": _arange, "take": _take, "where": _where, "if_positive": _if_positive,
        "transpose": lambda a, axes=None: a.transpose(*(axes or ())),
        "reshape": lambda a, *shape, **_: a.reshape(*shape),
        **{name: _reduce(getattr(reductions, name)) for name in ("sum", "dot", "min", "max", "any", "all", *subsets)},
        **{name: _find(name) for name in (
            "stack", "maximum", "minimum", "logical_and", "logical_or", "logical_not", "concatenate",
        )},
    }  # fmt: skip
    generators = ("XORWOWRandomNumberGenerator", "MRG32k3aRandomNumberGenerator")
    return {
        "pycuda": ModuleTable({"VERSION": VERSION, "VERSION_TEXT": ".".join(map(str, VERSION))}),
        "pycuda.autoinit": ModuleTable({}, start=make_context),
        "pycuda.autoprimaryctx": ModuleTable({}, start=make_context),
        "pycuda.driver": ModuleTable(driver.make_driver()),
        "pycuda.compiler": ModuleTable({
            **dict.fromkeys(("SourceModule", "DynamicSourceModule"), driver.SourceModule), "DEFAULT_NVCC_FLAGS": [],
        }),
        "pycuda.gpuarray": ModuleTable(arrays),
        "pycuda.elementwise": ModuleTable({"ElementwiseKernel": PycudaElementwiseKernel}),
        "pycuda.reduction": ModuleTable({"ReductionKernel": PycudaReductionKernel}),
        "pycuda.scan": ModuleTable(scans),
        "pycuda.cumath": ModuleTable({
            **{name: _find_math(theirs) for name, theirs in _MATH.items()}, "fmod": _fmod,
            **{name: _by_numpy(name) for name in ("frexp", "ldexp", "modf")},
        }),
        "pycuda.curandom": ModuleTable({
            "rand": rand, **dict.fromkeys(generators, PycudaGenerator),
            "seed_getter_uniform": lambda n: to_gpu(np.full(n, 1, np.int32)),
            "seed_getter_unique": lambda n: to_gpu(np.arange(1, n + 1, dtype=np.int32)),
        }),
        "pycuda.characterize": ModuleTable({
            "has_double_support": lambda: True, "platform_bits": lambda: 64, "sizeof": lambda name, preamble="": {
                "char": 1, "short": 2, "int": 4, "long": 8, "long long": 8, "float": 4, "double": 8, "void *": 8,
            }[name],
        }),
        "pycuda.tools": ModuleTable({
            "make_default_context": driver.make_default_context, "clear_context_caches": lambda: None,
            "context_dependent_memoize": functools.cache, "DeviceMemoryPool": driver.PooledMemory,
            "PageLockedMemoryPool": driver.PooledPinnedMemory, "dtype_to_ctype": _name_in_c,
            "bitlog2": lambda number: int(number).bit_length() - 1, "VectorArg": PycudaVectorArgument,
            "ScalarArg": PycudaArgument, "mark_cuda_test": _mark_cuda_test,
            "init_cuda_context_fixture": _context_fixture,
        }),
    }  # fmt: skip
