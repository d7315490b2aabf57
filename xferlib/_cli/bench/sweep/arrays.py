"""Host arrays of random layouts, and the same views of a library's arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from xferlib._cli.bench.libraries import ArrayLibrary, HostArray

Shape = tuple[int, ...]
LAYOUTS = ("contiguous", "contiguous", "transposed", "permuted", "every second row", "cropped", "reversed", "swapped")
_VIEWS = ("transposed", "permuted", "every second row", "cropped", "reversed")
_PERIOD = 65_537
_LEAST, _MOST = 1 << 10, 64 << 20
"""Elements of the arrays that kernels and reductions take."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A view of memory in C order: its extents, the axes' order, and the part."""

    extents: Shape
    axes: tuple[int, ...]
    index: tuple[slice, ...]

    def of(self, memory: HostArray) -> HostArray:
        """The view of a host array of any shape."""
        return memory.reshape(self.extents).transpose(self.axes)[self.index]

    def on_device(self, library: ArrayLibrary, memory: HostArray) -> Any:
        """The view of a copy of ``memory`` among the library's arrays."""
        return library.permuted(library.array(memory.reshape(self.extents)), self.axes)[self.index]


def cut(shape: Shape, layout: str, chance: np.random.Generator) -> Cut:
    """A view of that shape and layout; ``swapped`` is contiguous."""
    extents = list(shape)
    order = list(range(len(shape)))
    index = tuple(slice(None) for _ in shape)
    if layout == "transposed":
        order.reverse()
    elif layout == "permuted":
        order = [int(axis) for axis in chance.permutation(len(shape))]
    elif layout == "every second row":
        extents[0] *= 2
        index = (slice(None, None, 2), *index[1:])
    elif layout == "cropped":
        extents = [extent + max(1, extent // 4) for extent in shape]
        index = tuple(slice(extent // 8, extent // 8 + extent) for extent in shape)
    elif layout == "reversed":
        index = (slice(None, None, -1), *index[1:])
    return Cut(tuple(extents[axis] for axis in order), tuple(int(axis) for axis in np.argsort(order)), index)


def laid_out(
    shape: Shape, dtype: np.dtype[Any], layout: str, chance: np.random.Generator, *, is_pinned: bool = False
) -> HostArray:
    """An array of that layout with random numbers in it; only a contiguous one may be pinned."""
    view = cut(shape, layout, chance)
    if layout == "swapped":
        dtype = dtype.newbyteorder()
    memory = numbers(math.prod(view.extents), dtype, chance)
    if is_pinned:
        import xferlib as xl

        memory = xl.pinned_array(memory)
    return view.of(memory)


def numbers(count: int, dtype: np.dtype[Any], chance: np.random.Generator) -> HostArray:
    """Small numbers, which every dtype holds; their period is prime, so that no two blocks are the same."""
    some = chance.integers(0, 2 if dtype.kind == "b" else 120, min(count, _PERIOD)).astype(dtype.newbyteorder("="))
    return np.resize(some, count).astype(dtype, copy=False)


def scaled(count: int, dtype: np.dtype[Any], chance: np.random.Generator) -> HostArray:
    """As `numbers`; floats are from 0 to 2."""
    found = numbers(count, dtype, chance)
    return found / dtype.type(64) if dtype.kind in "fc" else found


def drawn_operand(dtype: str, most: int | None, chance: np.random.Generator) -> Shape:
    """Extents of one to four axes of what a kernel takes, log-uniform in size; ``most``: bytes, if that is less."""
    room = _MOST if most is None else max(min(_MOST, most // np.dtype(dtype).itemsize), 2 * _LEAST)
    return drawn_shape(drawn_size(_LEAST, room, chance), int(chance.integers(1, 5)), chance)


def drawn_view(shape: Shape, library: str, chance: np.random.Generator) -> str:
    """The layout of what a kernel takes: contiguous, half of the time."""
    layout = str(chance.choice(_VIEWS)) if chance.random() < 0.5 else "contiguous"
    if (layout == "reversed" and library == "torch") or (layout in ("transposed", "permuted") and len(shape) < 2):
        return "contiguous"  # a tensor has no negative strides
    return layout


def drawn_shape(size: float, axes: int, chance: np.random.Generator) -> Shape:
    """Extents whose product is about ``size``, of very different lengths."""
    shares = chance.dirichlet(np.full(axes, 2.0))
    return tuple(max(2, round(size**share)) for share in shares)


def drawn_size(least: float, most: float, chance: np.random.Generator) -> float:
    """A log-uniform number."""
    return math.exp(chance.uniform(math.log(least), math.log(most)))
