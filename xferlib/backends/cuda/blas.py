"""cuBLAS: products of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from xferlib.backends.cuda.libraries import DATA_TYPES, Libraries

if TYPE_CHECKING:
    from xferlib._core.raw import RawStream
    from xferlib.backends.device_math import Multiply, Product

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

    def multiplier(self, product: Product) -> Multiply:
        """See `DeviceMath.multiplier`. cuBLAS counts by columns, so it is told of the transposed product."""
        cublas, (_, count, rows, inner, columns, a, b, c) = self._bindings["cublas"], product
        name = product.dtype.name
        kind, compute = DATA_TYPES[name], int(getattr(cublas.ComputeType, _COMPUTE.get(name, "COMPUTE_64F")))
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
            self._call("cublas", "matmul", stream, enqueue, left, right, out)

        return multiply
