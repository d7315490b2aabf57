"""Arrays of one device, joined along an axis: each is copied into its own part of a new array."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from xferlib._core import convert
from xferlib._core.array import Array, c_strides
from xferlib._core.observe import Kind
from xferlib._transfer import host_copy, on_device
from xferlib._transfer.ends import CopySource, CopyTarget
from xferlib.errors import ArgumentError, LayoutError, shown

Shape = tuple[int, ...]


class Plan(NamedTuple):
    """A new array in C order, and its parts: for each its offset, shape and strides, in bytes."""

    shape: Shape
    parts: list[tuple[int, Shape, Shape]]


def plan(shapes: list[Shape], axis: int | None, dtype: np.dtype[Any]) -> Plan:
    """Lay out arrays of these shapes one behind the other along ``axis``; flattened, if that is None.

    Raises:
        ArgumentError: There is no such axis.
        LayoutError: The shapes differ in another axis.
    """
    if axis is None:
        starts = _starts([math.prod(shape) for shape in shapes])
        parts = [
            (start * dtype.itemsize, shape, c_strides(shape, dtype.itemsize))
            for start, shape in zip(starts, shapes, strict=False)
        ]
        return Plan((starts[-1],), parts)
    along = _axis(axis, len(shapes[0]))
    others = _without(shapes[0], along)
    for index, shape in enumerate(shapes):
        if len(shape) != len(shapes[0]) or _without(shape, along) != others:
            raise LayoutError(
                f"concat along axis {axis}: argument 0 has shape {shapes[0]} and argument {index} has shape {shape}; "
                "reshape or cut one of them, so that all other extents are equal"
            )
    starts = _starts([shape[along] for shape in shapes])
    whole = (*shapes[0][:along], starts[-1], *shapes[0][along + 1 :])
    strides = c_strides(whole, dtype.itemsize)
    return Plan(whole, [(start * strides[along], shape, strides) for start, shape in zip(starts, shapes, strict=False)])


def _axis(axis: Any, ndim: int) -> int:
    if not isinstance(axis, (int, np.integer)) or not -ndim <= axis < ndim:
        remedy = f"give one from {-ndim} to {ndim - 1}" if ndim else "arrays without axes are joined with axis=None"
        raise ArgumentError(f"concat: axis={shown(axis)}, but argument 0 has {ndim} axes; {remedy}")
    return int(axis) % ndim


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


def _starts(extents: list[int]) -> list[int]:
    return [*itertools.accumulate(extents, initial=0)]


def join(sources: list[CopySource], plan: Plan, dtype: np.dtype[Any]) -> Array:
    """Copy the sources, all of one device, to the parts of a new array, converted to ``dtype``.

    Raises:
        UnsupportedDTypeError: ``dtype`` would drop a part of every value.
    """
    for source in sources:
        convert.check_conversion(source.dtype, dtype)
    backend = sources[0].backend
    device = sources[0].device if sources[0].device is not None else backend.devices()[0]
    backend.attach(device)
    out = backend.empty(plan.shape, dtype, device=device, stream=backend.stream_current(device))
    memory = backend.host_view(out) if device.kind == "cpu" else None
    for source, (offset, shape, strides) in zip(sources, plan.parts, strict=True):
        if not math.prod(shape):
            continue
        if memory is not None:
            assert source.host is not None
            part = np.ndarray(shape, dtype, memory, offset, strides)
            host_copy.copy_on_cpu(Kind.D2D, part, source.host, backend, device)
        else:
            whole = backend.view(out)
            into = whole._replace(pointer=whole.pointer + offset, shape=shape, strides=strides)
            on_device.device_to_device(source, CopyTarget(backend, device, None, out, into), dtype)
    return out
