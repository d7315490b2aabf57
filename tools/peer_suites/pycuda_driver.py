"""PyCUDA's `driver` and `compiler` over xferlib: memory, copies, and modules of CUDA source."""

from __future__ import annotations

import re
import types
from typing import Any

import numpy as np

import xferlib as xl
from tools.peer_suites.arrays import PeerArray, bare, checked
from tools.peer_suites.memory import Pointer, allocated
from tools.peer_suites.missing import Partial, needs_compiler, skip
from tools.peer_suites.streams import Event, Stream


def to_device(x: Any) -> Pointer:
    """Memory with the bytes of a host array."""
    made = allocated(x.nbytes)
    memcpy_htod(made, x)
    return made


def from_device(address: Any, shape: Any, dtype: Any) -> Any:
    return xl.to_host(_pointer(address).over(shape, np.dtype(dtype)))


def _pointer(address: Any) -> Pointer:
    return address if isinstance(address, Pointer) else Pointer(address, None)


def _flat(x: Any) -> Any:
    return np.asarray(x).reshape(-1).view(np.uint8)


def memcpy_htod(target: Any, source: Any, stream: Any = None, size: Any = None) -> None:
    found = _flat(source)
    xl.to_device(found, out=_pointer(target).over(found.nbytes, "uint8"), stream=getattr(stream, "own", None))


def memcpy_dtoh(target: Any, source: Any, stream: Any = None) -> None:
    found = _flat(target)
    xl.to_host(_pointer(source).over(found.nbytes, "uint8"), out=found, stream=getattr(stream, "own", None))


def memcpy_dtod(target: Any, source: Any, size: int, stream: Any = None) -> None:
    copied = _pointer(source).over(size, "uint8")
    xl.to_device(copied, out=_pointer(target).over(size, "uint8"), stream=getattr(stream, "own", None))


class Argument:
    """`In`, `Out` and their union: a host array that is copied around a launch, which xferlib's programs write down."""

    is_read, is_written = True, True

    def __init__(self, array: Any) -> None:
        self.array = array

    def upload(self) -> Any:
        flat = _flat(self.array)
        return xl.to_device(flat) if self.is_read else xl.empty(flat.size, "uint8")

    def download(self, native: Any) -> None:
        if self.is_written:
            xl.to_host(native, out=_flat(self.array))


class In(Argument):
    is_written = False


class Out(Argument):
    is_read = False


class Function(Partial):
    """A kernel."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __call__(
        self, *args: Any, block: Any = None, grid: Any = (1, 1), stream: Any = None, shared: int = 0, **others: Any
    ) -> None:
        if others.get("texrefs"):
            skip("textures")
        made = [(each, each.upload()) for each in args if isinstance(each, Argument)]
        copies = iter([native for _, native in made])
        given = [next(copies) if isinstance(each, Argument) else bare(each) for each in args]
        given = [_as_declared(each, place) for each, place in zip(given, self._own.parameters, strict=True)]
        self._own(tuple(grid), tuple(block), given, stream=getattr(stream, "own", None), shared_nbytes=shared)
        for each, native in made:
            if stream is not None:
                stream.synchronize()
            each.download(native)

    def prepare(self, *_: Any, **others: Any) -> Function:
        if others.get("texrefs"):
            skip("textures")
        return self

    def prepared_call(self, grid: Any, block: Any, *args: Any, shared_size: int = 0, **_: Any) -> None:
        self(*args, block=block, grid=grid, shared=shared_size)


def _as_declared(value: Any, parameter: Any) -> Any:
    """Bytes as what the kernel takes: PyCUDA looks at no types."""
    if parameter.is_pointer and getattr(value, "dtype", None) is not None and not np.isscalar(value):
        info = xl.get_backend(value).view(value)
        return int(info.pointer)
    return value


class SourceModule(Partial):
    """`xl.raw_module` by PyCUDA's constructor."""

    def __init__(self, source: str, **options: Any) -> None:
        needs_compiler()
        if "pycuda-" in source:
            skip("PyCUDA's own headers")
        source = re.sub(r"#include <(stdio\.h|cstdio)>", "", source)  # of nvcc; NVRTC has printf, and not the header
        text = (
            source if options.get("no_extern_c") else re.sub(r"(?<!extern )__global__", 'extern "C" __global__', source)
        )
        self._own = xl.raw_module(text)

    def get_function(self, name: str) -> Function:
        return Function(self._own.get_function(name))

    def get_global(self, name: str) -> tuple[Pointer, int]:
        found = self._own.get_global(name, "uint8")
        info = xl.get_backend(found).view(found)
        return Pointer(info.pointer, found, info.nbytes), info.nbytes


