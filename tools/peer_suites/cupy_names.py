"""CuPy's names, as far as its tests of kernels, reductions, streams, memory and arrays use them."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

import numpy as np

import xferlib as xl
from tools.peer_suites import cupy_testing
from tools.peer_suites.adapting import SHIM
from tools.peer_suites.arrays import (
    PeerArray,
    adopted,
    axes_of,
    bare,
    calling,
    checked,
    dressed,
    host,
    namespaced,
    order_of,
    uploaded,
    wrap,
)
from tools.peer_suites.cupy_kernels import (
    ElementwiseKernel,
    RawKernel,
    RawModule,
    ReductionKernel,
    create_reduction_func,
    get_arch,
    run_nvcc,
)
from tools.peer_suites.memory import MemoryPointer, PinnedPointer, UnownedMemory, allocated
from tools.peer_suites.missing import Missing, skip
from tools.peer_suites.streams import Device, Event, NullStream, Stream, current_stream


def made(
    shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: Any = "C", **others: Any
) -> Any:
    """The array that CuPy's class makes: uninitialized elements, or a view of memory."""
    if others or strides is not None:
        skip("arrays by their strides")
    extents = shape_of(shape)
    if memptr is not None:
        return memptr.over(extents, checked(dtype))
    return xl.empty(extents, checked(dtype), order=_letter(order))


def shape_of(shape: Any) -> Any:
    return shape if isinstance(shape, (int, np.integer)) else tuple(shape)


def _letter(order: Any) -> str:
    """The order of a new array."""
    chosen = {"CONTIGUOUS": "C", "FORTRAN": "F", "": "C", "NONE": "C", "K": "C", "A": "C"}
    return chosen.get(str(order).upper(), str(order).upper())


def _filled(function: Any) -> Any:
    return lambda shape, dtype=float, order="C", **_: wrap(
        function(shape_of(shape), checked(dtype or float), order=_letter(order))
    )


def kind_of(x: Any, dtype: Any) -> Any:
    return checked(x.dtype if dtype is None else dtype)


def arranged_like(x: Any, order: Any, shape: tuple[int, ...], make: Any, dress: Any = wrap) -> Any:
    """A new array in the order of an existing one; if that is to be kept, only where it has as many axes."""
    keeps = order is None or str(order).upper() == "K"
    wanted = "C" if keeps and len(shape) != x.ndim else order_of(x, order)
    if wanted != "K":
        return dress(make(shape, wanted))
    axes = axes_of(x)
    return dress(make(tuple(shape[axis] for axis in axes), "C")).transpose(*np.argsort(axes).tolist())


def _like(function: Any) -> Any:
    def call(x: Any, dtype: Any = None, order: Any = "K", subok: Any = None, shape: Any = None, **_: Any) -> Any:
        if subok or str(order).upper() not in ("C", "F", "A", "K", "NONE"):
            raise TypeError if subok else ValueError
        extents = x.shape if shape is None else tuple(np.atleast_1d(shape).tolist())
        return arranged_like(x, order, extents, lambda form, letter: function(form, kind_of(x, dtype), order=letter))

    return call


def array(
    values: Any, dtype: Any = None, copy: Any = True, order: Any = "K", subok: bool = False, ndmin: int = 0, **_: Any
) -> PeerArray:
    """`cupy.array`."""
    if hasattr(values, "__cupy_get_ndarray__"):
        skip("__cupy_get_ndarray__, CuPy's own protocol")
    values = dressed(adopted(values)) if hasattr(values, "__cuda_array_interface__") else values
    if isinstance(values, PeerArray):
        found = values.astype(values.dtype if dtype is None else dtype, order=order, copy=copy is True)
        if copy is False and found is not values:
            raise ValueError("a copy is needed")
    else:
        found = uploaded(values, dtype, order)
    return found.reshape(*(1,) * (ndmin - found.ndim), *found.shape) if ndmin > found.ndim else found


def asarray(values: Any, dtype: Any = None, order: Any = "K", **_: Any) -> PeerArray:
    return array(values, dtype, None, order)


def asnumpy(x: Any, stream: Any = None, order: Any = "C", out: Any = None, **_: Any) -> Any:
    x = dressed(adopted(x)) if hasattr(x, "__cuda_array_interface__") else x
    if not isinstance(x, PeerArray):
        return np.asarray(x, order=order)
    return x.get(stream=stream, out=out, order=order)


