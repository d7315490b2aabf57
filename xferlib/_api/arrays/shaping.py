"""The same elements in another shape: views of the same memory where strides allow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from xferlib._api.arrays.elementwise import unary_kernel
from xferlib._api.arrays.primitives import Primitives, Shape
from xferlib._core import convert
from xferlib._core.array import Array, check_dtype
from xferlib.errors import LayoutError

Axes = int | tuple[int, ...]


def permute_dims(lib: Primitives, x: Array, /, axes: tuple[int, ...]) -> Array:
    """The axes in another order."""
    return lib.viewed(x, np.permute_dims(lib.shadow(x), axes))


def matrix_transpose(lib: Primitives, x: Array, /) -> Array:
    """The last two axes exchanged."""
    return lib.viewed(x, np.matrix_transpose(lib.shadow(x)))


def expand_dims(lib: Primitives, x: Array, /, axis: Axes = 0) -> Array:
    """Insert an axis of one element."""
    return lib.viewed(x, np.expand_dims(lib.shadow(x), axis))


def squeeze(lib: Primitives, x: Array, /, axis: Axes) -> Array:
    """Remove axes of one element."""
    return lib.viewed(x, np.squeeze(lib.shadow(x), axis))


def flip(lib: Primitives, x: Array, /, *, axis: Axes | None = None) -> Array:
    """Reverse the elements along axes."""
    shadow = lib.shadow(x)
    if shadow.ndim:
        return lib.viewed(x, np.flip(shadow, axis))
    if axis is not None:
        normalize_axis_tuple(axis, 0)
    return lib.viewed(x, shadow)


def moveaxis(lib: Primitives, x: Array, source: Axes, destination: Axes, /) -> Array:
    """Move axes to other positions."""
    return lib.viewed(x, np.moveaxis(lib.shadow(x), source, destination))


def broadcast_to(lib: Primitives, x: Array, /, shape: Shape) -> Array:
    """Repeat the elements without a copy; the result cannot be written to."""
    try:
        return lib.viewed(x, np.broadcast_to(lib.shadow(x), shape))
    except ValueError as error:
        raise LayoutError(f"broadcast_to: {error}; reshape the array first") from None


def broadcast_arrays(lib: Primitives, *arrays: Array) -> tuple[Array, ...]:
    """Views of one common shape."""
    shape = common_shape("broadcast_arrays", *(lib.info(each).shape for each in arrays))
    return tuple(broadcast_to(lib, each, shape) for each in arrays)


def reshape(lib: Primitives, x: Array, /, shape: Any, *, copy: bool | None = None) -> Array:
    """The elements in another shape: a view where strides allow.

    Raises:
        LayoutError: The shape has another number of elements; or ``copy=False``, and there is no such view.
    """
    x = lib.array("reshape", x)
    try:
        found = lib.viewed(x, np.reshape(lib.shadow(x), shape, copy=False))
    except ValueError as error:
        if copy is False:
            raise LayoutError(f"reshape: {error}; leave copy=False out") from None
    else:
        return lib.copy(found) if copy else found
    flat = lib.copy(x)
    try:
        return lib.viewed(flat, np.reshape(lib.shadow(flat), shape, copy=False))
    except ValueError as error:
        raise LayoutError(f"reshape: {error}; give a shape of as many elements") from None


def real(lib: Primitives, x: Array, /) -> Array:
    """The real parts: a view."""
    x = lib.array("real", x)
    return lib.viewed(x, lib.shadow(x).real)


def imag(lib: Primitives, x: Array, /) -> Array:
    """The imaginary parts: a view of complex numbers, else zeros."""
    x = lib.array("imag", x)
    shadow = lib.shadow(x)
    return lib.viewed(x, shadow.imag) if shadow.dtype.kind == "c" else unary_kernel("imag")(x)


def unstack(lib: Primitives, x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Views of the slices along an axis."""
    shadow = np.moveaxis(lib.shadow(x), axis, 0)
    return tuple(lib.viewed(x, shadow[index, ...]) for index in range(shadow.shape[0]))


def astype(lib: Primitives, x: Array, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """Convert the elements to another dtype."""
    wanted, info = check_dtype(dtype, what="dtype"), lib.info(x)
    convert.check_conversion(info.dtype, wanted)
    if device is not None and lib.device(device) is not info.device:
        return lib.upload(x, device, wanted)
    return lib.own(x) if wanted == info.dtype and not copy else lib.copy(x, wanted)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape to which arrays of these shapes broadcast."""
    return common_shape("broadcast_shapes", *shapes)


def common_shape(name: str, *shapes: Shape) -> Shape:
    """The shape to which arrays of these shapes broadcast."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = ", ".join(map(str, shapes))
        raise LayoutError(f"{name}: shapes {listed} do not broadcast; reshape one of them") from None
