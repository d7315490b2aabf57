"""Hypothesis strategies for arrays as users have them: any layout, any dtype, any bits.

Hypothesis' own ``arrays()`` draws C-contiguous arrays only. These draw negative strides, permuted
axes, gaps, offsets, misalignment, read-only and byte-swapped arrays, stride-0 broadcasts, overlapping
views, 0-d and empty arrays, filled with raw bytes and with the awkward values of each dtype.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from xferlib._core import dtypes as _dtypes
from xferlib.testing.tools import parts

HostArray = np.ndarray[Any, Any]

DTYPES: tuple[str, ...] = _dtypes.DTYPES
"""The dtypes that every backend holds."""

FLOAT_BITS: dict[int, tuple[int, ...]] = {
    2: (0x8000, 0x0001, 0x83FF, 0x7C00, 0xFC00, 0x7E01, 0x7C01, 0xFFFF),
    4: (0x80000000, 0x00000001, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC12345, 0x7F812345, 0xFFFFFFFF),
    8: (
        0x8000000000000000, 0x0000000000000001, 0x800FFFFFFFFFFFFF, 0x7FF0000000000000,
        0xFFF0000000000000, 0x7FF8000012345678, 0x7FF0000012345678, 0xFFFFFFFFFFFFFFFF,
    ),
}  # fmt: skip
"""By float size in bytes: -0.0, subnormals, infinities, quiet and signalling NaNs with payloads."""


class Layout(NamedTuple):
    """The layout of an array in a buffer of bytes: ``np.ndarray(shape, dtype, buffer, offset, strides)``."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    offset: int
    """Bytes from the start of the buffer to element (0, ..., 0)."""
    nbytes: int
    """Bytes of the buffer."""

    def over(self, buffer: HostArray) -> HostArray:
        """The array over a uint8 buffer."""
        return np.ndarray(self.shape, self.dtype, buffer, self.offset, self.strides)


def dtypes() -> SearchStrategy[np.dtype[Any]]:
    """A dtype that every backend holds, in native byte order."""
    return st.sampled_from([np.dtype(name) for name in DTYPES])


def shapes(*, max_dims: int = 4, max_side: int = 7) -> SearchStrategy[tuple[int, ...]]:
    """A small shape; 0-d and empty ones among them."""
    return st.lists(st.integers(0, max_side), max_size=max_dims).map(tuple)


@st.composite
def layouts(
    draw: DrawFn,
    *,
    dtype: Any = None,
    shape: tuple[int, ...] | None = None,
    distinct: bool = False,
    native: bool = False,
    aligned: bool = False,
) -> Layout:
    """A layout of any strides.

    Args:
        draw: Given by Hypothesis.
        dtype: The dtype; any supported one if omitted.
        shape: The shape; any small one if omitted.
        distinct: Each element has memory of its own, as a destination needs: no stride 0, no overlap.
        native: Native byte order only.
        aligned: Elements at multiples of their size.
    """
    found = np.dtype(dtype) if dtype is not None else draw(dtypes())
    if not native and draw(st.booleans()):
        found = found.newbyteorder()
    extents = shape if shape is not None else draw(shapes())
    itemsize = found.itemsize
    order = draw(st.permutations(range(len(extents))))
    strides = [0] * len(extents)
    step = itemsize
    for axis in reversed(order):
        kind = draw(st.sampled_from(["dense", "gap", "reverse"] + ([] if distinct else ["repeat", "overlap"])))
        if kind == "repeat":
            continue
        gap = draw(st.integers(1, 3)) if kind == "gap" else 1
        strides[axis] = (-step if kind == "reverse" else step) * gap
        step = step * gap * (max(extents[axis], 1) if kind != "overlap" else 1)
    reach = [(extent - 1) * stride for extent, stride in zip(extents, strides, strict=True) if extent]
    lowest, highest = sum(n for n in reach if n < 0), sum(n for n in reach if n > 0)
    lead = draw(st.integers(0, 3)) * itemsize + (0 if aligned else draw(st.integers(0, itemsize)))
    return Layout(extents, found, tuple(strides), lead - lowest, lead - lowest + highest + itemsize)


