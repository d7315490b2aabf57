"""The same elements in another shape: views of the same memory where strides allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib._api.arrays.elementwise import unary_kernel
from xferlib._api.arrays.primitives import Primitives, Shadow, Shape
from xferlib._core import convert
from xferlib._core.array import Array, check_dtype
from xferlib._core.layout import axes_of, axis_of
from xferlib.errors import LayoutError, LayoutIndexError, LayoutTypeError

Axes = int | tuple[int, ...]


def _view(lib: Primitives, name: str, x: Any, change: Callable[[Shadow], Shadow]) -> Array:
    """The view of an argument that NumPy makes of its shadow."""
    x = lib.array(name, x)
    shadow = lib.shadow(x)
    try:
        return lib.viewed(x, change(shadow))
    except np.exceptions.AxisError as error:
        raise LayoutIndexError(f"{name} of {shadow.shape}: {error}; choose other axes") from None
    except TypeError as error:
        raise LayoutTypeError(f"{name} of {shadow.shape}: {error}; give integers") from None
    except ValueError as error:
        raise LayoutError(f"{name} of {shadow.shape}: {error}; reshape the array, or choose other axes") from None


def permute_dims(lib: Primitives, x: Array, /, axes: tuple[int, ...]) -> Array:
    """The axes in another order."""
    return _view(lib, "permute_dims", x, lambda shadow: np.permute_dims(shadow, axes))


def matrix_transpose(lib: Primitives, x: Array, /) -> Array:
    """The last two axes exchanged."""
    return _view(lib, "matrix_transpose", x, np.matrix_transpose)


def expand_dims(lib: Primitives, x: Array, /, axis: Axes = 0) -> Array:
    """Insert an axis of one element."""
    return _view(lib, "expand_dims", x, lambda shadow: np.expand_dims(shadow, axis))


def squeeze(lib: Primitives, x: Array, /, axis: Axes) -> Array:
    """Remove axes of one element."""
    return _view(lib, "squeeze", x, lambda shadow: np.squeeze(shadow, axis))


def flip(lib: Primitives, x: Array, /, axis: Axes | None = None) -> Array:
    """Reverse the elements along axes."""
    x = lib.array("flip", x)
    shadow = lib.shadow(x)
    axes_of("flip", axis, shadow.ndim)
    return lib.viewed(x, np.flip(shadow, axis) if shadow.ndim else shadow)


def moveaxis(lib: Primitives, x: Array, source: Axes, destination: Axes, /) -> Array:
    """Move axes to other positions."""
    return _view(lib, "moveaxis", x, lambda shadow: np.moveaxis(shadow, source, destination))


def broadcast_to(lib: Primitives, x: Array, /, shape: Shape) -> Array:
    """Repeat the elements without a copy; the result cannot be written to."""
    return _view(lib, "broadcast_to", x, lambda shadow: np.broadcast_to(shadow, shape))


def broadcast_arrays(lib: Primitives, *arrays: Array) -> tuple[Array, ...]:
    """Views of one common shape."""
    given = [lib.array("broadcast_arrays", each) for each in arrays]
    shape = common_shape("broadcast_arrays", *(lib.info(each).shape for each in given))
    return tuple(broadcast_to(lib, each, shape) for each in given)


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
    x = lib.array("unstack", x)
    shadow = np.moveaxis(lib.shadow(x), axis_of("unstack", axis, len(lib.info(x).shape)), 0)
    return tuple(lib.viewed(x, shadow[index, ...]) for index in range(shadow.shape[0]))


def astype(lib: Primitives, x: Array, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """Convert the elements to another dtype."""
    x = lib.array("astype", x)
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
