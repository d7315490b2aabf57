"""Fourier transforms by a vendor's library, for memory that the host cannot read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xferlib._api.arrays import elementwise, indexing, shaping
from xferlib._api.arrays.joining import part
from xferlib._api.arrays.primitives import Primitives
from xferlib._core.array import Array, ArrayInfo

_MOST_AXES = 3
"""Of one operation of the library."""
_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}

DType = np.dtype[Any]


def along(lib: Primitives, name: str, x: Array, n: int | None, axis: int, norm: str, result: DType) -> Array:
    """The transform ``fft.name`` over one axis, which is not negative; ``result`` is its dtype."""
    if name == "hfft":
        return along(lib, "irfft", _conjugate(lib, x), n, axis, _SWAPPED[norm], result)
    if name == "ihfft":
        return _conjugate(lib, along(lib, "rfft", x, n, axis, _SWAPPED[norm], result))
    sizes: list[int | None] = [n]
    return over(lib, f"{name}n", x, sizes, [axis], norm, result)


def over(
    lib: Primitives, name: str, x: Array, sizes: Sequence[int | None], axes: Sequence[int], norm: str, result: DType
) -> Array:
    """The transform ``fft.name`` over several axes; a size of None is the array's."""
    single = np.dtype("complex64") if result.itemsize <= 8 and result != np.float64 else np.dtype("complex128")
    shape = lib.info(x).shape
    given = [shape[axis] if size is None else size for axis, size in zip(axes, sizes, strict=True)]
    is_inverse = "ifft" in name or "irfft" in name
    if name == "irfftn":
        if sizes[-1] is None:
            given[-1] = 2 * (given[-1] - 1)
        halved = [*given[:-1], given[-1] // 2 + 1]
        found = _prepared(lib, x, axes, halved, single)
        found = _complex(lib, found, axes[:-1], is_inverse=True)
        found = _last(lib, found, axes[-1], given[-1], result)
    elif name == "rfftn":
        real = np.empty(0, single).real.dtype
        found = _last(lib, _prepared(lib, x, axes, given, real), axes[-1], given[-1], result)
        found = _complex(lib, found, axes[:-1], is_inverse=False)
    else:
        found = _complex(lib, _prepared(lib, x, axes, given, single), axes, is_inverse=is_inverse)
    return _scaled(lib, found, math.prod(given), norm, is_inverse=is_inverse)


def _prepared(lib: Primitives, x: Array, axes: Sequence[int], sizes: Sequence[int], dtype: DType) -> Array:
    """A copy with its axes cut, or filled up with zeros, to ``sizes``."""
    for axis, size in zip(axes, sizes, strict=True):
        shape = lib.info(x).shape
        if shape[axis] > size:
            x = part(lib, x, axis, 0, size)
        elif shape[axis] < size:
            wide = indexing.filled(lib, (*shape[:axis], size, *shape[axis + 1 :]), 0, dtype, lib.info(x).device)
            indexing.assign(lib, part(lib, wide, axis, 0, shape[axis]), x)
            x = wide
    return x if lib.info(x).dtype == dtype else lib.copy(x, dtype)


def _run(lib: Primitives, x: Array, sizes: tuple[int, ...], out: Array, *, is_inverse: bool) -> None:
    def run(source: ArrayInfo, target: ArrayInfo, *, stream: Any) -> None:
        library = lib.math(stream.device)
        assert library is not None
        library.transform(source, target, sizes, is_inverse=is_inverse, stream=stream)

    if lib.info(out).size:
        lib.enqueue("fft", [x, out], run)


def _complex(lib: Primitives, x: Array, axes: Sequence[int], *, is_inverse: bool) -> Array:
    """Between complex numbers, over any number of axes, in their order as far as that counts."""
    while axes:
        some, axes = axes[-_MOST_AXES:], axes[:-_MOST_AXES]
        ends = tuple(range(-len(some), 0))
        moved = lib.copy(shaping.moveaxis(lib, x, tuple(some), ends))
        info = lib.info(moved)
        out = lib.empty(info.shape, info.dtype, info.device)
        _run(lib, moved, info.shape[-len(some) :], out, is_inverse=is_inverse)
        x = shaping.moveaxis(lib, out, ends, tuple(some))
    return x


def _last(lib: Primitives, x: Array, axis: int, size: int, dtype: DType) -> Array:
    """Between real numbers and one half of the complex ones, over one axis; ``size`` is the whole one's."""
    moved = lib.copy(shaping.moveaxis(lib, x, axis, -1))
    info = lib.info(moved)
    extent = size if dtype.kind == "f" else size // 2 + 1
    out = lib.empty((*info.shape[:-1], extent), dtype, info.device)
    _run(lib, moved, (size,), out, is_inverse=dtype.kind == "f")
    return shaping.moveaxis(lib, out, -1, axis)


def _scaled(lib: Primitives, x: Array, size: int, norm: str, *, is_inverse: bool) -> Array:
    if norm == "ortho":
        factor = 1 / math.sqrt(size)
    elif (norm == "backward") == is_inverse:
        factor = 1 / size
    else:
        return x if lib.info(x).is_c_contiguous else lib.copy(x)
    return elementwise.binary_kernel("multiply")(x, factor)


def _conjugate(lib: Primitives, x: Array) -> Array:
    return elementwise.unary_kernel("conj")(x) if lib.info(x).dtype.kind == "c" else x
