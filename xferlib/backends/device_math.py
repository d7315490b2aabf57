"""Linear algebra and Fourier transforms by the libraries of a device's vendor: the part of the seam for them.

A backend whose arrays xferlib gives a namespace may hand out a `DeviceMath` as `Backend.math`. Shared code prepares
the operands, so that each method is a few calls of a library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from xferlib._core.array import ArrayInfo
    from xferlib._core.device import Device
    from xferlib._core.raw import RawStream


MOST_SMALL = 32
"""The rows of the matrices of which `DeviceMath.small_svd` finds the singular values."""


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


class DeviceMath(ABC):
    """Linear algebra and Fourier transforms by a vendor's libraries, enqueued on ``stream``.

    Matrices to be factored are an array in C order of shape (count, columns, rows): each column by column, of float32,
    float64 or their complex kin. They are overwritten. ``codes`` (count) are int32: 0 where a matrix could be factored.
    """

    @abstractmethod
    def multiplier(self, product: Product) -> Multiply:
        """Prepare the multiplication of matrices that lie so in three arrays."""

    @abstractmethod
    def lu(
        self, a: ArrayInfo, each: ArrayInfo | None, pivots: ArrayInfo, codes: ArrayInfo, *, stream: RawStream
    ) -> None:
        """Factor square matrices; ``pivots`` (count, rows) count from 1.

        With ``each``, the int64 addresses of the matrices, it is one operation, for small ones, and pivots are int32.
        Without it pivots are int64.
        """

    @abstractmethod
    def lu_solve(
        self,
        a: ArrayInfo,
        each: ArrayInfo | None,
        pivots: ArrayInfo,
        b: ArrayInfo,
        each_b: ArrayInfo | None,
        codes: ArrayInfo,
        *,
        stream: RawStream,
    ) -> None:
        """Replace the right sides ``b`` (count, sides, rows) by the solutions, for what `lu` has left in ``a``.

        ``codes`` are for wrong arguments; singular matrices are known from `lu`.
        """

    @abstractmethod
    def cholesky(
        self, a: ArrayInfo, each: ArrayInfo | None, codes: ArrayInfo, *, is_upper: bool, stream: RawStream
    ) -> None:
        """Replace one triangle of positive-definite matrices by its factor; ``each`` as for `lu`."""

    @abstractmethod
    def qr(
        self,
        a: ArrayInfo,
        tau: ArrayInfo,
        each: tuple[ArrayInfo, ArrayInfo] | None,
        codes: ArrayInfo,
        *,
        stream: RawStream,
    ) -> None:
        """Factor matrices into a triangle and reflections, with their factors ``tau`` (count, least extent).

        With ``each``, the addresses of the matrices and of their factors, it is one operation, for small ones.
        """

    @abstractmethod
    def orthonormal(self, a: ArrayInfo, tau: ArrayInfo, codes: ArrayInfo, *, stream: RawStream) -> None:
        """Make the reflections in the first columns of ``a`` the orthonormal columns of all of it."""

    @abstractmethod
    def eigh(
        self,
        a: ArrayInfo,
        values: ArrayInfo,
        codes: ArrayInfo,
        *,
        with_vectors: bool,
        is_one_operation: bool,
        stream: RawStream,
    ) -> None:
        """Find ascending eigenvalues of symmetric matrices, from the lower triangle, and their vectors in ``a``."""

    @abstractmethod
    def eig(
        self, a: ArrayInfo, values: ArrayInfo, codes: ArrayInfo, vectors: ArrayInfo | None, *, stream: RawStream
    ) -> None:
        """Find the complex eigenvalues of any square matrices, and their vectors.

        ``vectors`` (count, rows, rows), of the dtype of ``a``, lie column by column. Of float matrices two conjugate
        eigenvalues are neighbours, the positive imaginary part first, and their two columns are the real and the
        imaginary parts of the first one's vector.
        """

    @abstractmethod
    def svd(
        self,
        a: ArrayInfo,
        values: ArrayInfo,
        codes: ArrayInfo,
        vectors: tuple[ArrayInfo, ArrayInfo] | None,
        *,
        stream: RawStream,
    ) -> None:
        """Find descending singular values of matrices with no more columns than rows.

        ``vectors``: the left ones (count, rows or columns, rows), and the right ones (count, columns, columns) as rows
        of their conjugates; both lie column by column.
        """

    @abstractmethod
    def small_svd(
        self,
        a: ArrayInfo,
        values: ArrayInfo,
        codes: ArrayInfo,
        vectors: tuple[ArrayInfo, ArrayInfo],
        *,
        with_vectors: bool,
        stream: RawStream,
    ) -> None:
        """The same in one operation, of matrices of at most `MOST_SMALL` rows.

        ``vectors``: all left ones (count, rows, rows), and the right ones (count, columns, columns) as columns; both
        lie column by column. They are overwritten in any case.
        """

    @abstractmethod
    def transform(
        self, x: ArrayInfo, out: ArrayInfo, sizes: tuple[int, ...], *, is_inverse: bool, stream: RawStream
    ) -> None:
        """Fourier transforms over the last one to three axes, of extents ``sizes``, of arrays in C order; no factor.

        Where one side is a float, the other has half of the last axis and the middle. ``is_inverse`` is for two complex
        ones. An ``x`` whose result is a float may be overwritten.
        """


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
