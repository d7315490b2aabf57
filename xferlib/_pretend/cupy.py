"""The modules of CuPy, as tables of names."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import xferlib as xl
from xferlib._pretend import ModuleTable, functions, kernels, memory, policy, streams
from xferlib._pretend.arrays import arrange, axes_of, check_dtype, make_order, make_shape, ndarray, order_of
from xferlib._pretend.functions import to_numpy

VERSION = "14.2.0"
"""Of CuPy, whose names these are."""

_ABSENT = frozenset({
    "array_api", "asmatrix", "bmat", "busday_count", "busday_offset", "chararray", "datetime_as_string", "emath",
    "is_busday", "ma", "matrix", "memmap", "nditer", "poly", "rec", "recarray", "record",
    "trim_zeros", "void",
})  # fmt: skip
"""Names of NumPy's that CuPy has not."""

by_numpy = functools.partial(functions.by_numpy, cls=ndarray)


def upload(values: Any, dtype: Any = None, order: Any = "K") -> ndarray:
    """A new array with the values of the host's, or of lists with arrays in them."""
    host = np.asarray(to_numpy(values))
    check_dtype(host.dtype)
    if dtype is not None:
        with np.errstate(all="ignore"):
            host = host.astype(check_dtype(dtype))
    made: ndarray = arrange(host, order, lambda x, letter: ndarray.over(xl.to_device(x, order=letter)))
    return made


def adopt(values: Any) -> Any:
    """An array over another library's, which has CUDA's interface for arrays; others as they are."""
    if isinstance(values, ndarray) or not hasattr(values, "__cuda_array_interface__"):
        return values
    return ndarray.over(functions.bare(values))


def array(
    object: Any, dtype: Any = None, copy: Any = True, order: Any = "K", subok: bool = False, ndmin: int = 0, **_: Any
) -> ndarray:
    """A new array of these values on the current device."""
    if hasattr(object, "__cupy_get_ndarray__"):
        policy.refuse("__cupy_get_ndarray__")
    values = adopt(object)
    if isinstance(values, ndarray):
        found = values.astype(values.dtype if dtype is None else dtype, order=order, copy=copy is True)
        found = found if subok or type(found) is ndarray else found.view(ndarray)
        if copy is False and found is not values:
            raise ValueError("array(copy=False): a copy is needed")
    else:
        found = upload(values, dtype, order)
    return found.reshape((1,) * (ndmin - found.ndim) + found.shape) if ndmin > found.ndim else found


def asarray(a: Any, dtype: Any = None, order: Any = "K", **_: Any) -> ndarray:
    """The array itself, or its values on the current device."""
    return array(a, dtype, None, order)


def asnumpy(a: Any, stream: Any = None, order: Any = "C", out: Any = None, *, blocking: bool = True) -> Any:
    """The values on the host."""
    a = adopt(a)
    if isinstance(a, ndarray):
        return a.get(stream, order, out, blocking)
    return np.asarray(a, order=order)


def from_dlpack(x: Any, *, device: Any = None, copy: Any = None) -> ndarray:
    """An array over another library's."""
    if isinstance(x, ndarray):
        return x
    if device is not None or copy is not None:
        raise NotImplementedError("from_dlpack(device=)") if copy is None else BufferError("from_dlpack(copy=)")
    return ndarray.over(xl.namespace().from_dlpack(x))  # type: ignore[no-any-return]


def get_array_module(*args: Any) -> Any:
    """This module where one of the arguments is an array of it, else NumPy."""
    return sys.modules[f"{policy.prefix}cupy"] if any(isinstance(x, ndarray) for x in args) else np


def _make(create: Callable[..., Any]) -> Callable[..., ndarray]:
    def call(shape: Any, dtype: Any = float, order: Any = "C", **_: Any) -> ndarray:
        made = create(make_shape(shape), check_dtype(dtype or float), order=make_order(order))
        return ndarray.over(made)  # type: ignore[no-any-return]

    call.__name__ = create.__name__
    return call


def arrange_like(x: Any, order: Any, shape: tuple[int, ...], make: Callable[[Any, str], Any]) -> Any:
    """A new array in the order of an existing one; if that is to be kept, only where it has as many axes."""
    keeps = order is None or str(order).upper() == "K"
    wanted = "C" if keeps and len(shape) != x.ndim else order_of(x, order)
    if wanted != "K":
        return make(shape, wanted)
    axes = axes_of(x)
    return make(tuple(shape[axis] for axis in axes), "C").transpose(*np.argsort(axes).tolist())


