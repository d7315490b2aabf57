"""Stacks of matrices for a device's library: the copy that it overwrites, and its code for each matrix."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib._api.arrays import shaping
from xferlib._api.arrays.primitives import Primitives
from xferlib._core.array import Array
from xferlib.kernels import ElementwiseKernel
from xferlib.kernels import elementwise as make_kernel

_MOST_AT_ONCE = 256
"""The rows up to which many systems are one operation; of larger ones each is solved as fast by itself."""
_CODES, _INT64 = np.dtype("int32"), np.dtype("int64")


@functools.cache
def _addresses() -> ElementwiseKernel:
    return make_kernel("int64 first, int64 step", "int64 y", "y = first + i * step;", name="addresses")


@functools.cache
def _fit() -> ElementwiseKernel:
    statements = "if (codes[i / size] == 0) { y = x; } else { y = unfit; }"
    return make_kernel("raw int32 codes, T x, int64 size, float64 unfit", "T y", statements, name="fit")


class Stack:
    """Matrices of one operand, column by column, and what a library tells of each.

    Args:
        lib: The library.
        x: A stack of matrices.
        is_transposed: Take the transposed matrices, which need no transposing copy.
    """

    def __init__(self, lib: Primitives, x: Array, *, is_transposed: bool = False) -> None:
        info = lib.info(x)
        rows, columns = info.shape[-2:][:: -1 if is_transposed else 1]
        self.lib, self.device, self.dtype = lib, info.device, info.dtype
        self.batch, self.rows, self.columns = info.shape[:-2], rows, columns
        self.count = math.prod(self.batch)
        found = lib.copy(x if is_transposed else shaping.matrix_transpose(lib, x))
        self.data = shaping.reshape(lib, found, (self.count, columns, rows))
        self.codes = self.empty(dtype=_CODES)

    def empty(self, *shape: int, dtype: np.dtype[Any] | None = None) -> Array:
        """A new array of that shape for each matrix."""
        return self.lib.empty((self.count, *shape), self.dtype if dtype is None else dtype, self.device)

    @property
    def real(self) -> np.dtype[Any]:
        """The dtype of absolute values."""
        return np.empty(0, self.dtype).real.dtype

    @property
    def is_one_operation(self) -> bool:
        """Whether the library takes all matrices at a time."""
        return self.count > 1 and max(self.rows, self.columns) <= _MOST_AT_ONCE

    def addresses(self, stack: Array) -> Array:
        """Those of the parts of an array for each matrix, on the device."""
        info = self.lib.info(stack)
        found = self.empty(dtype=_INT64)
        _addresses()(info.pointer, info.strides[0], found)
        return found

    def call(self, method: str, arrays: list[Array], function: Callable[..., None]) -> None:
        """Enqueue ``function(library, *descriptions, stream=stream)``."""
        library = self.lib.math(self.device)
        self.lib.enqueue(f"linalg.{method}", arrays, functools.partial(function, library))

    def result(self, found: Array, unfit: Any = np.nan) -> Array:
        """A result in the shape of the stack; ``unfit`` where a matrix could not be factored."""
        return self.shaped(_fit()(self.codes, found, math.prod(self.lib.info(found).shape[1:]), unfit))

    def shaped(self, found: Array) -> Array:
        """The same, of a function that fits all matrices."""
        return shaping.reshape(self.lib, found, (*self.batch, *self.lib.info(found).shape[1:]))

    def by_rows(self, found: Array) -> Array:
        """Matrices that lie column by column, as a result."""
        return self.result(shaping.matrix_transpose(self.lib, found))
