"""Products of matrices by cuBLAS, through the bindings of nvmath-python, and the errors of CUDA's libraries.

A stream is a property of a handle, so a call takes a handle that no other call has. One is destroyed only if a call
was interrupted; at the end of the process the others go with it.
"""

from __future__ import annotations

import collections
import importlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xferlib._runtime.version import install_command
from xferlib.errors import DeviceMemoryError, KernelError, UnsupportedError, XferError

if TYPE_CHECKING:
    from xferlib._core.backend import Multiply, Product
    from xferlib._core.device import RawStream


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
