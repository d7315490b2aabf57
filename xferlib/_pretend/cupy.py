"""The modules of CuPy, as tables of names."""

from __future__ import annotations

import contextlib
import functools
import importlib
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._pretend import devices, functions, kernels
from xferlib._pretend.arrays import ndarray, wrap
from xferlib._pretend.functions import by_numpy, to_numpy

VERSION = "14.2.0"
"""Of CuPy, whose names these are."""

_ABSENT = frozenset({
    "array_api", "asmatrix", "bmat", "busday_count", "busday_offset", "chararray", "datetime_as_string", "emath",
    "is_busday", "ma", "matrix", "memmap", "nditer", "poly", "rec", "recarray", "record",
    "trim_zeros", "void",
})  # fmt: skip
"""Names of NumPy's that CuPy has not."""


def _move(values: Any, dtype: Any = None, order: str | None = None, *, copies: bool) -> ndarray:
    if isinstance(values, ndarray):
        if not copies and (dtype is None or np.dtype(dtype) == values.dtype):
            return values
        found = values.copy() if dtype is None else values.astype(dtype)
        return found if order != "F" else found.copy("F")
    if hasattr(values, "__cuda_array_interface__"):
        return wrap(xl.asarray(values, backend="sim"))
    host = np.asarray(to_numpy(values), dtype, order=order or "K")  # type: ignore[call-overload]
    if host.dtype.kind not in "biufc":
        raise ValueError(f"Unsupported dtype {host.dtype}")
    return wrap(xl.to_device(host, backend="sim", order="F" if order == "F" else "C"))


def array(
    object: Any, dtype: Any = None, copy: bool = True, order: str = "K", subok: bool = False, ndmin: int = 0, **_: Any
) -> ndarray:
    """A new array of these values on the current device."""
    found = _move(object, dtype, order, copies=copy)
    return found if found.ndim >= ndmin else found.reshape((1,) * (ndmin - found.ndim) + found.shape)


def asarray(a: Any, dtype: Any = None, order: str | None = None, **_: Any) -> ndarray:
    """The array itself, or its values on the current device."""
    return _move(a, dtype, order, copies=False)


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> Any:
    """The values on the host."""
    if isinstance(a, ndarray):
        return a.get(stream, order, out, blocking)
    return np.asarray(a, order=order)  # type: ignore[call-overload]


def get_array_module(*args: Any) -> Any:
    """This module where one of the arguments is an array of it, else NumPy."""
    import cupy

    return cupy if any(isinstance(each, ndarray) for each in args) else np