def from_dlpack(x: Any, *, device: Any = None, copy: Any = None) -> PeerArray:
    if type(x).__name__ == "PyCapsule":
        skip("capsules of DLPack without the array")
    if copy is not None or device is not None:
        raise NotImplementedError if copy is None else BufferError
    return wrap(xl.get_backend().namespace().from_dlpack(x))


def scan(x: PeerArray, out: Any = None) -> PeerArray:
    """The inclusive sum that CuPy's tests call `scan`."""
    return wrap(xl.scan("a + b")(x.native, out=bare(out)))


def size(x: Any, axis: int | None = None) -> Any:
    return x.size if axis is None else x.shape[axis]


def _random(*shape: Any, **options: Any) -> PeerArray:
    return wrap(xl.random.default_rng(0).random(shape, options.get("dtype", "float64")))


def _integers(low: int, high: int | None = None, size: Any = None, **_: Any) -> PeerArray:
    return wrap(xl.random.default_rng(0).integers(low, high, () if size is None else size))


def _module_of(*arrays: Any) -> Any:
    return sys.modules[f"{SHIM}.cupy"] if any(isinstance(x, PeerArray) for x in arrays) else np


class DiskCache:
    """CuPy's cache of kernels; xferlib has its own."""

    def __init__(self, path: str) -> None:
        if type(self) is not DiskCache:
            skip("CuPy's cache of kernels")


def _arguments(code: str, **_: Any) -> Any:
    module = RawModule(code=code)
    return types.SimpleNamespace(get_function=module.get_function)


def _pinned(function: Any) -> Any:
    def call(shape: Any, dtype: Any = float, order: Any = "C") -> Any:
        extents = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(shape)
        if _letter(order) not in ("C", "F"):
            raise ValueError(f"order {order!r}")
        is_fortran = _letter(order) == "F"
        block = function(tuple(reversed(extents)) if is_fortran else extents, checked(dtype))
        return np.asarray(PinnedPointer(block.T if is_fortran else block))

    return call


def _pinned_like(function: Any) -> Any:
    def call(x: Any, dtype: Any = None, order: Any = "K", subok: Any = None, shape: Any = None) -> Any:
        if subok:
            raise TypeError
        extents = x.shape if shape is None else tuple(np.atleast_1d(shape).tolist())

        def made(form: Any, letter: str) -> Any:
            return function(form, kind_of(x, dtype)) if letter == "C" else function(form[::-1], kind_of(x, dtype)).T

        return np.asarray(PinnedPointer(arranged_like(x, order, extents, made, dress=lambda block: block)))

    return call


def _alloc_pinned(nbytes: int) -> Any:
    return xl.pinned_empty(int(nbytes), "uint8")