def _make_like(create: Callable[..., Any]) -> Callable[..., ndarray]:
    def call(a: Any, dtype: Any = None, order: Any = "K", subok: Any = None, shape: Any = None, **_: Any) -> ndarray:
        if subok or str(order).upper() not in ("C", "F", "A", "K", "NONE"):
            raise TypeError("subok=True") if subok else ValueError(f"order {order!r}")
        a = a if hasattr(a, "flags") else np.asarray(a)
        kind = check_dtype(a.dtype if dtype is None else dtype)
        extents = a.shape if shape is None else tuple(np.atleast_1d(shape).tolist())
        make = lambda form, letter: ndarray.over(create(form, kind, order=letter))
        return arrange_like(a, order, extents, make)  # type: ignore[no-any-return]

    call.__name__ = f"{create.__name__}_like"
    return call


def _create(function: Callable[..., Any]) -> Callable[..., ndarray]:
    """A function of NumPy's that makes an array of numbers."""

    def call(*args: Any, order: Any = "C", **options: Any) -> ndarray:
        with np.errstate(all="ignore"):
            return upload(function(*map(to_numpy, args), **to_numpy(options)), order=order)

    call.__name__ = function.__name__
    return call


def _full_like(a: Any, fill_value: Any, dtype: Any = None, order: Any = "K", **options: Any) -> ndarray:
    made = _make_like(xl.empty)(a, dtype, order, **options)
    made.fill(fill_value)
    return made


def _where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if policy.is_numpy_allowed:
        return by_numpy(np.where)(condition) if x is None else by_numpy(np.where)(condition, x, y)
    if x is None:
        policy.refuse("cupy.where of one argument")
    return ndarray.over(xl.get_array_module(condition._native).where(*map(functions.bare, (condition, x, y))))


