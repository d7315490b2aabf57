"""The memory layout of a call's operands: one shape, and byte strides for each operand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xferlib._core.arrays import merged_axes
from xferlib.errors import KernelShapeError

if TYPE_CHECKING:
    from xferlib.kernels.ir import Program


@dataclass(frozen=True, slots=True)
class CallLayout:
    """Extents, outermost first, and for each operand its byte strides along them."""

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def with_axes(self) -> CallLayout:
        """The same layout, with one axis of extent 1 if it has none."""
        return self if self.shape else CallLayout((1,), tuple((0,) for _ in self.strides))


def broadcast_shape(named: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[int, ...]:
    """The common shape of the operands.

    Raises:
        KernelShapeError: They do not broadcast; the message names both.
    """
    result: tuple[int, ...] = ()
    for name, shape in named:
        if shape == result:
            continue
        rank = max(len(shape), len(result))
        left, right = (1,) * (rank - len(result)) + result, (1,) * (rank - len(shape)) + shape
        extents = []
        for a, b in zip(left, right, strict=True):
            if a != b and 1 not in (a, b):
                raise KernelShapeError(
                    f"argument {name!r} has shape {shape}, which does not broadcast with {result} of the arguments "
                    "before it; reshape it, or index it with None where an axis is missing"
                )
            extents.append(b if a == 1 else a)
        result = tuple(extents)
    return result


def broadcast_strides(shape: tuple[int, ...], own: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Byte strides of an operand of shape ``own`` broadcast to ``shape``: 0 along repeated axes."""
    missing = len(shape) - len(own)
    seen = [0 if extent == 1 else stride for extent, stride in zip(own, strides, strict=True)]
    return (0,) * missing + tuple(seen)


def layout_of_call(program: Program, shape: tuple[int, ...], arrays: Any) -> CallLayout:
    """The collapsed layout of a program's elements; ``arrays``, by parameter, have a shape and strides."""
    strides = tuple(broadcast_strides(shape, arrays[n].shape, arrays[n].strides) for n in program.elements)
    return collapse(CallLayout(shape, strides), keep_order=program.keeps_order)


def word_of(pointer: int, strides: Sequence[int], itemsize: int) -> int:
    """Bytes of the widest aligned access to every element: an element's size, or a divisor of it.

    A GPU fails on an access at an address that is no multiple of its size, and the context is lost. NumPy and torch
    align complex numbers to their parts only, and a view of bytes may have any address.
    """
    return math.gcd(pointer, *strides, itemsize)


def collapse(layout: CallLayout, *, keep_order: bool) -> CallLayout:
    """The same elements in as few dimensions as possible.

    Dimensions of extent 1 are dropped, and neighbours that advance together are merged. The dimensions are first
    sorted by the last operand's strides, so that equally transposed operands become contiguous; with ``keep_order``,
    for a program that uses the element's index, they are not.
    """
    axes = [axis for axis in zip(layout.shape, *layout.strides, strict=True) if axis[0] != 1]
    if not keep_order:
        axes.sort(key=lambda axis: [-abs(stride) for stride in axis[:0:-1]])
    if not axes:
        return CallLayout((), tuple(() for _ in layout.strides))
    shape, *strides = zip(*merged_axes(axes), strict=True)
    return CallLayout(shape, tuple(strides))
