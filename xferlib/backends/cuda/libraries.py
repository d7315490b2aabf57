"""Products of matrices by cuBLAS, through the bindings of nvmath-python, and the errors of CUDA's libraries.

A stream is a property of a handle, so a call takes a handle that no other call has. One is destroyed only if a call
was interrupted; at the end of the process the others go with it.
"""

from __future__ import annotations

import collections
import functools
import importlib
import importlib.metadata
import os
import sys
import threading
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._core.arrays import ArrayInfo
from xferlib._runtime.version import install_command
from xferlib.backends.device_math import DeviceSorting, SortKind
from xferlib.errors import DeviceMemoryError, KernelError, UnsupportedError, XferError

if TYPE_CHECKING:
    from xferlib._core.device import Device, RawStream
    from xferlib.backends.device_math import Multiply, Product


_DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "complex64": 4, "complex128": 5}
"""``cudaDataType`` of each dtype."""
_TOO_LITTLE = ("ALLOC_FAILED", "NO_WORKSPACE")
"""In the names of the results of CUDA's libraries."""
_COMPUTE = {"float16": "COMPUTE_32F", "float32": "COMPUTE_32F", "complex64": "COMPUTE_32F"}
"""The names of ``cublasComputeType_t``; of the other dtypes it is ``COMPUTE_64F``."""
_ALGORITHM = -1
"""``CUBLAS_GEMM_DEFAULT``."""
_SCALES = {
    name: np.array([0, 1], "float32" if name == "float16" else name) for name in _DATA_TYPES
}  # fmt: skip
"""0 and 1 in the dtype in which the sums are scaled."""


def library_failure(library: str, name: str, error: Exception) -> Exception:
    """The error of one of CUDA's libraries as xferlib's; ``name`` says what was asked of it."""
    told = f"{name}: {library} failed with {str(error) or type(error).__name__}"
    if any(each in str(error) for each in _TOO_LITTLE):
        return DeviceMemoryError(f"{told}; free device arrays, or compute with fewer at a time")
    if isinstance(error, RuntimeError):  # the bindings found no library, or no such function in it
        return UnsupportedError(f"{told}; install the library: {install_command('pycuda-math')}")
    return KernelError(f"{told}; `xferlib info` shows the driver and the devices")


class translate_errors:  # noqa: N801 - read as a statement
    """Raise the errors of a library as xferlib's; ``name`` says what was asked of it."""

    def __init__(self, library: str, name: str) -> None:
        self._library = library
        self._name = name

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, XferError):
            raise library_failure(self._library, self._name, error) from error


def load_binding(load: Callable[[str], Any] = importlib.import_module) -> Any:
    """The module that binds cuBLAS; None if nvmath-python is not installed."""
    try:
        return load("nvmath.bindings.cublas")
    except ImportError:
        return None


class Handle:
    """A handle of a library, and the handle of the stream that it works on."""

    def __init__(self, number: int, destroy: Callable[[int], Any]) -> None:
        self.number = number
        self.stream = -1
        self._destroy = destroy
        self._pid = os.getpid()

    def __del__(self) -> None:
        if hasattr(self, "_pid") and self._pid == os.getpid() and not sys.is_finalizing():
            try:
                self._destroy(self.number)
            except Exception:  # the context is going away, and the handle with it
                return


class Blas:
    """Products by ``cublasGemmEx`` and ``cublasGemmStridedBatchedEx``, with arguments of 64 bits.

    Args:
        backend: Makes devices current.
        cublas: The module of `load_binding`.
    """

    def __init__(self, backend: Any, cublas: Any) -> None:
        self._backend = backend
        self._cublas = cublas
        self._idle: dict[int, collections.deque[Handle]] = {}

    def multiplier(self, product: Product) -> Multiply:
        """Prepare the transposed product, since cuBLAS counts by columns: see `MatrixProducts.multiplier`."""
        cublas, (_, count, rows, inner, columns, a, b, c) = self._cublas, product
        name = product.dtype.name
        kind, compute = _DATA_TYPES[name], int(getattr(cublas.ComputeType, _COMPUTE.get(name, "COMPUTE_64F")))
        zero = _SCALES[name].ctypes.data
        one = zero + _SCALES[name].itemsize
        turned, straight = int(cublas.Operation.T), int(cublas.Operation.N)
        first, second = (turned if each.is_transposed else straight for each in (b, a))
        gemm = cublas.gemm_ex_64 if count == 1 else cublas.gemm_strided_batched_ex_64
        # All that does not depend on addresses is computed here: a call for small matrices takes the device 10 us.
        head = (first, second, columns, rows, inner, one)
        two, three, four = (
            (kind, each.leading) if count == 1 else (kind, each.leading, each.step) for each in (b, a, c)
        )
        tail = (*four, compute, _ALGORITHM) if count == 1 else (*four, count, compute, _ALGORITHM)
        of_left, of_right, of_out = a.offset, b.offset, c.offset

        def enqueue(handle: int, left: int, right: int, out: int) -> None:
            gemm(handle, *head, right + of_right, *two, left + of_left, *three, zero, out + of_out, *tail)

        def multiply(left: int, right: int, out: int, *, stream: RawStream) -> None:
            self._call(stream, enqueue, left, right, out)

        return multiply

    def _call(self, stream: RawStream, function: Callable[..., None], *arguments: int) -> None:
        """``function`` of a handle that works on ``stream``, and of ``arguments``."""
        device = stream.device
        idle = self._idle.get(device.index)
        if idle is None:
            idle = self._idle.setdefault(device.index, collections.deque())
        try:
            with self._backend.inside(device):
                try:
                    handle = idle.pop()
                except IndexError:
                    handle = self._make_handle()
                try:
                    if handle.stream != stream.handle:
                        self._cublas.set_stream(handle.number, stream.handle)
                        handle.stream = stream.handle
                    function(handle.number, *arguments)
                finally:
                    idle.append(handle)
        except XferError:
            raise
        except Exception as error:
            raise library_failure("cuBLAS", "matmul", error) from error

    def _make_handle(self) -> Handle:
        cublas = self._cublas
        handle = Handle(cublas.create(), cublas.destroy)
        # Otherwise sums of float16 that are divided among blocks are themselves rounded to float16.
        cublas.set_math_mode(handle.number, cublas.Math.DISALLOW_REDUCED_PRECISION_REDUCTION)
        return handle


