"""Stacks of matrices as a vendor's library multiplies them: leading dimensions, steps, and few calls."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from xferlib._api.arrays import indexing
from xferlib._api.arrays.primitives import Primitives, Shape
from xferlib._core.array import Array, ArrayInfo
from xferlib._core.layout import merged_axes
from xferlib.backends.device_math import Matrices, Multiply, Product

if TYPE_CHECKING:
    from xferlib._core.raw import RawStream

DTYPES = frozenset(map(np.dtype, ("float16", "float32", "float64", "complex64", "complex128")))
"""Those that the libraries multiply; integers have no order of sums, and kernels do for them."""


def multiply(lib: Primitives, left: Array, right: Array, out: Array) -> None:
    """``out[...] = left @ right`` by the device's library, of one dtype in `DTYPES`; operands without elements too."""
    one, two, three = (lib.info(each) for each in (left, right, out))
    if not three.size:
        return
    if not one.shape[-1]:
        indexing.assign(lib, out, 0)
        return
    if _matrices(one) is None:
        left = lib.copy(left)
        one = lib.info(left)
    if _matrices(two) is None:
        right = lib.copy(right)
        two = lib.info(right)
    calls = prepared(lib, one, two, three)

    def run(a: ArrayInfo, b: ArrayInfo, c: ArrayInfo, *, stream: RawStream) -> None:
        for call in calls:
            call(a.pointer, b.pointer, c.pointer, stream=stream)

    lib.enqueue("matmul", [left, right, out], run, (one, two, three))


def prepared(lib: Primitives, left: ArrayInfo, right: ArrayInfo, out: ArrayInfo) -> list[Multiply]:
    """The calls of the device's library for arrays of these layouts."""
    library = lib.products(out.device)
    assert library is not None
    return [library.multiplier(each) for each in products(left, right, out)]


def has_library(lib: Primitives, info: ArrayInfo) -> bool:
    """Whether a library multiplies matrices of such a dtype on such a device."""
    return info.dtype in DTYPES and lib.products(info.device) is not None


def is_plain(info: ArrayInfo) -> bool:
    """Whether a library takes the matrices of an array where they lie."""
    return _matrices(info) is not None


def products(left: ArrayInfo, right: ArrayInfo, out: ArrayInfo) -> list[Product]:
    """The calls for a stack: usually one, since axes that are one step apart are one axis."""
    operands = (left, right, out)
    matrices = [_matrices(each) for each in operands]
    assert None not in matrices
    a, b, c = (each for each in matrices if each is not None)
    rows, inner, columns = *left.shape[-2:], right.shape[-1]
    batch = out.shape[:-2]
    axes = merged_axes(zip(batch, *(_steps(each, batch) for each in operands), strict=True))
    itemsize = out.dtype.itemsize
    if axes and not a.is_transposed and not axes[-1][2]:  # one right matrix for many rows
        extent, step = axes[-1][0], axes[-1][1] // itemsize
        if rows == 1 and step >= inner:
            a = a._replace(leading=step)
        if step == rows * a.leading:
            rows, axes = rows * extent, axes[:-1]
    many = max(axes, default=(1, 0, 0, 0))
    rest = list(axes)
    if axes:
        rest.remove(many)
    found = []
    for index in itertools.product(*(range(extent) for extent, *_ in rest)):
        offsets = [sum(at * axis[number] for at, axis in zip(index, rest, strict=True)) for number in (1, 2, 3)]
        placed = [
            each._replace(offset=offset, step=step // itemsize)
            for each, offset, step in zip((a, b, c), offsets, many[1:], strict=True)
        ]
        found.append(Product(out.dtype, many[0], rows, inner, columns, *placed))
    return found


def _steps(info: ArrayInfo, batch: Shape) -> Shape:
    """The bytes between the matrices of an operand along each axis of the stack; 0 where it has one for all."""
    own = info.shape[:-2]
    steps = [0 if extent == 1 else stride for extent, stride in zip(own, info.strides, strict=False)]
    return (*(0,) * (len(batch) - len(own)), *steps)


def _matrices(info: ArrayInfo) -> Matrices | None:
    """How the matrices of an array lie; None if that is nothing a library takes: it must be copied."""
    rows, columns = info.shape[-2:]
    itemsize = info.dtype.itemsize
    if any(stride < 0 or stride % itemsize for stride in info.strides):
        return None
    down, along = (stride // itemsize for stride in info.strides[-2:])
    if (columns == 1 or along == 1) and (rows == 1 or down >= columns):
        return Matrices(0, max(columns, down if rows > 1 else 0), 0)
    if (rows == 1 or down == 1) and (columns == 1 or along >= rows):
        return Matrices(0, max(rows, along if columns > 1 else 0), 0, is_transposed=True)
    return None