def _make(create: Callable[..., Any]) -> Callable[..., ndarray]:
    def call(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
        extents = shape if isinstance(shape, int) else tuple(int(each) for each in np.atleast_1d(to_numpy(shape)))
        return wrap(create(extents, np.dtype(dtype or float), backend="sim", order=(order or "C").upper()))

    call.__name__ = create.__name__
    return call


def _make_like(create: Callable[..., Any]) -> Callable[..., ndarray]:
    def call(a: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
        return _make(create)(a.shape if shape is None else shape, a.dtype if dtype is None else dtype)

    call.__name__ = f"{create.__name__}_like"
    return call


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    return by_numpy(np.where)(condition) if x is None else by_numpy(np.where)(condition, x, y)


def _memoize(for_each_device: bool = False) -> Callable[[Any], Any]:
    return functools.cache


def _fuse(*args: Any, **_: Any) -> Any:
    return args[0] if args and callable(args[0]) else lambda function: function


@contextlib.contextmanager
def _nothing(*_: Any, **__: Any) -> Iterator[None]:
    yield


# --- whole modules by NumPy or SciPy


class _Proxy:
    """An object of the host's, such as a generator of random numbers, whose methods take and give pretended arrays."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._own, name)
        return by_numpy(_with_dtype(found)) if callable(found) else found


def _with_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of random numbers with CuPy's ``dtype=``, which NumPy's has not everywhere."""

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        dtype = options.pop("dtype", None)
        found = function(*args, **options)
        return found if dtype is None else np.asarray(found).astype(dtype)

    return call


_random = np.random.RandomState()
"""The generator of the module's functions: not NumPy's own, which a program seeds by itself."""


def _find_random(name: str) -> Any:
    if name in ("RandomState", "Generator", "default_rng"):
        make = np.random.default_rng if name != "RandomState" else np.random.RandomState
        return lambda *args, **options: _Proxy(make(*map(to_numpy, args), **options))
    if name == "get_random_state":
        return lambda: _Proxy(_random)
    found = getattr(_random, "random_sample" if name in ("random", "sample", "ranf") else name, None)
    return by_numpy(_with_dtype(found)) if callable(found) else None


def _find_in(library: str) -> Callable[[str], Callable[[str], Any]]:
    """How the names of a module are found: in that of another library which has the same name behind ``library``."""

    def make_find(module: str) -> Callable[[str], Any]:
        path = ".".join([library, *module.split(".")[_DEPTHS[library] :]])

        def find(name: str) -> Any:
            try:
                found = getattr(importlib.import_module(path), name, None)
            except ImportError:
                return None
            if isinstance(found, type) and issubclass(found, Exception):
                return found
            return by_numpy(found) if callable(found) and not isinstance(found, type) else None

        return find

    return make_find


_DEPTHS = {"numpy.linalg": 2, "numpy.fft": 2, "scipy": 2}


def _find_function(name: str) -> Any:
    if name in _ABSENT:
        return None
    own = getattr(np, name, None)
    if isinstance(own, types.ModuleType):
        return None
    if isinstance(own, type):
        return own  # a dtype
    return functions.find(name) if callable(own) else own


def make_tables() -> dict[str, tuple[dict[str, Any], Any, bool]]:
    """The names of each module, how others are found in it, and whether it has submodules by any name."""
    nothing = lambda _: lambda _: None
    runtime = {
        "CUDARuntimeError": devices.CUDARuntimeError, "is_hip": False, "runtimeGetVersion": lambda: 13000,
        "driverGetVersion": lambda: 13000, "getDevice": lambda: xl.get_device().index,
        "getDeviceCount": lambda: len(xl.get_backend(xl.zeros(1, backend="sim")).devices()),
        "setDevice": lambda index: devices.NumberedDevice(index).use(), "deviceSynchronize": xl.synchronize,
        "streamSynchronize": lambda pointer: xl.synchronize(), "memGetInfo": lambda: devices.NumberedDevice().mem_info,
        "getDeviceProperties": lambda index: {
        "name": b"simulated device", "totalGlobalMem": devices.NumberedDevice(index).mem_info[1],
        "major": 9, "minor": 0,
            "multiProcessorCount": 132, "warpSize": 32, "maxThreadsPerBlock": 1024, "sharedMemPerBlock": 49152,
        },
        "profilerStart": lambda: None, "profilerStop": lambda: None,
    }  # fmt: skip
    memory = {
        "alloc": devices.allocate,
        "MemoryPointer": devices.CupyMemoryPointer, "UnownedMemory": devices.CupyUnownedMemory,
        "MemoryPool": devices.CupyMemoryPool, "malloc_managed": devices.allocate, "malloc_async": devices.allocate,
        "set_allocator": lambda allocator=None: None, "using_allocator": _nothing,
    }  # fmt: skip
    stream = {
        "Stream": devices.CupyStream, "Event": devices.CupyEvent, "get_current_stream": devices.current_stream,
        "get_elapsed_time": devices.measure_ms,
    }  # fmt: skip
    pinned = {
        "alloc_pinned_memory": devices.allocate_pinned, "PinnedMemoryPool": devices.CupyPinnedMemoryPool,
        "set_pinned_memory_allocator": lambda allocator=None: None,
    }  # fmt: skip
    nvtx = {name: lambda *_, **__: None for name in ("RangePush", "RangePop", "Mark", "RangePushC", "MarkC")}
    pools = devices.CupyMemoryPool(), devices.CupyPinnedMemoryPool()
    top = {
        "__version__": VERSION, "ndarray": ndarray, "array": array, "asarray": asarray, "asanyarray": asarray,
        "ascontiguousarray": lambda a, dtype=None: _move(a, dtype, "C", copies=not _is_contiguous(a)),
        "asfortranarray": lambda a, dtype=None: _move(a, dtype, "F", copies=True), "asnumpy": asnumpy,
        "get_array_module": get_array_module, "ElementwiseKernel": kernels.CupyElementwiseKernel,
        "ReductionKernel": kernels.CupyReductionKernel,
        "RawKernel": kernels.CupyRawKernel, "RawModule": kernels.CupyRawModule,
        "empty": _make(xl.empty), "zeros": _make(xl.zeros), "ones": _make(xl.ones), "empty_like": _make_like(xl.empty),
        "zeros_like": _make_like(xl.zeros), "ones_like": _make_like(xl.ones), "where": _where,
        "copyto": lambda dst, src, **_: dst.__setitem__(Ellipsis, src), "memoize": _memoize, "fuse": _fuse,
        "clear_memo": lambda: None, "is_available": lambda: True,
        "may_share_memory": lambda a, b: a.data.ptr == b.data.ptr,
        "get_default_memory_pool": lambda: pools[0], "get_default_pinned_memory_pool": lambda: pools[1],
        "shape": lambda a: a.shape, "ndim": lambda a: a.ndim,
        "size": lambda a, axis=None: a.size if axis is None else a.shape[axis],
        "reshape": lambda a, shape, order="C": a.reshape(shape, order=order),
        "ravel": lambda a, order="C": a.ravel(order),
        "transpose": lambda a, axes=None: a.transpose(*(() if axes is None else (axes,))),
        "swapaxes": lambda a, axis1, axis2: a.swapaxes(axis1, axis2), "squeeze": lambda a, axis=None: a.squeeze(axis),
        "copy": lambda a, order="K": a.copy(), "scatter_add": lambda a, slices, value: a.scatter_add(slices, value),
        "bool_": np.bool_, "complex_": np.complex128, "float_": np.float64,
    }  # fmt: skip
    cuda = {
        **stream, **memory, **pinned, "Device": devices.NumberedDevice, "get_device_id": lambda: xl.get_device().index,
        "is_available": lambda: True, "get_local_runtime_version": lambda: 13000, "get_cuda_path": lambda: None,
        "profile": _nothing,
    }  # fmt: skip
    return {
        "cupy": (top, lambda _: _find_function, False),
        "cupy.linalg": ({}, _find_in("numpy.linalg"), False),
        "cupy.fft": ({}, _find_in("numpy.fft"), False),
        "cupy.random": ({}, lambda _: _find_random, False),
        "cupy.exceptions": ({"AxisError": np.exceptions.AxisError}, nothing, False),
        "cupy.testing": (_make_testing(), nothing, False),
        "cupy.cuda": (cuda, nothing, False),
        "cupy.cuda.stream": (stream, nothing, False),
        "cupy.cuda.memory": (memory, nothing, False),
        "cupy.cuda.pinned_memory": (pinned, nothing, False),
        "cupy.cuda.device": ({"Device": devices.NumberedDevice,
        "get_compute_capability": lambda: "90"}, nothing, False),
        "cupy.cuda.runtime": (runtime, nothing, False),
        "cupy.cuda.nvtx": (nvtx, nothing, False),
        "cupy.cuda.profiler": ({"start": lambda: None, "stop": lambda: None}, nothing, False),
        "cupy.cuda.compiler": ({"CompileException": xl.errors.KernelCompileError}, nothing, False),
        "cupy_backends": ({}, nothing, False),
        "cupy_backends.cuda": ({}, nothing, False),
        "cupy_backends.cuda.api": ({}, nothing, False),
        "cupy_backends.cuda.api.runtime": (runtime, nothing, False),
        "cupyx": ({
            "scatter_add": lambda a, slices, value: a.scatter_add(slices, value), "errstate": _nothing,
            "allow_synchronize": _nothing,
            "empty_pinned": _make_pinned(xl.pinned_empty), "zeros_pinned": _make_pinned(xl.pinned_zeros),
        }, nothing, False),
        "cupyx.profiler": ({"time_range": _nothing, "profile": _nothing}, nothing, False),
        "cupyx.scipy": ({"get_array_module": get_array_module}, _find_in("scipy"), True),
    }  # fmt: skip


def _is_contiguous(a: Any) -> bool:
    return isinstance(a, ndarray) and bool(a.flags.c_contiguous)


def _make_pinned(create: Callable[..., Any]) -> Callable[..., Any]:
    return lambda shape, dtype=float, order="C": create(shape, np.dtype(dtype), backend="sim")


def _make_testing() -> dict[str, Any]:
    """The comparisons of `cupy.testing`: NumPy's, of copies on the host."""

    def on_host(own: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **options: own(*map(to_numpy, args), **options)

    return {name: on_host(getattr(np.testing, name)) for name in dir(np.testing) if name.startswith("assert_")}