class Context:
    """The primary context, which is always current."""

    @staticmethod
    def synchronize() -> None:
        xl.synchronize()

    @staticmethod
    def get_device() -> Any:
        """Its memory; little where the arrays are the host's, so that tests of the largest ones are left out."""
        device = xl.get_device()
        nbytes = device.total_memory if device.kind == "cuda" else 1 << 30
        version = device.properties.compute_capability if device.kind == "cuda" else (9, 0)
        return types.SimpleNamespace(
            total_memory=lambda: nbytes, compute_capability=lambda: version,
            make_context=lambda: skip("a second context"), retain_primary_context=lambda: skip("a second context"),
        )  # fmt: skip


class PointerHolderBase:
    """The base of a program's own allocations."""

    def __int__(self) -> int:
        return int(self.get_pointer())  # type: ignore[attr-defined]

    def over(self, shape: Any, dtype: Any) -> Any:
        return xl.array_over(int(self), shape, dtype, owner=self)


def aligned_empty(shape: Any, dtype: Any, order: Any = "C", **_: Any) -> Any:
    return np.empty(shape, dtype, order)


def _vector(kind: Any, count: int) -> Any:
    return np.dtype([(name, kind) for name in "xyzw"[:count]], align=True)


_KINDS = {
    "char": np.int8, "uchar": np.uint8, "short": np.int16, "ushort": np.uint16, "int": np.int32, "uint": np.uint32,
    "longlong": np.int64, "ulonglong": np.uint64, "float": np.float32, "double": np.float64,
}  # fmt: skip
VECTORS = {f"{name}{count}": _vector(kind, count) for name, kind in _KINDS.items() for count in (2, 3, 4)}
VEC = types.SimpleNamespace(
    **VECTORS,
    **{f"make_{name}": (lambda *parts, kind=kind: np.array(parts, kind)) for name, kind in VECTORS.items()},
)
NAMES: dict[str, Any] = {
    "Context": Context, "Stream": Stream, "Event": Event, "get_driver_version": lambda: 13000,
    "get_version": lambda: (13, 0, 0), "to_device": to_device, "from_device": from_device,
    "from_device_like": lambda address, like: from_device(address, like.shape, like.dtype),
    "mem_alloc": allocated, "mem_alloc_like": lambda x: allocated(x.nbytes), "In": In, "Out": Out,
    f"{In.__name__}{Out.__name__}": Argument,
    "memcpy_htod": memcpy_htod, "memcpy_htod_async": memcpy_htod, "memcpy_dtoh": memcpy_dtoh,
    "memcpy_dtoh_async": memcpy_dtoh, "memcpy_dtod": memcpy_dtod, "memcpy_dtod_async": memcpy_dtod,
    "pagelocked_empty": lambda shape, dtype, **_: xl.pinned_empty(shape, dtype),
    "pagelocked_zeros": lambda shape, dtype, **_: xl.pinned_zeros(shape, dtype),
    "pagelocked_empty_like": lambda x, **_: xl.pinned_empty_like(x),
    "pagelocked_zeros_like": lambda x, **_: xl.pinned_zeros(x.shape, x.dtype),
    "aligned_empty": aligned_empty, "PointerHolderBase": PointerHolderBase,
    "mem_get_info": lambda: (xl.get_device().free_memory, xl.get_device().total_memory),
}  # fmt: skip


def made(
    shape: Any, dtype: Any, allocator: Any = None, base: Any = None, gpudata: Any = None, strides: Any = None,
    order: str = "C",
) -> Any:  # fmt: skip
    """The array that PyCUDA's class makes."""
    checked(dtype)
    if allocator is not None or base is not None or strides is not None:
        skip("arrays by their strides, and allocators")
    if isinstance(gpudata, (Pointer, PointerHolderBase)):
        return gpudata.over(shape, np.dtype(dtype))
    if gpudata is not None:
        return xl.array_over(int(gpudata), shape, dtype, owner=gpudata)
    return xl.empty(shape, np.dtype(dtype), order=order)


def bound(array: PeerArray) -> Any:
    return array.native