AXIS_ERRORS = (np.exceptions.AxisError, xl.errors.KernelShapeError)
"""NumPy's, and those of reductions."""
_FUNCTIONS = (
    "sin", "cos", "exp", "log", "sqrt", "maximum", "minimum", "matmul", "argmin", "argmax", "add", "subtract",
    "multiply", "conj", "abs", "isnan", "stack", "moveaxis", "broadcast_to", "expand_dims", "squeeze", "flip", "roll",
)  # fmt: skip
NUMPY = {
    name: getattr(np, name)
    for name in (
        "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "bool_", "complex64", "complex128", "dtype", "pi", "inf", "nan", "newaxis", "issubdtype", "integer",
        "floating", "unsignedinteger", "signedinteger", "complexfloating", "iinfo", "finfo", "result_type", "ndindex",
    )
}  # fmt: skip
_ARRAYS: dict[str, Any] = {
    **NUMPY,
    "ndarray": PeerArray,
    "ElementwiseKernel": ElementwiseKernel,
    "ReductionKernel": ReductionKernel,
    "RawKernel": RawKernel,
    "RawModule": RawModule,
    "array": array,
    "asarray": asarray,
    "asanyarray": asarray,
    "ascontiguousarray": lambda x, dtype=None: asarray(x, dtype, "C"),
    "asfortranarray": lambda x, dtype=None: asarray(x, dtype, "F"),
    "asnumpy": asnumpy,
    "from_dlpack": from_dlpack,
    "arange": lambda *args, **options: uploaded(np.arange(*args, **options)),
    "linspace": lambda *args, **options: uploaded(np.linspace(*args, **options)),
    "eye": lambda *args, **options: uploaded(np.eye(*args, **options)),
    "empty": _filled(xl.empty),
    "zeros": _filled(xl.zeros),
    "ones": _filled(xl.ones),
    "full": lambda shape, value, dtype=None, order="C", **_: uploaded(np.full(shape, host(value), dtype), order=order),
    "empty_like": _like(xl.empty),
    "zeros_like": _like(xl.zeros),
    "ones_like": _like(xl.ones),
    "full_like": lambda x, value, dtype=None, **options: _like(xl.empty)(x, dtype, **options).fill(value),
    "copy": lambda x, order="K": x.copy(order),
    "copyto": lambda target, source: target.__setitem__(Ellipsis, source),
    "size": size,
    "sum": calling(xl.kernels.reductions.sum),
    "allclose": lambda x, y, **options: np.allclose(host(x), host(y), **options),
    "array_equal": lambda x, y: np.array_equal(host(x), host(y)),
    "may_share_memory": lambda x, y: x.data.ptr == y.data.ptr,
    "concatenate": lambda arrays, axis=0: namespaced("concat")(arrays, axis=axis),
    "swapaxes": lambda x, first, second: x.swapaxes(first, second),
    "transpose": lambda x, axes=None: x.transpose(*(axes or ())),
    "ravel": lambda x, order="C": x.ravel(order),
    "reshape": lambda x, shape, order="C": x.reshape(shape, order=order),
    "get_array_module": _module_of,
    "get_default_pinned_memory_pool": lambda: _POOL,
    "where": lambda *args: namespaced("where")(*args) if len(args) == 3 else skip("cupy.where of one argument"),
    **{name: namespaced(name) for name in _FUNCTIONS},
}
_STREAMS: dict[str, Any] = {
    "Stream": Stream, "Event": Event, "get_current_stream": current_stream,
    "get_elapsed_time": lambda start, end: start.time_till(end),
    "ExternalStream": Missing("cupy.cuda.ExternalStream"),
}  # fmt: skip
_MEMORY: dict[str, Any] = {
    "alloc": allocated, "MemoryPointer": MemoryPointer, "UnownedMemory": UnownedMemory,
    "_malloc": functools.partial(allocated), "malloc_async": functools.partial(allocated),
}  # fmt: skip


class PinnedPool:
    """CuPy's pool of pinned memory: xferlib's own, which a limit closes where an allocator would have nothing."""

    malloc = staticmethod(_alloc_pinned)

    def n_free_blocks(self) -> int:
        skip("free blocks of the pinned pool, counted")

    def free_all_blocks(self) -> None:
        xl.trim()


_POOL: Any = PinnedPool()


def set_pinned_memory_allocator(allocate: Any = _alloc_pinned) -> None:
    xl.configure(pinned_limit=0 if allocate is _alloc_pinned else 1)


