"""Views: other shapes and strides over the same memory, and copies where no strides can tell.

NumPy finds shapes and strides. It is given an array of the same form whose memory is never read, so that its rules, and
its errors, are those of all libraries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from xferlib._api import transfers
from xferlib._core import registry
from xferlib._core.array import Array, ArrayInfo, check_dtype
from xferlib._core.backend import Backend
from xferlib._core.layout import bounds
from xferlib.errors import LayoutError, UnsupportedArrayError
from xferlib.kernels import casting

HostArray = np.ndarray[Any, Any]
Axes = int | tuple[int, ...] | None


def backend_of(x: Any, call: str) -> Backend:
    """The backend of an array.

    Raises:
        UnsupportedArrayError: ``x`` is no array.
    """
    found = registry.backend_of(x)
    if found is None:
        raise UnsupportedArrayError(f"{call}: {type(x).__name__} is not an array; xferlib.to_device(x) makes one of it")
    return found


def info_of(x: Array, call: str = "a view") -> ArrayInfo:
    return backend_of(x, call).view(x)


def form_of(info: ArrayInfo) -> HostArray:
    """An array of NumPy of that form; its elements must not be read."""
    return np.lib.stride_tricks.as_strided(np.empty(1, info.dtype), info.shape, info.strides)


def viewed(x: Array, change: Callable[[HostArray], HostArray], call: str = "a view") -> Array:
    """The view of ``x`` that ``change`` makes of an array of NumPy: without looking at the elements."""
    owner = backend_of(x, call)
    info = owner.view(x)
    before = form_of(info)
    after = change(before)
    if not isinstance(after, np.ndarray):  # NumPy makes a number of an array without axes
        after = before
    offset = after.__array_interface__["data"][0] - before.__array_interface__["data"][0] if after.size else 0
    return owner.strided(x, info.pointer + offset, after.shape, after.strides)


def new(like: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """An uninitialised array on the device of another one."""
    owner = backend_of(like, "empty")
    device = owner.device_of(like)
    owner.attach(device)
    backend = owner.at(device)
    return backend.empty(shape, np.dtype(dtype), device=device, stream=backend.stream_current(device))


def copied(x: Array, dtype: Any = None, shape: tuple[int, ...] | None = None) -> Array:
    """A copy in C order, converted; of a shape that it is broadcast to."""
    info = info_of(x, "copy")
    out = new(x, info.shape if shape is None else shape, info.dtype if dtype is None else dtype)
    if math.prod(info_of(out).shape):
        casting.cast_into(out, x if shape is None else broadcast_to(x, shape))
    return out


def contiguous(x: Array) -> Array:
    """The array in C order: itself, or a copy."""
    return x if info_of(x).is_c_contiguous else copied(x)


def assign(target: Array, value: Array) -> None:
    """Copy an array into another, to whose shape it broadcasts, converted."""
    info = info_of(target, "assignment")
    if not info.size:
        return
    if _overlap(info, info_of(value)):
        value = copied(value)
    casting.cast_into(target, broadcast_to(value, info.shape))


def _overlap(one: ArrayInfo, two: ArrayInfo) -> bool:
    """Whether the memory of two arrays may overlap, and is not element by element the same."""
    if (one.pointer, one.shape, one.strides, one.dtype) == (two.pointer, two.shape, two.strides, two.dtype):
        return False
    (low, high), (low_too, high_too) = (bounds(each.pointer, each.shape, each.strides, each.dtype.itemsize)
                                        for each in (one, two))  # fmt: skip
    return low < high_too and low_too < high


def fill(target: Array, value: Any) -> None:
    """Set every element to a number."""
    info = info_of(target, "assignment")
    if info.size:
        assign(target, transfers.to_device(np.asarray(value).astype(info.dtype), device=info.device))


# --- the Array API's


def astype(x: Array, dtype: Any, /, *, copy: bool = True) -> Array:
    """The elements as another dtype, as conversions of xferlib are: floats saturate to integers."""
    wanted = check_dtype(dtype, what="dtype")
    given = info_of(x, "astype").dtype
    if given.kind == "c" and wanted.kind not in "cb":
        raise LayoutError(f"astype: {given} to {wanted} would drop the imaginary parts; use real(x)")
    return x if given == wanted and not copy else copied(x, wanted)


def reshape(x: Array, /, shape: int | tuple[int, ...], *, copy: bool | None = None) -> Array:
    """The elements in another shape: a view where strides allow, if ``copy`` is None.

    Raises:
        LayoutError: The shape has another number of elements; or ``copy=False``, and there is no such view.
    """
    try:
        if not copy:
            return viewed(x, lambda a: a.reshape(shape, copy=False), "reshape")
    except ValueError as error:
        if copy is False:
            raise LayoutError(f"reshape: {error}; leave copy=False out") from None
    try:
        return viewed(copied(x), lambda a: a.reshape(shape, copy=False))
    except ValueError as error:
        raise LayoutError(f"reshape: {error}; give a shape of as many elements") from None


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """A view with the axes in another order."""
    return viewed(x, lambda a: a.transpose(axes), "permute_dims")


def matrix_transpose(x: Array, /) -> Array:
    """A view with the last two axes exchanged."""
    return viewed(x, np.matrix_transpose, "matrix_transpose")


def moveaxis(x: Array, source: Axes, destination: Axes, /) -> Array:
    """A view with some axes in other positions."""
    return viewed(x, lambda a: np.moveaxis(a, source, destination), "moveaxis")  # type: ignore[arg-type]


def expand_dims(x: Array, /, *, axis: Any = 0) -> Array:
    """A view with an axis of extent 1 more."""
    return viewed(x, lambda a: np.expand_dims(a, axis), "expand_dims")


def squeeze(x: Array, /, axis: Axes) -> Array:
    """A view without axes of extent 1."""
    return viewed(x, lambda a: np.squeeze(a, axis), "squeeze")


def flip(x: Array, /, *, axis: Axes = None) -> Array:
    """A view with the elements in reverse order."""
    return viewed(x, lambda a: np.flip(a, axis), "flip")


def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """A read-only view of a larger shape, in which elements share their memory."""
    try:
        return viewed(x, lambda a: np.broadcast_to(a, shape), "broadcast_to")
    except ValueError as error:
        raise LayoutError(f"broadcast_to: {error}; reshape the array first") from None


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """Read-only views of the common shape."""
    shape = common_shape("broadcast_arrays", *arrays)
    return [broadcast_to(each, shape) for each in arrays]


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which shapes broadcast."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise LayoutError(f"shapes {', '.join(map(str, shapes))} do not broadcast; reshape one of them") from None


def common_shape(call: str, *arrays: Array) -> tuple[int, ...]:
    return broadcast_shapes(*(info_of(each, call).shape for each in arrays))


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Views of the parts along an axis."""
    count = np.moveaxis(form_of(info_of(x, "unstack")), axis, 0).shape[0]
    return tuple(viewed(x, lambda a, n=number: np.moveaxis(a, axis, 0)[n, ...]) for number in range(count))  # type: ignore[misc]
