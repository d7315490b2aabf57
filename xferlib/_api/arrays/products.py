"""Products of matrices and vectors: one reduction over views that broadcast, with the products never in memory.

Every element of the result reads a row and a column. A library that is tuned for the device, such as cuBLAS, would read
each part of them once for many; it would stand in `matmul`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from xferlib._api.arrays import elementwise, views
from xferlib._core.array import Array
from xferlib.errors import LayoutError
from xferlib.kernels import reductions
from xferlib.kernels.reduction import ReductionKernel, reduction


@functools.cache
def _dot() -> ReductionKernel:
    return reduction("T a, T b", "T c", map_expr="a * b", reduce_expr="a + b", post_map_expr="c = a", identity="0",
                     name="dot")  # fmt: skip


@functools.cache
def _dot_in_single() -> ReductionKernel:
    return reduction("float16 a, float16 b", "float16 c", map_expr="(float)a * (float)b", reduce_expr="a + b",
                     post_map_expr="c = a", identity="0", dtype="float", name="dot")  # fmt: skip


def _summed(a: Array, b: Array) -> Array:
    """The sums of products over the last axis of two arrays that broadcast."""
    dtype = np.result_type(views.info_of(a).dtype, views.info_of(b).dtype)
    if dtype.kind == "b":
        return reductions.any(elementwise.made("logical_and")(a, b), axis=-1)
    a, b = (views.astype(each, dtype, copy=False) for each in (a, b))
    return (_dot_in_single() if dtype == np.float16 else _dot())(a, b, axis=-1)


def matmul(x1: Array, x2: Array, /) -> Array:
    """The product of matrices, of stacks of them, and of vectors; floats are summed in another order than BLAS does."""
    one, two = views.info_of(x1, "matmul").shape, views.info_of(x2, "matmul").shape
    if not one or not two or one[-1] != two[-2 if len(two) > 1 else -1]:
        raise LayoutError(
            f"matmul: shapes {one} and {two} do not fit; the last axis of the first is the second's last but one"
        )
    rows = views.viewed(x1, lambda a: a[..., None, :] if a.ndim > 1 else a[None, None, :])
    columns = views.viewed(x2, lambda a: np.matrix_transpose(a)[..., None, :, :] if a.ndim > 1 else a[None, None, :])
    product = _summed(rows, columns)
    dropped = tuple(axis for axis, shape in ((-2, one), (-1, two)) if len(shape) == 1)
    return views.squeeze(product, dropped) if dropped else product


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Dot products along an axis; the first of complex vectors is conjugated."""
    one, two = views.moveaxis(x1, axis, -1), views.moveaxis(x2, axis, -1)
    if views.info_of(one).shape[-1] != views.info_of(two).shape[-1]:
        raise LayoutError(f"vecdot: extents {views.info_of(one).shape[-1]} and {views.info_of(two).shape[-1]} differ")
    return _summed(elementwise.made("conj")(one) if views.info_of(one).dtype.kind == "c" else one, two)


def tensordot(x1: Array, x2: Array, /, *, axes: Any = 2) -> Array:
    """Sums of products over several axes."""
    one, two = views.info_of(x1, "tensordot").shape, views.info_of(x2, "tensordot").shape
    if isinstance(axes, int):
        first, second = tuple(range(len(one) - axes, len(one))), tuple(range(axes))
    else:
        first, second = (
            tuple(axis % len(shape) for axis in each) for each, shape in zip(axes, (one, two), strict=True)
        )
    if [one[axis] for axis in first] != [two[axis] for axis in second]:
        raise LayoutError(f"tensordot: axes {axes} of shapes {one} and {two} differ in extent")
    rest = [axis for axis in range(len(one)) if axis not in first]
    rest_too = [axis for axis in range(len(two)) if axis not in second]
    count = int(np.prod([one[axis] for axis in first], dtype=int))
    rows = views.reshape(views.permute_dims(x1, (*rest, *first)), (*[one[axis] for axis in rest], count))
    columns = views.reshape(views.permute_dims(x2, (*rest_too, *second)), (*[two[axis] for axis in rest_too], count))
    ones = (None,) * len(rest_too)
    rows = views.viewed(rows, lambda a: a[(..., *ones, slice(None))])
    return _summed(rows, columns)


def outer(x1: Array, x2: Array, /) -> Array:
    """The products of all pairs of elements of two vectors."""
    return elementwise.made("multiply")(views.expand_dims(x1, axis=1), x2)