# CUB's radix sort, by cuda.compute of cuda-cccl.

_NOWHERE = 256
"""An address that nothing reads."""

Architecture = tuple[int, int]
"""The compute capability."""


def load_compute(load: Callable[[str], Any] = importlib.import_module) -> Any:
    """The module ``cuda.compute``; None if it is not installed, or old, or lacks a library."""
    try:  # it raises or warns where it lacks a library
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = load("cuda.compute")
    except (ImportError, RuntimeError):
        return None
    return found if hasattr(found, "make_radix_sort") and hasattr(found, "serialize") else None


@functools.cache
def _version() -> str:
    try:
        return importlib.metadata.version("cuda-cccl")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


class _Described:
    """An array as cuda.compute takes it."""

    def __init__(self, info: ArrayInfo) -> None:
        self.dtype = info.dtype
        self.shape = info.shape
        self.size = info.size
        self.nbytes = info.nbytes
        self.__cuda_array_interface__ = {
            "data": (info.pointer, False), "shape": info.shape, "strides": None, "typestr": info.dtype.str, "version": 3
        }  # fmt: skip


class _Stream:
    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


class CudaSorting(DeviceSorting):
    """Sorts by bits, stable, in one pass for each eight.

    Args:
        backend: Allocates the temporary memory, makes devices current, and knows their architectures.
        compute: The module ``cuda.compute``.
    """

    def __init__(self, backend: Any, compute: Any) -> None:
        self._backend = backend
        self._compute = compute
        self._codes: dict[tuple[SortKind, Architecture], bytes] = {}
        self._architectures: dict[int, Architecture] = {}
        self._local = threading.local()

    def fingerprint(self, device: Device) -> str:
        """See `DeviceSorting.fingerprint`."""
        return f"cuda-cccl {_version()}, NVRTC {self._backend.compiler_version()}, {self._architecture(device)}"

    def is_loaded(self, kind: SortKind, device: Device) -> bool:
        """See `DeviceSorting.is_loaded`."""
        return (kind, self._architecture(device)) in self._codes

    def compile(self, kind: SortKind, device: Device) -> bytes:
        """See `DeviceSorting.compile`."""
        compute = self._compute
        # Its own ProxyArray has address 0, for which values are left out of the code.
        keys, values = (
            None if each is None else _Described(ArrayInfo(_NOWHERE, (1,), (each.itemsize,), each, device, True))
            for each in (kind.keys, kind.values)
        )
        order = compute.SortOrder.DESCENDING if kind.is_descending else compute.SortOrder.ASCENDING
        with translate_errors("cuda-cccl", "sort"):
            made = compute.make_radix_sort(
                d_in_keys=keys, d_out_keys=keys, d_in_values=values, d_out_values=values, order=order,
                compute_capability=self._architecture(device),
            )  # fmt: skip
            return bytes(compute.serialize(made))

    def load(self, kind: SortKind, code: bytes, device: Device) -> None:
        """See `DeviceSorting.load`."""
        key = kind, self._architecture(device)
        with translate_errors("cuda-cccl", "sort"):
            self._sorters()[key] = self._compute.deserialize(code)
        self._codes[key] = code

    def _architecture(self, device: Device) -> Architecture:
        found = self._architectures.get(device.index)
        if found is None:
            found = self._architectures[device.index] = self._backend.compute_capability(device)
        return found

    def _sorters(self) -> dict[tuple[SortKind, Architecture], Any]:
        """This thread's sorters: each keeps the arguments of its call in itself."""
        found: dict[tuple[SortKind, Architecture], Any] = self._local.__dict__.setdefault("sorters", {})
        return found

    def sort(
        self,
        keys: ArrayInfo,
        sorted_keys: ArrayInfo,
        values: tuple[ArrayInfo, ArrayInfo] | None,
        *,
        is_descending: bool,
        bits: int | None = None,
        stream: RawStream,
    ) -> None:
        """See `DeviceSorting.sort`."""
        kind = SortKind(keys.dtype, None if values is None else values[0].dtype, is_descending)
        key = kind, self._architecture(stream.device)
        before, after = (None, None) if values is None else map(_Described, values)
        options = {
            "d_in_keys": _Described(keys), "d_out_keys": _Described(sorted_keys), "d_in_values": before,
            "d_out_values": after, "num_items": keys.size, "begin_bit": 0, "end_bit": bits,
            "stream": _Stream(stream.handle),
        }  # fmt: skip
        with translate_errors("cuda-cccl", "sort"), self._backend.inside(stream.device):
            sorters = self._sorters()
            sorter = sorters.get(key)
            if sorter is None:
                sorter = sorters[key] = self._compute.deserialize(self._codes[key])
            nbytes = max(int(sorter(temp_storage=None, **options)), 1)
            memory = self._backend.empty((nbytes,), np.dtype("uint8"), device=stream.device, stream=stream)
            sorter(temp_storage=_Described(self._backend.view(memory)), **options)
