"""Products of matrices and vectors."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xferlib._api.arrays import shaping
from xferlib._api.arrays.elementwise import binary_kernel, unary_kernel
from xferlib._api.arrays.extensions import layouts, plans
from xferlib._api.arrays.primitives import Primitives
from xferlib._core.array import Array
from xferlib._core.layout import axes_of, axis_of
from xferlib.errors import LayoutError
from xferlib.kernels import ReductionKernel, reduction


@functools.cache
def _sum_of_products() -> ReductionKernel:
    return reduction(
        "T x1, T x2", "T y", map_expr="x1 * x2", reduce_expr="a + b", post_map_expr="y = a", identity="0", name="matmul"
    )


def _products(lib: Primitives, left: Array, right: Array) -> Array:
    """Products of stacks of matrices (..., M, K) and (..., K, N), of one dtype and with axes that broadcast.

    The vendor's library computes them where there is one, NumPy's BLAS where the host does. In the kernel each element
    is a sum of its own, and large matrices are read again and again; it is exact for integers. The order of the sums,
    and with it the last bits, differ.
    """
    one, two = lib.info(left), lib.info(right)
    shape = (*shaping.common_shape("matmul", one.shape[:-2], two.shape[:-2]), one.shape[-2], two.shape[-1])
    out = lib.empty(shape, one.dtype, one.device)
    if layouts.has_library(lib, one):
        layouts.multiply(lib, left, right, out)
        return out
    if lib.on_host("matmul", lambda a, b, found: np.matmul(a, b, out=found), [left, right], [out]):
        return out
    rows = shaping.expand_dims(lib, left, -2)
    columns = shaping.expand_dims(lib, shaping.matrix_transpose(lib, right), -3)
    return _sum_of_products()(rows, columns, axis=-1)


def _prepared(
    lib: Primitives, name: str, x1: Any, x2: Any
) -> tuple[Array, Array, np.dtype[Any]]:  # fmt: skip
    """Both arrays in the dtype of the sums, and the dtype of the result: float16 is summed in float32."""
    given = [lib.array(name, each) for each in (x1, x2)]
    infos = lib.infos(name, given)
    result = np.result_type(*(info.dtype for info in infos))
    is_widened = result == np.float16 and (name == "vecdot" or lib.products(infos[0].device) is None)
    wide = np.dtype("float32") if is_widened else result
    left, right = (
        each if info.dtype == wide else lib.copy(each, wide) for each, info in zip(given, infos, strict=True)
    )
    return left, right, result


def _finished(lib: Primitives, found: Array, dtype: np.dtype[Any]) -> Array:
    return found if lib.info(found).dtype == dtype else lib.copy(found, dtype)


def _matrices(lib: Primitives, x1: Array, x2: Array) -> plans.Operands | None:
    """The operands of `matmul`, if they fit."""
    one, two = lib.info(x1).shape, lib.info(x2).shape
    if not one or not two or one[-1] != two[-2 if len(two) > 1 else 0]:
        return None
    left = x1 if len(one) > 1 else shaping.expand_dims(lib, x1, 0)
    right = x2 if len(two) > 1 else shaping.expand_dims(lib, x2, 1)
    try:
        batch = np.broadcast_shapes(one[:-2], two[:-2])
    except ValueError:
        return None
    return plans.Operands(left, right, (*batch, *one[-2:-1], *(two[-1:] if len(two) > 1 else ())))


def matmul(lib: Primitives, x1: Array, x2: Array, /) -> Array:
    """The product of matrices."""
    if (plan := plans.find(lib, x1, x2, "matmul", _matrices)) is not None:
        return plan.run(x1, x2)
    left, right, dtype = _prepared(lib, "matmul", x1, x2)
    one, two = lib.info(left).shape, lib.info(right).shape
    if not one or not two:
        raise LayoutError(f"matmul: shapes {one} and {two}: an array without axes is no matrix; use multiply")
    rows = two[-2 if len(two) > 1 else 0]
    if one[-1] != rows:
        raise LayoutError(f"matmul: shapes {one} and {two} do not fit: {one[-1]} columns, {rows} rows; reshape one")
    if len(one) == 1:
        left = shaping.expand_dims(lib, left, 0)
    if len(two) == 1:
        right = shaping.expand_dims(lib, right, 1)
    shaping.common_shape("matmul", one[:-2], two[:-2])
    found = _finished(lib, _products(lib, left, right), dtype)
    if len(two) == 1:
        found = shaping.squeeze(lib, found, -1)
    return shaping.squeeze(lib, found, -1 if len(two) == 1 else -2) if len(one) == 1 else found


def tensordot(
    lib: Primitives, x1: Array, x2: Array, /, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Array:  # fmt: skip
    """Sums of products over several axes."""
    if not isinstance(axes, int):
        # Which may be iterators, and are read more than once.
        one, two = ((each,) if isinstance(each, int) else tuple(each) for each in axes)
        axes = (one, two)
    operands = functools.partial(_contracted, axes=axes)
    if (plan := plans.find(lib, x1, x2, ("tensordot", axes), operands)) is not None:
        return plan.run(x1, x2)
    left, right, dtype = _prepared(lib, "tensordot", x1, x2)
    rows, columns, shape = _contracted(lib, left, right, axes=axes)
    return shaping.reshape(lib, _finished(lib, _products(lib, rows, columns), dtype), shape)


def _contracted(
    lib: Primitives, left: Array, right: Array, *, axes: int | tuple[Sequence[int], Sequence[int]]
) -> plans.Operands:
    """The operands of `tensordot` as two matrices.

    Raises:
        LayoutError: The axes do not fit.
    """
    one, two = lib.info(left).shape, lib.info(right).shape
    if isinstance(axes, int):
        first, second = (*range(len(one) - axes, len(one)),), (*range(axes),)
    else:
        first, second = (axes_of("tensordot", given, len(shape)) for given, shape in zip(axes, (one, two), strict=True))
    extents = [one[axis] for axis in first if 0 <= axis < len(one)], [two[axis] for axis in second if axis < len(two)]
    if extents[0] != extents[1] or len(extents[0]) != len(first):
        raise LayoutError(
            f"tensordot: axes {first} of shape {one} and {second} of shape {two} do not fit; choose others"
        )
    kept = [axis for axis in range(len(one)) if axis not in first], [a for a in range(len(two)) if a not in second]
    count = math.prod(extents[0])
    shapes = tuple(one[axis] for axis in kept[0]), tuple(two[axis] for axis in kept[1])
    rows = shaping.reshape(lib, shaping.permute_dims(lib, left, (*kept[0], *first)), (math.prod(shapes[0]), count))
    columns = shaping.reshape(lib, shaping.permute_dims(lib, right, (*second, *kept[1])), (count, math.prod(shapes[1])))
    return plans.Operands(rows, columns, (*shapes[0], *shapes[1]))


def vecdot(lib: Primitives, x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Dot products along an axis."""
    left, right, dtype = _prepared(lib, "vecdot", x1, x2)
    moved = []
    for each in (left, right):
        along = axis_of("vecdot", axis, len(lib.info(each).shape))
        moved.append(shaping.moveaxis(lib, each, along, -1))
    one, two = (lib.info(each).shape for each in moved)
    if one[-1] != two[-1]:
        raise LayoutError(f"vecdot: axis {axis} of shapes {one} and {two} has two extents; cut one of the arrays")
    shaping.common_shape("vecdot", one, two)
    first = unary_kernel("conj")(moved[0]) if dtype.kind == "c" else moved[0]
    return _finished(lib, _sum_of_products()(first, moved[1], axis=-1), dtype)


def outer(lib: Primitives, x1: Array, x2: Array, /) -> Array:
    """The products of each element of one vector and each of another."""
    given = [lib.array("outer", each) for each in (x1, x2)]
    shapes = [lib.info(each).shape for each in given]
    if [len(shape) for shape in shapes] != [1, 1]:
        raise LayoutError(f"outer: shapes {shapes[0]} and {shapes[1]} are not two vectors; reshape them to one axis")
    return binary_kernel("multiply")(shaping.expand_dims(lib, given[0], 1), given[1])


def dot(lib: Primitives, x1: Array, x2: Array, /) -> Array:
    """The dot product over the last axis of one array and the last but one, or the only one, of the other."""
    first, second = (lib.info(lib.array("dot", each)).shape for each in (x1, x2))
    if not first or not second:
        return binary_kernel("multiply")(lib.array("dot", x1), lib.array("dot", x2))
    return tensordot(lib, x1, x2, axes=((-1,), (max(-2, -len(second)),)))
