"""cuBLAS: products of matrices, and the factorisation of many small ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xferlib.backends.cuda.libraries import DATA_TYPES, Libraries

if TYPE_CHECKING:
    from xferlib._core.raw import RawStream
    from xferlib.backends.device_math import Product

_COMPUTE = {"float16": "COMPUTE_32F", "float32": "COMPUTE_32F", "complex64": "COMPUTE_32F"}
"""The names of ``cublasComputeType_t``; of the other dtypes it is ``COMPUTE_64F``."""
_ALGORITHM = -1
"""``CUBLAS_GEMM_DEFAULT``."""
_SCALES = {
    name: np.array([0, 1], "float32" if name == "float16" else name) for name in DATA_TYPES
}  # fmt: skip
"""0 and 1 in the dtype in which the sums are scaled."""


class Blas(Libraries):
    """Products by ``cublasGemmEx`` and its kin, with arguments of 64 bits."""

    def multiply(self, product: Product, *, stream: RawStream) -> None:
        """See `DeviceMath.multiply`. cuBLAS counts by columns, so it is told of the transposed product."""
        cublas, (_, count, rows, inner, columns, left, right, out) = self._bindings["cublas"], product
        name = product.dtype.name
        kind, compute = DATA_TYPES[name], getattr(cublas.ComputeType, _COMPUTE.get(name, "COMPUTE_64F"))
        zero = _SCALES[name].ctypes.data
        one = zero + _SCALES[name].itemsize
        first, second = (cublas.Operation.T if each.is_transposed else cublas.Operation.N for each in (right, left))
        if count == 1:
            run = lambda handle: cublas.gemm_ex_64(
                handle, first, second, columns, rows, inner, one, right.pointer, kind, right.leading, left.pointer,
                kind, left.leading, zero, out.pointer, kind, out.leading, compute, _ALGORITHM,
            )  # fmt: skip
        else:
            run = lambda handle: cublas.gemm_strided_batched_ex_64(
                handle, first, second, columns, rows, inner, one, right.pointer, kind, right.leading, right.step,
                left.pointer, kind, left.leading, left.step, zero, out.pointer, kind, out.leading, out.step, count,
                compute, _ALGORITHM,
            )  # fmt: skip
        self._call("cublas", "matmul", stream, run)
