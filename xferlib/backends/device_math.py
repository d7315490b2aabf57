"""Other libraries for the namespace of a device: products of matrices, linear algebra, transforms, sorts.

A backend whose arrays xferlib gives a namespace may have each of these, as `Backend.products`,
`Backend.function_library` and `Backend.sorting`. Shared code prepares the operands, so that each method is a few calls
of a library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from xferlib._core.arrays import ArrayInfo
    from xferlib._core.device import Device, RawStream


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


class SortKind(NamedTuple):
    """The sorts for which there is one machine code."""

    keys: np.dtype[Any]
    values: np.dtype[Any] | None
    """Of an array that is permuted likewise."""
    is_descending: bool


class DeviceSorting(ABC):
    """Sorting by a vendor's library, enqueued on ``stream``.

    Shared code keeps what `compile` gives, and loads it before a sort of its kind.
    """

    @abstractmethod
    def fingerprint(self, device: Device) -> str:
        """All that machine code depends on besides the kind of the sort: the device's architecture, and versions."""

    @abstractmethod
    def is_loaded(self, kind: SortKind, device: Device) -> bool:
        """Whether `sort` may be called, in any thread."""

    @abstractmethod
    def compile(self, kind: SortKind, device: Device) -> bytes:
        """Machine code, after seconds."""

    @abstractmethod
    def load(self, kind: SortKind, code: bytes, device: Device) -> None:
        """Make `sort` possible.

        Raises:
            KernelError, UnsupportedError: The library refuses the code.
        """

    @abstractmethod
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
        """Sort integers, float32 or float64 in C order; equal ones, 0 and -0 among them, keep their order.

        Args:
            keys: The numbers; of NaNs only the positive quiet one.
            sorted_keys: Other memory, for the result.
            values: An array that is permuted likewise, and memory for that; None if there is none.
            is_descending: The order; NaN counts as the greatest.
            bits: The lowest bits that count, of unsigned integers; all if omitted.
            stream: As above.
        """