@st.composite
def contents(draw: DrawFn, nbytes: int, dtype: np.dtype[Any]) -> HostArray:
    """A uint8 buffer of arbitrary bits; for bool arrays of the bytes 0 and 1, the only valid ones."""
    seed = draw(st.binary(min_size=min(nbytes, 1), max_size=min(nbytes, 64)))
    data = np.frombuffer(bytearray((seed * (nbytes // len(seed) + 1))[:nbytes] if seed else b""), np.uint8)
    if len(seed) > 1:  # so that a shifted or repeated copy differs
        data ^= (np.arange(nbytes) // len(seed)).astype(np.uint8)
    if dtype.kind == "b":
        data &= 1
    return data


@st.composite
def host_arrays(
    draw: DrawFn, *, dtype: Any = None, shape: tuple[int, ...] | None = None, may_be_read_only: bool = True
) -> HostArray:
    """A host array of any layout and dtype, full of arbitrary bits and awkward values.

    Args:
        draw: Given by Hypothesis.
        dtype: The dtype, drawn in either byte order; any supported one if omitted.
        shape: The shape; any small one if omitted.
        may_be_read_only: Draw read-only arrays too.
    """
    layout = draw(layouts(dtype=dtype, shape=shape))
    array: HostArray = layout.over(draw(contents(layout.nbytes, layout.dtype)))
    if array.size and array.dtype.kind in "fc":
        _sprinkle(array, draw(st.lists(st.tuples(st.integers(0, array.size - 1), st.integers(0, 7)), max_size=4)))
    array.flags.writeable = not (may_be_read_only and draw(st.booleans()))
    return array


@st.composite
def vary_layout(draw: DrawFn, values: Any, *, may_be_read_only: bool = True) -> HostArray:
    """An array with the shape, dtype and bits of ``values``, of any layout in which each element has its own memory.

    Strided, transposed, cropped from a larger array, reversed, misaligned or byte-swapped; 0-d and empty as ``values``
    is. A function that is right for an array must be right for it in all of these.

    Args:
        draw: Given by Hypothesis.
        values: An array, or what NumPy makes one of.
        may_be_read_only: Draw read-only arrays too.
    """
    wanted = np.asarray(values)
    layout = draw(layouts(dtype=wanted.dtype, shape=wanted.shape, distinct=True))
    array: HostArray = layout.over(np.frombuffer(bytearray(layout.nbytes), np.uint8))
    array[...] = wanted
    array.flags.writeable = not (may_be_read_only and draw(st.booleans()))
    return array


def _sprinkle(array: HostArray, choices: list[tuple[int, int]]) -> None:
    """Set elements to awkward values, bit by bit: a scalar assignment would quiet a signalling NaN."""
    for part in parts(array):
        size = part.dtype.itemsize
        words = part.view(f"{part.dtype.str[0]}u{size}")
        for index, choice in choices:
            words[np.unravel_index(index, words.shape)] = FLOAT_BITS[size][choice]


def destinations(dtype: Any, shape: tuple[int, ...]) -> SearchStrategy[Layout]:
    """A layout that an array of that shape and dtype can be written to: no element shares memory."""
    return layouts(dtype=dtype, shape=shape, distinct=True, native=True)


class Steps(NamedTuple):
    """A view of a larger array, made by the library's own indexing: slices, then a permutation of the axes."""

    parent: tuple[int, ...]
    slices: tuple[slice, ...]
    order: tuple[int, ...]

    def of(self, parent: Any) -> Any:
        """The view of an array of shape ``parent``; `torch` permutes, the others transpose."""
        view = parent[self.slices] if self.slices else parent
        permute = getattr(view, "permute", None) or view.transpose
        return permute(*self.order) if len(self.order) > 1 else view


@st.composite
def views(draw: DrawFn, *, negative: bool = False, max_dims: int = 4) -> Steps:
    """A strided view of a parent array, which any library with basic indexing can make.

    Args:
        draw: Given by Hypothesis.
        negative: Draw negative steps too, which not every library has.
        max_dims: Most axes.
    """
    dims = draw(st.integers(1, max_dims))
    parent, slices = [], []
    for _ in range(dims):
        extent = draw(st.integers(1, 5))
        step = draw(st.integers(1, 3))
        start = draw(st.integers(0, 2))
        parent.append(start + (extent - 1) * step + 1 + draw(st.integers(0, 1)))
        if negative and draw(st.booleans()):
            last = start + (extent - 1) * step
            slices.append(slice(last, start - 1 if start else None, -step))
        else:
            slices.append(slice(start, start + (extent - 1) * step + 1, step))
    return Steps(tuple(parent), tuple(slices), tuple(draw(st.permutations(range(dims)))))


def bits_of(nbytes: int, dtype: Any, *, seed: int) -> HostArray:
    """``nbytes`` of reproducible arbitrary bits as a one-dimensional array, for sizes beyond Hypothesis'."""
    wanted = np.dtype(dtype)
    data = np.frombuffer(bytearray(np.random.default_rng(seed).bytes(nbytes)), np.uint8)
    if wanted.kind == "b":
        data &= 1
    return data.view(wanted)
