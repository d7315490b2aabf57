"""Other libraries for the namespace of a device: products of matrices, linear algebra, transforms.

A backend whose arrays xferlib gives a namespace may have each of these, as `Backend.products` and
`Backend.function_library`. Shared code prepares the operands, so that each method is a few calls of a library.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from xferlib._core.arrays import ArrayInfo
    from xferlib._core.device import RawStream


class Matrices(NamedTuple):
    """Matrices in an array, each row by row; distances are in elements."""

    offset: int
    """Of the first one, in bytes from the array's address."""
    leading: int
    """From one row to the next; from one column to the next where ``is_transposed``."""
    step: int
    """From one matrix to the next; 0: there is one for all."""
    is_transposed: bool = False
    """Whether they lie column by column."""


class Product(NamedTuple):
    """``out = left @ right`` for a batch of matrices of ``rows`` and ``inner``, and of ``inner`` and ``columns``."""

    dtype: np.dtype[Any]
    """Of all three, float or complex; float16 is summed in float32."""
    batch: int
    rows: int
    inner: int
    columns: int
    left: Matrices
    right: Matrices
    out: Matrices


class Multiply(Protocol):
    """Multiplies the matrices of arrays, which are given by their addresses."""

    def __call__(self, left: int, right: int, out: int, *, stream: RawStream) -> None: ...


class MatrixProducts(Protocol):
    """A library that multiplies matrices."""

    def multiplier(self, product: Product) -> Multiply:
        """Prepare the multiplication of matrices that lie so in three arrays."""


class FunctionLibrary(Protocol):
    """Another array library, which computes over the memory of a backend's arrays."""

    namespace: Any
    """Its module with ``linalg`` and ``fft``, whose functions are NumPy's."""

    def inside(self, stream: RawStream) -> AbstractContextManager[None]:
        """For a block: its functions enqueue on ``stream``, and raise ``LinAlgError`` for a singular matrix."""

    def view(self, info: ArrayInfo) -> Any:
        """One of its arrays over the memory of an array in C order."""