_RUNTIME: dict[str, Any] = {
    "is_hip": False, "runtimeGetVersion": lambda: 13000, "driverGetVersion": lambda: 13000,
    "getDevice": lambda: xl.get_device().index, "streamLegacy": 1, "streamPerThread": 2,
    "getDeviceCount": lambda: len(xl.get_backend().devices()), "CUDARuntimeError": xl.errors.XferError,
    "deviceSynchronize": xl.synchronize, "deviceGetAttribute": lambda *_: 1, "cudaDevAttrMemoryPoolsSupported": 115,
}  # fmt: skip
NAMES: dict[str, dict[str, Any]] = {
    "cupy": _ARRAYS,
    "cupy.testing": cupy_testing.NAMES,
    "cupy.testing._loops": cupy_testing.LOOPS,
    "cupy.testing._protocol_helpers": cupy_testing.PROTOCOLS,
    "cupy.random": {
        "random": lambda shape=(), dtype=float: _random(*np.atleast_1d(shape), dtype=dtype),
        "rand": _random,
        "randint": _integers,
        "random_integers": lambda low, high, size: _integers(low, high + 1, size),
        "uniform": lambda low, high, size, **_: wrap(xl.random.default_rng(0).uniform(low, high, size)),
    },
    "cupy.exceptions": {"AxisError": AXIS_ERRORS, "ComplexWarning": np.exceptions.ComplexWarning},
    "cupy.cuda": {
        **_STREAMS, "Device": Device, "alloc": allocated, "alloc_pinned_memory": _alloc_pinned,
        "get_nvcc_path": lambda: "nvcc",
        "set_pinned_memory_allocator": set_pinned_memory_allocator, "MemoryPointer": MemoryPointer,
        "PinnedMemoryPointer": PinnedPointer,
        "UnownedMemory": UnownedMemory, "get_local_runtime_version": lambda: 13000,
        "get_device_id": lambda: xl.get_device().index, "is_available": lambda: True,
    },
    "cupy.cuda.stream": _STREAMS,
    "cupy.cuda.runtime": _RUNTIME,
    "cupy.cuda.device": {"Device": Device, "get_compute_capability": get_arch},
    "cupy.cuda.memory": _MEMORY,
    "cupy.cuda.pinned_memory": {},
    "cupy.cuda.driver": {
        "CUDADriverError": (xl.errors.XferError, OSError), "get_build_version": lambda: 13000,
        "_is_cuda_python": lambda: True,
    },
    "cupy.cuda.compiler": {
        "CompileException": xl.errors.KernelCompileError, "_run_cc": run_nvcc, "_get_arch": get_arch,
        "_get_bool_env_variable": lambda name, default: default, "_compile_module_with_cache": _arguments,
        "_kernel_cache_backend": None, "_empty_file_preprocess_cache": {},
    },
    "cupy.cuda._compiler_cache": {"DiskKernelCacheBackend": DiskCache},
    "cupy._util": {"clear_memo": lambda: None, "ENABLE_SLICE_COPY": True, "CUDA_ARRAY_INTERFACE_EXPORT_VERSION": 3},
    "cupy._core": {
        "create_reduction_func": create_reduction_func, "ReductionKernel": ReductionKernel, "ndarray": PeerArray,
        "array": array,
    },
    "cupy._core.core": {"ndarray": PeerArray, "array": array},
    "cupy._core._accelerator": {"ACCELERATOR_CUB": 1, "get_reduction_accelerators": list},
    "cupy._core._routines_math": {"_scan_for_test": scan},
    "cupy._creation.from_data": {"array": array},
    "cupyx": {
        "empty_pinned": _pinned(xl.pinned_empty), "zeros_pinned": _pinned(xl.pinned_zeros),
        "empty_like_pinned": _pinned_like(xl.pinned_empty), "zeros_like_pinned": _pinned_like(xl.pinned_zeros),
    },
    "cupy_tests.core_tests": {},
    "cupy_backends.cuda.stream": {"get_default_stream_ptr": lambda: 1},
    "cupy_backends.cuda.api.runtime": _RUNTIME,
    "cupy_backends.cuda.api.driver": {"get_build_version": lambda: 13000},
    "cupy_backends.cuda.libs.nvrtc": {"getVersion": lambda: (13, 0)},
}  # fmt: skip
_TESTS = "tests/cupy_tests"
FILES = [
    *(f"{_TESTS}/core_tests/test_{name}.py" for name in (
        "userkernel", "reduction", "elementwise", "raw", "scan", "function", "ndarray", "ndarray_copy_and_view",
        "ndarray_get", "ndarray_indexing", "ndarray_conversion", "ndarray_contiguity",
        "ndarray_owndata", "ndarray_cuda_array_interface",
        "dlpack", "flags", "iter", "core",
    )),
    *(f"{_TESTS}/cuda_tests/test_{name}.py" for name in ("stream", "graph", "device", "memory", "pinned_memory")),
    *(f"{_TESTS}/creation_tests/test_{name}.py" for name in ("from_data", "basic")),
    "tests/cupyx_tests/test_pinned_array.py",
]  # fmt: skip


def prepare() -> None:
    PeerArray.made = staticmethod(made)
    Stream.null = NullStream(null=True)
    if xl.get_backend().capabilities.streams:
        Stream.ptds = Stream(ptds=True)
