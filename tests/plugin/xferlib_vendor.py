"""A device whose products, linear algebra and transforms are libraries', with doubles that compute with NumPy.

The double of cuBLAS takes addresses, leading dimensions and steps, column by column, and refuses what cuBLAS refuses.
Its arrays are those of `xferlib_bare`, whose memory the host pretends not to read.
"""

from __future__ import annotations

import ctypes
import itertools
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
from xferlib_bare import BareBackend

from xferlib.backends.base import WHY_HOST, ArrayInfo, Capabilities, Device, RawStream
from xferlib.backends.cuda.libraries import Blas
from xferlib.backends.host import over as host_memory

DTYPES = {0: "float32", 1: "float64", 2: "float16", 4: "complex64", 5: "complex128"}


def memory(pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
    """An array over an address, with strides in elements."""
    dtype = np.dtype(dtype)
    if 0 in shape:
        return np.empty(shape, dtype)
    last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    raw = (ctypes.c_byte * ((last + 1) * dtype.itemsize)).from_address(pointer)
    return np.ndarray(shape, dtype, raw, 0, tuple(each * dtype.itemsize for each in strides))


def by_columns(pointer: int, rows: int, columns: int, leading: int, dtype: Any) -> Any:
    """A matrix as the libraries see it."""
    if leading < max(rows, 1):
        raise VendorError("INVALID_VALUE (leading dimension)")
    return memory(pointer, (rows, columns), (1, leading), dtype)


class VendorError(Exception):
    """A result of a library that is no success."""


class Library:
    """The handles of one library, and what was asked of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.alive: set[int] = set()
        self.streams: dict[int, int] = {}
        self.fail: str | None = None
        self._numbers = itertools.count(1)

    def create(self) -> int:
        number = next(self._numbers)
        self.alive.add(number)
        return number

    def destroy(self, handle: int) -> None:
        self.alive.remove(handle)

    def set_stream(self, handle: int, stream: int) -> None:
        self.streams[handle] = stream

    def note(self, name: str, handle: int, *args: Any) -> None:
        """Record a call, which fails if the test wants it."""
        assert handle in self.alive
        assert handle in self.streams
        if self.fail is not None:
            raise VendorError(self.fail)
        self.calls.append((name, args))


class Cublas(Library):
    Math = SimpleNamespace(DISALLOW_REDUCED_PRECISION_REDUCTION=16)
    Operation = SimpleNamespace(N=0, T=1, C=2)
    ComputeType = SimpleNamespace(COMPUTE_32F=68, COMPUTE_64F=70)

    def set_math_mode(self, handle: int, mode: int) -> None:
        assert mode == 16

    def gemm_ex_64(
        self, handle: int, ta: int, tb: int, m: int, n: int, k: int, alpha: int, a: int, atype: int, lda: int, b: int,
        btype: int, ldb: int, beta: int, c: int, ctype: int, ldc: int, compute: int, algorithm: int,
    ) -> None:  # fmt: skip
        self.note("gemm", handle, ta, tb, m, n, k, lda, ldb, ldc)
        self._gemm(ta, tb, m, n, k, alpha, a, atype, lda, b, btype, ldb, beta, c, ctype, ldc, compute, algorithm)

    def gemm_strided_batched_ex_64(
        self, handle: int, ta: int, tb: int, m: int, n: int, k: int, alpha: int, a: int, atype: int, lda: int,
        step_a: int, b: int, btype: int, ldb: int, step_b: int, beta: int, c: int, ctype: int, ldc: int, step_c: int,
        count: int, compute: int, algorithm: int,
    ) -> None:  # fmt: skip
        self.note("gemm_batched", handle, ta, tb, m, n, k, lda, step_a, ldb, step_b, ldc, step_c, count)
        size = np.dtype(DTYPES[atype]).itemsize
        for i in range(count):
            one, two, three = a + i * step_a * size, b + i * step_b * size, c + i * step_c * size
            self._gemm(
                ta, tb, m, n, k, alpha, one, atype, lda, two, btype, ldb, beta, three, ctype, ldc, compute, algorithm
            )

    def _gemm(
        self, ta: int, tb: int, m: int, n: int, k: int, alpha: int, a: int, atype: int, lda: int, b: int, btype: int,
        ldb: int, beta: int, c: int, ctype: int, ldc: int, compute: int, algorithm: int,
    ) -> None:  # fmt: skip
        assert atype == btype == ctype
        assert algorithm == -1
        dtype = DTYPES[atype]
        assert compute == (68 if dtype in ("float16", "float32", "complex64") else 70)
        scale = "float32" if dtype == "float16" else dtype
        assert memory(alpha, (1,), (1,), scale)[0] == 1
        assert memory(beta, (1,), (1,), scale)[0] == 0
        first = by_columns(a, k, m, lda, dtype).T if ta else by_columns(a, m, k, lda, dtype)
        second = by_columns(b, n, k, ldb, dtype).T if tb else by_columns(b, k, n, ldb, dtype)
        target = by_columns(c, m, n, ldc, dtype)
        # As einsum adds: in the order of k, so that a test may expect the very bits.
        target[...] = np.einsum("mk,kn->mn", first.astype(scale), second.astype(scale), optimize=False)


def _solve(a: Any, b: Any) -> Any:
    assert a.shape[:-2] == b.shape[:-2], "not every library broadcasts stacks"
    return np.linalg.solve(a, b)


class NumpyLibrary:
    """NumPy as the library of a device, whose calls are counted."""

    namespace = SimpleNamespace(
        **vars(np) | {"linalg": SimpleNamespace(**vars(np.linalg) | {"solve": _solve}), "fft": np.fft}
    )

    def __init__(self) -> None:
        self.calls = 0

    def inside(self, stream: RawStream) -> AbstractContextManager[None]:
        self.calls += 1
        return nullcontext()

    def view(self, info: ArrayInfo) -> Any:
        assert info.is_c_contiguous
        return host_memory(info.pointer, info.shape, info.dtype, None)


class VendorArray:
    """Owns a NumPy array, or a view of one."""

    def __init__(self, data: Any) -> None:
        self.data = data
        self.shape = data.shape
        self.dtype = data.dtype


class VendorBackend(BareBackend):
    """The model for a library whose device has libraries of linear algebra."""

    name = "vendor"
    array_types = ("xferlib_vendor.VendorArray",)
    capabilities = Capabilities(strided=True, namespace=True, why=WHY_HOST)
    array_class = VendorArray
    ARCHITECTURE = (9, 0)

    def __init__(self) -> None:
        super().__init__()
        self.cublas = Cublas()
        self.products = Blas(self, self.cublas)
        self.function_library = NumpyLibrary()
        self.entered: list[Device] = []
        self.consumptions: list[tuple[Any, RawStream]] = []

    def over(
        self, pointer: int, shape: tuple[int, ...], dtype: np.dtype[Any], *, device: Device, owner: Any
    ) -> VendorArray:
        return VendorArray(host_memory(pointer, shape, dtype, owner))

    def note_use(self, array: VendorArray, stream: RawStream) -> None:
        self.consumptions.append((array, stream))

    def compute_capability(self, device: Device) -> tuple[int, int]:
        return self.ARCHITECTURE

    def compiler_version(self) -> str:
        return "13.0"

    def inside(self, device: Device) -> AbstractContextManager[None]:
        self.entered.append(device)
        return nullcontext()

    def compute_on_host(self, *args: Any) -> bool:
        return False