def _compare_places(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy's that looks at addresses, shapes and strides, and at no element."""

    def describe(a: Any) -> Any:
        if not isinstance(a, ndarray):
            return a
        place = {"data": (a.data.ptr, False), "shape": a.shape, "strides": a.strides, "typestr": a.dtype.str}
        return np.asarray(types.SimpleNamespace(__array_interface__={**place, "version": 3}))

    return lambda a, b, max_work=None: function(describe(a), describe(b), max_work)


def _memoize(for_each_device: bool = False) -> Callable[[Any], Any]:
    return functools.cache


def _fuse(*args: Any, **_: Any) -> Any:
    return args[0] if args and callable(args[0]) else lambda function: function


@contextlib.contextmanager
def _nothing(*_: Any, **__: Any) -> Iterator[None]:
    yield


# --- whole modules by NumPy or SciPy


_random = np.random.RandomState()
"""The generator of the module's functions: not NumPy's own, which a program seeds by itself."""


def _find_random(name: str) -> Any:
    if name in ("RandomState", "Generator", "default_rng"):
        make = np.random.default_rng if name != "RandomState" else np.random.RandomState
        return lambda *args, **options: functions.HostObject(make(*map(to_numpy, args), **options), ndarray)
    if name == "get_random_state":
        return lambda: functions.HostObject(_random, ndarray)
    own = "random_sample" if name in ("random", "sample", "ranf") else name
    return getattr(functions.HostObject(_random, ndarray), own, None)


def _find_in(path: str) -> Callable[[str], Any]:
    """How the names of a module of NumPy's or SciPy's are found."""

    def find(name: str) -> Any:
        if not policy.is_numpy_allowed:
            return None
        try:
            found = getattr(importlib.import_module(path), name, None)
        except ModuleNotFoundError as error:
            if error.name == "scipy":  # which has it
                raise
            return None
        if isinstance(found, type) and issubclass(found, Exception):
            return found
        return by_numpy(found) if callable(found) and not isinstance(found, type) else None

    return find


def _find_in_scipy(module: str) -> Callable[[str], Any]:
    path = module.removeprefix(policy.prefix).replace("cupyx.", "", 1)
    find_function = _find_in(path)

    def find(name: str) -> Any:
        own = (
            getattr(importlib.import_module(path), name, None)
            if path == "scipy.sparse" and policy.is_numpy_allowed
            else None
        )
        if isinstance(own, type):
            return functions.HostClass.over(own, ndarray)
        found = find_function(name)
        return _with_tolerance(found) if path == "scipy.sparse.linalg" and callable(found) else found

    return find


def _with_tolerance(function: Callable[..., Any]) -> Callable[..., Any]:
    """A solver with CuPy's ``tol=``, which SciPy has as ``rtol=``."""

    def call(*args: Any, **options: Any) -> Any:
        if "tol" in options:
            options["rtol"] = options.pop("tol")
        return function(*args, **{name: each for name, each in options.items() if (name, each) != ("atol", None)})

    return call


class _RuntimeInfo:
    """The result of `cupyx.get_runtime_info`: lines to print."""

    def __init__(self, *, full: bool = True) -> None: ...

    def __str__(self) -> str:
        device = streams.NumberedDevice(0)
        found = {
            "CuPy Version": f"{VERSION} (pretended by xferlib)", "NumPy Version": np.__version__,
            "CUDA Runtime Version": 13000, "CUDA Driver Version": 13000, "Device 0 Name": "simulated device",
            "Device 0 Compute Capability": device.compute_capability, "Device 0 PCI Bus ID": device.pci_bus_id,
        }  # fmt: skip
        return "".join(f"{name:<28}: {value}\n" for name, value in found.items())


_OF_DTYPES = frozenset({
    "broadcast_shapes", "can_cast", "common_type", "get_printoptions", "isdtype", "isscalar", "issubdtype",
    "iscomplexobj", "isrealobj", "printoptions", "promote_types", "result_type", "set_printoptions",
})  # fmt: skip
"""Functions of NumPy's that look at dtypes and shapes, of arrays too, and at no element."""


def _look(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function, for which arrays without elements stand for arrays."""

    def call(*args: Any, **options: Any) -> Any:
        return function(*(np.empty(0, each.dtype) if isinstance(each, ndarray) else each for each in args), **options)

    return call


def _find_function(name: str) -> Any:
    if name in _ABSENT:
        return None
    own = getattr(np, name, None)
    if name in _OF_DTYPES and own is not None:
        return _look(own)
    if isinstance(own, types.ModuleType):
        return None
    if isinstance(own, type):
        return own  # a dtype
    return functions.find(name, ndarray) if callable(own) else own


def _make_pinned(create: Callable[..., Any]) -> Callable[..., Any]:
    def call(shape: Any, dtype: Any = float, order: Any = "C") -> Any:
        extents = np.atleast_1d(make_shape(shape)).tolist() if shape != () else []
        if make_order(order) not in ("C", "F"):
            raise ValueError(f"order {order!r}")
        block = memory.allocate_in_order(create, tuple(extents), check_dtype(dtype), make_order(order))
        return np.asarray(memory.CupyPinnedPointer(block))

    return call


def _make_pinned_like(create: Callable[..., Any]) -> Callable[..., Any]:
    def call(a: Any, dtype: Any = None, order: Any = "K", subok: Any = None, shape: Any = None) -> Any:
        if subok:
            raise TypeError("subok=True")
        kind = check_dtype(a.dtype if dtype is None else dtype)
        extents = a.shape if shape is None else tuple(np.atleast_1d(shape).tolist())
        block = arrange_like(
            a, order, extents, lambda form, letter: memory.allocate_in_order(create, form, kind, letter)
        )
        return np.asarray(memory.CupyPinnedPointer(block))

    return call


def _make_testing() -> dict[str, Any]:
    """The names of `cupy.testing` that packages use: NumPy's comparisons, of copies on the host, and known numbers.

    Its decorators, which run a test with NumPy and with CuPy, are for CuPy's own tests.
    """

    def on_host(own: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **options: own(*map(to_numpy, args), **options)

    compare = {name: on_host(getattr(np.testing, name)) for name in dir(np.testing) if name.startswith("assert_")}
    return {**compare, **MAKERS}


def _make_numbers(values: Any, xp: Any, dtype: Any, order: Any = "C") -> Any:
    kind = np.dtype(dtype)
    found = np.asarray(values.astype(kind.newbyteorder("=")), kind, order=order)
    return found if xp is np else upload(found, order=order)


def _count(shape: Any, dtype: Any, *, step: int) -> Any:
    """The numbers from 1 on, or down to it; of booleans the even ones are true."""
    counted = np.arange(1, int(np.prod(shape)) + 1)[::step].reshape(shape)
    kind = np.dtype(dtype).kind
    return counted % 2 == 0 if kind == "b" else counted * (1 + 1j) if kind == "c" else counted


def _make_arange(shape: Any, xp: Any = None, dtype: Any = np.float32, order: str = "C") -> Any:
    return _make_numbers(_count(shape, dtype, step=1), xp, dtype, order)


def _make_reverse_arange(shape: Any, xp: Any = None, dtype: Any = np.float32) -> Any:
    return _make_numbers(_count(shape, dtype, step=-1), xp, dtype)


def _make_random(
    shape: Any, xp: Any = None, dtype: Any = np.float32, scale: float = 10, seed: int = 0, order: str = "C"
) -> Any:
    values, kind = np.random.RandomState(seed).rand(*shape) * scale, np.dtype(dtype).kind
    if kind == "c":
        values = values + 1j * np.random.RandomState(seed + 1).rand(*shape) * scale
    return _make_numbers(values > scale / 2 if kind == "b" else values, xp, dtype, order)


MAKERS = {
    "shaped_arange": _make_arange, "shaped_reverse_arange": _make_reverse_arange, "shaped_random": _make_random,
}  # fmt: skip
"""The functions of `cupy.testing` that make arrays."""


def make_tables() -> dict[str, ModuleTable]:
    """The modules of CuPy."""
    runtime = {
        "CUDARuntimeError": streams.CUDARuntimeError, "is_hip": False, "runtimeGetVersion": lambda: 13000,
        "driverGetVersion": lambda: 13000, "getDevice": lambda: xl.get_device().index,
        "getDeviceCount": lambda: len(streams.list_devices()), "streamLegacy": 1, "streamPerThread": 2,
        "setDevice": lambda index: streams.NumberedDevice(index).use(), "deviceSynchronize": xl.synchronize,
        "streamSynchronize": lambda pointer: xl.synchronize(), "memGetInfo": lambda: streams.NumberedDevice().mem_info,
        "getDeviceProperties": lambda index: {
            "name": b"simulated device", "totalGlobalMem": streams.NumberedDevice(index).mem_info[1],
            "major": 9, "minor": 0, "multiProcessorCount": 132, "warpSize": 32, "maxThreadsPerBlock": 1024,
            "sharedMemPerBlock": 49152, "uuid": bytes(15) + bytes([index]),
        },
        "profilerStart": lambda: None, "profilerStop": lambda: None,
    }  # fmt: skip
    device_memory = {
        "alloc": functools.partial(memory.allocate), "MemoryPointer": memory.CupyMemoryPointer,
        "UnownedMemory": memory.CupyUnownedMemory,
        "MemoryPool": memory.CupyMemoryPool,
        "malloc_managed": functools.partial(memory.allocate), "malloc_async": functools.partial(memory.allocate),
        "OutOfMemoryError": xl.errors.DeviceMemoryError,
        "set_allocator": lambda allocator=None: None, "using_allocator": _nothing,
    }  # fmt: skip
    pinned = {
        "alloc_pinned_memory": memory.allocate_pinned, "PinnedMemoryPool": memory.CupyPinnedMemoryPool,
        "set_pinned_memory_allocator": memory.set_pinned_allocator,
    }  # fmt: skip
    stream = {
        "Stream": streams.CupyStream, "Event": streams.CupyEvent, "get_current_stream": streams.current_stream,
        "get_elapsed_time": streams.measure_ms,
    }  # fmt: skip
    nvtx = {name: lambda *_, **__: None for name in ("RangePush", "RangePop", "Mark", "RangePushC", "MarkC")}
    pools = memory.CupyMemoryPool(), memory.CupyPinnedMemoryPool()
    top = {
        "__version__": VERSION, "ndarray": ndarray, "array": array, "asarray": asarray, "asanyarray": asarray,
        "ascontiguousarray": lambda a, dtype=None: asarray(a, dtype, "C"), "from_dlpack": from_dlpack,
        "asfortranarray": lambda a, dtype=None: asarray(a, dtype, "F"), "asnumpy": asnumpy,
        "get_array_module": get_array_module, "ElementwiseKernel": kernels.CupyElementwiseKernel,
        "ReductionKernel": kernels.CupyReductionKernel,
        "RawKernel": kernels.CupyRawKernel, "RawModule": kernels.CupyRawModule,
        "empty": _make(xl.empty), "zeros": _make(xl.zeros), "ones": _make(xl.ones), "empty_like": _make_like(xl.empty),
        "zeros_like": _make_like(xl.zeros), "ones_like": _make_like(xl.ones), "full_like": _full_like,
        **{each.__name__: _create(each) for each in (np.arange, np.linspace, np.eye, np.full)}, "where": _where,
        "copyto": lambda dst, src, **_: dst.__setitem__(Ellipsis, src), "memoize": _memoize, "fuse": _fuse,
        "clear_memo": lambda: None, "is_available": lambda: True,
        **{each.__name__: _compare_places(each) for each in (np.shares_memory, np.may_share_memory)},
        "allclose": lambda a, b, **options: np.allclose(to_numpy(a), to_numpy(b), **options),
        "array_equal": lambda a, b, **options: np.array_equal(to_numpy(a), to_numpy(b), **options),
        "get_default_memory_pool": lambda: pools[0], "get_default_pinned_memory_pool": lambda: pools[1],
        "shape": lambda a: a.shape, "ndim": lambda a: a.ndim,
        "size": lambda a, axis=None: a.size if axis is None else a.shape[axis],
        "reshape": lambda a, shape, order="C": a.reshape(shape, order=order),
        "ravel": lambda a, order="C": a.ravel(order),
        "transpose": lambda a, axes=None: a.transpose(*(() if axes is None else (axes,))),
        "swapaxes": lambda a, axis1, axis2: a.swapaxes(axis1, axis2), "squeeze": lambda a, axis=None: a.squeeze(axis),
        "take": lambda a, indices, axis=None, out=None: a.take(indices, axis, out),
        "copy": lambda a, order="K": a.copy(order),
        "scatter_add": lambda a, slices, value: a.scatter_add(slices, value),
        "newaxis": None, "bool_": np.bool_, "complex_": np.complex128, "float_": np.float64,
    }  # fmt: skip
    cuda = {
        **stream, **device_memory, **pinned, "Device": streams.NumberedDevice,
        "get_device_id": lambda: xl.get_device().index, "is_available": lambda: True,
        "get_local_runtime_version": lambda: 13000, "get_cuda_path": lambda: None, "profile": _nothing,
    }  # fmt: skip
    return {
        "cupy": ModuleTable(top, _find_function),
        "cupy.linalg": ModuleTable({}, _find_in("numpy.linalg")),
        "cupy.fft": ModuleTable({}, _find_in("numpy.fft")),
        "cupy.random": ModuleTable({}, _find_random),
        "cupy.exceptions": ModuleTable({
            "AxisError": np.exceptions.AxisError, "ComplexWarning": np.exceptions.ComplexWarning
        }),
        "cupy.testing": ModuleTable(_make_testing()),
        "cupy.cuda": ModuleTable(cuda),
        "cupy.cuda.stream": ModuleTable(stream),
        "cupy.cuda.memory": ModuleTable(device_memory),
        "cupy.cuda.pinned_memory": ModuleTable(pinned),
        "cupy.cuda.device": ModuleTable({"Device": streams.NumberedDevice, "get_compute_capability": lambda: "90"}),
        "cupy.cuda.runtime": ModuleTable(runtime),
        "cupy.cuda.nvtx": ModuleTable(nvtx),
        "cupy.cuda.profiler": ModuleTable({"start": lambda: None, "stop": lambda: None}),
        "cupy.cuda.compiler": ModuleTable({"CompileException": xl.errors.KernelCompileError}),
        "cupy_backends": ModuleTable({}),
        "cupy_backends.cuda": ModuleTable({}),
        "cupy_backends.cuda.api": ModuleTable({}),
        "cupy_backends.cuda.api.runtime": ModuleTable(runtime),
        "cupyx": ModuleTable({
            "scatter_add": lambda a, slices, value: a.scatter_add(slices, value), "errstate": _nothing,
            "allow_synchronize": _nothing, "get_runtime_info": _RuntimeInfo,
            "empty_pinned": _make_pinned(xl.pinned_empty), "zeros_pinned": _make_pinned(xl.pinned_zeros),
            "empty_like_pinned": _make_pinned_like(xl.pinned_empty),
            "zeros_like_pinned": _make_pinned_like(xl.pinned_zeros),
        }),
        "cupyx.profiler": ModuleTable({"time_range": _nothing, "profile": _nothing}),
        "cupyx.scipy": ModuleTable({"get_array_module": get_array_module}, _find_in_scipy, is_open=True),
    }  # fmt: skip
